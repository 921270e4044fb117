"""The text of a golden file with its rows, and that text with one row changed, read again to make sure that only this row is.

In: bytes of a golden file (ours, or a chatbot's cases). Out: `GoldenText`, which never changes; an
edit gives another one.

Taking clicks back: what one click did to the text, and the text without it.

A golden file on disk, changed by several people.

Read again before each write, backed up once, renamed into place.
"""

import gzip
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from ragscore.frames.data import DataError
from ragscore.golden.labelling.minimal_diff import Span, json_lines, with_field, with_row, yaml_list
from ragscore.io.rows import yaml_rows
from ragscore.io.source import Problems, Row, as_id, json_rows

BOM = "\ufeff"
Values = dict[str, Any]
Changes = dict[str, Any]
"""Field -> its new value; None takes the field out."""


@dataclass(frozen=True)
class GoldenText:
    """What a golden file holds: its text, and its rows by id."""

    path: Path
    text: str

    @property
    def is_yaml(self) -> bool:
        """YAML, by the file's name; else JSON lines."""
        return self.path.name.removesuffix(".gz").endswith((".yaml", ".yml"))

    @cached_property
    def rows(self) -> dict[str, Row]:
        """The rows by id, in the order of the file.

        Raises
        ------
        DataError
            What can't be read, or an id that is missing or there twice: what can't be told apart
            can't be changed.
        """
        problems = Problems(self.path, strict=True)
        listed = list(
            yaml_rows(self.path, problems, self._body)
            if self.is_yaml
            else json_rows(self.path, problems, self._body.split("\n"))
        )
        found: dict[str, Row] = {}
        for row in listed:
            query_id = as_id(row.values.get("id"))
            if query_id is None or query_id in found:
                fault = (
                    "the field is missing or no id"
                    if query_id is None
                    else f"{query_id} appears more than once"
                )
                raise DataError(
                    fault,
                    file=self.path,
                    line=row.line_of("id"),
                    field="id",
                    allowed="ids must be there and unique",
                )
            found[query_id] = row
        return found

    @property
    def _body(self) -> str:
        return self.text.removeprefix(BOM)

    @cached_property
    def spans(self) -> Span | None:
        """Where the rows stand in the text, without a byte-order mark."""
        return yaml_list(self._body) if self.is_yaml else json_lines(self._body)

    def values(self, query_id: str) -> Values | None:
        """The fields of a row; None where there is no such row."""
        return dict(self.rows[query_id].values) if query_id in self.rows else None

    def segment(self, query_id: str) -> tuple[int, int]:
        """Where a row begins, and where the next one does (or the text ends)."""
        places = [item.start for item in self.spans.items] if self.spans else []
        n = list(self.rows).index(query_id)
        return places[n], places[n + 1] if n + 1 < len(places) else len(self._body)

    def edited(self, query_id: str, changes: Changes) -> "GoldenText":
        """The text with some fields of one row changed.

        Raises
        ------
        DataError
            The row is written in a way in which it can't be changed alone, such as an alias of
            another one.
        """
        wanted = {
            name: value
            for name, value in {**self.rows[query_id].values, **changes}.items()
            if value is not None or name not in changes
        }
        tries: list[Callable[[], GoldenText]] = [
            lambda: self._spliced(query_id, changes, whole=False),
            lambda: self._spliced(query_id, changes, whole=True),
        ]
        return self._first_right(tries, query_id, wanted)

    def added(self, values: Values) -> "GoldenText":
        """The text with one more row at its end."""
        query_id = str(values["id"])
        if query_id in self.rows:
            raise DataError(
                f"{query_id} is there already",
                file=self.path,
                line=self.rows[query_id].line,
                field="id",
                allowed="ids must be unique",
            )
        return self._first_right(
            [lambda: self._with(with_row(self._body, self.spans, values, is_yaml=self.is_yaml))],
            query_id,
            values,
        )

    def replaced(self, start: int, end: int, new: str) -> "GoldenText":
        """The text with one part put back as it was."""
        return self._with(self._body[:start] + new + self._body[end:])

    def part(self, start: int, end: int) -> str:
        """What stands between two places."""
        return self._body[start:end]

    def data(self) -> bytes:
        """The file's bytes."""
        data = self.text.encode()
        return gzip.compress(data, mtime=0) if self.path.suffix == ".gz" else data

    def _with(self, body: str) -> "GoldenText":
        return GoldenText(self.path, self.text[: len(self.text) - len(self._body)] + body)

    def _spliced(self, query_id: str, changes: Changes, whole: bool) -> "GoldenText":
        """Field by field, each in the text that the one before left."""
        here = self
        for name, value in changes.items():
            items = here.spans.items if here.spans else ()
            row = items[list(here.rows).index(query_id)]
            if row.kind != "map":
                raise DataError("the row is an alias", file=self.path)
            here = here._with(
                with_field(
                    here._body, row, name, here.rows[query_id].values.get(name), value, whole=whole
                )
            )
        return here

    def _first_right(
        self, tries: "list[Callable[[], GoldenText]]", query_id: str, wanted: Values
    ) -> "GoldenText":
        """The first text in which this row is as wanted, and every other row as it was."""
        expected = {name: row.values for name, row in self.rows.items()} | {query_id: wanted}
        for attempt in tries:
            try:
                found = attempt()
                if list(found.rows) == list(expected) and all(
                    same(row.values, expected[name]) for name, row in found.rows.items()
                ):
                    return found
            except (DataError, yaml.YAMLError):
                continue
        line = self.rows[query_id].line if query_id in self.rows else None
        raise DataError(
            f"the row of {query_id} can't be changed alone",
            file=self.path,
            line=line,
            allowed="a plain list of mappings; edit this row by hand",
        )


