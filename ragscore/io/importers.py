"""Files of other tools: one declaration each -> labels and results side by side.

A `Tool` says what tells its file, where the rows stand, and which of our columns is at which path
of a row. What no path says, its `add` says. The rows get our names, and the user's `columns=` come
before the tool's own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results
from ragscore.io.columns import Columns, is_role, unknown_role
from ragscore.io.detect import Format, Sample
from ragscore.io.golden_read import check_catalogue
from ragscore.io.made_ids import run_name_of
from ragscore.io.records import Record, Stored
from ragscore.io.rows import Source, nested, table_rows, value_at
from ragscore.io.source import Problems, Row, as_text
from ragscore.io.tools.cases import Imported, imported
from ragscore.io.tools.cells import EXPECTED, first_at, json_text, stored, with_roles
from ragscore.io.values import as_number, failure

Fields = dict[str, Any]
WHOLE = {
    "calls": list, "hits": list, "verdicts": list, "nuggets": list, "extra": dict,
    "gold_gains": dict, "tags": dict,
}  # fmt: skip


@dataclass(frozen=True)
class Tool:
    """A tool's file.

    Attributes
    ----------
    name, fits, about, options
        As of a `Format`; `about` also says what its labels are.
    columns
        Our column -> its paths in a row, the surest first, apart by blanks. `scores` is a mapping
        of metrics, or a list as `add` returns it.
    rows
        Paths of the list of rows in the file's one object; without one, the file is the rows.
    run
        Column of runs -> its paths in that object, or a function of it.
    add
        Takes a row and `facts`, and returns what no path says; None: it is no answer. `scores`,
        `calls`, `hits`, `verdicts` and `nuggets` are lists of mappings, `extra` is one.
    facts
        What `add` must know of all rows, by them and that object; by default the object.
    top
        Returns that object, where the file isn't it.
    read
        Returns pairs of a row and our columns, where rows of the file aren't answers.
    """

    name: str
    fits: Callable[[Sample], int]
    about: tuple[str, ...]
    columns: dict[str, str] = field(default_factory=dict)
    rows: str = ""
    run: dict[str, Any] = field(default_factory=dict)
    add: Callable[[Fields, Fields], Fields | None] | None = None
    facts: Callable[[list[Fields], Fields], Fields] = lambda rows, top: top
    top: Callable[[Path], Fields] | None = None
    read: Callable[[list[Row], Problems, Fields], list[tuple[Row, Fields]]] | None = None
    options: tuple[str, ...] = ()


def _imported(
    tool: Tool, source: Source, problems: Problems, described: Fields, columns: dict[str, str]
) -> Imported:
    """Return what a tool's file holds."""
    top = tool.top(source) if tool.top and isinstance(source, Path) else {}
    rows = _rows_at(tool.rows, top, problems)
    if rows is None:
        rows = list(table_rows(source, problems))
        top = top or (rows[0].values if len(rows) == 1 else {})
        inner = _rows_at(tool.rows, top, problems)
        rows = rows if inner is None else inner
    for name, paths in tool.run.items():
        if (told := paths(top) if callable(paths) else first_at(top, paths)) is not None:
            described[name] = told if isinstance(told, str | list) else json_text(told)
    pairs = tool.read(rows, problems, described) if tool.read else _declared(tool, rows, top)
    cases = [_case(row, made, columns, problems) for row, made in pairs]
    return imported(cases, described, problems)


def _declared(tool: Tool, rows: list[Row], top: Fields) -> list[tuple[Row, Fields]]:
    facts = tool.facts([row.values for row in rows], top)
    known = {path.split(".")[0] for paths in tool.columns.values() for path in paths.split()}
    pairs = []
    for row in rows:
        made: Fields = {name: first_at(row.values, paths) for name, paths in tool.columns.items()}
        if tool.add is None:  # what no path names is kept
            made["extra"] = {name: one for name, one in row.values.items() if name not in known}
        elif (more := tool.add(row.values, facts)) is None:
            continue
        else:
            made |= more
        pairs.append((row, made))
    return pairs


def _rows_at(paths: str, top: Fields, problems: Problems) -> list[Row] | None:
    """Return the rows of the list at the first of these paths that has one."""
    lists = [one for path in paths.split() if isinstance(one := nested(value_at(top, path)), list)]
    if not lists:
        return None
    for number, one in enumerate(lists[0], 1):
        if not isinstance(one, dict):
            problems.reject(one, number, paths.split()[0], "a list of mappings")
    return [Row(one, number) for number, one in enumerate(lists[0], 1) if isinstance(one, dict)]


