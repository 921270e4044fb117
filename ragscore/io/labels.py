"""Tables of labels of any library and shape -> `Golden`.

In: a table as for results, with one row per query or one row per judgement. All steps are about
columns; a row that a step can't take is a problem with its line.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import coded, codes_of
from ragscore.frames.data import Golden
from ragscore.frames.errors import DataError, name_list, warn
from ragscore.frames.kinds import IMPORTANCE, LABELS, empty
from ragscore.frames.typing import Flags
from ragscore.io.cells import Cells, plain_values
from ragscore.io.columns import ID_ROLES, Columns, called, kind_of
from ragscore.io.exploded import exploded, is_listed
from ragscore.io.frames_in import Table, table_of
from ragscore.io.golden_read import TAG_FIELDS, check_catalogue, check_groups, golden_of
from ragscore.io.source import Problems, Row
from ragscore.io.tables import (
    Groups,
    mapping_of,
    own_columns,
    own_frame,
    query_ids_of,
    roles_of,
    score_of,
)
from ragscore.io.values import nested, plain_cell

LEVELS = {"doc": "doc_id", "chunk": "chunk_id", "text": "text"}
CHECKS = {"must_contain": "must_contain", "forbidden": "forbidden", "key_facts": "key_fact"}
_GRAMMAR = frozenset(
    "gold_supports required_support_groups expected_metadata expected_substrings expected_empty"
    " expected_source_keys must_not_contain_source_keys recency_conflict_rule filters".split()
)
"""Fields of our golden file that are no columns of tables."""


def read_golden_table(
    source: Path | Table | Mapping[Any, Any],
    strict: bool,
    absent_docs: str,
    catalogue: pd.DataFrame | None,
    columns: Columns | None = None,
) -> Golden:
    """Return the labels of a table, with one row per query or one row per judgement."""
    table, problems = table_of(source, strict, columns, "golden")
    if _is_ours(table) and not columns:
        rows = []
        for row in table.rows():
            stated = {name: nested(one) for name, one in row.values.items() if one is not None}
            text = stated.get("id", stated.get("query_id"))
            rows.append(Row({"query": text} | stated, row.line))
        return golden_of(rows, problems, absent_docs, catalogue)
    roles = roles_of(table, columns, "golden")
    own = own_columns(table, roles)
    if "grade" not in roles.keys() | (columns or {}).keys():
        _ask_for_grades(table, roles, own.values())
    golden = labels_of(table, roles, problems, absent_docs, catalogue)
    if not table.roles:
        golden._mapping = mapping_of(roles, own)
    return golden


def _is_ours(table: Table) -> bool:
    """Return True for rows of our golden file, which say more than columns of labels can."""
    names = {*table.frame.columns}
    firsts = [nested(table.fields.get(one)) for one in ("expected_doc_ids", "expected_chunk_ids")]
    held = [one for each in firsts if isinstance(each, list) for one in each]
    is_more = bool(_GRAMMAR & names) or any(isinstance(one, (dict, list)) for one in held)
    return is_more and bool({"id", "query_id"} & names)


def _ask_for_grades(table: Table, roles: Columns, own: Iterable[pd.Series]) -> None:
    """Refuse judgements of which no column is taken for their grades, though one may be.

    One that differs within a query and holds numbers, flags, or words for grades, or is called so.
    """
    ids = {role: table.column(roles[role]) for role in ID_ROLES if role in roles}
    query = roles.get("query_id", roles.get("query"))
    if query is None or not ids:
        return
    asked = table.column(query)
    if any(map(is_listed, ids.values())):  # the fields of objects may be grades
        items = exploded(ids, Cells(Problems(table.name, strict=False), table.lines), "grade")
        fields = items.columns.items() if "grade" not in items.columns else ()
        own = [
            one.rename(f"{one.name}.{name.removeprefix('x_')}")
            for name, one in fields
            if name.startswith("x_")
        ]
        asked = asked.take(items.row).reset_index(drop=True)
    doubtful = []
    for column in own:
        name, words = str(column.name), column.dropna().astype("str").str.strip().str.lower()
        is_named = not len(words) and len(asked) > 1 and called([name], "golden", "grade")
        are_words = bool(words.isin(_GRADES).all())
        is_grade = are_words or {*map(kind_of, words.unique())} <= {"number", "flag", "fraction"}
        if is_named or (is_grade and words.groupby(asked, sort=False).nunique().gt(1).any()):
            doubtful.append((not are_words, words.nunique(), name, column.dropna().unique()))
    if doubtful := sorted(doubtful, key=lambda one: one[:2])[:3]:  # grades are words, or few
        held = "; ".join(f"{name} holds {name_list(values)}" for *_, name, values in doubtful)
        raise DataError(
            f"no column is taken for grades, so every id would be relevant; {held}",
            file=table.name, field="columns", columns={"grade": doubtful[0][2]},
            allowed='if these are grades, {"grade": None} if none are',
        )  # fmt: skip


_GRADES = frozenset(
    "true false yes no relevant irrelevant partial perfect exact excellent good fair bad high"
    " medium low e s c i".split()
) | {"not relevant", "partially relevant", "highly relevant", "non-relevant"}


def labels_of(
    table: Table,
    roles: Columns,
    problems: Problems,
    absent_docs: str,
    catalogue: pd.DataFrame | None,
) -> Golden:
    """Return the labels of a table by the roles of its columns."""
    columns = {role: table.column(name) for role, name in roles.items()}
    cells = Cells(problems, table.lines)
    query_id = query_ids_of(columns, cells)
    if not cells.keep.all():
        return labels_of(table.part(cells.keep), roles, problems, absent_docs, catalogue)
    encoded = coded(query_id)
    ids = pd.Series(encoded.cat.categories)
    found: dict[str, Any] = {"query_id": ids, "query": ids}
    texts = cells.take(columns["query"], "text") if "query" in columns else query_id
    groups = Groups(codes_of(encoded).astype(np.int64), len(ids), cells, texts.fillna(query_id))
    if "query" in columns:
        known = groups.one(texts, "query") if "query_id" in columns else groups.first(texts)
        found["query"] = known.fillna(ids)
    stated = pd.Series(pd.NA, ids.index, dtype="boolean")
    for role in ("answerable", "should_refuse"):
        if role in columns:
            says = groups.one(cells.take(columns[role], "flag"), role)
            stated = stated.fillna(says if role == "answerable" else ~says)
    kinds = (
        CHECKS
        | TAG_FIELDS
        | {role: role.removeprefix("tags.") for role in columns if role.startswith("tags.")}
    )
    many = [_texts_of(columns[r], groups, kind) for r, kind in kinds.items() if r in columns]
    for role in [role for role in ("reference_answer", *LABELS) if role in columns]:
        cells_of = map(nested, plain_values(columns[role]))
        if role == "reference_answer" and any(isinstance(one, list) for one in cells_of):
            # of several accepted answers all but the first are checks
            every = _texts_of(columns[role], groups, "accepted_answer")
            every = every.drop_duplicates(["query", "text"])
            first = every.drop_duplicates("query")
            many.append(every.drop(index=first.index))
            found[role] = first.set_index("query")["text"].reindex(range(len(ids)))
        else:
            found[role] = groups.one(cells.take(columns[role], "answer"), role)
    if "reference_answer" in found and pd.isna(found["reference_answer"]).all():
        del found["reference_answer"]
    targets, expects = _targets(columns, groups, ids)
    frames, asked = {"targets": targets.drop(columns=["query", "line"])}, pd.Series(dtype=np.int64)
    if many:
        every = pd.concat(many).sort_values("query", kind="stable")
        every["query_id"] = ids.take(every["query"].to_numpy(np.int64)).to_numpy()
        every = every.drop_duplicates(ignore_index=True)
        is_check = every["kind"].isin([*CHECKS.values(), "accepted_answer"])
        frames["checks"] = every[is_check].drop(columns="query")
        tags = every.loc[~is_check, ["query_id", "kind", "text"]]
        frames["tags"] = tags.rename(columns={"text": "value"})
        asked = every.loc[every["kind"].isin(["must_contain", "key_fact"]), "query"]
    implied = _implied(targets, asked, expects, found.get("reference_answer"), absent_docs)
    found["answerable"] = stated.fillna(implied)
    own = {"x_record_id" if name == "x_id" else name: one
           for name, one in own_frame(own_columns(table, roles)).items()}  # fmt: skip
    extra = {name: groups.first(one) for name, one in own.items()}
    queries = pd.DataFrame(found | extra | {"position": np.arange(len(ids))})
    if "group" in found:
        lines = dict(zip(ids, groups.first(pd.Series(table.lines)), strict=True))
        check_groups(queries, targets, lines, problems)
    if catalogue is not None:
        check_catalogue(targets, catalogue, problems)
    return Golden(queries, **frames, _problems=problems.frame())


def _texts_of(column: pd.Series, groups: Groups, kind: str) -> pd.DataFrame:
    """Return lists of texts as rows: tags, or checks; key facts may be mappings."""
    items = exploded({"text": column}, groups.cells, "grade")
    cells = Cells(groups.cells.problems, items.lines)
    known = {name.removeprefix("x_"): one for name, one in items.columns.items()}
    made = pd.DataFrame({"query": groups.of[items.row], "kind": kind})
    for name, type in {"text": "text", "importance": "text", "weight": "number"}.items():
        if name in known:
            made[name] = cells.take(known[name], type, "a list of texts, or of mappings with text")
    if "importance" in made:
        is_other = made["importance"].notna() & ~made["importance"].isin(IMPORTANCE)
        cells.report(known["importance"], is_other, name_list(IMPORTANCE))
    for name in known.keys() - {*made}:
        cells.report(known[name], known[name].notna(), "text, importance and weight")
    return made.dropna(subset=["text"])


# Judgements


def _targets(
    columns: Mapping[str, pd.Series], groups: Groups, ids: pd.Series
) -> tuple[pd.DataFrame, Flags]:
    """Return targets with the place of their query, and the queries that list documents."""
    expects, parts = np.zeros(groups.n, bool), []
    for level, role in LEVELS.items():
        if role not in columns or (role == "text" and "chunk_id" in columns):
            continue
        judged = {one: columns[one] for one in (role, "grade") if one in columns}
        items = exploded(judged, groups.cells, "grade")
        if level == "doc":
            n_items = np.bincount(items.row, minlength=len(groups.of))
            expects[groups.of[items.is_known & (n_items == 0)]] = True
        cells = Cells(groups.cells.problems, items.lines, drops=True)
        named = items.columns[role]
        keys = cells.take(named, "text") if level == "text" else cells.ids(named, role)
        grade = _grades(items.columns.get("grade"), cells)
        kept = cells.keep & keys.notna().to_numpy() & (grade >= 0)
        query, keys = groups.of[items.row[kept]], keys[kept].reset_index(drop=True)
        found = {"query": query, "query_id": ids.take(query).reset_index(drop=True)}
        found |= {"level": level, "target_id": keys, "alternative": 0, "grade": grade[kept]}
        found |= {"snippet" if level == "text" else role: keys, "line": items.lines[kept]}
        parts += [pd.DataFrame(found)] * bool(kept.any())
    if not parts:
        return empty("targets").assign(query=np.zeros(0, np.int64), line=0), expects
    targets = _once(pd.concat(parts, ignore_index=True), groups.cells.problems)
    gain = targets["grade"]
    if (is_fraction := np.floor(gain) < gain).any():
        shown = name_list(f"{one:g}" for one in np.unique(gain[is_fraction]))
        warn(
            f"{groups.cells.problems.file}: grades are fractions ({shown}): they are taken as"
            " gains, and the grades number them from 0"
        )
        levels = np.unique(np.append(gain, 0.0))
        targets = targets.assign(gain=gain, grade=np.searchsorted(levels, gain))
    targets = targets.sort_values("query", kind="stable", ignore_index=True)
    return targets.assign(grade=targets["grade"].astype("int32")), expects


def _grades(column: pd.Series | None, cells: Cells) -> npt.NDArray[np.float64]:
    """Return grades as numbers, NaN for what is none; a warning counts negative ones."""
    if column is None:
        return np.ones(len(cells.lines))
    codes, written = pd.factorize(column.astype("str") if column.dtype == object else column)
    known = [score_of(plain_cell(one))[0] for one in written]
    grade = np.array([*known, None], np.float64)[codes]
    is_bad = np.isnan(grade) | (np.abs(grade) >= 2**31)
    cells.report(
        column, is_bad, "a whole number, such as 0 or 1: frame[...].map({...}) makes numbers of"
        " words, frame.dropna(subset=[...]) leaves out what isn't judged", drops=False,
    )  # fmt: skip
    grade[is_bad] = np.nan
    if n_negative := int((grade < 0).sum()):
        text = (
            f"{n_negative} judgements with a negative grade are left out: those documents count as"
            " not judged"
        )
        cells.problems.note(text, field="grade")
        warn(f"{cells.problems.file}: {text}")
    return grade


def _once(targets: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    """Return the first of equal judgements; another grade for the same id is a problem."""
    key = ["query", "level", "target_id"]
    again = targets.duplicated(key)
    if again.any():
        first = targets.groupby(key, sort=False)["grade"].transform("first")
        differs = (targets["grade"] != first).to_numpy()
        at = int(differs.argmax())
        level, target, grade = (targets[one].iloc[at] for one in ("level", "target_id", "grade"))
        Cells(problems, targets["line"].to_numpy()).report(
            targets["target_id"].rename(LEVELS[level]), differs, "one grade per target",
            f"{target} has the grades {first[at]:g} and {grade:g}",
        )  # fmt: skip
        targets = targets[~again].reset_index(drop=True)
    return targets


def _implied(
    targets: pd.DataFrame, asked: pd.Series, expects: Flags, answers: Any, absent_docs: str
) -> pd.Series:
    """Return what expectations say of being answerable; `asked` are queries with checks."""

    def has(query: pd.Series) -> Flags:
        return np.bincount(query, minlength=len(expects)) > 0

    if absent_docs == "refuse":
        return pd.Series(has(targets.loc[targets["level"] == "doc", "query"]), dtype="boolean")
    is_refused = expects & ~has(targets["query"])
    is_known = has(targets.loc[targets["grade"] > 0, "query"]) | is_refused | has(asked)
    if answers is not None:
        is_known |= (answers.fillna("") != "").to_numpy(bool)
    return pd.Series(pd.arrays.BooleanArray(~is_refused, ~is_known))
