"""A chatbot's answers.

Citations in their text, attribution, recency, folders, key facts, time-outs.
"""

import json

import numpy as np
import pandas as pd
import pytest

import ragscore as rs

SUPPORT = {"rel_path": "a.md", "heading_path": "# O", "snippets": ["foo"]}


def case(query_id="q", supports=(SUPPORT,), **more):
    return {
        "id": query_id,
        "question": "?",
        "answerable": True,
        "gold_supports": list(supports),
        "expected_key_facts": [],
    } | more


def row(query_id="q", answer="text", chunks=(), mode="on", **more):
    retrieved = [
        {"chunk_id": f"c{n}", "rel_path": path, "heading_path": heading, "rank": n, "text": "foo"}
        for n, (path, heading) in enumerate(chunks, 1)
    ]
    return {
        "test_case_id": query_id,
        "question": "?",
        "answer": answer,
        "references": [],
        "retrieved_chunks": retrieved,
        "config": {"k": 5, "folder_mode": mode},
    } | more


@pytest.fixture
def load(tmp_path):
    def write(name, rows):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
        return file

    return lambda cases, rows: (
        rs.load_results(write("run/results.jsonl", rows)),
        rs.load_golden(write("eval_set.jsonl", cases)),
    )


@pytest.fixture
def value(load):
    """One metric of one answer."""

    def of(metric, golden, answered, **more):
        return float(rs.score(*load([golden], [answered]), [metric], **more)[metric].iloc[0])

    return of


def pairs_of(*answers):
    found = rs.match.parse_citations(pd.Series(answers, dtype="str"))
    return list(zip(found["path"], found["heading"], strict=True))


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("See [File: a/b.md, Section: Intro].", [("a/b.md", "Intro")]),
        ("as said (File: c.md, Section: T) there", [("c.md", "T")]),
        ("It is so. File: d.md, Section: U.", [("d.md", "U")]),
        ("File: d.md, Section: U. And then more.", [("d.md", "U")]),
        ('[File: "a b.md", Section: "My Intro"]', [("a b.md", "My Intro")]),
        ('File: "a.md", Section: "Intro".', [("a.md", "Intro")]),
        ("[notes.md, Section: Use (old) ones]", [("notes.md", "Use (old) ones")]),
        ("[file: a.md, SECTION: O > P]", [("a.md", "O > P")]),
        ("[File: a, b.md, Section: X]", []),
        ("no citation, Section: none", []),
        ("", []),
        ("[File: a.md, Section: X] and again (File: a.md, Section: X)", [("a.md", "X")]),
        (
            (
                "Body (File: z.md, Section: Z).\n\nCitations:\n- [File: a.md, Section: A]\n- File:"
                " b.md, Section: B"
            ),
            [("a.md", "A"), ("b.md", "B"), ("z.md", "Z")],
        ),
    ],
)
def test_citations_are_read_out_of_an_answers_text(answer, cited):
    assert pairs_of(answer) == cited


def test_parsed_citations_are_numbered_for_each_answer_under_its_own_label():
    answers = pd.Series(
        ["[File: a.md, Section: A] [File: b.md, Section: B]", None, "(File: c.md, Section: C)"],
        index=["x", "y", "z"],
        dtype="str",
    )
    found = rs.match.parse_citations(answers)
    assert found.to_numpy().tolist() == [
        ["x", 1, "a.md", "A"],
        ["x", 2, "b.md", "B"],
        ["z", 1, "c.md", "C"],
    ]


BOTH = [{"rel_path": "new.md", "heading_path": "N"}, {"rel_path": "old.md", "heading_path": "O"}]
DATED = [BOTH[0] | {"date": "2025-03-01"}, BOTH[1] | {"date": "2024-03-01T10:00:00Z"}]


@pytest.mark.parametrize(
    ("rule", "supports", "cited", "ok"),
    [
        ("cite_newer", BOTH, ["old.md"], 1),  # without dates the later support is the newer one
        ("cite_newer", BOTH, ["new.md"], 0),
        ("cite_newer", DATED, ["new.md"], 1),
        ("cite_newer", DATED, ["old.md"], 0),
        ("cite_newer", [DATED[0], BOTH[1]], ["old.md"], 1),  # one without a date: the order decides
        ("cite_newer", DATED, ["new.md", "old.md"], 1),
        ("cite_both", BOTH, ["new.md"], 0),
        ("cite_both", BOTH, ["new.md", "old.md"], 1),
        ("acknowledge_both", BOTH, ["old.md", "new.md"], 1),
        ("acknowledge_both", BOTH, [], 0),
        (None, BOTH, ["new.md"], np.nan),
    ],
)
def test_a_recency_rule_says_which_supports_must_be_cited(value, rule, supports, cited, ok):
    headings = {"new.md": "N", "old.md": "O"}
    references = [{"rel_path": path, "heading_path": headings[path]} for path in cited]
    assert value(
        "recency_ok",
        case(supports=supports, recency_conflict_rule=rule),
        row(references=references),
    ) == pytest.approx(ok, nan_ok=True)


REFUSE = case(supports=[], answerable=False)
CUT = {
    "chunk_id": "c",
    "rel_path": "a.md",
    "heading_path": "O",
    "rank": 1,
    "text": "x" * 200 + "...",
}


