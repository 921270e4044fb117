"""Figures checked as data: what is drawn, in which order, with which n."""

import dataclasses

import matplotlib
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, hit, record
from matplotlib.container import ErrorbarContainer

import ragscore as rs
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.trend.trend import trend
from ragscore.scoring.summary import summarize
from tests.messages import refused, says

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def dots(ax):
    """Return run -> places of its marks."""
    return {
        one.get_label(): one.lines[0].get_xdata().tolist()
        for one in ax.containers
        if isinstance(one, ErrorbarContainer)
    }


def bars(ax):
    """Return run -> the ends of its bars."""
    return {
        one.get_label(): [segment[:, 0].tolist() for segment in one.lines[2][0].get_segments()]
        for one in ax.containers
    }


def test_a_summary_has_a_dot_per_run_and_metric_and_says_n_once(pair):
    ax = rs.plot.summary(summarize(rs.score(*pair)), ["hit@1", "mrr@10"])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["hit@1", "mrr@10"]
    assert dots(ax) == {
        "a": pytest.approx([1 / 3, (1 + 1 / 4) / 3]),
        "b": pytest.approx([2 / 3, (1 / 2 + 2) / 3]),
    }
    assert ax.get_xlim() == (0, 1)
    says(ax.get_xlabel(), "95 %", "n = 3")


def test_bars_are_the_intervals_of_the_means(pair):
    table = summarize(rs.score(*pair), metrics=["hit@1"])
    ax = rs.plot.summary(table)
    ends = table.set_index("run_id")[["low", "high"]]
    assert bars(ax) == {run: [pytest.approx(ends.loc[run].tolist())] for run in "ab"}
    assert "difference" not in ax.get_xlabel()


@pytest.fixture
def sliced(pair):
    """Scores of two runs, and their golden set, of which q1 is easy."""
    results, golden = pair
    levels = golden.queries["query_id"].map({"q1": "easy", "q2": "hard", "q3": "hard"})
    golden = dataclasses.replace(golden, queries=golden.queries.assign(difficulty=levels))
    return rs.score(results, golden), golden


def points(ax):
    """Return what each line of marks, one a run, has for two slices."""
    return [
        line.get_xdata().tolist()
        for line in ax.get_lines()
        if len(line.get_xdata()) == 2
        and line.get_linestyle() == "None"
        and line.get_marker() in "os"
    ]


def test_slices_show_a_point_per_run_and_slice_of_scores_or_of_their_summary(sliced):
    scores, golden = sliced
    ax = rs.plot.slices(scores, "hit@1", "difficulty", golden=golden)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["easy (1)", "hard (2)"]
    summary = summarize(scores, golden, by="difficulty")
    of_summary = rs.plot.slices(summary, metric="hit@1", by="difficulty")
    assert points(ax) == points(of_summary) == [[1, 0], [0, 1]]


def test_rank_change_draws_every_query_with_a_target(pair):
    ax = rs.plot.ranks(compare_runs(*pair, "a", "b"))
    # q1 falls from 1 to 2; q2 rises from 4 and q3 from a miss, both to 1
    assert sorted(band.get_gid() for band in ax.collections if band.get_gid()) == [
        "loss 1",
        "win 1",
        "win 1",
    ]
    told = [text.get_text() for text in ax.texts]
    assert [text for text in told if ":" in text] == [
        "1: 1", "4–5: 1", "miss: 1",  # a
        "1: 2", "2–3: 1",  # b
    ]  # fmt: skip
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["▲ win (2)", "▼ loss (1)"]


def test_trend_orders_runs_by_time(write_golden, write_run, tmp_path):
    files = [
        write_run("late", RUN_B, system="s", created_at="2026-02-01T00:00:00Z"),
        write_run("early", RUN_A, system="s", created_at="2026-01-01T00:00:00Z"),
    ]
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    store = rs.RunStore(tmp_path / "s")
    store.save(rs.load_results(files), golden=golden)
    ax = rs.plot.trend(trend(store.scores(), "hit@1"))
    x = ax.get_lines()[0].get_xdata()
    assert x[1] - x[0] == 31, "days from January to February"
    assert ax.get_lines()[0].get_ydata().tolist() == pytest.approx([1 / 3, 2 / 3])
    with refused("created_at", field="order"):
        trend(rs.score(store.load(), golden), "hit@1")


def test_figures_take_an_axes_and_give_it_back(pair):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert rs.plot.ranks(compare_runs(*pair, "a", "b"), ax=ax) is ax
    with refused("hit@7", "hit@5", field="metrics"):
        rs.plot.summary(summarize(rs.score(*pair)), ["hit@7"])


