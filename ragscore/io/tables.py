"""Tables of any library and shape -> `Results`.

In: a frame, records, dicts, or a file of CSV, TSV, Parquet or JSON (frames_in.py), with one row per
hit or one row per query. Roles of columns come from columns.py; lists in cells become rows
(exploded.py), so that all steps here are about columns. labels.py reads golden sets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import coded, codes_of
from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import excerpt, name_list, plural, warn
from ragscore.frames.kinds import empty
from ragscore.frames.ranking import rank_hits
from ragscore.frames.schema import FIELDS
from ragscore.frames.typing import Codes, Flags
from ragscore.io.cells import Cells, own_values
from ragscore.io.columns import (
    ID_ROLES,
    METRIC_ROLES,
    Columns,
    inner_roles,
    is_reference,
    names_hits,
    resolve,
)  # fmt: skip
from ragscore.io.exploded import Items, exploded, is_listed
from ragscore.io.frames_in import Table, run_table, table_of
from ragscore.io.made_ids import (
    CIRCUMSTANCES,
    DIALOGUES,
    hash_query,
    ids_made,
    ids_of_queries,
    is_called,
    normal_text,
    run_name_of,
    text_id,
)  # fmt: skip
from ragscore.io.rows import nested, plain_cell
from ragscore.io.run_file import with_refusals_implied
from ragscore.io.run_records import Batch, Level, series, values_of
from ragscore.io.source import Problems
from ragscore.io.stored import frames_of_scores, stored

OF_HITS = (*ID_ROLES, "text", "score", "rank")
FEW_ROWS, MOST_GRADES = 20, 5  # from so many rows on, scores below this may be grades
MOST_SAME = 3  # so many answers may be their references by chance
IN_DIALOGUE = ("query", "conversation", "turn")
PER_QUERY = {
    one.role or one.column: (one.column, one.type)
    for one in FIELDS["responses"]
    if one.names and one.column not in ("run_id", "query_id")
}
"""Roles that tell of a response: their column and the type of its values."""


@dataclass
class Asked:
    """The rows of a table: what each asks of which run, and its other columns by their role.

    Attributes
    ----------
    columns
        Role -> column.
    own
        Columns without a role, which become `x_<name>`.
    cell
        The run and query of each row that was taken, once they are known.
    cells
        Reads the columns, and knows which rows have faults.
    """

    table: Table
    columns: dict[str, pd.Series]
    own: dict[str, pd.Series]
    problems: Problems
    run_id: str
    are_repeats: bool = False
    roles: Columns = field(default_factory=dict)
    cell: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __post_init__(self) -> None:
        self.cells = Cells(self.problems, self.table.lines)
        self.query_id = query_ids_of(self.columns, self.cells)
        if "run_id" in self.columns:
            self.run = self.cells.ids(self.columns["run_id"], "run_id")
        else:
            self.run = pd.Series(
                pd.array([self.run_id], "str").take(np.zeros(len(self.table), int))
            )


def query_ids_of(columns: Mapping[str, pd.Series], cells: Cells) -> pd.Series:
    """Return the id of each row's query, made of its text or place where there is none."""
    if "query_id" in columns:
        return cells.ids(columns["query_id"], "query_id")
    asked = {one: cells.texts(columns[one]) for one in IN_DIALOGUE if one in columns}
    runs = columns["run_id"].astype("str") if "run_id" in columns else None
    found = ids_of_queries(pd.DataFrame(asked), runs)
    missing = "neither a query nor an id"
    cells.report(found, found.isna(), "text of the query, or its id", missing)
    return found


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
    name = (
        source.name
        if isinstance(source, Table)
        else str(source)
        if isinstance(source, Path)
        else "dict"
    )
    problems = Problems(name, strict)
    found = table_of(source, problems, columns, "results")
    table = found if isinstance(found, Table) else run_table(found, name)
    refuse_empty(table)
    if isinstance(found, Table):
        roles = resolve(table.fields, columns, "results", table.name, table.kind)
    else:
        roles = {one: one for one in table.fields}
    given = {role: table.column(one) for role, one in roles.items()}
    own = own_columns(table, roles)
    run_id = run_id or (run_name_of(source) if isinstance(source, Path) else "run")
    asked = Asked(table, given, own, problems, run_id, "repeat" in (columns or {}), roles)
    ids = [role for role in (*ID_ROLES, "text") if role in roles]
    is_per_hit = bool(ids) and not any(is_listed(given[role]) for role in ids)
    results = _of_hits(asked) if is_per_hit else of_queries(asked)
    if ties != "file":
        results = replace(results, hits=rank_hits(results.hits, ties))
    if not isinstance(found, Table):
        return results
    tell_unread(table, own, results)
    _warn_of_references(table, given, own)
    order = "order of the hits"
    rank = f"{roles['score']} (descending)" if is_per_hit and "score" in roles else order
    told = {"rank": rank} if ids and "rank" not in roles else {}
    return replace(results, mapping=mapping_of(roles | told, own))


