"""Runs of a chatbot's evaluation, `results/<run_id>/{results.jsonl, config.json, metrics.json}` -> `Results`.

A test case that ended in an error has no row there: its absence shows as missing. What the harness
computed itself (`retrieval_metrics`, `metrics.json`) becomes `reported`, judges' scores and claims
become `judgments`.

`Results` -> a chatbot's run folder: the way back, so that loading and writing round-trip.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, from_records
from ragscore.io.output import by_query, check_one_run, write_json, write_lines
from ragscore.io.source import (
    Problems,
    Row,
    as_id,
    as_text,
    describe,
    json_rows,
    parse_json,
    read_text,
)
from ragscore.io.values import (
    flag,
    flatten,
    identifier,
    is_int,
    number,
    row_dicts,
    text,
    unflatten,
    unify_types,
    whole,
)

HIT_NUMBERS = {
    "score_final": "score",
    "score_vector": "score_vector",
    "score_lexical": "score_lexical",
}
CUT_LENGTHS = range(195, 206)  # a text cut to 200 characters, with its ellipsis
# its name there -> the criterion, which is the metric's name
JUDGED = {"groundedness": "judge_groundedness", "correctness": "judge_correctness"}
CLAIMS = {"supported_claims": "supported", "unsupported_claims": "unsupported"}
RUN_LEVEL = ""  # the query_id of a value that was reported for the run as a whole
_FRAMES = ("responses", "hits", "citations", "judgments", "reported")


@dataclass
class _Tables:
    """Records of each frame while a file is read, and the line of each test case."""

    responses: list[dict[str, Any]] = field(default_factory=list)
    hits: list[dict[str, Any]] = field(default_factory=list)
    citations: list[dict[str, Any]] = field(default_factory=list)
    judgments: list[dict[str, Any]] = field(default_factory=list)
    reported: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)


def read_chatbot(path: Path, strict: bool) -> Results:
    """One run: `results.jsonl`, and what stands beside it in `config.json` and `metrics.json`."""
    problems = Problems(path, strict)
    config, metrics = (_beside(path, name) for name in ("config.json", "metrics.json"))
    tables = _Tables()
    for row in json_rows(path, problems):
        _read_row(row, tables, problems)
    run = _run(path, config, metrics, tables)
    judge = _judge(config, problems.for_file(path.parent / "config.json")) if config else {}
    tables.judgments = [record | judge for record in tables.judgments]
    for record in [record for name in _FRAMES for record in getattr(tables, name)]:
        record["run_id"] = run["run_id"]
    frames: dict[str, Any] = {
        name: from_records(unify_types(getattr(tables, name)), name) for name in _FRAMES
    }
    optional = {
        name: frames[name] if len(frames[name]) else None for name in ("judgments", "reported")
    }
    return Results(
        runs=from_records([run], "runs"),
        **(frames | optional),
        problems=problems.frame(run["run_id"]),
    )


def _beside(path: Path, name: str) -> dict[str, Any] | None:
    """The JSON object of a file beside this one; None if there is none."""
    file = path.parent / name
    if not file.exists() or not path.name.startswith("results.jsonl"):
        return None
    try:
        values = parse_json(read_text(file))
    except (ValueError, RecursionError) as error:
        raise DataError(f"not valid JSON ({error})", file=file) from error
    if not isinstance(values, dict):
        raise DataError(f"found {describe(values)}", file=file, allowed="a JSON object")
    return values


def _judge(config: dict[str, Any], problems: Problems) -> dict[str, Any]:
    """What the configuration says of the judge."""
    temperature = number(config.get("judge_temperature"), "judge_temperature", None, problems)
    return {
        "judge": as_text(config.get("judge_model")),
        "temperature": temperature,
        "x_prompt_version": as_text(config.get("judge_prompt_version")),
    }


def _run(
    path: Path, config: dict[str, Any] | None, metrics: dict[str, Any] | None, tables: _Tables
) -> dict[str, Any]:
    """The row of the runs frame.

    Aggregates of `metrics.json` go to `reported`, what else it holds to `x_*`.
    """
    left = dict(metrics or {})
    stem = (
        path.absolute().parent.name
        if path.name.startswith("results.jsonl")
        else path.name.split(".")[0]
    )
    run_id = as_id(left.pop("run_id", None)) or stem
    stored = left.pop("aggregate_metrics", {})
    aggregates = stored if isinstance(stored, dict) else {}
    numbers = [
        (name, value) for name, value in _leaves(aggregates) if value is None or _is_number(value)
    ]
    tables.reported += [
        {
            "query_id": RUN_LEVEL,
            "metric": name,
            "value": math.nan if value is None else float(value),
        }
        for name, value in numbers
    ]
    left |= {"aggregate_metrics": others} if (others := _without_numbers(aggregates)) else {}
    n_failed = sum(response["error"] is not None for response in tables.responses)
    run: dict[str, Any] = {
        "run_id": run_id,
        "created_at": _time(left.get("timestamp"), run_id),
        "config_hash": as_text(left.pop("config_hash", None)),
    }
    run |= {
        "config": json.dumps(config, ensure_ascii=False) if config is not None else None,
        "n_queries": len(tables.responses),
        "n_failed": n_failed,
    }
    stated = config or next(
        (json.loads(one["x_config.json"]) for one in tables.responses if "x_config.json" in one), {}
    )
    return run | {"k": stated["k"] if is_int(stated.get("k")) else None} | flatten(left)


def _leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of nested objects with its dotted name; lists and empty objects are values."""
    for name, value in values.items():
        dotted = prefix + name.replace("%", "%25").replace(".", "%2E")
        if isinstance(value, dict) and value:
            yield from _leaves(value, dotted + ".")
        else:
            yield dotted, value


