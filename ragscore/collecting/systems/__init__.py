"""Systems under test: a Python callable, an HTTP endpoint, a command.

In: anything that `rs.collect` accepts as a system. Out: a `System`, which can be asked and says
which settings it accepts.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from ragscore.collecting.systems.base import (
    CARRIED,
    SETTINGS,
    AskError,
    Request,
    System,
)
from ragscore.collecting.systems.command import command_system
from ragscore.collecting.systems.function import function_system, two_step_system
from ragscore.collecting.systems.http import http_system, with_path
from ragscore.collecting.systems.mapping import Mapping, chatbot, read_mapping
from ragscore.frames.data import DataError, check_type
from ragscore.io.files import read_text
from ragscore.io.yaml_text import yaml_value

__all__ = [
    "ALLOWED",
    "ASK",
    "CARRIED",
    "SETTINGS",
    "AskError",
    "Given",
    "Mapping",
    "Request",
    "System",
    "as_system",
]

Given: TypeAlias = (
    "System | Callable[..., Any] | tuple[Callable[..., Any], Callable[..., Any]] | str |"
    " os.PathLike[str] | dict[str, Any] | list[str]"
)
ASK = "/api/v1/ask"


def _system_of_file(given: Any, name: str | None) -> System:
    file = Path(given)
    values = yaml_value(read_text(file), file)
    try:
        check_type(values, dict, "system", "a mapping: url, request, response, ...")
        return http_system(read_mapping(values), name or file.stem)
    except DataError as error:
        raise DataError(error.found, file=file, field=error.field, allowed=error.allowed) from None


# The kinds of systems, each in one line: what is told of it in errors, whether it is given, and the
# function that makes it a `System`. The first that fits is taken.
KINDS: tuple[tuple[str, Callable[[Any], bool], Callable[[Any, str | None], System]], ...] = (
    ("", lambda given: isinstance(given, System), lambda given, name: given),
    ("a callable", callable, function_system),
    (
        "a pair (search, answer)",
        lambda given: isinstance(given, tuple) and len(given) == 2 and all(map(callable, given)),
        lambda given, name: two_step_system(given[0], given[1], name),
    ),
    (
        "the address of a chatbot's ask endpoint",
        lambda given: isinstance(given, str) and given.startswith(("http://", "https://")),
        lambda given, name: http_system(chatbot(with_path(given, ASK)), name),
    ),
    (
        "a mapping of request and response fields (a dict, or a YAML file)",
        lambda given: isinstance(given, (str, os.PathLike))
        and Path(given).suffix in (".yaml", ".yml", ".json"),
        _system_of_file,
    ),
    (
        "",
        lambda given: isinstance(given, dict),
        lambda given, name: http_system(read_mapping(given), name),
    ),
    (
        "or a command as a list of texts",
        lambda given: isinstance(given, list)
        and bool(given)
        and all(isinstance(part, str) for part in given),
        command_system,
    ),
)  # fmt: skip
ALLOWED = ", ".join(told for told, *_ in KINDS if told)


def as_system(given: Given, name: str | None = None) -> System:
    """Return the system for any accepted form of one; see `rs.collect`.

    Raises
    ------
    DataError
        No accepted form, a mapping with an unknown field, an environment variable that a header
        names but that is not set, or httpx is missing.
    """
    for _, fits, make in KINDS:
        if fits(given):
            return make(given, name)
    # The value isn't shown: an address that is none may hold a key.
    raise DataError(f"found a {type(given).__name__}", field="system", allowed=ALLOWED)
