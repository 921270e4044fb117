"""Frames as JSON that reloads into the same frames: rows as objects, and the dtype of every column beside them.

NaN and NA are null; which of them it was, and what an empty frame's columns are, the dtypes tell.
"""

from typing import Any

import pandas as pd

from ragscore.frames import DataError, records_of


def dtypes_of(frame: pd.DataFrame) -> dict[str, str]:
    """Column -> dtype, in order, as `frame_of` reads them."""
    return {str(name): str(dtype) for name, dtype in frame.dtypes.items()}


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON writes them: None for what is missing, times as ISO text."""
    as_text = {name: frame[name].astype("str") for name in frame.columns if isinstance(frame[name].dtype, pd.DatetimeTZDtype)}
    return records_of(frame.assign(**as_text))


def frame_of(rows: Any, dtypes: Any, field: str) -> pd.DataFrame:
    """The frame that `rows_of` and `dtypes_of` were made from.

    Raises
    ------
    DataError
        Rows that are not objects with these columns, or a value that doesn't fit its dtype.
    """
    if not isinstance(dtypes, dict) or not isinstance(rows, list) or not all(isinstance(row, dict) and set(row) == set(dtypes) for row in rows):
        raise DataError("rows and dtypes that don't belong together", field=field, allowed="the JSON that to_json wrote")
    try:
        wanted: dict[Any, Any] = {name: str(dtype) for name, dtype in dtypes.items()}
        return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype="object") for name in wanted}).astype(wanted)
    except (TypeError, ValueError) as error:
        raise DataError(" ".join(str(error).split()), field=field, allowed="the JSON that to_json wrote") from error
