"""A command as a system.

It runs once per query, reads the request as JSON on standard input and prints its reply as JSON.
"""

import json
import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragscore.collecting.systems.base import AskError, Request, System, timed_out
from ragscore.frames.errors import DataError
from ragscore.io.secrets import Redactor, is_secret, refuse_keys
from ragscore.io.source import parse_json

_ALLOWED = "an environment variable, which the command reads"
SHOWN = 500  # characters of a failed command's output in its error
_NAMED = re.compile(r"-{0,2}([\w-]+)([=:].*)?", re.DOTALL)  # --token=..., TOKEN=..., X-Token: ...


def command_system(command: list[str], name: str | None = None) -> System:
    """Return a system that runs a command per query.

    `{query}`, `{k}` and other names in an argument become the request's values. Other braces stay.

    Raises
    ------
    DataError
        An argument holds a key.
    """
    for argument, following in zip(command, [*command[1:], "-"], strict=True):
        refuse_keys(argument, "system", _ALLOWED)
        named = _NAMED.fullmatch(argument)
        is_option = argument.startswith("-") and not following.startswith("-")
        if named and is_secret(named[1]) and (named[2] or is_option):
            raise DataError(f"found a key: {named[1]}", field="system", allowed=_ALLOWED)

    def ask(request: Request, seconds: float | None) -> Any:
        def value(match: re.Match[str]) -> str:
            found = request.get(match[1], match[0])
            return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)

        return _run([re.sub(r"\{(\w+)\}", value, part) for part in command], request, seconds)

    return System(name or Path(command[0]).name, ask, {"kind": "command", "command": command})


def _run(command: list[str], request: Request, seconds: float | None) -> Any:
    """Run a command and return the JSON that it prints.

    A command that fails may have printed its hits before; its error keeps them.
    """
    sent = json.dumps(request, ensure_ascii=False).encode()
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        ) as process:
            try:
                printed = process.communicate(sent, timeout=seconds)
            except BaseException:
                _kill(process)
                raise
    except subprocess.TimeoutExpired as error:
        raise timed_out(error.timeout) from error
    except OSError as error:
        raise AskError(f"can't be started: {error}") from error
    output, messages = (part.decode("utf-8", "replace") for part in printed)
    try:
        reply, fault = parse_json(output), ""
    except (ValueError, RecursionError) as error:
        shown = Redactor().excerpt(output, SHOWN)
        reply, fault = None, f"printed no JSON ({error}): {shown!r}"
    if process.returncode:
        last = Redactor().excerpt(messages, -SHOWN)
        raise AskError(f"exit status {process.returncode}{': ' * bool(last)}{last}", reply=reply)
    if fault:
        raise AskError(fault)
    return reply


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the command and its children: they are a session, and thus a process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
