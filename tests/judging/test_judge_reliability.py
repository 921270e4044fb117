"""Judges against each other, against themselves and against people.

Figures worked by hand, and what is refused.
"""

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import answer, hit, record
from judge_server import FaultyServer
from pandas.testing import assert_frame_equal

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.scoring.provenance import judge_fingerprint
from tests.messages import refused, says, warned

A, B = [5, 4, 2, 0, 3], [5, 3, 2, 3, 3]


@pytest.fixture
def judging(write_run):
    """Results with these points for correctness, one per query, or rows (criterion, query, item,
    value, further fields).
    """

    def made(points, run="r", *rows):
        n = len(points)
        results = rs.load_results(
            write_run(
                run,
                [
                    record(
                        f"q{i}",
                        [hit("c1", "d", 1), hit("c2", "e", 2)],
                        answer=answer("word " * (i + 1)),
                    )
                    for i in range(n)
                ],
            )
        )
        records = [
            {
                "run_id": run,
                "query_id": f"q{i}",
                "criterion": "judge_correctness",
                "item": "",
                "value": value,
            }
            for i, value in enumerate(points)
        ]
        records += [
            {
                "run_id": run,
                "criterion": c,
                "query_id": q,
                "item": i,
                "value": v,
                **(more[0] if more else {}),
            }
            for c, q, i, v, *more in rows
        ]
        return replace(results, judgments=from_records(records, "judgments"))

    return made


def labels(points, **more):
    return pd.DataFrame(
        {
            "query_id": [f"q{i}" for i in range(len(points))],
            "criterion": "judge_correctness",
            "value": points,
            **more,
        }
    )


def test_disagreement_is_a_share_of_answers_far_apart_or_flipped(judging):
    # differences 0, 1, 0, 3, 0: one above 1 point; good (4 and more) are q0, q1 to a, q0 to b: one
    # flip; either of them in 2 of 5
    with warned("20%", "judge_correctness", "40%"):
        row = rs.judging.agreement(judging(A), judging(B)).table.iloc[0]
    assert row[["n", "far", "flip", "disagreement", "bias"]].tolist() == pytest.approx(
        [5, 0.2, 0.2, 0.4, 0.4]
    )
    # good or not: observed 4/5, by chance 2/5 · 1/5 + 3/5 · 4/5 = .56
    assert row["kappa"] == pytest.approx((0.8 - 0.56) / 0.44)
    # Σd² = 10; Σ over all pairs / n = 54 + 56 - 2 · 5 · 2.8 · 3.2 = 20.4
    assert row["weighted_kappa"] == pytest.approx(1 - 10 / 20.4)
    low, high = row[["low", "high"]]
    assert 0 <= low < 0.4 < high <= 1 and row["alpha_low"] <= row["alpha"] <= row["alpha_high"]


def test_both_criteria_count_on_their_own_so_that_no_rate_exceeds_1(judging):
    more = [("judge_groundedness", f"q{i}", "", 5 * (i % 2)) for i in range(5)]
    other = [("judge_groundedness", f"q{i}", "", 5 - 5 * (i % 2)) for i in range(5)]
    with warned("judge_groundedness", "100%"):
        table = rs.judging.agreement(
            judging(A, "r", *more), judging([5 - one for one in A], "r", *other)
        ).table
    assert (
        table["criterion"].tolist() == ["judge_groundedness", "judge_correctness"]
        and table["disagreement"].between(0, 1).all()
    )


def test_judges_who_agree_do_so_without_a_warning(judging):
    found = rs.judging.agreement(judging(A), judging(A))
    assert found.table[["disagreement", "kappa", "weighted_kappa", "alpha"]].iloc[
        0
    ].tolist() == pytest.approx([0, 1, 1, 1])
    first = repr(found).splitlines()[0]
    says(first, "JudgeAgreement", "judge_correctness", "0%", 5)


