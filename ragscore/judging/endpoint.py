"""An OpenAI-compatible endpoint for chat completions and embeddings, and the cost of its calls.

A local llama.cpp, vLLM or Ollama server is a `base_url`, and any other model a function (`call`).
No other module of the library connects to a model. Costs are reported tokens times a price table; a
cost that is unknown is NaN, never 0.
"""

import json
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from ragscore.frames.data import DataError
from ragscore.frames.errors import check_choice, packages_of
from ragscore.io.http_replies import LONGEST_WAIT, too_long
from ragscore.io.secrets import (
    HIDDEN,
    Redactor,
    hidden,
    hidden_url,
    redacted_logs,
    secrets_in,
    secrets_of_url,
)

KEY_VARIABLES = ("RAGSCORE_JUDGE_API_KEY", "OPENAI_API_KEY")
STRUCTURED = ("json_schema", "json_object", "none")
_SHOWN = 300  # characters of an endpoint's reply in a reason
_OWN_FIELDS = ("model", "messages", "temperature", "seed", "response_format", "stream", "n")
Embed = Callable[[list[str]], Sequence[Sequence[float]]]
Call = Callable[[list[dict[str, str]], dict[str, Any], float | None, int | None], str]
Price = float | tuple[float, float] | list[float]
Prices = Mapping[str, Price]


class CallFailed(Exception):
    """A call without a reply, after all retries; `is_free` if the endpoint surely made none."""

    def __init__(self, reason: str, *, is_free: bool = False) -> None:
        super().__init__(reason)
        self.is_free = is_free


class EndpointUnusable(Exception):
    """The endpoint refuses the key, the model or the address from the first call on."""


class CallsStopped(Exception):
    """No further call is made: the cost limit is reached, or the run was stopped."""


