"""The labelling panel.

What its buttons do, what it shows of files that mean no good, and that JupyterLab's users lose
nothing.
"""

import importlib.util
import os
import signal

import pytest
import yaml
from browser import CHROMIUM, Browser
from conftest import hit, record
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


@pytest.fixture
def runs(write_run):
    places = {"heading_path": ["<b>Guide</b>"], "doc_path": f"docs/{EVIL}.md"}
    found = [
        hit("c1", "d1", 1, snippet=f"Written by us. {EVIL}", **places),
        hit("c2", "d2", 2, snippet="Written by them.", **places),
    ]
    return rs.load_results(
        [
            write_run(name, [record("q1", hits), record("q2", found[:1])])
            for name, hits in (("a", found), ("b", found[:1]))
        ]
    )


@pytest.fixture
def panel(golden_file, runs):
    return rs.label(golden_file, runs)


def press(panel, name, number=1):
    """Click a button by its class; of a hit, by its number."""
    inside = (
        panel.widget
        if name in ("next", "previous", "undo", "refuse", "add")
        else next(c.widget for c in panel._cards if c.number == number)
    )
    (button,) = [
        one for one in walked(inside) if f"ragscore-{name}" in getattr(one, "_dom_classes", ())
    ][:1]
    button.click()


def walked(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        if "ragscore-hit" not in child._dom_classes:
            yield from walked(child)


@needs_widgets
def test_a_button_writes_the_file_before_its_mark_appears(panel, golden_file):
    press(panel, "grade-1")
    row = yaml.safe_load(golden_file.read_text())[0]
    assert row["gold_supports"][0]["snippets"] == ["Written by us."]
    assert (
        panel._cards[0]._grades[1].button_style == "success"
        and "1</b> of 3 labelled" in panel._progress.value
    )
    says(panel._status.value, "golden.yaml", 1)
    assert ">Written by us.</mark>" in panel._cards[0]._html.value
    says(repr(panel), "LabelPanel", "1 of 3", "golden.yaml")
    press(panel, "undo")
    assert (
        "gold_supports" not in golden_file.read_text()
        and panel._cards[0]._grades[1].button_style == ""
        and panel._undo.disabled
    )


@needs_widgets
def test_every_button_does_what_it_says(panel, golden_file):
    def rows():
        return yaml.safe_load(golden_file.read_text())

    press(panel, "grade-3", 2)
    press(panel, "grade-0", 1)
    assert [support.get("grade") for support in rows()[0]["gold_supports"]] == [3, 0]
    press(panel, "refuse")  # labels say the opposite
    assert "answerable" not in rows()[0]
    press(panel, "next")
    press(panel, "refuse")
    assert rows()[1]["answerable"] is False
    press(panel, "previous")
    panel._new.value = "who else?"
    press(panel, "add")
    assert rows()[3] == {"id": "q1-2", "query": "who else?"}
    assert panel.session.query_id == "q1-2"
    panel._filter.value = "should refuse"
    assert panel.session.query_id == "q2"


@needs_widgets
def test_no_text_of_a_file_becomes_html(panel):
    press(panel, "grade-1")
    panel.session.file.path.write_text(
        panel.session.file.path.read_text().replace(" who?'", f" {EVIL}'")
    )
    press(panel, "grade-2", 2)  # a conflict shows values of fields
    shown = [panel._query, panel._status, *(card._html for card in panel._cards)]
    assert all(
        "<script" not in one.value and "<img" not in one.value and "<b>Guide" not in one.value
        for one in shown
    )
    assert sum("&lt;script&gt;" in one.value for one in shown) == 4


CODE = """\
import os
from pathlib import Path
import ragscore as rs
Path("pid").write_text(str(os.getpid()))
rs.label({golden!r}, {runs!r})
"""
MARKED = ".ragscore-hit .ragscore-grade-1.mod-success"


HIT = ".ragscore-label .ragscore-hit"


@pytest.mark.slow
@needs_lab
def test_a_click_in_jupyterlab_outlives_its_kernel(tmp_path, golden_file, runs):
    write_notebook(
        tmp_path / "panel.ipynb",
        CODE.format(golden=str(golden_file), runs=str(tmp_path / "runs" / "*")),
    )
    with Lab(tmp_path) as lab, Browser() as page:
        lab.run_first_cell(page, "panel.ipynb", HIT)
        assert not page.run(f"document.querySelector('{MARKED}')") and not page.run("window.evil")
        page.click(".ragscore-hit .ragscore-grade-1")
        page.wait(f"document.querySelector('{MARKED}')")
        before = golden_file.read_text(encoding="utf-8")
        assert yaml.safe_load(before)[0]["gold_supports"][0]["snippets"] == ["Written by us."], (
            "a mark that is seen is in the file"
        )
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        lab.run_first_cell(page, "panel.ipynb", HIT)
        page.wait(f"document.querySelector('{MARKED}')")
        assert golden_file.read_text(encoding="utf-8") == before
        assert "1 of 3 labelled" in page.run(
            "document.querySelector('.ragscore-progress').innerText"
        )
        assert page.run(
            "document.querySelectorAll('.ragscore-label script').length"
        ) == 0 and not page.run("window.evil")
