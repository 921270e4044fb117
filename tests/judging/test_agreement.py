"""Judges against each other, against themselves and against people.

Figures worked by hand, and what is refused.
"""

import json
from dataclasses import replace
from itertools import repeat

import numpy as np
import pandas as pd
import pytest
from conftest import answer, hit, record, written_run
from judge_server import FaultyServer, completed
from judge_server import judged as by_words
from pandas.testing import assert_frame_equal

import ragscore as rs
from ragscore.judging.run import ledger_of
from ragscore.stats import (
    cohen_kappa,
    krippendorff_alpha,
    ppi_difference,
    ppi_mean,
    weighted_kappa,
)
from tests.messages import refused, says, warned

A, B = [5, 4, 2, 0, 3], [5, 3, 2, 3, 3]


def judging(points, run="r", *rows):
    """Results with these points for correctness, one per query, and rows (criterion, query, item,
    value).
    """
    ids = [f"q{n}" for n in range(len(points))]
    rows = [*zip(repeat("judge_correctness"), ids, repeat(""), points), *rows]
    judgments = pd.DataFrame(rows, columns=["criterion", "query_id", "item", "value"])
    return rs.Results(
        runs=pd.DataFrame({"run_id": [run]}),
        responses=pd.DataFrame({"run_id": run, "query_id": ids, "answer": "words"}),
        judgments=judgments.assign(run_id=run),
    )


def labels(points):
    rows = [(f"q{n}", "judge_correctness", value) for n, value in enumerate(points)]
    return pd.DataFrame(rows, columns=["query_id", "criterion", "value"])


def test_disagreement_is_a_share_of_answers_far_apart_or_flipped():
    # differences 0, 1, 0, 3, 0: one above 1 point; good (4 and more) are q0, q1 to a, q0 to b: one
    # flip; either of them in 2 of 5
    with warned("20%", "judge_correctness", "40%"):
        row = rs.judging.agreement(judging(A), judging(B)).iloc[0]
    shares = row[["n", "far", "flip", "disagreement", "bias", "good_from"]].tolist()
    assert shares == pytest.approx([5, 0.2, 0.2, 0.4, 0.4, 4])
    # good or not: observed 4/5, by chance 2/5 · 1/5 + 3/5 · 4/5 = .56
    assert row["kappa"] == pytest.approx((0.8 - 0.56) / 0.44)
    # Σd² = 10; Σ over all pairs / n = 54 + 56 - 2 · 5 · 2.8 · 3.2 = 20.4
    assert row["weighted_kappa"] == pytest.approx(1 - 10 / 20.4)
    low, high = row[["low", "high"]]
    assert 0 <= low < 0.4 < high <= 1 and row["alpha_low"] <= row["alpha"] <= row["alpha_high"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("criterion", "width", "least", "scale"),
    [
        ("judge_correctness", 5, 4, "ordinal"), ("judge_refused", 1, 0.5, "nominal"),
        ("faithfulness", 1, 0.8, "interval"),
    ],
)  # fmt: skip
def test_coefficients_take_a_criterions_scale_and_answers_to_one_query_as_one_cluster(
    criterion, width, least, scale
):
    a, b = width * np.random.default_rng(0).integers(0, 3, (2, 60)) / 2
    groups = np.arange(60) // 3
    keys = pd.DataFrame({"run_id": list("rst") * 20, "query_id": groups, "criterion": criterion})
    row = rs.judging.agreement(keys.assign(value=a), keys.assign(value=b)).iloc[0]
    assert row[["n", "n_clusters", "good_from"]].tolist() == [60, 20, least]
    for name, one in {
        "kappa": cohen_kappa(a >= least, b >= least, groups=groups),
        "weighted_kappa": weighted_kappa(a, b, groups=groups),
        "alpha": krippendorff_alpha(np.column_stack([a, b]), scale, groups=groups),
    }.items():
        found = row[[name, f"{name}_low", f"{name}_high"]].tolist()
        assert found == pytest.approx([one.value, one.low, one.high])


def test_both_criteria_count_on_their_own_so_that_no_rate_exceeds_1():
    more = [("judge_groundedness", f"q{i}", "", 5 * (i % 2)) for i in range(5)]
    other = [(criterion, query, "", 5 - value) for criterion, query, _, value in more]
    turned = judging([5 - one for one in A], "r", *other)
    with warned("judge_groundedness", "100%"):
        table = rs.judging.agreement(judging(A, "r", *more), turned)
    assert table["criterion"].tolist() == ["judge_groundedness", "judge_correctness"]
    assert table["disagreement"].between(0, 1).all()


