"""Relevance judgements <-> `Golden`: TREC and BEIR qrels, and JSON; with the texts of queries.

TREC qrels are `qid iter docid rel`. A BEIR folder has `queries.jsonl`, `qrels/<split>.tsv`, and
perhaps `corpus.jsonl`. A JSON object is {query: {document: grade}}. Of graded judgements as JSON
lines a line is one query: `query_id`, `query`, `relevant_docs` {document: grade},
`reference_answer`.
"""

import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import lookup, pair_numbers
from ragscore.frames.data import DataError, Golden, from_records
from ragscore.frames.errors import warn
from ragscore.io.detect import Sample
from ragscore.io.files import read_text, write_lines, write_text
from ragscore.io.formats.documents import graded_documents, grades_by_query, refuse_spaces
from ragscore.io.formats.fields import Fields, named_fields, take_columns
from ragscore.io.formats.trec import (
    HIGHEST,
    Lines,
    Spec,
    as_grades,
    as_ids,
    fields_of,
    is_grade,
    json_numbers,
    values_of,
)
from ragscore.io.golden_read import check_catalogue
from ragscore.io.run_records import tell
from ragscore.io.source import Problems, as_id, as_text, describe, json_rows
from ragscore.io.values import ID_ALLOWED, extra_fields, flatten, is_int, row_dicts, unify_types

JUDGED = ["query_id", "doc_id", "grade"]
NEGATIVE = "judgements with a negative grade are left out: those documents count as not judged"
TWICE = "judgements that stand there twice count once"
JUDGEMENT: Spec = {
    "query_id": ("query", as_ids, ID_ALLOWED),
    "doc_id": ("document", as_ids, ID_ALLOWED),
    "grade": (
        "grade", as_grades, f"a whole number up to {HIGHEST}; a negative one means not judged",
    ),
}  # fmt: skip
Texts = dict[str, dict[str, Any]]
"""Columns of queries by their id: the text as `query`, and others."""


def golden_of_judgements(
    judgements: pd.DataFrame, texts: Texts, problems: Problems, absent_docs: str,
    catalogue: pd.DataFrame | None, others: Sequence[str] = (), file: Any = None,
) -> Golden:  # fmt: skip
    """Return judgements (query_id, doc_id, grade) as a golden set.

    Negative and repeated ones are left out and counted. With their `line`, those that contradict an
    earlier one are faults. Queries stand in order of appearance, `others` behind them. The id of a
    query without text stands for it; they are counted if a `file` has texts. A query without a
    relevant document is unlabelled; with `absent_docs="refuse"` it should be refused.
    """
    listed = pd.concat([judgements["query_id"], pd.Series(others, dtype="str")])
    query_ids = listed.drop_duplicates().reset_index(drop=True)
    kept = judgements[judgements["grade"] >= 0]
    query = lookup(kept["query_id"], query_ids)
    pair = pair_numbers(query, kept["doc_id"])
    is_again = pd.Series(pair).duplicated().to_numpy()
    order = np.argsort(query, kind="stable")
    first = kept.iloc[order[~is_again[order]]].reset_index(drop=True)
    again = kept[is_again]
    if len(again):
        both = again.merge(first, on=JUDGED[:2], suffixes=("", "_before"))
        contradicting: Any = both[both["grade"] != both["grade_before"]].itertuples()
        for one in contradicting:
            found = f"{one.doc_id!r} has grade {one.grade} here and {one.grade_before} on line"
            found += f" {one.line_before} for query {one.query_id!r}"
            problems.add(
                found, line=one.line, field="grade", allowed="one grade per query and document"
            )
        again = both[both["grade"] == both["grade_before"]]
    for n, reason in ((len(judgements) - len(kept), NEGATIVE), (len(again), TWICE)):
        if n:
            problems.note(f"{n} {reason}", field="grade")
            warn(f"{problems.file}: {n} {reason}")
    relevant = np.unique(query[kept["grade"] > 0])
    is_relevant = pd.Series(query_ids.index.isin(relevant), dtype="boolean")
    queries = from_records([{"query_id": one} | texts.get(one, {}) for one in query_ids], "queries")
    if file is not None and (n := int(queries["query"].isna().sum())):
        found = f"{n} of {len(queries) - len(others)} judged queries have no text in {file}"
        problems.note(f"{found}; their id stands for it", field="query")
    queries["query"] = queries["query"].fillna(queries["query_id"])
    is_unlabelled = ~is_relevant & (absent_docs != "refuse")
    queries["answerable"] = is_relevant.mask(is_unlabelled)
    targets = first[["query_id"]].assign(level="doc", target_id=first["doc_id"], alternative=0)
    targets["grade"] = first["grade"]
    if len(first):
        targets["doc_id"] = first["doc_id"]
    golden = Golden(queries=queries.assign(position=np.arange(len(queries))), targets=targets)
    if catalogue is not None:
        check_catalogue(golden.targets, catalogue, problems)
    return replace(golden, _problems=problems.frame())


