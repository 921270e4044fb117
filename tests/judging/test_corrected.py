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


def drawn(judged, labels, n=60, seed=3):
    """Labels of both runs' answers to random queries."""
    queries = judged.judgments["query_id"].drop_duplicates()
    return labels[labels["query_id"].isin(queries.sample(n, random_state=seed))]


def difference(judged, labels, **options):
    return judged.corrected(labels, "a", "b", random=True, **options)


def test_the_corrected_difference_is_that_of_ppi_and_holds_the_truth(world):
    judged, labels, judge, people = world
    asked = drawn(judged, labels)
    (row,) = difference(judged, asked).to_dict("records")
    is_labelled = pd.Index([f"q{n:03}" for n in range(N)]).isin(asked["query_id"])
    d_judge, d_people = judge["b"] - judge["a"], people["b"] - people["a"]
    expected = ppi_difference(
        d_judge, np.where(is_labelled, d_people, np.nan), width=5, groups=np.arange(N) // 2
    )
    found = [row[name] for name in ("corrected", "low", "high", "weight", "effective_n")]
    assert found == [
        expected.value, expected.low, expected.high, expected.weight, expected.effective_n
    ]  # fmt: skip
    assert (row["run_id"], row["criterion"], row["n_judged"], row["n_labels"]) == (
        "b", POINTS, N, 60,
    )  # fmt: skip
    assert row["judge"] == pytest.approx(d_judge.mean())
    assert row["label"] == pytest.approx(d_people[is_labelled].mean())
    # the judge is too kind to b; corrected it is right
    truth = d_people.mean()
    assert row["judge"] > row["high"] and row["low"] < truth < row["high"]
    assert pd.isna(row["refused"])


def test_the_other_way_round_it_has_the_other_sign_and_clusters_widen(world):
    judged, labels, *_ = world
    asked = drawn(judged, labels)
    there = difference(judged, asked)
    turned = judged.corrected(asked, "b", "a", random=True)["corrected"][0]
    assert turned == pytest.approx(-there["corrected"][0])
    alone = difference(judged, asked, cluster=None)
    width = [float((one["high"] - one["low"]).iloc[0]) for one in (alone, there)]
    assert width[0] != width[1]
    with refused("a", field="candidate"):
        judged.corrected(asked, "a", "a", random=True)


def test_each_slice_is_corrected_by_its_own_labels(world):
    judged, labels, judge, people = world
    asked = drawn(judged, labels, 100)
    table = difference(judged, asked, by="difficulty")
    assert table["difficulty"].tolist() == ["easy", "hard"] and table["refused"].isna().all()
    assert table["n_labels"].sum() == 100 and table["n_judged"].tolist() == [120, 120]
    is_hard = np.arange(N) % 4 > 1
    is_labelled = pd.Index([f"q{n:03}" for n in range(N)]).isin(asked["query_id"])
    labelled = np.where(is_labelled, people["b"] - people["a"], np.nan)
    expected = ppi_difference(
        (judge["b"] - judge["a"])[is_hard], labelled[is_hard], width=5,
        groups=(np.arange(N) // 2)[is_hard],
    )  # fmt: skip
    assert table["corrected"][1] == expected.value
    # few labels: each slice says why it stays as it is
    few = difference(judged, drawn(judged, labels, 40), by="difficulty")
    for why, n in zip(few["refused"], few["n_labels"], strict=True):
        says(why, n, 30)
    assert few["corrected"].isna().all() and few["judge"].notna().all()


def test_labels_that_correct_nothing_say_so(world):
    judged, labels, judge, _ = world
    asked = drawn(judged, labels)
    few = difference(judged, drawn(judged, labels, 29)).iloc[0]
    says(few["refused"], 29, 30)
    assert few[["corrected", "low", "high", "weight"]].isna().all()
    chosen = says(judged.corrected(asked, "a", "b", random=False)["refused"][0], "random")
    order = np.argsort(judge["b"] - judge["a"], kind="stable")[:50]
    worst = labels[labels["query_id"].isin([f"q{n:03}" for n in order])]
    unlike = says(difference(judged, worst, cluster=None)["refused"][0])
    assert unlike not in (chosen, few["refused"])


def test_labels_of_one_side_are_left_out_and_several_are_averaged(world):
    judged, labels, *_ = world
    asked = drawn(judged, labels)
    dropped = asked.drop(asked.index[asked["run_id"] == "a"][:7])
    assert difference(judged, dropped)["n_labels"].tolist() == [53]
    twice = pd.concat([asked, asked])  # two people, of one mind
    pd.testing.assert_frame_equal(difference(judged, twice), difference(judged, asked))


@pytest.mark.parametrize(
    ("change", "field", "named"),
    [
        (lambda t: t.drop(columns="run_id"), "labels", ["run_id"]),
        (lambda t: t.drop(columns="criterion"), "labels", ["criterion"]),
        (lambda t: t.assign(run_id="z"), "labels", []),
        (lambda t: t.assign(value=9), "labels.value", [9, "judge_correctness"]),
        (lambda t: t.assign(criterion="mrr"), "labels.criterion", ["mrr"]),
        (lambda t: t[t["run_id"] == "a"], "labels", []),
        (lambda t: None, "labels", ["NoneType"]),
    ],
)
def test_labels_that_do_not_fit_are_refused(world, change, field, named):
    judged, labels, *_ = world
    with refused(*named, field=field):
        judged.corrected(change(drawn(judged, labels)), "a", "b", random=True)


def test_means_heed_paraphrases_and_slices(world):
    judged, labels, judge, people = world
    asked = drawn(judged, labels, 100)
    table = judged.corrected(asked, random=True).set_index("run_id")
    is_labelled = pd.Index([f"q{n:03}" for n in range(N)]).isin(asked["query_id"])
    groups = np.arange(N) // 2
    labels_of_a = np.where(is_labelled, people["a"], np.nan)
    expected = ppi_mean(judge["a"], labels_of_a, bounds=(0, 5), groups=groups)
    assert table.loc["a", ["corrected", "low", "high"]].tolist() == [
        expected.value, expected.low, expected.high
    ]  # fmt: skip
    alone = judged.corrected(asked, random=True, cluster=None).set_index("run_id")
    width = table["high"] - table["low"]
    assert (width > 1.1 * (alone["high"] - alone["low"])).all()
    by = judged.corrected(asked, random=True, by="difficulty")
    assert by[["run_id", "difficulty"]].to_numpy().tolist() == [
        ["a", "easy"], ["a", "hard"], ["b", "easy"], ["b", "hard"],
    ]  # fmt: skip
    assert by["corrected"].notna().all()
    with refused("golden", field="by"):
        rs.judging.Judged(judged.results).corrected(asked, random=True, by="difficulty")
