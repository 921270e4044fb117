"""Columns of tables as ids, texts, numbers or flags; other values are problems with their line."""

from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pandas.api.types import is_bool_dtype, is_float_dtype, is_integer_dtype, is_numeric_dtype

from ragscore.frames.typing import Codes, Flags
from ragscore.io.files import LONGEST_ID, has_limits
from ragscore.io.run_records import Batch, Level, Values, series, values_of
from ragscore.io.source import Problems, as_id, as_text, describe
from ragscore.io.values import ID_ALLOWED, as_json, loose_flag, plain_cell

WIDTHS: dict[str, Any] = {"number": "float64", "whole": "Int64", "rank": "int32"}


class Cells:
    """Reads columns of rows whose lines are known.

    Attributes
    ----------
    keep
        The rows without a fault. Where `drops` is False, faulty values are missing instead, but for
        ids that are needed.
    """

    def __init__(self, problems: Problems, lines: Codes, drops: bool = False) -> None:
        self.problems, self.lines, self.drops = problems, lines, drops
        self.keep: Flags = np.ones(len(lines), bool)

    def report(
        self, column: pd.Series, is_bad: Any, allowed: str, found: str = "", drops: bool = True
    ) -> None:
        """Report rows that can't be taken, by the first of them, and drop them."""
        is_bad = np.asarray(is_bad, dtype=bool)
        if not is_bad.any():
            return
        row, n = int(is_bad.argmax()), int(is_bad.sum())
        value = column.iloc[row]
        is_infinite = isinstance(value, float) and np.isinf(value)  # which `plain_cell` refuses
        found = found or f"found {describe(value if is_infinite else plain_cell(value))}"
        more = f" ({n} of {len(is_bad)} rows are like that)" if n > 1 else ""
        self.problems.add(
            found + more, line=int(self.lines[row]), field=str(column.name), allowed=allowed
        )
        if drops:
            self.keep &= ~is_bad

    def ids(self, column: pd.Series, role: str, is_needed: bool = True) -> pd.Series:
        """Return ids as text; booleans, dates and decimal numbers are problems.

        So is 1 beside "1" for runs: these may be two. For documents and queries they are one.
        """
        if (texts := plain_texts(column)) is None:
            values = [as_id(plain_cell(one)) for one in column]
            texts = pd.Series(values, column.index, dtype="str", name=column.name)
            wrong = (texts.isna() & column.notna()).to_numpy()
            allowed = (
                f'an id: text or a whole number; columns={{"{role}": None}} if it is no {role}'
            )
            self.report(column, wrong, allowed)
            is_needed &= not wrong.any()
            if role == "run_id":
                is_text = column.map(lambda one: isinstance(one, str)).astype(bool)
                is_same = is_text & texts.isin(texts[~is_text].dropna())
                self.report(column, is_same, "another name than the number's")
        lengths = texts.str.len().to_numpy("float64", na_value=0)
        if is_needed:
            self.report(texts, lengths == 0, "an id in every row")
        if has_limits():
            self.report(texts, lengths > LONGEST_ID, ID_ALLOWED)
        return texts

    def texts(self, column: pd.Series, allowed: str = "text") -> pd.Series:
        """Return texts as written; numbers keep their spelling, true is "true"."""
        if (texts := plain_texts(column)) is None:
            values = [_loose_text(plain_cell(one)) for one in column]
            texts = pd.Series(values, column.index, dtype="str", name=column.name)
            self.report(column, texts.isna() & column.notna(), allowed, drops=self.drops)
        return texts

    def answers(self, column: pd.Series) -> pd.Series:
        """Return answers: texts, lists of one text, and the blocks of a message."""
        if column.dtype == object:
            column = column.map(_of_blocks, na_action="ignore")
        return self.texts(column, "one text, or the blocks of a message")

    def failures(self, column: pd.Series) -> pd.Series:
        """Return why queries failed; blank text, false, 0 and empty values say that they didn't."""
        values = [_failure(plain_cell(one)) for one in column]
        return pd.Series(values, column.index, dtype="str")

    def numbers(self, column: pd.Series, type: str = "number") -> pd.Series:
        """Return a column as numbers; texts are none, nor decimals for whole ones."""
        is_int = isinstance(column.dtype, np.dtype) and column.dtype.kind == "i"
        if is_int and len(column) and column.abs().max() < 2**31:
            return column.astype(WIDTHS[type])
        is_number = is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype)
        floats = (column if is_number else _written(column)).to_numpy("float64", na_value=np.nan)
        wrong = np.isnan(floats) & column.notna().to_numpy()
        if type != "number":
            is_whole = (np.floor(floats) == floats) & (
                np.abs(floats) < 2 ** (31 if type == "rank" else 53)
            )
            wrong |= ~is_whole & (column.notna().to_numpy() | (type == "rank"))
        elif not is_number:
            # NaN as text is no number, and none is meant; 1e999 overflows and is no infinity.
            odd = np.flatnonzero(wrong | np.isinf(floats))
            texts = [str(one).strip().lower() for one in column.iloc[odd]]
            wrong[odd] = ["inf" not in one and one not in ("", "nan") for one in texts]
        allowed = "a number" if type == "number" else "a whole number"
        self.report(column, wrong, allowed, drops=self.drops)
        found = np.where(wrong, 1 if type == "rank" else np.nan, floats)
        return pd.Series(found, column.index, name=column.name).astype(WIDTHS[type])

    def flags(self, column: pd.Series) -> pd.Series:
        """Return a column as booleans; yes / no and 1 / 0 are two."""
        if is_bool_dtype(column.dtype):
            return column.astype("boolean")
        values = [loose_flag(plain_cell(one)) for one in column]
        found = pd.Series(
            [one if isinstance(one, bool) else None for one in values],
            column.index, dtype="boolean", name=column.name,
        )  # fmt: skip
        wrong = found.isna().to_numpy() & [one is not None for one in values]
        self.report(column, wrong, "true or false", drops=self.drops)
        return found

    def take(self, column: pd.Series, type: str, role: str) -> pd.Series:
        """Return a column of a response as one of its type."""
        if role == "answer":
            return self.answers(column)
        if type in ("flag", "refusal"):
            return self.flags(column)
        if type == "failure":
            return self.failures(column)
        return self.numbers(column, type) if type in WIDTHS else self.texts(column)


