"""Answer-level scores: checks, citations, refusals, what a failed query still counts in."""

from dataclasses import replace

import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.frames.errors import unsaid
from tests.messages import refused, warned


@pytest.fixture
def scored(loaded):
    """Scores of one run, by query."""

    def score(rows, records, metrics=None, **how):
        return rs.score(*loaded(rows, {"r": records}, k=10), metrics, **how)

    return score


@pytest.fixture
def each(loaded):
    """Values of pairs of a query and what the run gave for it; None for no value."""

    def score(pairs, labels, judgments=None, **how):
        rows = [query | {"id": f"q{n}"} for n, (query, _) in enumerate(pairs)]
        records = [given | {"query_id": f"q{n}"} for n, (_, given) in enumerate(pairs)]
        results, golden = loaded(rows, {"r": records}, k=10)
        found = rs.score(replace(results, judgments=judgments), golden, labels, **how)[labels]
        return found.astype(object).where(found.notna(), None).to_numpy().tolist()

    return score


GOLD = [{"id": "q", "query": "?", "expected_doc_ids": ["d"]}]
HITS = [hit("c1", "d", 1), hit("c2", "e", 2)]  # lines 1 to 4 of docs/d.md and docs/e.md


def citing(*citations):
    return {"answer": "text", "grounded": True, "citations": list(citations)}


def line(path, start, end):
    return {"citation": {"kind": "line", "path": path, "start": start, "end": end}}


RESOLVED = [
    # citations -> coverage, its weak form, and if there are any
    ([], (0, 0, 0)),
    ([line("docs/d.md", 1, 4)], (1, 1, 1)),
    ([line("docs/d.md", 2, 3), line("docs/e.md", 4, 4)], (1, 1, 1)),
    ([line("docs/d.md", 3, 5)], (0, 1, 1)),  # a right path with a wrong line
    ([line("docs/d.md", 2, 3), line("docs/z.md", 2, 3)], (0, 1, 1)),  # each one must resolve
    ([{"citation": {"kind": "page", "path": "docs/d.md", "page": 2}}], (0, 1, 1)),  # another unit
    # has no span by its kind
    ([{"citation": {"kind": "caption", "path": "docs/d.md", "model": "m"}}], (1, 1, 1)),
    ([{"chunk_id": "c2"}], (1, 0, 1)),
    # the chunk id decides where there is one
    ([{"chunk_id": "zz", **line("docs/d.md", 1, 4)}], (0, 1, 1)),
]


def test_citations_must_resolve_to_what_the_query_had(each):
    labels = ["citation_coverage", "citation_coverage_weak", "citation_present"]
    found = each([(GOLD[0], record("q", HITS, answer=citing(*one))) for one, _ in RESOLVED], labels)
    assert found == [[*expected] for _, expected in RESOLVED]


def test_a_run_records_citations_where_its_rows_have_the_field_if_only_empty(scored, write_run):
    rows, labels = [*GOLD, GOLD[0] | {"id": "p"}], ["citation_present", "citation_recall"]
    empty, silent = (
        [record(one, HITS, answer=given) for one in ("q", "p")]
        for given in (citing(), {"answer": "text"})
    )
    assert scored(rows, empty, labels)[labels].to_numpy().tolist() == [[0, 0], [0, 0]]
    assert scored(rows, silent, labels)[labels].isna().all(axis=None)
    one = rs.load_results(write_run("e", [{**empty[0], "answer": {"citations": []}}, silent[1]]))
    assert one.responses["n_citations"].tolist() == [0, pd.NA]


def test_a_citation_of_another_querys_hit_does_not_resolve(each):
    pairs = [
        (GOLD[0], record("q", HITS[1:], answer=citing(line("docs/d.md", 1, 4)))),
        (GOLD[0], record("p", HITS, answer=citing({"chunk_id": "c1"}))),
    ]
    assert each(pairs, ["citation_coverage"]) == [[0], [1]]


@pytest.mark.parametrize("given", [None, answer("no", grounded=False)])
def test_citation_coverage_counts_grounded_answers_only(scored, given):
    labels = ["citation_coverage", "citation_present"]
    assert scored(GOLD, [record("q", HITS, answer=given)], labels)[labels].isna().all(axis=None)


