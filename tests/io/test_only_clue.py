"""Tables that one column alone makes what they seem, and that may be another thing."""

import pytest

import ragscore as rs
from tests.messages import refused, warned


def rows(**fields):
    """Two rows; a field is a value, or a function of the number."""
    return [
        {name: one(n) if callable(one) else one for name, one in fields.items()} for n in range(2)
    ]


QUERY = {"query_id": lambda n: f"q{n}", "query": lambda n: f"what is {n}?"}
RUN_ID = {"id": lambda n: f"0b1c-{n}"}


@pytest.mark.parametrize("load", [rs.load_results, rs.load_golden])
def test_a_records_own_id_is_not_taken_for_a_documents(load):
    records = rows(**QUERY, **RUN_ID, status="success", response="so", reference_answer="so")
    kept = load(records)
    frame = kept.responses if load is rs.load_results else kept.queries
    own = "x_id" if load is rs.load_results else "x_record_id"
    assert frame[own].tolist() == ["0b1c-0", "0b1c-1"]
    mapping = kept.mapping if load is rs.load_results else kept._mapping
    assert ["x_id", "id"] in mapping.values.tolist()
    taken = load(records, columns={"doc_id": "id"})
    frame = taken.hits if load is rs.load_results else taken.targets
    assert frame["doc_id"].tolist() == ["0b1c-0", "0b1c-1"]


def test_steps_of_a_trace_are_no_queries():
    steps = rows(
        id=lambda n: f"s{n}", traceId="t", parentObservationId="s0", type="GENERATION", model="m",
        input="what?", output=lambda n: f"step {n}", question="what?",
    )  # fmt: skip
    assert len(rs.load_results(steps).responses) == 1, "of the trace"
    by = {"query_id": "id", "answer": "output"}
    named = rs.load_results(steps, "table", by)
    assert len(named.responses) == 2


@pytest.mark.parametrize(
    ("grades", "said"), [([1], "all 1"), ([0, 1, 2], "whole numbers from 0 to 2")]
)
def test_scores_that_look_like_grades_are_said_to(grades, said):
    records = [
        {"query-id": f"q{n}", "corpus-id": f"d{d}", "score": grades[(n + d) % len(grades)]}
        for n in range(5)
        for d in range(4)
    ]
    with warned(said, "rs.load_golden"):
        assert len(rs.load_results(records).hits) == 20
    assert len(rs.load_golden(records).targets) == 20
    rs.load_results(records[:19])
    rs.load_results([one | {"score": one["score"] + 0.5} for one in records])


def test_a_description_of_something_is_no_golden_set():
    described = {"name": "mmlu", "description": "what it is", "tags": ["knowledge", "choice"]}
    with refused("name"):
        rs.load_golden(described)
    with refused("q1"):
        rs.load_golden({"q1": "a text of more words than the id of any document would have"})
    assert rs.load_golden({"q1": "d1", "q2": "d2"}).targets["doc_id"].tolist() == ["d1", "d2"]


def test_a_grade_that_is_none_refuses_no_query():
    rows = [{"query_id": "q", "doc_id": "d", "label": "irrelevant"}]
    with warned("1 of 1 queries carry no expectation"):
        assert rs.load_golden(rows, strict=False).queries["answerable"].isna().all()


def test_an_own_name_that_begins_as_ours_do_stays():
    hits = rs.load_results([{"query_id": "q", "doc_id": "d", "x_tokens": 3, "cost": 1}]).hits
    assert {"x_tokens", "x_cost"} < {*hits} and "x_x_tokens" not in hits
