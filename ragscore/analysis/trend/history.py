"""Runs in their order: values of one metric, and the provenance of each run's values.

In: a store, or scores with the results they were made of. Out: a `History`, from which trends and
noise are computed, and its `Segment`s: runs in a row whose values were computed the same way.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, check_type, run_names
from ragscore.frames.errors import excerpt, name_list, nearest, warn
from ragscore.scoring.judgments import CRITERIA, FAILED
from ragscore.scoring.metrics import describe
from ragscore.scoring.provenance import content_of, judges_by_criterion, settings_text
from ragscore.scoring.value_states import metric_columns
from ragscore.store.store import RunStore

RUN_COLUMNS = ("system", "created_at", "repeat", "config", "chunker_version", "golden_hash", "note")
SEEDS = ("seed", "random_state", "repeat")  # config keys in which repeats of one system differ
CONTENT = "label content"
CHANGES = {
    "labels": "other labels",
    CONTENT: "other labels",
    "chunker": "passages cut anew",
    "level": "other match level",
    "rule": "other rule",
    "judge": "other judge",
}
"""Component -> description of its change; policies and versions are called by their own names."""
SHORT = 8  # digits of a hash that are shown

Provenance = dict[str, str]
"""Component (labels, level, rule, policy ..., chunker, judge ...) -> its content as text."""


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
    provenance
        The provenance of each run's values.
    scorings
        The scoring that run.json records for each run; empty without a store.
    load
        Returns the results of some of the runs; None where only scores are known.
    """

    metric: str
    scores: pd.DataFrame
    runs: pd.DataFrame
    provenance: dict[str, Provenance]
    scorings: dict[str, dict[str, Any]]
    load: Callable[[list[str]], Results] | None

    def scores_of(self, run_ids: list[str]) -> pd.DataFrame:
        """Scores of some runs."""
        return self.scores[self.scores["run_id"].isin(run_ids)]


@dataclass(frozen=True)
class Segment:
    """Runs in a row whose values were computed the same way.

    Attributes
    ----------
    provenance
        The components that a run of the segment states.
    same_as
        The number of the first segment with the same provenance; its own if there is none before.
    break_reason
        What changed since the segment before, in words; empty for the first.
    changed
        The components that changed.
    """

    number: int
    run_ids: tuple[str, ...]
    provenance: Provenance
    same_as: int
    break_reason: str
    changed: tuple[str, ...]


def read_history(
    source: RunStore | pd.DataFrame,
    metric: str,
    *,
    results: Results | None = None,
    order: str | list[str] = "created_at",
    repeats: list[str] | None = None,
) -> History:
    """Read a store, or scores with their results; see `store.trend` for the arguments."""
    check_type(source, (RunStore, pd.DataFrame), "source", "a RunStore, or the frame of rs.score")
    check_type(results, (Results, type(None)), "results")
    if isinstance(source, RunStore):
        table = source.runs()
        scores, scorings = source.measured(
            metric, run_names(table, order) if isinstance(order, list) else None
        )
        load: Callable[[list[str]], Results] | None = source.load
    else:
        table, scores, scorings = _runs_of_scores(source, results), source, {}
        load = results.select if results is not None else None
    rows = (scores if "query_id" in scores else scores.reset_index()).reset_index(drop=True)
    keys = ["run_id", "query_id", "state", "level"]
    if missing := [name for name in keys if name not in rows]:
        raise DataError(
            f"no {', '.join(missing)}",
            field="source",
            allowed="a RunStore, or the frame of rs.score",
        )
    if metric not in rows:
        raise DataError(
            f"no column {excerpt(metric)}",
            field="metric",
            allowed=nearest(metric, metric_columns(rows), "scores has"),
        )
    runs = _sort_runs(table.assign(run_id=table["run_id"].astype("str")).set_index("run_id"), order)
    runs = runs.reindex(columns=list(dict.fromkeys([*runs.columns, *RUN_COLUMNS])))
    rows = rows[[*keys, metric]].astype({"run_id": "str"})
    rows = rows[rows["run_id"].isin(runs.index)]
    provenance = _provenances(rows, runs, scorings, metric, load)
    runs = runs.assign(group=_repeat_groups(runs, provenance, repeats))
    return History(metric, rows, runs, provenance, scorings, load)


