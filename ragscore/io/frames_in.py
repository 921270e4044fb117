"""Whatever holds a table -> one DataFrame, and the line of each of its rows.

In: a frame of pandas or of anything with `__arrow_c_stream__`, records, dicts, or a file of CSV,
TSV, Parquet or JSON. Cells are as their source has them; who reads a column checks them.
"""

import csv
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ragscore.frames.data import DataError
from ragscore.frames.typing import Codes
from ragscore.io.columns import Columns, are_means, names_query
from ragscore.io.detect import sample
from ragscore.io.files import open_bytes
from ragscore.io.rows import delimiter_of, json_value, plain_cell, table_rows, value_at
from ragscore.io.run_records import kinds_of, series, values_of
from ragscore.io.source import Problems, as_id, describe
from ragscore.io.values import ID_ALLOWED

_PLAIN = {str, int, float, bool, list, dict}


@dataclass(frozen=True)
class Table:
    """A table, whatever holds it.

    Attributes
    ----------
    name, kind
        Its file, or "frame" and the like, and what it is, for messages.
    frame, lines
        Its rows, and the line of each: from 2 in a CSV file.
    """

    name: str
    kind: str
    frame: pd.DataFrame
    lines: Codes

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Each column with its first value that isn't missing."""
        return {str(name): _first(self.frame[name]) for name in self.frame.columns}

    def __len__(self) -> int:
        return len(self.frame)

    def column(self, name: str) -> pd.Series:
        """Return a column, which may lie inside another one."""
        if name in self.frame.columns:
            return self.frame[name]
        outer = next(
            (one for one in sorted(self.frame.columns, key=len, reverse=True)
             if name.startswith(f"{one}.")), None,
        )  # fmt: skip
        cells = [None] * len(self) if outer is None else self.frame[outer]
        values = [value_at({outer: plain_cell(cell)}, name) for cell in cells]
        return pd.Series(values, dtype=object, name=name)


def _first(column: pd.Series) -> Any:
    known = column.iloc[:1000].dropna()
    known = known if len(known) else column.dropna()
    value = plain_cell(known.iloc[0]) if len(known) else None
    if value in ([], {}, "[]"):  # an empty list first: the next ones may hold something
        more = (plain_cell(one) for one in known.iloc[1:100])
        return next((one for one in more if one not in ([], {}, "[]")), value)
    return value


def frame_table(
    frame: pd.DataFrame, name: str = "frame", kind: str = "frame", first: int = 1
) -> Table:
    """Return a pandas frame as a table; names of its index are columns like others."""
    twice = frame.columns[frame.columns.duplicated()].unique().tolist()
    if twice or isinstance(frame.columns, pd.MultiIndex):
        found = f"column {twice[0]!r} is there twice" if twice else "columns of several levels"
        raise DataError(found, file=name, field="columns", allowed="one name per column, once")
    named = [one for one in frame.index.names if one is not None and one not in frame.columns]
    if named and len(named) == frame.index.nlevels:
        frame = frame.reset_index()
    hidden = [one for one in frame.columns if str(one).startswith("__index_level_")]
    frame = frame.drop(columns=hidden)
    frame = frame.set_axis([str(one) for one in frame.columns], axis=1).reset_index(drop=True)
    return Table(name, kind, frame, np.arange(first, len(frame) + first))


def arrow_table(data: pa.Table, name: str = "frame", kind: str = "frame", first: int = 1) -> Table:
    """Return an Arrow table as a table: texts and numbers stay in Arrow's memory."""
    columns = {
        column: _from_arrow(data.column(place), column)
        for place, column in enumerate(data.column_names)
    }
    if len(columns) < len(data.column_names):
        raise DataError("a column is there twice", file=name, allowed="one name per column, once")
    return frame_table(pd.DataFrame(columns, copy=False), name, kind, first)


def _from_arrow(column: pa.ChunkedArray, name: str) -> pd.Series:
    of = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of)
    if pa.types.is_dictionary(column.type) and is_text:
        # Arrow can't decode views of text: its dictionary is cast first.
        chunks = [
            pa.DictionaryArray.from_arrays(one.indices, one.dictionary.cast(pa.large_string()))
            for one in column.chunks
        ]
        column = pa.chunked_array(chunks, pa.dictionary(column.type.index_type, pa.large_string()))
    if is_text:
        return pd.Series(pd.array(column.cast(pa.large_string()), dtype="str"), name=name)
    if pa.types.is_nested(of):  # rows per query, as a rule
        return pd.Series(column.to_pylist(), dtype=object, name=name)
    if pa.types.is_integer(of) and column.null_count:
        is_unsigned = pa.types.is_unsigned_integer(of)
        dtype = pd.UInt64Dtype() if is_unsigned else pd.Int64Dtype()
        return column.to_pandas(types_mapper=lambda _: dtype).rename(name)
    return column.to_pandas().rename(name)


