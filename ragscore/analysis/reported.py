"""Metric values that another tool stored: as scores, or checked against recomputed values.

In: `Results` with a frame of reported values; for the check a golden set as well. Out: a frame of
scores, or one row per reported value beside the recomputed one.
"""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.repeats import average_names
from ragscore.frames.config import flat
from ragscore.frames.data import DataError, Golden, Results, categorical, runs_without_hits
from ragscore.frames.errors import name_list, nearest
from ragscore.frames.render import shown_number
from ragscore.scoring.harness import aggregate, round_half_away
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.metrics import CRITERIA, TABLE
from ragscore.scoring.metrics.declaration import spelling
from ragscore.scoring.policies import Policies
from ragscore.scoring.primary import headline_of
from ragscore.scoring.provenance import judge_fingerprint
from ragscore.scoring.readings import HARNESSES, Harness, Reading, find_reading, k_of_runs
from ragscore.scoring.score import score
from ragscore.scoring.stored import stored_values
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
    chosen = find_reading(profile)
    harness = HARNESSES.get(chosen.name)
    with_rows, without = split_reported(results)
    of_format = rows["label"].notna() if "label" in rows else pd.Series(False, rows.index)
    ks = k_of_runs(results.runs, harness.default_k if harness else 5)
    rows = rows.assign(label=_labels(rows, ks, harness))
    labels = rows["label"].dropna().unique().tolist()
    has_rows = bool(len(with_rows.runs))
    if labels and has_rows:
        scores = score(with_rows, golden, labels, profile=chosen, policies=policies, **fields)
        values = _recomputed(scores, labels)
        keys = rows[["run_id", "query_id", "label", "statistic"]].fillna("")
        recomputed = values.reindex(pd.MultiIndex.from_frame(keys)).to_numpy("float64")
    else:
        recomputed = np.full(len(rows), np.nan)
    stated = rows["reported"].to_numpy("float64")
    if harness and has_rows:
        aggregates = {
            (run_id, name): value
            for run_id, content in aggregate(with_rows, golden, chosen).items()
            for name, value in flat(content).items()
        }
        index = pd.MultiIndex.from_tuples(list(aggregates), names=["run_id", "metric"])
        means = pd.Series(list(aggregates.values()), index=index, dtype="float64")
        of_run = means.reindex(pd.MultiIndex.from_frame(rows[["run_id", "metric"]]))
        # what the harness itself aggregates is recomputed, and rounded, as it does that
        is_of_run = rows["query_id"].eq("") & rows["metric"].isin(means.index.unique("metric"))
        is_of_run &= rows["statistic"].eq("mean") | of_format  # n beside a mean is no aggregate
        recomputed = np.where(is_of_run, of_run.to_numpy("float64"), recomputed)
        rounded = [round_half_away(value, harness.decimals) for value in stated.tolist()]
        stated = np.where(is_of_run, rounded, stated)
    rows = rows.assign(recomputed=recomputed, difference=recomputed - stated)
    is_rank = rows["query_id"].ne("") & rows["metric"].eq(FIRST_RANK)
    if is_rank.any() and has_rows:
        fields = fields | {"policies": policies}
        columns = ["recomputed", "difference"]
        rows.loc[is_rank, columns] = _first_ranks(
            with_rows, golden, rows[is_rank], chosen, **fields
        ).to_numpy()
    # what only reports single queries holds no hits: rankings of nothing would all be 0
    told = set(rows.loc[rows["query_id"].ne(""), "run_id"]) if reported is None else set()
    bare = [run_id for run_id in runs_without_hits(with_rows) if run_id in told]
    is_ranking = rows["label"].map({one: TABLE.parse(one).is_ranking for one in labels}).eq(True)
    is_bare = rows["run_id"].isin(bare) & (is_ranking | is_rank)
    rows = rows.assign(
        recomputed=rows["recomputed"].mask(is_bare), difference=rows["difference"].mask(is_bare)
    )
    rows, of_stored = _with_means_of_stored(rows, with_rows)
    columns = ["run_id", "query_id", "statistic", "metric", "label", "reported", "recomputed"]
    alone = [] if without is None else without.runs["run_id"].astype("str").tolist()
    notes = _notes(rows).mask(is_bare, "the run has no hits to recompute it from")
    notes = of_stored.where(rows["of"].notna(), notes)
    notes = notes.mask(rows["run_id"].isin(alone), "the run has no rows to recompute it from")
    return rows[[*columns, "difference"]].assign(note=notes).reset_index(drop=True)


