"""Relevance judgements <-> `Golden`: TREC and BEIR qrels, JSON lines; with the texts of queries.

TREC qrels are `qid iter docid rel`. A BEIR folder has `queries.jsonl` and `qrels/<split>.tsv`. Of
graded judgements as JSON lines a line is one query: `query_id`, `query`, `relevant_docs` {document:
grade}, `reference_answer`. Judgements become a table, which is read as any other is.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import warn
from ragscore.frames.kinds import refuse_rows
from ragscore.io.detect import Sample, sample
from ragscore.io.files import read_text, write_lines
from ragscore.io.formats.documents import graded_documents, write_fields
from ragscore.io.formats.fields import objects_in
from ragscore.io.formats.trec import WHOLE, read_lines
from ragscore.io.frames_in import Table, record_table
from ragscore.io.labels import labels_of
from ragscore.io.run_records import Fields
from ragscore.io.source import Problems, as_id, as_text, json_rows
from ragscore.io.values import escape_key

JUDGED = {"query_id": "query", "doc_id": "document", "grade": "grade"}
"""Our name of each field of a line -> what messages call it."""
_TEXT = {"query": "text"}
Texts = dict[str, dict[str, Any]]
"""Fields of queries by their id: the text as `text`, and others."""


# Lines of TREC and BEIR


def is_qrels(seen: Sample) -> bool:
    """Return True for four columns that end in a grade, or for BEIR's three columns with tabs."""
    has_grade = re.match(rf"(\S+\s+\S+\s+\S+\s+|\S+\t\S+\t){WHOLE}\s*$", seen.line.lstrip())
    is_beir = seen.line.strip().count("\t") == 2 and _HEADER.match(seen.line) is not None
    return seen.kind == "text" and (has_grade is not None or is_beir)


_HEADER = re.compile(rf"\s*(query-id|query_id|qid|topic)\s(?!.*\s{WHOLE}\s*$)", re.IGNORECASE)


def read_judgements(
    path: Path, problems: Problems, absent_docs: str, catalogue: pd.DataFrame | None,
    texts: Texts, texts_in: Any = None,
) -> Golden:  # fmt: skip
    """Read every judgement of three or four columns, with the texts of their queries.

    A header may come first. The id of a query without text replaces it; they are counted if
    `texts_in` names a file that has texts.
    """
    first = sample(path).line
    has_header = _HEADER.match(first) is not None
    # BEIR's files have a header, and only tabs part their fields
    delimiter = "\t" if has_header and first.strip().count("\t") == 2 else ""
    names = [*JUDGED.values()]
    if len(first.split()) != 3:
        names.insert(1, "iteration")

    def labels(table: Table, of_part: Problems) -> Golden:
        table = table.part(np.arange(len(table.frame)) > 0) if has_header else table
        roles, queries = JUDGED, table.frame["query"]
        if texts:
            known = record_table([texts.get(one, {}) for one in queries])
            table, roles = replace(table, frame=table.frame.join(known.frame)), roles | _TEXT
        if texts_in is not None and (n := queries[~queries.isin([*texts])].nunique()):
            found = f"{n} of {queries.nunique()} judged queries have no text in {texts_in}"
            of_part.note(f"{found}; their id replaces it", field="query")
        every = catalogue if of_part is problems else None
        return labels_of(table, roles, of_part, absent_docs, every)

    golden: Golden = read_lines(path, names, problems, labels, delimiter)
    return golden


def read_qrels(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None,
    topics: Path | str | None = None,
) -> Golden:  # fmt: skip
    """Read judgements as a golden set; without topics, the id of a query is its text."""
    problems = Problems(path, strict)
    texts = {} if topics is None else read_topics(Path(topics), problems)
    return read_judgements(path, problems, absent_docs, catalogue, texts, topics)


def read_beir(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None,
    split: str | None = None,
) -> Golden:  # fmt: skip
    """Read the queries of one split, in the order of its judgements.

    Queries that it doesn't judge are left out, with a warning. `problems` counts judged queries
    without a text; their id replaces it. Fields of a query beyond its id and text, such as
    `metadata`, are its `x_<name>` columns.
    """
    files = {file.stem: file for file in sorted((path / "qrels").glob("*.tsv"))}
    chosen = next(iter(files)) if split is None and len(files) == 1 else split
    if chosen not in files:
        raise DataError(
            f"{len(files)} splits" if split is None or not files else f"no split {split!r}",
            file=path,
            field="split",
            allowed=f"one of {', '.join(files)}" if files else "files qrels/<split>.tsv",
        )
    split_file = files[chosen]
    problems = Problems(split_file, strict)
    texts = read_topics(path / "queries.jsonl", problems)
    golden = read_judgements(split_file, problems, absent_docs, catalogue, texts, "queries.jsonl")
    if n := len(texts.keys() - {*golden.queries["query_id"]}):
        warn(f"{split_file}: {n} of {len(texts)} queries in queries.jsonl are left out: not judged")
    return golden


