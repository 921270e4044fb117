"""Frames as text that people read: Markdown, and numbers rounded for display. Computes nothing."""

import math
from typing import Any

import pandas as pd

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
