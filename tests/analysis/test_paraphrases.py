"""SEEDS F.4: paraphrase groups."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.analysis.paraphrases import paraphrases
from ragscore.scoring.profile_aggregates import aggregate
from tests.messages import refused, warned

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
    assert (
        group["recall_spread"],
        group["worst_recall"],
        group["n_misranked"],
        group["n_missing"],
    ) == (1, 0, 1, 1)
    assert group["dominant"] == "ranking"  # a tie goes to ranking


def test_a_group_found_every_time_is_consistent(group_of):
    summary = group_of([1, 2]).summary.iloc[0]
    assert (
        summary["n_consistent"],
        summary["mean_recall_spread"],
        summary["share_consistent"],
    ) == (1, 0, 1)


def test_questions_without_group_make_no_group(write_golden, write_run):
    golden = rs.load_golden(write_golden([{"id": "q", "query": "?", "expected_doc_ids": ["docX"]}]))
    found = paraphrases(
        rs.load_results(write_run("r", [record("q", [hit("x", "docX", 50)])])), golden
    )
    assert len(found.groups) == len(found.summary) == 0


def test_a_shallow_pool_is_said(group_of):
    with warned("r", 50):
        found = group_of([1, None], deep=False)
    group = found.groups.iloc[0]
    assert (group["n_misranked"], group["n_missing"], group["dominant"]) == (0, 1, "retrieval")
    assert "pool_cut_short" in repr(found) and "pool_cut_short" not in repr(group_of([1, None]))


def test_a_run_of_smaller_k_is_refused(group_of):
    with refused("r", 10, 50, field="pool"):
        group_of([1], config={"eval_k": 10}, pool=50)
    assert group_of([1], config={"eval_k": 10}).pool == 10  # by default, what the run kept
    assert len(group_of([1], config={"other": 1}).per_query)  # a run that doesn't say is allowed


@pytest.mark.large
@pytest.mark.parametrize("more", [{"answer": answer("beta")} | {"error": "late"}, {"answer": None}])
def test_an_answer_that_cannot_be_checked_leaves_consistency_unknown(group_of, more):
    found = group_of([1, 2], answers=more)
    assert found.per_query["answer_ok"].isna().all()
    assert np.isnan(found.groups["answer_consistency"].iloc[0])


@pytest.mark.large
def test_answers_of_a_group_are_consistent_only_if_all_are_right(group_of):
    assert group_of([1, 2], answers={"answer": answer("alpha")}).groups[
        "answer_consistency"
    ].tolist() == [1.0]
    assert group_of([1, 2], answers={"answer": answer("beta")}).groups[
        "answer_consistency"
    ].tolist() == [0.0]


def test_two_misses_are_a_fault_of_retrieval(group_of):
    with warned("r"):
        summary = group_of([None, None]).summary.iloc[0]
    assert (summary["n_retrieval"], summary["n_ranking"]) == (1, 0)


@pytest.fixture
def kinds(write_golden, write_run):
    """Two groups of three paraphrases each; the ranks of docX in one run, by kind."""
    ranks = {"plain": (1, 3), "typo": (25, 2), "keywords": (None, None)}
    golden, records = [], []
    for number in range(2):
        for kind, found in ranks.items():
            golden.append(
                {
                    "id": f"g{number}-{kind}",
                    "query": f"{kind}?",
                    "expected_doc_ids": ["docX"],
                    "group": f"g{number}",
                    "variant": kind,
                }
            )
            records.append(
                record(
                    f"g{number}-{kind}",
                    [hit("x", "docX", found[number])] if found[number] else [hit("p", "pad", 50)],
                )
            )
    return rs.load_results(write_run("r", records)), rs.load_golden(write_golden(golden))


def test_kinds_of_paraphrase_are_told_apart(kinds):
    table = paraphrases(*kinds).kinds.set_index("kind")
    assert table["n"].tolist() == [2, 2, 2]
    assert table["recall_narrow"].to_dict() == {"plain": 1, "typo": 0.5, "keywords": 0} and table[
        "recall_pool"
    ].to_dict() == {
        "plain": 1,
        "typo": 1,
        "keywords": 0,
    }
    assert table["recall_lost"].to_dict() == {"plain": 0, "typo": 0.5, "keywords": 1}
    assert (
        table[["n_ok", "n_misranked", "n_missing"]].sum(axis=1).tolist() == [2, 2, 2]
        and table.loc["typo", "n_misranked"] == 1
    )
    assert table["answer_ok"].isna().all()


def test_without_variants_there_is_one_kind(kinds):
    results, golden = kinds
    unnamed = replace(golden, queries=golden.queries.drop(columns="variant"))
    assert paraphrases(results, unnamed).kinds["kind"].tolist() == ["(none)"]


def test_each_paraphrase_shows_its_text(kinds):
    assert paraphrases(*kinds).per_query["query"].tolist()[:2] == ["plain?", "typo?"]


@pytest.mark.large
def test_a_shallow_pool_stays_visible_in_the_summary(group_of):
    with warned("r", 50):
        summary = group_of([1, None], deep=False).summary
    assert summary["pool_cut_short"].tolist() == [True]
    assert group_of([1, None]).summary["pool_cut_short"].tolist() == [False]


def test_documents_found_in_part_are_misranked_rather_than_missing(write_golden, write_run):
    golden = rs.load_golden(
        write_golden(
            [{"id": "v", "query": "?", "expected_doc_ids": ["d1", "d2", "d3"], "group": "g"}]
        )
    )
    found = paraphrases(
        rs.load_results(
            write_run(
                "r", [record("v", [hit("a", "d1", 1), hit("b", "d2", 30), hit("p", "pad", 50)])]
            )
        ),
        golden,
    )
    assert found.per_query["diagnosis"].tolist() == ["MisRanked"]
    assert found.per_query[["recall_narrow", "recall_pool"]].iloc[0].tolist() == pytest.approx(
        [1 / 3, 2 / 3]
    )


def test_a_paraphrase_that_expects_nothing_is_named_so(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([{"id": "v", "query": "?", "must_contain": ["a"], "group": "g"}])
    )
    found = paraphrases(
        rs.load_results(write_run("r", [record("v", [hit("p", "pad", 50)])])), golden
    )
    group = found.groups.iloc[0]
    assert (
        found.per_query["diagnosis"].tolist() == ["NoExpected"]
        and group["recall_spread"] == 0
        and np.isnan(group["worst_recall"])
    )


# F.4.7: published summaries, from ranks that give them


@pytest.fixture
def summary_of(write_golden, write_run):
    """The summary of one run, and its mean recall, from the ranks of docX in each group (None.

    Not found).
    """

    def summary(groups):
        golden, records = [], []
        for number, ranks in enumerate(groups):
            for variant, rank in enumerate(ranks):
                name = f"g{number}-{variant}"
                golden.append(
                    {"id": name, "query": "?", "expected_doc_ids": ["docX"], "group": f"g{number}"}
                )
                records.append(
                    record(name, [*([hit("x", "docX", rank)] if rank else []), hit("p", "pad", 50)])
                )
        found = paraphrases(
            rs.load_results(write_run("r", records)), rs.load_golden(write_golden(golden))
        )
        return found.summary.iloc[0], found.per_query

    return summary


def test_published_summary_of_24_groups(summary_of):
    groups = [[1] * 5 for _ in range(12)] + [[1] * 6 for _ in range(12)]
    groups[0][0] = groups[1][0] = 25
    summary, rows = summary_of(groups)
    assert (
        len(rows) == 132 and rows["recall_narrow"].sum() == 130 and rows["recall_pool"].sum() == 132
    )
    assert round(rows["recall_narrow"].mean(), 3) == 0.985
    # none is Missing
    assert rows["diagnosis"].astype("str").value_counts().to_dict() == {"Ok": 130, "MisRanked": 2}
    assert (
        summary["n_groups"],
        summary["n_consistent"],
        round(summary["mean_recall_spread"], 3),
    ) == (24, 22, 0.083)


@pytest.mark.large
@pytest.mark.parametrize(
    ("n_groups", "n_consistent", "spread"),
    [(24, 19, 0.208), (18, 14, 0.222), (18, 13, 0.278), (18, 16, 0.111)],
)
def test_published_spreads_are_the_share_of_groups_that_differ(
    summary_of, n_groups, n_consistent, spread
):
    summary, _ = summary_of([[1, 25]] * (n_groups - n_consistent) + [[1, 2]] * n_consistent)
    assert (summary["n_consistent"], round(summary["mean_recall_spread"], 3)) == (
        n_consistent,
        spread,
    )


@pytest.mark.large
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
    assert (
        found["hit_at_k"]["1"],
        found["hit_at_k"]["3"],
        found["hit_at_k"]["10"],
        found["mrr"],
    ) == (hit_1, 1, 1, mrr)
    assert (found["recall_at_k_doc"]["10"], found["empty_result_rate"]) == (1, 0)
