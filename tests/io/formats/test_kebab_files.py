"""Files of kebab's harness: one run as JSON, its database."""

import json
import sqlite3
from pathlib import Path

import pandas as pd
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, found, said
from plausible_runs import put

import ragscore as rs
from ragscore.frames.kinds import flat
from ragscore.io.formats.kebab import AGGREGATES
from tests.messages import refused

SHARED = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "kebab-eval"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="../shared/data is not there")

# By hand: the first right chunk of run a stands at rank 1, at rank 4 and nowhere; that of run b at
# 2, 1, 1. Some numbers carry what a float32 leaves of four decimals.
AGGREGATE_A = {
    "hit_at_k": {"1": 0.33329999446868896, "3": 0.3333, "5": 0.6667, "10": 0.666700005531311},
    "mrr": 0.4167,
    "recall_at_k_doc": {"1": 0.3333, "3": 0.3333, "5": 0.6667, "10": 0.6667},
    "precision_at_k_chunk": {"1": 0.3333, "3": 0.1111, "5": 0.1333, "10": 0.0667},
    "citation_coverage": None,
    "groundedness": 0.0,
    "empty_result_rate": 0.0,
    "refusal_correctness": None,
    "total_queries": 3,
    "failed_queries": 0,
}
AGGREGATE_B = AGGREGATE_A | {
    "hit_at_k": {"1": 0.6667, "3": 1.0, "5": 1.0, "10": 1.0},
    "mrr": 0.8333,
    "recall_at_k_doc": {"1": 0.6667, "3": 1.0, "5": 1.0, "10": 1.0},
    "precision_at_k_chunk": {"1": 0.6667, "3": 0.3333, "5": 0.2, "10": 0.1},
}
RUN = {
    "run_id": "a",
    "created_at": "2026-01-31T09:00:00Z",
    "commit_hash": "abc",
    "config_snapshot_json": {"chunker_version": "test@1", "eval_k": 10},
    "aggregate": AGGREGATE_A,
    "per_query": RUN_A,
}
SCHEMA = """
CREATE TABLE eval_runs (
  run_id TEXT PRIMARY KEY, suite TEXT NOT NULL, config_snapshot_json TEXT NOT NULL,
  aggregate_json TEXT NOT NULL, commit_hash TEXT, created_at TEXT NOT NULL
);
CREATE TABLE eval_query_results (
  run_id TEXT NOT NULL, query_id TEXT NOT NULL, result_json TEXT NOT NULL,
  PRIMARY KEY (run_id, query_id)
);
"""


@pytest.fixture
def write(tmp_path):
    """Write JSON to a file."""
    return lambda content, name="run.json", **layout: put(
        tmp_path, [json.dumps(content, **layout)], name
    )


@pytest.fixture
def database(tmp_path):
    """Write a database of both runs with these aggregates."""

    def to(aggregates, schema=SCHEMA):
        file = tmp_path / "kebab.sqlite"
        file.unlink(missing_ok=True)
        snapshot = json.dumps({"chunker_version": "test@1", "eval_k": 10})
        with sqlite3.connect(file) as base:
            base.executescript(schema)
            for (run_id, stored), records in zip(aggregates.items(), (RUN_A, RUN_B), strict=True):
                base.execute(
                    "INSERT INTO eval_runs (run_id, suite, config_snapshot_json, aggregate_json,"
                    " created_at) VALUES (?, 'golden', ?, ?, ?)",
                    [run_id, snapshot, json.dumps(stored), f"2026-01-31T09:00:0{len(run_id)}Z"],
                )
                base.executemany(
                    "INSERT INTO eval_query_results VALUES (?, ?, ?)",
                    [(run_id, one["query_id"], json.dumps(one)) for one in records],
                )
        base.close()
        return file

    return to


def values(results, run_id):
    """The reported aggregate of a run: name -> value, missing for null."""
    rows = results.reported
    rows = rows[rows["run_id"].eq(run_id) & rows["query_id"].eq("")]
    return rows.dropna(subset="value").set_index("metric")["value"].to_dict()


# one run as JSON


