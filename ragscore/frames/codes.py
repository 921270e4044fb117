"""Columns of texts as integer codes, so that joins compare numbers instead of texts.

For `scoring/`, `store/` and `io/`, where millions of hits meet a few thousand targets; elsewhere
plain pandas is fast enough. Three ideas make it fast. Texts are looked up among the few values that
matter, never encoded as a whole. Long columns are worked on in blocks that stay in the processor's
cache. Pairs of code and text are compared by fingerprints of the texts, which are
read only where fingerprints agree.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.typing import Codes

SmallCodes = npt.NDArray[np.signedinteger]
Fingerprints = npt.NDArray[np.uint64]

BLOCK = 2**15  # rows whose codes (8 bytes each) fit into a core's second-level cache


def blocks(first: int, last: int, size: int | None = None) -> list[slice]:
    """Return the rows from `first` up to `last` as slices of one block each."""
    step = size or BLOCK
    return [slice(begin, min(begin + step, last)) for begin in range(first, last, step)]


def lookup(column: pd.Series | pd.Index, values: pd.Series | pd.Index) -> Codes:
    """Return the position of each text of `column` in the unique `values`, -1 where it has none.

    Looking ids up in the few values that matter is several times faster than encoding them all.
    """
    return small_lookup(column, values).astype(np.int64, copy=False)


def small_lookup(column: pd.Series | pd.Index, values: pd.Series | pd.Index) -> SmallCodes:
    """Return the same as `lookup`, in the integer type that costs no copy.

    A category column over just these values gives its own codes. Widen them before any arithmetic:
    32-bit codes overflow silently.
    """
    wanted = arrow_texts(values)
    if isinstance(column.dtype, pd.CategoricalDtype):
        known = column.dtype.categories.astype("str")
        if arrow_texts(known).equals(wanted):
            return codes_of(column)
        return np.append(lookup(known, values), -1)[codes_of(column)]
    texts = arrow_texts(column)
    # As a rule a run has just these queries; comparing costs next to nothing.
    if texts.equals(wanted):
        return np.arange(len(texts))
    each, lengths = _runs(texts)
    codes = pc.fill_null(pc.index_in(each, value_set=wanted), -1).to_numpy()
    # as narrow as pandas keeps the codes of so many categories
    return np.repeat(codes.astype(np.min_scalar_type(-len(wanted) - 2)), lengths)


def codes_of(column: pd.Series | pd.Index) -> SmallCodes:
    """Return the codes of a category column without a copy, unlike `.cat.codes`."""
    return np.asarray(column.array.codes)


def are_equal(
    column: pd.Series, rows: Codes, other: pd.Series, other_rows: Codes
) -> npt.NDArray[np.bool_]:
    """Compare the texts of two selections of rows one by one; NA equals nothing."""
    is_equal = pc.equal(arrow_texts(column.iloc[rows]), arrow_texts(other.iloc[other_rows]))
    return np.asarray(pc.fill_null(is_equal, False)).astype(bool)


def _runs(texts: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Codes]:
    """Return the texts that differ from the one before, and how often each is repeated.

    A run's hits lie query by query, so that one lookup serves all hits of a query.
    """
    encoded = pc.run_end_encode(texts).chunks
    each = pa.chunked_array([one.values for one in encoded], type=texts.type)
    lengths = [np.diff(one.run_ends.to_numpy(), prepend=0) for one in encoded]
    return each, np.concatenate([np.zeros(0, np.int64), *lengths])


def coded(column: pd.Series) -> pd.Series:
    """Return texts as a category column, categories in order of appearance."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column
    codes, texts = pd.factorize(column)
    held = pd.Categorical.from_codes(codes, pd.Index(texts, dtype="str"), validate=False)
    return pd.Series(held, column.index, name=column.name)


def distinct(column: pd.Series) -> pd.Index:
    """Return the distinct texts of a column; of a category column, all categories."""
    known = column.dtype
    return known.categories if isinstance(known, pd.CategoricalDtype) else pd.Index(column.unique())


