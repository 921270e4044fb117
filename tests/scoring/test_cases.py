"""Scoring, case by case: what a value means, what is told beside it, and what a person adds."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ragscore.frames.data import Golden
from ragscore.io.load import load_results
from ragscore.scoring.explain import explain
from ragscore.scoring.match import judged_only
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.own import from_plain, metric
from ragscore.scoring.policies import with_min_grade
from ragscore.scoring.readings import READINGS
from ragscore.scoring.score import score, scored
from ragscore.scoring.summary import summarize
from tests.messages import refused
from tests.random_worlds import written

EVERY = [text.replace("@r", "@0.3") for text in TABLE.labels(list(TABLE))]


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of few queries and ids


def results_of(lists, **columns):
    """Results of run a: {query: [document, ...]}."""
    results = load_results(lists, run_id="a")
    return replace(results, responses=results.responses.assign(**columns))


def golden_of(expected, **columns):
    """A golden set: {query: {document: grade}}."""
    rows = [(query, doc, grade) for query, docs in expected.items() for doc, grade in docs.items()]
    targets = pd.DataFrame(rows, columns=["query_id", "doc_id", "grade"])
    targets = targets.assign(level="doc", target_id=targets["doc_id"])
    queries = pd.DataFrame({"query_id": [*expected], "query": [*expected]}).assign(**columns)
    return Golden(queries, targets=targets)


def values(results, golden, labels, **how):
    """The values of each label, a query a row; -1 where there is none."""
    return score(results, golden, labels, **how)[labels].fillna(-1).to_numpy().tolist()


# What a value means


THREE, BOTH = {"q": ["x", "a", "b"]}, {"q": {"a": 1, "b": 1}}
ONE, TWO = {"q": ["a"]}, {"q": {"a": 1}, "r": {"b": 1}}
OWN = replace(READINGS["rig"], name="mine", empty={"recall": 1.0})


@pytest.mark.parametrize(
    ("lists", "expected", "labels", "how", "found"),
    [
        # all targets are one group of a query without support groups; that harness wants groups
        (THREE, BOTH, ["recall_all@2", "recall_all@3"], {}, [[0, 1]]),
        (THREE, BOTH, ["recall_all@3"], {"match": "doc", "profile": "chatbot"}, [[-1]]),
        # an explicit argument goes before a profile
        (ONE, TWO, ["mrr"], {"profile": "trec"}, [[1], [0]]),
        (ONE, TWO, ["mrr"], {"profile": "trec", "missing": "exclude"}, [[1], [-1]]),
        # a reading of one's own is a profile
        ({"q": ["a"], "r": ["a"]}, {"q": {}, "r": {"a": 1}}, ["recall@5", "mrr"],
         {"profile": OWN}, [[1, -1], [1, 1]]),
    ],
    ids=range(5),
)  # fmt: skip
def test_policies_and_profiles_say_what_a_value_means(lists, expected, labels, how, found):
    assert values(results_of(lists), golden_of(expected), labels, **how) == found


def test_a_query_judged_0_throughout_is_judged():
    golden = golden_of({"q": {"a": 0}, "r": {"b": 1}, "gone": {"b": 1}})
    found = scored(results_of({"q": ["a"], "r": ["b"]}), golden, ["mrr", "recall@5", "ndcg@5"])
    assert found.scores.loc["q", ["mrr", "recall@5", "ndcg@5"]].tolist() == [0, 0, 0]
    missing, judged = found.notes
    assert "(a: 1)" in missing and "1 of 3 judged queries have no relevant target" in judged


def test_a_profile_asks_for_its_level_only_where_hits_are_matched():
    of = results_of({"q": ["a"]}), golden_of({"q": {"a": 1}})
    assert values(*of, ["failed"], profile="chatbot") == [[0]]
    with refused("anchor", field="match"):
        values(*of, ["mrr"], profile="chatbot")


def test_several_searches_are_the_one_sequence_that_the_agent_saw():
    golden = golden_of({"q": {"a": 1}})
    one = results_of({"q": ["v", "w", "x", "y", "a"]})
    two = replace(one, hits=one.hits.assign(call=[1, 1, 1, 1, 2]))
    for each in (one, two):
        assert values(each, golden, ["hit@1", "mrr", "recall@5", "set_recall"]) == [[0, 0.2, 1, 1]]
    default = score(two, golden)
    assert {"set_recall", "set_precision", "n_calls", "n_documents"} <= {*default}
    assert default.loc["q", ["n_calls", "n_documents"]].tolist() == [2, 5]
    assert "n_calls" not in score(one, golden)


def test_an_expected_text_is_met_by_a_passage_that_contains_it():
    results = results_of({"q": ["a", "b", "c"]})
    results.hits["text"] = [
        "Nothing.", "It  was BORN in\n1979, they say.", "The other fact stands here, too.",
    ]  # fmt: skip
    snippets = ["was born in 1979", "other fact", "a third one"]
    targets = pd.DataFrame({"level": "text", "target_id": ["1", "2", "3"], "snippet": snippets})
    golden = Golden(golden_of({"q": {}}).queries, targets=targets.assign(query_id="q"))
    assert values(results, golden, ["mrr", "recall@2", "recall@3"]) == [[1 / 2, 1 / 3, 2 / 3]]
    assert score(results, golden, ["mrr"]).loc["q", "level"] == "text"


def test_the_best_of_several_accepted_answers_counts():
    queries = golden_of({"q": {}}, reference_answer=["Mark Twain"]).queries
    checks = pd.DataFrame({"query_id": ["q"], "kind": "accepted_answer", "text": "Samuel Clemens"})
    results = results_of({"q": []}, answer=["Samuel Clemens"])
    golden = Golden(queries, checks=checks)
    assert values(results, golden, ["exact_match", "token_f1", "rouge_l"]) == [[1, 1, 1]]


def test_bpref_is_measured_where_the_level_of_a_query_has_documents_judged_as_not_relevant():
    golden = golden_of({"q": {"a": 1, "b": 0}, "r": {"c": 1}})
    golden.targets.loc[golden.targets["query_id"].eq("r"), "level"] = "chunk"
    golden.targets["chunk_id"] = golden.targets["doc_id"]
    results = results_of({"q": ["b", "a"], "r": ["c"]})
    results.hits["chunk_id"] = results.hits["doc_id"]
    # of one relevant document: 1 - 1 / 1, as b is before it
    assert values(results, golden, ["bpref", "mrr"], match="per_query") == [[0, 1 / 2], [-1, 1]]


def test_supports_are_anchors_that_are_relevant():
    golden = golden_of({"q": {"a.md": 1}, "r": {"a.md": 0}, "s": {}})
    targets = golden.targets.assign(level="anchor", path=golden.targets["doc_id"])
    rules = pd.DataFrame({"query_id": ["q", "s"], "kind": "recency_rule", "text": "cite_newer"})
    golden = Golden(golden.queries, targets=targets, checks=rules)
    results = results_of({"q": [], "r": [], "s": []}, answer=["see [File: a.md, Section: x]"] * 3)
    found = values(results, golden, ["attribution_hit", "recency_ok"])
    assert found == [[1, 1], [-1, -1], [-1, -1]]


# States and values


@pytest.mark.parametrize(
    ("seed", "how"),
    [(6, {"missing": "zero", "collapse": "doc"}),
     *(pytest.param(seed, how, marks=pytest.mark.slow)
       for seed in (0, 12, 18) for how in ({}, {"profile": "kebab"}))],
)  # fmt: skip
def test_states_and_values_agree_in_every_cell(seed, how, tmp_path):
    golden, results = written(seed, tmp_path / "world")
    found = scored(results, golden, EVERY, **how)
    cells = explain(found.rows, found.labels, found.scores)
    assert (cells["state"].eq("scored") == cells["value"].notna()).all()
    assert cells.loc[cells["value"].isna(), "reason"].ne("").all()
    counted = cells["state"].ne("not_applicable")
    by_metric = counted.groupby([cells["run_id"], cells["metric"]], observed=True).sum()
    summary = summarize(found.scores, golden, rows=found.rows)
    keyed = summary.set_index(["run_id", "metric"])["n_expected"]
    assert keyed.sort_index().tolist() == by_metric.sort_index().tolist()


# Ids


@pytest.mark.parametrize(
    ("expected", "returned", "words"),
    [
        ("Doc-{}", "doc-{}", "in lower case"),
        ("example.org/{}", "https://www.example.org/{}", "without scheme and www."),
        ("example.org/{}", "example.org/{}/", "without slashes at the ends"),
        ("n{}x", "wiki/n{}x", "by the last part of their path"),
        ("n{}x", "n{}x.md", "without extension or chunk number"),
        ("n{}x", "n00{}x", "without zero padding"),
    ],
)
def test_ids_that_do_not_join_name_what_would_join_them(expected, returned, words):
    letters = range(1, 9)
    for n_joined, how in ((0, "do not join"), (4, "join in part")):
        results = results_of({
            f"q{n}": [(expected if n <= n_joined else returned).format(n), "other"] for n in letters
        })  # fmt: skip
        golden = golden_of({f"q{n}": {expected.format(n): 1} for n in letters})
        (note,) = [one for one in scored(results, golden, ["mrr"]).notes if "ids of" in one]
        assert how in note and f"{8 - n_joined} more would join {words}" in note
        # its two lines, as they are
        for line in note.split(f"{words}: ")[1].split("; "):
            exec(line, {"results": results, "golden": golden})
        assert values(results, golden, ["mrr"]) == [[1]] * 8


@pytest.mark.parametrize(
    ("found", "notes"),
    [
        (lambda n: f"d{n}x", []),
        (lambda n: f"d{n}x" if n < 6 else f"e{n}y", []),  # a bad run
        (lambda n: f"d{(n + 1) % 29}x", ["join only in other queries"]),
    ],
    ids=["joined", "bad", "shifted"],
)
def test_ids_that_join_are_not_spoken_of_unless_they_join_in_other_queries(found, notes):
    golden = golden_of({f"q{n}": {f"d{n}x": 1} for n in range(29)})
    said = scored(results_of({f"q{n}": [found(n)] for n in range(29)}), golden, ["mrr"]).notes
    assert len(said) == len(notes)
    assert all(text in one for text, one in zip(notes, said, strict=True))


def test_query_ids_that_do_not_join_are_named_on_both_sides():
    golden = golden_of({f"q{n}": {"a": 1} for n in range(1, 5)})
    notes = scored(results_of({"Q1": ["a"]}), golden, ["mrr"]).notes
    assert any("it has 'Q1'; the golden set has 'q1', 'q2', 'q3'. 1 of 4" in one for one in notes)


# What a person adds


def test_a_metric_of_your_own_is_a_function_of_a_frame():
    @metric(
        "first_half@k",
        "relevant hits among the first half of k / hits",
        kind="bounded",
        better="higher",
    )
    def first_half(hits):
        good = hits["grade"].gt(0) & hits["rank"].le(2)
        return good.groupby([hits["run_id"].astype("str"), hits["query_id"]]).mean()

    @metric("words", "words of the answer", of="responses", better="lower", range=(0, None))
    def words(responses):
        n = responses["answer"].str.split().str.len().astype("float64")
        return n.groupby([responses["run_id"].astype("str"), responses["query_id"]]).first()

    lists = {"q": ["a", "x", "b"], "r": ["y"], "s": [], "t": ["y"]}
    results = results_of(lists, answer=["one two three", None, None, None])
    golden = golden_of({"q": {"a": 1, "b": 1}, "r": {"b": 1}, "s": {"a": 1}, "t": {}})
    found = scored(results, golden, [first_half, "RR", words])
    assert [*found.scores][3:] == [
        "first_half@1",
        "first_half@3",
        "first_half@5",
        "first_half@10",
        "mrr",
        "words",
    ]
    # s has a target and no hit, t no target
    np.testing.assert_equal(found.scores["first_half@3"].tolist(), [1 / 3, 0, 0, math.nan])
    np.testing.assert_equal(found.scores["words"].tolist(), [3] + [math.nan] * 3)
    told = found.table.with_metrics(from_plain(found.table.to_plain()))
    assert told.describe("words").better == "lower" and told["words"].source == words.source
    summary = summarize(found.scores, golden, table=found.table, rows=found.rows)
    assert summary.set_index("metric").loc["first_half@3", "mean"] == pytest.approx(1 / 9)


@pytest.mark.parametrize(
    ("name", "how", "function", "field"),
    [
        ("9th", {}, len, "name"), ("a b", {}, len, "name"), ("state", {}, len, "name"),
        ("nDCG@k", {}, len, "name"), ("success", {}, len, "name"),  # ours; another tool's
        ("own", {"of": "targets"}, len, "of"), ("own", {"kind": "share"}, len, "kind"),
        ("own", {"better": "up"}, len, "better"), ("own", {"range": (1, 0)}, len, "range"),
        ("own", {"range": 5}, len, "range"), ("own", {}, "text", "own"),
    ],
)  # fmt: skip
def test_a_declaration_of_no_meaning_is_refused(name, how, function, field):
    with refused(field=field):
        metric(name, "formula", **how)(function)


def test_a_metric_of_what_no_run_has_has_no_value():
    judged = metric("judged_by_two", "verdicts / 2", of="judgments")(len)
    of = results_of(ONE), golden_of({"q": {"a": 1}})
    scores = score(*of, [judged, "faithfulness", "judge_failed"])
    assert scores.iloc[:, 3:].isna().all(axis=None)


def test_a_function_that_gives_no_series_by_run_and_query_is_refused():
    @metric("bad", "nothing", of="responses")
    def bad(responses):
        return responses["answer"]

    with refused("bad", "one number per run_id and query_id"):
        scored(results_of({"q": ["a"]}, answer=["x"]), golden_of({"q": {"a": 1}}), [bad])


# Steps on frames


def test_steps_stand_in_the_place_of_policies():
    golden = golden_of({"q": {"a": 1, "b": 2, "c": 0}})
    results = results_of({"q": ["a", "x", "c", "b"]})
    assert values(results, with_min_grade(golden, 2), ["mrr"]) == [[1 / 4]]
    kept = judged_only(results, golden).hits
    assert kept[["doc_id", "rank"]].to_numpy().tolist() == [["a", 1], ["c", 2], ["b", 3]]


def test_default_and_all():
    of = results_of({"q": ["a"]}), golden_of({"q": {"a": 1}})
    default, every = score(*of), score(*of, "all")
    assert len(default.columns) <= 15 < len(every.columns)
    assert {"hit@5", "mrr@10", "ndcg@10", "failed"} <= {*default} <= {*every}
    assert "passed" not in default
