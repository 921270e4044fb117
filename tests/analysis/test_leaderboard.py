"""Many runs side by side.

The queries they share, tied sets, each against a baseline; checked on real TREC runs by an
independent permutation.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES
from scipy.stats import binomtest, permutation_test

import ragscore as rs
from ragscore.analysis.comparison.align import query_matrix
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.leaderboard import leaderboard
from ragscore.analysis.slices import compare_slices
from ragscore.stats import holm, max_t_p, mean_interval
from tests.messages import names, refused, warned

SHARED = next(
    (
        folder / "shared"
        for folder in Path(__file__).resolve().parents
        if (folder / "shared").is_dir()
    ),
    Path("shared"),
)
ROBUST = SHARED / "data" / "trec-robust03-runs"
needs_robust = pytest.mark.skipif(
    not ROBUST.is_dir(), reason="the shared TREC Robust 2003 runs are not beside the project"
)


def scores_of(metric="hit@5", **runs):
    """One column of values per run, queries q0, q1, ..."""
    parts = [
        pd.DataFrame(
            {"run_id": run_id, "state": "scored", "level": "doc", metric: values},
            index=pd.Index([f"q{n}" for n in range(len(values))], name="query_id"),
        )
        for run_id, values in runs.items()
    ]
    return pd.concat(parts)


def clear(n=40):
    """`top` and `near` can't be told apart, `low` is far below."""
    low = np.zeros(n)
    top, near = np.ones(n), np.ones(n)
    near[:2], top[2] = 0, 0
    return scores_of(low=low, near=near, top=top)


def test_runs_that_differ_get_different_letters_and_the_order_is_that_of_the_means():
    board = leaderboard(clear())
    table = board.table.set_index("run_id")
    assert board.run_ids == ["top", "near", "low"]
    assert table["rank"].to_dict() == {"low": 3, "near": 2, "top": 1}
    assert table["sets"].to_dict() == {"low": "b", "near": "a", "top": "a"}
    assert table["is_tied_with_best"].to_dict() == {"low": False, "near": True, "top": True}
    pairs = board.pairs.set_index(["run_baseline", "run_candidate"])["is_tied"]
    assert pairs.to_dict() == {
        ("low", "near"): False, ("low", "top"): False, ("near", "top"): True
    }  # fmt: skip


def test_where_lower_is_better_the_least_is_first():
    board = leaderboard(clear().rename(columns={"hit@5": "false_refusal"}))
    assert board.run_ids == ["low", "near", "top"]
    tied = board.pairs[board.pairs["is_tied"].astype(bool)]
    assert tied[["run_baseline", "run_candidate"]].values.tolist() == [["near", "top"]]


@pytest.mark.parametrize(
    "runs",
    [
        {"r1": [1, 0], "r2": [1, 0]},
        {"r1": [1.0], "r2": [0.0]},
        {"r1": [1, 1, 0], "r2": [1, 0, 1], "r3": [0, 0, 0]},
    ],
)
def test_what_few_queries_do_not_tell_apart_is_tied_and_nobody_leads(runs):
    board = leaderboard(scores_of(**runs))
    assert board.pairs["is_tied"].all()
    assert not any(names(board.sentences["hit@5"], run_id) for run_id in runs)


def test_runs_are_compared_on_the_queries_all_have_and_the_others_are_listed():
    scores = scores_of(a=[1, 0, 1, np.nan, np.nan], b=[0, 0, 1, 1], c=[0, np.nan, 1])
    board = leaderboard(scores)
    # q0 and q2; q4 has a value in no run: there the metric doesn't apply
    assert board.table[["n", "n_left_out"]].to_numpy().tolist() == [[2, 2]] * 3
    assert board.table.set_index("run_id")["mean"].to_dict() == {"a": 1, "b": 0.5, "c": 0.5}
    assert board.left_out[["query_id", "n_lacking", "lacking"]].values.tolist() == [
        ["q1", 1, "c"],
        ["q3", 2, "a, c"],
    ]
    assert board.matrix("hit@5").to_dict("list") == {"a": [1, 1], "b": [0, 1], "c": [0, 1]}
    assert leaderboard(scores, runs=["a", "b"]).table["n"].tolist() == [3, 3]


