"""An OpenAI-compatible endpoint for chat completions and embeddings, and the cost of its calls.

A local llama.cpp, vLLM or Ollama server is a `base_url`, and any other model a function (`call`).
The openai client limits the time of a call and repeats it. Costs are reported tokens times a price
table; a cost that is unknown is NaN, never 0.
"""

import json
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from ragscore.frames.data import DataError
from ragscore.frames.errors import check_choice, packages_of
from ragscore.io.secrets import Redactor, checked_address, checked_key, redacted_logs, refuse_keys

KEY_VARIABLES = ("RAGSCORE_JUDGE_API_KEY", "OPENAI_API_KEY")
STRUCTURED = ("json_schema", "json_object", "none")
_SHOWN = 300  # characters of an endpoint's reply in a reason
_OWN_FIELDS = ("model", "messages", "temperature", "seed", "response_format", "stream", "n")
_KEY_PLACES = f"the key in api_key= or {KEY_VARIABLES[0]}"
Embed = Callable[[list[str]], Sequence[Sequence[float]]]
Call = Callable[[list[dict[str, str]], dict[str, Any], float | None, int | None], str]
Price = float | tuple[float, float] | list[float]
Prices = Mapping[str, Price]


class CallFailed(Exception):
    """A call without a reply, after all retries."""


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
        As the openai client takes them: seconds for each step of an attempt (connecting, waiting
        for data), and retries after 429, 5xx or a lost connection, with growing pauses or as long
        as the server asks, up to a minute.
    call
        A function instead of an address: `call(messages, schema, temperature, seed)` returns the
        text of the reply, a JSON object of this schema. It retries by itself, and costs are NaN.

    Raises
    ------
    DataError
        An empty model name, an unknown `structured`, an option that has its own attribute, an
        embedding model beside `call`, which needs a function; no address; a key in `base_url` or
        `options`, or one that no header can hold.
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
        refuse_keys(self.options, "options", _KEY_PLACES)
        if self.call is None:
            checked_address(self._url, "base_url", _KEY_PLACES)
        checked_key(self.api_key or "", "api_key")

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"api_key": None}

    def __copy__(self) -> "Endpoint":
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Endpoint":
        return replace(self)

    @property
    def _url(self) -> str:
        return self.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"

    @property
    def address(self) -> str:
        """The base URL without query and fragment. With `call`: module and name of the function."""
        if self.call is not None:
            return _name_of(self.call)
        parts = urlsplit(self._url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))

    @property
    def embedding_name(self) -> str | None:
        """The embedding model, or module and name of a callable (`ragscore.Name` for our own)."""
        if self.embedding is None or isinstance(self.embedding, str):
            return self.embedding
        return _name_of(self.embedding)

    def key(self) -> str:
        """Return the API key to send; "none" if there is none."""
        names = KEY_VARIABLES if self.base_url is None else KEY_VARIABLES[:1]
        known = (key for name in names if (key := os.environ.get(name)))
        return checked_key(self.api_key or next(known, "none"), "api_key")


def _name_of(function: Callable[..., Any]) -> str:
    kind: Any = function if hasattr(function, "__qualname__") else type(function)
    # The name is stored with judgments, so it must not change when one of our modules moves.
    module = "ragscore" if kind.__module__.startswith("ragscore.") else kind.__module__
    return f"{module}.{kind.__qualname__}"


