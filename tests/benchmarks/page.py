"""How large a report is, how long it takes to write, and to open in a browser.

`python -m tests.benchmarks.page` prints a row per number of queries. A page is open once it is
loaded, its explorer has unpacked its content, and two frames have been drawn after that.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import ragscore as rs
from tests.browser import Browser

SIZES = (182, 1_000, 5_000)
DEPTH, BEST_OF = 10, 5
WORDS = "how what where table column join merge plot axis array value index sort group text".split()
# the time from the start of the navigation, so that loading is inside
READY = """new Promise(done => {
  const look = () => document.querySelector('.rs-explorer:not(:has(script))')
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))
    : setTimeout(look, 4);
  look();
})"""


def evaluation(n: int, texts: bool, depth: int = DEPTH) -> rs.Evaluation:
    """Two runs of n queries, by default × 10 hits, that differ on about a third of the queries."""
    rng = np.random.default_rng(0)
    queries = pd.DataFrame({
        "query_id": [f"q-{at:05d}" for at in range(n)],
        "query": [" ".join(rng.choice(WORDS, 12)) for _ in range(n)],
        "difficulty": rng.choice(["easy", "medium", "hard"], n),
    })  # fmt: skip
    targets = pd.DataFrame({
        "query_id": queries["query_id"], "level": "doc", "target_id": queries["query_id"],
        "doc_id": queries["query_id"],
    })  # fmt: skip
    parts, answers = [], []
    first = rng.integers(1, 16, n)
    for run, ranks in (
        ("old", first),
        ("new", np.where(rng.random(n) < 0.3, rng.integers(1, 16, n), first)),
    ):
        docs = np.array(
            [[f"doc-{one:05d}" for one in row] for row in rng.integers(0, 3 * n, (n, depth))]
        )
        found = ranks <= depth
        docs[np.flatnonzero(found), ranks[found] - 1] = queries["query_id"][found]
        hits = pd.DataFrame({
            "run_id": run, "query_id": queries["query_id"].repeat(depth).to_numpy(),
            "rank": np.tile(np.arange(1, depth + 1), n), "doc_id": docs.ravel(),
            "score": np.tile(np.linspace(1, 0.1, depth), n),
        }).drop_duplicates(["query_id", "doc_id"])  # fmt: skip
        hits["rank"] = hits.groupby("query_id").cumcount() + 1
        if texts:
            texts_of = {one: text_of(one) for one in hits["doc_id"].unique()}
            hits["text"] = hits["doc_id"].map(texts_of)
        parts.append(hits)
        answers.append(queries[["query_id", "query"]].assign(
            run_id=run, answer=[" ".join(rng.choice(WORDS, 30)) for _ in range(n)],
        ))  # fmt: skip
    results = rs.Results(
        runs=pd.DataFrame({"run_id": ["old", "new"], "k": min(depth, DEPTH)}),
        responses=pd.concat(answers, ignore_index=True), hits=pd.concat(parts, ignore_index=True),
    )  # fmt: skip
    return rs.evaluate(results, rs.Golden(queries=queries, targets=targets))


def text_of(name: str) -> str:
    """A passage of 80 words, the same for the same document."""
    rng = np.random.default_rng(sum(map(ord, name)) * 7919 + int(name[-5:]))
    return " ".join(rng.choice(WORDS, 80))


def main() -> None:
    """Print one row per number of queries, with and without texts of hits."""
    print("queries  texts  page, kB  explorer, kB  report, s  to HTML, s  open, ms")
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        for texts in (False, True):
            for n in SIZES:
                ev = evaluation(n, texts)
                start = time.perf_counter()
                made = ev.report()
                built = time.perf_counter()
                file = made.write(Path(folder) / "page.html")
                written = time.perf_counter()
                opened = []
                for _ in range(BEST_OF):
                    browser.visit("about:blank")
                    browser.open(file)
                    opened.append(browser.run(READY))
                print(
                    f"{n:7,}  {'yes' if texts else 'no':5}  {file.stat().st_size / 1e3:8,.0f}"
                    f"  {len(made.explorer) / 1e3:12,.0f}  {built - start:9.1f}"
                    f"  {written - built:10.1f}  {min(opened):8,.0f}"
                )


if __name__ == "__main__":
    main()
