"""Ids of hits that don't join the expected ones, and the change that would join them.

One count: how many expected ids are among the hits of their own query as they are, and how many
would be under each of six readings. In large runs the hits of some of the queries with unmet
targets are read, evenly spaced.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import codes_of, is_among, is_present, lookup
from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt, name_list
from ragscore.frames.typing import Codes
from ragscore.scoring.targets import numbered, targets_at

if TYPE_CHECKING:
    from ragscore.scoring.rows import Rows

COLUMN = {"chunk": "chunk_id", "span": "doc_id", "anchor": "path", "doc": "doc_id",
          "predicate": "source_key"}  # fmt: skip
COLUMNS = ("chunk_id", "doc_id", "path", "source_key")  # that may hold ids
FEW = 0.05  # of the targets that a run could meet: fewer are spoken of, whatever would join them
SHARE, LEAST = 0.02, 3  # of the expected ids: so many more must be joined by a reading
SAMPLE, PER_HIT = 2_000, 0.002  # hits that are read as text: at least, and of large runs
_SUFFIX = r"(?i)(\.[a-z]\w{0,4}|#.*|(::|[_:@/-])(chunk|passage|section|page|part|[cps])?[_:-]?\d+)$"
KEPT = 0.9  # of the expected ids a reading must keep apart
MOST_NOTES = 10  # on ids
ELSEWHERE = 20  # expected ids found in other queries: fewer may be there by chance
READINGS = {  # words -> the end of the line of pandas that reads ids so
    "in lower case": ".str.strip().str.lower()",
    "without scheme and www.": r'.str.replace(r"(?i)^(\w+://)?(www\.)?", "", regex=True)',
    "without slashes at the ends": '.str.strip("/")',
    "by the last part of their path": r'.str.replace(r"^.*[/\\:](.)", r"\1", regex=True)',
    "without extension or chunk number": f'.str.replace(r"{_SUFFIX}", "", regex=True)',
    "without zero padding": r'.str.replace(r"(^|\D)0+(\d)", r"\1\2", regex=True)',
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
        if n > n_best and read.nunique() >= KEPT * wanted.nunique():
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
            f"no hit has an id; the columns are {', '.join(map(str, hits))}",
            field="hits",
            allowed=f"one of {', '.join(COLUMNS)}; `columns=` of load_results names it",
        )
    for level in levels:
        targets, column = targets_at(rows.of_hits, level).targets, COLUMN[level]
        if column in targets and is_present(targets[column]).any():
            yield from _level_notes(rows, level, column)


def _level_notes(rows: "Rows", level: str, column: str) -> Iterator[str]:
    """Say what there is to say of one level; runs of which the same is said share a note."""
    golden, n_queries = targets_at(rows.of_hits, level), len(rows.golden.queries)
    is_given = is_present(golden.targets[column])
    query = numbered(golden)[0][is_given]
    expected = np.bincount(query, minlength=n_queries)
    met_row, _, met_target = rows.matched_at(level).met
    n_met = np.bincount(met_row[is_given[met_target]], minlength=rows.n)
    said: dict[str, list[str]] = {}
    for number, run_id in enumerate(rows.runs.astype("str")):
        of_run = slice(number * n_queries, (number + 1) * n_queries)
        n_hits, n_now = rows.n_hits[of_run], int(n_met[of_run].sum())
        lacks = np.flatnonzero((n_hits > 0) & (n_met[of_run] < expected))
        could = int(expected[n_hits > 0].sum())
        if not len(lacks) or len(said) > MOST_NOTES:
            continue
        budget = max(SAMPLE, PER_HIT * int(n_hits.sum()))
        step = max(int(np.ceil(n_hits[lacks].sum() / budget)), 1)
        wanted = golden.targets.loc[is_given, column], query
        is_few = n_now < FEW * min(could, int(n_hits.sum()))
        note = _note(
            rows, number, level, column, wanted, lacks[::step], (n_now, could), step, is_few
        )
        if note:
            said.setdefault(note, []).append(run_id)
    for note, run_ids in said.items():
        yield f"ids of {name_list(run_ids)} {note}"


def _note(
    rows: "Rows", run: int, level: str, column: str, wanted: tuple[pd.Series, Codes], some: Codes,
    counts: tuple[int, int], step: int, is_few: bool,
) -> str:  # fmt: skip
    """Return the note on one run, from the hits of some of its queries; "" if nothing is amiss."""
    hits, n_queries, at = rows.results.hits, len(rows.golden.queries), f"(level {level})"
    is_asked = np.zeros(rows.n + 1, dtype=bool)
    is_asked[run * n_queries + some] = True
    here = np.flatnonzero(is_asked[rows.row_of_hit])
    is_own = is_asked[run * n_queries + wanted[1]]
    if column not in hits or not is_present(hits[column].iloc[here]).any():
        others = ", ".join(name for name in COLUMNS if name in hits)
        return f"do not join {at}: its hits have no {column}, but {others}" if is_few else ""
    own, expected = (
        one.astype("str").fillna("") for one in (hits[column].iloc[here], wanted[0][is_own])
    )
    sides = [(pd.factorize(ids), query) for ids, query in (
        (own, rows.row_of_hit[here] - run * n_queries), (expected, wanted[1][is_own]))]  # fmt: skip
    joined = {words: _is_joined(sides, code) for words, code in {"": "", **READINGS}.items()}
    words = max(joined, key=lambda one: joined[one].sum())
    (n_now, could), few = counts, (len(expected) + 1) // 2 if is_few else LEAST
    least = max(min(LEAST, few), SHARE * could / step)
    n_more = int(joined[words].sum() - joined[""].sum())
    if not is_few and n_more < least:
        return ""
    of_run = hits[column][codes_of(hits["run_id"]) == run]
    is_known = is_among(expected, of_run)  # as they are, if of another query
    n_more = int((joined[words] & ~joined[""] & ~is_known).sum())
    if not is_few and n_more < least:
        return ""
    shown = "; ".join(
        f"{name} {', '.join(map(excerpt, sorted(ids.unique())[:3]))}"
        for name, ids in (("The run has", own), ("expected are", expected))
    )
    text = (
        f"{'do not join' if is_few else 'join in part'} {at}: {n_now} of {could} expected {column}"
        f" are among the hits of their query. {shown}"
    )
    if n_more >= least:
        lines = "; ".join(
            f'{frame}["{column}"] = {frame}["{column}"]{READINGS[words]}'
            for frame in ("results.hits", "golden.targets")
        )
        return f"{text}. {'About ' if step > 1 else ''}{n_more * step} more would join {words}: {lines}"
    n_elsewhere = int(is_known.sum())
    if n_elsewhere >= max(ELSEWHERE, len(expected) / 2):
        return (
            f"join in other queries only {at}: query_id has to mean the same query in run and"
            " golden set"
        )
    if n_now or n_elsewhere:
        return ""  # a bad run: some ids are known
    return (
        f"{text}. Name the column that holds these ids (`columns=` of load_results), choose another"
        " level (`match=`), or take the golden set of this corpus"
    )


def _is_joined(sides: Any, code: str) -> np.ndarray:
    """Return which wanted ids are among the hits of their query once both are read so."""
    (own, own_query), (wanted, wanted_query) = sides
    read = [_read(pd.Series(ids, dtype="str"), code) for _, ids in (own, wanted)]
    known = pd.Index(read[1].unique())
    if len(known) < KEPT * len(wanted[1]):
        return np.zeros(len(wanted[0]), dtype=bool)  # a reading that takes expected ids for others
    keys = [
        np.where(code < 0, -1, query * len(known) + code)
        for code, query in (
            (lookup(read[0], known)[own[0]], own_query),
            (lookup(read[1], known)[wanted[0]], wanted_query),
        )
    ]
    is_joined: np.ndarray = np.isin(keys[1], keys[0])
    return is_joined
