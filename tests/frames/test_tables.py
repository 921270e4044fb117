"""Tables as people see them: HTML, Markdown and text of the same cells; reports as JSON."""

import dataclasses
import json
import math
import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
from browser import CHROMIUM, Browser
from conftest import RUN_A, RUN_B, THREE_QUERIES, answer, written_run
from faults.test_strings import HOSTILE, assert_html, assert_markdown, assert_shown
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import ragscore as rs
from ragscore.analysis.comparison.gate import Gate
from ragscore.frames.escaping import visible
from ragscore.frames.tables import (
    STYLE,
    Display,
    Notes,
    Table,
    dump,
    reload,
    shown_intervals,
    with_sign,
)
from tests.messages import refused


def cells(html: str) -> list[list[str]]:
    """The texts of a table's body, row by row."""
    body = html.split("<tbody>")[1].split("</tbody>")[0]
    return [
        [re.sub("<[^>]+>", "", cell) for cell in re.findall("<td.*?</td>", row, re.DOTALL)]
        for row in re.findall("<tr>.*?</tr>", body, re.DOTALL)
    ]


FORMS_OF = {
    "one number of decimals": ({"mean": [0.45, 0.4504]}, ["0.450", "0.450"]),
    "an interval leaves out 0": ({"delta": [0.04], "low": [0.004], "high": [0.08]},
                                 ["+0.040 [+0.004, +0.080]"]),
    "no sign of 0": ({"delta": [-0.0001, 0.5]}, ["0.000", "0.500"]),
    "missing": ({"a": pd.array([pd.NA, 1], "Int64")}, ["—", "1"]),
    "missing beside text": ({"a": [None, "b"]}, ["—", "b"]),
    "a query that reads like a verdict": ({"query": ["better"]}, ["better"]),
    "a verdict in a sentence": ({"verdict": ["which is better"]}, ["which is better"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS_OF)
def test_cells_are_the_same_in_every_form(name):
    columns, texts = FORMS_OF[name]
    table = Table(pd.DataFrame(columns))
    assert [one for (one,) in cells(table.to_html())] == texts
    assert [line.strip() for line in table.to_text().splitlines()[1:]] == texts
    assert [line.strip("| ") for line in table.to_markdown().splitlines()[2:]] == texts


def test_a_value_and_its_interval_are_one_column_as_precise_as_the_standard_error():
    # a quarter of the interval is .05, whose first digit is the second decimal
    frame = pd.DataFrame({"mean": [0.4512], "low": [0.35], "high": [0.55]})
    assert cells(Table(frame).to_html()) == [["0.45 [0.35, 0.55]"]]
    lines = ["mean [low, high]", "0.45 [0.35, 0.55]"]
    assert [line.strip() for line in Table(frame).to_text().splitlines()] == lines
    assert Table(frame).to_markdown() == f"| {lines[0]} |\n| ---: |\n| {lines[1]} |"


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (0.5, -5.853, 6.853, "0.5 [-5.9, 6.9]"),  # the mean of 0 and 1: t with 1 degree is 12.7
        (12.5, -50.0, 75.0, "12 [-50, 75]"),
        (9.6, 2.0, 17.2, "9.6 [2.0, 17.2]"),
        (10.4, 2.0, 18.8, "10 [2, 19]"),
        (0.5, 0.1, 0.9, "0.50 [0.10, 0.90]"),  # shares have two
        (1.2, 0.7, 1.7, "1.2 [0.7, 1.7]"),
        (0.04, 0.004, 0.0801, "0.040 [0.004, 0.080]"),  # leaves out 0
        (-0.04, -0.08, -0.0004, "-0.0400 [-0.0800, -0.0004]"),
        (0.04, -0.0004, 0.08, "0.04 [0.00, 0.08]"),  # holds 0
        (0.5, float("nan"), float("nan"), "0.500"),
        (1234.5, float("nan"), float("nan"), "1234"),
    ],
)
def test_decimals_below_ten_and_an_interval_without_zero_never_touches_it(value, low, high, shown):
    assert shown_intervals(pd.DataFrame([[value, low, high]])) == [shown]


def test_verdicts_have_sign_word_and_tint():
    html = Table(pd.DataFrame({"metric": ["mrr"], "verdict": ["worse"]})).to_html()
    assert '<td class="rs-bad" style="text-align:left">▼ worse</td>' in html
    assert with_sign("better (exploratory)") == "▲ better (exploratory)"
    assert with_sign("+0.02 [0.01, 0.03] better") == "+0.02 [0.01, 0.03] ▲ better"


