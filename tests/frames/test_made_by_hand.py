"""Golden sets and results made by hand are checked as those of files are."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused, warned

QUERIES = pd.DataFrame({"query_id": ["q1", "q2", "q3"]})


def golden_with(targets):
    return rs.Golden(QUERIES, pd.DataFrame(targets))


def target(query_id="q1", level="doc", target_id="d1", **more):
    return {"query_id": query_id, "level": level, "target_id": target_id, **more}


@pytest.mark.parametrize(
    ("targets", "field", "named"),
    [
        (
            [target(grade=1), target(grade=2)],
            "targets",
            [1, "q1 / doc / d1 / 0", "query_id, level, target_id, alternative"],
        ),
        (
            [target(alternative=0, grade=1), target(alternative=1, grade=2)],
            "targets.target_id",
            ["row 0", "'d1'", "2 of 2"],
        ),
        (
            [target(level="document")],
            "targets.level",
            ["row 0", "'document'", "1 of 1", "chunk, doc, anchor, text, source_key, predicate"],
        ),
        (
            [target(), target("Q2")],
            "targets.query_id",
            ["row 1", "'Q2'", "1 of 2", "golden.select"],
        ),
        ([target(grade=-1)], "targets.grade", ["row 0", -1, "1 of 1"]),
        ([target(grade=0.5)], "targets.grade", ["row 0", 0.5, "1 of 1"]),
    ],
)
def test_targets_that_nothing_could_be_made_of_are_refused(targets, field, named):
    with refused(*named, field=field):
        golden_with(targets)


@pytest.mark.parametrize("frame", ["tags", "checks", "support_groups", "conditions"])
def test_rows_about_unknown_queries_are_refused(frame):
    rows = {
        "tags": {"kind": "tag", "value": "x"},
        "checks": {"kind": "forbidden", "text": "x"},
        "support_groups": {"group": 0, "target_id": "d1"},
        "conditions": {"target_id": "d1", "key": "year", "value": "1"},
    }[frame]
    with refused("row 0", "'q9'", field=f"{frame}.query_id"):
        rs.Golden(QUERIES, **{frame: pd.DataFrame([{"query_id": "q9", **rows}])})


@pytest.mark.parametrize(
    ("level", "column"), [("doc", "doc_id"), ("chunk", "chunk_id"), ("source_key", "source_key")]
)
def test_a_target_without_an_id_is_what_its_target_id_names(level, column):
    golden = golden_with([target(level=level, target_id="x"), target("q2", level, "y")])
    assert golden.targets[column].tolist() == ["x", "y"]
    some = golden_with([target(level=level, target_id="x", **{column: "own"}), target("q2", level)])
    assert some.targets[column].tolist() == ["own", "d1"]


def test_a_part_of_a_golden_set_is_selected():
    golden = rs.Golden(
        QUERIES.assign(lang=["de", "en", "de"]),
        pd.DataFrame([target(), target("q2"), target("q3")]),
        tags=pd.DataFrame({"query_id": ["q1", "q2"], "kind": "tag", "value": "x"}),
    )
    german = golden.select("lang == 'de'")
    assert german.targets["query_id"].tolist() == ["q1", "q3"]
    assert german.tags["query_id"].tolist() == ["q1"]
    assert golden.select(golden.queries["lang"] == "de").golden_hash == german.golden_hash
    assert golden.select(["q1", "q3"]).golden_hash == german.golden_hash
    for wrong in ("q9", "lang == 'fr'", ["q1", "q9"], np.array([True])):
        with refused(field="queries"):
            golden.select(wrong)


def test_hits_of_a_run_that_is_not_there_are_refused_with_its_name():
    hits = pd.DataFrame({"run_id": ["b"], "query_id": "q1", "rank": 1, "doc_id": "d1"})
    responses = pd.DataFrame({"run_id": ["a"], "query_id": "q1"})
    with refused("run_id", "'b'", "a", field="hits"):
        rs.Results(pd.DataFrame({"run_id": ["a"]}), responses, hits)


def test_hits_that_belong_to_no_response_are_counted_and_said():
    hits = pd.DataFrame(
        {"run_id": "a", "query_id": ["q1", "q2", "q2"], "rank": [1, 1, 2], "doc_id": "d1"}
    )
    results = rs.Results(
        pd.DataFrame({"run_id": ["a"]}), pd.DataFrame({"run_id": ["a"], "query_id": "q1"}), hits
    )
    golden = rs.Golden(QUERIES[:1], pd.DataFrame([target()]))
    with warned("2 hits"):
        assert rs.score(results, golden, "mrr")["mrr"].tolist() == [1]
