"""What is drawn are the numbers of the frames, read back; one look per run in every picture."""

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
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.ticker import FixedLocator
from worlds import world

import ragscore as rs
from ragscore.analysis import leaderboard
from ragscore.analysis.comparison import deltas
from ragscore.plot.style import GREY, LINES, PALETTE, all_runs, in_order, run_labels, run_styles
from ragscore.scoring.summary import summarize
from tests.messages import refused


@pytest.fixture(scope="module")
def ev():
    return world(2).ev


@pytest.fixture(scope="module")
def by(ev):
    return ev.summary(["hit@1", "mrr@10"], by="difficulty")


def bars(ax):
    """Return label -> rows of low, mean, high of each error bar, from the top."""
    found = {}
    for one in ax.containers:
        ends = [segment[:, 0] for segment in one.lines[2][0].get_segments()]
        means = one.lines[0].get_xdata()
        found[one.get_label()] = [
            [low, mean, high] for mean, (low, high) in zip(means, ends, strict=True)
        ]
    return found


def rows_of(table, run=None):
    own = table if run is None else table[table["run_id"].eq(run)]
    return [pytest.approx(row) for row in own[["low", "mean", "high"]].to_numpy().tolist()]


def cells(ax):
    """Return the numbers that are written in cells, as a table from the top."""
    width = 1 + max(text.get_position()[0] for text in ax.texts)
    texts = [text.get_text() for text in ax.texts]
    return np.array(texts).reshape(-1, int(width)).tolist()


def words(ax):
    """Return the title, the labels across and up, the legend, the names of rows and columns."""
    legend = ax.get_legend()
    texts = [ax.title, ax.xaxis.label, ax.yaxis.label, *(legend.get_texts() if legend else [])]
    for axis in (ax.yaxis, ax.xaxis):
        if isinstance(axis.get_major_locator(), FixedLocator):
            texts += axis.get_ticklabels()
    return [" ".join(text.get_text().split()) for text in texts]


RUNS = ["run_00000000", "run_00000001"]
OF_MEANS = "mean with 95 % interval"


def test_a_summary_draws_means_with_the_intervals_of_the_means(ev):
    table, ax = ev.summary(["hit@5", "mrr@10"]), ev.plot(["hit@5", "mrr@10"])
    for one in (ax, ev.leaderboard(["hit@5", "mrr@10"]).plot()):
        assert bars(one) == {run: rows_of(table, run) for run in RUNS} and one.get_xlim() == (0, 1)
    assert words(ax) == [
        "2 metrics of 2 runs", f"{OF_MEANS} (queries in brackets)", "", *RUNS,
        "hit@5 (40)", "mrr@10 (40)",
    ]  # fmt: skip
    # the primary ones; without any the first of 0 to 1, or else the first
    assert [name.split()[0] for name in words(ev.plot())[5:]] == [*ev.primary]
    times = ev.summary("latency_ms")
    for own, title in (
        (ev.summary(), "12 metrics of 2 runs"),
        (pd.concat([times, times.assign(metric="cost_usd")]), "latency_ms of 2 runs"),
    ):
        assert words(rs.plot.summary(own))[0] == title


def test_slices_are_drawn_of_a_summary_and_of_scores_alike_and_so_are_their_differences(ev):
    table, levels = ev.summary("mrr@10", by="difficulty"), ["easy", "medium", "hard"]
    drawn = rs.plot.slices(table)
    assert words(drawn) == [
        "mrr@10 by difficulty of 2 runs", f"mrr@10, {OF_MEANS}", "difficulty (queries)", *RUNS,
        "easy (16)", "medium (16)", "hard (8)",
    ]  # fmt: skip
    ordered = table.set_index("difficulty").loc[levels]
    assert bars(drawn) == {run: rows_of(ordered, run) for run in RUNS}
    assert bars(ev.plot.slices("mrr@10", "difficulty")) == bars(drawn)
    assert words(rs.plot.slices(table, limit=2, order=["medium"]))[2:] == [
        "difficulty (queries), the 2 largest of 3", *RUNS, "medium (16)", "easy (16)",
    ]  # fmt: skip
    found = ev.compare(*RUNS[::-1]).slices("difficulty", ["mrr@10", "latency_ms"])
    own = found.table[found.table["metric"].eq("mrr@10")].set_index("difficulty").loc[levels]
    assert [*bars(found.plot()).values()] == [rows_of(own.assign(mean=own["delta"]))]
    told = "{}: run_00000000 − run_00000001", "{}, difference with paired 95 % interval; {}"
    assert [words(one) for one in (found.plot(), found.plot("latency_ms"))] == [
        [*(one.format(*texts) for one in told), "difficulty (queries)",
         "easy (16)", "medium (16)", last]
        for *texts, last in (
            ("mrr@10", "*: fewer than 10 queries", "hard* (8)"),
            ("latency_ms", "lower is better", "hard (16)"),
        )
    ]  # fmt: skip
    assert words(found.plot(limit=2))[2:] == [
        "difficulty (queries), the 2 largest of 3", "easy (16)", "medium (16)",
    ]  # fmt: skip


