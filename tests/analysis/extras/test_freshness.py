"""SEEDS F.5.13-14: stale hits and conflicts between versions."""

import json

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.own import with_own
from ragscore.scoring.summary import add_columns, summarize
from tests.messages import refused, warned

RATES = ("stale", "conflict")
ADDRESSES = [
    {
        "doc_id": "addr-2023",
        "version_key": "addr",
        "effective_timestamp": 2023,
        "superseded_by": "addr-2025",
    },
    {"doc_id": "addr-2024", "version_key": "addr", "effective_timestamp": 2024},
    {"doc_id": "addr-2025", "version_key": "addr", "effective_timestamp": 2025},
    {"doc_id": "price-v1", "version_key": "price", "superseded_by": "price-v2"},
    {"doc_id": "price-v2", "version_key": "price"},
    {"doc_id": "misc"},
]


@pytest.fixture
def documents(tmp_path):
    file = tmp_path / "versions.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in ADDRESSES))
    return rs.io.load_documents(file)


def results_of(**lists):
    """One run; each keyword is a query with the documents it found, best first."""
    rows = [
        {"run_id": "r", "query_id": query, "rank": rank, "doc_id": doc}
        for query, docs in lists.items()
        for rank, doc in enumerate(docs, 1)
    ]
    responses = pd.DataFrame(
        {
            "run_id": "r",
            "query_id": list(lists),
            "query": "?",
            "error": pd.Series([None] * len(lists), dtype="str"),
        }
    )
    hits = pd.DataFrame(rows, columns=["run_id", "query_id", "rank", "doc_id"]).astype(
        {"rank": "int32"}
    )
    return rs.Results(runs=pd.DataFrame({"run_id": ["r"]}), responses=responses, hits=hits)


def of_keys(*rows):
    return pd.DataFrame(rows, columns=["doc_id", "version_key", "effective_timestamp"])


def test_a_named_successor_and_a_later_version_make_a_hit_stale(documents):
    results = results_of(q=["addr-2023", "addr-2024", "addr-2025", "misc", "price-v2"])
    found = rs.extras.freshness(results, documents)
    assert found.stale_hits[["rank", "doc_id", "replaced_by", "reason"]].values.tolist() == [
        [1, "addr-2023", "addr-2025", "superseded"],
        [2, "addr-2024", "addr-2025", "newer version"],
    ]
    assert found.summary["stale_rate"].tolist() == [2 / 5]


def test_two_versions_of_one_thing_are_one_conflict(documents):
    results = results_of(q=["price-v1", "misc", "price-v2", "misc"])
    found = rs.extras.freshness(results, documents)
    assert found.conflicts[["version_key", "rank", "doc_id"]].values.tolist() == [
        ["price", 1, "price-v1"],
        ["price", 3, "price-v2"],
    ]
    assert found.per_query[["considered", "n_conflicting"]].values.tolist() == [[4, 2]]


def test_only_the_first_k_hits_count(documents):
    results = results_of(q=["addr-2023", "misc", "addr-2024"])
    row = rs.extras.freshness(results, documents, 2).per_query.iloc[0]
    assert (row["considered"], row["n_stale"], row["n_conflicting"]) == (2, 1, 0)
    newer = of_keys(["new", "a", 2], ["old", "a", 1])
    assert not len(rs.extras.freshness(results_of(q=["new", "old"]), newer, 1).conflicts)


def test_the_newest_version_replaces_all_others_however_they_are_listed():
    versions = of_keys(["v1", "v", 2**60], ["v2", "v", 2**60 + 1], ["v3", "v", 150])
    found = rs.extras.freshness(results_of(q=["v1", "v2", "v3"]), versions).stale_hits
    # the first two timestamps are equal as floats
    assert found[["doc_id", "replaced_by"]].values.tolist() == [["v1", "v2"], ["v3", "v2"]]


def test_timestamps_beyond_float_precision_are_told_apart():
    versions = of_keys(["v1", "v", 2**60], ["v2", "v", 2**60 + 1])
    assert rs.extras.freshness(results_of(q=["v1", "v2"]), versions).stale_hits[
        "doc_id"
    ].tolist() == ["v1"]


def test_conflicts_are_grouped_by_key_in_order_of_the_first_hit():
    versions = of_keys(
        ["a1", "addr", 1], ["a2", "addr", 1], ["p1", "price", 1], ["p2", "price", 1],
        ["misc", None, None],
    )  # fmt: skip
    found = rs.extras.freshness(results_of(q=["a1", "p1", "a2", "p2", "misc"]), versions)
    assert found.conflicts["version_key"].tolist() == ["addr", "addr", "price", "price"]
    assert found.summary["conflict_rate"].tolist() == [0.8]


@pytest.fixture
def two_queries():
    versions = of_keys(["a1", "a", 1], ["a2", "a", 2], ["x", None, None], ["y", None, None])
    return results_of(q1=["a1", "a2"], q2=["x", "y"]), versions


def test_rates_of_two_queries(two_queries):
    row = rs.extras.freshness(*two_queries, 2).summary.iloc[0]
    names = ["stale_rate", "stale_query_rate", "conflict_rate", "conflict_query_rate"]
    assert row[names].tolist() == [0.25, 0.5, 0.5, 0.5]


@pytest.fixture
def golden():
    return rs.load_golden({"q1": {"x": 1}, "q2": {"x": 1}})


