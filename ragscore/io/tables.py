"""Tables of any library and shape -> `Results` or `Golden`.

In: a frame of pandas or of anything with `__arrow_c_stream__`, records, dicts, or a file of CSV,
TSV, Parquet or JSON, with one row per hit or one row per query. Rows per hit, lists of ids and
plain labels stay columns from end to end (plain_columns.py). All else is read row by row.
"""

import csv
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.types import is_float_dtype

from ragscore.frames.codes import coded, codes_of
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import excerpt, name_list, warn
from ragscore.frames.kinds import LABELS, cast, categorical, empty
from ragscore.frames.ranking import rank_hits
from ragscore.frames.schema import FIELDS
from ragscore.frames.typing import Codes
from ragscore.io.columns import (
    ID_ROLES,
    LABEL_NAMES,
    METRIC_ROLES,
    Columns,
    kind_of,
    names_query,
    plain_name,
    resolve,
)
from ragscore.io.detect import sample
from ragscore.io.file_content import LONGEST_ID, has_limits, open_bytes
from ragscore.io.golden_read import check_catalogue, golden_of
from ragscore.io.importers import run_name_of
from ragscore.io.plain_columns import NOT_PLAIN, Lists, hit_lists, hit_objects, label_frames
from ragscore.io.records import Record
from ragscore.io.rows import (
    LIST_ALLOWED,
    delimiter_of,
    is_list_text,
    json_value,
    nested,
    plain_cell,
    table_rows,
    value_at,
)
from ragscore.io.run_records import NotPlain
from ragscore.io.source import Problems, Row, as_id, as_text, describe
from ragscore.io.tools.cases import (
    DIALOGUES,
    hash_query,
    ids_made,
    ids_of_queries,
    imported,
    is_called,
    text_id,
)
from ragscore.io.tools.cells import Cells, score_of, with_roles
from ragscore.io.values import ID_ALLOWED, as_json, as_number

LISTS = ("list", "mapping", "empty")
GRADES = frozenset("012345")
OF_HITS = (*ID_ROLES, "text", "score", "rank")
FEW_ROWS, MOST_GRADES = 20, 5  # from so many rows on, scores below this may be grades
IN_DIALOGUE = ("query", "conversation", "turn")
PER_QUERY = {
    field.role or field.column: (field.column, field.dtype)
    for field in FIELDS["responses"]
    if field.names and field.column not in ("run_id", "query_id")
}
"""Roles that tell of a response, in a table with one row per hit: their column and its dtype."""


@dataclass(frozen=True)
class Table:
    """A table, whatever holds it.

    Attributes
    ----------
    name, kind
        Its file, or "frame" and the like, and what it is, for messages.
    first_line
        The line of its first row: 2 in a CSV file.
    frame, records
        Its columns or its rows; one of them is None.
    queries
        Every query of a dict as (run, query), also those without hits.
    """

    name: str
    kind: str
    frame: pd.DataFrame | None = None
    records: list[Row] | None = None
    first_line: int = 1
    queries: list[tuple[str | None, str]] | None = None

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Each column with its first value that isn't missing."""
        if self.frame is not None:
            return {str(name): _first(self.frame[name]) for name in self.frame.columns}
        found: dict[str, Any] = {}
        for row in self.records or []:
            for name, value in row.values.items():
                if found.get(name) is None or found[name] in ([], {}):
                    found[name] = value
        return found

    def __len__(self) -> int:
        return len(self.frame) if self.frame is not None else len(self.records or [])

    def rows(self, problems: Problems) -> Iterable[Row]:
        """Yield each row, its numbers and texts as plain Python values."""
        if self.frame is None:
            return self.records or []
        shift = self.first_line - 1
        return (
            Row(row.values, row.line + shift) if shift else row
            for row in table_rows(self.frame, problems)
        )

    def column(self, name: str) -> pd.Series:
        """Return a column, which may lie inside another one."""
        if self.frame is not None and name in self.frame.columns:
            return self.frame[name]
        rows = self.records
        if rows is None:
            rows = list(self.rows(Problems(self.name, strict=True)))
        return pd.Series([value_at(row.values, name) for row in rows], dtype=object, name=name)


def _first(column: pd.Series) -> Any:
    known = column.iloc[:1000].dropna()
    if not len(known):
        known = column.dropna()
    value = plain_cell(known.iloc[0]) if len(known) else None
    if value in ([], {}, "[]"):  # an empty list first: the next ones may hold something
        more = (plain_cell(one) for one in known.iloc[1:100])
        return next((one for one in more if one not in ([], {}, "[]")), value)
    return value


# Sources -> Table


def frame_table(frame: pd.DataFrame, name: str = "frame") -> Table:
    """Return a pandas frame as a table; names of its index are columns like others."""
    twice = frame.columns[frame.columns.duplicated()].unique().tolist()
    if twice or isinstance(frame.columns, pd.MultiIndex):
        found = f"column {twice[0]!r} is there twice" if twice else "columns of several levels"
        raise DataError(found, file=name, field="columns", allowed="one name per column, once")
    named = [one for one in frame.index.names if one is not None and one not in frame.columns]
    if named and len(named) == frame.index.nlevels:
        frame = frame.reset_index()
    hidden = [one for one in frame.columns if str(one).startswith("__index_level_")]
    frame = frame.drop(columns=hidden).set_axis(
        [str(one) for one in frame.columns if one not in hidden], axis=1
    )
    return Table(name, "frame", frame.reset_index(drop=True))


def arrow_table(data: pa.Table, name: str = "frame") -> Table:
    """Return an Arrow table as a table: texts and numbers stay in Arrow's memory."""
    columns = {
        column: _from_arrow(data.column(place), column)
        for place, column in enumerate(data.column_names)
    }
    if len(columns) < len(data.column_names):
        raise DataError("a column is there twice", file=name, allowed="one name per column, once")
    return frame_table(pd.DataFrame(columns, copy=False), name)


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
        from ragscore.io.parquet_file import read_parquet

        return replace(arrow_table(read_parquet(path), str(path)), kind="parquet")
    if kind == "text":
        with open_bytes(path) as (opened, _):
            begin = opened.read(1 << 16).decode("utf-8-sig", errors="replace")
        frame = _csv_frame(path, begin)
        if frame is not None:
            return replace(frame_table(frame, str(path)), kind="csv", first_line=2)
        kind = "csv"
    return Table(str(path), kind, records=list(table_rows(path, problems)))


