"""Where a store lies: a folder of this machine, or any file system that fsspec knows.

Five things are asked of it: which files are there, read one, write a new one, put one in place if
nobody else did (one step, whole or not at all), remove one. In: names below the store's folder.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, wraps
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

from ragscore.frames.errors import TO_INSTALL, DataError
from ragscore.io.files import check_regular

STAGING = ".staging-"  # how names of unfinished files begin
_IN_MEMORY = Lock()  # a file system in memory looks first, and writes then


@dataclass(frozen=True)
class Stamp:
    """What differs for another file of the same name, and when it was written, if that is known."""

    mark: str
    time: float | None


def _named(method: Any) -> Any:
    """Turn any error of a file system but "not there" and "there already" into one of ours."""

    @wraps(method)
    def named(self: Any, name: str = "", *args: Any) -> Any:
        try:
            return method(self, name, *args)
        except (DataError, FileNotFoundError, FileExistsError):
            raise
        except NotADirectoryError as error:
            raise FileNotFoundError(self.where(name)) from error
        except Exception as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise DataError(
                f"no access ({reason}); what was there is as it was",
                file=self.where(name),
                allowed="room and the right to write there, then the same again",
            ) from error

    return named


@dataclass(frozen=True)
class Disk:
    """A folder of this machine."""

    root: Path

    def where(self, name: str) -> str:
        """Return what errors and other tools call a file."""
        return str(self.root / name)

    @_named
    def files(self, folder: str = "") -> dict[str, Stamp]:
        """Return the files in a folder of the store, or of all its folders as `folder/name`."""
        try:
            with os.scandir(self.root / folder) as found:
                entries = list(found)
        except FileNotFoundError:
            return {}
        if not folder:
            below = sorted(one.name for one in entries if one.is_dir() and one.name[0] != ".")
            return {f"{one}/{name}": at for one in below for name, at in self.files(one).items()}
        try:
            stats = {one.name: one.stat(follow_symlinks=False) for one in entries}
        except FileNotFoundError:  # a writer swept it meanwhile, and may have put another one there
            return self.files(folder)
        return {
            name: Stamp(f"{one.st_size} {one.st_mtime_ns} {one.st_ino}", one.st_mtime)
            for name, one in stats.items()
        }

    @_named
    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        check_regular(self.root / name)
        return (self.root / name).read_bytes()

    @_named
    def write(self, name: str, data: Any) -> None:
        """Write a new file, and bring it to the disk."""
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as out:
            try:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            except BaseException:
                file.unlink(missing_ok=True)
                raise

    @_named
    def put_new(self, name: str, data: bytes) -> None:
        """Put a file in place that isn't there yet: the one step of a writer."""
        file = self.root / name
        staging = f"{name.rpartition('/')[0]}/{STAGING}{uuid4().hex[:12]}"
        self.write(staging, data)
        try:
            _sync_folder(file.parent)
            try:
                os.link(self.root / staging, file)
            except FileExistsError:
                raise
            except OSError:  # no hard links here: a file that a crash cuts short is then an error
                self.write(name, data)
        finally:
            with suppress(Exception):
                self.remove(staging)
        try:
            for folder in (file.parent, self.root, self.root.parent):
                _sync_folder(folder)
        except OSError as error:
            raise DataError(
                f"the run is in place, and may be lost with the next power cut ({error.strerror})",
                file=str(file),
                allowed="a sound disk, then the same again with overwrite=True",
            ) from error

    @_named
    def remove(self, name: str) -> None:
        """Remove a file; it may be gone already."""
        (self.root / name).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    with suppress(PermissionError):  # as Windows says, which brings names to the disk by itself
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@dataclass(frozen=True)
class Remote:
    """A folder of an fsspec file system whose writes can fail where a file is there already."""

    fs: Any
    root: str

    def where(self, name: str) -> str:
        """Return what errors and other tools call a file."""
        return str(self.fs.unstrip_protocol(f"{self.root}/{name}".rstrip("/")))

    @_named
    def files(self, folder: str = "") -> dict[str, Stamp]:
        """Return the files in a folder of the store, or of all its folders as `folder/name`."""
        self.fs.invalidate_cache()
        below = f"{self.root}/{folder}".strip("/")
        found = self.fs.find(f"{self.root}/{folder}".rstrip("/"), detail=True)  # in one request
        return {
            name.strip("/").removeprefix(f"{below}/"): _stamp(info) for name, info in found.items()
        }

    @_named
    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return bytes(self.fs.cat_file(f"{self.root}/{name}"))

    @_named
    def write(self, name: str, data: Any) -> None:
        """Write a new file."""
        self.fs.pipe_file(f"{self.root}/{name}", bytes(data))

    @_named
    def put_new(self, name: str, data: bytes) -> None:
        """Put a file in place that isn't there yet: the one step of a writer."""
        if not self._refuses_a_second:
            raise DataError(
                "this file system overwrites a file that it should refuse to create",
                file=self.where(name),
                allowed="a folder, S3 or Google's storage: of two writers at once one must lose",
            )
        self._create(name, data)

    @cached_property
    def _refuses_a_second(self) -> bool:
        """True if a file that is there already can't be created; asked once of a file system."""
        name = f"{STAGING}{uuid4().hex[:12]}"
        self._create(name, b"1")
        try:
            self._create(name, b"2")
        except FileExistsError:
            return True
        finally:
            self.remove(name)
        return False

    def _create(self, name: str, data: bytes) -> None:
        try:
            with _IN_MEMORY:
                self.fs.pipe_file(f"{self.root}/{name}", data, mode="create")
        except Exception as error:
            try:  # its answer alone may have been lost
                found = self.read(name)
            except FileNotFoundError:
                raise error from None
            except DataError:
                raise DataError(
                    f"not known whether it is there ({error})",
                    file=self.where(name),
                    allowed="a look at store.runs() once the storage answers again",
                ) from error
            if found != data:
                raise FileExistsError(name) from None

    @_named
    def remove(self, name: str) -> None:
        """Remove a file; it may be gone already."""
        with suppress(FileNotFoundError):
            self.fs.rm_file(f"{self.root}/{name}")


def _stamp(info: dict[str, Any]) -> Stamp:
    """Return the stamp of a file from what a file system states; times: dates, or s since 1970."""
    times = [one.timestamp() for one in info.values() if isinstance(one, datetime)]
    times += [info[name] for name in ("created", "mtime") if isinstance(info.get(name), float)]
    return Stamp(str(info), max(times, default=None))


Place = Disk | Remote


def place_of(root: str | Path, storage_options: dict[str, Any] | None = None) -> Place:
    """Return a folder by its path, or by a URL of a file system that fsspec knows."""
    scheme, has_scheme, rest = str(root).partition("://")
    if not has_scheme or scheme in ("file", "local"):
        if storage_options:
            raise DataError(
                f"found {', '.join(storage_options)}",
                file=str(root),
                field="storage_options",
                allowed="a URL such as s3://bucket/runs",
            )
        return Disk(Path(rest if has_scheme else root))
    try:
        from fsspec.core import url_to_fs

        fs, path = url_to_fs(str(root), **(storage_options or {}))
    except (ImportError, ValueError) as error:
        raise DataError(
            f"no file system for {scheme}:// ({error})",
            file=str(root),
            allowed=TO_INSTALL.format("scale"),
        ) from error
    return Remote(fs, str(path).rstrip("/"))
