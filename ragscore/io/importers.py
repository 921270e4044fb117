"""Files of other tools: one declaration each -> labels and results side by side.

A `Tool` says what tells its file, where the rows stand, and which of our columns is at which path
of a row. What no path says, its `add` says. The rows get our names, and the user's `columns=` come
before the tool's own. Such rows become frames as those of any table do, with the scores, calls and
verdicts that stand in them.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, from_records
from ragscore.frames.kinds import LABELS
from ragscore.io.cells import Cells
from ragscore.io.columns import METRIC_ROLES, Columns, is_role, unknown_role
from ragscore.io.detect import Format, Sample
from ragscore.io.frames_in import Source, record_table, table_rows
from ragscore.io.labels import labels_of
from ragscore.io.made_ids import ids_of_queries, run_name_of
from ragscore.io.source import Problems, Row, as_text
from ragscore.io.stored import frames_of_scores, stored
from ragscore.io.tables import IN_DIALOGUE, OF_HITS, PER_QUERY, Asked, of_queries
from ragscore.io.values import as_number, flatten, metadata_rows, nested, value_at

Fields = dict[str, Any]
QUERY_KEYS = ("question", "query", "input", "user_input", "prompt", "request")
EXPECTED = {"gold_doc_id": "doc_id", "gold_chunk_id": "chunk_id", "gold_text": "text"}
"""What is expected -> the role that it has in a golden set."""
LABELLED = (*EXPECTED, "reference_answer", "answerable", "must_contain", "forbidden", "key_facts")
OF_RUN = ("run_id", "answer", "error", "latency_ms", "doc_id", "chunk_id", "text", "hits")


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
        Column of runs -> its paths in that object, or a function of it; others become `x_<name>`.
    add
        Takes a row and `facts`, and returns what no path says; None: it is no answer. `scores`,
        `calls`, `judgments`, `citations` and `hit_meta` are lists of mappings, `extra` is one.
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


def _read(
    tool: Tool, source: Source, problems: Problems, columns: Columns | None, side: str, **about: Any
) -> tuple[list[Fields], Fields]:
    """Return the rows of a tool's file with our names, and what the file says of the run."""
    for role in columns or {}:
        if not is_role(role, side):
            raise unknown_role(role, side, problems.file)
    expected = {role: ours for ours, role in EXPECTED.items()} if side == "golden" else {}
    given = {expected.get(role, role): one for role, one in (columns or {}).items() if one}
    about |= {"is_golden": side == "golden"}
    try:
        top = tool.top(source) if tool.top and isinstance(source, Path) else {}
        rows = _rows_at(tool.rows, top, problems)
        if rows is None:
            rows = list(table_rows(source, problems))
            top = top or (rows[0].values if len(rows) == 1 else {})
            inner = _rows_at(tool.rows, top, problems)
            if inner is None and (held := first_at(top, tool.rows)) is not None:
                field = tool.rows.split()[-1]
                problems.reject(held, None, field, "a list of mappings")
            rows = rows if inner is None else inner
        for name, paths in tool.run.items():
            if (told := paths(top) if callable(paths) else first_at(top, paths)) is not None:
                about[name] = json_text(told) if name == "config" else told
        pairs = tool.read(rows, problems, about) if tool.read else _declared(tool, rows, top)
    except RecursionError as error:
        raise DataError("nested too deeply", file=problems.file) from error
    return [_with_users(row, made, given) for row, made in pairs], about


def _declared(tool: Tool, rows: list[Row], top: Fields) -> list[tuple[Row, Fields]]:
    facts = tool.facts([row.values for row in rows], top)
    read = (paths for name, paths in tool.columns.items() if name not in LABELLED)
    known = {path.split(".")[0] for paths in read for path in paths.split()}
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


def _with_users(row: Row, made: Fields, columns: dict[str, str]) -> Fields:
    """Return a row with our names in which the user's columns come first."""
    own = {role: value_at(row.values, path) for role, path in columns.items()}
    made |= {role: one for role, one in own.items() if one is not None}
    scores = nested(made.get("scores")) or []
    if isinstance(scores, dict):
        scores = [{"metric": name, "value": one, "same": {}, "is_judged": False,
                   "error": "no value in the file" if one is None else None}
                  for name, one in scores.items()]  # fmt: skip
    named = dict.fromkeys(role.partition(".")[2] for role in made if role.startswith(METRIC_ROLES))
    for name in named:
        reason = made.get(f"reason.{name}")
        scores.append({"metric": name, "value": made.get(f"score.{name}"), "reason": reason,
                       "error": made.get(f"scorer_error.{name}"),
                       "is_judged": reason is not None})  # fmt: skip
    if {"doc_id", "chunk_id", "text"} & {role for role in own if own[role] is not None}:
        made.pop("hits", None)
    if (seconds := as_number(made.pop("latency_s", None))) is not None:
        made["latency_ms"] = seconds * 1000
    return made | {"scores": scores, "line": row.line}


