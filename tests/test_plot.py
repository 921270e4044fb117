"""Figures checked as data: what is drawn, in which order, with which n."""

import matplotlib
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES

import ragscore as rs

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def test_bars_show_every_run_with_intervals_and_n(pair):
    ax = rs.plot.bars(rs.summarize(rs.score(*pair)), ["hit@1", "mrr@10"])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["hit@1\nn = 3", "mrr@10\nn = 3"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == pytest.approx([1 / 3, (1 + 1 / 4) / 3, 2 / 3, (1 / 2 + 2) / 3])
    assert ax.get_ylim() == (0, 1)


def test_slices_show_a_point_per_run_and_slice(write_golden, write_run):
    golden = rs.load_golden(write_golden([one | {"difficulty": d} for one, d in zip(THREE_QUERIES, ("easy", "hard", "hard"), strict=True)]))
    scores = rs.score(rs.load_results([write_run("a", RUN_A), write_run("b", RUN_B)]), golden)
    ax = rs.plot.slices(scores, golden, "hit@1", by="difficulty")
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["easy (n = 1)", "hard (n = 2)"]
    assert [
        line.get_xdata().tolist() for line in ax.get_lines() if len(line.get_xdata()) == 2 and line.get_linestyle() == "None" and line.get_marker() in "os"
    ] == [[1, 0], [0, 1]]


def test_rank_change_draws_every_query_with_a_target(pair):
    ax = rs.plot.compare(rs.compare_runs(*pair, "a", "b"))
    lines = sorted([line.get_ydata()[0], line.get_ydata()[1]] for line in ax.get_lines() if len(line.get_ydata()))
    assert lines == [[1, 2], [4, 1], [5, 1]]  # 5 is "miss"
    assert ax.get_yticklabels()[-1].get_text() == "miss"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["win (2)", "loss (1)"]


def test_trend_orders_runs_by_time(write_golden, write_run, tmp_path):
    files = [write_run("late", RUN_B, system="s", created_at="2026-02-01T00:00:00Z"), write_run("early", RUN_A, system="s", created_at="2026-01-01T00:00:00Z")]
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    store = rs.RunStore(tmp_path / "s")
    store.save(rs.load_results(files), golden=golden)
    ax = rs.plot.trend(store.scores(), "hit@1")
    assert [tick.get_text().split("\n")[0] for tick in ax.get_xticklabels()] == ["early", "late"]
    assert ax.get_lines()[0].get_ydata().tolist() == pytest.approx([1 / 3, 2 / 3])
    with pytest.raises(rs.DataError, match="no column created_at"):
        rs.plot.trend(rs.score(store.load(), golden), "hit@1")


def test_figures_take_an_axes_and_give_it_back(pair):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert rs.plot.compare(rs.compare_runs(*pair, "a", "b"), ax=ax) is ax
    with pytest.raises(rs.DataError, match="no metric hit@7 in the summary"):
        rs.plot.bars(rs.summarize(rs.score(*pair)), ["hit@7"])


def test_a_run_keeps_its_colour_in_every_figure(pair):
    results, golden = pair
    scores = rs.score(results, golden)
    both = rs.plot.bars(rs.summarize(scores), ["hit@1"])
    alone = rs.plot.bars(rs.summarize(scores[scores["run_id"] == "b"]), ["hit@1"])
    assert alone.patches[0].get_facecolor() == both.patches[1].get_facecolor()
