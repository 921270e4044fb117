"""The labelling panel.

What its buttons do, what it shows of files that mean no good, and that JupyterLab's users lose
nothing.
"""

import importlib.util
import re

import pytest
import yaml
from browser import CHROMIUM, Browser
from conftest import hit, record, written_run
from jupyter import Lab, write_notebook

import ragscore as rs
from tests.messages import says

needs_widgets = pytest.mark.skipif(
    importlib.util.find_spec("ipywidgets") is None, reason="ipywidgets is not installed"
)
needs_lab = pytest.mark.skipif(
    CHROMIUM is None
    or any(importlib.util.find_spec(name) is None for name in ("jupyterlab", "ipywidgets")),
    reason="needs Chromium, jupyterlab and ipywidgets",
)
EVIL = '<script>window.evil = 1</script><img src=x onerror="window.evil = 2">'


@pytest.fixture
def golden_file(write_golden):
    return write_golden(
        f"# the desk's questions\n- id: q1\n  query: '{EVIL} who?'  # {EVIL}\n- {{id: q2, query:"
        ' "what?"}\n- {id: q3, query: "why?"}\n'
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two runs, as a pattern of their folders."""
    folder = tmp_path_factory.mktemp("runs")
    places = {"heading_path": ["<b>Guide</b>"], "doc_path": f"docs/{EVIL}.md"}
    found = [
        hit("c1", "d1", 1, snippet=f"Written by us. {EVIL}", **places),
        hit("c2", "d2", 2, snippet="Written by them.", **places),
    ]
    bare = dict.fromkeys(["heading_path", "doc_path", "snippet", "citation"])
    for name, hits in (("a", found), ("b", found[:1])):
        written_run(folder, name, [record("q1", hits), record("q2", [hit("c1", "d1", 1, **bare)])])
    return str(folder / "*")


@pytest.fixture(scope="module")
def runs(files):
    return rs.load_results(files)


@pytest.fixture
def panel(golden_file, runs):
    return pytest.importorskip("ragscore.golden.panel").LabelPanel(
        golden_file, rs.label_sheet(runs, golden_file)
    )


def press(panel, name, number=1):
    """Click a button by its class; of a hit, by its number."""
    button_of(panel, name, number).click()


def button_of(panel, name, number=1):
    inside = panel._hits.children[number - 1] if name.startswith("grade") else panel
    return next(
        one for one in walked(inside) if f"ragscore-{name}" in getattr(one, "_dom_classes", ())
    )


def walked(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from walked(child)


def rows(file):
    return yaml.safe_load(file.read_text())


@needs_widgets
def test_a_button_writes_the_file_before_its_mark_appears(panel, golden_file):
    press(panel, "grade-1")
    assert rows(golden_file)[0]["gold_supports"][0]["snippets"] == ["Written by us."]
    assert button_of(panel, "grade-1").button_style == "success"
    assert "1 of 3 labelled" in panel._bar.value
    says(panel._status.value, "golden.yaml")
    assert ">Written by us.</mark>" in panel._hits.children[0].children[1].children[0].value
    says(repr(panel), "LabelPanel", "1 of 3", "golden.yaml")
    press(panel, "grade-1")
    assert "gold_supports" not in golden_file.read_text()
    assert button_of(panel, "grade-1").button_style == ""


@needs_widgets
def test_every_button_does_what_it_says(panel, golden_file):
    press(panel, "grade-3", 2)
    press(panel, "grade-0", 1)
    assert [one.get("grade") for one in rows(golden_file)[0]["gold_supports"]] == [3, 0]
    press(panel, "refuse")  # labels say the opposite
    says(panel._status.value, "q1")
    assert "answerable" not in rows(golden_file)[0]
    press(panel, "next")
    told = panel._query.value + panel._hits.children[0].children[1].children[0].value
    # without a place or text, its document
    assert re.sub("<[^>]*>", "", told) == "q2 (unlabelled)what?d1 · a 1, b 1no text was kept"
    press(panel, "refuse")
    assert rows(golden_file)[1]["answerable"] is False
    press(panel, "refuse")
    assert "answerable" not in rows(golden_file)[1]
    press(panel, "next")
    assert panel._list.value == "q3" and "no run" in panel._hits.children[0].value


@needs_widgets
def test_a_label_of_someone_else_is_shown_and_not_written_over(panel, golden_file, runs):
    other = rs.label_sheet(runs, golden_file)
    other.loc[0, "grade"] = 2
    rs.add_labels(golden_file, other)
    before = golden_file.read_text()
    press(panel, "grade-1")
    says(panel._status.value, "Not written", "q1")
    assert (
        golden_file.read_text() == before and button_of(panel, "grade-2").button_style == "success"
    )


@needs_widgets
def test_no_text_of_a_file_becomes_html(panel):
    press(panel, "grade-1")
    press(panel, "refuse")
    shown = [one for one in walked(panel) if type(one).__name__ == "HTML"]
    assert all(
        "<script" not in one.value and "<img" not in one.value and "<b>Guide" not in one.value
        for one in shown
    )
    assert sum("&lt;script&gt;" in one.value for one in shown) == 3


CODE = """\
import ragscore as rs
from ragscore.golden.panel import LabelPanel
LabelPanel({golden!r}, rs.label_sheet({runs!r}, {golden!r}))
"""
MARKED = ".ragscore-hit .ragscore-grade-1.mod-success"


HIT = ".ragscore-label .ragscore-hit"


@pytest.mark.slow
@needs_lab
def test_a_click_in_jupyterlab_is_in_the_file_once_its_mark_is_seen(tmp_path, golden_file, files):
    write_notebook(tmp_path / "panel.ipynb", CODE.format(golden=str(golden_file), runs=files))
    with Lab(tmp_path) as lab, Browser() as page:
        lab.run_first_cell(page, "panel.ipynb", HIT)
        assert not page.run(f"document.querySelector('{MARKED}')") and not page.run("window.evil")
        page.click(".ragscore-hit .ragscore-grade-1")
        page.wait(f"document.querySelector('{MARKED}')")
        assert rows(golden_file)[0]["gold_supports"][0]["snippets"] == ["Written by us."]
        assert "1 of 3 labelled" in page.run(
            "document.querySelector('.ragscore-progress').innerText"
        )
        assert page.run(
            "document.querySelectorAll('.ragscore-label script').length"
        ) == 0 and not page.run("window.evil")
