"""Time reading records of other tools: `python -m tests.benchmarks.records [n [earlier checkout]]`.

Files of 100,000 records of five hits, one in each format, and as many spans. An earlier checkout's
ragscore takes turns. Each file is read once by each in a fresh process, by processor time.
"""

import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks import spans
from tests.benchmarks.process import ROOT, Clock, Measured, run_fresh

Hits = list[tuple[str, str, float]]
N_HITS = 5
OF_HIT = ("doc_id", "text", "score")


def _run_file(n: int, answer: str, hits: Hits) -> dict[str, Any]:
    made = [
        {
            "rank": rank, "chunk_id": doc, "doc_id": doc, "doc_path": doc,
            "heading_path": ["a", "b"], "snippet": text, "metadata": {"lang": "en"},
            "citation": {"kind": "line", "path": doc, "start": 1, "end": 4, "section": None},
            "retrieval": {"method": "hybrid", "fusion_score": score, "lexical_score": 0.5},
        }
        for rank, (doc, text, score) in enumerate(hits, 1)
    ]  # fmt: skip
    return {
        "query_id": f"q{n}", "query": f"what is {n}", "hits_top_k": made, "elapsed_ms": 12,
        "answer": {"answer": answer, "grounded": True, "citations": []}, "error": None,
    }  # fmt: skip


def _lists(n: int, answer: str, hits: Hits) -> dict[str, Any]:
    docs, _, scores = zip(*hits, strict=True)
    return {"qid": f"q{n}", "retrieved": docs, "scores": scores, "answer": answer}


def _objects(n: int, answer: str, hits: Hits) -> dict[str, Any]:
    passages = [dict(zip(OF_HIT, hit, strict=True)) for hit in hits]
    return {"question": f"what is {n}", "answer": answer, "passages": passages}


def _ragas(n: int, answer: str, hits: Hits) -> dict[str, Any]:
    docs, texts, _ = zip(*hits, strict=True)
    return {
        "user_input": f"what is {n}", "retrieved_contexts": texts, "retrieved_context_ids": docs,
        "response": answer, "reference": "x", "faithfulness": 0.5,
    }  # fmt: skip


def _retrievers(n: int, answer: str, hits: Hits) -> dict[str, Any]:
    made = [
        {"rank": rank, "id": doc, "metadata": {"source": doc}, "document": text}
        for rank, (doc, text, _) in enumerate(hits, 1)
    ]
    return {"query": f"what is {n}", "retriever": "a", "k": 5, "elapsed_ms": 12.5, "hits": made}


def _chatbot(n: int, answer: str, hits: Hits) -> dict[str, Any]:
    made = [
        {"rank": rank, "chunk_id": doc, "rel_path": doc, "score_final": score, "text": text}
        for rank, (doc, text, score) in enumerate(hits, 1)
    ]
    latency = {"total_ms": 12.5}
    return {
        "test_case_id": f"t{n}", "question": f"what is {n}", "answer": answer,
        "retrieved_chunks": made, "references": [], "latency": latency,
    }  # fmt: skip


def _trec_rag(n: int, answer: str, hits: Hits) -> dict[str, Any]:
    return {
        "run_id": "r", "topic_id": f"t{n}", "topic": f"what is {n}", "response_length": 10,
        "references": [doc for doc, *_ in hits], "answer": [{"text": answer, "citations": [0, 1]}],
    }  # fmt: skip


FORMATS: dict[str, Callable[[int, str, Hits], dict[str, Any]]] = {
    "run file, per line": _run_file, "table, lists": _lists, "table, objects": _objects,
    "RAGAS": _ragas, "retrievers": _retrievers, "chatbot": _chatbot, "TREC RAG": _trec_rag,
}  # fmt: skip


def write(clock: Clock, folder: str, n: int) -> Measured:
    """Write the files."""
    rng = random.Random(0)
    words = [f"word{number}" for number in range(3000)]
    texts = [" ".join(rng.choices(words, k=18)) for _ in range(2000)]
    for name, made in FORMATS.items():
        with Path(folder, f"{name}.jsonl").open("w", encoding="utf-8") as out:
            for number in range(n):
                hits = [
                    (f"doc-{rng.randrange(10**5)}", rng.choice(texts), 1 / rank)
                    for rank in range(1, N_HITS + 1)
                ]
                out.write(json.dumps(made(number, texts[number % 2000], hits)) + "\n")
    for name in spans.CONTAINERS:
        spans._write(Path(folder, f"spans, {name}.jsonl"), name, n)
    return {}


def read(clock: Clock, folder: str, name: str) -> Measured:
    """ragscore's results."""
    import ragscore as rs
    from ragscore.io import arrow_lines

    rs.load_results({"q": ["a"]})
    arrow_lines.FROM_BYTES = sys.maxsize  # the reader that other tools' files need
    with clock.stage("read"):
        found = rs.load_results(f"{folder}/{name}.jsonl")
    return {"rows": [len(found.responses), len(found.hits)]}


def main(n: int = 100_000, earlier: str | None = None) -> None:
    """Print a line for each file."""
    print(f"{n:,} records of {N_HITS} hits, and as many spans; once each in fresh processes")
    with tempfile.TemporaryDirectory() as folder:
        run_fresh("records", "write", folder=folder, n=n)
        for name in [*FORMATS, *(f"spans, {one}" for one in spans.CONTAINERS)]:
            states = {"now": ROOT} | ({"before": Path(earlier)} if earlier else {})
            found = {
                state: run_fresh("records", "read", source=source, folder=folder, name=name)
                for state, source in states.items()
            }
            assert len({str(one["rows"]) for one in found.values()}) == 1, found
            size = Path(folder, f"{name}.jsonl").stat().st_size / 1e6
            told = "   ".join(
                f"{state} cpu {one['cpu']['read']:5.1f} s {one['rss']:6,.0f} MiB"
                for state, one in found.items()
            )
            print(f"{name:20} {size:5,.0f} MB {found['now']['rows'][1]:8,} hits   {told}")


if __name__ == "__main__":
    main(*(int(one) if one.isdecimal() else one for one in sys.argv[1:]))
