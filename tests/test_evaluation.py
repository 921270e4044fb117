"""One object to ask: its verbs give what the functions behind them give."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import hit, record

import ragscore as rs
from ragscore.scoring.summary import summarize
from tests.compared import compare_runs
from tests.messages import refused, says, warned

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "data" / "demo"
OF_EV = (
    "calls", "check_reported", "config_effects", "conversations", "nuggets", "paraphrases",
    "retrievers",
)  # fmt: skip
RUNS = ("bm25", "dense", "hybrid", "hybrid_rerank")


@pytest.fixture(scope="module")
def ev():
    return rs.evaluate(str(DEMO / "runs" / "*"), str(DEMO / "golden.yaml"))


def test_an_evaluation_holds_what_was_scored(ev):
    results, golden = (
        rs.load_results(str(DEMO / "runs" / "*")),
        rs.load_golden(DEMO / "golden.yaml"),
    )
    pd.testing.assert_frame_equal(ev.scores, rs.score(results, golden))
    assert ev.golden.golden_hash == golden.golden_hash
    assert ev.settings["level"].tolist() == ["doc"] * 4
    assert ev.settings["n_expected"].tolist() == [182] * 4
    assert ev.run_ids == list(RUNS)


def test_a_metric_that_was_not_scored_is_scored_when_asked_for(ev):
    few = rs.evaluate(ev.results, ev.golden, ["mrr"])
    assert "hit@2" not in few.scores
    asked = few.summary(["hit@2", "mrr"]).set_index(["metric", "run_id"])["mean"]
    scored = summarize(rs.score(ev.results, ev.golden, ["hit@2", "mrr"]))
    expected = scored.set_index(["metric", "run_id"])["mean"]
    assert asked.to_dict() == expected.to_dict()
    assert few.pivot("hit@2").shape == (182, 4)


def test_a_comparison_takes_the_evaluations_level_and_policies(ev):
    by_doc = rs.evaluate(ev.results, ev.golden, match="doc", missing="zero")
    cmp = by_doc.compare("dense", "hybrid", "mrr@10")
    plain = compare_runs(ev.results, ev.golden, "dense", "hybrid", metrics="mrr@10")
    assert cmp._level.name == "doc"
    assert cmp._policies["missing"] == "zero"
    assert cmp.deltas["delta"].tolist() == plain.deltas["delta"].tolist()


def test_a_rule_of_ones_own_holds_for_ranks_and_outcomes_too(ev):
    def nothing(hits, targets):
        return tuple(positions[:0] for positions in rs.match.by_doc(hits, targets))

    own = rs.evaluate(ev.results, ev.golden, "mrr", rule=nothing)
    cmp = own.compare("dense", "hybrid")
    assert set(cmp.per_query["outcome"]) == {"both_miss", "no_target"}
    assert cmp.deltas["baseline"].tolist() == [0.0]
    assert not own.query("pd-001").hits["target"].any()


# One metric for each aspect that the data have: retrieval, answers, the refusal pair, passed.
def test_primary_metrics_are_one_for_each_aspect(ev):
    assert ev.primary == (
        "ndcg@10", "answer_checks", "answered_unanswerable", "false_refusal", "passed",
    )  # fmt: skip
    assert rs.evaluate(ev.results, ev.golden, ["mrr", "hit@3"]).primary == ("mrr",)
    assert rs.evaluate(ev.results, ev.golden, primary="hit@5").primary == ("hit@5",)
    deep = rs.evaluate(ev.results, ev.golden, primary=["hit@5", "hit@7"])
    assert deep.primary == ("hit@5", "hit@7"), "scored because it decides"
    assert deep.summary("hit@7")["n"].gt(0).all()
    with refused("cost", field="primary"):
        rs.evaluate(ev.results, ev.golden, primary=["hit@5", "cost"])


def test_it_prints_how_it_matched_what_is_missing_and_the_primary_means(write_run, write_golden):
    records = [
        record("q1", [hit("c1", "d1", 1)]),
        record("q2", [hit("c9", "d9", 1)], error="timeout"),
        record("q9", []),
    ]
    rows = [{"id": f"q{n}", "query": "?", "expected_doc_ids": [f"d{n}"]} for n in (1, 2, 3)]
    rows += [{"id": "q4", "query": "?", "answerable": False}, {"id": "q5", "query": "?"}]
    with warned("golden.yaml", 1, 5, "absent_docs"), warned("r", 3, "missing"):
        ev = rs.evaluate(write_run("r", records), write_golden(rows), ["hit@1"])
    text = " ".join(repr(ev).split())
    # one of two queries that have a row and a target is found; the third has no row
    says(text, "hit@1", "n = 2 / 3", "0.50")
    matched, missing, failed, extra, unlabelled, refused_ones = ev._notes()
    says(matched, "doc")
    says(missing, "r", 3)
    for note in (failed, extra):
        says(note, "r", 1)
    for note in (unlabelled, refused_ones):
        says(note, 1)
    assert all(note in text for note in ev._notes())


# -- narrow


def test_selected_runs_come_in_the_order_asked_for(ev):
    two = ev.select(["hybrid", "dense"])
    assert two.run_ids == ["hybrid", "dense"]
    assert two.scores["run_id"].unique().tolist() == ["hybrid", "dense"]
    assert two.results.runs["run_id"].tolist() == ["hybrid", "dense"]
    assert ev.select("dense").run_ids == ["dense"]


@pytest.mark.parametrize(
    "queries",
    [
        lambda golden: "difficulty == 'hard'",
        lambda golden: golden.queries["difficulty"] == "hard",
        lambda golden: golden.queries.query("difficulty == 'hard'")["query_id"].tolist(),
    ],
    ids=["query string", "mask", "ids"],
)
def test_selected_queries_keep_their_scores(ev, queries):
    hard = ev.select(queries=queries(ev.golden))
    by_difficulty = ev.summary("mrr@10", by="difficulty")
    expected = by_difficulty[by_difficulty["difficulty"] == "hard"]["mean"].tolist()
    assert hard.summary("mrr@10")["mean"].tolist() == expected
    assert len(hard.golden.queries) == 58 == hard.settings["n_expected"].iloc[0]
    assert set(hard.results.hits["query_id"]) <= set(hard.golden.queries["query_id"])
    assert hard.compare("dense", "hybrid", "mrr@10").deltas["n"].tolist() == [49]


@pytest.mark.parametrize(
    ("queries", "named"),
    [
        ("hardness == 'hard'", ["hardness == 'hard'"]),
        (["pd-001", "pd-1"], ["pd-1", "pd-001"]),
        (np.array([True]), ["mask", 1, 182]),
        ("difficulty == 'none'", ["no query"]),
    ],
)
def test_a_selection_that_fails_says_why(ev, queries, named):
    with refused(*named, field="queries"):
        ev.select(queries=queries)


# -- widen


def lengths(ev):
    answers = ev.results.responses
    return answers[["run_id", "query_id"]].assign(length=answers["answer"].str.len().fillna(0))


def test_one_row_per_query_counts_for_every_run(ev):
    ages = pd.DataFrame({"query_id": ev.golden.queries["query_id"], "age": np.arange(182.0)})
    own = ev.with_columns(ages, "age")
    assert own.pivot("age").shape == (182, 4)
    assert own.summary("age")["mean"].tolist() == [90.5] * 4


def test_a_value_outside_the_declared_range_is_refused(ev):
    with refused(24, 111, 0, 1, field="range"):
        ev.with_columns(lengths(ev), range=(0, 1))
    with refused("up", "higher", "lower", field="better"):
        ev.with_columns(lengths(ev), better="up")


# -- stores


def test_a_store_gives_the_same_evaluation_and_reads_results_when_asked(ev, tmp_path, monkeypatch):
    store = rs.RunStore(tmp_path / "store")
    assert store.save(ev) == list(RUNS)
    monkeypatch.setattr(rs.RunStore, "load", lambda *_: pytest.fail("results were read"))
    stored = store.evaluate(ev.golden)
    pd.testing.assert_frame_equal(stored.scores, ev.scores)
    drop = ["golden_hash"]
    pd.testing.assert_frame_equal(
        stored.settings.drop(columns=drop).astype(object),
        ev.settings.drop(columns=drop).astype(object),
    )
    assert repr(stored) == repr(ev)
    monkeypatch.undo()
    assert len(stored.results.hits) == len(ev.results.hits)
    assert stored.compare("dense", "hybrid").overall == ev.compare("dense", "hybrid").overall


# -- the face


@pytest.mark.slow
def test_every_public_method_has_one_example_on_the_demo_that_runs(ev, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    methods = [
        (name, method)
        for name, method in inspect.getmembers(rs.Evaluation, callable)
        if not name.startswith("_") and name not in ("to_markdown", "notes", "wide")
    ]
    assert len(methods) > 10
    extras = [(name, getattr(rs.extras, name)) for name in OF_EV]
    for name, method in [*methods, *extras, ("evaluate", rs.evaluate)]:
        lines = re.findall(r"^ *(?:>>>|\.\.\.) (.*)$", inspect.getdoc(method) or "", flags=re.M)
        assert lines, f"{name} has no example"
        code = "\n".join(lines).replace('"metrics.json"', repr(str(tmp_path / "metrics.json")))
        code = code.replace('"report.html"', repr(str(tmp_path / "report.html")))
        exec(compile(code, name, "exec"), {"rs": rs, "ev": ev, "pd": pd})


def test_asking_for_an_evaluation_imports_no_analysis():
    code = (
        "import sys, ragscore as rs; rs.evaluate; print([name for name in sys.modules if"
        " name.startswith(('ragscore.plot', 'ragscore.golden', 'ragscore.reporting',"
        " 'ragscore.store', 'ragscore.analysis.comparison', 'matplotlib', 'scipy'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_run_without_any_hit_is_named():
    answers = pd.DataFrame({"query_id": ["q1", "q2"], "response": ["x", "y"]})
    ev = rs.evaluate(answers, {"q1": ["a"], "q2": ["b"]})
    found = rs.evaluate({"q1": ["a"], "q2": []}, {"q1": ["a"], "q2": ["b"]})
    (more,) = (one for one in {*ev._notes()} - {*found._notes()} if "refusal" not in one)
    says(more, "run", 0)


def test_columns_of_ones_own_are_compared_gated_drawn_and_reported(ev):
    own = ev.with_columns(lengths(ev), better="lower").select(["dense", "hybrid"])
    cmp = own.compare("dense", "hybrid")
    row = cmp.deltas.set_index("metric").loc["length"]
    values = own.pivot("length")
    assert row["delta"] == pytest.approx((values["hybrid"] - values["dense"]).mean())
    assert row["low"] > 0 and pd.isna(row["verdict"]), "it is not primary"
    assert own.compare("dense", "hybrid", "length").overall == "worse", "it alone decides"
    assert not cmp.gate({"length": 1}).passed and cmp.gate({"length": 100}).passed
    assert cmp.slices("difficulty", "length").table["metric"].unique().tolist() == ["length"]
    assert "length" in own.report().tables["hybrid against dense"]["metric"].tolist()
    assert "length" in own.plot(["length"]).get_yticklabels()[0].get_text()
    plt.close("all")
