"""The table of every metric, and the formulas of the ranking metrics.

In: the sparse frames `graded` and `found` of `grading`. Out: one row per query asked, one column
per metric. The table says of each metric what it means, when it is NaN and which way is better.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from numbers import Real
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import all_differ, lookup, pair_numbers
from ragscore.frames.data import DataError, Golden, check_type
from ragscore.frames.errors import excerpt, nearest
from ragscore.frames.typing import Values
from ragscore.scoring.rules import LEVELS

DEFAULT_KS = (1, 3, 5, 10)
WHOLE_LIST = 2**31 - 1  # no list is longer: ranks have 32 bits
GainFunction = Callable[[npt.NDArray[np.int64]], Values]
Bounds = tuple[float, float]
NO_BOUNDS = (-np.inf, np.inf)
SMALLEST, LARGEST = 1e-150, 1e150  # width of a range whose squares a float holds
ROUNDING = 1e-9  # of a scale of 1: values that differ by less are equal, or within a bound


@dataclass(frozen=True)
class Metric:
    """One line of the metric table.

    `name` holds a `k` where the label takes a cut-off, and an `r` where it takes a recall level.

    `bounds` are its least and largest value, infinite where nothing bounds it: text for readers is
    made of them (`range`), never the other way round.

    `version` counts the meanings that its formula has had: stored values of different versions are
    not compared. It is written by hand: a hash of the source would change with every rename and
    comment, but not with the functions that the formula calls. A test holds every metric's values
    on a fixed example, and fails if they change and the version doesn't.
    """

    name: str
    formula: str
    nan_when: str
    kind: str = "bounded"  # binary, bounded, time, cost, other
    better: str = "higher"
    bounds: Bounds = (0.0, 1.0)
    unit: str = ""  # of its values
    also: str = ""  # its name in other tools
    default: bool = True
    version: int = 1

    @property
    def range(self) -> str:
        """Its bounds as text."""
        low, high = (f"{bound:.15g}" for bound in self.bounds)
        has_low, has_high = np.isfinite(self.bounds)
        text = f"{low} to {high}" if has_low and has_high else "any"
        if has_low != has_high:
            text = f"{low} and above" if has_low else f"{high} and below"
        return f"{text}, {self.unit}" if self.unit else text

    @property
    def width(self) -> float:
        """The distance of its bounds; infinite without one, or where no float holds it."""
        return self.bounds[1] - self.bounds[0]

    @property
    def scale(self) -> float:
        """The power of two at or below its width; 1 without bounds.

        What is computed is divided by it, which loses no bit: tests and tolerances are then those
        of a scale of about 1, whether a range ends at 1e-5 or at 1e6.
        """
        return float(np.exp2(np.floor(np.log2(self.width)))) if np.isfinite(self.width) else 1.0

    @property
    def rounding(self) -> float:
        """The difference up to which two of its values or means are equal but for rounding."""
        return ROUNDING * min(self.scale, 1.0)

    def scaled(self) -> "Metric":
        """Return the metric of values that were divided by its scale."""
        low, high = self.bounds
        return replace(self, bounds=(low / self.scale, high / self.scale))

    @property
    def is_unit(self) -> bool:
        """True if it ranges from 0 to 1."""
        return self.bounds == (0.0, 1.0)


_NO_TARGET = "no target of grade ≥ min_grade at the match level, or the query should be refused"
_NO_GRADE = "no target of grade ≥ 1 at the match level, or the query should be refused"
_NO_ANSWER = "no answer, or the query failed"
_NO_REFERENCE = "no reference answer, no answer, the query failed or should be refused"
_NOT_GIVEN = "no answer, the query failed, or the system refused"
_NOT_JUDGED = "not judged, every judgment failed, or the query failed"
TABLE = [
    Metric("hit@k", "1 if a relevant hit (grade ≥ min_grade, by default 1) has rank ≤ k", _NO_TARGET, kind="binary", also="trec_eval success_k, ir_measures Success@k, ranx hit_rate@k"),
    Metric("recall@k", "distinct relevant targets met at rank ≤ k / all of them", _NO_TARGET, also="trec_eval recall_k, ir_measures R@k"),
    Metric("recall_all@k", "1 if every target of some support group is met at rank ≤ k", "no support groups, or the query should be refused", kind="binary"),
    Metric("precision@k", "relevant hits at rank ≤ k / k", _NO_TARGET, also="trec_eval P_k, ir_measures P@k"),
    Metric("map", "as map@k, over the whole list", _NO_TARGET, also="trec_eval map, ir_measures AP", default=False),
    Metric("map@k", "Σ over gaining hits of rank i ≤ k of (gaining hits up to i) / i, divided by the number of relevant targets", _NO_TARGET, also="trec_eval map_cut_k, ir_measures AP@k"),
    Metric("ndcg", "as ndcg@k, over the whole list and all targets", _NO_GRADE, also="ranx ndcg_burges", default=False),
    Metric("ndcg@k", "Σ_{rank ≤ k} (2^gain − 1) / log2(rank + 1), divided by the same over the targets' grades, best first (Burges et al. 2005, doi:10.1145/1102351.1102363)", _NO_GRADE, also="ir_measures nDCG(dcg='exp-log2')@k, ranx ndcg_burges@k"),
    Metric("ndcg_linear", "as ndcg_linear@k, over the whole list and all targets", _NO_GRADE, also="trec_eval ndcg, ir_measures nDCG", default=False),
    Metric("ndcg_linear@k", "as ndcg@k with the gain itself instead of 2^gain − 1 (Järvelin & Kekäläinen 2002, doi:10.1145/582415.582418)", _NO_GRADE, also="trec_eval ndcg_cut_k, ir_measures nDCG@k"),
    Metric("judged@k", "hits of rank ≤ k that meet any target, grade 0 included / min(k, number of hits)", f"no hit; {_NO_GRADE}", also="ir_measures Judged@k"),
    Metric("mrr", "1 / rank of the first relevant hit, 0 if there is none", _NO_TARGET, also="trec_eval recip_rank, ir_measures RR"),
    Metric("mrr@k", "as mrr, 0 if that rank is above k", _NO_TARGET, also="ir_measures RR@k"),
    Metric("rprec", "relevant hits at rank ≤ R / R, where R is the number of relevant targets", _NO_TARGET, also="trec_eval Rprec, ir_measures Rprec, ranx r-precision", default=False),
    Metric("bpref", "Σ over gaining hits of 1 − min(n, N, R) / min(N, R), divided by R: n judged hits before it and N targets that are not relevant, R relevant targets; a term with n = 0 is 1 (Buckley & Voorhees 2004, doi:10.1145/1008992.1009000)", f"{_NO_TARGET}; the golden set judges no document as not relevant, without which it would be recall", also="trec_eval bpref, ir_measures Bpref", default=False, version=2),
    Metric("set_precision", "relevant hits / hits, 0 without hits", _NO_TARGET, also="trec_eval set_P, ir_measures SetP", default=False),
    Metric("set_recall", "distinct relevant targets met / all of them", _NO_TARGET, also="trec_eval set_recall, ir_measures SetR", default=False),
    Metric("set_f1", "2 · set_precision · set_recall / (set_precision + set_recall), 0 if both are 0", _NO_TARGET, also="trec_eval set_F, ir_measures SetF", default=False),
    Metric("err@k", "Σ_{rank i ≤ k} (1 / i) · s_i · Π_{j < i} (1 − s_j), s = (2^gain − 1) / 2^4; err(2)@k takes 2 as the highest grade instead of 4 (Chapelle et al. 2009, doi:10.1145/1645953.1646033)", _NO_GRADE, also="ir_measures ERR@k, TREC's gdeval", default=False),
    Metric("rbp", "(1 − p) Σ p^(i − 1) over relevant hits of rank i, with p = 0.8; rbp(0.95) takes another p, 0 < p < 1 (Moffat & Zobel 2008, doi:10.1145/1416950.1416952)", _NO_TARGET, also="ir_measures RBP(p=0.8, rel=1), ranx rbp", default=False),
    Metric("iprec@r", "interpolated precision at recall r: the highest precision at a gaining hit by which at least ⌊r · R + 0.9⌋ of the R relevant targets are met, 0 if there is none; 0 ≤ r ≤ 1 (trec_eval's definition)", _NO_TARGET, also="trec_eval iprec_at_recall_r, ir_measures IPrec@r", default=False),
    Metric("11pt_avg", "mean of iprec at the recall levels 0, 0.1, 0.2, ..., 1", _NO_TARGET, also="trec_eval 11pt_avg", default=False),
    Metric("found", "1 if retrieval gave what the query asks for: a target hit within the run's k; no hit where expected_empty; no forbidden source; a refusal where one is due", "nothing to find, and no refusal due", kind="binary", default=False),
    Metric("passed", "1 if found is 1 and the answer, where there is one, is neither a false refusal nor blank, has answer_checks 1 if it has any, and isn't judged bad (judge_correctness below 3); where only texts are expected of the answer, answer_checks alone counts in the place of found", "neither found nor, where nothing is to be found, answer_checks", kind="binary", version=2),
    Metric("answer_checks", "1 if the answer holds every must_contain text and no forbidden one (case-sensitive)", f"no such checks, {_NO_ANSWER}, or the query should be refused", kind="binary"),
    Metric("answer_checks_all", "as answer_checks, should-refuse queries included", f"no such checks, {_NO_ANSWER}", kind="binary", also="kebab groundedness", default=False),
    Metric("exact_match", "1 if answer and reference answer are equal after SQuAD's normalisation: lower case, without ASCII punctuation and the words a, an, the (Rajpurkar et al. 2016, doi:10.18653/v1/D16-1264)", _NO_REFERENCE, kind="binary", also="SQuAD exact"),
    Metric("token_f1", "2 · shared tokens / (tokens of the answer + tokens of the reference), repeated ones counted, after the same normalisation", _NO_REFERENCE, also="SQuAD f1"),
    Metric("rouge_l", "2 · words of the longest common subsequence / (words of the answer + words of the reference), lower case, no stemming (Lin 2004, W04-1013)", _NO_REFERENCE, also="rouge-score rougeL fmeasure"),
    Metric("citation_present", "1 if the answer has at least one citation", f"{_NO_ANSWER}, or the system refused", kind="binary"),
    Metric("citation_coverage", "1 if there is a citation and each one resolves: its chunk id, or its path and span inside a chunk, is among the query's hits or the run's chunk catalogue", f"{_NO_ANSWER}, or the answer is not grounded", kind="binary"),
    Metric("citation_coverage_weak", "1 if there is a citation and each one has a path", f"{_NO_ANSWER}, or the answer is not grounded", kind="binary", also="kebab citation_coverage", default=False),
    Metric("citation_precision", "cited passages that meet a target of grade ≥ 1 / passages cited, each once; at the match level, or the next coarser one that citations carry", f"nothing cited; {_NO_TARGET}; {_NOT_GIVEN}", also="ALCE citation precision (by labels, not NLI)"),
    Metric("citation_recall", "targets (grade ≥ 1) that a cited passage meets / all of them; level as for citation_precision", f"{_NO_TARGET}; {_NOT_GIVEN}"),
    Metric("retrieved_cited", "hits that the answer cites / hits, by chunk id, else document, else path", f"no hit; {_NOT_GIVEN}", default=False),
    Metric("citation_fabricated", "cited passages that are not among the query's hits / passages cited, each once", f"nothing cited; {_NOT_GIVEN}", better="lower"),
    Metric("citation_out_of_scope", "cited passages outside the run's chunk catalogue, or the folders that the response's scope names / passages cited of which that is known", f"nothing cited, neither catalogue nor folders known; {_NOT_GIVEN}", better="lower", default=False),
    Metric("citation_duplicate", "citations of a passage that the answer has cited already / citations", f"nothing cited; {_NOT_GIVEN}", better="lower", default=False),
    Metric("key_facts", "expected key facts that a judge found in the answer / all of them; a stored score of the whole answer goes first", f"no fact; {_NOT_JUDGED}", default=False),
    Metric("faithfulness", "claims of the answer that its context supports / all of them; a stored score of the whole answer goes first", f"no claim; {_NOT_JUDGED}", also="RAGAS faithfulness", default=False),
    Metric("context_precision", "Σ over relevant chunks of (relevant chunks up to it / chunks up to it) / relevant chunks, 0 if none is, chunks by rank; a stored score goes first", f"no chunk; {_NOT_JUDGED}", also="RAGAS context_precision", default=False),
    Metric("context_recall", "claims of the reference answer that the context supports / all of them; a stored score goes first", f"no claim; {_NOT_JUDGED}", also="RAGAS context_recall", default=False),
    Metric("answer_relevance", "mean cosine between the question and questions generated from the answer; a stored score goes first", f"no generated question; {_NOT_JUDGED}", kind="other", bounds=(-1.0, 1.0), also="RAGAS answer_relevancy, but for non-committal answers, which RAGAS gives 0", default=False),
    Metric("claim_precision", "claims of the answer that the reference answer supports / all of them; a stored score goes first", f"no claim; {_NOT_JUDGED}", also="RAGChecker precision", default=False),
    Metric("claim_recall", "claims of the reference answer that the answer supports / all of them; a stored score goes first", f"no claim; {_NOT_JUDGED}", also="RAGChecker recall", default=False),
    Metric("judge_groundedness", "a judge's points for the support that the answer has in its context", _NOT_JUDGED, kind="other", bounds=(0.0, 5.0), default=False),
    Metric("judge_correctness", "a judge's points for how right the answer is", _NOT_JUDGED, kind="other", bounds=(0.0, 5.0), default=False),
    Metric("judge_refused", "1 if a judge reads the answer as a refusal", _NOT_JUDGED, kind="binary", default=False),
    Metric("judge_failed", "1 if a judgment of the answer failed", "no judgment, or the query failed", kind="binary", better="lower", default=False),
    Metric("refusal_correct", "1 if the system refused", f"{_NO_ANSWER}, or the query is answerable or unlabelled", kind="binary", also="kebab refusal_correctness"),
    Metric("answered_unanswerable", "1 if the system answered what it should have refused", f"{_NO_ANSWER}, or the query is answerable or unlabelled", kind="binary", better="lower"),
    Metric("false_refusal", "1 if the system refused an answerable query", f"{_NO_ANSWER}, or the query is not known to be answerable", kind="binary", better="lower"),
    Metric("attribution_hit", "1 if a reference of the answer, or a citation in its text, names the file and heading of an anchor (snippets left out)", f"no anchor, {_NO_ANSWER}, or the query should be refused", kind="binary", also="the chatbot harness's attribution_hit"),
    Metric("recency_ok", "1 if the answer cites the supports that the query's rule for supports that disagree wants: the newest (cite_newer), every one (cite_both, acknowledge_both)", f"no such rule, {_NO_ANSWER}, or the query should be refused", kind="binary"),
    Metric("scope_miss", "1 if none of the folders that the system chose to search holds, or lies in, a folder of the query (else a file of its anchors)", "no choice of folders recorded, neither folders nor anchors expected, the query failed or should be refused", kind="binary", better="lower"),
    Metric("scope_miss_proxy", "1 if no hit at all meets an anchor, in a folder mode that chooses folders: a weak stand-in for scope_miss", "folder mode off or unknown, no anchor, hits undecided, the query failed or should be refused", kind="binary", better="lower", also="the chatbot harness's scope_miss", default=False),
    Metric("key_facts_literal", "key facts whose words stand in the answer, in lower case and without punctuation / all of them", f"no key facts, {_NO_ANSWER}, or the query should be refused"),
    Metric("empty_response", "1 if the answer is blank and the system doesn't say that it refused", _NO_ANSWER, kind="binary", better="lower"),
    Metric("timeout", "1 if the query ended in an error that says that time ran out", "never, for a query that was asked", kind="binary", better="lower"),
    Metric("empty", "1 if the query got no hit", "the query failed", kind="binary", better="lower"),
    Metric("empty_all", "as empty, failed queries included", "never, for a query that was asked", kind="binary", better="lower", also="kebab empty_result_rate", default=False),
    Metric("failed", "1 if the query ended in an error", "never, for a query that was asked", kind="binary", better="lower"),
    Metric("latency_ms", "elapsed time of search and answer", "not recorded, or the query failed", kind="time", better="lower", bounds=(0.0, np.inf), unit="ms"),
    Metric("latency_ms_all", "as latency_ms, failed queries included", "not recorded", kind="time", better="lower", bounds=(0.0, np.inf), unit="ms", default=False),
    Metric("cost_usd", "money spent on the query", "not recorded, or the query failed", kind="cost", better="lower", bounds=(0.0, np.inf), unit="US dollars", default=False),
]  # fmt: skip
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
RANKING = (
    "hit", "recall", "recall_all", "precision", "map", "ndcg", "ndcg_linear", "judged", "mrr",
    "rprec", "bpref", "set_precision", "set_recall", "set_f1", "err", "rbp", "iprec", "11pt_avg",
)  # fmt: skip
# Ranking metrics of grades: `min_grade` doesn't touch them.
GRADED = ("ndcg", "ndcg_linear", "err", "judged")
# Ranking metrics that weigh relevant documents against those judged not to be relevant.
NEEDS_IRRELEVANT = ("bpref",)
# Name of trec_eval, ir_measures or ranx, without a cut-off -> the metric of that definition here.
OTHER_NAMES = {
    "P": "precision", "Precision": "precision", "R": "recall", "Recall": "recall",
    "AP": "map", "MAP": "map", "map_cut": "map", "RR": "mrr", "MRR": "mrr", "recip_rank": "mrr",
    "nDCG": "ndcg_linear", "NDCG": "ndcg_linear", "ndcg_cut": "ndcg_linear",
    "ndcg_burges": "ndcg", "success": "hit", "Success": "hit", "hit_rate": "hit",
    "Judged": "judged", "Rprec": "rprec", "RPrec": "rprec", "r-precision": "rprec",
    "Bpref": "bpref", "BPref": "bpref", "SetP": "set_precision", "set_P": "set_precision",
    "SetR": "set_recall", "SetF": "set_f1", "set_F": "set_f1", "ERR": "err", "RBP": "rbp",
    "IPrec": "iprec", "iprec_at_recall": "iprec",
}  # fmt: skip
# Metric with a parameter in parentheses -> its default.
PARAMETERS = {"rbp": 0.8, "err": 4.0}
PARAMETER_RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "rbp": (lambda p: 0 < p < 1, "0 < p < 1, as in rbp(0.8)"),
    "err": (
        lambda grade: grade >= 1 and grade == np.floor(grade),
        "the highest grade, a whole number from 1, as in err(4)@10",
    ),
    "iprec": (lambda r: 0 <= r <= 1, "a recall level from 0 to 1, as in iprec@0.1"),
}
RECALL_LEVELS = tuple(level / 10 for level in range(11))  # of 11pt_avg


def default_metrics(judged: Collection[str] = ()) -> list[str]:
    """Return the labels that are scored unless others are asked for, in the table's order.

    Metrics that a judge measures are among them where results carry a judge's verdicts: `judged`.
    """
    return [
        label
        for m in TABLE
        if m.default or m.name in judged
        for label in (
            [m.name[:-1] + str(k) for k in DEFAULT_KS]
            if m.name.endswith("@k") and m.name != "mrr@k"
            else [m.name.replace("@k", "@10")]
        )
    ]


DEFAULT_METRICS = default_metrics()
# The metrics that a table for readers starts with; everything else stays in the frames.
HEADLINE = [
    "hit@1", "hit@5", "hit@10", "recall@5", "recall@10", "mrr@10", "ndcg@10", "passed",
    "answer_checks", "key_facts", "faithfulness", "context_precision", "context_recall",
    "answer_relevance", "claim_precision", "claim_recall", "judge_groundedness",
    "judge_correctness", "judge_failed", "citation_coverage", "refusal_correct",
    "answered_unanswerable", "false_refusal", "empty", "failed", "latency_ms",
]  # fmt: skip


@dataclass(frozen=True)
class Label:
    """A metric label taken apart: `recall@5:doc` is recall, k = 5, at level doc.

    `text` is the label as we write it, also where it was given under another tool's name.
    `parameter` is p of `rbp(p)`, the highest grade of `err(grade)@k`, or r of `iprec@r`.
    """

    text: str
    name: str
    k: int | None = None
    level: str | None = None
    parameter: float | None = None

    @property
    def is_ranking(self) -> bool:
        """True for metrics computed from hits and targets."""
        return self.name in RANKING

    @property
    def metric(self) -> Metric:
        """The metric's line of the table."""
        return BY_NAME[_line(self.name, self.k is not None)]


