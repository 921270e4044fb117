"""Whatever is damaged in a stored file, each way to read gives the same values, or names the file.

One bit is flipped anywhere: in run-….json, in tables with their page headers and
footers. Or a file is cut, extended, or overwritten in places.
"""

import os
from random import Random

import pytest

import ragscore as rs
from faults import small_stores as small
from faults.size import times

pytestmark = pytest.mark.slow

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
