"""Trends: where the line breaks, what joins it again, and when it left the noise."""

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from conftest import EXAMPLES, RUN_A, RUN_B, THREE_QUERIES, answer, hit, record
from matplotlib.dates import date2num
from scipy.stats import t as student
from stored import put_table, stored_table

import ragscore as rs
from ragscore.analysis.trend.history import provenance_of, split_segments
from ragscore.analysis.trend.noise import first_outside, noise_components, noise_floor
from ragscore.analysis.trend.trend import trend
from ragscore.scoring.summary import summarize
from tests.demo.variations import earlier_golden
from tests.messages import refused, says, warned

matplotlib.use("Agg")
DEMO = Path(__file__).parents[3] / "data" / "demo"
JUDGE = {"judge": "m", "prompt_hash": "p1", "temperature": 0.0}
SCORING = {
    "golden_hash": "aaaaaaaa1", "level": "chunk", "rule": "by_chunk", "profile": None,
    "policies": {"errors": "miss", "match": "auto"},
    "provenance": {"golden": "3 queries", "judge_fingerprint": {"faithfulness": [JUDGE]},
    "metric_versions": {"mrr@k": 1, "hit@k": 1}, "fields": {"hits.text": True, "chunks": None}},
}  # fmt: skip


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def store():
    return rs.RunStore(DEMO / "history")


@pytest.fixture(scope="module")
def golden():
    return rs.load_golden(DEMO / "golden.yaml")


def trend_table(*args, **options):
    return trend(*args, **options).table


@pytest.fixture(scope="module")
def table(store):
    return trend_table(store, "mrr@10")


def parted(metric, *scorings, chunkers=None):
    chunkers = chunkers or ["c@1"] * len(scorings)
    return split_segments(
        {f"r{n}": provenance_of(one, metric, chunker=chunkers[n]) for n, one in enumerate(scorings)}
    )


def with_provenance(**parts):
    return SCORING | {"provenance": SCORING["provenance"] | parts}


@pytest.mark.parametrize(
    ("metric", "other", "named"),
    [
        (
            "mrr@10",
            with_provenance(golden="4 queries") | {"golden_hash": "bbbbbbbb2"},
            ["labels", "aaaaaaaa → bbbbbbbb"],
        ),
        (
            "mrr@10",
            SCORING | {"level": "doc", "rule": "by_doc"},
            ["level", "chunk → doc", "rule", "by_chunk → by_doc"],
        ),
        ("mrr@10", SCORING | {"rule": "mine"}, ["rule", "by_chunk → mine"]),
        (
            "mrr@10",
            SCORING | {"policies": {"errors": "nan", "match": "auto"}},
            ["errors", "miss → nan"],
        ),
        ("mrr@10", SCORING | {"profile": "trec"}, ["profile", "none → trec"]),
        ("mrr@10", with_provenance(metric_versions={"mrr@k": 2}), ["mrr@k", "1 → 2"]),
        (
            "mrr@10",
            with_provenance(fields={"hits.text": False}),
            ["hits.text"],
        ),
        (
            "faithfulness",
            with_provenance(judge_fingerprint={"faithfulness": [JUDGE | {"prompt_hash": "p2"}]}),
            ["judge", "faithfulness", "m:p1:0 → m:p2:0"],
        ),
    ],
)
def test_each_component_of_the_provenance_breaks_the_line(metric, other, named):
    first, second = parted(metric, SCORING, other)
    assert first.break_reason == ""
    says(second.break_reason, *named)


def test_labels_without_a_recorded_content_go_by_their_hash():
    plain = {name: value for name, value in SCORING.items() if name != "provenance"}
    _, second = parted("mrr@10", plain, plain | {"golden_hash": "bbbbbbbb2"})
    says(second.break_reason, "labels", "aaaaaaaa → bbbbbbbb")
    assert len(parted("mrr@10", SCORING, SCORING | {"golden_hash": "bbbbbbbb2"})) == 1, (
        "only notes have changed"
    )


def test_another_chunker_breaks_the_line_and_says_what_differs():
    _, second = parted("mrr@10", SCORING, SCORING, chunkers=["split@1+py3", "split@1@400+py3"])
    says(second.break_reason, "split@1 → split@1@400")


