"""Asking: several queries at a time, each as often as it takes, no faster than allowed.

Threads, so that a running event loop doesn't matter.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Any, TypeVar

from ragscore.collecting.replies import record_of
from ragscore.collecting.systems import AskError, Request, System
from ragscore.frames.errors import DataError

# seconds before asking again: up to the first, twice as long each time
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0

Answered = tuple[dict[str, Any], dict[str, Any]]
"""A record, and what the system said of itself."""
Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Manner:
    """How a run asks; it changes what a run costs and how long it takes, not what is asked.

    Attributes
    ----------
    workers
        How many queries are in flight at a time.
    timeout
        Seconds that one attempt may take; None: no limit. Without one, a single worker is the
        calling thread itself.
    retries
        How often a query is asked again after an error that may pass.
    rate
        The most attempts per second, of all workers together; None: no limit.
    """

    workers: int = 1
    timeout: float | None = 120.0
    retries: int = 2
    rate: float | None = None

    def __post_init__(self) -> None:
        for name, lowest in (("workers", 1), ("retries", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
                raise DataError(
                    f"found {value!r}", field=name, allowed=f"a whole number from {lowest}"
                )
        for name in ("timeout", "rate"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and value > 0):
                raise DataError(f"found {value!r}", field=name, allowed="a number above 0, or None")


@dataclass
class Pace:
    """Turns, at most `rate` of them a second."""

    rate: float | None
    clock: Callable[[], float] = monotonic
    next_turn: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def delay(self) -> float:
        """The seconds to wait for the next turn, which is taken."""
        if self.rate is None:
            return 0.0
        with self.lock:
            now = self.clock()
            turn = max(self.next_turn, now)
            self.next_turn = turn + 1 / self.rate
            return turn - now


def asked(
    system: System, requests: list[Request], manner: Manner, keep: Callable[[Answered], Kept]
) -> Iterator[Kept]:
    """What `keep` makes of the answer to each request, as they come.

    Leaving the loop early leaves those in flight to themselves.

    A worker keeps an answer before it asks again, one worker at a time: so no more answers can get
    lost than there are workers.
    """
    stop, keeping, pace = threading.Event(), threading.Lock(), Pace(manner.rate)
    # nothing asks for a thread: connections that are bound to this one work
    if manner.workers == 1 and manner.timeout is None:
        for request in requests:
            yield keep(answered(system, request, manner, pace, stop.wait))
        return
    todo: queue.SimpleQueue[Request] = queue.SimpleQueue()
    done: queue.SimpleQueue[Kept | BaseException] = queue.SimpleQueue()
    for request in requests:
        todo.put(request)

    def work() -> None:
        try:
            while not stop.is_set():
                found = answered(system, todo.get_nowait(), manner, pace, stop.wait)
                with keeping:
                    if not stop.is_set():
                        done.put(keep(found))
        except queue.Empty:
            pass
        except BaseException as error:
            done.put(error)

    try:
        for number in range(min(manner.workers, len(requests))):
            threading.Thread(target=work, name=f"ragscore-ask-{number}", daemon=True).start()
        for _ in requests:
            kept = done.get()
            if isinstance(kept, BaseException):
                raise kept
            yield kept
    finally:
        stop.set()
        with keeping:  # the last line is written before the file is closed
            pass


def answered(
    system: System, request: Request, manner: Manner, pace: Pace, sleep: Callable[[float], Any]
) -> Answered:
    """The record of one request.

    Its reply, or the error of the last attempt with what hits there were.
    """
    import tenacity

    attempts, started = 0, 0.0

    def attempt() -> Answered:
        nonlocal attempts, started
        if wait := pace.delay():
            sleep(wait)
        attempts, started = attempts + 1, perf_counter()
        reply = system.ask(request, manner.timeout)
        return record_of(request, reply, 1000 * (perf_counter() - started), attempts=attempts)

    again = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(1 + manner.retries), wait=_wait, sleep=sleep, reraise=True,
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, AskError) and error.again),
    )  # fmt: skip
    try:
        return again(attempt)
    except AskError as error:
        return _failed(request, error, 1000 * (perf_counter() - started), attempts)


def _wait(state: Any) -> float:
    """As long as the system asks for, else a random time whose limit doubles.

    Never more than a minute.
    """
    import tenacity

    error = state.outcome.exception()
    if isinstance(error, AskError) and error.wait is not None:
        return min(error.wait, LONGEST_WAIT)
    return tenacity.wait_random_exponential(multiplier=FIRST_WAIT, max=LONGEST_WAIT)(state)


def _failed(request: Request, error: AskError, elapsed_ms: float, attempts: int) -> Answered:
    """The record of a query that failed.

    The hits that came with the error are kept if a record can hold them.
    """
    text = str(error) or type(error).__name__
    try:
        return record_of(request, error.reply, elapsed_ms, text, attempts)
    except AskError as fault:
        return record_of(request, fault.reply, elapsed_ms, text, attempts)
