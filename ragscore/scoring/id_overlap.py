"""The ids of hits beside the expected ones: how many join, and what keeps the others from joining.

In: hits, a golden set, and how many hits of each run were judged. Out: counts by run and level, and
what is to be said of runs whose ids can't be joined.
Ids that join in part are looked for in lists of hits: an expected id that no hit has, and a hit of
its query that a reading of `id_changes` makes equal.

A run is looked at if fewer than one in twenty of the targets it could meet is among its hits. It is
spoken of
- if its hits carry no id of the match level,
- if none of its ids is expected by any query,
- if a change of ids would join at least five times as many expected ids as are joined, and three,
- if no hit is expected by its own query, though twenty of its ids are by others.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.compute as pc

from ragscore.frames.codes import (
    arrow_texts,
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
from ragscore.scoring.id_changes import (
    CUTTING,
    READINGS,
    Changes,
    Join,
    find_join,
    near_keys,
    read_as,
    readings_that_join,
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
MOST_HITS = 20_000
ID_COLUMNS = ("chunk_id", "doc_id", "path", "source_key")
# Below this share of the targets that a run could meet, its ids are looked at.
FEW = 0.05
# A change is worth a word where it joins so many times, and so many, of the ids that join now.
TIMES_MORE, LEAST_MORE = 5, 3
# So many ids that only other queries expect are no accident.
ELSEWHERE = 20
# The ids of a run that are kept, the first in alphabetical order: enough to tell a change.
MOST_IDS = 100_000
# Runs for which changes are looked for; all of them can have the same trouble.
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
    rows = []
    for run_id, hits in results.hits.groupby("run_id", observed=False):
        for level, wanted in expected.items():
            targets = golden.targets[level_rows(golden, level)]
            is_joined = np.zeros(len(hits), dtype=bool)
            for column in wanted:
                is_joined[pairs_with_equal(hits, targets, column, column)[0]] = True
            ids = {column: _distinct_ids(hits, column) for column in wanted}
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


def _distinct_ids(
    hits: pd.DataFrame, column: str, rows: npt.NDArray[np.int64] | None = None
) -> pd.Index:
    """Return the distinct ids of a column of the hits, or of some of their rows."""
    if column not in hits:
        return pd.Index([], dtype="str")
    texts = arrow_texts(hits[column]) if rows is None else texts_at(hits[column], rows)
    ids = pc.unique(texts).drop_null()
    if column == "source_key":
        ids = pc.unique(pc.utf8_lower(ids))
    return pd.Index(ids, dtype="str")


def _ids_by_run(
    hits: pd.DataFrame, column: str, rows: npt.NDArray[np.int64] | None = None
) -> list[pd.Index]:
    """Return the `_distinct_ids` of each run, by the code of its run_id."""
    runs = hits["run_id"].cat.categories
    if len(runs) == 1:
        return [_distinct_ids(hits, column, rows)]
    texts = coded(hits[column])
    codes, ids = codes_of(texts), texts.cat.categories
    if column == "source_key":
        codes_of_lower, ids = pd.factorize(ids.str.lower())
        codes = np.append(codes_of_lower, -1)[codes]
    rows = np.flatnonzero(codes >= 0) if rows is None else rows[codes[rows] >= 0]
    pairs = pd.unique(codes_of(hits["run_id"])[rows].astype(np.int64) * len(ids) + codes[rows])
    run, place = np.divmod(pairs, max(len(ids), 1))
    order = np.argsort(run, kind="stable")
    bounds = np.searchsorted(run[order], np.arange(len(runs) + 1))
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
    if not _may_be_near(ids_of_both, *of_both):
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
    if looked_at.any():
        run_ids, run = hits["run_id"].cat.categories.astype("str"), codes_of(hits["run_id"])
        every = cache(partial(_ids_by_run, hits))
        for level in joins.index[looked_at].get_level_values("level").unique():
            wanted = expected(level)
            n_wanted = sum(map(len, wanted.values()))
            of_level = looked_at & (joins.index.get_level_values("level") == level)
            few = joins.index[of_level].get_level_values("run_id")
            places = run_ids.get_indexer(few)
            with_id = np.bincount(run[_has_id(hits, wanted)], minlength=len(run_ids))
            n_with_id[of_level] = with_id[places]
            joined = {
                column: _ids_by_run(hits, column, np.flatnonzero(is_among(hits[column], own)))
                for column, own in wanted.items()
                if column in hits and column != "source_key"
            }
            for run_id, place in zip(few, places.tolist(), strict=True):
                # These are distinct, and all of them are expected.
                found = {column: of_runs[place] for column, of_runs in joined.items()}
                if TIMES_MORE * sum(map(len, found.values())) < n_wanted:
                    found = {name: every(name)[place] for name in ID_COLUMNS if name in hits}
                of_run = ids.setdefault(run_id, {})
                for column, own in found.items():
                    if len(own) > len(of_run.get(column, ())):
                        of_run[column] = _first(own, wanted.get(column))
    evidence = JoinEvidence(joins.assign(n_with_id=n_with_id), ids, tuple(map(str, hits.columns)))
    return evidence if near is None else replace(evidence, near=near)


def _has_few(counts: pd.DataFrame) -> pd.Series:
    """Flag runs with hits and targets of which hardly any meet."""
    could_meet = counts[["n_hits", "n_targets"]].min(axis=1)
    return (could_meet > 0) & (counts["n_graded"] < FEW * could_meet)


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
    for part in found:
        for run_id, columns in part.ids.items():
            if not wanted:
                for level in counts.index.get_level_values("level").unique():
                    wanted |= expected(level)
            mine = ids.setdefault(run_id, {})
            for column, own in columns.items():
                both = own.union(mine[column], sort=False) if column in mine else own
                mine[column] = _first(both, wanted.get(column))
    names = dict.fromkeys(name for part in found for name in part.columns)
    near = [part.near for part in found if len(part.near)]
    evidence = JoinEvidence(counts, ids, tuple(names))
    return replace(evidence, near=pd.concat(near, ignore_index=True)) if near else evidence


@dataclass(frozen=True)
class _Trouble:
    """What keeps the ids of a run from joining at a level."""

    kind: str  # no id, none, few, elsewhere
    level: str
    column: str
    n_joined: int
    ids: dict[str, pd.Index]
    expected: pd.Index


def join_notes(evidence: JoinEvidence, expected: ExpectedIds) -> list[str]:
    """Say of which runs the ids can't be joined, and what would join them.

    Raises
    ------
    DataError
        There are hits, and none of them has an id of any kind.
    """
    counts = evidence.counts[_has_few(evidence.counts)]
    if not len(counts):
        return _near_notes(evidence.near, expected)
    with_hits = evidence.counts.index[evidence.counts["n_hits"] > 0].get_level_values("run_id")
    has_id = [
        run_id not in evidence.ids or any(map(len, evidence.ids[run_id].values()))
        for run_id in with_hits
    ]
    if not any(has_id):
        names = ", ".join(evidence.columns)
        raise DataError(
            f"no hit has an id; the columns are {names}",
            field="hits",
            allowed=f"one of {', '.join(ID_COLUMNS)}; `columns=` of load_results names it",
        )
    of_runs: dict[tuple[str, str], list[tuple[str, _Trouble]]] = {}
    for (run_id, level), n_graded, n_with_id in zip(
        counts.index, counts["n_graded"], counts["n_with_id"], strict=True
    ):
        trouble = _trouble(level, n_graded, n_with_id, evidence.ids[run_id], expected(level))
        of_runs.setdefault((trouble.kind, level), []).append((run_id, trouble))
    noted = [note for runs in of_runs.values() for note in _notes(runs)]
    if noted:
        few = set(counts.index.get_level_values("run_id"))
        return [*noted, *_near_notes(evidence.near[~evidence.near["run_id"].isin(few)], expected)]
    return _near_notes(evidence.near, expected)


def _near_notes(near: pd.DataFrame, expected: ExpectedIds) -> list[str]:
    """Say, by level and column, which readings would join more ids, and at what cost."""
    notes = []
    for (level, column), pairs in near.groupby(["level", "column"], sort=False):
        names, is_joined = readings_that_join(pairs["expected"], pairs["hit"])
        pairs = pairs[is_joined]
        if not len(pairs):
            continue
        first = pairs.drop_duplicates("expected").head(3)
        shown = ", ".join(
            f"{excerpt(one)} ↔ {excerpt(hit)}"
            for one, hit in zip(first["expected"], first["hit"], strict=True)
        )
        n, n_queries = pairs["expected"].nunique(), pairs["query_id"].nunique()
        wanted = pd.Series(expected(str(level))[str(column)])
        if set(names) & set(CUTTING) and read_as(wanted, names).duplicated().sum() > n:
            continue  # what it would cut tells expected ids apart
        ids = "+".join(names)
        words = " and ".join(READINGS[name].words for name in names)
        line, cost = f"rs.evaluate(results, golden, ids={ids!r})", ""
        prefix = _prefix(pairs)
        if names == ("path",) and prefix:
            line = f"rs.evaluate(results, golden, ids=lambda one: one.removeprefix({prefix!r}))"
        elif alike := _made_equal(pairs, wanted, names):
            cost = (
                f". With care: it takes different ids for one ({'; '.join(alike)}); where those are"
                " different documents, write a function, ids=..., that keeps them apart"
            )
        notes.append(
            f"ids of {name_list(pairs['run_id'])} join in part (level {level}): {n} expected"
            f" {column} of {plural(n_queries, 'query')} are among the hits of their own query once"
            f" ids are compared {words} (golden ↔ run: {shown}): {line}{cost}"
        )
    return notes


def _prefix(pairs: pd.DataFrame) -> str:
    """Return what all ids of one side begin with and those of the other lack; else empty text."""
    both = [sorted(one, key=len) for one in zip(pairs["expected"], pairs["hit"], strict=True)]
    found = {long.removesuffix(short) for short, long in both}
    return found.pop() if len(found) == 1 else ""


def _made_equal(pairs: pd.DataFrame, expected: pd.Series, names: tuple[str, ...]) -> list[str]:
    """Say how many ids of each side these readings take for another one, with an example."""
    found = []
    of_list = pairs.drop_duplicates(["run_id", "query_id", "hit"])
    read = read_as(of_list["hit"], names)
    key = of_list["run_id"] + "\0" + of_list["query_id"] + "\0" + read
    for side, ids, keys in (
        ("golden set", expected, read_as(expected, names)),
        ("lists of hits", of_list["hit"], key),
    ):
        is_repeat = keys.duplicated().to_numpy()
        if is_repeat.any():
            of_first = ids[(keys == keys[is_repeat].iloc[0]).to_numpy()].unique()[:2]
            alike = " = ".join(map(excerpt, of_first))
            found.append(f"{int(is_repeat.sum())} in the {side}: {alike}")
    return found


def _trouble(
    level: str,
    n_graded: int,
    n_with_id: int,
    ids: dict[str, pd.Index],
    expected: dict[str, pd.Index],
) -> _Trouble:
    n_joined, column = _n_joined(ids, expected), max(expected, key=lambda name: len(expected[name]))
    kind = "few"
    if not n_with_id:
        kind = "no id"
    elif not n_graded and not n_joined:
        kind = "none"
    elif not n_graded and n_joined >= ELSEWHERE:
        kind = "elsewhere"
    return _Trouble(kind, level, column, n_joined, ids, expected[column])


def _notes(runs: list[tuple[str, _Trouble]]) -> list[str]:
    """Return one text per way to join these runs, which all have the same trouble."""
    by_remedy: dict[tuple[str, str, Changes, Changes], list[tuple[str, _Trouble, Join]]] = {}
    others: list[tuple[str, _Trouble]] = []
    for run_id, trouble in runs[:MOST_RUNS]:
        column, join = _remedy(trouble)
        if join is None:
            others.append((run_id, trouble))
        else:
            key = (column, join.words, join.of_hits, join.of_expected)
            by_remedy.setdefault(key, []).append((run_id, trouble, join))
    others += runs[MOST_RUNS:]
    notes = []
    for (column, *_), found in by_remedy.items():
        _, trouble, join = found[0]
        text = f"{_said(trouble, [name for name, *_ in found])}. {_way_on(trouble, column, join)}"
        notes.append(text)
    if others and others[0][1].kind != "few":
        trouble = others[0][1]
        text = _said(trouble, [name for name, _ in others])
        if trouble.kind in ("no id", "none"):
            text += (
                ". Neither case, paths, affixes nor chunk suffixes make the difference: name the"
                " column that holds these ids (`columns=` of load_results), choose another level"
                " (`match=`), or take the golden set of this corpus"
            )
        notes.append(text)
    return notes


def _remedy(trouble: _Trouble) -> tuple[str, Join | None]:
    """Return the column of the hits, and the changes, that join the most expected ids."""
    if trouble.kind == "elsewhere":
        return "", None
    best: tuple[str, Join | None] = ("", None)
    for column in sorted(trouble.ids, key=lambda name: name != trouble.column):
        join = find_join(trouble.ids[column], trouble.expected)
        if join is None or (column == trouble.column and not join.of_hits + join.of_expected):
            continue
        if best[1] is None or join.n_joined > best[1].n_joined:
            best = column, join
    needed = max(LEAST_MORE, TIMES_MORE * trouble.n_joined) if trouble.kind == "few" else 1
    return best if best[1] is not None and best[1].n_joined >= needed else ("", None)


def _said(trouble: _Trouble, runs: list[str]) -> str:
    column, n, n_joined = trouble.column, len(trouble.expected), trouble.n_joined
    listed = name_list(runs)
    at = f"(level {trouble.level})"
    if trouble.kind == "elsewhere":
        return (
            f"ids of {listed} join in other queries only {at}: {n_joined} of {n} expected {column}"
            " are among the hits, none of them where its own query is asked; query_id has to mean"
            " the same query in run and golden set"
        )
    has = "; ".join(
        f"{name} {_three(ids)}"
        for name, ids in trouble.ids.items()
        if len(ids) and (trouble.kind == "no id" or name == column)
    )
    if trouble.kind == "no id":
        found = f"do not join {at}: no {column} is given for its hits"
    elif trouble.kind == "none":
        found = f"do not join {at}: none of the {n} expected {column} is among the hits"
    else:
        found = f"hardly join {at}: {n_joined} of {n} expected {column} are among the hits"
    return f"ids of {listed} {found}, which have {has}; expected are {_three(trouble.expected)}"


def _three(ids: pd.Index) -> str:
    first = heapq.nsmallest(3, ids)
    return ", ".join(map(excerpt, first))


def _way_on(trouble: _Trouble, column: str, join: Join) -> str:
    """Say which change would join how many ids, and write the code."""
    to, n = trouble.column, len(trouble.expected)
    if trouble.level == "chunk" and column == "doc_id" and trouble.kind != "no id":
        return (
            f"{join.n_joined} of {n} name a document that is among the hits: match='doc', where the"
            " golden set names documents"
        )
    whose = f"by the hits' {column}" if column != to else ""
    how = ", ".join(part for part in (whose, join.words) if part)
    pair = " and ".join(map(repr, dict.fromkeys(join.pairs[0])))
    code = []
    if column != to or join.of_hits:
        code.append(f'results.hits["{to}"] = ' + _code(f'results.hits["{column}"]', join.of_hits))
    if join.of_expected:
        made = _code(f'golden.targets["{to}"]', join.of_expected)
        code.append(
            "import dataclasses; golden = dataclasses.replace(golden,"
            f" targets=golden.targets.assign({to}={made}))"
        )
    return f"{join.n_joined} of {n} would join {how} ({pair}): {'; '.join(code)}"


def _code(text: str, changes: Changes) -> str:
    for change in changes:
        text = change.code.replace("{}", text)
    return text
