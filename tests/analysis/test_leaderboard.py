"""Many runs side by side.

The queries they share, the best and what shows no sure difference from it, each against a baseline;
checked on real TREC runs by t tests.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import scores_of
from scipy import stats

import ragscore as rs
from ragscore.analysis.comparison.align import query_matrix
from ragscore.analysis.leaderboard import leaderboard
from ragscore.stats import mean_interval
from tests.messages import refused

ROBUST = Path(__file__).parents[3] / "shared" / "data" / "trec-robust03-runs"
needs_robust = pytest.mark.skipif(
    not ROBUST.is_dir(), reason="the shared TREC Robust 2003 runs are not beside the project"
)


def clear(n=40):
    """`top` and `near` can't be told apart, `low` is far below."""
    near, top = np.ones(n), np.ones(n)
    near[:2], top[2] = 0, 0
    return scores_of(low=np.zeros(n), near=near, top=top)


APART = [("low", "near"), ("low", "top")]


@pytest.mark.parametrize(
    ("scores", "marks", "sure", "word"),
    [
        (clear(), {"top": "1★", "near": "2≈", "low": "3"}, APART, "better"),
        # lower is better
        (clear().rename(columns={"hit@5": "false_refusal"}),
         {"low": "1★", "near": "2", "top": "3"}, APART, "worse"),
        # what few queries don't tell apart
        (scores_of(r1=[1, 0], r2=[1, 0]), {"r1": "1★", "r2": "1≈"}, [], ""),
        (scores_of(r1=[1.0], r2=[0.0]), {"r1": "1★", "r2": "2≈"}, [], ""),
        (scores_of(r1=[1, 1, 0], r2=[1, 0, 1], r3=[0, 0, 0]),
         {"r1": "1★", "r2": "1≈", "r3": "3≈"}, [], ""),
    ],
    ids=range(5),
)  # fmt: skip
def test_the_best_run_and_those_without_a_sure_difference_from_it_are_marked(
    scores, marks, sure, word
):
    board = leaderboard(scores)
    table = board.table.set_index("run_id").loc[board._run_ids]
    found = table["rank"].astype("str") + table["mark"].astype("str").replace("nan", "").fillna("")
    assert list(found.items()) == list(marks.items())
    for a, b, verdict in board.pairs[["run_baseline", "run_candidate", "verdict"]].to_numpy():
        assert verdict == (word if (a, b) in sure else "can't tell")


def test_runs_are_compared_on_the_queries_all_have_and_the_others_are_counted():
    scores = scores_of(a=[1, 0, 1, np.nan, np.nan], b=[0, 0, 1, 1], c=[0, np.nan, 1])
    board = leaderboard(scores)
    # q0 and q2; q4 has a value in no run: there the metric doesn't apply
    assert board.table[["n", "n_left_out"]].to_numpy().tolist() == [[2, 2]] * 3
    assert board.table.set_index("run_id")["value"].to_dict() == {"a": 1, "b": 0.5, "c": 0.5}
    assert board.matrix("hit@5").to_dict("list") == {"a": [1, 1], "b": [0, 1], "c": [0, 1]}
    assert leaderboard(scores, runs=["a", "b"]).table["n"].tolist() == [3, 3]
    unlabelled = scores_of(a=[1, 0], b=[1, 1]).assign(state=["scored", "extra"] * 2)
    assert query_matrix(unlabelled, "hit@5").to_dict("list") == {"a": [1], "b": [1]}


def test_the_level_is_that_of_all_pairs_that_are_asked_about():
    rng = np.random.default_rng(3)
    base = rng.random(60)
    runs = {f"c{n}": np.clip(base + rng.normal(0.02 * n, 0.15, 60), 0, 1) for n in range(4)}
    scores = scores_of("mrr", base=base, **runs)
    every, against = leaderboard(scores), leaderboard(scores, baseline="base")
    assert set(against.pairs["run_baseline"]) == {"base"} and against.table["mark"].isna().all()
    for board, n in ((every, 10), (against, 4)):
        assert len(board.pairs) == n
        assert 0.05 / n <= 1 - board._confidence + 1e-9 and board._confidence > 0.95
    assert every._confidence > against._confidence
    assert leaderboard(scores, runs=["base", "c3"])._confidence == 0.95
    beside = leaderboard(scores.assign(tokens=1.0), ["mrr", "tokens"], primary=["mrr"])
    assert beside._confidence == every._confidence, "a metric that decides nothing costs nothing"


