"""Ids of hits that don't join the expected ones, and the change that would join them.

One count: how many expected ids are among the hits of their own query as they are, and how many
would be under each of six readings. In large runs the hits of some of the queries with unmet
targets are read, evenly spaced.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among, is_present, lookup
from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt, name_list
from ragscore.lean.targets import targets_at

if TYPE_CHECKING:
    from ragscore.lean.rows import Rows

COLUMN = {"chunk": "chunk_id", "span": "doc_id", "anchor": "path", "doc": "doc_id",
          "predicate": "source_key"}  # fmt: skip
COLUMNS = ("chunk_id", "doc_id", "path", "source_key")  # that may hold ids
FEW = 0.05  # of the targets that a run could meet: fewer are spoken of, whatever would join them
SHARE, LEAST = 0.02, 3  # of the expected ids: so many more must be joined by a reading
SAMPLE, PER_HIT = 4_000, 0.004  # hits that are read as text: at least, and of large runs
_SUFFIX = r"(?i)(\.[a-z]\w{0,4}|#.*|(::|[_:@/-])(chunk|passage|section|page|part|[cps])?[_:-]?\d+)$"
READINGS = {  # words -> the end of the line of pandas that reads ids so
    "in lower case": ".str.strip().str.lower()",
    "without scheme and www.": r'.str.replace(r"(?i)^(\w+://)?(www\.)?", "", regex=True)',
    "without slashes at the ends": '.str.strip("/")',
    "by the last part of their path": r'.str.replace(r"^.*[/\\:](?=.)", "", regex=True)',
    "without extension or chunk number": f'.str.replace(r"{_SUFFIX}", "", regex=True)',
    "without zero padding": r'.str.replace(r"(^|\D)0+(?=\d)", r"\1", regex=True)',
}


def _read(ids: pd.Series, code: str) -> pd.Series:
    """Return ids as the end of a line of pandas reads them."""
    found: pd.Series = eval(f"ids{code}", {"ids": ids})
    return found


def best_reading(wanted: pd.Series, own: pd.Series, n_now: int = 0) -> tuple[str, int]:
    """Return the words of the reading that joins the most of the wanted ids, and how many.

    One that takes more than a tenth of the wanted ids for others doesn't count.
    """
    best, n_best = "", n_now
    for words, code in READINGS.items():
        read = _read(wanted, code)
        n = int(is_among(read, _read(own, code)).sum())
        if n > n_best and not _merges(wanted, code):
            best, n_best = words, n
    return best, n_best


def join_notes(rows: "Rows") -> Iterator[str]:
    """Say of which runs ids don't join, wholly or in part, and what would join them.

    Raises
    ------
    DataError
        There are hits, and none of them has an id of any kind.
    """
    hits, levels = rows.results.hits, [one for one in rows.level.used if one in COLUMN]
    columns = [name for name in COLUMNS if name in hits and hits[name].notna().any()]
    if len(hits) and not columns and rows.level.name in ("chunk", "span", "anchor", "doc"):
        raise DataError(
            f"no hit has an id; the columns are {', '.join(hits)}",
            field="hits",
            allowed=f"one of {', '.join(COLUMNS)}; `columns=` of load_results names it",
        )
    for level in levels:
        targets, column = targets_at(rows.of_hits, level).targets, COLUMN[level]
        if column in targets:
            targets = targets[is_present(targets[column])]
            yield from _level_notes(rows, level, column, targets) if len(targets) else ()


def _level_notes(rows: "Rows", level: str, column: str, targets: pd.DataFrame) -> Iterator[str]:
    """Say what there is to say of one level; runs of which the same is said share a note."""
    query = lookup(targets["query_id"], pd.Index(rows.golden.queries["query_id"]))
    matched, n_queries = rows.matched_at(level), len(rows.golden.queries)
    expected = np.bincount(query, minlength=n_queries)
    n_met = np.zeros(rows.n, dtype=np.int64)
    np.add.at(n_met, matched.met[0], 1)
    said: dict[str, list[str]] = {}
    for number, run_id in enumerate(rows.runs.astype("str")):
        of_run = slice(number * n_queries, (number + 1) * n_queries)
        n_hits, n_now = rows.n_hits[of_run], int(n_met[of_run].sum())
        could = int(expected[n_hits > 0].sum())
        lacks = np.flatnonzero((n_hits > 0) & (n_met[of_run] < expected))
        if not could or not len(lacks) or len(said) > 10:
            continue
        budget = max(SAMPLE, PER_HIT * n_hits.sum())
        step = max(int(np.ceil(n_hits[lacks].sum() / budget)), 1)
        some = lacks[::step]
        is_few = n_now < FEW * min(could, int(n_hits.sum()))
        note = _note(rows, number, level, column, targets, query, some, n_now, could, step, is_few)
        if note:
            said.setdefault(note, []).append(run_id)
    for note, run_ids in said.items():
        yield f"ids of {name_list(run_ids)} {note}"


def _note(
    rows: "Rows", run: int, level: str, column: str, targets: pd.DataFrame, query: np.ndarray,
    some: np.ndarray, n_now: int, could: int, step: int, is_few: bool,
) -> str:  # fmt: skip
    """Return the note on one run; "" where nothing is amiss."""
    hits, row = rows.results.hits, rows.row_of_hit
    n = len(rows.golden.queries)
    is_asked = np.zeros(rows.n + 1, dtype=bool)
    is_asked[run * n + some] = True
    at = np.flatnonzero(is_asked[row])
    if column not in hits or not is_present(hits[column].iloc[at]).any():
        others = ", ".join(name for name in COLUMNS if name in hits)
        return (
            f"do not join (level {level}): its hits have no {column}, but {others}"
            if is_few
            else ""
        )
    is_own = np.zeros(n, dtype=bool)
    is_own[some] = True
    wanted = targets.loc[is_own[query], ["query_id", column]].astype("str").drop_duplicates()
    own = pd.DataFrame({"query": row[at] - run * n, "id": hits[column].iloc[at].astype("str")})
    own = own.dropna().drop_duplicates()
    ids = [
        rows.golden.queries["query_id"].astype("str").to_numpy()[own["query"]],
        wanted["query_id"],
    ]
    best, n_best, n_as_is = "", 0, 0
    for words, code in {"": "", **READINGS}.items():
        sides = [pd.Series(np.asarray(key), dtype="str") + "\0" + _read(texts.reset_index(drop=True), code)
                 for key, texts in zip(ids, (own["id"], wanted[column]), strict=True)]  # fmt: skip
        joins = is_among(sides[1], sides[0])
        if not words:
            n_as_is = int(joins.sum())
        elif joins.sum() - n_as_is > n_best and not _merges(wanted[column], code):
            best, n_best = words, int(joins.sum()) - n_as_is
    n_more, n_all = n_best * step, wanted[column].nunique()
    is_noticeable = n_best >= min(LEAST, n_all) and n_more >= SHARE * could
    if not is_few and not is_noticeable:
        return ""
    shown = "; ".join(
        f"{name} {', '.join(map(excerpt, sorted(side.unique())[:3]))}"
        for name, side in (("it has", own["id"]), ("expected are", wanted[column]))
    )
    how = "do not join" if is_few else "join in part"
    text = f"{how} (level {level}): {n_now} of {could} expected {column} are among the hits of their query. {shown}"
    if is_noticeable:
        code, about = READINGS[best], f"about {n_more}" if step > 1 else f"{n_best}"
        lines = [
            f'{frame}["{column}"] = {frame}["{column}"]{code}'
            for frame in ("results.hits", "golden.targets")
        ]
        return f"{text}. {about} more would join {best}: {'; '.join(lines)}"
    elsewhere = int(
        is_among(wanted[column], hits[column].iloc[np.flatnonzero(row >= 0)[: 10**6]]).sum()
    )
    if elsewhere >= max(LEAST, 0.5 * len(wanted)):
        return (
            f"join in other queries only (level {level}): query_id has to mean the same query in"
            " run and golden set"
        )
    if n_now:
        return ""  # a bad run: some ids join
    return (
        f"{text}. Name the column that holds these ids (`columns=` of load_results), choose another"
        " level (`match=`), or take the golden set of this corpus"
    )


def _merges(ids: pd.Series, code: str) -> bool:
    """Return whether a reading takes more than a tenth of the expected ids for others."""
    return _read(ids.drop_duplicates(), code).nunique() < 0.9 * ids.nunique()
