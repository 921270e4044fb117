"""Judgments: one judge on one response, asked through the cache and within the budget.

In: cases and judges. Out: verdicts, with the tokens and costs they took. The rubric is the system
message, and the judged texts are one JSON object in the user message. A judged text therefore
cannot pose as an instruction, whatever it contains.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ragscore.judging.cache import Cache, CachedReply, digest
from ragscore.judging.cases import Case
from ragscore.judging.endpoint import CallFailed, CostTracker, EndpointClient, Usage
from ragscore.judging.judges import (
    N_QUESTIONS,
    Judge,
    Prompt,
    ReplyError,
    Verdict,
    parse_claims,
    read_reply,
)
from ragscore.scoring.judgments import FAILED, NO_CLAIMS, NOT_MEASURABLE
from ragscore.stats import cosine

FORMAT = 1  # version of the messages, part of every cache key: other messages get other replies
_NAMES = {
    "answer": "answer",
    "context": "context",
    "reference": "reference answer",
    "key_facts": "key facts",
}
Payload = dict[str, Any]
Vectors = np.ndarray[Any, np.dtype[np.float64]]


class JudgeFailed(Exception):
    """No verdict: the call failed, or the reply is unusable even after one repair request."""


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
        Calls, tokens and costs of this time.
    reply_usage
        Tokens and costs of the replies when they were made; cached replies count too.
    """

    case: Case
    judge: Judge
    repeat: int
    state: str = ""
    reason: str | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    reply_usage: Usage = field(default_factory=Usage)


def skip_reason(case: Case, judge: Judge, refused: str) -> str | None:
    """Return the reason for not judging a response at all, or None."""
    if case.failed:
        return "the query failed"
    if case.n_textless and "context" in judge.needs:
        return f"{case.n_textless} hits without a text"
    if missing := [need for need in judge.needs if not case.has(need)]:
        names = [_NAMES[name] for name in missing[0].split("|")]
        return f"no {names[0]}" if len(names) == 1 else f"neither {' nor '.join(names)}"
    needs_an_attempt = "answer" in judge.needs and judge.criterion != "judge_refused"
    if case.refused and refused == "skip" and needs_an_attempt:
        return "the system refused"
    return None


def run_judgment(judgment: Judgment, client: "JudgeClient") -> None:
    """Ask the judge and fill in verdicts and state.

    A failed judgment gets the value NaN, its state and its reason.
    """
    each, shown = judgment.judge.each, _shown(judgment)
    try:
        if each == "":
            verdicts = client.ask(judgment, shown)
        elif each == "facts":
            facts = list(judgment.case.key_facts)
            verdicts = client.ask(judgment, shown | {"facts": _numbered(facts)}, facts)
        else:
            steps = {"claims": _claims, "chunks": _chunks, "questions": _questions}
            verdicts = steps[each](judgment, client)
    except JudgeFailed as error:
        verdicts = [{"item": "", "value": math.nan, "state": FAILED, "reason": str(error)}]
    states = [verdict.setdefault("state", "scored") for verdict in verdicts]
    judgment.verdicts, judgment.state = verdicts, "scored"
    for state in (FAILED, NOT_MEASURABLE):  # the worst state of any verdict
        if state in states:
            judgment.state, judgment.reason = state, verdicts[states.index(state)]["reason"]
            break


def _claims(judgment: Judgment, client: "JudgeClient") -> list[Verdict]:
    """Extract the claims of one text and check each against another text."""
    case, judge = judgment.case, judgment.judge
    name, text = (
        ("answer", case.answer)
        if judge.claims_of == "answer"
        else ("reference answer", case.reference)
    )
    extracted = client.ask(judgment, {"question": case.question, "text": text}, extract_claims=True)
    claims = [claim["item_text"] for claim in extracted]
    if not claims:
        return [
            {
                "item": "",
                "value": math.nan,
                "state": NOT_MEASURABLE,
                "verdict": NO_CLAIMS,
                "reason": f"no claim in the {name}",
            }
        ]
    source = _source(case, judge.source)
    return client.ask(judgment, {"source": source, "claims": _numbered(claims)}, claims)


def _chunks(judgment: Judgment, client: "JudgeClient") -> list[Verdict]:
    """Judge each passage in a call of its own, so that a failure leaves the other verdicts."""
    rows: list[Verdict] = []
    for passage in judgment.case.context:
        item = {"item": passage.item, "item_text": passage.text}
        try:
            verdicts = client.ask(judgment, _shown(judgment) | {"passage": passage.text})
        except JudgeFailed as error:
            verdicts = [{"value": math.nan, "state": FAILED, "reason": str(error)}]
        rows += [item | verdict for verdict in verdicts]
    return rows


def _questions(judgment: Judgment, client: "JudgeClient") -> list[Verdict]:
    """Generate questions from the answer and compare them with the user's question."""
    payload = _shown(judgment) | {"n": N_QUESTIONS}
    rows = client.ask(judgment, payload, [""] * N_QUESTIONS)
    asked, *generated = client.embed(
        judgment, [judgment.case.question, *(row["item_text"] for row in rows)]
    )
    return [
        row | {"value": cosine(asked, vector)} for row, vector in zip(rows, generated, strict=True)
    ]


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
    texts = {
        "context": [passage.text for passage in case.context],
        "reference": [case.reference or ""],
        "answer": [case.answer or ""],
    }
    return _numbered(texts[name])


def _numbered(texts: list[str]) -> list[dict[str, Any]]:
    return [{"n": n, "text": text} for n, text in enumerate(texts, 1)]


