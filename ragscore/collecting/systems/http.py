"""An HTTP endpoint as a system, over httpx.

All workers share one client. The time limit covers the whole exchange. Errors say if another
attempt may help.
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

from ragscore.collecting.secrets import HIDDEN, hidden, hidden_url, is_secret, secrets_in
from ragscore.collecting.systems.base import AskError, Request, System, timed_out
from ragscore.collecting.systems.mapping import Mapping, body_of, reply_of
from ragscore.frames.errors import DataError
from ragscore.io.source import parse_json

if TYPE_CHECKING:
    import httpx

# Any other header may hold a key.
OPEN_HEADERS = frozenset(("accept", "accept-language", "content-type", "user-agent"))
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
    try:
        import httpx
    except ModuleNotFoundError as error:
        raise DataError(
            "the package httpx is missing",
            field="system",
            allowed="pip install 'ragscore[collect]'",
        ) from error
    url, url_params, auth = _split_address(mapping.url)
    headers, header_variables = _filled(mapping.headers, "headers")
    own_params, param_variables = _filled(mapping.params, "params")
    params = url_params + [
        (name, value) for name, value in own_params.items() if name not in dict(url_params)
    ]
    secrets = [value for name, value in headers.items() if name.lower() not in OPEN_HEADERS]
    secrets += [word for value in secrets for word in value.split()[1:]]  # of "Bearer <token>"
    secrets += [value for name, value in own_params.items() if is_secret(name)]
    secrets += header_variables + param_variables
    secrets += [value for name, value in url_params if is_secret(name)]
    secrets += secrets_in(mapping.fixed)
    if auth:
        secrets += [auth[1], ":".join(auth)]
    # No limit on connections: the number of workers is one already.
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
        _description(mapping),
        mapping.takes,
        secrets=tuple(secret for secret in secrets if secret),
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
    """Return status, text and requested wait of one exchange, or raise if it takes too long."""
    import httpx

    body = body_of(mapping, request)
    sent: dict[str, Any] = (
        {"params": [*params, *_body_params(body)]}
        if mapping.method == "GET"
        else {"params": params, "json": body}
    )
    deadline = None if seconds is None else monotonic() + seconds
    try:
        with client.stream(mapping.method, url, timeout=seconds, **sent) as response:
            parts = []
            for part in response.iter_bytes():
                parts.append(part)
                # httpx limits the wait for each part, so a server that drips would never end.
                if deadline is not None and monotonic() > deadline:
                    raise timed_out(seconds)
            wait = _retry_after(response.headers.get("retry-after"))
            return response.status_code, b"".join(parts).decode("utf-8", "replace"), wait
    except httpx.TimeoutException as error:
        raise timed_out(seconds) from error
    except httpx.HTTPError as error:
        raise AskError(f"{type(error).__name__}: {error}", again=True) from error


def _reply(
    mapping: Mapping, request: Request, status: int, text: str, wait: float | None
) -> dict[str, Any]:
    try:
        values, fault = parse_json(text), None
    except (ValueError, RecursionError) as error:
        values, fault = None, f"not valid JSON ({error}): {text[:SHOWN]!r}"
    if not 200 <= status < 300:
        try:
            reply = reply_of(mapping, values, with_answer=False)
        except AskError:
            kept = None
        else:  # the hits in an error's body
            kept = {name: reply[name] for name in reply if name not in ("answer", "error")}
        raise AskError(
            f"HTTP {status}: {text.strip()[:SHOWN]}",
            again=status in RETRY_STATUS,
            wait=wait,
            reply=kept,
        )
    if fault is not None:
        raise AskError(fault, again=True)
    return reply_of(mapping, values, request.get("with_answer") is not False)


def _retry_after(value: str | None) -> float | None:
    """Return the seconds to wait, from a number of seconds or a date."""
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


def _body_params(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a body as parameters: a list repeats its name, nested objects are JSON."""
    for name, value in body.items():
        for part in value if isinstance(value, list) else [value]:
            yield name, part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)


def _split_address(url: str) -> tuple[str, list[tuple[str, str]], tuple[str, str] | None]:
    """Return the bare address, its parameters, and its user and password.

    httpx would replace parameters in an address by others, and log user and password.
    """
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


def _description(mapping: Mapping) -> dict[str, Any]:
    """Return the endpoint for the snapshot, with names but not values of headers."""
    shown_params = {
        name: HIDDEN if is_secret(name) or "$" in value else value
        for name, value in mapping.params.items()
    }
    shown_headers = {
        name: value if name.lower() in OPEN_HEADERS and "$" not in value else HIDDEN
        for name, value in mapping.headers.items()
    }
    description = {
        "kind": "http",
        "url": hidden_url(mapping.url),
        "method": mapping.method,
        "params": shown_params,
        "headers": shown_headers,
        "fixed": hidden(mapping.fixed),
        "request": mapping.request,
        "others": mapping.others,
        "response": mapping.response,
    }
    return {name: value for name, value in description.items() if value not in ({}, None)}


def with_path(url: str, path: str) -> str:
    """Return an address with this path if it has none; its query stays."""
    parts = urlsplit(url)
    if parts.path.strip("/"):
        return url
    return urlunsplit(parts._replace(path=path, query=urlencode(parse_qsl(parts.query))))