def parse_label(text: str) -> Label:
    """Take a metric label apart.

    Names of trec_eval, ir_measures and ranx are understood where their definition is the same:
    `P_10` and `P@10` are `precision@10`, `nDCG@10` is `ndcg_linear@10`.

    Raises
    ------
    DataError
        Not a known metric (near misses are named), a cut-off below 1, a parameter out of range, or
        an unknown level.
    """
    if not isinstance(text, str):
        raise DataError(
            f"found {excerpt(text)}", field="metrics", allowed="labels, such as 'mrr@10'"
        )
    return _parsed(text)


_LABEL = re.compile(
    r"(?P<name>.+?)(?:\((?P<given>[^()]*)\))?(?:[@_.](?P<at>\d+(?:\.\d+)?))?(?::(?P<level>[a-z]+))?"
)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Label:
    found = _LABEL.fullmatch(text)
    parts: dict[str, str | None] = found.groupdict() if found else {"name": text}
    written, given, at = parts["name"] or "", parts.get("given") or "", parts.get("at")
    level = parts.get("level")
    name = OTHER_NAMES.get(written, written)
    if name == "ndcg_linear" and given.replace(" ", "") in ("dcg='exp-log2'", 'dcg="exp-log2"'):
        name, given = "ndcg", ""
    line = _line(name, at is not None)
    if line not in BY_NAME or "@" in name or (name == "iprec" and at is None):
        raise _unknown(text, name)
    k = _cutoff(text, at) if line.endswith("@k") else None
    if level is not None and (level not in LEVELS or name not in RANKING):
        raise DataError(
            f"found {text!r}",
            field="metrics",
            allowed=f"a ranking metric followed by one of {', '.join(':' + one for one in LEVELS)}",
        )
    parameter = _parameter(text, name, given, at)
    shown = name
    if name in PARAMETERS and parameter != PARAMETERS[name]:
        shown += f"({parameter:.12g})"
    shown += f"@{k}" if k is not None else f"@{parameter:.12g}" if name == "iprec" else ""
    return Label(shown + (f":{level}" if level else ""), name, k, level, parameter)


