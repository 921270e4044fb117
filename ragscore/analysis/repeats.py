"""Repeats of one system: success in at least one or in all of k repeats, and their averages.

In: scores of several runs that are repeats (trials) of each other. Out: `Repeats`, one row per
system and query, and per system; or scores with the repeats averaged.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, check_type
from ragscore.frames.errors import check_known, name_list, names_of, nearest, warn
from ragscore.frames.typing import Flags, Values
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.summary import metric_columns
from ragscore.stats.intervals import interval_from_moments


@dataclass(frozen=True, repr=False, eq=False)
class Repeats(FramesResult):
    """Success in at least one, or in all, of k repeats of a system.

    pass@k = 1 - C(n-c, k) / C(n, k) is the probability that at least one of k repeats drawn from
    the n succeeds, of which c did (Chen et al. 2021, arXiv:2107.03374). pass^k = C(c, k) / C(n, k)
    is the probability that all k do. Both are estimated without bias from n ≥ k repeats.

    Attributes
    ----------
    per_query
        One row per system and query: `system`, `query_id`; `n` repeats, `n_passed`; `pass_rate`,
        `pass@k`, `pass^k` with k as a number (0 to 1, higher is better). A query to which the
        metric applies in no repeat has n = 0 and NaN; a repeat that failed did not succeed.
    summary
        One row per system and measure (pass_rate, pass@k, pass^k): its `mean` over the queries that
        have a value, with its 95 % interval `low`, `high` over queries, `n` queries.
    metric, k
        The metric that says what success is, and the number of repeats drawn.
    """

    FRAMES = ("summary", "per_query")

    per_query: pd.DataFrame
    metric: str
    k: int

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The means of the measures over queries."""
        measures = [name for name in self.per_query.columns if name.startswith("pass")]
        rows = self.per_query.sort_values("query_id", kind="stable")  # one order for sums
        grouped = rows.groupby("system", sort=False)[measures]
        statistics = {"mean": grouped.mean(), "std": grouped.std(), "n": grouped.count()}
        systems = pd.Index(self.per_query["system"].unique(), name="system")
        table = pd.DataFrame(
            {
                name: part.loc[systems].rename_axis(columns="measure").stack()
                for name, part in statistics.items()
            }
        ).reset_index()
        mean, std, n = (table[name].to_numpy("float64") for name in ("mean", "std", "n"))
        low, high = interval_from_moments(mean, std, n, "bounded")
        return table.assign(low=low, high=high)[["system", "measure", "mean", "low", "high", "n"]]

    def _heading(self) -> str:
        sizes = self.per_query.groupby("system", sort=False)["n"].max()
        systems = ", ".join(f"{n} of {system}" for system, n in sizes.items())
        return f"Repeats: {systems}; success by {self.metric}"


def repeats(
    scores: pd.DataFrame,
    metric: str,
    k: int,
    threshold: float | None = None,
    *,
    runs: pd.DataFrame | list[str] | None = None,
    declared: MetricTable = TABLE,
) -> Repeats:
    """Return pass@k and pass^k of every query and system; see `Evaluation.repeats`.

    Without `runs`: all runs of the scores, by their `system` if the scores have that column (those
    of a store do).
    """
    check_known(metric, metric_columns(scores), "metric", "column", "scores has")
    described = declared.describe(metric)
    if threshold is None and described.kind in ("time", "cost"):
        raise DataError(
            f"{metric} has no success of its own",
            field="threshold",
            allowed="the largest value that counts as success",
        )
    is_lower_better = described.better == "lower"
    limit = threshold if threshold is not None else 0.0 if is_lower_better else 1.0
    if not np.isfinite(limit):
        raise DataError(f"found {limit}", field="threshold", allowed="a finite number")
    systems = _systems(scores, runs)
    parts = []
    for system, run_ids in systems.groupby(systems, sort=False).groups.items():
        values, failed = _by_repeat(scores, metric, [str(run_id) for run_id in run_ids])
        passed = values <= limit if is_lower_better else values >= limit
        parts.append(_system_rows(str(system), values, failed, passed.to_numpy(), k))
    return Repeats(pd.concat(parts, ignore_index=True), metric, k)


