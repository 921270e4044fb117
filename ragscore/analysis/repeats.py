"""Repeated trials of one system.

Whether a query succeeds at least once, or every time, in k of them; and their averages.

In: scores of several runs that are repeats of each other. Out: one row per system and query, one
per system.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.errors import warn
from ragscore.scoring.metrics import describe
from ragscore.scoring.summary import metric_columns
from ragscore.stats import average_repeats as average_observations
from ragscore.stats import mean_interval

Values = npt.NDArray[np.float64]


def trials(
    scores: pd.DataFrame,
    metric: str,
    k: int,
    threshold: float | None = None,
    *,
    runs: pd.DataFrame | list[str] | None = None,
) -> pd.DataFrame:
    """pass@k and pass^k of every query, estimated without bias from n ≥ k trials (Chen et al.

    2021, arXiv:2107.03374).

    pass@k = 1 - C(n-c, k) / C(n, k), the probability that at least one of k trials drawn from the n
    succeeds, of which c did; pass^k = C(c, k) / C(n, k), that all of them do.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`.
    metric
        A column of it. A trial succeeds at `threshold` or better, in the metric's own direction.
    threshold
        By default 1 where higher is better and 0 where lower is; metrics of time and cost need one.
    runs
        Which runs are trials of what. A frame such as `results.runs`: runs of the same `system`,
        told apart by `repeat`. A list of run ids: these, as trials of one system. Without it: all
        runs of the scores, by their `system` if the scores have that column (those of a store do).

    Returns
    -------
    One row per system and query: `system`, `query_id`; `n` trials, `n_passed`; `pass_rate`,
    `pass@k`, `pass^k` with k as a number (0 to 1, higher is better). A query to which the metric
    applies in no trial has n = 0 and NaN; a trial that failed did not succeed.

    Raises
    ------
    DataError
        k is not in 1..n; the metric is no column; a query is missing from a trial, stands there
        twice, or has no finite value in one trial but has in another; two runs of a system are the
        same `repeat`.
    """
    if metric not in scores.columns:
        raise DataError(
            f"no column {metric!r}",
            field="metric",
            allowed=f"scores has {', '.join(scores.columns)}",
        )
    limit, is_better_low = _threshold(metric, threshold), describe(metric).better == "lower"
    systems = _systems(scores, runs)
    parts = []
    for system, run_ids in systems.groupby(systems, sort=False).groups.items():
        values, failed = _by_trial(scores, metric, [str(run_id) for run_id in run_ids])
        passed = np.where(
            failed & np.isnan(values), 0.0, values <= limit if is_better_low else values >= limit
        )
        parts.append(_system_rows(str(system), values, failed, passed, k))
    return pd.concat(parts, ignore_index=True)


def trial_summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Means of `trials` over the queries it applies to.

    Returns
    -------
    One row per system and measure (pass_rate, pass@k, pass^k): `mean` with its 95 % interval `low`,
    `high` over queries, `n` queries.
    """
    measures = [name for name in rows.columns if name.startswith("pass")]
    grouped = rows.groupby("system", sort=False)[measures]
    parts = {"mean": grouped.mean(), "std": grouped.std(), "n": grouped.count()}
    table = pd.DataFrame(
        {name: part.rename_axis(columns="measure").stack() for name, part in parts.items()}
    ).reset_index()
    low, high = mean_interval(
        table["mean"].to_numpy(), table["std"].to_numpy(), table["n"].to_numpy("float64"), "bounded"
    )
    return table.assign(low=low, high=high)[["system", "measure", "mean", "low", "high", "n"]]


def average_repeats(scores: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Scores with the repeats of each system averaged query by query, so that every query counts once.

    Repeats are no new queries: five runs of one system on 50 queries know as much about other
    queries as 50 do.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`.
    runs
        Such as `results.runs`. Runs of one `system` that have a `repeat` are averaged, and called
        by the system from then on; all others stay as they are.

    Returns
    -------
    The frame of scores with one row per system or run and query. A query is `scored` if it was in
    any of the repeats.

    Raises
    ------
    DataError
        Two runs of a system are the same repeat, or another run has the system's name as its
        run_id.

    Warns
    -----
    UserWarning
        Queries that some repeats were not asked; they are averaged over the others.
    """
    rows = scores if "query_id" in scores else scores.reset_index()
    run_ids = rows["run_id"].astype("str")
    named = _repeated(runs, run_ids.drop_duplicates())
    new = run_ids.map(named).astype("str").fillna(run_ids)
    order = new.drop_duplicates().tolist()
    queries, known = pd.factorize(rows["query_id"])
    cells = pd.Series(
        pd.Categorical(new, categories=order).codes.astype("int64") * len(known) + queries
    )
    codes, _ = pd.factorize(cells)
    is_there = (
        rows["state"].ne("missing").to_numpy()
        if "state" in rows
        else np.ones(len(rows), dtype=bool)
    )
    _warn_of_gaps(new, codes, is_there, named)
    first = ~pd.Series(codes).duplicated().to_numpy()
    names = metric_columns(scores)
    means = average_observations(rows[names].to_numpy("float64", na_value=np.nan), codes)
    kept = rows[first].reset_index(drop=True)
    kept = kept.assign(
        run_id=pd.Categorical(new[first], categories=order),
        **dict(zip(names, means.T, strict=True)),
    )
    if "state" in rows:
        scored = (
            np.bincount(codes, weights=rows["state"].eq("scored").to_numpy(), minlength=len(kept))
            > 0
        )
        kept["state"] = kept["state"].astype("str").mask(scored, "scored").astype("category")
    return kept if "query_id" in scores else kept.set_index("query_id")


def _repeated(runs: pd.DataFrame, known: pd.Series) -> pd.Series:
    """The system (value) of every run (index) that is one of several repeats."""
    if not {"system", "repeat"} <= set(runs.columns):
        return pd.Series(dtype="str")
    here = runs[runs["repeat"].notna() & runs["system"].notna()]
    systems = _systems_of(here, known.to_numpy(dtype=object))
    systems = systems[systems.map(systems.value_counts()) > 1]
    others = set(known) - set(systems.index)
    if taken := others & set(systems):
        raise DataError(
            f"{', '.join(sorted(taken))} is a run and the system of repeats",
            field="runs.system",
            allowed="a system that isn't also a run_id",
        )
    return systems


def _warn_of_gaps(
    new: pd.Series, codes: npt.NDArray[np.int64], is_there: npt.NDArray[np.bool_], named: pd.Series
) -> None:
    expected = named.value_counts()
    found = np.bincount(codes, weights=is_there)
    first = ~pd.Series(codes).duplicated().to_numpy()
    lacking = new[first].map(expected).fillna(0).to_numpy("float64") > found
    if lacking.any():
        where = new[first][lacking].value_counts()
        text = ", ".join(f"{n} of {name}" for name, n in where.items())
        warn(f"queries that some repeats were not asked: {text}; averaged over the others")


def pass_at_k(n: int, n_passed: Values, k: int) -> Values:
    """1 - C(n-c, k) / C(n, k) as a product, so that large n neither overflow nor lose small probabilities."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.log1p(-n_passed[:, None] / (n - np.arange(k)))
    # Fewer than k failures: every draw of k holds a success.
    return np.where(
        n - n_passed < k, 1.0, -np.expm1(np.nan_to_num(steps, neginf=-np.inf).sum(axis=1))
    )


