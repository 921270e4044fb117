"""Questions of a golden set that nearly ask the same.

In: a golden set. Out: one row per pair of questions whose words are nearly the same.
"""

import re

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, check_type

# Scripts without spaces have no words to tell apart: each of their characters counts as one.
_SPACELESS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_SPACELESS}]|[^\W_{_SPACELESS}]+")
_ROWS_AT_ONCE = 512  # questions that are compared with all others at a time


def near_duplicates(golden: Golden, similarity: float = 0.7) -> pd.DataFrame:
    """Pairs of questions of nearly the same words.

    Two near-duplicates are hardly two questions: they make a golden set look larger than it is, and
    where they expect different targets at most one of them is labelled rightly.

    Parameters
    ----------
    similarity
        The least Jaccard similarity of the two sets of words (shared words / words of either),
        above 0 and up to 1. Words are compared without case and punctuation; word order doesn't
        count. Questions of exactly the same words are paired with the first of them only, and other
        questions with that one.

    Returns
    -------
    One row per pair, the most similar first: query_id and `other` (later in the file),
    `similarity`; `same_group`, whether they are paraphrases of one group, which are meant to be
    alike; `same_targets`, whether they expect the same targets; `query`, `other_query`, their
    texts.

    Raises
    ------
    DataError
        `similarity` is out of its range.
    """
    check_type(golden, Golden, "golden")
    if not 0 < similarity <= 1:
        raise DataError(f"found {similarity!r}", field="similarity", allowed="above 0, up to 1")
    queries = golden.queries.sort_values("position", kind="stable").reset_index(drop=True)
    pairs = _similar_pairs(queries["query"], similarity)
    first, second = (
        queries.iloc[pairs[name]].reset_index(drop=True) for name in ("first", "second")
    )
    same_group = (
        first["group"].eq(second["group"]).fillna(False)
        if "group" in queries
        else pd.Series(False, index=first.index)
    )
    expected = _expected(golden, pd.concat([first["query_id"], second["query_id"]]))
    targets = [side["query_id"].map(expected).astype("str").fillna("") for side in (first, second)]
    return pd.DataFrame({
        "query_id": first["query_id"], "other": second["query_id"],
        "similarity": pairs["similarity"].to_numpy(), "same_group": same_group.astype(bool),
        "same_targets": targets[0].eq(targets[1]).astype(bool), "query": first["query"],
        "other_query": second["query"],
    })  # fmt: skip


def _similar_pairs(texts: pd.Series, similarity: float) -> pd.DataFrame:
    """Positions `first` < `second` of similar texts, the most similar first."""
    words = pd.Series(
        ["\n".join(sorted(set(_WORD.findall(text.casefold())))) for text in texts.fillna("")],
        dtype="str",
    )
    # The same words a thousand times are no half million pairs: each is paired with the first,
    # which is compared with the others.
    first_of, distinct = pd.factorize(words)
    is_repeat = words.duplicated().to_numpy()
    place, repeats = np.flatnonzero(~is_repeat), np.flatnonzero(is_repeat & words.ne("").to_numpy())
    found = _pairs_of_sets([one.split("\n") if one else [] for one in distinct], similarity)
    pairs = pd.DataFrame({
        "first": np.append(place[first_of[repeats]], place[found["first"]]),
        "second": np.append(repeats, place[found["second"]]),
        "similarity": np.append(np.ones(len(repeats)), found["similarity"]),
    })  # fmt: skip
    return pairs.sort_values(
        ["similarity", "first", "second"], ascending=[False, True, True], ignore_index=True
    )


def _pairs_of_sets(sets: list[list[str]], similarity: float) -> pd.DataFrame:
    """Pairs of sets with a Jaccard similarity of at least this.

    |A∩B| of many pairs at once is a product of sparse matrices. Two similar sets share one of their rarest words (prefix filter: Chaudhuri et al. 2006,
    doi:10.1109/ICDE.2006.9), so only pairs that do are compared, and words that stand in every
    question cost nothing.
    """
    from scipy.sparse import csr_matrix

    sizes = np.array([len(one) for one in sets], dtype=np.int64)
    row = np.repeat(np.arange(len(sets)), sizes)
    codes, known = pd.factorize(np.array([word for one in sets for word in one], dtype=object))
    # rarest first, equally rare ones in the same order everywhere
    order = np.lexsort((codes, np.bincount(codes, minlength=len(known))[codes], row))
    row, codes = row[order], codes[order]
    place = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_rare = place <= (sizes - np.ceil(similarity * sizes - 1e-9))[row]
    held, rare = (
        csr_matrix((np.ones(keep.sum()), (row[keep], codes[keep])), shape=(len(sets), len(known)))
        for keep in (np.ones(len(row), dtype=bool), is_rare)
    )
    parts = [np.zeros((3, 0))]
    for start in range(0, len(sets), _ROWS_AT_ONCE):
        candidates = (rare[start : start + _ROWS_AT_ONCE] @ rare.T).tocoo()
        first, second = candidates.row.astype(np.int64) + start, candidates.col.astype(np.int64)
        first, second = first[first < second], second[first < second]
        shared = np.asarray(held[first].multiply(held[second]).sum(axis=1)).ravel()
        jaccard = shared / (sizes[first] + sizes[second] - shared)
        parts.append(np.stack([first, second, jaccard])[:, jaccard >= similarity])
    found = np.concatenate(parts, axis=1)
    return pd.DataFrame(
        {
            "first": found[0].astype(np.int64),
            "second": found[1].astype(np.int64),
            "similarity": found[2],
        }
    )


def _expected(golden: Golden, query_ids: pd.Series) -> pd.Series:
    """The targets of each of these queries as one text, for comparing."""
    wanted = golden.targets[
        (golden.targets["grade"] > 0) & is_among(golden.targets["query_id"], query_ids)
    ]
    named = (wanted["level"].astype("str") + ":" + wanted["target_id"].astype("str")).groupby(
        wanted["query_id"]
    )
    return named.agg(lambda ids: "\n".join(sorted(set(ids))))
