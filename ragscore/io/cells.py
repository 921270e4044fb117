"""Columns of tables as ids, texts, numbers or flags; other values are problems with their line.

Queries and passages without an id get one that is made of their text.
"""

import hashlib
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pandas.api.types import is_bool_dtype, is_float_dtype, is_integer_dtype, is_numeric_dtype

from ragscore.frames.codes import arrow_texts, coded, codes_of
from ragscore.frames.typing import Codes, Flags
from ragscore.io.files import LONGEST_ID, has_limits
from ragscore.io.run_records import Level, Values, series, values_of
from ragscore.io.source import Problems, as_id, as_text, describe
from ragscore.io.values import ID_ALLOWED, VERDICTS, as_json, as_number, plain, plain_cell

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
        # infinite numbers and half surrogate pairs, which `plain_cell` refuses, are shown, too
        found = found or f"found {describe(plain(column.iloc[row], lambda one: one))}"
        more = f" ({n} of {len(is_bad)} rows are like that)" if n > 1 else ""
        self.problems.add(
            found + more, line=int(self.lines[row]), field=str(column.name), allowed=allowed
        )
        if drops:
            self.keep &= ~is_bad

    def ids(self, column: pd.Series, role: str, is_needed: bool = True) -> pd.Series:
        """Return ids as text; booleans, dates and decimal numbers are problems."""
        if (texts := _plain_texts(column)) is None:
            values = [as_id(plain_cell(one)) for one in column]
            texts = pd.Series(values, column.index, dtype="str", name=column.name)
        lengths = texts.str.len().to_numpy("float64", na_value=0)
        is_bad = (lengths == 0) & (is_needed | column.notna())
        if has_limits():
            is_bad |= lengths > LONGEST_ID
        allowed = f"{ID_ALLOWED}, in every row" if is_needed else ID_ALLOWED
        self.report(column, is_bad, f'{allowed}; columns={{"{role}": None}} if it is no {role}')
        return texts

    def take(self, column: pd.Series, type: str, allowed: str = "") -> pd.Series:
        """Return a column as one of a type; texts and numbers are read as what they say."""
        if type in WIDTHS:
            return self.numbers(column, type)
        read, needed = READ.get(type, READ["text"])
        if read is _text and (texts := _plain_texts(column)) is not None:
            return texts
        values = [None if (value := plain_cell(one)) is None else read(value) for one in column]
        dtype = "boolean" if read is _flag else "str"
        found = pd.Series(values, column.index, dtype=dtype, name=column.name)
        if needed:
            is_bad = found.isna() & column.notna()
            self.report(column, is_bad, allowed or needed, drops=self.drops)
        return found

    def numbers(self, column: pd.Series, type: str = "number") -> pd.Series:
        """Return a column as numbers; other texts are none, nor are decimals whole ones."""
        if is_bool_dtype(column.dtype) or not is_numeric_dtype(column.dtype):
            known, floats = _written(column)
        else:
            known, floats = column.notna().to_numpy(), column.to_numpy("float64", na_value=np.nan)
        wrong = np.isnan(floats) & known
        if type != "number":
            most = 2 ** (31 if type == "rank" else 53)
            is_whole = (np.floor(floats) == floats) & (np.abs(floats) < most)
            wrong |= ~is_whole & (known | (type == "rank"))
        allowed = "a finite number" if type == "number" else "a whole number"
        self.report(column, wrong, allowed, drops=self.drops)
        found = np.where(wrong, 1 if type == "rank" else np.nan, floats)
        return pd.Series(found, column.index, name=column.name).astype(WIDTHS[type])


def _plain_texts(column: pd.Series) -> pd.Series | None:
    """Return a column of texts or whole numbers as texts; None where each value is looked at."""
    dtype: Any = column.dtype
    dtype = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    known = column.dropna() if is_float_dtype(dtype) else None
    if known is not None and ((known % 1 == 0) & (known.abs() < 2**53)).all():
        column = column.astype("Int64")  # whole numbers with a gap
    is_plain = isinstance(dtype, pd.StringDtype) or is_integer_dtype(column.dtype)
    return column.astype("str") if is_plain else None


def _written(column: pd.Series) -> tuple[Flags, npt.NDArray[np.float64]]:
    """Return which values are stated, and the numbers that texts say, NaN for others."""
    if isinstance(column.dtype, pd.StringDtype):
        with suppress(pa.ArrowInvalid):  # many times as fast, for plain numbers only
            floats = arrow_texts(column).cast(pa.float64()).to_numpy()
            if not np.isinf(floats).any():
                return ~np.isnan(floats), floats
    texts = column.astype("str").str.strip().str.lower()
    is_known = column.notna() & ~texts.isin(["", "nan"])
    found = pd.to_numeric(texts, errors="coerce")
    # what overflows is no infinity
    found = found.mask(np.isinf(found) & ~texts.str.contains("inf", na=False))
    return is_known.to_numpy(bool), found.to_numpy("float64", na_value=np.nan)


