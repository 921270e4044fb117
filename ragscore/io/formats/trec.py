"""TREC files: qrels (`qid iter docid rel`) <-> `Golden`, runs <-> `Results`; also .gz.

A line of a run is `qid Q0 docid rank score tag`. Qrels may also have BEIR's three columns.
"""

import math
from dataclasses import replace
from pathlib import Path

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden, Results
from ragscore.frames.errors import warn
from ragscore.frames.ranking import rank_hits
from ragscore.io.detect import Sample
from ragscore.io.formats.by_document import (
    graded_documents,
    ranked_documents,
    refuse_repeated_documents,
    refuse_spaces,
    scores_or_ranks,
)
from ragscore.io.output import write_text
from ragscore.io.qrels import HIGHEST, Qrels, as_grade, read_topics
from ragscore.io.source import Problems, describe, read_text

QREL_WIDTHS = {3: (0, 1, 2), 4: (0, 2, 3)}
"""Number of columns -> the places of query, document and grade: BEIR's three, TREC's four."""


def is_qrels(seen: Sample) -> bool:
    """Return True for four columns that end in a grade, or for BEIR's three columns with tabs."""
    parts = seen.line.split()
    with_tabs = len(parts) == 3 and len(seen.line.strip().split("\t")) == 3
    return seen.kind == "text" and (
        (len(parts) == 4 and as_grade(parts[3]) is not None)
        or (with_tabs and (as_grade(parts[2]) is not None or _is_header(parts)))
    )


def is_run(seen: Sample) -> bool:
    """Return True for six columns of which the fourth is a rank and the fifth a score."""
    parts = seen.line.split()
    return (
        seen.kind == "text"
        and len(parts) == 6
        and as_grade(parts[3]) is not None
        and _score(parts[4]) is not None
    )


def read_qrels(
    path: Path,
    strict: bool,
    absent_docs: str,
    catalogue: pd.DataFrame | None,
    topics: Path | str | None = None,
) -> Golden:
    """Read judgements as a golden set; without topics, the id of a query stands for its text."""
    problems = Problems(path, strict)
    qrels = Qrels()
    read_judgements(path, qrels, problems)
    texts = read_topics(Path(topics), problems) if topics is not None else {}
    qrels.queries = {
        query_id: {"query": texts[query_id]} if query_id in texts else {}
        for query_id in qrels.grades
    }
    if texts and (n_without := len(qrels.grades.keys() - texts.keys())):
        problems.note(
            f"{n_without} of {len(qrels.grades)} judged queries have no text in {topics}; their id"
            " stands for it",
            field="query",
        )
    return qrels.golden(problems, absent_docs, catalogue)


def read_judgements(path: Path, qrels: Qrels, problems: Problems) -> None:
    """Add every line of a qrels file of three or four columns; a header may come first."""
    is_first = True
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        parts = [part.strip() for part in line.split("\t")] if "\t" in line else line.split()
        may_be_header, is_first = is_first, False
        if may_be_header and _is_header(parts):
            continue
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
        if grade is None:
            allowed = f"a whole number up to {HIGHEST}; a negative one means not judged"
            problems.reject(written, number, "grade", allowed)
            continue
        qrels.add(query_id, doc_id, grade, number, problems)


def _is_header(parts: list[str]) -> bool:
    return (
        parts[0].lower() in ("query-id", "query_id", "qid", "topic") and as_grade(parts[-1]) is None
    )


def read_run(path: Path, strict: bool, ties: str = "file") -> Results:
    """Read rankings as runs: one run per tag, in order of appearance."""
    problems = Problems(path, strict)
    hits = _hits(path, problems)
    hits["rank"] = rank_hits(hits, ties)["rank"]
    cells = hits[["run_id", "query_id"]].drop_duplicates(ignore_index=True)
    counts = cells["run_id"].value_counts(sort=False)
    tags = hits["run_id"].drop_duplicates(ignore_index=True)
    n_queries = tags.map(counts).astype("int64")
    runs = pd.DataFrame({"run_id": tags, "system": tags, "n_queries": n_queries, "n_failed": 0})
    unknown = pd.Series(pd.NA, index=cells.index, dtype="str")
    responses = cells.assign(query=unknown, error=unknown)
    return Results(runs=runs, responses=responses, hits=hits, problems=problems.frame())


def _hits(path: Path, problems: Problems) -> pd.DataFrame:
    # Lists of columns, not dicts of rows: a run has 100,000 lines and more.
    columns: dict[str, list[object]] = {
        name: [] for name in ("run_id", "query_id", "doc_id", "rank", "score")
    }
    run_id, query_id, doc_id, ranks, scores = columns.values()
    for number, line in enumerate(read_text(path).split("\n"), 1):
        parts = line.split()
        if len(parts) != 6:
            if parts:  # blank lines are no problem
                problems.add(
                    f"{len(parts)} columns: {describe(line)}",
                    line=number,
                    allowed="query, Q0, document, rank, score, tag",
                )
            continue
        rank, score = as_grade(parts[3]), _score(parts[4])
        if rank is None or rank < 0:
            problems.reject(parts[3], number, "rank", "a whole number from 0")
        elif score is None:
            problems.reject(parts[4], number, "score", "a number")
        else:
            query_id.append(parts[0])
            doc_id.append(parts[2])
            ranks.append(rank)
            scores.append(score)
            run_id.append(parts[5])
    dtypes = {"rank": "int64", "score": "float64"}
    return pd.DataFrame(
        {name: pd.Series(values, dtype=dtypes.get(name, "str")) for name, values in columns.items()}
    )


def _score(text: str) -> float | None:
    try:
        score = float(text)
    except ValueError:
        return None
    return None if math.isnan(score) else score


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
        An id that is missing or holds a space, a document twice in one list (`rs.collapse_hits`
        keeps the first), a run of which only some hits have scores.

    Warns
    -----
    UserWarning
        Queries without hits: the format has no place for them.
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
    n_without = len(places) - len({row[:2] for row in rows})
    if n_without > 0:
        warn(
            f"{n_without} queries without hits are not in {path}: a run file has no place for them"
        )
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
        What the format has no place for: queries without such targets; alternatives of one target,
        which become judgements of their own.

    Raises
    ------
    DataError
        An id that holds a space.
    """
    judged = graded_documents(golden, level)
    targets = golden.targets[golden.targets["level"] == level]
    n_alternatives = int((targets["alternative"] > 0).sum())
    n_without = int((~is_among(golden.queries["query_id"], targets["query_id"])).sum())
    for n, text in (
        (n_alternatives, "alternatives become targets of their own"),
        (n_without, f"queries have no {level} target and are not"),
    ):
        if n:
            warn(f"{n} {text} in {path}")
    refuse_spaces([judged["query_id"], judged["doc"]])
    lines = (
        f"{query_id} 0 {doc} {grade}\n" for query_id, doc, grade in judged.itertuples(index=False)
    )
    return write_text(path, "".join(lines))
