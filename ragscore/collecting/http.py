"""An HTTP endpoint as a system, over httpx: its fields are plain data, a mapping.

A path names a field of nested objects, with dots between names; a number is a position in a list
(`choices.0.message.content`). One time limit covers the whole exchange, from connecting to the last
byte. Redirects are not followed, since headers may hold keys.
"""

import json
import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlunsplit

from ragscore.collecting.systems import (
    CARRIED,
    SETTINGS,
    AskError,
    Request,
    System,
    in_time,
    timed_out,
)
from ragscore.frames.data import check_type
from ragscore.frames.errors import DataError, check_whole, nearest, packages_of
from ragscore.frames.schema import columns
from ragscore.io.files import naming, read_text
from ragscore.io.servers import (
    SCHEME,
    Redactor,
    checked_address,
    checked_key,
    is_secret,
    refuse_keys,
    retry_after,
    tls,
)
from ragscore.io.source import describe, parse_json
from ragscore.io.values import value_at
from ragscore.io.yaml_text import yaml_value

if TYPE_CHECKING:
    import httpx

ASK = "/api/v1/ask"
RETRY_STATUS = frozenset((408, 425, 429, 500, 502, 503, 504))
SHOWN = 300  # characters of an error page in a message
# Size of the largest reply, after unpacking: parsed, it may take forty times as much memory.
MAX_REPLY_BYTES = 10_000_000
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
KEY_PLACES = 'a header or parameter "$NAME", which names an environment variable'
# The query is the golden file's, and how long it took is measured here.
ANSWER_FIELDS = tuple(
    name for name in columns("responses") if name not in ("query", "elapsed_ms", "scope")
)
# Parts of `response` that are mappings themselves, and their allowed names; None allows any.
TABLES = {
    "hit": (*columns("hits"), "metadata"),
    "citation": columns("citations"),
    "scope": None,
    "latency": None,
    "config": None,
    "extra": None,
}
# Any other header may hold a key.
OPEN_HEADERS = frozenset(("accept", "accept-language", "content-type", "user-agent"))
_MISSING = object()
_CHATBOT_REQUEST = {"query": "question"} | {name: name for name in SETTINGS + CARRIED}


@dataclass(frozen=True)
class EndpointMapping:
    """The fields of an HTTP endpoint.

    Attributes
    ----------
    url, method, headers, params
        Address and constant parts of each call. `$RAG_TOKEN` in a header or parameter is replaced
        by the value of that environment variable.
    request
        Our name -> path in the body, or for GET the parameter: `query` and any of `query_id`,
        `mode`, `k`, `temperature`, `seed`, `with_answer`, `filters`, `vaults`, `folders`,
        `product`, `tool`, or a setting of the system's own.
    others
        Path for settings that `request` does not name; "" is the body itself, None refuses them.
    fixed
        Constant fields of every body.
    response
        Our name -> path in the reply. `hit`, `citation`, `scope`, `latency`, `config` and `extra`
        are mappings themselves. Paths of a hit or citation start at each item of `hits` or
        `citations`; its other fields keep their own names.
    max_bytes
        A larger reply, after unpacking, is its query's error; None means any size.
    """

    url: str
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    request: dict[str, str] = field(default_factory=lambda: {"query": "query"})
    others: str | None = None
    fixed: dict[str, Any] = field(default_factory=dict)
    response: dict[str, Any] = field(default_factory=dict)
    max_bytes: int | None = MAX_REPLY_BYTES

    @property
    def takes(self) -> frozenset[str] | None:
        """Names of the accepted request fields besides the query; None means any."""
        return None if self.others is not None else frozenset(self.request) - {"query"}

    def __post_init__(self) -> None:
        checked_address(self.url, "url", KEY_PLACES)
        refuse_keys(self.fixed, "fixed", KEY_PLACES)
        closed = [("headers", name) for name in self.headers if name.lower() not in OPEN_HEADERS]
        closed += [
            ("params", name) for name in self.params if is_secret(name) or name.lower() == "key"
        ]
        for part, name in closed:
            if not VARIABLE.fullmatch(SCHEME.sub("", getattr(self, part)[name])):
                raise DataError(
                    "found a value that is written out",
                    field=f"{part}.{name}",
                    allowed='"$NAME" of an environment variable, or "Bearer $NAME"',
                )