def test_answers_that_only_one_judged_are_counted_apart(judging):
    row = rs.judging.agreement(judging(A), judging([5, np.nan, 2, np.nan, 3])).table.iloc[0]
    assert row[["n", "n_only_a", "n_only_b"]].tolist() == [3, 2, 0]
    with refused("criterion", field="a, b"):
        rs.judging.agreement(judging(A), judging(A, "other"))


@pytest.mark.large
def test_reliability_is_stored_with_the_run(judging, tmp_path):
    with warned("20%", "judge_correctness", "40%"):
        found = rs.judging.agreement(judging(A), judging(B))
    store = rs.RunStore(tmp_path / "store")
    store.save(judging(A))
    file = found.write(store.path("r"))
    assert file.name == "agreement.json" and json.loads(file.read_text())["table"][0]["n"] == 5


@pytest.mark.large
def test_people_are_a_judge_like_another(judging):
    with warned("20%", "judge_correctness", "40%"):
        ours, theirs = (
            rs.judging.agreement(judging(A), labels(B)).table,
            rs.judging.agreement(judging(A), judging(B)).table,
        )
    assert_frame_equal(ours, theirs)
    # two people, averaged: 4.5, 3, 2, 3, 3
    twice = pd.concat([labels([4, 2, 2, 2, 3]), labels([6 - 1, 4, 2, 4, 3])])
    with warned("20%", "judge_correctness", "40%"):
        assert rs.judging.agreement(judging(A), twice).pairs["b"].tolist() == [4.5, 3, 2, 3, 3]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (labels(B).drop(columns="value"), ["['value']"]),
        (labels([6] * 5), [6, "judge_correctness", 0, 5]),
        (labels(B).assign(criterion="correctness"), ["correctness"]),
    ],
)
def test_labels_that_mean_nothing_are_refused(judging, wrong, named):
    with refused(*named):
        rs.judging.agreement(judging(A), wrong)
    both = rs.Results.concat([judging(A), judging(A, "s")])
    with refused("run_id", "r", "s", field="labels"):
        rs.judging.agreement(both, labels(B))


# A second model over a part of the answers

CHUNK = [hit("c1", "d1", 1, snippet="Paris is in France.")]


@pytest.fixture
def judged(write_golden, write_run, tmp_path):
    n = 12
    golden = rs.load_golden(
        write_golden(
            [{"id": f"q{i}", "query": f"{i}?", "expected_doc_ids": ["d1"]} for i in range(n)]
        )
    )
    texts = [
        f"Paris is in France. {i} is a number that lies far above." * (i % 2)
        or "Paris is in France."
        for i in range(n)
    ]
    results = rs.load_results(
        write_run(
            "r", [record(f"q{i}", CHUNK, answer=answer(text)) for i, text in enumerate(texts)]
        )
    )
    with FaultyServer() as server:
        endpoint = rs.judging.Endpoint("words", base_url=server.url)
        yield (
            rs.judge(
                results,
                golden,
                ["groundedness", "abstention"],
                endpoint,
                cache=tmp_path / "c.jsonl",
            ),
            golden,
            server,
        )


@pytest.mark.slow
def test_a_spot_check_asks_a_second_model_about_a_seeded_part(judged, tmp_path):
    first, _golden, server = judged
    second, before = rs.judging.Endpoint("others", base_url=server.url), len(server.bodies)
    found = first.spot_check(second, judges="groundedness", n=5, seed=1, cache=None)
    assert (
        len(server.bodies) - before == 5
        and found.table["n"].tolist() == [5]
        and found.table["disagreement"].tolist() == [0]
    )
    again = first.spot_check(second, judges="groundedness", n=5, seed=1, cache=None)
    assert_frame_equal(found.pairs, again.pairs)
    other = first.spot_check(second, judges="groundedness", n=5, seed=2, cache=None)
    assert set(other.pairs["query_id"]) != set(found.pairs["query_id"])
    everything = first.spot_check(second, n=99, cache=None)  # by the judges of before
    assert everything.table["n"].tolist() == [12, 12]


