"""Ranking metrics against independent oracles, the table that describes them, gains of levels."""

import random

import ir_measures
import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from conftest import times

import ragscore as rs
from ragscore.scoring.metrics import TABLE
from tests.messages import refused, warned

DOCS = [f"d{n}" for n in range(8)]
K = (1, 3, 5, 10)


@pytest.fixture(params=range(times(1)))
def rankings(request):
    """Rankings of thirty queries without ties, some empty."""
    draw = random.Random(f"rankings {request.param}")
    return {f"q{n}": draw.sample(DOCS, draw.randint(0, len(DOCS))) for n in range(30)}


@pytest.fixture(params=range(times(1)))
def qrels(request):
    """Grades of some of the documents, each query with at least one that is relevant."""
    draw, known = random.Random(f"grades {request.param}"), [*DOCS, "never1", "never2"]
    judged = {f"q{n}": draw.sample(known, draw.randint(1, len(known))) for n in range(30)}
    return {
        query: {doc: draw.randint(place == 0, 3) for place, doc in enumerate(docs)}
        for query, docs in judged.items()
    }


def ours(rankings, qrels, labels, **policies):
    results, golden = rs.load_results(rankings, run_id="r"), rs.load_golden(qrels)
    return rs.score(results, golden, labels, match="doc", **policies)


def as_run(rankings):
    return {
        q: {d: float(len(docs) - n) for n, d in enumerate(docs)}
        for q, docs in rankings.items()
        if docs
    }


OTHERS = {
    "map": "map", "ndcg_linear": "ndcg", "rprec": "Rprec", "bpref": "bpref", "11pt_avg": "11pt_avg",
    "set_precision": "set_P", "set_recall": "set_recall", "set_f1": "set_F",
    "iprec@0": "iprec_at_recall_0.00", "iprec@0.3": "iprec_at_recall_0.30",
    "iprec@1": "iprec_at_recall_1.00",
}  # fmt: skip
AT_K = {"hit": "success", "recall": "recall", "precision": "P", "map": "map_cut",
        "ndcg_linear": "ndcg_cut"}  # fmt: skip
THEIRS = {f"{name}@{k}": f"{theirs}_{k}" for name, theirs in AT_K.items() for k in K}
THEIRS |= {"mrr": "recip_rank"} | OTHERS
MEASURES = {f"{theirs}.{','.join(map(str, K))}" for theirs in AT_K.values()}
MEASURES |= {"recip_rank", "iprec_at_recall"}
MEASURES |= {theirs for theirs in OTHERS.values() if not theirs.startswith("iprec")}


