"""Two runs compared query by query: what changed, for which queries, and what else differs.

In: results of both runs and a golden set. Out: a `Comparison`, or `RankChanges` without scores and
tests. Both runs are matched here, by the same golden set and at one match level, so that nothing
but the runs can differ.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import pandas as pd

from ragscore.analysis.aggregates import aggregate
from ragscore.analysis.comparison.align import align, clusters_text, expected_in
from ragscore.analysis.comparison.changes import flips, largest_changes, rank_overlap
from ragscore.analysis.comparison.deltas import aspects, level_together, paired_deltas, tails
from ragscore.analysis.comparison.invariants import (
    check_recorded,
    config_diff,
    flag_declared,
    invariants_of,
    profile_invariants,
)
from ragscore.analysis.comparison.model import Comparison, RankChanges
from ragscore.analysis.comparison.profile_report import COMPARISONS, harness_outcomes
from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results, check_inputs, run_names
from ragscore.frames.typing import Codes
from ragscore.scoring.intervals import query_clusters
from ragscore.scoring.level import Level, chunker_versions
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.policies import Policies
from ragscore.scoring.primary import primary_of
from ragscore.scoring.provenance import recorded_parts
from ragscore.scoring.readings import HARNESSES, Reading, find_reading, k_of_runs
from ragscore.scoring.rows import Rows
from ragscore.scoring.rules import Rule
from ragscore.scoring.summary import chosen_columns, metric_columns
from ragscore.scoring.turns import with_turns
from ragscore.stats.verdicts import overall_word

NO_CUT = 2**31 - 1  # rank up to which a hit counts where a profile looks at whole lists
RANKS = ["rank_baseline", "rank_candidate"]
CAUSES = {"chunker_version": "chunker", "k": "k"}
CONFIG = "embedding|prompt"
"""Known causes of a rank change: invariants and their names in a note; parts of config keys."""


def compare_runs(
    results: Results,
    golden: Golden,
    baseline: str,
    candidate: str,
    *,
    scores: pd.DataFrame,
    metrics: list[str] | str | None = None,
    rule: Rule | None = None,
    profile: str | Reading | None = None,
    strict_chunker_version: bool = False,
    cluster: str | None = "group",
    primary: Sequence[str] | None = None,
    vary: list[str] | str | None = None,
    allow_different: bool | str | list[str] = False,
    policies: Policies | None = None,
    declared: MetricTable = TABLE,
    level: float | None = None,
    among: tuple[int, float] | None = None,
    averaged: str = "",
) -> Comparison:
    """Compare two runs query by query, on the queries both have; see `Evaluation.compare`.

    Parameters
    ----------
    scores
        Rows of both runs as `rs.score` made them at this match level, with columns of your own if
        there are any.
    metrics
        Columns of the scores for `deltas`; by default all.
    profile
        Another harness's conventions for aggregates, outcomes and JSON. It has match levels and
        policies of its own, and may want values of the config to agree
        (`HarnessComparison.must_agree`), the chatbot's judge and eval set: component
        judge_fingerprint, and golden.
    primary
        The metrics that decide; by default those that are named, else those of the scores.
    allow_different
        Components of the provenance that may differ, or True or "all". Both runs are scored here
        by the same golden set, so judges and result fields alone can differ.
    level
        Of each interval of the primary metrics; by default all of these two runs hold together.
    among
        The number of runs, where these two are of several, and the level at which the intervals of
        all their pairs hold together.
    averaged
        What is said of repeats that are averaged in the scores.
    policies
        What the scores were made by, else the profile's. With `collapse`, ranks, outcomes and
        targets are those of the shorter lists, too.
    """
    changes = compare_ranks(
        results, golden, baseline, candidate, rule=rule, profile=profile, vary=vary,
        strict_chunker_version=strict_chunker_version, allow_different=allow_different,
        policies=policies,
    )  # fmt: skip
    a, b, k, matched = changes.baseline, changes.candidate, changes._k, changes._level
    harness, rows = changes._harness, changes._rows
    assert rows is not None
    pair, golden = rows.results, rows.golden
    names = ["run_id", "state", "level", *chosen_columns(scores, metrics)]
    is_asked = scores["run_id"].isin([a, b]) & scores["state"].ne("extra")
    scores = scores.loc[is_asked.to_numpy(dtype=bool), names]
    if harness and metrics is None:
        scores = scores.drop(
            columns=[one for one in metric_columns(scores) if (declared.label_of(one).k or 0) > k]
        )
    known = metric_columns(scores)
    if primary is None:  # what is named is asked about
        primary = primary_of(scores) if metrics is None else known
    deciding = tuple(name for name in primary if name in known) or tuple(known)
    first, second, table, states, groups, level = _deltas(
        scores, rows, (a, b), deciding, cluster, declared, level
    )
    wider = ""
    if among is not None:
        beside = paired_deltas(
            first[[*deciding]], second[[*deciding]], deciding, declared=declared, groups=groups,
            level=among[1],
        )  # fmt: skip
        wider = overall_word(aspects(beside, declared)["verdict"].tolist())
    per_query = changes.per_query.assign(rbo=np.nan).join(states, on="query_id")
    if {"chunk_id", "doc_id"} & set(pair.hits):
        overlap = rank_overlap(pair, a, b).set_index("query_id")["rbo"].astype("float64")
        per_query["rbo"] = overlap.reindex(per_query["query_id"]).to_numpy()
    cut = pair if k == NO_CUT else replace(pair, runs=pair.runs.assign(k=k))
    of_fields = check_recorded(
        recorded_parts(pair, matched.name), table["metric"].tolist(), allow_different
    )
    found = vars(changes) | {
        "per_query": per_query,
        "invariants": pd.concat([changes.invariants, of_fields], ignore_index=True),
    }
    return Comparison(
        **found,
        deltas=table,
        flips=flips(scores, a, b, declared),
        aspects=aspects(table, declared),
        _tails=tails(first, second, declared),
        _largest_changes=largest_changes(scores, a, b, declared, deciding),
        _aggregates=aggregate(cut, golden, harness) if harness else {},
        _primary=deciding,
        _declared=declared,
        _scores=scores,
        _clusters=clusters_text(golden, pd.Index(per_query["query_id"]), cluster, talks=True),
        confidence=1 - level,
        _among=wider,
        _n_runs=2 if among is None else among[0],
        _averaged=averaged,
    )


def compare_ranks(
    results: Results, golden: Golden, baseline: str, candidate: str, *,
    policies: Policies | None, rule: Rule | None = None, profile: str | Reading | None = None,
    strict_chunker_version: bool = False, vary: list[str] | str | None = None,
    allow_different: bool | str | list[str] = False,
) -> RankChanges:  # fmt: skip
    """Compare the ranks of two runs query by query; arguments and errors as for `compare_runs`."""
    check_inputs(results, golden)
    reading = find_reading(profile)
    harness = COMPARISONS.get(reading.name)
    policies = policies or Policies.of({}, reading.policies)
    results, golden = with_turns(results, golden)
    a, b = run_names(results.runs, [baseline, candidate])
    if a == b:
        raise DataError(
            f"{a!r} is both baseline and candidate", field="candidate", allowed="two different runs"
        )
    whole = results.select([a, b])
    stated = profile_invariants(whole, a, b, harness, allow_different) if harness else None
    pair = policies.lists(whole)
    golden, of_hits = reading._golden(golden)
    versions = chunker_versions(pair)
    versions_agree = versions[[a, b]].nunique(dropna=False) == 1
    if strict_chunker_version and not versions_agree:
        raise DataError(
            f"chunker versions differ: {versions[a]} and {versions[b]}",
            field="strict_chunker_version",
            allowed="runs of one chunker, or no strict_chunker_version",
        )
    if harness is None:
        level, k = Level.of(pair, of_hits, policies.match), _common_k(pair)
    else:
        levels = harness.levels if versions_agree else harness.fallback_levels
        level = Level(
            "per_query" if len(levels) > 1 else levels[0],
            "",
            levels,
            "exact" if versions_agree else "fallback_doc",
        )
        ks = k_of_runs(pair.runs, HARNESSES[reading.name].default_k).values()
        k = min(own for own in ks if own) if harness.cuts_at_k else NO_CUT
    rows = Rows(pair, golden, level, of_hits, rule, reading)
    expected, found = rows.relevant_targets()
    targets = _target_ranks(found[found["rank"] <= k], pair)
    with_target = expected["query_id"].drop_duplicates()
    invariants = invariants_of(pair, a, b)
    differing = flag_declared(config_diff(pair, a, b), pair, a, b, vary)
    per_query = _outcomes(targets, with_target, golden, rows, (a, b), k)
    per_query["note"] = _notes(per_query, differing, invariants)
    if harness:
        per_query = harness_outcomes(per_query, harness)
    return RankChanges(
        baseline=a, candidate=b, per_query=per_query, targets=targets,
        invariants=pd.concat([invariants, stated], ignore_index=True), config_diff=differing,
        _level=level, _k=k, _profile=reading if profile else None,
        _policies={} if harness else asdict(policies),
        _golden=golden, _results=whole, _rule=rule, _rows=rows,
    )  # fmt: skip


def _common_k(pair: Results) -> int:
    """Return the smaller k of two runs; a run without one has the depth of its deepest list."""
    deepest = pair.hits.groupby("run_id", observed=True)["rank"].max()
    depth = pair.runs["run_id"].astype("str").map(deepest)
    ks = pair.runs["k"].fillna(depth) if "k" in pair.runs else depth
    return int(ks.min()) if ks.notna().any() else 0


def _target_ranks(found: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Return one row per query and target that a run found within k."""
    ranks = (
        found.groupby(["query_id", "target_id", "run_id"], observed=True)["rank"]
        .min()
        .unstack("run_id")
        .reindex(columns=results.runs["run_id"].astype("str").tolist())
        .set_axis(RANKS, axis=1)
        .astype("Int64")
        .reset_index()
    )
    in_a, in_b = (ranks[name].notna() for name in RANKS)
    moved = (ranks["rank_baseline"] != ranks["rank_candidate"]).fillna(True).astype(bool)
    ranks["change"] = np.select([~in_a, ~in_b, moved], ["gained", "lost", "moved"], "same")
    return ranks


