"""Pictures as files, and as text for those who don't see them."""

import gc
import weakref
from dataclasses import replace

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
import pytest
from structure import PICTURES, world

import ragscore as rs
from ragscore.plot.style import PALETTE
from tests.messages import refused

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


TABLE = pd.DataFrame({
    "run_id": ["a", "b"], "metric": "hit@5", "mean": [0.5, 0.75], "low": [0.4, 0.7],
    "high": [0.6, 0.9], "n": 20, "min": 0.0, "max": 1.0,
})  # fmt: skip


@pytest.mark.parametrize("name", ["summary", "heatmap", "trend by slices"])
def test_a_file_has_the_asked_width_and_its_type_embedded(name, tmp_path):
    ax = PICTURES[name](world(2))
    before = ax.figure.get_size_inches().tolist()
    file = rs.plot.save(ax, tmp_path / "picture.pdf", width=3.35)
    content = file.read_bytes()
    assert b"/Type3" not in content and b"/FontFile2" in content
    assert f"/MediaBox [ 0 0 {3.35 * 72:.1f}".encode() in content
    assert ax.figure.get_size_inches().tolist() == before
    assert plt.get_fignums() == [ax.figure.number]


def test_a_figure_is_saved_as_it_is_and_drawn_anew_only_where_it_is_its_own(tmp_path):
    ax = rs.plot.summary(TABLE)
    ax.set_title("my own")
    assert "my own" in rs.plot.save(ax, tmp_path / "one.svg").read_text()
    with refused(".docx", ".pdf", field="file"):
        rs.plot.save(ax, tmp_path / "one.docx")
    own = rs.plot.summary(TABLE, ax=plt.subplots()[1])
    with refused(field="width"):
        rs.plot.save(own, tmp_path / "two.pdf", width=3.35)
    rs.plot.save(own, tmp_path / "two.pdf")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["one.svg", "two.pdf"]


def test_runs_look_alike_in_a_file_and_on_the_screen(tmp_path):
    ev = replace(world(8).ev, baseline="bm25").select(["hybrid", "bm25"])
    file = rs.plot.save(ev.plot("hit@5"), tmp_path / "picture.svg", width=3.35)
    own = {str(one.get_label()): one.lines[0].get_color() for one in ev.plot("hit@5").containers}
    assert all(colour.lower() in file.read_text() for colour in own.values())
    assert own["bm25"] == "#212121"


def test_a_selection_looks_alike_in_its_plots_in_what_they_are_made_of_and_in_its_report():
    whole = world(4).ev  # bm25, dense, hybrid, rerank
    ev = whole.select(["hybrid", "rerank"])
    own = {str(one.get_label()): one.lines[0].get_color() for one in ev.plot("hit@5").containers}
    assert list(own.values()) == list(PALETTE[2:4])
    board, risk = ev.leaderboard("hit@5").plot(), ev.risk_coverage().plot()
    assert {str(one.get_label()): one.lines[0].get_color() for one in board.containers} == own
    named = {str(one.get_label()): one.get_color() for one in risk.lines}
    assert own == {run: named[run] for run in own}
    page = ev.report().to_html().lower()
    assert own["rerank"].lower().replace("#", "%23") in page
    assert PALETTE[0].lower().replace("#", "%23") not in page


def test_figures_given_and_our_own_are_forgotten_with_their_owner():
    kept = [weakref.ref(rs.plot.summary(TABLE, **to)) for to in ({}, {"ax": plt.subplots()[1]})]
    plt.close("all")
    gc.collect()
    assert [one() for one in kept] == [None, None]


def test_a_figure_is_told_in_words_and_numbers():
    text = rs.plot.summary(TABLE).figure.ragscore_text
    assert (
        text
        == """hit@5 of 2 runs
Across: mean with 95 % interval of each run alone; n = 20
a: hit@5 0.500 (0.400 to 0.600)
b: hit@5 0.750 (0.700 to 0.900)"""
    )


def test_a_table_is_told_cell_by_cell_and_pictures_side_by_side_one_after_the_other():
    sliced = pd.concat([TABLE.assign(part=part) for part in ("easy", "hard")])
    sliced.insert(1, "part", sliced.pop("part"))
    _, (left, right) = plt.subplots(1, 2)
    rs.plot.heatmap(sliced, "hit@5", ax=left)
    rs.plot.summary(TABLE, ax=right)
    first, second = right.figure.ragscore_text.split("\n\n")
    assert first.splitlines()[-2:] == ["easy (20): a 0.50; b 0.75", "hard (20): a 0.50; b 0.75"]
    assert second.startswith("hit@5 of 2 runs")
