"""The table of every metric, and what follows from it for all of them at once."""

import re
from dataclasses import replace
from functools import cache

from ragscore.scoring.metrics.answers import literal, named
from ragscore.scoring.metrics.answers import metric as answers
from ragscore.scoring.metrics.citations import metric as citations
from ragscore.scoring.metrics.declaration import Metric, nan_text
from ragscore.scoring.metrics.judged import metric as judged
from ragscore.scoring.metrics.operations import operation as operations
from ragscore.scoring.metrics.operations import refusals, scope, success
from ragscore.scoring.metrics.ranking import metric as ranking

_ORDER = (
    ranking, success, answers, citations, judged, refusals, named, scope, literal, operations,
)  # fmt: skip


def completed(metric: Metric) -> Metric:
    """Return a metric with the words that follow from what it needs."""
    return metric if metric.nan_when else replace(metric, nan_when=nan_text(metric))


def spelling(name: str) -> str:
    """Return a name without case and separators."""
    return re.sub(r"[\s_.-]+", "", name.casefold())


TABLE = [completed(metric) for family in _ORDER for metric in family]

# Metrics that `add_columns` brings to the scores: they are computed from other frames than these.
ADDED = {
    "freshness.stale_free_rate": Metric(
        "freshness.stale_free_rate@k",
        "hits of rank ≤ k that no newer document replaces / such hits",
        "no hit",
    ),
    "freshness.conflict_free_rate": Metric(
        "freshness.conflict_free_rate@k",
        "hits of rank ≤ k without another version of theirs beside them / such hits",
        "no hit",
    ),
    "behaviour.score": Metric("behaviour.score", "checks that passed / checks", "no checks"),
    "behaviour.passed": Metric(
        "behaviour.passed",
        "1 if the share of passed checks reaches the threshold",
        "no checks",
        kind="binary",
    ),
}
BY_NAME = {metric.name: metric for metric in TABLE}
RANKING = tuple(dict.fromkeys(one.base for one in TABLE if one.family == "ranking"))
CRITERIA = tuple(one.name for one in TABLE if one.criterion == one.name)
OF_NUGGETS = tuple(one.name for one in TABLE if one.criterion == "nuggets")
PARAMETERS = {m.base: m.parameter[0] for m in TABLE if m.parameter and m.parameter[0] is not None}
_OURS = {spelling(one.base): one.base for one in TABLE}
# Name of trec_eval, ir_measures or ranx, without a cut-off -> the metric of that definition here.
# What differs from a name of ours in case or separators only is ours, whatever it means elsewhere:
# two people who write ndcg and nDCG must not get two numbers.
OTHER_NAMES = {
    other: name
    for one in TABLE
    for other, name in one.other_names().items()
    if spelling(other) not in _OURS
}
BY_SPELLING = {spelling(other): name for other, name in OTHER_NAMES.items()} | _OURS
# The metrics that a table for readers starts with; everything else stays in the frames.
HEADLINE = [
    "hit@1", "hit@5", "hit@10", "recall@5", "recall@10", "mrr@10", "ndcg@10", "passed",
    "answer_checks",
    *(one.name for one in judged if one.name != "judge_refused" and one.criterion != "nuggets"),
    "nugget_all", "nugget_vital",
    "citation_coverage", "refusal_correct", "answered_unanswerable", "false_refusal", "empty",
    "failed", "latency_ms",
]  # fmt: skip


@cache
def by_aspect() -> dict[str, tuple[str, ...]]:
    """Return aspect -> the metrics that may stand for it: the first that has a value does."""
    known = sorted((one for one in TABLE if one.aspect), key=lambda one: one.priority)
    aspects = dict.fromkeys(one.aspect for one in TABLE if one.aspect)
    return {
        aspect: tuple(one.label_at(10) for one in known if one.aspect == aspect)
        for aspect in aspects
    }
