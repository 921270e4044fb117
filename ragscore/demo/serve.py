"""A local server that puts systems behind a chatbot's endpoint, `POST /api/v1/ask`.

`?debug=true` adds the debug part to replies. `ragscore demo --serve` serves the demo's four
systems; `DemoServer` serves any system in a notebook or a test.
"""

import io
import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ragscore.collecting.replies import plain, record_of
from ragscore.collecting.systems import ASK, AskError, Given, Request, System, as_system
from ragscore.demo.ask import demo_index, systems_over
from ragscore.demo.corpus import chunker_version
from ragscore.demo.retrievers import Index
from ragscore.frames.errors import DataError
from ragscore.io.source import describe, parse_json

PORT = 9000  # where the chatbot framework listens
LONGEST = 1_000_000  # bytes of a request
LONGEST_HEAD = 65_536  # bytes of a request's first line and headers
PATIENCE = 60.0  # seconds until a request is there whole, and for the next on an open connection
CONNECTIONS = 128  # at once
_HIT_NAMES = {"rel_path": "doc_path", "text": "snippet", "score_final": "score"}
_CITATION_NAMES = {"rel_path": "path"}
_KINDS: dict[str, tuple[type, str]] = {
    "mode": (str, "text"), "k": (int, "a whole number from 1"),
    "with_answer": (bool, "true or false"), "filters": (dict, "an object"),
    "folders": (list, "a list of texts"), "vaults": (list, "a list of texts"),
}  # fmt: skip

Object = dict[str, Any]


