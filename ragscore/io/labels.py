"""Tables of labels of any library and shape -> `Golden`.

In: a table as for results, with one row per query or one row per judgement. All steps are about
columns; a row that a step can't take is a problem with its line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import all_differ, coded, codes_of, pair_numbers
from ragscore.frames.data import Golden
from ragscore.frames.errors import DataError, excerpt, name_list, warn
from ragscore.frames.kinds import IMPORTANCE, LABELS, empty
from ragscore.frames.typing import Codes, Flags
from ragscore.io.cells import Cells, own_values
from ragscore.io.columns import (
    LABEL_NAMES,
    Columns,
    grade_columns,
    is_grade_name,
    kind_of,
    of_results,
    resolve,
)  # fmt: skip
from ragscore.io.exploded import Items, exploded, is_listed
from ragscore.io.frames_in import Table, dict_table, keyed, refuse_shape, table_of
from ragscore.io.golden_read import check_catalogue, golden_of
from ragscore.io.rows import nested, plain_cell
from ragscore.io.source import Problems, Row, as_text, describe
from ragscore.io.stored import score_of
from ragscore.io.tables import mapping_of, own_columns, own_frame, query_ids_of, refuse_empty
from ragscore.io.values import as_number

LEVELS = {"doc": "doc_id", "chunk": "chunk_id"}
TAGS = {"tags": "tag", "vaults": "vault", "folders": "folder"}
CHECKS = {"must_contain": "must_contain", "forbidden": "forbidden", "key_facts": "key_fact"}
MOST_FRACTIONS = 10  # different fractions among grades; more are scores of something
_APART = "\x1f"  # between the alternatives of a target
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
    name = (
        source.name
        if isinstance(source, Table)
        else str(source)
        if isinstance(source, Path)
        else "dict"
    )
    problems = Problems(name, strict)
    table = table_of(source, problems, columns, "golden")
    if not isinstance(table, Table):
        table = _table_of_dict(table, name)
        roles = {one: one for one in table.fields}
        return labels_of(table, roles, problems, absent_docs, catalogue)
    refuse_empty(table)
    if _is_ours(table) and not columns:
        rows = zip(table.frame.to_dict("records"), table.lines.tolist(), strict=True)
        known = [({str(n): v for n, one in row.items() if (v := plain_cell(one)) is not None}, line)
                 for row, line in rows]  # fmt: skip
        return golden_of(
            [Row(nested_row(row), line) for row, line in known], problems, absent_docs, catalogue
        )
    roles = resolve(table.fields, columns, "golden", table.name, table.kind)
    own = own_columns(table, roles)
    problems.typos.check(
        [one for one in own if not of_results(one)], LABEL_NAMES, int(table.lines[0])
    )
    problems.typos.warn()
    if "grade" not in roles.keys() | (columns or {}).keys():
        _ask_for_grades(table, roles, own)
    golden = labels_of(table, roles, problems, absent_docs, catalogue)
    return replace(golden, _mapping=mapping_of(roles, own))


def nested_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of our golden file, with its id under our name and its lists as lists."""
    found = {name: nested(one) for name, one in row.items()}
    if "id" not in found and "query_id" in found:
        found["id"] = found.pop("query_id")
    return {"query": found.get("id"), **found}


def _is_ours(table: Table) -> bool:
    """Return True for rows of our golden file, which say more than columns of labels can."""
    names = table.frame.columns
    if not {"id", "query_id"} & {*names}:
        return False
    first = (
        nested(table.fields[one])
        for one in ("expected_doc_ids", "expected_chunk_ids")
        if one in names
    )
    has_objects = any(
        isinstance(one, list) and any(isinstance(i, dict) for i in one) for one in first
    )
    return has_objects or bool(_GRAMMAR & {*names})


def _table_of_dict(source: Mapping[Any, Any], name: str) -> Table:
    """Return a dict {query: [ids]} or {query: {id: grade}} as a table."""
    labels = keyed(source, name, "query")
    # A text beside lists is a description of something, not one expected id.
    has_lists = any(isinstance(one, (list, tuple, dict)) for one in labels.values())
    for query, value in labels.items():
        found = value if isinstance(value, (list, tuple, dict)) else plain_cell(value)
        is_id = isinstance(found, str) and not has_lists and kind_of(found) != "long"
        is_deep = isinstance(found, dict) and bool({*map(type, found.values())} & {dict, list})
        if is_deep or not (found is None or is_id or isinstance(found, (list, tuple, dict))):
            refuse_shape(query, found, name, "{query: [ids]}, {query: {id: grade}}")
    return dict_table({"query_id": [*labels], "doc_id": [*labels.values()]}, name)