def pass_power_k(n: int, n_passed: Values, k: int) -> Values:
    """C(c, k) / C(n, k), as a product."""
    steps = (n_passed[:, None] - np.arange(k)) / (n - np.arange(k))
    return np.where(n_passed < k, 0.0, steps.clip(min=0).prod(axis=1))


def _threshold(metric: str, threshold: float | None) -> float:
    found = describe(metric)
    if threshold is None and found.kind in ("time", "cost"):
        raise DataError(
            f"{metric} has no success of its own",
            field="threshold",
            allowed="the largest value that counts as success",
        )
    limit = threshold if threshold is not None else 0.0 if found.better == "lower" else 1.0
    if not np.isfinite(limit):
        raise DataError(f"found {limit}", field="threshold", allowed="a finite number")
    return float(limit)


def _systems(scores: pd.DataFrame, runs: pd.DataFrame | list[str] | None) -> pd.Series:
    """The system (value) of every run (index) that is a trial."""
    known = scores["run_id"].astype("str").unique()
    if isinstance(runs, pd.DataFrame):
        return _systems_of(runs, known)
    if runs is not None:
        unknown = [run_id for run_id in runs if run_id not in set(known)]
        if unknown or len(set(runs)) < len(runs) or not runs:
            raise DataError(
                f"found {runs}",
                field="runs",
                allowed=f"run ids of the scores, each once: {', '.join(known)}",
            )
        return pd.Series("all", index=list(runs))
    if "system" in scores:
        by_run = scores[["run_id", "system"]].drop_duplicates()
        return by_run["system"].fillna("").astype("str").set_axis(by_run["run_id"].astype("str"))
    return pd.Series("all", index=known)


