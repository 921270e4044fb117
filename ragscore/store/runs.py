"""The runs of a store, and the one way a run changes.

A run is a folder of files that are written once. `run-0001.json` says what the run is, how it was
scored, its means, and which files it has, each with its size and CRC-32. A writer writes new files,
then puts the next number in place, which fails if somebody else did: a crash leaves the old run or
the new one, and two writers never mix. The highest number counts; what it doesn't name goes.
"""

import hashlib
import json
import re
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from ragscore.frames.errors import DataError
from ragscore.io.run_file import run_record
from ragscore.store.place import STAGING, Disk, Place, Stamp

RUN_FILE = re.compile(r"run-(\d{4,})\.json")
FILE_NAME = re.compile(r"[a-z_]+-[0-9a-f]{12}\.parquet")
KEPT_FOR_WRITERS = 24 * 3600  # seconds from a writer's first look to the step that names its files
ATTEMPTS = 10  # at reading a run that others keep rewriting
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9]) *(\..*)?", re.IGNORECASE)
AGAIN = "a sound copy of the file, or the run saved again with overwrite=True"


class GoneError(DataError):
    """A file that a run names is not there: the run may have been rewritten."""


@dataclass(frozen=True)
class FileEntry:
    """A file as its run names it; `filled` are its columns that hold a value."""

    name: str
    size: int
    crc32: int
    n_rows: int
    filled: list[str]


Files = dict[str, list[FileEntry | None]]  # of each kind of table, one per part; None: no row there


@dataclass(frozen=True)
class StoredRun:
    """A run by its `run-….json`: its folder, the number, and the content."""

    place: Place
    folder: str
    number: int
    content: dict[str, Any]

    @cached_property
    def files(self) -> Files:
        """The files of the run."""
        return {
            kind: [None if one is None else FileEntry(**one) for one in entries]
            for kind, entries in self.content["files"].items()
        }

    @property
    def run_id(self) -> str:
        """The run's id, whatever its folder is called."""
        return str(self.content["run_id"])

    @property
    def n_parts(self) -> int:
        """The number of its parts: ranges of its queries, of which each has files of its own."""
        return len(self.files["responses"])

    @property
    def scoring(self) -> dict[str, Any]:
        """What made its scores; empty for a run without scores."""
        return self.content.get("scoring") or {}

    @cached_property
    def record(self) -> dict[str, Any]:
        """Its row of the runs frame."""
        made = {name: one for name, one in self.scoring.items() if name == "golden_hash"}
        return run_record(self.content["run"] | made, self.place.where(self.folder))

    def n_rows(self, kind: str) -> int:
        """Return the number of rows of a table."""
        return sum(one.n_rows for one in self.files.get(kind, []) if one is not None)

    def filled(self, kind: str) -> set[str]:
        """Return the columns of a table that hold a value."""
        return {name for one in self.files.get(kind, []) if one is not None for name in one.filled}

    def read(self, entry: FileEntry) -> bytes:
        """Return the content of one of its files, as it was written."""
        file = f"{self.folder}/{entry.name}"
        try:
            data: bytes = self.place.read(file)
        except FileNotFoundError as error:
            where = self.place.where(file)
            raise GoneError("the file is not there", file=where, allowed=AGAIN) from error
        if len(data) != entry.size or zlib.crc32(data) != entry.crc32:
            found = f"{len(data):,} bytes of {entry.size:,}" * (len(data) != entry.size)
            raise DataError(
                f"damaged since it was written: {found or 'its checksum differs'}",
                file=self.place.where(file),
                allowed=AGAIN,
            )
        return data


def _checksum(content: dict[str, Any]) -> str:
    plain = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def sealed(content: dict[str, Any]) -> bytes:
    """Return a run's description as the content of its file, with a checksum of what it says."""
    try:
        plain = json.loads(json.dumps(content, allow_nan=False))
        return _laid_out(plain | {"checksum": _checksum(plain)}, 2).encode()
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"the run's description can't be written as JSON ({error})",
            field="config",
            allowed="finite numbers, text, true, false and null",
        ) from error


def _laid_out(value: Any, depth: int) -> str:
    """Return JSON with a line for each field, and for each of a field's own: a mean, a table."""
    if not depth or not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False)
    fields = [f"{json.dumps(name)}: {_laid_out(one, depth - 1)}" for name, one in value.items()]
    return "{\n" + ",\n".join(fields) + "\n}"


def unsealed(written: bytes, file: str) -> dict[str, Any]:
    """Return what `sealed` wrote, however it is laid out."""
    try:
        content = json.loads(written)
        checksum = content.pop("checksum")
        names = [one["name"] for kind in content["files"].values() for one in kind if one]
        is_sound = checksum == _checksum(content) and all(map(FILE_NAME.fullmatch, names))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"not as a store writes it ({error})", file=file, allowed=AGAIN) from error
    if not is_sound:
        raise DataError(
            "damaged since it was written, or changed by hand",
            file=file,
            allowed=f"{AGAIN}; move its folder away to go on with the others",
        )
    return content


def folder_of(run_id: str) -> str:
    """Return the folder of a run: its id, with what some file system can't have as in a URL."""
    name = quote(run_id, safe=" +@=,()[]!~")
    if len(name) > 150:
        name = f"{name[:130]}~{hashlib.sha256(run_id.encode()).hexdigest()[:16]}"
    if name[-1:] in (".", " "):
        name = f"{name[:-1]}%{ord(name[-1]):02X}"
    if name.startswith(".") or _RESERVED.fullmatch(name):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    return name


Seen = dict[str, tuple[Stamp, StoredRun]]


