"""Do something in a process of its own, which may die of it."""

import json
import os
import random
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ragscore as rs

LIMIT_S = 20.0
LIMIT_KB = 2**20  # a gigabyte, as Linux counts


@dataclass
class Child:
    """A process that was forked, and the pipe that its answer comes through."""

    pid: int
    pipe: int

    def kill(self) -> None:
        """End it as a power cut would: nothing in it is run any more."""
        os.kill(self.pid, signal.SIGKILL)

    def answer(self, limit: float = LIMIT_S) -> Any:
        """What it returned; None if it was killed.

        An error comes as a text: "DataError: ..." or "CRASH ..." with its name.
        """
        parts, end = [], time.monotonic() + limit
        while True:
            if not select.select([self.pipe], [], [], max(end - time.monotonic(), 0))[0]:
                self.kill()
                os.waitpid(self.pid, 0)
                os.close(self.pipe)
                return f"CRASH took over {limit:.0f} s"
            if not (part := os.read(self.pipe, 2**16)):
                break
            parts.append(part)
        os.close(self.pipe)
        _, _, usage = os.wait4(self.pid, 0)
        # It began with all that the process has that it was forked from.
        if usage.ru_maxrss > LIMIT_KB + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
            return f"CRASH took {usage.ru_maxrss} KB"
        return json.loads(b"".join(parts)) if parts else None


def outcome_of(work: Callable[[], Any]) -> Any:
    """What it returns, or its error as a text."""
    try:
        return work()
    except rs.DataError as error:
        return f"DataError: {error}"
    except BaseException as error:
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = f"{Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno}" if place else ""
        return f"CRASH {type(error).__name__}: {error} ({where})"


def start(work: Callable[[], Any]) -> Child:
    """Fork a process that does this and answers with what comes of it."""
    out, into = os.pipe()
    with warnings.catch_warnings():
        # Threads of arrow stay behind; it starts others in the child.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(into)
        return Child(pid, out)
    code = 1
    try:
        os.close(out)
        warnings.simplefilter("ignore")
        answer = json.dumps(outcome_of(work), default=str).encode()
        while answer:
            answer = answer[os.write(into, answer) :]
        code = 0
    finally:
        os._exit(code)


class Gate:
    """Lets processes go at the same moment."""

    def __init__(self) -> None:
        self.out, self.into = os.pipe()

    def wait(self) -> None:
        """In a child: wait until it opens."""
        os.close(self.into)
        os.read(self.out, 1)

    def open(self) -> None:
        """Let all go."""
        os.close(self.into)
        os.close(self.out)


def die() -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


STEPS = {
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.utime",
    "os.chmod",
    "fcntl.flock",
    "fcntl.lockf",
}


class Steps:
    """Counts what this process does to files; at the k-th step it dies instead.

    A step is a call of the operating system that changes files, or a part of a write. Install it
    in a child only: what watches can't be taken away.
    """

    def __init__(self, last: int | None) -> None:
        self.last, self.n = last, 0
        write, fsync = os.write, os.fsync

        def watched_write(fd: int, content: Any) -> int:
            if self._is_last():
                write(fd, bytes(content)[: len(content) // 2])
                die()
            return write(fd, content)

        def watched_fsync(fd: int) -> None:
            self._step()
            fsync(fd)

        os.write, os.fsync = watched_write, watched_fsync
        sys.addaudithook(self._watch)

    def _is_last(self) -> bool:
        self.n += 1
        return self.last is not None and self.n > self.last

    def _step(self) -> None:
        if self._is_last():
            die()

    def _watch(self, event: str, args: tuple[Any, ...]) -> None:
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        if event in STEPS or (event == "open" and args[2] and args[2] & writes):
            self._step()


def chance(seed: int) -> random.Random:
    """Random numbers of a round."""
    return random.Random(seed)
