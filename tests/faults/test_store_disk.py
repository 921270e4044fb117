"""A full disk, a limit or a folder that may not be written: one error, the old run kept.

The error names a path and says what was kept; what it says is so. Nothing half-written is seen, and
where files can be removed, none is left.
"""

import errno
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

import ragscore as rs
from faults import small_stores as small
from faults.children import STEPS, chance, start
from faults.size import times

pytestmark = pytest.mark.slow

REMOVALS = {"os.remove", "os.rmdir"}
NOBODY = 65534


@pytest.fixture(scope="module", autouse=True)
def _shared():
    small.home().chmod(0o755)
    yield
    prepared.cache_clear()
    n_steps.cache_clear()
    small.remove_home()


class Failing:
    """Lets what this process does to files fail, from the k-th step on; in a child only.

    A full disk still lets files be removed; a file system that became read-only does not.
    """

    def __init__(self, number: int, first: int | None, lasts: bool) -> None:
        self.number, self.first, self.lasts, self.n = number, first, lasts, 0
        fsync = os.fsync

        def watched(descriptor: int) -> None:
            self.watch("os.fsync", (f"/proc/self/fd/{descriptor}",))
            fsync(descriptor)

        os.fsync = watched
        sys.addaudithook(self.watch)

    def watch(self, event: str, args: tuple[Any, ...]) -> None:
        """Count a step, or let it fail."""
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        if event == "open" and not (args[2] and args[2] & writes):
            return
        if event not in STEPS | {"open", "os.fsync"} or event.startswith("fcntl"):
            return
        if self.number == errno.EIO and event != "os.fsync":
            return
        if self.number != errno.EROFS and event in REMOVALS:
            return
        self.n += 1
        if self.first is None or self.n <= self.first:
            return
        if self.lasts or self.n == self.first + 1:
            path = Path(args[0]).readlink() if event == "os.fsync" else args[0]
            raise OSError(self.number, os.strerror(self.number), str(path))


def names_in(root: Path) -> set[str]:
    """The files of a store, and its folders; without those that every writer may leave."""
    return {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()} - {
        ".gitignore"
    }


def wrong_of(
    name: str, root: Path, outcome: Any, before: set[str] | None
) -> tuple[str, small.State | None]:
    """What is wrong after a writer could not write, or "", and the state that was found."""
    state, operation = small.ATTACKED[name]
    new = operation.becomes(state)
    found, wrong = small.verdict(rs.RunStore(root), [state, new])
    if wrong:
        return wrong, found
    if not isinstance(outcome, str):
        return ("", found) if found == new else (f"not done, and not told: {outcome}", found)
    if not outcome.startswith("DataError"):
        return f"no DataError: {outcome[:300]}", found
    if "/" not in outcome or not any(word in outcome for word in ("as it was",
            "nothing was", "no r was", "is in place", "was saved", "stays")):  # fmt: skip
        return f"not told what was kept: {outcome[:300]}", found
    if found != state and "in place" not in outcome:
        return f"told that it failed, but done: {outcome[:300]}", found
    if before is not None and found == state and (left := names_in(root) - before):
        return f"files left: {sorted(left)[:5]} {outcome[:200]}", found
    return "", found


@cache
def prepared(name: str) -> Path:
    """A store for an operation, in the state that it begins in."""
    root = small.home() / name
    small.build(root, small.ATTACKED[name][0])
    small.ATTACKED[name][1].do(rs.RunStore(small.copied(root, "warm")))
    return root


def rounds(kind: str) -> Iterator[tuple[int, str, Path]]:
    """Yield each round of an attack: its seed, the operation, and a store for it."""
    shift = sum(map(ord, kind))  # a small test run tries each operation with some kinds
    for seed in range(times(2)):
        name = list(small.ATTACKED)[(seed + shift) % len(small.ATTACKED)]
        root = small.copied(prepared(name), f"{kind.replace(' ', '-')}-{seed}")
        yield seed, name, root
        shutil.rmtree(root, ignore_errors=True)


def step_of(seed: int, n: int) -> int:
    """Which of n steps a round takes: all of them one after the other, if there are many rounds."""
    seed //= len(small.ATTACKED)
    return seed % n if times(2) > n * len(small.ATTACKED) / 4 else chance(seed).randrange(n)


def attack(kind: str, fails: Callable[[int, str, Path], Any], removable: bool = True) -> None:
    """Let operations fail: `fails` does one and returns what came of it."""
    wrong = []
    for seed, name, root in rounds(kind):
        before = names_in(root)
        outcome = fails(seed, name, root)
        found, ended = wrong_of(name, root, outcome, before if removable else None)
        if not found:  # and then there is room again
            state, operation = small.ATTACKED[name]
            found = small.retried(root, operation, ended, operation.becomes(state))
        if found:
            wrong.append(f"{name}, {kind}, seed {seed}: {found}")
    assert not wrong, f"{len(wrong)} of {times(2)}\n" + "\n".join(wrong[:20])


def done(operation: small.Operation, root: Path, prepare: Callable[[], Any]) -> int:
    """In a child: do it under the circumstances that `prepare` makes; return their count."""
    store = rs.RunStore(root)
    circumstances = prepare()
    operation.do(store)
    return getattr(circumstances, "n", 0)


@cache
def n_steps(name: str, count: Callable[..., Any], *given: Any) -> int:
    """How many steps an operation takes."""
    circumstances = "-".join(map(str, (count.__name__, *given))).replace("/", "-")
    root = small.copied(prepared(name), f"counted-{circumstances}")
    n = start(partial(done, small.ATTACKED[name][1], root, partial(count, *given))).answer()
    assert isinstance(n, int) and n > 0, n
    return n


KINDS = {
    "full disk": (errno.ENOSPC, True),
    "full for a moment": (errno.ENOSPC, False),
    "read-only from then on": (errno.EROFS, True),
    "failed sync": (errno.EIO, True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_fails_leaves_the_old_run_and_is_told(kind):
    number, lasts = KINDS[kind]

    def fails(seed: int, name: str, root: Path) -> Any:
        first = step_of(seed, n_steps(name, Failing, number, None, lasts))
        prepare = partial(Failing, number, first, lasts)
        return start(partial(done, small.ATTACKED[name][1], root, prepare)).answer()

    attack(kind, fails, removable=number != errno.EROFS)


def test_a_limit_on_the_size_of_files_leaves_the_old_run_and_is_told():
    def fails(seed: int, name: str, root: Path) -> Any:
        size = chance(seed).choice([0, 1, 100, 2000, 4000, 8000, 16000])
        limits = (size, resource.RLIM_INFINITY)
        prepare = partial(resource.setrlimit, resource.RLIMIT_FSIZE, limits)
        return start(partial(done, small.ATTACKED[name][1], root, prepare)).answer()

    attack("file size limit", fails)


def test_a_folder_that_may_not_be_written_leaves_the_old_run_and_is_told():
    """Modes don't hold for root, so another user tries."""

    def forbid(root: Path, which: str) -> None:
        for folder in [root, *(one for one in root.iterdir() if one.is_dir())]:
            if which == "all" or (which == "run") == (folder != root):
                folder.chmod(0o555)
        if os.getuid() == 0:
            os.setuid(NOBODY)

    def fails(seed: int, name: str, root: Path) -> Any:
        prepare = partial(forbid, root, chance(seed).choice(["all", "run", "store"]))
        outcome = start(partial(done, small.ATTACKED[name][1], root, prepare)).answer()
        for folder in [root, *(one for one in root.iterdir() if one.is_dir())]:
            folder.chmod(0o755)
        return outcome

    attack("forbidden folder", fails)
