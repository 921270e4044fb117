"""The documents of a corpus, JSON lines -> the documents frame.

What there is, and which document replaces which.
"""

import os
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, from_records
from ragscore.io import fields
from ragscore.io.source import Problems, Row, as_id, json_rows, shown
from ragscore.io.values import flatten, settle


def load_documents(path: str | os.PathLike[str], *, strict: bool = True) -> pd.DataFrame:
    """Load the documents of a corpus: one JSON object a line.

    `doc_id` is required. `version_key` names what the document is a version of,
    `effective_timestamp` (a whole number, in any unit that orders them) from when on it holds,
    `superseded_by` the document that replaces it. `doc_type` and `path` say of what type it is:
    `rs.indexing_report` counts by type, also those of which the index has nothing.

    Parameters
    ----------
    strict
        False loads what can be loaded: records without an id of their own are left out, other
        faulty values are unknown. One warning counts the faults.

    Returns
    -------
    The documents frame, one row per document: doc_id and whichever of version_key,
    effective_timestamp, superseded_by, doc_type and path the file has; other fields as `x_<name>`.
    It belongs in `Results.documents`, or goes straight to `rs.freshness`.

    Raises
    ------
    DataError
        File, line and field of a record that can't be read, or of a document that stands there
        twice.
    """
    problems = Problems(Path(path), strict)
    lines: dict[str, int] = {}
    read = (_document(row, lines, problems) for row in json_rows(Path(path), problems))
    records = [record for record in read if record is not None]
    if faults := problems.records:
        first = DataError(
            faults[0]["found"],
            file=Path(path),
            line=faults[0]["line"],
            field=faults[0]["field"],
            allowed=faults[0]["allowed"],
        )
        warnings.warn(f"{len(faults)} faults left out, first {first}", UserWarning, stacklevel=2)
    return from_records(settle(records), "documents")


def _document(row: Row, lines: dict[str, int], problems: Problems) -> dict[str, Any] | None:
    """One document; None for a record that has no id, or that of another."""
    values = dict(row.values)
    written = values.pop("doc_id", None)
    doc_id = as_id(written)
    if doc_id is None:
        problems.add(
            "found nothing" if written is None else f"found {shown(written)}",
            line=row.line,
            field="doc_id",
            allowed=fields.ID_ALLOWED,
        )
        return None
    if doc_id in lines:
        problems.add(
            f"{doc_id!r} stood on line {lines[doc_id]} already",
            line=row.line,
            field="doc_id",
            allowed="one record per document",
        )
        return None
    lines[doc_id] = row.line
    stamp = values.pop("effective_timestamp", None)
    if stamp is not None and not (fields.is_int(stamp) and -(2**63) <= stamp < 2**63):
        problems.add(
            f"found {shown(stamp)}",
            line=row.line,
            field="effective_timestamp",
            allowed="a whole number, or null",
        )
        stamp = None
    found = {"doc_id": doc_id, "effective_timestamp": stamp}
    found |= {
        name: fields.identifier(values.pop(name, None), name, row.line, problems)
        for name in ("version_key", "superseded_by")
    }
    found |= {
        name: fields.text(values.pop(name, None), name, row.line, problems)
        for name in ("doc_type", "path")
    }
    return found | flatten(values)