def _ask_for_grades(table: Table, roles: Columns, own: Mapping[str, pd.Series]) -> None:
    """Refuse judgements of which no column is taken for their grades, though one may be."""
    ids = [role for role in LEVELS.values() if role in roles]
    query = roles.get("query_id", roles.get("query"))
    if not ids or query is None or any(is_listed(table.column(roles[role])) for role in ids):
        return
    empty_ones = [name for name in own if own[name].isna().all() and is_grade_name(name)]
    if empty_ones and len(table) > 1:
        raise DataError(
            f"{empty_ones[0]} holds no grade, so every id would be relevant", file=table.name,
            field=empty_ones[0], columns={"grade": None}, allowed="if this is meant",
        )  # fmt: skip
    if found := grade_columns(table.frame, own, table.column(query)):
        raise DataError(
            f"no column is taken for grades, so every id would be relevant; {found[0]} holds"
            f" {name_list(table.frame[found[0]].dropna().unique())}",
            file=table.name, field="columns", columns={"grade": found[0]},
            allowed='if these are grades, {"grade": None} if not',
        )  # fmt: skip


@dataclass(frozen=True)
class _Rows:
    """The rows of a table: `query` is the place of each row's query in `ids`."""

    ids: pd.Series
    query: Codes
    lines: Codes
    problems: Problems
    names: list[str]

    def one(self, values: pd.Series, role: str) -> pd.Series:
        """Return the first known value of each query; another one is a problem."""
        known = np.flatnonzero(values.notna().to_numpy())
        place = np.full(len(self.ids), -1)
        place[self.query[known[::-1]]] = known[::-1]  # the last assignment holds: the first row's
        first = values.reset_index(drop=True).reindex(place).reset_index(drop=True)
        before = first.take(self.query[known]).to_numpy()
        other = known[np.asarray(values.to_numpy()[known] != before, bool)]
        for row in other:
            self.problems.add(
                f"{role} {describe(plain_cell(values.iloc[row]))} for query"
                f" {excerpt(self.names[self.query[row]])}, which has another one already",
                line=int(self.lines[row]), field=str(values.name or role),
                allowed="one value per query",
            )  # fmt: skip
        return first


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
        keep = cells.keep
        table = replace(
            table, frame=table.frame[keep].reset_index(drop=True), lines=table.lines[keep]
        )
        columns = {role: one[keep].reset_index(drop=True) for role, one in columns.items()}
        query_id = query_id[keep].reset_index(drop=True)
        cells = Cells(problems, table.lines)
    encoded = coded(query_id)
    ids = encoded.cat.categories.to_series().reset_index(drop=True)
    names = ids.tolist()
    rows = _Rows(ids, codes_of(encoded).astype(np.int64), table.lines, problems, names)
    found: dict[str, Any] = {"query_id": ids}
    if "query" in columns:
        texts = cells.texts(columns["query"])
        made = texts if "query_id" in columns else texts.groupby(rows.query).transform("first")
        found["query"] = rows.one(made, "query").fillna(ids)
        names[:] = found["query"].tolist()
    found.setdefault("query", ids)
    stated = pd.Series(pd.NA, ids.index, dtype="boolean")
    for role in ("answerable", "should_refuse"):
        if role in columns:
            says = rows.one(cells.flags(columns[role]), role)
            stated = stated.fillna(says if role == "answerable" else ~says)
    checks, accepted = [], None
    for role in [role for role in ("reference_answer", *LABELS) if role in columns]:
        column = columns[role]
        if role == "reference_answer" and is_listed(column):
            accepted = _accepted(column, rows, cells)
            checks.append(accepted[1])
            found[role] = accepted[0]
            continue
        allowed = "text (quote a yes/no)"
        values = [None if isinstance(one, bool) else one for one in own_values(_of_one(column))]
        cells.report(
            column, [isinstance(one, (bool, np.bool_)) for one in column], allowed, drops=False
        )
        texts = cells.texts(
            pd.Series(values, name=column.name) if column.dtype == object else column, allowed
        )
        found[role] = rows.one(texts, role)
        if role == "reference_answer" and not found[role].notna().any():
            del found[role]
    targets, expects = _targets(columns, rows, cells, problems)
    checks += [
        _texts_of(columns[role], rows, cells, kind)
        for role, kind in CHECKS.items()
        if role in columns
    ]
    tag_kinds = TAGS | {role: role[5:] for role in columns if role.startswith("tags.")}
    tags = [
        _texts_of(columns[role], rows, cells, kind, is_tag=True)
        for role, kind in tag_kinds.items()
        if role in columns
    ]
    every = (
        pd.concat([empty("checks"), *checks], ignore_index=True).sort_values("query", kind="stable")
        if checks
        else empty("checks")
    )
    found["answerable"] = stated.fillna(_implied(rows, targets, every, expects, found, absent_docs))
    own = {
        ("record_id" if name == "id" else name): one
        for name, one in own_columns(table, roles).items()
    }
    extra = {
        name: _first_of(one, rows)
        for name, one in own_frame(own).items()
        if one.notna().any() or True
    }
    queries = pd.DataFrame(found | extra | {"position": np.arange(len(ids))})
    frames = {
        "checks": every,
        "tags": pd.concat(tags, ignore_index=True) if tags else empty("tags"),
    }
    frames = {
        name: one.drop(columns=["query"], errors="ignore").drop_duplicates(ignore_index=True)
        for name, one in frames.items()
    }
    targets = targets.drop(columns="query")
    _check_groups(queries, targets, table, rows)
    if catalogue is not None:
        check_catalogue(targets, catalogue, problems)
    return Golden(queries, targets=targets, **frames, _problems=problems.frame())