def test_a_heat_map_has_the_means_and_stars_where_queries_are_few(ev):
    table = ev.summary("mrr@10", by="difficulty")
    ax = rs.plot.heatmap(table)
    means = table.pivot(index="difficulty", columns="run_id", values="mean")
    wide = means.loc[["easy", "medium", "hard"]].to_numpy()
    assert np.allclose(ax.images[0].get_array(), wide)
    stars = np.array([[""], [""], ["*"]])
    assert cells(ax) == np.char.add(np.char.mod("%.2f", wide), stars).tolist()
    assert words(ax) == [
        "Mean mrr@10 by difficulty", "*: fewer than 10 queries", "difficulty (queries)",
        "easy (16)", "medium (16)", "hard (8)", *RUNS,
    ]  # fmt: skip
    gap = table.assign(mean=[np.nan, 0, 0.2, 0.4, 0.6, 1], run_id=["hybrid"] * 3 + ["bm25"] * 3)
    ax = rs.plot.heatmap(gap)
    assert cells(ax) == [["—", "0.40"], ["0.20", "1.00"], ["0.00*", "0.60*"]]
    # names of six letters are slanted; numbers can be read on the colours below them
    assert [one.get_rotation() for one in ax.get_xticklabels()] == [40, 40]
    below = ax.images[0].to_rgba(ax.images[0].get_array()).reshape(-1, 4)
    for text, ground in zip(ax.texts, below, strict=True):
        light = [luminance(to_hex(one)) + 0.05 for one in (text.get_color(), ground)]
        assert max(light) / min(light) > 3
    times = rs.plot.heatmap(ev.summary("latency_ms", by="difficulty")).images[0]
    assert times.norm.vmax > 1, "a scale without an end"


def test_a_forest_draws_differences_and_marks_rows_by_their_word(ev):
    cmp, verdicts = world(2).cmp, {"hit@5": "better", "mrr@10": "worse"}
    names = [*verdicts, "false_refusal"]
    table = cmp.deltas.assign(
        verdict=cmp.deltas["metric"].map(verdicts).fillna(""),
        is_primary=cmp.deltas["metric"].isin(["ndcg@10", "passed"]),
    )
    ax = rs.plot.forest(table, names)
    drawn = cmp.deltas.set_index("metric").loc[names]
    found = bars(ax)
    rows = [*found["better"], *found["worse"], *found["_"]]
    assert rows == rows_of(drawn.assign(mean=drawn["delta"]))
    assert sorted(one.lines[0].get_marker() for one in ax.containers) == ["^", "o", "v"]
    told = "difference (95 % interval{}; queries in brackets{})"
    joint = told.format("; primary metrics jointly", "; ↓: lower is better")
    assert words(ax) == [
        "candidate − baseline", joint, "", "better", "worse",
        "hit@5 (40)", "mrr@10 (40)", "false_refusal ↓ (40)",
    ]  # fmt: skip
    plain = rs.plot.forest(table.drop(columns=["verdict", "is_primary"]), names[:2])
    assert [one.lines[0].get_marker() for one in plain.containers] == ["o"]
    assert words(plain)[1] == told.format("", "")
    # what decides stands first; then the headline ones of 0 to 1
    assert words(cmp.plot()) == [
        "run_00000001 − run_00000000", joint, "",
        "ndcg@10 (40)", "passed (48)", "answer_checks (40)", "answered_unanswerable ↓ (8)",
        "false_refusal ↓ (40)", "hit@1 (40)", "hit@5 (40)", "recall@5 (40)", "recall@10 (40)",
        "mrr@10 (40)", "refusal_correct (8)", "empty ↓ (48)",
    ]  # fmt: skip


