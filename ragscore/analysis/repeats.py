"""Repeats of one system: success in at least one or in all of k repeats, and their averages.

In: scores of several runs that are repeats (trials) of each other. Out: `Repeats`, one row per
system and query, and per system; or scores with the repeats averaged.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import check_known, name_list, names_of, plural, unsaid, warn
from ragscore.frames.typing import Values
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.summary import metric_columns
from ragscore.scoring.turns import renamed
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
        `pass@k`, `pass^k` with k as a number (0 to 1, higher is better); `mean` of the metric over
        the repeats, and `spread`, its standard deviation between them. A query to which the metric
        applies in no repeat has n = 0 and NaN; a repeat that failed did not succeed.
    summary
        One row per system and measure (pass_rate, pass@k, pass^k): its `mean` over the queries that
        have a value, with its 95 % interval `low`, `high` over queries, `n` queries.
    metric, k
        The metric that says what success is, and the number of repeats drawn.
    """

    summary: pd.DataFrame
    per_query: pd.DataFrame
    metric: str
    k: int

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

    Without `runs`, all runs of the scores are repeats of one system.
    """
    check_known(metric, metric_columns(scores), "metric", "column", "scores has")
    described = declared.describe(metric)
    if threshold is None and described.kind in ("time", "cost"):
        raise DataError(
            f"{metric} is not a 0/1 metric: nothing says which values are a success",
            field="threshold",
            allowed="the largest value that counts as success",
        )
    is_lower_better = described.better == "lower"
    limit = threshold if threshold is not None else 0.0 if is_lower_better else 1.0
    if not np.isfinite(limit):
        raise DataError(f"found {limit}", field="threshold", allowed="a finite number")
    known = scores["run_id"].astype("str").unique()
    if isinstance(runs, pd.DataFrame):
        systems = _systems_of(runs, known)
    else:
        names = known if runs is None else names_of(runs, "runs", "run ids of the scores")
        check_known(names, known, "runs", "run", "run ids of the scores:")
        systems = pd.Series("all", index=pd.Index(names).unique())
    n_repeats = systems.value_counts()
    if not (isinstance(k, int) and 1 <= k <= n_repeats.min()):
        raise DataError(
            f"k is {k} and {n_repeats.idxmin()} has {n_repeats.min()} repeats", field="k",
            allowed=f"whole numbers from 1 to {n_repeats.min()}",
        )  # fmt: skip
    rows, value = scores.reset_index(), scores[metric].astype("float64").to_numpy()
    state = rows["state"].astype("str") if "state" in rows else pd.Series("scored", rows.index)
    rows = pd.DataFrame({
        "run_id": rows["run_id"].astype("str"), "query_id": rows["query_id"],
        "value": np.where(np.isfinite(value), value, np.nan), "asked": state.ne("missing"),
        "known": np.isfinite(value) | state.eq("failed"),
        "passed": value <= limit if is_lower_better else value >= limit,
    })[state.ne("extra").to_numpy()]  # fmt: skip
    rows = rows.assign(system=rows["run_id"].map(systems)).dropna(subset=["system"])
    keys = ["system", "query_id"]
    table = rows.groupby(keys, sort=False).agg(
        n_rows=("asked", "size"), n_asked=("asked", "sum"),
        n_known=("known", "sum"), n_values=("value", "count"),
        n_passed=("passed", "sum"), mean=("value", "mean"), spread=("value", "std"),
    ).reset_index()  # fmt: skip
    n, applies = table["system"].map(n_repeats).astype("int64"), table["n_values"] > 0
    for what, lacks in (
        ("no answer to", table["n_asked"] < n), ("two answers to", table["n_rows"] > n),
        ("no value of", applies & (table["n_known"] < n)),
    ):  # fmt: skip
        for system, query in table.loc[lacks, keys].head(1).itertuples(index=False):
            raise DataError(
                f"a repeat of {system} has {what} {query} ({lacks.sum()} queries)", field="scores",
                allowed="the same queries, with finite values, in every repeat",
            )  # fmt: skip
    n_passed = table["n_passed"].to_numpy("float64")
    measures = pd.DataFrame({
        "pass_rate": n_passed / n, f"pass@{k}": pass_at_k(n, n_passed, k),
        f"pass^{k}": pass_power_k(n, n_passed, k),
    }).where(applies)  # fmt: skip
    counts = pd.DataFrame({"n": n, "n_passed": table["n_passed"]}).where(applies, 0)
    per_query = table[keys].join(counts).join(measures).join(table[["mean", "spread"]])
    return Repeats(_summary(per_query, measures.columns.tolist()), per_query, metric, k)


def _summary(per_query: pd.DataFrame, measures: list[str]) -> pd.DataFrame:
    """Return the means of the measures over the queries of each system."""
    # one order for sums
    long = per_query.sort_values("query_id", kind="stable").melt("system", measures, "measure")
    order = {one: at for at, one in enumerate([*per_query["system"].unique(), *measures])}
    table = long.groupby(["system", "measure"])["value"].agg(["mean", "std", "count"]).reset_index()
    table = table.iloc[np.lexsort([table[one].map(order) for one in ("measure", "system")])]
    mean, std, n = (table[name].to_numpy("float64") for name in ("mean", "std", "count"))
    low, high = interval_from_moments(mean, std, n, "bounded")
    table = table.rename(columns={"count": "n"}).assign(low=low, high=high)
    return table[["system", "measure", "mean", "low", "high", "n"]].reset_index(drop=True)


def average_repeats(scores: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the scores with one row per system or run and query.

    A query is `scored` if it was in any of the repeats.
    """
    rows, names, keys = scores.reset_index(), metric_columns(scores), ["run_id", "query_id"]
    run_ids = rows["run_id"].astype("str")
    new_ids = average_names(runs, run_ids)
    rows = rows.assign(
        run_id=pd.Categorical(new_ids, categories=new_ids.unique()),
        asked=rows["state"].ne("missing"), is_scored=rows["state"].eq("scored"),
        **rows[names].astype("float64"),
    )  # fmt: skip
    cells = rows.groupby(keys, sort=False, observed=True)
    averaged = rows.drop_duplicates(keys).drop(columns=["asked", "is_scored"])
    averaged[names] = cells[names].mean().to_numpy()
    state = averaged["state"].astype("str").mask(cells["is_scored"].any().to_numpy(), "scored")
    averaged = averaged.assign(state=state.astype("category"))
    n_repeats = run_ids.groupby(new_ids.to_numpy()).nunique()
    is_short = averaged["run_id"].astype("str").map(n_repeats) > cells["asked"].sum().to_numpy()
    gaps = averaged.loc[is_short, "run_id"].astype("str")
    if len(gaps := gaps[~gaps.isin(set(run_ids))]):
        text = ", ".join(f"{n} of {system}" for system, n in gaps.value_counts().items())
        warn(f"queries that some repeats were not asked: {text}; averaged over the others")
    return averaged.set_index("query_id")


