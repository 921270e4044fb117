"""Python callables as systems.

One that answers, or a pair of a search and an answer; plain or async.

A function gets the query, and by name what its signature has a place for. Async ones all run on one
event loop in a thread of its own, so that they work from Jupyter, whose loop is left alone, and may
share a client.
"""

import asyncio
import contextlib
import inspect
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from ragscore.collecting.systems.base import AskError, Request, System, timed_out
from ragscore.frames.errors import DataError

QUERY_NAMES = ("query", "question")
CANCELLING = 5.0  # seconds that calls which are cancelled may take to end


@dataclass
class _Loop:
    """An event loop in a thread, started when it is first needed."""

    loop: asyncio.AbstractEventLoop | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, awaitable: Any, seconds: float | None) -> Any:
        """The result of an awaitable; it is cancelled when time runs out."""
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_run_forever, args=(self.loop,), name="ragscore-async", daemon=True
                ).start()
        future = asyncio.run_coroutine_threadsafe(_within(awaitable, seconds), self.loop)
        return future.result()

    def close(self) -> None:
        """Stop the thread, once what still runs is cancelled; what won't be is left to itself."""
        if self.loop is not None:
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(_cancel_others(), self.loop).result(CANCELLING)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.loop = None


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _within(awaitable: Any, seconds: float | None) -> Any:
    started = perf_counter()
    try:
        return await asyncio.wait_for(awaitable, seconds)
    except TimeoutError as error:
        if seconds is not None and perf_counter() - started >= seconds:
            raise timed_out(seconds) from error
        raise  # one of its own, which says more


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def function_system(function: Callable[..., Any], name: str | None = None) -> System:
    """A callable.

    The query goes to its parameter `query` or `question`, else to its first one; the rest by name.
    """
    called, takes, needs = _signature(function)
    loop = _Loop()

    def ask(request: Request, seconds: float | None) -> Any:
        return _called(lambda: called(request), loop, seconds)

    label = name or _name(function)
    return System(
        label,
        ask,
        {"kind": "function", "function": _place(function)},
        takes,
        needs,
        close=loop.close,
    )


def two_steps(
    search: Callable[..., Any], answer: Callable[..., Any], name: str | None = None
) -> System:
    """A search, and an answer from what it found.

    `answer(query, hits, ...)`; each step is timed, hits outlive an answer that fails.
    """
    searched, takes, needs = _signature(search)
    answered, more, also = _signature(answer, n_given=2)
    loop = _Loop()

    def ask(request: Request, seconds: float | None) -> Any:
        started = perf_counter()
        hits = _called(lambda: searched(request), loop, seconds)
        latency = {"retrieval_ms": 1000 * (perf_counter() - started)}
        found = hits if isinstance(hits, dict) else {"hits": hits}
        found = {**found, "latency": latency}
        if request.get("with_answer") is False:
            return found
        started = perf_counter()
        try:
            reply = _called(lambda: answered(request, found.get("hits")), loop, seconds)
        except AskError as error:
            raise AskError(str(error), again=error.again, wait=error.wait, reply=found) from error
        latency["generation_ms"] = 1000 * (perf_counter() - started)
        return found | (reply if isinstance(reply, dict) else {"answer": reply})

    both = None if takes is None or more is None else takes | more | {"with_answer"}
    config = {"kind": "search and answer", "search": _place(search), "answer": _place(answer)}
    return System(
        name or f"{_name(search)}+{_name(answer)}",
        ask,
        config,
        both,
        needs | also,
        close=loop.close,
    )


def _signature(
    function: Callable[..., Any], n_given: int = 1
) -> tuple[Callable[..., Any], frozenset[str] | None, frozenset[str]]:
    """How to call it with a request, which names it takes, and which it needs."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins don't say
        return lambda request, *given: function(request["query"], *given), frozenset(), frozenset()
    by_place = [
        one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    query = next((one for one in parameters if one.name in QUERY_NAMES and n_given == 1), None)
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
    takes_places = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    if query is None and len(by_place) < n_given and not takes_places:
        raise DataError(
            f"{_name(function)} takes {len(by_place)} arguments",
            field="system",
            allowed=f"a function of the query{', and of its hits' * (n_given > 1)}",
        )
    keyword = query is not None and query.kind is not query.POSITIONAL_ONLY
    given_by_place = {query.name} if query is not None else {one.name for one in by_place[:n_given]}
    named = [
        one
        for one in parameters
        if one.name not in given_by_place
        and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    takes = frozenset(one.name for one in named)
    needs = frozenset(one.name for one in named if one.default is one.empty)

    def call(request: Request, *given: Any) -> Any:
        more = {
            name: value
            for name, value in request.items()
            if name != "query" and (takes_any or name in takes)
        }
        more = dict.fromkeys(needs) | more  # what this one question doesn't carry
        if keyword and query is not None:
            return function(**{query.name: request["query"]}, **more)
        return function(request["query"], *given, **more)

    return call, None if takes_any else takes, needs


def _called(call: Callable[[], Any], loop: _Loop, seconds: float | None) -> Any:
    """What the call gives, within the time; what it raises as an `AskError`."""
    try:
        found = call() if seconds is None else _within_thread(call, seconds)
        return loop.run(found, seconds) if inspect.isawaitable(found) else found
    except AskError:
        raise
    except Exception as error:
        again = isinstance(error, (TimeoutError, ConnectionError))
        raise AskError(
            f"{type(error).__name__}: {error}", again=again, reply=getattr(error, "reply", None)
        ) from error


def _within_thread(call: Callable[[], Any], seconds: float) -> Any:
    """What the call gives.

    Python can't stop a thread, so a call that takes too long is left to itself.
    """
    done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            done.put((call(), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=work, name="ragscore-call", daemon=True).start()
    try:
        found, error = done.get(timeout=seconds)
    except queue.Empty:
        raise timed_out(seconds) from None
    if error is not None:
        raise error
    return found


def _name(function: Callable[..., Any]) -> str:
    return str(
        getattr(function, "__name__", None) or type(getattr(function, "func", function)).__name__
    )


def _place(function: Callable[..., Any]) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', _name(function))}".lstrip(
        "."
    )