def each(row: Fields, place: str, paths: dict[str, str]) -> list[Fields]:
    """Return the mappings of the list at a place of a row, each by these paths."""
    found = nested(first_at(row, place))
    return [
        {name: first_at(one, path) for name, path in paths.items()}
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, dict)
    ]


# Rows with our names -> frames


def _with_ids(rows: list[Fields], problems: Problems) -> list[Fields]:
    """Return rows with an id of the query, made of its text where there is none."""
    asked = {name: [row.get(name) for row in rows] for name in IN_DIALOGUE}
    texts = pd.DataFrame(
        {name: [as_text(one) for one in values] for name, values in asked.items()}, dtype="str"
    )
    made = ids_of_queries(texts, [row.get("run_id") for row in rows])
    for row, one in zip(rows, made, strict=True):
        if row.get("query_id") is None:
            row["query_id"] = None if pd.isna(one) else one
        if row["query_id"] is None:
            problems.add("neither a query nor an id", line=row["line"],
                         allowed="text of the query, or its id")  # fmt: skip
    return [row for row in rows if row["query_id"] is not None]


def results_of_rows(
    rows: list[Fields], run_id: str, problems: Problems, are_repeats: bool = False,
    called: dict[str, str] | None = None,
) -> Results:  # fmt: skip
    """Return the runs of rows with our names: one for each `run_id`, and each repeat.

    `called` is what the file calls our columns, for messages.
    """
    rows = _with_hits(_with_ids(rows, problems))
    known = [{name: row[name] for name in _ROLES if row.get(name) is not None} for row in rows]
    lines = [row["line"] for row in rows]
    table = record_table(known, problems.file, "file", lines)
    own = record_table([row.get("extra") or {} for row in rows], problems.file, "file", lines)
    names = {one: one for one in _ROLES} | (called or {})
    columns = {str(name): one.rename(names[str(name)]) for name, one in table.frame.items()}
    if "error" in columns and "answer" in columns:  # a failed query has no answer
        has_failed = Cells(problems, table.lines).failures(columns["error"]).notna()
        columns["answer"] = columns["answer"].mask(has_failed)
    extra = {str(name): one for name, one in own.frame.items()}
    asked = Asked(table, columns, extra, problems, run_id, are_repeats)
    results = of_queries(asked)
    found: dict[str, list[Fields]] = {
        "scores": [], "judgments": [], "calls": [], "hit_meta": [], "citations": [],
    }  # fmt: skip
    cells: list[Any] = asked.cell.to_dict("records")
    for place, cell in zip(asked.cell.index.to_numpy(int), cells, strict=True):
        for kind in found:
            found[kind] += [{**cell, **one} for one in rows[place].get(kind) or ()]
    frames = frames_of_scores([_score_of(one) for one in found.pop("scores")])
    for kind, records in found.items():
        if records:
            parts = [one for one in [frames.get(kind)] if one is not None]
            frames[kind] = pd.concat([*parts, from_records(records, kind)], ignore_index=True)
    return replace(results, **frames)


def _with_hits(rows: list[Fields]) -> list[Fields]:
    """Return rows whose `hits`, a list of mappings for each call, are lists by role."""
    every = [hit for row in rows for call in row.get("hits") or () for hit in call]
    names = {name for hit in every for name in hit} - {"metadata"} or {"doc_id"}
    found = []
    for row in rows:
        calls = row.get("hits")
        if calls is not None:
            ranked = enumerate((hit for call in calls for hit in call), 1)
            row = row | {
                name: [[hit.get(name) for hit in call] for call in calls] for name in names
            }
            row["hit_meta"] = [{"rank": rank} | one for rank, hit in ranked
                               for one in metadata_rows(hit.get("metadata") or {})]  # fmt: skip
        found.append(row)
    return found


_ROLES = (*PER_QUERY, *OF_HITS, "query_id", "run_id", "repeat")
_READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("metric", "verdict", "reason", "judge", "error"), as_text),
    **dict.fromkeys(("cost_usd", "threshold"), as_number),
}


def _score_of(values: Fields) -> Fields:
    """Return a stored score; texts and numbers are what they say."""
    about = {name: _READ.get(name, lambda one: one)(one) for name, one in values.items()}
    return stored(about.pop("metric") or "score", **about)


def _run_names(runs: set[str | None], file: str) -> dict[str | None, str]:
    """Return the name of each run of a file, which has the file's name before its own.

    "-" stands in it for blanks and the like, unless two systems would become one.
    """
    written = {run: ".".join(filter(None, (file, run))) for run in runs}
    plain = {
        run: re.sub(r"[^\w.+@=-]+", "-", name).strip("-.") or "run" for run, name in written.items()
    }
    return plain if len(set(plain.values())) == len(plain) else written


