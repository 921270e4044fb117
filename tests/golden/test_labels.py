"""Label sheets: what they hold, what their changes write, what survives, who wins of two people."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import hit, record, written_run
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.golden.golden_text import GoldenText
from ragscore.golden.sheet import STATE, snippet_of
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


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
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
    return rs.load_results([written_run(folder, "a", a), written_run(folder, "b", b)])


@pytest.fixture
def label(golden_file, runs):
    """Write cells of a new sheet, {(row, column): value}, into a golden file."""

    def write(cells, file=golden_file, **options):
        sheet = rs.label_sheet(runs, file, **options).astype(dict.fromkeys(STATE, "object"))
        for (row, column), value in cells.items():
            sheet.loc[row, column] = value
        return rs.add_labels(file, sheet)

    return write


FIELDS = (
    "answerable", "should_refuse", "expected_doc_ids", "expected_chunk_ids", "chunker_version",
    "gold_supports", "required_support_groups",
)  # fmt: skip


def labels_of(file):
    """The label fields of each row that has some."""
    rows = yaml.safe_load(file.read_text(encoding="utf-8"))
    found = {row["id"]: {name: row[name] for name in FIELDS if name in row} for row in rows}
    return {query_id: fields for query_id, fields in found.items() if fields}


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


NONE, PLACE = pd.NA, {"path": "docs/d1.md", "heading": "Guide > Merging"}
KEY = PLACE | {"snippets": ["It joins two tables by a key."]}
NOTHING = {"path": "docs/d2.md", "heading": "Guide > Merging", "snippets": ["Nothing."]}
BY_US = {"path": "docs/d9.md", "heading": "Guide > Merging", "snippets": ["By us."]}
ASKED = [{"id": "q1", "query": "?"}, {"id": "q2", "query": "?"}]
JUDGED = {"any": ["d2"], "grade": 2, "judged_by": "m"}
OWN = [
    {"path": "docs/d1.md", "snippets": ["by a key"], "own": 1}, {"path": "docs/d2.md", "own": 2},
    {"path": "docs/z.md"},
]  # fmt: skip
GROUPS = {"gold_supports": OWN, "required_support_groups": [[0, 2], [1]]}
GROUP = [one | {"group": "g"} for one in ASKED]
# A golden set, the level of its sheet, and steps: cells that are filled in, and the labels then.
WRITTEN = {
    "grades change in place, and 0 is a judgement": (ASKED, "anchor", [
        ({(0, "grade"): 2}, {"q1": {"gold_supports": [KEY | {"grade": 2}]}}),
        ({(0, "grade"): 3, (2, "grade"): 0},
         {"q1": {"gold_supports": [KEY | {"grade": 3}, NOTHING | {"grade": 0}]}}),
    ]),
    "chunks": (ASKED, "chunk", [
        ({(0, "grade"): 1, (1, "grade"): 1},
         {"q1": {"expected_chunk_ids": ["c1", "c2"], "chunker_version": "test@1"}}),
        ({(0, "grade"): NONE, (1, "grade"): NONE}, {}),
    ]),
    "no empty list of documents, which would mean that it should be refused": (ASKED, "doc", [
        ({(0, "grade"): 1, (1, "grade"): 1}, {"q1": {"expected_doc_ids": ["d1", "d2"]}}),
        ({(0, "grade"): NONE, (1, "grade"): NONE}, {}),
    ]),
    "an alternative stays, and a judge's mark goes with its grade": (
        [ASKED[0] | {"expected_doc_ids": [["d1", "dx"], JUDGED]}], "doc", [
            ({(0, "grade"): NONE}, {"q1": {"expected_doc_ids": ["dx", JUDGED]}}),
            ({(0, "grade"): 1, (1, "grade"): 3},
             {"q1": {"expected_doc_ids": {"dx": 1, "d2": 3, "d1": 1}}}),
        ]),
    "a mapping": ([ASKED[0] | {"expected_doc_ids": {"d1": 1, "d9": 2}}], "doc", [
        ({(1, "grade"): 0}, {"q1": {"expected_doc_ids": {"d1": 1, "d9": 2, "d2": 0}}}),
    ]),
    "paraphrases get the same documents": ([*GROUP, {"id": "q9", "query": "?"}], "doc", [
        ({(0, "grade"): 1}, {one: {"expected_doc_ids": ["d1"]} for one in ("q1", "q2")}),
    ]),
    "a removed support keeps what others say": ([ASKED[0] | {"gold_supports": OWN}], "anchor", [
        ({(0, "grade"): NONE, (2, "grade"): 2},
         {"q1": {"gold_supports": [OWN[1] | {"grade": 2}, OWN[2]]}}),
    ]),
    "groups stay": ([ASKED[0] | GROUPS], "anchor", [
        ({(2, "grade"): 2}, {"q1": GROUPS | {
            "gold_supports": [OWN[0], OWN[1] | {"grade": 2}, OWN[2]]}}),
    ]),
    "answerable is written both ways, and labels say more": (
        [*ASKED, {"id": "q4", "query": "?"}], "anchor", [
            ({(3, "answerable"): False}, {"q2": {"answerable": False}}),
            ({(3, "grade"): 1}, {"q2": {"gold_supports": [BY_US]}}),
            ({(3, "grade"): NONE, (3, "answerable"): False, (4, "answerable"): True},
             {"q2": {"answerable": False}, "q4": {"answerable": True}}),
            ({(3, "answerable"): NONE, (4, "answerable"): NONE}, {}),
        ]),
    "another name of it goes, and an empty list": (
        [one | {name: value} for one, name, value in
         zip(ASKED, ("should_refuse", "expected_doc_ids"), (True, []), strict=True)], "anchor", [
            ({(0, "answerable"): True, (3, "answerable"): True},
             {"q1": {"answerable": True}, "q2": {"answerable": True}}),
        ]),
    "words are edited": (ASKED, "anchor", [
        ({(0, "grade"): 1, (0, "snippet"): " USE merge. "},
         {"q1": {"gold_supports": [PLACE | {"snippets": ["USE merge."]}]}}),
        ({(0, "snippet"): "by a key", (1, "snippet"): "two tables"},  # a proposal is no label
         {"q1": {"gold_supports": [PLACE | {"snippets": ["by a key"]}]}}),
    ]),
}  # fmt: skip


# What the panel's buttons and the terminal's lines do quickly.
CLICKED = [name for name in WRITTEN if name.startswith(("grades change", "answerable is"))]


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.slow] * (one in CLICKED)) for one in WRITTEN],
)
def test_a_file_says_what_was_filled_in(name, label, write_golden):
    rows, level, steps = WRITTEN[name]
    file = write_golden(rows)
    for cells, expected in steps:
        assert label(cells, file, level=level) and labels_of(file) == expected


OLD = [ASKED[0] | {"expected_chunk_ids": ["x"], "chunker_version": "old@1"}]
REFUSED = [
    (OLD, "chunk", {(0, "grade"): 1}, ["test@1", "old@1"], "chunker_version"),
    ([ASKED[0] | GROUPS], "anchor", {(0, "grade"): NONE}, ["q1"], "required_support_groups"),
    ([ASKED[0] | {"gold_supports": [KEY]}], "anchor", {(0, "answerable"): False}, ["q1"],
     "sheet.answerable"),
    (ASKED, "anchor", {(0, "answerable"): False, (1, "answerable"): True}, ["q1"],
     "sheet.answerable"),
    (ASKED, "anchor", {(0, "grade"): 1, (0, "snippet"): "It joined"}, ["q1"], "sheet.grade"),
    ([{"id": "q4", "query": "?"}], "anchor", {(0, "grade"): 1}, ["q4"], "sheet.grade"),
    *[(ASKED, "anchor", {(0, "grade"): one}, ["q1", str(one)], "sheet.grade")
      for one in (1.5, "good", -1)],
    (ASKED, "anchor", {(0, "answerable"): "maybe"}, ["q1", "maybe"], "sheet.answerable"),
    (ASKED, "span", {}, ["span"], "level"),
    # another row holds the first one, too
    ("- &first {id: q1, query: '?'}\n- id: q2\n  query: d\n  like: *first\n", "anchor",
     {(0, "grade"): 1}, ["q1"], None),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "level", "cells", "named", "field"), REFUSED)
def test_what_a_sheet_may_not_say_is_refused(rows, level, cells, named, field, label, write_golden):
    file = write_golden(rows)
    before = file.read_text()
    with refused(*named, field=field):
        label(cells, file, level=level)
    assert file.read_text() == before


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


def test_what_others_write_elsewhere_survives(label, golden_file, runs):
    sheet = rs.label_sheet(runs, golden_file)
    sheet.loc[0, "grade"] = 1
    theirs = GOLDEN.replace("difficulty: hard", "difficulty: easy  # they said so")
    golden_file.write_text(theirs + "- {id: q7, query: theirs}\n")
    label({(2, "grade"): 3})
    rs.add_labels(golden_file, sheet)
    text = golden_file.read_text()
    assert "difficulty: easy  # they said so" in text and "theirs" in text
    supports = labels_of(golden_file)["q1"]["gold_supports"]
    assert [one.get("grade") for one in supports] == [3, None]


def test_a_label_that_someone_else_changed_is_not_written_over(label, golden_file, runs):
    sheet = rs.label_sheet(runs, golden_file)
    sheet.loc[0, "grade"] = 1
    label({(0, "grade"): 1})
    assert rs.add_labels(golden_file, sheet) == [], "they agree"
    sheet.loc[0, "grade"] = 2
    before = golden_file.read_text()
    with refused("q1", field="sheet"):
        rs.add_labels(golden_file, sheet)
    assert golden_file.read_text() == before
    golden_file.write_text("- {id: q2, query: left alone}\n")
    with refused("q1", field="targets.query_id"):
        rs.add_labels(golden_file, sheet)


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
    file = write_golden([{"id": f"q{n}", "query": "?"} for n in range(10)], "many.yaml")
    code = (
        "import sys; import ragscore as rs\n"
        "sheet = rs.label_sheet({f'q{n}': ['d'] for n in range(10)}, sys.argv[1], level='doc')\n"
        "for n in range(int(sys.argv[2]), 10, 2):\n"
        "    rs.add_labels(sys.argv[1], sheet.iloc[[n]].assign(grade=1))\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, str(file), str(n)]) for n in (0, 1)]
    assert [one.wait(timeout=300) for one in started] == [0, 0]
    assert all(one["expected_doc_ids"] == ["d"] for one in yaml.safe_load(file.read_text()))


def test_a_chatbots_cases_are_labelled_in_their_own_words(tmp_path, label):
    case = {
        "id": "q1", "question": "how?", "answerable": False, "expected_key_facts": [],
        "gold_supports": [], "tags": [], "own": 1.50,
    }  # fmt: skip
    other = '{"id": "q2", "question": "who?",   "answerable": true, "gold_supports": []}'
    file = tmp_path / "eval_set.jsonl"
    file.write_text(json.dumps(case) + "\n" + other + "\n")
    support = {
        "rel_path": "docs/d1.md", "heading_path": "Guide > Merging",
        "snippets": ["It joins two tables by a key."],
    }  # fmt: skip
    answered = case | {"answerable": True, "gold_supports": [support]}
    taken_off = {(0, "grade"): pd.NA, (0, "answerable"): False}
    for cells, expected in (({(0, "grade"): 1}, answered), (taken_off, case)):
        assert label(cells, file) == ["q1"]
        first, second = file.read_text().splitlines()
        assert (json.loads(first), second) == (expected, other)


def test_files_and_frames_of_another_kind_are_refused(label, golden_file, runs, tmp_path):
    sheet = rs.label_sheet(runs, golden_file)
    with refused("was", field="sheet"):
        rs.add_labels(golden_file, sheet.drop(columns="was"))
    with refused("anchor", "doc", field="sheet.level"):
        rs.add_labels(golden_file, sheet.assign(level=["anchor", "doc", *sheet["level"][2:]]))
    (tmp_path / "gold.csv").write_text("query_id,query,doc_id\nq1,how?,d1\n")
    with refused("golden.save", file="gold.csv"):
        rs.add_labels(tmp_path / "gold.csv", rs.label_sheet(runs, tmp_path / "gold.csv"))
    (tmp_path / "rig.jsonl").write_text(
        '{"query_id": "q1", "query": "?", "relevant_docs": {"d1": 1}}'
    )
    with refused("q1", file="rig.jsonl", line=1):  # a label of ours means nothing there
        label({(0, "grade"): 2}, tmp_path / "rig.jsonl", level="doc")
    with refused(field="hits.path"):
        rs.label_sheet(replace(runs, hits=runs.hits.drop(columns="path")), golden_file)


def test_a_label_of_a_hit_without_text_is_its_whole_section(label, golden_file, write_run):
    hits = [passage("c1", "d1", 1, None), passage("c2", "d1", 2, None)]
    results = rs.load_results(write_run("bare", [record("q1", hits)]))
    sheet = rs.label_sheet(results, golden_file)
    sheet.loc[1, "grade"] = 1
    rs.add_labels(golden_file, sheet)
    assert labels_of(golden_file) == {"q1": {"gold_supports": [PLACE]}}
    assert rs.label_sheet(results, golden_file)["grade"].tolist()[:2] == [1, 1]


@pytest.mark.parametrize(
    ("text", "others", "snippet"),
    [
        ("One two three. Four five six seven.", [], "One two three."),
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


# Edits of a golden file's text.

SUPPORT = {"path": "docs/a.md", "heading": "A > B", "snippets": ["so: it goes # no comment"]}
COMMENTED = """\
# Questions of the help desk.   Trailing blanks stay:   \n
- id: 001   # a number that stays 001
  query: 'How long?'
  # what answers it
  expected_doc_ids:
    # the handbook
    - handbook  # 2nd edition
    - {any: [faq, "old faq"], grade: 2}

  tags: [a,   b]   # as typed