@pytest.mark.parametrize(
    ("golden", "answered", "attributes"),
    [
        (case(), row(answer="so it is [File: a.md, Section: O > P]"), 1),
        (case(), row(answer="so it is [File: a.md, Section: Other]"), 0),
        (case(), row(answer="so it is"), 0),
        # whatever the snippets say
        (case(), row(references=[{"rel_path": "a.md", "heading_path": "# O > ## P"}]), 1),
        (REFUSE, row(answer="[File: a.md, Section: O]"), np.nan),  # upstream calls it false
        (case(), row(answer=None), np.nan),
    ],
)
def test_an_answer_attributes_by_its_references_or_by_what_its_text_cites(
    value, golden, answered, attributes
):
    found = value("attribution_hit", golden, answered)
    assert found == pytest.approx(attributes, nan_ok=True)


@pytest.mark.parametrize(
    ("golden", "answered", "misses"),
    [
        (case(), row(chunks=[("x.md", "X")]), 1),
        (case(), row(mode="on_with_fallback"), 1),
        (case(), row(chunks=[("x.md", "X"), ("a.md", "O")]), 0),
        # upstream counts these as false
        (case(), row(mode="off"), np.nan),
        (REFUSE, row(), np.nan),
        (case(), row(retrieved_chunks=[CUT]), 0),
    ],
)
@pytest.mark.filterwarnings("ignore:.*hits have cut text")
def test_the_proxy_of_a_scope_miss_is_that_no_hit_meets_a_support(value, golden, answered, misses):
    found = value("scope_miss_proxy", golden, answered)
    assert found == pytest.approx(misses, nan_ok=True)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("Request timed out", 1), ("ReadTimeoutError: pool", 1), ("Deadline Exceeded", 1),
        ("connection refused", 0), (None, 0),
    ],
)  # fmt: skip
def test_an_error_may_say_that_time_ran_out_in_other_words_than_timeout(value, error, expected):
    assert value("timeout", case(), row(error=error)) == expected


@pytest.mark.parametrize(
    ("metric", "golden", "answered", "expected"),
    [
        ("empty_response", case(), row(answer=" "), 1),
        ("empty_response", case(), row(answer="", abstention={"abstained": True}), 0),
        ("empty_response", case(), row(answer="text"), 0),
        ("empty_response", case(), row(error="timed out"), np.nan),
        # refused where the system does not say
        ("refusal_correct", REFUSE, row(answer=""), 1),
        ("refusal_correct", REFUSE, row(answer="", abstention={"abstained": False}), 0),
    ],
)
def test_a_blank_answer_is_empty_or_a_refusal(value, metric, golden, answered, expected):
    assert value(metric, golden, answered) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("scope", "folders", "miss"),
    [
        ({"folders": ["work"]}, ["work"], 0),
        ({"folders": ["work"]}, ["work/notes"], 0),
        ({"folders": ["work/notes/deep"]}, ["work/notes"], 0),
        ({"folders": ["works"]}, ["work"], 1),
        ({"folders": ["home", "work/"]}, ["work"], 0),
        (["home"], ["work"], 1),
        ({"folders": []}, ["work"], 0),  # no folder means all
        ({"folders": ["home"], "fallback": True}, ["work"], 0),
        (None, ["work"], np.nan),
        ({"folders": ["docs"]}, [], 0),  # no gold folders: where the supports are
        ({"folders": ["docs/deep"]}, [], 1),
    ],
)
def test_a_scope_miss_is_a_choice_of_folders_apart_from_the_gold_ones(value, scope, folders, miss):
    golden = case(supports=[{"rel_path": "docs/a.md", "heading_path": ""}], folders=folders)
    assert value("scope_miss", golden, row(scope=scope)) == pytest.approx(miss, nan_ok=True)


def test_key_facts_are_found_literally_whatever_case_space_and_punctuation(value):
    facts = ["Hold the button!", "ten  seconds", "art"]
    golden = case(expected_key_facts=facts)
    assert value(
        "key_facts_literal",
        golden,
        row(answer="First, hold... the BUTTON for ten\nseconds. Then start."),
    ) == pytest.approx(2 / 3)
    assert np.isnan(value("key_facts_literal", case(), row()))
    assert np.isnan(value("key_facts_literal", golden, row(answer=None)))


@pytest.mark.parametrize(
    ("by", "means"),
    [
        ("folders", [["(none)", -1], ["home", 0.5], ["work", 1]]),
        ("vaults", [["(none)", -1], ["v1", 1], ["v2", 0]]),
    ],
)
def test_folders_and_vaults_are_slices(load, by, means):
    pdf = {"rel_path": "b.pdf", "heading_path": ""}
    cases = [
        case("q", folders=["work", "home"], vaults=["v1"], supports=[SUPPORT, pdf]),
        case("r", folders=["home"], vaults=["v2"], supports=[pdf]),
        case("s", supports=[], answerable=False),
    ]
    rows = [row("q", chunks=[("a.md", "O")]), row("r"), row("s")]
    found = rs.evaluate(*load(cases, rows), "hit@5").summary(by=by)
    assert found[[by, "mean"]].fillna(-1).to_numpy().tolist() == means