def newest_of(files: dict[str, Stamp], folder: str = "") -> dict[str, tuple[int, Stamp]]:
    """Return the highest number of each run's folder, with the stamp of that file."""
    newest: dict[str, tuple[int, Stamp]] = {}
    for file, stamp in files.items():
        own, _, name = f"{folder}/{file}".strip("/").rpartition("/")
        number = RUN_FILE.fullmatch(name)
        if number and own and int(number[1]) > newest.get(own, (0,))[0]:
            newest[own] = int(number[1]), stamp
    return newest


def stored_runs(place: Place, seen: Seen | None = None) -> Seen:
    """Return the runs that a store holds now, by run id; what was `seen` is not read again."""
    known = {run.folder: (stamp, run) for stamp, run in (seen or {}).values()}
    for _ in range(ATTEMPTS):  # between listing and reading, a run may be rewritten
        newest = newest_of(place.files())
        with suppress(FileNotFoundError):
            found = [
                known[own]
                if own in known and (known[own][1].number, known[own][0]) == (number, stamp)
                else (stamp, read_run(place, own, number))
                for own, (number, stamp) in sorted(newest.items())
            ]
            return {run.run_id: (stamp, run) for stamp, run in found}
    raise DataError("its runs change faster than they are read", file=place.where(""))


def read_run(place: Place, folder: str, number: int) -> StoredRun:
    """Read the `run-….json` of this number."""
    file = f"{folder}/run-{number:04}.json"
    run = StoredRun(place, folder, number, unsealed(place.read(file), place.where(file)))
    if folder_of(run.run_id) != folder:
        raise DataError(
            f"found {run.run_id!r}, whose folder is {folder_of(run.run_id)}",
            file=place.where(file),
            field="run_id",
            allowed="one folder per run; for a copy under another name, load the run, rename it and"
            " save it",
        )
    return run


def run_before(place: Place, run_id: str) -> StoredRun | None:
    """Return the run that a new one would replace; of a damaged one, its number alone."""
    folder = folder_of(run_id)
    for own, (number, _) in newest_of(place.files(folder), folder).items():
        try:
            return read_run(place, own, number)
        except (DataError, FileNotFoundError):
            return StoredRun(place, folder, number, {"run_id": run_id, "files": {}})
    return None


class Draft:
    """The files of a run while they are written: nobody sees them before `put_run` names them."""

    def __init__(self, place: Place, run_id: str) -> None:
        self.place, self.run_id, self.folder = place, run_id, folder_of(run_id)
        self.files: Files = {}

    def add(self, kind: str, data: Any, n_rows: int, filled: list[str]) -> None:
        """Write the file of the next part of a table."""
        name = f"{kind}-{uuid4().hex[:12]}.parquet"
        self.place.write(f"{self.folder}/{name}", data)
        entry = FileEntry(name, len(memoryview(data)), zlib.crc32(data), n_rows, filled)
        self.files.setdefault(kind, []).append(entry)

    def as_run(self, content: dict[str, Any], kept: Files | None = None) -> StoredRun:
        """Return the run of these files and of those kept, with what else its file is to say."""
        files = (kept or {}) | self.files
        plain = {kind: [one and asdict(one) for one in own] for kind, own in files.items()}
        return StoredRun(
            self.place, self.folder, 0, content | {"run_id": self.run_id, "files": plain}
        )

    def discard(self) -> None:
        """Remove what was written."""
        for entry in [one for entries in self.files.values() for one in entries if one]:
            with suppress(Exception):
                self.place.remove(f"{self.folder}/{entry.name}")


def put_run(
    place: Place,
    run_id: str,
    write: Callable[[Draft], dict[str, Any]],
    before: StoredRun | None,
    *,
    keep: bool = False,
) -> None:
    """Bring the next state of a run into the store, whole or not at all.

    `write` writes files into a draft and returns what else the run's file says. With `keep`, the
    files of `before` that aren't replaced belong to the run, too.

    Raises
    ------
    DataError
        Somebody else was first; the store is as they left it.
    """
    draft, number = Draft(place, run_id), 1 if before is None else before.number + 1
    try:
        content = write(draft)
        first = before.content.get("saved_at") if before else None
        kept = before.files if keep and before else None
        run = draft.as_run(content | {"saved_at": first or time.time()}, kept)
        written = sealed(run.content)
    except BaseException:
        draft.discard()
        raise
    name = f"run-{number:04}.json"
    try:
        place.put_new(f"{draft.folder}/{name}", written)
    except FileExistsError as error:
        draft.discard()
        raise DataError(
            f"{run_id} was saved by another writer meanwhile, and that one stays",
            file=place.where(draft.folder),
            field="run_id",
            allowed="the same again, from what is stored now, or another run id",
        ) from error
    except Exception:
        # elsewhere what was sent may still arrive
        if isinstance(place, Disk) and name not in place.files(draft.folder):
            draft.discard()
        raise
    _sweep(place, run, number, before)


def _sweep(place: Place, run: StoredRun, number: int, before: StoredRun | None) -> None:
    """Remove files of the state before, and what is older than any writer; what can't go stays.

    Earlier numbers stay for a day: a slow writer who puts one in place again gets an error.
    """

    def names(one: StoredRun | None) -> set[str]:
        return {file.name for own in (one.files if one else {}).values() for file in own if file}

    named, old = names(run), names(before)
    with suppress(Exception):
        for name, stamp in place.files(run.folder).items():
            version = RUN_FILE.fullmatch(name)
            is_ours = FILE_NAME.fullmatch(name) or name.startswith(STAGING)
            is_late = stamp.time is not None and time.time() - stamp.time > KEPT_FOR_WRITERS
            is_past = is_late and version and int(version[1]) < number
            if is_past or (is_ours and name not in named and (name in old or is_late)):
                place.remove(f"{run.folder}/{name}")
