"""Two runs aligned per query.

What changed, for which queries, and what else differs between the runs.
"""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.comparison.align import align, expected_in
from ragscore.analysis.comparison.deltas import (
    check_margins,
    paired_deltas,
    query_clusters,
    tail_columns,
)
from ragscore.analysis.comparison.invariants import (
    declared,
    diff_config,
    equal,
    field_invariants,
    invariants_of,
)
from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.comparison.score_diff import answer_flips, largest_moves
from ragscore.analysis.rankings import rank_overlap
from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import DataError, Golden, Results, check_inputs, run_names
from ragscore.frames.ranking import collapsed
from ragscore.scoring.grading import grade_hits, level_rule
from ragscore.scoring.level import Level, choose_level, chunker_versions
from ragscore.scoring.matching import LEVELS, at_level
from ragscore.scoring.policies import POLICIES, read_refusals, resolve_policies
from ragscore.scoring.profile_aggregates import aggregate
from ragscore.scoring.profiles import Profile, find_profile
from ragscore.scoring.score import score
from ragscore.scoring.summary import metric_columns

Values = npt.NDArray[np.float64]
NO_CUT = 2**31 - 1
CAUSES = {"chunker": "chunker_version", "embedding": "embedding", "prompt": "prompt", "k": "k"}
"""What a change of rank is known to come from -> the part of a config key's name that tells."""


def compare_runs(
    results: Results,
    golden: Golden,
    baseline: str,
    candidate: str,
    *,
    metrics: list[str] | str | None = None,
    match: str = "auto",
    collapse: str = "none",
    empty_gold: str = "nan",
    unknown: str = "exclude",
    profile: str | Profile | None = None,
    strict_chunker_version: bool = False,
    cluster: str | None = "group",
    margins: dict[str, float] | None = None,
    tie_margins: dict[str, float] | None = None,
    vary: list[str] | str | None = None,
    ignore_invariants: bool | list[str] = False,
) -> Comparison:
    """Compare two runs query by query, on the queries both have.

    Parameters
    ----------
    baseline, candidate
        Runs a and b: a run_id, or a system that only one run has.
    metrics
        Labels for `deltas`; by default all default metrics.
    match
        The match level, one for both runs and for aggregates and per-query rows alike; see
        `rs.score`.
    collapse
        As for `rs.score`; ranks, outcomes and targets are then those of the shorter lists, too.
    empty_gold, unknown
        As for `rs.score`, in `deltas`; in outcomes and ranks an undecided hit is a miss.
    profile
        Another harness's conventions for aggregates, outcomes and JSON. It has match levels and
        policies of its own.
    strict_chunker_version
        Refuse to compare runs of different chunkers instead of falling back to spans or documents.
    cluster
        The column of `golden.queries` whose equal values make queries depend on each other
        (paraphrases, a source, a conversation): they change sign together in tests, and intervals
        allow for it. None: every query stands alone.
    margins
        Metric -> largest loss that doesn't matter; the verdict then knows "no worse than margin".
    tie_margins
        Metric -> largest difference at which a query counts as the same: what repeats of one system
        differ by. By default none.
    vary
        Config keys that are meant to differ (a key that holds others stands for all of them).
        `config_diff` then has a column `declared`, and other keys that differ are warned of.
    ignore_invariants
        Components of the ruler (see `rs.ruler`) that may differ, or True for all. Scores are
        computed here, for both runs by the same golden set, so what may differ are the judges of
        judged metrics, refused unless ignored, and the result fields that metrics are measured by,
        which are only warned of. Either way the difference stands in `invariants`.

    Raises
    ------
    DataError
        Unknown or ambiguous run names; the same run twice; different chunkers with
        `strict_chunker_version`; `match` or a policy beside a profile; a `cluster` that the golden
        set doesn't have; a margin of a metric that isn't compared; different judges of a metric
        that is compared; a key of `vary` that neither run has.

    Warns
    -----
    UserWarning
        Config keys differ that `vary` doesn't declare; judges differ, and are ignored; a field is
        there in one run only.
    """
    check_inputs(results, golden)
    chosen = find_profile(profile)
    policies = resolve_policies(
        None, {"match": match, "collapse": collapse, "empty_gold": empty_gold, "unknown": unknown}
    )
    if chosen is not None:
        _refuse_policies(policies)
    a, b = run_names(results.runs, [baseline, candidate])
    if a == b:
        raise DataError(
            f"{a!r} is both baseline and candidate", field="candidate", allowed="two different runs"
        )
    whole = results.select([a, b])
    pair = collapsed(whole) if collapse == "doc" else whole
    golden = read_refusals(golden, chosen)
    versions = chunker_versions(pair)
    if strict_chunker_version and not equal(versions[a], versions[b]):
        raise DataError(
            f"chunker versions differ: {versions[a]} and {versions[b]}",
            field="strict_chunker_version",
            allowed="runs of one chunker, or no strict_chunker_version",
        )
    level = (
        choose_level(pair, golden, match)
        if chosen is None
        else _profile_level(chosen, bool(equal(versions[a], versions[b])))
    )
    asked = {run_id: _asked(pair, run_id) for run_id in (a, b)}
    k = _common_k(pair, a, b) if chosen is None else NO_CUT
    targets, with_target = _target_ranks(pair, golden, level, chosen, k)
    invariants, config_diff = (
        invariants_of(pair, a, b),
        declared(diff_config(pair, a, b), pair, a, b, vary),
    )
    per_query = _outcomes(targets, with_target, golden, pair, asked, k)
    per_query["note"] = _notes(per_query, config_diff, invariants)
    per_query["rbo"] = _overlap(pair, per_query["query_id"], a, b)
    if chosen is not None:
        per_query = _as_profile(per_query, chosen)
    scores = _scores(whole, golden, metrics, policies, level)
    deltas = _paired_deltas(scores, whole, golden, (a, b), cluster, margins, tie_margins)
    of_ruler = field_invariants(pair, deltas["metric"].tolist(), level.name, ignore_invariants)
    invariants = pd.concat([invariants, of_ruler], ignore_index=True)
    aggregates = aggregate(pair, golden, chosen) if chosen else {}
    made_by = (
        {name: policies[name] for name in ("match", "collapse", "empty_gold", "unknown")}
        if chosen is None
        else {}
    )
    moves = {"flips": answer_flips(scores, a, b), "movers": largest_moves(scores, a, b)}
    return Comparison(
        a,
        b,
        deltas,
        per_query,
        targets,
        invariants,
        config_diff,
        **moves,
        level=level,
        k=k,
        aggregates=aggregates,
        profile=chosen,
        policies=made_by,
    )


