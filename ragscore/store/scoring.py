"""Make what a store keeps of a scoring: scores, means, and what measured them.

In: results in memory, or a run whose tables are written, and a `ScoringRequest`. Out: for each run
what `tables.write_scores` writes. Results in memory are one part, whatever runs they hold.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, empty, from_records
from ragscore.frames.errors import warn
from ragscore.frames.golden_versions import query_parts
from ragscore.scoring.ids import join_notes
from ragscore.scoring.level import Level, choose_level
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.own import DECLARED, to_plain
from ragscore.scoring.policies import Policies, policies_of
from ragscore.scoring.provenance import metric_versions, provenance_of
from ragscore.scoring.readings import Reading, find_reading
from ragscore.scoring.rows import Rows
from ragscore.scoring.rules import Rule, rule_name
from ragscore.scoring.score import (
    ALL,
    DEFAULT,
    Asked,
    asked_of,
    labels_of,
    notes_on_hits,
    notes_on_queries,
    settings_of,
    table_of,
)
from ragscore.scoring.summary import metric_columns, summarize, with_saved
from ragscore.store.level_search import find_level
from ragscore.store.parquet import read_each
from ragscore.store.part_scoring import (
    ScoringJob,
    assemble,
    batches_of,
    reads_text,
    run_each,
    score_batch,
)
from ragscore.store.parts import judged_metrics_of, parts_of, statistics_of
from ragscore.store.runs import StoredRun
from ragscore.store.tables import read_runs, rows_of_run

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
    def reading(self) -> Reading:
        """The reading of the profile that is named, else ours."""
        return find_reading(self.choices.get(PROFILE))

    @property
    def policies(self) -> Policies:
        """Every policy, as the profile leaves them."""
        given = {name: value for name, value in self.choices.items() if name != PROFILE}
        return policies_of(None, given, self.reading.policies)

    def job_for(self, results: Results) -> ScoringJob:
        """The job that scores these runs, before its match level is known."""
        labels = labels_of(results, self.golden, [ALL], self.reading)
        return ScoringJob(self.golden, labels, self.rule, self.reading, self.policies)


@dataclass(frozen=True)
class StoredScores:
    """The frame of `rs.score` of stored runs, and what it was made by."""

    scores: pd.DataFrame
    settings: pd.DataFrame
    table: MetricTable


def score_stored_runs(
    runs: list[StoredRun],
    about: pd.DataFrame,
    golden: Golden,
    metrics: Asked,
    rule: Rule | None,
    reading: Reading,
    policies: Policies,
    *,
    client: Any,
    part_hits: int | None,
) -> StoredScores:
    """Score stored runs part by part. `about` holds their rows of the runs frame."""
    judged = pd.DataFrame({"criterion": sorted(set().union(*map(judged_metrics_of, runs)))})
    known = Results(runs=about, responses=empty("responses"))
    asked = asked_of(metrics)
    if DEFAULT in asked:
        # what the data supports is known of whole runs alone: the first one stands for all
        first = read_runs(runs[:1], about.iloc[:1])
        asked = [*(one for one in asked if one != DEFAULT),
                 *labels_of(first, golden, [DEFAULT], reading)]  # fmt: skip
    elif ALL in asked:
        asked = [*asked, *(name for name in judged["criterion"] if name in TABLE)]
    table = table_of(metrics)
    labels = labels_of(known, golden, asked, reading, table)
    job = ScoringJob(golden, labels, rule, reading, policies)
    job, scores = _score_parts(runs, about, job, part_hits or job.part_hits, client)
    assert job.level is not None
    _warn(scores, job, metrics)
    settings = settings_of(about, golden, job.level, rule, reading, policies)
    primary = [shown_primary(run) for run in runs]
    return StoredScores(scores, settings.assign(primary=primary), table)


def _warn(scores: pd.DataFrame, job: ScoringJob, asked: Asked = None) -> None:
    """Warn of what means of whole runs leave out."""
    assert job.level is not None
    for note in notes_on_queries(
        scores, job.golden, job.labels, job.level, job.reading, job.policies, asked
    ):
        warn(note)


def _score_parts(
    runs: list[StoredRun], about: pd.DataFrame, job: ScoringJob, part_hits: int, client: Any
) -> tuple[ScoringJob, pd.DataFrame]:
    """Score runs part by part; return the job with its match level, and the scores."""
    parts = read_each(
        lambda at: parts_of(runs[at], about.iloc[at : at + 1], part_hits), range(len(runs))
    )
    groups = batches_of(parts, len(job.golden.queries), part_hits)
    job = find_level(groups, job, client)
    batches = [batch for group in groups for batch in group]
    run_ids = [run.run_id for run in runs]
    with closing(run_each(score_batch, batches, job, client)) as scored:
        scores, doubted = assemble(batches, scored, job, run_ids)
    for at in map(run_ids.index, doubted):
        _warn_of_ids(runs[at], about.iloc[at : at + 1], job)
    return job, scores


def _warn_of_ids(run: StoredRun, about: pd.DataFrame, job: ScoringJob) -> None:
    """Warn of ids that don't join, as of the whole run: a part doesn't know the others' ids."""
    assert job.level is not None
    results = job.policies.lists(read_runs([run], about, ("hits",), job.without))
    golden, of_hits = job.reading.golden(job.golden)
    for note in join_notes(Rows(results, golden, job.level, of_hits, job.rule, job.reading)):
        warn(note)


