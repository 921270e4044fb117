"""Time reading a run file.

`python -m tests.benchmarks.reading [n_lines [n_large]]` (default 20,000 lines of 8 kB).

Against pyarrow.json's bare parse of the same bytes, and pandas.read_json with the nested lists
flattened. Tools run in turn, each in a fresh process, with the whole of `rs.load_results` inside
the clock; medians of three and ranges are printed, as seconds on the wall and of all cores (which a
busy machine disturbs less), and as peak memory of the process. With `n_large`, files of a tenth and
all of that many lines are read into a store, once each (500,000 lines are 4 GB): the time grows
with the file, the peak does not.
"""

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPEATS = 3
N_HITS = 10
DISTINCT = 20_000  # lines made one by one


def lines(n: int, seed: int = 0) -> Iterator[str]:
    """Records as the tool writes them.

    Ten hits with text, an answer with three citations, about 8 kB each.
    """
    rng = random.Random(seed)
    words = [f"word{number}" for number in range(3000)]
    for number in range(n):
        hits = [
            _hit(rank, " ".join(rng.choices(words, k=18)), rng) for rank in range(1, N_HITS + 1)
        ]
        cited = [
            {
                "marker": f"[{m}]",
                "citation": {
                    "kind": "line",
                    "path": f"docs/d{m}.md",
                    "start": 2,
                    "end": 3,
                    "section": None,
                },
            }
            for m in (1, 2, 3)
        ]
        given = {
            "answer": " ".join(rng.choices(words, k=40)),
            "citations": cited,
            "grounded": True,
            "refusal_reason": None,
            "usage": {"prompt_tokens": 100},
        }
        record = {
            "query_id": f"q{number}",
            "query": f"question {number}",
            "mode": "hybrid",
            "hits_top_k": hits,
            "answer": given,
            "elapsed_ms": 12,
            "error": None,
        }
        yield json.dumps(record)


def _hit(rank: int, text: str, rng: random.Random) -> dict[str, Any]:
    doc = f"doc-{rng.randrange(10**5)}"
    scores = {
        "method": "hybrid",
        "fusion_score": 1 / rank,
        "lexical_score": rng.random(),
        "vector_score": None,
        "lexical_rank": rank,
        "vector_rank": None,
    }
    return {
        "rank": rank, "chunk_id": f"chunk-{rng.randrange(10**6)}", "doc_id": doc,
        "doc_path": f"docs/{doc}.md", "heading_path": ["guide", text[:20]],
        "section_label": None, "snippet": text,
        "citation": {"kind": "line", "path": f"docs/{doc}.md", "start": 1, "end": 4,
        "section": None},
        "retrieval": scores, "index_version": "idx@1", "embedding_model": None,
        "chunker_version": "v1", "indexed_at": "1970-01-01T00:00:00Z", "stale": False,
        "score_kind": "rrf",
    }  # fmt: skip


def _ours(path: str, from_bytes: float) -> Any:
    import ragscore as rs
    from ragscore.io import arrow_lines

    arrow_lines.FROM_BYTES = from_bytes  # type: ignore[assignment]
    return _timed(lambda: rs.load_results(path))


def _into_store(path: str) -> Any:
    import ragscore as rs

    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        return _timed(lambda: rs.RunStore(folder).ingest(path))


def _bare(path: str) -> Any:
    from pyarrow import json as pa_json

    return _timed(lambda: pa_json.read_json(path))


def _pandas(path: str) -> Any:
    import pandas as pd

    def read() -> Any:
        records = pd.read_json(path, lines=True)
        hits = records[["query_id", "hits_top_k"]].explode("hits_top_k", ignore_index=True)
        answers = pd.json_normalize(records["answer"])
        cited = answers.assign(query_id=records["query_id"])[["query_id", "citations"]].explode(
            "citations", ignore_index=True
        )
        return (
            records,
            answers,
            hits.join(pd.json_normalize(hits["hits_top_k"])),
            cited.join(pd.json_normalize(cited["citations"])),
        )

    return _timed(read)


def _polars(path: str) -> Any:
    import polars

    return _timed(lambda: polars.read_ndjson(path))


def _duckdb(path: str) -> Any:
    import duckdb

    return _timed(
        lambda: duckdb.sql(
            f"SELECT * FROM read_json_auto('{path}', format='newline_delimited')"
        ).to_arrow_table()
    )


def _timed(call: Callable[[], Any]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = call()
    spent = {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "rss": _peak_mb(),
    }
    del found
    return spent


def _peak_mb() -> float:
    """Peak memory of this process.

    What the system says of resources used is that of the process which started it, where that had
    more.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (peak,) = [
        line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")
    ]
    return int(peak) / 1024


READERS: dict[str, Callable[[str], Any]] = {
    "pyarrow.json, bare": _bare,
    "ragscore, fast": lambda path: _ours(path, 0),
    "ragscore, per line": lambda path: _ours(path, float("inf")),
    "ragscore, to a store": _into_store,
    "pandas, flattened": _pandas,
    "polars, nested": _polars,
    "duckdb, nested": _duckdb,
}


def main(n_lines: int = 20_000, n_large: int = 0) -> None:
    """Print the table, and how reading a large file into a store grows."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "per_query.jsonl"
        size = _write(file, n_lines)
        spent: dict[str, list[dict[str, float]]] = {name: [] for name in READERS}
        for _ in range(REPEATS):
            for name in READERS:
                spent[name].append(_measured(name, file))
    print(
        f"{n_lines:,} lines of {size / n_lines / 1000:.1f} kB ({size / 1e6:.0f} MB), {REPEATS}"
        " alternating runs in fresh processes"
    )
    bare = {
        key: statistics.median(one[key] for one in spent["pyarrow.json, bare"])
        for key in ("wall", "cpu")
    }
    for name, runs in spent.items():
        wall, cpu = ([one[key] for one in runs] for key in ("wall", "cpu"))
        ratio = (
            f"{statistics.median(wall) / bare['wall']:5.2f} of bare (cpu"
            f" {statistics.median(cpu) / bare['cpu']:5.2f})"
        )
        rss = statistics.median(one["rss"] for one in runs)
        print(
            f"{name:20} median {statistics.median(wall):6.2f} s   range {min(wall):.2f} to"
            f" {max(wall):.2f}   cpu {statistics.median(cpu):6.2f} s   {ratio}   {rss:,.0f} MB"
        )
    for n in (n_large // 10, n_large) if n_large else ():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "per_query.jsonl"
            size = _write(file, n)
            one = _measured("ragscore, to a store", file)
            print(
                f"to a store: {n:9,} lines ({size / 1e6:5,.0f} MB)   {one['wall']:6.1f} s   cpu"
                f" {one['cpu']:6.1f} s   peak {one['rss']:,.0f} MB"
            )


def _write(file: Path, n_lines: int) -> int:
    """A file of so many lines, and its size.

    Beyond DISTINCT lines the same ones come again under other ids.
    """
    bodies = list(lines(min(n_lines, DISTINCT)))
    with file.open("w", encoding="utf-8") as opened:
        opened.writelines(
            bodies[n % len(bodies)].replace(f'"q{n % len(bodies)}"', f'"q{n}"', 1) + "\n"
            for n in range(n_lines)
        )
    return file.stat().st_size


def _measured(name: str, file: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.reading", "--one", name, str(file)]
    found: dict[str, float] = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(READERS[sys.argv[2]](sys.argv[3])))
    else:
        main(*map(int, sys.argv[1:]))
