"""Real files beside the checkout: each is opened by one line, or refused by its name.

What is read contradicts none of the facts that are known of them.
"""

import json
import warnings
from pathlib import Path

import pandas as pd
import pytest

import ragscore as rs
from ragscore.analysis.extras.runs import traces

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


@pytest.mark.slow
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
    "llmjudge-submissions/NISTRetrieval-instruct0.txt": (25, 4423, [1115, 2092, 1216]),
    "mtrag-human/qrels/clapnq.tsv": (208, 578, [0, 578]),
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
    "deepeval-promptfoo/promptfoo-results.json": (1, 3, 0, 6),  # 3 with the success
    "inspect-logs/log_streaming.eval": (2, 4, 0, 4),
    "trec-cast-2021/org_convdr.run.gz": (1, 239, 15898, 0),
}


@pytest.mark.parametrize(("file", "known"), RESULTS.items(), ids=list(RESULTS))
def test_results_are_as_many_as_the_file_holds(file, known):
    results = opened(rs.load_results, file)
    n_reported = 0 if results.reported is None else len(results.reported)
    assert (len(results.runs), len(results.responses), len(results.hits), n_reported) == known


PHOENIX = "phoenix-export-agent-trace/phoenix_{}_spans_20250821_125133.jsonl"
FIRST = "3bd1baa0-935f-4ffb-8ecf-1bf60006f499"
WRAPPED = "langsmith-runs/langsmith_py_wrap_openai_{}.json"
GENAI = "openinference-genai/{}.json"
SPANS = {  # file: documents of each call, the first one's id; sessions, turns, spans of each trace,
    # orphans
    PHOENIX.format("retriever"): ([10, 0, 0, 8], FIRST, 0, 0, [8], 4),  # the wrappers, whose
    # parent is elsewhere
    PHOENIX.format("chromadb"): ([], None, 0, 0, [25, 27, 27, 27], 4),
    PHOENIX.format("chain") + ".gz": ([], None, 0, 0, [26], 14),
    PHOENIX.format("llm") + ".gz": ([], None, 0, 0, [34], 17),  # each complete is in its acomplete
    "otel-sdk-agent-spans/URS-026_all_spans.jsonl.gz": (
        [10, 0, 0, 8], FIRST, 0, 0, [1] * 12 + [14, 16, 33, 78], 14
    ),
    "trulens-otel-spans/test_otel_tru_llama__test_smoke.csv": ([3], None, 0, 0, [7], 0),
    "trulens-otel-spans/retrieval_span.json": ([4], None, 0, 0, [1], None),
    "phoenix-rest-turn/pxi_turn_trace.json": ([], None, 1, 1, [18], 0),
    "phoenix-rest-turn/pxi_suggestion_traces.json": ([], None, 1, 3, [10, 10, 11], 0),
    "langfuse-traces/agno-2025-06-11.trace.json": (None, None, 1, 1, [6], 0),
    "langfuse-traces/langgraph-python-2025-08-22.trace.json": (None, None, 0, 0, [9], 0),
    "langfuse-traces/beeai-2025-08-01.trace.json": (None, None, 0, 0, [29], 0),
    "langfuse-traces/openai-agents-2025-09-30.trace.json": ([], None, 0, 0, [5], 0),
    WRAPPED.format(""): ([], None, 0, 0, [1], 0),
    WRAPPED.format("reasoning"): ([], None, 0, 0, [1], 0),
    GENAI.format("otel_genai_client_span_tool_calls"): (None, None, 0, 0, [1], 0),
    GENAI.format("otel_genai_tool_execution_span"): ([], None, 0, 0, [1], None),
}  # fmt: skip


