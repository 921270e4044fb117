"""Values that other tools stored: loaded, written back, checked against their rows, compared."""

import json
import warnings
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.analysis.comparison.score_diff import ScoreDiff, diff_scores
from ragscore.analysis.reported import REPORTED_NAMES, check_reported, label_of, reported_scores
from ragscore.io.formats.metric_report import read_report
from ragscore.scoring.profiles import Profile
from ragscore.scoring.summary import summarize
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
        file = tmp_path / name
        file.write_text(content if isinstance(content, str) else json.dumps(content, **layout))
        return file

    return write


@pytest.mark.parametrize("layout", [{}, {"indent": 2}])
def test_a_report_loads_as_reported_values(report, layout):
    results = rs.load_results(report(**layout))
    of_queries = results.reported[results.reported["statistic"].isna()]
    assert of_queries[["query_id", "metric"]].to_numpy().tolist() == [
        ["q1", "recall@10"], ["q2", "recall@10"], ["q3", "recall@10"], ["q1", "faithfulness"],
        ["q2", "faithfulness"],
    ]  # fmt: skip
    assert of_queries["value"].tolist()[:4] == [0, 0.5, 1, 1] and pd.isna(
        of_queries["value"].iloc[4]
    )
    told = (
        results.reported.dropna(subset="statistic")
        .query("metric == 'recall@10'")
        .set_index("statistic")["value"]
        .to_dict()
    )
    assert told == {
        "n": 3, "mean": 0.5, "std": 0.5, "min": 0, "max": 1, "p50": 0.5, "p95": 0.95, "low": 0.38,
        "high": 0.6, "level": 0.9, "iterations": 500,
    }  # fmt: skip
    assert results.runs[["run_id", "system", "suite"]].astype("str").to_numpy().tolist() == [
        ["nightly", "memvid:x", "beir/nq"]
    ]


def test_a_report_is_written_back_as_it_was(report, tmp_path):
    results = rs.load_results(report())
    written = (
        json.loads(rs.io.write_report(results, tmp_path / "again" / "nightly.json").read_text())
        if (tmp_path / "again").mkdir() is None
        else {}
    )
    assert written == REPORT
    again = rs.load_results(tmp_path / "again" / "nightly.json")
    pd.testing.assert_frame_equal(again.reported, results.reported)
    pd.testing.assert_frame_equal(again.runs, results.runs)


def test_own_numbers_of_a_report_are_written_back(report, tmp_path):
    own = REPORT | {"attempts": 3, "clean": True, "share": 0.5}
    with warned("nightly2.json", "run_id"):  # which the file's name gives
        file = rs.io.write_report(rs.load_results(report(own)), tmp_path / "nightly2.json")
    assert json.loads(file.read_text()) == own


def test_unknown_keys_and_nulls_of_a_report_are_written_back(report, tmp_path):
    entry = ENTRY | {
        "judge": {"model": None, "ids": [1]},
        "p50": None,
        "ci": ENTRY["ci"] | {"method": "bootstrap"},
    }
    plain = {"metric": "mrr", "n": 1, "mean": 0.5, "per_query": [["q1", 0.5]], "ci": None}
    own = REPORT | {"freshness": None, "store_kind": None, "metrics": [entry, plain]}
    results = rs.load_results(report(own))
    file = rs.io.write_report(results, tmp_path / "new" / "nightly.json")
    assert json.loads(file.read_text()) == own and results.problems.empty
    pd.testing.assert_frame_equal(rs.load_results(file).runs, results.runs)


def test_a_report_without_a_summary_gets_one(report, tmp_path):
    entry = {key: ENTRY[key] for key in ("metric", "per_query")}
    with warned("full.json", "run_id"):
        file = rs.io.write_report(
            rs.load_results(report({"metrics": [entry]})), tmp_path / "full.json"
        )
    written = json.loads(file.read_text())
    assert {
        key: pytest.approx(written["metrics"][0][key])
        for key in ("n", "mean", "stddev", "min", "max", "p50", "p95")
    } == {key: ENTRY[key] for key in ("n", "mean", "stddev", "min", "max", "p50", "p95")}


