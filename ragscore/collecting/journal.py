"""The journal of an unfinished run, and the snapshot of what a run was made with.

The journal holds one line per record. Each line is on disk before the worker asks its next query,
so a killed run can be resumed. The snapshot goes into `run.json`: id, time, settings, the config
that replies report, code, libraries and machine. It holds no secrets.
"""

import json
import os
import platform
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, BinaryIO

from ragscore.analysis.extras.harness_files import config_hash
from ragscore.frames.config import dumped, flat
from ragscore.frames.errors import DataError, plural
from ragscore.io.files import json_line, sync_folder

JOURNAL_NAME, RUN_NAME = ".per_query.journal", "per_query.jsonl"
LIBRARIES = (
    "ragscore", "pandas", "numpy", "pyarrow", "httpx", "openai", "bm25s",
    "onnxruntime", "torch", "transformers", "sentence-transformers",
)  # fmt: skip


@dataclass
class Journal:
    """An open journal: the run's header, and the records so far by query."""

    file: Path
    handle: BinaryIO
    header: dict[str, Any]
    done: dict[str, dict[str, Any]]

    def append(self, record: dict[str, Any]) -> None:
        """Add a record; it is on disk when this returns.

        Raises
        ------
        DataError
            The disk is full or the like, now or at an earlier record.
        """
        try:
            write_line(self.handle, record)
        except OSError as error:
            raise _unwritable(self.file, error, len(self.done)) from error
        self.done[record["query_id"]] = record


def write_line(handle: BinaryIO, values: dict[str, Any]) -> None:
    """Write a line of JSON and wait until it is on disk.

    A line that can't be written whole is taken back, and the file is closed: no other may follow.
    """
    line = (json_line(values) + "\n").encode()
    size = os.fstat(handle.fileno()).st_size
    try:
        if (n := handle.write(line)) < len(line):
            raise OSError(f"only {n} of {len(line)} bytes could be written")
        os.fsync(handle.fileno())
    except OSError:
        with suppress(OSError), handle:
            handle.truncate(size)
        raise


def _unwritable(file: Path, error: OSError, n_answers: int = 0) -> DataError:
    return DataError(
        f"can't be written ({error.strerror or error})",
        file=file,
        allowed=f"the {plural(n_answers, 'answer')} that it holds are kept; the same call resumes"
        " the run once the disk can be written to"
        if n_answers
        else "a folder that can be written to; nothing was asked",
    )


@contextmanager
def open_journal(folder: Path, header: dict[str, Any], fresh: bool = False) -> Iterator[Journal]:
    """Open a folder's journal, or begin one with this header.

    An existing journal keeps its own header. `header["asked"]` must be the same.

    Raises
    ------
    DataError
        The journal was begun with other settings, another process is writing it, a line before
        the last is not a record, the folder can't be written to, or it holds a finished run.
    """
    file = folder / JOURNAL_NAME
    with _locked(file) as handle:
        lines = [] if fresh else _complete_lines(handle, file)
        if not lines:
            if (folder / RUN_NAME).exists() and not fresh:
                file.unlink()
                refuse_finished(folder)
            try:
                handle.truncate(0)
                write_line(handle, header)
                sync_folder(folder)
            except OSError as error:
                raise _unwritable(file, error) from error
        first, *records = lines or [header]
        _check_same(first["asked"], header["asked"], file)
        yield Journal(file, handle, first, {record["query_id"]: record for record in records})


def refuse_finished(folder: Path) -> None:
    """Raise a DataError if the folder holds a complete run."""
    if (folder / RUN_NAME).exists() and not (folder / JOURNAL_NAME).exists():
        raise DataError(
            "a finished run is there",
            file=folder / RUN_NAME,
            allowed="another folder, or fresh=True (--fresh), which replaces it",
        )


