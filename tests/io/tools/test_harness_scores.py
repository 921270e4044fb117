"""Scores of other harnesses per item, read without their packages: what each file says of them.

The first half is small files as the tools document or write them, the second real files beside the
checkout with the facts that are known of them.
"""

import json
from pathlib import Path

import pytest

import ragscore as rs
from tests.messages import warned

DATA = Path(__file__).parents[4] / "shared" / "data"
real = pytest.mark.skipif(not DATA.exists(), reason="needs real files beside the checkout")


def written(folder, name, content):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    is_lines = name.endswith("jsonl")
    lines = "".join(json.dumps(one) + "\n" for one in content) if is_lines else json.dumps(content)
    file.write_text(lines)
    return file


def told(ev, metric):
    """Return direction and bounds of a metric, and its means by run."""
    declared = ev._declared.describe(metric)
    return declared.better, declared.bounds, ev.summary(metric)["mean"].tolist()


# lm-evaluation-harness


def lm_eval_files(folder):
    samples = [
        {"doc_id": n, "doc": {"question": f"{n}?"}, "target": "x", "filter": filter,
         "arguments": {"gen_args_0": {"arg_0": f"Q: {n}?"}}, "resps": [["x"]],
         "filtered_resps": ["x"], "metrics": ["exact_match", "loss"], "exact_match": value,
         "loss": 2.0 - value}
        for n, (strict, loose) in enumerate([(0, 1), (1, 1), (0, 0)])
        for filter, value in (("strict", strict), ("loose", loose))
    ]  # fmt: skip
    results = {
        "results": {"task": {"exact_match,strict": 0.25, "exact_match,loose": 2 / 3,
                             "exact_match_stderr,strict": 0.1}},
        "higher_is_better": {"task": {"exact_match": True, "loss": False}},
        "n-samples": {"task": {"original": 8, "effective": 8}},
        "model_name": "org/model", "config": {"model": "hf"},
    }  # fmt: skip
    written(folder, "results_2026-01-01T00-00-00.1.json", results)
    return written(folder, "samples_task_2026-01-01T00-00-00.1.jsonl", samples)


def test_filters_of_a_document_are_metrics_of_one_query(tmp_path):
    ev = rs.evaluate(lm_eval_files(tmp_path))
    assert len(ev.golden.queries) == 3
    assert told(ev, "exact_match,strict")[0::2] == ("higher", [pytest.approx(1 / 3)])
    assert told(ev, "exact_match,loose")[2] == [pytest.approx(2 / 3)]
    assert told(ev, "loss,strict")[0] == "lower"
    run = ev.results.runs.iloc[0]
    assert (run["system"], run["suite"]) == ("org/model", "task")


# search engines


def test_a_response_of_rank_eval_has_hits_ratings_scores_and_failures(tmp_path):
    hits = [{"hit": {"_index": "i", "_id": one, "_score": 2.0 - n}, "rating": rating}
            for n, (one, rating) in enumerate([("a", 1), ("b", None)])]  # fmt: skip
    content = {
        "metric_score": 0.5,
        "details": {"q1": {"metric_score": 0.5, "unrated_docs": [], "hits": hits,
                           "metric_details": {"precision": {"relevant_docs_retrieved": 1}}}},
        "failures": {"q2": {"reason": "index_not_found"}},
    }  # fmt: skip
    file = written(tmp_path, "r.json", content)
    with warned("1 of 2"):
        ev = rs.evaluate(file, file, ["precision@1", "recall@2"])
    of_query = ev.scores.loc["q1"]
    assert (of_query["precision@1"], of_query["recall@2"]) == (1.0, 1.0)
    assert told(rs.evaluate(file), "precision")[0::2] == ("higher", [0.5])
    assert ev.results.responses.set_index("query_id").loc["q2", "error"] == "index_not_found"


