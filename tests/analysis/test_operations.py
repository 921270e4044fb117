"""Reports per run: refusals, errors, cost, indexing; metrics.json of a chatbot, and event logs."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pandas as pd
import pytest
from plausible_runs import put

import ragscore as rs
from ragscore.analysis.aggregates import aggregate as aggregate_of
from ragscore.analysis.extras.harness_files import config_hash, event_log, write_metrics_json
from ragscore.analysis.extras.runs import indexed_types
from ragscore.analysis.refusals import refusals
from ragscore.io.formats.chatbot import BESIDE
from ragscore.judging.agreement import agreement
from ragscore.scoring.readings import READINGS
from tests.messages import refused, warned


def results_of(n, *, runs=("run",), frames=None, **columns):
    """Results of runs that were asked q0, q1 and so on."""
    ids = [f"q{i}" for i in range(n)]
    responses = pd.DataFrame({"run_id": runs[0], "query_id": ids, "query": "?", "error": None})
    runs = pd.DataFrame({"run_id": runs})
    return rs.Results(runs=runs, responses=responses.assign(**columns), **(frames or {}))


def golden_of(answerable):
    queries = pd.DataFrame({"query_id": [f"q{i}" for i in range(len(answerable))], "query": "?"})
    return rs.Golden(queries=queries.assign(answerable=pd.array(answerable, dtype="boolean")))


# 3 due: 2 refused, 1 answered; 4 answerable: 1 refused, 3 answered; one unlabelled, one failed
SOME = [True, True, False, True, False, False, False, True, None]
OF_SOME = [False] * 3 + [True] * 4 + [None, False]


@pytest.mark.parametrize(
    ("refused", "answerable", "error", "rates", "counts"),
    [
        (SOME, OF_SOME, [None] * 8 + ["boom"], [2 / 3, 2 / 3, 2 / 3, 5 / 7], [7, 2, 1, 1, 3, 2]),
        # nothing calls for a refusal
        ([False] * 2, [True] * 2, None, [-1, -1, -1, 1], [2, 0, 0, 0, 2, 0]),
    ],
)
def test_refusals_are_judged_as_a_detector(refused, answerable, error, rates, counts):
    results = results_of(len(refused), answer="a", refused=refused, error=error)
    golden = golden_of(answerable)
    scores = rs.score(results, golden, ["refusal_correct", "false_refusal"])
    row = refusals(scores, golden).detection.iloc[0]
    found = row[["precision", "recall", "f1", "accuracy"]].fillna(-1).tolist()
    assert found == pytest.approx(rates)
    names = ["n", "n_refused_due", "n_refused_answerable", "n_answered_due",
             "n_answered_answerable", "n_undecided"]  # fmt: skip
    assert row[names].tolist() == counts


def test_documents_without_chunks_show_by_type():
    chunks = pd.DataFrame(
        {"chunk_id": ["1", "2", "3", "4"], "doc_id": ["a", "a", None, "e"],
         "path": ["a.md", "a.md", "b.pdf", "e.txt"]}
    )  # fmt: skip
    documents = pd.DataFrame(
        {"doc_id": ["a", "b", "c", "d", "f"], "doc_type": [None, "scan", "scan", None, None],
         "path": ["a.md", "b.pdf", "c.pdf", "d.md", None]}
    )  # fmt: skip
    both = {"chunks": chunks, "documents": documents}
    report = indexed_types(results_of(1, frames=both)).set_index("doc_type")
    # b has a chunk by its path; c, d and f have none; e is known from the catalogue only.
    columns = ["n_docs", "n_without_chunks", "coverage", "n_embedded"]
    assert report[columns].T.to_dict("list") == {
        "(none)": [1, 1, 0, 0], "md": [2, 1, 0.5, 2], "scan": [2, 1, 0.5, 1], "txt": [1, 0, 1, 1]
    }  # fmt: skip
    alone = indexed_types(results_of(1, frames={"chunks": chunks})).set_index("doc_type")
    assert alone["n_docs"].to_dict() == {"md": 1, "pdf": 1, "txt": 1}
    assert alone[["coverage", "n_without_chunks"]].isna().all(axis=None)


CATALOGUE = {
    "chunks": pd.DataFrame({"chunk_id": ["1"], "doc_id": ["a"], "path": ["a.md"]}),
    "documents": pd.DataFrame({"doc_id": ["a", "b"], "path": ["a.md", "b.md"]}),
}


def test_documents_of_one_run_say_nothing_of_another():
    frames = CATALOGUE | {"documents": CATALOGUE["documents"].assign(run_id="one")}
    report = indexed_types(results_of(1, runs=["one", "two"], frames=frames)).set_index("run_id")
    assert report["coverage"].fillna(-1).to_dict() == {"one": 0.5, "two": -1}
    assert report["n_docs"].to_dict() == {"one": 2, "two": 1}


def test_the_hash_of_a_config_is_the_one_that_was_published_with_it():
    config = {
        "k": 5, "rerank_weights": {"vector": 0.7, "lexical": 0.3},
        "folder_mode": "on_with_fallback", "llm_model": "Qwen2.5-3B-Instruct-Q4_K_M",
        "embedding_model": "ggml-org_embeddinggemma-300M-GGUF_embeddinggemma-300M-Q8_0",
        "judge_model": "bartowski_Qwen2.5-14B-Instruct-GGUF_Qwen2.5-14B-Instruct-Q4_K_M",
        "judge_prompt_version": "v1.0", "judge_temperature": 0.0,
        "dataset_version": "5a105241ba75c516a0a118cb8ce62c7cf7c5c87f", "index_build_version": None,
        "retriever_version": None, "answerer_version": None,
    }  # fmt: skip
    for one in (config, config | {"eval_set_commit_hash": "any"}):
        assert config_hash(one) == "6329e097fc497a59"


# metrics.json: three cases, one found at rank 2, one not found, one refused as it should be

SUPPORT = {"rel_path": "a.md", "heading_path": "# O"}
CHUNK = {"chunk_id": "c", "rel_path": "b.md", "heading_path": "# Q", "rank": 1, "text": "t"}
FOUND = SUPPORT | {"chunk_id": "d", "rank": 2, "text": "t"}
CASE = {"question": "?", "expected_key_facts": [], "required_support_groups": None,
        "answerable": True, "gold_supports": [SUPPORT], "category": "factual"}  # fmt: skip
CASES = [
    CASE | {"id": "t1", "tags": ["x", "y"]},
    CASE | {"id": "t2", "tags": ["x"]},
    CASE | {"id": "t3", "answerable": False, "gold_supports": [], "category": "general"},
]
ROW = {
    "question": "?", "references": [], "retrieved_chunks": [CHUNK], "answer": "a",
    "groundedness": {"score": 4.0, "reasoning": "r"}, "latency": {"total_ms": 100.0},
}  # fmt: skip
ROWS = [
    ROW
    | {
        "test_case_id": "t1",
        "references": [SUPPORT],
        "retrieved_chunks": [CHUNK, FOUND],
        "cost": {"judge_tokens": 120, "judge_cost_usd": 0.5},
    },
    ROW | {"test_case_id": "t2", "latency": {"total_ms": 300.0}},
    ROW | {"test_case_id": "t3", "abstention": {"abstained": True}, "latency": {"total_ms": 200.0}},
]
CONFIG = {"k": 2, "folder_mode": "on", "judge_model": "j", "eval_set_commit_hash": "abc"}


@pytest.fixture
def chatbot(tmp_path):
    file = put(tmp_path, ROWS, "20260101_000000/results.jsonl")
    file.with_name("config.json").write_text(json.dumps(CONFIG))
    return rs.load_results(file.parent), rs.load_golden(put(tmp_path, CASES, "eval_set.jsonl"))


@pytest.fixture
def content(chatbot, tmp_path):
    """What its metrics.json holds."""
    return json.loads(write_metrics_json(*chatbot, tmp_path / "out").read_text())


def test_metrics_json_holds_the_aggregate_of_its_harness_and_what_it_is_of(content, chatbot):
    about = {
        "run_id": "20260101_000000", "config_hash": config_hash(CONFIG),
        "eval_set_commit_hash": "abc", "total_tests": 3, "answerable_tests": 2,
        "unanswerable_tests": 1,
    }  # fmt: skip
    assert {name: content[name] for name in about} == about
    aggregate = aggregate_of(*chatbot, "chatbot")["20260101_000000"]
    values = content["aggregate_metrics"]
    assert values == aggregate | {"cost": {"judge_total_tokens": 120, "judge_total_usd": 0.5}}
    # found at rank 2, not at all, and to be refused, which counts 0
    assert values["mrr_avg"] == pytest.approx((1 / 2 + 0 + 0) / 3)
    assert values["latency"] == {"p50_ms": 200, "p95_ms": 300, "total_ms": 600}
    assert set(BESIDE) - set(content) == {"judge_reliability"}
    of_tag, general = content["by_tag"], content["by_category"]["general"]
    names = ("total_tests", "recall_at_k_avg")
    recalls = {tag: [part[name] for name in names] for tag, part in of_tag.items()}
    assert recalls == {"x": [2, 0.5], "y": [1, 1.0]}
    assert (general["recall_at_k_avg"], general["abstention_accuracy"]) == (0, 1)


def test_metrics_json_holds_coverage_by_type_where_it_is_known(content, chatbot, tmp_path):
    assert "coverage_by_doc_type" not in content["aggregate_metrics"]["operational_metrics"]
    results, golden = chatbot
    file = write_metrics_json(replace(results, **CATALOGUE), golden, tmp_path / "known")
    operational = json.loads(file.read_text())["aggregate_metrics"]["operational_metrics"]
    assert operational["coverage_by_doc_type"] == {"md": 0.5}


def test_metrics_json_takes_a_profile_of_ones_own(chatbot, tmp_path):
    own = replace(READINGS["chatbot"], recall_all_needs_groups=False)
    file = write_metrics_json(*chatbot, tmp_path / "out", profile=own)
    # all supports of a case are one group: found of one, not of the other
    assert json.loads(file.read_text())["aggregate_metrics"]["recall_all_at_k_avg"] == 0.5
    with refused("mine", "chatbot", field="profile"):
        write_metrics_json(*chatbot, tmp_path, profile=replace(own, name="mine"))


def test_metrics_json_holds_how_often_a_second_judge_disagreed(chatbot, tmp_path):
    results, golden = chatbot
    rows = pd.DataFrame({"run_id": "r", "query_id": ["q", "r"] * 2})
    rows["criterion"] = ["judge_correctness"] * 2 + ["judge_groundedness"] * 2
    with warned("judge_correctness 50%"):
        found = agreement(rows.assign(value=[5, 5, 4, 4]), rows.assign(value=[5, 0, 4, 4]))
    # of four pairs one is far apart, among two answers
    ev = rs.evaluate(results, golden, profile="chatbot")
    folder = results.save(tmp_path / "again" / "20260101_000000", format="chatbot")
    file = ev.save(folder, agreement=found)
    reliability = {"disagreement_rate": 0.25, "spot_check_n": 2}
    assert json.loads(file.read_text())["judge_reliability"] == reliability
    reported = rs.load_results(folder).reported.set_index(["query_id", "metric"])["value"]
    assert reported["", "judge_reliability.disagreement_rate"] == 0.25
    assert reported["", "by_tag.x.mrr_avg"] == 0.25 and reported["", "groundedness_avg"] == 4


# SEEDS C.2: metrics as an event log

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def ev(pair):
    pair[1].queries["lang"] = "en"
    return rs.evaluate(*pair, ["hit@1", "refusal_correct"])


@pytest.fixture
def logged(tmp_path):
    """Log a table, and return the lines of the file."""

    def logged(table, **how):
        file = tmp_path / "log.jsonl"
        event_log(table, file, **how)
        lines = file.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    return logged


def test_each_metric_is_one_line(ev, logged):
    first, refusal, *rest = logged(ev.summary(), occurred_at=NOON)
    tick, low, high = first.pop("tick"), first.pop("ci_lower"), first.pop("ci_upper")
    assert first == {
        "version": 1, "occurred_at_millis": 1769860800000, "conversation_id": "a",
        "kind": "eval.retrieval_report", "metric": "hit@1", "n": 3, "mean": pytest.approx(1 / 3),
        "ci_level": 0.95, "run_id": "a",
    }  # fmt: skip
    assert 0 < low < 1 / 3 < high < 1 and refusal["tick"] == tick + 1 and len(rest) == 2
    # measured nowhere: left out, never NaN
    assert refusal["n"] == 0 and not {"mean", "ci_lower", "ci_level"} & set(refusal)


def test_logs_are_appended_to_also_after_a_line_cut_short_by_a_crash(ev, logged, tmp_path):
    (tmp_path / "log.jsonl").write_text('{"version": 1, "occ')
    logged(ev.summary(), conversation_id="nightly")
    events = logged(ev.summary(by="lang"), conversation_id="nightly")
    assert [one["conversation_id"] for one in events] == ["nightly"] * 8
    assert [one["tick"] for one in events] == sorted({one["tick"] for one in events})
    assert events[-1]["slice"] == {"lang": "en"} and "slice" not in events[0]


DELTAS = pd.DataFrame(
    {
        "metric": ["recall@10", "hit@5", "mrr", "empty"],
        "baseline": [0.9, 0.9, None, 0.0],
        "candidate": [0.4, 0.88, 0.5, 0.1],
        "delta": [-0.5, -0.02, None, 0.1],
    }
)


def test_differences_say_whether_they_are_regressions(ev, logged):
    tolerances = {"recall@10": 0.05, "hit@5": 0.02, "empty": 0.05}
    events = logged(DELTAS, conversation_id="c", tolerances=tolerances)
    regressed = {one["metric"]: one["regressed"] for one in events}
    assert regressed == {"recall@10": True, "hit@5": False, "mrr": False, "empty": True}
    recall, _, mrr, _ = events
    assert recall["kind"] == "eval.regression_diff"
    assert (recall["current_mean"], recall["baseline_mean"]) == (0.4, 0.9)
    assert not {"baseline_mean", "delta"} & set(mrr)
    # those of a comparison are taken as they are
    *_, last = logged(ev.compare("a", "b", "hit@1").deltas, conversation_id="c")
    assert last["delta"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("table", "how", "field"),
    [
        (pd.DataFrame({"x": [1]}), {}, "table"),
        (DELTAS, {}, "conversation_id"),
        (DELTAS, {"conversation_id": "c", "occurred_at": NOON.replace(tzinfo=None)}, "occurred_at"),
    ],
    ids=["no table", "no conversation", "no time zone"],
)
def test_what_cannot_be_logged_is_said(tmp_path, table, how, field):
    with refused(field=field):
        event_log(table, tmp_path / "log.jsonl", **how)
    assert not (tmp_path / "log.jsonl").exists()