def _csv_frame(path: Path, begin: str) -> pd.DataFrame | None:
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
        with open_bytes(path) if is_packed else nullcontext((path, None)) as (content, _):
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
    frame = arrow_table(read.rename_columns(names)).frame
    # The index that pandas writes without a name.
    return None if frame is None else frame.drop(columns="", errors="ignore")


def record_table(records: list[dict[str, Any]], name: str = "records") -> Table:
    """Return a list of records as a table."""
    rows = []
    for number, record in enumerate(records, 1):
        if not isinstance(record, Mapping):
            raise DataError(
                f"found {type(record).__name__}", file=name, line=number, allowed="a dict per row"
            )
        rows.append(Row({str(key): plain_cell(value) for key, value in record.items()}, number))
    return Table(name, name, records=rows)


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

    One row per hit. A list of lists has the ids of each call.
    """
    has_runs = all(
        isinstance(value, Mapping)
        and all(isinstance(inner, (Mapping, list, tuple)) for inner in value.values())
        and len(value)
        for value in source.values()
    )
    named_runs = _keyed(source, name, "run") if has_runs else {None: source}
    listed = {
        (run_id, query_id): value
        for run_id, of_run in named_runs.items()
        for query_id, value in _keyed(of_run, name, "query").items()
    }
    try:
        lists, hits = hit_lists({"doc_id": pd.Series([*listed.values()], dtype=object)})
        if not lists.is_known.all():
            raise NotPlain
    except (NotPlain, pa.ArrowException):
        return _listed_table(listed, name)
    lengths = lists.lengths
    places = pd.DataFrame([*listed], columns=["run_id", "query_id"], dtype="str")
    at = np.repeat(np.arange(len(listed)), lengths)
    places = places.take(at).reset_index(drop=True)
    columns = {"query_id": places["query_id"], "doc_id": hits["doc_id"]}
    columns["rank"] = pd.Series(_ranks_in_order(at, int((lengths > 0).sum())))
    if has_runs:
        columns["run_id"] = places["run_id"]
    columns |= {"score": hits["score"]} if "score" in hits else {}
    return Table(name, name, pd.DataFrame(columns), queries=[*listed])


def _listed_table(listed: Mapping[tuple[str | None, str], Any], name: str) -> Table:
    """Return what queries have, values of any kind, as a table with one row per query."""
    rows = []
    for (run_id, query_id), value in listed.items():
        found = plain_cell(value)
        if not isinstance(found, (list, dict)):
            shapes = "{query: [ids]}, {query: {id: score}}, {run: {query: ...}}"
            _refuse_shape(query_id, value, name, shapes)
        row = {"query_id": query_id, "doc_id": found}
        rows.append(row if run_id is None else row | {"run_id": run_id})
    return record_table(rows, name)


def _keyed(source: Mapping[Any, Any], name: str, what: str) -> dict[str, Any]:
    """Return the values of a dict by its keys as ids; 1 and "1" would be one."""
    keyed: dict[str, Any] = {}
    for key, value in source.items():
        found = as_id(plain_cell(key))
        if found is None or found in keyed:
            twice = "" if found is None else ", which is there as text and as a number"
            found = describe(plain_cell(key))
            raise DataError(f"found {found} as a {what}{twice}", file=name, allowed=ID_ALLOWED)
        keyed[found] = value
    return keyed


def _refuse_shape(query: Any, value: Any, name: str, shapes: str) -> NoReturn:
    raise DataError(
        f"found {describe(plain_cell(value))} for {query!r}",
        file=name,
        allowed=f"{shapes}, or a list of records",
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
        made = {str(key): pd.Series(list(one), dtype=object) for key, one in source.items()}
        return replace(frame_table(pd.DataFrame(made), name), kind="dict")
    if side == "results" and names_query(map(str, source)) and any(
        isinstance(one, (str, int, float)) for one in source.values()
    ):  # fmt: skip
        return replace(record_table([dict(source)], name), kind="json")  # one record alone
    lists = [one for one in source.values() if isinstance(one, list)]
    if len(lists) == 1 and lists[0] and all(isinstance(one, dict) for one in lists[0]):
        return replace(record_table(lists[0], name), kind="json")  # records under one key
    return source


# Table -> Results


def read_results_table(
    source: Path | Table | Mapping[Any, Any],
    strict: bool,
    columns: Columns | None = None,
    run_id: str | None = None,
    ties: str = "file",
) -> Results:
    """Return the runs of a table.

    `columns` is role -> column, over what the columns' names tell; `run_id` names a run that no
    column names.
    """
    problems = Problems(_name_of(source), strict)
    found = table_of(source, problems, columns, "results")
    is_dict = not isinstance(found, Table)
    table = found if isinstance(found, Table) else run_table(found, _name_of(source))
    run_id = run_id or (run_name_of(source) if isinstance(source, Path) else "run")
    _refuse_empty(table)
    if is_dict:
        roles = {str(name): str(name) for name in table.fields}
    else:
        roles = resolve(table.fields, columns, "results", table.name, table.kind)
        table = _with_whole_turns(table, roles)
    ids = [role for role in (*ID_ROLES, "text") if role in roles]
    is_per_hit = bool(ids) and all(
        kind_of(value_at(table.fields, roles[role])) not in LISTS for role in ids
    )
    if table.queries is None and not is_per_hit:
        results = _per_query(table, roles, run_id, problems, "repeat" in (columns or {}))
    else:
        if scored := [role for role in roles if role.startswith(METRIC_ROLES)]:
            raise DataError(
                f"{scored[0]} in a table with one row per hit",
                file=table.name,
                field="columns",
                allowed="values of metrics in a table with one row per query",
            )
        results = _per_hit(table, roles, run_id, problems)
    if ties != "file":
        results = replace(results, hits=rank_hits(results.hits, ties))
    if is_dict:
        return results
    rank = (
        f"{roles['score']} (descending)" if is_per_hit and "score" in roles else "order of the hits"
    )
    told = {"rank": rank} if ids and "rank" not in roles else {}
    return replace(results, mapping=_mapping(roles | told))


def _with_whole_turns(table: Table, roles: Columns) -> Table:
    """Return the table with turns as whole numbers where pandas made them decimal for a gap."""
    frame, name = table.frame, roles.get("turn", "")
    if frame is None or name not in frame or not is_float_dtype(frame[name].dtype):
        return table
    is_whole = not (frame[name].dropna() % 1).any()
    return replace(table, frame=frame.astype({name: "Int64"})) if is_whole else table


def _name_of(source: Path | Table | Mapping[Any, Any]) -> str:
    if isinstance(source, Table):
        return source.name
    return str(source) if isinstance(source, Path) else "dict"


def _refuse_empty(table: Table) -> None:
    if not len(table) and table.queries is None:
        raise DataError(
            f"the {table.kind} has no rows", file=table.name, allowed="at least one row"
        )


def _mapping(roles: Columns) -> pd.DataFrame:
    return pd.DataFrame({"role": list(roles), "column": list(roles.values())}, dtype="str")


def _per_query(
    table: Table, roles: Columns, run_id: str, problems: Problems, are_repeats: bool
) -> Results:
    """Return the results of a table with one row per query."""
    used = _used(roles)
    keep = np.ones(len(table), dtype=bool)
    # Whole columns, as where a row is a hit: `Cells` takes what is missing for the file's.
    ids: dict[str, list[str | None]] = {
        role: _ids(table, table.column(roles[role]), problems, keep, role).to_list()
        for role in ("query_id", "run_id")
        if role in roles
    }
    none = [None] * len(table)
    query_ids, runs = ids.get("query_id", none), ids.get("run_id", none)
    others = {role: column for role, column in roles.items() if role not in ids}
    lists = None
    with suppress(*NOT_PLAIN):
        of_hits = {role: others[role] for role in OF_HITS if role in others}
        lists, hits = _listed(table, of_hits)
        others = {role: column for role, column in others.items() if role not in of_hits}
        if table.frame is not None:
            read = {*of_hits.values()} - _used(others)
            table = replace(table, frame=table.frame.drop(columns=[*read], errors="ignore"))
    cases = []
    for place, (row, is_kept, query_id, run) in enumerate(
        zip(table.rows(problems), keep, query_ids, runs, strict=True)
    ):
        if not is_kept:
            continue
        case = with_roles(Record(row.line, query_id=query_id, run=run), row, others, problems)
        if lists is not None and lists.is_known[place]:
            case.hits = [{"x_row": place}]
        case.extra = {
            name: value
            for name, value in row.values.items()
            if name not in used and value is not None
        }
        cases.append(case)
    about = {
        "run_id": run_id, "runs_are_named": True, "are_repeats": are_repeats, "called": roles,
    }  # fmt: skip
    found = imported(cases, about, problems).results
    if found is None:
        raise DataError(
            "no row says what a system answered",
            file=table.name,
            field="columns",
            allowed="ids, texts, an answer or an error in at least one row",
        )
    if lists is None or "x_row" not in found.hits:
        return found
    kept = found.hits["x_row"].to_numpy(np.int64)
    lengths = lists.lengths[kept]
    at = np.repeat(np.arange(len(kept)), lengths)
    rank = _ranks_in_order(at, int(np.count_nonzero(lengths)))
    first = np.cumsum(lists.lengths) - lists.lengths
    listed = hits.take(first[kept][at] + rank - 1).reset_index(drop=True)
    if len(listed) < len(hits):  # of rows that can't be taken
        listed = listed.dropna(axis="columns", how="all")
    placed = found.hits[["run_id", "query_id"]].take(at).reset_index(drop=True)
    hits = pd.concat([placed.assign(rank=rank), listed], axis=1) if len(at) else empty("hits")
    return replace(found, hits=hits)


def _listed(table: Table, roles: Columns) -> tuple[Lists, pd.DataFrame]:
    """Return the hits of each row, one behind the other, where all of them are plain."""
    columns = {role: table.column(name) for role, name in roles.items()}
    role, column = next(iter(columns.items()), ("", pd.Series(dtype=object)))
    some = next((one for one in column if isinstance(one, list) and one), [None])
    if len(columns) == 1 and isinstance(some[0], dict):
        return hit_objects(column, role, is_checked=table.frame is None)
    return hit_lists(columns)


def _per_hit(table: Table, roles: Columns, run_id: str, problems: Problems) -> Results:
    """Return the results of a table with one row per hit, column by column."""
    columns = {role: table.column(name) for role, name in roles.items()}
    keep = np.ones(len(table), dtype=bool)
    if "query_id" in columns:
        queries = _ids(table, columns["query_id"], problems, keep, "query_id")
    else:
        asked = {one: _texts(table, columns[one], one) for one in IN_DIALOGUE if one in columns}
        runs = columns["run_id"].astype("str") if "run_id" in columns else None
        queries = ids_of_queries(pd.DataFrame(asked), runs)
        _report(table, queries, queries.isna().to_numpy(), keep, problems, "text of the query")
    hits: dict[str, Any] = {"query_id": queries}
    given = [role for role in ID_ROLES if role in roles]
    for role in given:
        hits[role] = _ids(table, columns[role], problems, keep, role, is_needed=len(given) == 1)
    if "text" in columns:
        hits["text"] = _texts(table, columns["text"], "text")
        if not given:
            hits["chunk_id"] = ids_made(hits["text"], text_id)
    if "run_id" in columns:
        runs = coded(_ids(table, columns["run_id"], problems, keep, "run_id"))
    else:
        runs = pd.Series(categorical(np.zeros(len(table), np.int8), [run_id]))
    described: pd.DataFrame | None = None
    if "repeat" in columns:
        repeats = _numbers(table, columns["repeat"], problems, keep, "int32")
        if repeats.nunique() > 1:  # each a run of its own
            system, runs = runs, coded(runs.astype("str") + "-r" + repeats.astype("str"))
            described = pd.DataFrame({"run_id": runs, "system": system, "repeat": repeats})
            described = described[keep].drop_duplicates("run_id").astype({"system": "str"})
    hits["run_id"] = runs
    for role, dtype in (("rank", "int32"), ("call", "int32"), ("score", "float64")):
        if role in columns:
            hits[role] = _numbers(table, columns[role], problems, keep, dtype)
    if "score" in hits and "rank" not in hits:
        run = codes_of(hits["run_id"])
        without = np.isnan(hits["score"].to_numpy())
        some = np.bincount(run[~without & (run >= 0)], minlength=len(runs.cat.categories)) > 0
        allowed = "a score in every hit of a run, or a rank"
        _report(table, columns["score"], without & some[run], keep, problems, allowed)
    used = _used(roles)
    extra = [name for name in table.fields if name not in used]
    if table.frame is not None:
        hits |= {f"x_{name}": _own(table.frame[name]) for name in extra}
    else:
        hits |= {f"x_{name}": _own(table.column(name)) for name in extra}
    frame = pd.DataFrame(hits, copy=False)
    if not keep.all():
        frame = frame[keep].reset_index(drop=True)
        columns = {role: one[keep].reset_index(drop=True) for role, one in columns.items()}
    results = _results_of(table, frame, columns, run_id, problems)
    return results if described is None else replace(results, runs=described)


def _results_of(
    table: Table,
    hits: pd.DataFrame,
    columns: Mapping[str, pd.Series],
    run_id: str,
    problems: Problems,
) -> Results:
    query = coded(hits["query_id"])
    names, texts = hits["run_id"].cat.categories, query.cat.categories
    cell = codes_of(hits["run_id"]).astype(np.int64) * max(len(texts), 1) + codes_of(query)
    size = np.bincount(cell, minlength=len(names) * max(len(texts), 1))
    n_used = int(np.count_nonzero(size))
    if "rank" not in hits and "score" not in hits and size.max(initial=0) == 1:
        for role in ID_ROLES:
            if role in columns:
                _warn_of_joined(table, hits[role], str(columns[role].name))
    for name in [name for name in hits if is_called(str(name), DIALOGUES)]:
        own = hits[name].rename(str(name).removeprefix("x_"))
        _refuse_several(table, own, codes_of(coded(own.astype("str"))), cell, str(own.name))
    run_column = _run_column(hits, cell)
    if "call" in hits:
        ranked, run_column = _ranked_by_call(table, hits, cell, columns), None
    elif "rank" in hits:
        ranked = hits
        if not _are_ranks(cell, hits["rank"].to_numpy(), len(size)):
            try:
                ranked = rank_hits(hits)
            except DataError as error:
                ways = f"if it names the run; {error.allowed}" if run_column else error.allowed
                raise DataError(
                    error.found,
                    file=table.name,
                    field=str(columns["rank"].name),
                    columns={"run_id": run_column} if run_column else None,
                    allowed=ways,
                ) from error
    elif "score" in hits and hits["score"].notna().any():
        scores = hits["score"].to_numpy()
        _warn_of_whole_scores(table, scores)
        ranked = hits.assign(rank=_ranks_by_score(cell, scores, n_used))
    else:
        ranked = hits.assign(rank=_ranks_in_order(cell, n_used))
    if run_column is not None:
        warn(
            f"{table.name}: documents repeat within a query, but not within a query and"
            f' {run_column}; columns={{"run_id": "{run_column}"}} if it names the run'
        )
    if table.queries is not None:
        every = [(run if run is not None else run_id, one) for run, one in table.queries]
        responses = pd.DataFrame(every, columns=["run_id", "query_id"], dtype="str")
        run_ids = list(dict.fromkeys(run for run, _ in every)) or [run_id]
    else:
        found = np.flatnonzero(size)
        responses = pd.DataFrame(
            {
                "run_id": names.to_numpy()[found // max(len(texts), 1)],
                "query_id": texts.to_numpy()[found % max(len(texts), 1)],
            },
            dtype="str",
        )
        for role, (name, dtype) in PER_QUERY.items():
            if role in columns:
                responses[name] = _of_responses(table, columns[role], role, dtype, cell, found)
        run_ids = list(names)
    if "answer" in responses and "refused" not in responses:
        is_blank = responses["answer"].str.strip().eq("").astype("boolean")
        if is_blank.any():
            responses["refused"] = is_blank.where(is_blank.fillna(False))
    calls = None
    if "call" in ranked:
        in_call = ranked.groupby(["run_id", "query_id", "call"], observed=True, sort=False).size()
        calls = in_call.rename("n_hits").reset_index()
        calls = calls.sort_values(["run_id", "query_id", "call"], ignore_index=True)
    return Results(
        runs=pd.DataFrame({"run_id": run_ids, "system": run_ids}, dtype="str"),
        responses=responses,
        hits=ranked,
        calls=calls,
        problems=problems.frame(),
    )


def _ranked_by_call(
    table: Table, hits: pd.DataFrame, cell: Codes, columns: Mapping[str, pd.Series]
) -> pd.DataFrame:
    """Return hits with calls from 1, and ranks through the calls of a query, one after the other.

    Ranks and scores of the table are those within a call.
    """
    call = hits["call"].to_numpy(np.int64)
    if len(call) and call.min() < 0:
        raise DataError(
            f"call {call.min()}", file=table.name, field=str(columns["call"].name),
            allowed="whole numbers from 1, or from 0",
        )  # fmt: skip
    within = cell * (int(call.max(initial=0)) + 1) + call
    n_used = len(np.unique(within))
    if "rank" in hits:
        inner = hits["rank"].to_numpy()
        if (twice := pd.DataFrame({"list": within, "rank": inner}).duplicated()).any():
            at = int(twice.to_numpy().argmax())
            raise DataError(
                f"rank {inner[at]} twice in call {call[at]} of"
                f" {hits['query_id'].iloc[at]!r}",
                file=table.name, line=table.first_line + at, field=str(columns["rank"].name),
                allowed="each rank once in a call",
            )  # fmt: skip
    elif "score" in hits and hits["score"].notna().any():
        inner = _ranks_by_score(within, hits["score"].to_numpy(), n_used)
    else:
        inner = _ranks_in_order(within, n_used)
    order = np.lexsort((inner, call, cell))
    rank = np.empty(len(order), dtype=np.int32)
    begins = np.flatnonzero(np.diff(cell[order], prepend=-1))
    starts = np.repeat(begins, np.diff(begins, append=len(order)))
    rank[order] = np.arange(len(order)) - starts + 1
    return hits.assign(call=call + (1 if call.min(initial=1) == 0 else 0), rank=rank)


def _warn_of_whole_scores(table: Table, scores: npt.NDArray[np.float64]) -> None:
    """Warn of scores that are few small whole numbers, as judges give them."""
    if len(scores) < FEW_ROWS or not np.isin(scores, range(MOST_GRADES)).all():
        return
    low, high = int(scores.min()), int(scores.max())
    shown = f"all {low}" if low == high else f"whole numbers from {low} to {high}"
    warn(
        f"{table.name}: the scores are {shown}, as grades of labels are: rs.load_golden takes"
        " labels; ranks are taken from these scores all the same"
    )


def _run_column(hits: pd.DataFrame, cell: Codes) -> str | None:
    """Return the column of one's own that seems to tell runs apart, None if there is none.

    Documents that repeat within a query, but not within it and a column of few texts, are likely to
    be those of several systems. The first rows are enough to tell.
    """
    ids = [name for name in ID_ROLES if name in hits]
    first = hits.iloc[:100_000]
    own = [
        name
        for name in first.columns
        if str(name).startswith("x_") and isinstance(first[name].dtype, pd.StringDtype)
    ]
    if not own or not ids:
        return None
    keys = first[[*ids, *own]].assign(cell=cell[: len(first)])
    if not keys.duplicated(["cell", *ids]).any():
        return None
    few = [name for name in own if 1 < first[name].nunique() <= 50 and first[name].notna().all()]
    found = (name for name in few if not keys.duplicated(["cell", *ids, name]).any())
    return next((str(name).removeprefix("x_") for name in found), None)


def _warn_of_joined(table: Table, ids: pd.Series, name: str) -> None:
    """Warn where the only id of each query seems to be several ids in one text."""
    some = ids.iloc[:100].dropna()
    mark = next(
        (
            mark
            for mark in (";", "|", ",")
            if len(some) and some.str.contains(mark, regex=False).all()
        ),
        None,
    )
    if mark is not None:
        warn(
            f"{table.name}: every value of {name} has {mark!r} in it, such as"
            f" {excerpt(some.iloc[0])}; several ids in one text count as one, lists of ids don't"
            f" (.str.split({mark!r}) makes them)"
        )


def _of_responses(
    table: Table, column: pd.Series, role: str, dtype: str, cell: Codes, cells: Codes
) -> pd.Series:
    """Return the first known value of each response; two questions or answers are refused."""
    known = np.flatnonzero(column.notna().to_numpy())
    of, first = np.unique(cell[known], return_index=True)
    if role in (*IN_DIALOGUE, "answer"):
        texts = _texts(table, column, role).reset_index(drop=True)
        if role == "query":  # letter case and spacing don't matter
            texts = ids_made(texts, hash_query)
        _refuse_several(table, column, codes_of(coded(texts)), cell, role)
    place = np.full(int(cells.max(initial=0)) + 1, -1)
    place[of] = known[first]
    values = column.reset_index(drop=True)
    taken = values.reindex(place[cells]).reset_index(drop=True)  # -1 is no row: missing
    if dtype == "str":
        return _texts(table, taken, role)
    if dtype == "boolean":
        flags = [Cells(Row({role: plain_cell(one)}, 1), _strict(table)).flag(role) for one in taken]
        return pd.Series(flags, dtype="boolean")
    return _numbers(table, taken, _strict(table), np.ones(len(taken), dtype=bool), dtype)


def _refuse_several(table: Table, column: pd.Series, codes: Codes, cell: Codes, what: str) -> None:
    """Refuse a column that has several values for one query of a run; the code -1 is none."""
    known = np.flatnonzero(codes >= 0)
    _, first, group = np.unique(cell[known], return_index=True, return_inverse=True)
    is_other = codes[known] != codes[known][first][group]
    if not is_other.any():
        return
    place = int(is_other.argmax())
    row, before = int(known[place]), int(known[first[group[place]]])
    raise DataError(
        f"{what} {excerpt(plain_cell(column.iloc[row]))} for a query that has"
        f" {excerpt(plain_cell(column.iloc[before]))} in line {_line(table, before)}",
        file=table.name,
        line=_line(table, row),
        field=str(column.name),
        allowed=f"one {what} for each run and query; columns= may name another query_id, or the"
        " run_id",
    )


def _strict(table: Table) -> Problems:
    return Problems(table.name, strict=True)


def _are_ranks(cell: Codes, rank: npt.NDArray[np.int32], n_cells: int) -> bool:
    """Return True if all ranks are from 1 and differ within their cells; False if unsure.

    A table of all possible ranks costs a fraction of a sort.
    """
    width = int(rank.max(initial=0)) + 1
    if not len(rank) or rank.min() < 1 or n_cells * width > 16 * len(rank) + 2**20:
        return False
    seen = np.zeros(n_cells * width, dtype=bool)
    seen[cell * width + rank] = True
    return int(np.count_nonzero(seen)) == len(rank)


def _ranks_in_order(cell: Codes, n_cells: int) -> npt.NDArray[np.int32]:
    """Return the place of each row among the rows of its cell, from 1.

    `n_cells` is how many cells there are: as many runs of equal cells means that none is split.
    """
    begins = np.flatnonzero(np.diff(cell, prepend=-1))
    if len(begins) > n_cells:  # rows of a cell lie apart
        places = pd.Series(cell).groupby(cell, sort=False).cumcount()
        return (places.to_numpy() + 1).astype(np.int32)
    lengths = np.diff(begins, append=len(cell))
    return (np.arange(len(cell)) - np.repeat(begins, lengths) + 1).astype(np.int32)


def _ranks_by_score(
    cell: Codes, score: npt.NDArray[np.float64], n_cells: int
) -> npt.NDArray[np.int32]:
    """Return ranks by score, the highest first; equal scores keep the order of the rows."""
    is_higher = score[1:] > score[:-1]
    is_together = np.count_nonzero(np.diff(cell, prepend=-1)) == n_cells
    if is_together and not (is_higher & (cell[1:] == cell[:-1])).any():
        return _ranks_in_order(cell, n_cells)
    order = np.argsort(-score, kind="stable")
    ranks = np.empty(len(cell), dtype=np.int32)
    ranks[order] = _ranks_in_order(cell[order], n_cells)
    return ranks


def _report(
    table: Table,
    column: pd.Series,
    is_bad: npt.NDArray[np.bool_],
    keep: npt.NDArray[np.bool_],
    problems: Problems,
    allowed: str,
) -> None:
    """Report rows that can't be taken, by the first of them, and drop them from `keep`."""
    if not is_bad.any():
        return
    row = int(is_bad.argmax())
    value, n = column.iloc[row], int(is_bad.sum())
    is_infinite = isinstance(value, float) and np.isinf(value)  # which `plain_cell` refuses
    found = describe(value if is_infinite else plain_cell(value))
    more = f" ({n} of {len(is_bad)} rows are like that)" if n > 1 else ""
    line = None if len(is_bad) != len(table) else _line(table, row)
    problems.add(f"found {found}{more}", line=line, field=str(column.name), allowed=allowed)
    keep &= ~is_bad


