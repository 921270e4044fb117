"""Metadata of hits.

Which row belongs to which hit, and which hits have the values that a condition asks for.

In: `hits`, their metadata (`Results.hit_meta`, one row per hit and key) and conditions. Out: row
positions.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import (
    Codes,
    blocks,
    equal_pairs,
    lookup,
    map_pieces,
    select_rows,
    small_lookup,
)

DENSE = 4  # cells of a table per row: up to here it takes less than sorting
# of the table that sifts out codes, for each one that it knows: few enough to stay in the
# processor's cache
CELLS = 16


def rows_of(meta: pd.DataFrame, hits: pd.DataFrame, queries: pd.Index) -> Codes:
    """Position in `hits` of the hit that each row of metadata belongs to, -1 where it is none of these queries' hits."""
    if not len(meta) or not len(hits) or not len(queries):
        return np.full(len(meta), -1)
    runs = pd.Index(hits["run_id"].astype("category").cat.categories.astype("str"))
    highest = int(max(hits["rank"].max(), meta["rank"].max())) + 1

    def key(frame: pd.DataFrame) -> Codes:
        run, query, rank = (
            small_lookup(frame["run_id"], runs),
            small_lookup(frame["query_id"], queries),
            frame["rank"].to_numpy(),
        )
        found = np.empty(len(frame), dtype=np.int64)

        def fill(first: int, last: int) -> None:
            for rows in blocks(first, last):
                cell = run[rows].astype(np.int64) * len(queries) + query[rows]
                found[rows] = np.where(
                    (run[rows] < 0) | (query[rows] < 0), -1, cell * highest + rank[rows]
                )

        map_pieces(len(frame), fill)
        return found

    of_hits, of_meta = key(hits), key(meta)
    if len(runs) * len(queries) * highest <= DENSE * (len(hits) + len(meta)):
        table = np.full(len(runs) * len(queries) * highest + 1, -1)  # the last place is that of -1
        # backwards, so that of two hits in one place the first stands there
        table[of_hits[::-1]] = np.arange(len(hits))[::-1]
        table[-1] = -1
        return table[of_meta]
    asked = np.flatnonzero(of_hits >= 0)
    if not len(asked):
        return np.full(len(meta), -1)
    asked = asked[np.argsort(of_hits[asked], kind="stable")]
    ordered = of_hits[asked]
    place = np.minimum(np.searchsorted(ordered, of_meta), len(ordered) - 1)
    return np.where((ordered[place] == of_meta) & (of_meta >= 0), asked[place], -1)


def with_metadata(
    hits: pd.DataFrame,
    meta: pd.DataFrame,
    row: Codes,
    conditions: pd.DataFrame,
    needing_all_of: pd.Index,
) -> pd.DataFrame:
    """Pairs (`hit`, `target`) of which any condition holds; for some questions, all.

    Parameters
    ----------
    row
        The hit of each row of metadata, from `rows_of`.
    conditions
        One row per condition: query_id, `target` (a row position), key, value.
    """
    keys, queries = pd.Index(conditions["key"].unique()), pd.Index(conditions["query_id"].unique())
    if not len(keys):
        return pd.DataFrame({"hit": row[:0], "target": row[:0]})
    key = small_lookup(meta["key"], keys)
    asked = np.flatnonzero((row >= 0) & (key >= 0))
    value, asked_value = _value_codes(meta["value"], asked, conditions["value"])
    asked_place = lookup(conditions["query_id"], queries) * len(keys) + lookup(
        conditions["key"], keys
    )
    query, n_values = small_lookup(hits["query_id"], queries), int(asked_value.max(initial=0)) + 1

    def code(rows: slice) -> Codes:
        place = query[row[asked[rows]]].astype(np.int64) * len(keys) + key[asked[rows]]
        return np.where((place < 0) | (value[rows] < 0), -1, place * n_values + value[rows])

    known, condition = _equal_few(code, len(asked), asked_place * n_values + asked_value)
    return _held(row[asked[known]], condition, conditions, needing_all_of)


def _held(
    hit: Codes, condition: Codes, conditions: pd.DataFrame, needing_all_of: pd.Index
) -> pd.DataFrame:
    """The hits and targets of which enough conditions hold.

    One row per condition that holds comes in.
    """
    targets, of_condition = np.unique(conditions["target"].to_numpy(np.int64), return_inverse=True)
    of_condition = of_condition.astype(np.int64)
    is_strict = lookup(conditions["query_id"], needing_all_of) >= 0
    n_needed = np.maximum(np.bincount(of_condition[is_strict], minlength=len(targets)), 1)
    cells, n_held = np.unique(
        hit * max(len(targets), 1) + of_condition[condition], return_counts=True
    )
    hit, target = np.divmod(cells, max(len(targets), 1))
    enough = n_held >= n_needed[target]
    return pd.DataFrame({"hit": hit[enough], "target": targets[target[enough]]})


def _equal_few(left: Callable[[slice], Codes], n: int, right: Codes) -> tuple[Codes, Codes]:
    """`equal_pairs` where most of n codes `left` equal none of the few `right`.

    Those are sifted out by a table first, block by block.
    """
    mask = (1 << (CELLS * len(right)).bit_length()) - 1
    marked = np.zeros(mask + 1, dtype=bool)
    marked[right & mask] = True

    def of_block(rows: slice) -> tuple[Codes, Codes]:
        here = left(rows)
        some = np.flatnonzero(marked[here & mask] & (here >= 0))
        return rows.start + some, here[some]

    some, codes = select_rows(n, of_block)
    place, found = equal_pairs(codes, right)
    return some[place], found


def _value_codes(values: pd.Series, rows: Codes, wanted: pd.Series) -> tuple[Codes, Codes]:
    """Codes of JSON values that are equal if they match one of the `wanted`.

    Of `values` in these rows (-1: none of them), and of `wanted`.
    """
    # One look at each different value, however many hits have it. Taking texts costs as much as
    # encoding them: few are taken first, many afterwards.
    codes, names = pd.factorize(values if 2 * len(rows) > len(values) else values.take(rows))
    codes = codes[rows] if 2 * len(rows) > len(values) else codes
    wanted_codes, wanted_names = pd.factorize(wanted)
    forms: dict[str, int] = {}
    of_wanted = np.array(
        [forms.setdefault(_form(json.loads(name)), len(forms)) for name in wanted_names.tolist()],
        dtype=np.int64,
    )
    is_used = np.zeros(len(names) + 1, dtype=bool)
    is_used[codes] = True
    texts = names.tolist()
    of_names = np.full(len(names) + 1, -1)
    for place in np.flatnonzero(is_used[:-1]).tolist():
        of_names[place] = forms.get(_form(json.loads(texts[place])), -1)
    return of_names[codes], of_wanted[wanted_codes]


def _form(value: Any) -> str:
    """JSON values in a form that is equal if they match.

    Texts in lower case, numbers by value, types apart.
    """
    if isinstance(value, str):
        return f"text {value.lower()}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{type(value).__name__} {json.dumps(value, sort_keys=True)}"


def readable(values: pd.Series) -> tuple[list[str], npt.NDArray[np.intp]]:
    """JSON values as texts in lower case, each different one once, and the place of every value among them."""
    codes, names = pd.factorize(values)
    return [_readable(name).lower() for name in names.tolist()], codes


def _readable(written: str) -> str:
    value = json.loads(written)
    return "" if value is None else value if isinstance(value, str) else written
