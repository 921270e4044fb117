"""What was answered so far, one line each on disk before the next is asked for, so that a run that was killed goes on where it was.

What a run was made with.

Its id and time, settings, what the system says of itself, code, libraries and machine. No secrets.
"""

import json
import os
import platform
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

from ragscore.analysis.harness_files import config_hash
from ragscore.frames.config import dumped, flat
from ragscore.frames.errors import DataError
from ragscore.io.output import json_line

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


LIBRARIES = (
    "ragscore",
    "pandas",
    "numpy",
    "pyarrow",
    "httpx",
    "tenacity",
    "openai",
    "bm25s",
    "onnxruntime",
    "torch",
    "transformers",
    "sentence-transformers",
)


def new_run_id(nanoseconds: int | None = None) -> str:
    """An id that sorts by time.

    `run_` and the 32 digits of a UUIDv7 (RFC 9562), its 12 bits after the milliseconds a finer
    time.
    """
    milliseconds, rest = divmod(time.time_ns() if nanoseconds is None else nanoseconds, 1_000_000)
    finer = rest * 4096 // 1_000_000
    value = milliseconds << 80 | 0x7 << 76 | finer << 64 | 0b10 << 62 | secrets.randbits(62)
    return f"run_{value:032x}"


def now() -> str:
    """The time in UTC, as `run.json` has it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def code_version() -> dict[str, Any]:
    """The commit of the working directory, and whether files differ from it.

    Nothing outside a repository.
    """
    commit = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no") if commit else None
    return ({"commit": commit} if commit else {}) | (
        {"uncommitted_changes": True} if changed else {}
    )


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def environment() -> dict[str, Any]:
    """Libraries that are installed, and the machine; nothing that names its owner."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"python": platform.python_version(), "libraries": found, "hardware": _hardware()}


def _hardware() -> dict[str, Any]:
    found: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "cpu": _cpu(),
    }
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found["memory_gb"] = round(
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1
        )
    return {name: value for name, value in found.items() if value}


def _cpu() -> str | None:
    """The processor's name, where the system tells it."""
    if sys.platform == "linux":
        try:
            with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123  # a file of the kernel
                return next(
                    (
                        line.partition(":")[2].strip()
                        for line in lines
                        if line.startswith("model name")
                    ),
                    None,
                )
        except OSError:
            return None
    return platform.processor() or None


class Reported:
    """What replies say of the system: each name's values in the order they came."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {}

    def add(self, config: dict[str, Any]) -> None:
        """What one reply said."""
        for name, value in config.items():
            self.values.setdefault(name, {})[dumped(value)] = value

    def merged(self, config: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """A config with what was reported, and what is odd about it.

        A value other than the one that was sent, or several.

        What clashes with the config stands apart under `reported`; of several values all are
        listed, by their text.
        """
        merged, apart, odd = dict(config), {}, []
        for name, found in self.values.items():
            several = [found[text] for text in sorted(found)]
            value = several[0] if len(several) == 1 else several
            if len(several) > 1:
                odd.append(f"replies differ in {name}: {_short(', '.join(sorted(found)))}")
            if name not in config:
                merged[name] = value
            elif dumped(config[name]) != dumped(value):
                apart[name] = value
                odd.append(
                    f"the system reports {name} {_short(dumped(value))} where"
                    f" {_short(dumped(config[name]))} was set"
                )
        return merged | ({"reported": apart} if apart else {}), odd


def description(header: dict[str, Any], reported: Reported) -> tuple[dict[str, Any], list[str]]:
    """The content of `run.json`, and what is odd about the run."""
    config, odd = reported.merged(header["config"])
    run = {name: value for name, value in header["run"].items() if value is not None}
    k = config.get("k")
    return {**run, "config": config, "config_hash": config_hash(config)} | (
        {"k": k} if isinstance(k, int) else {}
    ), odd


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:97] + "..."
