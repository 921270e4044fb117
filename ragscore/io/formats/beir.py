"""A BEIR folder <-> `Golden`, and graded judgements as JSON lines <-> `Golden`.

A folder has `queries.jsonl`, `qrels/<split>.tsv`, and perhaps `corpus.jsonl`. A line of the other
format is one query: `query_id`, `query`, `relevant_docs` {document: grade}, `reference_answer`.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden
from ragscore.io.files import read_text, write_lines, write_text
from ragscore.io.formats.by_document import (
    graded_documents,
    grades_by_query,
    refuse_spaces,
)
from ragscore.io.formats.fields import Fields, named_fields, take_columns
from ragscore.io.formats.qrels import JUDGED, Judged, count_without_text, judged_once, read_topics
from ragscore.io.formats.trec import read_judgements
from ragscore.io.source import Problems, as_id, as_text, json_rows
from ragscore.io.values import (
    ID_ALLOWED,
    extra_fields,
    flatten,
    is_int,
    row_dicts,
    unify_types,
)

BEIR_QUERY: Fields = {"_id": ("query_id", "text"), "text": ("query", "text")}
QRELS_QUERY: Fields = {"query_id": ("query_id", "text"), "query": ("query", "text")}
QRELS_ANSWER: Fields = {"reference_answer": ("reference_answer", "text")}
QRELS_FIELDS = frozenset((*QRELS_QUERY, "relevant_docs", *QRELS_ANSWER))
HIGHEST_GRADE = 255


def read_beir(
    path: Path,
    strict: bool,
    absent_docs: str,
    catalogue: pd.DataFrame | None,
    split: str | None = None,
) -> Golden:
    """Read the queries of one split, in the order of its judgements.

    Queries that no split judges follow as unlabelled ones; those that only other splits judge are
    left out. `problems` counts these, judged queries without a text (their id stands for it), and
    judged documents that the corpus lacks (they stay targets). Fields of a query beyond its id and
    text, such as `metadata`, are its `x_<name>` columns.
    """
    queries_file = path / "queries.jsonl"
    if not queries_file.is_file():
        raise DataError("no queries.jsonl in the folder", file=path)
    split_file = _split_file(path, split)
    problems = Problems(split_file, strict)
    queries = read_topics(queries_file, problems)
    judged = read_judgements(read_text(split_file), problems)
    in_other_splits = {
        line.split("\t", 1)[0].strip()
        for file in split_file.parent.glob("*.tsv")
        if file != split_file
        for line in read_text(file).split("\n")
    }
    others = [one for one in queries if one not in {*judged.queries}]
    unlabelled = [one for one in others if one not in in_other_splits]
    if n := len(others) - len(unlabelled):
        problems.note(
            f"{n} of {len(queries)} queries in queries.jsonl are judged in other splits only and"
            " left out",
            field="split",
        )
    count_without_text(judged, queries, "queries.jsonl", problems)
    _check_corpus(path / "corpus.jsonl", judged, problems)
    both = pd.concat([judged.queries, pd.Series(unlabelled, dtype="str")], ignore_index=True)
    columns = unify_types([queries.get(one, {}) for one in both])
    more = dict(zip(both, columns, strict=True))
    return judged._replace(queries=both).golden(problems, absent_docs, catalogue, more)


def _split_file(path: Path, split: str | None) -> Path:
    """Return the qrels file of a split, or the only one."""
    files = {file.stem: file for file in sorted((path / "qrels").glob("*.tsv"))}
    chosen = next(iter(files)) if split is None and len(files) == 1 else split
    if chosen not in files:
        found = f"{len(files)} splits" if split is None or not files else f"no split {split!r}"
        allowed = f"one of {', '.join(files)}" if files else "files qrels/<split>.tsv"
        raise DataError(found, file=path, field="split", allowed=allowed)
    return files[chosen]


def _check_corpus(corpus: Path, judged: Judged, problems: Problems) -> None:
    """Count the relevant documents that the corpus lacks: no system can find them."""
    rows = json_rows(corpus, problems.for_file(corpus)) if corpus.is_file() else ()
    known = {str(row.values.get("_id")) for row in rows}
    if corpus.is_file() and (absent := sorted({*judged.doc_id[judged.grade > 0]} - known)):
        found = f"{len(absent)} relevant documents are not in corpus.jsonl: {', '.join(absent[:5])}"
        problems.note(found, field="corpus-id")


def write_beir(
    golden: Golden, folder: str | Path, *, split: str = "test", level: str = "doc"
) -> Path:
    """Write a golden set as a BEIR folder.

    `queries.jsonl` has every query, `qrels/<split>.tsv` the targets of one level. A folder with one
    split that was loaded is written with the same queries again, `metadata` and unknown fields
    included.

    Warns
    -----
    UserWarning
        Counts what the format has no place for, as format qrels_jsonl does.

    Raises
    ------
    DataError
        An id that holds a tab or a line break; an `x_` column that bears a known field's name.
    """
    folder = Path(folder)
    judged = graded_documents(golden, level)
    refuse_spaces([judged["query_id"], judged["doc"]], r"[\t\r\n]")
    queries = [
        named_fields(query, BEIR_QUERY) | extra_fields(query, frozenset(BEIR_QUERY), "queries")
        for query in row_dicts(golden.queries)
    ]
    write_lines(folder / "queries.jsonl", queries)
    lines = (
        f"{query_id}\t{doc}\t{grade}\n" for query_id, doc, grade in judged.itertuples(index=False)
    )
    write_text(folder / "qrels" / f"{split}.tsv", "query-id\tcorpus-id\tscore\n" + "".join(lines))
    return folder


def read_qrels_jsonl(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read one query a line; a grade of 0 is judged and not relevant."""
    problems, lines = Problems(path, strict), dict[str, int]()
    queries: dict[str, dict[str, Any]] = {}
    judgements: list[tuple[str, str, int]] = []
    for row in json_rows(path, problems):
        values = dict(row.values)
        query_id, docs = (
            as_id(values.pop("query_id", None)) or "",
            values.pop("relevant_docs", None),
        )
        query, graded = as_text(values.pop("query", None)), docs if isinstance(docs, dict) else {}
        bad = {
            doc: one
            for doc, one in graded.items()
            if not (as_id(doc) and is_int(one) and 0 <= one <= HIGHEST_GRADE)
        }
        stated = row.values.get
        for is_right, name, found, allowed in (
            (query_id != "", "query_id", stated("query_id"), ID_ALLOWED),
            (query is not None, "query", stated("query"), "text"),
            (docs is graded, "relevant_docs", docs, "an object {document: grade}, or {}"),
            (not bad, "relevant_docs", bad, f"ids with whole grades from 0 to {HIGHEST_GRADE}"),
        ):
            if not is_right:
                problems.reject(found, row.line, name, allowed)
                break
        else:
            if (before := lines.setdefault(query_id, row.line)) != row.line:
                what, allowed = f"'{query_id}'", "one line per query"
                problems.repeat(what, before, row.line, "query_id", allowed)
                continue
            answer = take_columns(values, QRELS_ANSWER, row.line, problems)
            queries[query_id] = {"query": query} | answer | flatten(values)
            judgements += [(query_id, doc, grade) for doc, grade in docs.items()]
    more = dict(zip(queries, unify_types([*queries.values()]), strict=True))
    judged = judged_once(pd.DataFrame(judgements, columns=JUDGED), problems, queries)
    return judged.golden(problems, absent_docs, catalogue, more)


def write_qrels_jsonl(golden: Golden, path: str | Path, *, level: str = "doc") -> Path:
    """Write the targets of one level as graded judgements, one query a line.

    The file is gzip if it ends in .gz. A set that was loaded from such a file is written with the
    same objects again, unknown fields included. Every query is written; one without judgements has
    an empty `relevant_docs`.

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
        Counts what the format has no place for: other targets, checks, tags, labels. Alternatives
        become judgements of their own.
    """
    grades = grades_by_query(golden, level)
    highest = int(golden.targets["grade"].max()) if len(golden.targets) else 0
    if highest > HIGHEST_GRADE:
        raise DataError(
            f"found the grade {highest}",
            field="targets.grade",
            allowed=f"whole grades from 0 to {HIGHEST_GRADE}",
        )
    records = [
        named_fields(query, QRELS_QUERY)
        | {"relevant_docs": grades.get(query["query_id"], {})}
        | named_fields(query, QRELS_ANSWER)
        | extra_fields(query, QRELS_FIELDS, "queries")
        for query in row_dicts(golden.queries)
    ]
    return write_lines(path, records)
