"""A block of a run file -> columns of responses, hits and citations, by pyarrow operations.

In: lines, from which the Arrow schema is learned, and records that pyarrow.json parsed by it. Out:
columns equal to those of the per-line reader. Each function does for a whole column what its
namesake in record.py, citations.py and values.py does for one record. It raises `NeedsLineReader`
where a value would be a problem there, or where Arrow can't tell what the record said (null or
absent, one kind of number or another).

Types are learned from values that our own parser gave, never by pyarrow: its inference turns texts
into times, and deep nesting crashes it.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.kinds import LARGEST_EXACT_FLOAT
from ragscore.io import layout
from ragscore.io.citations import CITATION_KINDS, HEADING_SEPARATOR, SPAN_FIELDS, SPAN_UNITS
from ragscore.io.file_content import LONGEST_ID
from ragscore.io.source import parse_json, suggest_field
from ragscore.io.values import JSON_SUFFIX, as_json, escape_key


class NeedsLineReader(Exception):
    """The file holds something that only the per-line reader can judge."""


_TEXT, _FLAG, _WHOLE, _NUMBER, _NULL = pa.string(), pa.bool_(), pa.int64(), pa.float64(), pa.null()
_ANY = pa.struct([])
Columns = dict[str, Any]


def _struct(**types: pa.DataType) -> pa.DataType:
    return pa.struct(list(types.items()))


SPAN = _struct(
    **dict.fromkeys(("kind", "path"), _TEXT),
    **dict.fromkeys(
        ("start", "end", "line_start", "line_end", "page", "start_ms", "end_ms"), _WHOLE
    ),
)
RETRIEVAL, USAGE = layout.RETRIEVAL.arrow(), layout.USAGE.arrow()
_PLACE = {"heading_path": pa.list_(_TEXT), "citation": SPAN}
HIT = layout.HIT.arrow(**_PLACE, doc_path=_TEXT, retrieval=RETRIEVAL, metadata=_NULL)
CITATION = layout.CITATION.arrow(**_PLACE, path=_TEXT)
ANSWER = layout.ANSWER.arrow(usage=USAGE, citations=pa.list_(CITATION), hops=_NULL)
RECORD = layout.RECORD.arrow(hits_top_k=pa.list_(HIT), answer=ANSWER)
_LEVELS = (
    (RECORD, layout.RECORD.known),
    (HIT, layout.HIT.known),
    (ANSWER, layout.ANSWER.known),
    (CITATION, layout.CITATION.known),
)


def learn_schema(seen: pa.DataType, lines: Iterable[bytes]) -> pa.DataType:
    """Return the type `seen`, with the fields of these lines added.

    Only fields that occur are in it, since each costs time in every row.

    Raises
    ------
    NeedsLineReader
        A line that isn't one JSON object, a field of two types or of a type that a known field
        can't have, or a name that resembles a known one.
    """
    for line in lines:
        try:
            seen = _merge(seen, _type_of(parse_json(line.decode("utf-8"))))
        except (ValueError, RecursionError) as error:
            raise NeedsLineReader from error
    return _with_known_types(seen, RECORD)


def _type_of(value: Any) -> pa.DataType:
    if isinstance(value, dict):
        return pa.struct([(name, _type_of(member)) for name, member in value.items()])
    if isinstance(value, list):
        item_type = _NULL
        for item in value:
            item_type = _merge(item_type, _type_of(item))
        return pa.list_(item_type)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise NeedsLineReader
    return {type(None): _NULL, bool: _FLAG, int: _WHOLE, float: _NUMBER, str: _TEXT}[type(value)]


def _merge(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that holds values of both."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        types = {field.name: field.type for field in one}
        types |= {field.name: _merge(types.get(field.name, _NULL), field.type) for field in other}
        return pa.struct(list(types.items()))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_merge(one.value_type, other.value_type))
    _require({one, other} == {_WHOLE, _NUMBER})
    return _NUMBER


def _with_known_types(seen: pa.DataType, known: pa.DataType) -> pa.DataType:
    """Return the type `seen`, with the types that known fields have."""
    if pa.types.is_struct(known) and pa.types.is_struct(seen):
        # Names that resemble a known one are left to the per-line reader, which warns of typos.
        for level, names in _LEVELS:
            _require(
                known != level or all(suggest_field(field.name, names) is None for field in seen)
            )
        # Even a null span_unit changes how start, end and kind are read; a column can't tell null
        # from absent.
        _require(known not in (HIT, CITATION) or seen.get_field_index("span_unit") < 0)
        types = {field.name: field.type for field in known}
        if known == RECORD:
            types |= {field.name: _NUMBER for field in seen if field.name.startswith("latency_")}
        typed = [
            (name, _with_known_types(type_, types[name]) if name in types else type_)
            for name, type_ in ((field.name, field.type) for field in seen)
        ]
        return pa.struct(typed)
    if pa.types.is_list(known) and pa.types.is_list(seen):
        return pa.list_(_with_known_types(seen.value_type, known.value_type))
    if pa.types.is_null(seen):
        return seen if pa.types.is_nested(known) else known
    _require(known == seen or (known in (_NUMBER, _TEXT) and seen == _WHOLE))
    return seen if known == _TEXT else known


def _require(holds: Any) -> None:
    if not holds:
        raise NeedsLineReader


def columns_of(
    records: pa.Array,
) -> tuple[dict[str, Columns], dict[str, npt.NDArray[np.int64]], bool]:
    """Return the columns of each frame that hold any value, and the record of each row.

    Last, whether any answer states that it is a refusal, or that it is none.

    Raises
    ------
    NeedsLineReader
        Anything that might differ from what the per-line reader gives.
    """
    values = _members(records, RECORD)
    hit_lists, answer = values.pop("hits_top_k"), values.pop("answer")
    query_id = _identifier(values.pop("query_id"), may_be_null=False)
    responses: Columns = {"query_id": query_id}
    responses |= layout.RECORD.columns(values, CHECKED)
    for name in [name for name in values if name.startswith("latency_")]:
        responses[name] = _number(values.pop(name))
    citation_lists, states_refusals = _answer(answer, responses)
    _add_extras(responses, values, "x_")
    frames = {
        "responses": responses,
        "hits": _hits(hit_lists),
        "citations": _citations(citation_lists),
    }
    rows = {"responses": np.arange(len(records))}
    for kind, lists in (("hits", hit_lists), ("citations", citation_lists)):
        rows[kind] = np.repeat(np.arange(len(records)), _lengths(lists))
        frames[kind]["query_id"] = query_id.take(pa.array(rows[kind]))
    return (
        {
            kind: {
                name: column for name, column in columns.items() if column.null_count < len(column)
            }
            for kind, columns in frames.items()
        },
        rows,
        states_refusals,
    )


def _members(column: pa.Array, known: pa.DataType = _ANY) -> Columns:
    """Return the fields of an object, null where the object is.

    Known fields that no record has are null.
    """
    present: Columns = {}
    if not pa.types.is_null(column.type):
        for field, member in zip(column.type, column.flatten(), strict=True):
            if known.get_field_index(field.name) < 0 or not pa.types.is_null(member.type):
                present[field.name] = member
    absent = {
        field.name: pa.nulls(len(column), field.type)
        for field in known
        if field.name not in present
    }
    return absent | present


def _lengths(lists: pa.ListArray) -> npt.NDArray[np.int64]:
    return np.asarray(
        pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), dtype=np.int64
    )


def _positions(lists: pa.ListArray) -> npt.NDArray[np.int32]:
    """Return 1, 2, 3, ... within each list."""
    lengths = _lengths(lists)
    starts = lengths.cumsum() - lengths
    return (np.arange(1, lengths.sum() + 1) - np.repeat(starts, lengths)).astype(np.int32)


def _items(lists: pa.ListArray) -> pa.StructArray:
    items = lists.flatten()
    _require(items.null_count == 0)
    return items


def _identifier(column: pa.Array, may_be_null: bool = True) -> pa.Array:
    _require(may_be_null or column.null_count == 0)
    if column.null_count < len(column):
        lengths = pc.min_max(pc.binary_length(column)).as_py()
        _require(lengths["min"] > 0 and lengths["max"] <= LONGEST_ID)
    return column


def _number(column: pa.Array) -> pa.Array:
    """Return decimal numbers.

    NaN and infinity are left to the per-line reader. So is a negative zero: the file may have said
    -0.0 or -0, which the column can't tell apart.
    """
    if column.null_count < len(column):
        numbers = column.drop_null().to_numpy()
        _require(np.isfinite(numbers).all() and not np.signbit(numbers[numbers == 0]).any())
    return pc.cast(column, pa.float64())


def _whole(column: pa.Array) -> pa.Array:
    _require((pc.min(column).as_py() or 0) >= 0)
    return column


def _text(column: pa.Array) -> pa.Array:
    return pc.cast(column, pa.string())


CHECKED = {"id": _identifier, "text": _text, "number": _number, "score": _number, "whole": _whole}
"""Type of a field -> what is asked of its column."""


def _hits(lists: pa.ListArray) -> Columns:
    values = _members(_items(lists), HIT)
    hits: Columns = {"rank": pa.array(_ranks(values.pop("rank"), lists))}
    values.pop("metadata")
    hits |= layout.HIT.columns(values, CHECKED)
    hits |= _span(values, values.pop("doc_path"))
    retrieval = _members(values.pop("retrieval"), RETRIEVAL)
    hits |= layout.RETRIEVAL.columns(retrieval, CHECKED)
    for name, field in layout.HIT.also.items():
        inside, on_hit = hits[field.column], _number(values.pop(name))
        if on_hit.null_count < len(on_hit):
            _require(not pc.any(pc.and_(inside.is_valid(), on_hit.is_valid())).as_py())
        hits[field.column] = pc.coalesce(inside, on_hit)
    _add_extras(hits, values, "x_")
    _add_extras(hits, retrieval, "x_retrieval.")
    return hits


def _ranks(stored: pa.Array, lists: pa.ListArray) -> npt.NDArray[np.int32]:
    in_order = _positions(lists)
    if stored.null_count < len(stored):
        _require(stored.null_count == 0 and np.array_equal(stored.to_numpy(), in_order))
    return in_order


def _citations(lists: pa.ListArray) -> Columns:
    values = _members(_items(lists), CITATION)
    citations: Columns = {"position": pa.array(_positions(lists))}
    citations |= layout.CITATION.columns(values, CHECKED)
    citations |= _span(values, values.pop("path"))
    _add_extras(citations, values, "x_")
    return citations


def _span(values: Columns, path: pa.Array) -> Columns:
    """Take path, half-open span and heading of hits or citations.

    Other fields of the citation go to `x_citation.*`.
    """
    citation = values.pop("citation")
    cited, n = _members(citation, SPAN), len(citation)
    if citation.null_count < n:
        n_known = pc.sum(pc.is_in(cited["kind"], pa.array(CITATION_KINDS))).as_py()
        _require(n_known == n - citation.null_count)
    cited_path = cited.pop("path")
    columns: Columns = {
        "start": pa.nulls(n, pa.int64()),
        "end": pa.nulls(n, pa.int64()),
        "span_unit": pa.nulls(n, pa.string()),
    }
    for kind in SPAN_FIELDS:
        is_kind = pc.fill_null(pc.equal(cited["kind"], kind), False)
        if pc.any(is_kind).as_py():
            _take_span(kind, is_kind, cited, columns)
    columns["path"] = pc.coalesce(path, cited_path)
    differs = pc.fill_null(pc.not_equal(path, cited_path), False)
    columns["x_citation.path"] = pc.if_else(differs, cited_path, None)
    columns["heading"] = _heading(values.pop("heading_path"))
    _add_extras(columns, cited, "x_citation.")
    return columns


def _take_span(kind: str, is_kind: pa.Array, cited: Columns, columns: Columns) -> None:
    """Move the first and last field of citations of this kind to the columns of the span."""
    first, last, step = SPAN_FIELDS[kind]
    start, end = (pc.if_else(is_kind, cited[name], None) for name in (first, last))
    has_span = start.is_valid()
    _require(has_span.equals(end.is_valid()))
    if start.null_count < len(start):
        _require(pc.min(start).as_py() >= 0 and pc.max(end).as_py() < 2**63 - 1)
        end = pc.add(end, step)
        _require(pc.all(pc.less(start, end)).as_py())
    span = {"start": start, "end": end, "span_unit": SPAN_UNITS[kind]}
    columns |= {name: pc.if_else(has_span, span[name], columns[name]) for name in span}
    cited |= {name: pc.if_else(is_kind, None, cited[name]) for name in (first, last)}


def _heading(paths: pa.ListArray) -> pa.Array:
    """Return the heading path as one text, where the parts can be told from it."""
    parts = paths.flatten()
    _require(parts.null_count == 0)
    heading = pc.binary_join(paths, HEADING_SEPARATOR)
    if len(parts):
        # One empty part and no part at all give the same text, and a part may hold the separator.
        n_parts = pc.list_value_length(paths)
        one_empty = pc.and_(pc.equal(n_parts, 1), pc.equal(heading, ""))
        _require(not pc.any(one_empty).as_py())
        if pc.any(pc.match_substring(parts, ">")).as_py():
            with_parts = heading.filter(pc.greater(n_parts, 0))
            _require(pc.split_pattern(with_parts, HEADING_SEPARATOR).flatten().equals(parts))
    return heading


def _answer(answer: pa.StructArray, responses: Columns) -> tuple[pa.ListArray, bool]:
    """Add the answers' columns to `responses`.

    Returns their lists of citations, and whether any states whether it is a refusal.
    """
    values = _members(answer, ANSWER)
    columns = layout.ANSWER.columns(values, CHECKED)
    stated = pc.coalesce(columns["refused"], pc.invert(columns["grounded"]))
    columns["refused"] = _refused(columns["answer"], stated)
    usage, citation_lists = _members(values.pop("usage"), USAGE), values.pop("citations")
    columns |= layout.USAGE.columns(usage, CHECKED)
    is_empty = pc.equal(pc.list_value_length(citation_lists), 0)
    columns["n_citations"] = pc.if_else(is_empty, pa.scalar(0, pa.int64()), None)
    values.pop("hops")
    _add_extras(columns, values, "x_answer.")
    _add_extras(columns, usage, "x_answer.usage.")
    # An answer object without any value is recorded if it is empty, and isn't if it holds nulls:
    # the columns look the same.
    is_settled = np.asarray(answer.is_null()) | (_lengths(citation_lists) > 0)
    _require_value(is_settled, columns)
    responses |= columns
    return citation_lists, stated.null_count < len(stated)


def _require_value(is_settled: npt.NDArray[np.bool_], columns: Columns) -> None:
    """Require that each row that isn't settled has a value in one of the columns."""
    for column in columns.values():
        if is_settled.all():
            return
        is_settled = is_settled | np.asarray(column.is_valid())
    _require(is_settled.all())


