"""Runs of which only aggregates are known: run folders without rows, clones of a store.

Facts are worked by hand from the files that each test writes; the six published folders of the
chatbot harness are read where they lie beside the project.
"""

import json
from pathlib import Path

import pandas as pd
import pytest
from plausible_runs import put

import ragscore as rs
from tests.messages import refused, says, warned

PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "helloworld-runs"
needs_published = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the six published run folders are not beside the project"
)
FOUND = {"query_id": "q1", "hits_top_k": [{"rank": 1, "doc_id": "a.md"}]}
SUMMARY = "# Evaluation Run Summary\n\n## Run Description\n\n{note}\n\n## Configuration\n\n- K: 5\n"


def write_folder(root, name, *, eval_set="aaaa1111bbbb2222", judge="small", note="", k=5, **means):
    """Write a run folder as it is committed: no rows."""
    config = {
        "k": k, "judge_model": judge, "judge_prompt_version": "v1.0", "judge_temperature": 0.0,
        "dataset_version": eval_set, "eval_set_commit_hash": eval_set,
    }  # fmt: skip
    metrics = {
        "run_id": name, "timestamp": f"2026-01-{int(name[-2:]):02d}T10:00:00+00:00",
        "aggregate_metrics": {
            "operational_metrics": {"error_rate": 0.0, "coverage_by_doc_type": {}},
            "latency": {"p50_ms": 100.0, "p95_ms": 300.0, "total_ms": 1200.0}, **means,
        },
        "config_hash": "c0ffee", "eval_set_commit_hash": eval_set,
    }  # fmt: skip
    folder = put(root, [metrics], f"{name}/metrics.json").parent
    put(folder, [config], "config.json")
    (folder / "summary.md").write_text(SUMMARY.format(note=note or name))
    return folder


@pytest.fixture
def folders(tmp_path):
    """Three runs: another eval set with the second, another judge with the third."""
    root = tmp_path / "results"
    write_folder(root, "run_01", recall_at_k_avg=0.5, groundedness_avg=2.5, note="first try")
    write_folder(root, "run_02", recall_at_k_avg=0.6, groundedness_avg=3.0, eval_set="cccc3333dd")
    write_folder(
        root, "run_03", recall_at_k_avg=0.7, groundedness_avg=None, eval_set="cccc3333dd",
        judge="large",
    )  # fmt: skip
    (root / "README.md").write_text("Runs, as they were committed.\n")
    return root


@pytest.fixture
def store_of(tmp_path):
    """Save runs in a store that holds nothing else."""

    def saved(source):
        store = rs.RunStore(tmp_path / "store")
        store.save(rs.load_results(source))
        return store

    return saved


GOLDEN = {"q1": ["a.md"]}


@pytest.mark.parametrize("source", ["{}", "{}/*"])
def test_folders_without_rows_load_as_runs(folders, store_of, source):
    results = rs.load_results(source.format(folders))
    runs = results.runs
    assert runs[["run_id", "note", "k"]].to_numpy().tolist() == [
        ["run_01", "first try", 5], ["run_02", "run_02", 5], ["run_03", "run_03", 5],
    ]  # fmt: skip
    assert str(runs["created_at"].iloc[0]) == "2026-01-01 10:00:00+00:00"
    assert json.loads(runs["config"].iloc[2])["judge_model"] == "large"
    assert runs["x_eval_set_commit_hash"].tolist()[1:] == ["cccc3333dd"] * 2
    assert "n_queries" not in runs  # unknown, and not 0
    assert results.responses.empty and len(results.reported) == 3 * 6
    # null is a value that is not known
    means = store_of(source.format(folders)).summary().query("metric == 'judge_groundedness'")
    known = means.dropna(subset=["mean"]).set_index("run_id")["mean"]
    assert known.to_dict() == {"run_01": 2.5, "run_02": 3} and means["is_reported"].all()


def test_names_are_ours_where_the_definition_is_the_same_and_latencies_keep_their_statistic(
    store_of, tmp_path
):
    folder = write_folder(tmp_path, "run_01", k=7, recall_at_k_avg=0.25, their_own_score=9)
    results = rs.load_results(folder)
    assert results.reported.set_index("metric")["label"].dropna().to_dict() == {
        "operational_metrics.error_rate": "failed", "latency.p50_ms": "latency_ms",
        "latency.p95_ms": "latency_ms", "latency.total_ms": "latency_ms",
        "recall_at_k_avg": "hit@7",
    }  # fmt: skip
    table = store_of(folder).summary().set_index("metric")
    assert table.loc["latency_ms", ["p50", "p95", "sum"]].tolist() == [100, 300, 1200]
    assert pd.isna(table.loc["latency_ms", "mean"]) and pd.isna(table.loc["hit@7", "n"])
    assert table.loc[["hit@7", "their_own_score"], "mean"].tolist() == [0.25, 9]


