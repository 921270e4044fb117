"""Misspelt names of fields, and targets outside what their query may search."""

import pandas as pd
import pytest

import ragscore as rs
from tests.messages import says


def test_fields_that_look_misspelt_are_named_once_with_the_line_of_the_first(write_golden):
    text = ("- id: q1\n  query: a\n  answerable: false\n- id: q2\n  query: b\n"
            "  answerable: false\n  categry: x\n- {id: q3, query: c, categry: y,"
            " answerable: false}\n")  # fmt: skip
    (problem,) = rs.validate(write_golden(text)).to_dict("records")
    assert (problem["line"], problem["field"], problem["severity"]) == (7, "categry", "warning")
    says(problem["found"], "'categry'", 2)
    support = write_golden([{"id": "q", "query": "?", "gold_supports": [
        {"path": "a.md", "headng": "x"}]}])  # fmt: skip
    ((field, allowed),) = rs.validate(support)[["field", "allowed"]].to_numpy().tolist()
    assert field == "gold_supports"
    says(allowed, "'heading'")


@pytest.mark.parametrize("text", ["", "  ", "\u200b\n"])
def test_a_query_without_text_is_found(write_golden, text):
    file = write_golden([{"id": "q", "query": text, "answerable": False},
                         {"id": "r", "query": "?", "answerable": False}])  # fmt: skip
    (problem,) = rs.validate(file).to_dict("records")
    assert (problem["query_id"], problem["line"], problem["field"]) == ("q", 2, "query")
    says(problem["found"])


def test_an_empty_cell_of_a_table_is_a_query_without_text(tmp_path):
    file = tmp_path / "golden.csv"
    file.write_text("query_id,query,doc_id\nq1,how?,a\nq2,,b\nq3,why?,c\n")
    (problem,) = rs.validate(file).to_dict("records")
    assert problem["query_id"] == "q2" and problem["file"] == str(file)
    says(problem["found"])
    ids_only = tmp_path / "golden.qrels"
    ids_only.write_text("q1 0 a 1\nq2 0 b 1\n")
    assert not len(rs.validate(ids_only))


def scoped(path="notes/a.md", **more):
    return {"id": "x", "query": "?", "gold_supports": [{"path": path}]} | more


@pytest.mark.parametrize(
    ("row", "field", "found"),
    [
        (scoped(folders=["work"]), "gold_supports", "notes/a.md"),
        (scoped(folders=["note"]), "gold_supports", "notes/a.md"),
    ],
)  # fmt: skip
def test_what_lies_outside_the_scope_is_found(write_golden, row, field, found):
    assert rs.validate(write_golden([row]))[["field", "found"]].to_numpy().tolist() == [
        [field, found]
    ]


@pytest.mark.parametrize(
    "row",
    [
        scoped(folders=["notes"]),
        scoped(folders=["./notes/", "work"]),
        scoped(folders=["/"]),
        scoped(vaults=["home"], folders=["home/notes"]),
        scoped("home/notes/a.md", vaults=["home"], folders=["notes"]),
        {"id": "x", "query": "?", "expected_doc_ids": ["work/b.md"], "folders": ["notes"]},
    ],
)
def test_what_lies_within_the_scope_is_not(write_golden, row):
    assert rs.validate(write_golden([row]))["rule"].tolist() == []


def test_frames_and_dicts_are_validated_too():
    labels = pd.DataFrame({"query_id": ["a", "b"], "query": ["how", " "], "doc_id": ["d", "e"]})
    table = rs.validate(labels)
    assert table["query_id"].tolist() == ["b"]
    says(table["found"][0])
    assert table["file"].isna().all() and table["line"].isna().all()
    assert not len(rs.validate({"a": ["d"], "b": {"e": 1}}))
