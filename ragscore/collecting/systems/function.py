"""Python callables as systems: one function, or a pair of search and answer; plain or async.

A function gets the query, and by name the settings that its signature has parameters for. Async
functions share one event loop in its own thread. They can therefore share a client, and they work
in Jupyter, whose own loop is already running.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

from ragscore.collecting.systems.base import AskError, Request, System, in_time, timed_out
from ragscore.frames.errors import DataError

QUERY_NAMES = ("query", "question")


def function_system(
    function: Callable[..., Any], name: str | None = None, loop: "EventLoop | None" = None
) -> System:
    """Return a system that calls a function.

    The query goes to the parameter `query` or `question`, else to the first one. Settings go by
    name.
    """
    call, takes, needs = _signature(function)
    own = loop or EventLoop()

    def ask(request: Request, seconds: float | None) -> Any:
        return _result(lambda: call(request), own, seconds)

    config = {"kind": "function", "function": _qualified_name(function)}
    return System(name or _name(function), ask, config, takes, needs, close=own.close)


def two_step_system(
    search: Callable[..., Any], answer: Callable[..., Any], name: str | None = None
) -> System:
    """Return a system that searches and then answers: `answer(query, hits, ...)`.

    Each step is timed. If the answer fails, its error keeps the hits.
    """
    loop = EventLoop()
    first, second = (function_system(function, None, loop) for function in (search, answer))

    def ask(request: Request, seconds: float | None) -> Any:
        started = perf_counter()
        hits = first.ask(request, seconds)
        latency = {"retrieval_ms": 1000 * (perf_counter() - started)}
        found = (hits if isinstance(hits, dict) else {"hits": hits}) | {"latency": latency}
        if request.get("with_answer") is False:
            return found
        started = perf_counter()
        try:
            reply = second.ask(request | {"hits": found.get("hits")}, seconds)
        except AskError as error:
            error.reply = found
            raise
        latency["generation_ms"] = 1000 * (perf_counter() - started)
        return found | (reply if isinstance(reply, dict) else {"answer": reply})

    takes = None
    if first.takes is not None and second.takes is not None:
        takes = first.takes | (second.takes - {"hits"}) | {"with_answer"}
    steps = {"search": first.config["function"], "answer": second.config["function"]}
    return System(
        name or f"{first.name}+{second.name}",
        ask,
        {"kind": "search and answer", **steps},
        takes,
        first.needs | (second.needs - {"hits"}),
        close=loop.close,
    )


def _signature(
    function: Callable[..., Any],
) -> tuple[Callable[[Request], Any], frozenset[str] | None, frozenset[str]]:
    """Return a call with a request, the names that the function accepts, and those it requires."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins have no signature
        return lambda request: function(request["query"]), frozenset(), frozenset()
    named = [p for p in parameters if p.name in QUERY_NAMES]
    query = next(iter([*named, *(p for p in parameters if p.kind <= p.VAR_POSITIONAL)]), None)
    if query is None:
        raise DataError(
            f"{_name(function)} takes no query", field="system", allowed="a function of the query"
        )
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    by_name = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    is_by_name = by_name.pop(query.name, None) is not None
    needs = frozenset(name for name, p in by_name.items() if p.default is p.empty)

    def call(request: Request) -> Any:
        given = {one: request[one] for one in request if one in by_name or takes_any}
        given = dict.fromkeys(needs) | given  # None for fields that this query does not have
        text = given.pop("query", request["query"])
        if is_by_name:
            return function(**given, **{query.name: text})
        return function(text, **given)

    return call, None if takes_any else frozenset(by_name), needs


def _result(call: Callable[[], Any], loop: "EventLoop", seconds: float | None) -> Any:
    """Return the result of a call within a time limit; its exceptions become an `AskError`."""
    try:
        found = in_time(call, seconds)
        return loop.run(found, seconds) if inspect.isawaitable(found) else found
    except AskError:
        raise
    except Exception as error:
        again = isinstance(error, (TimeoutError, ConnectionError))
        raise AskError(
            f"{type(error).__name__}: {error}", again=again, reply=getattr(error, "reply", None)
        ) from error


class EventLoop:
    """An event loop in its own thread, started at first use: that of Jupyter is running already."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def run(self, awaitable: Any, seconds: float | None) -> Any:
        """Return the result of an awaitable, which is cancelled after so many seconds."""

        async def awaited() -> Any:
            return await awaitable

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=[self._loop], daemon=True)
                self._thread.start()
        future = asyncio.run_coroutine_threadsafe(awaited(), self._loop)
        try:
            return future.result(seconds)
        except TimeoutError:
            if future.done() or seconds is None:  # a time-out of its own, whose message tells more
                raise
            future.cancel()
            raise timed_out(seconds) from None

    def close(self) -> None:
        """Stop the loop, and what still runs in it."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


def _name(function: Callable[..., Any]) -> str:
    return str(
        getattr(function, "__name__", None) or type(getattr(function, "func", function)).__name__
    )


def _qualified_name(function: Callable[..., Any]) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    module, name = getattr(named, "__module__", ""), getattr(named, "__qualname__", _name(function))
    return f"{module}.{name}".lstrip(".")
