"""Citations, spans and headings of hits and answers: from a record to columns and back.

A record says where text stands by a citation object of one of six kinds. A span that no kind holds
(characters, several pages, a region) stands beside it as `start`, `end` and `span_unit`, half-open.
A `span_unit` beside a citation also says that the frame's row had no kind of its own, so that
reading takes none from it.
"""

from typing import Any

from ragscore.frames.data import DataError
from ragscore.io.source import Problems, describe
from ragscore.io.values import flatten, is_int, text

SPAN_FIELDS = {
    "line": ("start", "end", 1),
    "code": ("line_start", "line_end", 1),
    "page": ("page", "page", 1),
    "time": ("start_ms", "end_ms", 0),
}
"""Citation kind -> its first and last field, and what makes the last one half-open (lines and pages are inclusive)."""
SPAN_UNITS = {"line": "line", "code": "line", "page": "page", "time": "ms"}
KIND_OF_UNIT = {"line": "line", "page": "page", "ms": "time"}
CITATION_KINDS = (*SPAN_FIELDS, "region", "caption")
HEADING_SEPARATOR = " > "


def read_span(values: dict[str, Any], name: str, line: int, problems: Problems) -> dict[str, Any]:
    """Path and half-open span of a hit or citation, taken out of `values`.

    What else the citation says goes to `x_citation.*`.
    """
    found = _read_citation(values.pop("citation", None), name, line, problems)
    if "span_unit" not in values:
        return found
    stated: dict[str, Any] = {
        "span_unit": text(values.pop("span_unit"), f"{name}.span_unit", line, problems)
    }
    stated |= _read_stated(values.pop("start", None), values.pop("end", None), name, line, problems)
    other = {
        key: value
        for key, value in stated.items()
        if value is not None and found.get(key, value) != value
    }
    if other:
        problems.add(
            f"{describe(other)} beside a citation that says otherwise",
            line=line,
            field=name,
            allowed="one span",
        )
        return found
    if "start" in found and found.get("x_citation.kind") == KIND_OF_UNIT.get(
        str(stated["span_unit"])
    ):
        del found["x_citation.kind"]
    return found | {key: value for key, value in stated.items() if value is not None}


def with_path(found: dict[str, Any], path: str | None) -> dict[str, Any]:
    """A hit's or citation's own path before that of its citation object, which is kept where it differs."""
    if path is None:
        return found
    other = {"x_citation.path": found["path"]} if found.get("path") not in (None, path) else {}
    return found | {"path": path} | other


def _read_citation(citation: Any, name: str, line: int, problems: Problems) -> dict[str, Any]:
    if citation is None:
        return {}
    kind = citation.get("kind") if isinstance(citation, dict) else None
    if not isinstance(kind, str) or kind not in CITATION_KINDS:
        problems.add(
            f"found {describe(citation)}",
            line=line,
            field=f"{name}.citation",
            allowed=f"an object whose kind is one of {', '.join(CITATION_KINDS)}",
        )
        return {}
    values = dict(citation)
    found: dict[str, Any] = {
        "path": text(values.pop("path", None), f"{name}.citation.path", line, problems)
    }
    if kind in SPAN_FIELDS:
        first, last, step = SPAN_FIELDS[kind]
        start, end = values.get(first), values.get(last)
        if is_int(start) and is_int(end) and 0 <= start < end + step < 2**63:
            values = {key: value for key, value in values.items() if key not in (first, last)}
            found |= {"start": start, "end": end + step, "span_unit": SPAN_UNITS[kind]}
        elif start is not None or end is not None:
            problems.add(
                f"{first} {describe(start)}, {last} {describe(end)}",
                line=line,
                field=f"{name}.citation",
                allowed="whole numbers in order",
            )
    return found | flatten({"citation": values})


def _read_stated(start: Any, end: Any, name: str, line: int, problems: Problems) -> dict[str, int]:
    if start is None and end is None:
        return {}
    if is_int(start) and is_int(end) and 0 <= start < end < 2**63:
        return {"start": start, "end": end}
    problems.add(
        f"start {describe(start)}, end {describe(end)}",
        line=line,
        field=name,
        allowed="whole numbers, 0 ≤ start < end (half-open)",
    )
    return {}


def written_span(row: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """The citation object of a row and, where needed, its span beside it.

    Takes its leftover fields out of `extra`.

    Raises
    ------
    DataError
        A span that isn't one, or `x_citation` columns that no citation could have.
    """
    rest = _rest(row, extra)
    unit, kind = row.get("span_unit"), rest.pop("kind", None)
    as_kind = _kind_for(row, kind)
    written: dict[str, Any] = {}
    if as_kind is None and "start" in row:
        written = {"start": int(row["start"]), "end": int(row["end"]), "span_unit": unit}
    elif unit is not None and (as_kind is None or kind is None):
        written = {"span_unit": unit}
    if as_kind is None and kind is None:
        if rest:
            raise DataError(
                f"found {', '.join(sorted(rest))} without a kind",
                field="x_citation",
                allowed=f"x_citation.kind: one of {', '.join(CITATION_KINDS)}",
            )
        return written
    path = rest.pop("path", row.get("path"))
    citation = {"kind": kind or as_kind, **({"path": path} if path is not None else {})}
    if as_kind is not None:
        first, last, step = SPAN_FIELDS[as_kind]
        citation |= {first: int(row["start"]), last: int(row["end"]) - step}
    return {**written, "citation": {**citation, **rest}}


def _rest(row: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """What the `x_citation` columns of a row hold, if a citation can hold it."""
    rest = extra.pop("citation", {})
    if (
        not isinstance(rest, dict)
        or rest.get("kind", "line") not in CITATION_KINDS
        or ("path" in rest and "path" not in row)
    ):
        raise DataError(
            f"found {describe(rest)}",
            field="x_citation",
            allowed=f"fields of a citation, its kind one of {', '.join(CITATION_KINDS)}",
        )
    start, end = row.get("start"), row.get("end")
    if (start is None) != (end is None) or (start is not None and not 0 <= start < end):
        raise DataError(
            f"start {start}, end {end}",
            field="start",
            allowed="whole numbers, 0 ≤ start < end (half-open), or neither",
        )
    return dict(rest)


def _kind_for(row: dict[str, Any], kind: str | None) -> str | None:
    """The kind of citation that can hold the row's span: its own, or without one that of the unit."""
    unit = row.get("span_unit")
    chosen = kind if kind is not None else KIND_OF_UNIT.get(str(unit))
    if "start" not in row or chosen not in SPAN_FIELDS or SPAN_UNITS[chosen] != unit:
        return None
    return None if chosen == "page" and row["end"] - row["start"] != 1 else chosen


def read_heading(
    values: dict[str, Any], name: str, line: int, problems: Problems
) -> dict[str, Any]:
    """The heading path as one text; a path whose parts it couldn't give back stays in `values` too."""
    path = values.pop("heading_path", None)
    allowed = "a list of texts, text or null"
    if not isinstance(path, list):
        heading = text(path, f"{name}.heading_path", line, problems, allowed)
        return {} if heading is None else {"heading": heading}
    parts = [
        text(part if part is not None else [], f"{name}.heading_path", line, problems, allowed)
        for part in path
    ]
    heading = HEADING_SEPARATOR.join(part for part in parts if part is not None)
    if written_heading(heading) != parts:
        values["heading_path"] = [part for part in parts if part is not None]
    return {"heading": heading}


def written_heading(heading: str) -> list[str]:
    """The parts of a heading path; none of an empty one."""
    return heading.split(HEADING_SEPARATOR) if heading else []
