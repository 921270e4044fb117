"""The profile of trec_eval against trec_eval itself (pytrec_eval).

Ties, missing queries, queries without relevant documents.
"""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from conftest import EXAMPLES
from trec_collections import ROBUST, as_dicts, needs

import ragscore as rs
from ragscore.analysis.aggregates import aggregate
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.readings import HARNESSES
from tests.messages import warned

KS = HARNESSES["trec"].ks
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


GRADED_RUN = {"q": {"b": 9.0, "x": 8.0, "a": 7.0}}
GRADED = {"q": {"a": 3, "b": 1, "x": 0}}


def test_ndcg_means_the_same_under_every_profile_and_the_profile_says_which_is_trec_evals():
    theirs = pytrec_eval.RelevanceEvaluator(GRADED, {"ndcg"}).evaluate(GRADED_RUN)["q"]["ndcg"]
    with warned("ndcg", "trec_eval", "ndcg_linear"):
        under = rs.evaluate(GRADED_RUN, GRADED, ["ndcg"], profile="trec").scores["ndcg"]
    # by hand: gains 1 and 7 (2^3 − 1) at ranks 1 and 3, against 7 and 1 at ranks 1 and 2
    assert under.tolist() == pytest.approx([(1 + 7 / 2) / (7 + 1 / np.log2(3))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ev = rs.evaluate(GRADED_RUN, GRADED, ["ndcg", "ndcg_linear"], profile="trec")
        rig = rs.evaluate(GRADED_RUN, GRADED, ["ndcg@10"], profile="rig")  # its own nDCG
    assert ev.scores["ndcg"].tolist() == under.tolist()
    assert ev.scores["ndcg_linear"].tolist() == pytest.approx([theirs])
    assert rig.scores["ndcg@10"].tolist() == pytest.approx(under.tolist())
    assert aggregate(ev.results, ev.golden, "trec")["run"]["ndcg"] == pytest.approx(theirs)


@needs(ROBUST)
def test_a_robust_run_has_trec_evals_means():
    results = rs.load_results(str(ROBUST / "input.pircRBa1.gz"), ties="trec")
    golden = rs.load_golden(ROBUST / "robust03_qrels.txt.gz")
    (run_id,) = results.runs["run_id"]
    assert_equal(
        aggregate(results, golden, "trec")[run_id],
        theirs(as_dicts(golden.targets, "grade"), as_dicts(results.hits, "score")),
    )


# Random files: each judgement file with some runs, every pair scored in three ways

N_QRELS, N_RUNS = -(-EXAMPLES // 3), 4
RECALLS = [f"iprec_at_recall_{level / 10:.2f}" for level in range(11)]
AT = (1, 2, 5, 10)
SINGLE = ("map", "Rprec", "bpref", "recip_rank", "11pt_avg", "set_P", "set_recall", "set_F")
CUTS = [f"{name}_{k}" for name in ("P", "recall", "success", "map_cut", "ndcg_cut") for k in AT]
ASKED = [*SINGLE, *RECALLS, *CUTS, "ndcg_linear"]  # "ndcg" would be our own
WAYS = ("plain", "-l 2", "-J")
DOCS = np.array([f"d{n}" for n in range(18)] + ["D1", "é", "10", "9", "Z-1", "#x"])


def random_qrels(rng):
    qrels = {
        f"q{n}": {
            str(doc): int(rng.choice([-1, 0, 0, 1, 1, 2, 3]))
            for doc in rng.choice(DOCS, rng.integers(1, 15), replace=False)
        }
        for n in rng.permutation(8)[: rng.integers(1, 5)]
    }
    # trec_eval counts on memory that it never set where a query has only negative grades
    return {
        query: grades if max(grades.values()) >= 0 else grades | {"d0": 0}
        for query, grades in qrels.items()
    }


def random_run(queries, rng):
    """A ranking per query; sometimes queries are missing, and one is there that nobody judged."""
    if rng.random() < 0.4:
        queries = [query for query in queries if rng.random() < 0.6] or queries[:1]
        queries.append("q9")
    return {
        query: {
            str(doc): float(rng.choice([0.5, 1.0, 1.00000001, 2.0, -3.0, 1e-30, 7.25]))
            for doc in rng.choice(DOCS, rng.integers(1, 20), replace=False)
        }
        for query in queries
    }


def as_written(rows, rng):
    """Return lines in any order, with any white space, blank lines and comments among them."""
    lines = []
    for row in rng.permutation(np.array(rows)).tolist():
        gaps = rng.choice([" ", "\t", "  ", "\t ", " \t\t"], len(row))
        line = "".join(f"{field}{gap}" for field, gap in zip(row, gaps, strict=True))
        line = line.rstrip() + rng.choice(["", "", " ", "\t "])
        line += rng.choice(["", "more text"]) if len(row) == 6 and line[-1] in " \t" else ""
        lines.append(rng.choice(["", "", " "]) + line)
        if rng.random() < 0.05:
            lines.append(str(rng.choice(["", " \t", "# q1 0 d1 3", " #\tq1 Q0 d1 1 9 tag"])))
    return str(rng.choice(["\n", "\r\n"])).join(lines) + str(rng.choice(["", "\n"]))


def run_rows(run, tag, rng):
    """Return the rows of a run file; ranks count from 0 or 1 and contradict the scores."""
    return [
        (query, "Q0", doc, str(rank), repr(score), tag)
        for query, scores in run.items()
        for rank, (doc, score) in zip(
            rng.permutation(len(scores)) + rng.integers(0, 2), scores.items(), strict=True
        )
    ]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_pairs_of_files_have_trec_evals_values(tmp_path):
    rng = np.random.default_rng(0)
    measures = {*SINGLE, "ndcg", "iprec_at_recall"} | {
        f"{name}.{','.join(map(str, AT))}"
        for name in ("P", "recall", "success", "map_cut", "ndcg_cut")
    }
    ours = [TABLE.parse(name).text for name in ASKED]
    theirs = ["ndcg" if name == "ndcg_linear" else name for name in ASKED]
    n_different, n_values = dict.fromkeys(WAYS, 0), dict.fromkeys(WAYS, 0)
    for _ in range(N_QRELS):
        qrels = random_qrels(rng)
        rows = [(query, "0", doc, str(g)) for query in qrels for doc, g in qrels[query].items()]
        write(tmp_path / "qrels.txt", as_written(rows, rng))
        runs = {f"r{n}": random_run(list(qrels), rng) for n in range(N_RUNS)}
        for name, run in runs.items():
            write(tmp_path / f"{name}.run", as_written(run_rows(run, name, rng), rng))
        results = rs.load_results([tmp_path / f"{name}.run" for name in runs], format="trec")
        golden = rs.load_golden(tmp_path / "qrels.txt", format="trec_qrels")
        queries, none = golden.queries["query_id"].tolist(), dict.fromkeys(theirs, 0.0)
        judged = golden.targets[["query_id", "doc_id"]].drop_duplicates()
        hits = results.hits.merge(judged, on=["query_id", "doc_id"])
        results_of = {"-J": replace(results, hits=hits)}
        grade = golden.targets["grade"]
        high = replace(golden, targets=golden.targets.assign(grade=grade.where(grade >= 2, 0)))
        for way in WAYS:
            lists = results_of.get(way, results)
            scores = rs.score(lists, golden, ASKED, profile="trec")
            if way == "-l 2":  # which nDCG doesn't go by
                of_high = rs.score(lists, high, ASKED, profile="trec")
                graded = [name for name in ours if "ndcg" in name]
                scores = of_high.assign(**scores[graded])
            oracle = pytrec_eval.RelevanceEvaluator(
                qrels, measures, 2 if way == "-l 2" else 1, way == "-J"
            )
            values = [oracle.evaluate(run) for run in runs.values()]
            expected = [
                [of_run.get(query, none)[name] for name in theirs]
                for of_run in values for query in queries
            ]  # fmt: skip
            # queries that nobody judged come last
            found = scores[ours].to_numpy()[: len(expected)]
            assert scores.index[: len(expected)].tolist() == queries * len(runs)
            # With -J its interpolated precision of a list without judged hits is 0 / 0; 0 here.
            is_nan = np.isnan(expected)
            assert way == "-J" or not is_nan.any()
            is_same = np.isclose(found, np.where(is_nan, 0.0, expected), rtol=0, atol=1e-9)
            n_different[way] += int((~is_same).sum())
            n_values[way] += is_same.size
    assert n_different == dict.fromkeys(WAYS, 0) and min(n_values.values()) > 50 * N_QRELS * N_RUNS


def write(path, text):
    path.write_text(text, encoding="utf-8", newline="")
