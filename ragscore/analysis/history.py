"""Runs in their order: means of one metric, and the provenance of each run's values.

In: a store, or scores with the results they were made of. Out: a `History`, from which trends and
noise are computed.
"""

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ragscore.analysis.breaks import (
    COMPUTED,
    VALUES,
    Provenance,
    drop_seeds,
    provenance_of,
    reported_provenance,
)
from ragscore.analysis.reported import label_of
from ragscore.frames.data import DataError, Golden, Results, check_type, run_names
from ragscore.frames.errors import excerpt, name_list, nearest, warn
from ragscore.frames.kinds import FAILED, KINDS, cast, dumped, parsed
from ragscore.scoring.metrics import CRITERIA, TABLE, MetricTable
from ragscore.scoring.provenance import judges_of_scores
from ragscore.scoring.summary import STATISTICS, metric_columns, summarize
from ragscore.store.scoring import own_metrics
from ragscore.store.store import RunStore

JUDGED = (*CRITERIA, FAILED)
RUN_COLUMNS = ("system", "created_at", "repeat", "config", "chunker_version", "golden_hash", "note")


@dataclass(frozen=True)
class History:
    """Means of one metric over runs.

    Attributes
    ----------
    means
        One row per run, in order (index run_id): the statistics of `ev.summary` and `is_reported`,
        True for runs without rows.
    runs
        One row per run, in order: system, created_at, repeat, config, chunker_version, golden_hash,
        note; `group` is the same number for repeats of one system, -1 for other runs.
    provenance
        The provenance of each run's values.
    declared
        What is declared of the metric, if it is a column of your own.
    """

    metric: str
    means: pd.DataFrame
    runs: pd.DataFrame
    provenance: dict[str, Provenance]
    declared: MetricTable


def read_history(
    source: RunStore | pd.DataFrame,
    metric: str,
    *,
    golden: Golden | None = None,
    runs: pd.DataFrame | None = None,
    results: Results | None = None,
    order: str | list[str] = "created_at",
    repeats: list[str] | None = None,
    declared: MetricTable = TABLE,
) -> History:
    """Read a store, or scores; see `store.trend` and `ev.trend`.

    `runs` describes each run of the scores; the judges of a metric in `JUDGED` come from the
    `results`.
    """
    scorings: dict[str, dict[str, Any]] = {}
    judges: dict[str, Any] = {}
    if isinstance(source, RunStore):
        runs = source.runs()
        names = run_names(runs, order if isinstance(order, list) else runs["run_id"])
        scorings = {name: one for name, one in source._scorings(names).items() if one}
        means = source._means(names)
        is_foreign = means["is_reported"] & ~means["run_id"].isin(list(scorings))
        ours = {one: label_of(one) or one for one in means.loc[is_foreign, "metric"].unique()}
        means["metric"] = means["metric"].mask(is_foreign, means["metric"].replace(ours))
        declared = TABLE.with_metrics(
            one
            for scoring in scorings.values()
            for one in own_metrics(scoring)
            if one.base == metric.partition("@")[0]
        )
    else:
        runs, means = _of_scores(source, metric, golden, runs, declared)
        run_ids, levels = (source[name].astype("str").to_numpy() for name in ("run_id", "level"))
        by_run = pd.Series(levels, run_ids).dropna().groupby(level=0).unique()
        scorings = {
            str(name): {"level": own[0] if len(own) == 1 else "per_query"}
            for name, own in by_run.items()
        }
        if metric in JUDGED and results is not None and len(results.runs):
            judges = judges_of_scores(results)
    alone = set(means.loc[means["is_reported"], "run_id"])
    known = means["metric"].unique().tolist()
    means = means[means["metric"].eq(metric).to_numpy()].set_index("run_id")
    runs = runs.assign(run_id=runs["run_id"].astype("str")).set_index("run_id")
    lacking = [name for name in runs.index if name not in means.index]
    if isinstance(order, list):
        lacking = [name for name in lacking if name in run_names(runs.reset_index(), order)]
    if not len(means) or set(lacking) - alone:
        of = f" of {name_list(sorted(set(lacking) - alone))}" if len(means) else ""
        raise DataError(
            f"no mean of {excerpt(metric)}{of}",
            field="metric",
            allowed=f"store.evaluate(golden, [{metric!r}]).trend({metric!r}), or "
            + nearest(metric, known),
        )
    if "created_at" in runs:  # may have been put in after loading
        runs["created_at"] = cast(runs["created_at"], KINDS["runs"].dtypes["created_at"], "runs")
    runs = _sort_runs(runs, order)
    runs = runs.reindex(columns=list(dict.fromkeys([*runs.columns, *RUN_COLUMNS])))
    means = means.reindex(runs.index).fillna({"is_reported": True}).astype({"is_reported": "bool"})
    provenance: dict[str, Provenance] = {}
    stated = runs.astype(object).where(runs.notna(), None)
    is_foreign = means["is_reported"] & ~means.index.isin(list(scorings))
    for key, run in stated.to_dict("index").items():
        run_id = str(key)
        if is_foreign[run_id]:
            provenance[run_id] = reported_provenance(
                {str(name): one for name, one in run.items()}, metric
            )
        else:
            provenance[run_id] = ({VALUES: COMPUTED} if is_foreign.any() else {}) | provenance_of(
                scorings.get(run_id, {}), metric, chunker=run["chunker_version"],
                golden=run["golden_hash"], judges=judges.get(run_id),
            )  # fmt: skip
    runs = runs.assign(group=_repeat_groups(runs, provenance, repeats))
    return History(metric, means, runs, provenance, declared)