def refuse_empty(table: Table) -> None:
    """Refuse a table without rows."""
    if not len(table):
        raise DataError(
            f"the {table.kind} has no rows", file=table.name, allowed="at least one row"
        )


def own_columns(table: Table, roles: Columns) -> dict[str, pd.Series]:
    """Return the columns that no role takes, nor lies in."""
    used = {column.partition(".")[0] for column in roles.values()} | set(roles.values())
    return {str(name): one for name, one in table.frame.items() if name not in used}


def mapping_of(roles: Columns, own: Mapping[str, Any]) -> pd.DataFrame:
    """Return which column was taken for which role; what no role takes is kept as `x_<name>`."""
    every = {**roles, **{f"x_{name}": name for name in own}}
    return pd.DataFrame({"role": list(every), "column": list(every.values())}, dtype="str")


def tell_unread(table: Table, own: Mapping[str, pd.Series], results: Results) -> None:
    """Warn of columns that no role takes and that may hold what was returned."""
    responses, told, proposed = results.responses, [], ""
    if len(results.hits):
        return
    has_answers = "answer" in responses and bool(responses["answer"].notna().any())
    has_answers |= results.reported is not None and len(results.reported) > 0
    for name in own:
        value = nested(table.fields[name])
        first = value[0] if isinstance(value, list) and value else value
        known = inner_roles(first, "doc_id") if isinstance(first, dict) else {}
        role = next((role for role in (*ID_ROLES, "text") if role in known), None)
        if isinstance(value, list) and role is not None:
            told.append(f"{name} (list of {plural(len(value), 'object')}: {name_list(first)})")
            proposed = f'; columns={{"{role}": "{name}.{known[role]}"}}'
        elif not has_answers or names_hits(name):
            told.append(name)
    if told:
        warn(f"{table.name}: not read: {', '.join(told)}{proposed}")


def _warn_of_references(
    table: Table, given: Mapping[str, pd.Series], own: Mapping[str, pd.Series]
) -> None:
    """Warn where every answer is the reference beside it."""
    answer = given.get("answer")
    for name in [name for name in own if is_reference(name)]:
        if answer is None or len(answer) < MOST_SAME or answer.isna().any():
            continue
        if (answer.astype("str") == own[name].astype("str")).all():
            warn(f"{table.name}: every {answer.name} is its {name}: is it the expected one?")


def own_frame(columns: Mapping[str, pd.Series]) -> dict[str, pd.Series]:
    """Return a user's own columns as `x_<name>`: mappings become one column per key, lists JSON."""
    found: dict[str, pd.Series] = {}
    for name, column in columns.items():
        if column.dtype != object:
            found[f"x_{name}"] = column
            continue
        values = values_of(own_values(column).tolist())
        rest: dict[str, Any] = {}
        Level({name: values}, np.arange(len(column)), "", Batch(np.arange(len(column)))).extras(
            rest
        )
        found |= {one: series(values) for one, values in rest.items()}
    return found


# One row per query