# Lines of TREC and BEIR


def is_qrels(seen: Sample) -> bool:
    """Return True for four columns that end in a grade, or for BEIR's three columns with tabs."""
    fields = fields_of(seen.line)
    with_tabs = len(fields) == 3 and len(seen.line.strip().split("\t")) == 3
    return seen.kind == "text" and (
        (len(fields) == 4 and is_grade(fields[3]))
        or (with_tabs and (is_grade(fields[2]) or _is_header(fields)))
    )


def _is_header(fields: list[str]) -> bool:
    names = ("query-id", "query_id", "qid", "topic")
    return bool(fields) and fields[0].lower() in names and not is_grade(fields[-1])


def read_judgements(path: Path, problems: Problems) -> pd.DataFrame:
    """Return every judgement of qrels of three or four columns; a header may come first."""
    text = read_text(path)
    lines = enumerate(io.StringIO(text), 1)
    number, first = next(((n, one) for n, one in lines if fields_of(one.strip())), (1, ""))
    fields = fields_of(first.strip())
    if _is_header(fields):
        text = "\n" * number + text.split("\n", number)[-1]
    # BEIR's files have a header, and only tabs part their fields
    by_tabs = _is_header(fields) and first.strip().count("\t") == 2
    if by_tabs:
        text = re.sub(r"[ \r]*(\t|\n|$)[ \r]*", r"\1", text).replace("\t\n", "\n")
    names = ["query_id", "iteration", "doc_id", "grade"]
    read = Lines(text, names if len(fields) != 3 else JUDGED, "\t" if by_tabs else " ")
    faults = Problems(path, strict=False)
    for number, line in read.others:
        allowed = "query, iteration, document, grade; or query, document, grade, in every line"
        n = len(line.split("\t" if by_tabs else " "))
        faults.add(f"{n} columns: {describe(line)}", line=number, allowed=allowed)
    judgements = values_of(read.table, JUDGEMENT, faults)
    tell(faults, problems)
    return judgements


def read_qrels(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None,
    topics: Path | str | None = None,
) -> Golden:  # fmt: skip
    """Read judgements as a golden set; without topics, the id of a query stands for its text."""
    problems = Problems(path, strict)
    texts = read_topics(Path(topics), problems) if topics is not None else {}
    judgements = read_judgements(path, problems)
    texts = {one: {"query": text["query"]} for one, text in texts.items() if "query" in text}
    return golden_of_judgements(judgements, texts, problems, absent_docs, catalogue, file=topics)


