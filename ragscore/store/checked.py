"""Files that are what was written: sums of every block, kept apart and verified by every read.

`run.json` names each file with its size and a CRC-32 per block, and carries a
checksum of itself. In: a file by its entry there. Out: its bytes, or an error that names it.
"""

import hashlib
import io
import json
import re
import zlib
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import pyarrow as pa

from ragscore.frames.errors import DataError, name_list
from ragscore.io.file_content import check_regular
from ragscore.io.source import finite, json_fault, refuse_depth
from ragscore.store.places import Place, file_names, is_storage_error

# Whoever reads a few columns of a large file verifies the blocks that they lie in, and no others.
BLOCK = 2**16
# Smaller files are read and verified at once: that is faster than many reads.
READ_AT_ONCE = 2**20
# Of the bytes of run.json: two that differ never share it.
DIGEST_LENGTH = 16
_SEAL = re.compile(rb',\s*"checksum":\s*"([0-9a-f]{16})"\s*}\s*\Z')


AGAIN = "a sound copy of the file, or the run saved again with overwrite=True"


class GoneError(DataError):
    """A file of the store that is named, but is not there: the run may have been written anew."""


@dataclass(frozen=True)
class FileEntry:
    """A file as run.json names it: its size in bytes, and eight hex digits of CRC-32 per block."""

    name: str
    size: int
    crc32: str


class BlockSums:
    """The sums of the blocks of a file, as its bytes pass."""

    def __init__(self) -> None:
        self.size = 0
        self._done: list[str] = []
        self._sum = 0

    def add(self, data: memoryview) -> None:
        """Take the next bytes."""
        at = 0
        while at < len(data):
            piece = data[at : at + BLOCK - self.size % BLOCK]
            self._sum = zlib.crc32(piece, self._sum)
            at, self.size = at + len(piece), self.size + len(piece)
            if self.size % BLOCK == 0:
                self._done.append(f"{self._sum:08x}")
                self._sum = 0

    def entry(self, name: str) -> FileEntry:
        """Return the entry of the file, when all its bytes have passed."""
        last = [f"{self._sum:08x}"] if self.size % BLOCK else []
        return FileEntry(name, self.size, "".join([*self._done, *last]))


class SummingWriter(io.RawIOBase):
    """A binary file that sums what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.sums = BlockSums()
        self._file = file

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes, all of them or none."""
        view = memoryview(data).cast("B")
        self._file.write(view)
        self.sums.add(view)
        return len(view)


