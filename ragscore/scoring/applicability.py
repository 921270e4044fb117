"""To which rows of the scores a metric applies, by what the golden set says of the row's query at the row's match level.

What is known of each row of a scores frame: failed, missing, refused, judged, on how many hits.

RowFacts, no judgement of them.

In: the rows, and where they are given the results behind them. Out: `RowFacts`, from which `outcomes`
tells its states.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import Golden, Results
from ragscore.scoring.judgments import CRITERIA, FAILED
from ragscore.scoring.matching import LEVELS, RANKLESS, at_level, response_of
from ragscore.scoring.metrics import Label

Flags = npt.NDArray[np.bool_]

# metric -> the checks without which it doesn't apply
CHECKS_OF = {"recency_ok": "recency_rule", "key_facts": "key_fact", "key_facts_literal": "key_fact"}
OF_REFERENCE = ("exact_match", "token_f1", "rouge_l")
OF_LABELLED_CITATIONS = ("citation_precision", "citation_recall")
OF_CITATIONS = (
    "citation_present",
    "citation_coverage",
    "citation_coverage_weak",
    "citation_fabricated",
    "citation_out_of_scope",
    "citation_duplicate",
)


class Applicability:
    """Flags, one per row of a scores frame.

    Whether the row's query is one that a metric applies to.

    Only the golden set decides: a row that the system failed at, or never answered, is as
    applicable as any other.
    """

    def __init__(self, golden: Golden, rows: pd.DataFrame) -> None:
        self.golden = golden
        # texts are looked up once: all else is told per golden query
        self.place = lookup(rows["query_id"], golden.queries["query_id"])
        self.level = lookup(rows["level"], pd.Index(LEVELS))
        self.is_refusal = _are_among(golden, golden.refusals)
        self._known: dict[tuple[str, str | None], Flags] = {}
        self._with: dict[tuple[bool, str], Flags] = {}

    def to_rows(self, label: Label) -> Flags:
        """One flag per row; the cut-off k makes no difference."""
        key = (label.name, label.level)
        if key not in self._known:
            self._known[key] = self._to_rows(label)
        return self._known[key]

    def _to_rows(self, label: Label) -> Flags:
        if label.level is not None:
            return self._of_queries(self._has_targets(label.name, label.level))
        if label.is_ranking:
            return self._at_own_level(label.name)
        if label.name == "passed":
            kinds = is_among(self.golden.checks["kind"], RANKLESS)
            checked = _are_among(self.golden, self.golden.checks.loc[kinds, "query_id"])
            return self._at_own_level("hit") | self._of_queries(self.is_refusal | checked)
        return self._of_queries(is_asked(self.golden, label.name, self.is_refusal))

    def is_due(self) -> Flags:
        """Whether the row's query should be refused."""
        return self._of_queries(self.is_refusal)

    def _of_queries(self, flags: Flags) -> Flags:
        return np.append(flags, False)[self.place]

    def _at_own_level(self, name: str) -> Flags:
        """By the match level of each row.

        A per-query scoring has several, and none where a query has no target.
        """
        applies = np.zeros(len(self.level), dtype=bool)
        for code, level in enumerate(LEVELS):
            if (here := self.level == code).any():
                applies |= here & self._of_queries(self._has_targets(name, level))
        return applies

    def _has_targets(self, name: str, level: str) -> Flags:
        """Whether each golden query has what a ranking metric asks for at this level."""
        key = (name == "recall_all", level)
        if key not in self._with:
            selected = at_level(self.golden, level)
            having = (
                selected.support_groups
                if key[0]
                else selected.targets[selected.targets["grade"] > 0]
            )
            self._with[key] = _are_among(self.golden, having["query_id"])
        return self._with[key]


def queries_of_metric(golden: Golden, metric: str) -> pd.Series:
    """Queries to which an answer metric applies."""
    return golden.queries.loc[
        is_asked(golden, metric, _are_among(golden, golden.refusals)), "query_id"
    ]