def _refuse_policies(policies: dict[str, Any]) -> None:
    """A profile has policies of its own: beside it only the defaults may stand."""
    for name in (name for name, value in policies.items() if value != POLICIES[name][0]):
        found, what = (
            f"found {policies[name]!r} beside a profile",
            "levels" if name == "match" else "policies",
        )
        raise DataError(
            f"{found}, which has {what} of its own",
            field=name,
            allowed=f"{name} or profile, not both",
        )


def _profile_level(profile: Profile, versions_agree: bool) -> Level:
    levels = profile.levels if versions_agree else profile.fallback_levels
    name = "per_query" if len(levels) > 1 else levels[0]
    return Level(
        name,
        "",
        levels,
        "exact" if versions_agree else "fallback_doc_span" if "span" in levels else "fallback_doc",
    )


def _asked(results: Results, run_id: str) -> pd.Index:
    return pd.Index(results.responses.loc[results.responses["run_id"] == run_id, "query_id"])


def _common_k(results: Results, a: str, b: str) -> int:
    """The smaller k of the two runs.

    A run that doesn't state its k has the depth of its deepest list.
    """
    stated = (
        results.runs.set_index(results.runs["run_id"].astype("str"))["k"]
        if "k" in results.runs
        else pd.Series(dtype="Int64")
    )
    deepest = results.hits.groupby("run_id", observed=False)["rank"].max()
    ks = [
        stated.get(run_id) if not pd.isna(stated.get(run_id)) else deepest.get(run_id)
        for run_id in (a, b)
    ]
    return int(min((k for k in ks if not pd.isna(k)), default=0))


