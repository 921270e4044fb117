"""Make what a store keeps of a scoring: scores, means, and what measured them.

In: scores of runs. Out: for each run its scores, and what its `run-….json` says of them.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import name_list, warn
from ragscore.frames.golden_versions import query_parts
from ragscore.scoring.metrics import TABLE, Metric, MetricTable
from ragscore.scoring.policies import Policies
from ragscore.scoring.provenance import provenance_of
from ragscore.scoring.readings import READINGS, Reading, find_reading
from ragscore.scoring.rules import Rule
from ragscore.scoring.score import Scored
from ragscore.scoring.summary import STATISTICS, metric_columns, summarize, with_saved
from ragscore.store.runs import Draft
from ragscore.store.tables import rows_of_run, write_table

PROFILE = "profile"
DECLARED = "declared"  # the field of run.json that holds metrics and columns of your own
# Scores, their summary, what is kept of the scoring of each run, and the golden set's hashes.
Kept = tuple[pd.DataFrame, pd.DataFrame, dict[str, dict[str, Any]], pd.DataFrame]


@dataclass(frozen=True)
class Request:
    """Golden set, rule, policies and profile to score runs by.

    `metrics` are scored beside every default one. `primary` are the metrics that decide, kept
    beside the scores; empty: the default ones. `own` are columns of your own after run_id and
    query_id, and `declared` is what they mean.

    Raises
    ------
    DataError
        A reading of your own as profile: a store keeps names.
    """

    golden: Golden
    rule: Rule | None
    policies: Policies
    profile: str | None
    metrics: tuple[str, ...] = ("all",)
    primary: tuple[str, ...] = ()
    own: pd.DataFrame | None = None
    declared: MetricTable = TABLE

    def __post_init__(self) -> None:
        if isinstance(self.profile, Reading):
            raise DataError(
                f"found a reading of your own, {self.profile.name!r}",
                field=PROFILE,
                allowed="a profile by its name: a store keeps names",
            )

    @property
    def how(self) -> dict[str, Any]:
        """The keywords of `rs.score`."""
        reading = find_reading(self.profile)
        return {"rule": self.rule, "profile": reading, "policies": self.policies}


def request_of(ev: Any) -> Request:
    """Return what an evaluation was scored by, with the columns that can't be scored again."""
    names = metric_columns(ev.scores)
    own = [
        name
        for name in names
        if ev._declared.is_own(name) or ev._declared.describe(name).source or name in ev._stored
    ]
    # of a report without hits all else would be 0 of nothing
    every = "default" if ev._stored and not len(ev.results.hits) else "all"
    columns = ev.scores.reset_index()[["run_id", "query_id", *own]].astype({"run_id": "str"})
    return Request(
        ev.golden, ev._rule, ev._policies,
        # a reading of your own has no name here
        next((name for name, one in READINGS.items() if one == ev._profile), ev._profile),
        metrics=(every, *(name for name in names if name not in own)),
        primary=ev.primary, own=columns if own else None, declared=ev._declared,
    )  # fmt: skip


def kept_of(found: Scored, request: Request, counted: pd.DataFrame | None = None) -> Kept:
    """Return scores with columns of your own, their summary, and what is kept of each scoring.

    `counted` are the numbers of expected values where not all was scored at once.
    """
    made_by, golden, scores = found.settings.iloc[0], request.golden, found.scores
    policies = request.policies
    scoring: dict[str, Any] = {name: str(made_by[name])
               for name in ("level", "left_out", "chunker_version_match", "rule")} | {
        "n_expected": len(golden.queries), "golden_hash": golden.golden_hash,
        "match": policies.match, "policies": asdict(policies),
        PROFILE: request.profile,
    }  # fmt: skip
    if request.primary:
        scoring["primary"] = list(request.primary)
    if request.own is not None:
        scores = with_saved(scores, request.own)
        plain = request.declared.to_plain()
        own = {one.base: plain[one.name] for one in request.declared.own}
        scoring[DECLARED] = {
            name: own.get(base, {})
            for name in map(str, request.own.columns[2:])
            for base in [name if name in own else name.partition("@")[0]]
        }
    at_once = found.rows if counted is None else None
    summary = summarize(scores, golden, rows=at_once, table=request.declared)
    if counted is not None:
        keys = ["run_id", "metric"]
        sums = counted.astype(dict.fromkeys(keys, "str")).groupby(keys)["n_expected"].sum()
        cells = pd.MultiIndex.from_frame(summary[keys].astype("str"))
        n = sums.reindex(cells).to_numpy()
        summary["n_expected"] = np.where(np.isnan(n), summary["n_expected"], n).astype(int)
    provenance = provenance_of(found.rows, policies, metric_columns(scores), request.declared)
    kept = {run: scoring | {"provenance": own} for run, own in provenance.items()}
    return scores, summary, kept, query_parts(golden).reset_index()


