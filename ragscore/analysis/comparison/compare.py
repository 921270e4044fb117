"""Two runs compared query by query: what changed, for which queries, and what else differs.

In: the rows of a scoring. Out: a `Comparison`, or `RankChanges` without scores and tests. Both runs
were matched by the same golden set and at one match level, so that nothing but the runs can differ.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import pandas as pd

from ragscore.analysis.aggregates import aggregate
from ragscore.analysis.comparison.align import clusters_text
from ragscore.analysis.comparison.changes import flips, largest_changes, rank_overlap
from ragscore.analysis.comparison.deltas import FIGURES, Sides, aspects
from ragscore.analysis.comparison.invariants import (
    COLUMNS,
    check_recorded,
    config_diff,
    flag_declared,
    invariants_of,
    profile_invariants,
)
from ragscore.analysis.comparison.model import Comparison, RankChanges
from ragscore.analysis.comparison.profile_report import COMPARISONS, harness_outcomes
from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import DataError, Golden, Results, run_names
from ragscore.frames.typing import Codes
from ragscore.scoring.level import Level, chunker_versions
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.policies import Policies
from ragscore.scoring.provenance import recorded_parts
from ragscore.scoring.readings import HARNESSES, find_reading, k_of_runs
from ragscore.scoring.rows import Rows
from ragscore.scoring.summary import chosen_columns, metric_columns
from ragscore.stats.verdicts import overall_word

NO_CUT = 2**31 - 1  # rank up to which a hit counts where a profile looks at whole lists
RANKS = ["rank_baseline", "rank_candidate"]
CAUSES = {"chunker_version": "chunker", "k": "k"}
CONFIG = "embedding|prompt"
"""Known causes of a rank change: invariants and their names in a note; parts of config keys."""


def compare_runs(
    whole: Rows,
    baseline: str,
    candidate: str,
    *,
    scores: pd.DataFrame,
    primary: Sequence[str],
    policies: Policies,
    metrics: list[str] | str | None = None,
    strict_chunker_version: bool = False,
    cluster: str | None = "group",
    vary: list[str] | str | None = None,
    allow_different: bool | str | list[str] = False,
    declared: MetricTable = TABLE,
    level: float | None = None,
    among: tuple[int, float] | None = None,
    averaged: str = "",
) -> Comparison:
    """Compare two runs query by query, on the queries both have; see `Evaluation.compare`.

    Parameters
    ----------
    whole
        The rows of the scoring that both runs are of. By another harness's reading, aggregates,
        outcomes and JSON are as that has them; it has match levels and policies of its own, and may
        want values of the config to agree (`HarnessComparison.must_agree`).
    scores
        Rows of both runs as they were scored, with columns of your own if there are any.
    primary
        The metrics that decide.
    level
        Of each interval of the primary metrics; by default all of these two runs hold together.
    among
        The number of runs, where these two are of several, and the level at which the intervals of
        all their pairs hold together.
    policies
        What the scores were made by. With `collapse`, ranks, outcomes and targets refer to the
        shorter lists, too.
    """
    changes = compare_ranks(
        whole, baseline, candidate, vary=vary, strict_chunker_version=strict_chunker_version,
        allow_different=allow_different, policies=policies,
    )  # fmt: skip
    a, b, rows = changes.baseline, changes.candidate, changes._rows
    assert rows is not None
    harness, k = changes._harness, changes._k
    names = chosen_columns(scores, metrics)
    if harness and metrics is None:
        names = [one for one in names if (declared.label_of(one).k or 0) <= k]
    is_asked = scores["run_id"].isin([a, b]) & scores["state"].ne("extra")
    scores = scores.loc[is_asked.to_numpy(dtype=bool), ["run_id", "state", "level", *names]]
    known = metric_columns(scores)
    deciding = tuple(name for name in primary if name in known) or tuple(known)
    sides = Sides.of(scores, rows, (a, b), cluster, declared)
    if level is None:
        level = sides.level_together(deciding)
    table, wider = sides.deltas(deciding, level), ""
    if among is not None:
        n_runs, wide = among
        beside = aspects(sides.deltas(deciding, wide, deciding))
        wider = f"; among all {n_runs} runs: {overall_word(beside['verdict'].tolist())}"
    recorded = recorded_parts(rows.results, rows.level.name)
    of_fields = check_recorded(
        {run: recorded[run] for run in (a, b)}, table["metric"].tolist(), allow_different
    )
    aggregates = {}
    if harness:
        own = rows.results
        if k != NO_CUT:
            own = replace(own, runs=own.runs.assign(k=k))
        aggregates = aggregate(own, rows.golden, harness)
    query_ids = pd.Index(changes.per_query["query_id"])
    rbo = rank_overlap(rows.results, a, b).set_index("query_id")["rbo"].reindex(query_ids)
    ended = sides.states.reindex(query_ids)
    states = {f"state_{side}": ended[f"state_{side}"].array for side in FIGURES[:2]}
    found = vars(changes) | {
        "per_query": changes.per_query.assign(rbo=rbo.to_numpy("float64"), **states),
        "invariants": pd.concat([changes.invariants, of_fields], ignore_index=True),
    }
    return Comparison(
        **found,
        deltas=table,
        flips=flips(sides.first, sides.second, declared),
        aspects=aspects(table),
        _tails=sides.tails(),
        _largest_changes=largest_changes(sides.first, sides.second, declared, deciding),
        _aggregates=aggregates,
        _primary=deciding,
        _declared=declared,
        _scores=scores,
        _clusters=clusters_text(rows.golden, query_ids, cluster, talks=True),
        confidence=1 - level,
        _among=wider,
        _averaged=averaged,
    )


def compare_ranks(
    rows: Rows, baseline: str, candidate: str, *, policies: Policies,
    strict_chunker_version: bool = False, vary: list[str] | str | None = None,
    allow_different: bool | str | list[str] = False,
) -> RankChanges:  # fmt: skip
    """Compare the ranks of two runs query by query; arguments and errors as for `compare_runs`."""
    results, reading = rows.results, rows.reading
    harness = COMPARISONS.get(reading.name)
    a, b = run_names(results.runs, [baseline, candidate])
    if a == b:
        raise DataError(
            f"{a!r} is both baseline and candidate", field="candidate", allowed="two different runs"
        )
    stated = profile_invariants(results, a, b, harness, allow_different) if harness else None
    versions = chunker_versions(results)[[a, b]]
    versions_agree = versions.nunique(dropna=False) == 1
    if strict_chunker_version and not versions_agree:
        raise DataError(
            f"chunker versions differ: {versions[a]} and {versions[b]}",
            field="strict_chunker_version",
            allowed="runs of one chunker, or no strict_chunker_version",
        )
    if harness is None:
        k = _common_k(results, [a, b])
    else:  # which has levels of its own
        levels = harness.levels if versions_agree else harness.fallback_levels
        level = Level(
            "per_query" if len(levels) > 1 else levels[0],
            "",
            levels,
            "exact" if versions_agree else "fallback_doc",
        )
        results = results.select([a, b])
        ks = k_of_runs(results.runs, HARNESSES[reading.name].default_k).values()
        k = min(own for own in ks if own) if harness.cuts_at_k else NO_CUT
        rows = Rows(results, rows.golden, level, rows.of_hits, rows.rule, reading)
    expected, found = rows.relevant_targets()
    is_seen = found["run_id"].isin([a, b]) & (found["rank"] <= k)
    targets = _target_ranks(found[is_seen.to_numpy(dtype=bool)], (a, b))
    with_target = expected["query_id"].drop_duplicates()
    invariants = invariants_of(results, a, b)
    differing = flag_declared(config_diff(results, a, b), results, a, b, vary)
    per_query = _outcomes(targets, with_target, rows, (a, b), k)
    per_query["note"] = _notes(per_query, differing, invariants)
    if harness:
        per_query = harness_outcomes(per_query, harness)
    return RankChanges(
        baseline=a, candidate=b, per_query=per_query, targets=targets,
        invariants=pd.concat([invariants, stated], ignore_index=True), config_diff=differing,
        _level=rows.level, _k=k, _profile=None if reading is find_reading(None) else reading,
        _policies={} if harness else asdict(replace(policies, match=rows.level.name)), _rows=rows,
    )  # fmt: skip


def _common_k(results: Results, pair: list[str]) -> int:
    """Return the smaller k of two runs; a run without one has the depth of its deepest list."""
    stated, hits = k_of_runs(results.runs, None), results.hits
    deepest = [
        stated[run] or hits.loc[hits["run_id"].eq(run).to_numpy(), "rank"].max() for run in pair
    ]
    return int(min((k for k in deepest if k == k), default=0))


def _target_ranks(found: pd.DataFrame, pair: tuple[str, str]) -> pd.DataFrame:
    """Return one row per query and target that a run found within k."""
    # in the order of ids
    number = np.asarray(found.groupby(["query_id", "target_id"]).ngroup(), np.int64)
    first = np.unique(number, return_index=True)[1]
    ranks = found[["query_id", "target_id"]].iloc[first].reset_index(drop=True)
    for name, run in zip(RANKS, pair, strict=True):
        is_here = found["run_id"].eq(run).to_numpy(dtype=bool)
        ranks[name] = _lowest(number[is_here], found["rank"].to_numpy()[is_here], len(ranks))
    in_a, in_b = (ranks[name].notna() for name in RANKS)
    moved = (ranks["rank_baseline"] != ranks["rank_candidate"]).fillna(True).astype(bool)
    ranks["change"] = np.select([~in_a, ~in_b, moved], ["gained", "lost", "moved"], "same")
    return ranks


def _lowest(place: Codes, ranks: Codes, n: int) -> pd.arrays.IntegerArray:
    """Return the lowest rank at each of n places, NA where there is none."""
    lowest = np.full(n, NO_CUT, np.int64)
    np.minimum.at(lowest, place, ranks)
    return pd.arrays.IntegerArray(lowest, lowest == NO_CUT)


def _outcomes(
    targets: pd.DataFrame, with_target: pd.Series, facts: Rows, pair: tuple[str, str], k: int
) -> pd.DataFrame:
    """One row per query that a run was asked: outcome, first ranks, targets gained and lost."""
    responses = facts.results.responses
    rows = asked_queries(facts.golden, responses[responses["run_id"].isin(pair).to_numpy()])
    in_a, in_b = (
        is_among(rows["query_id"], responses.loc[responses["run_id"] == run, "query_id"])
        for run in pair
    )
    place = lookup(targets["query_id"], pd.Index(rows["query_id"]))
    for name in RANKS:
        ranks = targets[name].to_numpy(np.int64, na_value=NO_CUT)
        rows[name] = _lowest(place, ranks, len(rows))
    if facts.has_outcome.any():  # ranks that are stated, of hits that aren't listed
        rank = facts.outcomes["rank_first_match"].set_axis([facts.query_ids, facts.runs[facts.run]])
        stated = rank.where(rank <= (k or np.inf)).unstack().astype("Int64")
        for name, run in zip(RANKS, pair, strict=True):
            rows[name] = rows[name].fillna(rows["query_id"].map(stated[run]))
    for change in ("gained", "lost"):
        is_so = (targets["change"] == change).to_numpy()
        names = [list[str]() for _ in range(len(rows))]
        for at, target in zip(place[is_so], targets.loc[is_so, "target_id"], strict=True):
            names[at].append(target)
        rows[f"n_{change}"] = [len(own) for own in names]
        rows[change] = pd.array([", ".join(own) for own in names], dtype="str")
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
    """Return the queries that any run was asked: the golden set's, then others."""
    known = golden.queries[["query_id", "query"]]
    is_extra = ~is_among(responses["query_id"], known["query_id"])
    extra = responses.loc[is_extra, ["query_id", "query"]].drop_duplicates("query_id")
    rows = pd.concat([known, extra], ignore_index=True)
    return rows[is_among(rows["query_id"], responses["query_id"])].reset_index(drop=True)


def _notes(per_query: pd.DataFrame, differing: pd.DataFrame, invariants: pd.DataFrame) -> list[str]:
    """Describe each query's change of its first hit, with known causes that differ between runs."""
    causes = [
        (CAUSES[name], *sides)
        for name, *sides, state in invariants[[*COLUMNS]].fillna("—").to_numpy()
        if name in CAUSES and state == "differs"
    ]
    causes += [
        (CAUSES.get(key, key), *sides)
        for key, *sides in differing[["key", "baseline", "candidate"]].fillna("—").to_numpy()
        if re.search(CONFIG, key)
    ]
    suffix = "".join(f"; {cause} {before}→{after}" for cause, before, after in causes)
    has_moved = per_query["outcome"].isin(["win", "loss", "regression"]).to_numpy()
    before, after = (per_query[name].fillna(0).tolist() for name in RANKS)
    return [
        (f"rank {a}→{b or 'miss'}" if a else f"miss→rank {b}") + suffix if moved else ""
        for moved, a, b in zip(has_moved, before, after, strict=True)
    ]
