"""What validate finds: every rule by a set that breaks it, and the sets that break none."""

import json
from pathlib import Path

import pandas as pd
import pytest
from conftest import questions

import ragscore as rs
from ragscore.cli import main
from ragscore.golden.validate import RULES
from tests.messages import says

SUPPORT = {"path": "notes/a.md", "heading": "# A > ## B"}
OTHER = {"path": "notes/b.md", "heading": "# A"}


def case(query_id="test_001", **more):
    """A sound case of a set of supports."""
    return {
        "id": query_id,
        "query": "?",
        "answerable": True,
        "gold_supports": [SUPPORT],
        "category": "factual",
    } | more


@pytest.fixture
def found(write_golden):
    """What is found in these rows, as (rule, query id, found)."""

    def find(*rows, **more):
        table = rs.validate(write_golden(list(rows)), **more)
        return list(zip(table["rule"], table["query_id"].fillna("-"), table["found"], strict=True))

    return find


SOUND = [
    case(),
    case(
        "test_002",
        category="multi_hop",
        gold_supports=[SUPPORT, OTHER],
        required_support_groups=[[0, 1]],
        folders=["notes"],
        vaults=["home"],
        tags=["home"],
    ),
    case(
        "test_003",
        category="recency/conflict",
        gold_supports=[SUPPORT, OTHER],
        recency_conflict_rule="cite_newer",
    ),
    {"id": "test_004", "query": "?", "answerable": False, "category": "general"},
]


PLAIN = {"id": "q", "query": "?"}
BROKEN = {
    "unanswerable expects nothing": ([case(answerable=False)], "notes/a.md## A > ## B"),
    "unanswerable has no key facts": (
        [case(answerable=False, gold_supports=[], expected_key_facts=["x"])], "x",
    ),
    "something is expected": ([{"id": "q", "query": "?"}], "none"),
    "factual has no groups": ([case(required_support_groups=[[0]])], "1 groups"),
    "factual has no recency rule": ([case(recency_conflict_rule="cite_both")], "cite_both"),
    "multi_hop has groups": ([SOUND[1] | {"required_support_groups": None}], "none"),
    "multi_hop has two supports": ([case(category="multi_hop", required_support_groups=[[0]])],
    "1"),
    "groups name supports": ([SOUND[1] | {"required_support_groups": [[0, 2]]}], "2"),
    "recency has a rule": ([SOUND[2] | {"recency_conflict_rule": None}], "none"),
    "recency rules are known": ([SOUND[2] | {"recency_conflict_rule": "newest"}], "newest"),
    "recency has two supports": ([SOUND[2] | {"gold_supports": [SUPPORT]}], "1"),
    "general is unanswerable": ([case(category="general", gold_supports=[], must_contain=["x"])],
    "true"),
    "general has no supports": ([case(category="general")], "notes/a.md## A > ## B"),
    "general has no key facts": ([SOUND[3] | {"expected_key_facts": ["x"]}], "x"),
    "paths have forward slashes": ([case(gold_supports=[{"path": "notes\\a.md"}])], "notes\\a.md"),
    "folders have forward slashes": ([case(folders=["notes\\old", "notes"])], "notes\\old"),
    "headings are joined by ' > '": ([case(gold_supports=[SUPPORT | {"heading": "A> B"}])], "A> B"),
    "tags name the query's vaults": ([SOUND[1], case(vaults=["work"], tags=["home", "free"])],
    "home"),
    "targets are in the folders": ([case(folders=["note", "other"])], "notes/a.md"),
    "some target is relevant": ([PLAIN | {"answerable": True, "expected_doc_ids": {"d": 0}}], "0"),
    "must_contain is not forbidden": (
        [PLAIN | {"must_contain": ["do use merge"], "forbidden": ["use"]}],
        "'do use merge' holds 'use'",
    ),
    "expected source keys are not forbidden": (
        [PLAIN | {"expected_source_keys": ["Manual-7"],
                  "must_not_contain_source_keys": ["manual"]}],
        "'Manual-7' holds 'manual'",
    ),
    "nothing expected where empty is": (
        [PLAIN | {"expected_doc_ids": ["d"], "expected_empty": True}], "d",
    ),
    "queries have text": ([case(query=" \u200b\t")], "no text"),
    "fields are known": ([case(dificulty="hard")], "unknown field 'dificulty', in 1 query"),
}  # fmt: skip