def _with_means_of_stored(rows: pd.DataFrame, results: Results) -> tuple[pd.DataFrame, pd.Series]:
    """Return the rows with the means of stored scores beside what their tool reports of them.

    The second are notes: over how many queries a mean was taken. Repeats of a query count once.
    """
    rows = rows if "of" in rows else rows.assign(of=None)
    notes = pd.Series("", index=rows.index, dtype="object")
    if not rows["of"].notna().any():
        return rows, notes
    values = stored_values(results)
    run_ids = results.runs["run_id"].astype("str")
    side = average_names(results.runs, run_ids).set_axis(run_ids)
    values["side"] = values["run_id"].map(side)
    stated = rows[rows["statistic"].eq("n")].set_index(["run_id", "metric"])["reported"]
    recomputed = rows["recomputed"].to_numpy(copy=True)
    for place in np.flatnonzero(rows["of"].notna()).tolist():
        row = rows.iloc[place]
        of_metric = values["metric"].eq(str(row["of"]))
        here = values[of_metric & values["side"].eq(side[row["run_id"]])]
        means = here.groupby("query_id")["value"].mean()
        recomputed[place] = len(means) if row["statistic"] == "n" else means.mean()
        n_stated = stated.get((row["run_id"], row["metric"]), len(means))
        if n_stated != len(means):
            notes.iloc[place] = f"reported over {n_stated:,.0f} queries, {len(means):,} are here"
    return rows.assign(recomputed=recomputed, difference=recomputed - rows["reported"]), notes


def _first_ranks(
    results: Results, golden: Golden, rows: pd.DataFrame, profile: Reading, **fields: Any
) -> pd.DataFrame:
    """Return the first right hit's rank, and how far it is from the one reported.

    The rank is NaN without a hit; the difference is then infinite, unless none is reported either.
    """
    scores = score(results, golden, ["mrr"], profile=profile, **fields)
    keys = ["run_id", "query_id"]
    reciprocal = scores.reset_index().astype({"run_id": "str"}).set_index(keys)["mrr"]
    found = reciprocal.reindex(pd.MultiIndex.from_frame(rows[keys])).to_numpy("float64")
    with np.errstate(divide="ignore"):
        rank = np.round(1 / found)
    stated = rows["reported"].fillna(np.inf).to_numpy("float64")
    with np.errstate(invalid="ignore"):
        difference = np.where(rank == stated, 0.0, rank - stated)
    rank = np.where(np.isinf(rank), np.nan, rank)
    return pd.DataFrame({"recomputed": rank, "difference": difference})


def _notes(rows: pd.DataFrame) -> pd.Series:
    """Return why a value was not recomputed, or that only the judge's verdicts were."""
    is_nan = rows["recomputed"].isna()
    by_label = {
        label: f"does not apply: {TABLE.describe(label).nan_when}"
        for label in rows["label"].dropna().unique()
    }
    by_metric = {
        metric: f"no cut-off given, as in {name}@5" if f"{name}@k" in TABLE else "no metric of ours"
        for metric in rows["metric"].unique()
        for name in [REPORTED_NAMES.get(metric, metric)]
    }
    is_unchecked = rows["statistic"].notna() & ~rows["statistic"].isin(CHECKED)
    difference = rows["difference"]
    cases = [  # the first that holds decides
        ("no hit is reported, one is found", difference.eq(-np.inf)),
        ("a hit is reported, none is found", difference.eq(np.inf)),
        ("no hit on either side", rows["reported"].isna() & is_nan & difference.eq(0)),
        ("no value is reported", rows["reported"].isna()),
        (rows["metric"].map(by_metric), is_nan & rows["label"].isna()),
        ("this statistic is not recomputed", is_nan & is_unchecked),
        (rows["label"].map(by_label), is_nan),
        ("from the stored judgments", rows["label"].isin(CRITERIA)),
    ]
    notes = pd.Series(pd.NA, index=rows.index, dtype="object")
    for note, applies in reversed(cases):
        notes = notes.mask(applies, note)
    return notes.astype("str")


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