def of_systems(ev: Any) -> Any:
    """Return an evaluation with the repeats of each system averaged query by query.

    Runs of one `system` that have a `repeat` are averaged, and called by the system from then on;
    all others stay as they are. Its results come from each system's first repeat.
    """
    names = average_names(ev._runs, pd.Series(ev.run_ids)).set_axis(ev.run_ids)
    with unsaid("queries that some repeats were not asked"):
        scores = average_repeats(ev.scores, ev._runs)
    first = names.drop_duplicates()
    settings, runs = (
        of_runs(frame, first.index.tolist()).assign(run_id=first.to_numpy())
        for frame in (ev.settings, ev._runs.drop(columns="repeat"))
    )
    return replace(
        ev, scores=scores, settings=settings, _source=partial(_of_first, ev, names), _runs=runs,
        _baseline=names.get(ev._baseline or ""), _among=(), _repeated=ev,
    )  # fmt: skip


def of_runs(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return the rows of these runs, in this order."""
    places = pd.Index(frame["run_id"].astype("str")).get_indexer(pd.Index(names))
    return frame.iloc[places].reset_index(drop=True)


def _of_first(ev: Any, names: pd.Series) -> Results:
    """Return results with one run per name: the first of the repeats that have it."""
    first = names.drop_duplicates()
    kept = ev.results.select(first.index.tolist())
    return renamed(kept, "run_id", lambda frame: frame["run_id"].astype("str").map(first))


def average_names(runs: pd.DataFrame, run_ids: pd.Series) -> pd.Series:
    """Return what each run is called once repeats are averaged: its system, or itself."""
    repeats = runs.reindex(columns=["run_id", "system", "repeat"]).dropna()
    if not len(repeats):
        return run_ids
    systems = _systems_of(repeats, run_ids.unique())
    systems = systems[systems.map(systems.value_counts()) > 1]
    others = set(run_ids) - set(systems.index)
    if taken := others & set(systems):
        raise DataError(
            f"{', '.join(sorted(taken))} is a run and the system of repeats",
            field="runs.system",
            allowed="a system that isn't also a run_id",
        )
    return run_ids.map(systems).astype("str").fillna(run_ids)


def pass_at_k(n: npt.ArrayLike, n_passed: Values, k: int) -> Values:
    """Return 1 - C(n-c, k) / C(n, k).

    Computed as a product, so that large n neither overflow nor lose small probabilities.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.log1p(-n_passed[:, None] / (np.asarray(n, np.float64)[..., None] - np.arange(k)))
    chance = -np.expm1(np.nan_to_num(steps, neginf=-np.inf).sum(axis=1))
    # Fewer than k failures: every draw of k holds a success.
    return np.where(np.asarray(n, np.float64) - n_passed < k, 1.0, chance)


def pass_power_k(n: npt.ArrayLike, n_passed: Values, k: int) -> Values:
    """Return C(c, k) / C(n, k), as a product."""
    drawn = np.arange(k)
    steps = (n_passed[:, None] - drawn) / (np.asarray(n, np.float64)[..., None] - drawn)
    return np.where(n_passed < k, 0.0, steps.clip(min=0).prod(axis=1))


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


def sides_named(sides: list[Results]) -> list[Results]:
    """Return the two sides of a comparison, each with runs of one system.

    The system of repeats is called as their runs are, without the number of the repeat.

    Raises
    ------
    DataError
        A side with several systems, or with none; two sides of one name.
    """
    found, taken = [], set[str]()
    for place, side in zip(("baseline", "candidate"), sides, strict=True):
        runs = side.runs["run_id"].astype("str")
        names = runs.str.replace(r"-r[0-9]+$", "", regex=True) if len(runs) > 1 else runs
        if names.nunique() != 1:
            raise DataError(
                f"found {plural(len(runs), 'run')} ({name_list(runs)})",
                field=place,
                allowed="one run, or repeats of one; rs.evaluate(...).compare(...) takes two of"
                " many",
            )
        if twice := taken & {*runs, *names}:
            raise DataError(
                f"both sides are called {name_list(sorted(twice))}",
                field=place,
                allowed="another name of a file, or rs.load_results(path, run_id='new')",
            )
        taken |= {*runs, *names}
        described = side.runs.assign(system=names.to_numpy())
        if len(runs) > 1:
            described["repeat"] = pd.array(range(1, len(runs) + 1), dtype="Int64")
        found.append(replace(side, runs=described))
    return found
