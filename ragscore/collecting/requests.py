"""Requests of a run: built from golden set and settings, checked, and sent in several threads.

In: golden set, settings and a system. Out: one record per query, in the order of arrival. Threads
rather than an event loop, so that a running loop (as in Jupyter) does not matter.
"""

import json
import random
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from ragscore.collecting.replies import RecordAndConfig, record_of
from ragscore.collecting.systems import (
    CARRIED,
    SETTINGS,
    AskError,
    Request,
    System,
)
from ragscore.frames.data import Golden
from ragscore.frames.errors import DataError, check_choice, check_whole, plural
from ragscore.io.servers import LONGEST_WAIT, refuse_keys
from ragscore.io.values import row_dicts, unflatten

# Waits before retries are random, in seconds: up to FIRST_WAIT before the first, up to twice as
# long before each next one, and never more than LONGEST_WAIT.
FIRST_WAIT = 0.5
RESERVED = frozenset(("query", "query_id", *SETTINGS, *CARRIED))
_TAGS = {"vault": "vaults", "folder": "folders"}


def checked_settings(named: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that are sent with every query, checked; None is not sent."""
    check_whole(named["k"], "k", or_none=True)
    if clash := sorted(RESERVED & set(own)):
        raise DataError(
            f"found {', '.join(clash)}",
            field="settings",
            allowed="other names: these have parameters of their own, or come with the query",
        )
    refuse_keys(own, "settings", "a header or parameter of a mapping, from a variable")
    try:
        json.dumps(own, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"{error}", field="settings", allowed="what JSON can hold") from error
    return {name: value for name, value in named.items() if value is not None} | own


def requests_of(
    golden: Golden, sent: dict[str, Any], left_out: Iterable[str] = (), limit: int | None = None
) -> list[Request]:
    """Return one request per golden query, in file order: query, id, settings, and its own fields.

    Fields in `left_out` are not sent.
    """
    check_whole(limit, "limit", or_none=True)
    kinds = golden.tags["kind"].map(_TAGS)
    lists = golden.tags.groupby([golden.tags["query_id"], kinds], sort=False)["value"].agg(list)
    products = golden.checks[golden.checks["kind"] == "product"].set_index("query_id")["text"]
    requests = []
    for query in row_dicts(golden.queries.sort_values("position", kind="stable")[:limit]):
        query_id = str(query["query_id"])
        carried = unflatten({
            name: one for name, one in query.items() if name.startswith(("x_filters", "x_tool"))
        })  # fmt: skip
        filters = carried.get("filters")
        if isinstance(filters, str) and filters.startswith(("{", "[")):
            filters = json.loads(filters)
        if isinstance(filters, dict):  # the product is sent as a field of its own
            filters = {name: one for name, one in filters.items() if name != "product"}
        listed = {name: lists.get((query_id, name)) for name in _TAGS.values()}
        carried |= listed | {"filters": filters, "product": products.get(query_id)}
        kept = {
            name: carried[name] for name in CARRIED if carried.get(name) and name not in left_out
        }
        requests.append({"query": query["query"], "query_id": query_id, **sent, **kept})
    return requests


def check_accepted(
    system: System, sent: dict[str, Any], requests: list[Request], left_out: Iterable[str]
) -> None:
    """Refuse fields that the system does not accept, so that every recorded setting was sent.

    Raises
    ------
    DataError
        A setting, or a field of some golden query, that the system does not accept; a missing
        setting that it requires; an unknown name in `left_out`; no request.
    """
    for name in left_out:
        check_choice(name, CARRIED, "leave_out")
    if not requests:
        raise DataError("no query to ask", field="golden", allowed="at least one")
    if missing := sorted(system.needs - set(sent) - {*CARRIED, "query_id"}):
        raise DataError(
            f"{system.name} needs {', '.join(missing)}",
            field="system",
            allowed="a value for it: a parameter of collect, or in settings=",
        )
    names = dict.fromkeys(name for request in requests for name in request)
    known = system.takes if system.takes is not None else frozenset(names)
    if refused := [name for name in names if name not in known | {"query", "query_id"}]:
        carried = [name for name in refused if name in CARRIED]
        raise DataError(
            f"{system.name} does not accept {', '.join(refused)}",
            field="golden" if carried == refused else "settings",
            allowed=f"it takes {', '.join(sorted(known)) or 'the query only'}"
            + f"; leave_out={carried!r} asks without" * bool(carried),
        )


@dataclass(frozen=True)
class RequestPolicy:
    """Concurrency, time limit and retries; they change time and cost, not the questions.

    Attributes
    ----------
    workers
        Number of queries in flight at a time.
    timeout
        Seconds per attempt; None means no limit. A single worker without a limit is the calling
        thread itself.
    retries
        Number of further attempts after an error that may pass.
    """

    workers: int = 1
    timeout: float | None = 120.0
    retries: int = 2

    def __post_init__(self) -> None:
        check_whole(self.workers, "workers")
        check_whole(self.retries, "retries", 0)
        if self.timeout is not None and not (
            isinstance(self.timeout, (int, float)) and self.timeout > 0
        ):
            raise DataError(
                f"found {self.timeout!r}", field="timeout", allowed="a number above 0, or None"
            )


def ask_all(
    system: System,
    requests: list[Request],
    policy: RequestPolicy,
    save: Callable[[RecordAndConfig], Any],
    progress: bool = False,
) -> Generator[Any, None, None]:
    """Ask every request and yield what `save` returns for each record, in the order of arrival.

    A worker saves a record before its next request. Calls of `save` never overlap, and none follows
    one that failed. Leaving the loop early asks nothing more, and waits for the replies in flight,
    which are saved, too. A second interrupt abandons them.
    """
    stop, closed, saving = threading.Event(), threading.Event(), threading.Lock()

    def work(request: Request) -> Any:
        if stop.is_set():
            return None
        record = ask(system, request, policy, stop.wait)
        with saving:
            if record is None or closed.is_set():
                return None
            try:
                return save(record)
            except BaseException:
                stop.set()
                closed.set()  # the first error is the one to raise
                raise

    # Without threads, connections that are bound to the calling thread work.
    if policy.workers == 1 and policy.timeout is None:
        yield from map(work, requests)
        return
    pool, futures = ThreadPoolExecutor(policy.workers, "ragscore-ask"), list[Future[Any]]()
    try:
        futures.extend(pool.submit(work, request) for request in requests)
        answers = (future.result() for future in as_completed(futures))
        yield from filter(lambda saved: saved is not None, answers)
    finally:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        try:
            if (n := sum(future.running() for future in futures)) and progress:
                waits = f"stopping: {plural(n, 'query')} in flight; Ctrl-C again abandons them"
                print(f"\n{waits}", file=sys.stderr)
            pool.shutdown()
        finally:
            with saving:  # the last line is written before the journal is closed
                closed.set()


def ask(
    system: System, request: Request, policy: RequestPolicy, sleep: Callable[[float], Any]
) -> RecordAndConfig | None:
    """Ask one request, with retries, and return its record; None if `sleep` says to stop.

    If the last attempt fails, the record holds its error. A wait of more than `LONGEST_WAIT` is no
    further attempt's.
    """
    attempts = 0
    while True:
        attempts, started = attempts + 1, perf_counter()
        try:
            reply = system.ask(request, policy.timeout)
            elapsed_ms = 1000 * (perf_counter() - started)
            return record_of(request, reply, elapsed_ms, attempts, system.redactor)
        except AskError as error:
            failed = error
        except Exception as error:  # whatever a reply holds, it ends no more than its query
            failed = AskError(f"{type(error).__name__}: {error}")
        elapsed_ms, text = 1000 * (perf_counter() - started), str(failed) or "AskError"
        most = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(attempts - 1, 20))
        wait = random.uniform(0, most) if failed.wait is None else failed.wait
        if wait > LONGEST_WAIT:
            text += f" (it asks for a wait of {wait:.0f} s, and {LONGEST_WAIT:g} s are the most)"
        if not failed.again or attempts > policy.retries or wait > LONGEST_WAIT:
            return record_of(request, {"error": text}, elapsed_ms, attempts, system.redactor)
        if sleep(wait):
            return None
