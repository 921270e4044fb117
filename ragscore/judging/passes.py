"""One pass of one judge over one response.

Its questions to the model, one after the other, and the rows they end in.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from ragscore.analysis.extras.knowledge_gain import cosine
from ragscore.judging.ask import Asker, JudgeFailed, Payload
from ragscore.judging.cases import Case
from ragscore.judging.prompts import N_QUESTIONS, Judge
from ragscore.judging.spending import Usage
from ragscore.judging.verdicts import Verdict, claims
from ragscore.scoring.judgments import FAILED, NO_CLAIMS, NOT_MEASURABLE

NEEDED = {
    "answer": "answer",
    "context": "context",
    "reference": "reference answer",
    "key_facts": "key facts",
}


@dataclass
class Pass:
    """What a judge made of a response.

    Its state, verdicts, and what they took now and when they were made.
    """

    case: Case
    judge: Judge
    repeat: int
    state: str = ""
    reason: str | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    now: Usage = field(default_factory=Usage)
    made: Usage = field(default_factory=Usage)


def why_skipped(case: Case, judge: Judge, refused: str) -> str | None:
    """Why a response isn't judged at all; None if it is."""
    if case.failed:
        return "the query failed"
    if case.n_textless and "context" in judge.needs:
        return f"{case.n_textless} hits without a text"
    if lacking := [need for need in judge.needs if not case.has(need)]:
        names = [NEEDED[name] for name in lacking[0].split("|")]
        return f"no {names[0]}" if len(names) == 1 else f"neither {' nor '.join(names)}"
    if (
        case.refused
        and refused == "skip"
        and judge.criterion != "judge_refused"
        and "answer" in judge.needs
    ):
        return "the system refused"
    return None


def run_pass(one: Pass, asker: Asker) -> Pass:
    """Ask everything that the judge asks of the response.

    A judgment that fails leaves NaN, its state and its reason.
    """
    steps = {
        "": _of_answer,
        "claims": _of_claims,
        "facts": _of_facts,
        "chunks": _of_chunks,
        "questions": _of_questions,
    }
    try:
        one.verdicts = steps[one.judge.each](one, asker)
    except JudgeFailed as error:
        one.verdicts = [{"item": "", "value": math.nan, "state": FAILED, "reason": str(error)}]
    states = [verdict.setdefault("state", "scored") for verdict in one.verdicts]
    one.state = next((state for state in (FAILED, NOT_MEASURABLE) if state in states), "scored")
    one.reason = next(
        (
            verdict["reason"]
            for verdict in one.verdicts
            if verdict["state"] == one.state != "scored"
        ),
        None,
    )
    return one


def _ask(one: Pass, asker: Asker, payload: Payload, items: list[str]) -> list[Verdict]:
    return asker.ask(
        one.judge.name,
        one.judge.prompt,
        payload,
        one.judge.parse,
        items,
        one.repeat,
        one.now,
        one.made,
    )


def _of_answer(one: Pass, asker: Asker) -> list[Verdict]:
    return _ask(one, asker, _shown(one), [])


def _of_facts(one: Pass, asker: Asker) -> list[Verdict]:
    facts = list(one.case.key_facts)
    return _ask(one, asker, _shown(one) | {"facts": _numbered(facts)}, facts)


def _of_claims(one: Pass, asker: Asker) -> list[Verdict]:
    """The claims of one text, each checked against another.

    Without any there is nothing to measure.
    """
    case, judge = one.case, one.judge
    assert judge.claims is not None
    text = case.answer if judge.claims_of == "answer" else case.reference
    payload = {"question": case.question, "text": text}
    # The claims of a text are the same for every judge that asks for them, and so is their place in
    # the cache.
    found = asker.ask("claims", judge.claims, payload, claims, [], one.repeat, one.now, one.made)
    texts = [claim["item_text"] for claim in found]
    if not texts:
        reason = (
            f"no claim in the {'answer' if judge.claims_of == 'answer' else 'reference answer'}"
        )
        return [
            {
                "item": "",
                "value": math.nan,
                "state": NOT_MEASURABLE,
                "verdict": NO_CLAIMS,
                "reason": reason,
            }
        ]
    return _ask(
        one, asker, {"source": _source(case, judge.source), "claims": _numbered(texts)}, texts
    )


def _of_chunks(one: Pass, asker: Asker) -> list[Verdict]:
    """A question for each passage; one that fails leaves the others, and the pass without a score."""
    rows: list[Verdict] = []
    for passage in one.case.context:
        about = {"item": passage.item, "item_text": passage.text}
        try:
            rows += [
                about | verdict
                for verdict in _ask(one, asker, _shown(one) | {"passage": passage.text}, [])
            ]
        except JudgeFailed as error:
            rows.append(about | {"value": math.nan, "state": FAILED, "reason": str(error)})
    return rows


def _of_questions(one: Pass, asker: Asker) -> list[Verdict]:
    """Questions that the answer answers, and how near they are to the one that was asked."""
    rows = _ask(one, asker, _shown(one) | {"n": N_QUESTIONS}, [""] * N_QUESTIONS)
    vectors = asker.embed(
        [one.case.question, *(row["item_text"] for row in rows)], one.now, one.made
    )
    return [
        row | {"value": cosine(vectors[0], vector)}
        for row, vector in zip(rows, vectors[1:], strict=True)
    ]


def _shown(one: Pass) -> Payload:
    """What the judge shows of the response, in its order; what isn't known is left out."""
    case = one.case
    known: dict[str, Any] = {
        "question": case.question, "answer": case.answer, "context": _source(case, "context"),
        "reference_answer": case.reference,
        "key_facts": list(case.key_facts) or None,
    }  # fmt: skip
    return {name: known[name] for name in one.judge.shows if known[name] is not None}


def _source(case: Case, name: str) -> list[dict[str, Any]]:
    texts = {
        "context": [passage.text for passage in case.context],
        "reference": [case.reference or ""],
        "answer": [case.answer or ""],
    }
    return _numbered(texts[name])


def _numbered(texts: list[str]) -> list[dict[str, Any]]:
    return [{"n": n, "text": text} for n, text in enumerate(texts, 1)]
