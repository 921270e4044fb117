"""The manual reads well: short sentences, one word for a thing, links that lead somewhere."""

import json
import re
from pathlib import Path

import pytest

from tests.manual import BLOCK, NOTEBOOKS, ROOT, pages

PAGES = pages()
OF_PAGE = pytest.mark.parametrize(
    "page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES]
)
TEXTS = [*PAGES, *sorted(NOTEBOOKS.glob("*.ipynb"))]
OF_TEXT = pytest.mark.parametrize("page", TEXTS, ids=[str(one.relative_to(ROOT)) for one in TEXTS])
pytestmark = pytest.mark.each_case
LONGEST = 25  # words of a sentence
README_LINES = 250
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
# What is asked of a system is a query.
OTHER_WORDS = re.compile(r"\b(questions?|simply|obviously|please|e\.g\.|i\.e\.)\b", flags=re.I)
# Text in which those words are meant: what a model generates, names of other projects' fields, and
# the class that an evaluation's declaration is.
MEANT = re.compile(
    r"generated questions?|questions? generated|How to|question-answer|^### Question$", flags=re.I
)


def prose(page: Path) -> str:
    """Return a page without blocks, comments, tables and link targets; code is one word."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join(
            "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
        )
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"^\|.*$", "", text, flags=re.M)
    text = re.sub(r"(`+)[^`]+\1", "code", text)
    return re.sub(r"(!?)\[([^\]]*)\]\([^)]*\)", r"\2", text)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text: a heading, an item or a paragraph ends one."""
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.|#+) )", text)
    return [
        " ".join(one.split())
        for part in parts
        for one in re.split(r"(?<=[.!?])[*_)\"]*\s+", " ".join(part.split()))
        if one.strip()
    ]


@OF_TEXT
def test_sentences_are_short(page):
    long = [one for one in sentences(prose(page)) if n_words(one) > LONGEST]
    assert long == []


@OF_TEXT
def test_a_thing_has_one_word(page):
    found = [one for one in sentences(prose(page)) if OTHER_WORDS.search(MEANT.sub("", one))]
    assert found == []


def n_words(sentence: str) -> int:
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def slugs(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", text, flags=re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


@OF_PAGE
def test_links_lead_to_files_and_headings(page):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    wrong = []
    for groups in LINK.findall(text):
        target, _, anchor = (groups[0] or groups[1]).partition("#")
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists():
            wrong.append(target)
        elif anchor and file.suffix == ".md" and anchor not in slugs(file):
            wrong.append(f"{target}#{anchor}")
    assert wrong == []


def test_the_readme_is_short_and_warns_of_the_other_package():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= README_LINES
    assert "another project" in text


def test_every_page_is_reached_from_the_index():
    """By the tables of contents, from index.md down."""
    seen, todo = set(), [NOTEBOOKS / "index.md"]
    while todo:
        page = todo.pop()
        seen.add(page)
        if page.suffix != ".md":
            continue
        for toc in re.findall(
            r"^```\{toctree\}\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.M | re.S
        ):
            for line in toc.splitlines():
                if line.strip() and not line.startswith(":"):
                    found = [
                        page.parent / f"{line.strip()}{end}"
                        for end in (".md", ".ipynb")
                        if (page.parent / f"{line.strip()}{end}").exists()
                    ]
                    assert found, f"{page.name} lists {line.strip()}, which isn't there"
                    todo += [one for one in found if one not in seen]
    there = {page for page in PAGES if page.is_relative_to(NOTEBOOKS)}
    assert there | set(NOTEBOOKS.glob("*.ipynb")) == seen
