"""Tables that one column alone makes what they seem, and that may be another thing."""

import json

import pytest

import ragscore as rs
from tests.messages import refused, warned

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
    kept = load(records)
    frame = kept.responses if load is rs.load_results else kept.queries
    own = "x_id" if load is rs.load_results else "x_record_id"
    assert frame[own].tolist() == ["0b1c-0", "0b1c-1"]
    mapping = kept.mapping if load is rs.load_results else kept._mapping
    assert ["x_id", "id"] in mapping.values.tolist()
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
    assert len(frame) == 4
    if load is rs.load_results:
        assert frame["chunk_id"].str.startswith("text-").all()
    else:
        assert frame["level"].eq("text").all() and PASSAGE in set(frame["snippet"])


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
    assert len(rs.load_results(steps).responses) == 1, "of the trace"
    by = {"query_id": "id", "answer": "output"}
    named = rs.load_results(steps, "table", by)
    assert len(named.responses) == 2


def test_a_text_beside_an_own_id_may_be_the_querys():
    records = rows(_id=lambda n: f"q{n}", text=lambda n: f"what is {n}?")
    with refused("text", "_id", field="columns") as error:
        rs.load_results(records)
    assert error.value.columns == {"query": "text"}
    hits = rs.load_results(records, columns={"text": "text"}).hits
    assert hits["text"].tolist() == ["what is 0?", "what is 1?"]


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


def test_a_file_that_may_be_two_things_gets_one_question(tmp_path):
    record = {"id": "1", "question": "a?", "output": {"pred": "x", "found": [{"id": "d1"}]}}
    (tmp_path / "log.jsonl").write_text(json.dumps(record), encoding="utf-8")
    with refused("output.pred", "output.found.id", file="log.jsonl", field="columns"):
        rs.supported_metrics(tmp_path / "log.jsonl")


def test_a_grade_that_is_none_refuses_no_query():
    rows = [{"query_id": "q", "doc_id": "d", "label": "irrelevant"}]
    with warned("1 of 1 queries carry no expectation"):
        assert rs.load_golden(rows, strict=False).queries["answerable"].isna().all()


def test_an_own_name_that_begins_as_ours_do_stays():
    hits = rs.load_results([{"query_id": "q", "doc_id": "d", "x_tokens": 3, "cost": 1}]).hits
    assert {"x_tokens", "x_cost"} < {*hits} and "x_x_tokens" not in hits
