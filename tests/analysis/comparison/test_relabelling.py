"""New labels are not a better system: what changed between golden sets is told."""

import pytest
from conftest import THREE_QUERIES, hit, record

import ragscore as rs

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


def test_a_recall_that_labels_raised_is_not_the_systems(write_golden, write_run):
    """One system run twice with one config, and the golden set before and after it was labelled
    anew.
    """
    results = rs.load_results(
        [write_run(name, RECORDS, config=CONFIG) for name in ("monday", "friday")]
    )
    old, new = (
        rs.load_golden(write_golden(rows, name))
        for rows, name in ((OLD, "old.yaml"), (NEW, "new.yaml"))
    )
    by_old, by_new = (
        rs.evaluate(results, golden).summary("recall@5")["mean"].tolist() for golden in (old, new)
    )
    assert (by_old, by_new) == ([0.1, 0.1], [0.7, 0.7])
    assert new.diff(old)["change"].tolist() == ["relabelled"] * 6


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
        "q1": ["relabelled", "+e1"], "q2": ["reworded", ""],
        "q3": ["annotated", ""], "gone": ["removed", ""],
        "x": ["reworded and relabelled", "-d"], "fresh": ["added", ""],
    }  # fmt: skip
    assert not len(old.diff(old))


@pytest.mark.parametrize(
    "before, after, what",
    [
        (["d1"], [["d1", "e1"]], ""),
        ([["d1", "e1"]], [["d1", "f1"]], ""),
        ([["d1", "e1"]], ["d1"], ""),
        ([["d1", "e1"], "d2"], [["d1", "e1"], "d3"], "+d3, -d2"),
        (["d1"], [{"any": ["d1", "e1"], "grade": 2}], ""),
        (["d1"], {"d1": 2}, ""),
    ],
    ids=str,
)
def test_targets_that_came_and_went_are_named(write_golden, before, after, what):
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