@pytest.mark.parametrize(("file", "known"), SPANS.items(), ids=list(SPANS))
def test_no_span_is_lost_and_each_search_is_a_call_with_its_documents(file, known):
    results = opened(rs.load_results, file)
    n_documents, first, n_sessions, n_turns, n_spans, n_orphans = known
    read = traces(results).iloc[0]
    assert (read["n_sessions"], read["n_turns"], read["n_traces"], read["n_spans"]) == (
        n_sessions, n_turns, len(n_spans), sum(n_spans),
    )  # fmt: skip
    assert sorted(results.responses["x_n_spans"]) == n_spans
    assert n_orphans in (None, read["n_orphans"])
    calls = [] if results.calls is None else results.calls["n_hits"].tolist()
    assert n_documents in (None, calls) and len(results.hits) == sum(n_documents or ())
    if first is not None:
        assert results.hits["chunk_id"].iloc[0] == first
        assert results.hits["score"].iloc[0] == pytest.approx(0.4897047304)
        assert results.calls["query"].nunique() == 1


STORED = {  # Langfuse's scores of the trace
    "agno-2025-06-11": {},
    "langgraph-python-2025-08-22": {"hallucination": 0.1, "toxicity": 0},
    "beeai-2025-08-01": {"hallucination": 0.2, "toxicity": 0},
    "openai-agents-2025-09-30": {"toxicity": 0.8, "hallucination": 0},
}


@pytest.mark.parametrize(("name", "known"), STORED.items(), ids=list(STORED))
def test_scores_of_a_trace_are_reported_values(name, known):
    results = opened(rs.load_results, f"langfuse-traces/{name}.trace.json")
    found = results.reported
    assert known == ({} if found is None else found.set_index("metric")["value"].to_dict())
    session = results.responses.get("conversation")
    is_agno = name.startswith("agno")
    assert (session is not None) == is_agno
    assert not is_agno or session.tolist() == ["35cc6c90-b657-4819-b66c-c931c03ad569"]


CONVENTIONS = ("otel_genai_client_span_tool_calls", "otel_genai_deprecated_client_span_tool_calls",
         "openinference_client_span_tool_calls",
         "openinference_client_span_input_output_only")  # fmt: skip


@pytest.mark.parametrize("name", CONVENTIONS)
def test_attributes_alone_say_the_same_in_each_convention(name):
    row = opened(rs.load_results, GENAI.format(name)).responses.iloc[0]
    assert row["query"] == "Weather in Paris?"
    assert row["answer"].startswith("The weather in Paris is currently rainy")
    assert (row["prompt_tokens"], row["completion_tokens"]) == (97, 52)


NOT_READ = {  # file: who reads the frame that the message's line makes
    "mteb-results/minilm-SciFact.json": None,
    "every-eval-ever/98ea850e-7019-4728-a558-8b1819ec47c2.json": None,
    "every-eval-ever/f3a1c0de-4b2e-4c1a-9f6d-1b7e5a2c8d40_samples.jsonl": rs.load_results,
    "lm-eval-helm/results_2026-01-21T03-44-18.458309.json": None,
    "lm-eval-helm/helm/mmlu-subject=philosophy,method=multiple_choice_joint,model=openai_gpt2/"
    "per_instance_stats.json": rs.load_results,
    "opensearch-esci-ubi/esci_us_judgments.json": rs.load_golden,
    "kebab-eval/compare-1.json": None,
}  # fmt: skip


@pytest.mark.parametrize("file", NOT_READ)
def test_what_is_not_read_is_refused_with_the_line_that_makes_a_frame_of_it(file):
    for refuse in (rs.load_results, rs.load_golden):
        with pytest.raises(rs.DataError) as caught:
            refuse(DATA / file)
    line = caught.value.allowed.removeprefix("its rows: ")
    frame = eval(line, {"pd": pd, "json": json, "path": DATA / file})
    assert len(frame) and (NOT_READ[file] is None or str(NOT_READ[file](frame)))