@pytest.mark.parametrize(
    ("metric", "other"),
    [
        ("mrr@10", with_provenance(metric_versions={"mrr@k": 1, "hit@k": 9})),
        ("mrr@10", with_provenance(judge_fingerprint={})),
        ("faithfulness",
        with_provenance(judge_fingerprint={"faithfulness": [JUDGE | {"temperature": 0.0001}]})),
        ("mrr@10", with_provenance(fields={"hits.text": True, "chunks": False})),
        ("mrr@10", {}), ("mrr@10", SCORING | {"policies": {"errors": "miss", "match": "chunk"}}),
        ("latency_ms", SCORING | {"level": "doc", "rule": "by_doc"}),
    ],
)  # fmt: skip
def test_what_is_unknown_or_beside_the_metric_breaks_nothing(metric, other):
    assert len(parted(metric, SCORING, other)) == 1


def test_a_run_that_states_nothing_does_not_hide_a_change():
    assert [
        one.run_ids
        for one in parted(
            "mrr@10", SCORING, {}, SCORING | {"level": "doc"}, chunkers=["c", None, "c"]
        )
    ] == [("r0", "r1"), ("r2",)]


def test_a_provenance_that_returns_is_known_again():
    assert [
        (one.number, one.same_as)
        for one in parted("mrr@10", *[SCORING] * 3, chunkers=["a", "b", "a"])
    ] == [(1, 1), (2, 2), (3, 1)]


@pytest.mark.large
def test_the_history_is_broken_where_labels_and_passages_change(table):
    assert table["segment"].tolist() == [1] * 5 + [2] + [3] * 7 + [4] * 5
    broken = table.dropna(subset=["break_reason"]).set_index("run_id")["break_reason"]
    assert broken.index.tolist() == ["06-bm25-passages-400", "07-dense", "14-rerank-30-relabelled"]
    says(broken["14-rerank-30-relabelled"], "labels", "5ad89f3d → 63253d3c")
    chunkers = "docstring-sections@1 → docstring-sections@1@400"
    says(broken["06-bm25-passages-400"], chunkers)


def test_the_history_is_joined_by_what_can_still_be_compared(table):
    bridges = table.dropna(subset=["bridge"]).set_index("run_id")[
        ["bridge", "bridge_reason", "bridge_mean", "provenance_effect"]
    ]
    means = table.set_index("run_id")["mean"]
    assert bridges["bridge"].tolist() == ["05-bm25-k1.5", "05-bm25-k1.5", "13-rerank-30"]
    assert bridges["bridge_reason"].tolist() == [
        "compared by document",
        "measured as before",
        "the same results, measured by both",
    ]
    assert bridges["provenance_effect"].tolist()[:2] == [0, 0]
    assert bridges["provenance_effect"].iloc[2] == pytest.approx(
        means["14-rerank-30-relabelled"] - means["13-rerank-30"]
    )


@pytest.mark.large
def test_means_and_intervals_are_those_of_the_summary(store, golden):
    # paraphrases count together, if known
    table = trend_table(
        store, "mrr@10", golden=[golden, earlier_golden(golden, DEMO / "golden_before.yaml")]
    )
    with warned("golden"):
        stored = (
            store.metrics(allow_different=True)
            .query("metric == 'mrr@10'")
            .set_index("run_id")
            .loc[table["run_id"]]
        )
    for name in ("mean", "low", "high", "n", "n_expected"):
        np.testing.assert_allclose(table[name], stored[name])


@pytest.mark.large
def test_an_earlier_run_scored_again_bridges_a_relabelling(store, golden, tmp_path):
    # Without run 14 no run was measured by both; with today's labels run 13's stored hits are.
    names = ["12-rerank-100", "13-rerank-30", "15-cells-repeat1"]
    alone = trend_table(store, "mrr@10", order=names)
    assert (
        alone["break_reason"].notna().tolist() == [False, False, True]
        and alone["bridge"].isna().all()
    )
    joined = trend_table(store, "mrr@10", order=names, golden=golden).iloc[2]
    today = rs.score(store.load("13-rerank-30"), golden, ["mrr@10"])["mrr@10"].mean()
    assert (joined["bridge"], joined["bridge_reason"]) == (
        "13-rerank-30",
        "scored again by the newer provenance",
    )
    assert joined["bridge_mean"] == pytest.approx(today) and joined[
        "provenance_effect"
    ] == pytest.approx(today - alone["mean"].iloc[1])


