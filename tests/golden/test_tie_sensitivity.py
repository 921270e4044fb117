"""How much the order of equal scores could move a metric."""

import numpy as np
import pandas as pd
import pytest
from conftest import hit, record

import ragscore as rs
from ragscore.frames.data import from_records
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


@pytest.mark.large
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


@pytest.mark.large
def test_a_run_without_scores_has_unknown_ties(sensitivity):
    unscored = [hit("c1", "x", 1, retrieval={}), hit("c2", "d", 2, retrieval={})]
    golden = rs.Golden(
        queries=pd.DataFrame(
            {
                "query_id": ["q"],
                "query": "?",
                "position": 0,
                "answerable": pd.array([True], dtype="boolean"),
            }
        ),
        targets=pd.DataFrame(
            {
                "query_id": ["q"],
                "level": "doc",
                "target_id": "d",
                "alternative": 0,
                "grade": 1,
                "doc_id": "d",
            }
        ),
    )
    hits = pd.DataFrame(
        {
            "run_id": "A",
            "query_id": "q",
            "rank": [one["rank"] for one in unscored],
            "doc_id": [one["doc_id"] for one in unscored],
        }
    )
    responses = pd.DataFrame({"run_id": ["A"], "query_id": "q", "query": "?", "error": None})
    row = tie_sensitivity(
        rs.Results(runs=pd.DataFrame({"run_id": ["A"]}), responses=responses, hits=hits),
        golden,
        "mrr@10",
    ).iloc[0]
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


@pytest.mark.large
@pytest.mark.parametrize("n_scores", [3, 10_000])  # many ties, none
def test_ties_are_the_same_whether_hits_lie_in_order_or_not(n_scores):
    rng = np.random.default_rng(3)
    asked = [{"run_id": run, "query_id": f"q{n}", "query": "?"} for run in "BA" for n in range(30)]
    depth = 8
    drawn = [rng.choice(n_scores, depth, replace=n_scores < depth) for _ in asked]
    score = -np.sort(-np.array(drawn), axis=1)
    hits = pd.DataFrame([
        {**one, "rank": rank, "doc_id": f"d{rng.integers(5)}", "score": float(score[row, rank - 1])}
        for row, one in enumerate(asked) for rank in range(1, depth + 1)
    ]).drop(columns="query")  # fmt: skip
    hits.loc[rng.random(len(hits)) < 0.1, "score"] = np.nan
    queries = [
        {"query_id": f"q{n}", "query": "?", "answerable": True, "position": n} for n in range(30)
    ]
    targets = [
        {"query_id": f"q{n}", "level": "doc", "target_id": f"d{n % 5}", "doc_id": f"d{n % 5}",
         "alternative": 0, "grade": 1 + n % 2}
        for n in range(30)
    ]  # fmt: skip
    golden = rs.Golden(
        queries=from_records(queries, "queries"), targets=from_records(targets, "targets")
    )

    def results_of(rows):
        return rs.Results(
            runs=from_records([{"run_id": run} for run in "BA"], "runs"),
            responses=from_records([one | {"error": None} for one in asked], "responses"),
            hits=rows.reset_index(drop=True),
        )

    mixed = hits.sample(frac=1, random_state=1)
    tables = [tie_sensitivity(results_of(rows), golden) for rows in (hits, mixed)]
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    for rows in (hits, mixed):
        issues = coverage_rows(results_of(rows), golden)
        found = issues.loc[issues["issue"] == "ties", ["run_id", "query_id"]]
        is_again = rows.duplicated(["run_id", "query_id", "score"]) & rows["score"].notna()
        expected = rows.loc[is_again, ["run_id", "query_id"]].drop_duplicates()
        assert sorted(found.itertuples(index=False, name=None)) == sorted(
            expected.itertuples(index=False, name=None)
        )
    has_ties = (tables[0]["n_tied"] > 0).any()
    assert has_ties == (n_scores == 3)
