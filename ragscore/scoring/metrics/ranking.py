"""Ranking metrics: a formula gets the matched hits within its cut-off, and its label."""

import numpy as np

from ragscore.frames.data import DataError
from ragscore.frames.typing import Values
from ragscore.scoring.metrics.declaration import Family, Label
from ragscore.scoring.metrics.matched import WHOLE_LIST, MatchedHits, so_far
from ragscore.scoring.metrics.needs import IRRELEVANT, TARGETS
from ragscore.scoring.targets import Gain, place_in_group

metric = Family("ranking", needs=(TARGETS,))
whole = Family("ranking", needs=(TARGETS,), default=False)


@metric(
    "hit@k",
    "1 if a relevant hit (grade ≥ 1) has rank ≤ k",
    kind="binary",
    also="trec_eval success_k, ir_measures Success@k, ranx hit_rate@k",
)
def hit(hits: MatchedHits, label: Label) -> Values:
    return np.isfinite(hits.first_rank).astype("float64")


@whole(
    "set_recall",
    "distinct relevant targets met / all of them",
    also="trec_eval set_recall, ir_measures SetR",
)
@metric(
    "recall@k",
    "distinct relevant targets met at rank ≤ k / all of them",
    also="trec_eval recall_k, ir_measures R@k",
)
def recall(hits: MatchedHits, label: Label) -> Values:
    return hits.per_target(hits.total(hits.n_found))


@metric(
    "recall_all@k",
    "1 if every target of some support group is met at rank ≤ k; all targets are one group of a"
    " query that has no groups",
    kind="binary",
    version=2,
)
def recall_all(hits: MatchedHits, label: Label) -> Values:
    complete = hits.group_rank()
    return np.where(np.isnan(complete), np.nan, complete <= (label.k or 0))


@metric("precision@k", "relevant hits at rank ≤ k / k", also="trec_eval P_k, ir_measures P@k")
def precision(hits: MatchedHits, label: Label) -> Values:
    return hits.total(hits.grade > 0) / float(label.k or 0)


@whole("map", "as map@k, over the whole list", also="trec_eval map, ir_measures AP")
@metric(
    "map@k",
    "Σ over gaining hits of rank i ≤ k of (gaining hits up to i) / i, divided by the number of"
    " relevant targets",
    also="trec_eval map_cut_k, ir_measures AP@k",
)
def average_precision(hits: MatchedHits, label: Label) -> Values:
    row, rank = hits.row[hits.gain > 0], hits.rank[hits.gain > 0]
    return hits.per_target(np.bincount(row, (place_in_group(row) + 1) / rank, hits.rows.n))


def exponential_gain(grade: np.ndarray) -> Values:
    return np.exp2(grade.astype(np.float64)) - 1.0


def linear_gain(grade: np.ndarray) -> Values:
    return grade.astype(np.float64)


def dcg_share(hits: MatchedHits, label: Label, gain: Gain) -> Values:
    gain = hits.expected.stated or gain
    dcg = hits.total(gain(hits.gain) / np.log2(hits.rank + 1.0))
    ideal = hits.ideal(gain, WHOLE_LIST if label.k is None else label.k)
    return np.where(hits.n_targets > 0, dcg / ideal, 0.0)


@whole("ndcg", "as ndcg@k, over the whole list and all targets", also="ranx ndcg_burges")
@metric(
    "ndcg@k",
    "Σ_{rank ≤ k} (2^gain − 1) / log2(rank + 1), divided by the same over the targets'"
    " grades, best first; where targets state gains, these instead of 2^gain − 1 (Burges et"
    " al. 2005, doi:10.1145/1102351.1102363)",
    also="ir_measures nDCG(dcg='exp-log2')@k, ranx ndcg_burges@k",
)
def ndcg(hits: MatchedHits, label: Label) -> Values:
    return dcg_share(hits, label, exponential_gain)


@whole(
    "ndcg_linear",
    "as ndcg_linear@k, over the whole list and all targets",
    also="trec_eval ndcg, ir_measures nDCG(dcg='log2')",
)
@metric(
    "ndcg_linear@k",
    "as ndcg@k with the gain itself instead of 2^gain − 1 (Järvelin & Kekäläinen 2002,"
    " doi:10.1145/582415.582418)",
    also="trec_eval ndcg_cut_k, ir_measures nDCG(dcg='log2')@k",
)
def ndcg_linear(hits: MatchedHits, label: Label) -> Values:
    return dcg_share(hits, label, linear_gain)


@metric(
    "judged@k",
    "hits of rank ≤ k that meet any target, grade 0 included / min(k, number of hits)",
    also="ir_measures Judged@k",
)
def judged(hits: MatchedHits, label: Label) -> Values:
    return hits.total(np.ones(len(hits.row))) / np.minimum(float(label.k or 0), hits.rows.n_hits)


@metric("mrr@k", "as mrr, 0 if that rank is above k", also="ir_measures RR@k")
@metric(
    "mrr",
    "1 / rank of the first relevant hit, 0 if there is none",
    also="trec_eval recip_rank, ir_measures RR",
)
def mrr(hits: MatchedHits, label: Label) -> Values:
    return np.where(np.isfinite(hits.first_rank), 1 / hits.first_rank, 0.0)


@whole(
    "rprec",
    "relevant hits at rank ≤ R / R, where R is the number of relevant targets",
    also="trec_eval Rprec, ir_measures Rprec, ranx r-precision",
)
def r_precision(hits: MatchedHits, label: Label) -> Values:
    return hits.per_target(hits.total((hits.grade > 0) & (hits.rank <= hits.n_targets[hits.row])))


