"""Label sheets: what they hold, what their changes write, what survives, who wins of two people."""

import json
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
import yaml
from conftest import hit, record

import ragscore as rs
from ragscore.golden.sheet import snippet_of
from tests.messages import refused

pytestmark = pytest.mark.filterwarnings("ignore:.*unlabelled")

GOLDEN = """\
# Should refuse: answerable: false
- id: q1
  query: how do I merge?   # asked by three people
- id: q2
  query: who wrote this?
  difficulty: hard
- id: q4
  query: never asked
"""
MERGE = "Use merge. It joins two tables by a key."
JOIN = "Use join. It joins two tables by their index."


def passage(chunk: str, doc: str, rank: int, text: str | None, heading: str = "Guide > Merging"):
    return hit(chunk, doc, rank, heading_path=heading.split(" > "), snippet=text)


@pytest.fixture
def golden_file(write_golden):
    return write_golden(GOLDEN)


@pytest.fixture
def runs(write_run):
    merge, join = passage("c1", "d1", 1, MERGE), passage("c2", "d1", 2, JOIN)
    a = [
        record("q1", [merge, join, passage("c3", "d2", 3, "Nothing.")]),
        record("q2", [passage("c9", "d9", 1, "By us.")]),
    ]
    b = [
        record("q1", [passage("c2", "d1", 1, JOIN), passage("other-id", "d1", 2, MERGE)]),
        record("q2", []),
        record("q3", [merge]),
    ]
    return rs.load_results([write_run("a", a), write_run("b", b)])


@pytest.fixture
def label(golden_file, runs):
    """Write cells of a new sheet, {(row, column): value}, into a golden file."""

    def write(cells, file=golden_file, **options):
        sheet = rs.label_sheet(runs, file, **options)
        for (row, column), value in cells.items():
            sheet.loc[row, column] = value
        return rs.add_labels(file, sheet)

    return write


def row(file, query_id):
    rows = yaml.safe_load(file.read_text(encoding="utf-8"))
    return next(one for one in rows if one["id"] == query_id)


def test_a_sheet_has_each_passage_once_and_a_row_for_a_query_without_hits(golden_file, runs):
    sheet = rs.label_sheet(runs, golden_file)
    shown = sheet[["query_id", "rank", "found", "text"]].astype("object")
    assert shown.where(shown.notna(), None).values.tolist() == [
        ["q1", 1, "a 1, b 2", MERGE], ["q1", 1, "a 2, b 1", JOIN], ["q1", 3, "a 3", "Nothing."],
        ["q2", 1, "a 1", "By us."], ["q4", None, None, None],
    ]  # fmt: skip
    # the second sentence of MERGE is in no other passage of its file
    assert sheet["snippet"].tolist()[:2] == [
        "It joins two tables by a key.", "It joins two tables by their index.",
    ]  # fmt: skip
    assert sheet["grade"].isna().all() and set(sheet["level"]) == {"anchor"}
    of_docs = rs.label_sheet(runs, golden_file, 1, level="doc")
    assert of_docs["doc_id"].dropna().tolist() == ["d1", "d9"], "a document stands there once"


def test_a_grade_is_written_as_an_anchor_and_nothing_else_changes(label, golden_file):
    assert label({(0, "grade"): 1}) == ["q1"]
    anchor = (
        "  gold_supports:\n  - path: docs/d1.md\n    heading: Guide > Merging\n    snippets: [It"
        " joins two tables by a key.]\n"
    )
    people = "# asked by three people\n"
    assert golden_file.read_text() == GOLDEN.replace(people, people + anchor)
    assert label({}) == [] and label({(0, "grade"): pd.NA}) == ["q1"]
    assert golden_file.read_text() == GOLDEN
    assert golden_file.with_name("golden.yaml.bak").read_text() == GOLDEN


