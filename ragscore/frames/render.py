"""Reports and frames as JSON that reloads into the same, and as text for people.

A report is a dataclass or a named tuple; its fields are the keys of the JSON. A frame becomes its
rows as objects, and the dtypes of its columns stand beside them: they restore NaN, NA and the
columns of an empty frame. Text means Markdown, and numbers rounded for display.
"""

import json
import math
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, TypeVar, get_type_hints

import numpy as np
import pandas as pd

from ragscore.frames.errors import DataError
from ragscore.frames.escaping import json_text, markdown_cell
from ragscore.frames.kinds import records_of

T = TypeVar("T")
ALLOWED = "the JSON that to_json wrote"
NEWER = ("clusters",)  # fields that earlier files lack; each has a default
INFINITIES = {math.inf: "Infinity", -math.inf: "-Infinity"}  # JSON has no number for them


def dump(report: Any, **more: Any) -> str:
    """Return a report as JSON: its fields, and those of `more` beside or instead of them."""
    return json_text(content_of(report, **more))


def content_of(report: Any, **more: Any) -> dict[str, Any]:
    """Return a report as a dict that JSON can hold.

    Frames become rows, with their `dtypes` under that key. Reports inside it become dicts in the
    same way. NaN becomes None.
    """
    names = [name for name in get_type_hints(type(report)) if name not in more]
    values = {name: getattr(report, name) for name in names} | more
    content = {name: _plain(value) for name, value in values.items()}
    frames = {name: value for name, value in values.items() if isinstance(value, pd.DataFrame)}
    return content | {"dtypes": {name: dtypes_of(frame) for name, frame in frames.items()}}


def reload(report: type[T], text: str, **read: Callable[[Any], Any]) -> T:
    """Return the report that `dump` wrote.

    `read` names functions that make a field from its JSON, or from its frame if it is one.

    Raises
    ------
    DataError
        No JSON, or not that of such a report.
    """
    return from_content(report, parse(text), **read)


def from_content(report: type[T], content: Any, **read: Callable[[Any], Any]) -> T:
    """Return the report that `content_of` made a dict of."""
    types = get_type_hints(report)
    require(content, ("dtypes", *(name for name in types if name not in NEWER)))
    values = {}
    for name, kind in types.items():
        if name not in content:
            continue
        value = content[name]
        if name in content["dtypes"]:
            value = frame_of(value, content["dtypes"][name], name)
        if name in read:
            value = read[name](value)
        elif hasattr(kind, "from_plain"):
            value = kind.from_plain(value)
        elif isinstance(value, list) and str(kind).startswith("tuple"):
            value = tuple(value)
        elif value is None and kind is float:
            value = math.nan
        values[name] = value
    return report(**values)


def parse(text: str, allowed: str = ALLOWED) -> Any:
    """Return the content of a JSON text, or raise a `DataError`."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"no JSON: {error}", field="text", allowed=allowed) from error


def require(content: Any, names: tuple[str, ...], allowed: str = ALLOWED) -> None:
    """Raise a `DataError` unless the content is an object with all these keys."""
    if missing := [name for name in names if not isinstance(content, dict) or name not in content]:
        raise DataError(f"no {', '.join(missing)}", field="text", allowed=allowed)


def dtypes_of(frame: pd.DataFrame) -> dict[str, Any]:
    """Return column -> dtype in order, as `frame_of` reads them."""
    return {str(name): _dtype(dtype) for name, dtype in frame.dtypes.items()}


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON writes them: None for missing values, times as ISO text."""
    texts = {}
    for name, column in frame.items():
        if isinstance(column.dtype, pd.DatetimeTZDtype):
            texts[str(name)] = column.astype("str")
        elif column.dtype == "float64" and np.isinf(column).any():
            texts[str(name)] = column.astype("object").replace(INFINITIES)
    return records_of(frame.assign(**texts))


def frame_of(rows: Any, dtypes: Any, field: str) -> pd.DataFrame:
    """Return the frame that `rows_of` and `dtypes_of` were made from.

    Raises
    ------
    DataError
        Rows that are not objects with these columns, or a value that doesn't fit its dtype.
    """
    if (
        not isinstance(dtypes, dict)
        or not isinstance(rows, list)
        or not all(isinstance(row, dict) and set(row) == set(dtypes) for row in rows)
    ):
        raise DataError("rows and dtypes that don't belong together", field=field, allowed=ALLOWED)
    try:
        declared: dict[Any, Any] = {name: _read_dtype(dtype) for name, dtype in dtypes.items()}
        return pd.DataFrame(
            {name: pd.Series([row[name] for row in rows], dtype="object") for name in declared}
        ).astype(declared)
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(" ".join(str(error).split()), field=field, allowed=ALLOWED) from error


