"""Applicability of metrics to queries, and facts about each row of a scores frame.

In: the golden set, rows of scores and, if they are given, the results behind them. Out: flags and
counts, one per row, from which `value_states` tells why a row has no value.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import lookup
from ragscore.frames.data import Golden, Results, empty
from ragscore.frames.typing import Flags
from ragscore.scoring.answers import is_blank
from ragscore.scoring.calls import n_calls
from ragscore.scoring.citations import has_value
from ragscore.scoring.judgments import FAILED
from ragscore.scoring.metrics import BY_NAME, Label
from ragscore.scoring.metrics.lists import recorded_here
from ragscore.scoring.metrics.needs import Need, RunNeed, among
from ragscore.scoring.rules import LEVELS, response_of

Counts = npt.NDArray[np.int64]

LONGEST_ERROR = 60  # characters of an error that a reason quotes


class Applicability:
    """Decide for each score row whether a metric applies to the row's query.

    Only the golden set decides: a row that the system failed at, or never answered, is as
    applicable as any other.
    """

    def __init__(self, golden: Golden, rows: pd.DataFrame) -> None:
        self.golden = golden
        # texts are looked up once: all else is told per golden query
        self.query = lookup(rows["query_id"], golden.queries["query_id"])
        self.level = lookup(rows["level"], pd.Index(LEVELS))
        self.should_refuse = among(golden, golden.refusals)
        self._has: dict[tuple[Need, str | None], Flags] = {}

    def of_rows(self, label: Label) -> Flags:
        """Flag the rows to which a metric applies; the cut-off k makes no difference."""
        applies = np.ones(len(self.level), dtype=bool)
        if label.metric.excuses and label.metric.family not in ("ranking", "own"):
            applies &= ~self.by_query(self.should_refuse)
        for need in label.metric.golden_needs:
            applies &= self.has(need, label.level)
        return applies

    def has(self, need: Need, level: str | None = None) -> Flags:
        """Flag the rows whose query has what a metric needs, at a level or at the row's own.

        A per-query scoring has several levels, and none where a query has no target.
        """
        if (need, level) not in self._has:
            self._has[need, level] = self._of_rows(need, level)
        return self._has[need, level]

    def _of_rows(self, need: Need, level: str | None) -> Flags:
        if level is not None or not need.by_level:
            return self.by_query(need.of_queries(self.golden, level))
        found = np.zeros(len(self.level), dtype=bool)
        for code, name in [(-1, None), *enumerate(LEVELS)]:
            if (is_here := self.level == code).any():
                found |= is_here & self.by_query(need.of_queries(self.golden, name))
        return found

    def has_elsewhere(self, need: Need) -> Flags:
        """Flag the rows whose query has it at some level: another than the row's would score it."""
        return self.by_query(need.of_queries_anywhere(self.golden))

    def by_query(self, flags: Flags) -> Flags:
        """Return flags of golden queries as flags of rows."""
        return np.append(flags, False)[self.query]


