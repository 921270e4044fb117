"""Several writers at once: the state is that of the winners, one after the other, and never a mix.

Whoever loses is told in one error and has changed nothing. Readers beside them get whole states.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import fsspec
import pytest
from conftest import times

import ragscore as rs
from faults import small_stores as small
from faults.children import FORKED, outcome_of, start
from faults.small_stores import Operation, State
from ragscore.store import place as store_place

pytestmark = pytest.mark.slow

# What two or four writers do at once, and to which state.
FIRST = State(0, 0)
ATTACKS = {
    "save, save": (State(), [Operation("save", 1), Operation("save", 2)]),
    "overwrite, refresh": (FIRST, [Operation("overwrite", 1), Operation("refresh", 2)]),
    "pieces, overwrite": (FIRST, [Operation("pieces", 1), Operation("overwrite", 2)]),
    "refresh, refresh": (FIRST, [Operation("refresh", 1), Operation("refresh", 2)]),
    "four saves": (State(), [Operation("save", n) for n in (1, 2, 3, 4)]),
    "three kinds": (
        FIRST, [Operation("overwrite", 1), Operation("refresh", 2), Operation("add", 3)]
    ),
}  # fmt: skip
LOST = ("another writer", "already")


def writer(root: Path, operation: Operation, start_line: Any, pause: float) -> str:
    """In a child: do it when the others do, or a little later."""
    store = rs.RunStore(root)
    start_line.wait()
    time.sleep(pause)
    outcome = outcome_of(partial(operation.do, store))
    return outcome if isinstance(outcome, str) else "done"


def reader(root: Path, start_line: Any, end: Any) -> dict[str, set[str]]:
    """In a child: read while the others write; return what came of each way to read."""
    store, found = rs.RunStore(root), {part: set() for part in small.READS}
    start_line.wait()
    is_last = False
    while not is_last:
        is_last = end.is_set()
        for part, texts in small.seen(store).items():
            found[part].add(texts)
    return found


def winners(outcomes: list[Any], operations: list[Operation]) -> list[Operation]:
    return [one for one, said in zip(operations, outcomes, strict=True) if said == "done"]


def ends_of(outcomes: list[Any], operations: list[Operation], state: State) -> set[State]:
    """The states that the winners may have left; all others were told that they lost."""
    lost = [one for one in outcomes if one != "done"]
    assert len(lost) < len(outcomes), f"nobody won: {lost}"
    for one in lost:
        assert one.startswith("DataError") and any(words in one for words in LOST), one
    ends = small.orders(state, winners(outcomes, operations))
    assert ends, f"too many winners: {outcomes}"
    return ends


@pytest.mark.parametrize("seed", range(times(1)))
@pytest.mark.parametrize("name", ATTACKS)
def test_of_writers_at_once_the_state_is_the_winners(name, seed):
    state, operations = ATTACKS[name]
    root, random = small.copied(state), Random(seed)
    start_line, end = FORKED.Barrier(len(operations) + 1), FORKED.Event()
    beside = start(partial(reader, root, start_line, end))
    pauses = [random.choice([0, 0.01]) * random.random() for _ in operations]
    writers = [
        start(partial(writer, root, one, start_line, pause))
        for one, pause in zip(operations, pauses, strict=True)
    ]
    outcomes = [one.answer() or "CRASH killed" for one in writers]
    end.set()
    reads = beside.answer()
    small.state_of(rs.RunStore(root), ends_of(outcomes, operations, state))
    won = winners(outcomes, operations)
    some = [one for n in range(len(won) + 1) for one in combinations(won, n)]
    between = set().union(*(small.orders(state, one) for one in some))
    for part, texts in reads.items():
        assert texts <= {small.expected(one)[part] for one in between}, part


# A store on object storage, when requests fail, answers are lost, and writers meet: nobody loses a
# race against himself, nothing is reported as done that isn't.


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

    with between(store, lambda number, call: (numbers.append(number), call())[1]):
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
