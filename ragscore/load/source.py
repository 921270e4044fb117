"""Files as records that still know their lines: JSON lines and YAML lists, with scalars as they were written.

In: a path. Out: `Row`s of plain Python values, or one `DataError`; `Problems` decides whether a fault stops the load.
"""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from ragscore.frames import DataError, from_records

_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one is six times faster
_YAML = "tag:yaml.org,2002:"


class WrittenInt(int):
    """A whole number that remembers its spelling, so that `id: 001` can stay 001."""

    text: str


class WrittenFloat(float):
    """A number that remembers its spelling, so that a version `1.10` can stay 1.10."""

    text: str


class WrittenDate(str):
    """An unquoted date: text for a note, refused as an id."""


@dataclass(frozen=True)
class Row:
    """One record of a file and where it stands: its first line, and the line of each field where that is known."""

    values: dict[str, Any]
    line: int
    lines: dict[str, int] = field(default_factory=dict)

    def line_of(self, name: str) -> int:
        """The line of a field, or of the record if that isn't known."""
        return self.lines.get(name, self.line)


class Problems:
    """Collects what can't be taken: the first fault stops a strict load, else each becomes a row of `problems`."""

    def __init__(self, file: Path | str, strict: bool) -> None:
        self.file, self.strict = str(file), strict
        self.records: list[dict[str, Any]] = []

    def add(self, found: str, *, line: int | None = None, field: str | None = None, allowed: str | None = None) -> None:
        """Take note of a fault, or stop here if the load is strict."""
        if self.strict:
            raise DataError(found, file=self.file, line=line, field=field, allowed=allowed)
        self.records.append({"file": self.file, "line": line, "field": field, "found": found, "allowed": allowed})

    def frame(self, run_id: str | None = None) -> pd.DataFrame:
        """What was noted, one row per fault; in a run's file, with the run's id."""
        return from_records([record | {"run_id": run_id} for record in self.records], "problems")


def open_text(path: Path) -> str:
    """The file's text (gzip if it ends in .gz, a byte-order mark dropped), or a DataError that names the byte."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError(f"byte {error.object[error.start]:#x} is not UTF-8", file=path, line=line, allowed="files must be UTF-8") from error
    except (FileNotFoundError, IsADirectoryError, gzip.BadGzipFile, EOFError) as error:
        raise DataError(f"can't be read: {error.args[-1] if error.args else error}", file=path) from error


def json_rows(path: Path, problems: Problems) -> Iterator[Row]:
    """One row per non-blank line; a line that isn't a JSON object is a problem of its own."""
    for number, line in enumerate(open_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line, object_pairs_hook=_unique_keys)
            if "\\ud" in line.lower():  # half a surrogate pair is no text, but json takes it
                json.dumps(values, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            found = f"not valid JSON ({error})" if not isinstance(error, RecursionError) else "nested too deeply"
            problems.add(found, line=number, allowed="one JSON object per line")
            continue
        if isinstance(values, dict):
            yield Row(values, number)
        else:
            problems.add(f"found {shown(values)}", line=number, allowed="one JSON object per line")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = sorted({key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1})
        raise ValueError(f"key {twice[0]!r} appears twice")
    return values


def yaml_rows(path: Path, problems: Problems) -> Iterator[Row]:
    """One row per mapping of a top-level YAML list, each field with its own line."""
    try:
        root = yaml.compose(open_text(path), Loader=_YAML_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise DataError(f"not valid YAML ({error.problem or error.context})", file=path, line=mark.line + 1 if mark else None) from error
    except yaml.YAMLError as error:
        raise DataError(f"not valid YAML ({error})", file=path) from error
    if root is None:
        return
    if not isinstance(root, yaml.SequenceNode):
        raise DataError(f"the top level is a {_node_kind(root)}", file=path, line=root.start_mark.line + 1, allowed="a list of questions")
    builder = yaml.constructor.SafeConstructor()
    for node in root.value:
        if not isinstance(node, yaml.MappingNode):
            problems.add(f"found a {_node_kind(node)}", line=node.start_mark.line + 1, allowed="a mapping with id and query")
            continue
        values = _from_node(node, builder, problems)
        lines = {key.value: key.start_mark.line + 1 for key, _ in node.value}
        yield Row(values, node.start_mark.line + 1, lines)


def _node_kind(node: yaml.Node) -> str:
    return "mapping" if isinstance(node, yaml.MappingNode) else "list" if isinstance(node, yaml.SequenceNode) else "scalar"


def _from_node(node: yaml.Node, builder: Any, problems: Problems) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_from_node(item, builder, problems) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                problems.add("the key appears twice", line=key.start_mark.line + 1, field=str(key.value), allowed="give each key once")
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
        builder.flatten_mapping(node)
        return {str(key.value): _from_node(value, builder, problems) for key, value in node.value}
    tag = node.tag.removeprefix(_YAML)
    if tag in ("int", "float"):
        written = WrittenInt(builder.construct_yaml_int(node)) if tag == "int" else WrittenFloat(builder.construct_yaml_float(node))
        written.text = node.value
        return written
    if tag in ("bool", "null"):
        return builder.construct_object(node)
    return WrittenDate(node.value) if tag == "timestamp" else str(node.value)


def as_text(value: Any) -> str | None:
    """Text as written: numbers keep their spelling; None for anything that isn't text or a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (WrittenInt, WrittenFloat)):
        return value.text
    if isinstance(value, (str, int)):
        return str(value)
    return repr(value) if isinstance(value, float) else None


def as_id(value: Any) -> str | None:
    """An id as written, never empty; None for booleans, dates, floats of JSON and whatever isn't an id."""
    if isinstance(value, WrittenDate) or (isinstance(value, float) and not isinstance(value, WrittenFloat)):
        return None
    return as_text(value) or None


def shown(value: Any) -> str:
    """A found value in an error message: its JSON, cut to a readable length, with its kind."""
    kind = {bool: "a boolean", dict: "a mapping", list: "a list", type(None): "nothing (null)"}.get(type(value))
    if kind is None:
        kind = "a date" if isinstance(value, WrittenDate) else "text" if isinstance(value, str) else "a number"
    if value is None:
        return kind
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"{kind}: {text if len(text) <= 60 else text[:57] + '...'}"
