"""What metrics need of a golden set: which queries have it, at a match level."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ragscore.frames.codes import lookup
from ragscore.frames.data import Golden
from ragscore.frames.typing import Flags
from ragscore.scoring.targets import LEVELS, RANKLESS, judges_irrelevant, targets_at

CHECKED_TEXTS = ("must_contain", "forbidden")  # kinds of checks of an answer


@dataclass(frozen=True)
class Need:
    """Something that a golden set must say of a query so that a metric applies to it.

    Attributes
    ----------
    lacking
        "the query has no ...": the reason of a missing value.
    queries
        (golden set, match level) -> flags of its queries.
    asked
        What `supported_metrics` asks for.
    by_level
        True if the level matters.
    """

    lacking: str
    queries: Callable[[Golden, str], Flags] = field(compare=False)
    asked: str = field(default="", compare=False)
    by_level: bool = field(default=False, compare=False)

    def __reduce__(self) -> str:
        # its functions have no names, so it is pickled by its own
        return next(name for name, one in globals().items() if one is self)

    def of_queries(self, golden: Golden, level: str) -> Flags:
        """Return the flags, found once per golden set and level."""
        key = ("need", self.lacking, level if self.by_level else "")
        return golden._once(key, lambda: self.queries(golden, level))

    def anywhere(self, golden: Golden) -> Flags:
        """Flag the queries that have it at any level."""
        return np.any([self.of_queries(golden, at) for at in LEVELS], axis=0)


def among(golden: Golden, query_ids: pd.Series) -> Flags:
    """Flag golden queries that are among these ids."""
    if not len(query_ids):
        return np.zeros(len(golden.queries), dtype=bool)
    place = lookup(query_ids, pd.Index(golden.queries["query_id"]))
    return np.bincount(place[place >= 0], minlength=len(golden.queries)) > 0


def with_check(golden: Golden, *kinds: str) -> Flags:
    """Flag golden queries with a check of these kinds."""
    kind, query_ids = golden.checks["kind"], golden.checks["query_id"]
    by_kind = golden._once(
        "checks", lambda: {one: among(golden, query_ids[kind == one]) for one in kind.unique()}
    )
    none = np.zeros(len(golden.queries), dtype=bool)
    return np.any([by_kind.get(one, none) for one in kinds], axis=0)


def with_target(golden: Golden, level: str) -> Flags:
    """Flag golden queries with a target of any grade at a level."""
    at_level = targets_at(golden, level)
    return at_level._once("with target", lambda: among(golden, at_level.targets["query_id"]))


def texts_only(golden: Golden) -> Flags:
    """Flag queries that expect texts in the answer, and neither hits nor a refusal."""
    others = (
        RELEVANT.of_queries(golden, "")
        | with_check(golden, *RANKLESS)
        | among(golden, golden._refusals)
    )
    return with_check(golden, *CHECKED_TEXTS) & ~others


def expects_a_finding(golden: Golden, level: str) -> Flags:
    """Flag queries that say what is to be found, or that nothing is."""
    others = among(golden, golden._refusals) | with_check(golden, *RANKLESS)
    return with_target(golden, level) | others


def _checked(lacking: str, asked: str, *kinds: str) -> Need:
    return Need(lacking, lambda golden, level: with_check(golden, *kinds), asked)


def _fact_with(lacking: str, asked: str, column: str, value: str | None = None) -> Need:
    """Return the need of key facts that have this column, or this value in it."""

    def of_queries(golden: Golden, level: str) -> Flags:
        facts = golden.checks[golden.checks["kind"].eq("key_fact")]
        held = facts.get(column, pd.Series(pd.NA, facts.index))
        is_held = held.notna() if value is None else held.eq(value).fillna(False)
        return among(golden, facts.loc[is_held.astype(bool), "query_id"])

    return Need(lacking, of_queries, asked)


def _labelled(lacking: str, asked: str, answerable: bool) -> Need:
    def of_queries(golden: Golden, level: str) -> Flags:
        return golden.queries["answerable"].eq(answerable).fillna(False).to_numpy(bool)

    return Need(lacking, of_queries, asked)


_TARGETS = "targets: expected chunk or document ids, spans or anchors"
_TEXTS = "texts that an answer must or must not hold (must_contain, forbidden)"
_FINDINGS = "something to judge by: targets, expected_empty, forbidden sources, queries to refuse"
TARGETS = Need("target at this match level", with_target, _TARGETS, by_level=True)
IRRELEVANT = Need(
    "document judged as not relevant, of any query",
    lambda golden, level: np.full(
        len(golden.queries), judges_irrelevant(targets_at(golden, level))
    ),
    "documents judged as not relevant (grade 0)",
    by_level=True,
)
RELEVANT = Need(
    "target",
    lambda golden, _: among(golden, golden.targets.loc[golden.targets["grade"] > 0, "query_id"]),
    _TARGETS,
)
ANCHORS = Need(
    "anchor",
    lambda golden, _: among(
        golden, targets_at(golden, "anchor").targets.query("grade > 0")["query_id"]
    ),
    "anchors (gold_supports)",
)
FOLDERS = Need(
    "folder or anchor",
    lambda golden, _: (
        among(golden, golden.tags.loc[golden.tags["kind"].eq("folder"), "query_id"])
        | with_target(golden, "anchor")
    ),
    "folders or anchors of queries",
)
FINDINGS = Need("expectation of what is found", expects_a_finding, _FINDINGS, by_level=True)
EXPECTATIONS = Need(
    "expectation",
    lambda golden, level: expects_a_finding(golden, level) | texts_only(golden),
    f"{_FINDINGS}; or {_TEXTS}",
    by_level=True,
)
REFERENCE = Need(
    "reference answer",
    lambda golden, _: (
        golden.queries.reindex(columns=["reference_answer"])["reference_answer"].notna().to_numpy()
        | with_check(golden, "accepted_answer")
    ),
    "reference answers",
)
TEXT_CHECKS = _checked("text check", _TEXTS, *CHECKED_TEXTS)
KEY_FACTS = _checked("key fact", "key facts (expected_key_facts)", "key_fact")
NUGGETS = _fact_with("key fact with an importance", "importance of key facts", "importance")
VITAL = _fact_with("vital key fact", "vital key facts", "importance", "vital")
RUBRIC = _fact_with("key fact with a weight", "weights of key facts", "weight")
CONFLICT_RULE = _checked(
    "recency rule", "rules for supports that disagree (recency_conflict_rule)", "recency_rule"
)
UNANSWERABLE = _labelled(
    "label that says to refuse it", "queries that should be refused (answerable: false)", False
)
ANSWERABLE = _labelled("label that says it is answerable", "queries known to be answerable", True)
