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


HARD = np.arange(N) % 4 > 1
FIGURES = {"corrected": "value"} | {
    name: name for name in ("low", "high", "weight", "effective_n")
}  # fmt: skip


@pytest.mark.parametrize("pair", [["a", "b"], []])
@pytest.mark.parametrize("by", [None, "difficulty"])
def test_the_figures_are_those_of_ppi_run_by_run_and_slice_by_slice(world, pair, by):
    judged, labels, judge, people = world
    asked = drawn(judged, labels, 100)
    is_labelled = pd.Index([f"q{n:03}" for n in range(N)]).isin(asked["query_id"])
    table = judged.corrected(asked, *pair, random=True, by=by)
    ppi, scale = (ppi_difference, {"width": 5}) if pair else (ppi_mean, {"bounds": (0, 5)})
    for row in table.to_dict("records"):
        inside = {"hard": HARD, "easy": ~HARD}.get(row.get("difficulty"), HARD | ~HARD)
        points, said = (
            (side["b"] - side["a"] if pair else side[row["run_id"]])[inside]
            for side in (judge, people)
        )
        labelled = np.where(is_labelled[inside], said, np.nan)
        expected = ppi(points, labelled, groups=(np.arange(N) // 2)[inside], **scale)
        figures = {one: getattr(expected, name) for one, name in FIGURES.items()}
        assert {one: row[one] for one in FIGURES} == pytest.approx(figures, rel=1e-13)
        assert (row["n_judged"], row["n_labels"]) == (len(points), is_labelled[inside].sum())
        assert row["judge"] == pytest.approx(points.mean())
        assert row["label"] == pytest.approx(np.nanmean(labelled)) and pd.isna(row["refused"])
    slices = [[one] for one in ("easy", "hard")] if by else [[]]
    runs = ["b"] if pair else ["a", "b"]
    keys = ["run_id", "criterion", *([by] if by else [])]
    assert table[keys].to_numpy().tolist() == [
        [run, POINTS, *one] for run in runs for one in slices
    ]


def test_a_judge_that_is_too_kind_to_one_run_is_right_when_corrected(world):
    judged, labels, _, people = world
    row = difference(judged, drawn(judged, labels)).iloc[0]
    truth = (people["b"] - people["a"]).mean()
    assert row["judge"] > row["high"] and row["low"] < truth < row["high"]


def test_the_other_way_round_it_has_the_other_sign(world):
    judged, labels, *_ = world
    asked = drawn(judged, labels)
    there, back = (
        judged.corrected(asked, *pair, random=True)["corrected"][0] for pair in ("ab", "ba")
    )
    assert there == pytest.approx(-back)
    with refused("a", field="candidate"):
        judged.corrected(asked, "a", "a", random=True)


def test_slices_without_a_golden_set_are_refused(world):
    judged, labels, *_ = world
    with refused("golden", field="by"):
        difference(rs.judging.Judged(judged.results), labels, by="difficulty")


@pytest.mark.parametrize(("n", "by"), [(29, None), (40, "difficulty")])
def test_few_labels_of_a_run_or_slice_say_why_it_stays_as_it_is(world, n, by):
    judged, labels, *_ = world
    few = difference(judged, drawn(judged, labels, n), by=by)
    for why, n_labels in zip(few["refused"], few["n_labels"], strict=True):
        says(why, n_labels, 30)
    assert few[["corrected", "low", "high", "weight"]].isna().all(axis=None)
    assert few["judge"].notna().all()


def test_labels_that_correct_nothing_say_so(world):
    judged, labels, judge, _ = world
    chosen = judged.corrected(drawn(judged, labels), "a", "b", random=False)["refused"][0]
    says(chosen, "random")
    order = np.argsort(judge["b"] - judge["a"], kind="stable")[:50]
    worst = labels[labels["query_id"].isin([f"q{n:03}" for n in order])]
    unlike = difference(judged, worst, cluster=None)["refused"][0]
    assert unlike and unlike != chosen and "30" not in unlike


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


@pytest.mark.parametrize(("pair", "widened"), [("", 1.1), ("ab", 1.0)])
def test_paraphrases_widen_means_and_differences(world, pair, widened):
    judged, labels, *_ = world
    tables = [
        judged.corrected(drawn(judged, labels), *pair, random=True, cluster=cluster)
        for cluster in ("group", None)
    ]
    clustered, alone = (table["high"] - table["low"] for table in tables)
    assert (clustered > widened * alone).all()
