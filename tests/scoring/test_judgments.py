"""Stored judgments as columns: whole answers, RAGAS's formulas over parts, nuggets, failures."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import EXAMPLES, answer, hit, record
from hypothesis import given, settings
from hypothesis import strategies as st
from plausible_runs import put

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.scoring.summary import summarize
from ragscore.stats import mean_interval
from tests.messages import refused

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
    # the first and the third of 4: (1/1 + 2/3) / 2; items in any order, as ranks or as chunk ids
    ("context_precision", [("10", 1), ("1", 1), ("11", 0), ("2", 0)], 5 / 6),
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
    labels = [*{name for name, *_ in VALUES}, "judge_failed"]
    scores = rs.score(judged(*rows, queries=queries), golden, labels)
    found = [scores.loc[query, name] for query, (name, *_) in zip(queries, VALUES, strict=True)]
    expected = [math.nan if value is None else value for *_, value in VALUES]
    assert found == pytest.approx(expected, nan_ok=True)
    lost = [LOST in [more for _, _, *own in parts for more in own] for _, parts, _ in VALUES]
    assert scores["judge_failed"].tolist() == lost


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


# Nuggets: key facts of an importance or a weight, and three-way verdicts on them

DATA = Path(__file__).parents[3] / "shared" / "data" / "trec-rag25-nuggets"
VERDICTS = ("support", "partial_support", "not_support")


def assigned(nuggets, **about):
    """Return a line of AutoNuggetizer: nuggets are (text, importance, verdict or None)."""
    rows = [
        {"text": text, "importance": importance} | ({"assignment": one} if one else {})
        for text, importance, one in nuggets
    ]
    return {"qid": "q", "query": "?", "answer_text": "x", "run_id": "a", "nuggets": rows} | about


@pytest.fixture
def evaluate(tmp_path):
    def evaluate(*lines):
        file = put(tmp_path, lines, "assigned.jsonl")
        return rs.evaluate(file, file, "all")

    return evaluate


def independent(nuggets):
    """Work the scores out as the track defines them, nugget by nugget."""
    scores = {}
    for partial, suffix in ((0.5, ""), (0.0, "_strict")):
        counts = {"support": 1.0, "partial_support": partial, "not_support": 0.0}
        vital, okay = (
            [counts[verdict] for _, importance, verdict in nuggets if importance == kind]
            for kind in ("vital", "okay")
        )
        weights = len(vital) + len(okay) / 2
        scores[f"nugget_all{suffix}"] = sum(vital + okay) / len(nuggets)
        scores[f"nugget_vital{suffix}"] = sum(vital) / len(vital) if vital else np.nan
        scores[f"nugget_weighted{suffix}"] = (sum(vital) + sum(okay) / 2) / weights
    return scores


NUGGET = st.tuples(st.sampled_from(["vital", "okay"]), st.sampled_from(VERDICTS))


@settings(max_examples=-(-EXAMPLES // 4))
@given(st.lists(st.lists(NUGGET, min_size=1, max_size=12), min_size=1, max_size=6))
def test_scores_are_those_of_an_independent_port(tmp_path_factory, drawn):
    answers = [[(f"fact {n}", *one) for n, one in enumerate(nuggets)] for nuggets in drawn]
    lines = [assigned(nuggets, qid=f"q{n}") for n, nuggets in enumerate(answers)]
    file = put(tmp_path_factory.mktemp("nuggets"), lines, "a.jsonl")
    expected = pd.DataFrame(map(independent, answers))
    scores = rs.evaluate(file, file, list(expected)).scores[list(expected)]
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


MIXED = [("a", "vital", "support"), ("b", "vital", "partial_support"), ("c", "okay", "not_support")]


def test_by_hand_and_without_a_value_where_a_verdict_is_missing(evaluate):
    lines = assigned(MIXED), assigned([*MIXED[:2], ("c", "okay", None)], qid="r")
    ev = evaluate(*lines)
    by_hand = {
        "nugget_all": 1.5 / 3, "nugget_all_strict": 1 / 3, "nugget_vital": 0.75,
        "nugget_vital_strict": 0.5, "nugget_weighted": 1.5 / 2.5,
    }  # fmt: skip
    whole, part = ev.scores.loc["q"], ev.scores.loc["r"]
    assert whole[list(by_hand)].to_dict() == pytest.approx(by_hand)
    assert pd.isna(part["nugget_all"]) and part["nugget_vital"] == 0.75
    assert "nugget_all" in ev.primary and pd.isna(whole["nugget_rubric"])
    table = rs.extras.nuggets(ev).table.set_index("metric")
    assert table.loc["nugget_all", ["mean", "n", "n_unjudged"]].tolist() == [0.5, 1, 1]
    alone = rs.extras.nuggets(evaluate(lines[1])).table
    assert "nugget_all" not in alone["metric"].tolist()


def test_weights_below_zero_cost_and_a_share_stays_within_0_and_1():
    facts = [{"text": "a", "weight": 3}, {"text": "b", "weight": 1}, {"text": "c", "weight": -2}]
    golden = [{"id": one, "expected_key_facts": facts} for one in "qrs"]
    golden += [{"id": "t", "expected_key_facts": [*facts[:2], {"text": "of no weight"}]}]
    results = rs.load_results([{"run_id": "a", "query_id": one, "answer": "x"} for one in "qrst"])
    # a verdict is about the fact of its text, else of its number
    verdicts = pd.DataFrame({"query_id": [*"qqqrrrsssttt"], "item": [*"321", *"123" * 3]})
    verdicts["item_text"] = [*"abc"] + [None] * 9
    verdicts["value"] = [1.0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1, 1]
    results = replace(results, judgments=verdicts.assign(run_id="a", criterion="nuggets"))
    scores = rs.evaluate(results, golden, "nugget_rubric").scores["nugget_rubric"]
    assert scores.fillna(-1).to_dict() == {"q": 1.0, "r": 0.25, "s": 0.0, "t": -1}


def test_facts_that_all_systems_miss_come_vital_ones_first(evaluate):
    lost = [("a", "okay", "not_support"), ("b", "vital", "not_support"), ("c", "vital", "support")]
    other = [(text, importance, "not_support") for text, importance, _ in lost]
    found = rs.extras.nuggets(evaluate(assigned(lost), assigned(other, run_id="b")))
    assert found.missed["text"].tolist() == ["b", "a"]
    row = found.per_nugget.set_index("text").loc["c"]
    assert row[["n", "n_support", "n_partial", "n_not", "share"]].tolist() == [2, 1, 0, 1, 0.5]
    assert "no answer supports 2 (1 vital)" in str(found)


def test_verdicts_of_several_judges_are_averaged(evaluate):
    ev = evaluate(assigned([("a", "vital", "support")]))
    again = ev.results.judgments.assign(judge="another", value=0.5, verdict="partial_support")
    both = pd.concat([ev.results.judgments, again], ignore_index=True)
    row = rs.evaluate(replace(ev.results, judgments=both), ev.golden, "all").scores.iloc[0]
    assert (row["nugget_all"], row["nugget_all_strict"]) == (0.75, 0.5)


def test_importance_and_weight_come_back_from_our_file(tmp_path):
    facts = [{"text": "a", "importance": "vital"}, {"text": "b", "weight": -1.5}, {"text": "c"}]
    golden = rs.load_golden([{"id": "q", "expected_key_facts": facts}])
    for name in ("g.yaml", "g.jsonl"):
        pd.testing.assert_frame_equal(
            rs.load_golden(golden.save(tmp_path / name)).checks, golden.checks
        )
    assert golden.checks["importance"].fillna("").tolist() == ["vital", "", ""]


@pytest.mark.parametrize(
    ("fact", "field"),
    [
        ({"text": "a", "importance": "high"}, ""), ({"importance": "vital"}, ""),
        ({"text": "a", "own": 1}, ""), ({"text": "a", "weight": "x"}, ".weight"),
        ({"text": ["a"]}, ".text"),
    ],
)  # fmt: skip
def test_another_key_fact_is_refused(fact, field, tmp_path):
    file = tmp_path / "golden.jsonl"
    file.write_text(json.dumps({"id": "q", "query": "?", "expected_key_facts": [fact]}) + "\n")
    with refused(file="golden.jsonl", field=f"expected_key_facts{field}"):
        rs.load_golden(file)


@pytest.mark.parametrize(
    ("nugget", "named", "field"),
    [
        (("a", "vital", "maybe"), "maybe", "nuggets.1.assignment"),
        (("a", "high", "support"), "high", "key_facts"),
    ],
)
def test_another_verdict_or_importance_is_refused(evaluate, nugget, named, field):
    with refused(named, field=field):
        evaluate(assigned([nugget]))


@pytest.mark.skipif(not DATA.exists(), reason="needs nuggets beside the checkout")
def test_nuggets_of_22_topics():
    golden = rs.load_golden(DATA / "rag25-dev-nuggets.jsonl")
    assert len(golden.queries) == 22
    assert golden.checks["importance"].value_counts().to_dict() == {"vital": 925, "okay": 330}
