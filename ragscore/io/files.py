"""Files: read within limits, and written whole or not at all.

In: a path. Out: its bytes, text, lines or Parquet table, or one `DataError` that names it. All
files are opened here, so none takes memory out of proportion to what it is on disk; `size_limit`
sets the limit for all that one load opens. Files outside of a store are written by `replacing`.
"""

import gzip
import json
import os
import secrets
import shutil
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from ragscore.frames.data import DataError, Results
from ragscore.frames.escaping import visible

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MAX_BYTES = 1 << 26
"""The longest line, and what any compressed file may unpack to, however small it is."""
RATIO, PARQUET_RATIO = 100, 1000
"""How many times its size a larger file may unpack to.

JSON lines of runs unpack to 10 to 60 times their size, Parquet files of many equal runs to 180.
"""
LONGEST_ID = 1 << 16
"""The longest id or run tag. It is in each row of its query or run, and in every message."""
LIFT = "load it with max_bytes=None"
BLOCK_BYTES = 1 << 23
# A context and no argument: a limit holds for whatever a load opens, through twenty readers.
_LIMIT: ContextVar[int | None] = ContextVar("max_bytes", default=MAX_BYTES)
UNFORESEEN = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What broken files bring up where no reader looked for it."""
_BROKEN = (struct.error, zipfile.BadZipFile, zlib.error)


# Limits


@contextmanager
def size_limit(max_bytes: int | None) -> Iterator[None]:
    """Limit what files unpack to, and their longest line; None lifts these and all other limits."""
    token = _LIMIT.set(max_bytes)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def has_limits() -> bool:
    """Return False within `size_limit(None)`."""
    return _LIMIT.get() is not None


def check_unpacked(n_bytes: int, path: Path, ratio: int = RATIO) -> None:
    """Refuse a compressed file that unpacks to so many bytes, if these are too many."""
    size, limit = path.stat().st_size, _LIMIT.get()
    if limit is not None and n_bytes > max(limit, ratio * size):
        raise DataError(
            f"{size:,} bytes unpack to more than {max(limit, ratio * size):,}",
            file=path,
            allowed=f"up to {ratio:,} times the size of the file; unpack it first, or {LIFT}",
        )


def check_regular(path: Path) -> None:
    """Refuse what is no file: a pipe would be waited for, a device never ends or is replaced."""
    if path.exists() and not path.is_file():
        found = "is a folder" if path.is_dir() else "is a pipe, a device or the like"
        raise DataError(found, file=path, allowed="a file")


@contextmanager
def naming(file: Path | str) -> Iterator[None]:
    """Name the file in whatever goes wrong while it is read.

    Files are broken in more ways than readers can foresee: an error that none of them knows is the
    file's, too, and keeps its cause.
    """
    try:
        yield
    except DataError as error:
        if error.file is not None:
            raise
        raise DataError(
            error.found, file=file, line=error.line, field=error.field, allowed=error.allowed,
            columns=error.columns,
        ) from error  # fmt: skip
    except (*UNFORESEEN, *_BROKEN, OSError, MemoryError, pa.ArrowException) as error:
        raise DataError(
            f"can't be read ({type(error).__name__}: {visible(str(error)[:200])})",
            file=file,
            allowed="a whole file of a known format; pass format= if it was taken for another",
        ) from error


# Bytes, text and lines


class _Unpacked(gzip.GzipFile):
    """The content of a gzip file, which ends in an error where there is too much of it."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        check_unpacked(self.tell(), Path(str(self.name)))
        return data


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, and unpack it if its name ends in .gz.

    Raises
    ------
    DataError
        The file can't be read, or unpacks to more than it may.
    """
    check_regular(path)
    try:
        opening: Any = _Unpacked(path) if path.suffix == ".gz" else path.open("rb")
        with opening as opened:
            yield opened
    except (OSError, EOFError, zlib.error) as error:
        reason = error.args[-1] if error.args else error
        raise DataError(f"can't be read: {reason}", file=path) from error


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, unpacked if it ends in .gz."""
    with open_bytes(path) as opened:
        return b"".join(iter(lambda: opened.read(BLOCK_BYTES), b""))


def read_text(path: Path) -> str:
    """Return the text of a file: UTF-8, gzip if it ends in .gz, without a byte-order mark.

    Lines that end in a carriage return alone end in a line feed instead.

    Raises
    ------
    DataError
        The file can't be read, or a byte of it isn't UTF-8 (the error names its line).
    """
    return text_of(read_bytes(path), path)


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file of any size.

    Raises
    ------
    DataError
        As `read_text`; or a line is too long.
    """
    for begin, block in line_blocks(path):
        yield from lines_of(block.removesuffix(b"\n"), path, begin)


def line_blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield a file of any size in blocks of whole lines, each with the number of its first line.

    Raises
    ------
    DataError
        The file can't be read, or a line is too long.
    """
    limit, begin = _LIMIT.get() or sys.maxsize, 1
    with open_bytes(path) as opened:
        while block := opened.read(BLOCK_BYTES):
            if len(rest := opened.readline(limit)) >= limit:
                found = f"a line of more than {limit:,} bytes"
                allowed = f"shorter lines, or {LIFT}"
                line = begin + block.count(b"\n")
                raise DataError(found, file=path, line=line, allowed=allowed)
            block += rest
            yield begin, block
            begin += block.count(b"\n")


