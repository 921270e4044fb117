"""What metrics need of a golden set and of a run.

One `Need` says which queries have it, which words a missing value gets, what `supported_metrics`
asks for and which columns are read. Metrics name needs; nobody else asks a metric for its name.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden
from ragscore.frames.typing import Flags
from ragscore.scoring.rules import LEVELS, RANKLESS, targets_at

CHECKED_TEXTS = ("must_contain", "forbidden")  # kinds of checks


@dataclass(frozen=True)
class Need:
    """Something that a golden set must say of a query so that a metric applies to it.

    `queries` flags the golden queries that have it; it is given a match level (None: none) if
    `by_level`.
    """

    text: str  # what `supported_metrics` asks for
    lacking: str  # "the query has no ..."
    queries: Callable[[Golden, str | None], Flags]
    by_level: bool = False
    of_golden: str = ""  # said instead of `lacking`, of what no query of a golden set has
    absent: str = ""  # in `nan_when`; by default "no" and what lacks

    def __reduce__(self) -> str:
        # its functions have no names, so it is pickled by its own
        return next(name for name, one in globals().items() if one is self)

    @property
    def is_matched(self) -> bool:
        """True if it depends on the level at which hits are matched."""
        return self.by_level and not self.of_golden

    def of_queries(self, golden: Golden, level: str | None) -> Flags:
        """Return `queries`, found once per golden set."""
        name = ("need", self, level if self.by_level else None)
        return golden._once(name, lambda: self.queries(golden, level))

    def of_queries_anywhere(self, golden: Golden) -> Flags:
        """Flag the golden queries that have it at any level."""
        levels = LEVELS if self.by_level else (None,)
        return np.any([self.of_queries(golden, at) for at in levels], axis=0)

    @property
    def reason(self) -> str:
        """Why a query has no value."""
        return self.of_golden or f"the query has no {self.lacking}"

    def count(self, golden: list[Golden]) -> int:
        """Count the queries that have it, at any level."""
        return sum(int(self.of_queries_anywhere(one).sum()) for one in golden)


@dataclass(frozen=True)
class RunNeed:
    """Something that a run must record. `here` flags the rows of scores that have it."""

    text: str
    frame: str
    columns: tuple[str, ...] = ()
    what: str = ""  # "the run records no ..."
    here: Callable[[Any], Flags] | None = None
    criterion: str = ""  # of judgments
    absent: str = ""  # in `nan_when`; by default "no" and what it is
    rows: Callable[[Any], Flags] | None = None  # which rows of scores are read from it; None: all

    def count(self, results: list[Any]) -> int:
        """Count the rows that have a value of it."""
        frames = [rows for one in results if (rows := getattr(one, self.frame)) is not None]
        if self.criterion:
            return sum(
                int((rows["criterion"].eq(self.criterion) & rows["value"].notna()).sum())
                for rows in frames
            )
        if not self.columns:
            return sum(map(len, frames))
        return sum(
            int(rows[rows.columns.intersection(self.columns)].notna().any(axis=1).sum())
            for rows in frames
        )


@dataclass(frozen=True)
class Recorded:
    """Flags rows of which a column is known; an object, so that equal needs are equal."""

    read: str

    def __call__(self, facts: Any) -> Flags:
        """Return the flags."""
        return np.asarray(facts.recorded(self.read))


def needs_of(reads: tuple[str, ...]) -> tuple[RunNeed, ...]:
    """Return the needs of columns that a formula reads, such as "hits.x_tokens"."""
    return tuple(
        RunNeed(f"{column} of {kind}", kind, (column,), column, Recorded(f"{kind}.{column}"))
        for kind, column in (read.split(".") for read in reads)
    )


@dataclass(frozen=True)
class Gap:
    """A reason why a row that has everything has nothing to measure."""

    text: str
    holds: Callable[[Any], Flags]


def among(golden: Golden, query_ids: pd.Series) -> Flags:
    """Flag golden queries that are among these ids; often there are none, and nothing is read."""
    queries = golden.queries["query_id"]
    return is_among(queries, query_ids) if len(query_ids) else np.zeros(len(queries), dtype=bool)


def _targets(golden: Golden, level: str | None, grade: int = 1) -> Flags:
    if level is None:
        return np.zeros(len(golden.queries), dtype=bool)
    targets = targets_at(golden, level).targets
    return among(golden, targets.loc[targets["grade"] >= grade, "query_id"])


def judges_irrelevant(targets: pd.DataFrame) -> bool:
    """Tell if any target was judged not to be relevant; of alternatives the best grade counts."""
    if not (targets["grade"] < 1).any():
        return False
    best = targets.groupby(["query_id", "target_id"], observed=True, sort=False)["grade"].max()
    return bool((best < 1).any())


def checked(text: str, lacking: str, *kinds: str) -> Need:
    """Return the need of a check of these kinds."""
    return Need(
        text, lacking,
        lambda golden, level: among(
            golden, golden.checks.loc[is_among(golden.checks["kind"], [*kinds]), "query_id"]
        ),
    )  # fmt: skip


def texts_only(golden: Golden) -> Flags:
    """Flag golden queries that expect texts in the answer, and neither hits nor a refusal."""
    return golden._once(("texts only",), lambda: _texts_only(golden))


def _texts_only(golden: Golden) -> Flags:
    checks, targets = golden.checks, golden.targets
    texts = checks.loc[is_among(checks["kind"], CHECKED_TEXTS), "query_id"]
    if not len(texts):
        return np.zeros(len(golden.queries), dtype=bool)
    found = [
        golden.refusals,
        checks.loc[is_among(checks["kind"], RANKLESS), "query_id"],
        targets.loc[targets["grade"] > 0, "query_id"].astype("str"),
    ]
    return among(golden, texts) & ~among(golden, pd.concat(found))


def _findings(golden: Golden, level: str | None) -> Flags:
    rankless = golden.checks.loc[is_among(golden.checks["kind"], RANKLESS), "query_id"]
    others = among(golden, golden.refusals) | among(golden, rankless)
    return _targets(golden, level) | others


def _labelled(answerable: bool) -> Callable[[Golden, str | None], Flags]:
    return lambda golden, level: (
        golden.queries["answerable"].eq(answerable).fillna(False).to_numpy(dtype=bool)
    )


_TEXTS = "texts that an answer must or must not hold (must_contain, forbidden)"
_TARGETS = "targets: expected chunk or document ids, spans or anchors"
TARGETS = Need(
    _TARGETS, "target at this match level", _targets, by_level=True,
    absent="no target of grade ≥ 1 at the match level",
)  # fmt: skip
GROUPS = Need(
    "support groups (required_support_groups)", "support group",
    lambda golden, level: (
        np.zeros(len(golden.queries), dtype=bool)
        if level is None
        else among(golden, targets_at(golden, level).support_groups["query_id"])
    ),
    by_level=True, absent="no support groups",
)  # fmt: skip
_NONE = "the golden set judges no document as not relevant"
IRRELEVANT = Need(
    "documents judged as not relevant (grade 0)", "",
    lambda golden, level: np.full(
        len(golden.queries),
        level is not None and judges_irrelevant(targets_at(golden, level).targets),
    ),
    by_level=True, of_golden=f"{_NONE}; it would be recall",
    absent=f"{_NONE}, without which it would be recall",
)  # fmt: skip
RELEVANT = Need(
    _TARGETS, "target",
    lambda golden, level: among(
        golden, golden.targets.loc[golden.targets["grade"] > 0, "query_id"]
    ),
)  # fmt: skip


def _facts_with(what: str, lacking: str, column: str, value: str | None = None) -> Need:
    """Return the need of key facts that have this column, or this value in it."""

    def of_queries(golden: Golden, level: str | None) -> Flags:
        checks = golden.checks
        held = checks["kind"].eq("key_fact")
        if column not in checks:
            held &= False
        else:
            held &= checks[column].notna() if value is None else checks[column].eq(value)
        return among(golden, checks.loc[held.fillna(False), "query_id"])

    return Need(what, lacking, of_queries)


ANCHORS = Need(
    "anchors (gold_supports)", "anchor", lambda golden, level: _targets(golden, "anchor", 0)
)
FOLDERS = Need(
    "folders or anchors of queries", "folder or anchor",
    lambda golden, level: (
        among(golden, golden.tags.loc[golden.tags["kind"] == "folder", "query_id"])
        | _targets(golden, "anchor", 0)
    ),
)  # fmt: skip
_FINDINGS = "targets, expected_empty, forbidden sources, queries to refuse"
FINDINGS = Need(
    f"something to judge by: {_FINDINGS}", "expectation of what is found", _findings,
    by_level=True, absent="nothing to find, and no refusal due",
)  # fmt: skip
EXPECTATIONS = Need(
    f"something to judge by: {_FINDINGS}; or {_TEXTS}", "expectation",
    lambda golden, level: _findings(golden, level) | texts_only(golden),
    by_level=True, absent="neither found nor, where nothing is to be found, answer_checks",
)  # fmt: skip
REFERENCE = Need(
    "reference answers", "reference answer",
    lambda golden, level: (
        golden.queries["reference_answer"].notna().to_numpy()
        if "reference_answer" in golden.queries
        else np.zeros(len(golden.queries), dtype=bool)
    ),
)  # fmt: skip
TEXT_CHECKS = checked(_TEXTS, "text check", *CHECKED_TEXTS)
KEY_FACTS = checked("key facts (expected_key_facts)", "key fact", "key_fact")
NUGGETS = _facts_with("importance of key facts", "key fact with an importance", "importance")
VITAL_NUGGETS = _facts_with("vital key facts", "vital key fact", "importance", "vital")
RUBRIC = _facts_with("weights of key facts", "key fact with a weight", "weight")
CONFLICT_RULE = checked(
    "rules for supports that disagree (recency_conflict_rule)", "recency rule", "recency_rule"
)
UNANSWERABLE = Need(
    "queries that should be refused (answerable: false)", "label that says to refuse it",
    _labelled(False), absent="the query is answerable or unlabelled",
)  # fmt: skip
ANSWERABLE = Need(
    "queries known to be answerable", "label that says it is answerable", _labelled(True),
    absent="the query is not known to be answerable",
)  # fmt: skip

HITS = RunNeed("hits of a run", "hits")
RESPONSES = RunNeed("responses of a run", "responses")
ANSWERS = RunNeed(
    "answers in the responses", "responses", ("answer",), "answer",
    lambda facts: facts.with_value("answer"),
)  # fmt: skip
REFUSALS = RunNeed(
    "whether the system refused", "responses", ("refused", "answer"), "refusal",
    lambda facts: facts.with_value("refused") | facts.blank,
    absent="unknown whether it is a refusal",
)  # fmt: skip
DUE_REFUSALS = replace(REFUSALS, rows=lambda states: states.should_refuse)
TEXT_ANSWERS = replace(ANSWERS, rows=lambda states: states.texts_only)
CITATIONS = RunNeed("citations of the answers", "citations")
TIMES = RunNeed(
    "times of the responses", "responses", ("elapsed_ms",), "time",
    lambda facts: facts.with_value("elapsed_ms"), absent="not recorded",
)  # fmt: skip
COSTS = RunNeed(
    "costs of the responses", "responses", ("cost_usd",), "cost",
    lambda facts: facts.with_value("cost_usd"), absent="not recorded",
)  # fmt: skip
SCOPES = RunNeed(
    "the folders that were searched (scope)", "responses", ("scope",), "choice of folders",
    lambda facts: facts.with_value("scope"), absent="no choice of folders recorded",
)  # fmt: skip


def judged(criterion: str) -> RunNeed:
    """Return the need of judgments by this criterion, "" for any."""
    return RunNeed(
        f"judgments of {criterion}" if criterion else "judgments", "judgments", (),
        "judgment of it", lambda facts: facts.judged(criterion)[0] > 0, criterion,
        "not judged, every judgment failed" if criterion else "no judgment",
    )  # fmt: skip


NO_HIT = Gap("no hit", lambda facts: facts.n_hits == 0)
NOT_GROUNDED = Gap("the answer is not grounded", lambda facts: facts.ungrounded)
NOTHING_CITED = Gap("nothing cited", lambda facts: facts.n_cited == 0)
