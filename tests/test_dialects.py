"""The demo's questions with every kind of label say the same as the demo's golden set."""

from pathlib import Path

import ragscore as rs

DEMO = Path(__file__).parents[1] / "data" / "demo"


def test_thirty_questions_carry_every_kind_of_label_and_say_what_the_golden_set_says():
    golden, dialects = (rs.load_golden(DEMO / f"{name}.yaml") for name in ("golden", "dialects"))
    targets, same = dialects.targets, golden.select(dialects.queries["query_id"].tolist())
    levels = targets.groupby("query_id")["level"].agg(set)
    assert len(levels) == 30 and len(dialects._refusals) == 4
    assert all(found >= {"doc", "chunk", "anchor", "predicate"} for found in levels)
    assert (targets[targets["level"] == "doc"].groupby("query_id")["grade"].max() >= 2).all()
    for level in ("doc", "chunk"):
        names = ["query_id", "target_id", f"{level}_id"]
        wanted, found = (one.loc[one["level"] == level, names] for one in (same.targets, targets))
        assert found.to_numpy().tolist() == wanted.to_numpy().tolist()
    names = ["query_id", "query", "answerable", "difficulty", "category"]
    assert dialects.queries[names].to_numpy().tolist() == same.queries[names].to_numpy().tolist()
    # anchors stand where the expected passages do
    of_level = targets.set_index("level")
    passages = of_level.loc["chunk", "chunk_id"].str.split("#").str[0]
    assert {*of_level.loc["anchor", "path"]} == {*passages}
