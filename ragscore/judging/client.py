"""Judgments: one judge on one response, asked through the cache and within the budget.

In: cases and judges. Out: verdicts, with the tokens and costs they took. The rubric is the system
message, and the judged texts are one JSON object in the user message. A judged text therefore
cannot pose as an instruction, whatever it contains.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ragscore.frames.errors import packages_of
from ragscore.frames.kinds import FAILED, NO_CLAIMS, NOT_MEASURABLE
from ragscore.io.servers import Redactor, redacted_logs
from ragscore.io.values import value_at
from ragscore.judging.cases import Case
from ragscore.judging.endpoint import (
    Cache,
    CallsStopped,
    CostTracker,
    Endpoint,
    EndpointUnusable,
    Reply,
    valid_text,
)
from ragscore.judging.judges import (
    N_QUESTIONS,
    Judge,
    JudgeFailed,
    Prompt,
    Verdict,
    digest,
    parse_claims,
    read_reply,
)
from ragscore.stats.similarity import cosine_matrix

_TEXTS = ("item", "verdict", "reason", "item_text", "state")
_LONGEST_REASON = 1_000
_SHOWN = 300  # characters of an endpoint's reply in a reason
_QUOTED = 20_000  # characters of an unusable reply that its model is shown
FORMAT = 1  # version of the messages, part of every cache key: other messages get other replies
_NAMES = {
    "answer": "answer",
    "context": "context",
    "reference": "reference answer",
    "key_facts": "key facts",
}
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
        return f"no {' or '.join(_NAMES[name] for name in missing[0].split('|'))}"
    if refused == "skip" and case.refused and "answer" in judge.needs:
        # only this judge looks at refusals
        return None if judge.criterion == "judge_refused" else "the system refused"
    return None


def run_judgment(judgment: Judgment, client: "JudgeClient") -> None:
    """Ask the judge and fill in verdicts and state.

    A failed judgment gets the value NaN, its state and its reason.
    """
    redactor = client.redactor
    try:
        verdicts = [_checked(verdict) for verdict in _verdicts(judgment, client)]
        if len({verdict["item"] for verdict in verdicts}) < len(verdicts):
            raise TypeError("two verdicts on one item")
    except JudgeFailed as error:
        verdicts = [_without(FAILED, str(error))]
    except CallsStopped as error:
        judgment.reason, judgment.state = str(error), "not_asked"
        return
    except EndpointUnusable as error:
        client.costs.stop(f"the endpoint can't be used: {error.found}")
        raise
    # A judge's own function, an embedding or a fault of ours ends one judgment, not all of them.
    except Exception as error:
        verdicts = [_without(FAILED, f"{type(error).__name__} in judging: {error}")]
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
    texts = [verdict[name] for name in _TEXTS if verdict.get(name) is not None]
    if set(verdict) - {"value", *_TEXTS} or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"a verdict has a value and texts: {', '.join(_TEXTS)}")
    "".join(texts).encode()  # raises at half a character, which no file takes
    value = math.nan if verdict.get("value") is None else float(verdict["value"])
    return verdict | {"item": verdict.get("item") or "", "value": value}


def _without(state: str, reason: str, **more: str) -> Verdict:
    """Return a verdict without a value."""
    return {"item": "", "value": math.nan, "state": state, "reason": valid_text(reason), **more}


def _claims(judgment: Judgment, client: "JudgeClient") -> list[Verdict]:
    """Extract the claims of one text and check each against another text."""
    case, judge = judgment.case, judgment.judge
    text = case.answer if judge.claims_of == "answer" else case.reference
    payload = {"question": case.question, "text": text}
    # All judges share the name "claims", so the cache extracts a text's claims once.
    extracted = client.ask(judgment, payload, asked=("claims", judge.claims, parse_claims))
    if not (claims := [claim["item_text"] for claim in extracted]):
        reason = f"no claim in the {_NAMES[judge.claims_of]}"
        return [_without(NOT_MEASURABLE, reason, verdict=NO_CLAIMS)]
    source = _source(case, judge.source)
    return client.ask(judgment, {"source": source, "claims": _numbered(claims)}, claims)


def _chunks(judgment: Judgment, client: "JudgeClient") -> list[Verdict]:
    """Judge each passage in a call of its own, so that a failure leaves the other verdicts."""
    rows: list[Verdict] = []
    is_all = judgment.judge.each == "chunks"
    passages = [one for one in judgment.case.context if is_all or not one.is_labelled]
    if not passages:
        return [_without(NOT_MEASURABLE, "every hit is labelled")]
    for passage in passages:
        try:
            verdicts = client.ask(judgment, _shown(judgment) | {"passage": passage.text})
        except JudgeFailed as error:
            verdicts = [_without(FAILED, str(error))]
        rows += [one | {"item": passage.item, "item_text": passage.text} for one in verdicts]
    return rows


def _questions(judgment: Judgment, client: "JudgeClient") -> list[Verdict]:
    """Generate questions from the answer and compare them with the user's question."""
    payload = _shown(judgment) | {"n": N_QUESTIONS}
    rows = client.ask(judgment, payload, [""] * N_QUESTIONS)
    embed: Any = client.endpoint.embedding
    texts = [judgment.case.question, *(row["item_text"] for row in rows)]
    vectors = np.asarray(embed(texts), dtype="float64")
    values = cosine_matrix(vectors[:1], vectors[1:])[0].tolist()
    if len(values) != len(rows) or not np.isfinite(values).all():
        raise JudgeFailed(f"the embeddings are not {len(texts)} vectors that can be compared")
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


