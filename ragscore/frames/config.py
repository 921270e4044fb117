"""The configuration of a run as flat keys and values, so that runs can be compared."""

import json
from typing import Any

import pandas as pd


def parsed(text: Any) -> Any:
    """Return the stored config: {} where there is none, and text that isn't JSON as it is."""
    if pd.isna(text) or not text:
        return {}
    try:
        return json.loads(text)
    except ValueError:
        return text


def flat(config: Any, prefix: str = "") -> dict[str, Any]:
    """Return values by dotted key; a config that is no object is the value of the key `config`."""
    if not isinstance(config, dict):
        return {prefix or "config": config}
    return {
        key: value
        for name, inner in config.items()
        for key, value in flat(inner, f"{prefix}.{name}" if prefix else str(name)).items()
    }


def dumped(value: Any) -> str:
    """Return a value as JSON, the same text for equal values: 5 and "5" differ."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
