"""Columns of tables as ids, texts, numbers or flags; other values are problems with their line."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.types import is_bool_dtype, is_float_dtype, is_integer_dtype, is_numeric_dtype

from ragscore.frames.typing import Codes, Flags
from ragscore.io.files import LONGEST_ID, has_limits
from ragscore.io.rows import plain_cell
from ragscore.io.source import Problems, as_id, as_text, describe
from ragscore.io.values import ID_ALLOWED, as_json, loose_flag

WIDTHS = {"number": "float64", "whole": "Int64", "rank": "int32"}


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
        texts = plain_texts(column)
        if texts is None:
            known = column.astype(object)
            values = [None if one is None else as_id(plain_cell(one)) for one in known]
            texts = pd.Series(values, index=column.index, dtype="str", name=column.name)
            wrong = texts.isna().to_numpy() & column.notna().to_numpy()
            allowed = (
                f'an id: text or a whole number; columns={{"{role}": None}} if it is no {role}'
            )
            self.report(column, wrong, allowed)
            is_needed &= not wrong.any()
            if role == "run_id":
                is_text = known.map(lambda one: isinstance(one, str)).astype(bool)
                both = set(texts[is_text]) & set(texts[~is_text].dropna())
                is_same = is_text & texts.isin(both)
                self.report(column, is_same, "another name than the number's")
        if is_needed:
            is_blank = pc.fill_null(pc.equal(_lengths(texts), 0), True)
            self.report(texts, np.asarray(is_blank), "an id in every row")
        if has_limits() and (pc.max(_lengths(texts)).as_py() or 0) > LONGEST_ID:
            is_long = pc.fill_null(pc.greater(_lengths(texts), LONGEST_ID), False)
            self.report(texts, np.asarray(is_long), ID_ALLOWED)
        return texts

    def texts(self, column: pd.Series, allowed: str = "text") -> pd.Series:
        """Return texts as written; numbers keep their spelling, true is "true"."""
        if (texts := plain_texts(column)) is not None:
            return texts
        values = [_loose_text(plain_cell(one)) for one in column]
        texts = pd.Series(values, column.index, dtype="str", name=column.name)
        wrong = texts.isna().to_numpy() & column.notna().to_numpy()
        self.report(column, wrong, allowed, drops=self.drops)
        return texts

    def answers(self, column: pd.Series) -> pd.Series:
        """Return answers: texts, lists of one text, and the blocks of a message."""
        if column.dtype == object:
            column = column.map(_of_blocks, na_action="ignore")
        return self.texts(column, "one text, or the blocks of a message")

    def failures(self, column: pd.Series) -> pd.Series:
        """Return why queries failed; blank text, false, 0 and empty values say that they didn't."""
        if (texts := plain_texts(column)) is None:
            values = [_failure(plain_cell(one)) for one in column]
            texts = pd.Series(values, column.index, dtype="str")
        elif column.dtype != texts.dtype:  # numbers
            texts = texts.mask(texts == "0")
        return texts.mask(texts.str.strip().fillna("") == "")

    def numbers(self, column: pd.Series, type: str = "number") -> pd.Series:
        """Return a column as numbers; texts are none, nor decimals for whole ones."""
        dtype: Any = WIDTHS[type]
        kind = column.dtype
        is_number = is_numeric_dtype(kind) and not is_bool_dtype(kind)
        is_int = isinstance(kind, np.dtype) and kind.kind in "iu" and len(column) > 0
        if is_int and type == "rank" and column.min() >= -(2**31) and column.max() < 2**31:
            return column.astype("int32")
        numbers = column
        if not is_number:
            numbers = pd.to_numeric(column.astype("str"), errors="coerce")
            if column.dtype == object or is_bool_dtype(kind):
                numbers = numbers.mask(
                    column.map(lambda one: isinstance(one, (bool, np.bool_))).astype(bool)
                )
        floats = numbers.to_numpy("float64", na_value=np.nan)
        if is_number and type == "number":
            return pd.Series(floats, column.index, name=column.name)
        wrong = (numbers.isna() & column.notna()).to_numpy(dtype=bool)
        if not is_number:  # NaN as text is no number, and none is meant
            wrong = wrong & ~column.astype("str").str.strip().str.lower().isin(
                ("", "nan")
            ).to_numpy(bool)
        if type == "number":  # 1e999 and 10**400 overflow: they are no infinity
            is_written = column.astype("str").str.contains("inf", case=False).fillna(False)
            wrong = wrong | np.isinf(floats) & ~is_written.to_numpy(dtype=bool)
        else:
            is_whole = np.isfinite(floats) & (floats % 1 == 0) & (np.abs(floats) < 2**53)
            wrong = wrong | ~is_whole & (column.notna().to_numpy() | (type == "rank"))
        allowed = "a number" if type == "number" else "a whole number"
        self.report(column, wrong, allowed, drops=self.drops)
        floats = np.where(wrong, 1 if type == "rank" else np.nan, floats)
        found = pd.Series(floats, column.index, name=column.name)
        return found if type == "number" else found.astype(dtype)

    def flags(self, column: pd.Series) -> pd.Series:
        """Return a column as booleans; yes / no and 1 / 0 are two."""
        if is_bool_dtype(column.dtype):
            return column.astype("boolean")
        values = [loose_flag(plain_cell(one)) for one in column]
        found = [one if isinstance(one, bool) else None for one in values]
        wrong = [v is not None and f is None for v, f in zip(values, found, strict=True)]
        self.report(column, wrong, "true or false", drops=self.drops)
        return pd.Series(found, column.index, dtype="boolean", name=column.name)

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
    if isinstance(dtype, pd.CategoricalDtype) and isinstance(
        dtype.categories.dtype, pd.StringDtype
    ):
        column, dtype = column.astype("str"), "str"
    if isinstance(dtype, pd.StringDtype) or dtype == "str":
        return column if str(column.dtype) == "str" else column.astype("str")
    if is_float_dtype(dtype):
        floats = column.to_numpy("float64", na_value=np.nan)
        if not np.isinf(floats).any() and not (floats[~np.isnan(floats)] % 1).any():
            column = column.astype("Int64")  # whole numbers with a gap
    if not is_integer_dtype(column.dtype):
        return None
    written = pa.array(column.array).cast(pa.large_string())
    return pd.Series(pd.array(written, dtype="str"), index=column.index, name=column.name)


def _lengths(texts: pd.Series) -> pa.ChunkedArray:
    return pc.binary_length(pa.chunked_array(pa.array(texts.array)))


def _loose_text(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else as_text(value)


def _failure(value: Any) -> str | None:
    if not value:
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


def own_values(column: pd.Series) -> npt.NDArray[Any]:
    """Return a column's values as Python has them, None for missing ones."""
    values = np.empty(len(column), dtype=object)
    values[:] = [plain_cell(one) for one in column]
    return values
