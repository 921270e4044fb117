"""Stored judgments as columns: whole-answer values, RAGAS's formulas over parts, failures."""

import math
from dataclasses import replace

import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.scoring.summary import summarize
from ragscore.stats import mean_interval

HITS = [hit("c1", "d", 1), hit("c2", "e", 2), hit("c3", "f", 3), hit("7", "g", 4)]


QUERIES = ("q1", "q2", "q3")


def judgment(query, criterion, item, value, further=None):
    own = {"run_id": "r", "query_id": query, "criterion": criterion, "item": item, "value": value}
    return own | (further or {})


@pytest.fixture
def judged(write_run):
    """Results of answered queries with these judgments; `more` is in every record."""

    def results(*rows, queries=QUERIES, **more):
        records = [record(name, HITS, answer=answer("text"), **more) for name in queries]
        judgments = from_records([judgment(*row) for row in rows], "judgments")
        return replace(rs.load_results(write_run("r", records, k=10)), judgments=judgments)

    return results


@pytest.fixture
def golden():
    return rs.load_golden({name: ["d"] for name in QUERIES})


def of(results, golden, name):
    return rs.score(results, golden, [name])[name].dropna().to_dict()


ONCE, AGAIN, LOST = {"repeat": 1}, {"repeat": 2}, {"repeat": 2, "state": "judge_failed"}


VALUES = [
    *(
        (name, [("a", 1), ("b", 0), ("c", 1)], 2 / 3)  # the value of parts is their mean
        for name in ("faithfulness", "context_recall", "answer_relevance", "key_facts")
    ),
    ("answer_relevance", [("a", -0.5)], -0.5),
    ("faithfulness", [("a", 1), ("", 0.25)], 0.25),  # a value of the whole answer goes first
    ("faithfulness", [("a", 1), ("", None)], None),  # stored as not measurable
    # relevant at 1 and 3 of 4: (1/1 + 2/3) / 2; items in any order, as ranks or as chunk ids
    ("context_precision", [("3", 1), ("1", 1), ("4", 0), ("2", 0)], 5 / 6),
    # "7" is the chunk of rank 4, not rank 7
    ("context_precision", [("c3", 1), ("c1", 1), ("7", 0), ("c2", 0)], 5 / 6),
    # ranks 1, 4 and 5: (1/2 + 2/3) / 2
    ("context_precision", [("c1", 0), ("7", 1), ("5", 1)], 7 / 12),
    ("context_precision", [("1", 0)], 0),
    # passes of 1 and 0, though two of three verdicts are 1
    ("faithfulness", [("a", 1, ONCE), ("b", 1, ONCE), ("a", 0, AGAIN)], 0.5),
    ("judge_correctness", [("", 5, ONCE), ("", 2, AGAIN)], 3.5),
    # a repeat that failed leaves the other ones
    ("faithfulness", [("a", 1, ONCE), ("b", 0, ONCE), ("a", None, LOST)], 0.5),
]


def test_judgments_of_parts_and_repeats_make_one_value(judged):
    rows = [(f"q{n}", name, *part) for n, (name, parts, _) in enumerate(VALUES) for part in parts]
    queries = [f"q{n}" for n in range(len(VALUES))]
    golden = rs.load_golden({name: ["d"] for name in queries})
    scores = rs.score(judged(*rows, queries=queries), golden, [*{name for name, *_ in VALUES}])
    found = [scores.loc[query, name] for query, (name, *_) in zip(queries, VALUES, strict=True)]
    expected = [math.nan if value is None else value for *_, value in VALUES]
    assert found == pytest.approx(expected, nan_ok=True)


def test_results_without_judgments_have_no_judged_values(pair):
    scores = rs.score(*pair, ["faithfulness", "judge_failed"])
    assert scores.iloc[:, 3:].isna().all(axis=None)


def test_what_is_not_measurable_is_left_out_of_the_mean(judged, golden):
    # SEEDS F.5.10: RAGAS values 1, .5 and not measurable -> n 2, mean .75
    values = [("q1", "", 1), ("q2", "a", 1), ("q2", "b", 0), ("q3", "", None)]
    results = judged(*((query, "faithfulness", item, value) for query, item, value in values))
    row = summarize(rs.score(results, golden, ["faithfulness"]), golden).iloc[0]
    assert (row["n"], row["mean"]) == (2, 0.75)


@pytest.mark.parametrize(
    ("item", "more", "expected"),
    [("a", {}, {}), ("", {}, {"q1": 4}), ("", {"error": "timeout"}, {})],
)
def test_points_have_no_parts_and_a_failed_query_no_value(judged, golden, item, more, expected):
    name = "judge_groundedness"
    assert of(judged(("q1", name, item, 4), **more), golden, name) == expected


def test_intervals_of_points_are_those_of_their_range(judged, golden):
    points = {"q1": 4, "q2": 5, "q3": 3}
    rows = [(name, "judge_correctness", "", value) for name, value in points.items()]
    row = summarize(rs.score(judged(*rows), golden, ["judge_correctness"]), golden).iloc[0]
    low, high = mean_interval([*points.values()], "bounded", bounds=(0, 5))
    assert (row["low"], row["high"]) == pytest.approx((low[0], high[0])) and row["high"] > 1
