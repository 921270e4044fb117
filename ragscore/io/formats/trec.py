"""TREC files: qrels (`qid iter docid rel`) <-> `Golden`, runs <-> `Results`; also .gz.

A line of a run is `qid Q0 docid rank score tag`. Qrels may also have BEIR's three columns. Fields
are split by any white space, as C and trec_eval split them (blank, tab, vertical tab, form feed,
carriage return); blank lines, and those that begin with `#`, count for nothing. A regular file
becomes columns at once; any other is searched line by line, so that each fault has its number.
"""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ragscore.frames.data import Golden, Results
from ragscore.frames.errors import excerpt, warn
from ragscore.frames.ranking import n_contradicting, rank_hits
from ragscore.io.detect import Sample
from ragscore.io.files import LONGEST_ID, read_text, write_text
from ragscore.io.formats.by_document import (
    graded_documents,
    ranked_documents,
    refuse_repeated_documents,
    refuse_spaces,
    scores_or_ranks,
)
from ragscore.io.formats.qrels import (
    HIGHEST,
    JUDGED,
    Judged,
    as_grade,
    count_without_text,
    judged_once,
    read_topics,
)
from ragscore.io.parsed_lines import longest_line
from ragscore.io.run_records import NotPlain
from ragscore.io.source import Problems, as_id, describe
from ragscore.io.values import ID_ALLOWED

RUN_COLUMNS = {
    "query_id": pa.large_string(), "iteration": None, "doc_id": pa.large_string(),
    "rank": pa.int32(), "score": pa.float64(),
    "run_id": pa.dictionary(pa.int32(), pa.string()),
}  # fmt: skip
QREL_COLUMNS = {
    "query_id": pa.large_string(), "iteration": None, "doc_id": pa.large_string(),
    "grade": pa.int32(),
}  # fmt: skip
HIT_DTYPES = {
    "run_id": "str", "query_id": "str", "doc_id": "str", "rank": "int64", "score": "float64",
}  # fmt: skip
Spec = dict[str, tuple[int, str, Callable[[str], Any], str]]
"""Column -> its place in a line, its name in messages, what reads it (None: a fault), allowed."""
_BLANKS = bytes.maketrans(b"\t\r\v\f", b"    ")
_FIELD = re.compile(r"[^ \t\r\v\f]+")
_COMMENT = re.compile(rb"(?m)^#[^\n]*$")


def is_qrels(seen: Sample) -> bool:
    """Return True for four columns that end in a grade, or for BEIR's three columns with tabs."""
    parts = _fields(seen.line)
    with_tabs = len(parts) == 3 and len(seen.line.strip().split("\t")) == 3
    return seen.kind == "text" and (
        (len(parts) == 4 and as_grade(parts[3]) is not None)
        or (with_tabs and (as_grade(parts[2]) is not None or _is_header(parts)))
    )


def is_run(seen: Sample) -> bool:
    """Return True for six columns or more of which the fourth is a rank and the fifth a score."""
    return seen.kind == "text" and _is_hit(_fields(seen.line))


# Lines of fields


def _fields(line: str) -> list[str]:
    """Return the fields of a line; none for a comment."""
    fields = _FIELD.findall(line)
    return [] if fields and fields[0].startswith("#") else fields


