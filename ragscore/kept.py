"""Kept matches: what a rule found before the store cut the hits' texts, so that cutting never changes a score."""

import hashlib
import warnings

import numpy as np
import pandas as pd

from ragscore.answers import response_of
from ragscore.frames import Golden, Results, empty
from ragscore.match import Rule


def rule_name(rule: Rule) -> str:
    """What identifies a rule: its qualified name, and for a rule of your own a hash of its code and what it closes over."""
    code = getattr(rule, "__code__", None)
    name = getattr(rule, "__qualname__", repr(rule))
    if code is None or getattr(rule, "__module__", "").startswith("ragscore."):
        return name
    closed = [repr(cell.cell_contents) for cell in getattr(rule, "__closure__", None) or ()]
    content = repr((code.co_code, code.co_consts, code.co_names, closed, getattr(rule, "__defaults__", None)))
    return f"{name}#{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def with_kept_matches(rule: Rule, results: Results, golden: Golden) -> Rule:
    """The same rule, but answered from kept matches where the hits' text has been cut since.

    Kept matches count for queries whose golden content and rule are unchanged. For others the rule sees the cut text;
    that is said in a warning, with the number of hits concerned.
    """
    if "text_cut" not in results.hits or not results.hits["text_cut"].fillna(False).astype(bool).any():
        return rule
    hashes = golden.query_hashes
    kept = results.matches if results.matches is not None else empty("matches")
    valid = kept[(kept["rule"] == rule_name(rule)) & (kept["query_hash"] == kept["query_id"].map(hashes)).to_numpy()]

    def judge(hits: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
        known = response_of(hits, valid.drop_duplicates(["run_id", "query_id"])) >= 0
        n_unknown = int((hits["text_cut"].fillna(False).astype(bool).to_numpy() & ~known).sum())
        if n_unknown:
            warnings.warn(
                f"{n_unknown} hits have cut text and no kept matches: what this rule would have found in the cut part is unknown", UserWarning, stacklevel=2
            )
        fresh = np.flatnonzero(~known)
        computed = rule(hits.iloc[fresh], targets)
        computed = computed.assign(hit=fresh[computed["hit"].to_numpy()])
        keys = ["run_id", "query_id", "rank"]
        numbered = hits[keys].assign(run_id=hits["run_id"].astype("str"), hit=np.arange(len(hits)))
        of_target = targets[["query_id", "target_id"]].assign(target=np.arange(len(targets))).drop_duplicates(["query_id", "target_id"])
        pairs = valid.assign(run_id=valid["run_id"].astype("str")).merge(numbered, on=keys).merge(of_target, on=["query_id", "target_id"])
        return pd.concat([computed[["hit", "target"]], pairs[["hit", "target"]]], ignore_index=True)

    judge.__qualname__ = rule_name(rule)
    return judge
