"""Nuggets: key facts of an importance or a weight, and three-way verdicts on them."""

import json
from pathlib import Path
from random import Random

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.scoring.metrics import TABLE
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
        file = tmp_path / "assigned.jsonl"
        file.write_text("".join(json.dumps(one) + "\n" for one in lines))
        return rs.evaluate(file, file, "all")

    return evaluate


def independent(nuggets):
    """Work the scores out as the track defines them, nugget by nugget."""
    scores = {}
    for strict, suffix in ((False, ""), (True, "_strict")):
        counts = {"support": 1.0, "partial_support": 0.0 if strict else 0.5, "not_support": 0.0}
        vital = [counts[verdict] for _, importance, verdict in nuggets if importance == "vital"]
        okay = [counts[verdict] for _, importance, verdict in nuggets if importance == "okay"]
        scores[f"nugget_all{suffix}"] = sum(vital + okay) / len(nuggets)
        scores[f"nugget_vital{suffix}"] = sum(vital) / len(vital) if vital else None
        scores[f"nugget_weighted{suffix}"] = (sum(vital) + sum(okay) / 2) / (
            len(vital) + len(okay) / 2
        )
    return scores


NUGGET = st.tuples(st.sampled_from(["vital", "okay"]), st.sampled_from(VERDICTS))


@given(st.lists(NUGGET, min_size=1, max_size=12))
def test_scores_are_those_of_an_independent_port(tmp_path_factory, drawn):
    nuggets = [(f"fact {n}", *one) for n, one in enumerate(drawn)]
    file = tmp_path_factory.mktemp("nuggets") / "a.jsonl"
    file.write_text(json.dumps(assigned(nuggets)) + "\n")
    scores = rs.evaluate(
        file, file, [name for name in TABLE if name.startswith("nugget_")]
    ).scores.iloc[0]
    for name, value in independent(nuggets).items():
        assert pd.isna(scores[name]) if value is None else scores[name] == pytest.approx(value)


MIXED = [("a", "vital", "support"), ("b", "vital", "partial_support"), ("c", "okay", "not_support")]


def test_by_hand(evaluate):
    ev = evaluate(assigned(MIXED))
    row = ev.scores.iloc[0]
    assert row["nugget_all"] == pytest.approx(1.5 / 3)
    assert row["nugget_all_strict"] == pytest.approx(1 / 3)
    assert (row["nugget_vital"], row["nugget_vital_strict"]) == (0.75, 0.5)
    assert row["nugget_weighted"] == pytest.approx(1.5 / 2.5)
    assert "nugget_all" in ev.primary and pd.isna(row["nugget_rubric"])


def test_what_has_no_verdict_leaves_no_value(evaluate):
    ev = evaluate(assigned([*MIXED[:2], ("c", "okay", None)]))
    row = ev.scores.iloc[0]
    assert pd.isna(row["nugget_all"]) and row["nugget_vital"] == 0.75
    table = rs.extras.nuggets(ev).table.set_index("metric")
    assert "nugget_all" not in table.index and table.loc["nugget_vital", "n_unjudged"] == 1
    two = evaluate(
        assigned(MIXED), assigned([("d", "vital", "support"), ("e", "okay", None)], qid="r")
    )
    row = rs.extras.nuggets(two).table.set_index("metric").loc["nugget_all"]
    assert (row["mean"], row["n"]) == (0.5, 1)


def test_weights_below_zero_cost_and_a_share_stays_within_0_and_1(tmp_path):
    facts = [{"text": "a", "weight": 3}, {"text": "b", "weight": 1}, {"text": "c", "weight": -2}]
    golden = rs.load_golden([{"id": one, "expected_key_facts": facts} for one in "qrs"])
    verdicts = {"q": (1, 1, 0), "r": (1, 0, 1), "s": (0, 0, 1)}
    rows = [
        {"run_id": "a", "query_id": query, "criterion": "nuggets", "item": str(n), "value": value}
        for query, values in verdicts.items()
        for n, value in enumerate(values, 1)
    ]
    runs = pd.DataFrame({"run_id": ["a"]})
    responses = pd.DataFrame({"run_id": "a", "query_id": list("qrs"), "answer": "x"})
    results = rs.Results(runs, responses, judgments=pd.DataFrame(rows).astype({"value": float}))
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
    results = rs.Results(ev.results.runs, ev.results.responses, judgments=both)
    row = rs.evaluate(results, ev.golden, "all").scores.iloc[0]
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
    "fact",
    [{"text": "a", "importance": "high"}, {"importance": "vital"}, {"text": "a", "own": 1}],
)  # fmt: skip
def test_another_key_fact_is_refused(fact, tmp_path):
    file = tmp_path / "golden.jsonl"
    file.write_text(json.dumps({"id": "q", "query": "?", "expected_key_facts": [fact]}) + "\n")
    with refused(file="golden.jsonl", field="expected_key_facts"):
        rs.load_golden(file)
    for part, value in (("weight", "x"), ("text", ["a"])):
        fact = {"text": "a", part: value}
        file.write_text(json.dumps({"id": "q", "query": "?", "expected_key_facts": [fact]}))
        with refused(file="golden.jsonl", field=f"expected_key_facts.{part}"):
            rs.load_golden(file)


def test_another_verdict_or_importance_is_refused(evaluate):
    with refused("maybe", field="nuggets.1.verdict"):
        evaluate(assigned([("a", "vital", "maybe")]))
    with refused("high", field="nuggets.1.importance"):
        evaluate(assigned([("a", "high", "support")]))


@pytest.mark.skipif(not DATA.exists(), reason="needs nuggets beside the checkout")
def test_nuggets_of_22_topics_and_their_scores_on_random_assignments(evaluate):
    file = DATA / "rag25-dev-nuggets.jsonl"
    counts = rs.load_golden(file).checks["importance"].value_counts().to_dict()
    assert counts == {"vital": 925, "okay": 330}
    random, drawn = Random(0), {}
    for topic in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        drawn[topic["qid"]] = [
            (one["text"], one["importance"], random.choice(VERDICTS)) for one in topic["nuggets"]
        ]
    scores = evaluate(*(assigned(nuggets, qid=qid) for qid, nuggets in drawn.items())).scores
    assert len(scores) == 22
    for qid, nuggets in drawn.items():
        expected = independent(nuggets)
        assert scores.loc[qid, list(expected)].to_dict() == pytest.approx(expected)
