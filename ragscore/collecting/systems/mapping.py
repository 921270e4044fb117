"""Mappings: request and reply fields of an HTTP endpoint as plain data.

A path names a field of nested objects, with dots between names; a number is a position in a list
(`choices.0.message.content`).
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Any

from ragscore.collecting.systems.base import CARRIED, SETTINGS, AskError, Request, check_whole
from ragscore.frames.errors import DataError, nearest
from ragscore.frames.schema import columns
from ragscore.io.secrets import SCHEME, checked_address, is_secret_parameter, refuse_keys
from ragscore.io.source import describe
from ragscore.io.values import value_at

MAX_REPLY_BYTES = 10_000_000
"""Size of the largest reply, after unpacking: parsed, it may take forty times as much memory."""
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
KEY_PLACES = 'a header or parameter "$NAME", which names an environment variable'
HIT_FIELDS = (*columns("hits"), "metadata")
CITATION_FIELDS = columns("citations")
# The query is the golden file's, and how long it took is measured here.
ANSWER_FIELDS = tuple(
    name for name in columns("responses") if name not in ("query", "elapsed_ms", "scope")
)
# Parts of `response` that are mappings themselves, and their allowed names; None allows any.
TABLES = {
    "hit": HIT_FIELDS,
    "citation": CITATION_FIELDS,
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
class Mapping:
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
        closed += [("params", name) for name in self.params if is_secret_parameter(name)]
        for part, name in closed:
            if not VARIABLE.fullmatch(SCHEME.sub("", getattr(self, part)[name])):
                raise DataError(
                    "found a value that is written out",
                    field=f"{part}.{name}",
                    allowed='"$NAME" of an environment variable, or "Bearer $NAME"',
                )


# The parts of a mapping that hold names of fields, and their allowed names; "" is the whole.
PARTS: dict[str, Collection[str] | None] = {
    "": [one.name for one in fields(Mapping)],
    **dict.fromkeys(("headers", "params", "request")),
    "response": ("hits", "citations", *ANSWER_FIELDS, *TABLES),
    **{f"response.{name}": known for name, known in TABLES.items()},
}


def chatbot(url: str) -> Mapping:
    """Return the mapping of the chatbot framework's ask endpoint with its debug reply."""
    chunk = {name: name for name in ("rank", "chunk_id", "text", "score_vector", "score_lexical")}
    return Mapping(
        url=url,
        params={"debug": "true"},
        request=_CHATBOT_REQUEST,
        others="",
        response={
            "answer": "answer",
            "hits": "debug.retrieved_chunks",
            "hit": chunk | {"path": "rel_path", "heading": "heading_path", "score": "score_final"},
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


def read_mapping(values: dict[str, Any]) -> Mapping:
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
    mapping = Mapping(**(values | {"method": str(values.get("method", "POST")).upper()}))
    for part, needed in (("request", ("query",)), ("response", ("answer", "hits"))):
        if not set(needed) & set(getattr(mapping, part)):
            names = " or ".join(f"{part}.{name}" for name in needed)
            raise DataError("the field is missing", field=names, allowed="its path")
    return mapping


def body_of(mapping: Mapping, request: Request) -> dict[str, Any]:
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


def reply_of(mapping: Mapping, values: Any, with_answer: bool = True) -> dict[str, Any]:
    """Return an endpoint's reply under our names.

    Raises
    ------
    AskError
        The path of hits or answer is missing in the reply; the error keeps the rest. Null at the
        path means no hits or no answer and is not an error.
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
            raise AskError(
                f"the reply has no {response[name]}", reply=found if "hits" in found else None
            )
    return found


def _renamed(item: Any, names: dict[str, str]) -> Any:
    """Return a hit or citation under our names; fields that are not mapped keep their own."""
    if not isinstance(item, dict) or not names:
        return item
    taken = {path.split(".")[0] for path in names.values()}
    rest = {name: value for name, value in item.items() if name not in taken}
    return rest | _read(item, names)
