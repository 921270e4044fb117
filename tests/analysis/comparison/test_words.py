"""One rule for words: primary metrics by aspect, and in every frame a word is its interval.

Random evaluations: few and many queries, unequal clusters, 0/1 and bounded metrics and times,
values that one run lacks, ties and equal runs.
"""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from conftest import times

import ragscore as rs
from ragscore.analysis.leaderboard import leaderboard
from ragscore.scoring.primary import aspects_of, primary_of
from tests.compared import compare_runs
from tests.messages import refused

METRICS = ("ndcg@10", "answer_checks", "answered_unanswerable", "false_refusal", "latency_ms")
LOWER = ("answered_unanswerable", "false_refusal", "latency_ms")
ASKED = METRICS[:4]
PAIR = ("answered_unanswerable", "false_refusal")
TURNED = {"better": "worse", "worse": "better"}


# What decides


@pytest.mark.parametrize(
    ("columns", "asked", "expected"),
    [
        # one metric of each aspect; passed beside more than retrieval only
        ("hit@10 mrr passed false_refusal token_f1", (), "mrr token_f1 false_refusal passed"),
        ("hit@10 mrr passed", (), "mrr"),
        ("passed", (), "passed"),
        ("length", (), "length"),
        # one of the two metrics of refusals brings the other, if that was scored
        ("answered_unanswerable false_refusal mrr", (["false_refusal"],),
         "false_refusal answered_unanswerable"),
        ("false_refusal", ("false_refusal",), "false_refusal"),
    ],
)  # fmt: skip
def test_one_metric_of_each_aspect_decides_by_default(columns, asked, expected):
    scores = pd.DataFrame({"run_id": ["a"], "state": "scored", "level": "doc"})
    scores = scores.assign(**dict.fromkeys(columns.split(), 1.0))
    assert primary_of(scores, *asked) == tuple(expected.split())
    assert "ndcg@10" not in primary_of(scores.assign(**{"ndcg@10": np.nan})), "it has no value"
    with refused(field="primary"):
        primary_of(scores, [])


def test_primary_metrics_make_aspects():
    assert aspects_of(["ndcg@10", *PAIR, "passed", "length"]) == {
        "retrieval": ("ndcg@10",), "refusals": PAIR, "passed": ("passed",), "length": ("length",),
    }  # fmt: skip
    assert aspects_of(["ndcg@10", "mrr@10"]) == {"ndcg@10": ("ndcg@10",), "mrr@10": ("mrr@10",)}


def test_primary_metrics_or_those_that_are_named_make_the_overall_word(demo):
    cmp = demo.compare("dense", "hybrid_rerank")
    times = cmp.deltas.set_index("metric").loc["latency_ms"]
    assert pd.isna(times["verdict"]) and times["low"] > 0
    assert (cmp._primary, cmp.overall) == (demo.primary, "can't tell")
    named = demo.compare("dense", "hybrid_rerank", ["mrr@10", "latency_ms"])
    assert named._primary == ("mrr@10", "latency_ms") == tuple(named.deltas["metric"])
    lone = demo.compare("dense", "hybrid", "false_refusal")
    assert (named.overall, lone.overall, lone.confidence) == ("worse", "better", 0.95)


@pytest.mark.parametrize(
    ("a", "b", "word", "overall"),
    [
        # hybrid refuses fewer answerable queries (11 / 0), and answers 2 more that it should refuse
        ("dense", "hybrid", "better", "can't tell"),
        # dense wrongly refuses more than bm25, and answers less that it should refuse
        ("bm25", "dense", "worse", "better"),
    ],
)
def test_refusing_less_is_read_with_what_it_costs(demo, a, b, word, overall):
    cmp = demo.compare(a, b)
    rows, aspects = cmp.deltas.set_index("metric"), cmp.aspects.set_index("aspect")
    assert rows.loc["false_refusal", "verdict"] == word
    assert aspects.loc["refusals", "verdict"] == "can't tell"
    assert cmp.overall == overall and "a trade?" in repr(cmp)


@pytest.mark.filterwarnings("ignore:scores that were measured differently:UserWarning")
def test_a_metric_of_one_run_alone_has_no_word_and_one_line():
    bare = [{"qid": f"q{n}", "retrieved": ["a", "b"]} for n in range(12)]
    golden = [{"id": row["qid"], "query": "?", "expected_doc_ids": ["b"], "must_contain": ["yes"]}
              for row in bare]  # fmt: skip
    sides = {"full": [row | {"answer": "yes"} for row in bare], "bare": bare}
    cmp = rs.compare(*(rs.load_results(one, run_id=name) for name, one in sides.items()), golden)
    own = cmp.deltas.set_index("metric").loc["answer_checks"]
    assert own["is_primary"] and own["n"] == 0 and pd.isna(own["verdict"])
    assert cmp.aspects["aspect"].tolist() == ["retrieval", "passed"]
    assert "Only one run has values of answer_checks" in repr(cmp)


# Every word is its interval


