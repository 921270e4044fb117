"""Grades of other scales: levels with a gain each, by which nDCG goes."""

import ir_measures
import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused, warned

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
