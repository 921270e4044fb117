"""Answer-level scores: checks, citations, refusals, what a failed query still counts in."""

from dataclasses import replace

import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.frames.data import from_records
from tests.messages import refused, warned


@pytest.fixture
def scored(loaded):
    """Scores of one run, by query."""

    def score(rows, records, metrics=None, **how):
        return rs.score(*loaded(rows, {"r": records}, k=10), metrics, **how)

    return score


GOLD = [{"id": "q", "query": "?", "expected_doc_ids": ["d"]}]
HITS = [hit("c1", "d", 1), hit("c2", "e", 2)]  # lines 1 to 4 of docs/d.md and docs/e.md


def citing(*citations):
    return {"answer": "text", "grounded": True, "citations": list(citations)}


def line(path, start, end):
    return {"citation": {"kind": "line", "path": path, "start": start, "end": end}}


@pytest.mark.parametrize(
    ("citations", "strict", "weak"),
    [
        ([], 0, 0),
        ([line("docs/d.md", 1, 4)], 1, 1),
        ([line("docs/d.md", 2, 3), line("docs/e.md", 4, 4)], 1, 1),
        ([line("docs/d.md", 3, 5)], 0, 1),  # a right path with a wrong line
        ([line("docs/d.md", 2, 3), line("docs/z.md", 2, 3)], 0, 1),  # each one must resolve
        ([{"citation": {"kind": "page", "path": "docs/d.md", "page": 2}}], 0, 1),  # another unit
        # has no span by its kind
        ([{"citation": {"kind": "caption", "path": "docs/d.md", "model": "m"}}], 1, 1),
        ([{"chunk_id": "c2"}], 1, 0),
        # the chunk id decides where there is one
        ([{"chunk_id": "zz", **line("docs/d.md", 1, 4)}], 0, 1),
    ],
)
def test_citations_must_resolve_to_what_the_query_had(scored, citations, strict, weak):
    labels = ["citation_coverage", "citation_coverage_weak", "citation_present"]
    found = scored(GOLD, [record("q", HITS, answer=citing(*citations))], labels)
    assert found[labels].iloc[0].tolist() == [strict, weak, bool(citations)]


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


def test_a_citation_of_another_querys_hit_does_not_resolve(scored):
    records = [
        record("q", HITS[1:], answer=citing(line("docs/d.md", 1, 4))),
        record("p", HITS, answer=citing({"chunk_id": "c1"})),
    ]
    found = scored([*GOLD, GOLD[0] | {"id": "p"}], records, ["citation_coverage"])
    assert found["citation_coverage"].to_dict() == {"q": 0, "p": 1}


@pytest.mark.parametrize("given", [None, answer("no", grounded=False)])
def test_citation_coverage_counts_grounded_answers_only(scored, given):
    labels = ["citation_coverage", "citation_present"]
    assert scored(GOLD, [record("q", HITS, answer=given)], labels)[labels].isna().all(axis=None)


@pytest.mark.filterwarnings("ignore:.*unlabelled")
@pytest.mark.parametrize(
    ("given", "due", "wanted"),
    [(answer("no", grounded=False), [1, 0], 1), (answer("so"), [0, 1], 0), (None, None, None)],
)
def test_the_four_ways_of_refusal(scored, given, due, wanted):
    rows = [{"id": "no", "query": "?", "answerable": False}, *GOLD, {"id": "free", "query": "?"}]
    labels = ["refusal_correct", "answered_unanswerable", "false_refusal"]
    found = scored(rows, [record(one["id"], [], answer=given) for one in rows], labels)[labels]
    known = found.astype(object).where(found.notna(), None)
    assert known.loc["no"].tolist() == [*(due or [None, None]), None]
    assert known.loc["q"].tolist() == [None, None, wanted]
    assert known.loc["free"].tolist() == [None] * 3  # unlabelled


@pytest.mark.filterwarnings("ignore:.*to be refused with expected ids")
def test_a_should_refuse_query_is_not_judged_by_retrieval(scored):
    refusal = record("q", HITS, answer=answer("no", grounded=False))
    labels = ["hit@1", "mrr", "refusal_correct", "passed"]
    found = scored([GOLD[0] | {"answerable": False}], [refusal], labels)[labels]
    assert found.fillna(-1).to_numpy().tolist() == [[-1, -1, 1, 1]]


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
    labels = ["hit@1", "passed", "empty", "failed", "latency_ms"]
    found = scored(GOLD, [record("q", HITS), record("stray", [], elapsed_ms=7)], labels)
    assert found.loc["stray", "state"] == "extra"
    assert found.loc["stray", labels].fillna(-1).tolist() == [-1, -1, 1, 0, 7]


