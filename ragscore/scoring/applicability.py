"""To which rows of the scores a metric applies, by what the golden set says of the row's query at the row's match level."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import Golden
from ragscore.scoring.judgments import CRITERIA
from ragscore.scoring.matching import LEVELS, RANKLESS, at_level
from ragscore.scoring.metrics import Label

Flags = npt.NDArray[np.bool_]

# metric -> the checks without which it doesn't apply
CHECKS_OF = {"recency_ok": "recency_rule", "key_facts": "key_fact", "key_facts_literal": "key_fact"}
OF_REFERENCE = ("exact_match", "token_f1", "rouge_l")
OF_LABELLED_CITATIONS = ("citation_precision", "citation_recall")
OF_CITATIONS = (
    "citation_present",
    "citation_coverage",
    "citation_coverage_weak",
    "citation_fabricated",
    "citation_out_of_scope",
    "citation_duplicate",
)


class Applying:
    """Flags, one per row of a scores frame.

    Whether the row's query is one that a metric applies to.

    Only the golden set decides: a row that the system failed at, or never answered, is as
    applicable as any other.
    """

    def __init__(self, golden: Golden, rows: pd.DataFrame) -> None:
        self.golden = golden
        # texts are looked up once: all else is told per golden query
        self.place = lookup(rows["query_id"], golden.queries["query_id"])
        self.level = lookup(rows["level"], pd.Index(LEVELS))
        self.is_refusal = _are_among(golden, golden.refusals)
        self._known: dict[tuple[str, str | None], Flags] = {}
        self._with: dict[tuple[bool, str], Flags] = {}

    def to_rows(self, label: Label) -> Flags:
        """One flag per row; the cut-off k makes no difference."""
        key = (label.name, label.level)
        if key not in self._known:
            self._known[key] = self._to_rows(label)
        return self._known[key]

    def _to_rows(self, label: Label) -> Flags:
        if label.level is not None:
            return self._of_queries(self._has_targets(label.name, label.level))
        if label.is_ranking:
            return self._at_own_level(label.name)
        if label.name == "passed":
            kinds = is_among(self.golden.checks["kind"], RANKLESS)
            checked = _are_among(self.golden, self.golden.checks.loc[kinds, "query_id"])
            return self._at_own_level("hit") | self._of_queries(self.is_refusal | checked)
        return self._of_queries(is_asked(self.golden, label.name, self.is_refusal))

    def is_due(self) -> Flags:
        """Whether the row's query should be refused."""
        return self._of_queries(self.is_refusal)

    def _of_queries(self, flags: Flags) -> Flags:
        return np.append(flags, False)[self.place]

    def _at_own_level(self, name: str) -> Flags:
        """By the match level of each row.

        A per-query scoring has several, and none where a query has no target.
        """
        applies = np.zeros(len(self.level), dtype=bool)
        for code, level in enumerate(LEVELS):
            if (here := self.level == code).any():
                applies |= here & self._of_queries(self._has_targets(name, level))
        return applies

    def _has_targets(self, name: str, level: str) -> Flags:
        """Whether each golden query has what a ranking metric asks for at this level."""
        key = (name == "recall_all", level)
        if key not in self._with:
            selected = at_level(self.golden, level)
            having = (
                selected.support_groups
                if key[0]
                else selected.targets[selected.targets["grade"] > 0]
            )
            self._with[key] = _are_among(self.golden, having["query_id"])
        return self._with[key]


def queries_of_metric(golden: Golden, metric: str) -> pd.Series:
    """Queries to which an answer metric applies."""
    return golden.queries.loc[
        is_asked(golden, metric, _are_among(golden, golden.refusals)), "query_id"
    ]


def is_asked(golden: Golden, metric: str, is_due: Flags) -> Flags:
    """Whether an answer metric applies to each golden query; `is_due`.

    Whether it should be refused.
    """
    queries = golden.queries
    if metric in ("refusal_correct", "hallucinated"):
        return is_due
    if metric == "false_refusal":
        return queries["answerable"].fillna(False).to_numpy(dtype=bool)
    if metric in ("attribution_hit", "scope_miss_proxy"):
        return _are_among(golden, at_level(golden, "anchor").targets["query_id"])
    if metric == "scope_miss":
        folders = golden.tags.loc[golden.tags["kind"] == "folder", "query_id"]
        return (
            _are_among(golden, pd.concat([folders, at_level(golden, "anchor").targets["query_id"]]))
            & ~is_due
        )
    if metric in CHECKS_OF:
        return (
            _are_among(
                golden, golden.checks.loc[golden.checks["kind"] == CHECKS_OF[metric], "query_id"]
            )
            & ~is_due
        )
    if metric.startswith("answer_checks"):
        checked = _are_among(
            golden,
            golden.checks.loc[
                is_among(golden.checks["kind"], ["must_contain", "forbidden"]), "query_id"
            ],
        )
        return checked if metric.endswith("all") else checked & ~is_due
    if metric in OF_REFERENCE:
        has_reference = (
            queries["reference_answer"].notna().to_numpy()
            if "reference_answer" in queries
            else np.zeros(len(queries), dtype=bool)
        )
        return has_reference & ~is_due
    if metric in OF_LABELLED_CITATIONS:
        return (
            _are_among(golden, golden.targets.loc[golden.targets["grade"] > 0, "query_id"])
            & ~is_due
        )
    # What should be refused is not expected to be answered, cited or judged; where it is, the value
    # counts all the same.
    return (
        ~is_due
        if metric in (*OF_CITATIONS, *CRITERIA, "retrieved_cited")
        else np.ones(len(queries), dtype=bool)
    )


def _are_among(golden: Golden, query_ids: pd.Series) -> Flags:
    """Whether each golden query is among these.

    Often there are none, and no text need be looked at.
    """
    queries = golden.queries["query_id"]
    return is_among(queries, query_ids) if len(query_ids) else np.zeros(len(queries), dtype=bool)
