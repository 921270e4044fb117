"""Citations, spans and headings of hits and answers: from a record to columns and back.

A record says where text stands by a citation object of one of six kinds. A span that no kind holds
(characters, several pages, a region) stands beside it as `start`, `end` and `span_unit`, half-open.
A `span_unit` beside a citation also tells that the row had no kind of its own, so that reading
leaves the kind out.
"""

from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import DataError
from ragscore.io.object_columns import (
    Columns,
    NotPlain,
    Values,
    extras,
    kinds_of,
    objects_in,
    texts,
)
from ragscore.io.source import describe
from ragscore.io.values import SPAN_ALLOWED, FieldReader, flatten, is_int, is_span, text

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


def read_span(fields: FieldReader, path_field: str) -> dict[str, Any]:
    """Take path and half-open span of a hit or citation out of its fields.

    Its own path (`path_field`) comes before that of the citation object, which is kept where it
    differs. Other fields of the citation go to `x_citation.*`.
    """
    found = _read_citation(fields)
    if "span_unit" in fields.values:
        found = _with_stated_span(found, fields)
    path = fields.text(path_field)
    if path is None:
        return found
    other = {"x_citation.path": found["path"]} if found.get("path") not in (None, path) else {}
    return found | {"path": path} | other


def span_columns(values: dict[str, Values], path_field: str) -> Columns:
    """Take path and span of many hits out of their fields, as `read_span` does of one."""
    if "span_unit" in values:
        raise NotPlain
    citations = values.pop("citation", ())
    cited = {name: [*column] for name, column in objects_in(citations or None).items()}
    own = texts(values.pop(path_field, [None] * len(citations)))
    found: Columns = {}
    if cited:
        kinds, n = cited.get("kind", [None]), len(citations)
        if not kinds_of(kinds) <= {str} or not {*kinds} - {None} <= {*CITATION_KINDS}:
            raise NotPlain
        if kinds.count(None) != citations.count(None):
            raise NotPlain
        spans = {name: [None] * n for name in ("start", "end", "span_unit")}
        for kind in SPAN_FIELDS.keys() & {*kinds}:
            _take_spans(kind, kinds, cited, spans)
        if any(one is not None for one in spans["start"]):
            of = {"start": pa.int64(), "end": pa.int64(), "span_unit": pa.large_string()}
            found |= {name: pa.array(column, of[name]) for name, column in spans.items()}
        path = texts(cited.pop("path", [None] * n))
        extras(cited, found, "x_citation.")
        if len(own):
            differs = pc.fill_null(pc.not_equal(own, path), False)
            found["x_citation.path"] = pc.if_else(differs, path, None)
        own = pc.coalesce(own, path) if len(own) else path
    return found | ({"path": own} if len(own) else {})


def _take_spans(
    kind: str, kinds: list[str | None], cited: dict[str, list[Any]], spans: dict[str, list[Any]]
) -> None:
    """Move the first and last fields of citations of this kind to the spans."""
    first, last, step = SPAN_FIELDS[kind]
    none = [None] * len(kinds)
    starts, ends = cited.get(first, none), cited.get(last, none)
    at = [
        place
        for place, (one, start, end) in enumerate(zip(kinds, starts, ends, strict=True))
        if one == kind and not (start is None and end is None)
    ]
    found = [[column[place] for place in at] for column in (starts, ends)]
    if not at:
        return
    if kinds_of(found[0] + found[1]) != {int} or None in found[0] or None in found[1]:
        raise NotPlain
    start, end = (np.array(one, np.int64) for one in found)
    if start.min() < 0 or (end + step <= start).any() or end.max() >= 2**63 - step:
        raise NotPlain
    for place, begins, ends_at in zip(at, found[0], (end + step).tolist(), strict=True):
        spans["start"][place], spans["end"][place] = begins, ends_at
        spans["span_unit"][place] = SPAN_UNITS[kind]
        starts[place] = ends[place] = None


