"""Where files of a store lie.

In a folder, or on any file system that fsspec knows, such as object storage.

A `RemotePath` has as much of `Path`'s interface as a store needs, so that its code is the same for
both.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ragscore.frames.errors import DataError

SETTLED_NS = 10**9  # file systems tell times apart by a few milliseconds, some by a second


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
        """The last part."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> "RemotePath":
        """The folder it is in."""
        return RemotePath(self.fs, self.path.rpartition("/")[0])

    def exists(self) -> bool:
        """Whether it is there now; listings seen before don't count."""
        self.fs.invalidate_cache()
        return bool(self.fs.exists(self.path))

    def read_bytes(self) -> bytes:
        """All it holds."""
        return bytes(self.fs.cat_file(self.path))


Place = Path | RemotePath


def place_of(root: str | Path, storage_options: dict[str, Any] | None = None) -> Place:
    """A folder by its path, or by a URL of any file system that fsspec knows (`s3://bucket/runs`).

    Parameters
    ----------
    storage_options
        What the file system is told: end point, credentials, and the like.

    Raises
    ------
    DataError
        No such file system, or its package is missing; options for a folder of this machine.
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
        raise DataError(
            f"no file system for {scheme}:// ({error})",
            file=str(root),
            allowed="pip install 'ragscore[scale]'",
        ) from error
    return RemotePath(fs, str(path).rstrip("/"))


def arrow_source(file: Place) -> tuple[str, Any]:
    """A file as pyarrow and pandas take it: its path, and its file system (None: this machine's)."""
    return (str(file), None) if isinstance(file, Path) else (file.path, file.fs)


@contextmanager
def whole_file(file: Place) -> Iterator[Path]:
    """A path to write to: `file` is there once all of it is written, and as it was till then."""
    if isinstance(file, Path):
        staging = file.with_name(f".{file.name}.staging")
        yield staging
        staging.replace(file)
    else:
        with TemporaryDirectory() as folder:
            staging = Path(folder) / file.name
            yield staging
            file.fs.put_file(str(staging), file.path)


def write_new(file: RemotePath, content: bytes) -> None:
    """Write a file that must not be there yet: of several that try at once, one succeeds.

    Raises
    ------
    FileExistsError
        It is there already.
    """
    file.fs.invalidate_cache()
    with file.fs.open(file.path, "xb") as out:
        out.write(content)


def file_names(folder: Place) -> set[str]:
    """The names of what is in a folder; none of one that isn't there."""
    if isinstance(folder, Path):
        return set(os.listdir(folder)) if folder.is_dir() else set()  # noqa: PTH208
    folder.fs.invalidate_cache()
    listed = folder.fs.ls(folder.path, detail=False) if folder.fs.exists(folder.path) else []
    return {str(name).rstrip("/").rpartition("/")[2] for name in listed}


def remove(folder: RemotePath) -> None:
    """Remove a folder and all in it; what isn't there needs no removing."""
    file_names = folder.fs.find(folder.path) if folder.exists() else []
    if file_names:
        folder.fs.rm(file_names)


def stamps(root: Place, files: list[str]) -> list[str | None]:
    """What tells the present content of files in a folder from an older one.

    Size and time, or what the object storage says; None for one that isn't there.
    """
    if isinstance(root, Path):
        # no Path of each: there may be thousands
        return [_stamp_of(f"{root}/{file}") for file in files]
    root.fs.invalidate_cache()
    listed = root.fs.find(root.path, detail=True) if root.exists() else {}  # all in one request
    known = {
        str(name).lstrip("/"): (
            f"{one['size']}"
            f" {one.get('ETag') or one.get('LastModified') or one.get('created') or one.get('mtime')}"
        )
        for name, one in listed.items()
    }
    return [known.get(f"{root.path}/{file}".lstrip("/")) for file in files]


def _stamp_of(file: str | Path) -> str | None:
    try:
        found = os.stat(file)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"


def settled_stamp(file: Path) -> str | None:
    """The file's stamp.

    None if it was written just now, when another write could leave the same one.
    """
    return _stamp_of(file) if time.time_ns() - file.stat().st_mtime_ns > SETTLED_NS else None