# The parts of a mapping that hold names of fields, and their allowed names; "" is the whole.
PARTS: dict[str, Collection[str] | None] = {
    "": [one.name for one in fields(EndpointMapping)],
    **dict.fromkeys(("headers", "params", "request")),
    "response": ("hits", "citations", *ANSWER_FIELDS, *TABLES),
    **{f"response.{name}": known for name, known in TABLES.items()},
}


def chatbot(url: str) -> EndpointMapping:
    """Return the mapping of the chatbot framework's ask endpoint with its debug reply."""
    parts = checked_address(url, "url", KEY_PLACES)
    return EndpointMapping(
        url=url if parts.path.strip("/") else urlunsplit(parts._replace(path=ASK)),
        params={"debug": "true"},
        request=_CHATBOT_REQUEST,
        others="",
        response={
            "answer": "answer",
            "hits": "debug.retrieved_chunks",
            "hit": {
                **{one: one for one in "rank chunk_id text score_vector score_lexical".split()},
                **{"path": "rel_path", "heading": "heading_path", "score": "score_final"},
            },
            "citations": "references",
            "citation": {"path": "rel_path", "heading": "heading_path"},
            "refused": "abstained",
            "refusal_reason": "abstain_reason",
            "scope": {
                "folders": "debug.folder_selection.selected_folders",
                "available": "debug.folder_selection.available_folders",
            },
            "latency": {
                f"{phase}_ms": f"debug.latency.{phase}_ms"
                for phase in ("folder_selection", "retrieval", "generation", "total")
            },
            "config": {
                name: f"debug.indexing_coverage.{name}"
                for name in ("chunker_version", "index_version")
            },
            "extra": {"indexing_coverage": "debug.indexing_coverage"},
        },
    )


def read_mapping(values: dict[str, Any]) -> EndpointMapping:
    """Return a mapping from plain data, with all names and paths checked.

    Raises
    ------
    DataError
        An unknown or missing field, a value of the wrong kind, or a key that is written out.
    """
    for place, known in PARTS.items():
        given = value_at(values, place, {}) if place else values
        if not isinstance(given, dict):
            raise DataError(f"found {describe(given)}", field=place, allowed="a mapping")
        for name, path in given.items():
            field = f"{place}.{name}" if place else name
            if known is not None and name not in known:
                raise DataError("the field is unknown", field=field, allowed=nearest(name, known))
            if place and field not in PARTS and not (isinstance(path, str) and path):
                raise DataError(
                    f"found {describe(path)}", field=field, allowed="text, such as debug.hits"
                )
    if not isinstance(values.get("url"), str):
        raise DataError(f"found {describe(values.get('url'))}", field="url", allowed="text")
    check_whole(values.get("max_bytes"), "max_bytes", or_none=True)
    mapping = EndpointMapping(**(values | {"method": str(values.get("method", "POST")).upper()}))
    for part, needed in (("request", ("query",)), ("response", ("answer", "hits"))):
        if not set(needed) & set(getattr(mapping, part)):
            names = " or ".join(f"{part}.{name}" for name in needed)
            raise DataError("the field is missing", field=names, allowed="its path")
    return mapping


def mapping_of_file(path: str | os.PathLike[str]) -> EndpointMapping:
    """Return the mapping in a YAML or JSON file; see `read_mapping`."""
    file = Path(path)
    values = yaml_value(read_text(file), file)
    with naming(file):
        check_type(values, dict, "system", "a mapping: url, request, response, ...")
        return read_mapping(values)


def body_of(mapping: EndpointMapping, request: Request) -> dict[str, Any]:
    """Return the body of a request: the constant fields, and each value at its path."""
    entries = list(mapping.fixed.items())
    for name, value in request.items():
        if name in mapping.request:
            entries.append((mapping.request[name], value))
        elif name != "query_id" and mapping.others is not None:
            path = f"{mapping.others}.{name}" if mapping.others else name
            entries.append((path, value))
    body: dict[str, Any] = {}
    for path, value in entries:
        *parents, leaf = path.split(".")
        place = body
        for parent in parents:
            inner = place.get(parent)
            place[parent] = place = dict(inner) if isinstance(inner, dict) else {}
        place[leaf] = value
    return body


def _read(values: Any, paths: dict[str, str]) -> dict[str, Any]:
    """Return what a reply holds at each path, without nulls."""
    found = {name: value_at(values, path) for name, path in paths.items()}
    return {name: value for name, value in found.items() if value is not None}


