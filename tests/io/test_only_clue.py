"""Tables that one column alone makes what they seem, and that may be another thing."""

import pytest

import ragscore as rs
from tests.messages import refused

PASSAGE = "A passage of so many words that nobody would call it an id. It has two sentences."


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
    with refused("id", "query_id", field="columns") as error:
        load(records)
    assert error.value.columns == {"doc_id": None}
    kept = load(records, columns={"doc_id": None})
    frame = kept.responses if load is rs.load_results else kept.queries
    own = "x_id" if load is rs.load_results else "x_record_id"
    assert frame[own].tolist() == ["0b1c-0", "0b1c-1"]
    taken = load(records, columns={"doc_id": "id"})
    frame = taken.hits if load is rs.load_results else taken.targets
    assert frame["doc_id"].tolist() == ["0b1c-0", "0b1c-1"]


@pytest.mark.parametrize("more", [{"score": 0.5}, {"rank": 1}, {"text": PASSAGE}])
def test_an_id_beside_a_rank_a_score_or_a_text_is_a_hits(more):
    found = rs.load_results(rows(**QUERY, **RUN_ID, **more))
    assert found.hits["doc_id"].tolist() == ["0b1c-0", "0b1c-1"]


def test_an_id_beside_a_grade_is_judged():
    assert rs.load_golden(rows(**QUERY, **RUN_ID, grade=1)).targets["doc_id"].nunique() == 2


@pytest.mark.parametrize("name", ["expected", "gold", "target"])
def test_what_is_expected_may_be_an_answer(name):
    records = rows(**QUERY, **{name: lambda n: f"It is {n}."})
    with refused(name, field="columns") as error:
        rs.load_golden(records)
    assert error.value.columns == {"reference_answer": name}
    golden = rs.load_golden(records, columns=error.value.columns)
    assert golden.queries["reference_answer"].tolist() == ["It is 0.", "It is 1."]
    assert rs.load_golden(records, columns={"doc_id": name}).targets["doc_id"].nunique() == 2
    as_list = rows(**QUERY, **{name: lambda n: [f"d{n}"]})
    assert rs.load_golden(as_list).targets["doc_id"].tolist() == ["d0", "d1"]


@pytest.mark.parametrize("load", [rs.load_results, rs.load_golden])
def test_passages_are_not_taken_for_ids(load):
    records = rows(**QUERY, documents=lambda n: [f"{n}: {PASSAGE}", PASSAGE])
    with refused("documents", field="columns") as error:
        load(records)
    assert error.value.columns == {"text": "documents"}
    found = load(records, columns=error.value.columns)
    frame = found.hits if load is rs.load_results else found.targets
    assert len(frame) == 4 and frame["chunk_id"].str.startswith("text-").all()


def test_an_answer_alone_may_be_the_expected_one():
    records = rows(query=QUERY["query"], answer="five", question_type="simple")
    with refused("answer", "reference_answer", field="columns") as error:
        rs.load_results(records)
    assert (
        rs.load_results(records, columns=error.value.columns).responses["answer"].eq("five").all()
    )
    with refused("reference_answer", field="format") as error:
        rs.load_golden(records)
    golden = rs.load_golden(records, columns=error.value.columns)
    assert golden.queries["reference_answer"].tolist() == ["five", "five"]


@pytest.mark.parametrize(
    "more",
    [{"latency_ms": 5}, {"model": "m"}, {"refused": False}, {"doc_id": ["a"]}, {"cost_usd": 1}],
)
def test_an_answer_beside_what_only_a_run_has_is_the_systems(more):
    assert (
        rs.load_results(rows(**QUERY, answer="five", **more)).responses["answer"].eq("five").all()
    )


@pytest.mark.parametrize("name", ["response", "prediction", "output", "generated_answer"])
def test_an_answer_that_is_called_as_a_systems_is_one(name):
    assert len(rs.load_results(rows(**QUERY, **{name: "five"})).responses) == 2


def test_steps_of_a_trace_are_no_queries():
    steps = rows(
        id=lambda n: f"s{n}", traceId="t", parentObservationId="s0", type="GENERATION", model="m",
        input="what?", output=lambda n: f"step {n}", question="what?",
    )  # fmt: skip
    with refused("traceId", "parentObservationId", field="columns"):
        rs.load_results(steps)
    named = rs.load_results(steps, columns={"query_id": "id", "answer": "output"})
    assert len(named.responses) == 2