def test_a_label_survives_another_chunker(label, golden_file, write_run):
    label({(0, "grade"): 1})
    wide = passage("new#1", "d1", 1, f"Preface. {MERGE} {JOIN}", "Guide > Merging > All")
    again = rs.load_results(write_run("big", [record(f"q{n}", [wide]) for n in (1, 2, 4)]))
    golden = rs.load_golden(golden_file)
    assert rs.score(again, golden, ["mrr"], match="anchor")["mrr"].iloc[0] == 1


def test_grades_change_in_place_and_zero_is_a_judgement(label, golden_file):
    label({(0, "grade"): 2})
    label({(0, "grade"): 3, (2, "grade"): 0})
    assert [one.get("grade") for one in row(golden_file, "q1")["gold_supports"]] == [3, 0]
    label({(0, "grade"): 0})
    assert rs.load_golden(golden_file).queries["answerable"].isna().all()


@pytest.mark.parametrize(
    ("level", "field", "rows", "ids"),
    [
        ("chunk", "expected_chunk_ids", (0, 1), ["c1", "c2"]),
        ("doc", "expected_doc_ids", (0, 1), ["d1", "d2"]),
    ],
)
def test_ids_are_written_on_request(label, golden_file, level, field, rows, ids):
    label({(n, "grade"): 1 for n in rows}, level=level)
    found = row(golden_file, "q1")
    assert found[field] == ids
    assert found.get("chunker_version") == ("test@1" if level == "chunk" else None)
    label({(n, "grade"): pd.NA for n in rows}, level=level)
    assert golden_file.read_text() == GOLDEN, "an empty list would mean that it should be refused"


def test_a_chunk_of_another_chunker_is_not_mixed_in(write_golden, label):
    text = "- {id: q1, query: '?', expected_chunk_ids: [x], chunker_version: old@1}\n"
    with refused("test@1", "old@1", field="chunker_version"):
        label({(0, "grade"): 1}, write_golden(text), level="chunk")


def test_forms_of_other_targets_stay(write_golden, label):
    listed = [["d1", "dx"], {"any": ["d2"], "grade": 2, "judged_by": "m"}]
    file = write_golden([{"id": "q1", "query": "?", "expected_doc_ids": listed}])
    label({(0, "grade"): pd.NA}, file, level="doc")
    assert row(file, "q1")["expected_doc_ids"] == ["dx", listed[1]], "an alternative stays"
    label({(0, "grade"): 1, (1, "grade"): 3}, file, level="doc")
    assert row(file, "q1")["expected_doc_ids"] == {"dx": 1, "d2": 3, "d1": 1}
    file = write_golden([{"id": "q1", "query": "?", "expected_doc_ids": {"d1": 1, "d9": 2}}])
    label({(1, "grade"): 0}, file, level="doc")
    assert row(file, "q1")["expected_doc_ids"] == {"d1": 1, "d9": 2, "d2": 0}


def test_paraphrases_get_the_same_documents(write_golden, label):
    rows = [{"id": f"q{n}", "query": "?", "group": "g"} for n in (1, 2)]
    file = write_golden([*rows, {"id": "q9", "query": "???"}])
    assert label({(0, "grade"): 1}, file, level="doc") == ["q1", "q2"]
    found = yaml.safe_load(file.read_text())
    assert [one.get("expected_doc_ids") for one in found] == [["d1"], ["d1"], None]


def test_a_removed_support_keeps_what_others_say_and_never_moves_their_groups(write_golden, label):
    supports = [
        {"path": "docs/d1.md", "snippets": ["by a key"], "own": 1},
        {"path": "docs/d2.md", "own": 2},
        {"path": "docs/z.md"},
    ]
    case = {"id": "q1", "query": "?", "gold_supports": supports}
    file = write_golden([case])
    label({(0, "grade"): pd.NA, (2, "grade"): 2}, file)
    assert row(file, "q1")["gold_supports"] == [supports[1] | {"grade": 2}, supports[2]]
    file = write_golden([case | {"required_support_groups": [[0, 2], [1]]}])
    with refused("q1", field="required_support_groups"):
        label({(0, "grade"): pd.NA}, file)
    label({(2, "grade"): 2}, file)
    assert row(file, "q1")["required_support_groups"] == [[0, 2], [1]]


