"""Four real retrieval systems over the demo's corpus: bm25, dense, hybrid, hybrid_rerank.

In: the `chunks` frame. Out: ranked passages of one question, with the scores of each stage.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.demo.models import MODEL, MiniLM, Vectors, pooled, unit_rows

SYSTEMS = ("bm25", "dense", "hybrid", "hybrid_rerank")
POOL = 100  # candidates of each retriever that are fused
RERANKED = 30
RRF_K = 60
K1, B = 1.5, 0.75
Progress = Callable[[Iterable[Any], int], Iterable[Any]]


@dataclass(frozen=True)
class Ranking:
    """The passages found for one question, best first: positions in the chunks frame, and scores (NaN: not found by that stage)."""

    chunk: npt.NDArray[np.int64]
    score: Vectors
    score_kind: str
    lexical: Vectors
    vector: Vectors


@dataclass
class Index:
    """The indexed corpus: a lexical index, one vector per passage, and every token vector for the reranker.

    Attributes
    ----------
    cache
        Folder for the vectors; a changed corpus or model gets new files.
    progress
        Wraps the one long step, (texts, total) -> texts, such as a progress bar.
    """

    chunks: pd.DataFrame
    cache: Path
    progress: Progress = field(default=lambda items, total: items)
    model: MiniLM = field(default_factory=MiniLM)

    @cached_property
    def lexical(self) -> Any:
        """BM25 over stemmed words."""
        import bm25s

        index = bm25s.BM25(k1=K1, b=B)
        index.index(self.words(self.chunks["text"].tolist()), show_progress=False)
        return index

    def words(self, texts: list[str]) -> Any:
        """Texts as bm25s tokens: lower case, English stop words out, stemmed."""
        import bm25s
        import Stemmer

        return bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)

    @cached_property
    def vectors(self) -> Vectors:
        """One unit vector per passage."""
        return self._embedded[0]

    @cached_property
    def _embedded(self) -> tuple[Vectors, npt.NDArray[np.float16], npt.NDArray[np.int64]]:
        """Passage vectors, all token vectors one after another in half precision, and where each passage's begin."""
        texts = self.chunks["text"].tolist()
        name = sha256("\0".join([MODEL, *texts]).encode()).hexdigest()[:16]
        files = [self.cache / f"{name}-{what}.npy" for what in ("passages", "tokens", "begins")]
        if all(file.exists() for file in files):
            passages, begins = np.load(files[0]), np.load(files[2])
            return passages, np.load(files[1], mmap_mode="r"), begins
        whole, tokens = [], []
        for found in self.progress(self.model.embed_all(texts), len(texts)):
            whole.append(pooled(found))
            tokens.append(unit_rows(found).astype(np.float16))
        arrays: tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]] = (np.stack(whole), np.concatenate(tokens), np.cumsum([0, *map(len, tokens)]))
        self.cache.mkdir(parents=True, exist_ok=True)
        for file, array in zip(files, arrays, strict=True):
            staging = file.with_suffix(".staging.npy")
            np.save(staging, array)
            staging.replace(file)
        return arrays[0], arrays[1], arrays[2]

    def search(self, system: str, question: str, k: int) -> Ranking:
        """The k best passages of one of `SYSTEMS` for a question."""
        n = len(self.chunks)
        lexical, vector = np.full(n, np.nan, np.float32), np.full(n, np.nan, np.float32)
        token_vectors: Vectors | None = None
        if system != "dense":
            found, scores = (part[0] for part in self.lexical.retrieve(self.words([question]), k=POOL, show_progress=False))
            lexical[found[scores > 0]] = scores[scores > 0]
        if system != "bm25":
            token_vectors = self.model.token_vectors(question)
            similar = self.vectors @ pooled(token_vectors)
            best = np.argpartition(-similar, POOL)[:POOL]
            vector[best] = similar[best]
        if system == "bm25":
            fused, kind = lexical, "bm25"
        elif system == "dense":
            fused, kind = vector, "cosine"
        else:
            fused, kind = reciprocal_rank_fusion([lexical, vector]), "rrf"
        order = _best_first(fused)
        if system == "hybrid_rerank" and token_vectors is not None:
            candidates = order[:RERANKED]
            fused = np.full(n, np.nan, np.float32)
            fused[candidates] = self._late_interaction(unit_rows(token_vectors), candidates)
            order, kind = _best_first(fused), "maxsim"
        order = order[:k]
        return Ranking(order, fused[order], kind, lexical[order], vector[order])

    def _late_interaction(self, query: Vectors, candidates: npt.NDArray[np.int64]) -> Vectors:
        """MaxSim: for each word of the question its best cosine in the passage, averaged (Khattab & Zaharia 2020)."""
        _, tokens, begins = self._embedded
        best = [(query @ tokens[begins[one] : begins[one + 1]].astype(np.float32).T).max(axis=1).mean() for one in candidates]
        return np.asarray(best, dtype=np.float32)


def reciprocal_rank_fusion(scores: list[Vectors]) -> Vectors:
    """Σ 1 / (60 + rank) over the lists that hold a passage (Cormack, Clarke & Büttcher 2009); NaN where none does."""
    fused = np.zeros(len(scores[0]), np.float32)
    for one in scores:
        order = _best_first(one)
        fused[order] += 1 / (RRF_K + 1 + np.arange(len(order)))
    return np.where(fused > 0, fused, np.nan).astype(np.float32)


def _best_first(scores: Vectors) -> npt.NDArray[np.int64]:
    """Positions of the passages that have a score, best first, equal ones in corpus order."""
    found = np.flatnonzero(~np.isnan(scores))
    return found[np.argsort(-scores[found], kind="stable")]


def system_config(system: str, k: int, chunker_version: str) -> dict[str, Any]:
    """What makes up a system, as its run's config snapshot."""
    config: dict[str, Any] = {"retriever": system, "k": k, "chunker_version": chunker_version}
    if system != "dense":
        config["bm25"] = {"k1": K1, "b": B, "stemmer": "english"}
    if system != "bm25":
        config["embedding"] = {"model": MODEL, "dimensions": 384}
    if system.startswith("hybrid"):
        config["fusion"] = {"method": "rrf", "rrf_k": RRF_K, "pool": POOL}
    if system == "hybrid_rerank":
        config["rerank"] = {"method": "late interaction (MaxSim)", "depth": RERANKED}
    return config
