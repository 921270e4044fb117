"""Parquet within limits: a file's footer says what it decodes to before any of it is decoded.

In: a file and the columns and row groups that are asked for. Out: their table, or an error.

A few bytes of Parquet can stand for any number of rows, such as a run of equal values.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ragscore.frames.errors import DataError
from ragscore.io.file_content import check_regular, most_bytes
from ragscore.io.source import UNFORESEEN, naming

PARQUET_RATIO = 1000
"""How many times its size a file may decode to.

More than other compressed files, since equal values of a column take no room: scores of one run
decode to 35 times their size, those of many equal runs to 180.
"""


class LimitedParquet(pq.ParquetFile):  # type: ignore[misc]
    """A Parquet file that refuses to decode to more than its size allows.

    Parameters
    ----------
    opened
        The file, of which any part can be read.
    name
        What errors call it.
    """

    def __init__(self, opened: pa.NativeFile, name: Path | str) -> None:
        self._name, self._size = name, opened.size()
        # Each item of a list and each character of a text takes a byte of the file at least.
        super().__init__(
            opened,
            thrift_string_size_limit=max(self._size, 1),
            thrift_container_size_limit=max(self._size, 1),
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
        """Refuse what decodes to more than it may, as the footer says: bytes, or 8 for a value.

        Raises
        ------
        DataError
            It names the column at which the limit is passed.
        """
        most, decoded = most_bytes(self._size, PARQUET_RATIO), 0
        for group in map(self.metadata.row_group, row_groups) if most is not None else ():
            for chunk in map(group.column, range(group.num_columns)):
                path = str(chunk.path_in_schema)
                if columns is None or {path, path.partition(".")[0]} & {*columns}:
                    n = max(chunk.num_values, group.num_rows)
                    decoded += max(chunk.total_uncompressed_size, 8 * n)
                if most is not None and decoded > most:
                    raise DataError(
                        f"{self._size:,} bytes decode to more than {most:,}",
                        file=self._name,
                        field=path,
                        allowed=f"up to {PARQUET_RATIO:,} times the size of the file;"
                        " load it with max_bytes=None",
                    )


@contextmanager
def open_parquet_file(path: Path) -> Iterator[LimitedParquet]:
    """Open a Parquet file of this machine; whatever goes wrong names it."""
    check_regular(path)
    with (
        reading_parquet(path),
        pa.OSFile(str(path)) as opened,
        LimitedParquet(opened, path) as file,
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