@pytest.fixture
def changing(write_golden, write_run, tmp_path):
    """A store of three runs: a and b, then c by other labels for q3; and the newer golden set."""
    old = rs.load_golden(write_golden(THREE_QUERIES))
    new = rs.load_golden(
        write_golden(
            [
                *THREE_QUERIES[:2],
                THREE_QUERIES[2] | {"expected_doc_ids": ["dx"], "expected_chunk_ids": ["x"]},
            ],
            "new.yaml",
        )
    )
    store = rs.RunStore(tmp_path / "store")
    for n, (name, records, by) in enumerate(
        [("a", RUN_A, old), ("b", RUN_B, old), ("c", RUN_B, new)]
    ):
        run = rs.load_results(
            write_run(
                name,
                records,
                system="s",
                created_at=f"2026-01-0{n + 1}T00:00:00Z",
                chunker_version="test@1",
                config={"which": name},
            )
        )
        store.save(run, golden=by)
    return store, new


@pytest.mark.large
def test_a_bridge_is_what_the_newer_labels_make_of_the_earlier_run(changing):
    store, new = changing
    row = trend_table(store, "hit@1", golden=new).iloc[2]
    # b finds q2 and q3 at rank 1 by the old labels; by the new ones, which want x for q3, q2 alone.
    assert (row["bridge"], row["bridge_mean"], row["provenance_effect"]) == (
        "b",
        pytest.approx(1 / 3),
        pytest.approx(-1 / 3),
    )


@pytest.mark.slow
def test_a_stored_score_that_does_not_come_out_again_is_no_bridge(changing):
    store, new = changing
    scores = stored_table(store, "c", "scores")
    put_table(store, "c", "scores", scores.assign(**{"hit@1": 1.0}))
    assert trend_table(store, "hit@1", golden=new)["bridge"].isna().all()


def test_re_cut_passages_compared_by_chunk_have_no_bridge(write_golden, write_run, tmp_path):
    golden, store = rs.load_golden(write_golden(THREE_QUERIES)), rs.RunStore(tmp_path / "store")
    for n, version in enumerate(["test@1", "test@2"]):
        records = [
            record(
                one["query_id"],
                [one_hit | {"chunker_version": version} for one_hit in one["hits_top_k"]],
            )
            for one in (RUN_A, RUN_B)[n]
        ]
        store.save(
            rs.load_results(
                write_run(
                    f"r{n}",
                    records,
                    created_at=f"2026-01-0{n + 1}T00:00:00Z",
                    chunker_version=version,
                )
            ),
            golden=golden,
            match="chunk",
        )
    table = trend_table(store, "hit@1")
    assert table["segment"].tolist() == [1, 2] and table["bridge"].isna().all()
    says(table["break_reason"].iloc[1], "test@1", "test@2")


def noisy(means):
    """Scores of 4 queries whose mean in each run is the one given; runs are a day apart."""
    parts = [
        pd.DataFrame(
            {
                "run_id": f"r{n}",
                "created_at": pd.Timestamp("2026-01-01", tz="UTC") + pd.Timedelta(days=n),
                "state": "scored",
                "level": "doc",
                "mrr": np.array([-0.1, 0.1, 0, 0]) + mean,
            },
            index=pd.Index([f"q{n}" for n in range(4)], name="query_id"),
        )
        for n, mean in enumerate(means)
    ]
    return pd.concat(parts)


def test_the_band_is_where_one_more_run_lands():
    scores = noisy([0.50, 0.52, 0.54])
    floor = noise_floor(scores, "mrr", repeats=["r0", "r1", "r2"]).iloc[0]
    half = student.ppf(0.975, 2) * 0.02 * np.sqrt(1 + 1 / 3)
    assert (floor["n_repeats"], floor["n"], floor["df"]) == (3, 4, 2) and floor[
        "sd"
    ] == pytest.approx(0.02)
    assert (floor["low"], floor["high"]) == (pytest.approx(0.52 - half), pytest.approx(0.52 + half))
    assert floor["flip_rate"] == 1.0


def test_one_baseline_run_makes_a_wider_band_than_the_mean_of_repeats():
    scores = noisy([0.50, 0.52, 0.54, 0.50])
    row = trend_table(scores, "mrr", repeats=["r0", "r1", "r2"], baseline="r3").iloc[0]
    half = student.ppf(0.975, 2) * 0.02 * np.sqrt(2)
    assert (row["band_low"], row["band_high"]) == (
        pytest.approx(0.50 - half),
        pytest.approx(0.50 + half),
    )
    around = trend_table(scores, "mrr", repeats=["r0", "r1", "r2"], baseline="r1")
    assert (
        around["is_baseline"].tolist() == [True, True, True, False]
        and around["band_high"].iloc[0] < 0.52 + half
    )