def world(seed, n, runs, shift, *, is_equal=False):
    """Scores of some runs on n queries, and the golden set that groups them."""
    rng = np.random.default_rng(seed)
    ids = [f"q{place:03}" for place in range(n)]
    # a third of the queries in one group, the others in small ones; or each alone
    groups = np.where(rng.random(n) < 0.3, 0, rng.integers(1, n, n)) if rng.random() < 0.7 else ids
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
        frame = frame.mask(rng.random(frame.shape) < rng.choice([0, 0.1]))  # some lack values,
        frame["answer_checks"] *= rng.choice([1, np.nan], p=[0.8, 0.2])  # or all of a metric
        parts.append(frame.assign(run_id=run, state="scored", level="doc"))
    queries = [
        {"id": one, "query": "?", "expected_doc_ids": ["d"], "group": f"g{group}"}
        for one, group in zip(ids, groups, strict=True)
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


WORLDS = [*product((60, 13, 5), (0.4, 0.0, 0.1), (False, True))]


@pytest.mark.parametrize("seed", range(times(2)))  # of each, three comparisons, two leaderboards
def test_every_word_is_its_interval_whichever_side_or_run_comes_first(seed):
    n, shift, is_equal = WORLDS[7 * seed % len(WORLDS)]
    scores, golden, results = made = world(seed, n, ("a", "b", "c"), shift, is_equal=is_equal)
    cmp, back = compared(made, "a", "b"), compared(made, "b", "a")
    rows = cmp.deltas
    told = rows["verdict"].notna()
    assert told.tolist() == (rows["is_primary"] & (rows["n"] > 0)).tolist()
    assert rows.loc[rows["is_primary"], "p"].isna().all()
    boards = [leaderboard(scores, list(METRICS), primary=ASKED, golden=golden, baseline=baseline)
              for baseline in (None, "b")]  # fmt: skip
    pairs = pd.concat(one.pairs[one.pairs["verdict"].notna().to_numpy()] for one in boards)
    assert {*pairs["metric"]} <= {*ASKED}
    for row in (*rows[told].itertuples(), *pairs.itertuples()):
        assert row.verdict == word(row.low, row.high, row.metric)
        assert not (row.low > row.delta or row.high < row.delta)
    free = rows[~rows["is_primary"] & rows["p"].notna()]
    assert ((free["p"] < 0.05) == ((free["low"] > 0) | (free["high"] < 0))).all()
    single = cmp.aspects[~cmp.aspects["metrics"].str.contains(",")].set_index("metrics")["verdict"]
    assert single.to_dict() == rows[told].set_index("metric")["verdict"][single.index].to_dict()
    assert cmp.overall == "can't tell" or not is_equal or shift
    # the other way round
    assert cmp.confidence == back.confidence
    assert back.overall == TURNED.get(cmp.overall, cmp.overall)
    one, other = (frame.deltas.set_index("metric") for frame in (cmp, back))
    for name, theirs in (("delta", "delta"), ("low", "high"), ("high", "low")):
        np.testing.assert_allclose(one[name], -other[theirs], atol=1e-12, rtol=1e-9)
    assert (
        one["verdict"].fillna("").tolist() == other["verdict"].fillna("").replace(TURNED).tolist()
    )
    # without the third run
    two = scores[scores["run_id"].ne("c").to_numpy()]
    alone = compared((two, golden, results.select(["a", "b"])), "a", "b")
    pd.testing.assert_frame_equal(alone.deltas, rows)


def test_a_comparison_asks_about_two_runs_and_says_what_all_pairs_leave_of_it(demo):
    three, two = (demo.select(runs=["bm25", "dense", "hybrid"][:n]) for n in (3, 2))
    cmp = three.compare("bm25", "dense")
    alone = two.compare("bm25", "dense")
    pd.testing.assert_frame_equal(alone.deltas, cmp.deltas)
    assert (alone._among, cmp._among) == ("", "; among all 3 runs: better")
    assert "better; among all 3 runs: better: dense" in repr(cmp)
    assert two.confidence == cmp.confidence < three.confidence == three.leaderboard()._confidence


def test_a_report_speaks_with_the_level_and_on_the_queries_of_all_runs(demo):
    part = demo.select(queries=demo.golden.queries["query_id"].iloc[::4].tolist())
    report, board = part.report(baseline="bm25"), part.leaderboard(baseline="bm25")
    assert len(report.to_markdown().split()) <= 3_000, "a page is read in some minutes"
    names = ["delta", "low", "high", "n", "verdict"]
    for run in ("dense", "hybrid", "hybrid_rerank"):
        deltas = report.tables[f"{run} against bm25"]
        rows = deltas[deltas["is_primary"]].set_index("metric")[names]
        pairs = board.pairs[board.pairs["run_candidate"] == run].set_index("metric")
        pairs = pairs.loc[rows.index, names]
        pd.testing.assert_frame_equal(rows, pairs, check_names=False, check_dtype=False)


def test_two_runs_without_labels_say_what_can_be_compared():
    ev = rs.evaluate({"old": {"q1": ["a"]}, "new": {"q1": ["b"]}})
    cmp = ev.compare("old", "new")
    assert "no labels" in repr(cmp) and "overlap by 0.00" in repr(cmp) and not len(cmp.deltas)
    assert ev.explore() is not None and ev.confidence == 0.95
    with pytest.raises(rs.DataError, match="labels"):
        ev.leaderboard()
    for text in (repr(ev), ev._repr_html_(), ev.report().to_markdown()):
        assert "No labels" in text
    assert "Nothing can be compared" in text and "overlap" in repr(ev)


def test_printing_an_evaluation_scores_nothing(monkeypatch):
    calls = [{"qid": "q1", "retrieved": [["a", "b"], ["c", "d"]]}, {"qid": "q2", "retrieved": "a"}]
    ev = rs.evaluate(calls, {"q1": ["d"], "q2": ["a"]})
    monkeypatch.setattr("ragscore.evaluation.scored_and_stored", None)
    assert "Matched by doc" in repr(ev)
