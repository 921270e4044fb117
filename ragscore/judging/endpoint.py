"""An OpenAI-compatible endpoint for chat completions and embeddings, and the cost of its calls.

A local llama.cpp, vLLM or Ollama server is a `base_url`, and any other model a function (`call`).
The openai client limits the time of a call and repeats it. Costs are reported tokens times a price
table; a cost that is unknown is NaN, never 0.
"""

import json
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from ragscore.frames.data import DataError
from ragscore.frames.errors import check_choice, packages_of
from ragscore.io.secrets import Redactor, checked_address, checked_key, redacted_logs, refuse_keys
from ragscore.io.values import value_at
from ragscore.judging.judges import ReplyError

KEY_VARIABLES = ("RAGSCORE_JUDGE_API_KEY", "OPENAI_API_KEY")
STRUCTURED = ("json_schema", "json_object", "none")
_SHOWN = 300  # characters of an endpoint's reply in a reason
_OWN_FIELDS = ("model", "messages", "temperature", "seed", "response_format", "stream", "n")
_KEY_PLACES = f"the key in api_key= or {KEY_VARIABLES[0]}"
Embed = Callable[[list[str]], Sequence[Sequence[float]]]
Call = Callable[[list[dict[str, str]], dict[str, Any], float | None, int | None], str]
Vectors = np.ndarray[Any, np.dtype[np.float64]]
Price = float | tuple[float, float] | list[float]
Prices = Mapping[str, Price]


class JudgeFailed(Exception):
    """No verdict: the call failed after all retries, or the reply is unusable."""


class EndpointUnusable(DataError):
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
    """A reply's text, the tokens that it reports, and why it can't be used, or ""."""

    content: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    n_retries: int = 0
    fault: str = ""


@dataclass
class EndpointClient:
    """Calls to an endpoint, which threads can share; see `connected`.

    `chat` and `embed` raise `JudgeFailed` if no reply came after all retries, and
    `EndpointUnusable` if the endpoint refuses the key, the model or the address and has answered no
    call so far. Once it has answered, such a refusal is the failure of one call, as by a filter of
    contents. The redactor hides the key in what comes of a call.
    """

    endpoint: Endpoint
    redactor: Redactor
    openai: Any = None
    has_answered: bool = False

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

        reply, body = self._call(
            self.openai.chat.completions, model=endpoint.model, messages=messages,
            **{one: value for one, value in known.items() if value is not None},
        )  # fmt: skip
        text = value_at(body, "choices.0.message.content", "")
        is_cut = value_at(body, "choices.0.finish_reason") == "length"
        return replace(
            reply, content=self.redactor.text(valid_text(text if isinstance(text, str) else "")),
            fault="the reply was cut off at the limit of tokens" if is_cut else "",
        )  # fmt: skip

    def embed(self, texts: list[str]) -> Reply:
        """Return one vector per text, as JSON."""
        reply, body = self._call(
            self.openai.embeddings, model=str(self.endpoint.embedding), input=texts,
            encoding_format="float",
        )  # fmt: skip
        try:
            found = {row["index"]: row["embedding"] for row in value_at(body, "data")}
            vectors = matrix([found[n] for n in range(len(texts))], len(texts))
        except (LookupError, TypeError):
            fault = f"the endpoint's answer is no {len(texts)} vectors"
            return replace(reply, completion_tokens=0, fault=fault)
        return replace(reply, completion_tokens=0, content=json.dumps(vectors.tolist()))

    def _call(self, resource: Any, **sent: Any) -> tuple[Reply, Any]:
        """Return a reply without content, and the body to read it from; None if that is no JSON."""
        failed: Exception | None = None
        try:
            raw = resource.with_raw_response.create(**sent)
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
        return Reply("", prompt, completion, raw.retries_taken), body


@contextmanager
def connected(endpoint: Endpoint) -> Iterator[EndpointClient]:
    """Open a client of an endpoint; meanwhile its key is hidden in all that is logged."""
    client = EndpointClient(endpoint, Redactor([endpoint.key()]))
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


def matrix(vectors: Any, n: int) -> Vectors:
    """Return vectors as a matrix, or raise a `ReplyError`; numbers written as text are none."""
    try:
        found = np.asarray(vectors)
        is_matrix = found.dtype.kind in "iuf" and found.ndim == 2 and len(found) == n
    except (TypeError, ValueError, OverflowError):
        is_matrix = False
    if not is_matrix or not np.isfinite(found).all():
        raise ReplyError(f"the embeddings are not {n} vectors of one length, all finite")
    return found.astype("float64")


def valid_text(text: str) -> str:
    """Return a text that every file takes: half a surrogate pair becomes "\ufffd"."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
        self.max_cost, self.spent, self._stopped = max_cost, 0.0, ""
        self._turn = threading.Lock()
        if max_cost is None:
            return
        if not _is_amount(max_cost):
            raise DataError(f"found {max_cost!r}", field="max_cost", allowed="US dollars, from 0")
        if unpriced := [model for model in models if model not in self.prices]:
            raise DataError(
                f"no price of {', '.join(unpriced)}",
                field="max_cost",
                allowed="prices={model: (prompt, completion)}, in dollars per million tokens",
            )

    def usage(self, model: str, reply: Reply) -> dict[str, Any]:
        """Return tokens and price of a reply; NaN if unknown."""
        prompt, completion = (
            math.nan if count is None else float(count)
            for count in (reply.prompt_tokens, reply.completion_tokens)
        )
        prices = self.prices.get(model, (math.nan, math.nan))
        cost = (prices[0] * prompt + prices[1] * completion) / 1e6
        return {"tokens": prompt + completion, "cost_usd": cost}

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