def test_the_line_left_the_band_at_the_first_run_after_which_it_stayed_outside():
    # Repeats 0.500 and 0.501: sd 0.0007, t 12.7, so that the band ends 0.011 from the middle.
    table = trend_table(noisy([0.500, 0.501, 0.60, 0.505, 0.58, 0.59]), "mrr", repeats=["r0", "r1"])
    assert table["in_band"].tolist() == [True, True, False, True, False, False]
    assert table.loc[table["first_out_of_control"], "run_id"].tolist() == ["r4"]
    assert not trend_table(noisy([0.500, 0.501, 0.60, 0.505]), "mrr", repeats=["r0", "r1"])[
        "first_out_of_control"
    ].any()


@pytest.mark.parametrize(
    ("side", "counts", "place"),
    [
        ([0, 1, 1], [1, 1, 1], 1),
        ([1, -1, -1], [1, 1, 1], 1),
        ([1, 1, 1], [0, 0, 1], None),
        ([1, 1, 0], [1, 1, 1], None),
        ([1, 0, 1], [1, 0, 1], 0),
        ([], [], None),
    ],
)
def test_first_outside(side, counts, place):
    found = first_outside(np.array(side, dtype="int64"), np.array(counts, dtype=bool))
    assert np.flatnonzero(found).tolist() == ([] if place is None else [place])


@pytest.mark.slow
def test_bands_of_a_simulated_unchanged_system_hold_their_level():
    draw, n = np.random.default_rng(3), EXAMPLES
    means = draw.normal(0.5, 0.02, (n, 6))
    floors = [
        noise_floor(noisy(row[:5]), "mrr", repeats=[f"r{n}" for n in range(5)]).iloc[0]
        for row in means
    ]
    inside = [
        floor["low"] <= row[5] <= floor["high"] for floor, row in zip(floors, means, strict=True)
    ]
    # 95 %, give or take three standard errors; with z in place of t it were 88 %
    assert abs(np.mean(inside) - 0.95) <= 3 * np.sqrt(0.95 * 0.05 / n)


def test_the_noise_of_the_history_is_that_of_its_three_repeats(store, table):
    floor = noise_floor(store, "mrr@10")
    means = table.set_index("run_id")["mean"].loc[
        ["15-cells-repeat1", "16-cells-repeat2", "17-cells-repeat3"]
    ]
    assert floor["runs"].tolist() == [", ".join(means.index)] and floor["sd"].iloc[
        0
    ] == pytest.approx(means.std())
    in_band = table.dropna(subset=["in_band"])
    assert (
        in_band["segment"].unique().tolist() == [4]
        and in_band["in_band"].all()
        and in_band["band_from"].unique().tolist() == ["3 repeats of hybrid_rerank"]
    )
    parts = noise_components(store, "mrr@10").set_index("source")
    assert (parts["sd_of_mean"].drop("queries") ** 2).sum() == pytest.approx(means.var())
    assert parts["share"].sum() == pytest.approx(1) and parts.loc["queries", "share"] > 0.8


@pytest.mark.large
def test_a_baseline_is_carried_over_what_bridges(store, golden, table):
    found = trend_table(store, "mrr@10", golden=golden, baseline="13-rerank-30")
    middle = ((found["band_low"] + found["band_high"]) / 2).set_axis(found["run_id"])
    means = table.set_index("run_id")["mean"]
    assert middle["01-bm25-plain"] == pytest.approx(means["13-rerank-30"]) and np.isnan(
        middle["06-bm25-passages-400"]
    )
    assert middle["18-rerank-unstemmed"] == pytest.approx(means["14-rerank-30-relabelled"])
    early = trend_table(store, "mrr@10", golden=golden, baseline="05-bm25-k1.5")
    assert (
        early.loc[early["first_out_of_control"], "run_id"].tolist() == ["07-dense"]
        and early["band_low"].notna().all()
    )


def judged(write_golden, write_run, tmp_path, values):
    """Results of one run whose judge was asked several times: query -> values by judge repeat."""
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    results = rs.load_results(
        write_run(
            "a",
            [record(name, [hit("c1", "d1", 1)], answer=answer("yes")) for name in values],
            system="s",
            created_at="2026-01-01T00:00:00Z",
        )
    )
    rows = [
        {"run_id": "a", "query_id": name, "criterion": "faithfulness", "item": "", "value": value,
        "judge": "m", "repeat": n}
        for name, of in values.items() for n, value in enumerate(of, 1)
    ]  # fmt: skip
    return replace(results, judgments=pd.DataFrame(rows)), golden


