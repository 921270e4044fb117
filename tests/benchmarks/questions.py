"""Everything that an `Evaluation` can be asked, beside the scoring that it stands on.

Each question is asked twice in one process: the first call pays for what it imports and keeps.
"""

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

import ragscore as rs
from tests.benchmarks.process import first_and_again, run_fresh

DEMO = Path(__file__).parents[2] / "data" / "demo"


def copied(holder: Any, n: int) -> Any:
    """Return results or a golden set with every query of the demo so many times."""
    found = {}
    for item in fields(holder):
        frame = getattr(holder, item.name)
        if isinstance(frame, pd.DataFrame) and "query_id" in frame:
            parts = [
                frame.assign(query_id=frame["query_id"].astype("str") + f"-{copy}")
                for copy in range(n)
            ]
            found[item.name] = pd.concat(parts, ignore_index=True)
    return replace(holder, **found)


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


def ask(copies: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    demo = rs.evaluate(str(DEMO / "runs" / "*"), str(DEMO / "golden.yaml"))
    results, golden = copied(demo.results, copies), copied(demo.golden, copies)
    ev = rs.evaluate(results, golden)
    spent = {"evaluate": first_and_again(lambda: rs.evaluate(results, golden), 3)}
    with tempfile.TemporaryDirectory() as folder:
        for name, question in questions(ev, Path(folder)).items():
            spent[name] = first_and_again(question, 1)
    return {"spent": spent, "n_queries": len(golden.queries)}


def main(sizes: tuple[int, ...] = (25, 250)) -> None:
    """Print seconds of every question, first and again, and as a multiple of scoring."""
    for copies in sizes:
        found = run_fresh("questions", "ask", copies=copies)
        spent, title = found["spent"], f"4 runs × {found['n_queries']:,} queries"
        print(f"{title:28}{'first':>9}{'again':>9}{'× evaluate':>12}")
        for name, one in spent.items():
            ratio = one["again"] / spent["evaluate"]["again"]
            print(f"{name:28}{one['first']:>9.2f}{one['again']:>9.2f}{ratio:>12.1f}")
