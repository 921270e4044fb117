"""No figure and no thread stays behind a call, even if it ends in an error that is kept."""

import json
import threading

import matplotlib
import matplotlib.pyplot as plt
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, hit, record

import ragscore as rs
from ragscore.io import arrow_lines
from ragscore.plot import dots, grids
from ragscore.store import tables

matplotlib.use("Agg")


@pytest.fixture
def ev(write_golden, write_run):
    files = [write_run("a", RUN_A), write_run("b", RUN_B)]
    return rs.evaluate(rs.load_results(files), write_golden(THREE_QUERIES))


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
def test_a_report_leaves_neither_figure_nor_thread(ev, left, tmp_path):
    for name in ("report.html", "report.md", "report.json"):
        ev.report(tmp_path / name)
        ev.compare("a", "b").report(tmp_path / name)
    assert left() == ([], [])


def test_a_picture_that_fails_leaves_no_figure(ev, left, monkeypatch):
    cmp = ev.compare("a", "b")
    mine = plt.figure()
    for module in (dots, grids):
        monkeypatch.setattr(module, "finish", fail)
    for draw in (ev.plot, cmp.plot, cmp.plot.ranks, cmp.plot.outcomes, cmp.plot.forest):
        with pytest.raises(RuntimeError, match="no room"):
            draw()
        assert left() == ([], [mine.number])


@pytest.fixture
def many(tmp_path, monkeypatch):
    """A run file of several blocks."""
    monkeypatch.setattr(arrow_lines, "FROM_BYTES", 0)
    monkeypatch.setattr(arrow_lines, "BLOCK_BYTES", 2000)
    rows = [json.dumps(record(f"q{n}", [hit("c", f"d{n}", 1)])) for n in range(200)]
    (tmp_path / "per_query.jsonl").write_text("\n".join(rows))
    return tmp_path / "per_query.jsonl"


def test_reading_leaves_no_thread_even_where_it_fails(many, left, monkeypatch, tmp_path):
    store = rs.RunStore(tmp_path / "store")
    assert len(rs.load_results(many).responses) == 200
    assert store.save(iter([rs.load_results(many)]))
    assert left()[0] == []
    kept = []
    for holder, name, call in (
        (arrow_lines.FileColumns, "add", lambda: rs.load_results(many)),
        (tables, "write_table", lambda: store.save(rs.load_results(many), overwrite=True)),
    ):
        with monkeypatch.context() as broken:
            broken.setattr(holder, name, fail)
            with pytest.raises(RuntimeError, match="no room") as caught:
                call()
            kept.append(caught.value)  # as a notebook keeps the last error, with all its frames
    assert left()[0] == [] and len(kept) == 2