def split_segments(provenance: dict[str, Provenance]) -> list[Segment]:
    """Split runs in their order where a component of the provenance changes.

    A component that a run doesn't state has not changed. Neither have labels of another hash if
    their content is known to be the same.
    """
    segments: list[Segment] = []
    for run_id, own in provenance.items():
        last = segments[-1] if segments else None
        changed = contradictions(last.provenance, own) if last else ()
        if last and not changed:
            segments[-1] = replace(
                last, run_ids=(*last.run_ids, run_id), provenance=last.provenance | own
            )
        else:
            reason = "; ".join(_change(name, last.provenance, own) for name in changed if last)
            number = len(segments) + 1
            segments.append(Segment(number, (run_id,), own, number, reason, changed))
    out: list[Segment] = []
    for segment in segments:
        same = (
            other.same_as
            for other in out
            if not contradictions(other.provenance, segment.provenance)
        )
        out.append(replace(segment, same_as=next(same, segment.number)))
    return out


def contradictions(a: Provenance, b: Provenance) -> tuple[str, ...]:
    """Return the components that both state, with different contents."""
    # The hash covers notes as well: where the content that is measured is known, that decides.
    ignored = {"labels"} if CONTENT in a and CONTENT in b else set()
    return tuple(name for name in a if name in b and a[name] != b[name] and name not in ignored)


def provenance_of(
    scoring: dict[str, Any],
    metric: str,
    *,
    chunker: str | None = None,
    golden: str | None = None,
    judges: dict[str, Any] | None = None,
) -> Provenance:
    """Return the provenance of a run's values of one metric, as far as it is known.

    Components that nobody states, or that don't affect the metric, are left out.

    Parameters
    ----------
    scoring
        As run.json records it: golden_hash, level, rule, policies, profile, and, where it was
        recorded, its `provenance` (see `ev.provenance`).
    chunker, golden, judges
        As the run itself states them: chunker version, golden hash, and judges by criterion.
    """
    recorded = {"judge_fingerprint": judges or {}} | scoring.get("provenance", {})
    recorded = {
        name: content_of(recorded, name, [metric])
        for name in ("golden", "judge_fingerprint", "metric_versions", "fields")
    }
    parts = {
        "labels": scoring.get("golden_hash") or golden,
        CONTENT: recorded["golden"] or None,
        "profile": scoring.get("profile") or "none",
    }
    for name, value in scoring.get("policies", {}).items():
        if name != "match":
            parts[f"policy {name}"] = value
    if describe(metric).kind not in ("time", "cost"):
        parts |= {"level": scoring.get("level"), "rule": scoring.get("rule"), "chunker": chunker}
    for name, settings in recorded["judge_fingerprint"].items():
        parts[f"judge of {name}"] = _judge_text(settings)
    for name, version in recorded["metric_versions"].items():
        parts[f"version of {name}"] = version
    for name, is_recorded in recorded["fields"].items():
        parts[f"result field {name}"] = "recorded" if is_recorded else "not recorded"
    # NaN, which differs from itself, is as unknown as None
    return {
        name: str(value) for name, value in parts.items() if value is not None and value == value
    }


def _judge_text(settings: list[dict[str, Any]]) -> str:
    """Return judges as text; temperatures that differ by rounding only give the same text."""
    return settings_text(
        [
            judge | {"temperature": round(judge["temperature"], 2)}
            if "temperature" in judge
            else judge
            for judge in settings
        ]
    )


def _change(name: str, before: Provenance, now: Provenance) -> str:
    """Describe the change of one component."""
    a, b = before[name], now[name]
    if name in ("labels", CONTENT) and "labels" in before and "labels" in now:
        # a store lists its golden sets by these hashes
        a, b = before["labels"][:SHORT], now["labels"][:SHORT]
    if name == "chunker":  # leave out the parts, joined by +, that both versions have
        first, second = a.split("+"), b.split("+")
        a = "+".join(part for part in first if part not in second) or a
        b = "+".join(part for part in second if part not in first) or b
    return f"{CHANGES.get(name, name)} ({a} → {b})"