def test_outcomes_are_the_counts():
    cmp = world(2).cmp
    ax = cmp.plot.outcomes()
    assert [bar.get_width() for bar in ax.patches] == list(cmp.counts.values())
    assert words(ax) == [
        "run_00000001 against run_00000000", "queries (n = 48)", "",
        "win ▲", "loss ▼", "regression ▼!", "draw =", "both miss ○", "no target –",
    ]  # fmt: skip
    other = rs.plot.outcomes({"tie": 4, "win": 1}, "a", "b")  # another harness's word
    assert words(other) == ["b against a", "queries (n = 5)", "", "win ▲", "tie"]


def test_ranks_count_queries_by_the_place_of_their_first_hit(pair):
    ax = rs.evaluate(*pair).compare("a", "b").plot.ranks()
    depths = ax.images[0].get_array().tolist()
    found = {(y, x): (text, depths[y][x]) for y, row in enumerate(cells(ax))
             for x, text in enumerate(row) if text or depths[y][x]}  # fmt: skip
    # q1 falls from 1 to 2; q2 rises from 4, q3 from a miss, both to 1
    assert found == {(0, 1): ("1 ▼", -1), (2, 0): ("1 ▲", 1), (5, 0): ("1 ▲", 1)}
    bins = ["1", "2–3", "4–5", "6–10", "11+", "miss"]
    title = "Rank of the first hit in two runs (n = {} queries)"
    assert words(ax) == [title.format(3), "b", "a", *bins, *bins]
    # eight of 48 queries have no target
    assert words(world(2).cmp.plot.ranks())[:3] == [title.format(40), *RUNS[::-1]]


def test_a_scatter_has_every_query_once(pair):
    ax = rs.plot.scatter(rs.score(*pair), "mrr@10", "a", "b")
    # a finds q1 first, q2 fourth, q3 never; b finds them second, first, first
    drawn = [sorted(part.get_offsets().tolist()) for part in ax.collections[::2]]
    assert drawn == [[[0, 1], [0.25, 1]], [], [[1, 0.5]]]
    assert words(ax) == ["mrr@10 of 3 queries", "a", "b", "better (2)", "same (0)", "worse (1)"]


@pytest.mark.parametrize(("times", "front"), [([10.0, 20.0], ["a", "b"]), ([20.0, 10.0], ["b"])])
def test_a_trade_off_has_medians_of_times_and_the_runs_that_no_other_beats(pair, times, front):
    scores = rs.score(*pair)
    scores["latency_ms"] = [times[0], times[0], 900.0, *[times[1]] * 3]  # one query is slow
    ax = rs.plot.tradeoff(summarize(scores), "hit@1")
    places = {one.get_label(): one.lines[0].get_xydata()[0].tolist() for one in ax.containers}
    # b finds two of three at rank 1, a one; the median of its times is one of them
    assert places == {"a": pytest.approx([times[0], 1 / 3]), "b": pytest.approx([times[1], 2 / 3])}
    (line,) = [line for line in ax.lines if line.get_label() == "Pareto front"]
    assert line.get_xdata().tolist() == sorted(places[run][0] for run in front)
    assert words(ax) == [
        "hit@1 and latency_ms of 2 runs", "latency_ms, median with 95 % interval (lower is better)",
        f"hit@1, {OF_MEANS} (n = 3)", "Pareto front", "a", "b",
    ]  # fmt: skip


def lines_of(ax):
    return {line.get_label(): line.get_xydata().tolist() for line in ax.lines}


def test_a_metric_is_drawn_at_each_of_its_cut_offs(ev):
    table, ax = ev.summary(["hit@1", "hit@3", "hit@5", "hit@10"]), ev.plot.metric_at_k("hit")
    means = table.pivot(index="run_id", columns="metric", values="mean")
    assert lines_of(ax) == {
        run: [[k, pytest.approx(means.loc[run, f"hit@{k}"])] for k in (1, 3, 5, 10)] for run in RUNS
    }
    told = ["hit@k, {} runs", "k (n = 40 queries)", OF_MEANS]
    assert words(ax) == [told[0].format(2), *told[1:], *RUNS, "1", "3", "5", "10"]
    assert len(ax.collections) == 2, "intervals"
    own = table[table["run_id"].eq(RUNS[0])].replace("hit@10", "hit@11")
    for runs, n in (("abcd", 4), ("abcde", 0)):
        many = rs.plot.metric_at_k(pd.concat([own.assign(run_id=run) for run in runs]), "hit")
        assert len(many.collections) == n, "intervals of up to four"
        assert words(many) == [told[0].format(len(runs)), *told[1:], *runs], "no tick per k to 11"


