"""How an HTTP endpoint is asked and its reply read, as plain data: which field goes where.

A path names a field of nested objects by dots; a number is a place in a list
(`choices.0.message.content`).
"""

from dataclasses import dataclass, field, fields
from typing import Any

from ragscore.collecting.systems.base import CARRIED, SETTINGS, AskError, Request
from ragscore.frames.errors import DataError
from ragscore.io.source import describe

HIT_FIELDS = (
    "rank", "chunk_id", "doc_id", "path", "heading", "text", "score", "score_lexical",
    "score_vector", "score_kind", "start", "end", "span_unit", "source_key",
    "metadata", "stale", "chunker_version", "text_cut",
)  # fmt: skip
CITATION_FIELDS = ("marker", "chunk_id", "doc_id", "path", "heading", "start", "end", "span_unit")
ANSWER_FIELDS = (
    "grounded",
    "refused",
    "refusal_reason",
    "cost_usd",
    "prompt_tokens",
    "completion_tokens",
)
TABLES = {
    "hit": HIT_FIELDS,
    "citation": CITATION_FIELDS,
    "scope": None,
    "latency": None,
    "config": None,
    "extra": None,
}
RESPONSE_FIELDS = ("answer", "hits", "citations", "mode", "error", *ANSWER_FIELDS, *TABLES)
_MISSING = object()
_CHATBOT_REQUEST = {"query": "question"} | {name: name for name in SETTINGS + CARRIED}


@dataclass(frozen=True)
class Mapping:
    """An endpoint as data.

    Attributes
    ----------
    url, method, headers, params
        Where and how to ask. A value such as `Bearer $RAG_TOKEN` takes the environment variable's.
    request
        Our name -> the path in the body (the parameter, for GET) where it is sent: `query` and any
        of `query_id`, `mode`, `k`, `temperature`, `seed`, `with_answer`, `filters`, `vaults`,
        `folders`, `product`, `tool`, or a setting of the system's own.
    others
        The path under which settings that `request` doesn't name are sent; "" is the body itself,
        None refuses them.
    fixed
        What every body holds besides.
    response
        Our name -> the path in the reply; `hit`, `citation`, `scope`, `latency`, `config` and
        `extra` are mappings of their own, those of a hit or a citation counted from each item of
        `hits` or `citations`. What a hit holds beyond them is kept under its own name.
    """

    url: str
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    request: dict[str, str] = field(default_factory=lambda: {"query": "query"})
    others: str | None = None
    fixed: dict[str, Any] = field(default_factory=dict)
    response: dict[str, Any] = field(default_factory=dict)

    @property
    def takes(self) -> frozenset[str] | None:
        """What the endpoint can be told; None: anything."""
        return None if self.others is not None else frozenset(self.request) - {"query"}


def chatbot(url: str) -> Mapping:
    """The ask endpoint of the chatbot framework, with what its debug reply says."""
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


def read_mapping(values: dict[str, Any], file: str | None = None) -> Mapping:
    """A mapping from plain data, every name in it checked."""
    names = [one.name for one in fields(Mapping)]
    _known(values, names, "", file)
    if not isinstance(values.get("url"), str):
        raise DataError(
            "the field is missing" if "url" not in values else f"found {describe(values['url'])}",
            file=file,
            field="url",
            allowed="text",
        )
    for name in ("headers", "params", "request", "fixed", "response"):
        if not isinstance(values.get(name, {}), dict):
            raise DataError(
                f"found {describe(values[name])}", file=file, field=name, allowed="a mapping"
            )
    _paths(values.get("request", {}), "request", file)
    if "query" not in values.get("request", {"query": ""}):
        raise DataError(
            "the field is missing",
            file=file,
            field="request.query",
            allowed="where the question goes",
        )
    _response(values.get("response", {}), file)
    texts: dict[str, Any] = {
        name: {key: str(value) for key, value in values[name].items()}
        for name in ("headers", "params")
        if name in values
    }
    return Mapping(**(values | texts | {"method": str(values.get("method", "POST")).upper()}))