def test_a_folder_whose_metrics_hold_no_number_is_refused(tmp_path):
    file = put(tmp_path, [{"run_id": "a", "aggregate_metrics": {}}], "empty/metrics.json")
    with refused(file="metrics.json", field="aggregate_metrics"):
        rs.load_results(file.parent)


def test_a_trend_breaks_where_eval_set_or_judge_differ(folders, store_of, tmp_path):
    store = store_of(folders)
    trend, judged = store.trend("hit@5"), store.trend("judge_groundedness").table
    table = trend.table
    assert table["mean"].tolist() == [0.5, 0.6, 0.7] and table["is_reported"].all()
    assert table["segment"].tolist() == [1, 2, 2]  # a judge doesn't touch hit@5
    says(table["break_reason"][1], "dataset_version", "aaaa1111 → cccc3333")
    (hollow, *_) = [one for one in trend.plot().lines if one.get_markerfacecolor() == "white"]
    assert hollow.get_ydata().tolist() == [0.5, 0.6, 0.7]
    assert hollow.get_label() == "reported, without rows"
    assert judged["segment"].tolist() == [1, 2, 3]
    says(judged["break_reason"][2], "judge", "small", "large")
    assert store.trend("latency_ms").table["p50"].tolist() == [100, 100, 100]
    with refused("hit@6", "hit@5", field="metric"):
        store.trend("hit@6")
    with warned("run_01, run_02, run_03"), refused(file=tmp_path / "store"):
        store.evaluate(rs.load_golden(GOLDEN))


def test_an_evaluation_knows_runs_with_rows_alone(folders, write_run):
    with refused("no run has rows", "store.summary()", field="results"):
        rs.evaluate(folders, GOLDEN)
    scored = write_run("scored", [FOUND], system="mine")
    with warned("run_02", "run_03", "store.trend"):
        ev = rs.evaluate([scored, folders / "run_02", folders / "run_03"], GOLDEN)
    pd.testing.assert_frame_equal(ev.scores, rs.evaluate(scored, GOLDEN).scores)
    assert ev.run_ids == ["scored"] and ev.results.runs["run_id"].tolist() == ["scored"]


# -- the six published folders --


@needs_published
def test_all_57_published_numbers_are_there():
    results = rs.load_results(PUBLISHED)
    for run_id, own in results.reported.groupby("run_id", observed=True)["value"]:
        content = json.loads((PUBLISHED / str(run_id) / "metrics.json").read_text())
        flat = pd.json_normalize(content["aggregate_metrics"]).iloc[0]
        assert sorted(own) == sorted(pd.to_numeric(flat, errors="coerce").dropna())
    assert len(results.reported) == 57 == len(rs.load_results(f"{PUBLISHED}/*").reported)
    assert results.reported["label"].notna().all()
    assert results.runs["note"].iloc[0] == "Baseline first 10 questions"


@needs_published
def test_the_published_runs_break_where_their_configs_say(store_of):
    # eval_set_commit_hash and dataset_version: db0a866e, ac49cfd3, 2e3265d7, then three times
    # 5a105241. The judge changes with the fourth run. The sixth was relabelled under the hash of
    # the fifth: nothing in its files shows that.
    store = store_of(PUBLISHED)
    changes = ["db0a866e → ac49cfd3", "ac49cfd3 → 2e3265d7", "2e3265d7 → 5a105241"]
    for metric in ("hit@5", "judge_groundedness"):
        table = store.trend(metric).table
        assert table["segment"].tolist() == [1, 2, 3, 4, 4, 4]
        reasons = table["break_reason"].dropna().tolist()
        for reason, change in zip(reasons, changes, strict=True):
            says(reason, "eval set", "dataset_version", change)
        assert ("judge" in reasons[2]) == (metric == "judge_groundedness")
    judged = store.trend("judge_groundedness").table["mean"]
    assert judged.fillna(-1).tolist() == [-1, -1, -1, 2.8, 2.8, 3.0]
    assert store.trend("hit@5").table["mean"].tolist()[3:] == [0.1, 0.1, 0.7]
    assert store.trend("latency_ms").table["p50"].round(1).tolist() == [
        4757.7, 7722.9, 6652.6, 1623.1, 2128.9, 2455.4,
    ]  # fmt: skip
