"""Chunks that harm retrieval, found before anything is embedded.

Too small, too large, duplicates, broken characters.

In: a chunks frame (also one that isn't fit to be loaded, with ids missing). Out: one row per
finding, or one per kind of finding.
"""

import hashlib
import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.render import dump, reload

KINDS = (
    "empty",
    "near_empty",
    "tiny",
    "giant",
    "missing_id",
    "duplicate_id",
    "duplicate",
    "near_duplicate",
    "control_characters",
    "byte_order_mark",
)
CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
PAIRS_AT_ONCE = 100_000
HASHES, BANDS = 64, 16  # of similarity .8 and more, fewer than 16 hashes differ: some band is equal
Flags = npt.NDArray[np.bool_]


class Lint(NamedTuple):
    """What lint found: `findings`, one row per finding, and `summary`, one row per kind."""

    findings: pd.DataFrame
    summary: pd.DataFrame

    def to_json(self) -> str:
        """The findings as JSON, NaN as null; `from_json` reloads it."""
        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> "Lint":
        """The findings that `to_json` wrote."""
        return reload(cls, text)


def lint_chunks(
    chunks: pd.DataFrame,
    *,
    min_chars: int = 32,
    max_chars: int = 4096,
    near_empty: int = 4,
    max_tiny: float = 0.10,
    near_duplicates: float | None = None,
    shingle: int = 5,
) -> Lint:
    """Look for chunks that retrieval suffers from.

    Parameters
    ----------
    chunks
        `text`, and `chunk_id` if there are ids; a frame such as `results.chunks`.
    min_chars, max_chars, near_empty
        Characters: fewer than `min_chars`, more than `max_chars`, at most `near_empty` (but some).
    max_tiny
        The share of tiny chunks above which they are a warning; a few are normal.
    near_duplicates
        Jaccard similarity of word shingles from which two chunks are near duplicates, such as 0.85
        (estimated by MinHash, 64 hashes: ± 0.05); None doesn't look. Chunks of the same words,
        which differ in case or punctuation at most, are no near duplicates of each other: they are
        looked up once, as the first of them.
    shingle
        Words in a shingle.

    Returns
    -------
    `findings`: one row per finding, by row of the frame: `row` (from 0), `chunk_id`, `kind` (empty,
    near_empty, tiny, giant, missing_id, duplicate_id, duplicate, near_duplicate,
    control_characters, byte_order_mark), `value` (characters; members of the duplicate group;
    estimated similarity; control characters) and `other` (chunk id, else row, of the first
    duplicate, or of the near duplicate; empty elsewhere). Every member of a group of duplicates is
    a finding; of a pair of near duplicates the later one. `summary`: one row per kind: `n`
    findings, `share` of the chunks, and `is_warning`.

    Raises
    ------
    DataError
        There is no column `text`, or a limit is not in its range.
    """
    if "text" not in chunks:
        raise DataError(
            "no column text",
            field="chunks",
            allowed=f"chunks with their texts; found {', '.join(map(str, chunks.columns))}",
        )
    if (near_duplicates is not None and not 0 < near_duplicates <= 1) or shingle < 1:
        raise DataError(
            f"found {near_duplicates}, {shingle}",
            field="near_duplicates, shingle",
            allowed="a similarity above 0 and up to 1, and at least one word",
        )
    text = chunks["text"].astype("str").fillna("").reset_index(drop=True)
    ids = (
        chunks["chunk_id"].astype("str").reset_index(drop=True)
        if "chunk_id" in chunks
        else pd.Series(pd.NA, index=text.index, dtype="str")
    )
    parts = [
        *_sizes(text, min_chars, max_chars, near_empty),
        *_ids(ids),
        _duplicates(text, ids),
        *_characters(text),
    ]
    if near_duplicates is not None:
        parts.append(_near_duplicates(text, ids, near_duplicates, shingle))
    found = pd.concat(parts, ignore_index=True).sort_values(
        ["row", "kind"], kind="stable", ignore_index=True
    )
    findings = pd.DataFrame(
        {
            "row": found["row"].astype("int64"),
            "chunk_id": ids.iloc[found["row"]].to_numpy(),
            "kind": found["kind"].astype("str"),
            "value": found["value"].astype("float64"),
            "other": found["other"].astype("str"),
        }
    )
    return Lint(findings, _summary(findings, len(text), max_tiny))


def _found(
    kind: str,
    flags: Flags | pd.Series,
    values: npt.ArrayLike | float,
    others: npt.ArrayLike | None = None,
) -> pd.DataFrame:
    rows = np.flatnonzero(np.asarray(flags, dtype=bool))
    value = np.broadcast_to(np.asarray(values, dtype="float64"), len(flags))[rows]
    other = (
        np.full(len(rows), "", dtype=object)
        if others is None
        else np.asarray(others, dtype=object)[rows]
    )
    return pd.DataFrame(
        {
            "row": rows,
            "kind": pd.Categorical([kind] * len(rows), categories=list(KINDS), ordered=True),
            "value": value,
            "other": other,
        }
    )


def _sizes(text: pd.Series, min_chars: int, max_chars: int, near_empty: int) -> list[pd.DataFrame]:
    size = text.str.len().to_numpy(dtype="int64")
    is_some = size > 0
    sizes = {
        "empty": ~is_some,
        "near_empty": is_some & (size <= near_empty),
        "tiny": is_some & (size < min_chars),
        "giant": size > max_chars,
    }
    return [_found(kind, flags, size) for kind, flags in sizes.items()]


def _ids(ids: pd.Series) -> list[pd.DataFrame]:
    missing = (ids.isna() | (ids == "").fillna(False)).to_numpy(dtype=bool)
    repeated = ids.duplicated(keep=False).to_numpy() & ~missing
    return [
        _found("missing_id", missing, np.nan),
        _found("duplicate_id", repeated, ids.map(ids.value_counts()).astype("float64")),
    ]


