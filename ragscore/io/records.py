"""The neutral record, which every reader makes, and the step from records to rows of frames."""

from dataclasses import dataclass, field
from typing import Any

from ragscore.io.values import metadata_rows

Rows = list[dict[str, Any]]


@dataclass(slots=True)
class Call:
    """One retrieval on the way to an answer: what was asked of whom, and what it returned."""

    hits: Rows
    query: str | None = None
    kind: str | None = None
    elapsed_ms: float | None = None
    error: str | None = None
    tool: str | None = None
    start: str | None = None


@dataclass(slots=True)
class Stored:
    """A score that another tool stored; without a value but with an error, a judge that failed.

    `better` ("higher" or "lower"), `lowest`, `highest` and `threshold` (from which it is a success)
    are what its file says of the metric.
    """

    metric: str
    value: float | None
    verdict: str | None = None
    reason: str | None = None
    judge: str | None = None
    error: str | None = None
    cost_usd: float | None = None
    is_judged: bool = True
    better: str | None = None
    lowest: float | None = None
    highest: float | None = None
    threshold: float | None = None


ABOUT_METRIC = ("better", "lowest", "highest", "threshold")
"""What a file may say of a metric: the fields of `Stored`, and the columns of reported values."""


@dataclass(slots=True)
class Record:
    """One query as one system answered it, with the labels that its file has for it.

    Attributes
    ----------
    line
        Where it stands in its file, for messages.
    query_id, run, repeat
        The query (without an id, one is made of its text), the system, and the number of the trial.
    response
        Columns of the responses frame: query, answer, error, elapsed_ms and so on, or `x_<name>`.
    hits
        A dict of columns of the hits frame per hit, by rank, also with `metadata`, a mapping. None:
        nothing is known about retrieval.
    calls
        Each search on the way. Their hits are those of the record, unless it has its own.
    citations, steps
        Columns of the frames citations and calls.
    stored, verdicts
        Scores that another tool computed, and columns of the frame judgments.
    nuggets
        Key facts: `text`, and `importance` and `weight` where they are known.
    extra
        Other fields of the response, which become `x_<name>`.
    gold_ids, gold_texts, gold_gains
        What is expected: level ("doc", "chunk") -> ids, passages, and document -> its rating.
    reference_answer, answerable, labels, tags, checks
        Further labels of the query.
    """

    line: int
    query_id: str | None = None
    run: str | None = None
    repeat: int | None = None
    response: dict[str, Any] = field(default_factory=dict)
    hits: Rows | None = None
    calls: list[Call] = field(default_factory=list)
    citations: Rows = field(default_factory=list)
    steps: Rows = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    verdicts: Rows = field(default_factory=list)
    nuggets: Rows = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    gold_ids: dict[str, list[str]] = field(default_factory=dict)
    gold_texts: list[str] = field(default_factory=list)
    gold_gains: dict[str, float] = field(default_factory=dict)
    reference_answer: str | None = None
    answerable: bool | None = None
    labels: dict[str, str] = field(default_factory=dict)
    tags: dict[str, list[str]] = field(default_factory=dict)
    checks: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_answered(self) -> bool:
        """True if the record holds something that only a run can have."""
        of_run = (self.hits, self.run, *map(self.response.get, ("answer", "error", "elapsed_ms")))
        return bool(self.stored or self.verdicts or self.calls) or any(
            value is not None for value in of_run
        )

    @property
    def is_labelled(self) -> bool:
        """True if the record has a label, such as a reference answer."""
        labels = (*self.gold_ids.values(), self.reference_answer, self.answerable)
        has_lists = bool(self.gold_texts or self.gold_gains or self.checks or self.nuggets)
        return has_lists or any(label is not None for label in labels)


@dataclass
class Tables:
    """Rows of each frame while the records of a file are gathered."""

    responses: Rows = field(default_factory=list)
    hits: Rows = field(default_factory=list)
    hit_meta: Rows = field(default_factory=list)
    citations: Rows = field(default_factory=list)
    calls: Rows = field(default_factory=list)
    judgments: Rows = field(default_factory=list)
    reported: Rows = field(default_factory=list)

    def add(self, record: Record, cell: dict[str, Any]) -> None:
        """Add the rows of a record; `cell` is its run and query."""
        self.responses.append(cell | record.response)
        hits = record.hits
        if hits is None and record.calls:
            hits = [
                {"call": number, **hit}
                for number, call in enumerate(record.calls, 1)
                for hit in call.hits
            ]
        for rank, hit in enumerate(hits or (), 1):
            row = {**cell, "rank": rank, **hit}
            if "metadata" in row and (meta := row.pop("metadata")):
                place = cell | {"rank": row["rank"]}
                self.hit_meta += [place | pair for pair in metadata_rows(meta)]
            self.hits.append(row)
        for number, one in enumerate(record.citations, 1):
            self.citations.append({**cell, "position": number, **one})
        self.calls += [cell | one for one in record.steps]
        self.calls += [cell | _call(number, call) for number, call in enumerate(record.calls, 1)]
        self.judgments += [cell | one for one in record.verdicts]
        for score in {score.metric: score for score in record.stored}.values():
            if score.is_judged or score.value is None:
                self.judgments.append(cell | _judgment(score))
            if score.value is not None:
                about = {name: getattr(score, name) for name in ABOUT_METRIC}
                self.reported.append(cell | {"metric": score.metric, "value": score.value} | about)


def _call(number: int, call: Call) -> dict[str, Any]:
    """Return the row of a call."""
    return {
        "call": number, "query": call.query, "tool": call.tool, "kind": call.kind,
        "start": call.start, "elapsed_ms": call.elapsed_ms, "n_hits": len(call.hits),
        "error": call.error,
    }  # fmt: skip


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
