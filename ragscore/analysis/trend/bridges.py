"""Bridges over a change of the ruler.

A run that both rulers measured says how much of a step is the ruler's.

In: a history and its segments. Out: for each segment the run that joins it to an earlier one, with
that run's values by the segment's ruler.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.trend.history import OUTLAST_CUTTING, History, Segment
from ragscore.frames.data import Golden, Results
from ragscore.scoring.grading import level_rule_name
from ragscore.scoring.score import score

SAME_RULER, SAME_RESULTS, SCORED_AGAIN = (
    "measured as before",
    "the same results, measured by both",
    "scored again by the newer ruler",
)
OF_ANSWERS = ("answer", "refused", "error")


@dataclass(frozen=True)
class Bridge:
    """Run `run_id` of an earlier segment, measured by the ruler of a later one.

    Attributes
    ----------
    how
        Why its values hold there, in words.
    scores
        Its values by the later ruler: run_id, query_id, state, level and the metric.
    comparable
        Whether the ruler can't have moved any value of the earlier segment: the run's values are
        the ones it had.
    """

    run_id: str
    how: str
    scores: pd.DataFrame
    comparable: bool


def bridges(found: History, parted: list[Segment], goldens: list[Golden]) -> dict[int, Bridge]:
    """The bridge of each segment (by its number) that has one.

    From the segment its ruler measured before, or from the one just before it.
    """
    out = {}
    for place, segment in enumerate(parted[1:]):
        before = parted[place]
        bridge = (
            _by_same_ruler(found, segment, parted)
            or _by_outlasting(found, before, segment)
            or _by_same_results(found, before, segment)
        )
        bridge = bridge or scored_again(found, before.run_ids[-1], segment, goldens)
        if bridge is not None:
            out[segment.number] = bridge
    return out


def _by_same_ruler(found: History, segment: Segment, parted: list[Segment]) -> Bridge | None:
    earlier = [one for one in parted if one.like == segment.like and one.number < segment.number]
    return _unmoved(found, earlier[-1].run_ids[-1], SAME_RULER) if earlier else None


def _by_outlasting(found: History, before: Segment, segment: Segment) -> Bridge | None:
    """Where only the passages are cut anew, targets that aren't passages are what they were."""
    how = OUTLAST_CUTTING.get(segment.parts.get("level", ""))
    return (
        _unmoved(found, before.run_ids[-1], f"compared {how}")
        if how and segment.changed == ("chunker",)
        else None
    )


def _unmoved(found: History, run_id: str, how: str) -> Bridge:
    return Bridge(run_id, how, found.of([run_id]), True)


def _by_same_results(found: History, before: Segment, segment: Segment) -> Bridge | None:
    """A run of either segment whose hits and answers are the same, nearest to the break."""
    if found.load is None:
        return None
    configs = found.runs["config"].astype("str")
    for a in reversed(before.run_ids):
        for b in segment.run_ids:
            if configs[a] == configs[b] and _same_results(found.load([a, b]), a, b):
                return Bridge(a, SAME_RESULTS, found.of([b]).assign(run_id=a), False)
    return None


def _same_results(results: Results, a: str, b: str) -> bool:
    hits = [name for name in ("query_id", "rank", "chunk_id", "doc_id") if name in results.hits]
    answers = ["query_id", *(name for name in OF_ANSWERS if name in results.responses)]
    return _equal(results.hits, hits, a, b) and _equal(results.responses, answers, a, b)


def _equal(frame: pd.DataFrame, columns: list[str], a: str, b: str) -> bool:
    """Whether the rows of two runs are equal, whatever their order."""
    order = [name for name in ("query_id", "rank") if name in columns]
    first, second = (
        frame.loc[frame["run_id"] == run_id, columns]
        .sort_values(order, ignore_index=True)
        .astype("str")
        .fillna("")
        for run_id in (a, b)
    )
    return first.equals(second)


def scored_again(
    found: History, run_id: str, segment: Segment, goldens: list[Golden]
) -> Bridge | None:
    """A run's stored results, scored by the ruler of a later segment.

    Only where the labels are at hand and the segment's first run, scored again in the same way,
    comes out as it is stored.
    """
    golden = next((one for one in goldens if one.golden_hash == segment.parts.get("labels")), None)
    check = segment.run_ids[0]
    scoring = found.scorings.get(check, {})
    if (
        golden is None
        or found.load is None
        or scoring.get("rule", "") not in ("", level_rule_name(str(scoring.get("level"))))
    ):
        return None
    made, stored = _rescored(found, check, golden, scoring), found.of([check])
    if not np.allclose(
        _in_order(made, stored, found.metric),
        stored[found.metric].to_numpy("float64"),
        equal_nan=True,
    ):
        return None
    return Bridge(run_id, SCORED_AGAIN, _rescored(found, run_id, golden, scoring), False)


def _rescored(found: History, run_id: str, golden: Golden, scoring: dict[str, Any]) -> pd.DataFrame:
    policies: dict[str, Any] = {
        name: str(value) for name, value in scoring.get("policies", {}).items()
    } | {"match": str(scoring.get("level") or "auto")}
    assert found.load is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what is missing is counted in the trend
        scores = score(
            found.load([run_id]), golden, [found.metric], profile=scoring.get("profile"), **policies
        )
    return scores.reset_index()[["run_id", "query_id", "state", "level", found.metric]].astype(
        {"run_id": "str"}
    )


def _in_order(made: pd.DataFrame, stored: pd.DataFrame, metric: str) -> Any:
    return made.set_index("query_id")[metric].reindex(stored["query_id"]).to_numpy("float64")
