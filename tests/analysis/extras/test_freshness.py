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

ADDRESSES = [
    {"doc_id": "addr-2023", "version_key": "addr", "effective_timestamp": 2023,
     "superseded_by": "addr-2025"},
    {"doc_id": "addr-2024", "version_key": "addr", "effective_timestamp": 2024},
    {"doc_id": "addr-2025", "version_key": "addr", "effective_timestamp": 2025},
    {"doc_id": "price-v1", "version_key": "price", "superseded_by": "price-v2"},
    {"doc_id": "price-v2", "version_key": "price"},
    {"doc_id": "misc"},
]  # fmt: skip
RATES = ["freshness.stale_free_rate@2", "freshness.conflict_free_rate@2"]


@pytest.fixture
def load(tmp_path):
    """Load documents from lines of a file."""

    def load(*lines):
        file = tmp_path / "versions.jsonl"
        file.write_text("".join(f"{line}\n" for line in lines))
        return rs.io.load_documents(file)

    return load


@pytest.fixture
def documents(load):
    return load(*map(json.dumps, ADDRESSES))


def freshness(documents, *more, run_id="r", **lists):
    """The freshness of one run; each keyword is a query with the documents it found."""
    return rs.extras.freshness(rs.load_results(lists, run_id=run_id), documents, *more)


def of_keys(*rows):
    return pd.DataFrame(rows, columns=["doc_id", "version_key", "effective_timestamp"])


# the first two timestamps are equal as floats
LISTED = of_keys(["v1", "v", 2**60], ["v2", "v", 2**60 + 1], ["v3", "v", 150])


@pytest.mark.parametrize(
    ("known", "hits", "stale", "conflicts"),
    [
        # a named successor and a later version make a hit stale
        (None, ["addr-2023", "addr-2024", "misc", "price-v2"],
         [[1, "addr-2023", "addr-2025", "superseded"],
          [2, "addr-2024", "addr-2025", "newer version"]],
         [["addr", 1, "addr-2023"], ["addr", 2, "addr-2024"]]),
        # versions of one thing are a conflict, by key in order of the first hit
        (None, ["price-v1", "addr-2024", "misc", "price-v2", "addr-2025"],
         [[1, "price-v1", "price-v2", "superseded"],
          [2, "addr-2024", "addr-2025", "newer version"]],
         [["price", 1, "price-v1"], ["price", 4, "price-v2"], ["addr", 2, "addr-2024"],
          ["addr", 5, "addr-2025"]]),
        # the newest version replaces all others, however they are listed
        (LISTED, ["v1", "v2", "v3"],
         [[1, "v1", "v2", "newer version"], [3, "v3", "v2", "newer version"]],
         [["v", 1, "v1"], ["v", 2, "v2"], ["v", 3, "v3"]]),
    ],
    ids=["stale", "conflicts", "newest"],
)  # fmt: skip
def test_stale_hits_and_conflicts_are_named_and_counted(documents, known, hits, stale, conflicts):
    found = freshness(documents if known is None else known, q=hits)
    columns = ["rank", "doc_id", "replaced_by", "reason"]
    assert found.stale_hits[columns].values.tolist() == stale
    assert found.conflicts[["version_key", "rank", "doc_id"]].values.tolist() == conflicts
    rates = [len(stale) / len(hits), len(conflicts) / len(hits)]
    assert found.summary[["stale_rate", "conflict_rate"]].iloc[0].tolist() == rates


def test_only_the_first_k_hits_count(documents):
    row = freshness(documents, 2, q=["addr-2023", "misc", "addr-2024"]).per_query.iloc[0]
    assert row[["considered", "n_stale", "n_conflicting"]].tolist() == [2, 1, 0]


def test_rates_of_two_queries_become_metrics():
    versions = of_keys(["a1", "a", 1], ["a2", "a", 2], ["x", None, None], ["y", None, None])
    lists = {"q1": ["a1", "a2"], "q2": ["x", "y"]}
    found = freshness(versions, 2, **lists)
    names = ["stale_rate", "stale_query_rate", "conflict_rate", "conflict_query_rate"]
    assert found.summary[names].iloc[0].tolist() == [0.25, 0.5, 0.5, 0.5]
    scores = rs.score(rs.load_results(lists, run_id="r"), rs.load_golden(lists), ["hit@1"])
    own = TABLE.with_metrics([with_own(name) for name in RATES])
    assert [own.describe(name).better for name in RATES] == ["higher"] * 2
    joined = add_columns(scores, found.per_query, RATES)
    summary = summarize(joined, table=own).set_index("metric").loc[RATES]
    assert summary["mean"].tolist() == [0.75, 0.5]
    low, high = summary[["low", "high"]].iloc[1]
    assert 0 <= low < 0.1 and 0.9 < high <= 1, "1 of 2 says little"
    with refused("r", "q1", field="table"):
        add_columns(scores, pd.concat([found.per_query, found.per_query.iloc[:1]]), RATES)


def test_a_query_without_hits_is_not_measured(documents):
    rate, lists = "freshness.stale_free_rate@3", {"q1": [], "q2": ["addr-2024"]}
    found = freshness(documents, 3, **lists)
    assert np.isnan(found.per_query[rate].iloc[0])
    assert found.summary[["n_queries", "stale_query_rate"]].values.tolist() == [[1, 1]]
    given = rs.extras.freshness(rs.load_results(lists), documents, 3, empty_value=1.0)
    assert given.per_query[rate].tolist() == [1, 0]


def test_documents_may_differ_from_run_to_run(documents):
    both = rs.load_results({run: {"q": ["addr-2024"]} for run in "rs"})
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
def test_a_bad_line_is_named(load, line, field, named):
    with refused(*named, file="versions.jsonl", line=2, field=field):
        load('{"doc_id": "x"}', line)


def test_other_fields_of_documents_are_kept(load):
    assert load('{"doc_id": "x"}', '{"doc_id": "z", "own": 1}')["x_own"].tolist()[-1] == 1


def test_what_is_missing_is_said(documents):
    with refused("documents", field="documents"):
        freshness(None, q=["a"])
    twice = pd.concat([documents, documents.iloc[:1].assign(version_key="other")])
    with refused("addr-2023", field="documents.doc_id"):
        freshness(twice, q=["a"])


def test_documents_of_other_ids_are_warned_of(documents):
    with warned("a, b", "addr-2023"):
        found = freshness(documents, q=["a", "b"])
    assert found.summary[["stale_rate", "unknown_rate"]].to_numpy().tolist() == [[0, 1]]
    assert freshness(documents, q=["a", "addr-2025"]).summary["unknown_rate"].tolist() == [0.5]


def test_hits_that_say_so_themselves_are_counted():
    results = rs.load_results({"q1": ["a", "b"], "q2": ["c"]})
    without = rs.extras.freshness(results, of_keys(["a", "a", 1])).summary.iloc[0]
    assert without["n_marked"] == 0 and np.isnan(without["marked_stale_rate"])
    results.hits["stale"] = pd.array([True, False, None], dtype="boolean")
    row = rs.extras.freshness(results).summary.iloc[0]
    columns = ["n_marked", "marked_stale_rate", "marked_stale_query_rate"]
    assert row[columns].tolist() == [2, 0.5, 1]
    # without a documents frame nothing else is known
    assert row["n_queries"] == 0 and np.isnan(row["stale_rate"])