def _text(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else as_text(value)


def _answer(value: Any) -> str | None:
    """Return a text, the only one of a list, or the text of the blocks of a message."""
    if not isinstance(value, list):
        return _text(value)
    blocks = [one.get("text") for one in value if isinstance(one, dict)]
    texts: list[Any] = blocks if blocks and len(blocks) == len(value) else value
    is_one = texts is blocks or len(texts) == 1
    return "".join(texts) if is_one and all(isinstance(one, str) for one in texts) else None


def _failure(value: Any) -> str | None:
    """Return why a query failed; blank text, false, 0 and empty values say that it didn't."""
    if not value or str(value).strip() in ("", "0"):
        return None
    return as_json(value) if isinstance(value, (dict, list)) else _text(value)


def _flag(value: Any) -> bool | None:
    """Return a value that says true or false as such; yes / no and 1 / 0 are two."""
    word = value.strip().lower() if isinstance(value, str) else value
    found = VERDICTS.get(word, as_number(word)) if isinstance(word, str) else word
    return bool(found) if isinstance(found, (int, float)) and found in (0, 1) else None


READ: dict[str, tuple[Callable[[Any], Any], str]] = {
    "text": (_text, "text"),
    "answer": (
        _answer,
        "one text, or the blocks of a message; columns= reaches into a mapping, as output.text",
    ),
    "failure": (_failure, ""),
    "flag": (_flag, "true or false"),
    "refusal": (_flag, "true or false"),
}
"""Type of a column -> what reads one value of it, or gives None, and what is allowed."""


def column_of(values: Values) -> pd.Series:
    """Return values as a column of one type, else of Python's objects."""
    found = values_of(values) if isinstance(values, list) else values
    return pd.Series(found, dtype=object) if isinstance(found, list) else series(found)


def own_columns_of(fields: dict[str, Values], lines: Codes) -> dict[str, pd.Series]:
    """Return fields as `x_<name>`: mappings become one column per key, lists JSON."""
    found: dict[str, Any] = {}
    Level(fields, lines, "", Problems("", strict=False)).extras(found)
    return {name: series(values) for name, values in found.items()}


def plain_values(column: pd.Series) -> list[Any]:
    """Return a column's values as Python has them, None for missing ones."""
    return [plain_cell(one) for one in column]


# Ids of what has none


def hash_query(query: str) -> str:
    """Return an id for a query that has none: `q-` and 12 hex digits.

    The same query has the same id in every file. Letter case, spacing and Unicode form don't
    matter.
    """
    normal = " ".join(unicodedata.normalize("NFKC", query).casefold().split())
    return "q-" + hashlib.sha256(normal.encode("utf-8", "replace")).hexdigest()[:12]


def ids_of_queries(asked: pd.DataFrame, runs: Any = None) -> pd.Series:
    """Return an id for each query that has none: `hash_query` of its text.

    A text that a run, or a golden set, has in several places of conversations is several queries:
    their ids are these places, such as `s1/3`, or `s1/q-...` without turns. So are ids of rows
    without a text.

    Parameters
    ----------
    asked
        The columns `query` and, where they are known, `conversation` and `turn`.
    runs
        The run of each row; None: one run.
    """
    texts = asked.get("query", pd.Series(pd.NA, asked.index, dtype="str"))
    made = ids_made(texts.mask(texts.str.strip() == ""), hash_query)
    if "conversation" not in asked:
        return made
    turn = asked["turn"].fillna(made) if "turn" in asked else made
    place = asked["conversation"] + "/" + turn
    places = pd.DataFrame({"run": runs, "made": made, "place": place}).drop_duplicates()
    several = places.loc[places.duplicated(["run", "made"]), "made"]
    is_placed = (made.isin(several) | made.isna()) & place.notna()
    return made.mask(is_placed, place)


def ids_made(texts: pd.Series, make: Callable[[str], str]) -> pd.Series:
    """Return an id for each text of a query or passage, made from it."""
    found = coded(texts)
    made = pd.array([make(str(one)) for one in found.cat.categories], dtype="str")
    return pd.Series(made.take(codes_of(found), allow_fill=True), texts.index, name=texts.name)


def text_id(text: str) -> str:
    """Return an id for a passage that has none: `text-` and 12 hex digits."""
    return (
        "text-" + hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:12]
    )


def run_name_of(source: Path | pd.DataFrame) -> str:
    """Return the name of a run that has none: its file's, or "run"."""
    name = source.name.removesuffix(".gz") if isinstance(source, Path) else "run"
    return name.rsplit(".", 1)[0] or name
