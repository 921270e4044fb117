"""A judge's differences and means corrected by people's labels: figures, slices, refusals."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.stats import ppi_difference, ppi_mean
from tests.messages import refused, says

N = 240
POINTS = "judge_correctness"


@pytest.fixture(scope="module")
def world():
    """Two runs whose answers a judge scored, kinder to the candidate than people are.

    Queries come in pairs of paraphrases, even ones are easy.
    """
    rng = np.random.default_rng(0)
    hard = np.repeat(rng.normal(0, 1.2, N // 2), 2)
    people = {
        run: np.clip(np.round(2.6 + hard + gain + rng.normal(0, 0.7, N)), 0, 5)
        for run, gain in (("a", 0.0), ("b", 0.4))
    }
    judge = {
        run: np.clip(np.round(values + kind + rng.normal(0, 0.5, N)), 0, 5)
        for (run, values), kind in zip(people.items(), (0.0, 0.6), strict=True)
    }
    ids = [f"q{n:03}" for n in range(N)]
    golden = rs.load_golden(
        [
            {"id": one, "query": one, "expected_doc_ids": ["d"], "group": f"g{n // 2}",
             "difficulty": "hard" if n % 4 > 1 else "easy"}
            for n, one in enumerate(ids)
        ]
    )  # fmt: skip
    keys = pd.DataFrame(
        [(run, one) for run in judge for one in ids], columns=["run_id", "query_id"]
    )
    results = rs.Results(
        runs=pd.DataFrame({"run_id": ["a", "b"]}),
        responses=keys.assign(query="?", answer="words"),
        hits=keys.assign(rank=1, doc_id="d"),
        judgments=keys.assign(
            criterion=POINTS, item="", value=np.concatenate(list(judge.values())), judge="m"
        ),
    )
    of_people = keys.assign(criterion=POINTS, value=np.concatenate(list(people.values())))
    return rs.judging.Judged(results, golden=golden), of_people, judge, people


def drawn(judged, labels, n=60, seed=1):
    """Labels of the answers that are drawn for annotation."""
    keys = judged.sample_for_annotation(n, seed=seed)[["run_id", "query_id"]]
    return keys.merge(labels, on=["run_id", "query_id"])


def compared(judged):
    return rs.evaluate(judged.results, judged.golden, ["hit@1", POINTS]).compare("a", "b")


def test_all_runs_get_the_same_queries_to_label(world):
    judged = world[0]
    asked = judged.sample_for_annotation(40, seed=3)
    of = {run: part["query_id"].tolist() for run, part in asked.groupby("run_id")}
    assert of["a"] == of["b"] and len(of["a"]) == 40
    # a run of which less was judged gets those of the queries that it has, and more
    judgments = judged.results.judgments
    few = judgments["run_id"].eq("b") & judgments["query_id"].isin(of["a"][:20])
    less = rs.Results(
        runs=judged.results.runs, responses=judged.results.responses, hits=judged.results.hits,
        judgments=judgments[~few],
    )  # fmt: skip
    asked = rs.judging.Judged(less).sample_for_annotation(40, seed=3)
    again = {run: set(part["query_id"]) for run, part in asked.groupby("run_id")}
    assert again["a"] == set(of["a"]) and again["b"] >= set(of["a"][20:]) and len(again["b"]) == 40


def test_the_corrected_difference_is_that_of_ppi_and_holds_the_truth(world):
    judged, labels, judge, people = world
    asked = drawn(judged, labels)
    (row,) = compared(judged).corrected(asked, random=True).to_dict("records")
    is_labelled = pd.Index([f"q{n:03}" for n in range(N)]).isin(asked["query_id"])
    d_judge, d_people = judge["b"] - judge["a"], people["b"] - people["a"]
    expected = ppi_difference(
        d_judge, np.where(is_labelled, d_people, np.nan), width=5, groups=np.arange(N) // 2
    )
    found = [row[name] for name in ("delta", "low", "high", "weight", "effective_n")]
    assert found == pytest.approx(
        [expected.value, expected.low, expected.high, expected.weight, expected.effective_n]
    )
    counts = [row[name] for name in ("metric", "n_judged", "n_labels", "n_clusters", "n_left_out")]
    assert counts == [POINTS, N, 60, N // 2, 0]
    assert row["judge_delta"] == pytest.approx(d_judge.mean())
    assert row["label_delta"] == pytest.approx(d_people[is_labelled].mean())
    assert row["moved"] == pytest.approx(row["delta"] - row["judge_delta"])
    # the judge alone is sure, and wrong; corrected it is right, and surer than the labels alone
    truth = d_people.mean()
    assert row["judge_low"] > truth and row["low"] < truth < row["high"] and row["moved"] < 0
    assert row["high"] - row["low"] < 0.95 * (row["label_high"] - row["label_low"])
    assert pd.isna(row["refused"])


def test_both_doors_lead_to_the_same_figures(world):
    judged, labels, *_ = world
    asked = drawn(judged, labels)
    pd.testing.assert_frame_equal(
        judged.corrected_differences(asked, "a", "b", random=True),
        compared(judged).corrected(asked, random=True),
    )
    turned = judged.corrected_differences(asked, "b", "a", random=True)["delta"][0]
    there = judged.corrected_differences(asked, "a", "b", random=True)["delta"][0]
    assert turned == pytest.approx(-there)
    alone, paired = (
        judged.corrected_differences(asked, "a", "b", random=True, cluster=cluster).iloc[0]
        for cluster in (None, "group")
    )
    assert (alone["n_clusters"], paired["n_clusters"]) == (240, 120)
    with refused("a", field="candidate"):
        judged.corrected_differences(asked, "a", "a", random=True)


def test_each_slice_is_corrected_by_its_own_labels(world):
    judged, labels, judge, people = world
    asked = drawn(judged, labels, 100)
    table = compared(judged).corrected(asked, by="difficulty", random=True)
    assert table["difficulty"].tolist() == ["easy", "hard"] and table["refused"].isna().all()
    assert table["n_labels"].sum() == 100 and table["n_judged"].tolist() == [120, 120]
    is_hard = np.arange(N) % 4 > 1
    is_labelled = pd.Index([f"q{n:03}" for n in range(N)]).isin(asked["query_id"])
    labelled = np.where(is_labelled, people["b"] - people["a"], np.nan)
    expected = ppi_difference(
        (judge["b"] - judge["a"])[is_hard], labelled[is_hard], width=5,
        groups=(np.arange(N) // 2)[is_hard],
    )  # fmt: skip
    assert table["delta"][1] == pytest.approx(expected.value)
    # few labels: each slice says why it stays as it is
    few = compared(judged).corrected(drawn(judged, labels, 40), by="difficulty", random=True)
    for why, n in zip(few["refused"], few["n_labels"], strict=True):
        says(why, n, 30)
    assert few["delta"].isna().all() and few["judge_delta"].notna().all()


def test_labels_that_correct_nothing_say_so(world):
    judged, labels, judge, _ = world
    cmp, asked = compared(judged), drawn(judged, labels)
    few = cmp.corrected(drawn(judged, labels, 29), random=True).iloc[0]
    says(few["refused"], 29, 30)
    assert few[["delta", "low", "high", "moved", "weight"]].isna().all()
    chosen = says(cmp.corrected(asked, random=False)["refused"][0], "random")
    order = np.argsort(judge["b"] - judge["a"], kind="stable")[:50]
    worst = labels[labels["query_id"].isin([f"q{n:03}" for n in order])]
    unlike = says(cmp.corrected(worst, random=True, cluster=None)["refused"][0])
    assert unlike not in (chosen, few["refused"])


def test_labels_of_one_side_are_counted_and_left_out(world):
    judged, labels, *_ = world
    asked = drawn(judged, labels)
    dropped = asked.drop(asked.index[asked["run_id"] == "a"][:7])
    row = compared(judged).corrected(dropped, random=True).iloc[0]
    assert (row["n_labels"], row["n_left_out"]) == (53, 7)
    twice = pd.concat([asked, asked])  # two people, of one mind
    pd.testing.assert_frame_equal(
        compared(judged).corrected(twice, random=True),
        compared(judged).corrected(asked, random=True),
    )


def test_any_metric_may_stand_for_what_people_judge(world):
    judged, labels, _, _ = world
    asked = drawn(judged, labels).drop(columns="criterion")
    right = asked.assign(value=(asked["value"] >= 4).astype(float))
    row = compared(judged).corrected(right, "hit@1", random=True).iloc[0]
    # every query is a hit in both runs: the labels stand alone
    assert row["weight"] == 0 and row["delta"] == pytest.approx(row["label_delta"])


@pytest.mark.parametrize(
    ("change", "metric", "field", "named"),
    [
        (lambda t: t.drop(columns="run_id"), None, "labels", ["run_id"]),
        (lambda t: t.assign(run_id="z"), None, "labels.run_id", ["z", "a", "b"]),
        (lambda t: t.assign(value=9), None, "labels.value", [9, "judge_correctness"]),
        (lambda t: t, "mrr", "metric", ["mrr"]),
        (lambda t: t.assign(criterion="mrr"), None, "labels.criterion", ["mrr"]),
        (lambda t: t[t["run_id"] == "a"], None, "labels", []),
        (lambda t: None, None, "labels", ["NoneType"]),
    ],
)
def test_labels_that_do_not_fit_are_refused(world, change, metric, field, named):
    judged, labels, *_ = world
    with refused(*named, field=field):
        compared(judged).corrected(change(drawn(judged, labels)), metric, random=True)


def test_means_heed_paraphrases_and_slices(world):
    judged, labels, judge, people = world
    asked = drawn(judged, labels, 100)
    table = judged.corrected_means(asked, random=True).set_index("run_id")
    is_labelled = pd.Index([f"q{n:03}" for n in range(N)]).isin(asked["query_id"])
    groups = np.arange(N) // 2
    labels_of_a = np.where(is_labelled, people["a"], np.nan)
    expected = ppi_mean(judge["a"], labels_of_a, bounds=(0, 5), groups=groups)
    assert table.loc["a", ["mean", "low", "high"]].tolist() == pytest.approx(
        [expected.value, expected.low, expected.high]
    )
    alone = judged.corrected_means(asked, random=True, cluster=None).set_index("run_id")
    width = table["high"] - table["low"]
    assert (width > 1.1 * (alone["high"] - alone["low"])).all()
    by = judged.corrected_means(asked, random=True, by="difficulty")
    assert by[["run_id", "difficulty"]].to_numpy().tolist() == [
        ["a", "easy"], ["a", "hard"], ["b", "easy"], ["b", "hard"],
    ]  # fmt: skip
    assert by["mean"].notna().all()
    with refused("golden", field="by"):
        rs.judging.Judged(judged.results).corrected_means(asked, random=True, by="difficulty")
