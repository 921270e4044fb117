"""Cases, which every importer reads records into, and the step from cases to frames.

A `Case` is one query as one system answered it, with the labels that the file has for it. Files of
other tools carry labels and results side by side, often without ids, with repeats and with failed
judges: `imported` handles these once for all importers.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from ragscore.frames.data import Golden, Results, from_records
from ragscore.frames.errors import warn
from ragscore.frames.escaping import visible
from ragscore.io.formats.fields import frames_of
from ragscore.io.record import implied_refusal
from ragscore.io.source import Problems
from ragscore.io.values import flatten


@dataclass
class Stored:
    """A score that another tool stored; without a value but with an error, a judge that failed."""

    metric: str
    value: float | None
    verdict: str | None = None
    reason: str | None = None
    judge: str | None = None
    error: str | None = None
    cost_usd: float | None = None
    is_judged: bool = True


@dataclass
class Case:
    """One record of a foreign file; None where the file doesn't tell.

    If `hits` is None, nothing is known about retrieval.
    """

    line: int
    query: str | None = None
    query_id: str | None = None
    run: str | None = None
    repeat: int | None = None
    answer: str | None = None
    refused: bool | None = None
    error: str | None = None
    latency_ms: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    hits: list[dict[str, Any]] | None = None
    stored: list[Stored] = field(default_factory=list)
    gold_ids: dict[str, list[str]] = field(default_factory=dict)
    gold_texts: list[str] = field(default_factory=list)
    reference_answer: str | None = None
    answerable: bool | None = None
    labels: dict[str, str] = field(default_factory=dict)
    tags: dict[str, list[str]] = field(default_factory=dict)
    checks: dict[str, list[str]] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def is_answered(self) -> bool:
        """True if the record holds something that only a run can have."""
        of_run = (self.hits, self.answer, self.error, self.latency_ms, self.run)
        return bool(self.stored) or any(value is not None for value in of_run)

    @property
    def is_labelled(self) -> bool:
        """True if the record has a label, such as a reference answer."""
        labels = (*self.gold_ids.values(), self.reference_answer, self.answerable)
        has_lists = bool(self.gold_texts or self.checks)
        return has_lists or any(label is not None for label in labels)


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


def hash_query(query: str) -> str:
    """Return an id for a query that has none: `q-` and 12 hex digits.

    The same query has the same id in every file. Letter case, spacing and Unicode form don't
    matter.
    """
    normal = " ".join(unicodedata.normalize("NFKC", query).casefold().split())
    return "q-" + hashlib.sha256(normal.encode("utf-8", "replace")).hexdigest()[:12]


def imported(cases: list[Case], described: dict[str, Any], problems: Problems) -> Imported:
    """Return the frames of all cases.

    Queries and passages without ids get ids; repeats get runs of their own. `described` has the
    fields of the runs frame that hold for the whole file, at least run_id.
    """
    cases = [case for case in cases if _identify(case, problems)]
    declared = any(case.repeat is not None for case in cases)
    _number_repeats(cases, problems)
    _name_texts(cases)
    answered = [case for case in cases if case.is_answered]
    results = _results(answered, described, declared, problems) if answered else None
    golden = _golden(cases, problems) if any(case.is_labelled for case in cases) else None
    if golden is not None:
        golden = replace(golden, problems=problems.frame())
    return Imported(results, golden, problems.frame())


def _identify(case: Case, problems: Problems) -> bool:
    """Give the case an id; False, and a problem, if it has neither id nor query."""
    if case.query_id is None and (case.query is None or not case.query.strip()):
        problems.add(
            "neither a query nor an id",
            line=case.line,
            allowed="text of the query, or its id",
        )
        return False
    case.query_id = case.query_id or hash_query(case.query or "")
    return True


def _number_repeats(cases: list[Case], problems: Problems) -> None:
    """Number the answers of one run to one query from 1.

    Undeclared or colliding repeats get the next number, and a warning.
    """
    numbers: dict[tuple[str | None, str | None], set[int]] = {}
    repeated: dict[str, None] = {}
    for case in cases:
        used = numbers.setdefault((case.run, case.query_id), set())
        if case.repeat is None or case.repeat in used:
            if used:
                repeated[str(case.query_id)] = None
            case.repeat = max(used, default=0) + 1
        used.add(case.repeat)
    if repeated:
        several = "1 query stands" if len(repeated) == 1 else f"{len(repeated)} queries stand"
        warn(
            f"{problems.file}: {several} there more than once ({', '.join(list(repeated)[:5])});"
            " each further answer is kept as a repeat, in a run of its own"
        )


def _name_texts(cases: list[Case]) -> None:
    """Give chunk ids to passages that have a text and no id.

    It is the id of the same text elsewhere in the file, else a hash of the text.
    """
    hits = [hit for case in cases for hit in case.hits or []]
    known = {
        _normal(hit["text"]): hit["chunk_id"]
        for hit in hits
        if hit.get("text") and hit.get("chunk_id")
    }
    for hit in hits:
        if hit.get("text") and not hit.get("chunk_id") and not hit.get("doc_id"):
            hit["chunk_id"] = known.get(_normal(hit["text"]), text_id(hit["text"]))
    for case in cases:
        if case.gold_texts and not case.gold_ids.get("chunk"):
            case.gold_ids["chunk"] = [
                known.get(_normal(text), text_id(text)) for text in case.gold_texts
            ]


def _normal(text: str) -> str:
    return " ".join(text.split())


def text_id(text: str) -> str:
    """Return an id for a passage that has none: `text-` and 12 hex digits."""
    return "text-" + hashlib.sha256(_normal(text).encode("utf-8", "replace")).hexdigest()[:12]


def _results(
    cases: list[Case], described: dict[str, Any], declared: bool, problems: Problems
) -> Results:
    records: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("responses", "hits", "judgments", "reported")
    }
    runs: dict[str, dict[str, Any]] = {}
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
        counts["n_failed"] += case.error is not None
        cell = {"run_id": run["run_id"], "query_id": case.query_id}
        records["responses"].append(cell | _response(case))
        records["hits"] += [
            cell | {"rank": rank} | hit for rank, hit in enumerate(case.hits or [], 1)
        ]
        for score in {score.metric: score for score in case.stored}.values():
            if score.is_judged or score.value is None:
                records["judgments"].append(cell | _judgment(score))
            if score.value is not None:
                reported = {"metric": score.metric, "value": score.value}
                records["reported"].append(cell | reported)
    return Results(
        runs=from_records(list(runs.values()), "runs"),
        **frames_of(records, optional=("judgments", "reported")),
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


def _run(case: Case, name: str, described: dict[str, Any], declared: bool) -> dict[str, Any]:
    """Return the run of a case: its name has a number behind it if there are repeats."""
    suffix = f"-r{case.repeat}" if declared or (case.repeat or 1) > 1 else ""
    known = {name: value for name, value in described.items() if name != "runs_are_named"}
    return {
        **known,
        "run_id": f"{name}{suffix}",
        "system": case.run or described.get("system") or name,
        "repeat": case.repeat,
    }


def _response(case: Case) -> dict[str, Any]:
    refused = case.refused if case.refused is not None else implied_refusal(case.answer, None)
    numbers = {
        "elapsed_ms": case.latency_ms,
        "prompt_tokens": case.prompt_tokens,
        "completion_tokens": case.completion_tokens,
        "cost_usd": case.cost_usd,
    }
    return {
        "query": case.query,
        "answer": case.answer,
        "refused": refused,
        "error": case.error,
        **numbers,
        **flatten(case.extra),
    }


def _judgment(score: Stored) -> dict[str, Any]:
    is_scored = score.error is None and (score.value is not None or score.verdict is not None)
    return {
        "criterion": score.metric,
        "item": "",
        "value": score.value,
        "verdict": score.verdict,
        "reason": score.reason if is_scored else score.error or score.reason,
        "judge": score.judge,
        "cost_usd": score.cost_usd,
        "state": "scored" if is_scored else "judge_failed",
    }


def _golden(cases: list[Case], problems: Problems) -> Golden:
    """Return the labels of each query, joined over its cases.

    If two labels contradict each other, the first stays; the other is a problem.
    """
    by_id: dict[str, list[Case]] = {}
    for case in cases:
        by_id.setdefault(str(case.query_id), []).append(case)
    records: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("queries", "targets", "tags", "checks")
    }
    for position, (query_id, of_query) in enumerate(by_id.items()):
        cell = {"query_id": query_id}
        labels = _labels(of_query, problems)
        records["queries"].append(cell | {"position": position} | labels)
        records["targets"] += [
            cell
            | {"level": level, "target_id": target_id, "alternative": 0, "grade": 1}
            | {f"{level}_id": target_id}
            for level, target_id in _unique(case.gold_ids for case in of_query)
        ]
        records["tags"] += [
            cell | {"kind": kind, "value": tag}
            for kind, tag in _unique(case.tags for case in of_query)
        ]
        records["checks"] += [
            cell | {"kind": kind, "text": text}
            for kind, text in _unique(case.checks for case in of_query)
        ]
    return Golden(**{name: from_records(rows, name) for name, rows in records.items()})


def _unique(lists: Iterable[dict[str, list[str]]]) -> list[tuple[str, str]]:
    """Return each (kind, member) of the cases' lists once, in order."""
    members = ((kind, one) for by_kind in lists for kind, ones in by_kind.items() for one in ones)
    return list(dict.fromkeys(members))


def _labels(cases: list[Case], problems: Problems) -> dict[str, Any]:
    query = next((case.query for case in cases if case.query is not None), "")
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
        case.reference_answer or any(case.gold_ids.values()) or case.checks for case in cases
    )
    if labels["answerable"] is None and has_expectations:
        labels["answerable"] = True
    return labels
