"""The Arrow schema of a run file, learned from some of its records.

Known fields have their types, others the one they are seen with.

Types are learned from values that the per-line reader's own parser gave, never by pyarrow: its
inference turns texts into times, and its process ends on lines that are nested without end. A field
that no single type holds makes the fast reader decline.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ragscore.io.record import KNOWN_ANSWER, KNOWN_CITATION, KNOWN_HIT, KNOWN_RECORD
from ragscore.io.slips import meant
from ragscore.io.source import parsed


class Declined(Exception):
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


def learned(seen: pa.DataType, lines: Iterable[bytes]) -> pa.DataType:
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
            seen = _merged(seen, _type_of(parsed(line.decode("utf-8"))))
        except (ValueError, RecursionError) as error:
            raise Declined from error
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
        raise Declined
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
    raise Declined


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
    raise Declined


def _check_names(seen: pa.DataType, known: pa.DataType) -> None:
    """Decline names that resemble a known one: the per-line reader warns of them, with their lines."""
    for level, names in _LEVELS:
        if known == level and any(meant(field.name, names) is not None for field in seen):
            raise Declined
    # A span_unit changes how start, end and kind are read even where it is null, which a column
    # can't tell from absent.
    if known in (HIT, CITATION) and seen.get_field_index("span_unit") >= 0:
        raise Declined
