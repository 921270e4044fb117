"""Whatever is damaged in a stored file, each way to read gives the same values, or names the file.

One bit is flipped anywhere: in run-….json, in tables with their page headers and
footers. Or a file is cut, extended, overwritten in places, exchanged, or gone.
"""

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from random import Random

import pytest

import ragscore as rs
from faults import small_stores as small
from faults.children import chance
from faults.size import times

pytestmark = pytest.mark.slow

WAYS = small.READS | {
    "score": lambda store: small.as_text(store.scores(small.labels(0), ["mrr@10", "hit@5"])),
    "trend": lambda store: small.as_text(store.trend("mrr@10").table),
}


@pytest.fixture(scope="module", autouse=True)
def _shared():
    yield
    small.remove_home()


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


class Damaged:
    """A store of two runs, of which one file at a time is damaged and mended."""

    def __init__(self, name: str) -> None:
        self.root = small.home() / name
        small.build(self.root, small.State(1, 1, 1))
        self.sound = {way: small.read(rs.RunStore(self.root), way, WAYS) for way in WAYS}
        assert not [text for text in self.sound.values() if text.startswith(("DataError", "CRASH"))]

    @cached_property
    def files(self) -> list[Path]:
        """All its files, that hold anything."""
        found = sorted(file for file in self.root.rglob("*") if file.is_file())
        return [file for file in found if file.stat().st_size]

    def files_of(self, run_id: str) -> list[Path]:
        """The files of one run."""
        return [file for file in self.files if file.parent.name == run_id]

    def outcomes(self, file: Path, content: bytes | None, warm: bool) -> dict[str, str]:
        """What becomes of each way to read when a file holds this (None: when it is gone)."""
        before, was = file.read_bytes(), file.stat()
        store = rs.RunStore(self.root)
        if warm:
            store.runs()
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
            # A disk that loses a bit doesn't write down when.
            os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))
        try:
            return {way: self._outcome(way, store, file) for way in WAYS}
        finally:
            file.write_bytes(before)
            os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))

    def _outcome(self, way: str, store: rs.RunStore, file: Path) -> str:
        found = small.read(store, way, WAYS)
        if found == self.sound[way]:
            return "same"
        if not found.startswith("DataError"):
            return found[:300] if found.startswith("CRASH") else "silently wrong"
        if str(file) not in found:
            return f"another file named: {found[:300]}"
        return "named"


def attack(name: str, store: Damaged, n: int, damage: Callable[[bytes, Random], bytes]) -> None:
    """Damage one file after the other; in each round every way to read must find out."""
    wrong = []
    for seed in range(n):
        random = chance(seed)
        file = store.files[seed % len(store.files)]
        outcomes = store.outcomes(file, damage(file.read_bytes(), random), warm=seed % 3 == 0)
        bad = {way: one for way, one in outcomes.items() if one not in ("same", "named")}
        if bad:
            wrong.append(f"{name}, seed {seed}, {file.relative_to(store.root)}: {bad}")
    assert not wrong, f"{len(wrong)} of {n}\n" + "\n".join(wrong[:20])


@pytest.fixture(scope="module")
def store():
    return Damaged("damaged")


@pytest.mark.parametrize(("damage", "n"), [(flip, 12), (cut, 3), (extend, 3), (blank, 3)])
def test_damage_is_named_and_never_read_as_another_value(store, damage, n):
    attack(damage.__name__, store, times(n), damage)


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "another run's"])
def test_a_file_that_is_gone_or_of_another_run_is_named(store, is_gone):
    wrong = []
    for file in store.files_of("r"):
        kind = file.name.partition("-")[0].partition(".")[0]
        twin = next((store.root / "base").glob(f"{kind}*"), None)
        if twin is None or (is_gone and kind == "run"):
            continue  # a run without its file is not there
        outcomes = store.outcomes(file, None if is_gone else twin.read_bytes(), warm=False)
        bad = {way: one for way, one in outcomes.items() if one not in ("same", "named")}
        if bad:
            wrong.append(f"{file.relative_to(store.root)}: {bad}")
    assert not wrong, "\n".join(wrong)
