"""Metric values that another tool stored: as scores, or checked against recomputed values.

In: `Results` with a frame of reported values; for the check a golden set as well. Out: a frame of
scores, or one row per reported value beside the recomputed one.
"""

import re
from collections.abc import Iterable

import pandas as pd

from ragscore.frames.data import DataError, Results, categorical
from ragscore.frames.errors import name_list, nearest
from ragscore.frames.render import shown_number
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.metrics.declaration import spelling
from ragscore.scoring.provenance import judge_fingerprint
from ragscore.scoring.summary import STATISTICS
from ragscore.scoring.targets import LEVELS

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
FINGERPRINT = "judge_fingerprint"
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


def reported_scores(results: Results) -> pd.DataFrame:
    """Return the reported values of single queries as a frame of scores.

    It has the form of `rs.score`.

    Returns
    -------
    One row per run and query (index `query_id`): `run_id`, `state` (scored), `level` (NA);
    `judge_fingerprint`, what each report says of its judges ("" if nothing), if any says it; then a
    float64 column per metric under our label where it has one, NaN where nothing is reported.

    Raises
    ------
    DataError
        There are no reported values; two metrics of a report are the same one here.

    Examples
    --------
    >>> from dataclasses import replace
    >>> values = results.responses[["run_id", "query_id"]].assign(metric="mrr", value=1.0)
    >>> replace(results, reported=values).reported_scores()
    """
    reported = known_reports(results, None)
    reported = reported[reported["query_id"].ne("")]
    names = {metric: label_of(metric) or metric for metric in reported["metric"].unique()}
    if len(set(names.values())) < len(names):
        raise DataError(
            f"several names for one metric among {', '.join(names)}",
            field="results.reported",
            allowed="each metric once",
        )
    if reported.duplicated(["run_id", "query_id", "metric"]).any():
        raise DataError(
            "a query's metric has several values",
            field="results.reported",
            allowed="one row per run, query and metric",
        )
    keys = ["run_id", "query_id"]
    wide = reported.pivot(index=keys, columns="metric", values="value")
    wide = wide.reindex(pd.MultiIndex.from_frame(reported[keys].drop_duplicates()))
    wide = wide[list(names)].rename(columns=names).rename_axis(columns=None).reset_index("run_id")
    wide.insert(1, "state", "scored")
    wide.insert(2, "level", pd.Series(categorical([-1] * len(wide), LEVELS), index=wide.index))
    if (judges := judge_fingerprint(results)).ne("").any():
        wide.insert(3, FINGERPRINT, wide["run_id"].astype("str").map(judges).astype("str"))
    runs = results.runs["run_id"].astype("str").tolist()
    return wide.astype({"run_id": pd.CategoricalDtype(runs)})


def reported_summary(results: Results) -> pd.DataFrame:
    """Return the aggregates that runs report, side by side with `ev.summary`.

    Nothing is computed: a mean is over the queries that the other tool counted, whatever they were.

    Returns
    -------
    One row per run and metric: `run_id`; `metric`, ours where the definition is the same, else the
    other tool's; `reported_as`, what that tool calls it; then the statistics of `ev.summary`
    (`mean`, `low`, `high`, `n`, `p50`, `p95`, `sum`, ...), NaN where nothing is reported. Empty
    where no run reports an aggregate.

    Raises
    ------
    DataError
        A run reports one statistic of a metric twice, with different values.

    Examples
    --------
    >>> results.reported_summary()[["run_id", "metric", "mean", "p50"]]
    """
    keys = ["run_id", "metric"]
    rows = aggregates(results)
    rows = rows[rows["statistic"].isin(STATISTICS)].drop_duplicates([*keys, "statistic", "value"])
    is_twice = rows.duplicated([*keys, "statistic"], keep=False)
    if is_twice.any():
        first = rows[is_twice].iloc[0]
        raise DataError(
            f"{first['run_id']} reports several values of {first['metric']} ({first['statistic']})",
            field="results.reported",
            allowed="each statistic of a metric once",
        )
    index = pd.MultiIndex.from_frame(rows[keys].drop_duplicates())
    wide = rows.pivot(index=keys, columns="statistic", values="value").reindex(index)
    wide = wide.reindex(columns=list(STATISTICS)).astype("float64").rename_axis(columns=None)
    own_names = rows.groupby(keys, sort=False)["reported_as"].agg(lambda names: ", ".join(names))
    wide.insert(0, "reported_as", own_names.reindex(index).astype("str"))
    counts = {name: "Int64" for name in STATISTICS if name == "n" or name.startswith("n_")}
    return wide.astype(counts).reset_index().astype(dict.fromkeys(keys, "str"))


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


SHOWN = 8  # metrics in the printed table of what runs report


def shown_reported(reported: Results, first: Iterable[str] = ()) -> pd.DataFrame:
    """Return runs × reported metrics as text: means, and medians of times and costs.

    Those named `first` come first, then the headline metrics.
    """
    rows = reported_summary(reported)
    known = rows["metric"].unique().tolist()
    order = [*first, *TABLE.headline(known), *known]
    metrics = [name for name in dict.fromkeys(order) if name in known][:SHOWN]
    by_metric = rows.set_index(["metric", "run_id"])
    runs = reported.runs["run_id"].astype("str").tolist()
    columns = {"run": runs}
    for name in metrics:
        is_timed = TABLE.describe(name).is_timed
        values = by_metric["p50" if is_timed else "mean"].loc[name].reindex(runs)
        columns[f"{name} (p50)" if is_timed else name] = values.map(shown_number).tolist()
    return pd.DataFrame(columns)


def split_reported(results: Results) -> tuple[Results, Results | None]:
    """Return the runs that have rows, and those of which only aggregates are known (or None)."""
    if results.reported is None:
        return results, None
    with_rows = set(results.responses["run_id"].unique())
    run_ids = results.runs["run_id"].astype("str").tolist()
    told = set(results.reported.loc[results.reported["query_id"].eq(""), "run_id"].astype("str"))
    alone = [run_id for run_id in run_ids if run_id in told and run_id not in with_rows]
    if not alone:
        return results, None
    return results.select([one for one in run_ids if one not in alone]), results.select(alone)


def refuse_without_rows(names: Iterable[str], reported: Results | None) -> None:
    """Refuse runs of which only aggregates are known, where rows are needed."""
    known = set() if reported is None else set(reported.runs["run_id"].astype("str"))
    for name in names:
        if reported is None or name not in known:
            continue
        files = reported.problems
        own = files.loc[files.get("run_id", files["file"]).astype("str").eq(name), "file"]
        raise DataError(
            f"of {name} only reported aggregates are known, no rows",
            file=own.iloc[0] if len(own) else None,
            field="run",
            allowed="a run with rows; trend, leaderboard and report show this one"
            + (", and that file would bring its rows" if len(own) else ""),
        )


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