RATES = ["freshness.stale_free_rate@2", "freshness.conflict_free_rate@2"]


def test_rates_become_metrics(two_queries, golden):
    rates = rs.extras.freshness(*two_queries, 2).per_query
    scores = add_columns(rs.score(two_queries[0], golden, ["hit@1"]), rates, RATES)
    own = [with_own(name) for name in RATES]
    assert [(one.better, one.bounds) for one in own] == [("higher", (0, 1))] * 2
    summary = summarize(scores, table=TABLE.with_metrics(own)).set_index("metric")
    assert summary.loc["freshness.stale_free_rate@2", "mean"] == 0.75
    conflicts = summary.loc["freshness.conflict_free_rate@2"]
    assert conflicts["mean"] == 0.5
    assert 0 <= conflicts["low"] < 0.1 and 0.9 < conflicts["high"] <= 1, "1 of 2 says little"


def test_a_query_with_two_rows_of_rates_is_refused(two_queries, golden):
    rates = rs.extras.freshness(*two_queries, 2).per_query
    twice = pd.concat([rates, rates.iloc[:1]])
    with refused("r", "q1", field="table"):
        add_columns(rs.score(two_queries[0], golden, ["hit@1"]), twice, RATES)


def test_a_query_without_hits_is_not_measured(documents):
    results, rate = results_of(q1=[], q2=["addr-2024"]), "freshness.stale_free_rate@3"
    found = rs.extras.freshness(results, documents, 3)
    assert np.isnan(found.per_query[rate].iloc[0])
    assert found.summary[["n_queries", "stale_query_rate"]].values.tolist() == [[1, 1]]
    given = rs.extras.freshness(results, documents, 3, empty_value=1.0).per_query
    assert given[rate].tolist() == [1, 0]


def test_documents_may_differ_from_run_to_run(documents):
    one = results_of(q=["addr-2024"])
    other = {name: getattr(one, name).assign(run_id="s") for name in ("runs", "responses", "hits")}
    both = rs.Results.concat([one, rs.Results(**other)])
    alone = documents[documents["doc_id"] == "addr-2024"]
    own = pd.concat([documents.assign(run_id="r"), alone.assign(run_id="s")])
    assert rs.extras.freshness(both, own).stale_hits["run_id"].tolist() == ["r"]
    assert rs.extras.freshness(both, documents).stale_hits["run_id"].tolist() == ["r", "s"]


@pytest.mark.parametrize(
    ("line", "field", "named"),
    [
        ('{"version_key": "a"}', "doc_id", []),
        ('{"doc_id": "x"}', "doc_id", ["x", 1]),
        ('{"doc_id": "y", "effective_timestamp": "2024"}', "effective_timestamp", ['"2024"']),
        ("{", None, ["JSON"]),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, field, named):
    file = tmp_path / "versions.jsonl"
    file.write_text('{"doc_id": "x"}\n' + line + "\n")
    with refused(*named, file="versions.jsonl", line=2, field=field):
        rs.io.load_documents(file)


def test_a_lenient_load_keeps_what_it_can_and_counts_the_rest(tmp_path):
    file = tmp_path / "versions.jsonl"
    file.write_text(
        '{"doc_id": "x"}\n{"version_key": "a"}\n{"doc_id": "x", "version_key": "k"}\n{"doc_id":'
        ' "y", "effective_timestamp": "2024", "own": 1}\n{\n'
    )
    with warned(4, "versions.jsonl:2", "doc_id"):
        documents = rs.io.load_documents(file, strict=False)
    assert documents.astype(object).where(documents.notna(), None).to_dict("list") == {
        "doc_id": ["x", "y"],
        "x_own": [None, 1],
    }


def test_what_is_missing_is_said(documents):
    results = results_of(q=["a"])
    twice = pd.concat([documents, documents.iloc[:1].assign(version_key="other")])
    with refused("documents", field="documents"):
        rs.extras.freshness(results)
    with refused("addr-2023", field="documents.doc_id"):
        rs.extras.freshness(results, twice)


def test_documents_of_other_ids_are_warned_of(documents):
    with warned("a, b", "addr-2023"):
        found = rs.extras.freshness(results_of(q=["a", "b"]), documents)
    assert found.summary[["stale_rate", "unknown_rate"]].to_numpy().tolist() == [[0, 1]]
    known = rs.extras.freshness(results_of(q=["a", "addr-2025"]), documents)
    assert known.summary["unknown_rate"].tolist() == [0.5]


def test_hits_that_say_so_themselves_are_counted():
    results = results_of(q1=["a", "b"], q2=["c"])
    flagged = rs.Results(
        runs=results.runs,
        responses=results.responses,
        hits=results.hits.assign(stale=pd.array([True, False, None], dtype="boolean")),
    )
    row = rs.extras.freshness(flagged).summary.iloc[0]
    columns = ["n_marked", "marked_stale_rate", "marked_stale_query_rate"]
    assert row[columns].tolist() == [2, 0.5, 1]
    # without a documents frame nothing else is known
    assert row["n_queries"] == 0 and np.isnan(row["stale_rate"])
    without_marks = rs.extras.freshness(results, of_keys(["a", "a", 1])).summary.iloc[0]
    assert without_marks["n_marked"] == 0 and np.isnan(without_marks["marked_stale_rate"])
