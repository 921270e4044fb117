"""New labels are not a better system.

What changed between golden sets is told, and taken out of a difference.
"""

import pandas as pd
import pytest
from conftest import THREE_QUERIES, hit, record

import ragscore as rs
from ragscore.analysis.comparison.relabelling import label_effect
from tests.messages import says

N = 10
OLD = [
    {
        "id": f"q{n}",
        "query": f"question {n}",
        "expected_doc_ids": [f"d{n}" if n == 0 else "unfindable"],
    }
    for n in range(N)
]
# six are labelled anew
NEW = [one | ({"expected_doc_ids": [f"d{n}"]} if 0 < n < 7 else {}) for n, one in enumerate(OLD)]
RECORDS = [record(f"q{n}", [hit(f"c{n}", f"d{n}", 1)]) for n in range(N)]
CONFIG = {"k": 5, "model": "m"}


@pytest.fixture
def weeks(write_golden, write_run):
    """One system run twice with one config, and the golden set before and after it was labelled
    anew.
    """
    results = rs.load_results(
        [write_run("monday", RECORDS, config=CONFIG), write_run("friday", RECORDS, config=CONFIG)]
    )
    return (
        results,
        rs.load_golden(write_golden(OLD, "old.yaml")),
        rs.load_golden(write_golden(NEW, "new.yaml")),
    )


def test_a_recall_that_labels_raised_is_not_the_systems(weeks):
    results, old, new = weeks
    cmp = label_effect(results, new, old, "monday", "friday", metrics=["recall@5"])
    row = cmp.deltas.iloc[0]
    effects = ["baseline", "candidate", "delta", "label_effect", "system_effect"]
    assert row[effects].tolist() == pytest.approx([0.1, 0.7, 0.6, 0.6, 0])
    says(cmp.verdict, "labels", "system", "6 of 10")
    # the queries that did not change: q0 is found, q7 to q9 are not, before and after
    unchanged = ["unchanged_baseline", "unchanged_candidate", "unchanged_delta", "n_unchanged"]
    assert row[unchanged].tolist() == [0.25, 0.25, 0, 4]


def test_the_queries_that_did_not_change_show_no_difference(weeks):
    results, old, new = weeks
    same = label_effect(results, new, old, "monday", "friday", metrics="recall@5").unchanged
    assert same.queries["query_id"].tolist() == ["q0", "q7", "q8", "q9"]
    by_old, by_new = (
        rs.score(results, golden)[lambda scores: scores.index.isin(same.queries["query_id"])]
        for golden in (old, new)
    )
    pd.testing.assert_frame_equal(by_old, by_new)


def test_what_the_system_changed_is_not_the_labels(weeks, write_run):
    results, old, new = weeks
    better = rs.load_results(
        write_run("better", [*RECORDS[:9], record("q9", [hit("c", "unfindable", 2)])])
    )
    runs = rs.Results.concat([results, better])
    row = label_effect(runs, new, old, "monday", "better", metrics="recall@5").deltas.iloc[0]
    effects = ["delta", "label_effect", "system_effect", "unchanged_delta"]
    assert row[effects].tolist() == pytest.approx([0.7, 0.6, 0.1, 0.25])
    asked = [(new, old, "monday", "better"), (new, new, "monday", "better"), (new, old, "monday"),
             (new, new, "monday", "friday"), (new, old, "monday", "friday")]  # fmt: skip
    said = {label_effect(runs, *args, metrics="recall@5").verdict for args in asked}
    assert len(said) == len(asked)


def test_a_slower_run_is_no_changed_system(weeks, write_run):
    results, old, new = weeks
    slow = rs.load_results(write_run("slow", [one | {"elapsed_ms": 900} for one in RECORDS]))
    cmp = label_effect(rs.Results.concat([results, slow]), new, old, "monday", "slow")
    assert cmp.deltas.set_index("metric").loc["latency_ms", "system_effect"] > 0
    assert cmp.verdict == label_effect(results, new, old, "monday", "friday").verdict


def test_each_change_of_a_golden_set_has_its_name(write_golden):
    old = rs.load_golden(
        write_golden(
            [
                *THREE_QUERIES,
                {"id": "gone", "query": "?", "expected_doc_ids": ["d"]},
                {"id": "x", "query": "?", "expected_doc_ids": ["d"]},
            ],
            "old.yaml",
        )
    )
    rows = [
        THREE_QUERIES[0] | {"expected_doc_ids": ["d1", "e1"]},
        THREE_QUERIES[1] | {"query": "other words"},
        THREE_QUERIES[2] | {"difficulty": "hard", "tags": ["t"]},
        {"id": "x", "query": "no", "answerable": False},
        {"id": "fresh", "query": "?", "expected_doc_ids": ["d"]},
    ]  # fmt: skip
    new = rs.load_golden(write_golden(rows, "new.yaml"))
    assert new.diff(old).set_index("query_id").T.to_dict("list") == {
        "q1": ["relabelled", "targets, +e1"], "q2": ["reworded", "query"],
        "q3": ["annotated", "difficulty, tags"], "gone": ["removed", ""],
        "x": ["reworded and relabelled", "query, answerable, targets, -d"], "fresh": ["added", ""],
    }  # fmt: skip
    assert new.unchanged_since(old).queries["query_id"].tolist() == ["q3"]
    assert not len(old.diff(old)) and len(old.unchanged_since(old).queries) == 5


