"""Near-duplicate queries of a golden set.

In: a golden set. Out: one row per pair of queries that have nearly the same words.
"""

import re

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, check_type

# Scripts without spaces between words: each character counts as a word.
_SPACELESS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_SPACELESS}]|[^\W_{_SPACELESS}]+")
SIMILARITY = 0.7  # shared words / words of either, from which two queries are near-duplicates
_BATCH = 128  # queries compared with all others at a time: bounds the pairs in memory


def near_duplicates(golden: Golden, similarity: float = SIMILARITY) -> pd.DataFrame:
    """Return pairs of queries that have nearly the same words.

    Near-duplicates make a golden set look larger than it is. Pairs that expect different targets
    are worth a look: one label may be wrong, or the order of words makes two questions of them
    ("string to date", "date to string").

    Parameters
    ----------
    similarity
        Minimum Jaccard similarity of the two sets of words (shared words / words of either),
        above 0 and up to 1. Words are compared without case and punctuation; their order doesn't
        count here, but see `same_order`. Of queries with exactly the same words, the later ones are
        paired with the first only, and other queries are paired with that first one.

    Returns
    -------
    One row per pair, the most similar first: query_id and `other` (later in the file),
    `similarity`; `same_group`, true for paraphrases of one group, which are meant to be alike;
    `same_targets`, true if they expect the same targets; `same_order`, true if the words that both
    have come in the same order in both; `query`, `other_query`, their texts.

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
    same_group = first["group"].eq(second["group"]).fillna(False) if "group" in queries else False
    expected = _expected_ids(golden, pd.concat([first["query_id"], second["query_id"]]))
    targets = [side["query_id"].map(expected).astype("str").fillna("") for side in (first, second)]
    # are shared words in the same order, each where it first occurs?
    found = []
    for texts in zip(first["query"], second["query"], strict=True):
        one, other = (dict.fromkeys(_WORD.findall(text.casefold())) for text in texts)
        shared = [[word for word in a if word in b] for a, b in ((one, other), (other, one))]
        found.append(shared[0] == shared[1])
    return pd.DataFrame({
        "query_id": first["query_id"], "other": second["query_id"],
        "similarity": pairs["similarity"], "same_group": same_group,
        "same_targets": targets[0].eq(targets[1]).astype(bool),
        "same_order": found, "query": first["query"],
        "other_query": second["query"],
    }).astype({"same_group": bool})  # fmt: skip


def _similar_pairs(texts: pd.Series, similarity: float) -> pd.DataFrame:
    """Return positions `first` < `second` of similar texts, the most similar first."""
    words = pd.Series(
        ["\n".join(sorted(set(_WORD.findall(text.casefold())))) for text in texts.fillna("")],
        dtype="str",
    )
    # A thousand queries of the same words would make half a million pairs. So each is paired with
    # the first of them only, and only the first is compared with other queries.
    first_of, distinct = pd.factorize(words)
    is_repeat = words.duplicated().to_numpy()
    place, repeats = np.flatnonzero(~is_repeat), np.flatnonzero(is_repeat & words.ne("").to_numpy())
    found = _pairs_of_sets([text.split("\n") if text else [] for text in distinct], similarity)
    pairs = pd.DataFrame({
        "first": np.append(place[first_of[repeats]], place[found["first"]]),
        "second": np.append(repeats, place[found["second"]]),
        "similarity": np.append(np.ones(len(repeats)), found["similarity"]),
    })  # fmt: skip
    return pairs.sort_values(
        ["similarity", "first", "second"], ascending=[False, True, True], ignore_index=True
    )


def _pairs_of_sets(sets: list[list[str]], similarity: float) -> pd.DataFrame:
    """Return pairs of sets with at least this Jaccard similarity.

    |A∩B| of many pairs at once is a product of sparse matrices.
    """
    from scipy.sparse import csr_matrix

    sizes = np.array([len(words) for words in sets], dtype=np.int64)
    row = np.repeat(np.arange(len(sets)), sizes)
    codes, known = pd.factorize(np.array([word for words in sets for word in words], dtype=object))
    words = csr_matrix((np.ones(len(row)), (row, codes)), shape=(len(sets), len(known)))
    parts = [np.zeros((3, 0))]
    for start in range(0, len(sets), _BATCH):
        shared = (words[start : start + _BATCH] @ words.T).tocoo()
        first, second = shared.row.astype(np.int64) + start, shared.col.astype(np.int64)
        jaccard = shared.data / (sizes[first] + sizes[second] - shared.data)
        is_similar = (first < second) & (jaccard >= similarity)
        parts.append(np.stack([first, second, jaccard])[:, is_similar])
    pairs = pd.DataFrame(np.concatenate(parts, axis=1).T, columns=["first", "second", "similarity"])
    return pairs.astype({"first": np.int64, "second": np.int64})


def _expected_ids(golden: Golden, query_ids: pd.Series) -> pd.Series:
    """Return the relevant targets of each of these queries as one text that can be compared."""
    targets = golden.targets
    targets = targets[(targets["grade"] > 0).to_numpy() & is_among(targets["query_id"], query_ids)]
    ids = targets["level"].astype("str") + ":" + targets["target_id"].astype("str")
    names = pd.DataFrame({"query_id": targets["query_id"], "id": ids}).drop_duplicates()
    return names.sort_values("id").groupby("query_id")["id"].agg("\n".join).astype("str")