@pytest.mark.parametrize(
    ("name", "layout"), [("run.json", {}), ("run.json", {"indent": 2}), ("run.jsonl", {})]
)
def test_a_run_of_one_object_is_the_run_of_its_records(write, write_run, layout, name):
    loaded = rs.load_results(write(RUN, name, **layout))
    described = {"config": RUN["config_snapshot_json"], "created_at": RUN["created_at"]}
    plain = rs.load_results(write_run("a", RUN_A, commit="abc", **described))
    for frame in ("runs", "responses", "hits", "citations"):
        pd.testing.assert_frame_equal(getattr(loaded, frame), getattr(plain, frame))
    assert loaded.runs[["run_id", "commit", "k", "chunker_version", "n_queries"]].astype(
        "str"
    ).to_numpy().tolist() == [["a", "abc", "10", "test@1", "3"]]


@pytest.mark.parametrize("field", ["aggregate", "aggregate_json"])
@pytest.mark.parametrize("wrap", [lambda one: one, json.dumps])
def test_its_aggregate_and_snapshot_may_be_objects_or_text(write, field, wrap):
    run = {name: value for name, value in RUN.items() if name != "aggregate"}
    run |= {field: wrap(AGGREGATE_A), "config_snapshot_json": wrap(RUN["config_snapshot_json"])}
    results = rs.load_results(write(run))
    assert results.runs["k"].tolist() == [10]
    told = values(results, "a")
    assert told["hit_at_k.5"] == 0.6667 and told["total_queries"] == 3 and len(told) == 17
    rows = results.reported.set_index("metric")
    assert rows.loc["hit_at_k.5", ["label", "statistic"]].tolist() == ["hit@5:chunk", "mean"]
    assert rows.loc["failed_queries", ["label", "statistic"]].tolist() == ["failed", "sum"]
    assert rows["value"].isna().sum() == 2  # null: citation_coverage, refusal_correctness


@pytest.mark.parametrize("stored", [None, "{}", ""])
def test_a_run_may_have_no_aggregate_yet_and_no_id(write, stored):
    results = rs.load_results(write(RUN | {"aggregate": stored, "run_id": None}, "nightly.json"))
    assert results.reported is None and results.runs["run_id"].tolist() == ["nightly"]


@pytest.mark.parametrize(
    ("changed", "line", "field", "named"),
    [
        ({"per_query": {}}, 1, "query_id", []),
        ({"per_query": [RUN_A[0], 7]}, 2, None, [7]),
        ({"per_query": [RUN_A[0], RUN_A[0]]}, 2, "query_id", ["q1", 1]),
        ({"aggregate": [1]}, None, "aggregate", ["[1]"]),
        ({"aggregate": "{"}, None, "aggregate", ["JSON"]),
        ({"aggregate": {"mrr": "high"}}, None, "aggregate.mrr", ["high"]),
        ({"created_at": "today"}, None, "created_at", ["today"]),
    ],
)
def test_a_fault_of_a_run_is_told_with_its_field_or_the_number_of_its_record(
    write, changed, line, field, named
):
    file = write(RUN | {"aggregate": {}} | changed, indent=2)
    with refused(*named, file="run.json", line=line, field=field):
        rs.load_results(file)
    assert len(rs.load_results(file, strict=False).problems) == 1


# its database


def test_the_aggregates_of_a_database_are_reported(database):
    results = rs.load_results(database({"a": AGGREGATE_A, "bb": {}}))
    assert values(results, "a")["mrr"] == 0.4167 and values(results, "bb") == {}
    assert results.runs["run_id"].astype("str").tolist() == ["a", "bb"]
    run = results.runs.iloc[0]
    assert (run["suite"], run["k"], run["chunker_version"]) == ("golden", 10, "test@1")


def test_a_database_that_is_cut_off_is_named(tmp_path):
    (tmp_path / "broken.db").write_bytes(b"SQLite format 3\0" + b"x" * 100)
    with refused(file="broken.db"):
        rs.load_results(tmp_path / "broken.db")


def test_a_database_without_that_column_loads_without_them(database):
    file = database({"a": {}, "bb": {}})
    with sqlite3.connect(file) as base:
        base.execute("ALTER TABLE eval_runs DROP COLUMN aggregate_json")
    base.close()
    assert rs.load_results(file).reported is None


def test_an_aggregate_that_is_no_object_is_named_with_its_row(database):
    file = database({"a": AGGREGATE_A, "bb": [1]})
    with refused(file="kebab.sqlite", line=2, field="eval_runs.aggregate_json"):
        rs.load_results(file)
    lenient = rs.load_results(file, strict=False)
    assert len(lenient.problems) == 1 and values(lenient, "a")["mrr"] == 0.4167


