"""The built manual: links lead somewhere, nothing is loaded, it fits a phone, search finds.

RAGSCORE_SITE names a site that is built already; without it, Sphinx builds one (extra `docs`).
"""

import importlib.util
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import CHROMIUM, Browser
from tests.manual import NOTEBOOKS, ROOT, pages

pytestmark = pytest.mark.slow

NEEDED = ("sphinx", "myst_nb", "numpydoc", "pydata_sphinx_theme")
LOOKED_AT = (
    "index", "quickstart", "howto/load", "howto/compare", "concepts/uncertainty",
    "reference/metrics", "reference/api", "02_compare_runs", "gallery", "benchmarks",
)  # fmt: skip
SEARCHES = {
    "LaTeX": "howto/export",
    "regression": "howto/compare",
    "NaN": "howto/why-nan",
    "cluster": "howto/scale",
    "ndcg_linear": "reference/metrics",
    "CSV": "howto/load",
    "gate": "howto/gate",
    "trend": "howto/trends",
    "elasticsearch": "howto/other-scores",
    "langchain": "howto/load",
    "llamaindex": "howto/load",
    "pinecone": "howto/load",
    "session": "howto/conversations",
    "multi-turn": "howto/conversations",
    "deploy marker": "howto/trends",
    "github comment": "howto/gate",
    "dark mode": "howto/export",
}
FIRST = list(SEARCHES)[-9:]  # what people type: its page is the first
IN_BROWSER = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
# The manual's own page; what an embedded explorer does is tested with it.
WIDTHS = {"phone": 390, "desktop": 1280}


class Page(HTMLParser):
    """The links, loaded files and anchors of a page."""

    def __init__(self, file: Path):
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe", "source") and given.get("src"):
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon"):
            self.loads.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if "RAGSCORE_SITE" in os.environ:
        return Path(os.environ["RAGSCORE_SITE"]).resolve()
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", NOTEBOOKS, folder],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def read(site):
    files = sorted(file for file in site.rglob("*.html") if "_static" not in file.parts)
    return {file: Page(file) for file in files}


def test_every_page_is_built(site):
    for page in pages():
        if page.is_relative_to(NOTEBOOKS):
            assert (site / page.relative_to(NOTEBOOKS)).with_suffix(".html").exists(), page
    for page in NOTEBOOKS.glob("*.ipynb"):
        assert (site / page.name).with_suffix(".html").exists(), page


def test_every_link_inside_the_site_leads_somewhere(read):
    wrong, n = [], 0
    for file, page in read.items():
        for link in {*page.links, *page.loads}:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            n += 1
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.exists() or (
                parts.fragment
                and target in read
                and unquote(parts.fragment) not in read[target].anchors
            ):
                wrong.append((file.name, link))
    assert wrong == [] and n > 1000


def test_nothing_is_loaded_from_elsewhere(read):
    assert [
        (file.name, one)
        for file, page in read.items()
        for one in page.loads
        if urlsplit(one).scheme not in ("", "data")
    ] == []


@pytest.fixture(scope="module")
def browser():
    with Browser() as one:
        yield one


@IN_BROWSER
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_page_fits_its_screen(site, browser, name, width):
    browser.send(
        "Emulation.setDeviceMetricsOverride",
        width=WIDTHS[width], height=800, deviceScaleFactor=1, mobile=width == "phone",
    )  # fmt: skip
    browser.open(site / f"{name}.html")
    assert browser.run("document.documentElement.scrollWidth") <= WIDTHS[width]
    # What the theme logs begins with its name.
    assert [one for one in browser.complaints if "[PST]" not in one] == []
    assert [one for one in browser.loaded if not one.startswith(("file:", "about:", "blob:"))] == []


@IN_BROWSER
@pytest.mark.parametrize("words", SEARCHES)
def test_search_finds(site, browser, words):
    browser.visit(f"{(site / 'search.html').as_uri()}?q={words}")
    browser.wait("document.querySelector('#search-results .search-summary, #search-results p')")
    browser.wait("!/Searching|Preparing/.test(document.querySelector('#search-results').innerText)")
    found = browser.run(
        "[...document.querySelectorAll('#search-results li a')].map(one => one.href)"
    )
    places = [one for one in found if SEARCHES[words] in one]
    assert places, found
    assert found.index(places[0]) < (1 if words in FIRST else 10), found[:10]


def test_the_first_page_shows_an_explorer_of_less_than_250_kB(site):
    assert 'src="_static/explorer.html"' in (site / "index.html").read_text(encoding="utf-8")
    assert 10_000 < (site / "_static" / "explorer.html").stat().st_size < 250_000
