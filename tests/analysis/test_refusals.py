"""Refusing as a decision.

The 2 × 2, quality beside coverage, and what a threshold on the top score would change.
"""

import warnings

import numpy as np
import pytest
from conftest import answer, hit, record
from scipy.stats import binomtest

import ragscore as rs
from ragscore.analysis.extras.score_threshold import curves_of
from ragscore.analysis.refusals import refusals
from tests.messages import refused, warned

# Answerable a1 to a8 (a6 without a text to check), r1 to r3 that should be refused, u unlabelled.
ANSWERABLE = [
    {
        "id": f"a{n}",
        "query": "?",
        "expected_doc_ids": ["d"],
        "must_contain": [] if n == 6 else ["yes"],
    }
    for n in range(1, 9)
]
GOLDEN = [
    *ANSWERABLE,
    *({"id": f"r{n}", "query": "?", "answerable": False} for n in (1, 2, 3)),
    {"id": "u", "query": "?"},
]


def hits_of(doc, score, kind="cosine"):
    return [hit("c", doc, 1, retrieval={"fusion_score": score}, score_kind=kind)] if doc else []


def asked(query_id, text, doc, score, kind="cosine", **more):
    """A response that hit if its document is d; no text: it refused."""
    return record(
        query_id,
        hits_of(doc, score, kind),
        answer=answer(text or "I can't say.", grounded=text is not None),
        **more,
    )


RUN = [
    asked("a1", "yes", "d", 0.9), asked("a2", "no", "d", 0.8), asked("a3", "yes", "x", 0.7),
    asked("a4", "no", "x", 0.2), asked("a5", None, "d", 0.6),
    asked("a6", "so", "d", 0.5), record("a7", [], error="boom"),
    asked("r1", None, "x", 0.1), asked("r2", "maybe", "x", 0.3), asked("r3", "sure", "x", 0.75),
    asked("u", "yes", "x", 0.4),
]  # fmt: skip


@pytest.fixture
def load(write_golden, write_run):
    def load(*runs, metrics=None, golden=GOLDEN, k=None):
        with warnings.catch_warnings():
            # an unlabelled question and missing rows are meant
            warnings.simplefilter("ignore", UserWarning)
            loaded = rs.load_golden(write_golden(golden))
            results = rs.load_results(
                [
                    write_run(name, records, **({"k": k} if k else {}))
                    for name, records in zip("ABC", runs, strict=False)
                ]
            )
            return rs.score(results, loaded, metrics), loaded, results

    return load


def decision_counts(table, run_id="A"):
    rows = table[table["run_id"] == run_id]
    return {
        name: (n, of)
        for name, n, of in zip(rows["decision"], rows["n"], rows["n_total"], strict=True)
        if n
    }


def test_the_two_by_two_has_the_shares_of_each_kind_of_question(load):
    scores, golden, _ = load(RUN)
    table = refusals(scores, golden).table
    assert decision_counts(table) == {
        "answered": (5, 6), "over-refusal": (1, 6), "right answer": (2, 4), "wrong answer": (2, 4),
        "unchecked answer": (1, 5),
        "right refusal": (1, 3), "unsupported answer": (2, 3), "unlabelled": (1, 12),
        "failed": (1, 12), "missing": (1, 12),
    }  # fmt: skip
    row = table[table["decision"] == "over-refusal"].iloc[0]
    wilson = binomtest(1, 6).proportion_ci(method="wilson")
    assert row[["share", "low", "high"]].tolist() == pytest.approx([1 / 6, wilson.low, wilson.high])
    assert set(table["right_by"]) == {"answer_checks ≥ 1"}


def test_every_row_has_one_decision(load):
    scores, golden, _ = load(RUN, [record("a1", []), record("elsewhere", [])])
    decisions = refusals(scores, golden).decisions
    assert len(decisions) == len(scores)
    second = decisions[decisions["run_id"] == "B"].set_index("query_id")["decision"]
    assert second[["a1", "elsewhere"]].tolist() == ["undecided", "extra"]
    assert (second.drop(["a1", "elsewhere"]) == "missing").all()


def test_without_a_metric_of_the_answers_they_are_unchecked(load):
    scores, golden, _ = load(RUN, metrics=["refusal_correct", "false_refusal"])
    assert decision_counts(refusals(scores, golden).table)["unchecked answer"] == (5, 5)


def test_what_is_right_is_a_judges_four_or_any_column_above_a_threshold(load):
    scores, golden, _ = load(RUN)
    judged = scores.assign(judge_correctness=[5.0, 3.0, 4.0, np.nan, np.nan, 3.9] + [np.nan] * 6)

    def decisions(**how):
        return refusals(judged, golden, **how).decisions.set_index("query_id")["decision"]

    found = decisions()
    assert set(found[["a1", "a3"]]) == {"right answer"}
    assert set(found[["a2", "a6"]]) == {"wrong answer"}
    assert found["a4"] == "unchecked answer"
    lenient = decisions(right="judge_correctness", threshold=3)
    assert set(lenient[["a2", "a6"]]) == {"right answer"}


