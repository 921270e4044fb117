"""Relevance judgements (qrels) -> `Golden`, and files with the texts of queries.

The parts that all formats of judgements share. Texts come from TREC topics, a table of two columns,
or JSON lines.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ragscore.frames.codes import all_differ, lookup, pair_numbers
from ragscore.frames.data import Golden, from_records
from ragscore.frames.errors import warn
from ragscore.frames.typing import Codes
from ragscore.io.files import read_text
from ragscore.io.golden_read import check_catalogue
from ragscore.io.run_records import NotPlain
from ragscore.io.source import Problems, as_id, as_text, json_rows
from ragscore.io.values import ID_ALLOWED, flatten

HIGHEST = 2**31 - 1
JUDGED = ["query_id", "doc_id", "grade"]
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")


class Judged(NamedTuple):
    """The judgements of a file by query, none of them twice: `query` is a place in `queries`."""

    queries: pd.Series
    query: Codes
    doc_id: pd.Series
    grade: Codes

    def golden(
        self, problems: Problems, absent_docs: str, catalogue: pd.DataFrame | None,
        more: Mapping[str, dict[str, Any]],
    ) -> Golden:  # fmt: skip
        """Return the golden set; `more` has other columns of queries by their id.

        A query without a relevant document is unlabelled; with `absent_docs="refuse"` it should be
        refused.
        """
        is_relevant = np.bincount(self.query[self.grade > 0], minlength=len(self.queries)) > 0
        answerable = pd.Series(is_relevant, dtype="boolean")
        if absent_docs != "refuse":
            answerable = answerable.where(is_relevant)
        queries = pd.DataFrame({"query_id": self.queries, "query": self.queries})
        if any(more.values()):
            records = [{"query_id": one, **more.get(one, {})} for one in self.queries]
            queries = from_records(records, "queries")
            queries["query"] = queries["query"].fillna(self.queries)
        ids, of_query = (
            one.reset_index(drop=True) for one in (self.doc_id, self.queries.take(self.query))
        )
        targets = {"query_id": of_query, "level": "doc", "target_id": ids, "alternative": 0}
        golden = Golden(
            queries=queries.assign(answerable=answerable, position=np.arange(len(queries))),
            targets=pd.DataFrame(
                targets | {"grade": self.grade} | ({"doc_id": ids} if len(ids) else {})
            ),
        )
        if catalogue is not None:
            check_catalogue(golden.targets, catalogue, problems)
        return replace(golden, _problems=problems.frame())


def judged_once(
    judgements: pd.DataFrame, problems: Problems, names: Iterable[str] | None = None
) -> Judged:
    """Return judgements (query_id, doc_id, grade) without negative and repeated ones, counted.

    With their `line`, those that contradict an earlier one are faults. `names`: all queries in
    their order; None: those judged, in order of appearance.

    Raises
    ------
    NotPlain
        A document has two grades for a query, on unknown lines.
    """
    listed = judgements["query_id"].unique() if names is None else [*names]
    queries = pd.Series(listed, dtype="str")
    query = lookup(judgements["query_id"].astype("str"), queries)
    grade, docs = judgements["grade"].to_numpy("int64"), judgements["doc_id"].astype("str")
    rows = np.flatnonzero(grade >= 0)
    rows = rows[np.argsort(query[rows], kind="stable")]
    pair = pair_numbers(query[rows], docs.iloc[rows])
    n_twice = 0
    if not all_differ(pair):
        _, first, group = np.unique(pair, return_index=True, return_inverse=True)
        before = rows[first][group]
        is_other = grade[rows] != grade[before]
        if is_other.any() and "line" not in judgements:
            raise NotPlain
        for row, other in sorted(zip(rows[is_other], before[is_other], strict=True)):
            lines = judgements["line"].iloc[[row, other]].tolist()
            found = f"{docs.iloc[row]!r} has grade {grade[row]} here and {grade[other]} on line"
            found += f" {lines[1]} for query {queries[query[row]]!r}"
            allowed = "one grade per query and document"
            problems.add(found, line=lines[0], field="grade", allowed=allowed)
        n_twice = int((~is_other).sum()) - len(first)
        rows = rows[np.sort(first)]
    for n, reason in (
        (int((grade < 0).sum()), NEGATIVE),
        (n_twice, "judgements that stand there twice count once"),
    ):
        if n:
            problems.note(f"{n} {reason}", field="grade")
            warn(f"{problems.file}: {n} {reason}")
    return Judged(queries, query[rows], docs.iloc[rows], grade[rows])


NEGATIVE = "judgements with a negative grade are left out: those documents count as not judged"


def as_grade(text: str) -> int | None:
    """Return a grade written in a table, possibly negative; None if it isn't a whole number."""
    return int(text) if _WHOLE.fullmatch(text) and abs(int(text)) <= HIGHEST else None


