"""Chunks that hurt retrieval: too small, too large, duplicates, broken characters.

In: a chunks frame, before anything is embedded; ids may be missing. Out: one row per finding, and
one per kind of finding.
"""

import hashlib
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, check_type
from ragscore.frames.errors import plural
from ragscore.frames.typing import Flags

Hashes = npt.NDArray[np.uint64]
KINDS = (
    "empty", "near_empty", "tiny", "giant", "missing_id", "duplicate_id", "duplicate",
    "near_duplicate", "control_characters", "byte_order_mark",
)  # fmt: skip
CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
PAIRS_AT_ONCE = 100_000  # all pairs of a large index at once may not fit into memory
HASHES, BANDS = 64, 16  # of similarity .8 and more, fewer than 16 hashes differ: some band is equal
_PRIME = (1 << 31) - 1
_FACTORS = np.random.default_rng(0).integers(1, _PRIME, size=(2, HASHES), dtype=np.uint64)


@dataclass(frozen=True, repr=False, eq=False)
class Lint(FramesResult):
    """Chunks that hurt retrieval.

    Attributes
    ----------
    findings
        One row per finding, by row of the frame: `row` (from 0), `chunk_id`, `kind` (empty,
        near_empty, tiny, giant, missing_id, duplicate_id, duplicate, near_duplicate,
        control_characters, byte_order_mark), `value` (characters; members of the duplicate group;
        estimated similarity; control characters) and `other` (chunk id, else row, of the first
        duplicate, or of the near duplicate; empty elsewhere). Every member of a group of duplicates
        is a finding; of a pair of near duplicates the later one.
    summary
        One row per kind: `n` findings, `share` of the chunks, and `is_warning`.
    """

    FRAMES = ("summary", "findings")

    findings: pd.DataFrame
    summary: pd.DataFrame

    def _heading(self) -> str:
        return f"Chunk lint: {plural(len(self.findings), 'finding')}"


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
    """Find chunks that hurt retrieval.

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
        (estimated by MinHash, 64 hashes: ± 0.05); None skips this check. Chunks of the same words,
        which differ in case or punctuation at most, are no near duplicates of each other: only the
        first of them is compared with others.
    shingle
        Words in a shingle.

    Raises
    ------
    DataError
        There is no column `text`, or a limit is not in its range.
    """
    check_type(chunks, pd.DataFrame, "chunks")
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
    unknown = pd.Series(pd.NA, index=chunks.index)
    ids = chunks.get("chunk_id", unknown).astype("str").reset_index(drop=True)
    has_no_id = (ids.isna() | (ids == "").fillna(False)).astype(bool)
    # a chunk without an id is named by its row
    names = ids.mask(has_no_id, pd.Series(ids.index.astype("str"))).to_numpy(dtype=object)
    size = text.str.len().to_numpy(dtype="int64")
    n_control, n_marks = text.str.count(CONTROL), text.str.count("\ufeff")
    first = pd.Series(text.index).groupby(text.to_numpy(dtype=object)).transform("first")
    parts = [
        _findings("empty", size == 0, size),
        _findings("near_empty", (size > 0) & (size <= near_empty), size),
        _findings("tiny", (size > 0) & (size < min_chars), size),
        _findings("giant", size > max_chars, size),
        _findings("missing_id", has_no_id, np.nan),
        _findings(
            "duplicate_id", ids.duplicated(keep=False) & ~has_no_id, ids.map(ids.value_counts())
        ),
        _findings(
            "duplicate",
            text.duplicated(keep=False) & (size > 0),
            text.map(text.value_counts()),
            names[first],
        ),
        _findings("control_characters", n_control > 0, n_control),
        _findings("byte_order_mark", n_marks > 0, n_marks),
    ]
    if near_duplicates is not None:
        parts.append(_near_duplicates(text, names, near_duplicates, shingle))
    findings = pd.concat(parts, ignore_index=True).sort_values(
        ["row", "kind"], kind="stable", ignore_index=True
    )
    findings = findings.astype({"row": "int64", "kind": "str", "other": "str"})
    findings.insert(1, "chunk_id", ids.iloc[findings["row"]].to_numpy())
    n = findings["kind"].value_counts().reindex(list(KINDS), fill_value=0).to_numpy("int64")
    share = n / len(text) if len(text) else np.full(len(KINDS), np.nan)
    is_warning = np.where(np.array(KINDS) == "tiny", share > max_tiny, n > 0)
    summary = pd.DataFrame(
        {"kind": pd.Series(KINDS, dtype="str"), "n": n, "share": share, "is_warning": is_warning}
    )
    return Lint(findings, summary)


