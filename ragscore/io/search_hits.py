"""Hits as frameworks and search engines return them -> plain mappings with our names.

In: documents of LangChain, LlamaIndex and Haystack, by their attributes, and responses of
Elasticsearch, OpenSearch, Pinecone, Qdrant, Weaviate, Chroma and Vespa. Nothing of them is
imported. Out: a list of hits; None for anything else.
"""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from ragscore.io.values import value_at

Hit = dict[str, Any]
_PATHS = {
    "doc_id": "_id id uuid _additional.id node_id id_ metadata.source meta.source",
    "score": "_score score relevance _additional.score _additional.certainty metadata.score",
    "text": "text page_content content document _source.text _source.content payload.text"
    " payload.content metadata.text fields.text properties.text",
}
"""Our name -> the places of a hit that have it, the surest first."""
_LISTS = (
    "hits.hits", "matches", "result.points", "points", "result", "root.children", "objects",
)  # fmt: skip
"""Where responses have their lists: Elasticsearch, Pinecone, Qdrant, Vespa, Weaviate's client."""
_FIELDS = ("node_id", "id_", "id", "text", "page_content", "content", "metadata", "meta")
_ABOUT = ("metadata", "meta", "payload", "_source", "fields", "properties")
_RAW = {"_source", "payload", "page_content", "_additional"}
"""Fields that only hits have which are as an engine or a framework returned them."""


def hits_in(value: Any) -> list[Hit] | None:
    """Return the hits of an engine's response, or of a list of them or of a framework's documents.

    None for anything else.
    """
    if isinstance(value, Mapping):
        return response_hits(value)
    if not isinstance(value, (list, tuple)) or not value or _document(value[0]) is None:
        return None
    hits = [hit for one in value if (hit := _document(one)) is not None]
    return hits if len(hits) == len(value) else None


def _document(value: Any) -> Hit | None:
    if isinstance(value, Mapping):
        return _hit(value) if _RAW & value.keys() and _is_hit(value) else None
    held = getattr(value, "node", None) or value
    known = {name: one for name in _FIELDS if (one := getattr(held, name, None)) is not None}
    if not any(isinstance(known.get(name), str) for name in ("page_content", "content", "text")):
        return None
    return _hit(known | {"score": getattr(value, "score", None)})


def response_hits(value: Mapping[str, Any]) -> list[Hit] | None:
    """Return the hits of a search engine's response; None for another mapping."""
    if not {*map(type, value.values())} & {list, dict}:
        return None
    if "ids" in value and value.keys() & {"distances", "documents", "metadatas"}:
        return _chroma(value)
    classes = value_at(value, "data.Get")  # of Weaviate's GraphQL
    lists = [*classes.values()] if isinstance(classes, Mapping) else []
    for one in [*(value_at(value, path) for path in _LISTS), *lists]:
        if isinstance(one, list) and all(map(_is_hit, one)):
            return [_hit(hit) for hit in one]
    return None


def _is_hit(value: Any) -> bool:
    return isinstance(value, Mapping) and _first(value, "doc_id") is not None


def _hit(value: Mapping[str, Any]) -> Hit:
    about = next((one for name in _ABOUT if isinstance(one := value.get(name), Mapping)), {})
    found = {name: one for name in _PATHS if (one := _first(value, name)) is not None}
    return found | {"metadata": dict(about)}


def _first(value: Mapping[str, Any], name: str) -> Any:
    found = (value_at(value, path) for path in _PATHS[name].split())
    return next((one for one in found if one is not None and not isinstance(one, dict)), None)


def _chroma(value: Mapping[str, Any]) -> list[Hit] | None:
    """Return the hits of the one query that Chroma's parallel lists answer."""
    lists = [value.get(name) or [] for name in ("ids", "distances", "documents", "metadatas")]
    if any(isinstance(one, list) for one in lists[0]):
        if len(lists[0]) != 1:
            return None
        lists = [one[0] if one else [] for one in lists]
    found = []
    for own, distance, text, about in zip_longest(*lists):
        # of distances the smallest comes first
        hit = {"doc_id": own, "score": None if distance is None else -distance, "text": text}
        known = {name: one for name, one in hit.items() if one is not None}
        found.append(known | {"metadata": dict(about or {})})
    return found
