"""Many runs side by side.

The queries they share, tied sets, each against a baseline; checked on real TREC runs by an
independent permutation.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import EXAMPLES, RUN_A, RUN_B, THREE_QUERIES
from scipy.stats import binom, binomtest, permutation_test

import ragscore as rs
from ragscore.analysis.comparison.align import query_matrix
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.config_effects import config_effects
from ragscore.analysis.leaderboard import leaderboard
from ragscore.analysis.slices import compare_slices
from ragscore.stats import holm, interval_of_means, max_t_p
from tests.messages import names, refused, says, warned

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
    assert board.run_ids == ["top", "near", "low"] and table["rank"].to_dict() == {
        "low": 3,
        "near": 2,
        "top": 1,
    }
    assert table["sets"].to_dict() == {"low": "b", "near": "a", "top": "a"}
    assert table["is_tied_with_best"].to_dict() == {"low": False, "near": True, "top": True}
    assert list(board.sentences) == ["hit@5"]
    says(board.sentences["hit@5"], "hit@5", "top", "near", "low", 40)
    assert board.pairs.set_index(["run_baseline", "run_candidate"])["is_tied"].to_dict() == {
        ("low", "near"): False,
        ("low", "top"): False,
        ("near", "top"): True,
    }


def test_runs_that_differ_from_all_others_are_named_together():
    levels = {"low": 0.1, "mid": 0.4, "top": 0.9}
    board = leaderboard(
        scores_of("mrr", **{name: np.full(40, level) for name, level in levels.items()})
    )
    assert not board.pairs["is_tied"].any()
    says(board.sentences["mrr"], "mrr", "top", "mid", "low", 40)


def test_where_lower_is_better_the_least_is_first():
    board = leaderboard(clear().rename(columns={"hit@5": "false_refusal"}))
    assert board.run_ids == ["low", "near", "top"]
    tied = board.pairs[board.pairs["is_tied"].astype(bool)]
    assert tied[["run_baseline", "run_candidate"]].values.tolist() == [["near", "top"]]
    says(board.sentences["false_refusal"], "false_refusal", "low", "near", "top")


@pytest.mark.parametrize(
    ("runs", "numbers", "leaders"),
    [
        ({"r1": [1, 0], "r2": [1, 0]}, [2], []),
        ({"r1": [1, 0]}, [2], []),
        ({"r1": [1.0], "r2": [0.0]}, [1, 2], []),
        ({"r1": [1, 1, 0], "r2": [1, 0, 1], "r3": [0, 0, 0]}, [3], []),
        ({"r1": [np.nan], "r2": [0.0]}, [], []),
    ],
)
def test_sentences_say_no_more_than_the_queries_do(runs, numbers, leaders):
    board = leaderboard(scores_of(**runs))
    assert board.pairs["is_tied"].all() or not numbers
    said = says(board.sentences["hit@5"], "hit@5", *numbers)
    assert [run_id for run_id in runs if names(said, run_id)] == leaders


def test_runs_are_compared_on_the_queries_all_have_and_the_others_are_listed():
    scores = scores_of(a=[1, 0, 1, np.nan, np.nan], b=[0, 0, 1, 1], c=[0, np.nan, 1])
    board = leaderboard(scores)
    # q0 and q2; q4 has a value in no run: there the metric doesn't apply
    assert board.table["n"].tolist() == [2, 2, 2] and board.table["n_left_out"].tolist() == [
        2,
        2,
        2,
    ]
    assert board.table.set_index("run_id")["mean"].to_dict() == {"a": 1, "b": 0.5, "c": 0.5}
    assert board.left_out[["query_id", "n_lacking", "lacking"]].values.tolist() == [
        ["q1", 1, "c"],
        ["q3", 2, "a, c"],
    ]
    says(board.notes()[-1], "hit@5", 2, "2 in c", "1 in a", "q1", "q3")
    assert board.matrix("hit@5").to_dict("list") == {"a": [1, 1], "b": [0, 1], "c": [0, 1]}
    only = leaderboard(scores, runs=["a", "b"])
    assert only.table["n"].tolist() == [3, 3] and only.run_ids == ["a", "b"]


def test_answers_to_queries_without_labels_stay_out():
    scores = scores_of(a=[1, 0], b=[1, 1]).assign(state=["scored", "extra", "scored", "extra"])
    assert query_matrix(scores, "hit@5").to_dict("list") == {"a": [1], "b": [1]}


@pytest.mark.large
def test_each_candidate_has_the_difference_of_compare_runs_and_the_p_of_all_tests(pair):
    results, golden = pair
    board = leaderboard(rs.score(results, golden), ["hit@1", "mrr@10"], baseline="a")
    row = board.table.set_index(["metric", "run_id"]).loc["mrr@10", "b"]
    expected = compare_runs(results, golden, "a", "b", metrics=["mrr@10"]).deltas.iloc[0]
    assert (
        row[["delta", "delta_low", "delta_high", "p"]].tolist()
        == expected[["delta", "low", "high", "p"]].tolist()
    )
    assert row["verdict"] == expected["verdict"]
    # two metrics of one candidate, at once
    rows = board.table.dropna(subset="p_adjusted")
    wide = board.aligned.pivot(index="query_id", columns="run_id")
    values = np.stack([wide[name].to_numpy() for name in ("hit@1", "mrr@10")], axis=2)
    together = max_t_p(values, iterations=2_000)[0, 1]
    np.testing.assert_allclose(rows["p_adjusted"], np.fmax(together, rows["p"]))
    assert board.table.set_index(["metric", "run_id"])["delta"].isna().loc["mrr@10", "a"]


def test_p_values_against_a_baseline_are_corrected_for_the_number_of_candidates():
    rng = np.random.default_rng(3)
    base = rng.random(30)
    runs = {f"c{n}": np.clip(base + rng.normal(0.04 * n, 0.15, 30), 0, 1) for n in range(4)}
    board = leaderboard(scores_of("mrr", base=base, **runs), baseline="base")
    rows = board.table.set_index("run_id").drop("base")
    # more than alone, and no more than Bonferroni's, but for what random signs add
    most = np.minimum(4 * rows["p"].to_numpy("float64"), 1) + 0.02
    adjusted = rows["p_adjusted"].to_numpy("float64")
    assert (adjusted >= rows["p"]).all() and (adjusted <= most).all()
    assert (rows["p_adjusted"] > rows["p"]).any() and set(
        rows.loc[rows["p_adjusted"] >= 0.05, "verdict"]
    ) == {"can't tell"}


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
    expected = interval_of_means(
        np.array([1.0] * 8 + [0.0] * 8), "binary", groups=np.repeat([0, 1], 8)
    )
    assert together.table[["low", "high"]].iloc[0].tolist() == [expected[0][0], expected[1][0]]
    assert leaderboard(scores, golden=golden, cluster=None).pairs.equals(alone.pairs)


def test_times_are_ranked_by_their_median_and_tested_by_signs():
    scores = scores_of("latency_ms", quick=[1, 1, 1, 1, 1, 1, 1000], slow=[5, 6, 7, 8, 9, 10, 11])
    board = leaderboard(scores, baseline="slow")
    row = board.table.set_index("run_id").loc["quick"]
    assert (
        board.run_ids == ["quick", "slow"]
        and (row["p50"], row["sets"]) == (1, "")
        and board.pairs["p"].tolist() == [pytest.approx(2 * 8 / 2**7)]  # 6 of 7, binomial
    )
    # the interval of a median of seven reaches from the least to the largest
    assert (row["delta"], row["verdict"]) == (-6, "can't tell")
    says(board.sentences["latency_ms"], "latency_ms", "quick", "slow", 7)
    assert board._shown().columns.tolist() == ["run", "latency_ms (p50), n = 7 / 7"]


def test_a_column_of_your_own_is_ranked_too():
    board = leaderboard(
        scores_of("my_score", a=[3.0, 4.0, 5.0, 3.5], b=[1.0, 2.0, 2.5, 0.5]), baseline="b"
    )
    assert board.run_ids == ["a", "b"] and board.table.set_index("run_id").loc[
        "a", "delta"
    ] == pytest.approx(2.375)


def test_text_forms_show_the_rounded_numbers_and_escape_names():
    named = clear().assign(run_id=lambda s: s["run_id"].replace("top", "<b>|top"))
    lettered, board = leaderboard(named), leaderboard(named, baseline="low")
    assert "| &lt;b>\\|top | 0.97 [0.87, 1.00] a |" in lettered.to_markdown()
    markdown, page, text = board.to_markdown(), board._repr_html_(), repr(board)
    assert (
        "| run | hit@5, n = 40 / 40 |" in markdown
        and "| &lt;b>\\|top | 0.97 [0.87, 1.00] |" in markdown
        and "## Against low" in markdown
        and markdown.endswith("\n")
    )
    assert (
        "<b>|top" not in page
        and page.count("&lt;b&gt;|top") >= 2
        and "0.97 [0.87, 1.00]" in text
        and "better" in text
    )
    assert markdown.count("\n- ") == len(board.notes())


def test_what_cannot_be_ranked_is_refused():
    with refused("hit@7", "hit@5", field="metrics"):
        leaderboard(clear(), metrics=["hit@7"])
    with refused("x", "low, near, top", field="run"):
        leaderboard(clear(), baseline="x")
    with refused("top", "low, near", field="baseline"):
        leaderboard(clear(), baseline="top", runs=["low", "near"])
    with refused("mrr", "hit@5", field="metric"):
        leaderboard(clear()).matrix("mrr")
    with refused(field="scores"):
        leaderboard(pd.concat([clear(), clear()]))


@pytest.mark.large
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


@pytest.mark.slow
@needs_robust
@pytest.mark.parametrize("metric", ["map@1000", "precision@10"])
def test_eight_trec_runs_are_ordered_and_tied_as_an_independent_permutation_finds(robust, metric):
    board = leaderboard(robust, metrics=[metric])
    by_run = {
        run_id: rows[metric].sort_index().to_numpy()
        for run_id, rows in robust.groupby("run_id", observed=True)
    }
    assert board.run_ids == sorted(by_run, key=lambda run_id: -by_run[run_id].mean()) and set(
        board.table["n"]
    ) == {100}
    p = pd.DataFrame(
        all_pairs(np.column_stack(list(by_run.values())), 3000, 11),
        index=list(by_run),
        columns=list(by_run),
    )
    theirs = np.array(
        [
            p.loc[a, b]
            for a, b in zip(board.pairs["run_baseline"], board.pairs["run_candidate"], strict=True)
        ]
    )
    # standard error of a share near .05 from 3000 and 2000 rounds: .006
    np.testing.assert_allclose(board.pairs["p"], theirs, rtol=0, atol=0.04)
    is_near = np.abs(theirs - 0.05) < 0.02
    assert (
        is_near.sum() <= 2
        and (board.pairs["is_tied"].to_numpy(bool) == (theirs > 0.05))[~is_near].all()
    )


@pytest.mark.slow
@needs_robust
def test_which_trec_runs_are_tied_is_said_in_words(robust):
    board = leaderboard(robust, metrics=["map@1000"])
    tied = board.pairs.loc[board.pairs["is_tied"].astype(bool), ["run_baseline", "run_candidate"]]
    groups = [
        {"pircRBa1", "aplrob03a"}, {"THUIRr0301", "fub03IeOLKe3"}, {"humR03dc", "NLPR03vb10"},
        {"NLPR03vb10", "rutcor03100"},
    ]  # fmt: skip
    assert sorted(map(sorted, tied.values)) == sorted(map(sorted, groups))
    told = [run_id for group in groups for run_id in group]
    says(board.sentences["map@1000"], "map@1000", *told, "SABIR03BASE", 100)


def test_runs_share_a_letter_if_and_only_if_their_pair_is_tied():
    rng = np.random.default_rng(4)
    quality = np.linspace(0.3, 0.7, 8)
    runs = {f"r{n}": (rng.random(60) < level).astype(float) for n, level in enumerate(quality)}
    board = leaderboard(scores_of(**runs), iterations=500)
    table = board.table.set_index("run_id")
    for pair in board.pairs.itertuples():
        one, other = (set(table.loc[name, "sets"]) for name in pair[2:4])
        assert bool(one & other) == pair.is_tied == (pair.p > 0.05)
    best = board.run_ids[0]
    with_best = set(table.index[table["is_tied_with_best"].astype(bool)])
    tied = board.pairs[board.pairs["is_tied"].astype(bool)]
    of_best = tied[(tied["run_baseline"] == best) | (tied["run_candidate"] == best)]
    assert with_best == {best, *of_best["run_baseline"], *of_best["run_candidate"]}


def test_twenty_wins_to_none_are_seen_beside_eight_unrelated_runs():
    rng, n = np.random.default_rng(5), 150
    runs = {f"other{k}": (rng.random(n) < 0.5).astype(float) for k in range(8)}
    runs["before"] = (rng.random(n) < 0.5).astype(float)
    runs["after"] = runs["before"].copy()
    runs["after"][np.flatnonzero(runs["before"] == 0)[:20]] = 1
    board = leaderboard(scores_of(**runs), iterations=500)
    letters = board.table.set_index("run_id")["sets"]
    assert not set(letters["before"]) & set(letters["after"])


@pytest.mark.large
@pytest.mark.parametrize("n", [60, 1_200])
def test_neither_the_order_of_rows_nor_that_of_runs_changes_a_bit_of_a_p(n):
    rng = np.random.default_rng(6)
    runs = {name: rng.integers(0, 5, n) / 3 for name in "abcde"}
    board = leaderboard(scores_of("mrr", **runs), iterations=300)
    scores = scores_of("mrr", **{name: runs[name] for name in "dbeca"})
    other = leaderboard(scores.iloc[rng.permutation(len(scores))], iterations=300)
    p = [
        {frozenset(pair[2:4]): pair.p for pair in one.pairs.itertuples()} for one in (board, other)
    ]
    assert p[0] == p[1]


@pytest.mark.large
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


@pytest.mark.large
def test_means_stand_beside_how_many_values_were_expected(write_run, write_golden):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    results = rs.load_results(
        [write_run("full", RUN_A), write_run("short", [RUN_B[0], RUN_B[1] | {"error": "late"}])]
    )
    with warned("short", 1):
        scores = rs.score(results, golden, ["mrr", "empty"])
    board = leaderboard(scores, metrics=["mrr", "empty"], golden=golden)
    rows = board.table.set_index(["metric", "run_id"])
    assert rows.loc[("mrr", "short"), ["n", "n_expected"]].tolist() == [
        2,
        3,
    ], "q3 was not asked; the failed q2 counts 0"
    assert (
        rows.loc[("empty", "short"), ["n", "n_expected"]].tolist() == [1, 2]
        and rows.loc[("empty", "full"), "n_expected"] == 3
    )
    assert "n = 1 / 2" in repr(board)
    about = results.runs.assign(config=['{"k": 1}', '{"k": 2}'])
    assert "n = 2 / 3" in repr(config_effects(scores, about, ["mrr"], golden=golden))
    assert compare_slices(scores, golden, "answerable", "full", "short", ["mrr"]).table[
        ["n", "n_expected_baseline", "n_expected_candidate"]
    ].to_numpy().tolist() == [[2, 3, 3]]


def test_a_baseline_gives_wins_losses_and_a_caution_of_its_own():
    few = [0.5] * 48 + [1.0] * 2
    board = leaderboard(
        scores_of("recall@5", a=[0.5] * 50, b=few, c=[0.5] * 10 + [0.7] * 20 + [0.3] * 20),
        baseline="a",
    )
    table = board.table.set_index("run_id")
    assert table.loc["b", ["n_better", "n_worse"]].tolist() == [2, 0] and table.loc[
        "c", ["n_better", "n_worse"]
    ].tolist() == [20, 20]
    assert (
        table.loc["b", "caution"]
        and not table.loc["c", "caution"]
        and table.loc["a", ["caution", "n_better", "n_worse"]].isna().all()
    )
    says("\n".join(board.notes()), "recall@5", "b")
    pd.testing.assert_frame_equal(rs.Leaderboard.from_json(board.to_json()).table, board.table)
    slow = leaderboard(
        scores_of("latency_ms", a=[10.0] * 50, b=[10.0] * 48 + [900.0] * 2), baseline="a"
    )
    cautions = [note for note in slow.notes() if note.startswith("Caution")]
    assert slow.table["caution"].any() and not cautions, "medians are not carried by a few queries"


METRICS = ("hit@5", "mrr", "recall@5", "answer_checks", "refusal_correct")


def of_no_difference(rng, n=30):
    """Five metrics of four runs that don't differ; the first three move together."""
    quality = rng.random((n, 1)) * 0.6 + 0.2 * rng.random((n, 4))
    first = rng.random((n, 4)) < quality
    return pd.concat(
        pd.DataFrame(
            {
                "run_id": f"r{run}", "state": "scored", "level": "doc",
                "hit@5": first[:, run].astype(float),
                "mrr": first[:, run] / rng.integers(1, 6, n),
                "recall@5": first[:, run] * rng.integers(1, 4, n) / 3,
                "answer_checks": (rng.random(n) < 0.5).astype(float),
                "refusal_correct": (rng.random(n) < 0.8).astype(float),
            },
            index=pd.Index([f"q{q}" for q in range(n)], name="query_id"),
        )
        for run in range(4)
    )  # fmt: skip


