"""Writes on this machine that last, and the one step that puts a file in place of another.

A file is written under a name of its own and brought to the disk before anything names it. Putting
`run.json` in place is a step of one writer at a time: it renames a finished file, if nobody else
did since.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from ragscore.frames.errors import DataError
from ragscore.store.checked import FileEntry, SummingWriter, digest_of
from ragscore.store.places import bytes_if_there

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"  # in the store's folder; nobody holds it longer than a few milliseconds
PATIENCE = 60.0  # seconds to wait for it
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
STAGING = ".staging-"  # how names of unfinished files begin


class OvertakenError(Exception):
    """Somebody else put a file in place first."""


@contextmanager
def new_file(file: Path) -> Iterator[SummingWriter]:
    """Yield a file to write to, which must not exist yet; at the end it is on the disk.

    After an error it is gone.
    """
    descriptor = os.open(
        file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
    )
    try:
        with os.fdopen(descriptor, "wb", buffering=2**18) as out:
            yield SummingWriter(out)
            out.flush()
            os.fsync(out.fileno())
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def write_new(file: Path, content: bytes) -> FileEntry:
    """Write a file that must not exist yet, whole or not at all."""
    with new_file(file) as out:
        out.write(content)
    return out.sums.entry(file.name)


def make_folder(folder: Path) -> None:
    """Make a folder, and bring its name to the disk."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk; Windows does so by itself."""
    if fcntl is None:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(
    root: Path, file: Path, content: bytes, expected: str | None, check: Callable[[], None]
) -> None:
    """Put a file in place of the one of this digest (None: of none), unless that has changed.

    `check` is called first, when nobody else can put anything in place.

    Raises
    ------
    OvertakenError
        Somebody else was first. Nothing has changed.
    """
    staging = file.with_name(f"{STAGING}{uuid4().hex[:12]}")
    with one_at_a_time(root):
        if digest_of(bytes_if_there(file)) != expected:
            raise OvertakenError
        check()
        sync_folder(file.parent)  # the names of the files that it will name
        try:
            write_new(staging, content)
            os.replace(staging, file)  # noqa: PTH105
        except BaseException:
            staging.unlink(missing_ok=True)
            raise
        try:
            sync_folder(file.parent)
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
