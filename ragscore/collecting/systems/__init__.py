"""Systems under test.

A Python callable, an HTTP endpoint, a command; what each can be told, and how to ask it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from ragscore.collecting.systems.base import (
    CARRIED,
    SETTINGS,
    AskError,
    Request,
    System,
    command_system,
)
from ragscore.collecting.systems.function import function_system, two_steps
from ragscore.collecting.systems.http import http_system, with_path
from ragscore.collecting.systems.mapping import Mapping, chatbot, read_mapping
from ragscore.frames.errors import DataError

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
    """A system from what was given for one; see `rs.collect`.

    Raises
    ------
    DataError
        It is none of these, a mapping has an unknown field, a variable that a header names isn't
        set, or httpx is missing.
    """
    if isinstance(given, System):
        return given
    if isinstance(given, tuple) and len(given) == 2 and all(callable(one) for one in given):
        return two_steps(given[0], given[1], name)
    if callable(given):
        return function_system(given, name)
    if isinstance(given, dict):
        return http_system(read_mapping(given), name)
    if isinstance(given, list) and given and all(isinstance(one, str) for one in given):
        return command_system(given, name)
    if isinstance(given, (str, os.PathLike)):
        return _named(str(given), name)
    raise DataError(f"found {type(given).__name__}", field="system", allowed=ALLOWED)


def _named(text: str, name: str | None) -> System:
    if text.startswith(("http://", "https://")):
        return http_system(chatbot(with_path(text, ASK)), name)
    if Path(text).suffix in (".yaml", ".yml", ".json"):
        return http_system(_mapping_file(Path(text)), name or Path(text).stem)
    raise DataError(f"found {text!r}", field="system", allowed=ALLOWED)


def _mapping_file(file: Path) -> Mapping:
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError("no such file", file=file, field="system", allowed=ALLOWED) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(
            f"not readable as YAML ({' '.join(str(error).split())})", file=file
        ) from error
    if not isinstance(values, dict):
        raise DataError("not a mapping", file=file, allowed="url, request, response, ...")
    return read_mapping(values, str(file))
