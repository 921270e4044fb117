"""The same two things on file systems of fsspec: a file written once, and the one step.

Where CONDITIONS knows a condition, the step is a conditional write, of which the storage lets one
succeed. Other file systems can at least create a file that isn't there: there a lock file stands
for the time of the step.
"""

import json
import time
from collections.abc import Callable, Iterator
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

Write = Callable[[Any, str, bytes, dict[str, Any] | None], object]
# By the protocol of a storage: a write (file system, path, content, what it tells of the file, None
# if there is none yet) that fails if the file has changed since. A lock file serves all others.
CONDITIONS: dict[str, Write] = {
    "s3": lambda fs, path, content, found: fs.pipe_file(
        path, content, **({"IfMatch": found["ETag"]} if found else {"mode": "create"})
    ),
}
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
        write, found = _condition_of(file), None
        if write is not None and expected is not None:
            fs.invalidate_cache()
            try:
                found = fs.info(file.path)
            except FileNotFoundError:
                raise OvertakenError from None
        elif expected is not None:
            stack.enter_context(_lock_file(file))
        if digest_of(bytes_if_there(file)) != expected:
            raise OvertakenError
        _check_there(file, names)
        try:
            if write is not None:
                write(fs, file.path, content, found)
            else:
                fs.pipe_file(file.path, content, mode="create" if expected is None else "overwrite")
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


def _condition_of(file: RemotePath) -> Write | None:
    """Return the write on a condition; None: a lock file must do.

    Raises
    ------
    DataError
        The storage is Google's, spoken to as S3: its conditions are others (generations).
    """
    fs, told = file.fs, getattr(file.fs, "client_kwargs", None) or {}
    if "storage.googleapis.com" in f"{getattr(fs, 'endpoint_url', '')} {told.get('endpoint_url')}":
        raise DataError(
            "Google's storage has other conditions than S3, and they keep two writers apart",
            file=str(file),
            field="storage_options",
            allowed="a URL such as gs://bucket/runs",
        )
    protocols = fs.protocol if isinstance(fs.protocol, (tuple, list)) else (fs.protocol,)
    return next((CONDITIONS[name] for name in protocols if name in CONDITIONS), None)


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
