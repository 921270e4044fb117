"""Everything that an `Evaluation` can be asked, beside the scoring that it stands on.

Each question is asked twice in one process: the first call pays for what it imports and keeps.
"""

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ragscore as rs
from tests.benchmarks.process import Clock, run_fresh

DEPTH, N_DOCS, N_TARGETS = 20, 50_000, 4


def workload(n_runs: int, n_queries: int) -> tuple[rs.Results, rs.Golden]:
    """Return runs of rising quality over one golden set, of which 5 % should be refused."""
    rng = np.random.default_rng(0)
    ids = pd.Series([f"q{n:06d}" for n in range(n_queries)], dtype="str")
    names = pd.array([f"doc-{n:05d}" for n in range(N_DOCS)], dtype="str")
    wanted = rng.integers(N_DOCS, size=(n_queries, 1)) + 7 * np.arange(N_TARGETS)
    to_refuse = rng.random(n_queries) < 0.05
    hits, responses = [], []
    run_ids = [f"run{n:02d}" for n in range(n_runs)]
    for at, run_id in enumerate(run_ids):
        # Others lie far from all targets; each target takes one of five places in turn if found.
        docs = (
            wanted[:, :1] + 1_000 + rng.integers(1, 900, (n_queries, 1)) * np.arange(1, DEPTH + 1)
        )
        for target in range(N_TARGETS):
            rows = np.flatnonzero(rng.random(n_queries) < 0.3 + 0.3 * at / n_runs)
            places = target + N_TARGETS * rng.integers(DEPTH // N_TARGETS, size=len(rows))
            docs[rows, places] = wanted[rows, target]
        hits.append(pd.DataFrame({
            "run_id": run_id, "query_id": ids.repeat(DEPTH).array,
            "rank": np.tile(np.arange(1, DEPTH + 1), n_queries),
            "doc_id": names.take(docs.ravel() % N_DOCS),
            "score": (rng.random((n_queries, 1)) + 1 / np.arange(1, DEPTH + 1)).ravel(),
        }))  # fmt: skip
        draws = rng.random(n_queries)
        known = pd.Series(np.where(draws < 0.6 + 0.2 * at / n_runs, "known", "guessed"))
        responses.append(pd.DataFrame({
            "run_id": run_id, "query_id": ids, "query": "what is " + ids,
            "answer": "It is " + known + ", as " + ids + " says.",
            "refused": np.where(to_refuse, draws < 0.7, draws < 0.03),
            "elapsed_ms": rng.lognormal(5, 0.6, n_queries),
        }))  # fmt: skip
    runs = pd.DataFrame({
        "run_id": run_ids, "system": run_ids, "k": DEPTH,
        "created_at": pd.date_range("2026-01-01", periods=n_runs, tz="UTC"),
        "config": [json.dumps({"alpha": n % 3 / 10, "depth": 10 * (n % 2)}) for n in range(n_runs)],
    })  # fmt: skip
    queries = pd.DataFrame({
        "query_id": ids, "query": "what is " + ids, "answerable": ~to_refuse,
        "position": range(n_queries),
        "difficulty": rng.choice(["easy", "medium", "hard"], n_queries),
        "category": rng.choice([f"topic {n}" for n in range(8)], n_queries),
    })  # fmt: skip
    doc_ids = names.take(wanted.ravel() % N_DOCS)
    targets = pd.DataFrame({
        "query_id": ids.repeat(N_TARGETS).array, "level": "doc", "target_id": doc_ids,
        "doc_id": doc_ids, "grade": rng.integers(1, 4, len(doc_ids)), "alternative": 0,
    })  # fmt: skip
    checks = pd.DataFrame({"query_id": ids, "kind": "must_contain", "text": "known"})
    golden = rs.Golden(
        queries=queries, targets=targets[~to_refuse.repeat(N_TARGETS)], checks=checks[~to_refuse]
    )
    return rs.Results(runs, pd.concat(responses), pd.concat(hits)), golden


def questions(ev: rs.Evaluation, folder: Path) -> dict[str, Callable[[], Any]]:
    """Return name -> what asks it, in the order in which they are asked."""
    pair = ev.run_ids[0], ev.run_ids[-1]
    cmp = ev.compare(*pair)
    return {
        "summary": ev.summary,
        "summary by category": lambda: ev.summary(by="category"),
        "compare": lambda: ev.compare(*pair),
        "compare: slices": lambda: cmp.slices("category"),
        "compare: gate": lambda: cmp.gate({"ndcg@10": 0.02}),
        "leaderboard": ev.leaderboard,
        "slices, two columns": lambda: ev.slices(["category", "difficulty"]),
        "print": lambda: repr(ev),
        "HTML": lambda: ev._repr_html_(),
        "score_diff": lambda: rs.extras.score_diff(ev, *pair),
        "trend": ev.trend,
        "config_effects": lambda: rs.extras.config_effects(ev),
        "refusals": ev.refusals,
        "failures": ev.failures,
        "risk_coverage": lambda: rs.extras.risk_coverage(ev, right="hit@5"),
        "explain": ev.explain,
        "query": lambda: repr(ev.query(ev.golden.queries["query_id"].iloc[1])),
        "select hard queries": lambda: ev.select(queries="difficulty == 'hard'").summary(),
        "coverage": ev.coverage,
        "golden_health": lambda: ev.golden.health(ev, "hit@5"),
        "explore": lambda: ev.explore()._repr_html_(),
        "report": lambda: ev.report(folder / "report.html"),
        "store.save": lambda: rs.RunStore(tempfile.mkdtemp(dir=folder)).save(ev),
    }


def ask(clock: Clock, n_runs: int, n_queries: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    results, golden = workload(n_runs, n_queries)
    spent = {}
    ev = clock.calls(lambda: rs.evaluate(results, golden), 3)
    spent["evaluate"] = [clock.wall["first"], clock.wall["again"]]
    with tempfile.TemporaryDirectory() as folder:
        for name, question in questions(ev, Path(folder)).items():
            clock.calls(question, 1)
            spent[name] = [clock.wall["first"], clock.wall["again"]]
    return {"spent": spent}


def main(sizes: tuple[tuple[int, int], ...] = ((10, 5_000), (2, 100_000))) -> None:
    """Print seconds of every question, first and again, and as a multiple of scoring."""
    for n_runs, n_queries in sizes:
        spent = run_fresh("questions", "ask", n_runs=n_runs, n_queries=n_queries)["spent"]
        title = f"{n_runs} runs × {n_queries:,} queries"
        print(f"{title:28}{'first':>9}{'again':>9}{'× evaluate':>12}")
        for name, (first, again) in spent.items():
            ratio = again / spent["evaluate"][1]
            print(f"{name:28}{first:>9.2f}{again:>9.2f}{ratio:>12.1f}")