def _line(table: Table, row: int) -> int:
    return table.records[row].line if table.records is not None else row + table.first_line


def _ids(
    table: Table,
    column: pd.Series,
    problems: Problems,
    keep: npt.NDArray[np.bool_],
    role: str,
    is_needed: bool = True,
) -> pd.Series:
    """Return ids as text; a missing one, a boolean, a date or a decimal number is a problem.

    So is 1 beside "1" for runs: these may be two. For documents and queries they are one.
    """
    name, dtype = str(column.name), column.dtype
    if isinstance(dtype, pd.CategoricalDtype) and isinstance(
        dtype.categories.dtype, pd.StringDtype
    ):
        column = column.astype("str")
    if isinstance(column.dtype, pd.StringDtype):
        texts = column if str(column.dtype) == "str" else column.astype("str")
    elif pd.api.types.is_integer_dtype(dtype):
        written = pa.array(column.array).cast(pa.large_string())
        texts = pd.Series(pd.array(written, dtype="str"), index=column.index, name=name)
    else:
        known = column.astype(object)
        values = [None if one is None else as_id(plain_cell(one)) for one in known]
        texts = pd.Series(values, index=column.index, dtype="str", name=name)
        wrong = texts.isna().to_numpy() & column.notna().to_numpy()
        if pd.api.types.is_float_dtype(dtype) and not (column.dropna() % 1).any():
            missing, hint = column.isna().to_numpy(), f'astype({{"{name}": "Int64"}}) makes them so'
            if missing.any():
                allowed = f"an id in every row, and ids that are whole numbers ({hint})"
                _report(table, column, missing, keep, problems, allowed)
        else:
            hint = ""
        allowed = f"an id: text or a whole number{hint and f' ({hint})'}"
        if role not in ID_ROLES and plain_name(name) != plain_name(role):
            allowed += f'; columns={{"{role}": None}} if it is no {role}'
        _report(table, column, wrong, keep, problems, allowed)
        is_needed &= not wrong.any()
        if role == "run_id":
            is_text = known.map(lambda one: isinstance(one, str)).astype(bool)
            both = set(texts[is_text]) & set(texts[~is_text].dropna())
            is_same = (is_text & texts.isin(both)).to_numpy(dtype=bool)
            _report(table, column, is_same, keep, problems, "another name than the number's")
    if is_needed or pa.array(texts.array).null_count == len(texts):
        is_blank = pc.fill_null(pc.equal(_lengths(texts), 0), True)
        allowed = "an id in every row"
        _report(table, texts, np.asarray(is_blank).astype(bool), keep, problems, allowed)
    if has_limits() and (pc.max(_lengths(texts)).as_py() or 0) > LONGEST_ID:
        is_long = pc.fill_null(pc.greater(_lengths(texts), LONGEST_ID), False)
        _report(table, texts, np.asarray(is_long).astype(bool), keep, problems, ID_ALLOWED)
    return texts


