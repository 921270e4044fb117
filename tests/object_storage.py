"""An S3 server on this machine, for tests of stores on object storage."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import pytest


@contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """Yield the storage options of a server with one bucket, `bucket`.

    As S3 does, it answers one request to a key after the other.
    """
    server = pytest.importorskip("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    server.start()
    host, port = server.get_host_and_port()
    app, one_at_a_time = server._server.app, Lock()

    def locked(environ: Any, start_response: Any) -> list[bytes]:
        with one_at_a_time:
            return list(app(environ, start_response))

    server._server.app = locked
    options = {"endpoint_url": f"http://{host}:{port}", "key": "any", "secret": "any"}
    import s3fs

    s3fs.S3FileSystem(**options).makedirs("bucket", exist_ok=True)
    try:
        yield options
    finally:
        server.stop()
