"""The judges as data: prompt, reply schema, and the functions that make verdicts.

In: a response as a `Case`, and a function that asks a model. Out: verdicts. Each prompt is a text
file in `prompts/`, named after its task and version. Its hash covers text and reply schema and is
part of every judgment.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt, nearest
from ragscore.frames.kinds import FAILED, NO_CLAIMS, NOT_MEASURABLE, WORTH
from ragscore.judging.cases import Case, in_words, numbered
from ragscore.judging.replies import JudgeFailed, Verdict, digest, without_value
from ragscore.stats.similarity import cosine_matrix

N_QUESTIONS = 3  # questions that answer relevance generates, as RAGAS does

# A reply's object and the items that were judged -> one verdict per item.
ParseReply = Callable[[dict[str, Any], Sequence[str]], list[Verdict]]
# A prompt, what the model is shown, and the items -> the verdicts of its reply.
Ask = Callable[..., list[Verdict]]


def _object(**fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


_NO = {"supported": "unsupported", "relevant": "irrelevant", "abstained": "answered"}
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}
_POINTS = _object(
    reasoning=_TEXT,
    supported_claims=_TEXTS,
    unsupported_claims=_TEXTS,
    score={"type": "integer", "minimum": 0, "maximum": 5},
)
_SUPPORT = _object(
    verdicts={
        "type": "array",
        "items": _object(n={"type": "integer"}, reason=_TEXT, supported=_FLAG),
    }
)
_ASSIGNED = _object(
    verdicts={
        "type": "array",
        "items": _object(
            n={"type": "integer"}, reason=_TEXT, verdict={"type": "string", "enum": list(WORTH)}
        ),
    }
)
_GRADE = {"type": "integer", "minimum": 0, "maximum": 3}


def parse_points(reply: dict[str, Any], items: Sequence[str]) -> list[Verdict]:
    """Return a row with the points of the whole answer, and one per claim that the judge lists."""
    rows: list[Verdict] = [
        {"item": "", "value": float(reply["score"]), "reason": reply["reasoning"]}
    ]
    for verdict, value in (("supported", 1.0), ("unsupported", 0.0)):
        listed = [claim for claim in reply[f"{verdict}_claims"] if claim.strip()]
        rows += [
            {"item": f"{verdict} {n}", "value": value, "verdict": verdict, "item_text": claim}
            for n, claim in enumerate(listed, 1)
        ]
    return rows


def parse_claims(reply: dict[str, Any], items: Sequence[str]) -> list[Verdict]:
    """Return the extracted claims without blank ones; they have no verdict yet."""
    return [{"item_text": claim} for claim in reply["claims"] if claim.strip()]


def parse_each(reply: dict[str, Any], items: Sequence[str]) -> list[Verdict]:
    """Return one verdict per numbered item."""
    found = sorted(reply["verdicts"], key=lambda entry: entry["n"])
    if [entry["n"] for entry in found] != list(range(1, len(items) + 1)):
        raise JudgeFailed(f"the reply must give each of the numbers 1 to {len(items)} one verdict")
    return [
        {"item": str(entry["n"]), "item_text": text} | _verdict(entry)
        for entry, text in zip(found, items, strict=True)
    ]


def parse_one(reply: dict[str, Any], items: Sequence[str]) -> list[Verdict]:
    """Return the only verdict of a reply."""
    return [_verdict(reply)]


def parse_questions(reply: dict[str, Any], items: Sequence[str]) -> list[Verdict]:
    """Return the generated questions; embeddings give their values later."""
    questions = reply["questions"]
    if len(questions) != len(items) or not all(text.strip() for text in questions):
        raise JudgeFailed(f"the reply must hold {len(items)} questions")
    return [{"item": str(n), "item_text": text} for n, text in enumerate(questions, 1)]


def _verdict(entry: dict[str, Any]) -> Verdict:
    """Return a verdict that is a word with a worth, a grade, or a flag named after its yes."""
    said = {"reason": entry["reason"]}
    if "verdict" in entry:
        return said | {"value": WORTH[entry["verdict"]], "verdict": entry["verdict"]}
    if "grade" in entry:
        return said | {"value": float(entry["grade"])}
    yes = next(name for name in _NO if name in entry)
    return said | {"value": float(entry[yes]), "verdict": yes if entry[yes] else _NO[yes]}


# What each prompt asks for, and what reads it. A model writes fields in the order of the schema, so
# reasons come before verdicts.
REPLIES: dict[str, tuple[dict[str, Any], ParseReply]] = {
    "groundedness": (_POINTS, parse_points),
    "correctness": (_POINTS, parse_points),
    "claims": (_object(claims=_TEXTS), parse_claims),
    "attribution": (_SUPPORT, parse_each),
    "key_facts": (_SUPPORT, parse_each),
    "nuggets": (_ASSIGNED, parse_each),
    "relevance": (_object(reason=_TEXT, grade=_GRADE), parse_one),
    "chunk_relevance": (_object(reason=_TEXT, relevant=_FLAG), parse_one),
    "questions": (_object(questions=_TEXTS), parse_questions),
    "abstention": (_object(reason=_TEXT, abstained=_FLAG), parse_one),
}


@dataclass(frozen=True)
class Prompt:
    """The system message for a model, its version, the JSON schema of the reply, and its reader."""

    name: str
    version: str
    text: str
    schema: dict[str, Any]
    parse: ParseReply

    @cached_property
    def hash(self) -> str:
        """Hash of text and schema."""
        return digest([self.text, self.schema])[:16]


@cache
def _prompt(name: str) -> Prompt:
    file = files("ragscore.judging").joinpath("prompts", f"{name}.v1.md")
    return Prompt(name, "v1", file.read_text(encoding="utf-8"), *REPLIES[name])


@dataclass(frozen=True)
class Judge:
    """One judge.

    Attributes
    ----------
    name
        Its name in `rs.judge`.
    criterion
        The name of its judgments in the judgments frame, and of its metric.
    prompt
        What it asks the model.
    needs
        Inputs without which a response is skipped: answer, context, reference_answer, key_facts.
        `a|b` means either. Of claims: the text that makes them, and the text that should support
        them.
    shows
        Inputs that the model sees, and question.
    each
        The unit that gets a verdict: "answer" (the whole one), "claims", "facts" (one call for
        all), "chunks" (one call each), "unlabelled" (chunks that nobody labelled), or "questions"
        (generated from the answer, then compared with the user's question by embeddings).
    """

    name: str
    criterion: str
    prompt: Prompt
    needs: tuple[str, ...]
    shows: tuple[str, ...] = ()
    each: str = "answer"

    def with_prompt(self, text: str, version: str = "own") -> "Judge":
        """Return the same judge with another prompt text; the reply schema stays."""
        return replace(self, prompt=replace(self.prompt, text=text, version=version))

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """All prompts in the order of use."""
        return (_prompt("claims"), self.prompt) if self.each == "claims" else (self.prompt,)

    @property
    def prompt_hash(self) -> str:
        """One hash of all prompts."""
        hashes = " ".join(prompt.hash for prompt in self.prompts)
        is_one = len(self.prompts) == 1
        return hashes if is_one else hashlib.sha256(hashes.encode()).hexdigest()[:16]

    @property
    def prompt_version(self) -> str:
        """Names and versions of all prompts, such as `claims.v1+attribution.v1`."""
        return "+".join(f"{prompt.name}.{prompt.version}" for prompt in self.prompts)


def _shown(judge: "Judge", case: Case) -> dict[str, Any]:
    """Return what the model sees of a response, in the judge's order."""
    return {name: case.inputs[name] for name in judge.shows if name in case.inputs}


def _of_answer(judge: "Judge", case: Case, ask: Ask, embed: Any) -> list[Verdict]:
    return ask(judge.prompt, _shown(judge, case))


def _of_facts(judge: "Judge", case: Case, ask: Ask, embed: Any) -> list[Verdict]:
    facts = list(case.key_facts)
    return ask(judge.prompt, _shown(judge, case) | {"facts": numbered(facts)}, facts)


def _of_claims(judge: "Judge", case: Case, ask: Ask, embed: Any) -> list[Verdict]:
    """Extract the claims of the first text that is needed, and check each against the second."""
    checked, source = judge.needs
    # The cache extracts a text's claims once for all judges.
    extracted = ask(_prompt("claims"), {"question": case.question, "text": case.inputs[checked]})
    if not (claims := [claim["item_text"] for claim in extracted]):
        reason = f"no claim in the {in_words(checked)}"
        return [without_value(NOT_MEASURABLE, reason, verdict=NO_CLAIMS)]
    known = case.inputs[source]
    passages = known if source == "context" else numbered([known])
    return ask(judge.prompt, {"source": passages, "claims": numbered(claims)}, claims)


def _of_chunks(judge: "Judge", case: Case, ask: Ask, embed: Any) -> list[Verdict]:
    """Judge each passage in a call of its own, so that a failure leaves the other verdicts."""
    is_all = judge.each == "chunks"
    passages = [one for one in case.context if is_all or not one.is_labelled]
    if not passages:
        return [without_value(NOT_MEASURABLE, "every hit is labelled")]
    rows: list[Verdict] = []
    for passage in passages:
        try:
            verdicts = ask(judge.prompt, _shown(judge, case) | {"passage": passage.text})
        except JudgeFailed as error:
            verdicts = [without_value(FAILED, str(error))]
        rows += [one | {"item": passage.item, "item_text": passage.text} for one in verdicts]
    return rows


def _of_questions(judge: "Judge", case: Case, ask: Ask, embed: Any) -> list[Verdict]:
    """Generate questions from the answer and compare them with the user's question."""
    rows = ask(judge.prompt, _shown(judge, case) | {"n": N_QUESTIONS}, [""] * N_QUESTIONS)
    texts = [case.question, *(row["item_text"] for row in rows)]
    question, others = np.split(np.asarray(embed(texts), dtype="float64"), [1])
    values = cosine_matrix(question, others)[0].tolist()
    if len(values) != len(rows) or not np.isfinite(values).all():
        raise JudgeFailed(f"the embeddings are not {len(texts)} vectors that can be compared")
    return [row | {"value": value} for row, value in zip(rows, values, strict=True)]


# How a judge comes to its verdicts, by the unit that gets one.
VERDICTS = {
    "answer": _of_answer, "facts": _of_facts, "claims": _of_claims, "chunks": _of_chunks,
    "unlabelled": _of_chunks, "questions": _of_questions,
}  # fmt: skip

_ASKED = ("question", "answer")
JUDGES = {
    name: Judge(name, criterion, _prompt(prompt), needs, shows, each)
    for name, criterion, prompt, needs, shows, each in (
        ("groundedness", "judge_groundedness", "groundedness", ("answer", "context"),
         ("question", "context", "answer"), "answer"),
        ("correctness", "judge_correctness", "correctness",
         ("answer", "reference_answer|key_facts"),
         ("question", "reference_answer", "key_facts", "answer"), "answer"),
        ("faithfulness", "faithfulness", "attribution", ("answer", "context"), (), "claims"),
        ("context_precision", "context_precision", "chunk_relevance", ("context",),
         ("question", "reference_answer"), "chunks"),
        ("context_recall", "context_recall", "attribution", ("reference_answer", "context"), (),
         "claims"),
        ("answer_relevance", "answer_relevance", "questions", ("answer",), ("answer",),
         "questions"),
        ("abstention", "judge_refused", "abstention", ("answer",), _ASKED, "answer"),
        ("key_facts", "key_facts", "key_facts", ("answer", "key_facts"), _ASKED, "facts"),
        ("nuggets", "nuggets", "nuggets", ("answer", "key_facts"), _ASKED, "facts"),
        ("relevance", "relevance", "relevance", ("context",), ("question",), "unlabelled"),
        ("claim_precision", "claim_precision", "attribution", ("answer", "reference_answer"), (),
         "claims"),
        ("claim_recall", "claim_recall", "attribution", ("reference_answer", "answer"), (),
         "claims"),
    )
}  # fmt: skip


def find_judges(judges: "str | Judge | Iterable[str | Judge]") -> list[Judge]:
    """Return judges by name; a `Judge` is taken as it is.

    Raises
    ------
    DataError
        An unknown name (near misses are listed), no judge at all, or two judges of one criterion.
    """
    given = [judges] if isinstance(judges, (str, Judge)) else list(judges)
    found = [judge if isinstance(judge, Judge) else get_judge(judge) for judge in given]
    if not found or len({judge.criterion for judge in found}) < len(found):
        raise DataError(
            f"found {[judge.name for judge in found]}",
            field="judges",
            allowed=f"each criterion once, of {', '.join(JUDGES)}",
        )
    return found


def get_judge(name: str) -> Judge:
    """Return one judge by its name, to inspect it or to change its prompt.

    `rs.judging.get_judge("groundedness").with_prompt(text)`.

    Raises
    ------
    DataError
        An unknown name; near misses are listed.
    """
    if isinstance(name, str) and name in JUDGES:
        return JUDGES[name]
    raise DataError(
        f"unknown judge {excerpt(name)}", field="judges", allowed=nearest(name, JUDGES, "some of")
    )


def available_judges() -> pd.DataFrame:
    """List the judges of the library.

    Returns
    -------
    One row per judge: `judge`, the `criterion` that names its judgments and its metric, the inputs
    it `needs`, `each` (the unit that gets a verdict; "answer" is the whole answer),
    `prompt_version` and `prompt_hash`.
    """
    rows = [
        {
            "judge": judge.name,
            "criterion": judge.criterion,
            "needs": ", ".join(judge.needs),
            "each": judge.each,
            "prompt_version": judge.prompt_version,
            "prompt_hash": judge.prompt_hash,
        }
        for judge in JUDGES.values()
    ]
    return pd.DataFrame(rows, dtype="str")