def file_table(path: Path, problems: Problems, kind: str) -> Table:
    """Return the table that a file holds: CSV, TSV, Parquet, JSON or JSON lines.

    Cells of CSV stay texts as they are written. What isn't a row of the table is a problem.
    """
    if kind == "parquet":
        from ragscore.io.files import read_parquet

        return arrow_table(read_parquet(path), str(path), "parquet")
    if kind == "text":
        with open_bytes(path) as opened:
            begin = opened.read(1 << 16).decode("utf-8-sig", errors="replace")
        if (table := _csv_table(path, begin)) is not None:
            return table
        kind = "csv"
    rows = list(table_rows(path, problems))
    return record_table([row.values for row in rows], str(path), kind, [row.line for row in rows])


def _csv_table(path: Path, begin: str) -> Table | None:
    """Return a CSV file with all cells as texts; None where only the reader of rows can say more.

    That is, for rows with more or fewer cells than the header, and broken text.
    """
    from pyarrow import csv as pa_csv

    try:
        delimiter = delimiter_of(begin)
        header = next(csv.reader([begin.splitlines()[0]], delimiter=delimiter))
        if len(set(header)) < len(header) or "" in header[1:]:
            return None
        # Arrow unpacks gzip itself, without a limit.
        is_packed = path.suffix == ".gz"
        with open_bytes(path) if is_packed else nullcontext(path) as content:
            read = pa_csv.read_csv(
                content,
                parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(header, pa.large_string()),
                    strings_can_be_null=True,
                    null_values=[""],
                ),
            )
        names = read.column_names
    except (pa.ArrowException, UnicodeError, OSError, IndexError, StopIteration, csv.Error):
        return None
    table = arrow_table(read.rename_columns(names), str(path), "csv", 2)
    # The index that pandas writes without a name.
    return replace(table, frame=table.frame.drop(columns="", errors="ignore"))


def record_table(
    records: list[Any], name: str = "records", kind: str = "", lines: list[int] | None = None
) -> Table:
    """Return a list of records as a table."""
    lines = lines or [*range(1, len(records) + 1)]
    for line, record in zip(lines, records, strict=True):
        if not isinstance(record, Mapping):
            found = f"found {type(record).__name__}"
            raise DataError(found, file=name, line=line, allowed="a dict per row")
    names = dict.fromkeys(chain.from_iterable(dict.fromkeys(map(tuple, records))))
    columns = {
        str(one): _column([record.get(one) for record in records], str(one), name, lines)
        for one in names
    }
    frame = pd.DataFrame(columns, index=range(len(records)), copy=False)
    return Table(name, kind or name, frame, np.array(lines, np.int64))


def _column(values: list[Any], field: str, file: str, lines: list[int]) -> pd.Series:
    """Return values as a column of one type, else as Python has them, None for missing ones."""
    kinds = kinds_of(values)
    if not kinds <= _PLAIN or (float in kinds and len(kinds) > 1):
        values = [
            plain_cell(one, field, line, file) for one, line in zip(values, lines, strict=True)
        ]
    try:
        found = values_of(values)
    except UnicodeError:  # half a surrogate pair
        values = [
            plain_cell(one, field, line, file) for one, line in zip(values, lines, strict=True)
        ]
        found = values
    return pd.Series(found, dtype=object) if isinstance(found, list) else series(found)


