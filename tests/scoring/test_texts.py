"""Answers against reference answers: SQuAD's exact match and F1, ROUGE-L, when they apply."""

import random
import warnings

import pandas as pd
import pytest
from conftest import answer, record

import ragscore as rs
from ragscore.scoring.answers import normalised, score_texts


def compared(given, reference):
    return {
        name: float(values[0])
        for name, values in score_texts(
            pd.Series([given], dtype="str"), pd.Series([reference], dtype="str")
        ).items()
    }


@pytest.mark.parametrize(
    ("given", "reference", "expected"),
    [
        # rouge keeps the article: 2·1 / (2 + 1)
        ("The Nile.", "nile", {"exact_match": 1, "token_f1": 1, "rouge_l": 2 / 3}),
        # shared: x twice, y once; tokens 4 + 4
        ("x x y z", "x y x x", {"token_f1": 2 * 3 / 8}),
        # texts without tokens are equal only to each other
        ("the", "!", {"token_f1": 1}),
        ("the", "nile", {"token_f1": 0}),
        ("", "", {"rouge_l": 0}),
        # police the gunman: 3 of 4 and 4 words (Lin 2004, section 3.1)
        ("police ended the gunman", "police killed the gunman", {"rouge_l": 3 / 4}),
        ("gunman the killed police", "police killed the gunman", {"rouge_l": 1 / 4}),
        ("서울은 수도", "서울은 한국의 수도", {"rouge_l": 2 * 2 / 5}),
    ],
)
def test_an_answer_is_compared_with_its_reference_token_by_token(given, reference, expected):
    found = compared(given, reference)
    assert {name: found[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "norm"),
    [
        ("The  Nile!", "nile"),
        ("a.an the", "aan"),
        ("It's (6,650) km", "its 6650 km"),
        ("theatre", "theatre"),
        ("éa", "éa"),
        ("?", ""),
        ("서울은 수도.", "서울은 수도"),
    ],
)
def test_texts_are_normalised_as_squad_does(text, norm):
    assert normalised(text) == norm


def test_rouge_l_is_that_of_rouge_score_on_ascii_texts():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scorer = pytest.importorskip(
            "rouge_score.rouge_scorer", reason="rouge-score is not installed (test extra)"
        ).RougeScorer(["rougeL"])
    rng = random.Random(1)
    words = "the a Nile River, river is long. It's 6,650 km (4,130) x_y".split()
    answers, references = (
        [" ".join(rng.choices(words, k=rng.randint(0, 20))) for _ in range(200)] for _ in range(2)
    )
    expected = [
        scorer.score(reference, given)["rougeL"].fmeasure
        for given, reference in zip(answers, references, strict=True)
    ]
    assert score_texts(pd.Series(answers), pd.Series(references))[
        "rouge_l"
    ].tolist() == pytest.approx(expected)


def test_scores_are_nan_without_reference_or_answer_and_where_a_refusal_is_due(
    write_golden, write_run
):
    rows = [
        {"id": name, "query": "?", "reference_answer": "the Nile"}
        for name in ("right", "silent", "failed")
    ]
    rows += [
        {"id": "no", "query": "?", "reference_answer": "none", "answerable": False},
        {"id": "free", "query": "?", "must_contain": ["x"]},
    ]
    records = [record(name, [], answer=answer("Nile")) for name in ("right", "no", "free")]
    records += [record("silent", []), record("failed", [], answer=answer("Nile"), error="timeout")]
    found = rs.score(
        rs.load_results(write_run("r", records, k=10)),
        rs.load_golden(write_golden(rows)),
        ["exact_match", "token_f1", "rouge_l"],
    )
    assert (
        found["exact_match"].dropna().to_dict() == {"right": 1}
        and found.count()["rouge_l"] == found.count()["token_f1"] == 1
    )


def test_an_empty_text_is_in_every_answer_and_an_id_keeps_its_space(write_golden):
    rows = [{"id": "e ", "query": "?", "expected_doc_ids": ["d"], "must_contain": [""]}]
    golden = rs.load_golden(write_golden(rows))
    assert rs.validate(golden).empty
    run = [{"query_id": "e ", "doc_id": ["d"], "answer": "so", "refused": False}]
    scores = rs.score(rs.load_results(run), golden, ["answer_checks", "hit@5"])
    assert scores.loc["e ", ["answer_checks", "hit@5"]].tolist() == [1, 1]
