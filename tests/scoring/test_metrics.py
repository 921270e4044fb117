"""Ranking metrics against two independent oracles, and the table that describes them."""

import ir_measures
import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.scoring.metrics import DEFAULT_METRICS, HEADLINE, TABLE, parse_label

DOCS = [f"d{n}" for n in range(8)]
K = (1, 3, 5, 10)
RANKINGS = st.lists(st.permutations(DOCS), min_size=1, max_size=4)
GRADES = st.dictionaries(
    st.sampled_from([*DOCS, "never1", "never2"]), st.integers(0, 3), min_size=1
)


@st.composite
def runs_and_qrels(draw):
    """Rankings without ties (some empty) and graded gold with at least one relevant document a
    query.
    """
    rankings = [one[: draw(st.integers(0, len(DOCS)))] for one in draw(RANKINGS)]
    qrels = [draw(GRADES.filter(lambda grades: max(grades.values()) > 0)) for _ in rankings]
    return {f"q{n}": one for n, one in enumerate(rankings)}, {
        f"q{n}": one for n, one in enumerate(qrels)
    }


def ours(rankings, qrels, labels):
    hits = from_records(
        [
            {"run_id": "r", "query_id": q, "rank": rank, "doc_id": d}
            for q, docs in rankings.items()
            for rank, d in enumerate(docs, 1)
        ],
        "hits",
    )
    targets = [
        {"query_id": q, "level": "doc", "target_id": d, "doc_id": d, "alternative": 0, "grade": g}
        for q, grades in qrels.items()
        for d, g in grades.items()
    ]
    queries = from_records(
        [
            {"query_id": q, "query": "?", "answerable": True, "position": n}
            for n, q in enumerate(qrels)
        ],
        "queries",
    )
    golden = rs.Golden(queries=queries, targets=from_records(targets, "targets"))
    responses = from_records(
        [{"run_id": "r", "query_id": q, "query": "?", "error": None} for q in rankings], "responses"
    )
    return rs.score(
        rs.Results(runs=from_records([{"run_id": "r"}], "runs"), responses=responses, hits=hits),
        golden,
        labels,
        match="doc",
    )


def as_run(rankings):
    return {
        q: {d: float(len(docs) - n) for n, d in enumerate(docs)} for q, docs in rankings.items()
    }


@pytest.mark.filterwarnings("ignore:ids of")
@given(runs_and_qrels())
@settings(max_examples=150, deadline=None)
def test_six_metrics_agree_with_pytrec_eval(data):
    rankings, qrels = data
    names = {
        "hit": "success",
        "recall": "recall",
        "precision": "P",
        "map": "map_cut",
        "ndcg_linear": "ndcg_cut",
    }
    found = ours(rankings, qrels, [f"{name}@{k}" for name in names for k in K] + ["mrr"])
    oracle = pytrec_eval.RelevanceEvaluator(
        qrels, {f"{name}.{','.join(map(str, K))}" for name in names.values()} | {"recip_rank"}
    ).evaluate(as_run(rankings))
    for query_id, docs in rankings.items():
        for name, theirs in names.items():
            for k in K:
                expected = oracle[query_id][f"{theirs}_{k}"] if docs else 0.0
                assert found.loc[query_id, f"{name}@{k}"] == pytest.approx(expected, abs=1e-9)
        assert found.loc[query_id, "mrr"] == pytest.approx(
            oracle[query_id]["recip_rank"] if docs else 0.0, abs=1e-9
        )


@pytest.mark.filterwarnings("ignore:ids of")
@given(runs_and_qrels())
@settings(max_examples=60, deadline=None)
def test_exponential_ndcg_is_the_linear_one_of_grades_to_the_power_of_two(data):
    rankings, qrels = data
    found = ours(rankings, qrels, [f"{name}@{k}" for name in ("ndcg", "ndcg_linear") for k in K])
    worth = {q: {d: 2**grade - 1 for d, grade in grades.items()} for q, grades in qrels.items()}
    oracle = pytrec_eval.RelevanceEvaluator(worth, {f"ndcg_cut.{','.join(map(str, K))}"}).evaluate(
        as_run(rankings)
    )
    for query_id, docs in rankings.items():
        for k in K:
            assert found.loc[query_id, f"ndcg@{k}"] == pytest.approx(
                oracle[query_id][f"ndcg_cut_{k}"] if docs else 0.0, abs=1e-9
            )