def test_a_metric_that_only_one_run_has_does_not_judge_both(load):
    scores, golden, _ = load(RUN, RUN)
    only_a = scores.assign(judge_correctness=np.where(scores["run_id"] == "A", 5.0, np.nan))
    assert set(refusals(only_a, golden).table["right_by"]) == {"answer_checks ≥ 1"}


@pytest.mark.parametrize(
    ("right", "named", "field"),
    [
        ("judge_correctness", ["judge_correctness"], "right"),
        ("empty", ["empty", "lower"], "right"),
        ("mine", ["mine"], "threshold"),
    ],
)
def test_a_metric_that_can_not_say_right_is_refused(load, right, named, field):
    scores, golden, _ = load(RUN)
    with refused(*named, field=field):
        refusals(scores.assign(mine=1.0), golden, right=right)


def test_scores_without_metrics_of_refusals_are_refused(load):
    scores, golden, _ = load(RUN)
    with refused("refusal_correct", "false_refusal", field="scores"):
        refusals(scores.drop(columns=["refusal_correct", "false_refusal"]), golden)


def test_a_refused_question_counts_as_zero_overall(load):
    scores, golden, _ = load(RUN)
    row = refusals(scores, golden, "answer_checks").quality.iloc[0]
    # Answers a1 to a4: 2 of 4 right; a5 has a text to check and was refused: 2 of 5; a6 has none.
    # a7 failed, a8 is missing.
    assert row[["answered", "overall", "coverage"]].tolist() == pytest.approx([2 / 4, 2 / 5, 4 / 5])
    assert row[["n_answered", "n_refused", "n_unmeasured", "n_failed"]].tolist() == [4, 1, 0, 2]
    wilson = binomtest(4, 5).proportion_ci(method="wilson")
    assert row[["coverage_low", "coverage_high"]].tolist() == pytest.approx(
        [wilson.low, wilson.high]
    )


def test_quality_of_a_ranking_metric_knows_that_a_refusal_shows_no_hit(load):
    scores, golden, _ = load(RUN)
    row = refusals(scores, golden, ["hit@1"]).quality.iloc[0]
    # Answered a1 to a4, a6: hits a1, a2, a6; a5 hit and refused.
    assert row[["answered", "overall"]].tolist() == pytest.approx([3 / 5, 3 / 6])


def test_an_answer_without_a_judgment_is_apart_from_the_mean(load):
    scores, golden, _ = load(RUN)
    judged = scores.assign(judge_correctness=[5.0, 3.0] + [np.nan] * 10)
    row = refusals(judged, golden, "judge_correctness").quality.iloc[0]
    # Two of five answers judged: mean 4; with one refused question 8 / 3; coverage 5 / 6.
    assert row[["answered", "overall", "coverage"]].tolist() == pytest.approx([4, 8 / 3, 5 / 6])
    assert row[["n_answered", "n_refused", "n_unmeasured"]].tolist() == [2, 1, 3]


def test_a_run_that_refuses_everything_has_no_quality_of_answers(load):
    scores, golden, _ = load([asked("a1", None, "d", 0.9)])
    row = refusals(scores, golden, "answer_checks").quality.iloc[0]
    assert np.isnan(row["answered"]) and row["overall"] == 0 and row["coverage"] == 0


def test_a_threshold_refuses_answer_by_answer(load):
    scores, golden, results = load(RUN)
    curve = curves_of(scores, golden, results).curve
    # By score: a1 .9 right, a2 .8 wrong, r3 .75 unsupported, a3 .7 right, r2 .3 unsupported, a4 .2
    # wrong; a5 and r1 stay refused, a6 is unchecked.
    assert curve["threshold"].tolist() == [-np.inf, 0.3, 0.7, 0.75, 0.8, 0.9]
    counts = ["n_answered", "n_wrong", "n_unsupported", "n_over_refusals"]
    assert curve[counts].to_numpy().tolist() == [
        [6, 2, 2, 1], [5, 1, 2, 2], [4, 1, 1, 2], [3, 1, 1, 3], [2, 1, 0, 3], [1, 0, 0, 4],
    ]  # fmt: skip
    assert curve["risk"].tolist() == pytest.approx([4 / 6, 3 / 5, 2 / 4, 2 / 3, 1 / 2, 0])
    assert curve["coverage"].tolist() == pytest.approx([n / 8 for n in (6, 5, 4, 3, 2, 1)])
    assert curve["over_refusal"].tolist() == pytest.approx([n / 5 for n in (1, 2, 2, 3, 3, 4)])
    assert curve["unsupported"].tolist() == pytest.approx([n / 3 for n in (2, 2, 1, 1, 0, 0)])
    told = curve[["n", "n_left_out", "better"]].drop_duplicates()
    assert told.to_numpy().tolist() == [[8, 1, "higher"]]