def _lengths(texts: pd.Series) -> pa.ChunkedArray:
    return pc.binary_length(pa.chunked_array(pa.array(texts.array)))


def _texts(table: Table, column: pd.Series, role: str) -> pd.Series:
    if isinstance(column.dtype, pd.StringDtype) and str(column.dtype) == "str":
        return column
    try:
        return cast(column.rename(role), "str", table.kind)
    except DataError as error:
        raise DataError(
            error.found, file=table.name, field=str(column.name), allowed="text"
        ) from error


def _numbers(
    table: Table,
    column: pd.Series,
    problems: Problems,
    keep: npt.NDArray[np.bool_],
    dtype: str,
) -> pd.Series:
    """Return a column as numbers; texts and decimal ranks are a problem."""
    allowed = "a number" if dtype == "float64" else "a whole number"
    kind = column.dtype
    is_number = pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind)
    if not is_number:
        known = (
            column.map(lambda one: isinstance(one, (bool, np.bool_)))
            if pd.api.types.is_object_dtype(kind)
            else None
        )
        numbers = pd.to_numeric(column.astype("str"), errors="coerce")
        if known is not None:
            numbers = numbers.mask(known.astype(bool))
    else:
        numbers = column
    is_plain = dtype == "int32" and isinstance(kind, np.dtype) and kind.kind in "iu"
    if is_plain and len(column) and column.min() >= -(2**31) and column.max() < 2**31:
        return column.astype("int32")
    floats = numbers.to_numpy("float64", na_value=np.nan)
    if is_number and dtype == "float64":
        return pd.Series(floats, name=column.name)
    wrong = (numbers.isna() & column.notna()).to_numpy(dtype=bool)
    if dtype == "float64":  # 1e999 and 10**400 overflow: they are no infinity
        is_written = column.astype("str").str.contains("inf", case=False).fillna(False)
        wrong = wrong | np.isinf(floats) & ~is_written.to_numpy(dtype=bool)
    else:
        is_whole = np.isfinite(floats) & (floats % 1 == 0) & (np.abs(floats) < 2**31)
        wrong = wrong | ~is_whole & (column.notna().to_numpy() | (dtype == "int32"))
    _report(table, column, wrong, keep, problems, allowed)
    if wrong.any():  # dropped with their rows
        floats = np.where(wrong, np.nan if dtype == "float64" else 1, floats)
    if dtype == "Int64":
        return pd.Series(floats, name=column.name).astype("Int64")
    return pd.Series(floats.astype(dtype, copy=False), name=column.name)


