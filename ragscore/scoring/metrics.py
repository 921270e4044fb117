"""Ranking metrics, and the table of every metric.

What it means, when it is NaN, which way is better.

In: the sparse frames of `match.grade_hits`. Out: one row per question asked, one column per metric.
"""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import lookup, pair_numbers
from ragscore.frames.data import DataError, Golden, check_type
from ragscore.scoring.matching import LEVELS

DEFAULT_KS = (1, 3, 5, 10)
Values = npt.NDArray[np.float64]
Worth = Callable[[npt.NDArray[np.int64]], Values]


@dataclass(frozen=True)
class Metric:
    """One line of the metric table. `name` holds a `k` where the label takes a cut-off.

    `version` counts what its formula has meant: stored values of different versions are not
    compared. It is written by hand, because a hash of the source would change with every rename and
    comment, and not with the functions that the formula calls; a test holds every metric's values
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
    Metric("hit@k", "1 if a hit of rank ≤ k meets a target of grade ≥ 1", _NO_TARGET, kind="binary",
    also="trec_eval success_k, ranx hit_rate@k"),
    Metric("recall@k", "distinct targets (grade ≥ 1) met at rank ≤ k / all of them", _NO_TARGET,
    also="trec_eval recall_k, ir_measures R@k"),
    Metric("recall_all@k", "1 if every target of some support group is met at rank ≤ k",
    "no support groups, or the query should be refused", kind="binary"),
    Metric("precision@k", "hits of grade ≥ 1 at rank ≤ k / k", _NO_TARGET, also="trec_eval P_k"),
    Metric("map@k",
    "Σ over gaining hits of rank i ≤ k of (gaining hits up to i) / i, divided by the number of targets", _NO_TARGET, also="trec_eval map_cut_k, ir_measures AP@k"),
    Metric("ndcg@k",
    "Σ_{rank ≤ k} (2^gain − 1) / log2(rank + 1), divided by the same over the targets' grades, best first (Burges et al. 2005)", _NO_TARGET, also="ranx ndcg_burges@k"),
    Metric("ndcg_linear@k",
    "as ndcg@k with the gain itself instead of 2^gain − 1 (Järvelin & Kekäläinen 2002, doi:10.1145/582415.582418)", _NO_TARGET, also="trec_eval ndcg_cut_k, ir_measures nDCG@k"),
    Metric("judged@k",
    "hits of rank ≤ k that meet any target, grade 0 included / min(k, number of hits)",
    f"no hit; {_NO_TARGET}", also="ir_measures Judged@k"),
    Metric("mrr", "1 / rank of the first hit of grade ≥ 1, 0 if there is none", _NO_TARGET,
    also="trec_eval recip_rank"),
    Metric("mrr@k", "as mrr, 0 if that rank is above k", _NO_TARGET, also="ir_measures RR@k"),
    Metric("passed",
    "1 if the query got what it asks for: a target hit within the run's k; no hit where expected_empty; no forbidden source; a refusal where one is due", "nothing to judge it by", kind="binary"),
    Metric("answer_checks",
    "1 if the answer holds every must_contain text and no forbidden one (case-sensitive)",
    f"no such checks, {_NO_ANSWER}, or the query should be refused", kind="binary"),
    Metric("answer_checks_all", "as answer_checks, should-refuse queries included",
    f"no such checks, {_NO_ANSWER}", kind="binary", also="kebab groundedness", default=False),
    Metric("exact_match",
    "1 if answer and reference answer are equal after SQuAD's normalisation: lower case, without ASCII punctuation and the words a, an, the (Rajpurkar et al. 2016, doi:10.18653/v1/D16-1264)", _NO_REFERENCE, kind="binary", also="SQuAD exact"),
    Metric("token_f1",
    "2 · shared tokens / (tokens of the answer + tokens of the reference), repeated ones counted, after the same normalisation", _NO_REFERENCE, also="SQuAD f1"),
    Metric("rouge_l",
    "2 · words of the longest common subsequence / (words of the answer + words of the reference), lower case, no stemming (Lin 2004, W04-1013)", _NO_REFERENCE, also="rouge-score rougeL fmeasure"),
    Metric("citation_present", "1 if the answer has at least one citation",
    f"{_NO_ANSWER}, or the system refused", kind="binary"),
    Metric("citation_coverage",
    "1 if there is a citation and each one resolves: its chunk id, or its path and span inside a chunk, is among the query's hits or the run's chunk catalogue", f"{_NO_ANSWER}, or the answer is not grounded", kind="binary"),
    Metric("citation_coverage_weak", "1 if there is a citation and each one has a path",
    f"{_NO_ANSWER}, or the answer is not grounded", kind="binary", also="kebab citation_coverage",
    default=False),
    Metric("citation_precision",
    "cited passages that meet a target of grade ≥ 1 / passages cited, each once; at the match level, or the next coarser one that citations carry", f"nothing cited; {_NO_TARGET}; {_NOT_GIVEN}", also="ALCE citation precision (by labels, not NLI)"),
    Metric("citation_recall",
    "targets (grade ≥ 1) that a cited passage meets / all of them; level as for citation_precision",
    f"{_NO_TARGET}; {_NOT_GIVEN}"),
    Metric("retrieved_cited",
    "hits that the answer cites / hits, by chunk id, else document, else path",
    f"no hit; {_NOT_GIVEN}", default=False),
    Metric("citation_fabricated",
    "cited passages that are not among the query's hits / passages cited, each once",
    f"nothing cited; {_NOT_GIVEN}", better="lower"),
    Metric("citation_out_of_scope",
    "cited passages outside the run's chunk catalogue, or the folders that the response's scope names / passages cited of which that is known", f"nothing cited, neither catalogue nor folders known; {_NOT_GIVEN}", better="lower", default=False),
    Metric("citation_duplicate",
    "citations of a passage that the answer has cited already / citations",
    f"nothing cited; {_NOT_GIVEN}", better="lower", default=False),
    Metric("key_facts",
    "expected key facts that a judge found in the answer / all of them; a stored score of the whole answer goes first", f"no fact; {_NOT_JUDGED}", default=False),
    Metric("faithfulness",
    "claims of the answer that its context supports / all of them; a stored score of the whole answer goes first", f"no claim; {_NOT_JUDGED}", also="RAGAS faithfulness", default=False),
    Metric("context_precision",
    "Σ over relevant chunks of (relevant chunks up to it / chunks up to it) / relevant chunks, 0 if none is, chunks by rank; a stored score goes first", f"no chunk; {_NOT_JUDGED}", also="RAGAS context_precision", default=False),
    Metric("context_recall",
    "claims of the reference answer that the context supports / all of them; a stored score goes first", f"no claim; {_NOT_JUDGED}", also="RAGAS context_recall", default=False),
    Metric("answer_relevance",
    "mean cosine between the question and questions generated from the answer; a stored score goes first", f"no generated question; {_NOT_JUDGED}", kind="other", range="-1 to 1", also="RAGAS answer_relevancy", default=False),
    Metric("claim_precision",
    "claims of the answer that the reference answer supports / all of them; a stored score goes first", f"no claim; {_NOT_JUDGED}", also="RAGChecker precision", default=False),
    Metric("claim_recall",
    "claims of the reference answer that the answer supports / all of them; a stored score goes first", f"no claim; {_NOT_JUDGED}", also="RAGChecker recall", default=False),
    Metric("judge_groundedness",
    "a judge's points for the support that the answer has in its context", _NOT_JUDGED,
    kind="other", range="0 to 5", default=False),
    Metric("judge_correctness", "a judge's points for how right the answer is", _NOT_JUDGED,
    kind="other", range="0 to 5", default=False),
    Metric("judge_refused", "1 if a judge reads the answer as a refusal", _NOT_JUDGED,
    kind="binary", default=False),
    Metric("judge_failed", "1 if a judgment of the answer failed",
    "no judgment, or the query failed", kind="binary", better="lower", default=False),
    Metric("refusal_correct", "1 if the system refused",
    f"{_NO_ANSWER}, or the query is answerable or unlabelled", kind="binary",
    also="kebab refusal_correctness"),
    Metric("answered_unanswerable", "1 if the system answered what it should have refused",
    f"{_NO_ANSWER}, or the query is answerable or unlabelled", kind="binary", better="lower"),
    Metric("false_refusal", "1 if the system refused an answerable query",
    f"{_NO_ANSWER}, or the query is not known to be answerable", kind="binary", better="lower"),
    Metric("attribution_hit",
    "1 if a reference of the answer, or a citation in its text, names the file and heading of an anchor (snippets left out)", f"no anchor, {_NO_ANSWER}, or the query should be refused", kind="binary", also="the chatbot harness's attribution_hit"),
    Metric("recency_ok",
    "1 if the answer cites the supports that the query's rule for supports that disagree wants: the newest (cite_newer), every one (cite_both, acknowledge_both)", f"no such rule, {_NO_ANSWER}, or the query should be refused", kind="binary"),
    Metric("scope_miss",
    "1 if none of the folders that the system chose to search holds, or lies in, a folder of the query (else a file of its anchors)", "no choice of folders recorded, neither folders nor anchors expected, the query failed or should be refused", kind="binary", better="lower"),
    Metric("scope_miss_proxy",
    "1 if no hit at all meets an anchor, in a folder mode that chooses folders: a weak stand-in for scope_miss", "folder mode off or unknown, no anchor, hits undecided, the query failed or should be refused", kind="binary", better="lower", also="the chatbot harness's scope_miss", default=False),
    Metric("key_facts_literal",
    "key facts whose words stand in the answer, in lower case and without punctuation / all of them", f"no key facts, {_NO_ANSWER}, or the query should be refused"),
    Metric("empty_response", "1 if the answer is blank and the system doesn't say that it refused",
    _NO_ANSWER, kind="binary", better="lower"),
    Metric("timeout", "1 if the query ended in an error that says that time ran out",
    "never, for a query that was asked", kind="binary", better="lower"),
    Metric("empty", "1 if the query got no hit", "the query failed", kind="binary", better="lower"),
    Metric("empty_all", "as empty, failed queries included", "never, for a query that was asked",
    kind="binary", better="lower", also="kebab empty_result_rate", default=False),
    Metric("failed", "1 if the query ended in an error", "never, for a query that was asked",
    kind="binary", better="lower"),
    Metric("latency_ms", "elapsed time of search and answer", "not recorded, or the query failed",
    kind="time", better="lower", range="0 and above, ms"),
    Metric("latency_ms_all", "as latency_ms, failed queries included", "not recorded", kind="time",
    better="lower", range="0 and above, ms", default=False),
    Metric("cost_usd", "money spent on the query", "not recorded, or the query failed", kind="cost",
    better="lower", range="0 and above, US dollars", default=False),
]  # fmt: skip
# What `add_columns` brings to the scores: computed from other frames, so `score` doesn't know them.
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


# What a table for reading starts with; everything else stays in the frames.
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
        """Whether it is computed from hits and targets."""
        return self.name in RANKING

    @property
    def metric(self) -> Metric:
        """Its line of the metric table."""
        return BY_NAME[self.name if self.k is None else f"{self.name}@k"]


def parse_label(text: str) -> Label:
    """Take a metric label apart.

    Raises
    ------
    DataError
        Not a known metric (near misses are named), a cut-off below 1, or an unknown level.
    """
    if not isinstance(text, str):
        raise DataError(f"found {text!r}", field="metrics", allowed="labels, such as 'mrr@10'")
    return _parsed(text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Label:
    found = re.fullmatch(r"([a-z_]+?)(?:@(\d+))?(?::([a-z]+))?", text)
    name, k, level = found.groups() if found else (text, None, None)
    if f"{name}@k" in BY_NAME and k is not None and int(k) < 1:
        raise DataError(f"found {text!r}", field="metrics", allowed="a cut-off k of at least 1")
    if (name if k is None else f"{name}@k") not in BY_NAME:
        close = get_close_matches(text, [*BY_NAME, *DEFAULT_METRICS], n=3)
        raise DataError(
            f"unknown metric {text!r}",
            field="metrics",
            allowed=f"did you mean {', '.join(close)}?" if close else "see rs.metrics()",
        )
    if level is not None and (level not in LEVELS or name not in RANKING):
        raise DataError(
            f"found {text!r}",
            field="metrics",
            allowed=f"a ranking metric followed by one of {', '.join(':' + one for one in LEVELS)}",
        )
    return Label(text, name, int(k) if k else None, level)


def describe(column: str) -> Metric:
    """The metric behind a column of a scores frame.

    A column of your own has no declared range, nor a declared direction.
    """
    try:
        return parse_label(column).metric
    except DataError:
        return ADDED.get(
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


def metrics() -> pd.DataFrame:
    """The metric table.

    One row per metric, with formula, kind, range, direction, when it is NaN, and other names.
    """
    return pd.DataFrame([asdict(metric) for metric in TABLE])


class Card(str):
    """A text that a notebook shows as it is."""

    def __repr__(self) -> str:
        return str(self)


def metric_card(label: str) -> Card:
    """One metric in full, as text: `rs.metric_card("ndcg@5")`."""
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
    """Whether a change of this metric is an improvement.

    None for no change or NaN, and for a column of your own.
    """
    direction = describe(label).better
    if not delta or np.isnan(delta) or direction not in ("higher", "lower"):
        return None
    return (delta > 0) == (direction == "higher")


@dataclass
class _Earned:
    """What metrics are computed from.

    Arrays over graded hits (sorted by row, then rank), over paying targets (best first) and over
    rows.
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
    cuts: dict[int, "_Earned"] = field(default_factory=dict)
    ideals: dict[tuple[Worth, int], Values] = field(default_factory=dict)  # shared by all cuts
    first: Values | None = None

    def at_cutoff(self, k: int | None) -> "_Earned":
        """The same of hits up to rank k, selected once for all metrics at this k.

        They are few, and everything else of a formula is work on them.
        """
        if k is None:
            return self
        if k not in self.cuts:
            kept = np.flatnonzero(self.rank <= k)
            of_hits = {
                name: getattr(self, name)[kept]
                for name in ("row", "rank", "grade", "gain", "n_found")
            }
            self.cuts[k] = replace(self, **of_hits, cuts={}, first=None)
        return self.cuts[k]

    def total(self, weights: npt.NDArray[np.generic]) -> Values:
        """Sum of `weights` over the graded hits of each row."""
        return np.bincount(self.row, weights, self.n_rows).astype(np.float64, copy=False)

    def ideal(self, worth: Worth, k: int) -> Values:
        """Discounted worth of the k best targets of each row's query.

        The same for every k from the largest number of targets on.
        """
        k = min(k, int(self.ideal_place.max(initial=-1)) + 1)
        if (worth, k) not in self.ideals:
            kept = np.flatnonzero(self.ideal_place < k)
            weights = worth(self.ideal_grade[kept]) / np.log2(self.ideal_place[kept] + 2.0)
            n_queries = int(self.row_query.max(initial=-1)) + 1
            self.ideals[worth, k] = np.append(
                np.bincount(self.ideal_query[kept], weights, n_queries), 0.0
            )[self.row_query]
        return self.ideals[worth, k]