@pytest.mark.slow
def test_a_spot_check_by_another_prompt_or_seed_is_one_and_by_the_same_judge_none(judged):
    first, _golden, server = judged
    same = rs.judging.Endpoint("words", base_url=server.url)
    with refused("words", "judge_groundedness", field="endpoint"):
        first.spot_check(same, judges="groundedness", cache=None)
    wording = rs.judging.get_judge("groundedness").with_prompt("Judge!")
    assert first.spot_check(same, judges=wording, n=3, cache=None).table["n"].tolist() == [3]
    assert first.spot_check(replace(same, seed=7), judges="groundedness", n=3, cache=None).table[
        "n"
    ].tolist() == [3]
    with refused("faithfulness", field="judges"):
        first.spot_check(same, judges="faithfulness", cache=None)
    with refused("golden=golden", "judges=", field="judged"):
        rs.judging.Judged(first.results).spot_check(same)


@pytest.mark.large
def test_a_second_judge_that_disagrees_is_warned_of(judged):
    first, _golden, server = judged
    server.reply = lambda seen: turned_round(seen.body)
    with warned("judge_groundedness", "50%"):
        found = first.spot_check(
            rs.judging.Endpoint("others", base_url=server.url),
            judges="groundedness",
            n=12,
            cache=None,
        )
    # every other answer has 5 points, turned round 0; the others have 2, turned round 3
    assert found.table[["flip", "far", "disagreement"]].iloc[0].tolist() == [0.5] * 3


def turned_round(body):
    from ragscore.demo.judge_server import completed, judged

    reply = judged(body)
    return completed(body, json.dumps(reply | {"score": 5 - reply["score"]}))


# The audit card


def as_judged(found):
    return found if isinstance(found, rs.judging.Judged) else rs.judging.Judged(found)


def card(found, *args, **more):
    return {
        (row.criterion, row.measure): row
        for row in as_judged(found).audit(*args, **more).table.itertuples()
    }


def test_the_card_counts_what_failed_and_what_it_cost(judged):
    first, golden, server = judged
    server.faults = lambda number, body: "400" if "8?" in body["messages"][1]["content"] else None
    again = rs.judge(
        first.results,
        golden,
        "groundedness",
        rs.judging.Endpoint("others", base_url=server.url),
        cache=None,
        prices={"others": (1, 1)},
    )
    found = card(again)
    assert (
        found["judge_groundedness", "failed_rate"].low
        < found["judge_groundedness", "failed_rate"].value
        == 1 / 12
        and found["judge_groundedness", "failed_rate"].n == 12
    )
    assert (
        found["judge_groundedness", "n_calls"].value == 11
        and found["judge_groundedness", "cache_hit_rate"].value == 0
    )
    assert found["judge_groundedness", "cost_usd"].value == pytest.approx(
        again.ledger["cost_usd"].sum()
    )
    assert found["judge_groundedness", "n_calls"].judge == "others"


def test_the_card_says_how_a_judge_agrees_with_itself(judging):
    once, again = {"repeat": 1}, {"repeat": 2}
    rows = [
        ("judge_groundedness", f"q{i}", "", value, {"repeat": repeat})
        for repeat, points in ((1, A), (2, B))
        for i, value in enumerate(points)
    ]
    results = judging(A, "r", *rows)
    found = card(
        replace(results, judgments=results.judgments.query("criterion == 'judge_groundedness'"))
    )
    assert once != again and found["judge_groundedness", "repeat_flip_rate"].value == 0.2
    # variances of pairs: d²/2
    assert found["judge_groundedness", "repeat_sd"].value == pytest.approx(
        np.sqrt((1 / 2 + 9 / 2) / 5)
    )


