"""One object to ask: its verbs give what the functions behind them give."""

import inspect
import json
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.analysis.aggregates import aggregate
from tests.compared import compare_runs
from tests.messages import refused, says, warned

ROOT = Path(__file__).parents[1]
OF_EV = (
    "calls", "check_reported", "config_effects", "conversations", "nuggets", "paraphrases",
    "retrievers",
)  # fmt: skip


@pytest.fixture(scope="module")
def few(demo):
    """Evaluate 31 queries of two runs of the demo."""
    part = demo.select(["dense", "hybrid"], demo.golden.queries["query_id"].iloc[::6].tolist())
    return rs.evaluate(part.results, part.golden)


def test_an_evaluation_holds_what_was_scored(demo, few):
    pd.testing.assert_frame_equal(few.scores, rs.score(few.results, few.golden))
    of_runs = demo.settings[["run_id", "level", "n_expected"]].to_numpy().tolist()
    assert of_runs == [[run_id, "doc", 182] for run_id in demo.run_ids] and len(of_runs) == 4


def test_a_comparison_takes_the_evaluations_level_and_policies(few):
    by_doc = rs.evaluate(few.results, few.golden, "mrr@10", match="doc", missing="zero")
    cmp = by_doc.compare("dense", "hybrid")
    plain = compare_runs(few.results, few.golden, "dense", "hybrid", metrics="mrr@10")
    assert (cmp._level.name, cmp._policies["missing"]) == ("doc", "zero")
    assert cmp.deltas["delta"].tolist() == plain.deltas["delta"].tolist()


def test_a_rule_of_ones_own_holds_for_ranks_and_outcomes_too(few):
    def nothing(hits, targets):
        return tuple(positions[:0] for positions in rs.match.by_doc(hits, targets))

    own = rs.evaluate(few.results, few.golden, "mrr", rule=nothing)
    cmp = own.compare("dense", "hybrid")
    assert set(cmp.per_query["outcome"]) == {"both_miss", "no_target"}
    assert cmp.deltas["baseline"].tolist() == [0.0]
    assert not own.query(own.golden.queries["query_id"].iloc[0]).hits["target"].any()


def test_an_evaluation_survives_pickling(demo):
    assert str(pickle.loads(pickle.dumps(demo))) == str(demo)
    assert pickle.loads(pickle.dumps(rs.metrics("ndcg@5"))).name == "ndcg@5"


# One metric for each aspect that the data have: retrieval, answers, the refusal pair, passed.
def test_primary_metrics_are_one_for_each_aspect(demo, few):
    assert demo.primary == (
        "ndcg@10", "answer_checks", "answered_unanswerable", "false_refusal", "passed",
    )  # fmt: skip
    of = few.results, few.golden
    assert rs.evaluate(*of, ["hit@7", "hit@3"]).primary == ("hit@7",), "the first of no aspect"
    deep = rs.evaluate(*of, ["mrr"], primary=["hit@5", "hit@7"])
    assert deep.primary == ("hit@5", "hit@7"), "scored because it decides"
    assert deep.summary("hit@7")["n"].gt(0).all()
    with refused("cost", field="primary"):
        rs.evaluate(*of, ["mrr"], primary=["hit@5", "cost"])
    # two runs are compared by the metrics that are named
    old, new = {"old": {"q": ["x"]}}, {"new": {"q": ["z", "x"]}}
    deltas = rs.compare(old, new, {"q": ["x"]}, ["default", "hit@1", "hit@3"]).deltas
    assert deltas.loc[deltas["is_primary"], "metric"].tolist() == ["hit@1", "hit@3"]
    # what a judge said goes before a comparison of words
    results = rs.load_results(pd.DataFrame({"query_id": ["q1", "q2"], "response": ["x", "z"]}))
    points = {"criterion": "tone", "item": "", "value": [4.0, 2.0]}
    judgments = results.responses[["run_id", "query_id"]].assign(**points)
    rows = [{"id": name, "query": "?", "reference_answer": "x"} for name in ("q1", "q2")]
    judged = rs.evaluate(replace(results, judgments=judgments), rs.load_golden(rows))
    assert judged.primary == ("tone", "exact_match")


