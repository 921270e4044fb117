"""Tables as people see them: HTML, Markdown and text of the same cells."""

import re

import numpy as np
import pandas as pd
import pytest

from ragscore.frames.tables import Display, Notes, ShownFrame, Table, with_sign

FORMS = ("to_html", "to_markdown", "to_text")
HOSTILE = "<script>alert(1)</script> \\input{x} | [a](http://b) \x1b[2J"


def cells(html: str) -> list[list[str]]:
    """The texts of a table's body, row by row."""
    body = html.split("<tbody>")[1].split("</tbody>")[0]
    return [
        [re.sub("<[^>]+>", "", cell) for cell in re.findall("<td.*?</td>", row, re.DOTALL)]
        for row in re.findall("<tr>.*?</tr>", body, re.DOTALL)
    ]


def test_a_column_of_floats_has_one_number_of_decimals():
    table = Table(pd.DataFrame({"run": ["a", "b"], "mean": [0.45, 0.4504]}))
    assert cells(table.to_html()) == [["a", "0.450"], ["b", "0.450"]]


def test_the_decimals_follow_the_standard_error():
    # a quarter of the interval is .05, whose first digit is the second decimal
    frame = pd.DataFrame({"mean": [0.4512], "low": [0.35], "high": [0.55]})
    assert cells(Table(frame).to_html()) == [["0.45 [0.35, 0.55]"]]
    assert "| 0.45 | 0.35 | 0.55 |" in Table(frame).to_markdown()


@pytest.mark.parametrize("form", FORMS)
def test_what_rounds_to_zero_has_no_sign(form):
    text = getattr(Table(pd.DataFrame({"delta": [-0.0001, 0.5]})), form)()
    assert "0.000" in text
    assert "-0.000" not in text


@pytest.mark.parametrize("form", FORMS)
def test_missing_values_are_dashes(form):
    frame = pd.DataFrame({"a": [None, 0.5], "b": pd.array([pd.NA, 1], "Int64")})
    text = getattr(Table(frame), form)()
    assert "nan" not in text.lower() and "<NA>" not in text and "None" not in text
    assert "—" in text


def test_verdicts_have_sign_word_and_tint():
    html = Table(pd.DataFrame({"metric": ["mrr"], "verdict": ["worse"]})).to_html()
    assert '<td class="rs-bad" style="text-align:left">▼ worse</td>' in html
    assert with_sign("better (exploratory)") == "▲ better (exploratory)"
    assert with_sign("+0.02 [0.01, 0.03] better") == "+0.02 [0.01, 0.03] ▲ better"


def test_a_query_that_reads_like_a_verdict_stays_as_it_is():
    table = Table(pd.DataFrame({"query": ["better"], "verdict": ["which is better"]}))
    assert cells(table.to_html()) == [["better", "which is better"]]


def test_an_id_is_never_cut_and_may_break_at_its_joints():
    long = "python/library/asyncio-task.html#asyncio.create_task"
    html = Table(pd.DataFrame({"id": [long]})).to_html()
    assert cells(html) == [[long]]
    assert "python/<wbr>library/<wbr>asyncio-task.<wbr>html#<wbr>asyncio.<wbr>create_task" in html
    assert "0.41 [0.33, 0.50]" in Table(pd.DataFrame({"of": ["a 0.41 [0.33, 0.50]"]})).to_html()
    assert (
        long in Table(pd.DataFrame({"id": [long] * 2, "text": ["many words " * 30] * 2})).to_text()
    )


def test_a_limit_counts_the_rest_and_names_the_way():
    table = Table(pd.DataFrame({"a": range(12)}), limit=10, way=".table")
    assert table.rest == "2 more rows: .table."
    assert len(cells(table.to_html())) == 10
    for form in FORMS:
        assert "2 more rows: .table." in getattr(table, form)()


@pytest.mark.parametrize("place", ["cell", "header", "heading"])
@pytest.mark.parametrize("form", FORMS)
def test_hostile_texts_are_shown_and_never_followed(form, place):
    frame = pd.DataFrame({HOSTILE if place == "header" else "a": [HOSTILE]})
    table = Table(frame, HOSTILE if place == "heading" else "")
    text = table.to_html(alone=False) if form == "to_html" else getattr(table, form)()
    assert "\x1b" not in text
    if form in ("to_html", "to_markdown"):
        assert "<script" not in text


