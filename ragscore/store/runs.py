"""Which runs a store holds, and how a finished run comes into it, whole or not at all.

A folder of this machine: the run is written beside and its folder renamed. Anywhere else nothing
can be renamed: tables are written under a name of their own, and `run.json`, which names them,
comes last, on condition that there is none yet.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pandas as pd

from ragscore.frames.data import DataError
from ragscore.io.sidecars import run_record
from ragscore.store.files import (
    Place,
    RemotePath,
    json_bytes,
    json_object,
    read_json,
    remove,
    settled_stamp,
    stamps,
    write_json,
    write_new,
)
from ragscore.store.noted import Note, notes_in

# of a run's folder: file systems take 255, and a staging folder's name is longer
LONGEST_NAME = 200
OWN_FIELD = "ragscore"  # of run.json: what the store notes for itself
_OWN_KEYS = ("scoring", "text", OWN_FIELD)


@dataclass(frozen=True)
class Stored:
    """A run that is there.

    `name` is its folder's in `root`; `digest` is the hash of its `run.json`, `stamp` when that was
    read.

    What the latter says was either read, or noted by `compact`; the rest of a noted one is read
    when it is asked for.
    """

    root: Place
    name: str
    read: dict[str, Any] | None
    digest: str
    stamp: str | None = None
    note: Note | None = None

    @cached_property
    def home(self) -> Place:
        """Where its `run.json` is."""
        return self.root / self.name

    @property
    def at(self) -> str:
        """Where its tables are, from the store's folder."""
        if self.note is not None:
            return f"{self.name}/{self.note.inner}" if self.note.inner else self.name
        own = self.described.get(OWN_FIELD)
        inner = own.get("folder") if isinstance(own, dict) else None
        return f"{self.name}/{inner}" if isinstance(inner, str) else self.name

    @cached_property
    def folder(self) -> Place:
        """Where its tables are."""
        return (
            self.home if self.at == self.name else self.home / self.at.removeprefix(f"{self.name}/")
        )

    @cached_property
    def described(self) -> dict[str, Any]:
        """All that `run.json` says."""
        return self.read if self.read is not None else read_json(self.home / "run.json")

    @property
    def run_id(self) -> str:
        """The run's id, whatever its folder is called."""
        return str(self.described["run_id"] if self.note is None else self.note.record["run_id"])

    @property
    def scoring(self) -> dict[str, Any]:
        """What run.json says of the scoring; nothing for a run without scores."""
        found = self.described.get("scoring", {}) if self.note is None else self.note.scoring
        return found if isinstance(found, dict) else {}

    @cached_property
    def record(self) -> dict[str, Any]:
        """Its row of the runs frame."""
        if self.note is None:
            return run_record(
                {name: value for name, value in self.described.items() if name not in _OWN_KEYS},
                str(self.home / "run.json"),
            )
        made = self.note.record.get("created_at")
        return self.note.record | ({} if made is None else {"created_at": pd.Timestamp(made)})


def stored_runs(root: Place, before: Iterable[Stored] = ()) -> list[Stored]:
    """Every run that is there, by the name of its folder: one without `run.json` is not.

    Of those seen `before`, unchanged ones are not read again.

    Where none was seen before, the notes that `compact` left of them are looked at.
    """
    if isinstance(root, Path):
        known = {run.name: run for run in before} or {
            name: _noted(root, name, note) for name, note in notes_in(root).items()
        }
        return [
            run
            if (run := known.get(name)) is not None and run.stamp == stamp
            else _read_at(root, name)
            for name, stamp in _run_files(root)
        ]
    root.fs.invalidate_cache()
    listed = root.fs.ls(root.path, detail=False) if root.exists() else []
    files = [
        root / str(name).rstrip("/").rpartition("/")[2] / "run.json" for name in sorted(listed)
    ]
    # All at once: on object storage each request takes its time.
    contents = root.fs.cat([file.path for file in files], on_error="omit") if files else {}
    there = [(file, content) for file in files if (content := contents.get(file.path)) is not None]
    return [_stored(root, file.path.split("/")[-2], content) for file, content in there]


def _run_files(root: Path) -> list[tuple[str, str]]:
    """The folders in a store that have a run.json, by name, and its stamp."""
    names = (
        sorted(entry.name for entry in os.scandir(root) if not entry.name.startswith("."))
        if root.is_dir()
        else []
    )
    found = stamps(root, [f"{name}/run.json" for name in names])
    return [(name, stamp) for name, stamp in zip(names, found, strict=True) if stamp is not None]


