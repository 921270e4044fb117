"""Passages about the sea and a judge without a model, for examples that run offline.

With twelve queries, a search and two answerers: `plain` gives the best sentence, or says that it
doesn't know; `chatty` says more, and adds a sentence of its own.

The judge judges by shared words: a claim counts as supported if the source holds three quarters of
its words. It knows no synonyms and no negation, so that its verdicts are worth nothing; all that
follows from them is real.
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
PASSAGES = {
    "tides": (
        "The tides follow the moon. Spring tides come at new moon and at full moon. Neap tides come"
        " a week later."
    ),
    "salt": (
        "Sea water holds about 35 grams of salt in a litre. The Dead Sea holds about ten times as"
        " much."
    ),
    "ice": "Sea ice floats because ice is lighter than water. It forms at about minus 1.8 degrees.",
    "waves": (
        "Waves are made by wind. A wave breaks when the water is shallower than about the height of"
        " the wave."
    ),
    "whales": "Whales breathe air. A sperm whale can dive for more than an hour.",
    "coral": (
        "Corals are animals that live in colonies. They bleach when the water is too warm for"
        " weeks."
    ),
    "depth": (
        "The deepest place of the sea is the Challenger Deep. It lies almost eleven kilometres"
        " under the surface."
    ),
    "current": (
        "The Gulf Stream carries warm water to the north east. It begins in the Gulf of Mexico."
    ),
}
_ASKED = [
    ("When do spring tides come?", "Spring tides come at new moon and at full moon.", "tides"),
    ("When do neap tides come?", "Neap tides come a week after spring tides.", "tides"),
    (
        "How much salt does sea water hold?",
        "Sea water holds about 35 grams of salt in a litre.",
        "salt",
    ),
    ("Why does sea ice float?", "Sea ice floats because ice is lighter than water.", "ice"),
    ("What makes waves?", "Waves are made by wind.", "waves"),
    (
        "When does a wave break?",
        "A wave breaks when the water is shallower than about its height.",
        "waves",
    ),
    ("How long can a sperm whale dive?", "A sperm whale can dive for more than an hour.", "whales"),
    ("What are corals?", "Corals are animals that live in colonies.", "coral"),
    (
        "Which is the deepest place of the sea?",
        "The deepest place of the sea is the Challenger Deep.",
        "depth",
    ),
    (
        "Where does the Gulf Stream begin?",
        "The Gulf Stream begins in the Gulf of Mexico.",
        "current",
    ),
]
_UNANSWERABLE = ["Who won the regatta of 1907?", "What is the price of a ferry ticket?"]
GOLDEN: list[dict[str, Any]] = [
    {"id": f"sea-{n:02}", "query": query, "reference_answer": reference, "expected_doc_ids": [doc]}
    for n, (query, reference, doc) in enumerate(_ASKED, 1)
] + [
    {"id": f"sea-{n}", "query": query, "answerable": False}
    for n, query in enumerate(_UNANSWERABLE, len(_ASKED) + 1)
]
"""The rows of a golden file."""
_COMMON = frozenset(
    "a an and at by can do does for how in is it long made much of on the to was what when where"
    " which who why".split()
)


def search(query: str, k: int = 3) -> list[dict[str, Any]]:
    """Return the k passages that share the most words with a query."""
    shared = {name: len(_words(query) & _words(text)) for name, text in PASSAGES.items()}
    best = sorted(shared, key=lambda name: shared[name], reverse=True)[:k]
    return [
        {"chunk_id": name, "doc_id": name, "text": PASSAGES[name], "score": shared[name]}
        for name in best
    ]


def plain(query: str, hits: list[dict[str, Any]]) -> str:
    """Return the best sentence of the best passage, or a refusal if they share one word only."""
    return _best_sentence(query, hits[0]["text"]) if hits[0]["score"] > 1 else "I don't know."


def chatty(query: str, hits: list[dict[str, Any]]) -> str:
    """Return a sentence of each of two passages, and one of no passage."""
    return " ".join(
        [
            *(_best_sentence(query, hit["text"]) for hit in hits[:2]),
            "Sailors have always known such things by heart.",
        ]
    )


def _best_sentence(query: str, text: str) -> str:
    return max(
        (f"{one}." for one in text.rstrip(".").split(". ")),
        key=lambda one: len(_words(query) & _words(one)),
    )


def _words(text: str) -> set[str]:
    return {word.strip(".,?") for word in text.lower().split()} - _COMMON


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