def _line(name: str, has_cutoff: bool) -> str:
    """Return the name of a metric's line of the table."""
    return "iprec@r" if name == "iprec" else f"{name}@k" if has_cutoff else name


def _unknown(text: str, name: str) -> DataError:
    """Return the error of a label that names no metric."""
    name = re.sub("@[kr]$", "", name)  # as the table writes it
    allowed = nearest(text, [*DEFAULT_METRICS, *BY_NAME, *OTHER_NAMES], "rs.metrics() has")
    if name == "iprec":
        allowed = "a recall level, as in iprec@0.1"
    elif f"{name}@k" in BY_NAME:
        allowed = f"a cut-off, as in {name}@10"
    elif name in BY_NAME:
        allowed = f"{name} without a cut-off"
    return DataError(f"unknown metric {excerpt(text)}", field="metrics", allowed=allowed)


def _cutoff(text: str, at: str | None) -> int:
    if at is None or "." in at or int(at) < 1:
        raise DataError(f"found {text!r}", field="metrics", allowed="a cut-off k of at least 1")
    return int(at)


def _parameter(text: str, name: str, given: str, at: str | None) -> float | None:
    """Return the parameter of a label, with the parts that ir_measures may write in parentheses."""
    parts = [part.strip().rpartition("=") for part in given.split(",") if part.strip()]
    stated = {key: value for key, _, value in parts}
    for key, default, policy in (
        ("rel", "1", "min_grade"),
        ("judged_only", "False", "judged_only"),
    ):
        if stated.pop(key, default) != default:
            allowed = f"the policy {policy}, which holds for every metric of a scoring"
            raise DataError(f"found {text!r}", field="metrics", allowed=allowed)
    if name == "iprec":
        stated["r"] = at or ""
    if not stated:
        return PARAMETERS.get(name)
    is_allowed, allowed = PARAMETER_RANGES.get(
        name, (lambda number: False, f"no parameter of {name}")
    )
    try:
        number = float(stated.popitem()[1])
    except ValueError:
        number = np.nan
    if stated or not is_allowed(number):
        raise DataError(f"found {text!r}", field="metrics", allowed=allowed)
    return number


