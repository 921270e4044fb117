"""How other harnesses read a golden set, and which aggregates they write.

A reading says what differs from our conventions when values are computed; a harness, which means
its JSON holds under which keys. `profile=` takes the name of a reading, or a `Reading` of one's
own.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, narrowed
from ragscore.frames.errors import excerpt, nearest


@dataclass(frozen=True)
class Reading:
    """Conventions by which a harness scores: what differs from ours.

    Attributes
    ----------
    name
        The name of the profile: a harness's, whose JSON and comparisons it has. A reading of
        another name is compared in our words.
    policies
        Policies where none is given.
    no_docs_means_refuse
        True if a query that expects no document should be refused, whatever its label.
    scores_hits_of_refusals
        True if hits of queries that should be refused are judged, too.
    empty
        Ranking metric -> its value for queries without a relevant target.
    no_claims
        A judged share of claims where a text claims nothing.
    bpref_without_irrelevant
        True if bpref is measured where no document is judged as not relevant.
    recall_all_needs_groups
        True if recall_all needs support groups.
    cut_text
        "unknown" or "miss": see `rs.match.by_anchor`.
    """

    __module__ = "ragscore"

    name: str = ""
    policies: Mapping[str, str] = field(default_factory=dict)
    no_docs_means_refuse: bool = False
    scores_hits_of_refusals: bool = False
    empty: Mapping[str, float] = field(default_factory=dict)
    no_claims: float = math.nan
    bpref_without_irrelevant: bool = False
    recall_all_needs_groups: bool = False
    cut_text: str = "unknown"

    def _golden(self, golden: Golden) -> tuple[Golden, Golden]:
        """Return the golden set as it is read, and the one that hits are judged by."""
        golden = golden._coded
        if self.no_docs_means_refuse:
            docs = golden.targets.loc[golden.targets["level"].eq("doc"), "query_id"]
            answerable = pd.array(is_among(golden.queries["query_id"], docs), dtype="boolean")
            golden = narrowed(golden, queries=golden.queries.assign(answerable=answerable))
        if not self.scores_hits_of_refusals:
            return golden, golden
        unknown = pd.array([pd.NA] * len(golden.queries), dtype="boolean")
        return golden, narrowed(golden, queries=golden.queries.assign(answerable=unknown))


@dataclass(frozen=True)
class Harness:
    """What one harness writes of a run.

    Attributes
    ----------
    keys
        Key of its JSON (a dot makes an object) -> metric label, or sum, p50 or p95 of one. `{k}`
        makes a mapping over `ks`, `{run_k}` is the run's own k.
    zero, omitted
        Keys that are 0, or left out, where no query counts; others are null.
    over_all
        Keys whose mean is over every row, undefined ones as 0.
    totals
        Key -> what it counts: rows, asked or failed ones.
    decimals
        To which its numbers are rounded, half away from zero; single keys may have their own.
    floors
        True if a percentile is the value at position floor(share · n).
    """

    keys: Mapping[str, str]
    ks: tuple[int, ...] = (1, 3, 5, 10)
    default_k: int | None = 5
    zero: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    over_all: tuple[str, ...] = ()
    totals: Mapping[str, str] = field(default_factory=dict)
    decimals: int | None = None
    decimals_of: Mapping[str, int] = field(default_factory=dict)
    floors: bool = False

    def at(self, expression: str, run_k: int | None, k: int = 0) -> str:
        """Return an expression for a run of this k."""
        if run_k is None:
            expression = expression.replace("@{run_k}", "")
        return expression.format(k=k, run_k=run_k)

    def labels(self, run_ks: Iterable[int | None] = ()) -> list[str]:
        """Return every metric label that it needs, for runs of these k."""
        cuts = tuple(run_ks) or (self.default_k,)
        found = [
            self.at(label, run_k, k)
            for text in self.keys.values()
            for label in [text.partition("(")[2].removesuffix(")") or text]
            for run_k in (cuts if "{run_k}" in label else (0,))
            for k in (self.ks if "{k}" in label else (0,))
        ]
        return list(dict.fromkeys(found))


OURS = Reading()
_RANKING = (
    "hit recall precision map mrr ndcg ndcg_linear rprec bpref set_recall set_precision set_f1 err"
    " rbp iprec 11pt_avg"
).split()
_ZERO, _MISSED = dict.fromkeys(_RANKING, 0.0), ("hit", "mrr", "precision", "set_precision")
READINGS = {
    one.name: one
    for one in (
        Reading("kebab", no_docs_means_refuse=True, scores_hits_of_refusals=True),
        # As that harness states it: recall, MAP and nDCG are 1 where nothing is relevant, hit rate,
        # MRR and precision 0; faithfulness is 1 where nothing is claimed. Its code gives 1 for hit
        # rate and MRR, too.
        Reading(
            "rig", {"match": "doc"}, scores_hits_of_refusals=True, no_claims=1.0,
            empty={name: float(name not in _MISSED) for name in _RANKING},
        ),
        Reading("seed-mcp", {"match": "predicate"}),
        Reading(
            "trec", {"match": "doc", "missing": "zero", "ties": "trec"}, empty=_ZERO,
            bpref_without_irrelevant=True,
        ),
        # That harness has flaws, of which this reading keeps some and corrects others. Kept:
        # queries to refuse count 0 in retrieval and "no" in scope_miss_rate; a snippet beyond a
        # stored text's cut is not found; recall is 1 if any support was found. Corrected: headings
        # are compared part by part; a query that ended in an error counts in every mean, and
        # "timed out" is a time-out; a heading cited in the answer keeps its closing bracket.
        # There, recall_all needs the category multi_hop; here support groups are enough.
        Reading(
            "chatbot", {"match": "anchor"}, scores_hits_of_refusals=True, empty=_ZERO,
            recall_all_needs_groups=True, cut_text="miss",
        ),
    )
}  # fmt: skip

_RANKED = ("hit_at_k", "mrr", "recall_at_k_doc", "precision_at_k_chunk")
_RETRIEVAL = ("recall_at_k_avg", "mrr_avg", "precision_at_k_avg", "scope_miss_rate")
HARNESSES = {
    "kebab": Harness(
        {
            "hit_at_k": "hit@{k}:chunk", "mrr": "mrr@10:chunk", "recall_at_k_doc": "recall@{k}:doc",
            "precision_at_k_chunk": "precision@{k}:chunk",
            "citation_coverage": "citation_coverage_weak", "groundedness": "answer_checks_all",
            "empty_result_rate": "empty_all", "refusal_correctness": "refusal_correct",
        },
        zero=(*_RANKED, "groundedness", "empty_result_rate"), decimals=4,
        totals={"total_queries": "rows", "failed_queries": "failed"},
    ),
    "rig": Harness({
        "recall": "recall@{k}:doc", "precision": "precision@{k}:doc", "hit_rate": "hit@{k}:doc",
        "mrr": "mrr:doc", "map": "map@{k}:doc", "ndcg": "ndcg@{k}:doc",
    }),
    "seed-mcp": Harness(
        {
            "passed": "sum(found)", "recall_known": "found", "precision_top1": "hit@1:predicate",
            # `found` looks at the run's own k, or at whole lists where it states none
            "mrr": "mrr@{run_k}:predicate", "avg_latency_ms": "latency_ms",
        },
        default_k=None, zero=("passed", "recall_known", "precision_top1", "mrr"),
        over_all=("recall_known", "precision_top1", "mrr"), totals={"n_queries": "asked"},
        decimals_of={"avg_latency_ms": 1},
    ),
    "trec": Harness(
        {
            "map": "map:doc", "Rprec": "rprec:doc", "bpref": "bpref:doc", "recip_rank": "mrr:doc",
            "ndcg": "ndcg_linear:doc", "P": "precision@{k}:doc", "recall": "recall@{k}:doc",
            "success": "hit@{k}:doc", "ndcg_cut": "ndcg_linear@{k}:doc", "map_cut": "map@{k}:doc",
        },
        ks=(5, 10, 15, 20, 30, 100, 200, 500, 1000),
    ),
    "chatbot": Harness(
        {
            "operational_metrics.error_rate": "failed",
            "operational_metrics.timeout_rate": "timeout",
            "operational_metrics.empty_response_rate": "empty_response",
            "latency.p50_ms": "p50(latency_ms_all)", "latency.p95_ms": "p95(latency_ms_all)",
            "latency.total_ms": "sum(latency_ms_all)", "recall_at_k_avg": "hit@{run_k}:anchor",
            "recall_all_at_k_avg": "recall_all@{run_k}:anchor", "mrr_avg": "mrr@{run_k}:anchor",
            "precision_at_k_avg": "precision@{run_k}:anchor", "scope_miss_rate": "scope_miss_proxy",
            "attribution_hit_rate": "attribution_hit", "groundedness_avg": "judge_groundedness",
            "correctness_avg": "judge_correctness", "abstention_accuracy": "refusal_correct",
            "hallucination_rate_unanswerable": "answered_unanswerable",
        },
        omitted=(
            *_RETRIEVAL, "recall_all_at_k_avg", "attribution_hit_rate", "groundedness_avg",
            "correctness_avg",
        ),
        over_all=_RETRIEVAL, floors=True,
    ),
}  # fmt: skip


def find_reading(profile: str | Reading | None) -> Reading:
    """Return the reading of this name; one of your own is taken as it is, None is ours."""
    if profile is None or isinstance(profile, Reading):
        return profile or OURS
    if not isinstance(profile, str) or profile not in READINGS:
        raise DataError(
            f"unknown profile {excerpt(profile)}",
            field="profile",
            allowed=nearest(profile, READINGS),
        )
    return READINGS[profile]


def k_of_runs(runs: pd.DataFrame, default: int | None = 10) -> dict[str, int | None]:
    """Return the k of each run, the default where it states none."""
    stated: Any = runs["k"] if "k" in runs else pd.Series(pd.NA, index=runs.index)
    return {
        str(run_id): default if pd.isna(k) else int(k)
        for run_id, k in zip(runs["run_id"], stated, strict=True)
    }
