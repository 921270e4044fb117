"""A golden file's text with some fields changed, and its writing to disk.

Only the text of changed fields is written anew, and of a list only the changed items: comments,
order and spelling of everything else stay. A row in braces, or a JSON line, is written anew as a
whole. The new text is parsed again: if anything but what was meant differs, nothing is written.
"""

import gzip
import json
import os
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from ragscore.frames.data import DataError
from ragscore.io.files import lines_of, read_bytes, write_bytes
from ragscore.io.golden_read import file_rows
from ragscore.io.golden_write import flow_text, yaml_text
from ragscore.io.source import Problems, Row, as_id
from ragscore.io.yaml_text import yaml_documents

BOM = "\ufeff"
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")  # JSON in YAML escapes them
Values = dict[str, Any]
"""Value by field; in a change None removes the field."""
Edit = tuple[int, int, str]
"""Start and end of a part of the text, and what replaces it."""


@dataclass(frozen=True)
class GoldenText:
    """Text of a golden file (YAML by its name, else JSON lines), with its rows by id."""

    path: Path
    text: str

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
        content = self.text.removeprefix(BOM)
        for row in file_rows(self.path, Problems(self.path, strict=True), content):
            query_id = as_id(row.values.get("id", row.values.get("query_id")))
            if query_id is None or query_id in rows:
                missing = "the field is missing or no id"
                raise DataError(
                    missing if query_id is None else f"{query_id} appears more than once",
                    file=self.path, line=row.line_of("id"), field="id",
                    allowed="ids must be there and unique",
                )  # fmt: skip
            rows[query_id] = row
        return rows

    def edited(self, changes: dict[str, Values]) -> "GoldenText":
        """Return the text with some fields of some rows changed.

        Raises
        ------
        DataError
            A row can't be changed alone, for example because it is an alias of another one.
        """
        wanted = {name: row.values for name, row in self.rows.items()}
        for name, fields in changes.items():
            gone = {field for field, value in fields.items() if value is None}
            both = wanted[name] | fields
            wanted[name] = {field: both[field] for field in both if field not in gone}
        wrong = list(changes)
        for whole in ([], wrong):  # changed fields, then the whole row where that isn't enough
            with suppress(DataError, LookupError, ValueError):
                after = self._replaced(changes, wanted, whole)
                if list(after.rows) == list(wanted):
                    rows = {name: row.values for name, row in after.rows.items()}
                    wrong[:] = [name for name in wanted if not same(rows[name], wanted[name])]
                    if not wrong:
                        return after
        name = next((name for name in changes if name in wrong), next(iter(changes)))
        raise DataError(
            f"the row of {name} can't be changed alone", file=self.path,
            line=self.rows[name].line, allowed="a plain list of mappings; edit this row by hand",
        )  # fmt: skip

    def _replaced(
        self, changes: dict[str, Values], wanted: dict[str, Values], whole: list[str]
    ) -> "GoldenText":
        """Return the text with the changed fields of some rows, and with some rows written anew."""
        mark = BOM if self.text.startswith(BOM) else ""
        body = self.text.removeprefix(BOM)
        line_end = "\r\n" if "\r\n" in body else "\n"
        last = "" if body.endswith("\n") else line_end  # every line ends while it is edited
        body, edits = body + last, list[Edit]()
        is_yaml = self.path.name.removesuffix(".gz").endswith((".yaml", ".yml"))
        nodes = yaml_documents(body, self.path)[-1].value if is_yaml else []
        for name, fields in changes.items():
            row = self.rows[name]
            if is_yaml:
                node = nodes[[*self.rows].index(name)]
                edits += _row_edits(body, node, row.values, fields, wanted[name], name in whole)
            else:
                *before, line = body.split("\n")[: row.line]
                place = sum(len(one) + 1 for one in before)
                edits.append((place, place + len(line.rstrip()), _json_text(wanted[name])))
        for start, end, text in sorted(edits, reverse=True):
            body = body[:start] + re.sub("\r?\n", line_end, text) + body[end:]
        return GoldenText(self.path, mark + body.removesuffix(last))

    def data(self) -> bytes:
        """Return the bytes of the file."""
        data = self.text.encode()
        return gzip.compress(data, mtime=0) if self.path.suffix == ".gz" else data


