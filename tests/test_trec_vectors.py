"""The profile of trec_eval against trec_eval itself (pytrec_eval).

Ties, missing queries, queries without relevant documents.
"""

import pandas as pd
import pytest
import pytrec_eval
from trec_collections import ROBUST, as_dicts, needs

import ragscore as rs
from ragscore.scoring.profile_aggregates import aggregate
from ragscore.scoring.profiles import PROFILES

KS = PROFILES["trec"].ks
CUT = ",".join(map(str, KS))
PLAIN = ("map", "Rprec", "bpref", "recip_rank", "ndcg")
MEASURES = {
    *PLAIN,
    *(f"{name}.{CUT}" for name in ("P", "recall", "success", "ndcg_cut", "map_cut")),
}

QRELS = """\
q1 0 a 2
q1 0 b 1
q1 0 c 0
q1 0 z 1
q2 0 a 1
q3 0 a 1
q4 0 a 0
"""
# q1: b, c and x tie, so do a and y; q2: everything ties; q3 is not in the run; q4 has no relevant
# document; q5 no judgement.
RUN = """\
q1 Q0 x 1 5.0 r
q1 Q0 b 2 5.0 r
q1 Q0 c 3 5.0 r
q1 Q0 a 4 4.0 r
q1 Q0 y 5 4.0 r
q2 Q0 a 1 1.0 r
q2 Q0 b 2 1.0 r
q2 Q0 c 3 1.0 r
q4 Q0 a 1 1.0 r
q5 Q0 a 1 1.0 r
"""


def theirs(qrels, run):
    """trec_eval's means over every judged query, those that the run lacks counting 0 (-c)."""
    by_query = pd.DataFrame.from_dict(
        pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(run), orient="index"
    )
    means = by_query.reindex(list(qrels)).fillna(0).mean()
    return {name: means[name] for name in PLAIN} | {
        name: {str(k): means[f"{name}_{k}"] for k in KS}
        for name in ("P", "recall", "success", "ndcg_cut", "map_cut")
    }


def assert_equal(ours, expected):
    assert set(ours) == set(expected)
    for name, value in expected.items():
        assert ours[name] == pytest.approx(value, rel=0, abs=1e-9), name


@pytest.fixture
def small(tmp_path):
    (tmp_path / "qrels.txt").write_text(QRELS)
    (tmp_path / "run.txt").write_text(RUN)
    return rs.load_results(tmp_path / "run.txt", ties="trec"), rs.load_golden(
        tmp_path / "qrels.txt"
    )


def dicts(text, value, kind):
    found = {}
    for line in text.splitlines():
        fields = line.split()
        found.setdefault(fields[0], {})[fields[2]] = kind(fields[value])
    return found


@pytest.mark.filterwarnings("ignore:.*carry no expectation:UserWarning")
def test_a_run_with_ties_has_trec_evals_means(small):
    expected = theirs(dicts(QRELS, 3, int), dicts(RUN, 4, float))
    # by hand: equal scores go by document id, descending: x c b y a; c b a. q1: 1/3 and 2/5 over 3;
    # q2: 1/3; q3, q4: 0
    # it counts, as 0
    assert "q4" in pytrec_eval.RelevanceEvaluator(dicts(QRELS, 3, int), {"map"}).evaluate(
        dicts(RUN, 4, float)
    )
    assert expected["map"] == pytest.approx(((1 / 3 + 2 / 5) / 3 + 1 / 3) / 4)
    assert expected["recip_rank"] == pytest.approx((1 / 3 + 1 / 3) / 4)
    assert_equal(aggregate(*small, "trec")["r"], expected)


@pytest.mark.filterwarnings("ignore:.*carry no expectation:UserWarning")
def test_by_query_the_profile_scores_0_where_trec_eval_does(small):
    scores = rs.score(*small, ["map@1000:doc", "hit@5:doc"], profile="trec")
    assert (
        scores.loc[["q3", "q4"]].iloc[:, 3:].to_numpy().tolist() == [[0, 0], [0, 0]]
        and scores.loc["q5"].isna()["map@1000:doc"]
    )


@needs(ROBUST)
def test_a_robust_run_has_trec_evals_means():
    results = rs.load_results(str(ROBUST / "input.pircRBa1.gz"), ties="trec")
    golden = rs.load_golden(ROBUST / "robust03_qrels.txt.gz")
    (run_id,) = results.runs["run_id"]
    assert_equal(
        aggregate(results, golden, "trec")[run_id],
        theirs(as_dicts(golden.targets, "grade"), as_dicts(results.hits, "score")),
    )