def _outcomes(
    targets: pd.DataFrame, with_target: pd.Series, golden: Golden, facts: Rows,
    pair: tuple[str, str], k: int,
) -> pd.DataFrame:  # fmt: skip
    """One row per query that a run was asked: outcome, first ranks, targets gained and lost."""
    responses = facts.results.responses
    rows = asked_queries(golden, responses)
    in_a, in_b = (
        is_among(rows["query_id"], responses.loc[responses["run_id"] == run, "query_id"])
        for run in pair
    )
    first = targets.groupby("query_id")[RANKS].min()
    if facts.has_outcome.any():  # ranks that are stated, of hits that aren't listed
        rank = facts.outcomes["rank_first_match"].set_axis([facts.query_ids, facts.runs[facts.run]])
        stated = rank.where(rank <= (k or np.inf)).unstack()[[*pair]].set_axis(RANKS, axis=1)
        first = first.combine_first(stated.astype("Int64"))
    rows = rows.join(first, on="query_id")
    for change in ("gained", "lost"):
        names = targets[targets["change"] == change].groupby("query_id")["target_id"]
        n, joined = (rows["query_id"].map(found) for found in (names.size(), names.agg(", ".join)))
        rows[f"n_{change}"] = n.fillna(0).astype("int64")
        rows[change] = joined.astype("str").fillna("")
    hit_a, hit_b = (rows[name].notna().to_numpy() for name in RANKS)
    rank_a, rank_b = (rows[name].to_numpy("float64", na_value=np.inf) for name in RANKS)
    outcomes = {  # the first condition that holds decides
        "only_baseline": ~in_b,
        "only_candidate": ~in_a,
        "no_target": ~is_among(rows["query_id"], with_target),
        "both_miss": ~hit_a & ~hit_b,
        "regression": hit_a & ~hit_b,
        "win": rank_b < rank_a,
        "loss": rank_b > rank_a,
    }
    outcome = np.select(list(outcomes.values()), list(outcomes), "draw")
    columns = ["query_id", "query", "outcome", *RANKS, "n_gained", "n_lost", "gained", "lost"]
    return rows.assign(outcome=outcome)[columns]


