"""One question to a model.

From what it is shown to verdicts, through the cache, with one chance to mend its reply.

What is judged is the user's message, one JSON object; what is asked is the system's message. No
text that is judged can get out of its place, whatever it holds.

One pass of one judge over one response.

Its questions to the model, one after the other, and the rows they end in.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ragscore.judging.cache import Cache, Kept, digest
from ragscore.judging.cases import Case
from ragscore.judging.endpoint import CallFailed, Client, Purse, Usage
from ragscore.judging.judges import (
    N_QUESTIONS,
    Judge,
    Parse,
    Prompt,
    ReplyError,
    Verdict,
    claims,
    read_reply,
)
from ragscore.scoring.judgments import FAILED, NO_CLAIMS, NOT_MEASURABLE
from ragscore.stats import cosine

FORMAT = 1  # of the messages: another one means other replies
Payload = dict[str, Any]


class JudgeFailed(Exception):
    """No verdict.

    The call failed, or its reply can't be used, not even after it was asked to mend it.
    """


@dataclass(frozen=True)
class Asker:
    """Whom to ask, where replies are kept, and what may be spent."""

    client: Client
    cache: Cache
    purse: Purse

    def ask(
        self,
        judge: str,
        prompt: Prompt,
        payload: Payload,
        parse: Parse,
        items: list[str],
        repeat: int,
        now: Usage,
        made: Usage,
    ) -> list[Verdict]:
        """The verdicts of one reply.

        Parameters
        ----------
        now, made
            What is spent now, and what the reply took when it was made, are added to these.

        Raises
        ------
        JudgeFailed
            The call failed, or its reply can't be used.
        OutOfMoney
            The limit is reached.
        """
        key = self._key(judge, prompt, payload, repeat)
        shown = "\n".join(_texts(payload))

        def read(text: str) -> tuple[list[Verdict], bool]:
            value, repaired = read_reply(text, prompt.schema, shown)
            return parse(value, items), repaired

        kept, is_free = self.cache.once(
            key, lambda: self._asked(prompt, payload, read, repeat, now)
        )
        now.n_cached += is_free
        model = self.client.endpoint.model
        made.add(
            Usage(
                tokens=_sum(kept.prompt_tokens, kept.completion_tokens),
                cost_usd=self.purse.cost(model, kept.prompt_tokens, kept.completion_tokens),
            )
        )
        try:
            return read(kept.text)[0]
        except ReplyError as error:  # kept by a version of this library that read replies otherwise
            self.cache.forget(key)
            raise JudgeFailed(
                f"the reply kept in the cache can't be used any more: {error}"
            ) from error

    def embed(
        self, texts: list[str], now: Usage, made: Usage
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        """A row for each text; raises as `ask`."""
        endpoint = self.client.endpoint
        if callable(endpoint.embedding):
            return _matrix(endpoint.embedding(texts), len(texts))
        key = digest([FORMAT, "embedding", endpoint.address, endpoint.embedding, texts])

        def ask() -> Kept:
            self.purse.check()
            vectors, tokens = self._called(lambda: self.client.embed(texts))
            self._pay(str(endpoint.embedding), tokens, 0 if tokens is not None else None, now)
            _matrix(vectors, len(texts))
            return Kept(json.dumps(vectors), tokens, 0 if tokens is not None else None)

        kept, is_free = self.cache.once(key, ask)
        now.n_cached += is_free
        made.add(
            Usage(
                tokens=_sum(kept.prompt_tokens),
                cost_usd=self.purse.cost(
                    str(endpoint.embedding), kept.prompt_tokens, kept.completion_tokens
                ),
            )
        )
        return _matrix(json.loads(kept.text), len(texts))

    def _asked(
        self,
        prompt: Prompt,
        payload: Payload,
        read: Callable[[str], tuple[list[Verdict], bool]],
        repeat: int,
        now: Usage,
    ) -> Kept:
        """The reply, mended once if need be."""
        endpoint = self.client.endpoint
        messages, tokens = self.messages(prompt, payload), [0.0, 0.0]
        fault = ""
        for attempt in (1, 2):
            self.purse.check()
            seed = None if endpoint.seed is None else endpoint.seed + repeat - 1
            now.n_repairs += attempt == 2
            send = partial(self.client.chat, messages, prompt.name, prompt.schema, seed)
            try:
                reply = self._called(send)
            except _Garbled as error:
                fault = str(error)
                continue
            now.n_retries += reply.n_retries
            self._pay(endpoint.model, reply.prompt_tokens, reply.completion_tokens, now)
            tokens = [
                so_far + (math.nan if new is None else new)
                for so_far, new in zip(
                    tokens, (reply.prompt_tokens, reply.completion_tokens), strict=True
                )
            ]
            try:
                if reply.finish == "length":
                    raise ReplyError("the reply was cut off at the limit of tokens")
                now.n_repairs += read(reply.text)[1]
                return Kept(reply.text, *(None if math.isnan(one) else int(one) for one in tokens))
            except ReplyError as error:
                fault = str(error)
                messages = [
                    *self.messages(prompt, payload),
                    {"role": "assistant", "content": reply.text or "(nothing)"},
                    {"role": "user", "content": _mend(fault)},
                ]
        raise JudgeFailed(fault)

    def messages(self, prompt: Prompt, payload: Payload) -> list[dict[str, str]]:
        """What is sent: the prompt, and what it is about as one JSON object."""
        text = prompt.text
        if self.client.endpoint.structured != "json_schema":
            text += f"\nThe reply's JSON schema: {json.dumps(prompt.schema)}\n"
        return [
            {"role": "system", "content": text},
            {"role": "user", "content": json.dumps(payload, ensure_ascii=False, indent=1)},
        ]

    def _key(self, judge: str, prompt: Prompt, payload: Payload, repeat: int) -> str:
        endpoint = self.client.endpoint
        how = [
            endpoint.address,
            endpoint.model,
            endpoint.temperature,
            endpoint.seed,
            endpoint.structured,
            endpoint.options,
        ]
        return digest([FORMAT, judge, prompt.hash, how, repeat, payload])

    def _called(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except CallFailed as error:
            if "not valid JSON" in str(error) or "no choice" in str(error):
                raise _Garbled(str(error)) from error
            raise JudgeFailed(str(error)) from error

    def _pay(
        self, model: str, prompt_tokens: int | None, completion_tokens: int | None, now: Usage
    ) -> None:
        cost = self.purse.cost(model, prompt_tokens, completion_tokens)
        self.purse.pay(cost)
        now.add(Usage(n_calls=1, tokens=_sum(prompt_tokens, completion_tokens), cost_usd=cost))


class _Garbled(JudgeFailed):
    """An answer that is no chat completion: worth asking for once more."""


def _matrix(vectors: Sequence[Sequence[float]], n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    try:
        found = np.asarray(vectors, dtype="float64")
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.ndim != 2 or len(found) != n or not np.isfinite(found).all():
        raise JudgeFailed(f"the embeddings are not {n} vectors of one length, all finite")
    return found


def _mend(fault: str) -> str:
    return (
        f"Your reply can't be used: {fault}. Reply again, with one JSON object of the shape asked"
        " for and nothing else."
    )


def _sum(*tokens: int | None) -> float:
    return float(sum(math.nan if one is None else one for one in tokens))


def _texts(value: Any) -> list[str]:
    """Every text in a payload."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for one in inner for text in _texts(one)]