def is_label(text: str) -> bool:
    """Tell whether a metric of ours has this name."""
    try:
        parse_label(text)
    except DataError:
        return False
    return True


@dataclass(frozen=True)
class Declarations:
    """The metrics that an evaluation has beside those of the table.

    They belong to it: they are handed to whatever is made of it, pickled and stored with it. What
    a name means is nowhere state of the process, so two evaluations may mean different things by
    it.
    """

    metrics: tuple[Metric, ...] = ()

    def describe(self, column: str) -> Metric:
        """Return the metric behind a column of scores.

        A column of your own has the direction and the range that were declared, if any.
        """
        for own in self.metrics:
            if own.name == column:
                return own
        if not is_own(column):
            return parse_label(column).metric
        return ADDED.get(column.partition("@")[0]) or _own(column, None, None)

    def has(self, column: str) -> bool:
        """Tell if this column was declared."""
        return any(own.name == column for own in self.metrics)

    def with_own(self, name: str, better: Any, range: Any) -> "Declarations":
        """Return these and one more: a column of your own.

        Parameters
        ----------
        better
            "higher", "lower", or None: neither is better.
        range
            (lowest, highest) value, None for no bound; or None for neither.

        Raises
        ------
        DataError
            Direction or range of a metric of the table; a direction other than "higher" or
            "lower"; a range that isn't two numbers, the lower one first; a name that was declared
            otherwise.
        """
        if better is None and range is None:
            return self
        if name.partition("@")[0] in ADDED or not is_own(name):
            raise DataError(
                f"{name} is a metric of the table", field="better, range", allowed="another name"
            )
        if better not in (None, "higher", "lower"):
            raise DataError(
                f"found {excerpt(better)}", field="better", allowed="'higher' or 'lower'"
            )
        return self.joined(Declarations((_own(name, better, checked_range(range)),)))

    def joined(self, other: "Declarations") -> "Declarations":
        """Return the declarations of both.

        Raises
        ------
        DataError
            They declare a name differently.
        """
        known = {own.name: own for own in self.metrics}
        for metric in other.metrics:
            if known.setdefault(metric.name, metric) != metric:
                raise _contradiction(known[metric.name], metric)
        return Declarations(tuple(known.values()))

    def of(self, names: Collection[str]) -> "Declarations":
        """Return the declarations of these columns alone."""
        return Declarations(tuple(own for own in self.metrics if own.name in names))

    def to_plain(self) -> dict[str, dict[str, Any]]:
        """Return them as JSON holds them: {name: {"better": ..., "range": [lowest, highest]}}.

        null for no direction and for no bound.
        """
        return {
            own.name: {
                "better": own.better if own.better in ("higher", "lower") else None,
                "range": [bound if np.isfinite(bound) else None for bound in own.bounds],
            }
            for own in self.metrics
        }

    @classmethod
    def from_plain(cls, content: Any) -> "Declarations":
        """Return the declarations that `to_plain` wrote.

        Raises
        ------
        DataError
            Anything else.
        """
        found = cls()
        check_type(content, Mapping, "declared", "name -> {better, range}")
        for name, told in content.items():
            check_type(told, Mapping, f"declared.{name}", "{better, range}")
            found = found.with_own(str(name), told.get("better"), told.get("range"))
        return found


