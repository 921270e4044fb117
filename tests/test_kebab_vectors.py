"""SEEDS F.2: the aggregates and comparisons of the kebab system, digit by digit."""

import json

import pandas as pd
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, answer, hit, record

import ragscore as rs
from ragscore.analysis.aggregates import aggregate as aggregate_of
from tests.compared import compare_runs
from tests.messages import refused

AGGREGATE_A = {
    "hit_at_k": {"1": 0.3333, "3": 0.3333, "5": 0.6667, "10": 0.6667},
    "mrr": 0.4167,
    "recall_at_k_doc": {"1": 0.3333, "3": 0.3333, "5": 0.6667, "10": 0.6667},
    "precision_at_k_chunk": {"1": 0.3333, "3": 0.1111, "5": 0.1333, "10": 0.0667},
    "citation_coverage": None,
    "groundedness": 0.0,
    "empty_result_rate": 0.0,
    "refusal_correctness": None,
    "total_queries": 3,
    "failed_queries": 0,
}
AGGREGATE_B = AGGREGATE_A | {
    "hit_at_k": {"1": 0.6667, "3": 1.0, "5": 1.0, "10": 1.0},
    "mrr": 0.8333,
    "recall_at_k_doc": {"1": 0.6667, "3": 1.0, "5": 1.0, "10": 1.0},
    "precision_at_k_chunk": {"1": 0.6667, "3": 0.3333, "5": 0.2, "10": 0.1},
}


@pytest.fixture
def kebab(write_golden, write_run):
    """Aggregate of one run of these golden rows and records."""

    def aggregate(rows, records):
        golden = rs.load_golden(write_golden(rows), absent_docs="refuse")
        return aggregate_of(rs.load_results(write_run("r", records)), golden, "kebab")["r"]

    return aggregate


@pytest.fixture
def compared(write_golden, write_run):
    """The comparison of two runs' records by golden rows; `described` is what a run.json says."""

    def compare(rows, a, b, described=({}, {}), **how):
        both = zip("ab", (a, b), described, strict=True)
        results = rs.load_results([write_run(run, own, **more) for run, own, more in both])
        golden = rs.load_golden(write_golden(rows))
        return compare_runs(results, golden, "a", "b", profile="kebab", **how)

    return compare


def report_of(cmp):
    return json.loads(cmp.to_json())


@pytest.mark.parametrize(("records", "expected"), [(RUN_A, AGGREGATE_A), (RUN_B, AGGREGATE_B)])
def test_aggregate_of_a_run(kebab, records, expected):
    assert kebab(THREE_QUERIES, records) == expected


def test_compare_report(compared):
    described = {"config": {"chunker_version": "test@1", "eval_k": 10}}
    report = report_of(compared(THREE_QUERIES, RUN_A, RUN_B, (described, described)))
    assert (report["run_a"], report["run_b"]) == ("a", "b")
    assert (report["aggregate_a"], report["aggregate_b"]) == (AGGREGATE_A, AGGREGATE_B)
    assert report["deltas"] == {
        "hit_at_k": {"1": 0.3334, "3": 0.6667, "5": 0.3333, "10": 0.3333},
        "mrr": 0.4166,
        "recall_at_k_doc": {"1": 0.3334, "3": 0.6667, "5": 0.3333, "10": 0.3333},
        "precision_at_k_chunk": {"1": 0.3334, "3": 0.2222, "5": 0.0667, "10": 0.0333},
        "citation_coverage": None,
        "groundedness": 0.0,
        "empty_result_rate": 0.0,
        "refusal_correctness": None,
        "chunker_version_match": "exact",
    }
    assert report["per_query"] == [
        {"query_id": "q1", "kind": "loss", "a_hit_rank": 1, "b_hit_rank": 2, "note": "rank 1→2"},
        {"query_id": "q2", "kind": "win", "a_hit_rank": 4, "b_hit_rank": 1, "note": "rank 4→1"},
        {"query_id": "q3", "kind": "win", "a_hit_rank": None, "b_hit_rank": 1, "note": None},
    ]


