"""A full disk, a limit or a place that may not be written: one error, the old run kept.

The error names a path and says what was kept; what it says is so. Nothing half-written is seen, and
where files can be removed, none is left.
"""

import errno
import os
import resource
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ragscore as rs
from faults import small_stores as small
from faults.children import start, watch_steps
from faults.size import times

pytestmark = pytest.mark.slow

REMOVALS = {"os.remove", "os.rmdir"}
KEPT = ("as it was", "nothing was", "no r was", "is in place", "was saved", "stays")


class Failing:
    """Lets what this process does to files fail, from the k-th step on; in a child only.

    A full disk still lets files be removed; a file system that became read-only does not.
    """

    def __init__(self, number: int, lasts: bool, first: int | None = None) -> None:
        self.number, self.lasts, self.first, self.n = number, lasts, first, 0
        watch_steps(self._step)

    def _step(self, event: str, path: Any) -> None:
        is_sync = event == "os.fsync"
        may_fail = self.number == errno.EROFS or event not in REMOVALS
        if event.startswith("fcntl") or not may_fail or (self.number == errno.EIO and not is_sync):
            return
        self.n += 1
        if self.first is not None and (
            self.n == self.first or (self.lasts and self.n > self.first)
        ):
            name = Path(f"/proc/self/fd/{path}").readlink() if is_sync else path
            raise OSError(self.number, os.strerror(self.number), str(name))


@cache
def n_steps(name: str, number: int, lasts: bool) -> int:
    """How many steps of an operation can fail."""
    state, operation = small.ATTACKED[name]
    root = small.copied(state)

    def counted() -> int:
        steps = Failing(number, lasts)
        operation.do(rs.RunStore(root))
        return steps.n

    return start(counted).answer()


# What fails, and whether it goes on failing; EFBIG is a limit on the size of files.
KINDS = {
    "full disk": (errno.ENOSPC, True),
    "full for a moment": (errno.ENOSPC, False),
    "read-only from then on": (errno.EROFS, True),
    "failed sync": (errno.EIO, True),
    "forbidden": (errno.EACCES, True),
    "file size limit": (errno.EFBIG, True),
}
SIZES = [0, 1, 100, 2000, 4000, 8000, 16000]


def files_of(root: Path) -> set[str]:
    found = {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}
    return found - {".gitignore"}  # which every writer may leave


@pytest.mark.parametrize("seed", range(times(2)))
@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_that_cannot_write_leaves_the_old_run_and_says_so(kind, seed):
    names = list(small.ATTACKED)
    name = names[(seed + 2 * list(KINDS).index(kind)) % len(names)]
    state, operation = small.ATTACKED[name]
    (number, lasts), drawn = KINDS[kind], Random(seed)
    first, size = 1 + drawn.randrange(n_steps(name, number, lasts)), drawn.choice(SIZES)
    root, new = small.copied(state), operation.becomes(state)
    before = files_of(root)

    def work() -> None:
        if number == errno.EFBIG:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        else:
            Failing(number, lasts, first)
        operation.do(rs.RunStore(root))

    outcome = start(work).answer()
    left = set() if kind.startswith("read-only") else files_of(root) - before
    found = small.state_of(rs.RunStore(root), [state, new])
    if isinstance(outcome, str):
        assert outcome.startswith("DataError") and "/" in outcome
        assert any(words in outcome for words in KEPT), f"not told what was kept: {outcome}"
        assert found == state or "in place" in outcome, f"told that it failed: {outcome}"
        assert found == new or not left, outcome
    else:
        assert found == new, f"not done, and not told: {outcome}"
    small.assert_can_be_done(root, operation, found, new)  # now there is room again
