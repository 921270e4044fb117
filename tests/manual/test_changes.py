"""The page of changes names the version, and leads from old names to names that are there."""

import re
from dataclasses import fields, is_dataclass
from operator import attrgetter

import pytest

import ragscore as rs
from ragscore.judging import Judged
from tests.manual import NOTEBOOKS, ROOT

PAGE = (NOTEBOOKS / "changes.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (`.*?) \| (.*?) \|$", PAGE, flags=re.M)
"""What was, and what is."""
KINDS = {
    "ev": rs.Evaluation, "cmp": rs.Comparison, "results": rs.Results, "golden": rs.Golden,
    "store": rs.RunStore, "judged": Judged,
}  # fmt: skip


def names_of(text):
    """Return the dotted names of the library in code, by the object they belong to."""
    code = " ".join(re.findall(r"`([^`]+)`", text))
    owners = "|".join(["rs", *KINDS])
    found = re.findall(rf"(?<![\w.])({owners})\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", code)
    return [name for name in found if name[1] != "yaml"]


def is_there(owner, path):
    if owner == "rs":
        try:
            attrgetter(path)(rs)
        except AttributeError:
            return False
        return path.partition(".")[0] in rs.__all__  # and not a folder of the package
    kind = KINDS[owner]
    known = {*dir(kind), *([one.name for one in fields(kind)] if is_dataclass(kind) else [])}
    return path.partition(".")[0] in known


def test_the_page_names_the_current_version():
    assert re.search(rf"^## {re.escape(rs.__version__)}$", PAGE, flags=re.M)


def test_every_new_name_is_there():
    new = [name for _, now in ROWS for name in names_of(now)]
    assert len(new) > 100
    assert [name for name in new if not is_there(*name)] == []


def test_every_old_name_is_gone():
    old = [name for was, _ in ROWS for name in names_of(was) if name != ("store", "save")]
    assert len(old) > 100
    assert [name for name in old if is_there(*name)] == []


def test_every_name_among_what_is_new_is_there():
    chapter = PAGE.partition("### What is new\n")[2].partition("\n### What is called")[0]
    names = names_of(chapter)
    assert ("ev", "explore") in names
    assert [name for name in names if not is_there(*name)] == []


@pytest.mark.parametrize("module", re.findall(r"python -m (tests[\w.]*\w)", PAGE))
def test_every_module_that_the_page_runs_is_there(module):
    file = ROOT / module.replace(".", "/")
    assert file.with_suffix(".py").exists() or (file / "__main__.py").exists()
