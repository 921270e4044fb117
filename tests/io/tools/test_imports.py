"""Files of other tools, as the tools wrote them (tests/fixtures/README.md): what their rows
become.
"""

import json
import math
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

import ragscore as rs
from tests.compared import check_reported
from tests.messages import check, refused, warned

FIXTURES = Path(__file__).parents[2] / "fixtures"
MERGE, SORT = "q-171ef8156a46", "q-1d9da6f1bd39"  # hashes of the RAGAS file's first two questions


@dataclass
class Both:
    """What the two loaders take of one file; None where it has nothing for one of them."""

    results: rs.Results | None
    golden: rs.Golden | None

    @property
    def problems(self):
        parts = [self.results.problems] if self.results else []
        return pd.concat([*parts, *([self.golden._problems] if self.golden else [])])


def both(source, results=None, golden=None, **options):
    """Load the runs and the labels of a file; `results` and `golden` are the columns of each."""
    parts = []
    for load_part, columns in ((rs.load_results, results), (rs.load_golden, golden)):
        own = options if load_part is rs.load_results else {}
        with warnings.catch_warnings():
            if load_part is rs.load_golden:
                warnings.filterwarnings("ignore", ".*no expectation", UserWarning)
            try:
                parts.append(load_part(source, columns=columns, strict=False, **own))
            except rs.DataError as error:
                other = "load_golden" if load_part is rs.load_results else "load_results"
                check(error, other)
                parts.append(None)
    return Both(*parts)


def load(name, *named, **options):
    with warned(name, *named):
        return both(FIXTURES / name, **options)


def cell(frame, query_id, run_id=None):
    rows = frame[frame["query_id"] == query_id]
    return rows if run_id is None else rows[rows["run_id"] == run_id]


def judgments(found, **wanted):
    frame = found.results.judgments
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    return frame


@pytest.mark.parametrize("name", ["ragas_dataset.jsonl", "ragas_dataset.csv"])
def test_a_ragas_dataset_is_the_same_from_csv_and_json_lines(name):
    found = load(name)
    assert found.golden.queries["query"].tolist()[1:] == [
        "How do I sort? “Naïve” case, ünïcode",
        "What fails?",
        "Who judges this?",
    ]
    assert found.golden.queries["reference_answer"].tolist()[0] == "Use pandas.merge."
    assert cell(found.golden.targets, SORT)["chunk_id"].tolist() == ["sort#1", "sort#3"]
    assert cell(found.results.hits, SORT)["chunk_id"].tolist() == ["groupby#1", "sort#1", "sort#2"]
    assert (
        cell(found.results.responses, SORT)["answer"].item() == "Use sort_values,\nor sort_index."
    )
    assert found.golden.tags["value"].tolist() == ["analyst", "PERFECT_GRAMMAR"] and not len(
        found.problems
    )


def test_a_question_that_stands_twice_is_kept_as_a_repeat_of_its_own():
    found = load("ragas_dataset.jsonl", 1, "How do I merge two frames?")
    runs = found.results.runs.set_index("run_id")
    assert runs["repeat"].to_dict() == {"ragas_dataset": 1, "ragas_dataset-r2": 2} and runs[
        "n_queries"
    ].tolist() == [4, 1]
    assert cell(found.results.responses, MERGE)["answer"].tolist() == ["Use merge.", "Use join."]
    assert len(cell(found.golden.queries, MERGE)) == 1


def test_ragas_scores_are_reported_under_our_names_and_nan_is_a_failed_judge():
    found = load("ragas_result.csv")
    first = (
        cell(found.results.reported, MERGE, "ragas_result").set_index("metric")["value"].to_dict()
    )
    # The longest list has 3 hits, so recall of the whole list is recall@3.
    assert first == {
        "faithfulness": 1.0,
        "answer_relevance": 0.91,
        "context_recall": 1.0,
        "recall@3": 1.0,
        "rouge_score(mode=fmeasure)": 0.8,
    }
    failed = judgments(found, state="judge_failed")
    assert failed["criterion"].tolist() == ["faithfulness"] and failed["value"].isna().all()
    # Without an answer, a NaN is no judge's fault.
    assert set(judgments(found, query_id=found.golden.queries["query_id"][2])["criterion"]) == {
        "context_recall"
    }


