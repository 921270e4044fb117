"""One look per run in every picture; colours that every eye and a grey print tell apart."""

import inspect
import itertools
import os
import subprocess
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from worlds import world

import ragscore as rs
from ragscore.plot.style import GREY, LINES, PALETTE, all_runs, in_order, run_labels, run_styles
from tests.messages import refused


def test_a_run_has_the_colour_of_its_category_and_a_selection_keeps_it():
    column = pd.Series(["b", "a"], dtype=pd.CategoricalDtype(["a", "b"]))
    colours = {run: one.colour for run, one in run_styles(column).items()}
    assert colours == {"a": PALETTE[0], "b": PALETTE[1]}
    ev = world(3).ev
    whole, part = (
        {bar.get_label(): (bar.lines[0].get_color(), bar.lines[0].get_marker())
         for bar in one.plot("hit@5").containers}
        for one in (ev, ev.select(ev.run_ids[1:]))
    )  # fmt: skip
    assert len(part) == 2 and part.items() <= whole.items()
    with all_runs(["z", "a"]):
        assert run_styles(["a"])["a"].colour == PALETTE[1]


def test_no_two_of_many_runs_are_alike_and_neighbours_differ_in_mark_and_line():
    styles = list(run_styles([f"run {n}" for n in range(256)]).values())
    assert len({(one.colour, one.marker, one.line) for one in styles}) == 256
    assert len({one.marker for one in styles[:8]}) == 8
    assert {one.line for one in styles[:8]} == set(LINES)


def test_runs_that_are_not_highlighted_are_grey_and_counted():
    styles = run_styles(list("abc"), highlight="b")
    assert [styles[run].colour for run in "abc"] == [GREY, PALETTE[1], GREY]
    assert [styles[run].label for run in "abc"] == ["2 others", "b", "_"]
    with refused("d", "a, b", field="highlight"):
        run_styles(list("ab"), highlight=["d"])


def test_colours_are_those_of_the_session_if_it_changed_its_own():
    own = ["#112233", "red"]
    with plt.rc_context({"axes.prop_cycle": matplotlib.cycler(color=own)}):
        assert [one.colour for one in run_styles(list("abc")).values()] == [*own, own[0]]
    with plt.rc_context(rs.plot.theme):
        ax = plt.subplots()[1]
        assert ax.plot([1])[0].get_color() == PALETTE[0] and not ax.spines["top"].get_visible()


def test_a_long_name_loses_its_middle_unless_two_would_be_alike_then():
    ends = ["a" * 30, "b" * 30]
    apart, alike = [ends, ends[::-1]], [[*ends, one, *ends] for one in "xy"]
    labels = [[*run_labels(["_".join(one) for one in runs]).values()] for runs in (apart, alike)]
    assert labels[0] == [f"{'a' * 19}…{'b' * 20}", f"{'b' * 19}…{'a' * 20}"]
    assert labels[1] == ["_".join(one) for one in alike]


def test_categories_stand_in_their_own_order():
    assert in_order(["hard", "(none)", "easy", "medium"]) == ["easy", "medium", "hard", "(none)"]
    assert in_order(["zebra", "ape"]) == ["zebra", "ape"], "as they appear"
    assert in_order(["a", "b", "c"], ["c", "a"]) == ["c", "a", "b"]
    with refused("d", "a", field="order"):
        in_order(["a"], ["d"])


def linear(colour):
    """Return linear light of #RRGGBB (IEC 61966-2-1)."""
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(colour):
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


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
def test_colours_of_runs_are_told_apart_by_every_eye_and_read_on_white(sight):
    seen = [lab(SIGHTS[sight] @ linear(colour)) for colour in PALETTE]
    # Okabe and Ito's own come as near as 16.1 (tritanopia)
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 18
    steps = np.abs(np.diff([lab(linear(colour))[0] for colour in PALETTE]))
    assert (steps > 10).all(), "neighbours differ in a grey print"
    # WCAG 2.2, 1.4.11
    assert all(1.05 / (luminance(colour) + 0.05) >= 3 for colour in PALETTE)


# Pictures as methods of objects


def test_signatures_show_what_a_user_may_give():
    plot, of_ev = world(2).cmp.plot, world(2).ev.plot
    assert list(inspect.signature(plot.scatter).parameters) == ["metric", "legend", "ax"]
    assert list(inspect.signature(of_ev).parameters) == ["metrics", "highlight", "legend", "ax"]
    assert dir(plot) == ["forest", "outcomes", "ranks", "scatter"]
    assert ".plot.ranks(*, ax: " in repr(plot)
    assert plot.scatter.__doc__ == rs.plot.scatter.__doc__
    with refused("rank", "ranks", error=AttributeError):
        _ = plot.rank


@pytest.mark.slow
def test_a_notebook_shows_every_figure_of_its_cells_the_first_one_or_not():
    # The backend of notebooks switches interactive drawing on when it is first used
    environment = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}

    def is_interactive(code):
        code = f"import matplotlib_inline, matplotlib\n{code}\nprint(matplotlib.is_interactive())"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env=environment, check=True)  # fmt: skip
        return done.stdout

    ours = is_interactive("import ragscore as rs\nrs.plot.outcomes({'win': 1})")
    assert ours == is_interactive("import matplotlib.pyplot as plt\nplt.subplots()")
