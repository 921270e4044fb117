"""Applicability of metrics to queries, and facts about each row of a scores frame.

In: the golden set, rows of scores and, if they are given, the results behind them. Out: flags and
counts, one per row, from which `value_states` tells why a row has no value.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import Golden, Results
from ragscore.frames.typing import Flags
from ragscore.scoring.answers import is_blank
from ragscore.scoring.citations import has_value
from ragscore.scoring.judgments import CRITERIA, FAILED
from ragscore.scoring.metrics import GRADED, NEEDS_IRRELEVANT, Label, judges_irrelevant
from ragscore.scoring.rules import LEVELS, RANKLESS, response_of, targets_at
from ragscore.scoring.success import OF_SUCCESS, PASSED, TEXT_CHECKS, texts_only

Counts = npt.NDArray[np.int64]

# metric -> the checks without which it doesn't apply
CHECKS_OF = {"recency_ok": "recency_rule", "key_facts": "key_fact", "key_facts_literal": "key_fact"}
OF_REFERENCE = ("exact_match", "token_f1", "rouge_l")
OF_LABELLED_CITATIONS = ("citation_precision", "citation_recall")
OF_CITATIONS = (
    "citation_present", "citation_coverage", "citation_coverage_weak", "citation_fabricated",
    "citation_out_of_scope", "citation_duplicate",
)  # fmt: skip
LONGEST_ERROR = 60  # characters of an error that a reason quotes
RECORDED = {
    "latency_ms": ("elapsed_ms", "time"), "latency_ms_all": ("elapsed_ms", "time"),
    "cost_usd": ("cost_usd", "cost"), "scope_miss": ("scope", "choice of folders"),
    **dict.fromkeys(
        ("refusal_correct", "answered_unanswerable", "false_refusal"), ("refused", "refusal")
    ),
}  # fmt: skip
"""Metric -> the column of the responses that it is read from, and a name for its content."""


class Applicability:
    """Decide for each score row whether a metric applies to the row's query.

    Only the golden set decides: a row that the system failed at, or never answered, is as
    applicable as any other.
    """

    def __init__(self, golden: Golden, rows: pd.DataFrame, min_grade: int = 1) -> None:
        self.golden, self.min_grade = golden, min_grade
        # texts are looked up once: all else is told per golden query
        self.query = lookup(rows["query_id"], golden.queries["query_id"])
        self.level = lookup(rows["level"], pd.Index(LEVELS))
        self.should_refuse = _are_among(golden, golden.refusals)
        self._applies: dict[tuple[str, str | None], Flags] = {}
        self._has_targets: dict[tuple[bool, str, int], Flags] = {}
        self._knows_irrelevant: dict[str, bool] = {}

    def of_rows(self, label: Label) -> Flags:
        """Flag the rows to which a metric applies; the cut-off k makes no difference."""
        key = (label.name, label.level)
        if key not in self._applies:
            self._applies[key] = self._of_rows(label)
        return self._applies[key]

    def _of_rows(self, label: Label) -> Flags:
        if label.level is not None:
            applies = self.by_query(self._with_targets(label.name, label.level))
            return applies & ~self.lacks_irrelevant(label)
        if label.is_ranking:
            return self._at_own_level(label.name) & ~self.lacks_irrelevant(label)
        if label.name in OF_SUCCESS:
            checks = self.golden.checks
            rankless = checks.loc[is_among(checks["kind"], RANKLESS), "query_id"]
            has_other = self.should_refuse | _are_among(self.golden, rankless)
            found = self._at_own_level("hit") | self.by_query(has_other)
            return found | self.texts_only if label.name == PASSED else found
        return self.by_query(_applies_to_queries(self.golden, label.name, self.should_refuse))

    @cached_property
    def texts_only(self) -> Flags:
        """Flag rows whose query expects texts in the answer, and nothing else."""
        return self.by_query(texts_only(self.golden))

    def grade_of(self, name: str) -> int:
        """Return the lowest grade of a target without which a ranking metric doesn't apply."""
        return 1 if name in GRADED else self.min_grade

    def lacks_irrelevant(self, label: Label) -> Flags:
        """Flag rows at whose level the golden set judges nothing as not relevant, if that counts.

        Only metrics of `NEEDS_IRRELEVANT` ask for it.
        """
        lacks = np.zeros(len(self.level), dtype=bool)
        if label.name not in NEEDS_IRRELEVANT:
            return lacks
        for code, level in enumerate(LEVELS):
            own = label.level == level if label.level else self.level == code
            if np.any(own) and not self._judges_irrelevant(level):
                lacks |= own
        return lacks

    def _judges_irrelevant(self, level: str) -> bool:
        if level not in self._knows_irrelevant:
            targets = targets_at(self.golden, level).targets
            self._knows_irrelevant[level] = judges_irrelevant(targets, self.min_grade)
        return self._knows_irrelevant[level]

    def by_query(self, flags: Flags) -> Flags:
        """Return flags of golden queries as flags of rows."""
        return np.append(flags, False)[self.query]

    def _at_own_level(self, name: str) -> Flags:
        """Flag rows whose query has targets at the row's own match level.

        A per-query scoring has several levels, and none where a query has no target.
        """
        applies = np.zeros(len(self.level), dtype=bool)
        for code, level in enumerate(LEVELS):
            if (is_here := self.level == code).any():
                applies |= is_here & self.by_query(self._with_targets(name, level))
        return applies

    def only_elsewhere(self, name: str) -> Flags:
        """Flag rows whose query has targets, though none at the row's match level.

        A golden set of mixed kinds has such queries: another level would score them.
        """
        anywhere = np.any([self._with_targets(name, level) for level in LEVELS], axis=0)
        return self.by_query(anywhere) & ~self._at_own_level(name)

    def _with_targets(self, name: str, level: str) -> Flags:
        """Flag golden queries that have what a ranking metric asks for at this level."""
        key = (name == "recall_all", level, self.grade_of(name))
        if key not in self._has_targets:
            selected = targets_at(self.golden, level)
            targets = selected.targets[selected.targets["grade"] >= key[2]]
            needed = selected.support_groups if key[0] else targets
            self._has_targets[key] = _are_among(self.golden, needed["query_id"])
        return self._has_targets[key]


