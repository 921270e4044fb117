"""Retrieval × answer: whose fault a wrong answer is, and how that changed from one run to
another.
"""

import numpy as np
import pandas as pd
import pytest
from test_refusals import RUN, asked, load, pytestmark

import ragscore as rs
from ragscore.analysis.failure_causes import failures
from ragscore.analysis.refusals import refusals
from tests.messages import refused

__all__ = ["pytestmark"]  # what the golden set and its runs warn of


def classes(causes):
    return causes.set_index("query_id")["cause"]


def test_hit_and_answer_name_the_fault():
    scores, golden, results = load(RUN, k=3)
    assert classes(failures(scores, golden).per_query).to_dict() == {
        "a1": "right", "a2": "generation fault", "a3": "memory", "a4": "retrieval fault",
        "a5": "refused after hit", "a6": "unmeasured",
        "a7": "failed", "a8": "missing", "r1": "right refusal", "r2": "unsupported answer",
        "r3": "unsupported answer", "u": "unlabelled",
    }  # fmt: skip
    blind = classes(failures(scores.assign(**{"hit@5": np.nan}), golden).per_query)
    assert blind[["a1", "a5"]].tolist() == ["unmeasured", "refused"], "without targets"
    # a hit is one within the smallest k of the runs
    ev = rs.evaluate(results, golden)
    assert (ev.failures().hit_by, ev.failures(hit="hit@1").hit_by) == ("hit@3", "hit@1")
    assert set(failures(scores, golden).table["hit_by"]) == {"hit@5"}


def test_shares_are_of_the_answers_that_were_classified():
    more = [asked("a5", None, "d", 0.6), asked("a6", None, "x", 0.6), asked("a7", "yes", "d", 0.9)]
    scores, golden, _ = load([*RUN[:4], *more])
    table = failures(scores, golden).table.set_index("cause")
    answered = table.loc[["right", "generation fault", "memory", "retrieval fault"], "n"]
    assert answered.tolist() == [2, 1, 1, 1]
    right = table.loc["right", ["n_total", "share", "hit_by", "right_by"]]
    assert right.tolist() == [5, 0.4, "hit@5", "answer_checks ≥ 1"]
    assert table.loc[["refused after hit", "refused after miss"], "share"].tolist() == [0.5, 0.5]
    # a8, r1 to r3 and u of all twelve
    assert table.loc["missing", ["n", "n_total"]].tolist() == [5, 12]


def test_right_refusals_are_shares_of_what_should_be_refused_as_in_refusals():
    of, names = load(RUN)[:2], ["right refusal", "unsupported answer"]
    causes = failures(*of).table.set_index("cause").loc[names, ["n", "n_total", "share"]]
    assert causes[["n", "n_total"]].to_numpy().tolist() == [[1, 3], [2, 3]]
    decisions = refusals(*of).table.set_index("decision")["share"]
    assert causes["share"].tolist() == decisions[names].tolist()


@pytest.mark.parametrize(
    ("columns", "hit", "field", "named"),
    [
        ({}, "hit@7", "hit", ["hit@7"]),
        ({"mine": 0.5}, "mine", "hit", ["mine", 0, 1]),
        ({"answer_checks": np.nan}, "hit@5", "right", ["answers", "right"]),
    ],
)
def test_what_says_hit_must_be_zero_or_one(columns, hit, field, named):
    scores, golden, _ = load(RUN)
    with refused(*named, field=field):
        failures(scores.assign(**columns), golden, hit=hit)


def test_transitions_lead_from_class_to_class_with_their_questions():
    better = [asked("a1", "yes", "d", 0.9), asked("a2", "yes", "d", 0.8),
              asked("a4", "no", "d", 0.2), asked("r1", None, "x", 0.1)]  # fmt: skip
    found = failures(*load(RUN, better)[:2])
    changes = found.changes("A", "B").set_index("query_id")[["baseline", "candidate"]]
    assert changes.loc["a2"].tolist() == ["generation fault", "right"]
    table = found.transitions("A", "B")
    assert len(changes) == table.to_numpy().sum() == 12
    assert table.loc["retrieval fault", "generation fault"] == 1
    assert table.loc["memory", "missing"] == 1
    pd.testing.assert_frame_equal(found.transitions(), table)
    with refused("C", "A", "B", field="run"):
        found.transitions("A", "C")


def test_repeats_of_a_system_are_one_row_whose_intervals_count_queries():
    scores, golden, _ = load(RUN, RUN)
    alone, repeats = load(RUN)[0], {"system": ["A", "B"]}
    for kind, column in ((failures, "cause"), (refusals, "decision")):
        one, two = kind(alone, golden), kind(scores, golden, repeats=repeats)
        first, both = (found.table.set_index(column) for found in (one, two))
        assert set(both["run_id"]) == {"system"}
        assert (both[["n", "n_total"]] == 2 * first[["n", "n_total"]]).all(axis=None)
        names = ["share", "low", "high"]
        pd.testing.assert_frame_equal(both[names], first[names])
    assert two.detection["n"].tolist() == [2 * one.detection["n"].iloc[0]]
    names = ["coverage_low", "coverage_high", "answered"]
    pd.testing.assert_frame_equal(one.quality[names], two.quality[names])
    with refused("A", "B", field="run"):
        failures(pd.concat([scores, alone.assign(run_id="C")]), golden).transitions()