@pytest.mark.filterwarnings("ignore:.*do not join")  # repeats have few queries
def test_recall_that_ragas_stored_is_the_recall_that_we_compute():
    found = load("ragas_result.csv")
    scores = (
        rs.score(found.results, found.golden, ["recall@3"], match="chunk", missing="zero")
        .query("state == 'scored'")
        .reset_index()
    )
    stored = found.results.reported.query("metric == 'recall@3'").astype({"run_id": "str"})
    both = scores.astype({"run_id": "str"}).merge(stored, on=["run_id", "query_id"])
    assert both["recall@3"].tolist() == both["value"].tolist() and sorted(both["value"]) == [
        0.0,
        0.0,
        0.5,
        1.0,
        1.0,
    ]


def test_the_names_of_ragas_0_1_are_read_too():
    frame = pd.DataFrame(
        {
            "question": ["a?"],
            "contexts": [["one", "two"]],
            "answer": ["A"],
            "ground_truth": ["B"],
            "context_precision": [0.5],
        }
    )
    found = both(frame)
    assert (
        found.results.hits["text"].tolist() == ["one", "two"]
        and found.golden.queries["reference_answer"].item() == "B"
    )
    assert found.results.reported[["metric", "value"]].to_numpy().tolist() == [
        ["context_precision", 0.5]
    ]


def test_passages_without_ids_are_known_by_their_text():
    frame = pd.DataFrame(
        {
            "user_input": ["a?"],
            "response": ["A"],
            "retrieved_contexts": [["x y", "z"]],
            "reference_contexts": [["z", "not retrieved"]],
        }
    )
    found = both(frame)
    scores = rs.score(found.results, found.golden, ["recall@3", "mrr"])
    assert scores[["recall@3", "mrr"]].to_numpy().tolist() == [[0.5, 0.5]]


def test_a_conversation_s_question_is_what_the_user_said_last():
    messages = [
        {"content": "hello", "type": "human"},
        {"content": "hi", "type": "ai"},
        {"content": "merge?", "type": "human"},
    ]
    assert (
        both(pd.DataFrame({"user_input": [messages], "response": ["A"], "reference": ["B"]}))
        .results.responses["query"]
        .item()
        == "merge?"
    )


def test_promptfoo_gives_a_run_per_provider_and_repeat():
    found = load("promptfoo_results.json", 3)
    runs = found.results.runs
    assert runs["system"].unique().tolist() == ["echo", "system"]
    # Two repeats of three questions; one of them stands in two tests, so that it was asked four
    # times.
    assert runs.groupby("system")["n_queries"].agg(list).to_dict() == {
        "echo": [3, 3, 1, 1],
        "system": [3, 3, 1, 1],
    }


def test_promptfoo_errors_failed_graders_and_cached_answers_are_told_apart():
    found = load("promptfoo_results.json")
    of_system = found.results.responses[
        found.results.responses["run_id"] == "promptfoo_results.system"
    ].set_index("query")
    assert of_system["error"].to_dict()["What fails?"] == "index unreachable"
    # the row whose assertion failed has an `error` too: it is no error
    assert of_system["error"].notna().sum() == 1
    assert (
        math.isnan(of_system["elapsed_ms"]["How do I sort?"])
        and of_system["elapsed_ms"]["How do I merge?"] == 7.0
    )
    failed = judgments(found, state="judge_failed")
    assert (
        set(failed["criterion"]) == {"helpfulness"}
        and len(failed) == 4
        and failed["value"].isna().all()
    )
    assert not len(
        found.results.reported.query("metric == 'helpfulness'").merge(
            failed, on=["run_id", "query_id"]
        )
    )


