"""What a system under test is to the collector.

A way to ask it, what it can be told, and how to describe it.

A command as a system.

It runs once per query, gets the request as JSON on standard input, and prints its reply as one JSON
value.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragscore.collecting.systems.secrets import hidden, secrets_in
from ragscore.io.source import parse_json

SETTINGS = ("mode", "k", "temperature", "seed", "with_answer")
"""What a caller sets for a whole run."""
CARRIED = ("filters", "vaults", "folders", "product", "tool")
"""What a golden query carries to be sent with it."""

Request = dict[str, Any]
"""One question: `query`, `query_id`, and whatever of `SETTINGS`, `CARRIED` and settings of the system's own is set."""


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class System:
    """A system under test.

    Attributes
    ----------
    name
        Of the system, as it stands in `runs.system`.
    ask
        A request, and the seconds it may take (None: no limit) -> the reply: a list of hits, an
        answer's text, or a mapping that holds `hits`, `answer` and what else is known. Raises
        `AskError`.
    config
        How it is asked: kind, address, mapping; without what may be secret by its name. Part of the
        run's snapshot.
    takes
        The names that it can be told beside the query; None: any.
    needs
        Those of them that it can't do without.
    secrets
        Texts that no file and no log may hold.
    close
        Called when the last query is answered.
    """

    name: str
    ask: Callable[[Request, float | None], Any]
    config: dict[str, Any] = field(default_factory=dict)
    takes: frozenset[str] | None = None
    needs: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = field(default=(), repr=False)
    close: Callable[[], None] = _nothing


class AskError(Exception):
    """A query that the system didn't answer.

    Attributes
    ----------
    again
        Whether asking again may help: time-outs, lost connections, 429 and 5xx.
    wait
        The seconds after which the system wants to be asked again, if it says so.
    reply
        What it gave all the same, such as the hits of a search whose answer failed.
    """

    def __init__(
        self, found: str, *, again: bool = False, wait: float | None = None, reply: Any = None
    ) -> None:
        super().__init__(found)
        self.again, self.wait, self.reply = again, wait, reply


def timed_out(seconds: float | None) -> AskError:
    """The error of a query that took too long."""
    return AskError(
        f"timed out after {seconds:g} s" if seconds is not None else "timed out", again=True
    )


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
        reply, fault = parse_json(printed), None
    except (ValueError, RecursionError) as error:
        reply, fault = None, f"printed no JSON ({error})"
    if status:
        last = f": {said.strip()[-SHOWN:]}" if said.strip() else ""
        raise AskError(f"exit status {status}{last}", reply=reply)
    if fault is not None:
        raise AskError(f"{fault}: {printed.strip()[:SHOWN]!r}")
    return reply
