"""Labelling in a terminal: what lines do, from a person or from a pipe."""

import io
import sys

import pytest
import yaml
from conftest import hit, record

from ragscore.cli import main
from tests.messages import says

GOLDEN = "# kept\n- id: q1\n  query: who?\n- id: q2\n  query: what?  # hm\n"


@pytest.fixture
def golden_file(write_golden):
    return write_golden(GOLDEN)


@pytest.fixture
def played(golden_file, write_run, monkeypatch, capsys):
    """Type lines; return what is printed."""
    hits = [
        hit("c1", "d1", 1, snippet="By us."),
        hit("c2", "d2", 2, snippet="By \x1b[31mthem."),
        hit("c3", "d3", 3, snippet="Who knows."),
    ]
    run = write_run("a", [record("q1", hits), record("q2", hits[:1])])

    def play(*lines, options=()):
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
        assert main(["label", str(golden_file), str(run), *options]) == 0
        return capsys.readouterr().out

    return play


def rows(file):
    return {row["id"]: row for row in yaml.safe_load(file.read_text())}


def test_numbers_are_graded_and_taken_off(golden_file, played):
    printed = played("1, 2=3", "3=0", "2=3", "q", "1")
    says(printed, "q1", "unlabelled")
    assert "      By \\u001b[31mthem." in printed and "3  2  docs/d2.md" in printed
    supports = rows(golden_file)["q1"]["gold_supports"]
    assert [(one["path"], one.get("grade")) for one in supports] == [
        ("docs/d1.md", None), ("docs/d3.md", 0),
    ]  # fmt: skip


def test_lines_step_refuse_and_take_back(golden_file, played):
    printed = played("x", "x", "x", "", "1")
    assert rows(golden_file)["q1"]["answerable"] is False
    assert rows(golden_file)["q2"]["gold_supports"][0]["path"] == "docs/d1.md"
    says(printed, "q2", "unlabelled")


@pytest.mark.parametrize("line", ["7", "0", "1=x", "1 2 odd"])
def test_what_cannot_be_done_is_said_with_the_help_and_nothing_changes(golden_file, played, line):
    printed = played(line)
    says(printed, repr(line.split()[-1]), 3)
    assert "nothing answers it" in printed
    assert golden_file.read_text() == GOLDEN
    assert not golden_file.with_name("golden.yaml.bak").exists()


def test_labels_come_from_a_pipe(golden_file, played):
    played("1", "n", "x", options=["--level", "doc", "--k", "1"])
    text = GOLDEN.replace("who?\n", "who?\n  expected_doc_ids: [d1]\n").replace(
        "# hm\n", "# hm\n  answerable: false\n"
    )
    assert golden_file.read_text() == text
    assert golden_file.with_name("golden.yaml.bak").read_text() == GOLDEN
    assert played(options=["--skip-labelled"]) == ""