def read_beir(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None,
    split: str | None = None,
) -> Golden:  # fmt: skip
    """Read the queries of one split, in the order of its judgements.

    Queries that no split judges follow as unlabelled ones; those that only other splits judge are
    left out. `problems` counts these, judged queries without a text (their id stands for it), and
    judged documents that the corpus lacks (they stay targets). Fields of a query beyond its id and
    text, such as `metadata`, are its `x_<name>` columns.
    """
    if not (path / "queries.jsonl").is_file():
        raise DataError("no queries.jsonl in the folder", file=path)
    split_file = _split_file(path, split)
    problems = Problems(split_file, strict)
    texts = read_topics(path / "queries.jsonl", problems)
    judgements = read_judgements(split_file, problems)
    in_other_splits = {
        line.split("\t", 1)[0].strip()
        for file in split_file.parent.glob("*.tsv")
        if file != split_file
        for line in read_text(file).split("\n")
    }
    others = [one for one in texts if one not in {*judgements["query_id"]}]
    unlabelled = [one for one in others if one not in in_other_splits]
    if n := len(others) - len(unlabelled):
        found = f"{n} of {len(texts)} queries in queries.jsonl are judged in other splits only"
        problems.note(f"{found} and left out", field="split")
    corpus = path / "corpus.jsonl"
    if corpus.is_file():  # no system can find what it lacks
        known = {str(row.values.get("_id")) for row in json_rows(corpus, problems.for_file(corpus))}
        relevant = {*judgements.loc[judgements["grade"] > 0, "doc_id"]}
        if absent := sorted(relevant - known):
            found = f"{len(absent)} relevant documents are not in corpus.jsonl"
            problems.note(f"{found}: {', '.join(absent[:5])}", field="corpus-id")
    texts = dict(zip(texts, unify_types([*texts.values()]), strict=True))
    file = "queries.jsonl"
    return golden_of_judgements(
        judgements, texts, problems, absent_docs, catalogue, unlabelled, file
    )


def _split_file(path: Path, split: str | None) -> Path:
    """Return the qrels file of a split, or the only one."""
    files = {file.stem: file for file in sorted((path / "qrels").glob("*.tsv"))}
    chosen = next(iter(files)) if split is None and len(files) == 1 else split
    if chosen not in files:
        raise DataError(
            f"{len(files)} splits" if split is None or not files else f"no split {split!r}",
            file=path,
            field="split",
            allowed=f"one of {', '.join(files)}" if files else "files qrels/<split>.tsv",
        )
    return files[chosen]


# Texts of queries: TREC topics, a table of two columns, or JSON lines

ID_KEYS, TEXT_KEYS = ("_id", "id", "qid", "query_id"), ("text", "query", "question", "title")
_TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(?:Topic:)?([^<]*)", re.IGNORECASE)
Query = tuple[int, str | None, dict[str, Any]]
"""Line, id and columns of a query; null as its `query` is a text that is none."""


def read_topics(path: Path, problems: Problems) -> Texts:
    """Return the columns of each query by its id: its text, if it has one, and other fields.

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
    for line, query_id, columns in found:
        if not query_id or columns["query"] is None:
            problems.add(
                "a query without an id, or with a text that is none", line=line, field="_id",
                allowed="an id, a tab, a text; <num> and <title> in each <top>; or JSON lines with"
                f" {', '.join(ID_KEYS)} and {', '.join(TEXT_KEYS)}",
            )  # fmt: skip
        elif query_id in texts:
            problems.add(
                f"'{query_id}' stood there before",
                line=line,
                field="_id",
                allowed="one text per query",
            )
        else:
            texts[query_id] = {name: one for name, one in columns.items() if one != ""}
    return texts


def _of_lines(path: Path, problems: Problems) -> Iterator[Query]:
    for row in json_rows(path, problems):
        values = dict(row.values)
        query_id = values.pop(next((key for key in ID_KEYS if key in values), "_id"), None)
        key = next((key for key in TEXT_KEYS if values.get(key) is not None), "text")
        query = as_text(values.pop(key, ""))
        yield row.line, as_id(query_id), {"query": query} | flatten(values)


def _tagged(content: str) -> Iterator[Query]:
    for topic in _TOPIC.finditer(content):
        line = content.count("\n", 0, topic.start()) + 1
        number, title = _NUMBER.search(topic[1]), _TITLE.search(topic[1])
        query = " ".join(title[1].split()) if title else None
        yield line, number[1] if number else None, {"query": query}


def _of_table(content: str) -> Iterator[Query]:
    for number, line in enumerate(content.split("\n"), 1):
        query_id, tab, query = line.partition("\t")
        if line.strip():
            yield number, query_id.strip(), {"query": query.strip() if tab else None}


# JSON

BEIR_QUERY: Fields = {"_id": ("query_id", "text"), "text": ("query", "text")}
QRELS_QUERY: Fields = {"query_id": ("query_id", "text"), "query": ("query", "text")}
QRELS_ANSWER: Fields = {"reference_answer": ("reference_answer", "text")}
QRELS_FIELDS = frozenset((*QRELS_QUERY, "relevant_docs", *QRELS_ANSWER))
HIGHEST_GRADE = 255


def read_json_qrels(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read judgements {query: {document: grade}}.

    A query's id stands for its text. Negative grades mean "not judged"; they are counted.
    """
    problems = Problems(path, strict)
    query_ids, judgements = json_numbers(path, "grade", problems)
    return golden_of_judgements(judgements, {}, problems, absent_docs, catalogue, query_ids)


