"""Whatever holds a table -> one DataFrame, and the line of each of its rows.

In: a frame of pandas or of anything with `__arrow_c_stream__`, records, dicts, or a file of CSV,
TSV, Parquet or JSON. Cells are as their source has them; who reads a column checks them.
"""

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt, name_list, warn
from ragscore.frames.typing import Codes, Flags
from ragscore.io.cells import column_of, plain_values
from ragscore.io.columns import Columns, are_means, is_record, kind_of, names_query
from ragscore.io.detect import delimiter_of, first_cells, sample
from ragscore.io.exploded import hits_of, response_hits
from ragscore.io.files import read_bytes, read_parquet, read_text
from ragscore.io.run_records import kinds_of
from ragscore.io.source import Problems, Row, describe, json_fault, json_rows, parse_json
from ragscore.io.values import plain_cell, value_at

Source = Path | pd.DataFrame
_PLAIN = {str, int, float, bool, list, dict}
_SHAPES = {
    "results": "{query: [ids]}, {query: {id: score}}, or a list of records, also under one key",
    "golden": "{query: [ids]}, {query: {id: grade}}, or a list of records, also under one key",
}


@dataclass(frozen=True)
class Table:
    """A table, whatever holds it.

    Attributes
    ----------
    name, kind
        Its file, or "frame" and the like, and what it is, for messages.
    frame, lines
        Its rows, and the line of each: from 2 in a CSV file.
    roles
        Role -> column, where the source's shape decides them.
    """

    name: str
    kind: str
    frame: pd.DataFrame
    lines: Codes
    roles: Columns = field(default_factory=dict)

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Each column with its first value that isn't missing."""
        return {str(name): _first(self.frame[name]) for name in self.frame.columns}

    def column(self, name: str) -> pd.Series:
        """Return a column, which may lie inside another one."""
        if name in self.frame.columns:
            return self.frame[name]
        outer = [one for one in self.frame.columns if name.startswith(f"{one}.")]
        if not outer:
            return pd.Series(None, self.frame.index, dtype=object, name=name)
        longest = max(outer, key=len)
        values = [
            found if (found := value_at({longest: cell}, name)) is not None
            # or in the hits that the reply of an engine, or a framework's list, holds
            else value_at({longest: hits_of(cell)}, name)
            for cell in plain_values(self.frame[longest])
        ]  # fmt: skip
        return pd.Series(values, dtype=object, name=name)

    def part(self, keep: Flags) -> "Table":
        """Return some of the rows."""
        rows = self.frame[keep].reset_index(drop=True)
        return replace(self, frame=rows, lines=self.lines[keep])

    def rows(self) -> list[Row]:
        """Return the rows as records of plain values."""
        records = zip(self.frame.to_dict("records"), self.lines.tolist(), strict=True)
        return [
            Row({str(n): plain_cell(one, str(n), line, self.name) for n, one in row.items()}, line)
            for row, line in records
        ]


def _first(column: pd.Series) -> Any:
    begin: Any = column.first_valid_index() or 0
    known = column.iloc[begin : begin + 100].dropna()
    # an empty list first: the next ones may hold something
    found = next((one for one in map(plain_cell, known) if one not in EMPTY), None)
    return plain_cell(known.iloc[0]) if found is None and len(known) else found


EMPTY: tuple[Any, ...] = ([], {}, "[]")


def frame_table(frame: pd.DataFrame, name: str = "frame", kind: str = "frame") -> Table:
    """Return a pandas frame as a table; names of its index are columns like others."""
    if frame.columns.has_duplicates or isinstance(frame.columns, pd.MultiIndex):
        raise DataError(
            excerpt(", ".join(map(str, frame.columns))), file=name, field="columns", allowed="one"
            " level of names, each there once; names=[...] of pd.read_csv without a header",
        )  # fmt: skip
    named = [one for one in frame.index.names if one is not None and one not in frame.columns]
    frame = frame.reset_index(named).reset_index(drop=True)
    hidden = [one for one in frame.columns if str(one).startswith("__index_level_")]
    frame = frame.drop(columns=hidden).rename(columns=str)
    return Table(name, kind, frame, np.arange(1, len(frame) + 1))


def arrow_table(data: pa.Table, name: str = "frame", kind: str = "frame") -> Table:
    """Return an Arrow table as a table: whole numbers stay exact, also beside missing ones."""
    columns = [
        pd.Series(column.to_pylist(), dtype=object)
        if pa.types.is_nested(column.type) and not pa.types.is_dictionary(column.type)
        else column.to_pandas(integer_object_nulls=True)
        for column in data.columns
    ]
    frame = pd.DataFrame(dict(enumerate(columns)), copy=False)
    return frame_table(frame.set_axis(data.column_names, axis=1), name, kind)


# Files


def table_rows(source: Source, problems: Problems) -> list[Row]:
    """Return one row per record of a file or frame; one that isn't a mapping is a problem.

    The line of a frame's row is its number, from 1.
    """
    held = frame_table(source) if isinstance(source, pd.DataFrame) else _content(source, problems)
    if isinstance(held, dict):
        return [Row(held, 1)]
    return held.rows() if isinstance(held, Table) else held


