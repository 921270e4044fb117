"""Bounds of means that incomplete labels leave open: `Unjudged`, the answer of `ev.unjudged`.

In: scores, and the results and golden set behind them. Out: one row per run and metric, and one per
query, with the lowest and the highest value over all labels that unjudged hits might get.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.codes import pair_codes
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import name_list, plural
from ragscore.scoring.metrics import HEADLINE, MOVABLE, Label, parse_label
from ragscore.scoring.policies import Policies, read_refusals, resolve_policies, with_hits_kept
from ragscore.scoring.profiles import Profile
from ragscore.scoring.rules import LEVELS, Rule
from ragscore.scoring.score import keeps_refusals
from ragscore.scoring.unjudged import (
    JudgedLists,
    all_labelled,
    judged_lists,
    label_bounds,
)
from ragscore.scoring.value_states import label_of

BOUNDS = ("all_irrelevant", "all_relevant", "low", "high")


@dataclass(frozen=True, repr=False, eq=False)
class Unjudged(FramesResult):
    """What means could be if the hits that nobody judged had labels.

    A hit is judged if it meets a target of the match level, grade 0 included. Each unjudged
    document or chunk of a list may be irrelevant, or a target of its own of any grade up to the
    golden set's highest. `low` and `high` bound the score over all these labellings, query by
    query; their means bound the mean. A label also adds to the number of relevant targets. So
    recall, map and ndcg can fall, and their bounds may lie beyond both `all_irrelevant` and
    `all_relevant`.

    Relevant documents that a run didn't return stay unknown: they would lower recall, map and
    ndcg further. Queries without a relevant target stay out, as they are out of the mean.

    Attributes
    ----------
    table
        One row per run and metric: `mean` as scored, over `n` queries; `all_irrelevant` and
        `all_relevant`, the mean if every unjudged hit were irrelevant, or relevant (at the lowest
        grade that is); `low` and `high`; `judged`, the mean of judged@k at the metric's own cut
        (the whole list without one; NaN if no query has hits); `n_unjudged` hits within the cut, of
        all n queries. Without policies that read judged hits alone, all_irrelevant is the mean
        (not for bpref).
    per_query
        The same for every query that counts: `value`, and its bounds.
    """

    FRAMES = ("table", "per_query")

    _by_metric: dict[str, pd.DataFrame]  # rows of `per_query`, millions of a large set
    level: str

    @cached_property
    def table(self) -> pd.DataFrame:
        """The means."""
        tables = []
        for metric, rows in self._by_metric.items():
            grouped = rows.groupby("run_id", observed=True, sort=False)
            means = grouped[["value", *BOUNDS, "judged"]].mean()
            counts = pd.DataFrame({"n_unjudged": grouped["n_unjudged"].sum(), "n": grouped.size()})
            tables.append(means.join(counts).reset_index().assign(metric=metric))
        table = pd.concat(tables, ignore_index=True).rename(columns={"value": "mean"})
        table = table.astype({"metric": "str", "run_id": "str"})
        return table[["run_id", "metric", "mean", *BOUNDS, "judged", "n_unjudged", "n"]]

    @cached_property
    def per_query(self) -> pd.DataFrame:
        """The values of every query that counts."""
        rows = pd.concat(
            [rows.assign(metric=metric) for metric, rows in self._by_metric.items()],
            ignore_index=True,
        ).astype({"run_id": "str", "metric": "str"})
        return rows[["run_id", "query_id", "metric", "value", *BOUNDS, "judged", "n_unjudged"]]

    def _heading(self) -> str:
        n = self.table["run_id"].nunique()
        text = (
            f"Unjudged hits of {plural(n, 'run')}, matched by {self.level}: each mean lies between"
            " low and high, whatever their labels."
        )
        n_pairs = n_safe = 0  # pairs of runs, metric by metric, and those whose bounds don't meet
        for _, rows in self.table.groupby("metric", sort=False):
            low, high = rows["low"].to_numpy(), rows["high"].to_numpy()
            n_pairs += len(rows) * (len(rows) - 1) // 2
            n_safe += int((low[:, None] > high[None, :]).sum())
        if n_pairs:
            safe = f"{n_safe} of {n_pairs}" if n_safe else f"None of {n_pairs}"
            text += f" {safe} orders of two runs by a metric hold on these queries, whatever the"
            text += " labels."
        return text

    def _shown(self) -> pd.DataFrame:
        shown = self.table[self.table["metric"].isin(HEADLINE).to_numpy()]
        shown = (shown if len(shown) else self.table).round(3)
        same = np.allclose(shown["mean"], shown["all_irrelevant"], rtol=0, atol=5e-4)
        return shown.drop(columns="all_irrelevant") if same else shown


def unjudged(
    scores: pd.DataFrame,
    golden: Golden,
    results: Results,
    metrics: list[str],
    *,
    rule: Rule | None = None,
    profile: Profile | None = None,
    policies: Policies | None = None,
) -> Unjudged:
    """Bound scores over the labels that unjudged hits might get; see `Evaluation.unjudged`.

    Parameters
    ----------
    scores
        Of these results by this golden set, with `level` and columns of the metrics.
    metrics
        Labels of ranking metrics.
    """
    labels = movable(metrics)
    holding = resolve_policies(profile, policies or Policies())
    rows = scores[["run_id", "level", *(label.text for label in labels)]]
    rows = rows[scores["state"].ne("extra").to_numpy()].reset_index()
    used = [name for name in LEVELS if rows["level"].eq(name).any()]
    if not used:
        allowed = "scores of queries that have targets"
        raise DataError("no query has a match level", field="scores", allowed=allowed)
    parts: dict[str, list[pd.DataFrame]] = {label.text: [] for label in labels}
    for level, is_suffix in [(name, False) for name in used] + [(name, True) for name in LEVELS]:
        own = [label for label in labels if label.level == (level if is_suffix else None)]
        if own:
            lists = lists_at(level, golden, results, None if is_suffix else rule, profile, holding)
            is_here = np.ones(len(rows), dtype=bool)
            if not is_suffix:
                is_here = rows["level"].eq(level).fillna(False).to_numpy(dtype=bool)
            for label, found in zip(own, _bounded(lists, own, rows[is_here]), strict=True):
                parts[label.text].append(found)
    by_metric = {
        metric: found[0] if len(found) == 1 else pd.concat(found, ignore_index=True)
        for metric, found in parts.items()
    }
    return Unjudged(by_metric, ", ".join(used))


def movable(metrics: list[str]) -> list[Label]:
    """Return the labels of metrics that a relevant label can move.

    Raises
    ------
    DataError
        Another metric; those are named.
    """
    labels = [label_of(name) for name in metrics]
    others = [label.text for label in labels if label.name not in MOVABLE]
    if others:
        raise DataError(
            f"labels of hits don't move {name_list(others)}",
            field="metrics",
            allowed=f"ranking metrics: {', '.join(MOVABLE)}, with a cut-off where they have one",
        )
    return labels


def lists_at(
    level: str,
    golden: Golden,
    results: Results,
    rule: Rule | None,
    profile: Profile | None,
    holding: Policies,
) -> JudgedLists:
    """Return the lists as a scoring of these policies sees them, unjudged hits included."""
    return judged_lists(
        with_hits_kept(results, holding), read_refusals(golden, profile), level, rule=rule,
        min_grade=holding.min_grade, keep_refusals=keeps_refusals(profile),
    )  # fmt: skip


def _bounded(lists: JudgedLists, labels: list[Label], rows: pd.DataFrame) -> list[pd.DataFrame]:
    """One frame per metric, one row per score: its value, its bounds, what is judged of its list.

    The labels are of one level, which is that of the lists.
    """
    plain = [parse_label(label.text.removesuffix(f":{label.level}")) for label in labels]
    irrelevant = all_labelled(lists, plain, 0)
    relevant = all_labelled(lists, plain, lists.min_grade)
    bounds = label_bounds(lists, plain)
    # where each row of scores stands among the rows of the lists
    queries = pd.Index(lists.golden.queries["query_id"])
    runs = lists.rows["run_id"].cat.categories
    has_free, every = lists.n_free > 0, pair_codes(rows, ("run_id", "query_id"), runs, queries)
    run_ids, query_ids = rows["run_id"].array, rows["query_id"].array
    cuts = dict.fromkeys(one.k for one in plain)
    shares = {k: lists.judged_share(k) for k in cuts}
    counts = {k: lists.per_row(lists.within(k) & lists.is_free) for k in cuts}
    counted, parts = np.zeros(0, np.int64), []
    keys: dict[str, Any] = {}
    for label, one in zip(labels, plain, strict=True):
        value = rows[label.text].to_numpy("float64")
        here = np.flatnonzero(~np.isnan(value))
        if not keys or not np.array_equal(here, counted):  # as a rule, most metrics count the same
            counted, keys = here, {"run_id": run_ids[here], "query_id": query_ids[here]}
        value, at = value[counted], every[counted]
        is_open = has_free[at]
        ends = {}
        for name, found in (("all_irrelevant", irrelevant), ("all_relevant", relevant)):
            # what a policy gives a query without hits or targets stays where there is no label
            labelled = found[one.text][at]
            ends[name] = np.where(is_open & ~np.isnan(labelled), labelled, value)
        low, high = (side[at] for side in bounds[one.text])
        # Where nothing is relevant a policy gives the value, and labels may make it anything.
        low = np.where(np.isnan(low), np.where(is_open, 0.0, value), low)
        high = np.where(np.isnan(high), np.where(is_open, 1.0, value), high)
        least, most = np.minimum(*ends.values()), np.maximum(*ends.values())
        parts.append(pd.DataFrame({
            **keys, "value": value, **ends,
            "low": np.fmin(low, least),  # equal but for rounding
            "high": np.fmax(high, most),
            "judged": shares[one.k][at], "n_unjudged": counts[one.k][at].astype(np.int64),
        }, copy=False))  # fmt: skip
    return parts
