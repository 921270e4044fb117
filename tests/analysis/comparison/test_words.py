"""One rule for words: in every frame, display and JSON a word is what its interval says.

Random evaluations: few and many queries, unequal clusters, 0/1 and bounded metrics and times,
values that one run lacks, ties and equal runs.
"""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import ragscore as rs
from ragscore.analysis.leaderboard import leaderboard
from tests.compared import compare_runs
from tests.conftest import EXAMPLES

METRICS = ("ndcg@10", "answer_checks", "answered_unanswerable", "false_refusal", "latency_ms")
LOWER = ("answered_unanswerable", "false_refusal", "latency_ms")
ASKED = METRICS[:4]
TURNED = {"better": "worse", "worse": "better"}


def world(seed, n, runs, shift, *, is_equal=False):
    """Scores of some runs on n queries, and the golden set that groups them."""
    rng = np.random.default_rng(seed)
    sizes = rng.permutation(np.append(rng.integers(1, 5, n // 4 + 1), [max(n // 3, 1)]))
    groups = np.repeat(np.arange(len(sizes)), sizes)
    groups = np.append(groups, np.arange(n) + len(sizes))[:n] if rng.random() < 0.7 else None
    ids = [f"q{place:03}" for place in range(n)]
    base, parts = rng.random((n, 4)), []
    for place, run in enumerate(runs):
        own = base if is_equal else np.where(rng.random((n, 4)) < 0.4, rng.random((n, 4)), base)
        own = np.clip(own + shift * place * (rng.random((n, 1)) < 0.5), 0, 1)
        values = {
            "ndcg@10": np.round(own[:, 0], 2),
            **{name: (own[:, at] > 0.5) * 1.0 for at, name in enumerate(METRICS[1:4], 1)},
            "latency_ms": np.round(50 * np.exp(base[:, 0]) + 5 * place),
        }
        frame = pd.DataFrame(values, index=pd.Index(ids, name="query_id"))
        if rng.random() < 0.5:
            frame = frame.mask(rng.random(frame.shape) < 0.1)
        if rng.random() < 0.2:
            frame["answer_checks"] = np.nan
        parts.append(frame.assign(run_id=run, state="scored", level="doc"))
    queries = [
        {"id": one, "query": "?", "expected_doc_ids": ["d"]}
        | ({} if groups is None else {"group": f"g{groups[at]}"})
        for at, one in enumerate(ids)
    ]
    results = rs.load_results({run: {one: ["d"] for one in ids} for run in runs})
    return pd.concat(parts), rs.load_golden(queries), results


def compared(made, a, b, **how):
    scores, golden, results = made
    return compare_runs(results, golden, a, b, scores=scores, primary=ASKED, **how)


def word(low, high, name):
    way = (low > 0) - (high < 0)
    way = -way if name in LOWER else way
    return {1: "better", -1: "worse"}.get(way, "can't tell")


WORLDS = st.tuples(
    st.integers(0, 2**31), st.sampled_from([5, 8, 13, 30, 60, 180, 400]),
    st.sampled_from([0.0, 0.1, 0.4]), st.booleans(),
)  # fmt: skip


@given(WORLDS)
def test_every_word_is_its_interval_and_nothing_else_has_one(drawn):
    seed, n, shift, is_equal = drawn
    made = world(seed, n, ("a", "b", "c"), shift, is_equal=is_equal)
    scores, golden, _ = made
    cmp = compared(made, "a", "b")
    rows = cmp.deltas
    told = rows["verdict"].notna()
    assert told.tolist() == (rows["is_primary"] & (rows["n"] > 0)).tolist()
    assert rows.loc[rows["is_primary"], "p"].isna().all()
    for row in rows[told].itertuples():
        assert row.verdict == word(row.low, row.high, row.metric)
        assert not (row.low > row.delta or row.high < row.delta)
    free = rows[~rows["is_primary"] & rows["p"].notna()]
    assert ((free["p"] < 0.05) == ((free["low"] > 0) | (free["high"] < 0))).all()
    if is_equal and shift == 0:
        assert cmp.overall == "can't tell"
    listed = {row["metric"]: row["verdict"] for row in json.loads(cmp.to_json())["deltas"]}
    assert {name: one for name, one in listed.items() if one} == dict(
        rows.loc[told, ["metric", "verdict"]].to_numpy()
    )
    single = cmp.aspects[~cmp.aspects["metrics"].str.contains(",")].set_index("metrics")["verdict"]
    assert single.to_dict() == rows[told].set_index("metric")["verdict"][single.index].to_dict()
    for board in (
        leaderboard(scores, list(METRICS), primary=ASKED, golden=golden),
        leaderboard(scores, list(METRICS), primary=ASKED, golden=golden, baseline="b"),
    ):
        pairs = board.pairs[board.pairs["verdict"].notna().to_numpy()]
        assert set(pairs["metric"]) <= set(ASKED)
        for row in pairs.itertuples():
            assert row.verdict == word(row.low, row.high, row.metric)
    board = leaderboard(scores, list(METRICS), primary=ASKED, golden=golden)
    for name in ASKED:
        of = board.table[board.table["metric"] == name].set_index("run_id")
        best = of.index[of["mark"].eq("★")]
        for run in of.index.difference(best) if len(best) else ():
            pair = board.pairs[
                board.pairs["metric"].eq(name)
                & board.pairs[["run_baseline", "run_candidate"]].isin([run, best[0]]).all(axis=1)
            ].iloc[0]
            assert (of.loc[run, "mark"] == "≈") == (pair["verdict"] == "can't tell")


@given(WORLDS)
def test_the_sides_mirror_each_other_and_a_third_run_or_another_order_changes_no_row(drawn):
    seed, n, shift, is_equal = drawn
    made = world(seed, n, ("a", "b", "c"), shift, is_equal=is_equal)
    scores, golden, results = made
    cmp, back = compared(made, "a", "b"), compared(made, "b", "a")
    assert cmp.confidence == back.confidence
    assert back.overall == TURNED.get(cmp.overall, cmp.overall)
    one, other = (frame.deltas.set_index("metric") for frame in (cmp, back))
    for name, theirs in (("delta", "delta"), ("low", "high"), ("high", "low")):
        np.testing.assert_allclose(one[name], -other[theirs], atol=1e-12, rtol=1e-9)
    words = other["verdict"].map(lambda text: TURNED.get(text, text))
    assert one["verdict"].fillna("").tolist() == words.fillna("").tolist()
    two = scores[scores["run_id"].ne("c").to_numpy()]
    alone = compared((two, golden, results.select(["a", "b"])), "a", "b")
    pd.testing.assert_frame_equal(alone.deltas, cmp.deltas)
    order = np.random.default_rng(seed).permutation(len(scores))
    shuffled = compared((scores.iloc[order], golden, results), "a", "b")
    pd.testing.assert_frame_equal(shuffled.deltas, cmp.deltas)
    boards = [leaderboard(rows, list(ASKED), golden=golden) for rows in (scores, scores.iloc[::-1])]
    pd.testing.assert_frame_equal(boards[0].pairs, boards[1].pairs)


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize("n_runs", [2, 4])
def test_where_nothing_differs_words_are_rare(n, n_runs):
    """Each query's rows are dealt to the runs at random: any word is false."""
    runs, said, draws = [f"r{place}" for place in range(n_runs)], 0, 5 * EXAMPLES
    for seed in range(draws):
        scores, golden, _ = world(seed, n, runs, 0.0)
        rng = np.random.default_rng(seed)
        groups = golden.queries.set_index("query_id").get("group", pd.Series(scores.index.unique()))
        unit = groups.reindex(scores.index.unique()) if "group" in golden.queries else None
        codes = np.arange(n) if unit is None else pd.factorize(unit)[0]
        dealt = rng.permuted(np.tile(np.arange(n_runs), (codes.max() + 1, 1)), axis=1)[codes]
        blocks = [scores.iloc[place * n : (place + 1) * n] for place in range(n_runs)]
        mixed = [
            pd.concat(
                [block[(dealt[:, place] == at)] for place, block in enumerate(blocks)]
            ).assign(run_id=run)
            for at, run in enumerate(runs)
        ]
        board = leaderboard(pd.concat(mixed), list(ASKED), golden=golden)
        said += bool(board.pairs["verdict"].isin(["better", "worse"]).any())
    assert said <= binom.ppf(0.999, draws, 0.05)


@pytest.fixture(scope="module")
def ev():
    return rs.evaluate("data/demo/runs/*", "data/demo/golden.yaml")


def test_a_comparison_asks_about_two_runs_and_says_what_all_pairs_leave_of_it(ev):
    two, cmp = ev.select(runs=["bm25", "dense"]), ev.compare("bm25", "dense")
    pd.testing.assert_frame_equal(two.compare("bm25", "dense").deltas, cmp.deltas)
    assert (two.compare("bm25", "dense")._among, cmp._among, cmp._n_runs) == ("", "better", 4)
    assert "better; among all 4 runs: better: dense" in repr(cmp)
    assert two.confidence == cmp.confidence < ev.confidence
    board = ev.leaderboard()
    assert board._confidence == ev.confidence


def test_a_report_speaks_with_the_level_and_on_the_queries_of_all_runs(ev):
    report, board = ev.report(baseline="bm25"), ev.leaderboard(baseline="bm25")
    for run in ("dense", "hybrid", "hybrid_rerank"):
        deltas = report.tables[f"{run} against bm25"]
        rows = deltas[deltas["is_primary"]].set_index("metric")
        pairs = board.pairs[board.pairs["run_candidate"] == run].set_index("metric")
        names = ["delta", "low", "high", "n", "verdict"]
        pd.testing.assert_frame_equal(
            rows[names], pairs.loc[rows.index, names], check_names=False, check_dtype=False
        )


def test_refusing_less_is_read_with_what_it_costs(ev):
    # dense wrongly refuses more than bm25, and answers less that it should refuse
    cmp = ev.compare("bm25", "dense")
    rows, aspects = cmp.deltas.set_index("metric"), cmp.aspects.set_index("aspect")
    assert rows.loc["false_refusal", "verdict"] == "worse"
    assert aspects.loc["refusals", "verdict"] == "can't tell"
    assert "a trade?" in repr(cmp) and cmp.overall == "better"


def test_slices_have_intervals_and_no_words(ev):
    found = ev.compare("dense", "hybrid").slices("difficulty")
    assert "verdict" not in found.table and not hasattr(found.overall, "verdict")
    assert {"better", "worse", "can't tell"}.isdisjoint(repr(found).split())


def test_two_runs_without_labels_say_what_can_be_compared():
    ev = rs.evaluate({"old": {"q1": ["a"]}, "new": {"q1": ["b"]}})
    assert "No labels" in repr(ev) and "No labels" in ev._repr_html_()
    cmp = ev.compare("old", "new")
    assert "no labels" in repr(cmp) and "overlap by 0.00" in repr(cmp) and not len(cmp.deltas)
    assert ev.explore() is not None and ev.confidence == 0.95
    with pytest.raises(rs.DataError, match="labels"):
        ev.leaderboard()
    assert "No labels" in ev.report().to_markdown()


def test_printing_an_evaluation_scores_nothing(monkeypatch):
    calls = [
        {"qid": "q1", "retrieved": [["a", "b"], ["c", "d"]]},
        {"qid": "q2", "retrieved": ["a"]},
    ]
    ev = rs.evaluate(calls, {"q1": ["d"], "q2": ["a"]})
    monkeypatch.setattr("ragscore.evaluation.scored_and_stored", None)
    assert "Matched by doc" in repr(ev)
