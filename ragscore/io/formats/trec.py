"""TREC files.

Judgements (`qid iter docid rel`) -> `Golden`, rankings (`qid Q0 docid rank score tag`) ->
`Results`; also .gz.

Golden sets and runs -> TREC's qrels and runs; what writers of judgements share.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import warn
from ragscore.frames.ranking import rank_hits
from ragscore.io.detect import Sample
from ragscore.io.output import write_text
from ragscore.io.qrels import HIGHEST, Qrels, as_grade, read_topics
from ragscore.io.source import Problems, describe, read_text

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
    judged = Qrels()
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


def read_judgements(path: Path, judged: Qrels, problems: Problems) -> None:
    """Add every line of a qrels file of three or four columns; a header may come first."""
    first = True
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        parts = [part.strip() for part in line.split("\t")] if "\t" in line else line.split()
        was_first, first = first, False
        if was_first and _is_header(parts):
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
            problems.add(
                f"found {describe(written)}",
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
    for number, line in enumerate(read_text(path).split("\n"), 1):
        parts = line.split()
        if len(parts) != 6:
            if parts:
                problems.add(
                    f"{len(parts)} columns: {describe(line)}",
                    line=number,
                    allowed="query, Q0, document, rank, score, tag",
                )
            continue
        rank, score = as_grade(parts[3]), _score(parts[4])
        if rank is None or rank < 0:
            problems.add(
                f"found {describe(parts[3])}",
                line=number,
                field="rank",
                allowed="a whole number from 0",
            )
        elif score is None:
            problems.add(
                f"found {describe(parts[4])}", line=number, field="score", allowed="a number"
            )
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


ID_COLUMNS = {"doc": "doc_id", "chunk": "chunk_id"}


def write_trec_run(results: Results, path: str | Path, *, level: str = "doc") -> Path:
    """Write runs as one TREC run file (`qid Q0 docid rank score tag`, gzip if it ends in .gz).

    The tag is the run_id.

    Ranks and scores are written as they are, so that loading the file gives the same hits again. A
    run that has no scores at all gets the number of its hits minus the rank, plus one.

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
    hits = results.hits.assign(doc=ids_of(results.hits, level, "hits")).sort_values(
        ["run_id", "query_id", "rank"], kind="stable"
    )
    refuse_spaces([hits["doc"], hits["query_id"], results.runs["run_id"]])
    refuse_repeated_documents(hits, "doc")
    cells = hits.groupby(["run_id", "query_id"], observed=True, sort=False)
    scores = scores_or_ranks(hits)
    # Queries stay in the order in which they were asked.
    asked = {
        cell: place
        for place, cell in enumerate(
            zip(results.responses["run_id"], results.responses["query_id"], strict=True)
        )
    }
    order = [
        asked.get(cell, len(asked)) for cell in zip(hits["run_id"], hits["query_id"], strict=True)
    ]
    columns = zip(
        order, hits["query_id"], hits["doc"], hits["rank"], scores, hits["run_id"], strict=True
    )
    rows = sorted(columns, key=lambda row: row[0])
    if len(asked) > cells.ngroups:
        warn(
            f"{len(asked) - cells.ngroups} queries without hits are not in {path}: a run file has"
            " no place for them"
        )
    return write_text(
        path,
        "".join(
            f"{query_id} Q0 {doc} {rank} {score!r} {run_id}\n"
            for _, query_id, doc, rank, score, run_id in rows
        ),
    )


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
    judged = _judgements(golden, level, path)
    refuse_spaces([judged["query_id"], judged["doc"]])
    lines = (
        f"{query_id} 0 {doc} {grade}\n" for query_id, doc, grade in judged.itertuples(index=False)
    )
    return write_text(path, "".join(lines))


def refuse_repeated_documents(hits: pd.DataFrame, column: str) -> None:
    """Refuse a list that names a document twice: other tools take each document once."""
    twice = hits.duplicated(["run_id", "query_id", column])
    if twice.any():
        first = hits[twice].iloc[0]
        raise DataError(
            f"{first[column]!r} is there twice for query {first['query_id']!r} of run"
            f" {first['run_id']!r} ({int(twice.sum())} hits are like that)",
            field="hits",
            allowed=(
                "each document once in a list; rs.collapse_hits(results.hits) keeps the first hit"
                " of each"
            ),
        )


