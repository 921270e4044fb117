"""TREC files.

Judgements (`qid iter docid rel`) -> `Golden`, rankings (`qid Q0 docid rank score tag`) ->
`Results`; also .gz.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ragscore.frames.data import Golden, Results
from ragscore.frames.ranking import rank_hits
from ragscore.io.detect import Sample
from ragscore.io.judged_rows import HIGHEST, Judged, as_grade
from ragscore.io.source import Problems, open_text, shown
from ragscore.io.topics import read_topics

QREL_WIDTHS = {3: (0, 1, 2), 4: (0, 2, 3)}
"""Number of columns -> where query, document and grade stand: BEIR's three columns, TREC's four."""


def is_qrels(seen: Sample) -> bool:
    """Four columns of which the last is a grade, or BEIR's header or three columns apart by tabs."""
    parts = seen.line.split()
    with_tabs = len(parts) == 3 and len(seen.line.strip().split("\t")) == 3
    return seen.kind == "text" and (
        (len(parts) == 4 and as_grade(parts[3]) is not None)
        or (with_tabs and (as_grade(parts[2]) is not None or _is_header(parts)))
    )


def is_run(seen: Sample) -> bool:
    """Six columns of which the fourth is a rank and the fifth a score."""
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
    """Judgements as a golden set; without a file of topics, the text of a question is its id."""
    problems = Problems(path, strict)
    judged = Judged()
    read_judgements(path, judged, problems)
    texts = read_topics(Path(topics), problems) if topics is not None else {}
    judged.queries = {
        query_id: {"query": texts[query_id]} if query_id in texts else {}
        for query_id in judged.grades
    }
    if texts and (without := len(judged.grades.keys() - texts.keys())):
        problems.note(
            f"{without} of {len(judged.grades)} judged queries have no text in {topics}; their id"
            " stands for it",
            field="query",
        )
    return judged.golden(problems, absent_docs, catalogue)


def read_judgements(path: Path, judged: Judged, problems: Problems) -> None:
    """Add every line of a qrels file of three or four columns; a header may come first."""
    first = True
    for number, line in enumerate(open_text(path).split("\n"), 1):
        if not line.strip():
            continue
        parts = [part.strip() for part in line.split("\t")] if "\t" in line else line.split()
        was_first, first = first, False
        if was_first and _is_header(parts):
            continue
        places = QREL_WIDTHS.get(len(parts))
        if places is None or not all(parts):
            problems.add(
                f"{len(parts)} columns: {shown(line)}",
                line=number,
                allowed="query, iteration, document, grade; or query, document, grade",
            )
            continue
        query_id, doc_id, written = (parts[place] for place in places)
        grade = as_grade(written)
        if grade is None:
            problems.add(
                f"found {shown(written)}",
                line=number,
                field="grade",
                allowed=f"a whole number up to {HIGHEST}; a negative one means not judged",
            )
            continue
        judged.add(query_id, doc_id, grade, number, problems)


def _is_header(parts: list[str]) -> bool:
    return (
        parts[0].lower() in ("query-id", "query_id", "qid", "topic") and as_grade(parts[-1]) is None
    )


def read_run(path: Path, strict: bool, ties: str = "file") -> Results:
    """Rankings as runs: one run per tag, in order of appearance."""
    problems = Problems(path, strict)
    hits = _hits(path, problems)
    hits["rank"] = rank_hits(hits, ties)["rank"]
    asked = hits[["run_id", "query_id"]].drop_duplicates(ignore_index=True)
    tags = hits["run_id"].drop_duplicates(ignore_index=True)
    counts = (
        asked.groupby("run_id", sort=False).size().reindex(tags).to_numpy()
        if len(tags)
        else np.zeros(0, dtype="int64")
    )
    runs = pd.DataFrame({"run_id": tags, "system": tags, "n_queries": counts, "n_failed": 0})
    responses = asked.assign(
        query=pd.Series(pd.NA, index=asked.index, dtype="str"),
        error=pd.Series(pd.NA, index=asked.index, dtype="str"),
    )
    return Results(runs=runs, responses=responses, hits=hits, problems=problems.frame())


def _hits(path: Path, problems: Problems) -> pd.DataFrame:
    # Lists of columns, not dicts of rows: a run has 100,000 lines and more.
    columns: dict[str, list[object]] = {
        name: [] for name in ("run_id", "query_id", "doc_id", "rank", "score")
    }
    run_id, query_id, doc_id, ranks, scores = columns.values()
    for number, line in enumerate(open_text(path).split("\n"), 1):
        parts = line.split()
        if len(parts) != 6:
            if parts:
                problems.add(
                    f"{len(parts)} columns: {shown(line)}",
                    line=number,
                    allowed="query, Q0, document, rank, score, tag",
                )
            continue
        rank, score = as_grade(parts[3]), _score(parts[4])
        if rank is None or rank < 0:
            problems.add(
                f"found {shown(parts[3])}",
                line=number,
                field="rank",
                allowed="a whole number from 0",
            )
        elif score is None:
            problems.add(f"found {shown(parts[4])}", line=number, field="score", allowed="a number")
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


def renamed(results: Results, names: dict[str, str]) -> Results:
    """The same runs under other run ids."""
    frames = {}
    for name in ("runs", "responses", "hits"):
        frame = getattr(results, name)
        frames[name] = frame.assign(run_id=frame["run_id"].astype("str").replace(names))
    return replace(results, **frames)


def named_by_file(path: Path, results: Results) -> Results:
    """Runs under the name of their file, for when another file has the same tags.

    Several runs of one file keep their tag behind it.
    """
    stem = (
        path.name.removesuffix(".gz")
        .removesuffix(".txt")
        .removesuffix(".trec")
        .removesuffix(".run")
    )
    tags = results.runs["run_id"].astype("str").tolist()
    return renamed(results, {tag: stem if len(tags) == 1 else f"{stem}:{tag}" for tag in tags})
