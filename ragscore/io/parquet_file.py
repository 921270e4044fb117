"""Parquet within limits: what a file decodes to is known before any of it is decoded.

In: a file and the columns and row groups that are asked for. Out: their table, or an error.

A few bytes of Parquet can stand for any number of rows: a run of equal values, a short page that
unpacks to gigabytes. The footer says how much, and may lie. So the headers of pages, by which arrow
itself goes, are read, and the longest value of each dictionary.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ragscore.frames.errors import DataError
from ragscore.io.file_content import check_regular, most_bytes
from ragscore.io.source import UNFORESEEN, naming

PARQUET_RATIO = 1000
"""How many times its size a file may decode to.

More than other compressed files, since equal values of a column take no room: scores of one run
decode to 35 times their size, those of many equal runs to 180. The store pads what would not do.
"""
OBJECT_BYTES = 64  # of a value that becomes an object of Python
_WIDTHS = {"BOOLEAN": 1, "INT32": 8, "INT64": 8, "INT96": 12, "FLOAT": 8, "DOUBLE": 8}
_DELTAS = (6, 7)  # DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY
_DICTIONARY, _SECOND_VERSION = 2, 3  # types of pages
_ABOUT = {0: 5, _DICTIONARY: 7, _SECOND_VERSION: 8}  # the field that describes a page of a type
_LONGEST_HEADER = 1 << 24
_LENGTH = Struct("<I")
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4_HADOOP", "ZSTD", "LZ4")


class LimitedParquet(pq.ParquetFile):  # type: ignore[misc]
    """A Parquet file that refuses to decode to more than its size allows.

    Parameters
    ----------
    opened
        The file, of which any part can be read.
    name
        What errors call it.
    as_objects
        Values become objects of Python, which take more room.
    trusts_footer
        Don't read the headers of pages, where each reading is a request.
    way_on
        What to do about a refusal.
    """

    def __init__(
        self,
        opened: pa.NativeFile,
        name: Path | str,
        *,
        as_objects: bool = False,
        trusts_footer: bool = False,
        way_on: str = "load it with max_bytes=None",
        **options: Any,
    ) -> None:
        self._opened, self._name, self._way_on = opened, name, way_on
        self._as_objects, self._trusts_footer = as_objects, trusts_footer
        self._size = opened.size()
        # Each item of a list and each character of a text takes a byte of the file at least.
        super().__init__(
            opened,
            thrift_string_size_limit=max(self._size, 1),
            thrift_container_size_limit=max(self._size, 1),
            **options,
        )

    def read(self, columns: list[str] | None = None, **options: Any) -> pa.Table:
        """Read these columns of all rows."""
        self._check(columns, range(self.num_row_groups))
        return super().read(columns, **options)

    def read_row_groups(
        self, row_groups: Sequence[int], columns: list[str] | None = None, **options: Any
    ) -> pa.Table:
        """Read these columns of some row groups."""
        self._check(columns, row_groups)
        return super().read_row_groups(row_groups, columns, **options)

    def iter_batches(
        self,
        batch_size: int = 65536,
        row_groups: Sequence[int] | None = None,
        columns: list[str] | None = None,
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Read these columns some rows at a time."""
        self._check(columns, range(self.num_row_groups) if row_groups is None else row_groups)
        return super().iter_batches(batch_size, row_groups, columns, **options)

    def _check(self, columns: list[str] | None, row_groups: Iterable[int]) -> None:
        """Refuse what decodes to more than it may.

        Raises
        ------
        DataError
            It names the column at which the limit is passed.
        """
        most = most_bytes(self._size, PARQUET_RATIO)
        if most is None:
            return
        metadata, groups = self.metadata, list(row_groups)
        leaves = [
            (number, leaf)
            for number, leaf in enumerate(map(metadata.schema.column, range(metadata.num_columns)))
            if columns is None or {leaf.path, leaf.path.partition(".")[0]} & set(columns)
        ]
        # First by what no value of a dictionary can exceed, all of it; the longest of them takes
        # decoding it, which few files need.
        for by_longest in (False, True):
            passed_at = self._passes(most, groups, leaves, by_longest)
            if passed_at is None:
                return
        raise DataError(
            f"{self._size:,} bytes decode to more than {most:,}",
            file=self._name,
            field=passed_at,
            allowed=f"up to {PARQUET_RATIO:,} times the size of the file; {self._way_on}",
        )

    def _passes(
        self, most: int, groups: list[int], leaves: list[tuple[int, Any]], by_longest: bool
    ) -> str | None:
        """Return the column at which the limit is passed, if it is."""
        decoded = 0
        for group in map(self.metadata.row_group, groups):
            for number, leaf in leaves:
                n_rows = group.num_rows
                decoded += self._decoded(group.column(number), n_rows, leaf, most, by_longest)
                if decoded > most:
                    return str(leaf.path)
        return None

    def _decoded(self, chunk: Any, n_rows: int, leaf: Any, most: int, by_longest: bool) -> int:
        """Return what a column of a row group decodes to at most."""
        pages = [] if self._trusts_footer else list(self._pages(chunk))
        if any(page.encoding in _DELTAS for page in pages):
            raise DataError(
                "texts written as differences, whose size isn't known before they are decoded",
                file=self._name,
                field=leaf.path,
                allowed=f"a plain encoding or a dictionary; {self._way_on}",
            )
        n = max(chunk.num_values, n_rows, sum(page.n for page in pages if not page.is_dictionary))
        unpacked = max(chunk.total_uncompressed_size, sum(page.unpacked for page in pages))
        dictionaries = [page for page in pages if page.is_dictionary]
        unpacked += 16 * sum(page.n for page in dictionaries)
        # Lists and mappings become objects whoever reads them.
        each = OBJECT_BYTES if self._as_objects or leaf.max_repetition_level else 0
        if chunk.physical_type != "BYTE_ARRAY":
            width = _WIDTHS.get(chunk.physical_type) or max(leaf.length, 8)
            return max(n * width, unpacked) + n * each
        if pa.types.is_dictionary(self._type(leaf.path)):
            return unpacked + 4 * n
        decoded = unpacked + n * (8 + each)
        for page in dictionaries:
            if not by_longest:
                decoded += n * page.unpacked
            elif page.unpacked <= most:
                decoded += n * self._longest(page, chunk.compression)
            else:
                return page.unpacked
        return decoded

    def _type(self, path: str) -> pa.DataType:
        place = self._columns.get_field_index(path)
        return self._columns.field(place).type if place >= 0 else pa.null()

    @cached_property
    def _columns(self) -> pa.Schema:
        return self.schema_arrow  # which is made anew for each call

    def _pages(self, chunk: Any) -> Iterator["_Page"]:
        """Yield the pages of a column, as far as arrow reads them."""
        at = chunk.data_page_offset
        if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < at:
            at = chunk.dictionary_page_offset
        end, seen = min(at + chunk.total_compressed_size, self._size), 0
        while at < end and seen < chunk.num_values:
            page = self._page(at, end)
            yield page
            seen += 0 if page.is_dictionary else page.n
            at = page.start + page.packed

    def _page(self, at: int, end: int) -> "_Page":
        length = 256
        while True:
            try:
                head, n_bytes = _struct(self._opened.read_at(min(length, end - at), at), 0)
                break
            except IndexError:
                if length >= min(end - at, _LONGEST_HEADER):
                    raise _broken(self._name) from None
                length *= 16
        kind = head.get(1, -1)
        about = head.get(_ABOUT.get(kind, 0), {})
        page = _Page(
            kind == _DICTIONARY,
            about.get(1, 0),
            about.get(4 if kind == _SECOND_VERSION else 2, 0),
            head.get(2, -1),
            head.get(3, -1),
            at + n_bytes,
        )
        # Arrow cuts longer numbers to 32 bits.
        if min(page) < 0 or max(page[:-1]) >= 2**31:
            raise _broken(self._name)
        return page

    def _longest(self, page: "_Page", codec: str) -> int:
        """Return the length of the longest value of a dictionary.

        A dictionary is laid out as a plain page is. Arrow reads it as one, in a file of its own: a
        loop over its values would take as long as reading what refers to them.
        """
        n, packed = _zigzag(page.n), self._opened.read_at(page.packed, page.start)
        head = b"".join((
            b"\x15\0\x15", _zigzag(page.unpacked), b"\x15", _zigzag(page.packed),
            b"\x2c\x15", n, b"\x15\0\x15\6\x15\6\0\0",
        ))  # fmt: skip
        size = _zigzag(len(head) + page.packed)
        footer = b"".join((
            b"\x15\2\x19\x2cH\1s\x15\2\0\x15\x0c%\0\x18\1v\0\x16", n, b"\x19\x1c\x19\x1c&\x08\x1c",
            b"\x15\x0c\x19\x15\0\x19\x18\1v\x15", _zigzag(_CODECS.index(codec)), b"\x16", n,
            b"\x16", size, b"\x16", size, b"&\x08\0\0\x16", size, b"\x16", n, b"\0\0",
        ))  # fmt: skip
        alone = [b"PAR1", head, packed, footer, _LENGTH.pack(len(footer)), b"PAR1"]
        with pq.ParquetFile(pa.BufferReader(b"".join(alone))) as file:
            return pc.max(pc.binary_length(file.read().column(0))).as_py() or 0