@pytest.mark.filterwarnings("ignore:ids of")
def test_measures_agree_with_pytrec_eval(rankings, qrels):
    exponential = [f"ndcg@{k}" for k in K]
    found = ours(rankings, qrels, [*THEIRS, *exponential])
    oracle = pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(as_run(rankings))
    # the exponential gain is the linear one of grades to the power of two
    worth = {q: {d: 2**grade - 1 for d, grade in grades.items()} for q, grades in qrels.items()}
    of_worth = pytrec_eval.RelevanceEvaluator(worth, {f"ndcg_cut.{','.join(map(str, K))}"})
    gained = of_worth.evaluate(as_run(rankings))
    for query_id, docs in rankings.items():
        expected = [oracle[query_id][theirs] if docs else 0.0 for theirs in THEIRS.values()]
        expected += [gained[query_id][f"ndcg_cut_{k}"] if docs else 0.0 for k in K]
        values = found.loc[query_id, [*THEIRS, *exponential]].astype(float)
        np.testing.assert_allclose(values, expected, 0, 1e-9)


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("hit@0", ["k", 1]), ("ndgc@5", ["ndcg@5"]), ("hit", ["hit@10"]), ("ERR", ["err@10"]),
        ("bpref@10", ["bpref"]), ("iprec", ["iprec@0.1"]), ("iprec@1.5", [0, 1]),
        ("hit@2.5", ["k", 1]), ("rbp(1)", ["0 < p < 1"]), ("rbp(.5,.6)", ["0 < p < 1"]),
        ("err(0)@5", [1]), ("hit(3)@5", ["hit"]),
        ("P(rel=2)@5", ["0"]), ("AP(judged_only=True)", ["judged"]),
        ("failed@3", ["failed"]), ("hit@k", ["hit@10"]),
        ("recall@5:page", [":chunk", ":span", ":anchor", ":doc", ":predicate"]),
        ("failed:doc", []), ("HITS@5", []),
    ],
)  # fmt: skip
def test_labels_that_name_no_metric_are_refused(label, allowed):
    with refused(label, *allowed):
        TABLE.parse(label)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("P_10", "precision@10"), ("P@10", "precision@10"), ("P.5", "precision@5"),
        ("recall_100", "recall@100"), ("R@100", "recall@100"), ("RR@10", "mrr@10"),
        ("RR", "mrr"), ("recip_rank", "mrr"), ("AP", "map"), ("AP@100", "map@100"),
        ("map_cut_10", "map@10"), ("ndcg_cut_10", "ndcg_linear@10"),
        ("nDCG@10", "ndcg@10"), ("NDCG@10", "ndcg@10"), ("ndcg_10", "ndcg@10"),
        ("nDCG.10", "ndcg@10"), ("nDCG", "ndcg"), ("Ndcg-Cut_5", "ndcg_linear@5"),
        ("nDCG(dcg='exp-log2')@10", "ndcg@10"), ("nDCG(dcg='log2')@10", "ndcg_linear@10"),
        ("Rprec", "rprec"), ("Bpref", "bpref"),
        ("success_5", "hit@5"), ("Success@5", "hit@5"), ("ERR@20", "err@20"),
        ("RBP(p=0.8)", "rbp"), ("RBP(p=0.95, rel=1)", "rbp(0.95)"), ("rbp(0.80)", "rbp"),
        ("SetP", "set_precision"), ("set_P", "set_precision"), ("SetR", "set_recall"),
        ("set_F", "set_f1"), ("IPrec@0.1", "iprec@0.1"), ("iprec_at_recall_0.10", "iprec@0.1"),
        ("err(4)@10", "err@10"), ("P_10:doc", "precision@10:doc"),
        ("rbp(0.9):chunk", "rbp(0.9):chunk"),
    ],
)  # fmt: skip
def test_names_of_other_tools_are_understood_and_printed_back_as_ours(theirs, ours):
    label = TABLE.parse(theirs)
    assert label.text == ours and TABLE.parse(ours) == label
    assert rs.metrics(theirs).name == ours


def test_the_metric_table_is_complete():
    table = rs.metrics()
    assert table["name"].is_unique and len(table) == len(TABLE)
    assert not (table[["name", "formula", "nan_when", "kind", "better", "range"]] == "").any().any()
    assert set(table["better"]) == {"higher", "lower", "not declared"} and set(table["kind"]) <= {
        "binary",
        "bounded",
        "time",
        "cost",
        "other",
    }
    assert "log2(rank + 1)" in repr(rs.metrics("ndcg@5"))
    assert repr(rs.metrics("mrr")).startswith("mrr\n")


def test_ndcg_asked_for_by_name_on_graded_labels_tells_of_the_linear_one_once():
    asked = {"q": ["d1", "d2"]}, {"q": {"d1": 1, "d2": 2}}
    with warned("trec_eval", "ndcg_linear") as caught:
        ours(*asked, ["ndcg@10", "nDCG@5", "ndcg"])
    assert len(caught) == 1
    # who names both or states the gain, or has binary labels, knows what is meant
    ours(*asked, ["ndcg@10", "ndcg_linear@10"])
    ours(*asked, ["nDCG(dcg='exp-log2')@10", "mrr"])
    ours(*asked, None)
    ours({"q": ["d1"]}, {"q": {"d1": 1}}, ["ndcg@10"])


@pytest.mark.filterwarnings("ignore:ids of r do not join:UserWarning")
def test_measures_agree_with_ir_measures(rankings, qrels):
    # Measures, not names: the parser of names needs what Python 3.14 no longer has.
    measures = {
        "mrr@3": ir_measures.RR @ 3, "judged@5": ir_measures.Judged @ 5,
        "recall@3": ir_measures.R @ 3, "ndcg_linear@5": ir_measures.nDCG @ 5,
        "map": ir_measures.AP, "ndcg_linear": ir_measures.nDCG, "rprec": ir_measures.Rprec,
        "bpref": ir_measures.Bpref, "set_precision": ir_measures.SetP,
        "set_recall": ir_measures.SetR, "set_f1": ir_measures.SetF,
        "iprec@0.1": ir_measures.IPrec @ 0.1,
    }  # fmt: skip
    labels = {str(measure): label for label, measure in measures.items()}
    found = ours(rankings, qrels, list(measures))
    # its Judged divides by zero for an empty list
    answered = {query_id: docs for query_id, docs in rankings.items() if docs}
    for one in ir_measures.iter_calc(list(measures.values()), qrels, as_run(answered)):
        label = labels[str(one.measure)]
        if label == "judged@5" and one.query_id not in answered:
            assert np.isnan(found.loc[one.query_id, label])
        else:
            assert found.loc[one.query_id, label] == pytest.approx(one.value, abs=1e-9)


