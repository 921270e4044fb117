"""Every picture of 2, 8 and 18 runs, alone and beside another: nothing cut, no overlaps."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import structure
from structure import OF_TWO_RUNS, PANELS, PICTURES, draw, expected_names, faults

import ragscore as rs
from ragscore.plot.style import own_styles

matplotlib.use("Agg")

CASES = [
    (name, n_runs, place)
    for name in PICTURES
    for n_runs in ((2,) if name in OF_TWO_RUNS else (2, 8, 18))
    for place in (("alone",) if name in PANELS else ("alone", "beside"))
]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(autouse=True)
def a_session_that_has_drawn_nothing():
    with own_styles([]):
        yield


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "n_runs", "place"), CASES)
def test_everything_drawn_is_whole_and_apart(name, n_runs, place):
    found = faults(draw(name, n_runs, place), expected_names(name, n_runs))
    assert not found


def test_every_picture_has_a_case():
    drawn = {name.removesuffix(" by slices") for name in PICTURES}
    pictures = {name for name in rs.plot.__all__ if hasattr(getattr(rs.plot, name), "__wrapped__")}
    assert drawn == pictures


# The checker itself: each fault is found where it is made, and a plain figure has none.


def plain():
    figure, ax = plt.subplots()
    ax.plot([0, 1, 2], [1, 3, 2], marker="o", label="dense", clip_on=False)
    ax.set_title("dense")
    return figure, ax


def test_a_plain_figure_has_no_faults():
    figure, _ = plain()
    assert faults(figure, ["dense"]) == []


def test_a_text_beyond_the_figure_is_found():
    figure, ax = plain()
    ax.text(1.2, 0.5, "far out to the right", transform=ax.transAxes)
    assert faults(figure) == ["cut off by the figure's edge: 'far out to the right'"]


def test_texts_that_overlap_are_found_and_turned_ones_by_their_own_shape():
    figure, ax = plain()
    ax.text(0.5, 0.50, "the first", transform=ax.transAxes)
    ax.text(0.5, 0.52, "the second", transform=ax.transAxes)
    assert faults(figure) == ["overlap: 'the first' and 'the second'"]
    figure, ax = plain()
    # their upright boxes meet, the texts don't: 45 degrees, side by side
    ax.text(0.3, 0.3, "a long slanted text", rotation=45, transform=ax.transAxes)
    ax.text(0.4, 0.3, "a long slanted text", rotation=45, transform=ax.transAxes)
    assert faults(figure) == []


def test_texts_in_other_axes_are_found():
    figure, (left, right) = plt.subplots(1, 2)
    left.set_title("left")
    left.text(1.1, 0.5, "over there", transform=left.transAxes)
    right.plot([0, 1], [0, 1])
    found = faults(figure)
    assert "lies over other axes: 'over there'" in found


def test_a_marker_cut_at_the_edge_is_found_and_points_out_of_view():
    figure, ax = plain()
    ax.plot([0, 2], [1.5, 1.5], marker="o", label="b", color="k")
    ax.set_xlim(0, 2)
    assert faults(figure) == ["2 markers cut at the edge of the axes: b"]
    ax.set_xlim(0.5, 3)
    assert "1 points out of view: b" in faults(figure)


def test_a_legend_over_data_is_found():
    figure, ax = plain()
    ax.legend(loc="upper center")
    assert faults(figure) == ["a legend lies over data"]
    ax.legend(loc="upper left")
    assert faults(figure) == []


def test_two_runs_drawn_alike_are_found():
    figure, ax = plain()
    ax.lines[0].set_color("k")
    ax.plot([0, 1], [1, 1.2], marker="o", color="k", label="hybrid", clip_on=False)
    assert faults(figure) == ["drawn alike: 'dense' and 'hybrid'"]
    ax.lines[1].set_marker("s")
    assert faults(figure) == []


def test_runs_without_a_name_and_an_n_said_over_and_over_are_found():
    figure, ax = plain()
    assert faults(figure, ["dense", "hybrid"]) == ["not named: 'hybrid'"]
    ax.set_xticks(np.arange(4) / 2, [f"q{n}\nn = 12" for n in range(4)])
    assert faults(figure) == ["n = 12 is said 4 times"]


def test_a_text_over_a_point_is_found():
    figure, ax = plain()
    ax.text(1, 3, "the peak", ha="center", va="center")
    assert faults(figure) == ["a text lies over a point: 'the peak'"]


def test_every_run_of_the_sets_is_another():
    for n_runs in (2, 8, 18):
        assert len(set(structure.world(n_runs).names)) == n_runs