def test_a_baseline_holds_wherever_it_is_among_the_runs():
    found = {"a": {"q": ["x"]}, "b": {"q": ["z", "x"]}, "c": {"q": ["z", "x"]}}
    ev, parts = (
        rs.evaluate(found, {"q": ["x"]}, "mrr", baseline="a"),
        (None, ["b", "c"], ["b", "a"]),
    )
    for board in (lambda one: ev.leaderboard(runs=one), lambda one: ev.select(one).leaderboard()):
        is_against = [board(one).table["mark"].isna().all() for one in parts]
        assert is_against == [True, False, True], "without a baseline, the best is marked"
    assert ev.leaderboard(baseline="c").pairs["run_baseline"].tolist() == ["c", "c"]


PRINTED = """\
Evaluation: 2 runs × 6 queries

run        hit@1 [95 %],
               n = 2 / 4
r    0.50 [0.09, 0.91] ★
s    0.00 [0.00, 0.66] ≈

★ best; ≈ no sure difference from it (95 %).
Queries without a value in every run: 2 of hit@1.
Matched by doc.
Intervals account for 1 group of queries (group): 2 queries depend on each other.
Golden queries without a row, left out of the means: r 4.
Failed queries, scored on the hits they have: r 1.
Rows without a golden query, in no mean of quality: r 1.
Nothing states whether 6 answers are refusals: metrics of refusals leave them out, passed takes\
 them for answers. Worded as a refusal: 0; results.with_refusals_in_words() decides by the words.
No row of s has any hit: ranking metrics are 0. Where a system records no hits, ask for other\
 metrics.
Labels by a judge: 1 of 4 (m).
Queries without any label: 1. They count in no ranking metric.
Queries that should be refused: 1, judged by their refusal alone."""


def test_it_prints_how_it_matched_what_is_missing_and_the_primary_means(write_run, write_golden):
    records = [
        record("q1", [hit("c1", "d1", 1)]),
        record("q2", [hit("c9", "d9", 1)], error="timeout"),
        record("q9", []),
    ]
    silent = [record(f"q{n}", [], answer={"answer": "x"}) for n in range(1, 7)]
    docs = ["d1", "d2", {"any": ["d3"], "judged_by": "m"}, "d1"]
    rows = [{"id": f"q{n}", "query": "?", "expected_doc_ids": [doc]}
            | ({"group": "g"} if doc == "d1" else {})
            for n, doc in zip((1, 2, 3, 6), docs, strict=True)]  # fmt: skip
    rows += [{"id": "q4", "query": "?", "answerable": False}, {"id": "q5", "query": "?"}]
    files = [write_run("r", records), write_run("s", silent)]
    with warned("golden.yaml", 1, 6, "absent_docs"), warned("r", 4, "missing"):
        ev = rs.evaluate(files, write_golden(rows), ["hit@1", "false_refusal"])
    # one of two queries that have a row and a target is found; the others have no row
    assert repr(ev) == PRINTED


# -- narrow


def test_selected_runs_come_in_the_order_asked_for_and_queries_keep_their_scores(demo):
    hard = demo.select(["hybrid", "dense"], "difficulty == 'hard'")
    assert hard.run_ids == hard.results.runs["run_id"].tolist() == ["hybrid", "dense"]
    assert hard.scores["run_id"].unique().tolist() == ["hybrid", "dense"]
    of_hard = demo.summary("mrr@10", by="difficulty").query("difficulty == 'hard'")
    means = hard.summary("mrr@10").set_index("run_id")["mean"].to_dict()
    assert means.items() <= of_hard.set_index("run_id")["mean"].to_dict().items()
    assert len(hard.golden.queries) == 58 == hard.settings["n_expected"].iloc[0]
    assert set(hard.results.hits["query_id"]) <= set(hard.golden.queries["query_id"])
    assert hard.compare("dense", "hybrid", "mrr@10").deltas["n"].tolist() == [49]
    assert demo.select("dense").run_ids == ["dense"]


