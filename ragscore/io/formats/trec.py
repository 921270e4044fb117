"""TREC files: qrels (`qid iter docid rel`) <-> `Golden`, runs <-> `Results`; also .gz.

A line of a run is `qid Q0 docid rank score tag`. Qrels may also have BEIR's three columns. Fields
are split by any white space; `#` begins a line of comment.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from ragscore.frames.data import Golden, Results
from ragscore.frames.errors import excerpt, warn
from ragscore.frames.ranking import n_contradicting, rank_hits
from ragscore.io.detect import Sample
from ragscore.io.field_table import field_lines, field_table, split_fields
from ragscore.io.file_content import is_too_long, read_text
from ragscore.io.formats.by_document import (
    graded_documents,
    ranked_documents,
    refuse_repeated_documents,
    refuse_spaces,
    scores_or_ranks,
)
from ragscore.io.left_out import keeping
from ragscore.io.output import write_text
from ragscore.io.qrels import HIGHEST, JudgedColumns, Qrels, as_grade, read_topics
from ragscore.io.source import Problems, describe
from ragscore.io.values import ID_ALLOWED

RUN_COLUMNS = {
    "query_id": pa.large_string(), "iteration": None, "doc_id": pa.large_string(),
    "rank": pa.int64(), "score": pa.float64(),
    "run_id": pa.dictionary(pa.int32(), pa.string()),
}  # fmt: skip
QREL_COLUMNS = {
    "query_id": pa.large_string(), "iteration": None, "doc_id": pa.large_string(),
    "grade": pa.int64(),
}  # fmt: skip
QREL_WIDTHS = {3: (0, 1, 2), 4: (0, 2, 3)}
"""Number of columns -> the places of query, document and grade: BEIR's three, TREC's four."""


def is_qrels(seen: Sample) -> bool:
    """Return True for four columns that end in a grade, or for BEIR's three columns with tabs."""
    parts = split_fields(seen.line)
    with_tabs = len(parts) == 3 and len(seen.line.strip().split("\t")) == 3
    return seen.kind == "text" and (
        (len(parts) == 4 and as_grade(parts[3]) is not None)
        or (with_tabs and (as_grade(parts[2]) is not None or _is_header(parts)))
    )


def is_run(seen: Sample) -> bool:
    """Return True for six columns or more of which the fourth is a rank and the fifth a score."""
    return seen.kind == "text" and _is_hit(split_fields(seen.line))


def _is_hit(parts: list[str]) -> bool:
    """Return True for the fields of a line of a run, also if its score is none (`nan`)."""
    is_run = len(parts) >= 6 and as_grade(parts[3]) is not None
    return is_run and (_score(parts[4]) is not None or parts[4].lower() == "nan")


def read_qrels(
    path: Path,
    strict: bool,
    absent_docs: str,
    catalogue: pd.DataFrame | None,
    topics: Path | str | None = None,
) -> Golden:
    """Read judgements as a golden set; without topics, the id of a query stands for its text."""
    problems, text = Problems(path, strict), read_text(path)
    texts = read_topics(Path(topics), problems) if topics is not None else {}
    judged = _judgement_columns(text)
    if judged is None:
        qrels = Qrels()
        _add_judgements(text, qrels, problems)
        judged = replace(qrels, queries={query_id: {} for query_id in qrels.grades}).columns()
    query_ids = judged.queries.to_pylist()
    if texts and (n_without := sum(query_id not in texts for query_id in query_ids)):
        problems.note(
            f"{n_without} of {len(query_ids)} judged queries have no text in {topics}; their id"
            " stands for it",
            field="query",
        )
    more = {query_id: {"query": query} for query_id, query in texts.items()}
    return judged.golden(problems, absent_docs, catalogue, more)


def read_judgements(path: Path, qrels: Qrels, problems: Problems) -> None:
    """Add every line of a qrels file of three or four columns; a header may come first."""
    _add_judgements(read_text(path), qrels, problems)


def _judgement_columns(text: str) -> JudgedColumns | None:
    """Return the judgements of a regular file of four columns; None for any other."""
    read = field_table(text, QREL_COLUMNS)
    return None if read is None else JudgedColumns.of(read)


def _add_judgements(text: str, qrels: Qrels, problems: Problems) -> None:
    is_first, by_tabs = True, False
    for number, line, fields in field_lines(text):
        parts = fields
        if is_first:
            # BEIR's files have a header, and only tabs part their fields.
            is_first, is_header = False, _is_header(parts)
            by_tabs = is_header and len(line.strip().split("\t")) == 3
            if is_header:
                continue
        if by_tabs:
            parts = [part.strip() for part in line.rstrip().split("\t")]
        places = QREL_WIDTHS.get(len(parts))
        if places is None or not all(parts):
            problems.add(
                f"{len(parts)} columns: {describe(line)}",
                line=number,
                allowed="query, iteration, document, grade; or query, document, grade",
            )
            continue
        query_id, doc_id, written = (parts[place] for place in places)
        grade = as_grade(written)
        if _has_long_id({"query": query_id, "document": doc_id}, number, problems):
            continue
        if grade is None:
            allowed = f"a whole number up to {HIGHEST}; a negative one means not judged"
            problems.reject(written, number, "grade", allowed)
            continue
        qrels.add(query_id, doc_id, grade, number, problems)