def test_a_baseline_alone_has_nothing_to_be_compared_with():
    # two times have a median, and no interval of it
    board = leaderboard(scores_of("latency_ms", a=[1, 2]), baseline="a")
    assert (
        repr(board)
        == """\
Leaderboard

run  latency_
           ms
       (p50),
        n = 2
a       1.500"""
    )


def test_paraphrases_count_together():
    golden = rs.load_golden(
        [{"id": f"q{n}", "expected_doc_ids": ["d"], "group": f"g{n // 8}"} for n in range(16)]
    )
    values = [1.0] * 8 + [0.0] * 8
    scores = scores_of(a=values, b=[0] * 16)
    alone, together = leaderboard(scores), leaderboard(scores, golden=golden)
    words = [one.pairs["verdict"].tolist() for one in (alone, together)]
    assert words == [["worse"], ["can't tell"]]
    low, high = mean_interval(np.array(values), "binary", groups=np.repeat([0, 1], 8))
    assert together.table[["low", "high"]].iloc[0].tolist() == [low[0], high[0]]


@pytest.mark.parametrize(
    ("metric", "a", "b", "statistic", "value", "delta"),
    [
        # times by their median; a metric whose direction nobody said has no word
        ("latency_ms", [1, 1, 1, 1, 1, 1, 1000], [5, 6, 7, 8, 9, 10, 11], "median", 1, -7),
        ("my_score", [3.0, 4.0, 5.0, 3.5], [1.0, 2.0, 2.5, 0.5], "mean", 3.875, 2.375),
    ],
)
def test_times_and_columns_of_your_own_are_ranked_too(metric, a, b, statistic, value, delta):
    board = leaderboard(scores_of(metric, a=a, b=b), baseline="b")
    assert board._run_ids == ["a", "b"]
    assert board.table[["value", "statistic"]].iloc[0].tolist() == [value, statistic]
    assert board.pairs["delta"].tolist() == [pytest.approx(delta)]
    assert board.pairs["verdict"].isna().all() == (metric == "my_score")


TWICE = pd.concat([clear(), clear()])


@pytest.mark.parametrize(
    ("scores", "asked", "field", "named"),
    [
        (clear(), {"metrics": ["hit@7"]}, "metrics", ["hit@7", "hit@5"]),
        (clear(), {"baseline": "x"}, "run", ["x", "low, near, top"]),
        (clear(), {"baseline": "top", "runs": ["low", "near"]}, "baseline", ["top", "low, near"]),
        (TWICE, {}, "scores", []),
    ],
    ids=range(4),
)
def test_what_cannot_be_ranked_is_refused(scores, asked, field, named):
    with refused(*named, field=field):
        leaderboard(scores, **asked)


@pytest.fixture(scope="module")
def robust():
    files = sorted(ROBUST.glob("input.*.gz"))[::2]
    results = rs.load_results(files, ties="trec")
    golden = rs.load_golden(ROBUST / "robust03_qrels.txt.gz")
    return rs.score(results, golden, ["map@1000", "precision@10"], missing="zero")


@needs_robust
@pytest.mark.parametrize("metric", ["map@1000", "precision@10"])
def test_four_trec_runs_are_ordered_and_told_apart_as_tukeys_test_finds(robust, metric):
    board = leaderboard(robust, metrics=[metric])
    rows = robust.reset_index().pivot(index="query_id", columns="run_id", values=metric)
    assert board._run_ids == rows.mean().sort_values(ascending=False).index.tolist()
    assert set(board.table["n"]) == {100}
    # each pair's own t test, at the level that an independent draw of the largest |z| gives
    pairs = board.pairs
    apart = rows[pairs["run_candidate"]].to_numpy() - rows[pairs["run_baseline"]].to_numpy()
    spread = np.corrcoef(apart.T) + 1e-9 * np.eye(len(pairs))
    drawn = stats.multivariate_normal.rvs(cov=spread, size=20_000, random_state=11)
    level = 2 * stats.norm.sf(np.quantile(np.abs(drawn).max(axis=1), 0.95))
    assert 1 - board._confidence == pytest.approx(level, rel=0.1)
    p = stats.ttest_1samp(apart, 0).pvalue
    is_near = np.abs(np.log(p / level)) < 0.2
    assert is_near.sum() <= 3
    assert (pairs["verdict"].ne("can't tell").to_numpy() == (p < level))[~is_near].all()
