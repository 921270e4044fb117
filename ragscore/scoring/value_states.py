"""Value states: for every (run, query, metric), scored, or why there is no value.

In: a scores frame, the golden set and, if they are given, the results behind the scores. Out: one
state per cell, told from causes and not from NaN alone; `n_expected` of a summary counts them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, categorical, check_type
from ragscore.frames.errors import name_list, names_of, nearest
from ragscore.frames.typing import Codes, Flags
from ragscore.scoring.applicability import Applicability, Availability, RowFacts
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations, Label, Metric, parse_label
from ragscore.scoring.metrics.needs import texts_only

STATES = (
    "scored", "not_applicable", "refused", "system_error", "judge_failed", "undecided", "missing",
    "unexplained",
)  # fmt: skip
NOT_EXPECTED = ("not_applicable", "unexplained")
FIXED_COLUMNS = ("run_id", "query_id", "state", "level", "created_at", "system")

ELSEWHERE = "the query has targets, but none at this match level; match='per_query' may use them"
NO_ORDER = "its calls have no common order; calls='first', 'last', 'each' or 'best' has one"
NO_BEST = (
    "its calls have no common order, and no best one without a declared direction;"
    " calls='first', 'last' or 'each' has a value"
)

Reasons = npt.NDArray[np.object_]
# texts of their own for each row are written only where they are read
Cause = tuple[Flags, str, str | Callable[[], Reasons]]


def explain(
    scores: pd.DataFrame,
    golden: Golden,
    metrics: list[str] | str | None = None,
    results: Results | None = None,
    declared: Declarations = NOTHING_DECLARED,
) -> pd.DataFrame:
    """Tell for every query why it counts in a metric's mean; see `Evaluation.explain`.

    Without results only failed and missing queries are known: why an answered one has no value of
    an answer metric stays `unexplained`.
    """
    check_type(golden, Golden, "golden", "a Golden, as rs.load_golden gives it")
    check_type(results, (Results, type(None)), "results", "a Results, as rs.load_results gives it")
    chosen = chosen_columns(scores, metrics)
    rows = score_rows(scores, chosen)
    states, parts = ValueStates(rows, golden, results, declared), []
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
        return pd.DataFrame(columns=["run_id", "query_id", "metric", "value", "state", "reason"])
    return pd.concat(parts, ignore_index=True)


class ValueStates:
    """The state of each score row at one metric after another, all from the same facts."""

    def __init__(
        self,
        rows: pd.DataFrame,
        golden: Golden | None,
        results: Results | None = None,
        declared: Declarations = NOTHING_DECLARED,
    ) -> None:
        self.rows, self.facts, self.declared = rows, RowFacts(rows, results), declared
        self.applicability: Applicability | None = None
        self.should_refuse = self.texts_only = np.zeros(len(rows), dtype=bool)
        if golden is not None:
            self.applicability = Applicability(golden, rows)
            self.should_refuse = self.applicability.by_query(self.applicability.should_refuse)
            self.texts_only = self.applicability.by_query(texts_only(golden))

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
                own: Any = (
                    (0, [reason]) if isinstance(reason, str) else pd.factorize(reason()[here])
                )
                codes[here], reasons[here] = STATES.index(state), own[0] + len(texts)
                texts += list(own[1])
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
        label = self.declared.label_of(name)
        yield from self._golden_causes(label, is_nan)
        yield from self._run_causes(label, is_nan)
        yield ~is_nan, "scored", ""
        yield from self._last_causes(label)

    def _golden_causes(self, label: Label, is_nan: Flags) -> Iterator[Cause]:
        """Give why a metric doesn't apply to a query. A value that a policy gave still counts."""
        extra, metric = self.facts.extra & is_nan, label.metric
        yield extra, "not_applicable", "no golden query"
        if (known := self.applicability) is None:
            return
        open_ = is_nan & ~self.facts.extra
        excused = self.should_refuse & metric.excuses
        if excused.any():
            off = open_ & ~known.of_rows(label)
            yield off & excused, "not_applicable", "the query should be refused"
        for need in metric.golden_needs:
            lacks = open_ & ~known.has(need, label.level)
            if lacks.any() and need.is_matched and label.level is None:
                yield lacks & known.has_elsewhere(need), "undecided", ELSEWHERE
            yield lacks, "not_applicable", need.reason

    def _run_causes(self, label: Label, is_nan: Flags) -> Iterator[Cause]:
        """Give what the run or the system did, in the order in which it prevents a value."""
        facts, metric = self.facts, label.metric
        recorded = self._recorded(label.metric)
        for reads, one in recorded:
            yield is_nan & reads & ~one.in_run, "not_applicable", f"the run records no {one.what}"
        yield facts.missing, "missing", "no response"
        if metric.on_failure == "left_out":
            yield facts.failed, "not_applicable", "the query failed, and finished ones are measured"
        elif metric.on_failure == "lost":
            yield facts.failed, "system_error", facts.errors
        if metric.ends_at_refusal:
            if metric.excuses:  # else the text of a refusal that is due is judged
                due = facts.refused & self.should_refuse & is_nan
                yield due, "not_applicable", "the system refused, as it should"
            yield facts.refused & ~self.should_refuse, "refused", "the system refused"
        if metric.criterion is not None:
            yield from _judge_causes(facts, metric.criterion, is_nan)
        for reads, one in recorded:
            yield is_nan & reads & ~one.here, "missing", f"no {one.what} recorded"
        if metric.family == "own" and facts.is_stored(label.text):
            yield from _judge_causes(facts, label.text, is_nan)
            yield is_nan & ~facts.with_stored, "missing", "no score stored"
        if facts.results is None:
            return
        if label.is_ranking and not metric.of_calls:
            reason = NO_ORDER if metric.better in ("higher", "lower") else NO_BEST
            yield is_nan & (facts.n_calls > 1), "not_applicable", reason
        for gap in metric.gaps:
            yield is_nan & gap.holds(facts), "not_applicable", gap.text
        if metric.reads_matches:
            yield is_nan & (facts.n_cut > 0), "undecided", partial(_cut_texts, facts)
        if metric.otherwise:
            yield is_nan, "not_applicable", metric.otherwise

    def _recorded(self, metric: Metric) -> list[tuple[Flags, Availability]]:
        """List what a run must record so that these rows have a value; nothing but hits: none."""
        everywhere = np.ones(len(self.rows), dtype=bool)
        wanted = metric.partly or (metric.recorded,)
        return [
            (need.rows(self) if need.rows is not None else everywhere, one)
            for need in wanted
            if need is not None and (one := self.facts.has_recorded(need)) is not None
        ]

    def _last_causes(self, label: Label) -> Iterator[Cause]:
        """Give what NaN means where no cause is known.

        Cut texts at a ranking metric, nothing at a column of your own.
        """
        everywhere = np.ones(len(self.rows), dtype=bool)
        if label.metric.family == "own":
            yield everywhere, "not_applicable", NOTHING_DECLARED.describe(label.text).nan_when
        knows_golden_only = self.applicability is not None and self.facts.results is None
        if label.is_ranking and not label.metric.gaps and knows_golden_only:
            yield everywhere, "undecided", "hits can't be judged on cut text"