def _content(path: Path, problems: Problems) -> Table | list[Row] | dict[str, Any]:
    """Return what a file holds: a table, the records of JSON, or the one object that it is."""
    kind = sample(path).kind
    if kind == "jsonl" or (kind == "json" and ".jsonl" in path.suffixes):
        return list(json_rows(path, problems))
    if kind == "json":
        value = json_value(path)
        rows = json_records(value, problems)
        return value if rows and rows[0].values is value else rows
    if kind == "parquet":
        return arrow_table(read_parquet(path), str(path), kind)
    return _csv_table(path)


def json_value(path: Path, allowed: str = "one JSON value") -> Any:
    """Return the one JSON value that a file holds.

    Raises
    ------
    DataError
        Not JSON: cut short, nested too deeply, a key twice, half a surrogate pair.
    """
    text = read_text(path)
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise DataError(**json_fault(error), file=path, allowed=allowed) from error


def json_records(value: Any, problems: Problems) -> list[Row]:
    """Return the records of a list, of `{columns, data}` as pandas has it, or the one record."""
    parts = [value.get(one) for one in ("columns", "data")] if isinstance(value, dict) else []
    if parts and all(isinstance(one, list) for one in parts):
        rows_of = [one if isinstance(one, list) else [one] for one in value["data"]]
        value = [dict(zip(value["columns"], one, strict=False)) for one in rows_of]
    rows = []
    for number, record in enumerate(value if isinstance(value, list) else [value], 1):
        if isinstance(record, dict):
            rows.append(Row(record, number))
        else:
            problems.reject(record, number, None, "an array of JSON objects")
    return rows


def _csv_table(path: Path) -> Table:
    """Return a CSV file with all cells as texts, in each row as many as in the header."""
    from pyarrow import csv as pa_csv

    data = read_bytes(path)
    begin = data[: 1 << 16].decode("utf-8-sig", errors="replace")
    header = first_cells(begin)
    try:
        read = pa_csv.read_csv(
            pa.BufferReader(data),
            pa_csv.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pa_csv.ParseOptions(
                delimiter=delimiter_of(begin), newlines_in_values=True,
            ),
            pa_csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.large_string()),
                strings_can_be_null=True, null_values=[""],
            ),
        )  # fmt: skip
    except (pa.ArrowException, UnicodeError) as error:
        read_text(path)  # names the line of a byte that isn't UTF-8
        row = re.search(r"Row #(\d+)", str(error))
        raise DataError(
            f"not readable as CSV ({error})", file=path, line=int(row[1]) if row else None,
            allowed="as many cells as columns in each row",
        ) from error  # fmt: skip
    table = arrow_table(read, str(path), "csv")
    frame = table.frame.drop(columns="", errors="ignore")  # pandas' index has no name
    return replace(table, frame=frame, lines=table.lines + 1)


# Records and frames


def record_table(
    records: list[Any], name: str = "records", kind: str = "", lines: list[int] | None = None
) -> Table:
    """Return a list of records as a table."""
    lines = lines or [*range(1, len(records) + 1)]
    for record, line in zip(records, lines, strict=True):
        if not isinstance(record, Mapping):
            raise DataError(
                f"found {type(record).__name__}", file=name, line=line, allowed="a dict a row"
            )
    names = dict.fromkeys(chain.from_iterable(dict.fromkeys(map(tuple, records))))
    columns = {
        str(key): _column([*map(methodcaller("get", key), records)], str(key), name, lines)
        for key in names
    }
    frame = pd.DataFrame(columns, index=range(len(records)), copy=False)
    return Table(name, kind or name, frame, np.array(lines, np.int64))


def _column(values: list[Any], field: str, file: str, lines: list[int]) -> pd.Series:
    """Return values as a column of one type, else as Python has them, None for missing ones."""
    kinds = kinds_of(values)
    if kinds <= _PLAIN and not (float in kinds and len(kinds) > 1):
        with suppress(UnicodeError):  # half a surrogate pair, which has its line below
            return column_of(values)
    return column_of(
        [plain_cell(one, field, line, file) for one, line in zip(values, lines, strict=True)]
    )


def frame_of(source: Any, allowed: str) -> Table:
    """Return a frame of any library as a table.

    Raises
    ------
    DataError
        It is none; `allowed` is what the caller takes.
    """
    if isinstance(source, pd.DataFrame):
        return frame_table(source)
    if hasattr(source, "__arrow_c_stream__"):
        with suppress(TypeError, ValueError):  # a column isn't a table
            source = pa.table(source)
    if isinstance(source, pa.Table):
        return arrow_table(source)
    if callable(getattr(source, "to_pandas", None)):
        return frame_table(source.to_pandas())
    raise DataError(
        f"found {type(source).__name__}", field="source",
        allowed=allowed + "; collect() it first" * hasattr(source, "collect"),
    )  # fmt: skip