def test_a_limit_counts_the_rest_and_names_the_way():
    table = Table(pd.DataFrame({"a": range(12)}), limit=10, way=".table")
    assert len(cells(table.to_html())) == 10
    for shown in (table.to_html(), table.to_markdown(), table.to_text()):
        assert "2 more rows: .table." in shown


def test_wide_letters_take_two_columns_of_a_terminal():
    lines = Table(pd.DataFrame({"a": ["漢字", "abcd"], "b": ["x", "y"]})).to_text().splitlines()
    assert lines == ["a     b", "漢字  x", "abcd  y"]


FRAME = pd.DataFrame(
    {
        "metric": ["mrr@10", "latency_ms", "failed"],
        "delta": [0.21, -1104.0, np.nan],
        "low": [0.1, -1300.0, np.nan],
        "high": [0.32, -908.0, np.nan],
        **{f"column_{n}": [n] * 3 for n in range(8)},
        "last": [1, 2, 3],
        "verdict": ["better", "worse", "can't tell"],
    }
)


def test_a_terminal_shows_the_first_columns_that_fit_and_names_every_other():
    head, *_, left = Table(FRAME).to_text().splitlines()
    # 12 and 21 characters with the spaces between them, and 10 for each other column
    fitting = [f"column_{n}" for n in range(6)]
    assert head.split() == ["metric", "delta", "[low,", "high]", *fitting]
    assert left == "4 more columns in the frame: column_6, column_7, last, verdict."
    assert Table(FRAME).to_html().count("<th ") == 12
    assert "last" in Table(FRAME).to_markdown().splitlines()[0]


@pytest.mark.parametrize("width", [40, 100])
def test_no_line_is_longer_than_the_terminal(width):
    long = FRAME.assign(text="many words " * 30, id="a/" * 30)
    for shown in (FRAME, long, long[["id", "text", "verdict"]], long[["text"]]):
        assert max(map(len, Table(shown).to_text(width).splitlines())) <= width


def test_a_long_id_loses_its_middle_and_a_sentence_its_end():
    row = ["python/library/asyncio-task.html#asyncio.create_task", "What does it give? " + "?" * 60]
    table = Table(pd.DataFrame([row], columns=["id", "query"]))
    # 40 characters each
    assert table.to_text().splitlines()[1] == (
        "python/library/asyncio-tas…o.create_task  What does it give? ????????????????????…"
    )
    assert cells(table.to_html()) == [row]


def test_a_heading_breaks_at_spaces_and_underscores():
    frame = pd.DataFrame({"run": ["a"], "false_refusal, n\u00a0=\u00a0150": ["0.1"], "": [""]})
    assert Table(frame).to_text().splitlines() == [
        "run    false_", "     refusal,", "      n = 150", "a         0.1",
    ]  # fmt: skip


class Card(Display):
    """A title, a sentence, two tables, a note, and notes that are folded."""

    def _parts(self):
        one = pd.DataFrame({"a": [1]})
        folded = Notes("One.\nTwo <b>.")
        return ["Title", "Sentence.", Table(one), Table(one, "Second"), "A note.\nAnother.", folded]


def test_a_display_begins_with_its_title_in_every_form():
    assert repr(Card()) == (
        "Title\nSentence.\n\na\n1\n\nSecond\na\n1\n\nA note.\nAnother.\n\n2 notes: .notes()"
    )
    assert Card().to_markdown() == (
        "# Title\n\nSentence.\n\n| a |\n| ---: |\n| 1 |\n\n## Second\n\n| a |\n| ---: |\n| 1 |\n\n"
        "A note.\n\nAnother.\n\nOne.\n\nTwo &lt;b>.\n"
    )
    html = Card()._repr_html_()
    assert html.index("<b>Title</b>") < html.index("Sentence.") < html.index("Second")
    assert ">A note.\nAnother.</p><details><summary>2 notes</summary>" in html
    assert html.startswith(f"<style>{STYLE}</style><div")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_shown_whole_and_never_followed(text):
    class Hostile(Display):
        def _parts(self):
            frame = pd.DataFrame({text: [text], "verdict": [text]})
            return [text, text, Table(frame, text, limit=0), Table(frame, way=text), Notes(text)]

    shown = visible(text)
    assert_shown(repr(Hostile()))
    assert_html(Hostile()._repr_html_())
    assert_markdown(Hostile().to_markdown())
    found = unescape(re.sub("<[^>]+>", "", Hostile()._repr_html_()))
    assert found.count(shown) >= 7, "title, sentence, heading, two heads, two cells, notes"
    assert repr(Hostile()).count(shown) >= 2


