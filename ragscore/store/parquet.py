"""Read and write the tables of a store as Parquet; errors name the file."""

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ragscore.frames.data import KINDS, categorical, conform
from ragscore.frames.errors import DataError
from ragscore.io.parquet_file import reading_parquet
from ragscore.store.checked import AGAIN, READ_AT_ONCE, StoredFile
from ragscore.store.draft import Draft

T = TypeVar("T")
U = TypeVar("U")
_TEXTS_OF_FEW_VALUES = (
    "path",
    "heading",
    "chunker_version",
    "span_unit",
    "score_kind",
    "rule",
    "level",
)
# Page checksums are for others who read the tables; a store verifies more than pages.
WRITTEN_WITH = {"compression": "zstd", "write_page_checksum": True}
# Ids that the encoding of a large column is chosen by; how much larger plain texts may be.
ID_SAMPLE = 2**16
MOST_PLAIN = 1.1
# Keys of a file's metadata: the response of the run that each row group begins at, and the number
# of rows of each response, where rows lie in the order of the responses.
RESPONSES_KEY = b"ragscore.responses"
LENGTHS_KEY = b"ragscore.lengths"
# The first row of each row group, and the first response that it holds rows of.
Groups = tuple[list[int], list[int]]
Lengths = npt.NDArray[np.int32]


def read_parquet(file: StoredFile, columns: list[str] | None = None) -> pd.DataFrame:
    """Read a Parquet table, or these columns of it."""
    with open_parquet(file) as source:
        return source.read(columns).to_pandas()


