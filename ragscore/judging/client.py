"""Judgments: one judge on one response, asked through the cache and within the budget.

In: cases and judges. Out: verdicts, with the tokens and costs they took. The rubric is the system
message, and the judged texts are one JSON object in the user message. A judged text therefore
cannot pose as an instruction, whatever it contains.
"""

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ragscore.frames.kinds import FAILED, NO_CLAIMS, NOT_MEASURABLE
from ragscore.judging.cache import Cache, digest
from ragscore.judging.cases import Case
from ragscore.judging.endpoint import (
    CallsStopped,
    CostTracker,
    EndpointClient,
    EndpointUnusable,
    JudgeFailed,
    Reply,
    Vectors,
    matrix,
    valid_text,
)
from ragscore.judging.judges import (
    N_QUESTIONS,
    Judge,
    Prompt,
    ReplyError,
    Verdict,
    parse_claims,
    read_reply,
)
from ragscore.stats.similarity import cosine_matrix

_TEXTS = ("item", "verdict", "reason", "item_text", "state")
_LONGEST_REASON = 1_000
_QUOTED = 20_000  # characters of an unusable reply that its model is shown
FORMAT = 1  # version of the messages, part of every cache key: other messages get other replies
_NAMES = {
    "answer": "answer",
    "context": "context",
    "reference": "reference answer",
    "key_facts": "key facts",
}
T = TypeVar("T")
Payload = dict[str, Any]


@dataclass
class Judgment:
    """One judge on one response, in one repeat.

    Attributes
    ----------
    state, reason
        The state in the judge log, and the reason for any state but "scored".
    verdicts
        One row per judged item.
    usage
        Calls, tokens and costs of this time, by their names in the judge log.
    reply_usage
        Tokens and costs of the replies when they were made; cached replies count too.
    """

    case: Case
    judge: Judge
    repeat: int
    state: str = ""
    reason: str | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    usage: Counter[str] = field(default_factory=Counter)
    reply_usage: Counter[str] = field(default_factory=Counter)


def skip_reason(case: Case, judge: Judge, refused: str) -> str | None:
    """Return the reason for not judging a response at all, or None."""
    if case.failed:
        return "the query failed"
    if case.n_textless and "context" in judge.needs:
        return f"{case.n_textless} hits without a text"
    if missing := [need for need in judge.needs if not case.has(need)]:
        names = [_NAMES[name] for name in missing[0].split("|")]
        return f"no {names[0]}" if len(names) == 1 else f"neither {' nor '.join(names)}"
    if refused == "skip" and case.refused and "answer" in judge.needs:
        # only this judge looks at refusals
        return None if judge.criterion == "judge_refused" else "the system refused"
    return None


def run_judgment(judgment: Judgment, client: "JudgeClient") -> None:
    """Ask the judge and fill in verdicts and state.

    A failed judgment gets the value NaN, its state and its reason.
    """
    redactor = client.connection.redactor
    try:
        verdicts = [_checked(verdict) for verdict in _verdicts(judgment, client)]
        if len({verdict["item"] for verdict in verdicts}) < len(verdicts):
            raise TypeError("two verdicts on one item")
    except (JudgeFailed, ReplyError) as error:
        verdicts = [_failed(str(error))]
    except (CallsStopped, EndpointUnusable):
        raise
    # A judge's own function, an embedding or a fault of ours ends one judgment, not all of them.
    except Exception as error:
        verdicts = [_failed(f"{type(error).__name__} in judging: {error}")]
    # A reply may escape what it echoes, and a judge's own function may quote anything.
    verdicts = [redactor.values(verdict) for verdict in verdicts]
    reasons = {}
    for verdict in reversed(verdicts):  # the first of each state tells
        if verdict.setdefault("state", "scored") == FAILED:
            verdict["reason"] = redactor.excerpt(verdict.get("reason") or "", _LONGEST_REASON)
        reasons[verdict["state"]] = verdict.get("reason")
    state = next((one for one in (FAILED, NOT_MEASURABLE) if one in reasons), "scored")
    # The state comes last: who stops to look at what there is finds judgments whole.
    judgment.verdicts, judgment.reason = verdicts, None if state == "scored" else reasons[state]
    judgment.state = state


