"""Relevance judgements (qrels) -> `Golden`, and files with the texts of queries.

The parts that all formats of judgements share. Texts come from TREC topics, a table of two columns,
or JSON lines.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from ragscore.frames.codes import coded, codes_of
from ragscore.frames.data import Golden, from_records
from ragscore.frames.errors import warn
from ragscore.frames.typing import Codes
from ragscore.io.file_content import read_text
from ragscore.io.golden_read import check_catalogue
from ragscore.io.plain_columns import first_rows, judged_targets, series_of
from ragscore.io.source import Problems, as_id, as_text, json_rows
from ragscore.io.values import ID_ALLOWED

HIGHEST = 2**31 - 1
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")


@dataclass
class Qrels:
    """Queries and their judged documents while a file is read.

    Attributes
    ----------
    queries
        Id of each query -> the other columns of its row.
    grades
        Id of each query -> its documents and their grades, in file order.
    lines
        The line of each judgement, where judgements stand on lines of their own.
    """

    queries: dict[str, dict[str, Any]] = field(default_factory=dict)
    grades: dict[str, dict[str, int]] = field(default_factory=dict)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    n_negative: int = 0
    n_repeated: int = 0

    def add(self, query_id: str, doc_id: str, grade: int, line: int, problems: Problems) -> None:
        """Add one judgement that stands on a line of its own.

        A negative grade means "not judged". The same judgement again counts once.
        """
        known = self.grades.setdefault(query_id, {})
        if grade < 0:
            self.n_negative += 1
        elif doc_id not in known:
            known[doc_id] = grade
            self.lines[query_id, doc_id] = line
        elif known[doc_id] == grade:
            self.n_repeated += 1
        else:
            problems.add(
                f"{doc_id!r} has grade {grade} here and {known[doc_id]} on line"
                f" {self.lines[query_id, doc_id]} for query {query_id!r}",
                line=line,
                field="grade",
                allowed="one grade per query and document",
            )

    def columns(self) -> "JudgedColumns":
        """Return the judgements as columns."""
        grades = [self.grades.get(query_id, {}) for query_id in self.queries]
        return JudgedColumns(
            pa.array(self.queries, pa.large_string()),
            np.repeat(np.arange(len(grades)), [*map(len, grades)]),
            pa.array(chain.from_iterable(grades), pa.large_string()),
            np.fromiter(chain.from_iterable(map(dict.values, grades)), np.int64),
            self.n_negative, self.n_repeated,
        )  # fmt: skip

    def golden(
        self, problems: Problems, absent_docs: str, catalogue: pd.DataFrame | None
    ) -> Golden:
        """Return the golden set, as `JudgedColumns.golden` does."""
        return self.columns().golden(problems, absent_docs, catalogue, self.queries)


@dataclass(frozen=True)
class JudgedColumns:
    """The judgements of a file as columns: no two of one query and document.

    Attributes
    ----------
    queries
        The ids of the queries, in order.
    query
        The place in `queries` of each judgement, ascending.
    doc_id, grade
        Document and grade of these judgements.
    n_negative, n_repeated
        How many judgements are left out.
    """

    queries: pa.Array
    query: Codes
    doc_id: pa.Array
    grade: Codes
    n_negative: int
    n_repeated: int

    @classmethod
    def of(cls, table: pa.Table) -> "JudgedColumns | None":
        """Return the judgements of the columns query_id, doc_id and grade.

        None if a document has two grades for a query, or a grade is out of range.
        """
        ids, docs = (
            pd.Series(pd.array(table.column(name).combine_chunks(), dtype="str"))
            for name in ("query_id", "doc_id")
        )
        queries, grade = coded(ids), table.column("grade").to_numpy()
        if np.abs(grade).max(initial=0) > HIGHEST:
            return None
        rows = np.flatnonzero(grade >= 0)
        query = codes_of(queries).astype(np.int64)
        once = first_rows(query[rows], docs.iloc[rows], grade[rows])
        if once is None:
            return None
        order = rows[once][np.argsort(query[rows[once]], kind="stable")]
        return cls(
            pa.array(queries.cat.categories), query[order], pa.array(docs.iloc[order]),
            grade[order], len(grade) - len(rows), len(rows) - len(once),
        )  # fmt: skip

    def golden(
        self, problems: Problems, absent_docs: str, catalogue: pd.DataFrame | None,
        more: Mapping[str, dict[str, Any]],
    ) -> Golden:  # fmt: skip
        """Return the golden set; `more` has other columns of queries by their id.

        A query without a relevant document is unlabelled; with `absent_docs="refuse"` it should be
        refused.
        """
        _tell(self.n_negative, NEGATIVE, problems)
        _tell(self.n_repeated, "judgements that stand there twice count once", problems)
        is_relevant = np.bincount(self.query[self.grade > 0], minlength=len(self.queries)) > 0
        answerable = pd.Series(is_relevant, dtype="boolean")
        if absent_docs != "refuse":
            answerable = answerable.where(is_relevant)
        query_ids, docs = series_of(self.queries), series_of(self.doc_id)
        queries = pd.DataFrame({"query_id": query_ids, "query": query_ids})
        if any(more.values()):
            records = [{"query_id": one, **more.get(one, {})} for one in query_ids.tolist()]
            queries = from_records(records, "queries")
            queries["query"] = queries["query"].fillna(query_ids)
        queries = queries.assign(answerable=answerable, position=np.arange(len(queries)))
        targets = judged_targets(query_ids, self.query, "doc", docs, self.grade)
        if catalogue is not None:
            check_catalogue(targets, catalogue, problems)
        return Golden(queries=queries, targets=targets, problems=problems.frame())


NEGATIVE = "judgements with a negative grade are left out: those documents count as not judged"


def _tell(n: int, reason: str, problems: Problems) -> None:
    """Note and warn of so many judgements that are left out, if any are."""
    if n:
        problems.note(f"{n} {reason}", field="grade")
        warn(f"{problems.file}: {n} {reason}")


def as_grade(text: str) -> int | None:
    """Return a grade written in a table, possibly negative; None if it isn't a whole number."""
    return int(text) if _WHOLE.fullmatch(text) and abs(int(text)) <= HIGHEST else None