@contextmanager
def judge_client(endpoint: Endpoint, cache: Cache, costs: CostTracker) -> Iterator["JudgeClient"]:
    """Open a client of an endpoint; meanwhile its key is hidden in all that is logged."""
    client = JudgeClient(endpoint, cache, costs, Redactor([endpoint.key()]))
    with ExitStack() as opened:
        opened.enter_context(redacted_logs(client.redactor))
        if endpoint.call is None:
            with packages_of("judge", field="judge"):
                import openai
            # A redirect could take texts elsewhere.
            http = openai.DefaultHttpxClient(follow_redirects=False, timeout=endpoint.timeout)
            client.openai = opened.enter_context(openai.OpenAI(
                api_key=endpoint.key(), base_url=endpoint.base_url, timeout=endpoint.timeout,
                max_retries=endpoint.retries, http_client=http,
            ))  # fmt: skip
        yield client


@dataclass
class JudgeClient:
    """Calls to an endpoint, which threads can share, with a cache of replies and a cost limit.

    `ask` adds to the usage of the judgment. It raises `JudgeFailed` if the call failed after all
    retries or the reply is unusable, `CallsStopped` if no further call is to be made, and
    `EndpointUnusable` if the endpoint refuses the key, the model or the address and has answered no
    call so far. Once it has answered, such a refusal is the failure of one call, as by a filter of
    contents. The redactor hides the key in what comes of a call.
    """

    endpoint: Endpoint
    cache: Cache
    costs: CostTracker
    redactor: Redactor
    openai: Any = None
    has_answered: bool = False

    def ask(
        self,
        judgment: Judgment,
        payload: Payload,
        items: list[str] | None = None,
        *,
        asked: Any = None,
    ) -> list[Verdict]:
        """Return the verdicts of one reply; `asked` replaces the judge's name, prompt and parse."""
        judge, endpoint = judgment.judge, self.endpoint
        name, prompt, parse = asked or (judge.name, judge.prompt, judge.parse)
        shown = "\n".join(_texts(payload))

        def read(text: str) -> list[Verdict]:
            return parse(read_reply(text, prompt.schema, shown), items or [])

        key = [
            FORMAT, name, prompt.hash, endpoint.address, endpoint.model, endpoint.temperature,
            endpoint.seed, endpoint.structured, endpoint.options, judgment.repeat, payload,
        ]  # fmt: skip
        request = partial(self._usable_reply, judgment, prompt, payload, read)
        value, reply, is_free = self.cache.get_or_ask(digest(key), request, read)
        judgment.usage["n_cached"] += is_free
        judgment.reply_usage.update(self.costs.usage(reply))
        return value

    def _usable_reply(
        self,
        judgment: Judgment,
        prompt: Prompt,
        payload: Payload,
        read: Callable[[str], list[Verdict]],
    ) -> Reply:
        """Request a reply; if it is unusable, name the fault and request it once more."""
        endpoint, replies = self.endpoint, list[Reply]()
        seed = None if endpoint.seed is None else endpoint.seed + judgment.repeat - 1
        text = prompt.text
        if endpoint.structured != "json_schema":
            text += f"\nThe reply's JSON schema: {json.dumps(prompt.schema)}\n"
        messages = [
            {"role": "system", "content": text},
            {"role": "user", "content": json.dumps(payload, ensure_ascii=False, indent=1)},
        ]
        for attempt in (1, 2):
            self.costs.check()
            reply = self.chat(messages, prompt.name, prompt.schema, seed)
            replies.append(reply)
            usage = self.costs.usage(reply)
            self.costs.add(usage["cost_usd"])
            judgment.usage.update(
                usage, n_calls=1, n_retries=reply.n_retries, n_repairs=int(attempt == 2)
            )
            try:
                if reply.fault:
                    raise JudgeFailed(reply.fault)
                read(reply.content)
                sent = [one.prompt_tokens for one in replies]
                got = [one.completion_tokens for one in replies]
                n_sent, n_got = (None if None in one else sum(one) for one in (sent, got))  # type: ignore[arg-type]
                return Reply(reply.content, n_sent, n_got)
            except JudgeFailed as error:
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

    def chat(
        self, messages: list[dict[str, str]], name: str, schema: dict[str, Any], seed: int | None
    ) -> Reply:
        """Return one chat completion whose shape is the schema of this name."""
        endpoint = self.endpoint
        if endpoint.call is not None:
            text = endpoint.call(messages, schema, endpoint.temperature, seed)
            return Reply(self.redactor.text(valid_text(text)))
        shape = {"name": name, "strict": True, "schema": schema}
        formats: dict[str, Any] = {
            "json_schema": {"type": "json_schema", "json_schema": shape},
            "json_object": {"type": "json_object"},
        }
        known = {
            "temperature": endpoint.temperature,
            "seed": seed,
            "response_format": formats.get(endpoint.structured),
            "extra_body": endpoint.options or None,
        }
        failed: Exception | None = None
        try:
            raw = self.openai.chat.completions.with_raw_response.create(
                model=endpoint.model, messages=messages,
                **{one: value for one, value in known.items() if value is not None},
            )  # fmt: skip
        except Exception as error:  # the client, its HTTP library and TLS each have their own
            cause = error.__cause__ or error
            text = f"{type(error).__name__}: {error}" + f" ({cause})" * (cause is not error)
            failed = JudgeFailed(self.redactor.excerpt(valid_text(text), _SHOWN))
            if getattr(error, "status_code", None) in (401, 403, 404) and not self.has_answered:
                works = "a model, key and base_url that work"
                failed = EndpointUnusable(str(failed), field="endpoint", allowed=works)
        if failed is not None:  # raised out there, as the error beneath holds the request
            raise failed
        self.has_answered, body = True, None
        with suppress(ValueError, RecursionError):
            body = json.loads(raw.content)
        prompt, completion = (
            count if type(count := value_at(body, name)) is int and 0 <= count < 1e12 else None
            for name in ("usage.prompt_tokens", "usage.completion_tokens")
        )
        text = value_at(body, "choices.0.message.content", "")
        is_cut = value_at(body, "choices.0.finish_reason") == "length"
        return Reply(
            self.redactor.text(valid_text(text if isinstance(text, str) else "")),
            prompt, completion, raw.retries_taken,
            "the reply was cut off at the limit of tokens" if is_cut else "",
        )  # fmt: skip


def _texts(value: Any) -> list[str]:
    """Return all texts in a payload."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in inner for text in _texts(part)]