def _of_one(column: pd.Series) -> pd.Series:
    """Return a column with lists of one value as that value."""
    if column.dtype != object:
        return column
    return column.map(
        lambda one: one[0] if isinstance(one, (list, tuple)) and len(one) == 1 else one
    )


def _first_of(column: pd.Series, rows: _Rows) -> pd.Series:
    """Return the first known value of each query."""
    known = np.flatnonzero(column.notna().to_numpy())[::-1]
    place = np.full(len(rows.ids), -1)
    place[rows.query[known]] = known
    return column.reset_index(drop=True).reindex(place).reset_index(drop=True)


def _accepted(column: pd.Series, rows: _Rows, cells: Cells) -> tuple[pd.Series, pd.DataFrame]:
    """Return the first of several accepted answers of each query, and the others as checks."""
    is_mapping = [isinstance(nested(plain_cell(one)), dict) for one in column]
    cells.report(column, is_mapping, "a text or a list of texts", drops=False)
    column = column.mask(np.array(is_mapping, bool))
    items = exploded({"text": column}, cells, "grade")
    texts = Cells(cells.problems, rows.lines[items.row]).texts(
        items.columns["text"].rename(str(column.name))
    )
    query = rows.query[items.row]
    every = pd.DataFrame({"query": query, "text": texts}).dropna().drop_duplicates()
    first = every.drop_duplicates("query")
    rest = every.drop(index=first.index)
    found = first.set_index("query")["text"].reindex(range(len(rows.ids))).reset_index(drop=True)
    return found, _checks(
        rows,
        rest["query"].to_numpy(np.int64),
        rest["text"].reset_index(drop=True),
        "accepted_answer",
    )


def _checks(rows: _Rows, query: Codes, texts: pd.Series, kind: str) -> pd.DataFrame:
    ids = rows.ids.take(query).reset_index(drop=True)
    return pd.DataFrame({"query": query, "query_id": ids, "kind": kind, "text": texts})


def _texts_of(
    column: pd.Series, rows: _Rows, cells: Cells, kind: str, is_tag: bool = False
) -> pd.DataFrame:
    """Return lists of texts as rows: tags, or checks; key facts may be mappings."""
    column = column.map(_facts, na_action="ignore") if kind == "key_fact" else column
    items = exploded({"text": column}, cells, "grade")
    found = items.columns
    texts = Cells(cells.problems, rows.lines[items.row]).texts(
        found["text"].rename(str(column.name)), "a list of texts"
    )
    made = _checks(rows, rows.query[items.row], texts, kind)
    for name in ("importance", "weight"):
        if f"x_{name}" in found:
            made[name] = found[f"x_{name}"]
    if is_tag:
        made = made.rename(columns={"text": "value"})
    return made.dropna(subset=["value" if "value" in made else "text"])


def _facts(cell: Any) -> Any:
    """Return key facts as mappings, if one of them is."""
    facts = nested(plain_cell(cell))
    if not (isinstance(facts, list) and any(isinstance(one, dict) for one in facts)):
        return cell
    every = [one if isinstance(one, dict) else {"text": one} for one in facts]
    for one in every:
        others = {*one} - {"text", "importance", "weight"}
        if (
            others
            or as_text(one.get("text")) is None
            or one.get("importance") not in (None, *IMPORTANCE)
        ):
            return [facts]  # no texts: refused where they are read
        if one.get("weight") is not None:
            one["weight"] = as_number(one["weight"])
    return every