def of_queries(asked: Asked) -> Results:
    """Return the results of a table with one row per query."""
    lists = {role: asked.columns[role] for role in OF_HITS if role in asked.columns}
    items = None
    if lists and not lists.keys() <= {"score", "rank"}:
        items = exploded(lists, asked.cells)
    elif lists:
        for role, column in lists.items():
            allowed = f'a value of hits; columns={{"{role}": None}} if it is no {role} of hits'
            asked.cells.report(column, column.notna(), allowed)
    hits, row = _read_hits(items.columns, asked, items.row) if items else (None, None)
    columns = _responses(asked)
    keep = asked.cells.keep.copy()
    runs = _repeats(asked, columns, keep)
    responses = pd.DataFrame(
        {"run_id": runs["run_id"], "query_id": asked.query_id} | columns | own_frame(asked.own)
    )
    refused = responses.get("refused")
    responses = _with_blank_refused(responses)
    if refused is not None and refused.notna().any():
        stating = responses.loc[refused.notna(), "run_id"]
        responses = with_refusals_implied(responses, responses["run_id"].isin(stating).to_numpy())
    frames: dict[str, Any] = {}
    if hits is not None and row is not None:
        cell = pd.DataFrame(
            {one: responses[one].take(row).reset_index(drop=True) for one in ("run_id", "query_id")}
        )
        kept = keep[row] & hits.pop("keep")
        hits = pd.concat([cell, pd.DataFrame(hits)], axis=1)[kept].reset_index(drop=True)
        codes = row[kept]
        _warn_of_joined(asked, hits, codes, len(keep))
        frames = _ranked(hits, codes, asked, has_order=True) if len(hits) else {}
        if "rank" in hits and "call" not in hits:
            order = np.lexsort((frames["hits"]["rank"], codes))
            frames["hits"] = frames["hits"].take(order).reset_index(drop=True)
    if items is not None and items.n_calls:
        frames["calls"] = _every_call(items, responses, keep, frames.get("calls"))
    cited = _citations(asked, responses, keep) or _inline(responses[keep], frames.get("hits"))
    stored = _stored(asked, responses)
    responses, runs = responses[keep], runs[keep]
    asked.cell = responses[["run_id", "query_id"]]
    counts = runs.assign(failed=responses["error"].notna())
    described = runs.drop_duplicates("run_id").drop(columns="row").reset_index(drop=True)
    described["n_queries"] = counts.groupby("run_id", sort=False).size().to_numpy()
    described["n_failed"] = counts.groupby("run_id", sort=False)["failed"].sum().to_numpy()
    if "n_citations" in cited:
        responses = responses.assign(n_citations=cited.pop("n_citations")[keep])
    return Results(
        runs=described,
        responses=_without_empty(responses.reset_index(drop=True)),
        hits=frames.pop("hits", empty("hits")),
        **frames, **cited, **stored,
        problems=asked.problems.frame(),
    )  # fmt: skip


def _every_call(
    items: Items, responses: pd.DataFrame, keep: Flags, calls: pd.DataFrame | None
) -> pd.DataFrame:
    """Return the calls of lists of lists, with those that found nothing."""
    n = np.minimum(np.bincount(items.row, minlength=len(keep)), 1)
    n[[*items.n_calls]] = [*items.n_calls.values()]
    row = np.repeat(np.arange(len(n)), n)
    number = np.arange(len(row)) - np.repeat(n.cumsum() - n, n) + 1
    place = ["run_id", "query_id", "call"]
    every = responses[place[:2]].take(row).assign(call=number)[keep[row]]
    if calls is None:
        return every.assign(n_hits=0)
    both = every.merge(calls.astype({"run_id": every["run_id"].dtype}), on=place, how="left")
    return both.fillna({"n_hits": 0}).astype({"n_hits": calls["n_hits"].dtype})


def _without_empty(responses: pd.DataFrame) -> pd.DataFrame:
    """Return responses without optional columns of which no value is known."""
    needed = ("run_id", "query_id", "query", "error")
    return responses[[one for one in responses if one in needed or responses[one].notna().any()]]


def _responses(asked: Asked) -> dict[str, pd.Series]:
    """Return the columns of responses, row by row."""
    found = {"query": None, "error": None} | {
        column: asked.cells.take(asked.columns[role], type, role)
        for role, (column, type) in PER_QUERY.items()
        if role in asked.columns
    }
    none = pd.Series(pd.NA, range(len(asked.table)), dtype="str")
    return {name: none if one is None else one for name, one in found.items()}


