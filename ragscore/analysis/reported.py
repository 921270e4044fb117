"""Metric values that another tool stored: what they are called here, and which are of whole runs.

In: `Results` with a frame of reported values. Out: our labels; the means of runs, with and without
rows.
"""

import re

import pandas as pd

from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import name_list, nearest, warn
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.metrics.declaration import spelling

REPORTED_NAMES = {
    "recall": "recall", "hit": "hit", "hits": "hit", "hit_rate": "hit", "success": "hit",
    "precision": "precision", "P": "precision", "map": "map", "map_cut": "map",
    "mrr": "mrr", "recip_rank": "mrr", "ndcg": "ndcg", "ndcg_burges": "ndcg",
    "ndcg_cut": "ndcg_linear", "R": "recall", "AP": "map", "RR": "mrr",
    "Success": "hit", "Judged": "judged", "equals": "exact_match", "exact": "exact_match",
    "em": "exact_match", "rougeL": "rouge_l", "rougeLsum": "rouge_l",
    "rouge_score(mode=fmeasure)": "rouge_l", "claim_recall": "context_recall",
}  # fmt: skip
"""A metric's name in a report, without its cut-off -> its name here.

Letter case and separators don't matter.
"""
_BY_SPELLING = {spelling(theirs): ours for theirs, ours in REPORTED_NAMES.items()}
_NAME = re.compile(r"(?P<name>[A-Za-z_.]+?)(?:(?:@|_at_|_)(?P<k>\d+))?|(?P<whole>.+)")
FIRST_RANK = "rank_first_match"
"""What seed-mcp's records call the rank of a query's first right hit; without a hit it is null."""


def label_of(metric: str) -> str | None:
    """Return our label for a reported metric; None if it is none of ours.

    `hit_rate@5` is `hit@5`, `P_10` is `precision@10`.
    """
    plain = re.sub(r"[\s-]+", "_", metric.strip()).lower()
    for name in (_renamed(metric), _renamed(plain), metric, plain):
        try:
            return TABLE.parse(name).text
        except DataError:
            continue
    return None


def _renamed(metric: str) -> str:
    """Return the name with the part before its cut-off as we call it."""
    parts = _NAME.fullmatch(metric)
    if parts is None or parts["whole"]:
        return _BY_SPELLING.get(spelling(metric), metric)
    cutoff = f"@{parts['k']}" if parts["k"] else ""
    return _BY_SPELLING.get(spelling(parts["name"]), parts["name"]) + cutoff


def aggregates(results: Results) -> pd.DataFrame:
    """Return the reported values of whole runs: run_id, metric, reported_as, statistic, value."""
    columns = ["run_id", "metric", "reported_as", "statistic", "value"]
    if results.reported is None:
        return pd.DataFrame({name: pd.Series(dtype="str") for name in columns})
    rows = results.reported[results.reported["query_id"].eq("").to_numpy()]
    unknown = pd.Series(pd.NA, index=rows.index, dtype="str")
    named = {metric: label_of(metric) or metric for metric in rows["metric"].unique()}
    labels = rows.get("label", unknown)
    return rows.assign(
        run_id=rows["run_id"].astype("str"),
        reported_as=rows["metric"],
        metric=labels.where(labels.notna(), rows["metric"].map(named)).astype("str"),
        statistic=rows.get("statistic", unknown).fillna("mean"),
    )[columns].reset_index(drop=True)


def split_reported(results: Results) -> tuple[Results, list[str]]:
    """Return the runs that have rows, and the names of those that report means alone."""
    reporting = set() if results.reported is None else set(aggregates(results)["run_id"])
    asked = set(results.responses["run_id"].unique())
    run_ids = results.runs["run_id"].astype("str").tolist()
    alone = [one for one in run_ids if one in reporting and one not in asked]
    return results.select([one for one in run_ids if one not in alone]) if alone else results, alone


def with_rows(results: Results) -> Results:
    """Return results without the runs that report means alone; a warning names them."""
    kept, alone = split_reported(results)
    way = "a RunStore keeps their means: store.save(results), then store.summary() and store.trend"
    if alone and not len(kept.runs):
        raise DataError("no run has rows, only reported means", field="results", allowed=way)
    if alone:
        warn(f"{name_list(alone)} left out: no rows, only reported means; {way}")
    return kept


def known_reports(results: Results, reported: pd.DataFrame | None) -> pd.DataFrame:
    """Return the reported values, with the column `statistic` in any case."""
    rows = results.reported if reported is None else reported
    if rows is None or not len(rows):
        raise DataError(
            "no reported values", field="reported", allowed="results that hold some, or reported="
        )
    statistic = rows.get("statistic", pd.Series(pd.NA, index=rows.index, dtype="str"))
    is_mean = rows["query_id"].eq("") & statistic.isna()
    rows = rows.assign(
        run_id=rows["run_id"].astype("str"), statistic=statistic.mask(is_mean, "mean")
    )
    names = results.runs["run_id"].astype("str").tolist()
    if unknown := sorted(set(rows["run_id"]) - set(names)):
        raise DataError(
            f"values of {name_list(unknown)}",
            field="reported.run_id",
            allowed=nearest(unknown[0], names, "runs of the results:"),
        )
    return rows
