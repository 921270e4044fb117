"""Parquet within limits: a file's footer says what it decodes to before any of it is decoded.

In: a file and the columns that are asked for. Out: their table, or an error.

A few bytes of Parquet can stand for any number of rows, such as a run of equal values.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ragscore.frames.errors import DataError
from ragscore.io.files import UNFORESEEN, check_regular, most_bytes, naming

PARQUET_RATIO = 1000
"""How many times its size a file may decode to.

More than other compressed files, since equal values of a column take no room: scores of one run
decode to 35 times their size, those of many equal runs to 180.
"""


@contextmanager
def open_parquet_file(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file of this machine, to look at it; whatever goes wrong names it."""
    check_regular(path)
    with reading_parquet(path), pa.OSFile(str(path)) as opened:
        # Each item of a list and each character of a text takes a byte of the file at least.
        size = max(opened.size(), 1)
        yield pq.ParquetFile(
            opened, thrift_string_size_limit=size, thrift_container_size_limit=size
        )


def read_parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read these columns of all rows, or all, if they decode to no more than they may.

    Raises
    ------
    DataError
        It names the column at which the limit is passed: in bytes, or 8 for a value, as the footer
        says.
    """
    with open_parquet_file(path) as file:
        size, decoded = path.stat().st_size, 0
        most = most_bytes(size, PARQUET_RATIO)
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            for chunk in map(group.column, range(group.num_columns)):
                name = str(chunk.path_in_schema)
                if columns is None or {name, name.partition(".")[0]} & {*columns}:
                    n_values = max(chunk.num_values, group.num_rows)
                    decoded += max(chunk.total_uncompressed_size, 8 * n_values)
                if most is not None and decoded > most:
                    raise DataError(
                        f"{size:,} bytes decode to more than {most:,}",
                        file=path,
                        field=name,
                        allowed=f"up to {PARQUET_RATIO:,} times the size of the file;"
                        " load it with max_bytes=None",
                    )
        return file.read(columns)


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
