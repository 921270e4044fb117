"""A run's `metrics.json` as a chatbot's harness writes it, from our own scores."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames import DataError, Golden, Results
from ragscore.load import write_json
from ragscore.operations import error_report, latency_report
from ragscore.score import score
from ragscore.summary import NO_VALUE, slices

JUDGED = {"groundedness_avg": "groundedness", "correctness_avg": "correctness"}
NOT_HASHED = "eval_set_commit_hash"


def write_metrics_json(results: Results, golden: Golden, path: str | Path, *, method: str = "linear") -> Path:
    """Write one run's scores as `metrics.json` in the layout of a chatbot's harness.

    The names are that harness's, the values ours: a metric's mean is over the queries to which it applies, null if there
    is none; failed queries count in the error rates. `recall_at_k_avg` is `hit@k`, at the run's own k (5 if it states none).

    Parameters
    ----------
    results
        Exactly one run.
    path
        A file that ends in .json, or a folder.
    method
        Of the latency's percentiles, as in `rs.latency_report`.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        `results` holds no run or more than one.
    """
    if len(results.runs) != 1:
        raise DataError(f"found {len(results.runs)} runs", field="results", allowed="exactly one; choose it with results.select([name])")
    file = Path(path) if str(path).endswith(".json") else Path(path) / "metrics.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    run = results.runs.iloc[0]
    config = json.loads(run["config"]) if isinstance(run.get("config"), str) else None
    content: dict[str, Any] = {
        "run_id": str(run["run_id"]),
        "timestamp": _iso(run.get("created_at")),
        "aggregate_metrics": _aggregates(results, golden, method),
    }
    if isinstance(config, dict):
        content |= {"config_hash": config_hash(config), NOT_HASHED: config.get(NOT_HASHED)}
    write_json(file, content)
    return file


def config_hash(config: dict[str, Any]) -> str:
    """What identifies a config there: 16 hexadecimal digits of the SHA-256 of its JSON, keys sorted, without the hash of the golden set."""
    hashed = {name: value for name, value in config.items() if name != NOT_HASHED}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()[:16]


def _aggregates(results: Results, golden: Golden, method: str) -> dict[str, Any]:
    values = _values(results, golden)
    errors = error_report(results, golden).iloc[0]
    latency: Any = latency_report(results, method=method, errors="include").iloc[0] if "elapsed_ms" in results.responses else {}
    of_golden = golden.queries[golden.queries["query_id"].isin(results.responses["query_id"])]
    return {
        "operational_metrics": {name: _plain(errors[name]) for name in ("error_rate", "timeout_rate", "empty_response_rate")},
        "latency": {f"{name}_ms": _plain(latency.get(name)) for name in ("p50", "p95", "total")},
        **_means(values),
        "cost": {"judge_total_tokens": _plain(errors["judge_tokens"]), "judge_total_usd": _plain(errors["judge_cost_usd"])},
        **{name: _by(values, golden, by) for name, by in (("by_tag", "tag"), ("by_category", "category"))},
        "total_tests": len(results.responses), "answerable_tests": int(of_golden["answerable"].sum()),
        "unanswerable_tests": int(of_golden["answerable"].eq(False).sum()),
    }  # fmt: skip


def _values(results: Results, golden: Golden) -> pd.DataFrame:
    """One row per query asked (index query_id), one column per metric of that harness."""
    k = int(results.runs["k"].iloc[0]) if "k" in results.runs and not pd.isna(results.runs["k"].iloc[0]) else 5
    labels = {
        "recall_at_k_avg": f"hit@{k}", "recall_all_at_k_avg": f"recall_all@{k}", "mrr_avg": f"mrr@{k}", "precision_at_k_avg": f"precision@{k}",
        "scope_miss_rate": "scope_miss_proxy", "attribution_hit_rate": "attribution_hit", "abstention_accuracy": "refusal_correct",
        "hallucination_rate_unanswerable": "hallucinated",
    }  # fmt: skip
    scores = score(results, golden, list(labels.values()))
    values = scores[scores["state"] != "missing"][list(labels.values())].set_axis(list(labels), axis=1)
    for name, criterion in JUDGED.items():
        values[name] = _judged(results, criterion).reindex(values.index)
    return values


def _judged(results: Results, criterion: str) -> pd.Series:
    if results.judgments is None:
        return pd.Series(dtype="float64")
    judged = results.judgments
    whole = judged[(judged["criterion"] == criterion) & (judged["item"] == "")]
    return whole.groupby("query_id")["value"].mean()


def _means(values: pd.DataFrame) -> dict[str, float | None]:
    return {str(name): _plain(mean) for name, mean in values.mean().items()}


def _by(values: pd.DataFrame, golden: Golden, by: str) -> dict[str, Any]:
    """The means of each slice, with its number of tests; nothing where the golden set has no such slices."""
    if by not in golden.queries.columns and by not in set(golden.tags["kind"]):
        return {}
    sliced = slices(golden, by)
    rows = values.rename_axis("query_id").reset_index().merge(sliced[sliced[by] != NO_VALUE], on="query_id")
    return {str(name): {"total_tests": len(part)} | _means(part[values.columns]) for name, part in rows.groupby(by)}


def _plain(value: Any) -> Any:
    """A number for JSON, NaN as null."""
    return None if value is None or pd.isna(value) or math.isinf(value) else float(value)


def _iso(time: Any) -> str | None:
    return None if time is None or pd.isna(time) else time.isoformat()
