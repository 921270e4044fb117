"""Whole lines of a run file -> columns of responses, hits and citations, by column operations on what pyarrow.json parsed.

Each function does for all rows what its namesake in record.py, citations.py and values.py does for
one record, and declines where a value would be a problem there, or where Arrow can't tell what the
record said (null or absent, one kind of number or another).

The Arrow schema of a run file, learned from some of its records.

Known fields have their types, others the one they are seen with.

Types are learned from values that the per-line reader's own parser gave, never by pyarrow: its
inference turns texts into times, and its process ends on lines that are nested without end. A field
that no single type holds makes the fast reader decline.
"""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.kinds import LARGEST_EXACT_FLOAT
from ragscore.io.citations import CITATION_KINDS, HEADING_SEPARATOR, SPAN_FIELDS, SPAN_UNITS
from ragscore.io.record import (
    HIT_TEXT,
    KNOWN_ANSWER,
    KNOWN_CITATION,
    KNOWN_HIT,
    KNOWN_RECORD,
    SCORES,
    TOKENS,
)
from ragscore.io.source import parse_json, suggest_field
from ragscore.io.values import JSON_SUFFIX, escape_key


class NeedsLineReader(Exception):
    """Something stands there that only the per-line reader can judge."""


_TEXT, _FLAG, _WHOLE, _NUMBER, _NULL = pa.string(), pa.bool_(), pa.int64(), pa.float64(), pa.null()


def _struct(**types: pa.DataType) -> pa.DataType:
    return pa.struct(list(types.items()))


SPAN = _struct(
    **dict.fromkeys(("kind", "path"), _TEXT),
    **dict.fromkeys(
        ("start", "end", "line_start", "line_end", "page", "start_ms", "end_ms"), _WHOLE
    ),
)
RETRIEVAL = _struct(fusion_score=_NUMBER, lexical_score=_NUMBER, vector_score=_NUMBER)
USAGE = _struct(prompt_tokens=_WHOLE, completion_tokens=_WHOLE)
_PLACE = {"chunk_id": _TEXT, "doc_id": _TEXT, "heading_path": pa.list_(_TEXT), "citation": SPAN}
HIT = _struct(
    rank=_WHOLE, **_PLACE,
    **dict.fromkeys(("doc_path", "snippet", "score_kind", "source_key", "chunker_version"), _TEXT),
    stale=_FLAG, text_cut=_FLAG,
    retrieval=RETRIEVAL, score=_NUMBER, score_lexical=_NUMBER, score_vector=_NUMBER, metadata=_NULL,
)  # fmt: skip
CITATION = _struct(marker=_TEXT, path=_TEXT, **_PLACE)
ANSWER = _struct(
    answer=_TEXT, refusal_reason=_TEXT, grounded=_FLAG, refused=_FLAG, cost_usd=_NUMBER,
    usage=USAGE, citations=pa.list_(CITATION), hops=_NULL,
)  # fmt: skip
RECORD = _struct(
    **dict.fromkeys(("query_id", "query", "mode", "error", "scope"), _TEXT),
    elapsed_ms=_NUMBER,
    hits_top_k=pa.list_(HIT),
    answer=ANSWER,
)
_LEVELS = (
    (RECORD, KNOWN_RECORD),
    (HIT, KNOWN_HIT),
    (ANSWER, KNOWN_ANSWER),
    (CITATION, KNOWN_CITATION),
)


def learn_schema(seen: pa.DataType, lines: Iterable[bytes]) -> pa.DataType:
    """The type with the fields of these lines too.

    Only fields that are there, for each costs time in every row.

    Raises
    ------
    Declined
        A line that isn't one JSON object, a field of two types or of one that a known field can't
        have, or a name that resembles a known one.
    """
    for line in lines:
        try:
            seen = _merged(seen, _type_of(parse_json(line.decode("utf-8"))))
        except (ValueError, RecursionError) as error:
            raise NeedsLineReader from error
    return _typed(seen, RECORD)


def _type_of(value: Any) -> pa.DataType:
    if isinstance(value, dict):
        return pa.struct([(name, _type_of(one)) for name, one in value.items()])
    if isinstance(value, list):
        item = _NULL
        for one in value:
            item = _merged(item, _type_of(one))
        return pa.list_(item)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise NeedsLineReader
    return {type(None): _NULL, bool: _FLAG, int: _WHOLE, float: _NUMBER, str: _TEXT}[type(value)]


