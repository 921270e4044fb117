"""A chatbot's answers: citations in their text, recency, folders, key facts; and turns of talks."""

import pandas as pd
import pytest
from plausible_runs import put

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
    return lambda cases, rows: (
        rs.load_results(put(tmp_path, rows, "run/results.jsonl")),
        rs.load_golden(put(tmp_path, cases, "eval_set.jsonl")),
    )


@pytest.fixture
def values(load):
    """Return one metric of answers, each to a question of its own; missing is -1."""

    def of(metric, golden, answered):
        ids = [f"q{n}" for n in range(len(golden))]
        cases = [one | {"id": name} for name, one in zip(ids, golden, strict=True)]
        rows = [one | {"test_case_id": name} for name, one in zip(ids, answered, strict=True)]
        return rs.score(*load(cases, rows), [metric])[metric].fillna(-1).tolist()

    return of


CITED = [
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
    (None, []),
]


def test_citations_are_read_out_of_an_answers_text_under_its_own_label():
    answers = pd.Series({f"a{n}": text for n, (text, _) in enumerate(CITED)}, dtype="str")
    expected = [
        [f"a{n}", position, *one]
        for n, (_, cited) in enumerate(CITED)
        for position, one in enumerate(cited, 1)
    ]
    assert rs.match.parse_citations(answers).to_numpy().tolist() == expected


BOTH = [{"rel_path": "new.md", "heading_path": "N"}, {"rel_path": "old.md", "heading_path": "O"}]
DATED = [BOTH[0] | {"date": "2025-03-01"}, BOTH[1] | {"date": "2024-03-01T10:00:00Z"}]
REFUSE = case(supports=[], answerable=False)
CUT = {
    "chunk_id": "c",
    "rel_path": "a.md",
    "heading_path": "O",
    "rank": 1,
    "text": "x" * 200 + "...",
}
FACTS = case(expected_key_facts=["Hold the button!", "ten  seconds", "art"])


def conflict(rule, supports, *cited):
    """A question about supports that contradict each other, and an answer that cites these."""
    headings = {"new.md": "N", "old.md": "O"}
    references = [{"rel_path": path, "heading_path": headings[path]} for path in cited]
    return case(supports=supports, recency_conflict_rule=rule), row(references=references)


def scoped(scope, *folders):
    """A question about these folders, and an answer from a scope."""
    supports = [{"rel_path": "docs/a.md", "heading_path": ""}]
    return case(supports=supports, folders=list(folders)), row(scope=scope)


