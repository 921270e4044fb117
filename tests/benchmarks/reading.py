"""Reading a file of JSON lines with nested hits and answers, beside what else reads it.

pyarrow and polars parse the bare lines. Readers run in turn, each time in a fresh process.
"""

import json
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.process import Measured, run_fresh, timed
from tests.conftest import answer, hit, record

WORDS = [f"word{number}" for number in range(3000)]


def lines(n: int) -> Iterator[str]:
    """Yield records of about 8 kB: ten hits with text, and an answer with three citations."""
    rng = random.Random(0)
    for number in range(n):
        hits = []
        for rank in range(1, 11):
            text = " ".join(rng.choices(WORDS, k=18))
            chunk, doc = f"chunk-{rng.randrange(10**6)}", f"doc-{rng.randrange(10**5)}"
            hits.append(hit(chunk, doc, rank, snippet=text, heading_path=["guide", text[:20]]))
        said = answer(" ".join(rng.choices(WORDS, k=40)), paths=["a.md", "b.md", "c.md"])
        said |= {"usage": {"prompt_tokens": 100}}
        yield json.dumps(record(f"q{number}", hits, answer=said)) + "\n"


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


def _polars(path: str) -> Callable[[], Any]:
    import polars

    return lambda: polars.read_ndjson(path)


READERS = {
    "pyarrow.json, bare": _bare, "ragscore": _ours, "ragscore, to a store": _into_store,
    "polars, nested": _polars,
}  # fmt: skip


def read(reader: str, path: str) -> Measured:
    return {"seconds": timed(READERS[reader](path))[0]}


def main(n_lines: int = 20_000, repeats: int = 3) -> None:
    """Print seconds and peak memory of every reader."""
    found: dict[str, list[Measured]] = {reader: [] for reader in READERS}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "per_query.jsonl"
        with file.open("w", encoding="utf-8") as opened:
            opened.writelines(lines(n_lines))
        print(f"{n_lines:,} lines of JSON ({file.stat().st_size / 1e6:.0f} MB)")
        for reader in [*READERS] * repeats:
            found[reader].append(run_fresh("reading", "read", reader=reader, path=str(file)))
    for reader, runs in found.items():
        seconds, rss = (median(one[name] for one in runs) for name in ("seconds", "rss"))
        print(f"{reader:24}{seconds:>9.2f} s{rss:>9,.0f} MiB")
