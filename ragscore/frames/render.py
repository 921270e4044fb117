"""Reports and their frames as JSON that reloads into the same.

Rows as objects, and the dtype of every column beside them.

NaN and NA are null; which of them it was, and what an empty frame's columns are, the dtypes tell. A
report is a dataclass or a named tuple: its fields are the keys of the JSON.
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
