"""After a power cut at any step, the store reads as the old state or the new one.

What a writer does to files is recorded: at each step the whole folder, and what fsync has brought
to the disk by then. A power cut may leave any of it: all that was done; only what fsync vouches
for; all names, but no content that wasn't synced; any mixture of these.
"""

import os
import shutil
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ragscore as rs
from faults import small_stores as small
from faults.children import STEPS, chance, start
from faults.size import times

pytestmark = pytest.mark.slow

LEFT = ("all", "synced", "names", "any")  # by a power cut


@pytest.fixture(scope="module", autouse=True)
def _shared():
    yield
    small.remove_home()


@dataclass
class Disk:
    """What lies in a folder at one moment: names by folder, contents by inode."""

    names: dict[int, dict[str, int]] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)


class Recorder:
    """Takes down what this process does in a folder, step by step; install it in a child only."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.inode = root.stat().st_ino
        self.moments: list[tuple[Disk, Disk]] = []
        self.open: dict[int, int] = {}  # keeps an inode from being given to another file
        self.busy = False
        now = self._now()
        self.synced = Disk(dict(now.names), dict(now.contents))
        fsync = os.fsync

        def watched(descriptor: int) -> None:
            self._watch("os.fsync", ())
            fsync(descriptor)
            found = os.fstat(descriptor)
            now = self._now()
            if stat.S_ISDIR(found.st_mode):
                self.synced.names[found.st_ino] = now.names.get(found.st_ino, {})
            else:
                self.synced.contents[found.st_ino] = now.contents.get(found.st_ino, b"")

        os.fsync = watched
        sys.addaudithook(self._watch)

    def _now(self) -> Disk:
        found, self.busy = Disk(), True
        for folder in [self.root, *(one for one in self.root.rglob("*") if one.is_dir())]:
            names = found.names[folder.stat().st_ino] = {}
            for file in folder.iterdir():
                inode = names[file.name] = file.stat().st_ino
                if inode not in self.open:
                    self.open[inode] = os.open(file, os.O_RDONLY)
                if file.is_file():
                    found.contents[inode] = file.read_bytes()
        self.busy = False
        return found

    def take(self) -> None:
        """Record a moment."""
        synced = Disk(dict(self.synced.names), dict(self.synced.contents))
        self.moments.append((self._now(), synced))

    def _watch(self, event: str, args: tuple[Any, ...]) -> None:
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        if not self.busy and (
            event in STEPS
            or event == "os.fsync"
            or (event == "open" and args[2] and args[2] & writes)
        ):
            self.take()


def left_by(cut: str, now: Disk, synced: Disk, root: int, into: Path, random: Random) -> None:
    """Lay out what a power cut leaves of a folder."""

    def lay(folder: int, place: Path) -> None:
        place.mkdir()
        done, sure = now.names.get(folder, {}), synced.names.get(folder, {})
        names = {"all": done, "names": done, "synced": sure}.get(cut)
        if names is None:
            names = {}
            for name in done.keys() | sure.keys():
                inode = random.choice([one[name] for one in (done, sure) if name in one] or [0])
                if (name in done and name in sure) or random.random() < 0.5:
                    names[name] = inode
        for name, inode in names.items():
            if inode in now.names or inode in synced.names:
                lay(inode, place / name)
                continue
            content, kept = now.contents.get(inode, b""), synced.contents.get(inode)
            if cut != "all" and kept is not None:
                content = kept
            elif cut == "any":
                content = content[: random.randrange(len(content) + 1)]
            elif cut != "all":
                content = b""
            (place / name).write_bytes(content)

    lay(root, into)


def record(root: Path, operation: small.Operation) -> list[tuple[Disk, Disk]]:
    """In a child: do it, and hand over each moment."""

    def work() -> Any:
        store = rs.RunStore(root)
        recorder = Recorder(root)
        operation.do(store)
        recorder.take()
        return [
            [
                [one.names, {inode: content.hex() for inode, content in one.contents.items()}]
                for one in moment
            ]
            for moment in recorder.moments
        ]

    answer = start(work).answer()
    assert isinstance(answer, list), answer
    return [(_disk(now), _disk(synced)) for now, synced in answer]


def _disk(written: Any) -> Disk:
    names, contents = written
    return Disk(
        {int(folder): inner for folder, inner in names.items()},
        {int(inode): bytes.fromhex(content) for inode, content in contents.items()},
    )


@pytest.mark.parametrize("name", small.ATTACKED)
def test_a_power_cut_leaves_the_old_state_or_the_new_one(name):
    state, operation = small.ATTACKED[name]
    new = operation.becomes(state)
    prepared = small.home() / name
    small.build(prepared, state)
    wrong = []
    copy = small.copied(prepared, "recorded")
    moments = record(copy, operation)
    assert len(moments) > 5
    cuts = [(at, cut) for at in range(len(moments)) for cut in LEFT]
    if (n := times(3)) < len(cuts):
        cuts = [*chance(0).sample(cuts, n - 1), (len(moments) - 1, "synced")]
    for seed, (at, cut) in enumerate((cuts * (1 + n // len(cuts)))[: max(n, len(cuts))]):
        root = prepared.with_name(f"{name}-{seed}")
        left_by(cut, *moments[at], copy.stat().st_ino, root, chance(seed))
        is_done = at == len(moments) - 1  # then the writer was told that it is
        found, bad = small.verdict(rs.RunStore(root), [new] if is_done else [state, new])
        bad = bad or small.retried(root, operation, found, new)
        if bad:
            wrong.append(f"{name}, step {at} of {len(moments)}, {cut}, seed {seed}: {bad}")
        shutil.rmtree(root)
    assert not wrong, f"{len(wrong)} of {seed + 1}\n" + "\n".join(wrong[:20])


def test_what_is_recorded_is_what_was_done(tmp_path):
    """The recording itself: names and contents that nothing vouches for are lost."""
    root = tmp_path / "folder"
    root.mkdir()
    (root / "old").write_bytes(b"old")

    def do(_: Any) -> None:
        with (root / "new").open("wb") as out:
            out.write(b"new")
            out.flush()
            os.fsync(out.fileno())
        (root / "new").replace(root / "old")
        (root / "lost").write_bytes(b"lost")

    moments = record(root, small.Operation("do", do, lambda state: state))
    left = {}
    for cut in ("all", "synced", "names"):
        left_by(cut, *moments[-1], root.stat().st_ino, tmp_path / cut, chance(0))
        found = sorted((tmp_path / cut).iterdir())
        left[cut] = {file.name: file.read_bytes().decode() for file in found}
    assert left == {
        "all": {"lost": "lost", "old": "new"},
        "synced": {"old": "old"},
        "names": {"lost": "", "old": "new"},
    }
