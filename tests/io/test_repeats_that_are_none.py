"""A repeat is the same question asked of the same system again; what may be another one is said."""

import pytest

import ragscore as rs
from tests.messages import refused, warned


def records(**own):
    """Two records of each question, which differ in a field of their own."""
    ((name, values),) = own.items()
    questions = ("one?", "two?")
    return [{"query": q, "doc_id": ["a"], name: value} for q in questions for value in values]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("user_locale", ("de", "en")),
        ("metadata", ({"thread_id": "1"}, {"thread_id": "2"})),
        ("chat_history", (["hello"], ["bye"])),
        ("pipeline", ("dense", "hybrid")),
    ],
)
def test_records_that_a_field_tells_apart_are_refused_as_repeats(name, values):
    field = "metadata.thread_id" if name == "metadata" else name
    with refused("one?", field, file="records", line=2, field=field):
        rs.load_results(records(**{name: values}))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("seed", ("1", "2")),
        ("latency", (1.5, 2.5)),
        ("context_precision", (0.5, 1.0)),
        ("note", ("x", "x")),
    ],
)
def test_records_that_no_such_field_tells_apart_are_repeats(name, values):
    with warned("records", 2, "one?", "two?"):  # by their texts, not by hashes
        results = rs.load_results(records(**{name: values}))
    assert results.runs["run_id"].tolist() == ["run", "run-r2"]


def test_whoever_knows_says_whether_a_field_names_runs_or_nothing():
    found = records(locale=("de", "en"))
    named = rs.load_results(found, columns={"run_id": "locale"})
    assert named.runs["run_id"].tolist() == ["de", "en"]
    with warned("one?"):
        repeats = rs.load_results(found, columns={"repeat": None})
    assert repeats.runs["run_id"].tolist() == ["run", "run-r2"]


@pytest.mark.parametrize(("name", "values"), [("session", ("x", "y")), ("turn_number", (1, 2))])
def test_records_of_one_id_that_a_place_in_conversations_tells_apart_are_refused(name, values):
    found = [one | {"id": "q", "query": "one?"} for one in records(**{name: values})[:2]]
    with refused("one?", name, file="records", line=2, field=name):
        rs.load_results(found)


@pytest.mark.parametrize(("name", "values"), [("session", ("x", "y")), ("sessionId", (17, 18))])
def test_without_ids_records_of_several_conversations_are_several_queries(name, values):
    results = rs.load_results(records(**{name: values}))
    assert len(results.runs) == 1 and results.responses["query_id"].is_unique
    assert results.responses["conversation"].tolist() == [str(one) for one in values] * 2


def test_a_load_that_is_not_strict_keeps_the_first_of_them_and_counts_the_others():
    results = rs.load_results(records(locale=("x", "y")), strict=False)
    assert results.responses["x_locale"].tolist() == ["x", "x"]
    assert results.problems[["line", "field"]].values.tolist() == [[2, "locale"]]
    assert "2 of 4 rows" in results.problems["found"][0]


def test_two_questions_under_one_id_are_refused_unless_the_column_is_no_id():
    found = [{"ID": 1, "query": query, "doc_id": ["a"]} for query in ("what?", "who?")]
    with refused("1", "what?", "who?", line=2, field="query_id"):
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
