"""A column that is called as a role is has it, or is refused with its row; none is left out."""

import json

import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused, warned

GOLDEN = rs.load_golden({"q1": ["d1"], "q2": ["d2"]})
NAMES = ("run_id", "system", "tag")


def two_runs(name, first, second):
    """Two runs: one finds the document of each query, the other that of the other one."""
    found = [("q1", "d1", first), ("q2", "d2", first), ("q1", "d2", second), ("q2", "d1", second)]
    return [{"query_id": query, "doc_id": doc, name: run} for query, doc, run in found]


TEXTS = {
    "text": ("a", "b"),
    "nan": ("nan", "b"),
    "True": ("True", "False"),
    "numbers": (1, 2),
    "two lines": ("a\nb", "c"),
    "a list": ("[a]", "[b]"),
    "decimal texts": ("0.1", "0.2"),
    "yes and no": ("yes", "no"),
    "long": ("a" * 201, "b" * 201),
    "many words": ("a run of more words than a name has", "b"),
}
OTHERS = {
    "decimals": (0.1, 0.2),
    "a boolean and its text": (True, "True"),
    "mappings": ({"a": 1}, {"a": 2}),
    "lists": (["a"], ["b"]),
    "a missing one": ("a", None),
    "booleans": (True, False),
    "tuples": (("a", 1), ("a", 2)),
    "dates": (pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-02")),
    "bytes": (b"a", b"b"),
}


def shapes(records, name):
    """The records as every kind of source that holds any values."""
    columns = {column: [row[column] for row in records] for column in records[0]}
    per_query = [
        {"query_id": row["query_id"], "retrieved": [row["doc_id"]], name: row[name]}
        for row in records
    ]
    return {
        "frame": pd.DataFrame({one: pd.Series(values) for one, values in columns.items()}),
        "records": records,
        "per query": per_query,
    }


def of_each(values, others):
    """Each kind of values under the first name (the last ones slowly), these under the others."""
    return pytest.mark.parametrize(
        ("name", "values"),
        [
            *((name, values[kind]) for name in NAMES[1:] for kind in others),
            *(
                pytest.param(NAMES[0], one, marks=[pytest.mark.slow] * (n >= 5))
                for n, one in enumerate(values.values())
            ),
        ],
    )


@of_each(TEXTS, ("text", "numbers"))
def test_a_column_that_names_runs_keeps_them_apart(name, values, tmp_path):
    records = two_runs(name, *values)
    pd.DataFrame(records).to_csv(tmp_path / "a.csv", index=False)
    for kind, source in (shapes(records, name) | {"CSV": tmp_path / "a.csv"}).items():
        results = rs.load_results(source)
        assert results.runs["run_id"].astype("str").to_list() == list(map(str, values)), kind
    means = rs.score(results, GOLDEN, ["mrr"]).groupby("run_id")["mrr"].mean()
    assert means.to_dict() == {str(values[0]): 1.0, str(values[1]): 0.0}


@of_each(OTHERS, ("booleans",))
def test_what_names_no_run_is_refused_with_its_row(name, values):
    for kind, source in shapes(two_runs(name, *values), name).items():
        with refused(field=name) as caught:
            rs.load_results(source)
        assert caught.value.line is not None, kind


@pytest.mark.parametrize(
    ("field", "n"),
    [("run_id", 2), ("run_name", 2), ("run", 2), ("system", 2), ("run_id", 6000)],
)
def test_a_run_file_of_two_runs_is_refused(field, n, tmp_path):
    file = tmp_path / "per_query.jsonl"
    hits = [{"rank": 1, "doc_id": "a", "snippet": "x" * 20}]
    file.write_text(
        "\n".join(
            json.dumps({"query_id": f"q{i}", field: "AB"[i == n - 1], "hits_top_k": hits})
            for i in range(n)
        )
    )
    with refused("A", "B", field=field):
        rs.load_results(file)
    apart = rs.load_results(file, format="table")
    assert apart.runs["run_id"].to_list() == ["A", "B"]


def test_no_column_has_a_role_that_is_given_to_none():
    rows = [{"query_id": "q1", "doc_id": "d1", "system": {"name": "m"}}]
    with refused("run_id", file="records", line=1, field="system"):
        rs.load_results(rows)
    results = rs.load_results(rows, columns={"run_id": None})
    assert results.runs["run_id"].to_list() == ["run"]
    assert results.hits["x_system.name"].to_list() == ["m"]


def test_a_number_in_a_path_is_a_position_and_a_name_is_that_of_each_in_a_list():
    rows = [{"query_id": "q", "steps": [{"hits": [{"key": "a"}]}, {"hits": [{"key": "b"}]}]}]
    for path, ids in (("steps.1.hits.key", ["b"]), ("steps.0.hits.0.key", ["a"])):
        loaded = rs.load_results(rows, columns={"query_id": "query_id", "doc_id": path})
        assert loaded.hits["doc_id"].tolist() == ids


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([{"query_id": one, "doc_id": "d", "hops": n} for n, one in enumerate("abc")], None),
        ([{"query_id": "q", "doc_id": one, "year": 2000} for one in "abc"], None),
        (
            [{"query_id": "q", "doc_id": one, "n": int(one > "a")} for one in "abc"],
            {"grade": None},
        ),
    ],
    ids=["a row per query", "large numbers", "said to be none"],
)
def test_other_numbers_beside_judged_ids_are_silent(rows, columns):
    assert len(rs.load_golden(rows, columns=columns).targets) == 3