@pytest.mark.parametrize(
    ("metrics", "field"),
    [
        ({"metric": "mrr"}, "metrics"),
        ([ENTRY, ENTRY], "metrics"),
        ([{"n": 3}], "metrics"),
        ([{"metric": "mrr", "mean": "high"}], "mrr.mean"),
        ([{"metric": "mrr", "per_query": {"q1": 1}}], "mrr.per_query"),
        ([{"metric": "mrr", "per_query": [["q1"]]}], "mrr.per_query"),
        ([{"metric": "mrr", "per_query": [["q1", 1], ["q1", 0]]}], "mrr.per_query"),
        ([{"metric": "mrr", "per_query": [["q1", True]]}], "mrr.per_query"),
        ([{"metric": "mrr", "ci": [0, 1]}], "mrr.ci"),
    ],
)
def test_what_is_no_report_is_refused_with_its_field(report, metrics, field):
    file = report({"metrics": metrics})
    with refused(file="nightly.json", field=field):
        rs.load_results(file, format="metric_report")
    assert len(rs.load_results(file, format="metric_report", strict=False).problems) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metric", "n", "mean", "per_query", "ci", "lower", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["metrics", "dataset_id", "freshness", "y"]),
        JSON | st.lists(JSON, max_size=3),
    ).map(json.dumps)
    | st.text(max_size=12)
)
def test_any_report_ends_in_frames_or_one_error(tmp_path_factory, text):
    file = tmp_path_factory.getbasetemp() / "any_report.json"
    file.write_bytes(text.encode("utf-8", errors="surrogatepass"))
    for strict in (True, False):
        try:
            assert isinstance(read_report(file, strict), rs.Results)
        except rs.DataError as error:
            assert str(error)


# reported against recomputed


@pytest.fixture
def told(pair):
    """The two small runs, with what a tool that counts in its own way might have stored for run
    a.
    """
    results, golden = pair
    values = [
        ("q1", "mrr", 1.0),
        ("q2", "recip_rank", 0.25),
        ("q2", "hit_rate@3", 1.0),
        ("q3", "recall@10", 0.0),
        ("q1", "house_style", 0.9),
    ]
    reported = pd.DataFrame(values, columns=["query_id", "metric", "value"]).assign(run_id="a")
    return replace(results, reported=reported), golden


def test_reported_values_stand_beside_recomputed_ones(told):
    checked = check_reported(*told)
    assert checked[["run_id", "query_id", "metric"]].to_numpy().tolist()[1] == [
        "a",
        "q2",
        "recip_rank",
    ]
    assert checked["label"].tolist()[:4] == ["mrr", "mrr", "hit@3", "recall@10"] and pd.isna(
        checked["label"].iloc[4]
    )
    # run a finds q2's document at rank 4 only, so a hit within 3 was reported wrongly
    assert checked["recomputed"].tolist()[:4] == [1, 0.25, 0, 0] and checked["difference"].tolist()[
        :4
    ] == [0, 0, -1, 0]
    assert checked["recomputed"].isna().tolist() == [False] * 4 + [True]


def test_a_report_without_hits_is_not_checked_against_rankings_of_nothing(report, write_golden):
    golden = write_golden([{"id": "q2", "query": "?", "expected_doc_ids": ["d"]}])
    ev = rs.evaluate(report(), golden, profile="rig")
    checked = ev.check_reported()
    of_recall = checked[checked["metric"] == "recall@10"]
    assert of_recall["recomputed"].isna().all() and of_recall["difference"].isna().all()
    (note,) = set(of_recall["note"])
    says(note, "hits")
    says(ev, "nightly", "hit", 0)


@pytest.mark.large
@pytest.mark.parametrize("profile", [None, "rig"])
def test_summary_values_are_checked_too(told, profile):
    results, golden = told
    rows = [
        ("", "mrr", 0.5, "mean"),
        ("", "mrr", 3, "n"),
        ("", "mrr", 0.25, "p50"),
        ("", "mrr", 0.9, "level"),
    ]
    reported = pd.DataFrame(rows, columns=["query_id", "metric", "value", "statistic"]).assign(
        run_id="a"
    )
    checked = check_reported(results, golden, reported, profile=profile)
    # reciprocal ranks 1, 1/4, 0
    assert checked["recomputed"].tolist()[:3] == pytest.approx([5 / 12, 3, 0.25]) and pd.isna(
        checked["recomputed"].iloc[3]
    )
    assert checked["difference"].tolist()[:3] == pytest.approx([5 / 12 - 0.5, 0, 0])


