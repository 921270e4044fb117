"""A judge without a model: it judges by shared words, for examples and tests that run offline.

A claim counts as supported if the source holds three quarters of its words. It knows no synonyms
and no negation, so that its verdicts are worth nothing; all that follows from them is real.
"""

import json
import re
from typing import Any

Object = dict[str, Any]

SUPPORTED_FROM = 0.75  # share of a claim's words that the source must hold
_REFUSALS = re.compile(
    r"\b(don't know|do not know|can't answer|cannot answer|no information|not in the"
    r" (?:sources|context))\b",
    re.IGNORECASE,
)


def word_judge(messages: list[dict[str, str]], schema: Object, *settings: object) -> str:
    """Return the reply that a schema asks for: `rs.judging.Endpoint("words", call=word_judge)`."""
    return json.dumps(_judged(json.loads(messages[1]["content"]), schema), ensure_ascii=False)


def _judged(shown: Any, schema: Object) -> Object:
    shape = set(schema["required"])
    if "score" in shape:
        source = " ".join(
            [
                *(one["text"] for one in shown.get("context", [])),
                shown.get("reference_answer", ""),
                *shown.get("key_facts", []),
            ]
        )
        claims = sentences(shown["answer"])
        held = [claim for claim in claims if support(claim, source) >= SUPPORTED_FROM]
        score = round(5 * len(held) / max(len(claims), 1))
        others = [claim for claim in claims if claim not in held]
        return {
            "reasoning": f"{len(held)} of {len(claims)} sentences",
            "supported_claims": held,
            "unsupported_claims": others,
            "score": score,
        }
    if "claims" in shape:
        return {"claims": [] if _REFUSALS.search(shown["text"]) else sentences(shown["text"])}
    if "verdicts" in shape:
        is_graded = "verdict" in schema["properties"]["verdicts"]["items"]["required"]
        source = (
            " ".join(one["text"] for one in shown["source"])
            if "source" in shown
            else shown["answer"]
        )
        items = shown.get("claims", shown.get("facts"))
        return {"verdicts": [_verdict(one, source, is_graded) for one in items]}
    if "grade" in shape:
        share = support(shown["question"], shown["passage"])
        return {"reason": f"{share:.0%} of the words", "grade": min(3, int(4 * share))}
    if "relevant" in shape:
        share = support(shown.get("reference_answer", shown["question"]), shown["passage"])
        return {"reason": f"{share:.0%} of the words", "relevant": share >= SUPPORTED_FROM / 2}
    if "questions" in shape:
        return {
            "questions": [
                f"{start} {shown['answer']}" for start in ("What is", "Why is", "How is")
            ][: shown["n"]]
        }
    return {"reason": "by its words", "abstained": bool(_REFUSALS.search(shown["answer"]))}


def _verdict(one: Object, source: str, is_graded: bool) -> Object:
    share = support(one["text"], source)
    found: Object = {"n": one["n"], "reason": f"{share:.0%} of the words"}
    if not is_graded:
        return found | {"supported": share >= SUPPORTED_FROM}
    words = "support" if share >= SUPPORTED_FROM else "partial_support" if share else "not_support"
    return found | {"verdict": words}


def support(claim: str, source: str) -> float:
    """Return the share of a claim's words that a source holds."""
    wanted = set(words(claim))
    return len(wanted & set(words(source))) / max(len(wanted), 1)


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return re.findall(r"\w+", text.casefold())


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [one.strip() for one in re.split(r"(?<=[.!?])\s+", text) if words(one)]
