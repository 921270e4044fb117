"""Event log: one JSON line per metric, appended to a file that a collector follows.

In: a summary, or the deltas of a comparison. Out: lines of JSON.
"""

import json
import os
import time
from collections.abc import Mapping
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, records_of
from ragscore.scoring.metrics import TABLE, MetricTable

VERSION = 1  # of the log's format
REPORT, DIFF = "eval.retrieval_report", "eval.regression_diff"
SLACK = 1e-9  # the last bit of a difference is no regression
_TICKS = count()


def event_log(
    table: pd.DataFrame,
    path: str | os.PathLike[str],
    *,
    conversation_id: str | None = None,
    tolerances: Mapping[str, float] | None = None,
    occurred_at: datetime | None = None,
    declared: MetricTable = TABLE,
) -> int:
    """Append metrics to an event log.

    A summary gives events of kind `eval.retrieval_report`: metric, n, mean, ci_lower, ci_upper,
    ci_level, run_id, and the slice if there is one. Deltas give `eval.regression_diff`: metric,
    current_mean, baseline_mean, delta, regressed. Unknown fields are left out. All lines of a call
    are appended in one write, after a line end if the file lacks one.

    Parameters
    ----------
    table
        From `ev.summary`, or `deltas` of `ev.compare`.
    path
        The log; its folder must exist.
    conversation_id
        Joins the events of one evaluation; by default the run's id. Deltas need one.
    tolerances
        Metric -> how much worse it may become (an absolute difference; below 0 counts as 0) before
        `regressed` is true. Metrics without a tolerance never regress.
    occurred_at
        The time of the events, with a time zone; by default now.
    declared
        What is known of columns of your own, as an evaluation has it.

    Returns
    -------
    The number of lines written. A metric without any value is written with n = 0 and no mean.

    Raises
    ------
    DataError
        The table is neither of the two, deltas come without a conversation_id, or the time has no
        zone.
    """
    if occurred_at is not None and occurred_at.tzinfo is None:
        raise DataError(f"found {occurred_at}", field="occurred_at", allowed="a time with its zone")
    at = time.time() if occurred_at is None else occurred_at.timestamp()
    events = [
        {"version": VERSION, "occurred_at_millis": round(at * 1000), "tick": next(_TICKS)} | event
        for event in _events(table, conversation_id, tolerances or {}, declared)
    ]
    lines = [json.dumps(
        {name: value for name, value in event.items() if value is not None},
        ensure_ascii=False, allow_nan=False,
    ) for event in events]  # fmt: skip
    if lines:
        # in one write, so that lines of several writers never mix
        with Path(path).open("ab+") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(size - 1, 0))
            is_unfinished = size > 0 and log.read(1) != b"\n"
            log.write(("\n" * is_unfinished + "\n".join(lines) + "\n").encode())
    return len(lines)


def _events(
    table: pd.DataFrame,
    conversation_id: str | None,
    tolerances: Mapping[str, float],
    declared: MetricTable,
) -> list[dict[str, Any]]:
    """Return the conversation and the payload of each event."""
    rows, columns = records_of(table), list(table.columns)
    if {"run_id", "metric", "mean", "n"} <= set(columns):
        slices = columns[1 : columns.index("metric")]
        return [
            {
                "conversation_id": conversation_id or str(row["run_id"]), "kind": REPORT,
                "metric": row["metric"], "n": int(row["n"]), "mean": row["mean"],
                "ci_lower": row.get("low"), "ci_upper": row.get("high"),
                "ci_level": None if None in (row.get("low"), row.get("high")) else 0.95,
                "run_id": str(row["run_id"]),
                "slice": {name: row[name] for name in slices} or None,
            }
            for row in rows
        ]  # fmt: skip
    if not {"metric", "baseline", "candidate", "delta"} <= set(columns):
        raise DataError(
            f"found the columns {', '.join(map(str, columns))}", field="table",
            allowed="what ev.summary returns, or the deltas of a comparison",
        )  # fmt: skip
    if not conversation_id:
        raise DataError(
            "deltas belong to no run in particular", field="conversation_id", allowed="a text"
        )
    lower = {one for one in table["metric"] if declared.describe(one).better == "lower"}
    return [
        {
            "conversation_id": conversation_id, "kind": DIFF, "metric": row["metric"],
            "current_mean": row["candidate"], "baseline_mean": row["baseline"],
            "delta": row["delta"],
            "regressed": row["metric"] in tolerances and row["delta"] is not None
            and row["delta"] * (1 if row["metric"] in lower else -1)
            > max(tolerances[row["metric"]], 0.0) + SLACK,
        }
        for row in rows
    ]  # fmt: skip
