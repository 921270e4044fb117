"""Which runs a store holds, and how a finished run comes into it, whole or not at all.

A folder of this machine: the run is written beside and its folder renamed. Anywhere else nothing can be renamed: tables
are written under a name of their own, and `run.json`, which names them, comes last, on condition that there is none yet.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from ragscore.filesystem import Place, RemotePath, remove, settled_stamp, stamps, write_new
from ragscore.frames import DataError
from ragscore.run_files import json_bytes, json_object, write_json

LONGEST_NAME = 200  # of a run's folder: file systems take 255, and a staging folder's name is longer
OWN_FIELD = "ragscore"  # of run.json: what the store notes for itself


@dataclass(frozen=True)
class Stored:
    """A run that is there: where its `run.json` is (`home`), where its tables are (`folder`), and what the former says; `digest` is its hash, `stamp` when it was read."""

    home: Place
    folder: Place
    described: dict[str, Any]
    digest: str
    stamp: str | None = None

    @property
    def run_id(self) -> str:
        """The run's id, whatever its folder is called."""
        return str(self.described["run_id"])

    @property
    def scoring(self) -> dict[str, Any]:
        """What run.json says of the scoring; nothing for a run without scores."""
        found = self.described.get("scoring", {})
        return found if isinstance(found, dict) else {}


def stored_runs(root: Place, before: Iterable[Stored] = ()) -> list[Stored]:
    """Every run that is there, by the name of its folder: one without `run.json` is not. Of those seen `before`, unchanged ones are not read again."""
    if isinstance(root, Path):
        seen = {run.home.name: run for run in before if run.stamp is not None}
        homes = sorted(file.parent for file in root.glob("*/run.json") if not file.parent.name.startswith("."))
        return [_unchanged(seen.get(home.name)) or _read_at(home) for home in homes]
    root.fs.invalidate_cache()
    listed = root.fs.ls(root.path, detail=False) if root.exists() else []
    files = [root / str(name).rstrip("/").rpartition("/")[2] / "run.json" for name in sorted(listed)]
    # All at once: on object storage each request takes its time.
    contents = root.fs.cat([file.path for file in files], on_error="omit") if files else {}
    there = [(file, content) for file in files if (content := contents.get(file.path)) is not None]
    return [_stored(root / file.path.split("/")[-2], content) for file, content in there]


def _unchanged(run: Stored | None) -> Stored | None:
    return run if run is not None and stamps(run.home, [run.home / "run.json"]) == [run.stamp] else None


def _read_at(home: Path) -> Stored:
    stamp = settled_stamp(home / "run.json")  # taken first: what is written while we read gets another one
    return replace(_stored(home, (home / "run.json").read_bytes()), stamp=stamp)


def _stored(home: Place, written: bytes) -> Stored:
    described = json_object(written, home / "run.json")
    if "run_id" not in described:
        raise DataError("the field is missing", file=str(home / "run.json"), field="run_id", allowed="a run.json as the store writes it")
    own = described.get(OWN_FIELD)
    inner = own.get("folder") if isinstance(own, dict) else None
    return Stored(home, home / inner if isinstance(inner, str) else home, described, hashlib.sha256(written).hexdigest()[:16])


def home_of(root: Place, run_id: str) -> Place:
    """The folder of a run. A run id may hold anything; a folder's name no slash, no dot at its beginning, and not too many letters."""
    name = quote(run_id, safe=" +@=,()[]!~")
    if len(name) > LONGEST_NAME:
        digest = hashlib.sha256(run_id.encode()).hexdigest()[:16]
        name = f"{name[: LONGEST_NAME - len(digest) - 3]}~{digest}"
    return root / (f"%2E{name[1:]}" if name.startswith(".") else name)


def is_taken(root: Place, run_id: str) -> bool:
    """Whether a run of this id can't be written without overwriting."""
    home = home_of(root, run_id)
    return home.exists() if isinstance(home, Path) else (home / "run.json").exists()


def put_run(root: Place, run_id: str, write: Callable[[Place], dict[str, Any]], overwrite: bool) -> None:
    """Bring a run into the store: `write` writes its tables into a folder and returns the content of its run.json.

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
            _put_objects(home, write, overwrite)
    except FileExistsError as error:
        raise DataError(
            f"{run_id} was saved by another writer meanwhile", file=str(home), field="run_id", allowed="another run id, or overwrite=True"
        ) from error


def _put_folder(home: Path, write: Callable[[Place], dict[str, Any]], overwrite: bool) -> None:
    """Write beside and rename; an older run is moved aside first, so a crash leaves the old run or the new one."""
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


def _put_objects(home: RemotePath, write: Callable[[Place], dict[str, Any]], overwrite: bool) -> None:
    """Write tables under a name of their own, then the run.json that names it: that is the moment from which the run is there."""
    file, inner = home / "run.json", f"data-{uuid4().hex[:16]}"
    before = _stored(home, file.read_bytes()) if overwrite and file.exists() else None
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
    if before is not None and isinstance(before.folder, RemotePath) and before.folder.path != home.path:
        remove(before.folder)
