"""What every importer reads a record into, and the step from there to frames.

A `Case` is one question as one system answered it, with what is expected of it if the file says so.
Files of other tools carry labels and results side by side, often without ids, with repeats and with
judges that failed: `imported` sorts that out once.
"""

import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from ragscore.frames.data import Golden, Results, from_records
from ragscore.frames.errors import warn
from ragscore.io.record import implied_refusal
from ragscore.io.source import Problems
from ragscore.io.values import flatten, unify_types


@dataclass
class Stored:
    """A score that another tool stored: `value` None with an `error` is a judge that failed."""

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
    """One record of a foreign file.

    None = the file doesn't say; `hits` None = nothing is known of retrieval.
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
        """Whether a system was asked: the record holds something that only a run can have."""
        return (
            self.hits is not None
            or bool(self.stored)
            or any(
                value is not None for value in (self.answer, self.error, self.latency_ms, self.run)
            )
        )

    @property
    def is_labelled(self) -> bool:
        """Whether the record says what is right."""
        given = bool(self.gold_texts or self.checks) or any(
            ids is not None for ids in self.gold_ids.values()
        )
        return given or self.reference_answer is not None or self.answerable is not None


@dataclass(frozen=True)
class Imported:
    """What a file of another tool holds.

    Attributes
    ----------
    results
        One run per system in the file and repeat; None where the file holds labels only.
        `results.reported` has the stored scores, `results.judgments` those that a judge gave, with
        state "scored" or "judge_failed" (value NaN).
    golden
        The labels, one row per question; None where the file has none.
    problems
        What could not be taken: file, line, field, found, allowed.
    """

    results: Results | None
    golden: Golden | None
    problems: pd.DataFrame

    def __repr__(self) -> str:
        return (
            f"Imported: {self.results or 'no results'}; {self.golden or 'no golden labels'};"
            f" {len(self.problems)} problems"
        )


def hash_query(query: str) -> str:
    """An id for a question that has none.

    `q-` and 12 hex digits; letter case, spacing and Unicode form don't matter.

    The same question has the same id in every file.
    """
    normal = " ".join(unicodedata.normalize("NFKC", query).casefold().split())
    return "q-" + hashlib.sha256(normal.encode("utf-8", "replace")).hexdigest()[:12]


def imported(cases: list[Case], described: dict[str, Any], problems: Problems) -> Imported:
    """Frames of all cases.

    Questions get ids, repeats get runs of their own, texts without ids get them.

    `described` has the fields of the runs frame that hold for the whole file: at least run_id.
    """
    kept = [case for case in cases if _identify(case, problems)]
    declared = any(case.repeat is not None for case in kept)
    _number_repeats(kept, declared, problems)
    _name_texts(kept)
    answered = [case for case in kept if case.is_answered]
    results = _results(answered, described, declared, problems) if answered else None
    golden = _golden(kept, problems) if any(case.is_labelled for case in kept) else None
    return Imported(
        results, golden and replace(golden, problems=problems.frame()), problems.frame()
    )


def _identify(case: Case, problems: Problems) -> bool:
    """Give the case an id; False, and a problem, where there is neither id nor question."""
    if case.query_id is None and (case.query is None or not case.query.strip()):
        problems.add(
            "neither a question nor an id",
            line=case.line,
            allowed="text of the question, or its id",
        )
        return False
    case.query_id = case.query_id or hash_query(case.query or "")
    return True


def _number_repeats(cases: list[Case], declared: bool, problems: Problems) -> None:
    """Number the answers of one run to one question from 1.

    Undeclared repeats are warned of, declared ones that collide moved on.
    """
    taken: dict[tuple[str | None, str | None], set[int]] = {}
    twice: dict[str, None] = {}
    for case in cases:
        used = taken.setdefault((case.run, case.query_id), set())
        number = (
            case.repeat
            if case.repeat is not None and case.repeat not in used
            else max(used, default=0) + 1
        )
        if used and (case.repeat is None or case.repeat in used):
            twice[str(case.query_id)] = None
        used.add(number)
        case.repeat = number
    if twice:
        several = "1 question stands" if len(twice) == 1 else f"{len(twice)} questions stand"
        text = (
            f"{problems.file}: {several} there more than once ({', '.join(list(twice)[:5])}); each"
            " further answer is kept as a repeat, in a run of its own"
        )
        warn(text)


def _name_texts(cases: list[Case]) -> None:
    """Chunk ids for passages that have a text and no id.

    That of the same text elsewhere in the file, else a hash of the text.
    """
    hits = [hit for case in cases for hit in case.hits or []]
    known = {
        _normal(hit["text"]): hit["chunk_id"]
        for hit in hits
        if hit.get("text") and hit.get("chunk_id")
    }
    for hit in hits:
        if hit.get("text") and not hit.get("chunk_id") and not hit.get("doc_id"):
            hit["chunk_id"] = known.get(_normal(hit["text"]), _text_id(hit["text"]))
    for case in cases:
        if case.gold_texts and not case.gold_ids.get("chunk"):
            case.gold_ids["chunk"] = [
                known.get(_normal(text), _text_id(text)) for text in case.gold_texts
            ]


def _normal(text: str) -> str:
    return " ".join(text.split())


def _text_id(text: str) -> str:
    return "text-" + hashlib.sha256(_normal(text).encode("utf-8", "replace")).hexdigest()[:12]


def _results(
    cases: list[Case], described: dict[str, Any], declared: bool, problems: Problems
) -> Results:
    tables: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("responses", "hits", "judgments", "reported")
    }
    runs: dict[str, dict[str, Any]] = {}
    for case in cases:
        run = _run(case, described, declared)
        counts = runs.setdefault(run["run_id"], {**run, "n_queries": 0, "n_failed": 0})
        counts["n_queries"] += 1
        counts["n_failed"] += case.error is not None
        cell = {"run_id": run["run_id"], "query_id": case.query_id}
        tables["responses"].append(cell | _response(case))
        tables["hits"] += [
            cell | {"rank": rank} | hit for rank, hit in enumerate(case.hits or [], 1)
        ]
        of_metric = {one.metric: one for one in case.stored}
        tables["judgments"] += [
            cell | _judgment(one)
            for one in of_metric.values()
            if one.is_judged or one.value is None
        ]
        tables["reported"] += [
            cell | {"metric": one.metric, "value": one.value}
            for one in of_metric.values()
            if one.value is not None
        ]
    frames = {
        name: from_records(unify_types(records), name)
        for name, records in tables.items()
        if records or name in ("responses", "hits")
    }
    return Results(
        runs=from_records(list(runs.values()), "runs"), **frames, problems=problems.frame()
    )


def _run(case: Case, described: dict[str, Any], declared: bool) -> dict[str, Any]:
    """The run of a case.

    The file's, with the system's name where a file holds several, and a number where there are
    repeats.
    """
    base = (
        described["run_id"]
        if case.run is None
        else case.run
        if described.get("runs_are_named")
        else f"{described['run_id']}.{case.run}"
    )
    # a run's id is a folder's name in a store
    base = re.sub(r"[^\w.+@=-]+", "-", base).strip("-.") or "run"
    suffix = f"-r{case.repeat}" if declared or (case.repeat or 1) > 1 else ""
    known = {name: value for name, value in described.items() if name != "runs_are_named"}
    return {
        **known,
        "run_id": f"{base}{suffix}",
        "system": case.run or described.get("system") or base,
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


def _judgment(one: Stored) -> dict[str, Any]:
    is_scored = one.error is None and (one.value is not None or one.verdict is not None)
    state, reason = (
        ("scored", one.reason) if is_scored else ("judge_failed", one.error or one.reason)
    )
    record = {
        "criterion": one.metric,
        "item": "",
        "value": one.value,
        "verdict": one.verdict,
        "reason": reason,
        "judge": one.judge,
    }
    return record | {"cost_usd": one.cost_usd, "state": state}


def _golden(cases: list[Case], problems: Problems) -> Golden:
    """Labels of each question, those of its repeats joined.

    The first of two that contradict each other stays, and is a problem.
    """
    by_id: dict[str, list[Case]] = {}
    for case in cases:
        by_id.setdefault(str(case.query_id), []).append(case)
    tables: dict[str, dict[Any, dict[str, Any]]] = {
        name: {} for name in ("queries", "targets", "tags", "checks")
    }
    for position, (query_id, same) in enumerate(by_id.items()):
        tables["queries"][query_id] = {
            "query_id": query_id,
            "position": position,
            **_labels(same, problems),
        }
        for case in same:
            for level, ids in case.gold_ids.items():
                for one in ids:
                    target = {
                        "query_id": query_id,
                        "level": level,
                        "target_id": one,
                        "alternative": 0,
                        "grade": 1,
                        f"{level}_id": one,
                    }
                    tables["targets"][query_id, level, one] = target
            tables["tags"] |= {
                (query_id, kind, one): {"query_id": query_id, "kind": kind, "value": one}
                for kind, ones in case.tags.items()
                for one in ones
            }
            tables["checks"] |= {
                (query_id, kind, one): {"query_id": query_id, "kind": kind, "text": one}
                for kind, ones in case.checks.items()
                for one in ones
            }
    return Golden(
        **{name: from_records(list(records.values()), name) for name, records in tables.items()}
    )


def _labels(same: list[Case], problems: Problems) -> dict[str, Any]:
    found: dict[str, Any] = {
        "query": next((case.query for case in same if case.query is not None), ""),
        "answerable": None,
    }
    for case in same:
        given = {
            "answerable": case.answerable,
            "reference_answer": case.reference_answer,
            **case.labels,
        }
        for name, value in given.items():
            if value is not None and found.get(name) not in (None, value):
                problems.add(
                    f"{name} {json.dumps(value, ensure_ascii=False)[:60]} for a question that has"
                    " another one already",
                    line=case.line,
                    field=name,
                )
            elif value is not None:
                found[name] = value
    expects = any(
        case.reference_answer or any(case.gold_ids.values()) or case.checks for case in same
    )
    return found | ({"answerable": True} if found["answerable"] is None and expects else {})
