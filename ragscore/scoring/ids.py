"""Ids of hits that don't join the expected ones, and the change that would join them.

One count: how many expected ids are among the hits of their own query as they are, and how many
would be under each of six readings. In large runs the hits of some of the queries with unmet
targets are read, evenly spaced.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragscore.frames.codes import codes_of, is_among, is_present, lookup
from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import excerpt, name_list
from ragscore.frames.typing import Codes, Flags
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


def best_reading(own: pd.DataFrame, wanted: pd.DataFrame) -> tuple[str, Flags, Flags]:
    """Return the reading that joins most wanted ids with own ones of their query, "" for none.

    And which wanted ids are joined as they are, and so. Both frames have the columns query, a
    number, and id. A reading that takes more than a tenth of the wanted ids for others joins none.
    """
    sides = [(one["query"].to_numpy(), *pd.factorize(one["id"].astype("str").fillna("")))
             for one in (own, wanted)]  # fmt: skip
    joined: dict[str, Flags] = {}
    for words, code in {"": "", **READINGS}.items():
        read = [_read(pd.Series(ids, dtype="str"), code) for _, _, ids in sides]
        known = pd.Index(read[1].unique())
        place = [lookup(ids, known)[at] for ids, (_, at, _) in zip(read, sides, strict=True)]
        keys = [np.where(at < 0, -1, query * len(known) + at)
                for at, (query, _, _) in zip(place, sides, strict=True)]  # fmt: skip
        joined[words] = np.isin(keys[1], keys[0]) & (len(known) >= KEPT * len(sides[1][2]))
    words = max(joined, key=lambda one: joined[one].sum())
    return words, joined[""], joined[words]


def join_notes(rows: "Rows") -> Iterator[str]:
    """Say of which runs ids don't join, wholly or in part, and what would join them.

    Runs of which the same is said share a note.

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
    has_hits, said = (rows.n_hits > 0) & (rows.query >= 0), dict[str, list[str]]()
    for level in levels:
        golden, column = targets_at(rows.of_hits, level), COLUMN[level]
        if column not in golden.targets or not is_present(golden.targets[column]).any():
            continue
        is_given = is_present(golden.targets[column])
        query = numbered(golden)[0]
        n_wanted = np.bincount(query[is_given], minlength=len(golden.queries) + 1)[rows.query]
        met_row, _, met_target = rows.matched_at(level).met
        n_met = np.bincount(met_row[is_given[met_target]], minlength=rows.n)
        for run, run_id in enumerate(rows.runs.astype("str")):
            of_run = np.flatnonzero(has_hits & (rows.run == run))
            lacks = of_run[n_met[of_run] < n_wanted[of_run]]
            if not len(lacks) or len(said) > MOST_NOTES:
                continue
            counts = [int(one[of_run].sum()) for one in (n_met, n_wanted, rows.n_hits)]
            if note := _note(rows, run, f"(level {level})", column, golden, lacks, counts):
                said.setdefault(note, []).append(run_id)
    for note, run_ids in said.items():
        yield f"ids of {name_list(run_ids)} {note}"


def _note(
    rows: "Rows", run: int, at: str, column: str, golden: Golden, lacks: Codes,
    counts: list[int],
) -> str:  # fmt: skip
    """Return the note on one run, from the hits of some rows that lack a target; "" if all is well.

    `counts` are those of the whole run: expected ids that are met, all of them, and hits.
    """
    hits, (n_now, could, n_hits) = rows.results.hits, counts
    is_few = n_now < FEW * min(could, n_hits)
    step = int(np.ceil(rows.n_hits[lacks].sum() / max(SAMPLE, PER_HIT * n_hits)))
    is_asked, queries = np.zeros(rows.n + 1, dtype=bool), rows.query[lacks[::step]]
    is_asked[lacks[::step]] = True  # the last is of hits that belong to no row
    here = np.flatnonzero(is_asked[rows.row_of_hit])
    if column not in hits or not is_present(hits[column].iloc[here]).any():
        others = ", ".join(name for name in COLUMNS if name in hits)
        return f"do not join {at}: its hits have no {column}, but {others}" if is_few else ""
    query, ids = rows.query[rows.row_of_hit[here]], hits[column].iloc[here].astype("str").fillna("")
    expected = golden.targets[[column]].set_axis(["id"], axis=1).assign(query=numbered(golden)[0])
    wanted = expected[np.isin(expected["query"], queries)].dropna().astype({"id": "str"})
    words, is_now, is_so = best_reading(pd.DataFrame({"query": query, "id": ids}), wanted)
    few, is_more = (len(wanted) + 1) // 2 if is_few else LEAST, is_so & ~is_now
    least = max(min(LEAST, few), SHARE * could / step)
    if not is_few and is_more.sum() < least:
        return ""
    # as they are, if of another query
    is_known = is_among(wanted["id"], hits[column][codes_of(hits["run_id"]) == run])
    n_more, n_known = int((is_more & ~is_known).sum()), int(is_known.sum())
    shown = "; ".join(
        f"{name} {', '.join(map(excerpt, sorted(side.unique())[:3]))}"
        for name, side in (("The run has", ids), ("expected are", wanted["id"]))
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
        about = "About " if step > 1 else ""
        return f"{text}. {about}{n_more * step} more would join {words}: {lines}"
    if is_few and n_known >= max(ELSEWHERE, len(wanted) / 2):
        return (
            f"join in other queries only {at}: query_id has to mean the same query in run and"
            " golden set"
        )
    if not is_few or n_now or n_known:
        return ""  # a bad run: some ids are known
    return (
        f"{text}. Name the column that holds these ids (`columns=` of load_results), choose another"
        " level (`match=`), or take the golden set of this corpus"
    )
