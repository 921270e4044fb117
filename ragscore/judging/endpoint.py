"""An OpenAI-compatible endpoint: chat completions and embeddings, over the `openai` client.

A local llama.cpp, vLLM or Ollama server is a `base_url`. Nothing else of the library opens a
connection to a model.

What judging costs.

Tokens as the endpoint reports them, money from a table of prices, and a limit to it.

Unknown is NaN, never 0: a model without a price has no cost, and what is not known can't be kept
below a limit.
"""

import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ragscore.frames.data import DataError

KEY_VARIABLES = ("RAGSCORE_JUDGE_API_KEY", "OPENAI_API_KEY")
STRUCTURED = ("json_schema", "json_object", "none")
_OURS = ("model", "messages", "temperature", "seed", "response_format", "stream", "n")
Embed = Callable[[list[str]], Sequence[Sequence[float]]]


class CallFailed(Exception):
    """A call that gave no reply, after all retries."""


class Unusable(Exception):
    """The endpoint refuses us altogether: wrong key, model or address. Asking on is of no use."""


@dataclass(frozen=True)
class Endpoint:
    """Whom to ask, and how.

    Attributes
    ----------
    model
        The model's name at the endpoint.
    base_url
        Of an OpenAI-compatible server, such as http://127.0.0.1:8080/v1; None is api.openai.com, or
        OPENAI_BASE_URL.
    api_key
        By default RAGSCORE_JUDGE_API_KEY, and without a `base_url` OPENAI_API_KEY: that one is
        never sent to an address that you name here. It is shown nowhere and written to no file.
    temperature, seed
        Sent with every call; None leaves them out, and to the server. Repeat r of a judgment is
        asked with seed + r - 1.
    embedding
        Of answer relevance: a model of this endpoint, or a callable from a list of texts to a list
        of vectors.
    structured
        How the reply's shape is enforced: by its JSON schema, as any JSON object (the schema then
        stands in the prompt), or by the prompt alone ("none").
    options
        Further fields of every chat request, such as {"max_tokens": 1000}.
    timeout, retries
        Seconds for a call, and how often one is asked anew after 429, 5xx or a lost connection,
        with growing pauses and jitter, or as the server says.
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
        if self.structured not in STRUCTURED:
            raise DataError(
                f"found {self.structured!r}",
                field="structured",
                allowed=f"one of {', '.join(STRUCTURED)}",
            )
        if taken := [name for name in _OURS if name in self.options]:
            raise DataError(
                f"found {', '.join(taken)}",
                field="options",
                allowed="fields that Endpoint has no argument for",
            )

    @property
    def address(self) -> str:
        """Where it is, without what a URL may hold of secrets."""
        parts = urlsplit(
            self.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        )
        return urlunsplit(
            (parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", "")
        )

    @property
    def embedding_name(self) -> str | None:
        """The embedding model; of a callable, its module and name, and `ragscore.Name` of ours."""
        if self.embedding is None or isinstance(self.embedding, str):
            return self.embedding
        kind = self.embedding if hasattr(self.embedding, "__qualname__") else type(self.embedding)
        # What is recorded must not change when a module of ours is moved.
        module = "ragscore" if kind.__module__.startswith("ragscore.") else kind.__module__
        return f"{module}.{kind.__qualname__}"

    def key(self) -> str:
        """The key to send."""
        if self.api_key:
            return self.api_key
        names = KEY_VARIABLES if self.base_url is None else KEY_VARIABLES[:1]
        return next((key for name in names if (key := os.environ.get(name))), "none")


@dataclass(frozen=True)
class Reply:
    """What a call gave: text, why it ended, tokens (None where the server doesn't say) and retries."""

    text: str
    finish: str
    prompt_tokens: int | None
    completion_tokens: int | None
    n_retries: int


class Client:
    """Calls to an endpoint; safe to share between threads.

    The connection is made with the first call.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._client = _openai().OpenAI(
            api_key=endpoint.key(),
            base_url=endpoint.base_url,
            timeout=endpoint.timeout,
            max_retries=endpoint.retries,
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def chat(
        self, messages: list[dict[str, str]], name: str, schema: dict[str, Any], seed: int | None
    ) -> Reply:
        """One chat completion.

        Raises
        ------
        CallFailed
            No usable answer came, after all retries.
        Unusable
            The endpoint refuses the key, the model or the address.
        """
        fields: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": messages,
            **self.endpoint.options,
        }
        fields |= (
            {} if self.endpoint.temperature is None else {"temperature": self.endpoint.temperature}
        )
        fields |= {} if seed is None else {"seed": seed}
        fields |= _format(self.endpoint.structured, name, schema)
        known = {key: value for key, value in fields.items() if key not in self.endpoint.options}
        raw = self._call(
            lambda: self._client.chat.completions.with_raw_response.create(
                **known, extra_body=self.endpoint.options or None
            )
        )
        parsed = self._parsed(raw)
        choices = getattr(parsed, "choices", None)
        if not choices or choices[0].message is None:
            raise CallFailed("the endpoint's answer holds no choice")
        usage = getattr(parsed, "usage", None)
        tokens = [getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")]
        return Reply(
            choices[0].message.content or "",
            choices[0].finish_reason or "",
            tokens[0],
            tokens[1],
            raw.retries_taken,
        )

    def embed(self, texts: list[str]) -> tuple[list[list[float]], int | None]:
        """A vector for each text, and the tokens that it took; raises as `chat`."""
        raw = self._call(
            lambda: self._client.embeddings.with_raw_response.create(
                model=str(self.endpoint.embedding), input=texts, encoding_format="float"
            )
        )
        parsed = self._parsed(raw)
        found = sorted(getattr(parsed, "data", None) or [], key=lambda one: one.index)
        if [one.index for one in found] != list(range(len(texts))):
            raise CallFailed(f"the endpoint gave {len(found)} vectors for {len(texts)} texts")
        return [list(one.embedding) for one in found], getattr(
            getattr(parsed, "usage", None), "prompt_tokens", None
        )

    def _call(self, send: Callable[[], Any]) -> Any:
        openai = _openai()
        try:
            return send()
        except (
            openai.AuthenticationError,
            openai.PermissionDeniedError,
            openai.NotFoundError,
        ) as error:
            raise Unusable(self._without_key(str(error))) from None
        except openai.APIError as error:
            raise CallFailed(self._without_key(f"{type(error).__name__}: {error}")[:300]) from None

    def _parsed(self, raw: Any) -> Any:
        try:
            return raw.parse()
        except ValueError as error:
            raise CallFailed(f"the endpoint's answer is not valid JSON: {error}"[:300]) from None

    def _without_key(self, text: str) -> str:
        key = self.endpoint.key()
        return text if key == "none" else text.replace(key, "***")


def _format(structured: str, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    if structured == "json_schema":
        return {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": name, "strict": True, "schema": schema},
            }
        }
    return {"response_format": {"type": "json_object"}} if structured == "json_object" else {}


def _openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise DataError(
            "judges need the openai client", field="judge", allowed="pip install 'ragscore[judge]'"
        ) from error
    return openai


Prices = Mapping[str, float | tuple[float, float] | list[float]]


class OutOfMoney(Exception):
    """The limit is reached; nothing more is asked."""


@dataclass
class Usage:
    """What something took; tokens and cost are NaN where a call didn't say."""

    n_calls: int = 0
    n_cached: int = 0
    n_retries: int = 0
    n_repairs: int = 0
    tokens: float = 0.0
    cost_usd: float = 0.0

    def add(self, other: "Usage") -> None:
        """Add what something else took."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


class Purse:
    """Money spent, together for all threads.

    Parameters
    ----------
    prices
        US dollars per million tokens by model: (prompt, completion), or one number for both, as for
        embeddings.
    max_cost
        No call starts once this much is spent; calls under way are finished.
    """

    def __init__(self, prices: Prices | None, max_cost: float | None, models: list[str]) -> None:
        self.prices = {model: _pair(model, price) for model, price in (prices or {}).items()}
        without = [model for model in models if model not in self.prices]
        if max_cost is not None and without:
            raise DataError(
                f"no price of {', '.join(without)}",
                field="max_cost",
                allowed="prices={model: (prompt, completion)}, in US dollars per million tokens",
            )
        self.max_cost, self.spent = max_cost, 0.0
        self._lock = threading.Lock()

    def cost(self, model: str, prompt_tokens: int | None, completion_tokens: int | None) -> float:
        """What so many tokens of a model cost; NaN where the price or the tokens aren't known."""
        if model not in self.prices or prompt_tokens is None or completion_tokens is None:
            return math.nan
        prompt, completion = self.prices[model]
        return (prompt * prompt_tokens + completion * completion_tokens) / 1e6

    def pay(self, cost: float) -> None:
        """Note that this was spent."""
        with self._lock:
            self.spent += cost

    def check(self) -> None:
        """Raise `OutOfMoney` where the limit is reached, or where a call didn't say what it took."""
        if self.max_cost is None:
            return
        if math.isnan(self.spent):
            raise OutOfMoney("the endpoint doesn't report its tokens, so max_cost can't be kept")
        if self.spent >= self.max_cost:
            raise OutOfMoney(f"max_cost {self.max_cost:g} is reached")


def _pair(model: str, price: float | tuple[float, float] | list[float]) -> tuple[float, float]:
    pair = (price, price) if isinstance(price, (int, float)) else tuple(price)
    if len(pair) != 2 or not all(isinstance(one, (int, float)) and one >= 0 for one in pair):
        raise DataError(
            f"found {price!r} for {model}",
            field="prices",
            allowed="(prompt, completion) in US dollars per million tokens, or one number for both",
        )
    return float(pair[0]), float(pair[1])
