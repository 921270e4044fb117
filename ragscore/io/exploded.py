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
from operator import ne
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ragscore.frames.typing import Codes, Flags
from ragscore.io.cells import Cells, column_of, own_columns_of
from ragscore.io.columns import ID_ROLES, inner_roles
from ragscore.io.run_records import fields_of
from ragscore.io.values import LIST_ALLOWED, is_list_text, nested, plain_cell, value_at

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

    `calls` has the row, number and `n_hits` of each list, None where no row has lists of lists.
    """

    is_known: Flags
    row: Codes
    columns: dict[str, pd.Series]
    calls: pd.DataFrame | None
    lines: Codes


def is_listed(column: pd.Series) -> bool:
    """Return True if a cell is a list or mapping, also one as text, or if none is known."""
    known = column.dropna()
    if isinstance(known.dtype, pd.CategoricalDtype):
        known = known.astype("str")
    if isinstance(known.dtype, pd.StringDtype):
        return not len(known) or bool(known.str.startswith(("[", "{")).any())
    if known.dtype != object:
        return False
    return not len(known) or any(
        one.lstrip()[:1] in ("[", "{") if isinstance(one, str) else not isinstance(one, _SCALARS)
        for one in known
    )


def exploded(columns: Mapping[str, pd.Series], cells: Cells, beside: str = "score") -> Items:
    """Return the items of lists in their order; those of a mapping id -> score, the highest first.

    `beside` is the role of a mapping's values and of the numbers in pairs. Of grades the order
    says nothing, and a list in a list holds alternatives.
    """
    is_ranked = beside == "score"
    main = next(role for role in (*ID_ROLES, "text", *columns) if role in columns)
    if not any(map(is_listed, columns.values())):
        return _items(columns, main, cells)
    others = {role: [_listed(one, is_ranked) for one in column] for role, column in columns.items()}
    every, numbers, sizes = others.pop(main), dict[int, list[Any]](), dict[int, list[int]]()
    is_bad = np.zeros(len(every), bool)
    for at, items in enumerate(every):
        if isinstance(items, dict):
            every[at], numbers[at], is_bad[at] = _by_number(items, is_ranked)
        elif is_ranked and items and isinstance(items[0], list):
            if all(map(_is_pair, items)):
                every[at], numbers[at] = ([*part] for part in zip(*items, strict=True))
            else:
                every[at], sizes[at] = _joined(items)
        elif items and len(items) == 1:
            is_bad[at] = is_list_text(items[0])
    cells.report(columns[main], is_bad, f"{LIST_ALLOWED}, or a mapping id -> score")
    lengths = np.array([len(one or ()) for one in every], np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    held = [*chain.from_iterable(one or () for one in every)]
    if held and {*map(type, held)} == {dict}:
        found = _objects(held, main, cells.lines[row], cells, columns[main].name)
    else:
        found = {main: column_of(held)}
    if numbers:  # of ids without a grade, beside some with one, each is 1
        rest = None if is_ranked else [1]
        others[beside] = [numbers.get(at, rest if one else None) for at, one in enumerate(every)]
    is_known = np.array([one is not None for one in every], bool)
    for role, values in others.items():
        for at in sizes:
            if values[at] and all(isinstance(one, list) for one in values[at]):
                values[at] = _joined(values[at])[0]
        is_known |= [one is not None for one in values]
        column = columns.get(role, columns[main])
        found[role] = _beside(values, lengths, column, role, cells, is_one_for_all=not is_ranked)
    calls = _calls(sizes, lengths) if sizes else None
    if calls is not None:
        found["call"] = pd.Series(np.repeat(calls["call"].to_numpy(), calls["n_hits"]))
    for role, one in found.items():
        one.name = columns.get(role, columns[main]).name
    return Items(is_known, row, found, calls, cells.lines[row])


def _items(columns: Mapping[str, pd.Series], main: str, cells: Cells) -> Items:
    """Return rows without lists as one item each; what stands beside no id is a problem."""
    is_known = columns[main].notna().to_numpy()
    for role, column in columns.items():
        cells.report(columns[main], ~is_known & column.notna(), f"an id for each {role}")
    row = np.flatnonzero(is_known)
    taken = {role: one.take(row).reset_index(drop=True) for role, one in columns.items()}
    return Items(is_known, row, taken, None, cells.lines[row])


def _by_number(numbers: dict[str, Any], is_ranked: bool) -> tuple[list[str], list[Any], bool]:
    """Return the ids of a mapping, the highest first if ranked, and their numbers.

    The last value is True if scores are no numbers.
    """
    if not is_ranked:
        return [*numbers], [*numbers.values()], False
    values = numbers.values()
    if not {*map(type, values)} <= {int, float} or any(map(ne, values, values)):  # or NaN
        return [], [], True
    falling = sorted(values, reverse=True)
    is_sorted = falling == [*values]
    ids = [*numbers] if is_sorted else sorted(numbers, key=numbers.__getitem__, reverse=True)
    return ids, falling, False


def _joined(lists: list[Any]) -> tuple[list[Any], list[int]]:
    """Return the items of several calls, and how many each has; one alone is a call of its own."""
    calls = [one if isinstance(one, list) else [one] for one in lists]
    return [*chain.from_iterable(calls)], [*map(len, calls)]


def _calls(sizes: dict[int, list[int]], lengths: Codes) -> pd.DataFrame:
    """Return the calls of each row, with those that found nothing."""
    each = [sizes.get(at, [n] if n else []) for at, n in enumerate(lengths.tolist())]
    rows = np.repeat(np.arange(len(each)), [*map(len, each)])
    calls = pd.DataFrame({"row": rows, "n_hits": [*chain.from_iterable(each)]})
    return calls.assign(call=(calls.groupby("row").cumcount() + 1).astype("int32"))


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
    each = [
        [None] * n if without else values[at] * (n if is_one[at] else 1)
        for at, (n, without) in enumerate(zip(lengths.tolist(), is_bad | (given < 0), strict=True))
    ]
    return column_of([*chain.from_iterable(each)])


def _listed(cell: Any, is_ranked: bool) -> Any:
    """Return a cell as its list or mapping; one value as a list, None where there is none."""
    cell = cell.tolist() if isinstance(cell, np.ndarray) else cell
    if type(cell) is list and (not cell or isinstance(cell[0], _SCALARS)):
        return cell
    if type(cell) is dict and {*map(type, cell.values())} <= {int, float}:
        return cell
    value = nested(plain_cell(cell))
    if not isinstance(value, (list, dict)):
        return None if value is None else [value]
    hits = hits_in(value) if is_ranked else None
    if hits is None and is_ranked and isinstance(value, dict):
        inner = [one for one in value.values() if isinstance(one, list)]
        if len(inner) == 1 and (not inner[0] or type(inner[0][0]) is dict):
            return inner[0]
    return value if hits is None else hits


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
    fields = fields_of(items)
    roles = inner_roles(fields, role if role in ID_ROLES else "doc_id")
    found = {one: column_of(fields.pop(name)) for one, name in roles.items()}
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
    is_list = isinstance(value, (list, tuple)) and value and _document(value[0]) is not None
    hits = [hit for one in value if (hit := _document(one)) is not None] if is_list else []
    return hits if hits and len(hits) == len(value) else None


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
    names = ("ids", "distances", "documents", "metadatas")
    if len(value["ids"]) != 1:
        return None
    lists = (one[0] if (one := value.get(name)) else [] for name in names)
    return [
        {"doc_id": own, "text": text, "metadata": about or {},
         # of distances the smallest comes first
         "score": None if distance is None else -distance}
        for own, distance, text, about in zip_longest(*lists)
    ]  # fmt: skip
