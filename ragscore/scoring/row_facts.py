"""What is known of each row of a scores frame: failed, missing, refused, judged, on how many hits.

Facts, no judgement of them.

In: the rows, and where they are given the results behind them. Out: `Facts`, from which `outcomes`
tells its states.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import Results
from ragscore.scoring.answers import response_of
from ragscore.scoring.judgments import FAILED

Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

LONGEST_ERROR = 60  # characters of an error that a reason quotes
RECORDED = {
    "latency_ms": ("elapsed_ms", "time"), "latency_ms_all": ("elapsed_ms", "time"),
    "cost_usd": ("cost_usd", "cost"), "scope_miss": ("scope", "choice of folders"),
    **dict.fromkeys(("refusal_correct", "hallucinated", "false_refusal"), ("refused", "refusal")),
}  # fmt: skip
"""Metric -> the column of the responses that it is read from, and what that is called."""


@dataclass(frozen=True)
class Recorded:
    """What a metric is read from: whether each row has it, and whether its run has it anywhere."""

    what: str
    here: Flags
    in_run: Flags


@dataclass(frozen=True)
class Facts:
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
    def has_answer(self) -> "Recorded | None":
        """Whether the row's response holds an answer."""
        return self._recorded("answer", self._of_responses(self._has("answer")))

    def has_judgment(self, criterion: str) -> "Recorded | None":
        """Whether a judge was asked."""
        return self._recorded("judgment of it", self.judged(criterion)[0] > 0)

    def has_column(self, metric: str) -> "Recorded | None":
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

    def _recorded(self, what: str, here: Flags) -> "Recorded | None":
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
        return Recorded(what, here, ((n_here > 0) | (n_finished == 0))[self.run])

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