@pytest.fixture(scope="module")
def all_found():
    """What is found of all these rows together, as (rule, found)."""
    rows = [row for rows, _ in BROKEN.values() for row in rows]
    table = rs.validate([row | {"id": f"test_{n:03}"} for n, row in enumerate(rows)])
    return set(table[["rule", "found"]].itertuples(index=False, name=None))


@pytest.mark.parametrize("rule", BROKEN)
def test_each_rule_finds_the_row_that_breaks_it(all_found, rule):
    assert (rule, BROKEN[rule][1]) in all_found


# What all rows of a set say together.
OF_SETS = {
    "ids follow the set's pattern": (
        [*(case(f"test_{n:03}") for n in range(1, 20)), case("test_20")],
        "test_20", "test_20 (others are like test_001)",
    ),
    "answerable needs supports": (
        [SOUND[0], case("test_002", gold_supports=[])], "test_002", "none",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", OF_SETS)
def test_a_row_is_unlike_the_others_of_its_set(found, rule):
    rows, *offence = OF_SETS[rule]
    assert (rule, *offence) in found(*rows)


def test_every_rule_is_broken_by_some_test():
    assert {rule.name for rule in RULES} == {*BROKEN, *OF_SETS, "ids are in the catalogue"}


FAULTY = """\
- {id: a, query: how?, expected_doc_ids: [d], group: g}
- {id: b, query: what?, expected_doc_ids: [e], group: g}
- {id: b, query: what?, expected_doc_ids: [e]}
- id: q
  query: what?
  answerable: false
  tags: [x]
  expected_doc_ids:
    - d
- id: c
  query: 1.5
  categry: x
  tags: x
  reference_answer: y
- {id: e, query: why?, expected_doc_ids: {d: -1, e: 1}}
- {id: f, query: who?, categry: y, gold_supports: [{path: a.md, headng: x}]}
- {id: g, query: why?, answerable: false, gold_supports: [{path: b, snippets: [x, y]}]}
- {id: h, query: when?, gold_supports: [{path: c}, {path: d}], category: conflict,
   recency_conflict_rule: newest}
- {id: i, query: x, answerable: perhaps}
"""
NOTHING = "no expected ids or supports: the query should be refused"
GRADES = "a whole number from 0 to 2147483647, or fractions as gains"
PROBLEMS = [
    ("error", "loading", "b", 2, "group", "b of group 'g' expect other documents than a",
     "one set of expected_doc_ids per group"),
    ("error", "loading", "b", 3, "id", "there more than once: b (first on line 2)",
     "ids must be unique"),
    ("error", "unanswerable expects nothing", "q", 8, "expected_doc_ids", "d", NOTHING),
    ("warning", "fields are known", "c", 12, "categry", "unknown field 'categry', in 2 queries",
     "did you mean 'category'?"),
    ("error", "loading", "c", 13, "tags", "found text: \"x\"", "a list of texts (quote a yes/no)"),
    ("error", "loading", "e", 15, "expected_doc_ids", "found a mapping: {\"grade\": -1}", GRADES),
    ("warning", "fields are known", "f", 16, "gold_supports",
     "unknown field 'headng', in 1 query", "did you mean 'heading'?"),
    ("error", "unanswerable expects nothing", "g", 17, "gold_supports", "b#", NOTHING),
    ("error", "recency rules are known", "h", 19, "recency_conflict_rule", "newest",
     "one of cite_newer, acknowledge_both, cite_both"),
    ("error", "loading", "i", 20, "answerable", "found text: \"perhaps\"",
     "true, false, or null"),
]  # fmt: skip


def test_every_problem_is_in_the_table_once_with_the_line_of_its_field(write_golden):
    file = write_golden(FAULTY)
    columns = ["severity", "rule", "query_id", "line", "field", "found", "allowed"]
    expected = pd.DataFrame(PROBLEMS, columns=columns).assign(file=str(file))
    pd.testing.assert_frame_equal(rs.validate(file), expected, check_like=True, check_dtype=False)
    lines = write_golden(
        json.dumps(SOUND[0]) + "\n" + json.dumps(case("test_002", folders=["x"])) + "\n",
        "golden.jsonl",
    )
    assert rs.validate(lines)["line"].tolist() == [2]


@pytest.mark.parametrize(
    ("catalogue", "expected"),
    [({"doc_id": ["d"]}, {"zz"}), ({"doc_id": ["d"], "chunk_id": ["c"]}, {"zz", "c9"})],
)
def test_expected_ids_must_be_in_the_catalogue(found, catalogue, expected):
    row = {"id": "q", "query": "?", "expected_doc_ids": ["d", "zz"], "expected_chunk_ids": ["c9"]}
    rule = "ids are in the catalogue"
    problems = found(row, catalogue=pd.DataFrame(catalogue))
    assert {*problems} == {(rule, "q", one) for one in expected}


def test_the_demos_questions_break_no_rule():
    assert rs.validate(Path(__file__).parents[2] / "data" / "demo" / "golden.yaml").empty


def test_the_command_exits_1_for_findings_0_for_none_2_for_what_is_no_golden_file(
    write_golden, tmp_path, capsys
):
    sound = str(write_golden(SOUND, "sound.yaml"))
    broken = str(write_golden([case(answerable=False)], "broken.yaml"))
    none = str(write_golden("a: [", "no.yaml"))
    assert main(["validate", sound]) == 0 and capsys.readouterr() == ("", "")
    assert main(["validate", broken]) == 1
    (told,), (total,) = (text.splitlines() for text in capsys.readouterr())
    assert told.startswith(f"{broken}:2: error: test_001: gold_supports: ")
    says(told, "notes/a.md## A > ## B", "[unanswerable expects nothing]")
    says(total, 1)
    assert main(["validate", broken, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["rule"] == "unanswerable expects nothing"
    assert [main(["validate", one]) for one in (none, str(tmp_path / "absent.yaml"))] == [2, 2]
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_an_empty_cell_of_a_table_is_a_query_without_text(tmp_path):
    file = tmp_path / "golden.csv"
    file.write_text("query_id,query,doc_id\nq1,how?,a\nq2,,b\nq3,why?,c\n")
    (problem,) = rs.validate(file).to_dict("records")
    assert problem["query_id"] == "q2" and problem["file"] == str(file)
    says(problem["found"])
    ids_only = tmp_path / "golden.qrels"
    ids_only.write_text("q1 0 a 1\nq2 0 b 1\n")
    assert not len(rs.validate(ids_only))


# Of tags of another vault: tags, vaults and folders say three things, and keys that are null
# elsewhere may be absent.
OWN = {"vaults": ["home"], "folders": ["notes"], "tags": ["work", "plans"]}
PAIR = {"gold_supports": [SUPPORT, OTHER], **OWN}
A, B = {"gold_supports": [{"path": "notes/a.md"}]}, {"expected_doc_ids": ["work/b.md"]}
WITHOUT_PROBLEM = {
    "a sound set": SOUND,
    "ids of years": [case(one) for one in ("2024-1", "2024-22", "2024-333")],
    "ids of several kinds": [case(one) for one in ("pd-001", "np-002", "py-3", "x")],
    "headings with arrows": [
        case(f"test_00{n}", gold_supports=[SUPPORT | {"heading": heading}])
        for n, heading in enumerate(["a->b", "n >= 3 > C", None])
    ],
    "tags of another vault": [
        case(**OWN),
        case("test_002", category="multi_hop", required_support_groups=[[0, 1]], **PAIR),
        {"id": "test_003", "query": "?", "answerable": False, "gold_supports": [],
         "vaults": ["home"], "tags": ["general"]},
        case("test_004", category="recency/conflict", recency_conflict_rule="cite_newer", **PAIR),
    ],
    "targets within the folders": [
        PLAIN | A | {"id": "q1", "folders": ["notes"]},
        PLAIN | A | {"id": "q2", "folders": ["./notes/", "work"]},
        PLAIN | A | {"id": "q3", "folders": ["/"]},
        PLAIN | A | {"id": "q4", "vaults": ["home"], "folders": ["home/notes"]},
        PLAIN | {"id": "q5", "vaults": ["home"], "folders": ["notes"],
                 "gold_supports": [{"path": "home/notes/a.md"}, {"path": "notes/home/a.md"}]},
    ],
    "documents without folders": [PLAIN | B | {"folders": ["notes"]}],
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_PROBLEM)
def test_a_set_that_breaks_no_rule_has_no_problem(found, name):
    assert found(*WITHOUT_PROBLEM[name]) == []


def test_frames_and_dicts_are_validated_too():
    labels = pd.DataFrame({"query_id": ["a", "b"], "query": ["how", " "], "doc_id": ["d", "e"]})
    table = rs.validate(labels)
    assert table["query_id"].tolist() == ["b"]
    says(table["found"][0])
    assert table["file"].isna().all() and table["line"].isna().all()
    assert not len(rs.validate({"a": ["d"], "b": {"e": 1}}))
    answered = questions(1).queries.assign(answerable=pd.NA, reference_answer="x")
    assert rs.validate(rs.Golden(answered)).empty, "something is expected"