def test_its_markdown_lists_every_query_draws_included(compared):
    rows = [*THREE_QUERIES, {"id": "q0", "query": "?", "expected_doc_ids": ["d0"]}]
    draw = record("q0", [hit("c0", "d0", 3)])
    cmp = compared(rows, [*RUN_A, draw], [*RUN_B, draw])
    # q0 expects a document only: it is in the means over documents, not in those over chunks
    assert (
        cmp.to_markdown()
        == """\
# Eval compare: `a` vs `b`

## Aggregate deltas

| metric | a | b | Δ (b - a) |
|---|---|---|---|
| hit@1 | 0.3333 | 0.6667 | +0.3334 |
| hit@3 | 0.3333 | 1.0000 | +0.6667 |
| hit@5 | 0.6667 | 1.0000 | +0.3333 |
| hit@10 | 0.6667 | 1.0000 | +0.3333 |
| MRR | 0.4167 | 0.8333 | +0.4166 |
| recall@1_doc | 0.2500 | 0.5000 | +0.2500 |
| recall@3_doc | 0.5000 | 1.0000 | +0.5000 |
| recall@5_doc | 0.7500 | 1.0000 | +0.2500 |
| recall@10_doc | 0.7500 | 1.0000 | +0.2500 |
| precision@1_chunk | 0.3333 | 0.6667 | +0.3334 |
| precision@3_chunk | 0.1111 | 0.3333 | +0.2222 |
| precision@5_chunk | 0.1333 | 0.2000 | +0.0667 |
| precision@10_chunk | 0.0667 | 0.1000 | +0.0333 |
| citation_coverage | — | — | — |
| groundedness | 0.0000 | 0.0000 | +0.0000 |
| empty_result_rate | 0.0000 | 0.0000 | +0.0000 |
| refusal_correctness | — | — | — |

chunker_version_match: `exact`

## Wins (2) / Losses (1) / Regressions (0)

| query_id | kind | rank_a | rank_b | note |
|---|---|---|---|---|
| q0 | draw | 3 | 3 |  |
| q1 | loss | 1 | 2 | rank 1→2 |
| q2 | win | 4 | 1 | rank 4→1 |
| q3 | win | — | 1 |  |
"""
    )
    assert rs.Comparison.from_json(cmp.to_json(own=True)).to_markdown() == cmp.to_markdown()
    shorter = cmp.to_markdown(limit=2)
    assert "| q1 |" in shorter and "| q2 |" not in shorter
    assert shorter.endswith("\n\n2 more are not listed.\n")


def test_its_markdown_writes_the_sign_of_a_loss_and_keeps_a_pipe_in_its_cell(
    compared,
):
    rows = [{"id": "q|1", "query": "?", "expected_doc_ids": ["d"]}]
    found, missed = [record("q|1", [hit("c", "d", 1)])], [record("q|1", [])]
    text = compared(rows, found, missed).to_markdown()
    assert "| recall@1_doc | 1.0000 | 0.0000 | -1.0000 |\n" in text
    assert "## Wins (0) / Losses (0) / Regressions (1)" in text
    assert text.endswith("| q\\|1 | regression | 1 | — | hit→miss |\n")


def asked(*, query_id="q", **expected):
    return {"id": query_id, "query": "?", "expected_doc_ids": ["d"]} | expected


def chunks(*ids, query_id="q"):
    return record(query_id, [hit(chunk, "d", rank) for rank, chunk in enumerate(ids, 1)])


def answered(text, query_id="q", hits=(), **how):
    return record(query_id, list(hits), answer=answer(text, **how))


