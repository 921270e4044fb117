"""Real files beside the checkout: each is opened by one line, or refused by its name.

What is read contradicts none of the facts that are known of them.
"""

import warnings
from pathlib import Path

import pytest

import ragscore as rs

DATA = Path(__file__).parents[3] / "shared" / "data"
NOT_DATA = {".md", ".sql"}
FILES = sorted(
    file for file in DATA.rglob("*") if file.is_file() and file.suffix not in NOT_DATA
)  # none where the folder is missing
pytestmark = pytest.mark.skipif(not FILES, reason="needs real files beside the checkout")


def opened(load, file):
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        return load(DATA / file)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("load", [rs.load_results, rs.load_golden])
@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(DATA)))
def test_a_real_file_is_read_or_refused_by_its_name(load, file):
    try:
        assert str(opened(load, file))
    except rs.DataError as error:
        assert file.name in str(error) and error.found


GOLDEN = {  # file: queries, targets, and the number of targets by grade where it is known
    "browsecomp-plus-bm25-agent/qrel_evidence.txt": (830, 5064, None),
    "browsecomp-plus-bm25-agent/qrel_golds.txt": (830, 2407, None),
    "llmjudge-submissions/willia-umbrela1.txt": (25, 4423, [2335, 1231, 608, 249]),
    "llmjudge-submissions/h2oloo-fewself.txt": (25, 4423, [2470, 732, 557, 664]),
    "llmjudge-submissions/Olz-gpt4o.txt": (25, 4423, [2258, 1274, 504, 387]),
    "llmjudge-submissions/TREMA-questions.txt": (25, 4423, [2450, 253, 767, 953]),
    "llmjudge-submissions/NISTRetrieval-instruct0.txt": (25, 4423, [1115, 2092, 1216]),
    "mtrag-human/qrels/clapnq.tsv": (208, 578, [0, 578]),
    "mtrag-human/qrels/fiqa.tsv": (180, 535, [0, 535]),
    "mtrag-human/qrels/cloud.tsv": (188, 494, [0, 494]),
    "mtrag-human/qrels/govt.tsv": (201, 521, [0, 521]),
    "trec-cast-2021/trec-cast-qrels-docs.2021.qrel.gz": (
        158, 19334, [13829, 2072, 1710, 1007, 716]
    ),
    "trec-rag25-nuggets/rag25-climbmix-umbrela-qwen3.5-9b-v2.qrels.gz": (
        22, 26341, [3434, 7661, 10992, 4184, 70]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("file", "known"), GOLDEN.items(), ids=list(GOLDEN))
def test_labels_are_as_many_as_the_file_holds(file, known):
    golden = opened(rs.load_golden, file)
    n_queries, n_targets, by_grade = known
    assert (len(golden.queries), len(golden.targets)) == (n_queries, n_targets)
    if by_grade:
        counts = golden.targets["grade"].value_counts()
        assert [int(counts.get(grade, 0)) for grade in range(len(by_grade))] == by_grade


RESULTS = {  # file: runs, responses, hits, reported values
    "browsecomp-plus-bm25-agent/single_gpt_4.1.jsonl.gz": (2, 854, 11238, 0),
    "deepeval-promptfoo/promptfoo-results.json": (1, 3, 0, 3),
    "inspect-logs/log_streaming.eval": (2, 4, 0, 4),
    "trec-cast-2021/org_convdr.run.gz": (1, 239, 15898, 0),
    "trec-cast-2021/org_manual_bm25.run.gz": (1, 239, 18570, 0),
}


@pytest.mark.parametrize(("file", "known"), RESULTS.items(), ids=list(RESULTS))
def test_results_are_as_many_as_the_file_holds(file, known):
    results = opened(rs.load_results, file)
    n_reported = 0 if results.reported is None else len(results.reported)
    counts = (len(results.runs), len(results.responses), len(results.hits), n_reported)
    assert counts == known


TRACES = {  # file: responses, documents of each call, the first document's id (None: it has none)
    "phoenix-export-agent-trace/phoenix_retriever_spans_20250821_125133.jsonl": (
        1, [10, 0, 0, 8], "3bd1baa0-935f-4ffb-8ecf-1bf60006f499"
    ),
    "phoenix-export-agent-trace/phoenix_chromadb_spans_20250821_125133.jsonl": (4, [], None),
    "phoenix-export-agent-trace/phoenix_chain_spans_20250821_125133.jsonl.gz": (1, [], None),
    "otel-sdk-agent-spans/URS-026_all_spans.jsonl.gz": (
        16, [10, 0, 0, 8], "3bd1baa0-935f-4ffb-8ecf-1bf60006f499"
    ),
    "trulens-otel-spans/test_otel_tru_llama__test_smoke.csv": (1, [3], None),
    "trulens-otel-spans/retrieval_span.json": (1, [4], None),
    "phoenix-rest-turn/pxi_turn_trace.json": (1, [], None),
    "phoenix-rest-turn/pxi_suggestion_traces.json": (3, [], None),
    "langsmith-runs/langsmith_py_wrap_openai_.json": (1, [], None),
    "langfuse-traces/openai-agents-2025-09-30.trace.json": (1, [], None),
}  # fmt: skip


@pytest.mark.parametrize(("file", "known"), TRACES.items(), ids=list(TRACES))
def test_spans_end_in_as_many_calls_as_there_were_searches(file, known):
    results = opened(rs.load_results, file)
    n_responses, n_documents, first = known
    calls = [] if results.calls is None else results.calls["n_hits"].tolist()
    assert (len(results.responses), calls) == (n_responses, n_documents)
    assert len(results.hits) == sum(n_documents)
    if first is not None:
        assert results.hits["chunk_id"].iloc[0] == first
        assert results.hits["score"].iloc[0] == pytest.approx(0.4897047304)
        assert results.calls["query"].nunique() == 1


TOOLS = {  # file and the pattern of its search tools: documents of each call, the first one
    ("agno-2025-06-11", "*search*"): ([5], "https://twitter.com/explore/tabs/trending/"),
    ("langgraph-python-2025-08-22", "*Search*"): ([1], "https://example.com"),
    ("beeai-2025-08-01", "*wikipedia.success*"): ([1], "https://en.wikipedia.org/wiki/Barcelona"),
    ("openai-agents-2025-09-30", "*search*"): ([], None),
}


@pytest.mark.parametrize(("named", "known"), TOOLS.items(), ids=[one for one, _ in TOOLS])
def test_searches_that_are_tools_are_calls_by_a_pattern_alone(named, known):
    name, pattern = named
    file = DATA / f"langfuse-traces/{name}.trace.json"
    assert opened(rs.load_results, file).calls is None
    results = rs.load_results(file, calls_from={"tool": pattern})
    n_documents, first = known
    assert n_documents == [] or results.calls["n_hits"].tolist() == n_documents
    assert first is None or results.hits["doc_id"].iloc[0] == first


def test_mean_searches_of_an_agents_runs_are_the_published_ones():
    results = opened(rs.load_results, "browsecomp-plus-bm25-agent/single_gpt_4.1.jsonl.gz")
    counts = results.responses.set_index("query_id")["x_tool_call_counts.search"]
    latest = counts[~counts.index.duplicated(keep="last")]  # of a query asked twice
    assert len(latest) == 830 and latest.mean() == pytest.approx(4.9349, abs=5e-5)


def test_the_view_of_a_real_query_shows_which_call_found_what():
    file = "phoenix-export-agent-trace/phoenix_retriever_spans_20250821_125133.jsonl"
    results = opened(rs.load_results, file)
    found = "055be98e-d369-4395-b0f1-fc1d3853c2cb"  # the first document of the fourth call
    asked = results.responses[["query_id", "query"]].iloc[0]
    golden = rs.load_golden(
        [{"id": asked["query_id"], "query": asked["query"], "expected_chunk_ids": [found]}]
    )
    view = rs.evaluate(results, golden).query(asked["query_id"])
    assert view.calls["n_hits"].tolist() == [10, 0, 0, 8]
    assert view.calls["found"].tolist() == ["", "", "", found]
    run_id = results.runs["run_id"].iloc[0]
    assert view.targets[[run_id, f"{run_id}: call"]].iloc[0].tolist() == [1, 4]
    assert repr(view).count("the query itself") == 4 and repr(view).count("no documents") == 2


def test_the_view_of_a_real_turn_shows_the_turns_before_it():
    folder = DATA / "trec-cast-2021"
    golden = rs.load_golden(
        folder / "trec-cast-qrels-docs.2021.qrel.gz",
        turns="(?P<conversation>[0-9]+)_(?P<turn>[0-9]+)",
    )
    assert golden.queries["conversation"].nunique() == 19 and len(golden.queries) == 158
    results = opened(rs.load_results, "trec-cast-2021/org_convdr.run.gz")
    turns = rs.evaluate(results, golden, "recall@5", missing="zero").query("106_3").turns
    assert turns["query_id"].tolist() == ["106_1", "106_2", "106_3"]
    assert turns["turn"].tolist() == [1, 2, 3]