@pytest.mark.filterwarnings("ignore:ids of r do not join:UserWarning")
def test_rank_biased_precision_and_expected_reciprocal_rank_are_their_sums(rankings, qrels):
    labels = ["rbp(0.5)", "rbp(0.95)", "err@3", "err(3)@10"]
    found = ours(rankings, qrels, labels)[labels]
    for query_id, docs in rankings.items():
        grades = [qrels[query_id].get(doc, 0) for doc in docs]
        places = np.flatnonzero(grades)

        def err(k, highest, grades=grades):
            goes_on, total = 1.0, 0.0
            for rank, grade in enumerate(grades[:k], 1):
                stops = (2**grade - 1) / 2**highest
                total, goes_on = total + goes_on * stops / rank, goes_on * (1 - stops)
            return total

        rbp = [(1 - p) * sum(p**places) for p in (0.5, 0.95)]
        expected = [*rbp, err(3, 4), err(10, 3)]
        np.testing.assert_allclose(found.loc[query_id], expected, rtol=0, atol=1e-12)


def test_err_agrees_with_trecs_gdeval():
    rankings = {"1": DOCS, "2": DOCS[::-1], "3": DOCS[2:5]}
    qrels = {"1": {"d1": 2, "d4": 1, "d7": 3}, "2": {"d0": 1, "d5": 4}, "3": {"d3": 1, "d9": 2}}
    found = ours(rankings, qrels, ["ERR@5"])
    theirs = list(ir_measures.iter_calc([ir_measures.ERR @ 5], qrels, as_run(rankings)))
    assert len(theirs) == 3
    for one in theirs:  # it prints five decimals
        assert found.loc[one.query_id, "err@5"] == pytest.approx(one.value, abs=5.1e-6)


def test_a_grade_above_the_highest_of_err_is_refused_with_the_label_that_takes_it():
    with refused(5, "@3", field="err@3"):
        ours({"q": ["d1"]}, {"q": {"d1": 5}}, ["err@3"])


def test_bpref_of_a_golden_set_that_judges_nothing_as_irrelevant_is_unknown():
    rankings, qrels = {"q": ["x", "d1"]}, {"q": {"d1": 1, "d2": 1}}
    labels = ["bpref", "bpref:doc"]
    assert ours(rankings, qrels, labels)[labels].isna().all(axis=None)
    # the profile of trec_eval keeps its value, which is recall
    results, golden = rs.load_results(rankings), rs.load_golden(qrels)
    assert rs.score(results, golden, "bpref", profile="trec")["bpref"].tolist() == [0.5]
    ev = rs.evaluate(results, golden, ["bpref", "hit@1"])
    assert ev.explain("bpref")["state"].tolist() == ["not_applicable"]
    assert ev.summary().set_index("metric")["n_expected"].to_dict() == {"bpref": 0, "hit@1": 1}
    supported = rs.supported_metrics(golden, results).set_index("metric")["supported"]
    assert not supported["bpref"] and supported["map"]


def test_a_document_found_in_three_passages_earns_no_more_than_one():
    labels = ["map", "rprec", "bpref", "set_f1", "11pt_avg", "err@5", "rbp"]
    found = ours({"q": ["d1", "d2", "d2", "d2", "d1"]}, {"q": {"d1": 1, "d2": 0}}, labels)
    assert found[labels].gt(0).all(axis=None) and found[labels].le(1).all(axis=None)