def _merged(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that holds values of both."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        types = {field.name: field.type for field in one}
        types |= {field.name: _merged(types.get(field.name, _NULL), field.type) for field in other}
        return pa.struct(list(types.items()))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_merged(one.value_type, other.value_type))
    if {one, other} == {_WHOLE, _NUMBER}:
        return _NUMBER
    raise NeedsLineReader


def _typed(seen: pa.DataType, known: pa.DataType) -> pa.DataType:
    """The seen type with the types that known fields have."""
    if pa.types.is_struct(known) and pa.types.is_struct(seen):
        _check_names(seen, known)
        types = {field.name: field.type for field in known}
        if known == RECORD:
            types |= {field.name: _NUMBER for field in seen if field.name.startswith("latency_")}
        return pa.struct(
            [
                (
                    field.name,
                    _typed(field.type, types[field.name]) if field.name in types else field.type,
                )
                for field in seen
            ]
        )
    if pa.types.is_list(known) and pa.types.is_list(seen):
        return pa.list_(_typed(seen.value_type, known.value_type))
    if pa.types.is_null(seen):
        return seen if pa.types.is_nested(known) else known
    if known == seen or (known == _NUMBER and seen == _WHOLE):
        return known
    raise NeedsLineReader


def _check_names(seen: pa.DataType, known: pa.DataType) -> None:
    """Decline names that resemble a known one: the per-line reader warns of them, with their lines."""
    for level, names in _LEVELS:
        if known == level and any(suggest_field(field.name, names) is not None for field in seen):
            raise NeedsLineReader
    # A span_unit changes how start, end and kind are read even where it is null, which a column
    # can't tell from absent.
    if known in (HIT, CITATION) and seen.get_field_index("span_unit") >= 0:
        raise NeedsLineReader


Columns = dict[str, Any]
_ANY = pa.struct([])


def columns_of(records: pa.Array) -> tuple[dict[str, Columns], dict[str, npt.NDArray[np.int64]]]:
    """The columns of each frame, those without any value left out, and the record that each row comes from.

    Raises
    ------
    Declined
        Anything that isn't surely equal to what the per-line reader gives.
    """
    values = _members(records, RECORD)
    lists, answer = values.pop("hits_top_k"), values.pop("answer")
    query_id = _identifier(values, "query_id", may_be_null=False)
    responses: Columns = {"query_id": query_id} | {
        name: values.pop(name) for name in ("query", "error", "mode", "scope")
    }
    responses |= {
        name: _number(values.pop(name))
        for name in list(values)
        if name == "elapsed_ms" or name.startswith("latency_")
    }
    cited, citations = _answer(answer, responses)
    for name, column in values.items():
        _own(f"x_{escape_key(name)}", column, responses)
    asked = {"hits": lists, "citations": cited}
    frames = {"responses": responses, "hits": _hits(lists), "citations": citations}
    rows = {"responses": np.arange(len(records))} | {
        kind: np.repeat(np.arange(len(records)), _lengths(column)) for kind, column in asked.items()
    }
    for kind in asked:
        frames[kind]["query_id"] = query_id.take(pa.array(rows[kind]))
    return {
        kind: {name: column for name, column in columns.items() if column.null_count < len(column)}
        for kind, columns in frames.items()
    }, rows


def _members(column: pa.Array, known: pa.DataType = _ANY) -> Columns:
    """The fields of an object, null where the object is; known ones that no record has are null."""
    there = (
        {}
        if pa.types.is_null(column.type)
        else dict(zip((field.name for field in column.type), column.flatten(), strict=True))
    )
    there = {
        name: one
        for name, one in there.items()
        if known.get_field_index(name) < 0 or not pa.types.is_null(one.type)
    }
    return {
        field.name: pa.nulls(len(column), field.type) for field in known if field.name not in there
    } | there


def _lengths(lists: pa.ListArray) -> npt.NDArray[np.int64]:
    return np.asarray(
        pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), dtype=np.int64
    )


def _places(lists: pa.ListArray) -> npt.NDArray[np.int32]:
    """1, 2, 3, ... within each list."""
    lengths = _lengths(lists)
    return (
        np.arange(1, lengths.sum() + 1) - np.repeat(lengths.cumsum() - lengths, lengths)
    ).astype(np.int32)


