"""The labelling session: what a click writes, what survives, and who wins when two people write."""

import json
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
import yaml
from conftest import hit, record

import ragscore as rs
from ragscore.golden.labelling import LabelConflict, LabelSession
from ragscore.golden.labelling.pool import snippet_of
from tests.messages import refused, warned

GOLDEN = """\
# Should refuse: answerable: false
- id: q1
  query: how do I merge?   # asked by three people
- id: q2
  query: who wrote this?
  difficulty: hard
"""
MERGE = "Use merge. It joins two tables by a key."
JOIN = "Use join. It joins two tables by their index."


def passage(chunk: str, doc: str, rank: int, text: str | None, heading: str = "Guide > Merging"):
    return hit(chunk, doc, rank, heading_path=heading.split(" > "), snippet=text)


@pytest.fixture
def golden_file(write_golden):
    return write_golden(GOLDEN)


@pytest.fixture
def runs(write_run):
    a = [
        record(
            "q1",
            [
                passage("c1", "d1", 1, MERGE),
                passage("c2", "d1", 2, JOIN),
                passage("c3", "d2", 3, "Nothing."),
            ],
        ),
        record("q2", [passage("c9", "d9", 1, "By us.")]),
    ]
    b = [
        record("q1", [passage("c2", "d1", 1, JOIN), passage("other-id", "d1", 2, MERGE)]),
        record("q2", []),
        record("q3", [passage("c1", "d1", 1, MERGE)]),
    ]
    return rs.load_results([write_run("a", a), write_run("b", b)])


@pytest.fixture
def session(golden_file, runs):
    return LabelSession(golden_file, runs)


def labelled(file):
    """The golden set so far; that some questions are unlabelled is no news here."""
    with warned("unlabelled"):
        return rs.load_golden(file)


def row(file, query_id):
    return next(
        one for one in yaml.safe_load(file.read_text(encoding="utf-8")) if one["id"] == query_id
    )


def test_a_passage_that_two_runs_have_stands_there_once_best_rank_first(session):
    assert session.hits[["number", "best_rank", "n_runs", "found", "text"]].values.tolist() == [
        [1, 1, 2, "a 1, b 2", MERGE], [2, 1, 2, "a 2, b 1", JOIN], [3, 3, 1, "a 3", "Nothing."],
    ]  # fmt: skip


def test_a_click_is_in_the_file_as_an_anchor_and_nothing_else_changes(session, golden_file):
    session.toggle(1)
    anchor = (
        "  gold_supports:\n  - path: docs/d1.md\n    heading: Guide > Merging\n    snippets: [It"
        " joins two tables by a key.]\n"
    )
    assert golden_file.read_text() == GOLDEN.replace(
        "# asked by three people\n", "# asked by three people\n" + anchor
    )
    assert (
        session.hits["grade"].tolist() == [1, pd.NA, pd.NA]
        and session.state == "labelled"
        and session.progress == (1, 2)
    )


def test_a_label_survives_another_chunker(session, golden_file, write_run):
    session.toggle(1)
    again = rs.load_results(
        write_run(
            "big",
            [
                record(
                    "q1",
                    [
                        passage(
                            "new#1", "d1", 1, f"Preface. {MERGE} {JOIN}", "Guide > Merging > All"
                        )
                    ],
                ),
                record("q2", []),
            ],
        )
    )
    assert rs.score(again, labelled(golden_file), ["mrr"], match="anchor")["mrr"].iloc[0] == 1


def test_grades_change_in_place_and_zero_is_a_judgement(session, golden_file):
    session.toggle(1, 2)
    session.toggle(1, 3)
    session.mark(3, 0)
    assert [support.get("grade") for support in row(golden_file, "q1")["gold_supports"]] == [3, 0]
    assert session.hits["grade"].tolist() == [3, pd.NA, 0] and session.questions[
        "n_targets"
    ].tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("level", "field", "ids"),
    [("chunk", "expected_chunk_ids", ["c2", "c1"]), ("doc", "expected_doc_ids", ["d1", "d2"])],
)
def test_ids_are_written_on_request(golden_file, runs, level, field, ids):
    session = LabelSession(golden_file, runs, level=level)
    session.toggle(1)
    session.toggle(2 if level == "chunk" else 3)
    assert row(golden_file, "q1")[field] == ids
    assert row(golden_file, "q1").get("chunker_version") == ("test@1" if level == "chunk" else None)
    session.unmark(1)
    session.unmark(2 if level == "chunk" else 3)
    assert golden_file.read_text() == GOLDEN, (
        "an empty list would mean that the question should be refused"
    )