@pytest.mark.filterwarnings("ignore:golden queries without a row")  # of the 24 repeats
def test_an_agents_run_files_give_the_published_recall_and_counts():
    folder = DATA / "browsecomp-plus-bm25-agent"
    results = opened(rs.load_results, folder / "single_gpt_4.1.jsonl.gz")
    assert results.runs["n_queries"].tolist() == [830, 24]  # 24 queries have two files
    counts = results.responses["x_tool_call_counts.search"]
    assert (counts.min(), counts.max(), counts.eq(4).sum(), counts.eq(5).sum()) == (1, 10, 216, 200)
    assert counts.mean() == pytest.approx(4.9391, abs=5e-5)
    first = counts[~results.responses["query_id"].duplicated()]
    assert first.mean() == pytest.approx(4.9374, abs=1e-4)
    sizes = results.hits.groupby(["run_id", "query_id"], observed=True)["doc_id"]
    assert sizes.size().mean() == pytest.approx(13.16, abs=5e-3)
    assert (sizes.nunique() == sizes.size()).all()
    for labels, recall in (("evidence", 0.0736), ("golds", 0.1051)):
        scores = rs.score(results, opened(rs.load_golden, folder / f"qrel_{labels}.txt"),
                          ["set_recall"])  # fmt: skip
        latest = scores[scores["state"] == "scored"]
        latest = latest[~latest.index.duplicated(keep="last")]
        assert len(latest) == 830 and latest["set_recall"].mean() == pytest.approx(recall, abs=5e-5)


def test_an_agents_stored_verdicts_count_the_unknown_as_unknown():
    results = rs.load_results(
        DATA / "browsecomp-plus-bm25-agent/eval_summary.json",
        columns={"query_id": "query_id", "score.correct": "correct"},
    )
    assert results.reported["value"].value_counts().to_dict() == {0: 731, 1: 74}
    assert results.judgments["verdict"].tolist() == ["unknown"] * 25
    assert results.responses["x_tool_calls.search"].mean() == pytest.approx(4.9349, abs=5e-5)


REAL = [  # file, metric, and its number of items and mean as they are known
    ("inspect-logs/2025-02-11*.eval", "match", 10, 0.8),
    ("inspect-logs/mmlu*.eval", "choice", 1, 0.0),
    ("inspect-logs/*security-guide.json", "model_graded_fact", 3, 1.0),
    ("inspect-logs/*browser.json.gz", "includes", 1, 1.0),
    ("lm-eval-helm/samples_*.jsonl", "exact_match,none", 10, 0.0),
    ("deepeval-promptfoo/deepeval-latest_test_run.json", "success", 2, 0.5),
    ("deepeval-promptfoo/promptfoo-results.json", "success", 3, 2 / 3),
]


@pytest.mark.parametrize(("file", "metric", "n", "mean"), REAL)
def test_scores_of_real_files_have_the_means_that_are_known(file, metric, n, mean):
    ev = rs.evaluate(next(DATA.glob(file)))
    row = ev.summary(metric).iloc[0]
    assert (row["n"], row["mean"]) == (n, pytest.approx(mean, abs=5e-7))
    if file.startswith("inspect"):
        assert ev._declared.describe(metric).better == "higher"


def test_epochs_of_inspect_are_averaged_as_its_own_reductions_are():
    ev = rs.evaluate(DATA / "inspect-logs/log_streaming.eval")
    letters = ev.scores.pivot(columns="run_id", values="match")
    assert letters.to_numpy().tolist() == [[0.0, 1.0], [1.0, 1.0]]
    row = ev._of_systems.summary("match").iloc[0]
    assert (row["mean"], row["n"], row["std"] / row["n"] ** 0.5) == (0.75, 2, pytest.approx(0.25))


def test_explanations_and_tool_calls_of_inspect_are_kept():
    logs = DATA / "inspect-logs"
    graded = rs.load_results(next(logs.glob("*security-guide.json"))).judgments
    assert graded["reason"].notna().all() and len(graded) == 3
    browser = rs.load_results(next(logs.glob("*browser.json.gz"))).responses
    called = ["web_browser_go", *["web_browser_click"] * 3]
    assert json.loads(browser["x_tool_calls.json"].iloc[0]) == called