def test_judge_repeats_are_split_from_queries(write_golden, write_run, tmp_path):
    results, golden = judged(
        write_golden, write_run, tmp_path, {"q1": [0.1, 0.3], "q2": [0.5, 0.7], "q3": [0.4]}
    )
    scores = rs.score(results, golden, ["faithfulness"])
    found = noise_components(scores, "faithfulness", results=results).set_index("source")
    # As the judge repeats by hand in test_variance_components, a tenth of the size; q3 was judged
    # once only.
    assert found["variance"].to_dict() == {
        "queries": pytest.approx(0.07),
        "judge repeats": pytest.approx(0.02),
    }
    assert found[["n", "n_judge_repeats", "n_left_out"]].iloc[0].tolist() == [2, 2, 1]


@pytest.mark.slow
def test_a_golden_set_may_be_given_by_its_path(store, golden):
    file = DEMO / "golden.yaml"
    for given in (file, str(file), [file]):
        pd.testing.assert_frame_equal(
            store.trend("mrr@10", golden=given).table, store.trend("mrr@10", golden=golden).table
        )


def test_slices_are_trends_of_their_own(store, golden):
    table = trend_table(store, "mrr@10", golden=golden, by="difficulty")
    means = summarize(
        store._measured("mrr@10")[0].assign(created_at=pd.NaT),
        golden,
        by="difficulty",
        metrics=["mrr@10"],
    ).set_index(["run_id", "difficulty"])["mean"]
    assert len(table) == 54
    np.testing.assert_allclose(
        table["mean"], means.loc[list(zip(table["run_id"], table["difficulty"], strict=True))]
    )
    own = table[table["difficulty"] == "hard"].set_index("run_id")
    assert own.loc["14-rerank-30-relabelled", "provenance_effect"] == pytest.approx(
        own.loc["14-rerank-30-relabelled", "mean"] - own.loc["13-rerank-30", "mean"]
    )
    figure = matplotlib.pyplot.figure().subfigures(1, 2)[1]
    first = rs.plot.trend(table, figure=figure)
    axes = figure.axes
    assert axes[0] is first
    titles = [" ".join(ax.get_title().split()) for ax in axes]
    assert titles == ["easy (n = 41)", "medium (n = 60)", "hard (n = 49)"], "in their own order"
    assert len({ax.get_ylim() for ax in axes}) == 1
    narrow = trend(store, "mrr@10", "category", golden=golden).plot().figure.axes
    # concept reaches up to .92, its band to 1
    assert narrow[-1].get_ylim()[1] >= table["high"].max() and narrow[0].get_ylim()[
        1
    ] == pytest.approx(1.0)
    with refused("difficulty", "figure=", field="ax"):
        rs.plot.trend(table, ax=first)


@pytest.mark.parametrize(
    ("how", "field", "named"),
    [
        ({"metric": "mine"}, "metrics", ["mine"]),
        ({"metric": "mrr@10", "by": "difficulty"}, "golden", ["by"]),
        ({"metric": "mrr@10", "order": "x_nothing"}, "order", ["x_nothing"]),
        ({"metric": "mrr@10", "baseline": "nobody"}, "run", ["nobody"]),
        ({"metric": "mrr@10", "repeats": ["07-dense"]}, "repeats", ["07-dense"]),
        ({"metric": "mrr@10", "order": ["07-dense", "07-dense"]}, "order", ["07-dense"]),
    ],
)
def test_what_makes_no_trend_is_refused(store, how, field, named):
    with refused(*named, field=field):
        trend_table(store, **how)


def test_runs_without_noise_say_so():
    with refused(field="repeat"):
        noise_floor(noisy([0.5, 0.6]), "mrr")
    assert trend_table(noisy([0.5, 0.6]), "mrr")["band_low"].isna().all()


