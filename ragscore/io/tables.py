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
import pandas as pd

from ragscore.frames.codes import coded, codes_of
from ragscore.frames.data import DataError, Results, from_records
from ragscore.frames.errors import excerpt, name_list, plural, warn
from ragscore.frames.kinds import categorical, empty
from ragscore.frames.ranking import places, rank_hits
from ragscore.frames.schema import FIELDS
from ragscore.frames.typing import Codes
from ragscore.io.cells import (
    Cells,
    hash_query,
    ids_made,
    ids_of_queries,
    own_columns_of,
    plain_values,
    run_name_of,
    text_id,
)
from ragscore.io.columns import (
    ID_ROLES,
    METRIC_ROLES,
    Columns,
    called,
    check_columns,
    inner_roles,
    resolve,
)  # fmt: skip
from ragscore.io.exploded import Items, exploded, is_listed
from ragscore.io.frames_in import Table, table_of
from ragscore.io.run_file import with_refusals
from ragscore.io.run_records import values_of
from ragscore.io.source import Problems, as_text
from ragscore.io.values import LIST_ALLOWED, VERDICTS, as_number, nested, plain_cell

OF_HITS = (*ID_ROLES, "text", "score", "rank")
IN_DIALOGUE = ("query", "conversation", "turn")
CELL = ["run_id", "query_id"]
PER_QUERY = {
    one.role or one.column: (one.column, "answer" if one.column == "answer" else one.type)
    for one in FIELDS["responses"]
    if one.names and one.column not in CELL
}
"""Roles of a response: their column and the type of its values."""


@dataclass
class Asked:
    """The rows of a table: what each asks of which run, and its other columns by their role.

    Attributes
    ----------
    columns
        Role -> column.
    own
        Columns without a role, as `x_<name>`.
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
    cell: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __post_init__(self) -> None:
        self.cells = Cells(self.problems, self.table.lines)
        self.query_id = query_ids_of(self.columns, self.cells)
        of_all = pd.Series(categorical(np.zeros(len(self.table.frame), np.int8), [self.run_id]))
        named = self.columns.get("run_id")
        self.run = of_all if named is None else coded(self.cells.ids(named, "run_id"))


def query_ids_of(columns: Mapping[str, pd.Series], cells: Cells) -> pd.Series:
    """Return the id of each row's query, made of its text or place where there is none."""
    if "query_id" in columns:
        return cells.ids(columns["query_id"], "query_id")
    asked = {one: cells.take(columns[one], "text") for one in IN_DIALOGUE if one in columns}
    runs = columns["run_id"].astype("str") if "run_id" in columns else None
    found = ids_of_queries(pd.DataFrame(asked), runs)
    missing = "neither a query nor an id"
    cells.report(found, found.isna(), "text of the query, or its id", missing)
    return found


@dataclass(frozen=True)
class Groups:
    """Rows of the same query: `of` is the number of each row's query, of `n`.

    `names` has what messages call the query of each row.
    """

    of: Codes
    n: int
    cells: Cells
    names: pd.Series

    def first(self, column: pd.Series) -> pd.Series:
        """Return the first known value of each query."""
        if np.array_equal(self.of, np.arange(self.n)):
            return column.reset_index(drop=True)
        known = column.reset_index(drop=True).dropna()
        first = known.groupby(self.of[known.index]).head(1)
        return first.set_axis(self.of[first.index]).reindex(range(self.n))

    def one(self, values: pd.Series, role: str, drops: bool = False) -> pd.Series:
        """Return the first known value of each query; one that isn't the same is a problem."""
        first, same = self.first(values), values.reset_index(drop=True)
        if self.n == len(self.of):  # each query occurs once
            return first
        if role == "query":  # letter case and spacing don't matter
            same = ids_made(same, hash_query)
        before = self.first(same).take(self.of).reset_index(drop=True)
        differs = (same != before).to_numpy() & values.notna().to_numpy()
        if differs.any():
            row = int(differs.argmax())
            known, found = (excerpt(plain_cell(o)) for o in (first[self.of[row]], values.iloc[row]))
            self.cells.report(
                values, differs,
                f"one {role} for each query; columns= may name another query_id, the run_id, or"
                f' {{"{"query_id" if role == "query" else role}": None}}',
                f"{role} {found} for query {excerpt(self.names.iloc[row])}, which has {known}",
                drops=drops,
            )  # fmt: skip
        return first


