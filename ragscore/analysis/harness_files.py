"""Our scores in the file format of another harness.

In: results and golden set. Out: a run's `metrics.json` as a chatbot's harness writes it.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.analysis.aggregates import aggregate, aggregate_rows, harness_of, rows_by_run
from ragscore.analysis.operations import indexed_types
from ragscore.frames.data import DataError, Golden, Results, empty
from ragscore.io.files import check_one_run, write_json
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
        The harness's profile; by default that of the evaluation. "chatbot" writes one run's
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

    Names and values are those of `aggregate` with that harness's profile, so that they can be
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
    """Return `aggregate_metrics`, and what stands beside it (`BESIDE` of the format)."""
    run_id, k = next(iter(k_of_runs(results.runs, harness.default_k).items()))
    rows = rows_by_run(results, golden, profile, harness)[run_id]
    means = aggregate_rows(rows, harness, k)
    if results.chunks is not None and results.documents is not None:
        by_type = indexed_types(results).dropna(subset=["coverage"])
        if coverage := dict(zip(by_type["doc_type"], by_type["coverage"].tolist(), strict=True)):
            means.setdefault("operational_metrics", {})["coverage_by_doc_type"] = coverage
    judgments = results.judgments if results.judgments is not None else empty("judgments")
    tokens, usd = (
        judgments[name].sum(min_count=1) if name in judgments else None
        for name in ("tokens", "cost_usd")
    )
    asked = golden.queries[golden.queries["query_id"].isin(results.responses["query_id"])]
    cost = {"judge_total_tokens": _plain(tokens), "judge_total_usd": _plain(usd)}
    return {
        "aggregate_metrics": means | {"cost": cost},
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


def _plain(value: Any) -> float | None:
    """Return a number for JSON, NaN as null."""
    return None if value is None or pd.isna(value) or math.isinf(value) else float(value)
