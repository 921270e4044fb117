"""Golden sets and runs -> TREC's qrels and runs; what writers of judgements share."""

import warnings
from pathlib import Path

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results
from ragscore.io.written import write_text

IDS = {"doc": "doc_id", "chunk": "chunk_id"}


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
        warnings.warn(
            f"{len(asked) - cells.ngroups} queries without hits are not in {path}: a run file has"
            " no place for them",
            UserWarning,
            stacklevel=2,
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
            warnings.warn(f"{n} {what} in {path}", UserWarning, stacklevel=3)
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
        "labels of questions": int(labels.notna().to_numpy().sum()),
    }


def ids_of(frame: pd.DataFrame, level: str, kind: str) -> pd.Series:
    """The ids of a level, one in every row."""
    if level not in IDS:
        raise DataError(f"found {level!r}", field="level", allowed=f"one of {', '.join(IDS)}")
    column = IDS[level]
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
