"""An OpenAI-compatible endpoint for chat completions, the cost of its calls, and their cache.

A local llama.cpp, vLLM or Ollama server is a `base_url`, and any other model a function (`call`).
The openai client limits the time of a call and repeats it. Costs are reported tokens times a price
table; a cost that is unknown is NaN, never 0. Replies are kept in one SQLite file, which threads
and processes can share, so that none is paid for twice. Only usable ones are, with a checksum.
"""

import math
import os
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from ragscore.frames.data import DataError, check_type
from ragscore.frames.errors import check_choice, excerpt, plural, warn
from ragscore.io.servers import checked_address, checked_key, refuse_keys
from ragscore.judging.replies import JudgeFailed, digest

KEY_VARIABLES = ("RAGSCORE_JUDGE_API_KEY", "OPENAI_API_KEY")
STRUCTURED = ("json_schema", "json_object", "none")
_OWN_FIELDS = ("model", "messages", "temperature", "seed", "response_format", "stream", "n")
_KEY_PLACES = f"the key in api_key= or {KEY_VARIABLES[0]}"
DEFAULT_CACHE = "~/.cache/ragscore/judge.sqlite"
_TABLE = "replies (key text primary key, reply text, prompt integer, completion integer, hash text)"
_WAIT = 60.0  # seconds for another process to write
T = TypeVar("T")
Embed = Callable[[list[str]], Sequence[Sequence[float]]]
Call = Callable[[list[dict[str, str]], dict[str, Any], float | None, int | None], str]
Prices = Mapping[str, float | tuple[float, float] | list[float]]


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
        For answer relevance: a function from a list of texts to a list of vectors.
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
        embedding that is no function; no address; a key in `base_url` or `options`, or one that no
        header can hold.
    """

    model: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False, compare=False)
    temperature: float | None = 0.0
    seed: int | None = 0
    embedding: Embed | None = None
    structured: str = "json_schema"
    options: dict[str, Any] = field(default_factory=dict)
    timeout: float = 120.0
    retries: int = 5
    call: Call | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model.strip():
            raise DataError(
                f"found {excerpt(self.model)}",
                field="model",
                allowed="a model's name; a function: rs.judging.Endpoint(name, call=function)",
            )
        check_choice(self.structured, STRUCTURED, "structured")
        if taken := [name for name in _OWN_FIELDS if name in self.options]:
            raise DataError(
                f"found {', '.join(taken)}",
                field="options",
                allowed="fields that Endpoint has no argument for",
            )
        vectors = "a function from a list of texts to a list of vectors"
        check_type(self.embedding, (Callable, type(None)), "embedding", vectors)  # type: ignore[arg-type]
        refuse_keys(self.options, "options", _KEY_PLACES)
        if self.call is None:
            checked_address(self._url, "base_url", _KEY_PLACES)
        checked_key(self.api_key or "", "api_key")

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"api_key": None}

    @property
    def _url(self) -> str:
        return self.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"

    @property
    def address(self) -> str:
        """The base URL without query and fragment. With `call`: module and name of the function."""
        if self.call is not None:
            return name_of(self.call)
        parts = urlsplit(self._url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))

    def key(self) -> str:
        """Return the API key to send; "none" if there is none."""
        names = KEY_VARIABLES if self.base_url is None else KEY_VARIABLES[:1]
        known = (key for name in names if (key := os.environ.get(name)))
        return checked_key(self.api_key or next(known, "none"), "api_key")


def name_of(function: Any) -> str:
    """Return module and name of a function (`ragscore.Name` for our own)."""
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


class CostTracker:
    """Money spent by all threads together, with a limit.

    Parameters
    ----------
    prices
        US dollars per million tokens by model: (prompt, completion), or one number for both.
    max_cost
        No call starts once this sum is spent, or a call's cost is unknown; calls under way may
        pass it.
    model
        The model to be called. With `max_cost`, it needs a price.

    Raises
    ------
    DataError
        A price that is not one or two numbers from 0, a limit that is no number from 0, or
        `max_cost` without a price.
    """

    def __init__(self, prices: Prices | None, max_cost: float | None, model: str) -> None:
        pairs = {
            name: tuple(price) if isinstance(price, (tuple, list)) else (price, price)
            for name, price in (prices or {}).items()
        }
        for name, pair in pairs.items():
            if len(pair) != 2 or not all(map(_is_amount, pair)):
                raise DataError(
                    f"found {pair!r} for {name}", field="prices",
                    allowed="(prompt, completion) in US dollars per million tokens, or one number",
                )  # fmt: skip
        if max_cost is not None and not _is_amount(max_cost):
            raise DataError(f"found {max_cost!r}", field="max_cost", allowed="US dollars, from 0")
        if max_cost is not None and model not in pairs:
            raise DataError(
                f"no price of {model}", field="max_cost",
                allowed="prices={model: (prompt, completion)}, in dollars per million tokens",
            )  # fmt: skip
        self.price = pairs.get(model, (math.nan, math.nan))
        self.max_cost, self.spent, self._stopped = max_cost, 0.0, ""
        self._turn = threading.Lock()

    def usage(self, reply: Reply) -> dict[str, Any]:
        """Return tokens and price of a reply; NaN if unknown."""
        counts = [
            math.nan if count is None else float(count)
            for count in (reply.prompt_tokens, reply.completion_tokens)
        ]
        cost = (self.price[0] * counts[0] + self.price[1] * counts[1]) / 1e6
        return {"tokens": sum(counts), "cost_usd": cost}

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


class Cache:
    """Replies by key, in a file, or in memory if `path` is None.

    Raises
    ------
    DataError
        The file is not a cache, or can't be read and written.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.file = None if path is None else Path(path).expanduser()
        self._lock, self._locks = threading.Lock(), dict[str, threading.Lock]()
        self._n_damaged, self._fault = 0, ""
        try:
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True)
            self._rows = sqlite3.connect(
                self.file or ":memory:", timeout=_WAIT, isolation_level=None,
                check_same_thread=False,
            )  # fmt: skip
            tables = self._rows.execute("select name from sqlite_master where type = 'table'")
            if {name for (name,) in tables} - {"replies"}:
                raise sqlite3.DatabaseError("another database")
            self._rows.execute(f"create table if not exists {_TABLE}")
        except (OSError, sqlite3.Error) as error:
            raise DataError(
                f"the cache can't be used ({error})", file=self.file, field="cache",
                allowed="a file that can be read and written, or cache=None",
            ) from error  # fmt: skip

    def close(self) -> None:
        """Close the file."""
        self._rows.close()

    def warn(self) -> None:
        """Say once what could not be read or kept."""
        if n := self._n_damaged:
            warn(f"{self.file}: {plural(n, 'damaged row')} of the cache: asked for again")
        if self._fault:
            warn(f"{self.file}: the cache can't be read or written whole ({self._fault})")

    def get_or_ask(
        self, key: str, ask: Callable[[], Reply], read: Callable[[str], T]
    ) -> tuple[T, Reply, bool]:
        """Return what is read from a reply, the reply, and True if it was stored already.

        A stored reply that can't be read is asked for again: other rules may have let it in.
        Threads that need the same key at the same time call `ask` once.
        """
        with self._lock:
            own = self._locks.setdefault(key, threading.Lock())
        with own:
            if (found := self._get(key)) is not None:
                with suppress(JudgeFailed, ValueError, RecursionError):
                    return read(found.content), found, True
            reply = ask()
            row = [key, reply.content, reply.prompt_tokens, reply.completion_tokens]
            self._run("insert or replace into replies values (?, ?, ?, ?, ?)", [*row, digest(row)])
            return read(reply.content), reply, False

    def _get(self, key: str) -> Reply | None:
        for *row, checksum in self._run("select * from replies where key = ?", [key]):
            if digest(row) == checksum:
                return Reply(*row[1:])
            self._n_damaged += 1
        return None

    def _run(self, statement: str, values: list[Any]) -> list[Any]:
        """Return the rows of a statement; a reply is paid for, whatever becomes of the file."""
        try:
            with self._lock:
                return self._rows.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            self._fault = str(error)
            return []
