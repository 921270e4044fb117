"""Pictures of one run to 25, at three widths and in three styles: nothing is cut or overlaps."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import structure
from structure import OF_TWO_RUNS, PANELS, PICTURES, draw, expected_names, faults

import ragscore as rs

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("name", PICTURES)
def test_everything_drawn_is_whole_and_apart(name):
    assert not faults(draw(name, 2), expected_names(name, 2))


ROOMS = [
    (18, "short", "alone", "dark_background"),
    (10, "common", "paper", "grayscale"),
    (25, "apart", "half", "default"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("n_runs", "names", "place", "style"), ROOMS)
@pytest.mark.parametrize("name", PICTURES)
def test_it_fits_a_column_half_a_notebook_and_names_of_40_letters_in_light_and_dark(
    name, n_runs, names, place, style
):
    with plt.style.context(style):
        assert not faults(draw(name, 2 if name in OF_TWO_RUNS else n_runs, place, names))


SIXTY = tuple(f"category number {n} of many" for n in range(60))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n_runs"), [("slices", 3), ("heatmap", 25), ("slice_deltas", 2)])
def test_of_sixty_categories_the_largest_with_values_are_drawn(name, n_runs):
    drawn = structure.World(n_runs, 120, categories=SIXTY)
    ax = plt.subplots(1, 2)[1][0]
    if name == "slice_deltas":
        drawn.cmp.slices("category", "mrr@10").plot(ax=ax)
    else:
        getattr(rs.plot, name)(drawn.ev.summary("mrr@10", by="category"), ax=ax)
    assert "largest of 50" in f"{ax.get_xlabel()} {ax.get_ylabel()}".replace("\n", " ")
    assert ax.figure.get_size_inches()[1] < 11
    assert not faults(ax.figure)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of ids that don't join
@pytest.mark.parametrize("name", [name for name in PICTURES if name not in PANELS])
def test_one_query_is_drawn_whole(name):
    ax = plt.subplots(1, 2)[1][0]
    assert not faults(PICTURES[name](structure.world(2, 1), ax=ax).figure)


def test_a_run_without_a_value_leaves_its_place_hatched_and_said():
    table = structure.world(2).ev.summary("mrr@10", by="category")
    table.loc[table["run_id"].eq("dense").to_numpy(), "mean"] = np.nan
    ax = rs.plot.heatmap(table)
    assert sum(patch.get_hatch() is not None for patch in ax.patches) == 4
    assert "hatched: no value" in ax.get_xlabel().replace("\n", " ") and not faults(ax.figure)


def test_names_are_cut_only_where_all_of_them_cannot_fit():
    whole = {label.get_text() for label in draw("refusal_matrix", 2, names="common").axes[0]
             .get_yticklabels()}  # fmt: skip
    assert whole == {"chunk0256", "chunk0257"}


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
