"""Judgments: one judge on one response, asked through the cache and within the budget.

In: cases and judges. Out: verdicts, with the tokens and costs they took. The rubric is the system
message, and the judged texts are one JSON object in the user message. A judged text therefore
cannot pose as an instruction, whatever it contains.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ragscore.frames.errors import packages_of
from ragscore.frames.kinds import FAILED, NOT_MEASURABLE
from ragscore.io.servers import Redactor, redacted_logs, tls
from ragscore.io.values import value_at
from ragscore.judging.cases import Case, in_words
from ragscore.judging.endpoint import (
    Cache,
    CallsStopped,
    CostTracker,
    Endpoint,
    EndpointUnusable,
    Reply,
)
from ragscore.judging.judges import VERDICTS, Judge, Prompt
from ragscore.judging.replies import (
    JudgeFailed,
    Verdict,
    digest,
    read_reply,
    valid_text,
    without_value,
)

_TEXT_FIELDS = ("item", "verdict", "reason", "item_text", "state")
_LONGEST_REASON = 1_000
_SHOWN = 300  # characters of an endpoint's reply in a reason
_QUOTED = 20_000  # characters of an unusable reply that its model is shown
FORMAT = 1  # version of the messages, part of every cache key: other messages get other replies
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
        return f"no {in_words(missing[0])}"
    if refused == "skip" and case.refused and "answer" in judge.needs:
        # only this judge looks at refusals
        return None if judge.criterion == "judge_refused" else "the system refused"
    return None


def run_judgment(judgment: Judgment, client: "JudgeClient") -> None:
    """Ask the judge and fill in verdicts and state.

    A failed judgment gets the value NaN, its state and its reason.
    """
    redactor, judge = client.redactor, judgment.judge
    ask, embed = partial(client.ask, judgment), client.endpoint.embedding
    try:
        found = VERDICTS[judge.each](judge, judgment.case, ask, embed)
        verdicts = [_checked(verdict) for verdict in found]
        if len({verdict["item"] for verdict in verdicts}) < len(verdicts):
            raise TypeError("two verdicts on one item")
    except JudgeFailed as error:
        verdicts = [without_value(FAILED, str(error))]
    except CallsStopped as error:
        judgment.reason, judgment.state = str(error), "not_asked"
        return
    except EndpointUnusable as error:
        client.costs.stop(f"the endpoint can't be used: {error.found}")
        raise
    # A judge's own function, an embedding or a fault of ours ends one judgment, not all of them.
    except Exception as error:
        verdicts = [without_value(FAILED, f"{type(error).__name__} in judging: {error}")]
    # A reply may escape what it echoes, and a judge's own function may quote anything.
    verdicts = [redactor.values(verdict) for verdict in verdicts]
    reasons = {}
    for verdict in reversed(verdicts):  # the first of each state is kept
        if verdict.setdefault("state", "scored") == FAILED:
            verdict["reason"] = redactor.excerpt(verdict.get("reason") or "", _LONGEST_REASON)
        reasons[verdict["state"]] = verdict.get("reason")
    state = next((one for one in (FAILED, NOT_MEASURABLE) if one in reasons), "scored")
    # The state comes last: who stops to look at what there is finds judgments whole.
    judgment.verdicts, judgment.reason = verdicts, None if state == "scored" else reasons[state]
    judgment.state = state


def _checked(verdict: Verdict) -> Verdict:
    """Return a verdict that the judgments frame takes; a judge's own function may give any."""
    texts = [verdict[name] for name in _TEXT_FIELDS if verdict.get(name) is not None]
    if set(verdict) - {"value", *_TEXT_FIELDS} or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"a verdict has a value and texts: {', '.join(_TEXT_FIELDS)}")
    "".join(texts).encode()  # raises at half a character, which no file takes
    value = math.nan if verdict.get("value") is None else float(verdict["value"])
    return verdict | {"item": verdict.get("item") or "", "value": value}


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
            http = openai.DefaultHttpxClient(
                follow_redirects=False, timeout=endpoint.timeout, verify=tls()
            )
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
        self, judgment: Judgment, prompt: Prompt, payload: Payload, items: Sequence[str] = ()
    ) -> list[Verdict]:
        """Return the verdicts of one reply."""
        endpoint, shown = self.endpoint, "\n".join(_texts_in(payload))

        def read(text: str) -> list[Verdict]:
            return prompt.parse(read_reply(text, prompt.schema, shown), items)

        key = [
            FORMAT, prompt.name, prompt.hash, endpoint.address, endpoint.model,
            endpoint.temperature, endpoint.seed, endpoint.structured, endpoint.options,
            judgment.repeat, payload,
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
            reply = self.chat(messages, prompt, seed)
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

    def chat(self, messages: list[dict[str, str]], prompt: Prompt, seed: int | None) -> Reply:
        """Return one chat completion whose shape is the prompt's schema."""
        endpoint = self.endpoint
        if endpoint.call is not None:
            text = endpoint.call(messages, prompt.schema, endpoint.temperature, seed)
            return Reply(self.redactor.text(valid_text(text)))
        shape = {"name": prompt.name, "strict": True, "schema": prompt.schema}
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
        n_sent, n_got = (
            count if type(count := value_at(body, name)) is int and 0 <= count < 1e12 else None
            for name in ("usage.prompt_tokens", "usage.completion_tokens")
        )
        text = value_at(body, "choices.0.message.content", "")
        is_cut = value_at(body, "choices.0.finish_reason") == "length"
        return Reply(
            self.redactor.text(valid_text(text if isinstance(text, str) else "")),
            n_sent, n_got, raw.retries_taken,
            "the reply was cut off at the limit of tokens" if is_cut else "",
        )  # fmt: skip


def _texts_in(value: Any) -> list[str]:
    """Return all texts in a payload."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in inner for text in _texts_in(part)]