def test_answers_to_queries_without_labels_stay_out():
    scores = scores_of(a=[1, 0], b=[1, 1]).assign(state=["scored", "extra", "scored", "extra"])
    assert query_matrix(scores, "hit@5").to_dict("list") == {"a": [1], "b": [1]}


def test_each_candidate_has_the_difference_of_compare_runs_and_the_p_of_all_tests(pair):
    results, golden = pair
    board = leaderboard(rs.score(results, golden), ["hit@1", "mrr@10"], baseline="a")
    table = board.table.set_index(["metric", "run_id"])
    row = table.loc["mrr@10", "b"]
    expected = compare_runs(results, golden, "a", "b", metrics=["mrr@10"]).deltas.iloc[0]
    theirs = expected[["delta", "low", "high", "p", "verdict"]].tolist()
    assert row[["delta", "delta_low", "delta_high", "p", "verdict"]].tolist() == theirs
    # two metrics of one candidate, at once
    rows = board.table.dropna(subset="p_adjusted")
    wide = board.aligned.pivot(index="query_id", columns="run_id")
    values = np.stack([wide[name].to_numpy() for name in ("hit@1", "mrr@10")], axis=2)
    together = max_t_p(values, iterations=2_000)[0, 1]
    np.testing.assert_allclose(rows["p_adjusted"], np.fmax(together, rows["p"]))
    assert table["delta"].isna().loc["mrr@10", "a"]


def test_p_values_against_a_baseline_are_corrected_for_the_number_of_candidates():
    rng = np.random.default_rng(3)
    base = rng.random(30)
    runs = {f"c{n}": np.clip(base + rng.normal(0.04 * n, 0.15, 30), 0, 1) for n in range(4)}
    board = leaderboard(scores_of("mrr", base=base, **runs), baseline="base")
    rows = board.table.set_index("run_id").drop("base")
    alone, adjusted = (rows[name].to_numpy("float64") for name in ("p", "p_adjusted"))
    # more than alone, and no more than Bonferroni's, but for what random signs add
    assert (adjusted >= alone).all() and (adjusted > alone).any()
    assert (adjusted <= np.minimum(4 * alone, 1) + 0.02).all()
    assert set(rows.loc[adjusted >= 0.05, "verdict"]) == {"can't tell"}


def test_a_baseline_alone_has_nothing_to_be_compared_with():
    board = leaderboard(scores_of(a=[1, 0, 1]), baseline="a")
    assert board.table["delta"].isna().all() and board.against_baseline().empty


def test_paraphrases_count_together(write_golden):
    golden = rs.load_golden(
        write_golden(
            [
                {"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"], "group": f"g{n // 8}"}
                for n in range(16)
            ]
        )
    )
    scores = scores_of(a=[1] * 8 + [0] * 8, b=[0] * 16)
    alone, together = leaderboard(scores), leaderboard(scores, golden=golden)
    # two groups have 2! relabellings relative to each other, and b is never ahead: p = 1 where only
    # one of them moves
    assert alone.pairs["p"].iloc[0] < 0.05 and together.pairs["p"].iloc[0] == 1
    values = np.array([1.0] * 8 + [0.0] * 8)
    low, high = mean_interval(values, "binary", groups=np.repeat([0, 1], 8))
    assert together.table[["low", "high"]].iloc[0].tolist() == [low[0], high[0]]


def test_times_are_ranked_by_their_median_and_tested_by_signs():
    scores = scores_of("latency_ms", quick=[1, 1, 1, 1, 1, 1, 1000], slow=[5, 6, 7, 8, 9, 10, 11])
    board = leaderboard(scores, baseline="slow")
    row = board.table.set_index("run_id").loc["quick"]
    assert board.run_ids == ["quick", "slow"] and row["p50"] == 1
    assert board.pairs["p"].tolist() == [pytest.approx(2 * 8 / 2**7)]  # 6 of 7, binomial
    # the interval of a median of seven reaches from the least to the largest
    assert (row["delta"], row["verdict"]) == (-6, "can't tell")


