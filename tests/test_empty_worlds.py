"""Whatever is asked of next to nothing is answered, or refused by a `DataError` that says why.

`WORLDS` makes evaluations of two runs by name; `questions` lists what can be asked of one.
"""

import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused, says

METRICS = ["hit@5", "mrr", "ndcg@10", "passed"]


def _world(
    answered: str | dict[str, str], golden: str, *, is_labelled: bool = True,
    has_hits: bool = True, error: str | None = None,
) -> tuple[rs.Results, rs.Golden]:  # fmt: skip
    """Two runs that answered these queries (both, or each its own), a letter each.

    Run a finds the document of each, and b another one.
    """
    asked = answered if isinstance(answered, dict) else {"a": answered, "b": answered}
    rows = [(run, query) for run, queries in asked.items() for query in queries]
    cells = pd.DataFrame(rows, columns=["run_id", "query_id"], dtype="str")
    found = cells["run_id"].map({"a": "d", "b": "x"}) + cells["query_id"]
    days = pd.to_datetime(["2026-01-01", "2026-01-02"], utc=True)
    runs = pd.DataFrame({"run_id": ["a", "b"], "system": ["a", "b"], "created_at": days})
    hits = {"hits": cells.assign(doc_id=found, rank=1, score=0.5)} if has_hits else {}
    queries = pd.DataFrame({"query_id": pd.Series(list(golden), dtype="str"), "difficulty": "easy"})
    targets = queries[["query_id"]].assign(
        level="doc", target_id="d" + queries["query_id"], grade=1
    )
    return (
        rs.Results(runs, cells.assign(error=error) if error else cells, **hits),
        rs.Golden(queries, targets) if is_labelled else rs.Golden(queries),
    )


WORLDS: dict[str, Callable[[], tuple[rs.Results, rs.Golden]]] = {
    "all unlabelled": partial(_world, "1234", "1234", is_labelled=False),
    "other queries": partial(_world, "56", "123"),
    "no common query": partial(_world, {"a": "12", "b": "34"}, "1234"),
    "all failed": partial(_world, "123", "123", has_hits=False, error="timeout"),
    "one query": partial(_world, "1", "1"),
    "no query": partial(_world, "1", ""),
    "no response": partial(_world, "", "12"),
    "no hit": partial(_world, "123", "123", has_hits=False),
}