def _noted(root: Place, name: str, note: Note) -> Stored:
    return Stored(root, name, None, note.digest, note.stamp, note)


def _read_at(root: Path, name: str) -> Stored:
    file = root / name / "run.json"
    stamp = settled_stamp(file)  # taken first: what is written while we read gets another one
    return replace(_stored(root, name, file.read_bytes()), stamp=stamp)


def _stored(root: Place, name: str, written: bytes) -> Stored:
    file = f"{root / name / 'run.json'}"
    described = json_object(written, file)
    if "run_id" not in described:
        raise DataError(
            "the field is missing",
            file=file,
            field="run_id",
            allowed="a run.json as the store writes it",
        )
    return Stored(root, name, described, hashlib.sha256(written).hexdigest()[:16])


def notes_of(runs: Iterable[Stored]) -> dict[str, Note]:
    """What there is to note of runs whose `run.json` has settled."""
    noted = {}
    for run in runs:
        if run.stamp is not None:
            inner = run.at.removeprefix(run.name).removeprefix("/") or None
            made = (
                {"created_at": run.record["created_at"].isoformat()}
                if "created_at" in run.record
                else {}
            )
            noted[run.name] = Note(run.stamp, run.digest, inner, run.scoring, run.record | made)
    return noted


def home_of(root: Place, run_id: str) -> Place:
    """The folder of a run.

    A run id may hold anything; a folder's name no slash, no dot at its beginning, and not too many
    letters.
    """
    name = quote(run_id, safe=" +@=,()[]!~")
    if len(name) > LONGEST_NAME:
        digest = hashlib.sha256(run_id.encode()).hexdigest()[:16]
        name = f"{name[: LONGEST_NAME - len(digest) - 3]}~{digest}"
    return root / (f"%2E{name[1:]}" if name.startswith(".") else name)


def is_taken(root: Place, run_id: str) -> bool:
    """Whether a run of this id can't be written without overwriting."""
    home = home_of(root, run_id)
    return home.exists() if isinstance(home, Path) else (home / "run.json").exists()


def put_run(
    root: Place, run_id: str, write: Callable[[Place], dict[str, Any]], overwrite: bool
) -> None:
    """Bring a run into the store.

    `write` writes its tables into a folder and returns the content of its run.json.

    Raises
    ------
    DataError
        Another writer brought a run of the same id in meanwhile; it stays.
    """
    home = home_of(root, run_id)
    try:
        if isinstance(home, Path):
            _put_folder(home, write, overwrite)
        else:
            _put_objects(root, home, write, overwrite)
    except FileExistsError as error:
        raise DataError(
            f"{run_id} was saved by another writer meanwhile",
            file=str(home),
            field="run_id",
            allowed="another run id, or overwrite=True",
        ) from error


def _put_folder(home: Path, write: Callable[[Place], dict[str, Any]], overwrite: bool) -> None:
    """Write beside and rename.

    An older run is moved aside first, so a crash leaves the old run or the new one.
    """
    staging, replaced = _aside("staging", home), _aside("replaced", home)
    staging.mkdir()
    try:
        write_json(staging / "run.json", write(staging))
        if home.exists():
            if not overwrite:
                raise FileExistsError(home)
            home.rename(replaced)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    staging.rename(home)
    shutil.rmtree(replaced, ignore_errors=True)


def _aside(what: str, home: Path) -> Path:
    aside = home.with_name(f".{what}-{home.name}")
    shutil.rmtree(aside, ignore_errors=True)
    return aside


def _put_objects(
    root: Place, home: RemotePath, write: Callable[[Place], dict[str, Any]], overwrite: bool
) -> None:
    """Write tables under a name of their own, then the run.json that names it.

    That is the moment from which the run is there.
    """
    file, inner = home / "run.json", f"data-{uuid4().hex[:16]}"
    before = _stored(root, home.name, file.read_bytes()) if overwrite and file.exists() else None
    try:
        described = write(home / inner)
        described |= {OWN_FIELD: {**described.get(OWN_FIELD, {}), "folder": inner}}
        if overwrite:
            write_json(file, described)
        else:
            write_new(file, json_bytes(described))
    except BaseException:
        remove(home / inner)
        raise
    if (
        before is not None
        and isinstance(before.folder, RemotePath)
        and before.folder.path != home.path
    ):
        remove(before.folder)
