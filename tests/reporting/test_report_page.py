"""A report as a browser shows it: the first screen, folds, links, phone, dark, paper."""

from itertools import pairwise

import pytest
from browser import CHROMIUM, Browser

import ragscore as rs
from tests.messages import says

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine to show the page"),
]
WANTED = ["pd-031", "np-033", "mh-001"]  # the three regressions of the demo's newest run
# contrast of an element's text with what is behind it, by WCAG
CONTRAST = """selector => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const mixed = (colour, under) => {
    canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [.2126, .7152, .0722][at], 0);
  const css = data => `rgb(${data[0]},${data[1]},${data[2]})`;
  const paper = css(mixed(getComputedStyle(document.body).backgroundColor, 'white'));
  return Math.min(...[...document.querySelectorAll(selector)].map(one => {
    const behind = css(mixed(getComputedStyle(one).backgroundColor, paper));
    const [a, b] = [mixed(getComputedStyle(one).color, behind), mixed(behind, behind)].map(light);
    return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  }));
}"""


@pytest.fixture(scope="module")
def made():
    """The page about the demo's four runs of 182 queries."""
    ev = rs.evaluate("data/demo/runs/*/per_query.jsonl", "data/demo/golden.yaml")
    return ev.report(gate={"mrr@10": 0.02})


@pytest.fixture(scope="module")
def file(made, tmp_path_factory):
    return made.write(tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def chromium():
    with Browser() as browser:
        yield browser


@pytest.fixture
def page(chromium, file):
    """The page opened anew at 1,280 × 800."""
    sized(chromium, 1280)
    chromium.open(file)
    return chromium


def sized(browser, width, dark=False, media=""):
    """Give the window a width, and the system a preference."""
    browser.send(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=800,
        deviceScaleFactor=1,
        mobile=False,
    )
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.send("Emulation.setEmulatedMedia", media=media, features=[scheme])


def lowest(browser, selector):
    """The lower edge of the lowest of these elements, from the top of the page."""
    return browser.run(
        f"Math.max(...[...document.querySelectorAll({selector!r})].map("
        "one => one.getBoundingClientRect().bottom + scrollY))"
    )


def is_open(browser, name):
    return browser.run(f"document.getElementById({name!r}).open")


def test_the_first_screen_holds_the_decision_and_each_run(page):
    title = page.run("document.querySelector('.decision h2').textContent")
    says(title, "hybrid_rerank: mixed against bm25", "not told from dense and hybrid", "slower")
    names = "[...document.querySelectorAll('.rs-standings tbody th')].map(one => one.textContent)"
    assert page.run(names) == ["hybrid_rerank", "dense", "hybrid", "bm25"]
    assert lowest(page, ".decision") <= 800


def test_a_phone_has_all_runs_on_one_screen_and_nothing_sticks_out_sideways(page, file):
    sized(page, 400)
    page.open(file)
    assert lowest(page, ".decision") <= 800
    page.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.run("document.documentElement.scrollWidth <= window.innerWidth")


def test_all_is_folded_and_a_link_opens_the_section_that_it_leads_into(page, file):
    folds = page.run("[...document.querySelectorAll('details.part')].map(one => one.open)")
    assert not any(folds) and len(folds) > 8
    page.run("document.querySelector('nav details').open = true")
    page.click('nav a[href="#leaderboard"]')
    page.wait("document.getElementById('leaderboard').open")
    page.run("document.getElementById('leaderboard').open = false")
    page.click('nav a[href="#leaderboard"]')  # the address stays the same
    page.wait("document.getElementById('leaderboard').open")
    page.visit(f"{file.as_uri()}#configuration")  # a heading inside "The runs"
    page.wait("document.getElementById('the-runs')?.open")
    page.wait("Math.abs(document.getElementById('configuration').getBoundingClientRect().y) < 800")


def test_a_query_worth_reading_is_an_address_of_the_explorer_which_comes_into_view(page, file):
    asked = "new URLSearchParams(location.hash.slice(1)).get('x.q')"
    shown = "Math.abs(document.getElementById('queries').getBoundingClientRect().y) < 100"
    page.run("document.getElementById('newest').open = true")
    page.click(f'.reading a[href="#x.q={WANTED[2]}"]')
    page.wait(shown)
    assert page.run(asked) == WANTED[2]
    page.visit(f"{file.as_uri()}#x.q={WANTED[1]}")
    page.wait(f"document.getElementById('queries') && {shown}")
    assert page.run(asked) == WANTED[1]


def test_paper_shows_what_is_folded(page):
    hidden = (
        "[...document.querySelectorAll('details.part')]"
        ".filter(one => !one.lastElementChild.checkVisibility({contentVisibilityAuto: true})"
        " || !one.lastElementChild.getBoundingClientRect().height).length"
    )
    assert page.run(hidden) > 5
    sized(page, 1280, media="print")
    page.wait(f"{hidden} === 0")  # by style alone
    sized(page, 1280)
    page.run("dispatchEvent(new Event('beforeprint'))")
    # the explorer draws itself anew where it gets room
    ours = "[...document.querySelectorAll('details:not(.rs-explorer details)')]"
    assert page.run(f"{ours}.every(one => one.open)")
    page.run("dispatchEvent(new Event('afterprint'))")
    assert not is_open(page, "leaderboard"), "and the screen is as it was"


def test_texts_stand_out_from_the_page_by_day_and_by_night(page, file):
    for dark in (False, True):
        sized(page, 1280, dark)
        page.open(file)
        for selector in (".note", ".summary a", "nav a", ".good, .bad, .poor", ".part td"):
            assert page.run(f"({CONTRAST})({selector!r})") >= 4.5, (dark, selector)
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(18, 18, 18)"


def test_landmarks_headings_and_names_are_there_for_those_who_cannot_see(page):
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    roles = [node["role"]["value"] for node in nodes if not node.get("ignored")]
    assert roles.count("main") == roles.count("navigation") == roles.count("banner") == 1
    levels = page.run(
        "[...document.querySelectorAll('h1, h2, h3')].filter(one => !one.closest('.rs-explorer'))"
        ".map(one => Number(one.tagName[1]))"
    )
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    headings = [
        node["name"]["value"] for node in nodes if node.get("role", {}).get("value") == "heading"
    ]
    assert "Leaderboard" in headings, "a folded section is found by its heading"
    assert page.run("[...document.images].every(one => one.alt)")
    assert page.run("[...document.querySelectorAll('[role=region]')].every(one => one.ariaLabel)")
    page.run("document.activeElement.blur()")
    for kind in ("rawKeyDown", "keyUp"):
        page.send("Input.dispatchKeyEvent", type=kind, key="Tab", windowsVirtualKeyCode=9)
    assert page.run("document.activeElement.getAttribute('href')") == "#main"


def test_nothing_is_loaded_and_nothing_complains(page, file):
    page.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.run("document.querySelectorAll('.rs-table th button').forEach(one => one.click())")
    assert page.complaints == [] and page.loaded == [file.as_uri()]
    assert page.run("document.querySelectorAll('[aria-sort=ascending]').length") > 8
