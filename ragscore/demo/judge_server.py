"""A judge without a model: a local server of the OpenAI chat and embeddings API.

It judges by shared words, for examples and tests that must run offline. A claim counts as supported
if the source holds three quarters of its words. It knows no synonyms and no negation, so that its
verdicts are worth nothing; requests, replies and all that follows are real.
"""

import json
import re
import zlib

from ragscore.demo.local import LocalServer, Object, Reply

SUPPORTED_FROM = 0.75  # share of a claim's words that the source must hold
_REFUSALS = re.compile(
    r"\b(don't know|do not know|can't answer|cannot answer|no information|not in the"
    r" (?:sources|context))\b",
    re.IGNORECASE,
)
_DIMENSIONS = 256


class JudgeServer(LocalServer):
    """Serve on a free port of 127.0.0.1 until closed, to programs of this machine.

    `with JudgeServer() as server: rs.judging.Endpoint("words", base_url=server.url)`.

    Attributes
    ----------
    url
        The base URL of its API.
    requests
        The body of every request, in the order of arrival.
    """

    def __init__(self) -> None:
        self.requests: list[Object] = []
        super().__init__()
        self.url += "/v1"

    def answer(self, address: str, content: bytes) -> Reply:
        """Return status and body of the reply to a request, or what is wrong with it."""
        try:
            self.requests.append(body := json.loads(content))
            return 200, replied(address, body)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            return 400, {"error": {"message": f"no request of a judge ({type(error).__name__})"}}


def replied(address: str, body: Object) -> Object:
    """Return the reply to a request for a judgment or for embeddings."""
    if address.endswith("/embeddings"):
        return embedded(body)
    return completed(body, json.dumps(judged(body), ensure_ascii=False))


def completed(body: Object, text: str, finish: str = "stop") -> Object:
    """Return a chat completion with this text."""
    asked = sum(len(message["content"]) for message in body["messages"]) // 4
    usage = {
        "prompt_tokens": asked,
        "completion_tokens": len(text) // 4,
        "total_tokens": asked + len(text) // 4,
    }
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": finish,
    }
    return {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [choice],
        "usage": usage,
    }


def embedded(body: Object) -> Object:
    """Return an embeddings reply: word counts as vectors."""
    data = [
        {"object": "embedding", "index": n, "embedding": vector(text)}
        for n, text in enumerate(body["input"])
    ]
    tokens = sum(len(text) for text in body["input"]) // 4
    return {
        "object": "list",
        "model": body["model"],
        "data": data,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def vector(text: str) -> list[float]:
    """Return the counts of a text's words, by the hash of each word."""
    counts = [0.0] * _DIMENSIONS
    for word in words(text):
        counts[zlib.crc32(word.encode()) % _DIMENSIONS] += 1
    return counts


def judged(body: Object) -> Object:
    """Return the reply that the request's schema asks for, judged by shared words."""
    shown = json.loads(body["messages"][1]["content"])
    shape = set(body["response_format"]["json_schema"]["schema"]["required"])
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
        verdicts = body["response_format"]["json_schema"]["schema"]["properties"]["verdicts"]
        is_graded = "verdict" in verdicts["items"]["required"]
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
