"""Questions judged by source keys, metadata and substrings.

The rule, the levels, the product filter, and how many hits and values an expectation needs.
"""

from dataclasses import replace

import pytest
from conftest import found, said
from plausible_runs import put

import ragscore as rs
from ragscore.scoring.score import scored
from tests.compared import compare_runs, extra
from tests.messages import refused, says, warned

retrievers = extra("retrievers")


@pytest.fixture
def load(tmp_path):
    """Records and queries, written as files and loaded; None without any."""

    def write(questions, records):
        results = rs.load_results(put(tmp_path, records, "results.jsonl"))
        file = put(tmp_path, questions, "queries.jsonl")
        return results, rs.load_golden(file) if questions else None

    return write


# SEEDS F.7, the predicate cases; the name says where the first harness was wrong.
PASSES = {
    "number_equals_number": ({"expected_metadata": {"year": 2024}}, [found(1, year=2024)], True),
    "number_equals_number_however_written": (
        {"expected_metadata": {"year": 2024}},
        [found(1, year=2024.0)],
        True,
    ),
    "number_is_not_its_text": (
        {"expected_metadata": {"year": 2024}},
        [found(1, year="2024")],
        False,
    ),
    "text_is_not_its_number_FLAW_upstream_raised": (
        {"expected_metadata": {"year": "2024"}},
        [found(1, year=2024)],
        False,
    ),
    "flag_is_its_number": ({"expected_metadata": {"ok": True}}, [found(1, ok=1)], True),
    "flag_is_no_other_number": ({"expected_metadata": {"ok": 1}}, [found(1, ok=False)], False),
    "nothing_is_an_empty_text": ({"expected_metadata": {"crop": ""}}, [found(1, crop=None)], True),
    "text_whatever_the_case": (
        {"expected_metadata": {"crop": "Corn"}},
        [found(1, crop="corn")],
        True,
    ),
    "all_metadata_by_default": (
        {"expected_metadata": {"crop": "corn", "year": 2024}},
        [found(1, crop="corn", year=2023)],
        False,
    ),
    "the_value_under_another_key_is_none": (
        {"expected_metadata": {"crop": "corn"}},
        [found(1, kind="corn")],
        False,
    ),
    "source_key_whatever_the_case": (
        {"expected_source_keys": ["Pioneer-P1142"]},
        [found(1, "pioneer-p1142")],
        True,
    ),
    "source_key_is_equal_not_part": (
        {"expected_source_keys": ["p1142"]},
        [found(1, "pioneer-p1142")],
        False,
    ),
    "no_source_key_no_match": ({"expected_source_keys": ["a"]}, [found(1, a="a")], False),
    "source_keys_decide_alone_against": (
        {"expected_source_keys": ["a"], "expected_metadata": {"x": 1}},
        [found(1, "b", x=1)],
        False,
    ),
    "source_keys_decide_alone_for": (
        {"expected_source_keys": ["a"], "expected_metadata": {"x": 1}},
        [found(1, "A", x=2)],
        True,
    ),
    "metadata_and_one_of_two_substrings_DRIFT_docstring_said_each": (
        {"expected_metadata": {"x": 1}, "expected_substrings": ["yield", "moisture"]},
        [found(1, x=1, document="Good YIELD")],
        True,
    ),
    "metadata_without_substring": (
        {"expected_metadata": {"x": 1}, "expected_substrings": ["yield"]},
        [found(1, x=1, document="none")],
        False,
    ),
    "substring_without_metadata": (
        {"expected_metadata": {"x": 1}, "expected_substrings": ["yield"]},
        [found(1, x=2, document="yield")],
        False,
    ),
    "one_hit_must_have_both": (
        {"expected_metadata": {"x": 1}, "expected_substrings": ["yield"]},
        [found(1, x=1), found(2, x=2, document="yield")],
        False,
    ),
    "substring_in_a_metadata_value": (
        {"expected_substrings": ["Bayer"]},
        [found(1, brand="BAYER ag")],
        True,
    ),
    "substring_in_a_number": ({"expected_substrings": ["2024"]}, [found(1, year=2024)], True),
    "no_substring_across_two_texts": (
        {"expected_substrings": ["ab"]},
        [found(1, x="a", y="b", document="a")],
        False,
    ),
    "empty_keys_only": ({"expected_source_keys": []}, [found(1, "a")], False),
    "empty_expectations_only": (
        {"expected_metadata": {}, "expected_substrings": []},
        [found(1, "a")],
        False,
    ),
    "nothing_expected": ({}, [found(1, "a")], False),
    "expected_empty_with_a_hit": ({"expected_empty": True}, [found(1, "a")], False),
    "expected_empty_without": ({"expected_empty": True}, [], True),
    "expected_empty_false_says_nothing": (
        {"expected_empty": False, "expected_source_keys": ["a"]},
        [found(1, "a")],
        True,
    ),
    "forbidden_token_inside_a_key": (
        {"must_not_contain_source_keys": ["pioneer"]},
        [found(1, "pioneer-p1142")],
        False,
    ),
    "forbidden_token_whatever_the_case": (
        {"must_not_contain_source_keys": ["PIONEER"]},
        [found(1, "x"), found(2, "Pioneer-1")],
        False,
    ),
    "no_hits_hold_nothing_forbidden": ({"must_not_contain_source_keys": ["pioneer"]}, [], True),
    "forbidden_in_the_key_only": (
        {"must_not_contain_source_keys": ["pioneer"]},
        [found(1, "bayer", brand="pioneer")],
        True,
    ),
    "forbidden_below_the_runs_k": (
        {"must_not_contain_source_keys": ["pioneer"]},
        [found(6, "pioneer")],
        True,
    ),
    "expected_empty_before_keys": (
        {"expected_empty": True, "expected_source_keys": ["a"]},
        [found(1, "a")],
        False,
    ),
    "expected_empty_before_keys_met": (
        {"expected_empty": True, "expected_source_keys": ["a"]},
        [],
        True,
    ),
    "forbidden_before_keys": (
        {"must_not_contain_source_keys": ["z"], "expected_source_keys": ["a"]},
        [found(1, "b")],
        True,
    ),
    "expected_empty_before_forbidden": (
        {"expected_empty": True, "must_not_contain_source_keys": ["z"]},
        [found(1, "b")],
        False,
    ),
}


