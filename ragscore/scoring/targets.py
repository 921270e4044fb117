"""The targets of a golden set that count at a match level."""

import numpy as np
import pandas as pd

from ragscore.frames.codes import all_differ, has_pair, is_among, lookup, pair_numbers
from ragscore.frames.data import Golden, narrowed
from ragscore.frames.errors import check_choice
from ragscore.frames.typing import Codes

LEVELS = ("chunk", "span", "anchor", "text", "doc", "predicate")  # finest first
# a match level -> the target levels it takes, where those differ
TARGET_LEVELS = {"predicate": ("predicate", "source_key")}
RANKLESS = ("expected_empty", "forbidden_source_key")  # checks by which no hit is right
UNKNOWN_TARGET = "unknown:"  # how a support group names a target that the query doesn't have


def targets_at(golden: Golden, level: str) -> Golden:
    """Return the golden set with only the targets that a match level can match.

    Targets of queries that should be refused are left out: those are judged by their refusal.
    "span" takes every target that has a span; "predicate" expected source keys or, for queries
    that name none, expected metadata and texts.
    """
    check_choice(level, LEVELS, "level")
    return golden._once(("targets", level), lambda: _targets_at(golden, level))


def _targets_at(golden: Golden, level: str) -> Golden:
    targets, groups = golden.targets, golden.support_groups
    if level == "span":
        keep = targets.get("start", pd.Series(pd.NA, targets.index)).notna().to_numpy()
    else:
        keep = is_among(targets["level"], TARGET_LEVELS.get(level, (level,)))
    if not keep.any():
        return narrowed(golden, targets=targets.iloc[:0], support_groups=groups.iloc[:0])
    keep = keep & ~is_among(targets["query_id"], golden.refusals)
    if level == "predicate":  # source keys decide alone where there are some
        keyed = targets.loc[targets["level"] == "source_key", "query_id"]
        outvoted = (targets["level"] == "predicate").to_numpy() & is_among(
            targets["query_id"], keyed
        )
        rankless = golden.checks.loc[golden.checks["kind"].isin(RANKLESS), "query_id"]
        keep &= ~(outvoted | is_among(targets["query_id"], rankless))
    targets = targets[keep]
    if len(groups):  # of the queries whose named targets are all of this level
        is_here = has_pair(groups, targets, ("query_id", "target_id"))
        is_unknown = groups["target_id"].str.startswith(UNKNOWN_TARGET).to_numpy()
        elsewhere = groups.loc[~is_here & ~is_unknown, "query_id"]
        has_targets = is_among(groups["query_id"], targets["query_id"])
        groups = groups[has_targets & ~is_among(groups["query_id"], elsewhere)]
    return narrowed(golden, targets=targets, support_groups=groups)


def numbered(golden: Golden) -> tuple[Codes, Codes]:
    """Return the query of each target, and a number by query and target: alternatives share one."""

    def make() -> tuple[Codes, Codes]:
        query = lookup(golden.targets["query_id"], pd.Index(golden.queries["query_id"]))
        return query, pair_numbers(query, golden.targets["target_id"])

    return golden._once("numbered", make)


def best_grades(golden: Golden) -> tuple[Codes, Codes]:
    """Return query and grade of each target; of alternatives, the best grade."""

    def make() -> tuple[Codes, Codes]:
        query, number = numbered(golden)
        grade = golden.targets["grade"].to_numpy(np.int64)
        if not all_differ(number):
            order = np.lexsort((-grade, number))
            best = order[np.diff(number[order], prepend=-1) != 0]
            query, grade = query[best], grade[best]
        return query, grade

    return golden._once("best grades", make)


def judges_irrelevant(golden: Golden) -> bool:
    """Return whether any target was judged not to be relevant; of alternatives the best counts."""
    has_zero = (golden.targets["grade"].to_numpy() < 1).any()
    return bool(has_zero and (best_grades(golden)[1] < 1).any())
