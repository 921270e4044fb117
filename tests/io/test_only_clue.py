"""Tables that one column alone makes what they seem, and that may be another thing."""

import pytest

import ragscore as rs
from tests.messages import warned

OWN = [{"query_id": f"q{n}", "query": f"what is {n}?", "id": f"0b1c-{n}", "response": "so",
        "reference_answer": "so"} for n in range(2)]  # fmt: skip


@pytest.mark.parametrize(
    ("load", "asked", "named", "own"),
    [
        (rs.load_results, "responses", "hits", "x_id"),
        (rs.load_golden, "queries", "targets", "x_record_id"),
    ],
)
def test_a_records_own_id_is_not_taken_for_a_documents(load, asked, named, own):
    kept, taken = load(OWN), load(OWN, columns={"doc_id": "id"})
    assert getattr(kept, asked)[own].tolist() == ["0b1c-0", "0b1c-1"]
    mapping = kept.mapping if load is rs.load_results else kept._mapping
    assert ["x_id", "id"] in mapping.values.tolist()
    assert getattr(taken, named)["doc_id"].tolist() == ["0b1c-0", "0b1c-1"]


def test_steps_of_a_trace_are_no_queries():
    step = {"traceId": "t", "parentObservationId": "s0", "type": "GENERATION", "model": "m"}
    steps = [step | {"id": one, "input": "what?", "question": "what?", "output": one}
             for one in ("s1", "s2")]  # fmt: skip
    assert len(rs.load_results(steps).responses) == 1, "of the trace"
    named = rs.load_results(steps, "table", {"query_id": "id", "answer": "output"})
    assert len(named.responses) == 2


def test_a_grade_that_is_none_refuses_no_query():
    rows = [{"query_id": "q", "doc_id": "d", "label": "irrelevant"}]
    with warned("1 of 1 queries carry no expectation"):
        assert rs.load_golden(rows, strict=False).queries["answerable"].isna().all()


def test_an_own_name_that_begins_as_ours_do_stays():
    hits = rs.load_results([{"query_id": "q", "doc_id": "d", "x_tokens": 3, "cost": 1}]).hits
    assert {"x_tokens", "x_cost"} < {*hits} and "x_x_tokens" not in hits


@pytest.mark.parametrize("first", [0, 1])
def test_an_answer_that_is_json_text_is_a_text_wherever_it_stands(first):
    texts = ['{"Port": 8080}', "x"]
    rows = [{"query_id": f"q{n}", "doc_id": ["a"], "answer": one, "reference_answer": one}
            for n, one in enumerate(texts[first:] + texts[:first])]  # fmt: skip
    answers = rs.load_results([{**row, "reference_answer": None} for row in rows]).responses
    labels = rs.load_golden([{**row, "answer": None} for row in rows]).queries
    assert sorted(answers["answer"]) == sorted(labels["reference_answer"]) == ["x", texts[0]]