def test_frames_that_bars_cannot_draw_are_refused_with_what_to_pass(sliced):
    scores, golden = sliced
    with refused("scores", "ev.summary()", field="summary"):
        rs.plot.summary(scores)
    by = summarize(scores, golden, by="difficulty", metrics=["hit@1", "mrr@10"])
    with refused("difficulty", "ev.summary()", "rs.plot.slices(summary, metric)", field="summary"):
        rs.plot.summary(by)
    with refused("slices", "ev.summary(metric, by=['difficulty'])", field="table"):
        rs.plot.slices(summarize(scores), "hit@1", "difficulty", golden=golden)
    with refused(2, "hit@1", "mrr@10", field="metric"):
        rs.plot.slices(by, by="difficulty")
    with refused("refusal_correct", field="metric"):
        rs.plot.slices(scores, "refusal_correct", "difficulty", golden=golden)
    with refused("metric", field="summary"):
        rs.plot.summary(summarize(scores, metrics=["refusal_correct"]))


def test_a_summary_is_of_one_scale(pair):
    scores = rs.score(*pair).assign(mine=0.5, seconds=3.0)
    summary = summarize(scores)
    scales = ("latency_ms (0 and above, ms)", "seconds (any)", "0 to 1")
    with refused(*scales, field="metrics"):
        rs.plot.summary(summary, ["latency_ms", "hit@1", "seconds", "mine"])
    assert rs.plot.summary(summary, ["hit@1", "mine"]).get_xlim() == (0, 1)
    ax = rs.plot.summary(summary, ["latency_ms"])
    assert ax.get_xlim()[1] > 1


def test_many_slices_draw_the_largest_and_say_so(write_golden, write_run):
    # t00 has 3 questions, t01 to t49 one or two, so that the 30 largest are t00 and those with two.
    rows = [
        {"id": f"q{n}", "query": "?", "expected_doc_ids": ["d1"], "tags": [f"t{n % 50:02}"]}
        for n in range(79)
    ]
    golden = rs.load_golden(
        write_golden(
            [*rows, {"id": "more", "query": "?", "expected_doc_ids": ["d1"], "tags": ["t00"]}]
        )
    )
    results = rs.load_results(
        write_run("a", [record(query_id, []) for query_id in golden.queries["query_id"]])
    )
    scores = rs.score(results, golden)
    ax = rs.plot.slices(scores, "hit@1", "tag", golden=golden, limit=29)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [
        "t00 (3)",
        *(f"t{n:02} (2)" for n in range(1, 29)),
    ]
    says(ax.get_ylabel(), "tag", "29", "50")


def test_a_run_keeps_its_colour_in_every_figure(pair):
    results, golden = pair
    scores = rs.score(results, golden)
    both = rs.plot.summary(summarize(scores), ["hit@1"])
    alone = rs.plot.summary(summarize(scores[scores["run_id"] == "b"]), ["hit@1"])
    marks = [one.lines[0] for one in (alone.containers[0], both.containers[1])]
    assert len({(mark.get_color(), mark.get_marker()) for mark in marks}) == 1
    assert marks[0].get_color() != both.containers[0].lines[0].get_color()


def test_a_tradeoff_has_a_point_per_run_at_its_two_means(pair):
    scores = rs.score(*pair)
    # one slow query does not move the point
    scores["latency_ms"] = [10.0, 20.0, 900.0, 1.0, 2.0, 3.0]
    ax = rs.plot.tradeoff(scores, "hit@1")
    assert [one.lines[0].get_xydata().tolist() for one in ax.containers] == [
        [pytest.approx((20, 1 / 3))],
        [pytest.approx((2, 2 / 3))],
    ]
    with refused("hit@1", "cost_usd", field="scores"):
        rs.plot.tradeoff(scores.assign(cost_usd=float("nan")), "hit@1", against="cost_usd")


def test_hit_scores_are_drawn_by_rank_and_one_kind_at_a_time(write_run):
    def asked(query, kind, *scores):
        return record(query, [
            hit(f"c{rank}", "d", rank, score_kind=kind, retrieval={"fusion_score": score})
            for rank, score in enumerate(scores, 1)
        ])  # fmt: skip

    fused = write_run("fused", [asked("q1", "rrf", 3.0, 1.0), asked("q2", "rrf", 5.0, 2.0)])
    lexical = write_run("lexical", [asked("q1", "bm25", 30.0)])
    ax = rs.plot.scores_by_rank(rs.load_results(fused))
    assert ax.get_lines()[0].get_xydata().tolist() == [[1, 4], [2, 1.5]]
    assert ax.get_ylabel().startswith("rrf")
    both = rs.load_results([fused, lexical])
    with refused(2, "rrf", "bm25", field="score_kind"):
        rs.plot.scores_by_rank(both)
    other = rs.plot.scores_by_rank(both, score_kind="bm25")
    assert [text.get_text() for text in other.texts] == ["lexical"]
    with refused("score", field="results.hits.score"):
        rs.plot.scores_by_rank(rs.load_results(write_run("none", [record("q1", [])])))
