"""Every block of every page runs and prints what the page shows; what pages name is there."""

import json
import re
import tomllib
from dataclasses import fields, is_dataclass
from operator import attrgetter

import pytest
import yaml

import ragscore as rs
from ragscore.judging import Judged
from tests.manual import BLOCK, NOTEBOOKS, ROOT, pages, plain, run

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


# What pages name is there: functions, methods, files, modules, headings, pictures.

GITHUB = ROOT / ".github"
TEXTS = [*pages(), ROOT / "data" / "README.md", *sorted(GITHUB.rglob("*.md"))]
OF_TEXT = pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
# What pages call the objects of their examples.
OBJECTS = {
    "ev": rs.Evaluation, "cmp": rs.Comparison, "results": rs.Results, "golden": rs.Golden,
    "store|history": rs.RunStore(ROOT / "data/demo/history"), "judged": Judged,
}  # fmt: skip
FILES = {"yaml", "jsonl", "json", "md", "txt", "html", "trec", "parquet", "csv", "gz", "yml", "py"}


@OF_TEXT
def test_every_name_and_method_of_a_page_is_there(page):
    text = page.read_text(encoding="utf-8")
    for path in set(re.findall(r"\brs\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", text)):
        attrgetter(path)(rs)
    for name, kind in OBJECTS.items():
        known = {*dir(kind), *([one.name for one in fields(kind)] if is_dataclass(kind) else [])}
        named = set(re.findall(rf"(?<![\w/.\-])(?:{name})\.([A-Za-z_]\w*)", text))
        assert named - known - FILES == set()


@OF_TEXT
def test_every_file_and_module_of_the_project_that_a_page_names_is_there(page):
    text = page.read_text(encoding="utf-8")
    files = re.findall(r"`((?:ragscore|tests|notebooks|\.ci|\.github)/[\w./-]*)", text)
    modules = [one.replace(".", "/") for one in re.findall(r"python -m (tests[\w.]*\w)", text)]
    wrong = [one for one in files if not (ROOT / one).exists()]
    kinds = [(ROOT / f"{one}.py", ROOT / one / "__main__.py") for one in modules]
    assert wrong == [] and all(file.exists() or package.exists() for file, package in kinds)
    for name, file in re.findall(r"(?:`([A-Z_]+)` of )?`([a-z]+/[a-z_/]*\.py)`", text):
        places = [one / file for one in (ROOT / "ragscore", ROOT, page.parent)]
        there = next(one for one in places if one.exists())
        assert name in there.read_text(encoding="utf-8"), file


def slugs(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one)
                for one in re.findall(r"^#+ +(.+?) *$", text, flags=re.M)]  # fmt: skip
    return [re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings]


@OF_TEXT
def test_links_lead_to_files_and_headings(page):
    links = re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", page.read_text(encoding="utf-8")))
    for link in links:
        target, _, anchor = re.sub(r"^(https?://|mailto:).*", "", link).partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), link
        assert not anchor or file.suffix != ".md" or anchor in slugs(file), link


@pytest.mark.parametrize("kind", ["ragscore demo", "pytest"])
def test_the_two_commands_of_the_readme_are_one_line_each(kind):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^python3 -m venv \.venv && .*$", text, flags=re.M)
    assert [kind in one for one in sorted(commands)].count(True) == 1 and len(commands) == 2


def test_every_picture_is_in_the_gallery():
    cells = json.loads((NOTEBOOKS / "gallery.ipynb").read_text(encoding="utf-8"))["cells"]
    told = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    pictures = [one for one in rs.plot.__all__ if hasattr(getattr(rs.plot, one), "__wrapped__")]
    assert [one for one in pictures if f"`help(rs.plot.{one})`" not in told] == []


def test_the_citation_and_the_package_have_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == rs.__version__ == project["version"]


def test_nobody_is_told_to_install_the_package_of_that_name_on_the_index():
    # It is another project. Quotes and line ends may stand within a text of the source.
    advice = re.compile(r"(?<!do not run )pip3? install (?:-\S+ )*ragscore\b")
    files = [
        file
        for folder in ("ragscore", "notebooks", ".github")
        for file in (ROOT / folder).rglob("*.*")
        if file.suffix in (".py", ".md", ".ipynb", ".yml")
    ]
    assert len(files) > 200
    for file in [ROOT / "README.md", *files]:
        text = re.sub(r"(?:[\s'\"`*]|\\n)+", " ", file.read_text(encoding="utf-8"))
        assert not advice.search(text.lower()), file
