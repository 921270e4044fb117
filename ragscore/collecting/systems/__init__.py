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
    command_system,
)
from ragscore.collecting.systems.function import function_system, two_step_system
from ragscore.collecting.systems.http import http_system, with_path
from ragscore.collecting.systems.mapping import Mapping, chatbot, read_mapping
from ragscore.frames.errors import DataError
from ragscore.io.file_content import read_text
from ragscore.io.secrets import Redactor
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
ALLOWED = (
    "a callable, a pair (search, answer), the address of a chatbot's ask endpoint, a mapping of"
    " request and response fields (a dict, or a YAML file), or a command as a list of texts"
)


def as_system(given: Given, name: str | None = None) -> System:
    """Return the system for any accepted form of one; see `rs.collect`.

    Raises
    ------
    DataError
        No accepted form, a mapping with an unknown field, an environment variable that a header
        names but that is not set, or httpx is missing.
    """
    if isinstance(given, System):
        return given
    if isinstance(given, tuple) and len(given) == 2 and all(map(callable, given)):
        return two_step_system(given[0], given[1], name)
    if callable(given):
        return function_system(given, name)
    if isinstance(given, dict):
        return http_system(read_mapping(given), name)
    if isinstance(given, list) and given and all(isinstance(part, str) for part in given):
        return command_system(given, name)
    if not isinstance(given, (str, os.PathLike)):
        raise DataError(f"found {type(given).__name__}", field="system", allowed=ALLOWED)
    text, file = str(given), Path(given)
    if text.startswith(("http://", "https://")):
        return http_system(chatbot(with_path(text, ASK)), name)
    if file.suffix in (".yaml", ".yml", ".json"):
        return http_system(_read_mapping_file(file), name or file.stem)
    raise DataError(f"found {Redactor().message(text)!r}", field="system", allowed=ALLOWED)


def _read_mapping_file(file: Path) -> Mapping:
    if not file.exists():
        raise DataError("no such file", file=file, field="system", allowed=ALLOWED)
    values = yaml_value(read_text(file), file)
    if not isinstance(values, dict):
        raise DataError("not a mapping", file=file, allowed="url, request, response, ...")
    return read_mapping(values, str(file))