def _with_blank_refused(responses: pd.DataFrame) -> pd.DataFrame:
    """Return responses whose blank answers are refusals, where nothing states it."""
    if "answer" not in responses:
        return responses
    is_blank = responses["answer"].str.strip().eq("").fillna(False).astype(bool)
    if not is_blank.any():
        return responses
    unknown = pd.Series(pd.NA, responses.index, dtype="boolean")
    refused = responses.get("refused", unknown)
    return responses.assign(refused=refused.mask(is_blank & refused.isna(), True))


def _repeats(asked: Asked, responses: Mapping[str, pd.Series], keep: Flags) -> pd.DataFrame:
    """Return the run of each row: further answers of a run to a query are runs of their own.

    Rows that are no repeats are problems, and leave `keep`: another question under the same id,
    and those that a session or the like tells apart.
    """
    table, problems = asked.table, asked.problems
    rows = pd.DataFrame({"row": np.arange(len(table)), "run": asked.run, "query": asked.query_id})
    rows["text"] = ids_made(responses["query"], hash_query)
    declared = "repeat" in asked.columns
    rows["repeat"] = asked.cells.numbers(asked.columns["repeat"], "whole") if declared else pd.NA
    keep &= asked.cells.keep
    same = ["run", "query"]
    again = rows[keep & rows.duplicated(same, keep=False).to_numpy()]
    first = again.groupby(same, sort=False)["text"].transform("first")
    for row in again.index[(again["text"] != first) & again["text"].notna() & first.notna()]:
        before = again[(again[same] == again.loc[row, same]).all(axis=1)].index[0]
        asks = (excerpt(responses["query"].iloc[one]) for one in (before, row))
        problems.add(
            f"{asked.query_id.iloc[row]!r} is the id of {' and of '.join(asks)}",
            line=int(table.lines[row]), field="query_id",
            allowed='one question per id; columns={"query_id": None} makes ids of the questions',
        )  # fmt: skip
        keep[row] = False
    again = again[keep[again.index]]
    again = again[again.duplicated([*same, "repeat"], keep=False)]
    telling = None if asked.are_repeats or not len(again) else _telling(asked, again)
    if telling is not None:
        for row in again.index[again.duplicated(same)]:
            keep[row] = False
            problems.add(
                f"{_called(asked, responses, row)} stands there more than once, with several values"
                f" of {telling}: these may not be repeats",
                line=int(table.lines[row]), field=telling,
                allowed=f'columns={{"run_id": "{telling}"}} if it names the system, or a query_id'
                f' for each {telling}; {{"repeat": None}} if they are repeats all the same',
            )  # fmt: skip
    elif len(again):
        firsts = again.index[~again.duplicated(same)]
        called = list(dict.fromkeys(_called(asked, responses, row) for row in firsts))
        several = "1 query stands" if len(called) == 1 else f"{len(called)} queries stand"
        warn(
            f"{table.name}: {several} there more than once ({', '.join(called[:5])}); each further"
            " answer is kept as a repeat, in a run of its own"
        )
    kept = rows[keep]
    number = kept.groupby(same, sort=False).cumcount() + 1
    is_free = kept["repeat"].notna() & ~kept.duplicated([*same, "repeat"])
    rows.loc[keep, "repeat"] = kept["repeat"].where(is_free, number).astype("Int64")
    repeat = rows["repeat"].fillna(1).astype("Int64")
    is_named = pd.Series(declared, rows.index) | (repeat > 1)
    named = rows["run"].where(~is_named, rows["run"] + "-r" + repeat.astype("str"))
    found = pd.DataFrame(
        {"row": rows["row"], "run_id": named, "system": rows["run"], "repeat": repeat}
    )
    other = found[keep].groupby("run_id", sort=False)[["system", "repeat"]].transform("first")
    for row in other.index[(other != found.loc[other.index, ["system", "repeat"]]).any(axis=1)]:
        keep[row] = False
        problems.add(
            f"repeat {repeat[row]} of {found['system'][row]!r} would be named as a run of"
            f" {other['system'][row]!r} is: {named[row]!r}",
            line=int(table.lines[row]),
            allowed="names of runs that don't end as those of repeats do; or a column repeat",
        )  # fmt: skip
    return found


def _called(asked: Asked, responses: Mapping[str, pd.Series], row: int) -> str:
    """Return a query as people know it: its text, else its id."""
    text = responses["query"].iloc[row]
    return excerpt(asked.query_id.iloc[row] if pd.isna(text) else text)


