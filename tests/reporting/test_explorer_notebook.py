"""The explorer in JupyterLab, in an exported notebook and as a page: what is shown and copied."""

import importlib.util
import json
import time

import pytest
from browser import CHROMIUM, Browser
from jupyter import Lab, write_notebook

from ragscore.reporting.explorer.element import element
from ragscore.reporting.explorer.element import page as html_page

pytestmark = pytest.mark.slow

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
needs_lab = pytest.mark.skipif(
    CHROMIUM is None
    or any(importlib.util.find_spec(one) is None for one in ("jupyterlab", "anywidget")),
    reason="needs Chromium, jupyterlab and anywidget",
)
CODE = """\
import ragscore as rs
from pathlib import Path
texts = {"a": ["wrong", "right"], "b": ["right", "wrong"]}
runs = {run: {"q1": ids, "q2": ids[::-1]} for run, ids in texts.items()}
golden = rs.load_golden({"q1": ["right"], "q2": ["right"]})
ex = rs.evaluate(rs.load_results(runs), golden).compare("a", "b").explore()
ex"""

NOTED = """\
from ragscore.reporting.explorer.widget import bridge
def note(_):
    Path({file!r}).write_text(ex.selected)
bridge(ex._in_frame().name).observe(note, "state")
ex"""


READY = "document.querySelector('.rs-output > .rs-plain')?.hidden"


def in_frame(page, expression):
    """The value of a script expression in the explorer's frame, which is a process of its own."""
    top, page.session = page.session, None
    (frame,) = [
        one for one in page.send("Target.getTargets")["targetInfos"] if one["type"] == "iframe"
    ]
    attached = page.send("Target.attachToTarget", targetId=frame["targetId"], flatten=True)
    page.session = attached["sessionId"]
    value = page.run(expression)
    page.session = top
    return value


IDS = "[...document.querySelectorAll('.x-body [role=row] .x-cell-id')].map(one => one.textContent)"


def pressed(page, text):
    """Press a button, and return the text that it offers to copy."""
    buttons = "[...document.querySelectorAll('button')]"
    page.run(f"{buttons}.find(one => one.textContent === {json.dumps(text)}).click()")
    return page.run("document.querySelector('.x-out textarea').value")


@needs_browser
@pytest.mark.parametrize("code", ["cmp", "ev"])
def test_copied_code_gives_what_is_shown(demo, tmp_path, code):
    names = {"ev": demo, "cmp": demo.compare("dense", "hybrid")}
    runs = () if code == "cmp" else (["dense", "hybrid"],)
    made = names[code].explore("pd-014", *runs, outcome="loss")
    # in a notebook the link is code
    shown = element(made.packed, link="message", code=code, state=made.state)
    file = tmp_path / "page.html"
    file.write_text(html_page(made.title, shown.html, shown.style, shown.script), encoding="utf-8")
    with Browser() as page:
        page.open(file)
        page.wait("document.querySelector('.x-body')", 60)
        exec(pressed(page, "Copy code"), names)
        assert sorted(names["part"].queries["query_id"]) == sorted(page.run(IDS)) != []
        again = eval(pressed(page, "Copy link"), names)
        assert (again.state["query"], again.packed) == ("pd-014", made.packed)
        assert not page.complaints and page.loaded == [file.as_uri()]


@needs_lab
def test_a_key_in_jupyterlab_selects_and_python_knows(tmp_path):
    chosen = tmp_path / "chosen"
    code = f"{CODE.removesuffix('ex')}{NOTED.format(file=str(chosen))}"
    write_notebook(tmp_path / "look.ipynb", code)
    with Lab(tmp_path) as lab, Browser() as page:
        lab.run_first_cell(page, "look.ipynb", "iframe[data-ragscore]")
        page.wait(READY)
        size = {"width": 1200, "height": 1600, "deviceScaleFactor": 1, "mobile": False}
        page.send("Emulation.setDeviceMetricsOverride", **size)  # JupyterLab draws what is in sight
        theme = "document.querySelector('.rs-explorer').dataset.theme"
        assert in_frame(page, f"{theme} === 'light'")
        page.run("document.body.dataset.jpThemeLight = 'false'")  # as a change of the theme does
        dark = f"{theme} === 'dark' ? done(true) : setTimeout(look, 20)"
        assert in_frame(page, f"new Promise(done => {{ const look = () => {dark}; look() }})")
        key = "new KeyboardEvent('keydown', {key: 'j', bubbles: true})"  # from q2, the loss, on
        in_frame(page, f"document.querySelector('.x-grid').dispatchEvent({key})")
        until = time.monotonic() + 60
        while not (chosen.exists() and chosen.read_text() == "q1"):
            assert time.monotonic() < until, "Python doesn't know what is selected"
            time.sleep(0.1)  # between two looks
        own = f"http://127.0.0.1:{lab.port}/"
        assert [url for url in page.loaded if url.startswith("http") and own not in url] == []
        assert in_frame(page, "performance.getEntriesByType('resource').length") == 0
