"""Ranking metrics: each with its formula, its names, and what labels of unjudged hits do to it.

A formula gets the credit of all rows within its cut-off, and its label; NaN for queries without
what the metric needs is set for it. Bounds get the shape of the lists (`scoring.unjudged`).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ragscore.frames.data import DataError
from ragscore.frames.typing import Codes, Values
from ragscore.scoring.metrics.credit import WHOLE_LIST, Credit, GainFunction, place_in_group, so_far
from ragscore.scoring.metrics.declaration import Label
from ragscore.scoring.metrics.family import Family
from ragscore.scoring.metrics.needs import GRADES, GROUPS, HITS, IRRELEVANT, NO_HIT, TARGETS
from ragscore.scoring.metrics.sums import count_up_to, from_end, later, sum_so_far

Ends = tuple[Values | None, Values | None]
RECALL_LEVELS = tuple(level / 10 for level in range(11))  # of 11pt_avg
ROUNDS = 60  # of Dinkelbach's method, which needs a handful
GRADED = (GRADES, HITS)

metric = Family("ranking", needs=(TARGETS, HITS), reads_matches=True)


@metric(
    "hit@k", "1 if a relevant hit (grade ≥ min_grade, by default 1) has rank ≤ k", kind="binary",
    also="trec_eval success_k, ir_measures Success@k, ranx hit_rate@k", monotone=True,
    aspect="retrieval", priority=5, of_calls="set",
)  # fmt: skip
def hit(credit: Credit, label: Label) -> Values:
    return np.isfinite(credit.first_rank).astype("float64")


def recall_bounds(shape: Any, label: Label) -> Ends:
    targets, met = shape.lists.n_relevant, shape.n_met
    return met / (targets + shape.n_beyond), (met + shape.n_free) / (targets + shape.n_free)


def recall(credit: Credit, label: Label) -> Values:
    return credit.total(credit.n_found) / credit.n_targets


metric(
    "recall@k", "distinct relevant targets met at rank ≤ k / all of them",
    also="trec_eval recall_k, ir_measures R@k", spelled=("Recall",),
    unjudged=recall_bounds, aspect="retrieval", priority=4, of_calls="set",
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
    spelled=("Precision",), monotone=True, vacuous=0.0, of_calls="share",
)  # fmt: skip
def precision(credit: Credit, label: Label) -> Values:
    return credit.total(credit.grade >= credit.min_grade) / float(label.k or 0)


def ap_bounds(shape: Any, label: Label) -> Ends:
    # Of so many labels within the cut, the first hits make most of it and the last ones least: a
    # label moved up leaves no precision lower. So only these sets are tried, by their number.
    free_row, free_rank = shape.free
    row, rank, _ = shape.gaining
    targets = shape.lists.n_relevant
    before = shape.sum(row, (place_in_group(row) + 1) / rank)
    lists = shape.lists
    up_to = np.append(0, np.cumsum(shape.gains))  # gaining hits before each place of the lists
    begin = lists.begin[free_row]
    n_so_far = up_to[shape.free_at]
    n_above = n_so_far - up_to[begin]
    # sums of 1 / rank over gaining hits below each free item, then over free items as well
    n_by_end = up_to[begin + lists.rows["n_hits"].to_numpy()[free_row]]
    to_end = np.append(from_end(1.0 / rank, row), 0.0)
    below = np.where(n_so_far < n_by_end, to_end[n_so_far], 0.0)
    after = later(free_row, 1.0 / free_rank, shape.n)
    place = shape.free_place
    first = sum_so_far((n_above + place) / free_rank + below, free_row)
    last = from_end((n_above + 1) / free_rank + below + after, free_row)
    n_left = shape.n_free[free_row] - place + 1  # labels from this item to the end
    high = before / targets
    np.maximum.at(high, free_row, (before[free_row] + first) / (targets[free_row] + place))
    most = targets + shape.n_beyond
    low = before / most
    np.minimum.at(low, free_row, (before[free_row] + last) / (most[free_row] + n_left))
    return low, high


@metric(
    "map@k",
    "Σ over gaining hits of rank i ≤ k of (gaining hits up to i) / i, divided by the number of"
    " relevant targets",
    also="trec_eval map_cut_k, ir_measures AP@k", unjudged=ap_bounds,
)  # fmt: skip
@metric(
    "map", "as map@k, over the whole list", also="trec_eval map, ir_measures AP",
    spelled=("MAP",), unjudged=ap_bounds, default=False,
)  # fmt: skip
def average_precision(credit: Credit, label: Label) -> Values:
    is_gaining = credit.gain >= credit.min_grade
    row, rank = credit.row[is_gaining], credit.rank[is_gaining]
    n_so_far = place_in_group(row) + 1
    return np.bincount(row, n_so_far / rank, credit.n_rows) / credit.n_targets


def exponential_gain(grade: npt.NDArray[np.int64]) -> Values:
    return np.exp2(grade.astype(np.float64)) - 1.0


def linear_gain(grade: npt.NDArray[np.int64]) -> Values:
    return grade.astype(np.float64)


def ndcg_bounds(shape: Any, label: Label) -> Ends:
    lists = shape.lists
    gain_of = lists.stated or (exponential_gain if label.name == "ndcg" else linear_gain)
    (free_row, _), (summed, to_end) = shape.free, shape.discounts
    counts, judged = shape.n_from, shape.judged
    worth = gain_of(np.arange(lists.highest_grade + 1))
    steps = dict(enumerate(np.diff(worth), start=1))
    dcg = shape.sum(judged["row"], worth[judged["gain"]] / np.log2(judged["rank"] + 1.0))

    # An ideal list of n targets has the discounts of its first min(n, k) ranks. Of graded targets,
    # it is one list for each grade, of all targets of that grade or more.
    def ideal(more: Codes, rows: Codes | slice = slice(None)) -> Values:
        total = np.zeros(len(more))
        for grade, n in counts.items():
            total += steps[grade] * shape.ideal[n[rows] + more]
        return total

    # DCG is linear in the gains of unjudged hits and the ideal DCG convex, so the least quotient
    # has each at 0 or at the highest grade; of so many within the cut, the last ones lower it most.
    n_beyond = shape.n_beyond.astype(np.int64)
    worst = dcg / np.where(counts[1] > 0, ideal(n_beyond), np.nan)
    n_left = shape.n_free.astype(np.int64)[free_row] - shape.free_place + 1
    gained = dcg[free_row] + worth[-1] * to_end
    np.minimum.at(worst, free_row, gained / ideal(n_beyond[free_row] + n_left, free_row))

    # The highest quotient by Dinkelbach's method (1967, doi:10.1287/mnsc.13.7.492): where the best
    # of DCG − λ · ideal DCG is 0, λ is the highest quotient. Grade by grade the best is to label
    # the first hits, as many as pay.
    start = ideal(np.zeros(shape.n, np.int64))
    best = dcg / np.where(counts[1] > 0, start, np.nan)
    if not len(free_row):
        return worst, best
    begins = np.flatnonzero(np.diff(free_row, prepend=-1))
    owner, added = free_row[begins], shape.ideal_added
    n = np.diff(begins, append=len(free_row))
    for _ in range(ROUNDS):
        above, under = dcg[owner], start[owner]
        price = np.repeat(best[owner], n)
        for grade, step in steps.items():
            pays = summed - price * added[grade]
            most = np.maximum.reduceat(pays, begins)
            is_most = np.flatnonzero(pays == np.repeat(most, n))
            takes = np.flatnonzero(most > 0)
            at = is_most[np.searchsorted(is_most, begins[takes])]  # the first one of each row
            above[takes] += step * summed[at]
            under[takes] += step * added[grade][at]
        found = np.fmax(best[owner], above / under)
        is_higher = found > best[owner] + 1e-15
        moves, best[owner] = found != best[owner], found
        if not is_higher.any():
            break
        # What hasn't moved never will.
        still = np.repeat(moves, n)
        summed = summed[still]
        added = {grade: more[still] for grade, more in added.items()}
        owner, n = owner[moves], n[moves]
        begins = np.cumsum(n) - n
    return worst, best


def dcg_share(credit: Credit, label: Label, gain: GainFunction) -> Values:
    gain = credit.stated or gain
    dcg = credit.total(gain(credit.gain) / np.log2(credit.rank + 1.0))
    return dcg / credit.ideal(gain, WHOLE_LIST if label.k is None else label.k)


@metric(
    "ndcg@k",
    "Σ_{rank ≤ k} (2^gain − 1) / log2(rank + 1), divided by the same over the targets' grades,"
    " best first; where targets state gains, these instead of 2^gain − 1 (Burges et al. 2005,"
    " doi:10.1145/1102351.1102363)",
    also="ir_measures nDCG(dcg='exp-log2')@k, ranx ndcg_burges@k", needs=GRADED,
    unjudged=ndcg_bounds, aspect="retrieval", priority=1,
)  # fmt: skip
@metric(
    "ndcg", "as ndcg@k, over the whole list and all targets", also="ranx ndcg_burges",
    needs=GRADED, unjudged=ndcg_bounds, default=False,
)  # fmt: skip
def ndcg(credit: Credit, label: Label) -> Values:
    return dcg_share(credit, label, exponential_gain)


@metric(
    "ndcg_linear@k",
    "as ndcg@k with the gain itself instead of 2^gain − 1 (Järvelin & Kekäläinen 2002,"
    " doi:10.1145/582415.582418)",
    also="trec_eval ndcg_cut_k, ir_measures nDCG(dcg='log2')@k", needs=GRADED, unjudged=ndcg_bounds,
)  # fmt: skip
@metric(
    "ndcg_linear", "as ndcg_linear@k, over the whole list and all targets",
    also="trec_eval ndcg, ir_measures nDCG(dcg='log2')", needs=GRADED, unjudged=ndcg_bounds,
    default=False,
)  # fmt: skip
def ndcg_linear(credit: Credit, label: Label) -> Values:
    return dcg_share(credit, label, linear_gain)


@metric(
    "judged@k",
    "hits of rank ≤ k that meet any target, grade 0 included / min(k, number of hits)",
    also="ir_measures Judged@k", needs=GRADED, gaps=(NO_HIT,), vacuous=None,
)  # fmt: skip
def judged(credit: Credit, label: Label) -> Values:
    return credit.total(np.ones(len(credit.row))) / np.minimum(float(label.k or 0), credit.n_hits)


@metric(
    "mrr@k", "as mrr, 0 if that rank is above k", also="ir_measures RR@k", monotone=True,
    aspect="retrieval", priority=2,
)  # fmt: skip
@metric(
    "mrr", "1 / rank of the first relevant hit, 0 if there is none",
    also="trec_eval recip_rank, ir_measures RR", spelled=("MRR",), monotone=True,
    aspect="retrieval", priority=3,
)  # fmt: skip
def mrr(credit: Credit, label: Label) -> Values:
    return np.where(np.isfinite(credit.first_rank), 1 / credit.first_rank, 0.0)


def r_precision_bounds(shape: Any, label: Label) -> Ends:
    if shape.outside.any():
        return np.zeros(shape.n), np.ones(shape.n)
    lists, targets = shape.lists, shape.lists.n_relevant
    free_row, free_rank = shape.free
    n_free = shape.n_free.astype(np.int64)
    row = np.repeat(np.arange(shape.n), n_free + 1)
    n_labels = place_in_group(row)
    n_relevant = targets[row] + n_labels
    judged = shape.judged
    right = judged["grade"] >= lists.min_grade
    known = count_up_to(judged["row"][right], judged["rank"][right], row, n_relevant)
    near = count_up_to(free_row, free_rank, row, n_relevant)
    # Hits of one item share its label. Of a list with such hits, all free ones might be right.
    shown = lists.is_free
    all_near = count_up_to(lists.row[shown], lists.rank[shown], row, n_relevant)
    repeats = lists.per_row(shown) > lists.n_free
    most = np.where(repeats[row] & (n_labels > 0), all_near, np.minimum(n_labels, near))
    least = np.maximum(0, n_labels - (n_free[row] - near))
    low, high = np.full(shape.n, np.inf), np.zeros(shape.n)
    np.minimum.at(low, row, (known + least) / n_relevant)
    np.maximum.at(high, row, (known + most) / n_relevant)
    return low, high


@metric(
    "rprec", "relevant hits at rank ≤ R / R, where R is the number of relevant targets",
    also="trec_eval Rprec, ir_measures Rprec, ranx r-precision", spelled=("RPrec",),
    unjudged=r_precision_bounds, default=False,
)  # fmt: skip
def r_precision(credit: Credit, label: Label) -> Values:
    n_targets = credit.n_targets
    is_counted = (credit.grade >= credit.min_grade) & (credit.rank <= n_targets[credit.row])
    return credit.total(is_counted) / n_targets


def bpref_bounds(shape: Any, label: Label) -> Ends:
    if shape.outside.any():
        return np.zeros(shape.n), np.ones(shape.n)
    lists, targets = shape.lists, shape.lists.n_relevant
    row, rank, _ = shape.gaining
    judged = shape.judged
    wrong = judged["grade"] < lists.min_grade
    shown = lists.is_free
    # A relevant hit loses most if every other hit before it is judged as not relevant, and the
    # fewest targets share the loss.
    before = count_up_to(judged["row"][wrong], judged["rank"][wrong], row, rank)
    before = before + count_up_to(lists.row[shown], lists.rank[shown], row, rank)
    fewest = np.maximum(np.minimum(lists.n_irrelevant, targets), 1.0)[row]
    kept = shape.sum(row, 1.0 - np.minimum(before, fewest) / fewest)
    low = kept / (targets + shape.n_free)
    high = (shape.sum(row, np.ones(len(row))) + shape.n_free) / (targets + shape.n_free)
    return low, high


@metric(
    "bpref",
    "Σ over gaining hits of 1 − min(n, N, R) / min(N, R), divided by R: n judged hits before it"
    " and N targets that are not relevant, R relevant targets; a term with n = 0 is 1 (Buckley &"
    " Voorhees 2004, doi:10.1145/1008992.1009000)",
    also="trec_eval bpref, ir_measures Bpref", spelled=("BPref",),
    needs=(IRRELEVANT, TARGETS, HITS), unjudged=bpref_bounds, default=False, version=2,
)  # fmt: skip
def bpref(credit: Credit, label: Label) -> Values:
    is_gaining = np.flatnonzero(credit.gain >= credit.min_grade)
    row = credit.row[is_gaining]
    n_before = so_far(credit.row, credit.grade < credit.min_grade)[is_gaining]
    # of several hits of one document more may be before than there are targets
    most = np.minimum(credit.n_irrelevant(), credit.n_targets)[row]
    lost = np.where(n_before > 0, np.minimum(n_before, most) / most, 0.0)
    return np.bincount(row, 1.0 - lost, credit.n_rows) / credit.n_targets


@metric(
    "set_precision", "relevant hits / hits, 0 without hits",
    also="trec_eval set_P, ir_measures SetP", monotone=True, default=False, vacuous=0.0,
    of_calls="set",
)  # fmt: skip
def set_precision(credit: Credit, label: Label) -> Values:
    return credit.total(credit.grade >= credit.min_grade) / np.maximum(credit.n_hits, 1.0)


metric(
    "set_recall", "distinct relevant targets met / all of them",
    also="trec_eval set_recall, ir_measures SetR", unjudged=recall_bounds, default=False,
    of_calls="set",
)(recall)  # fmt: skip


def f1_bounds(shape: Any, label: Label) -> Ends:
    # Precision is lowest without labels, and recall if only what is outside is relevant. Both are
    # highest if all of the list is.
    judged, lists = shape.judged, shape.lists
    right = shape.sum(judged["row"], judged["grade"] >= lists.min_grade)
    precision = right / np.maximum(lists.rows["n_hits"].to_numpy(), 1)
    recall = shape.n_met / (lists.n_relevant + shape.outside)
    low = np.where(recall > 0, 2 * precision * recall / (precision + recall), 0.0)
    return low, None


@metric(
    "set_f1", "2 · set_precision · set_recall / (set_precision + set_recall), 0 if both are 0",
    also="trec_eval set_F, ir_measures SetF", monotone=True, unjudged=f1_bounds, default=False,
)  # fmt: skip
def set_f1(credit: Credit, label: Label) -> Values:
    precision, found = set_precision(credit, label), recall(credit, label)
    return np.where(found > 0, 2 * precision * found / (precision + found), 0.0)


@metric(
    "err@k",
    "Σ_{rank i ≤ k} (1 / i) · s_i · Π_{j < i} (1 − s_j), s = (2^gain − 1) / 2^4; err(2)@k takes 2"
    " as the highest grade instead of 4 (Chapelle et al. 2009, doi:10.1145/1645953.1646033)",
    also="ir_measures ERR@k, TREC's gdeval", needs=GRADED, monotone=True, default=False,
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
    also="ir_measures RBP(p=0.8, rel=1), ranx rbp", monotone=True, default=False,
    parameter=(0.8, lambda p: 0 < p < 1, "0 < p < 1, as in rbp(0.8)"),
)  # fmt: skip
def rbp(credit: Credit, label: Label) -> Values:
    p = float(label.parameter or 0)
    relevant = credit.grade >= credit.min_grade
    weights = np.where(relevant, p ** (credit.rank - 1.0), 0.0)
    return (1.0 - p) * credit.total(weights)


def interpolated(credit: Credit, levels: Sequence[float]) -> Values:
    """Return the mean interpolated precision at these recall levels."""
    gaining = np.flatnonzero(credit.gain >= credit.min_grade)
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


def iprec_bounds(shape: Any, label: Label) -> Ends:
    if shape.outside.any():
        return np.zeros(shape.n), np.ones(shape.n)
    is_one = label.name == "iprec"
    levels = [label.parameter or 0.0] if is_one else RECALL_LEVELS
    row, rank, n_found = shape.gaining
    free_row, free_rank = shape.free
    targets = shape.lists.n_relevant
    event_row, event_rank = np.concatenate([row, free_row]), np.concatenate([rank, free_rank])
    is_free = np.concatenate([np.zeros(len(row), bool), np.ones(len(free_row), bool)])
    order = np.lexsort((event_rank, event_row))
    event_row, event_rank, is_free = event_row[order], event_rank[order], is_free[order]
    met = np.concatenate([n_found, np.ones(len(free_row), np.int64)])[order]
    n_labels = sum_so_far(is_free.astype("float64"), event_row)
    n_met = sum_so_far(met.astype("float64"), event_row)
    precision = (place_in_group(event_row) + 1) / event_rank
    known_precision, known_met = (
        (place_in_group(row) + 1) / rank,
        sum_so_far(n_found.astype("float64"), row),
    )
    low, high = np.zeros(shape.n), np.zeros(shape.n)
    for level in levels:
        # At a hit, labels down to it raise precision most; further ones only ask for more recall.
        needed = np.floor(level * (targets[event_row] + n_labels) + 0.9)
        top = np.zeros(shape.n)
        np.maximum.at(top, event_row, np.where(n_met >= needed, precision, 0.0))
        # Whatever is labelled, judged hits keep at least their precision, and no more is needed
        # than if all were relevant.
        needed = np.floor(level * (targets + shape.n_free) + 0.9)[row]
        bottom = np.zeros(shape.n)
        np.maximum.at(bottom, row, np.where(known_met >= needed, known_precision, 0.0))
        low, high = low + bottom / len(levels), high + top / len(levels)
    return low, high


@metric(
    "iprec@r",
    "interpolated precision at recall r: the highest precision at a gaining hit by which at least"
    " ⌊r · R + 0.9⌋ of the R relevant targets are met, 0 if there is none; 0 ≤ r ≤ 1 (trec_eval's"
    " definition)",
    also="trec_eval iprec_at_recall_r, ir_measures IPrec@r", unjudged=iprec_bounds, default=False,
    parameter=(None, lambda r: 0 <= r <= 1, "a recall level from 0 to 1, as in iprec@0.1"),
)  # fmt: skip
def iprec(credit: Credit, label: Label) -> Values:
    return interpolated(credit, [label.parameter or 0.0])


@metric(
    "11pt_avg", "mean of iprec at the recall levels 0, 0.1, 0.2, ..., 1",
    also="trec_eval 11pt_avg", unjudged=iprec_bounds, default=False,
)  # fmt: skip
def eleven_points(credit: Credit, label: Label) -> Values:
    return interpolated(credit, RECALL_LEVELS)