def _systems_of(runs: pd.DataFrame, known: npt.NDArray[np.object_]) -> pd.Series:
    here = runs[runs["run_id"].astype("str").isin(known)]
    if "system" not in here or here["system"].isna().any():
        raise DataError(
            "runs without a system",
            field="runs.system",
            allowed="a system for every run, or a list of run ids",
        )
    if (
        "repeat" in here
        and (twice := here["repeat"].notna() & here.duplicated(["system", "repeat"])).any()
    ):
        first = here[twice].iloc[0]
        raise DataError(
            f"repeat {first['repeat']} of {first['system']} is there twice",
            field="runs.repeat",
            allowed="another number for every trial of a system",
        )
    return here["system"].astype("str").set_axis(here["run_id"].astype("str"))


def _by_trial(
    scores: pd.DataFrame, metric: str, run_ids: list[str]
) -> tuple[pd.DataFrame, npt.NDArray[np.bool_]]:
    """Values and failures, one row per query and one column per trial.

    Every query is there in every trial.
    """
    rows = scores[scores["run_id"].astype("str").isin(run_ids)].reset_index()
    rows = rows[rows["state"] != "extra"] if "state" in rows else rows
    if rows.duplicated(["run_id", "query_id"]).any():
        raise DataError(
            "a query stands twice in one trial", field="scores", allowed="one row per run and query"
        )
    states = (
        rows["state"].astype("str") if "state" in rows else pd.Series("scored", index=rows.index)
    )
    cells = pd.DataFrame(
        {
            "run_id": rows["run_id"].astype("str"),
            "query_id": rows["query_id"],
            "value": rows[metric].to_numpy("float64"),
            "state": states,
        }
    )
    order = cells["query_id"].unique()
    values = cells.pivot(index="query_id", columns="run_id", values="value").reindex(
        index=order, columns=run_ids
    )
    state = (
        cells.pivot(index="query_id", columns="run_id", values="state")
        .reindex(index=order, columns=run_ids)
        .fillna("missing")
        .to_numpy(dtype=object)
    )
    absent = state == "missing"
    if absent.any():
        row, column = (int(place[0]) for place in absent.nonzero())
        found = (
            f"{run_ids[column]} has no answer to {order[row]} ({int(absent.sum())} cells are"
            " missing)"
        )
        raise DataError(found, field="scores", allowed="the same queries in every trial")
    return values, state == "failed"


def _system_rows(
    system: str, values: pd.DataFrame, failed: npt.NDArray[np.bool_], passed: Values, k: int
) -> pd.DataFrame:
    n = values.shape[1]
    if not 1 <= k <= n:
        raise DataError(
            f"k is {k} and {system} has {n} trials",
            field="k",
            allowed=f"whole numbers from 1 to {n}",
        )
    applies = np.isfinite(values.to_numpy()).any(axis=1)
    odd = applies[:, None] & ~np.isfinite(values.to_numpy()) & ~failed
    if odd.any():
        row, column = (int(place[0]) for place in odd.nonzero())
        raise DataError(
            f"{values.columns[column]} has no value for {values.index[row]}, another trial has",
            field=str(values.columns.name or "metric"),
            allowed="a finite value in every trial, or in none",
        )
    count = passed.sum(axis=1)
    measures = {
        "pass_rate": count / n,
        f"pass@{k}": pass_at_k(n, count, k),
        f"pass^{k}": pass_power_k(n, count, k),
    }
    return pd.DataFrame({
        "system": system, "query_id": values.index.to_numpy(), "n": np.where(applies, n, 0),
        "n_passed": np.where(applies, count, 0).astype("int64"),
        **{name: np.where(applies, found, np.nan) for name, found in measures.items()},
    })  # fmt: skip
