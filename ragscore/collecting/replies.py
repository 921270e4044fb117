"""What a system replied -> one record of `per_query.jsonl`, read once as loading will read it, so that a run that was written also loads."""

import json
import math
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

from ragscore.collecting.systems import AskError, Request
from ragscore.frames.errors import DataError
from ragscore.io.record import Tables, read_record
from ragscore.io.source import Problems, Row, describe

ANSWER = ("citations", "grounded", "refused", "refusal_reason", "cost_usd", "usage")
TOKENS = ("prompt_tokens", "completion_tokens")
NOT_KEPT = (
    "query",
    "query_id",
    "hits",
    "hits_top_k",
    "answer",
    "error",
    "mode",
    "latency",
    "elapsed_ms",
    "config",
    "request",
    "attempts",
)
OF_HITS = ("chunker_version", "index_version", "embedding_model")
OF_ANSWERS = {
    "model": "llm",
    "embedding": "embedding",
    "prompt_template_version": "prompt_template_version",
}
_HIT_NAMES = {"path": "doc_path", "heading": "heading_path", "text": "snippet"}
_CITATION_NAMES = {"heading": "heading_path"}
_BESIDE = frozenset(("query", "query_id", "elapsed_ms"))


def record_of(
    request: Request, reply: Any, elapsed_ms: float, error: str | None = None, attempts: int = 1
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The record of one query, and what the system says of itself.

    Raises
    ------
    AskError
        The reply holds something that no record can; its `reply` is what could be kept of it.
    """
    try:
        values = _reply_fields(plain(reply))
    except (TypeError, RecursionError, ValueError) as fault:
        raise AskError(f"the reply can't be written: {fault}") from fault
    if error is None and values.get("error"):
        error = _text(values["error"])
    if error is None and "hits" not in values and values.get("answer") is None:
        raise AskError(f"the reply holds neither hits nor an answer: {describe(values or None)}")
    record = _record(request, values, elapsed_ms, error, attempts)
    _check(record)
    return record, _said_of_itself(values)


def _record(
    request: Request, values: dict[str, Any], elapsed_ms: float, error: str | None, attempts: int
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "query_id": request["query_id"],
        "query": request["query"],
        "mode": values.get("mode", request.get("mode")),
    }
    record |= {
        "hits_top_k": _items(values.get("hits") or [], _HIT_NAMES),
        "answer": None if error is not None else _answer(values),
    }
    record |= {"elapsed_ms": round(elapsed_ms, 3), "error": error} | _latency(values)
    record |= {
        name: value
        for name, value in values.items()
        if name not in (*NOT_KEPT, *ANSWER, *TOKENS) and not name.startswith("latency_")
    }
    carried = {
        name: value
        for name, value in request.items()
        if name in ("filters", "vaults", "folders", "product", "tool")
    }
    record |= {"request": carried} if carried else {}
    return record | ({"attempts": attempts} if attempts > 1 else {})


def _said_of_itself(values: dict[str, Any]) -> dict[str, Any]:
    """What a reply says of the system.

    Its `config`, and versions that stand with the answer or are the same on every hit.
    """
    hits, answer, config = values.get("hits"), values.get("answer"), values.get("config")
    found = {}
    for name in OF_HITS:
        written = (
            [hit.get(name) for hit in hits if isinstance(hit, dict)]
            if isinstance(hits, list)
            else []
        )
        if written and written[0] is not None and all(one == written[0] for one in written):
            found[name] = written[0]
    if isinstance(answer, dict):
        found |= {
            key: answer[name] for name, key in OF_ANSWERS.items() if answer.get(name) is not None
        }
    return found | (config if isinstance(config, dict) else {})


def _reply_fields(reply: Any) -> dict[str, Any]:
    """A reply in any of its forms as named fields: a list is hits, a text an answer."""
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
    """The answer object; fields of it may also stand beside its text.

    None where the system only searched.
    """
    answer = values.get("answer")
    beside = {name: values[name] for name in ANSWER if values.get(name) is not None}
    usage = {name: values[name] for name in TOKENS if values.get(name) is not None}
    if answer is None or not isinstance(answer, (str, dict)):
        # A refusal may come without any text.
        return (
            answer
            if answer is not None or not beside.get("refused")
            else {"answer": None, **_with_usage(beside, usage)}
        )
    found = {"answer": answer, **beside} if isinstance(answer, str) else {**beside, **answer}
    found = _with_usage(found, usage)
    return found | {"citations": _items(found.get("citations") or [], _CITATION_NAMES)}


def _with_usage(answer: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    given = answer.get("usage")
    return (
        answer | {"usage": {**usage, **given} if isinstance(given, dict) else usage}
        if usage
        else answer
    )


def _items(items: Any, names: dict[str, str]) -> Any:
    """Hits or citations under the record's names: the columns' own names are understood, too."""
    if not isinstance(items, list):
        return items
    return [
        (
            {
                names.get(name, name): value
                for name, value in one.items()
                if names.get(name) not in one
            }
            if isinstance(one, dict)
            else one
        )
        for one in items
    ]


def _latency(values: dict[str, Any]) -> dict[str, Any]:
    """Milliseconds of each phase, as `latency_<phase>_ms`."""
    inside = values.get("latency")
    phases = (
        {name if name.endswith("_ms") else f"{name}_ms": value for name, value in inside.items()}
        if isinstance(inside, dict)
        else {}
    )
    found = {f"latency_{name}": value for name, value in phases.items()}
    found |= {name: value for name, value in values.items() if name.startswith("latency_")}
    return {name: value for name, value in found.items() if value is not None}


def _check(record: dict[str, Any]) -> None:
    """Read the record as loading does; where only the answer can't be read, the hits are kept."""
    fault = _fault(record)
    if fault is None:
        return
    kept = {"query", "query_id", "hits_top_k"}
    hits = {name: value for name, value in record.items() if name in kept}
    raise AskError(
        f"the reply can't be read: {fault}",
        reply=record["hits_top_k"] if _fault(hits) is None else None,
    )


def _fault(record: dict[str, Any]) -> str | None:
    try:
        read_record(Row(record, 1), Tables(), Problems("reply", strict=True))
    except DataError as error:
        return ": ".join(part for part in (error.field, error.found) if part) + (
            f"; {error.allowed}" if error.allowed else ""
        )
    return None


def plain(value: Any) -> Any:
    """A value of Python, numpy or pandas as JSON has them.

    NaN is null, half a surrogate pair a question mark.

    Raises
    ------
    TypeError
        Something that isn't data.
    """
    if isinstance(value, pd.DataFrame):
        return plain(value.to_dict("records"))
    if isinstance(value, Mapping):
        return {_text(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, np.ndarray, pd.Series)):
        return [
            plain(one)
            for one in (sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value)
        ]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (bool, int, type(None))):
        return value
    if isinstance(value, str):
        return str(value).encode("utf-8", "replace").decode()
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(
        f"found a {type(value).__name__}; text, numbers, true, false, lists and mappings are"
        " allowed"
    )


def _text(value: Any) -> str:
    return plain(value) if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