def test_wide_letters_take_two_columns_of_a_terminal():
    lines = Table(pd.DataFrame({"a": ["漢字", "abcd"], "b": ["x", "y"]})).to_text().splitlines()
    assert lines == ["a     b", "漢字  x", "abcd  y"]


FRAME = pd.DataFrame(
    {
        "metric": ["mrr@10", "latency_ms", "failed"],
        "delta": [0.21, -1104.0, np.nan],
        "low": [0.1, -1300.0, np.nan],
        "high": [0.32, -908.0, np.nan],
        **{f"same_{n}": [n] * 3 for n in range(12)},
        "last": [1, 2, 3],
        "verdict": ["better", "worse", "can't tell"],
    }
)


def test_eight_columns_are_shown_and_every_other_is_named_in_wide():
    frame = ShownFrame(FRAME)
    head, *_, left = repr(frame).splitlines()
    # three columns of the frame are one, and what is the same in each row goes first
    assert head.split()[:4] == ["metric", "delta", "[low,", "high]"]
    assert head.split()[-2:] == ["last", "verdict"] and head.count("same") == 4
    assert left == "8 more columns in .wide(): same_4, same_5, same_6, same_7, same_8, …"
    for text in (repr(frame.wide()), frame.wide()._repr_html_()):
        assert all(name in text for name in FRAME) and ".wide()" not in text
    assert frame._repr_html_().count("<th ") == 8


@pytest.mark.parametrize("width", [40, 100])
def test_no_line_is_longer_than_the_terminal(width):
    long = FRAME.assign(text="many words " * 30, id="a/" * 30)
    for shown in (FRAME, long, long[["id", "text", "verdict"]]):
        lines = Table(shown).to_text(width).splitlines()
        assert max(map(len, lines)) <= width
        assert "worse" in "".join(lines)  # a verdict stays


def test_a_frame_computes_with_all_its_columns_and_stays_one_of_ours():
    frame = ShownFrame(FRAME)
    assert isinstance(frame, pd.DataFrame) and list(frame) == list(FRAME)
    part = frame[frame["last"] > 1].sort_values("last", ascending=False)
    assert part["same_11"].tolist() == [11, 11] and ".wide()" in repr(part)
    pd.testing.assert_frame_equal(pd.DataFrame(part), FRAME.iloc[[2, 1]])
    # pandas prints groups of columns
    groups = ShownFrame(pd.DataFrame({("a", "b"): [1]}))
    assert repr(groups) == repr(pd.DataFrame(groups))


class Folded(Display):
    """A table, and notes that are folded."""

    def _parts(self):
        return ["Title", Table(pd.DataFrame({"a": [1]})), Notes("One.\nTwo <b>.")]


def test_notes_fold():
    assert repr(Folded()) == "Title\n\na\n1\n\n2 notes: .notes()"
    html = Folded()._repr_html_()
    notes = "<ul><li>One.</li><li>Two &lt;b&gt;.</li></ul>"
    assert f"<details><summary>2 notes</summary>{notes}</details>" in html
    assert "- Two &lt;b>." in Folded().to_markdown()


class Card(Display):
    """A title, a sentence, two tables and notes."""

    def _parts(self):
        one = pd.DataFrame({"a": [1]})
        return ["Title", "Sentence.", Table(one), Table(one, "Second"), "A note.\nAnother."]


def test_a_display_begins_with_its_title_in_every_form():
    assert repr(Card()) == "Title\nSentence.\n\na\n1\n\nSecond\na\n1\n\nA note.\nAnother."
    assert Card().to_markdown() == (
        "# Title\n\nSentence.\n\n| a |\n| ---: |\n| 1 |\n\n## Second\n\n| a |\n| ---: |\n| 1 |\n\n"
        "- A note.\n- Another.\n"
    )
    html = Card()._repr_html_()
    assert html.index("<b>Title</b>") < html.index("Sentence.") < html.index("Second")
    assert "<ul><li>A note.</li><li>Another.</li></ul>" in html
