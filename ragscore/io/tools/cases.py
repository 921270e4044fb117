"""The step from records to frames, for files that have labels and results side by side.

Such files often lack ids, and hold repeats and failed judges: `imported` handles these once for
all. A record is called a case here, as most of the tools call it.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden, Results, from_records
from ragscore.frames.errors import excerpt, warn
from ragscore.frames.escaping import visible
from ragscore.io.formats.fields import frames_of
from ragscore.io.made_ids import (
    CIRCUMSTANCES,
    hash_query,
    ids_of_queries,
    is_called,
    normal_text,
    text_id,
)
from ragscore.io.record import implied_refusal, with_refusals_implied
from ragscore.io.records import Record, Tables
from ragscore.io.rows import Source, table_rows
from ragscore.io.source import Problems, Row
from ragscore.io.targets import with_levels
from ragscore.io.values import as_number, flatten

TABLES = ("responses", "hits", "judgments", "reported", "citations", "calls", "hit_meta")


@dataclass(frozen=True)
class Imported:
    """Content of another tool's file.

    Attributes
    ----------
    results
        One run per system in the file and repeat; None where the file holds labels only.
        `results.reported` has the stored scores, `results.judgments` those that a judge gave, with
        state "scored" or "judge_failed" (value NaN).
    golden
        The labels, one row per query; None where the file has none.
    problems
        One row per fault: file, line, field, found, allowed.
    """

    results: Results | None
    golden: Golden | None
    problems: pd.DataFrame

    def __repr__(self) -> str:
        return visible(
            f"Imported: {self.results or 'no results'}; {self.golden or 'no golden labels'};"
            f" {len(self.problems)} problems"
        )


def imported(cases: list[Record], described: dict[str, Any], problems: Problems) -> Imported:
    """Return the frames of all cases.

    Queries and passages without ids get ids; repeats get runs of their own. `described` has the
    fields of the runs frame that hold for the whole file, at least run_id, and of `ABOUT_FILE`.
    """
    cases = _identified(cases, problems)
    declared = any(case.repeat is not None for case in cases)
    cases = _of_one_question(cases, described, problems)
    if not described.get("is_golden"):  # labels of several answers are joined
        cases = _number_repeats(cases, described, problems)
    for case in cases if described.get("is_golden") else ():
        places = {name: case.response.get(name) for name in ("conversation", "turn")}
        case.labels |= {name: text for name, text in places.items() if text is not None}
    _name_texts(cases)
    answered = [case for case in cases if case.is_answered]
    is_run = (answered or described.get("aggregates")) and not described.get("is_golden")
    results = _results(answered, described, declared, problems) if is_run else None
    is_asked = any(case.is_labelled for case in cases) or "are_queries" in described
    golden = _golden(cases, problems) if is_asked else None
    if golden is not None:
        golden = replace(golden, problems=problems.frame())
    return Imported(results, golden, problems.frame())


def one_per_row(case: Callable[[Row, Problems, dict[str, str]], Record]) -> Callable[..., Imported]:
    """Return the reader of files with one case per row."""

    def read(
        source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
    ) -> Imported:
        cases = [case(row, problems, columns) for row in table_rows(source, problems)]
        return imported(cases, described, problems)

    return read


ABOUT_FILE = (
    "runs_are_named", "is_golden", "are_repeats", "calls_from", "called", "aggregates",
    "are_queries",
)  # fmt: skip
"""What is known of a file, beside its run: runs have the names of a column, only its labels are
wanted, several records of a query are repeats whatever tells them apart, which tools search, how
the columns of roles are called, what the tool reports of the whole run (see `aggregate`), that it
lists queries, labelled or not."""


def aggregate(
    metric: str, value: float, of: str | None = None, statistic: str = "mean", **about: Any
) -> dict[str, Any]:
    """Return a row of reported values for what a tool reports of a whole run.

    Parameters
    ----------
    metric
        Its name, once in a file for each statistic.
    of
        The stored metric of single queries that it is the mean of.
    about
        What the file says of the metric: `ABOUT_METRIC`.
    """
    own = {"query_id": "", "metric": metric, "value": value, "statistic": statistic, "of": of}
    return own | about


def one_per_query(cases: list[Record]) -> list[Record]:
    """Return one case for each run, query and repeat, with the stored scores of all its records.

    For files with a record for each query and metric.
    """
    found: dict[tuple[str | None, str | None, int | None], Record] = {}
    for case in cases:
        first = found.setdefault((case.run, case.query_id, case.repeat), case)
        if first is not case:
            first.stored += case.stored
    return list(found.values())


def _identified(cases: list[Record], problems: Problems) -> list[Record]:
    """Give ids to cases without one; those that have no query either are left out as problems."""
    unnamed = []
    for case in (case for case in cases if case.query_id is None):
        place = case.response.get("conversation") and case.response.get("turn")
        if (case.response.get("query") or "").strip() or place:
            unnamed.append(case)
        else:
            problems.add(
                "neither a query nor an id", line=case.line, allowed="text of the query, or its id"
            )
    names = ("query", "conversation", "turn")
    asked = {name: [case.response.get(name) for case in unnamed] for name in names}
    made = ids_of_queries(pd.DataFrame(asked, dtype="str"), [case.run for case in unnamed])
    for case, query_id in zip(unnamed, made, strict=True):
        case.query_id = query_id
    return [case for case in cases if case.query_id is not None]


def _by_cell(cases: list[Record]) -> list[list[Record]]:
    """Return the cases of each run and query that has several."""
    cells: dict[tuple[str | None, str | None], list[Record]] = {}
    for case in cases:
        cells.setdefault((case.run, case.query_id), []).append(case)
    return [of_cell for of_cell in cells.values() if len(of_cell) > 1]


def _of_one_question(
    cases: list[Record], described: dict[str, Any], problems: Problems
) -> list[Record]:
    """Return the cases without those that have the id of another question, which are problems."""
    allowed = "one question per id"
    if described.get("runs_are_named"):
        allowed += '; columns={"query_id": None} makes ids of the questions'
    others = set()
    for of_cell in _by_cell(cases):
        asked = [(case, text) for case in of_cell if (text := case.response.get("query"))]
        for case, text in asked[1:]:
            if hash_query(text) != hash_query(asked[0][1]):
                others.add(id(case))
                problems.add(
                    f"{case.query_id!r} is the id of {excerpt(asked[0][1])} and of {excerpt(text)}",
                    line=case.line,
                    field="query_id",
                    allowed=allowed,
                )
    return [case for case in cases if id(case) not in others]


def _number_repeats(
    cases: list[Record], described: dict[str, Any], problems: Problems
) -> list[Record]:
    """Number the answers of one run to one query from 1.

    Undeclared or colliding repeats get the next number, and a warning. Those that a session or the
    like tells apart are none: all but the first are problems, and left out.
    """
    repeated = [
        of_cell
        for of_cell in _by_cell(cases)
        if len({case.repeat for case in of_cell} - {None}) < len(of_cell)
    ]
    others: set[int] = set()
    if repeated and not described.get("are_repeats") and (name := _telling(repeated)):
        name = described.get("called", {}).get(name, name)
        for case in (case for of_cell in repeated for case in of_cell[1:]):
            others.add(id(case))
            problems.add(
                f"{_called(case)} stands there more than once, with several values of {name}:"
                " these may not be repeats",
                line=case.line,
                field=name,
                allowed=f'columns={{"run_id": "{name}"}} if it names the system, or a query_id for'
                f' each {name}; {{"repeat": None}} if they are repeats all the same',
            )
    elif repeated:
        texts = list(dict.fromkeys(_called(of_cell[0]) for of_cell in repeated))
        several = "1 query stands" if len(texts) == 1 else f"{len(texts)} queries stand"
        warn(
            f"{problems.file}: {several} there more than once ({', '.join(texts[:5])});"
            " each further answer is kept as a repeat, in a run of its own"
        )
    kept = [case for case in cases if id(case) not in others]
    used: dict[tuple[str | None, str | None], set[int]] = {}
    for case in kept:
        numbers = used.setdefault((case.run, case.query_id), set())
        if case.repeat is None or case.repeat in numbers:
            case.repeat = max(numbers, default=0) + 1
        numbers.add(case.repeat)
    return kept


def _called(case: Record) -> str:
    """Return a query as people know it: its text, else its id."""
    return excerpt(case.response.get("query") or case.query_id)


def _telling(repeated: list[list[Record]]) -> str | None:
    """Return the field that tells the cases of each query apart, None if nothing does.

    It is called as a session or the like is, or it holds the same few texts for several queries.
    """
    cells = [[_fields(case) for case in of_cell] for of_cell in repeated]
    for name in cells[0][0]:
        values = [[fields.get(name) for fields in of_cell] for of_cell in cells]
        if any(None in of_cell or len(set(of_cell)) < len(of_cell) for of_cell in values):
            continue
        every = [one for of_cell in values for one in of_cell]
        if any(isinstance(one, float) for one in every):
            continue
        is_text = all(isinstance(one, str) and as_number(one) is None for one in every)
        if is_called(name, CIRCUMSTANCES) or (is_text and len(set(every)) * 2 <= len(every)):
            return name
    return None


def _fields(case: Record) -> dict[str, Any]:
    own = {
        name.removeprefix("x_").removesuffix(".json"): value
        for name, value in flatten(case.extra).items()
    }
    return {name: case.response.get(name) for name in ("conversation", "turn")} | own


def _name_texts(cases: list[Record]) -> None:
    """Give chunk ids to passages that have a text and no id.

    It is the id of the same text elsewhere in the file, else a hash of the text.
    """
    hits = [hit for case in cases for hit in case.hits or []]
    hits += [hit for case in cases for call in case.calls for hit in call.hits]
    unnamed = [
        hit for hit in hits if hit.get("text") and not hit.get("chunk_id") and not hit.get("doc_id")
    ]
    known = {}
    if unnamed or any(case.gold_texts and not case.gold_ids.get("chunk") for case in cases):
        known = {
            normal_text(hit["text"]): hit["chunk_id"]
            for hit in hits
            if hit.get("text") and hit.get("chunk_id")
        }
    for hit in unnamed:
        hit["chunk_id"] = known.get(normal_text(hit["text"]), text_id(hit["text"]))
    for case in cases:
        if case.gold_texts and not case.gold_ids.get("chunk"):
            case.gold_ids["chunk"] = [
                known.get(normal_text(text), text_id(text)) for text in case.gold_texts
            ]


def _results(
    cases: list[Record], described: dict[str, Any], declared: bool, problems: Problems
) -> Results:
    tables = Tables()
    runs: dict[str, dict[str, Any]] = {}
    stating: set[str] = set()
    names = _run_names({case.run for case in cases}, described)
    for case in cases:
        run = _run(case, names[case.run], described, declared)
        counts = runs.setdefault(run["run_id"], run | {"n_queries": 0, "n_failed": 0})
        if (counts["system"], counts["repeat"]) != (run["system"], run["repeat"]):
            problems.add(
                f"repeat {case.repeat} of {run['system']!r} would be named as a run of"
                f" {counts['system']!r} is: {run['run_id']!r}",
                line=case.line,
                allowed="names of runs that don't end as those of repeats do; or a column repeat",
            )
            continue
        counts["n_queries"] += 1
        counts["n_failed"] += case.response.get("error") is not None
        if case.response.get("refused") is None:
            case.response["refused"] = implied_refusal(case.response.get("answer"), None)
        else:
            stating.add(run["run_id"])
        case.response |= flatten(case.extra)
        tables.add(case, {"run_id": run["run_id"], "query_id": case.query_id})
        case.hits, case.calls = None, []  # they are rows now: a large file has room for one of them
    if not cases:  # what is reported of the whole run is all there is
        runs[""] = _run(Record(1), described["run_id"], described, False)
    rows = described.get("aggregates", ())
    tables.reported += [{"run_id": run["run_id"]} | row for run in runs.values() for row in rows]
    frames = frames_of({kind: getattr(tables, kind) for kind in TABLES}, optional=TABLES[2:])
    responses = frames["responses"]
    frames["responses"] = with_refusals_implied(
        responses, is_among(responses["run_id"], sorted(stating))
    )
    return Results(
        runs=from_records(list(runs.values()), "runs"),
        **frames,
        problems=problems.frame(),
    )


def _run_names(runs: set[str | None], described: dict[str, Any]) -> dict[str | None, str]:
    """Return the name of each run of a file, before repeats are told apart.

    A name from a column stays as it is. A system of another tool's file has the file's name before
    its own, in which "-" stands for blanks and the like, unless two systems would become one.
    """
    if described.get("runs_are_named"):
        return {run: described["run_id"] if run is None else run for run in runs}
    written = {run: ".".join(filter(None, (described["run_id"], run))) for run in runs}
    plain = {
        run: re.sub(r"[^\w.+@=-]+", "-", name).strip("-.") or "run" for run, name in written.items()
    }
    return plain if len(set(plain.values())) == len(plain) else written


def _run(case: Record, name: str, described: dict[str, Any], declared: bool) -> dict[str, Any]:
    """Return the run of a case: its name has a number behind it if there are repeats."""
    suffix = f"-r{case.repeat}" if declared or (case.repeat or 1) > 1 else ""
    known = {name: value for name, value in described.items() if name not in ABOUT_FILE}
    return {
        **known,
        "run_id": f"{name}{suffix}",
        "system": case.run or described.get("system") or name,
        "repeat": case.repeat,
    }


def _golden(cases: list[Record], problems: Problems) -> Golden:
    """Return the labels of each query, joined over its cases.

    If two labels contradict each other, the first stays; the other is a problem.
    """
    by_id: dict[str, list[Record]] = {}
    for case in cases:
        by_id.setdefault(str(case.query_id), []).append(case)
    records: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("queries", "targets", "tags", "checks")
    }
    for position, (query_id, of_query) in enumerate(by_id.items()):
        cell = {"query_id": query_id}
        records["queries"].append(cell | {"position": position} | _labels(of_query, problems))
        records["targets"] += [
            cell
            | {"level": level, "target_id": target_id, "alternative": 0, "grade": 1}
            | {f"{level}_id": target_id}
            for level, target_id in _unique(case.gold_ids for case in of_query)
        ]
        rated: dict[str, float] = {}
        for case in of_query:
            rated |= case.gold_gains
        records["targets"] += [
            cell
            | {"level": "doc", "target_id": doc_id, "alternative": 0, "grade": rating}
            | {"doc_id": doc_id}
            for doc_id, rating in rated.items()
        ]
        records["tags"] += [
            cell | {"kind": kind, "value": tag}
            for kind, tag in _unique(case.tags for case in of_query)
        ]
        records["checks"] += [
            cell | {"kind": kind, "text": text}
            for kind, text in _unique(case.checks for case in of_query)
        ]
        nuggets = {one["text"]: one for case in of_query for one in case.nuggets}
        records["checks"] += [cell | {"kind": "key_fact"} | one for one in nuggets.values()]
    records["targets"] = with_levels(records["targets"])
    return Golden(**{name: from_records(rows, name) for name, rows in records.items()})


def _unique(lists: Iterable[dict[str, list[str]]]) -> list[tuple[str, str]]:
    """Return each (kind, member) of the cases' lists once, in order."""
    members = ((kind, one) for by_kind in lists for kind, ones in by_kind.items() for one in ones)
    return list(dict.fromkeys(members))


def _labels(cases: list[Record], problems: Problems) -> dict[str, Any]:
    queries = (case.response.get("query") for case in cases)
    query = next((one for one in queries if one is not None), "")
    labels: dict[str, Any] = {"query": query, "answerable": None}
    for case in cases:
        stated = {"answerable": case.answerable, "reference_answer": case.reference_answer}
        for name, value in (stated | case.labels).items():
            if value is None:
                continue
            if labels.get(name) in (None, value):
                labels[name] = value
                continue
            text = json.dumps(value, ensure_ascii=False)[:60]
            found = f"{name} {text} for a query that has another one already"
            problems.add(found, line=case.line, field=name)
    has_expectations = any(
        case.reference_answer
        or any(case.gold_ids.values())
        or case.checks
        or any(case.gold_gains.values())
        or case.nuggets
        for case in cases
    )
    if labels["answerable"] is None and has_expectations:
        labels["answerable"] = True
    return labels