@dataclass(frozen=True)
class Endpoint:
    """A model at an OpenAI-compatible endpoint, and how to call it.

    Attributes
    ----------
    model
        The model's name at the endpoint.
    base_url
        Address of an OpenAI-compatible server, such as http://127.0.0.1:8080/v1. None means
        OPENAI_BASE_URL, or else api.openai.com.
    api_key
        By default RAGSCORE_JUDGE_API_KEY, or without a `base_url` also OPENAI_API_KEY. The latter
        is never sent to a `base_url`. The key is never shown, written to a file or pickled: an
        endpoint that was unpickled takes it from these variables.
    temperature, seed
        Sent with every call; None leaves the choice to the server. Repeat r of a judgment is sent
        with seed + r - 1.
    embedding
        Embeddings for answer relevance: a model of this endpoint, or a callable from a list of
        texts to a list of vectors.
    structured
        How the shape of a reply is enforced: "json_schema"; "json_object", with the schema in the
        prompt; or "none", by the prompt alone.
    options
        Further fields of every chat request, such as {"max_tokens": 1000}.
    timeout, retries
        Seconds per attempt, headers and content together, and number of retries after 429, 5xx or a
        lost connection. Retries wait with growing pauses and jitter, or as long as the server asks.
        If it asks for more than 60 seconds, the call has failed.
    call
        A function instead of an address: `call(messages, schema, temperature, seed)` returns the
        text of the reply, a JSON object of this schema. It retries by itself, and costs are NaN.

    Raises
    ------
    DataError
        An empty model name, an unknown `structured`, an option that has its own attribute, or an
        embedding model beside `call`, which needs a function.
    """

    model: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False, compare=False)
    temperature: float | None = 0.0
    seed: int | None = 0
    embedding: str | Embed | None = None
    structured: str = "json_schema"
    options: dict[str, Any] = field(default_factory=dict)
    timeout: float = 120.0
    retries: int = 5
    call: Call | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model.strip():
            raise DataError(f"found {self.model!r}", field="model", allowed="the name of a model")
        check_choice(self.structured, STRUCTURED, "structured")
        if taken := [name for name in _OWN_FIELDS if name in self.options]:
            raise DataError(
                f"found {', '.join(taken)}",
                field="options",
                allowed="fields that Endpoint has no argument for",
            )
        if self.call is not None and isinstance(self.embedding, str):
            raise DataError(
                f"found {self.embedding!r} beside call",
                field="embedding",
                allowed="a function from a list of texts to a list of vectors",
            )

    def __repr__(self) -> str:
        shown = vars(self) | {
            "base_url": None if self.base_url is None else hidden_url(self.base_url),
            "options": hidden(self.options),
        }
        listed = (f"{one.name}={shown[one.name]!r}" for one in fields(self) if one.repr)
        return f"Endpoint({', '.join(listed)})"

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self) | {"options": hidden(self.options)}
        if self.api_key:
            state["api_key"] = HIDDEN
        if self.base_url and any(secrets_of_url(self.base_url)):
            shown = hidden_url(self.base_url)
            has_user = "@" in urlsplit(self.base_url).netloc
            state["base_url"] = shown.replace("://", f"://{HIDDEN}@", 1) if has_user else shown
        return state

    def __copy__(self) -> "Endpoint":
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Endpoint":
        return replace(self, options=deepcopy(self.options, memo))

    @property
    def address(self) -> str:
        """The base URL without user, password, query and fragment, which may hold secrets.

        With `call` it is module and name of the function.
        """
        if self.call is not None:
            return _name_of(self.call)
        parts = urlsplit(self._given_url or "https://api.openai.com/v1")
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))

    @property
    def embedding_name(self) -> str | None:
        """The embedding model, or module and name of a callable (`ragscore.Name` for our own)."""
        if self.embedding is None or isinstance(self.embedding, str):
            return self.embedding
        return _name_of(self.embedding)

    @property
    def _given_url(self) -> str:
        return self.base_url or os.environ.get("OPENAI_BASE_URL") or ""

    def key(self) -> str:
        """Return the API key to send; "none" if there is none.

        Raises
        ------
        DataError
            A pickle kept the endpoint without something secret, and no variable holds it.
        """
        if self.api_key and self.api_key != HIDDEN:
            return self.api_key
        names = KEY_VARIABLES if self.base_url is None else KEY_VARIABLES[:1]
        found = next((key for name in names if (key := os.environ.get(name))), "none")
        if found == "none" and self.api_key:
            raise _lacking("api_key", f"{' or '.join(names)} in the environment, or another one")
        return found

    def _secrets(self) -> list[str]:
        """Return the texts that no file, log or message may contain."""
        found = {
            "base_url": secrets_of_url(self._given_url),
            "options": secrets_in(self.options),
        }
        for name, texts in found.items():
            if HIDDEN in texts:
                raise _lacking(name, "dataclasses.replace with the whole of it")
        key = self.key()
        return [*found["base_url"], *found["options"], *([] if key == "none" else [key])]


def _name_of(function: Callable[..., Any]) -> str:
    kind: Any = function if hasattr(function, "__qualname__") else type(function)
    # The name is stored with judgments, so it must not change when one of our modules moves.
    module = "ragscore" if kind.__module__.startswith("ragscore.") else kind.__module__
    return f"{module}.{kind.__qualname__}"


def _lacking(field: str, allowed: str) -> DataError:
    return DataError("its secret was left out of a pickle", field=field, allowed=allowed)


@dataclass(frozen=True)
class Reply:
    """What came of one call.

    Attributes
    ----------
    content
        The text of a completion, or the vectors of an embeddings call.
    prompt_tokens, completion_tokens
        As the endpoint reports them, whatever it reports: `Reserved.believe` decides.
    fault
        Why the content can't be used, or "".
    """

    content: Any
    prompt_tokens: Any = None
    completion_tokens: Any = None
    n_retries: int = 0
    fault: str = ""