def average_repeats(scores: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the scores with one row per system or run and query; see `Evaluation.average_repeats`.

    A query is `scored` if it was in any of the repeats.
    """
    rows = scores if "query_id" in scores else scores.reset_index()
    run_ids = rows["run_id"].astype("str")
    systems = _repeated_systems(runs, run_ids.drop_duplicates())
    new_ids = average_names(runs, run_ids)
    order = new_ids.drop_duplicates().tolist()
    keys = [new_ids.to_numpy(), rows["query_id"].to_numpy()]
    cells = rows.groupby(keys, sort=False).ngroup().to_numpy()
    states = rows["state"] if "state" in rows else pd.Series("scored", index=rows.index)
    is_first = ~pd.Series(cells).duplicated().to_numpy()
    # a row per system or run and query, in the order of `cells`
    averaged = rows[is_first].reset_index(drop=True)
    averaged["run_id"] = pd.Categorical(new_ids[is_first], categories=order)
    n_asked = np.bincount(cells, weights=states.ne("missing"))
    n_repeats = averaged["run_id"].astype("str").map(systems.value_counts()).fillna(0)
    if (gaps := n_repeats.to_numpy("float64") > n_asked).any():
        counts = averaged.loc[gaps, "run_id"].astype("str").value_counts()
        text = ", ".join(f"{n} of {system}" for system, n in counts.items())
        warn(f"queries that some repeats were not asked: {text}; averaged over the others")
    names = metric_columns(scores)
    means = rows[names].astype("float64").groupby(cells).mean()
    averaged = averaged.assign(**{name: means[name].to_numpy() for name in names})
    if "state" in rows:
        is_scored = np.bincount(cells, weights=states.eq("scored")) > 0
        state = averaged["state"].astype("str").mask(is_scored, "scored")
        averaged["state"] = state.astype("category")
    return averaged if "query_id" in scores else averaged.set_index("query_id")


def average_names(runs: pd.DataFrame, run_ids: pd.Series) -> pd.Series:
    """Return what each run is called once repeats are averaged: its system, or itself."""
    systems = _repeated_systems(runs, run_ids.drop_duplicates())
    return run_ids.map(systems).astype("str").fillna(run_ids)


def _repeated_systems(runs: pd.DataFrame, run_ids: pd.Series) -> pd.Series:
    """Return the system (value) of every run (index) that is one of several repeats."""
    if not {"system", "repeat"} <= set(runs.columns):
        return pd.Series(dtype="str")
    repeats = runs[runs["repeat"].notna() & runs["system"].notna()]
    systems = _systems_of(repeats, run_ids.to_numpy(dtype=object))
    systems = systems[systems.map(systems.value_counts()) > 1]
    others = set(run_ids) - set(systems.index)
    if taken := others & set(systems):
        raise DataError(
            f"{', '.join(sorted(taken))} is a run and the system of repeats",
            field="runs.system",
            allowed="a system that isn't also a run_id",
        )
    return systems


def pass_at_k(n: int, n_passed: Values, k: int) -> Values:
    """Return 1 - C(n-c, k) / C(n, k).

    Computed as a product, so that large n neither overflow nor lose small probabilities.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.log1p(-n_passed[:, None] / (n - np.arange(k)))
    # Fewer than k failures: every draw of k holds a success.
    return np.where(
        n - n_passed < k, 1.0, -np.expm1(np.nan_to_num(steps, neginf=-np.inf).sum(axis=1))
    )


def pass_power_k(n: int, n_passed: Values, k: int) -> Values:
    """Return C(c, k) / C(n, k), as a product."""
    steps = (n_passed[:, None] - np.arange(k)) / (n - np.arange(k))
    return np.where(n_passed < k, 0.0, steps.clip(min=0).prod(axis=1))


def _systems(scores: pd.DataFrame, runs: pd.DataFrame | list[str] | None) -> pd.Series:
    """Return the system (value) of every run (index) that is a repeat."""
    known = scores["run_id"].astype("str").unique()
    if isinstance(runs, pd.DataFrame):
        return _systems_of(runs, known)
    if runs is not None:
        runs = names_of(runs, "runs", "run ids of the scores")
        unknown = [run_id for run_id in runs if run_id not in set(known)]
        if unknown or len(set(runs)) < len(runs) or not runs:
            raise DataError(
                f"found {name_list(unknown or runs)}",
                field="runs",
                allowed=nearest((unknown or [""])[0], known, "run ids of the scores, each once:"),
            )
        return pd.Series("all", index=list(runs))
    if "system" in scores:
        by_run = scores[["run_id", "system"]].drop_duplicates()
        return by_run["system"].fillna("").astype("str").set_axis(by_run["run_id"].astype("str"))
    return pd.Series("all", index=known)


def _systems_of(runs: pd.DataFrame, run_ids: npt.NDArray[np.object_]) -> pd.Series:
    runs = runs[runs["run_id"].astype("str").isin(run_ids)]
    if "system" not in runs or runs["system"].isna().any():
        raise DataError(
            "runs without a system",
            field="runs.system",
            allowed="a system for every run, or a list of run ids",
        )
    if "repeat" in runs:
        again = runs[runs["repeat"].notna() & runs.duplicated(["system", "repeat"])]
        if len(again):
            raise DataError(
                f"repeat {again['repeat'].iloc[0]} of {again['system'].iloc[0]} is there twice",
                field="runs.repeat",
                allowed="another number for every repeat of a system",
            )
    return runs["system"].astype("str").set_axis(runs["run_id"].astype("str"))


def _by_repeat(scores: pd.DataFrame, metric: str, run_ids: list[str]) -> tuple[pd.DataFrame, Flags]:
    """Return values and failures, one row per query and one column per repeat.

    Every query is there in every repeat.
    """
    rows = scores[scores["run_id"].astype("str").isin(run_ids)].reset_index()
    rows = rows[rows["state"] != "extra"] if "state" in rows else rows
    if rows.duplicated(["run_id", "query_id"]).any():
        raise DataError(
            "a query stands twice in one repeat",
            field="scores",
            allowed="one row per run and query",
        )
    cells = pd.DataFrame(
        {
            "run_id": rows["run_id"].astype("str"),
            "query_id": rows["query_id"],
            "value": rows[metric].to_numpy("float64"),
            "state": rows["state"].astype("str") if "state" in rows else "scored",
        }
    )
    query_ids = cells["query_id"].unique()
    values, states = (
        cells.pivot(index="query_id", columns="run_id", values=name).reindex(
            index=query_ids, columns=run_ids
        )
        for name in ("value", "state")
    )
    state = states.fillna("missing").to_numpy(dtype=object)
    absent = state == "missing"
    if absent.any():
        row, column = np.argwhere(absent)[0]
        raise DataError(
            f"{run_ids[column]} has no answer to {query_ids[row]}"
            f" ({int(absent.sum())} cells are missing)",
            field="scores",
            allowed="the same queries in every repeat",
        )
    return values, state == "failed"


def _system_rows(
    system: str, values: pd.DataFrame, failed: Flags, passed: Flags, k: int
) -> pd.DataFrame:
    n = values.shape[1]
    check_type(k, int, "k", f"whole numbers from 1 to {n}")
    if not 1 <= k <= n:
        raise DataError(
            f"k is {k} and {system} has {n} repeats",
            field="k",
            allowed=f"whole numbers from 1 to {n}",
        )
    is_finite = np.isfinite(values.to_numpy())
    applies = is_finite.any(axis=1)
    lacking = applies[:, None] & ~is_finite & ~failed
    if lacking.any():
        row, column = np.argwhere(lacking)[0]
        raise DataError(
            f"{values.columns[column]} has no value for {values.index[row]}, another repeat has",
            field=str(values.columns.name or "metric"),
            allowed="a finite value in every repeat, or in none",
        )
    n_passed = passed.sum(axis=1).astype("float64")
    measures = {
        "pass_rate": n_passed / n,
        f"pass@{k}": pass_at_k(n, n_passed, k),
        f"pass^{k}": pass_power_k(n, n_passed, k),
    }
    table = pd.DataFrame({"system": system, "query_id": values.index.to_numpy()})
    return table.assign(
        n=np.where(applies, n, 0),
        n_passed=np.where(applies, n_passed, 0).astype("int64"),
        **{name: np.where(applies, measure, np.nan) for name, measure in measures.items()},
    )
