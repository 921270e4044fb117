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
from pandas.api.types import is_numeric_dtype

from ragscore.frames.typing import Codes, Flags
from ragscore.io.cells import Cells, column_of, own_columns_of
from ragscore.io.columns import ID_ROLES, inner_roles
from ragscore.io.run_records import fields_of
from ragscore.io.values import LIST_ALLOWED, is_list_text, nested, plain_cell, value_at

_SCALARS = (bool, int, float, str, type(None), np.generic)
_JSON = ('{"', '["', "[{")
_PAIRS = ([str, float], [str, int], [int, float])
"""Types of an id and its score; two texts, or two whole numbers, are two ids."""


class Items(NamedTuple):
    """Items of lists: which rows have a list, the row of each item, and the items' columns.

    `calls` has the row, number and `n_hits` of each list, None where no row has lists of lists.
    """

    is_known: Flags
    row: Codes
    columns: dict[str, pd.Series]
    calls: pd.DataFrame | None
    lines: Codes


class _Cell(NamedTuple):
    """What one cell lists, the numbers that it has of each, and how many items each call has."""

    items: list[Any] | None
    numbers: list[Any] | None = None
    sizes: list[int] | None = None
    is_bad: bool = False


def is_listed(column: pd.Series, query: pd.Series | None = None) -> bool:
    """Return True if a cell is a list or mapping, also one as text, or if none is known.

    Where a `query` occurs again, a text such as "[1]" is the id of one hit.
    """
    known = column.dropna()
    if known.dtype == object:
        is_list = [not isinstance(o, _SCALARS) or str(o).startswith(("[", "{")) for o in known]
        return not is_list or any(is_list)
    if is_numeric_dtype(known.dtype) or not len(known):
        return not len(known)
    texts = known.astype("str")
    listed = texts[texts.str.startswith(("[", "{"))]
    if query is not None and len(listed) and query.duplicated().any():
        listed = listed[~listed.str.fullmatch(r"\[\d+\]")]
    return bool(len(listed))