def test_calls_and_turns_are_lines_of_their_frames():
    talks = world(2).talks
    after, found = rs.extras.calls(talks).after, rs.extras.conversations(talks, "hit@1")
    for frame, columns, ax, title, across, ticks in (
        (after, ["call", "recall"], rs.extras.calls(talks).plot(), "recall after each call",
         "calls so far (n = 24 queries)", "12"),
        (found.turns, ["turn", "mean"], found.plot(), "hit@1 by turn",
         "turn (n = 8 conversations)", "123"),
    ):  # fmt: skip
        assert lines_of(ax) == {
            run: [pytest.approx(row) for row in own[columns].to_numpy().tolist()]
            for run, own in frame.groupby("run_id")
        }
        assert words(ax) == [f"{title}, 2 runs", across, OF_MEANS, *RUNS, *ticks]


CURVE = pd.DataFrame({
    "run_id": "a", "coverage": [1.0, 0.5, 0.25, 0.0],
    "risk": [0.4, 0.2, 0.0, np.nan], "risk_low": [0.3, 0.1, 0, np.nan],
    "risk_high": [0.5, 0.4, 0.5, np.nan], "n": 20,
})  # fmt: skip


def test_risk_is_drawn_where_ten_answers_are_left():
    ax, few = rs.plot.risk_coverage(CURVE), rs.plot.risk_coverage(CURVE.assign(n=8))
    assert lines_of(ax) == {"a": [[0.5, 0.2], [1, 0.4]]}
    assert lines_of(few) == {"a": [[0.25, 0], [0.5, 0.2], [1, 0.4]]}, "else none would be left"
    assert words(ax) == [
        "Risk over coverage, a", "coverage: share of queries answered (n = 20)",
        "risk: share of answers that are wrong, with 95 % interval",
    ]  # fmt: skip


def test_refusals_are_shares_with_their_intervals(ev):
    ax, table = ev.plot.refusals(), ev.refusals().table
    order = ["answered", "over-refusal", "right refusal", "unsupported answer"]
    for run, drawn in bars(ax).items():
        own = table[table["run_id"].eq(run)].set_index("decision").loc[order]
        assert drawn == rows_of(own.assign(mean=own["share"]))
    assert words(ax) == [
        "Answers and refusals of 2 runs", "share of the queries in brackets, with 95 % interval",
        "", *RUNS, "answered (40)", "over-refusal (40)", "right refusal (8)",
        "unsupported answer (8)",
    ]  # fmt: skip


def test_failures_are_the_transitions_with_signs(ev):
    found = ev.failures()
    numbers = [[int((text or "0").split()[0]) for text in row] for row in cells(found.plot(*RUNS))]
    assert numbers == found.transitions(*RUNS).to_numpy().tolist()
    assert cells(found.plot()) == cells(found.plot(*RUNS))  # the only two runs


def test_a_trend_draws_the_means_of_its_runs_by_date():
    found = world(2).trend()
    ax = found.plot()
    assert words(ax)[:5] == ["hit@5 of 2 systems (n = 40 queries)", "", "hit@5", *RUNS]
    days = found.table["created_at"].sub(pd.Timestamp("1970", tz="UTC")) / pd.Timedelta("1D")
    rows = sorted(zip(days, found.table["mean"], strict=True))
    drawn = [place for line in ax.lines if line.get_marker() in ("o", "s")
             for place in line.get_xydata().tolist()]  # fmt: skip
    assert sorted(drawn) == [pytest.approx(list(row)) for row in rows]
    drawn = [part[:, 1].tolist() for one in ax.collections if isinstance(one, LineCollection)
             for part in one.get_segments()]  # fmt: skip
    assert sorted(drawn) == sorted(found.table[["low", "high"]].to_numpy().tolist())


