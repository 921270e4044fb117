"""Health of a golden set: its power to tell runs apart, its gaps, its near-duplicate queries.

In: the golden set, and runs that were scored with it. Out: a `GoldenHealth`, three frames: queries
that don't discriminate, targets never returned, and the number of queries needed; and pairs of
queries that have nearly the same words.
"""

import re
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, Golden, Results
from ragscore.scoring.intervals import query_clusters
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import Metric
from ragscore.scoring.rows import Rows
from ragscore.stats import minimum_detectable, queries_needed
from ragscore.stats.moments import sample

DISCRIMINATES = ("all pass", "all fail", "all alike", "tells apart", "one run", "not measured")
DIFFERENCES = (0.02, 0.05, 0.1)
SIMILARITY = 0.7  # shared words / words of either, from which two queries are near-duplicates
# Scripts without spaces between words: each character counts as a word.
_SPACELESS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_SPACELESS}]|[^\W_{_SPACELESS}]+")
_BATCH = 128  # queries compared with all others at a time: bounds the pairs in memory


@dataclass(frozen=True, repr=False)
class GoldenHealth(FramesResult):
    """Power and gaps of a golden set, judged by the runs that were scored with it.

    Attributes
    ----------
    queries
        One row per query (query_id): `n_runs` with a value of the metric; its `mean`, `min`,
        `max` over them; `discriminates`, a category: all pass (1 in every run), all fail (0), all
        alike (another value), tells apart, one run (only one has a value), not measured.
    targets
        One row per target (grade ≥ 1, at the match level) that no run returned: query_id, `level`,
        `target_id`, `grade`, `n_runs` that were asked.
    needed
        One row per pair of runs (`run_baseline`, `run_candidate`) and `difference`: mean `delta`
        (candidate − baseline) and `sd` of the paired differences over `n` queries; `design_effect`
        of their paraphrase groups, at least 1; `mde`, the minimum detectable difference at 80 %
        power (infinite or NaN: none at this n); `n_needed` queries to find `difference` at 80 %
        power and 5 % error (`rs.stats.queries_needed`), times the design effect; `n_more`, the
        queries to add. NaN and NA if no query differed.
    """

    metric: str
    queries: pd.DataFrame
    targets: pd.DataFrame
    needed: pd.DataFrame

    def _heading(self) -> str:
        return (
            f"Golden-set health by {self.metric}; {len(self.targets)} targets that no run returned"
        )

    def _shown(self) -> pd.DataFrame:
        n = self.queries["discriminates"].value_counts(sort=False)
        return n[n > 0].rename("n").rename_axis("queries").reset_index()


def health(
    golden: Golden, ev: Any, metric: str = "passed", *, differences: tuple[float, ...] = DIFFERENCES
) -> GoldenHealth:
    """Measure how well the golden set tells runs apart, and find its gaps.

    The more different runs there are, the more it finds; a single run can't show which queries
    discriminate.

    Parameters
    ----------
    ev
        What `rs.evaluate` returned of runs and this golden set.
    metric
        A metric from 0 to 1, higher being better.
    differences
        Differences of the metric's mean that should be detectable.

    Returns
    -------
    `GoldenHealth`: frames `queries`, `targets` and `needed`; its docstring has their columns.

    Raises
    ------
    DataError
        An unknown metric, or one that doesn't range from 0 (bad) to 1 (good); a difference that
        isn't above 0.

    Examples
    --------
    >>> ev.golden.health(ev, "hit@5").queries.query("discriminates == 'all fail'")
    """
    if not all(difference > 0 for difference in differences):
        raise DataError(f"found {differences}", field="differences", allowed="differences above 0")
    name = ev._named(metric)
    scores, _ = ev._scored(name)
    described = ev._declared.describe(name)
    if described.better == "lower" or not scores[name].dropna().between(0, 1).all():
        raise DataError(
            f"{name} doesn't range from 0 to 1, or lower is better", field="metric",
            allowed="a metric from 0 (bad) to 1 (good), such as passed",
        )  # fmt: skip
    by_query = scores.reset_index().pivot(index="query_id", columns="run_id", values=name)
    values = by_query.reindex(pd.Index(golden.queries["query_id"])).astype("float64")
    # sums, and the numbers of groups, in the order of ids: the order of rows doesn't matter
    needed = _needed(values.sort_index(), golden, described, differences)
    return GoldenHealth(name, _queries(values), _unreturned(ev.results, golden), needed)


def _queries(values: pd.DataFrame) -> pd.DataFrame:
    n, low, high = values.count(axis=1), values.min(axis=1), values.max(axis=1)
    tests = {
        "not measured": n == 0,
        "one run": n == 1,
        "all pass": low == 1,
        "all fail": high == 0,
        "all alike": low == high,
    }
    word = np.select(list(tests.values()), list(tests), "tells apart")
    return pd.DataFrame(
        {
            "n_runs": n,
            "mean": values.sort_index(axis=1).mean(axis=1),  # of runs in one order
            "min": low,
            "max": high,
            "discriminates": pd.Categorical(word, DISCRIMINATES),
        },
        index=values.index,
    ).reset_index()