def read_qrels_jsonl(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read one query a line; a grade of 0 is judged and not relevant."""
    problems, lines = Problems(path, strict), dict[str, int]()
    texts: Texts = {}
    judgements: list[tuple[str, str, int]] = []
    for row in json_rows(path, problems):
        values = dict(row.values)
        stated, docs, query = (
            values.pop(one, None) for one in ("query_id", "relevant_docs", "query")
        )
        query_id, graded = as_id(stated) or "", docs if isinstance(docs, dict) else {}
        bad = {
            doc: one
            for doc, one in graded.items()
            if not (as_id(doc) and is_int(one) and 0 <= one <= HIGHEST_GRADE)
        }
        for is_right, name, found, allowed in (
            (query_id != "", "query_id", stated, ID_ALLOWED),
            (as_text(query) is not None, "query", query, "text"),
            (docs is graded, "relevant_docs", docs, "an object {document: grade}, or {}"),
            (not bad, "relevant_docs", bad, f"ids with whole grades from 0 to {HIGHEST_GRADE}"),
        ):
            if not is_right:
                problems.reject(found, row.line, name, allowed)
                break
        else:
            if (before := lines.setdefault(query_id, row.line)) != row.line:
                problems.repeat(f"'{query_id}'", before, row.line, "query_id", "one line per query")
                continue
            answer = take_columns(values, QRELS_ANSWER, row.line, problems)
            texts[query_id] = {"query": as_text(query)} | answer | flatten(values)
            judgements += [(query_id, doc, grade) for doc, grade in docs.items()]
    frame = pd.DataFrame(judgements, columns=JUDGED).astype({"grade": "int64"})
    texts = dict(zip(texts, unify_types([*texts.values()]), strict=True))
    return golden_of_judgements(frame, texts, problems, absent_docs, catalogue, [*texts])


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
    refuse_spaces([judged["query_id"], judged["doc"]])
    lines = (
        f"{query_id} 0 {doc} {grade}\n" for query_id, doc, grade in judged.itertuples(index=False)
    )
    return write_text(path, "".join(lines))


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


def write_json_qrels(golden: Golden, path: str | Path, *, level: str = "doc") -> Path:
    """Write the targets of one level as a JSON object {query: {document: grade}}.

    The file is gzip if it ends in .gz. Every query is written, but not its text: the format has no
    place for it.

    Warns
    -----
    UserWarning
        Counts what else the format has no place for, as format qrels_jsonl does, and query texts
        that differ from the query's id.
    """
    grades = grades_by_query(golden, level)
    content = {query_id: grades.get(query_id, {}) for query_id in golden.queries["query_id"]}
    return write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
