"""The interface of a system under test, and the one time limit of every kind."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ragscore.frames.errors import DataError
from ragscore.io.source import describe

SETTINGS = ("mode", "k", "temperature", "seed", "with_answer")
"""Settings of a whole run, set by the caller."""
CARRIED = ("filters", "vaults", "folders", "product", "tool")
"""Fields of a golden query that are sent with it."""

Request = dict[str, Any]
"""One query: `query`, `query_id`, and all known `SETTINGS`, `CARRIED` fields and other settings."""


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
        Those of them that it requires.
    variables
        Names of the environment variables whose values it sends: no file and no log may hold them.
    close
        Called after the last query.
    """

    name: str
    ask: Callable[[Request, float | None], Any]
    config: dict[str, Any] = field(default_factory=dict)
    takes: frozenset[str] | None = None
    needs: frozenset[str] = frozenset()
    variables: tuple[str, ...] = ()
    close: Callable[[], None] = lambda: None


class AskError(Exception):
    """The system did not answer a query.

    Attributes
    ----------
    again
        True if another attempt may help: time-outs, lost connections, 429 and 5xx.
    wait
        Seconds to wait before it, if the system asks for a time.
    reply
        The usable part of a reply, such as the hits of a search whose answer failed.
    """

    def __init__(
        self, found: str, *, again: bool = False, wait: float | None = None, reply: Any = None
    ) -> None:
        super().__init__(found)
        self.again, self.wait, self.reply = again, wait, reply


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


def check_whole(value: Any, field: str, lowest: int = 1) -> None:
    """Refuse what is no whole number from `lowest`, as JSON has it."""
    if type(value) is not int or value < lowest:
        raise DataError(
            f"found {describe(value)}", field=field, allowed=f"a whole number from {lowest}"
        )
