"""What a record holds beyond the columns we know, kept as `x_<name>` columns and given back on writing.

Nested mappings become dotted names (`x_retrieval.method`; a dot inside a key is written %2E). A value that no single
column can hold (a list, a mix of types) is kept as JSON text under `x_<name>.json`. Null and absent are the same.
"""

import json
import math
from typing import Any
from urllib.parse import unquote

JSON_SUFFIX = ".json"


def flatten(values: dict[str, Any], prefix: str = "x_") -> dict[str, Any]:
    """The leftover fields of one record as flat columns."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        column = prefix + _escaped(name)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            continue
        if isinstance(value, dict) and value:
            flat |= flatten(value, column + ".")
        elif isinstance(value, (dict, list)) or (isinstance(value, int) and abs(value) >= 2**63):
            flat[column + JSON_SUFFIX] = _dump(value)
        else:
            flat[column] = value
    return flat


def settle(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same records, where a field of mixed types (text here, a number there) became JSON text as a whole."""
    kinds: dict[str, set[type]] = {}
    for record in records:
        for name, value in record.items():
            if name.startswith("x_"):
                kinds.setdefault(name, set()).add(type(value))
    mixed = {name for name, found in kinds.items() if len(found) > 1 or name + JSON_SUFFIX in kinds}
    if not mixed:
        return records
    return [{(n + JSON_SUFFIX if n in mixed else n): (_dump(v) if n in mixed else v) for n, v in record.items()} for record in records]


def unflatten(flat: dict[str, Any]) -> dict[str, Any]:
    """Back from flat columns to the nested record."""
    nested: dict[str, Any] = {}
    for column, value in flat.items():
        is_json = column.endswith(JSON_SUFFIX)
        *parents, leaf = column.removeprefix("x_").removesuffix(JSON_SUFFIX if is_json else "").split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(unquote(parent), {})
        place[unquote(leaf)] = json.loads(value) if is_json else value
    return nested


def _escaped(name: str) -> str:
    """A key as part of a dotted name; a key called `json` must not look like our suffix."""
    return "%6Ason" if name == "json" else name.replace("%", "%25").replace(".", "%2E")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
