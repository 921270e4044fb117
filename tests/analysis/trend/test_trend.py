"""Trends: where the line breaks, and when it left the noise."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, scores_of
from matplotlib.dates import date2num
from scipy.stats import t as student

import ragscore as rs
from ragscore.analysis.breaks import provenance_of, split_segments
from ragscore.analysis.history import read_history
from ragscore.analysis.trend import noise_floor, trend_of
from tests.messages import refused, says, warned

DEMO = Path(__file__).parents[3] / "data" / "demo"
JUDGE = {"judge": "m", "prompt_hash": "p1", "temperature": 0.0}
SCORING = {
    "golden_hash": "aaaaaaaa1", "level": "chunk", "rule": "by_chunk", "profile": None,
    "policies": {"missing": "zero", "match": "auto"},
    "provenance": {"golden": "3 queries", "judge_fingerprint": {"faithfulness": [JUDGE]},
    "metric_versions": {"mrr@k": 1, "hit@k": 1}, "fields": {"hits.text": True, "chunks": None}},
}  # fmt: skip
PLAIN = {name: value for name, value in SCORING.items() if name != "provenance"}
RELABELLED = {"golden_hash": "bbbbbbbb2"}


@pytest.fixture(scope="module")
def store():
    return rs.RunStore(DEMO / "history")


def trend_table(source, metric, baseline=None, **options):
    return trend_of(read_history(source, metric, **options), baseline).table


@pytest.fixture(scope="module")
def table(store):
    return trend_table(store, "mrr@10")


def parted(metric, *scorings, chunkers=()):
    chunkers = chunkers or ["c@1"] * len(scorings)
    described = {
        f"r{n}": provenance_of(one, metric, chunker=chunkers[n]) for n, one in enumerate(scorings)
    }
    return split_segments(described)[0]


def scoring(**parts):
    """The scoring by another provenance."""
    return SCORING | {"provenance": SCORING["provenance"] | parts}


def judged(**other):
    return scoring(judge_fingerprint={"faithfulness": [JUDGE | other]})


@pytest.mark.parametrize(
    ("metric", "sides", "chunkers", "named"),
    [
        ("mrr@10", [SCORING, scoring(golden="4 queries") | RELABELLED], (),
         ["labels", "aaaaaaaa → bbbbbbbb"]),
        ("mrr@10", [PLAIN, PLAIN | RELABELLED], (), ["labels", "aaaaaaaa → bbbbbbbb"]),
        ("mrr@10", [SCORING, SCORING | {"level": "doc", "rule": "by_doc"}], (),
         ["level", "chunk → doc", "rule", "by_chunk → by_doc"]),
        ("mrr@10", [SCORING, SCORING | {"rule": "mine"}], (), ["rule", "by_chunk → mine"]),
        ("mrr@10", [SCORING, SCORING | {"policies": {"missing": "exclude", "match": "auto"}}], (),
         ["missing", "zero → exclude"]),
        ("mrr@10", [SCORING, SCORING | {"profile": "trec"}], (), ["profile", "none → trec"]),
        ("mrr@10", [SCORING, scoring(metric_versions={"mrr@k": 2})], (), ["mrr@k", "1 → 2"]),
        ("mrr@10", [SCORING, scoring(fields={"hits.text": False})], (), ["hits.text"]),
        ("faithfulness", [SCORING, judged(prompt_hash="p2")], (),
         ["judge", "faithfulness", "m:p1:0 → m:p2:0"]),
        ("mrr@10", [SCORING, SCORING], ("split@1+py3", "split@1@400+py3"),
         ["split@1 → split@1@400"]),
    ],
)  # fmt: skip
def test_each_component_of_the_provenance_breaks_the_line(metric, sides, chunkers, named):
    found = parted(metric, *sides, chunkers=chunkers)
    assert found["segment"].tolist() == [1, 2] and pd.isna(found["break_reason"].iloc[0])
    says(found["break_reason"].iloc[1], *named)


@pytest.mark.parametrize(
    ("metric", "others", "segments"),
    [
        ("mrr@10", [scoring(metric_versions={"mrr@k": 1, "hit@k": 9})], [1, 1]),
        ("mrr@10", [scoring(judge_fingerprint={})], [1, 1]),
        # by their content labels are the same: notes changed
        ("mrr@10", [SCORING | RELABELLED], [1, 1]),
        ("faithfulness", [judged(temperature=0.0001)], [1, 1]),
        ("mrr@10", [scoring(fields={"hits.text": True, "chunks": False})], [1, 1]),
        ("mrr@10", [{}], [1, 1]),
        ("mrr@10", [SCORING | {"policies": {"missing": "zero", "match": "chunk"}}], [1, 1]),
        ("latency_ms", [SCORING | {"level": "doc", "rule": "by_doc"}], [1, 1]),
        # a run that states nothing doesn't hide a change
        ("mrr@10", [{}, SCORING | {"level": "doc"}], [1, 1, 2]),
    ],
)
def test_what_is_unknown_or_beside_the_metric_breaks_nothing(metric, others, segments):
    chunkers = ["c", None, "c"][: len(segments)]
    found = parted(metric, SCORING, *others, chunkers=chunkers)
    assert found["segment"].tolist() == segments


def test_means_and_intervals_of_a_trend_are_those_of_the_summary(table, store):
    with warned("golden"):
        stored = store.summary(allow_different=True).query("metric == 'mrr@10'")
    columns = ["mean", "low", "high", "n", "n_expected"]
    theirs = stored.set_index("run_id").loc[table["run_id"], columns]
    np.testing.assert_allclose(table[columns].astype(float), theirs.astype(float))


@pytest.fixture
def relabelled(write_run, tmp_path):
    """A store of three runs: a and b, then c by other labels for q3; and the newer golden set."""
    other = THREE_QUERIES[2] | {"expected_doc_ids": ["dx"], "expected_chunk_ids": ["x"]}
    old, new = map(rs.load_golden, (THREE_QUERIES, [*THREE_QUERIES[:2], other]))
    store = rs.RunStore(tmp_path / "store")
    runs = ("a", RUN_A, old), ("b", RUN_B, old), ("c", RUN_B, new)
    for day, (name, records, golden) in enumerate(runs, 1):
        described = {
            "created_at": f"2026-01-0{day}T00:00:00Z",
            "config": {"which": name, "seed": day},
        }
        file = write_run(name, records, system="s", chunker_version="test@1", **described)
        store.save(rs.load_results(file), golden=golden)
    return store, new


def noisy(*means):
    """Scores of 4 queries whose mean in each run is the one given; runs are a day apart."""
    values = np.array([-0.1, 0.1, 0, 0])
    scores = scores_of("mrr", **{f"r{n}": values + mean for n, mean in enumerate(means)})
    days = pd.date_range("2026-01-01", periods=len(means), tz="UTC").repeat(4)
    return scores.assign(created_at=days)


@pytest.mark.parametrize(
    ("baseline", "middle", "runs"),
    # one run more beside the mean of three; one run's band is wider than that
    [(None, 0.52, 1 / 3), ("r3", 0.50, 1), ("r1", 0.52, 1 / 3)],  # a repeat stands for all of them
)
def test_the_band_is_where_one_more_run_lands(baseline, middle, runs):
    scores = noisy(0.50, 0.52, 0.54, 0.50)
    found = trend_table(scores, "mrr", repeats=["r0", "r1", "r2"], baseline=baseline)
    half = student.ppf(0.975, 2) * 0.02 * np.sqrt(1 + runs)
    band = found[["band_low", "band_high"]].iloc[0].tolist()
    assert band == pytest.approx([middle - half, middle + half])


@pytest.mark.parametrize(
    ("means", "in_band", "first_out"),
    [
        # Repeats 0.500 and 0.501: sd 0.0007, t 12.7, so that the band ends 0.011 from the middle.
        ([0.500, 0.501, 0.60, 0.505, 0.58, 0.59], [True, True, False, True, False, False], ["r4"]),
        # a single run outside, the last one, or runs on either side: one of many often is
        ([0.500, 0.501, 0.50, 0.60], [True, True, True, False], []),
        ([0.500, 0.501, 0.60, 0.40], [True, True, False, False], []),
    ],
)
def test_the_line_left_the_band_at_the_first_run_after_which_it_stayed_outside(
    means, in_band, first_out
):
    scores = noisy(*means).assign(system="s")
    scores["repeat"] = scores["run_id"].map({"r0": 1, "r1": 2})
    named = trend_table(noisy(*means), "mrr", repeats=["r0", "r1"])
    for found in (trend_table(scores, "mrr"), named):
        assert found["in_band"].tolist() == in_band
        assert found.loc[found["first_out_of_control"], "run_id"].tolist() == first_out


def test_the_noise_of_the_history_is_that_of_its_three_repeats(store, table):
    repeats = ["15-cells-repeat1", "16-cells-repeat2", "17-cells-repeat3"]
    (row,) = noise_floor(store, "mrr@10").to_dict("records")
    means = table.set_index("run_id")["mean"].loc[repeats]
    assert (row["runs"], row["sd"]) == (", ".join(repeats), pytest.approx(means.std()))
    in_band = table.dropna(subset=["in_band"])
    assert set(in_band["segment"]) == {4} and in_band["in_band"].all()


def test_a_band_holds_where_runs_are_measured_as_the_baseline_was(store):
    # not by the other passages of 06, nor the other labels from 14 on
    assert (
        repr(store.trend("mrr@10", baseline="13-rerank-30"))
        == """\