NEEDED = {
    "answer": "answer",
    "context": "context",
    "reference": "reference answer",
    "key_facts": "key facts",
}


@dataclass
class Pass:
    """What a judge made of a response.

    Its state, verdicts, and what they took now and when they were made.
    """

    case: Case
    judge: Judge
    repeat: int
    state: str = ""
    reason: str | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    now: Usage = field(default_factory=Usage)
    made: Usage = field(default_factory=Usage)


def why_skipped(case: Case, judge: Judge, refused: str) -> str | None:
    """Why a response isn't judged at all; None if it is."""
    if case.failed:
        return "the query failed"
    if case.n_textless and "context" in judge.needs:
        return f"{case.n_textless} hits without a text"
    if lacking := [need for need in judge.needs if not case.has(need)]:
        names = [NEEDED[name] for name in lacking[0].split("|")]
        return f"no {names[0]}" if len(names) == 1 else f"neither {' nor '.join(names)}"
    if (
        case.refused
        and refused == "skip"
        and judge.criterion != "judge_refused"
        and "answer" in judge.needs
    ):
        return "the system refused"
    return None


def run_pass(one: Pass, asker: Asker) -> Pass:
    """Ask everything that the judge asks of the response.

    A judgment that fails leaves NaN, its state and its reason.
    """
    steps = {
        "": _of_answer,
        "claims": _of_claims,
        "facts": _of_facts,
        "chunks": _of_chunks,
        "questions": _of_questions,
    }
    try:
        one.verdicts = steps[one.judge.each](one, asker)
    except JudgeFailed as error:
        one.verdicts = [{"item": "", "value": math.nan, "state": FAILED, "reason": str(error)}]
    states = [verdict.setdefault("state", "scored") for verdict in one.verdicts]
    one.state = next((state for state in (FAILED, NOT_MEASURABLE) if state in states), "scored")
    one.reason = next(
        (
            verdict["reason"]
            for verdict in one.verdicts
            if verdict["state"] == one.state != "scored"
        ),
        None,
    )
    return one