T = TypeVar("T")
ID_KEYS, TEXT_KEYS = ("_id", "id", "qid", "query_id"), ("text", "query", "question", "title")
_TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(?:Topic:)?([^<]*)", re.IGNORECASE)


def read_topics(path: Path, problems: Problems) -> dict[str, str]:
    """Return the text of each query by its id; for TREC topics, the title."""
    text = read_text(path)
    of_topics = problems.for_file(path)
    if text.lstrip().startswith("{"):
        queries = read_queries_with_fields(path, of_topics)
        return {query_id: text for query_id, (text, _) in queries.items()}
    if "<top>" in text[:10_000].lower():
        return _tagged(text, of_topics)
    return _table(text, of_topics)


def read_queries_with_fields(
    path: Path, problems: Problems
) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the text and the other fields of each query by its id, from JSON lines.

    The id is called `_id`, `id`, `qid` or `query_id`; the text is called `text`, `query`,
    `question` or `title`, and empty if absent.
    """
    texts: dict[str, tuple[str, dict[str, Any]]] = {}
    for row in json_rows(path, problems):
        written = next((row.values[key] for key in ID_KEYS if key in row.values), None)
        query_id = as_id(written)
        if query_id is None:
            problems.reject(written, row.line, "_id", ID_ALLOWED)
            continue
        name = next((key for key in TEXT_KEYS if row.values.get(key) is not None), "text")
        value = row.values.get(name, "")
        text = as_text(value)
        if text is None:
            problems.reject(value, row.line, "text", "text")
        taken = (next(key for key in ID_KEYS if key in row.values), name)
        rest = {key: value for key, value in row.values.items() if key not in taken}
        _keep(texts, query_id, (text or "", rest), row.line, problems)
    return texts


def _tagged(text: str, problems: Problems) -> dict[str, str]:
    texts: dict[str, str] = {}
    for topic in _TOPIC.finditer(text):
        line = text.count("\n", 0, topic.start()) + 1
        number, title = _NUMBER.search(topic[1]), _TITLE.search(topic[1])
        if number is None or title is None:
            problems.add(
                f"a topic without {'<num>' if number is None else '<title>'}",
                line=line,
                allowed="<num> and <title> in each <top>",
            )
            continue
        _keep(texts, number[1], " ".join(title[1].split()), line, problems)
    return texts


def _table(text: str, problems: Problems) -> dict[str, str]:
    texts: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        query_id, tab, query = line.partition("\t")
        if not tab or not query_id.strip():
            allowed = "an id, a tab, a text; TREC topics; or JSON lines"
            problems.reject(line, number, "topics", allowed)
            continue
        _keep(texts, query_id.strip(), query.strip(), number, problems)
    return texts


def _keep(texts: dict[str, T], query_id: str, text: T, line: int, problems: Problems) -> None:
    if query_id in texts:
        problems.add(
            f"'{query_id}' stood there before", line=line, field="_id", allowed="one text per query"
        )
    else:
        texts[query_id] = text
