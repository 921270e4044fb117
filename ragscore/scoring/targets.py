"""The targets of a golden set that count at a match level."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from ragscore.frames.codes import all_differ, has_pair, is_among, lookup, pair_numbers
from ragscore.frames.data import DataError, Golden, narrowed
from ragscore.frames.errors import check_choice
from ragscore.frames.kinds import UNKNOWN_TARGET
from ragscore.frames.typing import Codes, Values

Gain = Callable[[Codes], Values]  # grades -> what they earn
LEVELS = ("chunk", "span", "anchor", "text", "doc", "predicate")  # finest first
# a match level -> the target levels it takes, where those differ
TARGET_LEVELS = {"predicate": ("predicate", "source_key")}
RANKLESS = ("expected_empty", "forbidden_source_key")  # checks by which no hit is right


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
    taken = TARGET_LEVELS.get(level, (level,))
    known = golden._once("levels", lambda: {*targets["level"].unique()})
    if level == "span" and "start" in targets:
        keep = targets["start"].notna().to_numpy()
    else:
        none = np.zeros(len(targets), dtype=bool)
        keep = is_among(targets["level"], taken) if known & {*taken} else none
    if not keep.any():
        return narrowed(golden, targets=targets[keep])
    keep = keep & ~is_among(targets["query_id"], golden._refusals)
    if level == "predicate":  # source keys decide alone where there are some
        keyed = targets.loc[targets["level"] == "source_key", "query_id"]
        outvoted = (targets["level"] == "predicate").to_numpy() & is_among(
            targets["query_id"], keyed
        )
        rankless = golden.checks.loc[golden.checks["kind"].isin(RANKLESS), "query_id"]
        keep &= ~(outvoted | is_among(targets["query_id"], rankless))
    targets = targets if keep.all() else targets[keep]
    if len(groups):  # of the queries whose named targets are all of this level
        is_here = has_pair(groups, targets, ("query_id", "target_id"))
        is_unknown = groups["target_id"].str.startswith(UNKNOWN_TARGET).to_numpy()
        elsewhere = groups.loc[~is_here & ~is_unknown, "query_id"]
        has_targets = is_among(groups["query_id"], targets["query_id"])
        groups = groups[has_targets & ~is_among(groups["query_id"], elsewhere)]
    return narrowed(golden, targets=targets, support_groups=groups)


def numbered(golden: Golden) -> tuple[Codes, Codes]:
    """Return the query of each target, and a number by query and target: alternatives share one."""
    ids, target_ids = golden.targets["query_id"], golden.targets["target_id"]
    query = golden._once("query", lambda: lookup(ids, pd.Index(golden.queries["query_id"])))
    return query, golden._once("number", lambda: pair_numbers(query, target_ids))


class Expected:
    """The relevant targets of each golden query at one level, best first, numbered within it.

    `n`, `n_judged` and `n_irrelevant` count by query, with a 0 at the end for rows of none.
    `number` has each row's target of `targets`: alternatives share one.
    """

    def __init__(self, golden: Golden) -> None:
        query, self.number = numbered(golden)
        grade = golden.targets["grade"].to_numpy(np.int64)
        if not all_differ(self.number):  # the best grade of alternatives
            by_grade = np.lexsort((-grade, self.number))
            best = by_grade[np.flatnonzero(np.diff(self.number[by_grade], prepend=-1))]
            query, grade = query[best], grade[best]
        n_queries, is_relevant = len(golden.queries), grade > 0
        counts = [np.bincount(one, minlength=n_queries)
                  for one in (query, query[grade < 1], query[is_relevant])]  # fmt: skip
        self.n_judged, self.n_irrelevant, self.n = (np.append(one, 0.0) for one in counts)
        query, grade = query[is_relevant], grade[is_relevant]
        order = np.argsort(query * (int(grade.max(initial=0)) + 1) - grade, kind="stable")
        self.query, self.grade = query[order], grade[order]
        self.place = place_in_group(self.query)
        self.stated = stated_gains(golden.targets)


def expected_of(golden: Golden) -> Expected:
    """Return the expected targets of a golden set with the targets of one level, found once."""
    return golden._once("expected", lambda: Expected(golden))


def judges_irrelevant(golden: Golden) -> bool:
    """Return whether any target was judged not to be relevant; of alternatives the best counts."""
    return bool(expected_of(golden).n_irrelevant.any())


def stated_gains(targets: pd.DataFrame) -> Gain | None:
    """Return grades -> gains where targets state what their grades earn; None where none does."""
    if "gain" not in targets or not targets["gain"].notna().any():
        return None
    pairs = targets[["grade", "gain"]].drop_duplicates().sort_values("grade")
    if pairs["grade"].duplicated().any() or pairs["gain"].isna().any():
        found = pairs.groupby("grade")["gain"].agg(list).to_dict()
        raise DataError(
            f"grades and their gains are {found}",
            field="golden.targets.gain",
            allowed="one gain for each grade",
        )
    gains = np.zeros(int(pairs["grade"].max()) + 1)
    gains[pairs["grade"]] = pairs["gain"]
    return np.maximum.accumulate(gains).__getitem__


def place_in_group(codes: Codes) -> Codes:
    """Return the position of each element among its equal neighbours, from 0."""
    begins = np.flatnonzero(np.diff(codes, prepend=-1))
    return np.arange(len(codes)) - np.repeat(begins, np.diff(begins, append=len(codes)))
