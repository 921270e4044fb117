"""YAML text within limits: rows that know their lines, events, plain values, and text of rows.

A few hundred bytes of aliases of aliases can mean billions of values, so the values are counted
before any of them is made. Nesting is limited, too: composing it recurses in C.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from ragscore.frames.errors import DataError
from ragscore.io.files import LIFT, has_limits
from ragscore.io.source import DEEPEST, Problems, Row, YamlDate, YamlFloat, YamlInt

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one is six times faster
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
FREE_VALUES, VALUES_PER_BYTE = 100_000, 4
"""How many values aliases may make of a file: lists of documents that many queries share fit in."""
LONGEST_NUMBER = 2000
"""Characters of a number: Python writes no longer ones, and `1:59:59…` has 1.8 digits in three."""
_PREFIX = "tag:yaml.org,2002:"


def yaml_documents(text: str, file: Path | str) -> list[yaml.Node]:
    """Return the nodes of the documents of a YAML text.

    Raises
    ------
    DataError
        Not YAML; nested more than 100 deep; or the aliases (`*name`, also as `<<: *name`) mean
        more values than the text may have. It names the line.
    """
    with _checked(text, file):
        return list(yaml.compose_all(text, Loader=LOADER))


def yaml_value(text: str, file: Path | str) -> Any:
    """Return the plain value of a YAML text with one document; see `yaml_documents`."""
    with _checked(text, file):
        return yaml.load(text, Loader=LOADER)


def _check_size(text: str, file: Path | str) -> None:
    """Raise a DataError for deep nesting, and for aliases that mean too many values.

    Parsing into events neither recurses nor follows aliases.
    """
    most = FREE_VALUES + VALUES_PER_BYTE * len(text) if has_limits() else math.inf
    n_values = 0  # with what aliases mean
    around: list[tuple[str | None, int]] = []  # anchor of each open list or mapping, where it began
    sizes: dict[str | None, int] = {}
    event: Any
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, begin = around.pop()
            sizes[anchor] = n_values - begin
        elif isinstance(event, yaml.CollectionStartEvent):
            around.append((event.anchor, n_values))
        if isinstance(event, yaml.NodeEvent):  # an alias in its own value is refused later
            is_alias = isinstance(event, yaml.AliasEvent)
            n_values += sizes.get(event.anchor, 1) if is_alias else 1
        if n_values > most or len(around) > DEEPEST:
            raise DataError(
                f"nested {len(around)} deep, or aliases (*{event.anchor}) for {n_values:,} values",
                file=file,
                line=_line(event),
                allowed=f"up to {DEEPEST} deep, and {FREE_VALUES:,} values and {VALUES_PER_BYTE}"
                f" per character; write the values out, or {LIFT}",
            )


def _line(found: Any) -> int:
    return int(found.start_mark.line) + 1


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
            allowed="one list of queries; rs.load_golden(yaml.safe_load(text)) takes other shapes",
        )
    for node in roots[0].value if roots else ():
        if not isinstance(node, yaml.MappingNode):
            problems.add(
                f"found a {node.id}", line=_line(node), allowed="a mapping with id and query"
            )
            continue
        try:
            values = loader.construct_object(node, deep=True)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else None
            problems.add(f"not valid YAML ({error.problem})", line=line, field=error.context)
        else:
            yield Row(values, _line(node), {key.value: _line(key) for key, _ in node.value})


class _Spelled(LOADER):  # type: ignore[misc, valid-type]
    """Keeps the spelling of numbers and dates; what has another tag is text."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[str, Any]:
    """Return the value of a mapping; an error has the outermost key as its context."""
    stated = [key.value for key, _ in node.value]
    for n, (key, _) in enumerate(node.value):
        if not isinstance(key, yaml.ScalarNode) or key.value in stated[:n]:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            raise yaml.MarkedYAMLError(
                name,
                problem="a key that appears twice, or is a list or mapping",
                problem_mark=key.start_mark,
            )
    loader.flatten_mapping(node)  # merges the mappings that `<<` names
    values = {}
    for key, value in node.value:
        try:
            values[key.value] = loader.construct_object(value, deep=True)
        except yaml.MarkedYAMLError as error:
            error.context = key.value
            raise
    return values


def _number(loader: Any, node: yaml.ScalarNode) -> Any:
    name = node.tag.removeprefix(_PREFIX)
    found: Any = math.inf
    with suppress(ValueError, OverflowError):
        if len(node.value) <= LONGEST_NUMBER:
            found = _NUMBERS[name](getattr(loader, f"construct_yaml_{name}")(node))
    if found in (math.inf, -math.inf):
        problem = f"{node.value[:60]!r} is no {name}"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    found.text = node.value
    return None if found != found else found  # NaN


_NUMBERS: dict[str, Any] = {"int": YamlInt, "float": YamlFloat}
_Spelled.add_constructor(f"{_PREFIX}map", _mapping)
_Spelled.add_constructor(f"{_PREFIX}int", _number)
_Spelled.add_constructor(f"{_PREFIX}float", _number)
_Spelled.add_constructor(f"{_PREFIX}timestamp", lambda loader, node: YamlDate(node.value))
_Spelled.add_multi_constructor("", lambda loader, tag, node: loader.construct_scalar(node))


class _Entry(dict[str, Any]):
    """A query's mapping, which gets lines of its own however short it is."""


class _Dumper(_DUMPER):  # type: ignore[misc, valid-type]
    """Writes one query per block, without folded lines or anchors, so that a diff stays small.

    Numbers and dates that were read from YAML keep their spelling.
    """

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    _Entry, lambda dumper, row: dumper.represent_mapping(f"{_PREFIX}map", row.items(), False)
)
_Dumper.add_representer(
    YamlInt, lambda dumper, number: dumper.represent_scalar(f"{_PREFIX}int", number.text)
)
_Dumper.add_representer(
    YamlFloat, lambda dumper, number: dumper.represent_scalar(f"{_PREFIX}float", number.text)
)
_Dumper.add_representer(
    YamlDate, lambda dumper, date: dumper.represent_scalar(f"{_PREFIX}timestamp", str(date))
)


def yaml_text(rows: list[dict[str, Any]]) -> str:
    """Return rows as a YAML list with short values on one line."""
    return _dump([_Entry(row) for row in rows], flow=None)


def flow_text(value: Any) -> str:
    """Return a value as YAML on one line, in braces and brackets."""
    return _dump([value], flow=True).strip()[1:-1]


def _dump(value: Any, flow: bool | None) -> str:
    try:
        return str(
            yaml.dump(
                value,
                Dumper=_Dumper,
                sort_keys=False,
                allow_unicode=True,
                width=2**31 - 1,
                default_flow_style=flow,
            )
        )
    except yaml.representer.RepresenterError as error:
        raise DataError(
            f"YAML has no place for {error.args[-1]!r}",
            field="queries.x_",
            allowed="text, numbers, true or false",
        ) from error


@contextmanager
def _checked(text: str, file: Path | str) -> Iterator[None]:
    """Check the size of a text, and name the file and line of what is wrong with it."""
    try:
        _check_size(text, file)
        yield
    except DataError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        reason, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
        reason = reason or getattr(error, "context", None) or getattr(error, "reason", error)
        bad = yaml.reader.Reader.NON_PRINTABLE.search(text)  # what YAML doesn't allow
        line = mark.line if mark else text.count("\n", 0, bad.start() if bad else 0)
        raise DataError(f"not valid YAML ({reason})", file=file, line=line + 1) from error
