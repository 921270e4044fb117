"""One style per run and session, texts that stay within their place, and the palette."""

import itertools
import os
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.lines import Line2D

from ragscore.plot.layout import legend, settle, spread
from ragscore.plot.names import naming, note, shown
from ragscore.plot.style import LINES, PALETTE, all_runs, in_order, palette, run_styles
from ragscore.plot.theme import figure_size, inks
from tests.messages import refused

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def test_a_run_s_look_is_its_place_in_the_order_and_nothing_drawn_before():
    run_styles(["other", "hybrid"])
    found = run_styles(["dense", "hybrid"])
    assert [one.colour for one in found.values()] == list(PALETTE[:2])


def test_a_selection_of_runs_has_the_styles_of_the_whole():
    import pandas as pd

    column = pd.Series(["b"], dtype=pd.CategoricalDtype(["a", "b"]))
    assert list(run_styles(column)) == ["b"] and run_styles(column)["b"].colour == PALETTE[1]
    assert run_styles(column.to_frame("run_id")) == run_styles(column)


def test_no_two_of_many_runs_are_alike():
    styles = run_styles([f"run {n}" for n in range(256)]).values()
    assert len({(one.colour, one.marker, one.line) for one in styles}) == 256
    assert len({(one.colour, one.marker) for one in list(styles)[:64]}) == 64
    first = list(styles)[:8]
    assert len({one.colour for one in first}) == len({one.marker for one in first}) == 8
    assert {one.line for one in first} == set(LINES)


def test_within_an_evaluation_its_order_counts_and_a_baseline_looks_like_one():
    with all_runs(["z", "a", "b"], "b"):
        found = run_styles(["b", "a", "z"])
    assert [found[run].colour for run in "za"] == list(PALETTE[:2])
    assert found["b"].colour == inks().ink


def test_of_many_runs_the_first_and_the_leading_ones_stand_out():
    names = [f"run {n}" for n in range(25)]
    found = run_styles(names, leading=["run 7", "run 0", "run 3", "run 9", "run 1"])
    bright = [run for run, style in found.items() if not style.is_muted]
    assert bright == ["run 0", "run 3", "run 7", "run 9"]
    assert [style.label for style in found.values() if style.is_muted and style.label != "_"] == [
        "21 others"
    ]
    assert not any(style.is_muted for style in run_styles(names[:8], leading=[]).values())


def test_colours_are_those_of_the_session_if_it_changed_its_own():
    with matplotlib.rc_context({"axes.prop_cycle": matplotlib.cycler(color=["#112233", "red"])}):
        assert palette() == ["#112233", "#ff0000"]
        assert [one.colour for one in run_styles("abc").values()] == [
            "#112233", "#ff0000", "#112233",
        ]  # fmt: skip
        styles = run_styles([f"{n}" for n in range(64)]).values()
        assert len({(one.colour, one.marker, one.line) for one in styles}) == 64
    assert palette() == list(PALETTE)


# Names


LONG_NAMES = [f"bge-m3_chunk{n}-overlap0_rerank-minilm" for n in (256, 512)]


def names_of(*runs):
    with naming():
        run_styles(runs)
        return [shown(run) for run in runs], note()


def test_what_long_names_share_is_said_once():
    assert names_of(*LONG_NAMES) == (
        ["chunk256", "chunk512"], "runs: bge-m3_…overlap0_rerank-minilm",
    )  # fmt: skip


def test_names_that_are_short_or_share_little_or_would_be_empty_stay_whole():
    for runs in (
        ["dense", "hybrid"], ["a-name-of-more-than-20-letters", "another_one_without_a_word"],
        ["a_name_that_is_the_beginning", "a_name_that_is_the_beginning_of"],
    ):  # fmt: skip
        shown_names, note = names_of(*runs)
        assert len(set(shown_names)) == 2 and all(shown_names)
        assert note == "" or all(shown in run for shown, run in zip(shown_names, runs, strict=True))
    assert names_of("dense", "hybrid") == (["dense", "hybrid"], "")
    assert names_of(LONG_NAMES[0]) == (LONG_NAMES[:1], "")


def test_runs_that_are_not_highlighted_are_grey_and_thin():
    plain, styles = run_styles("ab"), run_styles("ab", highlight="b")
    assert styles["b"] == plain["b"] and styles["a"].colour == inks().muted
    assert styles["a"].width < plain["a"].width and styles["a"].marker == plain["a"].marker
    with refused("c", "a, b", field="highlight"):
        run_styles("ab", highlight=["c"])


