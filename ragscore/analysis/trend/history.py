"""Runs in their order: values of one metric, what each run is, and what it was measured by.

In: a store, or scores with what is known of their runs. Out: a `History`, from which trends and
noise are read.
"""

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ragscore.analysis.trend.segments import Parts, ruler_parts
from ragscore.frames.data import DataError, Results, check_type, run_names
from ragscore.scoring.fingerprint import judges_by_criterion
from ragscore.scoring.judgments import CRITERIA, FAILED
from ragscore.store.store import RunStore

SEEDS = ("seed", "random_state", "repeat")  # config keys that tell repeats of one system apart
ABOUT = ("system", "created_at", "repeat", "config", "chunker_version", "golden_hash", "note")


@dataclass(frozen=True)
class History:
    """Values of one metric over runs.

    Attributes
    ----------
    scores
        One row per run and query: run_id (text), query_id, state, level, and the metric.
    runs
        One row per run, in order: system, created_at, repeat, config, chunker_version, golden_hash,
        note; `group` is the same number for repeats of one system, -1 for other runs.
    parts
        The ruler of each run by component (`ragscore.analysis.trend.segments`).
    scorings
        What run.json says of each run's scoring; empty without a store.
    load
        The results of some of the runs; None where only scores are known.
    """

    metric: str
    scores: pd.DataFrame
    runs: pd.DataFrame
    parts: dict[str, Parts]
    scorings: dict[str, dict[str, Any]]
    load: Callable[[list[str]], Results] | None

    def of(self, run_ids: list[str]) -> pd.DataFrame:
        """The scores of some runs."""
        return self.scores[self.scores["run_id"].isin(run_ids)]


def history(
    source: RunStore | pd.DataFrame,
    metric: str,
    *,
    results: Results | None = None,
    order: str | list[str] = "created_at",
    repeats: list[str] | None = None,
) -> History:
    """Read a store, or scores with the results they were made of; see `rs.trend` for the arguments."""
    check_type(source, (RunStore, pd.DataFrame), "source", "a RunStore, or the frame of rs.score")
    check_type(results, (Results, type(None)), "results")
    if isinstance(source, RunStore):
        table = source.runs()
        wanted = run_names(table, order) if isinstance(order, list) else None
        scores, scorings = source.measured(metric, wanted)
        load: Callable[[list[str]], Results] | None = source.load
    else:
        table, scores, scorings = _runs_of_scores(source, results), source, {}
        load = results.select if results is not None else None
    rows = (scores if "query_id" in scores else scores.reset_index()).reset_index(drop=True)
    _check_scores(rows, metric)
    runs = _ordered(table.assign(run_id=table["run_id"].astype("str")).set_index("run_id"), order)
    rows = rows[["run_id", "query_id", "state", "level", metric]].astype({"run_id": "str"})
    rows = rows[rows["run_id"].isin(runs.index)]
    parts = _rulers(rows, runs, scorings, metric, load)
    return History(
        metric, rows, runs.assign(group=_repeat_groups(runs, parts, repeats)), parts, scorings, load
    )


def _runs_of_scores(scores: pd.DataFrame, results: Results | None) -> pd.DataFrame:
    """What the scores and the results say of the runs."""
    if "run_id" not in scores:
        raise DataError(
            f"found a frame with the columns {', '.join(map(str, scores.columns))}",
            field="source",
            allowed="a RunStore, or the frame of rs.score",
        )
    own = [name for name in ABOUT if name in scores]
    found = (
        scores.reset_index(drop=True)
        .groupby("run_id", observed=True, sort=False)[["run_id", *own]]
        .head(1)
        .astype({"run_id": "str"})
    )
    if results is None:
        return found
    about = results.runs.astype({"run_id": "str"}).set_index("run_id")
    more = [name for name in about.columns if name not in own]
    return found.join(about[more], on="run_id")


def _check_scores(rows: pd.DataFrame, metric: str) -> None:
    missing = [name for name in ("run_id", "query_id", "state", "level") if name not in rows]
    if missing:
        raise DataError(
            f"no {', '.join(missing)}",
            field="source",
            allowed="a RunStore, or the frame of rs.score",
        )
    if metric not in rows:
        raise DataError(
            f"no column {metric!r}",
            field="metric",
            allowed=f"scores has {', '.join(map(str, rows.columns))}",
        )


def _ordered(runs: pd.DataFrame, order: str | list[str]) -> pd.DataFrame:
    """The runs in the order asked for; without their place in it they are left out, with a warning."""
    if isinstance(order, list):
        names = run_names(runs.reset_index(), order)
        if len(set(names)) < len(names):
            raise DataError(f"found {order}", field="order", allowed="each run once")
        return _with_columns(runs.loc[names])
    if order not in runs:
        raise DataError(
            f"no column {order}",
            field="scores",
            allowed="store.scores(), scores.assign(created_at=...), or order=[run ids]",
        )
    without = runs.index[runs[order].isna()].tolist()
    if len(without) == len(runs):
        raise DataError(f"no run has a {order}", field="order", allowed="run ids in their order")
    if without:
        warnings.warn(
            f"left out, having no {order}: {', '.join(without)}", UserWarning, stacklevel=4
        )
    return _with_columns(runs.drop(index=without).sort_values(order, kind="stable"))


def _with_columns(runs: pd.DataFrame) -> pd.DataFrame:
    return runs.reindex(columns=list(dict.fromkeys([*runs.columns, *ABOUT])))


def _rulers(
    rows: pd.DataFrame,
    runs: pd.DataFrame,
    scorings: dict[str, dict[str, Any]],
    metric: str,
    load: Callable[[list[str]], Results] | None,
) -> dict[str, Parts]:
    judges = (
        judges_by_criterion(load(runs.index.tolist()))
        if metric in (*CRITERIA, FAILED) and load is not None
        else {}
    )
    levels = (
        rows.dropna(subset=["level"])
        .astype({"level": "str"})
        .groupby("run_id")["level"]
        .agg(lambda found: "per_query" if found.nunique() > 1 else found.iloc[0])
    )
    known = {
        name: runs[name].astype(object).where(runs[name].notna(), None)
        for name in ("chunker_version", "golden_hash")
    }
    return {
        run_id: ruler_parts(
            scorings.get(run_id) or {"level": levels.get(run_id)}, metric,
            chunker=known["chunker_version"][run_id], golden=known["golden_hash"][run_id],
            judges=judges.get(run_id),
        )
        for run_id in runs.index
    }  # fmt: skip


def _repeat_groups(
    runs: pd.DataFrame, parts: dict[str, Parts], repeats: list[str] | None
) -> list[int]:
    """A number for each group of at least two repeats.

    As named, else runs with a `repeat`, of one system, config and ruler.
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
            None
            if pd.isna(repeat)
            else (str(system), _without_seeds(config), json.dumps(parts[run_id], sort_keys=True))
        )
        for run_id, repeat, system, config in zip(
            runs.index, runs["repeat"], runs["system"], runs["config"], strict=True
        )
    ]
    several = [key for key in dict.fromkeys(keys) if key is not None and keys.count(key) > 1]
    return [several.index(key) if key in several else -1 for key in keys]


def _without_seeds(config: Any) -> str:
    """A config as text, without the keys that tell repeats apart."""
    try:
        found = json.loads(config)
    except (TypeError, ValueError):
        return str(config)
    return json.dumps(_pruned(found), sort_keys=True)


def _pruned(value: Any) -> Any:
    return (
        {key: _pruned(of) for key, of in value.items() if key not in SEEDS}
        if isinstance(value, dict)
        else value
    )
