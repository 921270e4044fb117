"""The built manual: nothing is loaded from elsewhere, it fits a phone.

`.ci/manual` builds it, with every warning as an error, and names its folder in RAGSCORE_SITE.
"""

import os
import re
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browser import CHROMIUM, Browser

pytestmark = pytest.mark.slow

LOADS = re.compile(r'<(?:script|img|iframe|source|link)\s[^>]*?(?:src|href)="([^"]*)"')
LOOKED_AT = ("index", "howto/compare", "reference/metrics", "01_compare_runs", "gallery")
# The manual's own page; what an embedded explorer does is tested with it.
WIDTHS = {"phone": 390, "desktop": 1280}


@pytest.fixture(scope="module")
def site():
    if "RAGSCORE_SITE" not in os.environ:
        pytest.skip("RAGSCORE_SITE names no site: .ci/manual builds one")
    return Path(os.environ["RAGSCORE_SITE"]).resolve()


def test_nothing_is_loaded_from_elsewhere(site):
    pages = [file.read_text(encoding="utf-8") for file in site.rglob("*.html")]
    loads = [urlsplit(unescape(one)) for page in pages for one in LOADS.findall(page)]
    assert {one.scheme for one in loads} <= {"", "data"} and len(pages) > 40
    assert not [one for one in loads if one.netloc]


@pytest.fixture(scope="module")
def browser():
    with Browser() as one:
        yield one


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
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
