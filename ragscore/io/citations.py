"""Citations, spans and headings of hits and answers: from a record to columns and back.

A record says where text stands by a citation object of one of six kinds. A span that no kind holds
(characters, several pages, a region) stands beside it as `start`, `end` and `span_unit`, half-open.
A `span_unit` beside a citation also tells that the row had no kind of its own, so that reading
leaves the kind out.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import DataError
from ragscore.frames.typing import Codes, Flags
from ragscore.io.run_records import Columns, Level, is_stated, listed, values_of
from ragscore.io.source import as_text, describe
from ragscore.io.values import SPAN_ALLOWED, is_int

SPAN_FIELDS = {
    "line": ("start", "end", 1),
    "code": ("line_start", "line_end", 1),
    "page": ("page", "page", 1),
    "time": ("start_ms", "end_ms", 0),
}
"""Kind of citation -> its first and last field, and what to add to make the last one half-open.

Lines and pages are inclusive in a citation, times are not.
"""
SPAN_UNITS = {"line": "line", "code": "line", "page": "page", "time": "ms"}
KIND_OF_UNIT = {"line": "line", "page": "page", "ms": "time"}
CITATION_KINDS = (*SPAN_FIELDS, "region", "caption")
KIND_ALLOWED = f"one of {', '.join(CITATION_KINDS)}"
HEADING_SEPARATOR = " > "


def take_span(level: Level, path_field: str) -> Columns:
    """Take path and half-open span of hits or citations out of their fields.

    Their own path (`path_field`) comes before that of the citation object, which is kept where it
    differs. Other fields of the citation go to `x_citation.*`.
    """
    has_one = is_stated(level.fields.get("citation", pa.nulls(len(level))))
    cited = level.inner("citation", lambda one: one.get("kind") in CITATION_KINDS)
    level.refuse("citation", f"an object whose kind is {KIND_ALLOWED}")
    kind = cited.fields.get("kind", pa.nulls(len(level), pa.string()))
    if (has_one & ~np.asarray(pc.is_in(kind, pa.array(CITATION_KINDS)))).any():
        level.batch.refuse_parsed()
    start, end = np.full(len(level), -1, np.int64), np.full(len(level), -1, np.int64)
    unit = np.full(len(level), None, object)
    for name, (first, last, step) in SPAN_FIELDS.items():
        is_kind = np.asarray(pc.fill_null(pc.equal(kind, name), False))
        if not is_kind.any():
            continue
        begins, ends = _wholes(cited, first), _wholes(cited, last)
        is_span = is_kind & (begins >= 0) & (ends + step > begins)
        is_bad = is_kind & ~is_span & (_stated(cited, first) | _stated(cited, last))
        for bad in np.flatnonzero(is_bad).tolist():
            level.fault(bad, "citation", _told(cited, first, last, bad), "whole numbers in order")
        start, end = np.where(is_span, begins, start), np.where(is_span, ends + step, end)
        unit[is_span] = SPAN_UNITS[name]
        for one in {first, last}:
            _drop(cited, one, is_span)
    if "span_unit" in level.fields:
        _take_stated_span(level, start, end, unit, cited)
    own, path = level.take(path_field, "text"), cited.take("path", "text")
    found = {
        "path": pc.coalesce(own, path),
        "start": pa.array(start, mask=start < 0),
        "end": pa.array(end, mask=start < 0),
        "span_unit": pa.array(unit, pa.string()),
        "x_citation.path": pc.if_else(pc.not_equal(own, path), path, None),
    }
    cited.extras(found, "x_citation.")
    return found


def _take_stated_span(level: Level, start: Codes, end: Codes, unit: Any, cited: Level) -> None:
    """Take spans that stand beside a citation; one that contradicts it is a fault."""
    stated = np.asarray(level.take("span_unit", "text").to_pylist(), object)
    begins, ends = _wholes(level, "start"), _wholes(level, "end")
    has_unit, is_span = stated != np.array(None), (begins >= 0) & (ends > begins)
    is_half = has_unit & ~is_span & (_stated(level, "start") | _stated(level, "end"))
    is_other = (is_span & ((begins != start) | (ends != end))) | (stated != unit)
    is_other &= has_unit & (start >= 0) & ~is_half
    for at in np.flatnonzero(is_half).tolist():
        level.fault(at, "", _told(level, "start", "end", at), SPAN_ALLOWED)
    for at in np.flatnonzero(is_other).tolist():
        own = {"start": int(begins[at]), "end": int(ends[at])} if is_span[at] else {}
        found = f"{describe(own | {'span_unit': stated[at]})} beside a citation that says otherwise"
        level.fault(at, "", found, "one span")
    _drop(level, "start", has_unit)
    _drop(level, "end", has_unit)
    is_good = has_unit & ~is_other
    kinds = listed(cited.fields.get("kind", pa.nulls(len(level))))
    is_kind = [KIND_OF_UNIT.get(one) == kind for one, kind in zip(stated, kinds, strict=True)]
    _drop(cited, "kind", is_good & (start >= 0) & is_kind)
    unit[is_good] = stated[is_good]
    is_good &= is_span
    start[is_good], end[is_good] = begins[is_good], ends[is_good]


def _told(level: Level, first: str, last: str, at: int) -> str:
    values = ((one, listed(level.fields.get(one, pa.nulls(len(level))))) for one in (first, last))
    return ", ".join(f"{name} {describe(one[at])}" for name, one in values)


def _stated(level: Level, name: str) -> Flags:
    """Return where a field has a value."""
    return is_stated(level.fields.get(name, pa.nulls(len(level))))


def _wholes(level: Level, name: str) -> Codes:
    """Return the whole numbers of a field, -1 where there is none."""
    values = level.fields.get(name, pa.nulls(len(level)))
    if isinstance(values, pa.Array) and pa.types.is_integer(values.type):
        return np.asarray(pc.fill_null(values, -1), np.int64)
    whole = [one if is_int(one) and 0 <= one < 2**63 else -1 for one in listed(values)]
    return np.array(whole, np.int64)


def _drop(level: Level, name: str, where: Flags) -> None:
    """Make a field null at some places."""
    values = level.fields.get(name)
    if isinstance(values, pa.Array):
        level.fields[name] = pc.if_else(pa.array(~where), values, None)
    elif values is not None:
        pairs = zip(values, where.tolist(), strict=True)
        level.fields[name] = values_of([None if gone else one for one, gone in pairs])


def take_heading(level: Level) -> Columns:
    """Take heading paths out of the fields, each as one text.

    A path whose parts the text couldn't give back also stays among the fields.
    """
    name = "heading_path"
    values = level.fields.pop(name, pa.nulls(len(level)))
    if isinstance(values, pa.Array) and not pa.types.is_list(values.type):
        level.fields[name] = values
        return {"heading": level.take(name, "text")}
    if isinstance(values, pa.Array) and pa.types.is_string(values.type.value_type):
        parts, lengths = values.flatten(), pc.list_value_length(values)
        heading = pc.binary_join(values, HEADING_SEPARATOR)
        is_odd = pc.and_(pc.equal(lengths, 1), pc.equal(heading, ""))
        is_odd = pc.or_kleene(pc.any(is_odd), pc.any(pc.match_substring(parts, ">"))).as_py()
        if not parts.null_count and not is_odd:
            return {"heading": heading}
    headings: list[str | None] = []
    kept: list[list[str] | None] = []
    for at, path in enumerate(listed(values)):
        given = path if isinstance(path, list) else [path] * (path is not None)
        parts = [as_text(one) for one in given]
        if None in parts:  # null is allowed for the whole path, but not for a part of it
            found = f"found {describe(given[parts.index(None)])}"
            level.fault(at, name, found, "a list of texts, text or null")
        whole = [one for one in parts if one is not None]
        joined = HEADING_SEPARATOR.join(whole)
        is_list = isinstance(path, list)
        headings.append(joined if is_list or whole else None)
        kept.append(whole if is_list and heading_parts(joined) != parts else None)
    level.fields |= {name: kept} if any(one is not None for one in kept) else {}
    return {"heading": pa.array(headings, pa.string())}


def heading_parts(heading: str) -> list[str]:
    """Return the parts of a heading path; none for an empty one."""
    return heading.split(HEADING_SEPARATOR) if heading else []


def citation_and_span(row: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """Return the citation object of a row and, where needed, its span beside it.

    Takes the citation's fields out of `extra`.

    Raises
    ------
    DataError
        A span that isn't one, or `x_citation` columns that no citation could have.
    """
    rest = _citation_extra(row, extra)
    unit, kind = row.get("span_unit"), rest.pop("kind", None)
    as_kind = _kind_for(row, kind)
    beside: dict[str, Any] = {}
    if as_kind is None and "start" in row:
        beside = {"start": int(row["start"]), "end": int(row["end"]), "span_unit": unit}
    elif unit is not None and (as_kind is None or kind is None):
        beside = {"span_unit": unit}
    if as_kind is None and kind is None:
        if rest:
            raise DataError(
                f"found {', '.join(sorted(rest))} without a kind",
                field="x_citation",
                allowed=f"x_citation.kind: {KIND_ALLOWED}",
            )
        return beside
    path = rest.pop("path", row.get("path"))
    citation = {"kind": kind or as_kind, **({"path": path} if path is not None else {})}
    if as_kind is not None:
        first, last, step = SPAN_FIELDS[as_kind]
        citation |= {first: int(row["start"]), last: int(row["end"]) - step}
    return {**beside, "citation": {**citation, **rest}}


def _citation_extra(row: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """Return the `x_citation` fields of a row, after a check of them and of its span."""
    rest = extra.pop("citation", {})
    if (
        not isinstance(rest, dict)
        or rest.get("kind", "line") not in CITATION_KINDS
        or ("path" in rest and "path" not in row)
    ):
        raise DataError(
            f"found {describe(rest)}",
            field="x_citation",
            allowed=f"fields of a citation, its kind {KIND_ALLOWED}",
        )
    start, end = row.get("start"), row.get("end")
    if (start is None) != (end is None) or (start is not None and not 0 <= start < end):
        raise DataError(
            f"start {start}, end {end}", field="start", allowed=f"{SPAN_ALLOWED}, or neither"
        )
    if start is not None and row.get("span_unit") is None:
        raise DataError(
            "a span without a unit", field="span_unit", allowed="line, page, char, ms or the like"
        )
    return dict(rest)


def _kind_for(row: dict[str, Any], kind: str | None) -> str | None:
    """Return the kind of citation that can hold a row's span: its own, else that of the unit."""
    unit = row.get("span_unit")
    chosen = kind if kind is not None else KIND_OF_UNIT.get(str(unit))
    if "start" not in row or chosen not in SPAN_FIELDS or SPAN_UNITS[chosen] != unit:
        return None
    return None if chosen == "page" and row["end"] - row["start"] != 1 else chosen
