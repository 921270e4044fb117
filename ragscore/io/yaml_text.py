"""YAML text within limits: rows that know their lines, events, plain values. All YAML is read here.

A few hundred bytes of aliases of aliases stand for billions of values, so the values are counted
before any of them is made. Nesting is limited, too: composing it recurses in C.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import yaml

from ragscore.frames.errors import DataError
from ragscore.io.files import has_limits
from ragscore.io.source import DEEPEST, Problems, Row, YamlDate, YamlFloat, YamlInt

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one is six times faster
FREE_VALUES, VALUES_PER_BYTE = 100_000, 4
"""How many values aliases may make of a file: lists of documents that many queries share fit in."""
LONGEST_NUMBER = 2000
"""Characters of a number: Python writes no longer ones, and `1:59:59…` has 1.8 digits in three."""
_PREFIX = "tag:yaml.org,2002:"


def _check_size(text: str, file: Path | str) -> None:
    """Raise a DataError for deep nesting, and for aliases that stand for too many values.

    Parsing into events neither recurses nor follows aliases.
    """
    most = FREE_VALUES + VALUES_PER_BYTE * len(text) if has_limits() else math.inf
    n_values = 0  # with what aliases stand for
    around: list[tuple[str | None, int]] = []  # anchor of each open list or mapping, where it began
    sizes: dict[str | None, int] = {}
    with _yaml_faults(text, file):
        for event in yaml.parse(text, Loader=LOADER):
            if isinstance(event, yaml.AliasEvent):
                n_values += sizes.get(event.anchor, 1)  # one in its own value is refused later
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = around.pop()
                sizes[anchor] = n_values - before
            elif isinstance(event, yaml.NodeEvent):
                if isinstance(event, yaml.CollectionStartEvent):
                    around.append((event.anchor, n_values))
                n_values += 1
                sizes[event.anchor] = 1
            if n_values > most and isinstance(event, yaml.AliasEvent):
                raise DataError(
                    f"with alias *{event.anchor} the file stands for more than {most:,} values",
                    file=file,
                    line=_line(event),
                    allowed=f"up to {FREE_VALUES:,} and {VALUES_PER_BYTE} per character;"
                    " write the values out, or load it with max_bytes=None",
                )
            if len(around) > DEEPEST:
                raise DataError(TOO_DEEP, file=file, line=_line(event))


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


TOO_DEEP = f"nested too deeply: lists and mappings up to {DEEPEST} deep are read"


def yaml_documents(text: str, file: Path | str) -> list[yaml.Node]:
    """Return the nodes of the documents of a YAML text.

    Raises
    ------
    DataError
        Not YAML; nested more than 100 deep; or the aliases (`*name`, also as `<<: *name`) stand
        for more values than the text may have. It names the line.
    """
    _check_size(text, file)
    with _yaml_faults(text, file):
        return list(yaml.compose_all(text, Loader=LOADER))


def yaml_value(text: str, file: Path | str) -> Any:
    """Return the plain value of a YAML text with one document.

    Raises
    ------
    DataError
        As `yaml_documents`.
    """
    _check_size(text, file)
    with _yaml_faults(text, file):
        return yaml.load(text, Loader=LOADER)


def yaml_rows(text: str, path: Path, problems: Problems) -> Iterator[Row]:
    """Yield one row per mapping of a YAML list, each field with its own line.

    Numbers and dates keep their spelling. A row in which something can't be read is a problem.
    """
    roots: list[Any] = yaml_documents(text, path)
    loader = _Spelled("")
    for root in roots[1:] or [one for one in roots if not isinstance(one, yaml.SequenceNode)]:
        raise DataError(
            f"{len(roots)} documents (divided by ---)" if roots[1:] else f"found a {root.id}",
            file=path,
            line=_line(root),
            allowed="one list of queries",
        )
    for node in roots[0].value if roots else ():
        line = _line(node)
        if not isinstance(node, yaml.MappingNode):
            problems.add(f"found a {node.id}", line=line, allowed="a mapping with id and query")
            continue
        keys = [key for key, _ in node.value]  # making the values takes out `<<`
        try:
            values = loader.construct_object(node, deep=True)
        except yaml.MarkedYAMLError as error:
            place: Any = error.problem_mark
            end = (place.line, place.column)
            begins = [(key.start_mark.line, key.start_mark.column) for key in keys]
            before = [key.value for key, at in zip(keys, begins, strict=True) if at <= end]
            problems.add(
                f"not valid YAML ({error.problem})",
                line=place.line + 1,
                field=str(before[-1]) if before else None,
            )
            continue
        yield Row(values, line, {key.value: _line(key) for key, _ in node.value})


def _made(loader: Any, tag: str, node: yaml.Node) -> Any:
    """Return the value of a node: numbers with their spelling, whatever else is no list as text."""
    if isinstance(node, yaml.SequenceNode):
        return [loader.construct_object(one, deep=True) for one in node.value]
    if isinstance(node, yaml.ScalarNode):
        return _scalar(loader, tag.removeprefix(_PREFIX), node)
    keys = [key.value for key, _ in node.value]
    for n, (key, _) in enumerate(node.value):
        if not isinstance(key, yaml.ScalarNode) or key.value in keys[:n]:
            found = "a key that is a list or a mapping"
            if isinstance(key, yaml.ScalarNode):
                found = f"the key {key.value!r} appears twice"
            raise yaml.MarkedYAMLError(problem=found, problem_mark=key.start_mark)
    loader.flatten_mapping(node)  # merges the mappings that `<<` names
    return {key.value: loader.construct_object(value, deep=True) for key, value in node.value}


def _scalar(loader: Any, tag: str, node: yaml.ScalarNode) -> Any:
    try:
        if tag == "bool":
            return loader.bool_values[node.value.lower()]
        if tag in _NUMBERS:
            if len(node.value) > LONGEST_NUMBER:
                raise ValueError
            found = _NUMBERS[tag](getattr(loader, f"construct_yaml_{tag}")(node))
            if found in (math.inf, -math.inf):
                raise ValueError
            found.text = node.value
            return None if found != found else found  # NaN
    except (ValueError, OverflowError, LookupError) as error:
        problem = f"{node.value[:60]!r} is no {tag}"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from error
    if tag == "null":
        return None
    return YamlDate(node.value) if tag == "timestamp" else node.value


_NUMBERS: dict[str, Any] = {"int": YamlInt, "float": YamlFloat}


class _Spelled(LOADER):  # type: ignore[misc, valid-type]
    yaml_constructors: ClassVar[dict[str, Any]] = {}
    yaml_multi_constructors: ClassVar[dict[str, Any]] = {"": _made}


@contextmanager
def _yaml_faults(text: str, file: Path | str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except yaml.MarkedYAMLError as error:
        mark, problem = error.problem_mark or error.context_mark, error.problem or error.context
        line = mark.line + 1 if mark else None
        raise DataError(f"not valid YAML ({problem})", file=file, line=line) from error
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        bad = yaml.reader.Reader.NON_PRINTABLE.search(text)  # what YAML doesn't allow
        line = text.count("\n", 0, bad.start() if bad else 0) + 1
        told = getattr(error, "reason", str(error))
        raise DataError(f"not valid YAML ({told})", file=file, line=line) from error
