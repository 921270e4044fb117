"""Nuggets: key facts of an importance or a weight, and three-way verdicts on them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from plausible_runs import put

import ragscore as rs
from tests.messages import refused

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
    results = rs.load_results([{"run_id": "a", "query_id": one, "answer": "x"} for one in "qrs"])
    verdicts = pd.DataFrame({"query_id": [*"qqqrrrsss"], "item": [*"123"] * 3})
    verdicts["value"] = [1.0, 1, 0, 1, 0, 1, 0, 0, 1]
    results = replace(results, judgments=verdicts.assign(run_id="a", criterion="nuggets"))
    scores = rs.evaluate(results, golden, "nugget_rubric").scores["nugget_rubric"]
    assert scores.to_dict() == {"q": 1.0, "r": 0.25, "s": 0.0}


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