def write_scores(draft: Draft, kept: Kept) -> dict[str, Any]:
    """Write the scores and golden hashes of a run; return what its file says of them."""
    scores, summary, scorings, hashes = kept
    write_table(draft, "scores", rows_of_run(scores, draft.run_id).reset_index())
    write_table(draft, "golden", hashes)
    own = summary[summary["run_id"].eq(draft.run_id)].set_index("metric")
    means = own[list(STATISTICS)].astype(object)
    return {
        "scoring": scorings[draft.run_id],
        "metrics": means.where(means.notna(), None).to_dict("index"),
    }


def reported_means(reported: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return what a run without rows reports of itself, by metric: ours where it is known."""
    texts = {"metric": "str", "label": "str", "statistic": "str"}
    rows = reported[reported["query_id"].eq("").to_numpy()]
    rows = rows.reindex(columns=[*texts, "value"]).astype(texts)
    rows = rows.fillna({"label": rows["metric"], "statistic": "mean"})
    rows = rows[rows["statistic"].isin(STATISTICS)]
    found: dict[str, dict[str, Any]] = {}
    for metric, name, value in zip(rows["label"], rows["statistic"], rows["value"], strict=True):
        found.setdefault(metric, {})[name] = None if pd.isna(value) else float(value)
    return found


def own_metrics(scoring: Mapping[str, Any]) -> list[Metric]:
    """Return the metrics and columns of your own that a stored scoring declares."""
    # what is declared of mine@5 is declared of the metric mine@k
    declared = {
        f"{name.partition('@')[0]}@k" if one.get("source") and "@" in name else name: one
        for name, one in scoring.get(DECLARED, {}).items()
        if one
    }
    return MetricTable.from_plain(declared).own


def own_columns(
    scorings: Mapping[str, Mapping[str, Any]],
    declared: MetricTable,
    made_by: Mapping[str, Any],
    scored: Collection[str],
) -> tuple[dict[str, list[str]], MetricTable]:
    """Return the columns of your own that runs were saved with, by run, and what is declared.

    Left out are columns that are `scored` now, and those of a metric that is `declared` now, but
    was another function then; and, with a warning, those that were not `made_by` these golden_hash,
    level and policies.

    Raises
    ------
    DataError
        Two runs declare a column differently.
    """

    def known(scoring: Mapping[str, Any]) -> dict[str, Any]:
        stated = {name: scoring.get(name, {}) for name in made_by}
        # the level that `match` led to is compared, not `match`
        return {name: one if isinstance(one, str) else {**one, "match": None}
                for name, one in stated.items()}  # fmt: skip

    by_run = {run: one[DECLARED] for run, one in scorings.items() if one.get(DECLARED)}
    gone = {
        one
        for own in by_run.values()
        for one in own
        if one in scored
        or (not declared.is_own(one) and declared.describe(one).source != own[one].get("source"))
    }
    stale = {
        one
        for run, own in by_run.items()
        if known(scorings[run]) != known(made_by)
        for one in own
        if "source" in own[one] and one not in gone
    }
    if stale:
        warn(
            f"left out: {name_list(sorted(stale))}, scored by another golden set or policy;"
            " metrics=[the metric itself] scores them again"
        )
    kept = {run: [one for one in own if one not in gone | stale] for run, own in by_run.items()}
    named = {one.partition("@")[0] for own in kept.values() for one in own}
    own_of = [one for run in by_run for one in own_metrics(scorings[run]) if one.base in named]
    return kept, declared.with_metrics(own_of)
