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
    assert cmp.overall == overall
    assert "but answered_unanswerable went the other way: a trade?" in repr(cmp)


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
    # also of one metric: the intervals of two differences together are no 95 % intervals
    runs = {name: {"p": list(name), "q": ["d"]} for name in ("d", "xd", "xyd")}
    alone = rs.evaluate(runs, {"p": ["d"], "q": ["d"]}, "mrr")
    text = alone.report(baseline="d").to_markdown()
    assert text.count("delta [interval]") == text.count("first 1 metric are wider (97.5 %)") == 2


def test_two_runs_without_labels_say_what_can_be_compared():
    ev = rs.evaluate({"old": {"q1": ["a"]}, "new": {"q1": ["b"]}})
    cmp = ev.compare("old", "new")
    assert (
        repr(cmp) + cmp.notes()
        == """\
○ can't tell: new (candidate) against old (baseline)
Nothing can be compared: no metric applies: there are no scores, and no labels in a golden set. Their rankings overlap by 0.00 (RBO; 1: the same).

1 note: .notes()1 queries in both.
Nothing can be compared: no metric applies: there are no scores, and no labels in a golden set."""  # noqa: E501
    )
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


# All that is shown of one evaluation


def evaluated():
    """Sixteen queries with one document, but q10 and q11 with two, and four to refuse.

    `new` failed on q03, was not asked q19, and was asked one more. Of the others, it finds the
    document further up for ten and further down for q01. One answer is checked.
    """
    # where the document is listed, 0: nowhere
    ranks = {"old": "1123400000112000", "new": "1210111111111110", "other": "0000000002100000"}
    refused = {"old": (0, 5, 6, 16, 17), "new": range(16, 20), "other": ()}
    golden = [{"id": f"q{n:02}", "query": f"question {n}", "answerable": n < 16}
              | ({"expected_doc_ids": ["d", "e"] if n in (10, 11) else ["d"]} if n < 16 else {})
              | ({"must_contain": ["yes"]} if n == 1 else {}) for n in range(20)]  # fmt: skip
    records = [
        {"run_id": run, "query_id": f"q{n:02}", "answer": "yes", "refused": n in refused[run],
         "hits": (["x", "y", "z", "d"][4 - int(rank) :] or ["x"])
         + ["e"] * ((run, n) in (("old", 10), ("new", 11))),
         "latency_ms": 10 * (n % 3) ** 2 + {"old": 10, "new": 18, "other": 10}[run],
         "error": "late" if (run, n) == ("new", 3) else None}
        | ({"cost_usd": 0.01} if run == "new" else {})
        for run, own in ranks.items() for n, rank in enumerate(own + "000" + "0" * (run != "new"))
    ]  # fmt: skip
    records.append(records[0] | {"run_id": "new", "query_id": "unknown"})
    results = rs.load_results(records)
    model = '{{"embedding": {{"model": "{}", "size": 3}}, "top": 5{}}}'
    results.runs["config"] = [
        model.format(run, ', "prompt": "v2"' * (run == "new")) for run in ranks
    ]
    results.runs["k"] = [5, 10, 10]
    own = pd.DataFrame(records)[["run_id", "query_id"]]
    own["length"] = [len(one["hits"]) / 1000 for one in records]
    return rs.evaluate(results, golden, collapse="doc").with_columns(own)