@dataclass(frozen=True)
class Reply:
    """A reply's text or vectors, the tokens that it reports, and why it can't be used, or ""."""

    content: Any
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
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
        Hides the key; what comes of a call went through it. While the client is entered, so does
        all that is logged.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint, self.redactor = endpoint, Redactor([endpoint.key()])
        self._logs = redacted_logs(self.redactor)
        self._has_answered, self._client = False, cast(Any, None)
        if endpoint.call is None:
            with packages_of("judge", field="judge"):
                import openai
            # A redirect could take texts elsewhere.
            http = openai.DefaultHttpxClient(follow_redirects=False, timeout=endpoint.timeout)
            self._client = openai.OpenAI(
                api_key=endpoint.key(), base_url=endpoint.base_url, timeout=endpoint.timeout,
                max_retries=endpoint.retries, http_client=http,
            )  # fmt: skip

    def __enter__(self) -> "EndpointClient":
        self._logs.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._client is not None:
            self._client.close()
        self._logs.__exit__(None, None, None)

    def chat(
        self, messages: list[dict[str, str]], name: str, schema: dict[str, Any], seed: int | None
    ) -> Reply:
        """Return one chat completion whose shape is the schema of this name."""
        endpoint = self.endpoint
        if endpoint.call is not None:
            text = endpoint.call(messages, schema, endpoint.temperature, seed)
            return Reply(self.redactor.text(valid_text(text)))
        formats: dict[str, Any] = {
            "json_schema": {
                "type": "json_schema",
                "json_schema": {"name": name, "strict": True, "schema": schema},
            },
            "json_object": {"type": "json_object"},
        }
        known = {
            "temperature": endpoint.temperature,
            "seed": seed,
            "response_format": formats.get(endpoint.structured),
            "extra_body": endpoint.options or None,
        }
        reply, body = self._call(
            self._client.chat.completions, model=endpoint.model, messages=messages,
            **{one: value for one, value in known.items() if value is not None},
        )  # fmt: skip
        try:
            choice = body["choices"][0]
            text = self.redactor.text(valid_text(choice["message"]["content"] or ""))
        except (LookupError, TypeError, AttributeError):
            return replace(reply, content="", fault="the endpoint's answer is no completion")
        is_cut = choice.get("finish_reason") == "length"
        fault = "the reply was cut off at the limit of tokens" if is_cut else ""
        return replace(reply, content=text, fault=fault)

    def embed(self, texts: list[str]) -> Reply:
        """Return one vector per text."""
        reply, body = self._call(
            self._client.embeddings, model=str(self.endpoint.embedding), input=texts,
            encoding_format="float",
        )  # fmt: skip
        try:
            found = {row["index"]: row["embedding"] for row in body["data"]}
            vectors = [found[index] for index in range(len(texts))]
        except (LookupError, TypeError):
            fault = f"the endpoint's answer is no {len(texts)} vectors"
            return replace(reply, content=[], fault=fault)
        return replace(reply, content=vectors, completion_tokens=0)

    def _call(self, resource: Any, **sent: Any) -> tuple[Reply, Any]:
        """Return a reply without content, and the body to read it from; {} if that is no object."""
        try:
            raw, failed = resource.with_raw_response.create(**sent), None
        except Exception as error:  # the client, its HTTP library and TLS each have their own
            cause = error.__cause__ or error
            text = f"{type(error).__name__}: {error}" + f" ({cause})" * (cause is not error)
            reason = self.redactor.excerpt(valid_text(text), _SHOWN)
            is_refusal = getattr(error, "status_code", None) in (401, 403, 404)
            unusable = is_refusal and not self._has_answered
            failed = EndpointUnusable(reason) if unusable else CallFailed(reason)
        if failed is not None:  # raised out there, as the error beneath holds the request
            raise failed
        self._has_answered = True
        try:
            body = json.loads(raw.content)
        except (ValueError, RecursionError):
            body = None
        body = body if isinstance(body, dict) else {}
        usage = body["usage"] if isinstance(body.get("usage"), dict) else {}
        prompt, completion = (
            count if type(count := usage.get(name)) is int and 0 <= count < 1e12 else None
            for name in ("prompt_tokens", "completion_tokens")
        )
        return Reply(None, prompt, completion, raw.retries_taken), body


def valid_text(text: str) -> str:
    """Return a text that every file takes: half a surrogate pair becomes "\ufffd"."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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


class CostTracker:
    """Money spent by all threads together, with a limit.

    Parameters
    ----------
    prices
        US dollars per million tokens by model: (prompt, completion), or one number for both, as for
        embeddings.
    max_cost
        No call starts once this sum is spent, or a call's cost is unknown; calls under way may
        pass it.
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
        if max_cost is not None and not _is_amount(max_cost):
            raise DataError(f"found {max_cost!r}", field="max_cost", allowed="US dollars, from 0")
        if max_cost is not None and unpriced:
            raise DataError(
                f"no price of {', '.join(unpriced)}",
                field="max_cost",
                allowed="prices={model: (prompt, completion)}, in dollars per million tokens",
            )
        self.max_cost, self.spent, self._stopped = max_cost, 0.0, ""
        self._turn = threading.Lock()

    def cost(self, model: str, prompt_tokens: int | None, completion_tokens: int | None) -> float:
        """Return the price of so many tokens; NaN if price or tokens are unknown."""
        if model not in self.prices or prompt_tokens is None or completion_tokens is None:
            return math.nan
        prompt, completion = self.prices[model]
        return (prompt * prompt_tokens + completion * completion_tokens) / 1e6

    def stop(self, reason: str) -> None:
        """Let no further call start."""
        self._stopped = self._stopped or reason

    def check(self) -> None:
        """Raise `CallsStopped` if no further call may start."""
        if self.max_cost is not None and not self.spent < self.max_cost:
            unknown = ", as a call's cost is unknown" if math.isnan(self.spent) else ""
            self.stop(f"max_cost {self.max_cost:g} is reached{unknown}")
        if self._stopped:
            raise CallsStopped(self._stopped)

    def add(self, cost: float) -> None:
        """Count what a call cost."""
        with self._turn:
            self.spent += cost


def _is_amount(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) <= 1e12


def _price_pair(model: str, price: Price) -> tuple[float, float]:
    pair = tuple(price) if isinstance(price, (tuple, list)) else (price, price)
    if len(pair) != 2 or not all(map(_is_amount, pair)):
        raise DataError(
            f"found {price!r} for {model}",
            field="prices",
            allowed="(prompt, completion) in US dollars per million tokens, or one number for both",
        )
    return float(pair[0]), float(pair[1])