PAGE = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>table { table-layout: fixed }</style>"""  # as JupyterLab lays tables out
OVER = """[...document.querySelectorAll("td, th")].filter((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return range.getBoundingClientRect().right > cell.getBoundingClientRect().right + 1;
}).map((cell) => cell.textContent)"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_no_cell_runs_into_the_next_one_and_no_short_name_is_cut(tmp_path):
    times = "p50 11.4 [10.8, 11.8], p95 16.7 [15.1, 20.9], n = 182 / 182"
    report = pd.DataFrame({"metric": ["latency_ms"], **{f"run_{n}": [times] for n in range(4)}})
    runs = ["hybrid_rerank", "dense"]
    means = {f"metric_{n}": ["0.48 [0.42, 0.55] ★", "0.44 [0.37, 0.51] ≈"] for n in range(4)}
    tables = [Table(report), Table(pd.DataFrame({"run": runs, **means}))]
    page = tmp_path / "page.html"
    page.write_text(PAGE + "".join(one.to_html() for one in tables), encoding="utf-8")
    name = 'document.querySelectorAll(".rs-table")[1].querySelector("tbody td")'
    with Browser() as browser:
        for width in (390, 1200, 1300):
            size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
            browser.send("Emulation.setDeviceMetricsOverride", **size)
            browser.open(page)
            assert browser.run(OVER) == []
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert browser.run(f"{name}.getClientRects().length") == 1
            assert browser.run(f"{name}.offsetHeight") < 60


# Every report reloads from its JSON into the same object.

TIMES = "datetime64[us, UTC]"
COLUMNS = {
    "float64": st.floats(allow_nan=True, allow_infinity=True),
    "Float64": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "Int64": st.none() | st.integers(-(2**63), 2**63 - 1), "bool": st.booleans(),
    "boolean": st.none() | st.booleans(),
    "str": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    TIMES: st.none() | st.datetimes(pd.Timestamp("1700-01-01"),
    pd.Timestamp("2200-01-01")),
}  # fmt: skip


@dataclasses.dataclass
class Report:
    """A report of one frame."""

    frame: pd.DataFrame


@given(st.data(), st.integers(0, 4))
def test_frames_of_every_dtype_reload(data, n):
    columns = {
        dtype: pd.Series(data.draw(st.lists(values, min_size=n, max_size=n)), dtype="object")
        for dtype, values in COLUMNS.items()
    }
    times = pd.to_datetime(columns.pop(TIMES), utc=True).astype(TIMES)
    frame = pd.DataFrame(columns).astype({dtype: dtype for dtype in columns}).assign(times=times)
    assert_frame_equal(reload(Report, dump(Report(frame))).frame, frame, check_exact=True)


def test_nan_is_null_and_what_is_endless_is_a_text():
    frame = pd.DataFrame({"x": [math.nan, math.inf, -math.inf, 0.1 + 0.2]})
    held = [row["x"] for row in json.loads(dump(Report(frame)))["frame"]]
    assert held == [None, "Infinity", "-Infinity", 0.30000000000000004]


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three runs that differ in seed; one has a failed query, one lacks one; with slices."""
    rows = [
        one | {"difficulty": level, "answerable": level != "none", "must_contain": ["x"]}
        for one, level in zip(THREE_QUERIES, ("easy", "hard", "none"), strict=True)
    ]
    rows[2] |= {"expected_doc_ids": [], "expected_chunk_ids": []}
    failed = [
        RUN_B[0] | {"answer": answer("x")},
        RUN_B[1] | {"error": "late", "hits_top_k": []},
        RUN_B[2] | {"answer": answer("", grounded=False)},
    ]
    records = {"a": RUN_A, "b": [one | {"answer": answer("y")} for one in RUN_B[:2]], "<c>": failed}
    folder = tmp_path_factory.mktemp("three")
    files = [
        written_run(folder, name, of, config={"note": f"|{name}"}) for name, of in records.items()
    ]
    return rs.evaluate(files, rs.load_golden(rows))


MADE = {
    "Leaderboard": lambda ev: ev.leaderboard(baseline="a"),
    "Leaderboard of one run": lambda ev: ev.leaderboard(runs=["a"]),
    "Gate": lambda ev: ev.compare("a", "b").gate(
        {"mrr": 0.1, "latency_ms": 5, "judge_correctness": 0}, require=True
    ),
    "Comparison": lambda ev: ev.compare("a", "<c>"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", MADE)
def test_a_report_reloads_into_the_same_object(request, kind):
    made = MADE[kind](request.getfixturevalue("three"))
    text = made.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    again = type(made).from_json(text)
    assert again.to_json() == text and repr(again) == repr(made)


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"dtypes": {}})])
@pytest.mark.parametrize("report", [rs.Leaderboard, Gate, rs.Comparison])
def test_what_is_no_such_report_is_refused(report, text):
    with refused("JSON", field="text"):
        report.from_json(text)
