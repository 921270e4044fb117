"""What hits earn by the targets they meet.

Matches -> two sparse frames, `graded` and `found`, from which every ranking metric is computed.

In: hits, the targets of one level, and a rule or its matches. Out: one row per judged hit, and one
per target met.

Kept matches.

What a rule found before the store cut the hits' texts, so that cutting never changes a score.
"""

import hashlib
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import (
    Codes,
    codes_of,
    distinct,
    has_pair,
    is_among,
    lookup,
    pair_numbers,
)
from ragscore.frames.data import DataError, Golden, Results, categorical, check_type, conform, empty
from ragscore.scoring.matching import Rule, apply_rule, at_level, by_doc, response_of
from ragscore.scoring.rules import READS_TEXT, rule_of


def grade_hits(
    hits: pd.DataFrame, targets: pd.DataFrame, rule: Rule = by_doc
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Judge hits against targets: what each hit is worth, and where each target was first met.

    A target is paid by the first hit that meets it, so a document returned as three chunks earns
    once. The price: when one hit meets targets of grade 3 and 2, it earns the 3; recall is then 1
    while nDCG@3 is .787.

    Parameters
    ----------
    hits, targets
        Frames of these kinds; `targets` of one level (see `at_level`). Rows may come in any order.
    rule
        `by_chunk`, `by_doc`, `by_span()`, `by_anchor()`, or any function (hits, targets) ->
        matches. Pairs that it marks as `unknown` count as misses here.

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
    graded, found = grade_matches(
        decided(apply_rule(rule, hits, targets)),
        hits,
        targets,
        getattr(rule, "__qualname__", "rule"),
    )
    return graded.astype({"query_id": "str"}), found.astype({"query_id": "str"})


def decided(matches: pd.DataFrame) -> pd.DataFrame:
    """The matches without those that the rule could not decide."""
    return matches[~matches["unknown"].to_numpy(dtype=bool)] if "unknown" in matches else matches


def grade_matches(
    matches: pd.DataFrame, hits: pd.DataFrame, targets: pd.DataFrame, rule_name: str = "rule"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the hits earn by these matches.

    The frames `graded` and `found` of `grade_hits`, with query_id as a category.
    """
    hit, target = matches["hit"].to_numpy(), matches["target"].to_numpy()
    dtype = targets["query_id"].dtype
    dtype = (
        dtype
        if isinstance(dtype, pd.CategoricalDtype)
        else pd.CategoricalDtype(distinct(targets["query_id"]))
    )
    queries = dtype.categories
    query_of_target = lookup(targets["query_id"], queries)
    query = query_of_target[target]
    if (lookup(hits["query_id"].iloc[hit], queries) != query).any():
        raise DataError(
            "the rule matched a hit with a target of another query",
            field=rule_name,
            allowed="pairs of one query",
        )
    known_as = pair_numbers(query_of_target, targets["target_id"])
    run_ids = (
        hits["run_id"]
        if isinstance(hits["run_id"].dtype, pd.CategoricalDtype)
        else hits["run_id"].astype("category")
    )
    run = codes_of(run_ids)[hit].astype(np.int64)
    # Arrays from here on: only matched pairs are ever sorted, a few per cent of the hits, and
    # frames would cost more than the work on them.
    cell, rank, one = run * len(queries) + query, hits["rank"].to_numpy()[hit], known_as[target]
    if not _ascend(cell, rank, one):
        order = np.lexsort((one, rank, cell))
        cell, rank, one, run, target = (
            cell[order],
            rank[order],
            one[order],
            run[order],
            target[order],
        )
    grade = targets["grade"].to_numpy()[target]
    is_first = ~pd.Index(run * (int(known_as.max(initial=0)) + 1) + one).duplicated()
    earns = {
        "grade": grade,
        "gain": np.where(is_first, grade, 0),
        "n_found": is_first & (grade > 0),
    }
    begins = np.flatnonzero((np.diff(cell, prepend=-1) != 0) | (np.diff(rank, prepend=-1) != 0))
    graded = _named(cell[begins], rank[begins], run_ids, dtype) | {
        name: _by_hit(values, begins, name) for name, values in earns.items()
    }
    met = is_first & (grade > 0)
    found = _named(cell[met], rank[met], run_ids, dtype) | {
        "target_id": targets["target_id"].take(target[met]).array,
        "grade": grade[met],
    }
    return pd.DataFrame(graded), pd.DataFrame(
        {name: found[name] for name in ("run_id", "query_id", "target_id", "grade", "rank")}
    )


def _ascend(cell: Codes, rank: npt.NDArray[np.int32], one: Codes) -> bool:
    """Whether matched pairs are ordered by cell, rank and target.

    Those of hits that lie query by query are.
    """
    by_cell, by_rank, by_one = np.diff(cell), np.diff(rank), np.diff(one)
    return bool(
        (
            (by_cell > 0) | ((by_cell == 0) & ((by_rank > 0) | ((by_rank == 0) & (by_one >= 0))))
        ).all()
    )


def _by_hit(
    values: npt.NDArray[np.generic], begins: npt.NDArray[np.int64], name: str
) -> npt.NDArray[np.int32]:
    """The best grade and gain, the sum of targets found, of the pairs of each hit."""
    if not len(begins):
        return np.zeros(0, np.int32)
    how = np.add if name == "n_found" else np.maximum
    return how.reduceat(values.astype(np.int32), begins).astype(np.int32, copy=False)


def _named(
    cell: npt.NDArray[np.int64],
    rank: npt.NDArray[np.int32],
    run_ids: pd.Series,
    queries: pd.CategoricalDtype,
) -> dict[str, Any]:
    """Run, query and rank of matched pairs, with their names again."""
    run, query = np.divmod(cell, max(len(queries.categories), 1))
    return {
        "run_id": categorical(run, run_ids.dtype),
        "query_id": categorical(query, queries),
        "rank": rank,
    }


def rule_name(rule: Rule) -> str:
    """What identifies a rule.

    Its qualified name, and for a rule of your own a hash of its code and what it closes over.
    """
    code = getattr(rule, "__code__", None)
    name = getattr(rule, "__qualname__", repr(rule))
    if code is None or getattr(rule, "__module__", "").startswith("ragscore."):
        return name
    closed = [repr(cell.cell_contents) for cell in getattr(rule, "__closure__", None) or ()]
    content = repr(
        (code.co_code, code.co_consts, code.co_names, closed, getattr(rule, "__defaults__", None))
    )
    return f"{name}#{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def level_rule(level: str, results: Results, golden: Golden) -> Rule:
    """The rule of a match level, answered from kept matches where it reads texts that have been cut since."""
    rule = rule_of(level, results, golden)
    return with_kept_matches(rule, results, golden, level) if level in READS_TEXT else rule


def n_undecided(results: Results, golden: Golden, level: str) -> pd.Series:
    """How many hits of each run (index run_id) the level's rule could not judge, because their text is cut."""
    counts = pd.Series(0, index=results.runs["run_id"].astype("str"), name="n_unknown")
    if level not in READS_TEXT or not _any_cut(results):
        return counts
    pairs = level_rule(level, results, golden)(results.hits, at_level(golden, level).targets)
    hit = (
        pairs.loc[pairs["unknown"].to_numpy(dtype=bool), "hit"].unique()
        if "unknown" in pairs
        else []
    )
    return (
        counts.add(results.hits["run_id"].iloc[hit].astype("str").value_counts(), fill_value=0)
        .astype("int64")
        .reindex(counts.index)
    )


def _any_cut(results: Results) -> bool:
    return "text_cut" in results.hits and bool(results.hits["text_cut"].fillna(False).any())


def with_kept_matches(rule: Rule, results: Results, golden: Golden, level: str) -> Rule:
    """The same rule at `level`, but answered from kept matches where the hits' text has been cut since.

    Kept matches count for queries whose golden content, rule and level are unchanged. For others
    the rule sees the cut text; a rule that can't tell by itself what it doesn't know (no `unknown`
    among its matches) gets a warning, with the number of hits concerned.
    """
    if not _any_cut(results):
        return rule
    hashes = golden.query_hashes
    kept = results.matches if results.matches is not None else empty("matches")
    same_question = (kept["query_hash"] == kept["query_id"].map(hashes)).to_numpy()
    valid = kept[(kept["rule"] == rule_name(rule)) & (kept["level"] == level) & same_question]

    def judge(hits: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
        known = response_of(hits, valid.drop_duplicates(["run_id", "query_id"])) >= 0
        fresh = np.flatnonzero(~known)
        computed = apply_rule(rule, hits.iloc[fresh], targets)
        if "unknown" not in computed:
            _warn_of_cut_texts(hits, known)
        computed = computed.assign(hit=fresh[computed["hit"].to_numpy()])
        keys = ["run_id", "query_id", "rank"]
        numbered_hits = hits[keys].assign(
            run_id=hits["run_id"].astype("str"), hit=np.arange(len(hits))
        )
        of_target = (
            targets[["query_id", "target_id"]]
            .assign(target=np.arange(len(targets)))
            .drop_duplicates(["query_id", "target_id"])
        )
        pairs = (
            valid.assign(run_id=valid["run_id"].astype("str"))
            .merge(numbered_hits, on=keys)
            .merge(of_target, on=["query_id", "target_id"])
        )
        pairs["unknown"] = (
            pairs["unknown"].fillna(False).astype(bool) if "unknown" in pairs else False
        )
        columns = ["hit", "target", *(["unknown"] if "unknown" in computed else [])]
        return pd.concat([computed[columns], pairs[columns]], ignore_index=True)

    judge.__qualname__ = rule_name(rule)
    return judge


def _warn_of_cut_texts(hits: pd.DataFrame, known: npt.NDArray[np.bool_]) -> None:
    n_unknown = int((hits["text_cut"].fillna(False).astype(bool).to_numpy() & ~known).sum())
    if n_unknown:
        text = (
            f"{n_unknown} hits have cut text and no kept matches: what this rule would have found"
            " in the cut part is unknown"
        )
        warnings.warn(text, UserWarning, stacklevel=3)


def matches_to_keep(
    results: Results, golden: Golden, rules: dict[str, Rule], *, has_own_rule: bool
) -> pd.DataFrame | None:
    """Which hit met which target at each level (level -> its rule), with what makes a match valid.

    Rule and question.

    Returns
    -------
    A `matches` frame; rank 0 and no target where a query that was asked met none. Where a rule of
    your own needs text that has been cut already, the matches kept before the cut, or None.
    """
    if has_own_rule and _any_cut(results):
        return results.matches
    return pd.concat(
        [_matches_at(results, golden, level, rule) for level, rule in rules.items()],
        ignore_index=True,
    )


def _matches_at(results: Results, golden: Golden, level: str, rule: Rule) -> pd.DataFrame:
    selected = at_level(golden, level)
    pairs = apply_rule(rule, results.hits, selected.targets)
    hits = (
        results.hits[["run_id", "query_id", "rank"]]
        .iloc[pairs["hit"].to_numpy()]
        .reset_index(drop=True)
    )
    targets = (
        selected.targets[["target_id", "grade"]]
        .iloc[pairs["target"].to_numpy()]
        .reset_index(drop=True)
    )
    matches = pd.concat([hits.astype({"run_id": "str"}), targets], axis=1)
    if "coverage" in pairs:
        matches["coverage"] = pairs["coverage"].to_numpy()
    if "unknown" in pairs and pairs["unknown"].any():
        matches["unknown"] = pairs["unknown"].to_numpy()
    asked = results.responses[["run_id", "query_id"]].astype("str")
    none = asked[~has_pair(asked, matches, ("run_id", "query_id"))]
    matches = pd.concat(
        [matches, none.assign(rank=np.int32(0), target_id="", grade=np.int32(0))], ignore_index=True
    )
    hashes = golden.query_hashes
    matches = matches[is_among(matches["query_id"], hashes.index)].drop_duplicates(
        ["run_id", "query_id", "rank", "target_id"]
    )
    return conform(
        matches.assign(
            level=level, rule=rule_name(rule), query_hash=matches["query_id"].map(hashes)
        ),
        "matches",
    )
