"""YAML text within limits: events, nodes and plain values.

All YAML is read here. A few hundred bytes of aliases of aliases stand for billions of values, so
the values are counted before any of them is made. Nesting is limited, too: composing it recurses
in C and would end the process.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from ragscore.frames.errors import DataError
from ragscore.io.file_content import has_limits

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one is six times faster
DEEPEST = 1000
"""The deepest nesting that is composed; a row of a golden file may be nested 100 deep."""
FREE_VALUES, VALUES_PER_BYTE = 100_000, 4
"""How many values aliases may make of a file: lists of documents that many queries share fit in."""


def yaml_events(text: str, file: Path | str) -> Iterator[yaml.Event]:
    """Yield the events of a YAML text, after the values that they stand for have been counted.

    Raises
    ------
    DataError
        Not YAML; nested more than 1,000 deep; or the aliases (`*name`, also as `<<: *name`) stand
        for more values than the text may have. It names the line.
    """
    _check_size(text, file)
    with _yaml_faults(text, file):
        yield from yaml.parse(text, Loader=LOADER)


def yaml_documents(text: str, file: Path | str) -> list[yaml.Node]:
    """Return the nodes of the documents of a YAML text.

    Raises
    ------
    DataError
        As `yaml_events`.
    """
    _check_size(text, file)
    with _yaml_faults(text, file):
        return list(yaml.compose_all(text, Loader=LOADER))


def yaml_value(text: str, file: Path | str) -> Any:
    """Return the plain value of a YAML text with one document.

    Raises
    ------
    DataError
        As `yaml_events`.
    """
    _check_size(text, file)
    with _yaml_faults(text, file):
        try:
            return yaml.load(text, Loader=LOADER)
        except (ValueError, OverflowError, RecursionError) as error:  # a date or a number
            raise yaml.YAMLError(str(error) or "nested too deeply") from error


@contextmanager
def _yaml_faults(text: str, file: Path | str) -> Iterator[None]:
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        problem = str(error.problem or error.context)
        if "nesting depth" in problem:  # newer libyaml ends before `_check_size` does
            raise _too_deep(file, line) from error
        raise DataError(f"not valid YAML ({problem})", file=file, line=line) from error
    except yaml.reader.ReaderError as error:
        # of the first character that YAML doesn't allow
        bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
        raise DataError(
            f"not valid YAML ({error.reason})",
            file=file,
            line=text.count("\n", 0, bad.start() if bad else 0) + 1,
        ) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise DataError(f"not valid YAML ({error})", file=file, line=1) from error


def _check_size(text: str, file: Path | str) -> None:
    """Raise a DataError for deep nesting, and for aliases that stand for too many values.

    Parsing into events neither recurses nor follows aliases.
    """
    most = FREE_VALUES + VALUES_PER_BYTE * len(text) if has_limits() else math.inf
    n_values = 0  # with what aliases stand for
    around: list[tuple[str | None, int]] = []  # anchor of each open list or mapping, where it began
    sizes: dict[str, int] = {}
    with _yaml_faults(text, file):
        for event in yaml.parse(text, Loader=LOADER):
            if isinstance(event, yaml.AliasEvent):
                # One in its own value is refused where values are made.
                n_values += sizes.get(str(event.anchor), 1)
                if n_values > most:
                    raise DataError(
                        f"with alias *{event.anchor} the file stands for more than {most:,} values",
                        file=file,
                        line=_line(event),
                        allowed=f"up to {FREE_VALUES:,} and {VALUES_PER_BYTE} per character;"
                        " write the values out, or load it with max_bytes=None",
                    )
            elif isinstance(event, yaml.ScalarEvent):
                n_values += 1
                if event.anchor:
                    sizes[event.anchor] = 1
            elif isinstance(event, yaml.CollectionStartEvent):
                around.append((event.anchor, n_values))
                n_values += 1
                if len(around) > DEEPEST:
                    raise _too_deep(file, _line(event))
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = around.pop()
                if anchor:
                    sizes[anchor] = n_values - before


def _too_deep(file: Path | str, line: int | None) -> DataError:
    allowed = f"lists and mappings up to {DEEPEST} deep"
    return DataError("nested too deeply", file=file, line=line, allowed=allowed)


def _line(event: yaml.Event) -> int | None:
    return event.start_mark.line + 1 if event.start_mark else None
