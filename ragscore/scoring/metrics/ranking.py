"""Ranking metrics: each with its formula and its names.

A formula gets the credit of all rows within its cut-off, and its label; NaN for queries without
what the metric needs is set for it.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ragscore.frames.data import DataError
from ragscore.frames.typing import Values
from ragscore.scoring.metrics.credit import WHOLE_LIST, Credit, GainFunction, place_in_group, so_far
from ragscore.scoring.metrics.declaration import Label
from ragscore.scoring.metrics.family import Family
from ragscore.scoring.metrics.needs import GROUPS, HITS, IRRELEVANT, NO_HIT, TARGETS

RECALL_LEVELS = tuple(level / 10 for level in range(11))  # of 11pt_avg

metric = Family("ranking", needs=(TARGETS, HITS), reads_matches=True)


@metric(
    "hit@k", "1 if a relevant hit (grade ≥ 1) has rank ≤ k", kind="binary",
    also="trec_eval success_k, ir_measures Success@k, ranx hit_rate@k",
    aspect="retrieval", priority=5, of_calls="set",
)  # fmt: skip
def hit(credit: Credit, label: Label) -> Values:
    return np.isfinite(credit.first_rank).astype("float64")


def recall(credit: Credit, label: Label) -> Values:
    return credit.total(credit.n_found) / credit.n_targets


metric(
    "recall@k", "distinct relevant targets met at rank ≤ k / all of them",
    also="trec_eval recall_k, ir_measures R@k", spelled=("Recall",),
    aspect="retrieval", priority=4, of_calls="set",
)(recall)  # fmt: skip


@metric(
    "recall_all@k", "1 if every target of some support group is met at rank ≤ k", kind="binary",
    needs=(GROUPS, HITS), vacuous=None, of_calls="set",
)  # fmt: skip
def recall_all(credit: Credit, label: Label) -> Values:
    assert credit.complete_rank is not None
    complete = credit.complete_rank()
    return np.where(np.isnan(complete), np.nan, complete <= (label.k or 0))


@metric(
    "precision@k", "relevant hits at rank ≤ k / k", also="trec_eval P_k, ir_measures P@k",
    spelled=("Precision",), vacuous=0.0, of_calls="share",
)  # fmt: skip
def precision(credit: Credit, label: Label) -> Values:
    return credit.total(credit.grade > 0) / float(label.k or 0)


@metric(
    "map@k",
    "Σ over gaining hits of rank i ≤ k of (gaining hits up to i) / i, divided by the number of"
    " relevant targets",
    also="trec_eval map_cut_k, ir_measures AP@k",
)  # fmt: skip
@metric(
    "map", "as map@k, over the whole list", also="trec_eval map, ir_measures AP",
    spelled=("MAP",), default=False,
)  # fmt: skip
def average_precision(credit: Credit, label: Label) -> Values:
    is_gaining = credit.gain > 0
    row, rank = credit.row[is_gaining], credit.rank[is_gaining]
    n_so_far = place_in_group(row) + 1
    return np.bincount(row, n_so_far / rank, credit.n_rows) / credit.n_targets


def exponential_gain(grade: npt.NDArray[np.int64]) -> Values:
    return np.exp2(grade.astype(np.float64)) - 1.0


def linear_gain(grade: npt.NDArray[np.int64]) -> Values:
    return grade.astype(np.float64)


def dcg_share(credit: Credit, label: Label, gain: GainFunction) -> Values:
    gain = credit.stated or gain
    dcg = credit.total(gain(credit.gain) / np.log2(credit.rank + 1.0))
    return dcg / credit.ideal(gain, WHOLE_LIST if label.k is None else label.k)


@metric(
    "ndcg@k",
    "Σ_{rank ≤ k} (2^gain − 1) / log2(rank + 1), divided by the same over the targets' grades,"
    " best first; where targets state gains, these instead of 2^gain − 1 (Burges et al. 2005,"
    " doi:10.1145/1102351.1102363)",
    also="ir_measures nDCG(dcg='exp-log2')@k, ranx ndcg_burges@k",
    aspect="retrieval", priority=1,
)  # fmt: skip
@metric(
    "ndcg", "as ndcg@k, over the whole list and all targets", also="ranx ndcg_burges",
    default=False,
)  # fmt: skip
def ndcg(credit: Credit, label: Label) -> Values:
    return dcg_share(credit, label, exponential_gain)


@metric(
    "ndcg_linear@k",
    "as ndcg@k with the gain itself instead of 2^gain − 1 (Järvelin & Kekäläinen 2002,"
    " doi:10.1145/582415.582418)",
    also="trec_eval ndcg_cut_k, ir_measures nDCG(dcg='log2')@k",
)  # fmt: skip
@metric(
    "ndcg_linear", "as ndcg_linear@k, over the whole list and all targets",
    also="trec_eval ndcg, ir_measures nDCG(dcg='log2')",
    default=False,
)  # fmt: skip
def ndcg_linear(credit: Credit, label: Label) -> Values:
    return dcg_share(credit, label, linear_gain)


@metric(
    "judged@k",
    "hits of rank ≤ k that meet any target, grade 0 included / min(k, number of hits)",
    also="ir_measures Judged@k", gaps=(NO_HIT,), vacuous=None,
)  # fmt: skip
def judged(credit: Credit, label: Label) -> Values:
    return credit.total(np.ones(len(credit.row))) / np.minimum(float(label.k or 0), credit.n_hits)


@metric(
    "mrr@k", "as mrr, 0 if that rank is above k", also="ir_measures RR@k",
    aspect="retrieval", priority=2,
)  # fmt: skip
@metric(
    "mrr", "1 / rank of the first relevant hit, 0 if there is none",
    also="trec_eval recip_rank, ir_measures RR", spelled=("MRR",),
    aspect="retrieval", priority=3,
)  # fmt: skip
def mrr(credit: Credit, label: Label) -> Values:
    return np.where(np.isfinite(credit.first_rank), 1 / credit.first_rank, 0.0)


@metric(
    "rprec", "relevant hits at rank ≤ R / R, where R is the number of relevant targets",
    also="trec_eval Rprec, ir_measures Rprec, ranx r-precision", spelled=("RPrec",), default=False,
)  # fmt: skip
def r_precision(credit: Credit, label: Label) -> Values:
    n_targets = credit.n_targets
    is_counted = (credit.grade > 0) & (credit.rank <= n_targets[credit.row])
    return credit.total(is_counted) / n_targets


@metric(
    "bpref",
    "Σ over gaining hits of 1 − min(n, N, R) / min(N, R), divided by R: n judged hits before it"
    " and N targets that are not relevant, R relevant targets; a term with n = 0 is 1 (Buckley &"
    " Voorhees 2004, doi:10.1145/1008992.1009000)",
    also="trec_eval bpref, ir_measures Bpref", spelled=("BPref",),
    needs=(IRRELEVANT, TARGETS, HITS), default=False, version=2,
)  # fmt: skip
def bpref(credit: Credit, label: Label) -> Values:
    is_gaining = np.flatnonzero(credit.gain > 0)
    row = credit.row[is_gaining]
    n_before = so_far(credit.row, credit.grade < 1)[is_gaining]
    # of several hits of one document more may be before than there are targets
    most = np.minimum(credit.n_irrelevant(), credit.n_targets)[row]
    lost = np.where(n_before > 0, np.minimum(n_before, most) / most, 0.0)
    return np.bincount(row, 1.0 - lost, credit.n_rows) / credit.n_targets


@metric(
    "set_precision", "relevant hits / hits, 0 without hits",
    also="trec_eval set_P, ir_measures SetP", default=False, vacuous=0.0,
    of_calls="set",
)  # fmt: skip
def set_precision(credit: Credit, label: Label) -> Values:
    return credit.total(credit.grade > 0) / np.maximum(credit.n_hits, 1.0)


metric(
    "set_recall", "distinct relevant targets met / all of them",
    also="trec_eval set_recall, ir_measures SetR", default=False,
    of_calls="set",
)(recall)  # fmt: skip


@metric(
    "set_f1", "2 · set_precision · set_recall / (set_precision + set_recall), 0 if both are 0",
    also="trec_eval set_F, ir_measures SetF", default=False,
)  # fmt: skip
def set_f1(credit: Credit, label: Label) -> Values:
    precision, found = set_precision(credit, label), recall(credit, label)
    return np.where(found > 0, 2 * precision * found / (precision + found), 0.0)


@metric(
    "err@k",
    "Σ_{rank i ≤ k} (1 / i) · s_i · Π_{j < i} (1 − s_j), s = (2^gain − 1) / 2^4; err(2)@k takes 2"
    " as the highest grade instead of 4 (Chapelle et al. 2009, doi:10.1145/1645953.1646033)",
    also="ir_measures ERR@k, TREC's gdeval", default=False,
    parameter=(4.0, lambda grade: grade >= 1 and grade == np.floor(grade),
               "the highest grade, a whole number from 1, as in err(4)@10"),
)  # fmt: skip
def err(credit: Credit, label: Label) -> Values:
    highest = int(label.parameter or 0)
    if (found := int(credit.ideal_grade.max(initial=0))) > highest:
        raise DataError(
            f"a target of grade {found}",
            field=label.text,
            allowed=f"grades up to {highest}; err({found})@{label.k} takes {found} as the highest",
        )
    gaining = np.flatnonzero(credit.gain > 0)
    row, rank = credit.row[gaining], credit.rank[gaining]
    stops = exponential_gain(credit.gain[gaining]) / 2.0**highest
    place = place_in_group(row)
    by_place = np.argsort(place, kind="stable")
    begins = np.searchsorted(place[by_place], np.arange(int(place.max(initial=-1)) + 2))
    total, goes_on = np.zeros(credit.n_rows), np.ones(credit.n_rows)
    # Each row's first gaining hits, then each one's second, ...: a product over a row's hits.
    for first, last in pairwise(begins.tolist()):
        at = by_place[first:last]
        total[row[at]] += goes_on[row[at]] * stops[at] / rank[at]
        goes_on[row[at]] *= 1.0 - stops[at]
    return total


@metric(
    "rbp",
    "(1 − p) Σ p^(i − 1) over relevant hits of rank i, with p = 0.8; rbp(0.95) takes another p,"
    " 0 < p < 1 (Moffat & Zobel 2008, doi:10.1145/1416950.1416952)",
    also="ir_measures RBP(p=0.8, rel=1), ranx rbp", default=False,
    parameter=(0.8, lambda p: 0 < p < 1, "0 < p < 1, as in rbp(0.8)"),
)  # fmt: skip
def rbp(credit: Credit, label: Label) -> Values:
    p = float(label.parameter or 0)
    relevant = credit.grade > 0
    weights = np.where(relevant, p ** (credit.rank - 1.0), 0.0)
    return (1.0 - p) * credit.total(weights)


def interpolated(credit: Credit, levels: Sequence[float]) -> Values:
    """Return the mean interpolated precision at these recall levels."""
    gaining = np.flatnonzero(credit.gain > 0)
    row = credit.row[gaining]
    precision = (place_in_group(row) + 1) / credit.rank[gaining]
    n_met = so_far(row, credit.n_found[gaining])
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    total = np.zeros(credit.n_rows)
    if not len(begins):
        return total
    for level in levels:
        needed = np.floor(level * credit.n_targets + 0.9)
        reached = np.where(n_met >= needed[row], precision, 0.0)
        total[row[begins]] += np.maximum.reduceat(reached, begins)
    return total / len(levels)


@metric(
    "iprec@r",
    "interpolated precision at recall r: the highest precision at a gaining hit by which at least"
    " ⌊r · R + 0.9⌋ of the R relevant targets are met, 0 if there is none; 0 ≤ r ≤ 1 (trec_eval's"
    " definition)",
    also="trec_eval iprec_at_recall_r, ir_measures IPrec@r", default=False,
    parameter=(None, lambda r: 0 <= r <= 1, "a recall level from 0 to 1, as in iprec@0.1"),
)  # fmt: skip
def iprec(credit: Credit, label: Label) -> Values:
    return interpolated(credit, [label.parameter or 0.0])


@metric(
    "11pt_avg", "mean of iprec at the recall levels 0, 0.1, 0.2, ..., 1",
    also="trec_eval 11pt_avg", default=False,
)  # fmt: skip
def eleven_points(credit: Credit, label: Label) -> Values:
    return interpolated(credit, RECALL_LEVELS)
