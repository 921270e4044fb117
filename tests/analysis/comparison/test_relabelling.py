"""New labels are not a better system: what changed between golden sets is named."""

import pytest
from conftest import THREE_QUERIES

import ragscore as rs


def test_a_recall_that_labels_raised_is_not_the_systems():
    """One run by the golden set before and after six of ten queries were labelled anew."""
    run = {f"q{n}": [f"d{n}"] for n in range(10)}
    old, new = (
        rs.load_golden({one: docs if n < n_right else ["unfindable"]
                        for n, (one, docs) in enumerate(run.items())})
        for n_right in (1, 7)
    )  # fmt: skip
    recalls = [rs.evaluate(run, one).summary("recall@5")["mean"].tolist() for one in (old, new)]
    assert recalls == [[0.1], [0.7]]
    assert new.diff(old)["change"].tolist() == ["relabelled"] * 6


def test_each_change_of_a_golden_set_has_its_name():
    more = {"query": "?", "expected_doc_ids": ["d"]}
    old = rs.load_golden([*THREE_QUERIES, {"id": "gone"} | more, {"id": "x"} | more])
    new = rs.load_golden([
        THREE_QUERIES[0] | {"expected_doc_ids": ["d1", "e1"]},
        THREE_QUERIES[1] | {"query": "other words"},
        THREE_QUERIES[2] | {"difficulty": "hard", "tags": ["t"]},
        {"id": "x", "query": "no", "answerable": False},
        {"id": "fresh"} | more,
    ])  # fmt: skip
    assert new.diff(old).set_index("query_id").T.to_dict("list") == {
        "q1": ["relabelled", "+e1"], "q2": ["reworded", ""],
        "q3": ["annotated", ""], "gone": ["removed", ""],
        "x": ["reworded and relabelled", "-d"], "fresh": ["added", ""],
    }  # fmt: skip
    assert not len(old.diff(old))


DOC = {"expected_doc_ids": ["d1"]}
EITHER = {"expected_doc_ids": [["d1", "e1"]]}


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        (DOC, EITHER, ""), (EITHER, DOC, ""), (EITHER, {"expected_doc_ids": [["d1", "f1"]]}, ""),
        ({"expected_doc_ids": [["d1", "e1"], "d2"]}, {"expected_doc_ids": [["d1", "e1"], "d3"]},
         "+d3, -d2"),
        (DOC, {"expected_doc_ids": [{"any": ["d1", "e1"], "grade": 2}]}, ""),
        (DOC, {"expected_doc_ids": {"d1": 2}}, ""),
        # whatever a metric reads is a label
        (DOC, DOC | {"must_contain": ["x"]}, ""), (DOC, DOC | {"expected_key_facts": ["x"]}, ""),
        (DOC, DOC | {"reference_answer": "x"}, ""), (DOC, DOC | {"folders": ["x"]}, ""),
        (DOC, DOC | {"expected_empty": True}, ""),
    ],
    ids=str,
)  # fmt: skip
def test_targets_that_came_and_went_are_named(before, after, what):
    old, new = (
        rs.load_golden([{"id": "q1", "query": "?"} | one, THREE_QUERIES[1]])
        for one in (before, after)
    )
    assert new.diff(old).to_numpy().tolist() == [["q1", "relabelled", what]]
