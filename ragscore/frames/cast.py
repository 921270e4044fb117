"""Columns to their declared dtypes.

Nothing is rounded, wrapped or turned into text without saying so.

In: a column of any dtype. Out: the same values in the declared dtype, or a `DataError` that names
frame, column and first row. A column that has its dtype already costs nothing.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.types import (
    infer_dtype,
    is_bool_dtype,
    is_datetime64_any_dtype,
    is_float_dtype,
    is_integer_dtype,
    is_numeric_dtype,
    is_timedelta64_dtype,
)

from ragscore.frames.errors import DataError

EXACT = 2**53
"""Up to here every whole number is a float64 too."""


def cast(column: pd.Series, dtype: str, kind: str) -> pd.Series:
    """A column of the frame kind `kind` as `dtype`.

    Raises
    ------
    DataError
        A value that `dtype` can't hold as it is.
    """
    if str(column.dtype) == dtype:
        return column
    try:
        if dtype in ("str", "category"):
            return _text(column, dtype, kind)
        if dtype in ("int32", "int64", "Int64"):
            return _whole(column, dtype, kind)
        if dtype == "boolean" and column.dtype == object:
            return column.convert_dtypes().astype("boolean")
        if dtype.startswith("datetime64") and is_numeric_dtype(column) and column.notna().any():
            raise DataError(
                f"{column.dtype} values",
                field=f"{kind}.{column.name}",
                allowed="times (pandas Timestamps), not numbers",
            )
        return column.astype(dtype)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{column.dtype} values don't fit {dtype} ({error})", field=f"{kind}.{column.name}"
        ) from error


def refuse_rows(column: pd.Series, is_bad: np.ndarray, kind: str, allowed: str) -> None:
    """Raise a `DataError` that names frame, column and first row, if any row is bad.

    Rows are counted from 0.
    """
    if is_bad.any():
        row = int(is_bad.argmax())
        value = column.iloc[row]
        shown = (
            "NA"
            if pd.api.types.is_scalar(value) and pd.isna(value)
            else repr(value.item() if isinstance(value, np.generic) else value)
        )
        raise DataError(
            f"row {row} holds {shown} ({int(is_bad.sum())} of {len(column)} rows are like that)",
            field=f"{kind}.{column.name}",
            allowed=allowed,
        )


def _text(column: pd.Series, dtype: str, kind: str) -> pd.Series:
    """As text or as category of texts.

    Ids are text or whole numbers; other texts may be numbers of any kind.
    """
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    values = column.cat.categories.to_series() if is_category else column
    is_id = str(column.name).endswith("_id")
    text = _of_objects(column) if column.dtype == object else None
    if text is None and not _is_texts(values, is_id):
        allowed_types = (str, int, np.integer) if is_id else (str, int, float, np.number)
        plain = column.astype(object)
        is_bad = (
            plain.map(
                lambda value: (
                    isinstance(value, (bool, np.bool_)) or not isinstance(value, allowed_types)
                )
            )
            & plain.notna()
        )
        refuse_rows(
            column, is_bad.to_numpy(dtype=bool), kind, "text or whole numbers" if is_id else "text"
        )
    # its few texts are made and handed out: `astype` would make a text for every row
    if is_category:
        text = pd.Series(
            values.astype("str").array.take(column.cat.codes.to_numpy(), allow_fill=True),
            column.index,
            name=column.name,
        )
    elif text is None:
        text = column.astype("str")
    return text.astype("category") if dtype == "category" else text


def _of_objects(column: pd.Series) -> pd.Series | None:
    """Python objects of which arrow finds that all are texts, or missing.

    None where they are anything else. `astype` takes twice its time.
    """
    try:
        texts = pa.array(column.to_numpy(), from_pandas=True)
    except (pa.ArrowException, UnicodeError):
        return None
    return (
        pd.Series(
            pd.array(texts.cast(pa.large_string()), dtype="str"), column.index, name=column.name
        )
        if pa.types.is_string(texts.type)
        else None
    )


def _is_texts(values: pd.Series, is_id: bool) -> bool:
    """Whether a look at the dtype says already that the values may become text."""
    inferred = infer_dtype(values, skipna=True) if values.dtype == object else ""
    if isinstance(values.dtype, pd.StringDtype) or inferred in ("string", "integer", "empty"):
        return True
    return is_integer_dtype(values.dtype) or (not is_id and is_float_dtype(values.dtype))


def _whole(column: pd.Series, dtype: str, kind: str) -> pd.Series:
    """As whole numbers: no fraction is cut off and nothing wraps around."""
    low, high = (-(2**31), 2**31 - 1) if dtype == "int32" else (-(2**63), 2**63 - 1)
    allowed = f"whole numbers from {low} to {high}"
    if (
        is_bool_dtype(column.dtype)
        or is_datetime64_any_dtype(column.dtype)
        or is_timedelta64_dtype(column.dtype)
    ):
        refuse_rows(column, column.notna().to_numpy(dtype=bool), kind, allowed)
    numbers = (
        column
        if is_integer_dtype(column.dtype) or is_float_dtype(column.dtype)
        else _numbers(column)
    )
    unfit = column.notna() & numbers.isna()
    if dtype != "Int64":
        unfit |= column.isna()
    refuse_rows(column, unfit.to_numpy(dtype=bool), kind, allowed)
    is_bad = (numbers < low) | (numbers > high)
    if not is_integer_dtype(numbers.dtype):
        # 2**63 - 1 is no float: the next one up must not pass for it.
        is_bad |= (numbers % 1 != 0) & numbers.notna() | (numbers >= 2.0**63)
    refuse_rows(column, is_bad.fillna(False).to_numpy(dtype=bool), kind, allowed)
    return numbers.astype(dtype)  # type: ignore[call-overload]


def _numbers(column: pd.Series) -> pd.Series:
    """Objects or texts as numbers; NA where there is none, also for booleans."""
    if column.dtype != object:
        return pd.to_numeric(column, errors="coerce")
    if infer_dtype(column, skipna=True) == "integer":
        # None among whole numbers: a detour over floats would round the large ones.
        return column.mask(
            column.map(lambda value: isinstance(value, int) and not -(2**63) <= value < 2**63)
        ).astype("Int64")
    return pd.to_numeric(
        column.mask(column.map(lambda value: isinstance(value, (bool, np.bool_)))), errors="coerce"
    )