def test_a_column_of_your_own_is_ranked_too():
    scores = scores_of("my_score", a=[3.0, 4.0, 5.0, 3.5], b=[1.0, 2.0, 2.5, 0.5])
    board = leaderboard(scores, baseline="b")
    assert board.run_ids == ["a", "b"]
    assert board.table.set_index("run_id").loc["a", "delta"] == pytest.approx(2.375)


@pytest.mark.parametrize(
    ("asked", "field", "named"),
    [
        ({"metrics": ["hit@7"]}, "metrics", ["hit@7", "hit@5"]),
        ({"baseline": "x"}, "run", ["x", "low, near, top"]),
        ({"baseline": "top", "runs": ["low", "near"]}, "baseline", ["top", "low, near"]),
    ],
)
def test_what_cannot_be_ranked_is_refused(asked, field, named):
    with refused(*named, field=field):
        leaderboard(clear(), **asked)


def test_runs_with_two_rows_of_a_query_are_refused():
    with refused(field="scores"):
        leaderboard(pd.concat([clear(), clear()]))


def test_letters_go_on_after_z():
    runs = {f"r{n:02}": np.full(12, 1 - n / 60) for n in range(53)}
    board = leaderboard(scores_of("mrr", **runs), iterations=500)
    sets = board.table.set_index("run_id")["sets"]
    assert sets[["r00", "r25", "r26", "r52"]].tolist() == ["a", "z", "a2", "a3"]


@pytest.fixture(scope="module")
def robust():
    results = rs.load_results(str(ROBUST / "input.*.gz"), ties="trec")
    return rs.score(
        results,
        rs.load_golden(ROBUST / "robust03_qrels.txt.gz"),
        ["map@1000", "precision@10"],
        missing="zero",
    )


def all_pairs(values, rounds, seed):
    """Adjusted p by flipping whole queries: each pair against the largest of those behind it."""
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(values.shape[1], 1)
    apart = values[:, first] - values[:, second]
    apart = apart / np.sqrt((apart**2).sum(axis=0))
    found, drawn = np.abs(apart.sum(axis=0)), []
    for _ in range(rounds):
        drawn.append(np.abs(rng.choice([-1.0, 1.0], len(apart)) @ apart))
    drawn, p, largest_p = np.array(drawn), np.ones(np.shape(values)[1:] * 2), 0.0
    order = np.argsort(-found)
    for place, pair in enumerate(order):
        behind = drawn[:, order[place:]].max(axis=1)
        largest_p = max(largest_p, float((behind >= found[pair] - 1e-12).mean()))
        p[first[pair], second[pair]] = p[second[pair], first[pair]] = largest_p
    return p


@needs_robust
@pytest.mark.parametrize("metric", ["map@1000", "precision@10"])
def test_eight_trec_runs_are_ordered_and_tied_as_an_independent_permutation_finds(robust, metric):
    board = leaderboard(robust, metrics=[metric])
    rows = robust.reset_index().pivot(index="query_id", columns="run_id", values=metric)
    assert board.run_ids == rows.mean().sort_values(ascending=False).index.tolist()
    assert set(board.table["n"]) == {100}
    p = pd.DataFrame(all_pairs(rows.to_numpy(), 3000, 11), index=rows.columns, columns=rows.columns)
    pairs = zip(board.pairs["run_baseline"], board.pairs["run_candidate"], strict=True)
    theirs = np.array([p.loc[pair] for pair in pairs])
    # standard error of a share near .05 from 3000 and 2000 rounds: .006
    np.testing.assert_allclose(board.pairs["p"], theirs, rtol=0, atol=0.04)
    is_near = np.abs(theirs - 0.05) < 0.02
    assert is_near.sum() <= 2
    assert (board.pairs["is_tied"].to_numpy(bool) == (theirs > 0.05))[~is_near].all()


def test_runs_share_a_letter_if_and_only_if_their_pair_is_tied():
    rng = np.random.default_rng(4)
    quality = np.linspace(0.3, 0.7, 8)
    runs = {f"r{n}": (rng.random(60) < level).astype(float) for n, level in enumerate(quality)}
    board = leaderboard(scores_of(**runs), iterations=500)
    table = board.table.set_index("run_id")
    for pair in board.pairs.itertuples():
        one, other = (set(table.loc[name, "sets"]) for name in pair[2:4])
        assert bool(one & other) == pair.is_tied == (pair.p > 0.05)
    of_best = {run_id for run_id in runs if "a" in table.loc[run_id, "sets"]}
    assert set(table.index[table["is_tied_with_best"].astype(bool)]) == of_best


