"""A golden file's text, its safe edits, undo, and its writing to disk.

`GoldenText` is an immutable text with its rows. After each edit the new text is parsed again, to
make sure that only the intended row differs. `Click` and `without` take edits back. `GoldenFile`
reads the file again before each write, backs it up once, and replaces it atomically.
"""

import gzip
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ragscore.frames.data import DataError
from ragscore.golden.labelling.minimal_diff import Span, json_lines, with_field, with_row, yaml_list
from ragscore.io.file_content import not_text, read_bytes
from ragscore.io.golden_read import file_rows
from ragscore.io.output import write_bytes
from ragscore.io.source import Problems, Row, as_id

BOM = "\ufeff"
Values = dict[str, Any]
Changes = dict[str, Any]
"""New value by field; None removes the field."""


@dataclass(frozen=True)
class GoldenText:
    """Text of a golden file, with its rows by id."""

    path: Path
    text: str

    @property
    def is_yaml(self) -> bool:
        """YAML, by the file's name; else JSON lines."""
        return self.path.name.removesuffix(".gz").endswith((".yaml", ".yml"))

    @cached_property
    def rows(self) -> dict[str, Row]:
        """Rows by id, in the order of the file.

        Raises
        ------
        DataError
            The file can't be read, or an id is missing or not unique, so that rows can't be told
            apart.
        """
        rows: dict[str, Row] = {}
        for row in file_rows(self.path, Problems(self.path, strict=True), self._body):
            query_id = as_id(row.values.get("id"))
            if query_id is None or query_id in rows:
                missing = "the field is missing or no id"
                raise DataError(
                    missing if query_id is None else f"{query_id} appears more than once",
                    file=self.path,
                    line=row.line_of("id"),
                    field="id",
                    allowed="ids must be there and unique",
                )
            rows[query_id] = row
        return rows

    @property
    def _body(self) -> str:
        return self.text.removeprefix(BOM)

    @cached_property
    def spans(self) -> Span | None:
        """Positions of the rows in the text, without a byte-order mark."""
        return yaml_list(self._body, self.path) if self.is_yaml else json_lines(self._body)

    def values(self, query_id: str) -> Values | None:
        """Return the fields of a row; None if there is no such row."""
        return dict(self.rows[query_id].values) if query_id in self.rows else None

    def segment(self, query_id: str) -> tuple[int, int]:
        """Return the start of a row, and the start of the next row or the end of the text."""
        places = [item.start for item in self.spans.items] if self.spans else []
        n = list(self.rows).index(query_id)
        return places[n], places[n + 1] if n + 1 < len(places) else len(self._body)

    def edited(self, query_id: str, changes: Changes) -> "GoldenText":
        """Return the text with some fields of one row changed.

        Raises
        ------
        DataError
            The row can't be changed alone, for example because it is an alias of another one.
        """
        intended = {
            name: value
            for name, value in {**self.rows[query_id].values, **changes}.items()
            if value is not None or name not in changes
        }
        # The smallest change first; a whole field where that doesn't parse to what is intended.
        tries: list[Callable[[], GoldenText]] = [
            lambda: self._with_fields(query_id, changes, whole=False),
            lambda: self._with_fields(query_id, changes, whole=True),
        ]
        return self._first_valid(tries, query_id, intended)

    def added(self, values: Values) -> "GoldenText":
        """Return the text with one more row at its end."""
        query_id = str(values["id"])
        if query_id in self.rows:
            raise DataError(
                f"{query_id} is already in the file",
                file=self.path,
                line=self.rows[query_id].line,
                field="id",
                allowed="ids must be unique",
            )
        return self._first_valid(
            [lambda: self._with(with_row(self._body, self.spans, values, is_yaml=self.is_yaml))],
            query_id,
            values,
        )

    def replaced(self, start: int, end: int, new: str) -> "GoldenText":
        """Return the text with one part replaced."""
        return self._with(self._body[:start] + new + self._body[end:])

    def part(self, start: int, end: int) -> str:
        """Return the text between two positions."""
        return self._body[start:end]

    def data(self) -> bytes:
        """Return the bytes of the file."""
        data = self.text.encode()
        return gzip.compress(data, mtime=0) if self.path.suffix == ".gz" else data

    def _with(self, body: str) -> "GoldenText":
        return GoldenText(self.path, self.text[: len(self.text) - len(self._body)] + body)

    def _with_fields(self, query_id: str, changes: Changes, whole: bool) -> "GoldenText":
        """Change field by field, each in the text that the previous change left."""
        content = self
        for name, value in changes.items():
            items = content.spans.items if content.spans else ()
            row = items[list(content.rows).index(query_id)]
            if row.kind != "map":
                raise DataError("the row is an alias", file=self.path)
            old = content.rows[query_id].values.get(name)
            content = content._with(with_field(content._body, row, name, old, value, whole=whole))
        return content

    def _first_valid(
        self, tries: "list[Callable[[], GoldenText]]", query_id: str, intended: Values
    ) -> "GoldenText":
        """Return the first text that has this row as intended and all others unchanged."""
        expected = {name: row.values for name, row in self.rows.items()} | {query_id: intended}
        for attempt in tries:
            try:
                found = attempt()
                if list(found.rows) == list(expected) and all(
                    same(row.values, expected[name]) for name, row in found.rows.items()
                ):
                    return found
            except DataError:
                continue
        line = self.rows[query_id].line if query_id in self.rows else None
        raise DataError(
            f"the row of {query_id} can't be changed alone",
            file=self.path,
            line=line,
            allowed="a plain list of mappings; edit this row by hand",
        )


