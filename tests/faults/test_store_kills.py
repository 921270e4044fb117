"""A writer that is killed leaves the old run or the new one, and a retry succeeds."""

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import ragscore as rs
from faults import small_stores as small
from faults.children import Lines, Steps, chance, start
from faults.size import tally, times

pytestmark = pytest.mark.slow

# What is done to which state.
ATTACKED = {
    "save": (None, small.save(1)),
    "overwrite": (small.State(1, 1), small.overwrite(2)),
    "ingest": (None, small.ingest(1)),
    "ingest over": (small.State(1, 1, 1), small.ingest(2)),
    "refresh": (small.State(1, 1), small.refresh(2)),
    "add": (small.State(1, 1), small.add(1)),
    "compact": (small.State(1, 1), small.compact()),
}
KINDS = {"step": 2, "line": 1, "time": 1}  # of kills, and how many each test run takes


@pytest.fixture(scope="module", autouse=True)
def _shared():
    yield
    small.remove_home()


class Attack:
    """One operation on copies of one store, killed again and again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state, self.operation = ATTACKED[name]
        self.new = self.operation.becomes(self.state)
        self.store = small.home() / name.replace(" ", "-")
        small.build(self.store, self.state).compact()  # the more there is to get wrong
        self.operation.do(rs.RunStore(self.copy("warm")))
        self.n_steps = self._run(Steps, "steps")
        self.n_lines = self._run(Lines, "lines")
        begin = time.perf_counter()
        self._run(None, "time")
        self.seconds = time.perf_counter() - begin

    def copy(self, name: object) -> Path:
        """The store again, to be damaged."""
        copy = self.store.with_name(f"{self.store.name}-{name}")
        shutil.copytree(self.store, copy)
        return copy

    def _run(self, count: Callable | None, name: str) -> int:
        found = start(partial(self.work, self.copy(name), count, None)).answer()
        assert isinstance(found, int), found
        return found

    def work(self, root: Path, count: Callable | None, last: int | None) -> int:
        """In a child: do it, and die after so many steps or lines."""
        store = rs.RunStore(root)
        counted = count(last) if count else None
        self.operation.do(store)
        return counted.n if counted else 0

    def kill(self, root: Path, kind: str, seed: int) -> bool:
        """Do it in a child that is killed; return whether that came in time."""
        if kind == "time":
            child = start(partial(self.work, root, None, None))
            time.sleep(chance(seed).random() * self.seconds)
            child.kill()
            return child.answer() is None
        count, n = (Steps, self.n_steps) if kind == "step" else (Lines, self.n_lines)
        last = seed % n if times(1) > n / 4 else chance(seed).randrange(n)
        return start(partial(self.work, root, count, last)).answer() is None

    def wrong_after(self, root: Path, kind: str) -> str:
        """What is wrong after a kill, or ""; the outcome is counted."""
        found, wrong = small.verdict(rs.RunStore(root), {self.state, self.new})
        if not wrong:
            try:
                self.operation.do(rs.RunStore(root))
            except rs.DataError as error:
                # Done already: what asks for a free place is told so.
                if found != self.new or "already" not in str(error):
                    wrong = f"retry refused: {error}"
            except Exception as error:
                wrong = f"retry failed: {type(error).__name__}: {error}"
            else:
                _, wrong = small.verdict(rs.RunStore(root), {self.new})
                wrong = wrong and f"after the retry {wrong}"
        outcome = wrong.partition(":")[0] if wrong else "new" if found == self.new else "old"
        tally(f"kill: {self.name}, by {kind}", outcome)
        return wrong


@pytest.mark.parametrize("name", ATTACKED)
def test_a_killed_writer_leaves_the_old_run_or_the_new_one_and_a_retry_succeeds(name):
    with small.quick_scores():
        attack = Attack(name)
        wrong, killed = [], 0
        for kind, n in KINDS.items():
            for seed in range(times(n)):
                root = attack.copy(f"{kind}-{seed}")
                killed += attack.kill(root, kind, seed)
                if found := attack.wrong_after(root, kind):
                    wrong.append(f"{name}, by {kind}, seed {seed}: {found}")
                shutil.rmtree(root)
    assert killed
    assert not wrong, f"{len(wrong)} of {sum(map(times, KINDS.values()))}\n" + "\n".join(wrong[:20])