def queries_of_metric(golden: Golden, metric: str) -> pd.Series:
    """Return the queries to which an answer metric applies."""
    applies = _applies_to_queries(golden, metric, _are_among(golden, golden.refusals))
    return golden.queries.loc[applies, "query_id"]


def _applies_to_queries(golden: Golden, metric: str, should_refuse: Flags) -> Flags:
    """Flag the golden queries to which an answer metric applies."""
    queries, checks, targets = golden.queries, golden.checks, golden.targets
    if metric in ("refusal_correct", "answered_unanswerable"):
        return should_refuse
    if metric == "false_refusal":
        return queries["answerable"].fillna(False).to_numpy(dtype=bool)
    if metric in ("attribution_hit", "scope_miss_proxy"):
        return _are_among(golden, targets_at(golden, "anchor").targets["query_id"])
    if metric == "scope_miss":
        folders = golden.tags.loc[golden.tags["kind"] == "folder", "query_id"]
        anchors = targets_at(golden, "anchor").targets["query_id"]
        return _are_among(golden, pd.concat([folders, anchors])) & ~should_refuse
    if metric in CHECKS_OF:
        needed = checks.loc[checks["kind"] == CHECKS_OF[metric], "query_id"]
        return _are_among(golden, needed) & ~should_refuse
    if metric.startswith("answer_checks"):
        needed = checks.loc[is_among(checks["kind"], TEXT_CHECKS), "query_id"]
        is_checked = _are_among(golden, needed)
        return is_checked if metric.endswith("all") else is_checked & ~should_refuse
    if metric in OF_REFERENCE:
        return has_value(queries, "reference_answer") & ~should_refuse
    if metric in OF_LABELLED_CITATIONS:
        relevant = targets.loc[targets["grade"] > 0, "query_id"]
        return _are_among(golden, relevant) & ~should_refuse
    if metric in (*OF_CITATIONS, *CRITERIA, "retrieved_cited"):
        # What should be refused is not expected to be answered, cited or judged; where it is, the
        # value counts all the same.
        return ~should_refuse
    return np.ones(len(queries), dtype=bool)


def _are_among(golden: Golden, query_ids: pd.Series) -> Flags:
    """Flag golden queries that are among these ids; often there are none, and nothing is read."""
    queries = golden.queries["query_id"]
    return is_among(queries, query_ids) if len(query_ids) else np.zeros(len(queries), dtype=bool)


@dataclass(frozen=True)
class Availability:
    """Flags of rows that have what a metric is read from, and of rows whose run has it anywhere."""

    what: str
    here: Flags
    in_run: Flags


