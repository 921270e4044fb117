"""Where a store lies: in a folder of this machine, or on any file system that fsspec knows.

A `RemotePath` has as much of `Path`'s interface as a store needs, so that the code is the same for
both.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragscore.frames.errors import DataError, to_install
from ragscore.io.file_content import check_regular, unreadable

# A file this old shows a later write by its time: file systems keep times to a second at worst.
SETTLED_NS = 10**9


@dataclass(frozen=True)
class RemotePath:
    """A file or folder of an fsspec file system."""

    fs: Any
    path: str

    def __truediv__(self, name: str) -> "RemotePath":
        return RemotePath(self.fs, f"{self.path}/{name}")

    def __str__(self) -> str:
        return str(self.fs.unstrip_protocol(self.path))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def exists(self) -> bool:
        """Return whether it exists now, whatever fsspec has cached."""
        self.fs.invalidate_cache()
        with answering(self):
            return bool(self.fs.exists(self.path))

    def read_bytes(self) -> bytes:
        """Return the content of the file."""
        with answering(self):
            return bytes(self.fs.cat_file(self.path))


Place = Path | RemotePath


def place_of(root: str | Path, storage_options: dict[str, Any] | None = None) -> Place:
    """Return a folder by its path, or by a URL of a file system that fsspec knows.

    Parameters
    ----------
    storage_options
        Options for the file system: end point, credentials, and the like.

    Raises
    ------
    DataError
        The file system is unknown, or its package is missing; options are given for a folder of
        this machine.
    """
    scheme, has_scheme, rest = str(root).partition("://")
    if not has_scheme or scheme in ("file", "local"):
        if storage_options:
            raise DataError(
                f"found {', '.join(storage_options)}",
                file=str(root),
                field="storage_options",
                allowed="a URL such as s3://bucket/runs",
            )
        return Path(rest if has_scheme else root)
    try:
        from fsspec.core import url_to_fs

        fs, path = url_to_fs(str(root), **(storage_options or {}))
    except (ImportError, ValueError) as error:
        # fsspec's own words name the package of another storage than the extra's
        needs_extra = scheme in ("s3", "s3a") or getattr(error, "name", None) == "fsspec"
        named = "the package named there" if isinstance(error, ImportError) else "a known protocol"
        raise DataError(
            f"no file system for {scheme}:// ({error})",
            file=str(root),
            allowed=to_install("scale") if needs_extra else named,
        ) from error
    return RemotePath(fs, str(path).rstrip("/"))


def file_names(folder: Place) -> set[str]:
    """Return the names of all in a folder; none if it doesn't exist."""
    if isinstance(folder, Path):
        return set(os.listdir(folder)) if folder.is_dir() else set()  # noqa: PTH208
    folder.fs.invalidate_cache()
    try:
        with answering(folder):
            listed = folder.fs.ls(folder.path, detail=False)
    except FileNotFoundError:
        return set()
    return {str(name).rstrip("/").rpartition("/")[2] for name in listed}


def bytes_if_there(file: Place) -> bytes | None:
    """Return the content of a file as it is now; None if there is none."""
    if not isinstance(file, Path):
        file.fs.invalidate_cache()
    else:
        check_regular(file)
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(Path(str(file)), error) from error


@contextmanager
def answering(place: RemotePath) -> Iterator[None]:
    """Turn the error of a storage that doesn't answer into one that says so."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        if not is_storage_error(error):
            raise
        raise DataError(
            f"could not be read ({error})",
            file=str(place),
            allowed="a storage that answers; nothing was changed",
        ) from error


def modified_at(file: Place) -> datetime:
    """Return when a file was last written to."""
    if isinstance(file, Path):
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)
    found = file.fs.modified(file.path)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def is_storage_error(error: Exception) -> bool:
    """Return whether an error comes from a file system, here or elsewhere.

    Packages of storages have errors of their own; those of Python and of what reads tables are not
    the storage's.
    """
    package = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError) or package not in _NO_STORAGES


_NO_STORAGES = sys.stdlib_module_names | {"ragscore", "pyarrow", "pandas", "numpy"}
# By which storages tell versions of a file apart, the surest first; they write them in many ways.
_VERSION_KEYS = (
    "etag", "generation", "lastmodified", "updated", "creationtime", "created", "mtime",
)  # fmt: skip


def _version(info: dict[str, Any]) -> Any:
    """Return what tells this version of a file from others; None if the storage offers nothing."""
    told = {key.replace("_", "").lower(): value for key, value in info.items()}
    return next((told[key] for key in _VERSION_KEYS if told.get(key)), None)


def stamps(root: Place, files: list[str]) -> list[str | None]:
    """Return a stamp of each file that changes with its content; None if it doesn't exist.

    The stamp is size, time and inode, or size and what the object storage offers.
    """
    if isinstance(root, Path):
        # Plain texts: making a Path of each takes longer than asking for thousands of files.
        return [_stamp_of(f"{root}/{file}") for file in files]
    root.fs.invalidate_cache()
    with answering(root):
        listed = root.fs.find(root.path, detail=True) if root.exists() else {}  # in one request
    known = {
        str(name).lstrip("/"): f"{info['size']} {_version(info)}" for name, info in listed.items()
    }
    return [known.get(f"{root.path}/{file}".lstrip("/")) for file in files]


def _stamp_of(file: str | Path) -> str | None:
    try:
        found = os.stat(file)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:  # a link that leads to itself, or a folder that can't be entered
        raise unreadable(Path(file), error) from error
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"


def settled_stamp(file: Path) -> str | None:
    """Return the file's stamp; None right after a write, when another could leave the same one."""
    return _stamp_of(file) if time.time_ns() - file.stat().st_mtime_ns > SETTLED_NS else None