def _ask(one: Pass, asker: Asker, payload: Payload, items: list[str]) -> list[Verdict]:
    return asker.ask(
        one.judge.name,
        one.judge.prompt,
        payload,
        one.judge.parse,
        items,
        one.repeat,
        one.now,
        one.made,
    )


def _of_answer(one: Pass, asker: Asker) -> list[Verdict]:
    return _ask(one, asker, _shown(one), [])


def _of_facts(one: Pass, asker: Asker) -> list[Verdict]:
    facts = list(one.case.key_facts)
    return _ask(one, asker, _shown(one) | {"facts": _numbered(facts)}, facts)


def _of_claims(one: Pass, asker: Asker) -> list[Verdict]:
    """The claims of one text, each checked against another.

    Without any there is nothing to measure.
    """
    case, judge = one.case, one.judge
    assert judge.claims is not None
    text = case.answer if judge.claims_of == "answer" else case.reference
    payload = {"question": case.question, "text": text}
    # The claims of a text are the same for every judge that asks for them, and so is their place in
    # the cache.
    found = asker.ask("claims", judge.claims, payload, claims, [], one.repeat, one.now, one.made)
    texts = [claim["item_text"] for claim in found]
    if not texts:
        reason = (
            f"no claim in the {'answer' if judge.claims_of == 'answer' else 'reference answer'}"
        )
        return [
            {
                "item": "",
                "value": math.nan,
                "state": NOT_MEASURABLE,
                "verdict": NO_CLAIMS,
                "reason": reason,
            }
        ]
    return _ask(
        one, asker, {"source": _source(case, judge.source), "claims": _numbered(texts)}, texts
    )


def _of_chunks(one: Pass, asker: Asker) -> list[Verdict]:
    """A question for each passage; one that fails leaves the others, and the pass without a score."""
    rows: list[Verdict] = []
    for passage in one.case.context:
        about = {"item": passage.item, "item_text": passage.text}
        try:
            rows += [
                about | verdict
                for verdict in _ask(one, asker, _shown(one) | {"passage": passage.text}, [])
            ]
        except JudgeFailed as error:
            rows.append(about | {"value": math.nan, "state": FAILED, "reason": str(error)})
    return rows


def _of_questions(one: Pass, asker: Asker) -> list[Verdict]:
    """Questions that the answer answers, and how near they are to the one that was asked."""
    rows = _ask(one, asker, _shown(one) | {"n": N_QUESTIONS}, [""] * N_QUESTIONS)
    vectors = asker.embed(
        [one.case.question, *(row["item_text"] for row in rows)], one.now, one.made
    )
    return [
        row | {"value": cosine(vectors[0], vector)}
        for row, vector in zip(rows, vectors[1:], strict=True)
    ]


def _shown(one: Pass) -> Payload:
    """What the judge shows of the response, in its order; what isn't known is left out."""
    case = one.case
    known: dict[str, Any] = {
        "question": case.question, "answer": case.answer, "context": _source(case, "context"),
        "reference_answer": case.reference,
        "key_facts": list(case.key_facts) or None,
    }  # fmt: skip
    return {name: known[name] for name in one.judge.shows if known[name] is not None}


def _source(case: Case, name: str) -> list[dict[str, Any]]:
    texts = {
        "context": [passage.text for passage in case.context],
        "reference": [case.reference or ""],
        "answer": [case.answer or ""],
    }
    return _numbered(texts[name])


def _numbered(texts: list[str]) -> list[dict[str, Any]]:
    return [{"n": n, "text": text} for n, text in enumerate(texts, 1)]