# What one column alone makes a table seem, and what may be another thing

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


# Repeats are the same question asked of the same system again; what is another one is said


def records(**own):
    """Two records of each question, which differ in a field of their own."""
    ((name, values),) = own.items()
    questions = ("one?", "two?")
    return [{"query": q, "doc_id": ["a"], name: value} for q in questions for value in values]


def test_further_answers_are_repeats_unless_a_column_names_their_systems():
    found = records(locale=("de", "en"))
    with warned("records", 2, "one?", "two?"):  # by their texts, not by hashes
        assert rs.load_results(found).runs["run_id"].tolist() == ["run", "run-r2"]
    # with an option, nothing is to be said any more
    for columns, runs in (
        ({"run_id": "locale"}, ["de", "en"]),
        ({"repeat": None}, ["run", "run-r2"]),
    ):
        assert rs.load_results(found, columns=columns).runs["run_id"].tolist() == runs


@pytest.mark.parametrize(("name", "values"), [("session", ("x", "y")), ("sessionId", (17, 18))])
def test_without_ids_records_of_several_conversations_are_several_queries(name, values):
    results = rs.load_results(records(**{name: values}))
    assert len(results.runs) == 1 and results.responses["query_id"].is_unique
    assert results.responses["conversation"].tolist() == [str(one) for one in values] * 2


def test_two_questions_under_one_id_are_refused_unless_the_column_is_no_id():
    found = [{"ID": 1, "query": query, "doc_id": ["a"]} for query in ("what?", "who?")]
    with refused("1", "what?", "who?", line=2, field="query"):
        rs.load_results(found)
    assert len(rs.load_results(found, columns={"query_id": None}).responses) == 2


@pytest.mark.parametrize("name", ["query", "answer", "session_id"])
def test_one_row_per_hit_has_one_question_answer_and_session_for_each_query(name):
    hits = [{"qid": 1, "doc_id": doc, name: text} for doc, text in (("a", "x"), ("b", "y"))]
    with refused("x", "y", line=2, field=name):
        rs.load_results(hits)
    hits[1][name] = "x"
    assert len(rs.load_results(hits).hits) == 2


def test_errors_of_labels_name_a_query_by_its_text():
    rows = [{"query": "what?", "doc_id": ["a"], "category": one} for one in ("x", "y")]
    with refused("what?", line=2, field="category"):
        rs.load_golden(rows)
