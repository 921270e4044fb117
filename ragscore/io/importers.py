"""Files of other tools: one declaration each -> labels and results side by side.

A `Tool` says how its file is recognized, where the rows are, and which of our columns is at which
path of a row. What no path says, its `read` says. The rows get our names, and the user's
`columns=` come before the tool's own. Such rows become frames as any table's do, with their scores,
calls and verdicts.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, conform, from_records
from ragscore.frames.kinds import LABELS
from ragscore.io.cells import ids_of_queries, run_name_of
from ragscore.io.columns import METRIC_ROLES, Columns, check_role
from ragscore.io.detect import Format, Sample
from ragscore.io.frames_in import Source, json_records, record_table, table_rows
from ragscore.io.labels import labels_of
from ragscore.io.run_records import own_fields
from ragscore.io.source import Problems, Row, as_text
from ragscore.io.tables import (
    IN_DIALOGUE,
    OF_HITS,
    PER_QUERY,
    Asked,
    frames_of_scores,
    of_queries,
    stored,
)
from ragscore.io.values import as_json, as_number, nested, value_at

Fields = dict[str, Any]
QUERY_KEYS = ("question", "query", "input", "user_input", "prompt", "request")
ANSWER_KEYS = ("answer", "output", "response", "content", "text")
EXPECTED = {"gold_doc_id": "doc_id", "gold_chunk_id": "chunk_id", "gold_text": "text"}
"""What is expected -> the role that it has in a golden set."""
LABELLED = (*EXPECTED, "reference_answer", "answerable", "must_contain", "forbidden", "key_facts")
PASSED: Fields = {"better": "higher", "lowest": 0.0, "highest": 1.0}
"""What is known of a share, and of what holds or doesn't."""
LISTS = ("scores", "judgments", "calls", "citations")
"""What a row may hold beside values: lists of mappings, each of which becomes a row of a frame."""
ANSWERED = ("run_id", "answer", "error", "latency_ms", "doc_id", "chunk_id", "text")
"""A row of results has one of these, or something in one of the lists."""
OF_RUN = ("system", "suite", "config", "created_at")


@dataclass(frozen=True)
class File:
    """A tool's file: its one object (empty where it has none), and who asks for it how."""

    problems: Problems
    top: Fields
    side: str
    options: Fields


@dataclass(frozen=True)
class Tool:
    """A tool's file.

    Attributes
    ----------
    name, fits, about, options
        As of a `Format`: `fits` sees the file's one object, not the rows in it. `about` says what
        the file is, by what it is known, and what its labels are.
    columns
        Our column -> its paths in a row, the surest first, apart by blanks. A path goes through
        lists: `passages.ref` is the `ref` of each passage. Our columns are the roles of
        `load_results(columns=)`; of labels, `gold_doc_id`, `gold_chunk_id`, `gold_text` and the
        roles of `load_golden`; `latency_s`; and `scores`, a mapping of metrics, or a list as `read`
        makes it: numbers become `reported`, words a judgment's verdict.
    rows
        Paths of the list of rows in the file's one object; without one, the file is the rows.
    run
        Column of runs -> its paths in that object; other names become `x_<name>`.
    read
        Takes the rows and the file, and yields each answer: its row, and what no path says of it.
        `scores`, `calls`, `judgments` and `citations` are lists of mappings, `extra` is one.
        Without it, fields that no path names are `extra`, and labels' fields stay in the results,
        too, as `x_<name>`.
    top
        Returns the one object, where the file itself isn't it.
    """

    name: str
    fits: Callable[[Sample], int]
    about: tuple[str, ...]
    columns: dict[str, str] = field(default_factory=dict)
    rows: str = ""
    run: dict[str, str] = field(default_factory=dict)
    read: Callable[[list[Row], File], Iterable[tuple[Row, Fields]]] | None = None
    top: Callable[[Path], Fields] | None = None
    options: tuple[str, ...] = ()


# A file -> rows with our names


