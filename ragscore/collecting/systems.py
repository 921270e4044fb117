"""Systems under test: their interface and time limit, Python callables and commands.

A function gets the query, and by name the settings that its signature has parameters for. Async
functions share one event loop in a thread, so they can share a client, and they work in Jupyter,
whose own loop is already running. A command runs once per query, reads the request as JSON on
standard input and prints its reply as JSON.
"""

import asyncio
import inspect
import json
import re
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragscore.frames.errors import DataError
from ragscore.io.servers import Redactor, is_secret, refuse_keys
from ragscore.io.source import parse_json

# Settings of a whole run, set by the caller.
SETTINGS = ("mode", "k", "temperature", "seed", "with_answer")
# Fields of a golden query that are sent with it.
CARRIED = ("filters", "vaults", "folders", "product", "tool")
SHOWN = 500  # characters of a failed command's output in its error
_NAMED = re.compile(r"-{0,2}([\w-]+)([=:].*)?", re.DOTALL)  # --token=..., TOKEN=..., X-Token: ...

# One query: `query`, `query_id`, and all known `SETTINGS`, `CARRIED` fields and other settings.
Request = dict[str, Any]


@dataclass(frozen=True)
class System:
    """A system under test.

    Attributes
    ----------
    name
        Its name in `runs.system`.
    ask
        Function from a request and a time limit in seconds (None: no limit) to a reply: a list of
        hits, the text of an answer, or a mapping with `hits`, `answer` and other fields. Raises
        `AskError`.
    config
        Kind, address and mapping for the run's snapshot. It holds no key.
    takes
        Names of the request fields that it accepts besides the query; None means any.
    needs
        The fields among these that it requires.
    redactor
        Hides the keys that it sends: no file and no log may hold them.
    close
        Called after the last query.
    """

    name: str
    ask: Callable[[Request, float | None], Any]
    config: dict[str, Any] = field(default_factory=dict)
    takes: frozenset[str] | None = None
    needs: frozenset[str] = frozenset()
    redactor: Redactor = field(default_factory=Redactor)
    close: Callable[[], None] = lambda: None


class AskError(Exception):
    """The system did not answer a query.

    Attributes
    ----------
    again
        True if another attempt may help: time-outs, lost connections, 429 and 5xx.
    wait
        Seconds to wait before it, if the system asks for a time.
    """

    def __init__(self, found: str, *, again: bool = False, wait: float | None = None) -> None:
        super().__init__(found)
        self.again, self.wait = again, wait


def timed_out(seconds: float) -> AskError:
    """Return the error of a query that took too long."""
    return AskError(f"timed out after {seconds:g} s", again=True)


def in_time(call: Callable[[], Any], seconds: float | None) -> Any:
    """Return the result of a call, or raise after so many seconds.

    Python cannot stop a thread, so a call that takes too long is abandoned.
    """
    if seconds is None:
        return call()
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=work, name="ragscore-call", daemon=True)
    thread.start()
    thread.join(seconds)
    if not future.done():
        raise timed_out(seconds)
    return future.result()


def function_system(function: Callable[..., Any], name: str | None = None) -> System:
    """Return a system that calls a function.

    The query goes to the parameter `query` or `question`, else to the first one. Settings are
    passed by name.
    """
    kind = function if hasattr(function, "__qualname__") else type(function)
    call, takes, needs = _signature(function)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="ragscore-loop", daemon=True)
    thread.start()

    def ask(request: Request, seconds: float | None) -> Any:
        try:
            found = in_time(lambda: call(request), seconds)
            return _awaited(found, loop, seconds) if inspect.isawaitable(found) else found
        except AskError:
            raise
        except Exception as error:
            again = isinstance(error, (TimeoutError, ConnectionError))
            raise AskError(f"{type(error).__name__}: {error}", again=again) from error

    def close() -> None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    config = {"kind": "function", "function": f"{kind.__module__}.{kind.__qualname__}"}
    name = name or getattr(function, "__name__", None) or kind.__name__
    return System(name, ask, config, takes, needs, close=close)


def _awaited(awaitable: Any, loop: asyncio.AbstractEventLoop, seconds: float | None) -> Any:
    """Return the result of an awaitable in this loop; it is cancelled after so many seconds."""

    async def result() -> Any:
        return await awaitable

    future = asyncio.run_coroutine_threadsafe(result(), loop)
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done() or seconds is None:  # a time-out of its own, whose message says more
            raise
        future.cancel()
        raise timed_out(seconds) from None


def _signature(
    function: Callable[..., Any],
) -> tuple[Callable[[Request], Any], frozenset[str] | None, frozenset[str]]:
    """Return a call with a request, the names that the function accepts, and those it requires."""
    parameters = list(inspect.signature(function).parameters.values())
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = [p for p in parameters if p.name in ("query", "question")]
    query = next(iter([*named, *(p for p in parameters if p.kind <= p.VAR_POSITIONAL)]), None)
    if query is None:
        raise DataError(
            "the function takes no query", field="system", allowed="a function of the query"
        )
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


def command_system(command: list[str], name: str | None = None) -> System:
    """Return a system that runs a command per query.

    `{query}`, `{k}` and other names in an argument become the request's values. Other braces stay.

    Raises
    ------
    DataError
        An argument holds a key.
    """
    allowed = "an environment variable, which the command reads"
    for argument, following in zip(command, [*command[1:], "-"], strict=True):
        refuse_keys(argument, "system", allowed)
        named = _NAMED.fullmatch(argument)
        is_option = argument.startswith("-") and not following.startswith("-")
        if named and is_secret(named[1]) and (named[2] or is_option):
            raise DataError(f"found a key: {named[1]}", field="system", allowed=allowed)

    def ask(request: Request, seconds: float | None) -> Any:
        def value(match: re.Match[str]) -> str:
            found = request.get(match[1], match[0])
            return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)

        return _printed([re.sub(r"\{(\w+)\}", value, part) for part in command], request, seconds)

    return System(name or Path(command[0]).name, ask, {"kind": "command", "command": command})


def _printed(command: list[str], request: Request, seconds: float | None) -> Any:
    """Run a command and return the JSON that it prints."""
    sent = json.dumps(request, ensure_ascii=False).encode()
    try:
        # In a session of its own: Ctrl-C is ours, and a reply in flight is waited for.
        done = subprocess.run(
            command, input=sent, capture_output=True, timeout=seconds, start_new_session=True
        )
    except subprocess.TimeoutExpired as error:
        raise timed_out(error.timeout) from error
    except OSError as error:
        raise AskError(f"can't be started: {error}") from error
    output, messages = (part.decode("utf-8", "replace") for part in (done.stdout, done.stderr))
    if done.returncode:
        last = Redactor().excerpt(messages, -SHOWN)
        raise AskError(f"exit status {done.returncode}{': ' * bool(last)}{last}")
    try:
        return parse_json(output)
    except (ValueError, RecursionError) as error:
        shown = Redactor().excerpt(output, SHOWN)
        raise AskError(f"printed no JSON ({error}): {shown!r}") from error