def _targets(
    columns: Mapping[str, pd.Series],
    rows: _Rows,
    cells: Cells,
    problems: Problems,
) -> tuple[pd.DataFrame, Flags]:
    """Return targets with the place of their query, and the queries that list documents."""
    grades = _Grades(problems)
    expects, parts = np.zeros(len(rows.ids), bool), []
    for level, role in [*LEVELS.items(), ("text", "text")]:
        if role not in columns or (role == "text" and "chunk_id" in columns):
            continue
        items = _judgements(columns[role], columns.get("grade"), role, cells)
        if level == "doc":
            expects[rows.query[items.is_known]] = True
        keys = _keys(items.columns[role], role, Cells(problems, rows.lines[items.row], drops=True))
        grade, is_kept = grades.of(
            items.columns.get("grade"), rows.lines[items.row], len(items.row)
        )
        is_kept &= keys.notna().to_numpy()
        query, keys, grade, line = (
            rows.query[items.row][is_kept],
            keys[is_kept].reset_index(drop=True),
            grade[is_kept],
            items.row[is_kept],
        )
        once = _once(query, keys, grade, rows, line, role)
        parts.append(
            _target_rows(
                rows, query[once], keys.take(once).reset_index(drop=True), grade[once], level
            )
        )
    grades.warn()
    filled = [one for one in parts if len(one)]
    if not filled:
        return empty("targets").assign(query=np.zeros(0, np.int64)), expects
    targets = filled[0] if len(filled) == 1 else pd.concat(filled, ignore_index=True)
    if grades.fractions:
        gain = targets["grade"].astype("float64")
        targets = targets.assign(
            gain=gain, grade=np.searchsorted(np.unique(np.append(gain, 0.0)), gain)
        )
    if (np.diff(targets["query"]) < 0).any():
        targets = targets.sort_values("query", kind="stable", ignore_index=True)
    return targets.astype({"grade": "int32"}), expects


def _judgements(column: pd.Series, grade: pd.Series | None, role: str, cells: Cells) -> Items:
    """Return each judged id with its grade, and which rows state any."""
    both = {role: column} | ({} if grade is None else {"grade": grade})
    if is_listed(column) or (grade is not None and grade.dtype == object and is_listed(grade)):
        return exploded(both, cells, "grade")
    row = np.flatnonzero(column.notna().to_numpy())
    if grade is not None:
        lacks = column.isna() & grade.notna()
        cells.report(column, lacks, "an id for each grade", drops=False)
    return Items(
        column.notna().to_numpy(),
        row,
        {n: one.take(row).reset_index(drop=True) for n, one in both.items()},
        {},
    )


def _keys(column: pd.Series, role: str, cells: Cells) -> pd.Series:
    """Return the ids of judgements as texts; alternatives are joined."""
    if role == "text":
        return cells.texts(column)
    if column.dtype == object and list in {*map(type, column)}:
        flat = pd.Series([one if isinstance(one, list) else [one] for one in column]).explode()
        inner = Cells(cells.problems, cells.lines[flat.index], drops=True)
        ids = inner.ids(flat.reset_index(drop=True).rename(str(column.name)), role)
        return (
            ids.groupby(flat.index.to_numpy())
            .agg(lambda one: _APART.join(dict.fromkeys(one.dropna())))
            .astype("str")
        )
    return cells.ids(column, role).where(cells.keep)


def _once(query: Codes, keys: pd.Series, grade: Any, rows: _Rows, row: Codes, role: str) -> Codes:
    """Return the first of equal judgements; another grade for the same id is a problem."""
    pair = pair_numbers(query, keys) if len(keys) else query
    if all_differ(pair):
        return np.arange(len(pair))
    _, first, group = np.unique(pair, return_index=True, return_inverse=True)
    other = np.flatnonzero(grade != grade[first][group])
    for at in other:
        names = keys[at].replace(_APART, ", ")
        rows.problems.add(
            f"{names} has the grades {grade[first[group[at]]]:g} and {grade[at]:g}",
            line=int(rows.lines[row[at]]), field=role, allowed="one grade per target",
        )  # fmt: skip
    return np.sort(first)