mrr@10 over 18 runs

run_id                   system              mrr@10 [low,           n  segment
                                                    high]
01-bm25-plain            bm25           0.25 [0.19, 0.31]  150 of 150        1  outside
02-bm25-stemmed          bm25           0.24 [0.18, 0.30]  150 of 150        1  outside
03-bm25-b0.3             bm25           0.24 [0.18, 0.30]  150 of 150        1  outside
04-bm25-b1               bm25           0.24 [0.18, 0.30]  150 of 150        1  outside
05-bm25-k1.5             bm25           0.24 [0.18, 0.30]  150 of 150        1  outside
06-bm25-passages-400     bm25           0.22 [0.17, 0.29]  150 of 150        2  no band
07-dense                 dense          0.44 [0.37, 0.51]  150 of 150        3
08-hybrid                hybrid         0.44 [0.36, 0.52]  150 of 150        3
09-hybrid-rrf10          hybrid         0.44 [0.37, 0.51]  150 of 150        3
10-hybrid-pool30         hybrid         0.44 [0.37, 0.52]  150 of 150        3
11-rerank-10             hybrid_rerank  0.45 [0.37, 0.52]  150 of 150        3
12-rerank-100            hybrid_rerank  0.49 [0.41, 0.56]  150 of 150        3
13-rerank-30             hybrid_rerank  0.48 [0.41, 0.56]  150 of 150        3  baseline
14-rerank-30-relabelled  hybrid_rerank  0.52 [0.45, 0.60]  150 of 150        4  no band
15-cells-repeat1         hybrid_rerank  0.49 [0.42, 0.57]  150 of 150        4  no band
16-cells-repeat2         hybrid_rerank  0.52 [0.44, 0.59]  150 of 150        4  no band
17-cells-repeat3         hybrid_rerank  0.53 [0.46, 0.60]  150 of 150        4  no band
18-rerank-unstemmed      hybrid_rerank  0.52 [0.45, 0.60]  150 of 150        4  no band

