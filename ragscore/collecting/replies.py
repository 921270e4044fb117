"""Replies of systems -> records of `per_query.jsonl`.

What `rs.load_results` can't read of a reply is the query's error, so a run that was written loads.
"""

import json
import math
from datetime import date, datetime
from pathlib import PurePath
from typing import Any

from ragscore.collecting.systems import CARRIED, AskError, Request
from ragscore.frames.errors import DataError
from ragscore.io.files import naming
from ragscore.io.run_file import (
    HIT,
    RECORD,
    names,
    results_of,
    run_record,
)
from ragscore.io.servers import Redactor, hidden
from ragscore.io.source import Problems, Row, describe
from ragscore.io.values import plain

_ANSWER_FIELDS = ({"citations", "usage"} | names(RECORD, "answer.")) - {"answer"}
_TOKENS = names(RECORD, "answer.usage.")
# Fields of a reply with a place of their own in the record; all others are copied as they are.
_PLACED = frozenset(
    (
        *("query", "query_id", "hits", "hits_top_k", "answer", "error", "mode", "latency"),
        *("elapsed_ms", "config", "request", "attempts", *_ANSWER_FIELDS, *_TOKENS),
    )
)
# Fields of hits and of answers that describe the system, the latter with their names in a config.
_CONFIG_OF_HITS = ("chunker_version", "index_version", "embedding_model")
_CONFIG_OF_ANSWERS = {
    "model": "llm",
    "embedding": "embedding",
    "prompt_template_version": "prompt_template_version",
}
_HIT_NAMES = {
    column: name for name, (column, _) in HIT.items() if "." not in name and column != name
}

_UNREADABLE = "the reply can't be read: {}"
# What a record says of the query and of how it was asked.
_ASKED = ("query_id", "query", "mode", "elapsed_ms", "request", "attempts")

# A query's record, and the config that its reply reports.
RecordAndConfig = tuple[dict[str, Any], dict[str, Any]]


def record_of(
    request: Request,
    reply: Any,
    elapsed_ms: float,
    attempts: int,
    redactor: Redactor,
) -> RecordAndConfig:
    """Return the record of one query, and the config that the reply reports, without secrets.

    They are hidden before anything else is done with the reply: messages quote parts of it.
    Id and text of a query are the golden file's and stay as they are.

    Raises
    ------
    AskError
        The reply holds something that no record can.
    """
    try:
        values = _reply_fields(redactor.values(plain(reply, json_scalar)))
    except (TypeError, RecursionError, ValueError) as fault:
        raise AskError(f"the reply can't be written: {fault}") from fault
    given = values.get("error") or None
    error = given if isinstance(given, str | None) else json.dumps(given, ensure_ascii=False)
    if error is None and "hits" not in values and values.get("answer") is None:
        raise AskError(f"the reply holds neither hits nor an answer: {describe(values or None)}")
    beside = {name: one for name, one in values.items() if name.startswith("latency_")}
    phases = values["latency"] if isinstance(values.get("latency"), dict) else {}
    times = {f"latency_{name.removesuffix('_ms')}_ms": one for name, one in phases.items()} | beside
    record: dict[str, Any] = {
        "query_id": request["query_id"],
        "query": request["query"],
        "mode": values.get("mode", request.get("mode")),
        "hits_top_k": _renamed_items(values.get("hits") or [], _HIT_NAMES),
        "answer": None if error is not None else _answer(values),
        "elapsed_ms": round(elapsed_ms, 3),
        "error": error,
        **{name: one for name, one in times.items() if one is not None},
        **{name: one for name, one in values.items() if name not in beside.keys() | _PLACED},
    }
    if carried := {name: value for name, value in request.items() if name in CARRIED}:
        record["request"] = redactor.values(carried)
    if attempts > 1:
        record["attempts"] = attempts
    config = hidden(_reported_config(values))
    k = {"k": config["k"]} if isinstance(config.get("k"), int) else {}
    try:
        run_record({"run_id": "reply", "config": config, **k}, "reply")
    except DataError as fault:
        raise AskError(_UNREADABLE.format(fault)) from None
    return record, config


def readable(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record that `rs.load_results` reads; of a reply that it can't, one that says so."""
    try:
        with naming("reply"):  # whatever a reply holds, it ends no more than its query
            results_of({"run_id": "reply"}, [Row(record, 1)], Problems("reply", strict=True))
    except DataError as fault:
        kept = {name: record[name] for name in _ASKED if name in record}
        return kept | {"hits_top_k": [], "answer": None, "error": _UNREADABLE.format(fault)}
    return record


def _reply_fields(reply: Any) -> dict[str, Any]:
    """Return a reply in any of its forms as named fields: a list is hits, a text an answer."""
    if isinstance(reply, list):
        return {"hits": reply}
    if isinstance(reply, str):
        return {"answer": reply}
    if not isinstance(reply, dict):
        return {} if reply is None else {"reply": reply}
    if "hits_top_k" in reply and "hits" not in reply:
        return reply | {"hits": reply["hits_top_k"]}
    return reply


def _answer(values: dict[str, Any]) -> Any:
    """Return the answer object, with fields beside its text; None for a search only."""
    answer = values.get("answer")
    beside = {name: values[name] for name in _ANSWER_FIELDS if values.get(name) is not None}
    if not isinstance(answer, (str, dict)) and (answer is not None or not beside.get("refused")):
        return answer  # a refusal may come without any text
    found = beside | (answer if isinstance(answer, dict) else {"answer": answer})
    if usage := {name: values[name] for name in _TOKENS if values.get(name) is not None}:
        own = found.get("usage")
        found["usage"] = usage | own if isinstance(own, dict) else usage
    if answer is not None:
        found["citations"] = _renamed_items(
            found.get("citations") or [], {"heading": "heading_path"}
        )
    return found


def _renamed_items(items: Any, names: dict[str, str]) -> Any:
    """Return hits or citations under the record's names, unless those are taken already."""
    if not isinstance(items, list):
        return items
    return [
        {
            names.get(name, name): value
            for name, value in item.items()
            if names.get(name) not in item
        }
        if isinstance(item, dict)
        else item
        for item in items
    ]


def _reported_config(values: dict[str, Any]) -> dict[str, Any]:
    """Return a reply's `config`, and versions in its answer or the same in all its hits."""
    answer, config = values.get("answer"), values.get("config")
    listed = values["hits"] if isinstance(values.get("hits"), list) else []
    rows = [hit for hit in listed if isinstance(hit, dict)]
    found = {
        name: rows[0].get(name)
        for name in _CONFIG_OF_HITS
        if rows and all(row.get(name) == rows[0].get(name) for row in rows)
    }
    if isinstance(answer, dict):
        found |= {key: answer.get(name) for name, key in _CONFIG_OF_ANSWERS.items()}
    known = {name: value for name, value in found.items() if value is not None}
    return known | (config if isinstance(config, dict) else {})


def json_scalar(value: Any) -> Any:
    """Return a number, text or date as JSON has it.

    What is no finite number becomes null, and half a surrogate pair a question mark.
    """
    if isinstance(value, str):
        return str(value).encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):  # booleans, too
        str(value)  # Python itself refuses to write a number of too many digits
        return value
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(
        f"found a {type(value).__name__}; text, numbers, true, false, lists and mappings are"
        " allowed"
    )