# -- widen


def test_one_row_per_query_counts_for_every_run(demo):
    ages = pd.DataFrame({"query_id": demo.golden.queries["query_id"], "age": np.arange(182.0)})
    own = demo.with_columns(ages, "age")
    assert own.pivot("age").shape == (182, 4)
    assert own.summary("age")["mean"].tolist() == [90.5] * 4


def test_a_value_outside_the_declared_range_is_refused(demo):
    answers = demo.results.responses
    own = answers[["run_id", "query_id"]].assign(length=answers["answer"].str.len().fillna(0))
    with refused(24, 111, 0, 1, field="range"):
        demo.with_columns(own, range=(0, 1))
    with refused("up", "higher", "lower", field="better"):
        demo.with_columns(own, better="up")


# -- stores


def test_a_store_gives_the_same_evaluation_and_reads_results_when_asked(few, store, monkeypatch):
    few = rs.evaluate(few.results, few.golden, primary=["passed", "hit@5"])
    assert store.save(few) == ["dense", "hybrid"]
    load, read = rs.RunStore.load, []
    monkeypatch.setattr(rs.RunStore, "load", lambda *of: read.append(of) or load(*of))
    stored = store.evaluate(few.golden)
    pd.testing.assert_frame_equal(stored.scores, few.scores)
    found, wanted = (
        one.settings.drop(columns="golden_hash").astype(object) for one in (stored, few)
    )
    pd.testing.assert_frame_equal(found, wanted)
    assert repr(stored) == repr(few)
    assert not read
    assert len(stored.results.hits) == len(few.results.hits)
    assert stored.compare("dense", "hybrid").overall == few.compare("dense", "hybrid").overall


# -- the face


@pytest.mark.slow
def test_every_public_method_has_one_example_on_the_demo_that_runs(demo, monkeypatch, tmp_path):
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
        exec(compile(code, name, "exec"), {"rs": rs, "ev": demo, "pd": pd})


# -- refusals, failures and the like: objects whose frames are attributes


OBJECTS = {
    "refusals": lambda ev: ev.refusals(),
    "risk": lambda ev: rs.extras.risk_coverage(ev, right="hit@5"),
    "failures": lambda ev: ev.failures(),
    "health": lambda ev: ev.golden.health(ev, "hit@5"),
    "paraphrases": lambda ev: rs.extras.paraphrases(ev, narrow=5, pool=10),
    "repeats": lambda ev: ev.repeats("passed", 2, runs=["dense", "hybrid"]),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_print_a_table_and_the_names_of_their_frames(few, name):
    found = OBJECTS[name](few)
    text, page = repr(found), found._repr_html_()
    assert all(f".{one}" in text and f".{one}" in page for one in found.FRAMES)
    assert page.count("<table") == 1 and len(text.splitlines()) < 20
    # From 3.13 on, docstrings are stored without their indentation.
    documented = inspect.cleandoc(type(found).__doc__)
    for one in found.FRAMES:
        assert re.search(rf"^([\w, ]*\b)?{one}\b[\w, ]*$", documented, flags=re.M), one


def test_what_was_not_scored_is_scored_when_an_object_needs_it(few):
    bare = rs.evaluate(few.results, few.golden, ["mrr@10"])
    pd.testing.assert_frame_equal(bare.refusals().table, few.refusals().table)
    found, wanted = bare.failures(hit="hit@10").table, few.failures(hit="hit_rate@10").table
    pd.testing.assert_frame_equal(found, wanted)
    assert bare.golden.health(bare, "hit@5").metric == "hit@5"
    with refused("no such thing", "rs.metrics()", field="metrics"):
        bare.refusals(right="no such thing")


@pytest.fixture
def repeated(write_run):
    """System s with two repeats and system t with one run, on queries q0 and q1."""
    golden = [{"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"]} for n in range(2)]
    ranks = {"s1": ("s", 1, (1, 2)), "s2": ("s", 2, (1, None)), "t": ("t", None, (2, 2))}
    files = []
    for name, (system, repeat, found) in ranks.items():
        lists = [[hit("c", "d", rank)] if rank else [] for rank in found]
        records = [record(f"q{n}", one, answer=answer("x")) for n, one in enumerate(lists)]
        described = {"repeat": repeat} if repeat else {}
        files.append(write_run(name, records, system=system, **described))
    return rs.evaluate(files, golden)