def test_a_chunk_of_another_chunker_is_not_mixed_in(write_golden, runs):
    session = LabelSession(
        write_golden(
            [{"id": "q1", "query": "?", "expected_chunk_ids": ["x"], "chunker_version": "old@1"}]
        ),
        runs,
        level="chunk",
    )
    with refused("test@1", "old@1", field="chunker_version"):
        session.mark(1)


def test_one_alternative_goes_and_the_other_stays(write_golden, runs):
    file = write_golden(
        [
            {
                "id": "q1",
                "query": "?",
                "expected_doc_ids": [["d1", "dx"], {"any": ["d2"], "grade": 2}],
            }
        ]
    )
    session = LabelSession(file, runs, level="doc")
    session.unmark(1)
    assert row(file, "q1")["expected_doc_ids"] == ["dx", {"any": ["d2"], "grade": 2}]


def test_paraphrases_get_the_same_documents_in_one_click(write_golden, runs):
    file = write_golden(
        [
            {"id": "q1", "query": "?", "group": "g"},
            {"id": "q2", "query": "??", "group": "g"},
            {"id": "q9", "query": "???"},
        ]
    )
    before, session = file.read_text(), LabelSession(file, runs, level="doc")
    session.toggle(1)
    assert [one.get("expected_doc_ids") for one in yaml.safe_load(file.read_text())] == [
        ["d1"],
        ["d1"],
        None,
    ]
    assert len(labelled(file).targets) == 2
    session.undo()
    assert file.read_text() == before


def test_a_removed_support_leaves_its_groups_and_the_others_move_up(write_golden, runs):
    supports = [
        {"path": "docs/d1.md", "snippets": ["by a key"]},
        {"path": "docs/d2.md"},
        {"path": "docs/z.md"},
    ]
    file = write_golden(
        [
            {
                "id": "q1",
                "query": "?",
                "gold_supports": supports,
                "required_support_groups": [[0, 2], [1], [0]],
            }
        ]
    )
    LabelSession(file, runs).unmark(1)
    assert row(file, "q1")["gold_supports"] == supports[1:] and row(file, "q1")[
        "required_support_groups"
    ] == [[1], [0]]


def test_no_answer_is_said_as_false_and_labels_say_the_opposite(session, golden_file):
    session.refuse()
    assert row(golden_file, "q1")["answerable"] is False and session.state == "should refuse"
    session.toggle(1)  # a passage that answers it
    assert "answerable" not in row(golden_file, "q1") and session.state == "labelled"
    with refused(1, field="answerable"):
        session.refuse()
    session.unmark(1)
    session.refuse()
    session.refuse(False)
    assert golden_file.read_text() == GOLDEN


def test_a_snippet_must_stand_in_the_text(session, golden_file):
    with refused(field="snippet"):
        session.add_snippet(1, "It joins...")
    session.add_snippet(1, " USE merge. ")
    session.add_snippet(1, "two tables")
    assert row(golden_file, "q1")["gold_supports"][0]["snippets"] == ["USE merge.", "two tables"]
    assert session.hits["grade"].tolist() == [
        1,
        1,
        pd.NA,
    ], "“two tables” stands in the second hit, too, and scoring sees it so"


def test_undo_gives_every_byte_back_click_by_click(session, golden_file):
    states = [golden_file.read_text()]
    for click in (
        lambda: session.toggle(1),
        lambda: session.mark(2, 3),
        lambda: session.add_snippet(2, "their index"),
        lambda: session.unmark(1),
        lambda: session.add_question("new?"),
    ):
        click()
        states.append(golden_file.read_text())
    assert len(set(states)) == 6
    for state in reversed(states[:-1]):
        session.undo()
        assert golden_file.read_text() == state
    with refused(field="undo"):
        session.undo()


