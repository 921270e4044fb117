"""Rows of equal code and text, found by fingerprints of the texts.

A text is read where nothing cheaper tells.

In: codes and texts, as `codes` makes and takes them. Out: row positions and numbers.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ragscore.frames.codes import (
    Codes,
    SmallCodes,
    are_equal,
    arrow_texts,
    chunks_of,
    codes_of,
    distinct,
    is_encoded,
    lookup,
    picked,
)

Prints = npt.NDArray[np.uint64]

# of the table in `may_be_pairs` for each pair that it knows; one in so many others falls into a
# marked cell
CELLS = 32
# 2**64 / golden ratio: high bits of products with it spread neighbours (Knuth, The Art of Computer
# Programming 3, 6.4)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def fingerprints(column: pd.Series | pd.Index) -> Callable[[slice], Prints]:
    """A number for each text of `column`, equal where texts are equal.

    Made of its last 8 bytes and its length, for the rows asked for.

    Reading one word is many times cheaper than hashing a text to look it up; other texts may have
    the same number.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _of_codes(fingerprints(column.dtype.categories)(slice(None)), codes_of(column))
    if is_encoded(column) and len(chunks := chunks_of(column)) == 1:
        each = _prints(chunks[0].dictionary.cast(pa.large_string()))
        return _of_codes(each, chunks[0].indices.fill_null(-1).to_numpy(zero_copy_only=False))
    texts = arrow_texts(column)
    return lambda rows: np.concatenate(
        [np.zeros(0, np.uint64), *(_prints(chunk) for chunk in texts[rows].chunks)]
    )


def _of_codes(each: Prints, codes: npt.NDArray[np.integer]) -> Callable[[slice], Prints]:
    table = np.append(each, np.uint64(0))  # -1, which stands for no text, takes the last one
    return lambda rows: np.take(table, codes[rows])


def _prints(texts: pa.Array) -> Prints:
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return np.zeros(len(texts), np.uint64)
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    length, begin = np.diff(ends), int(ends[0])
    known = np.frombuffer(data, np.uint8)
    # Before the end of every text there must be 8 bytes.
    padded = (
        known[begin - 8 : ends[-1]]
        if begin >= 8
        else np.concatenate([np.zeros(8, np.uint8), known[begin : ends[-1]]])
    )
    last = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))[ends[1:] - begin]
    if length.min() < 8:
        # bytes that are not its own are shifted out
        last >>= (np.maximum(8 - length, 0) * 8).view(np.uint64)
    return last + length.view(np.uint64)


def may_be_pairs(
    codes: SmallCodes, prints: Callable[[slice], Prints], few_codes: Codes, few_prints: Prints
) -> tuple[Codes, Prints]:
    """Rows whose code and fingerprint may be one of the few pairs, and those fingerprints.

    Rows with a negative code never are.

    Each code has a handful of cells in a table, of which its fingerprints mark some: one look there
    is cheaper than the search that settles it, and as a run's hits lie query by query, that part of
    the table is in the cache.
    """
    n_codes = int(max(few_codes.max(initial=0), codes.max(initial=0))) + 1
    bits = int(CELLS * len(few_codes) / n_codes).bit_length()
    shift = np.uint64(64 - bits)

    def cells(of_codes: SmallCodes, of_prints: Prints) -> Codes:
        return (of_codes.astype(np.int64, copy=False) << bits) + (
            (of_prints * _GOLDEN) >> shift
        ).view(np.int64)

    marked = np.zeros(n_codes << bits, dtype=bool)
    marked[cells(few_codes, few_prints)] = True

    def of_block(rows: slice) -> tuple[Codes, Prints]:
        here = prints(rows)
        found = np.flatnonzero(marked[cells(codes[rows], here)])
        return rows.start + found, here[found]

    rows, here = picked(len(codes), of_block)
    asked = codes[rows] >= 0
    return rows[asked], here[asked]


def pair_keys(codes: SmallCodes, prints: Prints, n_codes: int) -> Codes:
    """One number for each code and fingerprint, ordered by code.

    Equal where both are, and hardly ever otherwise. -1 where the code is negative.
    """
    bits = n_codes.bit_length()
    return np.where(
        codes < 0,
        -1,
        (codes.astype(np.int64) << (63 - bits))
        | ((prints * _GOLDEN) >> np.uint64(bits + 1)).view(np.int64),
    )


def have_one_text(keys: Codes, column: pd.Series) -> bool:
    """Whether all rows of one key hold the same text."""
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(np.diff(keys[order]) == 0)
    return bool(are_equal(column, order[again], column, order[again + 1]).all())


def numbered(codes: Codes, column: pd.Series) -> Codes:
    """A number for each row, the same for rows of one code (0, 1, ...) and text, and only for those."""
    keys = pair_keys(codes, fingerprints(column)(slice(None)), int(codes.max(initial=0)) + 1)
    # no two rows are alike: as a rule, and sorting numbers costs less than telling texts apart
    if np.diff(np.sort(keys)).all():
        return np.arange(len(keys))
    texts = distinct(column)
    return codes * len(texts) + lookup(column, texts)
