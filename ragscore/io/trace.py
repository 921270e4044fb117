"""The steps of a multi-hop answer: `answer.hops` of a record -> rows of the hops frame, and back."""

import json
from typing import Any

from ragscore.io import fields
from ragscore.io.source import Problems, as_text, shown
from ragscore.io.values import flatten, unflatten

_FIELD = "answer.hops"


def read_hops(hops: Any, query_id: str, line: int, problems: Problems) -> list[dict[str, Any]]:
    """One record per step, numbered as the file numbers them.

    Durations as written, where 0 ms means that none was taken.
    """
    if hops is None:
        return []
    if not isinstance(hops, list) or not all(isinstance(hop, dict) for hop in hops):
        problems.add(
            f"found {shown(hops)}", line=line, field=_FIELD, allowed="a list of objects, or null"
        )
        return []
    numbers = _numbers(hops, line, problems)
    return [
        {"query_id": query_id, "hop": number, **_hop(dict(hop), line, problems)}
        for number, hop in zip(numbers, hops, strict=True)
    ]


def hop_record(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the hops frame (without its run and query) as the object of the file."""
    extra = unflatten({name: value for name, value in row.items() if name.startswith("x_")})
    record: dict[str, Any] = {"iter": int(row["hop"])}
    if "kind" in row:
        record["kind"] = row["kind"]
    record |= {"sub_queries": json.loads(row["sub_queries"])} if "sub_queries" in row else {}
    record |= {"context_chunks_added": int(row["chunks_added"])} if "chunks_added" in row else {}
    record |= {"forced_stop": bool(row["forced_stop"])} if "forced_stop" in row else {}
    return record | ({"llm_call_ms": row["llm_call_ms"]} if "llm_call_ms" in row else {}) | extra


def _numbers(hops: list[dict[str, Any]], line: int, problems: Problems) -> list[int]:
    """Each step's own number if all have one, once each; else their order, from 0."""
    in_order = list(range(len(hops)))
    own = [hop.get("iter") for hop in hops]
    if all(number is None for number in own):
        return in_order
    whole = [
        number
        for number in own
        if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**31
    ]
    if len(set(whole)) < len(own):
        problems.add(
            f"found {shown(own)}",
            line=line,
            field=f"{_FIELD}.iter",
            allowed="whole numbers from 0, each once, or no number at all",
        )
        return in_order
    return whole


def _hop(values: dict[str, Any], line: int, problems: Problems) -> dict[str, Any]:
    values.pop("iter", None)
    found: dict[str, Any] = {
        "kind": fields.text(values.pop("kind", None), f"{_FIELD}.kind", line, problems)
    }
    asked = values.pop("sub_queries", None)
    if isinstance(asked, list) and all(as_text(query) is not None for query in asked):
        found["sub_queries"] = json.dumps(asked, ensure_ascii=False)
    elif asked is not None:
        problems.add(
            f"found {shown(asked)}",
            line=line,
            field=f"{_FIELD}.sub_queries",
            allowed="a list of texts, or null",
        )
    found["chunks_added"] = fields.whole(
        values.pop("context_chunks_added", None), f"{_FIELD}.context_chunks_added", line, problems
    )
    found["forced_stop"] = fields.flag(
        values.pop("forced_stop", None), f"{_FIELD}.forced_stop", line, problems
    )
    found["llm_call_ms"] = fields.number(
        values.pop("llm_call_ms", None), f"{_FIELD}.llm_call_ms", line, problems
    )
    return found | flatten(values)
