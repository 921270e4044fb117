"""The README is true: its examples run and print what it shows, its tables are generated, its commands are the real ones."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import ragscore as rs
from ragscore.cli import _parser
from ragscore.tables import markdown_table

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, flags=re.M | re.S)


def test_examples_print_what_the_readme_shows(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    namespace: dict[str, object] = {}
    shown = 0
    with pd.option_context("display.width", 160):
        for (language, code), (following, output) in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True):
            if language != "python":
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
                [sys.executable, "-m", "ragscore.cli", *arguments], capture_output=True, text=True, cwd=ROOT, check=True, env={**os.environ, "COLUMNS": "160"}
            )
            assert done.stdout.rstrip() == output.rstrip(), code
            shown += 1
    assert shown


def test_the_table_of_metrics_is_the_one_in_the_code():
    table = rs.metrics()[["name", "formula", "better", "nan_when", "also"]].rename(columns={"name": "metric", "nan_when": "NaN when", "also": "elsewhere"})
    assert markdown_table(table) in README


def test_every_command_and_module_is_in_the_readme():
    for command in next(action for action in _parser()._actions if action.choices).choices:
        assert f"ragscore {command}" in README, command
    for file in (ROOT / "ragscore").iterdir():
        if file.suffix == ".py" and not file.name.startswith("_"):
            assert f"`{file.name}`" in README, file.name


def test_every_file_the_readme_points_to_is_there():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("kind", ["ragscore demo", "pytest"])
def test_the_two_commands_are_one_line_each(kind):
    commands = re.findall(r"^python3 -m venv \.venv && .*$", README, flags=re.M)
    assert len([command for command in commands if kind in command]) == 1 and len(set(commands)) == 2


def test_changes_name_the_current_version():
    assert re.search(rf"^### {re.escape(rs.__version__)}$", README, flags=re.M)