def _read(
    tool: Tool,
    source: Source,
    problems: Problems,
    columns: Columns | None,
    side: str,
    **options: Any,
) -> tuple[list[Fields], Fields]:
    """Return the rows of a tool's file with our names, and what the file says of the run."""
    for role in columns or {}:
        check_role(role, side, problems.file)
    top = tool.top(source) if tool.top and isinstance(source, Path) else {}
    rows = [Row(top, 1)] if tool.rows and top else list(table_rows(source, problems))
    top = top or (rows[0].values if len(rows) == 1 else {})
    if (held := nested(first_at(top, tool.rows))) is not None:
        if not isinstance(held, list):
            problems.reject(held, None, tool.rows.split()[-1], "a list of mappings")
        rows = json_records(held, problems)
    file = File(problems, top, side, options)
    read = tool.read(rows, file) if tool.read else _with_other_fields(tool, rows)
    expected = {role: ours for ours, role in EXPECTED.items()} if side == "golden" else {}
    given = {expected.get(role, role): one for role, one in (columns or {}).items() if one}
    made = [
        _with_users(
            {name: first_at(row.values, paths) for name, paths in tool.columns.items()} | more,
            without_missing({role: value_at(row.values, path) for role, path in given.items()}),
        )
        | {"line": row.line}
        for row, more in read
    ]
    texts = {name: [as_text(row.get(name)) for row in made] for name in IN_DIALOGUE}
    ids = ids_of_queries(pd.DataFrame(texts, dtype="str"), [row.get("run_id") for row in made])
    for row, query_id in zip(made, ids.astype(object).where(ids.notna(), None), strict=True):
        if row.get("query_id") is None:
            row["query_id"] = query_id
    about_run = {name: first_at(top, paths) for name, paths in tool.run.items()}
    if about_run.get("config") is not None:
        about_run["config"] = as_json(about_run["config"])
    return made, without_missing(about_run)


def _with_other_fields(tool: Tool, rows: list[Row]) -> Iterator[tuple[Row, Fields]]:
    """Yield rows with the fields that no path names."""
    read = " ".join(paths for name, paths in tool.columns.items() if name not in LABELLED)
    known = {path.split(".")[0] for path in read.split()}
    for row in rows:
        yield row, {"extra": {name: row.values[name] for name in row.values if name not in known}}


def _with_users(made: Fields, own: Fields) -> Fields:
    """Return a row with what the user's columns say of it; its scores are a list."""
    made |= own
    scores = nested(made.get("scores")) or []
    if isinstance(scores, dict):
        scores = [{"metric": name, "value": one, "same": {}, "is_judged": False,
                   "error": "no value in the file" if one is None else None}
                  for name, one in scores.items()]  # fmt: skip
    if made.get("error"):  # a failed query has no answer
        made["answer"] = None
    if (seconds := as_number(made.get("latency_s"))) is not None:
        made["latency_ms"] = seconds * 1000
    return made | {"scores": scores}


# Rows with our names -> frames


def results_of_rows(
    rows: list[Fields], run_id: str, problems: Problems, are_repeats: bool
) -> Results:
    """Return the runs of rows with our names: one for each `run_id`, and each repeat."""
    lines = [row["line"] for row in rows]
    known = [
        {name: one for name, one in row.items()
         if one is not None and (name in _ROLES or name.startswith(METRIC_ROLES))}
        for row in rows
    ]  # fmt: skip
    table = record_table(known, problems.file, "file", lines)
    own = record_table([row.get("extra") or {} for row in rows], problems.file, "file", lines)
    asked = Asked(
        table, {str(name): one for name, one in table.frame.items()},
        {f"x_{name}": one for name, one in own.frame.items()}, problems, run_id, are_repeats,
    )  # fmt: skip
    results = of_queries(asked)
    cells = [*zip(asked.cell.index, asked.cell.to_dict("records"), strict=True)]
    found = {
        kind: [cell | one for place, cell in cells for one in rows[place].get(kind) or ()]
        for kind in LISTS
    }
    scored = frames_of_scores([_score_of(one) for one in found.pop("scores")])
    frames = {kind: from_records(records, kind) for kind, records in found.items() if records}
    for kind in ("judgments", "reported"):
        parts = [getattr(results, kind), scored.get(kind), frames.get(kind)]
        if there := [one for one in parts if one is not None]:
            frames[kind] = pd.concat(there, ignore_index=True)
    return replace(results, **frames)


_ROLES = (*PER_QUERY, *OF_HITS, "query_id", "run_id", "repeat")
_READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("metric", "verdict", "reason", "judge", "error"), as_text),
    **dict.fromkeys(("cost_usd", "threshold"), as_number),
}


def _score_of(values: Fields) -> Fields:
    """Return a stored score; texts and numbers are what they say."""
    about = {name: _READ[name](one) if name in _READ else one for name, one in values.items()}
    return stored(about.pop("metric") or "score", **about)


def golden_of_rows(
    rows: list[Fields], problems: Problems, absent_docs: str = "unlabelled",
    catalogue: pd.DataFrame | None = None,
) -> Golden:  # fmt: skip
    """Return the labels of rows with our names."""
    named = (*LABELLED, *LABELS, "tags", "query", "query_id")
    asked: Fields = {}  # of texts that have one id, the first
    known = [
        {EXPECTED.get(name, name): one for name, one in row.items()
         if one is not None and (name in named or name.startswith("tags."))}
        | {"query": asked.setdefault(row["query_id"], row.get("query"))}
        for row in rows
    ]  # fmt: skip
    table = record_table(known, problems.file, "file", [row["line"] for row in rows])
    return labels_of(table, {one: one for one in table.fields}, problems, absent_docs, catalogue)


