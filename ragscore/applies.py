"""To which rows of the scores a metric applies, by what the golden set says of the row's query at the row's match level."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.codes import is_among
from ragscore.frames import Golden
from ragscore.judgments import CRITERIA
from ragscore.match import LEVELS, RANKLESS, at_level
from ragscore.metrics import Label

Flags = npt.NDArray[np.bool_]

CHECKS_OF = {"recency_ok": "recency_rule", "key_facts": "key_fact", "key_facts_literal": "key_fact"}  # metric -> the checks without which it doesn't apply
OF_REFERENCE = ("exact_match", "token_f1", "rouge_l")
OF_LABELLED_CITATIONS = ("citation_precision", "citation_recall")
OF_CITATIONS = ("citation_present", "citation_coverage", "citation_coverage_weak", "citation_fabricated", "citation_out_of_scope", "citation_duplicate")


class Applying:
    """Flags, one per row of a scores frame: whether the row's query is one that a metric applies to.

    Only the golden set decides: a row that the system failed at, or never answered, is as applicable as any other.
    """

    def __init__(self, golden: Golden, rows: pd.DataFrame) -> None:
        self.golden, self.query_ids = golden, rows["query_id"]
        self.level = rows["level"].astype("str").to_numpy()
        self.at = {name: at_level(golden, name) for name in LEVELS}
        self._known: dict[tuple[str, str | None], Flags] = {}

    def to_rows(self, label: Label) -> Flags:
        """One flag per row; the cut-off k makes no difference."""
        key = (label.name, label.level)
        if key not in self._known:
            self._known[key] = self._to_rows(label)
        return self._known[key]

    def _to_rows(self, label: Label) -> Flags:
        if label.level is not None:
            return self._is_among(self._with_targets(label.name, label.level))
        if label.is_ranking:
            return self._at_own_level(label.name)
        if label.name == "passed":
            kinds = is_among(self.golden.checks["kind"], RANKLESS)
            return self._at_own_level("hit") | self._is_among(pd.concat([self.golden.refusals, self.golden.checks.loc[kinds, "query_id"]]))
        return self._is_among(queries_of_metric(self.golden, label.name))

    def is_due(self) -> Flags:
        """Whether the row's query should be refused."""
        return self._is_among(self.golden.refusals)

    def _is_among(self, query_ids: pd.Series) -> Flags:
        return is_among(self.query_ids, query_ids)

    def _at_own_level(self, name: str) -> Flags:
        """By the match level of each row: a per-query scoring has several, and none where a query has no target."""
        used = [level for level in LEVELS if (self.level == level).any()]
        return np.logical_or.reduce(
            [np.zeros(len(self.level), dtype=bool), *((self.level == level) & self._is_among(self._with_targets(name, level)) for level in used)]
        )

    def _with_targets(self, name: str, level: str) -> pd.Series:
        selected = self.at[level]
        return selected.support_groups["query_id"] if name == "recall_all" else selected.targets.loc[selected.targets["grade"] > 0, "query_id"]


def queries_of_metric(golden: Golden, metric: str) -> pd.Series:
    """Queries to which an answer metric applies."""
    queries, answerable = golden.queries["query_id"], golden.queries["answerable"]
    is_due = is_among(queries, golden.refusals)
    if metric in ("refusal_correct", "hallucinated"):
        return queries[is_due]
    if metric == "false_refusal":
        return queries[answerable.fillna(False).astype(bool)]
    if metric in ("attribution_hit", "scope_miss_proxy"):
        return at_level(golden, "anchor").targets["query_id"]
    if metric == "scope_miss":
        folders = golden.tags.loc[golden.tags["kind"] == "folder", "query_id"]
        return queries[is_among(queries, pd.concat([folders, at_level(golden, "anchor").targets["query_id"]])) & ~is_due]
    if metric in CHECKS_OF:
        return queries[is_among(queries, golden.checks.loc[golden.checks["kind"] == CHECKS_OF[metric], "query_id"]) & ~is_due]
    if metric.startswith("answer_checks"):
        checked = is_among(queries, golden.checks.loc[is_among(golden.checks["kind"], ["must_contain", "forbidden"]), "query_id"])
        return queries[checked if metric.endswith("all") else checked & ~is_due]
    if metric in OF_REFERENCE:
        has_reference = golden.queries["reference_answer"].notna() if "reference_answer" in golden.queries else pd.Series(False, index=queries.index)
        return queries[has_reference & ~is_due]
    if metric in OF_LABELLED_CITATIONS:
        return queries[is_among(queries, golden.targets.loc[golden.targets["grade"] > 0, "query_id"]) & ~is_due]
    # What should be refused is not expected to be answered, cited or judged; where it is, the value counts all the same.
    return queries[~is_due] if metric in (*OF_CITATIONS, *CRITERIA, "retrieved_cited") else queries
