"""Questions of a golden set that nearly ask the same.

In: a golden set. Out: one row per pair of questions whose words are nearly the same.

How much the order of equal scores could move a metric.

In: results and golden set. Out: one row per run and metric, as ranked and with tied hits in their
worst and their best order.
"""

import re
import warnings
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results, check_inputs, check_type
from ragscore.scoring.grading import decidable, level_rule
from ragscore.scoring.level import choose_level
from ragscore.scoring.matching import apply_rule, at_level, response_of
from ragscore.scoring.score import score
from ragscore.scoring.summary import metric_columns

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


Ranks = npt.NDArray[np.int64]
TIE_COLUMNS = ("run_id", "metric", "worst", "mean", "best", "spread", "n", "n_tied", "n_moved")
METRICS = ("hit@1", "hit@5", "mrr@10", "ndcg@10")


def tie_sensitivity(
    results: Results, golden: Golden, metrics: list[str] | str | None = None, *, match: str = "auto"
) -> pd.DataFrame:
    """How much a metric depends on the order of hits with equal scores, which is an accident.

    Hits of one question with exactly the same score share the ranks they have in all other orders:
    the ones of the highest grade last (worst), then first (best). Where several tied hits meet one
    and the same target, an even better or worse order may exist for recall and nDCG.

    Parameters
    ----------
    metrics
        Labels of ranking metrics; by default hit@1, hit@5, mrr@10 and ndcg@10.
    match
        As for `rs.score`.

    Returns
    -------
    One row per run and metric: means `worst`, `mean` (as ranked) and `best`, over the same `n`
    questions; `spread` = best − worst; `n_tied` questions with equal scores, `n_moved` of them
    whose value depends on their order. A run whose hits have no score has NaN there and NA counts:
    its ties are unknown.
    """
    check_inputs(results, golden)
    labels = [metrics] if isinstance(metrics, str) else list(metrics or METRICS)
    grade, block = _grades(results, golden, match), _blocks(results)
    scores = {"mean": score(results, golden, labels, match=match)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # said once already
        for name, first in (("worst", grade), ("best", -grade)):
            scores[name] = score(
                _reranked(results, _ranks(results, block, first)), golden, labels, match=match
            )
    return _table(scores, results, block, metric_columns(scores["mean"]))


def _table(
    scores: dict[str, pd.DataFrame], results: Results, block: Ranks, labels: list[str]
) -> pd.DataFrame:
    run = scores["mean"]["run_id"].to_numpy()
    means = {
        name: frame[labels].groupby(run, observed=False).mean() for name, frame in scores.items()
    }
    moved = (
        (scores["best"][labels] - scores["worst"][labels])
        .fillna(0)
        .ne(0)
        .groupby(run, observed=False)
        .sum()
    )
    parts = {
        **means,
        "n": scores["mean"][labels].groupby(run, observed=False).count(),
        "n_moved": moved,
    }
    table = pd.DataFrame(
        {
            name: part.rename_axis(index="run_id", columns="metric").stack(future_stack=True)
            for name, part in parts.items()
        }
    ).reset_index()
    is_scored, n_tied = _tied(results, block)
    known = table["run_id"].map(is_scored).astype(bool).to_numpy()
    table = table.assign(
        spread=table["best"] - table["worst"], n_tied=table["run_id"].map(n_tied)
    ).astype({"n_tied": "Int64", "n_moved": "Int64"})
    for name in ("worst", "best", "spread", "n_tied", "n_moved"):
        table[name] = table[name].where(known)
    return table[list(TIE_COLUMNS)]


def _grades(results: Results, golden: Golden, match: str) -> Ranks:
    """The best grade that each hit meets at the match level (0: none)."""
    level = choose_level(results, golden, match)
    grade = np.zeros(len(results.hits), dtype=np.int64)
    for name in level.joinable if level.name == "per_query" else (level.name,):
        targets = at_level(golden, name).targets
        matches = decidable(apply_rule(level_rule(name, results, golden), results.hits, targets))
        np.maximum.at(
            grade,
            matches["hit"].to_numpy(),
            targets["grade"].to_numpy(dtype=np.int64)[matches["target"].to_numpy()],
        )
    return grade


def _blocks(results: Results) -> Ranks:
    """A number for each run, query and score; hits without a score are alone in theirs."""
    hits, n = results.hits, len(results.hits)
    value = (
        hits["score"].to_numpy("float64", na_value=np.nan)
        if "score" in hits
        else np.full(n, np.nan)
    )
    place = response_of(hits, results.responses)
    order = np.lexsort((value, place))
    new = np.ones(n, dtype=bool)
    new[1:] = (np.diff(place[order]) != 0) | (np.diff(value[order]) != 0)  # NaN differs from NaN
    block = np.empty(n, dtype=np.int64)
    block[order] = np.cumsum(new)
    return block


def _ranks(results: Results, block: Ranks, first: Ranks) -> Ranks:
    """Ranks after those of each block of tied hits are dealt anew.

    Lowest `first` first, else as they were.
    """
    rank = results.hits["rank"].to_numpy().astype(np.int64)
    dealt = np.empty(len(rank), dtype=np.int64)
    dealt[np.lexsort((rank, first, block))] = rank[np.lexsort((rank, block))]
    return dealt


def _reranked(results: Results, rank: Ranks) -> Results:
    """The same hits at other ranks; matches kept under the old ranks follow them."""
    hits = results.hits.assign(rank=rank.astype("int32"))
    if results.matches is None:
        return replace(results, hits=hits)
    keys = ["run_id", "query_id", "rank"]
    moved = results.hits[keys].astype({"run_id": "str"}).assign(new=rank)
    matches = results.matches.astype({"run_id": "str"}).merge(moved, on=keys, how="left")
    # rank 0 stands for "nothing was found"
    new = matches["new"].fillna(matches["rank"]).astype("int32")
    return replace(results, hits=hits, matches=matches.assign(rank=new).drop(columns="new"))


def _tied(results: Results, block: Ranks) -> tuple[pd.Series, pd.Series]:
    """By run: whether its hits have scores, and the number of questions with equal ones."""
    hits, run_ids = results.hits, results.runs["run_id"]
    scored = (
        hits["score"].notna().to_numpy() if "score" in hits else np.zeros(len(hits), dtype=bool)
    )
    tied = scored & pd.Series(block).duplicated(keep=False).to_numpy()
    cells = hits.loc[tied, ["run_id", "query_id"]].drop_duplicates()
    n_scored = hits.loc[scored, "run_id"].value_counts().reindex(run_ids).fillna(0)
    return n_scored.gt(0), cells["run_id"].value_counts().reindex(run_ids).fillna(0)
