"""From matches to grades: the rule of a match level, and what hits earn by the targets they meet.

In: hits, and the targets of one level. Out: two sparse frames, `graded` (one row per judged hit)
and `found` (one row per target met), from which `metrics` computes every ranking metric.
Rules that read texts are answered from stored matches where a store has cut the texts since, so
cutting never changes a score.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import codes_of, distinct, has_pair, is_among, lookup, pair_numbers
from ragscore.frames.data import DataError, Golden, Results, categorical, check_type, conform, empty
from ragscore.frames.errors import check_choice
from ragscore.frames.typing import Codes
from ragscore.scoring.anchors import by_anchor
from ragscore.scoring.predicates import by_predicate, predicate_rule_name
from ragscore.scoring.rules import (
    LEVELS,
    Rule,
    apply_rule,
    by_chunk,
    by_doc,
    by_span,
    response_of,
    targets_at,
)
from ragscore.scoring.source_hash import source_hash

READS_TEXT = ("anchor", "predicate")  # levels whose rule looks into the hits' text


def grade_hits(
    hits: pd.DataFrame, targets: pd.DataFrame, rule: Rule = by_doc
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Judge hits against targets: the worth of each hit, and where each target was first met.

    Only the first hit that meets a target gains by it. If three chunks of one document are
    returned, only the first counts, so recall, AP and nDCG stay at or below 1. The price: when one
    hit meets targets of grade 3 and 2, it gains the 3; recall is then 1 while nDCG@3 is .787.

    Parameters
    ----------
    hits, targets
        Frames of these kinds; `targets` of one level (see `targets_at`). Rows come in any order.
    rule
        `by_chunk`, `by_doc`, `by_span()`, `by_anchor()`, or any function (hits, targets) ->
        matches. Pairs that it marks as `undecidable` count as misses here.

    Returns
    -------
    graded
        One row per judged hit (run_id, query_id, rank): `grade`, the best grade it met; `gain`, the
        best grade among the targets it is the first to meet (0: none); `n_found`, how many targets
        of grade ≥ 1 it is the first to meet.
    found
        One row per target of grade ≥ 1 met (run_id, query_id, target_id): its `grade` and first
        `rank`.

    Raises
    ------
    DataError
        The rule returned no matches frame, a position that no row has, or a pair from two different
        queries.
    """
    check_type(hits, pd.DataFrame, "hits")
    check_type(targets, pd.DataFrame, "targets")
    matches = decidable(apply_rule(rule, hits, targets))
    graded, found = grade_matches(matches, hits, targets, getattr(rule, "__qualname__", "rule"))
    return graded.astype({"query_id": "str"}), found.astype({"query_id": "str"})


def decidable(matches: pd.DataFrame) -> pd.DataFrame:
    """Return the matches without those that the rule could not decide."""
    return (
        matches[~matches["undecidable"].to_numpy(dtype=bool)]
        if "undecidable" in matches
        else matches
    )