@pytest.mark.large
def test_runs_that_do_not_differ_get_any_other_letter_or_word_in_at_most_5_percent():
    # 5 metrics × 4 runs: 30 pairs of letters, 15 verdict words. A rate of 5 % gives more than
    # `most` with a probability below 1 %.
    n = EXAMPLES
    most = binom.isf(0.01, n, 0.05)
    rng, n_letters, n_words, n_alone = np.random.default_rng(8), 0, 0, 0
    for _ in range(n):
        scores = of_no_difference(rng)
        board = leaderboard(scores, list(METRICS), baseline="r0", iterations=400)
        n_letters += bool((board.pairs["p"] <= 0.05).any())
        words = board.table["verdict"].dropna()
        n_words += bool(words.ne("can't tell").any())
        n_alone += bool((board.table["p"] < 0.05).any())
    assert n_letters <= most and n_words <= most
    assert n_alone > most  # what the correction is for


@pytest.mark.large
def test_verdict_words_are_corrected_over_metrics_and_candidates_and_the_notes_say_so():
    board = leaderboard(of_no_difference(np.random.default_rng(9)), list(METRICS), baseline="r0")
    tested = board.table.dropna(subset="p_adjusted")
    assert len(tested) == 15
    assert (tested["p_adjusted"] >= tested["p"]).all()
    notes = "\n".join(board.notes())
    says(notes, "3 pairs", "5 metrics", "5 %")


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
