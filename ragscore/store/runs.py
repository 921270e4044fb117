"""Find the runs of a store, and bring finished runs into it, whole or not at all.

In a folder of this machine a run is written beside its place, and its folder renamed. On other file
systems nothing can be renamed: tables are written under a name of their own, and `run.json`, which
names them, comes last, on condition that there is none yet.
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

from ragscore.frames.data import DataError
from ragscore.io.sidecars import run_record
from ragscore.store.files import (
    Place,
    RemotePath,
    json_bytes,
    json_object,
    remove,
    settled_stamp,
    stamps,
    write_json,
    write_new,
)
from ragscore.store.run_cache import load_cache

# File systems take 255 characters, and a staging folder's name is longer than the run's own.
LONGEST_NAME = 200
OWN_FIELD = "ragscore"  # of run.json: what the store itself needs to know
_OWN_KEYS = ("scoring", "text", OWN_FIELD)


@dataclass(frozen=True)
class StoredRun:
    """A run of a store, by its run.json.

    Attributes
    ----------
    root, name
        The store, and the name of the run's folder there.
    described
        The content of run.json.
    digest, stamp
        The hash of run.json, and its stamp when it was read (None: it may change unnoticed).
    """

    root: Place
    name: str
    described: dict[str, Any]
    digest: str
    stamp: str | None = None

    @cached_property
    def home(self) -> Place:
        """The folder of its run.json."""
        return self.root / self.name

    @property
    def at(self) -> str:
        """The folder of its tables, as seen from the store's."""
        own = self.described.get(OWN_FIELD)
        inner = own.get("folder") if isinstance(own, dict) else None
        return f"{self.name}/{inner}" if isinstance(inner, str) else self.name

    @cached_property
    def folder(self) -> Place:
        """The folder of its tables."""
        inner = self.at.removeprefix(self.name).removeprefix("/")
        return self.home / inner if inner else self.home

    @property
    def run_id(self) -> str:
        """The run's id, whatever its folder is called."""
        return str(self.described["run_id"])

    @property
    def scoring(self) -> dict[str, Any]:
        """What made its scores, by run.json; empty for a run without scores."""
        scoring = self.described.get("scoring", {})
        return scoring if isinstance(scoring, dict) else {}

    @cached_property
    def record(self) -> dict[str, Any]:
        """Its row of the runs frame."""
        own = {name: value for name, value in self.described.items() if name not in _OWN_KEYS}
        return run_record(own, str(self.home / "run.json"))


def stored_runs(root: Place, before: Iterable[StoredRun] = ()) -> list[StoredRun]:
    """Return every run that has a `run.json`, by the name of its folder.

    Runs seen `before`, or cached when the store was compacted, are not read if they are unchanged.
    """
    if isinstance(root, Path):
        known = {run.name: run for run in before} or {
            name: StoredRun(root, name, run.described, run.digest, run.stamp)
            for name, run in load_cache(root).items()
        }
        return [
            run
            if (run := known.get(name)) is not None and run.stamp == stamp
            else _read_run(root, name)
            for name, stamp in _run_files(root)
        ]
    root.fs.invalidate_cache()
    listed = root.fs.ls(root.path, detail=False) if root.exists() else []
    files = [
        root / str(name).rstrip("/").rpartition("/")[2] / "run.json" for name in sorted(listed)
    ]
    # All at once: on object storage each request takes its time.
    contents = root.fs.cat([file.path for file in files], on_error="omit") if files else {}
    return [
        _parse_run(root, file.path.split("/")[-2], content)
        for file in files
        if (content := contents.get(file.path)) is not None
    ]


def _run_files(root: Path) -> list[tuple[str, str]]:
    """Return the folders of a store that have a run.json, by name, with its stamp."""
    names = (
        sorted(entry.name for entry in os.scandir(root) if not entry.name.startswith("."))
        if root.is_dir()
        else []
    )
    now = stamps(root, [f"{name}/run.json" for name in names])
    return [(name, stamp) for name, stamp in zip(names, now, strict=True) if stamp is not None]


def _read_run(root: Path, name: str) -> StoredRun:
    file = root / name / "run.json"
    stamp = settled_stamp(file)  # taken first: what is written while we read gets another one
    return replace(_parse_run(root, name, file.read_bytes()), stamp=stamp)


def _parse_run(root: Place, name: str, content: bytes) -> StoredRun:
    file = f"{root / name / 'run.json'}"
    described = json_object(content, file)
    if "run_id" not in described:
        raise DataError(
            "the field is missing",
            file=file,
            field="run_id",
            allowed="a run.json as the store writes it",
        )
    return StoredRun(root, name, described, hashlib.sha256(content).hexdigest()[:16])


def home_of(root: Place, run_id: str) -> Place:
    """Return the folder of a run.

    A run id may hold anything. A folder's name holds no slash, doesn't begin with a dot, and isn't
    too long.
    """
    name = quote(run_id, safe=" +@=,()[]!~")
    if len(name) > LONGEST_NAME:
        digest = hashlib.sha256(run_id.encode()).hexdigest()[:16]
        name = f"{name[: LONGEST_NAME - len(digest) - 3]}~{digest}"
    return root / (f"%2E{name[1:]}" if name.startswith(".") else name)


def is_taken(root: Place, run_id: str) -> bool:
    """Return whether the store has a run of this id."""
    home = home_of(root, run_id)
    return home.exists() if isinstance(home, Path) else (home / "run.json").exists()


def put_run(
    root: Place, run_id: str, write: Callable[[Place], dict[str, Any]], overwrite: bool
) -> None:
    """Bring a run into the store, whole or not at all.

    `write` writes its tables into a folder and returns the content of its run.json.

    Raises
    ------
    DataError
        Another writer saved a run of the same id meanwhile; that one stays.
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
    """Write the run beside its place, then rename its folder.

    An older run is moved aside first, so that a crash leaves the old run or the new one.
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
    """Return the folder for a run that is not in place, without what a crash left there."""
    aside = home.with_name(f".{what}-{home.name}")
    shutil.rmtree(aside, ignore_errors=True)
    return aside


def _put_objects(
    root: Place, home: RemotePath, write: Callable[[Place], dict[str, Any]], overwrite: bool
) -> None:
    """Write tables under a name of their own, then the run.json that names it.

    With that last step the run is in the store.
    """
    file, inner = home / "run.json", f"data-{uuid4().hex[:16]}"
    before = _parse_run(root, home.name, file.read_bytes()) if overwrite and file.exists() else None
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