def _response(response: dict[str, Any], file: str | None) -> None:
    _known(response, RESPONSE_FIELDS, "response.", file)
    if not {"answer", "hits"} & set(response):
        raise DataError(
            "neither answer nor hits",
            file=file,
            field="response",
            allowed="the path of at least one of them",
        )
    for name, known in TABLES.items():
        inner = response.get(name, {})
        if not isinstance(inner, dict):
            raise DataError(
                f"found {describe(inner)}",
                file=file,
                field=f"response.{name}",
                allowed="a mapping of names to paths",
            )
        if known is not None:
            _known(inner, known, f"response.{name}.", file)
        _paths(inner, f"response.{name}", file)
    _paths({name: path for name, path in response.items() if name not in TABLES}, "response", file)


def _known(values: dict[str, Any], known: Any, place: str, file: str | None) -> None:
    for name in values:
        if name not in known:
            raise DataError(
                "the field is unknown",
                file=file,
                field=f"{place}{name}",
                allowed=f"one of {', '.join(known)}",
            )


def _paths(values: dict[str, Any], place: str, file: str | None) -> None:
    for name, path in values.items():
        if not isinstance(path, str) or not path:
            raise DataError(
                f"found {describe(path)}",
                file=file,
                field=f"{place}.{name}",
                allowed="a path such as debug.hits, as text",
            )


def body_of(mapping: Mapping, request: Request) -> dict[str, Any]:
    """What is sent: the fixed part, and each of the request's values at its path."""
    body: dict[str, Any] = {}
    for name, value in mapping.fixed.items():
        _put(body, name, value)
    for name, value in request.items():
        if name in mapping.request:
            _put(body, mapping.request[name], value)
        elif name != "query_id" and mapping.others is not None:
            _put(body, ".".join(part for part in (mapping.others, name) if part), value)
    return body


def _put(body: dict[str, Any], path: str, value: Any) -> None:
    *parents, leaf = path.split(".")
    place = body
    for parent in parents:
        inner = place.get(parent, {})
        place[parent] = place = dict(inner) if isinstance(inner, dict) else {}
    place[leaf] = value


def at(values: Any, path: str) -> Any:
    """What stands at a path of a reply; a special object where nothing does."""
    for part in path.split("."):
        if isinstance(values, dict) and part in values:
            values = values[part]
        elif isinstance(values, list) and part.isdigit() and int(part) < len(values):
            values = values[int(part)]
        else:
            return _MISSING
    return values


def reply_of(mapping: Mapping, values: Any, with_answer: bool = True) -> dict[str, Any]:
    """An endpoint's reply under our names.

    Raises
    ------
    AskError
        What was mapped as hits or answer isn't there; the reply keeps what is. Null is no hits and
        no answer.
    """
    response = mapping.response
    found = {name: at(values, path) for name, path in response.items() if name not in TABLES}
    for name in ("scope", "latency", "config", "extra"):
        inner = _present({key: at(values, path) for key, path in response.get(name, {}).items()})
        found |= inner if name == "extra" else {name: inner} if inner else {}
    found = _present(found) | {
        name: None for name in ("hits", "answer") if found.get(name, _MISSING) is None
    }
    for name, item in (("hits", "hit"), ("citations", "citation")):
        if isinstance(found.get(name), list):
            found[name] = [_renamed(one, response.get(item, {})) for one in found[name]]
    gone = [
        name
        for name in ("hits", "answer")
        if name in response and name not in found and (name == "hits" or with_answer)
    ]
    if gone:
        raise AskError(
            f"the reply has no {response[gone[0]]}", reply=found if "hits" in found else None
        )
    return found


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in values.items() if value is not _MISSING and value is not None
    }


def _renamed(item: Any, names: dict[str, str]) -> Any:
    """A hit or citation under our names; what isn't mapped keeps its own."""
    if not isinstance(item, dict) or not names:
        return item
    taken = {path.split(".")[0] for path in names.values()}
    rest = {name: value for name, value in item.items() if name not in taken}
    return rest | _present({name: at(item, path) for name, path in names.items()})