@pytest.mark.parametrize(
    ("metric", "label"),
    [
        ("Exact Match", "exact_match"), ("hit_at_1", "hit@1"), ("Hit Rate@3", "hit@3"),
        ("nDCG@10", "ndcg@10"), ("R@5", "recall@5"), ("P_10", "precision@10"),
        ("rouge_score(mode=fmeasure)", "rouge_l"), ("equals", "exact_match"),
        ("claim_recall", "context_recall"), ("f1", None), ("recall", None), ("recall_at_k", None),
        ("correctness", None), ("", None),
    ],
)  # fmt: skip
def test_other_tools_names_of_our_metrics_are_known(metric, label):
    assert label_of(metric) == label


def test_a_note_says_why_a_value_was_not_recomputed(told):
    results, golden = told
    rows = [
        ("q1", "house", 1.0),
        ("q1", "recall", 1.0),
        ("q1", "faithfulness", 1.0),
        ("q1", "mrr", float("nan")),
        ("q1", "hit@5", 1.0),
    ]
    checked = check_reported(
        results,
        golden,
        pd.DataFrame(rows, columns=["query_id", "metric", "value"]).assign(run_id="a"),
    )
    unknown, uncut, unfit, empty, right = checked["note"]
    says(unknown, "metric")
    says(uncut, "recall@5")
    says(unfit)
    says(empty, "value")
    assert len({unknown, uncut, unfit, empty}) == 4 and pd.isna(right)


def test_ragcheckers_verdicts_on_claims_give_its_faithfulness_and_claim_recall(tmp_path):
    # Two of three claims of the response, and one of two of the reference, are entailed by some
    # passage; the file says 0.5 of the latter.
    yes, no, against = "Entailment", "Neutral", "Contradiction"
    result = {
        "query_id": "1", "query": "q?", "gt_answer": "g", "response": "r",
        "retrieved_context": [{"doc_id": "a", "text": "x"}, {"doc_id": "b", "text": "y"}],
        "response_claims": [["A", "is", "B"], ["C", "is", "D"], ["E", "is", "F"]],
        "retrieved2response": [[no, yes], [yes, against], [no, against]],
        "gt_answer_claims": [["A", "is", "B"], ["G", "is", "H"]],
        "retrieved2answer": [[yes, no], [no, no]],
        "metrics": {"faithfulness": 1.0, "claim_recall": 0.5, "f1": 0.4},
    }  # fmt: skip
    file = tmp_path / "checked.json"
    file.write_text(json.dumps({"results": [result]}), encoding="utf-8")
    results = rs.load_results(file)
    checked = check_reported(results, rs.load_golden(file)).set_index("metric")
    assert checked["recomputed"].fillna(-1).to_dict() == {
        "faithfulness": pytest.approx(2 / 3),
        "claim_recall": 0.5,
        "f1": -1,
    }
    assert checked["difference"]["faithfulness"] == pytest.approx(-1 / 3)
    assert checked["note"]["faithfulness"] == checked["note"]["claim_recall"]
    says(checked["note"]["faithfulness"], "judgments")
    says(checked["note"]["f1"], "metric")
    assert results.judgments["item_text"].tolist()[0] == "A is B" and len(results.judgments) == 5


def test_policies_say_how_the_other_tool_counts(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([{"id": "q", "query": "?", "answerable": True, "expected_doc_ids": {"d": 0}}])
    )
    results = rs.load_results(write_run("a", [{"query_id": "q", "query": "?", "hits_top_k": []}]))
    reported = pd.DataFrame(
        {"run_id": ["a"], "query_id": ["q"], "metric": ["recall@5"], "value": [1.0]}
    )
    assert pd.isna(check_reported(results, golden, reported)["difference"].iloc[0])
    assert check_reported(results, golden, reported, empty_gold="one")["difference"].iloc[0] == 0


def test_values_of_unknown_runs_are_refused(told):
    results, golden = told
    with refused("c", "a, b", field="reported.run_id"):
        check_reported(results, golden, results.reported.assign(run_id="c"))
    with refused(field="reported"):
        check_reported(replace(results, reported=None), golden)


