"""Values that another tool stored: as scores, and against the values recomputed from its rows."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, categorical
from ragscore.scoring.judgments import CRITERIA
from ragscore.scoring.matching import LEVELS
from ragscore.scoring.metrics import BY_NAME, describe, parse_label
from ragscore.scoring.profile_aggregates import aggregate, k_of_runs
from ragscore.scoring.profiles import Profile, find_profile
from ragscore.scoring.score import score
from ragscore.scoring.summary import summarize

REPORTED_NAMES = {
    "recall": "recall", "hit": "hit", "hits": "hit", "hit_rate": "hit", "success": "hit",
    "precision": "precision", "P": "precision", "map": "map", "map_cut": "map",
    "mrr": "mrr", "recip_rank": "mrr", "ndcg": "ndcg", "ndcg_burges": "ndcg",
    "ndcg_cut": "ndcg_linear", "R": "recall", "AP": "map", "RR": "mrr", "nDCG": "ndcg_linear",
    "Success": "hit", "Judged": "judged", "equals": "exact_match", "exact": "exact_match",
    "em": "exact_match", "rougeL": "rouge_l", "rougeLsum": "rouge_l",
    "rouge_score(mode=fmeasure)": "rouge_l", "claim_recall": "context_recall",
}  # fmt: skip
"""A metric's name in a report, without its cut-off -> its name here. Other tools' letter case, spaces and hyphens don't matter where a name isn't here."""
_NAME = re.compile(r"(?P<name>[A-Za-z_.]+?)(?:(?:@|_at_|_)(?P<k>\d+))?|(?P<whole>.+)")
CHECKED = ("n", "mean", "std", "min", "max", "p50", "p95")


def label_of(metric: str) -> str | None:
    """Our label for a reported metric (`hit_rate@5` is `hit@5`, `P_10` is `precision@10`).

    None if it is none of ours.
    """
    plain = re.sub(r"[\s-]+", "_", metric.strip()).lower()
    return next(
        (label for name in (metric, plain) if (label := _known(_renamed(name)) or _known(name))),
        None,
    )


def _renamed(metric: str) -> str:
    """The name with its part before the cut-off as we call it."""
    found = _NAME.fullmatch(metric)
    if found is None or found["whole"]:
        return REPORTED_NAMES.get(metric, metric)
    return REPORTED_NAMES.get(found["name"], found["name"]) + (
        f"@{found['k']}" if found["k"] else ""
    )


def _known(label: str) -> str | None:
    try:
        return parse_label(label).text
    except DataError:
        return None


def reported_scores(results: Results) -> pd.DataFrame:
    """The reported values of single queries as a scores frame, for `rs.summarize` and `rs.diff_scores`.

    Returns
    -------
    One row per run and query (index `query_id`): `run_id`, `state` (scored), `level` (NA), then a
    float64 column per metric under our label where it has one, NaN where nothing is reported.

    Raises
    ------
    DataError
        There are no reported values; two metrics of a report are the same one here.
    """
    told = _of_queries(_told(results, None))
    names = {metric: label_of(metric) or metric for metric in told["metric"].unique()}
    if len(set(names.values())) < len(names):
        raise DataError(
            f"several names for one metric among {', '.join(names)}",
            field="results.reported",
            allowed="each metric once",
        )
    places = told[["run_id", "query_id"]].drop_duplicates()
    if told.duplicated(["run_id", "query_id", "metric"]).any():
        raise DataError(
            "a query's metric has several values",
            field="results.reported",
            allowed="one row per run, query and metric",
        )
    wide = told.assign(metric=told["metric"].map(names)).pivot(
        index=["run_id", "query_id"], columns="metric", values="value"
    )
    wide = wide.reindex(pd.MultiIndex.from_frame(places))[list(names.values())].reset_index(
        "run_id"
    )
    wide.columns.name = None
    wide.insert(1, "state", "scored")
    wide.insert(2, "level", pd.Series(categorical([-1] * len(wide), LEVELS), index=wide.index))
    return wide.astype(
        {"run_id": pd.CategoricalDtype(results.runs["run_id"].astype("str").tolist())}
    )


def check_reported(
    results: Results,
    golden: Golden,
    reported: pd.DataFrame | None = None,
    *,
    profile: str | Profile | None = None,
    **policies: Any,
) -> pd.DataFrame:
    """Reported values against those recomputed from hits and golden set.

    Parameters
    ----------
    reported
        The values to check, if `results` doesn't hold them: the frame `reported` of other results
        with the same run ids.
    profile
        The harness that reported them: its names are understood (what it calls `recall_at_k` may be
        our hit@5), values of a whole run are recomputed by `rs.aggregate`, and it sets the
        policies.
    policies
        Arguments of `rs.score` that say how the other tool counts: `empty_gold="one"`,
        `missing="zero"`, `match="doc"`, ...

    Returns
    -------
    One row per run, query and metric, as reported (query_id "" and a `statistic` for values of a
    whole run): `metric`, `label` (ours; NA: none of ours), `reported`, `recomputed` (NaN: does not
    apply here, or not recomputed), `difference` = recomputed − reported, and `note`: why nothing
    was recomputed, or that it was from stored judgments, which are the other tool's own (NA:
    nothing to say).

    Raises
    ------
    DataError
        There are no reported values, or they name a run that `results` doesn't have.
    """
    told = _told(results, reported)
    chosen = find_profile(profile)
    told = told.assign(label=_labels(told, k_of_runs(results), chosen))
    wanted = told["label"].dropna().unique().tolist()
    values = (
        _recomputed(score(results, golden, wanted, profile=chosen, **policies), wanted)
        if wanted
        else pd.Series(dtype="float64")
    )
    keys = pd.MultiIndex.from_frame(told[["run_id", "query_id", "label", "statistic"]].fillna(""))
    recomputed = values.reindex(keys).to_numpy("float64")
    if chosen is not None:
        aggregated = (
            _of_runs(aggregate(results, golden, chosen))
            .reindex(pd.MultiIndex.from_frame(told[["run_id", "metric"]]))
            .to_numpy("float64")
        )
        recomputed = np.where(
            told["query_id"].eq("") & told["statistic"].isna(), aggregated, recomputed
        )
    checked = told.rename(columns={"value": "reported"}).assign(
        recomputed=recomputed, difference=recomputed - told["value"].to_numpy()
    )
    names = [
        "run_id",
        "query_id",
        "statistic",
        "metric",
        "label",
        "reported",
        "recomputed",
        "difference",
    ]
    return checked[names].assign(note=_notes(checked)).reset_index(drop=True)


def _notes(checked: pd.DataFrame) -> pd.Series:
    """Why a value was not recomputed; of a judged one, that only the judge's verdicts were."""
    nothing = checked["recomputed"].isna()
    of_label = checked["label"].map(
        {label: _reason(label) for label in checked["label"].dropna().unique()}
    )
    of_metric = checked["metric"].map(
        {metric: _unknown(metric) for metric in checked["metric"].unique()}
    )
    unchecked = checked["statistic"].notna() & ~checked["statistic"].isin(CHECKED)
    cases = [
        ("no value is reported", checked["reported"].isna()),
        (of_metric, nothing & checked["label"].isna()),
        ("this statistic is not recomputed", nothing & unchecked), (of_label, nothing),
        ("from the stored judgments", checked["label"].isin(CRITERIA)),
    ]  # fmt: skip
    notes = pd.Series(pd.NA, index=checked.index, dtype="object")
    for note, applies in reversed(cases):
        notes = notes.mask(applies, note)
    return notes.astype("str")