def test_a_phase_of_the_time_is_a_metric_that_is_asked_for_by_name():
    results, name = rs.load_results({"q": ["a"], "r": ["a"]}), "latency_rerank_ms"
    results.responses[name] = [5.0, None]
    ev = rs.evaluate(results, {"q": ["a"], "r": ["a"]}, [name, "latency_search_ms"])
    means = ev.summary().set_index("metric")[["p50", "n", "n_expected"]].fillna(-1)
    assert means.to_numpy().tolist() == [[5, 1, 2], [-1, 0, 0]]
    assert rs.metrics(name).better == "lower"


# Gains: levels of another scale with a worth each

ESCI = {"E": 1, "S": 0.1, "C": 0.01, "I": 0}
LEVELS = {"E": 3, "S": 2, "C": 1, "I": 0}


@pytest.fixture(scope="module")
def judged():
    rng = np.random.default_rng(0)
    rows = [
        (f"q{q}", f"d{d}", str(rng.choice(list(ESCI))))
        for q in range(30)
        for d in rng.choice(60, 20, replace=False)
    ]
    run = {
        f"q{q}": {f"d{d}": float(rng.random()) for d in rng.choice(60, 30, replace=False)}
        for q in range(30)
    }
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "esci"]), run


def graded(table):
    """Return the labels as a golden set: fractions are gains, and that is said."""
    with warned("0.01"):
        return rs.load_golden(table.assign(grade=table["esci"].map(ESCI)).drop(columns="esci"))


def test_ndcg_by_gains_is_that_of_ir_measures(judged):
    table, run = judged
    ev = rs.evaluate(run, graded(table), ["ndcg@10", "ndcg_linear@10", "ndcg"])
    qrels = [ir_measures.Qrel(q, d, LEVELS[e]) for q, d, e in table.itertuples(index=False)]
    hits = [ir_measures.ScoredDoc(q, d, s) for q, docs in run.items() for d, s in docs.items()]
    whole = {3: 100, 2: 10, 1: 1, 0: 0}  # its provider takes whole numbers alone
    for measure, label in (
        (ir_measures.nDCG(gains=whole) @ 10, "ndcg@10"),
        (ir_measures.nDCG(gains=whole) @ 10, "ndcg_linear@10"),
        (ir_measures.nDCG(gains=whole), "ndcg"),
    ):
        theirs = {one.query_id: one.value for one in ir_measures.iter_calc([measure], qrels, hits)}
        differences = (ev.scores[label] - pd.Series(theirs)).abs()
        assert differences.max() < 1e-9 and differences.notna().all()


@pytest.mark.parametrize("middle", [0.5, 0.2])
def test_gains_are_fractions_that_are_graded_or_a_column_beside_whole_grades(middle):
    with warned(str(middle)):
        fractions = rs.load_golden({"q": {"a": 1.0, "b": middle, "c": 0.0}})
    assert fractions.targets["grade"].tolist() == [2, 1, 0]
    assert fractions.targets["gain"].tolist() == [1.0, middle, 0.0]
    whole = rs.load_golden({"q": {"a": 3, "b": 1, "c": 0}})
    whole.targets["gain"] = whole.targets["grade"].map({0: 0.0, 1: middle, 3: 1.0})
    by_hand = (middle / np.log2(3) + 1 / 2) / (1 + middle / np.log2(3))
    for golden in (fractions, whole):
        ev = rs.evaluate({"q": ["c", "b", "a"]}, golden, "ndcg@3")
        assert ev.scores["ndcg@3"].tolist() == [pytest.approx(by_hand)]


def test_gains_come_back_from_our_file(judged, tmp_path):
    golden = graded(judged[0])
    names = ["query_id", "doc_id", "grade", "gain"]
    found, back = (
        one.targets[names].sort_values(names[:2], ignore_index=True)
        for one in (golden, rs.load_golden(golden.save(tmp_path / "golden.yaml")))
    )
    assert found.drop_duplicates(["grade", "gain"]).shape[0] == 4
    pd.testing.assert_frame_equal(found, back)


def test_a_grade_with_two_gains_is_refused():
    with warned("0.5"):
        golden = rs.load_golden({"q": {"a": 1.0, "b": 0.5}, "r": {"c": 1.0}})
    golden = rs.Golden(golden.queries, targets=golden.targets.assign(gain=[1.0, 0.5, 0.7]))
    with refused("gains", 0.7, field="golden.targets.gain"):
        rs.evaluate({"q": ["a"], "r": ["c"]}, golden, "ndcg@3")