class DemoServer:
    """Serve systems on 127.0.0.1 until closed, to programs of this machine.

    `with DemoServer({"mine": search}) as server: rs.collect(server.url, golden, out)`. A request is
    `{"question": ..., "mode": ..., "k": ..., "with_answer": ..., "filters": ..., "folders": ...}`:
    `mode` names the system and may be left out if there is only one; all else goes to the system,
    and what it can't be told is refused. Errors are `{"error": ...}`: 400 no JSON object, 404
    another address, 422 a field that can't be used, 500 the system failed; hits found all the same
    are in the debug part. Web pages are refused (403), and names for this machine other than
    127.0.0.1, localhost and [::1] (421), so that no page in a browser can ask the systems. A
    request has at most a minute and 1 MB; more than 128 connections at once are told 503.

    Parameters
    ----------
    systems
        By mode, each as `rs.collect` takes one.
    port
        0: a free one.
    coverage
        What is known of the index, such as `chunker_version` and `index_version`: reported as
        `debug.indexing_coverage`.

    Attributes
    ----------
    url
        Its address, without the path of the endpoint.

    Raises
    ------
    DataError
        No system, something that is none, or a port that can't be had.
    """

    def __init__(
        self, systems: Mapping[str, Given], port: int = 0, coverage: Mapping[str, Any] | None = None
    ) -> None:
        if not systems:
            raise DataError("none given", field="systems", allowed="at least one")
        self.systems = {mode: as_system(system, mode) for mode, system in systems.items()}
        self.coverage: Object = plain(dict(coverage or {}))
        self._http = _bound(port, _handler(self))
        self.port = int(self._http.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(
            target=self._http.serve_forever,
            kwargs={"poll_interval": 0.05},
            name="ragscore-serve",
            daemon=True,
        )
        self._thread.start()

    def __enter__(self) -> "DemoServer":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving; requests under way are not waited for."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        for system in self.systems.values():
            system.close()

    def wait(self) -> None:
        """Serve until the server is closed, or Ctrl-C."""
        while self._thread.is_alive():
            self._thread.join(1.0)  # an endless wait can't be interrupted on every platform

    def answer(self, address: str, content: bytes) -> tuple[int, Object]:
        """Return status and body of the reply to a request."""
        parts = urlsplit(address)
        if parts.path != ASK:
            return _error(404, f"nothing at {parts.path}; POST {ASK}")
        try:
            body = parse_json(content.decode())
        except (ValueError, RecursionError) as error:
            return _error(400, f"the body is not valid JSON ({error})")
        if not isinstance(body, dict):
            return _error(400, f"the body is {describe(body)}; an object")
        debug = parse_qs(parts.query).get("debug", [""])[-1].lower() in ("true", "1")
        try:
            return self._asked(*self._read(body), debug)
        except DataError as error:
            return _error(422, str(error))
        except Exception as error:  # one failing request must not stop the server
            return _error(500, f"{type(error).__name__}: {error}")

    def _read(self, body: Object) -> tuple[System, Request]:
        """Return the system that a request names, and the request without unset fields.

        Null, "" and empty lists count as not set.
        """
        given = {
            name: value
            for name, value in body.items()
            if value is not None and value != [] and value != {} and value != ""
        }
        question = given.pop("question", None)
        if not isinstance(question, str) or not question.strip():
            raise DataError(
                "the field is missing" if question is None else f"found {describe(question)}",
                field="question",
                allowed="text that isn't empty",
            )
        for name, (kind, allowed) in _KINDS.items():
            if name in given and not _is_of(given[name], kind):
                raise DataError(f"found {describe(given[name])}", field=name, allowed=allowed)
        system = self._system(given.pop("mode", None))
        if given.get("with_answer") is True and not _takes(system, "with_answer"):
            del given["with_answer"]  # the system answers, or doesn't, by itself
        for name in given:
            if not _takes(system, name):
                raise DataError(
                    f"{system.name} can't be told this",
                    field=name,
                    allowed=f"one of question, mode, {', '.join(sorted(system.takes or ()))}",
                )
        return system, {"query": question, **given}

    def _system(self, mode: str | None) -> System:
        allowed = f"one of {', '.join(self.systems)}"
        if mode is None and len(self.systems) > 1:
            raise DataError("the field is missing", field="mode", allowed=allowed)
        found = next(iter(self.systems.values())) if mode is None else self.systems.get(mode)
        if found is None:
            raise DataError(f"found {mode!r}", field="mode", allowed=allowed)
        return found

    def _asked(self, system: System, request: Request, debug: bool) -> tuple[int, Object]:
        """Return status and reply of a system; a failed one may still have found hits."""
        fault: str | None = None
        started = perf_counter()
        try:
            reply = system.ask(request, None)
        except AskError as error:
            if isinstance(error.__cause__, DataError):
                raise error.__cause__ from None
            reply, fault = error.reply, str(error) or type(error).__name__
        total = 1000 * (perf_counter() - started)
        record, config = _recorded({"query_id": "asked", **request}, reply, fault)
        record["latency_total_ms"] = total
        found = (
            _debug(record, self.coverage) | {"config": config, "mode": system.name}
            if debug
            else None
        )
        said = _answer(record) if record["error"] is None else {"error": record["error"]}
        return 200 if record["error"] is None else 500, said | (
            {"debug": found} if found is not None else {}
        )


def demo_server(cache: Path, port: int = 0) -> DemoServer:
    """Serve the demo's four systems over the manuals of this machine.

    Vectors are stored in `cache`.
    """
    # Fail before the index is built if the port can't be had.
    _bound(port, BaseHTTPRequestHandler).server_close()
    index, version = demo_index(cache), chunker_version()
    return DemoServer(systems_over(index, version), port, index_coverage(index, version))


def index_coverage(index: Index, version: str) -> Object:
    """Return the counts of documents and passages, and the versions of chunker and index."""
    n = len(index.chunks)
    counts = {
        "docs_processed": int(index.chunks["doc_id"].nunique()),
        "chunks_attempted": n,
        "chunks_embedded": n,
        "chunks_skipped": 0,
    }
    return counts | {"chunker_version": version, "index_version": index.version}


def serve_demo(out: Path, port: int = PORT, report: Callable[[str], None] = print) -> None:
    """Serve the demo's systems until Ctrl-C; `report` is told the address."""
    with suppress(KeyboardInterrupt), demo_server(out / "cache", port) as server:
        report(f"serving {', '.join(server.systems)} at {server.url}{ASK} until Ctrl-C")
        server.wait()


def _recorded(request: Request, reply: Any, fault: str | None) -> tuple[Object, Object]:
    """Return a reply as a record, and the config that the system reports.

    If only the answer can't be read, its hits are kept.
    """
    try:
        return record_of(request, reply, 0.0, fault)
    except AskError as error:
        text = fault or str(error)
        with suppress(AskError):
            return record_of(request, error.reply, 0.0, text)
        return {"error": text}, {}


def _answer(record: Object) -> Object:
    """Return the reply without its debug part."""
    answer = record.get("answer")
    values: Object = {"answer": answer} if isinstance(answer, str) else answer or {}
    found = {
        "answer": values.get("answer"),
        "references": [_renamed(one, _CITATION_NAMES) for one in values.get("citations") or []],
    }
    reason = values.get("refusal_reason")
    return (
        found
        | ({"abstained": values["refused"]} if "refused" in values else {})
        | ({"abstain_reason": reason} if reason else {})
    )


def _debug(record: Object, coverage: Object) -> Object:
    """Return the debug part: hits, scope, latency, and coverage of the index."""
    hits = [
        {"rank": rank} | _renamed(hit, _HIT_NAMES)
        for rank, hit in enumerate(record.get("hits_top_k") or [], 1)
    ]
    latency = {
        name.removeprefix("latency_"): value
        for name, value in record.items()
        if name.startswith("latency_")
    }
    scope = record.get("scope")
    folders = (
        {
            f"{'selected' if name == 'folders' else name}_folders": found
            for name, found in scope.items()
        }
        if isinstance(scope, dict)
        else {}
    )
    return {"retrieved_chunks": hits, "latency": latency, "indexing_coverage": coverage} | (
        {"folder_selection": folders} if folders else {}
    )


def _renamed(item: Object, names: Mapping[str, str]) -> Object:
    """Return a hit or citation of a record under the endpoint's names."""
    ours = {own: name for name, own in names.items()}
    return {ours.get(own, own): value for own, value in item.items()}


def _is_of(value: Any, kind: type) -> bool:
    """Check the type of a field; true is no number."""
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if kind is list:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, kind)


def _takes(system: System, name: str) -> bool:
    return system.takes is None or name in system.takes


