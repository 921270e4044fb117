"""An OpenAI-compatible endpoint for chat completions and embeddings, and the cost of its calls.

A local llama.cpp, vLLM or Ollama server is a `base_url`. No other module of the library connects
to a model. Costs are reported tokens times a price table; a cost that is unknown is NaN, never 0.
"""

import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ragscore.frames.data import DataError
from ragscore.frames.errors import check_choice

KEY_VARIABLES = ("RAGSCORE_JUDGE_API_KEY", "OPENAI_API_KEY")
STRUCTURED = ("json_schema", "json_object", "none")
_OWN_FIELDS = ("model", "messages", "temperature", "seed", "response_format", "stream", "n")
Embed = Callable[[list[str]], Sequence[Sequence[float]]]
Price = float | tuple[float, float] | list[float]
Prices = Mapping[str, Price]


class CallFailed(Exception):
    """A call without a usable answer, after all retries."""


class EndpointUnusable(Exception):
    """The endpoint refuses the key, the model or the address, so further calls are pointless."""


class BudgetExceeded(Exception):
    """The cost limit is reached; no further call is made."""


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
        is never sent to a `base_url`. The key is never shown or written to a file.
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
        Seconds per call, and number of retries after 429, 5xx or a lost connection. Retries wait
        with growing pauses and jitter, or as long as the server asks.

    Raises
    ------
    DataError
        An empty model name, an unknown `structured`, or an option that has its own attribute.
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

    @property
    def address(self) -> str:
        """The base URL without user, password, query and fragment, which may hold secrets."""
        parts = urlsplit(
            self.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        )
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))

    @property
    def embedding_name(self) -> str | None:
        """The embedding model, or module and name of a callable (`ragscore.Name` for our own)."""
        if self.embedding is None or isinstance(self.embedding, str):
            return self.embedding
        kind = self.embedding if hasattr(self.embedding, "__qualname__") else type(self.embedding)
        # The name is stored with judgments, so it must not change when one of our modules moves.
        module = "ragscore" if kind.__module__.startswith("ragscore.") else kind.__module__
        return f"{module}.{kind.__qualname__}"

    def key(self) -> str:
        """Return the API key to send; "none" if there is none."""
        if self.api_key:
            return self.api_key
        names = KEY_VARIABLES if self.base_url is None else KEY_VARIABLES[:1]
        return next((key for name in names if (key := os.environ.get(name))), "none")


@dataclass(frozen=True)
class Reply:
    """A chat completion; tokens are None if the server does not report them."""

    text: str
    finish: str
    prompt_tokens: int | None
    completion_tokens: int | None
    n_retries: int