@pytest.mark.filterwarnings("ignore:ids of")
def test_a_question_passes(load):
    questions = [{"query": name, **expectation} for name, (expectation, *_) in PASSES.items()]
    with warned(3, "no expectation"):
        results, golden = load(questions, [said(name, one[1]) for name, one in PASSES.items()])
    names = golden.queries.set_index("query_id")["query"]
    for rows in (
        retrievers(results, golden).per_query,
        rs.score(results, golden, ["passed"]).reset_index(),
    ):
        passed = dict(zip(rows["query_id"].map(names), rows["passed"] == 1, strict=True))
        assert passed == {name: is_met for name, (*_, is_met) in PASSES.items()}


def test_a_failed_lookup_passes_nothing_FLAW_upstream_swallowed_errors(load):
    questions = [
        {"query": "a", "must_not_contain_source_keys": ["x"]},
        {"query": "b", "expected_empty": True}, {"query": "c", "expected_source_keys": ["k"]},
    ]  # fmt: skip
    results, golden = load(questions, [said(query, [], error="timeout") for query in "abc"])
    rows = retrievers(results, golden).per_query
    assert rows[["passed", "state"]].to_numpy().tolist() == [[0, "failed"]] * 3
    assert rs.score(results, golden, ["passed"])["passed"].tolist() == [0, 0, 0]


A, B = {"expected_source_keys": ["a"]}, {"expected_source_keys": ["a", "b"]}
FIRST_IS_1 = {"expected_metadata": {"x": 1}}, [found(1, x=1), found(2, x=2)]
NO_A, B_THEN_A = {"must_not_contain_source_keys": ["a"]}, [found(1, "b"), found(2, "a")]
BOTH_TEXTS, TEXT = {"expected_substrings": ["a", "b"]}, {"expected_substrings": ["s"]}


