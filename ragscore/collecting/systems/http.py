"""An HTTP endpoint as a system, over httpx.

All workers share one client. One deadline covers the whole exchange: connecting, sending, the
headers and the body of the reply. A reply is counted while it is read and unpacked, and ends at a
limit. Redirects are not followed, since headers may hold keys. Errors say if another attempt may
help.
"""

import json
import math
import os
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from ragscore.collecting.systems.base import AskError, Request, System, too_large
from ragscore.collecting.systems.event_loop import EventLoop
from ragscore.collecting.systems.mapping import (
    OPEN_HEADERS,
    Mapping,
    body_of,
    hidden_fields,
    reply_of,
)
from ragscore.frames.errors import DataError, packages_of
from ragscore.io.http_replies import retry_after, unpacked
from ragscore.io.secrets import (
    QUOTED,
    Redactor,
    hidden_url,
    is_secret_parameter,
    secrets_in,
    secrets_of_url,
)
from ragscore.io.source import parse_json

if TYPE_CHECKING:
    import httpx

RETRY_STATUS = frozenset((408, 425, 429, 500, 502, 503, 504))
SHOWN = 300  # characters of an error page in a message
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def http_system(mapping: Mapping, name: str | None = None) -> System:
    """Return a system that sends requests to a JSON endpoint, by a mapping.

    Raises
    ------
    DataError
        httpx is missing, the address is invalid, or an environment variable is not set.
    """
    with packages_of("collect", field="system"):
        import httpx
    url, url_params, auth = _split_address(mapping.url)
    headers, header_variables = _filled(mapping.headers, "headers")
    own_params, param_variables = _filled(mapping.params, "params")
    params = url_params + [
        (name, value) for name, value in own_params.items() if name not in dict(url_params)
    ]
    secrets = [value for name, value in headers.items() if name.lower() not in OPEN_HEADERS]
    secrets += [word for value in secrets for word in value.split()[1:]]  # of "Bearer <token>"
    secrets += [value for name, value in own_params.items() if is_secret_parameter(name)]
    secrets += header_variables + param_variables
    secrets += secrets_of_url(mapping.url) + secrets_in(mapping.fixed)
    if auth:
        secrets.append("Basic " + b64encode(":".join(auth).encode()).decode())
    redactor = Redactor(secrets)
    # No limit on connections: the number of workers is one already. Nor on single waits, which a
    # server that drips would begin anew with each byte: the deadline is the loop's.
    try:
        client = httpx.AsyncClient(
            headers={"accept-encoding": "gzip, deflate", **headers},
            auth=auth,
            limits=httpx.Limits(max_connections=None),
            timeout=None,
            follow_redirects=False,
        )
    except UnicodeEncodeError:  # which quotes the header
        found = ", ".join(name for name, value in headers.items() if not value.isascii())
        raise DataError(
            f"{found} holds other signs than ASCII", field="headers", allowed="ASCII"
        ) from None
    loop = EventLoop()

    def ask(request: Request, seconds: float | None) -> Any:
        own = secrets_in(request)
        door = Redactor([*secrets, *own]) if own else redactor
        exchanged = loop.run(_exchange(client, mapping, url, params, request, door), seconds)
        return _reply(mapping, request, door, *exchanged)

    # for the snapshot, with names but not values of headers
    description = {
        "kind": "http",
        "method": mapping.method,
        **hidden_fields(mapping),
        "request": mapping.request,
        "others": mapping.others,
        "response": mapping.response,
    }
    return System(
        name or str(urlsplit(url).hostname),
        ask,
        {name: value for name, value in description.items() if value not in ({}, None)},
        mapping.takes,
        secrets=tuple(secret for secret in secrets if secret),
        close=lambda: loop.close(client.aclose),
    )


async def _exchange(
    client: "httpx.AsyncClient",
    mapping: Mapping,
    url: str,
    params: list[tuple[str, str]],
    request: Request,
    redactor: Redactor,
) -> tuple[int, bytes, str | None, float | None]:
    """Return status, content, the address of a redirect and the requested wait of an exchange."""
    import httpx

    body = body_of(mapping, request)
    sent: dict[str, Any] = (
        {"params": [*params, *_body_params(body)]}
        if mapping.method == "GET"
        else {"params": params, "json": body}
    )
    try:
        async with client.stream(mapping.method, url, **sent) as response:
            content = await _content(response, mapping.max_bytes)
            wait = retry_after(response.headers.get("retry-after"))
            location = response.headers.get("location") if response.has_redirect_location else None
            return response.status_code, content, location, wait
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        text = f"{type(error).__name__}: {redactor.excerpt(str(error), SHOWN)}"
        raise AskError(text, again=True) from error


