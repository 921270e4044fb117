"""The interface of a system under test, and a command as a system.

A command runs once per query. It reads the request as JSON on standard input and prints its reply
as one JSON value.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from ragscore.frames.errors import DataError
from ragscore.io.secrets import Redactor, hidden, secrets_in
from ragscore.io.source import parse_json

SETTINGS = ("mode", "k", "temperature", "seed", "with_answer")
"""Settings of a whole run, set by the caller."""
CARRIED = ("filters", "vaults", "folders", "product", "tool")
"""Fields of a golden query that are sent with it."""

Request = dict[str, Any]
"""One query: `query`, `query_id`, and all known `SETTINGS`, `CARRIED` fields and other settings."""
MAX_REPLY_BYTES = 10_000_000
"""Size of the largest reply, after unpacking: parsed, it may take forty times as much memory."""
KILLED_SECONDS = 1.0  # time for what a killed command printed to be read
SHOWN = 500  # characters of a failed command's output in its error


@dataclass(frozen=True)
class System:
    """A system under test.

    Attributes
    ----------
    name
        Its name in `runs.system`.
    ask
        Function from a request and a time limit in seconds (None: no limit) to a reply: a list of
        hits, the text of an answer, or a mapping with `hits`, `answer` and other fields. Raises
        `AskError`.
    config
        Kind, address and mapping for the run's snapshot, without fields whose name suggests a
        secret.
    takes
        Names of the request fields that it accepts besides the query; None means any.
    needs
        Those of them that it requires.
    secrets
        Texts that no file and no log may contain.
    close
        Called after the last query.
    """

    name: str
    ask: Callable[[Request, float | None], Any]
    config: dict[str, Any] = field(default_factory=dict)
    takes: frozenset[str] | None = None
    needs: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = field(default=(), repr=False)
    close: Callable[[], None] = lambda: None

    def __reduce__(self) -> Any:
        if self.secrets:
            raise not_pickled("system", "secrets")
        return super().__reduce__()


def not_pickled(what: str, field: str) -> DataError:
    """Return the error of what would write a key into a pickle."""
    return DataError(
        f"a {what} that holds a key is not pickled",
        field=field,
        allowed='"$NAME" of an environment variable in place of the key, and a mapping of it',
    )


class AskError(Exception):
    """The system did not answer a query.

    Attributes
    ----------
    again
        True if another attempt may help: time-outs, lost connections, 429 and 5xx.
    wait
        Seconds to wait before it, if the system asks for a time.
    reply
        The usable part of a reply, such as the hits of a search whose answer failed.
    """

    def __init__(
        self, found: str, *, again: bool = False, wait: float | None = None, reply: Any = None
    ) -> None:
        super().__init__(found)
        self.again, self.wait, self.reply = again, wait, reply


def timed_out(seconds: float | None) -> AskError:
    """Return the error of a query that took too long."""
    return AskError(
        f"timed out after {seconds:g} s" if seconds is not None else "timed out", again=True
    )


def too_large(limit: int) -> AskError:
    """Return the error of a query whose reply is larger than it may be."""
    return AskError(f"the reply has more than {limit:,} bytes")


def command_system(command: list[str], name: str | None = None) -> System:
    """Return a system that runs a command per query.

    `{query}`, `{k}` and other names in an argument become the request's values. Other braces stay.
    """
    secrets = tuple(secrets_in(command))

    def ask(request: Request, seconds: float | None) -> Any:
        def value(match: re.Match[str]) -> str:
            if match[1] not in request:
                return match[0]
            found = request[match[1]]
            return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)

        arguments = [re.sub(r"\{(\w+)\}", value, part) for part in command]
        return _run(arguments, request, seconds, secrets)

    return System(
        name or Path(command[0]).name,
        ask,
        {"kind": "command", "command": hidden(command)},
        secrets=secrets,
    )


def _run(
    command: list[str], request: Request, seconds: float | None, secrets: tuple[str, ...]
) -> Any:
    """Run a command and return the JSON that it prints.

    A command that fails may have printed its hits before; its error keeps them.
    """
    sent = json.dumps(request, ensure_ascii=False).encode()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise AskError(f"can't be started: {error}") from error
    with process:
        output, messages = _communicate(process, sent, seconds)
    try:
        reply, fault = parse_json(output), None
    except (ValueError, RecursionError) as error:
        reply, fault = None, f"printed no JSON ({error})"
    if process.returncode or fault is not None:
        redactor = Redactor([*secrets, *secrets_in(request)])
        if not process.returncode:
            raise AskError(f"{fault}: {redactor.excerpt(output, SHOWN)!r}")
        last = redactor.excerpt(messages, -SHOWN)
        raise AskError(f"exit status {process.returncode}{': ' * bool(last)}{last}", reply=reply)
    return reply


def _communicate(
    process: "subprocess.Popen[bytes]", sent: bytes, seconds: float | None
) -> tuple[str, str]:
    """Return what a command prints, and the end of its messages.

    `Popen.communicate` would hold any amount of both. A command that doesn't end in time is killed.
    """
    deadline = None if seconds is None else monotonic() + seconds
    printed, messages = bytearray(), bytearray()

    def write() -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError), process.stdin:
            rest = memoryview(sent)
            while rest:
                rest = rest[process.stdin.write(rest) :]

    def read() -> None:
        assert process.stdout is not None
        while len(printed) <= MAX_REPLY_BYTES and (part := process.stdout.read(65_536)):
            printed.extend(part)

    def read_messages() -> None:
        assert process.stderr is not None
        while part := process.stderr.read(65_536):
            messages.extend(part)
            del messages[: -4 * SHOWN]

    threads = [
        threading.Thread(target=step, name="ragscore-command", daemon=True)
        for step in (read, read_messages, write)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(None if deadline is None else max(deadline - monotonic(), 0))
            if thread.is_alive():
                raise timed_out(seconds)
            if len(printed) > MAX_REPLY_BYTES:
                raise too_large(MAX_REPLY_BYTES)
        process.wait(None if deadline is None else max(deadline - monotonic(), 0))
    except BaseException as error:
        _kill(process)
        for thread in threads:  # a pipe that some child of its own session holds stays open
            thread.join(KILLED_SECONDS)
        if isinstance(error, subprocess.TimeoutExpired):
            raise timed_out(seconds) from error
        raise
    return printed.decode("utf-8", "replace"), messages.decode("utf-8", "replace")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the command and its children: they are a session, and thus a process group."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
