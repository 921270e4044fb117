"""An S3 server on this machine, for tests of stores on object storage."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import pytest


@contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """Yield the storage options of a server with one bucket, `bucket`.

    As S3 does, it answers one request to a key after the other. A request with the header `X-Fault:
    503` is answered so and not carried out; with `503 done` it is carried out before.
    """
    server = pytest.importorskip("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    server.start()
    host, port = server.get_host_and_port()
    app, one_at_a_time = server._server.app, Lock()

    def locked(environ: Any, start_response: Any) -> list[bytes]:
        status, _, is_done = environ.pop("HTTP_X_FAULT", "").partition(" ")
        with one_at_a_time:
            if not status:
                return list(app(environ, start_response))
            if is_done:
                list(app(environ, lambda *answer: None))
        name = "SlowDown" if status == "503" else "InternalError"
        start_response(f"{status} {name}", [("Content-Type", "application/xml")])
        return [f"<Error><Code>{name}</Code><Message>{name}</Message></Error>".encode()]

    server._server.app = locked
    options = {"endpoint_url": f"http://{host}:{port}", "key": "any", "secret": "any"}
    import s3fs

    s3fs.S3FileSystem(**options).makedirs("bucket", exist_ok=True)
    try:
        yield options
    finally:
        server.stop()
