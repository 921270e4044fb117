"""Make what a store keeps of a scoring: scores, means, and what measured them.

In: scores of runs. Out: for each run its scores, and what its `run-….json` says of them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden
from ragscore.frames.golden_versions import query_parts
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.policies import Policies
from ragscore.scoring.provenance import provenance_of
from ragscore.scoring.readings import find_reading
from ragscore.scoring.rules import Rule
from ragscore.scoring.summary import STATISTICS, metric_columns, summarize, with_saved
from ragscore.store.runs import Draft
from ragscore.store.scale import StoredScores
from ragscore.store.tables import rows_of_run, write_table

PROFILE = "profile"
DECLARED = "declared"  # the field of run.json that holds metrics and columns of your own
# Scores, their summary, what is kept of the scoring of each run, and the golden set's hashes.
Kept = tuple[pd.DataFrame, pd.DataFrame, dict[str, dict[str, Any]], pd.DataFrame]


@dataclass(frozen=True)
class Request:
    """Golden set, rule and choices to score runs by.

    `choices` are policies of `rs.score` by name, and `profile`, a profile's name or None.
    `metrics` are scored beside every default one. `primary` are the metrics that decide, kept
    beside the scores; empty: the default ones. `own` are columns of your own after run_id and
    query_id, and `declared` is what they mean.
    """

    golden: Golden
    rule: Rule | None
    choices: dict[str, Any]
    metrics: tuple[str, ...] = ("all",)
    primary: tuple[str, ...] = ()
    own: pd.DataFrame | None = None
    declared: MetricTable = TABLE

    @property
    def how(self) -> dict[str, Any]:
        """The keywords of `rs.score`."""
        reading = find_reading(self.choices.get(PROFILE))
        given = {name: value for name, value in self.choices.items() if name != PROFILE}
        policies = Policies.of(given, reading.policies)
        return {"rule": self.rule, "profile": reading, "policies": policies}


def kept_of(found: StoredScores, request: Request) -> Kept:
    """Return scores with columns of your own, their summary, and what is kept of each scoring."""
    made_by, golden, scores = found.settings().iloc[0], request.golden, found.scores
    policies, profile = request.how["policies"], request.choices.get(PROFILE)
    scoring = {name: str(made_by[name])
               for name in ("level", "left_out", "chunker_version_match", "rule")} | {
        "n_expected": len(golden.queries), "golden_hash": golden.golden_hash,
        "match": policies.match, "policies": asdict(policies), PROFILE: profile,
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
    at_once = found.rows if found.expected is None else None
    summary = summarize(scores, golden, rows=at_once, table=request.declared)
    if found.expected is not None:
        keys = ["run_id", "metric"]
        sums = found.expected.astype(dict.fromkeys(keys, "str")).groupby(keys)["n_expected"].sum()
        cells = pd.MultiIndex.from_frame(summary[keys].astype("str"))
        told = sums.reindex(cells).to_numpy()
        summary["n_expected"] = np.where(np.isnan(told), summary["n_expected"], told).astype(int)
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
    rows = reported[reported["query_id"].eq("").to_numpy()]
    named = rows["label"].fillna(rows["metric"]) if "label" in rows else rows["metric"]
    statistic = rows["statistic"].fillna("mean") if "statistic" in rows else "mean"
    rows = rows.assign(metric=named, statistic=statistic)
    rows = rows[rows["statistic"].isin(STATISTICS)]
    found: dict[str, dict[str, Any]] = {}
    for metric, name, value in zip(rows["metric"], rows["statistic"], rows["value"], strict=True):
        found.setdefault(metric, {})[name] = None if pd.isna(value) else float(value)
    return found


def choices_of(scoring: Mapping[str, Any]) -> dict[str, Any]:
    """Return policies and profile of a stored scoring; of none, the defaults."""
    return asdict(Policies()) | scoring.get("policies", {}) | {PROFILE: scoring.get(PROFILE)}


def is_made_otherwise(scoring: Mapping[str, Any], made_by: Mapping[str, Any]) -> bool:
    """Tell if a stored scoring was made by another golden set, level or policies than these."""

    def known(value: Any) -> Any:  # the level that `match` led to is compared, not `match`
        return value if isinstance(value, str) else {**value, "match": None}

    return any(known(scoring.get(name, {})) != known(value) for name, value in made_by.items())


def check_choices(wanted: dict[str, Any]) -> None:
    """Refuse an unknown policy, value of one, or profile."""
    reading = find_reading(wanted.get(PROFILE))
    Policies.of({name: value for name, value in wanted.items() if name != PROFILE})
    if not isinstance(wanted.get(PROFILE), (str, type(None))):
        raise DataError(
            f"found a reading of your own, {reading.name!r}",
            field=PROFILE,
            allowed="a profile by its name: a store keeps names",
        )