@pytest.mark.parametrize(
    ("metric", "label"),
    [
        ("recall@10", "recall@10"), ("hit_rate@5", "hit@5"), ("map@3", "map@3"),
        ("ndcg@10", "ndcg@10"), ("mrr", "mrr"), ("precision@1", "precision@1"),
        ("P_10", "precision@10"), ("ndcg_cut_10", "ndcg_linear@10"), ("recip_rank", "mrr"),
        ("success_5", "hit@5"), ("refusal_correct", "refusal_correct"),
        ("faithfulness_v9", None), ("freshness.stale_free_rate@5", None), ("recall@0", None),
        ("map", "map"), ("precision", None), ("", None),
    ],
)  # fmt: skip
def test_names_of_other_tools_are_mapped_by_a_table(metric, label):
    assert label_of(metric) == label


def test_every_name_of_the_table_is_a_metric_here():
    assert all(label_of(name) or label_of(f"{name}@5") for name in REPORTED_NAMES)


def test_reported_values_compare_without_hits(report):
    worse = json.loads(json.dumps(REPORT))
    worse["metrics"][0]["per_query"] = [["q1", 0.0], ["q2", 0.0], ["q4", 1.0]]
    results = rs.load_results([report(), report(worse, "today.json")])
    scores = reported_scores(results)
    assert (
        scores.columns.tolist()
        == ["run_id", "state", "level", "judge_fingerprint", "recall@10", "faithfulness"]
        and len(scores) == 6
    )
    row = diff_scores(scores, "nightly", "today").metrics.iloc[0]
    assert (
        row[["n_better", "n_worse", "n_same", "n"]].tolist() == [0, 1, 1, 2]
        and row["delta"] == -0.25
    )
    summary = summarize(scores, metrics=["recall@10"]).set_index("run_id")
    assert summary.loc["nightly", ["n", "mean", "std", "p95"]].tolist() == pytest.approx(
        [3, 0.5, 0.5, 0.95]
    )


# diffs


def test_movers_of_the_same_size_keep_the_candidates_order(pair):
    scores = rs.score(*pair, ["hit@1", "mrr", "latency_ms"])
    diff = diff_scores(scores, "a", "b")
    # mrr: q1 1 -> 1/2, q2 1/4 -> 1, q3 0 -> 1
    assert diff.largest_changes.query("metric == 'mrr'")[
        ["query_id", "delta"]
    ].to_numpy().tolist() == [
        ["q3", 1.0],
        ["q2", 0.75],
        ["q1", -0.5],
    ]
    assert diff.largest_changes.query("metric == 'hit@1'")["query_id"].tolist() == [
        "q1",
        "q2",
        "q3",
    ]
    assert diff.metrics["metric"].tolist() == ["hit@1", "mrr", "latency_ms"]
    line = next(line for line in diff.to_markdown().splitlines() if line.startswith("| mrr"))
    assert line == "| mrr | 0.417 | 0.833 | +0.417 | 2 / 1 / 0 | 3 | q3 |"


def test_lower_is_better_where_the_metric_says_so(pair):
    scores = rs.score(*pair, ["latency_ms"])
    scores.loc[(scores["run_id"] == "b") & (scores.index == "q1"), "latency_ms"] = 0.5
    row = diff_scores(scores, "a", "b").metrics.iloc[0]
    assert (row["n_better"], row["n_worse"], row["n_same"]) == (1, 0, 2)


@pytest.mark.parametrize(
    ("baseline", "candidate", "named"),
    [("a", "a", ["a", "baseline", "candidate"]), ("a", "c", ["c"])],
)
def test_runs_that_cannot_be_compared_are_refused(pair, baseline, candidate, named):
    with refused(*named):
        diff_scores(rs.score(*pair, ["mrr"]), baseline, candidate)


def test_a_diff_of_another_tool_loads(tmp_path):
    change = {"query_id": "q1", "current": 1.0, "baseline": 0.5, "delta": 0.5}
    row = {
        "metric": "recall@5",
        "current_mean": 0.8,
        "baseline_mean": 0.6,
        "delta": 0.2,
        "winners": 1,
        "losers": 0,
        "unchanged": 2,
        "query_changes": [change],
    }
    alone = {
        **row,
        "metric": "mrr",
        "baseline_mean": None,
        "delta": None,
        "winners": 0,
        "unchanged": 0,
        "query_changes": [],
    }
    (tmp_path / "diff.json").write_text(json.dumps({"rows": [row, alone]}))
    diff = ScoreDiff.from_json(tmp_path / "diff.json")
    assert diff.metrics[["metric", "n", "n_better"]].to_numpy().tolist() == [
        ["recall@5", 3, 1],
        ["mrr", 0, 0],
    ]
    assert pd.isna(diff.metrics["delta"].iloc[1]) and diff.largest_changes["query_id"].tolist() == [
        "q1"
    ]
    written = json.loads(diff.to_json())["rows"]
    assert [{key: one[key] for key in row} for one in written] == [row, alone]


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"rows": [{}]}',
        '{"rows": [{"metric": "m", "query_changes": [1]}]}',
        '{"rows": 3}',
        "{",
    ],
)
def test_what_is_no_diff_is_refused(text, tmp_path):
    with refused("diff"):
        ScoreDiff.from_json(text)
    with refused(file="missing.json"):
        ScoreDiff.from_json(tmp_path / "missing.json")