def test_promptfoo_assertions_that_look_for_texts_become_checks():
    golden = load("promptfoo_results.json").golden
    (merge,) = golden.queries.loc[golden.queries["query"] == "How do I merge?", "query_id"]
    assert cell(golden.checks, merge)[["kind", "text"]].to_numpy().tolist() == [
        ["must_contain", "merge"],
        ["must_contain", "Use"],
        ["forbidden", "concat"],
    ]
    assert (
        golden.queries.set_index("query")["reference_answer"]["How do I sort?"] == "use sort_values"
    )


def test_a_users_columns_reach_into_records():
    found = load(
        "promptfoo_results.json",
        **COLUMNS_OF["promptfoo_results.json"],
    )
    (merge,) = found.golden.targets["query_id"].unique()
    assert cell(found.results.hits, merge, "promptfoo_results.system")["chunk_id"].tolist() == [
        "merge#1",
        "concat#1",
    ]


def test_inspect_epochs_become_repeats_without_a_warning():
    found = both(
        FIXTURES / "inspect_log.json",
        **COLUMNS_OF["inspect_log.json"],
    )
    runs = found.results.runs
    assert (
        runs["run_id"].tolist() == ["inspect_log-r1", "inspect_log-r2"]
        and set(runs["system"]) == {"mockllm/model"}
        and runs["n_failed"].tolist() == [1, 1]
    )
    first = cell(found.results.responses, "s1", "inspect_log-r1").iloc[0]
    # the working time, not the total
    assert (first["answer"], first["elapsed_ms"], first["prompt_tokens"]) == (
        "Use merge.",
        250.0,
        10,
    )
    assert cell(found.results.reported, "s4", "inspect_log-r1").set_index("metric")["value"][
        ["includes", "judge"]
    ].tolist() == [0.0, 0.75]
    failed = judgments(found, state="judge_failed")
    assert failed["query_id"].tolist() == ["s2", "s2"] and failed["reason"].unique().tolist() == [
        "the judge's reply could not be parsed"
    ]
    assert rs.score(found.results, found.golden, ["mrr"]).query("index == 's1'")[
        "mrr"
    ].tolist() == [1.0, 1.0]


def test_inspect_s_own_format_holds_the_same_as_its_json():
    one, other = (both(FIXTURES / f"inspect_log.{kind}", run_id="x") for kind in ("json", "eval"))
    pd.testing.assert_frame_equal(one.results.responses, other.results.responses)
    pd.testing.assert_frame_equal(one.results.judgments, other.results.judgments)


def inspect_log(folder, sample, journal=False):
    """A log of the kind `.eval` with one sample."""
    file = folder / "log.eval"
    with zipfile.ZipFile(file, "w") as opened:
        head = json.dumps({"eval": {"task": "t", "model": "m"}, "status": "started"})
        opened.writestr("_journal/start.json" if journal else "header.json", head)
        opened.writestr("samples/s_epoch_1.json", json.dumps({"id": "s", "epoch": 1} | sample))
    return file


@pytest.mark.parametrize("content", ["Yes", [{"type": "text", "text": "Yes"}]])
def test_an_answer_that_inspect_keeps_as_the_first_choice_is_read(tmp_path, content):
    output = {"choices": [{"message": {"role": "assistant", "content": content}}]}
    results = rs.load_results(inspect_log(tmp_path, {"input": "?", "output": output}))
    assert results.responses["answer"].tolist() == ["Yes"]


def test_long_texts_that_inspect_keeps_apart_are_put_in_their_places(tmp_path):
    sample = {"input": "attachment://a1", "target": "x", "attachments": {"a1": "a long question"}}
    sample["output"] = {"completion": "x"}
    results = rs.load_results(inspect_log(tmp_path, sample))
    assert results.responses["query"].tolist() == ["a long question"]


def test_a_log_of_inspect_without_a_head_or_cut_short_is_refused(tmp_path):
    file = inspect_log(tmp_path, {"input": "?", "output": {"completion": "x"}}, journal=True)
    assert len(rs.load_results(file, "inspect").responses) == 1  # one that was never finished
    file.write_bytes(file.read_bytes()[:100])
    with refused(file="log.eval"):
        rs.load_results(file, "inspect")


