"""An object draws itself: by the functions of `rs.plot`, with what it knows filled in."""

import inspect
from pathlib import Path

import matplotlib
import pytest

import ragscore as rs
from ragscore.analysis.failure_causes import failures
from ragscore.analysis.refusals import refusals
from ragscore.plot import accessor
from tests.messages import refused

matplotlib.use("Agg")
DEMO = Path(__file__).parents[2] / "data" / "demo"


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def ev():
    return rs.evaluate(str(DEMO / "runs" / "*"), str(DEMO / "golden.yaml"))


@pytest.fixture(scope="module")
def cmp(ev):
    return ev.compare("dense", "hybrid")


def content(ax):
    """Everything that a reader sees, as text and numbers."""
    lines = [line.get_xydata().tolist() for line in ax.get_lines()]
    return ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), lines, len(ax.patches)


def test_pictures_are_methods_with_the_rest_of_the_arguments(cmp, ev):
    assert content(cmp.plot()) == content(rs.plot.forest(cmp.deltas, None, "dense", "hybrid"))
    assert content(cmp.plot.scatter("mrr@10")) == content(
        rs.plot.scatter(ev.scores, "mrr@10", "dense", "hybrid")
    )
    assert content(cmp.plot.forest(metrics=["hit@5"])) == content(
        rs.plot.forest(cmp.deltas, ["hit@5"], "dense", "hybrid")
    )
    assert content(ev.plot.heatmap("mrr@10", ["difficulty", "category"])) == content(
        rs.plot.heatmap(ev.scores, "mrr@10", ["difficulty", "category"], golden=ev.golden)
    )


def test_completion_and_help_show_the_pictures(cmp):
    assert dir(cmp.plot) == sorted(["forest", "ranks", "outcomes", "scatter"])
    assert cmp.plot.scatter.__doc__ == rs.plot.scatter.__doc__
    assert list(inspect.signature(cmp.plot.scatter).parameters) == ["metric", "legend", "ax"]
    with refused("rank", "ranks", error=AttributeError):
        _ = cmp.plot.rank


def test_a_comparison_from_json_has_no_scores_to_draw(cmp):
    again = rs.Comparison.from_json(cmp.to_json())
    assert content(again.plot.ranks()) == content(cmp.plot.ranks())
    with refused("JSON", "scores", field="scores"):
        again.plot.scatter("mrr@10")


def test_every_object_with_pictures_draws_its_usual_one(ev):
    board = ev.leaderboard(["hit@5", "mrr@10"])
    heights = [bar.get_height() for bar in board.plot().patches]
    assert heights == pytest.approx(
        [bar.get_height() for bar in rs.plot.summary(ev.summary(["hit@5", "mrr@10"])).patches]
    )
    decided = refusals(ev.scores, ev.golden)
    assert content(decided.plot()) == content(rs.plot.refusal_matrix(decided.table))
    found = failures(ev.scores, ev.golden, ev.results)
    assert content(found.plot("dense", "hybrid")) == content(
        rs.plot.failure_transitions(found.transitions("dense", "hybrid"), "dense", "hybrid")
    )
    with refused("ev.failures().transitions(baseline, candidate)", field="baseline, candidate"):
        found.plot()


def test_every_picture_fills_parameters_that_its_function_has():
    galleries = [one for one in vars(accessor).values() if isinstance(one, accessor.Gallery)]
    pictures = [picture for one in galleries for picture in one.pictures.items()]
    assert len(pictures) >= 18
    for draw, given in pictures:
        assert set(given) <= set(inspect.signature(draw).parameters)
        assert getattr(rs.plot, draw.__name__) is draw