def _own(column: pd.Series) -> pd.Series:
    """Return a user's own column: lists and mappings become JSON text."""
    if column.dtype != object:
        return column
    values = [plain_cell(one) for one in column]
    if all(one is None or isinstance(one, str) for one in values):
        return pd.Series(values, dtype="str")
    if all(one is None or isinstance(one, (int, float)) for one in values):
        return pd.Series(values, dtype="object").convert_dtypes()
    return pd.Series([None if one is None else as_json(one) for one in values], dtype="str")


# Table -> Golden


def read_golden_table(
    source: Path | Table | Mapping[Any, Any],
    strict: bool,
    absent_docs: str,
    catalogue: pd.DataFrame | None,
    columns: Columns | None = None,
    gains: Mapping[str, float] | None = None,
) -> Golden:
    """Return the labels of a table, with one row per query or one row per judgement."""
    name = _name_of(source)
    problems = Problems(name, strict)
    table = table_of(source, problems, columns, "golden")
    if not isinstance(table, Table):
        return golden_of_dict(table, name, problems, absent_docs, catalogue, gains)
    _refuse_empty(table)
    roles = resolve(table.fields, columns, "golden", table.name, table.kind)
    table = _with_whole_turns(table, roles)
    problems.typos.check(table.fields.keys() - set(roles.values()), LABEL_NAMES, table.first_line)
    problems.typos.warn()
    if "grade" not in roles.keys() | (columns or {}).keys():
        _warn_of_grades(table, roles)
    golden = _labels_of(table, roles, problems, gains, absent_docs, catalogue)
    return replace(golden, mapping=_mapping(roles))


