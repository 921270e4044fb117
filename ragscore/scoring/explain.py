"""Why a query has no value of a metric: one state per row and metric, from the facts of `Rows`.

`n_expected` of a summary counts the states, so means and reasons can't disagree.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import categorical
from ragscore.frames.typing import Codes, Flags
from ragscore.scoring.metrics.declaration import Label, recorded_words
from ragscore.scoring.metrics.judged import FAILED
from ragscore.scoring.rows import Rows

STATES = (
    "scored", "not_applicable", "refused", "system_error", "judge_failed", "undecided", "missing",
)  # fmt: skip
SCORED, NOT_APPLICABLE, REFUSED, SYSTEM_ERROR, JUDGE_FAILED, UNDECIDED, MISSING = range(7)
ELSEWHERE = "the query has targets, but none at this match level; match='per_query' may use them"
Cause = tuple[Flags, int, Any]  # flags, state, and the reason as one text or one per row


def explain(rows: Rows | None, labels: Iterable[Label], scores: pd.DataFrame) -> pd.DataFrame:
    """Return run_id, query_id, metric, value, state and reason of every cell of these columns.

    Without rows, as of averages of repeats, it is only known which cells have a value.
    """
    held = scores.reset_index() if "query_id" not in scores else scores
    place, parts = None if rows is None else rows.places(held), []
    for label in labels:
        values = held[label.text].to_numpy("float64")
        is_nan = np.isnan(values)
        if rows is None or place is None:
            codes, reasons = (
                np.where(is_nan, NOT_APPLICABLE, SCORED),
                np.where(is_nan, "no value", ""),
            )
        else:
            codes, reasons = (
                one[place] for one in states_of(rows, label, in_rows(rows, place, is_nan))
            )
        part = {
            "run_id": held["run_id"].array, "query_id": held["query_id"].array,
            "metric": label.text, "value": values, "state": categorical(codes, STATES),
            "reason": pd.array(reasons, dtype="str"),
        }  # fmt: skip
        parts.append(pd.DataFrame(part))
    if not parts:
        return pd.DataFrame(columns=["run_id", "query_id", "metric", "value", "state", "reason"])
    return pd.concat(parts, ignore_index=True)


def in_rows(rows: Rows, place: Codes, is_nan: Flags) -> Flags:
    """Return flags of rows from those of a frame of scores; rows that it lacks have no value."""
    found = np.ones(rows.n, dtype=bool)
    found[place] = is_nan
    return found


def is_expected(rows: Rows, label: Label, is_nan: Flags) -> Flags:
    """Flag rows of which a value was expected: they have one, or a failure is why they don't."""
    if not is_nan.any():
        return ~is_nan
    causes = list(_causes(rows, label, is_nan))
    states = np.select([flags for flags, _, _ in causes], [state for _, state, _ in causes], 1)
    return ~is_nan | (states != NOT_APPLICABLE)


def states_of(rows: Rows, label: Label, is_nan: Flags) -> tuple[Codes, Any]:
    """Return the state of every row, a place in STATES, and its reason in words."""
    causes = list(_causes(rows, label, is_nan))
    holds = [is_nan & flags for flags, _, _ in causes]
    unmet = np.where(is_nan, NOT_APPLICABLE, SCORED)
    codes = np.select(holds, [np.int64(state) for _, state, _ in causes], unmet)
    first = np.select(holds, list(range(len(causes))), np.where(is_nan, -2, -1))
    nothing = label.metric.nan_when if label.metric.family == "own" else "nothing to measure"
    words = [reason if isinstance(reason, str) else "" for _, _, reason in causes]
    reasons = np.array([*words, nothing, ""], dtype=object)[first]
    for at, (_, _, reason) in enumerate(causes):
        if not isinstance(reason, str):
            reasons[first == at] = reason[first == at]
    return codes, reasons


