"""Labels as columns -> the frames `queries` and `targets`, without a Python object for each.

In: columns of a table by their role. What isn't plain here, the reader of rows in tables.py takes,
or tells its fault. qrels.py uses the same steps.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.codes import all_differ, coded, codes_of, pair_numbers
from ragscore.frames.data import empty
from ragscore.frames.kinds import LABELS
from ragscore.frames.typing import Codes
from ragscore.io.golden_read import KNOWN_FIELDS
from ragscore.io.plain_columns import NotPlain, ids_of, lists_in, series_of, texts_of, values_of
from ragscore.io.rows import nested
from ragscore.io.tools.cases import hash_query, ids_made
from ragscore.io.values import LOOSE

LEVELS = {"doc": "doc_id", "chunk": "chunk_id"}
_TEXTS = (*(name for name in LABELS if name != "group"), "reference_answer")
_FLAGS = ("answerable", "should_refuse")
_ROLES = {"query_id", "query", *LEVELS.values(), "grade", *_FLAGS, *_TEXTS}
"""Roles that are read as columns. Groups aren't: their members have to expect the same."""


def first_rows(query: Codes, ids: pd.Series, grade: npt.NDArray[Any]) -> Codes | None:
    """Return the first row of each query and id, in order; None if another has another grade."""
    pair = pair_numbers(query, ids)
    if all_differ(pair):
        return np.arange(len(pair))
    _, first, group = np.unique(pair, return_index=True, return_inverse=True)
    return np.sort(first) if (grade == grade[first][group]).all() else None


def judged_targets(
    query_id: pd.Series, level: str, ids: pd.Series, grade: npt.NDArray[Any]
) -> pd.DataFrame:
    """Return the frame `targets` of judged ids, one row for each."""
    if not len(ids):
        return empty("targets")
    columns = {"query_id": query_id, "level": level, "target_id": ids, "alternative": 0}
    return pd.DataFrame(columns | {"grade": grade, LEVELS[level]: ids})


@dataclass(frozen=True)
class _ByQuery:
    """The rows of each query: `rows` has the place in `ids` of each row's query."""

    ids: pa.Array
    rows: Codes

    def first(self, values: pa.Array) -> tuple[pa.Array, Codes]:
        """Return the first known value of each query, and its row; -1 where there is none."""
        known = np.flatnonzero(values.is_valid())[::-1]
        place = np.full(len(self.ids), -1)
        place[self.rows[known]] = known  # the last assignment holds: that of the first row
        return values.take(pa.array(place, mask=place < 0)), place

    def only(self, values: pa.Array) -> pa.Array:
        """Return the value of each query, which may not have two."""
        found, _ = self.first(values)
        if pc.all(pc.equal(values, found.take(pa.array(self.rows)))).as_py() is False:
            raise NotPlain
        return found


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
    by_query = _ByQuery(pa.array(encoded.cat.categories), codes_of(encoded).astype(np.int64))
    targets, expects_docs, n_negative = _targets(columns, grade_of, by_query)
    found = {role: by_query.only(values) for role, values in texts.items()}
    is_stated = by_query.only(_stated(columns)).to_pandas(types_mapper=_DTYPES.get)
    n_queries = len(by_query.ids)
    query_of = targets.pop("query").to_numpy()

    def has(rows: pd.Series) -> npt.NDArray[np.bool_]:
        return np.bincount(query_of[rows.to_numpy()], minlength=n_queries) > 0

    if absent_docs == "refuse":
        implied = pd.Series(has(targets["level"] == "doc"), dtype="boolean")
    else:
        # An empty list of documents says that there are none; an answer, that there is one.
        is_relevant = has(targets["grade"] > 0)
        is_refused = expects_docs & ~has(targets["grade"] >= 0)
        answer = found.get("reference_answer", pa.nulls(n_queries, pa.large_string()))
        has_answer = np.asarray(pc.fill_null(pc.not_equal(answer, ""), False))
        is_known = is_relevant | is_refused | has_answer
        implied = pd.Series(~is_refused, dtype="boolean").where(is_known)
    ids = series_of(by_query.ids)
    query = found.pop("query", None)
    queries = {
        "query_id": ids,
        "query": ids if query is None else series_of(query).fillna(ids),
        "answerable": is_stated.fillna(implied),
        "position": np.arange(n_queries),
    }
    queries |= {
        name: series_of(one)
        for name, one in found.items()
        if name in LABELS or one.null_count < n_queries
    }
    return pd.DataFrame(queries | _own(names, own.values(), by_query)), targets, n_negative


