"""The demo's questions with every kind of label say the same as the demo's golden set."""

from pathlib import Path

import ragscore as rs

DEMO = Path(__file__).parents[1] / "data" / "demo"
GOLDEN, DIALECTS = (rs.load_golden(DEMO / f"{name}.yaml") for name in ("golden", "dialects"))


def test_thirty_questions_carry_documents_chunks_grades_anchors_and_predicates():
    targets = DIALECTS.targets
    levels = targets.groupby("query_id")["level"].agg(set)
    assert len(levels) == 30 and len(DIALECTS._refusals) == 4
    assert all(found >= {"doc", "chunk", "anchor", "predicate"} for found in levels)
    documents = targets[targets["level"] == "doc"]
    assert (documents.groupby("query_id")["grade"].max() >= 2).all()


def test_documents_passages_and_texts_are_those_of_the_golden_set():
    ids = DIALECTS.queries["query_id"]
    for level, column in (("doc", "doc_id"), ("chunk", "chunk_id")):
        wanted, found = (
            one.targets[(one.targets["level"] == level) & one.targets["query_id"].isin(ids)]
            for one in (GOLDEN, DIALECTS)
        )
        names = ["query_id", "target_id", column]
        assert found[names].to_numpy().tolist() == wanted[names].to_numpy().tolist()
    wanted, found = (
        one.queries.set_index("query_id").loc[
            ids, ["query", "answerable", "difficulty", "category"]
        ]
        for one in (GOLDEN, DIALECTS)
    )
    assert found.equals(wanted)


def test_anchors_stand_where_the_expected_passages_do():
    of_level = DIALECTS.targets.set_index("level")
    passages = of_level.loc["chunk", "chunk_id"].str.split("#").str[0]
    assert set(of_level.loc["anchor", "path"]) == set(passages)
