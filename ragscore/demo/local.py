"""A JSON server on loopback, for examples and tests: what `DemoServer` and `JudgeServer` share."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ragscore.frames.errors import DataError

Object = dict[str, Any]
Reply = tuple[int, Object]
"""Status and body of a reply."""


class LocalServer(ThreadingHTTPServer):
    """Answer POST requests of programs on this machine until closed; a base class.

    Served at 127.0.0.1 on a port of its own, or on the one given. It is no server for a network:
    its clients are trusted. Pages in a browser are refused.

    Raises
    ------
    DataError
        The port can't be had.
    """

    daemon_threads = False  # closing waits for them
    request_queue_size = 128  # with the default of five, further clients wait a second

    def __init__(self, port: int = 0) -> None:
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            raise DataError(
                f"{port} can't be had ({error})", field="port", allowed="a free port, or 0 for any"
            ) from error
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def answer(self, address: str, content: bytes) -> Reply:
        """Return status and body of the reply to a request."""
        raise NotImplementedError

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving, once requests under way are answered."""
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients may leave."""


class _Handler(BaseHTTPRequestHandler):
    """One request a connection, so that no thread waits for a second one."""

    server: LocalServer
    timeout = 10  # seconds that a client may be silent
    disable_nagle_algorithm = True  # headers and body go out at once, not 40 ms apart

    def do_POST(self) -> None:
        host = self.headers.get("Host", "").rpartition(":")[0]
        if (
            host not in ("127.0.0.1", "localhost") or "Origin" in self.headers
        ):  # a page in a browser
            self.send_error(403, "programs of this machine are answered, pages are not")
            return
        length = int(self.headers.get("Content-Length", 0))
        status, body = self.server.answer(self.path, self.rfile.read(length))
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: notebooks and tests print their own lines."""
