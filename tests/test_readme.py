"""The README is true.

Its examples run and print what it shows, its tables are generated, its commands are the real ones.
"""

import contextlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from operator import attrgetter
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from conftest import hit, record

import ragscore as rs
from ragscore.analysis.comparison.model import OUTCOMES
from ragscore.cli import make_parser
from ragscore.frames.render import markdown_table
from ragscore.judging import Judged

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, flags=re.M | re.S)
# What the README calls the objects of its examples.
OBJECTS = {
    "ev": rs.Evaluation, "cmp": rs.Comparison, "results": rs.Results, "golden": rs.Golden,
    "store|history": rs.RunStore(ROOT / "data/demo/history"), "judged": Judged,
}  # fmt: skip
FILES = {"yaml", "jsonl", "json", "md", "txt", "html", "trec", "parquet"}


def test_examples_print_what_the_readme_shows(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    namespace: dict[str, object] = {}
    shown = 0
    with pd.option_context("display.width", 160):
        for (language, code), (following, output) in zip(
            BLOCKS, [*BLOCKS[1:], ("", "")], strict=True
        ):
            # Other tools are shown, not needed.
            is_without = any(
                importlib.util.find_spec(name) is None
                for name in re.findall(r"^import (duckdb|polars)$", code, flags=re.M)
            )
            if language != "python" or is_without:
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, "README.md", "exec"), namespace)
            if following == "text":
                assert printed.getvalue().rstrip() == output.rstrip(), code
                shown += 1
    assert shown >= 3


def test_shell_examples_print_what_the_readme_shows():
    shown = 0
    for (_, code), (following, output) in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True):
        if code.startswith("ragscore ") and following == "text":
            arguments = code.strip().removeprefix("ragscore ").split()
            done = subprocess.run(
                [sys.executable, "-m", "ragscore.cli", *arguments],
                capture_output=True,
                text=True,
                cwd=ROOT,
                check=True,
                env={**os.environ, "COLUMNS": "160"},
            )
            assert done.stdout.rstrip() == output.rstrip(), code
            shown += 1
    assert shown


def test_the_table_of_metrics_is_the_one_in_the_code():
    table = rs.metrics()[["name", "formula", "better", "nan_when", "also"]].rename(
        columns={"name": "metric", "nan_when": "NaN when", "also": "elsewhere"}
    )
    assert markdown_table(table) in README


def test_every_command_is_in_the_readme():
    for command in next(action for action in make_parser()._actions if action.choices).choices:
        assert f"ragscore {command}" in README, command


def unknown_names(pattern, text):
    """Return the dotted names that `rs` doesn't have."""
    found = set(re.findall(pattern + r"rs\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", text))
    return sorted(path for path in found if not is_there(path))


def is_there(path):
    try:
        attrgetter(path)(rs)
    except AttributeError:
        return False
    return True


def test_every_name_in_the_readme_is_there():
    assert unknown_names(r"\b", README.partition("## Changes\n")[0]) == []


@pytest.mark.parametrize("name", OBJECTS)
def test_every_method_in_the_readme_is_there(name):
    text, kind = README.partition("## Changes\n")[0], OBJECTS[name]
    known = {*dir(kind), *([one.name for one in fields(kind)] if is_dataclass(kind) else [])}
    named = set(re.findall(rf"(?<![\w/.\-])(?:{name})\.([A-Za-z_]\w*)", text))
    assert named - known - FILES == set()


def test_every_picture_in_the_readme_is_drawn(monkeypatch):
    monkeypatch.chdir(ROOT)
    ev = rs.evaluate("data/demo/runs/*/per_query.jsonl", "data/demo/golden.yaml")
    names = {"rs": rs, "ev": ev, "store": rs.RunStore("data/demo/history")}
    names["cmp"] = ev.compare("dense", "hybrid")
    chapter = README.partition("## Pictures\n")[2].partition("\n## ")[0]
    calls = re.findall(r"`((?:rs|ev|cmp|store)\..*?\))`", chapter)
    assert len(calls) > 10
    for call in calls:
        assert isinstance(eval(call, names), plt.Axes), call
        plt.close("all")


def test_every_outcome_is_defined_in_the_readme():
    defined = {
        word
        for line in README.splitlines()
        if line.startswith("| `")
        for word in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert set(OUTCOMES) <= defined


def test_the_record_in_the_readme_loads_as_it_says(tmp_path):
    (line,) = [code for language, code in BLOCKS if language == "json"]
    (tmp_path / "per_query.jsonl").write_text(json.dumps(json.loads(line)) + "\n", encoding="utf-8")
    response = rs.load_results(tmp_path).responses.iloc[0]
    assert response["answer"] == "Use merge with how='outer'." and not response["refused"]


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ({"answer": "no", "grounded": True, "refused": True}, True),
        ({"answer": "no", "grounded": False, "refused": False}, False),
        ({"answer": "text", "grounded": False}, True),
        ({"answer": "", "grounded": True}, False),
        ({"answer": " "}, True),
        ("", True),
        ("text", False),
        (None, pd.NA),
    ],
)
def test_a_refusal_is_read_in_the_order_the_readme_gives(tmp_path, answer, refused):
    records = [
        {"query_id": "q", "query": "?", "hits_top_k": [], "answer": answer},
        {"query_id": "r", "query": "?", "hits_top_k": [], "answer": "text"},
    ]
    (tmp_path / "per_query.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in records), encoding="utf-8"
    )
    found = rs.load_results(tmp_path).responses["refused"].iloc[0]
    assert found is refused or (not pd.isna(found) and found == refused)


@pytest.mark.parametrize(
    ("a", "b", "outcome", "counts"),
    [
        (8, 4, "win", (1, 0)),
        (4, 2, "win", (0, 0)),
        (4, 8, "loss", (0, 1)),
        (8, None, "regression", (0, 0)),
    ],
)
def test_won_at_hit_5_and_outcomes_relate_as_the_readme_says(
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


def test_every_file_the_readme_points_to_is_there():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("page", ["README.md", "data/README.md"])
def test_every_test_that_a_page_names_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (ROOT / target).exists(), target


def test_every_module_of_the_tests_that_the_readme_runs_is_there():
    names = set(re.findall(r"python -m (tests[\w.]*\w)", README))
    assert {"tests.benchmarks", "tests.faults", "tests.same_numbers"} <= names
    for name in names:
        file = ROOT / name.replace(".", "/")
        assert file.with_suffix(".py").exists() or (file / "__main__.py").exists(), name


@pytest.mark.parametrize("kind", ["ragscore demo", "pytest"])
def test_the_two_commands_are_one_line_each(kind):
    commands = re.findall(r"^python3 -m venv \.venv && .*$", README, flags=re.M)
    assert (
        len([command for command in commands if kind in command]) == 1 and len(set(commands)) == 2
    )
