"""Slips in the words that describe queries, and targets outside what their query may search."""

import pandas as pd
import pytest

import ragscore as rs
from tests.messages import says


def rows(field, *values):
    """One labelled query a value; a value of several tags is a list."""
    return [
        {"id": f"x{n}", "query": f"text {n}", "answerable": False, field: value}
        for n, value in enumerate(values)
    ]


def slips(write_golden, field, *values):
    """What is found to be a slip of what: [found, allowed]."""
    table = rs.validate(write_golden(rows(field, *values)))
    assert set(table["rule"]) <= {"values are spelt one way"}
    return table[["found", "allowed"]].to_numpy().tolist()


def test_a_value_of_one_query_beside_a_similar_one_is_a_warning_with_its_line(write_golden):
    file = write_golden(rows("category", *["factual"] * 40, "factal", "general"))
    (problem,) = rs.validate(file).to_dict("records")
    says(problem.pop("found"), "'factal'", 1)
    says(problem.pop("allowed"), "'factual'", 40)
    assert problem == {
        "severity": "warning", "rule": "values are spelt one way", "query_id": "x40",
        "file": str(file), "line": 42, "field": "category",
    }  # fmt: skip


@pytest.mark.parametrize("field", ["lang", "difficulty", "variant", "tags", "vaults"])
def test_every_vocabulary_is_searched(write_golden, field):
    values = ["medium"] * 3 + ["meduim"]
    if field in ("tags", "vaults"):
        values = [[value] for value in values]
    ((found, allowed),) = slips(write_golden, field, *values)
    says(found, "'meduim'", 1)
    says(allowed, "'medium'", 3)


@pytest.mark.parametrize(
    ("usual", "rare"),
    [("hard", "Hard"), ("look_up", "look-up"), ("look_up", "lookup"), ("hard", "hard "),
     ("easy", "esay"), ("easy", "easyy"), ("data-frames", "data-fraems"), ("straße", "strasse"),
     ("howto/choose", "howto/chose")],
)  # fmt: skip
def test_what_is_a_slip(write_golden, usual, rare):
    ((found, meant),) = slips(write_golden, "category", usual, rare, usual, usual)
    assert found.startswith(repr(rare)) and repr(usual) in meant


@pytest.mark.parametrize(
    ("usual", "rare"),
    [("q1", "q2"), ("level-1", "level-2"), ("2023", "2024"), ("float32", "float64"),
     ("part-a", "part-b"), ("v1.0", "v10"), ("c++", "c#"), ("de", "dk"), ("en-us", "en-uk"),
     ("answerable", "unanswerable"), ("group", "groupby"), ("typical", "atypical"),
     ("io/csv", "io/tsv"), ("hard", "herd"), ("factual", "general")],
)  # fmt: skip
def test_what_is_no_slip(write_golden, usual, rare):
    assert slips(write_golden, "category", usual, rare, usual, usual) == []


def test_of_two_queries_against_one_nobody_knows_which_is_the_slip(write_golden):
    assert slips(write_golden, "category", "factual", "factual", "factal") == []


def test_tags_of_one_query_are_two_things(write_golden):
    values = [["join"], ["join"], ["join"], ["join", "joins"]]
    assert slips(write_golden, "tags", *values) == []


def test_a_field_of_many_names_is_no_vocabulary(write_golden):
    names = [f"name {chr(97 + n // 676)}{chr(97 + n // 26 % 26)}{chr(97 + n % 26)}x"
             for n in range(2100)]  # fmt: skip
    assert slips(write_golden, "category", *["name aaay"] * 3, *names) == []


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


@pytest.mark.parametrize("text", ["", "\u200b\n"])
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
    assert (problem["query_id"], problem["line"]) == ("q2", 3)
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
        (scoped(filters={"folder": "work"}), "gold_supports", "notes/a.md"),
        (scoped(folders=["note"]), "gold_supports", "notes/a.md"),
        ({"id": "x", "query": "?", "vaults": ["home"],
          "gold_supports": [{"path": "a.md", "vault": "work"}]}, "gold_supports", "vault 'work'"),
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


def test_a_target_in_another_querys_vault_is_found(write_golden):
    other = {"id": "y", "query": "!", "answerable": False, "vaults": ["work"]}
    own = scoped("work/a.md", vaults=["home"])
    assert rs.validate(write_golden([own, other]))["rule"].tolist() == ["targets are in the vaults"]
    named_alike = own | {"folders": ["work"]}
    assert not len(rs.validate(write_golden([named_alike, other])))


def test_frames_and_dicts_are_validated_too():
    labels = pd.DataFrame({"query_id": ["a", "b"], "query": ["how", " "], "doc_id": ["d", "e"]})
    table = rs.validate(labels)
    assert table["query_id"].tolist() == ["b"]
    says(table["found"][0])
    assert table["file"].isna().all() and table["line"].isna().all()
    assert not len(rs.validate({"a": ["d"], "b": {"e": 1}}))