ALPHA = asked(must_contain=["alpha"], forbidden=["beta"])
FOUND = [hit("c", "d", 1)]
CITED = {"paths": ["docs/d.md"]}
# What is aggregated -> golden rows, records, and what the aggregate then says.
AGGREGATED = {
    "recall counts the expected documents that were found": (
        [asked(expected_doc_ids=["d1", "d2"])],
        [record("q", [hit("c1", "d1", 1), hit("c3", "d3", 2)])],
        {"recall_at_k_doc": {"3": 0.5, "10": 0.5}},
    ),
    **{
        f"precision divides {name} by k": (
            [asked(expected_chunk_ids=expected)],
            [chunks(*found)],
            {"precision_at_k_chunk": {"5": at_5, "10": at_10}},
        )
        for name, expected, found, at_5, at_10 in (
            ("3 of 5", ["c1", "c2", "c3"], ["c1", "c2", "c3", "x", "y"], 0.6, 0.3),
            ("2 of 3", ["c1", "c2"], ["c1", "c2", "x"], 0.4, 0.2),
            ("none", ["c1"], ["x", "y", "z"], 0.0, 0.0),
        )
    },
    "precision is the mean over queries": (
        [asked(query_id=name, expected_chunk_ids=["c1", "c2"]) for name in ("q1", "q2")],
        [chunks("c1", query_id="q1"), chunks("c1", "c2", query_id="q2")],
        {"precision_at_k_chunk": {"5": 0.3}},
    ),
    **{
        f"citations and checks: {name}": (
            [ALPHA],
            [answered(text, hits=FOUND, paths=paths)],
            {"citation_coverage": coverage, "groundedness": grounded},
        )
        for name, text, paths, coverage, grounded in (
            ("both", "contains alpha", ["docs/d.md"], 1.0, 1.0),
            ("not cited", "contains alpha", None, 0.0, 1.0),
            ("forbidden", "alpha and beta", ["docs/d.md"], 1.0, 0.0),
            ("case-sensitive, and an empty path covers nothing", "Alpha", [""], 0.0, 0.0),
        )
    },
    "an answer without checks is not in the denominator": (
        [ALPHA, asked(query_id="q2")],
        [answered("contains alpha", **CITED), answered("contains alpha", "q2", **CITED)],
        {"groundedness": 1.0},
    ),
    "refusal is judged where no document is expected": (
        [asked(expected_doc_ids=[])],
        [answered("no", grounded=False)],
        {"refusal_correctness": 1.0},
    ),
    "no answer is no refusal": (
        [asked(expected_doc_ids=[])],
        [record("q", [])],
        {"refusal_correctness": None},
    ),
    "a chunk-only query is both refusal and retrieval": (
        [{"id": "q", "query": "?", "expected_chunk_ids": ["c"]}],
        [answered("yes", hits=FOUND)],
        {"refusal_correctness": 0.0, "hit_at_k": {"1": 1.0}},
    ),
    "empty rows": (
        [asked(query_id="q1"), asked(query_id="q2")],
        [record("q1", []), record("q2", FOUND)],
        {"empty_result_rate": 0.5, "failed_queries": 0},
    ),
    "failed rows": (
        [asked()],
        [record("q", [], error="timed out")],
        {"failed_queries": 1, "total_queries": 1, "empty_result_rate": 1.0},
    ),
}


@pytest.mark.filterwarnings("ignore:ids of")  # nothing is found on purpose
@pytest.mark.filterwarnings("ignore:.*to be refused with expected ids")
@pytest.mark.parametrize(("rows", "records", "expected"), AGGREGATED.values(), ids=AGGREGATED)
def test_aggregates_of_few_queries(kebab, rows, records, expected):
    found = kebab(rows, records)
    for name, value in expected.items():
        assert (found[name] | value if isinstance(value, dict) else value) == found[name], name


@pytest.mark.parametrize(
    ("row", "given", "theirs", "value", "ours"),
    [
        # precision without expected chunks
        (asked(), record("q", FOUND), "precision_at_k_chunk",
         dict.fromkeys(("1", "3", "5", "10"), 0.0), "precision@5:chunk"),
        # checks of a query that should be refused
        (asked(expected_doc_ids=[], must_contain=["alpha"]), answered("alpha"), "groundedness", 1.0,
         "answer_checks"),
    ],
    ids=["precision", "checks"],
)  # fmt: skip
def test_what_counts_there_has_no_value_here(kebab, loaded, row, given, theirs, value, ours):
    assert kebab([row], [given])[theirs] == value
    assert rs.score(*loaded([row], {"r": [given]}), [ours])[ours].isna().all()


def test_rows_without_a_golden_entry_count_in_totals_and_empty_only(kebab):
    found = kebab(THREE_QUERIES, [*RUN_A, record("stray", [], error="boom")])
    assert found == AGGREGATE_A | {
        "total_queries": 4,
        "failed_queries": 1,
        "empty_result_rate": 0.25,
    }


OUTCOMES = [
    (None, 2, "win"), (1, None, "regression"), (3, 3, "draw"), (5, 2, "win"), (2, 5, "loss"),
    (None, None, "draw"),
]  # fmt: skip


