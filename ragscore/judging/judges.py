"""The judges as data: prompt, reply schema, and the function that reads verdicts from a reply.

In: a model's reply as text. Out: verdicts, or a `JudgeFailed` that says why the reply is unusable.
Each prompt is a text file in `prompts/`, named after its task and version. Its hash covers text
and reply schema and is part of every judgment.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt, nearest
from ragscore.frames.kinds import WORTH
from ragscore.io.source import parse_json

N_QUESTIONS = 3  # questions that answer relevance generates, as RAGAS does
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)

# A row of the judgments frame without its keys: item, value, verdict, reason, item_text.
Verdict = dict[str, Any]
# A reply's object and the items that were judged -> one verdict per item.
ParseReply = Callable[[dict[str, Any], list[str]], list[Verdict]]


class JudgeFailed(Exception):
    """No verdict: the call failed after all retries, or the reply is unusable.

    The message never quotes a reply.
    """


def digest(content: Any) -> str:
    """Return the SHA-256 hash of JSON content."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_reply(text: str, schema: dict[str, Any], shown: str) -> dict[str, Any]:
    """Return the JSON object in a reply; text around it is taken off.

    An object that occurs in what the model was shown is not accepted: it may be a quote.

    Parameters
    ----------
    schema
        The JSON schema that the object must match.
    shown
        The text that the model was shown.

    Raises
    ------
    JudgeFailed
        The reply has no object, several, a possible quote, a duplicate key, or does not match the
        schema.
    """
    from jsonschema import Draft202012Validator

    bare = _THOUGHTS.sub("", text, count=1)
    written = bare[max(bare.find("{"), 0) : bare.rfind("}") + 1]
    try:
        value: dict[str, Any] = parse_json(written)
        in_json = json.dumps(value, ensure_ascii=False)
        faults = [*Draft202012Validator(schema).iter_errors(value)]
    except (ValueError, RecursionError) as error:
        raise JudgeFailed(f"the reply is not one JSON object ({type(error).__name__})") from None
    material = "".join(shown.split())
    if any("".join(form.split()) in material for form in (written, in_json)):
        raise JudgeFailed(
            "the reply quotes a JSON object of the material instead of giving its own"
        )
    if faults:
        rule = f"{faults[0].validator} {json.dumps(faults[0].validator_value)}"
        raise JudgeFailed(f"the reply doesn't fit its schema at {faults[0].json_path}: {rule}")
    return value


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
# A model writes fields in the order of the schema, so reasons come before verdicts.
SCHEMAS = {
    "groundedness": _POINTS,
    "correctness": _POINTS,
    "claims": _object(claims=_TEXTS),
    "attribution": _SUPPORT,
    "key_facts": _SUPPORT,
    "nuggets": _ASSIGNED,
    "relevance": _object(reason=_TEXT, grade={"type": "integer", "minimum": 0, "maximum": 3}),
    "chunk_relevance": _object(reason=_TEXT, relevant=_FLAG),
    "questions": _object(questions=_TEXTS),
    "abstention": _object(reason=_TEXT, abstained=_FLAG),
}


def parse_points(reply: dict[str, Any], items: list[str]) -> list[Verdict]:
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


def parse_claims(reply: dict[str, Any], items: list[str]) -> list[Verdict]:
    """Return the extracted claims without blank ones; they have no verdict yet."""
    return [{"item_text": claim} for claim in reply["claims"] if claim.strip()]


def parse_each(reply: dict[str, Any], items: list[str]) -> list[Verdict]:
    """Return one verdict per numbered item."""
    found = sorted(reply["verdicts"], key=lambda entry: entry["n"])
    if [entry["n"] for entry in found] != list(range(1, len(items) + 1)):
        raise JudgeFailed(f"the reply must give each of the numbers 1 to {len(items)} one verdict")
    return [
        {"item": str(entry["n"]), "item_text": text} | _verdict(entry)
        for entry, text in zip(found, items, strict=True)
    ]


def parse_one(reply: dict[str, Any], items: list[str]) -> list[Verdict]:
    """Return the only verdict of a reply."""
    return [_verdict(reply)]


def parse_questions(reply: dict[str, Any], items: list[str]) -> list[Verdict]:
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


