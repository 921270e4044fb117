"""A table with lists in its cells -> one row per item of these lists.

In: columns by their role. Lists of ids, of texts, of (id, score), of objects; lists of each of
these, one for each call; mappings id -> score; replies of search engines; each also as JSON or
Python's repr in a text. Lists of other roles beside them belong to their items.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from ragscore.frames.codes import arrow_texts
from ragscore.frames.typing import Codes, Flags
from ragscore.io.cells import Cells
from ragscore.io.columns import ID_ROLES, inner_roles
from ragscore.io.rows import LIST_ALLOWED, is_list_text, nested, plain_cell
from ragscore.io.run_records import Batch, Level, fields_of, series, values_of
from ragscore.io.search_hits import document_hit, response_hits
from ragscore.io.source import describe
from ragscore.io.values import as_number

_LEAVES = {int, float, str, bool}
_SCALARS = (bool, int, float, str, type(None), np.generic)


class Items(NamedTuple):
    """Which rows have a list, the row of each item, the columns of all items, lists in rows."""

    is_known: Flags
    row: Codes
    columns: dict[str, pd.Series]
    n_calls: dict[int, int]


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
    main = next((role for role in (*ID_ROLES, "text") if role in values), next(iter(values)))
    every = values.pop(main)
    _refuse_texts(columns[main], every, cells)
    numbers: dict[int, list[Any]] = {}
    calls: dict[int, list[int]] = {}
    n_calls: dict[int, int] = {}
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
            n_calls[at], calls[at] = len(parts), [n for n, p in enumerate(parts, 1) for _ in p]
            every[at] = [*chain.from_iterable(parts)]
            for of_role in values.values():
                if of_role[at] and all(isinstance(part, list) for part in of_role[at]):
                    of_role[at] = [*chain.from_iterable(of_role[at])]
    is_known = np.array([one is not None for one in every], bool)
    for of_role in values.values():
        is_known |= [one is not None for one in of_role]
    lengths = np.array([len(one or ()) for one in every], np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    items = [*chain.from_iterable(one or () for one in every)]
    if {*map(type, items)} == {dict}:
        found_in = _objects(items, main, cells.lines[row], cells, columns[main].name)
    else:
        found_in = {main: _series(items)}
    if numbers:
        one_each = None if is_ranked else 1  # ids without a grade, beside some with one
        values[beside] = [
            numbers.get(at, one and one_each and [one_each] * len(one))
            for at, one in enumerate(every)
        ]
    for role, of_role in values.items():
        column = columns.get(role, columns[main])
        for at in [at for at, one in enumerate(of_role) if one is not None]:
            given, n = of_role[at], int(lengths[at])
            if len(given) == 1 and not is_ranked:
                of_role[at] = given * n  # one grade for all
            elif len(given) != n:
                allowed = f'one for each hit; columns={{"{role}": None}} if it is no {role} of hits'
                is_bad = np.arange(len(of_role)) == at
                text = f"{len(given)} values for {n} hits"
                cells.report(column, is_bad, allowed, text, drops=False)
                of_role[at] = None
        each = (one or [None] * n for one, n in zip(of_role, lengths.tolist(), strict=True))
        found_in[role] = _series([*chain.from_iterable(each)])
    if calls:
        call = np.ones(len(row), np.int32)
        starts = lengths.cumsum() - lengths
        for at, of_call in calls.items():
            call[starts[at] : starts[at] + lengths[at]] = of_call
        found_in["call"] = pd.Series(call)
    if is_mapping.any():
        order = _by_score(found_in[beside], row, is_mapping, columns[main], cells)
        found_in = {role: one.take(order).reset_index(drop=True) for role, one in found_in.items()}
    for role, one in found_in.items():
        one.name = columns[role].name if role in columns else columns[main].name
    return Items(is_known, row, found_in, n_calls)


def _by_score(
    scores: pd.Series, row: Codes, is_mapping: Flags, column: pd.Series, cells: Cells
) -> Codes:
    """Return the order of items in which those of mappings go by their scores."""
    if is_numeric_dtype(scores.dtype) and not is_bool_dtype(scores.dtype):
        score = scores.to_numpy("float64", na_value=np.nan)
    else:
        score = np.array([as_number(one) for one in scores], np.float64)
    of_mapping = is_mapping[row]
    is_bad = np.zeros(len(column), bool)
    is_bad[row[of_mapping & np.isnan(score)]] = True
    found = f"found {describe(plain_cell(column.iloc[int(is_bad.argmax())]))}"
    cells.report(column, is_bad, "a mapping id -> score", found)
    return np.lexsort((np.where(of_mapping, -score, 0), row))


def _series(values: list[Any]) -> pd.Series:
    """Return values as a column of one type, else of Python's objects."""
    found = values_of(values)
    return pd.Series(found, dtype=object) if isinstance(found, list) else series(found)


def _listed(cell: Any, is_ranked: bool) -> Any:
    """Return a cell as its list or mapping; one value as a list, None where there is none."""
    if type(cell) is list and (not cell or isinstance(cell[0], _SCALARS)):
        return cell
    if type(cell) is dict and {*map(type, cell.values())} <= _LEAVES:
        return cell
    value = nested(plain_cell(cell))
    if isinstance(value, dict) and is_ranked:
        reply = response_hits(value)
        inner = [one for one in value.values() if isinstance(one, list)]
        if reply is None and len(inner) == 1 and (not inner[0] or type(inner[0][0]) is dict):
            reply = inner[0]
        return value if reply is None else reply
    if isinstance(value, list) and value and not isinstance(value[0], (*_SCALARS, list, dict)):
        return [document_hit(one) or one for one in value]
    return value if isinstance(value, (list, dict)) or value is None else [value]


def _refuse_texts(column: pd.Series, values: list[Any], cells: Cells) -> None:
    """Report texts that look like lists, and that nothing can read as one."""
    if not isinstance(column.dtype, pd.StringDtype) and column.dtype != object:
        return
    is_bad = [
        isinstance(cell, str) and isinstance(one, list) and one == [cell] and is_list_text(cell)
        for one, cell in zip(values, column, strict=True)
    ]
    cells.report(column, is_bad, LIST_ALLOWED)


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
    fields: dict[str, Any] = fields_of(items)
    named: dict[str, list[str]] = {}
    for shape in {*map(tuple, items)}:
        for one, field in inner_roles(dict.fromkeys(shape), role).items():
            named.setdefault(one, []).append(field)
    found: dict[str, pd.Series] = {}
    for one, names in named.items():
        names = list(dict.fromkeys(names))
        columns = [fields.pop(field, None) for field in names]
        parts = [c if isinstance(c, list) else c.to_pylist() for c in columns if c is not None]
        if len(columns) == 1 and columns[0] is not None:
            column = columns[0]
            found[one] = (
                pd.Series(column, dtype=object) if isinstance(column, list) else series(column)
            )
        elif parts:
            first = [
                next((v for v in row if v is not None), None) for row in zip(*parts, strict=True)
            ]
            found[one] = _series(first)
    has = [found[one].notna().to_numpy() for one in (*ID_ROLES, "text") if one in found]
    is_bad = ~np.any(has, axis=0) if has else np.ones(len(items), bool)
    of_items = Cells(cells.problems, lines)
    of_items.report(
        pd.Series(items, name=name), is_bad, "mappings with an id, such as doc_id", drops=False
    )
    rest: dict[str, Any] = {}
    level = Level(fields, np.arange(len(items)), "", Batch(lines))
    level.extras(rest)
    return found | {one: series(column) for one, column in rest.items()}