def _findings(
    kind: str,
    flags: Flags | pd.Series,
    values: npt.ArrayLike | float,
    others: npt.NDArray[np.object_] | None = None,
) -> pd.DataFrame:
    """One row per flagged chunk."""
    rows = np.flatnonzero(np.asarray(flags, dtype=bool))
    return pd.DataFrame(
        {
            "row": rows,
            "kind": pd.Categorical([kind] * len(rows), categories=list(KINDS), ordered=True),
            "value": np.broadcast_to(np.asarray(values, dtype="float64"), len(flags))[rows],
            "other": np.full(len(rows), "", dtype=object) if others is None else others[rows],
        }
    )


def _near_duplicates(
    text: pd.Series, names: npt.NDArray[np.object_], similarity: float, shingle: int
) -> pd.DataFrame:
    """Find the later chunk of every pair whose estimated similarity is high enough.

    Of several pairs with an earlier chunk the most similar counts, then the earliest.
    """
    words = pd.Series(
        [" ".join(re.findall(r"[^\W_]+", chunk.lower())) for chunk in text], dtype="str"
    )
    # Chunks of the same words are compared once: a page footer that stands there a thousand times
    # is no thousand pairs.
    distinct = words[(words != "") & ~words.duplicated()]
    others = np.full(len(text), "", dtype=object)
    values, is_near = np.full(len(text), np.nan), np.zeros(len(text), dtype=bool)
    if len(distinct):
        rows = distinct.index.to_numpy()
        signatures = np.stack([_signature(chunk, shingle) for chunk in distinct])
        # The pairs worth comparing: equal in some band of hashes. Below a similarity of .8 bands
        # would miss some pairs, and any equal hash makes a candidate.
        n_bands = BANDS if similarity >= 0.8 else HASHES
        n, codes = len(signatures), np.zeros(0, dtype="int64")
        for band in np.split(signatures, n_bands, axis=1):
            keys = [row.tobytes() for row in np.ascontiguousarray(band)]
            keyed = pd.DataFrame({"key": keys, "place": np.arange(n)})
            keyed = keyed[keyed["key"].duplicated(keep=False)]
            both = keyed.merge(keyed, on="key", suffixes=("_a", "_b"))
            both = both[both["place_a"] < both["place_b"]]
            codes = np.union1d(codes, both["place_a"].to_numpy() * n + both["place_b"].to_numpy())
        pairs = np.column_stack([codes // n, codes % n])
        # the share of equal hashes estimates the similarity
        estimate = np.concatenate(
            [
                (signatures[part[:, 0]] == signatures[part[:, 1]]).mean(axis=1)
                for part in np.array_split(pairs, len(pairs) // PAIRS_AT_ONCE + 1)
            ]
        )
        table = pd.DataFrame(
            {"first": rows[pairs[:, 0]], "row": rows[pairs[:, 1]], "value": estimate}
        )
        best = table[estimate >= similarity].sort_values(
            ["row", "value", "first"], ascending=[True, False, True]
        )
        best = best.drop_duplicates("row").set_index("row")
        values[best.index], is_near[best.index] = best["value"], True
        others[best.index] = names[best["first"]]
    return _findings("near_duplicate", is_near, values, others)


def _signature(words: str, shingle: int) -> Hashes:
    """Return the MinHash signature of a text (Broder 1997).

    The smallest of each of 64 hashes over the text's shingles.
    """
    parts = words.split(" ")
    starts = range(max(len(parts) - shingle, 0) + 1)
    shingles = {" ".join(parts[start : start + shingle]) for start in starts}
    digests = [hashlib.blake2b(text.encode(), digest_size=4).digest() for text in shingles]
    keys = np.array([int.from_bytes(digest, "big") for digest in digests], dtype=np.uint64) % _PRIME
    return ((keys[:, None] * _FACTORS[0] + _FACTORS[1]) % _PRIME).min(axis=0)
