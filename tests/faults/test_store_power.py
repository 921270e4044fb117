"""After a kill or a power cut at any step, the store reads as the old state or the new one.

What a writer does to files is recorded: at each step the whole folder, and what fsync has brought
to the disk by then. A kill leaves all that was done. A power cut may leave any of it: only what
fsync vouches for; all names, but no content that wasn't synced; any mixture of these.
"""

import os
import shutil
import stat
from dataclasses import dataclass, field
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

LEFT = ("all", "synced", "names", "any")


@dataclass
class Disk:
    """What lies in a folder at one moment: names by folder, contents by inode."""

    names: dict[int, dict[str, int]] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)


class Recorder:
    """Takes down what this process does in a folder, step by step; install it in a child only."""

    def __init__(self, root: Path) -> None:
        self.root, self.is_looking = root, False
        self.moments: list[tuple[Disk, Disk]] = []
        self.open: dict[int, int] = {}  # keeps an inode from being given to another file
        self.synced = self._now()
        watch_steps(self._step)

    def _now(self) -> Disk:
        found, self.is_looking = Disk(), True
        for folder in [self.root, *(one for one in self.root.rglob("*") if one.is_dir())]:
            names = found.names[folder.stat().st_ino] = {}
            for file in folder.iterdir():
                inode = names[file.name] = file.stat().st_ino
                if inode not in self.open:
                    self.open[inode] = os.open(file, os.O_RDONLY)
                if file.is_file():
                    found.contents[inode] = file.read_bytes()
        self.is_looking = False
        return found

    def take(self) -> Disk:
        """Record a moment."""
        now = self._now()
        self.moments.append((now, Disk(dict(self.synced.names), dict(self.synced.contents))))
        return now

    def _step(self, event: str, path: Any) -> None:
        if self.is_looking:
            return
        now = self.take()
        if event == "os.fsync":
            found = os.fstat(path)
            if stat.S_ISDIR(found.st_mode):
                self.synced.names[found.st_ino] = now.names.get(found.st_ino, {})
            else:
                self.synced.contents[found.st_ino] = now.contents.get(found.st_ino, b"")


@cache
def recorded(name: str) -> tuple[int, list[tuple[Disk, Disk]]]:
    """Do something in a child; return the inode of the store, and each moment."""
    state, operation = small.ATTACKED[name]
    root = small.copied(state)

    def record() -> list[tuple[Disk, Disk]]:
        recorder = Recorder(root)
        operation.do(rs.RunStore(root))
        recorder.take()
        return recorder.moments

    moments = start(record).answer()
    assert isinstance(moments, list) and len(moments) > 6, moments
    return root.stat().st_ino, moments


def left_by(cut: str, now: Disk, synced: Disk, root: int, into: Path, random: Random) -> None:
    """Lay out what a power cut leaves of a folder."""

    def named(folder: int) -> dict[str, int]:
        done, sure = now.names.get(folder, {}), synced.names.get(folder, {})
        if cut != "any":
            return sure if cut == "synced" else done
        names = {}
        for name in sorted(done.keys() | sure.keys()):
            inode = random.choice([one[name] for one in (done, sure) if name in one])
            if (name in done and name in sure) or random.random() < 0.5:
                names[name] = inode
        return names

    def content_of(inode: int) -> bytes:
        content = now.contents.get(inode, b"")
        if cut == "all":
            return content
        unsure = content[: random.randrange(len(content) + 1)] if cut == "any" else b""
        return synced.contents.get(inode, unsure)

    def lay(folder: int, place: Path) -> None:
        place.mkdir()
        for name, inode in named(folder).items():
            if inode in now.names or inode in synced.names:
                lay(inode, place / name)
            else:
                (place / name).write_bytes(content_of(inode))

    lay(root, into)


@pytest.mark.parametrize("seed", range(times(4)))
@pytest.mark.parametrize("name", small.ATTACKED)
def test_a_power_cut_leaves_the_old_state_or_the_new_one(name, seed):
    state, operation = small.ATTACKED[name]
    new, random = operation.becomes(state), Random(seed)
    inode, moments = recorded(name)
    last = len(moments) - 1
    at, cut = random.randrange(len(moments)), random.choice(LEFT)
    if seed == 0:
        at, cut = last, "synced"
    root = small.copied(state)
    shutil.rmtree(root)
    left_by(cut, *moments[at], inode, root, random)
    # at the last moment the writer was told that it is done
    found = small.state_of(rs.RunStore(root), [new] if at == last else [state, new])
    small.assert_can_be_done(root, operation, found, new)
