"""Judged documents of questions -> `Golden`.

What every format of relevance judgements (qrels) shares.

Texts of questions that stand in a file of their own.

TREC topics, a table of two columns, or JSON lines.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from ragscore.frames.data import Golden, from_records
from ragscore.frames.errors import warn
from ragscore.io.golden_read import check_catalogue
from ragscore.io.source import Problems, as_id, as_text, describe, json_rows, read_text

HIGHEST = 2**31 - 1
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")


@dataclass
class Qrels:
    """Questions and their judged documents while a file is read.

    Attributes
    ----------
    queries
        Id of each question -> the other columns of its row.
    grades
        Its documents and their grades, in file order.
    lines
        The line of each judgement, where judgements stand on lines of their own.
    """

    queries: dict[str, dict[str, Any]] = field(default_factory=dict)
    grades: dict[str, dict[str, int]] = field(default_factory=dict)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    n_negative: int = 0
    n_repeated: int = 0

    def add(self, query_id: str, doc_id: str, grade: int, line: int, problems: Problems) -> None:
        """One judgement on a line of its own.

        A negative grade means "not judged"; the same judgement again adds nothing.
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
            found = (
                f"{doc_id!r} has grade {grade} here and {known[doc_id]} on line"
                f" {self.lines[query_id, doc_id]} for query {query_id!r}"
            )
            problems.add(
                found, line=line, field="grade", allowed="one grade per query and document"
            )

    def golden(
        self, problems: Problems, absent_docs: str, catalogue: pd.DataFrame | None
    ) -> Golden:
        """The frames.

        A question without a relevant document is unlabelled, unless `absent_docs` says that it
        should be refused.
        """
        self._say_what_is_left_out(problems)
        otherwise = False if absent_docs == "refuse" else None
        queries, targets = [], []
        for position, (query_id, more) in enumerate(self.queries.items()):
            grades = self.grades.get(query_id, {})
            answerable = True if any(grade > 0 for grade in grades.values()) else otherwise
            queries.append(
                {
                    "query_id": query_id,
                    "query": query_id,
                    "answerable": answerable,
                    "position": position,
                    **more,
                }
            )
            targets += [
                {
                    "query_id": query_id,
                    "level": "doc",
                    "target_id": doc_id,
                    "alternative": 0,
                    "grade": grade,
                    "doc_id": doc_id,
                }
                for doc_id, grade in grades.items()
            ]
        if catalogue is not None:
            check_catalogue(targets, catalogue, problems)
        return Golden(
            queries=from_records(queries, "queries"),
            targets=from_records(targets, "targets"),
            problems=problems.frame(),
        )

    def _say_what_is_left_out(self, problems: Problems) -> None:
        for n, found in (
            (
                self.n_negative,
                (
                    "judgements with a negative grade are left out: those documents count as not"
                    " judged"
                ),
            ),
            (self.n_repeated, "judgements that stand there twice count once"),
        ):
            if n:
                problems.note(f"{n} {found}", field="grade")
                warn(f"{problems.file}: {n} {found}")


def as_grade(text: str) -> int | None:
    """A grade as written in a table: a whole number, possibly negative; None for anything else."""
    return int(text) if _WHOLE.fullmatch(text) and abs(int(text)) <= HIGHEST else None


T = TypeVar("T")
ID_KEYS, TEXT_KEYS = ("_id", "id", "qid", "query_id"), ("text", "query", "question", "title")
_TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(?:Topic:)?([^<]*)", re.IGNORECASE)


def read_topics(path: Path, problems: Problems) -> dict[str, str]:
    """The text of each question by its id; for TREC topics, the title."""
    text = read_text(path)
    of_topics = Problems(path, problems.strict)
    if text.lstrip().startswith("{"):
        texts = read_queries(path, of_topics)
    elif "<top>" in text[:10_000].lower():
        texts = _tagged(text, of_topics)
    else:
        texts = _table(text, of_topics)
    problems.records += of_topics.records
    return texts


def read_queries(path: Path, problems: Problems) -> dict[str, str]:
    """Questions as JSON lines with an id (`_id`, `id`, `qid`, `query_id`) and a text (`text`, `query`, `question`, `title`; empty if absent)."""
    return {
        query_id: text for query_id, (text, _) in read_queries_with_fields(path, problems).items()
    }


def read_queries_with_fields(
    path: Path, problems: Problems
) -> dict[str, tuple[str, dict[str, Any]]]:
    """The same questions, each with its other fields."""
    texts: dict[str, tuple[str, dict[str, Any]]] = {}
    for row in json_rows(path, problems):
        written = next((row.values[key] for key in ID_KEYS if key in row.values), None)
        query_id = as_id(written)
        if query_id is None:
            problems.add(
                f"found {describe(written)}",
                line=row.line,
                field="_id",
                allowed="text that isn't empty, or a whole number",
            )
            continue
        name = next((key for key in TEXT_KEYS if row.values.get(key) is not None), "text")
        value = row.values.get(name, "")
        text = as_text(value)
        if text is None:
            problems.add(f"found {describe(value)}", line=row.line, field="text", allowed="text")
        taken = (next(key for key in ID_KEYS if key in row.values), name)
        _keep(
            texts,
            query_id,
            (text or "", {key: value for key, value in row.values.items() if key not in taken}),
            row.line,
            problems,
        )
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
            problems.add(
                f"found {describe(line)}",
                line=number,
                field="topics",
                allowed="an id, a tab, a text; TREC topics; or JSON lines",
            )
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
