"""Evaluations with next to nothing in them, and everything that can be asked of one.

`WORLDS` makes evaluations of two runs by name; `questions` lists calls by name. Each call returns
or raises a `DataError`: that is what test_empty_worlds.py says.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pandas as pd

import ragscore as rs

RUNS = ("a", "b")
METRICS = ["hit@5", "mrr", "ndcg@10", "passed"]


def _results(queries: list[str], docs: dict[str, str], **columns: Any) -> rs.Results:
    rows = [(run, query, docs[run] + query) for run in RUNS for query in queries]
    cells = pd.DataFrame({name: [row[at] for row in rows] for at, name in enumerate(KEYS)})
    responses = cells[["run_id", "query_id"]].assign(**columns)
    hits = cells.assign(rank=1, score=0.5)
    days = pd.to_datetime(["2026-01-01", "2026-01-02"], utc=True)
    runs = pd.DataFrame({"run_id": list(RUNS), "system": list(RUNS), "created_at": days})
    return rs.Results(runs=runs, responses=responses.astype({"query_id": "str"}), hits=hits)


KEYS = ("run_id", "query_id", "doc_id")


def _golden(queries: list[str]) -> rs.Golden:
    frame = pd.DataFrame({"query_id": pd.Series(queries, dtype="str"), "difficulty": "easy"})
    targets = frame[["query_id"]].assign(level="doc", target_id="d" + frame["query_id"], grade=1)
    return rs.Golden(queries=frame, targets=targets.astype({"target_id": "str"}))


def _unlabelled() -> tuple[rs.Results, rs.Golden]:
    queries = pd.DataFrame({"query_id": ["1", "2", "3", "4"], "difficulty": ["easy", "hard"] * 2})
    return _results(["1", "2", "3", "4"], {"a": "d", "b": "x"}), rs.Golden(queries=queries)


def _other_queries() -> tuple[rs.Results, rs.Golden]:
    return _results(["5", "6"], {"a": "d", "b": "x"}), _golden(["1", "2", "3"])


def _halves() -> tuple[rs.Results, rs.Golden]:
    """Each run answered the queries that the other one didn't."""
    whole = _results(["1", "2", "3", "4"], {"a": "d", "b": "x"})
    frames = {}
    for name in ("responses", "hits"):
        frame = getattr(whole, name)
        is_own = frame["query_id"].isin(["1", "2"]).eq(frame["run_id"].eq("a"))
        frames[name] = frame[is_own].reset_index(drop=True)
    return rs.Results(runs=whole.runs, **frames), _golden(["1", "2", "3", "4"])


def _all_failed() -> tuple[rs.Results, rs.Golden]:
    whole = _results(["1", "2", "3"], {"a": "d", "b": "x"}, error="timeout")
    return rs.Results(runs=whole.runs, responses=whole.responses), _golden(["1", "2", "3"])


def _one_query() -> tuple[rs.Results, rs.Golden]:
    return _results(["1"], {"a": "d", "b": "x"}), _golden(["1"])


def _no_queries() -> tuple[rs.Results, rs.Golden]:
    return _results(["1"], {"a": "d", "b": "x"}), _golden([])


def _no_responses() -> tuple[rs.Results, rs.Golden]:
    return _results([], {"a": "d", "b": "x"}), _golden(["1", "2"])


def _no_hits() -> tuple[rs.Results, rs.Golden]:
    whole = _results(["1", "2", "3"], {"a": "d", "b": "x"})
    return rs.Results(runs=whole.runs, responses=whole.responses), _golden(["1", "2", "3"])


WORLDS: dict[str, Callable[[], tuple[rs.Results, rs.Golden]]] = {
    "all unlabelled": _unlabelled,
    "other queries": _other_queries,
    "no common query": _halves,
    "all failed": _all_failed,
    "one query": _one_query,
    "no query": _no_queries,
    "no response": _no_responses,
    "no hit": _no_hits,
}