class EndpointClient:
    """Calls to an endpoint, over a connection that threads can share.

    `chat` and `embed` raise `CallFailed` if no usable answer came after all retries, and
    `EndpointUnusable` if the endpoint refuses the key, the model or the address.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._client = _openai().OpenAI(
            api_key=endpoint.key(),
            base_url=endpoint.base_url,
            timeout=endpoint.timeout,
            max_retries=endpoint.retries,
        )

    def __enter__(self) -> "EndpointClient":
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def chat(
        self, messages: list[dict[str, str]], name: str, schema: dict[str, Any], seed: int | None
    ) -> Reply:
        """Return one chat completion whose shape is the schema of this name."""
        endpoint = self.endpoint
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
        completion, n_retries = self._call(
            lambda: self._client.chat.completions.with_raw_response.create(
                **settings, extra_body=endpoint.options or None
            )
        )
        choices = getattr(completion, "choices", None)
        if not choices or choices[0].message is None:
            raise CallFailed("the endpoint's answer holds no choice")
        usage = getattr(completion, "usage", None)
        return Reply(
            choices[0].message.content or "",
            choices[0].finish_reason or "",
            getattr(usage, "prompt_tokens", None),
            getattr(usage, "completion_tokens", None),
            n_retries,
        )

    def embed(self, texts: list[str]) -> tuple[list[list[float]], int | None]:
        """Return one vector per text, and the tokens used."""
        response, _ = self._call(
            lambda: self._client.embeddings.with_raw_response.create(
                model=str(self.endpoint.embedding), input=texts, encoding_format="float"
            )
        )
        vectors = sorted(getattr(response, "data", None) or [], key=lambda vector: vector.index)
        if [vector.index for vector in vectors] != list(range(len(texts))):
            raise CallFailed(f"the endpoint gave {len(vectors)} vectors for {len(texts)} texts")
        tokens = getattr(getattr(response, "usage", None), "prompt_tokens", None)
        return [list(vector.embedding) for vector in vectors], tokens

    def _call(self, send: Callable[[], Any]) -> tuple[Any, int]:
        """Return the parsed answer and the number of retries; errors do not show the key."""
        openai = _openai()
        try:
            raw = send()
        except (
            openai.AuthenticationError,
            openai.PermissionDeniedError,
            openai.NotFoundError,
        ) as error:
            raise EndpointUnusable(self._without_key(str(error))) from None
        except openai.APIError as error:
            raise CallFailed(self._without_key(f"{type(error).__name__}: {error}")[:300]) from None
        try:
            return raw.parse(), raw.retries_taken
        except ValueError as error:
            raise CallFailed(f"the endpoint's answer is not valid JSON: {error}"[:300]) from None

    def _without_key(self, text: str) -> str:
        key = self.endpoint.key()
        return text if key == "none" else text.replace(key, "***")


def _openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise DataError(
            "judges need the openai client", field="judge", allowed="pip install 'ragscore[judge]'"
        ) from error
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


class CostTracker:
    """Money spent by all threads together, with a limit.

    Parameters
    ----------
    prices
        US dollars per million tokens by model: (prompt, completion), or one number for both, as for
        embeddings.
    max_cost
        No call starts once this much is spent; running calls are finished.
    models
        The models to be called. With `max_cost`, each of them needs a price.

    Raises
    ------
    DataError
        A price that is not one or two numbers from 0, or `max_cost` without a price.
    """

    def __init__(self, prices: Prices | None, max_cost: float | None, models: list[str]) -> None:
        self.prices = {model: _price_pair(model, price) for model, price in (prices or {}).items()}
        unpriced = [model for model in models if model not in self.prices]
        if max_cost is not None and unpriced:
            raise DataError(
                f"no price of {', '.join(unpriced)}",
                field="max_cost",
                allowed="prices={model: (prompt, completion)}, in US dollars per million tokens",
            )
        self.max_cost, self.spent = max_cost, 0.0
        self._lock = threading.Lock()

    def cost(self, model: str, prompt_tokens: int | None, completion_tokens: int | None) -> float:
        """Return the price of so many tokens; NaN if price or tokens are unknown."""
        if model not in self.prices or prompt_tokens is None or completion_tokens is None:
            return math.nan
        prompt, completion = self.prices[model]
        return (prompt * prompt_tokens + completion * completion_tokens) / 1e6

    def add(self, cost: float) -> None:
        """Add a cost to the total."""
        with self._lock:
            self.spent += cost

    def check(self) -> None:
        """Raise `BudgetExceeded` if the limit is reached, or if the total is unknown."""
        if self.max_cost is None:
            return
        if math.isnan(self.spent):
            raise BudgetExceeded(
                "the endpoint doesn't report its tokens, so max_cost can't be enforced"
            )
        if self.spent >= self.max_cost:
            raise BudgetExceeded(f"max_cost {self.max_cost:g} is reached")


def _price_pair(model: str, price: Price) -> tuple[float, float]:
    pair = (price, price) if isinstance(price, (int, float)) else tuple(price)
    if len(pair) != 2 or not all(isinstance(part, (int, float)) and part >= 0 for part in pair):
        raise DataError(
            f"found {price!r} for {model}",
            field="prices",
            allowed="(prompt, completion) in US dollars per million tokens, or one number for both",
        )
    return float(pair[0]), float(pair[1])
