"""A BEIR folder (`queries.jsonl`, `qrels/<split>.tsv`, perhaps `corpus.jsonl`) <-> `Golden`.

Graded judgements as JSON lines (`query_id`, `query`, `relevant_docs` {document.

Grade}, `reference_answer`) <-> `Golden`.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden
from ragscore.io.formats.trec import (
    grades_of,
    judged_rows,
    left_of_golden,
    read_judgements,
    refuse_spaces,
)
from ragscore.io.output import warn_of_left_out, write_lines, write_text
from ragscore.io.qrels import Qrels, read_queries_with_fields
from ragscore.io.source import Problems, Row, as_id, as_text, describe, json_rows, read_text
from ragscore.io.values import (
    ID_ALLOWED,
    extra_fields,
    flatten,
    is_int,
    row_dicts,
    text,
    unify_types,
)


def read_beir(
    path: Path,
    strict: bool,
    absent_docs: str,
    catalogue: pd.DataFrame | None,
    split: str | None = None,
) -> Golden:
    """The questions of one split.

    The judged ones in the order of its judgements, then those that no split judges, as unlabelled
    ones.

    Questions that only other splits judge are left out. They are counted in `problems`, as are
    judged questions without a text (their id stands for it) and judged documents that the corpus
    doesn't hold (they stay targets). Fields of a question beyond its id and text, `metadata` for
    one, are its `x_<name>` columns.
    """
    queries = path / "queries.jsonl"
    if not queries.is_file():
        raise DataError("no queries.jsonl in the folder", file=path)
    judgements = _split_file(path, split)
    of_queries, problems, judged = Problems(queries, strict), Problems(judgements, strict), Qrels()
    questions = read_queries_with_fields(queries, of_queries)
    read_judgements(judgements, judged, problems)
    elsewhere = questions.keys() & _judged_elsewhere(judgements) - judged.grades.keys()
    asked = [
        *judged.grades,
        *(
            query_id
            for query_id in questions
            if query_id not in judged.grades and query_id not in elsewhere
        ),
    ]
    judged.queries = _columns(asked, questions)
    problems.records[:0] = of_queries.records
    if elsewhere:
        problems.note(
            f"{len(elsewhere)} of {len(questions)} questions in queries.jsonl are judged in other"
            " splits only and left out",
            field="split",
        )
    if without := sum("query" not in judged.queries[query_id] for query_id in judged.grades):
        problems.note(
            f"{without} of {len(judged.grades)} judged queries have no text in queries.jsonl; their"
            " id stands for it",
            field="query",
        )
    _look_at_corpus(path / "corpus.jsonl", judged, problems)
    return judged.golden(problems, absent_docs, catalogue)


def _columns(
    asked: list[str], questions: dict[str, tuple[str, dict[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """Text and further fields of each question; one without text has no `query`."""
    records = []
    for query_id in asked:
        text, more = questions.get(query_id, ("", {}))
        records.append(({"query": text} if text else {}) | flatten(more))
    return dict(zip(asked, unify_types(records), strict=True))


def _judged_elsewhere(judgements: Path) -> set[str]:
    """The questions of the other splits, whatever is said of them there."""
    others = [file for file in judgements.parent.glob("*.tsv") if file != judgements]
    return {
        line.split("\t", 1)[0].strip() for file in others for line in read_text(file).split("\n")
    }


def _split_file(path: Path, split: str | None) -> Path:
    files = {file.stem: file for file in sorted((path / "qrels").glob("*.tsv"))}
    choices = f"one of {', '.join(files)}" if files else "files qrels/<split>.tsv"
    if split is not None and split in files:
        return files[split]
    if split is None and len(files) == 1:
        return next(iter(files.values()))
    found = (
        "there is no qrels/*.tsv"
        if not files
        else f"{len(files)} splits"
        if split is None
        else f"no split {split!r}"
    )
    raise DataError(found, file=path, field="split", allowed=choices)


def _look_at_corpus(corpus: Path, judged: Qrels, problems: Problems) -> None:
    """Count the relevant documents that no corpus line has: no system can find them."""
    if not corpus.is_file():
        return
    of_corpus = Problems(corpus, problems.strict)
    known = {str(row.values.get("_id")) for row in json_rows(corpus, of_corpus)}
    problems.records += of_corpus.records
    absent = {
        doc for grades in judged.grades.values() for doc, grade in grades.items() if grade > 0
    } - known
    if absent:
        problems.note(
            f"{len(absent)} relevant documents are not in corpus.jsonl:"
            f" {', '.join(sorted(absent)[:5])}",
            field="corpus-id",
        )


def write_beir(
    golden: Golden, folder: str | Path, *, split: str = "test", level: str = "doc"
) -> Path:
    """Write a golden set as a BEIR folder.

    `queries.jsonl` with every question, `qrels/<split>.tsv` with the targets of one level.

    A folder with one split that was loaded gives the same questions again, `metadata` and unknown
    fields included.

    Warns
    -----
    UserWarning
        Counts what the format has no place for, as `rs.write_qrels_jsonl`.

    Raises
    ------
    DataError
        An id that holds a tab or a line break; an `x_` column that bears a known field's name.
    """
    folder = Path(folder)
    judged = judged_rows(golden, level)
    refuse_spaces([judged["query_id"], judged["doc"]], r"[\t\r\n]")
    warn_of_left_out(folder, left_of_golden(golden, level))
    write_lines(folder / "queries.jsonl", [_question(query) for query in row_dicts(golden.queries)])
    lines = (
        f"{query_id}\t{doc}\t{grade}\n" for query_id, doc, grade in judged.itertuples(index=False)
    )
    write_text(folder / "qrels" / f"{split}.tsv", "query-id\tcorpus-id\tscore\n" + "".join(lines))
    return folder


def _question(query: dict[str, Any]) -> dict[str, Any]:
    return {"_id": query["query_id"], "text": query["query"]} | extra_fields(
        query, frozenset(("_id", "text")), "queries"
    )


HIGHEST_GRADE = 255
FIELDS = frozenset(("query_id", "query", "relevant_docs", "reference_answer"))


def read_qrels_jsonl(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """One question a line; a grade of 0 is judged and not relevant."""
    problems, judged = Problems(path, strict), Qrels()
    lines: dict[str, int] = {}
    for row in json_rows(path, problems):
        _read_row(row, judged, lines, problems)
    records = unify_types(
        [{"query_id": query_id, **more} for query_id, more in judged.queries.items()]
    )
    judged.queries = {record.pop("query_id"): record for record in records}
    return judged.golden(problems, absent_docs, catalogue)


def _read_row(row: Row, judged: Qrels, lines: dict[str, int], problems: Problems) -> None:
    values = dict(row.values)
    written, docs = values.pop("query_id", None), values.pop("relevant_docs", None)
    query_id, query = as_id(written), as_text(values.pop("query", None))
    if query_id is None:
        problems.add(
            f"found {describe(written)}", line=row.line, field="query_id", allowed=ID_ALLOWED
        )
    elif query_id in lines:
        problems.add(
            f"'{query_id}' stood on line {lines[query_id]} already",
            line=row.line,
            field="query_id",
            allowed="one line per query",
        )
    elif query is None:
        problems.add(
            f"found {describe(row.values.get('query'))}",
            line=row.line,
            field="query",
            allowed="text",
        )
    elif not isinstance(docs, dict):
        problems.add(
            f"found {describe(docs)}",
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
            f"{bad[0]!r} has {describe(bad[1])}",
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
    for query in row_dicts(golden.queries):
        record = {
            "query_id": query["query_id"],
            "query": query["query"],
            "relevant_docs": grades.get(query["query_id"], {}),
        }
        record |= (
            {"reference_answer": query["reference_answer"]} if "reference_answer" in query else {}
        )
        records.append(record | extra_fields(query, FIELDS, "queries"))
    warn_of_left_out(path, left_of_golden(golden, level, kept=("reference_answer",)))
    return write_lines(path, records)
