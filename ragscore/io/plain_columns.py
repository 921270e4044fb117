"""Lists, hits and labels of plain values as columns, without a Python object for each value.

In: columns of a table by their role. Out: frames, or `NotPlain` where only a reader that looks at
each value can take it or tell its fault: those in tables.py. qrels.py shares the steps for labels.
"""

from collections.abc import Callable, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.codes import all_differ, coded, codes_of, pair_numbers
from ragscore.frames.data import DataError, empty
from ragscore.frames.kinds import LABELS, common_dtype
from ragscore.frames.typing import Codes
from ragscore.io.columns import ID_ROLES, inner_roles
from ragscore.io.file_content import LONGEST_ID
from ragscore.io.golden_read import KNOWN_FIELDS
from ragscore.io.rows import nested
from ragscore.io.run_records import Batch, Level, NotPlain, fields_of, kinds_of, series
from ragscore.io.source import YamlDate
from ragscore.io.tools.cases import hash_query, ids_made

NOT_PLAIN = (NotPlain, DataError, pa.ArrowException, OverflowError, UnicodeError)
"""What a value that isn't plain brings up."""
LEVELS = {"doc": "doc_id", "chunk": "chunk_id"}
_TEXTS = (*(name for name in LABELS if name != "group"), "reference_answer")
_ROLES = {"query_id", "query", *LEVELS.values(), "grade", *_TEXTS}
"""Roles of labels that are read as columns. Of a group, all members have to expect the same."""


def values_of(column: pd.Series | list[Any]) -> pa.Array:
    """Return values of one type, missing ones as null, and no infinite number."""
    is_objects = isinstance(column, list) or column.dtype == object
    if is_objects and YamlDate in {*map(type, column)}:  # a date, which is no text
        raise NotPlain
    try:
        found = pa.array(column, from_pandas=True)
        found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        found = found.dictionary_decode() if pa.types.is_dictionary(found.type) else found
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise NotPlain from error
    if pa.types.is_floating(found.type) and pc.any(pc.is_inf(found)).as_py():
        raise NotPlain
    return found


def texts_of(values: pa.Array, are_cells: bool = False) -> pa.Array:
    """Return texts and whole numbers as texts. A cell of a table may be a list as text: no text."""
    of = values.type
    is_text = pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of)
    if not (is_text or pa.types.is_integer(of) or pa.types.is_null(of)):
        raise NotPlain
    texts = values.cast(pa.large_string())
    if is_text and are_cells:
        begin = pc.utf8_slice_codeunits(pc.utf8_ltrim_whitespace(texts), 0, 1)
        if pc.any(pc.is_in(begin, pa.array(["[", "{"], begin.type))).as_py():
            raise NotPlain
    return texts


def ids_of(values: pa.Array, are_cells: bool = False) -> pa.Array:
    """Return ids as texts, none of them missing, empty or too long."""
    texts = texts_of(values, are_cells)
    lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False)
    if texts.null_count or not ((lengths > 0) & (lengths <= LONGEST_ID)).all():
        raise NotPlain
    return texts


def series_of(texts: pa.Array) -> pd.Series:
    """Return texts as a column, which shares their memory."""
    return pd.Series(pd.array(texts, dtype="str"))


class Lists(NamedTuple):
    """Which lists of a column are known, their lengths, and the items of all.

    Of mappings `items` are the keys, with their values.
    """

    is_known: npt.NDArray[np.bool_]
    lengths: Codes
    items: pa.Array
    values: pa.Array | None


def lists_in(column: pd.Series) -> Lists | None:
    """Return the lists or mappings of a column; None for a column of single values."""
    is_known = column.notna().to_numpy(dtype=bool)
    known = column[is_known].tolist() if column.dtype == object else []
    kinds = {*map(type, known)}
    if not kinds & {dict, list, tuple, np.ndarray}:
        return None
    if (kinds != {dict} and dict in kinds) or not kinds <= {dict, list, tuple, np.ndarray}:
        raise NotPlain
    lengths = np.zeros(len(column), np.int64)
    try:
        lengths[is_known] = [*map(len, known)]
    except TypeError as error:  # an array without a dimension
        raise NotPlain from error
    values = chain.from_iterable(map(dict.values, known)) if kinds == {dict} else None
    items = values_of([*chain.from_iterable(known)])
    return Lists(is_known, lengths, items, None if values is None else values_of([*values]))