def is_asked(golden: Golden, metric: str, is_due: Flags) -> Flags:
    """Whether an answer metric applies to each golden query; `is_due`.

    Whether it should be refused.
    """
    queries = golden.queries
    if metric in ("refusal_correct", "answered_unanswerable"):
        return is_due
    if metric == "false_refusal":
        return queries["answerable"].fillna(False).to_numpy(dtype=bool)
    if metric in ("attribution_hit", "scope_miss_proxy"):
        return _are_among(golden, at_level(golden, "anchor").targets["query_id"])
    if metric == "scope_miss":
        folders = golden.tags.loc[golden.tags["kind"] == "folder", "query_id"]
        return (
            _are_among(golden, pd.concat([folders, at_level(golden, "anchor").targets["query_id"]]))
            & ~is_due
        )
    if metric in CHECKS_OF:
        return (
            _are_among(
                golden, golden.checks.loc[golden.checks["kind"] == CHECKS_OF[metric], "query_id"]
            )
            & ~is_due
        )
    if metric.startswith("answer_checks"):
        checked = _are_among(
            golden,
            golden.checks.loc[
                is_among(golden.checks["kind"], ["must_contain", "forbidden"]), "query_id"
            ],
        )
        return checked if metric.endswith("all") else checked & ~is_due
    if metric in OF_REFERENCE:
        has_reference = (
            queries["reference_answer"].notna().to_numpy()
            if "reference_answer" in queries
            else np.zeros(len(queries), dtype=bool)
        )
        return has_reference & ~is_due
    if metric in OF_LABELLED_CITATIONS:
        return (
            _are_among(golden, golden.targets.loc[golden.targets["grade"] > 0, "query_id"])
            & ~is_due
        )
    # What should be refused is not expected to be answered, cited or judged; where it is, the value
    # counts all the same.
    return (
        ~is_due
        if metric in (*OF_CITATIONS, *CRITERIA, "retrieved_cited")
        else np.ones(len(queries), dtype=bool)
    )


def _are_among(golden: Golden, query_ids: pd.Series) -> Flags:
    """Whether each golden query is among these.

    Often there are none, and no text need be looked at.
    """
    queries = golden.queries["query_id"]
    return is_among(queries, query_ids) if len(query_ids) else np.zeros(len(queries), dtype=bool)


Counts = npt.NDArray[np.int64]

LONGEST_ERROR = 60  # characters of an error that a reason quotes
RECORDED = {
    "latency_ms": ("elapsed_ms", "time"), "latency_ms_all": ("elapsed_ms", "time"),
    "cost_usd": ("cost_usd", "cost"), "scope_miss": ("scope", "choice of folders"),
    **dict.fromkeys(
        ("refusal_correct", "answered_unanswerable", "false_refusal"), ("refused", "refusal")
    ),
}  # fmt: skip
"""Metric -> the column of the responses that it is read from, and what that is called."""


@dataclass(frozen=True)
class Availability:
    """What a metric is read from: whether each row has it, and whether its run has it anywhere."""

    what: str
    here: Flags
    in_run: Flags