# the next one
-   id: two
    query: >
      folded
      text

    difficulty: easy
- {id: three, query: "in braces", tags: [x]}  # flow

- query: |+
    kept blank lines


  id: four
# the end
"""


def text_of(content: str, name: str = "golden.yaml") -> GoldenText:
    return GoldenText(Path(name), content)


def outside(content: GoldenText, query_id: str) -> tuple[list[str], list[str]]:
    """The lines before a row, and from the next one on."""
    lines, n = content.text.split("\n"), [*content.rows].index(query_id)
    starts = [*(row.line - 1 for row in content.rows.values()), len(lines)]
    return lines[: starts[n]], lines[starts[n + 1] :]


def checked_edit(before: GoldenText, query_id: str, changes: dict) -> str:
    """Edit a row, and check that nothing else differs; return the new text."""
    after, wanted = before.edited({query_id: changes}), values_of(before)
    assert outside(after, query_id) == outside(before, query_id)
    both = wanted[query_id] | changes
    wanted[query_id] = {name: one for name, one in both.items()
                        if one is not None or name not in changes}  # fmt: skip
    assert json.dumps(values_of(after), sort_keys=True) == json.dumps(wanted, sort_keys=True)
    return after.text


def values_of(content: GoldenText) -> dict:
    return {name: row.values for name, row in content.rows.items()}


@pytest.mark.parametrize("query_id", ["001", "two", "three", "four"])
@pytest.mark.parametrize(
    "changes",
    [
        {"gold_supports": [SUPPORT]},
        {"answerable": False},
        {"query": "other: text\nin two lines"},
        {"tags": ["new"]},
    ],
)
def test_a_row_of_any_shape_is_changed_alone(query_id, changes):
    text = checked_edit(text_of(COMMENTED), query_id, changes)
    assert all(comment in text for comment in re.findall("#.*", COMMENTED))


def test_json_lines_change_within_one_line():
    other = '\r\n\r\n{"id":"b",  "query":"\\u00e9", "n": 1.50}'
    text = '{"id": "a", "query":"x\\ud83d\\ude00",  "tags": []}' + other
    after = text_of(text, "golden.jsonl").edited({"a": {"tags": None, "answerable": False}})
    assert after.text == '{"id": "a", "query": "x\U0001f600", "answerable": false}' + other


def test_line_ends_and_a_byte_order_mark_stay():
    before = text_of("\ufeff- id: a\r\n  query: b\r\n")
    assert (
        before.edited({"a": {"answerable": False}}).text
        == "\ufeff- id: a\r\n  query: b\r\n  answerable: false\r\n"
    )


# Any file and any edit. Files are written by hand-like rules: block and flow rows, comments, blank
# lines, quotes, multi-line texts.
ODD_TEXTS = [
    "no", "001", "1.10", "2024-01-01", "- a", "# x", "a: b", "'", '"', "~", "{", "*x", "&y", "!t",
    "%", "@", "a\nb", " lead", "trail ", "\ttab", "a #b", "\x85", "\u2028",
]  # fmt: skip
LETTERS = st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn"])
TEXTS = st.text(LETTERS, min_size=1, max_size=12) | st.sampled_from(ODD_TEXTS)
ANY_SUPPORT = st.fixed_dictionaries(
    {"path": TEXTS},
    optional={
        "heading": TEXTS,
        "snippets": st.lists(TEXTS, min_size=1, max_size=2),
        "grade": st.integers(0, 3),
    },
)
VALUES = st.one_of(
    TEXTS, st.booleans(), st.integers(-5, 5), st.lists(TEXTS, max_size=3),
    st.dictionaries(TEXTS, st.integers(0, 3), max_size=2), st.lists(ANY_SUPPORT, max_size=3),
)  # fmt: skip
ANY_FIELD = st.sampled_from(
    ["answerable", "expected_doc_ids", "gold_supports", "tags", "reference_answer", "zz"]
)
COMMENTS = st.sampled_from(["", "# a comment: - [\n", "\n", "\n\n", "   \n# two\n# lines\n", "#\n"])
STYLES = st.sampled_from(["block", "indented", "flow", "quoted"])


@st.composite
def yaml_files(draw):
    """A file as people leave it, with its ids."""
    ids = draw(
        st.lists(
            st.sampled_from(["a", "b1", "003", "d-é", "'x'"]), unique=True, min_size=1, max_size=4
        )
    )
    text = draw(COMMENTS)
    for query_id in ids:
        row = {"id": query_id, "query": draw(TEXTS)} | draw(
            st.dictionaries(ANY_FIELD, VALUES, max_size=3)
        )
        style = draw(STYLES)
        dumped = yaml.safe_dump(
            row,
            sort_keys=draw(st.booleans()),
            allow_unicode=True,
            default_flow_style=style == "flow",
            width=draw(st.sampled_from([20, 10**6])),
            default_style='"' if style == "quoted" else None,
        )
        lines = dumped.rstrip("\n").split("\n")
        if draw(st.booleans()) and style != "flow" and not lines[0].endswith(("'", '"')):
            lines.insert(1, "# inside")
        text += (
            "- "
            + "\n  ".join(lines)
            + draw(st.sampled_from(["\n", "  # behind\n"]) if len(lines) == 1 else st.just("\n"))
            + draw(COMMENTS)
        )
    return text if draw(st.booleans()) or not text.endswith("\n") else text[:-1]


@given(yaml_files(), st.data())
def test_any_yaml_file_and_any_edit_differ_in_that_row_only(text, data):
    try:
        before = text_of(text)
        rows = before.rows
    except rs.DataError:
        return  # not a file that anything reads
    query_id = data.draw(st.sampled_from(list(rows)))
    changes = data.draw(st.dictionaries(ANY_FIELD, VALUES | st.none(), min_size=1, max_size=3))
    checked_edit(before, query_id, changes)


@given(
    st.lists(st.dictionaries(ANY_FIELD, VALUES, max_size=3), min_size=1, max_size=4),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.data(),
)
def test_any_json_lines_and_any_edit_differ_in_that_row_only(rows, line_end, data):
    lines = [
        json.dumps({"id": f"q{n}", **row}, ensure_ascii=data.draw(st.booleans()), indent=None)
        for n, row in enumerate(rows)
    ]
    before = text_of(line_end.join(lines) + data.draw(st.sampled_from(["", "\n"])), "golden.jsonl")
    checked_edit(
        before,
        data.draw(st.sampled_from(list(before.rows))),
        data.draw(st.dictionaries(ANY_FIELD, VALUES | st.none(), min_size=1, max_size=3)),
    )
