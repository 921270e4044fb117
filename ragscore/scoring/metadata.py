"""Metadata of hits: which hit each row belongs to, and which hits meet metadata conditions.

In: `hits`, their metadata (`Results.hit_meta`, one row per hit and key) and conditions. Out: row
positions.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import blocks, equal_pairs, lookup, map_pieces, select_rows, small_lookup
from ragscore.frames.typing import Codes, Flags

DENSE = 4  # cells of a table per row: up to here a table takes less time than sorting
# Cells of the sieve in `_equal_few` per code that it knows: few enough to stay in the processor's
# cache, enough that fifteen of sixteen other codes are dropped at once.
CELLS = 16


def rows_of(meta: pd.DataFrame, hits: pd.DataFrame, queries: pd.Index) -> Codes:
    """Return the position in `hits` of each metadata row's hit, -1 if it is none of these queries.

    Of several hits at one run, query and rank, the first counts.
    """
    if not len(meta) or not len(hits) or not len(queries):
        return np.full(len(meta), -1)
    runs = pd.Index(hits["run_id"].astype("category").cat.categories.astype("str"))
    highest = int(max(hits["rank"].max(), meta["rank"].max())) + 1
    n_keys = len(runs) * len(queries) * highest

    def key(frame: pd.DataFrame) -> Codes:
        run, query = small_lookup(frame["run_id"], runs), small_lookup(frame["query_id"], queries)
        rank, found = frame["rank"].to_numpy(), np.empty(len(frame), dtype=np.int64)

        def fill(first: int, last: int) -> None:
            for rows in blocks(first, last):
                # int64 before multiplying: 32-bit codes overflow without a word.
                cell = run[rows].astype(np.int64) * len(queries) + query[rows]
                is_unknown = (run[rows] < 0) | (query[rows] < 0)
                found[rows] = np.where(is_unknown, -1, cell * highest + rank[rows])

        map_pieces(len(frame), fill)
        return found

    of_hits, of_meta = key(hits), key(meta)
    if n_keys <= DENSE * (len(hits) + len(meta)):
        table = np.full(n_keys + 1, -1)  # the last place is that of -1
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
    """Return the pairs (`hit`, `target`) of which any condition holds; for some queries, all.

    Parameters
    ----------
    row
        The hit of each row of metadata, from `rows_of`.
    conditions
        One row per condition: query_id, `target` (a row position), key, value.
    needing_all_of
        The queries for which all conditions of a target have to hold.
    """
    keys, queries = pd.Index(conditions["key"].unique()), pd.Index(conditions["query_id"].unique())
    if not len(keys):
        return pd.DataFrame({"hit": row[:0], "target": row[:0]})
    key = small_lookup(meta["key"], keys)
    values, is_asked = meta["value"], (row >= 0) & (key >= 0)
    if 2 * is_asked.sum() < len(meta):  # taking texts costs as much as encoding them
        asked = np.flatnonzero(is_asked)
        values, row, key, is_asked = values.take(asked), row[asked], key[asked], is_asked[asked]
    value, wanted_value = _value_codes(values, is_asked, conditions["value"])
    n_values = int(wanted_value.max(initial=0)) + 1
    wanted_query = lookup(conditions["query_id"], queries)
    wanted_place = wanted_query * len(keys) + lookup(conditions["key"], keys)
    query = small_lookup(hits["query_id"], queries)

    def code(rows: slice) -> Codes:
        place = query[row[rows]].astype(np.int64) * len(keys) + key[rows]
        return np.where((place < 0) | (value[rows] < 0), -1, place * n_values + value[rows])

    holding, condition = _equal_few(code, len(row), wanted_place * n_values + wanted_value)
    targets, of_condition = np.unique(conditions["target"].to_numpy(np.int64), return_inverse=True)
    of_condition = of_condition.astype(np.int64)
    is_strict = lookup(conditions["query_id"], needing_all_of) >= 0
    n_needed = np.maximum(np.bincount(of_condition[is_strict], minlength=len(targets)), 1)
    # One cell per hit and target, counted once for each condition that holds.
    n_targets = max(len(targets), 1)
    # Nearly in order, they take a stable sort a twentieth of the time of another.
    cells = np.sort(row[holding] * n_targets + of_condition[condition], kind="stable")
    begins = np.flatnonzero(np.diff(cells, prepend=-1))
    n_held = np.diff(begins, append=len(cells))
    hit, target = np.divmod(cells[begins], n_targets)
    enough = n_held >= n_needed[target]
    return pd.DataFrame({"hit": hit[enough], "target": targets[target[enough]]})


def _equal_few(left: Callable[[slice], Codes], n: int, right: Codes) -> tuple[Codes, Codes]:
    """Return `equal_pairs` where most of n codes `left` equal none of the few `right`.

    A table sifts those out first, block by block.
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


def _value_codes(values: pd.Series, is_asked: Flags, wanted: pd.Series) -> tuple[Codes, Codes]:
    """Return codes of JSON values, equal where a value matches a wanted one.

    The codes of `values` (-1: not asked for, or matches none), and those of `wanted`.
    """
    wanted_codes, wanted_names = pd.factorize(wanted)
    forms: dict[str, int] = {}
    of_wanted = np.array(
        [forms.setdefault(_form(json.loads(name)), len(forms)) for name in wanted_names.tolist()],
        dtype=np.int64,
    )

    @cache  # each distinct value is read once, however many hits have it
    def code(name: str) -> int:
        return forms.get(_form(json.loads(name)), -1)

    def of_piece(first: int, last: int) -> Codes:
        codes, names = pd.factorize(values.iloc[first:last])
        codes[~is_asked[first:last]] = -1
        is_used = np.zeros(len(names) + 1, dtype=bool)
        is_used[codes] = True
        of_names = np.full(len(names) + 1, -1)
        of_names[:-1][is_used[:-1]] = [code(name) for name in names[is_used[:-1]].tolist()]
        return of_names[codes]

    return np.concatenate(map_pieces(len(values), of_piece)), of_wanted[wanted_codes]


def _form(value: Any) -> str:
    """Return a text that is equal for JSON values that match.

    Texts in lower case, numbers by value, types apart; true is 1 and false 0, and null is "", as in
    the harness that judges by metadata.
    """
    if isinstance(value, str) or value is None:
        return f"text {(value or '').lower()}"
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{type(value).__name__} {json.dumps(value, sort_keys=True)}"


def lowered_texts(values: pd.Series) -> tuple[list[str], npt.NDArray[np.intp]]:
    """Return the distinct JSON values as texts in lower case, and each value's place among them."""
    codes, names = pd.factorize(values)
    texts = []
    for name in names.tolist():
        value = json.loads(name)
        text = value if isinstance(value, str) else "" if value is None else name
        texts.append(text.lower())
    return texts, codes