def test_runs_without_dates_stand_in_their_order_and_one_without_a_value_is_left_out():
    table = world(2).trend().table  # two systems in turn, other labels from the fifth run on
    at = table["position"]
    ax = rs.plot.trend(table.assign(
        created_at=pd.NaT, mean=table["mean"].mask(at.eq(3)), is_baseline=at.eq(2),
        first_out_of_control=at.eq(4), band_low=0.1, band_high=0.2,
    ))  # fmt: skip
    ticks = [(tick.get_position()[0], tick.get_text()) for tick in ax.get_xticklabels()]
    assert ticks == [*zip(at, table["run_id"], strict=True)]
    drawn = [(line.get_label(), line.get_xydata().tolist()) for line in ax.lines[:6]]
    places = [[one, pytest.approx(mean)] for one, mean in zip(at, table["mean"], strict=True)]
    assert drawn == [
        (RUNS[0], [places[0]]), ("_", [places[4]]), (RUNS[1], [places[1], places[3]]),
        ("_", [places[5]]), ("baseline", [places[1]]), ("left the noise band", [places[3]]),
    ]  # fmt: skip
    (band,) = [one.get_datalim(ax.transData) for one in ax.collections if one.get_zorder() == 0]
    assert band.extents.tolist() == pytest.approx([0.9, 0.1, 4.1, 0.2]), "of the labels it is from"


def test_a_picture_runs_no_test(ev, monkeypatch):
    fresh = rs.evaluate(ev.results, ev.golden)
    for module in (deltas, leaderboard):
        monkeypatch.setattr(module, "figures", lambda *_, **__: pytest.fail("a test"))
    for draw in (fresh.plot, fresh.plot.metric_at_k, fresh.plot.refusals):
        draw()
    for by_slice in (fresh.plot.slices, fresh.plot.heatmap):
        by_slice("hit@5", "category")


@pytest.mark.parametrize(
    ("draw", "field", "named"),
    [
        (lambda ev, by: rs.plot.summary(by), "table", ["slices", "rs.plot.slices(table, metric)"]),
        (lambda ev, by: rs.plot.summary(ev.summary(), ["hit@7"]), "metrics", ["hit@7", "hit@5"]),
        (lambda ev, by: rs.plot.summary(ev.summary(), ["latency_ms", "hit@1"]), "metrics",
         ["latency_ms", "0 to 1"]),
        (lambda ev, by: rs.plot.summary(ev.summary("hit@1").assign(n=0, mean=np.nan)), "metrics",
         ["no metric has a value"]),
        (lambda ev, by: rs.plot.forest(world(2).cmp.deltas.assign(n=0)), "metrics",
         ["no metric has a value"]),
        (lambda ev, by: rs.plot.tradeoff(ev.scores, "hit@1"), "table", ["columns", "ev.summary()"]),
        (lambda ev, by: ev.plot.tradeoff("hit@1", against="cost_usd"), "metric", ["cost_usd"]),
        (lambda ev, by: rs.plot.slices(ev.summary("hit@1")), "table", ["no slices"]),
        (lambda ev, by: rs.plot.slices(by), "metric", [2, "hit@1", "mrr@10"]),
        (lambda ev, by: rs.plot.slices(by.assign(n=0), "hit@1"), "metric", ["no value"]),
        (lambda ev, by: ev.plot.metric_at_k("recal"), "metric", ["recal"]),
        (lambda ev, by: ev.failures().plot(ev.run_ids[0], "nobody"), "run", ["nobody"]),
        (lambda ev, by: rs.plot.risk_coverage(CURVE.assign(risk=np.nan)), "curve", ["threshold"]),
        (lambda ev, by: rs.plot.trend(world(2).trend().table.assign(mean=np.nan)), "table",
         ["no run has a value"]),
    ],
    ids=range(14),
)  # fmt: skip
def test_frames_that_a_picture_cannot_draw_are_refused_with_what_to_pass(
    ev, by, draw, field, named
):
    with refused(*named, field=field):
        draw(ev, by)


def test_runs_without_a_value_or_an_interval_leave_their_place_empty(ev):
    table = ev.summary(["hit@1", "mrr@10"])
    is_first = table["run_id"].eq(ev.run_ids[0])
    gap = table.assign(mean=table["mean"].mask(is_first), low=np.nan, high=np.nan)
    ax = rs.plot.summary(gap.assign(is_reported=~is_first))
    ax.figure.draw_without_rendering()
    assert [one.lines[0].get_fillstyle() for one in ax.containers] == ["full", "none"]
    means = {one.get_label(): np.array(one.lines[0].get_xdata(), float) for one in ax.containers}
    assert np.isnan(means[ev.run_ids[0]]).all() and np.isfinite(means[ev.run_ids[1]]).all()


# One look per run in every picture; colours that every eye and a grey print tell apart


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
        found = [(run, one.colour) for run, one in run_styles(["new", "a", "z"]).items()]
    assert found == [*zip(["z", "a", "new"], PALETTE[:3], strict=True)]


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
    assert in_order(["hard", "(none)", "Easy"]) == ["Easy", "hard", "(none)"]
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