@dataclass(frozen=True)
class JudgeClient:
    """An endpoint with a cache of replies and a cost limit.

    `ask` and `embed` add to the usage of the judgment. They raise `JudgeFailed` if the call failed
    or the reply is unusable, and `BudgetExceeded` if the cost limit is reached.
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
        extract_claims: bool = False,
    ) -> list[Verdict]:
        """Return the verdicts of one reply, or with `extract_claims` the claims of a text."""
        judge, endpoint = judgment.judge, self.connection.endpoint
        name, prompt, parse = judge.name, judge.prompt, judge.parse
        if extract_claims:
            assert judge.claims is not None
            # All judges share the name "claims", so the cache extracts a text's claims once.
            name, prompt, parse = "claims", judge.claims, parse_claims
        settings = [
            endpoint.address,
            endpoint.model,
            endpoint.temperature,
            endpoint.seed,
            endpoint.structured,
            endpoint.options,
        ]
        key = digest([FORMAT, name, prompt.hash, settings, judgment.repeat, payload])
        shown = "\n".join(_texts(payload))

        def read(text: str) -> tuple[list[Verdict], bool]:
            value, is_repaired = read_reply(text, prompt.schema, shown)
            return parse(value, items or []), is_repaired

        cached, is_free = self.cache.get_or_ask(
            key, lambda: self._usable_reply(judgment, prompt, payload, read)
        )
        judgment.usage.n_cached += is_free
        judgment.reply_usage.add(self._usage(endpoint.model, cached))
        try:
            return read(cached.text)[0]
        except ReplyError as error:  # cached by a version of the library with other rules
            self.cache.delete(key)
            raise JudgeFailed(
                f"the reply kept in the cache can't be used any more: {error}"
            ) from error

    def embed(self, judgment: Judgment, texts: list[str]) -> Vectors:
        """Return a matrix with one row per text."""
        endpoint = self.connection.endpoint
        if callable(endpoint.embedding):
            return _matrix(endpoint.embedding(texts), len(texts))
        model = str(endpoint.embedding)

        def request() -> CachedReply:
            self.costs.check()
            try:
                vectors, tokens = self.connection.embed(texts)
            except CallFailed as error:
                raise JudgeFailed(str(error)) from error
            reply = CachedReply(json.dumps(vectors), tokens, None if tokens is None else 0)
            self._pay(judgment, model, reply)
            _matrix(vectors, len(texts))
            return reply

        key = digest([FORMAT, "embedding", endpoint.address, endpoint.embedding, texts])
        cached, is_free = self.cache.get_or_ask(key, request)
        judgment.usage.n_cached += is_free
        judgment.reply_usage.add(self._usage(model, cached))
        return _matrix(json.loads(cached.text), len(texts))

    def _usable_reply(
        self,
        judgment: Judgment,
        prompt: Prompt,
        payload: Payload,
        read: Callable[[str], tuple[list[Verdict], bool]],
    ) -> CachedReply:
        """Request a reply; if it is unusable, name the fault and request it once more."""
        endpoint, usage = self.connection.endpoint, judgment.usage
        seed = None if endpoint.seed is None else endpoint.seed + judgment.repeat - 1
        text = prompt.text
        if endpoint.structured != "json_schema":
            text += f"\nThe reply's JSON schema: {json.dumps(prompt.schema)}\n"
        messages = first_messages = [
            {"role": "system", "content": text},
            {"role": "user", "content": json.dumps(payload, ensure_ascii=False, indent=1)},
        ]
        tokens: list[tuple[int | None, int | None]] = []
        fault = ""
        for attempt in (1, 2):
            self.costs.check()
            usage.n_repairs += attempt == 2
            try:
                reply = self.connection.chat(messages, prompt.name, prompt.schema, seed)
            except CallFailed as error:
                # An answer that is no chat completion is worth a second request.
                if "not valid JSON" not in str(error) and "no choice" not in str(error):
                    raise JudgeFailed(str(error)) from error
                fault = str(error)
                continue
            usage.n_retries += reply.n_retries
            tokens.append((reply.prompt_tokens, reply.completion_tokens))
            self._pay(judgment, endpoint.model, CachedReply(reply.text, *tokens[-1]))
            try:
                if reply.finish == "length":
                    raise ReplyError("the reply was cut off at the limit of tokens")
                usage.n_repairs += read(reply.text)[1]
                totals = (
                    None if None in counts else sum(count or 0 for count in counts)
                    for counts in zip(*tokens, strict=True)
                )
                return CachedReply(reply.text, *totals)
            except ReplyError as error:
                fault = str(error)
                repair = (
                    f"Your reply can't be used: {fault}. Reply again, with one JSON object of the"
                    " shape asked for and nothing else."
                )
                messages = [
                    *first_messages,
                    {"role": "assistant", "content": reply.text or "(nothing)"},
                    {"role": "user", "content": repair},
                ]
        raise JudgeFailed(fault)

    def _usage(self, model: str, reply: CachedReply) -> Usage:
        counts = (reply.prompt_tokens, reply.completion_tokens)
        return Usage(
            tokens=float(sum(math.nan if count is None else count for count in counts)),
            cost_usd=self.costs.cost(model, *counts),
        )

    def _pay(self, judgment: Judgment, model: str, reply: CachedReply) -> None:
        usage = self._usage(model, reply)
        usage.n_calls = 1
        self.costs.add(usage.cost_usd)
        judgment.usage.add(usage)


def _matrix(vectors: Sequence[Sequence[float]], n: int) -> Vectors:
    try:
        matrix = np.asarray(vectors, dtype="float64")
    except (TypeError, ValueError):
        matrix = np.zeros(0)
    if matrix.ndim != 2 or len(matrix) != n or not np.isfinite(matrix).all():
        raise JudgeFailed(f"the embeddings are not {n} vectors of one length, all finite")
    return matrix


def _texts(value: Any) -> list[str]:
    """Return all texts in a payload."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in inner for text in _texts(part)]