@whole(
    "bpref",
    "Σ over gaining hits of 1 − min(n, N, R) / min(N, R), divided by R: n judged hits"
    " before it and N targets that are not relevant, R relevant targets; a term with n = 0"
    " is 1 (Buckley & Voorhees 2004, doi:10.1145/1008992.1009000)",
    also="trec_eval bpref, ir_measures Bpref",
    needs=(IRRELEVANT, TARGETS),
    version=2,
)
def bpref(hits: MatchedHits, label: Label) -> Values:
    gaining = np.flatnonzero(hits.gain > 0)
    row = hits.row[gaining]
    n_before = so_far(hits.row, hits.grade < 1)[gaining]
    most = np.minimum(hits.expected.n_irrelevant[hits.rows.query], hits.n_targets)[row]
    lost = np.where(n_before > 0, np.minimum(n_before, most) / most, 0.0)
    return hits.per_target(np.bincount(row, 1.0 - lost, hits.rows.n))


@whole(
    "set_precision",
    "relevant hits / hits, 0 without hits",
    also="trec_eval set_P, ir_measures SetP",
)
def set_precision(hits: MatchedHits, label: Label) -> Values:
    return hits.total(hits.grade > 0) / np.maximum(hits.rows.n_hits, 1.0)


@whole(
    "set_f1",
    "2 · set_precision · set_recall / (set_precision + set_recall), 0 if both are 0",
    also="trec_eval set_F, ir_measures SetF",
)
def set_f1(hits: MatchedHits, label: Label) -> Values:
    right, found = set_precision(hits, label), recall(hits, label)
    return np.where(found > 0, 2 * right * found / (right + found), 0.0)


@whole(
    "err@k",
    "Σ_{rank i ≤ k} (1 / i) · s_i · Π_{j < i} (1 − s_j), s = (2^gain − 1) / 2^4; err(2)@k"
    " takes 2 as the highest grade instead of 4 (Chapelle et al. 2009,"
    " doi:10.1145/1645953.1646033)",
    also="ir_measures ERR@k, TREC's gdeval",
    parameter=(
        4.0,
        r"[1-9]\d*(\.0+)?",
        "the highest grade, a whole number from 1, as in err(4)@10",
    ),
)
def err(hits: MatchedHits, label: Label) -> Values:
    highest = int(label.parameter or 0)
    if (found := int(hits.expected.grade.max(initial=0))) > highest:
        raise DataError(
            f"a target of grade {found}", field=label.text, allowed=f"err({found})@{label.k}"
        )
    at = np.flatnonzero(hits.gain > 0)
    row, rank, stops = hits.row[at], hits.rank[at], exponential_gain(hits.gain[at]) / 2.0**highest
    place = place_in_group(row)
    total, goes_on = np.zeros(hits.rows.n), np.ones(hits.rows.n)
    for number in range(
        int(place.max(initial=-1)) + 1
    ):  # each row's first gaining hit, its second, ...
        here = np.flatnonzero(place == number)
        total[row[here]] += goes_on[row[here]] * stops[here] / rank[here]
        goes_on[row[here]] *= 1.0 - stops[here]
    return total


@whole(
    "rbp",
    "(1 − p) Σ p^(i − 1) over relevant hits of rank i, with p = 0.8; rbp(0.95) takes"
    " another p, 0 < p < 1 (Moffat & Zobel 2008, doi:10.1145/1416950.1416952)",
    also="ir_measures RBP(p=0.8, rel=1), ranx rbp",
    parameter=(0.8, r"0?\.\d*[1-9]\d*", "0 < p < 1, as in rbp(0.8)"),
)
def rbp(hits: MatchedHits, label: Label) -> Values:
    p = float(label.parameter or 0)
    return (1.0 - p) * hits.total(np.where(hits.grade > 0, p ** (hits.rank - 1.0), 0.0))


def interpolated(hits: MatchedHits, levels: list[float]) -> Values:
    """Return the mean interpolated precision at these recall levels, as trec_eval defines it."""
    at = np.flatnonzero(hits.gain > 0)
    row, total = hits.row[at], np.zeros(hits.rows.n)
    precision, n_met = (place_in_group(row) + 1) / hits.rank[at], so_far(row, hits.n_found[at])
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    for level in levels if len(begins) else ():
        needed = np.floor(level * hits.n_targets + 0.9)[row]
        total[row[begins]] += np.maximum.reduceat(np.where(n_met >= needed, precision, 0.0), begins)
    return total / len(levels)


@whole(
    "iprec@r",
    "interpolated precision at recall r: the highest precision at a gaining hit by which at"
    " least ⌊r · R + 0.9⌋ of the R relevant targets are met, 0 if there is none; 0 ≤ r ≤ 1"
    " (trec_eval's definition)",
    also="trec_eval iprec_at_recall_r, ir_measures IPrec@r",
    parameter=(None, r"0?\.\d+|[01](\.0+)?", "a recall level from 0 to 1, as in iprec@0.1"),
)
def iprec(hits: MatchedHits, label: Label) -> Values:
    return interpolated(hits, [label.parameter or 0.0])


@whole(
    "11pt_avg", "mean of iprec at the recall levels 0, 0.1, 0.2, ..., 1", also="trec_eval 11pt_avg"
)
def eleven_points(hits: MatchedHits, label: Label) -> Values:
    return interpolated(hits, [level / 10 for level in range(11)])