def questions(ev: rs.Evaluation) -> dict[str, Callable[[], Any]]:
    """Return every method and picture of an evaluation, a comparison, a leaderboard and others."""
    cmp, board = cache(lambda: ev.compare("a", "b")), cache(ev.leaderboard)
    by, risk = "difficulty", partial(rs.extras.risk_coverage, ev, right="hit@5")
    printed = {
        "ev": lambda: ev,
        "summary": ev.summary,
        "summary by": lambda: ev.summary(METRICS, by=by),
        "slices": lambda: ev.slices(by, METRICS),
        "explain": lambda: ev.explain(METRICS),
        "pivot": lambda: ev.pivot("mrr"),
        "query": lambda: ev.query("1"),
        "coverage": ev.coverage,
        "coverage_issues": lambda: ev.coverage().issues,
        "score_diff": lambda: rs.extras.score_diff(ev, "a", "b"),
        "leaderboard": board,
        "leaderboard baseline": lambda: ev.leaderboard(METRICS, baseline="a"),
        "leaderboard matrix": lambda: ev.leaderboard("mrr").matrix("mrr"),
        "trend": lambda: ev.trend("mrr"),
        "report": ev.report,
        "refusals": ev.refusals,
        "risk_coverage": risk,
        "failures": ev.failures,
        "paraphrases": lambda: rs.extras.paraphrases(ev),
        "repeats": lambda: ev.repeats("mrr", 1),
        "retrievers": lambda: rs.extras.retrievers(ev),
        "golden.health": lambda: ev.golden.health(ev),
        "check_reported": lambda: rs.extras.check_reported(ev),
        "select": lambda: ev.select(["a"]),
        "compare": cmp,
        "compare metrics": lambda: ev.compare("a", "b", METRICS),
        "compare slices": lambda: cmp().slices(by),
        "compare Markdown": lambda: cmp().to_markdown(),
        "compare JSON": lambda: cmp().to_json(),
        "compare changed": lambda: (cmp().counts, cmp().overall, cmp().changed),
        "validate": lambda: ev.golden.validate(),
        "gate": lambda: cmp().gate({"mrr": 0.02}),
        "explore": lambda: cmp().explore(),
        "explore ev": ev.explore,
    }
    drawn = {
        "summary": lambda: ev.plot.summary(),
        "metric_at_k": lambda: ev.plot.metric_at_k(),
        "refusals": lambda: ev.plot.refusals(),
        "risk_coverage": lambda: ev.plot.risk_coverage(),
        "slices": lambda: ev.plot.slices("mrr", "answerable"),
        "heatmap": lambda: ev.plot.heatmap("mrr", "answerable"),
        "scatter": lambda: ev.plot.scatter("mrr", "a", "b"),
        "tradeoff": lambda: ev.plot.tradeoff("mrr"),
        "forest": lambda: cmp().plot.forest(),
        "ranks": lambda: cmp().plot.ranks(),
        "outcomes": lambda: cmp().plot.outcomes(),
        "compare scatter": lambda: cmp().plot.scatter("mrr"),
        "compare slices": lambda: cmp().slices(by).plot(),
        "leaderboard": lambda: board().plot(),
        "trend": lambda: ev.trend("mrr").plot(),
        "refusals object": lambda: ev.refusals().plot(),
        "failures": lambda: ev.failures().plot("a", "b"),
        "risk object": lambda: risk().plot(),
        "rs.plot.summary": lambda: rs.plot.summary(ev.summary(METRICS)),
        "rs.plot.slices": lambda: rs.plot.slices(ev.summary(METRICS, by=by), "mrr", by),
        "rs.plot.heatmap": lambda: rs.plot.heatmap(ev.summary(METRICS, by=by), "mrr", by),
    }
    return {name: partial(_printed, ask) for name, ask in printed.items()} | {
        f"plot {name}": partial(_picture, draw) for name, draw in drawn.items()
    }


def _printed(ask: Callable[[], Any]) -> Any:
    """Print what a call returns, as text and as a notebook does."""
    found = ask()
    return repr(found), getattr(found, "_repr_html_", str)()


def _picture(draw: Callable[[], Any]) -> None:
    draw().figure.draw_without_rendering()


def evaluated(world: str) -> rs.Evaluation:
    """Return the evaluation of a world; what it warns of is not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        # All default metrics where no query has a value, few where pictures are drawn.
        metrics = None if world in ("all unlabelled", "no response") else METRICS
        return rs.evaluate(*WORLDS[world](), metrics=metrics)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_every_question_and_picture_returns_or_raises_a_data_error(world):
    ev, faults = evaluated(world), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name, ask in questions(ev).items():
            try:
                ask()
            except rs.DataError:
                pass
            except Exception as error:  # any other error is the fault that is sought
                faults.append(f"{name}: {error!r}")
    assert faults == []


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("world", "why"),
    [
        ("other queries", ["no query", "both runs"]),
        ("no common query", ["no query", "both runs"]),
        ("no response", ["no query", "both runs"]),
        ("all unlabelled", ["no metric", "golden set"]),
    ],
)
def test_a_comparison_without_values_says_that_nothing_can_be_compared(world, why):
    cmp = evaluated(world).compare("a", "b", METRICS)
    for text in (repr(cmp), cmp.to_markdown()):
        says(text, *why)
    assert cmp.overall == "can't tell"


@pytest.mark.parametrize(
    ("draw", "given", "field", "named"),
    [
        ("metric_at_k", [], "metric", ["no value", "recall"]),
        ("heatmap", ["mrr", "difficulty"], "metrics", ["no scored metric", "mrr"]),
        ("slices", ["mrr", "difficulty"], "metrics", ["no scored metric", "mrr"]),
    ],
)
def test_a_picture_of_an_unlabelled_golden_set_says_what_is_missing(draw, given, field, named):
    plot = evaluated("all unlabelled").plot
    with refused(*named, field=field):
        getattr(plot, draw)(*given)
