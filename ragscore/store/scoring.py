"""Make what a store keeps of a scoring: scores, the matches behind them, and what measured them.

In: results in memory, or a run whose tables are written, and a `ScoringRequest`. Out: for each run
what `tables.write_scores` writes. Results in memory are one part, whatever runs they hold.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, conform, empty, golden_part
from ragscore.frames.golden_versions import query_parts
from ragscore.scoring.grading import (
    count_undecidable,
    level_rule,
    level_rule_name,
    matches_to_store,
)
from ragscore.scoring.rules import rule_name
from ragscore.scoring.level import choose_level
from ragscore.scoring.metrics import DECLARED, MetricTable, TABLE
from ragscore.scoring.score import DEFAULT
from ragscore.scoring.policies import (
    Policies,
    as_recorded,
    policies_of,
    read_refusals,
    resolve_policies,
    with_hits_kept,
)
from ragscore.scoring.readings import Reading, find_reading
from ragscore.scoring.provenance import fields_of, metric_versions, provenance_parts
from ragscore.scoring.targets import LEVELS
from ragscore.scoring.rules import Rule
from ragscore.scoring.score import (
    expected_by,
    keeps_refusals,
    labels_of,
    settings_of,
    warn_of_choices,
    warn_of_gaps,
    warn_of_hits,
)
from ragscore.scoring.summary import metric_columns, summarize, with_saved
from ragscore.store.level_search import find_level
from ragscore.store.parquet import read_each
from ragscore.store.part_scoring import (
    Batch,
    ScoringJob,
    assemble,
    batches_of,
    reads_text,
    run_each,
    score_batch,
)
from ragscore.store.parts import judged_metrics_of, parts_of, read_part, statistics_of
from ragscore.store.runs import StoredRun
from ragscore.store.tables import rows_of_run

PROFILE = "profile"


@dataclass(frozen=True)
class ScoringRequest:
    """Golden set, rule and choices to score runs by.

    `choices` are policies of `rs.score` by name, and `profile`, a profile's name or None.
    `primary` are the metrics that decide, kept beside the scores; empty: the default ones. `own`
    are columns of your own after run_id and query_id, and `declared` is what they mean.
    """

    golden: Golden
    rule: Rule | None
    choices: dict[str, Any]
    primary: tuple[str, ...] = ()
    own: pd.DataFrame | None = None
    declared: MetricTable = TABLE

    @property
    def reads_text(self) -> bool:
        """True if scores may depend on the texts of hits."""
        return reads_text(self.golden, self.rule)

    @property
    def profile(self) -> Reading | None:
        """The profile, if one is named."""
        return find_reading(self.choices.get(PROFILE))

    @property
    def policies(self) -> Policies:
        """Every policy, as the profile leaves them."""
        given = {name: value for name, value in self.choices.items() if name != PROFILE}
        return resolve_policies(self.profile, policies_of(None, given))

    def job_for(self, results: Results) -> ScoringJob:
        """The job that scores these runs, before its match level is known."""
        profile = self.profile
        labels = labels_of(results, None, profile)
        golden = read_refusals(self.golden, profile)
        return ScoringJob(golden, labels, self.rule, profile, self.policies)


@dataclass(frozen=True)
class PartFacts:
    """Facts to store of one part, beside its scores.

    Attributes
    ----------
    matches
        None where a rule of your own would need text that was cut before.
    n_undecidable, fields
        Hits that can't be judged on cut text, and which fields are recorded, by run.
    """

    matches: pd.DataFrame | None
    n_undecidable: pd.Series
    fields: pd.DataFrame


def score_stored_runs(
    runs: list[StoredRun],
    about: pd.DataFrame,
    golden: Golden,
    metrics: list[str] | str | None,
    rule: Rule | None,
    profile: Reading | None,
    policies: Policies,
    *,
    client: Any,
    part_hits: int | None,
    declared: MetricTable = TABLE,
) -> tuple[pd.DataFrame, Callable[[], pd.DataFrame]]:
    """Return the frame of `rs.score` of stored runs, and what tells their settings.

    The latter hashes the golden set, which scoring alone doesn't need. `about` holds their rows of
    the runs frame.
    """
    known = Results(runs=about, responses=empty("responses"))
    are_default = profile is None and (not metrics or DEFAULT in metrics)
    judged = set().union(*map(judged_metrics_of, runs)) if are_default else None
    labels = labels_of(known, metrics, profile, judged, declared)
    resolved = resolve_policies(profile, policies)
    job = ScoringJob(read_refusals(golden, profile), labels, rule, profile, resolved)
    job, _, scores, counts = _score_parts(runs, about, job, part_hits or job.part_hits, client)
    level, primary = job.level, [shown_primary(run) for run in runs]
    assert level is not None
    warn_of_choices(known, golden, metrics, labels, profile, resolved)
    warn_of_gaps(scores, counts, job.golden, labels, level, resolved)

    def settings() -> pd.DataFrame:
        return settings_of(about, golden, level, rule, profile, resolved).assign(primary=primary)

    return scores, settings


def _score_parts(
    runs: list[StoredRun], about: pd.DataFrame, job: ScoringJob, part_hits: int, client: Any
) -> tuple[ScoringJob, list[Batch], pd.DataFrame, pd.DataFrame]:
    """Score runs part by part.

    Returns
    -------
    The job with its match level, the batches, the scores, and what `warn_of_no_value` needs.
    """
    parts = read_each(
        lambda at: parts_of(runs[at], about.iloc[at : at + 1], part_hits), range(len(runs))
    )
    groups = batches_of(parts, len(job.golden.queries), part_hits)
    job = find_level(groups, job, client)
    batches = [batch for group in groups for batch in group]
    run_ids = [run.run_id for run in runs]
    with closing(run_each(score_batch, batches, job, client)) as scored:
        scores, counts = assemble(batches, scored, job, run_ids)
    return job, batches, scores, counts


def score_results(results: Results, request: ScoringRequest) -> dict[str, dict[str, Any]]:
    """Score runs in memory, at one match level for all. Return what a store keeps of each run.

    Its `scores`, their `summary`, the `matches` behind them, the `scoring` that made them, with its
    provenance, and the hashes of `golden`.
    """
    job = request.job_for(results)
    ranked = with_hits_kept(results, job.policies)
    level = choose_level(ranked, job.golden, job.policies.match, keeps_refusals(job.profile))
    job = replace(job, level=level)
    scored = job.scores_of(results, job.golden)
    expected = expected_by(job.golden, job.profile)
    warn_of_hits(scored.evidence(expected), expected, scored.notes)
    facts = _facts_of(results, job, request.golden, job.golden)
    return _per_run(results, request, job, scored.scores, scored.valued(), [facts])


def score_written_run(run: StoredRun, beside: Results, request: ScoringRequest) -> dict[str, Any]:
    """Score a run part by part. Return what `score_results` gives of the whole run.

    Parameters
    ----------
    run
        Its tables, with the hits' texts as they are if the scores may depend on them.
    beside
        Its row of the runs frame, and its judgments.
    """
    job = request.job_for(beside)
    job, batches, scores, counts = _score_parts([run], beside.runs, job, job.part_hits, None)
    facts = []
    for (part,) in batches:
        results, queries = read_part(part, job.without)
        own, read = (
            golden_part(golden, golden.queries[queries.hold(golden.queries["query_id"])])
            for golden in (request.golden, job.golden)
        )
        facts.append(_facts_of(results, job, own, read))
    is_per_query = job.level is not None and job.level.name == "per_query"
    if is_per_query and statistics_of(run, "hits").get("text", False) is not False:
        # The parts may have been read without texts; the file tells that there are some.
        facts[0] = replace(facts[0], fields=facts[0].fields.assign(**{"hits.text": True}))
    return _per_run(beside, request, job, scores, counts, facts)[run.run_id]


def _facts_of(results: Results, job: ScoringJob, golden: Golden, read: Golden) -> PartFacts:
    """Collect the facts of a part; `golden` holds its queries, `read` as the profile reads them."""
    assert job.level is not None
    levels = job.level.used
    rules = {level: job.rule or level_rule(level, results, golden) for level in levels}
    matches = matches_to_store(results, golden, rules, has_own_rule=job.rule is not None)
    n_undecidable = _sum(count_undecidable(results, read, level) for level in levels)
    return PartFacts(matches, n_undecidable, fields_of(results, job.level.name))


def _sum(counts: Iterable[pd.Series]) -> pd.Series:
    """Add counts by run up."""
    return reduce(pd.Series.add, counts)


def _per_run(
    runs: Results,
    request: ScoringRequest,
    job: ScoringJob,
    scores: pd.DataFrame,
    counts: pd.DataFrame,
    facts: list[PartFacts],
) -> dict[str, dict[str, Any]]:
    """Join the facts of all parts, and split everything by run; warn of missing values.

    Of `runs` only the runs frame and judgments are looked at.
    """
    level, golden = job.level, request.golden
    assert level is not None
    is_alone = request.own is not None and not len(golden.targets)
    warn_of_gaps(scores, counts, job.golden, job.labels, level, job.policies, is_alone)
    scoring = {
        "level": level.name,
        "left_out": level.left_out,
        "chunker_version_match": level.chunker_version_match,
        "n_expected": len(job.golden.queries),
        "n_undecidable": 0,
        "golden_hash": golden.golden_hash,
        "rule": rule_of_scoring(level.name, job.rule),
        "match": job.policies.match,
        "policies": as_recorded(job.policies),
        PROFILE: job.profile.name if job.profile else None,
    }
    if request.primary:
        scoring["primary"] = list(request.primary)
    if request.own is not None:
        scores = with_saved(scores, request.own)
        scoring[DECLARED] = {
            name: next(iter(request.declared.of([name]).to_plain().values()), {})
            for name in map(str, request.own.columns[2:])
        }
    n_undecidable = _sum(one.n_undecidable for one in facts)
    fields = _joined_fields([one.fields for one in facts])
    matches = _joined_matches([one.matches for one in facts])
    run_ids = runs.runs["run_id"].astype("str").tolist()
    made_by = scoring | {"policies": json.dumps(as_recorded(job.policies), sort_keys=True)}
    about = pd.DataFrame([made_by | {"run_id": run_id} for run_id in run_ids])
    judges = Results(runs=runs.runs, responses=empty("responses"), judgments=runs.judgments)
    provenance = provenance_parts(judges, golden, metric_columns(scores), about, request.declared)
    hashes = query_parts(golden).reset_index()
    summary = summarize(scores, golden, declared=request.declared)
    kept = {}
    for run_id in run_ids:
        kept[run_id] = {
            "scores": rows_of_run(scores, run_id),
            "scoring": scoring
            | {"n_undecidable": int(n_undecidable[run_id])}
            | {"provenance": provenance[run_id] | {"fields": fields[run_id]}},
            "matches": None if matches is None else rows_of_run(matches, run_id),
            "summary": summary[summary["run_id"] == run_id],
            "golden": hashes.assign(run_id=run_id),
        }
    return kept


def _joined_fields(parts: list[pd.DataFrame]) -> dict[str, dict[str, bool | None]]:
    """Return for each run which fields it records: those that any part does.

    None where no part has anything that could carry the field.
    """
    # None < False < True
    codes = np.max([part.map({None: 0, False: 1, True: 2}.get) for part in parts], axis=0)
    values = pd.DataFrame(codes, index=parts[0].index, columns=parts[0].columns)
    return {
        str(run_id): {str(name): (None, False, True)[code] for name, code in row.items()}
        for run_id, row in values.to_dict("index").items()
    }


def _joined_matches(parts: list[pd.DataFrame | None]) -> pd.DataFrame | None:
    """Return the matches of all parts, level by level; queries that met nothing come last there."""
    frames = [part for part in parts if part is not None]
    if len(frames) < len(parts):
        return None
    if len(frames) == 1:
        return frames[0]
    frames = [part.astype({"run_id": "str"}) for part in frames]
    matches = pd.concat(frames, ignore_index=True)
    level = matches["level"].astype("str").map(LEVELS.index).to_numpy()
    is_match = matches["rank"].gt(0).to_numpy()
    if "undecidable" in matches:
        # A part without undecidable matches has no such column; the whole run has one.
        is_open = matches["undecidable"].isna() & is_match
        has_any = matches["undecidable"].notna().groupby(level).transform("any")
        matches["undecidable"] = matches["undecidable"].mask(is_open & has_any, False)
    return conform(matches.iloc[np.lexsort([~is_match, level])], "matches")


def shown_primary(run: StoredRun) -> str:
    """Return the primary metrics that a run was saved with, joined by a comma."""
    primary = run.scoring.get("primary", [])
    return ", ".join(map(str, primary)) if isinstance(primary, list) else ""


def rule_of_scoring(level: str, rule: Rule | None) -> str:
    """Return the name of the rule that scores were made by: yours, or the level's own."""
    return rule_name(rule) if rule is not None else level_rule_name(level)


