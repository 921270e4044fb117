"""The table of every metric, and the formulas of the ranking metrics.

In: the sparse frames `graded` and `found` of `grading`. Out: one row per query asked, one column
per metric. The table says of each metric what it means, when it is NaN and which way is better.
"""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import lookup, pair_numbers
from ragscore.frames.data import DataError, Golden, check_type
from ragscore.frames.errors import excerpt, nearest, warn
from ragscore.frames.typing import Values
from ragscore.scoring.rules import LEVELS

DEFAULT_KS = (1, 3, 5, 10)
GainFunction = Callable[[npt.NDArray[np.int64]], Values]


@dataclass(frozen=True)
class Metric:
    """One line of the metric table. `name` holds a `k` where the label takes a cut-off.

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
    range: str = "0 to 1"
    also: str = ""  # its name in other tools
    default: bool = True
    version: int = 1


_NO_TARGET = "no target at the match level, or the query should be refused"
_NO_ANSWER = "no answer, or the query failed"
_NO_REFERENCE = "no reference answer, no answer, the query failed or should be refused"
_NOT_GIVEN = "no answer, the query failed, or the system refused"
_NOT_JUDGED = "not judged, every judgment failed, or the query failed"
TABLE = [
    Metric("hit@k", "1 if a hit of rank ≤ k meets a target of grade ≥ 1", _NO_TARGET, kind="binary", also="trec_eval success_k, ranx hit_rate@k"),
    Metric("recall@k", "distinct targets (grade ≥ 1) met at rank ≤ k / all of them", _NO_TARGET, also="trec_eval recall_k, ir_measures R@k"),
    Metric("recall_all@k", "1 if every target of some support group is met at rank ≤ k", "no support groups, or the query should be refused", kind="binary"),
    Metric("precision@k", "hits of grade ≥ 1 at rank ≤ k / k", _NO_TARGET, also="trec_eval P_k"),
    Metric("map@k", "Σ over gaining hits of rank i ≤ k of (gaining hits up to i) / i, divided by the number of targets", _NO_TARGET, also="trec_eval map_cut_k, ir_measures AP@k"),
    Metric("ndcg@k", "Σ_{rank ≤ k} (2^gain − 1) / log2(rank + 1), divided by the same over the targets' grades, best first (Burges et al. 2005)", _NO_TARGET, also="ranx ndcg_burges@k"),
    Metric("ndcg_linear@k", "as ndcg@k with the gain itself instead of 2^gain − 1 (Järvelin & Kekäläinen 2002, doi:10.1145/582415.582418)", _NO_TARGET, also="trec_eval ndcg_cut_k, ir_measures nDCG@k"),
    Metric("judged@k", "hits of rank ≤ k that meet any target, grade 0 included / min(k, number of hits)", f"no hit; {_NO_TARGET}", also="ir_measures Judged@k"),
    Metric("mrr", "1 / rank of the first hit of grade ≥ 1, 0 if there is none", _NO_TARGET, also="trec_eval recip_rank"),
    Metric("mrr@k", "as mrr, 0 if that rank is above k", _NO_TARGET, also="ir_measures RR@k"),
    Metric("passed", "1 if the query got what it asks for: a target hit within the run's k; no hit where expected_empty; no forbidden source; a refusal where one is due", "nothing to judge it by", kind="binary"),
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
    Metric("answer_relevance", "mean cosine between the question and questions generated from the answer; a stored score goes first", f"no generated question; {_NOT_JUDGED}", kind="other", range="-1 to 1", also="RAGAS answer_relevancy", default=False),
    Metric("claim_precision", "claims of the answer that the reference answer supports / all of them; a stored score goes first", f"no claim; {_NOT_JUDGED}", also="RAGChecker precision", default=False),
    Metric("claim_recall", "claims of the reference answer that the answer supports / all of them; a stored score goes first", f"no claim; {_NOT_JUDGED}", also="RAGChecker recall", default=False),
    Metric("judge_groundedness", "a judge's points for the support that the answer has in its context", _NOT_JUDGED, kind="other", range="0 to 5", default=False),
    Metric("judge_correctness", "a judge's points for how right the answer is", _NOT_JUDGED, kind="other", range="0 to 5", default=False),
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
    Metric("latency_ms", "elapsed time of search and answer", "not recorded, or the query failed", kind="time", better="lower", range="0 and above, ms"),
    Metric("latency_ms_all", "as latency_ms, failed queries included", "not recorded", kind="time", better="lower", range="0 and above, ms", default=False),
    Metric("cost_usd", "money spent on the query", "not recorded, or the query failed", kind="cost", better="lower", range="0 and above, US dollars", default=False),
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
# Columns of your own, by name (`declare`): the one state of the process, as small as can be.
_DECLARED: dict[str, Metric] = {}
BY_NAME = {metric.name: metric for metric in TABLE}
RANKING = (
    "hit",
    "recall",
    "recall_all",
    "precision",
    "map",
    "ndcg",
    "ndcg_linear",
    "judged",
    "mrr",
)
DEFAULT_METRICS = [
    label
    for m in TABLE
    if m.default
    for label in (
        [m.name[:-1] + str(k) for k in DEFAULT_KS]
        if m.name.endswith("@k") and m.name != "mrr@k"
        else [m.name.replace("@k", "@10")]
    )
]


# The metrics that a table for readers starts with; everything else stays in the frames.
HEADLINE = [
    "hit@1", "hit@5", "hit@10", "recall@5", "recall@10", "mrr@10", "ndcg@10", "passed",
    "answer_checks", "citation_coverage", "refusal_correct", "answered_unanswerable",
    "false_refusal", "empty", "failed", "latency_ms",
]  # fmt: skip


@dataclass(frozen=True)
class Label:
    """A metric label taken apart: `recall@5:doc` is recall, k = 5, at level doc."""

    text: str
    name: str
    k: int | None = None
    level: str | None = None

    @property
    def is_ranking(self) -> bool:
        """True for metrics computed from hits and targets."""
        return self.name in RANKING

    @property
    def metric(self) -> Metric:
        """The metric's line of the table."""
        return BY_NAME[self.name if self.k is None else f"{self.name}@k"]