def questions(ev: rs.Evaluation) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield every method and picture of an evaluation, a comparison, a leaderboard and others."""
    golden = ev.golden
    a, b = RUNS
    cmp, board = cache(lambda: ev.compare(a, b)), cache(ev.leaderboard)
    yield "ev", lambda: _printed(ev)
    for name, make in {
        "summary": ev.summary,
        "summary by": lambda: ev.summary(METRICS, by="difficulty"),
        "slices": lambda: ev.slices("difficulty", METRICS),
        "explain": lambda: ev.explain(METRICS),
        "pivot": lambda: ev.pivot("mrr"),
        "query": lambda: ev.query("1"),
        "coverage": ev.coverage,
        "coverage_issues": lambda: ev.coverage().issues,
        "score_diff": lambda: rs.extras.score_diff(ev, a, b),
        "leaderboard": board,
        "leaderboard baseline": lambda: ev.leaderboard(METRICS, baseline=a),
        "trend": lambda: ev.trend("mrr"),
        "report": ev.report,
        "refusals": ev.refusals,
        "risk_coverage": lambda: rs.extras.risk_coverage(ev, right="hit@5"),
        "failures": ev.failures,
        "paraphrases": lambda: rs.extras.paraphrases(ev),
        "repeats": lambda: ev.repeats("mrr", 1),
        "retrievers": lambda: rs.extras.retrievers(ev),
        "golden.health": lambda: ev.golden.health(ev),
        "check_reported": lambda: rs.extras.check_reported(ev),
        "select": lambda: ev.select([a]),
        "compare": cmp,
        "compare metrics": lambda: ev.compare(a, b, METRICS),
        "validate": golden.validate,
        "compare slices": lambda: cmp().slices("difficulty"),
        "gate": lambda: cmp().gate({"mrr": 0.02}),
        "explore": lambda: cmp().explore(),
        "explore ev": lambda: ev.explore(),
    }.items():
        yield name, lambda make=make: _printed(make())
    for name in ("counts", "overall", "changed", "_shown", "to_markdown", "to_json"):
        yield f"cmp.{name}", lambda name=name: _called(getattr(cmp(), name))
    for name in ("notes", "to_json", "_ranked"):
        yield f"board.{name}", lambda name=name: _called(getattr(board(), name))
    yield "board.matrix", lambda: ev.leaderboard("mrr").matrix("mrr")
    for name in ("summary", "metric_at_k", "refusals", "risk_coverage"):
        yield f"ev.plot.{name}", lambda name=name: _picture(getattr(ev.plot, name))
    for name in ("slices", "heatmap"):
        yield (
            f"ev.plot.{name}",
            lambda name=name: _picture(getattr(ev.plot, name), "mrr", "answerable"),
        )
    yield "ev.plot.scatter", lambda: _picture(ev.plot.scatter, "mrr", a, b)
    yield "ev.plot.tradeoff", lambda: _picture(ev.plot.tradeoff, "mrr")
    for name in ("forest", "ranks", "outcomes"):
        yield f"cmp.plot.{name}", lambda name=name: _picture(getattr(cmp().plot, name))
    yield "cmp.plot.scatter", lambda: _picture(cmp().plot.scatter, "mrr")
    yield "cmp.slices.plot", lambda: _picture(cmp().slices("difficulty").plot)
    yield "board.plot", lambda: _picture(board().plot)
    yield "trend.plot", lambda: _picture(ev.trend("mrr").plot)
    yield "refusals.plot", lambda: _picture(ev.refusals().plot)
    yield "failures.plot", lambda: _picture(ev.failures().plot, a, b)
    yield "risk_coverage.plot", lambda: _picture(rs.extras.risk_coverage(ev, right="hit@5").plot)
    yield "rs.plot.summary", lambda: _picture(rs.plot.summary, ev.summary(METRICS))
    yield (
        "rs.plot.slices",
        lambda: _picture(rs.plot.slices, ev.summary(METRICS, by="answerable"), "mrr", "answerable"),
    )
    yield (
        "rs.plot.heatmap",
        lambda: _picture(
            rs.plot.heatmap, ev.summary(METRICS, by="answerable"), "mrr", "answerable"
        ),
    )


def _printed(found: Any) -> Any:
    """Print what a call returned, as text and as a notebook does."""
    return repr(found), getattr(found, "_repr_html_", str)()


def _called(found: Any) -> Any:
    return found() if callable(found) else found


def _picture(draw: Callable[..., Any], *arguments: Any) -> Any:
    import matplotlib.pyplot as plt

    try:
        ax = draw(*arguments)
        ax.figure.canvas.draw()
        return ax
    finally:
        plt.close("all")


def evaluated(world: str) -> rs.Evaluation:
    """Return the evaluation of a world; what it warns of is not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        # All default metrics where no query has a value, few where pictures are drawn.
        metrics = None if world in ("all unlabelled", "no response") else METRICS
        return rs.evaluate(*WORLDS[world](), metrics=metrics)
