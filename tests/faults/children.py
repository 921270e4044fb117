"""Do something in a process of its own, which may die of it."""

import os
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import ragscore as rs

LIMIT_S = 20.0
LIMIT_KB = 2**20  # a gigabyte, as Linux counts
FORKED = get_context("fork")


class Child:
    """A process that was forked to do something, and the pipe that its answer comes through."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.answers, into = FORKED.Pipe(duplex=False)
        self.process = FORKED.Process(target=_answer, args=(work, into), daemon=True)
        with warnings.catch_warnings():
            # Threads of arrow stay behind; it starts others in the child.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        into.close()

    def answer(self, limit: float = LIMIT_S) -> Any:
        """What it returned; None if it was killed.

        An error comes as a text: "DataError: ..." or "CRASH ..." with its name.
        """
        answer = f"CRASH took over {limit:.0f} s"
        if self.answers.poll(limit):
            try:
                answer = self.answers.recv()
            except EOFError:
                answer = None
        else:
            self.process.kill()
        self.process.join()
        return answer


def _answer(work: Callable[[], Any], into: Any) -> None:
    warnings.simplefilter("ignore")
    before = _peak_kb()  # of the process that it was forked from
    answer, peak = outcome_of(work), _peak_kb()
    into.send(f"CRASH took {peak} KB" if peak > LIMIT_KB + before else answer)


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


start = Child  # forks a process that does this and answers with what comes of it


def outcome_of(work: Callable[[], Any]) -> Any:
    """What it returns, or its error as a text."""
    try:
        return work()
    except rs.DataError as error:
        return f"DataError: {error}"
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return f"CRASH {type(error).__name__}: {error} ({where})"


def die() -> None:
    """End this process at once, as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


STEPS = {
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate",
    "os.utime", "os.chmod", "fcntl.flock", "fcntl.lockf",
}  # fmt: skip


def watch_steps(step: Callable[[str, Any], None]) -> None:
    """Let `step(event, path)` know before this process does anything that changes files.

    Install it in a child only: what watches can't be taken away. What `fsync` brings to the disk
    comes as its descriptor.
    """
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        step("os.fsync", descriptor)
        fsync(descriptor)

    def watch(event: str, args: tuple[Any, ...]) -> None:
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        if event in STEPS or (event == "open" and args[2] and args[2] & writes):
            step(event, args[0])

    os.fsync = watched
    sys.addaudithook(watch)


class Steps:
    """Counts what this process does to files; at the k-th step it dies instead.

    A step is a call of the operating system that changes files, or a part of a write.
    """

    def __init__(self, last: int | None) -> None:
        self.last, self.n = last, 0
        write = os.write

        def watched_write(fd: int, content: Any) -> int:
            if self._is_last():
                write(fd, bytes(content)[: len(content) // 2])
                die()
            return write(fd, content)

        os.write = watched_write
        watch_steps(lambda event, path: die() if self._is_last() else None)

    def _is_last(self) -> bool:
        self.n += 1
        return self.last is not None and self.n > self.last