def queries_of_metric(golden: Golden, metric: str) -> pd.Series:
    """Return the queries to which an answer metric applies."""
    declared = BY_NAME[metric]
    applies = np.ones(len(golden.queries), dtype=bool)
    if declared.excuses:
        applies = ~among(golden, golden.refusals)
    for need in declared.golden_needs:
        applies = applies & need.of_queries(golden, None)
    return golden.queries.loc[applies, "query_id"]


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
    def responses(self) -> pd.DataFrame:
        """The responses; none without results."""
        return empty("responses") if self.results is None else self.results.responses

    @cached_property
    def missing(self) -> Flags:
        """Golden queries without a response."""
        return self._in_state("missing")

    @cached_property
    def failed(self) -> Flags:
        """Queries that ended in an error."""
        return self._in_state("failed") | self.with_value("error")

    @cached_property
    def extra(self) -> Flags:
        """Responses without a golden query."""
        return self._in_state("extra")

    @cached_property
    def refused(self) -> Flags:
        """Responses that state a refusal, or state nothing about it and are blank."""
        responses = self.responses
        refused = is_blank(responses)
        if "refused" in responses:
            blank = pd.Series(refused, index=responses.index)
            refused = responses["refused"].fillna(blank).to_numpy(dtype=bool)
        return self._by_response(refused & ~has_value(responses, "error"))

    @cached_property
    def ungrounded(self) -> Flags:
        """Answers that the system says are not grounded."""
        if "grounded" not in self.responses:
            return np.zeros(len(self.rows), dtype=bool)
        is_ungrounded = self.responses["grounded"].eq(False).fillna(False)
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
    def n_calls(self) -> Counts:
        """Searches for the row's query, at least 1."""
        if self.results is None:
            return np.ones(len(self.rows), dtype=np.int64)
        return np.append(n_calls(self.results), 1)[self.response]

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

        "" counts all criteria.
        """
        judgments = self.results.judgments if self.results is not None else None
        if judgments is None:
            return self._count(None), self._count(None)
        if criterion:
            judgments = judgments[(judgments["criterion"] == criterion).to_numpy(dtype=bool)]
        is_failed = np.zeros(len(judgments), dtype=bool)
        if "state" in judgments:
            is_failed = (judgments["state"] == FAILED).to_numpy(dtype=bool, na_value=False)
        return self._count(judgments), self._count(judgments[is_failed])

    def is_stored(self, metric: str) -> bool:
        """Tell if another tool stored scores of this metric, for some row."""
        return any(frame[name].eq(metric).any() for frame, name in self._stored())

    @cached_property
    def with_stored(self) -> Flags:
        """Flag rows for which another tool stored a score of any metric."""
        counts = [self._count(frame) for frame, _ in self._stored()]
        return np.sum(counts, axis=0, initial=0) > np.zeros(len(self.rows))

    def _stored(self) -> list[tuple[pd.DataFrame, str]]:
        """Return the frames of stored scores, each with its column of metrics."""
        frames = [] if self.results is None else [self.results.reported, self.results.judgments]
        named = zip(frames, ("metric", "criterion"), strict=False)
        return [(frame, name) for frame, name in named if frame is not None]

    @cached_property
    def blank(self) -> Flags:
        """Blank answers."""
        return self._by_response(is_blank(self.responses))

    def recorded(self, read: str) -> Flags:
        """Flag rows of which a column is known that a metric of your own reads."""
        kind, _, column = read.partition(".")
        frame = getattr(self.results, kind, None)
        if frame is None or column not in frame:
            return np.zeros(len(self.rows), dtype=bool)
        place = response_of(frame, self.responses)
        row_of = np.full(len(self.responses) + 1, -1)
        row_of[self.response] = np.arange(len(self.rows))
        row_of[-1] = -1
        row, has_value = row_of[place], frame[column].notna().to_numpy()
        return recorded_here(row[row >= 0], has_value[row >= 0], self.run, False)

    def has_recorded(self, need: RunNeed | None) -> Availability | None:
        """Return the rows that hold what a metric is read from; None if that isn't known."""
        if need is None or need.here is None or self.results is None:
            return None
        # What a run records of no query that it finished is not among what it measures.
        here, is_finished = need.here(self), ~self.missing & ~self.failed
        n_runs = self.run.max(initial=0) + 1
        n_finished = np.bincount(self.run[is_finished], minlength=n_runs)
        n_here = np.bincount(self.run[is_finished & here], minlength=n_runs)
        what, frame = need.what, getattr(self.results, need.frame)
        for name in need.columns if frame is not None else ():
            if name not in frame and f"x_{name}" in frame:
                what += f" (did you mean '{need.frame}.x_{name}'?)"
        return Availability(what, here, ((n_here > 0) | (n_finished == 0))[self.run])

    @cached_property
    def response(self) -> Counts:
        """Position of each row's response, -1 for none."""
        return response_of(self.rows, self.responses)

    @cached_property
    def run(self) -> Counts:
        """A number for the run of each row."""
        return pd.factorize(self.rows["run_id"], use_na_sentinel=False)[0]

    def _in_state(self, state: str) -> Flags:
        return self.rows["state"].eq(state).to_numpy(dtype=bool)

    def with_value(self, column: str) -> Flags:
        """Return rows whose response has a value in this column."""
        return self._by_response(has_value(self.responses, column))

    def _by_response(self, flags: Flags) -> Flags:
        """Return flags of responses as flags of rows."""
        return np.append(flags, False)[self.response]

    def _count(self, frame: pd.DataFrame | None) -> Counts:
        """Count the rows of a frame that each row's response has."""
        if frame is None or not len(frame):
            return np.zeros(len(self.rows), dtype=np.int64)
        place, n = response_of(frame, self.responses), len(self.responses)
        return np.append(np.bincount(place[place >= 0], minlength=n), 0)[self.response]
