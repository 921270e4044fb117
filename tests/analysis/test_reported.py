"""Values that other tools stored: loaded, written back, checked against their rows, compared."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from plausible_runs import put

import ragscore as rs
from ragscore.analysis.extras.stored_scores import score_diff
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
    "text", ["{}", '{"rows": [{"metric": "m", "query_changes": [1]}]}', '{"rows": 3}', "{"]
)
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