def _items(lists: pa.ListArray) -> pa.StructArray:
    items = lists.flatten()
    _need(items.null_count == 0)
    return items


def _need(holds: Any) -> None:
    if not holds:
        raise NeedsLineReader


def _identifier(values: Columns, name: str, may_be_null: bool = True) -> pa.Array:
    column = values.pop(name)
    _need(may_be_null or column.null_count == 0)
    _need(column.null_count == len(column) or pc.min(pc.binary_length(column)).as_py() > 0)
    return column


def _number(column: pa.Array) -> pa.Array:
    """Decimal numbers.

    NaN and numbers beyond float64 are the per-line reader's business, and so is 0, which may have
    been written -0.
    """
    if column.null_count < len(column):
        found = column.drop_null().to_numpy()
        _need(np.isfinite(found).all() and not np.signbit(found[found == 0]).any())
    return pc.cast(column, pa.float64())


def _hits(lists: pa.ListArray) -> Columns:
    values = _members(_items(lists), HIT)
    found: Columns = {"rank": pa.array(_ranks(values.pop("rank"), lists))}
    values.pop("metadata")
    found |= {name: _identifier(values, name) for name in ("chunk_id", "doc_id")} | _span(
        values, values.pop("doc_path")
    )
    found |= {column: values.pop(key) for key, column in HIT_TEXT.items()} | {
        name: values.pop(name) for name in ("stale", "text_cut")
    }
    retrieval = _members(values.pop("retrieval"), RETRIEVAL)
    for name, column in SCORES.items():
        inside, own = _number(retrieval.pop(name)), _number(values.pop(column))
        _need(
            own.null_count == len(own)
            or not pc.any(pc.and_(inside.is_valid(), own.is_valid())).as_py()
        )
        found[column] = pc.coalesce(inside, own)
    return _with_own(found, values, "x_") | _with_own({}, retrieval, "x_retrieval.")


def _ranks(stored: pa.Array, lists: pa.ListArray) -> npt.NDArray[np.int32]:
    in_order = _places(lists)
    _need(
        stored.null_count == len(stored)
        or (stored.null_count == 0 and np.array_equal(stored.to_numpy(), in_order))
    )
    return in_order


def _citations(lists: pa.ListArray) -> Columns:
    values = _members(_items(lists), CITATION)
    found: Columns = {"position": pa.array(_places(lists)), "marker": values.pop("marker")}
    found |= {name: _identifier(values, name) for name in ("chunk_id", "doc_id")} | _span(
        values, values.pop("path")
    )
    return _with_own(found, values, "x_")


def _with_own(found: Columns, values: Columns, prefix: str) -> Columns:
    for name, column in values.items():
        _own(prefix + escape_key(name), column, found)
    return found


def _span(values: Columns, path: pa.Array) -> Columns:
    """Path, half-open span and heading of hits or citations.

    What else the citation says under `x_citation.*`.
    """
    citation = values.pop("citation")
    cited, n = _members(citation, SPAN), len(citation)
    _need(
        pc.sum(pc.is_in(cited["kind"], pa.array(CITATION_KINDS))).as_py()
        in (None, n - citation.null_count)
        or citation.null_count == n
    )
    other = cited.pop("path")
    found: Columns = {
        "start": pa.nulls(n, pa.int64()),
        "end": pa.nulls(n, pa.int64()),
        "span_unit": pa.nulls(n, pa.string()),
    }
    for kind in SPAN_FIELDS:
        is_kind = pc.fill_null(pc.equal(cited["kind"], kind), False)
        if pc.any(is_kind).as_py():
            _take_span(kind, is_kind, cited, found)
    differs = pc.fill_null(pc.not_equal(path, other), False)
    found |= {
        "path": pc.coalesce(path, other),
        "x_citation.path": pc.if_else(differs, other, None),
        "heading": _heading(values.pop("heading_path")),
    }
    return _with_own(found, cited, "x_citation.")