def test_averages_of_repeats_are_an_evaluation_by_system(repeated):
    averaged = repeated._of_systems
    # s: 1 and 1 for q0, 1/2 and 0 for q1; t: 1/2 and 1/2
    assert averaged.pivot("mrr@10").to_dict("list") == {"s": [1, 0.25], "t": [0.5, 0.5]}
    assert averaged.summary("mrr@10")["mean"].tolist() == [0.625, 0.5]
    # what is asked later is averaged, too: hit@7 of q1 is 1 and 0; the first repeat alone has 1
    assert averaged.summary("hit@7")["mean"].tolist() == [0.75, 1]
    assert averaged.select("s").pivot("hit@7").to_dict("list") == {"s": [1, 0.5]}
    assert averaged.select(queries=["q1"]).summary("hit@7")["mean"].tolist() == [0.5, 1]


def test_a_system_is_compared_with_its_repeats_averaged(repeated):
    cmp = repeated.compare("t", "s", "mrr@10")
    row = cmp.deltas.iloc[0]
    assert (row["baseline"], row["candidate"], row["n"]) == (0.5, 0.625, 2)
    says(cmp.notes(), "s: 2 runs, averaged", "2 queries", "first")
    # ranks of the first repeat: 1 and 2 against 2 and 2
    assert cmp.counts == {"win": 1, "draw": 1}
    assert repeated.compare("s1", "s2", "mrr@10").deltas["delta"].tolist() == [-0.25]


def test_means_are_saved_as_another_harness_writes_them(few, tmp_path):
    of = few.results, few.golden
    file = few.save(tmp_path / "means.json", format="kebab")
    assert json.loads(file.read_text()) == aggregate(*of, "kebab")
    of_trec = rs.evaluate(*of, profile="trec")
    rs.RunStore(tmp_path / "store").save(of_trec)  # its hundred columns, too
    means = json.loads(of_trec.save(tmp_path / "trec.json").read_text())
    maps = {run: of_run["map"] for run, of_run in means.items()}
    assert maps == pytest.approx(of_trec.pivot("map").mean().to_dict())
    with refused("kebab", "trec", field="format"):
        few.save(file)


def test_a_comparison_shows_a_query_as_its_evaluation_does(few):
    cmp, query = few.compare("dense", "hybrid"), few.golden.queries["query_id"].iloc[0]
    assert repr(cmp.query(query)) == repr(few.query(query, ["dense", "hybrid"]))
    with refused("JSON", field="scores"):
        rs.Comparison.from_json(cmp.to_json()).query(query)


def test_repeats_of_a_system_are_one_row_wherever_runs_are_ranked(repeated):
    text = repr(repeated)
    says(text, "s: 2 runs", "2 queries asked more than once")
    assert "s1" not in text and "t against s" in repeated.report().tables
    # whoever names runs compares these
    for runs, ranked in ((None, ["s", "t"]), (["s1", "s2"], ["s1", "s2"])):
        assert repeated.leaderboard("mrr@10", runs=runs).table["run_id"].tolist() == ranked
