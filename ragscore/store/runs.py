"""Find the runs of a store, and bring runs into it.

A run is in the store when its `run.json` is, which names its files. In: a store's folder, and what
writes the tables of a run. Out: its runs.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ragscore.frames.data import DataError
from ragscore.io.sidecars import run_record
from ragscore.store.checked import FileEntry, StoredFile, digest_of, entries_of, unsealed
from ragscore.store.described import FILE_NAME, RUN_JSON, check_content
from ragscore.store.disk import OvertakenError
from ragscore.store.draft import Draft, State, put, state_in, state_of, writing
from ragscore.store.places import (
    Place,
    answering,
    bytes_if_there,
    file_names,
    settled_stamp,
    stamps,
)

# File systems take 255 characters for a name.
LONGEST_NAME = 200
RUN_FILE = "run.json"
_RESERVED = re.compile(
    # compact.json: earlier versions kept a file of this name beside the runs
    rf"(con|prn|aux|nul|com[0-9]|lpt[0-9]) *(\..*)?|compact\.json|{FILE_NAME.pattern}",
    re.IGNORECASE,
)
_OWN_KEYS = ("scoring", "text", "ragscore")


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
    def folder(self) -> Place:
        """The folder of the run."""
        return self.root / self.name

    @cached_property
    def entries(self) -> dict[str, FileEntry]:
        """Its files by kind, such as hits, scores and metrics; calls were called hops once."""
        found = entries_of(self.described)
        return {"calls" if kind == "hops" else kind: entry for kind, entry in found.items()}

    def file(self, kind: str) -> StoredFile | None:
        """Return one of its files; None if it has none of the kind."""
        entry = self.entries.get(kind)
        return None if entry is None else StoredFile(self.folder, entry, self.entries)

    def table(self, kind: str) -> StoredFile:
        """Return one of its files, which it must have."""
        found = self.file(kind)
        if found is None:
            raise DataError(
                f"the run has no {kind}",
                file=str(self.folder / RUN_FILE),
                field=f"ragscore.files.{kind}",
                allowed="save the run again with overwrite=True",
            )
        return found

    @property
    def state(self) -> State:
        """What a writer starts from who changes the run."""
        return state_in(self.described, self.digest, self.folder / RUN_FILE)

    @property
    def run_id(self) -> str:
        """The run's id, whatever its folder is called."""
        run_id: str = self.described["run_id"]
        return run_id

    @property
    def scoring(self) -> dict[str, Any]:
        """What made its scores, by run.json; empty for a run without scores."""
        scoring: dict[str, Any] = self.described.get("scoring", {})
        return scoring

    @cached_property
    def record(self) -> dict[str, Any]:
        """Its row of the runs frame."""
        own = {name: value for name, value in self.described.items() if name not in _OWN_KEYS}
        return run_record(own, str(self.folder / RUN_FILE))


def stored_runs(root: Place, before: Iterable[StoredRun] = ()) -> list[StoredRun]:
    """Return every run that has a `run.json`, by the name of its folder.

    Runs seen `before` are not read if they are unchanged.
    """
    if isinstance(root, Path):
        known = {run.name: run for run in before}
        found = [
            run
            if (run := known.get(name)) is not None and run.stamp == stamp
            else _read_run(root, name)
            for name, stamp in _run_files(root)
        ]
        return [run for run in found if run is not None]
    files = [root / name / RUN_FILE for name in sorted(file_names(root))]
    # All at once: on object storage each request takes its time.
    contents = root.fs.cat([file.path for file in files], on_error="return") if files else {}
    there: list[StoredRun] = []
    for file in files:
        with answering(file):
            content = contents.get(file.path)
            if isinstance(content, Exception) and not isinstance(content, FileNotFoundError):
                raise content
        if isinstance(content, bytes):
            there.append(_parse_run(root, file.path.split("/")[-2], content))
    return there


def _run_files(root: Path) -> list[tuple[str, str]]:
    """Return the folders of a store that have a run.json, by name, with its stamp."""
    names = sorted(name for name in file_names(root) if name[0] != ".")
    now = stamps(root, [f"{name}/{RUN_FILE}" for name in names])
    return [(name, stamp) for name, stamp in zip(names, now, strict=True) if stamp is not None]


