"""Files of other tools, as the tools wrote them (tests/fixtures/README.md): what their rows
become.
"""

import json
import warnings
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused, says, warned

FIXTURES = Path(__file__).parents[2] / "fixtures"
MERGE, SORT = "q-171ef8156a46", "q-1d9da6f1bd39"  # hashes of the RAGAS file's first two questions


def both(source, results=None, golden=None, **options):
    """The runs and the labels of a file, by the columns of each; None where it has none."""
    found = SimpleNamespace(results=None, golden=None)
    with warnings.catch_warnings(), suppress(rs.DataError):
        warnings.filterwarnings("ignore", ".*no expectation", UserWarning)
        found.golden = rs.load_golden(source, columns=golden, strict=False)
    with suppress(rs.DataError):
        found.results = rs.load_results(source, columns=results, strict=False, **options)
    return found


@cache
def load(name):
    """A file of the fixtures, with the columns that its author would name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*more than once", UserWarning)
        return both(FIXTURES / name, **COLUMNS_OF.get(name, {}))


def rows_of(frame, where, found, columns):
    """The values of these columns where others have these texts; None is missing."""
    side, name = frame.split(".")
    part = getattr(found, side)
    rows, asked = getattr(part, name), part.queries if side == "golden" else part.responses
    for column, value in where.items():
        if column not in rows:  # the text of a question
            ids = asked.loc[asked[column] == value, "query_id"]
            rows = rows[rows["query_id"].isin(ids)]
        else:
            rows = rows[rows[column].astype("str") == value]
    shown = rows[columns.split()].astype(object)
    return shown.where(shown.notna(), None).to_numpy().tolist()


COLUMNS_OF = {
    "inspect_log.json": {
        "results": {"chunk_id": "metadata.sources"}, "golden": {"chunk_id": "metadata.gold"},
    },
    "promptfoo_results.json": {
        "results": {"chunk_id": "metadata.sources"},
        "golden": {"chunk_id": "testCase.metadata.gold"},
    },
    "phoenix_spans.csv": {
        "results": {
            "score.hit@1": "attributes.metadata.hit_at_1",
            "scorer_error.hit@1": "attributes.metadata.judge_error",
        },
        "golden": {"chunk_id": "attributes.metadata.gold"},
    },
}  # fmt: skip
UNPARSED = "the judge's reply could not be parsed"
MERGING = {"query": "How do I merge?"}
SYSTEM = {"run_id": "promptfoo_results.system"}
FIRST = {"run_id": "inspect_log-r1"}
JUDGE_FAILED = {"state": "judge_failed"}
PASSED = [1.0, "higher", 0.0, 1.0]
SAID = [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "B"}]
FACTS = {  # files, frame -> where, columns, and what stands there
    "ragas_dataset.* golden.queries": [
        ({"query_id": MERGE}, "reference_answer", [["Use pandas.merge."]]),
        ({"query_id": SORT}, "query", [["How do I sort? “Naïve” case, ünïcode"]]),
    ],
    "ragas_dataset.* golden.targets": [
        ({"query_id": SORT}, "chunk_id", [["sort#1"], ["sort#3"]]),
    ],
    "ragas_dataset.* golden.tags": [
        ({}, "kind value", [["persona_name", "analyst"], ["query_style", "PERFECT_GRAMMAR"]]),
    ],
    "ragas_dataset.* results.hits": [
        ({"query_id": SORT}, "chunk_id", [["groupby#1"], ["sort#1"], ["sort#2"]]),
    ],
    # a question that stands twice is a repeat
    "ragas_dataset.* results.runs": [
        ({}, "run_id repeat n_queries", [["ragas_dataset", 1, 4], ["ragas_dataset-r2", 2, 1]]),
    ],
    "ragas_dataset.* results.responses": [
        ({"query_id": MERGE}, "answer", [["Use merge."], ["Use join."]]),
        ({"query_id": SORT}, "answer", [["Use sort_values,\nor sort_index."]]),
    ],
    "ragas_dataset.* results.problems": [({}, "found", [])],
    "ragas_result.csv results.reported": [
        ({"query_id": MERGE, "run_id": "ragas_result"}, "metric value",
         [["faithfulness", 1.0], ["answer_relevance", 0.91], ["context_recall", 1.0],
          ["recall@3", 1.0], ["rouge_score(mode=fmeasure)", 0.8]]),
    ],
    # without an answer, a NaN is no judge's fault
    "ragas_result.csv results.judgments": [
        (JUDGE_FAILED, "criterion value reason", [["faithfulness", None, "NaN in the file"]]),
        ({"query": "What fails?"}, "criterion value state", [["context_recall", 0.0, "scored"]]),
    ],
    "ragas_experiment.csv results.runs": [({}, "repeat", [[1], [2]])],
    # two repeats of three questions; one stands in two tests, so that it was asked four times
    "promptfoo_results.json results.runs": [
        ({"system": one}, "n_queries", [[3], [3], [1], [1]]) for one in ("echo", "system")
    ],
    # an `error` of a row whose assertion failed is none; a cached answer has no time
    "promptfoo_results.json results.responses": [
        (SYSTEM, "query error elapsed_ms",
         [["How do I merge?", None, 7.0], ["How do I sort?", None, None],
          ["What fails?", "index unreachable", 7.0]]),
    ],
    "promptfoo_results.json results.judgments": [
        (SYSTEM, "criterion value reason judge state",
         [["helpfulness", 0.9, "helpful", "file:judge.js", "scored"],
          ["helpfulness", None, "Could not extract JSON from llm-rubric response",
           "file:judge.js", "judge_failed"]]),
    ],
    "promptfoo_results.json results.reported": [
        (MERGING | SYSTEM, "metric value better lowest highest",
         [["contains", *PASSED], ["not-contains", *PASSED], ["helpfulness", 0.9, *PASSED[1:]],
          ["hit@1", *PASSED], ["success", *PASSED]]),
    ],
    "promptfoo_results.json golden.checks": [
        (MERGING, "kind text",
         [["must_contain", "merge"], ["must_contain", "Use"], ["forbidden", "concat"]]),
    ],
    "promptfoo_results.json golden.queries": [
        ({"query": "How do I sort?"}, "reference_answer", [["use sort_values"]]),
    ],
    "promptfoo_results.json results.hits": [
        (MERGING | SYSTEM, "chunk_id", [["merge#1"], ["concat#1"]]),
    ],
    "inspect_log.json results.runs": [
        ({}, "run_id system n_failed", [["inspect_log-r1", "mockllm/model", 1],
                                        ["inspect_log-r2", "mockllm/model", 1]]),
    ],
    # the working time, not the total
    "inspect_log.json results.responses": [
        (FIRST, "query_id query error answer elapsed_ms prompt_tokens completion_tokens",
         [["s1", "How do I merge?", None, "Use merge.", 250.0, 10, 2],
          ["s2", "How do I sort?", None, "Use sort_index.", 250.0, 10, 2],
          ["s3", "What fails?", "RuntimeError('index unreachable')", None, 250.0, None, None],
          ["s4", "How do I merge?", None, "Use merge.", 250.0, 10, 2]]),
    ],
    # what is an accuracy there has bounds
    "inspect_log.json results.reported": [
        ({"query_id": "s1"} | FIRST, "metric value better lowest highest",
         [["includes", *PASSED], ["judge", 0.75, None, None, None],
          ["exact_match", 0.0, *PASSED[1:]], ["token_f1", 0.67, None, None, None],
          ["hit@1", 0.0, None, None, None]]),
        ({"query_id": "s4", "metric": "includes"} | FIRST, "value", [[0.0]]),
    ],
    "inspect_log.json results.judgments": [
        (FIRST, "query_id criterion value reason state",
         [[name, criterion, value, reason, "scored" if value is not None else "judge_failed"]
          for name, judged in (("s1", 0.75), ("s2", None), ("s4", 0.75))
          for criterion, value, reason in (
              ("judge", judged, "mostly helpful" if judged else UNPARSED), ("hit@1", 0.0, None))]),
    ],
    "inspect_log.json golden.queries": [
        ({}, "query_id query difficulty reference_answer",
         [["s1", "How do I merge?", "easy", "merge"], ["s2", "How do I sort?", None, "sort_values"],
          ["s3", "What fails?", None, "nothing"], ["s4", "How do I merge?", None, "concat"]]),
    ],
    "inspect_log.json results.hits": [
        ({"query_id": "s1"} | FIRST, "rank chunk_id", [[1, "merge#1"], [2, "concat#1"]]),
    ],
    "deepeval_run.json results.judgments": [
        ({"query_id": "m-1", "criterion": "context_precision"}, "value judge reason cost_usd",
         [[1.0, "scripted-judge", "Contextual Precision of a", 0.002]]),
    ],
    # of a value under its threshold that failed, higher is better
    "deepeval_run.json results.reported": [
        ({"query_id": "m-1"}, "metric value better lowest highest threshold",
         [["faithfulness", *PASSED, 0.5], ["context_precision", *PASSED, 0.5],
          ["Exact Match", 0.0, *PASSED[1:], 1.0], ["success", 0.0, *PASSED[1:], None]]),
    ],
    "deepeval_traces.json results.runs": [
        ({}, "run_id system repeat n_queries n_failed",
         [["deepeval_traces", "traced", 1, 3, 1], ["deepeval_traces-r2", "traced", 2, 1, 0]]),
    ],
    "deepeval_run.json results.responses": [
        ({"query_id": "m-1"}, "elapsed_ms cost_usd", [[250.0, 0.001]]),
    ],
    "deepeval_run.json results.runs": [({}, "system config", [["bm25", '{"top_k": "2"}']] * 2)],
    # only the assessments have it
    "mlflow_result.* golden.targets": [(MERGING, "doc_id", [["merge"]])],
    "mlflow_result.* golden.queries": [(MERGING, "reference_answer", [["pandas.merge"]])],
    "mlflow_result.* results.hits": [
        (MERGING | {"run_id": "mlflow_result"}, "chunk_id", [["merge#1"], ["c2"]]),
    ],
    "mlflow_result.* results.judgments": [
        ({"run_id": "mlflow_result"}, "criterion value verdict reason state",
         [["correctness", 1.0, "yes", "looked at the text", "scored"],
          *[["correctness", 0.0, "no", "looked at the text", "scored"]] * 2,
          ["correctness", None, None, UNPARSED, "judge_failed"]]),
    ],
    "mlflow_result.* results.reported": [
        (MERGING | {"run_id": "mlflow_result"}, "metric value lowest highest",
         [["correctness", 1.0, 0.0, 1.0], ["length", 13.0, None, None],
          ["hit_at_1", 1.0, None, None], ["exact_match", 0.0, None, None]]),
    ],
    "mlflow_result.* results.responses": [
        ({"run_id": "mlflow_result"}, "query answer elapsed_ms x_trace_id",
         [["How do I merge?", "Pandas.merge!", 5.0, "tr-0"],
          ["How do I sort?", "About: How do I sort?", 5.0, "tr-2"],
          ["What fails?", None, 5.0, "tr-3"],
          ["Who judges?", "About: Who judges?", 5.0, "tr-4"]]),
    ],
    "mlflow_result.* golden.checks": [({}, "kind text", [["key_fact", "a judge"]])],
    # the reranked list where there is one
    "phoenix_spans.* results.hits": [
        ({"rank": "1"}, "chunk_id", [["merge#1"], ["concat#1"], ["concat#1"], ["concat#1"]]),
        ({"rank": "2"}, "chunk_id", [["concat#1"], ["merge#1"], ["merge#1"], ["merge#1"]]),
    ],
    "phoenix_spans.* results.responses": [
        ({}, "error elapsed_ms prompt_tokens",
         [[None, 1500.0, 10], [None, 1500.0, 10], ["model unreachable", 1500.0, None],
          [None, 1500.0, 10]]),
    ],
    # labels and scores in a span's metadata are reached by their path
    "phoenix_spans.csv golden.targets": [({}, "chunk_id", [["merge#1"]] * 4)],
    "phoenix_spans.csv results.judgments": [
        (JUDGE_FAILED | {"query": "How do I sort?"}, "reason", [["no verdict"]]),
    ],
    "phoenix_spans.* results.calls": [
        ({}, "call query n_hits elapsed_ms",
         [[1, one, 2, 1500.0] for one in ("How do I merge?", "How do I sort?", "What fails?",
                                          "How do I merge?")]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("place", FACTS)
def test_a_file_of_a_tool_says_what_is_known_of_it(place):
    pattern, frame = place.split()
    for file in FIXTURES.glob(pattern):
        for where, columns, expected in FACTS[place]:
            assert rows_of(frame, where, load(file.name), columns) == expected, file.name


FAILED = {  # file: the questions whose system failed, and of the judges that did
    "ragas_experiment.csv": (["What fails?"], ["Who judges?"]),
    "deepeval_traces.json": (["What fails?"], ["Who judges?"]),
    "deepeval_run.json": ([], ["Who judges?"]),
    "mlflow_result.csv": (["What fails?"], ["Who judges?"]),
    "mlflow_result.parquet": (["What fails?"], ["Who judges?"]),
}


@pytest.mark.parametrize("name", FAILED)
def test_failed_systems_and_failed_judges_are_told_apart(name):
    found, (systems, judges) = load(name), FAILED[name]
    responses = found.results.responses
    failed = responses[responses["error"].notna()]
    assert failed["query"].tolist() == systems and failed["answer"].isna().all()
    assert failed["error"].str.contains("index unreachable").all()
    judged = found.results.judgments.query("state == 'judge_failed'")
    judged = judged.merge(responses, on=["run_id", "query_id"])
    assert judged["query"].tolist() == judges and judged["value"].isna().all()
    says(judged["reason"].item(), "NaN" if name.startswith("ragas") else "could not be parsed")


def test_questions_that_stand_twice_are_warned_of_and_a_file_of_runs_is_no_golden_set():
    with warned("ragas_dataset.jsonl", 1, "How do I merge two frames?"):
        rs.load_results(FIXTURES / "ragas_dataset.jsonl")
    with warned("promptfoo_results.json", 3):
        rs.load_results(FIXTURES / "promptfoo_results.json")
    with refused("load_results", file="phoenix_spans.csv"):
        rs.load_golden(FIXTURES / "phoenix_spans.csv")


@pytest.mark.filterwarnings("ignore:.*do not join")  # repeats have few queries
def test_recall_that_ragas_stored_is_the_recall_that_we_compute():
    found = load("ragas_result.csv")
    scores = rs.score(found.results, found.golden, ["recall@3"], match="chunk", missing="zero")
    scores = scores.query("state == 'scored'").reset_index().astype({"run_id": "str"})
    # the longest list has 3 hits, so that recall of the whole list is recall@3
    stored = found.results.reported.query("metric == 'recall@3'")
    both = scores.merge(stored.astype({"run_id": "str"}), on=["run_id", "query_id"])
    assert both["recall@3"].tolist() == both["value"].tolist()
    assert sorted(both["value"]) == [0.0, 0.0, 0.5, 1.0, 1.0]


def put(folder, name, content):
    """Write JSON lines, JSON, or the members of a zip; of several files, the first is returned."""
    file = folder / name
    if name.endswith(".eval"):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
            for member, one in content.items():
                opened.writestr(member, json.dumps(one))
    else:
        lines = "".join(json.dumps(one) + "\n" for one in content)
        file.write_text(
            lines if name.endswith("l") else json.dumps(content, indent=1), encoding="utf-8"
        )
    return file


def eval_log(head="header.json", **sample):
    """The members of a log of Inspect with one sample."""
    told = {"eval": {"task": "t", "model": "m"}, "status": "started"}
    return {head: told, "samples/s_epoch_1.json": {"id": "s", "epoch": 1, "input": "?"} | sample}


def choice(content):
    return {"choices": [{"message": {"role": "assistant", "content": content}}]}


ANNOTATION = {"name": "right", "annotator_kind": "LLM", "label": "yes", "score": 1.0,
              "explanation": "so"}  # fmt: skip
EXAMPLE = {"example_id": "e1", "input": {"question": "a?"}, "reference_output": {"answer": "A"},
           "output": {"answer": "B"}, "error": None, "latency_ms": 5.0}  # fmt: skip
SAMPLE = {"doc_id": 0, "doc": {"question": "0?"}, "target": "x", "resps": [["x"]],
          "arguments": {"gen_args_0": {"arg_0": "Q: 0?"}}, "filtered_resps": ["x"],
          "metrics": ["exact_match", "loss"], "loss": 2.0}  # fmt: skip
# Small files after the documented layouts: no model was run.
WRITTEN = {  # what -> its name, its content, and frame -> where, columns, and what stands there
    "the names of RAGAS 0.1": (
        "r.jsonl",
        [{"question": "a?", "contexts": ["one", "two"], "answer": "A", "ground_truth": "B",
          "context_precision": 0.5, "note": "n"}],
        {
            "results.responses": ({}, "x_note", [["n"]]),
            "results.hits": ({}, "text", [["one"], ["two"]]),
            "golden.queries": ({}, "reference_answer", [["B"]]),
            "results.reported": ({}, "metric value", [["context_precision", 0.5]]),
        },
    ),
    "the question is what was said last": (
        "r.jsonl",
        [{"user_input": [{"content": "hello", "type": "human"}, {"content": "hi", "type": "ai"},
                         {"content": "merge?", "type": "human"}],
          "response": "A", "retrieved_contexts": ["x"], "reference": "B"}],
        {"results.responses": ({}, "query answer", [["merge?", "A"]])},
    ),
    "an answer that Inspect keeps as the first choice": (
        "a.eval", eval_log(output=choice("Yes")),
        {"results.responses": ({}, "answer", [["Yes"]])},
    ),
    "the same, as blocks": (
        "a.eval", eval_log(output=choice([{"type": "text", "text": "Yes"}])),
        {"results.responses": ({}, "answer", [["Yes"]])},
    ),
    "long texts that Inspect keeps apart": (
        "a.eval",
        eval_log(input="attachment://a1", attachments={"a1": "a long question"},
                 output={"completion": "attachment://lost"}),
        {"results.responses": ({}, "query answer", [["a long question", "attachment://lost"]])},
    ),
    "MLflow's older table": (  # latency in seconds
        "eval_results_table.json",
        {"columns": ["inputs", "ground_truth", "outputs", "latency", "precision_at_3/score",
                     "answer_similarity/v1/score", "answer_similarity/v1/justification"],
         "data": [["a?", "A", "B", 0.5, 1 / 3, 4, "close"]]},
        {
            "results.reported": (
                {}, "metric value", [["precision@3", 1 / 3], ["answer_similarity", 4.0]]
            ),
            "results.responses": ({}, "elapsed_ms", [[500.0]]),
            "golden.queries": ({}, "reference_answer", [["A"]]),
        },
    ),
    "Phoenix's experiment": (
        "experiment.json",
        [EXAMPLE | {"repetition_number": 1, "annotations": [ANNOTATION]},
         EXAMPLE | {"repetition_number": 2,
                    "annotations": [{"name": "right", "error": "no reply"}]}],
        {
            "results.judgments": (
                {}, "criterion value verdict reason judge state",
                [["right", 1.0, "yes", "so", "llm", "scored"],
                 ["right", None, None, "no reply", None, "judge_failed"]],
            ),
            "results.reported": ({}, "metric value", [["right", 1.0]]),
            "results.runs": ({}, "repeat", [[1], [2]]),
            "results.responses": (
                {}, "query_id query answer error elapsed_ms", [["e1", "a?", "B", None, 5.0]] * 2
            ),
            "golden.queries": ({}, "query_id reference_answer", [["e1", "A"]]),
        },
    ),
    "of lists that are equally long, RAGAS's precision of ids is ours": (
        "r.jsonl",
        [{"user_input": one, "response": "A", "retrieved_context_ids": ids,
          "id_based_context_precision": 0.5, "id_based_context_recall": 1}
         for one, ids in (("a?", ["c1", "c2"]), ("b?", ["c3", "c4"]))],
        {"results.reported": (
            {}, "metric value", [["precision@2", 0.5], ["recall@2", 1.0]] * 2
        )},
    ),
    "and of others it is not": (
        "r.jsonl",
        [{"user_input": one, "response": "A", "retrieved_context_ids": ids,
          "id_based_context_precision": 0.5, "id_based_context_recall": 1}
         for one, ids in (("a?", ["c1", "c2"]), ("b?", ["c3", "c4", "c5"]))],
        {"results.reported": (
            {}, "metric value", [["id_based_context_precision", 0.5], ["recall@3", 1.0]] * 2
        )},
    ),
    # the error of a failed assertion is none of the system
    "two prompts of one provider of promptfoo are two runs": (
        "p.json",
        {"evalId": "e", "results": {"results": [
            {"testIdx": 0, "promptIdx": n, "provider": {"id": "p"}, "vars": {"question": "0?"},
             "response": {"output": "x"}, "success": False, "failureReason": why, "error": "no x"}
            for n, why in enumerate((1, 2))]}},
        {
            "results.runs": ({}, "run_id system", [["p.p.prompt0", "p.prompt0"],
                                                   ["p.p.prompt1", "p.prompt1"]]),
            "results.responses": ({}, "answer error", [["x", None], [None, "no x"]]),
        },
    ),
    "a metric of DeepEval that is not between 0 and 1, and better if it is lower": (
        "d.json",
        {"testCases": [{
            "input": "a?", "actualOutput": "A", "expectedOutput": "B", "success": True,
            "metadata": {"id": "m", "difficulty": "easy", "owner": "x"},
            "metricsData": [{"name": "Steps", "score": 2, "threshold": 3, "success": True}]}]},
        {
            "results.reported": (
                {"metric": "Steps"}, "value better lowest highest threshold",
                [[2.0, "lower", None, None, 3.0]],
            ),
            "results.responses": ({}, "query_id x_metadata.owner", [["m", "x"]]),
            "golden.queries": ({}, "query_id reference_answer difficulty", [["m", "B", "easy"]]),
        },
    ),
    "a conversation asks by its user and answers by the other": (
        "experiment.json",
        [EXAMPLE | {"repetition_number": 1, "annotations": [ANNOTATION],
                    "input": {"messages": SAID[::-1]}, "output": {"messages": SAID[::-1]}},
         EXAMPLE | {"example_id": "e2", "repetition_number": 1, "input": {"messages": SAID},
                    "output": {"messages": SAID}},
         EXAMPLE | {"example_id": "e3", "repetition_number": 1, "input": {"ask": "c?"},
                    "output": {"said": "C", "n": 1}}],
        {"results.responses": (
            {}, "query answer",
            [["a?", "B"], ["a?", "B"], ["c?", '{"said": "C", "n": 1}']],
        )},
    ),
    "the outputs of RAGChecker": (
        "r.json",
        {"results": [{"query_id": "1", "query": "a?", "gt_answer": "B", "response": "A",
                      "retrieved_context": [{"doc_id": "d", "text": "t"}],
                      "metrics": {"precision": 50.0}}],
         "metrics": {"overall_metrics": {"f1": 40.0}}},
        {
            "results.runs": ({}, "run_id x_metrics.overall_metrics.f1", [["r", 40.0]]),
            "results.responses": ({}, "query_id query answer", [["1", "a?", "A"]]),
            "results.hits": ({}, "doc_id text", [["d", "t"]]),
            "results.reported": ({}, "metric value", [["precision", 50.0]]),
            "golden.queries": ({}, "query_id reference_answer", [["1", "B"]]),
        },
    ),
    "named scores and the success of promptfoo": (
        "p.json",
        {"evalId": "e", "results": {"results": [
            {"testIdx": 0, "promptIdx": 0, "provider": {"id": "p"}, "vars": {"question": "0?"},
             "response": {"output": "x"}, "success": True, "score": 1.0, "failureReason": 0,
             "namedScores": {"tone": 0.5}, "gradingResult": {"componentResults": []}}]}},
        {
            "results.reported": (
                {}, "metric value better lowest highest",
                [["tone", 0.5, *PASSED[1:]], ["success", *PASSED]],
            ),
            "results.responses": ({}, "run_id query answer", [["p.p", "0?", "x"]]),
        },
    ),
    "filters of lm-evaluation-harness are metrics of one query": (
        "samples_task_2026-01-01T00-00-00.1.jsonl",
        [SAMPLE | {"filter": "strict", "exact_match": 0},
         SAMPLE | {"filter": "loose", "exact_match": 1}],
        {
            "results.reported": (
                {}, "metric value better",
                [["exact_match,strict", 0.0, "higher"], ["loss,strict", 2.0, "lower"],
                 ["exact_match,loose", 1.0, "higher"], ["loss,loose", 2.0, "lower"]],
            ),
            "results.runs": ({}, "system suite n_queries", [["org/model", "task", 1]]),
            "golden.queries": ({}, "query reference_answer", [["0?", "x"]]),
        },
    ),
    "a response of rank_eval": (
        "r.json",
        {"metric_score": 0.5, "failures": {"q2": {"reason": "index_not_found"}},
         "details": {"q1": {
             "metric_score": 0.5, "unrated_docs": [],
             "hits": [{"hit": {"_id": "a", "_score": 2.0}, "rating": 1},
                      {"hit": {"_id": "b", "_score": 1.0}, "rating": None}],
             "metric_details": {"precision": {"relevant_docs_retrieved": 1}}}}},
        {
            "results.hits": ({}, "doc_id score", [["a", 2.0], ["b", 1.0]]),
            "golden.targets": ({}, "doc_id grade", [["a", 1]]),
            "results.reported": ({}, "metric value better", [["precision", 0.5, "higher"]]),
            "results.responses": ({}, "query_id error", [["q1", None], ["q2", "index_not_found"]]),
        },
    ),
    "predictions of MTEB rank documents by their scores": (
        "SciFact_predictions.json",
        {"mteb_model_meta": {"model_name": "org/model"},
         "default": {"test": {"q1": {"a": 0.1, "b": 0.9}, "q2": {"c": 1}}}},
        {
            "results.hits": ({}, "query_id doc_id", [["q1", "b"], ["q1", "a"], ["q2", "c"]]),
            "results.runs": ({}, "run_id system", [["SciFact_predictions", "org/model"]]),
        },
    ),
    "a table of one's own whose columns are named by role": (
        "mine.jsonl",
        [{"query_id": "1", "query": "a?", "chunk_id": ["c1", "c2"], "answer": "A",
          "score.tone": 0.5, "reason.tone": "fine", "latency_ms": 10},
         {"query_id": "2", "query": "b?", "chunk_id": [], "error": "timeout", "latency_ms": None},
         {"query_id": "3", "query": "c?", "answer": "C", "scorer_error.tone": "429"}],
        {
            "results.judgments": (
                {}, "value reason state",
                [[0.5, "fine", "scored"], [None, "429", "judge_failed"]],
            ),
            "results.hits": ({}, "query_id chunk_id", [["1", "c1"], ["1", "c2"]]),
            "results.responses": (
                {}, "error elapsed_ms", [[None, 10.0], ["timeout", None], [None, None]]
            ),
        },
    ),
    "predictions of two splits": (
        "two.json",
        {"mteb_model_meta": {"model_name": "org/model"},
         "default": {"test": {"q1": {"a": 0.1}}, "dev": {"q1": {"c": 1.0}}}},
        {"results.runs": ({}, "run_id", [["two.default.test"], ["two.default.dev"]])},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRITTEN)
def test_a_small_file_says_what_its_tool_means(tmp_path, what):
    name, content, known = WRITTEN[what]
    put(tmp_path, "results_2026-01-01T00-00-00.1.json", {
        "higher_is_better": {"task": {"exact_match": True, "loss": False}},
        "model_name": "org/model", "config": {"model": "hf"},
    })  # fmt: skip
    found = both(put(tmp_path, name, content))
    for frame, (where, columns, expected) in known.items():
        assert rows_of(frame, where, found, columns) == expected, frame


def test_passages_without_ids_are_known_by_their_text():
    row = {"user_input": "merge?", "response": "A", "retrieved_contexts": ["x y", "z"],
           "reference_contexts": ["z", "other"]}  # fmt: skip
    found = both(pd.DataFrame([row]))
    scores = rs.score(found.results, found.golden, ["recall@3", "mrr"])
    assert scores[["recall@3", "mrr"]].to_numpy().tolist() == [[0.5, 0.5]]


def test_inspect_s_own_format_holds_the_same_as_its_json():
    one, other = (both(FIXTURES / f"inspect_log.{kind}", run_id="x") for kind in ("json", "eval"))
    pd.testing.assert_frame_equal(one.results.responses, other.results.responses)
    pd.testing.assert_frame_equal(one.results.judgments, other.results.judgments)


def test_a_log_of_inspect_that_is_cut_short_or_unpacks_to_too_much_is_refused(tmp_path):
    # one that was never finished has no header
    file = put(tmp_path, "log.eval", eval_log("_journal/start.json", output={"completion": "x"}))
    assert len(rs.load_results(file, "inspect").responses) == 1
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    with refused(file="log.eval"):
        rs.load_results(file, "inspect")
    put(tmp_path, "log.eval", eval_log(output={"completion": "x"}, x=" " * 50_000))
    with refused(file="log.eval"):
        rs.load_results(file, max_bytes=1000)
    assert len(rs.load_results(file, max_bytes=None).responses) == 1


@pytest.mark.parametrize("lists", ["summaries.json", "_journal/summaries/1.json"])
def test_a_sample_that_a_log_of_inspect_lists_and_does_not_hold_is_no_silent_loss(tmp_path, lists):
    name, data = b"samples/s1_epoch_1.json", (FIXTURES / "inspect_log.eval").read_bytes()
    for one in (name, *[b"summaries.json"] * ("_journal" in lists)):  # the last one: its directory
        data = data[: (at := data.rindex(one))] + b"?" + data[at + 1 :]
    (file := tmp_path / "log.eval").write_bytes(data)
    with refused("s1", 1, file="log.eval", field="samples"):
        rs.load_results(file)


def test_ragas_rows_come_back_as_they_were():
    found = load("ragas_dataset.jsonl")
    rows = rs.io.to_ragas(found.results, found.golden).set_index("user_input")
    names = ("response", "retrieved_contexts", "retrieved_context_ids", "reference",
             "reference_context_ids")  # fmt: skip
    for line in (FIXTURES / "ragas_dataset.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        back = rows[~rows.index.duplicated()].loc[row["user_input"]]
        assert [back[name] or None for name in names] == [row.get(name) or None for name in names]


def test_a_large_json_file_is_recognised_by_its_beginning(tmp_path):
    found = json.loads((FIXTURES / "promptfoo_results.json").read_text(encoding="utf-8"))
    found["results"]["prompts"] = ["x" * (1 << 21)]
    with warned("large.json", 3):
        assert len(both(put(tmp_path, "large.json", found)).results.responses) == 16
    told = {"mlflow.spanType": '"CHAIN"', "mlflow.spanInputs": '"a?"', "x": "x" * (1 << 21)}
    span = {"trace_id": "t", "span_id": "1", "attributes": told}
    file = put(tmp_path, "trace.json", {"info": {"trace_id": "t"}, "data": {"spans": [span]}})
    assert rs.load_results(file).responses["query"].tolist() == ["a?"]
