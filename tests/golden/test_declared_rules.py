"""Rules in the header of a golden file: read, refused, written back, and checked."""

import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.golden.labelling.golden_text import GoldenFile
from ragscore.io.golden_file import WITH_VALUES
from tests.messages import ANY, refused, warned

ROW = "- {id: q, query: what, answerable: false}\n"
FILE = """\
# about vaults
rules:
  difficulty: [easy, medium, hard]
  tags:
  - sql
  - io
  team: [red, "1"]
  required: [difficulty, expected_doc_ids]
---
- id: q1
  query: join two tables
  difficulty: hrad
  tags: [sql, oi]
  team: blue
  expected_doc_ids: [d]
- id: q2
  query: the weather
  answerable: false
- id: q3
  query: read a file
  difficulty: easy
  tags: [io]
  team: 1
  answerable: true
"""


def declared(golden):
    """The rules as pairs of field and value, None where the field is required."""
    return [(field, None if pd.isna(value) else value) for field, value in golden.rules.to_numpy()]


def test_a_header_is_read_and_is_no_query(write_golden):
    golden = rs.load_golden(write_golden(FILE))
    assert golden.queries["query_id"].tolist() == ["q1", "q2", "q3"]
    assert declared(golden) == [
        ("difficulty", "easy"), ("difficulty", "medium"), ("difficulty", "hard"), ("tags", "sql"),
        ("tags", "io"), ("team", "red"), ("team", "1"), ("difficulty", None),
        ("expected_doc_ids", None),
    ]  # fmt: skip


def test_no_hash_depends_on_rules(write_golden):
    with_rules = rs.load_golden(write_golden(FILE))
    without = rs.load_golden(write_golden(FILE.partition("---\n")[2], "plain.yaml"))
    assert len(without.rules) == 0 and with_rules.golden_hash == without.golden_hash
    assert with_rules._query_hashes.equals(without._query_hashes)
    assert not len(with_rules.diff(without))


FOUND = [
    ("q1", "difficulty", "'hrad'", "one of easy, medium, hard; did you mean hard?"),
    ("q1", "tags", "'oi'", "one of sql, io"),
    ("q1", "team", "'blue'", "one of red, 1"),
    ("q2", "difficulty", "the field is missing", "a value: the file's rules require it"),
    ("q3", "expected_doc_ids", "the field is missing", "a value: the file's rules require it"),
]


def test_values_and_missing_fields_are_found_with_their_lines(write_golden):
    # q2 should be refused: it needs no expected document.
    table = rs.validate(write_golden(FILE))
    columns = ["query_id", "field", "found", "allowed"]
    assert list(table[columns].itertuples(index=False, name=None)) == FOUND
    assert table["line"].tolist() == [12, 13, 14, 16, 19]
    assert table["severity"].eq("error").all()


def test_rules_stay_with_the_set_and_are_saved(write_golden, tmp_path):
    golden = rs.load_golden(write_golden(FILE))
    columns = ["query_id", "field", "found", "allowed"]
    assert list(golden.validate()[columns].itertuples(index=False, name=None)) == FOUND
    assert golden.validate()["line"].isna().all()
    assert len(golden.select("query_id == 'q1'").validate()) == 3
    yaml, lines = golden.save(tmp_path / "out.yaml"), golden.save(tmp_path / "out.jsonl")
    assert (
        "rules:\n  difficulty: [easy, medium, hard]\n  tags: [sql, io]\n  team: [red, '1']\n"
        "  required: [difficulty, expected_doc_ids]\n---\n- id: q1\n"
    ) in yaml.read_text()
    assert json.loads(lines.read_text().splitlines()[0]) == {
        "rules": {"difficulty": ["easy", "medium", "hard"], "tags": ["sql", "io"],
                  "team": ["red", "1"], "required": ["difficulty", "expected_doc_ids"]},
    }  # fmt: skip
    for file in (yaml, lines):
        again = rs.load_golden(file)
        assert again.rules.equals(golden.rules) and again.golden_hash == golden.golden_hash
        assert len(rs.validate(file)) == 5
    with warned(9):
        golden.select(["q1"]).save(tmp_path / "out.qrels")


@pytest.mark.parametrize(
    ("header", "line", "field", "named"),
    [
        ("rules: [easy]", 1, "rules", ['["easy"]']),
        ("rules:\n  tags: sql", 2, "rules.tags", ['"sql"']),
        ("rules:\n  lang: [de]\n  tags: []", 3, "rules.tags", ["[]"]),
        ("rules:\n  lang: [no]", 2, "rules.lang", ["[false]", "yes/no"]),
        ("rules:\n  query: [a]", 2, "rules", ["'query'", "lang, difficulty, category"]),
        ("rules:\n  required: [catgory]", 2, "rules.required", ["'catgory'", "category"]),
        ("rules:\n  tags: [a]\nversion: 2", 3, ANY, ["'version'", "rules"]),
        ("rules:\n  tags: [a]\n  tags: [b]", 3, "tags", []),
    ],
)
def test_a_malformed_header_is_refused_with_its_line(write_golden, header, line, field, named):
    with refused(*named, file="golden.yaml", line=line, field=field):
        rs.load_golden(write_golden(f"{header}\n---\n{ROW}"))


@pytest.mark.parametrize("name", ["golden.yaml", "golden.jsonl"])
def test_labelling_leaves_the_header_as_it_is(write_golden, tmp_path, name):
    golden = rs.load_golden(write_golden(FILE))
    file = GoldenFile(golden.save(tmp_path / name))
    head = file.now.text.partition("q1")[0]
    edited = file.now.edited("q2", {"difficulty": "easy"})
    edited = edited.added({"id": "q9", "query": "new", "answerable": False})
    file.write(edited.edited("q1", {"tags": ["sql"]}))
    assert file.now.text.startswith(head)
    again = rs.load_golden(file.path)
    assert again.rules.equals(golden.rules)
    assert again.queries["query_id"].tolist() == ["q1", "q2", "q3", "q9"]
    assert again.queries["difficulty"].tolist()[:2] == ["hrad", "easy"]


TEXT = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ["", "no", "001", "1e3", "2026-01-31", "~", "<<", "- a", "a: b", "# c", "[1]", "{}", "x\n"]
)
VALUES = st.lists(TEXT, min_size=1, max_size=3, unique=True)
RULES = st.dictionaries(
    st.sampled_from(WITH_VALUES) | TEXT.map(lambda name: f"my {name}"), VALUES, min_size=1,
    max_size=3,
)  # fmt: skip


@given(
    values=RULES,
    required=st.lists(st.sampled_from(["lang", "tags", "my own", "answerable"]), unique=True),
    name=st.sampled_from(["g.yaml", "g.jsonl", "g.yaml.gz"]),
)
def test_any_rules_come_back(tmp_path_factory, values, required, name):
    folder = tmp_path_factory.mktemp("rules")
    records = [{"field": field, "value": value} for field in values for value in values[field]]
    records += [{"field": field, "value": None} for field in required]
    queries = pd.DataFrame({"query_id": ["q"], "answerable": [False]})
    golden = rs.Golden(queries, rules=from_records(records, "rules"))
    file = golden.save(folder / name)
    again = rs.load_golden(file)
    assert again.rules.equals(golden.rules) and again.golden_hash == golden.golden_hash
    assert again.save(folder / f"again_{name}").read_bytes() == file.read_bytes()
