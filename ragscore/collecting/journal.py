"""The journal of an unfinished run, and the snapshot of what a run was made with.

The journal is an SQLite file with one row per record. Each is on disk before the worker asks its
next query, so a killed run can be resumed. The snapshot goes into `run.json`: id, time, settings,
the config that replies report, code, libraries and machine. It holds no secrets.
"""

import json
import os
import platform
import secrets
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from ragscore.analysis.extras.harness_files import config_hash
from ragscore.frames.errors import DataError, plural
from ragscore.frames.kinds import dumped, flat
from ragscore.io.files import json_line

JOURNAL_NAME, RUN_NAME = ".per_query.journal", "per_query.jsonl"
LIBRARIES = (
    "ragscore", "pandas", "numpy", "pyarrow", "httpx", "openai", "bm25s",
    "onnxruntime", "torch", "transformers", "sentence-transformers",
)  # fmt: skip
_HEADER = ""  # in place of the query of the first row


@dataclass
class Journal:
    """An open journal: the run's header, and the records so far by query."""

    file: Path
    rows: sqlite3.Connection
    header: dict[str, Any]
    done: dict[str, dict[str, Any]]

    def append(self, record: dict[str, Any]) -> None:
        """Add a record; it is on disk when this returns.

        Raises
        ------
        DataError
            The disk is full or the like.
        """
        with _named_error(self.file, len(self.done)):
            row = [record["query_id"], json_line(record)]
            self.rows.execute("insert into lines values (?, ?)", row)
        self.done[record["query_id"]] = record


@contextmanager
def _named_error(file: Path, n_answers: int = 0) -> Iterator[None]:
    """Turn an error of the journal into a `DataError` that says what is kept."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        found, allowed = f"can't be written ({error})", "a folder that can be written to"
        if n_answers:
            kept = f"the {plural(n_answers, 'answer')} that it holds are kept"
            allowed = f"{kept}; the same call resumes the run once the disk can be written to"
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            found = "another process is collecting into this folder"
            allowed = "wait for it, or another folder"
        raise DataError(found, file=file, allowed=allowed) from error


@contextmanager
def open_journal(folder: Path, header: dict[str, Any], fresh: bool = False) -> Iterator[Journal]:
    """Open a folder's journal, or begin one with this header.

    An existing journal keeps its own header. `header["asked"]` must be the same. No other process
    can open it meanwhile: two collectors on one would ask everything twice.

    Raises
    ------
    DataError
        The journal was begun with other settings, another process has it open, the folder can't be
        written to, or it holds a finished run.
    """
    file = folder / JOURNAL_NAME
    with _named_error(file):
        folder.mkdir(parents=True, exist_ok=True)
        rows = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
    with closing(rows):
        with _named_error(file):
            rows.execute("pragma locking_mode = exclusive")  # until it is closed
            rows.execute("begin exclusive")
            rows.execute("create table if not exists lines (query_id text primary key, line text)")
            if fresh:
                rows.execute("delete from lines")
            lines = {one: json.loads(line) for one, line in rows.execute("select * from lines")}
            if not lines and not fresh and (folder / RUN_NAME).exists():
                file.unlink()  # the run was finished as this one began
                refuse_finished(folder)
            if not lines:
                rows.execute("insert into lines values (?, ?)", [_HEADER, json_line(header)])
            rows.execute("commit")
        first = lines.pop(_HEADER, header)
        _check_same(first["asked"], header["asked"], file)
        yield Journal(file, rows, first, lines)


def refuse_finished(folder: Path) -> None:
    """Raise a DataError if the folder holds a complete run."""
    if (folder / RUN_NAME).exists() and not (folder / JOURNAL_NAME).exists():
        raise DataError(
            "a finished run is there",
            file=folder / RUN_NAME,
            allowed="another folder, or fresh=True (--fresh), which replaces it",
        )


def _check_same(begun: dict[str, Any], now: dict[str, Any], file: Path) -> None:
    """Raise a DataError that lists how the settings of two calls differ, if they do."""
    before, after = (
        {key: dumped(value) for key, value in flat(one).items()} for one in (begun, now)
    )
    changes = [
        f"{key} was {_shown(before.get(key), 60)}, now {_shown(after.get(key), 60)}"
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


def _shown(text: str | None, length: int) -> str:
    found = "not set" if text is None else text
    return found if len(found) <= length else found[: length - 3] + "..."


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


@cache
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
) -> tuple[dict[str, Any], list[str]]:
    """Return the content of `run.json`, and warnings.

    The config in `run.json` gains what the replies report. A value that contradicts a setting
    is kept apart, under the config's `reported`. If replies differ, all values are listed, sorted
    by their JSON.

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
    for name, by_text in values.items():
        listed = [by_text[text] for text in sorted(by_text)]
        value = listed if len(listed) > 1 else listed[0]
        if len(listed) > 1:
            notes.append(f"replies differ in {name}: {_shown(', '.join(sorted(by_text)), 100)}")
        if name in was and dumped(was[name]) != dumped(value):
            contradicting[name] = value
            seen, sent = (_shown(dumped(one), 100) for one in (value, was[name]))
            notes.append(f"the system reports {name} {seen} where {sent} was set")
        config.setdefault(name, value)
    if contradicting:
        config["reported"] = contradicting
    run = {name: value for name, value in header["run"].items() if value is not None}
    run |= {"config": config, "config_hash": config_hash(config)}
    return run | ({"k": config["k"]} if isinstance(config.get("k"), int) else {}), notes