def text_of(block: bytes, path: Path, begin: int = 1) -> str:
    """Return a block of lines as text; the first line has this number.

    Raises
    ------
    DataError
        A byte of it isn't UTF-8.
    """
    try:
        text = block.decode("utf-8-sig" if begin == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte {block[error.start]:#x} is not UTF-8",
            file=path,
            line=begin + block.count(b"\n", 0, error.start),
            allowed="files must be UTF-8",
        ) from error
    return text if "\n" in text else text.replace("\r", "\n")  # lines may end in that alone


def lines_of(block: bytes, path: Path, begin: int = 1) -> list[str]:
    """Return the lines of a block, as `text_of` does."""
    return text_of(block, path, begin).split("\n")


# Parquet


@contextmanager
def open_parquet(path: Path) -> Iterator["pq.ParquetFile"]:
    """Open a Parquet file of this machine, to look at it; whatever goes wrong names it."""
    import pyarrow.parquet as pq

    check_regular(path)
    with naming(path), pa.OSFile(str(path)) as opened:
        # Each item of a list and each character of a text takes a byte of the file at least.
        size = max(opened.size(), 1)
        yield pq.ParquetFile(
            opened, thrift_string_size_limit=size, thrift_container_size_limit=size
        )


def read_parquet(path: Path) -> pa.Table:
    """Read a Parquet file, if it decodes to no more than it may.

    Its footer says to how many bytes and values (of 8 bytes) each column decodes: a few bytes of
    Parquet can become any number of rows, such as a run of equal values.
    """
    with open_parquet(path) as file:
        groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
        columns = [group.column(n) for group in groups for n in range(group.num_columns)]
        n_bytes = sum(max(one.total_uncompressed_size, 8 * one.num_values) for one in columns)
        check_unpacked(n_bytes, path, PARQUET_RATIO)
        return file.read()


# Writing


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of an old one when it is complete.

    It is written beside under a name of its own, and put in place by one rename once it is on
    disk. Readers, and crashes at any moment, leave the old file or the new one; a killed writer
    also leaves a hidden file that ends in `.staging`. The folder is created. A link stays one: the
    file that it leads to is replaced.

    Raises
    ------
    DataError
        The disk is full, the folder can't be written to or is gone, and the like. It says what is
        there now; nothing else is left beside.
    """
    name = Path(path)
    check_regular(name)
    try:
        file = Path(os.path.realpath(name))
        file.parent.mkdir(parents=True, exist_ok=True)
        staging = file.with_name(f".{secrets.token_hex(8)}.staging")
        try:
            with staging.open("xb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            if file.exists():
                shutil.copymode(file, staging)
            staging.replace(file)
        finally:
            staging.unlink(missing_ok=True)
    except OSError as error:
        kept = "the file there is as it was" if name.exists() else "nothing was written"
        found = f"can't be written ({error.strerror or error})"
        raise DataError(found, file=name, allowed=kept) from error


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Write a file; see `replacing`."""
    with replacing(path) as out:
        out.write(data)
    return Path(path)


def write_text(path: str | Path, text: str) -> Path:
    """Write a file in UTF-8, gzip if it ends in .gz; see `replacing`."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{text[error.start]!r} is half a character", file=path, allowed="text as UTF-8 has it"
        ) from error
    return write_bytes(path, gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data)


def write_lines(path: str | Path, records: Iterable[dict[str, Any]]) -> Path:
    """Write JSON objects, one per line."""
    return write_text(path, "".join(f"{json_line(record)}\n" for record in records))


def write_json(path: str | Path, content: dict[str, Any], indent: int = 1) -> Path:
    """Write one indented JSON object; NaN is a ValueError, since JSON has none."""
    return write_text(
        path, json.dumps(content, ensure_ascii=False, indent=indent, allow_nan=False) + "\n"
    )


def json_line(record: dict[str, Any]) -> str:
    """Return a record as one line of JSON."""
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{str(record)[:60]}: {error}",
            field="x_",
            allowed="text, finite numbers, true or false, and JSON text in x_*.json columns",
        ) from error


def check_one_run(results: Results) -> None:
    """Raise a DataError for anything but one run, where a file holds one."""
    if len(results.runs) != 1:
        raise DataError(
            f"found {len(results.runs)} runs",
            field="results",
            allowed="exactly one; choose it with results.select([name])",
        )
