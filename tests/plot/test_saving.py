"""A run looks alike wherever it is drawn, and no picture outlives its owner."""

import gc
import weakref

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
import pytest
from structure import world

import ragscore as rs
from ragscore.plot.style import PALETTE

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


TABLE = pd.DataFrame({
    "run_id": ["a", "b"], "metric": "hit@5", "mean": [0.5, 0.75], "low": [0.4, 0.7],
    "high": [0.6, 0.9], "n": 20, "min": 0.0, "max": 1.0,
})  # fmt: skip


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