@pytest.mark.filterwarnings("ignore:ids of")
@given(runs_and_qrels())
@settings(max_examples=60, deadline=None)
def test_cut_reciprocal_rank_and_judged_agree_with_ir_measures(data):
    rankings, qrels = data
    found = ours(rankings, qrels, ["mrr@3", "judged@5", "recall@3", "ndcg_linear@5"])
    measures = {
        "mrr@3": ir_measures.RR @ 3,
        "judged@5": ir_measures.Judged @ 5,
        "recall@3": ir_measures.R @ 3,
        "ndcg_linear@5": ir_measures.nDCG @ 5,
    }
    # its Judged divides by zero for an empty list
    answered = {query_id: docs for query_id, docs in rankings.items() if docs}
    oracle = {
        (one.query_id, str(one.measure)): one.value
        for one in ir_measures.iter_calc(list(measures.values()), qrels, as_run(answered))
    }
    for query_id, docs in rankings.items():
        for label, measure in measures.items():
            if docs or label != "judged@5":  # judged@k of nothing is 0 there and NaN here
                assert found.loc[query_id, label] == pytest.approx(
                    oracle[query_id, str(measure)], abs=1e-9
                )
    assert found.loc[[q for q, docs in rankings.items() if not docs], "judged@5"].isna().all()


def test_hand_worked_values():
    # hits x d1 y d2, gold d1 d2: precision 1/2 at 4, AP (1/2 + 2/4) / 2; grades 3 2 1 found in
    # order 3 _ 1
    found = ours(
        {"q": ["x", "d1", "y", "d2"], "g": ["d3", "x", "d1"]},
        {"q": {"d1": 1, "d2": 1}, "g": {"d1": 3, "d2": 2, "d3": 1}},
        ["precision@4", "map@4", "ndcg@3", "ndcg_linear@3"],
    )
    assert found.loc["q", ["precision@4", "map@4"]].tolist() == [0.5, 0.5]
    assert found.loc["g", "ndcg@3"] == pytest.approx(0.479091, abs=1e-6)
    assert found.loc["g", "ndcg_linear@3"] == pytest.approx(0.525005, abs=1e-6)


@pytest.mark.filterwarnings("ignore:ids of")
def test_no_target_is_nan_and_no_hit_is_zero():
    found = ours(
        {"a": [], "b": ["x"]},
        {"a": {"d": 1}, "b": {"d": 0}},
        ["hit@1", "recall@1", "ndcg@1", "mrr", "judged@1"],
    )
    assert found.loc["a", ["hit@1", "recall@1", "ndcg@1", "mrr"]].tolist() == [0, 0, 0, 0]
    assert found.loc["b"].drop(["run_id", "state", "level"]).isna().all()


@pytest.mark.filterwarnings("ignore:ids of")
@given(runs_and_qrels(), st.permutations(DOCS))
@settings(max_examples=40, deadline=None)
def test_another_query_changes_nothing_for_the_others(data, more):
    rankings, qrels = data
    labels = ["hit@3", "recall@5", "map@10", "ndcg_linear@10", "ndcg@10", "mrr"]
    alone, together = (
        ours(rankings, qrels, labels),
        ours({**rankings, "new": more}, {**qrels, "new": {"d1": 2}}, labels),
    )
    pd.testing.assert_frame_equal(
        together.loc[list(rankings), labels], alone[labels], check_exact=True
    )


def test_columns_come_in_the_order_of_the_table():
    assert DEFAULT_METRICS[:4] == ["hit@1", "hit@3", "hit@5", "hit@10"]
    assert DEFAULT_METRICS.index("recall@5") < DEFAULT_METRICS.index("recall@10")
    assert set(HEADLINE) <= set(DEFAULT_METRICS)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("hit@0", "a cut-off k of at least 1"),
        ("ndgc@5", "unknown metric 'ndgc@5'; did you mean ndcg@5"),
        ("hit", "unknown metric 'hit'; a cut-off, as in hit@10"),
        ("ERR", "unknown metric 'ERR'; a cut-off, as in err@10"),
        ("bpref@10", "bpref without a cut-off"), ("iprec", "a recall level, as in iprec@0.1"),
        ("iprec@1.5", "a recall level from 0 to 1"), ("hit@2.5", "a cut-off k of at least 1"),
        ("rbp(1)", "0 < p < 1"), ("err(0)@5", "a whole number from 1"),
        ("hit(3)@5", "no parameter of hit"), ("P(rel=2)@5", "the policy min_grade"),
        ("AP(judged_only=True)", "the policy judged_only, which holds for every metric"),
        ("failed@3", "unknown metric 'failed@3'; failed without a cut-off"),
        ("hit@k", "unknown metric 'hit@k'; a cut-off, as in hit@10"),
        ("recall@5:page", "followed by one of :chunk, :span, :anchor, :doc, :predicate"),
        ("failed:doc", "a ranking metric followed by"), ("HIT@5", "unknown metric"),
    ],
)  # fmt: skip
def test_labels_that_name_no_metric_are_refused(label, message):
    with pytest.raises(rs.DataError, match=message):
        parse_label(label)


