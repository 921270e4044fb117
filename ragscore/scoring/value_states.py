"""Value states: for every (run, query, metric), scored, or why there is no value.

In: a scores frame, the golden set and, if they are given, the results behind the scores. Out: one
state per cell, told from causes and not from NaN alone; `n_expected` of a summary counts them.
"""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, categorical, check_type
from ragscore.frames.errors import name_list, names_of, nearest
from ragscore.frames.typing import Codes, Flags
from ragscore.scoring.applicability import (
    CHECKS_OF,
    OF_CITATIONS,
    OF_LABELLED_CITATIONS,
    OF_REFERENCE,
    Applicability,
    Availability,
    RowFacts,
)
from ragscore.scoring.judgments import CRITERIA, FAILED
from ragscore.scoring.metrics import BY_NAME, NOTHING_DECLARED, Label, is_own, parse_label
from ragscore.scoring.success import OF_SUCCESS, PASSED

STATES = (
    "scored", "not_applicable", "refused", "system_error", "judge_failed", "undecided", "missing",
    "unexplained",
)  # fmt: skip
NOT_EXPECTED = ("not_applicable", "unexplained")
FIXED_COLUMNS = ("run_id", "query_id", "state", "level", "created_at", "system")
OF_FAILURE = ("failed", "timeout", "empty_all", "latency_ms_all")  # a failure is what these measure
# a failed query is not expected to have these
IF_FINISHED = (
    "empty", "empty_response", "scope_miss", "scope_miss_proxy", "latency_ms", "cost_usd",
)  # fmt: skip
OF_REFUSAL = ("refusal_correct", "answered_unanswerable", "false_refusal")
OF_ANSWER_TEXT = (
    "answer_checks", "answer_checks_all", "attribution_hit", "recency_ok", "key_facts_literal",
    *OF_REFERENCE,
)  # fmt: skip
OF_GIVEN_ANSWER = (*OF_CITATIONS, *OF_LABELLED_CITATIONS, "retrieved_cited")
OF_CITED = (
    "citation_precision", "citation_fabricated", "citation_out_of_scope", "citation_duplicate",
)  # fmt: skip
NEEDED = {
    "recall_all": "support group", "false_refusal": "label that says it is answerable",
    "refusal_correct": "label that says to refuse it",
    "answered_unanswerable": "label that says to refuse it", "attribution_hit": "anchor",
    "scope_miss_proxy": "anchor", "scope_miss": "folder or anchor",
    "answer_checks": "text check", "answer_checks_all": "text check",
    "found": "expectation of what is found", "passed": "expectation",
    **dict.fromkeys(OF_REFERENCE, "reference answer"),
    **{metric: kind.replace("_", " ") for metric, kind in CHECKS_OF.items()},
}  # fmt: skip
"""Metric -> what a query must have so that it applies; a target, for those that aren't here."""
UNMEASURABLE = {
    "citation_out_of_scope": "neither catalogue nor folders are known",
    "citation_precision": "citations don't carry what targets are matched by",
    "citation_recall": "citations don't carry what targets are matched by",
    "scope_miss_proxy": "the folder mode is off or unknown",
    "recency_ok": "the rule for supports that disagree is not known",
}  # fmt: skip
"""Metric -> why an answer has no value of it where no other cause holds."""

ELSEWHERE = "the query has targets, but none at this match level; match='per_query' may use them"
NONE_IRRELEVANT = "the golden set judges no document as not relevant; it would be recall"

Reasons = npt.NDArray[np.object_]
# texts of their own for each row are written only where they are read
Cause = tuple[Flags, str, str | Callable[[], Reasons]]


