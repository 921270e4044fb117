"""How a store changes: files under names of their own, then one step that names them.

A `Draft` writes the files of a run, which nobody sees. `put` puts the `run.json` that names them in
place, unless somebody else was first. With that step the old state is the new one, whole; after a
crash before it, the old state is all there is. What nothing names any more is swept later.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from ragscore.frames.errors import DataError
from ragscore.store import disk, objects
from ragscore.store.checked import (
    FileEntry,
    SummingWriter,
    described_files,
    digest_of,
    entries_of,
    json_bytes,
    sealed,
    unsealed,
)
from ragscore.store.described import FILE_NAME, NAMES_FILES, check_content
from ragscore.store.disk import STAGING, OvertakenError
from ragscore.store.places import (
    Place,
    RemotePath,
    bytes_if_there,
    file_names,
    is_storage_error,
    modified_at,
)

# Readers may hold the files of a run for so long after it was written anew.
KEPT_FOR_READERS = timedelta(minutes=10)
# A writer may take so long from its first file to the step that names it.
KEPT_FOR_WRITERS = timedelta(days=1)


@dataclass(frozen=True)
class State:
    """What a writer starts from: the digest of run.json (None: there is none), and its files.

    `superseded` are files that an earlier step replaced, by name, with the time of that step.
    `saved_at` is the time of the first step: runs of a store get their looks in that order.
    """

    digest: str | None = None
    files: dict[str, FileEntry] = field(default_factory=dict)
    superseded: dict[str, str] = field(default_factory=dict)
    saved_at: str | None = None


def state_of(file: Place) -> State:
    """Return the state that a run.json describes now; a damaged one can be replaced, too."""
    written = bytes_if_there(file)
    if written is None:
        return State()
    try:
        return state_in(unsealed(written, file), digest_of(written), file)
    except DataError:
        return State(digest_of(written))


def state_in(content: dict[str, Any], digest: str | None, file: Place) -> State:
    """Return the state that the content of a run.json describes."""
    check_content(content, NAMES_FILES, file)
    own = content["ragscore"]
    return State(digest, entries_of(content), own.get("superseded", {}), own.get("saved_at"))


class Draft:
    """The files of a run while they are written; nobody sees them before `put` names them."""

    def __init__(self, root: Place, folder: Place) -> None:
        self.root, self.folder = root, folder
        self.entries: dict[str, FileEntry] = {}
        self._token = uuid4().hex[:12]
        if isinstance(folder, Path):
            folder.mkdir(exist_ok=True)

    @contextmanager
    def create(self, kind: str, suffix: str = "parquet") -> Iterator[SummingWriter]:
        """Yield a file to write a table to; a second one of a kind replaces the first."""
        before = self.entries.get(kind)
        token = self._token if before is None else uuid4().hex[:12]
        place = self.folder / f"{kind}-{token}.{suffix}"
        opened = disk.new_file if isinstance(place, Path) else objects.new_object
        with opened(place) as out:  # type: ignore[arg-type]
            yield out
        self.entries[kind] = out.sums.entry(place.name)
        if before is not None:
            remove(self.folder / before.name)

    def write_json(self, kind: str, content: dict[str, Any], indent: int | None = 1) -> None:
        """Write a JSON object."""
        with self.create(kind, "json") as out:
            out.write(json_bytes(content, indent))

    def described(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the content of a run.json that names the files so far."""
        return content | {"ragscore": {"files": described_files(self.entries)}}

    def discard(self) -> None:
        """Remove what was written, and the folder if it holds nothing else."""
        for entry in self.entries.values():
            with suppress(Exception):
                remove(self.folder / entry.name)
        if isinstance(self.folder, Path):
            with suppress(OSError):
                self.folder.rmdir()


def put(
    draft: Draft,
    name: str,
    content: dict[str, Any],
    before: State,
    *,
    keep: bool = False,
    indent: int | None = 1,
) -> None:
    """Put a run.json in place that names the draft's files, whole or not at all.

    Parameters
    ----------
    name
        What it is called: run.json.
    before
        What the writer started from.
    keep
        Name the files of `before`, too, except for those of the same kinds.

    Raises
    ------
    OvertakenError
        Somebody else put another one in place. The draft is discarded.
    """
    file = draft.folder / name
    named = (before.files if keep else {}) | draft.entries
    names = {entry.name for entry in named.values()}
    now = datetime.now(UTC)
    replaced_at = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    saved_at = before.saved_at if before.digest else now.isoformat(timespec="microseconds")
    replaced = {entry.name: replaced_at for entry in before.files.values()}
    superseded = {
        name: at for name, at in (replaced | before.superseded).items() if name not in names
    }
    there = file_names(draft.folder) if before.digest is not None else set()
    own: dict[str, Any] = {"files": described_files(named)}
    own |= {"saved_at": saved_at} if saved_at else {}
    if listed := {name: at for name, at in superseded.items() if name in there}:
        own["superseded"] = listed
    try:
        written = sealed(
            {k: v for k, v in content.items() if k != "ragscore"} | {"ragscore": own}, indent
        )
    except ValueError as error:
        draft.discard()
        raise DataError(
            f"the run's description can't be written as JSON ({error})",
            file=str(file),
            field="config",
            allowed="finite numbers, text, true, false and null",
        ) from error
    own_names = [entry.name for entry in draft.entries.values()]
    try:
        if isinstance(file, Path) and isinstance(draft.root, Path):
            disk.put_in_place(draft.root, file, written, before.digest, own_names)
        else:
            assert isinstance(file, RemotePath)
            objects.put_in_place(file, written, before.digest, own_names)
    except BaseException as error:
        is_known = isinstance(file, Path) or isinstance(error, OvertakenError)
        # After an error of object storage the request may still arrive: its files must be there.
        with suppress(OSError):
            if is_known and bytes_if_there(file) != written:
                draft.discard()
        raise
    sweep(draft.folder, State(digest_of(written), named, listed), now)


def sweep(folder: Place, state: State, now: datetime | None = None) -> None:
    """Remove files that nothing names any more, and that nobody can be reading or writing.

    What can't be removed now stays for the next time.
    """
    now = now or datetime.now(UTC)
    named = {entry.name for entry in state.files.values()}
    there = set[str]()
    with suppress(Exception):
        there = file_names(folder)
    for name in there - named:
        if not (name.startswith(STAGING) or FILE_NAME.fullmatch(name)):
            continue
        with suppress(Exception):
            replaced = state.superseded.get(name)
            kept_for = KEPT_FOR_WRITERS if replaced is None else KEPT_FOR_READERS
            since = (
                modified_at(folder / name) if replaced is None else datetime.fromisoformat(replaced)
            )
            if now - since >= kept_for:
                remove(folder / name)


def remove(place: Place) -> None:
    """Remove a file, or a folder of unfinished files; never the folder of a run."""
    if isinstance(place, RemotePath):
        place.fs.rm_file(place.path)
    elif not place.is_dir():
        place.unlink(missing_ok=True)
    elif place.name.startswith(STAGING):
        shutil.rmtree(place)


@contextmanager
def writing(place: Place, kept: str) -> Iterator[None]:
    """Turn errors of the file system into one that names the file, and says what was kept."""
    try:
        yield
    except Exception as error:
        if isinstance(error, DataError) or not is_storage_error(error):
            raise
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        file = str(getattr(error, "filename", None))
        raise DataError(
            f"could not be written ({reason}); {kept}",
            file=file if Path(file).is_absolute() else str(place),
            allowed="room and the right to write there, then the same again",
        ) from error
