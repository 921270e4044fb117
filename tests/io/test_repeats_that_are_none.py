"""A repeat is the same question asked of the same system again; what is another one is said."""

import pytest

import ragscore as rs
from tests.messages import refused, warned


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
