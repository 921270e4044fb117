"""Writes on this machine that last, and the one step that puts a file in place of another.

A file is written under a name of its own and brought to the disk before anything names it. Putting
`run.json` in place is a step of one writer at a time: it renames a finished file, if nobody else
did since.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from ragscore.frames.errors import DataError
from ragscore.store.checked import SummingWriter, digest_of
from ragscore.store.places import bytes_if_there

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"  # in the store's folder; nobody holds it longer than a few milliseconds
PATIENCE = 60.0  # seconds to wait for it
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
MANY_SYNCED = 8  # at once
STAGING = ".staging-"  # how names of unfinished files begin


class OvertakenError(Exception):
    """Somebody else put a file in place first."""


@contextmanager
def new_file(file: Path) -> Iterator[SummingWriter]:
    """Yield a file to write to, which must not exist yet; `sync` brings it to the disk.

    After an error it is gone.
    """
    try:
        descriptor = os.open(file, _NEW, 0o666)
    except FileNotFoundError:  # a writer that gave up may have removed the empty folder just now
        file.parent.mkdir(exist_ok=True)
        descriptor = os.open(file, _NEW, 0o666)
    try:
        with os.fdopen(descriptor, "wb", buffering=2**18) as out:
            yield SummingWriter(out)
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def make_folder(folder: Path) -> None:
    """Make a folder that a power cut leaves there."""
    made = [one for one in (folder, *folder.parents) if not one.is_dir()]
    if made:
        folder.mkdir(parents=True, exist_ok=True)
        sync([one.parent for one in made])


def sync(places: list[Path]) -> None:
    """Bring files, and the names in folders, to the disk.

    All at once: a file system that is asked for many takes little longer than for one.
    """
    # Windows brings the names in folders there by itself, and opens none.
    wanted = [one for one in dict.fromkeys(places) if fcntl is not None or one.is_file()]
    if len(wanted) == 1:
        _sync(wanted[0])
    else:
        with ThreadPoolExecutor(max_workers=MANY_SYNCED) as pool:
            list(pool.map(_sync, wanted))


def _sync(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY if fcntl is not None else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(
    root: Path, file: Path, content: bytes, expected: str | None, names: list[str]
) -> None:
    """Put a file in place of the one of this digest (None: of none), unless that has changed.

    Parameters
    ----------
    root
        The store's folder, where its lock is.
    names
        Files beside it that it names: they are brought to the disk first.

    Raises
    ------
    OvertakenError
        Somebody else was first. Nothing has changed.
    FileNotFoundError
        One of the files that it names is not there.
    """
    staging = file.with_name(f"{STAGING}{uuid4().hex[:12]}")
    try:
        with new_file(staging) as out:
            out.write(content)
        sync([*(file.with_name(name) for name in names), staging, file.parent, root])
        with one_at_a_time(root):
            if digest_of(bytes_if_there(file)) != expected:
                raise OvertakenError
            for name in names:  # a folder may have been removed meanwhile, and made anew
                os.stat(file.with_name(name))  # noqa: PTH116
            os.replace(staging, file)  # noqa: PTH105
    except BaseException:
        staging.unlink(missing_ok=True)
        raise
    try:
        sync([file.parent])
    except OSError as error:
        raise DataError(
            f"is in place, but a power cut may undo it: {error.strerror}",
            file=str(file),
            allowed="a sound disk; save again to be sure",
        ) from error


@contextmanager
def one_at_a_time(root: Path) -> Iterator[None]:
    """Hold the store's lock; the system lets go of it when a process ends, however it ends."""
    file = root / LOCK
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        give_up = time.monotonic() + PATIENCE
        while not _is_locked(descriptor):
            if time.monotonic() > give_up:
                raise DataError(
                    f"another writer has held it for {PATIENCE:.0f} seconds",
                    file=str(file),
                    allowed="end the process that hangs; its lock goes with it",
                )
            time.sleep(0.002)
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    return True