@needs_robust
def test_trec_candidates_have_the_p_values_of_scipy_after_holm(robust):
    board = leaderboard(robust, ["map@1000"], baseline="THUIRr0301")
    rows = board.table.set_index("run_id").drop("THUIRr0301")
    base = robust[robust["run_id"] == "THUIRr0301"]["map@1000"]
    theirs = []
    for run_id in rows.index:
        difference = (robust[robust["run_id"] == run_id]["map@1000"] - base).to_numpy()
        test = permutation_test(
            (difference,),
            np.mean,
            permutation_type="samples",
            n_resamples=9999,
            vectorized=True,
            rng=np.random.default_rng(5),
        )
        theirs.append(test.pvalue)
    np.testing.assert_allclose(rows["p"].to_numpy("float64"), theirs, rtol=0, atol=0.02)
    order = np.argsort(theirs)
    stepped = np.maximum.accumulate(np.array(theirs)[order] * np.arange(len(theirs), 0, -1))
    expected = np.empty(len(theirs))
    expected[order] = np.minimum(stepped, 1)
    np.testing.assert_allclose(rows["p_adjusted"].to_numpy("float64"), expected, rtol=0, atol=0.1)
    assert (rows["verdict"].ne("can't tell") == (expected < 0.05)).all()


def test_means_stand_beside_how_many_values_were_expected(write_run, write_golden):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    late = [RUN_B[0], RUN_B[1] | {"error": "late"}]
    results = rs.load_results([write_run("full", RUN_A), write_run("short", late)])
    with warned("short", 1):
        scores = rs.score(results, golden, ["mrr", "empty"])
    board = leaderboard(scores, metrics=["mrr", "empty"], golden=golden)
    rows = board.table.set_index(["metric", "run_id"])[["n", "n_expected"]]
    # q3 was not asked; the failed q2 counts 0 in mrr, and has no value of `empty`
    assert rows.loc["mrr", "short"].tolist() == [2, 3]
    assert rows.loc["empty", "short"].tolist() == [1, 2]
    assert rows.loc["empty", "full"].tolist() == [1, 3]
    sliced = compare_slices(scores, golden, "answerable", "full", "short", ["mrr"]).table
    expected = ["n", "n_expected_baseline", "n_expected_candidate"]
    assert sliced[expected].to_numpy().tolist() == [[2, 3, 3]]


def test_a_baseline_gives_wins_losses_and_a_caution_of_its_own():
    few, many = [0.5] * 48 + [1.0] * 2, [0.5] * 10 + [0.7] * 20 + [0.3] * 20
    board = leaderboard(scores_of("recall@5", a=[0.5] * 50, b=few, c=many), baseline="a")
    table = board.table.set_index("run_id")
    told = ["n_better", "n_worse", "caution"]
    assert table.loc["b", told].tolist() == [2, 0, True]
    assert table.loc["c", told].tolist() == [20, 20, False]
    assert table.loc["a", told].isna().all()
    pd.testing.assert_frame_equal(rs.Leaderboard.from_json(board.to_json()).table, board.table)


def test_words_on_times_are_corrected_with_the_others():
    rng = np.random.default_rng(10)
    times = {"base": rng.random(30) + 1}
    times |= {f"c{n}": times["base"] + rng.choice([-1, 1], 30, p=[0.3, 0.7]) for n in range(4)}
    board = leaderboard(scores_of("latency_ms", **times), baseline="base")
    rows = board.table.dropna(subset="p_adjusted")
    wins = [(times[run_id] > times["base"]).sum() for run_id in rows["run_id"]]
    expected = holm([binomtest(int(n), 30).pvalue for n in wins])
    np.testing.assert_allclose(rows["p_adjusted"].to_numpy("float64"), expected, atol=0.02)
    is_unsure = rows["p_adjusted"].to_numpy("float64") >= 0.05
    assert set(rows.loc[is_unsure, "verdict"]) <= {"can't tell"}
