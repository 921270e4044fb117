"""The shapes of the judges' replies, and one function for each that reads verdicts out of them.

A verdict is a row of the judgments frame in the making: item, value, verdict, reason, item_text.
"""

from typing import Any

from ragscore.judging.replies import ReplyError

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