def _locked(file: Path) -> BinaryIO:
    """Open and lock the journal, because two collectors on one would ask everything twice.

    The system frees the lock when the process ends in any way; Windows has no such lock. The file
    isn't buffered, so that nothing is written later than it seems.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = file.open("a+b", buffering=0)
    except OSError as error:
        raise _unwritable(file, error) from error
    try:
        with suppress(ModuleNotFoundError):
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle.fileno()), file.stat()):
            return handle
    except OSError:  # locked by another collector, or removed as it ended its run just now
        pass
    handle.close()
    raise DataError(
        "another process is collecting into this folder",
        file=file,
        allowed="wait for it, or another folder",
    )


def _complete_lines(handle: BinaryIO, file: Path) -> list[dict[str, Any]]:
    """Return the lines of a journal; an incomplete last line is cut off the file."""
    handle.seek(0)
    complete: list[dict[str, Any]] = []
    lines = handle.read().splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        values = None
        with suppress(ValueError):
            values = json.loads(line) if line.endswith(b"\n") else None
        if isinstance(values, dict) and ("asked" if number == 1 else "query_id") in values:
            complete.append(values)
        elif number < len(lines):
            raise DataError(
                "not a line of a journal",
                file=file,
                line=number,
                allowed="remove it, or begin anew with fresh=True (--fresh)",
            )
    handle.truncate(sum(map(len, lines[: len(complete)])))
    return complete


def _check_same(begun: dict[str, Any], now: dict[str, Any], file: Path) -> None:
    """Raise a DataError that lists how the settings of two calls differ, if they do."""
    before, after = (
        {key: dumped(value) for key, value in flat(one).items()} for one in (begun, now)
    )
    changes = [
        f"{key} was {_shortened(before.get(key, 'not set'), 60)},"
        f" now {_shortened(after.get(key, 'not set'), 60)}"
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    ]
    if changes:
        more = f" and {len(changes) - 5} more" if len(changes) > 5 else ""
        raise DataError(
            f"this run was begun with other settings: {'; '.join(changes[:5])}{more}",
            file=file,
            allowed="the same settings, another folder, or fresh=True (--fresh)",
        )


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def new_run_id() -> str:
    """Return a new id that sorts by time."""
    return f"run_{datetime.now(UTC):%Y%m%dT%H%M%S%f}_{secrets.token_hex(4)}"


def code_version() -> dict[str, Any]:
    """Return the commit of the working directory, and a flag if files differ from it.

    Empty outside a repository.
    """
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True, text=True, timeout=10, check=True, stdin=subprocess.DEVNULL,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return {}
    commit = found.removesuffix("-dirty")
    return {"commit": commit} | ({"uncommitted_changes": True} if found != commit else {})


def environment() -> dict[str, Any]:
    """Return installed libraries and the machine, without anything that names its owner."""
    hardware = {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "cpu": platform.processor(),
    }
    return {
        "python": platform.python_version(),
        "libraries": {one.name: one.version for one in distributions() if one.name in LIBRARIES},
        "hardware": {name: value for name, value in hardware.items() if value},
    }


def run_description(
    header: dict[str, Any], reported: list[dict[str, Any]]
) -> tuple[dict[str, Any], set[str], list[str]]:
    """Return the content of `run.json`, the names whose values differ, and warnings.

    The config in `run.json` gains what the replies report. A value that contradicts a setting
    stands apart, under the config's `reported`. If replies differ, all values are listed, sorted by
    their JSON.

    Parameters
    ----------
    header
        The journal's header.
    reported
        The config that each reply reports.
    """
    was, config, notes, contradicting = header["config"], dict(header["config"]), [], {}
    values: dict[str, dict[str, Any]] = {}
    for name, value in (pair for one in reported for pair in one.items()):
        values.setdefault(name, {})[dumped(value)] = value
    differing = {name for name, by_text in values.items() if len(by_text) > 1}
    for name, by_text in values.items():
        listed = [by_text[text] for text in sorted(by_text)]
        value = listed if name in differing else listed[0]
        if name in differing:
            notes.append(f"replies differ in {name}: {_shortened(', '.join(sorted(by_text)), 100)}")
        if name in was and dumped(was[name]) != dumped(value):
            contradicting[name] = value
            told, sent = (_shortened(dumped(one), 100) for one in (value, was[name]))
            notes.append(f"the system reports {name} {told} where {sent} was set")
        config.setdefault(name, value)
    if contradicting:
        config["reported"] = contradicting
    run = {name: value for name, value in header["run"].items() if value is not None}
    run |= {"config": config, "config_hash": config_hash(config)}
    run |= {"k": config["k"]} if isinstance(config.get("k"), int) else {}
    return run, differing, notes