def _target_rows(
    rows: _Rows, query: Codes, keys: pd.Series, grade: Any, level: str
) -> pd.DataFrame:
    """Return one row per target and alternative."""
    alternative: Any = 0
    target_id, column = keys, LEVELS.get(level, "snippet")
    if level != "text" and keys.str.contains(_APART, regex=False).any():
        parts = keys.str.split(_APART).explode()
        at = parts.index.to_numpy()
        alternative = parts.groupby(level=0).cumcount().to_numpy()
        first = keys.str.partition(_APART)[0]
        number = (
            pd.DataFrame({"query": query, "first": first}).groupby(["query", "first"]).cumcount()
        )
        named = first.where(number == 0, first + "(" + (number + 1).astype("str") + ")")
        query, grade, target_id = query[at], grade[at], named.take(at).reset_index(drop=True)
        keys = parts.reset_index(drop=True)
    ids = rows.ids.take(query).reset_index(drop=True)
    made = {
        "query": query,
        "query_id": ids,
        "level": level,
        "target_id": target_id,
        "alternative": alternative,
    }
    return pd.DataFrame(made | {"grade": grade, column: keys})


class _Grades:
    """Reads written grades."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.fractions: set[float] = set()
        self.n_negative = 0

    def of(self, column: pd.Series | None, lines: Codes, n: int) -> tuple[Any, Flags]:
        """Return grades, and which of them count."""
        if column is None:
            return np.ones(n, np.int64), np.ones(n, bool)
        written = coded_values(column)
        known = [self.grade(one) for one in written[1]]
        values = np.array([np.nan if one is None else one for one in known] + [np.nan], np.float64)
        grade = values[written[0]]
        allowed = "a whole number, such as 0 or 1"
        Cells(self.problems, lines).report(column, np.isnan(grade), allowed, drops=False)
        self.n_negative += int((grade < 0).sum())
        return grade, grade >= 0

    def grade(self, written: Any) -> float | None:
        """Return a grade as a number; None for anything else."""
        number, _ = score_of(written)
        if number is None or abs(number) >= 2**31:
            return None
        if number % 1:
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


def coded_values(column: pd.Series) -> tuple[Codes, list[Any]]:
    """Return values as codes (-1: missing) and the different ones of them."""
    if column.dtype == object:
        plain = [plain_cell(one) for one in column]
        keys = [
            f"{type(one).__name__}:{one}" if isinstance(one, (bool, list, dict)) else one
            for one in plain
        ]
        codes, _ = pd.factorize(np.array([*keys, None], dtype=object)[:-1])
        first = np.unique(codes[codes >= 0], return_index=True)[1]
        places = np.flatnonzero(codes >= 0)[first]
        return codes, [plain[place] for place in places]
    codes, found = pd.factorize(column)
    return codes, [plain_cell(one) for one in found]


def _implied(
    rows: _Rows, targets: pd.DataFrame, checks: pd.DataFrame, expects: Flags,
    found: Mapping[str, Any], absent_docs: str,
) -> pd.Series:  # fmt: skip
    """Return what expectations say of being answerable."""

    def has(is_meant: pd.Series) -> Flags:
        of = targets.loc[is_meant, "query"].to_numpy(np.int64)
        return np.bincount(of, minlength=len(rows.ids)) > 0

    if absent_docs == "refuse":
        return pd.Series(has(targets["level"] == "doc"), dtype="boolean")
    is_refused = expects & ~has(targets["grade"] >= 0)
    answers = found.get("reference_answer", pd.Series(pd.NA, rows.ids.index)).fillna("") != ""
    asked = np.zeros(0, np.int64)
    if len(checks):
        is_check = checks["kind"].isin(["must_contain", "key_fact"])
        asked = checks.loc[is_check, "query"].to_numpy(np.int64)
    is_known = has(targets["grade"] > 0) | is_refused | answers.to_numpy(bool)
    is_known |= np.bincount(asked, minlength=len(rows.ids)) > 0
    return pd.Series(~is_refused, dtype="boolean").where(is_known)


def _check_groups(queries: pd.DataFrame, targets: pd.DataFrame, table: Table, rows: _Rows) -> None:
    """Report paraphrases of one group that expect different documents."""
    if "group" not in queries or not queries["group"].notna().any():
        return
    docs = targets[targets["level"] == "doc"].groupby("query_id")["doc_id"].agg(frozenset)
    of = queries["query_id"].map(docs)
    of = of.where(of.notna(), pd.Series([frozenset()] * len(of)))
    for group, members in queries[queries["group"].notna()].groupby("group"):
        other = [at for at in members.index if of[at] != of[members.index[0]]]
        if other:
            ids = sorted(queries["query_id"][other])
            row = int(np.flatnonzero(rows.query == other[0])[0])
            rows.problems.add(
                f"{', '.join(ids)} of group {group!r} expect other documents than"
                f" {queries['query_id'][members.index[0]]}",
                line=int(table.lines[row]), field="group",
                allowed="one set of expected_doc_ids per group",
            )  # fmt: skip
