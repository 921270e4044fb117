"""Runs in their order: values of one metric, what each run is, and what it was measured by.

In: a store, or scores with what is known of their runs. Out: a `History`, from which trends and
noise are read.

Where a line over runs must break.

What each run was measured by, and what changed from one to the next, in words.

In: what run.json says of a run and its scoring. Out: segments of runs that one ruler measured.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, check_type, run_names
from ragscore.frames.errors import warn
from ragscore.scoring.judgments import CRITERIA, FAILED
from ragscore.scoring.metrics import describe
from ragscore.scoring.provenance import content_of, judges_by_criterion, settings_text
from ragscore.store.store import RunStore

CONTENT = "label content"
NAMES = {
    "labels": "other labels",
    CONTENT: "other labels",
    "chunker": "passages cut anew",
    "level": "other match level",
    "rule": "other rule",
    "judge": "other judge",
}
"""Component -> what its change is called; policies and versions are called by their own names."""
OUTLAST_CUTTING = {
    "doc": "by document",
    "span": "by span",
    "anchor": "by section",
    "predicate": "by predicate",
}
"""Match level whose targets don't hang on how passages are cut -> how a bridge is called that uses this."""
SHORT = 8  # digits of a hash that are shown

Parts = dict[str, str]


@dataclass(frozen=True)
class Segment:
    """Runs in a row that one ruler measured.

    Attributes
    ----------
    parts
        The ruler by component; what no run of the segment states is left out.
    like
        The number of the first segment measured by this ruler; its own if none before it was.
    break_reason
        What changed since the segment before, in words; empty for the first.
    changed
        The components that changed.
    """

    number: int
    run_ids: tuple[str, ...]
    parts: Parts
    like: int
    break_reason: str
    changed: tuple[str, ...]


def ruler_parts(
    scoring: dict[str, Any],
    metric: str,
    *,
    chunker: str | None = None,
    golden: str | None = None,
    judges: dict[str, Any] | None = None,
) -> Parts:
    """The ruler of a run's values of one metric, as far as it is known.

    What none states, or the metric doesn't hang on, is left out.

    Parameters
    ----------
    scoring
        What run.json says of it: golden_hash, level, rule, policies, profile, and, where it was
        recorded, its `ruler` (see `rs.ruler`).
    chunker, golden, judges
        What the run itself states: its chunker version, golden hash and, by criterion, its judges.
    """
    ruler = {"judge_fingerprint": judges or {}} | scoring.get("ruler", {})
    recorded = {
        name: content_of(ruler, name, [metric])
        for name in ("golden", "judge_fingerprint", "metric_versions", "fields")
    }
    parts = {
        "labels": scoring.get("golden_hash") or golden,
        CONTENT: recorded["golden"] or None,
        "profile": scoring.get("profile") or "none",
    }
    parts |= {
        f"policy {name}": value
        for name, value in scoring.get("policies", {}).items()
        if name != "match"
    }
    if describe(metric).kind not in ("time", "cost"):
        parts |= {"level": scoring.get("level"), "rule": scoring.get("rule"), "chunker": chunker}
    parts |= {
        f"judge of {name}": _judge_text(settings)
        for name, settings in recorded["judge_fingerprint"].items()
    }
    parts |= {
        f"version of {name}": version for name, version in recorded["metric_versions"].items()
    }
    parts |= {
        f"result field {name}": "recorded" if there else "not recorded"
        for name, there in recorded["fields"].items()
    }
    return {
        name: str(value) for name, value in parts.items() if value is not None and value == value
    }


def _judge_text(settings: list[dict[str, Any]]) -> str:
    """Judges as text; temperatures that differ by rounding only are the same."""
    return settings_text(
        [
            one | ({"temperature": round(one["temperature"], 2)} if "temperature" in one else {})
            for one in settings
        ]
    )


def segments(parts: dict[str, Parts]) -> list[Segment]:
    """Runs in their order -> segments.

    What is not stated contradicts nothing; a name that labels go by is no change where their
    content is known to be the same.
    """
    found: list[Segment] = []
    for run_id, own in parts.items():
        last = found[-1] if found else None
        changed = contradictions(last.parts, own) if last else ()
        if last and not changed:
            found[-1] = Segment(
                last.number,
                (*last.run_ids, run_id),
                last.parts | own,
                last.like,
                last.break_reason,
                last.changed,
            )
        else:
            words = "; ".join(_words(name, last.parts, own) for name in changed) if last else ""
            found.append(Segment(len(found) + 1, (run_id,), own, len(found) + 1, words, changed))
    return _returns(found)


def contradictions(a: Parts, b: Parts) -> tuple[str, ...]:
    """The components that both state, and not alike."""
    # a hash of all, notes included, says nothing beside one of what measures
    named = {"labels"} if CONTENT in a and CONTENT in b else set()
    return tuple(name for name in a if name in b and a[name] != b[name] and name not in named)


def _returns(found: list[Segment]) -> list[Segment]:
    """The segments, each with the first one that its ruler measured before."""
    out: list[Segment] = []
    for one in found:
        like = next(
            (other.like for other in out if not contradictions(other.parts, one.parts)), one.number
        )
        out.append(Segment(one.number, one.run_ids, one.parts, like, one.break_reason, one.changed))
    return out


def _words(name: str, before: Parts, now: Parts) -> str:
    a, b = before[name], now[name]
    if name in ("labels", CONTENT) and "labels" in before and "labels" in now:
        # the names that a store lists its golden sets by
        a, b = before["labels"][:SHORT], now["labels"][:SHORT]
    if name == "chunker":
        a, b = _differing(a, b)
    return f"{NAMES.get(name, name)} ({a} → {b})"


def _differing(a: str, b: str) -> tuple[str, str]:
    """Two versions without the parts (joined by +) that they share."""
    first, second = a.split("+"), b.split("+")
    return (
        "+".join(part for part in first if part not in second) or a,
        "+".join(part for part in second if part not in first) or b,
    )


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
        The ruler of each run by component (`ragscore.analysis.trend.history`).
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
        warn(f"left out, having no {order}: {', '.join(without)}")
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
