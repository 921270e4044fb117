"""A report as a browser shows it: the first screen, folds, links, phone, dark, paper."""

import pytest
from browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine to show the page"),
]
# contrast of an element's text with the page, by WCAG
CONTRAST = """selector => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const light = colour => {
    canvas.fillStyle = getComputedStyle(document.body).backgroundColor;
    canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(c => c / 255)
      .map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
      .reduce((sum, c, at) => sum + c * [.2126, .7152, .0722][at], 0);
  };
  return Math.min(...[...document.querySelectorAll(selector)].map(one => {
    const [a, b] = [light(getComputedStyle(one).color), light('transparent')];
    return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  }));
}"""
PARTS = "[...document.querySelectorAll('details.part')]"


@pytest.fixture(scope="module")
def file(demo, tmp_path_factory):
    """The page about the demo's four runs of 182 queries."""
    return demo.report().write(tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def chromium():
    with Browser() as browser:
        yield browser


def opened(browser, file, width, dark=False, media=""):
    """Open the page in a window of this width, and with a preference of the system."""
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=800,
                 deviceScaleFactor=1, mobile=False)  # fmt: skip
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.send("Emulation.setEmulatedMedia", media=media, features=[scheme])
    browser.open(file)


def test_the_first_screen_holds_runs_picture_and_lost_queries(chromium, file):
    opened(chromium, file, 1400)
    top = "one => one.getBoundingClientRect().bottom <= 800"
    for selector in (".rs-table table", "figure", "ol li:first-child"):
        assert chromium.run(f"({top})(document.querySelector({selector!r}))"), selector
    runs = (
        "[...document.querySelectorAll('.rs-table tbody')[0].rows].map(r => r.cells[0].innerText)"
    )
    assert chromium.run(runs) == ["hybrid_rerank", "dense", "hybrid", "bm25"]
    folds = chromium.run(f"{PARTS}.map(one => one.open)")
    assert folds[:2] == [True, True] and not any(folds[2:]) and len(folds) > 6


def test_nothing_sticks_out_overlaps_or_is_loaded_at_any_width(chromium, file):
    overlaps = """[...document.querySelectorAll('details.part > .rs-table tr')].filter(row =>
      [...row.cells].some((cell, at) => at && at + 1 < row.cells.length &&
        cell.getBoundingClientRect().right > row.cells[at + 1].getBoundingClientRect().left + 1
        || cell.scrollWidth > cell.clientWidth + 12)).length"""
    for width in (1400, 390):
        opened(chromium, file, width)
        chromium.run(f"{PARTS}.forEach(one => one.open = true)")
        assert chromium.run("document.documentElement.scrollWidth <= window.innerWidth")
        assert chromium.run(overlaps) == 0
        assert chromium.complaints == [] and chromium.loaded == [file.as_uri()]
        assert chromium.run("[...document.images].every(one => one.alt)")


def test_a_lost_query_opens_in_the_explorer_wherever_it_is_folded(chromium, file):
    opened(chromium, file, 1400)
    fold = "document.querySelector('.rs-explorer').closest('details').open"
    for _ in range(2):  # once more, when it is the address already
        chromium.run(f"{fold} = false")
        chromium.run("document.querySelector('a[href=\"#x.q=mh-001\"]').click()")
        chromium.wait(f"{fold} && document.querySelector('.x-query').innerText.includes('mh-001')")


def test_texts_stand_out_by_day_and_by_night(chromium, file):
    for dark in (False, True):
        opened(chromium, file, 1400, dark)
        for selector in (".rs-note", "li a", "h1", "h2", "td"):
            assert chromium.run(f"({CONTRAST})({selector!r})") >= 4.5, (dark, selector)
    assert chromium.run("getComputedStyle(document.body).backgroundColor") == "rgb(18, 18, 18)"


def test_paper_shows_what_is_folded_within_its_width(chromium, file):
    seen = "one.lastElementChild.checkVisibility({contentVisibilityAuto: true})"
    hidden = f"{PARTS}.filter(one => !({seen})).length"
    opened(chromium, file, 720)
    assert chromium.run(hidden) > 5
    opened(chromium, file, 720, media="print")
    chromium.wait(f"{hidden} === 0")
    assert chromium.run("document.documentElement.scrollWidth <= window.innerWidth")
    chromium.send("Emulation.setEmulatedMedia", media="", features=[])