@pytest.mark.filterwarnings("ignore:.*unlabelled")
def test_the_four_ways_of_refusal(each):
    asked = [{"query": "?", "answerable": False}, GOLD[0], {"query": "?"}]
    said = [answer("no", grounded=False), answer("so"), None]
    pairs = [(query, record("q", [], answer=one)) for one in said for query in asked]
    none = [None] * 3
    # refusal_correct, answered_unanswerable, false_refusal: where one is due, is wrong, is unknown
    assert each(pairs, ["refusal_correct", "answered_unanswerable", "false_refusal"]) == [
        [1, 0, None], [None, None, 1], none,  # refused
        [0, 1, None], [None, None, 0], none,  # answered
        none, none, none,  # no answer
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*to be refused with expected ids")
def test_a_should_refuse_query_is_not_judged_by_retrieval(each):
    pair = GOLD[0] | {"answerable": False}, record("q", HITS, answer=answer("no", grounded=False))
    labels = ["hit@1", "mrr", "refusal_correct", "passed"]
    assert each([pair], labels) == [[None, None, 1, 1]]


def test_a_failed_query_is_scored_on_the_hits_it_has(scored):
    rows = [
        GOLD[0] | {"id": "a", "must_contain": ["x"]}, GOLD[0] | {"id": "b"},
        {"id": "no", "query": "?", "answerable": False},
    ]  # fmt: skip
    not_measured = ["answer_checks", "false_refusal", "empty", "latency_ms", "refusal_correct"]
    failed = [record(one["id"], HITS if one["id"] == "a" else [], error="late") for one in rows]
    found = scored(rows, failed, ["hit@1", "passed", "failed", *not_measured])
    assert found["state"].tolist() == ["failed"] * 3
    assert found[["hit@1", "passed", "failed"]].fillna(-1).to_numpy().tolist() == [
        [1, 0, 1], [0, 0, 1], [-1, -1, 1],
    ]  # fmt: skip
    assert found[not_measured].isna().all(axis=None)


def test_missing_rows_are_left_out_with_a_warning_or_count_as_zero(scored):
    empty = {"id": "none", "query": "?", "expected_empty": True, "answerable": True}
    rows, labels = [*GOLD, GOLD[0] | {"id": "gone"}, empty], ["hit@1", "passed", "failed"]
    with warned("r", 2, "missing"):
        found = scored(rows, [record("q", HITS)], labels)
    assert found["state"].tolist() == ["scored", "missing", "missing"]
    assert found.loc[["gone", "none"], labels].isna().all(axis=None)
    zero = scored(rows, [record("q", HITS)], labels, missing="zero")
    assert zero.loc["gone", labels].tolist() == [0, 0, 1]
    assert zero.loc["none", "passed"] == 0, "a missing query never passes"


def test_rows_without_a_golden_query_count_in_empty_failed_latency_only(scored):
    labels = ["hit@1", "passed", "citation_present", "empty", "failed", "latency_ms"]
    stray = record("stray", [], elapsed_ms=7, answer=citing({"chunk_id": "c1"}))
    found = scored(GOLD, [record("q", HITS), stray], labels)
    assert found.loc["stray", "state"] == "extra"
    assert found.loc["stray", labels].fillna(-1).tolist() == [-1, -1, -1, 1, 0, 7]


@pytest.mark.parametrize(
    ("argument", "value", "known"),
    [("match", "docs", "doc"), ("missing", "miss", "zero"), ("collapse", "x", "doc"),
     ("ties", "score", "trec64"), ("profile", "kebap", "kebab")],
)  # fmt: skip
def test_an_unknown_policy_is_refused_with_the_choices(scored, argument, value, known):
    with refused(value, known, field=argument):
        scored(GOLD, [record("q", HITS)], **{argument: value})


@pytest.mark.parametrize(("other", "is_said"), [("word 2", True), ("another", False)])
def test_answers_that_are_all_their_references_are_said_with_their_column(other, is_said):
    golden = [{"id": f"q{n}", "reference_answer": f"word {n}"} for n in range(5)]
    texts = ["Word 0", "word 1.", "word 3", "word 4"]
    frame = pd.DataFrame({"query_id": ["q0", "q1", "q3", "q4", "q2"], "response": [*texts, other]})
    with unsaid("every answer") as said:
        rs.evaluate(frame, golden, ["exact_match", "token_f1"])
    assert ["'response'" in one for one in said] == [True] * is_said


@pytest.mark.parametrize(("run_id", "covered"), [("r", [1, 0]), (None, [1, 1])])
def test_catalogue_rows_without_a_run_are_shared_by_all_runs(loaded, run_id, covered):
    given = [record("q", HITS, answer=citing({"chunk_id": "far"}, line("docs/z.md", 5, 6)))]
    results, golden = loaded(GOLD, {"r": given, "s": given})
    z = {"chunk_id": "z", "path": "docs/z.md", "start": 1, "end": 9, "span_unit": "line"}
    rows = [{"chunk_id": "far", "run_id": run_id}, z, {"chunk_id": "y", "run_id": "r"}]
    results = replace(results, chunks=from_records(rows, "chunks"))
    scores = rs.score(results, golden, ["citation_coverage"])
    assert scores["citation_coverage"].tolist() == covered


# What an answer cites, as sets: right, found, fabricated

SETS = ["citation_precision", "citation_recall", "citation_fabricated"]
GRADED = [{"id": "q", "query": "?", "expected_doc_ids": {"d": 2, "f": 2, "e": 0}}]
# each: lines 1 to 4 of docs/<doc>.md
FOUR = [hit("c1", "d", 1), hit("c2", "e", 2), hit("c3", "d", 3), hit("c4", "g", 4)]


def chunks(*names):
    return [{"chunk_id": name} for name in names]


# Of the targets d and f: precision, recall, share of what is cited that is made up; None: no value.
COUNTED = [
    # c1 (document d, twice), c2 (e, grade 0), zz (unknown): 1 of 3 right
    (chunks("c1", "c2", "zz", "c1"), (1 / 3, 1 / 2, 1 / 3)),
    # two passages of one right document are both right and meet one target
    (chunks("c1", "c3"), (1, 1 / 2, 0)),
    # lines outside every hit, though the document is right
    ([line("docs/d.md", 40, 41)], (1, 1 / 2, 1)),
    ([], (None, 0, None)),  # the field is there: none of the two is met
    # without a locator the marker tells them apart
    ([{"marker": "[7]"}, {"marker": "[7]"}, {"marker": "[8]"}, {}], (None, None, 1)),
    # or else the position
    ([{}, {}, *chunks("c1")], (1 / 3, 1 / 2, 2 / 3)),
]


def test_citations_are_counted_as_sets(each):
    found = each([(GRADED[0], record("q", FOUR, answer=citing(*one))) for one, _ in COUNTED], SETS)
    assert found == [pytest.approx([*values]) for _, values in COUNTED]


@pytest.mark.parametrize(
    ("citations", "expected", "match", "precision"),
    [
        # path and lines get the ids of the hit around them
        ([line("docs/e.md", 2, 3)], {"expected_chunk_ids": ["c2"]}, "chunk", 1),
        # citations that carry no chunk are matched by document
        ([{"doc_id": "d"}, {"doc_id": "e"}],
         {"expected_chunk_ids": ["c1"], "expected_doc_ids": ["d"]}, "chunk", 1 / 2),
        # at each query's finest level if asked
        (chunks("c1"), {"expected_chunk_ids": ["c3"], "expected_doc_ids": ["d"]}, "per_query", 0),
        (chunks("c1"), {"expected_chunk_ids": ["c3"], "expected_doc_ids": ["d"]}, "doc", 1),
    ],
)  # fmt: skip
def test_citations_match_at_a_level_that_they_carry(each, citations, expected, match, precision):
    given = record("q", FOUR, answer=citing(*citations))
    assert each([({"query": "?"} | expected, given)], SETS[::2], match=match) == [[precision, 0]]


def test_a_refusal_and_an_unlabelled_query_have_no_citation_scores(each):
    refused, given = (
        record("q", FOUR, answer={"answer": "text", "refused": one, "citations": chunks("c1")})
        for one in (True, False)
    )
    with warned(1, "absent_docs"):
        found = each([(GRADED[0], refused), ({"query": "?"}, given)], SETS)
    assert found == [[None] * 3, [None, None, 0]]


# `found` looks at hits and refusals that are due, `passed` at the answer as well

ONE, MISSED = [hit("c1", "d", 1)], [hit("c2", "e", 1)]
SOUGHT = {"id": "q", "query": "?", "expected_doc_ids": ["d"]}
CHECKED = SOUGHT | {"must_contain": ["merge"], "forbidden": ["never"]}
TEXT_ONLY = {"id": "q", "query": "?", "must_contain": ["merge"]}
DUE = {"id": "q", "query": "?", "answerable": False, "forbidden": ["never"]}
REFUSAL = answer("no idea", grounded=False)


# query, what a run gave, points of a judge -> found and passed; None: no value
NOTHING = {"query": "?", "expected_empty": True, "answerable": True}
OTHERS = {"query": "?", "must_not_contain_source_keys": ["Pioneer"], "answerable": True}
PASSES = [
    # each kind of question, failed and passed; a hit counts within the run's k, 10
    (NOTHING, record("q", ONE), None, (0, 0)), (NOTHING, record("q", []), None, (1, 1)),
    (OTHERS, record("q", [hit("c", "d", 1, source_key="pioneer-p1142")]), None, (0, 0)),
    (OTHERS, record("q", ONE), None, (1, 1)),
    (SOUGHT, record("q", [hit("c", "d", 11)]), None, (0, 0)),
    (SOUGHT, record("q", [hit("c", "d", 10)]), None, (1, 1)),
    (SOUGHT, record("q", ONE), None, (1, 1)),  # retrieval alone
    (SOUGHT, record("q", ONE, answer=answer("merge")), None, (1, 1)),
    (SOUGHT, record("q", MISSED, answer=answer("merge")), None, (0, 0)),
    (SOUGHT, record("q", ONE, answer=REFUSAL), None, (1, 0)),
    (SOUGHT, record("q", ONE, answer=answer("  ")), None, (1, 0)),
    (CHECKED, record("q", ONE), None, (1, 1)),
    (CHECKED, record("q", ONE, answer=answer("use merge")), None, (1, 1)),
    (CHECKED, record("q", ONE, answer=answer("use concat")), None, (1, 0)),
    (CHECKED, record("q", ONE, answer=answer("never merge")), None, (1, 0)),
    (CHECKED, record("q", MISSED, answer=answer("use merge")), None, (0, 0)),
    (SOUGHT, record("q", ONE, answer=answer("so")), 2.9, (1, 0)),
    (SOUGHT, record("q", ONE, answer=answer("so")), 3.0, (1, 1)),  # neither bad nor good
    (SOUGHT, record("q", ONE, answer=answer("so")), float("nan"), (1, 1)),  # the judge failed
    (SOUGHT, record("q", MISSED, answer=answer("so")), 5.0, (0, 0)),
    (SOUGHT, record("q", ONE, error="late"), None, (0, 0)),
    # where a refusal is due, it decides alone: its text and a judge of it don't count
    (DUE, record("q", ONE, answer=REFUSAL), 0.0, (1, 1)),
    (DUE, record("q", ONE, answer=answer("never", grounded=False)), None, (1, 1)),
    (DUE, record("q", ONE, answer=answer("so")), 5.0, (0, 0)),
    (DUE, record("q", ONE), None, (None, None)),
    # nothing is to be found, and only the answer is checked
    (TEXT_ONLY, record("q", ONE, answer=answer("use merge")), None, (None, 1)),
    (TEXT_ONLY, record("q", ONE, answer=answer("use concat")), None, (None, 0)),
    (TEXT_ONLY, record("q", ONE, answer=answer("use merge")), 0.0, (None, 0)),
    (TEXT_ONLY, record("q", ONE), None, (None, None)),
    (TEXT_ONLY, record("q", ONE, error="late"), None, (None, 0)),
    # expects no hit, and isn't known to be answerable: a refusal does no harm
    ({"id": "q", "query": "?", "expected_empty": True}, record("q", [], answer=REFUSAL), None,
     (1, 1)),
]  # fmt: skip


def test_a_query_passes_if_hits_and_answer_are_what_it_asks_for(each):
    points = {f"q{n}": value for n, (*_, value, _) in enumerate(PASSES) if value is not None}
    judgments = pd.DataFrame({"query_id": [*points], "run_id": "r", "value": points.values()})
    judgments = judgments.assign(criterion="judge_correctness", item="")
    found = each([one[:2] for one in PASSES], ["found", "passed"], judgments, match="doc")
    assert found == [[*expected] for *_, expected in PASSES]
