"""The judges, as data.

What each one is shown, what it is asked, the shape of its reply and the function that reads it.

A prompt is a text file beside this module, named after what it asks and its version; its hash
covers the text and the shape of the reply, and stands in every judgment that it led to.

A model's reply -> the JSON object it was asked for, or a `ReplyError` that says why it is not one.

A reply is taken whole: as JSON, or as one block of code that holds JSON. JSON with prose around it
is taken only if there is one object, and not if that object stands in what the model was shown: it
may be a quotation.

The shapes of the judges' replies, and one function for each that reads verdicts out of them.

A verdict is a row of the judgments frame in the making: item, value, verdict, reason, item_text.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from importlib.resources import files
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError

_FENCED = re.compile(r"```(?:json|JSON)?\s*\n((?:(?!```).)*)\n\s*```", re.DOTALL)
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_NO_OBJECT = "the reply is not a JSON object"


class ReplyError(Exception):
    """The reply can't be used; the message quotes nothing of it."""


def read_reply(text: str, schema: dict[str, Any], shown: str) -> tuple[dict[str, Any], bool]:
    """The object that a reply consists of, and whether something had to be taken off it.

    Parameters
    ----------
    schema
        The JSON schema that the object must fit.
    shown
        What the model was shown to judge.

    Raises
    ------
    ReplyError
        No JSON object, more than one, one that may be a quotation, a key twice, or one that doesn't
        fit the schema.
    """
    bare = _THOUGHTS.sub("", text, count=1).strip()
    if not bare:
        raise ReplyError("the reply is empty")
    fenced = _FENCED.fullmatch(bare)
    whole = fenced[1] if fenced else bare
    try:
        value = strict_json(whole)
        repaired = fenced is not None
    except ValueError:
        value, repaired = _within_prose(bare, shown), True
    _check(value, schema)
    return value, repaired


def strict_json(text: str) -> Any:
    """JSON, each key once and without NaN or Infinity."""
    return json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)


def _within_prose(text: str, shown: str) -> Any:
    found = list(_objects(text))
    if len(found) != 1:
        raise ReplyError(_NO_OBJECT if not found else f"the reply holds {len(found)} JSON objects")
    if _squeezed(found[0]) in _squeezed(shown):
        raise ReplyError("the reply quotes a JSON object of the material instead of giving its own")
    try:
        return strict_json(found[0])
    except ValueError as error:
        raise ReplyError(f"the reply's JSON is not valid: {error}") from None


def _objects(text: str) -> list[str]:
    """The outermost JSON objects in a text."""
    found, place, decode = [], text.find("{"), json.JSONDecoder().raw_decode
    while place >= 0:
        try:
            end = decode(text, place)[1]
            found.append(text[place:end])
        except (ValueError, RecursionError):
            end = place + 1
        place = text.find("{", end)
    return found


