"""Refusing as a decision, what a threshold would change, and whose fault a wrong answer is."""

import numpy as np
import pandas as pd
import pytest
from conftest import scores_of
from scipy.stats import binomtest

import ragscore as rs
from ragscore.analysis.extras.score_threshold import curves_of
from ragscore.analysis.failure_causes import failures
from ragscore.analysis.refusals import refusals
from ragscore.scoring.summary import summarize
from tests.messages import refused, warned

# Answerable a1 to a8 (a6 without a text to check), r1 to r3 that should be refused, u unlabelled.
ANSWERABLE = [
    {"id": f"a{n}", "query": "?", "expected_doc_ids": ["d"],
     "must_contain": [] if n == 6 else ["yes"]}
    for n in range(1, 9)
]  # fmt: skip
GOLDEN = [
    *ANSWERABLE,
    *({"id": f"r{n}", "query": "?", "answerable": False} for n in (1, 2, 3)),
    {"id": "u", "query": "?"},
]


def asked(query_id, text, doc, score):
    """A response that hit if its document is d; no text: it refused."""
    answer = {"answer": text or "I can't say.", "refused": text is None}
    hits = {"doc_id": [doc], "score": [score]} if doc else {"doc_id": []}
    return {"query_id": query_id, **answer, **hits}


RUN = [
    asked("a1", "yes", "d", 0.9), asked("a2", "no", "d", 0.8), asked("a3", "yes", "x", 0.7),
    asked("a4", "no", "x", 0.2), asked("a5", None, "d", 0.6),
    asked("a6", "so", "d", 0.5), {"query_id": "a7", "doc_id": [], "error": "boom"},
    asked("r1", None, "x", 0.1), asked("r2", "maybe", "x", 0.3), asked("r3", "sure", "x", 0.75),
    asked("u", "yes", "x", 0.4),
]  # fmt: skip


METRICS = ["hit@1", "hit@5", "answer_checks", "refusal_correct", "false_refusal", "empty"]


def load(*runs, metrics=METRICS, k=10, kinds="cosine"):
    """Scores, golden set and results of runs A, B and C, given as their records."""
    named = zip("ABC", runs, strict=False)
    results = rs.load_results([one | {"run_id": run} for run, own in named for one in own])
    results.runs["k"], results.hits["score_kind"] = k, kinds
    golden = rs.load_golden(GOLDEN)
    return rs.score(results, golden, metrics), golden, results


# an unlabelled question and missing rows are meant
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*carry no expectation", "ignore:.*unlabelled", "ignore:golden queries without a row",
    "ignore:ids of",
)  # fmt: skip


@pytest.fixture(scope="module")
def scored():
    return load(RUN)[:2]


def decision_counts(table):
    rows = table[table["n"] > 0].set_index("decision")[["n", "n_total"]]
    return {name: tuple(counts) for name, counts in rows.T.to_dict("list").items()}


def test_the_two_by_two_has_the_shares_of_each_kind_of_question(scored):
    table = refusals(*scored).table
    assert decision_counts(table) == {
        "answered": (5, 6), "over-refusal": (1, 6), "right answer": (2, 4), "wrong answer": (2, 4),
        "unchecked answer": (1, 5),
        "right refusal": (1, 3), "unsupported answer": (2, 3), "unlabelled": (1, 12),
        "failed": (1, 12), "missing": (1, 12),
    }  # fmt: skip
    row = table.set_index("decision").loc["over-refusal"]
    wilson = binomtest(1, 6).proportion_ci(method="wilson")
    assert row[["share", "low", "high"]].tolist() == pytest.approx([1 / 6, wilson.low, wilson.high])
    assert (
        repr(refusals(*scored))
        == """\
Refusals of 1 run; right answer: answer_checks ≥ 1

decision                       A
answered            5 of 6 (83%)
right answer        2 of 4 (50%)
wrong answer        2 of 4 (50%)
unchecked answer    1 of 5 (20%)
over-refusal        1 of 6 (17%)
right refusal       1 of 3 (33%)
unsupported answer  2 of 3 (67%)
unlabelled          1 of 12 (8%)
failed              1 of 12 (8%)
missing             1 of 12 (8%)

Frames: .table, .decisions, .quality, .detection; methods: .plot()"""
    )


