"""Asking: several queries at a time, each as often as it takes, no faster than allowed.

Threads, so that a running event loop doesn't matter.

What a run asks and says: the caller's settings, and of each golden query what it carries.

Settings that the system can't be told are refused.
"""

import json
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from ragscore.collecting.replies import record_of
from ragscore.collecting.systems import CARRIED, SETTINGS, AskError, Request, System
from ragscore.frames.data import Golden
from ragscore.frames.errors import DataError
from ragscore.io.source import describe
from ragscore.io.values import row_dicts, unflatten

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


_TAGS = {"vault": "vaults", "folder": "folders"}
OWN_NAMES = frozenset(("query", "query_id", *SETTINGS, *CARRIED))


@dataclass(frozen=True)
class Settings:
    """What is sent with every query; None isn't sent."""

    mode: str | None = None
    k: int | None = None
    temperature: float | None = None
    seed: int | None = None
    with_answer: bool | None = None
    own: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.k is not None and (
            not isinstance(self.k, int) or isinstance(self.k, bool) or self.k < 1
        ):
            raise DataError(f"found {describe(self.k)}", field="k", allowed="a whole number from 1")
        if clash := sorted(OWN_NAMES & set(self.own)):
            raise DataError(
                f"found {', '.join(clash)}",
                field="settings",
                allowed="other names: these have parameters of their own, or come with the query",
            )
        try:
            json.dumps(self.own, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise DataError(f"{error}", field="settings", allowed="what JSON can hold") from error

    @property
    def sent(self) -> dict[str, Any]:
        """Names and values as they are sent, and as the snapshot keeps them."""
        return {
            name: value for name in SETTINGS if (value := getattr(self, name)) is not None
        } | self.own


def requests_of(golden: Golden, settings: Settings, left_out: Iterable[str] = ()) -> list[Request]:
    """One request per golden query, in file order.

    Its text and id, the settings, and what it carries itself.
    """
    tags = _lists(golden.tags.loc[golden.tags["kind"].isin(list(_TAGS))])
    product = (
        golden.checks.loc[golden.checks["kind"] == "product"]
        .set_index("query_id")["text"]
        .to_dict()
    )
    requests = []
    for query in row_dicts(golden.queries.sort_values("position", kind="stable")):
        query_id = str(query["query_id"])
        own = unflatten(
            {
                name: value
                for name, value in query.items()
                if name.split(".")[0] in ("x_filters", "x_tool")
            }
        )
        filters = _filters(own.get("filters"))
        carried = {
            "filters": filters,
            **tags.get(query_id, {}),
            "product": product.get(query_id),
            "tool": own.get("tool"),
        }
        carried = {
            name: carried[name] for name in CARRIED if carried.get(name) and name not in left_out
        }
        requests.append({"query": query["query"], "query_id": query_id, **settings.sent, **carried})
    return requests


def _lists(tags: pd.DataFrame) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for query_id, kind, value in tags[["query_id", "kind", "value"]].itertuples(index=False):
        found.setdefault(query_id, {}).setdefault(_TAGS[kind], []).append(value)
    return found


def _filters(written: Any) -> Any:
    """Filters as the golden file has them, the product apart: it is a field of its own."""
    values = (
        json.loads(written)
        if isinstance(written, str) and written.startswith(("{", "["))
        else written
    )
    return (
        {name: value for name, value in values.items() if name != "product"}
        if isinstance(values, dict)
        else values
    )


def chosen(
    requests: list[Request], limit: int | None, sample: int | None, seed: int
) -> list[Request]:
    """The first `limit` requests, or `sample` of them drawn with the seed, in file order."""
    for name, number in (("limit", limit), ("sample", sample)):
        if number is not None and (not isinstance(number, int) or number < 1):
            raise DataError(
                f"found {describe(number)}", field=name, allowed="a whole number from 1"
            )
    if limit is not None and sample is not None:
        raise DataError("both were given", field="limit, sample", allowed="one of them")
    if sample is None or sample >= len(requests):
        return requests[:limit]
    drawn = np.random.default_rng(seed).choice(len(requests), sample, replace=False)
    return [requests[place] for place in sorted(drawn)]


def check_told(
    system: System, settings: Settings, requests: list[Request], left_out: Iterable[str]
) -> None:
    """Refuse what the system can't be told and what it lacks, so that nothing is recorded that was not sent.

    Raises
    ------
    DataError
        A setting, or a field that some golden query carries, which the system has no place for; one
        that it needs and that isn't set.
    """
    if unknown := sorted(set(left_out) - set(CARRIED)):
        raise DataError(
            f"found {', '.join(unknown)}",
            field="leave_out",
            allowed=f"some of {', '.join(CARRIED)}",
        )
    if not requests:
        raise DataError("no query to ask", field="golden", allowed="at least one")
    if lacking := sorted(system.needs - set(settings.sent) - set(CARRIED) - {"query_id"}):
        raise DataError(
            f"{system.name} needs {', '.join(lacking)}",
            field="system",
            allowed="a value for it: a parameter of collect, or in settings=",
        )
    if system.takes is None:
        return
    places = ", ".join(sorted(system.takes)) or "the query only"
    if untold := [name for name in settings.sent if name not in system.takes]:
        raise DataError(
            f"{system.name} can't be told {', '.join(untold)}",
            field="settings",
            allowed=f"it takes {places}",
        )
    carried = [
        name
        for name in CARRIED
        if name not in system.takes and any(name in request for request in requests)
    ]
    if carried:
        n = sum(carried[0] in request for request in requests)
        found = f"{n} queries carry {carried[0]}, which {system.name} can't be told"
        raise DataError(
            found, field="golden", allowed=f"it takes {places}; leave_out={carried!r} asks without"
        )