def read_results_table(
    source: Path | Table | Mapping[Any, Any],
    strict: bool,
    columns: Columns | None = None,
    run_id: str | None = None,
) -> Results:
    """Return the runs of a table.

    `columns` is role -> column, over what the columns' names say; `run_id` names a run that no
    column names.
    """
    table, problems = table_of(source, strict, columns, "results")
    roles = roles_of(table, columns, "results")
    given = {role: table.column(one) for role, one in roles.items()}
    own = own_columns(table, roles)
    run_id = run_id or (run_name_of(source) if isinstance(source, Path) else "run")
    asked = Asked(table, given, own, problems, run_id, "repeat" in (columns or {}))
    ids = [role for role in ID_ROLES if role in roles] or ["text"] * ("text" in roles)
    is_per_hit = bool(ids) and not any(is_listed(given[role], asked.query_id) for role in ids)
    results = of_hits(asked) if is_per_hit else of_queries(asked)
    if table.roles:
        return results
    _tell_unread(table, own, results)
    rank = "order of the hits"
    if is_per_hit and (score := roles.get("score")):
        rank = f"{score} ({'ascending' if 'distance' in score.lower() else 'descending'})"
    ranked_by = {"rank": rank} if ids and "rank" not in roles else {}
    results.mapping = mapping_of(roles | ranked_by, own)
    return results


def roles_of(table: Table, columns: Columns | None, side: str) -> Columns:
    """Return role -> column: by the source's shape, else by its names."""
    if not table.roles:
        roles = resolve(table.fields, columns, side, table.name, table.kind)
        for name in [roles[one] for one in ID_ROLES if roles.get(one, "").lower().endswith("s")]:
            if not is_listed(column := table.column(name)):
                is_packed = column.astype("str").str.fullmatch(_PACKED)
                allowed = f"one id, or {LIST_ALLOWED}, as frame[{name!r}].str.split(...) makes it"
                Cells(Problems(table.name, True), table.lines).report(column, is_packed, allowed)
        return roles
    stated = {role: one for role, one in (columns or {}).items() if one is not None}
    outer = {role: str(one).partition(".")[0] for role, one in stated.items()}
    check_columns(outer, table.fields, side, table.name)
    return table.roles | stated


_PACKED = r"[^\s;|,]+([;|,] ?[^\s;|,]+)+"
"""Several ids in one text, which no hit and no label could meet."""


def own_columns(table: Table, roles: Columns) -> dict[str, pd.Series]:
    """Return the columns that no role takes, nor lies in, as `x_<name>`, also if they begin so."""
    used = {column.partition(".")[0] for column in roles.values()} | set(roles.values())
    own = {str(name): one for name, one in table.frame.items() if name not in used}
    plain = {name: name.removeprefix("x_") for name in own}
    return {f"x_{name if plain[name] in own else plain[name]}": own[name] for name in own}