NOTHING_DECLARED = Declarations()
DECLARED = "declared"  # the field of run.json that holds them


def declared_by(scorings: Mapping[str, Mapping[str, Any]], names: Collection[str]) -> Declarations:
    """Return what stored runs declare of these columns, from what run.json says of their scoring.

    Raises
    ------
    DataError
        Two runs declare a column differently.
    """
    known: dict[str, tuple[str, Metric]] = {}
    for run_id, scoring in scorings.items():
        for metric in Declarations.from_plain(scoring.get(DECLARED, {})).of(names).metrics:
            other, first = known.setdefault(metric.name, (run_id, metric))
            if first != metric:
                raise _contradiction(first, metric, f" by {other}", f" by {run_id}")
    return Declarations(tuple(metric for _, metric in known.values()))


def _contradiction(first: Metric, second: Metric, by: str = "", other: str = "") -> DataError:
    told = [f"{one.better} is better, {one.range}" for one in (first, second)]
    return DataError(
        f"{first.name} is declared as {told[0]!r}{by} and as {told[1]!r}{other}",
        field="better, range",
        allowed="one declaration of a column, or another name",
    )


def table_kind(name: str) -> str:
    """Return the kind of a metric as the table has it: a declaration says nothing of time or cost.

    "other" for a column of your own.
    """
    return NOTHING_DECLARED.describe(name).kind


def _own(name: str, better: str | None, bounds: Bounds | None) -> Metric:
    """Return the metric of a column of your own."""
    found = Metric(
        name,
        "a column of your own",
        "as you computed it",
        kind="other",
        bounds=bounds or NO_BOUNDS,
        better=better or "not declared",
    )
    return replace(found, kind="bounded") if np.isfinite(found.width) else found


def checked_range(given: Any) -> Bounds | None:
    """Return (lowest, highest) as numbers, infinite for no bound; None for no range.

    Raises
    ------
    DataError
        Anything but two numbers, the lower one first, or None in the place of one.
    """
    if given is None:
        return None
    allowed = "(lowest, highest): two numbers, the lower one first; None for no bound"
    pair = list(given) if isinstance(given, (tuple, list, np.ndarray)) else []
    is_number = [
        one is None or (isinstance(one, Real) and not isinstance(one, (bool, np.bool_)))
        for one in pair
    ]
    if len(pair) != 2 or not all(is_number):
        raise DataError(f"found {excerpt(given)}", field="range", allowed=allowed)
    try:
        low, high = (
            end if one is None else float(one) for one, end in zip(pair, NO_BOUNDS, strict=True)
        )
    except OverflowError:
        low = high = np.nan
    if not low < high:  # NaN neither
        raise DataError(f"found {excerpt(given)}", field="range", allowed=allowed)
    if np.isfinite((low, high)).all() and not SMALLEST <= high - low <= LARGEST:
        allowed = f"a width from {SMALLEST:g} to {LARGEST:g}, or None for no bound"
        raise DataError(f"found {excerpt(given)}", field="range", allowed=allowed)
    return low, high


def headline_of(columns: Iterable[str]) -> list[str]:
    """Return the metrics that a table shows by default: the headline ones and columns of your own.

    All columns if none is a headline metric.
    """
    known = [str(name) for name in columns]
    headline = [name for name in HEADLINE if name in known]
    own = [name for name in known if is_own(name)]
    return [*headline, *own] if headline else known


def is_own(column: str) -> bool:
    """Tell if a column of scores is one of your own: the table has no metric of just this name."""
    try:
        return parse_label(column).text != column  # another tool's name is a column of your own
    except DataError:
        return True


