"""What befalls the files of a store: disks that fail, power cuts, flipped bits.

Where a writer fails, the error names a path and says what was kept; what it says is so. Nothing
half-written is seen, and where files can be removed, none is left.
"""

import errno
import os
import resource
import shutil
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import times

import ragscore as rs
from faults import small_stores as small
from faults.children import start, watch_steps

pytestmark = pytest.mark.slow

REMOVALS = {"os.remove", "os.rmdir"}
KEPT = ("as it was", "unchanged", "nothing was", "no r was", "is in place", "was saved", "stays")


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


# A kill or a power cut at any step: the store reads as the old state or the new one.
# What a writer does to files is recorded: at each step the whole folder, and what fsync has brought
# to the disk by then. A kill leaves all that was done. A power cut may leave any of it: only what
# fsync vouches for; all names, but no content that wasn't synced; any mixture of these.


LEFT = ("all", "synced", "names", "any")
# What lies in a folder, by path: the content of a file, None for a folder.
Entries = dict[str, bytes | None]


def entries(root: Path) -> Entries:
    return {
        str(one.relative_to(root)): None if one.is_dir() else one.read_bytes()
        for one in sorted(root.rglob("*"))
    }


class Recorder:
    """Takes down what this process does in a folder, step by step; install it in a child only.

    A moment is what lies there, what is there by the names that fsync vouches for, and the contents
    that it vouches for.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.sure = root, entries(root)
        self.synced = set(self.sure.values())
        self.moments: list[tuple[Entries, Entries, set[bytes | None]]] = []
        watch_steps(self._step)

    def take(self) -> Entries:
        """Record a moment."""
        now = entries(self.root)
        self.moments.append((now, dict(self.sure), set(self.synced)))
        return now

    def _step(self, event: str, path: Any) -> None:
        now = self.take()
        if event == "os.fsync":
            place = Path(f"/proc/self/fd/{path}").readlink()
            if place.is_dir():
                below = os.path.relpath(place, self.root)
                others = {name: one for name, one in self.sure.items() if parent(name) != below}
                self.sure = others | {n: one for n, one in now.items() if parent(n) == below}
            else:
                self.synced.add(place.read_bytes())


def parent(name: str) -> str:
    return str(Path(name).parent)


@cache
def recorded(name: str) -> list[tuple[Entries, Entries, set[bytes | None]]]:
    """Do something in a child; return each moment."""
    state, operation = small.ATTACKED[name]
    root = small.copied(state).resolve()

    def record() -> Any:
        recorder = Recorder(root)
        operation.do(rs.RunStore(root))
        recorder.take()
        return recorder.moments

    moments = start(record).answer()
    assert isinstance(moments, list) and len(moments) > 6, moments
    return moments


def lay_out(cut: str, moment: Any, into: Path, random: Random) -> None:
    """Lay out what a power cut leaves of a folder."""
    now, sure, synced = moment
    names = sure if cut == "synced" else now
    if cut == "any":
        names = {
            name: one
            for name, one in (sure | now).items()
            if (name in now and name in sure) or random.random() < 0.5
        }
    into.mkdir()
    for name, content in sorted(names.items()):
        place = into / name
        if content is None:
            place.mkdir()
        elif place.parent.exists():
            is_whole = cut == "all" or content in synced
            part = random.randrange(len(content) + 1) if cut == "any" else 0
            place.write_bytes(content if is_whole else content[:part])


@pytest.mark.parametrize("seed", range(times(4)))
@pytest.mark.parametrize("name", small.ATTACKED)
def test_a_power_cut_leaves_the_old_state_or_the_new_one(name, seed):
    state, operation = small.ATTACKED[name]
    new, random = operation.becomes(state), Random(seed)
    moments = recorded(name)
    last = len(moments) - 1
    drawn = random.randrange(len(moments)), random.choice(LEFT)
    at, cut = drawn if seed else (last, "synced")
    root = small.copied(state)
    shutil.rmtree(root)
    lay_out(cut, moments[at], root, random)
    # at the last moment the writer was told that it is done
    found = small.state_of(rs.RunStore(root), [new] if at == last else [state, new])
    small.assert_can_be_done(root, operation, found, new)


# Damaged files: each way to read gives the same values, or names the file


WAYS = small.READS | {
    "score": lambda store: small.as_text(store.scores(small.labels(0), ["mrr@10", "hit@5"])),
    "trend": lambda store: small.as_text(store.trend("mrr@10").table),
}
STATE = small.State(1, 1, 1)


def flip(content: bytes, random: Random) -> bytes:
    """One bit is another."""
    at = random.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :]


def cut(content: bytes, random: Random) -> bytes:
    """The end is missing."""
    return content[: random.randrange(len(content))]


def extend(content: bytes, random: Random) -> bytes:
    """Something follows."""
    return content + random.randbytes(random.choice([1, 8, 1000]))


def blank(content: bytes, random: Random) -> bytes:
    """Some bytes are zero."""
    at = random.randrange(len(content))
    n = min(random.choice([1, 16, 512]), len(content) - at)
    return content[:at] + bytes(n) + content[at + n :]


@pytest.fixture(scope="module")
def sound():
    """What each way to read gives of the store while nothing is damaged."""
    return {way: small.read(rs.RunStore(small.prepared(STATE)), way, WAYS) for way in WAYS}


ROUNDS = {flip: 12, cut: 3, extend: 3, blank: 3}


@pytest.mark.parametrize(
    ("damage", "seed"), [(one, seed) for one, n in ROUNDS.items() for seed in range(times(n))]
)
def test_damage_is_named_and_never_read_as_another_value(sound, damage, seed):
    root = small.copied(STATE)
    files = sorted(file for file in root.rglob("*") if file.is_file() and file.stat().st_size)
    store, file = rs.RunStore(root), files[seed % len(files)]
    was = file.stat()
    if seed % 3 == 0:
        store.runs()  # it is known from before
    file.write_bytes(damage(file.read_bytes(), Random(seed)))
    # A disk that loses a bit doesn't write down when.
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))
    for way in WAYS:
        found = small.read(store, way, WAYS)
        is_named = found.startswith("DataError") and str(file) in found
        assert is_named or found == sound[way], f"{file}, {way}: {found[:300]}"