def _reason(label: str) -> str:
    return f"does not apply: {describe(label).nan_when}"


def _unknown(metric: str) -> str:
    """What is missing for a metric to be one of ours."""
    name = REPORTED_NAMES.get(metric, metric)
    return f"no cut-off given, as in {name}@5" if f"{name}@k" in BY_NAME else "no metric of ours"


def _labels(told: pd.DataFrame, ks: dict[str, int], profile: Profile | None) -> pd.Series:
    """Our label for each reported value, at its run's own k where a profile's name means that."""
    pairs = told[["run_id", "metric"]].drop_duplicates()
    known = {
        (run_id, metric): _named_by(profile, metric, ks[run_id]) or label_of(metric)
        for run_id, metric in pairs.itertuples(index=False)
    }
    return pd.Series(
        [known[pair] for pair in zip(told["run_id"], told["metric"], strict=True)],
        index=told.index,
        dtype="str",
    )


def _named_by(profile: Profile | None, metric: str, k: int) -> str | None:
    """Our label for what a profile's aggregate calls `metric`, or the mean of it `metric_avg` or `metric_rate`."""
    expressions = profile.aggregate if profile is not None else {}
    found = next(
        (
            expressions[name]
            for name in (metric, f"{metric}_avg", f"{metric}_rate")
            if name in expressions
        ),
        None,
    )
    return None if found is None or "{k}" in found or "(" in found else found.format(run_k=k)


def _of_runs(aggregates: dict[str, dict[str, Any]]) -> pd.Series:
    """Every number of the runs' aggregates, by run and dotted name; null is NaN."""
    rows = {
        (run_id, name): value
        for run_id, content in aggregates.items()
        for name, value in _leaves(content)
    }
    index = pd.MultiIndex.from_tuples(list(rows), names=["run_id", "metric"])
    return pd.Series(list(rows.values()), index=index, dtype="float64")


def _leaves(content: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float | None]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _told(results: Results, reported: pd.DataFrame | None) -> pd.DataFrame:
    told = results.reported if reported is None else reported
    if told is None or not len(told):
        raise DataError(
            "no reported values", field="reported", allowed="results that hold some, or reported="
        )
    told = told.assign(
        run_id=told["run_id"].astype("str"),
        statistic=(
            told["statistic"]
            if "statistic" in told
            else pd.Series(pd.NA, index=told.index, dtype="str")
        ),
    )
    names = results.runs["run_id"].astype("str").tolist()
    unknown = sorted(set(told["run_id"]) - set(names))
    if unknown:
        raise DataError(
            f"values of {', '.join(unknown)}",
            field="reported.run_id",
            allowed=f"runs of the results: {', '.join(names)}",
        )
    return told


def _of_queries(told: pd.DataFrame) -> pd.DataFrame:
    return told[told["statistic"].isna()]


def _recomputed(scores: pd.DataFrame, labels: list[str]) -> pd.Series:
    """Values of queries and summary statistics of runs, by run, query ("" for a statistic), label and statistic ("" for a query)."""
    names = ["run_id", "query_id", "label", "statistic"]
    of_queries = (
        scores.reset_index()
        .melt(id_vars=["run_id", "query_id"], value_vars=labels, var_name="label")
        .assign(statistic="")
    )
    of_runs = summarize(scores, metrics=labels).melt(
        id_vars=["run_id", "metric"], value_vars=list(CHECKED), var_name="statistic"
    )
    of_runs = of_runs.rename(columns={"metric": "label"}).assign(query_id="")
    rows = pd.concat(
        [
            frame[[*names, "value"]].astype(dict.fromkeys(names, "str"))
            for frame in (of_queries, of_runs)
        ],
        ignore_index=True,
    )
    return rows.set_index(names)["value"].astype("float64")