def test_a_log_of_inspect_that_unpacks_to_too_much_is_refused(tmp_path):
    sample = {"input": "?", "output": {"completion": "x"}}
    file = inspect_log(tmp_path, sample | {"x": " " * 50_000})
    with zipfile.ZipFile(file) as opened:
        texts = {one: opened.read(one) for one in opened.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, text in texts.items():
            opened.writestr(name, text)
    with refused(file="log.eval"):
        rs.load_results(file, max_bytes=1000)
    assert len(rs.load_results(file, max_bytes=None).responses) == 1


def test_a_frame_of_inspect_s_samples_is_read_too():
    record = {
        "sample_id": "u",
        "eval_id": "e",
        "id": "s1",
        "epoch": 1,
        "input": "user:\nHow?\n",
        "target": "A",
        "score_judge": 0.5,
        "score_letter": "P",
    }
    found = both(pd.DataFrame([record | {"error": "", "working_time": 0.5}]))
    assert (
        found.results.responses[["query", "elapsed_ms"]].to_numpy().tolist() == [["How?", 500.0]]
        and found.results.responses["error"].isna().all()
    )
    assert found.results.reported.set_index("metric")["value"].to_dict() == {
        "judge": 0.5,
        "letter": 0.5,
    }


def test_deepeval_keeps_ids_judges_reasons_and_errors():
    found = load("deepeval_run.json")
    assert found.golden.queries["query_id"].tolist()[0] == "m-1" and found.results.runs[
        "system"
    ].tolist() == ["bm25", "bm25"]
    first = judgments(found, query_id="m-1", criterion="context_precision").iloc[0]
    assert (first["value"], first["judge"], first["reason"], first["cost_usd"]) == (
        1.0,
        "scripted-judge",
        "Contextual Precision of a",
        0.002,
    )
    failed = judgments(found, state="judge_failed")
    assert (
        failed["criterion"].tolist() == ["faithfulness"]
        and failed["reason"].item() == "ValueError: the judge's reply could not be parsed"
    )
    response = cell(found.results.responses, "m-1").iloc[0]
    assert (response["elapsed_ms"], response["cost_usd"]) == (250.0, 0.001)
    # deepeval writes it as text
    assert json.loads(found.results.runs["config"][0]) == {"top_k": "2"}


@pytest.mark.parametrize("name", ["mlflow_result.csv", "mlflow_result.parquet"])
def test_mlflow_labels_scores_errors_and_passages(name):
    found = load(name)
    responses = found.results.responses.set_index("query")
    assert responses["error"].dropna().to_dict() == {
        "What fails?": "RuntimeError: index unreachable"
    }
    merge = responses["query_id"]["How do I merge?"].iloc[0]
    # only the assessments have it
    assert cell(found.golden.targets, merge)["doc_id"].tolist() == ["merge"]
    assert cell(found.golden.queries, merge)["reference_answer"].item() == "pandas.merge"
    stem = name.rsplit(".", 1)[0]
    assert cell(found.results.hits, merge, stem)["chunk_id"].tolist() == ["merge#1", "c2"]
    yes = judgments(found, query_id=merge, run_id=stem).iloc[0]
    assert (yes["value"], yes["verdict"], yes["state"]) == (1.0, "yes", "scored")
    failed = judgments(found, state="judge_failed")
    assert failed["reason"].tolist() == ["the judge's reply could not be parsed"]
    assert set(found.results.reported["metric"]) == {
        "correctness",
        "exact_match",
        "hit_at_1",
        "length",
    }


def test_the_older_mlflow_table_is_read_with_our_names_of_its_retrieval_metrics(tmp_path):
    # Hand-written after the documented layout: {"columns", "data"}, scores as <name>/v1/score,
    # latency in seconds.
    columns = [
        "inputs",
        "ground_truth",
        "outputs",
        "latency",
        "precision_at_3/score",
        "answer_similarity/v1/score",
        "answer_similarity/v1/justification",
    ]
    table = {"columns": columns, "data": [["a?", "A", "B", 0.5, 1 / 3, 4, "close"]]}
    (tmp_path / "eval_results_table.json").write_text(json.dumps(table), encoding="utf-8")
    found = both(tmp_path / "eval_results_table.json")
    assert found.results.reported.set_index("metric")["value"].to_dict() == {
        "precision@3": 1 / 3,
        "answer_similarity": 4.0,
    }
    assert (
        found.results.responses["elapsed_ms"].item() == 500.0
        and found.golden.queries["reference_answer"].item() == "A"
    )


@pytest.mark.parametrize("name", ["phoenix_spans.csv", "phoenix_spans.parquet"])
def test_phoenix_takes_the_reranked_list_where_there_is_one(name):
    found = both(FIXTURES / name)
    assert found.golden is None
    lists = (
        found.results.hits.groupby(["run_id", "query_id"], observed=True, sort=False)["chunk_id"]
        .agg(list)
        .tolist()
    )
    assert lists == [
        ["merge#1", "concat#1"],
        ["concat#1", "merge#1"],
        ["concat#1", "merge#1"],
        ["concat#1", "merge#1"],
    ]
    responses = found.results.responses
    assert (
        responses["error"].dropna().tolist() == ["model unreachable"]
        and responses["elapsed_ms"].tolist() == [1500.0] * 4
    )
    assert responses["prompt_tokens"].fillna(-1).tolist() == [10, 10, -1, 10]


def test_a_phoenix_experiment_gives_repeats_labels_and_annotations(tmp_path):
    # Hand-written after the exporter's source: no model was run.
    run = {
        "example_id": "e1",
        "input": {"question": "a?"},
        "reference_output": {"answer": "A"},
        "output": {"answer": "B"},
        "error": None,
        "latency_ms": 5.0,
    }
    good, bad = (
        {
            "name": "right",
            "annotator_kind": "LLM",
            "label": "yes",
            "score": 1.0,
            "explanation": "so",
        },
        {"name": "right", "error": "no reply"},
    )
    rows = [
        run | {"repetition_number": 1, "annotations": [good]},
        run | {"repetition_number": 2, "annotations": [bad]},
    ]
    (tmp_path / "experiment.json").write_text(json.dumps(rows), encoding="utf-8")
    found = both(tmp_path / "experiment.json")
    assert found.results.judgments["state"].tolist() == [
        "scored",
        "judge_failed",
    ] and found.results.runs["repeat"].tolist() == [1, 2]
    assert found.golden.queries["reference_answer"].tolist() == ["A"] and found.results.responses[
        "query"
    ].tolist() == ["a?", "a?"]


TABLE = pd.DataFrame(
    {
        "id": ["1", "2", "3"], "q": ["a?", "b?", "c?"], "found": [["c1", "c2"], [], ["c9"]],
        "right": [["c2"], ["c3"], ["c9"]],
        "said": ["A", None, "C"], "broke": [None, "timeout", None], "good": [0.5, None, None],
        "why": ["fine", None, None], "fault": [None, None, "429"],
        "level": ["easy", "hard", "hard"], "ms": [10, 20, None], "note": ["x", "y", "z"],
    }
)  # fmt: skip
ANSWERED = {
    "query_id": "id", "query": "q", "chunk_id": "found", "answer": "said", "error": "broke",
    "score.tone": "good", "reason.tone": "why", "scorer_error.tone": "fault", "latency_ms": "ms",
}  # fmt: skip
LABELLED = {"query_id": "id", "query": "q", "chunk_id": "right", "difficulty": "level"}


def test_a_plain_frame_with_named_columns_becomes_results_and_golden():
    results = rs.load_results(TABLE, columns=ANSWERED, run_id="mine")
    golden = rs.load_golden(TABLE, columns=LABELLED)
    scores = rs.score(results, golden, ["recall@5", "mrr", "failed"])
    assert scores["mrr"].tolist() == [0.5, 0.0, 1.0]
    assert scores["failed"].tolist() == [0.0, 1.0, 0.0]
    assert results.judgments[["value", "reason", "state"]].fillna(-1).to_numpy().tolist() == [
        [0.5, "fine", "scored"],
        [-1, "429", "judge_failed"],
    ]
    assert golden.queries["difficulty"].tolist() == ["easy", "hard", "hard"]
    assert results.responses["x_note"].tolist() == ["x", "y", "z"]


def test_a_csv_whose_columns_are_named_by_role_needs_no_mapping(tmp_path):
    names = {column: role for role, column in ANSWERED.items()}
    TABLE.drop(columns="right").rename(columns=names).to_csv(
        tmp_path / "mine.csv", index=False, lineterminator="\r\n", encoding="utf-8-sig"
    )
    results = rs.load_results(tmp_path / "mine.csv")
    expected = rs.load_results(TABLE, columns=ANSWERED, run_id="mine")
    pd.testing.assert_frame_equal(results.hits, expected.hits)
    pd.testing.assert_frame_equal(results.judgments, expected.judgments)
    assert results.responses["elapsed_ms"].tolist()[:2] == [10.0, 20.0]


def test_labels_that_contradict_each_other_are_a_problem_and_the_first_stays():
    frame = pd.DataFrame(
        {"query": ["a?", "a?"], "gold_answer": ["A", "B"], "gold_chunk_ids": [["c1"], ["c2"]]}
    )
    found = rs.load_golden(frame, strict=False)
    assert found.queries["reference_answer"].tolist() == ["A"]
    assert found.targets["chunk_id"].tolist() == ["c1", "c2"]
    assert found._problems["field"].tolist() == ["gold_answer"]


def test_deepeval_says_in_its_trace_that_a_system_failed():
    found = load("deepeval_traces.json")
    assert found.results.responses[["query", "error"]].dropna().to_numpy().tolist() == [
        ["What fails?", "index unreachable"]
    ]
    assert found.results.responses["answer"].isna().tolist() == [False, True, False, False]
    failed = judgments(found, state="judge_failed")
    assert failed[["criterion", "reason"]].to_numpy().tolist() == [
        ["faithfulness", "ValueError: the judge's reply could not be parsed"]
    ]


def test_labels_and_scores_in_a_span_s_metadata_are_reached_by_their_path():
    found = both(FIXTURES / "phoenix_spans.csv", **COLUMNS_OF["phoenix_spans.csv"])
    assert found.golden.targets["chunk_id"].tolist() == ["merge#1"] * 4
    failed = judgments(found, state="judge_failed").merge(
        found.results.responses[["run_id", "query_id", "query"]]
    )
    assert failed[["query", "reason"]].to_numpy().tolist() == [["How do I sort?", "no verdict"]]


def test_a_ragas_experiment_has_an_error_row_and_a_failed_judge():
    found = load("ragas_experiment.csv")
    assert found.results.responses[["query", "error"]].dropna().to_numpy().tolist() == [
        ["What fails?", "index unreachable"]
    ]
    failed = judgments(found, state="judge_failed").merge(
        found.results.responses[["run_id", "query_id", "query"]]
    )
    assert failed[["query", "criterion"]].to_numpy().tolist() == [["Who judges?", "faithfulness"]]
    assert found.results.runs["repeat"].tolist() == [1, 2] and len(found.golden.queries) == 4


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
# file -> run, question and metric whose value we count otherwise: reported, recomputed
COUNTED_OTHERWISE = {
    # Its exact_match compares strings as they are. hit@1 is 1 for all there; of the rankings two
    # begin with another chunk.
    "ragas_experiment.csv": [
        ("ragas_experiment", "How do I merge?", "exact_match", 0, 1),
        ("ragas_experiment", "How do I sort?", "hit@1", 1, 0),
        ("ragas_experiment-r2", "How do I merge?", "hit@1", 1, 0),
    ],
    # Its own Exact Match: 0 for "Sort_values." against "sort_values".
    "deepeval_run.json": [("deepeval_run-r2", "How do I sort?", "Exact Match", 0, 1)],
    # A scorer that says 1 for every answer: "Merge." is "merge" after normalisation, "Nobody." is
    # not "a judge".
    "deepeval_traces.json": [("deepeval_traces", "Who judges?", "Exact Match", 1, 0)],
    # hit@1 is 0 for all there; both questions about merging have their gold chunk at rank 1. Its f1
    # is 2/3 in two digits, and takes the better of two targets where we know the first.
    "inspect_log.json": [
        (run, *one)
        for run in ("inspect_log-r1", "inspect_log-r2")
        for one in (
            ("s1", "hit@1", 0, 1), ("s4", "hit@1", 0, 1), ("s1", "token_f1", 0.67, 2 / 3),
            ("s2", "token_f1", 0.67, 0),
        )
    ],
    # "Pandas.merge!" is "pandas.merge" after normalisation.
    "mlflow_result.csv": [
        ("mlflow_result", "How do I merge?", "exact_match", 0, 1),
        ("mlflow_result-r2", "How do I merge?", "exact_match", 0, 1),
    ],
    # Only the first of the two answers about merging was reranked; the other begins with concat#1,
    # and so does that of the failed question.
    "phoenix_spans.csv": [("phoenix_spans", "How do I merge?", "hit@1", 1, 0),
    ("phoenix_spans", "What fails?", "hit@1", 1, 0)],
    # Gold chunks are join#1 and concat#1, the system's first is merge#1; echo has no passages, so
    # that its rankings can't be checked; "Use
    # sort_values." is "use sort_values".
    "promptfoo_results.json": [
        (f"promptfoo_results.{system}", *one)
        for system in ("system", "system-r2")
        for one in (("How do I merge?", "hit@1", 1, 0), ("How do I sort?", "equals", 0, 1))
    ],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*do not join")  # repeats have few queries
@pytest.mark.parametrize("name", list(COUNTED_OTHERWISE))
def test_a_value_that_another_tool_counted_otherwise_shows(name):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*more than once", UserWarning)
        found = both(FIXTURES / name, **COLUMNS_OF.get(name, {}))
    checked = check_reported(found.results, found.golden, missing="zero")
    texts = (
        found.golden.queries.set_index("query_id")["query"]
        if name != "inspect_log.json"
        else {f"s{n}": f"s{n}" for n in range(1, 5)}
    )
    different = checked[checked["difference"].fillna(0) != 0]
    shown = {
        (run, texts[query], metric): values
        for run, query, metric, *values in different[
            ["run_id", "query_id", "metric", "reported", "recomputed"]
        ].to_numpy()
    }
    assert shown == {
        (run, query, metric): pytest.approx([reported, recomputed])
        for run, query, metric, reported, recomputed in COUNTED_OTHERWISE[name]
    }
    assert (different["difference"] == different["recomputed"] - different["reported"]).all()
    assert (checked["difference"] == 0).any()  # what is counted alike is equal


def test_ragas_rows_come_back_as_they_were():
    found = load("ragas_dataset.jsonl")
    rows = rs.io.to_ragas(found.results, found.golden)
    written = [
        json.loads(line)
        for line in (FIXTURES / "ragas_dataset.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    for row in written:
        back = rows[rows["user_input"] == row["user_input"]].iloc[0]
        for name in (
            "response",
            "retrieved_contexts",
            "retrieved_context_ids",
            "reference",
            "reference_context_ids",
        ):
            assert (back[name] or None) == (row.get(name) or None), (row["user_input"], name)


def test_a_large_json_file_is_recognised_by_its_beginning(tmp_path):
    found = json.loads((FIXTURES / "promptfoo_results.json").read_text(encoding="utf-8"))
    found["results"]["prompts"] = ["x" * (1 << 21)]
    (tmp_path / "large.json").write_text(json.dumps(found), encoding="utf-8")
    with warned("large.json", 3):
        assert len(both(tmp_path / "large.json").results.responses) == 16