class Card(str):
    """A text that a notebook shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


@overload
def metrics() -> pd.DataFrame: ...
@overload
def metrics(label: str) -> Card: ...
def metrics(label: str | None = None) -> pd.DataFrame | Card:
    """Return the table of metrics, or with a label one metric in full, as text.

    Parameters
    ----------
    label
        Such as "ndcg@5". Names of other tools are understood and come back as ours.

    Returns
    -------
    One row per metric: `name`, `formula`, `nan_when`, `kind`, `better`, `range`, `also` (its name
    in other tools), `default` (computed without being asked for), `version`.

    Raises
    ------
    DataError
        An unknown metric; the nearest are named.
    """
    if label is None:
        shown = [
            "name",
            "formula",
            "nan_when",
            "kind",
            "better",
            "range",
            "also",
            "default",
            "version",
        ]
        return pd.DataFrame([[getattr(m, name) for name in shown] for m in TABLE], columns=shown)
    parsed = parse_label(label)
    m = parsed.metric
    lines = [
        parsed.text,
        f"  formula   {m.formula}",
        f"  range     {m.range}, {m.better} is better",
        f"  kind      {m.kind}",
        f"  NaN when  {m.nan_when}",
    ]
    return Card("\n".join(lines + ([f"  also      {m.also}"] if m.also else [])))


def is_better(metric: Metric, delta: float) -> bool | None:
    """Tell if a change of this metric is an improvement.

    None for no change or NaN, and for a column of your own without a direction.
    """
    if not delta or np.isnan(delta) or metric.better not in ("higher", "lower"):
        return None
    return (delta > 0) == (metric.better == "higher")


@dataclass
class Credit:
    """The arrays that ranking metrics are computed from.

    Arrays over graded hits (sorted by row, then rank), over creditable targets (best first within
    each query) and over rows.
    """

    row: npt.NDArray[np.int64]
    rank: npt.NDArray[np.int64]
    grade: npt.NDArray[np.int64]
    gain: npt.NDArray[np.int64]
    n_found: npt.NDArray[np.int64]
    n_rows: int
    n_hits: Values
    n_targets: Values
    ideal_query: npt.NDArray[np.int64]
    ideal_place: npt.NDArray[np.int64]
    ideal_grade: npt.NDArray[np.int64]
    row_query: npt.NDArray[np.int64]
    n_irrelevant: Callable[[], Values]  # targets of each row's query judged not to be relevant
    min_grade: int
    cuts: dict[int, "Credit"] = field(default_factory=dict)
    ideals: dict[tuple[GainFunction, int], Values] = field(default_factory=dict)  # of all cuts
    first: Values | None = None

    def at_cutoff(self, k: int | None) -> "Credit":
        """Return the same of hits up to rank k, selected once for all metrics at this k.

        They are few, and everything else of a formula is work on them.
        """
        if k is None:
            return self
        if k not in self.cuts:
            rows = np.flatnonzero(self.rank <= k)
            names = ("row", "rank", "grade", "gain", "n_found")
            of_hits = {name: getattr(self, name)[rows] for name in names}
            self.cuts[k] = replace(self, **of_hits, cuts={}, first=None)
        return self.cuts[k]

    def score(self, label: Label) -> Values:
        """Return a metric of each row; NaN where its query has no target that counts."""
        with np.errstate(invalid="ignore", divide="ignore"):
            values = FORMULAS[label.name](self.at_cutoff(label.k), label)
        needed = self.n_graded if label.name in GRADED else self.n_targets
        return np.where(needed == 0, np.nan, values)

    def total(self, weights: npt.NDArray[np.generic]) -> Values:
        """Sum `weights` over the graded hits of each row."""
        return np.bincount(self.row, weights, self.n_rows).astype(np.float64, copy=False)

    def ideal(self, gain: GainFunction, k: int) -> Values:
        """Return the ideal DCG at k of each row: the k best targets of its query, best first.

        It is the same for every k from the largest number of targets on, and kept once for these.
        """
        k = min(k, int(self.ideal_place.max(initial=-1)) + 1)
        if (gain, k) not in self.ideals:
            best = np.flatnonzero(self.ideal_place < k)
            weights = gain(self.ideal_grade[best]) / np.log2(self.ideal_place[best] + 2.0)
            n_queries = int(self.row_query.max(initial=-1)) + 1
            of_query = np.bincount(self.ideal_query[best], weights, n_queries)
            self.ideals[gain, k] = np.append(of_query, 0.0)[self.row_query]
        return self.ideals[gain, k]

    @property
    def n_graded(self) -> Values:
        """The number of targets of grade ≥ 1 of each row's query."""
        if self.min_grade == 1:
            return self.n_targets
        return _per_query(self.ideal_query, int(self.row_query.max(initial=-1)) + 1)[self.row_query]

    @property
    def first_rank(self) -> Values:
        """The rank of each row's first relevant hit; infinity where there is none."""
        if self.first is None:
            # backwards: the last one written is the first one found
            relevant = np.flatnonzero(self.grade >= self.min_grade)[::-1]
            self.first = np.full(self.n_rows, np.inf)
            self.first[self.row[relevant]] = self.rank[relevant]
        return self.first


def score_hits(
    graded: pd.DataFrame,
    found: pd.DataFrame,
    golden: Golden,
    rows: pd.DataFrame,
    metrics: list[str] | str,
) -> pd.DataFrame:
    """Compute ranking metrics of every query asked.

    Parameters
    ----------
    graded, found
        From `grade_hits`.
    golden
        With the targets those were graded against (see `targets_at`), and its support groups.
    rows
        One row per query asked: run_id, query_id, n_hits. A query without hits is here too, and
        scores 0, whatever `graded` says of it.
    metrics
        Labels of ranking metrics; a `:level` suffix is not interpreted here.

    Returns
    -------
    One float64 column per label, with the index of `rows`; NaN where the query has no target of
    grade ≥ 1. `bpref` is NaN everywhere if the golden set has no target of grade 0.
    """
    check_type(golden, Golden, "golden")
    missing = [name for name in ("run_id", "query_id", "n_hits") if name not in rows]
    if missing:
        raise DataError(
            f"columns {missing} are missing", field="rows", allowed="run_id, query_id and n_hits"
        )
    labels = [metrics] if isinstance(metrics, str) else metrics
    columns = ranking_columns(graded, found, golden, rows, labels)
    return pd.DataFrame(columns, index=rows.index, copy=False)