def asked_queries(golden: Golden, responses: pd.DataFrame) -> pd.DataFrame:
    """Return the queries that any run was asked: those of the golden set, then others."""
    known = golden.queries[["query_id", "query"]]
    is_extra = ~is_among(responses["query_id"], known["query_id"])
    extra = responses.loc[is_extra, ["query_id", "query"]].drop_duplicates("query_id")
    rows = pd.concat([known, extra], ignore_index=True)
    return rows[is_among(rows["query_id"], responses["query_id"])].reset_index(drop=True)


def _notes(per_query: pd.DataFrame, differing: pd.DataFrame, invariants: pd.DataFrame) -> list[str]:
    """Describe each query's change of its first hit, with known causes that differ between runs."""
    facts = invariants[(invariants["state"] == "differs") & invariants["name"].isin(CAUSES)]
    config = differing[differing["key"].str.contains(CONFIG)]
    causes = pd.concat([facts.rename(columns={"name": "key"}), config]).fillna("—")
    told = causes[["key", "baseline", "candidate"]].to_numpy().tolist()
    suffix = "".join(f"; {CAUSES.get(key, key)} {before}→{after}" for key, before, after in told)
    has_moved = per_query["outcome"].isin(["win", "loss", "regression"]).to_numpy()
    before, after = (per_query[name].fillna(0).tolist() for name in RANKS)
    return [
        (f"rank {a}→{b or 'miss'}" if a else f"miss→rank {b}") + suffix if moved else ""
        for moved, a, b in zip(has_moved, before, after, strict=True)
    ]


