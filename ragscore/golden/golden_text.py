"""A golden file's text with some fields changed, and its writing to disk.

Only the text of changed fields is written anew: of a list the changed items, of a row in braces
the changed members. So comments, order and spelling of everything else stay. The new text is parsed
again: if anything but what was meant differs, nothing is written.
"""

import gzip
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
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
WHITE = " \t\r\n\x85\u2028\u2029"  # what YAML takes for white; a no-break space is text
_BEHIND = re.compile(rf"(?:[{WHITE}]*(?:\n[ \t]*#[^\n]*)?)*\Z")  # blank lines, comments
_BLANK = re.compile(r"[ \t\r\n]*")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")  # JSON in YAML escapes them
_DECODER = json.JSONDecoder()
Values = dict[str, Any]
"""Value by field; in a change None removes the field."""
Edit = tuple[int, int, str]
"""Start and end of a part of the text, and what replaces it."""
Member = tuple[str, int, int, int]
"""A field of a row in braces: its name, where it begins, where its value begins and ends."""


@dataclass(frozen=True)
class GoldenText:
    """Text of a golden file (YAML by its name, else JSON lines), with its rows by id."""

    path: Path
    text: str

    @property
    def _body(self) -> str:
        return self.text.removeprefix(BOM)

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
                found = self._with(changes, wanted, whole)
                kept = {name: row.values for name, row in found.rows.items()}
                if list(kept) == list(wanted):
                    wrong[:] = [name for name in wanted if not same(kept[name], wanted[name])]
                    if not wrong:
                        return found
        name = next((name for name in changes if name in wrong), wrong[0])
        raise DataError(
            f"the row of {name} can't be changed alone", file=self.path,
            line=self.rows[name].line, allowed="a plain list of mappings; edit this row by hand",
        )  # fmt: skip

    def _with(
        self, changes: dict[str, Values], wanted: dict[str, Values], whole: list[str]
    ) -> "GoldenText":
        body, names = self._body, list(self.rows)
        is_yaml = self.path.name.removesuffix(".gz").endswith((".yaml", ".yml"))
        nodes = yaml_documents(body, self.path)[-1].value if is_yaml else []
        edits: list[Edit] = []
        for name, fields in changes.items():
            if is_yaml:
                node = nodes[names.index(name)]
                start, end = node.start_mark.index, _end(body, node, node.end_mark.index)
                members = [
                    (key.value, key.start_mark.index, value.start_mark.index, value.end_mark.index)
                    for key, value in node.value
                ]
            else:
                lines = body.split("\n")[: self.rows[name].line]
                start = sum(len(line) + 1 for line in lines[:-1])
                start, end = (
                    start + len(lines[-1]) - len(lines[-1].lstrip()),
                    start + len(lines[-1]),
                )
                end = start + len(body[start:end].rstrip())
                members = _json_members(body, start)
            if is_yaml and not node.flow_style:
                column = node.start_mark.column
                edits += (
                    [(start, end, _block(wanted[name], column))]
                    if name in whole
                    else _block_edits(body, node, self.rows[name].values, fields)
                )
            else:
                write = _json_text if not is_yaml or _is_json(body[start:end]) else flow_text
                text = (
                    write(wanted[name])
                    if name in whole
                    else _in_braces(body[: end - 1], start, members, fields, write) + "}"
                )
                edits.append((start, end, text))
        for start, end, new in sorted(edits, reverse=True):
            new = new.replace("\n", "\r\n") if "\r\n" in self.text else new
            body = body[:start] + new + body[end:]
        return GoldenText(self.path, self.text[: len(self.text) - len(self._body)] + body)

    def data(self) -> bytes:
        """Return the bytes of the file."""
        data = self.text.encode()
        return gzip.compress(data, mtime=0) if self.path.suffix == ".gz" else data


def _block_edits(body: str, row: Any, old: Values, fields: Values) -> list[Edit]:
    """Return the edits of a row whose fields have lines of their own."""
    column, edits, last = row.start_mark.column, list[Edit](), 0
    ends = [*(key.start_mark.index for key, _ in row.value[1:]), row.end_mark.index]
    for (key, value), limit in zip(row.value, ends, strict=True):
        name, start, end = key.value, key.start_mark.index, _end(body, value, limit)
        last, new = _line_end(body, end), fields.get(name)
        if name in fields and new is None:
            edits.append((body.rfind("\n", 0, start) + 1, last, ""))
        elif name in fields and isinstance(new, list) and new and _is_block_list(value):
            edits.append(_list_edit(body, value, end, old[name], new))
        elif name in fields:
            edits.append((start, end, _block({name: new}, column)))
    known = {key.value for key, _ in row.value}
    added = {name: new for name, new in fields.items() if name not in known and new is not None}
    if added:
        lines = " " * column + _block(added, column)
        edits.append((last, last, _as_lines(body, last, lines)))
    return edits