def _judge_causes(facts: RowFacts, name: str, is_nan: Flags) -> list[Cause]:
    n_judged, n_failed = facts.judged(name)

    def texts() -> Reasons:
        counts = zip(n_failed, n_judged, strict=True)
        return np.array([f"{failed} of {n} judgments failed" for failed, n in counts], dtype=object)

    return [
        (is_nan & (n_failed > 0), "judge_failed", texts),
        (is_nan & (n_judged > 0), "not_applicable", "the judge found nothing to measure"),
    ]


def _cut_texts(facts: RowFacts) -> Reasons:
    # few distinct counts: a text for each, not for each row
    counts, place = np.unique(facts.n_cut, return_inverse=True)
    return np.array([f"{n} hits have cut text" for n in counts], dtype=object)[place]


def label_of(column: str) -> Label:
    """Return the label behind a column of scores; a column of your own is its own name."""
    return NOTHING_DECLARED.label_of(column)


def metric_columns(scores: pd.DataFrame) -> list[str]:
    """Return the metric columns of a scores frame, with columns of your own that hold numbers."""
    return [
        name
        for name, dtype in zip(scores.columns, scores.dtypes, strict=True)
        if name not in FIXED_COLUMNS and pd.api.types.is_numeric_dtype(dtype)
    ]


def chosen_columns(scores: pd.DataFrame, metrics: list[str] | str | None) -> list[str]:
    """Return the metric columns asked for, each once; all of them by default."""
    check_type(scores, pd.DataFrame, "scores")
    known = metric_columns(scores)
    if metrics is None:
        return known
    chosen = list(dict.fromkeys(column_of(name, known) for name in names_of(metrics, "metrics")))
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


def column_of(name: str, known: list[str]) -> str:
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