def hit_lists(columns: Mapping[str, pd.Series]) -> tuple[Lists, pd.DataFrame]:
    """Return lists of ids, and all their hits one behind the other, with the columns of roles.

    Lists are in the order of the ranks, perhaps with lists of scores beside them. A mapping
    id -> score is by score, the highest first; equal ones keep their order.
    """
    every = {role: lists for role, one in columns.items() if (lists := lists_in(one)) is not None}
    ids = {role: lists.items for role, lists in every.items() if role in ID_ROLES}
    if not ids or len(every) < len(columns) or {*every} - {*ID_ROLES, "score"}:
        raise NotPlain
    lists = every[next(iter(ids))]
    is_mapping = any(one.values is not None for one in every.values())
    is_even = all((one.lengths == lists.lengths).all() for one in every.values())
    if not is_even or (is_mapping and len(every) > 1):
        raise NotPlain
    hits = pd.DataFrame({role: series_of(ids_of(items)) for role, items in ids.items()})
    if is_mapping or "score" in every:
        scores: pa.Array = lists.values if is_mapping else every["score"].items
        if scores.null_count or not (
            pa.types.is_integer(scores.type) or pa.types.is_floating(scores.type)
        ):
            raise NotPlain
        hits["score"] = scores.cast(pa.float64()).to_numpy()
    row = np.repeat(np.arange(len(lists.lengths)), lists.lengths)
    if is_mapping and ((np.diff(hits["score"]) > 0) & (np.diff(row) == 0)).any():
        hits = hits.take(np.lexsort((-hits["score"].to_numpy(), row))).reset_index(drop=True)
    is_known = np.any([every[role].is_known for role in ids], axis=0)
    return lists._replace(is_known=is_known), hits


def hit_objects(column: pd.Series, role: str, is_checked: bool) -> tuple[Lists, pd.DataFrame]:
    """Return lists of mappings, and all of these as hits with the columns of their fields.

    A bare `id` has the role of the column, or is a document's. Objects that nobody has checked
    may hold no others.
    """
    is_known = column.notna().to_numpy(dtype=bool)
    known = column[is_known].tolist()
    objects = [*chain.from_iterable(known)] if {*map(type, known)} == {list} else []
    if {*map(type, objects)} != {dict}:
        raise NotPlain
    lengths = np.zeros(len(column), np.int64)
    lengths[is_known] = [*map(len, known)]
    role = role if role in ID_ROLES else "doc_id"
    of_shape = {shape: inner_roles(dict.fromkeys(shape), role) for shape in {*map(tuple, objects)}}
    roles = {role: name for one in of_shape.values() for role, name in one.items()}
    for shape, one in of_shape.items():
        if one != {role: name for role, name in roles.items() if name in shape}:
            raise NotPlain
    fields = fields_of(objects)
    lists = (one for one in fields.values() if isinstance(one, list))
    if not is_checked and any(kinds_of(one) & {dict, list} for one in lists):
        raise NotPlain
    n = len(objects)
    level = Level(fields, np.arange(n), "", Batch(np.ones(n)))
    found = {role: level.take(name, _TYPES[role]) for role, name in roles.items()}
    rank = found.pop("rank", pa.nulls(n))
    is_named = [np.asarray(found[one].is_valid()) for one in ID_ROLES if one in found]
    if not is_named or not np.any(is_named, axis=0).all() or 0 < rank.null_count < len(rank):
        raise NotPlain
    level.extras(found)
    if level.batch.records:
        raise NotPlain
    stated = {name: one for name, one in found.items() if one.null_count < n}
    hits = pd.DataFrame({name: series(one) for name, one in stated.items()}, copy=False)
    if not rank.null_count:
        order = np.lexsort((rank.to_numpy(), np.repeat(np.arange(len(lengths)), lengths)))
        hits = hits.take(order).reset_index(drop=True)
    return Lists(is_known, lengths, rank, None), hits