def score_hits(
    graded: pd.DataFrame,
    found: pd.DataFrame,
    golden: Golden,
    rows: pd.DataFrame,
    metrics: list[str] | str,
) -> pd.DataFrame:
    """Ranking metrics of every question asked.

    Parameters
    ----------
    graded, found
        From `grade_hits`.
    golden
        With the targets those were graded against (see `at_level`), and its support groups.
    rows
        One row per question asked: run_id, query_id, n_hits. A question without hits is here too,
        and scores 0, whatever `graded` says of it.
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
    return pd.DataFrame(
        ranking_columns(
            graded, found, golden, rows, [metrics] if isinstance(metrics, str) else metrics
        ),
        index=rows.index,
        copy=False,
    )


def ranking_columns(
    graded: pd.DataFrame,
    found: pd.DataFrame,
    golden: Golden,
    rows: pd.DataFrame,
    metrics: list[str],
) -> dict[str, Values]:
    """The columns of `score_hits` as arrays."""
    rows = (
        rows
        if isinstance(rows["run_id"].dtype, pd.CategoricalDtype)
        else rows.assign(run_id=rows["run_id"].astype("str").astype("category"))
    )
    queries = pd.Index(golden.queries["query_id"])
    earned = _earned(graded, golden.targets, rows, queries)
    undefined = earned.n_targets == 0
    columns: dict[str, Values] = {}
    complete: Values | None = None
    for label in map(parse_label, metrics):
        if label.name == "recall_all":
            complete = (
                _complete_rank(found, golden.support_groups, rows, queries)
                if complete is None
                else complete
            )
            columns[label.text] = np.where(np.isnan(complete), np.nan, complete <= (label.k or 0))
        else:
            with np.errstate(invalid="ignore", divide="ignore"):
                columns[label.text] = np.where(
                    undefined, np.nan, FORMULAS[label.name](earned.at_cutoff(label.k), label.k)
                )
    return columns


def _earned(
    graded: pd.DataFrame, targets: pd.DataFrame, rows: pd.DataFrame, queries: pd.Index
) -> _Earned:
    row = _row_with_hits(graded, rows, queries)
    order = np.flatnonzero(row >= 0)
    if (np.diff(row[order]) < 0).any() or (
        (np.diff(row[order]) == 0) & (np.diff(graded["rank"].to_numpy()[order]) < 0)
    ).any():
        order = order[np.lexsort((graded["rank"].to_numpy()[order], row[order]))]
    ideal_query, ideal_grade = _payable(targets, queries)
    best_first = np.argsort(
        ideal_query * (int(ideal_grade.max(initial=0)) + 1) - ideal_grade, kind="stable"
    )
    ideal_query, ideal_grade = ideal_query[best_first], ideal_grade[best_first]
    begins = np.flatnonzero(np.diff(ideal_query, prepend=-1))
    place = np.arange(len(ideal_query)) - np.repeat(
        begins, np.diff(begins, append=len(ideal_query))
    )
    row_query = lookup(rows["query_id"], queries)
    n_targets = np.append(np.bincount(ideal_query, minlength=len(queries)).astype("float64"), 0.0)
    numbers: dict[str, Any] = {
        name: graded[name].to_numpy().astype(np.int64)[order]
        for name in ("rank", "grade", "gain", "n_found")
    }
    return _Earned(
        row=row[order], **numbers, n_rows=len(rows), n_hits=rows["n_hits"].to_numpy("float64"),
        n_targets=n_targets[row_query],
        ideal_query=ideal_query, ideal_place=place, ideal_grade=ideal_grade, row_query=row_query,
    )  # fmt: skip


def _payable(
    targets: pd.DataFrame, queries: pd.Index
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The query of each target of grade ≥ 1, and what it can pay: of alternatives, the best grade."""
    grade, query = (
        targets["grade"].to_numpy().astype(np.int64),
        lookup(targets["query_id"], queries),
    )
    pays = grade > 0
    known_as = pair_numbers(query, targets["target_id"])[pays]
    query, grade = query[pays], grade[pays]
    if not np.diff(np.sort(known_as)).all():
        order = np.lexsort((-grade, known_as))
        best = order[np.diff(known_as[order], prepend=-1) != 0]
        query, grade = query[best], grade[best]
    return query, grade


