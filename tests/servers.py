"""Servers on loopback for tests.

They log every request, know how many were in flight at once, and reply as a test says.

`Server` is the common part: `with Server(reply) as server: ... server.url, server.requests`.
`reply(seen)` gets a `Seen` and returns a `Reply`, or any JSON value for a plain 200. What speaks a
certain API is a function that makes such a reply: see `chatbot`.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Seen:
    """One request as it came."""

    number: int
    method: str
    path: str
    params: dict[str, list[str]]
    headers: dict[str, str]
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text) if self.text else None


@dataclass
class Reply:
    """What to send.

    JSON, or text as it is. `parts` are sent in place of all that, and the connection is closed:
    bytes, and seconds to wait.
    """

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    text: str | None = None
    parts: Iterable[bytes | float] | None = None


class Server:
    """A server of its own port, in threads.

    `gather=n` holds every request back until n are in flight, once for each n of them.
    """

    def __init__(self, reply: Callable[[Seen], Any], gather: int = 1) -> None:
        self.reply, self.requests = reply, list[Seen]()
        self.in_flight = self.most_in_flight = 0
        self.lock = threading.Lock()
        self.barrier = threading.Barrier(gather)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> "Server":
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.barrier.abort()
        self.server.shutdown()
        self.server.server_close()

    @property
    def bodies(self) -> list[Any]:
        """The JSON of each request, in the order they came."""
        return [seen.body for seen in self.requests]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                parts = urlsplit(self.path)
                text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                with outer.lock:
                    seen = Seen(
                        len(outer.requests) + 1,
                        self.command,
                        parts.path,
                        parse_qs(parts.query),
                        dict(self.headers),
                        text,
                    )
                    outer.requests.append(seen)
                    outer.in_flight += 1
                    outer.most_in_flight = max(outer.most_in_flight, outer.in_flight)
                try:
                    with contextlib.suppress(threading.BrokenBarrierError):
                        outer.barrier.wait(30)
                    found = outer.reply(seen)
                finally:
                    with outer.lock:
                        outer.in_flight -= 1
                outer._send(self, found if isinstance(found, Reply) else Reply(found))

            do_GET = do_PATCH = do_POST

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        if reply.parts is not None:
            handler.close_connection = True
            with contextlib.suppress(OSError):  # the client may be gone
                for part in reply.parts:
                    time.sleep(part) if isinstance(part, float) else handler.wfile.write(part)
            return
        data = (json.dumps(reply.body) if reply.text is None else reply.text).encode()
        try:
            handler.send_response(reply.status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(data)),
                **reply.headers,
            }.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(data)
            handler.wfile.flush()
        except OSError:  # the client has given up
            handler.close_connection = True


def in_turn(replies: Iterable[Any], then: Callable[[Seen], Any]) -> Callable[[Seen], Any]:
    """Each of these replies once, in order (a callable is called), and `then` after them."""
    first = list(replies)

    def reply(seen: Seen) -> Any:
        found = first[seen.number - 1] if seen.number <= len(first) else then
        return found(seen) if callable(found) else found

    return reply


SOURCE = {"rel_path": "notes/a.md", "heading_path": "# A > ## B"}
CHUNK = SOURCE | {"score_vector": 0.5, "score_final": 0.75, "text": "some text"}
DEBUG = {
    "folder_selection": {"selected_folders": ["notes"], "available_folders": ["notes", "work"]},
    "latency": {
        "folder_selection_ms": 3, "retrieval_ms": 20, "generation_ms": 100, "judge_ms": 0,
        "total_ms": 123,
    },
    "indexing_coverage": {
        "docs_processed": 7, "chunks_embedded": 40, "chunker_version": "v1",
        "index_version": "abc",
    },
}  # fmt: skip


def chatbot(seen: Seen) -> dict[str, Any]:
    """A reply of the chatbot framework's ask endpoint in debug mode.

    As many chunks as were asked for.
    """
    n, has_answer = seen.body.get("k", 5), seen.body.get("with_answer", True)
    chunks = [{**CHUNK, "chunk_id": f"c{rank}", "rank": rank} for rank in range(1, n + 1)]
    return {
        "answer": f"answer to {seen.body['question']}" if has_answer else "",
        "references": [{"vault": "personal", **SOURCE, "chunk_index": 0}] if has_answer else [],
        "debug": {"retrieved_chunks": chunks, **DEBUG},
    }
