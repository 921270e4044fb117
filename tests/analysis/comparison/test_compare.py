"""Two runs side by side: outcomes, targets gained and lost, what else differs, how it prints."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, hit, record

import ragscore as rs
from ragscore.analysis.comparison.changes import rank_overlap
from ragscore.analysis.comparison.invariants import config_diff
from tests.compared import compare_runs
from tests.messages import refused


def test_outcomes_deltas_and_notes(pair):
    cmp = compare_runs(*pair, "a", "b")
    outcomes = cmp.per_query.set_index("query_id")["outcome"]
    assert outcomes.to_dict() == {"q1": "loss", "q2": "win", "q3": "win"}
    assert cmp.counts == {"win": 2, "loss": 1}
    assert cmp.per_query["note"].tolist() == ["rank 1→2", "rank 4→1", "miss→rank 1"]
    row = cmp.deltas.set_index("metric").loc["hit@1"]
    assert row[["baseline", "candidate"]].tolist() == [1 / 3, 2 / 3]
    assert row[["n", "n_better", "n_worse", "n_same"]].tolist() == [3, 2, 1, 0]
    assert row["delta"] == pytest.approx(1 / 3)
    rows = {one["metric"]: one for one in json.loads(cmp.to_json())["deltas"]}
    assert rows["hit@1"]["delta_pct"] == pytest.approx(100)


def test_a_lost_target_behind_an_unchanged_first_rank_shows(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([{"id": "q", "query": "?", "expected_doc_ids": ["d1", "d2", "d3"]}])
    )
    hits = {
        "a": [hit("c1", "d1", 1), hit("c2", "d2", 2)],
        "b": [hit("c1", "d1", 1), hit("c3", "d3", 5)],
    }
    results = rs.load_results([write_run(name, [record("q", one)]) for name, one in hits.items()])
    cmp = compare_runs(results, golden, "a", "b", metrics=["mrr"])
    assert cmp._k == 2  # no run says its k: the shallower list decides, rank 5 counts for neither
    cmp = compare_runs(
        rs.load_results([write_run(name, [record("q", one)], k=5) for name, one in hits.items()]),
        golden,
        "a",
        "b",
    )
    row = cmp.per_query.iloc[0]
    assert (row["outcome"], row["n_gained"], row["n_lost"], row["gained"], row["lost"]) == (
        "draw",
        1,
        1,
        "d3",
        "d2",
    )
    assert cmp.targets.set_index("target_id")["change"].to_dict() == {
        "d1": "same",
        "d2": "lost",
        "d3": "gained",
    }
    assert "d2" in cmp.to_markdown()


def test_a_hit_is_one_within_the_smaller_k(write_golden, write_run):
    golden = rs.load_golden(write_golden(THREE_QUERIES[:1]))
    runs = [
        write_run("a", [record("q1", [hit("c1", "d1", 2)])], k=5),
        write_run("b", [record("q1", [hit("c1", "d1", 9)])], k=50),
    ]
    cmp = compare_runs(rs.load_results(runs), golden, "a", "b", metrics=["mrr"])
    assert cmp._k == 5 and cmp.counts == {"regression": 1}
    assert cmp.per_query["note"].tolist() == ["rank 2→miss; k 5→50"]


def test_queries_of_one_run_only_are_not_wins(write_golden, write_run):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    results = rs.load_results([write_run("a", RUN_A[:2]), write_run("b", RUN_A[1:])])
    cmp = compare_runs(results, golden, "a", "b", metrics=["mrr", "failed"])
    assert cmp.per_query.set_index("query_id")["outcome"].to_dict() == {
        "q1": "only_baseline",
        "q2": "draw",
        "q3": "only_candidate",
    }
    # means are over the one query both have
    assert cmp.deltas[["metric", "baseline", "candidate", "n"]].to_numpy().tolist() == [
        ["mrr", 0.25, 0.25, 1], ["failed", 0, 0, 1],
    ]  # fmt: skip


def test_kinds_of_no_hit(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([*THREE_QUERIES[:1], {"id": "no", "query": "?", "answerable": False}])
    )
    records = [record("q1", []), record("no", [])]
    cmp = compare_runs(
        rs.load_results([write_run("a", records), write_run("b", records)]), golden, "a", "b"
    )
    assert cmp.per_query["outcome"].tolist() == ["both_miss", "no_target"]


def test_config_difference_is_flat_and_only_what_changed(write_golden, write_run):
    configs = [
        {"k": 5, "embedding": {"model": "small", "dims": 3}, "same": [1]},
        {"k": 5, "embedding": {"model": "large", "dims": 3}, "same": [1], "prompt": "v2"},
    ]
    nothing = [one | {"hits_top_k": []} for one in RUN_A]
    results = rs.load_results(
        [write_run("a", RUN_A, config=configs[0]), write_run("b", nothing, config=configs[1])]
    )
    cmp = compare_runs(
        results, rs.load_golden(write_golden(THREE_QUERIES)), "a", "b", metrics=["mrr"]
    )
    assert cmp.config_diff.fillna("—").to_numpy().tolist() == [
        ["embedding.model", "small", "large"],
        ["prompt", "—", "v2"],
    ]
    notes = cmp.per_query["note"].tolist()
    assert notes[0] == "rank 1→miss; embedding.model small→large; prompt —→v2"
    assert notes[2] == ""  # missed by both


@pytest.mark.parametrize(
    ("configs", "changed"),
    [
        (['{"k": 5}', '{"k": "5"}'], ["k", "5", '"5"']),
        ([None, "k = 5"], ["config", "—", "k = 5"]),
    ],
)
def test_a_config_may_be_unknown_or_plain_text_and_a_number_is_not_its_text(pair, configs, changed):
    results, _ = pair
    runs = results.runs.assign(config=pd.Series(configs, dtype="str"))
    found = config_diff(replace(results, runs=runs), "a", "b")
    assert found.fillna("—").to_numpy().tolist() == [changed]


def test_invariants_are_equal_different_or_unknown(write_golden, write_run):
    results = rs.load_results(
        [write_run("a", RUN_A, k=10, golden_hash="x"), write_run("b", RUN_A, k=20)]
    )
    states = (
        compare_runs(results, rs.load_golden(write_golden(THREE_QUERIES)), "a", "b")
        .invariants.set_index("name")["state"]
        .to_dict()
    )
    assert states == {
        "golden_hash": "unknown",
        "k": "differs",
        "suite": "unknown",
        "n_queries": "equal",
        "chunker_version": "equal",
        "mode": "equal",
    }


def test_json_has_null_for_what_has_no_value(pair):
    text = compare_runs(*pair, "a", "b", metrics="all").to_json()
    content = json.loads(text)
    assert content["counts"] == {"win": 2, "loss": 1}
    ranks = [(row["rank_baseline"], row["rank_candidate"]) for row in content["per_query"]]
    assert ranks == [(1, 2), (4, 1), (None, 1)]
    deltas = {row["metric"]: row["delta"] for row in content["deltas"]}
    assert deltas["answer_checks"] is None
    assert "NaN" not in text


def test_one_run_is_not_compared_with_itself(pair):
    with refused("a", "baseline", "candidate", field="candidate"):
        compare_runs(*pair, "a", "a")


def test_a_report_of_a_harness_is_rounded_first_and_then_compared_as_in_its_json(pair):
    cmp = compare_runs(*pair, "a", "b", profile="kebab")
    assert cmp.counts == {"win": 2, "loss": 1}
    assert "| MRR | 0.4167 | 0.8333 | +0.4166 |" in cmp.to_markdown()


@pytest.mark.filterwarnings("ignore:ids of")
def test_a_level_that_no_common_query_has_targets_for_scores_nothing(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([THREE_QUERIES[0], {"id": "q2", "query": "?", "expected_doc_ids": ["d2"]}])
    )
    results = rs.load_results([write_run("a", RUN_A[:2]), write_run("b", RUN_A[1:2])])
    cmp = compare_runs(results, golden, "a", "b", match="chunk")
    assert cmp.per_query["outcome"].tolist() == ["only_baseline", "no_target"]
    deltas = cmp.deltas.set_index("metric")
    assert deltas.loc["hit@1", "n"] == 0 and deltas.loc["failed", "n"] == 1


def test_policies_hold_for_deltas_ranks_and_targets(write_golden, write_run):
    golden = rs.load_golden(
        write_golden(
            [
                {"id": "q", "query": "?", "expected_doc_ids": ["d2"]},
                {"id": "e", "query": "?", "answerable": True},
            ]
        )
    )
    hits = [hit("c1", "d1", 1), hit("c2", "d1", 2), hit("c3", "d2", 3)]
    runs = {
        "a": [record("q", hits), record("e", [])],
        "b": [record("q", hits[2:]), record("e", [])],
    }
    results = rs.load_results([write_run(name, records, k=5) for name, records in runs.items()])
    for collapse, rank in (("none", 3), ("doc", 2)):
        cmp = compare_runs(results, golden, "a", "b", metrics=["mrr"], collapse=collapse)
        assert cmp.per_query["rank_baseline"].tolist()[0] == rank
        assert cmp.targets["rank_baseline"].tolist() == [rank]
        assert cmp.deltas["baseline"].tolist() == [1 / rank]


@pytest.mark.parametrize("policy", ["collapse", "missing", "match"])
def test_a_policy_that_does_not_exist_is_refused(pair, policy):
    with refused(policy, "x"):
        compare_runs(*pair, "a", "b", **{policy: "x"})


def test_every_mean_says_how_many_values_it_has_of_how_many_expected(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([*THREE_QUERIES, {"id": "q4", "query": "?", "answerable": False}])
    )
    late = [RUN_B[0], RUN_B[1] | {"error": "late"}, RUN_B[2], record("q4", [])]
    results = rs.load_results([write_run("a", RUN_A[:2]), write_run("b", late)])
    cmp = compare_runs(results, golden, "a", "b", metrics=["mrr", "empty"])
    counts = cmp.deltas.set_index("metric")[["n", "n_expected_baseline", "n_expected_candidate"]]
    # a was not asked q3; `empty` is measured where queries finished, so not at b's q2
    assert counts.loc["mrr"].tolist() == [2, 3, 3]
    assert counts.loc["empty"].tolist() == [1, 4, 3]


def test_per_query_says_how_alike_both_rankings_are(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([*THREE_QUERIES, {"id": "q4", "query": "?", "expected_doc_ids": ["d"]}])
    )
    a = write_run("a", [*RUN_A, record("q4", [])])
    b = write_run("b", [*RUN_B[:2], record("q4", [hit("c", "d", 1)])])
    results = rs.load_results([a, b])
    expected = rank_overlap(results, "a", "b").set_index("query_id")["rbo"]
    found = compare_runs(results, golden, "a", "b", metrics=["mrr"]).per_query.set_index(
        "query_id"
    )["rbo"]
    assert found[["q1", "q2"]].tolist() == expected[["q1", "q2"]].tolist()
    assert found[["q3", "q4"]].isna().all(), "b was not asked q3, a found nothing for q4"


def test_the_slowest_answers_of_both_runs_are_in_the_json(write_golden, write_run):
    n = 80
    golden = rs.load_golden(
        write_golden([{"id": f"q{i}", "query": "?", "expected_doc_ids": ["d"]} for i in range(n)])
    )
    a, b = (
        write_run(name, [record(f"q{i}", [], elapsed_ms=i + slower) for i in range(n)])
        for name, slower in (("a", 0), ("b", 20))
    )
    cmp = compare_runs(rs.load_results([a, b]), golden, "a", "b", metrics=["latency_ms", "hit@1"])
    # p95 of 0 to n − 1 lies at .95 (n − 1)
    (row,) = json.loads(cmp.to_json())["tails"]
    p95 = [row["p95_baseline"], row["p95_candidate"]]
    assert p95 == pytest.approx([0.95 * (n - 1), 0.95 * (n - 1) + 20])
    assert row["metric"] == "latency_ms"


def test_ties_hold_for_outcomes_as_for_scores(write_golden):
    golden = rs.load_golden(
        write_golden([{"id": "q", "query": "?", "expected_doc_ids": {"low": 0, "high": 2}}])
    )
    lists = {"a": [("high", 1, 1.0), ("low", 2, 9.0)], "b": [("low", 1, 9.0), ("high", 2, 1.0)]}
    hits = pd.DataFrame(
        [(run, "q", *row) for run, rows in lists.items() for row in rows],
        columns=["run_id", "query_id", "doc_id", "rank", "score"],
    )
    asked = pd.DataFrame({"run_id": ["a", "b"], "query_id": "q"})
    results = rs.Results(runs=pd.DataFrame({"run_id": ["a", "b"]}), responses=asked, hits=hits)

    def outcome(**policies):
        cmp = compare_runs(results, golden, "a", "b", metrics=["mrr"], match="doc", **policies)
        return cmp.per_query["outcome"].iloc[0]

    assert outcome() == "loss"  # at rank 1, and 2
    assert outcome(ties="trec") == "draw"  # by score both lists are low, high