# Dicts


def table_of(
    source: Path | Table | Mapping[Any, Any], strict: bool, columns: Columns | None, side: str
) -> tuple[Table, Problems]:
    """Return a file, a dict or what is a table already as a table with at least one row."""
    name = str(source) if isinstance(source, Path) else getattr(source, "name", "dict")
    problems = Problems(name, strict)
    held = _content(source, problems) if isinstance(source, Path) else source
    if isinstance(held, list):
        values, lines = [one.values for one in held], [one.line for one in held]
        if len(values) > 2 and not any(values[0].keys() & one.keys() for one in values[1:]):
            problems.add(
                f"a header: no other record has {name_list(values.pop(0))}", line=lines.pop(0),
                allowed="records only: pd.read_json(path, lines=True).iloc[1:]",
            )  # fmt: skip
        table = record_table(values, name, "JSON", lines)
    else:
        table = held if isinstance(held, Table) else _of_dict(held, name, columns, side)
    if not len(table.frame):
        raise DataError(
            f"the {table.kind} has no rows", file=table.name, allowed="at least one row"
        )
    return table, problems


def _of_dict(source: Mapping[Any, Any], name: str, columns: Columns | None, side: str) -> Table:
    """Return a dict as a table: columns, an object that holds records, or queries."""
    is_named = (
        names_query(map(str, islice(source, 99))) or {*(columns or {}).values()} & source.keys()
    )
    if is_named and len(source) > 1 and {*map(type, source.values())} <= {list, tuple}:
        raise DataError(f"columns: {name_list(source)}", file=name, allowed="pd.DataFrame(data)")
    asked = {str((columns or {}).get(role)).partition(".")[0] for role in ("query_id", "query")}
    known = [
        one for one in source.values()
        if isinstance(one, list) and one and all(isinstance(item, dict) for item in one)
        and (asked & one[0].keys() or is_record(one[0], side))
    ]  # fmt: skip
    if len(known) == 1:  # records under one key, beside means or a config
        return record_table(known[0], name, "json")
    first = known[0][0] if known else {}
    if names_query(first.keys() - {"id"}) and any(isinstance(o, list) for o in first.values()):
        raise DataError(
            f"records under each of {name_list(source)}", file=name, allowed="one list of them:"
            ' [{"run_id": key} | row for key, rows in data.items() for row in rows]',
        )  # fmt: skip
    if are_means(source):
        raise DataError(
            f"means without rows: {describe(next(iter(source.values())))} of"
            f" {next(iter(source))!r}", file=name, allowed="a row for each query",
        )  # fmt: skip
    return _of_queries(source, name, side)


def _of_queries(source: Mapping[Any, Any], name: str, side: str) -> Table:
    """Return a dict {query: [ids]} or {query: {id: number}} as a table, with one row per query.

    Of results also {run: {query: ...}}; a list of lists has the ids of each call, and a reply of a
    search engine its hits.
    """
    is_golden, held = side == "golden", "doc_id" if side == "golden" else "hits"
    has_runs = not is_golden and all(
        isinstance(one, Mapping) and one and response_hits(one) is None
        and all(isinstance(inner, (Mapping, list, tuple)) for inner in one.values())
        for one in source.values()
    )  # fmt: skip
    runs = source if has_runs else {None: source}
    for keys in (source, *runs.values()):
        if twice := [key for key, n in Counter(map(str, keys)).items() if n > 1]:
            raise DataError(f"{name_list(twice)} as two keys", file=name, allowed="each id once")
    # a text beside lists is a description of something, not one expected id
    are_ids = is_golden and not any(isinstance(o, (list, tuple, Mapping)) for o in source.values())
    rows = []
    for run_id, query_id, value in ((r, q, one) for r, of in runs.items() for q, one in of.items()):
        listed = value if type(value) in (list, dict) else plain_cell(value)
        is_id = are_ids and isinstance(value, str) and kind_of(value) != "long"
        if not (isinstance(listed, (list, dict)) or is_id or (is_golden and value is None)):
            raise DataError(
                f"found {describe(value)} for {query_id!r}", file=name, allowed=_SHAPES[side]
            )
        rows.append((run_id, query_id, listed))
    scores = [one.values() for _, _, one in rows if isinstance(one, dict)]
    are_ranks = not is_golden and all([*one] == [*range(1, len(one) + 1)] for one in scores)
    if are_ranks and any(len(one) > 2 for one in scores):
        warn(
            f"{name}: the numbers beside ids are 1, 2, 3 in their order, as ranks are, and count as"
            " scores: the last id comes first; of ranks pass {query: [*ids]}"
        )
    roles = {"run_id": "run_id"} if has_runs else {}
    roles |= {"query_id": "query_id", "doc_id": held}
    frame = pd.DataFrame(rows, columns=["run_id", "query_id", held])
    return Table(name, name, frame[[*roles.values()]], np.arange(1, len(frame) + 1), roles)