def _row_with_hits(
    frame: pd.DataFrame, rows: pd.DataFrame, queries: pd.Index
) -> npt.NDArray[np.int64]:
    """As `_row_of`, -1 also where the row has no hits.

    Hits of a question that the run has no response to are nobody's.
    """
    row = _row_of(frame, rows, queries)
    return np.where(np.append(rows["n_hits"].to_numpy() > 0, False)[row], row, -1)


def _row_of(frame: pd.DataFrame, rows: pd.DataFrame, queries: pd.Index) -> npt.NDArray[np.int64]:
    """Position in `rows` of each (run_id, query_id) of `frame`, -1 where it is not there."""
    run_ids = rows["run_id"].cat.categories
    keys, wanted = (_cell_keys(one, run_ids, queries) for one in (rows, frame))
    # A dense table of run × query is as large as the scores themselves, and a look-up in it needs
    # no sorting.
    known = np.full(len(run_ids) * len(queries) + 1, -1)
    known[keys] = np.arange(len(keys))
    # where rows of queries that nobody asked for have written, and where such rows look
    known[-1] = -1
    return np.take(known, wanted)


def _cell_keys(frame: pd.DataFrame, run_ids: pd.Index, queries: pd.Index) -> npt.NDArray[np.int64]:
    run, query = lookup(frame["run_id"], run_ids), lookup(frame["query_id"], queries)
    return np.where((run < 0) | (query < 0), -1, run * len(queries) + query)