ID_KEYS, TEXT_KEYS = ("_id", "id", "qid", "query_id"), ("text", "query", "question", "title")
_TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(?:Topic:)?([^<]*)", re.IGNORECASE)
Query = tuple[int, str, dict[str, Any]]
"""Line, id and columns of a query."""


def read_topics(path: Path, problems: Problems) -> dict[str, dict[str, Any]]:
    """Return the columns of each query by its id: its text, if it has one, and other fields.

    The text of TREC topics is the title. In JSON lines the id is called `_id`, `id`, `qid` or
    `query_id`; the text is called `text`, `query`, `question` or `title`.
    """
    content, problems = read_text(path), problems.for_file(path)
    if content.lstrip().startswith("{"):
        found = _of_lines(path, problems)
    elif "<top>" in content[:10_000].lower():
        found = _tagged(content, problems)
    else:
        found = _of_table(content, problems)
    queries: dict[str, dict[str, Any]] = {}
    for line, query_id, columns in found:
        if query_id in queries:
            told = f"'{query_id}' stood there before"
            problems.add(told, line=line, field="_id", allowed="one text per query")
        else:
            queries[query_id] = {name: one for name, one in columns.items() if one != ""}
    return queries


def _of_lines(path: Path, problems: Problems) -> Iterator[Query]:
    for row in json_rows(path, problems):
        id_key = next((key for key in ID_KEYS if key in row.values), "_id")
        key = next((key for key in TEXT_KEYS if row.values.get(key) is not None), "text")
        query_id = as_id(row.values.get(id_key))
        if query_id is None:
            problems.reject(row.values.get(id_key), row.line, "_id", ID_ALLOWED)
            continue
        if (text := as_text(row.values.get(key, ""))) is None:
            problems.reject(row.values.get(key), row.line, "text", "text")
        rest = {name: value for name, value in row.values.items() if name not in (id_key, key)}
        yield row.line, query_id, {"query": text or ""} | flatten(rest)


def _tagged(content: str, problems: Problems) -> Iterator[Query]:
    for topic in _TOPIC.finditer(content):
        line = content.count("\n", 0, topic.start()) + 1
        number, title = _NUMBER.search(topic[1]), _TITLE.search(topic[1])
        if number and title:
            yield line, number[1], {"query": " ".join(title[1].split())}
        else:
            told = f"a topic without {'<title>' if number else '<num>'}"
            problems.add(told, line=line, allowed="<num> and <title> in each <top>")


def _of_table(content: str, problems: Problems) -> Iterator[Query]:
    for number, line in enumerate(content.split("\n"), 1):
        query_id, tab, query = line.partition("\t")
        if tab and query_id.strip():
            yield number, query_id.strip(), {"query": query.strip()}
        elif line.strip():
            allowed = "an id, a tab, a text; TREC topics; or JSON lines"
            problems.reject(line, number, "topics", allowed)


def count_without_text(
    judged: Judged, queries: dict[str, dict[str, Any]], file: Any, problems: Problems
) -> None:
    """Note how many judged queries have no text in a file."""
    if n := sum("query" not in queries.get(one, {}) for one in judged.queries):
        told = f"{n} of {len(judged.queries)} judged queries have no text in {file}; their id"
        problems.note(f"{told} stands for it", field="query")