@pytest.mark.parametrize(
    "before, after, what",
    [
        (["d1"], [["d1", "e1"]], "targets, alternatives"),
        ([["d1", "e1"]], [["d1", "f1"]], "targets, alternatives"),
        ([["d1", "e1"]], ["d1"], "targets, alternatives"),
        ([["d1", "e1"], "d2"], [["d1", "e1"], "d3"], "targets, +d3, -d2"),
        (["d1"], [{"any": ["d1", "e1"], "grade": 2}], "targets, alternatives, grades"),
        (["d1"], {"d1": 2}, "targets, grades"),
    ],
    ids=str,
)
def test_what_changed_within_a_target_is_said(write_golden, before, after, what):
    rows = [{"id": "q1", "query": "?", "expected_doc_ids": one} for one in (before, after)]
    old, new = (
        rs.load_golden(write_golden([row, THREE_QUERIES[1]], name))
        for row, name in zip(rows, ("old.yaml", "new.yaml"), strict=True)
    )
    assert new.diff(old).to_dict("records") == [
        {"query_id": "q1", "change": "relabelled", "what": what}
    ]


@pytest.mark.parametrize(
    "more",
    [
        {"must_contain": ["x"]},
        {"expected_key_facts": ["x"]},
        {"reference_answer": "x"},
        {"folders": ["x"]},
        {"expected_doc_ids": {"d1": 2}},
        {"expected_empty": True},
    ],
    ids=str,
)
def test_whatever_a_metric_reads_is_a_label(write_golden, more):
    old, new = (
        rs.load_golden(write_golden([THREE_QUERIES[0] | one], name))
        for one, name in (({}, "old.yaml"), (more, "new.yaml"))
    )
    assert new.diff(old)["change"].tolist() == ["relabelled"]


def test_both_golden_sets_are_measured_at_the_coarser_of_their_levels(
    weeks, write_golden, write_run
):
    results, _, new = weeks
    chunked = rs.load_golden(
        write_golden(
            [one | {"expected_chunk_ids": [f"c{n}"]} for n, one in enumerate(NEW)], "chunks.yaml"
        )
    )
    row = label_effect(results, new, chunked, "monday", "friday", metrics="recall@5").deltas.iloc[0]
    # by document, though the older set would allow chunks: 1.0
    assert row[["baseline", "candidate"]].tolist() == pytest.approx([0.7, 0.7])


@pytest.mark.filterwarnings("error")
def test_only_queries_that_both_runs_were_asked_count(weeks, write_run):
    results, old, new = weeks
    runs = rs.Results.concat([results, rs.load_results(write_run("short", RECORDS[:2]))])
    row = label_effect(runs, new, old, "monday", "short", metrics="recall@5").deltas.iloc[0]
    counted = ["baseline", "candidate", "n_baseline", "n_candidate", "n_unchanged"]
    assert row[counted].tolist() == [0.5, 1, 2, 2, 1]


def test_a_system_that_gains_as_many_queries_as_it_loses_has_changed(write_golden, write_run):
    """The means are equal, and no answer is as it was."""
    golden = rs.load_golden(
        write_golden([{"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"]} for n in range(4)])
    )
    found, missed = [hit("c", "d", 1)], [hit("y", "x", 1)]
    runs = [
        write_run(name, [record(f"q{n}", found if n % 2 == odd else missed) for n in range(4)])
        for name, odd in (("a", 0), ("b", 1), ("again", 0))
    ]
    results = rs.load_results(runs)
    moved = {
        other: label_effect(results, golden, golden, "a", other, metrics="recall@5").deltas.iloc[0]
        for other in ("b", "again")
    }
    assert moved["b"][["system_effect", "n_moved"]].tolist() == [0, 4]
    assert moved["again"][["system_effect", "n_moved"]].tolist() == [0, 0]


def test_means_on_unchanged_queries_are_of_the_same_queries(write_golden, write_run):
    golden = rs.load_golden(write_golden([{"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"]}
                                          for n in range(3)]))  # fmt: skip
    # both fail on one query, and each has no time of its own there
    a = [record("q0", [], elapsed_ms=10.0), record("q1", [], elapsed_ms=20.0),
         record("q2", [], error="late")]  # fmt: skip
    b = [record("q0", [], error="late"), record("q1", [], elapsed_ms=30.0),
         record("q2", [], elapsed_ms=90.0)]  # fmt: skip
    results = rs.load_results([write_run("a", a), write_run("b", b)])
    row = label_effect(results, golden, golden, "a", "b", metrics="latency_ms").deltas.iloc[0]
    names = ["unchanged_baseline", "unchanged_candidate", "unchanged_delta", "n_unchanged"]
    assert row[names].tolist() == [20, 30, 10, 1]
