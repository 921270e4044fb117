"""A golden file's text with some fields of some rows changed, and its writing to disk.

A changed field is rewritten; in braces or a JSON line, its whole row. Comments, order and spelling
of everything else stay.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from ragscore.io.files import write_bytes, write_text
from ragscore.io.golden_read import file_rows
from ragscore.io.source import Problems, Row, as_id
from ragscore.io.yaml_text import flow_text, yaml_documents, yaml_text

BOM = "\ufeff"
# Value by field; in a change None removes the field.
Values = dict[str, Any]
# Start and end of a part of the text, and what replaces it.
Edit = tuple[int, int, str]


@dataclass(frozen=True)
class GoldenText:
    """Text of a golden file (YAML by its name, else JSON lines), with its rows by id."""

    path: Path
    text: str

    @cached_property
    def rows(self) -> dict[str, Row]:
        """Rows by id, in the order of the file."""
        rows = file_rows(self.path, Problems(self.path, strict=True), self.text.removeprefix(BOM))
        return {str(as_id(row.values.get("id", row.values.get("query_id")))): row for row in rows}

    def edited(self, changes: dict[str, Values]) -> "GoldenText":
        """Return the text with some fields of some rows changed."""
        mark = BOM if self.text.startswith(BOM) else ""
        body = self.text.removeprefix(BOM)
        line_end = "\r\n" if "\r\n" in body else "\n"
        last = "" if body.endswith("\n") else line_end  # every line ends while it is edited
        body, edits = body + last, list[Edit]()
        is_yaml = self.path.name.removesuffix(".gz").endswith((".yaml", ".yml"))
        nodes = yaml_documents(body, self.path)[-1].value if is_yaml else []
        for place, (name, row) in enumerate(self.rows.items()):
            fields = changes.get(name, {})
            values = {field: one for field, one in (row.values | fields).items()
                      if one is not None or field not in fields}  # fmt: skip
            if fields and is_yaml:
                edits += _row_edits(body, nodes[place], fields, values)
            elif fields:
                *before, line = body.split("\n")[: row.line]
                start = sum(len(one) + 1 for one in before)
                edits.append(
                    (start, start + len(line.rstrip()), json.dumps(values, ensure_ascii=False))
                )
        for start, end, text in sorted(edits, reverse=True):
            body = body[:start] + re.sub("\r?\n", line_end, text) + body[end:]
        return GoldenText(self.path, mark + body.removesuffix(last))


def _row_edits(body: str, row: Any, fields: Values, values: Values) -> list[Edit]:
    """Return the edits of a row of YAML: of its changed fields, or of a whole row in braces."""
    column = row.start_mark.column
    if row.flow_style:
        return [(row.start_mark.index, row.end_mark.index, flow_text(values))]
    edits, added = list[Edit](), {name: new for name, new in fields.items() if new is not None}
    for key, value in row.value:
        start, end = key.start_mark.index, _end(body, key, value)
        if key.value in added:
            edits.append((start, end, _block({key.value: added.pop(key.value)}, column)))
        elif key.value in fields:
            edits.append((body.rindex("\n", 0, start) + 1, body.index("\n", end) + 1, ""))
    if added:
        place = body.index("\n", end) + 1
        edits.append((place, place, " " * column + _block(added, column) + "\n"))
    return edits


def _end(body: str, key: Any, node: Any) -> int:
    """Return where a field's value ends, without the blank lines and comments behind it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    start = key.start_mark.index
    return start + len(body[start : node.end_mark.index].rstrip(" \t\r\n"))


def _block(values: Values, column: int) -> str:
    """Return fields as lines of YAML, the first without its indent, the last without its end."""
    first, *others = yaml_text([values]).rstrip("\n").split("\n")
    return "\n".join([first[2:], *(" " * column + one[2:] if one else one for one in others)])


def write_golden_text(content: GoldenText) -> None:
    """Replace a golden file. Before its first change a copy is kept (.bak), never replaced.

    Raises
    ------
    DataError
        The file can't be written; it is as it was.
    """
    copy = content.path.with_name(f"{content.path.name}.bak")
    if not copy.exists():
        write_bytes(copy, content.path.read_bytes())
        shutil.copystat(content.path, copy)
    write_text(content.path, content.text)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder's golden files; others wait meanwhile, where a system has file locks.

    The lock ends with the descriptor, however this process ends.
    """
    with ExitStack() as opened:
        with suppress(ImportError, OSError):
            import fcntl

            descriptor = os.open(folder, os.O_RDONLY)
            opened.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
