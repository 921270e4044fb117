"""What a record holds beyond the columns we know, kept as `x_<name>` columns and given back on writing.

Nested mappings become dotted names (`x_retrieval.method`; a dot inside a key is written %2E). A
value that no single column can hold (a list, a mix of types) is kept as JSON text under
`x_<name>.json`. Null and absent are the same.

One value of a record as text, id, flag or number.

What isn't one is a problem with its line, never dropped.
"""

import json
import math
from collections.abc import Iterator
from typing import Any, TypeGuard
from urllib.parse import unquote

import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.kinds import LARGEST_EXACT_FLOAT
from ragscore.io.source import Problems, as_id, as_text, describe

JSON_SUFFIX = ".json"


def flatten(values: dict[str, Any], prefix: str = "x_") -> dict[str, Any]:
    """The leftover fields of one record as flat columns."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        column = prefix + escape_key(name)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            continue
        if isinstance(value, dict) and value:
            flat |= flatten(value, column + ".")
        elif isinstance(value, (dict, list)) or (
            isinstance(value, int) and not -(2**63) <= value < 2**63
        ):
            flat[column + JSON_SUFFIX] = _dump(value)
        else:
            flat[column] = value
    return flat


def unify_types(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same records, each own field of one type.

    Whole and decimal numbers together as decimal ones, any other mix as JSON text.
    """
    kinds: dict[str, set[type]] = {}
    long: set[str] = set()  # names of whole numbers that no float64 holds
    for record in records:
        for name, value in record.items():
            if name.startswith("x_"):
                kinds.setdefault(name, set()).add(type(value))
                if type(value) is int and abs(value) > LARGEST_EXACT_FLOAT:
                    long.add(name)
    numbers = {
        name
        for name, found in kinds.items()
        if found == {int, float} and name not in long and name + JSON_SUFFIX not in kinds
    }
    mixed = {
        name
        for name, found in kinds.items()
        if name not in numbers and (len(found) > 1 or name + JSON_SUFFIX in kinds)
    }
    if not mixed and not numbers:
        return records
    return [
        dict(_settled(name, value, numbers, mixed) for name, value in record.items())
        for record in records
    ]


def _settled(name: str, value: Any, numbers: set[str], mixed: set[str]) -> tuple[str, Any]:
    if name in mixed:
        return name + JSON_SUFFIX, _dump(value)
    return name, float(value) if name in numbers else value


def unflatten(flat: dict[str, Any]) -> dict[str, Any]:
    """Back from flat columns to the nested record.

    Raises
    ------
    DataError
        Text that isn't JSON in a column `*.json`, or a column that is a value and holds others at
        once.
    """
    nested: dict[str, Any] = {}
    for column, value in flat.items():
        is_json = column.endswith(JSON_SUFFIX)
        *parents, leaf = (
            column.removeprefix("x_").removesuffix(JSON_SUFFIX if is_json else "").split(".")
        )
        place = nested
        for parent in parents:
            place = place.setdefault(unquote(parent), {}) if isinstance(place, dict) else place
        if not isinstance(place, dict) or unquote(leaf) in place:
            raise DataError(
                "the column and one that it holds both have a value",
                field=column,
                allowed="one of them",
            )
        place[unquote(leaf)] = _parsed(value, column) if is_json else value
    return nested


def _parsed(text: Any, column: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise DataError(f"found {text!r}", field=column, allowed="JSON text") from error


def row_dicts(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Each row as a dict of plain Python values, without the unknown ones."""
    columns = {
        name: frame[name].astype(object).where(frame[name].notna(), None).tolist()
        for name in frame.columns
    }
    for values in zip(*columns.values(), strict=True):
        yield {
            name: value for name, value in zip(columns, values, strict=True) if value is not None
        }


def extra_fields(
    row: dict[str, Any],
    known: frozenset[str] = frozenset(),
    kind: str = "",
    prefix: str | None = None,
) -> dict[str, Any]:
    """The leftover fields of one row, as they stood in the record.

    One that bears a known name would not come back as such.
    """
    own = unflatten({name: value for name, value in row.items() if name.startswith("x_")})
    taken = [
        name for name in own if name in known or (prefix is not None and name.startswith(prefix))
    ]
    if taken:
        raise DataError(
            f"x_{taken[0]} would be read as {taken[0]}",
            field=kind,
            allowed="a name that no column has",
        )
    return own


def escape_key(name: str) -> str:
    """A key as part of a dotted name; a key called `json` must not look like our suffix."""
    return "%6Ason" if name == "json" else name.replace("%", "%25").replace(".", "%2E")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


ID_ALLOWED = "text that isn't empty, or a whole number"


def text(
    value: Any, name: str, line: int | None, problems: Problems, allowed: str = "text or null"
) -> str | None:
    """Text as written; numbers keep their spelling."""
    found = as_text(value)
    if value is not None and found is None:
        problems.add(f"found {describe(value)}", line=line, field=name, allowed=allowed)
    return found


def identifier(value: Any, name: str, line: int | None, problems: Problems) -> str | None:
    """An id as written; booleans, dates, decimal numbers of JSON and empty texts are none."""
    found = as_id(value)
    if value is not None and found is None:
        problems.add(
            f"found {describe(value)}", line=line, field=name, allowed=f"{ID_ALLOWED}, or null"
        )
    return found


def flag(
    value: Any,
    name: str,
    line: int | None,
    problems: Problems,
    allowed: str = "true, false or null",
) -> bool | None:
    """True or false; 1 and "no" are neither."""
    if value is None or isinstance(value, bool):
        return value
    problems.add(f"found {describe(value)}", line=line, field=name, allowed=allowed)
    return None


def number(value: Any, name: str, line: int | None, problems: Problems) -> float | None:
    """A number as float; NaN, as some tools write it, is none."""
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        try:
            return None if value is None or math.isnan(value) else float(value)
        except OverflowError:
            pass
    problems.add(f"found {describe(value)}", line=line, field=name, allowed="a number or null")
    return None


def whole(
    value: Any, name: str, line: int | None, problems: Problems, lowest: int = 0
) -> int | None:
    """A whole number that a column of 64 bits can hold."""
    if value is None:
        return None
    if is_int(value) and lowest <= value < 2**63:
        return int(value)
    problems.add(
        f"found {describe(value)}",
        line=line,
        field=name,
        allowed=f"a whole number from {lowest} to {2**63 - 1}, or null",
    )
    return None


def is_int(value: Any) -> TypeGuard[int]:
    """A whole number, and no boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def metadata(value: Any, name: str, line: int | None, problems: Problems) -> dict[str, Any]:
    """A hit's metadata, NaN read as null; empty where there are none."""
    if not isinstance(value, (dict, type(None))):
        problems.add(f"found {describe(value)}", line=line, field=name, allowed="a mapping or null")
        return {}
    return {
        key: None if isinstance(one, float) and math.isnan(one) else one
        for key, one in (value or {}).items()
    }


def metadata_rows(values: dict[str, Any]) -> list[dict[str, str]]:
    """Metadata as rows of `hit_meta`: key, and the value's JSON."""
    return [
        {"key": key, "value": json.dumps(value, ensure_ascii=False)}
        for key, value in values.items()
    ]
