"""Labelling in a terminal: what lines do, from a person or from a pipe."""

import subprocess
import sys

import pytest
import yaml
from conftest import hit, record

import ragscore as rs
from ragscore.golden.labelling.terminal import HELP, label_in_terminal

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
    assert said[1:4] == [
        "hit 1 supports the answer\nhit 2 has grade 3",
        "hit 3 does not support the answer",
        "hit 2 has no label of its own any more",
    ]
    assert [
        (support["path"], support.get("grade")) for support in rows(files)["q1"]["gold_supports"]
    ] == [("docs/d1.md", None), ("docs/d3.md", 0)]
    assert said[-1] == f"1 of 2 labelled in {files[0]}"


def test_a_question_is_shown_with_marks_places_and_texts_but_no_escape_codes(files):
    said = played(files, "2", "l")
    assert said[0].splitlines() == [
        "── q1 · unlabelled · 0 of 2 labelled · all", "who?", "   1  docs/d1.md › root · a 1",
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
    assert said[1:4] == ["should be refused", "unlabelled again", "should be refused"] and said[
        4
    ].startswith("── q2 · unlabelled · 1 of 2")
    assert said[5] == "hit 1 is found by these words, too" and said[6].startswith(
        "added q2-2\n── q2-2 · unlabelled"
    )
    assert (
        said[7].startswith("took back: added q2-2\n── q2 · labelled")
        and said[8] == "no query is left under “unlabelled”"
    )
    assert (
        said[9].startswith("── q9 · not in the file")
        and said[10].startswith("none: every high-ranked hit")
        and said[11]
        == HELP.format(
            filters=(
                "all, unlabelled, labelled, should refuse, near misses, label first, nothing right"
                " found, not in the file"
            )
        )
    )
    assert (
        rows(files)["q1"]["answerable"] is False
        and rows(files)["q2"]["gold_supports"][0]["snippets"] == ["by US"]
        and list(rows(files)) == ["q1", "q2"]
    )


def test_what_cannot_be_done_is_said_and_nothing_changes(files):
    said = played(files, "7", "w 1 nowhere", "f odd", "g odd", "u")
    assert [line.split(";")[0] for line in said[1:6]] == [
        "not written: number: no hit 7",
        "not written: snippet: these words are not in the hit's text",
        "not written: filter: found 'odd'",
        "not written: query_id: no query 'odd'", "not written: undo: nothing was clicked",
    ]  # fmt: skip
    assert files[0].read_text() == GOLDEN and not files[0].with_name("golden.yaml.bak").exists()


def test_near_misses_are_listed(files):
    assert played(files, "1", "near")[2].splitlines() == [
        "q1  rank 2 in 1 runs  docs/d2.md",
        "q1  rank 3 in 1 runs  docs/d3.md",
    ]


def test_a_change_by_someone_else_is_shown(files):
    session, said = rs.golden.LabelSession(*files), []

    def lines():
        files[0].write_text(GOLDEN.replace("who?", "who wrote it?"))
        yield "1"
        yield "1"

    label_in_terminal(session, lines(), said.append, width=80)
    assert (
        said[1].startswith("not written:")
        and "who wrote it?" in said[1]
        and said[2] == "hit 1 supports the answer"
    )


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
    assert (
        done.returncode == 0
        and done.stderr == ""
        and done.stdout.splitlines()[-1] == f"2 of 2 labelled in {files[0]}"
    )
    text = GOLDEN.replace("who?\n", "who?\n  expected_doc_ids: [d1]\n").replace(
        "# hm\n", "# hm\n  answerable: false\n"
    )
    assert (
        files[0].read_text() == text and files[0].with_name("golden.yaml.bak").read_text() == GOLDEN
    )


def test_the_command_says_in_one_line_what_is_wrong(files):
    done = subprocess.run(
        [sys.executable, "-m", "ragscore.cli", "label", str(files[1]), str(files[1])],
        input="",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "id: " in done.stderr