def _read_run(root: Path, name: str) -> StoredRun | None:
    file = root / name / RUN_FILE
    try:
        stamp = settled_stamp(file)  # taken first: what is written while we read gets another one
    except FileNotFoundError:
        return None
    content = bytes_if_there(file)
    if content is None:  # removed since it was listed
        return None
    return replace(_parse_run(root, name, content), stamp=stamp)


def _parse_run(root: Place, name: str, content: bytes) -> StoredRun:
    file = f"{root / name / RUN_FILE}"
    described = unsealed(content, file)
    check_content(described, RUN_JSON, file)
    run = StoredRun(root, name, described, digest_of(content) or "")
    own = folder_of(root, run.run_id)
    if own.name != name:
        is_there = (own / RUN_FILE).exists()
        raise DataError(
            f"found {run.run_id!r}, {'which' if is_there else 'whose folder'} is {own}",
            file=file,
            field="run_id",
            allowed=f"one folder per run: move {root / name} out of the store; for a copy under"
            " another name, load the run, rename it and save it",
        )
    return run


def folder_of(root: Place, run_id: str) -> Place:
    """Return the folder of a run.

    A run id may hold anything. A folder's name is one on every system: it holds no slash, doesn't
    begin with a dot, ends in no dot or blank, isn't too long, and is neither the name of a device
    on Windows nor of a file of the store.
    """
    name = quote(run_id, safe=" +@=,()[]!~")
    if len(name) > LONGEST_NAME:
        digest = hashlib.sha256(run_id.encode()).hexdigest()[:16]
        name = f"{name[: LONGEST_NAME - len(digest) - 3]}~{digest}"
    if name[-1:] in (".", " "):
        name = f"{name[:-1]}%{ord(name[-1]):02X}"
    if name.startswith(".") or _RESERVED.fullmatch(name):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    return root / name


def check_distinct(root: Place, run_ids: Iterable[str]) -> None:
    """Refuse run ids that differ from another's in case alone.

    Many file systems keep them in one folder, to which a store may be copied at any time.

    Raises
    ------
    DataError
        It names both.
    """
    taken = {name.casefold(): name for name in file_names(root)}
    for name in (folder_of(root, run_id).name for run_id in run_ids):
        other = taken.setdefault(name.casefold(), name)
        if other != name:
            raise DataError(
                f"{name} and {other} differ in case alone",
                file=str(root),
                field="run_id",
                allowed="names that differ on file systems without upper and lower case, too",
            )


def is_taken(root: Place, run_id: str) -> bool:
    """Return whether the store has a run of this id."""
    return (folder_of(root, run_id) / RUN_FILE).exists()


def put_run(
    root: Place, run_id: str, write: Callable[[Draft], dict[str, Any]], overwrite: bool
) -> None:
    """Bring a run into the store, whole or not at all.

    `write` writes its files into a draft and returns the content of its run.json.

    Raises
    ------
    DataError
        Another writer saved a run of the same id meanwhile: that one stays. Or the run can't be
        written.
    """
    folder = folder_of(root, run_id)
    before = state_of(folder / RUN_FILE) if overwrite else State()
    kept = f"the {run_id} saved before is as it was" if before.digest else f"no {run_id} was saved"
    with writing(folder, kept):
        draft = Draft(root, folder)
        content = _written(write, draft)
        try:
            put(draft, RUN_FILE, content, before)
        except OvertakenError as error:
            raise DataError(
                f"{run_id} was saved by another writer meanwhile, and that one stays",
                file=str(folder),
                field="run_id",
                allowed="another run id, or overwrite=True",
            ) from error


def change_run(run: StoredRun, write: Callable[[Draft], dict[str, Any]]) -> None:
    """Add files to a run, or replace some, whole or not at all.

    Raises
    ------
    DataError
        Another writer changed the run since it was read: nothing of this is kept.
    """
    with writing(run.folder, f"{run.run_id} is as it was"):
        draft = Draft(run.root, run.folder)
        content = _written(write, draft)
        try:
            put(draft, RUN_FILE, content, run.state, keep=True)
        except OvertakenError as error:
            raise DataError(
                f"{run.run_id} was changed by another writer meanwhile, and that one stays",
                file=str(run.folder),
                field="run_id",
                allowed="the same again, from what is stored now",
            ) from error


def _written(write: Callable[[Draft], dict[str, Any]], draft: Draft) -> dict[str, Any]:
    try:
        return write(draft)
    except BaseException:
        draft.discard()
        raise
