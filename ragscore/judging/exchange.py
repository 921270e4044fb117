"""One HTTP exchange with an endpoint, bounded in time and size; it stays at one address.

The openai client sends every attempt through `bounded_client`. A reply is read whole here, so that
nothing later waits for it, unpacks it or follows it elsewhere.
"""

import importlib
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any

from ragscore.io.http_replies import LONGEST_WAIT, retry_after, unpacked

MAX_REPLY_BYTES = 10_000_000  # unpacked; a long judgment takes 0.02 of it, long embeddings 0.05
FAULT = "ragscore.fault"  # extension of a response that can't be used, with the reason
_SEEN = 10_000  # bytes of an error's content that are kept for its message


class _Deadline:
    """A time limit for a whole exchange: when it is over, the connection is cut.

    A client's own limits hold for each read, so that one byte a second passes them for ever.
    """

    def __init__(self, seconds: float) -> None:
        self.is_over = False
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> "_Deadline":
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        self._timer.join()  # no thread stays behind a call

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Note the socket of a connection as soon as it stands."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")
            if self.is_over:
                self._cut()

    def _cut(self) -> None:
        self.is_over = True
        if self._socket is not None:
            with suppress(OSError):  # closed already
                # Of the socket, not of its TLS layer, which another thread is reading from.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def bounded_client(openai: Any, seconds: float) -> Any:
    """Return an HTTP client for `openai.OpenAI(http_client=)`.

    An attempt takes `seconds` at most, headers and content together. A connection serves one
    attempt, so that the one to cut is known. Redirects are not followed. A reply over
    `MAX_REPLY_BYTES`, one that can't be unpacked and a redirect come back as an empty response that
    names its fault, which no client tries again.
    """
    base = openai.DefaultHttpxClient
    # The openai client has changed from one HTTP library to its successor: take the one it uses.
    (http,) = {
        importlib.import_module(kind.__module__.partition(".")[0])
        for kind in base.__mro__
        if kind.__name__ == "Client"
    }

    class BoundedClient(base):  # type: ignore[misc, valid-type]
        def send(self, request: Any, **options: Any) -> Any:
            options |= {"stream": True, "follow_redirects": False}
            with _Deadline(seconds) as deadline:
                request.extensions = {**request.extensions, "trace": deadline.trace}
                try:
                    response = super().send(request, **options)
                    try:
                        return _read(http, response)
                    finally:
                        response.close()
                # Libraries raise what they like when a socket ends under them.
                except Exception as error:
                    if not deadline.is_over:
                        raise
                    text = f"no whole reply within {seconds:g} seconds"
                    raise http.ReadTimeout(text, request=request) from error

    return BoundedClient(
        timeout=seconds,
        limits=http.Limits(max_connections=None, max_keepalive_connections=0),
        headers={"Accept-Encoding": "identity"},
    )


def _read(http: Any, response: Any) -> Any:
    """Return the response with its content."""
    content, fault = _content(response)
    if 300 <= response.status_code < 400:
        fault = (
            f"the endpoint redirects (status {response.status_code}), which is not followed:"
            " base_url should name the address that answers"
        )
    if response.status_code >= 400:  # its status is the error, whatever its content
        content, fault = content[:_SEEN], ""
        if (wait := asked_wait(response.headers)) is not None and wait > LONGEST_WAIT:
            response.headers["x-should-retry"] = "false"  # the openai client would ask sooner
    if fault:
        return http.Response(200, request=response.request, extensions={FAULT: fault})
    unpacked = ("content-encoding", "content-length", "transfer-encoding")
    headers = [pair for pair in response.headers.multi_items() if pair[0] not in unpacked]
    return http.Response(
        response.status_code, headers=headers, content=content, request=response.request
    )


def asked_wait(headers: Any) -> float | None:
    """Return the seconds that a response asks to wait for, in either of its ways; else None."""
    milliseconds = retry_after(headers.get("retry-after-ms"))
    return retry_after(headers.get("retry-after")) if milliseconds is None else milliseconds / 1000


def _content(response: Any) -> tuple[bytes, str]:
    """Return the unpacked content as far as it was read, and what is wrong with it."""
    received, too_large = bytearray(), f"the endpoint's reply is over {MAX_REPLY_BYTES:,} bytes"
    for part in response.iter_raw():
        received += part
        if len(received) > MAX_REPLY_BYTES:
            return bytes(received), too_large
    try:
        encoding = response.headers.get("content-encoding", "")
        content = unpacked(bytes(received), encoding, MAX_REPLY_BYTES)
    except ValueError as error:
        return b"", f"the endpoint's reply {error}"
    return content, too_large if len(content) > MAX_REPLY_BYTES else ""