def explain(
    scores: pd.DataFrame,
    golden: Golden,
    metrics: list[str] | str | None = None,
    results: Results | None = None,
    min_grade: int = 1,
) -> pd.DataFrame:
    """Tell for every query why it counts in a metric's mean; see `Evaluation.explain`.

    Without results only failed and missing queries are known: why an answered one has no value of
    an answer metric stays `unexplained`.
    """
    check_type(golden, Golden, "golden", "a Golden, as rs.load_golden gives it")
    check_type(results, (Results, type(None)), "results", "a Results, as rs.load_results gives it")
    chosen = chosen_columns(scores, metrics)
    rows = score_rows(scores, chosen)
    states, parts = ValueStates(rows, golden, results, min_grade), []
    for name in chosen:
        codes, reason, texts = states.of(name)
        part = {
            "run_id": rows["run_id"],
            "query_id": rows["query_id"],
            "metric": name,
            "value": rows[name],
            "state": categorical(codes, STATES),
            "reason": pd.array(texts, dtype="str").take(reason),
        }
        parts.append(pd.DataFrame(part, copy=False))
    if not parts:
        columns = ["run_id", "query_id", "metric", "value", "state", "reason"]
        return pd.DataFrame(columns=columns)
    return pd.concat(parts, ignore_index=True)


