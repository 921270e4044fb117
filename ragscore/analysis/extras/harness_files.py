"""Our scores in the files of other tools: a harness's `metrics.json`, an event log.

In: results and golden set, or a table of ours. Out: files.
"""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.analysis.aggregates import aggregate, aggregate_rows, harness_of, rows_by_run
from ragscore.analysis.extras.runs import indexed_types
from ragscore.frames.data import DataError, Golden, Results, empty, records_of
from ragscore.io.files import check_one_run, write_json
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.readings import (
    HARNESSES,
    Harness,
    Reading,
    find_reading,
    k_of_runs,
)
from ragscore.scoring.summary import NO_VALUE, slices

NOT_HASHED = "eval_set_commit_hash"


def save_means(
    ev: Any,
    path: str | Path,
    format: str | Reading | None = None,
    *,
    agreement: pd.DataFrame | None = None,
) -> Path:
    """Write each run's means as another harness would have reported them.

    Parameters
    ----------
    path
        A file; for "chatbot" one that ends in .json, or a folder.
    format
        The harness's profile; by default the evaluation's. "chatbot" writes one run's
        `metrics.json`, the others {run_id: its JSON object}, rounded as that harness rounds; null
        where it writes null.
    agreement
        For "chatbot": of the judge with a second one (`judged.spot_check`), written as
        `judge_reliability`.

    Returns
    -------
    The path that was written.

    Raises
    ------
    DataError
        An unknown profile, or none; for "chatbot" more than one run.

    Examples
    --------
    >>> ev.save("metrics.json", format="trec")
    """
    profile = ev._profile if format is None else find_reading(format)
    if profile is None or profile.name not in HARNESSES:
        allowed = f"one of {', '.join(HARNESSES)}"
        raise DataError("found no harness", field="format", allowed=allowed)
    if profile.name != "chatbot":
        return write_json(path, aggregate(ev.results, ev.golden, profile), indent=2)
    return write_metrics_json(ev.results, ev.golden, path, profile=profile, agreement=agreement)


def write_metrics_json(
    results: Results,
    golden: Golden,
    path: str | Path,
    *,
    profile: str | Reading = "chatbot",
    agreement: pd.DataFrame | None = None,
) -> Path:
    """Write one run's scores as `metrics.json` in the layout of a chatbot's harness.

    Names and values are as in `aggregate` with that harness's profile, so that they can be
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
        The harness whose means are written; see `ragscore.scoring.readings`. A `Reading` of your
        own keeps the harness's name, such as `dataclasses.replace(READINGS["chatbot"], empty={})`.
    agreement
        Of the judge with a second one, for `judge_reliability`: the rate of disagreement over all
        criteria, and the number of answers.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        `results` holds no run or more than one, or what `aggregate` refuses.
    """
    check_one_run(results)
    file = Path(path) if str(path).endswith(".json") else Path(path) / "metrics.json"
    run = results.runs.iloc[0]
    config = json.loads(run["config"]) if isinstance(run.get("config"), str) else None
    content: dict[str, Any] = {
        "run_id": str(run["run_id"]),
        "timestamp": run["created_at"].isoformat() if pd.notna(run.get("created_at")) else None,
        **_aggregates(results, golden, find_reading(profile), harness_of(profile)),
    }
    if agreement is not None:
        n, disagreed = agreement["n"], agreement["n"] * agreement["disagreement"]
        rate = float(disagreed.sum() / n.sum())
        content["judge_reliability"] = {"disagreement_rate": rate, "spot_check_n": int(n.max())}
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


def _aggregates(
    results: Results, golden: Golden, profile: Reading, harness: Harness
) -> dict[str, Any]:
    """Return `aggregate_metrics`, and the parts beside it (`BESIDE` of the format)."""
    run_id, k = next(iter(k_of_runs(results.runs, harness.default_k).items()))
    rows = rows_by_run(results, golden, profile, harness)[run_id]
    means = aggregate_rows(rows, harness, k)
    if results.chunks is not None and results.documents is not None:
        by_type = indexed_types(results).dropna(subset=["coverage"])
        if coverage := dict(zip(by_type["doc_type"], by_type["coverage"].tolist(), strict=True)):
            means.setdefault("operational_metrics", {})["coverage_by_doc_type"] = coverage
    judgments = results.judgments if results.judgments is not None else empty("judgments")
    spent = judgments.reindex(columns=["tokens", "cost_usd"]).astype("float64").sum(min_count=1)
    spent = spent.astype("object").where(spent.notna(), None)  # null in JSON
    asked = golden.queries[golden.queries["query_id"].isin(results.responses["query_id"])]
    return {
        "aggregate_metrics": means
        | {"cost": {"judge_total_tokens": spent["tokens"], "judge_total_usd": spent["cost_usd"]}},
        "by_tag": _by_slice(rows, golden, "tag", harness, k),
        "by_category": _by_slice(rows, golden, "category", harness, k),
        "total_tests": len(results.responses),
        "answerable_tests": int(asked["answerable"].sum()),
        "unanswerable_tests": int(asked["answerable"].eq(False).sum()),
    }


def _by_slice(
    rows: pd.DataFrame, golden: Golden, by: str, harness: Harness, k: int | None
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
            means = aggregate_rows(part, harness, k)
            content[str(name)] = {"total_tests": len(part)} | {
                key: value for key, value in means.items() if not isinstance(value, dict)
            }
    return content


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
        `regressed` is true. Metrics without a tolerance never regress; of columns of your own,
        higher is better.
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
    at = time.time() if occurred_at is None else occurred_at.timestamp()
    events = [
        {"version": VERSION, "occurred_at_millis": round(at * 1000), "tick": next(_TICKS)} | event
        for event in _events(table, conversation_id, tolerances or {})
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
    table: pd.DataFrame, conversation_id: str | None, tolerances: Mapping[str, float]
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
    lower = {one for one in table["metric"] if TABLE.describe(one).better == "lower"}
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