def _telling(asked: Asked, again: pd.DataFrame) -> str | None:
    """Return the column that tells apart rows of the same run and query, None if nothing does.

    It is called as a session or the like is, or it holds the same few texts for several queries.
    """
    places = {one: asked.columns[one] for one in ("conversation", "turn") if one in asked.columns}
    rows = again.index.to_numpy()
    both = {f"x_{one}": column.take(rows).reset_index(drop=True) for one, column in places.items()}
    both |= own_frame({n: c.take(rows).reset_index(drop=True) for n, c in asked.own.items()})
    group = again.groupby(["run", "query"], sort=False).ngroup().to_numpy()
    for name, column in both.items():
        name = name.removeprefix("x_").removesuffix(".json")
        values = pd.Series(own_values(column))
        kinds = {*map(type, values)}
        pairs = pd.DataFrame({"group": group, "value": values.astype("str")})
        if values.isna().any() or pairs.duplicated().any() or float in kinds:
            continue
        is_text = kinds == {str} and pd.to_numeric(values, "coerce").isna().all()
        is_few = is_text and values.nunique() * 2 <= len(values)
        if is_called(name, CIRCUMSTANCES) or is_few:
            return str(places[name].name) if name in places else name
    return None


def _citations(asked: Asked, responses: pd.DataFrame, keep: Flags) -> dict[str, Any]:
    """Return the frame of citations, and the 0 of answers that have an empty list of them."""
    if "citations" not in asked.columns:
        return {}
    column = asked.columns["citations"]
    role = "chunk_id" if "chunk" in str(column.name).lower() else "doc_id"
    items = exploded({role: column}, asked.cells)
    row = items.row
    found = {
        name: one for name, one in items.columns.items() if name not in ("rank", "score", "call")
    }
    of_items = Cells(asked.problems, asked.table.lines[row])
    for name in {*ID_ROLES, "text"} & found.keys():
        found[name] = (
            of_items.ids(found[name], name, False)
            if name != "text"
            else of_items.texts(found[name])
        )
    if "text" in found:
        found["x_text"] = found.pop("text")
    cell = {one: responses[one].take(row).reset_index(drop=True) for one in ("run_id", "query_id")}
    cited = pd.DataFrame(cell | {"position": _ranks_in_order(row, len(np.unique(row)))} | found)
    is_empty = items.is_known & (np.bincount(row, minlength=len(keep)) == 0)
    n_cited = pd.Series(np.where(is_empty, 0, np.nan)).astype("Int64")
    cited = cited[keep[row]].reset_index(drop=True)
    return {"citations": cited if len(cited) else empty("citations"), "n_citations": n_cited}


def _inline(responses: pd.DataFrame, hits: pd.DataFrame | None) -> dict[str, Any]:
    """Return the citations that answers hold as the ranks of their hits: `[1]`, `[2]`."""
    if hits is None or "answer" not in responses:
        return {}
    marks = responses["answer"].str.extractall(r"(\[(\d{1,3})\])")
    cell = responses.loc[marks.index.get_level_values(0), ["run_id", "query_id"]].astype("str")
    marked = cell.assign(marker=marks[0].to_numpy(), rank=marks[1].astype("int32").to_numpy())
    marked["position"] = marked.groupby(["run_id", "query_id"]).cumcount() + 1
    ids = [one for one in ID_ROLES if one in hits]
    found = marked.merge(
        hits.astype({"run_id": "str"})[["run_id", "query_id", "rank", *ids]], "left"
    ).drop(columns="rank")
    return {"citations": found} if found[ids].notna().any(axis=None) else {}


def _stored(asked: Asked, responses: pd.DataFrame) -> dict[str, Any]:
    """Return the frames of the values that another tool computed."""
    records = []
    roles = [role for role in asked.columns if role.startswith("score.")]
    cells: list[Any] = responses[["run_id", "query_id"]].to_dict("records") if roles else []
    for role in roles:
        about = {
            name: own_values(asked.columns[f"{prefix}{role.removeprefix('score.')}"])
            for name, prefix in (
                ("value", "score."),
                ("reason", "reason."),
                ("error", "scorer_error."),
            )
            if f"{prefix}{role.removeprefix('score.')}" in asked.columns
        }
        for at in np.flatnonzero(asked.cells.keep):
            known = {name: values[at] for name, values in about.items()}
            known["is_judged"] = known.get("reason") is not None
            records.append(cells[at] | stored(role.removeprefix("score."), **known))
    return frames_of_scores(records)


