"""Ids of hits that don't join the expected ones, and the change that would join them.

One count: how many expected ids are among the hits of their own query as they are, and how many
would be under each of six readings. In large runs the hits of some of the queries with unmet
targets are read, evenly spaced.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragscore.frames.codes import codes_of, is_among, lookup
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
ELSEWHERE = 20  # expected ids found in other queries: fewer may be there by chance
READINGS = {  # words -> the end of the line of pandas that reads ids so
    "in lower case": ".str.strip().str.lower()",
    "without scheme and www.": r'.str.replace(r"(?i)^(\w+://)?(www\.)?", "", regex=True)',
    "without slashes at the ends": '.str.strip("/")',
    "by the last part of their path": r'.str.replace(r"^.*[/\\:](.)", r"\1", regex=True)',
    "without extension or chunk number": f'.str.replace(r"{_SUFFIX}", "", regex=True)',
    "without zero padding": r'.str.replace(r"(^|\D)0+(\d)", r"\1\2", regex=True)',
}


def joined_by(own: pd.DataFrame, wanted: pd.DataFrame) -> pd.DataFrame:
    """Return flags of wanted ids that own ones of their row meet: as they are "", by each reading.

    Both frames have the columns row, a number, and id. A reading that takes more than a tenth of
    the wanted ids for others joins none.
    """
    sides = [(one["row"].to_numpy(), *pd.factorize(one["id"].astype("str").fillna("")))
             for one in (own, wanted)]  # fmt: skip
    joined = {}
    for words, code in {"": "", **READINGS}.items():
        # the line that a note shows is the line that is counted by
        read = [eval(f"ids{code}", {"ids": pd.Series(ids, dtype="str")}) for _, _, ids in sides]
        known = pd.Index(read[1].unique())
        place = [lookup(ids, known)[at] for ids, (_, at, _) in zip(read, sides, strict=True)]
        keys = [np.where(at < 0, -1, row * len(known) + at)
                for at, (row, _, _) in zip(place, sides, strict=True)]  # fmt: skip
        joined[words] = np.isin(keys[1], keys[0]) & (len(known) >= KEPT * len(sides[1][2]))
    return pd.DataFrame(joined)


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
        if column in targets and targets[column].notna().to_numpy().any():
            yield from _level_notes(rows, level, column)


def _level_notes(rows: "Rows", level: str, column: str) -> Iterator[str]:
    """Yield the notes on one level; runs with the same note share it."""
    golden, hits, at = targets_at(rows.of_hits, level), rows.results.hits, f"(level {level})"
    is_given = golden.targets[column].notna().to_numpy()
    query = numbered(golden)[0][is_given]
    n_wanted = np.bincount(query, minlength=len(golden.queries) + 1)[rows.query]
    met_row, _, met_target = rows.matched_at(level).met
    n_met = np.bincount(met_row[is_given[met_target]], minlength=rows.n)
    counted = (rows.n_hits > 0) & (rows.query >= 0)
    numbers = np.column_stack([n_met, n_wanted, rows.n_hits])
    lacks, counts, steps, some = counted & (n_met < n_wanted), {}, {}, list[Codes]()
    if not lacks.any():
        return
    for run in np.unique(rows.run[lacks]).tolist():
        of_run = rows.run == run
        counts[run] = numbers[of_run & counted].sum(axis=0).tolist()
        asked = np.flatnonzero(of_run & lacks)
        steps[run] = -int(-rows.n_hits[asked].sum() // max(SAMPLE, PER_HIT * counts[run][2]))
        some.append(asked[:: steps[run]])
    chosen, is_asked = np.concatenate(some), np.zeros(rows.n + 1, dtype=bool)
    is_asked[chosen] = True  # the last is of hits that belong to no row
    here = np.flatnonzero(is_asked[rows.row_of_hit])
    ids = hits[column].iloc[here] if column in hits else pd.Series(pd.NA, here, dtype="str")
    own = pd.DataFrame(
        {"row": rows.row_of_hit[here].astype(np.int64), "id": ids.astype("str").to_numpy()}
    )
    expected = pd.DataFrame({"query": query, "id": golden.targets[column][is_given].astype("str")})
    wanted = pd.DataFrame({"row": chosen, "query": rows.query[chosen]}).merge(expected, on="query")
    joined, said = joined_by(own, wanted), dict[str, list[str]]()
    own_run, wanted_run = rows.run[own["row"]], rows.run[wanted["row"]]
    sums = joined.groupby(wanted_run).sum()
    for run in counts:
        is_few = counts[run][0] < FEW * min(counts[run][1:])
        words, of = sums.loc[run].idxmax(), wanted_run == run
        if not is_few and sums.loc[run, words] - sums.loc[run, ""] < LEAST:
            continue
        returned = own["id"][own_run == run].dropna()
        parts = returned, wanted["id"][of], joined.loc[of, ""], words, joined.loc[of, words]
        if note := _note(rows, run, at, column, counts[run], steps[run], is_few, *parts):
            said.setdefault(note, []).append(str(rows.runs[run]))
    for note, run_ids in said.items():
        yield f"ids of {name_list(run_ids)} {note}"


def _note(
    rows: "Rows", run: int, at: str, column: str, counts: list[int], step: int, is_few: bool,
    ids: pd.Series, wanted: pd.Series, is_now: pd.Series, words: str, is_so: pd.Series,
) -> str:  # fmt: skip
    """Return the note on one run, from some of its rows that lack a target; "" if all is well.

    `counts` are of the whole run: expected ids that are met, all expected ids, and hits.
    """
    hits, (n_now, could, _) = rows.results.hits, counts
    if not len(ids):
        others = ", ".join(name for name in COLUMNS if name in hits)
        return f"do not join {at}: its hits have no {column}, but {others}" if is_few else ""
    few, is_more = (len(wanted) + 1) // 2 if is_few else LEAST, is_so & ~is_now
    least = max(min(LEAST, few), SHARE * could / step)
    # as they are, if of another query
    is_known = is_among(wanted, hits[column][codes_of(hits["run_id"]) == run])
    n_more, n_known = int((is_more & ~is_known).sum()), int(is_known.sum())
    shown = "; ".join(
        f"{name} {', '.join(map(excerpt, sorted(side.unique())[:3]))}"
        for name, side in (("The run has", ids), ("expected are", wanted))
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
        return f"{text}. {'About ' * (step > 1)}{n_more * step} more would join {words}: {lines}"
    if is_few and n_known >= max(ELSEWHERE, len(wanted) / 2):
        return (
            f"join only in other queries {at}: query_id has to mean the same query in run and"
            " golden set"
        )
    if not is_few or n_now or n_known:
        return ""  # a bad run: some ids are known
    return (
        f"{text}. Name the column that holds these ids (`columns=` of load_results), choose another"
        " level (`match=`), or take the golden set of this corpus"
    )