def _targets(
    columns: Mapping[str, pd.Series], grade_of: Callable[[Any], float | None], by_query: _ByQuery
) -> tuple[pd.DataFrame, npt.NDArray[np.bool_], int]:
    """Return targets with their `query` as code, queries with a list of documents, n negative."""
    n_negative, is_gain, parts = 0, False, [empty("targets").assign(query=0)]
    expects_docs, ids = np.zeros(len(by_query.ids), bool), series_of(by_query.ids)
    for level, role in LEVELS.items():
        if role not in columns:
            continue
        row, judged, written, is_stated = _judgements(columns[role], columns.get("grade"))
        if level == "doc":
            expects_docs[by_query.rows[is_stated]] = True
        codes, known = _by_value(written, grade_of)
        grade = np.array(known, np.float64)[codes]
        keep = np.flatnonzero(grade >= 0)
        n_negative += len(grade) - len(keep)
        query, judged = by_query.rows[row[keep]], series_of(judged.take(pa.array(keep)))
        if (once := first_rows(query, judged, grade[keep])) is None:
            raise NotPlain
        is_gain |= any(isinstance(known[code], float) for code in np.unique(codes[keep[once]]))
        query, grade, judged = query[once], grade[keep[once]], judged.take(once)
        judged, of_query = (one.reset_index(drop=True) for one in (judged, ids.take(query)))
        if len(query):
            parts.append(judged_targets(of_query, level, judged, grade).assign(query=query))
    targets = pd.concat(parts[1:] or parts, ignore_index=True)
    if is_gain:
        gain = targets["grade"]
        levels = np.searchsorted(np.unique(np.append(gain, 0.0)), gain)
        targets = targets.assign(gain=gain, grade=levels)
    if (np.diff(query := targets["query"].to_numpy()) < 0).any():
        targets = targets.take(np.argsort(query, kind="stable")).reset_index(drop=True)
    return targets, expects_docs, n_negative


def _judgements(
    column: pd.Series, grade: pd.Series | None
) -> tuple[Codes, pa.Array, pa.Array, npt.NDArray[np.bool_]]:
    """Return the row, the id and the written grade of each judgement, and rows that have a cell."""
    lists = lists_in(column)
    if lists is None:
        values = values_of(column)
        is_stated = np.asarray(values.is_valid())
        row, ids = np.flatnonzero(is_stated), ids_of(values.drop_null(), are_cells=True)
    else:
        is_stated, ids = lists.is_known, ids_of(lists.items)
        row = np.repeat(np.arange(len(column)), lists.lengths)
    if lists is not None and lists.values is not None:
        return row, ids, lists.values, is_stated
    if grade is None:
        return row, ids, pa.array(np.ones(len(row), np.int64)), is_stated
    if (of_items := lists_in(grade)) is None:
        return row, ids, values_of(grade).take(pa.array(row)), is_stated
    if lists is None or (of_items.lengths != lists.lengths).any():
        raise NotPlain
    return row, ids, of_items.items, is_stated


def _by_value(values: pa.Array, read: Callable[[Any], Any]) -> tuple[Codes, list[Any]]:
    """Return each value as a code, and what is read of each; nothing missing or unreadable."""
    encoded = values.dictionary_encode()
    known = []
    for one in encoded.dictionary.to_pylist():
        known.append(read(one) if nested(one) is one else None)
        if known[-1] is None:  # the first is enough: scores have a million values
            raise NotPlain
    if values.null_count:
        raise NotPlain
    return encoded.indices.to_numpy().astype(np.int64), known


def _stated(columns: Mapping[str, pd.Series]) -> pa.Array:
    """Return what each row says of being answerable, null where nothing."""
    stated = pa.nulls(len(next(iter(columns.values()))), pa.bool_())
    for role in _FLAGS:
        if role not in columns:
            continue
        values = values_of(columns[role])
        codes, known = _by_value(values.drop_null(), LOOSE["flag"])
        if not all(isinstance(one, bool) for one in known):
            raise NotPlain
        says = np.array([one == (role == "answerable") for one in known], bool)[codes]
        stated = pc.replace_with_mask(stated, values.is_valid(), pa.array(says))
    return stated


_DTYPES = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


def _own(names: list[str], columns: Iterable[pd.Series], by_query: _ByQuery) -> dict[str, Any]:
    """Return the first known value of each query of a user's own columns, as `x_<name>`.

    They are in the order in which queries have a value; those without any come last.
    """
    found: list[tuple[int, str, pd.Series]] = []
    for name, column in zip(names, columns, strict=True):
        values, place = by_query.first(values_of(column))
        begins, of = int(np.argmax(np.append(place >= 0, True))), values.type
        if begins == len(place):
            values = series_of(pa.nulls(begins, pa.large_string()))
        elif of == pa.bool_() or pa.types.is_integer(of) or pa.types.is_floating(of):
            wide = pa.float64() if pa.types.is_floating(of) else pa.int64()
            values = values if of == pa.bool_() else values.cast(wide)
            values = values.to_pandas(types_mapper=_DTYPES.get)
        else:
            values = series_of(texts_of(values))
        found.append((begins, f"x_{name}", values))
    return {name: values for _, name, values in sorted(found, key=itemgetter(0))}