class ValueStates:
    """The state of each score row at one metric after another, all from the same facts."""

    def __init__(
        self,
        rows: pd.DataFrame,
        golden: Golden | None,
        results: Results | None = None,
        min_grade: int = 1,
    ) -> None:
        self.rows, self.facts = rows, RowFacts(rows, results)
        self.applicability: Applicability | None = None
        self.should_refuse = np.zeros(len(rows), dtype=bool)
        if golden is not None:
            self.applicability = Applicability(golden, rows, min_grade)
            self.should_refuse = self.applicability.by_query(self.applicability.should_refuse)

    def of(self, name: str) -> tuple[npt.NDArray[np.int8], Codes, list[str]]:
        """Return state and reason of every row, its first cause, and the texts of reasons.

        A state is a position in STATES, a reason one in the texts: few rows have one of their own.
        """
        n, texts = len(self.rows), ["no cause found"]
        codes = np.full(n, STATES.index("unexplained"), dtype=np.int8)
        reasons, is_open = np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool)
        for holds, state, reason in self._causes(name, self._is_nan(name)):
            if not is_open.any():
                break
            here = is_open & holds
            if here.any():
                place, own = (0, [reason]) if isinstance(reason, str) else _distinct(reason()[here])
                codes[here], reasons[here] = STATES.index(state), place + len(texts)
                texts += own
                is_open &= ~holds
        return codes, reasons, texts

    def is_expected(self, name: str) -> Flags:
        """Flag rows of which a value was expected.

        They have one, or a failure is the cause that they have none, and not the query.
        """
        is_nan = self._is_nan(name)
        expected, is_open = ~is_nan, is_nan.copy()
        for holds, state, _ in self._causes(name, is_nan) if is_nan.any() else ():
            if not is_open.any():
                break
            if state not in NOT_EXPECTED:
                expected |= is_open & holds
            is_open &= ~holds
        return expected

    def _is_nan(self, name: str) -> Flags:
        return np.isnan(self.rows[name].to_numpy("float64"))

    def _causes(self, name: str, is_nan: Flags) -> Iterator[Cause]:
        """Give the possible causes of a metric's values, in order of precedence.

        They are looked for as they are asked for: most rows are settled by the first few.
        """
        label = label_of(name)
        yield from self._golden_causes(label, is_nan)
        yield from self._run_causes(label, is_nan)
        yield ~is_nan, "scored", ""
        yield from self._last_causes(label)

    def _golden_causes(self, label: Label, is_nan: Flags) -> list[Cause]:
        """List why a metric doesn't apply to a query. A value that a policy gave still counts."""
        extra = self.facts.extra & is_nan
        if self.applicability is None:
            return [(extra, "not_applicable", "no golden query")]
        off = ~self.applicability.of_rows(label) & is_nan & ~self.facts.extra
        target = "target at this match level" if label.is_ranking else "target"
        if label.is_ranking and (grade := self.applicability.grade_of(label.name)) > 1:
            target = f"target of grade {grade} or more at this match level"
        is_excused = self.should_refuse & (label.name not in (*OF_REFUSAL, "answer_checks_all"))
        lacks = off & self.applicability.lacks_irrelevant(label)
        elsewhere = np.zeros(len(off), dtype=bool)
        if off.any() and (label.name == "passed" or (label.is_ranking and label.level is None)):
            ranking = "hit" if label.name == "passed" else label.name
            elsewhere = off & self.applicability.only_elsewhere(ranking)
        return [
            (extra, "not_applicable", "no golden query"),
            (lacks & ~is_excused, "not_applicable", NONE_IRRELEVANT),
            (off & is_excused, "not_applicable", "the query should be refused"),
            (elsewhere, "undecided", ELSEWHERE),
            (off, "not_applicable", f"the query has no {NEEDED.get(label.name, target)}"),
        ]

    def _run_causes(self, label: Label, is_nan: Flags) -> list[Cause]:
        """List what the run or the system did, in the order in which it prevents a value."""
        facts, name = self.facts, label.name
        recorded = self._recorded(name)
        causes: list[Cause] = [
            (is_nan & reads & ~one.in_run, "not_applicable", f"the run records no {one.what}")
            for reads, one in recorded
        ]
        causes.append((facts.missing, "missing", "no response"))
        if name in IF_FINISHED:
            text = "the query failed, and finished ones are measured"
            causes.append((facts.failed, "not_applicable", text))
        elif name not in OF_FAILURE:
            causes.append((facts.failed, "system_error", facts.errors))
        if name in (*OF_ANSWER_TEXT, *OF_GIVEN_ANSWER, *CRITERIA):
            refused, text = facts.refused, "the system refused, as it should"
            # Where a refusal is due, answer_checks_all judges the text of the refusal.
            if name != "answer_checks_all":
                causes.append((refused & self.should_refuse & is_nan, "not_applicable", text))
            causes.append((refused & ~self.should_refuse, "refused", "the system refused"))
        if name in (*CRITERIA, FAILED):
            causes += _judge_causes(facts, name, is_nan)
        causes += [
            (is_nan & reads & ~one.here, "missing", f"no {one.what} recorded")
            for reads, one in recorded
        ]
        return causes + _hit_causes(facts, label, is_nan)

    def _recorded(self, name: str) -> list[tuple[Flags, Availability]]:
        """List what a run must record so that these rows have a value; nothing but hits: none."""
        facts, everywhere = self.facts, np.ones(len(self.rows), dtype=bool)
        if name in OF_SUCCESS:
            needed = [(self.should_refuse, facts.has_column("refusal_correct"))]
            if name == PASSED and self.applicability is not None:
                needed.append((self.applicability.texts_only, facts.has_answer))
        elif name in (*CRITERIA, FAILED):
            needed = [(everywhere, facts.has_judgment(name))]
        elif name in (*OF_ANSWER_TEXT, *OF_GIVEN_ANSWER, "empty_response"):
            needed = [(everywhere, facts.has_answer)]
        else:
            needed = [(everywhere, facts.has_column(name))]
        return [(reads, one) for reads, one in needed if one is not None]

    def _last_causes(self, label: Label) -> list[Cause]:
        """List what NaN means where no cause is known.

        Cut texts at a ranking metric, nothing at a column of your own.
        """
        everywhere = np.ones(len(self.rows), dtype=bool)
        if label.name not in BY_NAME and label.k is None and not label.is_ranking:
            return [(everywhere, "not_applicable", NOTHING_DECLARED.describe(label.text).nan_when)]
        knows_golden_only = self.applicability is not None and self.facts.results is None
        if label.is_ranking and label.name != "judged" and knows_golden_only:
            return [(everywhere, "undecided", "hits can't be judged on cut text")]
        return []


def _distinct(reasons: Reasons) -> tuple[Codes, list[str]]:
    place, texts = pd.factorize(reasons)
    return place, list(texts)