class EndpointClient:
    """Calls to an endpoint, which threads can share.

    `chat` and `embed` raise `CallFailed` if no reply came after all retries, and `EndpointUnusable`
    if the endpoint refuses the key, the model or the address and has answered no call so far. Once
    it has answered, such a refusal is the failure of one call, as by a filter of contents.

    Attributes
    ----------
    redactor
        Hides the endpoint's secrets; what comes of a call went through it. While the client is
        entered, so does all that is logged.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint, self.redactor = endpoint, Redactor(endpoint._secrets())
        self._logs = redacted_logs(self.redactor)
        self._has_answered, self._client = False, cast(Any, None)
        if endpoint.call is not None:
            return
        from ragscore.judging.exchange import bounded_client

        openai = _openai()
        try:
            self._client = openai.OpenAI(
                api_key=endpoint.key(),
                base_url=endpoint.base_url,
                timeout=endpoint.timeout,
                max_retries=endpoint.retries,
                http_client=bounded_client(openai, endpoint.timeout),
            )
        except (
            Exception
        ) as error:  # the HTTP library has errors of its own, which quote the address
            raise DataError(
                self._shown(str(error)), field="base_url", allowed="http://... or https://..."
            ) from None

    def __enter__(self) -> "EndpointClient":
        self._logs.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if self._client is not None:
                self._client.close()
        finally:
            self._logs.__exit__(None, None, None)

    def chat(
        self, messages: list[dict[str, str]], name: str, schema: dict[str, Any], seed: int | None
    ) -> Reply:
        """Return one chat completion whose shape is the schema of this name."""
        endpoint = self.endpoint
        if endpoint.call is not None:
            text = endpoint.call(messages, schema, endpoint.temperature, seed)
            return Reply(self.redactor.text(valid_text(text)))
        settings: dict[str, Any] = {"model": endpoint.model, "messages": messages}
        if endpoint.temperature is not None:
            settings["temperature"] = endpoint.temperature
        if seed is not None:
            settings["seed"] = seed
        if endpoint.structured == "json_schema":
            named = {"name": name, "strict": True, "schema": schema}
            settings["response_format"] = {"type": "json_schema", "json_schema": named}
        elif endpoint.structured == "json_object":
            settings["response_format"] = {"type": "json_object"}
        return self._call(
            lambda: self._client.chat.completions.with_raw_response.create(
                **settings, extra_body=endpoint.options or None
            ),
            completion_text,
        )

    def embed(self, texts: list[str]) -> Reply:
        """Return one vector per text."""
        return self._call(
            lambda: self._client.embeddings.with_raw_response.create(
                model=str(self.endpoint.embedding), input=texts, encoding_format="float"
            ),
            lambda body: _vectors(body, len(texts)),
        )

    def _call(self, send: Callable[[], Any], read: Callable[[dict[str, Any]], Any]) -> Reply:
        """Return what was replied, without secrets."""
        from ragscore.judging.exchange import FAULT, asked_wait

        openai = _openai()
        try:
            raw = send()
        except openai.APIStatusError as error:
            reason = self._shown(str(error))
            wait = asked_wait(error.response.headers)
            if wait is not None and wait > LONGEST_WAIT:
                reason += f" ({too_long(wait)})"
            if error.status_code in (401, 403, 404) and not self._has_answered:
                raise EndpointUnusable(reason) from None
            raise CallFailed(reason, is_free=True) from None
        # The client, its HTTP library and TLS each have their own errors: none may end the run.
        except Exception as error:
            cause = error.__cause__ or error
            raise CallFailed(
                self._shown(
                    f"{type(error).__name__}: {error}" + f" ({cause})" * (cause is not error)
                )
            ) from None
        response = raw.http_response
        if fault := response.extensions.get(FAULT):
            raise CallFailed(self._shown(fault))
        self._has_answered = True
        reply = read_reply_body(response.content, read, raw.retries_taken)
        is_text = isinstance(reply.content, str)
        return replace(reply, content=self.redactor.text(reply.content)) if is_text else reply

    def _shown(self, text: str) -> str:
        """Return a reason without secrets, short and valid as text."""
        return self.redactor.excerpt(valid_text(text), _SHOWN)


class OddReply(Exception):
    """The endpoint's answer can't be used, but for what `content` holds of it."""

    def __init__(self, reason: str, content: Any = None) -> None:
        super().__init__(reason)
        self.content = content


def read_reply_body(
    content: bytes, read: Callable[[dict[str, Any]], Any], n_retries: int = 0
) -> Reply:
    """Return the reply in any bytes that an endpoint may send.

    Token counts are taken over even if nothing else can be used, as the call was paid for.
    """
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return Reply(None, n_retries=n_retries, fault="the endpoint's answer is not valid JSON")
    if not isinstance(body, dict):
        return Reply(None, n_retries=n_retries, fault="the endpoint's answer is not a JSON object")
    usage = body.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    reported = counts.get("prompt_tokens"), counts.get("completion_tokens")
    try:
        return Reply(read(body), *reported, n_retries=n_retries)
    except OddReply as error:
        return Reply(error.content, *reported, n_retries=n_retries, fault=str(error))


def completion_text(body: dict[str, Any]) -> str:
    """Return the text of a chat completion."""
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        raise OddReply("the endpoint's answer holds no choice")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise OddReply("the endpoint's answer holds no message")
    text = message.get("content")
    if text is not None and not isinstance(text, str):
        raise OddReply("the content of the endpoint's answer is not a text")
    text = valid_text(text or "")
    if choice.get("finish_reason") == "length":
        raise OddReply("the reply was cut off at the limit of tokens", text)
    return text


def _vectors(body: dict[str, Any], n: int) -> list[list[float]]:
    """Return the vectors of an embeddings reply, in the order of the texts."""
    data = body.get("data")
    rows = data if isinstance(data, list) else []
    found = {
        row["index"]: row["embedding"]
        for row in rows
        if isinstance(row, dict)
        and type(row.get("index")) is int
        and isinstance(row.get("embedding"), list)
    }
    if len(rows) != n or sorted(found) != list(range(n)):
        raise OddReply(f"the endpoint gave {len(found)} usable vectors for {n} texts")
    return [found[index] for index in range(n)]


def valid_text(text: str) -> str:
    """Return a text that every file takes: half a surrogate pair becomes "\ufffd"."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _openai() -> Any:
    with packages_of("judge", field="judge"):
        import openai
    return openai


