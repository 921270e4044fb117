"""The demo's questions with every kind of label say the same as the demo's golden set."""

from pathlib import Path

import pytest

import ragscore as rs

DEMO = Path(__file__).parents[1] / "data" / "demo"


@pytest.fixture(scope="module")
def golden():
    return rs.load_golden(DEMO / "golden.yaml")


@pytest.fixture(scope="module")
def dialects():
    return rs.load_golden(DEMO / "dialects.yaml")


def test_thirty_questions_carry_documents_chunks_grades_anchors_and_predicates(dialects):
    levels = dialects.targets.groupby("query_id")["level"].agg(set)
    assert len(levels) == 30 and len(dialects._refusals) == 4
    assert all(found >= {"doc", "chunk", "anchor", "predicate"} for found in levels)
    assert (
        dialects.targets[dialects.targets["level"] == "doc"].groupby("query_id")["grade"].max() >= 2
    ).all()


def test_documents_passages_and_texts_are_those_of_the_golden_set(golden, dialects):
    ids = dialects.queries["query_id"]
    for level, column in (("doc", "doc_id"), ("chunk", "chunk_id")):
        wanted, found = (
            one.targets[(one.targets["level"] == level) & one.targets["query_id"].isin(ids)]
            for one in (golden, dialects)
        )
        assert (
            found[["query_id", "target_id", column]].to_numpy().tolist()
            == wanted[["query_id", "target_id", column]].to_numpy().tolist()
        )
    texts = golden.queries.set_index("query_id").loc[
        ids, ["query", "answerable", "difficulty", "category"]
    ]
    assert texts.equals(
        dialects.queries.set_index("query_id")[["query", "answerable", "difficulty", "category"]]
    )


def test_anchors_stand_where_the_expected_passages_do(dialects):
    targets = dialects.targets
    passages = targets[targets["level"] == "chunk"]["chunk_id"].str.split("#").str[0]
    anchors = targets[targets["level"] == "anchor"]
    assert set(anchors["path"]) == set(passages)
