"""Content hashes of the queries of a golden set, column by column.

In: frames with a `query_id`. Out: one hash per query of all its rows, whatever their order. A row
counts as `json.dumps([name of the frame, {column: value, ...}])`, columns in alphabetical order and
without missing values, so that an absent column and one of NA are the same content.
"""

import hashlib
import json
from functools import partial

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.codes import arrow_texts, lookup

_ESCAPED = r'[\x00-\x1f"\\]'  # what JSON escapes in a text
_json = partial(json.dumps, ensure_ascii=False, default=str)


def hashes_by_query(query_ids: pd.Series, frames: dict[str, pd.DataFrame]) -> pd.Series:
    """Return a hash of the rows of each query in all frames (index query_id)."""
    ids = pd.Index(query_ids, name="query_id")
    rows: list[list[str]] = [[] for _ in range(len(ids))]
    for name, frame in frames.items():
        of_query = lookup(frame["query_id"], ids).tolist()
        for query, row in zip(of_query, _rows(name, frame), strict=True):
            rows[query].append(row)
    digests = [hashlib.sha256("\n".join(sorted(own)).encode()).hexdigest()[:16] for own in rows]
    return pd.Series(digests, index=ids, dtype="str", name="query_hash")


def _rows(name: str, frame: pd.DataFrame) -> list[str]:
    """Return each row of a frame as JSON."""
    if not len(frame):
        return []
    # Joined once, since each step copies all texts. Every row has a query: commas lead to it.
    before, after, pieces = "", ", ", [f"[{_json(name)}, {{"]
    for column in sorted(map(str, frame)):
        if column == "query_id":
            after = ""
        piece = [f"{before}{_json(column)}: ", _values(frame[[column]]), after]
        pieces.append(pc.fill_null(_joined(piece), ""))
        if column == "query_id":
            before = ", "
    rows: list[str] = _joined([*pieces, "}]"]).to_pylist()
    return rows


def _values(column: pd.DataFrame) -> pa.Array:
    """Return the values of one column as JSON, null where missing."""
    held = column.iloc[:, 0]
    if held.dtype == "str":
        plain = arrow_texts(held).combine_chunks()
        if not pc.any(pc.match_substring_regex(plain, _ESCAPED)).as_py():
            return _joined(['"', plain, '"'])
    if isinstance(held.dtype, (pd.StringDtype, pd.CategoricalDtype)) or held.dtype.kind in "iub":
        codes, distinct = pd.factorize(held)  # each value is written once
        texts = pa.array(list(map(_json, distinct.tolist())), pa.large_string())
        return texts.take(pa.array(codes, mask=codes < 0))
    records = column.astype(object).where(column.notna(), None).to_dict("records")
    values = [value for record in records for value in record.values()]
    texts = [None if value is None else _json(value) for value in values]
    return pa.array(texts, pa.large_string())


def _joined(pieces: list[pa.Array | str]) -> pa.Array:
    """Join arrays, and texts for all rows; null where any is null."""
    typed = [pa.scalar(one, pa.large_string()) if isinstance(one, str) else one for one in pieces]
    return pc.binary_join_element_wise(*typed, pa.scalar("", pa.large_string()))
