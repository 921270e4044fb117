"""Cache of replies in one file of JSON lines, so that no reply is paid for twice.

Threads and processes can share the file. It is only ever appended to, a whole line at a time, and
each line carries a checksum: a line that was cut off or changed is not read. Only usable replies
are stored. A key is a hash of everything that could change the reply.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ragscore.frames.data import DataError
from ragscore.frames.errors import plural, warn

DEFAULT_CACHE = "~/.cache/ragscore/judge.jsonl"
_HEADER: dict[str, Any] = {"ragscore": "replies to judges", "version": 1}
_FIRST_LINE = f"\n{json.dumps(_HEADER)}\n".encode()
_LONGEST_LINE = 80_000_000  # bytes; no reply that is accepted fills more


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

    Attributes
    ----------
    n_damaged, n_unusable
        Lines that were skipped as damaged, and sound ones whose reply was of no use.

    Raises
    ------
    DataError
        The file is not a cache, or can't be read and written.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.file = None if path is None else Path(path).expanduser()
        self.n_damaged = self.n_unusable = 0
        self._lock = threading.Lock()
        self._pending: dict[str, Future[CachedReply]] = {}
        self._kept: dict[str, CachedReply] = {}  # what no file holds
        self._lines: dict[str, tuple[int, int]] = {}  # start and length of the last sound line
        self._end, self._is_cache, self._fault = 0, False, ""
        self._reading: BinaryIO | None = None
        if self.file is not None:
            self._open(self.file)

    def _open(self, file: Path) -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._writing = os.open(
                file, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644
            )
            self._reading = file.open("rb")
            # A first line that was cut off is all that a process can leave that had no reply yet.
            is_new = _FIRST_LINE.startswith(self._reading.read(len(_FIRST_LINE)))
            self._scan()
            if is_new and not self._is_cache:
                self._append([_HEADER])
                self._scan()
        except OSError as error:
            raise DataError(
                f"the cache can't be used ({error.strerror or error})",
                file=file,
                field="cache",
                allowed="a file that can be read and written, or cache=None",
            ) from error
        if not self._is_cache:
            self.close()
            raise DataError(
                "not a cache of replies",
                file=file,
                field="cache",
                allowed="another file, or cache=None",
            )

    def __enter__(self) -> "Cache":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._reading is not None:
            self._reading.close()
            os.close(self._writing)
            self._reading = None

    def warn(self) -> None:
        """Say once what could not be read or kept."""
        if n := self.n_damaged + self.n_unusable:
            warn(
                f"{self.file}: {plural(n, 'row')} of the cache can't be used"
                f" ({self.n_damaged:,} damaged, {self.n_unusable:,} that fit no verdict):"
                " replies that only they held are asked for again"
            )
        if self._fault:
            warn(
                f"{self.file}: {plural(len(self._kept), 'new row')} of the cache could not be"
                f" written ({self._fault})"
            )

    def get(self, key: str) -> CachedReply | None:
        """Return the reply under this key, if there is one."""
        with self._lock:
            if key in self._kept:
                return self._kept[key]
            if self._reading is None:
                return None
            if key not in self._lines:
                self._scan()  # another process may have stored it
            if key not in self._lines:
                return None
            start, length = self._lines[key]
            self._reading.seek(start)
            found = _row(self._reading.read(length))
            return found[1] if found is not None and found[0] == key else None

    def put(self, key: str, reply: CachedReply) -> None:
        """Store a reply; it takes the place of an earlier one under the same key."""
        with self._lock:
            if self._reading is not None:
                try:
                    row = [key, *astuple(reply)]
                    self._append([{"key": key, "reply": row[1:], "sha256": digest(row)}])
                    return
                except OSError as error:  # the reply is paid for: go on with it
                    self._fault = self._fault or (error.strerror or str(error))
            self._kept[key] = reply

    def get_or_ask(
        self,
        key: str,
        ask: Callable[[], CachedReply],
        is_usable: Callable[[CachedReply], bool] = lambda reply: True,
    ) -> tuple[CachedReply, bool]:
        """Return the cached reply, else store and return that of `ask`; and True if it was free.

        A cached reply that is not usable is asked for again. Threads that need the same key at the
        same time call `ask` once. If it fails, it fails for all of them.
        """
        future: Future[CachedReply] = Future()
        with self._lock:
            pending = self._pending.setdefault(key, future)
        if pending is not future:
            return pending.result(), True
        try:
            reply = self.get(key)
            is_free = reply is not None and is_usable(reply)
            if reply is None or not is_free:
                self.n_unusable += reply is not None
                reply = ask()
                self.put(key, reply)
            future.set_result(reply)
            return reply, is_free
        except BaseException as error:
            future.set_exception(error)
            raise
        finally:
            with self._lock:
                self._pending.pop(key, None)

    def _append(self, rows: list[dict[str, Any]]) -> None:
        """Append whole lines, and wait until they are on the disk.

        A line break goes first, so that a line stays whole after one that was cut off. One call
        writes all: what several processes append never mixes.
        """
        text = "".join(f"\n{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        content = text.encode("utf-8", "surrogatepass")
        written = os.write(self._writing, content)
        if written < len(content):
            raise OSError(f"only {written} of {len(content)} bytes could be written")
        os.fsync(self._writing)

    def _scan(self) -> None:
        """Note the lines that were appended since the last look, as far as they are whole."""
        assert self._reading is not None
        self._reading.seek(self._end)
        while line := self._reading.readline(_LONGEST_LINE):
            if not line.endswith(b"\n"):
                if len(line) < _LONGEST_LINE:
                    return  # cut off, or being written: looked at again
                while line and not line.endswith(b"\n"):
                    line = self._reading.readline(_LONGEST_LINE)
                if not line:
                    return
                self.n_damaged += 1
            elif line.strip():
                found = _row(line)
                if found is not None:
                    self._is_cache = True
                    self._lines[found[0]] = self._end, len(line)
                elif line.strip() == _FIRST_LINE.strip():
                    self._is_cache = True
                else:
                    self.n_damaged += 1
            self._end = self._reading.tell()


def _row(line: bytes) -> tuple[str, CachedReply] | None:
    """Return key and reply of a line, or None unless they are what was written."""
    try:
        row = json.loads(line.decode("utf-8", "surrogatepass"))
        key, (text, *tokens) = row["key"], row["reply"]
        is_sound = row["sha256"] == digest([key, text, *tokens])
        if is_sound and len(row) == 3 and isinstance(key, str) and isinstance(text, str):
            return key, CachedReply(text, *tokens)
    except (ValueError, TypeError, LookupError, RecursionError):
        pass
    return None