# One row per hit


def _read_hits(
    columns: Mapping[str, pd.Series], asked: Asked, row: Codes
) -> tuple[dict[str, Any], Codes]:
    """Return the columns of hits by their type, with `keep`, the hits without a fault."""
    cells = Cells(asked.problems, asked.table.lines[row], drops=True)
    given = [role for role in ID_ROLES if role in columns]
    hits: dict[str, Any] = {
        role: cells.ids(columns[role], role, len(given) == 1 and "text" not in columns)
        for role in given
    }
    if "text" in columns:
        hits["text"] = cells.texts(columns["text"])
        hits |= _text_ids(hits)
    for role, type in (("rank", "rank"), ("call", "rank"), ("score", "number")):
        if role in columns:
            hits[role] = cells.numbers(columns[role], type)
    hits |= {name: one for name, one in columns.items() if name.startswith("x_")}
    return hits | {"keep": cells.keep}, row


def _text_ids(hits: Mapping[str, Any]) -> dict[str, Any]:
    """Return chunk ids for passages without any id: that of the same text, else one made of it."""
    text, known = hits["text"], [hits[one] for one in ID_ROLES if one in hits]
    without = text.fillna("").ne("") & np.all([one.isna() for one in known] or [True], axis=0)
    if not without.any():
        return {}
    made = ids_made(text.where(without), text_id)
    if "chunk_id" not in hits:
        return {"chunk_id": made}
    plain = text.where(text.notna(), "").map(normal_text)
    first = pd.Series(hits["chunk_id"].to_numpy(), plain).dropna()
    first = first[~first.index.duplicated()]
    return {"chunk_id": hits["chunk_id"].where(~without, plain.map(first).fillna(made))}


