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
    millis = (
        time.time_ns() // 1_000_000
        if occurred_at is None
        else round(occurred_at.timestamp() * 1000)
    )
    lines = []
    for conversation, payload in _events(table, conversation_id, tolerances or {}, declared):
        event = {
            "version": VERSION,
            "occurred_at_millis": millis,
            "tick": next(_TICKS),
            "conversation_id": conversation,
        }
        event |= {name: value for name, value in payload.items() if value is not None}
        lines.append(json.dumps(event, ensure_ascii=False, allow_nan=False))
    _append(Path(path), lines)
    return len(lines)


def _events(
    table: pd.DataFrame,
    conversation_id: str | None,
    tolerances: Mapping[str, float],
    declared: MetricTable,
) -> list[tuple[str, dict[str, Any]]]:
    """Return the conversation and the payload of each event."""
    if {"run_id", "metric", "mean", "n"} <= set(table.columns):
        slices = list(table.columns[1 : list(table.columns).index("metric")])
        return [
            (conversation_id or str(row["run_id"]), _report(row, slices))
            for row in records_of(table)
        ]
    if not {"metric", "baseline", "candidate", "delta"} <= set(table.columns):
        raise DataError(
            f"found the columns {', '.join(map(str, table.columns))}",
            field="table",
            allowed="what ev.summary returns, or the deltas of a comparison",
        )
    if not conversation_id:
        raise DataError(
            "deltas belong to no run in particular", field="conversation_id", allowed="a text"
        )
    return [(conversation_id, _diff(row, tolerances, declared)) for row in records_of(table)]


def _report(row: dict[str, Any], slices: list[str]) -> dict[str, Any]:
    low, high = row.get("low"), row.get("high")
    payload = {
        "kind": REPORT,
        "metric": row["metric"],
        "n": int(row["n"]),
        "mean": row["mean"],
        "ci_lower": low,
        "ci_upper": high,
        "ci_level": 0.95 if low is not None and high is not None else None,
        "run_id": str(row["run_id"]),
    }
    return payload | ({"slice": {name: row[name] for name in slices}} if slices else {})


def _diff(
    row: dict[str, Any], tolerances: Mapping[str, float], declared: MetricTable
) -> dict[str, Any]:
    delta, tolerance = row["delta"], tolerances.get(row["metric"])
    regressed = False
    if tolerance is not None and delta is not None:
        worse = delta if declared.describe(row["metric"]).better == "lower" else -delta
        regressed = worse > max(tolerance, 0.0) + SLACK
    return {
        "kind": DIFF,
        "metric": row["metric"],
        "current_mean": row["candidate"],
        "baseline_mean": row["baseline"],
        "delta": delta,
        "regressed": regressed,
    }


def _append(file: Path, lines: list[str]) -> None:
    """Append the lines in one write, so that lines of several writers never mix.

    An unfinished last line is ended first.
    """
    if not lines:
        return
    with file.open("ab+") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(size - 1, 0))
        unfinished = size > 0 and log.read(1) != b"\n"
        log.write((("\n" if unfinished else "") + "\n".join(lines) + "\n").encode())
