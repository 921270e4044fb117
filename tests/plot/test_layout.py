"""Everything drawn is whole and apart: long names, narrow figures, one run, one query, dark."""

import re
from itertools import combinations

import matplotlib.pyplot as plt
import pytest
from matplotlib.legend import Legend
from matplotlib.path import Path
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Affine2D, Bbox
from worlds import OF_TWO_RUNS, PICTURES, world

import ragscore as rs

SLACK = 1.5  # pixels by which boxes may meet: a font's box is larger than its letters
CLAIM = re.compile(r"better|worse|lead|best|fewer|best|told|risk from|higher|lower|significan")
KINDS = ("summary", "heatmap of many", "tradeoff", "trend", "outcomes", "failures")
NARROW = {"figure.figsize": (3.35, 2.4), "font.size": 8}


def faults(figure):
    """Return what is cut, what overlaps, and axes without room."""
    figure.draw_without_rendering()
    texts = [text for text in seen_texts(figure) if text.get_window_extent().width]
    boxes = [(text, box_of(text), outline(text)) for text in texts]
    page = figure.bbox.padded(SLACK)
    for text, box, _ in boxes:
        if box.x0 < page.x0 or box.x1 > page.x1 or box.y0 < page.y0 or box.y1 > page.y1:
            yield f"cut: {text.get_text()}"
    for (a, box_a, shape_a), (b, box_b, shape_b) in combinations(boxes, 2):
        if box_a.overlaps(box_b) and shape_a.intersects_path(shape_b):
            yield f"overlap: {a.get_text()} and {b.get_text()}"
    for ax in figure.axes:
        own = ax.get_window_extent()
        if own.width < 50 or own.height < 30:
            yield f"axes of {own.width:.0f} by {own.height:.0f} pixels"
        for legend in figure.findobj(Legend):
            inside = Bbox.intersection(legend.get_window_extent(), own)
            if inside is not None and min(inside.width, inside.height) > SLACK:
                yield "a legend lies over axes"


def seen_texts(figure):
    """Return every text that is drawn: titles, labels, ticks in view, notes, legends."""
    ticks = {}
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        room = (high - low) * 1e-9
        for tick in axis.get_major_ticks():
            is_seen = tick.get_visible() and low - room <= tick.get_loc() <= high + room
            ticks |= dict.fromkeys((tick.label1, tick.label2), is_seen and axis.get_visible())
    return [
        text
        for text in figure.findobj(Text)
        if text.get_text().strip() and text.get_visible() and ticks.get(text, True)
    ]


def box_of(text):
    """Return a text's own box, without an arrow."""
    kind = Text if isinstance(text, Annotation) else type(text)
    return kind.get_window_extent(text)


def outline(text):
    """Return the outline of a text, turned as it is drawn."""
    angle, box = text.get_rotation(), box_of(text)
    middle = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
    if angle % 90 == 0:
        return Path(box.padded(-SLACK).corners()[[0, 1, 3, 2, 0]])
    text.set_rotation(0)
    flat = box_of(text).padded(-SLACK)
    text.set_rotation(angle)
    centred = flat.translated(
        middle[0] - flat.x0 - flat.width / 2, middle[1] - flat.y0 - flat.height / 2
    )
    corners = centred.corners()[[0, 1, 3, 2, 0]]
    return Path(Affine2D().rotate_deg_around(*middle, angle).transform(corners))


def pictures(names):
    """Each of these pictures as a case; a kind of layout is drawn quickly, its like are slow."""
    return [pytest.param(one, marks=[] if one in KINDS else pytest.mark.slow) for one in names]


@pytest.mark.parametrize("name", pictures(PICTURES))
def test_ten_names_of_40_letters_fit_a_figure_of_usual_width_and_no_title_claims_anything(name):
    ax = PICTURES[name](world(2 if name in OF_TWO_RUNS else 10, "apart"))
    assert ax.figure.get_size_inches()[0] == 6.4
    assert [*faults(ax.figure)] == [] and not CLAIM.search(ax.get_title().lower())


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_ten_names_of_12_letters_fit_a_column_of_a_paper_in_any_style(name):
    with plt.style.context(["dark_background", NARROW]):
        figure = PICTURES[name](world(2 if name in OF_TWO_RUNS else 10)).figure
        assert figure.get_size_inches()[0] == 3.35
        assert [*faults(figure)] == []


@pytest.mark.parametrize("name", pictures([name for name in PICTURES if name not in OF_TWO_RUNS]))
def test_one_run_is_named_and_needs_no_legend(name):
    figure = PICTURES[name](world(1)).figure
    assert [*faults(figure)] == []
    texts = " ".join(text.get_text() for text in seen_texts(figure))
    assert texts.count("run_00000000") == 1 or name == "trend"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # of few queries and ids that don't join
@pytest.mark.parametrize("name", [name for name in PICTURES if name != "risk_coverage"])
def test_one_query_is_drawn_whole(name):
    assert [*faults(PICTURES[name](world(2, n_queries=1)).figure)] == []


def test_pictures_stand_side_by_side_in_a_figure_of_ones_own():
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    drawn = world(2)
    for name, ax in zip(("forest", "slices", "scatter", "outcomes"), axes.flat, strict=True):
        assert PICTURES[name](drawn, ax=ax) is ax
    assert [*faults(figure)] == []


def test_a_figure_is_as_high_as_its_rows_and_its_legend_need():
    one, many = (rs.plot.summary(world(n).ev.summary("hit@5")).figure for n in (1, 10))
    assert one.get_size_inches()[1] < 2 < many.get_size_inches()[1] < 4
