"""Bridges join a trend where the provenance changes: new labels, another chunker, other settings.

A bridge is an earlier run that also has values by the newer provenance. The difference between its
two means is the part of the step that labels or settings cause; the rest of the step is the
system's. In: a history and its segments. Out: for each segment at most one bridge.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.trend.history import History, Segment
from ragscore.frames.data import Golden, Results
from ragscore.frames.errors import unsaid
from ragscore.scoring.grading import level_rule_name
from ragscore.scoring.score import score

# Reasons why a bridge holds, as the column `bridge_reason` has them.
MEASURED_AS_BEFORE = "measured as before"
SAME_RESULTS = "the same results, measured by both"
SCORED_AGAIN = "scored again by the newer provenance"
OUTLAST_CUTTING = {
    "doc": "compared by document",
    "span": "compared by span",
    "anchor": "compared by section",
    "predicate": "compared by predicate",
}
"""Match level whose targets outlast another cutting of passages -> reason of the bridge."""


@dataclass(frozen=True)
class Bridge:
    """Run `run_id` of an earlier segment, with its values by the provenance of a later one.

    Attributes
    ----------
    how
        The reason why its values hold there, in words.
    scores
        Its values by the later provenance: run_id, query_id, state, level and the metric.
    comparable
        True if the change of provenance can't have changed any value of the earlier segment: the
        scores are the run's own.
    """

    run_id: str
    how: str
    scores: pd.DataFrame
    comparable: bool


def find_bridges(
    history: History, segments: list[Segment], goldens: list[Golden]
) -> dict[int, Bridge]:
    """Return the bridge of each segment that has one, by the segment's number.

    It leads from an earlier segment with the same provenance, or else from the segment just before,
    and from a run that has rows.
    """
    bridges = {}
    for before, segment in pairwise(segments):
        bridge = (
            _by_same_provenance(history, segments, segment)
            or _by_level(history, before, segment)
            or _by_same_results(history, before, segment)
        )
        if bridge is None and (scored := history.scored(before.run_ids)):
            bridge = scored_again(history, scored[-1], segment, goldens)
        if bridge is not None:
            bridges[segment.number] = bridge
    return bridges


def _by_same_provenance(
    history: History, segments: list[Segment], segment: Segment
) -> Bridge | None:
    """Bridge from the last earlier segment that was measured in the same way."""
    earlier = [
        run_id
        for other in segments[: segment.number - 1]
        if other.same_as == segment.same_as
        for run_id in history.scored(other.run_ids)
    ]
    if not earlier:
        return None
    run_id = earlier[-1]
    return Bridge(run_id, MEASURED_AS_BEFORE, history.scores_of([run_id]), True)


def _by_level(history: History, before: Segment, segment: Segment) -> Bridge | None:
    """Bridge a change of the chunker alone, at a level whose targets aren't passages."""
    how = OUTLAST_CUTTING.get(segment.provenance.get("level", ""))
    scored = history.scored(before.run_ids)
    if not how or segment.changed != ("chunker",) or not scored:
        return None
    run_id = scored[-1]
    return Bridge(run_id, how, history.scores_of([run_id]), True)


def _by_same_results(history: History, before: Segment, segment: Segment) -> Bridge | None:
    """Bridge by two runs with the same hits and answers, one in each segment."""
    if history.load is None:
        return None
    configs = history.runs["config"].astype("str")
    for a in reversed(history.scored(before.run_ids)):  # the nearest to the break first
        for b in history.scored(segment.run_ids):
            if configs[a] == configs[b] and _same_results(history.load([a, b]), a, b):
                scores = history.scores_of([b]).assign(run_id=a)
                return Bridge(a, SAME_RESULTS, scores, False)
    return None


def _same_results(results: Results, a: str, b: str) -> bool:
    """Return True if hits and answers of two runs are equal, whatever the order of rows."""
    for frame, names in (
        (results.hits, ("query_id", "rank", "chunk_id", "doc_id")),
        (results.responses, ("query_id", "answer", "refused", "error")),
    ):
        columns = [name for name in names if name in frame]
        order = [name for name in ("query_id", "rank") if name in columns]
        first, second = (
            frame.loc[frame["run_id"] == run_id, columns]
            .sort_values(order, ignore_index=True)
            .astype("str")
            .fillna("")
            for run_id in (a, b)
        )
        if not first.equals(second):
            return False
    return True


def scored_again(
    history: History, run_id: str, segment: Segment, goldens: list[Golden]
) -> Bridge | None:
    """Bridge by scoring a run's stored results in the way of a later segment.

    None if the segment's labels are not among the golden sets, or if its first run, scored again in
    this way, doesn't come out as it is stored.
    """
    labels, scored = segment.provenance.get("labels"), history.scored(segment.run_ids)
    if not scored or not history.scored([run_id]):
        return None
    check = scored[0]
    golden = next((golden for golden in goldens if golden.golden_hash == labels), None)
    scoring = history.scorings.get(check, {})
    if golden is None or history.load is None:
        return None
    if scoring.get("rule", "") not in ("", level_rule_name(str(scoring.get("level")))):
        return None  # a rule of the caller's own, which isn't stored
    stored = history.scores_of([check])
    again = _score_by(history, check, golden, scoring).set_index("query_id")[history.metric]
    if not np.allclose(
        again.reindex(stored["query_id"]).to_numpy("float64"),
        stored[history.metric].to_numpy("float64"),
        equal_nan=True,
    ):
        return None
    return Bridge(run_id, SCORED_AGAIN, _score_by(history, run_id, golden, scoring), False)


def _score_by(
    history: History, run_id: str, golden: Golden, scoring: dict[str, Any]
) -> pd.DataFrame:
    """Scores of a run's stored results, with the level, policies and profile of a scoring."""
    assert history.load is not None
    policies: dict[str, Any] = scoring.get("policies", {}) | {
        "match": str(scoring.get("level") or "auto")
    }
    metric, profile = history.metric, scoring.get("profile")
    with unsaid():  # the trend counts missing values
        scores = score(history.load([run_id]), golden, [metric], profile=profile, **policies)
    columns = ["run_id", "query_id", "state", "level", metric]
    return scores.reset_index()[columns].astype({"run_id": "str"})