def _has_long_id(ids: dict[str, str], line: int, problems: Problems) -> bool:
    """Return True, and record it, if an id is too long; `ids` are field -> id."""
    long = next((name for name, one in ids.items() if is_too_long(one)), None)
    if long is not None:
        problems.reject(ids[long], line, long, ID_ALLOWED)
    return long is not None


def _is_header(parts: list[str]) -> bool:
    return (
        parts[0].lower() in ("query-id", "query_id", "qid", "topic") and as_grade(parts[-1]) is None
    )


def read_run(path: Path, strict: bool, ties: str = "file") -> Results:
    """Read rankings as runs: one run per tag, in order of appearance.

    Text after the tag is cut off, and `problems` counts such lines; a warning shows what is no
    comment (`#`).
    """
    problems, text = Problems(path, strict), read_text(path)
    read = field_table(text, RUN_COLUMNS)
    hits = _regular_hits(read) if read is not None else None
    if hits is None:
        hits = _hits(text, problems)
    hits["rank"] = rank_hits(hits, ties)["rank"]
    if ties == "file" and (n := n_contradicting(hits)):
        problems.note(
            f"in {n} lists a hit has a higher score than one ranked before it: the stored ranks"
            " decide, and ties='trec' ranks by score",
            field="rank",
        )
    cells = hits[["run_id", "query_id"]].drop_duplicates(ignore_index=True)
    counts = cells["run_id"].value_counts(sort=False)
    tags = hits["run_id"].drop_duplicates(ignore_index=True).astype("str")
    n_queries = tags.map(counts).astype("int64")
    runs = pd.DataFrame({"run_id": tags, "system": tags, "n_queries": n_queries, "n_failed": 0})
    unknown = pd.Series(pd.NA, index=cells.index, dtype="str")
    responses = cells.assign(query=unknown, error=unknown)
    return Results(runs=runs, responses=responses, hits=hits, problems=problems.frame())


def _regular_hits(table: pa.Table) -> pd.DataFrame | None:
    """Return the hits of a regular file's columns; None if a rank or score can't be one."""
    hits = table.to_pandas()
    rank, score = hits["rank"].to_numpy(), hits["score"].to_numpy()
    if rank.min() < 0 or rank.max() > HIGHEST or not np.isfinite(score).all():
        return None
    return hits[["run_id", "query_id", "doc_id", "rank", "score"]]


def _hits(text: str, problems: Problems) -> pd.DataFrame:
    """Return the hits, read line by line."""
    rows: list[tuple[str, str, str, int, float]] = []
    cut: list[str] = []
    for number, line, parts in field_lines(text):
        if len(parts) < 6:
            problems.add(
                f"{len(parts)} columns: {describe(line)}",
                line=number,
                allowed="query, Q0, document, rank, score, tag",
            )
            continue
        if any(_is_hit(parts[begin:]) for begin in (5, 6)):
            problems.add(
                f"two hits in a line: {describe(line)}",
                line=number,
                allowed="one hit in a line; files that are joined end in a line end",
            )
            continue
        rank, score = as_grade(parts[3]), _score(parts[4])
        if _has_long_id(
            {"query": parts[0], "document": parts[2], "tag": parts[5]}, number, problems
        ):
            continue
        if rank is None or rank < 0:
            problems.reject(parts[3], number, "rank", "a whole number from 0")
        elif score is None:
            problems.reject(parts[4], number, "score", "a finite number, or inf")
        else:
            rows.append((parts[5], parts[0], parts[2], rank, score))
            cut += [" ".join(parts[6:])] if len(parts) > 6 else []
    if cut:
        lines = "1 line has" if len(cut) == 1 else f"{len(cut)} lines have"
        told = f"{lines} text after the tag, which is left out"
        problems.note(told, field="tag")
        if words := next((one for one in cut if not one.startswith("#")), None):
            warn(f"{problems.file}: {told}, such as {excerpt(words)}")
    dtypes = dict.fromkeys(("run_id", "query_id", "doc_id"), "str")
    dtypes |= {"rank": "int64", "score": "float64"}
    return pd.DataFrame(rows, columns=list(dtypes)).astype(dtypes)


def _score(text: str) -> float | None:
    try:
        score = float(text)
    except ValueError:
        return None
    # "-inf" is the logarithm of 0; digits that stand for more than a float can hold are a fault
    is_number = math.isfinite(score) or (math.isinf(score) and "inf" in text.lower())
    return score if is_number else None


def named_by_file(path: Path, results: Results) -> Results:
    """Rename runs after their file, because another file has the same tags.

    Several runs of one file keep their tag behind the file's name.
    """
    stem = path.name
    for suffix in (".gz", ".txt", ".trec", ".run"):
        stem = stem.removesuffix(suffix)
    tags = results.runs["run_id"].astype("str").tolist()
    names = {tag: stem if len(tags) == 1 else f"{stem}:{tag}" for tag in tags}
    frames = {}
    for kind in ("runs", "responses", "hits"):
        frame = getattr(results, kind)
        frames[kind] = frame.assign(run_id=frame["run_id"].astype("str").replace(names))
    return replace(results, **frames)


@keeping("hits.score", "hits.rank")
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


@keeping("targets.grade")
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