@pytest.mark.parametrize(
    ("row", "bad", "good"),
    [
        ({"expected_empty": True, "answerable": True}, HITS, []),
        ({"must_not_contain_source_keys": ["Pioneer"], "answerable": True},
         [hit("c", "d", 1, source_key="pioneer-p1142")], HITS),
        ({"expected_doc_ids": ["d"]}, [hit("c", "d", 11)], [hit("c", "d", 10)]),
    ],
)  # fmt: skip
def test_passed_by_the_kind_of_question(scored, row, bad, good):
    rows = [{"id": "q", "query": "?"} | row]
    found = [scored(rows, [record("q", one)], ["passed"])["passed"].tolist() for one in (bad, good)]
    assert found == [[0], [1]]


@pytest.mark.parametrize(
    ("argument", "value", "known"),
    [("match", "docs", "doc"), ("missing", "miss", "zero"), ("collapse", "x", "doc"),
     ("ties", "score", "trec64"), ("profile", "kebap", "kebab")],
)  # fmt: skip
def test_an_unknown_policy_is_refused_with_the_choices(scored, argument, value, known):
    with refused(value, known, field=argument):
        scored(GOLD, [record("q", HITS)], **{argument: value})


@pytest.mark.filterwarnings("ignore:ids of")
def test_a_miss_does_not_pass_when_the_run_states_no_k(loaded):
    scores = rs.score(*loaded(GOLD, {"r": [record("q", HITS[1:])]}), ["passed"])
    assert scores["passed"].tolist() == [0]


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
GRADED = [{"id": "q", "query": "?", "expected_doc_ids": {"d": 2, "f": 1, "e": 0}}]
# each: lines 1 to 4 of docs/<doc>.md
FOUR = [hit("c1", "d", 1), hit("c2", "e", 2), hit("c3", "d", 3), hit("c4", "g", 4)]


@pytest.fixture
def cited(scored):
    """The set measures of one answer's citations, those that are not NaN."""

    def score(citations, gold=GRADED, match="auto", refused=False):
        given = {"answer": "text", "refused": refused, "citations": citations}
        found = scored(gold, [record("q", FOUR, answer=given)], SETS, match=match)
        return found[SETS].iloc[0].dropna().to_dict()

    return score


def chunks(*names):
    return [{"chunk_id": name} for name in names]


# Of the targets d and f: precision, recall, share of what is cited that is made up.
@pytest.mark.parametrize(
    ("citations", "expected"),
    [
        # c1 (document d, twice), c2 (e, grade 0), zz (unknown): 1 of 3 right
        (chunks("c1", "c2", "zz", "c1"), (1 / 3, 1 / 2, 1 / 3)),
        # two passages of one right document are both right and meet one target
        (chunks("c1", "c3"), (1, 1 / 2, 0)),
        # lines outside every hit, though the document is right
        ([line("docs/d.md", 40, 41)], (1, 1 / 2, 1)),
        ([], (None, 0, None)),  # the field is there: none of the two is met
        # without a locator the marker tells them apart
        ([{"marker": "[7]"}, {"marker": "[7]"}, {"marker": "[8]"}, {}], (None, None, 1)),
    ],
)
def test_citations_are_counted_as_sets(cited, citations, expected):
    found = cited(citations)
    assert [found.get(name) for name in SETS] == pytest.approx(list(expected))


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
def test_citations_match_at_a_level_that_they_carry(cited, citations, expected, match, precision):
    found = cited(citations, [{"id": "q", "query": "?"} | expected], match=match)
    assert (found["citation_precision"], found["citation_fabricated"]) == (precision, 0)


def test_a_refusal_and_an_unlabelled_query_have_no_citation_scores(cited):
    assert cited([{"chunk_id": "c1"}], refused=True) == {}
    with warned(1, "absent_docs"):
        assert set(cited([{"chunk_id": "c1"}], [{"id": "q", "query": "?"}])) == {
            "citation_fabricated"
        }


# `found` looks at hits and refusals that are due, `passed` at the answer as well

ONE, MISSED = [hit("c1", "d", 1)], [hit("c2", "e", 1)]
SOUGHT = {"id": "q", "query": "?", "expected_doc_ids": ["d"]}
CHECKED = SOUGHT | {"must_contain": ["merge"], "forbidden": ["never"]}
TEXT_ONLY = {"id": "q", "query": "?", "must_contain": ["merge"]}
DUE = {"id": "q", "query": "?", "answerable": False, "forbidden": ["never"]}
REFUSAL = answer("no idea", grounded=False)


@pytest.mark.parametrize(
    ("query", "given", "points", "expected"),
    [
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
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:no query of", "ignore:.*labelled", "ignore:ids of")
def test_a_query_passes_if_hits_and_answer_are_what_it_asks_for(
    loaded, query, given, points, expected
):
    results, golden = loaded([query], {"r": [given]}, k=10)
    if points is not None:
        point = {"run_id": "r", "query_id": "q", "criterion": "judge_correctness", "item": ""}
        results = replace(results, judgments=pd.DataFrame([point | {"value": points}]))
    scores = rs.score(results, golden, ["found", "passed"], match="doc").iloc[0]
    assert [None if pd.isna(one) else one for one in scores[["found", "passed"]]] == [*expected]