def test_every_row_has_one_decision():
    scores, golden, _ = load(RUN, [{"query_id": one, "doc_id": []} for one in ("a1", "elsewhere")])
    decisions = refusals(scores, golden).decisions
    assert len(decisions) == len(scores)
    second = decisions[decisions["run_id"] == "B"].set_index("query_id")["decision"]
    assert second[["a1", "elsewhere"]].tolist() == ["undecided", "extra"]
    assert (second.drop(["a1", "elsewhere"]) == "missing").all()


def test_without_a_metric_of_the_answers_they_are_unchecked():
    scores, golden, _ = load(RUN, metrics=["refusal_correct", "false_refusal"])
    assert decision_counts(refusals(scores, golden).table)["unchecked answer"] == (5, 5)


@pytest.mark.parametrize(
    ("how", "wrong"),
    [({}, "wrong answer"), ({"right": "judge_correctness", "threshold": 3}, "right answer")],
)
def test_what_is_right_is_a_judges_four_or_any_column_above_a_threshold(scored, how, wrong):
    scores, golden = scored
    judged = scores.assign(judge_correctness=[5.0, 3.0, 4.0, np.nan, np.nan, 3.9] + [np.nan] * 6)
    found = refusals(judged, golden, **how).decisions.set_index("query_id")["decision"]
    assert found[["a1", "a3"]].tolist() == ["right answer"] * 2
    assert found[["a2", "a6", "a4"]].tolist() == [wrong, wrong, "unchecked answer"]


def test_a_metric_that_only_one_run_has_does_not_judge_both():
    scores, golden, _ = load(RUN, RUN)
    only_a = scores.assign(judge_correctness=np.where(scores["run_id"] == "A", 5.0, np.nan))
    assert set(refusals(only_a, golden).table["right_by"]) == {"answer_checks ≥ 1"}


@pytest.mark.parametrize(
    ("right", "without", "named", "field"),
    [
        ("judge_correctness", [], ["judge_correctness"], "right"),
        ("empty", [], ["empty", "lower"], "right"),
        ("mine", [], ["mine"], "threshold"),
        (None, ["refusal_correct", "false_refusal"], ["refusal_correct"], "scores"),
    ],
)
def test_a_metric_that_can_not_say_right_is_refused(scored, right, without, named, field):
    scores, golden = scored
    with refused(*named, field=field):
        refusals(scores.assign(mine=1.0).drop(columns=without), golden, right=right)


@pytest.mark.parametrize(
    ("metric", "values", "overall", "coverage", "counts"),
    [
        # Answers a1 to a4: 2 of 4 right; a5 has a text to check and was refused: 2 of 5; a6 has
        # none. a7 failed, a8 is missing.
        ("answer_checks", [1, 0, 1, 0], 2 / 5, 4 / 5, [4, 1, 0, 2]),
        # Answered a1 to a4, a6: hits a1, a2, a6; a5 hit and refused.
        ("hit@1", [1, 1, 0, 0, 1], 3 / 6, 5 / 6, [5, 1, 0, 1]),
        # Two of five answers judged: mean 4; with one refused question 8 / 3; coverage 5 / 6.
        ("judge_correctness", [5, 3], 8 / 3, 5 / 6, [2, 1, 3, 2]),
    ],
)
def test_a_refused_question_counts_as_zero_overall(
    scored, metric, values, overall, coverage, counts
):
    scores, golden = scored
    scores = scores.assign(judge_correctness=[5.0, 3.0] + [np.nan] * 10)
    row = refusals(scores, golden, metric).quality.iloc[0]
    figures = row[["answered", "overall", "coverage"]].tolist()
    assert figures == pytest.approx([np.mean(values), overall, coverage])
    column = scores_of(metric, A=values)
    assert row[["answered_low", "answered_high"]].tolist() == pytest.approx(
        summarize(column)[["low", "high"]].iloc[0].tolist()
    )
    assert row[["n_answered", "n_refused", "n_unmeasured", "n_failed"]].tolist() == counts
    n = sum(counts[:3])
    wilson = binomtest(n - 1, n).proportion_ci(method="wilson")
    ends = row[["coverage_low", "coverage_high"]].tolist()
    assert ends == pytest.approx([wilson.low, wilson.high])


def test_a_run_that_refuses_everything_has_no_quality_of_answers():
    scores, golden, _ = load([asked("a1", None, "d", 0.9)])
    row = refusals(scores, golden, "answer_checks").quality.iloc[0]
    assert np.isnan(row["answered"]) and row[["overall", "coverage"]].tolist() == [0, 0]


# What a threshold on the top score would change


