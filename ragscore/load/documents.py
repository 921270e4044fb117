"""The versions of a corpus, JSON lines -> the documents frame: which document replaces which."""

import os
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames import from_records
from ragscore.load import fields
from ragscore.load.extras import flatten, settle
from ragscore.load.source import Problems, Row, json_rows, shown


def load_documents(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Load the versions of a corpus: one JSON object a line.

    `doc_id` is required. `version_key` names what the document is a version of, `effective_timestamp` (a whole number,
    in any unit that orders them) from when on it holds, `superseded_by` the document that replaces it.

    Returns
    -------
    The documents frame, one row per document: doc_id and whichever of version_key, effective_timestamp, superseded_by
    the file has; other fields as `x_<name>`. It belongs in `Results.documents`, or goes straight to `rs.freshness`.

    Raises
    ------
    DataError
        File, line and field of a record that can't be read, or of a document that stands there twice.
    """
    problems = Problems(Path(path), strict=True)
    lines: dict[str, int] = {}
    records = [_document(row, lines, problems) for row in json_rows(Path(path), problems)]
    return from_records(settle(records), "documents")


def _document(row: Row, lines: dict[str, int], problems: Problems) -> dict[str, Any]:
    values = dict(row.values)
    doc_id = fields.identifier(values.pop("doc_id", None), "doc_id", row.line, problems)
    if doc_id is None:
        problems.add("found nothing", line=row.line, field="doc_id", allowed=fields.ID_ALLOWED)
    elif doc_id in lines:
        problems.add(f"{doc_id!r} stood on line {lines[doc_id]} already", line=row.line, field="doc_id", allowed="one record per document")
    else:
        lines[doc_id] = row.line
    stamp = values.pop("effective_timestamp", None)
    if stamp is not None and not (fields.is_int(stamp) and -(2**63) <= stamp < 2**63):
        problems.add(f"found {shown(stamp)}", line=row.line, field="effective_timestamp", allowed="a whole number, or null")
    found = {"doc_id": doc_id, "effective_timestamp": stamp}
    found |= {name: fields.identifier(values.pop(name, None), name, row.line, problems) for name in ("version_key", "superseded_by")}
    return found | flatten(values)
