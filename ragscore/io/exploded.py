"""A table with lists in its cells -> one row per item of these lists.

In: columns by their role. Lists of ids, of texts, of (id, score), of objects; lists of each of
these, one for each call; mappings id -> score; replies of search engines; each also as JSON or
Python's repr in a text. Lists of other roles beside them belong to their items.

Documents of LangChain, LlamaIndex and Haystack are read by their attributes, responses of
Elasticsearch, OpenSearch, Pinecone, Qdrant, Weaviate, Chroma and Vespa by one list of paths.
Nothing of them is imported.
"""

from collections.abc import Mapping
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from ragscore.frames.codes import arrow_texts
from ragscore.frames.typing import Codes, Flags
from ragscore.io.cells import Cells, column_of, own_columns_of
from ragscore.io.columns import ID_ROLES, inner_roles
from ragscore.io.run_records import fields_of
from ragscore.io.source import describe
from ragscore.io.values import LIST_ALLOWED, as_number, is_list_text, nested, plain_cell, value_at

_LEAVES = {int, float, str, bool}
_SCALARS = (bool, int, float, str, type(None), np.generic)


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


class Items(NamedTuple):
    """Items of lists: which rows have a list, the row of each item, and the items' columns.

    `n_calls` is how many lists each row has, None where no row has lists of lists.
    """

    is_known: Flags
    row: Codes
    columns: dict[str, pd.Series]
    n_calls: Codes | None
    lines: Codes


def is_listed(column: pd.Series) -> bool:
    """Return True if a cell is a list or mapping, also one as text, or if none is known."""
    if isinstance(column.dtype, (pd.StringDtype, pd.CategoricalDtype)):
        texts = arrow_texts(column)
        begins = (pc.any(pc.starts_with(texts, mark)).as_py() for mark in ("[", "{"))
        return texts.null_count == len(texts) or any(begins)
    if column.dtype != object:
        return False
    known = [one for one in column if not isinstance(one, _SCALARS) or isinstance(one, str)]
    is_list = any(not isinstance(one, str) or one.lstrip()[:1] in ("[", "{") for one in known)
    return is_list or bool(column.isna().all())