def _labels_of(
    table: Table, roles: Columns, problems: Problems, gains: Mapping[str, float] | None,
    absent_docs: str, catalogue: pd.DataFrame | None,
) -> Golden:  # fmt: skip
    """Return the labels of a table: column by column, else row by row."""
    golden = _golden_of_columns(table, roles, _Merged(problems, gains), absent_docs, catalogue)
    if golden is not None:
        return golden
    merged, rows = _Merged(problems, gains), list(table.rows(problems))
    made: list[str | None] = [None] * len(rows)
    if "conversation" in roles and "query_id" not in roles:
        asked = [
            {one: as_text(value_at(row.values, roles[one])) for one in IN_DIALOGUE if one in roles}
            for row in rows
        ]
        found = ids_of_queries(pd.DataFrame(asked, dtype="str"))
        made = found.astype(object).where(found.notna(), None).tolist()
    for row, query_id in zip(rows, made, strict=True):
        merged.add(row, roles, query_id)
    return merged.golden(absent_docs, catalogue)


def _golden_of_columns(
    table: Table, roles: Columns, merged: "_Merged", absent_docs: str,
    catalogue: pd.DataFrame | None,
) -> Golden | None:  # fmt: skip
    """Return the labels of a frame, column by column; None where rows have to be read."""
    frame, used = table.frame, _used(roles)
    if frame is None or not {*roles.values()} <= {*frame.columns}:
        return None
    columns = {role: frame[name] for role, name in roles.items()}
    own = {str(name): column for name, column in frame.items() if name not in used}
    try:
        queries, targets, merged.n_negative = label_frames(columns, own, merged.grade, absent_docs)
    except (NotPlain, pa.ArrowException):
        return None
    merged.warn()
    if catalogue is not None:
        check_catalogue(targets, catalogue, merged.problems)
    return Golden(queries, targets, problems=merged.problems.frame())