def _target_ranks(
    results: Results, golden: Golden, level: Level, profile: Profile | None, k: int
) -> tuple[pd.DataFrame, set[str]]:
    """One row per query and target found by either run, with both ranks.

    And the queries that have targets at all.
    """
    names = (
        [name for name in LEVELS if name in level.joinable]
        if level.name == "per_query"
        else [level.name]
    )
    taken: set[str] = set()
    parts = []
    for name in names:  # finest first; each query is matched at one level only
        selected = at_level(golden, name, profile is not None and profile.score_refusals).targets
        selected = selected[~is_among(selected["query_id"], list(taken)) & (selected["grade"] > 0)]
        taken |= set(selected["query_id"])
        parts.append(grade_hits(results.hits, selected, level_rule(name, results, golden))[1])
    found = pd.concat(parts, ignore_index=True).query("rank <= @k")
    ranks = found.pivot_table(
        index=["query_id", "target_id"],
        columns="run_id",
        values="rank",
        aggfunc="min",
        observed=False,
    )
    ranks = (
        ranks.reindex(columns=results.runs["run_id"].astype("str").tolist())
        .set_axis(["rank_a", "rank_b"], axis=1)
        .astype("Int64")
        .reset_index()
    )
    in_a, in_b = ranks["rank_a"].notna(), ranks["rank_b"].notna()
    moved = (ranks["rank_a"] != ranks["rank_b"]).fillna(True).astype(bool)
    ranks["change"] = np.select([~in_a, ~in_b, moved], ["gained", "lost", "moved"], "same")
    return ranks, taken


def _outcomes(
    targets: pd.DataFrame,
    with_target: set[str],
    golden: Golden,
    results: Results,
    asked: dict[str, pd.Index],
    k: int,
) -> pd.DataFrame:
    """One row per query that either run was asked: outcome, first ranks, gained and lost targets."""
    a, b = asked
    of_golden = golden.queries[["query_id", "query"]]
    extra = results.responses.loc[
        ~is_among(results.responses["query_id"], of_golden["query_id"]), ["query_id", "query"]
    ].drop_duplicates("query_id")
    rows = pd.concat([of_golden, extra], ignore_index=True)
    in_a, in_b = is_among(rows["query_id"], asked[a]), is_among(rows["query_id"], asked[b])
    rows, in_a, in_b = (
        rows[in_a | in_b].reset_index(drop=True),
        in_a[in_a | in_b],
        in_b[in_a | in_b],
    )
    first = targets.groupby("query_id")[["rank_a", "rank_b"]].min()
    rows = rows.join(first, on="query_id")
    for change in ("gained", "lost"):
        changed = targets[targets["change"] == change].groupby("query_id")["target_id"]
        rows[f"n_{change}"] = rows["query_id"].map(changed.size()).fillna(0).astype("int64")
        rows[change] = rows["query_id"].map(changed.agg(", ".join)).astype("str").fillna("")
    hit_a, hit_b = rows["rank_a"].notna().to_numpy(), rows["rank_b"].notna().to_numpy()
    rank_a, rank_b = (
        rows[name].to_numpy("float64", na_value=np.inf) for name in ("rank_a", "rank_b")
    )
    kinds = [
        ~in_b,
        ~in_a,
        ~is_among(rows["query_id"], list(with_target)),
        ~hit_a & ~hit_b,
        hit_a & ~hit_b,
        rank_b < rank_a,
        rank_b > rank_a,
    ]
    outcome = np.select(
        kinds, ["only_a", "only_b", "no_target", "both_miss", "regression", "win", "loss"], "draw"
    )
    return rows.assign(outcome=outcome)[
        ["query_id", "query", "outcome", "rank_a", "rank_b", "n_gained", "n_lost", "gained", "lost"]
    ]


def _overlap(pair: Results, query_ids: pd.Series, a: str, b: str) -> Values:
    """Rank-biased overlap of both lists of every query.

    NaN where a side has no hits, or hits have no ids to compare.
    """
    if not {"chunk_id", "doc_id"} & set(pair.hits):
        return np.full(len(query_ids), np.nan)
    found = rank_overlap(pair, a, b)
    return np.append(found["rbo"].to_numpy("float64"), np.nan)[
        lookup(query_ids, pd.Index(found["query_id"]))
    ]