def grade_matches(
    matches: pd.DataFrame,
    hits: pd.DataFrame,
    targets: pd.DataFrame,
    rule_name: str = "rule",
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return `graded` and `found` of `grade_hits` for these matches, query_id as a category."""
    hit, target = matches["hit"].to_numpy(), matches["target"].to_numpy()
    query_dtype = targets["query_id"].dtype
    if not isinstance(query_dtype, pd.CategoricalDtype):
        query_dtype = pd.CategoricalDtype(distinct(targets["query_id"]))
    queries = query_dtype.categories
    query_of_target = lookup(targets["query_id"], queries)
    query = query_of_target[target]
    if (lookup(hits["query_id"].iloc[hit], queries) != query).any():
        raise DataError(
            "the rule matched a hit with a target of another query",
            field=rule_name,
            allowed="pairs of one query",
        )
    run_ids = hits["run_id"]
    if not isinstance(run_ids.dtype, pd.CategoricalDtype):
        run_ids = run_ids.astype("category")
    run = codes_of(run_ids)[hit].astype(np.int64)
    # Alternatives of one target share a number, so that whichever is met first counts once.
    number_of_target = pair_numbers(query_of_target, targets["target_id"])
    # Arrays from here on: only matched pairs are ever sorted, a few per cent of the hits, and
    # frames would cost more than the work on them.
    cell, rank = run * len(queries) + query, hits["rank"].to_numpy()[hit]
    number = number_of_target[target]
    if not _are_in_order(cell, rank, number):
        order = np.lexsort((number, rank, cell))
        cell, rank, number = cell[order], rank[order], number[order]
        run, target = run[order], target[order]
    grade = targets["grade"].to_numpy()[target]
    n_numbers = int(number_of_target.max(initial=0)) + 1
    is_first = ~pd.Index(run * n_numbers + number).duplicated()
    is_met = is_first & (grade > 0)
    begins = np.flatnonzero((np.diff(cell, prepend=-1) != 0) | (np.diff(rank, prepend=-1) != 0))

    def per_hit(how: np.ufunc, values: npt.NDArray[np.generic]) -> npt.NDArray[np.int32]:
        if not len(begins):
            return np.zeros(0, np.int32)
        found: npt.NDArray[np.int32] = how.reduceat(values.astype(np.int32), begins)
        return found.astype(np.int32, copy=False)

    def keys(of_pairs: npt.NDArray[np.generic]) -> dict[str, Any]:
        of_run, of_query = np.divmod(cell[of_pairs], max(len(queries), 1))
        return {
            "run_id": categorical(of_run, run_ids.dtype),
            "query_id": categorical(of_query, query_dtype),
            "rank": rank[of_pairs],
        }

    graded = keys(begins) | {
        "grade": per_hit(np.maximum, grade),
        "gain": per_hit(np.maximum, np.where(is_first, grade, 0)),
        "n_found": per_hit(np.add, is_met),
    }
    found = keys(is_met) | {
        "target_id": targets["target_id"].take(target[is_met]).array,
        "grade": grade[is_met],
    }
    columns = ["run_id", "query_id", "target_id", "grade", "rank"]
    return pd.DataFrame(graded), pd.DataFrame({name: found[name] for name in columns})


def _are_in_order(cell: Codes, rank: npt.NDArray[np.int32], number: Codes) -> bool:
    """Test for order by cell, rank and target: pairs of hits that lie query by query have it."""
    by_cell, by_rank, by_number = np.diff(cell), np.diff(rank), np.diff(number)
    ascends = (by_rank > 0) | ((by_rank == 0) & (by_number >= 0))
    return bool(((by_cell > 0) | ((by_cell == 0) & ascends)).all())


def level_rule(level: str, results: Results, golden: Golden, *, stored: bool = True) -> Rule:
    """Return the rule of a match level.

    Parameters
    ----------
    stored
        Answer from stored matches where the rule reads texts that have been cut since.

    Raises
    ------
    DataError
        Not a match level.
    """
    check_choice(level, LEVELS, "level")
    if level == "predicate":
        rule = by_predicate(results, golden)
    else:
        rule = {"chunk": by_chunk, "span": by_span(), "anchor": by_anchor(), "doc": by_doc}[level]
    if stored and level in READS_TEXT:
        return with_stored_matches(rule, results, golden, level)
    return rule


def level_rule_name(level: str) -> str:
    """Return the name under which a scoring records the rule of a level."""
    if level == "predicate":
        return predicate_rule_name()
    built = {"span": by_span(), "anchor": by_anchor()}
    return built[level].__qualname__ if level in built else f"by_{level}"


def rule_name(rule: Rule) -> str:
    """Return what identifies a rule in stored matches and recorded settings.

    Its qualified name, and for a rule of your own a hash of its code and of what it closes over.
    """
    code = getattr(rule, "__code__", None)
    name = getattr(rule, "__qualname__", repr(rule))
    if code is None or (getattr(rule, "__module__", None) or "").startswith("ragscore."):
        return name
    return f"{name}#{source_hash(rule)[:8]}"


def count_undecidable(results: Results, golden: Golden, level: str) -> pd.Series:
    """Count per run (index run_id) the hits that the level's rule can't judge on their cut text."""
    counts = pd.Series(0, index=results.runs["run_id"].astype("str"), name="n_undecidable")
    if level not in READS_TEXT or not _any_cut(results):
        return counts
    pairs = level_rule(level, results, golden)(results.hits, targets_at(golden, level).targets)
    if "undecidable" not in pairs:
        return counts
    hit = pairs.loc[pairs["undecidable"].to_numpy(dtype=bool), "hit"].unique()
    found = results.hits["run_id"].iloc[hit].astype("str").value_counts()
    return counts.add(found, fill_value=0).astype("int64").reindex(counts.index)


def _any_cut(results: Results) -> bool:
    return "text_cut" in results.hits and bool(results.hits["text_cut"].fillna(False).any())


def with_stored_matches(rule: Rule, results: Results, golden: Golden, level: str) -> Rule:
    """Return the same rule, answered from stored matches where the hits' text has been cut since.

    Stored matches hold for queries whose golden content, rule and level are unchanged. For other
    queries the rule sees the cut text; `n_without_matches` counts the hits that this concerns.
    """
    if not _any_cut(results):
        return rule
    valid = _valid_matches(rule, results, golden, level)

    def judge(hits: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
        others = np.flatnonzero(~_have_any(hits, valid))
        computed = apply_rule(rule, hits.iloc[others], targets)
        columns = ["hit", "target", *(["undecidable"] if "undecidable" in computed else [])]
        computed = computed.assign(hit=others[computed["hit"].to_numpy()])
        keys = ["run_id", "query_id", "rank"]
        of_hit = hits[keys].assign(run_id=hits["run_id"].astype("str"), hit=np.arange(len(hits)))
        of_target = targets[["query_id", "target_id"]].assign(target=np.arange(len(targets)))
        of_target = of_target.drop_duplicates(["query_id", "target_id"])
        pairs = valid.assign(run_id=valid["run_id"].astype("str"))
        pairs = pairs.merge(of_hit, on=keys).merge(of_target, on=["query_id", "target_id"])
        undecidable = (
            pairs["undecidable"].fillna(False).astype(bool) if "undecidable" in pairs else False
        )
        pairs["undecidable"] = undecidable
        return pd.concat([computed[columns], pairs[columns]], ignore_index=True)

    judge.__qualname__ = rule_name(rule)
    return judge


def n_without_matches(rule: Rule, results: Results, golden: Golden, level: str) -> int:
    """Return the number of hits whose text is cut and that have no valid stored matches."""
    if not _any_cut(results):
        return 0
    is_cut = results.hits["text_cut"].fillna(False).to_numpy(dtype=bool)
    valid = _valid_matches(rule, results, golden, level)
    return int((is_cut & ~_have_any(results.hits, valid)).sum())


def _valid_matches(rule: Rule, results: Results, golden: Golden, level: str) -> pd.DataFrame:
    """Return stored matches of this rule and level, for queries whose content is unchanged."""
    stored = results.matches if results.matches is not None else empty("matches")
    is_same_query = (
        stored["query_hash"] == stored["query_id"].map(golden._query_hashes)
    ).to_numpy()
    is_same_rule = (stored["rule"] == rule_name(rule)) & (stored["level"] == level)
    return stored[is_same_rule & is_same_query]


def _have_any(hits: pd.DataFrame, matches: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return for each hit whether its query has any of these matches."""
    return response_of(hits, matches.drop_duplicates(["run_id", "query_id"])) >= 0


def matches_to_store(
    results: Results, golden: Golden, rules: dict[str, Rule], *, has_own_rule: bool
) -> pd.DataFrame | None:
    """List which hit met which target at each level, to be stored before texts are cut.

    Parameters
    ----------
    rules
        Level -> its rule.

    Returns
    -------
    A `matches` frame with what makes a match valid, rule and query hash; rank 0 and no target where
    a query that was asked met none. If a rule of your own needs text that has been cut already, the
    matches stored before the cut, or None.
    """
    if has_own_rule and _any_cut(results):
        return results.matches
    hashes, parts = golden._query_hashes, []
    for level, rule in rules.items():
        targets = targets_at(golden, level).targets
        pairs = apply_rule(rule, results.hits, targets)
        hit, target = pairs["hit"].to_numpy(), pairs["target"].to_numpy()
        of_hit = results.hits[["run_id", "query_id", "rank"]].iloc[hit].reset_index(drop=True)
        of_target = targets[["target_id", "grade"]].iloc[target].reset_index(drop=True)
        met = pd.concat([of_hit.astype({"run_id": "str"}), of_target], axis=1)
        if "coverage" in pairs:
            met["coverage"] = pairs["coverage"].to_numpy()
        if "undecidable" in pairs and pairs["undecidable"].any():
            met["undecidable"] = pairs["undecidable"].to_numpy()
        asked = results.responses[["run_id", "query_id"]].astype("str")
        none = asked[~has_pair(asked, met, ("run_id", "query_id"))]
        none = none.assign(rank=np.int32(0), target_id="", grade=np.int32(0))
        rows = pd.concat([met, none], ignore_index=True)
        rows = rows[is_among(rows["query_id"], hashes.index)]
        rows = rows.drop_duplicates(["run_id", "query_id", "rank", "target_id"])
        rows = rows.assign(
            level=level, rule=rule_name(rule), query_hash=rows["query_id"].map(hashes)
        )
        parts.append(conform(rows, "matches"))
    return pd.concat(parts, ignore_index=True)
