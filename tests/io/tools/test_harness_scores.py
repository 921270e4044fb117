"""Scores of other harnesses per item, read without their packages: what each file says of them.

The first half is small files as the tools document or write them, the second real files beside the
checkout with the facts that are known of them.
"""

import json
from pathlib import Path

import pytest

import ragscore as rs
from tests.messages import refused, warned

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
    declared = ev.declared.describe(metric)
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


def test_what_it_reports_stands_beside_what_the_rows_give_with_the_reason(tmp_path):
    found = rs.evaluate(lm_eval_files(tmp_path)).check_reported()
    found = found[found["query_id"].eq("")].set_index(["metric", "statistic"])
    strict = found.loc[("exact_match,strict", "mean")]
    assert (strict["reported"], strict["recomputed"]) == (0.25, pytest.approx(1 / 3))
    assert "8 queries, 3 are here" in strict["note"]
    assert found.loc[("exact_match,strict", "n"), "recomputed"] == 3


# HELM


def helm_folder(folder):
    instances = [("id1", "test", 1.0), ("id2", "test", 0.0), ("id3", "valid", 1.0)]
    states = [
        {"instance": {"input": {"text": f"{one}?"}, "id": one, "split": split,
                      "references": [{"output": {"text": "x"}, "tags": ["correct"]}]},
         "train_trial_index": 0,
         "result": {"success": True, "completions": [{"text": "x"}], "request_time": 0.5}}
        for one, split, _ in instances
    ]  # fmt: skip
    stats = [
        {"instance_id": one, "train_trial_index": 0,
         "stats": [{"name": {"name": "quasi_exact_match", "split": split}, "count": 1,
                    "mean": value, "sum": value}]}
        for one, split, value in instances
    ]  # fmt: skip
    whole = [
        {"name": {"name": "quasi_exact_match", "split": split}, "count": 1, "mean": mean}
        for split, mean in (("test", 0.5), ("valid", 1.0))
    ]
    run = folder / "task:model=a"
    written(run, "scenario_state.json", {"adapter_spec": {"model": "a"}, "request_states": states})
    written(run, "per_instance_stats.json", stats)
    written(run, "stats.json", whole)
    written(run, "run_spec.json", {"name": "task:model=a", "adapter_spec": {"model": "a"}})
    return run


def test_means_of_helm_are_those_of_one_split(tmp_path):
    ev = rs.evaluate(helm_folder(tmp_path))
    assert told(ev, "quasi_exact_match")[2] == [pytest.approx(2 / 3)]
    found = ev.check_reported()
    found = found[found["query_id"].eq("")].set_index("metric")
    assert found["difference"].abs().max() == 0
    assert "split = test: 2 of 3" in found.loc["quasi_exact_match/test", "note"]
    by_split = ev.summary("quasi_exact_match", by="split").set_index("split")["mean"]
    assert by_split.to_dict() == {"test": 0.5, "valid": 1.0}
    assert ev.results.responses["elapsed_ms"].tolist() == [500.0] * 3


def test_trials_of_helm_are_repeats_and_perturbed_instances_queries_of_their_own(tmp_path):
    run = helm_folder(tmp_path)
    state = json.loads((run / "scenario_state.json").read_text())
    stats = json.loads((run / "per_instance_stats.json").read_text())
    for one, stat in zip(state["request_states"][:2], stats[:2], strict=True):
        one["train_trial_index"] = stat["train_trial_index"] = 1
        one["instance"] |= {"id": "id3", "input": {"text": "id3?"}}
        stat["instance_id"] = "id3"
    state["request_states"][0]["instance"]["perturbation"] = {"name": "typos"}
    stats[0]["perturbation"] = {"name": "typos"}
    written(run, "scenario_state.json", state)
    written(run, "per_instance_stats.json", stats)
    responses = rs.load_results(run).responses
    assert responses["run_id"].nunique() == 2
    assert sorted(responses["query_id"].unique()) == ["id3", "id3~typos"]


# Every Eval Ever