HARNESS = Profile(
    name="theirs",
    aggregate={
        "recall_at_k_avg": "hit@{run_k}",
        "mrr_avg": "mrr@{run_k}",
        "scope_miss_rate": "scope_miss_proxy",
        "latency.p50_ms": "p50(latency_ms)",
    },
)


def test_a_profile_says_what_the_reported_names_mean(pair):
    results, golden = pair
    # run a finds q1's document at rank 1, q2's at rank 4 and nothing for q3, so that a cut at 3
    # keeps one of three
    values = [
        ("q1", "recall_at_k", 1.0),
        ("q2", "recall_at_k", 1.0),
        ("q2", "mrr", 0.25),
        ("", "recall_at_k_avg", 0.9),
        ("", "latency.p50_ms", 7.0),
    ]
    reported = pd.DataFrame(values, columns=["query_id", "metric", "value"]).assign(run_id="a")
    told = replace(
        results,
        reported=reported,
        runs=results.runs.assign(k=pd.array([3] * len(results.runs), dtype="Int64")),
    )
    checked = check_reported(told, golden, profile=HARNESS)
    assert checked["label"].astype(object).tolist()[:3] == ["hit@3", "hit@3", "mrr@3"]
    assert checked["recomputed"].tolist() == pytest.approx([1, 0, 0, 1 / 3, 1])
    assert checked["difference"].tolist() == pytest.approx([0, -1, -0.25, 1 / 3 - 0.9, -6])
    assert check_reported(told, golden)["label"].isna().tolist() == [
        True,
        True,
        False,
        True,
        True,
    ]


# Reports of different judges


def of_judges(report, first, second):
    """Results of two reports whose judges are these; None: it says nothing."""
    files = []
    for name, judges in (("a", first), ("b", second)):
        content = {key: value for key, value in REPORT.items() if key != "judge_fingerprint"}
        if judges is not None:
            content["judge_fingerprint"] = judges
        files.append(report(content, f"{name}.json"))
    return rs.load_results(files)


def test_reports_of_one_judge_are_subtracted_without_a_word(report):
    for judges in ("a|b", None):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            diff = of_judges(report, judges, judges).score_diff("a", "b")
        assert diff.metrics["delta"].tolist() == [0, 0]
    assert "judge_fingerprint" not in of_judges(report, None, None).reported_scores()


def test_reports_of_different_judges_are_refused_with_both_names_and_the_way_on(report):
    results = of_judges(report, "gpt|p1", "llama|p1")
    facts = ["a", "gpt|p1", "b", "llama|p1", "allow_different=['judge_fingerprint']"]
    with refused(*facts, field="judge_fingerprint"):
        results.score_diff("a", "b")
    # the frame tells by itself, also after frames were joined
    scores = results.reported_scores()
    parts = [scores[scores["run_id"] == run].astype({"run_id": "str"}) for run in ("a", "b")]
    with refused(*facts, field="judge_fingerprint"):
        diff_scores(pd.concat(parts), "a", "b")
    for allowed in (True, "judge_fingerprint", ["judge_fingerprint"]):
        with warned("a", "gpt|p1", "b", "llama|p1"):
            diff = results.score_diff("a", "b", allow_different=allowed)
    assert diff.metrics["n"].tolist() == [3, 1]
    with refused("judges", field="allow_different"):
        results.score_diff("a", "b", allow_different=["judges"])


def test_a_report_that_names_no_judge_is_warned_of(report):
    with warned("a", "b", "llama"):
        of_judges(report, None, "llama").score_diff("a", "b")
