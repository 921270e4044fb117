"""A profile is a plain row: what it says is what the aggregate holds."""

import pytest
from conftest import RUN_A, THREE_QUERIES, hit, record

import ragscore as rs
from ragscore.scoring.harness import aggregate
from tests.messages import refused

TIMED = [
    record("q1", [hit("c1", "d1", 1)], elapsed_ms=10),
    record("q2", [], elapsed_ms=30),
    record("q3", [], elapsed_ms=20),
    record("no", [], elapsed_ms=40),
]
OWN = rs.Profile(
    name="own",
    aggregate={
        "quality.hit": "hit@{k}:doc", "quality.at_run_k": "hit@{run_k}:doc", "over_all": "mrr:doc",
        "time.p50": "p50(latency_ms)", "time.p95": "p95(latency_ms)",
        "time.total": "sum(latency_ms)", "checks": "answer_checks", "kept_null": "citation_present",
    },
    ks=(1, 2),
    omit_if_none=("checks",),
    over_all_rows=("over_all",),
    percentile="floor",
    totals={"counts.rows": "rows"},
    decimals=2,
)  # fmt: skip


def test_a_profile_of_ones_own_is_a_plain_row(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([*THREE_QUERIES, {"id": "no", "query": "?", "answerable": False}])
    )
    results = rs.load_results(write_run("a", TIMED, k=1))
    assert aggregate(results, golden, OWN) == {
        "a": {
            # q1 of q1, q2, q3 has a hit; the question to refuse counts only where all rows do.
            "quality": {"hit": {"1": 0.33, "2": 0.33}, "at_run_k": 0.33},
            "over_all": 0.25,
            # floor: the value at position 2 of 10, 20, 30, 40, and at position 3
            "time": {"p50": 30.0, "p95": 40.0, "total": 100.0},
            "kept_null": None,
            "counts": {"rows": 4},
        }
    }


def test_percentiles_are_interpolated_unless_the_profile_says_otherwise(write_golden, write_run):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    linear = rs.Profile(
        name="linear", aggregate={"p50": "p50(latency_ms)", "p95": "p95(latency_ms)"}
    )
    found = aggregate(rs.load_results(write_run("a", TIMED)), golden, linear)["a"]
    assert found == {"p50": 25.0, "p95": pytest.approx(38.5)}


def test_missing_queries_count_where_the_profile_says_zero(write_golden, write_run):
    golden, results = (
        rs.load_golden(write_golden(THREE_QUERIES)),
        rs.load_results(write_run("a", RUN_A[:1])),
    )
    row = {"aggregate": {"hit": "hit@1:doc"}}
    assert aggregate(results, golden, rs.Profile(name="a", **row))["a"] == {"hit": 1.0}
    assert aggregate(results, golden, rs.Profile(name="b", policies={"missing": "zero"}, **row))[
        "a"
    ] == {"hit": pytest.approx(1 / 3)}


def test_an_aggregate_needs_a_profile(pair):
    with refused(field="profile"):
        aggregate(*pair, None)
    with refused("kebap", "kebab"):
        aggregate(*pair, "kebap")


def test_a_key_has_its_own_decimals_where_the_profile_says_so(write_golden, write_run):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    timed = [record("q1", [], elapsed_ms=1.25), record("q2", [], elapsed_ms=1.2)]
    results = rs.load_results(write_run("a", timed))
    times = {"long": "latency_ms", "short": "latency_ms"}
    own = rs.Profile(name="own", aggregate=times, decimals_of={"short": 1})
    assert aggregate(results, golden, own)["a"] == {"long": pytest.approx(1.225), "short": 1.2}
