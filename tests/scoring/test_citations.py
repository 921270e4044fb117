"""What an answer cites, as sets: right, found, fabricated."""

import pytest
from conftest import hit, record

import ragscore as rs
from tests.messages import warned

NAMES = ["citation_precision", "citation_recall", "citation_fabricated"]
GOLD = [{"id": "q", "query": "?", "expected_doc_ids": {"d": 2, "f": 1, "e": 0}}]
# each: lines 1 to 4 of docs/<doc>.md
HITS = [hit("c1", "d", 1), hit("c2", "e", 2), hit("c3", "d", 3), hit("c4", "g", 4)]


@pytest.fixture
def scored(loaded):
    """The set measures of one answer's citations, those that are not NaN."""

    def score(citations, gold=GOLD, match="auto", refused=False):
        given = {"answer": "text", "refused": refused, "citations": citations}
        of = loaded(gold, {"r": [record("q", HITS, answer=given)]}, k=10)
        return rs.score(*of, NAMES, match=match).iloc[0, 3:].dropna().to_dict()

    return score


def line(path, start, end):
    return {"citation": {"kind": "line", "path": path, "start": start, "end": end}}


def chunks(*names):
    return [{"chunk_id": name} for name in names]


# Of the targets d and f: precision, recall, share of what is cited that is made up.
@pytest.mark.parametrize(
    ("citations", "expected"),
    [
        # c1 (document d, twice), c2 (e, grade 0), zz (unknown): 1 of 3 right
        (chunks("c1", "c2", "zz", "c1"), (1 / 3, 1 / 2, 1 / 3)),
        # two passages of one right document are both right and meet one target
        (chunks("c1", "c3"), (1, 1 / 2, 0)),
        # lines outside every hit, though the document is right
        ([line("docs/d.md", 40, 41)], (1, 1 / 2, 1)),
        ([], (None, 0, None)),  # the field is there: none of the two is met
        # without a locator the marker tells them apart
        ([{"marker": "[7]"}, {"marker": "[7]"}, {"marker": "[8]"}, {}], (None, None, 1)),
    ],
)
def test_citations_are_counted_as_sets(scored, citations, expected):
    found = scored(citations)
    assert [found.get(name) for name in NAMES] == pytest.approx(list(expected))


@pytest.mark.parametrize(
    ("citations", "expected", "match", "precision"),
    [
        # path and lines get the ids of the hit around them
        ([line("docs/e.md", 2, 3)], {"expected_chunk_ids": ["c2"]}, "chunk", 1),
        # citations that carry no chunk are matched by document
        ([{"doc_id": "d"}, {"doc_id": "e"}],
         {"expected_chunk_ids": ["c1"], "expected_doc_ids": ["d"]}, "chunk", 1 / 2),
        # at each query's finest level if asked
        (chunks("c1"), {"expected_chunk_ids": ["c3"], "expected_doc_ids": ["d"]}, "per_query", 0),
        (chunks("c1"), {"expected_chunk_ids": ["c3"], "expected_doc_ids": ["d"]}, "doc", 1),
    ],
)  # fmt: skip
def test_citations_match_at_a_level_that_they_carry(scored, citations, expected, match, precision):
    found = scored(citations, [{"id": "q", "query": "?"} | expected], match=match)
    assert (found["citation_precision"], found["citation_fabricated"]) == (precision, 0)


def test_a_refusal_and_an_unlabelled_query_have_no_citation_scores(scored):
    assert scored([{"chunk_id": "c1"}], refused=True) == {}
    with warned(1, "absent_docs"):
        assert set(scored([{"chunk_id": "c1"}], [{"id": "q", "query": "?"}])) == {
            "citation_fabricated"
        }