def score_results(results: Results, request: ScoringRequest) -> dict[str, dict[str, Any]]:
    """Score runs in memory, at one match level for all. Return what a store keeps of each run.

    Its `scores`, their `summary`, the `scoring` that made them, with its provenance, and the hashes
    of `golden`.
    """
    job = request.job_for(results)
    of_hits = job.reading.golden(job.golden)[1]
    lists = job.policies.lists(results)
    job = replace(job, level=choose_level(lists, of_hits._coded, job.policies.match))
    found = job.scores_of(results, job.golden)
    for note in notes_on_hits(found.rows, job.labels):
        warn(note)
    return _per_run(results, request, job, found.scores, found.rows)


def score_written_run(run: StoredRun, beside: Results, request: ScoringRequest) -> dict[str, Any]:
    """Score a run part by part. Return what `score_results` gives of the whole run.

    Parameters
    ----------
    run
        Its tables, with the hits' texts as they are if the scores may depend on them.
    beside
        Its row of the runs frame, and its judgments.
    """
    job, scores = _score_parts(
        [run], beside.runs, request.job_for(beside), request.job_for(beside).part_hits, None
    )
    assert job.level is not None
    kinds = ("responses", "citations", "chunks", "calls")
    # one hit stands for all where it only counts which columns hold values
    filled = statistics_of(run, "hits")
    known = {name: "?" for name in ("chunk_id", "text") if filled.get(name)}
    hit = {"run_id": run.run_id, "query_id": "", "rank": 1} | known
    hits, judgments = from_records([hit], "hits"), beside.judgments
    whole = replace(read_runs([run], beside.runs, kinds), hits=hits, judgments=judgments)
    golden, of_hits = job.reading.golden(job.golden)
    rows = Rows(whole, golden, job.level, of_hits, job.rule, job.reading)
    return _per_run(whole, request, job, scores, rows)[run.run_id]


def _per_run(
    results: Results, request: ScoringRequest, job: ScoringJob, scores: pd.DataFrame, rows: Rows
) -> dict[str, dict[str, Any]]:
    """Split scores and what is known of them by run; warn of missing values."""
    level, golden = job.level, request.golden
    assert level is not None
    if request.own is None or len(golden.targets):
        _warn(scores, job)
    scoring = _described(level, job, golden)
    if request.primary:
        scoring["primary"] = list(request.primary)
    if request.own is not None:
        scores = with_saved(scores, request.own)
        own = {one.base: one for one in request.declared.own}
        scoring[DECLARED] = {
            name: next(iter(to_plain([own[base]]).values())) if base in own else {}
            for name in map(str, request.own.columns[2:])
            for base in [name.partition("@")[0] if name not in own else name]
        }
    provenance = provenance_of(rows, job.policies, metric_columns(scores), request.declared)
    hashes = query_parts(golden).reset_index()
    summary = summarize(scores, golden, rows=rows, table=request.declared)
    return {
        run_id: {
            "scores": rows_of_run(scores, run_id),
            "scoring": scoring | {"provenance": provenance[run_id]},
            "summary": summary[summary["run_id"] == run_id],
            "golden": hashes.assign(run_id=run_id),
        }
        for run_id in results.runs["run_id"].astype("str")
    }


def _described(level: Level, job: ScoringJob, golden: Golden) -> dict[str, Any]:
    """Return what run.json holds of a scoring."""
    return {
        "level": level.name, "left_out": level.left_out,
        "chunker_version_match": level.chunker_version_match,
        "n_expected": len(golden.queries), "golden_hash": golden.golden_hash,
        "rule": rule_name(job.rule, level.name), "match": job.policies.match,
        "policies": asdict(job.policies), PROFILE: job.reading.name or None,
    }  # fmt: skip


def shown_primary(run: StoredRun) -> str:
    """Return the primary metrics that a run was saved with, joined by a comma."""
    primary = run.scoring.get("primary", [])
    return ", ".join(map(str, primary)) if isinstance(primary, list) else ""


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
        if scoring.get("rule") != rule_name(None, str(scoring.get("level"))):
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
