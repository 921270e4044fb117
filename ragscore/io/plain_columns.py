"""Columns of judgements that files of qrels share."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ragscore.frames.codes import all_differ, pair_numbers
from ragscore.frames.data import empty
from ragscore.frames.typing import Codes

LEVELS = {"doc": "doc_id", "chunk": "chunk_id"}


def series_of(texts: pa.Array) -> pd.Series:
    """Return texts as a column, which shares their memory."""
    return pd.Series(pd.array(texts, dtype="str"))


def first_rows(query: Codes, ids: pd.Series, grade: npt.NDArray[Any]) -> Codes | None:
    """Return the first row of each query and id, in order; None if another has another grade."""
    pair = pair_numbers(query, ids)
    if all_differ(pair):
        return np.arange(len(pair))
    _, first, group = np.unique(pair, return_index=True, return_inverse=True)
    return np.sort(first) if (grade == grade[first][group]).all() else None


def judged_targets(
    query_ids: pd.Series, query: Codes, level: str, ids: pd.Series, grade: npt.NDArray[Any]
) -> pd.DataFrame:
    """Return the frame `targets`, one row for each judged id of the query at a place."""
    if not len(ids):
        return empty("targets")
    ids, of_query = (one.reset_index(drop=True) for one in (ids, query_ids.take(query)))
    columns = {"query_id": of_query, "level": level, "target_id": ids, "alternative": 0}
    return pd.DataFrame(columns | {"grade": grade, LEVELS[level]: ids})