segment 2 from 06-bm25-passages-400: passages re-chunked (docstring-sections@1 → docstring-sections@1@400)
segment 3 from 07-dense: passages re-chunked (docstring-sections@1@400 → docstring-sections@1)
segment 4 from 14-rerank-30-relabelled: other labels (5ad89f3d → 63253d3c)
noise band (from 3 repeats of hybrid_rerank): 95 of 100 runs of an unchanged system land in 0.371 to 0.597 (segment 1, 3)"""  # noqa: E501
    )


@pytest.mark.parametrize(
    ("how", "field", "named"),
    [
        ({"metric": "mine"}, "metric", ["mine", "store.evaluate"]),
        ({"metric": "mrr@10", "order": "x_nothing"}, "order", ["x_nothing"]),
        ({"metric": "mrr@10", "baseline": "nobody"}, "run", ["nobody"]),
        ({"metric": "mrr@10", "repeats": ["07-dense"]}, "repeats", ["07-dense"]),
        ({"metric": "mrr@10", "order": ["07-dense", "07-dense"]}, "order", ["07-dense"]),
    ],
)
def test_what_makes_no_trend_is_refused(store, how, field, named):
    with refused(*named, field=field):
        trend_table(store, **how)


def test_runs_without_noise_say_so(relabelled):
    with refused(field="repeat"):
        noise_floor(relabelled[0], "hit@1", repeats=None)
    # two first runs of one system are no repeats
    for scores in (noisy(0.5, 0.6), noisy(0.5, 0.501).assign(system="s", repeat=1)):
        assert trend_table(scores, "mrr")["band_low"].isna().all()


def test_runs_without_a_time_are_left_out_aloud():
    scores = noisy(0.5, 0.6, 0.7)
    scores["created_at"] = scores["created_at"].mask(scores["run_id"] == "r1")
    with warned("created_at", "r1"):
        assert trend_table(scores, "mrr")["run_id"].tolist() == ["r0", "r2"]
    assert trend_table(scores, "mrr", order=["r2", "r1"])["run_id"].tolist() == ["r2", "r1"]


# Pictures


def days(times):
    return date2num(pd.to_datetime(times, utc=True).dt.tz_localize(None).to_numpy())


def test_the_picture_breaks_its_lines_and_says_why(table):
    ax, at = rs.plot.trend(table), days(table["created_at"])
    ax.figure.draw_without_rendering()
    breaks = [
        line.get_xdata()[0] for line in ax.lines
        if line.get_linestyle() == "-" and list(line.get_ydata()) == [0, 1]
    ]  # fmt: skip
    assert sorted(breaks) == pytest.approx([at[n] for n in (5, 6, 13)])
    assert {"passages re-chunked", "other labels"} <= {text.get_text() for text in ax.texts}
    names = {text.get_text() for text in ax.get_legend().get_texts()}
    assert {"bm25", "dense", "hybrid", "hybrid_rerank"} <= names


def test_a_line_ends_where_labels_changed_unless_all_runs_are_scored_anew(relabelled):
    store, new = relabelled
    trend = store.trend("hit@1")
    assert trend.table["config_change"].tolist()[1:] == ["which a→b", "which b→c"]
    ax = trend.plot()
    assert [len(one.get_ydata()) for one in ax.lines if one.get_marker() == "o"] == [2, 1]
    # a finds q1, b finds q2 and q3; by the newer labels, which want x for q3, a finds that, too
    anew = store.evaluate(new).trend("hit@1").table
    assert anew["segment"].tolist() == [1, 1, 1]
    assert anew["mean"].tolist() == pytest.approx([2 / 3, 1 / 3, 1 / 3])


def test_the_band_is_drawn_where_it_decides(store):
    found = store.trend("mrr@10", baseline="13-rerank-30").table.query("segment < 4")
    assert found.loc[found["band_low"].notna(), "segment"].unique().tolist() == [1, 3]
    ax, at = rs.plot.trend(found), days(found["created_at"])
    # the newest run lies within; the first segment has nothing to say
    (band,) = [one for one in ax.collections if one.get_zorder() == 0]
    start, end = band.get_datalim(ax.transData).intervalx
    assert at[5] < start < at[6] and end > at[-1]


def test_the_picture_marks_baseline_and_departure(store):
    found = trend_table(store, "mrr@10", baseline="05-bm25-k1.5")
    assert found.loc[found["first_out_of_control"], "run_id"].tolist() == ["07-dense"]
    ax, at = rs.plot.trend(found), days(found["created_at"])
    rings = {line.get_label(): list(line.get_xdata()) for line in ax.get_lines()}
    assert (rings["baseline"], rings["left the noise band"]) == ([at[4]], [at[6]])


def test_dates_put_in_after_loading_are_read_as_times():
    late, early = (rs.load_results({"q": ["d"]}, run_id=name) for name in ("late", "early"))
    late.runs["created_at"], early.runs["created_at"] = "2026-10-01", "2026-09-30T22:00Z"
    found = rs.evaluate([late, early], {"q": ["d"]}).trend("recall@5").table
    assert found["run_id"].tolist() == ["early", "late"]
    assert found["created_at"].tolist() == [
        pd.Timestamp("2026-09-30 22:00", tz="UTC"), pd.Timestamp("2026-10-01", tz="UTC"),
    ]  # fmt: skip
    assert rs.plot.trend(found).lines[0].get_xdata().tolist() == days(found["created_at"])[:1]
    late.runs["created_at"] = "yesterday"
    with refused(0, "yesterday", field="runs.created_at"):
        rs.evaluate(late, {"q": ["d"]}).trend("recall@5")