def _case(row: Row, made: Fields, columns: dict[str, str], problems: Problems) -> Record:
    """Return a row with our names as a record; a failed query has no answer."""
    own = {role: value_at(row.values, path) for role, path in columns.items()}
    made |= {role: one for role, one in own.items() if one is not None}
    made["error"] = failure(made.get("error"), columns.get("error", "error"), row.line, problems)
    made["answer"] = None if made["error"] else made.get("answer")
    whole = {name: made[name] for name, kind in WHOLE.items() if isinstance(made.get(name), kind)}
    scores = nested(made.pop("scores", None)) or ()
    if isinstance(scores, dict):
        scores = [{"metric": name, "value": one, "same": {}, "is_judged": False}
                  for name, one in scores.items()]  # fmt: skip
    roles = {name: columns.get(name, name) for name in made if name not in whole}
    record = Record(row.line, stored=[score_of(one) for one in scores], **whole)
    return with_roles(
        record, Row({roles[name]: made[name] for name in roles}, row.line), roles, problems
    )


def score_of(values: Fields) -> Stored:
    """Return a stored score; texts and numbers are what they say."""
    about = {
        name: _NUMBER_OR_TEXT[name](one) if name in _NUMBER_OR_TEXT else one
        for name, one in values.items()
    }
    return stored(about.pop("metric") or "score", about.pop("value"), **about)


_NUMBER_OR_TEXT: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("metric", "verdict", "reason", "judge", "error"), as_text),
    **dict.fromkeys(("cost_usd", "threshold"), as_number),
}


def each(row: Fields, place: str, paths: dict[str, str]) -> list[Fields]:
    """Return the mappings of the list at a place of a row, each by these paths."""
    found = nested(first_at(row, place))
    return [
        {name: first_at(one, path) for name, path in paths.items()}
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, dict)
    ]


# A tool as a format of results, and of golden sets


def result_part(tool: Tool) -> Format:
    """Return a tool as a format of results."""
    return Format(
        tool.name, tool.fits, partial(_read_results, tool), about=tool.about[:2],
        options=("columns", *tool.options, "run_id"),
    )  # fmt: skip


def golden_part(tool: Tool) -> Format:
    """Return a tool as a format of golden files."""
    about = (*tool.about[2:], "as for results")
    return Format(
        tool.name, tool.fits, partial(_read_golden, tool), about=about, options=("columns",)
    )


def _read(
    tool: Tool, source: Source, problems: Problems, columns: Columns | None, side: str, **about: Any
) -> Imported:
    for role in columns or {}:
        if not is_role(role, side):
            raise unknown_role(role, side, problems.file)
    expected = EXPECTED if side == "golden" else {}
    given = {expected.get(role, role): one for role, one in (columns or {}).items() if one}
    about |= {"is_golden": side == "golden", "are_repeats": "repeat" in given}
    try:
        return _imported(tool, source, problems, {"run_id": run_name_of(source)} | about, given)
    except RecursionError as error:
        raise DataError("nested too deeply", file=problems.file) from error


def labels_beside(tool: Tool, source: Path) -> Golden | None:
    """Return the labels, tags and texts of queries that a file of results holds, too."""
    return _read(tool, source, Problems(source, False), None, "golden", are_queries=True).golden


def _read_results(
    tool: Tool, source: Source, strict: bool, columns: Columns | None = None,
    run_id: str | None = None, **about: Any,
) -> Results:  # fmt: skip
    problems = Problems("frame" if isinstance(source, pd.DataFrame) else source, strict)
    about |= {"run_id": run_id} if run_id else {}
    found = _read(tool, source, problems, columns, "results", **about).results
    if found is None:
        raise DataError(
            "labels only: nothing that a system answered",
            file=problems.file,
            allowed="a file with answers, passages or scores; load_golden reads this one",
        )
    return found


def _read_golden(
    tool: Tool, source: Source, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None,
    columns: Columns | None = None,
) -> Golden:  # fmt: skip
    problems = Problems("frame" if isinstance(source, pd.DataFrame) else source, strict)
    found = _read(tool, source, problems, columns, "golden").golden
    if found is None:
        raise DataError(
            "no labels: nothing says what is right",
            file=problems.file,
            allowed="a file with references; load_results reads this one",
        )
    if catalogue is not None:
        check_catalogue(found.targets, catalogue, problems)
        found = replace(found, problems=problems.frame())
    if absent_docs == "refuse":
        has_targets = is_among(found.queries["query_id"], found.targets["query_id"])
        answerable = pd.array(has_targets, dtype="boolean")
        found = replace(found, queries=found.queries.assign(answerable=answerable))
    return found