def parse_label(text: str) -> Label:
    """Take a metric label apart.

    Raises
    ------
    DataError
        Not a known metric (near misses are named), a cut-off below 1, or an unknown level.
    """
    if not isinstance(text, str):
        raise DataError(
            f"found {excerpt(text)}", field="metrics", allowed="labels, such as 'mrr@10'"
        )
    return _parsed(text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Label:
    found = re.fullmatch(r"([a-z_]+?)(?:@(\d+))?(?::([a-z]+))?", text)
    name, k, level = found.groups() if found else (text, None, None)
    if f"{name}@k" in BY_NAME and k is not None and int(k) < 1:
        raise DataError(f"found {text!r}", field="metrics", allowed="a cut-off k of at least 1")
    if (name if k is None else f"{name}@k") not in BY_NAME:
        raise DataError(
            f"unknown metric {excerpt(text)}",
            field="metrics",
            allowed=nearest(text, [*DEFAULT_METRICS, *BY_NAME], "rs.metrics() has"),
        )
    if level is not None and (level not in LEVELS or name not in RANKING):
        raise DataError(
            f"found {text!r}",
            field="metrics",
            allowed=f"a ranking metric followed by one of {', '.join(':' + one for one in LEVELS)}",
        )
    return Label(text, name, int(k) if k else None, level)


def describe(column: str) -> Metric:
    """Return the metric behind a column of a scores frame.

    A column of your own has the range and the direction that `declare` gave it, if any.
    """
    try:
        return parse_label(column).metric
    except DataError:
        return _DECLARED.get(column) or ADDED.get(
            column.partition("@")[0],
            Metric(
                column,
                "a column of your own",
                "as you computed it",
                kind="other",
                range="any",
                better="not declared",
            ),
        )


def declare(name: str, better: str | None, range: tuple[float, float] | None) -> None:
    """Declare direction and range of a column of your own, for this process.

    A name has one meaning wherever it is shown, as the names of the metric table have.

    Raises
    ------
    DataError
        A name of the metric table; a direction other than "higher" or "lower"; a range that isn't
        two numbers, the lower one first.

    Warns
    -----
    UserWarning
        The name was declared otherwise before: what was made before keeps its words.
    """
    if name.partition("@")[0] in ADDED or _is_label(name):
        raise DataError(
            f"{name} is a metric of the table", field="better, range", allowed="another name"
        )
    if better not in (None, "higher", "lower"):
        raise DataError(f"found {better!r}", field="better", allowed="'higher' or 'lower'")
    if range is not None and not (len(range) == 2 and range[0] < range[1]):
        raise DataError(f"found {range!r}", field="range", allowed="(lowest, highest)")
    found = Metric(
        name,
        "a column of your own",
        "as you computed it",
        kind="other" if range is None else "bounded",
        range="any" if range is None else f"{range[0]:g} to {range[1]:g}",
        better=better or "not declared",
    )
    before = _DECLARED.get(name, found)
    if before != found:
        warn(
            f"{name} is declared anew: {found.better} is better (was {before.better}), range"
            f" {found.range} (was {before.range})"
        )
    _DECLARED[name] = found


def _is_label(name: str) -> bool:
    try:
        parse_label(name)
    except DataError:
        return False
    return True


def metrics() -> pd.DataFrame:
    """One row per metric: formula, kind, range, direction, when it is NaN, and other names."""
    return pd.DataFrame([asdict(metric) for metric in TABLE])


class Card(str):
    """A text that a notebook shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def metric_card(label: str) -> Card:
    """Return one metric in full, as text: `rs.metric_card("ndcg@5")`."""
    parsed = parse_label(label)
    m = parsed.metric
    lines = [
        label,
        f"  formula   {m.formula}",
        f"  range     {m.range}, {m.better} is better",
        f"  kind      {m.kind}",
        f"  NaN when  {m.nan_when}",
    ]
    return Card("\n".join(lines + ([f"  also      {m.also}"] if m.also else [])))


def is_better(label: str, delta: float) -> bool | None:
    """Tell if a change of this metric is an improvement.

    None for no change or NaN, and for a column of your own.
    """
    direction = describe(label).better
    if not delta or np.isnan(delta) or direction not in ("higher", "lower"):
        return None
    return (delta > 0) == (direction == "higher")


@dataclass
class _Credit:
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
    cuts: dict[int, "_Credit"] = field(default_factory=dict)
    ideals: dict[tuple[GainFunction, int], Values] = field(default_factory=dict)  # of all cuts
    first: Values | None = None

    def at_cutoff(self, k: int | None) -> "_Credit":
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
    def first_rank(self) -> Values:
        """The rank of each row's first hit of grade ≥ 1; infinity where there is none."""
        if self.first is None:
            # backwards: the last one written is the first one found
            relevant = np.flatnonzero(self.grade > 0)[::-1]
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
    grade ≥ 1.
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
) -> dict[str, Values]:
    """Return the columns of `score_hits` as arrays."""
    if not isinstance(rows["run_id"].dtype, pd.CategoricalDtype):
        rows = rows.assign(run_id=rows["run_id"].astype("str").astype("category"))
    queries = pd.Index(golden.queries["query_id"])
    credit = _credit(graded, golden.targets, rows, queries)
    is_undefined = credit.n_targets == 0
    columns: dict[str, Values] = {}
    complete: Values | None = None
    for label in map(parse_label, metrics):
        if label.name == "recall_all":
            if complete is None:
                complete = _complete_rank(found, golden.support_groups, rows, queries)
            columns[label.text] = np.where(np.isnan(complete), np.nan, complete <= (label.k or 0))
        else:
            with np.errstate(invalid="ignore", divide="ignore"):
                values = FORMULAS[label.name](credit.at_cutoff(label.k), label.k)
                columns[label.text] = np.where(is_undefined, np.nan, values)
    return columns


