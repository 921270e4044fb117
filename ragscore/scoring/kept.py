"""Kept matches.

What a rule found before the store cut the hits' texts, so that cutting never changes a score.
"""

import hashlib
import warnings

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import has_pair, is_among
from ragscore.frames.data import Golden, Results, conform, empty
from ragscore.scoring.matching import Rule, apply_rule, at_level, response_of
from ragscore.scoring.rules import READS_TEXT, rule_of


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
        numbered = hits[keys].assign(run_id=hits["run_id"].astype("str"), hit=np.arange(len(hits)))
        of_target = (
            targets[["query_id", "target_id"]]
            .assign(target=np.arange(len(targets)))
            .drop_duplicates(["query_id", "target_id"])
        )
        pairs = (
            valid.assign(run_id=valid["run_id"].astype("str"))
            .merge(numbered, on=keys)
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