def same(one: Any, other: Any) -> bool:
    """Whether two values of rows are the same, down to how their numbers are spelled."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return (
        isinstance(one, bool) == isinstance(other, bool)
        and one == other
        and getattr(one, "text", str(one)) == getattr(other, "text", str(other))
    )


@dataclass(frozen=True)
class Done:
    """One click.

    Rows as they stood before and after it (id, before, after), or the text of a row that it added.
    """

    told: str
    query_id: str
    rows: tuple[tuple[str, str, str], ...] = ()
    added: str = ""


def without(content: GoldenText, done: Done) -> GoldenText:
    """The text with the rows of one click as they were before it, to the byte.

    Raises
    ------
    DataError
        A row isn't as the click left it: someone else has changed it since.
    """
    if done.added:
        return _without_row(content, done)
    for query_id, before, after in reversed(done.rows):
        start, end = content.segment(query_id) if query_id in content.rows else (0, 0)
        if content.part(start, end) != after:
            raise DataError(
                f"{query_id} was changed by someone else since",
                file=content.path,
                allowed="change it by hand",
            )
        content = content.replaced(start, end, before)
    return content


def _without_row(content: GoldenText, done: Done) -> GoldenText:
    whole = content.part(0, len(content.text))
    if whole.count(done.added) != 1:
        raise DataError(
            f"{done.told}: the row was changed by someone else since",
            file=content.path,
            allowed="take it out by hand",
        )
    start = whole.index(done.added)
    return content.replaced(start, start + len(done.added), "")


def inserted(old: GoldenText, new: GoldenText) -> str:
    """What was put into a text."""
    before, after = old.text, new.text
    start = next(
        (
            place
            for place, (one, other) in enumerate(zip(before, after, strict=False))
            if one != other
        ),
        min(len(before), len(after)),
    )
    return after[start : len(after) - (len(before) - start)]


class GoldenFile:
    """The file, and what is known to be in it.

    Attributes
    ----------
    path
        The file itself, where a link was given.
    now
        Its content when it was last looked at.
    backup
        The copy of the file as it was before the first write (None: nothing was written yet).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self.backup: Path | None = None
        self.now = self.read()

    def read(self) -> GoldenText:
        """Look at the file again; what it holds is the same object as long as its bytes are."""
        found = GoldenText(self.path, _text(self.path))
        if not hasattr(self, "now") or found.text != self.now.text:
            _ = found.rows  # a file that can't be read must say so before anything is made of it
            self.now = found
        return self.now

    def write(self, content: GoldenText) -> None:
        """Put the content in the file's place.

        All of it or nothing, and on the disk before this returns.
        """
        if self.backup is None:
            self.backup = _kept(self.path)
        staging = self.path.with_name(f".{self.path.name}.{os.getpid()}.staging")
        try:
            with staging.open("wb") as file:
                file.write(content.data())
                file.flush()
                os.fsync(file.fileno())
            shutil.copymode(self.path, staging)
            staging.replace(self.path)
        finally:
            staging.unlink(missing_ok=True)
        with _folder(self.path) as folder:
            if folder is not None:
                os.fsync(folder)
        self.now = content

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other sessions from writing between a look at the file and its rename, where the system has locks."""
        with _folder(self.path) as folder:
            if folder is not None:
                with suppress(ImportError, OSError):
                    import fcntl

                    # ends with the descriptor, however this process ends
                    fcntl.flock(folder, fcntl.LOCK_EX)
            yield


def _text(path: Path) -> str:
    """The file's text, its line ends and byte-order mark as they are."""
    if not path.name.removesuffix(".gz").endswith((".yaml", ".yml", ".jsonl", ".json")):
        raise DataError(
            f"found {path.name!r}",
            field="golden_file",
            allowed="a golden file that ends in .yaml, .yml or .jsonl (and perhaps .gz)",
        )
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte {error.object[error.start]:#x} is not UTF-8",
            file=path,
            allowed="files must be UTF-8",
        ) from error
    except (FileNotFoundError, IsADirectoryError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"can't be read: {error.args[-1] if error.args else error}", file=path
        ) from error


def _kept(path: Path) -> Path:
    """A copy of the file beside it, under the first free of .bak, .bak2, .bak3, ....

    No backup is ever written over.
    """
    number = 1
    while True:
        copy = path.with_name(f"{path.name}.bak{number if number > 1 else ''}")
        if not copy.exists():
            shutil.copy2(path, copy)
            return copy
        if copy.read_bytes() == path.read_bytes():
            return copy
        number += 1


@contextmanager
def _folder(path: Path) -> Iterator[Any]:
    """The descriptor of the file's folder; None where folders can't be opened."""
    try:
        descriptor = os.open(path.parent, os.O_RDONLY)
    except OSError:
        descriptor = None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)