def test_categories_stand_in_their_own_order():
    assert in_order(["hard", "(none)", "easy", "medium"]) == ["easy", "medium", "hard", "(none)"]
    assert in_order(["high", "low"]) == ["low", "high"]
    assert in_order(["zebra", "ape"]) == ["zebra", "ape"], "as they appear"
    assert in_order(["a", "b", "c"], ["c", "a"]) == ["c", "a", "b"]
    with refused("d", "a", field="order"):
        in_order(["a"], ["d"])


# The palette


def linear(colour):
    """Return linear light of #RRGGBB (IEC 61966-2-1)."""
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(colour):
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def lightness(colour):
    """Return CIE L*."""
    y = luminance(colour)
    return 116 * np.cbrt(y) - 16 if y > 0.008856 else 903.3 * y


def lab(light):
    """Return CIELAB of linear light, D65."""
    to_xyz = np.array([
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ])  # fmt: skip
    x = to_xyz @ np.clip(light, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira and Fernandes 2009 (10.1109/TVCG.2009.113), severity 1.0, on linear light
SIGHTS = {
    "normal": np.eye(3),
    "protanopia": np.array([
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]),
    "deuteranopia": np.array([
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]),
    "tritanopia": np.array([
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ]),
}  # fmt: skip


@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_of_runs_are_told_apart_by_every_eye(sight):
    seen = [lab(SIGHTS[sight] @ linear(colour)) for colour in PALETTE]
    nearest = min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2))
    # Okabe and Ito's own come as near as 16.1 (tritanopia)
    assert nearest > 18


def test_neighbouring_runs_differ_in_grey_as_well():
    steps = np.abs(np.diff([lightness(colour) for colour in PALETTE]))
    assert (steps > 10).all(), steps


@pytest.mark.parametrize("colour", PALETTE)
def test_lines_and_texts_in_a_run_s_colour_can_be_read_on_white(colour):
    assert 1.05 / (luminance(colour) + 0.05) >= 3  # WCAG 2.2, 1.4.11


# Places


@pytest.mark.parametrize(("place", "side"), [("right", "x1"), ("below", "y0")])
def test_a_legend_stands_where_it_is_asked_to(place, side):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    ax.plot([0, 1], label="a")
    legend(ax, place)
    settle([ax])
    told, data = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert told.x0 > data.x1 if side == "x1" else told.y1 < data.y0


def test_a_legend_may_be_left_out_and_is_nowhere_else():
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    ax.plot([0, 1], label="a")
    legend(ax, False)
    assert ax.get_legend() is None
    with refused("above", "right", "below", "inside", field="legend"):
        legend(ax, "above")


def test_a_figure_has_the_width_and_the_type_of_the_session():
    assert figure_size(6.4, 4) == (6.4, 4)
    with matplotlib.rc_context({"figure.figsize": (3.35, 2.4), "font.size": 8}):
        assert figure_size(6.4, 4) == (3.35, 3.2)
    with matplotlib.style.context("dark_background"):
        assert (inks().ground, inks().ink) == ("black", "white")


def test_intervals_are_moved_apart_no_further_than_needed():
    assert spread([1.0, 9.0], [2, 2], 0, 10).tolist() == [1, 9]
    # two at 5 of height 2 share the move; the third is far enough away
    assert spread([5.0, 5.0, 9.0], [2, 2, 2], 0, 10).tolist() == [4, 6, 9]
    assert spread([10.0, 10.0], [2, 2], 0, 10).tolist() == [7, 9], "within the bounds"


def test_a_legend_below_shows_line_and_mark_of_each_run():
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    ax.errorbar([1], [1], xerr=[[0.5], [0.5]], fmt="s", label="a")
    legend(ax, "below")
    settle([ax])
    marks = [line.get_marker() for line in ax.get_legend().findobj(Line2D)]
    assert "s" in marks


@pytest.mark.slow
def test_a_notebook_shows_every_figure_of_its_cells_the_first_one_or_not():
    # The backend of notebooks switches interactive drawing on when it is first used: in a theme.
    code = (
        "from ragscore.plot.theme import themed\n"
        "import matplotlib\n"
        "with themed():\n"
        "    import matplotlib.pyplot as plt\n"
        "    plt.subplots()\n"
        "print(matplotlib.is_interactive())"
    )
    environment = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    done = subprocess.run(
        [sys.executable, "-c", f"import matplotlib_inline\n{code}"], capture_output=True,
        text=True, env=environment, check=True,
    )  # fmt: skip
    alone = "import matplotlib, matplotlib.pyplot as plt\nplt.subplots()\n"
    plain = subprocess.run(
        [sys.executable, "-c", f"{alone}print(matplotlib.is_interactive())"], capture_output=True,
        text=True, env=environment, check=True,
    )  # fmt: skip
    assert done.stdout == plain.stdout
