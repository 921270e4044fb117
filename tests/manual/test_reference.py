"""The reference is what the code says, and describes every public name."""

import inspect
import re

import pandas as pd
import pytest
from conftest import record
from test_face import RESULTS

import ragscore as rs
from ragscore.frames.kinds import KINDS
from ragscore.io.golden_read import FIELD_ORDER, SUPPORT_FIELDS
from ragscore.io.run_file import (
    ALSO,
    CALL,
    CITATION,
    CITATION_KINDS,
    HIT,
    RECORD,
    RUN_NAMES,
    names,
)
from ragscore.scoring.metrics import TABLE
from tests.manual import NOTEBOOKS, pages, reference

DESCRIBED = [
    each
    for _, _, parts in reference.API.values()
    for names in parts.values()
    for one in names
    for each in reference.expanded(one)
]


def test_pages_are_as_they_are_generated():
    """Else run `python -m tests.manual --reference`."""
    for page, text in reference.texts().items():
        assert page.read_text(encoding="utf-8") == text, page.name


def test_every_part_is_on_a_page():
    texts = "".join(page.read_text(encoding="utf-8") for page in pages())
    assert {name for _, name, _ in reference.PART.findall(texts)} == set(reference.PARTS)


def test_every_public_name_is_described_once():
    assert len(DESCRIBED) == len(set(DESCRIBED))
    namespaces = {name for name in rs.__all__ if inspect.ismodule(getattr(rs, name))}
    public = {*rs.__all__} - namespaces
    for one in namespaces:
        public |= {f"{one}.{name}" for name in dir(getattr(rs, one)) if name[0] != "_"}
    missing = public - set(DESCRIBED)
    assert [name for name in missing if not inspect.ismodule(reference.found(name))] == []


def test_every_class_that_an_analysis_returns_is_described():
    described = [reference.found(name) for name in DESCRIBED]
    assert [name for name, cls in RESULTS.items() if cls not in described] == []


def test_every_metric_is_on_the_page_once():
    listed = [metric.name for part in reference.METRICS for metric in reference.metrics_of(part)]
    assert sorted(listed) == sorted(TABLE)


def test_every_field_of_a_golden_file_is_described():
    listed = [name for part in reference.GOLDEN_FIELDS.values() for name in part]
    assert sorted(listed) == sorted(FIELD_ORDER)
    assert {*reference.SUPPORT_FIELDS, "rel_path", "heading_path"} == SUPPORT_FIELDS


def test_every_field_of_a_run_file_is_described():
    fields = {part: set(described) for part, described in reference.RUN_FIELDS.items()}
    assert fields["record"] - {"latency_<phase>"} == names(RECORD, beside="hits_top_k")
    assert fields["answer"] == names(RECORD, "answer.", "citations hops")
    span = "citation start end span_unit"
    assert fields["hit"] == names(HIT, beside=f"{span} metadata") | {*ALSO}
    assert fields["citation"] == names(CITATION, beside="span_unit") - {"heading_path"}
    assert fields["call"] - {"iter"} == set(CALL)
    synonyms = {"config_snapshot", "config_snapshot_json", "commit_hash"}
    assert fields["run"] | synonyms == RUN_NAMES
    assert fields["judgment"] == set(KINDS["judgments"].dtypes) - {"run_id"}
    assert all(f"| {kind} |" in reference.citation_kinds() for kind in CITATION_KINDS)


@pytest.mark.parametrize("part", ["golden", "run"])
def test_a_field_becomes_a_column_that_is_there(part):
    page = (NOTEBOOKS / "reference" / f"{part}-file.md").read_text(encoding="utf-8")
    for frame, column in re.findall(r"`(\w+)\.(\w+)`", page):
        if frame in KINDS and not column.startswith(("x_", "latency_", "jsonl")):
            assert column in KINDS[frame].dtypes, f"{frame}.{column}"


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ({"answer": "no", "grounded": True, "refused": True}, True),
        ({"answer": "no", "grounded": False, "refused": False}, False),
        ({"answer": "text", "grounded": False}, True),
        ({"answer": "", "grounded": True}, False),
        ({"answer": " "}, True),
        ("", True),
        ("text", pd.NA),
        ({"answer": "text", "grounded": None, "refused": None}, pd.NA),
        (None, pd.NA),
    ],
)
def test_a_refusal_is_read_in_the_order_the_run_file_page_gives(write_run, answer, refused):
    file = write_run("r", [record("q", [], answer=answer), record("r", [], answer="text")])
    found = rs.load_results(file).responses.get("refused", pd.Series(pd.NA, range(2))).iloc[0]
    assert found is refused or found == refused