def _unreturned(results: Results, golden: Golden) -> pd.DataFrame:
    """Return targets of asked queries that no run returned."""
    keys = ["query_id", "level", "target_id"]
    targets, found = Rows(results, golden, Level.of(results, golden)).relevant_targets()
    n_runs = targets["query_id"].map(results.responses["query_id"].value_counts())
    returned = pd.MultiIndex.from_frame(found[keys])
    is_lost = n_runs.notna() & ~pd.MultiIndex.from_frame(targets[keys]).isin(returned)
    table = targets.assign(n_runs=n_runs)[is_lost].astype({"n_runs": "int64"})
    place = pd.Index(golden.queries["query_id"]).get_indexer(table["query_id"])
    columns = [*keys, "grade", "n_runs"]
    return table.iloc[place.argsort(kind="stable")].reset_index(drop=True)[columns]


def _needed(
    values: pd.DataFrame, golden: Golden, metric: Metric, differences: tuple[float, ...]
) -> pd.DataFrame:
    """Return the power of each pair of runs: differences they can show, queries needed.

    Queries of one paraphrase group count as far as they differ.
    """
    first, second = np.triu_indices(values.shape[1], 1)
    change = values.to_numpy()[:, second] - values.to_numpy()[:, first]
    of = sample(change, query_clusters(golden, values.index, "group"))
    mean, std, effect = of.mean, of.std, np.fmax(of.design_effect, 1.0)
    detectable = minimum_detectable(of.jackknifed, of.alike)
    difference = np.asarray(differences, dtype=np.float64)[None, :]
    spread, least = std[:, None], np.zeros((len(std), 1))
    if metric.kind == "binary":  # the share of queries that change stays, and 6 must change
        # of 5, all one way, p is .0625
        share = np.maximum(std**2 * (1 - 1 / np.fmax(of.n, 1)) + mean**2, 1e-12)[:, None]
        spread, least = np.sqrt(np.maximum(share - difference**2, 1e-12)), np.ceil(6 / share)
    n_needed = np.fmax(np.ceil(queries_needed(difference, spread) * effect[:, None]), least)
    n_needed = np.where(std[:, None] > 0, n_needed, np.nan)
    pairs = pd.DataFrame({
        "run_baseline": values.columns[first], "run_candidate": values.columns[second],
        "n": of.n.astype("int64"),
        "delta": mean, "sd": std, "design_effect": effect, "mde": detectable,
    })  # fmt: skip
    table = pairs.loc[pairs.index.repeat(difference.shape[1])].reset_index(drop=True)
    needed = pd.Series(n_needed.ravel()).astype("Int64")
    return table.assign(
        difference=np.tile(difference[0], len(pairs)),
        n_needed=needed,
        n_more=(needed - table["n"]).clip(lower=0),
    )


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
        count here, but see `same_order`.

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
    if not 0 < similarity <= 1:
        raise DataError(f"found {similarity!r}", field="similarity", allowed="above 0, up to 1")
    queries = golden.queries.sort_values("position", kind="stable").reset_index(drop=True)
    words = [
        list(dict.fromkeys(_WORD.findall(text.casefold()))) for text in queries["query"].fillna("")
    ]
    pairs = _similar_pairs(words, similarity)
    one, other = (queries.iloc[pairs[name]].reset_index(drop=True) for name in ("first", "second"))
    targets = golden.targets[golden.targets["grade"] > 0]
    ids = targets["level"].astype("str") + ":" + targets["target_id"]
    expected = ids.groupby(targets["query_id"]).agg(frozenset).to_dict()
    same_order = [  # of the shared words, each where it first occurs
        [word for word in words[a] if word in words[b]]
        == [word for word in words[b] if word in words[a]]
        for a, b in zip(pairs["first"], pairs["second"], strict=True)
    ]
    return pd.DataFrame({
        "query_id": one["query_id"], "other": other["query_id"],
        "similarity": pairs["similarity"],
        "same_group": one["group"].eq(other["group"]).fillna(False) if "group" in one else False,
        "same_targets": [
            expected.get(a) == expected.get(b)
            for a, b in zip(one["query_id"], other["query_id"], strict=True)
        ],
        "same_order": same_order,
        "query": one["query"], "other_query": other["query"],
    }).astype({"same_group": bool, "same_targets": bool, "same_order": bool})  # fmt: skip


def _similar_pairs(words: list[list[str]], similarity: float) -> pd.DataFrame:
    """Return positions `first` < `second` of similar sets of words, the most similar first.

    |A∩B| of many pairs at once is a product of sparse matrices.
    """
    from scipy.sparse import csr_matrix

    sizes = np.array([len(one) for one in words], dtype=np.int64)
    row = np.repeat(np.arange(len(words)), sizes)
    codes, known = pd.factorize(pd.Series([*chain.from_iterable(words)], dtype="str"))
    table = csr_matrix((np.ones(len(row)), (row, codes)), shape=(len(words), len(known)))
    parts = []
    for start in range(0, len(words) or 1, _BATCH):
        shared = (table[start : start + _BATCH] @ table.T).tocoo()
        first, second = shared.row.astype(np.int64) + start, shared.col.astype(np.int64)
        jaccard = shared.data / (sizes[first] + sizes[second] - shared.data)
        pairs = pd.DataFrame({"first": first, "second": second, "similarity": jaccard})
        parts.append(pairs[(first < second) & (jaccard >= similarity)])
    return pd.concat(parts).sort_values(
        ["similarity", "first", "second"], ascending=[False, True, True], ignore_index=True
    )
