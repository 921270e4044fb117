"""The metrics that golden files, runs and other tools' files support, alone and together."""

from pathlib import Path

import pytest
from conftest import THREE_QUERIES, answer, hit, record

import ragscore as rs
from tests.messages import refused, says

FIXTURES = Path(__file__).parents[1] / "fixtures"


def told(*sources):
    table = rs.supported_metrics(*sources)
    assert table["metric"].tolist() == rs.metrics()["name"].tolist()
    assert (table["supported"] == (table["missing"] == "")).all() and (
        table["supported"] == (table["n"] > 0)
    ).all()
    return table.set_index("metric")


def test_a_golden_set_alone_lacks_what_a_run_would_bring(write_golden):
    table = told(write_golden(THREE_QUERIES))
    assert not table["supported"].any()
    assert table.loc["recall@k", ["missing", "levels"]].tolist() == ["hits of a run", "chunk, doc"]
    says(table["missing"]["refusal_correct"], "answerable: false")
    says(table["missing"]["latency_ms"])


def test_a_run_alone_supports_what_needs_no_label(write_run):
    table = told(
        write_run(
            "a", [record("q1", [hit("c1", "d1", 1)], answer=answer("text", paths=["docs/d1.md"]))]
        )
    )
    assert table["supported"][
        ["empty", "failed", "latency_ms", "citation_present", "citation_coverage"]
    ].all()
    assert not table["supported"][
        ["recall@k", "mrr", "answer_checks", "refusal_correct", "cost_usd", "passed"]
    ].any()
    says(table["missing"]["mrr"], "targets")


def test_both_together_support_ranking_metrics(write_golden, write_run):
    table = told(write_golden(THREE_QUERIES), write_run("a", [record("q1", [hit("c1", "d1", 1)])]))
    assert table["supported"][["hit@k", "recall@k", "ndcg@k", "mrr", "passed"]].all()
    assert table["supported"]["recall_all@k"]
    says(table["missing"]["answer_checks"])


def test_a_supported_metric_has_values_and_an_unsupported_one_has_none(write_golden, write_run):
    # Only columns are looked at; scoring is the judge of whether it was right.
    golden = rs.load_golden(
        write_golden(
            [
                *THREE_QUERIES,
                {"id": "q4", "query": "?", "answerable": False},
                {"id": "q5", "query": "?", "must_contain": ["x"]},
            ]
        )
    )
    records = [
        record("q1", [hit("c1", "d1", 1)], answer=answer("text", paths=["docs/d1.md"])),
        record("q4", [], answer=answer("no", grounded=False)),
    ]
    results = rs.load_results(write_run("a", [*records, record("q5", [], answer=answer("x"))]))
    table = told(golden, results)
    labels = {name: name.replace("@k", "@5").replace("@r", "@0.5") for name in table.index}
    with pytest.warns(UserWarning):
        scores = rs.score(results, golden, list(labels.values()))
    has_value = {name: bool(scores[label].notna().any()) for name, label in labels.items()}
    assert has_value == table["supported"].to_dict()


def test_another_tool_s_file_is_asked_for_labels_and_results_at_once():
    table = told(FIXTURES / "ragas_result.csv")
    assert (
        table["supported"]["recall@k"]
        and table["levels"]["recall@k"] == "chunk"
        and not table["supported"]["latency_ms"]
    )
    assert told(FIXTURES / "promptfoo_results.json")["supported"][
        ["latency_ms", "cost_usd", "answer_checks"]
    ].all()


def test_a_file_that_is_neither_is_one_error(tmp_path):
    (tmp_path / "x.json").write_text('{"a": 1}', encoding="utf-8")
    with refused(1, "a", file="x.json"):
        rs.supported_metrics(tmp_path / "x.json")


def test_for_columns_that_tell_nothing_a_mapping_is_proposed(tmp_path):
    (tmp_path / "x.csv").write_text("topic,gave\nq1,d1\n", encoding="utf-8")
    proposed = 'columns={"query_id": "topic", "doc_id": "???"}'
    with refused(
        "csv",
        'topic="q1", gave="d1"',
        proposed,
        file="x.csv",
    ):
        rs.supported_metrics(tmp_path / "x.csv")
    golden = rs.load_golden(tmp_path / "x.csv", columns={"query_id": "topic", "doc_id": "gave"})
    assert told(golden, {"q1": ["d1"]})["supported"]["mrr"]


def test_a_query_that_several_levels_and_checks_know_counts_once(write_golden, write_run):
    # q1: chunks and documents; q2: texts of the answer, too; q3: to refuse
    golden = write_golden(
        [
            {"id": "q1", "query": "?", "expected_chunk_ids": ["c1"], "expected_doc_ids": ["d1"]},
            {"id": "q2", "query": "?", "expected_doc_ids": ["d2"], "must_contain": ["x"]},
            {"id": "q3", "query": "?", "answerable": False},
        ]
    )
    run = write_run("a", [record(f"q{n}", [hit("c1", "d1", 1)]) for n in range(1, 6)])
    table = told(golden, run)
    assert table["n"][["found", "passed", "recall@k", "answer_checks"]].tolist() == [3, 3, 2, 0]


def test_what_a_metric_does_not_apply_without_is_asked_for(write_golden, write_run):
    # No query names a folder or a support, and none a key fact: neither metric has a value.
    run = write_run("a", [record("q1", [hit("c1", "d1", 1)], scope={"folders": ["docs"]})])
    table = told(write_golden(THREE_QUERIES), run)
    assert not table["supported"]["scope_miss"] and not table["supported"]["key_facts"]
    says(table["missing"]["scope_miss"], "folders", "anchors")
    says(table["missing"]["key_facts"], "judgments", "key_facts")
