"""Runs in their order: values of one metric, and the provenance of each run's values.

In: a store, or scores with the results they were made of. Out: a `History`, from which trends and
noise are computed, and its `Segment`s: runs in a row whose values were computed the same way.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ragscore.analysis.reported import label_of, reported_summary
from ragscore.frames.config import dumped, flat, parsed
from ragscore.frames.data import DataError, Results, check_type, run_names
from ragscore.frames.errors import excerpt, name_list, nearest, warn
from ragscore.frames.kinds import KINDS, cast
from ragscore.scoring.metrics import (
    CRITERIA,
    TABLE,
    MetricTable,
)
from ragscore.scoring.metrics.judged import FAILED
from ragscore.scoring.own import from_plain
from ragscore.scoring.provenance import judges_by_criterion, relevant, settings_text
from ragscore.scoring.summary import STATISTICS, metric_columns
from ragscore.store.store import RunStore

RUN_COLUMNS = ("system", "created_at", "repeat", "config", "chunker_version", "golden_hash", "note")
SCORE_KEYS = ("run_id", "query_id", "state", "level")
SEEDS = ("seed", "random_state", "repeat")  # config keys in which repeats of one system differ
CONTENT = "label content"
VALUES = "values"  # who computed them: a run that only reports means, or this library
REPORTED, COMPUTED = "as reported", "scored here"
LABELS_OF_RUN = ("eval_set_commit_hash", "dataset_version")  # what a run says of its eval set
JUDGE_OF_RUN = ("judge_model", "judge_prompt_version", "judge_temperature")
CHANGES = {
    "labels": "other labels",
    CONTENT: "other labels",
    "chunker": "passages cut anew",
    "level": "other match level",
    "rule": "other rule",
    "judge": "other judge",
    "eval_set_commit_hash": "other eval set",
    "dataset_version": "other dataset_version",
    VALUES: "values from elsewhere",
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
    told
        Statistics of the metric (those of `ev.summary`) that runs have stored, by run id.
    reported
        The runs without rows, of which nothing else is known.
    declared
        What is declared of the metric, if it is a column of your own.
    """

    metric: str
    scores: pd.DataFrame
    told: pd.DataFrame
    reported: list[str]
    runs: pd.DataFrame
    provenance: dict[str, Provenance]
    declared: MetricTable

    def scores_of(self, run_ids: list[str]) -> pd.DataFrame:
        """Scores of some runs."""
        return self.scores[self.scores["run_id"].isin(run_ids)]

    def scored(self, run_ids: Sequence[str]) -> list[str]:
        """Those of the runs that have rows."""
        return [run_id for run_id in run_ids if run_id not in self.reported]


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
    """

    number: int
    run_ids: tuple[str, ...]
    provenance: Provenance
    same_as: int
    break_reason: str


def read_history(
    source: RunStore | pd.DataFrame,
    metric: str,
    *,
    results: Results | None = None,
    reported: Results | None = None,
    order: str | list[str] = "created_at",
    repeats: list[str] | None = None,
    declared: MetricTable = TABLE,
    with_rows: bool = False,
) -> History:
    """Read a store, or scores with their results; see `store.trend` for the arguments.

    A store gives the means that its runs have stored; scores, of repeats alone unless `with_rows`.
    """
    check_type(source, (RunStore, pd.DataFrame), "source", "a RunStore, or the frame of rs.score")
    check_type(results, (Results, type(None)), "results")
    load: Callable[[list[str]], Results] | None = None
    if isinstance(source, RunStore):
        table: pd.DataFrame = source.runs()
        names = run_names(table, order if isinstance(order, list) else table["run_id"])
        scores, scorings = pd.DataFrame(columns=[*SCORE_KEYS, metric]), source._scorings(names)
        means = source._means(names)
        alone = means.loc[means["is_reported"], "run_id"].unique().tolist()
        own_names = means["run_id"].isin([name for name in alone if not scorings[name]])
        theirs = means["metric"].where(
            ~own_names, means["metric"].map(lambda one: label_of(one) or one)
        )
        told = means[theirs.eq(metric).to_numpy()].set_index("run_id")[list(STATISTICS)]
        known = theirs.unique().tolist()
        if lacking := [name for name in names if name not in told.index and name not in alone]:
            raise DataError(
                f"no stored mean of {metric}: {name_list(lacking)}",
                field="metric",
                allowed=f"store.evaluate(golden, [{metric!r}]).trend({metric!r}), or "
                + nearest(metric, known),
            )
        saved = [
            one
            for scoring in scorings.values()
            for one in from_plain(scoring.get("declared", {}))
            if one.base == metric.partition("@")[0]
        ]
        declared = TABLE.with_metrics(saved)
    else:
        table, scores, scorings = _runs_of_scores(source, results), source, {}
        load = results.select if results is not None else None
        if reported is not None:
            own = reported.runs.astype({"run_id": "str"})
            table = pd.concat([table, own[~own["run_id"].isin(table["run_id"])]])
        alone, told = _run_ids(reported), _told(reported, metric)
        known = [] if reported is None else reported_summary(reported)["metric"].unique().tolist()
    rows = (scores if "query_id" in scores else scores.reset_index()).reset_index(drop=True)
    keys = list(SCORE_KEYS)
    if missing := [name for name in keys if name not in rows]:
        raise DataError(
            f"no {', '.join(missing)}",
            field="source",
            allowed="a RunStore, or the frame of rs.score",
        )
    silent = [name for name in alone if name not in told.index]
    if metric not in rows and not len(told):
        raise DataError(
            f"no column {excerpt(metric)}",
            field="metric",
            allowed=nearest(metric, [*metric_columns(rows), *known], "scores has"),
        )
    if silent:
        warn(f"left out, reporting no {metric} and having no rows: {', '.join(silent)}")
        table = table[~table["run_id"].astype("str").isin(silent)]
        order = [name for name in order if name not in silent] if isinstance(order, list) else order
    table = table.assign(run_id=table["run_id"].astype("str"))
    if "created_at" in table:  # may have been put in after loading
        table["created_at"] = cast(table["created_at"], KINDS["runs"].dtypes["created_at"], "runs")
    runs = _sort_runs(table.set_index("run_id"), order)
    runs = runs.reindex(columns=list(dict.fromkeys([*runs.columns, *RUN_COLUMNS])))
    rows = rows.reindex(columns=[*keys, metric]).astype({"run_id": "str", metric: "float64"})
    rows = rows[rows["run_id"].isin(runs.index)]
    told = told[told.index.isin(runs.index)]
    alone = [name for name in alone if name in told.index]
    provenance = _provenances(rows, runs, scorings, metric, load, alone)
    # means that were only reported say nothing of the spread over queries
    scored = runs.drop(index=alone)
    group = _repeat_groups(scored, provenance, repeats)
    group_of = dict(zip(scored.index, group, strict=True))
    runs = runs.assign(group=[group_of.get(run_id, -1) for run_id in runs.index])
    if isinstance(source, RunStore):
        needed = scored.index if with_rows else runs.index[runs["group"] >= 0]
        if len(needed):
            found = source._stored_scores(needed.tolist(), [metric]).reset_index()
            rows = found[[*keys, metric]].astype({"run_id": "str"})
    return History(metric, rows, told, alone, runs, provenance, declared)


def _run_ids(results: Results | None) -> list[str]:
    return [] if results is None else results.runs["run_id"].astype("str").tolist()


def _told(reported: Results | None, metric: str) -> pd.DataFrame:
    """Return what runs report of one metric, a row for each of them, NaN where it says nothing.

    Empty if no run reports it.
    """
    columns = list(STATISTICS)
    found = pd.DataFrame({name: pd.Series(dtype="float64") for name in columns})
    found.index = pd.Index([], dtype="str", name="run_id")
    if reported is None:
        return found
    rows = reported_summary(reported)
    rows = rows[rows["metric"].eq(metric).to_numpy()].set_index("run_id")[columns]
    return rows.reindex(_run_ids(reported)).rename_axis("run_id") if len(rows) else found


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
            reason = _reason(changed, last.provenance, own) if last else ""
            number = len(segments) + 1
            segments.append(Segment(number, (run_id,), own, number, reason))
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
    recorded = relevant(recorded, [metric])
    parts = {
        "labels": scoring.get("golden_hash") or golden,
        CONTENT: recorded["golden"] or None,
        "profile": scoring.get("profile") or "none",
    }
    for name, value in scoring.get("policies", {}).items():
        if name != "match":
            parts[f"policy {name}"] = value
    if TABLE.describe(metric).kind not in ("time", "cost"):
        parts |= {"level": scoring.get("level"), "rule": scoring.get("rule"), "chunker": chunker}
    for name, settings in recorded["judge_fingerprint"].items():
        # temperatures that differ by rounding only give the same text
        rounded = [
            judge | {"temperature": round(judge["temperature"], 2)}
            if "temperature" in judge
            else judge
            for judge in settings
        ]
        parts[f"judge of {name}"] = settings_text(rounded)
    for name, version in recorded["metric_versions"].items():
        parts[f"version of {name}"] = version
    for name, is_recorded in recorded["fields"].items():
        parts[f"result field {name}"] = "recorded" if is_recorded else "not recorded"
    # NaN, which differs from itself, is as unknown as None
    return {
        name: str(value) for name, value in parts.items() if value is not None and value == value
    }


def _reason(changed: Sequence[str], before: Provenance, now: Provenance) -> str:
    """Describe what changed."""
    return "; ".join(
        f"{CHANGES.get(name, name)} ({' → '.join(_change(name, before, now))})" for name in changed
    )


def _change(name: str, before: Provenance, now: Provenance) -> tuple[str, str]:
    """Return the two contents of one component, as short as they can be told apart."""
    a, b = before[name], now[name]
    if name in ("labels", CONTENT) and "labels" in before and "labels" in now:
        # a store lists its golden sets by these hashes
        a, b = before["labels"][:SHORT], now["labels"][:SHORT]
    if name in LABELS_OF_RUN and a[:SHORT] != b[:SHORT]:
        a, b = a[:SHORT], b[:SHORT]
    if joint := {"chunker": "+", "judge": ", "}.get(name):  # leave out the parts that both have
        first, second = a.split(joint), b.split(joint)
        a = joint.join(part for part in first if part not in second) or a
        b = joint.join(part for part in second if part not in first) or b
    return a, b


def _reported_provenance(run: dict[str, Any], metric: str) -> Provenance:
    """Return what a run that only reports means says of how they were measured.

    Its config and its own fields name the eval set and the judge; a golden set is named by its
    hash.
    """
    config = parsed(run.get("config"))
    config = config if isinstance(config, dict) else {}
    stated = {name: config.get(name, run.get(f"x_{name}")) for name in LABELS_OF_RUN}
    parts = {VALUES: REPORTED, "labels": run.get("golden_hash"), **stated}
    if TABLE.describe(metric).kind not in ("time", "cost"):
        parts["chunker"] = run.get("chunker_version")
    if metric in (*CRITERIA, FAILED):
        judge = [config.get(name) for name in JUDGE_OF_RUN]
        names = ("", "prompt ", "temperature ")
        told = [
            f"{name}{value:g}" if isinstance(value, float) else f"{name}{value}"
            for name, value in zip(names, judge, strict=True)
            if value is not None
        ]
        parts["judge"] = ", ".join(told) or None
    return {
        name: str(value) for name, value in parts.items() if value is not None and value == value
    }


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
    if not len(runs):
        return runs.reindex(columns=list(dict.fromkeys([*runs.columns, "run_id", *recorded])))
    return runs.join(recorded[[name for name in recorded if name not in own]], on="run_id")


def _sort_runs(runs: pd.DataFrame, order: str | list[str]) -> pd.DataFrame:
    """Sort the runs; those without a value in the column `order` are left out, with a warning."""
    if isinstance(order, list):
        names = run_names(runs.reset_index(), order)
        if len(set(names)) < len(names):
            raise DataError(f"found {order}", field="order", allowed="each run once")
        return runs.loc[names]
    check_type(order, str, "order", "a column of the runs, or a list of run ids")
    dated = ", or dates in results.runs['created_at']" if order == "created_at" else ""
    if order not in runs:
        raise DataError(
            f"no column {excerpt(order)}",
            field="order",
            allowed=nearest(order, runs.columns, f"a list of run ids{dated}, or one of")
            if len(runs.columns)
            else "a list of run ids, or results= that say of each run",
        )
    without = runs.index[runs[order].isna()].tolist()
    if len(without) == len(runs):
        raise DataError(
            f"no run has a {order}", field="order", allowed=f"run ids in their order{dated}"
        )
    if without:
        warn(f"left out, having no {order}: {', '.join(without)}")
    return runs.drop(index=without).sort_values(order, kind="stable")


def _provenances(
    rows: pd.DataFrame,
    runs: pd.DataFrame,
    scorings: dict[str, dict[str, Any]],
    metric: str,
    load: Callable[[list[str]], Results] | None,
    reported: list[str],
) -> dict[str, Provenance]:
    """Return each run's provenance, from its recorded scoring or else from its scores.

    A run that only reports means has what its description says.
    """
    judges: dict[str, Any] = {}
    with_rows = runs.index.difference(reported, sort=False).tolist()
    if metric in (*CRITERIA, FAILED) and load is not None and with_rows:
        judges = judges_by_criterion(load(with_rows))
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
    foreign = [run_id for run_id in reported if not scorings.get(run_id)]
    by_whom = {VALUES: COMPUTED} if foreign else {}
    found = {}
    for run_id in runs.index:
        if run_id in foreign:
            run = runs.loc[run_id].astype(object)
            found[run_id] = _reported_provenance(run.where(run.notna(), None).to_dict(), metric)
            continue
        found[run_id] = by_whom | provenance_of(
            scorings.get(run_id) or {"level": levels.get(run_id)},
            metric,
            chunker=chunkers[run_id],
            golden=goldens[run_id],
            judges=judges.get(run_id),
        )
    return found


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
        else (
            str(system),
            dumped(_drop_seeds(parsed(config))),
            json.dumps(provenance[run_id], sort_keys=True),
        )
        for run_id, repeat, system, config in zip(runs.index, *columns, strict=True)
    ]
    several = [key for key in dict.fromkeys(keys) if key is not None and keys.count(key) > 1]
    return [several.index(key) if key in several else -1 for key in keys]


def _drop_seeds(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _drop_seeds(inner) for key, inner in value.items() if key not in SEEDS}


def config_changes(runs: pd.DataFrame) -> dict[str, str]:
    """Return run id -> what differs from the config of the same system's run before.

    Seeds and the chunker's version are left out: repeats differ in the one, and a segment's break
    tells the other.
    """
    before: dict[str, dict[str, str]] = {}
    found = {}
    for run_id, system, text in zip(runs.index, runs["system"], runs["config"], strict=True):
        config = parsed(text)
        own = flat(_drop_seeds(config)) if isinstance(config, dict) else {}
        own = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in own.items()
        }
        own.pop("chunker_version", None)
        last = before.get(str(system))
        if last is not None and own:
            changed = [key for key in dict.fromkeys([*last, *own]) if last.get(key) != own.get(key)]
            if changed:
                found[str(run_id)] = ", ".join(
                    f"{key.rpartition('.')[2]} {last.get(key, 'unset')}→{own.get(key, 'unset')}"
                    for key in changed
                )
        if own:
            before[str(system)] = own
    return found