def test_what_others_write_elsewhere_survives(session, golden_file):
    golden_file.write_text(
        golden_file.read_text().replace("difficulty: hard", "difficulty: easy  # they said so")
        + "- {id: q7, query: theirs}\n"
    )
    session.toggle(1)
    text = golden_file.read_text()
    assert (
        "difficulty: easy  # they said so" in text
        and "theirs" in text
        and row(golden_file, "q1")["gold_supports"]
    )
    assert session.progress == (1, 3)
    session.undo()
    assert (
        "difficulty: easy  # they said so" in golden_file.read_text()
        and "gold_supports" not in golden_file.read_text()
    )


def test_the_same_row_changed_by_someone_else_is_shown_and_not_written_over(session, golden_file):
    theirs = golden_file.read_text().replace("how do I merge?", "how do I merge two tables?")
    golden_file.write_text(theirs)
    with refused("q1", "query", error=LabelConflict) as caught:
        session.toggle(1)
    assert golden_file.read_text() == theirs
    assert caught.value.changed.values.tolist() == [
        ["query", "how do I merge?", "how do I merge two tables?"]
    ]
    assert session.query == "how do I merge two tables?"
    session.toggle(1)  # seen, and meant
    assert (
        row(golden_file, "q1")["query"] == "how do I merge two tables?"
        and row(golden_file, "q1")["gold_supports"]
    )


def test_a_row_that_someone_took_out_is_a_conflict_and_undo_never_writes_over_others(
    session, golden_file
):
    session.toggle(1)
    golden_file.write_text(golden_file.read_text().replace("by a key", "by a key or two"))
    with refused("q1", file="golden.yaml"):
        session.undo()
    golden_file.write_text("- {id: q2, query: left alone}\n")
    with refused("q1", error=LabelConflict):
        session.toggle(2)
    assert golden_file.read_text() == "- {id: q2, query: left alone}\n"


def test_the_file_as_it_was_is_kept_once_per_sitting(session, golden_file, runs):
    session.toggle(1)
    session.toggle(2)
    first = golden_file.read_text()
    other = LabelSession(golden_file, runs)
    other.go("q2")
    other.refuse()
    kept = sorted(file.name for file in golden_file.parent.glob("golden.yaml.*"))
    assert kept == ["golden.yaml.bak", "golden.yaml.bak2"]
    assert (
        golden_file.with_name("golden.yaml.bak").read_text() == GOLDEN
        and golden_file.with_name("golden.yaml.bak2").read_text() == first
    )


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(
    session, golden_file, monkeypatch
):
    monkeypatch.setattr("os.fsync", lambda descriptor: (_ for _ in ()).throw(OSError("disk full")))
    with refused(file="golden.yaml.bak"):
        session.toggle(1)
    assert golden_file.read_text() == GOLDEN and not list(golden_file.parent.glob(".golden*"))


