"""An HTTP endpoint as a system, through httpx.

One client for all workers, a limit on the whole exchange, and errors that say whether to ask again.
"""

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from ragscore.collecting.systems.base import AskError, Request, System, timed_out
from ragscore.collecting.systems.mapping import Mapping, body_of, reply_of
from ragscore.collecting.systems.secrets import HIDDEN, hidden, hidden_url, is_secret, secrets_in
from ragscore.frames.errors import DataError
from ragscore.io.source import parse_json

if TYPE_CHECKING:
    import httpx

# every other one may hold a key
OPEN_HEADERS = frozenset(("accept", "accept-language", "content-type", "user-agent"))
AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
SHOWN = 300  # characters of an error page


def http_system(mapping: Mapping, name: str | None = None) -> System:
    """An endpoint that takes and gives JSON as the mapping says."""
    try:
        import httpx
    except ModuleNotFoundError as error:
        raise DataError(
            "the package httpx is missing",
            field="system",
            allowed="pip install 'ragscore[collect]'",
        ) from error
    url, in_url, auth = _address(mapping.url)
    filled = {part: _filled(getattr(mapping, part), part) for part in ("headers", "params")}
    headers = {name: value for name, (value, _) in filled["headers"].items()}
    params = in_url + [
        (name, value) for name, (value, _) in filled["params"].items() if name not in dict(in_url)
    ]
    # The limit on connections is the workers' number; a pool of its own would only make them wait.
    client = httpx.Client(
        headers=headers,
        auth=auth,
        limits=httpx.Limits(max_connections=None),
        follow_redirects=False,
    )

    def ask(request: Request, seconds: float | None) -> Any:
        status, text, wait = _exchange(client, mapping, url, params, request, seconds)
        return _reply(mapping, request, status, text, wait)

    return System(
        name or str(urlsplit(url).hostname),
        ask,
        _described(mapping),
        mapping.takes,
        secrets=_secrets(mapping, filled, auth),
        close=client.close,
    )


def _exchange(
    client: "httpx.Client",
    mapping: Mapping,
    url: str,
    params: list[tuple[str, str]],
    request: Request,
    seconds: float | None,
) -> tuple[int, str, float | None]:
    """Status, text and the wait asked for of one exchange that took no longer than it may."""
    import httpx

    body = body_of(mapping, request)
    sent: dict[str, Any] = (
        {"params": [*params, *_as_params(body)]}
        if mapping.method == "GET"
        else {"params": params, "json": body}
    )
    deadline = None if seconds is None else monotonic() + seconds
    try:
        with client.stream(mapping.method, url, timeout=seconds, **sent) as response:
            text = b"".join(_until(response.iter_bytes(), deadline, seconds)).decode(
                "utf-8", "replace"
            )
            return response.status_code, text, _retry_after(response.headers.get("retry-after"))
    except httpx.TimeoutException as error:
        raise timed_out(seconds) from error
    except httpx.HTTPError as error:
        raise AskError(f"{type(error).__name__}: {error}", again=True) from error


def _until(
    parts: Iterator[bytes], deadline: float | None, seconds: float | None
) -> Iterator[bytes]:
    """The parts of a body.

    Httpx limits the wait for each part, a server that drips would never end.
    """
    for part in parts:
        yield part
        if deadline is not None and monotonic() > deadline:
            raise timed_out(seconds)


def _reply(
    mapping: Mapping, request: Request, status: int, text: str, wait: float | None
) -> dict[str, Any]:
    try:
        values, fault = parse_json(text), None
    except (ValueError, RecursionError) as error:
        values, fault = None, f"not valid JSON ({error}): {text[:SHOWN]!r}"
    if not 200 <= status < 300:
        raise AskError(
            f"HTTP {status}: {text.strip()[:SHOWN]}",
            again=status in AGAIN,
            wait=wait,
            reply=_kept(mapping, values),
        )
    if fault is not None:
        raise AskError(fault, again=True)
    return reply_of(mapping, values, request.get("with_answer") is not False)


def _kept(mapping: Mapping, values: Any) -> Any:
    """The hits that an error's body holds all the same."""
    try:
        reply = reply_of(mapping, values, with_answer=False)
    except AskError:
        return None
    return {name: value for name, value in reply.items() if name not in ("answer", "error")}


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait, given as such or as a date."""
    if value is None:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


def _as_params(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A body as parameters: a list repeats its name, nested objects are JSON."""
    for name, value in body.items():
        for one in value if isinstance(value, list) else [value]:
            yield name, one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)


def _address(url: str) -> tuple[str, list[tuple[str, str]], tuple[str, str] | None]:
    """The address, its parameters, which httpx would drop for others, and its user and password, which httpx would log."""
    parts = urlsplit(url)
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


def _filled(values: dict[str, str], part: str) -> dict[str, tuple[str, list[str]]]:
    """Each value with environment variables in the place of their names, and what those hold."""
    found = {}
    for name, value in values.items():
        used = re.findall(r"\$(?:\{(\w+)\}|(\w+))", value)
        names = [braced or plain for braced, plain in used]
        gone = [one for one in names if one not in os.environ]
        if gone:
            raise DataError(
                f"the environment variable {gone[0]} is not set",
                field=f"{part}.{name}",
                allowed="its value in the environment",
            )
        found[name] = (
            re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda one: os.environ[one[1] or one[2]], value),
            [os.environ[one] for one in names],
        )
    return found


def _secrets(
    mapping: Mapping,
    filled: dict[str, dict[str, tuple[str, list[str]]]],
    auth: tuple[str, str] | None,
) -> tuple[str, ...]:
    """Every text that may be a key.

    Headers, variables, parameters by name, and what stands in the address.
    """
    found = [
        value for name, (value, _) in filled["headers"].items() if name.lower() not in OPEN_HEADERS
    ]
    # the token of "Bearer <token>"
    found += [word for value in found for word in value.split()[1:]]
    found += [value for name, (value, _) in filled["params"].items() if is_secret(name)]
    found += [one for part in filled.values() for _, held in part.values() for one in held]
    found += [value for name, value in parse_qsl(urlsplit(mapping.url).query) if is_secret(name)]
    return tuple(
        one
        for one in [
            *found,
            *secrets_in(mapping.fixed),
            *((auth[1], ":".join(auth)) if auth else ()),
        ]
        if one
    )


def _described(mapping: Mapping) -> dict[str, Any]:
    """The endpoint as the snapshot keeps it: names of headers, not what they hold."""
    shown_params = {
        name: HIDDEN if is_secret(name) or "$" in value else value
        for name, value in mapping.params.items()
    }
    shown_headers = {
        name: value if name.lower() in OPEN_HEADERS and "$" not in value else HIDDEN
        for name, value in mapping.headers.items()
    }
    described: dict[str, Any] = {
        "kind": "http",
        "url": hidden_url(mapping.url),
        "method": mapping.method,
        "params": shown_params,
        "headers": shown_headers,
    }
    described |= {"fixed": hidden(mapping.fixed)} | {
        name: getattr(mapping, name) for name in ("request", "others", "response")
    }
    return {name: value for name, value in described.items() if value not in ({}, None)}


def with_path(url: str, path: str) -> str:
    """An address that names only a host, with the path of a known endpoint; its query stays."""
    parts = urlsplit(url)
    return (
        url
        if parts.path.strip("/")
        else urlunsplit(parts._replace(path=path, query=urlencode(parse_qsl(parts.query))))
    )