class _Page(NamedTuple):
    """A page by its header: its values, and its bytes unpacked and packed."""

    is_dictionary: bool
    n: int
    encoding: int
    unpacked: int
    packed: int
    start: int


def _broken(name: Path | str) -> DataError:
    return DataError("not readable as Parquet (a page has no header)", file=name)


def _struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Parse a struct of Thrift's compact protocol; return its i32 and structs, and where it ends.

    An IndexError says that it goes on behind the data.
    """
    found: dict[int, Any] = {}
    field = 0
    while head := data[at]:
        at, kind = at + 1, head & 15
        if head >> 4:
            field += head >> 4
        else:
            field, at = _number(data, at)
        field &= 0xFFFF
        if kind == 5:
            found[field], at = _number(data, at)
        elif kind == 12 and depth < 4:
            found[field], at = _struct(data, at, depth + 1)
        elif kind == 8:
            n, at = _varint(data, at)
            at += n
        elif kind in (4, 6):
            _, at = _number(data, at)
        elif kind in (3, 7):
            at += 1 if kind == 3 else 8
        elif kind not in (1, 2):
            raise ValueError("a page's header holds what none has")
    return found, at + 1


def _zigzag(value: int) -> bytes:
    """Return a number from 0 as Thrift's compact protocol writes it."""
    value, written = value << 1, bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _number(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] > 0x7F:
        value, shift, at = value | (data[at] & 0x7F) << shift, shift + 7, at + 1
    return value | data[at] << shift, at + 1


@contextmanager
def open_parquet_file(path: Path, *, as_objects: bool = False) -> Iterator[LimitedParquet]:
    """Open a Parquet file of this machine; whatever goes wrong names it."""
    check_regular(path)
    with (
        reading_parquet(path),
        pa.OSFile(str(path)) as opened,
        LimitedParquet(opened, path, as_objects=as_objects) as file,
    ):
        yield file


@contextmanager
def reading_parquet(file: Path | str, allowed: str | None = None) -> Iterator[None]:
    """Name the file in whatever goes wrong while it is read as Parquet."""
    with naming(file):
        try:
            yield
        except DataError:
            raise
        except (pa.ArrowException, MemoryError, OSError, *UNFORESEEN) as error:
            told = "it needs more memory than there is" if isinstance(error, MemoryError) else error
            raise DataError(f"not readable as Parquet ({told})", allowed=allowed) from error