@dataclass
class Usage:
    """Counts of calls, tokens and US dollars; NaN where a call did not report its tokens."""

    n_calls: int = 0
    n_cached: int = 0
    n_retries: int = 0
    n_repairs: int = 0
    tokens: float = 0.0
    cost_usd: float = 0.0

    def add(self, other: "Usage") -> None:
        """Add another usage to this one."""
        for count in fields(self):
            setattr(self, count.name, getattr(self, count.name) + getattr(other, count.name))


TOKENS_ADDED = 1_000  # tokens of the prompt that the endpoint may add to what was sent
REPLY_TOKENS = 4_096  # assumed length of a reply without a limit, until a longer one was seen
_ABSURD = 10  # times the worst case: no count above it is believed
_LONGEST = 1_000_000  # tokens of a reply without a limit that are believed


@dataclass
class Reserved:
    """The worst case of one call, which counts as spent until the call's cost is known.

    Attributes
    ----------
    prompt_tokens, completion_tokens
        The worst case. No token is shorter than a byte, so the bytes sent bound the prompt.
    limit
        The reply's limit of tokens, or None.
    cost_usd
        Worst case at first; set the real cost once it is known.
    """

    prompt_tokens: int
    completion_tokens: int
    limit: int | None
    cost_usd: float

    def believe(self, prompt: Any, completion: Any) -> tuple[int | None, int | None, bool]:
        """Return the token counts that can be true, else None, and True if one can't be."""
        longest = _LONGEST if self.limit is None else _ABSURD * max(self.limit, 1)
        prompt_tokens = _count(prompt, _ABSURD * self.prompt_tokens)
        completion_tokens = _count(completion, longest)
        is_untrue = any(
            given is not None and count is None
            for given, count in ((prompt, prompt_tokens), (completion, completion_tokens))
        )
        return prompt_tokens, completion_tokens, is_untrue


def _count(value: Any, most: int) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= most else None


