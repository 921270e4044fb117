"""Replies on disk, so that nothing is paid for twice.

One SQLite file, safe for several threads and processes.

Only replies that could be used are kept. A key is a hash of everything that could change the reply.
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
class Kept:
    """A usable reply and what it cost when it was made; None tokens are unknown."""

    text: str
    prompt_tokens: int | None
    completion_tokens: int | None


def digest(content: Any) -> str:
    """A hash of JSON content."""
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ).hexdigest()


class Cache:
    """Replies by key, on disk, or in memory where `path` is None.

    Raises
    ------
    DataError
        The file is there and is no cache.
    """

    def __init__(self, path: str | Path | None) -> None:
        file = None if path is None else Path(path).expanduser()
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        # One connection for all threads, used by one at a time; other processes wait for the file's
        # lock.
        self._lock = threading.Lock()
        self._asked: dict[str, Future[Kept]] = {}
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

    def get(self, key: str) -> Kept | None:
        """What is kept under this key."""
        with self._lock:
            row = self._connection.execute(
                "SELECT reply FROM replies WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else Kept(**json.loads(row[0]))

    def put(self, key: str, reply: Kept) -> None:
        """Keep a reply; one that is there stays."""
        with self._lock:
            self._connection.execute(
                "INSERT OR IGNORE INTO replies VALUES (?, ?)",
                (key, json.dumps(asdict(reply), ensure_ascii=False)),
            )

    def forget(self, key: str) -> None:
        """Drop a reply that can't be read any more."""
        with self._lock:
            self._connection.execute("DELETE FROM replies WHERE key = ?", (key,))

    def once(self, key: str, ask: Callable[[], Kept]) -> tuple[Kept, bool]:
        """The reply kept under this key, or the one that `ask` gives, which is then kept.

        And whether it cost nothing now.

        Threads that want the same key at the same time ask once; if that fails, it fails for all of
        them.
        """
        if (kept := self.get(key)) is not None:
            return kept, True
        with self._lock:
            pending = self._asked.get(key)
            mine: Future[Kept] = Future()
            if pending is None:
                self._asked[key] = mine
        if pending is not None:
            return pending.result(), True
        return self._asked_now(key, ask, mine)

    def _asked_now(
        self, key: str, ask: Callable[[], Kept], mine: "Future[Kept]"
    ) -> tuple[Kept, bool]:
        try:
            # Whoever asked between our look and our turn has put its reply there.
            kept = self.get(key)
            reply = kept or ask()
            self.put(key, reply)
            mine.set_result(reply)
            return reply, kept is not None
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                self._asked.pop(key, None)
