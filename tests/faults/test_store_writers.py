"""Several writers at once: the state is that of the winners, one after the other, and never a mix.

Whoever loses is told in one error and has changed nothing. Readers beside them get whole states.
"""

import shutil
import time
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest

import ragscore as rs
from faults import small_stores as small
from faults.children import Gate, chance, outcome_of, start
from faults.size import times

pytestmark = pytest.mark.slow

FIRST = small.State(0, 0)
# What two or four writers do at once, and to which state.
ATTACKS = {
    "save, save": (None, [small.save(1), small.save(2)]),
    "overwrite, refresh": (FIRST, [small.overwrite(1), small.refresh(2)]),
    "pieces, overwrite": (FIRST, [small.pieces(1), small.overwrite(2)]),
    "refresh, refresh": (FIRST, [small.refresh(1), small.refresh(2)]),
    "four saves": (None, [small.save(n) for n in (1, 2, 3, 4)]),
    "three kinds": (FIRST, [small.overwrite(1), small.refresh(2), small.add(3)]),
}
LOST = ("another writer", "already")


@pytest.fixture(scope="module", autouse=True)
def _shared():
    yield
    small.remove_home()


def writer(root: Path, operation: small.Operation, gate: Gate, pause: float) -> str:
    """In a child: do it when the others do, or a little later."""
    store = rs.RunStore(root)
    gate.wait()
    time.sleep(pause)
    outcome = outcome_of(partial(operation.do, store))
    return outcome if isinstance(outcome, str) else "done"


def reader(root: Path, gate: Gate, end: Path) -> dict[str, list[str]]:
    """In a child: read while the others write; return what came of each way to read, once."""
    store, found = rs.RunStore(root), {part: {} for part in small.READS}
    gate.wait()
    is_last = False
    while not is_last:
        is_last = end.exists()
        for part, seen in found.items():
            seen[small.read(store, part)] = None
    return {part: list(seen) for part, seen in found.items()}


def wrong_of(
    state: small.State | None,
    operations: list[small.Operation],
    outcomes: list[str],
    reads: dict[str, list[str]],
    root: Path,
) -> str:
    """What is wrong after one round, or ""."""
    won = [one for one, said in zip(operations, outcomes, strict=True) if said == "done"]
    lost = [said for said in outcomes if said != "done"]
    if strange := [
        said
        for said in lost
        if not (said.startswith("DataError") and any(part in said for part in LOST))
    ]:
        return f"strange loss: {strange[0][:300]}"
    if not won:
        return f"nobody won: {lost[0][:200]}"
    ends = small.orders(state, won)
    if not ends:
        return f"too many winners: {', '.join(one.name for one in won)}"
    if wrong := small.verdict(rs.RunStore(root), ends)[1]:
        return wrong
    between = {state} | {
        end
        for n in range(1, len(won) + 1)
        for some in combinations(won, n)
        for end in small.orders(state, some)
    }
    for part, texts in reads.items():
        allowed = {small.expected(one)[part] for one in between}
        if odd := [text for text in texts if text not in allowed]:
            kind = "an error" if odd[0].startswith(("DataError", "CRASH")) else "a mix"
            return f"a reader got {kind}: {part} {odd[0][:300]}"
    return ""


@pytest.mark.parametrize("name", ATTACKS)
def test_of_writers_at_once_the_state_is_the_winners(name):
    state, operations = ATTACKS[name]
    prepared = small.home() / name.replace(", ", "-").replace(" ", "-")
    small.build(prepared, state)
    wrong = []
    for operation in operations:  # warm
        copy = small.copied(prepared, "warm")
        operation.do(rs.RunStore(copy))
        shutil.rmtree(copy)
    for seed in range(times(1)):
        root, end = small.copied(prepared, seed), small.home() / "end"
        gate, random = Gate(), chance(seed)
        beside = start(partial(reader, root, gate, end))
        writers = [
            start(partial(writer, root, one, gate, random.choice([0, 0.01]) * random.random()))
            for one in operations
        ]
        gate.open()
        outcomes = [one.answer() or "CRASH killed" for one in writers]
        end.touch()
        reads = beside.answer()
        end.unlink()
        reads = reads if isinstance(reads, dict) else {"reader": [f"CRASH {reads}"]}
        found = wrong_of(state, operations, outcomes, reads, root)
        if found:
            wrong.append(f"{name}, seed {seed}: {found}")
        shutil.rmtree(root)
    assert not wrong, f"{len(wrong)} of {times(1)}\n" + "\n".join(wrong[:20])
