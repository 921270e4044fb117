"""One question, one family of tests: whatever shows a pair of runs says the same of it."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.analysis.leaderboard import leaderboard
from ragscore.scoring.metrics import headline_of
from ragscore.scoring.value_states import metric_columns
from tests.messages import refused, says

DEMO = "data/demo"


@pytest.fixture(scope="module")
def ev():
    root = __file__.rpartition("/tests/")[0]
    return rs.evaluate(f"{root}/{DEMO}/runs/*/per_query.jsonl", f"{root}/{DEMO}/golden.yaml")


@pytest.mark.parametrize(("baseline", "n_pairs"), [(None, 3), ("dense", 2)])
def test_a_leaderboard_and_comparisons_have_the_same_p_and_the_same_words(ev, baseline, n_pairs):
    results = ev.results.select(["dense", "hybrid", "hybrid_rerank"])
    asked = rs.evaluate(results, ev.golden, baseline=baseline)
    shown = [*asked.primary, *headline_of(metric_columns(ev.scores))]
    board = asked.leaderboard(list(dict.fromkeys(shown)))
    pairs = board.pairs.set_index(["run_baseline", "run_candidate"])
    assert len(pairs.index.unique()) == n_pairs
    for pair in pairs.index.unique():
        cmp = asked.compare(*pair)
        rows = cmp.deltas.set_index("metric")
        own = pairs.loc[[pair]].set_index("metric")
        own = own[rows.loc[own.index, "n"].gt(0) & own["p"].notna()]
        np.testing.assert_allclose(rows.loc[own.index, "p_adjusted"], own["p"], atol=1e-12)
        words = rows.loc[own.index, "verdict"]
        assert words.eq("can't tell").tolist() == own["is_tied"].tolist()
        assert cmp.gate().overall == cmp.overall


def test_two_runs_alone_have_one_comparison_and_its_leaderboard(ev):
    two = ev.select(["hybrid", "hybrid_rerank"])
    cmp = two.compare("hybrid", "hybrid_rerank")
    rows, own = cmp.deltas.set_index("metric"), two.leaderboard().pairs.set_index("metric")
    np.testing.assert_allclose(rows.loc[own.index, "p_adjusted"], own["p"], atol=1e-12)
    # as one of six pairs, the same difference is less sure
    among = ev.compare("hybrid", "hybrid_rerank")
    assert (cmp.overall, among.overall) == ("better", "can't tell")
    says(among.notes(), "only these two", "retrieval better", "ev.select")


def test_fewer_pairs_are_corrected_for_less(ev):
    def p_of(one):
        return one.compare("bm25", "hybrid").deltas.set_index("metric").loc["passed", "p_adjusted"]

    against = rs.evaluate(ev.results, ev.golden, baseline="bm25")
    assert p_of(ev.select(["bm25", "hybrid"])) < p_of(against) < p_of(ev)
    assert against.select(["bm25", "dense", "hybrid"]).baseline == "bm25"
    assert against.select(["dense", "hybrid"]).baseline is None
    with refused("bm26", field="run"):
        rs.evaluate(ev.results, ev.golden, baseline="bm26")


def of_runs(n_runs, n=60, better=0.0):
    """Scores of runs alike; the last one's mrr is higher by `better`."""
    rng = np.random.default_rng(2)
    base = rng.random(n)
    values = {f"r{run}": base + rng.normal(0, 0.1, n) for run in range(n_runs)}
    values[f"r{n_runs - 1}"] = values[f"r{n_runs - 1}"] + better
    return pd.concat(
        pd.DataFrame({
            "run_id": run, "state": "scored", "level": "doc", "mrr": own, "latency_ms": 10 + own,
        }, index=pd.Index([f"q{q}" for q in range(n)], name="query_id"))
        for run, own in values.items()
    )  # fmt: skip


@pytest.mark.parametrize("n_runs", [2, 8])
def test_a_run_that_is_surely_better_is_told_from_all_others(n_runs):
    board = leaderboard(of_runs(n_runs, better=0.3), ["mrr", "latency_ms"], primary=("mrr",))
    is_of_best = board.pairs["run_candidate"].eq(f"r{n_runs - 1}")
    assert not board.pairs.loc[is_of_best, "is_tied"].any(), "times by their signs, too"
    assert n_runs == 2 or board.pairs.loc[~is_of_best, "is_tied"].mean() > 0.9


def test_a_metric_of_ones_own_decides_in_one_call(ev):
    rng = np.random.default_rng(0)
    ids = list(ev.golden.queries["query_id"])
    cost = pd.DataFrame({
        "run_id": np.repeat(["bm25", "dense"], 182), "query_id": ids * 2,
        "price": np.r_[rng.random(182), rng.random(182) + 2],
    })  # fmt: skip
    two = ev.select(["bm25", "dense"])
    own = two.with_columns(cost, better="lower", primary=["ndcg@10", "price"])
    assert own.primary == ("ndcg@10", "price")
    found = own.compare("bm25", "dense").gate()
    assert found.exit_status == 1, "surely worse: it fails the gate"
    asked = two.compare("bm25", "dense", "mrr@10", primary="hit@7")
    assert asked.primary == ("hit@7",) and asked.deltas["metric"].tolist()[0] == "hit@7"
