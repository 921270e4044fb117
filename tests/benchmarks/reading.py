"""Reading a file of JSON lines with nested hits and answers, beside what else reads it.

pyarrow and polars parse the bare lines. Readers run in turn, each time in a fresh process.
"""

import json
import random
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
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


# Reader -> the module that it needs, and a call of it that is measured.
READERS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "pyarrow.json, bare": ("pyarrow.json", lambda tool, path: tool.read_json(path)),
    "ragscore": ("ragscore", lambda tool, path: tool.load_results(path)),
    "ragscore, to a store": (
        "ragscore",
        lambda tool, path: tool.RunStore(f"{path}.store").save(tool.io.load_pieces(path)),
    ),
    "polars, nested": ("polars", lambda tool, path: tool.read_ndjson(path)),
}  # fmt: skip


def read(reader: str, path: str) -> Measured:
    module, call = READERS[reader]
    tool = import_module(module)
    return {"seconds": timed(lambda: call(tool, path))[0]}


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