def test_the_card_shows_what_length_and_rank_do(judging):
    found = card(
        judging(
            list(range(5)) * 3,
            "r",
            *(
                ("context_precision", f"q{i}", chunk, value)
                for i in range(15)
                for chunk, value in (("c1", 1.0), ("c2", 0.0))
            ),
        )
    )
    # answers get longer from query to query, points go round: Spearman's by its formula on ranks
    x, y = np.arange(15.0), np.array(list(range(5)) * 3)
    ranks = pd.Series(y).rank().to_numpy()
    expected = np.corrcoef(x, ranks)[0, 1]
    row = found["judge_correctness", "length_effect"]
    assert row.value == pytest.approx(expected) and row.low < expected < row.high
    assert found["context_precision", "rank_effect"].value == pytest.approx(-1)


def test_the_card_compares_with_people_and_with_the_context_reversed(judging):
    found = card(judging(A), labels(B), reversed_context=judging(B))
    assert found["judge_correctness", "people_weighted_kappa"].value == pytest.approx(1 - 10 / 20.4)
    # the judge gives less
    assert found["judge_correctness", "people_bias"].value == pytest.approx(-0.4)
    assert found["judge_correctness", "position_effect"].value == pytest.approx(0.4) and found[
        "judge_correctness", "position_flip_rate"
    ].value == pytest.approx(0.2)


def test_the_card_is_stored_with_the_run(judging, tmp_path):
    found = as_judged(judging(A)).audit(labels(B))
    file = found.write(tmp_path)
    assert file.name == "judge_audit.json"
    assert len(json.loads(file.read_text())["measures"]) == len(found.table)


def test_a_reversed_context_is_asked_reversed_and_is_another_judge(judged, write_run):
    _, golden, server = judged
    results = rs.load_results(
        write_run(
            "x",
            [
                record(
                    "q0",
                    [hit("c1", "d1", 1, snippet="one"), hit("c2", "d2", 2, snippet="two")],
                    answer=answer("one"),
                )
            ],
        )
    )
    golden = golden.select(golden.queries["query_id"].iloc[:1])
    before = len(server.bodies)
    turned = rs.judge(
        results,
        golden,
        "groundedness",
        rs.judging.Endpoint("words", base_url=server.url),
        cache=None,
        order="reversed",
    )
    assert [
        one["text"]
        for one in json.loads(server.bodies[before]["messages"][1]["content"])["context"]
    ] == ["two", "one"]
    straight = rs.judge(
        results,
        golden,
        "groundedness",
        rs.judging.Endpoint("words", base_url=server.url),
        cache=None,
    )
    assert judge_fingerprint(turned.results)["x"] != judge_fingerprint(straight.results)["x"]


# Corrected means


def many(judging, n=120, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 6, n)
    return judging(np.clip(truth + 1, 0, 5).tolist()), truth


def test_a_judge_who_gives_too_much_is_put_right(judging):
    results, truth = many(judging)
    drawn = as_judged(results).sample_for_annotation(40, seed=3)
    chosen = drawn["query_id"].str[1:].astype(int).to_numpy()
    (row,) = (
        as_judged(results)
        .corrected_means(
            pd.DataFrame(
                {
                    "query_id": drawn["query_id"],
                    "criterion": "judge_correctness",
                    "value": truth[chosen],
                }
            ),
            random=True,
        )
        .to_dict("records")
    )
    judged_mean, others = np.clip(truth + 1, 0, 5), np.setdiff1d(np.arange(120), chosen)
    expected = (
        row["weight"] * (judged_mean[others].mean() - judged_mean[chosen].mean())
        + truth[chosen].mean()
    )
    assert (
        row["mean"] == pytest.approx(expected)
        and row["low"] < truth.mean() < row["high"] < row["judge_mean"] == judged_mean.mean()
    )
    assert (
        (row["n_judged"], row["n_labels"]) == (120, 40)
        and row["effective_n"] > 40
        and pd.isna(row["refused"])
    )