def _error(status: int, text: str) -> tuple[int, Object]:
    return status, {"error": text}


def _bound(port: int, handler: type[BaseHTTPRequestHandler]) -> "LocalHttp":
    """Return a server that has its port."""
    try:
        return LocalHttp(("127.0.0.1", port), handler)
    except (OSError, OverflowError) as error:
        raise DataError(
            f"{port} can't be had ({error})", field="port", allowed="a free port, or 0 for any"
        ) from error


class LocalHttp(ThreadingHTTPServer):
    """An HTTP server of a limited number of connections, each in a thread of its own."""

    daemon_threads = True
    # Connections that may wait; with the default of five, further clients wait a second.
    request_queue_size = 128

    def __init__(self, *given: Any) -> None:
        self.places = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection if there is a place for it."""
        if self.places.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        with suppress(OSError):
            request.settimeout(0)  # a new connection has room for these few bytes
            request.sendall(_BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, then free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients may leave, and errors of systems are replies."""


_TOLD = b'{"error": "too many are served"}'
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_TOLD), _TOLD)
)


class _TooLong(Exception):
    """A request has more bytes than it may have."""


class _Request(io.RawIOBase):
    """The bytes of one request after the other, each with a deadline and a greatest number.

    The time limit of a socket holds for each wait, and begins anew with each byte of a client that
    drips.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.deadline, self.n_left = connection, 0.0, 0

    def expect(self, n_bytes: int) -> None:
        """Give what follows so many bytes more, and the whole time."""
        self.n_left = n_bytes
        self.restart()

    def restart(self) -> None:
        """Give what follows the whole time."""
        self.deadline = monotonic() + PATIENCE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.n_left <= 0:
            raise _TooLong
        self.connection.settimeout(max(self.deadline - monotonic(), 0.001))
        n = self.connection.recv_into(memoryview(buffer)[: self.n_left])
        self.n_left -= n
        return n


def refusal(headers: Message, target: str, port: int) -> tuple[int, str] | None:
    """Return status and reason if a request is not from a program that means this server.

    A page in a browser may send requests to this machine: under a name of its own that leads here,
    which the host shows, or from its own origin, which browsers name.
    """
    hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    hosts += [host.removesuffix(":80") for host in hosts if port == 80]
    given = [*headers.get_all("Host", []), *filter(None, [urlsplit(target).netloc])]
    if not given or any(host.strip().lower() not in hosts for host in given):
        return 421, f"the host is {given[0] if given else 'missing'}; {hosts[0]}"
    origins = headers.get_all("Origin", [])
    own = [f"http://{host}" for host in hosts]
    if any(origin.strip().lower() not in own for origin in origins):
        return 403, "web pages of other origins are not answered"
    sites = headers.get_all("Sec-Fetch-Site", [])
    if any(site.strip().lower() not in ("same-origin", "none") for site in sites):
        return 403, "web pages of other origins are not answered"
    return None


def _handler(server: DemoServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body are sent one after the other; with Nagle's algorithm the body would wait
        # 40 ms.
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            self.rfile.close()
            self.received = _Request(self.connection)
            self.rfile = self.buffered = io.BufferedReader(self.received)

        def handle_one_request(self) -> None:
            self.received.expect(LONGEST_HEAD)
            with suppress(TimeoutError, _TooLong):
                if self.buffered.peek(1):
                    self.received.restart()  # waiting for a request took none of its time
                    super().handle_one_request()
                    return
            self.close_connection = True

        def parse_request(self) -> bool:
            try:
                if not super().parse_request():
                    return False
                refused = refusal(self.headers, self.path, server.port)
            except _TooLong:
                refused = 431, f"the headers have more than {LONGEST_HEAD} bytes"
            except ValueError as error:
                refused = 400, f"the address can't be read ({error})"
            if refused is not None:
                self.send_error(*refused)
            return refused is None

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not (length.isascii() and length.isdecimal()) or int(length) > LONGEST:
                self.send_error(
                    400, f"Content-Length is {length or 'missing'}; at most {LONGEST} bytes"
                )
                return
            self.received.expect(int(length) + 1)
            content = self.rfile.read(int(length))
            if len(content) < int(length):
                self.close_connection = True  # the client has left
                return
            self._send(*server.answer(self.path, content))

        def do_GET(self) -> None:
            known = urlsplit(self.path).path == ASK
            self.send_error(
                405 if known else 404, f"{self.command} {urlsplit(self.path).path}; POST {ASK}"
            )

        def send_error(
            self, code: int, message: str | None = None, explain: str | None = None
        ) -> None:
            """Send the server's own errors as JSON, too, and close the connection unread."""
            self.close_connection = True
            self._send(code, {"error": message or self.responses[code][0]})

        def _send(self, status: int, body: Object) -> None:
            content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode(
                "utf-8", "replace"
            )
            self.connection.settimeout(PATIENCE)  # for all of the reply
            self.send_response(status)
            headers = {"Content-Type": "application/json", "Content-Length": str(len(content))} | (
                {"Connection": "close"} if self.close_connection else {}
            )
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: notebooks and tests print their own lines."""

    return Handler
