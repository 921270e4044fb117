"""Which questions moved between two runs.

0/1 answer metrics and judges' points that flipped, and the largest moves of the others.

In: the scores of two runs. Out: one row per metric and question, for a comparison to show beside
its differences.
"""

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.score_diff import diff_scores, flips
from ragscore.scoring.metrics import describe, parse_label
from ragscore.scoring.summary import metric_columns

LARGEST = 3  # moves of each direction that are kept


def answer_flips(scores: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """Questions at which a 0/1 answer metric, or a judge's points, went from good to bad or back.

    Those of hits are the outcomes of a comparison.

    Returns
    -------
    One row per metric and question: `metric`, `query_id`, values `a` and `b`, `kind` (regression,
    improvement); see `rs.flips` for the limits.
    """
    chosen = [name for name in metric_columns(scores) if not _is_ranking(name)]
    found = flips(scores[["run_id", *chosen]], a, b)
    return found.rename(columns={"baseline": "a", "candidate": "b"})


def largest_moves(scores: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """The three questions that lost most and the three that gained most, for every metric of more than two values.

    Returns
    -------
    One row per metric and question, the largest |delta| of a metric first: `metric`, `query_id`,
    values `a` and `b`, `delta` = b − a, `kind` (regression, improvement, as the metric counts
    better). A 0/1 metric has no largest move: all are 1.
    """
    chosen = [name for name in metric_columns(scores) if describe(name).kind != "binary"]
    moved = diff_scores(scores[["run_id", *chosen]], a, b).movers.rename(
        columns={"baseline": "a", "candidate": "b"}
    )
    moved = moved[(moved["delta"].abs() > 1e-9).to_numpy()]
    lower = (
        moved["metric"]
        .map({name: describe(name).better == "lower" for name in chosen})
        .to_numpy(dtype=bool)
    )
    moved = moved.assign(
        kind=pd.array(
            np.where((moved["delta"] > 0) == lower, "regression", "improvement"), dtype="str"
        )
    )
    return moved[(moved.groupby(["metric", "kind"]).cumcount() < LARGEST).to_numpy()].reset_index(
        drop=True
    )


def _is_ranking(name: str) -> bool:
    return describe(name).formula != "a column of your own" and parse_label(name).is_ranking
