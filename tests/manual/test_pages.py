"""Every block of every page runs, and prints what the page shows."""

import pytest

from tests.manual import ROOT, pages, plain, run

# They start processes or read other tools' and stored runs: seconds each.
LONG = (
    "agents", "coming-from", "collect", "compare", "explore", "gate", "golden-set", "judge",
    "label", "leaderboard", "other-scores", "own-metrics", "refusals", "report", "store-layout",
    "trends", "cli",
)  # fmt: skip
PAGES = [
    pytest.param(
        page,
        id=str(page.relative_to(ROOT)),
        marks=[pytest.mark.slow] if page.stem in LONG else [],
    )
    for page in pages()
]


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_print_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "page").mkdir()
    for block, shown, printed in run(page, tmp_path / "page"):
        if shown:
            assert plain(printed) == plain(shown.text), str(block)