def exploded(columns: Mapping[str, pd.Series], cells: Cells, beside: str = "score") -> Items:
    """Return the items of lists in their order; those of a mapping id -> score, the highest first.

    `beside` is the role of a mapping's values and of the numbers in pairs. Of grades the order
    says nothing, and a list in a list holds alternatives.
    """
    is_ranked = beside == "score"
    values = {role: [_listed(one, is_ranked) for one in column] for role, column in columns.items()}
    main = next(role for role in (*ID_ROLES, "text", *values) if role in values)
    every = values.pop(main)
    texts = (one[0] if type(one) is list and len(one) == 1 else None for one in every)
    is_bad = [type(one) is str and is_list_text(one) for one in texts]
    cells.report(columns[main], is_bad, LIST_ALLOWED)
    numbers: dict[int, list[Any]] = {}
    calls: dict[int, list[int]] = {}
    is_mapping = np.zeros(len(every), bool)
    for at, one in enumerate(every):
        if isinstance(one, dict):
            every[at], numbers[at] = [*one], [*one.values()]
            is_mapping[at] = is_ranked
        elif is_ranked and one and isinstance(one[0], list):
            if all(map(_is_pair, one)):
                every[at], numbers[at] = ([*part] for part in zip(*one, strict=True))
                continue
            parts = [part if isinstance(part, list) else [part] for part in one]
            every[at], calls[at] = [*chain.from_iterable(parts)], [*map(len, parts)]
            for of_role in values.values():
                if of_role[at] and all(isinstance(part, list) for part in of_role[at]):
                    of_role[at] = [*chain.from_iterable(of_role[at])]
    is_known = np.array([one is not None for one in every], bool)
    lengths = np.array([len(one or ()) for one in every], np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    items = [*chain.from_iterable(one or () for one in every)]
    if items and type(items[0]) is dict and {*map(type, items)} == {dict}:
        found = _objects(items, main, cells.lines[row], cells, columns[main].name)
    else:
        found = {main: column_of(items)}
    if numbers:
        one_each = None if is_ranked else 1  # ids without a grade, beside some with one
        values[beside] = [
            numbers.get(at, one and one_each and [one_each] * len(one))
            for at, one in enumerate(every)
        ]
    for role, of_role in values.items():
        is_known |= [one is not None for one in of_role]
        column = columns.get(role, columns[main])
        found[role] = _beside(of_role, lengths, column, role, cells, is_one_for_all=not is_ranked)
    n_calls = None
    if calls:
        sizes = [calls.get(at, [n]) for at, n in enumerate(lengths.tolist())]
        number = np.concatenate([np.arange(1, len(one) + 1) for one in sizes])
        found["call"] = pd.Series(np.repeat(number, [*chain.from_iterable(sizes)]).astype("int32"))
        n_calls = np.where(lengths == 0, 0, 1)
        n_calls[[*calls]] = [*map(len, calls.values())]
    if is_mapping.any():
        order = _by_score(found[beside], row, is_mapping, columns[main], cells)
        if order is not None:
            found = {role: one.take(order).reset_index(drop=True) for role, one in found.items()}
    for role, one in found.items():
        one.name = columns.get(role, columns[main]).name
    return Items(is_known, row, found, n_calls, cells.lines[row])


def _beside(
    values: list[Any], lengths: Codes, column: pd.Series, role: str, cells: Cells,
    is_one_for_all: bool,
) -> pd.Series:  # fmt: skip
    """Return the values of lists that stand beside those of items; others are a problem."""
    given = np.array([-1 if one is None else len(one) for one in values], np.int64)
    is_one = is_one_for_all & (given == 1)
    is_bad = (given >= 0) & (given != lengths) & ~is_one
    first = int(is_bad.argmax())
    allowed = f'one for each hit; columns={{"{role}": None}} if it is no {role} of hits'
    text = f"{given[first]} values for {lengths[first]} hits"
    cells.report(column, is_bad, allowed, text, drops=False)
    whole = np.where(is_one, lengths, 1).tolist()
    is_none = (is_bad | (given < 0)).tolist()
    each = (
        [None] * n if without else one * times
        for one, n, times, without in zip(values, lengths.tolist(), whole, is_none, strict=True)
    )
    return column_of([*chain.from_iterable(each)])


def _by_score(
    scores: pd.Series, row: Codes, is_mapping: Flags, column: pd.Series, cells: Cells
) -> Codes | None:
    """Return the order of items in which those of mappings go by their scores; None: as it is."""
    is_number = is_numeric_dtype(scores.dtype) and not is_bool_dtype(scores.dtype)
    numbers = scores if is_number else pd.Series(map(as_number, scores), dtype="float64")
    score, of_mapping = numbers.to_numpy("float64", na_value=np.nan), is_mapping[row]
    is_bad = np.zeros(len(column), bool)
    is_bad[row[of_mapping & np.isnan(score)]] = True
    found = f"found {describe(plain_cell(column.iloc[int(is_bad.argmax())]))}"
    cells.report(column, is_bad, "a mapping id -> score", found)
    rank = np.where(of_mapping, -score, 0)
    is_ordered = (np.diff(rank) >= 0) | (np.diff(row) > 0)
    return None if is_ordered.all() else np.lexsort((rank, row))


def _listed(cell: Any, is_ranked: bool) -> Any:
    """Return a cell as its list or mapping; one value as a list, None where there is none."""
    if type(cell) is list and (not cell or isinstance(cell[0], _SCALARS)):
        return cell
    if type(cell) is dict and {*map(type, cell.values())} <= _LEAVES:
        return cell
    value = nested(plain_cell(cell))
    if isinstance(value, dict) and is_ranked:
        reply = hits_in(value)
        inner = [one for one in value.values() if isinstance(one, list)]
        if reply is None and len(inner) == 1 and (not inner[0] or type(inner[0][0]) is dict):
            reply = inner[0]
        return value if reply is None else reply
    if isinstance(value, list) and is_ranked:
        return value if (hits := hits_in(value)) is None else hits
    return value if isinstance(value, (list, dict)) or value is None else [value]


def _is_pair(value: Any) -> bool:
    """Return True for an id with its score, a fraction or beside a text; else they are two ids."""
    if not (isinstance(value, list) and len(value) == 2):
        return False
    return isinstance(value[1], float) or (type(value[1]) is int and isinstance(value[0], str))


def _objects(
    items: list[dict[str, Any]], role: str, lines: Codes, cells: Cells, name: Any
) -> dict[str, pd.Series]:
    """Return objects as columns: by the names of their fields, the others as `x_*`.

    A bare `id` has the role of the column, or is a document's.
    """
    role = role if role in ID_ROLES else "doc_id"
    fields = fields_of(items)
    named: dict[str, list[str]] = {}
    for shape in dict.fromkeys(map(tuple, items)):
        for one, called in inner_roles(dict.fromkeys(shape), role).items():
            named.setdefault(one, []).append(called)
    found: dict[str, pd.Series] = {}
    for one, names in named.items():
        parts = [column_of(fields.pop(called)) for called in dict.fromkeys(names)]
        found[one] = parts[0]
        for other in parts[1:]:
            both = found[one].astype(object), other.astype(object)
            found[one] = column_of(both[0].where(both[0].notna(), both[1]).tolist())
    known = [found[one].notna() for one in (*ID_ROLES, "text") if one in found]
    is_bad = ~np.any(known, axis=0) if known else np.ones(len(items), bool)
    Cells(cells.problems, lines).report(
        pd.Series(items, name=name), is_bad, "mappings with an id, such as doc_id"
    )
    return found | own_columns_of(fields, lines)


# Hits as frameworks and search engines return them


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
