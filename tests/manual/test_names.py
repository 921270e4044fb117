"""What pages name is there: functions, methods, tests; and single cases are as they say."""

import json
import re
from dataclasses import fields, is_dataclass
from operator import attrgetter

import pandas as pd
import pytest
from conftest import hit, record

import ragscore as rs
from ragscore.analysis.comparison.model import OUTCOMES
from ragscore.judging import Judged
from tests.manual import ROOT, blocks, pages

# Changes name what is gone, too.
PAGES = [page for page in pages() if page.name != "changes.md"]
OF_PAGE = pytest.mark.parametrize("page", PAGES, ids=[str(one.relative_to(ROOT)) for one in PAGES])
# What pages call the objects of their examples.
OBJECTS = {
    "ev": rs.Evaluation, "cmp": rs.Comparison, "results": rs.Results, "golden": rs.Golden,
    "store|history": rs.RunStore(ROOT / "data/demo/history"), "judged": Judged,
}  # fmt: skip
FILES = {"yaml", "jsonl", "json", "md", "txt", "html", "trec", "parquet", "csv", "gz", "yml"}


def is_there(path: str) -> bool:
    try:
        attrgetter(path)(rs)
    except AttributeError:
        return False
    return True


@OF_PAGE
def test_every_name_of_a_page_is_there(page):
    text = page.read_text(encoding="utf-8")
    found = set(re.findall(r"\brs\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", text))
    assert sorted(path for path in found if not is_there(path)) == []


@OF_PAGE
def test_every_method_of_a_page_is_there(page):
    text = page.read_text(encoding="utf-8")
    for name, kind in OBJECTS.items():
        known = {*dir(kind), *([one.name for one in fields(kind)] if is_dataclass(kind) else [])}
        named = set(re.findall(rf"(?<![\w/.\-])(?:{name})\.([A-Za-z_]\w*)", text))
        assert named - known - FILES == set()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "data/README.md"], ids=lambda page: page.stem)
def test_every_test_that_a_page_names_is_there(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (ROOT / target).exists(), target
    for name in set(re.findall(r"python -m (tests[\w.]*\w)", text)):
        file = ROOT / name.replace(".", "/")
        assert file.with_suffix(".py").exists() or (file / "__main__.py").exists(), name


@pytest.mark.parametrize("kind", ["ragscore demo", "pytest"])
def test_the_two_commands_of_the_readme_are_one_line_each(kind):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^python3 -m venv \.venv && .*$", text, flags=re.M)
    assert len([one for one in commands if kind in one]) == 1 and len(set(commands)) == 2


def test_every_outcome_is_defined():
    text = (ROOT / "notebooks/howto/compare.md").read_text(encoding="utf-8")
    defined = {
        word
        for line in text.splitlines()
        if line.startswith("| `")
        for word in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert set(OUTCOMES) <= defined


def test_the_record_of_the_run_file_loads_as_the_page_says(tmp_path):
    page = ROOT / "notebooks/reference/run-file.md"
    first = next(one for one in blocks(page) if one.name.endswith("per_query.jsonl"))
    (tmp_path / "per_query.jsonl").write_text(first.text, encoding="utf-8")
    response = rs.load_results(tmp_path).responses.iloc[0]
    assert json.loads(first.text.splitlines()[0])["answer"]["answer"] == response["answer"]
    assert not response["refused"]


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
def test_a_refusal_is_read_in_the_order_the_run_file_page_gives(tmp_path, answer, refused):
    records = [
        {"query_id": "q", "query": "?", "hits_top_k": [], "answer": answer},
        {"query_id": "r", "query": "?", "hits_top_k": [], "answer": "text"},
    ]
    (tmp_path / "per_query.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in records), encoding="utf-8"
    )
    responses = rs.load_results(tmp_path).responses
    found = responses["refused"].iloc[0] if "refused" in responses else pd.NA
    assert found is refused or (not pd.isna(found) and found == refused)
    if isinstance(answer, dict) and {"grounded", "refused"} & {
        k for k, v in answer.items() if v is not None
    }:
        assert not responses["refused"].iloc[1]


@pytest.mark.large
@pytest.mark.parametrize(
    ("a", "b", "outcome", "counts"),
    [
        (8, 4, "win", (1, 0)),
        (4, 2, "win", (0, 0)),
        (4, 8, "loss", (0, 1)),
        (8, None, "regression", (0, 0)),
    ],
)
def test_won_at_hit_5_and_outcomes_relate_as_the_manual_says(
    write_golden, write_run, a, b, outcome, counts
):
    golden = rs.load_golden(write_golden([{"id": "q", "query": "?", "expected_doc_ids": ["d"]}]))
    runs = [
        write_run(name, [record("q", [hit("c", "d", rank)] if rank else [])], k=10)
        for name, rank in (("a", a), ("b", b))
    ]
    cmp = rs.evaluate(rs.load_results(runs), golden).compare("a", "b", "hit@5")
    row = cmp.deltas.iloc[0]
    assert cmp.counts == {outcome: 1} and (row["n_better"], row["n_worse"]) == counts