def golden_of_rows(
    rows: list[Fields], problems: Problems, absent_docs: str = "unlabelled",
    catalogue: pd.DataFrame | None = None,
) -> Golden:  # fmt: skip
    """Return the labels of rows with our names."""
    rows = _with_ids(rows, problems)
    named = (*LABELLED, *LABELS, "tags", "query", "query_id")
    known = [
        {EXPECTED.get(one, one): value for one, value in row.items()
         if value is not None and (one in named or one.startswith("tags."))}
        for row in rows
    ]  # fmt: skip
    asked: Fields = {}  # of texts that have one id, the first
    for one in known:
        one |= {"query": asked.setdefault(one["query_id"], one.get("query"))}
    table = record_table(known, problems.file, "file", [row["line"] for row in rows])
    return labels_of(table, {one: one for one in table.fields}, problems, absent_docs, catalogue)


# A tool as a format of results, and of golden sets


def result_part(tool: Tool) -> Format:
    """Return a tool as a format of results."""
    return Format(
        tool.name, tool.fits, partial(_read_results, tool), about=tool.about[:2],
        options=("columns", *tool.options, "run_id"),
    )  # fmt: skip


def golden_part(tool: Tool) -> Format:
    """Return a tool as a format of golden files."""
    return Format(
        tool.name, tool.fits, partial(_read_golden, tool), options=("columns",),
        about=(*tool.about[2:], "as for results"),
    )  # fmt: skip


def labels_beside(tool: Tool, source: Path) -> Golden | None:
    """Return the labels, tags and texts of queries that a file of results holds, too."""
    problems = Problems(source, False)
    rows, _ = _read(tool, source, problems, None, "golden")
    return golden_of_rows(rows, problems) if rows else None


def _read_results(
    tool: Tool, source: Source, strict: bool, columns: Columns | None = None,
    run_id: str | None = None, **about: Any,
) -> Results:  # fmt: skip
    problems = Problems("frame" if isinstance(source, pd.DataFrame) else source, strict)
    rows, told = _read(tool, source, problems, columns, "results", **about)
    told["run_id"] = run_id or run_name_of(source)
    rows = [row for row in rows
            if any(row.get(one) is not None for one in OF_RUN)
            or any(row.get(one) for one in ("scores", "judgments", "calls"))]  # fmt: skip
    if not rows:
        raise DataError(
            "labels only: nothing that a system answered",
            file=problems.file,
            allowed="a file with answers, passages or scores; load_golden reads this one",
        )
    names = _run_names({row.get("run_id") for row in rows}, told["run_id"])
    systems = {names[run]: run or told.get("system") or names[run] for run in names}
    rows = [row | {"run_id": names[row.get("run_id")]} for row in rows]
    called = {name: paths.split()[0] for name, paths in tool.columns.items()} | (columns or {})
    results = results_of_rows(rows, told["run_id"], problems, "repeat" in (columns or {}), called)
    own = {name: told[name] for name in tool.run if name in told and name not in _OF_RUN}
    about_runs = flatten(own) | {name: told[name] for name in _OF_RUN[:-1] if name in told}
    about_runs |= {"system": results.runs["system"].map(systems)}
    runs, reported = results.runs.assign(**about_runs), results.reported
    means = [{"run_id": run, **one} for run in runs["run_id"] for one in told.get("means", ())]
    if means:
        parts = [one for one in (reported, from_records(means, "reported")) if one is not None]
        reported = pd.concat(parts, ignore_index=True)
    return replace(results, runs=runs, reported=reported)


_OF_RUN = ("system", "suite", "config", "created_at", "means")


def _read_golden(
    tool: Tool, source: Source, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None,
    columns: Columns | None = None,
) -> Golden:  # fmt: skip
    problems = Problems("frame" if isinstance(source, pd.DataFrame) else source, strict)
    rows, _ = _read(tool, source, problems, columns, "golden")
    if not any(row.get(one) is not None for row in rows for one in LABELLED):
        raise DataError(
            "no labels: nothing says what is right",
            file=problems.file,
            allowed="a file with references; load_results reads this one",
        )
    return golden_of_rows(rows, problems, absent_docs, catalogue)


# What rows of tools are read with


def first_at(values: Any, paths: str) -> Any:
    """Return the value at the first of these paths, apart by blanks, that has one."""
    for path in paths.split():
        if (found := value_at(values, path)) is not None:
            return found
    return None


def text_in(values: dict[str, Any], names: Iterable[str]) -> str | None:
    """Return the first text that isn't empty among the fields of these names."""
    return next((text for name in names if (text := as_text(values.get(name)))), None)


def labels_in(values: dict[str, Any]) -> dict[str, str]:
    """Return the labels of a query that its metadata state under our own names."""
    return {name: label for name in LABELS if isinstance(label := values.get(name), str)}


def json_text(value: Any) -> str:
    """Return a value as JSON text that doesn't depend on the order of its keys."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def without_missing(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def aggregate(metric: str, value: float, statistic: str = "mean", **about: Any) -> dict[str, Any]:
    """Return a row of reported values for what a tool reports of a whole run.

    Parameters
    ----------
    metric
        Its name, once in a file for each statistic.
    about
        What the file says of the metric: `ABOUT_METRIC`.
    """
    return {"query_id": "", "metric": metric, "value": value, "statistic": statistic} | about