def same_scoring(
    scorings: dict[str, dict[str, Any]], metric: str, goldens: Sequence[Golden]
) -> list[tuple[Golden, list[str]]]:
    """Group runs that were scored alike, with the golden set that they were scored by.

    Raises
    ------
    DataError
        None of the golden sets is a run's own, or it was scored by a rule of its caller's.
    """
    label = TABLE.parse(metric).text  # an unknown metric is the first thing to say
    by_hash = {golden.golden_hash: golden for golden in goldens}
    groups: dict[str, tuple[Golden, list[str]]] = {}
    for run_id, scoring in scorings.items():
        if scoring.get("rule") != rule_of_scoring(str(scoring.get("level")), None):
            raise DataError(
                f"{run_id} has no scores of {label}, and was scored by the rule {scoring['rule']}",
                field="metric",
                allowed=f"store.score(golden, ['{label}'], rule=...)",
            )
        golden = by_hash.get(scoring["golden_hash"])
        if golden is None:
            known = ", ".join(name[:8] for name in by_hash) or "none"
            raise DataError(
                f"{run_id} has no scores of {label}; its hits can be scored by the golden set"
                f" {scoring['golden_hash'][:8]}, given: {known}",
                field="golden",
                allowed="golden=, the golden set that the run was scored by",
            )
        key = json.dumps(
            [scoring["golden_hash"], scoring.get("level"), choices_of(scoring)], sort_keys=True
        )
        groups.setdefault(key, (golden, []))[1].append(run_id)
    return list(groups.values())