@contextmanager
def open_parquet(
    file: StoredFile, read_dictionary: list[str] | None = None
) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file to read parts of it; columns of `read_dictionary` stay codes."""
    is_small = file.entry.size <= READ_AT_ONCE
    with (
        reading_parquet(str(file), AGAIN),
        file.open() as opened,
        pq.ParquetFile(
            opened,
            read_dictionary=read_dictionary or None,
            # What is in memory already needs no thread to fetch it ahead.
            pre_buffer=not is_small,
        ) as source,
    ):
        yield source


def read_each(read: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Return what `read` makes of each item, several at once: arrow decodes without Python's lock.

    It should leave arrow's own threads alone: within small files they only cost.
    """
    # Handing a file over takes a tenth of the time of reading a small one, so some go together.
    size = max(len(items) // (8 * pa.cpu_count()), 1)
    some = [items[first : first + size] for first in range(0, len(items), size)]
    with ThreadPoolExecutor(max_workers=pa.cpu_count()) as pool:
        return [one for found in pool.map(lambda own: list(map(read, own)), some) for one in found]


def columns_without(file: pq.ParquetFile, without: tuple[str, ...]) -> list[str]:
    """Return the column names of a table except these.

    "x_*" are all columns of your own, but for those that stand there as "+x_name".
    """
    return [
        name
        for name in file.schema_arrow.names
        if name not in without
        and not ("x_*" in without and name.startswith("x_") and f"+{name}" not in without)
    ]


def known_columns(names: Iterable[str], kind: str) -> list[str]:
    """Return the names of columns that are declared for this kind of frame."""
    known, prefixes = KINDS[kind].dtypes, KINDS[kind].open_prefixes or ("\0",)
    return [name for name in names if name in known or str(name).startswith(prefixes)]


def read_frame(file: StoredFile, kind: str) -> pd.DataFrame:
    """Read a table as a frame of this kind, without undeclared columns."""
    frame = read_parquet(file)
    with reading_parquet(str(file), AGAIN):
        if kind == "calls" and "hop" in frame:
            frame = frame.assign(call=frame["hop"] + 1)  # as hops counted from 0
        return conform(frame[known_columns(frame.columns, kind)], kind)


def write_frame(
    draft: Draft,
    kind: str,
    frame: pd.DataFrame,
    run_id: str,
    groups: Groups | None = None,
    lengths: Lengths | None = None,
) -> None:
    """Write a frame of one run; every table carries its run, shared frames too."""
    rows, notes = None, {}
    if groups is not None:
        rows, notes[RESPONSES_KEY] = groups[0], json.dumps(groups[1])
    if lengths is not None:
        notes[LENGTHS_KEY] = packed(lengths)
    write_parquet(draft, kind, of_run(frame, run_id), rows, notes)


def of_run(frame: pd.DataFrame, run_id: str) -> pd.DataFrame:
    """Return the frame of one run with that run in every row."""
    return frame.assign(run_id=categorical(np.zeros(len(frame), np.int8), [run_id]))


def write_parquet(
    draft: Draft,
    kind: str,
    frame: pd.DataFrame,
    rows: list[int] | None = None,
    notes: dict[bytes, str] | None = None,
) -> None:
    """Write a table. Ids are written as dictionaries: small, and fast to join when read.

    Parameters
    ----------
    rows
        The first rows of its row groups; one group by default.
    notes
        Values for the file's metadata. They are not in the schema, so whoever writes the table
        elsewhere, in another order, doesn't carry them along.
    """
    table = as_table(frame)
    bounds = [*(rows or [0]), table.num_rows]
    with (
        draft.create(kind) as out,
        pq.ParquetWriter(out, table.schema, **_options(table.slice(0, bounds[1]))) as writer,
    ):
        for first, last in pairwise(bounds):
            writer.write_table(
                table.slice(first, last - first), row_group_size=max(last - first, 1)
            )
        writer.add_key_value_metadata(notes or {})


def as_table(frame: pd.DataFrame) -> pa.Table:
    """Return the arrow table that is written of a frame."""
    columns = {
        name: column.astype("category") if name == "run_id" else column
        for name, column in frame.items()
    }
    return pa.Table.from_pandas(pd.DataFrame(columns), preserve_index=False)


def packed(lengths: Lengths) -> str:
    """Pack numbers of rows for a file's metadata; mostly all are equal and compress well."""
    return base64.b64encode(zlib.compress(lengths.astype("<i4").tobytes(), 1)).decode("ascii")


def lengths_of(file: pq.ParquetFile) -> Lengths | None:
    """Return the number of rows of each response; None if the file doesn't say it legibly."""
    try:
        return np.frombuffer(
            zlib.decompress(base64.b64decode((file.metadata.metadata or {})[LENGTHS_KEY])), "<i4"
        )
    except (KeyError, ValueError, zlib.error):
        return None


def write_groups(
    draft: Draft,
    kind: str,
    tables: Iterable[tuple[pa.Table, int]],
    lengths: Lengths | None = None,
) -> list[int]:
    """Write tables of the same columns as the row groups of one file.

    Each comes with the response that it begins at. Return those.
    """
    begins: list[int] = []
    with draft.create(kind) as out, ExitStack() as stack:
        for table, begin in tables:
            if not begins:
                writer = stack.enter_context(pq.ParquetWriter(out, table.schema, **_options(table)))
            writer.write_table(table, row_group_size=max(len(table), 1))
            begins.append(begin)
        if len(begins) > 1:
            writer.add_key_value_metadata({RESPONSES_KEY: json.dumps(begins)})
        if begins and lengths is not None:
            writer.add_key_value_metadata({LENGTHS_KEY: packed(lengths)})
    return begins


def _options(table: pa.Table) -> dict[str, Any]:
    """Return how tables like this one, a row group, are written."""
    ids = [
        name
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name in _TEXTS_OF_FEW_VALUES or (name.endswith("_id") and _is_best_coded(column))
    ]
    return WRITTEN_WITH | {"use_dictionary": ids, "dictionary_pagesize_limit": 2**27}


def _is_best_coded(column: pa.ChunkedArray) -> bool:
    """Return whether a dictionary makes a column of ids clearly smaller than compression alone.

    If not, plain texts are written and read several times faster. Sizes are estimated from a
    sample, as if each row drew its id from so many equally likely ones.
    """
    n = len(column)
    if n < 4 * ID_SAMPLE or not pa.types.is_large_string(column.type):
        return True
    spread = column.take(pa.array(np.linspace(0, n - 1, ID_SAMPLE).astype(np.int64)))
    # A sample that repeats no id can come from any number; one repetition is as good a guess.
    n_drawn = min(pc.count_distinct(spread).as_py(), ID_SAMPLE - 1)
    sizes = np.geomspace(1, ID_SAMPLE**2, 1000)
    n_values = sizes[np.searchsorted(sizes * -np.expm1(-ID_SAMPLE / sizes), n_drawn).clip(max=999)]
    n_distinct = n_values * -np.expm1(-n / n_values)
    texts = "".join(column[:ID_SAMPLE].fill_null("").to_pylist()).encode()
    plain = n * len(pa.compress(texts, codec="zstd")) / ID_SAMPLE
    return plain > MOST_PLAIN * (plain * n_distinct / n + n * np.log2(n_distinct + 1) / 8)


def check_columns(frame: pd.DataFrame, kind: str) -> None:
    """Refuse columns that Parquet can't hold: values of several types."""
    for name in [name for name, column in frame.items() if column.dtype == object]:
        try:
            pa.array(frame[name], from_pandas=True)
        except (pa.ArrowException, ValueError) as error:
            raise DataError(
                f"values of several types ({error})",
                field=f"{kind}.{name}",
                allowed="values of one type, such as text",
            ) from error
