"""What was answered so far, one line each on disk before the next is asked for, so that a run that was killed goes on where it was."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ragscore.frames.config import dumped, flat
from ragscore.frames.errors import DataError
from ragscore.io.written import json_line

NAME = ".per_query.journal"


@dataclass
class Journal:
    """An open journal: how the run was begun, and the records that are in it, by query."""

    file: Path
    handle: BinaryIO
    header: dict[str, Any]
    done: dict[str, dict[str, Any]]

    def append(self, record: dict[str, Any]) -> None:
        """One more record, on disk when this returns."""
        write_line(self.handle, record)
        self.done[record["query_id"]] = record


def write_line(handle: BinaryIO, values: dict[str, Any]) -> None:
    """A line of JSON that has reached the disk."""
    handle.write((json_line(values) + "\n").encode())
    handle.flush()
    os.fsync(handle.fileno())


@contextmanager
def open_journal(folder: Path, header: dict[str, Any], fresh: bool = False) -> Iterator[Journal]:
    """The journal of a folder, begun with this header or gone on with.

    `header["asked"]` must be that of the journal.

    Raises
    ------
    DataError
        It was begun with other settings, another process writes it, or a line before the last isn't
        a record.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / NAME
    with file.open("a+b") as handle:
        _lock(handle, file)
        lines = [] if fresh else _whole_lines(handle, file)
        if not lines:
            handle.truncate(0)
            write_line(handle, header)
            sync_folder(folder)
            yield Journal(file, handle, header, {})
            return
        begun, records = lines[0], lines[1:]
        _check_same(begun["asked"], header["asked"], file)
        yield Journal(file, handle, begun, {record["query_id"]: record for record in records})


def sync_folder(folder: Path) -> None:
    """Names of files reach the disk with their folder; Windows has no such step."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _lock(handle: BinaryIO, file: Path) -> None:
    """Two collectors on one journal would ask everything twice.

    The lock ends with its process, however that ends.
    """
    try:
        import fcntl
    except ModuleNotFoundError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise DataError(
            "another process is collecting into this folder",
            file=file,
            allowed="wait for it, or another folder",
        ) from error


def _whole_lines(handle: BinaryIO, file: Path) -> list[dict[str, Any]]:
    """The lines of a journal; a last one that was torn is cut off the file."""
    handle.seek(0)
    found: list[dict[str, Any]] = []
    kept = 0
    lines = handle.read().splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        values = _values(line, "asked" if number == 1 else "query_id")
        if values is None and number < len(lines):
            raise DataError(
                "not a line of a journal",
                file=file,
                line=number,
                allowed="remove it, or begin anew with fresh=True (--fresh)",
            )
        if values is None:
            break
        found.append(values)
        kept += len(line)
    handle.truncate(kept)
    return found


def _values(line: bytes, key: str) -> dict[str, Any] | None:
    """The object of a line that is whole."""
    try:
        values = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return values if isinstance(values, dict) and key in values else None


def _check_same(begun: dict[str, Any], now: dict[str, Any], file: Path) -> None:
    one, other = flat(begun), flat(now)
    differing = [
        key
        for key in dict.fromkeys([*one, *other])
        if key not in one or key not in other or one[key] != other[key]
    ]
    if differing:
        parts = [f"{key} was {_shown(one, key)}, now {_shown(other, key)}" for key in differing[:5]]
        more = f" and {len(differing) - 5} more" if len(differing) > 5 else ""
        raise DataError(
            f"this run was begun with other settings: {'; '.join(parts)}{more}",
            file=file,
            allowed="the same settings, another folder, or fresh=True (--fresh)",
        )


def _shown(values: dict[str, Any], key: str) -> str:
    text = dumped(values[key]) if key in values else "not set"
    return text if len(text) <= 60 else text[:57] + "..."