def ranking_columns(
    graded: pd.DataFrame,
    found: pd.DataFrame,
    golden: Golden,
    rows: pd.DataFrame,
    metrics: list[str],
    min_grade: int = 1,
    judged_only: bool = False,
    knows_irrelevant: bool | None = None,
) -> dict[str, Values]:
    """Return the columns of `score_hits` as arrays, with the policies of these names.

    `graded` must have been made with the same `min_grade`. `knows_irrelevant` tells if the whole
    golden set, of which this one may be a part, judges any document as not relevant.
    """
    if not isinstance(rows["run_id"].dtype, pd.CategoricalDtype):
        rows = rows.assign(run_id=rows["run_id"].astype("str").astype("category"))
    queries = pd.Index(golden.queries["query_id"])
    if judged_only:
        graded, found, rows = _judged_only(graded, found, rows, queries)
    credit = _credit(graded, golden.targets, rows, queries, min_grade)
    columns: dict[str, Values] = {}
    complete: Values | None = None
    for label in map(parse_label, metrics):
        if label.name in NEEDS_IRRELEVANT and knows_irrelevant is None:
            knows_irrelevant = judges_irrelevant(golden.targets, min_grade)
        if label.name in NEEDS_IRRELEVANT and not knows_irrelevant:
            columns[label.text] = np.full(len(rows), np.nan)
        elif label.name == "recall_all":
            if complete is None:
                complete = _complete_rank(found, golden.support_groups, rows, queries)
            columns[label.text] = np.where(np.isnan(complete), np.nan, complete <= (label.k or 0))
        else:
            columns[label.text] = credit.score(label)
    return columns


def judges_irrelevant(targets: pd.DataFrame, min_grade: int = 1) -> bool:
    """Tell if any target was judged not to be relevant; of alternatives the best grade counts."""
    if not (targets["grade"] < min_grade).any():
        return False
    best = targets.groupby(["query_id", "target_id"], observed=True, sort=False)["grade"].max()
    return bool((best < min_grade).any())