def test_predictions_of_mteb_rank_documents_by_their_scores(tmp_path):
    scores = {"q1": {"a": 0.1, "b": 0.9}, "q2": {"c": 1}}
    content = {"mteb_model_meta": {"model_name": "org/model"}, "default": {"test": scores}}
    file = written(tmp_path, "SciFact_predictions.json", content)
    results = rs.load_results(file)
    assert results.hits[["query_id", "doc_id"]].to_numpy().tolist() == [
        ["q1", "b"],
        ["q1", "a"],
        ["q2", "c"],
    ]
    assert results.runs[["run_id", "system"]].to_numpy().tolist() == [
        ["SciFact_predictions", "org/model"]
    ]
    content["default"]["dev"] = {"q1": {"c": 1.0}}
    two = rs.load_results(written(tmp_path, "two.json", content)).runs["run_id"]
    assert two.tolist() == ["two.default.test", "two.default.dev"]


# other shapes of tools that were read before


def test_named_scores_and_the_success_of_promptfoo_are_metrics(tmp_path):
    rows = [
        {"testIdx": n, "promptIdx": 0, "provider": {"id": "p"}, "vars": {"question": f"{n}?"},
         "response": {"output": "x"}, "success": passed, "score": float(passed),
         "namedScores": {"tone": 0.5}, "failureReason": 0 if passed else 1,
         "gradingResult": {"componentResults": []}}
        for n, passed in enumerate([True, False])
    ]  # fmt: skip
    file = written(tmp_path, "p.json", {"evalId": "e", "results": {"results": rows}})
    ev = rs.evaluate(file)
    assert told(ev, "success") == ("higher", (0.0, 1.0), [0.5])
    assert told(ev, "tone")[2] == [0.5]


# real files

REAL = [  # file, metric, and its number of items and mean as they are known
    ("inspect-logs/2025-02-11*.eval", "match", 10, 0.8),
    ("inspect-logs/mmlu*.eval", "choice", 1, 0.0),
    ("inspect-logs/*security-guide.json", "model_graded_fact", 3, 1.0),
    ("inspect-logs/*browser.json.gz", "includes", 1, 1.0),
    ("lm-eval-helm/samples_*.jsonl", "exact_match,none", 10, 0.0),
    ("deepeval-promptfoo/deepeval-latest_test_run.json", "success", 2, 0.5),
    ("deepeval-promptfoo/promptfoo-results.json", "success", 3, 2 / 3),
]


@real
@pytest.mark.parametrize(("file", "metric", "n", "mean"), REAL)
def test_scores_of_real_files_have_the_means_that_are_known(file, metric, n, mean):
    ev = rs.evaluate(next(DATA.glob(file)))
    row = ev.summary(metric).iloc[0]
    assert (row["n"], row["mean"]) == (n, pytest.approx(mean, abs=5e-7))
    if file.startswith("inspect"):
        assert ev._declared.describe(metric).better == "higher"


@real
def test_epochs_of_inspect_are_averaged_as_its_own_reductions_are():
    ev = rs.evaluate(DATA / "inspect-logs/log_streaming.eval")
    letters = ev.scores.pivot(columns="run_id", values="match")
    assert letters.to_numpy().tolist() == [[0.0, 1.0], [1.0, 1.0]]
    row = ev._of_systems.summary("match").iloc[0]
    assert (row["mean"], row["n"], row["std"] / row["n"] ** 0.5) == (0.75, 2, pytest.approx(0.25))


@real
def test_explanations_and_tool_calls_of_inspect_are_kept():
    logs = DATA / "inspect-logs"
    graded = rs.load_results(next(logs.glob("*security-guide.json"))).judgments
    assert graded["reason"].notna().all() and len(graded) == 3
    browser = rs.load_results(next(logs.glob("*browser.json.gz"))).responses
    called = ["web_browser_go", *["web_browser_click"] * 3]
    assert json.loads(browser["x_tool_calls.json"].iloc[0]) == called
