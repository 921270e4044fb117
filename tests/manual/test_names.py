"""What pages name is there: functions, methods, files, modules, headings, pictures."""

import json
import re
import tomllib
from dataclasses import fields, is_dataclass
from operator import attrgetter

import pytest
import yaml

import ragscore as rs
from ragscore.judging import Judged
from tests.manual import BLOCK, NOTEBOOKS, ROOT, pages

GITHUB = ROOT / ".github"
TEXTS = [*pages(), ROOT / "data" / "README.md", *sorted(GITHUB.rglob("*.md"))]
OF_TEXT = pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
# What pages call the objects of their examples.
OBJECTS = {
    "ev": rs.Evaluation, "cmp": rs.Comparison, "results": rs.Results, "golden": rs.Golden,
    "store|history": rs.RunStore(ROOT / "data/demo/history"), "judged": Judged,
}  # fmt: skip
FILES = {"yaml", "jsonl", "json", "md", "txt", "html", "trec", "parquet", "csv", "gz", "yml", "py"}


def is_there(path: str) -> bool:
    try:
        attrgetter(path)(rs)
    except AttributeError:
        return False
    return True


@OF_TEXT
def test_every_name_of_a_page_is_there(page):
    text = page.read_text(encoding="utf-8")
    found = set(re.findall(r"\brs\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", text))
    assert sorted(path for path in found if not is_there(path)) == []


@OF_TEXT
def test_every_method_of_a_page_is_there(page):
    text = page.read_text(encoding="utf-8")
    for name, kind in OBJECTS.items():
        known = {*dir(kind), *([one.name for one in fields(kind)] if is_dataclass(kind) else [])}
        named = set(re.findall(rf"(?<![\w/.\-])(?:{name})\.([A-Za-z_]\w*)", text))
        assert named - known - FILES == set()


@OF_TEXT
def test_every_file_and_module_of_the_project_that_a_page_names_is_there(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:ragscore|tests|notebooks|\.ci|\.github)/[\w./-]*)", text)
    modules = re.findall(r"python -m (tests[\w.]*\w)", text)
    named += [f"{module.replace('.', '/')}.py" for module in modules]
    packages = [name.replace(".py", "/__main__.py") for name in named]
    both = zip(named, packages, strict=True)
    wrong = [one for one, other in both if not any((ROOT / n).exists() for n in (one, other))]
    assert wrong == []


def slugs(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ +(.+?) *$", text, flags=re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one).lower() for one in headings]
    return {re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in plain}


@OF_TEXT
def test_links_lead_to_files_and_headings(page):
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        is_outside = link.startswith(("http://", "https://", "mailto:"))
        is_heading = anchor and file.suffix == ".md" and file.exists()
        if not is_outside and (not file.exists() or (is_heading and anchor not in slugs(file))):
            wrong.append(link)
    assert wrong == []


@pytest.mark.parametrize("kind", ["ragscore demo", "pytest"])
def test_the_two_commands_of_the_readme_are_one_line_each(kind):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^python3 -m venv \.venv && .*$", text, flags=re.M)
    assert len([one for one in commands if kind in one]) == 1 and len(set(commands)) == 2


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
    files = [ROOT / "README.md", *GITHUB.rglob("*.md"), *GITHUB.rglob("*.yml")]
    for folder in ("ragscore", "notebooks"):
        for kind in ("py", "md", "ipynb"):
            files += (ROOT / folder).rglob(f"*.{kind}")
    assert len(files) > 200
    for file in files:
        text = re.sub(r"(?:[\s'\"`*]|\\n)+", " ", file.read_text(encoding="utf-8"))
        assert not advice.search(text.lower()), file
