"""A JSON server on loopback, for examples and tests: what `DemoServer` and `JudgeServer` share."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from ragscore.frames.errors import DataError

Object = dict[str, Any]
Reply = tuple[int, Object]
"""Status and body of a reply."""


class LocalServer(ThreadingHTTPServer):
    """Answer POST requests of programs on this machine until closed; a base class.

    Served at 127.0.0.1 on a port of its own, or on the one given. A page in a browser can send
    requests there, too: other host names (421) and other origins (403) are refused. A body may have
    `longest` bytes. It is no server for a network: clients are trusted to finish their requests.

    Raises
    ------
    DataError
        The port can't be had.
    """

    longest = 1_000_000
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
        host, length = self.headers.get("Host", ""), self.headers.get("Content-Length", "")
        if urlsplit(f"//{host}").hostname not in ("127.0.0.1", "localhost"):
            self.send_error(
                421, f"the host is {host or 'missing'}; 127.0.0.1:{self.server.server_port}"
            )
        elif self.headers.get("Origin", f"http://{host}") != f"http://{host}":
            self.send_error(403, "web pages of other origins are not answered")
        elif not (length.isascii() and length.isdecimal()) or int(length) > self.server.longest:
            allowed = f"at most {self.server.longest:,} bytes"
            self.send_error(400, f"Content-Length is {length or 'missing'}; {allowed}")
        else:
            self._send(*self.server.answer(self.path, self.rfile.read(int(length))))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send errors as JSON, too."""
        self._send(code, {"error": message or self.responses[code][0]})

    def _send(self, status: int, body: Object) -> None:
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: notebooks and tests print their own lines."""