def mapping_of(roles: Columns, own: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Return which column was taken for which role; what no role takes is kept as `x_<name>`."""
    every = roles | {name: str(one.name) for name, one in own.items()}
    return pd.DataFrame({"role": list(every), "column": list(every.values())}, dtype="str")


def _tell_unread(table: Table, own: Mapping[str, pd.Series], results: Results) -> None:
    """Warn of columns that no role takes and that may hold what was returned."""
    if len(results.hits):
        return
    unread, proposed = [], ""
    has_answers = "answer" in results.responses or results.reported is not None
    for name in [str(one.name) for one in own.values()]:
        value = nested(table.fields[name])
        hit = value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}
        known = inner_roles(hit, "doc_id")
        if roles := [role for role in (*ID_ROLES, "text") if role in known]:
            unread.append(f"{name} (list of {plural(len(value), 'object')}: {name_list(hit)})")
            proposed = f'; columns={{"{roles[0]}": "{name}.{known[roles[0]]}"}}'
        elif not has_answers or called([name], "results", *ID_ROLES, "text"):
            unread.append(name)
    if unread:
        warn(f"{table.name}: not read: {', '.join(unread)}{proposed}")


def own_frame(columns: Mapping[str, pd.Series]) -> dict[str, pd.Series]:
    """Return a user's own columns: mappings become one column per key, lists JSON."""
    found: dict[str, pd.Series] = {}
    for name, column in columns.items():
        if column.dtype == object:
            values = {name.removeprefix("x_"): values_of(plain_values(column))}
            found |= own_columns_of(values, np.arange(len(column)))
        else:
            found[name] = column
    return found


# One row per query


def of_queries(asked: Asked) -> Results:
    """Return the results of a table with one row per query."""
    lists = {role: asked.columns[role] for role in OF_HITS if role in asked.columns}
    if not lists.keys() - {"score", "rank"}:
        for role, column in lists.items():
            allowed = f'a value of hits; columns={{"{role}": None}} if it is no {role} of hits'
            asked.cells.report(column, column.notna(), allowed)
        lists = {}
    return _results(asked, exploded(lists, asked.cells))


def _results(asked: Asked, items: Items, has_order: bool = True) -> Results:
    """Return the results of rows that are queries, and of the hits that are their items.

    `has_order`: without ranks, the order of the hits counts and not their scores.
    """
    cells, hits = asked.cells, _read_hits(items, asked.problems)
    none = pd.Series(pd.NA, range(len(asked.table.frame)), dtype="str")
    columns = {"query": none, "error": none} | {
        column: cells.take(asked.columns[role], type)
        for role, (column, type) in PER_QUERY.items()
        if role in asked.columns
    }
    runs = _repeats(asked, columns["query"])
    keep, cell = cells.keep, {"run_id": runs["run_id"], "query_id": asked.query_id}
    responses = pd.DataFrame(cell | columns | own_frame(asked.own))
    if {"answer", "refused"} & columns.keys():
        responses = with_refusals(responses)
    kept = np.flatnonzero(keep[items.row] & hits.pop("keep"))
    row, of_hits = items.row[kept], pd.DataFrame(hits, copy=False)
    if len(kept) < len(of_hits):
        of_hits = of_hits.take(kept).reset_index(drop=True)
    of_hits["run_id"] = responses["run_id"].take(row).reset_index(drop=True)
    of_hits["query_id"] = responses["query_id"].take(row).reset_index(drop=True)
    lines = items.lines[kept]
    ranked = _ranked(of_hits, row, lines, asked, has_order) if len(row) else empty("hits")
    frames: dict[str, Any] = {"hits": ranked}
    if items.calls is not None:
        calls = items.calls[keep[items.calls["row"]]]
        of_calls = responses[CELL].take(calls["row"].to_numpy()).reset_index(drop=True)
        frames["calls"] = of_calls.join(calls[["call", "n_hits"]].reset_index(drop=True))
    frames |= _citations(asked, responses) or _inline(responses[keep], ranked)
    frames |= _stored(asked, responses)
    responses, described = responses[keep], runs[keep].drop_duplicates("run_id")
    asked.cell = responses[CELL]
    place, run = (codes_of(one["run_id"]) for one in (described, responses))
    described["n_queries"] = np.bincount(run)[place]
    described["n_failed"] = np.bincount(run, responses["error"].notna())[place]
    needed = (*CELL, "query", "error")
    responses, described = (one.reset_index(drop=True) for one in (responses, described))
    responses = responses[[n for n in responses if n in needed or responses[n].notna().any()]]
    return Results(described, responses=responses, **frames, problems=asked.problems.frame())


def _repeats(asked: Asked, texts: pd.Series) -> pd.DataFrame:
    """Return the run of each row: further answers of a run to a query are runs of their own.

    Another question under the same id is a problem.
    """
    cells, run, same = asked.cells, asked.run.astype("str"), ["run", "query"]
    rows = pd.DataFrame({"run": run, "query": asked.query_id})
    if "repeat" not in asked.columns and not rows.duplicated().any():
        return pd.DataFrame({"run_id": asked.run, "system": run, "repeat": 1})
    cell = rows.groupby(same, sort=False, dropna=False).ngroup().to_numpy()
    groups = Groups(cell.astype(np.int64), cell.max() + 1, cells, asked.query_id)
    groups.one(texts.where(cells.keep), "query", drops=True)
    none = pd.Series(pd.NA, rows.index, dtype="Int64")
    rows["repeat"] = cells.numbers(asked.columns.get("repeat", none), "whole")
    is_declared = rows["repeat"].nunique() > 1
    again = rows[cells.keep & rows.duplicated([*same, "repeat"], keep=False).to_numpy()]
    if len(again) and not asked.are_repeats:
        asked_twice = texts.fillna(asked.query_id)[again.drop_duplicates(same).index]
        names = asked_twice.map(excerpt).unique()
        warn(
            f"{asked.table.name}: {plural(len(names), 'query')} asked more than once"
            f" ({', '.join(names[:5])}); each further answer is kept as a repeat, in a run of its"
            ' own; columns={"run_id": ...} separates systems, {"query_id": ...} queries'
        )
    kept = rows[cells.keep]
    is_free = kept["repeat"].notna() & ~kept.duplicated([*same, "repeat"])
    number = kept["repeat"].where(is_free, kept.groupby(same, sort=False).cumcount() + 1)
    repeat = number.reindex(rows.index).fillna(1).astype("Int64")
    named = run.mask(repeat.gt(1) | is_declared, run + "-r" + repeat.astype("str"))
    cells.report(
        named.rename("run_id"), named.ne(run) & named.isin(run.unique()),
        "names of runs that don't end as names of repeats do; or a column repeat",
    )  # fmt: skip
    return pd.DataFrame({"run_id": coded(named), "system": run, "repeat": repeat})


def _citations(asked: Asked, responses: pd.DataFrame) -> dict[str, Any]:
    """Return the frame of citations; responses with an empty list of them get the number 0."""
    if "citations" not in asked.columns:
        return {}
    column = asked.columns["citations"]
    role = "chunk_id" if "chunk" in str(column.name).lower() else "doc_id"
    items = exploded({role: column}, asked.cells)
    row = items.row
    columns = {n: one for n, one in items.columns.items() if n not in ("rank", "score", "call")}
    found = _read_hits(items._replace(columns=columns), asked.problems)
    kept = asked.cells.keep[row] & found.pop("keep")
    found = {"x_text" if name == "text" else name: one for name, one in found.items()}
    cell = responses[CELL].take(row).reset_index(drop=True)
    cited = cell.assign(position=places(row, np.arange(len(row))), **found)[kept]
    is_empty = items.is_known & (np.bincount(row, minlength=len(responses)) == 0)
    responses["n_citations"] = pd.Series(pd.NA, responses.index, dtype="Int64").mask(is_empty, 0)
    return {"citations": cited.reset_index(drop=True) if len(cited) else empty("citations")}


def _inline(responses: pd.DataFrame, hits: pd.DataFrame) -> dict[str, Any]:
    """Return the citations that answers hold as the ranks of their hits: `[1]`, `[2]`."""
    if not (
        len(hits)
        and "answer" in responses
        and responses["answer"].str.contains("[", regex=False).any()
    ):
        return {}
    marks = responses["answer"].str.extractall(r"(\[(\d{1,3})\])")
    cell = responses.loc[marks.index.get_level_values(0), CELL].astype("str")
    marked = cell.assign(marker=marks[0].to_numpy(), rank=marks[1].astype("int32").to_numpy())
    marked["position"] = marked.groupby(CELL).cumcount() + 1
    ids = [one for one in ID_ROLES if one in hits]
    of_hits = hits[[*CELL, "rank", *ids]].astype({"run_id": "str"})
    found = marked.merge(of_hits, "left").drop(columns="rank")
    return {"citations": found} if found[ids].notna().any(axis=None) else {}


def _stored(asked: Asked, responses: pd.DataFrame) -> dict[str, Any]:
    """Return the frames of the values that another tool computed."""
    metrics = [one.removeprefix("score.") for one in asked.columns if one.startswith("score.")]
    if not metrics:
        return {}
    records = []
    kept = responses.loc[asked.cells.keep, CELL]
    none = pd.Series(None, responses.index, dtype=object)
    for metric in metrics:
        about = (asked.columns.get(role + metric, none)[kept.index] for role in METRIC_ROLES)
        rows = zip(kept.to_dict("records"), *map(plain_values, about), strict=True)
        records += [
            cell | stored(metric, value, reason=reason, error=error, is_judged=reason is not None)
            for cell, value, reason, error in rows
        ]
    return frames_of_scores(records)


def _read_hits(items: Items, problems: Problems) -> dict[str, Any]:
    """Return the columns of hits by their type, with `keep`, the hits without a fault."""
    columns, cells = items.columns, Cells(problems, items.lines, drops=True)
    given = [role for role in ID_ROLES if role in columns]
    is_needed = len(given) == 1 and "text" not in columns
    hits: dict[str, Any] = {role: cells.ids(columns[role], role, is_needed) for role in given}
    if "text" in columns:
        text = hits["text"] = cells.take(columns["text"], "text")
        has_id = np.any([text.isna(), *(hits[one].notna() for one in given)], axis=0)
        made = ids_made(text.mask(has_id | text.eq("")), text_id)  # of passages that have no id
        if made.notna().any():
            hits["chunk_id"] = hits.get("chunk_id", made).fillna(made)
    for role, type in (("rank", "rank"), ("call", "rank"), ("score", "number")):
        if role in columns:
            hits[role] = cells.numbers(columns[role], type)
    if "score" in hits and "distance" in str(columns["score"].name).lower():
        hits["score"] = -hits["score"]
    own = {name: one for name, one in columns.items() if name.startswith("x_")}
    return hits | own | {"keep": cells.keep}


# One row per hit


def of_hits(asked: Asked) -> Results:
    """Return the results of a table with one row per hit; what is of a query is taken once."""
    table, columns, cells = asked.table, asked.columns, asked.cells
    if not (keep := cells.keep).all():
        parts = [
            {name: one[keep].reset_index(drop=True) for name, one in of.items()}
            for of in (columns, asked.own)
        ]
        return of_hits(replace(asked, table=table.part(keep), columns=parts[0], own=parts[1]))
    keys = [asked.run, coded(asked.query_id)]
    keys += [coded(columns["repeat"])] if "repeat" in columns else []
    place = np.zeros(len(table.frame), np.int64)
    for key in keys:
        place = place * (len(key.cat.categories) + 1) + codes_of(key) + 1
    cell = pd.factorize(place, sort=True)[0]
    first = np.zeros(cell.max(initial=-1) + 1, np.int64)
    first[cell[::-1]] = np.arange(len(cell))[::-1]  # of several rows the last one stays
    groups = Groups(cell, len(first), cells, asked.query_id)
    by_role = {"query_id": asked.query_id.take(first).reset_index(drop=True)}
    for role, column in columns.items():
        if role in PER_QUERY or role.startswith(METRIC_ROLES):
            by_role[role] = groups.one(column, role)
        elif role in ("citations", "repeat", "run_id"):
            by_role[role] = groups.first(column)
    rows = replace(table, frame=pd.DataFrame(index=range(len(first))), lines=table.lines[first])
    by_query = replace(asked, table=rows, columns=by_role, own={})
    hits = {role: one for role, one in columns.items() if role in (*OF_HITS, "call")}
    hits |= own_frame(asked.own)
    if "score" in columns and "rank" not in columns and columns["score"].isna().any():
        is_known = columns["score"].notna().groupby(codes_of(asked.run)).transform("any")
        allowed = "a score in every hit of a run, or a rank"
        cells.report(columns["score"], columns["score"].isna() & is_known, allowed)
    taken = np.flatnonzero(cells.keep)
    if len(taken) < len(cell):
        hits = {one: column.take(taken).reset_index(drop=True) for one, column in hits.items()}
    items = Items(np.ones(len(first), bool), cell[taken], hits, None, table.lines[taken])
    return _results(by_query, items, has_order=False)


# Ranks


def _ranked(
    hits: pd.DataFrame, cell: Codes, lines: Codes, asked: Asked, has_order: bool
) -> pd.DataFrame:
    """Return hits with ranks.

    Without stored ranks, the order of the scores counts, unless the hits are in an order already.
    Ranks and scores of a table with calls are those within a call; there the ranks run through the
    calls of a query, one after the other.
    """
    order: Any = np.arange(len(hits))
    lists = cell
    if "call" in hits:
        hits = hits.assign(call=hits["call"] + max(0, 1 - hits["call"].min()))
        lists = cell * (hits["call"].max() + 1) + hits["call"].to_numpy()
    if "rank" in hits:
        order = _stored_ranks(hits, lists, lines, asked)
    elif "score" in hits and hits["score"].notna().any() and not has_order:
        order = -hits["score"].to_numpy()
    keys = ["run_id", "query_id", *(one for one in (*ID_ROLES, "text") if one in hits)]
    is_ordered = has_order or "rank" in hits or "call" in hits or "run_id" in asked.columns
    has_own = any(str(one).startswith("x_") for one in hits)
    if not is_ordered and has_own and hits.head(100_000).duplicated(keys).any():
        warn(
            f"{asked.table.name}: documents occur in a query more than once;"
            ' columns={"run_id": ...} if a column separates runs'
        )
    if "rank" in hits and "call" not in hits:
        hits = hits.assign(rank=order)
        return hits.iloc[np.lexsort((order, cell))].reset_index(drop=True) if has_order else hits
    return hits.assign(rank=places(cell, np.lexsort((order, lists))).astype(np.int32))


def _stored_ranks(hits: pd.DataFrame, cell: Codes, lines: Codes, asked: Asked) -> Any:
    """Return ranks as they are stored: each once in a list, which has the number `cell`."""
    rank = hits["rank"].to_numpy()
    if np.array_equal(rank, places(cell, np.argsort(cell, kind="stable"))):
        return rank
    is_bad = (rank < 0) | pd.DataFrame({"cell": cell, "rank": rank}).duplicated().to_numpy()
    if not is_bad.any():
        return rank if "call" in hits else rank_hits(hits)["rank"]
    at = int(is_bad.argmax())
    raise DataError(
        f"rank {rank[at]} {'appears twice ' if rank[at] >= 0 else ''}for query"
        f" {hits['query_id'].iloc[at]!r} of run {hits['run_id'].iloc[at]!r}",
        file=asked.table.name, line=int(lines[at]), field="rank",
        allowed="whole numbers from 1 (or from 0), each once in a query; to rank by score:"
        " ties='trec', and columns={\"rank\": None} for a table; or the column that names runs",
    )  # fmt: skip


# Scores that other tools stored


SAME = {
    "faithfulness": "faithfulness", "context_precision": "context_precision",
    "llm_context_precision_with_reference": "context_precision",
    "contextual precision": "context_precision", "context_recall": "context_recall",
    "llm_context_recall": "context_recall",
    "contextual recall": "context_recall", "context-recall": "context_recall",
    "context-faithfulness": "faithfulness", "answer_relevancy": "answer_relevance",
}  # fmt: skip
"""Other tools' names (lower case) of judged metrics with our formula -> our name."""
ABOUT_METRIC = ("better", "lowest", "highest", "threshold")


def our_name(metric: str, same: dict[str, str] = SAME) -> str:
    """Return our name of another tool's metric if it is the same one, else its own name."""
    plain = metric.strip()
    return same.get(plain.lower(), plain)


def score_of(value: Any) -> tuple[float | None, str | None]:
    """Return a stored score as (number, verdict).

    Yes / no and booleans are 1 / 0. Another word is a verdict without a number. A list of one value
    is that value.
    """
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(value, bool):
        return float(value), str(value).lower()
    if (number := as_number(value)) is not None:
        return number, None
    word = as_text(value) if isinstance(value, str) else None
    if word is None or not word.strip() or word.strip().lower() in ("nan", "none", "null"):
        return None, None
    return VERDICTS.get(word.strip().lower()), word


def stored(
    metric: str, value: Any = None, same: dict[str, str] = SAME, **about: Any
) -> dict[str, Any]:
    """Return a stored score under our name of its metric.

    A score with an error has no value, whatever number is beside it.
    """
    number, verdict = (None, None) if about.get("error") is not None else score_of(value)
    if number is not None and verdict is not None:  # a flag, or a word for one
        about = {"lowest": 0.0, "highest": 1.0} | about
    verdict = about.pop("verdict", None) or verdict
    return {"metric": our_name(metric, same), "value": number, "verdict": verdict, **about}


def frames_of_scores(scores: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the frames of stored scores.

    Each is a dict of run_id, query_id, metric, value, verdict, reason, judge, error, cost_usd,
    is_judged, and `ABOUT_METRIC`. One without a value but with an error is a judge that failed.
    """
    known = {
        (one["run_id"], one["query_id"], one["metric"]): one
        for one in scores
        if one["value"] is not None or one.get("error") or one.get("verdict")
    }
    judged, reported = [], []
    for (run_id, query_id, metric), one in known.items():
        cell = {"run_id": run_id, "query_id": query_id}
        error, value, verdict = (one.get(name) for name in ("error", "value", "verdict"))
        if one.get("is_judged", True) or value is None:
            is_scored = error is None and (value is not None or verdict is not None)
            judged.append(cell | {
                "criterion": metric, "item": "", "value": value, "verdict": verdict,
                "reason": one.get("reason") if is_scored else error or one.get("reason"),
                "judge": one.get("judge"), "cost_usd": one.get("cost_usd"),
                "state": "scored" if is_scored else "judge_failed",
            })  # fmt: skip
        if value is not None:
            about = {name: one.get(name) for name in ABOUT_METRIC}
            reported.append(cell | {"metric": metric, "value": value} | about)
    return {
        kind: from_records(rows, kind)
        for kind, rows in (("judgments", judged), ("reported", reported))
        if rows
    }