def _judgements(golden: Golden, level: str, path: str | Path) -> pd.DataFrame:
    """Query, document and grade of every target of the level, in file order.

    What the format can't say is counted in a warning.
    """
    targets, judged = golden.targets[golden.targets["level"] == level], judged_rows(golden, level)
    n_alternatives = int((targets["alternative"] > 0).sum())
    n_without = int((~is_among(golden.queries["query_id"], targets["query_id"])).sum())
    for n, what in (
        (n_alternatives, "alternatives become targets of their own"),
        (n_without, f"queries have no {level} target and are not"),
    ):
        if n:
            warn(f"{n} {what} in {path}")
    return judged


def judged_rows(golden: Golden, level: str) -> pd.DataFrame:
    """Query, document and grade of every target of the level, in file order."""
    targets = golden.targets[golden.targets["level"] == level]
    judged = targets.assign(doc=ids_of(targets, level, "targets"))[["query_id", "doc", "grade"]]
    # One document may stand for several targets: the best grade is what finding it can earn.
    return judged.assign(
        grade=judged.groupby(["query_id", "doc"], sort=False)["grade"].transform("max")
    ).drop_duplicates(ignore_index=True)


def grades_of(golden: Golden, level: str) -> dict[str, dict[str, int]]:
    """The judged documents of each query that has targets of the level, in file order."""
    grades: dict[str, dict[str, int]] = {}
    for query_id, doc, grade in judged_rows(golden, level).itertuples(index=False):
        grades.setdefault(query_id, {})[doc] = int(grade)
    return grades


def left_of_golden(golden: Golden, level: str, kept: tuple[str, ...] = ()) -> dict[str, int]:
    """How much of a golden set a file of judgements of one level has no place for.

    `kept` are further columns of `queries` that it has.
    """
    is_level = golden.targets["level"] == level
    known = {"query_id", "query", "position", "answerable", *kept}
    labels = golden.queries[
        [name for name in golden.queries if name not in known and not str(name).startswith("x_")]
    ]
    parts = {
        "conditions": golden.conditions,
        "support group members": golden.support_groups,
        "checks": golden.checks,
        "tags": golden.tags,
    }
    return {
        "alternatives of targets, which become judgements of their own": int(
            (golden.targets.loc[is_level, "alternative"] > 0).sum()
        ),
        "targets of other levels": int((~is_level).sum()),
        **{what: len(frame) for what, frame in parts.items()},
        "stated refusals": len(golden.refusals),
        "query labels": int(labels.notna().to_numpy().sum()),
    }


def ids_of(frame: pd.DataFrame, level: str, kind: str) -> pd.Series:
    """The ids of a level, one in every row."""
    if level not in ID_COLUMNS:
        raise DataError(
            f"found {level!r}", field="level", allowed=f"one of {', '.join(ID_COLUMNS)}"
        )
    column = ID_COLUMNS[level]
    n_without = int(frame[column].isna().sum()) if column in frame else len(frame)
    if n_without:
        raise DataError(
            f"{n_without} of {len(frame)} rows have no {column}",
            field=f"{kind}.{column}",
            allowed="an id in every row",
        )
    return frame[column] if column in frame else pd.Series([], index=frame.index, dtype="str")


def refuse_spaces(columns: list[pd.Series], pattern: str = r"\s") -> None:
    """Refuse ids that would be cut in two, and empty ones."""
    for column in columns:
        texts = column.astype("str").drop_duplicates()
        bad = texts[texts.str.contains(pattern, regex=True) | (texts == "")]
        if len(bad):
            raise DataError(
                f"{bad.iloc[0]!r}",
                field=str(column.name),
                allowed="ids without white space: the format's columns are apart by it",
            )


def scores_or_ranks(hits: pd.DataFrame) -> list[float]:
    """The score of each hit.

    For runs without scores, the number of the query's hits minus the rank, plus one.
    """
    by_rank = (
        hits.groupby(["run_id", "query_id"], observed=True, sort=False)["rank"].transform("size")
        - hits["rank"]
        + 1.0
    )
    score = hits["score"] if "score" in hits else pd.Series(float("nan"), index=hits.index)
    known = score.notna().groupby(hits["run_id"], observed=True).transform("mean")
    partly = hits.loc[(known > 0) & (known < 1), "run_id"].unique().tolist()
    if partly:
        raise DataError(
            f"only some hits of {', '.join(map(str, partly))} have a score",
            field="hits.score",
            allowed="a score for all hits of a run, or for none",
        )
    return [float(one) for one in score.where(known == 1, by_rank)]
