"""Bytes and text of a file, plain or gzip, within limits in proportion to its size.

Every reader opens its files here, so no file takes memory out of proportion to what it is on disk.
`size_limit` sets the limit for all files that one load opens, sidecars among them.
"""

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, BinaryIO

from ragscore.frames.errors import DataError, excerpt

MAX_BYTES = 1 << 26
"""The longest line, and what any compressed file may unpack to, however small it is."""
RATIO = 100
"""How many times its size a larger file may unpack to. JSON lines of runs unpack to 10 to 60."""
LONGEST_ID = 1 << 16
"""The longest id or run tag. It stands in each row of its query or run, and in every message."""
LIFT = "unpack it first, or load it with max_bytes=None"
# A context and no argument: a limit holds for whatever a load opens, through twenty readers.
_LIMIT: ContextVar[int | None] = ContextVar("max_bytes", default=MAX_BYTES)


@contextmanager
def size_limit(max_bytes: int | None) -> Iterator[None]:
    """Limit what files unpack to, and their longest line; None lifts these and all other limits.

    Raises
    ------
    DataError
        `max_bytes` is no whole number from 1.
    """
    if max_bytes is not None and not (type(max_bytes) is int and max_bytes > 0):
        allowed = "a whole number from 1, or None"
        raise DataError(f"found {excerpt(max_bytes)}", field="max_bytes", allowed=allowed)
    token = _LIMIT.set(max_bytes)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def has_limits() -> bool:
    """Return False within `size_limit(None)`."""
    return _LIMIT.get() is not None


def most_bytes(size: int, ratio: int = RATIO) -> int | None:
    """Return what a compressed file of this size may unpack to; None within `size_limit(None)`."""
    limit = _LIMIT.get()
    return None if limit is None else max(limit, ratio * size)


def is_too_long(name: str) -> bool:
    """Return True for text that no id may be as long as."""
    return len(name) > LONGEST_ID and has_limits()


@contextmanager
def open_bytes(path: Path) -> Iterator[tuple[IO[bytes], BinaryIO]]:
    """Open a file and yield its unpacked content, and the file itself, whose `tell` is progress.

    Raises
    ------
    DataError
        The file can't be read, or unpacks to more than it may.
    """
    check_regular(path)
    try:
        with path.open("rb") as raw:
            if path.suffix != ".gz":
                yield raw, raw
            else:
                with gzip.open(raw) as unpacked:
                    yield io.BufferedReader(_Unpacked(unpacked, path), 1 << 20), raw
    except (OSError, EOFError, zlib.error) as error:
        told = error.args[-1] if error.args else error
        raise DataError(f"can't be read: {told}", file=path) from error


def check_regular(path: Path) -> None:
    """Refuse what is no file: a pipe would be waited for, and a device may never end.

    Raises
    ------
    DataError
        It says what is there instead. What isn't there at all passes.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
        found = "is a folder" if path.is_dir() else "is a pipe, a device or the like"
        raise DataError(found, file=path, allowed="a file, which can be read")


class _Unpacked(io.RawIOBase):
    """The content of a compressed file, which ends in an error where there is too much of it."""

    def __init__(self, unpacked: gzip.GzipFile, path: Path) -> None:
        self.unpacked, self.path, self.n_bytes = unpacked, path, 0
        self.most = most_bytes(path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        n = self.unpacked.readinto(buffer)
        self.n_bytes += n
        if self.most is not None and self.n_bytes > self.most:
            raise DataError(
                f"{self.path.stat().st_size:,} bytes unpack to more than {self.most:,}",
                file=self.path,
                allowed=f"up to {RATIO} times the size of the file; {LIFT}",
            )
        return n


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, unpacked if it ends in .gz."""
    with open_bytes(path) as (opened, _):
        return opened.read()


def read_text(path: Path) -> str:
    """Return the text of a file: UTF-8, gzip if it ends in .gz, without a byte-order mark.

    Lines that end in a carriage return alone end in a line feed instead.

    Raises
    ------
    DataError
        The file can't be read, or a byte of it isn't UTF-8 (the error names its line).
    """
    return "\n".join(lines_of(read_bytes(path), path, 1))


def not_text(path: Path, error: UnicodeDecodeError, line: int | None) -> DataError:
    """Return the error of a file that isn't UTF-8."""
    return DataError(
        f"byte {error.object[error.start]:#x} is not UTF-8",
        file=path,
        line=line,
        allowed="files must be UTF-8",
    )


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file of any size.

    Raises
    ------
    DataError
        As `read_text`; or a line is too long.
    """
    for begin, block in line_blocks(path):
        lines = lines_of(block, path, begin)
        yield from lines[:-1] if block.endswith(b"\n") else lines


BLOCK_BYTES = 1 << 23


def line_blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield a file of any size in blocks of whole lines, each with the number of its first line.

    Raises
    ------
    DataError
        The file can't be read, or a line is too long.
    """
    with open_bytes(path) as (opened, _):
        rest, begin = b"", 1
        while data := opened.read(BLOCK_BYTES):
            cut = data.rfind(b"\n") + 1
            if not cut:
                rest += data
                check_line(len(rest), path, begin)
                continue
            block, rest = rest + data[:cut], data[cut:]
            yield begin, block
            begin += block.count(b"\n")
        if rest:
            yield begin, rest


def lines_of(block: bytes, path: Path, begin: int) -> list[str]:
    """Return the lines of a block as text.

    Raises
    ------
    DataError
        A byte of it isn't UTF-8.
    """
    try:
        text = block.decode("utf-8-sig" if begin == 1 else "utf-8")
    except UnicodeDecodeError as error:
        line = begin + block.count(b"\n", 0, error.start)
        raise not_text(path, error, line) from error
    # lines that end in a carriage return alone, as `read_text` has them
    return text.split("\n" if "\n" in text else "\r")


def check_line(length: int, path: Path | str, number: int) -> None:
    """Refuse a line that is longer than the limit.

    Raises
    ------
    DataError
        It names the line.
    """
    limit = _LIMIT.get()
    if limit is not None and length > limit:
        raise DataError(
            f"a line of more than {limit:,} bytes",
            file=path,
            line=number,
            allowed="shorter lines, or load it with max_bytes=None",
        )