def heading_column(values: dict[str, Values]) -> Columns:
    """Take the heading paths of many hits as texts, as `read_heading` does of one."""
    paths = values.pop("heading_path", ())
    if kinds_of(paths) == {list}:
        parts = chain.from_iterable(one for one in paths if one)
        if set(map(type, parts)) - {str}:  # null is no part
            raise NotPlain
        joined = [None if one is None else HEADING_SEPARATOR.join(one) for one in paths]
        if any(one is not None and heading_parts(one) != path
               for one, path in zip(joined, paths, strict=True)):  # fmt: skip
            raise NotPlain
        paths = joined
    return {"heading": texts(paths)} if paths else {}


def _read_citation(fields: FieldReader) -> dict[str, Any]:
    citation = fields.pop("citation")
    if citation is None:
        return {}
    kind = citation.get("kind") if isinstance(citation, dict) else None
    if not isinstance(kind, str) or kind not in CITATION_KINDS:
        fields.reject(citation, "citation", f"an object whose kind is {KIND_ALLOWED}")
        return {}
    values = dict(citation)
    place = f"{fields.place}citation"
    found: dict[str, Any] = {
        "path": text(values.pop("path", None), f"{place}.path", fields.line, fields.problems)
    }
    if kind in SPAN_FIELDS:
        first, last, step = SPAN_FIELDS[kind]
        start, end = values.get(first), values.get(last)
        if is_int(start) and is_int(end) and is_span(start, end + step):
            values = {key: value for key, value in values.items() if key not in (first, last)}
            found |= {"start": start, "end": end + step, "span_unit": SPAN_UNITS[kind]}
        elif start is not None or end is not None:
            fields.problems.add(
                f"{first} {describe(start)}, {last} {describe(end)}",
                line=fields.line,
                field=place,
                allowed="whole numbers in order",
            )
    return found | flatten({"citation": values})


def _with_stated_span(found: dict[str, Any], fields: FieldReader) -> dict[str, Any]:
    """Add the span that stands beside a citation; one that contradicts it is a problem."""
    stated: dict[str, Any] = {"span_unit": fields.text("span_unit")}
    start, end = fields.pop("start"), fields.pop("end")
    field = fields.place.removesuffix(".")
    if is_span(start, end):
        stated |= {"start": start, "end": end}
    elif start is not None or end is not None:
        fields.problems.add(
            f"start {describe(start)}, end {describe(end)}",
            line=fields.line,
            field=field,
            allowed=SPAN_ALLOWED,
        )
    stated_values = {key: value for key, value in stated.items() if value is not None}
    other = {key: value for key, value in stated_values.items() if found.get(key, value) != value}
    if other:
        fields.problems.add(
            f"{describe(other)} beside a citation that says otherwise",
            line=fields.line,
            field=field,
            allowed="one span",
        )
        return found
    kind_of_unit = KIND_OF_UNIT.get(str(stated["span_unit"]))
    if "start" in found and found.get("x_citation.kind") == kind_of_unit:
        del found["x_citation.kind"]
    return found | stated_values


def read_heading(fields: FieldReader) -> dict[str, Any]:
    """Take the heading path as one text.

    A path whose parts the text couldn't give back also stays among the fields.
    """
    path, allowed = fields.pop("heading_path"), "a list of texts, text or null"
    name, line, problems = f"{fields.place}heading_path", fields.line, fields.problems
    if not isinstance(path, list):
        heading = text(path, name, line, problems, allowed)
        return {} if heading is None else {"heading": heading}
    # null is allowed for the whole path, but not for a part of it: [] is never text
    parts = [text(part if part is not None else [], name, line, problems, allowed) for part in path]
    valid = [part for part in parts if part is not None]
    heading = HEADING_SEPARATOR.join(valid)
    if heading_parts(heading) != parts:
        fields.values["heading_path"] = valid
    return {"heading": heading}


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
    return dict(rest)


def _kind_for(row: dict[str, Any], kind: str | None) -> str | None:
    """Return the kind of citation that can hold a row's span: its own, else that of the unit."""
    unit = row.get("span_unit")
    chosen = kind if kind is not None else KIND_OF_UNIT.get(str(unit))
    if "start" not in row or chosen not in SPAN_FIELDS or SPAN_UNITS[chosen] != unit:
        return None
    return None if chosen == "page" and row["end"] - row["start"] != 1 else chosen