def _judged_only(
    graded: pd.DataFrame, found: pd.DataFrame, rows: pd.DataFrame, queries: pd.Index
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the same as if only judged hits had been returned: ranks and numbers closed up."""
    row, met = (_row_with_hits(frame, rows, queries) for frame in (graded, found))
    rank = graded["rank"].to_numpy()
    order = np.lexsort((rank, row))
    closed = np.empty(len(rank), dtype=np.int64)
    closed[order] = place_in_group(row[order]) + 1
    depth = int(rank.max(initial=0)) + 1
    # every target that was met was met by a judged hit
    at = pd.Index(row * depth + rank).get_indexer(met * depth + found["rank"].to_numpy())
    n_hits = np.bincount(row[row >= 0], minlength=len(rows))
    return graded.assign(rank=closed), found.assign(rank=closed[at]), rows.assign(n_hits=n_hits)


def _credit(
    graded: pd.DataFrame,
    targets: pd.DataFrame,
    rows: pd.DataFrame,
    queries: pd.Index,
    min_grade: int,
) -> Credit:
    row, rank = _row_with_hits(graded, rows, queries), graded["rank"].to_numpy()
    order = np.flatnonzero(row >= 0)
    step = np.diff(row[order])
    if (step < 0).any() or ((step == 0) & (np.diff(rank[order]) < 0)).any():
        order = order[np.lexsort((rank[order], row[order]))]
    ideal_query, ideal_grade = creditable_targets(targets, queries)
    highest = int(ideal_grade.max(initial=0)) + 1
    best_first = np.argsort(ideal_query * highest - ideal_grade, kind="stable")
    ideal_query, ideal_grade = ideal_query[best_first], ideal_grade[best_first]
    row_query = lookup(rows["query_id"], queries)
    relevant = ideal_query if min_grade == 1 else ideal_query[ideal_grade >= min_grade]
    n_targets = _per_query(relevant, len(queries))
    numbers: dict[str, Any] = {
        name: graded[name].to_numpy().astype(np.int64)[order]
        for name in ("rank", "grade", "gain", "n_found")
    }
    return Credit(
        row=row[order], **numbers, n_rows=len(rows), n_hits=rows["n_hits"].to_numpy("float64"),
        n_targets=n_targets[row_query], ideal_query=ideal_query,
        ideal_place=place_in_group(ideal_query), ideal_grade=ideal_grade, row_query=row_query,
        n_irrelevant=lambda: irrelevant_targets(targets, queries, min_grade)[row_query],
        min_grade=min_grade,
    )  # fmt: skip


def irrelevant_targets(targets: pd.DataFrame, queries: pd.Index, min_grade: int) -> Values:
    """Count the targets of each query that were judged not to be relevant, and 0 at the end.

    Of alternatives the best grade counts.
    """
    query = lookup(targets["query_id"], queries)
    number = pair_numbers(query, targets["target_id"])
    best = np.full(int(number.max(initial=0)) + 1, -1)
    np.maximum.at(best, number, targets["grade"].to_numpy())
    query_of = np.zeros(len(best), dtype=np.int64)
    query_of[number] = query
    return _per_query(query_of[(best >= 0) & (best < min_grade)], len(queries))


def _per_query(query: npt.NDArray[np.int64], n_queries: int) -> Values:
    """Count the elements of each query, and 0 at the end for queries that are not golden."""
    return np.append(np.bincount(query, minlength=n_queries).astype("float64"), 0.0)


def creditable_targets(
    targets: pd.DataFrame, queries: pd.Index
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return query and grade of each target of grade ≥ 1; of alternatives, the best grade."""
    grade = targets["grade"].to_numpy().astype(np.int64)
    query = lookup(targets["query_id"], queries)
    is_relevant = grade > 0
    # Alternatives of one target share a number.
    number = pair_numbers(query, targets["target_id"])[is_relevant]
    query, grade = query[is_relevant], grade[is_relevant]
    if not all_differ(number):
        order = np.lexsort((-grade, number))
        best = order[np.diff(number[order], prepend=-1) != 0]
        query, grade = query[best], grade[best]
    return query, grade


def place_in_group(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the position of each element among its equal neighbours, from 0."""
    begins = np.flatnonzero(np.diff(codes, prepend=-1))
    return np.arange(len(codes)) - np.repeat(begins, np.diff(begins, append=len(codes)))


def _row_with_hits(
    frame: pd.DataFrame, rows: pd.DataFrame, queries: pd.Index
) -> npt.NDArray[np.int64]:
    """Return the position in `rows` of each (run_id, query_id) of `frame`, -1 for none.

    -1 also where the row has no hits: hits of a query that the run has no response to count for
    nothing.
    """
    run_ids = rows["run_id"].cat.categories
    keys, wanted = (_cell_keys(one, run_ids, queries) for one in (rows, frame))
    # A dense table of run × query is as large as the scores themselves, and a look-up in it needs
    # no sorting.
    known = np.full(len(run_ids) * len(queries) + 1, -1)
    known[keys] = np.where(rows["n_hits"].to_numpy() > 0, np.arange(len(keys)), -1)
    # where rows of queries that nobody asked for have written, and where such rows look
    known[-1] = -1
    return np.take(known, wanted)


def _cell_keys(frame: pd.DataFrame, run_ids: pd.Index, queries: pd.Index) -> npt.NDArray[np.int64]:
    run, query = lookup(frame["run_id"], run_ids), lookup(frame["query_id"], queries)
    return np.where((run < 0) | (query < 0), -1, run * len(queries) + query)


def _average_precision(credit: Credit, label: Label) -> Values:
    is_gaining = credit.gain >= credit.min_grade
    row, rank = credit.row[is_gaining], credit.rank[is_gaining]
    n_so_far = place_in_group(row) + 1
    return np.bincount(row, n_so_far / rank, credit.n_rows) / credit.n_targets


def _exponential_gain(grade: npt.NDArray[np.int64]) -> Values:
    return np.exp2(grade.astype(np.float64)) - 1.0


def _linear_gain(grade: npt.NDArray[np.int64]) -> Values:
    return grade.astype(np.float64)


def _ndcg(credit: Credit, label: Label, gain: GainFunction) -> Values:
    dcg = credit.total(gain(credit.gain) / np.log2(credit.rank + 1.0))
    return dcg / credit.ideal(gain, WHOLE_LIST if label.k is None else label.k)


def _r_precision(credit: Credit, label: Label) -> Values:
    n_targets = credit.n_targets
    is_counted = (credit.grade >= credit.min_grade) & (credit.rank <= n_targets[credit.row])
    return credit.total(is_counted) / n_targets


def _binary_preference(credit: Credit, label: Label) -> Values:
    is_gaining = np.flatnonzero(credit.gain >= credit.min_grade)
    row = credit.row[is_gaining]
    n_before = _so_far(credit.row, credit.grade < credit.min_grade)[is_gaining]
    # of several hits of one document more may be before than there are targets
    most = np.minimum(credit.n_irrelevant(), credit.n_targets)[row]
    lost = np.where(n_before > 0, np.minimum(n_before, most) / most, 0.0)
    return np.bincount(row, 1.0 - lost, credit.n_rows) / credit.n_targets


def _set_precision(credit: Credit, label: Label) -> Values:
    return credit.total(credit.grade >= credit.min_grade) / np.maximum(credit.n_hits, 1.0)


def _set_recall(credit: Credit, label: Label) -> Values:
    return credit.total(credit.n_found) / credit.n_targets


def _set_f1(credit: Credit, label: Label) -> Values:
    precision, recall = _set_precision(credit, label), _set_recall(credit, label)
    return np.where(recall > 0, 2 * precision * recall / (precision + recall), 0.0)


def _expected_reciprocal_rank(credit: Credit, label: Label) -> Values:
    highest = int(label.parameter or 0)
    if (found := int(credit.ideal_grade.max(initial=0))) > highest:
        raise DataError(
            f"a target of grade {found}",
            field=label.text,
            allowed=f"grades up to {highest}; err({found})@{label.k} takes {found} as the highest",
        )
    gaining = np.flatnonzero(credit.gain > 0)
    row, rank = credit.row[gaining], credit.rank[gaining]
    stops = _exponential_gain(credit.gain[gaining]) / 2.0**highest
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


def _rank_biased_precision(credit: Credit, label: Label) -> Values:
    p = float(label.parameter or 0)
    relevant = credit.grade >= credit.min_grade
    weights = np.where(relevant, p ** (credit.rank - 1.0), 0.0)
    return (1.0 - p) * credit.total(weights)


def _interpolated_precision(credit: Credit, levels: Sequence[float]) -> Values:
    """Return the mean interpolated precision at these recall levels."""
    gaining = np.flatnonzero(credit.gain >= credit.min_grade)
    row = credit.row[gaining]
    precision = (place_in_group(row) + 1) / credit.rank[gaining]
    n_met = _so_far(row, credit.n_found[gaining])
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    total = np.zeros(credit.n_rows)
    if not len(begins):
        return total
    for level in levels:
        needed = np.floor(level * credit.n_targets + 0.9)
        reached = np.where(n_met >= needed[row], precision, 0.0)
        total[row[begins]] += np.maximum.reduceat(reached, begins)
    return total / len(levels)


def _so_far(row: npt.NDArray[np.int64], counts: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
    """Return the sum of counts up to each element among its equal neighbours in `row`."""
    total = np.cumsum(counts.astype(np.int64))
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    before = (total - counts.astype(np.int64))[begins]
    return total - np.repeat(before, np.diff(begins, append=len(row)))


FORMULAS: dict[str, Callable[[Credit, Label], Values]] = {
    "hit": lambda c, label: np.isfinite(c.first_rank).astype("float64"),
    "recall": _set_recall,
    "precision": lambda c, label: c.total(c.grade >= c.min_grade) / float(label.k or 0),
    "map": _average_precision,
    "ndcg": lambda c, label: _ndcg(c, label, _exponential_gain),
    "ndcg_linear": lambda c, label: _ndcg(c, label, _linear_gain),
    "judged": lambda c, label: (
        c.total(np.ones(len(c.row))) / np.minimum(float(label.k or 0), c.n_hits)
    ),
    "mrr": lambda c, label: np.where(np.isfinite(c.first_rank), 1 / c.first_rank, 0.0),
    "rprec": _r_precision,
    "bpref": _binary_preference,
    "set_precision": _set_precision,
    "set_recall": _set_recall,
    "set_f1": _set_f1,
    "err": _expected_reciprocal_rank,
    "rbp": _rank_biased_precision,
    "iprec": lambda c, label: _interpolated_precision(c, [label.parameter or 0.0]),
    "11pt_avg": lambda c, label: _interpolated_precision(c, RECALL_LEVELS),
}


def _complete_rank(
    found: pd.DataFrame, support_groups: pd.DataFrame, rows: pd.DataFrame, queries: pd.Index
) -> Values:
    """Return the rank at which some support group of each row is first complete.

    Infinity if none ever is, NaN without groups.
    """
    complete = np.full(len(rows), np.nan)
    if not len(support_groups):
        return complete
    groups = support_groups.drop_duplicates().assign(query=lambda g: lookup(g["query_id"], queries))
    asked = pd.DataFrame({"row": np.arange(len(rows)), "query": lookup(rows["query_id"], queries)})
    members = asked.merge(groups[["query", "group", "target_id"]], on="query")
    met = found[["target_id", "rank"]].assign(
        target_id=found["target_id"].astype("str"), row=_row_with_hits(found, rows, queries)
    )
    members = members.merge(met, on=["row", "target_id"], how="left")
    members["rank"] = members["rank"].fillna(np.inf)
    ranks = members.groupby(["row", "group"])["rank"].max().groupby("row").min()
    complete[ranks.index] = ranks.to_numpy()
    return complete
