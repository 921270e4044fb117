"""Values that other tools stored, of queries or of runs without rows: loaded, checked, compared."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from plausible_runs import put

import ragscore as rs
from ragscore.analysis.extras.stored_scores import ROW, score_diff
from ragscore.analysis.reported import REPORTED_NAMES, label_of
from ragscore.cli import main
from ragscore.scoring.readings import HARNESSES, Harness, Reading
from tests.compared import check_reported
from tests.messages import refused, says, warned

ENTRY = {
    "metric": "recall@10", "n": 3, "mean": 0.5, "stddev": 0.5, "min": 0.0, "max": 1.0, "p50": 0.5,
    "p95": 0.95,
    "per_query": [["q1", 0.0], ["q2", 0.5], ["q3", 1.0]],
    "ci": {"lower": 0.38, "upper": 0.6, "level": 0.9, "iterations": 500},
}  # fmt: skip
REPORT = {
    "dataset_id": "beir/nq", "store_kind": "memvid:x", "judge_fingerprint": "a|b",
    "freshness": {"stale_rate": 0.25},
    "metrics": [ENTRY,
    {"metric": "faithfulness", "n": 1, "mean": 1.0, "stddev": 0.0, "min": 1.0, "max": 1.0,
    "p50": 1.0, "p95": 1.0, "per_query": [["q1", 1.0], ["q2", None]]}],
}  # fmt: skip


@pytest.fixture
def report(tmp_path):
    def write(content=REPORT, name="nightly.json", **layout):
        return put(tmp_path, [json.dumps(content, **layout)], name)

    return write


@pytest.mark.parametrize("layout", [{}, {"indent": 2}])
def test_a_report_loads_as_reported_values(report, layout):
    results = rs.load_results(report(**layout))
    is_of_query = results.reported["statistic"].isna()
    rows = results.reported.loc[is_of_query, ["query_id", "metric", "value"]]
    assert rows.fillna(-1).to_numpy().tolist() == [
        ["q1", "recall@10", 0], ["q2", "recall@10", 0.5], ["q3", "recall@10", 1],
        ["q1", "faithfulness", 1], ["q2", "faithfulness", -1],
    ]  # fmt: skip
    told = results.reported[~is_of_query].query("metric == 'recall@10'")
    assert told.set_index("statistic")["value"].to_dict() == {
        "n": 3, "mean": 0.5, "std": 0.5, "min": 0, "max": 1, "p50": 0.5, "p95": 0.95, "low": 0.38,
        "high": 0.6, "level": 0.9, "iterations": 500,
    }  # fmt: skip
    about = results.runs[["run_id", "system", "suite"]].astype("str").iloc[0]
    assert about.tolist() == ["nightly", "memvid:x", "beir/nq"]


def test_fields_of_a_report_that_no_column_takes_are_kept(report):
    more = ENTRY | {"judge": {"model": "m"}, "ci": ENTRY["ci"] | {"method": "bootstrap"}}
    results = rs.load_results(report(REPORT | {"attempts": 3, "metrics": [more]}))
    assert results.runs["x_attempts"].tolist() == [3] and results.problems.empty
    own = results.reported.loc[lambda rows: rows["statistic"] == "mean"]
    assert own[["x_judge.model", "x_ci.method"]].values.tolist() == [["m", "bootstrap"]]


@pytest.mark.parametrize(
    ("metrics", "field"),
    [
        (["mrr"], None),
        ([ENTRY, ENTRY], "metric"),
        ([{"n": 3}], "metric"),
        ([{"metric": "mrr", "mean": "high"}], "mean"),
        ([{"metric": "mrr", "per_query": {"q1": 1}}], "per_query"),
        ([{"metric": "mrr", "per_query": [["q1"]]}], "per_query"),
        ([{"metric": "mrr", "per_query": [["q1", 1], ["q1", 0]]}], "per_query.query"),
        ([{"metric": "mrr", "per_query": [["q1", True]]}], "per_query.value"),
        ([{"metric": "mrr", "ci": [0, 1]}], "ci"),
    ],
)
def test_what_is_no_report_is_refused_with_its_field(report, metrics, field):
    file = report({"metrics": metrics})
    with refused(file="nightly.json", field=field):
        rs.load_results(file, format="metric_report")
    assert len(rs.load_results(file, format="metric_report", strict=False).problems) == 1


# reported against recomputed


def reported(*rows, query_id="q1"):
    """Values of run a as a tool might have stored them: (metric, value) or with the query."""
    columns = ["metric", "value", "query_id"]
    frame = pd.DataFrame([(*row, query_id)[:3] for row in rows], columns=columns)
    return frame.assign(run_id="a")


def test_reported_values_stand_beside_recomputed_ones(pair):
    values = reported(
        ("mrr", 1.0, "q1"), ("recip_rank", 0.25, "q2"), ("hit_rate@3", 1.0, "q2"),
        ("recall@10", 0.0, "q3"), ("house_style", 0.9, "q1"), ("recall", 1.0, "q1"),
        ("faithfulness", 1.0, "q1"), ("mrr", np.nan, "q1"),
    )  # fmt: skip
    checked = check_reported(*pair, values)
    known = checked.fillna({"label": "", "recomputed": -1, "difference": -1}).iloc[:5]
    # run a finds q2's document at rank 4 only, so a hit within 3 was reported wrongly
    assert known[["metric", "label", "recomputed", "difference"]].to_numpy().tolist() == [
        ["mrr", "mrr", 1, 0], ["recip_rank", "mrr", 0.25, 0], ["hit_rate@3", "hit@3", 0, -1],
        ["recall@10", "recall@10", 0, 0], ["house_style", "", -1, -1],
    ]  # fmt: skip
    # a note says why a value was not recomputed
    notes = checked["note"].tolist()
    assert pd.isna(notes[:4]).all() and len({*notes[4:]}) == 4
    says(notes[5], "recall@5")
    with refused("c", "a, b", field="reported.run_id"):
        check_reported(*pair, values.assign(run_id="c"))
    with refused(field="reported"):
        check_reported(replace(pair[0], reported=None), pair[1])


def test_a_report_without_hits_is_not_checked_against_rankings_of_nothing(report):
    checked = rs.extras.check_reported(rs.evaluate(report(), {"q2": ["d"]}, profile="rig"))
    of_recall = checked[checked["metric"] == "recall@10"]
    assert of_recall[["recomputed", "difference"]].isna().all(axis=None)
    (note,) = set(of_recall["note"])
    says(note, "hits")


@pytest.mark.parametrize("profile", [None, "rig"])
def test_summary_values_are_checked_too(pair, profile):
    told = {"mean": 0.5, "n": 3, "p50": 0.25, "sum": 1, "level": 0.9}
    values = reported(*(("mrr", value) for value in told.values()), query_id="")
    values = values.assign(statistic=list(told))
    checked = check_reported(*pair, values, profile=profile)
    # reciprocal ranks 1, 1/4, 0
    found = checked[["recomputed", "difference"]].to_numpy().tolist()
    known = [[5 / 12, 5 / 12 - 0.5], [3, 0], [0.25, 0], [1.25, 0.25]]
    assert found[:4] == pytest.approx(np.array(known))
    assert pd.isna(found[4][0])


@pytest.mark.filterwarnings("ignore:golden queries without a row")
@pytest.mark.parametrize(("how", "recomputed"), [({}, 1.0), ({"missing": "zero"}, 0.5)])
def test_values_are_checked_by_the_evaluations_policies(how, recomputed):
    ev = rs.evaluate({"a": {"q0": ["d"]}}, {"q0": ["d"], "q1": ["d"]}, **how)
    values = reported(("hit@1", 0.5), query_id="").assign(statistic="mean")
    assert rs.extras.check_reported(ev, values)["recomputed"].tolist() == [recomputed]


@pytest.mark.parametrize(
    ("metric", "label"),
    [
        ("recall@10", "recall@10"), ("hit_rate@5", "hit@5"), ("Hit Rate@3", "hit@3"),
        ("hit_at_1", "hit@1"), ("nDCG@10", "ndcg@10"), ("mrr", "mrr"), ("R@5", "recall@5"),
        ("P_10", "precision@10"), ("ndcg_cut_10", "ndcg_linear@10"), ("recip_rank", "mrr"),
        ("success_5", "hit@5"), ("map", "map"), ("Exact Match", "exact_match"),
        ("rouge_score(mode=fmeasure)", "rouge_l"), ("equals", "exact_match"),
        ("claim_recall", "context_recall"), ("refusal_correct", "refusal_correct"),
        ("f1", None), ("recall", None), ("recall_at_k", None), ("recall@0", None),
        ("correctness", None), ("faithfulness_v9", None), ("", None),
        ("freshness.stale_free_rate@5", None),
    ],
)  # fmt: skip
def test_names_of_other_tools_are_mapped_by_a_table(metric, label):
    assert label_of(metric) == label


def test_every_name_of_the_table_is_a_metric_here():
    assert all(label_of(name) or label_of(f"{name}@5") for name in REPORTED_NAMES)


def test_reported_values_compare_without_hits(report):
    worse = ENTRY | {"per_query": [["q1", 0.0], ["q2", 0.0], ["q4", 1.0]]}
    today = report(REPORT | {"metrics": [worse, REPORT["metrics"][1]]}, "today.json")
    with warned("nightly: 1, today: 1"):
        ev = rs.evaluate([report(), today])
    row = score_diff(ev, "nightly", "today")["rows"][0]
    names = ["winners", "losers", "unchanged", "delta"]
    assert [row[name] for name in names] == [0, 1, 1, -0.25]
    summary = ev.summary("recall@10").set_index("run_id")
    found = summary.loc["nightly", ["n", "mean", "std", "p95"]].tolist()
    assert found == pytest.approx([3, 0.5, 0.5, 0.95])


# diffs


def test_movers_of_the_same_size_keep_the_candidates_order(pair):
    scores = rs.score(*pair, ["hit@1", "mrr", "latency_ms"])
    scores.loc[(scores["run_id"] == "b") & (scores.index == "q1"), "latency_ms"] = 0.5
    rows = score_diff(scores, "a", "b")["rows"]
    assert [row["metric"] for row in rows] == ["hit@1", "mrr", "latency_ms"]
    movers = [[one["query_id"] for one in row["query_changes"]] for row in rows[:2]]
    # mrr: q1 1 -> 1/2, q2 1/4 -> 1, q3 0 -> 1
    assert movers == [["q1", "q2", "q3"], ["q3", "q2", "q1"]]
    # a lower time is better
    counts = [[row[name] for name in ("winners", "losers", "unchanged")] for row in rows]
    assert counts == [[2, 1, 0], [2, 1, 0], [1, 0, 2]]


def test_a_diff_of_another_tool_loads(tmp_path):
    row = {
        "metric": "recall@5", "current_mean": 0.8, "baseline_mean": 0.6, "delta": 0.2,
        "winners": 1, "losers": 0, "unchanged": 2, "query_changes": [
            {"query_id": "q1", "current": 1.0, "baseline": 0.5, "delta": 0.5}],
    }  # fmt: skip
    alone = {
        "metric": "mrr", "current_mean": 0.8, "baseline_mean": None, "delta": None,
        "winners": 0, "losers": 0, "unchanged": 0, "query_changes": [],
    }  # fmt: skip
    (tmp_path / "diff.json").write_text(json.dumps({"rows": [row, alone]}))
    assert score_diff(tmp_path / "diff.json") == {"rows": [row, alone]}


@pytest.mark.parametrize(
    "text", [
        "{}", '{"rows": [{"metric": "m", "query_changes": [1]}]}', '{"rows": 3}', "{",
        json.dumps({"rows": [dict.fromkeys(ROW) | {"query_changes": [
            {"query_id": "q1", "current": "high", "baseline": 0.5, "delta": 0.5}]}]}),
    ],
)  # fmt: skip
def test_what_is_no_diff_is_refused(text):
    with refused("diff"):
        score_diff(text)


HARNESS = Harness(
    {
        "recall_at_k_avg": "hit@{run_k}",
        "mrr_avg": "mrr@{run_k}",
        "scope_miss_rate": "scope_miss_proxy",
        "latency.p50_ms": "p50(latency_ms)",
    }
)


def test_a_profile_says_what_the_reported_names_mean(pair, monkeypatch):
    monkeypatch.setitem(HARNESSES, "theirs", HARNESS)
    results, golden = pair
    results.runs["k"] = pd.array([3, 3], dtype="Int64")
    # run a finds q1's document at rank 1, q2's at rank 4 and nothing for q3, so that a cut at 3
    # keeps one of three
    values = reported(
        ("recall_at_k", 1.0, "q1"), ("recall_at_k", 1.0, "q2"), ("mrr", 0.25, "q2"),
        ("recall_at_k_avg", 0.9, ""), ("latency.p50_ms", 7.0, ""),
    )  # fmt: skip
    checked = check_reported(results, golden, values, profile=Reading("theirs"))
    assert checked["label"].astype(object).tolist()[:3] == ["hit@3", "hit@3", "mrr@3"]
    assert checked["recomputed"].tolist() == pytest.approx([1, 0, 0, 1 / 3, 1])
    assert checked["difference"].tolist() == pytest.approx([0, -1, -0.25, 1 / 3 - 0.9, -6])
    assert check_reported(results, golden, values)["label"].dropna().tolist() == ["mrr"]


# Reports of different judges


def of_judges(report, *judges):
    """Evaluate reports a, b whose judges are these; None: it says nothing."""
    silent = {key: value for key, value in REPORT.items() if key != "judge_fingerprint"}
    contents = [silent | ({"judge_fingerprint": one} if one else {}) for one in judges]
    files = zip(contents, ["a.json", "b.json"], strict=True)
    return rs.evaluate([report(*one) for one in files])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("judge", ["a|b", None])
def test_reports_of_one_judge_are_subtracted_without_a_word(report, judge):
    ev = of_judges(report, judge, judge)
    assert {row["delta"] for row in score_diff(ev, "a", "b")["rows"]} == {0}


def test_reports_of_different_judges_are_refused_with_both_names(report):
    ev = of_judges(report, "gpt|p1", "llama|p1")
    facts = ["a", "gpt|p1", "b", "llama|p1"]
    with refused(*facts, "allow_different=['judge_fingerprint']", field="judge_fingerprint"):
        score_diff(ev, "a", "b")
    for allowed in (True, ["judge_fingerprint"]):
        with warned(*facts):
            diff = score_diff(ev, "a", "b", allow_different=allowed)
        assert [len(row["query_changes"]) for row in diff["rows"][:2]] == [3, 1]
    with refused("judges", field="allow_different"):
        score_diff(ev, "a", "b", allow_different=["judges"])
    ev = of_judges(report, None, "llama")  # one names no judge
    for compared in (score_diff, rs.Evaluation.compare):
        with warned("a", "b", "judge", "faithfulness"):
            compared(ev, "a", "b")


FAITHFUL = {"metric": "faithfulness", "per_query": [["q1", 1.0], ["q2", 0.5]]}


def test_a_comparison_of_reports_by_different_judges_is_refused(report, capsys):
    files = [report({"judge_fingerprint": judge, "metrics": [FAITHFUL]}, f"{judge}.json")
             for judge in ("a", "b")]  # fmt: skip
    with refused("faithfulness", "'a'", "'b'", field="judge_fingerprint"):
        rs.compare(*files)
    with warned("judge_fingerprint"):
        rs.compare(*files, allow_different=["judge_fingerprint"])
    command = ["compare", *map(str, files), "--golden", "none"]
    assert main(command) == 2
    says(capsys.readouterr().err, "--allow-different judge_fingerprint")


def test_stored_values_of_a_metric_of_ours_come_back_from_a_store(report, tmp_path):
    store = rs.RunStore(tmp_path / "store")
    store.save(rs.evaluate(report({"metrics": [FAITHFUL]}, "a.json")))
    assert "empty" not in set(store.summary()["metric"])
    assert store.scores(metrics="faithfulness")["faithfulness"].tolist() == [1, 0.5]
    assert store.summary().set_index("metric")["mean"]["faithfulness"] == 0.75
    assert store.trend("faithfulness", order=["a"]).table["mean"].tolist() == [0.75]


def test_a_judged_value_that_is_stored_counts_beside_labels(report):
    ev = rs.evaluate(report({"metrics": [FAITHFUL]}, "a.json"), {"q1": ["d"]}, ["faithfulness"])
    assert ev.scores["faithfulness"].loc["q1"] == 1


# Runs of which only aggregates are known: run folders without rows, clones of a store.
# Facts are worked by hand from the files that each test writes; the six published folders of the
# chatbot harness are read where they lie beside the project.

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
        "chunker_version": f"c@{eval_set[:1]}",
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
    own = {"their_own_score": 9, "hit_rate@3": 0.5}
    folder = write_folder(tmp_path, "run_01", k=7, recall_at_k_avg=0.25, **own)
    results = rs.load_results(folder)
    assert results.reported.set_index("metric")["label"].dropna().to_dict() == {
        "operational_metrics.error_rate": "failed", "latency.p50_ms": "latency_ms",
        "latency.p95_ms": "latency_ms", "latency.total_ms": "latency_ms",
        "recall_at_k_avg": "hit@7",
    }  # fmt: skip
    store = store_of(folder)
    table = store.summary().set_index("metric")
    assert table.loc["latency_ms", ["p50", "p95", "sum"]].tolist() == [100, 300, 1200]
    assert pd.isna(table.loc["latency_ms", "mean"]) and pd.isna(table.loc["hit@7", "n"])
    assert table.loc[["hit@7", "their_own_score"], "mean"].tolist() == [0.25, 9]
    assert store.trend("hit@3").table["mean"].tolist() == [0.5]


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
    says(table["break_reason"][1], "dataset_version", "aaaa1111 → cccc3333", "(c@a → c@c)")
    (hollow, *_) = [one for one in trend.plot().lines if one.get_markerfacecolor() == "white"]
    assert hollow.get_ydata().tolist() == [0.5, 0.6, 0.7]
    assert hollow.get_label() == "reported, without rows"
    assert judged["segment"].tolist() == [1, 2, 3]
    says(judged["break_reason"][2], "judge", "small", "large")
    times = store.trend("latency_ms").table
    assert times["p50"].tolist() == [100, 100, 100] and "c@a" not in times["break_reason"][1]
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