def test_too_few_labels_or_labels_that_are_no_random_draw_correct_nothing(judging):
    results, truth = many(judging)

    def corrected(chosen, random=True):
        frame = pd.DataFrame(
            {
                "query_id": [f"q{i}" for i in chosen],
                "criterion": "judge_correctness",
                "value": truth[chosen],
            }
        )
        return as_judged(results).corrected_means(frame, random=random).iloc[0]

    few = corrected(np.arange(29))
    assert (
        few["refused"].startswith("29 labels, fewer than 30")
        and few[["mean", "low", "high"]].isna().all()
        and few["judge_mean"] > 0
    )
    assert "not drawn at random" in corrected(np.arange(40), random=False)["refused"]
    worst = corrected(np.argsort(truth, kind="stable")[:40])
    assert "no random draw" in worst["refused"] and np.isnan(worst["mean"])


@pytest.mark.large
def test_answers_to_label_are_drawn_by_seed_among_the_judged(judging):
    results = rs.Results.concat([judging([*A, np.nan]), judging(A, "s")])
    drawn = as_judged(results).sample_for_annotation(3, seed=1)
    assert drawn.groupby("run_id").size().to_dict() == {"r": 3, "s": 3} and "q5" not in set(
        drawn["query_id"]
    )
    assert_frame_equal(drawn, as_judged(results).sample_for_annotation(3, seed=1))
    assert len(as_judged(results).sample_for_annotation(99)) == 10


# Files


@pytest.mark.slow
def test_inputs_that_were_kept_are_judged_again_without_the_run(judged, tmp_path):
    first, golden, server = judged
    rs.judge(
        first.results,
        golden,
        "groundedness",
        rs.judging.Endpoint("words", base_url=server.url),
        cache=None,
        keep_inputs=tmp_path / "in.jsonl",
    )
    results, kept = rs.judging.load_inputs(tmp_path / "in.jsonl")
    again = rs.judge(
        results,
        kept,
        ["groundedness", "abstention"],
        rs.judging.Endpoint("words", base_url=server.url),
        cache=None,
    )
    assert_frame_equal(again.judgments, first.judgments.assign(run_id=first.judgments["run_id"]))
    (tmp_path / "in.jsonl").write_text('{"run_id": "r"}\n')
    with refused("query_id", "query", "context", "key_facts", file="in.jsonl", line=1):
        rs.judging.load_inputs(tmp_path / "in.jsonl")


def test_judgments_and_ledger_are_saved_with_a_run_or_in_a_store(judged, tmp_path, write_run):
    first, golden, _ = judged
    folder = write_run("r", [record(f"q{i}", CHUNK, answer=answer("x")) for i in range(12)]).parent
    assert first.save(folder) == [folder]
    assert_frame_equal(rs.load_results(folder).judgments, first.judgments)
    assert_frame_equal(pd.DataFrame(first.ledger), pd.DataFrame(rs.judging.load_ledger(folder)))
    with refused("overwrite=True", file="judgments.jsonl", field="judgments"):
        first.save(folder)
    assert first.save(folder, overwrite=True) == [folder]

    store = rs.RunStore(tmp_path / "store")
    store.save(replace(first.results, judgments=None), golden=golden)
    first.save(store)
    assert_frame_equal(
        pd.DataFrame(rs.judging.load_ledger(store.path("r"))), pd.DataFrame(first.ledger)
    )
    store.refresh(golden)
    assert len(store.load("r").judgments) == len(first.judgments)


# Answers to one query, and thresholds


def of_topics(n_runs, n_topics, seed=0):
    """Points by two judges for several runs' answers; some topics are hard to judge."""
    rng = np.random.default_rng(seed)
    keys = [(f"r{run}", f"t{topic}") for run in range(n_runs) for topic in range(n_topics)]
    topic = np.array([int(query[1:]) for _, query in keys])
    truth = rng.integers(0, 6, len(keys))
    is_off = rng.random(len(keys)) < np.where(topic % 2, 0.05, 0.7)
    frame = pd.DataFrame(keys, columns=["run_id", "query_id"]).assign(criterion="judge_correctness")
    return frame.assign(value=truth.astype(float)), frame.assign(
        value=np.where(is_off, rng.integers(0, 6, len(keys)), truth).astype(float)
    )