@pytest.mark.filterwarnings("ignore:golden queries without a row")
def test_what_people_read_of_an_evaluation():
    ev = evaluated()
    cmp, board = ev.compare("old", "new"), ev.leaderboard("latency_ms", baseline="old")
    allowed = {"hit@1": 0.1, "latency_ms": 5, "p95(latency_ms)": 10, "false_refusal": 0}
    by_interval = cmp.gate(allowed | {"cost_usd": 1}, rule="interval")
    shown = (
        cmp.to_markdown(14), cmp.gate().to_markdown(), by_interval.to_markdown(),
        by_interval.to_junit(), ev.leaderboard().to_markdown(), board.to_markdown(),
        cmp.slices("answerable", ["hit@1", "length"]).to_markdown(),
        cmp.aspects.to_csv(index=False), cmp.deltas.round(4).to_csv(index=False),
    )  # fmt: skip
    assert (
        "\n".join(shown)
        == """\
# ▲ better; among all 3 runs: can't tell: new (candidate) against old (baseline)

| metric | baseline | candidate | delta [interval] | candidate is | p | better / worse / same | n / expected |
| --- | ---: | ---: | ---: | --- | ---: | ---: | --- |
| ndcg@10 | 0.36 | 0.83 | +0.46 [+0.06, +0.87] | ▲ better |  | 11 / 3 / 2 | 16 / 16 |
| passed | 0.47 | 0.89 | +0.42 [+0.01, +0.70] | ▲ better |  | 9 / 1 / 9 | 19 / 20 |
| answer_checks | 1.00 | 1.00 | 0.00 [-0.86, +0.86] | ○ can't tell |  | 0 / 0 / 1 | 1 / 1 |
| answered_unanswerable | 0.33 | 0.00 | -0.33 [-0.85, +0.57] | ○ can't tell |  | 1 / 0 / 2 | 3 / 4 |
| false_refusal | 0.20 | 0.00 | -0.20 [-0.52, +0.15] | ○ can't tell |  | 3 / 0 / 12 | 15 / 16 |
| hit@1 | 0.25 | 0.81 | +0.56 [+0.18, +0.79] |  | .007 | 10 / 1 / 5 | 16 / 16 |
| hit@5 | 0.50 | 0.88 | +0.38 [+0.03, +0.64] |  | .034 | 7 / 1 / 8 | 16 / 16 |
| recall@5 | 0.47 | 0.84 | +0.38 [+0.03, +0.72] |  | .035 | 8 / 2 / 6 | 16 / 16 |
| recall@10 | 0.47 | 0.84 | +0.38 [+0.03, +0.72] |  | .035 | 8 / 2 / 6 | 16 / 16 |
| mrr@10 | 0.35 | 0.84 | +0.49 [+0.20, +0.79] |  | .003 | 10 / 2 / 4 | 16 / 16 |
| refusal_correct | 0.67 | 1.00 | +0.33 [-0.42, +0.79] |  | .317 | 1 / 0 / 2 | 3 / 4 |
| failed | 0.00 | 0.05 | +0.05 [-0.12, +0.25] |  | .317 | 0 / 1 / 18 | 19 / 20 |
| empty | 0.00 | 0.00 | 0.00 [-0.18, +0.18] |  | 1.000 | 0 / 0 / 18 | 18 / 20 (baseline), 19 (candidate) |

Left out, because the candidate failed or was not asked: 2 of empty, 2 of latency_ms, 1 of passed and 5 more.

Only one run has values of cost_usd.

refusals: can't tell (answered_unanswerable can't tell; false_refusal can't tell)

10 win, 1 loss, 1 regression, 3 draw, 1 both_miss, 3 no_target, 1 only_baseline, 1 only_candidate. Matched by document. Hits are ranks 1 to 5. Scored with collapse=doc.

The runs differ in k: see .invariants.

The intervals of the first 5 metrics are wider (98.8 %), so that all of them hold in 95 % of cases. Any other is a 95 % interval by itself.

2 more metrics in .deltas.

## What differs between the runs

| key | baseline | candidate |
| --- | --- | --- |
| embedding.model | old | new |
| prompt | — | v2 |

## Largest changes

| metric | query_id | baseline | candidate | delta | kind |
| --- | --- | ---: | ---: | ---: | --- |
| ndcg@10 | q05 | 0.000 | 1.000 | 1.000 | improvement |
| ndcg@10 | q06 | 0.000 | 1.000 | 1.000 | improvement |
| ndcg@10 | q07 | 0.000 | 1.000 | 1.000 | improvement |
| ndcg@10 | q03 | 0.500 | 0.000 | -0.500 | regression |
| ndcg@10 | q10 | 1.000 | 0.613 | -0.387 | regression |
| ndcg@10 | q01 | 1.000 | 0.631 | -0.369 | regression |

## Answers that flipped (16)

| metric | query_id | baseline | candidate | kind | bad | good |
| --- | --- | ---: | ---: | --- | ---: | ---: |
| passed | q00 | 0 | 1 | improvement | 1 | 1 |
| passed | q03 | 1 | 0 | regression | 1 | 1 |
| passed | q05 | 0 | 1 | improvement | 1 | 1 |
| passed | q06 | 0 | 1 | improvement | 1 | 1 |
| passed | q07 | 0 | 1 | improvement | 1 | 1 |
| passed | q08 | 0 | 1 | improvement | 1 | 1 |
| passed | q09 | 0 | 1 | improvement | 1 | 1 |
| passed | q13 | 0 | 1 | improvement | 1 | 1 |
| passed | q14 | 0 | 1 | improvement | 1 | 1 |
| passed | q18 | 0 | 1 | improvement | 1 | 1 |
| refusal_correct | q18 | 0 | 1 | improvement | 1 | 1 |
| answered_unanswerable | q18 | 1 | 0 | improvement | 0 | 0 |
| false_refusal | q00 | 1 | 0 | improvement | 0 | 0 |
| false_refusal | q05 | 1 | 0 | improvement | 0 | 0 |

2 more are not listed.

## Queries that changed (16)

| query_id | query | outcome | rank_baseline | rank_candidate | gained | lost | note |
| --- | --- | --- | ---: | ---: | --- | --- | --- |
| q03 | question 3 | ▼! regression | 3 | — |  | d | rank 3→miss; k 5→10; embedding.model old→new; prompt —→v2 |
| q19 | question 19 | ◁ only_baseline | — | — |  |  |  |
| q01 | question 1 | ▼ loss | 1 | 2 |  |  | rank 1→2; k 5→10; embedding.model old→new; prompt —→v2 |
| q10 | question 10 | = draw | 1 | 1 |  | e |  |
| q11 | question 11 | = draw | 1 | 1 | e |  |  |
| unknown | — | ▷ only_candidate | — | — |  |  |  |
| q02 | question 2 | ▲ win | 2 | 1 |  |  | rank 2→1; k 5→10; embedding.model old→new; prompt —→v2 |
| q12 | question 12 | ▲ win | 2 | 1 |  |  | rank 2→1; k 5→10; embedding.model old→new; prompt —→v2 |
| q04 | question 4 | ▲ win | 4 | 1 |  |  | rank 4→1; k 5→10; embedding.model old→new; prompt —→v2 |
| q05 | question 5 | ▲ win | — | 1 | d |  | miss→rank 1; k 5→10; embedding.model old→new; prompt —→v2 |
| q06 | question 6 | ▲ win | — | 1 | d |  | miss→rank 1; k 5→10; embedding.model old→new; prompt —→v2 |
| q07 | question 7 | ▲ win | — | 1 | d |  | miss→rank 1; k 5→10; embedding.model old→new; prompt —→v2 |
| q08 | question 8 | ▲ win | — | 1 | d |  | miss→rank 1; k 5→10; embedding.model old→new; prompt —→v2 |
| q09 | question 9 | ▲ win | — | 1 | d |  | miss→rank 1; k 5→10; embedding.model old→new; prompt —→v2 |

2 more are not listed.

## ✗ Gate failed by failed queries: new against old

| metric | verdict | baseline | candidate | delta | interval | why |
| --- | --- | ---: | ---: | ---: | ---: | --- |
| ndcg@10 | ✓ pass | 0.36 | 0.83 | +0.46 | [+0.06, +0.87] | surely better |
| passed | ✓ pass | 0.47 | 0.89 | +0.42 | [+0.01, +0.70] | surely better |
| answer_checks | ✓ pass | 1.00 | 1.00 | 0.00 | [-0.86, +0.86] | no query changed |
| answered_unanswerable | ✓ pass | 0.33 | 0.00 | -0.33 | [-0.85, +0.57] | can't tell |
| false_refusal | ✓ pass | 0.20 | 0.00 | -0.20 | [-0.52, +0.15] | can't tell |
| failed queries | ✗ fail | — | 2 | +2 |  | 2 of 20 |

### Largest regressions

| query_id | outcome | rank_baseline | rank_candidate |
| --- | --- | ---: | ---: |
| q03 | ▼! regression | 3 | — |
| q19 | ◁ only_baseline | — | — |
| q01 | ▼ loss | 1 | 2 |

All intervals together hold in 95 % of cases.

## ✗ Gate failed by latency_ms, failed queries, 1 undecided, 1 not evaluated: new against old

| metric | verdict | baseline | candidate | delta | 95 % interval | why |
| --- | --- | ---: | ---: | ---: | ---: | --- |
| hit@1 | ✓ pass | 0.25 | 0.81 | +0.56 | [+0.18, +0.79] | loss surely ≤ 0.1 |
| latency_ms (p50) | ✗ fail | 20.000 | 28.000 | +8.000 | [+8.000, +8.000] | loss surely > 5 |
| p95(latency_ms) | ✓ pass | 50.000 | 58.000 | +8.000 |  | loss ≤ 10 |
| false_refusal | ○ undecided | 0.20 | 0.00 | -0.20 | [-0.45, +0.04] | loss maybe > 0 |
| cost_usd (p50) | ○ not evaluated | — | — | — |  | not compared |
| failed queries | ✗ fail | — | 2 | +2 |  | 2 of 20 |

### Largest regressions

| query_id | outcome | rank_baseline | rank_candidate |
| --- | --- | ---: | ---: |
| q03 | ▼! regression | 3 | — |
| q19 | ◁ only_baseline | — | — |
| q01 | ▼ loss | 1 | 2 |

<testsuite name="ragscore gate" tests="6" failures="2" skipped="2"><testcase classname="new against old" name="hit@1" /><testcase classname="new against old" name="latency_ms"><failure message="loss surely &gt; 5 (+8.000)" /></testcase><testcase classname="new against old" name="p95(latency_ms)" /><testcase classname="new against old" name="false_refusal"><skipped message="loss maybe &gt; 0 (-0.20)" /></testcase><testcase classname="new against old" name="cost_usd"><skipped message="not compared (—)" /></testcase><testcase classname="new against old" name="failed queries"><failure message="2 of 20 (+2)" /></testcase></testsuite>

# Leaderboard

| run | ndcg@10 [95 %], n = 16 | answer_checks, n = 1 | answered_unanswerable, n = 3 / 4 | false_refusal, n = 15 / 16 | passed, n = 19 / 20 |
| --- | ---: | ---: | ---: | ---: | ---: |
| new | 0.83 [0.59, 0.94] ★ | 1.00 ≈ | 0.00 ★ | 0.00 ★ | 0.89 ★ |
| old | 0.36 [0.19, 0.58] ≈ | 1.00 ★ | 0.33 ≈ | 0.20 ≈ | 0.47 ≈ |
| other | 0.08 [0.02, 0.26] | 1.00 ≈ | 1.00 ≈ | 0.00 ≈ | 0.11 |

★ best; ≈ no sure difference from it (all 15 differences together, 95 %).

Queries without a value in every run: 1 of answered_unanswerable, 1 of false_refusal, 1 of passed.

# Leaderboard

| run | latency_ms (p50) [95 %], n = 18 / 19 to 20 |
| --- | ---: |
| old | 20 [10, 50] |
| other | 20 [10, 50] ○ |
| new | 28 [18, 58] ▼ |

## Against old

| run | latency_ms (p50) |
| --- | --- |
| other | 0.000 [0.000, 0.000] ○ can't tell |
| new | +8.000 [+8.000, +8.000] ▼ worse |

Against old: ▲ better, ▼ worse, ○ can't tell (all 2 differences together, 95 %).

Queries without a value in every run: 2 of latency_ms.

# new against old by answerable

| answerable | metric | n / expected | baseline | candidate | delta | 95 % interval |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
| False\\* | length | 3 / 4 | 0.001 | 0.001 | 0.000 |  |
| True | hit@1 | 16 / 16 | 0.25 | 0.81 | +0.56 | [+0.18, +0.79] |
| True | length | 16 / 16 | 0.0015 | 0.0011 | -0.0004 | [-0.0009, +0.0002] |

Exploratory: by chance alone, one interval in 20 leaves out 0.

\\* fewer than 10 queries.

aspect,metrics,verdict,sentence
retrieval,ndcg@10,better,the difference lies between +0.0627 and +0.867
passed,passed,better,the difference lies between +0.0063 and +0.704
answers,answer_checks,can't tell,the difference lies between -0.862 and +0.862
refusals,"answered_unanswerable, false_refusal",can't tell,answered_unanswerable can't tell; false_refusal can't tell

metric,baseline,candidate,delta,low,high,verdict,is_primary,statistic,p,detectable,low_95,high_95,n_better,n_worse,n_same,n,skewness,caution,n_lost,n_expected_baseline,n_expected_candidate
ndcg@10,0.3629,0.8278,0.4649,0.0627,0.8671,better,True,mean,,0.525,0.1627,0.7671,11,3,2,16,-0.4628,False,0,16,16
passed,0.4737,0.8947,0.4211,0.0063,0.704,better,True,mean,,0.5064,0.1103,0.6544,9,1,9,19,-0.4582,False,1,20,20
answer_checks,1.0,1.0,0.0,-0.8619,0.8619,can't tell,True,mean,,,-0.7935,0.7935,0,0,1,1,0.0,False,0,1,1
answered_unanswerable,0.3333,0.0,-0.3333,-0.8493,0.567,can't tell,True,mean,,,-0.7923,0.4153,1,0,2,3,-0.7071,False,1,4,4
false_refusal,0.2,0.0,-0.2,-0.5221,0.1525,can't tell,True,mean,,0.399,-0.4519,0.0447,3,0,12,15,-1.5,False,1,16,16
hit@1,0.25,0.8125,0.5625,0.1776,0.7873,,False,mean,0.0067,0.4715,0.1776,0.7873,10,1,5,16,-1.0692,False,0,16,16
hit@5,0.5,0.875,0.375,0.033,0.635,,False,mean,0.0339,0.464,0.033,0.635,7,1,8,16,-0.3808,False,0,16,16
recall@5,0.4688,0.8438,0.375,0.031,0.719,,False,mean,0.0346,0.4838,0.031,0.719,8,2,6,16,-0.48,False,0,16,16
recall@10,0.4688,0.8438,0.375,0.031,0.719,,False,mean,0.0346,0.4838,0.031,0.719,8,2,6,16,-0.48,False,0,16,16
mrr@10,0.349,0.8438,0.4948,0.2027,0.7869,,False,mean,0.0026,0.4108,0.2027,0.7869,10,2,4,16,-0.4673,False,0,16,16
refusal_correct,0.6667,1.0,0.3333,-0.4153,0.7923,,False,mean,0.3173,,-0.4153,0.7923,1,0,2,3,0.7071,False,1,4,4
failed,0.0,0.0526,0.0526,-0.1244,0.2464,,False,mean,0.3173,0.1559,-0.1244,0.2464,0,1,18,19,4.0069,False,1,20,20
empty,0.0,0.0,0.0,-0.1759,0.1759,,False,mean,1.0,,-0.1759,0.1759,0,0,18,18,0.0,False,2,20,19
latency_ms,20.0,28.0,8.0,8.0,8.0,,False,median,,,8.0,8.0,0,18,0,18,0.0,False,2,20,19
length,0.0014,0.0011,-0.0003,-0.0008,0.0001,,False,mean,0.1628,0.0006,-0.0008,0.0001,2,5,12,19,-1.3585,False,1,20,20
cost_usd,,,,,,,False,median,,,,,0,0,0,0,,False,0,0,19
"""  # noqa: E501
    )