def _used(roles: Columns) -> set[str]:
    """Return the columns that roles take, and those that these lie in."""
    return {column.partition(".")[0] for column in roles.values()} | set(roles.values())


def _warn_of_grades(table: Table, roles: Columns) -> None:
    """Warn of columns that may grade the judgements of a table, where none is taken for grades."""

    def texts_in(name: str) -> set[str]:
        column = table.column(name)
        return {*map(str, column if column.dtype == object else column.unique())}

    query = roles.get("query_id", roles.get("query", ""))
    for column in sorted(table.fields.keys() - set(roles.values())):
        if not {*ID_ROLES} & roles.keys() or str(table.fields[column]) not in GRADES:
            continue
        found = texts_in(column)
        is_graded = found <= GRADES and "0" in found and len(found) > 1
        if is_graded and len(texts_in(query)) < len(table):
            warn(
                f"{table.name}: no column is taken for grades, so every id is relevant; {column!r}"
                f" holds {name_list(sorted(found))}: columns={{'grade': {column!r}}} if these are"
                " grades, None as the column if not"
            )


def golden_of_dict(
    source: Mapping[Any, Any],
    name: str,
    problems: Problems,
    absent_docs: str,
    catalogue: pd.DataFrame | None,
    gains: Mapping[str, float] | None = None,
) -> Golden:
    """Return the labels of a dict {query: [ids]} or {query: {id: grade}}."""
    labels = _keyed(source, name, "query")
    # A text beside lists is a description of something, not one expected id.
    has_lists = any(isinstance(one, (list, tuple, dict)) for one in labels.values())
    for query, value in labels.items():
        found = value if isinstance(value, (list, tuple, dict)) else plain_cell(value)
        is_id = isinstance(found, str) and not has_lists and kind_of(found) != "long"
        is_deep = isinstance(found, dict) and any(
            isinstance(one, (dict, list)) for one in found.values()
        )
        if is_deep or not (found is None or is_id or isinstance(found, (list, tuple, dict))):
            _refuse_shape(query, found, name, "{query: [ids]}, {query: {id: grade}}")
    columns = {"query_id": pd.Series([*labels], dtype="str"), "doc_id": [*labels.values()]}
    table = Table(name, name, pd.DataFrame(columns).astype({"doc_id": object}))
    roles = {one: one for one in columns}
    return _labels_of(table, roles, problems, gains, absent_docs, catalogue)


