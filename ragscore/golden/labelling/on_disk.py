"""A golden file on disk, changed by several people.

Read again before each write, backed up once, renamed into place.
"""

import gzip
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ragscore.frames.data import DataError
from ragscore.golden.labelling.golden_text import GoldenText


class GoldenFile:
    """The file, and what is known to be in it.

    Attributes
    ----------
    path
        The file itself, where a link was given.
    now
        Its content when it was last looked at.
    backup
        The copy of the file as it was before the first write (None: nothing was written yet).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self.backup: Path | None = None
        self.now = self.read()

    def read(self) -> GoldenText:
        """Look at the file again; what it holds is the same object as long as its bytes are."""
        found = GoldenText(self.path, _text(self.path))
        if not hasattr(self, "now") or found.text != self.now.text:
            _ = found.rows  # a file that can't be read must say so before anything is made of it
            self.now = found
        return self.now

    def write(self, content: GoldenText) -> None:
        """Put the content in the file's place.

        All of it or nothing, and on the disk before this returns.
        """
        if self.backup is None:
            self.backup = _kept(self.path)
        staging = self.path.with_name(f".{self.path.name}.{os.getpid()}.staging")
        try:
            with staging.open("wb") as file:
                file.write(content.data())
                file.flush()
                os.fsync(file.fileno())
            shutil.copymode(self.path, staging)
            staging.replace(self.path)
        finally:
            staging.unlink(missing_ok=True)
        with _folder(self.path) as folder:
            if folder is not None:
                os.fsync(folder)
        self.now = content

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other sessions from writing between a look at the file and its rename, where the system has locks."""
        with _folder(self.path) as folder:
            if folder is not None:
                with suppress(ImportError, OSError):
                    import fcntl

                    # ends with the descriptor, however this process ends
                    fcntl.flock(folder, fcntl.LOCK_EX)
            yield


def _text(path: Path) -> str:
    """The file's text, its line ends and byte-order mark as they are."""
    if not path.name.removesuffix(".gz").endswith((".yaml", ".yml", ".jsonl", ".json")):
        raise DataError(
            f"found {path.name!r}",
            field="golden_file",
            allowed="a golden file that ends in .yaml, .yml or .jsonl (and perhaps .gz)",
        )
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte {error.object[error.start]:#x} is not UTF-8",
            file=path,
            allowed="files must be UTF-8",
        ) from error
    except (FileNotFoundError, IsADirectoryError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"can't be read: {error.args[-1] if error.args else error}", file=path
        ) from error


def _kept(path: Path) -> Path:
    """A copy of the file beside it, under the first free of .bak, .bak2, .bak3, ....

    No backup is ever written over.
    """
    number = 1
    while True:
        copy = path.with_name(f"{path.name}.bak{number if number > 1 else ''}")
        if not copy.exists():
            shutil.copy2(path, copy)
            return copy
        if copy.read_bytes() == path.read_bytes():
            return copy
        number += 1


@contextmanager
def _folder(path: Path) -> Iterator[Any]:
    """The descriptor of the file's folder; None where folders can't be opened."""
    try:
        descriptor = os.open(path.parent, os.O_RDONLY)
    except OSError:
        descriptor = None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)