def test_runs_without_a_time_are_left_out_aloud():
    scores = noisy([0.5, 0.6, 0.7])
    scores.loc[(scores["run_id"] == "r1").to_numpy(), "created_at"] = pd.NaT
    with warned("created_at", "r1"):
        assert trend_table(scores, "mrr")["run_id"].tolist() == ["r0", "r2"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trend_table(scores, "mrr", order=["r2", "r1"])["run_id"].tolist() == ["r2", "r1"]


def words(ax):
    """The words above the axes, as they are drawn."""
    ax.figure.canvas.draw()
    return [text.get_text() for text in ax.texts if text.get_text()]


def upright(ax, style):
    """Where vertical lines of a style stand."""
    lines = [line for line in ax.lines if line.get_linestyle() == style]
    return [line.get_xdata()[0] for line in lines if list(line.get_ydata()) == [0, 1]]


def days(times):
    return date2num(pd.to_datetime(times, utc=True).dt.tz_localize(None).to_numpy())


def line_of(ax, points):
    """The points of the line that begins at this value, NaN where it is broken."""
    (line,) = [one for one in ax.lines if len(one.get_xdata()) > 2 and one.get_ydata()[0] == points]
    return line.get_xydata().tolist()


def bands(ax):
    """From where to where the noise bands go."""
    areas = [one for one in ax.collections if one.get_zorder() == 0]
    return [one.get_datalim(ax.transData).intervalx.tolist() for one in areas]


@pytest.mark.large
def test_the_picture_breaks_its_lines_and_says_why(table):
    ax = rs.plot.trend(table)
    at = days(table["created_at"])
    breaks = [(at[n - 1] + at[n]) / 2 for n in (5, 6, 13)]
    assert sorted(upright(ax, "-")) == pytest.approx(breaks)
    assert {"labels changed", "chunker changed"} <= set(words(ax))
    title = " ".join(ax.get_title().split())
    says(title, "mrr@10", "hybrid_rerank", "2026-11-02", "n = 150", "within the noise")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"bm25", "dense", "hybrid", "hybrid_rerank"} <= set(names)
    says("\n".join(names), 3, "hybrid_rerank", "95 %")
    mean = table["mean"].tolist()
    # passages cut anew change no value by document: the line runs on, flat up to the break
    assert line_of(ax, mean[0])[4:8] == [
        [at[4], mean[4]], [breaks[0], mean[4]], [breaks[0], mean[4]], [at[5], mean[5]],
    ]  # fmt: skip
    # labels do: it steps to what run 13 is worth by the newer ones, which is run 14's value
    assert line_of(ax, mean[10])[2:6] == [
        [at[12], mean[12]], [breaks[2], mean[12]], [breaks[2], mean[13]], [at[13], mean[13]],
    ]  # fmt: skip
    assert not [line for line in ax.lines if line.get_marker() == "D" and line.get_mfc() == "white"]


@pytest.mark.large
def test_a_line_steps_where_labels_changed_and_goes_on(changing):
    store, new = changing
    ax = store.trend("hit@1", golden=new).plot()
    first, second, third = days(pd.Series(["2026-01-01", "2026-01-02", "2026-01-03"]))
    # a finds q2, b finds q2 and q3; by the newer labels, which want x for q3, b and c find q2
    assert ax.lines[0].get_xydata().ravel().tolist() == pytest.approx([
        first, 1 / 3, second, 2 / 3, second + 0.5, 2 / 3, second + 0.5, 1 / 3, third, 1 / 3,
    ])  # fmt: skip
    assert ax.lines[0].get_markevery() == [0, 1, 4], "only runs have marks"
    # without the newer labels nothing joins the two: the line ends, and another one begins
    assert np.isnan(store.trend("hit@1").plot().lines[0].get_ydata()).tolist() == [
        False, False, True, False,
    ]  # fmt: skip


@pytest.mark.large
def test_a_line_is_joined_by_its_own_last_run_alone(changing):
    store, new = changing
    table = store.trend("hit@1", golden=new).table
    other = table.assign(bridge="a", bridge_mean=0.5)  # b came after it
    assert np.isnan(rs.plot.trend(other).lines[0].get_ydata()).any()


@pytest.mark.large
def test_the_band_is_drawn_where_it_decides(store, golden):
    found = store.trend("mrr@10", golden=golden, baseline="13-rerank-30").table
    assert found.loc[found["band_low"].notna(), "segment"].unique().tolist() == [1, 3, 4]
    at = days(found["created_at"])
    # the title says that the newest run lies within; the earlier segments have nothing to say
    (last,) = bands(rs.plot.trend(found))
    assert last == pytest.approx([(at[12] + at[13]) / 2, at[-1] + 0.04 * (at[-1] - at[0])])
    assert not bands(rs.plot.trend(found.assign(in_band=pd.NA)))
    early = store.trend("mrr@10", golden=golden, baseline="05-bm25-k1.5").table
    assert [band[0] for band in bands(rs.plot.trend(early))] == pytest.approx(
        [(at[5] + at[6]) / 2, (at[12] + at[13]) / 2]
    )
    panels = store.trend("mrr@10", "difficulty", golden=golden, baseline="13-rerank-30")
    assert not any(map(bands, panels.plot().figure.axes))


