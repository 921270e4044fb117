"""Cache of replies in one SQLite file, so that no reply is paid for twice.

Threads and processes can share the file. A key is a hash of everything that could change the reply;
only usable replies are stored, each with a checksum.
"""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ragscore.frames.data import DataError
from ragscore.frames.errors import plural, warn
from ragscore.judging.endpoint import Reply
from ragscore.judging.judges import JudgeFailed, digest

DEFAULT_CACHE = "~/.cache/ragscore/judge.sqlite"
_TABLE = "replies (key text primary key, reply text, prompt integer, completion integer, hash text)"
_WAIT = 60.0  # seconds for another process to write
T = TypeVar("T")


class Cache:
    """Replies by key, in a file, or in memory if `path` is None.

    Raises
    ------
    DataError
        The file is not a cache, or can't be read and written.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.file = None if path is None else Path(path).expanduser()
        self._lock, self._locks = threading.Lock(), dict[str, threading.Lock]()
        self._n_damaged, self._fault = 0, ""
        try:
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True)
            self._rows = sqlite3.connect(
                self.file or ":memory:", timeout=_WAIT, isolation_level=None,
                check_same_thread=False,
            )  # fmt: skip
            tables = self._rows.execute("select name from sqlite_master where type = 'table'")
            if {name for (name,) in tables} - {"replies"}:
                raise sqlite3.DatabaseError("another database")
            self._rows.execute(f"create table if not exists {_TABLE}")
        except (OSError, sqlite3.Error) as error:
            raise DataError(
                f"the cache can't be used ({error})", file=self.file, field="cache",
                allowed="a file that can be read and written, or cache=None",
            ) from error  # fmt: skip

    def close(self) -> None:
        """Close the file."""
        self._rows.close()

    def warn(self) -> None:
        """Say once what could not be read or kept."""
        if n := self._n_damaged:
            warn(f"{self.file}: {plural(n, 'damaged row')} of the cache: asked for again")
        if self._fault:
            warn(f"{self.file}: the cache can't be read or written whole ({self._fault})")

    def get_or_ask(
        self, key: str, ask: Callable[[], Reply], read: Callable[[str], T]
    ) -> tuple[T, Reply, bool]:
        """Return what is read from a reply, the reply, and True if it was stored already.

        A stored reply that can't be read is asked for again: other rules may have let it in.
        Threads that need the same key at the same time call `ask` once.
        """
        with self._lock:
            own = self._locks.setdefault(key, threading.Lock())
        with own:
            if (found := self._get(key)) is not None:
                with suppress(JudgeFailed, ValueError, RecursionError):
                    return read(found.content), found, True
            reply = ask()
            row = [key, reply.content, reply.prompt_tokens, reply.completion_tokens]
            self._run("insert or replace into replies values (?, ?, ?, ?, ?)", [*row, digest(row)])
            return read(reply.content), reply, False

    def _get(self, key: str) -> Reply | None:
        for *row, checksum in self._run("select * from replies where key = ?", [key]):
            if digest(row) == checksum:
                return Reply(*row[1:])
            self._n_damaged += 1
        return None

    def _run(self, statement: str, values: list[Any]) -> list[Any]:
        """Return the rows of a statement; a reply is paid for, whatever becomes of the file."""
        try:
            with self._lock:
                return self._rows.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            self._fault = str(error)
            return []
