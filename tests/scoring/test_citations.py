"""What an answer cites, as sets: right, retrieved, fabricated, out of scope, said twice."""

import json
from dataclasses import replace

import pytest
from conftest import hit, record

import ragscore as rs
from ragscore.frames.data import from_records
from tests.messages import warned

NAMES = [
    "citation_precision",
    "citation_recall",
    "retrieved_cited",
    "citation_fabricated",
    "citation_out_of_scope",
    "citation_duplicate",
]
GOLD = [{"id": "q", "query": "?", "expected_doc_ids": {"d": 2, "f": 1, "e": 0}}]
# each: lines 1 to 4 of docs/<doc>.md
HITS = [hit("c1", "d", 1), hit("c2", "e", 2), hit("c3", "d", 3), hit("c4", "g", 4)]


@pytest.fixture
def scored(write_golden, write_run):
    """The set measures of one answer's citations, those that are not NaN."""

    def score(
        citations, gold=GOLD, hits=HITS, chunks=None, scope=None, match="auto", refused=False
    ):
        given = {"answer": "text", "refused": refused, "citations": citations}
        results = rs.load_results(write_run("r", [record("q", hits, answer=given)], k=10))
        results = replace(
            results,
            chunks=None if chunks is None else from_records(chunks, "chunks"),
            responses=results.responses.assign(scope=scope),
        )
        return (
            rs.score(results, rs.load_golden(write_golden(gold)), NAMES, match=match)
            .iloc[0, 3:]
            .dropna()
            .to_dict()
        )

    return score


def line(path, start, end):
    return {"citation": {"kind": "line", "path": path, "start": start, "end": end}}


def chunks(*names):
    return [{"chunk_id": name} for name in names]


# Of the targets d and f: precision, recall, share of the four hits that is cited, share of what is
# cited that is made up, share of citations that repeat another.
@pytest.mark.parametrize(
    ("citations", "expected"),
    [
        # c1 (document d, twice), c2 (e, grade 0), zz (unknown): 1 of 3 right
        (chunks("c1", "c2", "zz", "c1"), (1 / 3, 1 / 2, 2 / 4, 1 / 3, 1 / 4)),
        # two passages of one right document are both right and meet one target
        (chunks("c1", "c3"), (1, 1 / 2, 2 / 4, 0, 0)),
        # lines outside every hit, though the document is right
        ([line("docs/d.md", 40, 41)], (1, 1 / 2, 0, 1, 0)),
        ([], (None, 0, 0, None, None)),
        # without a locator the marker tells them apart
        ([{"marker": "[7]"}, {"marker": "[7]"}, {"marker": "[8]"}, {}], (None, None, 0, 1, 1 / 4)),
    ],
)
def test_citations_are_counted_as_sets(scored, citations, expected):
    found = scored(citations)
    counted = [name for name in NAMES if name != "citation_out_of_scope"]
    assert [found.get(name) for name in counted] == pytest.approx(list(expected))


def test_a_citation_of_path_and_lines_gets_the_ids_of_the_hit_around_it(scored):
    gold = [{"id": "q", "query": "?", "expected_chunk_ids": ["c2"]}]
    found = scored([line("docs/e.md", 2, 3)], gold, match="chunk")
    assert (
        found["citation_precision"],
        found["citation_fabricated"],
        found["retrieved_cited"],
    ) == (1, 0, 1 / 4)


def test_citations_that_carry_no_chunk_are_matched_by_document(scored):
    gold = [{"id": "q", "query": "?", "expected_chunk_ids": ["c1"], "expected_doc_ids": ["d"]}]
    assert (
        scored([{"doc_id": "d"}, {"doc_id": "e"}], gold, match="chunk")["citation_precision"]
        == 1 / 2
    )


def test_citations_match_at_each_querys_finest_level_if_asked(scored):
    gold = [{"id": "q", "query": "?", "expected_chunk_ids": ["c3"], "expected_doc_ids": ["d"]}]
    assert scored([{"chunk_id": "c1"}], gold, match="per_query")["citation_precision"] == 0
    assert scored([{"chunk_id": "c1"}], gold, match="doc")["citation_precision"] == 1


def test_a_refusal_and_an_unlabelled_query_have_no_citation_scores(scored):
    assert scored([{"chunk_id": "c1"}], refused=True) == {}
    with warned(1, "absent_docs"):
        assert set(scored([{"chunk_id": "c1"}], [{"id": "q", "query": "?"}])) == {
            "retrieved_cited",
            "citation_fabricated",
            "citation_duplicate",
        }


def test_what_is_not_in_the_catalogue_is_out_of_scope(scored):
    chunks = [
        {
            "chunk_id": "c1",
            "doc_id": "d",
            "path": "docs/d.md",
            "start": 1,
            "end": 5,
            "span_unit": "line",
        }
    ]
    assert (
        scored([{"chunk_id": "c1"}, {"chunk_id": "c2"}], chunks=chunks)["citation_out_of_scope"]
        == 1 / 2
    )
    assert (
        scored([{"chunk_id": "c2"}], chunks=[{**chunks[0], "run_id": "r"}])["citation_out_of_scope"]
        == 1
    )


@pytest.mark.parametrize(
    ("folders", "share"),
    [(["docs"], 0), (["docs/"], 0), (["doc"], 1), (["docs/d.md", "x"], 1 / 2), ([], None)],
)
def test_what_is_under_none_of_the_folders_of_the_scope_is_out_of_scope(scored, folders, share):
    found = scored(
        [line("docs/d.md", 1, 2), line("docs/e.md", 1, 2)], scope=json.dumps({"folders": folders})
    )
    assert found.get("citation_out_of_scope") == share
