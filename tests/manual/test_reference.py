"""The reference is what the code says, and describes every public name."""

import importlib
import inspect
import pkgutil
import re
from functools import cached_property

import pytest

import ragscore as rs
from ragscore.analysis.result_forms import FramesResult, JsonResult, TableResult
from ragscore.frames.kinds import KINDS
from ragscore.frames.verbs import Accessor, Verb
from ragscore.io import registry
from ragscore.io.citations import CITATION_KINDS
from ragscore.io.golden_read import FIELD_ORDER
from ragscore.io.record import (
    ANSWER_FIELDS,
    CALL_COLUMNS,
    CITATION_FIELDS,
    HIT_FIELDS,
    RECORD_FIELDS,
)
from ragscore.io.sidecars import _RUN_FIELDS
from ragscore.io.targets import SUPPORT_FIELDS
from ragscore.scoring.metrics import TABLE
from ragscore.store.tables import FRAMES
from tests.manual import NOTEBOOKS, reference

FOLDER = NOTEBOOKS / "reference"


def test_pages_are_as_they_are_generated():
    """Else run `python -m tests.manual --reference`."""
    for page, text in reference.texts(FOLDER).items():
        assert page.read_text(encoding="utf-8") == text, page.name


def test_every_part_is_on_a_page():
    on_pages = {
        name
        for page in FOLDER.glob("*.md")
        for _, name, _ in reference.PART.findall(page.read_text(encoding="utf-8"))
    }
    assert on_pages == set(reference.PARTS)


def described_names():
    return [
        each
        for _, _, parts in reference.API.values()
        for names in parts.values()
        for one in names
        for each in reference.expanded(one)
    ]


def test_every_public_name_is_described():
    namespaces = [name for name in rs.__all__ if inspect.ismodule(getattr(rs, name))]
    assert set(namespaces) <= set(reference.NAMESPACES)
    names = described_names()
    assert len(names) == len(set(names))
    own = {name for name in rs.__all__ if name not in namespaces}
    assert own <= set(names)
    for namespace in namespaces:
        inner = {f"{namespace}.{name}" for name in dir(getattr(rs, namespace)) if name[0] != "_"}
        known = {name for name in names if name.startswith(f"{namespace}.")}
        listed = {name for name in inner if not inspect.ismodule(reference.found(name))}
        assert listed <= known, namespace


def test_every_class_that_an_analysis_returns_is_described():
    for name in ("ragscore.analysis", "ragscore.golden"):
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)
    found, todo = set(), [FramesResult, JsonResult, TableResult]
    while todo:
        for cls in todo.pop().__subclasses__():
            todo.append(cls)
            if cls.__module__.startswith("ragscore") and "result_forms" not in cls.__module__:
                found.add(cls)
    described = [reference.found(name) for name in described_names()]
    assert [cls.__name__ for cls in found if not any(cls is one for one in described)] == []


def test_every_public_method_has_a_docstring_and_is_listed():
    kinds = (classmethod, staticmethod, property, cached_property, Verb, Accessor)
    for name in described_names():
        cls = reference.found(name)
        if not inspect.isclass(cls):
            continue
        own = {
            each
            for owner in (cls, cls.__base__)
            for each, value in vars(owner).items()
            if not each.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))
        }
        assert own - {"plot"} <= set(reference.members(cls)), name


def test_every_metric_is_on_the_page_once():
    listed = [metric.name for part in reference.METRICS for metric in reference.metrics_of(part)]
    assert sorted(listed) == sorted(metric.name for metric in TABLE)


def test_every_field_of_a_golden_file_is_described():
    listed = [name for part in reference.GOLDEN_FIELDS.values() for name in part]
    assert sorted(listed) == sorted(FIELD_ORDER)
    assert {*reference.SUPPORT_FIELDS, "rel_path", "heading_path"} == SUPPORT_FIELDS


def test_every_field_of_a_run_file_is_described():
    fields = {part: set(described) for part, described in reference.RUN_FIELDS.items()}
    assert fields["record"] - {"latency_<phase>"} == RECORD_FIELDS | {"answer"}
    assert fields["answer"] == ANSWER_FIELDS | {"usage", "hops"}
    assert fields["hit"] - {"citation", "heading_path", "retrieval", "score", "start", "end"} == (
        HIT_FIELDS
    )
    assert fields["citation"] == CITATION_FIELDS
    assert fields["call"] - {"iter"} == set(CALL_COLUMNS)
    assert fields["run"] | {"config_snapshot_json"} == _RUN_FIELDS
    assert fields["judgment"] == set(KINDS["judgments"].dtypes) - {"run_id"}
    assert all(f"| {kind} |" in reference.citation_kinds() for kind in CITATION_KINDS)


@pytest.mark.parametrize("part", ["golden", "run"])
def test_a_field_becomes_a_column_that_is_there(part):
    page = (FOLDER / f"{part}-file.md").read_text(encoding="utf-8")
    for frame, column in re.findall(r"`(\w+)\.(\w+)`", page):
        if frame in KINDS and not column.startswith(("x_", "latency_", "jsonl")):
            assert column in KINDS[frame].dtypes, f"{frame}.{column}"


def test_every_format_is_described():
    for side in ("results", "golden"):
        assert all(all(one.about[:2]) for one in (*registry.FORMATS[side], registry.TABLES[side]))


def test_every_option_is_described():
    page = (FOLDER / "cli.md").read_text(encoding="utf-8")
    for name, parser in reference.commands().items():
        section = page.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        for action in parser._actions:
            for option in action.option_strings:
                if option not in ("-h", "--help"):
                    assert re.search(rf"[` ]{re.escape(option)}[`, ]", section), (name, option)


def test_every_table_of_a_store_is_described():
    assert set(reference.STORE_TABLES) == set(FRAMES)