def is_among(
    column: pd.Series | pd.Index, values: pd.Series | pd.Index | Sequence[str]
) -> npt.NDArray[np.bool_]:
    """Flag each text of `column` that is one of `values`; NA is not.

    `Series.isin` walks texts one by one in Python; this takes a fraction of its time.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        return np.append(is_among(column.dtype.categories, values), False)[codes_of(column)]
    held = values if isinstance(values, (pd.Series, pd.Index)) else pd.Series(values, dtype="str")
    each, lengths = _runs(arrow_texts(column))
    found = pc.is_in(each, value_set=arrow_texts(held), skip_nulls=True)
    return np.repeat(np.asarray(found).astype(bool), lengths)


def pair_codes(
    frame: pd.DataFrame, columns: tuple[str, str], first: pd.Index, second: pd.Index
) -> Codes:
    """Return one code per row for its pair of texts, -1 where either is not a known one.

    `first` and `second` are the unique known texts of the two columns.
    """
    a, b = lookup(frame[columns[0]], first), lookup(frame[columns[1]], second)
    # `lookup` gives int64: the product of 32-bit codes would overflow silently.
    return np.where((a < 0) | (b < 0), -1, a * len(second) + b)


def response_of(rows: pd.DataFrame, responses: pd.DataFrame) -> Codes:
    """Return the position in `responses` of the run and query of each row, -1 for none."""
    cell, known = ("run_id", "query_id"), (responses["run_id"], responses["query_id"])
    runs, queries = known[0].cat.categories, pd.Index(known[1].unique())
    of, own = (pair_codes(frame, cell, runs, queries) for frame in (responses, rows))
    place = np.full(len(runs) * len(queries) + 1, -1)  # the last is of what is unknown
    place[of] = np.arange(len(of))
    return place[own]


def has_pair(
    frame: pd.DataFrame, pairs: pd.DataFrame, columns: tuple[str, str]
) -> npt.NDArray[np.bool_]:
    """Flag rows whose pair of texts is among `pairs`."""
    first, second = (pd.Index(pairs[name].astype("str").unique()) for name in columns)
    here, wanted = (pair_codes(rows, columns, first, second) for rows in (frame, pairs))
    return np.isin(here, wanted) & (here >= 0)


def equal_pairs(left: Codes, right: Codes) -> tuple[Codes, Codes]:
    """Return the positions of every pair of equal codes, ordered by `left`, then by `right`.

    Negative codes equal nothing.
    """
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    first = np.searchsorted(ordered, left, "left")
    if np.diff(ordered).all():  # no more than one pair each
        is_equal = (left >= 0) & (np.append(ordered, -1)[first] == left)
        return np.flatnonzero(is_equal), order[first[is_equal]]
    last = np.searchsorted(ordered, left, "right")
    n_pairs = np.where(left < 0, 0, last - first)
    offsets = np.arange(n_pairs.sum()) - np.repeat(np.cumsum(n_pairs) - n_pairs, n_pairs)
    return np.repeat(np.arange(len(left)), n_pairs), order[np.repeat(first, n_pairs) + offsets]


def arrow_texts(column: pd.Series | pd.Index) -> pa.ChunkedArray:
    """Return the texts as arrow holds them, in one string type; a view of `str` columns."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype("str")
    texts = (
        pa.array(column, type=pa.large_string())
        if column.dtype == object
        else pa.array(column.array)
    )
    texts = texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([texts])
    return texts if texts.type == pa.large_string() else texts.cast(pa.large_string())


# Cells of the table in `may_be_pairs` for each known pair. About one in so many other pairs falls
# into a marked cell and has to be settled by a search.
CELLS = 32
# 2**64 / golden ratio. The high bits of products with it spread neighbouring numbers evenly
# (Knuth, The Art of Computer Programming 3, 6.4).
_GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)


def fingerprints(column: pd.Series | pd.Index) -> Callable[[slice], Fingerprints]:
    """Return a function from rows to a number for each of their texts; equal texts, equal numbers.

    The number is made of a text's last 8 bytes and its length. Different texts may share one, so
    that equal numbers have to be checked. Reading one word is many times cheaper than hashing a
    text, and ids that share a prefix differ at their end.
    """
    texts = arrow_texts(column)
    return lambda rows: np.concatenate(
        [np.zeros(0, np.uint64), *(_of_texts(chunk) for chunk in texts[rows].chunks)]
    )


