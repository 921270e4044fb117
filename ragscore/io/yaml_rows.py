"""Rows of a YAML list: scalars keep their spelling, and every fault has its line."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ragscore.frames.data import DataError
from ragscore.io.file_content import read_text
from ragscore.io.source import DEEPEST, Problems, Row, YamlDate, YamlFloat, YamlInt
from ragscore.io.yaml_text import yaml_documents

_PREFIX = "tag:yaml.org,2002:"
LONGEST_NUMBER = 2000
"""Characters of a number: Python writes no longer ones, and `1:59:59…` has 1.8 digits in three."""


def yaml_rows(path: Path, problems: Problems, text: str | None = None) -> Iterator[Row]:
    """Yield one row per mapping of a YAML list, each field with its own line.

    Pass `text` if the file's content is at hand.
    """
    documents = yaml_documents(read_text(path) if text is None else text, path)
    if not documents:
        return
    root = documents[0]
    if len(documents) > 1 or not isinstance(root, yaml.SequenceNode):
        raise DataError(
            f"the top level is a {_kind(root)}"
            if len(documents) == 1
            else f"{len(documents)} documents (divided by ---)",
            file=path,
            line=_line(root),
            allowed="one list of queries",
        )
    builder = yaml.constructor.SafeConstructor()
    for node in root.value:
        if not isinstance(node, yaml.MappingNode):
            problems.add(
                f"found a {_kind(node)}", line=_line(node), allowed="a mapping with id and query"
            )
            continue
        keys = [key for key, _ in node.value]  # making the values takes out `<<`
        try:
            values = _value(node, builder, problems, frozenset())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or node.start_mark
            problems.add(
                f"not valid YAML ({error.problem})", line=mark.line + 1, field=_field_at(keys, mark)
            )
            continue
        yield Row(values, _line(node), {key.value: _line(key) for key, _ in node.value})


def _field_at(keys: list[yaml.Node], mark: yaml.Mark) -> str | None:
    """Return the field of a row in which a place of the text is; None if it has no name."""
    last = None
    for key in keys:
        if (key.start_mark.line, key.start_mark.column) <= (mark.line, mark.column):
            last = key
    return str(last.value) if isinstance(last, yaml.ScalarNode) else None


def _value(node: yaml.Node, builder: Any, problems: Problems, above: frozenset[int]) -> Any:
    """Return the plain value of a node; `above` are the ids of the nodes around it."""
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, builder)
    if len(above) > DEEPEST:
        raise _fault("nested too deeply", node)
    if id(node) in above:
        raise _fault("an alias of something that it stands in", node)
    inside = above | {id(node)}
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, builder, problems, inside) for item in node.value]
    seen: set[str] = set()
    for key, _ in node.value:
        if _key(key) in seen:
            problems.add(
                "the key appears twice",
                line=_line(key),
                field=_key(key),
                allowed="give each key once",
            )
        seen.add(_key(key))
    builder.flatten_mapping(node)  # merges the mappings that `<<` names
    return {_key(key): _value(value, builder, problems, inside) for key, value in node.value}


def _scalar(node: yaml.ScalarNode, builder: Any) -> Any:
    tag = node.tag.removeprefix(_PREFIX)
    try:
        if tag in ("int", "float"):
            if len(node.value) > LONGEST_NUMBER:
                raise ValueError
            written = (
                YamlInt(builder.construct_yaml_int(node))
                if tag == "int"
                else YamlFloat(builder.construct_yaml_float(node))
            )
            written.text = node.value
            if isinstance(written, YamlFloat):
                if math.isinf(written):
                    raise ValueError
                return None if math.isnan(written) else written
            return written
        if tag in ("bool", "null"):
            return builder.construct_object(node)
    except (ValueError, OverflowError, KeyError, IndexError) as error:
        raise _fault(f"{str(node.value)[:60]!r} is no {tag}", node) from error
    return YamlDate(node.value) if tag == "timestamp" else str(node.value)


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _fault(f"a key that is a {_kind(node)}", node)
    return str(node.value)


def _fault(found: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(None, None, found, node.start_mark)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _kind(node: yaml.Node) -> str:
    kinds: dict[type, str] = {yaml.MappingNode: "mapping", yaml.SequenceNode: "list"}
    return kinds.get(type(node), "scalar")