def test_labels_come_apart():
    label = parse_label("recall@5:doc")
    assert (label.name, label.k, label.level, label.metric.name) == ("recall", 5, "doc", "recall@k")
    assert parse_label("mrr").metric.name == "mrr" and parse_label("mrr@3").metric.name == "mrr@k"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("P_10", "precision@10"), ("P@10", "precision@10"), ("P.5", "precision@5"),
        ("recall_100", "recall@100"), ("R@100", "recall@100"), ("RR@10", "mrr@10"),
        ("RR", "mrr"), ("recip_rank", "mrr"), ("AP", "map"), ("AP@100", "map@100"),
        ("map_cut_10", "map@10"), ("ndcg_cut_10", "ndcg_linear@10"),
        ("nDCG@10", "ndcg_linear@10"), ("nDCG", "ndcg_linear"),
        ("nDCG(dcg='exp-log2')@10", "ndcg@10"), ("Rprec", "rprec"), ("Bpref", "bpref"),
        ("success_5", "hit@5"), ("Success@5", "hit@5"), ("ERR@20", "err@20"),
        ("RBP(p=0.8)", "rbp"), ("RBP(p=0.95, rel=1)", "rbp(0.95)"), ("rbp(0.80)", "rbp"),
        ("SetP", "set_precision"), ("set_P", "set_precision"), ("SetR", "set_recall"),
        ("set_F", "set_f1"), ("IPrec@0.1", "iprec@0.1"), ("iprec_at_recall_0.10", "iprec@0.1"),
        ("err(4)@10", "err@10"), ("P_10:doc", "precision@10:doc"),
        ("rbp(0.9):chunk", "rbp(0.9):chunk"),
    ],
)  # fmt: skip
def test_names_of_other_tools_are_understood_and_printed_back_as_ours(theirs, ours):
    label = parse_label(theirs)
    assert label.text == ours and parse_label(ours) == label
    assert rs.metrics(theirs).splitlines()[0] == ours


def test_the_metric_table_is_complete():
    table = rs.metrics()
    assert table["name"].is_unique and len(table) == len(TABLE)
    assert not (table[["name", "formula", "nan_when", "kind", "better", "range"]] == "").any().any()
    assert set(table["better"]) == {"higher", "lower"} and set(table["kind"]) <= {
        "binary",
        "bounded",
        "time",
        "cost",
        "other",
    }
    assert "log2(rank + 1)" in rs.metrics("ndcg@5") and repr(rs.metrics("mrr")).startswith("mrr\n")


def test_values_keep_full_precision():
    third = ours({"q": ["x", "y", "d1"]}, {"q": {"d1": 1}}, ["mrr"])["mrr"].iloc[0]
    assert third == 1 / 3 and isinstance(third, np.float64)


@pytest.mark.parametrize("collapse", ["none", "doc"])
def test_hits_of_a_query_without_a_response_earn_nothing(write_golden, collapse):
    golden = rs.load_golden(
        write_golden(
            [
                {
                    "id": "q1",
                    "query": "?",
                    "expected_doc_ids": ["d"],
                    "required_support_groups": [["d"]],
                }
            ]
        )
    )
    hits = pd.DataFrame({"run_id": ["r"], "query_id": ["q1"], "rank": [1], "doc_id": ["d"]})
    responses = pd.DataFrame(
        {"run_id": ["r"], "query_id": ["other"], "query": ["?"], "error": [None]}
    )
    results = rs.Results(runs=pd.DataFrame({"run_id": ["r"]}), responses=responses, hits=hits)
    labels = ["hit@1", "recall@1", "recall_all@1", "mrr", "judged@1", "passed"]
    row = rs.score(results, golden, labels, missing="zero", collapse=collapse).loc["q1", labels]
    # 0 of 0 hits: not infinite
    assert row.drop("judged@1").eq(0).all() and np.isnan(row["judged@1"])


def test_ndcg_asked_for_by_name_on_graded_labels_tells_of_the_linear_one_once():
    asked = {"q": ["d1", "d2"]}, {"q": {"d1": 1, "d2": 2}}
    with pytest.warns(UserWarning, match="the nDCG of trec_eval .* ndcg_linear") as caught:
        ours(*asked, ["ndcg@10", "ndcg@5", "ndcg"])
    assert len(caught) == 1
    # who names both, asks by another tool's name or has binary labels knows what is meant
    ours(*asked, ["ndcg@10", "ndcg_linear@10"])
    ours(*asked, ["nDCG@10", "mrr"])
    ours(*asked, None)
    ours({"q": ["d1"]}, {"q": {"d1": 1}}, ["ndcg@10"])
