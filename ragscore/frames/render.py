"""Reports and their frames as JSON that reloads into the same.

Rows as objects, and the dtype of every column beside them.

NaN and NA are null; which of them it was, and what an empty frame's columns are, the dtypes tell. A
report is a dataclass or a named tuple: its fields are the keys of the JSON.

Frames as text that people read: Markdown, and numbers rounded for display. Computes nothing.
"""

import json
import math
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, TypeVar, get_type_hints

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, records_of

T = TypeVar("T")
ALLOWED = "the JSON that to_json wrote"
ENDLESS = {math.inf: "Infinity", -math.inf: "-Infinity"}  # JSON has no number for it


def dump(report: Any, **more: Any) -> str:
    """A report as JSON: its fields, those of `more` instead of or beside them."""
    return json.dumps(content_of(report, **more), ensure_ascii=False, allow_nan=False)


def content_of(report: Any, **more: Any) -> dict[str, Any]:
    """What JSON holds of a report.

    Frames as rows and `dtypes`, reports inside it in the same way, all else as it is; NaN as None.
    """
    values = {
        name: getattr(report, name) for name in _names(type(report)) if name not in more
    } | more
    frames = {name: value for name, value in values.items() if isinstance(value, pd.DataFrame)}
    return {name: _plain(value) for name, value in values.items()} | {
        "dtypes": {name: dtypes_of(frame) for name, frame in frames.items()}
    }


def reload(report: type[T], text: str, **read: Callable[[Any], Any]) -> T:
    """The report that `dump` wrote.

    `read` makes a field from what the JSON holds, or from the frame that it holds.

    Raises
    ------
    DataError
        No JSON, or not that of such a report.
    """
    return from_content(report, parse(text), **read)


def from_content(report: type[T], content: Any, **read: Callable[[Any], Any]) -> T:
    """The report that `content_of` took apart."""
    require(content, ("dtypes", *_names(report)))
    found = {}
    for name, kind in get_type_hints(report).items():
        value = (
            frame_of(content[name], content["dtypes"][name], name)
            if name in content["dtypes"]
            else content[name]
        )
        found[name] = read[name](value) if name in read else _typed(value, str(kind))
    return report(**found)


def parse(text: str, allowed: str = ALLOWED) -> Any:
    """What a JSON text holds."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"no JSON: {error}", field="text", allowed=allowed) from error


def require(content: Any, names: tuple[str, ...], allowed: str = ALLOWED) -> None:
    """Stop unless the content is an object with all these keys."""
    if missing := [name for name in names if not isinstance(content, dict) or name not in content]:
        raise DataError(f"no {', '.join(missing)}", field="text", allowed=allowed)


def dtypes_of(frame: pd.DataFrame) -> dict[str, Any]:
    """Column -> dtype, in order, as `frame_of` reads them."""
    return {str(name): _dtype(dtype) for name, dtype in frame.dtypes.items()}


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON writes them: None for what is missing, times as ISO text."""
    texts = {
        str(name): frame[name].astype("str")
        for name in frame.columns
        if isinstance(frame[name].dtype, pd.DatetimeTZDtype)
    }
    texts |= {
        str(name): frame[name].astype("object").replace(ENDLESS)
        for name in frame.columns
        if frame[name].dtype == "float64" and np.isinf(frame[name]).any()
    }
    return records_of(frame.assign(**texts))


def frame_of(rows: Any, dtypes: Any, field: str) -> pd.DataFrame:
    """The frame that `rows_of` and `dtypes_of` were made from.

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
        wanted: dict[Any, Any] = {name: _read_dtype(dtype) for name, dtype in dtypes.items()}
        return pd.DataFrame(
            {name: pd.Series([row[name] for row in rows], dtype="object") for name in wanted}
        ).astype(wanted)
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(" ".join(str(error).split()), field=field, allowed=ALLOWED) from error


def _names(report: type) -> list[str]:
    return list(get_type_hints(report))


def _plain(value: Any) -> Any:
    """A field's value as JSON holds it."""
    if isinstance(value, pd.DataFrame):
        return rows_of(value)
    if is_dataclass(value) and not isinstance(value, type):
        return content_of(value)
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and math.isnan(value) else value


def _typed(value: Any, kind: str) -> Any:
    """What JSON has no type for: tuples, and NaN where a number stands."""
    if isinstance(value, list) and kind.startswith("tuple"):
        return tuple(value)
    return math.nan if value is None and kind == "<class 'float'>" else value


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


MAX_DECIMALS = 4


def decimals_for(error: float) -> int:
    """How many decimals are worth showing beside a standard error: .04 -> 2, .004 -> 3."""
    if math.isnan(error) or error <= 0:
        return 3
    return min(max(-math.floor(math.log10(error)), 0), MAX_DECIMALS)


def shown_number(value: Any, decimals: int = 3, signed: bool = False) -> str:
    """A number for a table: `—` for NaN, a sign where asked."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "—"
    return f"{value:{'+' if signed else ''}.{decimals}f}"


def shown_n(n: int, n_expected: int, other: int | None = None) -> str:
    """How many values a mean has, of how many that were expected; of both sides where these differ."""
    return (
        f"{n} / {n_expected}"
        if other is None or other == n_expected
        else f"{n} / {n_expected} (a), {other} (b)"
    )


def shown_detectable(verdict: str, p: float, mde: float, text: str) -> str:
    """The least difference that would have been found, beside a test that found none.

    Blank beside any other verdict, and where nothing was tested.
    """
    if verdict != "can't tell" or math.isnan(p):
        return ""
    return "not at this n" if math.isnan(mde) else text


def shown_quantile(low: float, high: float, decimals: int = 0) -> str:
    """An order-statistic interval for a table; "n too small" where there is no such bound."""
    if math.isnan(high):
        return (
            "n too small" if math.isnan(low) else f"from {low:.{decimals}f} up; n too small above"
        )
    return (
        f"{low:.{decimals}f} to {high:.{decimals}f}"
        if not math.isnan(low)
        else f"up to {high:.{decimals}f}; n too small below"
    )


def markdown_table(frame: pd.DataFrame) -> str:
    """A frame as a Markdown table, index left out.

    NaN is `—`, pipes and line breaks in texts are escaped.
    """
    header = [_cell(name) for name in frame.columns]
    numeric = [pd.api.types.is_numeric_dtype(frame[name]) for name in frame.columns]
    rows = [[_cell(value) for value in row] for row in frame.astype(object).to_numpy().tolist()]
    rule = ["---:" if is_number else "---" for is_number in numeric]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def markdown_line(text: str) -> str:
    """A text as one line of Markdown in which no tag or comment can open."""
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").split())


def markdown_lines(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose names and texts are such lines."""
    texts = table.rename(columns=lambda name: markdown_line(str(name)))
    return texts.map(lambda value: markdown_line(value) if isinstance(value, str) else value)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return shown_number(value)
    if value is None or value is pd.NA:
        return "—"
    return (
        str(value).replace("\\", "\\\\").replace("|", "\\|").replace("\r", " ").replace("\n", " ")
    )