def _of_texts(texts: pa.Array) -> Fingerprints:
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return np.zeros(len(texts), np.uint64)
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    length, begin = np.diff(ends), int(ends[0])
    known = np.frombuffer(data, np.uint8)
    # Every text must have 8 bytes before its end, also the first ones.
    padded = np.concatenate([np.zeros(8, np.uint8), known[begin : ends[-1]]])
    last = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))[ends[1:] - begin]
    # The bytes of the text before it are shifted out of a short text's word.
    last >>= (np.maximum(8 - length, 0) * 8).view(np.uint64)
    return last + length.view(np.uint64)


def may_be_pairs(
    codes: SmallCodes,
    prints: Callable[[slice], Fingerprints],
    few_codes: Codes,
    few_prints: Fingerprints,
) -> tuple[Codes, Fingerprints]:
    """Return rows whose code and fingerprint may be one of the few pairs, and the fingerprints.

    Rows with a negative code never are. Each code has some cells in a table, and the few pairs mark
    theirs. One look there is cheaper than the search that settles a pair. As a run's hits lie query
    by query, the cells of a query stay in the cache.
    """
    n_codes = int(max(few_codes.max(initial=0), codes.max(initial=0))) + 1
    bits = int(CELLS * len(few_codes) / n_codes).bit_length()
    shift = np.uint64(64 - bits)

    def cells(of_codes: SmallCodes, of_prints: Fingerprints) -> Codes:
        return (of_codes.astype(np.int64, copy=False) << bits) + (
            (of_prints * _GOLDEN_RATIO) >> shift
        ).view(np.int64)

    marked = np.zeros(n_codes << bits, dtype=bool)
    marked[cells(few_codes, few_prints)] = True

    def of_block(rows: slice) -> tuple[Codes, Fingerprints]:
        here = prints(rows)
        found = np.flatnonzero(marked[cells(codes[rows], here)])
        return rows.start + found, here[found]

    found = [of_block(rows) for rows in blocks(0, len(codes))] or [of_block(slice(0, 0))]
    rows, here = (np.concatenate(parts) for parts in zip(*found, strict=True))
    asked = codes[rows] >= 0
    return rows[asked], here[asked]


def pair_keys(codes: SmallCodes, prints: Fingerprints, n_codes: int) -> Codes:
    """Return one number per row for its code and fingerprint, ordered by code; -1 without a code.

    Equal pairs have equal numbers; different pairs hardly ever do.
    """
    bits = n_codes.bit_length()
    return np.where(
        codes < 0,
        -1,
        (codes.astype(np.int64) << (63 - bits))
        | ((prints * _GOLDEN_RATIO) >> np.uint64(bits + 1)).view(np.int64),
    )


def all_differ(numbers: Codes) -> bool:
    """Check that no number is there twice; fast where they are nearly in order."""
    return bool(np.diff(np.sort(numbers, kind="stable")).all())


def pair_numbers(codes: Codes, column: pd.Series) -> Codes:
    """Return one number per row: equal for equal code (0, 1, ...) and text, and only then."""
    keys = pair_keys(codes, fingerprints(column)(slice(None)), int(codes.max(initial=0)) + 1)
    # As a rule no two rows are alike, and sorting numbers costs less than comparing texts.
    if all_differ(keys):
        return np.arange(len(keys))
    of_text, texts = pd.factorize(column)
    return codes.astype(np.int64) * len(texts) + of_text  # narrow codes would overflow


def contains_each(
    wholes: list[str], whole: Codes, parts: list[str], part: Codes
) -> npt.NDArray[np.bool_]:
    """Flag pairs of positions where `parts[part]` is a substring of `wholes[whole]`."""
    # A loop: pandas has no substring search where both sides vary by row.
    return np.fromiter(
        (parts[b] in wholes[a] for a, b in zip(whole.tolist(), part.tolist(), strict=True)),
        dtype=bool,
        count=len(whole),
    )