@pytest.mark.parametrize(
    ("options", "cases"),
    [
        ({"substrings": "all"}, [(BOTH_TEXTS, [found(1, document="a")], False),
                                 (BOTH_TEXTS, [found(1, document="B", x="A")], True)]),
        ({"hits": "all"}, [
            (B, [found(1, "a"), found(2, "b"), found(3, "c")], False),
            (B, [found(1, "a"), found(2, "b"), found(3, "A")], True),
            (*FIRST_IS_1, False),
            (TEXT, [found(1, document="s"), found(2, document="S")], True),
            (TEXT, [], False),
        ]),
        ({"hits": "all", "k": 1}, [(*FIRST_IS_1, True)]),
        ({"k": 1}, [(A, B_THEN_A, False), (NO_A, B_THEN_A, True)]),
        ({"k": 2}, [(A, B_THEN_A, True)]),
    ],
    ids=["substrings", "hits", "hits at 1", "at 1", "at 2"],
)  # fmt: skip
def test_options_change_what_passes(load, options, cases):
    questions = [{"query": f"q{n}"} | expectation for n, (expectation, *_) in enumerate(cases)]
    of = load(questions, [said(f"q{n}", hits) for n, (_, hits, _) in enumerate(cases)])
    passed = retrievers(*of, **options).per_query["passed"].tolist()
    assert passed == [is_met for *_, is_met in cases]


def test_our_golden_yaml_takes_the_same_expectations(load, write_golden):
    rows = [
        {"id": "q", "query": "?", "expected_substrings": ["s"], "filters": {"product": "p"}},
        {"id": "r", "query": "!", "expected_source_keys": ["k"]},
    ]
    golden = rs.load_golden(write_golden(rows))
    hits = [found(1, "k", document="no"), found(2, document="it is so, p")]
    results, _ = load([], [said("?", hits, query_id="q"), said("!", hits, query_id="r")])
    assert rs.score(results, golden, ["mrr"])["mrr"].tolist() == [0.5, 1]
    assert rs.match.filter_hits(results, golden).responses["x_n_filtered"].tolist() == [1, 0]


def test_the_level_is_predicate_where_nothing_else_is_expected(load):
    results, golden = load(
        [{"query": "q", "expected_source_keys": ["a"]}], [said("q", [found(1, "a")])]
    )
    about = scored(results, golden, ["failed"])
    assert about.settings[["level", "left_out"]].iloc[0].tolist() == ["predicate", ""]
    assert set(about.scores["level"]) == {"predicate"}
    mixed = rs.load_golden([
        {"id": "q", "query": "q", "expected_doc_ids": ["d"]},
        {"id": "r", "query": "r", "expected_substrings": ["s"]},
    ])  # fmt: skip
    # nothing about chunks, spans and anchors: there are none
    assert scored(results, mixed, ["failed"], match="predicate").settings["left_out"].tolist() == [
        "doc: hits of dense have no doc_id; predicate: 1 of 2 queries have no predicate targets"
    ]
    with refused("chunk", "predicate", field="match"):
        rs.score(results, golden, match="chunk")


def test_a_summary_expects_the_questions_that_have_predicates(load):
    questions = [
        {"query": "a", "expected_source_keys": ["k"]}, {"query": "b", "expected_empty": True},
        {"query": "c", "must_not_contain_source_keys": ["x"]},
    ]  # fmt: skip
    of = load(questions, [said("a", [found(1, "k")])])
    with warned("2", "missing"):
        summary = rs.evaluate(*of, ["mrr", "passed"]).summary()[["metric", "n", "n_expected"]]
    assert summary.to_numpy().tolist() == [["mrr", 1, 1], ["passed", 1, 3]]


def test_runs_are_compared_by_predicate(load):
    questions = [
        {"query": "a", "expected_source_keys": ["k", "l"]},
        {"query": "b", "expected_metadata": {"x": 1}}, {"query": "c", "expected_empty": True},
    ]  # fmt: skip
    hits = {
        "old": {"a": [found(1, "k"), found(2, "l")], "b": [found(1, x=2), found(2, x=1)], "c": []},
        "new": {"a": [found(1, "k")], "b": [found(1, x=1)], "c": []},
    }
    records = [said(query, one, run) for run, own in hits.items() for query, one in own.items()]
    cmp = compare_runs(*load(questions, records), "old", "new", metrics=["mrr", "recall@5"])
    assert cmp.per_query[["outcome", "lost"]].to_numpy().tolist() == [
        ["draw", "l"], ["win", ""], ["no_target", ""],
    ]  # fmt: skip
    assert cmp._level.name == "predicate" and says(cmp.to_markdown(), "Matched", "predicate")
    assert cmp.deltas.set_index("metric")["delta"].to_dict() == {"mrr": 0.25, "recall@5": -0.25}


