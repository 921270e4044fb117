"""Graded judgements as JSON lines (`query_id`, `query`, `relevant_docs` {document.

Grade}, `reference_answer`) <-> `Golden`.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden
from ragscore.io.fields import ID_ALLOWED, is_int, text
from ragscore.io.formats.write_trec import grades_of, left_of_golden
from ragscore.io.judged_rows import Judged
from ragscore.io.source import Problems, Row, as_id, as_text, json_rows, shown
from ragscore.io.values import flatten, own_fields, present, settle
from ragscore.io.written import warn_of_left_out, write_lines

HIGHEST_GRADE = 255
FIELDS = frozenset(("query_id", "query", "relevant_docs", "reference_answer"))


def read_qrels_jsonl(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """One question a line; a grade of 0 is judged and not relevant."""
    problems, judged = Problems(path, strict), Judged()
    lines: dict[str, int] = {}
    for row in json_rows(path, problems):
        _read_row(row, judged, lines, problems)
    records = settle([{"query_id": query_id, **more} for query_id, more in judged.queries.items()])
    judged.queries = {record.pop("query_id"): record for record in records}
    return judged.golden(problems, absent_docs, catalogue)


def _read_row(row: Row, judged: Judged, lines: dict[str, int], problems: Problems) -> None:
    values = dict(row.values)
    written, docs = values.pop("query_id", None), values.pop("relevant_docs", None)
    query_id, query = as_id(written), as_text(values.pop("query", None))
    if query_id is None:
        problems.add(f"found {shown(written)}", line=row.line, field="query_id", allowed=ID_ALLOWED)
    elif query_id in lines:
        problems.add(
            f"'{query_id}' stood on line {lines[query_id]} already",
            line=row.line,
            field="query_id",
            allowed="one line per query",
        )
    elif query is None:
        problems.add(
            f"found {shown(row.values.get('query'))}", line=row.line, field="query", allowed="text"
        )
    elif not isinstance(docs, dict):
        problems.add(
            f"found {shown(docs)}",
            line=row.line,
            field="relevant_docs",
            allowed="an object {document: grade}, which may be empty",
        )
    elif (
        bad := next(
            ((doc, grade) for doc, grade in docs.items() if not _is_grade(grade) or not doc), None
        )
    ) is not None:
        problems.add(
            f"{bad[0]!r} has {shown(bad[1])}",
            line=row.line,
            field="relevant_docs",
            allowed=f"whole grades from 0 to {HIGHEST_GRADE}",
        )
    else:
        lines[query_id] = row.line
        answer = text(values.pop("reference_answer", None), "reference_answer", row.line, problems)
        judged.queries[query_id] = {"query": query, "reference_answer": answer, **flatten(values)}
        judged.grades[query_id] = dict(docs)


def _is_grade(value: Any) -> bool:
    return is_int(value) and 0 <= value <= HIGHEST_GRADE


def write_qrels_jsonl(golden: Golden, path: str | Path, *, level: str = "doc") -> Path:
    """Write the targets of one level as graded judgements, one question a line (gzip if the file ends in .gz).

    A set that was loaded from such a file gives the same objects again, unknown fields included.
    Every question is written; one without judgements has an empty `relevant_docs`.

    Parameters
    ----------
    level
        "doc" writes doc_id, "chunk" chunk_id.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        A grade above 255, a target without an id, an `x_` column that bears a known field's name.

    Warns
    -----
    UserWarning
        Counts what the format has no place for: alternatives (they become judgements of their own),
        other targets, checks, tags, labels.
    """
    grades = grades_of(golden, level)
    if (
        highest := int(golden.targets["grade"].max()) if len(golden.targets) else 0
    ) > HIGHEST_GRADE:
        raise DataError(
            f"found the grade {highest}",
            field="targets.grade",
            allowed=f"whole grades from 0 to {HIGHEST_GRADE}",
        )
    records = []
    for query in present(golden.queries):
        record = {
            "query_id": query["query_id"],
            "query": query["query"],
            "relevant_docs": grades.get(query["query_id"], {}),
        }
        record |= (
            {"reference_answer": query["reference_answer"]} if "reference_answer" in query else {}
        )
        records.append(record | own_fields(query, FIELDS, "queries"))
    warn_of_left_out(path, left_of_golden(golden, level, kept=("reference_answer",)))
    return write_lines(path, records)
