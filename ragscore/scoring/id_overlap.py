"""The ids of hits beside the expected ones: how many join, and what keeps the others from joining.

In: hits, a golden set, and how many hits of each run were judged. Out: counts by run and level, and
what is to be said of runs whose ids can't be joined.
Ids that join in part are looked for in lists of hits: an expected id that no hit has, and a hit of
its query that a reading of `id_changes` makes equal.

A run is looked at if fewer than one in twenty of the targets it could meet is among its hits. It is
spoken of
- if its hits carry no id of the match level,
- if none of its ids is expected by any query,
- if a reading of ids would join at least five times as many expected ids as are joined, and three,
- if no hit is expected by its own query, though twenty of its ids are by others.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pandas as pd

from ragscore.frames.codes import (
    coded,
    codes_of,
    equal_pairs,
    is_among,
    is_present,
    lookup,
    texts_at,
)
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import excerpt, name_list, plural
from ragscore.frames.typing import Flags
from ragscore.scoring.id_changes import (
    Apply,
    Join,
    find_join,
    near_keys,
    reading_that_joins,
)
from ragscore.scoring.rules import LEVELS, level_rows, pairs_with_equal

ExpectedIds = Callable[[str], dict[str, pd.Index]]
"""Gives the distinct ids that a golden set expects at a level, by their column."""
# By which columns, of hits as of targets, a level joins them; in this order, where there are two.
LEVEL_COLUMNS = {
    "chunk": ("chunk_id",), "span": ("doc_id", "path"), "anchor": ("path",), "doc": ("doc_id",),
    "predicate": ("source_key",),
}  # fmt: skip
# The columns of counts in `count_ids`.
COUNTS = ("n_hits", "n_with_id", "n_ids", "n_expected_ids", "n_joined_ids", "n_joined_hits")
NEAR = ("level", "column", "run_id", "query_id", "expected", "hit")
# Up to so many hits are searched for ids that nearly join; of more, those of evenly spaced queries,
# and of all queries once a pair is found there.
MOST_HITS = 8_000
ID_COLUMNS = ("chunk_id", "doc_id", "path", "source_key")
# Below this share of the targets that a run could meet, its ids are looked at.
FEW = 0.05
# A reading is worth a word where it joins so many times, and so many, of the ids that join now.
TIMES_MORE, LEAST_MORE = 5, 3
# So many ids that only other queries expect are no accident.
ELSEWHERE = 20
# The ids of a run that are kept, the first in alphabetical order: enough to tell a reading.
MOST_IDS = 100_000
# Runs for which readings are looked for; all of them can have the same trouble.
MOST_RUNS = 10


@dataclass(frozen=True)
class JoinEvidence:
    """What is known of the joins of some runs; that of parts of runs adds up.

    Attributes
    ----------
    counts
        One row per run and level (index run_id, level): `n_hits`, `n_targets`, `n_graded` hits, and
        `n_with_id`, hits with an id of the level.
    ids
        For runs with few graded hits: column -> distinct ids.
    columns
        The columns of the hits.
    near
        Of `near_joins`.
    """

    counts: pd.DataFrame
    ids: dict[str, dict[str, pd.Index]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    near: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(NEAR)))


def expected_ids(golden: Golden, keep_refusals: bool, level: str) -> dict[str, pd.Index]:
    """Return the distinct ids that a golden set expects at a level, by their column."""

    def make() -> dict[str, pd.Index]:
        targets = golden.targets[level_rows(golden, level, keep_refusals)]
        found = {}
        for column in LEVEL_COLUMNS[level]:
            if column in targets:
                ids = targets[column].dropna()
                targets = targets[targets[column].isna()]
                if len(ids):
                    # source keys are compared whatever their case, other ids as they are
                    is_key = column == "source_key"
                    found[column] = pd.Index((ids.str.lower() if is_key else ids).unique())
        return found

    return golden._once(("expected_ids", level, keep_refusals), make)


def n_targets_with_id(golden: Golden, level: str, keep_refusals: bool) -> int:
    """Return the number of targets at a level that are met by an id."""

    def count() -> int:
        targets = golden.targets[level_rows(golden, level, keep_refusals)]
        return int(_has_id(targets, LEVEL_COLUMNS[level]).sum())

    return golden._once(("n_targets_with_id", level, keep_refusals), count)


def count_ids(results: Results, golden: Golden) -> pd.DataFrame:
    """Count the ids of hits, the expected ids, and those that both have, by run and level.

    Returns
    -------
    One row per run and match level at which the golden set expects ids: `run_id`, `level`;
    `n_hits`; `n_with_id`, hits with an id of that level; `n_ids`, how many distinct ids these have;
    `n_expected_ids`, distinct ids that the golden set expects; `n_joined_ids`, those of them that
    the run ever returned, for whatever query; `n_joined_hits`, hits whose own query expects their
    id. All are 0 or more.
    """
    expected = {level: ids for level in LEVELS if (ids := expected_ids(golden, False, level))}
    columns = {column for wanted in expected.values() for column in wanted}
    of_runs = {column: _ids_by_run(results.hits, column) for column in columns}
    rows = []
    for place, (run_id, hits) in enumerate(results.hits.groupby("run_id", observed=False)):
        for level, wanted in expected.items():
            targets = golden.targets[level_rows(golden, level)]
            is_joined = np.zeros(len(hits), dtype=bool)
            for column in wanted:
                is_joined[pairs_with_equal(hits, targets, column, column)[0]] = True
            ids = {column: of_runs[column][place] for column in wanted}
            rows.append({
                "run_id": str(run_id), "level": level, "n_hits": len(hits),
                "n_with_id": int(_has_id(hits, wanted).sum()),
                "n_ids": sum(map(len, ids.values())),
                "n_expected_ids": sum(map(len, wanted.values())),
                "n_joined_ids": _n_joined(ids, wanted), "n_joined_hits": int(is_joined.sum()),
            })  # fmt: skip
    dtypes = {"run_id": "str", "level": "str"} | dict.fromkeys(COUNTS, "int64")
    return pd.DataFrame(rows, columns=list(dtypes)).astype(dtypes)


def _has_id(hits: pd.DataFrame, columns: Iterable[str]) -> np.ndarray:
    found = [is_present(hits[column]) for column in columns if column in hits]
    return np.any(found, axis=0) if found else np.zeros(len(hits), dtype=bool)


def _ids_by_run(hits: pd.DataFrame, column: str) -> list[pd.Index]:
    """Return the distinct ids of a column for each run, by the code of its run_id."""
    n_runs = len(hits["run_id"].cat.categories)
    if column not in hits:
        return [pd.Index([], dtype="str")] * n_runs
    texts = coded(hits[column])
    codes, ids = codes_of(texts), pd.Index(texts.cat.categories.astype("str"))
    if column == "source_key":
        codes_of_lower, ids = pd.factorize(ids.str.lower())
        codes = np.append(codes_of_lower, -1)[codes]
    rows = np.flatnonzero(codes >= 0)
    pairs = pd.unique(codes_of(hits["run_id"])[rows].astype(np.int64) * len(ids) + codes[rows])
    run, place = np.divmod(pairs, max(len(ids), 1))
    order = np.argsort(run, kind="stable")
    bounds = np.searchsorted(run[order], np.arange(n_runs + 1))
    return [ids.take(place[order[first:last]]) for first, last in pairwise(bounds)]


def _n_joined(ids: dict[str, pd.Index], expected: dict[str, pd.Index]) -> int:
    """Return how many expected ids are among those of the same column."""
    return sum(
        int(is_among(wanted, ids[column]).sum())
        for column, wanted in expected.items()
        if column in ids
    )


def near_joins(
    results: Results, golden: Golden, levels: Iterable[str], keep_refusals: bool
) -> pd.DataFrame:
    """Find expected ids that no hit has, and hits of their query that some readings make equal.

    Parameters
    ----------
    results
        With coded queries, as `with_coded_queries` gives them.

    Returns
    -------
    One row per run, expected id and id of a hit (columns `NEAR`): level, column, run_id, query_id,
    expected, hit. Source keys are left out: they join whatever their case.
    """
    found = []
    for level in levels:
        targets = golden._coded.targets[level_rows(golden, level, keep_refusals)]
        for column in LEVEL_COLUMNS[level]:
            if column == "source_key" or column not in targets or column not in results.hits:
                continue
            step = max(1, -(-len(results.hits) // MOST_HITS))
            near = _near(results.hits, targets, column, step)
            if step > 1 and len(near):
                near = _near(results.hits, targets, column, 1)
            found.append(near.assign(level=level, column=column))
    found = [one for one in found if len(one)]
    return pd.concat(found, ignore_index=True)[[*NEAR]] if found else pd.DataFrame(columns=[*NEAR])


def _near(hits: pd.DataFrame, targets: pd.DataFrame, column: str, step: int) -> pd.DataFrame:
    """Return the rows of `near_joins` for one column, of every `step`-th query."""
    queries = hits["query_id"].cat.categories
    query = lookup(targets["query_id"], queries)
    is_asked = (query >= 0) & (query % step == 0) & is_present(targets[column])
    targets, query = targets[is_asked], query[is_asked]
    is_wanted = np.zeros(len(queries) + 1, dtype=bool)  # the last place is of code -1
    is_wanted[query] = True
    rows = np.flatnonzero(is_wanted[codes_of(hits["query_id"])])
    wanted = coded(targets[column])
    returned = coded(pd.Series(texts_at(hits[column], rows).to_pandas(), dtype="str"))
    sides = [pd.Series(one.cat.categories.astype("str")) for one in (wanted, returned)]
    n, ids_of_both = len(sides[0]), pd.concat(sides, ignore_index=True)
    of_both = near_keys(ids_of_both)
    is_read = any(one is not ids_of_both for one in of_both)
    if not is_read or not _may_be_near(ids_of_both, *of_both):
        return pd.DataFrame(columns=["run_id", "query_id", "expected", "hit"])
    own, own_bare = (one.iloc[:n] for one in of_both)
    their, their_bare = (one.iloc[n:] for one in of_both)
    keys = pd.Index(pd.concat(of_both).unique())
    width, n_targets = np.int64(len(keys)), np.int64(len(targets))
    run = codes_of(hits["run_id"])[rows].astype(np.int64)
    hit_query = codes_of(hits["query_id"])[rows].astype(np.int64)

    def of(side: pd.Series, texts: pd.Series, queries: np.ndarray) -> np.ndarray:
        code = codes_of(side)
        place = np.append(lookup(texts, keys), -1)[code]
        return np.where(code < 0, -1, queries * width + place)

    pairs = [
        equal_pairs(of(returned, theirs, hit_query), of(wanted, ours, query))
        for theirs, ours in ((their, own), (their_bare, own), (their, own_bare))
    ]
    hit, target = (np.concatenate(one) for one in zip(*pairs, strict=True))
    ids = {"expected": wanted.iloc[target].astype("str"), "hit": returned.iloc[hit].astype("str")}
    near = pd.DataFrame({
        "run_id": hits["run_id"].cat.categories.astype("str").to_numpy()[run[hit]],
        "query_id": queries.astype("str").to_numpy()[query[target]],
        **{name: texts.to_numpy() for name, texts in ids.items()},
    })  # fmt: skip
    is_same = (near["expected"] == near["hit"]).to_numpy(dtype=bool)
    place = run[hit] * n_targets + target
    near = near[~is_same & ~np.isin(place, place[is_same])].drop_duplicates()
    if not len(near):
        return near
    # What is returned as it is expected, if for another query, is no matter of how ids are written.
    return near[~is_among(near["expected"], hits[column])]


def _may_be_near(ids: pd.Series, whole: pd.Series, bare: pd.Series) -> bool:
    """Return True if any readings join two different ids, of whatever queries, by `near_keys`."""
    of_one = whole[~ids.duplicated()]
    return not of_one.is_unique or bool(is_among(bare[bare != whole], whole).any())


def gather(
    results: Results,
    joins: pd.DataFrame,
    expected: ExpectedIds,
    near: pd.DataFrame | None = None,
) -> JoinEvidence:
    """Collect what there is to say of the joins of some runs or parts of runs.

    Parameters
    ----------
    joins
        One row per run and level (index run_id, level): `n_hits`, `n_targets`, `n_graded`.
    expected
        Gives the ids that the whole golden set expects at a level.
    near
        Of `near_joins`.
    """
    hits, looked_at = results.hits, _has_few(joins)
    ids: dict[str, dict[str, pd.Index]] = {}
    n_with_id = joins["n_hits"].where(~looked_at, 0)
    few = joins.index[looked_at]
    if len(few):
        run_ids, run = hits["run_id"].cat.categories.astype("str"), codes_of(hits["run_id"])
        wanted = {level: expected(level) for level in few.unique("level")}
        for level, columns in wanted.items():
            with_id = np.bincount(run[_has_id(hits, columns)], minlength=len(run_ids))
            of_level = few[few.get_level_values("level") == level]
            places = run_ids.get_indexer(of_level.get_level_values("run_id"))
            n_with_id[of_level] = with_id[places]
        ids = {run_id: {} for run_id in few.unique("run_id")}
        every = {column: own for columns in wanted.values() for column, own in columns.items()}
        for column in (name for name in ID_COLUMNS if name in hits):
            for run_id, own in zip(run_ids, _ids_by_run(hits, column), strict=True):
                if run_id in ids:
                    ids[run_id][column] = _first(own, every.get(column))
    evidence = JoinEvidence(joins.assign(n_with_id=n_with_id), ids, tuple(map(str, hits.columns)))
    return evidence if near is None else replace(evidence, near=near)


def _has_few(counts: pd.DataFrame) -> Flags:
    """Flag runs with hits and targets of which hardly any meet."""
    n_hits, n_targets, n_graded = (
        counts[name].to_numpy() for name in ("n_hits", "n_targets", "n_graded")
    )
    could_meet = np.minimum(n_hits, n_targets)
    return np.asarray((could_meet > 0) & (n_graded < FEW * could_meet))


def _first(ids: pd.Index, expected: pd.Index | None) -> pd.Index:
    """Return the first of these ids in alphabetical order, and all that are expected."""
    if len(ids) <= MOST_IDS:
        return ids
    ids = ids.sort_values()
    keep = np.arange(len(ids)) < MOST_IDS
    return ids[keep if expected is None else keep | is_among(ids, expected)]


def add_up(parts: Iterable[JoinEvidence], expected: ExpectedIds) -> JoinEvidence:
    """Return what is known of whole runs from their parts."""
    found = list(parts)
    counts = pd.concat([part.counts for part in found])
    counts = counts.groupby(level=[0, 1], sort=False).sum()
    wanted: dict[str, pd.Index] = {}
    ids: dict[str, dict[str, pd.Index]] = {}
    for level in counts.index.unique("level") if any(part.ids for part in found) else ():
        wanted |= expected(level)
    for part in found:
        for run_id, columns in part.ids.items():
            mine = ids.setdefault(run_id, {})
            for column, own in columns.items():
                both = own.union(mine[column], sort=False) if column in mine else own
                mine[column] = _first(both, wanted.get(column))
    names = dict.fromkeys(name for part in found for name in part.columns)
    near = [part.near for part in found if len(part.near)]
    evidence = JoinEvidence(counts, ids, tuple(names))
    return replace(evidence, near=pd.concat(near, ignore_index=True)) if near else evidence


def join_notes(evidence: JoinEvidence, expected: ExpectedIds) -> list[str]:
    """Say of which runs the ids can't be joined, and what would join them.

    Raises
    ------
    DataError
        There are hits, and none of them has an id of any kind.
    """
    counts, near = evidence.counts[_has_few(evidence.counts)], evidence.near
    with_hits = evidence.counts.index[evidence.counts["n_hits"] > 0].get_level_values("run_id")
    has_id = [
        run_id not in evidence.ids or any(map(len, evidence.ids[run_id].values()))
        for run_id in with_hits
    ]
    if len(counts) and not any(has_id):
        names = ", ".join(evidence.columns)
        raise DataError(
            f"no hit has an id; the columns are {names}",
            field="hits",
            allowed=f"one of {', '.join(ID_COLUMNS)}; `columns=` of load_results names it",
        )
    said: dict[tuple[str, ...], tuple[str, list[str]]] = {}
    looked_at: dict[tuple[str, str], int] = {}
    for (run_id, level), n_graded, n_with_id in zip(
        counts.index, counts["n_graded"], counts["n_with_id"], strict=True
    ):
        ids, wanted = evidence.ids[run_id], expected(level)
        n_joined = _n_joined(ids, wanted)
        column = max(wanted, key=lambda name: len(wanted[name]))
        kind = "few"
        if not n_with_id:
            kind = "no id"
        elif not n_graded and not n_joined:
            kind = "none"
        elif not n_graded and n_joined >= ELSEWHERE:
            kind = "elsewhere"
        n_before = looked_at[kind, level] = looked_at.get((kind, level), 0) + 1
        source, join = "", None
        if kind != "elsewhere" and n_before <= MOST_RUNS:
            needed = max(LEAST_MORE, TIMES_MORE * n_joined) if kind == "few" else 1
            source, join = _best_join(ids, column, wanted[column], needed)
        if kind == "few" and join is None:
            continue
        key = (kind, level, source, "none" if join is None else join.reading.words)
        if key not in said:
            found = _found(kind, level, column, n_joined, ids, wanted[column])
            if join is not None:
                found += f". {_way_on(kind, level, column, source, join, wanted[column])}"
            elif kind != "elsewhere":
                found += (
                    ". Neither case, paths, affixes nor chunk suffixes make the difference: name"
                    " the column that holds these ids (`columns=` of load_results), choose another"
                    " level (`match=`), or take the golden set of this corpus"
                )
            said[key] = found, []
        said[key][1].append(run_id)
    if said:
        near = near[~near["run_id"].isin(counts.index.get_level_values("run_id"))]
    noted = [f"ids of {name_list(runs)} {found}" for found, runs in said.values()]
    return [*noted, *_near_notes(near, expected)]


def _near_notes(near: pd.DataFrame, expected: ExpectedIds) -> list[str]:
    """Say, by level and column, which reading would join more ids, and at what cost."""
    notes = []
    for (level, column), pairs in near.groupby(["level", "column"], sort=False):
        reading, is_joined = reading_that_joins(pairs["expected"], pairs["hit"], is_paired=True)
        pairs = pairs[is_joined]
        if not len(pairs):
            continue
        n, n_queries = pairs["expected"].nunique(), pairs["query_id"].nunique()
        wanted = pd.Series(expected(str(level))[str(column)])
        if reading.read(wanted).duplicated().sum() > n:
            continue  # what it would cut tells expected ids apart
        first = pairs.drop_duplicates("expected").head(3)
        lists = pairs.drop_duplicates(["run_id", "query_id", "hit"])
        notes.append(
            f"ids of {name_list(pairs['run_id'])} join in part (level {level}): {n} expected"
            f" {column} of {plural(n_queries, 'query')} are among the hits of their own query once"
            f" ids are compared {reading.words}"
            f" {_shown(zip(first['expected'], first['hit'], strict=True))}:"
            f" {_lines(str(column), reading.code)}{_cost(reading.read, wanted, lists)}"
        )
    return notes


def _shown(pairs: Iterable[tuple[str, str]]) -> str:
    listed = (f"{excerpt(one)} ↔ {excerpt(hit)}" for one, hit in pairs)
    return f"(golden ↔ run: {', '.join(listed)})"


def _lines(column: str, code: str, source: str = "") -> str:
    """Return what changes both sides in pandas, before they are evaluated anew."""
    hits, targets = f'results.hits["{column}"]', f'golden.targets["{column}"]'
    lines = ["from urllib.parse import unquote"] * ("unquote" in code)
    if code or source:
        of = f'results.hits["{source}"]' if source else hits
        lines.append(f"{hits} = {of}{code}")
    if code:
        lines.append(f"{targets} = {targets}{code}")
    return "; ".join(lines)


def _cost(read: Apply, expected: pd.Series, lists: pd.DataFrame | None = None) -> str:
    """Say how many ids of each side a reading takes for another one, with an example."""
    sides = [("golden set", expected, read(expected))]
    if lists is not None:
        key = lists["run_id"] + "\0" + lists["query_id"] + "\0" + read(lists["hit"])
        sides.append(("lists of hits", lists["hit"], key))
    found = []
    for side, ids, keys in sides:
        is_repeat = keys.duplicated().to_numpy()
        if is_repeat.any():
            of_first = ids[(keys == keys[is_repeat].iloc[0]).to_numpy()].unique()[:2]
            alike = " = ".join(map(excerpt, of_first))
            found.append(f"{int(is_repeat.sum())} in the {side}: {alike}")
    if not found:
        return ""
    return (
        f". With care: it takes different ids for one ({'; '.join(found)}); keep apart"
        " what are different documents"
    )


def _found(
    kind: str,
    level: str,
    column: str,
    n_joined: int,
    ids: dict[str, pd.Index],
    expected: pd.Index,
) -> str:
    """Say what keeps the ids of a run from joining."""
    at, n = f"(level {level})", len(expected)
    if kind == "elsewhere":
        return (
            f"join in other queries only {at}: {n_joined} of {n} expected {column} are among the"
            " hits, none of them where its own query is asked; query_id has to mean the same query"
            " in run and golden set"
        )
    found = {
        "no id": f"do not join {at}: no {column} is given for its hits",
        "none": f"do not join {at}: none of the {n} expected {column} is among the hits",
        "few": f"hardly join {at}: {n_joined} of {n} expected {column} are among the hits",
    }[kind]
    has = "; ".join(
        f"{name} {_three(own)}"
        for name, own in ids.items()
        if len(own) and (kind == "no id" or name == column)
    )
    return f"{found}, which have {has}; expected are {_three(expected)}"


def _three(ids: pd.Index) -> str:
    return ", ".join(map(excerpt, heapq.nsmallest(3, ids)))


def _best_join(
    ids: dict[str, pd.Index], column: str, expected: pd.Index, needed: int
) -> tuple[str, Join | None]:
    """Return the column of the hits, and the reading, that join the most expected ids."""
    best: tuple[str, Join | None] = ("", None)
    if needed > len(expected):  # so many can't be joined: most are, and runs are just bad
        return best
    for source in sorted(ids, key=lambda name: name != column):
        join = find_join(ids[source], expected)
        if join is not None and join.n_joined >= needed and (source != column or join.reading.code):
            best, needed = (source, join), join.n_joined + 1
    return best


def _way_on(kind: str, level: str, column: str, source: str, join: Join, expected: pd.Index) -> str:
    """Say which reading would join how many ids, and write the line."""
    of, reading = f"{join.n_joined} of {len(expected)}", join.reading
    if level == "chunk" and source == "doc_id" and kind != "no id":
        return (
            f"{of} name a document that is among the hits: match='doc', where the golden set names"
            " documents"
        )
    is_other = source != column
    how = [f"by the hits' {source}"] * is_other + [reading.words]
    lines = _lines(column, reading.code, source if is_other else "")
    return (
        f"{of} would join {', '.join(filter(None, how))} {_shown(join.pairs)}: {lines}"
        f"{_cost(reading.read, pd.Series(expected))}"
    )