async def _content(response: "httpx.Response", limit: int | None) -> bytes:
    """Return the unpacked content of a reply; httpx would unpack each part whole, of any size."""
    most = math.inf if limit is None else limit
    received, declared = bytearray(), response.headers.get("content-length", "")
    if declared.isdecimal() and float(declared) > most:
        raise too_large(int(most))
    async for part in response.aiter_raw():
        received += part
        if len(received) > most:
            raise too_large(int(most))
    try:
        content = unpacked(bytes(received), response.headers.get("content-encoding", ""), limit)
    except ValueError as error:
        raise AskError(f"the reply {error}", again=True) from error
    if len(content) > most:
        raise too_large(int(most))
    return content


def _reply(
    mapping: Mapping,
    request: Request,
    redactor: Redactor,
    status: int,
    content: bytes,
    location: str | None,
    wait: float | None,
) -> dict[str, Any]:
    if location is not None:
        there = redactor.excerpt(location, SHOWN)
        raise AskError(f"HTTP {status}: a redirect to {there}, which is not followed")
    text = content[: 4 * QUOTED].decode("utf-8", "replace")
    try:
        values, fault = parse_json(content.decode()), None
    except UnicodeDecodeError as error:
        place = f"byte {content[error.start]:#x} at {error.start}"
        values, fault = None, f"not UTF-8 ({place}): {redactor.excerpt(text, SHOWN)!r}"
    except (ValueError, RecursionError) as error:
        values, fault = None, f"not valid JSON ({error}): {redactor.excerpt(text, SHOWN)!r}"
    if not 200 <= status < 300:
        try:
            reply = reply_of(mapping, values, with_answer=False)
        except AskError:
            kept = None
        else:  # the hits in an error's body
            kept = {name: reply[name] for name in reply if name not in ("answer", "error")}
        raise AskError(
            f"HTTP {status}: {redactor.excerpt(text, SHOWN)}",
            again=status in RETRY_STATUS,
            wait=wait,
            reply=kept,
        )
    if fault is not None:
        raise AskError(fault, again=True)
    return reply_of(mapping, values, request.get("with_answer") is not False)


def _body_params(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a body as parameters: a list repeats its name, nested objects are JSON."""
    for name, value in body.items():
        for part in value if isinstance(value, list) else [value]:
            yield name, part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises for one that is no number
    except ValueError:  # which may quote a password
        raise DataError("no address", field="url", allowed="http://... or https://...") from None
    return parts


def _split_address(url: str) -> tuple[str, list[tuple[str, str]], tuple[str, str] | None]:
    """Return the bare address, its parameters, and its user and password.

    httpx would replace parameters in an address by others, and log user and password.
    """
    parts = _split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DataError(
            f"found {hidden_url(url)!r}", field="url", allowed="http://... or https://..."
        )
    plain = urlunsplit(
        parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    )
    auth = (
        None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
    )
    return plain, parse_qsl(parts.query, keep_blank_values=True), auth


def _filled(values: dict[str, str], part: str) -> tuple[dict[str, str], list[str]]:
    """Return values with environment variables filled in, and the contents of those variables."""
    used = []
    for name, value in values.items():
        for braced, bare in _VARIABLE.findall(value):
            variable = braced or bare
            if variable not in os.environ:
                raise DataError(
                    f"the environment variable {variable} is not set",
                    field=f"{part}.{name}",
                    allowed="its value in the environment",
                )
            used.append(os.environ[variable])
    filled = {
        name: _VARIABLE.sub(lambda match: os.environ[match[1] or match[2]], value)
        for name, value in values.items()
    }
    return filled, used


def with_path(url: str, path: str) -> str:
    """Return an address with this path if it has none; its query stays."""
    parts = _split(url)
    if parts.path.strip("/"):
        return url
    return urlunsplit(parts._replace(path=path, query=urlencode(parse_qsl(parts.query))))