class CostTracker:
    """Money spent by all threads together, with a limit.

    Parameters
    ----------
    prices
        US dollars per million tokens by model: (prompt, completion), or one number for both, as for
        embeddings.
    max_cost
        No call starts once what was spent and what running calls may cost reach this sum. So it is
        passed by one call at most.
    models
        The models to be called. With `max_cost`, each of them needs a price.

    Raises
    ------
    DataError
        A price that is not one or two numbers from 0, a limit that is no number from 0, or
        `max_cost` without a price.
    """

    def __init__(self, prices: Prices | None, max_cost: float | None, models: list[str]) -> None:
        self.prices = {model: _price_pair(model, price) for model, price in (prices or {}).items()}
        unpriced = [model for model in models if model not in self.prices]
        if max_cost is not None:
            if not _is_amount(max_cost):
                raise DataError(
                    f"found {max_cost!r}", field="max_cost", allowed="US dollars, from 0"
                )
            if unpriced:
                raise DataError(
                    f"no price of {', '.join(unpriced)}",
                    field="max_cost",
                    allowed="prices={model: (prompt, completion)}, in dollars per million tokens",
                )
        self.max_cost, self.spent, self.n_untrue = max_cost, 0.0, 0
        self._running, self._n_running, self._longest = 0.0, 0, REPLY_TOKENS
        self._stopped = ""
        self._turn = threading.Condition()

    def cost(self, model: str, prompt_tokens: int | None, completion_tokens: int | None) -> float:
        """Return the price of so many tokens; NaN if price or tokens are unknown."""
        if model not in self.prices or prompt_tokens is None or completion_tokens is None:
            return math.nan
        prompt, completion = self.prices[model]
        return (prompt * prompt_tokens + completion * completion_tokens) / 1e6

    def stop(self, reason: str) -> None:
        """Let no further call start."""
        with self._turn:
            self._stopped = self._stopped or reason
            self._turn.notify_all()

    @contextmanager
    def reserve(
        self, model: str, n_bytes: int, *, limit: int | None = None, is_chat: bool = True
    ) -> Iterator[Reserved]:
        """Hold back what a call may cost at worst while it runs.

        Waits for running calls if only their reserves stand in the way.

        Raises
        ------
        CallsStopped
            The limit is reached, or the run was stopped.
        """
        with self._turn:
            completion = (self._longest if limit is None else limit) if is_chat else 0
            prompt = n_bytes + TOKENS_ADDED
            worst = self.cost(model, prompt, completion)
            reserved = Reserved(prompt, completion, limit, worst)
            self._turn.wait_for(lambda: self._stopped or not self._is_full() or not self._n_running)
            if self._stopped:
                raise CallsStopped(self._stopped)
            if self._is_full():
                raise CallsStopped(f"max_cost {self.max_cost:g} is reached")
            self._running += worst
            self._n_running += 1
        try:
            yield reserved
        finally:
            with self._turn:
                self._n_running -= 1
                # Of no running call the sum is 0, not what rounding left of it.
                self._running = self._running - worst if self._n_running else 0.0
                self.spent += reserved.cost_usd
                self._turn.notify_all()

    def believe(self, reserved: Reserved, reply: Reply) -> tuple[int | None, int | None]:
        """Return the token counts of a reply that can be true, and count those that can't."""
        prompt, completion, is_untrue = reserved.believe(
            reply.prompt_tokens, reply.completion_tokens
        )
        with self._turn:
            self.n_untrue += is_untrue
            self._longest = max(self._longest, completion or 0)
        return prompt, completion

    def _is_full(self) -> bool:
        return self.max_cost is not None and self.spent + self._running >= self.max_cost


def _is_amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1e12


def _price_pair(model: str, price: Price) -> tuple[float, float]:
    pair = tuple(price) if isinstance(price, (tuple, list)) else (price, price)
    if len(pair) != 2 or not all(map(_is_amount, pair)):
        raise DataError(
            f"found {price!r} for {model}",
            field="prices",
            allowed="(prompt, completion) in US dollars per million tokens, or one number for both",
        )
    return float(pair[0]), float(pair[1])