def _plain(value: Any) -> Any:
    """Return the value of a field as JSON holds it."""
    if isinstance(value, pd.DataFrame):
        return rows_of(value)
    if hasattr(value, "to_plain"):
        return value.to_plain()
    if is_dataclass(value) and not isinstance(value, type):
        return content_of(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and math.isnan(value) else value


def _dtype(dtype: Any) -> Any:
    if not isinstance(dtype, pd.CategoricalDtype):
        return str(dtype)
    return {
        "categories": dtype.categories.tolist(),
        "of": str(dtype.categories.dtype),
        "ordered": bool(dtype.ordered),
    }


def _read_dtype(dtype: Any) -> Any:
    if not isinstance(dtype, dict):
        return str(dtype)
    return pd.CategoricalDtype(
        pd.Index(dtype["categories"], dtype=dtype["of"]), ordered=dtype["ordered"]
    )


ALPHA = 0.05  # p values below it decide
MAX_DECIMALS = 4
EXACT = 15  # decimals that a number needs at most


def decimals_for(error: float) -> int:
    """Return the number of decimals worth showing beside a standard error: .04 -> 2, .004 -> 3."""
    if math.isnan(error) or error <= 0:
        return 3
    return min(max(-math.floor(math.log10(error)), 0), MAX_DECIMALS)


def shown_number(value: Any, decimals: int = 3, signed: bool = False) -> str:
    """Return a number for a table: `—` for NaN, with a sign on request, but none for 0."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "—"
    text = f"{value:{'+' if signed else ''}.{decimals}f}"
    return text if text.strip("+-0.") else text.lstrip("+-")


def decimals_within(low: float, high: float, least: int = 2) -> int:
    """Return the decimals of a value by its 95 % interval, and so many that a bound isn't 0.

    An interval that leaves out 0 is shown as one that does: words that go by it stand beside it.
    """
    places = max(decimals_for((high - low) / 4), least)
    nearest = min(abs(low), abs(high))
    return decimals_beside(nearest, 0.0, True, places) if low * high > 0 else places


def decimals_beside(value: float, limit: float, is_beyond: bool, decimals: int) -> int:
    """Return how many decimals a value needs to be seen beyond a limit, or not beyond it."""
    for places in range(decimals, EXACT):
        if (float(f"{value:.{places}f}") > limit) == is_beyond:
            return places
    return EXACT


def shown_interval(value: Any, low: Any, high: Any, decimals: int = 3, signed: bool = False) -> str:
    """Return a value with its interval, `.85 [.79, .91]`; the value alone without an interval."""
    texts = [shown_number(number, decimals, signed) for number in (value, low, high)]
    return texts[0] if "—" in texts[1:] else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def shown_intervals(rows: pd.DataFrame, signed: bool = False) -> list[str]:
    """Return each row of value, low and high as text, as precise as its interval is worth."""
    return [
        shown_interval(value, low, high, max(decimals_for((high - low) / 4), 2), signed)
        for value, low, high in rows.astype("float64").itertuples(index=False)
    ]


def shown_p(p: float) -> str:
    """Return a p value for a table, with so many decimals that it is seen below .05, or not."""
    if math.isnan(p):
        return "—"
    if p < 0.001:
        return "< .001"
    places = next(
        (n for n in range(3, EXACT) if (float(f"{p:.{n}f}") < ALPHA) == (p < ALPHA)), EXACT
    )
    return f"{p:.{places}f}".removeprefix("0")


def shown_n(n: int, n_expected: int, other: int | None = None) -> str:
    """Return "n / expected" for a table; with `other`, the number expected of the candidate."""
    if other is None or other == n_expected:
        return f"{n} / {n_expected}"
    return f"{n} / {n_expected} (baseline), {other} (candidate)"


def shown_quantile(low: float, high: float, decimals: int = 0) -> str:
    """Return an order-statistic interval for a table; "n too small" where a bound is missing."""
    first, last = f"{low:.{decimals}f}", f"{high:.{decimals}f}"
    if math.isnan(high):
        return "n too small" if math.isnan(low) else f"from {first} up; n too small above"
    return f"up to {last}; n too small below" if math.isnan(low) else f"[{first}, {last}]"


def markdown_table(frame: pd.DataFrame) -> str:
    """Return a frame as a Markdown table without its index.

    NaN is `—`. Texts are shown, never followed: see `markdown_cell`.
    """
    header = [_cell(name) for name in frame.columns]
    rows = [[_cell(value) for value in row] for row in frame.astype(object).to_numpy().tolist()]
    is_number = [pd.api.types.is_numeric_dtype(dtype) for dtype in frame.dtypes]
    rule = ["---:" if number else "---" for number in is_number]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return shown_number(value)
    if value is None or value is pd.NA:
        return "—"
    return markdown_cell(value)