def same(one: Any, other: Any) -> bool:
    """Compare two values of rows, down to the spelling of their numbers."""
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
class Click:
    """One click that can be taken back.

    `rows` has each changed row's id and its text before and after; `added` the text of a row that
    the click added.
    """

    message: str
    query_id: str
    rows: tuple[tuple[str, str, str], ...] = ()
    added: str = ""


def without(content: GoldenText, click: Click) -> GoldenText:
    """Return the text with the rows of one click as they were before it, to the byte.

    Raises
    ------
    DataError
        Someone else has changed a row since the click.
    """
    if click.added:
        whole = content.part(0, len(content.text))
        if whole.count(click.added) != 1:
            raise DataError(
                f"{click.message}: the row was changed by someone else since",
                file=content.path,
                allowed="take it out by hand",
            )
        start = whole.index(click.added)
        return content.replaced(start, start + len(click.added), "")
    for query_id, before, after in reversed(click.rows):
        start, end = content.segment(query_id) if query_id in content.rows else (0, 0)
        if content.part(start, end) != after:
            raise DataError(
                f"{query_id} was changed by someone else since",
                file=content.path,
                allowed="change it by hand",
            )
        content = content.replaced(start, end, before)
    return content


def inserted(old: GoldenText, new: GoldenText) -> str:
    """Return the text that was inserted into `old`."""
    before, after = old.text, new.text
    n = min(len(before), len(after))
    start = next((place for place in range(n) if before[place] != after[place]), n)
    return after[start : len(after) - (len(before) - start)]


class GoldenFile:
    """Golden file on disk that several people may change.

    Attributes
    ----------
    path
        The file itself, where a link was given.
    now
        Its content when it was last read.
    backup
        Copy of the file as it was before the first write; None before that.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self.backup: Path | None = None
        self.now = self.read()

    def read(self) -> GoldenText:
        """Read the file again; the same object is returned until its bytes change."""
        found = GoldenText(self.path, _text(self.path))
        if not hasattr(self, "now") or found.text != self.now.text:
            _ = found.rows  # raises if the file can't be parsed, before anything uses it
            self.now = found
        return self.now

    def write(self, content: GoldenText) -> None:
        """Replace the file's content atomically; it is on the disk before this returns.

        Raises
        ------
        DataError
            The file can't be written; it is as it was.
        """
        if self.backup is None:
            self.backup = _back_up(self.path)
        write_bytes(self.path, content.data())
        self.now = content

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock out other sessions between reading the file and replacing it.

        This needs a system with file locks; elsewhere it does nothing.
        """
        with _folder(self.path) as folder:
            if folder is not None:
                with suppress(ImportError, OSError):
                    import fcntl

                    # The lock ends with the descriptor, however this process ends.
                    fcntl.flock(folder, fcntl.LOCK_EX)
            yield


def _text(path: Path) -> str:
    """Return the file's text with its line ends and byte-order mark."""
    if not path.name.removesuffix(".gz").endswith((".yaml", ".yml", ".jsonl", ".json")):
        raise DataError(
            f"found {path.name!r}",
            field="golden_file",
            allowed="a golden file that ends in .yaml, .yml or .jsonl (and perhaps .gz)",
        )
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise not_text(path, error, error.object.count(b"\n", 0, error.start) + 1) from error


def _back_up(path: Path) -> Path:
    """Copy the file to the first free name of .bak, .bak2, .bak3, ...

    No backup is ever overwritten; an identical backup is used again.
    """
    number = 1
    content = path.read_bytes()
    while True:
        copy = path.with_name(f"{path.name}.bak{number if number > 1 else ''}")
        if not copy.exists():
            write_bytes(copy, content)
            shutil.copystat(path, copy)
            return copy
        if copy.read_bytes() == content:
            return copy
        number += 1


@contextmanager
def _folder(path: Path) -> Iterator[Any]:
    """Open the file's folder and yield its descriptor; None if folders can't be opened."""
    try:
        descriptor = os.open(path.parent, os.O_RDONLY)
    except OSError:
        descriptor = None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)