# Texts of queries: TREC topics, a table of two columns, or JSON lines

ID_KEYS, TEXT_KEYS = ("_id", "id", "qid", "query_id"), ("text", "query", "question", "title")
_TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(?:Topic:)?([^<]*)", re.IGNORECASE)
Query = tuple[int, str | None, dict[str, Any]]
"""Line, id and fields of a query; null as its `text` is a text that is none."""


def read_topics(path: Path, problems: Problems) -> Texts:
    """Return the fields of each query by its id.

    The text of TREC topics is the title. In JSON lines the id is called `_id`, `id`, `qid` or
    `query_id`; the text is called `text`, `query`, `question` or `title`.
    """
    content, problems = read_text(path), problems.for_file(path)
    if content.lstrip().startswith("{"):
        found = _of_lines(path, problems)
    elif "<top>" in content[:10_000].lower():
        found = _tagged(content)
    else:
        found = _of_table(content)
    texts: Texts = {}
    for line, query_id, fields in found:
        if not query_id or fields["text"] is None or query_id in texts:
            problems.reject(
                [query_id, fields["text"]], line, "_id",
                "each id once, with a text: an id, a tab, a text; <num> and <title> in each <top>;"
                f" or JSON lines with {', '.join(ID_KEYS)} and {', '.join(TEXT_KEYS)}",
            )  # fmt: skip
        else:
            texts[query_id] = fields | {"text": fields["text"] or None}
    return texts


def _of_lines(path: Path, problems: Problems) -> Iterator[Query]:
    for row in json_rows(path, problems):
        values = dict(row.values)
        query_id = values.pop(next((key for key in ID_KEYS if key in values), "_id"), None)
        key = next((key for key in TEXT_KEYS if values.get(key) is not None), "text")
        text = as_text(values.pop(key, ""))
        yield row.line, as_id(query_id), values | {"text": text}


def _tagged(content: str) -> Iterator[Query]:
    for topic in _TOPIC.finditer(content):
        line = content.count("\n", 0, topic.start()) + 1
        number, title = _NUMBER.search(topic[1]), _TITLE.search(topic[1])
        text = " ".join(title[1].split()) if title else None
        yield line, number[1] if number else None, {"text": text}


def _of_table(content: str) -> Iterator[Query]:
    for number, line in enumerate(content.split("\n"), 1):
        query_id, tab, text = line.partition("\t")
        if line.strip():
            yield number, query_id.strip(), {"text": text.strip() if tab else None}


# JSON

QRELS: Fields = {
    name: (name, "text") for name in ("query_id", "query", "relevant_docs", "reference_answer")
}
BEIR: Fields = {"_id": ("query_id", "id"), "text": ("query", "text")}
HIGHEST_GRADE = 255


def read_qrels_jsonl(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read one query a line; a grade of 0 is judged and not relevant."""
    problems = Problems(path, strict)
    rows = list(json_rows(path, problems))
    # no judgements say nothing, where an empty list of documents would say "should refuse"
    records = [
        {escape_key(name): one for name, one in row.values.items()}
        | {"relevant_docs": row.values.get("relevant_docs") or None}
        for row in rows
    ]
    table = record_table(records, str(path), "file", [row.line for row in rows])
    roles = {"query_id": "query_id", "query": "query", "doc_id": "relevant_docs"}
    roles |= {one: one for one in ("reference_answer",) if one in table.frame}
    return labels_of(table, roles, problems, absent_docs, catalogue)


# Writers


def write_trec_qrels(golden: Golden, path: str | Path, *, level: str = "doc") -> Path:
    """Write the targets of one level as TREC qrels (`qid 0 docid grade`, gzip if it ends in .gz).

    Warns
    -----
    UserWarning
        Counts what the format has no place for, such as queries without such targets. Alternatives
        of one target become judgements of their own.

    Raises
    ------
    DataError
        An id that holds a space.
    """
    judged = graded_documents(golden, level)
    judged.insert(1, "iteration", 0)
    return write_fields(path, judged)


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
    queries = objects_in(golden.queries, BEIR)
    header = "query-id\tcorpus-id\tscore\n"
    write_fields(folder / "qrels" / f"{split}.tsv", judged, "\t", header)
    write_lines(folder / "queries.jsonl", queries)
    return folder


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
    is_high = (golden.targets["grade"] > HIGHEST_GRADE).to_numpy()
    allowed = f"whole grades from 0 to {HIGHEST_GRADE}"
    refuse_rows(golden.targets["grade"], is_high, "targets", allowed)
    judged = graded_documents(golden, level).groupby("query_id")
    grades = {
        query_id: dict(zip(rows["doc"], rows["grade"].tolist(), strict=True))
        for query_id, rows in judged
    }
    relevant = [grades.get(one, {}) for one in golden.queries["query_id"]]
    queries = golden.queries.assign(relevant_docs=pd.Series(relevant, golden.queries.index))
    return write_lines(path, objects_in(queries, QRELS))
