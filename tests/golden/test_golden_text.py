"""Edits of a golden file's text.

Whatever a golden file looks like, an edit changes one row of it and no byte beside that row.
"""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.golden.golden_text import GoldenText

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
FIELDS = st.sampled_from(
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
            st.dictionaries(FIELDS, VALUES, max_size=3)
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
    changes = data.draw(st.dictionaries(FIELDS, VALUES | st.none(), min_size=1, max_size=3))
    checked_edit(before, query_id, changes)


@given(
    st.lists(st.dictionaries(FIELDS, VALUES, max_size=3), min_size=1, max_size=4),
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
        data.draw(st.dictionaries(FIELDS, VALUES | st.none(), min_size=1, max_size=3)),
    )