@dataclass(frozen=True)
class Prompt:
    """The system message for a model, its version, and the JSON schema of the reply."""

    name: str
    version: str
    text: str
    schema: dict[str, Any]

    @cached_property
    def hash(self) -> str:
        """Hash of text and schema."""
        return digest([self.text, self.schema])[:16]


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
        Inputs without which a response is skipped: answer, context, reference, key_facts. `a|b`
        means either.
    shows
        Inputs that the model sees: question, answer, context, reference_answer, key_facts.
    parse
        Function from a reply's object and the judged items to verdicts.
    each
        The unit that gets a verdict: "" the whole answer, "claims", "facts" (one call for all),
        "chunks" (one call each), "unlabelled" (chunks that nobody labelled), or "questions"
        (generated from the answer, then compared with the user's question by embeddings).
    claims_of, source
        The text whose claims are checked ("answer" or "reference"), and the text that should
        support them ("context", "reference" or "answer").
    claims
        The prompt that extracts the claims.
    """

    name: str
    criterion: str
    prompt: Prompt
    needs: tuple[str, ...]
    parse: ParseReply
    shows: tuple[str, ...] = ()
    each: str = ""
    claims_of: str = ""
    source: str = ""
    claims: Prompt | None = None

    def with_prompt(self, text: str, version: str = "own") -> "Judge":
        """Return the same judge with another prompt text; the reply schema stays."""
        return replace(self, prompt=replace(self.prompt, text=text, version=version))

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """All prompts in the order of use."""
        return (self.claims, self.prompt) if self.claims else (self.prompt,)

    @property
    def prompt_hash(self) -> str:
        """One hash of all prompts."""
        hashes = " ".join(prompt.hash for prompt in self.prompts)
        return hashlib.sha256(hashes.encode()).hexdigest()[:16] if self.claims else hashes

    @property
    def prompt_version(self) -> str:
        """Names and versions of all prompts, such as `claims.v1+attribution.v1`."""
        return "+".join(f"{prompt.name}.{prompt.version}" for prompt in self.prompts)


def _prompt(name: str) -> Prompt:
    file = files("ragscore.judging").joinpath("prompts", f"{name}.v1.md")
    return Prompt(name, "v1", file.read_text(encoding="utf-8"), SCHEMAS[name])


def _claim_judge(name: str, claims_of: str, source: str) -> Judge:
    """Return a judge that checks the claims of one text against another."""
    return Judge(name, name, _prompt("attribution"), (claims_of, source), parse_each,
    each="claims", claims_of=claims_of, source=source, claims=_prompt("claims"))  # fmt: skip


_ASKED = ("question", "answer")
JUDGES = {
    judge.name: judge
    for judge in (
        Judge("groundedness", "judge_groundedness", _prompt("groundedness"), ("answer", "context"),
        parse_points, ("question", "context", "answer")),
        Judge("correctness", "judge_correctness", _prompt("correctness"),
        ("answer", "reference|key_facts"), parse_points,
        ("question", "reference_answer", "key_facts", "answer")),
        _claim_judge("faithfulness", "answer", "context"),
        Judge("context_precision", "context_precision", _prompt("chunk_relevance"), ("context",),
        parse_one, ("question", "reference_answer"), each="chunks"),
        _claim_judge("context_recall", "reference", "context"),
        Judge("answer_relevance", "answer_relevance", _prompt("questions"), ("answer",),
        parse_questions, ("answer",), each="questions"),
        Judge("abstention", "judge_refused", _prompt("abstention"), ("answer",), parse_one,
        _ASKED),
        Judge("key_facts", "key_facts", _prompt("key_facts"), ("answer", "key_facts"),
        parse_each, _ASKED, each="facts"),
        Judge("nuggets", "nuggets", _prompt("nuggets"), ("answer", "key_facts"),
        parse_each, _ASKED, each="facts"),
        Judge("relevance", "relevance", _prompt("relevance"), ("context",), parse_one,
        ("question",), each="unlabelled"),
        _claim_judge("claim_precision", "answer", "reference"),
        _claim_judge("claim_recall", "reference", "answer"),
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
            "each": judge.each or "answer",
            "prompt_version": judge.prompt_version,
            "prompt_hash": judge.prompt_hash,
        }
        for judge in JUDGES.values()
    ]
    return pd.DataFrame(rows, dtype="str")
