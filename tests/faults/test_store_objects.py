"""A store on object storage, when requests fail, answers are lost, and writers meet.

Of a fault, the writer is told what is so: nobody loses a race against himself, nothing is reported
as done that isn't, and whatever happens, the run is the old one or the new one.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest import mock
from uuid import uuid4

import pytest
from object_storage import s3_server

import ragscore as rs
from faults import small_stores as small
from faults.children import chance, outcome_of
from faults.size import times
from ragscore.store import place as store_place

pytestmark = pytest.mark.slow

pytest.importorskip("s3fs")

FIRST = small.State(0, 0)
PAIRS = {
    "save, save": (None, [small.save(1), small.save(2)]),
    "overwrite, refresh": (FIRST, [small.overwrite(1), small.refresh(2)]),
    "refresh, refresh": (FIRST, [small.refresh(1), small.refresh(2)]),
    "refresh, add": (FIRST, [small.refresh(1), small.add(2)]),
}
# What becomes of the k-th request, or of all from the k-th on: is it carried out, and what comes
# back? Numbers are answers; "none" is a time-out.
FAULTS = {
    "500 once": ("500", False),
    "503 once": ("503", False),
    "500 once, though done": ("500 done", False),
    "time-out once": ("none", False),
    "answer lost once": ("none done", False),
    "503 from then on": ("503", True),
    "gone from then on": ("none", True),
    "no answer from then on": ("none done", True),
}
LOST = ("by another writer meanwhile", "saved already", "has chunks already")
# What a store does over fsspec.
CALLS = ("cat_file", "find", "pipe_file", "rm_file")


class Network:
    """What lies between this process and S3: counts requests, and loses some."""

    def __init__(self, send: Callable[..., Any]) -> None:
        self.send = send
        self.n = 0
        self.faulty: Callable[[int], str | None] = lambda n: None

    async def __call__(self, session: Any, request: Any) -> Any:
        from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError

        fault, self.n = self.faulty(self.n), self.n + 1
        if fault == "none":
            raise ConnectTimeoutError(endpoint_url=request.url)
        if fault == "none done":
            await self.send(session, request)
            raise ReadTimeoutError(endpoint_url=request.url)
        if fault:
            request.headers["X-Fault"] = fault
        return await self.send(session, request)

    @contextmanager
    def failing(self, fault: str, first: int, lasts: bool) -> Iterator[None]:
        """Let the k-th request fail, or all from it on."""
        self.n = 0
        self.faulty = lambda n: fault if n == first or (lasts and n > first) else None
        try:
            yield
        finally:
            self.faulty = lambda n: None


@pytest.fixture(scope="module")
def s3():
    with s3_server() as options:
        yield options
    small.remove_home()


@pytest.fixture
def network(s3, monkeypatch):
    from aiobotocore.httpsession import AIOHTTPSession

    found, sleep = Network(AIOHTTPSession.send), asyncio.sleep

    async def sent(session: Any, request: Any) -> Any:
        return await found(session, request)

    monkeypatch.setattr(AIOHTTPSession, "send", sent)
    # Clients wait longer after each failure; that is not what is tested.
    monkeypatch.setattr(asyncio, "sleep", lambda seconds, *more: sleep(min(seconds, 0.001), *more))
    return found


def opened(root: str, options: dict[str, Any], who: int = 0) -> rs.RunStore:
    """A store as one of several processes opens it: each has a client of its own."""
    if not options:
        return rs.RunStore(root, storage_options={"skip_instance_cache": True})
    own = {"default_block_size": 2**26 + who, "config_kwargs": {"retries": {"max_attempts": 1}}}
    return rs.RunStore(root, storage_options=options | own)


def verdict_here(root: str, options: dict[str, Any], allowed: Any) -> tuple[Any, str]:
    """Judge a store by a copy on this machine: reading it there takes a hundred requests."""
    place, here = opened(root, options)._place, small.home() / "copy"
    place.fs.invalidate_cache()
    for name, content in place.fs.cat(place.fs.find(place.root)).items():
        file = here / name[name.index(place.root) + len(place.root) :].lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    try:
        return small.verdict(rs.RunStore(here), allowed)
    finally:
        shutil.rmtree(here)


@pytest.fixture(scope="module")
def copies():
    """Make stores of a state: the first one is built, the others are copies of its files."""
    known: dict[Any, dict[str, bytes]] = {}

    def make(state: small.State | None, options: dict[str, Any], scheme: str) -> str:
        root = f"{scheme}{uuid4().hex}"
        store = rs.RunStore(root, storage_options=options or None)
        fs, path = store._place.fs, store._place.root
        if (state, scheme) not in known:
            small.build(root, state, storage_options=options or None)
            files = fs.cat(fs.find(path))
            known[state, scheme] = {
                name[name.index(path) + len(path) :]: content for name, content in files.items()
            }
        else:
            fs.pipe({path + name: content for name, content in known[state, scheme].items()})
        fs.invalidate_cache()
        return root

    return make


def test_a_request_that_fails_leaves_the_old_run_or_the_new_one_and_is_told(s3, network, copies):
    wrong, n_requests = [], {}
    rounds = times(6)
    for seed in range(rounds):
        name = list(small.ATTACKED)[seed % len(small.ATTACKED)]
        kind = list(FAULTS)[(seed // len(small.ATTACKED) + seed) % len(FAULTS)]
        state, operation = small.ATTACKED[name]
        if name not in n_requests:
            store = opened(copies(state, s3, "s3://bucket/"), s3)
            network.n = 0
            operation.do(store)
            n_requests[name] = network.n
        root = copies(state, s3, "s3://bucket/")
        store = opened(root, s3)
        first = chance(seed).randrange(n_requests[name])
        with network.failing(FAULTS[kind][0], first, FAULTS[kind][1]):
            outcome = outcome_of(partial(operation.do, store))
        found = wrong_after(root, s3, name, outcome)
        if found:
            wrong.append(f"{name}, {kind}, request {first}, seed {seed}: {found}")
    assert not wrong, f"{len(wrong)} of {rounds}\n" + "\n".join(wrong[:20])


def wrong_after(root: str, options: dict[str, Any], name: str, outcome: Any) -> str:
    """What is wrong after a request failed, or ""; with doing it again, too."""
    state, operation = small.ATTACKED[name]
    new = operation.becomes(state)
    found, wrong = verdict_here(root, options, [state, new])
    if wrong:
        return wrong
    if isinstance(outcome, str):
        if not outcome.startswith("DataError"):
            return f"no DataError: {outcome[:300]}"
        if any(part in outcome for part in LOST):
            return f"lost against himself: {outcome[:300]}"
        if found != state and not any(part in outcome for part in ("not known", "in place")):
            return f"told that it failed, but done: {outcome[:300]}"
    elif found != new:
        return "told that it is done, but isn't"
    again = outcome_of(partial(operation.do, opened(root, options)))
    if isinstance(again, str):
        is_told = found == new and again.startswith("DataError") and "already" in again
        return "" if is_told else f"retry refused: {again[:300]}"
    return verdict_here(root, options, [new])[1]


@contextmanager
def between(store: rs.RunStore, at: int | None, do: Callable[[], Any]) -> Iterator[list[int]]:
    """Before the k-th call that a store makes of its file system, do something; count the calls."""
    count = [0]

    def watched(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        if at is not None and count[0] == at + 1:
            do()
        return call(*args, **kwargs)

    calls = {name: partial(watched, getattr(store._place.fs, name)) for name in CALLS}
    with mock.patch.multiple(store._place.fs, **calls):
        yield count


@pytest.mark.parametrize("scheme", ["s3://bucket/", "memory://"])
def test_a_writer_between_two_steps_of_another_makes_one_of_them_lose(
    scheme, s3, copies, monkeypatch
):
    """One writer does all it does before the k-th call of the other, for any k."""
    # Both are in this process, but stand for two.
    monkeypatch.setattr(store_place, "_IN_MEMORY", nullcontext())
    options = s3 if scheme.startswith("s3") else {}
    wrong, n_calls = [], {}
    rounds = times(4 if scheme.startswith("memory") else 2)
    for seed in range(rounds):
        name = list(PAIRS)[seed % len(PAIRS)]
        state, (one, other) = PAIRS[name]
        if name not in n_calls:
            store = opened(copies(state, options, scheme), options)
            with between(store, None, lambda: None) as count:
                one.do(store)
            n_calls[name] = count[0]
        root = copies(state, options, scheme)
        store, second = opened(root, options), opened(root, options, 1)
        outcomes: list[Any] = [None, "DataError: by another writer meanwhile (not begun)"]

        def meanwhile(outcomes=outcomes, second=second, other=other):
            outcomes[1] = outcome_of(partial(other.do, second))

        at = seed // len(PAIRS) % n_calls[name]
        if rounds <= len(PAIRS):
            at = n_calls[name] - 1 - chance(seed).randrange(n_calls[name] // 2)
        with between(store, at, meanwhile):
            outcomes[0] = outcome_of(partial(one.do, store))
        found = wrong_of_pair(root, options, state, [one, other], outcomes)
        if found:
            wrong.append(f"{name}, call {at} of {n_calls[name]}, seed {seed}: {found}")
    assert not wrong, f"{len(wrong)} of {rounds}\n" + "\n".join(wrong[:20])


def wrong_of_pair(
    root: str,
    options: dict[str, Any],
    state: small.State | None,
    operations: list[small.Operation],
    outcomes: list[Any],
) -> str:
    """What is wrong after several writers, or ""."""
    won = [one for one, said in zip(operations, outcomes, strict=True) if not isinstance(said, str)]
    lost = [said for said in outcomes if isinstance(said, str)]
    for said in lost:
        if not (said.startswith("DataError") and any(part in said for part in LOST)):
            return f"strange loss: {said[:300]}"
    if not won:
        return f"nobody won: {lost[0][:200]}"
    if not (ends := small.orders(state, won)):
        return f"too many winners: {', '.join(one.name for one in won)}"
    return verdict_here(root, options, ends)[1]
