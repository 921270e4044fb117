"""Relevance by a judge: hits that nobody labelled are graded, and the grades stand apart."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from judge_server import FaultyServer

import ragscore as rs
from tests.messages import refused, warned

DATA = Path(__file__).parents[3] / "shared" / "data"
TEXTS = {
    "d1": "Paris is in France.", "d2": "Where is Paris? In France, on the Seine.",
    "d3": "Cheese is made of milk.", "d4": "What is cheese made of? Of milk.",
}  # fmt: skip
RUN = [
    {"query_id": "q1", "query": "where is paris", "doc_id": ["d1", "d2", "d3"]},
    {"query_id": "q2", "query": "what is cheese made of", "doc_id": ["d4", "d1"]},
]


@pytest.fixture(scope="module")
def asked():
    rows = [one | {"text": [TEXTS[doc] for doc in one["doc_id"]]} for one in RUN]
    golden = rs.load_golden([
        {"id": "q1", "query": "where is paris", "expected_doc_ids": {"d1": 1}},
        {"id": "q2", "query": "what is cheese made of", "expected_doc_ids": {"d4": 1}},
    ])  # fmt: skip
    return rs.load_results(rows), golden


def judge(server, results, golden, **options):
    endpoint = rs.judging.Endpoint("words", base_url=server.url)
    return rs.judge(results, golden, "relevance", endpoint, cache=None, **options)


@pytest.fixture(scope="module")
def judged(asked):
    with FaultyServer() as server:
        found = judge(server, *asked)
        assert len(server.chats) == 3
    return found


def test_hits_that_nobody_labelled_are_graded_and_no_others(judged):
    grades = judged.grades().set_index(["query_id", "doc_id"])["grade"].to_dict()
    assert grades == {("q1", "d2"): 3, ("q1", "d3"): 1, ("q2", "d1"): 0}
    assert judged.grades()["judged_by"].unique().tolist() == ["words"]


def test_a_judges_grades_stand_beside_peoples_labels_and_say_so(judged, asked, tmp_path):
    both = judged.graded()
    by = both.targets.set_index(["query_id", "doc_id"])["judged_by"].fillna("people").to_dict()
    assert by[("q1", "d1")] == "people" and by[("q1", "d2")] == "words"
    ev = rs.evaluate(asked[0], both, "ndcg_linear@3")
    assert "3 of 5 (words)" in str(ev)
    # people say relevant or not: grade 3 is relevant, 1 is not
    assert ev.scores.loc["q1", "ndcg_linear@3"] == pytest.approx(1)
    back, keys = rs.load_golden(both.save(tmp_path / "golden.yaml")), ["query_id", "doc_id"]
    pair = both.targets[[*keys, "grade", "judged_by"]].merge(back.targets, on=keys)
    assert len(pair) == 5 and pair["grade_x"].equals(pair["grade_y"])
    assert pair["judged_by_x"].equals(pair["judged_by_y"])


def test_graded_labels_and_grades_stand_on_one_scale_and_others_are_made_binary(judged, asked):
    golden = asked[1]
    of_d3 = [
        one.targets.set_index(["query_id", "doc_id"]).loc[("q1", "d3"), "grade"]
        for one in (judged.graded(), judged.graded(relevant_from=1))
    ]
    assert of_d3 == [0, 1]
    # a judge's 1 earns what people's 1 earns
    graded = golden.targets.assign(grade=[1, 2], gain=[2.0, 4.0])
    of_grades = rs.judging.Judged(judged.results, golden=rs.Golden(golden.queries, targets=graded))
    earned = of_grades.graded().targets.sort_values("grade")[["grade", "gain"]].fillna(-1)
    assert earned.to_numpy().tolist() == [[0, -1], [1, 2], [1, 2], [2, 4], [3, -1]]
    with refused(field="relevant_from"):
        judged.graded(relevant_from=0)


def test_grades_are_of_the_labels_level_and_a_relevant_hit_answers_its_query(judged, asked):
    golden, hits = asked[1], judged.results.hits
    unknown = golden.queries.assign(answerable=pd.array([None, None], dtype="boolean"))
    chunks = golden.targets.assign(level="chunk", chunk_id="c" + golden.targets["doc_id"])
    named = replace(
        judged.results, hits=hits.assign(chunk_id="c" + hits["doc_id"]),
        judgments=judged.judgments.assign(item=["cd2", "3", "cd1"]),  # by its id or its rank
    )  # fmt: skip
    both = rs.judging.Judged(named, golden=rs.Golden(unknown, targets=chunks)).graded()
    assert both.targets[["query_id", "level", "chunk_id", "grade"]].to_numpy().tolist() == [
        ["q1", "chunk", "cd1", 1], ["q2", "chunk", "cd4", 1],
        ["q1", "chunk", "cd2", 1], ["q1", "chunk", "cd3", 0], ["q2", "chunk", "cd1", 0],
    ]  # fmt: skip
    assert both.queries["answerable"].fillna(False).tolist() == [True, False]


def test_where_everything_is_labelled_nothing_is_asked(server, asked):
    results, _ = asked
    labels = [{"id": one["query_id"], "expected_doc_ids": one["doc_id"]} for one in RUN]
    judged = judge(server, results, rs.load_golden(labels))
    assert judged.ledger["state"].tolist() == ["not_measurable"] * 2 and not server.chats
    with refused("no judge graded a hit", field="results.judgments"):
        judged.graded()


def test_several_judges_and_repeats_give_the_median(server, asked):
    results, golden = asked
    judged = judge(server, results, golden, repeats=2)
    more = [
        judged.judgments.assign(judge=name, value=value, state=state)
        for name, value, state in (
            ("other", 0.0, "scored"), ("broken", 3.0, "judge_failed"), ("silent", None, "scored")
        )
    ]  # fmt: skip
    both = pd.concat([judged.judgments, *more], ignore_index=True)
    results = rs.Results(results.runs, results.responses, results.hits, judgments=both)
    row = rs.judging.Judged(results, golden=golden).grades().set_index("doc_id").loc["d2"]
    assert (row["grade"], row["n"], row["judged_by"]) == (1, 4, "other, words")


def labelled(grades):
    rows = [(f"q{n // 4}", f"d{n}", grade) for n, grade in enumerate(grades)]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "grade"])


def test_agreement_of_labellings_by_hand():
    first, second = labelled([0, 1, 2, 3, 0, 0, 1, 2]), labelled([0, 1, 3, 3, 1, 0, 0, 2])
    with warned("relevance", "38%"):
        row = rs.judging.agreement(first, second).iloc[0]
    assert (row["criterion"], row["n"], row["n_clusters"]) == ("relevance", 8, 2)
    assert (row["far"], row["flip"], row["disagreement"]) == (3 / 8, 2 / 8, 3 / 8)
    assert row["kappa"] == pytest.approx((6 / 8 - 34 / 64) / (1 - 34 / 64))
    # both call 5 of 8 relevant: chance agrees in (25 + 9) / 64
    with refused("grade", field="a, b"):
        rs.judging.agreement(first, second.drop(columns="grade"))
    with refused(field="a, b"):
        rs.judging.agreement(first, second.assign(doc_id="other"))


@pytest.mark.filterwarnings("ignore:the two sides disagree")
def test_a_judges_grades_are_compared_with_peoples_labels(judged, asked):
    people = asked[1].targets.assign(doc_id=["d2", "d1"], grade=[3, 0])
    row = rs.judging.agreement(judged, people[["query_id", "doc_id", "grade"]]).iloc[0]
    assert (row["n"], row["n_only_a"], row["disagreement"]) == (2, 1, 0)


@pytest.mark.filterwarnings("ignore:the two sides disagree")
@pytest.mark.skipif(not DATA.exists(), reason="needs real judges' grades beside the checkout")
@pytest.mark.parametrize(
    ("folder", "files", "n", "exact", "min_grade", "relevant"),
    [
        ("llmjudge-submissions", ["willia-umbrela1.txt", "h2oloo-fewself.txt"], 4423, 0.7775, 1,
         None),
        ("trec-rag25-nuggets",
         ["rag25-climbmix-umbrela-codex-gpt5.5-medium-reasoning-v1.qrels.gz",
          "rag25-climbmix-umbrela-qwen3.5-9b-v2.qrels.gz"], 26341, 0.4734, 2, 0.7830),
    ],
)  # fmt: skip
def test_real_judges_agree_as_often_as_is_known(folder, files, n, exact, min_grade, relevant):
    labels = [rs.load_golden(DATA / folder / name) for name in files]
    row = rs.judging.agreement(*labels, thresholds={"relevance": min_grade}).iloc[0]
    assert (row["n"], round(1 - row["far"], 4)) == (n, exact)
    assert relevant is None or round(1 - row["flip"], 4) == relevant