def _deltas(
    scores: pd.DataFrame,
    rows: Rows,
    run_ids: tuple[str, str],
    primary: tuple[str, ...],
    cluster: str | None,
    declared: MetricTable,
    level: float | None,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, Codes | None, float]:
    """Return scores of both runs, `Comparison.deltas`, how each query ended, its group, the level.

    Scores are of the queries that both runs were asked. Values of the baseline are lost where the
    candidate failed or was not asked.
    """
    names = metric_columns(scores)
    place = np.minimum(rows.state[rows.places(scores.reset_index())], 2)
    ended = np.array(["scored", "failed", "missing"])[place]
    ids = [scores.index, scores["run_id"].astype("str")]
    aligned = align(scores, names, [*run_ids], declared)
    a, b = (aligned.frame(run_id) for run_id in run_ids)
    # scores that other tools stored have no row for a query that was not asked
    states = pd.Series(ended, ids).unstack().reindex(index=a.index, columns=run_ids)
    states = states.fillna("missing")
    was_asked, has_failed = states.to_numpy() != "missing", states.to_numpy() == "failed"
    is_lost = ~was_asked[:, [1]] | (has_failed[:, [1]] & b.isna())
    n_lost = (a.notna() & is_lost & was_asked[:, [0]]).sum()
    in_both = was_asked.all(axis=1)
    clusters = query_clusters(rows.golden, a.index, cluster)
    groups = None if clusters is None else clusters[in_both]
    a, b = a.loc[in_both], b.loc[in_both]
    if level is None:
        of_a, of_b = (side[list(primary)].to_numpy("float64") for side in (a, b))
        level = level_together(of_a, of_b, list(map(declared.describe, primary)), groups)
    table = paired_deltas(a, b, primary, declared=declared, groups=groups, level=level)
    of_baseline, of_candidate = expected_in(aligned, scores, rows).sum(axis=0)
    table = table.assign(
        n_lost=n_lost.to_numpy(), n_expected_baseline=of_baseline,
        n_expected_candidate=of_candidate,
    )  # fmt: skip
    # primary metrics first, those without values last
    order = np.lexsort((~table["is_primary"], table["n"] == 0))
    states = states.astype("str").set_axis(["state_baseline", "state_candidate"], axis=1)
    return a, b, table.iloc[order].reset_index(drop=True), states, groups, level
