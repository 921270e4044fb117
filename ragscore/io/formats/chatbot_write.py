"""`Results` -> a chatbot's run folder: the way back, so that loading and writing round-trip."""

import json
import math
from pathlib import Path
from typing import Any

from ragscore.frames.data import Results
from ragscore.io.formats.chatbot import CLAIMS, HIT_NUMBERS, JUDGED, RUN_LEVEL
from ragscore.io.values import present, unflatten
from ragscore.io.written import by_query, check_one_run, write_json, write_lines

FLAGS = ("scope_miss", "attribution_hit")  # stored metrics that are true or false there
_BY_QUERY = ("hits", "citations", "judgments", "reported")
Rows = dict[str, list[dict[str, Any]]]


def write_chatbot(results: Results, folder: str | Path) -> Path:
    """Write one run as a chatbot's run folder: `results.jsonl`, `config.json` and `metrics.json`.

    A run that was loaded from such a folder gives the same objects again, fields that we have no
    column for included; a field that is null there may be absent here, except in `config.json`.
    `metrics.json` holds the values that the run came with (`results.reported`);
    `rs.write_metrics_json` writes newly computed ones.

    Parameters
    ----------
    results
        Exactly one run (see `Results.select`).
    folder
        Created if it isn't there.

    Returns
    -------
    The folder.

    Raises
    ------
    DataError
        `results` holds no run or more than one.
    """
    check_one_run(results)
    place = Path(folder)
    rows: dict[str, Rows] = {
        name: by_query(frame) for name in _BY_QUERY if (frame := getattr(results, name)) is not None
    }
    write_lines(
        place / "results.jsonl",
        (_record(response, rows) for response in present(results.responses.drop(columns="run_id"))),
    )
    run = next(present(results.runs))
    if run.get("config", "null") != "null":
        write_json(place / "config.json", json.loads(run["config"]), indent=2)
    if metrics := _metrics(run, rows.get("reported", {}).get(RUN_LEVEL, [])):
        write_json(place / "metrics.json", metrics, indent=2)
    return place


def _own(row: dict[str, Any]) -> dict[str, Any]:
    """The leftover fields of a row, nested as they were."""
    return unflatten({name: value for name, value in row.items() if name.startswith("x_")})


def _record(response: dict[str, Any], rows: dict[str, Rows]) -> dict[str, Any]:
    query_id = response["query_id"]
    hits, citations, judgments, reported = (
        rows.get(name, {}).get(query_id, []) for name in _BY_QUERY
    )
    own = _own(response)
    record: dict[str, Any] = {"test_case_id": query_id} | _named(
        response, {"query": "question", "answer": "answer", "error": "error"}
    )
    record["references"] = [
        _named(row, {"path": "rel_path", "heading": "heading_path"}) | _own(row)
        for row in citations
    ]
    record["retrieved_chunks"] = [_chunk(row) for row in hits]
    if "scope" in response:
        record["scope"] = json.loads(response["scope"])
    latency = {
        name.removeprefix("latency_"): value
        for name, value in response.items()
        if name.startswith("latency_")
    }
    parts: dict[str, dict[str, Any]] = {
        "latency": _named(response, {"elapsed_ms": "total_ms"}) | latency,
        "abstention": _named(response, {"refused": "abstained"}),
        "retrieval_metrics": {row["metric"]: _stored(row) for row in reported},
        **{
            name: _judged([row for row in judgments if row["criterion"] == criterion])
            for name, criterion in JUDGED.items()
        },
        "cost": next(
            (
                _named(row, {"tokens": "judge_tokens", "cost_usd": "judge_cost_usd"})
                for row in judgments
                if "tokens" in row or "cost_usd" in row
            ),
            {},
        ),
    }
    for name, part in parts.items():
        if part or name in own:
            record[name] = part | own.pop(name, {})
    return record | own


def _named(row: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {name: row[column] for column, name in names.items() if column in row}


def _chunk(row: dict[str, Any]) -> dict[str, Any]:
    names = {"chunk_id": "chunk_id", "path": "rel_path", "heading": "heading_path", "rank": "rank"}
    return (
        _named(row, names)
        | _named(row, {column: name for name, column in HIT_NUMBERS.items()})
        | _named(row, {"text": "text"})
        | _own(row)
    )


def _stored(row: dict[str, Any]) -> Any:
    value = row.get("value")
    return bool(value) if value is not None and row["metric"] in FLAGS else value


def _judged(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One judge's object: its score and reasoning, and its claims."""
    found: dict[str, Any] = {}
    for row in rows:
        if row["item"] == "":
            own = {name: value for name, value in _own(row).items() if name != "prompt_version"}
            found |= _named(row, {"value": "score", "reason": "reasoning"}) | own
    for name, verdict in CLAIMS.items():
        if claims := [row["item_text"] for row in rows if row.get("verdict") == verdict]:
            found[name] = claims
    return found


def _metrics(run: dict[str, Any], reported: list[dict[str, Any]]) -> dict[str, Any]:
    own = _own(run)
    aggregates = unflatten({f"x_{row['metric']}": row.get("value", math.nan) for row in reported})
    merged = _merged(_null_for_nan(aggregates), own.pop("aggregate_metrics", {}))
    if not (merged or own or "config_hash" in run):
        return {}
    return {
        "run_id": str(run["run_id"]),
        "aggregate_metrics": merged,
        **_named(run, {"config_hash": "config_hash"}),
        **own,
    }


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {name: _merged(one[name], other[name]) for name in one.keys() & other.keys()}
    return one | other | both


def _null_for_nan(values: dict[str, Any]) -> dict[str, Any]:
    plain = {
        name: _null_for_nan(value) for name, value in values.items() if isinstance(value, dict)
    }
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in values.items()
    } | plain
