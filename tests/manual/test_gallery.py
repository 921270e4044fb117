"""The gallery shows every picture, one a section, each in a few lines that run alone."""

import ast
import builtins
import json
import re

import pytest

import ragscore as rs
from ragscore.plot import accessor
from tests.manual import NOTEBOOKS, thumbnails

FILE = NOTEBOOKS / "gallery.ipynb"
LONGEST = 10  # lines of a section
CELLS = json.loads(FILE.read_text(encoding="utf-8"))["cells"]
SOURCES = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]
FIRST, SECTIONS = SOURCES[0], SOURCES[1:]
PICTURES = [name for name in rs.plot.__all__ if hasattr(getattr(rs.plot, name), "__wrapped__")]
# What a class draws when its `.plot` is called, by the name of its pictures.
HOLDERS = [name for name, held in vars(accessor).items() if isinstance(held, accessor.Gallery)]
DRAWN = {
    "EVALUATION": r"\bev\.plot\(",
    "COMPARISON": r"\bcmp\.plot\(",
    "SLICES": r"\bcmp\.slices\(.*\)\.plot\(",
    "LEADERBOARD": r"\bev\.leaderboard\(.*\)\.plot\(",
    "TREND": r"\bstore\.trend\(.*\)\.plot\(",
    "REFUSALS": r"\bev\.refusals\(\)\.plot\(",
    "FAILURES": r"\bev\.failures\(\)\.plot\(",
    "RISK_COVERAGE": r"\bev\.risk_coverage\(\)\.plot\(",
    "CALLS": r"\.calls\(\)\.plot\(",
    "CONVERSATIONS": r"\.conversations\(.*\)\.plot\(",
}


@pytest.mark.parametrize("picture", PICTURES)
def test_every_picture_is_shown_and_its_options_are_named(picture):
    told = "".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown")
    assert f"`help(rs.plot.{picture})`" in told


@pytest.mark.parametrize("holder", HOLDERS)
def test_every_object_that_draws_itself_does(holder):
    assert any(re.search(DRAWN[holder], source) for source in SECTIONS)


def test_every_method_of_plot_is_a_picture_of_the_gallery():
    named = {draw.__name__ for holder in HOLDERS for draw in getattr(accessor, holder).pictures}
    assert named <= set(PICTURES)


def test_a_section_is_a_heading_a_cell_and_a_figure():
    kinds = [cell["cell_type"] for cell in CELLS]
    assert kinds == ["markdown", "code"] * (len(CELLS) // 2)
    for text, code in zip(CELLS[2::2], CELLS[3::2], strict=True):
        assert text["source"][0].startswith("## ")
        assert sum("image/png" in one.get("data", {}) for one in code["outputs"]) == 1


def test_every_section_stands_once_in_the_table_of_small_pictures_and_looks_as_its_own():
    found = thumbnails.sections()
    assert sorted(name for names in thumbnails.TOLD.values() for name in names) == sorted(found)
    assert thumbnails.table() in "".join(CELLS[0]["source"])
    stored = {file.name for file in thumbnails.FOLDER.glob("*.png")}
    assert stored == set(map(thumbnails.file_of, found))
    assert all(thumbnails.distance(name, png) < 0.03 for name, (_, png) in found.items())


@pytest.mark.parametrize("source", SECTIONS)
def test_a_section_is_short_and_runs_alone_after_the_first_cell(source):
    assert len(source.splitlines()) <= LONGEST
    bound, used = names(source)
    assert used <= bound | names(FIRST)[0] | set(dir(builtins))


def names(source: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell binds, and those that it uses."""
    found = list(ast.walk(ast.parse(source)))
    bound = {
        one.id for one in found if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
    for one in found:
        if isinstance(one, ast.Import):
            bound |= {alias.asname or alias.name for alias in one.names}
    used = {one.id for one in found if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
    return bound, used


def test_the_gallery_is_small_enough_to_be_shown():
    assert FILE.stat().st_size < 1_500_000
