"""Reports, frames and configurations as JSON, and numbers as text for people.

A report is a dataclass or a named tuple; its fields, without a leading `_`, are the keys of the
JSON. A frame becomes its
rows as objects, and the dtypes of its columns stand beside them: they restore NaN, NA and the
columns of an empty frame. Text means Markdown, and numbers rounded for display.
"""

import json
import math
from dataclasses import is_dataclass
from typing import Any, get_origin, get_type_hints

import numpy as np
import pandas as pd

from ragscore.frames.errors import DataError
from ragscore.frames.escaping import json_text
from ragscore.frames.kinds import records_of

ALLOWED = "the JSON that to_json wrote"


def dump(report: Any, **more: Any) -> str:
    """Return a report as JSON: its fields, and those of `more` beside or instead of them.

    Frames become rows, with their `dtypes` under that key. Reports inside it become objects in the
    same way. NaN becomes null.
    """
    return json_text(_plain(report, **more))


def reload(report: type[Any], text: str, allowed: str = ALLOWED) -> Any:
    """Return the report that `dump` wrote; `allowed` says what else is refused.

    Raises
    ------
    DataError
        No JSON, or not that of such a report.
    """
    values: dict[str, Any] = {}
    try:
        content = json.loads(text)
        for field, kind in get_type_hints(report).items():
            name = field.removeprefix("_")
            value = content[name]
            if name in content["dtypes"]:
                value = frame_of(value, content["dtypes"][name])
            elif hasattr(kind, "from_plain"):
                value = kind.from_plain(value)
            values[field] = tuple(value) if get_origin(kind) is tuple else value
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"no JSON of a report: {error!r}", field="text", allowed=allowed) from error
    return report(**values)


def dtypes_of(frame: pd.DataFrame) -> dict[str, str]:
    """Return column -> dtype in order, as `frame_of` reads them; categories are text."""
    return {
        str(name): str(dtype).replace("category", "str") for name, dtype in frame.dtypes.items()
    }


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON writes them: None for missing values, times as ISO text."""
    texts = frame.select_dtypes("datetimetz").astype("str")
    return records_of(
        frame.assign(**texts)
        .astype("object")
        .replace({math.inf: "Infinity", -math.inf: "-Infinity"})
    )


def frame_of(rows: list[dict[str, Any]], dtypes: dict[str, str]) -> pd.DataFrame:
    """Return the frame that `rows_of` and `dtypes_of` were made from."""
    columns = {name: pd.Series([row[name] for row in rows], dtype="object") for name in dtypes}
    return pd.DataFrame(columns).astype(dtypes)


def _plain(value: Any, **more: Any) -> Any:
    """Return a report, or the value of a field, as JSON holds it."""
    if isinstance(value, pd.DataFrame):
        return rows_of(value)
    if hasattr(value, "to_plain"):
        return value.to_plain()
    if is_dataclass(value):
        hints = get_type_hints(type(value))
        values = {name.removeprefix("_"): getattr(value, name) for name in hints} | more
        frames = {name: one for name, one in values.items() if isinstance(one, pd.DataFrame)}
        content = {name: _plain(one) for name, one in values.items()}
        return content | {"dtypes": {name: dtypes_of(one) for name, one in frames.items()}}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and math.isnan(value) else value


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


ALPHA = 0.05  # p values below it decide
EXACT = 15  # decimals that a number needs at most


def shown_number(value: Any, decimals: int = 3, signed: bool = False) -> str:
    """Return a number for a table: `—` for NaN, with a sign on request, but none for 0."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "—"
    text = f"{value:{'+' if signed else ''}.{decimals}f}"
    return text if text.strip("+-0.") else text.lstrip("+-")


def decimals_of_size(value: float) -> int:
    """Return the decimals of a number without a standard error: 3 below 10, 0 from 1,000."""
    return 3 - sum(abs(value) >= limit for limit in (10, 100, 1000))


def decimals_of(value: float, low: float, high: float) -> int:
    """Return the decimals of a value by its 95 % interval; two of shares, one below 10."""
    if math.isnan(low) or math.isnan(high):
        return decimals_of_size(value)
    least = 2 if max(abs(low), abs(high)) <= 1 else int(abs(value) < 10)
    return decimals_within(low, high, least)


def decimals_within(low: float, high: float, least: int = 2) -> int:
    """Return the decimals of a value by its 95 % interval, and so many that a bound isn't 0.

    An interval that leaves out 0 is shown as one that does: words that go by it stand beside it.
    """
    error = (high - low) / 4  # .04 is worth 2 decimals, .004 3
    places = max(min(-math.floor(math.log10(error)), 4) if error > 0 else 3, least)
    nearest = min(abs(low), abs(high))
    return decimals_beside(nearest, 0.0, True, places) if low * high > 0 else places


def decimals_beside(value: float, limit: float, is_beyond: bool, decimals: int) -> int:
    """Return how many decimals a value needs to be seen beyond a limit, or not beyond it."""
    for places in range(decimals, EXACT):
        if (float(f"{value:.{places}f}") > limit) == is_beyond:
            return places
    return EXACT


def shown_interval(value: Any, low: Any, high: Any, signed: bool = False) -> str:
    """Return a value with its interval, `.85 [.79, .91]`; the value alone without an interval."""
    places = decimals_of(value, low, high)
    texts = [shown_number(number, places, signed) for number in (value, low, high)]
    return texts[0] if "—" in texts[1:] else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def shown_intervals(rows: pd.DataFrame, signed: bool = False) -> list[str]:
    """Return each row of value, low and high as text, as precise as its interval is worth."""
    numbers = rows.to_numpy("float64", na_value=np.nan)
    return [shown_interval(value, low, high, signed) for value, low, high in numbers]


def shown_p(p: float) -> str:
    """Return a p value for a table, with so many decimals that it is seen below .05, or not."""
    if math.isnan(p):
        return "—"
    if p < 0.001:
        return "< .001"
    places = decimals_beside(-p, -ALPHA, p < ALPHA, 3)
    return f"{p:.{places}f}".removeprefix("0")


def shown_n(n: int, n_expected: int, other: int | None = None) -> str:
    """Return "n / expected" for a table; with `other`, the number expected of the candidate."""
    if other is None or other == n_expected:
        return f"{n} / {n_expected}"
    return f"{n} / {n_expected} (baseline), {other} (candidate)"
