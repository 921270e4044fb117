"""An HTTP endpoint as a system, over httpx; all workers share one client.

One time limit covers the whole exchange, from connecting to the last byte. Redirects are not
followed, since headers may hold keys. Errors say if another attempt may help.
"""

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ragscore.collecting.systems.base import AskError, Request, System, in_time, timed_out
from ragscore.collecting.systems.mapping import KEY_PLACES, VARIABLE, Mapping, body_of, reply_of
from ragscore.frames.errors import DataError, packages_of
from ragscore.io.secrets import Redactor, checked_address, checked_key
from ragscore.io.source import parse_json
from ragscore.io.waiting import retry_after

if TYPE_CHECKING:
    import httpx

RETRY_STATUS = frozenset((408, 425, 429, 500, 502, 503, 504))
SHOWN = 300  # characters of an error page in a message


def http_system(mapping: Mapping, name: str | None = None) -> System:
    """Return a system that sends requests to a JSON endpoint, by a mapping.

    Raises
    ------
    DataError
        httpx is missing, or an environment variable is not set or holds what no header can.
    """
    with packages_of("collect", field="system"):
        import httpx
    parts = urlsplit(mapping.url)
    of_url = parse_qsl(parts.query, keep_blank_values=True)
    own = _filled(mapping.params, "params")
    # httpx would replace parameters in an address by others.
    params = of_url + [(name, value) for name, value in own.items() if name not in dict(of_url)]
    url = urlunsplit(parts._replace(query="", fragment=""))
    client = httpx.Client(headers=_filled(mapping.headers, "headers"), follow_redirects=False)
    written = " ".join([*mapping.headers.values(), *mapping.params.values()])
    variables = tuple(braced or bare for braced, bare in VARIABLE.findall(written))
    redactor = Redactor(os.environ[name] for name in variables)

    def ask(request: Request, seconds: float | None) -> Any:
        body = body_of(mapping, request)
        sent: dict[str, Any] = {"params": params, "json": body}
        if mapping.method == "GET":
            sent = {"params": [*params, *_parameters(body)]}
        sent |= {"method": mapping.method, "url": url, "timeout": seconds}
        response, content = in_time(lambda: _exchange(client, sent, mapping.max_bytes), seconds)
        return _reply(mapping, request, redactor, response, content)

    described = {"kind": "http", **{name: vars(mapping)[name] for name in _DESCRIBED}}
    return System(
        name or str(parts.hostname),
        ask,
        {name: value for name, value in described.items() if value not in ({}, None)},
        mapping.takes,
        variables=variables,
        close=client.close,
    )


_DESCRIBED = ("method", "url", "params", "headers", "fixed", "request", "others", "response")


def _exchange(
    client: "httpx.Client", sent: dict[str, Any], limit: int | None
) -> tuple["httpx.Response", bytes]:
    """Return a response and its unpacked content."""
    import httpx

    content = bytearray()
    try:
        with client.stream(**sent) as response:
            for part in response.iter_bytes(65_536):
                content += part
                if limit is not None and len(content) > limit:
                    raise AskError(f"the reply has more than {limit:,} bytes")
    except httpx.TimeoutException as error:  # whichever of two clocks is first
        raise timed_out(sent["timeout"]) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise AskError(f"{type(error).__name__}: {error}", again=True) from error
    return response, bytes(content)


def _reply(
    mapping: Mapping,
    request: Request,
    redactor: Redactor,
    response: "httpx.Response",
    content: bytes,
) -> dict[str, Any]:
    """Return the reply in a response, or raise with what of it can be used."""
    shown = redactor.excerpt(content.decode("utf-8", "replace"), SHOWN)
    values, fault = None, ""
    try:
        values = parse_json(content.decode())
    except UnicodeDecodeError as error:
        fault = f"not UTF-8 (byte {content[error.start]:#x} at {error.start}): {shown!r}"
    except (ValueError, RecursionError) as error:
        fault = f"not valid JSON ({error}): {shown!r}"
    if response.is_success and not fault:
        return reply_of(mapping, values, request.get("with_answer") is not False)
    if response.is_success:
        raise AskError(fault, again=True)
    if response.has_redirect_location:
        there = redactor.excerpt(response.headers["location"], SHOWN)
        shown = f"a redirect to {there}, which is not followed"
    kept: dict[str, Any] | None = None
    with suppress(AskError):  # the hits in an error's body
        found = reply_of(mapping, values, with_answer=False)
        kept = {name: found[name] for name in found if name not in ("answer", "error")}
    raise AskError(
        f"HTTP {response.status_code}: {shown}",
        again=response.status_code in RETRY_STATUS,
        wait=retry_after(response.headers.get("retry-after")),
        reply=kept,
    )


def _parameters(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Return a body as parameters: a list repeats its name, nested objects are JSON."""
    return [
        (name, part if isinstance(part, str) else json.dumps(part, ensure_ascii=False))
        for name, value in body.items()
        for part in (value if isinstance(value, list) else [value])
    ]


def _filled(values: dict[str, str], part: str) -> dict[str, str]:
    """Return values with environment variables filled in."""
    filled = {}
    for name, value in values.items():
        try:
            whole = VARIABLE.sub(lambda match: os.environ[match[1] or match[2]], value)
        except KeyError as error:
            raise DataError(
                f"the environment variable {error.args[0]} is not set",
                field=f"{part}.{name}",
                allowed="its value in the environment",
            ) from None
        filled[name] = checked_key(whole, f"{part}.{name}")
    return filled


def with_path(url: str, path: str) -> str:
    """Return an address with this path if it has none; its query stays."""
    parts = checked_address(url, "url", KEY_PLACES)
    if parts.path.strip("/"):
        return url
    return urlunsplit(parts._replace(path=path, query=urlencode(parse_qsl(parts.query))))