def test_hits_without_the_product_are_dropped_and_the_rest_ranked_again(load):
    questions = [
        {"query": "a", "filters": {"product": "P1142", "year": 2}, "expected_source_keys": ["k"]},
        {"query": "b", "expected_metadata": {"x": 1}},
    ]
    hits = [
        found(1, "x", document="other"),
        found(2, "k", document="the p1142 corn", x=7),
        found(3, "y", product="P1142"),
        found(4, "z", document="P1142"),
    ]
    results, golden = load(questions, [said("a", hits), said("b", [found(1, x=1)])])
    # scoring never filters by itself
    assert rs.score(results, golden, ["mrr"])["mrr"].tolist() == [0.5, 1]
    filtered = rs.match.filter_hits(results, golden)
    assert rs.score(filtered, golden, ["mrr"])["mrr"].tolist() == [1, 1]
    assert filtered.hits[["query_id", "rank", "chunk_id"]].to_numpy().tolist() == [
        ["a", 1, "c2"],
        ["a", 2, "c4"],
        ["b", 1, "c1"],
    ]
    assert filtered.hit_meta.loc[
        filtered.hit_meta["key"] == "x", ["query_id", "rank", "value"]
    ].to_numpy().tolist() == [["a", 1, "7"], ["b", 1, "1"]]
    assert filtered.responses["x_n_filtered"].tolist() == [2, 0]
    assert rs.match.filter_hits(filtered, golden).responses["x_n_filtered"].tolist() == [0, 0]


def test_a_product_filter_can_leave_nothing_and_does_not_search_cut_text(load):
    results, golden = load(
        [{"query": "a", "filters": {"product": "p"}, "expected_empty": True}],
        [said("a", [found(1, document="q")])],
    )
    filtered = rs.match.filter_hits(results, golden)
    passed = [retrievers(one, golden).per_query["passed"][0] for one in (results, filtered)]
    assert passed == [0, 1]
    with refused(1, field="hits.text"):
        rs.match.filter_hits(replace(results, hits=results.hits.assign(text_cut=True)), golden)


@pytest.mark.filterwarnings("ignore:.*n_hits", "ignore:ids of")
def test_passed_looks_as_deep_as_each_run_went(load):
    hits = [found(1, "x"), found(2, "k")]
    results, golden = load(
        [{"query": "q", "expected_source_keys": ["k"]}],
        [said("q", hits, run, k=k) for run, k in (("one", 1), ("two", 2), ("all", None))]
        + [said("q", hits[:1], "miss", k=None)]
        # a rank that is stated without hits is believed, if there were any
        + [said("q", [], f"told {n}", n_hits=n, rank_first_match=1) for n in (0, 1)],
    )
    ev = rs.evaluate(results, golden, ["passed", "recall@5"])
    assert ev.pivot("passed").iloc[0].to_dict() == {
        "one": 0, "two": 1, "all": 1, "miss": 0, "told 0": 0, "told 1": 1,
    }  # fmt: skip
    says(ev.explain("recall@5").set_index("run_id")["reason"]["told 1"], "outcome")


def test_only_hits_within_the_runs_k_must_satisfy_and_no_hit_is_not_every_hit(load):
    hits = [found(1, x=1), found(2, x=2)]
    results, golden = load(
        [{"query": "q", "expected_metadata": {"x": 1}}],
        [said("q", hits, "one", k=1), said("q", hits, "two", k=2), said("q", [], "zero", k=2)],
    )
    rule = rs.match.by_predicate(results, golden, hits="all")
    scores = rs.score(results, golden, ["passed"], rule=rule, match="predicate")
    assert scores.set_index("run_id")["passed"].to_dict() == {"one": 1, "two": 0, "zero": 0}
    at_1 = retrievers(results, golden, k=1, hits="all").per_query.set_index("run_id")["passed"]
    assert at_1.to_dict() == {"one": 1, "two": 1, "zero": 0}