@dataclass(frozen=True)
class RowFacts:
    """Facts about rows of scores, one value per row.

    Without results, only `missing`, `failed` and `extra` say anything.
    """

    rows: pd.DataFrame
    results: Results | None

    @cached_property
    def missing(self) -> Flags:
        """Golden queries without a response."""
        return self._in_state("missing")

    @cached_property
    def failed(self) -> Flags:
        """Queries that ended in an error."""
        return self._in_state("failed") | self._with_value("error")

    @cached_property
    def extra(self) -> Flags:
        """Responses without a golden query."""
        return self._in_state("extra")

    @cached_property
    def refused(self) -> Flags:
        """Responses that state a refusal, or state nothing about it and are blank."""
        if self.results is None:
            return np.zeros(len(self.rows), dtype=bool)
        responses = self.results.responses
        refused = is_blank(responses)
        if "refused" in responses:
            blank = pd.Series(refused, index=responses.index)
            refused = responses["refused"].fillna(blank).to_numpy(dtype=bool)
        return self._by_response(refused & ~has_value(responses, "error"))

    @cached_property
    def ungrounded(self) -> Flags:
        """Answers that the system says are not grounded."""
        if self.results is None or "grounded" not in self.results.responses:
            return np.zeros(len(self.rows), dtype=bool)
        is_ungrounded = self.results.responses["grounded"].eq(False).fillna(False)
        return self._by_response(is_ungrounded.to_numpy(dtype=bool))

    @cached_property
    def n_hits(self) -> Counts:
        """Hits of the row's response."""
        return self._count(self.results.hits if self.results is not None else None)

    @cached_property
    def n_cut(self) -> Counts:
        """Hits of the row's response whose text is cut."""
        hits = self.results.hits if self.results is not None else None
        if hits is None or "text_cut" not in hits:
            return self._count(None)
        return self._count(hits[hits["text_cut"].fillna(False).to_numpy(dtype=bool)])

    @cached_property
    def n_cited(self) -> Counts:
        """Citations that came with its answer."""
        return self._count(self.results.citations if self.results is not None else None)

    def errors(self) -> npt.NDArray[np.object_]:
        """Return the failure of each row in words, with the error where it is known."""
        texts = np.full(len(self.rows), "the query failed", dtype=object)
        if self.results is None or not self.failed.any():
            return texts
        error = self.results.responses["error"]
        shown = [
            f"the query failed: {text[:LONGEST_ERROR]}" if text else "the query failed"
            for text in error.astype(object).where(error.notna(), "")
        ]
        return np.append(np.array(shown, dtype=object), "the query failed")[self.response]

    def judged(self, criterion: str) -> tuple[Counts, Counts]:
        """Count the judgments of this criterion that each row has, and those that failed.

        `judge_failed` counts all criteria.
        """
        judgments = self.results.judgments if self.results is not None else None
        if judgments is None:
            return self._count(None), self._count(None)
        if criterion != FAILED:
            judgments = judgments[(judgments["criterion"] == criterion).to_numpy(dtype=bool)]
        is_failed = np.zeros(len(judgments), dtype=bool)
        if "state" in judgments:
            is_failed = (judgments["state"] == FAILED).to_numpy(dtype=bool, na_value=False)
        return self._count(judgments), self._count(judgments[is_failed])

    @cached_property
    def has_answer(self) -> Availability | None:
        """Rows whose response holds an answer."""
        return self._availability("answer", self._with_value("answer"))

    def has_judgment(self, criterion: str) -> Availability | None:
        """Return the rows of which a judge was asked."""
        return self._availability("judgment of it", self.judged(criterion)[0] > 0)

    def has_column(self, metric: str) -> Availability | None:
        """Return the rows that hold the response column a metric is read from, None without one."""
        if metric not in RECORDED or self.results is None:
            return None
        column, what = RECORDED[metric]
        here = self._with_value(column)
        if column == "refused":
            here |= self._by_response(is_blank(self.results.responses))
        return self._availability(what, here)

    @cached_property
    def response(self) -> Counts:
        """Position of each row's response, -1 for none."""
        assert self.results is not None
        return response_of(self.rows, self.results.responses)

    @cached_property
    def run(self) -> Counts:
        """A number for the run of each row."""
        return pd.factorize(self.rows["run_id"], use_na_sentinel=False)[0]

    def _availability(self, what: str, here: Flags) -> Availability | None:
        """Add the rows whose run has it anywhere.

        What a run records of no query that it finished is not among what it measures.
        """
        if self.results is None:
            return None
        is_finished, n_runs = ~self.missing & ~self.failed, self.run.max(initial=0) + 1
        n_finished = np.bincount(self.run[is_finished], minlength=n_runs)
        n_here = np.bincount(self.run[is_finished & here], minlength=n_runs)
        return Availability(what, here, ((n_here > 0) | (n_finished == 0))[self.run])

    def _in_state(self, state: str) -> Flags:
        return self.rows["state"].eq(state).to_numpy(dtype=bool)

    def _with_value(self, column: str) -> Flags:
        if self.results is None:
            return np.zeros(len(self.rows), dtype=bool)
        return self._by_response(has_value(self.results.responses, column))

    def _by_response(self, flags: Flags) -> Flags:
        """Return flags of responses as flags of rows."""
        return np.append(flags, False)[self.response]

    def _count(self, frame: pd.DataFrame | None) -> Counts:
        """Count the rows of a frame that each row's response has."""
        if self.results is None or frame is None or not len(frame):
            return np.zeros(len(self.rows), dtype=np.int64)
        place, n = response_of(frame, self.results.responses), len(self.results.responses)
        return np.append(np.bincount(place[place >= 0], minlength=n), 0)[self.response]
