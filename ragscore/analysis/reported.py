"""Metric values that another tool stored: as scores, or checked against recomputed values.

In: `Results` with a frame of reported values; for the check a golden set as well. Out: a frame of
scores, or one row per reported value beside the recomputed one.
"""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.config import flat
from ragscore.frames.data import DataError, Golden, Results, categorical, runs_without_hits
from ragscore.frames.errors import name_list, nearest
from ragscore.frames.render import shown_number
from ragscore.scoring.harness import aggregate, round_half_away
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.metrics.declaration import spelling
from ragscore.scoring.policies import Policies
from ragscore.scoring.primary import headline_of
from ragscore.scoring.provenance import judge_fingerprint
from ragscore.scoring.readings import HARNESSES, Harness, Reading, find_reading, k_of_runs
from ragscore.scoring.score import score
from ragscore.scoring.summary import STATISTICS, summarize
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
CHECKED = ("n", "mean", "sum", "std", "min", "max", "p50", "p95")  # statistics that are recomputed


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
    reported = _reported(results, None)
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
    order = [*first, *headline_of(known), *known]
    metrics = [name for name in dict.fromkeys(order) if name in known][:SHOWN]
    by_metric = rows.set_index(["metric", "run_id"])
    runs = reported.runs["run_id"].astype("str").tolist()
    columns = {"run": runs}
    for name in metrics:
        is_timed = TABLE.describe(name).kind in BY_QUANTILES
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


def check_reported(
    results: Results,
    golden: Golden,
    reported: pd.DataFrame | None = None,
    *,
    profile: str | Reading | None = None,
    policies: Policies | None = None,
    **fields: Any,
) -> pd.DataFrame:
    """Compare reported values with recomputed ones; see `rs.extras.check_reported`."""
    rows = _reported(results, reported).rename(columns={"value": "reported"})
    rows = rows.reset_index(drop=True)
    chosen = find_reading(profile)
    harness = HARNESSES.get(chosen.name)
    with_rows, without = split_reported(results)
    ks = k_of_runs(results.runs, harness.default_k if harness else 5)
    of_format = rows["label"].notna() if "label" in rows else False
    rows = rows.assign(label=_labels(rows, ks, harness))
    is_rank = rows["query_id"].ne("") & rows["metric"].eq(FIRST_RANK)
    asked = rows["label"].mask(is_rank, "mrr")
    labels = asked.dropna().unique().tolist()
    found, stated = np.full(len(rows), np.nan), rows["reported"].to_numpy("float64")
    if labels and len(with_rows.runs):
        scores = score(with_rows, golden, labels, profile=chosen, policies=policies, **fields)
        keys = rows.assign(label=asked)[["run_id", "query_id", "label", "statistic"]].fillna("")
        known = _recomputed(scores, labels).reindex(pd.MultiIndex.from_frame(keys))
        found = known.to_numpy("float64")
    if harness and len(with_rows.runs):
        contents = aggregate(with_rows, golden, chosen)
        means = {
            (run, name): value for run in contents for name, value in flat(contents[run]).items()
        }
        names = {name for _, name in means}
        # what the harness itself aggregates is recomputed, and rounded, as it does that
        is_of_run = rows["query_id"].eq("") & rows["metric"].isin(names)
        is_of_run &= rows["statistic"].eq("mean") | of_format  # n beside a mean is no aggregate
        of_run = [means.get(key) for key in zip(rows["run_id"], rows["metric"], strict=True)]
        found = np.where(is_of_run, np.array(of_run, dtype="float64"), found)
        rounded = [round_half_away(value, harness.decimals) for value in stated.tolist()]
        stated = np.where(is_of_run, rounded, stated)
    with np.errstate(divide="ignore", invalid="ignore"):  # a rank of no hit is infinite
        found = np.where(is_rank, np.round(1 / found), found)
        stated = np.where(is_rank & np.isnan(stated), np.inf, stated)
        difference = np.where(is_rank & (found == stated), 0.0, found - stated)
    # what only reports single queries holds no hits: rankings of nothing would all be 0
    told = set(rows.loc[rows["query_id"].ne(""), "run_id"]) if reported is None else set()
    bare = [run_id for run_id in runs_without_hits(with_rows) if run_id in told]
    is_ranking = asked.map({one: TABLE.parse(one).is_ranking for one in labels}).eq(True)
    is_bare = rows["run_id"].isin(bare) & is_ranking
    rows = rows.assign(
        recomputed=pd.Series(found).mask(is_bare | np.isinf(found)),
        difference=pd.Series(difference).mask(is_bare),
    )
    alone = [] if without is None else without.runs["run_id"].astype("str").tolist()
    notes = _notes(rows).mask(is_bare, "the run has no hits to recompute it from").mask(is_rank)
    notes = notes.mask(rows["run_id"].isin(alone), "the run has no rows to recompute it from")
    columns = ["run_id", "query_id", "statistic", "metric", "label", "reported", "recomputed"]
    return rows[[*columns, "difference"]].assign(note=notes)