def _of_scores(
    scores: pd.DataFrame,
    metric: str,
    golden: Golden | None,
    known: pd.DataFrame | None,
    declared: MetricTable,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the runs of scores with what is known of them, and means of the metric."""
    own = [name for name in RUN_COLUMNS if name in scores]
    runs = scores.drop_duplicates("run_id")[["run_id", *own]].astype({"run_id": "str"})
    means = pd.DataFrame(columns=["run_id", "metric", *STATISTICS, "is_reported"])
    if metric in metric_columns(scores) and len(scores):
        means = summarize(scores, golden, metrics=[metric], table=declared)
        means = means.reset_index(drop=True).assign(is_reported=False)
    if known is not None:
        known = known.astype({"run_id": "str"}).set_index("run_id")
        runs = runs.join(known[[name for name in known if name not in own]], on="run_id")
    means = means.astype({"run_id": "str", "is_reported": "bool"})
    return runs.reset_index(drop=True), means


def _sort_runs(runs: pd.DataFrame, order: str | list[str]) -> pd.DataFrame:
    """Sort the runs; those without a value in the column `order` are left out, with a warning."""
    if isinstance(order, list):
        names = run_names(runs.reset_index(), order)
        if len(set(names)) < len(names):
            raise DataError(f"found {order}", field="order", allowed="each run once")
        return runs.loc[names]
    check_type(order, str, "order", "a column of the runs, or a list of run ids")
    if order not in runs:
        raise DataError(
            f"no column {excerpt(order)}",
            field="order",
            allowed=nearest(order, runs.columns, "a list of run ids, or one of")
            if len(runs.columns)
            else "a list of run ids, or results= whose runs have it",
        )
    without = runs.index[runs[order].isna()].tolist()
    if len(without) == len(runs):
        raise DataError(
            f"no run has a {order}",
            field="order",
            allowed=f"run ids in their order, or values in results.runs[{order!r}]",
        )
    if without:
        warn(f"left out, without {order}: {', '.join(without)}")
    return runs.drop(index=without).sort_values(order, kind="stable")


def _repeat_groups(
    runs: pd.DataFrame, provenance: dict[str, Provenance], repeats: list[str] | None
) -> list[int]:
    """Return a number for each group of at least two repeats, -1 for other runs.

    Repeats are the runs named, else runs of one system, config and provenance whose `repeat`
    differs.
    """
    if repeats is not None:
        named = set(run_names(runs.reset_index(), repeats))
        if len(named) < 2:
            raise DataError(
                f"found {repeats}", field="repeats", allowed="at least two runs of one system"
            )
        return [0 if run_id in named else -1 for run_id in runs.index]
    keys = [
        (
            str(system),
            dumped(drop_seeds(parsed(config))),
            json.dumps(provenance[run_id], sort_keys=True),
        )
        for run_id, system, config in zip(runs.index, runs["system"], runs["config"], strict=True)
    ]
    alike = pd.Series(keys, runs.index, dtype="object")
    n_repeats = runs["repeat"].groupby(alike).transform("nunique")
    return pd.factorize(alike.where(runs["repeat"].notna() & (n_repeats > 1)))[0].tolist()