@dataclass(frozen=True)
class RowFacts:
    """Facts about rows of scores, one value per row.

    Without results (`known` is False) only the first three flags say anything.
    """

    rows: pd.DataFrame
    results: Results | None

    @property
    def known(self) -> bool:
        """Whether there are results to tell from."""
        return self.results is not None

    @cached_property
    def missing(self) -> Flags:
        """Golden queries without a response."""
        return self._in_state("missing")

    @cached_property
    def failed(self) -> Flags:
        """Queries that ended in an error."""
        return self._in_state("failed") | self._of_responses(self._has("error"))

    @cached_property
    def extra(self) -> Flags:
        """Responses without a golden query."""
        return self._in_state("extra")

    @cached_property
    def refused(self) -> Flags:
        """Responses that say that they refuse, or say nothing of it and are blank."""
        if self.results is None:
            return np.zeros(len(self.rows), dtype=bool)
        responses = self.results.responses
        stated = (
            responses["refused"]
            if "refused" in responses
            else pd.Series(pd.NA, index=responses.index, dtype="boolean")
        )
        return self._of_responses(
            stated.fillna(pd.Series(self._is_blank(), index=responses.index)).to_numpy(dtype=bool)
            & ~self._has("error")
        )

    @cached_property
    def ungrounded(self) -> Flags:
        """Answers that the system says are not grounded."""
        if self.results is None or "grounded" not in self.results.responses:
            return np.zeros(len(self.rows), dtype=bool)
        return self._of_responses(
            self.results.responses["grounded"].eq(False).fillna(False).to_numpy(dtype=bool)
        )

    @cached_property
    def n_hits(self) -> Counts:
        """Hits of the row's response."""
        return self._counted(self.results.hits if self.results is not None else None)

    @cached_property
    def n_cut(self) -> Counts:
        """Those of its hits whose text is cut."""
        hits = self.results.hits if self.results is not None else None
        return self._counted(
            hits[hits["text_cut"].fillna(False).to_numpy(dtype=bool)]
            if hits is not None and "text_cut" in hits
            else None
        )

    @cached_property
    def n_cited(self) -> Counts:
        """Citations that came with its answer."""
        return self._counted(self.results.citations if self.results is not None else None)

    def errors(self) -> npt.NDArray[np.object_]:
        """The failure of each row, in words; the error itself where it is known."""
        texts = np.full(len(self.rows), "the query failed", dtype=object)
        if self.results is not None and self.failed.any():
            error = (
                self.results.responses["error"]
                .astype(object)
                .where(self.results.responses["error"].notna(), "")
            )
            shown = [
                f"the query failed: {text[:LONGEST_ERROR]}" if text else "the query failed"
                for text in error
            ]
            texts = np.append(np.array(shown, dtype=object), "the query failed")[self.response]
        return texts

    def judged(self, criterion: str) -> tuple[Counts, Counts]:
        """How many judgments of this criterion each row has, and how many of them failed.

        `judge_failed` counts all criteria.
        """
        judgments = self.results.judgments if self.results is not None else None
        if judgments is None:
            return self._counted(None), self._counted(None)
        here = (
            judgments
            if criterion == FAILED
            else judgments[(judgments["criterion"] == criterion).to_numpy(dtype=bool)]
        )
        is_failed = (
            (here["state"] == FAILED).to_numpy(dtype=bool, na_value=False)
            if "state" in here
            else np.zeros(len(here), dtype=bool)
        )
        return self._counted(here), self._counted(here[is_failed])

    @cached_property
    def has_answer(self) -> "Availability | None":
        """Whether the row's response holds an answer."""
        return self._recorded("answer", self._of_responses(self._has("answer")))

    def has_judgment(self, criterion: str) -> "Availability | None":
        """Whether a judge was asked."""
        return self._recorded("judgment of it", self.judged(criterion)[0] > 0)

    def has_column(self, metric: str) -> "Availability | None":
        """Whether the response holds the column that a metric is read from.

        None for a metric that is read from none.
        """
        if metric not in RECORDED or self.results is None:
            return None
        column, what = RECORDED[metric]
        here = self._has(column) | self._is_blank() if column == "refused" else self._has(column)
        return self._recorded(what, self._of_responses(here))

    @cached_property
    def response(self) -> Counts:
        """Position of each row's response, -1 for none."""
        assert self.results is not None
        return response_of(self.rows, self.results.responses)

    def _recorded(self, what: str, here: Flags) -> "Availability | None":
        """With whether its run has it anywhere.

        What a run records of no query that it finished is not among what it measures.
        """
        if self.results is None:
            return None
        finished = ~self.missing & ~self.failed
        n_finished, n_here = (
            np.bincount(self.run[flags], minlength=self.run.max(initial=0) + 1)
            for flags in (finished, finished & here)
        )
        return Availability(what, here, ((n_here > 0) | (n_finished == 0))[self.run])

    @cached_property
    def run(self) -> Counts:
        """A number for the run of each row."""
        return pd.factorize(self.rows["run_id"], use_na_sentinel=False)[0]

    def _in_state(self, state: str) -> Flags:
        return self.rows["state"].eq(state).to_numpy(dtype=bool)

    def _has(self, column: str) -> Flags:
        responses = self.results.responses if self.results is not None else self.rows
        return (
            responses[column].notna().to_numpy()
            if column in responses
            else np.zeros(len(responses), dtype=bool)
        )

    def _is_blank(self) -> Flags:
        assert self.results is not None
        responses = self.results.responses
        return (
            (responses["answer"].str.strip() == "").to_numpy(dtype=bool, na_value=False)
            if "answer" in responses
            else np.zeros(len(responses), dtype=bool)
        )

    def _of_responses(self, flags: Flags) -> Flags:
        return (
            np.append(flags, False)[self.response]
            if self.results is not None
            else np.zeros(len(self.rows), dtype=bool)
        )

    def _counted(self, frame: pd.DataFrame | None) -> Counts:
        """How many rows of a frame each row's response has."""
        if self.results is None or frame is None or not len(frame):
            return np.zeros(len(self.rows), dtype=np.int64)
        place = response_of(frame, self.results.responses)
        return np.append(np.bincount(place[place >= 0], minlength=len(self.results.responses)), 0)[
            self.response
        ]
