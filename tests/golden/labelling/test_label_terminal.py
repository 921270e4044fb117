"""Labelling in a terminal: what lines do, from a person or from a pipe."""

import subprocess
import sys

import pytest
import yaml
from conftest import hit, record

import ragscore as rs
from ragscore.golden.labelling.terminal import HELP, label_in_terminal
from tests.messages import says

GOLDEN = "# kept\n- id: q1\n  query: who?\n- id: q2\n  query: what?  # hm\n"


@pytest.fixture
def files(write_golden, write_run):
    hits = [
        hit("c1", "d1", 1, snippet="By us."),
        hit("c2", "d2", 2, snippet="By \x1b[31mthem."),
        hit("c3", "d3", 3, snippet="Who knows."),
    ]
    return write_golden(GOLDEN), write_run(
        "a", [record("q1", hits), record("q2", hits[:1]), record("q9", hits[:1])]
    )


def played(files, *lines, **options):
    said: list[str] = []
    label_in_terminal(rs.golden.LabelSession(*files, **options), lines, said.append, width=80)
    return said


def rows(files):
    return {row["id"]: row for row in yaml.safe_load(files[0].read_text())}


def test_numbers_are_toggled_and_graded(files):
    said = played(files, "1, 2=3", "3=0", "2=3", "q", "1")
    first, second = said[1].splitlines()
    says(first, 1)
    says(second, 2, 3)
    says(said[2], 3)
    says(said[3], 2)
    assert [
        (support["path"], support.get("grade")) for support in rows(files)["q1"]["gold_supports"]
    ] == [("docs/d1.md", None), ("docs/d3.md", 0)]
    says(said[-1], "1 of 2", files[0])


@pytest.mark.large
def test_a_question_is_shown_with_marks_places_and_texts_but_no_escape_codes(files):
    said = played(files, "2", "l")
    title, *lines = said[0].splitlines()
    says(title, "q1", "unlabelled", "0 of 2", "all")
    assert lines == [
        "who?", "   1  docs/d1.md › root · a 1",
        "      By us.", "   2  docs/d2.md › root · a 2", "      By \\x1b[31mthem.",
        "   3  docs/d3.md › root · a 3", "      Who knows.",
    ]  # fmt: skip
    assert "✔  2  docs/d2.md" in said[2]


def test_lines_step_refuse_take_back_and_add(files):
    said = played(
        files,
        "x",
        "x",
        "x",
        "",
        "w 1 by US",
        "new what else?",
        "u",
        "f unlabelled",
        "g q9",
        "near",
        "odd",
    )
    says(said[1], "refused")
    says(said[2], "unlabelled")
    assert said[3] == said[1]
    says(said[4].splitlines()[0], "q2", "unlabelled", "1 of 2")
    says(said[5], 1)
    added, title, *_ = said[6].splitlines()
    says(added, "q2-2")
    says(title, "q2-2", "unlabelled")
    taken_back, title, *_ = said[7].splitlines()
    says(taken_back, "q2-2")
    says(title, "q2", "labelled")
    says(said[8], "unlabelled")
    says(said[9].splitlines()[0], "q9", "not in the file")
    says(said[10])
    assert said[11] == HELP.format(
        filters=(
            "all, unlabelled, labelled, should refuse, near misses, nothing right found, not in"
            " the file"
        )
    )
    assert (
        rows(files)["q1"]["answerable"] is False
        and rows(files)["q2"]["gold_supports"][0]["snippets"] == ["by US"]
        and list(rows(files)) == ["q1", "q2"]
    )


def test_what_cannot_be_done_is_said_and_nothing_changes(files):
    said = played(files, "7", "w 1 nowhere", "f odd", "g odd", "u")
    for text, *named in zip(
        said[1:6],
        ("number", "snippet", "filter", "query_id", "undo"),
        (7, "", "'odd'", "'odd'", ""),
        strict=True,
    ):
        says(text, *named)
    assert files[0].read_text() == GOLDEN and not files[0].with_name("golden.yaml.bak").exists()


def test_near_misses_are_listed(files):
    first, second = played(files, "1", "near")[2].splitlines()
    says(first, "q1", 2, 1, "docs/d2.md")
    says(second, "q1", 3, 1, "docs/d3.md")


def test_a_change_by_someone_else_is_shown(files):
    session, said = rs.golden.LabelSession(*files), []

    def lines():
        files[0].write_text(GOLDEN.replace("who?", "who wrote it?"))
        yield "1"
        yield "1"

    label_in_terminal(session, lines(), said.append, width=80)
    says(said[1], "who wrote it?")
    says(said[2], 1)


@pytest.mark.slow
def test_the_command_labels_from_a_pipe(files):
    command = [
        sys.executable,
        "-m",
        "ragscore.cli",
        "label",
        str(files[0]),
        str(files[1]),
        "--level",
        "doc",
        "--show",
        "unlabelled",
    ]
    done = subprocess.run(command, input="1\nn\nx\n", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stderr == ""
    says(done.stdout.splitlines()[-1], "2 of 2", files[0])
    text = GOLDEN.replace("who?\n", "who?\n  expected_doc_ids: [d1]\n").replace(
        "# hm\n", "# hm\n  answerable: false\n"
    )
    assert (
        files[0].read_text() == text and files[0].with_name("golden.yaml.bak").read_text() == GOLDEN
    )


@pytest.mark.slow
def test_the_command_says_in_one_line_what_is_wrong(files):
    done = subprocess.run(
        [sys.executable, "-m", "ragscore.cli", "label", str(files[1]), str(files[1])],
        input="",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "id: " in done.stderr
