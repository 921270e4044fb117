"""Knowledge gain of a run with more documents, and the documents that bring it.

In: scores of a baseline and a candidate run, or texts and embeddings of candidate and known chunks.
Out: gains per metric, per query and per document; the novelty of documents.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.comparison.align import align
from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import check_known, plural
from ragscore.frames.typing import Values
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.summary import metric_columns
from ragscore.stats.moments import moments
from ragscore.stats.similarity import cosine_matrix

Embed = Callable[[list[str]], npt.ArrayLike]
Chunks = npt.ArrayLike | Sequence[str]


@dataclass(frozen=True, repr=False, eq=False)
class Gain(FramesResult):
    """Gain of a candidate run over a baseline.

    Attributes
    ----------
    score
        Σ w·Δmean / Σ w over the metrics; 0 if no metric has a weight.
    total_weight
        Σ w of the metrics in it.
    metrics
        One row per metric: metric, weight, the means `baseline` and `candidate`, `gain` (candidate
        − baseline, or the reverse where lower is better), n queries.
    per_query
        One row per query: query_id, `gain` (the same over the metrics that both runs have for it),
        n_metrics; largest first.
    """

    score: float
    total_weight: float
    metrics: pd.DataFrame
    per_query: pd.DataFrame

    def _heading(self) -> str:
        return f"Knowledge gain {self.score:+.3f}, over {plural(len(self.metrics), 'metric')}"


def knowledge_gain(
    scores: pd.DataFrame,
    baseline: str,
    candidate: str,
    weights: Mapping[str, float] | None = None,
) -> Gain:
    """Return the gain of run `candidate` over run `baseline`, over several metrics at once.

    Parameters
    ----------
    scores
        From `rs.score`, with both runs.
    weights
        Metric column -> weight; only these metrics count. A weight that is negative or not finite
        counts as 0, and a metric of weight 0 is left out. By default every metric of 0 to 1 has
        weight 1.

    Returns
    -------
    A `Gain`, over the queries that both runs have a value for.

    Raises
    ------
    DataError
        A run or a metric is not among the scores.
    """
    known = metric_columns(scores)
    if weights is None:
        chosen = {name: 1.0 for name in known if TABLE.describe(name).is_unit}
    else:
        check_known(weights, known, "weights", "column", "scores has")
        chosen = {name: float(one) for name, one in weights.items() if 0 < one < np.inf}
    names, weight = list(chosen), np.array([*chosen.values()], dtype="float64")
    aligned = align(scores, known, [baseline, candidate]).only(names)
    signs = [-1.0 if one.better == "lower" else 1.0 for one in aligned.described()]
    values = aligned.values.transpose(1, 0, 2)
    gains = (values[1] - values[0]) * signs
    has_both = ~np.isnan(gains)
    sides = (np.where(has_both, side, np.nan) for side in (*values, gains))
    (mean_a, _, n), (mean_b, _, _), (mean_gain, _, _) = map(moments, sides)
    metrics = pd.DataFrame({
        "metric": pd.Series(names, dtype="str"), "weight": weight, "baseline": mean_a,
        "candidate": mean_b, "gain": mean_gain, "n": n.astype(np.int64),
    })  # fmt: skip
    measured = metrics[metrics["n"] > 0]
    total = float(measured["weight"].sum())
    score = float((measured["weight"] * measured["gain"]).sum() / total) if total > 0 else 0.0
    with np.errstate(invalid="ignore"):
        gain = np.nansum(gains * weight, axis=1) / (has_both * weight).sum(axis=1)
    per_query = pd.DataFrame({
        "query_id": aligned.query_ids, "gain": gain, "n_metrics": has_both.sum(axis=1),
    })  # fmt: skip
    per_query = per_query.sort_values("gain", key=lambda one: -one.abs(), kind="stable")
    return Gain(score, total, metrics, per_query.dropna().reset_index(drop=True))


def candidate_documents(
    per_query: pd.DataFrame,
    golden: Golden,
    novelty: Mapping[str, float] | None = None,
    *,
    document_weight: float = 1.0,
    novelty_weight: float = 0.0,
) -> pd.DataFrame:
    """Rank documents by the gain that they bring.

    Parameters
    ----------
    per_query
        `Gain.per_query`.
    novelty
        Document -> its novelty, clamped to 0..1; 0 for documents without one. A document that no
        query expects is ranked, too.

    Returns
    -------
    One row per document that a query expects or that has a novelty, best first (then by id):
    `doc_id`; `relevance_gain`, the sum of gain × grade over the queries that expect it; `novelty`;
    `score`, relevance_gain·document_weight + novelty·novelty_weight.
    """
    targets = golden.targets.loc[
        golden.targets["level"] == "doc", ["query_id", "doc_id", "grade"]
    ].dropna(subset=["doc_id"])
    gains = targets.merge(per_query[["query_id", "gain"]], on="query_id")
    relevance = (gains["gain"] * gains["grade"]).groupby(gains["doc_id"]).sum()
    new = pd.Series(dict(novelty or {}), dtype="float64").clip(0, 1)
    doc_ids = pd.Index(relevance.index.union(new.index), name="doc_id")
    table = pd.DataFrame(
        {
            "relevance_gain": relevance.reindex(doc_ids).fillna(0.0),
            "novelty": new.reindex(doc_ids).fillna(0.0),
        },
        index=doc_ids,
    )
    table["score"] = table["relevance_gain"] * document_weight + table["novelty"] * novelty_weight
    return table.reset_index().sort_values(
        ["score", "doc_id"], ascending=[False, True], ignore_index=True
    )


def novelty_per_chunk(candidate: Chunks, known: Chunks, embed: Embed | None = None) -> float:
    """Return the mean novelty of chunks: 1 - the largest cosine to a known chunk.

    Negative cosines count as 0.

    Parameters
    ----------
    candidate, known
        Embeddings, one row per chunk, or with `embed` the chunks' texts.
    embed
        Texts -> embeddings, one row each.

    Returns
    -------
    0 (nothing new) to 1; 0 without candidate chunks, 1 without known ones.
    """
    new, old = _embedded(candidate, embed), _embedded(known, embed)
    if not len(new) or not len(old):
        return 1.0 if len(new) else 0.0
    return float((1 - cosine_matrix(new, old).max(axis=1).clip(0, 1)).mean())


def novelty_all_pairs(candidate: Chunks, known: Chunks, embed: Embed | None = None) -> float:
    """Return the novelty of chunks as a whole: 1 - the largest cosine of all pairs.

    A pair is a candidate chunk and a known chunk.

    Parameters as `novelty_per_chunk`. A single known chunk among the candidates makes this 0,
    however new the others are.

    Returns
    -------
    0 to 2, above 1 where all cosines are negative; 0 without candidate chunks, 1 without known
    ones.
    """
    new, old = _embedded(candidate, embed), _embedded(known, embed)
    if not len(new) or not len(old):
        return 1.0 if len(new) else 0.0
    return 1 - float(cosine_matrix(new, old).max())


def lexical_novelty(candidate: str, known: str) -> float:
    """Return 1 - Jaccard similarity of the words (lower-cased letters and digits) of two texts.

    Returns
    -------
    0 (the same words) to 1 (none in common); 0 if the candidate has no words, 1 if only the known
    text has none.
    """
    new, old = (set(re.findall(r"[^\W_]+", text.lower())) for text in (candidate, known))
    return 1 - len(new & old) / len(new | old) if new else 0.0


def _embedded(chunks: Chunks, embed: Embed | None) -> Values:
    """Return embeddings as a matrix; without chunks, a matrix without rows."""
    given = list(chunks)  # type: ignore[arg-type]
    if not given:
        return np.zeros((0, 0))
    if embed is None and any(isinstance(chunk, str) for chunk in given):
        raise DataError(
            "texts without an embedding",
            field="embed",
            allowed="embed=function, or embeddings instead of texts",
        )
    vectors = np.asarray(
        embed([str(chunk) for chunk in given]) if embed is not None else given, dtype="float64"
    )
    if vectors.ndim != 2 or len(vectors) != len(given):
        raise DataError(
            f"found an array of shape {vectors.shape}",
            field="embeddings",
            allowed="one row per chunk",
        )
    return vectors