_TYPES = {**dict.fromkeys(ID_ROLES, "id"), "text": "text", "score": "number", "rank": "whole"}


def first_rows(query: Codes, ids: pd.Series, grade: npt.NDArray[Any]) -> Codes | None:
    """Return the first row of each query and id, in order; None if another has another grade."""
    pair = pair_numbers(query, ids)
    if all_differ(pair):
        return np.arange(len(pair))
    _, first, group = np.unique(pair, return_index=True, return_inverse=True)
    return np.sort(first) if (grade == grade[first][group]).all() else None


def judged_targets(
    query_ids: pd.Series, query: Codes, level: str, ids: pd.Series, grade: npt.NDArray[Any]
) -> pd.DataFrame:
    """Return the frame `targets`, one row for each judged id of the query at a place."""
    if not len(ids):
        return empty("targets")
    ids, of_query = (one.reset_index(drop=True) for one in (ids, query_ids.take(query)))
    columns = {"query_id": of_query, "level": level, "target_id": ids, "alternative": 0}
    return pd.DataFrame(columns | {"grade": grade, LEVELS[level]: ids})


def label_frames(
    columns: Mapping[str, pd.Series],
    own: Mapping[str, pd.Series],
    grade_of: Callable[[Any], float | None],
    absent_docs: str,
) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """Return queries, targets, and the number of judgements left out for a negative grade.

    In: columns by their role, those of the user's own, and the reader of a written grade.

    Raises
    ------
    NotPlain
        A fault, or values that have to be read one by one.
    """
    names = ["record_id" if name == "id" else name for name in own]
    if columns.keys() - _ROLES or {*names} & KNOWN_FIELDS or len({*names}) < len(names):
        raise NotPlain
    texts = {
        role: texts_of(values_of(columns[role]), are_cells=role in _TEXTS)
        for role in ("query_id", "query", *_TEXTS)
        if role in columns
    }
    if (asked := texts.pop("query_id", None)) is None:
        query = series_of(texts["query"])
        asked = values_of(ids_made(query.mask(query.str.strip() == ""), hash_query))
    encoded = coded(series_of(ids_of(asked)))
    rows, ids = codes_of(encoded).astype(np.int64), encoded.cat.categories.to_series()
    ids, n_queries = ids.reset_index(drop=True), len(ids)
    targets, of_target, expects_docs, n_negative = _targets(columns, grade_of, rows, ids)

    def has(is_meant: pd.Series) -> npt.NDArray[np.bool_]:
        return np.bincount(of_target[is_meant.to_numpy()], minlength=n_queries) > 0

    def first(values: pa.Array) -> tuple[pa.Array, int]:
        """Return the first known value of each query, and the first query that has one."""
        known, place = np.flatnonzero(values.is_valid())[::-1], np.full(n_queries, -1)
        place[rows[known]] = known  # the last assignment holds: that of the first row
        begins = int(np.argmax(np.append(place >= 0, True)))
        return values.take(pa.array(place, mask=place < 0)), begins

    found = {}
    for role, values in texts.items():
        stated, begins = first(values)
        if pc.all(pc.equal(values, stated.take(pa.array(rows)))).as_py() is False:
            raise NotPlain  # two values for one query
        if role in LABELS or begins < n_queries:
            found[role] = series_of(stated)
    if absent_docs == "refuse":
        answerable = pd.Series(has(targets["level"] == "doc"), dtype="boolean")
    else:  # an empty list of documents says that there are none; an answer, that there is one
        is_refused = expects_docs & ~has(targets["grade"] >= 0)
        answer = found.get("reference_answer", pd.Series("", ids.index)).fillna("")
        is_known = has(targets["grade"] > 0) | is_refused | (answer != "")
        answerable = pd.Series(~is_refused, dtype="boolean").where(is_known)
    query = found.pop("query", ids).fillna(ids)
    queries = {"query_id": ids, "query": query, "answerable": answerable, **found}
    extra = []
    for name, column in zip(names, own.values(), strict=True):
        values, begins = first(values_of(column))
        if not (pa.types.is_boolean(values.type) or pa.types.is_floating(values.type)):
            texts_of(values)  # such as dates aren't plain
        each = values.to_pylist()
        dtype = common_dtype(each) if begins < n_queries else "str"
        extra.append((begins, f"x_{name}", pd.Series(each, dtype=dtype)))
    # in the order in which queries have a value, those without any last
    queries |= {name: values for _, name, values in sorted(extra, key=itemgetter(0))}
    return pd.DataFrame(queries | {"position": ids.index}), targets, n_negative