# A tool as a format of results, and of golden sets


def parts_of(tool: Tool) -> dict[str, Format]:
    """Return a tool as a format of results and one of golden files."""
    return {
        "results": Format(tool.name, tool.fits, partial(_read_results, tool),
                          about=tool.about, options=("columns", *tool.options, "run_id")),
        "golden": Format(tool.name, tool.fits, partial(_read_golden, tool),
                         about=(*tool.about[2:], "as for results"), options=("columns",)),
    }  # fmt: skip


def _read_results(
    tool: Tool, source: Source, strict: bool, columns: Columns | None = None,
    run_id: str | None = None, labels: list[Golden] | None = None, **options: Any,
) -> Results:  # fmt: skip
    """Return the runs of a tool's file; labels beside them are put into `labels`."""
    problems = Problems("frame" if isinstance(source, pd.DataFrame) else source, strict)
    rows, about_run = _read(tool, source, problems, columns, "results", **options)
    if labels is not None and rows:
        labels.append(golden_of_rows(rows, Problems(problems.file, False)))
    rows = [row for row in rows
            if any(row.get(one) is not None for one in ANSWERED)
            or any(row.get(one) for one in LISTS)]  # fmt: skip
    if not rows:
        raise DataError(
            "labels only: nothing that a system answered",
            file=problems.file,
            allowed="a file with answers, passages or scores; load_golden reads this one",
        )
    run_id = run_id or run_name_of(source)
    systems = dict[str, str]()
    for row in rows:
        own = row.get("run_id")
        row["run_id"] = run_id if own is None else f"{run_id}.{own}"
        systems[row["run_id"]] = own or about_run.get("system") or run_id
    results = results_of_rows(rows, run_id, problems, "repeat" in (columns or {}))
    about_runs = own_fields({name: one for name, one in about_run.items() if name not in OF_RUN})
    about_runs |= {name: about_run[name] for name in OF_RUN if name in about_run}
    about_runs["system"] = results.runs["system"].map(systems)
    results.runs = conform(results.runs.assign(**about_runs), "runs")
    return results


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
        is_name = isinstance(values, dict) and (path in values or "." not in path)
        found = values.get(path) if is_name else value_at(values, path)
        if found is not None:
            return found
    return None


def mapping(values: Any, paths: str) -> Fields:
    """Return the mapping at a place of a row; an empty one where there is none."""
    found = nested(first_at(values, paths))
    return dict(found) if isinstance(found, dict) else {}


def dicts_in(value: Any) -> list[Fields]:
    """Return the mappings in a list; none of anything else."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def each(row: Fields, place: str, paths: dict[str, str]) -> list[Fields]:
    """Return the mappings of the list at a place of a row, each by these paths."""
    return [
        {name: first_at(one, path) for name, path in paths.items()}
        for one in dicts_in(nested(first_at(row, place)))
    ]


def without_missing(values: Fields) -> Fields:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def labels_in(values: Fields) -> dict[str, str]:
    """Return the labels of a query that its metadata state under our own names."""
    return {name: label for name in LABELS if isinstance(label := values.get(name), str)}


def text_in(values: Fields, names: Iterable[str]) -> str | None:
    """Return the first text that isn't empty among the fields of these names."""
    return next((text for name in names if (text := as_text(values.get(name)))), None)


def text_of(value: Any, names: tuple[str, ...]) -> str | None:
    """Return a text, a mapping's under one of these names, or a message's."""
    parsed = nested(value)
    if isinstance(parsed, dict):
        said = _said(nested(first_at(parsed, "messages choices")), names is QUERY_KEYS)
        only = text_in(parsed, parsed) if len(parsed) == 1 else None
        return text_in(parsed, names) or said or only or as_json(parsed)
    listed = as_json(parsed) if isinstance(parsed, list) and parsed else None
    return _said(parsed, names is QUERY_KEYS) or as_text(value) or listed


def _said(messages: Any, is_query: bool) -> str | None:
    """Return the text of the user's last message, or of the last one of all."""
    roles = {"user", "human"} if is_query else {"assistant", "ai", "model"}
    inner = dicts_in([one.get("message", one.get("kwargs", one)) for one in dicts_in(messages)])
    of_role = [one for one in inner if {one.get("role"), one.get("type")} & roles]
    held = nested(first_at(of_role[-1], "content contents parts")) if of_role else None
    if not isinstance(held, list):
        return as_text(held)
    texts = (as_text(first_at(one, "text content message_content.text")) for one in dicts_in(held))
    return " ".join(filter(None, texts)) or None