def _notes(rows: pd.DataFrame) -> pd.Series:
    """Return why a value was not recomputed."""
    by_label = {
        label: f"does not apply: {TABLE.describe(label).nan_when}"
        for label in rows["label"].dropna().unique()
    }
    by_metric = {
        metric: f"no cut-off given, as in {name}@5" if f"{name}@k" in TABLE else "no metric of ours"
        for metric in rows["metric"].unique()
        for name in [REPORTED_NAMES.get(metric, metric)]
    }
    is_checked = rows["statistic"].isna() | rows["statistic"].isin(CHECKED)
    notes = rows["label"].map(by_label).where(is_checked, "this statistic is not recomputed")
    notes = notes.where(rows["label"].notna(), rows["metric"].map(by_metric))
    notes = notes.mask(rows["reported"].isna(), "no value is reported")
    return notes.where(rows["recomputed"].isna() | rows["reported"].isna()).astype("str")


def _labels(rows: pd.DataFrame, ks: dict[str, int | None], harness: Harness | None) -> pd.Series:
    """Return our label for each reported value.

    A harness's name is taken at its run's own k; else the file's format says it, else the name.
    """
    of_format = rows["label"] if "label" in rows else pd.Series(pd.NA, rows.index, dtype="str")
    told = list(zip(rows["run_id"], rows["metric"], of_format, strict=True))
    labels = {
        (run_id, metric, label): _harness_label(harness, metric, ks[run_id])
        or (label_of(metric) if pd.isna(label) else label)
        for run_id, metric, label in dict.fromkeys(told)
    }
    return pd.Series([labels[one] for one in told], index=rows.index, dtype="str")


def _harness_label(harness: Harness | None, metric: str, k: int | None) -> str | None:
    """Return our label for what a harness's aggregate calls `metric`.

    An aggregate may call the mean `metric_avg` or `metric_rate`.
    """
    keys = harness.keys if harness else {}
    names = (metric, f"{metric}_avg", f"{metric}_rate")
    text = next((keys[name] for name in names if name in keys), "(")
    return None if harness is None or "{k}" in text or "(" in text else harness.at(text, k)


def _reported(results: Results, reported: pd.DataFrame | None) -> pd.DataFrame:
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


def _recomputed(scores: pd.DataFrame, labels: list[str]) -> pd.Series:
    """Return values of queries and statistics of runs.

    Indexed by run, query ("" for a statistic), label and statistic ("" for a query).
    """
    keys = ["run_id", "query_id", "label", "statistic"]
    of_queries = scores.reset_index().melt(
        id_vars=["run_id", "query_id"], value_vars=labels, var_name="label"
    )
    of_runs = summarize(scores, metrics=labels).melt(
        id_vars=["run_id", "metric"], value_vars=list(CHECKED), var_name="statistic"
    )
    of_runs = of_runs.rename(columns={"metric": "label"})
    parts = [of_queries.assign(statistic=""), of_runs.assign(query_id="")]
    return (
        pd.concat(
            [part[[*keys, "value"]].astype(dict.fromkeys(keys, "str")) for part in parts],
            ignore_index=True,
        )
        .set_index(keys)["value"]
        .astype("float64")
    )