def test_the_area_is_the_mean_risk_over_all_coverages(load):
    scores, golden, results = load(RUN)
    row = curves_of(scores, golden, results).areas.iloc[0]
    assert row["aurc"] == pytest.approx((0 + 1 / 2 + 2 / 3 + 2 / 4 + 3 / 5 + 4 / 6) / 6)
    # both right answers first
    assert row["aurc_best"] == pytest.approx((0 + 0 + 1 / 3 + 2 / 4 + 3 / 5 + 4 / 6) / 6)
    assert row["risk"] == pytest.approx(4 / 6)


def test_equal_scores_are_refused_together(load):
    scores, golden, results = load(
        [asked("a1", "yes", "d", 0.5), asked("a2", "no", "d", 0.5), asked("a3", "yes", "d", 0.9)]
    )
    found = curves_of(scores, golden, results)
    assert found.curve["n_answered"].tolist() == [3, 1]
    assert found.areas["aurc"].iloc[0] == pytest.approx((0 + 1 / 3 + 1 / 3) / 3)


def test_a_question_without_hits_is_refused_at_any_threshold(load):
    scores, golden, results = load([asked("a1", "yes", "d", 0.5), asked("a2", "no", None, 0)])
    curve = curves_of(scores, golden, results).curve
    assert curve[["threshold", "n_answered", "risk"]].to_numpy().tolist() == [
        [-np.inf, 2, 0.5],
        [0.5, 1, 0],
    ]


def test_a_threshold_may_take_the_place_of_the_runs_own_refusals(load):
    scores, golden, results = load(RUN)
    curve = curves_of(scores, golden, results, right="hit@1", refusals="replaced").curve
    # Known of all nine decided questions: a1, a2, a5, a6 hit; a3, a4 miss; r1 to r3 are never
    # right.
    assert curve["n_answered"].tolist() == list(range(9, 0, -1))
    assert curve["risk"].iloc[0] == pytest.approx(5 / 9)
    assert curve["over_refusal"].iloc[0] == 0
    with refused("refused", field="right"):
        curves_of(scores, golden, results, refusals="replaced")


def test_thresholds_of_different_kinds_of_scores_are_never_mixed(load):
    run = [
        asked("a1", "yes", "d", 0.9),
        asked("a2", "no", "d", 14.0, kind="bm25"),
        asked("a3", "no", None, 0),
    ]
    scores, golden, results = load(run)
    with warned("A", "kinds"):
        assert curves_of(scores, golden, results).curve.empty


def test_a_distance_is_better_the_smaller_it_is(load):
    near, far = (
        [hit("c", "d", rank, retrieval={"fusion_score": by * rank}, score_kind="l2")
         for rank in (1, 2)]
        for by in (0.1, 0.7)
    )  # fmt: skip
    scores, golden, results = load(
        [record("a1", near, answer=answer("yes")), record("a2", far, answer=answer("no"))]
    )
    curve = curves_of(scores, golden, results).curve
    assert curve[["better", "threshold", "n_answered", "risk"]].to_numpy().tolist() == [
        ["lower", np.inf, 2, 0.5],
        ["lower", 0.1, 1, 0.0],
    ]


def test_a_run_without_scores_has_no_curve_and_says_so(load):
    no_score = [record("a1", [hit("c", "d", 1, retrieval={})], answer=answer("yes"))]
    scores, golden, results = load(RUN, no_score)
    with warned("B", "score"):
        found = curves_of(scores, golden, results)
    assert set(found.curve["run_id"]) == {"A"}
    with warned("B", "score"):
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
    assert found.curve["n_answered"].tolist() == [4, 3, 2, 1]
    assert found.curve["n_wrong"].tolist() == [2, 2, 1, 1]
    assert found.curve["risk"].tolist() == pytest.approx([1 / 2, 2 / 3, 1 / 2, 1])
    assert found.curve["n"].tolist() == [4] * 4


def test_a_run_without_answers_refuses_where_it_has_no_hit():
    golden = rs.load_golden(
        [
            {"id": "q0", "query": "?", "expected_doc_ids": ["d0"]},
            {"id": "q1", "query": "?", "expected_doc_ids": ["d1"]},
            {"id": "q2", "query": "?", "expected_doc_ids": []},
        ]
    )
    source = {"q0": {"d0": 1.0}, "q1": {}, "q2": {"x": 0.5}}
    loosest = rs.extras.risk_coverage(rs.evaluate(source, golden), right="hit@1").curve.iloc[0]
    counts = ["n", "n_answered", "n_wrong", "n_unsupported", "n_over_refusals"]
    assert loosest[counts].tolist() == [3, 2, 0, 1, 1]


def test_without_labels_of_what_is_answerable_there_is_no_curve():
    golden = rs.load_golden({f"q{i}": [f"d{i}"] for i in range(4)})
    unlabelled = rs.Golden(queries=golden.queries.drop(columns="answerable"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ev = rs.evaluate(hits_only(4), unlabelled)
    with warned("answerable"):
        assert rs.extras.risk_coverage(ev, right="hit@1").curve.empty
