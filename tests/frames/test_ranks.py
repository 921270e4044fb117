"""The order of hits.

Ties, ranks from 0, documents kept once, and queries without anything relevant.
"""

import json
from contextlib import nullcontext
from dataclasses import asdict

import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.scoring.policies import Policies
from ragscore.scoring.score import scored
from tests.messages import refused, warned


def hits(*rows, names=("query_id", "rank", "doc_id", "score")):
    return from_records(
        [{"run_id": "r", **dict(zip(names, row, strict=True))} for row in rows], "hits"
    )


FOUR = [("q", 1, "a", 0.5), ("q", 2, "b", 0.5), ("q", 3, "c", 0.9), ("p", 1, "z", -1.0)]
IN_32_BITS = [("q", 1, "a", 1.00000001), ("q", 2, "b", 1.0), ("q", 3, "c", 1e300),
              ("q", 4, "d", 1e200)]  # fmt: skip
ONE_WITHOUT = [("q", 1, "a", None), ("q", 2, "b", None), ("p", 1, "c", 1.0), ("p", 2, "d", 2.0)]


@pytest.mark.parametrize(
    ("rows", "ties", "ranks"),
    [
        (FOUR, "trec", [3, 2, 1, 1]),  # by score, then document descending
        (FOUR, "file", [1, 2, 3, 1]),
        (IN_32_BITS, "trec", [4, 3, 2, 1]),  # what differs beyond them is a tie
        ([*IN_32_BITS[:2], ("q", 3, "c", 1.0)], "trec64", [1, 3, 2]),
        (ONE_WITHOUT, "trec", [1, 2, 2, 1]),  # without any score, the order stays
        # documents are compared by their bytes
        ([("q", n, doc, 1) for n, doc in enumerate(["é", "a", "Z", "9", "10"][::-1], 1)], "trec",
         [5, 4, 3, 2, 1]),
        ([("q", None, "a", 1), ("p", None, "b", 1), ("q", None, "c", 1)], "file", [1, 1, 2]),
    ],
)  # fmt: skip
def test_hits_rank_as_the_file_says_or_as_trec_eval_ranks(rows, ties, ranks):
    columns = ["query_id", "rank", "doc_id", "score"]
    frame = pd.DataFrame(rows, columns=columns).assign(run_id="r")
    assert rs.match.rank_hits(frame, ties)["rank"].tolist() == ranks


def test_ranks_from_0_are_moved_up_in_the_lists_that_have_them_and_that_is_said():
    some = hits(("q", 0, "a", 2.0), ("q", 1, "b", 1.0), ("p", 1, "a", 1.0), ("q", 1, "b", 1.0))
    both = some.assign(run_id=["r", "r", "r", "s"])
    with warned(0, 1, 3) as caught:
        assert rs.match.rank_hits(both)["rank"].tolist() == [1, 2, 1, 1]
    assert len(caught) == 1


def test_ranks_that_are_left_out_stay_so_and_are_counted_once():
    rows = hits(
        ("q", 1, "a", 3.0), ("q", 3, "b", 2.0), ("p", 2, "a", 1.0), ("o", 1, "a", 1.0),
        ("o", 2, "b", 1.0),
    )  # fmt: skip
    with warned("2 of 3", "'r'") as caught:
        assert rs.match.rank_hits(rows)["rank"].tolist() == [1, 3, 2, 1, 2]
    assert len(caught) == 1
    assert rs.match.rank_hits(rows, "trec")["rank"].tolist() == [1, 2, 1, 2, 1]


@pytest.mark.parametrize(
    ("ranks", "scores", "ties", "named"),
    [
        ((1, 1), (1, 2), "file", [1, "'q'", "'r'"]),
        ((-1, 1), (1, 2), "file", [-1]),
        ((1, 2), (1, None), "trec", ["1 of 2"]),
        ((1, 2), (1, 2), "score", ["file, trec, trec64"]),
    ],
)
def test_what_cannot_be_ranked_is_refused(ranks, scores, ties, named):
    with refused(*named):
        rs.match.rank_hits(
            hits(
                *(("q", rank, f"d{rank}", score) for rank, score in zip(ranks, scores, strict=True))
            ),
            ties,
        )


def test_no_hits_rank_to_no_hits():
    assert len(rs.match.rank_hits(hits(), "trec")) == 0 and len(rs.match.collapse_hits(hits())) == 0


PASSAGES = [
    hit("a1", "a", 1),
    hit("a2", "a", 2),
    hit("b1", "b", 3),
    hit("a3", "a", 4),
    hit("c1", "c", 5),
]


@pytest.fixture
def passages(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([{"id": "q", "query": "?", "expected_doc_ids": ["b", "c"]}])
    )
    return rs.load_results(write_run("r", [record("q", PASSAGES)], k=10)), golden


