"""Refusals in words alone: unknown, counted and shown, unless a step reads them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.io import run_records
from ragscore.scoring.refusals import in_words
from tests.messages import refused, says

SORRY = "Sorry, I cannot answer this based on the context."
SHARED = Path(__file__).parents[3] / "shared" / "data" / "mtragun-scored-answers"
METRICS = ["answered_unanswerable", "false_refusal", "passed"]


def golden():
    """Four queries that d1 answers, and two that should be refused."""
    return rs.load_golden(
        [
            {"query_id": f"q{n}", "query": f"{n}?", "expected_doc_ids": ["d1"] if n < 4 else []}
            for n in range(6)
        ]
    )


def records(answers, **more):
    """A record of each answer, with the first value of a field for the first, and so on."""
    return [
        {"query_id": f"q{n}", "query": f"{n}?", "retrieved": ["d1"], "answer": answer}
        | {name: values[n] for name, values in more.items() if values[n] is not None}
        for n, answer in enumerate(answers)
    ]


HALF = [SORRY if n % 2 else "It is 5." for n in range(6)]


def test_a_refusal_in_words_alone_is_unknown_counted_and_shown():
    ev = rs.evaluate(rs.load_results(records(HALF)), golden(), METRICS)
    assert ev.scores[METRICS[:2]].isna().all(axis=None)
    assert ev.scores["passed"].notna().sum() == 4
    assert ev.summary("false_refusal")["n"].tolist() == [0]
    decisions = ev.refusals().table.set_index("decision")["n"]
    assert decisions[decisions > 0].to_dict() == {"undecided": 6}
    assert set(ev.explain("false_refusal")["state"]) == {"not_applicable"}
    says(str(ev), "6 answers", 3, "q1", repr(SORRY), "with_refusals_in_words()", "passed")


def test_phrases_decide_where_nothing_is_stated_if_they_are_asked_to():
    ev = rs.evaluate(rs.load_results(records(HALF)).with_refusals_in_words(), golden(), METRICS)
    assert ev.scores["false_refusal"].tolist()[:4] == [0, 1, 0, 1]
    assert ev.scores["answered_unanswerable"].tolist()[4:] == [1, 0]
    assert ev.scores["passed"].tolist() == [1, 0, 1, 0, 0, 1]
    assert "with_refusals_in_words" not in str(ev)
    one = records(HALF, error=[None, *["late"] * 5])
    says(str(rs.evaluate(one, golden(), METRICS)), "whether 1 answer is a refusal")


STATED = {"refused": [False, False, True, None, True, None]}
KNOWN = [False, False, True, False, True, False]  # where a run says so of some, the others are none
BLANK = ["", " ", *HALF[2:]]


@pytest.mark.parametrize(
    ("answers", "more", "stated", "phrases", "read"),
    [
        (HALF, {}, None, (), [False, True] * 3),
        # phrases of one's own stand alone
        ([*HALF[:4], "Frag den Chef.", "FRAG  DEN\nCHEF!"], {}, None, (["frag den  chef"],),
         [False] * 4 + [True] * 2),
        # what a run states stays, whatever the words are
        (HALF, STATED, KNOWN, (), KNOWN),
        # a blank answer is a refusal, and says nothing of the others
        (BLANK, {}, [True, True, None, None, None, None], (),
         [True, True, False, True, False, True]),
    ],
    ids=["words", "own", "stated", "blank"],
)  # fmt: skip
def test_words_are_read_where_a_run_states_nothing(answers, more, stated, phrases, read):
    results = rs.load_results(records(answers, **more))
    found = results.responses.get("refused", pd.Series([pd.NA] * 6)).astype(object)
    assert found.where(found.notna(), None).tolist() == (stated or [None] * 6)
    assert results.with_refusals_in_words(*phrases).responses["refused"].tolist() == read
    if more:
        assert "with_refusals_in_words" not in str(rs.evaluate(results, golden()))


@pytest.mark.parametrize("given", ["phrase", [], ["", "a"], [5]])
def test_what_are_no_phrases_is_refused(given):
    with refused("a list of texts", field="phrases"):
        rs.load_results(records(HALF)).with_refusals_in_words(given)


def lines(path, answers):
    """A run file with these answer objects."""
    rows = (
        {"query_id": f"q{n}", "query": "?", "error": None, "hits_top_k": [], "answer": answer}
        for n, answer in enumerate(answers)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


UNKNOWN, STATES = {"answer": "", "refused": "unknown"}, {"answer": "5", "refused": True}
OF_FILES = [
    # answers of a run, and what is then known of them
    ([{"answer": SORRY}, {"answer": "5"}], [None, None]),
    ([{"answer": SORRY}, {"answer": ""}], [None, True]),
    ([{"answer": SORRY}, STATES], [False, True]),
    ([{"answer": SORRY}, STATES | {"answer": ""}], [False, True]),
    ([{"answer": SORRY}, {"answer": "5", "refused": False}], [False, False]),
    ([{"answer": SORRY}, {"answer": "5", "grounded": True}], [False, False]),
    ([{"answer": "5"}, {"answer": SORRY, "grounded": False}], [False, True]),
    ([UNKNOWN | {"answer": SORRY}, STATES], [None, True]),
    ([{"answer": "4"}, UNKNOWN, STATES], [None, None, True]),
    ([{"answer": None, "refused": True}, {"answer": "5"}, None], [True, False, None]),
]


@pytest.mark.parametrize("few", [1 << 60, 0], ids=["json", "pyarrow"])  # the parser of lines
def test_a_run_file_says_what_it_states_also_written_again(few, tmp_path, monkeypatch):
    monkeypatch.setattr(run_records, "FEWEST", few)
    files = [lines(tmp_path / f"{n}.jsonl", given) for n, (given, _) in enumerate(OF_FILES)]
    results = rs.load_results(files)
    for n in range(len(files) if few else 0):
        results.select(str(n)).save(tmp_path / "again" / str(n) / "per_query.jsonl")
    for found in (results, rs.load_results(f"{tmp_path}/again/*") if few else results):
        states = found.responses["refused"].astype(object).where(lambda known: known.notna(), None)
        by_run = states.groupby(found.responses["run_id"].astype("str")).agg(list)
        assert by_run.tolist() == [known for _, known in OF_FILES]


REFUSALS = {
    "en": "I’m sorry, but the provided context does not contain any information about that.",
    "de": "Das kann ich anhand der Dokumente leider nicht beantworten.",
    "fr": "Désolé, je ne peux pas répondre à cette question.",
    "es": "Lo siento, no hay información sobre eso en los documentos.",
    "it": "Mi dispiace, non posso rispondere a questa domanda.",
    "pt": "Desculpe, não consigo responder a essa pergunta.",
    "nl": "Deze vraag kan ik niet beantwoorden.",
    "pl": "Niestety nie mogę odpowiedzieć na to pytanie.",
    "ru": "К сожалению, я не могу ответить на этот вопрос.",
    "uk": "На жаль, я не можу відповісти на це запитання.",
    "tr": "Üzgünüm, bu soruyu cevaplayamam.",
    "ar": "عذرًا، لا يمكنني الإجابة على هذا السؤال.",
    "hi": "माफ़ कीजिए, मैं इसका उत्तर नहीं दे सकता।",
    "zh": "抱歉，根据提供的资料无法回答这个问题。",
    "ja": "申し訳ありませんが、その質問には回答できません。",
    "ko": "죄송하지만 제공된 문서로는 답변할 수 없습니다.",
}
ANSWERS = [
    "It is 5.", "Bats do not know fear.", "Es sind fünf.", "Cinq, comme le dit le manuel.",
    "Son cinco.", "Bu beş.", "五个。", "다섯 개입니다.",
    "Set the limit to 5; the manual names it twice, and it holds for every size that is sold in"
    " this country, in both years, for all customers, and by every test that was ever made of it"
    " so far. Of other models there is no information.",
]  # fmt: skip


def test_refusals_in_sixteen_languages_are_read_and_answers_are_not():
    texts = pd.Series([*REFUSALS.values(), *ANSWERS])
    assert in_words(texts).tolist() == (np.arange(len(texts)) < len(REFUSALS)).tolist()


@pytest.mark.skipif(not SHARED.exists(), reason="needs scored answers beside the checkout")
def test_words_agree_with_the_judge_of_a_public_set_of_answers():
    rows = pd.read_json(SHARED / "submit_qwen2_5_32b_taskB.jsonl.gz", lines=True)
    answers = rows["predictions"].map(lambda given: given[0]["text"]).astype("str")
    judged = rows["metrics"].map(lambda given: given["idk_eval"][0])
    found = in_words(answers)
    assert found[judged == 1].mean() > 0.85
    assert found[judged == 0].mean() < 0.01