def _targets(
    columns: Mapping[str, pd.Series],
    grade_of: Callable[[Any], float | None],
    rows: Codes,
    query_ids: pd.Series,
) -> tuple[pd.DataFrame, Codes, npt.NDArray[np.bool_], int]:
    """Return targets, the query of each, queries with a list of documents, and n negative."""
    n_negative, is_gain = 0, False
    parts, queries = [empty("targets")], [np.zeros(0, np.int64)]
    expects_docs = np.zeros(len(query_ids), bool)
    for level, role in LEVELS.items():
        if role not in columns:
            continue
        row, judged, written, is_stated = _judgements(columns[role], columns.get("grade"))
        if level == "doc":
            expects_docs[rows[is_stated]] = True
        encoded, known = written.dictionary_encode(), []
        for one in encoded.dictionary.to_pylist():
            known.append(grade_of(one) if nested(one) is one else None)
            if known[-1] is None:  # the first is enough: scores have a million values
                raise NotPlain
        codes = encoded.indices.to_numpy()  # none is missing
        grade = np.array(known, np.float64)[codes]
        keep = np.flatnonzero(grade >= 0)
        n_negative += len(grade) - len(keep)
        ids = series_of(judged.take(pa.array(keep)))
        if (once := first_rows(rows[row[keep]], ids, grade[keep])) is None:
            raise NotPlain
        keep = keep[once]
        is_gain |= any(isinstance(known[code], float) for code in np.unique(codes[keep]))
        queries.append(rows[row[keep]])
        parts.append(judged_targets(query_ids, queries[-1], level, ids.take(once), grade[keep]))
    filled = [one for one in parts if len(one)] or parts[:1]
    targets, query = pd.concat(filled, ignore_index=True), np.concatenate(queries)
    if is_gain:
        gain = targets["grade"]
        levels = np.searchsorted(np.unique(np.append(gain, 0.0)), gain)
        targets = targets.assign(gain=gain, grade=levels)
    if (np.diff(query) < 0).any():
        order = np.argsort(query, kind="stable")
        targets, query = targets.take(order).reset_index(drop=True), query[order]
    return targets, query, expects_docs, n_negative


def _judgements(
    column: pd.Series, grade: pd.Series | None
) -> tuple[Codes, pa.Array, pa.Array, npt.NDArray[np.bool_]]:
    """Return the row, the id and the written grade of each judgement, and rows that have a cell."""
    lists, grades = lists_in(column), None if grade is None else lists_in(grade)
    if lists is None:
        values = values_of(column)
        is_stated = np.asarray(values.is_valid())
        row, ids = np.flatnonzero(is_stated), ids_of(values.drop_null(), are_cells=True)
    else:
        is_stated, ids = lists.is_known, ids_of(lists.items)
        row = np.repeat(np.arange(len(column)), lists.lengths)
    if lists is not None and lists.values is not None:
        written = lists.values
    elif grade is None:
        written = pa.array(np.ones(len(row), np.int64))
    elif grades is None:
        written = values_of(grade).take(pa.array(row))
    elif lists is not None and (grades.lengths == lists.lengths).all():
        written = grades.items
    else:
        raise NotPlain
    if written.null_count:
        raise NotPlain
    return row, ids, written, is_stated