def test_a_record_says_direction_and_range_of_its_samples(tmp_path):
    config = {"lower_is_better": True, "min_score": 0.0, "max_score": 10.0}
    record = {
        "evaluation_id": "e", "model_info": {"id": "org/m"},
        "evaluation_results": [{"evaluation_name": "bench", "evaluation_result_id": "r",
                                "metric_config": config, "score_details": {"score": 3.0}}],
    }  # fmt: skip
    samples = [
        {"evaluation_id": "e", "evaluation_result_id": "r", "evaluation_name": "bench",
         "sample_id": f"s{n}", "input": {"raw": f"{n}?", "reference": ["4"]},
         "output": {"raw": ["4"]}, "evaluation": {"score": value, "is_correct": True}}
        for n, value in enumerate([2.0, 4.0])
    ]  # fmt: skip
    alone = rs.evaluate(written(tmp_path, "x.json", record))
    assert "bench" in str(alone) and "reported" in str(alone)
    ev = rs.evaluate(written(tmp_path, "x_samples.jsonl", samples))
    assert told(ev, "bench") == ("lower", (0.0, 10.0), [3.0])
    found = ev.check_reported()
    assert found[found["query_id"].eq("")]["difference"].tolist() == [0.0]
    wrong = [one | {"evaluation": {"score": 11.0}} for one in samples]
    with refused("bench", 11):
        rs.evaluate(written(tmp_path, "x_samples.jsonl", wrong))


# MTEB


def test_means_of_a_model_are_one_run_for_each_task_split_and_subset(tmp_path):
    subsets = [
        {"hf_subset": one, "main_score": score} for one, score in (("default", 0.5), ("b", 0.7))
    ]
    task = {"task_name": "T", "mteb_version": "2", "scores": {"test": subsets}}
    other = task | {"task_name": "U", "scores": {"test": [{"hf_subset": "default",
                                                          "main_score": 0.1}]}}  # fmt: skip
    written(tmp_path, "T.json", task)
    written(tmp_path, "U.json", other)
    written(tmp_path, "model_meta.json", {"name": "org/model"})
    means = rs.load_results(tmp_path).reported_summary().set_index("metric")["mean"].to_dict()
    assert means == {
        "T/test/default/main_score": 0.5, "T/test/b/main_score": 0.7, "U/test/main_score": 0.1
    }  # fmt: skip
    single = rs.load_results(tmp_path / "U.json").runs.iloc[0]
    assert (single["run_id"], single["system"], single["suite"]) == ("U", "org/model", "U")


@pytest.mark.parametrize(
    "content",
    [
        {"NDCG@10": 0.5, "Recall@100": 0.75},
        {"ndcg": {"NDCG@10": 0.5}, "recall": {"Recall@100": 0.75}},
    ],
)
def test_means_of_beir_are_reported_under_our_labels(tmp_path, content):
    found = rs.load_results(written(tmp_path, "b.json", content)).reported_summary()
    assert found.set_index("reported_as")["metric"].to_dict() == {
        "NDCG@10": "ndcg_linear@10", "Recall@100": "recall@100"
    }  # fmt: skip
    assert found["mean"].tolist() == [0.5, 0.75]


# search engines


def test_ratings_of_opensearch_are_gains_or_small_grades(tmp_path):
    def judged(*ratings):
        rows = [{"docId": f"d{n}", "rating": one} for n, one in enumerate(ratings)]
        return {"name": "J", "judgmentRatings": [{"query": "shoes", "ratings": rows}]}

    esci = rs.load_golden(written(tmp_path, "a.json", judged("100.000", "10.000", "0.000")))
    assert esci.targets["grade"].tolist() == [2, 1, 0]
    assert esci.targets["gain"].tolist() == [100.0, 10.0, 0.0]
    graded = rs.load_golden(written(tmp_path, "b.json", judged("3.0", "1", "0.000")))
    assert graded.targets["grade"].tolist() == [3, 1, 0] and "gain" not in graded.targets


def test_an_experiment_has_hits_and_metrics_by_configuration(tmp_path):
    rows = [
        {"searchConfigurationId": one, "searchText": "shoes", "documentIds": docs,
         "metrics": [{"metric": "NDCG@10", "value": value}]}
        for one, docs, value in (("old", ["a", "b"], 0.5), ("new", ["b", "c"], 0.75))
    ]  # fmt: skip
    results = rs.load_results(written(tmp_path, "e.jsonl", rows))
    assert results.runs["system"].tolist() == ["old", "new"]
    assert results.hits["doc_id"].tolist() == ["a", "b", "b", "c"]
    assert rs.evaluate(results).summary("NDCG@10")["mean"].tolist() == [0.5, 0.75]


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