def _judge_causes(facts: RowFacts, name: str, is_nan: Flags) -> list[Cause]:
    n_judged, n_failed = facts.judged(name)

    def texts() -> Reasons:
        counts = zip(n_failed, n_judged, strict=True)
        return np.array([f"{failed} of {n} judgments failed" for failed, n in counts], dtype=object)

    return [
        (is_nan & (n_failed > 0), "judge_failed", texts),
        (is_nan & (n_judged > 0), "not_applicable", "the judge found nothing to measure"),
    ]


def _hit_causes(facts: RowFacts, label: Label, is_nan: Flags) -> list[Cause]:
    """List what hits and citations lack."""
    name, causes = label.name, list[Cause]()
    if facts.results is None:
        return causes

    def cut_texts() -> Reasons:
        # few distinct counts: a text for each, not for each row
        counts, place = np.unique(facts.n_cut, return_inverse=True)
        return np.array([f"{n} hits have cut text" for n in counts], dtype=object)[place]

    if name in ("judged", "retrieved_cited"):
        causes.append((is_nan & (facts.n_hits == 0), "not_applicable", "no hit"))
    if name in ("citation_coverage", "citation_coverage_weak"):
        causes.append((is_nan & facts.ungrounded, "not_applicable", "the answer is not grounded"))
    if name in OF_CITED:
        causes.append((is_nan & (facts.n_cited == 0), "not_applicable", "nothing cited"))
    if label.is_ranking or name in (*OF_SUCCESS, "scope_miss_proxy"):
        causes.append((is_nan & (facts.n_cut > 0), "undecided", cut_texts))
    if name in UNMEASURABLE:
        causes.append((is_nan, "not_applicable", UNMEASURABLE[name]))
    return causes


def label_of(column: str) -> Label:
    """Return the label behind a column of a scores frame; a column of your own is its own name."""
    return Label(column, column) if is_own(column) else parse_label(column)


def metric_columns(scores: pd.DataFrame) -> list[str]:
    """Return the metric columns of a scores frame, with columns of your own that hold numbers."""
    return [
        name
        for name in scores.columns
        if name not in FIXED_COLUMNS and pd.api.types.is_numeric_dtype(scores[name])
    ]


def chosen_columns(scores: pd.DataFrame, metrics: list[str] | str | None) -> list[str]:
    """Return the metric columns asked for, each once; all of them by default."""
    check_type(scores, pd.DataFrame, "scores")
    known = metric_columns(scores)
    if metrics is None:
        return known
    asked = names_of(metrics, "metrics")
    chosen = list(dict.fromkeys(_column_of(name, known) for name in asked))
    unknown = [name for name in chosen if name not in scores.columns]
    if unknown:
        raise DataError(
            f"no column {name_list(unknown)}",
            field="metrics",
            allowed=nearest(unknown[0], known, "scores has"),
        )
    texts = [name for name in chosen if name not in known]
    if texts:
        raise DataError(
            f"{name_list(texts)} holds no numbers",
            field="metrics",
            allowed=f"scores has {name_list(known)}",
        )
    return chosen


def _column_of(name: str, known: list[str]) -> str:
    """Return the column of a metric that may be asked for by another tool's name."""
    if name in known or not isinstance(name, str):
        return name
    try:
        label = parse_label(name).text
    except DataError:
        return name
    return label if label in known else name


def score_rows(scores: pd.DataFrame, chosen: list[str]) -> pd.DataFrame:
    """Return a scores frame with query ids as a column, and these metric columns as float64."""
    rows = scores if "query_id" in scores else scores.reset_index()
    keys = ("run_id", "query_id", "state", "level")
    missing = [name for name in keys if name not in rows]
    if missing:
        raise DataError(f"no {', '.join(missing)}", field="scores", allowed="a frame of rs.score")
    columns = {name: rows[name].reset_index(drop=True) for name in keys}
    # Without copies: there may be a hundred columns.
    values = {
        name: (
            rows[name].to_numpy()
            if rows[name].dtype == np.float64
            else rows[name].to_numpy("float64", na_value=np.nan)
        )
        for name in chosen
    }
    return pd.DataFrame(columns | values, copy=False)