def test_notes_stand_at_their_dates_or_before_their_runs(table):
    notes = {"2026-10-15": "new index", pd.Timestamp("2026-11-05 12:00"): "more memory",
             "07-dense": "a vector database", "2025-01-01": "before all runs"}  # fmt: skip
    ax = rs.plot.trend(table, notes=notes)
    at = days(table["created_at"])
    dates = days(pd.Series(["2026-10-15", "2026-11-05 12:00"], dtype="datetime64[ns]"))
    assert upright(ax, "--") == pytest.approx([(at[5] + at[6]) / 2, *dates])
    assert {"new index", "more memory"} <= set(words(ax)) and "before all runs" not in words(ax)
    # of a column of the runs, words stand where they change
    column = pd.Series(["v1"] * 5 + ["v2"] * 13, index=table["run_id"]).where(
        lambda one: one != "v1"
    )
    assert upright(rs.plot.trend(table, notes=column), "--") == [(at[4] + at[5]) / 2]
    by_run = table.assign(created_at=pd.NaT)
    assert upright(rs.plot.trend(by_run, notes={"07-dense": "vectors"}), "--") == [6.5]
    for found, notes in ((table, {"yesterday evening": "x"}), (by_run, {"2026-10-15": "x"})):
        with refused(*notes, field="notes"):
            rs.plot.trend(found, notes=notes)


@pytest.mark.large
def test_words_that_do_not_fit_are_counted_together(table):
    said = {}
    for width in (7.6, 20.0):
        figure, ax = matplotlib.pyplot.subplots(figsize=(width, 4), layout="constrained")
        rs.plot.trend(table, ax=ax)
        said[width] = words(ax)
    config = ["stemmer changed", "b changed", "rrf_k changed", "depth changed"]
    assert set(config) <= set(said[20.0]) and "2 changes" not in said[20.0]
    assert len(said[7.6]) < len(said[20.0]) == 13
    assert [text for text in said[7.6] if re.fullmatch(r"\d+ changes", text)]
    assert "labels changed" in said[7.6], "settings are counted together first"
    figure.set_figwidth(7.6)
    assert words(ax) == said[7.6], "placed anew in another width"


@pytest.mark.slow
def test_words_are_placed_in_any_output_and_size(table, tmp_path):
    figure = rs.plot.trend(table, notes={"07-dense": "costs $5 and $6 \\frac"}).figure
    for name in ("a.svg", "a.pdf", "a.png"):
        figure.savefig(tmp_path / name, dpi=200)
    before = words(figure.axes[0])
    figure.set_figwidth(20)
    assert len(words(figure.axes[0])) > len(before), "placed anew"


def test_systems_of_one_date_share_it():
    scores = pd.concat(
        noisy(means).assign(run_id=lambda rows, name=name: name + rows["run_id"], system=name)
        for name, means in (("a", [0.1, 0.2]), ("b", [0.3, 0.4]))
    )
    ax = trend(scores, "mrr").plot()
    at = days(pd.Series(["2026-01-01", "2026-01-02"])).tolist()
    assert [line.get_xdata().tolist() for line in ax.lines[:2]] == [at, at]


def test_the_picture_marks_baseline_and_departure(store, golden):
    found = trend_table(store, "mrr@10", golden=golden, baseline="05-bm25-k1.5")
    ax = rs.plot.trend(found)
    at = days(found["created_at"])
    rings = {line.get_label(): list(line.get_xdata()) for line in ax.get_lines()}
    assert (rings["baseline"], rings["left the noise band"]) == ([at[4]], [at[6]])


@pytest.mark.parametrize("width", [3.4, 7.6])
def test_words_above_the_axes_do_not_overlap(table, width):
    ax = rs.plot.trend(table, ax=matplotlib.pyplot.subplots(figsize=(width, 4))[1])
    ax.figure.canvas.draw()
    seen = [text for text in [*ax.texts, ax.title] if text.get_text()]
    boxes = [text.get_window_extent() for text in seen]
    assert not [(a, b) for n, a in enumerate(boxes) for b in boxes[n + 1 :] if a.overlaps(b)]
    edges = ax.figure.bbox
    assert all(edges.x0 <= box.x0 and box.x1 <= edges.x1 and box.y1 <= edges.y1 for box in boxes)


@pytest.mark.slow
def test_a_store_follows_and_draws_a_metric(changing):
    store, _ = changing
    found = store.trend("hit@1")
    assert found.table["run_id"].tolist() == ["a", "b", "c"]
    alike = found.table.assign(created_at=found.table["created_at"].iloc[0])
    ticks = rs.plot.trend(alike).get_xticklabels()
    assert [tick.get_text() for tick in ticks] == ["a", "b", "c"], "times alike: in their order"
    two = trend(store.scores("hit@1", runs=["a", "b"]), "hit@1").plot()
    assert two.get_lines()[0].get_ydata().tolist() == pytest.approx([1 / 3, 2 / 3])
    with refused("store.trend(metric)", field="table"):
        rs.plot.trend(store.runs())