def test_what_users_did_are_scores_and_what_is_left_out_is_counted(tmp_path):
    about = {"client_id": "c", "session_id": "s"}

    def event(action, query_id, document=None, place=None):
        object_ = {"object": {"object_id": document}, "position": {"ordinal": place}}
        attributes = None if document is None else object_
        own = {"action_name": action, "query_id": query_id, "event_attributes": attributes}
        return about | own

    rows = [
        about | {"query_id": "q1", "user_query": "ps4"},
        about | {"query_id": "q2", "user_query": "tv", "query_response_hit_ids": ["z", "y"]},
        about | {"query_id": "q1", "user_query": "ps4"},
        event("impression", "q1", "b", 1), event("impression", "q1", "a", 0),
        event("click", "q1", "a", 0), event("click", "q9", "a", 0), event("search", "q1"),
    ]  # fmt: skip
    results = rs.load_results(written(tmp_path, "ubi.jsonl", rows))
    assert results.hits.groupby("query_id")["doc_id"].agg(list).to_dict() == {
        "q1": ["a", "b"], "q2": ["z", "y"]
    }  # fmt: skip
    values = rs.evaluate(results).scores
    assert values["click"].to_dict() == {"q1": 1.0, "q2": 0.0}
    assert sorted(text.split()[0] for text in results.problems["found"]) == ["1", "1"]


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
    ("lm-eval-helm/helm/narrative_qa*", "f1_score", 5, 0.139394),
    ("lm-eval-helm/helm/mmlu*", "quasi_exact_match", 10, 0.1),
    ("every-eval-ever/*_samples.jsonl", "demo-source.demo_bench", 1, 1.0),
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
        assert ev.declared.describe(metric).better == "higher"
        found = ev.check_reported().set_index("metric")
        assert found.loc[f"{metric}/accuracy", "difference"] == 0


MEANS = {
    "every-eval-ever/98ea850e-7019-4728-a558-8b1819ec47c2.json": {
        "IFEval": 0.4486, "BBH": 0.4224, "MATH Level 5": 0.0249, "GPQA": 0.2743, "MUSR": 0.4190,
        "MMLU-PRO": 0.1946,
    },
    "mteb-results/minilm-FiQA2018.json": {
        "FiQA2018/dev/main_score": 0.38815, "FiQA2018/test/main_score": 0.36867,
        "FiQA2018/train/main_score": 0.36609, "FiQA2018/test/ndcg_at_10": 0.36867,
    },
    "mteb-results/gteqwen15-BrightRetrieval.json": {
        "BrightRetrieval/standard/biology/main_score": 0.30924,
        "BrightRetrieval/long/biology/main_score": 0.66618,
    },
}  # fmt: skip


@real
@pytest.mark.parametrize(("file", "known"), MEANS.items(), ids=list(MEANS))
def test_means_of_real_files_are_reported_by_task_split_and_subset(file, known):
    means = rs.load_results(DATA / file).reported_summary().set_index("metric")["mean"]
    assert means[list(known)].to_dict() == known


@real
def test_epochs_of_inspect_are_averaged_as_its_own_reductions_are():
    ev = rs.evaluate(DATA / "inspect-logs/log_streaming.eval")
    letters = ev.scores.pivot(columns="run_id", values="match")
    assert letters.to_numpy().tolist() == [[0.0, 1.0], [1.0, 1.0]]
    row = ev.average_repeats().summary("match").iloc[0]
    assert (row["mean"], row["n"], row["std"] / row["n"] ** 0.5) == (0.75, 2, pytest.approx(0.25))
    found = ev.check_reported().set_index("metric")
    assert found.loc["match/accuracy", "recomputed"].tolist() == [0.75, 0.75]


@real
def test_explanations_and_tool_calls_of_inspect_are_kept():
    logs = DATA / "inspect-logs"
    graded = rs.load_results(next(logs.glob("*security-guide.json"))).judgments
    assert graded["reason"].notna().all() and len(graded) == 3
    browser = rs.load_results(next(logs.glob("*browser.json.gz"))).responses
    called = ["web_browser_go", *["web_browser_click"] * 3]
    assert json.loads(browser["x_tool_calls.json"].iloc[0]) == called


@real
@pytest.mark.parametrize(
    ("name", "metric", "of_test"),
    [("narrative_qa*", "f1_score/test", 0.174242), ("mmlu*", "quasi_exact_match/test", 0.111111)],
)
def test_stored_means_of_helm_are_per_split(name, metric, of_test):
    ev = rs.evaluate(next((DATA / "lm-eval-helm/helm").glob(name)))
    row = ev.check_reported().set_index("metric").loc[metric]
    assert (row["reported"], row["difference"]) == (pytest.approx(of_test, abs=5e-7), 0)


@real
def test_ratings_in_opensearch_are_as_many_as_the_file_holds():
    golden = rs.load_golden(DATA / "opensearch-esci-ubi/esci_us_judgments.json")
    counts = golden.targets.groupby("gain").size().to_dict()
    assert counts == {100.0: 3389, 10.0: 1898, 1.0: 305, 0.0: 1086}
    assert golden.queries["query"].iloc[0] == "t towels kitchen"
    results = rs.load_results(DATA / "opensearch-esci-ubi/ubi_queries_events.ndjson.gz")
    assert len(results.responses) == 284
