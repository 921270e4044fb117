"""No figure and no thread stays behind a call, even if it ends in an error that is kept."""

import threading

import matplotlib
import matplotlib.pyplot as plt
import pytest

import ragscore as rs
from ragscore.plot import dots, grids
from ragscore.store import tables

matplotlib.use("Agg")


@pytest.fixture
def left():
    """What was not there before: threads, and figures of pyplot."""
    plt.close("all")
    before = set(threading.enumerate())
    yield lambda: ([one.name for one in set(threading.enumerate()) - before], plt.get_fignums())
    plt.close("all")


def fail(*_, **__):
    raise RuntimeError("no room")


@pytest.mark.slow
def test_a_report_leaves_neither_figure_nor_thread(pair, left, tmp_path):
    ev = rs.evaluate(*pair)
    for one in (ev, ev.compare("a", "b")):
        for name in ("report.html", "report.md", "report.json"):
            one.report(tmp_path / name)
    assert left() == ([], [])


def test_a_picture_that_fails_leaves_no_figure(pair, left, monkeypatch):
    ev, mine = rs.evaluate(*pair), plt.figure()
    for module in (dots, grids):
        monkeypatch.setattr(module, "finish", fail)
    plot = ev.compare("a", "b").plot
    for draw in (ev.plot, plot, plot.ranks, plot.outcomes, plot.forest):
        with pytest.raises(RuntimeError, match="no room"):
            draw()
        assert left() == ([], [mine.number])


def test_a_store_leaves_no_thread_even_where_it_fails(left, monkeypatch, store):
    found = rs.load_results({"a": {f"q{n}": [f"d{n}"] for n in range(200)}})
    assert store.save(iter([found])) and left()[0] == []
    monkeypatch.setattr(tables, "write_table", fail)
    with pytest.raises(RuntimeError, match="no room") as caught:
        store.save(found, overwrite=True)
    assert left()[0] == [] and caught.value  # kept, as a notebook keeps the last error