def _without_numbers(values: dict[str, Any]) -> dict[str, Any]:
    """The other values, with the objects that they stand in."""
    inner = {
        name: _without_numbers(value)
        for name, value in values.items()
        if isinstance(value, dict) and value
    }
    plain = {
        name: value
        for name, value in values.items()
        if name not in inner and value is not None and not _is_number(value)
    }
    return plain | {name: value for name, value in inner.items() if value}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _time(written: Any, run_id: str) -> pd.Timestamp | None:
    """When the run was made: as stated, else as its id says (UTC)."""
    if written is None and not re.fullmatch(r"\d{8}_\d{6}", run_id):
        return None
    try:
        time = (
            pd.Timestamp(written)
            if written is not None
            else pd.to_datetime(run_id, format="%Y%m%d_%H%M%S")
        )
    except (ValueError, TypeError):
        return None  # the text itself stays in x_timestamp
    return time.tz_localize("UTC") if time.tzinfo is None else time.tz_convert("UTC")


def _read_row(row: Row, tables: _Tables, problems: Problems) -> None:
    values = dict(row.values)
    query_id = as_id(values.pop("test_case_id", None))
    if query_id is None:
        problems.add(
            f"found {describe(row.values.get('test_case_id'))}",
            line=row.line,
            field="test_case_id",
            allowed="text",
        )
        return
    if query_id in tables.lines:
        found = f"'{query_id}' stood on line {tables.lines[query_id]} already"
        problems.add(found, line=row.line, field="test_case_id", allowed="one row per test case")
        return
    tables.lines[query_id] = row.line
    response: dict[str, Any] = {"query_id": query_id}
    response |= {
        "query": text(values.pop("question", None), "question", row.line, problems),
        "error": text(values.pop("error", None), "error", row.line, problems),
    }
    response["answer"] = text(values.pop("answer", None), "answer", row.line, problems)
    if (scope := values.pop("scope", None)) is not None:
        response["scope"] = json.dumps(scope, ensure_ascii=False)
    response |= _latency(values, row, problems)
    response["refused"] = flag(
        _part(values, "abstention", row, problems).pop("abstained", None),
        "abstention.abstained",
        row.line,
        problems,
    )
    if (config := values.pop("config", None)) is not None:
        response["x_config.json"] = json.dumps(config, ensure_ascii=False)
    tables.hits += _hits(values.pop("retrieved_chunks", None), query_id, row, problems)
    tables.citations += _references(values.pop("references", None), query_id, row, problems)
    tables.judgments += _judgments(values, query_id, row, problems)
    tables.reported += _reported(_part(values, "retrieval_metrics", row, problems), query_id)
    tables.responses.append(
        response | flatten({name: value for name, value in values.items() if value != {}})
    )


def _part(values: dict[str, Any], name: str, row: Row, problems: Problems) -> dict[str, Any]:
    """An object of the row, as a copy that stands in `values` and may be emptied.

    Anything else is a problem.
    """
    part = values.get(name)
    if part is not None and not isinstance(part, dict):
        problems.add(
            f"found {describe(part)}", line=row.line, field=name, allowed="an object or null"
        )
    values[name] = dict(part) if isinstance(part, dict) else {}
    return values[name]


def _latency(values: dict[str, Any], row: Row, problems: Problems) -> dict[str, Any]:
    latency = _part(values, "latency", row, problems)
    found: dict[str, Any] = {
        "elapsed_ms": number(latency.pop("total_ms", None), "latency.total_ms", row.line, problems)
    }
    for name in [name for name in latency if name.endswith("_ms")]:
        found[f"latency_{name}"] = number(latency.pop(name), f"latency.{name}", row.line, problems)
    return found


def _objects(items: Any, name: str, row: Row, problems: Problems) -> list[dict[str, Any]]:
    """The members of a list of objects; anything else is a problem."""
    listed = items if isinstance(items, list) else [] if items is None else [items]
    for item in listed:
        if not isinstance(item, dict):
            problems.add(
                f"found {describe(item)}", line=row.line, field=name, allowed="a list of objects"
            )
    return [item for item in listed if isinstance(item, dict)]


