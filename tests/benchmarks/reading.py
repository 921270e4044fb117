"""Reading a file of JSON lines with nested hits and answers, beside what else reads it.

pyarrow parses the bare lines; pandas flattens the nested lists. Readers run in turn, each time in a
fresh process.
"""

import json
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.process import Clock, run_fresh

N_HITS = 10


def lines(n: int) -> Iterator[str]:
    """Yield records of about 8 kB: ten hits with text, and an answer with three citations."""
    rng = random.Random(0)
    words = [f"word{number}" for number in range(3000)]
    for number in range(n):
        cited = [
            {"marker": f"[{m}]", "citation": {"kind": "line", "path": f"docs/d{m}.md", "start": 2,
             "end": 3, "section": None}}
            for m in (1, 2, 3)
        ]  # fmt: skip
        answer = {
            "answer": " ".join(rng.choices(words, k=40)), "citations": cited, "grounded": True,
            "refusal_reason": None, "usage": {"prompt_tokens": 100},
        }  # fmt: skip
        record = {
            "query_id": f"q{number}", "query": f"question {number}", "mode": "hybrid",
            "hits_top_k": [_hit(rank, rng, words) for rank in range(1, N_HITS + 1)],
            "answer": answer, "elapsed_ms": 12, "error": None,
        }  # fmt: skip
        yield json.dumps(record) + "\n"


def _hit(rank: int, rng: random.Random, words: list[str]) -> dict[str, Any]:
    doc, text = f"doc-{rng.randrange(10**5)}", " ".join(rng.choices(words, k=18))
    return {
        "rank": rank, "chunk_id": f"chunk-{rng.randrange(10**6)}", "doc_id": doc,
        "doc_path": f"docs/{doc}.md", "heading_path": ["guide", text[:20]],
        "section_label": None, "snippet": text,
        "citation": {"kind": "line", "path": f"docs/{doc}.md", "start": 1, "end": 4,
        "section": None},
        "retrieval": {"method": "hybrid", "fusion_score": 1 / rank, "lexical_score": rng.random(),
        "vector_score": None, "lexical_rank": rank, "vector_rank": None},
        "index_version": "idx@1", "embedding_model": None, "chunker_version": "v1",
        "indexed_at": "1970-01-01T00:00:00Z", "stale": False, "score_kind": "rrf",
    }  # fmt: skip


def _bare(path: str) -> Callable[[], Any]:
    from pyarrow import json as pa_json

    return lambda: pa_json.read_json(path)


def _ours(path: str) -> Callable[[], Any]:
    import ragscore as rs

    return lambda: rs.load_results(path)


def _into_store(path: str) -> Callable[[], Any]:
    import ragscore as rs

    store = rs.RunStore(tempfile.mkdtemp(dir=Path(path).parent))
    return lambda: store.save(rs.io.load_pieces(path))


def _pandas(path: str) -> Callable[[], Any]:
    import pandas as pd

    def flattened(frame: pd.DataFrame, column: str) -> pd.DataFrame:
        rows = frame[["query_id", column]].explode(column, ignore_index=True)
        return rows.join(pd.json_normalize(rows[column]))

    def read() -> Any:
        records = pd.read_json(path, lines=True)
        answers = pd.json_normalize(records["answer"]).assign(query_id=records["query_id"])
        return records, answers, flattened(records, "hits_top_k"), flattened(answers, "citations")

    return read


def _polars(path: str) -> Callable[[], Any]:
    import polars

    return lambda: polars.read_ndjson(path)


def _duckdb(path: str) -> Callable[[], Any]:
    import duckdb

    query = f"SELECT * FROM read_json_auto('{path}', format='newline_delimited')"
    return lambda: duckdb.sql(query).to_arrow_table()


READERS = {
    "pyarrow.json, bare": _bare, "ragscore": _ours, "ragscore, to a store": _into_store,
    "pandas, flattened": _pandas, "polars, nested": _polars, "duckdb, nested": _duckdb,
}  # fmt: skip


def read(clock: Clock, reader: str, path: str) -> None:
    call = READERS[reader](path)
    with clock.stage("read"):
        call()


def main(n_lines: int = 20_000, repeats: int = 3) -> None:
    """Print seconds and peak memory of every reader."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "per_query.jsonl"
        with file.open("w", encoding="utf-8") as opened:
            opened.writelines(lines(n_lines))
        print(f"{n_lines:,} lines of JSON ({file.stat().st_size / 1e6:.0f} MB)")
        found: dict[str, list[Any]] = {reader: [] for reader in READERS}
        for _ in range(repeats):
            for reader in READERS:
                found[reader].append(run_fresh("reading", "read", reader=reader, path=str(file)))
    print(f"{'':24}{'seconds':>9}{'range':>15}{'MiB':>7}")
    for reader, runs in found.items():
        wall = [one["wall"]["read"] for one in runs]
        spread = f"{min(wall):.2f} to {max(wall):.2f}"
        rss = median(one["rss"] for one in runs)
        print(f"{reader:24}{median(wall):>9.2f}{spread:>15}{rss:>7,.0f}")