def _verdicts(judgment: Judgment, client: "JudgeClient") -> list[Verdict]:
    judge, shown = judgment.judge, _shown(judgment)
    if judge.each == "":
        return client.ask(judgment, shown)
    if judge.each == "facts":
        facts = list(judgment.case.key_facts)
        return client.ask(judgment, shown | {"facts": _numbered(facts)}, facts)
    if judge.each == "claims":
        return _claims(judgment, client)
    return _questions(judgment, client) if judge.each == "questions" else _chunks(judgment, client)


def _checked(verdict: Verdict) -> Verdict:
    """Return a verdict that the judgments frame takes; a judge's own function may give any."""
    value = verdict.get("value")
    texts = [verdict[name] for name in _TEXTS if verdict.get(name) is not None]
    others = [name for name in verdict if name not in ("value", *_TEXTS)]
    if others or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"a verdict has a value and texts: {', '.join(_TEXTS)}")
    "".join(texts).encode()  # raises at half a character, which no file takes
    number = math.nan if value is None else float(value)
    return verdict | {"item": verdict.get("item") or "", "value": number}


def _failed(reason: str) -> Verdict:
    return {"item": "", "value": math.nan, "state": FAILED, "reason": valid_text(reason)}


def _not_measurable(reason: str, verdict: str | None = None) -> list[Verdict]:
    found: Verdict = {"item": "", "value": math.nan, "state": NOT_MEASURABLE, "reason": reason}
    return [found | ({"verdict": verdict} if verdict else {})]


def _claims(judgment: Judgment, client: "JudgeClient") -> list[Verdict]:
    """Extract the claims of one text and check each against another text."""
    case, judge = judgment.case, judgment.judge
    text = case.answer if judge.claims_of == "answer" else case.reference
    payload = {"question": case.question, "text": text}
    # All judges share the name "claims", so the cache extracts a text's claims once.
    extracted = client.ask(judgment, payload, asked=("claims", judge.claims, parse_claims))
    if not (claims := [claim["item_text"] for claim in extracted]):
        return _not_measurable(f"no claim in the {_NAMES[judge.claims_of]}", NO_CLAIMS)
    source = _source(case, judge.source)
    return client.ask(judgment, {"source": source, "claims": _numbered(claims)}, claims)


def _chunks(judgment: Judgment, client: "JudgeClient") -> list[Verdict]:
    """Judge each passage in a call of its own, so that a failure leaves the other verdicts."""
    rows: list[Verdict] = []
    is_all = judgment.judge.each == "chunks"
    passages = [one for one in judgment.case.context if is_all or not one.is_labelled]
    if not passages:
        return _not_measurable("every hit is labelled")
    for passage in passages:
        try:
            verdicts = client.ask(judgment, _shown(judgment) | {"passage": passage.text})
        except JudgeFailed as error:
            verdicts = [_failed(str(error))]
        rows += [one | {"item": passage.item, "item_text": passage.text} for one in verdicts]
    return rows


def _questions(judgment: Judgment, client: "JudgeClient") -> list[Verdict]:
    """Generate questions from the answer and compare them with the user's question."""
    payload = _shown(judgment) | {"n": N_QUESTIONS}
    rows = client.ask(judgment, payload, [""] * N_QUESTIONS)
    vectors = client.embed(judgment, [judgment.case.question, *(row["item_text"] for row in rows)])
    values = cosine_matrix(vectors[:1], vectors[1:])[0].tolist()
    if not np.isfinite(values).all():
        raise JudgeFailed("the embeddings are too large to be compared")
    return [row | {"value": value} for row, value in zip(rows, values, strict=True)]


def _shown(judgment: Judgment) -> Payload:
    """Return what the judge shows of the response, in its order and without unknown fields."""
    case = judgment.case
    known: dict[str, Any] = {
        "question": case.question,
        "answer": case.answer,
        "context": _source(case, "context"),
        "reference_answer": case.reference,
        "key_facts": list(case.key_facts) or None,
    }
    return {name: known[name] for name in judgment.judge.shows if known[name] is not None}


def _source(case: Case, name: str) -> list[dict[str, Any]]:
    one = {"reference": case.reference, "answer": case.answer}.get(name) or ""
    return _numbered([hit.text for hit in case.context] if name == "context" else [one])


def _numbered(texts: list[str]) -> list[dict[str, Any]]:
    return [{"n": n, "text": text} for n, text in enumerate(texts, 1)]