def _credit(
    graded: pd.DataFrame, targets: pd.DataFrame, rows: pd.DataFrame, queries: pd.Index
) -> _Credit:
    row, rank = _row_with_hits(graded, rows, queries), graded["rank"].to_numpy()
    order = np.flatnonzero(row >= 0)
    step = np.diff(row[order])
    if (step < 0).any() or ((step == 0) & (np.diff(rank[order]) < 0)).any():
        order = order[np.lexsort((rank[order], row[order]))]
    ideal_query, ideal_grade = _creditable(targets, queries)
    highest = int(ideal_grade.max(initial=0)) + 1
    best_first = np.argsort(ideal_query * highest - ideal_grade, kind="stable")
    ideal_query, ideal_grade = ideal_query[best_first], ideal_grade[best_first]
    row_query = lookup(rows["query_id"], queries)
    n_targets = np.append(np.bincount(ideal_query, minlength=len(queries)).astype("float64"), 0.0)
    numbers: dict[str, Any] = {
        name: graded[name].to_numpy().astype(np.int64)[order]
        for name in ("rank", "grade", "gain", "n_found")
    }
    return _Credit(
        row=row[order], **numbers, n_rows=len(rows), n_hits=rows["n_hits"].to_numpy("float64"),
        n_targets=n_targets[row_query], ideal_query=ideal_query,
        ideal_place=_place_in_group(ideal_query), ideal_grade=ideal_grade, row_query=row_query,
    )  # fmt: skip