def _runs_of_scores(scores: pd.DataFrame, results: Results | None) -> pd.DataFrame:
    """One row per run of the scores, with the columns that scores and results have."""
    if "run_id" not in scores:
        raise DataError(
            f"found a frame with the columns {name_list(scores.columns)}",
            field="source",
            allowed="a RunStore, or the frame of rs.score",
        )
    own = [name for name in RUN_COLUMNS if name in scores]
    runs = (
        scores.reset_index(drop=True)
        .groupby("run_id", observed=True, sort=False)[["run_id", *own]]
        .head(1)
        .astype({"run_id": "str"})
    )
    if results is None:
        return runs
    recorded = results.runs.astype({"run_id": "str"}).set_index("run_id")
    return runs.join(recorded[[name for name in recorded if name not in own]], on="run_id")


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
            else "a list of run ids, or results= that say of each run",
        )
    without = runs.index[runs[order].isna()].tolist()
    if len(without) == len(runs):
        raise DataError(f"no run has a {order}", field="order", allowed="run ids in their order")
    if without:
        warn(f"left out, having no {order}: {', '.join(without)}")
    return runs.drop(index=without).sort_values(order, kind="stable")


def _provenances(
    rows: pd.DataFrame,
    runs: pd.DataFrame,
    scorings: dict[str, dict[str, Any]],
    metric: str,
    load: Callable[[list[str]], Results] | None,
) -> dict[str, Provenance]:
    """Return each run's provenance, from its recorded scoring or else from its scores."""
    judges: dict[str, Any] = {}
    if metric in (*CRITERIA, FAILED) and load is not None:
        judges = judges_by_criterion(load(runs.index.tolist()))
    levels = (
        rows.dropna(subset=["level"])
        .astype({"level": "str"})
        .groupby("run_id")["level"]
        .agg(lambda found: "per_query" if found.nunique() > 1 else found.iloc[0])
    )
    chunkers, goldens = (
        runs[name].astype(object).where(runs[name].notna(), None)
        for name in ("chunker_version", "golden_hash")
    )
    return {
        run_id: provenance_of(
            scorings.get(run_id) or {"level": levels.get(run_id)},
            metric,
            chunker=chunkers[run_id],
            golden=goldens[run_id],
            judges=judges.get(run_id),
        )
        for run_id in runs.index
    }


def _repeat_groups(
    runs: pd.DataFrame, provenance: dict[str, Provenance], repeats: list[str] | None
) -> list[int]:
    """Return a number for each group of at least two repeats, -1 for other runs.

    Repeats are the runs named, else runs with a `repeat` of one system, config and provenance.
    """
    if repeats is not None:
        named = set(run_names(runs.reset_index(), repeats))
        if len(named) < 2:
            raise DataError(
                f"found {repeats}", field="repeats", allowed="at least two runs of one system"
            )
        return [0 if run_id in named else -1 for run_id in runs.index]
    columns = (runs[name] for name in ("repeat", "system", "config"))
    keys = [
        None
        if pd.isna(repeat)
        else (str(system), _without_seeds(config), json.dumps(provenance[run_id], sort_keys=True))
        for run_id, repeat, system, config in zip(runs.index, *columns, strict=True)
    ]
    several = [key for key in dict.fromkeys(keys) if key is not None and keys.count(key) > 1]
    return [several.index(key) if key in several else -1 for key in keys]


def _without_seeds(config: Any) -> str:
    """Return a config as text, without the keys in which repeats differ."""
    try:
        parsed = json.loads(config)
    except (TypeError, ValueError):
        return str(config)
    return json.dumps(_drop_seeds(parsed), sort_keys=True)


def _drop_seeds(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _drop_seeds(inner) for key, inner in value.items() if key not in SEEDS}