@pytest.mark.large
def test_a_store_tells_the_noise_of_its_repeats(store):
    pd.testing.assert_frame_equal(store.noise("mrr@10"), noise_floor(store, "mrr@10"))
    pd.testing.assert_frame_equal(
        store.variance_components("mrr@10"), noise_components(store, "mrr@10")
    )


def test_slices_by_several_names_are_their_combinations(store, golden):
    found = trend(store, "mrr@10", ["difficulty", "category"], golden=golden, order=["07-dense"])
    assert found.by == ("difficulty", "category")
    rows = found.table.set_index(["difficulty", "category"])
    scores = store._measured("mrr@10", ["07-dense"])[0]["mrr@10"]
    queries = golden.queries.set_index("query_id")
    expected = scores.groupby([queries["difficulty"], queries["category"]]).mean()
    assert len(rows) == len(expected)
    for slice_, mean in expected.items():
        assert rows.loc[slice_, "mean"] == pytest.approx(mean, nan_ok=True)
    says(found.plot(limit=2).figure.get_suptitle(), "mrr@10", "difficulty", "category")


def test_a_trend_prints_its_metric_and_says_where_the_band_does_not_reach(store, golden):
    found = store.trend("mrr@10", golden=golden, baseline="13-rerank-30")
    printed = found._shown().set_index("run_id")
    assert printed["mrr@10"].tolist() == [f"{mean:.3f}" for mean in found.table["mean"]]
    without = found.table.loc[found.table["band_low"].isna(), "run_id"].tolist()
    assert without == printed.index[printed[""] == "no band"].tolist() != []
    # the band moves with the relabelling, so each range names its segments
    says("\n".join(found.notes()), "segment 1, 3", "segment 4")


def test_a_trend_reloads_from_its_json(store):
    found = store.trend("mrr@10")
    again = type(found).from_json(found.to_json())
    assert repr(again) == repr(found)
    says(again.to_markdown().splitlines()[0], "#", "mrr@10", 18)


def test_the_command_prints_the_table_and_the_breaks(capsys):
    from ragscore.cli import main

    assert (
        main(
            [
                "trend",
                str(DEMO / "history"),
                "--metric",
                "mrr@10",
                "--golden",
                str(DEMO / "golden.yaml"),
                "--baseline",
                "05-bm25-k1.5",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out.splitlines()
    assert printed[7].split() == [
        "05-bm25-k1.5",
        "bm25",
        "0.236",
        "[0.183,",
        "0.299]",
        "150",
        "of",
        "150",
        "1",
        "baseline",
    ]
    assert printed[9].split()[:3] == ["07-dense", "dense", "0.441"] and printed[9].endswith(
        "left the band"
    )
    labels, runs = ("5ad89f3d", "63253d3c"), ("13-rerank-30", "14-rerank-30-relabelled")
    says(printed[-2], "segment 4", *labels, *runs, "+0.037")
    assert main(["trend", str(DEMO / "history"), "--metric", "mrr@10", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 18 and rows[0]["band_low"] is None and rows[13]["bridge"] == "13-rerank-30"
    assert main(["trend", str(DEMO / "nowhere"), "--metric", "mrr@10"]) == 2
    says(capsys.readouterr().err, "nowhere")


@pytest.mark.large
def test_dates_put_in_after_loading_are_read_as_times():
    hits = pd.DataFrame({"query_id": "q", "doc_id": "d", "rank": 1}, index=[0])
    runs = [rs.load_results(hits, run_id=name) for name in ("late", "early")]
    runs[0].runs["created_at"], runs[1].runs["created_at"] = "2026-10-01", "2026-09-30T22:00Z"
    golden = rs.load_golden(pd.DataFrame({"query_id": ["q"], "doc_id": ["d"], "grade": [1]}))
    table = rs.evaluate(runs, golden).trend("recall@5").table
    assert table["run_id"].tolist() == ["early", "late"]
    assert table["created_at"].tolist() == [
        pd.Timestamp("2026-09-30 22:00", tz="UTC"), pd.Timestamp("2026-10-01", tz="UTC"),
    ]  # fmt: skip
    one = rs.load_results(hits, run_id="a")
    one.runs["created_at"] = "yesterday"
    with refused(0, "yesterday", field="runs.created_at"):
        rs.evaluate(one, golden).trend("recall@5")