def _creditable(
    targets: pd.DataFrame, queries: pd.Index
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return query and grade of each target of grade ≥ 1; of alternatives, the best grade."""
    grade = targets["grade"].to_numpy().astype(np.int64)
    query = lookup(targets["query_id"], queries)
    is_relevant = grade > 0
    # Alternatives of one target share a number.
    number = pair_numbers(query, targets["target_id"])[is_relevant]
    query, grade = query[is_relevant], grade[is_relevant]
    if not np.diff(np.sort(number)).all():
        order = np.lexsort((-grade, number))
        best = order[np.diff(number[order], prepend=-1) != 0]
        query, grade = query[best], grade[best]
    return query, grade


def _place_in_group(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
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


def _average_precision(credit: _Credit, k: int | None) -> Values:
    is_gaining = credit.gain > 0
    row, rank = credit.row[is_gaining], credit.rank[is_gaining]
    n_so_far = _place_in_group(row) + 1
    return np.bincount(row, n_so_far / rank, credit.n_rows) / credit.n_targets


def _exponential_gain(grade: npt.NDArray[np.int64]) -> Values:
    return np.exp2(grade.astype(np.float64)) - 1.0


def _linear_gain(grade: npt.NDArray[np.int64]) -> Values:
    return grade.astype(np.float64)


def _ndcg(credit: _Credit, k: int | None, gain: GainFunction) -> Values:
    dcg = credit.total(gain(credit.gain) / np.log2(credit.rank + 1.0))
    return dcg / credit.ideal(gain, k or 0)


FORMULAS: dict[str, Callable[[_Credit, int | None], Values]] = {
    "hit": lambda c, k: np.isfinite(c.first_rank).astype("float64"),
    "recall": lambda c, k: c.total(c.n_found) / c.n_targets,
    "precision": lambda c, k: c.total(c.grade > 0) / float(k or 0),
    "map": _average_precision,
    "ndcg": lambda c, k: _ndcg(c, k, _exponential_gain),
    "ndcg_linear": lambda c, k: _ndcg(c, k, _linear_gain),
    "judged": lambda c, k: c.total(np.ones(len(c.row))) / np.minimum(float(k or 0), c.n_hits),
    "mrr": lambda c, k: np.where(np.isfinite(c.first_rank), 1 / c.first_rank, 0.0),
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
