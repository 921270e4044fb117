"""Our scores in the file formats of other harnesses.

In: results and golden set, a summary, or the deltas of a comparison. Out: a run's `metrics.json` as
a chatbot's harness writes it; an event log with one JSON line per metric, appended to a file that a
collector follows.
"""

import hashlib
import json
import math
import os
import time
from collections.abc import Mapping
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.analysis.operations import ALL_TYPES, errors, indexing
from ragscore.frames.data import DataError, Golden, Results, records_of
from ragscore.io.output import check_one_run, write_json
from ragscore.scoring.metrics import describe
from ragscore.scoring.profile_aggregates import aggregate_rows, k_of_runs, scores_by_run
from ragscore.scoring.profiles import METRICS_JSON, Profile, find_profile
from ragscore.scoring.summary import NO_VALUE, slices

NOT_HASHED = "eval_set_commit_hash"
VERSION = 1  # of the event log's format
REPORT, DIFF = "eval.retrieval_report", "eval.regression_diff"
SLACK = 1e-9  # the last bit of a difference is no regression
_TICKS = count()


def write_metrics_json(
    results: Results, golden: Golden, path: str | Path, *, profile: str | Profile = METRICS_JSON
) -> Path:
    """Write one run's scores as `metrics.json` in the layout of a chatbot's harness.

    Names and values are those of `ev.to_profile` with that harness's profile, so that they can be
    compared with files that it wrote: for example, queries to refuse count 0 in the means of
    retrieval. Added are the costs of the judges, the same means by tag and by category, and the
    number of tests; with `results.chunks` and `results.documents` also the share of documents that
    have a chunk, by type of document.

    Parameters
    ----------
    results
        Exactly one run.
    path
        A file that ends in .json, or a folder.
    profile
        The harness whose means are written; see `ragscore.scoring.profiles`. With
        `dataclasses.replace(PROFILES["chatbot"], over_all_rows=(), policies={"match": "anchor"})`
        they are taken over the queries to which a metric applies.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        `results` holds no run or more than one, or what `ev.to_profile` refuses.
    """
    check_one_run(results)
    chosen = find_profile(profile)
    if chosen is None:
        raise DataError(
            "no profile given", field="profile", allowed="the name of a profile, or a Profile"
        )
    file = Path(path) if str(path).endswith(".json") else Path(path) / "metrics.json"
    run = results.runs.iloc[0]
    config = json.loads(run["config"]) if isinstance(run.get("config"), str) else None
    content: dict[str, Any] = {
        "run_id": str(run["run_id"]),
        "timestamp": _iso(run.get("created_at")),
        "aggregate_metrics": _aggregates(results, golden, chosen),
    }
    if isinstance(config, dict):
        content |= {"config_hash": config_hash(config), NOT_HASHED: config.get(NOT_HASHED)}
    return write_json(file, content, indent=2)


def config_hash(config: dict[str, Any]) -> str:
    """Return the hash by which that harness identifies a config.

    The first 16 hexadecimal digits of the SHA-256 of its JSON, keys sorted, without the hash of the
    golden set.
    """
    hashed = {name: value for name, value in config.items() if name != NOT_HASHED}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()[:16]


def _aggregates(results: Results, golden: Golden, profile: Profile) -> dict[str, Any]:
    """Return the content of `aggregate_metrics`."""
    run_id, k = next(iter(k_of_runs(results).items()))
    rows = scores_by_run(results, golden, profile)[run_id]
    means = aggregate_rows(rows, profile, k)
    if results.chunks is not None and results.documents is not None:
        by_type = indexing(results).dropna(subset=["coverage"])
        by_type = by_type[by_type["doc_type"] != ALL_TYPES]
        if coverage := dict(zip(by_type["doc_type"], by_type["coverage"].tolist(), strict=True)):
            means.setdefault("operational_metrics", {})["coverage_by_doc_type"] = coverage
    counts = errors(results, golden).iloc[0]
    asked = golden.queries[golden.queries["query_id"].isin(results.responses["query_id"])]
    return {
        **means,
        "cost": {
            "judge_total_tokens": _plain(counts["judge_tokens"]),
            "judge_total_usd": _plain(counts["judge_cost_usd"]),
        },
        "by_tag": _by_slice(rows, golden, "tag", profile, k),
        "by_category": _by_slice(rows, golden, "category", profile, k),
        "total_tests": len(results.responses),
        "answerable_tests": int(asked["answerable"].sum()),
        "unanswerable_tests": int(asked["answerable"].eq(False).sum()),
    }


def _by_slice(
    rows: pd.DataFrame, golden: Golden, by: str, profile: Profile, k: int
) -> dict[str, Any]:
    """Return the means of each slice, with its number of tests.

    Empty where the golden set has no such slices.
    """
    if by not in golden.queries.columns and by not in set(golden.tags["kind"]):
        return {}
    sliced = slices(golden, by)
    content: dict[str, Any] = {}
    for name, members in sliced[sliced[by] != NO_VALUE].groupby(by):
        part = rows[rows.index.isin(members["query_id"])]
        if len(part):
            means = aggregate_rows(part, profile, k)
            content[str(name)] = {"total_tests": len(part)} | {
                key: value for key, value in means.items() if not isinstance(value, dict)
            }
    return content


def _plain(value: Any) -> float | None:
    """Return a number for JSON, NaN as null."""
    return None if value is None or pd.isna(value) or math.isinf(value) else float(value)


def _iso(time: Any) -> str | None:
    return None if time is None or pd.isna(time) else time.isoformat()


def write_event_log(
    table: pd.DataFrame,
    path: str | os.PathLike[str],
    *,
    conversation_id: str | None = None,
    tolerances: Mapping[str, float] | None = None,
    occurred_at: datetime | None = None,
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
    for conversation, payload in _events(table, conversation_id, tolerances or {}):
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
    table: pd.DataFrame, conversation_id: str | None, tolerances: Mapping[str, float]
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
    return [(conversation_id, _diff(row, tolerances)) for row in records_of(table)]


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


def _diff(row: dict[str, Any], tolerances: Mapping[str, float]) -> dict[str, Any]:
    delta, tolerance = row["delta"], tolerances.get(row["metric"])
    regressed = False
    if tolerance is not None and delta is not None:
        worse = delta if describe(row["metric"]).better == "lower" else -delta
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
