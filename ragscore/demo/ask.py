"""The demo's systems as systems under test, for `ragscore run bm25`.

They are asked one query at a time; `ragscore demo --build` asks all four every golden query.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from ragscore.collecting.run import collect
from ragscore.collecting.systems import Request, System
from ragscore.demo.answerer import Familiarity, answer
from ragscore.demo.corpus import build_corpus, chunker_version
from ragscore.demo.retrievers import SYSTEMS, Chosen, Index, Ranking, system_config
from ragscore.demo.show import demo_data, show_demo
from ragscore.frames.errors import check_known
from ragscore.io.load import load_golden
from ragscore.io.per_query_write import write_per_query
from ragscore.store.store import RunStore

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
