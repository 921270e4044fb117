"""Read a model's reply: one JSON object of its schema, or a `JudgeFailed` that says why not."""

import hashlib
import json
import math
import re
from typing import Any

from ragscore.io.source import parse_json

_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)

# A row of the judgments frame without its keys: item, value, verdict, reason, item_text, state.
Verdict = dict[str, Any]


class JudgeFailed(Exception):
    """No verdict: the call failed after all retries, or the reply is unusable.

    The message never quotes a reply.
    """


def digest(content: Any) -> str:
    """Return the SHA-256 hash of JSON content."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_reply(text: str, schema: dict[str, Any], shown: str) -> dict[str, Any]:
    """Return the JSON object in a reply; text around it is taken off.

    An object that occurs in what the model was shown is not accepted: it may be a quote.

    Parameters
    ----------
    schema
        The JSON schema that the object must match.
    shown
        The text that the model was shown.

    Raises
    ------
    JudgeFailed
        The reply has no object, several, a possible quote, a duplicate key, or does not match the
        schema.
    """
    from jsonschema import Draft202012Validator

    bare = _THOUGHTS.sub("", text, count=1)
    written = bare[max(bare.find("{"), 0) : bare.rfind("}") + 1]
    try:
        value: dict[str, Any] = parse_json(written)
        in_json = json.dumps(value, ensure_ascii=False)
        faults = [*Draft202012Validator(schema).iter_errors(value)]
    except (ValueError, RecursionError) as error:
        raise JudgeFailed(f"the reply is not one JSON object ({type(error).__name__})") from None
    material = "".join(shown.split())
    if any("".join(form.split()) in material for form in (written, in_json)):
        raise JudgeFailed(
            "the reply quotes a JSON object of the material instead of giving its own"
        )
    if faults:
        rule = f"{faults[0].validator} {json.dumps(faults[0].validator_value)}"
        raise JudgeFailed(f"the reply doesn't fit its schema at {faults[0].json_path}: {rule}")
    return value


def valid_text(text: str) -> str:
    """Return a text that every file takes: half a surrogate pair becomes "\ufffd"."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def without_value(state: str, reason: str, **more: str) -> Verdict:
    """Return a verdict that has no value, for this reason."""
    return {"item": "", "value": math.nan, "state": state, "reason": valid_text(reason), **more}
