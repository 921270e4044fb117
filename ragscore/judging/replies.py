"""A model's reply -> the JSON object it was asked for, or a `ReplyError` that says why it is not one.

A reply is taken whole: as JSON, or as one block of code that holds JSON. JSON with prose around it
is taken only if there is one object, and not if that object stands in what the model was shown: it
may be a quotation.
"""

import json
import re
from typing import Any

_FENCED = re.compile(r"```(?:json|JSON)?\s*\n((?:(?!```).)*)\n\s*```", re.DOTALL)
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_NO_OBJECT = "the reply is not a JSON object"


class ReplyError(Exception):
    """The reply can't be used; the message quotes nothing of it."""


def read_reply(text: str, schema: dict[str, Any], shown: str) -> tuple[dict[str, Any], bool]:
    """The object that a reply consists of, and whether something had to be taken off it.

    Parameters
    ----------
    schema
        The JSON schema that the object must fit.
    shown
        What the model was shown to judge.

    Raises
    ------
    ReplyError
        No JSON object, more than one, one that may be a quotation, a key twice, or one that doesn't
        fit the schema.
    """
    bare = _THOUGHTS.sub("", text, count=1).strip()
    if not bare:
        raise ReplyError("the reply is empty")
    fenced = _FENCED.fullmatch(bare)
    whole = fenced[1] if fenced else bare
    try:
        value = strict_json(whole)
        repaired = fenced is not None
    except ValueError:
        value, repaired = _within_prose(bare, shown), True
    _check(value, schema)
    return value, repaired


def strict_json(text: str) -> Any:
    """JSON, each key once and without NaN or Infinity."""
    return json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)


def _within_prose(text: str, shown: str) -> Any:
    found = list(_objects(text))
    if len(found) != 1:
        raise ReplyError(_NO_OBJECT if not found else f"the reply holds {len(found)} JSON objects")
    if _squeezed(found[0]) in _squeezed(shown):
        raise ReplyError("the reply quotes a JSON object of the material instead of giving its own")
    try:
        return strict_json(found[0])
    except ValueError as error:
        raise ReplyError(f"the reply's JSON is not valid: {error}") from None


def _objects(text: str) -> list[str]:
    """The outermost JSON objects in a text."""
    found, place, decode = [], text.find("{"), json.JSONDecoder().raw_decode
    while place >= 0:
        try:
            end = decode(text, place)[1]
            found.append(text[place:end])
        except (ValueError, RecursionError):
            end = place + 1
        place = text.find("{", end)
    return found


def _check(value: Any, schema: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator

    if not isinstance(value, dict):
        raise ReplyError(_NO_OBJECT)
    for error in Draft202012Validator(schema).iter_errors(value):
        raise ReplyError(
            f"the reply doesn't fit its schema at {error.json_path}: {error.validator}"
            f" {json.dumps(error.validator_value)[:200]}"
        )


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands there twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _squeezed(text: str) -> str:
    return "".join(text.split())