def test_a_threshold_refuses_answer_by_answer():
    found = curves_of(*load(RUN))
    curve, area = found.curve, found.areas.iloc[0]
    # By score: a1 .9 right, a2 .8 wrong, r3 .75 unsupported, a3 .7 right, r2 .3 unsupported, a4 .2
    # wrong; a5 and r1 stay refused, a6 is unchecked.
    names = ["threshold", "n_answered", "n_wrong", "n_unsupported", "n_over_refusals", "n"]
    assert curve[[*names, "n_left_out", "better"]].to_numpy().tolist() == [
        [-np.inf, 6, 2, 2, 1, 8, 1, "higher"], [0.3, 5, 1, 2, 2, 8, 1, "higher"],
        [0.7, 4, 1, 1, 2, 8, 1, "higher"], [0.75, 3, 1, 1, 3, 8, 1, "higher"],
        [0.8, 2, 1, 0, 3, 8, 1, "higher"], [0.9, 1, 0, 0, 4, 8, 1, "higher"],
    ]  # fmt: skip
    risks = [4 / 6, 3 / 5, 2 / 4, 2 / 3, 1 / 2, 0]
    # of 8 questions, of 5 that can be answered, of 3 that should be refused
    shares = {"coverage": curve["n_answered"] / 8, "over_refusal": curve["n_over_refusals"] / 5,
              "unsupported": curve["n_unsupported"] / 3, "risk": risks}  # fmt: skip
    for name, expected in shares.items():
        assert curve[name].tolist() == pytest.approx([*expected])
    # the area is the mean risk over all coverages; at best both right answers come first
    best = (0 + 0 + 1 / 3 + 2 / 4 + 3 / 5 + 4 / 6) / 6
    areas = area[["aurc", "aurc_best", "risk"]].tolist()
    assert areas == pytest.approx([sum(risks) / 6, best, 4 / 6])


NEAR, FAR = ({"doc_id": ["d", "d"], "score": [by, 2 * by]} for by in (0.1, 0.7))


@pytest.mark.parametrize(
    ("run", "kind", "expected"),
    [
        # equal scores are refused together
        ([asked("a1", "yes", "d", 0.5), asked("a2", "no", "d", 0.5), asked("a3", "yes", "d", 0.9)],
         "cosine", [["higher", -np.inf, 3, 1 / 3], ["higher", 0.9, 1, 0]]),
        # a question without hits is refused at any threshold
        ([asked("a1", "yes", "d", 0.5), asked("a2", "no", None, 0)],
         "cosine", [["higher", -np.inf, 2, 0.5], ["higher", 0.5, 1, 0]]),
        # a distance is better the smaller it is
        ([asked("a1", "yes", "d", 0) | NEAR, asked("a2", "no", "d", 0) | FAR],
         "l2", [["lower", np.inf, 2, 0.5], ["lower", 0.1, 1, 0]]),
    ],
)  # fmt: skip
def test_a_threshold_goes_by_the_top_score(run, kind, expected):
    curve = curves_of(*load(run, kinds=kind)).curve
    found = curve[["better", "threshold", "n_answered", "risk"]].to_numpy().tolist()
    assert found == [[*row[:3], pytest.approx(row[3])] for row in expected]


def test_one_question_of_each_kind_has_shares_of_one():
    curve = curves_of(*load([asked("a1", "yes", "d", 0.5), asked("r1", "so", "x", 0.7)])).curve
    shares = curve[["threshold", "over_refusal", "unsupported", "risk"]].to_numpy().tolist()
    assert shares == [[-np.inf, 0, 1, 0.5], [0.7, 1, 1, 1]]


def test_a_threshold_may_take_the_place_of_the_runs_own_refusals():
    of = load(RUN)
    curve = curves_of(*of, right="hit@1", refusals="replaced").curve
    # Known of all nine decided questions: a1, a2, a5, a6 hit; a3, a4 miss; r1 to r3 are never
    # right.
    assert curve["n_answered"].tolist() == list(range(9, 0, -1))
    assert curve["risk"].iloc[0] == pytest.approx(5 / 9)
    assert curve["over_refusal"].iloc[0] == 0
    with refused("refused", field="right"):
        curves_of(*of, refusals="replaced")