def test_answers_that_only_one_judged_are_counted_apart():
    row = rs.judging.agreement(judging(A), judging([5, np.nan, 2, np.nan, 3])).iloc[0]
    assert row[["n", "n_only_a", "n_only_b"]].tolist() == [3, 2, 0]
    with refused("criterion", field="a, b"):
        rs.judging.agreement(judging(A), judging(A, "other"))


def test_people_are_a_judge_like_another_and_two_of_them_are_averaged():
    # 4.5, 3, 2, 3, 3
    twice = pd.concat([labels([4, 2, 2, 2, 3]), labels([5, 4, 2, 4, 3])])
    with warned("20%", "judge_correctness", "40%"):
        alone = rs.judging.agreement(judging(A), labels(B)).iloc[0]
        both = rs.judging.agreement(judging(A), twice).iloc[0]
    # B - A is 0, -1, 0, 3, 0; of the means -.5, -1, 0, 3, 0
    assert (alone["bias"], both["bias"]) == (pytest.approx(0.4), pytest.approx(0.3))
    assert (alone["n"], both["n"]) == (5, 5)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (labels(B).drop(columns="value"), ["value"]),
        (labels([6] * 5), [6, "judge_correctness", 0, 5]),
        (labels(B).assign(criterion="correctness"), ["correctness"]),
    ],
)
def test_labels_that_mean_nothing_are_refused(wrong, named):
    with refused(*named):
        rs.judging.agreement(judging(A), wrong)
    both = rs.Results.concat([judging(A), judging(A, "s")])
    with refused("run_id", "r", "s", field="labels"):
        rs.judging.agreement(both, labels(B))


# A second model over a part of the answers