def _row_edits(
    body: str, row: Any, old: Values, fields: Values, wanted: Values, is_whole: bool
) -> list[Edit]:
    """Return the edits of a row of YAML: of its changed fields, or of the whole row."""
    start, end, column = row.start_mark.index, _end(body, row, row), row.start_mark.column
    if row.flow_style:
        is_json = body[row.value[0][0].start_mark.index] == '"'
        return [(start, end, _json_text(wanted) if is_json else flow_text(wanted))]
    if is_whole:
        return [(start, end, _block(wanted, column))]
    edits = list[Edit]()
    for key, value in row.value:
        name, start, end = key.value, key.start_mark.index, _end(body, key, value)
        new = fields.get(name)
        if name in fields and new is None:
            edits.append((body.rfind("\n", 0, start) + 1, body.index("\n", end) + 1, ""))
        elif new and isinstance(new, list) and isinstance(old[name], list) and _has_lines(value):
            edits.append(_list_edit(body, value, end, old[name], new))
        elif name in fields:
            edits.append((start, end, _block({name: new}, column)))
    known = {key.value for key, _ in row.value}
    added = {name: new for name, new in fields.items() if name not in known and new is not None}
    if added:
        place = body.index("\n", end) + 1
        edits.append((place, place, " " * column + _block(added, column) + "\n"))
    return edits


def _has_lines(node: Any) -> bool:
    """Return whether a value is a list or mapping whose items have lines of their own."""
    return isinstance(node, yaml.CollectionNode) and not node.flow_style and bool(node.value)


def _list_edit(body: str, node: Any, end: int, old: list[Any], new: list[Any]) -> Edit:
    """Return the edit of a list whose items have lines of their own; those that stay keep them."""
    starts = [body.rindex("\n", 0, one.start_mark.index) + 1 for one in node.value]
    last = body.index("\n", end) + 1
    indent = " " * (body.index("-", starts[0]) - starts[0])
    left = [
        (value, body[a:b]) for value, (a, b) in zip(old, pairwise([*starts, last]), strict=True)
    ]
    text = ""
    for item in new:
        place = next((n for n, (value, _) in enumerate(left) if same(value, item)), None)
        if place is not None:
            text += left.pop(place)[1]
        elif isinstance(item, dict):
            text += textwrap.indent(yaml_text([item]), indent)
        else:
            text += f"{indent}- {flow_text(item)}\n"
    return starts[0], last, text


def _end(body: str, key: Any, node: Any) -> int:
    """Return where a field's value ends, without the blank lines and comments behind it."""
    while _has_lines(node):
        last = node.value[-1]
        key, node = last if isinstance(last, tuple) else (last, last)
        if node.start_mark.index < key.start_mark.index:
            break
    start = key.start_mark.index
    if node.start_mark.index < start:  # an alias
        return body.index("\n", start)
    return start + len(body[start : node.end_mark.index].rstrip(" \t\r\n"))


def _block(values: Values, column: int) -> str:
    """Return fields as lines of YAML, the first without its indent, the last without its end."""
    first, *others = yaml_text([values]).rstrip("\n").split("\n")
    return "\n".join([first[2:], *(" " * column + one[2:] if one else one for one in others)])


def _json_text(value: Any) -> str:
    written = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


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


def read_golden_text(path: Path) -> GoldenText:
    """Read a golden file's text, with its line ends and byte-order mark."""
    if not path.name.removesuffix(".gz").endswith((".yaml", ".yml", ".jsonl", ".json")):
        raise DataError(
            f"found {path.name!r}", field="golden_file",
            allowed="a golden file that ends in .yaml, .yml or .jsonl (and perhaps .gz)",
        )  # fmt: skip
    data = read_bytes(path)
    lines_of(data, path)  # refuses what isn't UTF-8
    return GoldenText(path, data.decode())


def change_file(path: Path, action: Callable[[GoldenText], GoldenText]) -> None:
    """Read a golden file, change its text and replace it, in one step; others wait meanwhile.

    Before its first change a copy is kept (.bak), which is never replaced. Waiting needs a system
    with file locks.

    Raises
    ------
    DataError
        The file can't be written; it is as it was.
    """
    with _alone(path.parent):
        before = read_golden_text(path)
        after = action(before)
        if after.text != before.text:
            copy = path.with_name(f"{path.name}.bak")
            if not copy.exists():
                write_bytes(copy, path.read_bytes())
                shutil.copystat(path, copy)
            write_bytes(path, after.data())


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock out others; the lock ends with the descriptor, however this process ends."""
    descriptor = None
    with suppress(ImportError, OSError):
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