@dataclass(frozen=True)
class JudgeClient:
    """An endpoint with a cache of replies and a cost limit.

    `ask` and `embed` add to the usage of the judgment. They raise `JudgeFailed` if the call failed
    or the reply is unusable, and `CallsStopped` if no further call is to be made.
    """

    connection: EndpointClient
    cache: Cache
    costs: CostTracker

    def ask(
        self,
        judgment: Judgment,
        payload: Payload,
        items: list[str] | None = None,
        *,
        asked: Any = None,
    ) -> list[Verdict]:
        """Return the verdicts of one reply; `asked` replaces the judge's name, prompt and parse."""
        judge, endpoint = judgment.judge, self.connection.endpoint
        name, prompt, parse = asked or (judge.name, judge.prompt, judge.parse)
        settings = [
            endpoint.address, endpoint.model, endpoint.temperature, endpoint.seed,
            endpoint.structured, endpoint.options,
        ]  # fmt: skip
        shown = "\n".join(_texts(payload))

        def read(text: str) -> list[Verdict]:
            return parse(read_reply(text, prompt.schema, shown), items or [])

        key = [FORMAT, name, prompt.hash, settings, judgment.repeat, payload]
        request = partial(self._usable_reply, judgment, prompt, payload, read)
        return self._cached(judgment, endpoint.model, key, request, read)

    def embed(self, judgment: Judgment, texts: list[str]) -> Vectors:
        """Return a matrix with one row per text."""
        endpoint = self.connection.endpoint
        if callable(endpoint.embedding):
            return matrix(endpoint.embedding(texts), len(texts))
        model = str(endpoint.embedding)

        def request() -> Reply:
            reply = self._paid(judgment, model, partial(self.connection.embed, texts))
            if reply.fault:
                raise JudgeFailed(reply.fault)
            return reply

        key = [FORMAT, "embedding", endpoint.address, endpoint.embedding, texts]
        return self._cached(
            judgment, model, key, request, lambda text: matrix(json.loads(text), len(texts))
        )

    def _cached(
        self,
        judgment: Judgment,
        model: str,
        key: list[Any],
        request: Callable[[], Reply],
        read: Callable[[str], T],
    ) -> T:
        """Return what is read from a reply, which is requested if none is stored that can be."""
        value, reply, is_free = self.cache.get_or_ask(digest(key), request, read)
        judgment.usage["n_cached"] += is_free
        judgment.reply_usage.update(self.costs.usage(model, reply))
        return value

    def _usable_reply(
        self,
        judgment: Judgment,
        prompt: Prompt,
        payload: Payload,
        read: Callable[[str], list[Verdict]],
    ) -> Reply:
        """Request a reply; if it is unusable, name the fault and request it once more."""
        endpoint, replies = self.connection.endpoint, list[Reply]()
        seed = None if endpoint.seed is None else endpoint.seed + judgment.repeat - 1
        text = prompt.text
        if endpoint.structured != "json_schema":
            text += f"\nThe reply's JSON schema: {json.dumps(prompt.schema)}\n"
        messages = [
            {"role": "system", "content": text},
            {"role": "user", "content": json.dumps(payload, ensure_ascii=False, indent=1)},
        ]
        for attempt in (1, 2):
            call = partial(self.connection.chat, messages, prompt.name, prompt.schema, seed)
            reply = self._paid(judgment, endpoint.model, call)
            replies.append(reply)
            judgment.usage["n_repairs"] += attempt == 2
            try:
                if reply.fault:
                    raise ReplyError(reply.fault)
                read(reply.content)
                sent = [one.prompt_tokens for one in replies]
                got = [one.completion_tokens for one in replies]
                n_sent, n_got = (None if None in one else sum(one) for one in (sent, got))  # type: ignore[arg-type]
                return Reply(reply.content, n_sent, n_got)
            except ReplyError as error:
                fault = str(error)
            repair = (
                f"Your reply can't be used: {fault}. Reply again, with one JSON object of the"
                " shape asked for and nothing else."
            )
            messages = [
                *messages,
                {"role": "assistant", "content": reply.content[:_QUOTED] or "(nothing)"},
                {"role": "user", "content": repair},
            ]
        raise JudgeFailed(fault)

    def _paid(self, judgment: Judgment, model: str, call: Callable[[], Reply]) -> Reply:
        """Make a call and account for it."""
        self.costs.check()
        reply = call()
        usage = self.costs.usage(model, reply)
        self.costs.add(usage["cost_usd"])
        judgment.usage.update(usage, n_calls=1, n_retries=reply.n_retries)
        return reply


def _texts(value: Any) -> list[str]:
    """Return all texts in a payload."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in inner for text in _texts(part)]
