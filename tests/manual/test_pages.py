"""Every block of every page runs, and prints what the page shows."""

import pytest

from tests.manual import ROOT, pages, plain, run


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_print_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "page").mkdir()
    for block, shown, printed in run(page, tmp_path / "page"):
        if shown:
            assert plain(printed) == plain(shown.text), str(block)