def reply_of(mapping: EndpointMapping, values: Any, with_answer: bool = True) -> dict[str, Any]:
    """Return an endpoint's reply under our names.

    Raises
    ------
    AskError
        The path of hits or answer is missing in the reply. Null there means that there are none.
    """
    response = mapping.response
    found = _read(values, {name: path for name, path in response.items() if name not in TABLES})
    for name in ("scope", "latency", "config", "extra"):
        if inner := _read(values, response.get(name, {})):
            found |= inner if name == "extra" else {name: inner}
    for name, item in (("hits", "hit"), ("citations", "citation")):
        if isinstance(found.get(name), list):
            found[name] = [_renamed(part, response.get(item, {})) for part in found[name]]
    for name in ("hits", "answer"):
        if name not in response or name in found:
            continue
        if value_at(values, response[name], _MISSING) is None:
            found[name] = None
        elif with_answer or name == "hits":
            raise AskError(f"the reply has no {response[name]}")
    return found


def _renamed(item: Any, names: dict[str, str]) -> Any:
    """Return a hit or citation under our names; fields that are not mapped keep their own."""
    if not isinstance(item, dict) or not names:
        return item
    taken = {path.split(".")[0] for path in names.values()}
    rest = {name: value for name, value in item.items() if name not in taken}
    return rest | _read(item, names)


def http_system(mapping: EndpointMapping, name: str | None = None) -> System:
    """Return a system that sends requests to a JSON endpoint, by a mapping.

    Raises
    ------
    DataError
        httpx is missing, or an environment variable is not set or holds what no header can.
    """
    with packages_of("collect", field="system"):
        import httpx
    address = httpx.URL(mapping.url)
    params = httpx.QueryParams(_filled(mapping.params, "params")).merge(address.params)
    url = address.copy_with(params=params, fragment=None)
    client = httpx.Client(
        headers=_filled(mapping.headers, "headers"), follow_redirects=False, verify=tls()
    )
    written = " ".join([*mapping.headers.values(), *mapping.params.values()])
    redactor = Redactor(os.environ[one or other] for one, other in VARIABLE.findall(written))

    def ask(request: Request, seconds: float | None) -> Any:
        body = body_of(mapping, request)
        sent: dict[str, Any] = {"url": url, "json": body}
        if mapping.method == "GET":
            sent = {"url": url.copy_merge_params(_parameters(body))}
        response, content = in_time(lambda: _exchange(client, mapping, sent, seconds), seconds)
        values = _content(response, content, redactor)
        return reply_of(mapping, values, request.get("with_answer") is not False)

    shown = ("method", "url", "params", "headers", "fixed", "request", "others", "response")
    described = {one: vars(mapping)[one] for one in shown if vars(mapping)[one] not in ({}, None)}
    return System(
        name or address.host,
        ask,
        {"kind": "http", **described},
        mapping.takes,
        redactor=redactor,
        close=client.close,
    )


def _exchange(
    client: "httpx.Client", mapping: EndpointMapping, sent: dict[str, Any], seconds: Any
) -> tuple["httpx.Response", bytes]:
    """Return a response and its unpacked content."""
    import httpx

    content, limit = bytearray(), mapping.max_bytes
    try:
        with client.stream(mapping.method, **sent, timeout=seconds) as response:
            for part in response.iter_bytes(65_536):
                content += part
                if limit is not None and len(content) > limit:
                    raise AskError(f"the reply has more than {limit:,} bytes")
    except httpx.TimeoutException as error:  # whichever of two clocks is first
        raise timed_out(seconds) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise AskError(f"{type(error).__name__}: {error}", again=True) from error
    return response, bytes(content)


def _content(response: "httpx.Response", content: bytes, redactor: Redactor) -> Any:
    """Return the JSON value of a successful response."""
    shown = redactor.excerpt(content.decode("utf-8", "replace"), SHOWN)
    if not response.is_success:
        if response.has_redirect_location:
            shown = redactor.excerpt(response.headers["location"], SHOWN)
            shown = f"a redirect to {shown}, which is not followed"
        raise AskError(
            f"HTTP {response.status_code}: {shown}",
            again=response.status_code in RETRY_STATUS,
            wait=retry_after(response.headers.get("retry-after")),
        )
    try:
        return parse_json(content.decode())
    except (ValueError, RecursionError) as error:
        raise AskError(f"no JSON in UTF-8 ({error}): {shown!r}", again=True) from error


def _parameters(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body as parameters: a list repeats its name, nested objects are JSON."""
    return {
        name: [
            part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
            for part in (value if isinstance(value, list) else [value])
        ]
        for name, value in body.items()
    }


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
