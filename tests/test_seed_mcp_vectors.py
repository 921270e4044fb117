"""SEEDS F.7.

The published table of retrievers judged by predicates, by the profile of the harness that published
it.
"""

import pytest
from conftest import found, said
from plausible_runs import put
from published_retrievers import MS, QUESTIONS, records

import ragscore as rs
from ragscore.analysis.aggregates import aggregate as aggregate_of
from tests.messages import warned

TABLE = {
    "hybrid+rerank": {"passed": 21, "recall_known": 1.0, "precision_top1": 0.9048, "mrr": 0.9048},
    "bm25": {"passed": 20, "recall_known": 0.9524, "precision_top1": 0.8095, "mrr": 0.8333},
    "hybrid": {"passed": 15, "recall_known": 0.7143, "precision_top1": 0.6190, "mrr": 0.6190},
    "dense": {"passed": 14, "recall_known": 0.6667, "precision_top1": 0.3810, "mrr": 0.4405},
}


@pytest.fixture
def load(tmp_path):
    def write(questions, lines):
        results = rs.load_results(put(tmp_path, lines, "results.jsonl"))
        return results, rs.load_golden(put(tmp_path, questions, "queries.jsonl"))

    return write


def test_the_profile_gives_the_published_table(load):
    aggregates = aggregate_of(*load(QUESTIONS, records()), "seed-mcp")
    assert {
        name: {key: round(one[key], 4) for key in TABLE[name]} for name, one in aggregates.items()
    } == TABLE
    assert {name: one["avg_latency_ms"] for name, one in aggregates.items()} == MS
    assert {one["n_queries"] for one in aggregates.values()} == {21}


def test_outcomes_without_hits_give_the_published_table(load):
    keys = {one["query"]: one.get("expected_source_keys") for one in QUESTIONS}
    outcomes = []
    for one in records():
        hits, expected = one.pop("hits"), keys[one["query"]]
        right = [
            hit["rank"] for hit in hits if hit["metadata"]["source_key"].title() in (expected or ())
        ]
        # Those that expect no key pass by the hits that they must not have.
        outcomes.append(
            one
            | {"n_hits": len(hits), "rank_first_match": min(right, default=None)}
            | {"passed": bool(right) or expected is None}
        )
    with warned("results.jsonl", "n_hits", "rank_first_match"):
        results, golden = load(QUESTIONS, outcomes)
    aggregates = aggregate_of(results, golden, "seed-mcp")
    assert {
        name: {key: round(one[key], 4) for key in TABLE[name]} for name, one in aggregates.items()
    } == TABLE


def test_a_response_to_no_golden_question_counts_nowhere(load):
    lines = [said("q", [found(1, "k")]), said("stray", [found(1, "k")])]
    aggregate = aggregate_of(
        *load([{"query": "q", "expected_source_keys": ["k"]}], lines), "seed-mcp"
    )["dense"]
    assert (
        aggregate["n_queries"],
        aggregate["passed"],
        aggregate["recall_known"],
        aggregate["mrr"],
    ) == (1, 1, 1, 1)


def test_ours_leaves_queries_without_a_rank_out_of_the_mean_FLAW_theirs_has_1_for_none(load):
    scores = rs.score(*load(QUESTIONS, records()), ["mrr"])
    means = scores.groupby("run_id", observed=True)["mrr"].mean().round(4)
    assert means.to_dict() == {
        "hybrid+rerank": 1.0,
        "bm25": 0.9211,
        "hybrid": 0.6842,
        "dense": 0.4868,
    }


# The predicate cases of F.7; every one and more, by our own scores, is in test_predicates.py.
@pytest.mark.parametrize(
    ("expectation", "hits", "passed"),
    [
        ({"expected_metadata": {"year": 2024}}, [found(1, year=2024)], 1),
        ({"expected_metadata": {"year": 2024}}, [found(1, year="2024")], 0),
        ({"expected_metadata": {"crop": "Corn"}}, [found(1, crop="corn")], 1),
        ({"expected_source_keys": ["Pioneer-P1142"]}, [found(1, "pioneer-p1142")], 1),
        (
            {"expected_metadata": {"x": 1}, "expected_substrings": ["yield", "moisture"]},
            [found(1, x=1, document="yield")],
            1,
        ),
        ({"expected_empty": True}, [found(1, "a")], 0),
        ({"expected_empty": True}, [], 1),
        ({"must_not_contain_source_keys": ["pioneer"]}, [found(1, "pioneer-p1142")], 0),
        ({"must_not_contain_source_keys": ["pioneer"]}, [], 1),
        ({"expected_empty": True, "expected_source_keys": ["a"]}, [found(1, "a")], 0),
        ({"expected_empty": True, "expected_source_keys": ["a"]}, [], 1),
        ({"expected_source_keys": []}, [found(1, "a")], 0),
    ],
)
@pytest.mark.filterwarnings("ignore:.*carry no expectation:UserWarning")
def test_a_question_passes_by_the_profile_as_well(load, expectation, hits, passed):
    other = {"query": "other", "expected_source_keys": ["k"]}
    lines = [said("q", hits), said("other", [found(1, "k")])]
    found_here = aggregate_of(*load([{"query": "q", **expectation}, other], lines), "seed-mcp")[
        "dense"
    ]
    assert (found_here["passed"], found_here["recall_known"]) == (passed + 1, (passed + 1) / 2)


LONG_LISTS = [  # the first right hit stands at rank 1, 7, 2
    said("q1", [found(rank, "k1" if rank == 1 else "x") for rank in range(1, 9)]),
    said("q2", [found(rank, "k2" if rank == 7 else "x") for rank in range(1, 9)]),
    said("q3", [found(rank, "k3" if rank == 2 else "x") for rank in range(1, 9)]),
]
EXPECT = [{"query": f"q{n}", "expected_source_keys": [f"k{n}"]} for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("ks", "passed", "mrr"),
    [
        ((5,), [2], [(1 + 0 + 1 / 2) / 3]),
        ((7,), [3], [(1 + 1 / 7 + 1 / 2) / 3]),
        # a run that states no k is judged by its whole lists, in both
        ((None,), [3], [(1 + 1 / 7 + 1 / 2) / 3]),
        ((1, 5), [1, 2], [1 / 3, (1 + 1 / 2) / 3]),  # each retriever by its own k
    ],
)
@pytest.mark.filterwarnings("error:cut-offs above")
def test_passed_and_mrr_look_at_the_same_first_hits(load, ks, passed, mrr):
    lines = [one | {"retriever": f"r{n}", "k": k} for n, k in enumerate(ks) for one in LONG_LISTS]
    aggregates = list(aggregate_of(*load(EXPECT, lines), "seed-mcp").values())
    assert [one["passed"] for one in aggregates] == passed
    assert [one["mrr"] for one in aggregates] == pytest.approx(mrr)


def test_the_profile_and_the_table_of_retrievers_agree_on_long_lists(load):
    results, golden = load(EXPECT, LONG_LISTS)
    table = rs.extras.retrievers(rs.evaluate(results, golden)).table
    aggregate = aggregate_of(results, golden, "seed-mcp")["dense"]
    assert table["mrr_all"].tolist() == pytest.approx([aggregate["mrr"]])
    assert table["passed"].tolist() == [aggregate["passed"]]
