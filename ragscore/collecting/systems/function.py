"""Python callables as systems: one function, or a pair of search and answer; plain or async.

A function gets the query, and by name the settings that its signature has parameters for. Async
functions share one event loop in its own thread. They can therefore share a client, and they work
in Jupyter, whose own loop is already running.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

from ragscore.collecting.systems.base import AskError, Request, System, in_time, timed_out
from ragscore.frames.errors import DataError

QUERY_NAMES = ("query", "question")
CANCEL_SECONDS = 5.0  # time for cancelled calls to end


def function_system(function: Callable[..., Any], name: str | None = None) -> System:
    """Return a system that calls a function.

    The query goes to the parameter `query` or `question`, else to the first one. Settings go by
    name.
    """
    call, takes, needs = _signature(function)
    loop = EventLoop()

    def ask(request: Request, seconds: float | None) -> Any:
        return _result(lambda: call(request), loop, seconds)

    config = {"kind": "function", "function": _qualified_name(function)}
    return System(name or _name(function), ask, config, takes, needs, close=loop.close)


def two_step_system(
    search: Callable[..., Any], answer: Callable[..., Any], name: str | None = None
) -> System:
    """Return a system that searches and then answers: `answer(query, hits, ...)`.

    Each step is timed. If the answer fails, its error keeps the hits.
    """
    call_search, search_takes, search_needs = _signature(search)
    call_answer, answer_takes, answer_needs = _signature(answer, n_given=2)
    loop = EventLoop()

    def ask(request: Request, seconds: float | None) -> Any:
        started = perf_counter()
        hits = _result(lambda: call_search(request), loop, seconds)
        latency = {"retrieval_ms": 1000 * (perf_counter() - started)}
        found = hits if isinstance(hits, dict) else {"hits": hits}
        found = {**found, "latency": latency}
        if request.get("with_answer") is False:
            return found
        started = perf_counter()
        try:
            reply = _result(lambda: call_answer(request, found.get("hits")), loop, seconds)
        except AskError as error:
            raise AskError(str(error), again=error.again, wait=error.wait, reply=found) from error
        latency["generation_ms"] = 1000 * (perf_counter() - started)
        return found | (reply if isinstance(reply, dict) else {"answer": reply})

    takes = None
    if search_takes is not None and answer_takes is not None:
        takes = search_takes | answer_takes | {"with_answer"}
    config = {
        "kind": "search and answer",
        "search": _qualified_name(search),
        "answer": _qualified_name(answer),
    }
    return System(
        name or f"{_name(search)}+{_name(answer)}",
        ask,
        config,
        takes,
        search_needs | answer_needs,
        close=loop.close,
    )


def _signature(
    function: Callable[..., Any], n_given: int = 1
) -> tuple[Callable[..., Any], frozenset[str] | None, frozenset[str]]:
    """Return a call with a request, the names that the function accepts, and those it requires."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins have no signature
        return lambda request, *given: function(request["query"], *given), frozenset(), frozenset()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    query = next((p for p in parameters if p.name in QUERY_NAMES and n_given == 1), None)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    takes_more = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if query is None and len(positional) < n_given and not takes_more:
        raise DataError(
            f"{_name(function)} takes {len(positional)} arguments",
            field="system",
            allowed=f"a function of the query{', and of its hits' * (n_given > 1)}",
        )
    given_names = {p.name for p in ([query] if query is not None else positional[:n_given])}
    named = [
        p
        for p in parameters
        if p.name not in given_names and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    takes = frozenset(p.name for p in named)
    needs = frozenset(p.name for p in named if p.default is p.empty)

    def call(request: Request, *given: Any) -> Any:
        more = {
            name: value
            for name, value in request.items()
            if name != "query" and (takes_any or name in takes)
        }
        more = dict.fromkeys(needs) | more  # None for fields that this query does not have
        if query is not None and query.kind is not query.POSITIONAL_ONLY:
            return function(**{query.name: request["query"]}, **more)
        return function(request["query"], *given, **more)

    return call, None if takes_any else takes, needs


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
                self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
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
        """Cancel what runs, and stop."""
        if self._loop is None:
            return
        with suppress(TimeoutError):  # a call may resist
            asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result(CANCEL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CANCEL_SECONDS)
        if not self._loop.is_running():
            self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _name(function: Callable[..., Any]) -> str:
    return str(
        getattr(function, "__name__", None) or type(getattr(function, "func", function)).__name__
    )


def _qualified_name(function: Callable[..., Any]) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    module, name = getattr(named, "__module__", ""), getattr(named, "__qualname__", _name(function))
    return f"{module}.{name}".lstrip(".")
