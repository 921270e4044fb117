"""Hits as frameworks and search engines return them -> plain mappings with our names.

In: documents of LangChain, LlamaIndex and Haystack, by their attributes, and responses of
Elasticsearch, OpenSearch, Pinecone, Qdrant, Weaviate, Chroma and Vespa. Nothing of them is
imported. Out: a list of hits; None for anything else.
"""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from ragscore.io.rows import value_at

Hit = dict[str, Any]
_LISTS = (
    "hits.hits", "matches", "result.points", "points", "result", "root.children", "objects",
)  # fmt: skip
"""Where responses have their lists: Elasticsearch, Pinecone, Qdrant, Vespa, Weaviate's client."""
_ID = "_id id uuid _additional.id node_id id_ metadata.source meta.source"
_SCORE = "_score score relevance _additional.score _additional.certainty metadata.score"
_TEXT = (
    "text page_content content document _source.text _source.content payload.text"
    " payload.content metadata.text fields.text properties.text"
)
_FIELDS = ("node_id", "id_", "id", "text", "page_content", "content", "metadata", "meta")
_ABOUT = ("metadata", "meta", "payload", "_source", "fields", "properties")


def document_hit(value: Any) -> Hit | None:
    """Return a framework's document as a mapping; None for anything else."""
    if isinstance(value, (Mapping, str, int, float, list, tuple)) or value is None:
        return None
    held = getattr(value, "node", None) or value
    known = {name: one for name in _FIELDS if (one := getattr(held, name, None)) is not None}
    if not any(isinstance(known.get(name), str) for name in ("page_content", "content", "text")):
        return None
    return _hit(known | {"score": getattr(value, "score", None)})


def response_hits(value: Any) -> list[Hit] | None:
    """Return the hits of a search engine's response; None for anything else."""
    if not isinstance(value, Mapping):
        return None
    if "ids" in value and value.keys() & {"distances", "documents", "metadatas"}:
        return _chroma(value)
    for path in _LISTS:
        listed = value_at(value, path)
        if isinstance(listed, list) and listed and all(map(_is_hit, listed)):
            return [_hit(one) for one in listed]
        if isinstance(listed, list) and not listed:
            return []
    for one in _weaviate(value):
        return [_hit(hit) for hit in one]
    return None


def _is_hit(value: Any) -> bool:
    return isinstance(value, Mapping) and _first(value, _ID) is not None


def _hit(value: Mapping[str, Any]) -> Hit:
    held = (value[name] for name in _ABOUT if isinstance(value.get(name), Mapping))
    about: Mapping[str, Any] = next(held, {})
    found = {
        "doc_id": _first(value, _ID), "score": _first(value, _SCORE), "text": _first(value, _TEXT),
    }  # fmt: skip
    return {name: one for name, one in found.items() if one is not None} | {"metadata": dict(about)}


def _first(value: Mapping[str, Any], paths: str) -> Any:
    found = (value_at(value, path) for path in paths.split())
    return next((one for one in found if one is not None and not isinstance(one, dict)), None)


def _weaviate(value: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
    """Return the lists of a GraphQL response, by class."""
    classes = value_at(value, "data.Get")
    lists = classes.values() if isinstance(classes, Mapping) else []
    return [one for one in lists if isinstance(one, list) and all(map(_is_hit, one))]


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


def hits_of_query(value: Any) -> list[Hit] | None:
    """Return the hits that a value says a query has, by documents or a response; else None."""
    if isinstance(value, (list, tuple)) and value:
        hits = [document_hit(one) for one in value]
        if all(one is not None for one in hits):
            return [one for one in hits if one is not None]
        if all(map(_is_hit, value)) and any(
            one.keys() & {*_ABOUT, "page_content"} for one in value
        ):
            return [_hit(one) for one in value]
    return response_hits(value)


def records_of_hits(source: Mapping[Any, Any]) -> list[dict[str, Any]] | None:
    """Return one record per query of a dict of documents or responses, by query or run and query.

    None if any value is something else.
    """
    rows: list[dict[str, Any]] = []
    n_hits = 0
    for name, value in source.items():
        inner = {None: {name: value}}
        is_run = isinstance(value, Mapping) and response_hits(value) is None
        if is_run and all(isinstance(one, (list, tuple, Mapping)) for one in value.values()):
            inner = {name: value}
        for run_id, queries in inner.items():
            for query_id, one in queries.items():
                empty = isinstance(one, (list, tuple)) and not one
                hits = [] if empty else hits_of_query(one)
                if hits is None:
                    return None
                n_hits += len(hits)
                row = {"query_id": query_id, "hits": hits}
                rows.append(row if run_id is None else row | {"run_id": str(run_id)})
    return rows if n_hits else None
