"""A run's `metrics.json` as a chatbot's harness writes it, from our own scores."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.analysis.operations import ALL_TYPES, error_report, indexing_report
from ragscore.frames.data import DataError, Golden, Results
from ragscore.io.written import check_one_run, write_json
from ragscore.scoring.harness import aggregate_rows, counted_rows, ks_of
from ragscore.scoring.matching import lookup
from ragscore.scoring.profiles import METRICS_JSON, Profile, find_profile
from ragscore.scoring.summary import NO_VALUE, slices

NOT_HASHED = "eval_set_commit_hash"


def write_metrics_json(
    results: Results, golden: Golden, path: str | Path, *, profile: str | Profile = METRICS_JSON
) -> Path:
    """Write one run's scores as `metrics.json` in the layout of a chatbot's harness.

    Names and values are those of `rs.aggregate` with that harness's profile, so that they can be
    compared with files that it wrote: questions to refuse count 0 in the means of retrieval, for
    one. Added are the costs of the judges, the same means by tag and by category, how many tests
    there are, and the share of documents that have a chunk by type of document, where
    `results.chunks` and `results.documents` tell it.

    Parameters
    ----------
    results
        Exactly one run.
    path
        A file that ends in .json, or a folder.
    profile
        Whose means; `ragscore.scoring.profiles` has ours. With
        `dataclasses.replace(PROFILES["chatbot"], over_all_rows=(), policies={"match": "anchor"})`
        they are taken over the queries to which a metric applies.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        `results` holds no run or more than one, or what `rs.aggregate` refuses.
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
    """What identifies a config there.

    16 hexadecimal digits of the SHA-256 of its JSON, keys sorted, without the hash of the golden
    set.
    """
    hashed = {name: value for name, value in config.items() if name != NOT_HASHED}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()[:16]


def _aggregates(results: Results, golden: Golden, profile: Profile) -> dict[str, Any]:
    run_id, k = next(iter(ks_of(results).items()))
    rows = counted_rows(results, golden, profile)[run_id]
    errors = error_report(results, golden).iloc[0]
    asked = golden.queries[
        lookup(golden.queries["query_id"], pd.Index(results.responses["query_id"].unique())) >= 0
    ]
    means = aggregate_rows(rows, profile, k)
    if covered := _coverage_by_type(results):
        means.setdefault("operational_metrics", {})["coverage_by_doc_type"] = covered
    return {
        **means,
        "cost": {"judge_total_tokens": _plain(errors["judge_tokens"]),
        "judge_total_usd": _plain(errors["judge_cost_usd"])},
        **{name: _by(rows, golden, by, profile, k) for name,
        by in (("by_tag", "tag"), ("by_category", "category"))},
        "total_tests": len(results.responses), "answerable_tests": int(asked["answerable"].sum()),
        "unanswerable_tests": int(asked["answerable"].eq(False).sum()),
    }  # fmt: skip


def _coverage_by_type(results: Results) -> dict[str, float]:
    """Share of the documents of each type that have a chunk, where the documents are known."""
    if results.chunks is None or results.documents is None:
        return {}
    by_type = indexing_report(results)
    known = by_type[(by_type["doc_type"] != ALL_TYPES) & by_type["coverage"].notna()]
    return {
        str(doc_type): float(share)
        for doc_type, share in zip(known["doc_type"], known["coverage"], strict=True)
    }


def _by(rows: pd.DataFrame, golden: Golden, by: str, profile: Profile, k: int) -> dict[str, Any]:
    """The means of each slice, with its number of tests.

    Nothing where the golden set has no such slices.
    """
    if by not in golden.queries.columns and by not in set(golden.tags["kind"]):
        return {}
    sliced = slices(golden, by)
    found: dict[str, Any] = {}
    for name, part in sliced[sliced[by] != NO_VALUE].groupby(by):
        here = rows[lookup(rows.index.to_series(), pd.Index(part["query_id"])) >= 0]
        if len(here):
            means = {
                key: value
                for key, value in aggregate_rows(here, profile, k).items()
                if not isinstance(value, dict)
            }
            found[str(name)] = {"total_tests": len(here)} | means
    return found


def _plain(value: Any) -> Any:
    """A number for JSON, NaN as null."""
    return None if value is None or pd.isna(value) or math.isinf(value) else float(value)


def _iso(time: Any) -> str | None:
    return None if time is None or pd.isna(time) else time.isoformat()