def _hits(items: Any, query_id: str, row: Row, problems: Problems) -> Iterator[dict[str, Any]]:
    chunks = _objects(items, "retrieved_chunks", row, problems)
    for chunk, rank in zip(chunks, _ranks(chunks, row, problems), strict=True):
        values = {name: value for name, value in chunk.items() if name != "rank"}
        found: dict[str, Any] = {
            "query_id": query_id,
            "rank": rank,
            "chunk_id": identifier(values.pop("chunk_id", None), "chunk_id", row.line, problems),
        }
        for name, column in {"rel_path": "path", "heading_path": "heading", "text": "text"}.items():
            found[column] = text(
                values.pop(name, None), f"retrieved_chunks.{name}", row.line, problems
            )
        found |= {
            column: number(values.pop(name, None), f"retrieved_chunks.{name}", row.line, problems)
            for name, column in HIT_NUMBERS.items()
        }
        if (body := found["text"]) is not None:
            found["text_cut"] = body.endswith("...") and len(body) in CUT_LENGTHS
        yield found | flatten(values)


def _ranks(chunks: list[dict[str, Any]], row: Row, problems: Problems) -> list[int]:
    """Stored ranks if every chunk has one of its own, else list order."""
    stored: list[Any] = [chunk.get("rank") for chunk in chunks]
    in_order = list(range(1, len(chunks) + 1))
    if all(rank is None for rank in stored):
        return in_order
    if all(is_int(rank) and 1 <= rank < 2**31 for rank in stored) and len(set(stored)) == len(
        stored
    ):
        return [int(rank) for rank in stored]
    problems.add(
        f"found the ranks {describe(stored)}",
        line=row.line,
        field="retrieved_chunks.rank",
        allowed="a rank of its own for each chunk, from 1, or none at all",
    )
    return in_order


def _references(
    items: Any, query_id: str, row: Row, problems: Problems
) -> Iterator[dict[str, Any]]:
    for position, reference in enumerate(_objects(items, "references", row, problems), 1):
        values = dict(reference)
        found: dict[str, Any] = {"query_id": query_id, "position": position}
        for name, column in {"rel_path": "path", "heading_path": "heading"}.items():
            found[column] = text(values.pop(name, None), f"references.{name}", row.line, problems)
        yield found | flatten(values)


def _judgments(
    values: dict[str, Any], query_id: str, row: Row, problems: Problems
) -> list[dict[str, Any]]:
    """A row per judge's score, one per claim, and on the first of them what both judges cost."""
    found: list[dict[str, Any]] = []
    for name, criterion in JUDGED.items():
        judged = _part(values, name, row, problems)
        if (
            score := number(judged.pop("score", None), f"{name}.score", row.line, problems)
        ) is None:
            continue
        own: dict[str, Any] = {"query_id": query_id, "criterion": criterion}
        reason = text(judged.pop("reasoning", None), f"{name}.reasoning", row.line, problems)
        claims = [
            claim
            for listed, verdict in CLAIMS.items()
            for claim in _claims(judged, listed, verdict, name, row, problems)
        ]
        found.append({**own, "item": "", "value": score, "reason": reason, **flatten(judged)})
        found += [own | claim for claim in claims]
        judged.clear()
    cost = _part(values, "cost", row, problems)
    if found and cost:
        found[0]["tokens"] = whole(
            cost.pop("judge_tokens", None), "cost.judge_tokens", row.line, problems
        )
        found[0]["cost_usd"] = number(
            cost.pop("judge_cost_usd", None), "cost.judge_cost_usd", row.line, problems
        )
    return found


def _claims(
    judged: dict[str, Any], name: str, verdict: str, judge: str, row: Row, problems: Problems
) -> list[dict[str, Any]]:
    """The claims of one list; a list without any stays in `judged`, to be written back."""
    claims = judged.get(name)
    if not claims:
        return []
    del judged[name]
    if not isinstance(claims, list) or not all(isinstance(claim, str) for claim in claims):
        problems.add(
            f"found {describe(claims)}",
            line=row.line,
            field=f"{judge}.{name}",
            allowed="a list of texts",
        )
        return []
    value = float(verdict == "supported")
    return [
        {"item": f"{verdict} {n}", "value": value, "verdict": verdict, "item_text": claim}
        for n, claim in enumerate(claims, 1)
    ]


def _reported(metrics: dict[str, Any], query_id: str) -> list[dict[str, Any]]:
    """What the harness stored for this case; true and false as 1 and 0.

    What isn't a number stays in `metrics`.
    """
    numbers = {
        name: value
        for name, value in metrics.items()
        if value is None or isinstance(value, (bool, int, float))
    }
    for name in numbers:
        del metrics[name]
    return [
        {"query_id": query_id, "metric": name, "value": math.nan if value is None else float(value)}
        for name, value in numbers.items()
    ]


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
        (
            _record(response, rows)
            for response in row_dicts(results.responses.drop(columns="run_id"))
        ),
    )
    run = next(row_dicts(results.runs))
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