def _refused(answer: pa.Array, stated: pa.Array) -> pa.Array:
    """Return what answers state about being a refusal; blank ones that state nothing are."""
    is_open = pc.and_(stated.is_null(), answer.is_valid())
    if not pc.any(is_open).as_py():
        return stated
    # A text is blank as Python sees it.
    is_blank = np.zeros(len(stated), dtype=bool)
    is_blank[is_open.to_numpy(zero_copy_only=False)] = [
        not text.strip() for text in answer.filter(is_open).to_pylist()
    ]
    return pc.if_else(pa.array(is_blank), True, stated)


def _add_extras(columns: Columns, values: Columns, prefix: str) -> None:
    """Add the remaining fields as flat columns, as `flatten` does for one record."""
    for key, column in values.items():
        name = prefix + escape_key(key)
        if column.null_count == len(column):
            continue
        if pa.types.is_struct(column.type):
            members = _members(column)
            _require_value(np.asarray(column.is_null()), members)  # {} is a value, {"a": null} none
            _add_extras(columns, members, name + ".")
        elif pa.types.is_list(column.type):
            _require(column.type.value_type in (_TEXT, _WHOLE, _FLAG, _NULL))
            texts = [None if items is None else as_json(items) for items in column.to_pylist()]
            columns[name + JSON_SUFFIX] = pa.array(texts, pa.string())
        else:
            if pa.types.is_floating(column.type):
                _require(pc.max(pc.abs(_number(column))).as_py() <= LARGEST_EXACT_FLOAT)
            columns[name] = column
