"""Cache of replies in one SQLite file, so that no reply is paid for twice.

Threads and processes can share the file. Only usable replies are stored. A key is a hash of
everything that could change the reply.
"""

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragscore.frames.data import DataError

DEFAULT_CACHE = "~/.cache/ragscore/judge.sqlite"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID"
)


@dataclass(frozen=True)
class CachedReply:
    """A usable reply and its tokens; None where the endpoint did not report them."""

    text: str
    prompt_tokens: int | None
    completion_tokens: int | None


def digest(content: Any) -> str:
    """Return the SHA-256 hash of JSON content."""
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ).hexdigest()


class Cache:
    """Replies by key, in a file, or in memory if `path` is None.

    Raises
    ------
    DataError
        The file exists and is not a cache.
    """

    def __init__(self, path: str | Path | None) -> None:
        file = None if path is None else Path(path).expanduser()
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        # Threads take turns on one connection; other processes wait for the file's lock.
        self._lock = threading.Lock()
        self._pending: dict[str, Future[CachedReply]] = {}
        self._connection = sqlite3.connect(
            ":memory:" if file is None else file,
            timeout=60,
            check_same_thread=False,
            isolation_level=None,
        )
        try:
            self._connection.execute(_TABLE)
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise DataError(
                f"not a cache of replies ({error})",
                file=file,
                field="cache",
                allowed="another file, or cache=None",
            ) from error

    def __enter__(self) -> "Cache":
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def get(self, key: str) -> CachedReply | None:
        """Return the reply under this key, if there is one."""
        with self._lock:
            row = self._connection.execute(
                "SELECT reply FROM replies WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else CachedReply(**json.loads(row[0]))

    def put(self, key: str, reply: CachedReply) -> None:
        """Store a reply; an earlier one under the same key stays."""
        with self._lock:
            self._connection.execute(
                "INSERT OR IGNORE INTO replies VALUES (?, ?)",
                (key, json.dumps(asdict(reply), ensure_ascii=False)),
            )

    def delete(self, key: str) -> None:
        """Delete the reply under this key."""
        with self._lock:
            self._connection.execute("DELETE FROM replies WHERE key = ?", (key,))

    def get_or_ask(self, key: str, ask: Callable[[], CachedReply]) -> tuple[CachedReply, bool]:
        """Return the cached reply, else store and return that of `ask`; and True if it was free.

        Threads that need the same key at the same time call `ask` once. If it fails, it fails for
        all of them.
        """
        if (cached := self.get(key)) is not None:
            return cached, True
        future: Future[CachedReply] = Future()
        with self._lock:
            pending = self._pending.setdefault(key, future)
        if pending is not future:
            return pending.result(), True
        try:
            # Another thread may have stored the reply between the first look and this turn.
            cached = self.get(key)
            reply = cached or ask()
            self.put(key, reply)
            future.set_result(reply)
            return reply, cached is not None
        except BaseException as error:
            future.set_exception(error)
            raise
        finally:
            with self._lock:
                self._pending.pop(key, None)