def _first_rank(e: _Earned) -> Values:
    """Rank of the first hit of grade ≥ 1; infinity where there is none."""
    if e.first is None:
        relevant = np.flatnonzero(e.grade > 0)[::-1]  # the last one written is the first one found
        e.first = np.full(e.n_rows, np.inf)
        e.first[e.row[relevant]] = e.rank[relevant]
    return e.first


def _average_precision(e: _Earned, k: int | None) -> Values:
    gaining = e.gain > 0
    row, rank = e.row[gaining], e.rank[gaining]
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    so_far = np.arange(len(row)) - np.repeat(begins, np.diff(begins, append=len(row))) + 1
    return np.bincount(row, so_far / rank, e.n_rows) / e.n_targets


def _exponential(grade: npt.NDArray[np.int64]) -> Values:
    return np.exp2(grade.astype(np.float64)) - 1.0


def _linear(grade: npt.NDArray[np.int64]) -> Values:
    return grade.astype(np.float64)


def _ndcg(e: _Earned, k: int | None, worth: Worth) -> Values:
    return e.total(worth(e.gain) / np.log2(e.rank + 1.0)) / e.ideal(worth, k or 0)


def _reciprocal_rank(e: _Earned, k: int | None) -> Values:
    return np.where(np.isfinite(_first_rank(e)), 1 / _first_rank(e), 0.0)


FORMULAS: dict[str, Callable[[_Earned, int | None], Values]] = {
    "hit": lambda e, k: np.isfinite(_first_rank(e)).astype("float64"),
    "recall": lambda e, k: e.total(e.n_found) / e.n_targets,
    "precision": lambda e, k: e.total(e.grade > 0) / float(k or 0),
    "map": _average_precision,
    "ndcg": lambda e, k: _ndcg(e, k, _exponential),
    "ndcg_linear": lambda e, k: _ndcg(e, k, _linear),
    "judged": lambda e, k: e.total(np.ones(len(e.row))) / np.minimum(float(k or 0), e.n_hits),
    "mrr": _reciprocal_rank,
}


def _complete_rank(
    found: pd.DataFrame, support_groups: pd.DataFrame, rows: pd.DataFrame, queries: pd.Index
) -> Values:
    """Rank at which some support group of each row is first complete.

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
    ranks = (
        members.assign(rank=members["rank"].fillna(np.inf))
        .groupby(["row", "group"])["rank"]
        .max()
        .groupby("row")
        .min()
    )
    complete[ranks.index] = ranks.to_numpy()
    return complete
