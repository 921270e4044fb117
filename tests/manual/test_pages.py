"""Every block of every page runs, and prints what the page shows."""

import base64
import json

import pytest

from tests.manual import NOTEBOOKS, ROOT, pages, plain, run


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_print_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "page").mkdir()
    for block, shown, printed in run(page, tmp_path / "page"):
        if shown:
            assert plain(printed) == plain(shown.text), str(block)


def test_the_first_picture_is_the_one_of_the_first_notebook():
    cells = json.loads((NOTEBOOKS / "01_first_look.ipynb").read_text(encoding="utf-8"))["cells"]
    drawn = [
        base64.b64decode(output["data"]["image/png"])
        for cell in cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert (NOTEBOOKS / "first_look.png").read_bytes() in drawn
