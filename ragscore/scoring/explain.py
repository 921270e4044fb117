"""Why a query has no value of a metric: one state per row and metric, from the facts of `Rows`.

`n_expected` of a summary counts the states, so means and reasons can't disagree.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import categorical
from ragscore.frames.kinds import FAILED
from ragscore.frames.typing import Codes, Flags
from ragscore.scoring.metrics import Label, MetricTable
from ragscore.scoring.metrics.declaration import recorded_words
from ragscore.scoring.metrics.needs import IRRELEVANT
from ragscore.scoring.rows import Rows

STATES = (
    "scored", "not_applicable", "refused", "system_error", "judge_failed", "undecided", "missing",
)  # fmt: skip
SCORED, NOT_APPLICABLE, REFUSED, SYSTEM_ERROR, JUDGE_FAILED, UNDECIDED, MISSING = range(7)
ELSEWHERE = "the query has targets, but none at this match level; match='per_query' may use them"
Cause = tuple[Flags, int, Any]  # flags, state, and the reason as one text or one per row


def explain(rows: Rows, labels: Iterable[Label], scores: pd.DataFrame) -> pd.DataFrame:
    """Return run_id, query_id, metric, value, state and reason of every cell of these columns."""
    held = scores.reset_index() if "query_id" not in scores else scores
    keys, place = held[["run_id", "query_id"]], rows.places(held)
    parts = [pd.DataFrame(columns=[*keys, "metric", "value", "state", "reason"])]
    for label in labels:
        values = held[label.text].to_numpy("float64")
        codes, reasons = states_of(rows, label, place, np.isnan(values))
        parts.append(keys.assign(
            metric=label.text, value=values, state=categorical(codes, STATES),
            reason=pd.array(reasons, dtype="str"),
        ))  # fmt: skip
    return pd.concat(parts[1:] or parts, ignore_index=True).astype({"metric": "str"})


def expected(
    scores: pd.DataFrame, names: Iterable[str], table: MetricTable, rows: Rows | None
) -> Iterator[Flags]:
    """Yield for each metric flags of the rows of scores of which a value was expected.

    They have one, or a failure is why they don't: any but the state `not_applicable`.
    """
    place = None if rows is None else rows.places(scores)
    for name in names:
        is_nan = scores[name].isna().to_numpy()
        if rows is None or place is None:
            yield ~is_nan | scores["state"].isin(["failed", "missing"]).to_numpy(dtype=bool)
        else:
            yield states_of(rows, table.label_of(name), place, is_nan)[0] != NOT_APPLICABLE


def states_of(rows: Rows, label: Label, place: Codes, is_nan: Flags) -> tuple[Codes, Any]:
    """Return the state of every row of scores, a place in STATES, and its reason in words.

    `place` is the row of each of them.
    """
    nothing = label.metric.nan_when if label.metric.family == "own" else "nothing to measure"
    codes, is_open = np.where(is_nan, NOT_APPLICABLE, SCORED), is_nan.copy()
    reasons = np.where(is_nan, nothing, "").astype(object)
    if not is_nan.any():
        return codes, reasons
    for flags, state, reason in _causes(rows, label):  # the first that holds counts
        holds = is_open & flags[place]
        codes[holds] = state
        reasons[holds] = reason if isinstance(reason, str) else reason[place[holds]]
        is_open &= ~holds
        if not is_open.any():
            break  # what other causes there may be isn't asked
    return codes, reasons


def _causes(rows: Rows, label: Label) -> Iterator[Cause]:
    """Give the causes of a missing value, flags of all rows each."""
    metric, everywhere = label.metric, np.ones(rows.n, dtype=bool)
    criterion = "nuggets" if metric.name.startswith("nugget_") else metric.name
    judged = rows.verdicts
    judged = judged[(judged["criterion"].eq(criterion) | (metric.name == FAILED)).to_numpy()]
    is_judged = rows.count(judged["row"].to_numpy()) > 0
    yield rows.query < 0, NOT_APPLICABLE, "no golden query"
    if metric.family == "own" and metric.compute is None:
        yield ~rows.asked, MISSING, "no response"
        yield rows.failed, SYSTEM_ERROR, rows.error_words
        if len(judged):
            yield from _judged_causes(rows, judged)
            yield rows.count(rows.verdicts["row"].to_numpy()) == 0, MISSING, "no judgment recorded"
        return
    excused = rows.should_refuse & (metric.family not in ("success", "refusals", "operations"))
    yield excused, NOT_APPLICABLE, "the query should be refused"
    for need in metric.needs:
        lacks = ~rows.of_query(rows.meets(need, label.level or ""))
        if label.level is None and need != IRRELEVANT and lacks.any():
            is_elsewhere = rows.of_query(need.anywhere(rows.of_hits))
            yield lacks & is_elsewhere, UNDECIDED, ELSEWHERE
        yield lacks, NOT_APPLICABLE, f"the query has no {need.lacking}"
    if metric.family in ("ranking", "success"):
        yield rows.has_outcome, NOT_APPLICABLE, "its outcome is recorded, but no hits"
    frame, _, column = metric.reads.partition(".")
    recorded = {
        "responses": rows.has(column) | (rows.blank & (column == "refused")),
        "citations": rows.has("answer"), "hits": rows.n_calls > 0, "judgments": is_judged,
    }  # fmt: skip
    held, words = recorded.get(frame, everywhere), recorded_words(metric.reads)
    in_run = rows.records_citations if metric.reads == "citations" else rows.of_runs_with(held)
    # nothing may have finished to record it of
    in_run = in_run | ~rows.of_runs_with(rows.asked & ~rows.failed)
    yield ~in_run, NOT_APPLICABLE, f"the run records no {words}"
    yield ~rows.asked, MISSING, "no response"
    if metric.family in ("operations", "scope"):
        yield rows.failed, NOT_APPLICABLE, "the query failed; only finished ones are measured"
    yield rows.failed, SYSTEM_ERROR, rows.error_words
    if metric.family in ("answers", "citations", "judged") and metric.where != "answered":
        yield rows.refused == 1, REFUSED, "the system refused"
    if metric.reads == "judgments.value":
        yield from _judged_causes(rows, judged)
    yield ~held, MISSING, f"no {words} recorded"
    if metric.where == "grounded":
        yield ~rows.grounded, NOT_APPLICABLE, "the answer is not grounded"
    if metric.family == "citations":
        yield rows.cited.count(rows.cited.rows) == 0, NOT_APPLICABLE, "nothing cited"
        yield everywhere, NOT_APPLICABLE, "the citations lack the ids that targets are matched by"


def _judged_causes(rows: Rows, judged: pd.DataFrame) -> Iterator[Cause]:
    """Give the causes that lie in the judgments of a criterion."""
    n, n_failed = (rows.count(one["row"].to_numpy()) for one in (judged, judged[judged["failed"]]))
    texts = [f"{some} of {every} judgments failed" for some, every in zip(n_failed, n, strict=True)]
    yield n_failed > 0, JUDGE_FAILED, np.array(texts)
    yield n > 0, NOT_APPLICABLE, "the judge found nothing to measure"