def plain_texts(column: pd.Series) -> pd.Series | None:
    """Return a column of texts or whole numbers as texts; None where each value is looked at."""
    dtype: Any = column.dtype
    dtype = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    if isinstance(dtype, pd.StringDtype):
        return column.astype("str")
    if is_float_dtype(column.dtype):
        floats = column.to_numpy("float64", na_value=np.nan)
        if not np.isinf(floats).any() and not (floats[~np.isnan(floats)] % 1).any():
            column = column.astype("Int64")  # whole numbers with a gap
    if not is_integer_dtype(column.dtype):
        return None
    written = pa.array(column.array).cast(pa.large_string())
    return pd.Series(pd.array(written, dtype="str"), index=column.index, name=column.name)


def _written(column: pd.Series) -> pd.Series:
    """Return the numbers that values are written as, NaN for other values."""
    texts = column.astype("str")
    with suppress(pa.ArrowInvalid):  # many times as fast, for plain numbers only
        numbers = pa.array(texts.array).cast(pa.float64())
        return pd.Series(numbers.to_numpy(zero_copy_only=False), column.index)
    return pd.to_numeric(texts, errors="coerce")


def _loose_text(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else as_text(value)


def _failure(value: Any) -> str | None:
    if not value or str(value).strip() in ("", "0"):
        return None
    return as_json(value) if isinstance(value, (dict, list)) else _loose_text(value)


def _of_blocks(value: Any) -> Any:
    """Return the text of a list of one text, or of the blocks of a message; else the value."""
    value = plain_cell(value)
    if not isinstance(value, list):
        return value
    blocks = [one.get("text") for one in value if isinstance(one, dict)]
    texts: list[Any] = blocks if blocks and len(blocks) == len(value) else value
    is_one = texts is blocks or len(texts) == 1
    return "".join(texts) if is_one and all(isinstance(one, str) for one in texts) else value


def column_of(values: Values) -> pd.Series:
    """Return values as a column of one type, else of Python's objects."""
    if isinstance(values, list) and values and type(values[0]) is str:
        with suppress(pa.ArrowTypeError):  # not all are texts
            return series(pa.array(values, pa.string()))
    found = values_of(values) if isinstance(values, list) else values
    return pd.Series(found, dtype=object) if isinstance(found, list) else series(found)


def own_columns_of(fields: dict[str, Values], lines: Codes) -> dict[str, pd.Series]:
    """Return fields as `x_<name>`: mappings become one column per key, lists JSON."""
    found: dict[str, Any] = {}
    Level(fields, np.arange(len(lines)), "", Batch(lines)).extras(found)
    return {name: series(values) for name, values in found.items()}


def own_values(column: pd.Series) -> npt.NDArray[Any]:
    """Return a column's values as Python has them, None for missing ones."""
    values = np.empty(len(column), dtype=object)
    values[:] = [plain_cell(one) for one in column]
    return values
