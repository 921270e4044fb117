"""Queries that a candidate answers and should refuse: the explorer lists them before others."""

import pandas as pd

from ragscore.frames.codes import is_among

ANSWERED = "answered_unanswerable"


def newly_answered(scores: pd.DataFrame | None, baseline: str, candidate: str) -> list[str]:
    """Return queries that should be refused, and that only the candidate answers."""
    if scores is None or ANSWERED not in scores:
        return []
    rows = scores[(scores[ANSWERED] == 1).to_numpy()]
    rows = rows if "query_id" in rows else rows.reset_index()
    run = rows["run_id"].astype("str")
    now, then = (rows.loc[run.eq(name).to_numpy(), "query_id"] for name in (candidate, baseline))
    return now[~is_among(now, then)].tolist()