@pytest.mark.slow
def test_two_processes_lose_no_click(golden_file, write_golden, runs, tmp_path):
    file = write_golden([{"id": f"q{n}", "query": "?"} for n in range(20)], "many.yaml")
    code = (
        "import sys; from ragscore.golden.labelling.golden_text import GoldenFile\n"
        "file = GoldenFile(sys.argv[1])\n"
        "for n in range(int(sys.argv[2]), 20, 2):\n"
        "    with file.alone():\n"
        "        file.write(file.read().edited(f'q{n}', {'answerable': False}))\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, str(file), str(n)]) for n in (0, 1)]
    assert [one.wait(timeout=300) for one in started] == [0, 0]
    assert all(one["answerable"] is False for one in yaml.safe_load(file.read_text()))


def test_questions_are_stepped_through_by_filter(session):
    assert session.questions[["query_id", "state", "n_hits"]].values.tolist() == [
        ["q1", "unlabelled", 3],
        ["q2", "unlabelled", 1],
        ["q3", "not in the file", 1],
    ]
    session.toggle(1)
    session.show("unlabelled")
    assert session.query_id == "q2" and session.stops() == ["q2"]
    session.refuse()
    session.next()
    assert session.query_id == "q2"
    session.show("all")
    session.next()
    assert session.query_id == "q3"


def test_near_misses_are_high_hits_without_a_label_in_labelled_questions(session):
    assert not len(session.near_misses())
    session.toggle(1)
    assert session.near_misses()[["query_id", "number", "best_rank"]].values.tolist() == [
        ["q1", 2, 1],
        ["q1", 3, 3],
    ]
    session.show("near misses")
    assert session.hits["number"].tolist() == [2, 3, 1]
    session.mark(2, 0)
    assert session.near_misses()["number"].tolist() == [3] and session.hits["number"].tolist() == [
        2,
        3,
        1,
    ], "a click moves no row"


def test_a_question_of_the_runs_joins_the_file_with_its_first_label(session, golden_file):
    session.go("q3")
    session.toggle(1)
    assert (
        row(golden_file, "q3")["query"] == "question q3"
        and row(golden_file, "q3")["gold_supports"][0]["path"] == "docs/d1.md"
    )
    session.undo()
    assert golden_file.read_text() == GOLDEN and session.state == "not in the file"


def test_a_question_made_from_another_takes_its_description_and_its_hits_but_no_labels(
    session, golden_file
):
    session.go("q2")
    session.refuse()
    name = session.add_question("who wrote the guide?")
    assert name == "q2-2" and row(golden_file, name) == {
        "id": "q2-2",
        "query": "who wrote the guide?",
        "difficulty": "hard",
    }
    assert session.query_id == name and session.hits["text"].tolist() == ["By us."]
    session.toggle(1)
    assert (
        row(golden_file, name)["gold_supports"][0]["snippets"] == ["By us."]
        and row(golden_file, "q2")["answerable"] is False
    )


def test_a_chatbots_cases_are_labelled_in_their_own_words(tmp_path, runs):
    case = {
        "id": "q1",
        "question": "how?",
        "answerable": False,
        "expected_key_facts": [],
        "gold_supports": [],
        "tags": [],
        "own": 1.50,
    }
    other = '{"id": "q2", "question": "who?",   "answerable": true, "gold_supports": []}'
    file = tmp_path / "eval_set.jsonl"
    file.write_text(json.dumps(case) + "\n" + other + "\n")
    session = LabelSession(file, runs)
    assert session.state == "should refuse"
    session.toggle(1)
    support = {
        "rel_path": "docs/d1.md",
        "heading_path": "Guide > Merging",
        "snippets": ["It joins two tables by a key."],
    }
    lines = file.read_text().splitlines()
    assert (
        json.loads(lines[0]) == case | {"answerable": True, "gold_supports": [support]}
        and lines[1] == other
    )
    assert rs.load_golden(file).targets["heading"].tolist() == ["Guide > Merging"]
    session.unmark(1)
    session.refuse()
    assert json.loads(file.read_text().splitlines()[0]) == case
    new = session.add_question("why?")
    assert rs.load_golden(file).queries["query_id"].tolist() == ["q1", "q2", new]


def test_texts_come_from_a_table_where_hits_kept_none(golden_file, write_run):
    results = rs.load_results(
        write_run(
            "bare", [record("q1", [passage("c1", "d1", 1, None), passage("c2", "d1", 2, None)])]
        )
    )
    session = LabelSession(
        golden_file, results, texts=pd.DataFrame({"chunk_id": ["c1"], "text": [MERGE]})
    )
    assert session.hits["text"].fillna("").tolist() == [MERGE, ""]
    session.toggle(2)  # without words, the label is the whole section
    assert row(golden_file, "q1")["gold_supports"] == [
        {"path": "docs/d1.md", "heading": "Guide > Merging"}
    ]
    assert session.hits["grade"].tolist() == [1, 1]


def test_refused_arguments_are_named(golden_file, runs):
    with refused("span", field="level"):
        LabelSession(golden_file, runs, level="span")
    bare = replace(runs, hits=runs.hits.drop(columns="path"))
    with refused(field="hits.path"):
        LabelSession(golden_file, bare)
    with refused(9, 1, 3, field="number"):
        LabelSession(golden_file, runs).mark(9)


@pytest.mark.parametrize(
    ("text", "others", "snippet"),
    [
        ("One two three four. Five six seven.", [], "One two three four."),
        ("One two three four. Five six seven.", ["so: one TWO three four."], "Five six seven."),
        ("Title\nA line that says more", [], "A line that says more"),
        ("a " * 80, [], ("a " * 50).strip()),
        ("The text was cut here...", [], "The text was cut here"),
        ("numpy.rint: Round to the nearest.", [], "Round to the nearest."),
        ("ok", [], "ok"),
        (" \n--\n", [], None),
    ],
)
def test_a_snippet_is_a_sentence_that_only_this_text_holds_and_has_no_ellipsis(
    text, others, snippet
):
    assert snippet_of(text, others) == snippet
    assert snippet is None or snippet in text
