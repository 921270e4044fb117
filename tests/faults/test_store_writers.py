"""Several writers at once: the state is that of the winners, one after the other, and never a mix.

Whoever loses is told in one error and has changed nothing. Readers beside them get whole states.
"""

import time
from functools import partial
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ragscore as rs
from faults import small_stores as small
from faults.children import FORKED, outcome_of, start
from faults.size import times
from faults.small_stores import Operation, State

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