def _lines(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield number, text and fields of each line that has any."""
    for number, line in enumerate(text.split("\n"), 1):
        if fields := _fields(line):
            yield number, line, fields


def _table(text: str, columns: dict[str, pa.DataType | None]) -> pd.DataFrame:
    """Return the columns of a regular file; those of type None aren't needed.

    Raises
    ------
    NotPlain
        Anything irregular, as text after the last column: only `_lines` can tell what is wrong with
        it, or right.
    """
    from pyarrow import csv

    data = text.encode().translate(_BLANKS)
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")
    if data.startswith(b"#") or b"\n#" in data:
        data = _COMMENT.sub(b"", data)
    # Arrow takes hexadecimal numbers, which nobody means.
    if not data.strip() or b" 0x" in data or b" 0X" in data or longest_line(data) > LONGEST_ID:
        raise NotPlain
    types = {name: dtype for name, dtype in columns.items() if dtype is not None}
    try:
        return csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(column_names=list(columns)),
            csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False),
            csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
        ).to_pandas()
    except pa.ArrowInvalid as error:
        raise NotPlain from error


def _values(parts: list[str], spec: Spec, line: int, problems: Problems) -> list[Any] | None:
    """Return the values of the fields of a line; None, and a problem, if one has none."""
    values = []
    for place, name, read, allowed in spec.values():
        values.append(read(parts[place]))
        if values[-1] is None:
            problems.reject(parts[place], line, name, allowed)
            return None
    return values


# Judgements


def read_qrels(
    path: Path,
    strict: bool,
    absent_docs: str,
    catalogue: pd.DataFrame | None,
    topics: Path | str | None = None,
) -> Golden:
    """Read judgements as a golden set; without topics, the id of a query stands for its text."""
    problems = Problems(path, strict)
    texts = read_topics(Path(topics), problems) if topics is not None else {}
    judged = read_judgements(read_text(path), problems)
    if texts:
        count_without_text(judged, texts, topics, problems)
    more = {one: {"query": text["query"]} for one, text in texts.items() if "query" in text}
    return judged.golden(problems, absent_docs, catalogue, more)


def read_judgements(text: str, problems: Problems) -> Judged:
    """Return every judgement of qrels of three or four columns; a header may come first."""
    with suppress(NotPlain):
        return judged_once(_table(text, QREL_COLUMNS), problems)
    return judged_once(
        pd.DataFrame(_judgements(text, problems), columns=["line", *JUDGED]), problems
    )


def _judgements(text: str, problems: Problems) -> Iterator[tuple[Any, ...]]:
    """Yield number, query, document and grade of each line that is no fault."""
    by_tabs: bool | None = None
    for number, line, fields in _lines(text):
        if by_tabs is None:  # BEIR's files have a header, and only tabs part their fields
            is_header = _is_header(fields)
            by_tabs = is_header and len(line.strip().split("\t")) == 3
            if is_header:
                continue
        parts = [part.strip() for part in line.rstrip().split("\t")] if by_tabs else fields
        if len(parts) not in (3, 4) or not all(parts):
            allowed = "query, iteration, document, grade; or query, document, grade"
            problems.add(f"{len(parts)} columns: {describe(line)}", line=number, allowed=allowed)
        elif values := _values(parts[:1] + parts[-2:], JUDGEMENT, number, problems):
            yield number, *values


def _is_header(parts: list[str]) -> bool:
    return (
        parts[0].lower() in ("query-id", "query_id", "qid", "topic") and as_grade(parts[-1]) is None
    )


# Runs


def read_run(path: Path, strict: bool, ties: str = "file") -> Results:
    """Read rankings as runs: one run per tag, in order of appearance.

    Text after the tag is cut off, and `problems` counts such lines; a warning shows what is no
    comment (`#`).
    """
    problems, text = Problems(path, strict), read_text(path)
    try:
        hits = _table(text, RUN_COLUMNS)[[*HIT_DTYPES]]
        if hits["rank"].min() < 0 or not np.isfinite(hits["score"]).all():
            raise NotPlain
    except NotPlain:
        hits = _searched(text, problems)
    hits["rank"] = rank_hits(hits, ties)["rank"]
    if ties == "file" and (n := n_contradicting(hits)):
        problems.note(
            f"in {n} lists a hit has a higher score than one ranked before it: the stored ranks"
            " decide, and ties='trec' ranks by score",
            field="rank",
        )
    return results_of_lists(hits[["run_id", "query_id"]].drop_duplicates(), hits, problems.frame())


def results_of_lists(cells: pd.DataFrame, hits: pd.DataFrame, problems: pd.DataFrame) -> Results:
    """Return rankings as results; `cells` are the runs and queries that were asked."""
    n_queries = cells["run_id"].value_counts(sort=False)
    tags = n_queries.index.astype("str")
    runs = pd.DataFrame({"run_id": tags, "system": tags, "n_queries": n_queries.to_numpy()})
    unknown = pd.Series(pd.NA, range(len(cells)), dtype="str")
    responses = cells.reset_index(drop=True).assign(query=unknown, error=unknown)
    return Results(runs=runs.assign(n_failed=0), responses=responses, hits=hits, problems=problems)


def _searched(text: str, problems: Problems) -> pd.DataFrame:
    """Return the hits, read line by line."""
    rows, cut = list[list[Any]](), list[str]()
    for number, line, parts in _lines(text):
        if len(parts) < 6:
            allowed = "query, Q0, document, rank, score, tag"
            problems.add(f"{len(parts)} columns: {describe(line)}", line=number, allowed=allowed)
        elif any(_is_hit(parts[begin:]) for begin in (5, 6)):
            allowed = "one hit in a line; files that are joined end in a line end"
            problems.add(f"two hits in a line: {describe(line)}", line=number, allowed=allowed)
        else:
            values = _values(parts, HIT, number, problems)
            rows += [values] if values else []
            cut += [" ".join(parts[6:])] if values and len(parts) > 6 else []
    if cut:
        lines = "1 line has" if len(cut) == 1 else f"{len(cut)} lines have"
        told = f"{lines} text after the tag, which is left out"
        problems.note(told, field="tag")
        if words := next((one for one in cut if not one.startswith("#")), None):
            warn(f"{problems.file}: {told}, such as {excerpt(words)}")
    return pd.DataFrame(rows, columns=list(HIT)).astype(HIT_DTYPES)[[*HIT_DTYPES]]


def _is_hit(parts: list[str]) -> bool:
    """Return True for the fields of a line of a run, also if its score is none (`nan`)."""
    is_run = len(parts) >= 6 and as_grade(parts[3]) is not None
    return is_run and (_score(parts[4]) is not None or parts[4].lower() == "nan")


def _score(text: str) -> float | None:
    try:
        score = float(text)
    except ValueError:
        return None
    # "-inf" is the logarithm of 0; digits that stand for more than a float can hold are a fault
    is_number = math.isfinite(score) or (math.isinf(score) and "inf" in text.lower())
    return score if is_number else None


def _rank(text: str) -> int | None:
    rank = as_grade(text)
    return None if rank is None or rank < 0 else rank


HIT: Spec = {
    "query_id": (0, "query", as_id, ID_ALLOWED), "doc_id": (2, "document", as_id, ID_ALLOWED),
    "run_id": (5, "tag", as_id, ID_ALLOWED), "rank": (3, "rank", _rank, "a whole number from 0"),
    "score": (4, "score", _score, "a finite number, or inf"),
}  # fmt: skip
JUDGEMENT: Spec = {
    "query_id": (0, "query", as_id, ID_ALLOWED), "doc_id": (1, "document", as_id, ID_ALLOWED),
    "grade": (2, "grade", as_grade,
              f"a whole number up to {HIGHEST}; a negative one means not judged"),
}  # fmt: skip


def named_by_file(path: Path, results: Results) -> Results:
    """Rename runs after their file, because another file has the same tags.

    Several runs of one file keep their tag behind the file's name.
    """
    stem = path.name
    for suffix in (".gz", ".txt", ".trec", ".run"):
        stem = stem.removesuffix(suffix)
    tags = results.runs["run_id"].astype("str").tolist()
    names = {tag: stem if len(tags) == 1 else f"{stem}:{tag}" for tag in tags}
    frames = {kind: getattr(results, kind) for kind in ("runs", "responses", "hits")}
    of = {kind: one["run_id"].astype("str").replace(names) for kind, one in frames.items()}
    return replace(results, **{kind: one.assign(run_id=of[kind]) for kind, one in frames.items()})


def write_trec_run(results: Results, path: str | Path, *, level: str = "doc") -> Path:
    """Write runs as one TREC run file (`qid Q0 docid rank score tag`, gzip if it ends in .gz).

    The tag is the run_id. Ranks and scores are written as they are, so loading the file gives the
    same hits again. If a run has no scores at all, each hit gets the number of the query's hits
    minus its rank, plus one.

    Parameters
    ----------
    level
        "doc" writes doc_id, "chunk" chunk_id.

    Raises
    ------
    DataError
        An id that is missing or holds a space, a document twice in one list
        (`rs.match.collapse_hits` keeps the first), a run of which only some hits have scores.

    Warns
    -----
    UserWarning
        Counts what the format has no place for, such as queries without hits.
    """
    hits = ranked_documents(results, level)
    refuse_spaces([hits["doc"], hits["query_id"], results.runs["run_id"]])
    refuse_repeated_documents(hits, "doc")
    # Queries stay in the order of the responses.
    cells = zip(results.responses["run_id"], results.responses["query_id"], strict=True)
    places = {cell: place for place, cell in enumerate(cells)}
    rows = sorted(
        zip(
            hits["run_id"], hits["query_id"], hits["doc"], hits["rank"], scores_or_ranks(hits),
            strict=True,
        ),
        key=lambda row: places.get(row[:2], len(places)),
    )  # fmt: skip
    lines = (
        f"{query_id} Q0 {doc} {rank} {score!r} {run_id}\n"
        for run_id, query_id, doc, rank, score in rows
    )
    return write_text(path, "".join(lines))


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
