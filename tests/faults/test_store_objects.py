"""A store on object storage, when requests fail, answers are lost, and writers meet.

Of a fault, the writer is told what is so: nobody loses a race against himself, nothing is reported
as done that isn't, and whatever happens, the run is the old one or the new one.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from random import Random
from typing import Any
from unittest import mock

import fsspec
import pytest

import ragscore as rs
from faults import small_stores as small
from faults.children import outcome_of
from faults.size import times
from faults.small_stores import Operation, State
from faults.test_store_writers import ATTACKS, ends_of
from ragscore.store import place as store_place

pytestmark = pytest.mark.slow

# What becomes of the k-th request, or of all from the k-th on: is it carried out, and what comes
# back?
FAULTS = {
    "fails once": (False, TimeoutError, False),
    "answer lost once": (True, TimeoutError, False),
    "sent again though done": (True, FileExistsError, False),
    "gone from then on": (False, OSError, True),
    "no answer from then on": (True, TimeoutError, True),
}
PAIRS = ("save, save", "overwrite, refresh", "refresh, refresh")
ROOT = "/faults"
CALLS = ("cat_file", "find", "pipe_file", "rm_file")  # what a store does over fsspec


@cache
def content(state: State) -> dict[str, bytes]:
    """The files of a store of this state."""
    root = small.prepared(state)
    files = (file for file in root.rglob("*") if file.is_file())
    return {str(file.relative_to(root)): file.read_bytes() for file in files}


def attacked(state: State) -> rs.RunStore:
    """A store of this state in memory; it takes the place of the last one."""
    memory = fsspec.filesystem("memory")
    if memory.exists(ROOT):
        memory.rm(ROOT, recursive=True)
    memory.pipe({f"{ROOT}/{name}": data for name, data in content(state).items()})
    return opened()


def opened() -> rs.RunStore:
    """The store as another process opens it, with a client of its own."""
    return rs.RunStore(f"memory:/{ROOT}", storage_options={"skip_instance_cache": True})


def state_of(allowed: Iterable[State]) -> State:
    """Judge the store by a copy on this machine: reading it there takes long."""
    here = small.home() / "copy"
    shutil.rmtree(here, ignore_errors=True)
    fsspec.filesystem("memory").get(ROOT, str(here), recursive=True)
    return small.state_of(rs.RunStore(here), allowed)


@contextmanager
def between(store: rs.RunStore, step: Callable[[int, Callable[[], Any]], Any]) -> Iterator[None]:
    """Call `step` with the number of each call that a store makes of its file system, and it."""
    numbers = iter(range(10_000))

    def watched(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return step(next(numbers), partial(call, *args, **kwargs))

    fs = store._place.fs
    with mock.patch.multiple(fs, **{one: partial(watched, getattr(fs, one)) for one in CALLS}):
        yield


@cache
def n_calls(state: State, operation: Operation) -> int:
    """How many calls an operation makes."""
    store, numbers = attacked(state), []

    def count(number: int, call: Callable[[], Any]) -> Any:
        numbers.append(number)
        return call()

    with between(store, count):
        operation.do(store)
    return len(numbers)


@pytest.mark.parametrize("seed", range(times(5)))
@pytest.mark.parametrize("name", small.ATTACKED)
def test_a_request_that_fails_leaves_the_old_run_or_the_new_one_and_is_told(name, seed):
    state, operation = small.ATTACKED[name]
    new = operation.becomes(state)
    is_done, error, lasts = list(FAULTS.values())[seed % len(FAULTS)]
    first = Random(seed).randrange(n_calls(state, operation))

    def step(number, call):
        is_other = error is FileExistsError and call.keywords.get("mode") != "create"
        if is_other or number < first or (number > first and not lasts):
            return call()
        if is_done:
            call()
        raise error("no connection")

    store = attacked(state)
    with between(store, step):
        outcome = outcome_of(partial(operation.do, store))
    found = state_of([state, new])
    if isinstance(outcome, str):
        assert outcome.startswith("DataError")
        assert "by another writer meanwhile" not in outcome and "already" not in outcome
        is_open = "not known" in outcome or "in place" in outcome
        assert is_open or found == state, f"told that it failed, but done: {outcome}"
    else:
        assert found == new, "told that it is done, but isn't"
    again = outcome_of(partial(operation.do, opened()))
    small.assert_ends(again, found == new)
    state_of([new])


@pytest.mark.parametrize("seed", range(times(4)))
@pytest.mark.parametrize("name", PAIRS)
def test_a_writer_between_two_steps_of_another_makes_one_of_them_lose(name, seed, monkeypatch):
    """One writer does all it does before the k-th call of the other, for any k."""
    # Both are in this process, but stand for two.
    monkeypatch.setattr(store_place, "_IN_MEMORY", nullcontext())
    state, (one, other) = ATTACKS[name]
    at, meanwhile = Random(seed).randrange(n_calls(state, one)), []

    def step(number, call):
        if number == at:
            meanwhile.append(outcome_of(partial(other.do, opened())))
        return call()

    store = attacked(state)
    with between(store, step):
        outcomes = [outcome_of(partial(one.do, store)), *meanwhile]
    outcomes = [said if isinstance(said, str) else "done" for said in outcomes]
    state_of(ends_of(outcomes, [one, other], state))