def test_answerable_is_written_both_ways_and_labels_say_more(label, golden_file, write_golden):
    label({(3, "answerable"): False})
    assert row(golden_file, "q2")["answerable"] is False
    label({(3, "grade"): 1})  # a passage that answers it
    assert "answerable" not in row(golden_file, "q2")
    with refused("q2", field="sheet.answerable"):
        label({(3, "answerable"): False})
    label({(3, "grade"): pd.NA, (3, "answerable"): False, (4, "answerable"): True})
    assert row(golden_file, "q2")["answerable"] is False
    assert row(golden_file, "q4")["answerable"] is True
    label({(3, "answerable"): pd.NA, (4, "answerable"): pd.NA})
    assert golden_file.read_text() == GOLDEN
    file = write_golden("- {id: q1, query: '?', should_refuse: true}\n", "other.yaml")
    label({(0, "answerable"): True}, file)
    assert row(file, "q1") == {"id": "q1", "query": "?", "answerable": True}
    with refused("q1", field="sheet.answerable"):
        label({(0, "answerable"): False, (1, "answerable"): pd.NA}, file)


def test_a_snippet_is_edited_and_must_stand_in_the_text(label, golden_file):
    with refused("q1", field="sheet.grade"):
        label({(0, "grade"): 1, (0, "snippet"): "It joined"})
    label({(0, "grade"): 1, (0, "snippet"): " USE merge. "})
    assert row(golden_file, "q1")["gold_supports"][0]["snippets"] == ["USE merge."]
    label({(0, "snippet"): "by a key"})
    assert row(golden_file, "q1")["gold_supports"][0]["snippets"] == ["by a key"]
    label({(1, "snippet"): "two tables"})  # a proposal is no label
    assert len(row(golden_file, "q1")["gold_supports"]) == 1


def test_a_sheet_goes_through_csv_and_back(golden_file, runs, tmp_path):
    sheet = rs.label_sheet(runs, golden_file)
    sheet.loc[0, "grade"], sheet.loc[3, "answerable"] = 2, False
    sheet.to_csv(tmp_path / "sheet.csv", index=False)
    golden = rs.load_golden(golden_file)
    both = [golden.with_labels(one) for one in (sheet, tmp_path / "sheet.csv")]
    assert both[0].golden_hash == both[1].golden_hash != golden.golden_hash
    # as a spreadsheet writes them
    text = (tmp_path / "sheet.csv").read_text().replace("False", "FALSE").replace(",2,", ",2.0,")
    (tmp_path / "sheet.csv").write_text(text)
    assert rs.add_labels(golden_file, tmp_path / "sheet.csv") == ["q1", "q2"]
    assert rs.load_golden(golden_file).golden_hash == both[0].golden_hash


@pytest.mark.parametrize("level", ["anchor", "chunk", "doc"])
def test_a_file_and_a_set_in_memory_get_the_same_labels(golden_file, runs, level):
    for grades in ([1, 0, 3], [pd.NA, 2, 0]):
        sheet, golden = rs.label_sheet(runs, golden_file, level=level), rs.load_golden(golden_file)
        hits = sheet.index[sheet["rank"].notna()]
        sheet.loc[hits, "grade"] = pd.array((grades * 2)[: len(hits)], dtype="Int64")
        in_memory = golden.with_labels(sheet)
        rs.add_labels(golden_file, sheet)
        again = rs.load_golden(golden_file)
        both = [one.targets.drop(columns="target_id") for one in (in_memory, again)]
        pd.testing.assert_frame_equal(*both, check_like=True)
        pd.testing.assert_frame_equal(in_memory.queries, again.queries, check_like=True)