@dataclass(frozen=True)
class StoredFile:
    """A file that a run has by its entry.

    Attributes
    ----------
    folder
        Where it lies.
    entry
        Its name, size and sums.
    beside
        All files of the same run by kind, to tell what else is sound when this one is damaged.
    """

    folder: Place
    entry: FileEntry
    beside: dict[str, FileEntry]

    @property
    def place(self) -> Place:
        """The file."""
        return self.folder / self.entry.name

    def __str__(self) -> str:
        return str(self.place)

    def read_bytes(self) -> bytes:
        """Return the whole content, verified."""
        data = self._fetched(0, None)
        if self.entry.name.endswith(".json"):
            data = data.replace(b"\r\n", b"\n")  # a checkout of git may have changed line ends
        if self.first_damaged(data) is not None:
            raise self._damaged(data)
        return data

    def open(self) -> pa.NativeFile:
        """Open the file for arrow; whatever is read of it is verified.

        Raises
        ------
        DataError
            What is read isn't what was written. If the file is not there, it is a `GoneError`.
        """
        if self.entry.size <= READ_AT_ONCE:
            return pa.BufferReader(self.read_bytes())
        place, file = self.place, None
        if isinstance(place, Path):
            check_regular(place)
            try:
                file = place.open("rb")  # held open, so that it can be read even when swept
            except (FileNotFoundError, NotADirectoryError) as error:
                raise self._missing() from error
        return pa.PythonFile(_VerifiedReader(self, file), mode="r")

    def blocks(self, first: int, last: int, file: BinaryIO | None, sound: set[int]) -> bytes:
        """Return the blocks from `first` up to `last`, verified unless they are `sound`."""
        data = self._fetched(first * BLOCK, min(last * BLOCK, self.entry.size), file)
        is_whole = len(data) == min(last * BLOCK, self.entry.size) - first * BLOCK
        for number in range(first, last) if is_whole else ():
            at = (number - first) * BLOCK
            if number in sound:
                continue
            if not self._is_sound(number, memoryview(data)[at : at + BLOCK]):
                break
            sound.add(number)
        else:
            if is_whole:
                return data
        raise self._damaged(None)

    def first_damaged(self, data: bytes) -> int | None:
        """Return the number of the first block that isn't what was written; None if all are."""
        if len(data) != self.entry.size:
            return min(len(data), self.entry.size) // BLOCK
        view = memoryview(data)
        n_blocks = -(-len(data) // BLOCK)
        if len(self.entry.crc32) != 8 * n_blocks:
            return 0
        return next(
            (n for n in range(n_blocks) if not self._is_sound(n, view[n * BLOCK :][:BLOCK])), None
        )

    def _is_sound(self, number: int, block: memoryview) -> bool:
        return f"{zlib.crc32(block):08x}" == self.entry.crc32[8 * number : 8 * number + 8]

    def _fetched(self, start: int, end: int | None, file: BinaryIO | None = None) -> bytes:
        place = self.place
        try:
            if isinstance(place, Path):
                check_regular(place)
                with nullcontext(file) if file is not None else place.open("rb") as opened:
                    opened.seek(start)
                    return opened.read(-1 if end is None else end - start)
            return bytes(place.fs.cat_file(place.path, start=start or None, end=end))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._missing() from error
        except Exception as error:
            if not is_storage_error(error):
                raise
            raise DataError(
                f"could not be read ({error})", file=str(self), allowed="a sound copy of the file"
            ) from error

    def _missing(self) -> GoneError:
        """Return the error of a file that is named, but not there."""
        if any(one.endswith(".parquet") for one in file_names(self.folder)):
            return GoneError("the file is not there", file=str(self), allowed=AGAIN)
        return GoneError(
            "the file is not there, nor is any table of the run",
            file=str(self),
            allowed="the run's Parquet files, copied to this place, or the run saved again; without"
            " them store.runs(), store.metrics(), store.trend(metric) and store.evaluate(golden)"
            " read its means",
        )

    def _damaged(self, data: bytes | None) -> DataError:
        """Return the error of a damaged file; it says which other files of the run are sound."""
        whole = self._fetched(0, None) if data is None else data
        n_blocks = -(-self.entry.size // BLOCK)
        found = (
            f"{len(whole):,} bytes of {self.entry.size:,}"
            if len(whole) != self.entry.size
            else f"block {(self.first_damaged(whole) or 0) + 1} of {n_blocks} has changed"
        )
        sound = [
            kind
            for kind, entry in self.beside.items()
            if entry != self.entry and _is_whole(StoredFile(self.folder, entry, {}))
        ]
        others = f"; sound beside it: {name_list(sound)}" if len(self.beside) > 1 else ""
        return DataError(
            f"damaged since it was written: {found}{others}",
            file=str(self),
            allowed=AGAIN,
        )


class _VerifiedReader(io.RawIOBase):
    """A file of which whole blocks are read, and verified before anything of them is given out."""

    def __init__(self, stored: StoredFile, file: BinaryIO | None) -> None:
        self._stored, self._file, self._at, self._lock = stored, file, 0, Lock()
        self._sound = set[int]()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        super().close()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place from the start, from here, or from the end."""
        self._at = (0, self._at, self._stored.entry.size)[whence] + offset
        return self._at

    def read(self, n: int = -1) -> Any:
        """Return the next bytes, verified."""
        size = self._stored.entry.size
        with self._lock:
            end = size if n < 0 else min(self._at + n, size)
            first, start = self._at // BLOCK, self._at
            self._at = max(end, start)
            if end <= start:
                return b""
            data = self._stored.blocks(first, -(-end // BLOCK), self._file, self._sound)
        return memoryview(data)[start - first * BLOCK : end - first * BLOCK]


def _is_whole(stored: StoredFile) -> bool:
    try:
        stored.read_bytes()
    except DataError:
        return False
    return True


def entries_of(content: dict[str, Any]) -> dict[str, FileEntry]:
    """Return the files that run.json names, by kind; its content was checked before."""
    return {
        kind: FileEntry(entry["name"], entry["size"], entry["crc32"])
        for kind, entry in content["ragscore"]["files"].items()
    }


def described_files(entries: dict[str, FileEntry]) -> dict[str, Any]:
    """Return entries as run.json holds them."""
    return {kind: asdict(entry) for kind, entry in entries.items()}


def json_bytes(content: dict[str, Any], indent: int | None = 1) -> bytes:
    """Return a JSON object as the content of a file; NaN is refused, JSON has none."""
    separators = (",", ":") if indent is None else None
    dumps = partial(json.dumps, content, indent=indent, separators=separators, allow_nan=False)
    try:
        return f"{dumps(ensure_ascii=False)}\n".encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can carry
        return f"{dumps()}\n".encode()


def sealed(content: dict[str, Any], indent: int | None = 1) -> bytes:
    """Return a JSON object with a checksum of itself as its last key."""
    head = json_bytes(content, indent).rstrip()[:-1].rstrip()
    checksum = hashlib.sha256(head).hexdigest()[:DIGEST_LENGTH]
    return head + f',\n "checksum": "{checksum}"\n}}\n'.encode()


def unsealed(written: bytes, file: Place | str) -> dict[str, Any]:
    """Return the JSON object that `sealed` wrote.

    Raises
    ------
    DataError
        It isn't what was written.
    """
    written = written.replace(b"\r\n", b"\n")
    seal = _SEAL.search(written)
    head = written[: seal.start()] if seal is not None else b""
    if seal is None:
        raise DataError(
            "without its checksum, so not as a store writes it",
            file=str(file),
            allowed="runs that a store saved; rs.load_results reads the files of other tools",
        )
    if hashlib.sha256(head).hexdigest()[:DIGEST_LENGTH].encode() != seal[1]:
        raise DataError(
            "damaged since it was written, or changed by hand: it doesn't agree with its checksum",
            file=str(file),
            allowed=f"{AGAIN}; move its folder away to go on with the others, which are not"
            " affected",
        )
    return json_object(head + b"}", file)


def json_object(written: bytes, file: Place | str) -> dict[str, Any]:
    """Parse the content of a file, which must be a JSON object."""
    try:
        text = written.decode("utf-8")
        refuse_depth(text)
        content = json.loads(text, parse_float=finite, parse_constant=finite)
    except (ValueError, RecursionError) as error:
        raise DataError(**json_fault(error), file=str(file)) from error
    if not isinstance(content, dict):
        raise DataError("not a JSON object", file=str(file))
    if "\\ud" in text.lower():  # half of a pair is no text: nothing could write it again
        try:
            json.dumps(content, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(
                f"holds {error.object[error.start]!r}, half of a character",
                file=str(file),
                allowed="text that UTF-8 can write",
            ) from error
    return content


def digest_of(written: bytes | None) -> str | None:
    """Return what tells versions of run.json apart; None if there is none."""
    return None if written is None else hashlib.sha256(written).hexdigest()[:DIGEST_LENGTH]