def exploded(columns: Mapping[str, pd.Series], cells: Cells, beside: str = "score") -> Items:
    """Return the items of lists in their order; of a mapping id -> score, the highest first.

    `beside` is the role of a mapping's values and of the numbers in pairs. Of grades the order
    says nothing, and a list in a list holds alternatives.
    """
    is_ranked = beside == "score"
    if not columns:
        none = np.zeros(0, np.int64)
        return Items(np.zeros(len(cells.lines), bool), none, {}, None, none)
    main = next(role for role in (*ID_ROLES, "text", *columns) if role in columns)
    if not any(map(is_listed, columns.values())):
        return _items(columns, main, cells)
    every = {role: [_cell(one, is_ranked) for one in column] for role, column in columns.items()}
    mine = every.pop(main)
    is_bad = [one.is_bad for one in mine]
    inside = f'columns={{"{main}": "{columns[main].name}.???"}} for what lies in it'
    cells.report(columns[main], is_bad, f"{LIST_ALLOWED}, or a mapping id -> {beside}; {inside}")
    lists = {role: [one.items for one in of] for role, of in every.items()}
    if any(one.numbers is not None for one in mine):
        # of ids without a grade, beside some with one, each is 1
        rest = None if is_ranked else [1]
        lists[beside] = [rest if one.items and not one.numbers else one.numbers for one in mine]
    lengths = np.array([len(one.items or ()) for one in mine], np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    held = [*chain.from_iterable(one.items or () for one in mine)]
    if held and isinstance(held[0], dict) and {*map(type, held)} == {dict}:
        found = _objects(held, main, cells.lines[row], cells, columns[main].name, beside)
    else:
        found = {main: column_of(held)}
        is_json = main in ID_ROLES and found[main].astype("str").str.startswith(_JSON)
        Cells(cells.problems, cells.lines[row]).report(
            found[main].rename(str(columns[main].name)), is_json,
            f"an id; [*map(json.loads, one)] for each one of frame[{columns[main].name!r}]",
        )  # fmt: skip
    is_known = np.array([one.items is not None for one in mine], bool)
    for role, values in lists.items():
        is_known |= [one is not None for one in values]
        column = columns.get(role, columns[main])
        found[role] = _beside(values, lengths, column, role, cells, is_one_for_all=not is_ranked)
    calls = None
    if any(one.sizes for one in mine):
        calls = _calls([one.sizes or [len(one.items)] if one.items else [] for one in mine])
        found["call"] = pd.Series(np.repeat(calls["call"].to_numpy(), calls["n_hits"]))
    for role, one in found.items():
        one.name = columns.get(role, columns[main]).name
    return Items(is_known, row, found, calls, cells.lines[row])


def _items(columns: Mapping[str, pd.Series], main: str, cells: Cells) -> Items:
    """Return rows without lists as one item each; what is beside no id is a problem."""
    is_known = columns[main].notna().to_numpy()
    for role, column in columns.items():
        cells.report(columns[main], ~is_known & column.notna(), f"an id for each {role}")
    row = np.flatnonzero(is_known)
    taken = {role: one.take(row).reset_index(drop=True) for role, one in columns.items()}
    return Items(is_known, row, taken, None, cells.lines[row])


def _cell(cell: Any, is_ranked: bool) -> _Cell:
    """Return what a cell lists; one value is a list of one, and None of none.

    An id with a fraction, or a text with a number, is a pair; other lists in a list are calls.
    """
    value = cell.tolist() if isinstance(cell, np.ndarray) else cell
    is_plain = type(value) is list and (not value or isinstance(value[0], _SCALARS))
    are_numbers = type(value) is dict and _are_numbers(value)
    if not (is_plain or are_numbers):
        value = hits_of(value) if is_ranked else nested(plain_cell(value))
    if isinstance(value, dict):
        ids, numbers = [*value], [*value.values()]
        are_numbers = are_numbers or _are_numbers(value)
        if not are_numbers and (is_ranked or any(isinstance(o, (list, dict)) for o in numbers)):
            return _Cell([], is_bad=True)
        falling = sorted(numbers, reverse=True) if is_ranked else numbers
        if falling != numbers:
            ids = sorted(value, key=value.__getitem__, reverse=True)
        return _Cell(ids, falling)
    if not isinstance(value, list):
        return _Cell(None if value is None else [value], is_bad=is_list_text(value))
    if not (is_ranked and value and isinstance(value[0], list)):
        return _Cell(value)
    if all(isinstance(one, list) and [*map(type, one)] in _PAIRS for one in value):
        return _Cell([one for one, _ in value], [number for _, number in value])
    calls = [one if isinstance(one, list) else [one] for one in value]
    return _Cell([*chain.from_iterable(calls)], None, [*map(len, calls)])


def _are_numbers(scores: dict[str, Any]) -> bool:
    values = scores.values()
    return {*map(type, values)} <= {int, float} and not any(map(ne, values, values))  # NaN


def _calls(sizes: list[list[int]]) -> pd.DataFrame:
    """Return the calls of each row, with those that found nothing."""
    rows = np.repeat(np.arange(len(sizes)), [*map(len, sizes)])
    calls = pd.DataFrame({"row": rows, "n_hits": [*chain.from_iterable(sizes)]})
    return calls.assign(call=(calls.groupby("row").cumcount() + 1).astype("int32"))


def _beside(
    values: list[Any], lengths: Codes, column: pd.Series, role: str, cells: Cells,
    is_one_for_all: bool,
) -> pd.Series:  # fmt: skip
    """Return the values of lists as long as the items' lists; others are a problem."""
    given = np.array([-1 if one is None else len(one) for one in values], np.int64)
    is_one = is_one_for_all & (given == 1)
    is_bad = (given >= 0) & (given != lengths) & ~is_one
    first = int(is_bad.argmax())
    allowed = f'one for each hit; columns={{"{role}": None}} if it is no {role} of hits'
    text = f"{given[first]} values for {lengths[first]} hits"
    cells.report(column, is_bad, allowed, text, drops=False)
    each = [
        [None] * n if is_without or one is None else one * (n if is_for_all else 1)
        for one, n, is_without, is_for_all in zip(
            values, lengths.tolist(), is_bad, is_one, strict=True
        )
    ]
    return column_of([*chain.from_iterable(each)])


def _objects(
    items: list[dict[str, Any]], role: str, lines: Codes, cells: Cells, name: Any, beside: str
) -> dict[str, pd.Series]:  # fmt: skip
    """Return objects as columns: by the names of their fields, the others as `x_*`.

    A bare `id` has the role of the column, or is a document's.
    """
    fields = fields_of(items)
    roles = inner_roles(fields, role if role in ID_ROLES else "doc_id", beside)
    found = {one: column_of(fields.pop(name)) for one, name in roles.items()}
    known = [found[one].notna() for one in (*ID_ROLES, "text") if one in found]
    is_bad = ~np.any(known, axis=0) if known else np.ones(len(items), bool)
    allowed = f'mappings with an id, such as doc_id; or columns={{"doc_id": "{name}.???"}}'
    Cells(cells.problems, lines).report(pd.Series(items, name=name), is_bad, allowed)
    return found | own_columns_of(fields, lines)


# Hits as frameworks and search engines return them

_PATHS = {
    "doc_id": "_id id uuid _additional.id node_id id_ metadata.source meta.source",
    "score": "_score score relevance _additional.score _additional.certainty metadata.score",
    "text": "text page_content content document _source.text _source.content payload.text"
    " payload.content metadata.text fields.text properties.text",
    "metadata": "metadata meta payload _source fields properties",
}
"""Our name -> the places of a hit that have it, the surest first."""
_LISTS = (
    "hits.hits", "hits", "matches", "result.points", "points", "result", "root.children",
    "objects", "data.Get",
)  # fmt: skip
"""Where responses have their lists: Elasticsearch, Pinecone, Qdrant, Vespa, Weaviate."""
_CHROMA = {"id": "ids", "score": "distances", "document": "documents", "metadata": "metadatas"}
_ATTRIBUTES = ("node_id", "id_", "id", "text", "page_content", "content", "metadata", "meta")
_RAW = {"_source", "payload", "page_content", "_additional"}
"""Fields that only hits have which are as an engine or a framework returned them."""


def hits_of(cell: Any) -> Any:
    """Return the hits in an engine's response, or a framework's documents, as mappings.

    Any other cell is as its source has it, a text with a list or a mapping as what it holds.
    """
    value = nested(plain_cell(cell))
    found = response_hits(value) if isinstance(value, dict) else value
    if not (isinstance(found, list) and found):
        return value if found is None else found
    is_plain = found is value and (
        isinstance(found[0], list)  # calls
        or (isinstance(found[0], dict) and not _RAW & found[0].keys())
    )
    hits = [None] if is_plain else [*map(_hit, found)]
    return value if None in hits else hits


def response_hits(value: Mapping[str, Any]) -> list[Any] | None:
    """Return the hits of a search engine's response; None for another mapping."""
    ids = value.get("ids")
    if isinstance(ids, list) and len(ids) == 1 and isinstance(ids[0], list):
        # Chroma's parallel lists for one query; of distances the smallest comes first
        lists = ((value.get(name) or [[]])[0] for name in _CHROMA.values())
        hits = [dict(zip(_CHROMA, one, strict=True)) for one in zip_longest(*lists)]
        return [one | {"score": one["score"] and -one["score"]} for one in hits]
    for path in _LISTS:
        found = value_at(value, path)
        if path == "data.Get" and isinstance(found, dict):  # by the name of a class
            found = next(iter(found.values()), None)
        if isinstance(found, list) and all(isinstance(one, dict) and _hit(one) for one in found):
            return found
    return None


def _hit(value: Any) -> dict[str, Any] | None:
    """Return a hit with our names; None for a mapping without an id, or no document's object."""
    held, found = value, dict[str, Any]()
    if not isinstance(value, dict):
        node = getattr(value, "node", None) or value
        held = {name: getattr(node, name, None) for name in _ATTRIBUTES}
        held["score"] = getattr(value, "score", None)
    for name, paths in _PATHS.items():
        each = (value_at(held, path) for path in paths.split())
        fitting = (one for one in each if isinstance(one, dict) == (name == "metadata"))
        found[name] = next((one for one in fitting if one is not None), None)
    is_hit = found["doc_id"] is not None if held is value else isinstance(found["text"], str)
    return found if is_hit else None
