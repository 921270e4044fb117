"""Answer-level scores: checks, citations, refusals, what a failed query still counts in."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.frames.data import from_records
from tests.messages import refused, warned


@pytest.fixture
def scored(write_golden, write_run):
    """Scores of one run, by query."""

    def score(rows, records, metrics=None, **more):
        results = rs.load_results(write_run("r", records, k=10))
        return rs.score(results, rs.load_golden(write_golden(rows)), metrics, **more)

    return score


GOLD = [{"id": "q", "query": "?", "expected_doc_ids": ["d"]}]
HITS = [hit("c1", "d", 1), hit("c2", "e", 2)]  # lines 1 to 4 of docs/d.md and docs/e.md


def citing(*citations):
    return {"answer": "text", "grounded": True, "citations": list(citations)}


def line(path, start, end):
    return {"citation": {"kind": "line", "path": path, "start": start, "end": end}}


@pytest.mark.parametrize(
    ("citations", "strict", "weak"),
    [
        ([], 0, 0),
        ([line("docs/d.md", 1, 4)], 1, 1),
        ([line("docs/d.md", 2, 3), line("docs/e.md", 4, 4)], 1, 1),
        ([line("docs/d.md", 3, 5)], 0, 1),  # a right path with a wrong line
        ([line("docs/d.md", 2, 3), line("docs/z.md", 2, 3)], 0, 1),  # each one must resolve
        ([{"citation": {"kind": "page", "path": "docs/d.md", "page": 2}}], 0, 1),  # another unit
        # has no span by its kind
        ([{"citation": {"kind": "caption", "path": "docs/d.md", "model": "m"}}], 1, 1),
        ([{"chunk_id": "c2"}], 1, 0),
        # the chunk id decides where there is one
        ([{"chunk_id": "zz", **line("docs/d.md", 1, 4)}], 0, 1),
    ],
)
def test_citations_must_resolve_to_what_the_query_had(scored, citations, strict, weak):
    found = scored(
        GOLD,
        [record("q", HITS, answer=citing(*citations))],
        ["citation_coverage", "citation_coverage_weak", "citation_present"],
    )
    assert found.iloc[0, 3:].tolist() == [strict, weak, float(bool(citations))]


def test_a_run_records_citations_where_its_rows_have_the_field_if_only_empty(scored, write_run):
    rows, labels = [*GOLD, GOLD[0] | {"id": "p"}], ["citation_present", "citation_recall"]
    empty = [record(one, HITS, answer=citing()) for one in ("q", "p")]
    assert scored(rows, empty, labels)[labels].to_numpy().tolist() == [[0, 0], [0, 0]]
    silent = [record(one, HITS, answer={"answer": "text"}) for one in ("q", "p")]
    assert scored(rows, silent, labels)[labels].isna().all(axis=None)
    one = rs.load_results(write_run("e", [{**empty[0], "answer": {"citations": []}}, silent[1]]))
    assert one.responses["n_citations"].tolist() == [0, pd.NA]


def test_a_citation_of_another_querys_hit_does_not_resolve(scored):
    rows = [*GOLD, {"id": "p", "query": "?", "expected_doc_ids": ["d"]}]
    found = scored(
        rows,
        [
            record("q", HITS[1:], answer=citing(line("docs/d.md", 1, 4))),
            record("p", HITS, answer=citing({"chunk_id": "c1"})),
        ],
        ["citation_coverage"],
    )
    assert found["citation_coverage"].to_dict() == {"q": 0, "p": 1}


def test_citation_coverage_counts_grounded_answers_only(scored):
    for given in (None, answer("no", grounded=False)):
        assert (
            scored(
                GOLD, [record("q", HITS, answer=given)], ["citation_coverage", "citation_present"]
            )
            .iloc[0, 3:]
            .isna()
            .all()
        )


REFUSE = [
    {"id": "no", "query": "?", "answerable": False},
    {"id": "yes", "query": "?", "expected_doc_ids": ["d"]},
    {"id": "free", "query": "?"},
]


@pytest.mark.filterwarnings("ignore:.*unlabelled")
def test_the_four_ways_of_refusal(scored):
    def of(given):
        labels = ["refusal_correct", "answered_unanswerable", "false_refusal"]
        return scored(REFUSE, [record(one["id"], [], answer=given) for one in REFUSE], labels)

    refused, answered = of(answer("no", grounded=False)), of(answer("so"))
    assert refused.loc["no"].tolist()[3:5] == [1, 0] and answered.loc["no"].tolist()[3:5] == [0, 1]
    assert refused.loc["yes", "false_refusal"] == 1 and answered.loc["yes", "false_refusal"] == 0
    assert refused.loc["free"].iloc[3:].isna().all()  # unlabelled
    assert of(None).iloc[:, 3:].isna().all(axis=None)


@pytest.mark.filterwarnings("ignore:.*to be refused with expected ids")
def test_a_should_refuse_query_is_not_judged_by_retrieval(scored):
    rows = [{"id": "q", "query": "?", "answerable": False, "expected_doc_ids": ["d"]}]
    found = scored(
        rows,
        [record("q", HITS, answer=answer("no", grounded=False))],
        ["hit@1", "mrr", "refusal_correct", "passed"],
    )
    assert found[["hit@1", "mrr"]].isna().all().all() and found[["refusal_correct", "passed"]].iloc[
        0
    ].tolist() == [1, 1]


def test_a_failed_query_is_scored_on_the_hits_it_has(scored):
    rows = [
        {"id": "a", "query": "?", "expected_doc_ids": ["d"], "must_contain": ["x"]},
        {"id": "b", "query": "?", "expected_doc_ids": ["d"]},
        {"id": "no", "query": "?", "answerable": False},
    ]
    not_measured = ["answer_checks", "false_refusal", "empty", "latency_ms", "refusal_correct"]
    labels = ["hit@1", "passed", "failed", *not_measured]
    failed = [record(one["id"], HITS if one["id"] == "a" else [], error="late") for one in rows]
    found = scored(rows, failed, labels)
    assert found["state"].tolist() == ["failed"] * 3
    assert found["hit@1"].tolist()[:2] == [1, 0] and np.isnan(found["hit@1"].iloc[2])
    assert found["passed"].tolist()[:2] == [0, 0] and found["failed"].tolist() == [1, 1, 1]
    assert found[not_measured].isna().all(axis=None)


def test_missing_rows_are_left_out_with_a_warning_or_count_as_zero(scored):
    rows = [*GOLD, {"id": "gone", "query": "?", "expected_doc_ids": ["d"]}]
    with warned("r", 1, "missing"):
        found = scored(rows, [record("q", HITS)], ["hit@1", "passed", "failed"])
    assert (
        found["state"].tolist() == ["scored", "missing"]
        and found.loc["gone", ["hit@1", "passed", "failed"]].isna().all()
    )
    zero = scored(rows, [record("q", HITS)], ["hit@1", "passed", "failed"], missing="zero")
    assert zero.loc["gone", ["hit@1", "passed", "failed"]].tolist() == [0, 0, 1]


def test_rows_without_a_golden_query_count_in_empty_failed_latency_only(scored):
    found = scored(
        GOLD,
        [record("q", HITS), record("stray", [], elapsed_ms=7)],
        ["hit@1", "passed", "empty", "failed", "latency_ms"],
    )
    assert found.loc["stray", "state"] == "extra"
    assert found.loc["stray", ["hit@1", "passed"]].isna().all() and found.loc[
        "stray", ["empty", "failed", "latency_ms"]
    ].tolist() == [1, 0, 7]


def test_passed_by_the_kind_of_question(scored):
    rows = [
        {"id": "none", "query": "?", "expected_empty": True, "answerable": True},
        {"id": "clean", "query": "?", "must_not_contain_source_keys": ["Pioneer"],
        "answerable": True},
        {"id": "deep", "query": "?", "expected_doc_ids": ["d"]},
    ]  # fmt: skip
    key = {"source_key": "pioneer-p1142"}
    bad = scored(
        rows,
        [
            record("none", HITS),
            record("clean", [hit("c", "d", 1, **key)]),
            record("deep", [hit("c", "d", 11)]),
        ],
        ["passed"],
    )
    good = scored(
        rows,
        [record("none", []), record("clean", HITS), record("deep", [hit("c", "d", 10)])],
        ["passed"],
    )
    assert bad["passed"].tolist() == [0, 0, 0] and good["passed"].tolist() == [1, 1, 1]


CHOICES = {"match": "doc", "missing": "zero", "profile": "kebab"}


@pytest.mark.parametrize(
    ("argument", "value"),
    [("match", "docs"), ("missing", "miss"), ("profile", "kebap")],
)
def test_an_unknown_policy_is_refused_with_the_choices(scored, argument, value):
    with refused(value, CHOICES[argument], field=argument):
        scored(GOLD, [record("q", HITS)], **{argument: value})


@pytest.mark.filterwarnings("ignore:ids of")
def test_a_miss_does_not_pass_when_the_run_states_no_k(write_golden, write_run):
    results = rs.load_results(write_run("r", [record("q", HITS[1:])]))
    assert rs.score(results, rs.load_golden(write_golden(GOLD)), ["passed"])["passed"].tolist() == [
        0
    ]


def test_a_missing_query_never_passes(scored):
    rows = [*GOLD, {"id": "none", "query": "?", "expected_empty": True, "answerable": True}]
    assert scored(rows, [record("q", HITS)], ["passed"], missing="zero")["passed"].tolist() == [
        1,
        0,
    ]


def test_catalogue_rows_without_a_run_are_shared_by_all_runs(write_golden, write_run):
    given = [record("q", HITS, answer=citing({"chunk_id": "far"}, line("docs/z.md", 5, 6)))]
    results = rs.load_results([write_run(name, given) for name in ("r", "s")])
    rows = [
        {"chunk_id": "far", "run_id": "r"},
        {
            "chunk_id": "z",
            "path": "docs/z.md",
            "start": 1,
            "end": 9,
            "span_unit": "line",
            "run_id": None,
        },
    ]
    golden = rs.load_golden(write_golden(GOLD))
    found = rs.score(
        replace(results, chunks=from_records(rows, "chunks")), golden, ["citation_coverage"]
    )
    # the chunk `far` is in the catalogue of r only
    assert found["citation_coverage"].tolist() == [1, 0]
    shared = from_records(
        [row | {"run_id": None} for row in rows] + [{"chunk_id": "y", "run_id": "r"}], "chunks"
    )
    assert rs.score(replace(results, chunks=shared), golden, ["citation_coverage"])[
        "citation_coverage"
    ].tolist() == [1, 1]