def test_what_others_write_elsewhere_survives(golden_file, runs):
    sheet = rs.label_sheet(runs, golden_file)
    theirs = golden_file.read_text().replace("difficulty: hard", "difficulty: easy  # they said so")
    golden_file.write_text(theirs + "- {id: q7, query: theirs}\n")
    other = rs.label_sheet(runs, golden_file)
    other.loc[2, "grade"] = 3
    rs.add_labels(golden_file, other)
    sheet.loc[0, "grade"] = 1
    rs.add_labels(golden_file, sheet)
    text = golden_file.read_text()
    assert "difficulty: easy  # they said so" in text and "theirs" in text
    assert [one.get("grade") for one in row(golden_file, "q1")["gold_supports"]] == [3, None]


def test_a_label_that_someone_else_changed_is_not_written_over(golden_file, runs):
    first, second = (rs.label_sheet(runs, golden_file) for _ in range(2))
    first.loc[0, "grade"] = second.loc[0, "grade"] = 1
    rs.add_labels(golden_file, first)
    assert rs.add_labels(golden_file, second) == [], "they agree"
    second.loc[0, "grade"] = 2
    before = golden_file.read_text()
    with refused("q1", field="sheet"):
        rs.add_labels(golden_file, second)
    assert golden_file.read_text() == before
    golden_file.write_text("- {id: q2, query: left alone}\n")
    with refused("q1", field="targets.query_id"):
        rs.add_labels(golden_file, second)


def test_two_labellers_are_compared(golden_file, runs):
    first, second = (rs.label_sheet(runs, golden_file, level="chunk") for _ in range(2))
    first["grade"], second["grade"] = [1, 0, 0, 1, 1, pd.NA], [1, 0, 1, 1, 1, pd.NA]
    assert rs.judging.agreement(first, second)["n"].tolist() == [5]


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(label, golden_file, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda descriptor: (_ for _ in ()).throw(OSError("disk full")))
    with refused(file="golden.yaml.bak"):
        label({(0, "grade"): 1})
    assert golden_file.read_text() == GOLDEN and not list(golden_file.parent.glob(".golden*"))


