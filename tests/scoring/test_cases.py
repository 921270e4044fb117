"""Scoring, case by case: what a value means, what is told beside it, and what a person adds."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest

from ragscore.frames.data import Golden, Results
from ragscore.scoring.explain import explain
from ragscore.scoring.match import judged_only
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.own import from_plain, metric
from ragscore.scoring.policies import with_min_grade
from ragscore.scoring.readings import READINGS
from ragscore.scoring.score import score, scored
from ragscore.scoring.summary import summarize
from tests.messages import refused
from tests.same_numbers.worlds import written

EVERY = [text.replace("@r", "@0.3") for text in TABLE.labels(list(TABLE))]


def results_of(lists, run_id="a", **columns):
    """Results of one run: {query: [document, ...]}."""
    hits = pd.DataFrame(
        [
            (run_id, query, rank, doc)
            for query, docs in lists.items()
            for rank, doc in enumerate(docs, 1)
        ],
        columns=["run_id", "query_id", "rank", "doc_id"],
    ).astype({"run_id": "str", "query_id": "str", "doc_id": "str"})
    responses = pd.DataFrame({"run_id": run_id, "query_id": [*lists]})
    return Results(pd.DataFrame({"run_id": [run_id]}), responses.assign(**columns), hits)


def golden_of(expected, **columns):
    """A golden set: {query: {document: grade}}."""
    rows = [
        (query, "doc", doc, doc, grade)
        for query, docs in expected.items()
        for doc, grade in docs.items()
    ]
    names = ["query_id", "level", "target_id", "doc_id", "grade"]
    queries = pd.DataFrame({"query_id": [*expected], "query": [*expected]}).assign(**columns)
    return Golden(queries, targets=pd.DataFrame(rows, columns=names))


def quiet(*given, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return score(*given, **how)


# What a value means


def test_all_targets_are_one_group_of_a_query_without_support_groups():
    results, golden = results_of({"q": ["x", "a", "b"]}), golden_of({"q": {"a": 1, "b": 1}})
    found = quiet(results, golden, ["recall_all@2", "recall_all@3"])
    assert found.loc["q", ["recall_all@2", "recall_all@3"]].tolist() == [0, 1]
    found = quiet(results, golden, ["recall_all@3"], match="doc", profile="chatbot")
    assert math.isnan(found.loc["q", "recall_all@3"])  # that harness wants groups


def test_a_query_judged_0_throughout_is_judged():
    golden = golden_of({"q": {"a": 0}, "r": {"b": 1}})
    found = scored(results_of({"q": ["a"], "r": ["b"]}), golden, ["mrr", "recall@5", "ndcg@5"])
    assert found.scores.loc["q", ["mrr", "recall@5", "ndcg@5"]].tolist() == [0, 0, 0]
    assert any("1 of 2 judged queries have no relevant target" in note for note in found.notes)


def test_an_explicit_argument_goes_before_a_profile():
    results, golden = results_of({"q": ["a"]}), golden_of({"q": {"a": 1}, "r": {"b": 1}})
    by_profile = quiet(results, golden, ["mrr"], profile="trec")["mrr"].tolist()
    assert by_profile == [1, 0]
    explicit = quiet(results, golden, ["mrr"], profile="trec", missing="exclude")["mrr"].tolist()
    assert explicit[0] == 1 and math.isnan(explicit[1])


def test_several_searches_are_the_one_sequence_that_the_agent_saw():
    golden, docs = golden_of({"q": {"a": 1}}), ["v", "w", "x", "y", "a"]
    one = results_of({"q": docs})
    five = Results(one.runs, one.responses, one.hits.assign(call=[1, 2, 3, 4, 5]))
    labels = ["hit@1", "mrr", "recall@5", "set_recall"]
    assert [quiet(each, golden, labels).loc["q", labels].tolist() for each in (one, five)] == [
        [0, 0.2, 1, 1], [0, 0.2, 1, 1],
    ]  # fmt: skip
    default = quiet(five, golden)
    assert {"set_recall", "set_precision", "n_calls", "n_documents"} <= {*default}
    assert default.loc["q", ["n_calls", "n_documents"]].tolist() == [5, 5]
    assert "n_calls" not in quiet(one, golden)


def test_an_expected_text_is_met_by_a_passage_that_contains_it():
    hits = results_of({"q": ["a", "b", "c"]}).hits.assign(
        text=["Nothing.", "It  was BORN in\n1979, they say.", "The other fact stands here, too."]
    )
    results = Results(
        pd.DataFrame({"run_id": ["a"]}), pd.DataFrame({"run_id": ["a"], "query_id": ["q"]}), hits
    )
    targets = pd.DataFrame({
        "query_id": "q", "level": "text", "target_id": ["1", "2", "3"],
        "snippet": ["was born in 1979", "other fact", "a third one"],
    })  # fmt: skip
    golden = Golden(pd.DataFrame({"query_id": ["q"], "query": ["?"]}), targets=targets)
    found = quiet(results, golden, ["mrr", "recall@2", "recall@3"])
    assert found.loc["q", ["mrr", "recall@2", "recall@3"]].tolist() == [1 / 2, 1 / 3, 2 / 3]
    assert found.loc["q", "level"] == "text"


def test_the_best_of_several_accepted_answers_counts():
    golden = golden_of({"q": {}}, reference_answer=["Mark Twain"])
    checks = pd.DataFrame(
        {"query_id": ["q"], "kind": ["accepted_answer"], "text": ["Samuel Clemens"]}
    )
    golden = Golden(golden.queries, checks=checks)
    results = results_of({"q": []}, answer=["Samuel Clemens"])
    found = quiet(results, golden, ["exact_match", "token_f1", "rouge_l"])
    assert found.loc["q", ["exact_match", "token_f1", "rouge_l"]].tolist() == [1, 1, 1]


def test_bpref_is_measured_where_the_level_of_a_query_has_documents_judged_as_not_relevant():
    golden = golden_of({"q": {"a": 1, "b": 0}, "r": {"c": 1}})
    golden.targets.loc[golden.targets["query_id"].eq("r"), "level"] = "chunk"
    golden.targets["chunk_id"] = golden.targets["doc_id"]
    results = results_of({"q": ["b", "a"], "r": ["c"]})
    results.hits["chunk_id"] = results.hits["doc_id"]
    found = quiet(results, golden, ["bpref", "mrr"], match="per_query")
    # of one relevant document: 1 - 1 / 1, as b is before it
    np.testing.assert_equal(found["bpref"].tolist(), [0, math.nan])
    assert found["mrr"].tolist() == [1 / 2, 1]


def test_supports_are_anchors_that_are_relevant():
    golden = golden_of({"q": {"a.md": 1}, "r": {"a.md": 0}, "s": {}})
    targets = golden.targets.assign(level="anchor", path=golden.targets["doc_id"])
    rules = pd.DataFrame({"query_id": ["q", "s"], "kind": "recency_rule", "text": "cite_newer"})
    golden = Golden(golden.queries, targets=targets, checks=rules)
    results = results_of({"q": [], "r": [], "s": []}, answer=["see [File: a.md, Section: x]"] * 3)
    found = quiet(results, golden, ["attribution_hit", "recency_ok"])
    np.testing.assert_equal(found["attribution_hit"].tolist(), [1, math.nan, math.nan])
    np.testing.assert_equal(found["recency_ok"].tolist(), [1, math.nan, math.nan])


# States and values


@pytest.mark.parametrize("seed", range(0, 24, 6))
def test_states_and_values_agree_in_every_cell(seed, tmp_path):
    golden, results = written(seed, tmp_path / "world")
    for how in ({}, {"missing": "zero", "collapse": "doc"}, {"profile": "kebab"}):
        found = scored(results, golden, EVERY, **how)
        cells = explain(found.rows, found.labels, found.scores)
        assert (cells["state"].eq("scored") == cells["value"].notna()).all()
        assert cells.loc[cells["value"].isna(), "reason"].ne("").all()
        counted = ~cells["state"].isin(["not_applicable"])
        by_metric = counted.groupby([cells["run_id"], cells["metric"]], observed=True).sum()
        summary = summarize(found.scores, golden, rows=found.rows)
        keyed = summary.set_index(["run_id", "metric"])["n_expected"]
        assert keyed.sort_index().tolist() == by_metric.sort_index().tolist()


@pytest.mark.parametrize("seed", range(1, 24, 8))
def test_parts_with_the_level_of_the_whole_have_the_scores_of_the_whole(seed, tmp_path):
    golden, results = written(seed, tmp_path / "world")
    whole = scored(results, golden, EVERY)
    run_ids, half = results.runs["run_id"].tolist(), golden.queries["query_id"].iloc[::2]
    for queries in (half, golden.queries["query_id"][~golden.queries["query_id"].isin(half)]):
        part = golden.select(golden.queries["query_id"].isin(queries).to_numpy())
        for run_id in run_ids:
            one = results.select([run_id])
            kept = {name: getattr(one, name)[getattr(one, name)["query_id"].isin(queries)]
                    for name in ("responses", "hits", "citations")}  # fmt: skip
            found = scored(Results(one.runs, **kept), part, EVERY, level=whole.level).scores
            of_run = whole.scores[whole.scores["run_id"].eq(run_id)].loc[found.index]
            pd.testing.assert_frame_equal(
                found[EVERY], of_run[EVERY], check_exact=True
            )  # states, too
            assert found["state"].astype("str").tolist() == of_run["state"].astype("str").tolist()


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
    golden = golden_of({f"q{n}": {expected.format(n): 1} for n in letters})
    for n_joined, how in ((0, "do not join"), (5, "join in part")):
        lists = {
            f"q{n}": [(expected if n <= n_joined else returned).format(n), "other"] for n in letters
        }
        (note,) = [
            one for one in scored(results_of(lists), golden, ["mrr"]).notes if "ids of" in one
        ]
        assert how in note and f"{8 - n_joined} more would join {words}" in note
        # its two lines, as they are
        results, changed = (
            results_of(lists),
            golden_of({f"q{n}": {expected.format(n): 1} for n in letters}),
        )
        for line in note.split(f"{words}: ")[1].split("; "):
            exec(line, {"results": results, "golden": changed})
        assert quiet(results, changed, ["mrr"])["mrr"].tolist() == [1] * 8


def test_ids_that_join_are_not_spoken_of_and_a_bad_run_neither():
    golden = golden_of({f"q{n}": {f"d{n}x": 1} for n in range(9)})
    assert scored(results_of({f"q{n}": [f"d{n}x"] for n in range(9)}), golden, ["mrr"]).notes == ()
    bad = results_of({f"q{n}": [f"d{n}x" if n < 2 else f"e{n}y"] for n in range(9)})
    assert scored(bad, golden, ["mrr"]).notes == ()


def test_ids_of_another_query_are_told_apart_from_ids_that_do_not_join():
    golden = golden_of({f"q{n}": {f"d{n}x": 1} for n in range(29)})
    shifted = results_of({f"q{n}": [f"d{(n + 1) % 29}x"] for n in range(29)})
    assert any(
        "join in other queries only" in one for one in scored(shifted, golden, ["mrr"]).notes
    )


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
    found = scored(results, golden, [first_half, "mrr", words])
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
    strict = with_min_grade(golden, 2)
    assert quiet(results, strict, ["mrr"]).loc["q", "mrr"] == 1 / 4
    kept = judged_only(results, golden)
    assert kept.hits["doc_id"].tolist() == ["a", "c", "b"] and kept.hits["rank"].tolist() == [
        1,
        2,
        3,
    ]


def test_a_reading_of_your_own_is_a_profile():
    from dataclasses import replace

    golden = golden_of({"q": {}, "r": {"a": 1}})
    own = replace(READINGS["rig"], name="mine", empty={"recall": 1.0})
    found = quiet(results_of({"q": ["a"], "r": ["a"]}), golden, ["recall@5", "mrr"], profile=own)
    assert found.loc["q", "recall@5"] == 1 and math.isnan(found.loc["q", "mrr"])


def test_default_and_all():
    golden = golden_of({"q": {"a": 1}})
    results = results_of({"q": ["a"]})
    default, every = quiet(results, golden), quiet(results, golden, "all")
    assert len(default.columns) <= 15 < len(every.columns)
    assert {"hit@5", "mrr@10", "ndcg@10", "failed"} <= {*default} <= {*every}
    assert "passed" not in default
