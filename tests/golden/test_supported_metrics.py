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
    assert (table["supported"] == (table["missing"] == "")).all()
    assert (table["supported"] == (table["n"] > 0)).all()
    return table.set_index("metric")


HIT = [hit("c1", "d1", 1)]
ANSWERED = record("q1", HIT, answer=answer("text", paths=["docs/d1.md"]))
# A golden set, a run, what is supported, and what is not, with what it lacks.
SOURCES = {
    "a golden set alone": (
        THREE_QUERIES, None, [],
        {"recall@k": ["hits of a run"], "refusal_correct": ["answerable: false"],
         "latency_ms": []},
    ),
    "a run alone supports what needs no label": (
        None, ANSWERED, ["empty", "failed", "latency_ms", "citation_present", "citation_coverage"],
        {"mrr": ["targets"], "recall@k": [], "answer_checks": [], "refusal_correct": [],
         "cost_usd": [], "passed": []},
    ),
    "both": (
        THREE_QUERIES, record("q1", HIT),
        ["hit@k", "recall@k", "recall_all@k", "ndcg@k", "mrr", "passed"], {"answer_checks": []},
    ),
    # no query names a folder or a support, and none a key fact: neither metric has a value
    "what a metric does not apply without": (
        THREE_QUERIES, record("q1", HIT, scope={"folders": ["docs"]}), [],
        {"scope_miss": ["folders", "anchors"], "key_facts": ["judgments", "key_facts"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_missing_is_said(name, write_golden, write_run):
    golden, run, supported, lacking = SOURCES[name]
    given = [write_golden(golden)] if golden else []
    table = told(*given, *([write_run("a", [run])] if run else []))
    assert table["supported"][supported].all()
    assert not table["supported"][[*lacking]].any()
    assert run or not table["supported"].any()
    for metric, named in lacking.items():
        says(table["missing"][metric], *named)


def test_a_supported_metric_has_values_and_an_unsupported_one_has_none(loaded):
    # Only columns are looked at; scoring is the judge of whether it was right.
    rows = [
        *THREE_QUERIES,
        {"id": "q4", "query": "?", "answerable": False},
        {"id": "q5", "query": "?", "must_contain": ["x"]},
    ]
    records = [
        ANSWERED,
        record("q4", [], answer=answer("no", grounded=False)),
        record("q5", [], answer=answer("x")),
    ]
    results, golden = loaded(rows, {"a": records})
    table = told(golden, results)
    labels = {name: name.replace("@k", "@5").replace("@r", "@0.5") for name in table.index}
    with pytest.warns(UserWarning):
        scores = rs.score(results, golden, list(labels.values()))
    has_value = {name: bool(scores[label].notna().any()) for name, label in labels.items()}
    assert has_value == table["supported"].to_dict()


@pytest.mark.parametrize(
    ("file", "supported", "lacking"),
    [
        ("ragas_result.csv", ["recall@k"], ["latency_ms"]),
        ("promptfoo_results.json", ["latency_ms", "cost_usd", "answer_checks"], []),
    ],
)
def test_another_tool_s_file_is_asked_for_labels_and_results_at_once(file, supported, lacking):
    found = told(FIXTURES / file)["supported"]
    assert found[supported].all() and not found[lacking].any()


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
    assert table["levels"]["recall@k"] == "chunk, doc"