def test_a_run_without_scores_or_with_several_kinds_has_no_curve_and_says_so():
    no_score = [asked("a1", "yes", "d", None)]
    two_kinds = [asked("a1", "yes", "d", 0.9), asked("a2", "no", "d", 14.0)]
    kinds = ["cosine"] * 12 + ["bm25"]
    scores, golden, results = load(RUN, no_score, two_kinds, kinds=kinds)
    with warned("B, C", "scores", "kinds"):
        found = curves_of(scores, golden, results)
    assert set(found.curve["run_id"]) == {"A"}
    with warned("B", "scores"):
        none = curves_of(scores[scores["run_id"] == "B"], golden, results.select("B"))
    assert none.curve.empty and none.areas.empty
    assert none.curve.columns.equals(found.curve.columns)


def hits_only(n):
    """A run of hits alone: every second query is found, at falling scores."""
    return [
        {"query_id": f"q{i}", "doc_id": f"d{i}" if i % 2 else "other", "score": float(n - i)}
        for i in range(n)
    ]


def test_a_run_without_answers_answers_every_query_with_hits():
    golden = rs.load_golden({f"q{i}": [f"d{i}"] for i in range(4)})
    found = rs.extras.risk_coverage(rs.evaluate(hits_only(4), golden), right="hit@1")
    # best scores first: q0 wrong, q1 right, q2 wrong, q3 right; the loosest threshold first
    assert found.curve[["n", "n_answered", "n_wrong", "risk"]].to_numpy().tolist() == [
        [4, 4, 2, 1 / 2], [4, 3, 2, pytest.approx(2 / 3)], [4, 2, 1, 1 / 2], [4, 1, 1, 1],
    ]  # fmt: skip
    ev = rs.evaluate(hits_only(4), rs.Golden(queries=golden.queries.drop(columns="answerable")))
    with warned("answerable"):
        assert rs.extras.risk_coverage(ev, right="hit@1").curve.empty


def test_a_run_without_answers_refuses_where_it_has_no_hit():
    expected = {"q0": ["d0"], "q1": ["d1"], "q2": []}
    golden = [{"id": one, "expected_doc_ids": docs} for one, docs in expected.items()]
    ev = rs.evaluate({"q0": {"d0": 1.0}, "q1": {}, "q2": {"x": 0.5}}, golden)
    loosest = rs.extras.risk_coverage(ev, right="hit@1").curve.iloc[0]
    counts = ["n", "n_answered", "n_wrong", "n_unsupported", "n_over_refusals"]
    assert loosest[counts].tolist() == [3, 2, 0, 1, 1]


# Retrieval × answer: whose fault a wrong answer is, and how that changed


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
    assert len(changes) == 12
    assert (
        table.to_csv() + repr(found)
        == """\
baseline,right,generation fault,memory,retrieval fault,refused after hit,unmeasured,right refusal,unsupported answer,unlabelled,failed,missing
right,1,0,0,0,0,0,0,0,0,0,0
generation fault,1,0,0,0,0,0,0,0,0,0,0
memory,0,0,0,0,0,0,0,0,0,0,1
retrieval fault,0,1,0,0,0,0,0,0,0,0,0
refused after hit,0,0,0,0,0,0,0,0,0,0,1
unmeasured,0,0,0,0,0,0,0,0,0,0,1
right refusal,0,0,0,0,0,0,1,0,0,0,0
unsupported answer,0,0,0,0,0,0,0,0,0,0,2
unlabelled,0,0,0,0,0,0,0,0,0,0,1
failed,0,0,0,0,0,0,0,0,0,0,1
missing,0,0,0,0,0,0,0,0,0,0,1
Failure causes of 2 runs; hit: hit@5, right answer: answer_checks ≥ 1

cause                           A              B
right                1 of 4 (25%)   2 of 3 (67%)
generation fault     1 of 4 (25%)   1 of 3 (33%)
memory               1 of 4 (25%)    0 of 3 (0%)
retrieval fault      1 of 4 (25%)    0 of 3 (0%)
refused after hit   1 of 1 (100%)              —
right refusal        1 of 3 (33%)  1 of 1 (100%)
unsupported answer   2 of 3 (67%)    0 of 1 (0%)
unmeasured           1 of 12 (8%)   0 of 12 (0%)
unlabelled           1 of 12 (8%)   0 of 12 (0%)
failed               1 of 12 (8%)   0 of 12 (0%)
missing              1 of 12 (8%)  8 of 12 (67%)

Frames: .table, .per_query; methods: .changes(baseline, candidate), .transitions(baseline, candidate), .plot()"""  # noqa: E501
    )
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
