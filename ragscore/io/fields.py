"""One value of a record as text, id, flag or number.

What isn't one is a problem with its line, never dropped.
"""

import json
import math
from typing import Any, TypeGuard

from ragscore.io.source import Problems, as_id, as_text, shown

ID_ALLOWED = "text that isn't empty, or a whole number"


def text(
    value: Any, name: str, line: int | None, problems: Problems, allowed: str = "text or null"
) -> str | None:
    """Text as written; numbers keep their spelling."""
    found = as_text(value)
    if value is not None and found is None:
        problems.add(f"found {shown(value)}", line=line, field=name, allowed=allowed)
    return found


def identifier(value: Any, name: str, line: int | None, problems: Problems) -> str | None:
    """An id as written; booleans, dates, decimal numbers of JSON and empty texts are none."""
    found = as_id(value)
    if value is not None and found is None:
        problems.add(
            f"found {shown(value)}", line=line, field=name, allowed=f"{ID_ALLOWED}, or null"
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
    problems.add(f"found {shown(value)}", line=line, field=name, allowed=allowed)
    return None


def number(value: Any, name: str, line: int | None, problems: Problems) -> float | None:
    """A number as float; NaN, as some tools write it, is none."""
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        try:
            return None if value is None or math.isnan(value) else float(value)
        except OverflowError:
            pass
    problems.add(f"found {shown(value)}", line=line, field=name, allowed="a number or null")
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
        f"found {shown(value)}",
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
        problems.add(f"found {shown(value)}", line=line, field=name, allowed="a mapping or null")
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