def _check(value: Any, schema: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator

    if not isinstance(value, dict):
        raise ReplyError(_NO_OBJECT)
    for error in Draft202012Validator(schema).iter_errors(value):
        raise ReplyError(
            f"the reply doesn't fit its schema at {error.json_path}: {error.validator}"
            f" {json.dumps(error.validator_value)[:200]}"
        )


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands there twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _squeezed(text: str) -> str:
    return "".join(text.split())


Verdict = dict[str, Any]


def _object(**fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}
_POINTS = _object(
    reasoning=_TEXT,
    supported_claims=_TEXTS,
    unsupported_claims=_TEXTS,
    score={"type": "integer", "minimum": 0, "maximum": 5},
)
_NUMBERED = _object(
    verdicts={
        "type": "array",
        "items": _object(n={"type": "integer"}, reason=_TEXT, supported=_FLAG),
    }
)

SHAPES = {
    "groundedness": _POINTS,
    "correctness": _POINTS,
    "claims": _object(claims=_TEXTS),
    "attribution": _NUMBERED,
    "key_facts": _NUMBERED,
    "chunk_relevance": _object(reason=_TEXT, relevant=_FLAG),
    "questions": _object(questions=_TEXTS),
    "abstention": _object(reason=_TEXT, abstained=_FLAG),
}
"""Prompt -> JSON schema of its reply, in the order in which a model should write: reasons before verdicts."""


def points(reply: dict[str, Any], items: list[str]) -> list[Verdict]:
    """Points of the whole answer, and a row for each claim that the judge lists."""
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


def claims(reply: dict[str, Any], items: list[str]) -> list[Verdict]:
    """The claims that were found, blank ones left out; no verdict yet."""
    return [{"item_text": claim} for claim in reply["claims"] if claim.strip()]


def supported(reply: dict[str, Any], items: list[str]) -> list[Verdict]:
    """One verdict for each numbered item."""
    by_number = {one["n"]: one for one in reply["verdicts"]}
    if sorted(one["n"] for one in reply["verdicts"]) != list(range(1, len(items) + 1)):
        raise ReplyError(f"the reply must give each of the numbers 1 to {len(items)} one verdict")
    return [
        {"item": str(n), "value": float(one["supported"]),
        "verdict": "supported" if one["supported"] else "unsupported", "reason": one["reason"],
        "item_text": text}
        for n, text in enumerate(items, 1)
        if (one := by_number[n])
    ]  # fmt: skip


def chunk_verdict(reply: dict[str, Any], items: list[str]) -> list[Verdict]:
    """Whether the one passage shown is relevant."""
    return [
        {
            "value": float(reply["relevant"]),
            "verdict": "relevant" if reply["relevant"] else "irrelevant",
            "reason": reply["reason"],
        }
    ]


def refusal_verdict(reply: dict[str, Any], items: list[str]) -> list[Verdict]:
    """Whether the answer refuses."""
    return [
        {
            "item": "",
            "value": float(reply["abstained"]),
            "verdict": "abstained" if reply["abstained"] else "answered",
            "reason": reply["reason"],
        }
    ]


def stated(reply: dict[str, Any], items: list[str]) -> list[Verdict]:
    """The generated questions; their values come from embeddings."""
    if len(reply["questions"]) != len(items) or not all(
        text.strip() for text in reply["questions"]
    ):
        raise ReplyError(f"the reply must hold {len(items)} questions")
    return [{"item": str(n), "item_text": text} for n, text in enumerate(reply["questions"], 1)]


Parse = Callable[[dict[str, Any], list[str]], list[Verdict]]
N_QUESTIONS = 3  # that answer relevance generates, as RAGAS does


@dataclass(frozen=True)
class Prompt:
    """What a model is told, its version, and the JSON schema of the reply."""

    name: str
    version: str
    text: str
    schema: dict[str, Any]

    @cached_property
    def hash(self) -> str:
        """A hash of the text and of the reply's shape."""
        return hashlib.sha256(
            json.dumps([self.text, self.schema], sort_keys=True, ensure_ascii=False).encode()
        ).hexdigest()[:16]


@dataclass(frozen=True)
class Judge:
    """One judge.

    Attributes
    ----------
    name, criterion
        What it is called, and under which name its judgments stand in the frame and its scores
        among the metrics.
    prompt
        What it is asked.
    needs
        Without which it isn't asked: answer, context, reference, key_facts; `a|b` is either.
    shows
        What the prompt sees, of: question, answer, context, reference_answer, key_facts.
    parse
        Reads the reply's object, given the items that were judged; returns the verdicts.
    each
        What gets a verdict of its own: "" the answer, "claims", "facts" (one call for all),
        "chunks" (a call for each) or "questions" (generated, then compared with the question by
        their embeddings).
    claims_of, source
        Whose claims ("answer" or "reference"), and what should support them ("context", "reference"
        or "answer").
    claims
        The prompt that finds the claims.
    """

    name: str
    criterion: str
    prompt: Prompt
    needs: tuple[str, ...]
    parse: Parse
    shows: tuple[str, ...] = ()
    each: str = ""
    claims_of: str = ""
    source: str = ""
    claims: Prompt | None = None

    def with_prompt(self, text: str, version: str = "own") -> "Judge":
        """The same judge with another wording; the shape of its reply stays."""
        return replace(self, prompt=replace(self.prompt, text=text, version=version))

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """Every prompt that it uses."""
        return (self.claims, self.prompt) if self.claims else (self.prompt,)

    @property
    def prompt_hash(self) -> str:
        """One hash of everything that it asks."""
        if len(self.prompts) == 1:
            return self.prompt.hash
        return hashlib.sha256(
            " ".join(prompt.hash for prompt in self.prompts).encode()
        ).hexdigest()[:16]

    @property
    def prompt_version(self) -> str:
        """Names and versions of its prompts."""
        return "+".join(f"{prompt.name}.{prompt.version}" for prompt in self.prompts)


def _prompt(name: str, version: str = "v1") -> Prompt:
    text = (
        files("ragscore.judging")
        .joinpath("prompts", f"{name}.{version}.md")
        .read_text(encoding="utf-8")
    )
    return Prompt(name, version, text, SHAPES[name])


def _of_claims(name: str, claims_of: str, source: str) -> Judge:
    needs = tuple(dict.fromkeys((claims_of, source)))
    return Judge(
        name,
        name,
        _prompt("attribution"),
        needs,
        supported,
        each="claims",
        claims_of=claims_of,
        source=source,
        claims=_prompt("claims"),
    )


def _all() -> list[Judge]:
    asked = ("question", "answer")
    return [
        Judge("groundedness", "judge_groundedness", _prompt("groundedness"), ("answer", "context"),
        points, ("question", "context", "answer")),
        Judge("correctness", "judge_correctness", _prompt("correctness"),
        ("answer", "reference|key_facts"), points,
        ("question", "reference_answer", "key_facts", "answer")),
        _of_claims("faithfulness", "answer", "context"),
        Judge("context_precision", "context_precision", _prompt("chunk_relevance"), ("context",),
        chunk_verdict, ("question", "reference_answer"), each="chunks"),
        _of_claims("context_recall", "reference", "context"),
        Judge("answer_relevance", "answer_relevance", _prompt("questions"), ("answer",), stated,
        ("answer",), each="questions"),
        Judge("abstention", "judge_refused", _prompt("abstention"), ("answer",), refusal_verdict,
        asked),
        Judge("key_facts", "key_facts", _prompt("key_facts"), ("answer", "key_facts"), supported,
        asked, each="facts"),
        _of_claims("claim_precision", "answer", "reference"),
        _of_claims("claim_recall", "reference", "answer"),
    ]  # fmt: skip


JUDGES = {judge.name: judge for judge in _all()}


def find_judges(wanted: "str | Judge | Iterable[str | Judge]") -> list[Judge]:
    """Judges by name, or as they are given.

    Raises
    ------
    DataError
        A name that no judge has (near misses are named), none at all, or two judges of one
        criterion.
    """
    given = [wanted] if isinstance(wanted, (str, Judge)) else list(wanted)
    found = [one if isinstance(one, Judge) else _named(one) for one in given]
    criteria = [judge.criterion for judge in found]
    if not found or len(set(criteria)) < len(criteria):
        raise DataError(
            f"found {[judge.name for judge in found]}",
            field="judges",
            allowed=f"each criterion once, of {', '.join(JUDGES)}",
        )
    return found


def find_judge(name: str) -> Judge:
    """One judge by its name, to look at or to give another wording.

    `rs.find_judge("groundedness").with_prompt(text)`.
    """
    return _named(name)


def judge_table() -> pd.DataFrame:
    """The judges that come with the library.

    Returns
    -------
    One row per judge: `judge`, the `criterion` under which its judgments and its metric stand, what
    it `needs`, what gets a verdict of its own (`each`; "" is the answer as a whole),
    `prompt_version` and `prompt_hash`.
    """
    rows = [
        (
            j.name,
            j.criterion,
            ", ".join(j.needs),
            j.each or "answer",
            j.prompt_version,
            j.prompt_hash,
        )
        for j in JUDGES.values()
    ]
    return pd.DataFrame(
        rows,
        columns=["judge", "criterion", "needs", "each", "prompt_version", "prompt_hash"],
        dtype="str",
    )


def _named(name: object) -> Judge:
    if not isinstance(name, str) or name not in JUDGES:
        close = get_close_matches(str(name), JUDGES, n=2)
        raise DataError(
            f"unknown judge {name!r}",
            field="judges",
            allowed=(
                f"did you mean {', '.join(close)}?" if close else f"some of {', '.join(JUDGES)}"
            ),
        )
    return JUDGES[name]
