"""SEEDS F.4: paraphrase groups."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import answer, hit, record

from ragscore.analysis.aggregates import aggregate
from tests.compared import extra
from tests.messages import refused, warned

paraphrases = extra("paraphrases")
PAD = hit("p", "pad", 50)


@pytest.fixture
def groups_of(loaded):
    """Load groups, each {kind: rank of docX, or None where not found}."""

    def load(*groups, deep=True, more=None, **described):
        cells = [
            (f"g{number}", kind, [hit("x", "docX", rank) if rank else hit("o", "other", 1), PAD])
            for number, ranks in enumerate(groups) for kind, rank in ranks.items()
        ]  # fmt: skip
        asked = {"query": "?", "expected_doc_ids": ["docX"], "must_contain": ["alpha"]}
        rows = [
            asked | {"id": f"{group}-{kind}", "group": group, "variant": str(kind)}
            for group, kind, _ in cells
        ]
        records = [
            record(row["id"], found[: 1 + deep], **(more or {}))
            for row, (*_, found) in zip(rows, cells, strict=True)
        ]
        return loaded(rows, {"r": records}, **described)

    return load


def of_ranks(*ranks):
    return dict(enumerate(ranks))


def test_ok_misranked_and_missing(groups_of):
    found = paraphrases(*groups_of(of_ranks(3, 25, None), of_ranks(1, 2)))
    assert found.per_query["diagnosis"].tolist()[:3] == ["Ok", "MisRanked", "Missing"]
    names = ["recall_spread", "worst_recall", "n_misranked", "n_missing", "dominant"]
    assert found.groups[names].iloc[0].tolist() == [1, 0, 1, 1, "ranking"]  # of a tie
    names = ["n_consistent", "mean_recall_spread", "share_consistent"]
    assert found.summary[names].iloc[0].tolist() == [1, 0.5, 0.5]


@pytest.mark.parametrize(
    ("row", "hits", "diagnosis"),
    [
        ({"expected_doc_ids": ["docX"]}, [], []),  # in no group
        ({"must_contain": ["a"], "group": "g"}, [PAD], ["NoExpected"]),
        # found in part: misranked rather than missing
        ({"expected_doc_ids": ["d1", "d2", "d3"], "group": "g"},
         [hit("a", "d1", 1), hit("b", "d2", 30), PAD], ["MisRanked"]),
    ],
)  # fmt: skip
def test_a_query_without_group_or_targets_and_one_found_in_part(loaded, row, hits, diagnosis):
    found = paraphrases(*loaded([{"id": "v", "query": "?"} | row], {"r": [record("v", hits)]}))
    assert found.per_query["diagnosis"].tolist() == diagnosis
    assert len(found.groups) == len(found.summary) == len(diagnosis)
    if diagnosis == ["NoExpected"]:
        assert found.groups["recall_spread"][0] == 0 and np.isnan(found.groups["worst_recall"][0])
    if diagnosis == ["MisRanked"]:
        recalls = found.per_query[["recall_narrow", "recall_pool"]].iloc[0].tolist()
        assert recalls == pytest.approx([1 / 3, 2 / 3])


def test_a_shallow_pool_is_said_and_its_misses_are_a_fault_of_retrieval(groups_of):
    with warned("r", 50):
        found = paraphrases(*groups_of(of_ranks(1, None), deep=False))
    group, summary = found.groups.iloc[0], found.summary.iloc[0]
    assert group[["n_misranked", "n_missing", "dominant"]].tolist() == [0, 1, "retrieval"]
    assert summary[["n_retrieval", "n_ranking", "pool_cut_short"]].tolist() == [1, 0, True]
    assert not paraphrases(*groups_of(of_ranks(1, None))).summary["pool_cut_short"].any()


def test_a_run_of_smaller_k_is_refused(groups_of):
    of = groups_of(of_ranks(1), config={"eval_k": 10})
    with refused("r", 10, 50, field="pool"):
        paraphrases(*of, pool=50)
    assert paraphrases(*of).pool == 10  # by default, what the run kept
    of = groups_of(of_ranks(1), config={"other": 1})
    assert len(paraphrases(*of).per_query)  # a run that doesn't say is allowed


@pytest.mark.parametrize(
    ("more", "consistency"),
    [
        ({"answer": answer("alpha")}, 1), ({"answer": answer("beta")}, 0),
        # answers that cannot be checked
        ({"answer": answer("beta"), "error": "late"}, np.nan), ({"answer": None}, np.nan),
    ],
)  # fmt: skip
def test_answers_of_a_group_are_consistent_only_if_all_are_right(groups_of, more, consistency):
    found = paraphrases(*groups_of(of_ranks(1, 2), more=more))
    assert found.groups["answer_consistency"].tolist() == pytest.approx([consistency], nan_ok=True)
    assert found.per_query["answer_ok"].isna().all() == np.isnan(consistency)


def test_kinds_of_paraphrase_are_told_apart(groups_of):
    results, golden = groups_of(
        {"plain": 1, "typo": 25, "keywords": None}, {"plain": 3, "typo": 2, "keywords": None}
    )
    table = paraphrases(results, golden).kinds.set_index("kind")
    columns = ["n", "recall_narrow", "recall_pool", "recall_lost", "n_ok", "n_misranked",
               "n_missing"]  # fmt: skip
    assert table[columns].T.to_dict("list") == {
        "plain": [2, 1, 1, 0, 2, 0, 0],
        "typo": [2, 0.5, 1, 0.5, 1, 1, 0],
        "keywords": [2, 0, 0, 1, 0, 0, 2],
    }
    assert table["answer_ok"].isna().all()
    unnamed = replace(golden, queries=golden.queries.drop(columns="variant"))
    assert paraphrases(results, unnamed).kinds["kind"].tolist() == ["(none)"]


# F.4.7: published summaries, from ranks that give them


def test_published_summary_of_24_groups(groups_of):
    ranks = [[25, *[1] * 4]] * 2 + [[1] * 5] * 10 + [[1] * 6] * 12
    found = paraphrases(*groups_of(*(of_ranks(*one) for one in ranks)))
    rows, summary = found.per_query, found.summary.iloc[0]
    assert (len(rows), rows["recall_narrow"].sum(), rows["recall_pool"].sum()) == (132, 130, 132)
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
    ranks = [of_ranks(1, 25)] * (n_groups - n_consistent) + [of_ranks(1, 2)] * n_consistent
    summary = paraphrases(*groups_of(*ranks)).summary.iloc[0]
    assert summary["n_consistent"] == n_consistent
    assert round(summary["mean_recall_spread"], 3) == spread


@pytest.mark.parametrize(
    ("ranks", "hit_1", "mrr"), [([1] * 7 + [2, 2, 3], 0.7, 0.8333), ([1] * 4 + [2] * 6, 0.4, 0.7)]
)
def test_published_baseline_of_ten_questions(loaded, ranks, hit_1, mrr):
    rows = [
        {"id": f"q{n}", "query": "?", "expected_doc_ids": ["docX"], "expected_chunk_ids": ["x"]}
        for n in range(len(ranks))
    ]
    records = [record(f"q{n}", [hit("x", "docX", rank)]) for n, rank in enumerate(ranks)]
    found = aggregate(*loaded(rows, {"r": records}), "kebab")["r"]
    assert [found["hit_at_k"][k] for k in ("1", "3", "10")] == [hit_1, 1, 1]
    assert found["mrr"] == mrr
    assert (found["recall_at_k_doc"]["10"], found["empty_result_rate"]) == (1, 0)