def _take_span(kind: str, is_kind: pa.Array, cited: Columns, found: Columns) -> None:
    """Move the first and last field of citations of this kind to the columns of the span."""
    first, last, step = SPAN_FIELDS[kind]
    start, end = (pc.if_else(is_kind, cited[name], None) for name in (first, last))
    has_span = start.is_valid()
    _need(has_span.equals(end.is_valid()))
    if start.null_count < len(start):
        _need(pc.min(start).as_py() >= 0 and pc.max(end).as_py() < 2**63 - 1)
        end = pc.add(end, step)
        _need(pc.all(pc.less(start, end)).as_py())
    found |= {
        "start": pc.if_else(has_span, start, found["start"]),
        "end": pc.if_else(has_span, end, found["end"]),
    }
    found["span_unit"] = pc.if_else(has_span, SPAN_UNITS[kind], found["span_unit"])
    cited |= {name: pc.if_else(is_kind, None, cited[name]) for name in (first, last)}


def _heading(paths: pa.ListArray) -> pa.Array:
    """The heading path as one text, where that gives the parts back."""
    parts = paths.flatten()
    _need(parts.null_count == 0)
    heading = pc.binary_join(paths, HEADING_SEPARATOR)
    if len(parts):
        # One part that is empty and no part at all would be the same text; and a part may hold what
        # stands between parts.
        _need(
            not pc.any(
                pc.and_(pc.equal(pc.list_value_length(paths), 1), pc.equal(heading, ""))
            ).as_py()
        )
        if pc.any(pc.match_substring(parts, ">")).as_py():
            there = heading.filter(pc.greater(pc.list_value_length(paths), 0))
            _need(pc.split_pattern(there, HEADING_SEPARATOR).flatten().equals(parts))
    return heading


def _answer(answer: pa.StructArray, responses: Columns) -> tuple[pa.ListArray, Columns]:
    """The answers' columns, added to `responses`.

    Their lists of citations, and the columns of those.
    """
    values = _members(answer, ANSWER)
    found: Columns = {
        name: values.pop(name) for name in ("answer", "refusal_reason", "grounded", "refused")
    }
    found |= {"cost_usd": _number(values.pop("cost_usd")), "refused": _refused(found)}
    usage, lists = _members(values.pop("usage"), USAGE), values.pop("citations")
    for name in TOKENS:
        found[name] = usage.pop(name)
        _need((pc.min(found[name]).as_py() or 0) >= 0)
    values.pop("hops")
    own = _with_own(_with_own({}, values, "x_answer."), usage, "x_answer.usage.")
    _check_seen(answer, lists, found | own)
    responses |= found | own
    return lists, _citations(lists)


def _refused(found: Columns) -> pa.Array:
    """What an answer says of itself, else what it implies."""
    refused = pc.coalesce(found["refused"], pc.invert(found["grounded"]))
    open_ = pc.and_(refused.is_null(), found["answer"].is_valid())
    if not pc.any(open_).as_py():
        return refused
    # Python's own idea of a blank text; few answers say neither.
    is_blank = np.zeros(len(refused), dtype=bool)
    is_blank[open_.to_numpy(zero_copy_only=False)] = [
        not text.strip() for text in found["answer"].filter(open_).to_pylist()
    ]
    return pc.if_else(open_, pa.array(is_blank), refused)


def _check_seen(answer: pa.StructArray, lists: pa.ListArray, found: Columns) -> None:
    """An answer object without any value is noted as such if it is empty, and isn't if it holds nulls: the column looks the same."""
    seen = np.asarray(answer.is_null()) | (_lengths(lists) > 0)
    for column in found.values():
        if seen.all():
            return
        seen = seen | np.asarray(column.is_valid())
    _need(seen.all())


def _own(name: str, column: pa.Array, found: Columns) -> None:
    """A leftover field as flat columns."""
    if column.null_count == len(column):
        return
    if pa.types.is_struct(column.type):
        members = _members(column)
        seen = np.asarray(column.is_null())
        for one in members.values():
            if seen.all():
                break
            seen = seen | np.asarray(one.is_valid())
        _need(seen.all())  # {} is a value, {"a": null} is none
        _with_own(found, members, name + ".")
    elif pa.types.is_list(column.type):
        found[name + JSON_SUFFIX] = _as_json(column)
    else:
        if pa.types.is_floating(column.type):
            _need(pc.max(pc.abs(_number(column))).as_py() <= LARGEST_EXACT_FLOAT)
        found[name] = column


def _as_json(lists: pa.ListArray) -> pa.Array:
    kind = lists.type.value_type
    _need(
        pa.types.is_string(kind)
        or pa.types.is_int64(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    )
    return pa.array(
        [None if one is None else json.dumps(one, ensure_ascii=False) for one in lists.to_pylist()],
        pa.string(),
    )