def _causes(rows: Rows, label: Label, is_nan: Flags) -> Iterator[Cause]:
    """Give the causes of a missing value; the first that holds counts."""
    metric, everywhere = label.metric, np.ones(rows.n, dtype=bool)
    yield rows.query < 0, NOT_APPLICABLE, "no golden query"
    if metric.family == "own" and metric.compute is None:
        yield rows.state == 2, MISSING, "no response"
        yield rows.failed, SYSTEM_ERROR, rows.error_words
        judged = _judgments_of(rows, metric.name)
        if len(judged):
            yield from _judged_causes(rows, judged)
            yield rows.count(rows.verdicts["row"].to_numpy()) == 0, MISSING, "no judgment recorded"
        return
    excused = rows.should_refuse & (metric.family not in ("success", "refusals", "operations"))
    yield excused, NOT_APPLICABLE, "the query should be refused"
    for need in metric.needs:
        lacks = ~rows.of_query(rows.meets(need, label.level or ""))
        if label.level is None and lacks.any():
            is_elsewhere = rows.of_query(need.anywhere(rows.of_hits))
            yield lacks & is_elsewhere, UNDECIDED, ELSEWHERE
        yield lacks, NOT_APPLICABLE, f"the query has no {need.lacking}"
    held, words = _recorded(rows, metric.reads, metric.name), recorded_words(metric.reads)
    in_run = rows.records_citations if metric.reads == "citations" else rows.of_runs_with(held)
    in_run |= ~rows.of_runs_with(rows.asked & ~rows.failed)  # nothing finished to record it of
    yield ~in_run, NOT_APPLICABLE, f"the run records no {words}"
    yield ~rows.asked, MISSING, "no response"
    if metric.family in ("operations", "scope"):
        yield rows.failed, NOT_APPLICABLE, "the query failed, and finished ones are measured"
    yield rows.failed, SYSTEM_ERROR, rows.error_words
    if metric.family in ("answers", "citations", "judged") and metric.where != "answered":
        yield rows.refused == 1, REFUSED, "the system refused"
    if metric.reads == "judgments.value":
        yield from _judged_causes(rows, _judgments_of(rows, metric.name))
    yield ~held, MISSING, f"no {words} recorded"
    if metric.where == "grounded":
        yield ~rows.grounded, NOT_APPLICABLE, "the answer is not grounded"
    if metric.family == "citations":
        yield rows.cited.count(rows.cited.rows) == 0, NOT_APPLICABLE, "nothing cited"
        yield everywhere, NOT_APPLICABLE, "citations don't carry what targets are matched by"
    if metric.name.startswith("judged@"):
        yield rows.n_hits == 0, NOT_APPLICABLE, "no hit"
    if metric.name == "scope_miss_proxy":
        yield everywhere, NOT_APPLICABLE, "the folder mode is off or unknown"


def _judged_causes(rows: Rows, judged: pd.DataFrame) -> Iterator[Cause]:
    """Give the causes that lie in the judgments of a criterion."""
    row, has_failed = (judged[name].to_numpy() for name in ("row", "failed"))
    n, n_failed = rows.count(row), rows.count(row[has_failed])
    counts = zip(n_failed.tolist(), n.tolist(), strict=True)
    texts = np.array([f"{failed} of {of} judgments failed" for failed, of in counts])
    yield n_failed > 0, JUDGE_FAILED, texts
    yield n > 0, NOT_APPLICABLE, "the judge found nothing to measure"


def _recorded(rows: Rows, reads: str, name: str) -> Flags:
    """Flag rows of which what a metric reads is recorded."""
    frame, _, column = reads.partition(".")
    if frame == "judgments":
        return rows.count(_judgments_of(rows, name)["row"].to_numpy()) > 0
    if frame == "citations":
        return rows.has("answer")
    if frame == "responses":
        return rows.has(column) | (rows.blank & (column == "refused"))
    if frame == "hits":
        return rows.n_calls > 0
    return np.ones(rows.n, dtype=bool)


def _judgments_of(rows: Rows, name: str) -> pd.DataFrame:
    """Return the judgments that a metric is made of."""
    criterion = "nuggets" if name.startswith("nugget_") else name
    is_own = rows.verdicts["criterion"].eq(criterion).to_numpy(dtype=bool)
    return rows.verdicts if name == FAILED else rows.verdicts[is_own]
