"""SEEDS F.4: paraphrase groups."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.analysis.aggregates import aggregate
from tests.compared import extra
from tests.messages import refused, warned

paraphrases = extra("paraphrases")

GROUP = [
    {
        "id": name,
        "query": "?",
        "expected_doc_ids": ["docX"],
        "group": "g",
        "must_contain": ["alpha"],
    }
    for name in ("v1", "v2", "v3")
]


@pytest.fixture
def group_of(write_golden, write_run):
    """Paraphrases of one run in which docX has these ranks (None: another document at rank
    1).
    """

    def found_at(ranks, answers=None, deep=True, pool=None, **described):
        records = []
        for query, rank in zip(GROUP, ranks, strict=False):
            found = [hit("o", "other", 1)] if rank is None else [hit("x", "docX", rank)]
            records.append(
                record(
                    query["id"], found + ([hit("p", "pad", 50)] if deep else []), **(answers or {})
                )
            )
        return paraphrases(
            rs.load_results(write_run("r", records, **described)),
            rs.load_golden(write_golden(GROUP[: len(ranks)])),
            pool=pool,
        )

    return found_at


def test_ok_misranked_and_missing(group_of):
    found = group_of([3, 25, None])
    assert found.per_query["diagnosis"].tolist() == ["Ok", "MisRanked", "Missing"]
    group = found.groups.iloc[0]
    counts = group[["recall_spread", "worst_recall", "n_misranked", "n_missing"]]
    assert counts.tolist() == [1, 0, 1, 1]
    assert group["dominant"] == "ranking"  # a tie goes to ranking
    consistent = group_of([1, 2]).summary.iloc[0]
    names = ["n_consistent", "mean_recall_spread", "share_consistent"]
    assert consistent[names].tolist() == [1, 0, 1]


def test_questions_without_group_make_no_group(write_golden, write_run):
    golden = rs.load_golden(write_golden([{"id": "q", "query": "?", "expected_doc_ids": ["docX"]}]))
    found = paraphrases(
        rs.load_results(write_run("r", [record("q", [hit("x", "docX", 50)])])), golden
    )
    assert len(found.groups) == len(found.summary) == 0


def test_a_shallow_pool_is_said_and_its_misses_are_a_fault_of_retrieval(group_of):
    with warned("r", 50):
        found = group_of([1, None], deep=False)
    group, summary = found.groups.iloc[0], found.summary.iloc[0]
    assert group[["n_misranked", "n_missing", "dominant"]].tolist() == [0, 1, "retrieval"]
    assert summary[["n_retrieval", "n_ranking"]].tolist() == [1, 0]
    assert summary["pool_cut_short"]
    assert not group_of([1, None]).summary["pool_cut_short"].any()


def test_a_run_of_smaller_k_is_refused(group_of):
    with refused("r", 10, 50, field="pool"):
        group_of([1], config={"eval_k": 10}, pool=50)
    assert group_of([1], config={"eval_k": 10}).pool == 10  # by default, what the run kept
    assert len(group_of([1], config={"other": 1}).per_query)  # a run that doesn't say is allowed


@pytest.mark.parametrize("more", [{"answer": answer("beta")} | {"error": "late"}, {"answer": None}])
def test_an_answer_that_cannot_be_checked_leaves_consistency_unknown(group_of, more):
    found = group_of([1, 2], answers=more)
    assert found.per_query["answer_ok"].isna().all()
    assert np.isnan(found.groups["answer_consistency"].iloc[0])


@pytest.mark.parametrize(("text", "consistency"), [("alpha", 1), ("beta", 0)])
def test_answers_of_a_group_are_consistent_only_if_all_are_right(group_of, text, consistency):
    found = group_of([1, 2], answers={"answer": answer(text)}).groups
    assert found["answer_consistency"].tolist() == [consistency]


@pytest.fixture
def groups_of(write_golden, write_run):
    """Results and golden set of groups, each {kind: rank of docX, or None where not found}."""

    def write(groups):
        golden, records = [], []
        for number, ranks in enumerate(groups):
            for kind, rank in ranks.items():
                name = f"g{number}-{kind}"
                golden.append({"id": name, "query": "?", "expected_doc_ids": ["docX"],
                               "group": f"g{number}", "variant": str(kind)})  # fmt: skip
                found = [hit("x", "docX", rank)] if rank else []
                records.append(record(name, [*found, hit("p", "pad", 50)]))
        return rs.load_results(write_run("r", records)), rs.load_golden(write_golden(golden))

    return write


def test_kinds_of_paraphrase_are_told_apart(groups_of):
    results, golden = groups_of(
        [{"plain": 1, "typo": 25, "keywords": None}, {"plain": 3, "typo": 2, "keywords": None}]
    )
    table = paraphrases(results, golden).kinds.set_index("kind")
    columns = ["n", "recall_narrow", "recall_pool", "recall_lost", "n_ok", "n_misranked"]
    assert table[columns].T.to_dict("list") == {
        "plain": [2, 1, 1, 0, 2, 0],
        "typo": [2, 0.5, 1, 0.5, 1, 1],
        "keywords": [2, 0, 0, 1, 0, 0],
    }
    assert table["n_missing"].to_dict() == {"plain": 0, "typo": 0, "keywords": 2}
    assert table["answer_ok"].isna().all()
    unnamed = replace(golden, queries=golden.queries.drop(columns="variant"))
    assert paraphrases(results, unnamed).kinds["kind"].tolist() == ["(none)"]


def test_documents_found_in_part_are_misranked_rather_than_missing(write_golden, write_run):
    three = {"id": "v", "query": "?", "expected_doc_ids": ["d1", "d2", "d3"], "group": "g"}
    hits = [hit("a", "d1", 1), hit("b", "d2", 30), hit("p", "pad", 50)]
    results = rs.load_results(write_run("r", [record("v", hits)]))
    row = paraphrases(results, rs.load_golden(write_golden([three]))).per_query.iloc[0]
    assert row["diagnosis"] == "MisRanked"
    assert row[["recall_narrow", "recall_pool"]].tolist() == pytest.approx([1 / 3, 2 / 3])


def test_a_paraphrase_that_expects_nothing_is_named_so(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([{"id": "v", "query": "?", "must_contain": ["a"], "group": "g"}])
    )
    found = paraphrases(
        rs.load_results(write_run("r", [record("v", [hit("p", "pad", 50)])])), golden
    )
    group = found.groups.iloc[0]
    assert found.per_query["diagnosis"].tolist() == ["NoExpected"]
    assert group["recall_spread"] == 0 and np.isnan(group["worst_recall"])


# F.4.7: published summaries, from ranks that give them


def test_published_summary_of_24_groups(groups_of):
    ranks = [[25, *[1] * 4]] * 2 + [[1] * 5] * 10 + [[1] * 6] * 12
    found = paraphrases(*groups_of([dict(enumerate(one)) for one in ranks]))
    rows, summary = found.per_query, found.summary.iloc[0]
    assert len(rows) == 132
    assert (rows["recall_narrow"].sum(), rows["recall_pool"].sum()) == (130, 132)
    assert round(rows["recall_narrow"].mean(), 3) == 0.985
    # none is Missing
    assert rows["diagnosis"].astype("str").value_counts().to_dict() == {"Ok": 130, "MisRanked": 2}
    assert summary[["n_groups", "n_consistent"]].tolist() == [24, 22]
    assert round(summary["mean_recall_spread"], 3) == 0.083


@pytest.mark.parametrize(
    ("n_groups", "n_consistent", "spread"),
    [(24, 19, 0.208), (18, 14, 0.222), (18, 13, 0.278), (18, 16, 0.111)],
)
def test_published_spreads_are_the_share_of_groups_that_differ(
    groups_of, n_groups, n_consistent, spread
):
    ranks = [{1: 1, 2: 25}] * (n_groups - n_consistent) + [{1: 1, 2: 2}] * n_consistent
    summary = paraphrases(*groups_of(ranks)).summary.iloc[0]
    assert summary["n_consistent"] == n_consistent
    assert round(summary["mean_recall_spread"], 3) == spread


@pytest.mark.parametrize(
    ("ranks", "hit_1", "mrr"), [([1] * 7 + [2, 2, 3], 0.7, 0.8333), ([1] * 4 + [2] * 6, 0.4, 0.7)]
)
def test_published_baseline_of_ten_questions(write_golden, write_run, ranks, hit_1, mrr):
    rows = [
        {"id": f"q{n}", "query": "?", "expected_doc_ids": ["docX"], "expected_chunk_ids": ["x"]}
        for n in range(len(ranks))
    ]
    results = rs.load_results(
        write_run("r", [record(f"q{n}", [hit("x", "docX", rank)]) for n, rank in enumerate(ranks)])
    )
    found = aggregate(results, rs.load_golden(write_golden(rows)), "kebab")["r"]
    assert [found["hit_at_k"][k] for k in ("1", "3", "10")] == [hit_1, 1, 1]
    assert found["mrr"] == mrr
    assert (found["recall_at_k_doc"]["10"], found["empty_result_rate"]) == (1, 0)