def test_outcome_of_a_query(compared):
    rows = [asked(query_id=f"q{n}", expected_chunk_ids=["c"]) for n in range(len(OUTCOMES))]
    a, b = (
        [record(f"q{n}", [hit("c", "d", rank)] if rank else []) for n, rank in enumerate(ranks)]
        for ranks in list(zip(*OUTCOMES, strict=True))[:2]
    )
    found = report_of(compared(rows, a, b, ({"k": 10}, {"k": 10})))["per_query"]
    assert [(one["a_hit_rank"], one["b_hit_rank"], one["kind"]) for one in found] == OUTCOMES


RECHUNKED = (
    [{"id": "q", "query": "?", "expected_doc_ids": ["doc-1"], "expected_chunk_ids": ["old"]}],
    [record("q", [hit("old", "doc-1", 1)])],
    [record("q", [hit("new", "doc-1", 1, chunker_version="test@2")])],
    [{"config": {"chunker_version": f"test@{n}"}} for n in (1, 2)],
)


@pytest.mark.filterwarnings("ignore:ids of")  # chunk ids of another chunker join nowhere
def test_another_chunker_falls_back_to_documents(compared):
    report = report_of(compared(*RECHUNKED))
    assert report["deltas"]["chunker_version_match"] == "fallback_doc"
    assert report["per_query"] == [
        {"query_id": "q", "kind": "draw", "a_hit_rank": 1, "b_hit_rank": 1, "note": None}
    ]


def test_strict_comparison_refuses_another_chunker(compared):
    with refused("test@1", "test@2", field="strict_chunker_version"):
        compared(*RECHUNKED, strict_chunker_version=True)


def test_snapshots_that_name_no_chunker_leave_it_unknown(write_golden, write_run):
    plain = {"chunker_version": None}
    files = [
        write_run("a", [record("q", [hit("c", "d", 1) | plain])], config={}),
        write_run("b", [record("q", [hit("c", "d", 1) | plain])], config="not json"),
    ]
    results = rs.load_results(files)
    assert "chunker_version" not in results.runs
    golden = rs.load_golden(
        write_golden(
            [{"id": "q", "query": "?", "expected_doc_ids": ["d"], "expected_chunk_ids": ["c"]}]
        )
    )
    cmp = compare_runs(results, golden, "a", "b", profile="kebab")
    assert cmp._level.chunker_version_match == "exact"


@pytest.mark.filterwarnings("ignore:scores that were measured differently")
def test_deltas_are_null_where_either_side_is(compared):
    with_answers = [one | {"answer": answer("text", paths=["docs/d.md"])} for one in RUN_A]
    report = report_of(compared(THREE_QUERIES, RUN_A, with_answers))
    assert report["aggregate_b"]["citation_coverage"] == 1.0
    assert report["deltas"]["citation_coverage"] is None


@pytest.mark.parametrize(
    ("ranks_a", "ranks_b", "a", "b", "delta"),
    [((1, None), (1, 2), 0.5, 0.75, 0.25), ((1, 2), (1, None), 0.75, 0.5, -0.25)],
)
def test_the_delta_of_a_mean_is_b_minus_a(compared, ranks_a, ranks_b, a, b, delta):
    sides = [
        [record(f"q{n}", [hit(f"c{n}", f"d{n}", r)] if r else []) for n, r in enumerate(ranks, 1)]
        for ranks in (ranks_a, ranks_b)
    ]
    report = report_of(compared(THREE_QUERIES[:2], *sides))
    means = [report[part]["mrr"] for part in ("aggregate_a", "aggregate_b", "deltas")]
    assert means == [a, b, delta]


def test_an_aggregate_stored_before_precision_was_is_computed_anew(loaded):
    # There it loads with an empty map. Here what was stored isn't read: the hits tell.
    old = {name: value for name, value in AGGREGATE_A.items() if name != "precision_at_k_chunk"}
    results, golden = loaded(THREE_QUERIES, {"r": RUN_A}, aggregate=old)
    assert aggregate_of(results, golden, "kebab")["r"] == AGGREGATE_A


def test_storing_for_an_unknown_run_names_it(pair, tmp_path):
    store = rs.RunStore(tmp_path / "store")
    store.save(pair[0])
    with refused("zzz", "a", "b", field="run"):
        store.add(
            "zzz",
            judgments=pd.DataFrame(
                {"query_id": ["q1"], "criterion": "faithfulness", "item": "", "value": 1.0}
            ),
        )


def test_an_unknown_run_is_named_with_the_candidates(pair):
    with refused("c", "a", "b", field="run"):
        compare_runs(*pair, "a", "c")
