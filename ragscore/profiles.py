"""Named conventions of other harnesses, as plain data. No other module mentions a profile by name.

`score`, `compare` and `aggregate` take a profile's name and read everything they need from its row here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from ragscore.frames import DataError


@dataclass(frozen=True)
class Profile:
    """One harness's reading of the same runs.

    Attributes
    ----------
    aggregate
        Key of its aggregate JSON (a dot makes an object) -> metric label, or p50 / p95 / sum of one: `p50(latency_ms)`.
        `{k}` makes it a mapping over `ks`; `{run_k}` is the run's own k.
    zero_if_none, omit_if_none
        Keys that it writes as 0, or leaves out, where no query counts (the others: null).
    over_all_rows
        Keys whose mean is taken over all rows, those to which the metric doesn't apply counting 0.
    policies
        Arguments of `rs.score` that differ from its defaults: match, errors, missing, ...
    percentile
        "linear" interpolation, or "floor": the value at position floor(share · n).
    totals
        Key of its aggregate JSON -> "rows" (stored responses) or "failed".
    should_refuse
        "labels": as the golden set says; "no_expected_docs": whatever expects no document.
    score_refusals
        Whether should-refuse queries that have targets are judged by retrieval too.
    decimals
        Values are rounded half away from zero before they are compared; None: never.
    levels, fallback_levels
        Which of a query's targets make its per-query rank, finest first, while chunker versions agree and when not.
    one_side_missing
        How a query that only one run has counts in a comparison: "apart" (only_a, only_b) or "no_hit".
    outcomes
        Outcome of ours -> its word for it; others keep their name.
    """

    name: str
    aggregate: dict[str, str]
    ks: tuple[int, ...] = (1, 3, 5, 10)
    zero_if_none: tuple[str, ...] = ()
    omit_if_none: tuple[str, ...] = ()
    over_all_rows: tuple[str, ...] = ()
    policies: dict[str, str] = field(default_factory=dict)
    percentile: str = "linear"
    totals: dict[str, str] = field(default_factory=dict)
    should_refuse: str = "labels"
    score_refusals: bool = False
    decimals: int | None = None
    levels: tuple[str, ...] = ("chunk", "span", "doc")
    fallback_levels: tuple[str, ...] = ("span", "doc")
    one_side_missing: str = "apart"
    outcomes: dict[str, str] = field(default_factory=dict)

    def labels(self, run_ks: Iterable[int] = ()) -> list[str]:
        """Every metric label that the aggregate needs, for runs of these k."""
        found: list[str] = []
        for expression in self.aggregate.values():
            label = expression.partition("(")[2].removesuffix(")") or expression
            found += [label.format(k=k, run_k=run_k) for k in (self.ks if "{k}" in label else (0,)) for run_k in (run_ks if "{run_k}" in label else (0,))]
        return list(dict.fromkeys(found))


PROFILES = {
    "kebab": Profile(
        name="kebab",
        aggregate={
            "hit_at_k": "hit@{k}:chunk", "mrr": "mrr@10:chunk", "recall_at_k_doc": "recall@{k}:doc", "precision_at_k_chunk": "precision@{k}:chunk",
            "citation_coverage": "citation_coverage_weak", "groundedness": "answer_checks_all", "empty_result_rate": "empty_all",
            "refusal_correctness": "refusal_correct",
        },
        zero_if_none=("hit_at_k", "mrr", "recall_at_k_doc", "precision_at_k_chunk", "groundedness", "empty_result_rate"),
        totals={"total_queries": "rows", "failed_queries": "failed"},
        should_refuse="no_expected_docs",
        score_refusals=True,
        decimals=4,
        levels=("chunk", "doc"),
        fallback_levels=("doc",),
        one_side_missing="no_hit",
        outcomes={"both_miss": "draw", "no_target": "draw"},
    ),
    "rig": Profile(
        name="rig",
        aggregate={
            "recall": "recall@{k}:doc", "precision": "precision@{k}:doc", "hit_rate": "hit@{k}:doc", "mrr": "mrr:doc", "map": "map@{k}:doc", "ndcg": "ndcg@{k}:doc",
        },
        policies={"empty_gold": "one", "match": "doc"},
        levels=("doc",),
        fallback_levels=("doc",),
        score_refusals=True,
    ),
    "seed-mcp": Profile(
        name="seed-mcp",
        aggregate={
            "passed": "sum(passed)", "recall_known": "passed", "precision_top1": "hit@1:predicate", "mrr": "mrr:predicate", "avg_latency_ms": "latency_ms",
        },
        zero_if_none=("passed", "recall_known", "precision_top1", "mrr"),
        over_all_rows=("recall_known", "precision_top1", "mrr"),
        totals={"n_queries": "rows"},
        policies={"match": "predicate"},
        levels=("predicate",),
        fallback_levels=("predicate",),
    ),
    "trec": Profile(
        name="trec",
        aggregate={
            "map": "map@1000:doc", "recip_rank": "mrr:doc", "P": "precision@{k}:doc", "recall": "recall@{k}:doc", "success": "hit@{k}:doc",
            "ndcg_cut": "ndcg_linear@{k}:doc", "map_cut": "map@{k}:doc",
        },
        ks=(5, 10, 15, 20, 30, 100, 200, 500, 1000),
        policies={"match": "doc", "missing": "zero"},
        levels=("doc",),
        fallback_levels=("doc",),
    ),
}  # fmt: skip


def find_profile(profile: "str | Profile | None") -> Profile | None:
    """The profile of this name; a `Profile` of your own is taken as it is."""
    if profile is None or isinstance(profile, Profile):
        return profile
    if profile not in PROFILES:
        close = get_close_matches(profile, PROFILES, n=1)
        raise DataError(f"unknown profile {profile!r}", field="profile", allowed=f"did you mean {close[0]!r}?" if close else f"one of {sorted(PROFILES)}")
    return PROFILES[profile]