@pytest.mark.slow
def test_two_processes_lose_no_label(write_golden):
    file = write_golden([{"id": f"q{n}", "query": "?"} for n in range(20)], "many.yaml")
    code = (
        "import sys; import ragscore as rs\n"
        "sheet = rs.label_sheet({f'q{n}': ['d'] for n in range(20)}, sys.argv[1], level='doc')\n"
        "for n in range(int(sys.argv[2]), 20, 2):\n"
        "    rs.add_labels(sys.argv[1], sheet.iloc[[n]].assign(grade=1))\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, str(file), str(n)]) for n in (0, 1)]
    assert [one.wait(timeout=300) for one in started] == [0, 0]
    assert all(one["expected_doc_ids"] == ["d"] for one in yaml.safe_load(file.read_text()))


def test_a_row_that_cannot_be_changed_alone_is_refused_not_guessed(write_golden, label, tmp_path):
    file = write_golden("- &first {id: q1, query: '?'}\n- id: q2\n  query: d\n  like: *first\n")
    with refused("q1", file="golden.yaml", line=1):  # it would change what `like` holds, too
        label({(0, "grade"): 1}, file)
    (tmp_path / "rig.jsonl").write_text(
        '{"query_id": "q1", "query": "?", "relevant_docs": {"d1": 1}}'
    )
    with refused("q1", file="rig.jsonl", line=1):  # a label of ours means nothing there
        label({(0, "grade"): 2}, tmp_path / "rig.jsonl", level="doc")


def test_near_misses_are_high_hits_without_a_label(label, golden_file, runs):
    label({(0, "grade"): 1})
    sheet = rs.label_sheet(runs, golden_file)
    near = sheet.query("answerable and grade.isna() and rank <= 3")
    assert near[["query_id", "rank"]].values.tolist() == [["q1", 1], ["q1", 3]]


def test_a_chatbots_cases_are_labelled_in_their_own_words(tmp_path, runs):
    case = {
        "id": "q1", "question": "how?", "answerable": False, "expected_key_facts": [],
        "gold_supports": [], "tags": [], "own": 1.50,
    }  # fmt: skip
    other = '{"id": "q2", "question": "who?",   "answerable": true, "gold_supports": []}'
    file = tmp_path / "eval_set.jsonl"
    file.write_text(json.dumps(case) + "\n" + other + "\n")
    sheet = rs.label_sheet(runs, file)
    assert sheet["answerable"].tolist()[0] is False
    sheet.loc[0, "grade"] = 1
    assert rs.add_labels(file, sheet) == ["q1"]
    support = {
        "rel_path": "docs/d1.md", "heading_path": "Guide > Merging",
        "snippets": ["It joins two tables by a key."],
    }  # fmt: skip
    lines = file.read_text().splitlines()
    assert json.loads(lines[0]) == case | {"answerable": True, "gold_supports": [support]}
    assert lines[1] == other
    assert rs.load_golden(file).targets["heading"].tolist() == ["Guide > Merging"]
    again = rs.label_sheet(runs, file)
    again.loc[0, "grade"], again.loc[0, "answerable"] = pd.NA, False
    rs.add_labels(file, again)
    assert json.loads(file.read_text().splitlines()[0]) == case


def test_what_a_sheet_may_not_say_is_refused(label, golden_file, runs, tmp_path):
    for cell, value in (("grade", 1.5), ("grade", "good"), ("grade", -1), ("answerable", "maybe")):
        sheet = rs.label_sheet(runs, golden_file).astype({cell: "object"})
        sheet.loc[0, cell] = value
        with refused("q1", str(value), field=f"sheet.{cell}"):
            rs.add_labels(golden_file, sheet)
    with refused("was", field="sheet"):
        rs.add_labels(golden_file, sheet.drop(columns="was"))
    with refused("span", field="level"):
        rs.label_sheet(runs, golden_file, level="span")
    with refused("q4", field="sheet.grade"):
        label({(4, "grade"): 1})
    (tmp_path / "gold.csv").write_text("query_id,query,doc_id\nq1,how?,d1\n")
    with refused(file="gold.csv"):
        rs.add_labels(tmp_path / "gold.csv", rs.label_sheet(runs, tmp_path / "gold.csv"))
    bare = replace(runs, hits=runs.hits.drop(columns="path"))
    with refused(field="hits.path"):
        rs.label_sheet(bare, golden_file)


def test_a_label_of_a_hit_without_text_is_its_whole_section(label, golden_file, write_run):
    hits = [passage("c1", "d1", 1, None), passage("c2", "d1", 2, None)]
    results = rs.load_results(write_run("bare", [record("q1", hits)]))
    sheet = rs.label_sheet(results, golden_file)
    sheet.loc[1, "grade"] = 1
    rs.add_labels(golden_file, sheet)
    support = {"path": "docs/d1.md", "heading": "Guide > Merging"}
    assert row(golden_file, "q1")["gold_supports"] == [support]
    assert rs.label_sheet(results, golden_file)["grade"].tolist()[:2] == [1, 1]


@pytest.mark.parametrize(
    ("text", "others", "snippet"),
    [
        ("One two three four. Five six seven.", [], "One two three four."),
        ("One two three four. Five six seven.", ["so: one TWO three four."], "Five six seven."),
        ("Title\nA line that says more", [], "A line that says more"),
        ("a " * 80, [], ("a " * 50).strip()),
        ("The text was cut here...", [], "The text was cut here"),
        ("numpy.rint: Round to the nearest.", [], "Round to the nearest."),
        ("ok", [], "ok"),
        (" \n--\n", [], None),
    ],
)
def test_a_snippet_is_a_sentence_that_only_this_text_holds_and_has_no_ellipsis(
    text, others, snippet
):
    assert snippet_of(text, others) == snippet
    assert snippet is None or snippet in text
