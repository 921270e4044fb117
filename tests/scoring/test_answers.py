"""Answer-level scores: checks, citations, refusals, what a failed query still counts in."""

from dataclasses import replace

import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.frames.data import from_records
from tests.messages import refused, warned


@pytest.fixture
def scored(loaded):
    """Scores of one run, by query."""

    def score(rows, records, metrics=None, **how):
        return rs.score(*loaded(rows, {"r": records}, k=10), metrics, **how)

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
    empty, silent = (
        [record(one, HITS, answer=given) for one in ("q", "p")]
        for given in (citing(), {"answer": "text"})
    )
    assert scored(rows, empty, labels)[labels].to_numpy().tolist() == [[0, 0], [0, 0]]
    assert scored(rows, silent, labels)[labels].isna().all(axis=None)
    one = rs.load_results(write_run("e", [{**empty[0], "answer": {"citations": []}}, silent[1]]))
    assert one.responses["n_citations"].tolist() == [0, pd.NA]


def test_a_citation_of_another_querys_hit_does_not_resolve(scored):
    records = [
        record("q", HITS[1:], answer=citing(line("docs/d.md", 1, 4))),
        record("p", HITS, answer=citing({"chunk_id": "c1"})),
    ]
    found = scored([*GOLD, GOLD[0] | {"id": "p"}], records, ["citation_coverage"])
    assert found["citation_coverage"].to_dict() == {"q": 0, "p": 1}


@pytest.mark.parametrize("given", [None, answer("no", grounded=False)])
def test_citation_coverage_counts_grounded_answers_only(scored, given):
    labels = ["citation_coverage", "citation_present"]
    found = scored(GOLD, [record("q", HITS, answer=given)], labels)
    assert found[labels].isna().all(axis=None)


@pytest.mark.filterwarnings("ignore:.*unlabelled")
@pytest.mark.parametrize(
    ("given", "due", "wanted"),
    [(answer("no", grounded=False), [1, 0], 1), (answer("so"), [0, 1], 0), (None, None, None)],
)
def test_the_four_ways_of_refusal(scored, given, due, wanted):
    rows = [{"id": "no", "query": "?", "answerable": False}, *GOLD, {"id": "free", "query": "?"}]
    labels = ["refusal_correct", "answered_unanswerable", "false_refusal"]
    found = scored(rows, [record(one["id"], [], answer=given) for one in rows], labels)[labels]
    known = found.astype(object).where(found.notna(), None)
    assert known.loc["no"].tolist() == [*(due or [None, None]), None]
    assert known.loc["q"].tolist() == [None, None, wanted]
    assert known.loc["free"].tolist() == [None] * 3  # unlabelled


@pytest.mark.filterwarnings("ignore:.*to be refused with expected ids")
def test_a_should_refuse_query_is_not_judged_by_retrieval(scored):
    refusal = record("q", HITS, answer=answer("no", grounded=False))
    labels = ["hit@1", "mrr", "refusal_correct", "passed"]
    found = scored([GOLD[0] | {"answerable": False}], [refusal], labels)[labels]
    assert found.fillna(-1).to_numpy().tolist() == [[-1, -1, 1, 1]]


def test_a_failed_query_is_scored_on_the_hits_it_has(scored):
    rows = [
        GOLD[0] | {"id": "a", "must_contain": ["x"]}, GOLD[0] | {"id": "b"},
        {"id": "no", "query": "?", "answerable": False},
    ]  # fmt: skip
    not_measured = ["answer_checks", "false_refusal", "empty", "latency_ms", "refusal_correct"]
    failed = [record(one["id"], HITS if one["id"] == "a" else [], error="late") for one in rows]
    found = scored(rows, failed, ["hit@1", "passed", "failed", *not_measured])
    assert found["state"].tolist() == ["failed"] * 3
    assert found[["hit@1", "passed", "failed"]].fillna(-1).to_numpy().tolist() == [
        [1, 0, 1], [0, 0, 1], [-1, -1, 1],
    ]  # fmt: skip
    assert found[not_measured].isna().all(axis=None)


def test_missing_rows_are_left_out_with_a_warning_or_count_as_zero(scored):
    empty = {"id": "none", "query": "?", "expected_empty": True, "answerable": True}
    rows, labels = [*GOLD, GOLD[0] | {"id": "gone"}, empty], ["hit@1", "passed", "failed"]
    with warned("r", 2, "missing"):
        found = scored(rows, [record("q", HITS)], labels)
    assert found["state"].tolist() == ["scored", "missing", "missing"]
    assert found.loc[["gone", "none"], labels].isna().all(axis=None)
    zero = scored(rows, [record("q", HITS)], labels, missing="zero")
    assert zero.loc["gone", labels].tolist() == [0, 0, 1]
    assert zero.loc["none", "passed"] == 0, "a missing query never passes"


def test_rows_without_a_golden_query_count_in_empty_failed_latency_only(scored):
    labels = ["hit@1", "passed", "empty", "failed", "latency_ms"]
    found = scored(GOLD, [record("q", HITS), record("stray", [], elapsed_ms=7)], labels)
    assert found.loc["stray", "state"] == "extra"
    assert found.loc["stray", labels].fillna(-1).tolist() == [-1, -1, 1, 0, 7]


@pytest.mark.parametrize(
    ("row", "bad", "good"),
    [
        ({"expected_empty": True, "answerable": True}, HITS, []),
        ({"must_not_contain_source_keys": ["Pioneer"], "answerable": True},
         [hit("c", "d", 1, source_key="pioneer-p1142")], HITS),
        ({"expected_doc_ids": ["d"]}, [hit("c", "d", 11)], [hit("c", "d", 10)]),
    ],
)  # fmt: skip
def test_passed_by_the_kind_of_question(scored, row, bad, good):
    rows = [{"id": "q", "query": "?"} | row]
    found = [scored(rows, [record("q", one)], ["passed"])["passed"].tolist() for one in (bad, good)]
    assert found == [[0], [1]]


@pytest.mark.parametrize(
    ("argument", "value", "known"),
    [("match", "docs", "doc"), ("missing", "miss", "zero"), ("collapse", "x", "doc"),
     ("ties", "score", "trec64"), ("profile", "kebap", "kebab")],
)  # fmt: skip
def test_an_unknown_policy_is_refused_with_the_choices(scored, argument, value, known):
    with refused(value, known, field=argument):
        scored(GOLD, [record("q", HITS)], **{argument: value})


@pytest.mark.filterwarnings("ignore:ids of")
def test_a_miss_does_not_pass_when_the_run_states_no_k(loaded):
    scores = rs.score(*loaded(GOLD, {"r": [record("q", HITS[1:])]}), ["passed"])
    assert scores["passed"].tolist() == [0]


@pytest.mark.parametrize(("run_id", "covered"), [("r", [1, 0]), (None, [1, 1])])
def test_catalogue_rows_without_a_run_are_shared_by_all_runs(loaded, run_id, covered):
    given = [record("q", HITS, answer=citing({"chunk_id": "far"}, line("docs/z.md", 5, 6)))]
    results, golden = loaded(GOLD, {"r": given, "s": given})
    z = {"chunk_id": "z", "path": "docs/z.md", "start": 1, "end": 9, "span_unit": "line"}
    rows = [{"chunk_id": "far", "run_id": run_id}, z, {"chunk_id": "y", "run_id": "r"}]
    results = replace(results, chunks=from_records(rows, "chunks"))
    scores = rs.score(results, golden, ["citation_coverage"])
    assert scores["citation_coverage"].tolist() == covered