def test_the_first_passage_of_a_document_stands_for_it(passages):
    results, golden = passages
    kept = rs.match.collapse_hits(results.hits)
    assert kept[["rank", "chunk_id"]].to_numpy().tolist() == [[1, "a1"], [2, "b1"], [3, "c1"]]
    labels = ["mrr", "recall@3", "precision@3", "judged@3"]
    assert rs.score(results, golden, labels).loc["q", labels].tolist() == pytest.approx(
        [1 / 3, 1 / 2, 1 / 3, 1 / 3]
    )
    # documents a b c, targets b c: first at rank 2, both within 3, two of three hits relevant and
    # judged
    assert rs.score(results, golden, labels, collapse="doc").loc[
        "q", labels
    ].tolist() == pytest.approx([1 / 2, 1, 2 / 3, 2 / 3])


def test_collapsing_takes_the_best_rank_in_any_order_and_keeps_hits_without_a_document(passages):
    hits = passages[0].hits
    kept = rs.match.collapse_hits(hits.iloc[[3, 4, 2, 1, 0]])
    assert kept[["rank", "chunk_id"]].to_numpy().tolist() == [[3, "c1"], [2, "b1"], [1, "a1"]]
    assert rs.match.collapse_hits(kept).equals(kept)
    without = hits.assign(doc_id=pd.Series([None, None, "b", None, "b"], dtype="str"))
    assert rs.match.collapse_hits(without)["rank"].tolist() == [1, 2, 3, 4]


def test_collapsing_leaves_answers_and_empty_results_alone(write_run):
    row = {"id": "q", "query": "?", "expected_doc_ids": ["a"], "must_contain": ["yes"]}
    cited = answer("yes") | {"citations": [{"marker": "[1]", "chunk_id": "a2", "doc_id": "a"}]}
    results = rs.load_results(write_run("r", [record("q", PASSAGES, answer=cited)]))
    labels, golden = ["citation_coverage", "answer_checks", "empty"], rs.load_golden([row])
    for how in ("none", "doc"):
        assert rs.score(results, golden, labels, collapse=how).loc["q", labels].tolist() == [
            1,
            1,
            0,
        ]


EMPTY = [
    {"id": "has", "query": "?", "expected_doc_ids": ["a"]},
    {"id": "none", "query": "?", "answerable": True, "expected_doc_ids": {"x": 0}},
    {"id": "refuse", "query": "?", "answerable": False},
    {"id": "unseen", "query": "?", "answerable": True, "reference_answer": "yes"},
]


VACUOUS = ["recall@5", "hit@5", "mrr", "map@5", "ndcg@5", "precision@5"]
FULL = dict.fromkeys(["recall", "hit", "mrr", "map", "ndcg"], 1.0) | {"precision": 0.0}


def vacuous(empty=FULL):
    """What gives queries without anything relevant a value."""
    return rs.Reading("own", {"match": "doc"}, empty=empty)


@pytest.mark.parametrize(
    ("empty", "expected"),
    [({}, [0] * 6), (FULL, [1, 1, 1, 1, 1, 0]), (dict.fromkeys(FULL, 0.0), [0] * 6)],
)
@pytest.mark.parametrize("n_hits", [0, 2])
def test_a_query_without_anything_relevant_has_the_value_asked_for(
    write_golden, write_run, empty, expected, n_hits
):
    golden = rs.load_golden(write_golden(EMPTY))
    results = rs.load_results(
        write_run("r", [record(name, PASSAGES[:n_hits]) for name in ("has", "none", "refuse")])
    )
    # judged with grade 0 throughout is judged, as for trec_eval
    with nullcontext() if empty else warned("1 of 2", "grades of 0"):
        scores = rs.score(results, golden, VACUOUS, missing="zero", profile=vacuous(empty))
    scores = scores[VACUOUS]
    assert [None if pd.isna(value) else value for value in scores.loc["none"]] == expected
    assert scores.loc["has", "mrr"] == (n_hits > 0) and scores.loc["refuse"].isna().all()
    # never answered: a failure, not a vacuous success
    assert (scores.loc["unseen"] == 0).all() if empty else scores.loc["unseen"].isna().all()


def test_a_query_with_targets_at_another_level_only_is_not_empty(write_run):
    golden = rs.load_golden(
        [*EMPTY[:1], {"id": "chunks", "query": "?", "expected_chunk_ids": ["a1"]}]
    )
    results = rs.load_results(
        write_run("r", [record(name, PASSAGES) for name in ("has", "chunks")])
    )
    scores = rs.score(results, golden, ["mrr", "judged@5", "passed"], profile=vacuous())
    assert scores.loc["has", "mrr"] == 1
    assert scores.loc["chunks", ["mrr", "passed"]].isna().all()


def test_a_scoring_names_every_policy_its_profile_and_its_rule(passages):
    made = scored(*passages, profile="trec").settings.iloc[0]
    assert set(json.loads(made["policies"])) == set(asdict(Policies()))
    assert json.loads(made["policies"])["missing"] == "zero" and (
        made["profile"],
        made["level"],
        made["rule"],
    ) == ("trec", "doc", "by_doc")
    by_span = scored(*passages, rule=rs.match.by_span).settings.iloc[0]
    assert by_span["rule"].startswith("by_span") and pd.isna(by_span["profile"])
    with refused("never", field="missing"):
        scored(*passages, missing="never")
