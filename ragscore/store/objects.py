"""The same two things on file systems of fsspec: a file written once, and the one step.

On S3 the step is a conditional write, of which the storage lets one succeed. Other file systems
can at least create a file that isn't there: there a lock file stands for the time of the step.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from errno import ENOENT
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from ragscore.frames.errors import DataError
from ragscore.store.checked import SummingWriter, digest_of
from ragscore.store.disk import PATIENCE, OvertakenError, new_file
from ragscore.store.places import RemotePath, bytes_if_there, file_names

# File systems in memory look whether a file is there, and then write it: not in one step.
_IN_THIS_PROCESS = Lock()


@contextmanager
def new_object(file: RemotePath) -> Iterator[SummingWriter]:
    """Yield a file to write to; at the end it is in the storage, whole."""
    with TemporaryDirectory() as folder:
        local = Path(folder) / file.name
        with new_file(local) as out:
            yield out
        file.fs.put_file(str(local), file.path)


def put_in_place(file: RemotePath, content: bytes, expected: str | None, names: list[str]) -> None:
    """Put a file in place of the one of this digest (None: of none), unless that has changed.

    Raises
    ------
    OvertakenError
        Somebody else was first. Nothing has changed.
    FileNotFoundError
        One of the files beside it that it names is not there.
    """
    fs = file.fs
    with _IN_THIS_PROCESS, ExitStack() as stack:
        tag: dict[str, Any] = {"mode": "create"}
        if expected is not None and _is_s3(fs):
            fs.invalidate_cache()
            try:
                tag = {"IfMatch": fs.info(file.path)["ETag"]}
            except FileNotFoundError:
                raise OvertakenError from None
        elif expected is not None:
            stack.enter_context(_lock_file(file))
            tag = {}
        if digest_of(bytes_if_there(file)) != expected:
            raise OvertakenError
        _check_there(file, names)
        try:
            fs.pipe_file(file.path, content, **tag)
        except Exception as error:
            _look_again(file, content, expected, error)
        finally:
            fs.invalidate_cache()


def _look_again(file: RemotePath, content: bytes, expected: str | None, error: Exception) -> None:
    """Ask the storage what became of a write that failed: its answer alone may have been lost.

    Raises
    ------
    OvertakenError
        Somebody else was first.
    DataError
        That isn't known, and what was sent may still arrive.
    """
    with suppress(DataError):
        found = bytes_if_there(file)
        if found == content:
            return
        if digest_of(found) != expected:
            raise OvertakenError from error
        if isinstance(error, PermissionError):
            raise error
    raise DataError(
        f"no clear answer ({error}): what was there still is, and this may yet arrive",
        file=str(file),
        allowed="look at store.runs() when the storage answers again",
    ) from error


def _check_there(file: RemotePath, names: list[str]) -> None:
    folder = RemotePath(file.fs, file.path.rpartition("/")[0])
    if lost := sorted(set(names) - file_names(folder)):
        raise FileNotFoundError(ENOENT, "not there", f"{folder}/{lost[0]}")


def _is_s3(fs: Any) -> bool:
    protocols = fs.protocol if isinstance(fs.protocol, (tuple, list)) else (fs.protocol,)
    return "s3" in protocols


@contextmanager
def _lock_file(file: RemotePath) -> Iterator[None]:
    lock = RemotePath(file.fs, f"{file.path}.lock")
    note = json.dumps({"since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}).encode()
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            file.fs.pipe_file(lock.path, note, mode="create")
            break
        except FileExistsError:
            if time.monotonic() > give_up:
                since = bytes_if_there(lock) or b""
                raise DataError(
                    f"another writer holds it ({since.decode(errors='replace')})",
                    file=str(lock),
                    allowed="if no writer runs any more, remove that file",
                ) from None
            time.sleep(0.05)
    try:
        yield
    finally:
        file.fs.rm_file(lock.path)
