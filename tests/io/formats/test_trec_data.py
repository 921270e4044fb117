"""Real TREC runs and judgements.

Every measure agrees with trec_eval, and the published figures come out.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from trec_collections import RAGGY, ROBUST, VASWANI, as_dicts, needs

import ragscore as rs

KS = (1, 5, 10, 100, 1000)
NAMES = {
    "precision": "P",
    "recall": "recall",
    "hit": "success",
    "map": "map_cut",
    "ndcg_linear": "ndcg_cut",
}
# Mean AP as published with the runs, where ties go by document id ascending. trec_eval's own order
# is descending: rutcor03100 has so many equal scores that it gets .0737 there; pircRBa1 .3101, the
# others the same four digits.
MEAN_AP = {
    "pircRBa1": 0.3100, "aplrob03a": 0.2998, "THUIRr0301": 0.2597, "fub03IeOLKe3": 0.2503,
    "SABIR03BASE": 0.2021, "humR03dc": 0.1248, "NLPR03vb10": 0.1055,
    "rutcor03100": 0.0582,
}  # fmt: skip
BY_TREC_EVAL = {**MEAN_AP, "pircRBa1": 0.3101, "rutcor03100": 0.0737}


@pytest.fixture(
    scope="module",
    params=[("pircRBa1", "rutcor03100"), pytest.param(tuple(MEAN_AP), marks=pytest.mark.slow)],
    ids=len,
)
def robust(request):
    files = [ROBUST / f"input.{name}.gz" for name in request.param]
    return rs.load_results(files, ties="trec"), rs.load_golden(ROBUST / "robust03_qrels.txt.gz")


@pytest.fixture(scope="module")
def scores(robust):
    labels = [f"{name}@{k}" for name in (*NAMES, "ndcg") for k in KS] + ["mrr"]
    return rs.score(*robust, labels, missing="zero")


@needs(ROBUST)
def test_robust_runs_agree_with_trec_eval_in_every_measure(robust, scores):
    results, golden = robust
    cuts = ",".join(map(str, KS))
    qrels = as_dicts(golden.targets, "grade")
    worth = as_dicts(
        golden.targets.assign(grade=2 ** golden.targets["grade"].astype("int64") - 1), "grade"
    )
    plain = pytrec_eval.RelevanceEvaluator(
        qrels, {*(f"{name}.{cuts}" for name in NAMES.values()), "recip_rank"}
    )
    exponential = pytrec_eval.RelevanceEvaluator(worth, {f"ndcg_cut.{cuts}"})
    ours = {
        label: f"{NAMES[name]}_{k}" for name in NAMES for k in KS for label in [f"{name}@{k}"]
    } | {"mrr": "recip_rank"}
    for run_id, hits in results.hits.groupby("run_id", observed=True):
        run = as_dicts(hits, "score")
        theirs = pd.DataFrame.from_dict(plain.evaluate(run), orient="index")
        found = scores[scores["run_id"] == run_id]
        # queries that a run leaves out are absent there, and 0 here: trec_eval's -c
        np.testing.assert_allclose(
            found[list(ours)],
            theirs.reindex(found.index)[list(ours.values())].fillna(0),
            rtol=0,
            atol=1e-9,
            err_msg=str(run_id),
        )
        theirs = (
            pd.DataFrame.from_dict(exponential.evaluate(run), orient="index")
            .reindex(found.index)
            .fillna(0)
        )
        np.testing.assert_allclose(
            found[[f"ndcg@{k}" for k in KS]],
            theirs[[f"ndcg_cut_{k}" for k in KS]],
            rtol=0,
            atol=1e-9,
            err_msg=str(run_id),
        )


@needs(ROBUST)
def test_mean_average_precision_of_the_robust_runs_is_the_published_one(robust, scores):
    results, golden = robust
    ordered = results.hits.sort_values(
        ["run_id", "query_id", "score", "doc_id"], ascending=[True, True, False, True]
    )
    ascending = ordered.assign(
        rank=ordered.groupby(["run_id", "query_id"], observed=True).cumcount() + 1
    )
    published = rs.score(replace(results, hits=ascending), golden, ["map@1000"], missing="zero")
    for found, known in ((published, MEAN_AP), (scores, BY_TREC_EVAL)):
        means = found.groupby("run_id", observed=True)["map@1000"].mean()
        assert means.round(4).to_dict() == {name: known[name] for name in means.index}


@needs(ROBUST)
def test_robust_runs_and_judgements_are_loaded_whole(robust):
    results, golden = robust
    assert len(golden.queries) == 100 and golden.targets["grade"].value_counts().to_dict() == {
        0: 122722,
        1: 5667,
        2: 407,
    }
    assert len(results.hits) == 100_000 * len(results.runs)
    assert results.hits["rank"].min() == 1


@needs(RAGGY)
@pytest.mark.filterwarnings("ignore:ndcg uses the gain:UserWarning")
def test_passages_judged_by_document_give_the_published_ndcg():
    results = rs.load_results(str(RAGGY / "run.*.txt"))
    documents = results.hits["doc_id"].str.split("#").str[0]
    results = replace(
        results, hits=results.hits.assign(chunk_id=results.hits["doc_id"], doc_id=documents)
    )
    parts = [
        rs.load_golden(RAGGY / f"qrels.dl{year}-doc.txt", topics=RAGGY / "topics.tsv")
        for year in (21, 23)
    ]
    queries = pd.concat([part.queries for part in parts], ignore_index=True)
    golden = rs.Golden(
        queries=queries.assign(position=range(len(queries))),
        targets=pd.concat([part.targets for part in parts], ignore_index=True),
    )
    asked = golden.queries["query_id"].isin(results.responses["query_id"])
    assert asked.sum() == 76
    golden = rs.Golden(
        queries=golden.queries[asked],
        targets=golden.targets[
            golden.targets["query_id"].isin(golden.queries.loc[asked, "query_id"])
        ],
    )
    found = (
        rs.score(results, golden, ["ndcg@10"], match="doc", collapse="doc")
        .groupby("run_id", observed=True)["ndcg@10"]
        .mean()
    )
    assert sorted(found.round(3)) == [0.388, 0.522, 0.592] and round(found["Anserini"], 3) == 0.388


@needs(VASWANI)
def test_the_vaswani_collection_loads_with_its_questions():
    golden = rs.load_golden(VASWANI / "qrels", topics=VASWANI / "query-text.trec")
    assert len(golden.queries) == 93 and len(golden.targets) == 2083 and golden._problems.empty
    assert (
        golden.queries["query"].iloc[0]
        == "MEASUREMENT OF DIELECTRIC CONSTANT OF LIQUIDS BY THE USE OF MICROWAVE TECHNIQUES"
    )
