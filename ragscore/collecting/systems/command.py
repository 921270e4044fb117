"""A command as a system.

It runs once per query, gets the request as JSON on standard input, and prints its reply as one JSON
value.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

from ragscore.collecting.systems.base import AskError, Request, System, timed_out
from ragscore.collecting.systems.secrets import hidden, secrets_in
from ragscore.io.source import parsed

SHOWN = 500  # characters of what a command that failed wrote last


def command_system(command: list[str], name: str | None = None) -> System:
    """A program with its arguments; `{query}`, `{k}`, ...

    in an argument become the request's values.
    """

    def ask(request: Request, seconds: float | None) -> Any:
        return _run([_filled(part, request) for part in command], request, seconds)

    return System(
        name or Path(command[0]).name,
        ask,
        {"kind": "command", "command": hidden(command)},
        secrets=tuple(secrets_in(command)),
    )


def _filled(part: str, request: Request) -> str:
    """An argument with the request's values in the place of their names.

    Other braces stay as they are.
    """
    return re.sub(
        r"\{(\w+)\}",
        lambda found: _text(request[found[1]]) if found[1] in request else found[0],
        part,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _run(command: list[str], request: Request, seconds: float | None) -> Any:
    sent = json.dumps(request, ensure_ascii=False).encode()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise AskError(f"can't be started: {error}") from error
    with process:
        try:
            printed, said = process.communicate(sent, timeout=seconds)
        except BaseException as error:
            _end(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise timed_out(seconds) from error
            raise
    return _reply(
        process.returncode, printed.decode("utf-8", "replace"), said.decode("utf-8", "replace")
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the command with whatever it started: its group is a session of its own."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()


def _reply(status: int, printed: str, said: str) -> Any:
    """What was printed; a command that failed may have printed its hits before."""
    try:
        reply, fault = parsed(printed), None
    except (ValueError, RecursionError) as error:
        reply, fault = None, f"printed no JSON ({error})"
    if status:
        last = f": {said.strip()[-SHOWN:]}" if said.strip() else ""
        raise AskError(f"exit status {status}{last}", reply=reply)
    if fault is not None:
        raise AskError(f"{fault}: {printed.strip()[:SHOWN]!r}")
    return reply