def with_versions_of_today(scoring: dict[str, Any], metric: str) -> dict[str, Any]:
    """Return a stored scoring with the version that a metric's formula has now."""
    provenance = scoring["provenance"]
    versions = provenance.get("metric_versions", {}) | metric_versions([metric])
    return scoring | {"provenance": provenance | {"metric_versions": versions}}


def choices_of(described: dict[str, Any]) -> dict[str, Any]:
    """Return policies and profile of a stored scoring; of none, the defaults."""
    return asdict(Policies()) | described.get("policies", {}) | {PROFILE: described.get(PROFILE)}


def is_made_otherwise(scoring: Mapping[str, Any], made_by: Mapping[str, Any]) -> bool:
    """Tell if a stored scoring was made by another golden set, level or policies than these."""

    def known(value: Any) -> Any:  # the level that `match` led to is compared, not `match`
        return value if isinstance(value, str) else {**value, "match": None}

    return any(known(scoring.get(name, {})) != known(value) for name, value in made_by.items())


def check_choices(wanted: dict[str, Any]) -> None:
    """Refuse an unknown policy, value of one, or profile."""
    find_reading(wanted.get(PROFILE))
    policies_of(None, {name: value for name, value in wanted.items() if name != PROFILE})
    if not isinstance(wanted.get(PROFILE), (str, type(None))):
        raise DataError(
            "a profile that has no name here",
            field=PROFILE,
            allowed="the name of a profile: a store keeps names",
        )
