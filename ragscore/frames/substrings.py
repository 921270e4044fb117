"""Which texts hold which substrings: many pairs at once, each text read and lowered once."""

import numpy as np
import numpy.typing as npt
import pandas as pd

Codes = npt.NDArray[np.int64]


def is_held(
    wholes: list[str], whole: Codes, parts: list[str], part: Codes
) -> npt.NDArray[np.bool_]:
    """Whether `wholes[whole]` holds `parts[part]`, for every pair of places."""
    # Substring search has no column form in pandas where both sides vary by row.
    return np.fromiter(
        (parts[b] in wholes[a] for a, b in zip(whole.tolist(), part.tolist(), strict=True)),
        dtype=bool,
        count=len(whole),
    )


def taken_once(texts: pd.Series, rows: Codes) -> tuple[pd.Series, Codes]:
    """The texts of these rows (missing ones are empty), each row once, and the place of every row among them."""
    once, place = np.unique(rows, return_inverse=True)
    return texts.take(once).fillna(""), place.astype(np.int64)
