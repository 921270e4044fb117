"""A YAML list of mappings as `Row`s.

Scalars keep their spelling, and every fault is one with its line.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ragscore.frames.data import DataError
from ragscore.io.source import Problems, Row, WrittenDate, WrittenFloat, WrittenInt, open_text

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one is six times faster
_PREFIX = "tag:yaml.org,2002:"
_DEEPEST = 1000


def yaml_rows(path: Path, problems: Problems, text: str | None = None) -> Iterator[Row]:
    """One row per mapping of a top-level YAML list, each field with its own line.

    `text`, if given, is what the file holds.
    """
    root = _root(path, open_text(path) if text is None else text)
    if root is None:
        return
    if not isinstance(root, yaml.SequenceNode):
        raise DataError(
            f"the top level is a {_kind(root)}",
            file=path,
            line=_line(root),
            allowed="a list of questions",
        )
    builder = yaml.constructor.SafeConstructor()
    for node in root.value:
        if not isinstance(node, yaml.MappingNode):
            problems.add(
                f"found a {_kind(node)}", line=_line(node), allowed="a mapping with id and query"
            )
            continue
        try:
            values = _value(node, builder, problems, frozenset())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or node.start_mark
            problems.add(f"not valid YAML ({error.problem})", line=mark.line + 1)
            continue
        except RecursionError:
            problems.add("nested too deeply", line=_line(node))
            continue
        yield Row(values, _line(node), {key.value: _line(key) for key, _ in node.value})


def _root(path: Path, text: str) -> yaml.Node | None:
    try:
        _refuse_depth(text, path)
        return yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise DataError(
            f"not valid YAML ({error.problem or error.context})",
            file=path,
            line=mark.line + 1 if mark else None,
        ) from error
    except yaml.reader.ReaderError as error:
        raise DataError(
            f"not valid YAML ({error.reason})", file=path, line=_bad_line(text)
        ) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise DataError(f"not valid YAML ({error})", file=path, line=1) from error


def _refuse_depth(text: str, path: Path) -> None:
    """Composing recurses in C, where too deep a file ends the whole process.

    The events before it come one after the other.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if depth > _DEEPEST:
            line = event.start_mark.line + 1 if event.start_mark else None
            raise DataError(
                "nested too deeply",
                file=path,
                line=line,
                allowed=f"lists and mappings up to {_DEEPEST} deep",
            )


def _bad_line(text: str) -> int:
    """The line of the first character that YAML has no place for."""
    bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
    return text.count("\n", 0, bad.start() if bad else 0) + 1


def _value(node: yaml.Node, builder: Any, problems: Problems, above: frozenset[int]) -> Any:
    """The plain value of a node; `above` are the nodes that it stands in."""
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, builder)
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
    builder.flatten_mapping(node)  # takes in what `<<` names
    return {_key(key): _value(value, builder, problems, inside) for key, value in node.value}


def _scalar(node: yaml.ScalarNode, builder: Any) -> Any:
    tag = node.tag.removeprefix(_PREFIX)
    try:
        if tag in ("int", "float"):
            written = (
                WrittenInt(builder.construct_yaml_int(node))
                if tag == "int"
                else WrittenFloat(builder.construct_yaml_float(node))
            )
            written.text = node.value
            return written
        if tag in ("bool", "null"):
            return builder.construct_object(node)
    except (ValueError, KeyError, IndexError) as error:
        raise _fault(f"{str(node.value)[:60]!r} is no {tag}", node) from error
    return WrittenDate(node.value) if tag == "timestamp" else str(node.value)


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _fault(f"a key that is a {_kind(node)}", node)
    return str(node.value)


def _fault(found: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(None, None, found, node.start_mark)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _kind(node: yaml.Node) -> str:
    return (
        "mapping"
        if isinstance(node, yaml.MappingNode)
        else "list"
        if isinstance(node, yaml.SequenceNode)
        else "scalar"
    )