def _is_block_list(node: Any) -> bool:
    return isinstance(node, yaml.SequenceNode) and not node.flow_style


def _list_edit(body: str, node: Any, end: int, old: list[Any], new: list[Any]) -> Edit:
    """Return the edit of a list whose items have lines of their own; those that stay keep them."""
    dashes = [body.rindex("-", 0, item.start_mark.index) for item in node.value]
    first = body.rfind("\n", 0, dashes[0]) + 1
    limits = [*dashes[1:], end]
    ends = [
        _line_end(body, _end(body, item, limit))
        for item, limit in zip(node.value, limits, strict=True)
    ]
    parts = zip([first, *ends[:-1]], ends, strict=True)
    left = [(value, body[a:b].rstrip("\n")) for value, (a, b) in zip(old, parts, strict=True)]
    lines = []
    for item in new:
        place = next((n for n, (value, _) in enumerate(left) if same(value, item)), None)
        if place is not None:
            lines.append(left.pop(place)[1])
        elif isinstance(item, dict):
            written = yaml_text([{"items": [item]}]).rstrip("\n").split("\n")[1:]
            lines += [body[first : dashes[0]] + line[2:] for line in written]
        else:
            lines.append(f"{body[first : dashes[0]]}- {flow_text(item)}")
    has_end = body[ends[-1] - 1] == "\n"
    return first, ends[-1], "\n".join(lines).replace("\r", "") + "\n" * has_end


def _in_braces(
    body: str, start: int, members: list[Member], fields: Values, write: Callable[[Any], str]
) -> str:
    """Return a row in braces with some members changed, without its closing brace."""
    found, place = "{", start + 1
    for name, begin, value, end in members:
        lead = body[place:begin] if found != "{" else body[start + 1 : members[0][1]]
        place = end
        if name not in fields:
            found += lead + body[begin:end]
        elif fields[name] is not None:
            found += lead + body[begin:value] + write(fields[name])
    known = {name for name, *_ in members}
    for name, new in fields.items():
        if name not in known and new is not None:
            found += f"{', ' if found != '{' else ''}{write(name)}: {write(new)}"
    return found + body[place:]


def _json_members(text: str, start: int) -> list[Member]:
    """Return the members of the JSON object that begins there."""

    def skip(place: int) -> int:
        return _BLANK.match(text, place).end()  # type: ignore[union-attr]

    members, place = list[Member](), skip(start + 1)
    while text[place] != "}":
        name, end = _DECODER.raw_decode(text, place)
        value = skip(skip(end) + 1)
        end = _DECODER.raw_decode(text, value)[1]
        members.append((name, place, value, end))
        place = skip(end)
        place = skip(place + 1) if text[place] == "," else place
    return members


def _end(body: str, node: Any, limit: int) -> int:
    """Return where a value ends that goes on to a limit at most, without what stands behind it."""
    begin = node.start_mark.index
    is_scalar = isinstance(node, yaml.ScalarNode) and node.style not in ("|", ">")
    if is_scalar or getattr(node, "flow_style", False):
        limit = node.end_mark.index
    text = body[begin:limit].rstrip(WHITE)
    found = _BEHIND.search(text)
    return begin + (found.start() if found else len(text))


def _block(values: Values, column: int) -> str:
    """Return fields as lines of YAML, the first without its indent."""
    first, *others = yaml_text([values]).rstrip("\n").split("\n")
    return "\n".join([first[2:], *(" " * column + one[2:] if one else one for one in others)])


def _as_lines(text: str, place: int, lines: str) -> str:
    """Return lines for a position: a line's start, or the end of an unterminated text."""
    return lines + "\n" if text[place - 1 : place] == "\n" else "\n" + lines


def _line_end(text: str, place: int) -> int:
    """Return the start of the next line."""
    found = text.find("\n", place)
    return found + 1 if found >= 0 else len(text)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


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
