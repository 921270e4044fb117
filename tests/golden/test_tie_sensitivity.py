"""How much the order of equal scores could move a metric."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from conftest import golden_of, hit, hits_of, record, targets_of

import ragscore as rs
from ragscore.golden.coverage import coverage_rows
from ragscore.golden.tie_sensitivity import tie_sensitivity


def scored(docs_and_scores):
    return [
        hit(f"c{rank}", doc, rank, retrieval={"fusion_score": score})
        for rank, (doc, score) in enumerate(docs_and_scores, 1)
    ]


@pytest.fixture
def sensitivity(write_golden, write_run):
    def sensitivity(*runs, metrics=("hit@1", "mrr@10"), expected=("d",)):
        golden = rs.load_golden(
            write_golden(
                [
                    {"id": "q", "query": "?", "expected_doc_ids": list(expected)},
                    {"id": "p", "query": "?", "expected_doc_ids": ["d"]},
                ]
            )
        )
        files = [
            write_run(name, [record("q", hits), record("p", scored([("d", 0.9), ("x", 0.1)]))])
            for name, hits in zip("AB", runs, strict=False)
        ]
        return tie_sensitivity(rs.load_results(files), golden, list(metrics)).set_index(
            ["run_id", "metric"]
        )

    return sensitivity


def test_tied_hits_move_a_metric_between_their_worst_and_best_order(sensitivity):
    # q: the document is second of three tied hits, so it could be first or third; p has no ties and
    # 1.
    table = sensitivity(scored([("x", 0.5), ("d", 0.5), ("y", 0.5), ("z", 0.4)]))
    assert table.loc[("A", "hit@1"), ["worst", "mean", "best"]].tolist() == [0.5, 0.5, 1.0]
    assert table.loc[("A", "mrr@10"), ["worst", "mean", "best"]].tolist() == pytest.approx(
        [(1 / 3 + 1) / 2, (1 / 2 + 1) / 2, 1.0]
    )
    assert table.loc[
        ("A", "mrr@10"), ["spread", "n", "n_tied", "n_moved"]
    ].tolist() == pytest.approx([(1 - 1 / 3) / 2, 2, 1, 1])


def test_ties_between_hits_of_equal_worth_move_nothing(sensitivity):
    table = sensitivity(scored([("d", 0.9), ("x", 0.5), ("y", 0.5)]))
    assert (
        table["spread"].tolist() == [0, 0]
        and table["n_tied"].tolist() == [1, 1]
        and table["n_moved"].tolist() == [0, 0]
    )


@pytest.mark.filterwarnings("ignore:ndcg has the gain")
def test_a_better_grade_goes_first_in_the_best_order(sensitivity):
    table = sensitivity(
        scored([("d", 0.5), ("e", 0.5)]),
        metrics=["ndcg@1"],
        expected=[{"any": ["d"], "grade": 1}, {"any": ["e"], "grade": 2}],
    )
    # Grade 1 first: gain 1 of 3; grade 2 first: 3 of 3; p: 1 always.
    assert table.loc[("A", "ndcg@1"), ["worst", "mean", "best"]].tolist() == pytest.approx(
        [(1 / 3 + 1) / 2, (1 / 3 + 1) / 2, 1.0]
    )


def test_a_run_without_scores_has_unknown_ties(sensitivity):
    unscored = [hit("c1", "x", 1, retrieval={}), hit("c2", "d", 2, retrieval={})]
    golden = golden_of(targets_of({"doc_id": "d"}))
    responses = pd.DataFrame({"run_id": ["r"], "query_id": "q", "query": "?", "error": None})
    hits = hits_of({"doc_id": "x"}, {"doc_id": "d"})
    alone = rs.Results(runs=pd.DataFrame({"run_id": ["r"]}), responses=responses, hits=hits)
    row = tie_sensitivity(alone, golden, "mrr@10").iloc[0]
    assert row["mean"] == 0.5 and row[["worst", "best", "spread", "n_tied", "n_moved"]].isna().all()
    table = sensitivity(scored([("x", 0.5), ("d", 0.5)]), unscored)
    assert table.loc[("A", "mrr@10"), "spread"] > 0


def test_kept_matches_follow_their_hits_to_other_ranks(write_golden, write_run, tmp_path):
    golden = rs.load_golden(
        write_golden(
            [
                {
                    "id": "q",
                    "query": "?",
                    "gold_supports": [
                        {"path": "docs/d.md", "heading": "root", "snippets": ["needle"]}
                    ],
                }
            ]
        )
    )
    hits = [
        hit(f"c{n}", doc, n, snippet=text, retrieval={"fusion_score": 0.5})
        for n, doc, text in ((1, "x", "hay"), (2, "d", "hay " * 100 + "needle"))
    ]
    results = rs.load_results(write_run("A", [record("q", hits)]))
    store = rs.RunStore(tmp_path / "store")
    store.save(results, golden=golden)
    kept = store.load(["A"])
    assert bool(kept.hits["text_cut"].any())
    row = tie_sensitivity(kept, golden, "mrr@10").iloc[0]
    assert row[["worst", "mean", "best"]].tolist() == [0.5, 0.5, 1.0]


@pytest.mark.parametrize("n_scores", [3, 10_000])  # many ties, none
def test_tied_queries_are_those_with_a_score_twice_wherever_their_hits_lie(n_scores):
    rng = np.random.default_rng(3)
    asked = [(run, f"q{n}") for run in "BA" for n in range(20)]
    hits = pd.DataFrame(
        [(*one, rank, f"d{rank}") for one in asked for rank in range(1, 9)],
        columns=["run_id", "query_id", "rank", "doc_id"],
    )
    # the scores of a query fall by rank
    drawn = rng.choice(n_scores, (len(asked), 8)) / n_scores
    hits["score"] = -np.sort(-drawn, axis=1).ravel()
    hits.loc[rng.random(len(hits)) < 0.1, "score"] = np.nan
    again = hits.duplicated(["run_id", "query_id", "score"]) & hits["score"].notna()
    expected = set(hits.loc[again, ["run_id", "query_id"]].itertuples(index=False, name=None))
    responses = pd.DataFrame(asked, columns=["run_id", "query_id"]).assign(query="?", error=None)
    golden = golden_of(pd.concat(targets_of({"doc_id": "d3"}, query_id=f"q{n}") for n in range(20)))
    for rows in (hits, hits.sample(frac=1, random_state=1, ignore_index=True)):
        results = rs.Results(pd.DataFrame({"run_id": ["B", "A"]}), responses, rows)
        issues = coverage_rows(results, golden)
        found = issues.loc[issues["issue"] == "ties", ["run_id", "query_id"]]
        assert set(found.itertuples(index=False, name=None)) == expected
        table = tie_sensitivity(results, golden, "mrr@10").set_index("run_id")
        assert table["n_tied"].to_dict() == Counter(run for run, _ in expected) | {
            run: 0 for run in "AB" if not expected
        }
