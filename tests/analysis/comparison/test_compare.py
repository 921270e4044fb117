"""Two runs side by side: outcomes, targets gained and lost, what else differs, and as JSON."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, hit, record
from pandas.testing import assert_frame_equal

import ragscore as rs
from ragscore.analysis.comparison.changes import rank_overlap
from ragscore.analysis.comparison.invariants import config_diff
from ragscore.scoring.readings import READINGS
from tests.compared import compare_runs
from tests.messages import refused


def test_json_holds_outcomes_ranks_and_differences_in_per_cent(pair):
    cmp = compare_runs(*pair, "a", "b", metrics="all")
    content = json.loads(cmp.to_json(), parse_constant=pytest.fail)
    assert content["counts"] == cmp.counts == {"win": 2, "loss": 1} and cmp.counts["draw"] == 0
    ranks = [(one["rank_baseline"], one["rank_candidate"]) for one in content["per_query"]]
    assert ranks == [(1, 2), (4, 1), (None, 1)]
    deltas = {one["metric"]: one for one in content["deltas"]}
    shares = [deltas[name]["delta_pct"] for name in ("hit@5", "latency_ms")]
    assert shares == pytest.approx([50, 0])  # two of three, then all
    assert deltas["answer_checks"]["delta"] is None


def test_a_lost_target_behind_an_unchanged_first_rank_shows(loaded):
    rows = [{"id": "q", "query": "?", "expected_doc_ids": ["d1", "d2", "d3"]}]
    first = hit("c1", "d1", 1)
    runs = {
        "a": [record("q", [first, hit("c2", "d2", 2)])],
        "b": [record("q", [first, hit("c3", "d3", 5)])],
    }
    # no run says its k: the shallower list decides, rank 5 counts for neither
    assert compare_runs(*loaded(rows, runs), "a", "b", metrics=["mrr"])._k == 2
    cmp = compare_runs(*loaded(rows, runs, k=5), "a", "b")
    changes = ["outcome", "n_gained", "n_lost", "gained", "lost"]
    assert cmp.per_query[changes].iloc[0].tolist() == ["draw", 1, 1, "d3", "d2"]
    assert cmp.targets[["target_id", "change"]].to_numpy().tolist() == [
        ["d1", "same"], ["d2", "lost"], ["d3", "gained"],
    ]  # fmt: skip


def test_queries_of_one_run_only_are_no_wins_and_a_hit_is_one_within_the_smaller_k(
    write_golden, write_run
):
    rows = [
        *THREE_QUERIES,
        {"id": "far", "query": "?", "expected_doc_ids": ["d"]},
        {"id": "lost", "query": "?", "expected_doc_ids": ["d"]},
        {"id": "no", "query": "?", "answerable": False},
    ]
    nothing = [record("lost", []), record("no", [])]
    a = [*RUN_A[:2], record("far", [hit("c", "d", 2)]), *nothing]
    b = [*RUN_A[1:], record("far", [hit("c", "d", 9)]), *nothing]
    results = rs.load_results([write_run("a", a, k=5), write_run("b", b, k=50)])
    golden = rs.load_golden(write_golden(rows))
    cmp = compare_runs(results, golden, "a", "b", metrics=["mrr", "failed"])
    assert cmp._k == 5
    assert cmp.per_query.set_index("query_id")["outcome"].to_dict() == {
        "q1": "only_baseline", "q2": "draw", "q3": "only_candidate", "far": "regression",
        "lost": "both_miss", "no": "no_target",
    }  # fmt: skip
    assert cmp.per_query["note"].tolist()[3] == "rank 2→miss; k 5→50"
    # means are over what both have: q2 (rank 4 in both), far and lost; failed of `no`, too
    assert cmp.deltas[["metric", "baseline", "candidate", "n"]].to_numpy().tolist() == [
        ["mrr", pytest.approx(0.75 / 3), pytest.approx((1 / 4 + 1 / 9) / 3), 3],
        ["failed", 0, 0, 4],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("configs", "changed"),
    [
        (['{"k": 5}', '{"k": "5"}'], ["k", "5", '"5"']),
        ([None, "k = 5"], ["config", "—", "k = 5"]),
    ],
)
def test_a_config_may_be_unknown_or_plain_text_and_a_number_is_not_its_text(pair, configs, changed):
    runs = pair[0].runs.assign(config=pd.Series(configs, dtype="str"))
    found = config_diff(replace(pair[0], runs=runs), "a", "b")
    assert found.fillna("—").to_numpy().tolist() == [changed]


def test_invariants_are_equal_different_or_unknown(write_run):
    files = write_run("a", RUN_A, k=10, golden_hash="x"), write_run("b", RUN_A, k=20)
    found = compare_runs(rs.load_results(files), rs.load_golden(THREE_QUERIES), "a", "b")
    assert found.invariants.set_index("name")["state"].to_dict() == {
        "golden_hash": "unknown", "k": "differs", "suite": "unknown", "n_queries": "equal",
        "chunker_version": "equal", "mode": "equal",
    }  # fmt: skip


def test_one_run_is_not_compared_with_itself(pair):
    with refused("a", "baseline", "candidate", field="candidate"):
        compare_runs(*pair, "a", "a")


@pytest.mark.filterwarnings("ignore:ids of")
def test_a_level_that_no_common_query_has_targets_for_scores_nothing(loaded):
    rows = [THREE_QUERIES[0], {"id": "q2", "query": "?", "expected_doc_ids": ["d2"]}]
    of = loaded(rows, {"a": RUN_A[:2], "b": RUN_B[1:2]})
    cmp = compare_runs(*of, "a", "b", match="chunk")
    assert cmp.per_query["outcome"].tolist() == ["only_baseline", "no_target"]
    assert cmp.deltas.set_index("metric")["n"][["hit@1", "failed"]].tolist() == [0, 1]


@pytest.mark.parametrize(("collapse", "rank"), [("none", 3), ("doc", 2)])
def test_policies_hold_for_deltas_ranks_and_targets(loaded, collapse, rank):
    hits = [hit("c1", "d1", 1), hit("c2", "d1", 2), hit("c3", "d2", 3)]
    runs = {"a": [record("q", hits)], "b": [record("q", hits[2:])]}
    of = loaded([{"id": "q", "query": "?", "expected_doc_ids": ["d2"]}], runs, k=5)
    cmp = compare_runs(*of, "a", "b", metrics=["mrr"], collapse=collapse)
    for frame in (cmp.per_query, cmp.targets):
        assert frame["rank_baseline"].tolist() == [rank]
    assert cmp.deltas["baseline"].tolist() == [1 / rank]


@pytest.mark.parametrize(("ties", "outcome"), [("file", "loss"), ("trec", "draw")])
def test_ties_hold_for_outcomes_as_for_scores(ties, outcome):
    golden = rs.load_golden([{"id": "q", "query": "?", "expected_doc_ids": {"low": 0, "high": 2}}])
    # "high" is first and then second; by score both lists are low, high
    hits = pd.DataFrame(
        [("a", "high", 1, 1.0), ("a", "low", 2, 9.0), ("b", "low", 1, 9.0), ("b", "high", 2, 1.0)],
        columns=["run_id", "doc_id", "rank", "score"],
    ).assign(query_id="q")
    asked = pd.DataFrame({"run_id": ["a", "b"], "query_id": "q"})
    results = rs.Results(runs=asked[["run_id"]], responses=asked, hits=hits)
    cmp = compare_runs(results, golden, "a", "b", metrics=["mrr"], match="doc", ties=ties)
    assert cmp.per_query["outcome"].tolist() == [outcome]


def test_per_query_says_how_alike_both_rankings_are(loaded):
    rows = [*THREE_QUERIES, {"id": "q4", "query": "?", "expected_doc_ids": ["d"]}]
    b = [*RUN_B[:2], record("q4", [hit("c", "d", 1)])]
    results, golden = loaded(rows, {"a": [*RUN_A, record("q4", [])], "b": b})
    found = compare_runs(results, golden, "a", "b", metrics=["mrr"]).per_query["rbo"]
    assert found.tolist()[:2] == rank_overlap(results, "a", "b")["rbo"].tolist()[:2]
    assert found[2:].isna().all(), "b was not asked q3, a found nothing for q4"


# Rows of an evaluation are compared as they are, columns of one's own with the rest


def with_lengths(**how):
    """An evaluation with a column of one's own: lengths about 100 and about 90."""
    names = [f"q{n}" for n in range(40)]
    lengths = pd.DataFrame({
        "query_id": names, "old": [100 + n % 3 for n in range(40)],
        "new": [90 + n % 3 + n % 4 // 2 for n in range(40)],
    })  # fmt: skip
    frame = lengths.melt("query_id", var_name="run_id", value_name="length")
    found = {name: ["d"] for name in names}
    runs = dict.fromkeys(("old", "new"), found)
    return rs.evaluate(runs, found, ["mrr"]).with_columns(frame, **how)


@pytest.mark.parametrize(("better", "word"), [("lower", "better"), ("higher", "worse")])
def test_a_column_of_ones_own_is_compared_and_gated_in_its_direction(better, word):
    ev = with_lengths(better=better)
    cmp = ev.compare("old", "new", "length")
    row = cmp.deltas.iloc[0]
    # 100 + n % 3 against 90 + n % 3 + 0, 0, 1, 1 in turn: 13·(0 + 1 + 2) / 40 = .975 above the base
    means = row[["baseline", "candidate", "delta"]].tolist()
    assert means == pytest.approx([100.975, 91.475, -9.5])
    assert (row["verdict"], row["n"]) == (word, 40)
    assert cmp.gate({"length": 5}).passed is (word == "better")
    trend = ev.trend("length", order=["old", "new"]).table["mean"].tolist()
    assert trend == pytest.approx(means[:2])


def test_a_gate_wants_to_know_which_direction_is_better():
    cmp = with_lengths().compare("old", "new", "length")
    row = cmp.deltas.iloc[0]
    assert row["high"] < 0 and pd.isna(row["verdict"])
    with refused("length", "higher", "lower", "ev.with_columns", field="max_drop"):
        cmp.gate({"length": 1})


# A comparison reloads from its JSON, and what is no comparison is refused

FRAMES = ("deltas", "per_query", "targets", "invariants", "config_diff")
VALUES = (
    "baseline", "candidate", "_level", "_k", "_policies", "_profile", "_aggregates", "counts",
)  # fmt: skip


def reloaded(cmp, **how):
    """Return the comparison from its JSON; it holds what it held."""
    again = rs.Comparison.from_json(cmp.to_json(**how))
    for name in FRAMES:
        assert_frame_equal(getattr(again, name), getattr(cmp, name))
    assert [getattr(again, name) for name in VALUES] == [getattr(cmp, name) for name in VALUES]
    return again


def test_a_comparison_reloads_from_its_json_without_what_only_scores_answer(pair):
    cmp = compare_runs(*pair, "a", "b", missing="zero")
    again = reloaded(cmp)
    assert (again.to_json(), again.to_markdown()) == (cmp.to_json(), cmp.to_markdown())
    assert again._policies["missing"] == "zero"
    with refused("JSON", "scores", "rs.evaluate(results, golden).compare(baseline", field="scores"):
        again.slices("difficulty")


def test_a_comparison_without_rows_reloads_with_their_columns(loaded):
    nothing = [record("q1", [])]
    cmp = compare_runs(*loaded(THREE_QUERIES, {"a": nothing, "b": nothing}), "a", "b")
    assert not len(cmp.targets) and not len(cmp.config_diff)
    reloaded(cmp)


def test_a_comparison_by_a_profile_reloads_with_it(pair):
    cmp = compare_runs(*pair, "a", "b", profile="kebab")
    reloaded(cmp, own=True)
    with refused("own=True", field="text"):
        rs.Comparison.from_json(cmp.to_json())


def test_a_reading_of_ones_own_compares_in_our_words_and_reloads_by_its_name(pair):
    mine = replace(READINGS["kebab"], name="mine")
    cmp = rs.evaluate(*pair, profile=mine).compare("a", "b")
    ours = compare_runs(*pair, "a", "b")
    assert (cmp.counts, cmp.overall) == (ours.counts, ours.overall)
    assert cmp.to_markdown() == ours.to_markdown() and cmp.explore() is not None
    again = rs.Comparison.from_json(cmp.to_json())
    assert again._profile.name == "mine" and again.to_json() == cmp.to_json()


@pytest.mark.parametrize(
    ("frame", "row", "named"),
    [
        ("targets", {"query_id": "q1"}, "target_id"),
        ("deltas", {"metric": "mrr", "n": "many"}, "many"),
    ],
)
def test_rows_that_do_not_fit_their_columns_are_refused(pair, frame, row, named):
    content = json.loads(compare_runs(*pair, "a", "b").to_json())
    content[frame][0] = row if frame == "targets" else content[frame][0] | row
    with refused(named, field="text"):
        rs.Comparison.from_json(json.dumps(content))