class _Merged:
    """Records of our golden file, made of rows; several rows of a query become one record.

    Grades are looked up in `gains`, if these are given.
    """

    def __init__(self, problems: Problems, gains: Mapping[str, float] | None = None) -> None:
        self.problems, self.gains = problems, gains
        self.fractions: set[float] = set()
        self.records: dict[str, dict[str, Any]] = {}
        self.lines: dict[str, int] = {}
        self.n_negative = 0

    def add(self, row: Row, roles: Columns, place: str | None = None) -> None:
        """Add the labels of one row to those of its query; `place` is an id for one without."""
        values = {role: value_at(row.values, path) for role, path in roles.items()}
        cells = Cells(Row(values, row.line), self.problems)
        query_id = cells.identifier("query_id")
        query = cells.text("query")
        if query_id is None:
            if "query_id" in roles or not (place or (query or "").strip()):
                if values.get("query_id") is None:
                    self.problems.add(
                        "neither a query nor an id" if "query_id" not in roles else "no query id",
                        line=row.line,
                        field=roles.get("query_id"),
                        allowed="an id in every row",
                    )
                return
            query_id = place or hash_query(query or "")
        record = self.records.setdefault(query_id, {"id": query_id})
        self.lines.setdefault(query_id, row.line)
        self._state(record, "query", query, row)
        answerable, refuse = cells.flag("answerable"), cells.flag("should_refuse")
        self._state(record, "answerable", answerable if refuse is None else not refuse, row)
        for name in (one for one in ("reference_answer", *LABELS) if one in roles):
            value = nested(cells.pop(name))
            is_several = isinstance(value, list) and (name == "reference_answer" or len(value) == 1)
            first = value[0] if is_several and value else value
            if (text := as_text(first)) is None and value not in (None, []):
                self.problems.reject(value, row.line, roles[name], "text (quote a yes/no)")
            self._state(record, name, text, row)
        for name, column in _LISTS.items():
            facts = nested(cells.values.get(name)) if name == "key_facts" else None
            if isinstance(facts, list) and any(isinstance(one, dict) for one in facts):
                cells.pop(name)
                record[column] = [*record.get(column, []), *facts]
                continue
            if (texts := cells.texts(name)) is not None:
                record[column] = list(dict.fromkeys([*record.get(column, []), *texts]))
        grade = nested(cells.pop("grade"))
        for name, expected in (("doc_id", "expected_doc_ids"), ("chunk_id", "expected_chunk_ids")):
            if name in roles:
                self._expect(record, expected, nested(cells.pop(name)), grade, roles, row)
        if (texts := cells.texts("text")) is not None and "chunk_id" not in roles:
            made = [text_id(one) for one in texts]
            self._expect(record, "expected_chunk_ids", made, grade, roles, row)
        used = _used(roles)
        for name, value in row.values.items():
            own = "record_id" if name == "id" else name  # a golden record's `id` is its query's
            if name not in used and record.get(own) is None:
                record[own] = value

    def _state(self, record: dict[str, Any], name: str, value: Any, row: Row) -> None:
        """Set a value of a query; the first stays, and another one is a problem."""
        if value is None and name not in LABELS:
            return
        if record.get(name) is None:
            record[name] = value
        elif value is not None and record[name] != value:
            self.problems.add(
                f"{name} {describe(value)} for query {_called(record)}, which has another one"
                " already",
                line=row.line,
                field=name,
                allowed="one value per query",
            )

    def _expect(
        self, record: dict[str, Any], field: str, value: Any, grade: Any, roles: Columns, row: Row
    ) -> None:
        """Add expected ids with their grades, and leave out those that were not judged."""
        if value is None:
            return
        if is_list_text(value):
            self.problems.reject(value, row.line, roles.get("doc_id", field), LIST_ALLOWED)
            return
        if isinstance(value, dict):
            ids, grades = list(value), list(value.values())
        else:
            ids = value if isinstance(value, list) else [value]
            grades = (
                grade
                if isinstance(grade, list)
                else [1 if "grade" not in roles else grade] * len(ids)
            )
        if len(grades) != len(ids):
            self.problems.add(
                f"{len(ids)} ids and {len(grades)} grades for query {_called(record)}",
                line=row.line,
                field=roles.get("grade"),
                allowed="a grade per id",
            )
            return
        items = record.setdefault(field, [])
        for one, written in zip(ids, grades, strict=True):
            if isinstance(one, dict):
                items.append(one)
                continue
            found = self.grade(written)
            if found is None:
                allowed = (
                    "a whole number, such as 0 or 1"
                    if self.gains is None
                    else (f"one of {name_list(self.gains)}, as gains= has them")
                )
                self.problems.reject(written, row.line, roles.get("grade", field), allowed)
            elif found < 0:
                self.n_negative += 1
            else:
                items.append({"any": one if isinstance(one, list) else [one], "grade": found})

    def grade(self, written: Any) -> float | None:
        """Return a grade as a whole number, or a gain as a float; None for anything else."""
        if self.gains is not None:
            known = self.gains.get(key_of(written))
            return None if known is None else float(known)
        number, _ = score_of(written)
        if number is None or abs(number) >= 2**31:
            return None
        if number % 1 == 0:
            return int(number)
        self.fractions.add(number)
        return number if len(self.fractions) <= MOST_FRACTIONS else None

    def warn(self) -> None:
        """Warn of grades that are left out, or taken as gains."""
        if self.n_negative:
            text = (
                f"{self.n_negative} judgements with a negative grade are left out: those documents"
                " count as not judged"
            )
            self.problems.note(text, field="grade")
            warn(f"{self.problems.file}: {text}")
        if self.fractions:
            shown = ", ".join(f"{one:g}" for one in sorted(self.fractions))
            warn(
                f"{self.problems.file}: grades are fractions ({shown}): they are taken as gains,"
                " and levels from 0 count the different ones"
            )

    def golden(self, absent_docs: str, catalogue: pd.DataFrame | None) -> Golden:
        """Return the golden set of all records."""
        self.warn()
        rows = [
            Row({"query": query_id, **record}, self.lines[query_id])
            for query_id, record in self.records.items()
        ]
        # No typos here: the columns of a foreign table are called as they are.
        return golden_of(rows, self.problems, absent_docs, catalogue)


def _called(record: Mapping[str, Any]) -> str:
    """Return a query as people know it: its text, else its id."""
    return excerpt(record.get("query") or record["id"])


_LISTS = {
    "tags": "tags", "vaults": "vaults", "folders": "folders", "must_contain": "must_contain",
    "forbidden": "forbidden", "key_facts": "expected_key_facts",
}  # fmt: skip
"""Role -> the field of our golden file that holds its texts."""


MOST_FRACTIONS = 10  # different fractions among grades; more are scores of something


def key_of(grade: Any) -> str:
    """Return a grade as the key of `gains=`: a whole number without a decimal point."""
    number = as_number(grade) if not isinstance(grade, bool) else None
    return f"{number:g}" if number is not None else str(grade).strip()