def _duplicates(text: pd.Series, ids: pd.Series) -> pd.DataFrame:
    repeated = text.duplicated(keep=False).to_numpy() & (text != "").to_numpy(dtype=bool)
    first = (
        pd.Series(np.arange(len(text)))
        .groupby(text.to_numpy(dtype=object))
        .transform("first")
        .to_numpy()
    )
    return _found(
        "duplicate", repeated, text.map(text.value_counts()).astype("float64"), _names(ids)[first]
    )


def _characters(text: pd.Series) -> list[pd.DataFrame]:
    n_control = text.str.count(CONTROL).to_numpy("float64")
    marks = text.str.count("\ufeff").to_numpy("float64")
    return [
        _found("control_characters", n_control > 0, n_control),
        _found("byte_order_mark", marks > 0, marks),
    ]


def _names(ids: pd.Series) -> npt.NDArray[np.object_]:
    """What a chunk is called: its id, else the number of its row."""
    rows = pd.Series(ids.index.astype("str"), index=ids.index)
    return ids.mask((ids == "").fillna(False)).fillna(rows).to_numpy(dtype=object)


def _near_duplicates(
    text: pd.Series, ids: pd.Series, similarity: float, shingle: int
) -> pd.DataFrame:
    """The later chunk of every pair whose estimated similarity is high enough.

    Of several pairs the most similar, then earliest.
    """
    words = pd.Series(
        [" ".join(re.findall(r"[^\W_]+", one.lower())) for one in text],
        index=text.index,
        dtype="str",
    )
    # Chunks of the same words are looked up once: a page footer that stands there a thousand times
    # is no thousand pairs.
    distinct = words[(words != "") & ~words.duplicated()]
    if not len(distinct):
        return _found("near_duplicate", np.zeros(len(text), dtype=bool), np.nan)
    rows, signatures = (
        distinct.index.to_numpy(),
        np.stack([_signature(one, shingle) for one in distinct]),
    )
    pairs = _candidates(signatures, similarity)
    estimate = _agreement(signatures, pairs)
    table = pd.DataFrame({"first": rows[pairs[:, 0]], "row": rows[pairs[:, 1]], "value": estimate})[
        estimate >= similarity
    ]
    best = table.sort_values(
        ["row", "value", "first"], ascending=[True, False, True]
    ).drop_duplicates("row")
    kind = pd.Categorical(["near_duplicate"] * len(best), categories=list(KINDS), ordered=True)
    return pd.DataFrame(
        {
            "row": best["row"].to_numpy(),
            "kind": kind,
            "value": best["value"].to_numpy(),
            "other": _names(ids)[best["first"].to_numpy()],
        }
    )


def _agreement(
    signatures: npt.NDArray[np.uint64], pairs: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """The share of equal hashes of each pair, some pairs at a time.

    All at once they may not fit into memory.
    """
    parts = np.array_split(pairs, len(pairs) // PAIRS_AT_ONCE + 1)
    return np.concatenate(
        [(signatures[part[:, 0]] == signatures[part[:, 1]]).mean(axis=1) for part in parts]
    )


_PRIME = (1 << 31) - 1
_FACTORS = np.random.default_rng(0).integers(1, _PRIME, size=(2, HASHES), dtype=np.uint64)


def _signature(words: str, shingle: int) -> npt.NDArray[np.uint64]:
    """MinHash (Broder 1997).

    The smallest of each of 64 hashes over the text's shingles; equal ones estimate the Jaccard
    similarity.
    """
    parts = words.split(" ")
    shingles = {
        " ".join(parts[start : start + shingle])
        for start in range(max(len(parts) - shingle, 0) + 1)
    }
    keys = (
        np.array(
            [
                int.from_bytes(hashlib.blake2b(one.encode(), digest_size=4).digest(), "big")
                for one in shingles
            ],
            dtype=np.uint64,
        )
        % _PRIME
    )
    return ((keys[:, None] * _FACTORS[0] + _FACTORS[1]) % _PRIME).min(axis=0)


def _candidates(signatures: npt.NDArray[np.uint64], similarity: float) -> npt.NDArray[np.int64]:
    """Pairs worth comparing.

    Equal in some band of hashes; below .8, where bands would miss some, in any one hash.
    """
    n_bands = BANDS if similarity >= 0.8 else HASHES
    n, seen = len(signatures), np.zeros(0, dtype="int64")
    for band in np.split(signatures, n_bands, axis=1):
        keyed = pd.DataFrame(
            {"key": [row.tobytes() for row in np.ascontiguousarray(band)], "place": np.arange(n)}
        )
        keyed = keyed[keyed["key"].duplicated(keep=False)]
        both = keyed.merge(keyed, on="key", suffixes=("_a", "_b"))
        both = both[both["place_a"] < both["place_b"]]
        seen = np.union1d(seen, both["place_a"].to_numpy() * n + both["place_b"].to_numpy())
    return np.column_stack([seen // n, seen % n])


def _summary(findings: pd.DataFrame, n_chunks: int, max_tiny: float) -> pd.DataFrame:
    n = findings["kind"].value_counts().reindex(list(KINDS)).fillna(0).astype("int64")
    share = n / n_chunks if n_chunks else n * np.nan
    is_warning = np.where(n.index == "tiny", share > max_tiny, n > 0)
    return pd.DataFrame(
        {
            "kind": pd.Series(KINDS, dtype="str"),
            "n": n.to_numpy(),
            "share": share.to_numpy("float64"),
            "is_warning": is_warning.astype(bool),
        }
    )