def test_answers_to_one_query_are_one_cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = rs.judging.agreement(*of_topics(40, 22))
        one_run = rs.judging.agreement(*of_topics(1, 880))
    row, alone = found.table.iloc[0], one_run.table.iloc[0]
    assert (row["n"], row["n_clusters"], alone["n_clusters"]) == (880, 22, 880)
    titles = [repr(one).splitlines()[0] for one in (found, one_run)]
    says(titles[0], 880, 22)
    assert says(titles[1], 880).count("880") == 1  # the answers, and no clusters
    for name in ("kappa", "weighted_kappa", "alpha"):
        width = row[f"{name}_high"] - row[f"{name}_low"]
        assert width > 1.8 * (alone[f"{name}_high"] - alone[f"{name}_low"])
        assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
    assert row["high"] - row["low"] > 1.8 * (alone["high"] - alone["low"])
    assert rs.judging.JudgeAgreement is type(found)


def test_what_is_good_follows_the_scale_and_can_be_given():
    first, second = of_topics(1, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        usual, lower = (
            rs.judging.agreement(first, second, thresholds=given).table.iloc[0]
            for given in (None, {"judge_correctness": (2, 3)})
        )
    assert (usual["good_from"], lower["good_from"]) == (4, 3)
    for row in (usual, lower):
        good = [side["value"] >= row["good_from"] for side in (first, second)]
        assert row["flip"] == pytest.approx((good[0] != good[1]).mean())
    with refused(3, "judge_correctness", field="thresholds"):
        rs.judging.agreement(first, second, thresholds={"judge_correctness": 3})


@pytest.mark.large
def test_paraphrases_are_one_cluster_where_the_golden_set_is_known(judging, write_golden):
    golden = rs.load_golden(
        write_golden(
            "".join(
                f"- {{id: q{n}, query: q{n}, group: g{n // 2}, expected_doc_ids: [d{n // 2}]}}\n"
                for n in range(8)
            )
        )
    )
    points = [5, 4, 1, 2, 3, 0, 5, 1]
    results, other = judging(points), judging([5, 4, 2, 2, 3, 1, 5, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = rs.judging.agreement(rs.judging.Judged(results, golden=golden), other)
        unknown = rs.judging.agreement(results, other)
        alone = rs.judging.agreement(rs.judging.Judged(results, golden=golden), other, cluster=None)
    assert [one.table["n_clusters"].iloc[0] for one in (known, unknown, alone)] == [4, 8, 8]


def test_the_card_says_how_many_clusters_its_measures_have():
    rng = np.random.default_rng(0)
    chunks, queries = 5, 30
    rows = [
        {"run_id": "x", "query_id": f"q{n}", "criterion": "context_precision", "item": f"c{n}-{c}",
         "value": float(rng.random() < (0.9 - 0.15 * c if n % 3 else 0.1)), "judge": "m"}
        for n in range(queries) for c in range(chunks)
    ]  # fmt: skip
    keys = pd.DataFrame(rows)[["run_id", "query_id"]]
    hits = keys.assign(
        rank=np.tile(np.arange(1, chunks + 1), queries),
        chunk_id=[one["item"] for one in rows],
    )
    results = rs.Results(
        runs=pd.DataFrame({"run_id": ["x"]}),
        responses=keys.drop_duplicates().assign(query="?", answer="words"),
        hits=hits,
        judgments=pd.DataFrame(rows),
    )
    found = card(results)
    row = found["context_precision", "rank_effect"]
    assert (row.n, row.n_clusters) == (150, 30) and row.low < row.value < row.high
    assert found["context_precision", "failed_rate"].n_clusters == 30