def _notes(
    per_query: pd.DataFrame, config_diff: pd.DataFrame, invariants: pd.DataFrame
) -> list[str]:
    """What happened to the first hit, and the known causes that changed between the runs."""
    differs = invariants[invariants["state"] == "differs"].set_index("name")
    causes = []
    for cause, part in CAUSES.items():
        if part in differs.index:
            causes.append(f"{cause} {differs['a'][part]}→{differs['b'][part]}")
        elif cause in ("embedding", "prompt"):
            shown = config_diff.fillna("—")
            causes += [
                f"{key} {a}→{b}"
                for key, a, b in zip(shown["key"], shown["a"], shown["b"], strict=True)
                if part in key
            ]
    suffix = "".join(f"; {cause}" for cause in causes)
    notes = []
    for outcome, a, b in zip(
        per_query["outcome"], per_query["rank_a"], per_query["rank_b"], strict=True
    ):
        if outcome == "win":
            notes.append((f"miss→rank {b}" if pd.isna(a) else f"rank {a}→{b}") + suffix)
        elif outcome in ("loss", "regression"):
            notes.append((f"rank {a}→miss" if pd.isna(b) else f"rank {a}→{b}") + suffix)
        else:
            notes.append("")
    return notes


def _as_profile(per_query: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Outcomes in a profile's words, in its order."""
    rows = per_query
    if profile.one_side_missing == "no_hit":
        hit_a, hit_b = rows["rank_a"].notna(), rows["rank_b"].notna()
        alone = rows["outcome"].isin(["only_a", "only_b"])
        as_hits = np.select([hit_b & ~hit_a, hit_a & ~hit_b], ["win", "regression"], "both_miss")
        rows = rows.assign(outcome=np.where(alone, as_hits, rows["outcome"]))
    return rows.assign(outcome=rows["outcome"].replace(profile.outcomes)).sort_values(
        "query_id", ignore_index=True
    )


def _scores(
    results: Results,
    golden: Golden,
    metrics: list[str] | str | None,
    policies: dict[str, Any],
    level: Level,
) -> pd.DataFrame:
    """Scores of both runs, one row per golden query."""
    with warnings.catch_warnings():
        # those are only_a and only_b here
        warnings.filterwarnings("ignore", "golden queries without a row", UserWarning)
        match = (
            level.name
            if level.name in LEVELS or policies["match"] == "per_query"
            else policies["match"]
        )
        scores = score(results, golden, metrics, **policies | {"match": match})
    return scores[(scores["state"] != "extra").to_numpy()]


def _paired_deltas(
    scores: pd.DataFrame, results: Results, golden: Golden, names_of_runs: tuple[str, str],
    cluster: str | None, margins: dict[str, float] | None,
    tie_margins: dict[str, float] | None,
) -> pd.DataFrame:  # fmt: skip
    """Deltas over the queries that both runs were asked.

    What b failed on or was not asked is counted as lost.
    """
    names = metric_columns(scores)
    for field, given in (("margins", margins), ("tie_margins", tie_margins)):
        check_margins(given or {}, field, names)
    first, second = (scores[(scores["run_id"] == run_id).to_numpy()] for run_id in names_of_runs)
    second = second.reindex(first.index)
    states = [side["state"].astype("str").to_numpy() for side in (first, second)]
    in_both = (states[0] != "missing") & (states[1] != "missing")
    is_lost = (states[1] == "missing") | (states[1] == "failed")
    lost = first[names].where(is_lost[:, None] & second[names].isna().to_numpy())
    groups = query_clusters(golden, first.index, cluster)
    sides = first[names][in_both], second[names][in_both]
    table = paired_deltas(
        *sides,
        lost,
        groups=None if groups is None else groups[in_both],
        margins=margins,
        ties=tie_margins,
    )
    found = align(scores, names, list(names_of_runs))
    n_expected_a, n_expected_b = expected_in(found, scores, golden, results).sum(axis=0)
    return table.assign(n_expected_a=n_expected_a, n_expected_b=n_expected_b).join(
        tail_columns(*sides)
    )