def frame_of(source: Any, allowed: str) -> Table:
    """Return a frame of any library as a table.

    Raises
    ------
    DataError
        It is none; `allowed` is what the caller takes.
    """
    if isinstance(source, pd.DataFrame):
        return frame_table(source)
    if hasattr(source, "__arrow_c_stream__") and not isinstance(source, pd.Series):
        try:
            return arrow_table(source if isinstance(source, pa.Table) else pa.table(source))
        except (TypeError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{type(source).__name__}: {error}", allowed=allowed) from error
    if callable(getattr(source, "to_pandas", None)):
        return frame_table(source.to_pandas())
    hint = "; collect() it first" if hasattr(source, "collect") else ""
    raise DataError(f"found {type(source).__name__}", field="source", allowed=f"{allowed}{hint}")


# Dicts


def table_of(
    source: Path | Table | Mapping[Any, Any],
    problems: Problems,
    columns: Columns | None,
    side: str,
) -> Table | Mapping[Any, Any]:
    """Return a file, a dict of columns or what is a table already as a table.

    A dict of queries, also as JSON in a file, stays a dict.
    """
    if isinstance(source, Table):
        return source
    name = "dict"
    if isinstance(source, Path):
        name, kind = str(source), sample(source).kind
        if kind != "json":
            return file_table(source, problems, kind)
        value = json_value(source)
        is_split = isinstance(value, dict) and value.keys() == {"columns", "data"}
        if is_split or not isinstance(value, dict):
            return file_table(source, problems, kind)
        source = value
    named = set((columns or {}).values()) - {None}
    if is_columns(source) or (named and named <= source.keys()):
        lengths = {len(one) if isinstance(one, (list, tuple)) else -1 for one in source.values()}
        if len(lengths) != 1 or -1 in lengths:
            raise DataError("columns of several lengths", file=name, allowed="lists of one length")
        made = {str(key): list(one) for key, one in source.items()}
        lines = [*range(1, lengths.pop() + 1)]
        frame = pd.DataFrame({key: _column(one, key, name, lines) for key, one in made.items()})
        return frame_table(frame, name, "dict")
    is_record = any(isinstance(one, (str, int, float)) for one in source.values())
    if side == "results" and is_record and names_query(map(str, source)):
        return record_table([dict(source)], name, "json")  # one record alone
    lists = {key: one for key, one in source.items() if isinstance(one, list)}
    lists = {
        key: one for key, one in lists.items() if one and all(isinstance(i, dict) for i in one)
    }
    known = {key: one for key, one in lists.items() if names_query(map(str, one[0]))}
    if len(known) == 1:  # records under one key, beside means or a config
        return record_table(next(iter(known.values())), name, "json")
    if are_means(source):
        raise DataError(
            f"means without rows: {describe(next(iter(source.values())))} of"
            f" {next(iter(source))!r}", file=name, allowed="a row for each query",
        )  # fmt: skip
    return source


def is_columns(source: Mapping[Any, Any]) -> bool:
    """Return True for a dict of columns, which are lists of one length, named as columns are."""
    names = [key for key in source if isinstance(key, str)]
    lengths = {len(one) if isinstance(one, (list, tuple)) else -1 for one in source.values()}
    return (
        len(names) == len(source)
        and len(source) > 1
        and len(lengths) == 1
        and lengths != {-1}
        and names_query(names)
    )


def run_table(source: Mapping[Any, Any], name: str = "dict") -> Table:
    """Return a dict {query: [ids]}, {query: {id: score}} or {run: {query: ...}} as a table.

    One row per query. A list of lists has the ids of each call.
    """
    has_runs = all(
        isinstance(value, Mapping)
        and all(isinstance(inner, (Mapping, list, tuple)) for inner in value.values())
        and len(value)
        for value in source.values()
    )
    rows: dict[str, list[Any]] = {"run_id": [], "query_id": [], "doc_id": []}
    for run_id, of_run in (keyed(source, name, "run") if has_runs else {None: source}).items():
        queries = keyed(of_run, name, "query")
        for query_id, value in queries.items():
            if type(value) is not list and type(value) is not dict:
                queries[query_id] = found = plain_cell(value)
                if not isinstance(found, (list, dict)):
                    refuse_shape(query_id, found, name, "{query: [ids]}, {query: {id: score}}")
        rows["run_id"] += [run_id] * len(queries)
        rows["query_id"] += queries
        rows["doc_id"] += queries.values()
    if not has_runs:
        del rows["run_id"]
    return dict_table(rows, name)


def dict_table(columns: Mapping[str, list[Any]], name: str) -> Table:
    """Return columns of ids, and of lists or mappings, as a table."""
    made = {
        one: pd.Series(values, dtype=object if one == "doc_id" else "str")
        for one, values in columns.items()
    }
    return frame_table(pd.DataFrame(made, copy=False), name, name)


def keyed(source: Mapping[Any, Any], name: str, what: str) -> dict[str, Any]:
    """Return the values of a dict by its keys as ids; 1 and "1" would be one."""
    if {*map(type, source)} == {str} and "" not in source and "".join(source).isascii():
        return dict(source)
    found: dict[str, Any] = {}
    for key, value in source.items():
        one = as_id(plain_cell(key))
        if one is None or one in found:
            twice = "" if one is None else ", which is there as text and as a number"
            text = f"found {describe(plain_cell(key))} as a {what}{twice}"
            raise DataError(text, file=name, allowed=ID_ALLOWED)
        found[one] = value
    return found


def refuse_shape(query: Any, value: Any, name: str, shapes: str) -> None:
    """Refuse what a dict says of a query."""
    raise DataError(
        f"found {describe(plain_cell(value))} for {query!r}",
        file=name,
        allowed=f"{shapes}, or a list of records",
    )