def _of_hits(asked: Asked) -> Results:
    """Return the results of a table with one row per hit."""
    table, columns, cells = asked.table, asked.columns, asked.cells
    if scored := [role for role in columns if role.startswith(METRIC_ROLES)]:
        raise DataError(
            f"{scored[0]} in a table with one row per hit", file=table.name, field="columns",
            allowed="values of metrics in a table with one row per query",
        )  # fmt: skip
    hits, _ = _read_hits(columns, asked, np.arange(len(table)))
    cells.keep &= hits.pop("keep")
    runs, described = coded(asked.run), None
    if "repeat" in columns:
        repeats = cells.numbers(columns["repeat"], "rank")
        if repeats.nunique() > 1:  # each a run of its own
            system, runs = runs, coded(runs.astype("str") + "-r" + repeats.astype("str"))
            described = pd.DataFrame({"run_id": runs, "system": system, "repeat": repeats})
            described = described[cells.keep].drop_duplicates("run_id").astype({"system": "str"})
    if "score" in hits and "rank" not in hits:
        run, without = codes_of(runs), np.isnan(hits["score"].to_numpy())
        some = np.bincount(run[~without & (run >= 0)], minlength=len(runs.cat.categories)) > 0
        cells.report(
            columns["score"], without & some[run], "a score in every hit of a run, or a rank"
        )
    frame = pd.DataFrame(
        {"query_id": asked.query_id, **hits, "run_id": runs} | own_frame(asked.own), copy=False
    )
    lines = table.lines
    if not cells.keep.all():
        frame, lines = frame[cells.keep].reset_index(drop=True), lines[cells.keep]
        columns = {role: one[cells.keep].reset_index(drop=True) for role, one in columns.items()}
    query = coded(frame["query_id"])
    names, texts = frame["run_id"].cat.categories, query.cat.categories
    width = max(len(texts), 1)
    cell = codes_of(frame["run_id"]).astype(np.int64) * width + codes_of(query)
    size = np.bincount(cell, minlength=len(names) * width)
    _warn_of_joined(asked, frame, cell, int(np.count_nonzero(size)))
    of_cell = _Cell(table.name, lines, cell, np.flatnonzero(size), asked.problems)
    for name in [name for name in frame if is_called(str(name), DIALOGUES)]:
        own = frame[name].rename(str(name).removeprefix("x_"))
        of_cell.refuse_several(own, codes_of(coded(own.astype("str"))), str(own.name))
    frames = _ranked(frame, cell, asked, has_order=False)
    responses = pd.DataFrame(
        {
            "run_id": names.to_numpy()[of_cell.used // width],
            "query_id": texts.to_numpy()[of_cell.used % width],
        },
        dtype="str",
    )
    for role, (name, type) in PER_QUERY.items():
        if role in columns:
            responses[name] = of_cell.first(columns[role], role, type)
    if described is None:
        described = pd.DataFrame({"run_id": names, "system": names}, dtype="str")
    return Results(
        runs=described, responses=_with_blank_refused(responses), **frames,
        problems=asked.problems.frame(),
    )  # fmt: skip


@dataclass(frozen=True)
class _Cell:
    """The run and query of each hit: `cell` is its number, `used` those that there are."""

    file: str
    lines: Codes
    cell: Codes
    used: Codes
    problems: Problems

    def first(self, column: pd.Series, role: str, type: str) -> pd.Series:
        """Return the first known value of each response; two questions or answers are refused."""
        known = np.flatnonzero(column.notna().to_numpy())
        of, first = np.unique(self.cell[known], return_index=True)
        if role in (*IN_DIALOGUE, "answer"):
            texts = Cells(self.problems, self.lines).take(column, "text", role)
            if role == "query":  # letter case and spacing don't matter
                texts = ids_made(texts, hash_query)
            self.refuse_several(column, codes_of(coded(texts)), role)
        place = np.full(int(self.used.max(initial=0)) + 1, -1)
        place[of] = known[first]
        rows = place[self.used]
        taken = column.reset_index(drop=True).reindex(rows).reset_index(drop=True)  # -1: missing
        return Cells(self.problems, self.lines[np.maximum(rows, 0)]).take(taken, type, role)

    def refuse_several(self, column: pd.Series, codes: Codes, what: str) -> None:
        """Refuse a column with several values for one query of a run; the code -1 is none."""
        known = np.flatnonzero(codes >= 0)
        _, first, group = np.unique(self.cell[known], return_index=True, return_inverse=True)
        is_other = codes[known] != codes[known][first][group]
        if not is_other.any():
            return
        place = int(is_other.argmax())
        row, before = int(known[place]), int(known[first[group[place]]])
        raise DataError(
            f"{what} {excerpt(plain_cell(column.iloc[row]))} for a query that has"
            f" {excerpt(plain_cell(column.iloc[before]))} in line {self.lines[before]}",
            file=self.file, line=int(self.lines[row]), field=str(column.name),
            allowed=f"one {what} for each run and query; columns= may name another query_id, or the"
            " run_id",
        )  # fmt: skip


# Ranks


def _ranked(hits: pd.DataFrame, cell: Codes, asked: Asked, has_order: bool) -> dict[str, Any]:
    """Return hits with ranks, and the calls that returned them.

    Without stored ranks, the order of the scores counts, unless the hits are in an order already.
    """
    table, n_used = asked.table, len(np.unique(cell))
    run_column = None if has_order else _run_column(hits, cell)
    if "call" in hits:
        hits = _ranked_by_call(hits, cell, asked, has_order)
        in_call = hits.groupby(["run_id", "query_id", "call"], observed=True, sort=False).size()
        calls = in_call.rename("n_hits").reset_index()
        calls = calls.sort_values(["run_id", "query_id", "call"], ignore_index=True)
        return {"hits": hits, "calls": calls}
    if "rank" in hits:
        if not _are_ranks(cell, hits["rank"].to_numpy(), n_used):
            try:
                hits = rank_hits(hits)
            except DataError as error:
                ways = f"if it names the run; {error.allowed}" if run_column else error.allowed
                twice = pd.DataFrame({"cell": cell, "rank": hits["rank"]}).duplicated().to_numpy()
                raise DataError(
                    error.found, file=table.name, field=str(asked.roles.get("rank", "rank")),
                    line=int(asked.table.lines[cell[twice.argmax()]]) if has_order else None,
                    columns={"run_id": run_column} if run_column else None, allowed=ways,
                ) from error  # fmt: skip
    elif "score" in hits and hits["score"].notna().any() and not has_order:
        scores = hits["score"].to_numpy()
        _warn_of_whole_scores(table.name, scores)
        hits = hits.assign(rank=_ranks_by_score(cell, scores, n_used))
    else:
        hits = hits.assign(rank=_ranks_in_order(cell, n_used))
    if run_column is not None:
        warn(
            f"{table.name}: documents repeat within a query, but not within a query and"
            f' {run_column}; columns={{"run_id": "{run_column}"}} if it names the run'
        )
    return {"hits": hits}


def _ranked_by_call(hits: pd.DataFrame, cell: Codes, asked: Asked, has_order: bool) -> pd.DataFrame:
    """Return hits with calls from 1, and ranks through the calls of a query, one after the other.

    Ranks and scores of the table are those within a call.
    """
    call, name = hits["call"].to_numpy(np.int64), asked.roles.get("call", "call")
    if len(call) and call.min() < 0:
        raise DataError(f"call {call.min()}", file=asked.table.name, field=name,
                        allowed="whole numbers from 1, or from 0")  # fmt: skip
    within = cell * (int(call.max(initial=0)) + 1) + call
    n_used = len(np.unique(within))
    if "rank" in hits:
        inner = hits["rank"].to_numpy()
        if (twice := pd.DataFrame({"list": within, "rank": inner}).duplicated()).any():
            at = int(twice.to_numpy().argmax())
            raise DataError(
                f"rank {inner[at]} twice in call {call[at]} of"
                f" {hits['query_id'].iloc[at]!r}",
                file=asked.table.name, line=int(asked.table.lines[at]),
                field=asked.roles.get("rank"), allowed="each rank once in a call",
            )  # fmt: skip
    elif "score" in hits and hits["score"].notna().any() and not has_order:
        inner = _ranks_by_score(within, hits["score"].to_numpy(), n_used)
    else:
        inner = _ranks_in_order(within, n_used)
    order = np.lexsort((inner, call, cell))
    rank = np.empty(len(order), dtype=np.int32)
    begins = np.flatnonzero(np.diff(cell[order], prepend=-1))
    starts = np.repeat(begins, np.diff(begins, append=len(order)))
    rank[order] = np.arange(len(order)) - starts + 1
    return hits.assign(call=call + (1 if call.min(initial=1) == 0 else 0), rank=rank)


def _warn_of_whole_scores(name: str, scores: npt.NDArray[np.float64]) -> None:
    """Warn of scores that are few small whole numbers, as judges give them."""
    if len(scores) < FEW_ROWS or not np.isin(scores, range(MOST_GRADES)).all():
        return
    low, high = int(scores.min()), int(scores.max())
    shown = f"all {low}" if low == high else f"whole numbers from {low} to {high}"
    warn(
        f"{name}: the scores are {shown}, as grades of labels are: rs.load_golden takes"
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


def _warn_of_joined(asked: Asked, hits: pd.DataFrame, cell: Codes, n_used: int) -> None:
    """Warn where the only id of each query seems to be several ids in one text."""
    if len(cell) != n_used or "rank" in hits or "score" in hits:
        return
    for role in [role for role in ID_ROLES if role in asked.columns]:
        some = hits[role].iloc[:100].dropna()
        name, marks = asked.columns[role].name, (";", "|", ",")
        joins = (one for one in marks if len(some) and some.str.contains(one, regex=False).all())
        if (mark := next(joins, None)) is not None:
            warn(
                f"{asked.table.name}: every value of {name} has {mark!r} in it, such as"
                f" {excerpt(some.iloc[0])}; several ids in one text count as one, lists of ids"
                f" don't (.str.split({mark!r}) makes them)"
            )


def _are_ranks(cell: Codes, rank: npt.NDArray[np.int32], n_used: int) -> bool:
    """Return True if the ranks of each cell are 1, 2, 3 and so on; False if unsure.

    A table of all possible ranks costs a fraction of a sort.
    """
    width, n_cells = int(rank.max(initial=0)) + 1, int(cell.max(initial=0)) + 1
    if not len(rank) or rank.min() < 1 or n_cells * width > 16 * len(rank) + 2**20:
        return False
    if (rank > np.bincount(cell)[cell]).any():  # some are left out
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
