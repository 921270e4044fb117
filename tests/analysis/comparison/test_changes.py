"""Queries that changed: flips, the largest changes, what is read first, whole rankings, labels."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import THREE_QUERIES, hit, record, scores_of
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.analysis.comparison.changes import limits_of, rank_overlap
from ragscore.analysis.comparison.text import reading_priority
from ragscore.scoring.metrics import CRITERIA, TABLE
from ragscore.scoring.metrics.judged import PARTS
from ragscore.scoring.own import with_own
from tests.compared import flips_of

# Flips


@pytest.mark.parametrize(
    ("metric", "before", "after", "expected"),
    [
        ("passed", [1, 0, 1, 0, np.nan], [0, 1, 1, 0, 1], ["regression", "improvement"]),
        ("answered_unanswerable", [1, 0], [0, 1], ["improvement", "regression"]),
        ("faithfulness", [0.9, 0.5, 0.7], [0.5, 0.8, 0.1], ["regression", "improvement"]),
        ("token_f1", [1.0, 0.1], [0.1, 1.0], []),  # nothing says what is good
    ],
)
def test_a_query_flips_from_good_to_bad_or_back(metric, before, after, expected):
    found = flips_of(scores_of(metric, a=before, b=after))
    assert found["query_id"].tolist() == ["q0", "q1"][: len(expected)]
    assert found["kind"].tolist() == expected
    sides = list(zip(before, after, strict=True))[: len(expected)]
    assert list(zip(found["baseline"], found["candidate"], strict=True)) == sides


@pytest.mark.parametrize(
    ("scale", "bad", "good"),
    [
        ((0, 5), 3, 4), ((0, 3), 1.8, 2.4), ((1, 10), 6.4, 8.2), ((0, 1), 0.6, 0.8),
        ((0, 2), 1.2, 1.6),
    ],
)  # fmt: skip
def test_limits_fit_the_scale_of_a_judge_of_your_own(scale, bad, good):
    declared = TABLE.with_metrics([with_own("mine", "higher", scale)])
    assert limits_of(declared.describe("mine")) == (bad, good)
    scores = scores_of("mine", a=[good, bad - 0.1, bad, scale[1]], b=[bad - 0.1, good, good, bad])
    found = flips_of(scores, declared)
    assert found[["query_id", "kind"]].to_numpy().tolist() == [
        ["q0", "regression"], ["q1", "improvement"],
    ]  # fmt: skip
    faults = TABLE.with_metrics([with_own("faults", "lower", scale)]).describe("faults")
    assert limits_of(faults) == pytest.approx((sum(scale) - bad, sum(scale) - good))


def test_whatever_a_judge_measures_flips_by_its_scale_and_nothing_else_does():
    assert {name: limits_of(TABLE.describe(name)) for name in CRITERIA} == {
        **dict.fromkeys(PARTS, (0.6, 0.8)), "answer_relevance": (0.2, 0.6),
        "judge_groundedness": (3, 4), "judge_correctness": (3, 4), "judge_refused": (1, 1),
    }  # fmt: skip
    others = ("mrr", "token_f1", "latency_ms", "unheard_of")
    assert [limits_of(TABLE.describe(name)) for name in others] == [None] * 4


# The largest changes


def test_the_three_largest_losses_and_gains_are_kept_and_a_slower_answer_is_a_regression():
    # the rank of the right document, 0: nowhere; reciprocal ranks q0 1 → 0, q1 1 → ½, q2 1 → ¼,
    # q3 ½ → 1, q4 0 → 1, q5 0 → ½, q7 ¼ → 0. A 0/1 metric has no largest change.
    ranks = {"a": [1, 1, 1, 2, 0, 0, 2, 4], "b": [0, 2, 4, 1, 1, 2, 2, 0]}
    lists = {
        run: {f"q{n}": ["x", "y", "z", "d"][4 - rank :] for n, rank in enumerate(own)}
        for run, own in ranks.items()
    }
    results = rs.load_results(lists)
    results.responses["elapsed_ms"] = [10.0] * 8 + [10.0, 90.0, 5.0] + [10.0] * 5
    ev = rs.evaluate(results, {f"q{n}": ["d"] for n in range(8)})
    found = ev.compare("a", "b", ["mrr", "hit@1", "latency_ms"])._largest_changes
    assert found[["metric", "query_id", "delta", "kind"]].to_numpy().tolist() == [
        ["mrr", "q0", -1.0, "regression"], ["mrr", "q4", 1.0, "improvement"],
        ["mrr", "q2", -0.75, "regression"], ["mrr", "q1", -0.5, "regression"],
        ["mrr", "q3", 0.5, "improvement"], ["mrr", "q5", 0.5, "improvement"],
        ["latency_ms", "q1", 80, "regression"], ["latency_ms", "q2", -5, "improvement"],
    ]  # fmt: skip


ROWS = [
    # outcome, rank before and after, targets lost and gained
    ("win", 3, 1, 0, 1), ("draw", 1, 1, 0, 0), ("draw", 1, 1, 1, 1), ("draw", 1, 1, 1, 0),
    ("loss", 1, 3, 0, 0), ("only_baseline", 1, None, 1, 0), ("regression", 2, None, 1, 0),
    ("regression", 1, None, 1, 0),
]  # fmt: skip
COLUMNS = ["outcome", "rank_baseline", "rank_candidate", "n_lost", "n_gained"]


def test_lost_first_hits_come_first_then_lost_targets_then_other_changes_then_gains():
    table = pd.DataFrame(ROWS, columns=COLUMNS).astype(dict.fromkeys(COLUMNS[1:], "Int64"))
    table["query_id"] = [f"q{n}" for n in range(len(table))]
    loss = np.array([9, 0, 0.5, 0, 0, 0, 9, 0])  # by what decides
    orders = [
        reading_priority(table, *more).argsort(kind="stable")
        for more in ((), (["q1"],), ((), loss))
    ]
    assert orders[0].tolist() == [7, 6, 5, 4, 3, 1, 2, 0]
    assert orders[1].tolist().index(1) == 4, "what is answered: after losses, before lost targets"
    assert orders[2].tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


# Whole rankings: rank-biased overlap


def written_out(one, other, p):
    """Equation 32 of Webber, Moffat & Zobel (2010), depth by depth."""
    short, long = sorted([one, other], key=len)
    s, n = len(short), len(long)
    overlap = [len(set(short[:d]) & set(long[:d])) for d in range(n + 1)]
    total = sum(overlap[d] / d * p**d for d in range(1, n + 1)) + sum(
        overlap[s] * (d - s) / (s * d) * p**d for d in range(s + 1, n + 1)
    )
    return (1 - p) / p * total + ((overlap[n] - overlap[s]) / n + overlap[s] / s) * p**n


def runs_of(lists):
    """Two runs; for each query a pair of lists of document ids."""
    sides = [{f"q{n}": list(pair[at]) for n, pair in enumerate(lists)} for at in (0, 1)]
    return rs.load_results(dict(zip("ab", sides, strict=True)))


ranking = st.lists(st.sampled_from("stuvwxyz"), unique=True, min_size=1, max_size=8)


@given(
    st.lists(st.tuples(ranking, ranking), min_size=1, max_size=4), st.sampled_from([0.5, 0.9, 0.98])
)
def test_overlap_is_that_of_its_definition_both_ways_round(lists, p):
    results, expected = runs_of(lists), [written_out(*pair, p) for pair in lists]
    for a, b in ("ab", "ba"):
        np.testing.assert_allclose(rank_overlap(results, a, b, p=p)["rbo"], expected, atol=1e-12)


def test_equal_lists_overlap_fully_and_disjoint_ones_not_at_all():
    results = runs_of([("xyz", "xyz"), ("xyz", "stu"), ("xy", "yx"), ("xyz", "")])
    found = rank_overlap(results, "a", "b")
    # xy / yx: nothing at depth 1, all at depth 2 and, extrapolated, beyond: p
    assert found["rbo"].tolist() == pytest.approx([1, 0, 0.9, np.nan], abs=1e-12, nan_ok=True)
    counts = found[["n_common", "n_baseline", "n_candidate"]].to_numpy().tolist()
    assert counts == [[3, 3, 3], [0, 3, 3], [2, 2, 2], [0, 3, 0]]
    asked = replace(results, responses=results.responses.iloc[:-1])  # b not the last one
    assert rank_overlap(asked, "a", "b")["query_id"].tolist() == ["q0", "q1", "q2"]


def test_runs_of_different_chunkers_are_compared_by_document_and_one_document_counts_once(loaded):
    chunks = {"a": [("c1", "d1"), ("c2", "d1"), ("c3", "d2")], "b": [("e1", "d1"), ("e2", "d2")]}
    runs = {
        run: [hit(*ids, rank, chunker_version=run) for rank, ids in enumerate(own, 1)]
        for run, own in chunks.items()
    }
    results, _ = loaded(THREE_QUERIES, {run: [record("q1", own)] for run, own in runs.items()})
    found = rank_overlap(results, "a", "b").iloc[0]
    assert (found["rbo"], found["n_baseline"], found["n_common"]) == (pytest.approx(1), 2, 2)


# New labels are not a better system: what changed between golden sets is named


def test_each_change_of_a_golden_set_has_its_name():
    more = {"query": "?", "expected_doc_ids": ["d"]}
    old = rs.load_golden([*THREE_QUERIES, {"id": "gone"} | more, {"id": "x"} | more])
    new = rs.load_golden([
        THREE_QUERIES[0] | {"expected_doc_ids": ["d1", "e1"]},
        THREE_QUERIES[1] | {"query": "other words"},
        THREE_QUERIES[2] | {"difficulty": "hard", "tags": ["t"]},
        {"id": "x", "query": "no", "answerable": False},
        {"id": "fresh"} | more,
    ])  # fmt: skip
    assert new.diff(old).set_index("query_id").T.to_dict("list") == {
        "q1": ["relabelled", "+e1"], "q2": ["reworded", ""],
        "q3": ["annotated", ""], "gone": ["removed", ""],
        "x": ["reworded and relabelled", "-d"], "fresh": ["added", ""],
    }  # fmt: skip
    assert not len(old.diff(old))


DOC = {"expected_doc_ids": ["d1"]}
EITHER = {"expected_doc_ids": [["d1", "e1"]]}


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        (DOC, EITHER, ""), (EITHER, DOC, ""), (EITHER, {"expected_doc_ids": [["d1", "f1"]]}, ""),
        ({"expected_doc_ids": [["d1", "e1"], "d2"]}, {"expected_doc_ids": [["d1", "e1"], "d3"]},
         "+d3, -d2"),
        (DOC, {"expected_doc_ids": [{"any": ["d1", "e1"], "grade": 2}]}, ""),
        (DOC, {"expected_doc_ids": {"d1": 2}}, ""),
        # whatever a metric reads is a label
        (DOC, DOC | {"must_contain": ["x"]}, ""), (DOC, DOC | {"expected_key_facts": ["x"]}, ""),
        (DOC, DOC | {"reference_answer": "x"}, ""), (DOC, DOC | {"folders": ["x"]}, ""),
        (DOC, DOC | {"expected_empty": True}, ""),
    ],
    ids=str,
)  # fmt: skip
def test_targets_that_came_and_went_are_named(before, after, what):
    old, new = (
        rs.load_golden([{"id": "q1", "query": "?"} | one, THREE_QUERIES[1]])
        for one in (before, after)
    )
    assert new.diff(old).to_numpy().tolist() == [["q1", "relabelled", what]]