CHUNK = [hit("c1", "d1", 1, snippet="Paris is in France.")]


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Eight judged answers, of which every other one holds a claim without support."""
    ids = [f"q{i}" for i in range(8)]
    golden = rs.load_golden([{"id": one, "query": one, "expected_doc_ids": ["d1"]} for one in ids])
    texts = ["Paris is in France.", "Paris is in France. It is a number that lies far above."] * 4
    records = [
        record(one, CHUNK, query=one, answer=answer(text))
        for one, text in zip(ids, texts, strict=True)
    ]
    results = rs.load_results(written_run(tmp_path_factory.mktemp("runs"), "r", records))
    names = ["groundedness", "abstention"]
    with FaultyServer() as server:
        endpoint = rs.judging.Endpoint("words", base_url=server.url)
        yield rs.judge(results, golden, names, endpoint, cache=None), golden, server


def test_a_spot_check_asks_a_second_model_about_a_seeded_part(judged):
    first, _, server = judged
    second = rs.judging.Endpoint("others", base_url=server.url)

    def checked(**options):
        """What is found, and the questions that were asked for it."""
        before = len(server.bodies)
        found = first.spot_check(second, cache=None, **options)
        return found, questions(server.bodies[before:])

    found, asked = checked(judges="groundedness", n=3, seed=1)
    assert found[["n", "disagreement"]].to_numpy().tolist() == [[3, 0]] and len(asked) == 3
    again, asked_again = checked(judges="groundedness", n=3, seed=1)
    assert_frame_equal(found, again)
    assert asked_again == asked != checked(judges="groundedness", n=3, seed=2)[1]
    assert checked(n=99)[0]["n"].tolist() == [8, 8]  # by the judges of before


def questions(bodies):
    return {json.loads(body["messages"][1]["content"])["question"] for body in bodies}


def test_a_spot_check_by_another_prompt_or_seed_is_one_and_by_the_same_judge_none(judged):
    first, _, server = judged
    same = rs.judging.Endpoint("words", base_url=server.url)
    with refused("words", "judge_groundedness", field="endpoint"):
        first.spot_check(same, judges="groundedness", cache=None)
    wording = rs.judging.get_judge("groundedness").with_prompt("Judge!")
    for endpoint, judges in ((same, wording), (replace(same, seed=7), "groundedness")):
        found = first.spot_check(endpoint, judges=judges, n=3, cache=None)
        assert found["n"].tolist() == [3]
    with refused("faithfulness", field="judges"):
        first.spot_check(same, judges="faithfulness", cache=None)
    with refused("golden=golden", "judges=", field="judged"):
        rs.judging.Judged(first.results).spot_check(same)


def test_a_second_judge_that_disagrees_is_warned_of(judged, monkeypatch):
    def turned_round(seen):
        said = by_words(seen.body)
        return completed(seen.body, json.dumps(said | {"score": 5 - said["score"]}))

    first, _, server = judged
    monkeypatch.setattr(server, "reply", turned_round)
    second = rs.judging.Endpoint("others", base_url=server.url)
    with warned("judge_groundedness", "50%"):
        found = first.spot_check(second, judges="groundedness", n=8, cache=None)
    # every other answer has 5 points, turned round 0; the others have 2, turned round 3
    assert found[["flip", "far", "disagreement"]].iloc[0].tolist() == [0.5] * 3


# Files


def test_judgments_and_ledger_are_saved_with_a_run_or_in_a_store(judged, tmp_path, write_run):
    first, golden, _ = judged
    folder = write_run("r", [record(f"q{i}", CHUNK, answer=answer("x")) for i in range(8)]).parent
    assert first.save(folder) == [folder]
    assert_frame_equal(rs.load_results(folder).judgments, first.judgments)
    with refused("overwrite=True", file="judgments.jsonl", field="judgments"):
        first.save(folder)
    store = rs.RunStore(tmp_path / "store")
    store.save(replace(first.results, judgments=None), golden=golden)
    first.save(store)
    store.refresh(golden)
    assert len(store.load("r").judgments) == len(first.judgments)
    for place in (folder, store.path("r")):
        assert_frame_equal(pd.DataFrame(ledger_of(place)), pd.DataFrame(first.ledger))


# Thresholds and clusters


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_good_can_be_given():
    # q0 alone is good, for both
    row = rs.judging.agreement(judging(A), judging(B), thresholds={"judge_correctness": 5}).iloc[0]
    assert row[["good_from", "flip"]].tolist() == [5, 0]
    with refused("judge_correctness", field="thresholds"):
        rs.judging.agreement(judging(A), judging(B), thresholds={"correctness": 3})


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_paraphrases_are_one_cluster_where_the_golden_set_is_known():
    rows = [
        {"id": f"q{n}", "query": "?", "group": f"g{n // 2}", "expected_doc_ids": [f"d{n // 2}"]}
        for n in range(8)
    ]
    results, other = judging([5, 4, 1, 2, 3, 0, 5, 1]), judging([5, 4, 2, 2, 3, 1, 5, 0])
    judged = rs.judging.Judged(results, golden=rs.load_golden(rows))
    for side, options, n in ((judged, {}, 4), (results, {}, 8), (judged, {"cluster": None}, 8)):
        assert rs.judging.agreement(side, other, **options)["n_clusters"].tolist() == [n]


# A judge's differences and means corrected by people's labels: figures, slices, refusals.

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


@pytest.mark.parametrize("pair", [["a", "b"], ["b", "a"], []])
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
            (side[pair[1]] - side[pair[0]] if pair else side[row["run_id"]])[inside]
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
    runs = pair[1:] or ["a", "b"]
    keys = ["run_id", "criterion", *([by] if by else [])]
    assert table[keys].to_numpy().tolist() == [
        [run, POINTS, *one] for run in runs for one in slices
    ]


def test_a_judge_that_is_too_kind_to_one_run_is_right_when_corrected(world):
    judged, labels, _, people = world
    row = difference(judged, drawn(judged, labels)).iloc[0]
    truth = (people["b"] - people["a"]).mean()
    assert row["judge"] > row["high"] and row["low"] < truth < row["high"]


def test_slices_without_a_golden_set_and_a_run_against_itself_are_refused(world):
    judged, labels, *_ = world
    with refused("a", field="candidate"):
        judged.corrected(labels, "a", "a", random=True)
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
    order = np.argsort(judge["b"] - judge["a"], kind="stable")
    for part in (order[:50], order[:-2]):  # few of the worst; all but the best two
        given = labels[labels["query_id"].isin([f"q{n:03}" for n in part])]
        unlike = difference(judged, given, cluster=None)["refused"][0]
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