# metric -> question, answer, value; -1: none
VALUES = {
    # which of two supports that contradict each other must be cited
    "recency_ok": [
        (*conflict("cite_newer", BOTH, "old.md"), 1),  # without dates the later one is the newer
        (*conflict("cite_newer", BOTH, "new.md"), 0),
        (*conflict("cite_newer", DATED, "new.md"), 1),
        (*conflict("cite_newer", DATED, "old.md"), 0),
        (*conflict("cite_newer", [DATED[0], BOTH[1]], "old.md"), 1),  # one date: the order decides
        (*conflict("cite_newer", DATED, "new.md", "old.md"), 1),
        (*conflict("cite_both", BOTH, "new.md"), 0),
        (*conflict("cite_both", BOTH, "new.md", "old.md"), 1),
        (*conflict("acknowledge_both", BOTH, "old.md", "new.md"), 1),
        (*conflict("acknowledge_both", BOTH), 0),
        (*conflict(None, BOTH, "new.md"), -1),
    ],
    # references attribute, or else what the text cites
    "attribution_hit": [
        (case(), row(answer="so it is [File: a.md, Section: O > P]"), 1),
        (case(), row(answer="so it is [File: a.md, Section: Other]"), 0),
        (case(), row(answer="so it is"), 0),
        # whatever the snippets say
        (case(), row(references=[{"rel_path": "a.md", "heading_path": "# O > ## P"}]), 1),
        (REFUSE, row(answer="[File: a.md, Section: O]"), -1),  # upstream calls it false
        (case(), row(answer=None), -1),
    ],
    # an error may say in other words that time ran out
    "timeout": [
        (case(), row(error="Request timed out"), 1),
        (case(), row(error="ReadTimeoutError: pool"), 1),
        (case(), row(error="Deadline Exceeded"), 1),
        (case(), row(error="connection refused"), 0),
        (case(), row(error=None), 0),
    ],
    # a blank answer is empty, or a refusal where the system doesn't say
    "empty_response": [
        (case(), row(answer=" "), 1),
        (case(), row(answer="", abstention={"abstained": True}), 0),
        (case(), row(answer="text"), 0),
        (case(), row(error="timed out"), -1),
    ],
    "refusal_correct": [
        (REFUSE, row(answer=""), 1),
        (REFUSE, row(answer="", abstention={"abstained": False}), 0),
    ],
    # a choice of folders apart from the gold ones
    "scope_miss": [
        (*scoped({"folders": ["work"]}, "work"), 0),
        (*scoped({"folders": ["work"]}, "work/notes"), 0),
        (*scoped({"folders": ["work/notes/deep"]}, "work/notes"), 0),
        (*scoped({"folders": ["works"]}, "work"), 1),
        (*scoped({"folders": ["home", "work/"]}, "work"), 0),
        (*scoped(["home"], "work"), 1),
        (*scoped({"folders": []}, "work"), 0),  # no folder means all
        (*scoped({"folders": ["home"], "fallback": True}, "work"), 0),
        (*scoped(None, "work"), -1),
        (*scoped({"folders": ["docs"]}), 0),  # no gold folders: where the supports are
        (*scoped({"folders": ["docs/deep"]}), 1),
        (REFUSE | {"folders": ["work"]}, row(scope={"folders": ["home"]}), -1),
    ],
    # found literally, whatever case, space and punctuation
    "key_facts_literal": [
        (FACTS, row(answer="First, hold... the BUTTON for ten\nseconds. Then start."), 2 / 3),
        (case(), row(), -1),
        (FACTS, row(answer=None), -1),
    ],
    # no hit meets a support; upstream counts questions to refuse as false
    "scope_miss_proxy": [
        (case(), row(chunks=[("x.md", "X")]), 1),
        (case(), row(chunks=[("x.md", "X"), ("a.md", "O")]), 0),
        (REFUSE, row(), -1),
        (case(), row(retrieved_chunks=[CUT]), 0),
    ],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*hits have cut text")
@pytest.mark.parametrize("metric", VALUES)
def test_values_of_answers_case_by_case(values, metric):
    golden, answered, expected = zip(*VALUES[metric], strict=True)
    assert values(metric, golden, answered) == pytest.approx([*expected])


@pytest.mark.parametrize(("mode", "misses"), [("on_with_fallback", 1), ("off", -1)])
def test_a_scope_is_missed_in_a_mode_with_folders_alone(values, mode, misses):
    assert values("scope_miss_proxy", [case()], [row(mode=mode)]) == [misses]


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


# Conversation and turn on both sides tell queries apart, join them, and label them

# three conversations that begin alike; the right document is d and the place
ASKED = [("s1", 1, "Why?"), ("s1", 2, "And then?"), ("s2", 1, "Why?"), ("s3", 1, "How?")]


def rows(field, drop=(), **names):
    """Return a record per place of ASKED, with the document of each in `field`."""
    names = {"conversation": "session_id", "turn": "turn"} | names
    found = [
        {names["conversation"]: talk, names["turn"]: turn, "query": text, field: [f"d{talk}{turn}"]}
        for talk, turn, text in ASKED
    ]
    return [{name: value for name, value in row.items() if name not in drop} for row in found]


@pytest.mark.parametrize("make", [lambda one, _: one, lambda one, _: pd.DataFrame(one), put])
def test_one_text_in_two_conversations_is_two_queries_on_both_sides(make, tmp_path):
    source = rows("retrieved")
    results = rs.load_results(make(source, tmp_path) if make is not put else put(tmp_path, source))
    assert len(results.runs) == 1
    responses = results.responses[["query_id", "conversation", "turn"]]
    assert responses.iloc[::2].to_numpy().tolist() == [["s1/1", "s1", "1"], ["s2/1", "s2", "1"]]
    assert responses.iloc[1::2, 1:].to_numpy().tolist() == [["s1", "2"], ["s3", "1"]]
    golden = rs.load_golden(rows("relevant", turn="turn_number"))
    queries = golden.queries[["query_id", "conversation", "turn"]]
    assert queries.to_numpy().tolist() == responses.to_numpy().tolist()
    assert rs.evaluate(results, golden).summary("hit@1")["mean"].tolist() == [1]


def test_rows_per_hit_are_told_apart_by_conversation_and_turn():
    hits = pd.DataFrame([
        {"session_id": talk, "turn": float(turn), "query": text, "doc_id": doc, "score": score}
        for talk, turn, text in ASKED for doc, score in (("x", 1.0), (f"d{talk}{turn}", 2.0))
    ])  # fmt: skip
    ev = rs.evaluate(hits, rows("relevant"))
    assert ev.results.responses["turn"].tolist() == ["1", "2", "1", "1"]
    assert ev.summary("hit@1")[["n", "mean"]].to_numpy().tolist() == [[4, 1]]


@pytest.mark.parametrize("drop", [(), ("query",)])
def test_places_join_golden_queries_with_ids_of_their_own(drop):
    golden = rs.load_golden(
        [row | {"id": f"g{n}", "query": "asked otherwise"} for n, row in
         enumerate(rows("expected_doc_ids", conversation="conversation"))]
    )  # fmt: skip
    ev = rs.evaluate(rs.load_results(rows("retrieved", drop)), golden)
    assert ev.scores["state"].tolist() == ["scored"] * 4
    assert ev.results.hits["query_id"].tolist() == ["g0", "g1", "g2", "g3"]
    assert ev.summary("hit@1")["mean"].tolist() == [1]


def test_a_text_at_another_place_of_the_golden_conversations_is_no_golden_query():
    golden = rs.load_golden(rows("relevant")[:2])  # Why? is s1/1 only
    late = [{"session_id": "s1", "turn": 9, "query": "Why?", "retrieved": ["ds11"]}]
    late += [rows("retrieved")[1]]
    scores = rs.evaluate(rs.load_results(late), golden, missing="zero").scores
    assert scores["state"].astype("str").to_dict() == {
        golden.queries["query_id"][0]: "missing", golden.queries["query_id"][1]: "scored",
        "s1/9": "extra",
    }  # fmt: skip


def test_sessions_that_only_the_results_name_cluster_the_queries_and_unknown_stay_unknown():
    golden = {one: {"d": 1} for one in "abcde"}
    answered = [
        {"query_id": one, "session_id": talk, "turn": turn, "retrieved": ["d"]}
        for one, talk, turn in (("a", "s", 1), ("b", "s", 2), ("c", "t", 1), ("d", None, None))
    ]
    found = rs.evaluate(rs.load_results(answered), golden, missing="zero").golden.queries
    assert found["conversation"].fillna("-").tolist() == ["s", "s", "t", "-", "-"]
    assert found["turn"].fillna("-").tolist() == ["1", "2", "1", "-", "-"]
    assert found["conversation"].isna().sum() == found["turn"].isna().sum() == 2
    alone = rs.evaluate(rs.load_results(answered[1:]), golden, missing="zero").golden.queries
    assert "conversation" not in alone, "no two queries share one"


def test_the_golden_sets_conversations_count_and_only_queries_without_one_get_that_of_a_run():
    golden = [
        {"id": one, "query": f"{one}?", "expected_doc_ids": ["d"], "conversation": talk}
        for one, talk in (("a", "x"), ("b", "x"), ("c", None))
    ]
    answered = [
        {"query_id": one, "session_id": "x", "turn": n, "retrieved": ["d"]}
        for n, one in enumerate("abc", 1)
    ]
    found = rs.evaluate(rs.load_results(answered), golden).golden.queries
    assert found["conversation"].tolist() == ["x", "x", "x"]
    assert found["turn"].tolist() == ["1", "2", "3"]


def test_two_responses_of_one_place_are_joined_by_their_ids_alone():
    golden = rs.load_golden([row | {"id": f"g{n}"} for n, row in enumerate(rows("relevant"))])
    twice = [
        {"query_id": one, "session_id": "s1", "turn": 2, "retrieved": ["ds12"]} for one in "pq"
    ]
    # and so is one that has a golden id, whatever its place
    found = [rows("retrieved")[place] for place in (2, 1, 0, 3)]
    twice += [row | {"query_id": f"g{n}"} for n, row in enumerate(found)]
    scores = rs.evaluate(rs.load_results(twice), golden).scores
    assert scores["hit@1"].fillna(-1).tolist() == [0, 1, 0, 1, -1, -1]
