"""Queries most worth reading: those that a candidate lost worst, or that a run fails on."""

from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.comparison.text import reading_priority
from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden

COLUMNS = ("query_id", "query", "outcome", "why")
WORTH = 3  # queries, so that each of them is read
ANSWERED = "answered_unanswerable"
NOWHERE = "none"


def worst_changes(cmp: Comparison, n: int = WORTH) -> pd.DataFrame:
    """Return the queries of a comparison to read first; see `reading_priority`.

    Only those that lost something.

    Returns
    -------
    One row per query, at most `n`: `query_id`, `query`, `outcome` of its retrieval, and `why` it is
    worth reading.
    """
    answered = newly_answered(cmp.scores, cmp.baseline, cmp.candidate)
    is_worse = cmp.per_query["outcome"].isin(["regression", "loss"])
    rows = cmp.per_query[(is_worse | is_among(cmp.per_query["query_id"], answered)).to_numpy()]
    chosen = rows.iloc[np.argsort(reading_priority(rows, answered), kind="stable")].head(n)
    why = [_why(row) for row in chosen.to_dict("records")]
    return _texts(chosen[["query_id", "query", "outcome"]].reset_index(drop=True).assign(why=why))


def worst_queries(
    scores: pd.DataFrame, golden: Golden, primary: str | None, n: int = WORTH
) -> pd.DataFrame:
    """Return the queries of one run to read first.

    Queries that should be refused and are answered, then those of the lowest value of the primary
    metric, as far as it is below one half. The columns are those of `worst_changes`.
    """
    rows = scores.reset_index() if "query_id" not in scores else scores.reset_index(drop=True)
    known = golden.queries.set_index("query_id")["query"]
    nothing = np.full(len(rows), np.nan)
    answered = rows[ANSWERED].to_numpy("float64") if ANSWERED in rows else nothing
    values = rows[primary].to_numpy("float64") if primary in rows else nothing
    order = pd.DataFrame(
        {"kind": np.select([answered == 1, values < 0.5], [0, 1], 2), "value": values}
    )
    found = order[order["kind"] < 2].sort_values(["kind", "value"], kind="stable").head(n)
    chosen = rows.iloc[found.index]["query_id"].astype("str")
    why = [
        "answered; should be refused" if kind == 0 else f"{primary} {value:.2f}"
        for kind, value in found.itertuples(index=False)
    ]
    return _texts(
        pd.DataFrame(
            {"query_id": chosen.to_numpy(), "query": known.reindex(chosen).to_numpy(),
             "outcome": "", "why": why}
        )
    )  # fmt: skip


def _texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns are text, so that a reloaded one equals it."""
    return table.reindex(columns=list(COLUMNS)).astype("str")


def newly_answered(scores: pd.DataFrame | None, baseline: str, candidate: str) -> list[str]:
    """Return queries that should be refused, and that only the candidate answers."""
    if scores is None or ANSWERED not in scores:
        return []
    rows = scores[(scores[ANSWERED] == 1).to_numpy()]
    rows = rows if "query_id" in rows else rows.reset_index()
    run = rows["run_id"].astype("str")
    now, then = (rows.loc[run.eq(name).to_numpy(), "query_id"] for name in (candidate, baseline))
    return now[~is_among(now, then)].tolist()


def _why(row: dict[Any, Any]) -> str:
    if row["outcome"] not in ("regression", "loss"):
        return "answered; should be refused"
    before, after = (
        NOWHERE if pd.isna(row[name]) else str(row[name])
        for name in ("rank_baseline", "rank_candidate")
    )
    lost = f"; lost {row['lost']}" if row["lost"] and not pd.isna(row["lost"]) else ""
    return f"first hit at rank {before} → {after}{lost}"
