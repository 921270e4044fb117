"""Profiles: named conventions of other harnesses, as plain data.

`score`, `compare` and `aggregate` take a profile's name and read everything they need from its row
here. No other module mentions a profile by name.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt, nearest

DEFAULT_K = 5
METRICS_JSON = "chatbot"  # whose metrics.json `ev.save_metrics_json` writes


@dataclass(frozen=True)
class Profile:
    """Conventions by which one harness scores and aggregates runs.

    Attributes
    ----------
    aggregate
        Key of its aggregate JSON (a dot makes an object) -> metric label, or p50 / p95 / sum of
        one: `p50(latency_ms)`. `{k}` makes it a mapping over `ks`; `{run_k}` is the run's own k.
    default_k
        k of a run that states none. None: no limit, `mrr@{run_k}` is then `mrr`.
    zero_if_none, omit_if_none
        Keys that it writes as 0, or leaves out, where no query counts; the others become null.
    over_all_rows
        Keys whose mean is taken over every golden query with a row; queries to which the metric
        doesn't apply count 0.
    policies
        Arguments of `rs.score` that differ from its defaults: match, missing, ...
    percentile
        "linear" interpolation, or "floor": the value at position floor(share · n).
    totals
        Key of its aggregate JSON -> "rows" (stored responses), "asked" (those of golden queries) or
        "failed".
    should_refuse
        "labels": as the golden set says; "no_expected_docs": every query that expects no document.
    score_refusals
        Judge should-refuse queries that have targets by retrieval, too.
    decimals
        Values are rounded half away from zero before they are compared; None: never.
    decimals_of
        Keys that are rounded to other decimals.
    levels, fallback_levels
        The levels of the targets that make a query's per-query rank, finest first: where chunker
        versions agree, and where they don't.
    bpref_as_recall
        Where a golden set judges no document as not relevant, bpref is recall, and not NaN.
    empty_gold
        The value of ranking metrics of a query for which nothing at all is relevant; precision is
        0 then. Queries that should be refused stay NaN unless `score_refusals`.
    zero_if_empty
        Metrics that are 0 where nothing is relevant, whatever `empty_gold` is.
    no_claims
        The value of a judged share of claims (faithfulness, ...) where the text claims nothing:
        NaN, or one such as 1.0.
    one_side_missing
        A query that only one run has counts in a comparison as "apart" (only_a, only_b) or as
        "no_hit".
    outcomes
        Outcome of ours -> its word for it; others keep their name.
    markdown
        Key of its aggregate JSON -> its name in that harness's Markdown of a comparison, in which
        every query stands. Empty: the Markdown is ours.
    cuts_at_k
        Compare two runs within the smaller k of both: per-query ranks, aggregates and, unless
        metrics are named, metrics. Else ranks are those of whole lists.
    must_agree
        Config key -> the component of `allow_different` that lets it differ. Runs that state
        different values are not compared without it.
    """

    __module__ = "ragscore"  # pickles name the public class, wherever it is defined

    name: str
    aggregate: dict[str, str]
    ks: tuple[int, ...] = (1, 3, 5, 10)
    default_k: int | None = DEFAULT_K
    zero_if_none: tuple[str, ...] = ()
    omit_if_none: tuple[str, ...] = ()
    over_all_rows: tuple[str, ...] = ()
    policies: dict[str, Any] = field(default_factory=dict)
    percentile: str = "linear"
    totals: dict[str, str] = field(default_factory=dict)
    should_refuse: str = "labels"
    score_refusals: bool = False
    decimals: int | None = None
    decimals_of: dict[str, int] = field(default_factory=dict)
    levels: tuple[str, ...] = ("chunk", "span", "doc")
    fallback_levels: tuple[str, ...] = ("span", "doc")
    bpref_as_recall: bool = False
    empty_gold: float = math.nan
    zero_if_empty: tuple[str, ...] = ()
    no_claims: float = math.nan
    one_side_missing: str = "apart"
    outcomes: dict[str, str] = field(default_factory=dict)
    markdown: dict[str, str] = field(default_factory=dict)
    cuts_at_k: bool = False
    must_agree: dict[str, str] = field(default_factory=dict)

    def at(self, expression: str, run_k: int | None, k: int = 0) -> str:
        """Return an expression of the aggregate for a run of this k."""
        if run_k is None:
            expression = expression.replace("@{run_k}", "")
        return expression.format(k=k, run_k=run_k)

    def labels(self, run_ks: Iterable[int | None] = ()) -> list[str]:
        """Return every metric label that the aggregate needs, for runs of these k."""
        found: list[str] = []
        cuts = tuple(run_ks) or (self.default_k,)
        for expression in self.aggregate.values():
            label = expression.partition("(")[2].removesuffix(")") or expression
            found += [
                self.at(label, run_k, k)
                for k in (self.ks if "{k}" in label else (0,))
                for run_k in (cuts if "{run_k}" in label else (0,))
            ]
        return list(dict.fromkeys(found))


PROFILES = {
    "kebab": Profile(
        name="kebab",
        aggregate={
            "hit_at_k": "hit@{k}:chunk", "mrr": "mrr@10:chunk", "recall_at_k_doc": "recall@{k}:doc",
            "precision_at_k_chunk": "precision@{k}:chunk",
            "citation_coverage": "citation_coverage_weak", "groundedness": "answer_checks_all",
            "empty_result_rate": "empty_all",
            "refusal_correctness": "refusal_correct",
        },
        zero_if_none=("hit_at_k", "mrr", "recall_at_k_doc", "precision_at_k_chunk", "groundedness",
        "empty_result_rate"),
        totals={"total_queries": "rows", "failed_queries": "failed"},
        should_refuse="no_expected_docs",
        score_refusals=True,
        decimals=4,
        levels=("chunk", "doc"),
        fallback_levels=("doc",),
        one_side_missing="no_hit",
        outcomes={"both_miss": "draw", "no_target": "draw"},
        markdown={
            "hit_at_k": "hit@{k}", "mrr": "MRR", "recall_at_k_doc": "recall@{k}_doc",
            "precision_at_k_chunk": "precision@{k}_chunk",
            "citation_coverage": "citation_coverage", "groundedness": "groundedness",
            "empty_result_rate": "empty_result_rate", "refusal_correctness": "refusal_correctness",
        },
    ),
    # As that harness states it: recall, MAP and nDCG are 1 where nothing is relevant, hit
    # rate and MRR 0, and so is precision; faithfulness is 1 where nothing is claimed. Its code
    # gives 1 for hit rate and MRR, too, and leaves out answers without claims:
    # dataclasses.replace(PROFILES["rig"], zero_if_empty=(), no_claims=math.nan).
    "rig": Profile(
        name="rig",
        aggregate={
            "recall": "recall@{k}:doc", "precision": "precision@{k}:doc", "hit_rate": "hit@{k}:doc",
            "mrr": "mrr:doc", "map": "map@{k}:doc", "ndcg": "ndcg@{k}:doc",
        },
        policies={"match": "doc"},
        empty_gold=1.0,
        zero_if_empty=("hit", "mrr"),
        no_claims=1.0,
        levels=("doc",),
        fallback_levels=("doc",),
        score_refusals=True,
    ),
    "seed-mcp": Profile(
        name="seed-mcp",
        aggregate={
            "passed": "sum(found)", "recall_known": "found", "precision_top1": "hit@1:predicate",
            # `found` looks at the run's own k, or at whole lists where it states none
            "mrr": "mrr@{run_k}:predicate", "avg_latency_ms": "latency_ms",
        },
        default_k=None,
        zero_if_none=("passed", "recall_known", "precision_top1", "mrr"),
        over_all_rows=("recall_known", "precision_top1", "mrr"),
        decimals_of={"avg_latency_ms": 1},
        totals={"n_queries": "asked"},
        policies={"match": "predicate"},
        levels=("predicate",),
        fallback_levels=("predicate",),
    ),
    "trec": Profile(
        name="trec",
        aggregate={
            "map": "map:doc", "Rprec": "rprec:doc", "bpref": "bpref:doc",
            "recip_rank": "mrr:doc", "ndcg": "ndcg_linear:doc", "P": "precision@{k}:doc",
            "recall": "recall@{k}:doc", "success": "hit@{k}:doc",
            "ndcg_cut": "ndcg_linear@{k}:doc", "map_cut": "map@{k}:doc",
        },
        ks=(5, 10, 15, 20, 30, 100, 200, 500, 1000),
        policies={"match": "doc", "missing": "zero", "ties": "trec"},
        empty_gold=0.0,
        levels=("doc",),
        fallback_levels=("doc",),
        bpref_as_recall=True,
    ),
    # That harness has flaws, of which this profile keeps some and corrects others. Kept: queries to
    # refuse count 0 in retrieval and "no" in scope_miss_rate; a snippet beyond a stored text's cut
    # is not found; recall is 1 if any support was found. Corrected: headings are compared part by
    # part ("Overview" is not "Overview2"); a query that ended in an error counts in every mean
    # (there it has no row), in error_rate once, and "timed out" is a time-out; a heading cited in
    # the answer keeps its closing bracket ("Setup (macOS)" is "Setup (macOS" there, which meets no
    # such anchor, so that attribution_hit_rate may be higher here). There, recall_all needs the
    # category multi_hop; here support groups are enough.
    "chatbot": Profile(
        name="chatbot",
        aggregate={
            "operational_metrics.error_rate": "failed",
            "operational_metrics.timeout_rate": "timeout",
            "operational_metrics.empty_response_rate": "empty_response",
            "latency.p50_ms": "p50(latency_ms_all)", "latency.p95_ms": "p95(latency_ms_all)",
            "latency.total_ms": "sum(latency_ms_all)",
            "recall_at_k_avg": "hit@{run_k}:anchor",
            "recall_all_at_k_avg": "recall_all@{run_k}:anchor", "mrr_avg": "mrr@{run_k}:anchor",
            "precision_at_k_avg": "precision@{run_k}:anchor", "scope_miss_rate": "scope_miss_proxy",
            "attribution_hit_rate": "attribution_hit",
            "groundedness_avg": "judge_groundedness", "correctness_avg": "judge_correctness",
            "abstention_accuracy": "refusal_correct",
            "hallucination_rate_unanswerable": "answered_unanswerable",
        },
        omit_if_none=(
            "recall_at_k_avg", "recall_all_at_k_avg", "mrr_avg", "precision_at_k_avg",
            "scope_miss_rate", "attribution_hit_rate", "groundedness_avg", "correctness_avg",
        ),
        over_all_rows=("recall_at_k_avg", "mrr_avg", "precision_at_k_avg", "scope_miss_rate"),
        policies={"match": "anchor", "unknown": "miss"},
        empty_gold=0.0,
        percentile="floor",
        score_refusals=True,
        levels=("anchor",),
        fallback_levels=("anchor",),
        cuts_at_k=True,
        must_agree={
            "eval_set_commit_hash": "golden", "judge_model": "judge_fingerprint",
            "judge_prompt_version": "judge_fingerprint", "judge_temperature": "judge_fingerprint",
        },
    ),
}  # fmt: skip


def find_profile(profile: "str | Profile | None") -> Profile | None:
    """Return the profile of this name; a `Profile` of your own is taken as it is."""
    if profile is None or isinstance(profile, Profile):
        return profile
    if not isinstance(profile, str) or profile not in PROFILES:
        raise DataError(
            f"unknown profile {excerpt(profile)}",
            field="profile",
            allowed=nearest(profile, PROFILES),
        )
    return PROFILES[profile]