# checked against what is recomputed


def wrong(checked):
    """What differs by more than a rounding: run, query, metric, difference."""
    rows = checked[checked["difference"].abs() > 5e-5]
    keys = ["run_id", "query_id", "metric", "difference"]
    return [tuple(row) for row in rows[keys].itertuples(index=False)]


@pytest.mark.parametrize(
    "uses_schema", [False, pytest.param(True, marks=[needs_shared, pytest.mark.slow])]
)
def test_a_stored_aggregate_that_is_wrong_is_found(database, write_golden, uses_schema):
    schema = (SHARED / "V001__init.sql").read_text(encoding="utf-8") if uses_schema else SCHEMA
    golden = write_golden(THREE_QUERIES)
    right = rs.extras.check_reported(
        rs.evaluate(
            database({"a": AGGREGATE_A, "bb": AGGREGATE_B}, schema), golden, profile="kebab"
        )
    )
    assert len(right) == 38 and wrong(right) == []
    # what went through float32 is compared as it was rounded: not even the last digits differ
    assert right["difference"].fillna(0).abs().max() == 0
    assert right.set_index(["run_id", "metric"])["recomputed"].loc[("a", "mrr")] == 0.4167

    hits = AGGREGATE_B["hit_at_k"] | {"5": 0.6667}
    stored = {"a": AGGREGATE_A | {"failed_queries": 1}, "bb": AGGREGATE_B | {"hit_at_k": hits}}
    file = database(stored, schema)
    named = wrong(rs.extras.check_reported(rs.evaluate(file, golden, profile="kebab")))
    assert named == [
        ("a", "", "failed_queries", -1),
        ("bb", "", "hit_at_k.5", pytest.approx(1 - 0.6667)),
    ]
    # without the profile they are recomputed by our own means, which are not rounded
    plain = rs.extras.check_reported(rs.evaluate(file, golden))
    assert [row[:3] for row in wrong(plain)] == [row[:3] for row in named]
    labels = plain.set_index("metric")["label"]
    assert labels["mrr"].tolist() == ["mrr@10:chunk"] * 2
    assert labels["citation_coverage"].tolist() == ["citation_coverage_weak"] * 2


def test_ranks_that_a_file_of_retrievers_states_are_recomputed(tmp_path):
    lines = [
        said("q1", [found(1, "x"), found(2, "k1")], rank_first_match=2, passed=True),
        said("q2", [found(1, "x")], rank_first_match=1, passed=True),
    ]
    golden = [{"query": f"q{n}", "expected_source_keys": [f"k{n}"]} for n in (1, 2)]
    files = put(tmp_path, lines, "results.jsonl"), put(tmp_path, golden, "queries.jsonl")
    assert wrong(rs.extras.check_reported(rs.evaluate(*files, profile="seed-mcp"))) == [
        ("dense", "q2", "rank_first_match", float("inf")),
        ("dense", "q2", "passed", -1),
    ]


@needs_shared
def test_every_value_of_the_systems_own_comparison_is_recomputed(write_golden, write_run):
    rows = [one | {"id": f"q-00{n}"} for n, one in enumerate(THREE_QUERIES, 1)]
    files = [
        write_run(name, [one | {"query_id": f"q-00{n}"} for n, one in enumerate(records, 1)])
        for name, records in (("run_a", RUN_A), ("run_b", RUN_B))
    ]
    ev = rs.evaluate(files, write_golden(rows), profile="kebab")
    stored = json.loads((SHARED / "compare-1.json").read_text(encoding="utf-8"))
    written = json.loads(ev.compare("run_a", "run_b").to_json())
    assert written["per_query"] == stored["per_query"]  # 6 ranks
    for part in ("aggregate_a", "aggregate_b", "deltas"):
        ours, theirs = flat(written[part]), flat(stored[part])
        assert len(ours) >= 18 and ours == pytest.approx(theirs, abs=5e-5)


def test_every_name_of_an_aggregate_is_a_metric_of_ours(pair):
    labels = [label.format(k=5) for label, _ in AGGREGATES.values()]
    scores = rs.score(*pair, sorted(set(labels)))
    assert set(labels) <= set(scores.columns)
    assert len(THREE_QUERIES) == scores.index.nunique()
