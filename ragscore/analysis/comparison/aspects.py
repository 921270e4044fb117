"""What a comparison decides: its primary metrics by aspect, and the answers that flipped.

In: the table of differences, and flips by query. Out: one row per aspect with its verdict, and one
row per metric whose answers flipped, with the test of as many flips each way.
"""

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.deltas import FEW_MOVES
from ragscore.scoring.intervals import Groups
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations
from ragscore.scoring.primary import aspects_of
from ragscore.stats import ALPHA, UNSURE, Verdict, joint_verdict, mcnemar_p, paired_p

ASPECT_COLUMNS = ("aspect", "metrics", "verdict", "sentence")
FLIP_COLUMNS = {
    "metric": "str", "n_regressions": "int64", "n_improvements": "int64", "p": "float64",
    "p_exact": "float64", "p_adjusted": "float64", "verdict": "str",
}  # fmt: skip


def judge_aspects(
    deltas: pd.DataFrame, primary: tuple[str, ...], margins: dict[str, float]
) -> pd.DataFrame:
    """One row per aspect: its `metrics` (joined by a comma), `verdict` and `sentence`.

    Metrics of one aspect are judged jointly; any other verdict is the metric's own.
    """
    rows = {row["metric"]: row for row in deltas.to_dict("records")}
    found = []
    for aspect, names in aspects_of(primary).items():
        told = [Verdict(rows[name]["verdict"], rows[name]["sentence"]) for name in names]
        if len(names) > 1:
            parts = {
                name: (rows[name]["verdict"], _gain(name, float(rows[name]["delta"])))
                for name in names
                if rows[name]["n"] > 0
            }
            told = [joint_verdict(parts, margins)]
        found.append((aspect, ", ".join(names), told[0].word, told[0].sentence))
    return pd.DataFrame(found, columns=list(ASPECT_COLUMNS)).astype("str")


def _gain(name: str, delta: float) -> float:
    """Return the change of a metric of refusals, more being better."""
    return -delta if NOTHING_DECLARED.describe(name).better == "lower" else delta


def flip_moves(flips: pd.DataFrame, queries: pd.Index) -> pd.DataFrame:
    """One row per query, one column per metric that flipped: 1 to good, −1 to bad, else 0."""
    names = list(dict.fromkeys(flips["metric"].astype("str")))
    place = queries.get_indexer(pd.Index(flips["query_id"]))
    column = pd.Index(names, dtype="str").get_indexer(pd.Index(flips["metric"].astype("str")))
    values, is_there = np.zeros((len(queries), len(names))), place >= 0
    sign = np.where(flips["kind"] == "regression", -1.0, 1.0)
    values[place[is_there], column[is_there]] = sign[is_there]
    return pd.DataFrame(values, index=queries, columns=names)


def of_points(moves: pd.DataFrame, declared: Declarations) -> pd.DataFrame:
    """Return the columns of metrics that aren't 0/1: flips of 0/1 metrics are all their changes."""
    return moves[[name for name in moves if declared.describe(str(name)).kind != "binary"]]


def count_flips(
    moves: pd.DataFrame, p_adjusted: dict[str, float], groups: Groups | None
) -> pd.DataFrame:
    """One row per metric that flipped: how many answers went each way, and the test of it.

    `p` of McNemar's mid-p (sign flips of groups), `p_exact` beside it below 25 flips, `p_adjusted`
    for all verdicts of the comparison, `verdict`: better, worse or can't tell.

    Parameters
    ----------
    p_adjusted
        Metric -> its corrected p.
    """
    values = moves.to_numpy("float64")
    worse, better = (values < 0).sum(axis=0), (values > 0).sum(axis=0)
    p = paired_p(values, "binary", groups=groups) if values.shape[1] else np.zeros(0)
    is_few = (worse + better < FEW_MOVES) & (groups is None)
    adjusted = np.array([p_adjusted[str(name)] for name in moves], dtype="float64")
    is_sure = (adjusted < ALPHA) & (p < ALPHA)
    words = np.where(is_sure, np.where(better > worse, "better", "worse"), UNSURE)
    table = pd.DataFrame(
        {
            "metric": list(moves.columns),
            "n_regressions": worse,
            "n_improvements": better,
            "p": p,
            "p_exact": np.where(is_few, mcnemar_p(better, worse, is_exact=True), np.nan),
            "p_adjusted": adjusted,
            "verdict": words,
        }
    )
    return table.astype(FLIP_COLUMNS)
