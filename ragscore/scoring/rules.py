"""Matching of hits and targets: the rules by id and by span, and the targets of a level.

In: `hits`, and the `targets` of one match level. Out: matches. A rule is any function
`(hits, targets) -> matches`, one row per hit that meets a target, as row positions `hit` and
`target` (and, if the rule has one, `coverage`).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import (
    BLOCK,
    SmallCodes,
    are_equal,
    are_unambiguous,
    blocks,
    codes_of,
    distinct,
    equal_pairs,
    fingerprints,
    has_pair,
    is_among,
    is_present,
    lookup,
    map_pieces,
    may_be_pairs,
    pair_keys,
    small_lookup,
)
from ragscore.frames.data import DataError, Golden, Results, categorical, check_type, narrowed
from ragscore.frames.errors import check_choice
from ragscore.frames.kinds import refuse_rows
from ragscore.frames.typing import Codes, Flags

Rule = Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]

LEVELS = ("chunk", "span", "anchor", "doc", "predicate")  # finest first
ID_LEVELS = ("chunk", "span", "doc")  # whose rules join hits and targets by ids
# a match level -> the target levels it takes, where those differ
TARGET_LEVELS = {"predicate": ("predicate", "source_key")}
# checks of queries for which no hit is right, so that they have no rank; in order of precedence
RANKLESS = ("expected_empty", "forbidden_source_key")
UNKNOWN_TARGET = "unknown:"  # how a support group names a target that the query doesn't have
MIN_OVERLAP = 0.5  # share of the shorter span that must be covered
# Cells per hit up to which a bitmap of all ranks is made: it is ten times faster than looking for
# duplicates, and 50 bytes a hit are less than its ids weigh.
BITMAP_CELLS = 50


def pairs_with_equal(
    hits: pd.DataFrame, targets: pd.DataFrame, hit_column: str, target_column: str
) -> tuple[Codes, Codes]:
    """Return row positions of every (hit, target) pair of one query whose columns hold one text.

    Few hits meet a target. So hits are sifted by fingerprints (of the last bytes of their ids), and
    texts are compared for the few that are left: reading every id as text takes several times
    longer than the whole join.
    """
    none = np.zeros(0, dtype=np.int64)
    if hit_column not in hits or target_column not in targets or not len(hits):
        return none, none
    has_id = is_present(targets[target_column])
    with_id = np.flatnonzero(has_id)
    wanted = targets if has_id.all() else targets.iloc[with_id]
    if not len(wanted):
        return none, none
    queries, wanted_ids = distinct(wanted["query_id"]), wanted[target_column]
    hit_queries = small_lookup(hits["query_id"], queries)
    target_queries = lookup(wanted["query_id"], queries)
    prints = fingerprints(hits[hit_column])
    target_prints = fingerprints(wanted_ids)(slice(None))
    if len(hits) > BLOCK:
        hit, hit_prints = may_be_pairs(hit_queries, prints, target_queries, target_prints)
    else:
        hit = np.flatnonzero(hit_queries >= 0)
        hit_prints = prints(slice(None))[hit]
    target_keys = pair_keys(target_queries, target_prints, len(queries))
    if are_unambiguous(target_keys, wanted_ids):
        hit_keys = pair_keys(hit_queries[hit], hit_prints, len(queries))
        pair, target = equal_pairs(hit_keys, target_keys)
        is_same = are_equal(hits[hit_column], hit[pair], wanted_ids, target)
        return hit[pair[is_same]], with_id[target[is_same]]
    # Several ids of a query share a fingerprint, and might make more pairs than there is memory
    # for: these are joined by codes of their texts.
    ids = distinct(wanted_ids)
    hit_ids = lookup(hits[hit_column].iloc[hit], ids)
    # int64 before multiplying: 32-bit codes overflow without a word.
    hit_keys = np.where(hit_ids < 0, -1, hit_queries[hit].astype(np.int64) * len(ids) + hit_ids)
    pair, target = equal_pairs(hit_keys, target_queries * len(ids) + lookup(wanted_ids, ids))
    return hit[pair], with_id[target]


def by_chunk(hits: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
    """Match hits and targets that carry the same chunk id.

    Returns
    -------
    One row per match: `hit` and `target`, row positions in the two frames.
    """
    hit, target = pairs_with_equal(hits, targets, "chunk_id", "chunk_id")
    return pd.DataFrame({"hit": hit, "target": target})


def by_doc(hits: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
    """Match hits and targets of the same document.

    Returns
    -------
    One row per match: `hit` and `target`, row positions in the two frames.
    """
    hit, target = pairs_with_equal(hits, targets, "doc_id", "doc_id")
    return pd.DataFrame({"hit": hit, "target": target})


def by_span(share: str = "shorter", min_overlap: float = MIN_OVERLAP) -> Rule:
    """Match hits that share enough of a target's span in the same document.

    Documents are compared by doc_id; a target without one (an anchor) by its path. Spans are
    half-open, and units never mix. Several hits never add up to one match.

    Parameters
    ----------
    share
        "shorter": the shared part divided by the shorter of the two spans, so that the rule holds
        when chunks shrink and when they grow. "target": divided by the target's length.
    min_overlap
        The least share, 0 < min_overlap ≤ 1.

    Returns
    -------
    A rule whose matches carry the share as `coverage`.
    """
    if share not in ("shorter", "target"):
        raise DataError(f"found {share!r}", field="share", allowed="'shorter' or 'target'")
    if not 0 < min_overlap <= 1:
        raise DataError(
            f"found {min_overlap!r}", field="min_overlap", allowed="a share above 0, at most 1"
        )

    def rule(hits: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
        if not (has_spans(hits, "hits") and has_spans(targets, "targets")):
            none = np.zeros(0, np.int64)
            return pd.DataFrame({"hit": none, "target": none, "coverage": np.zeros(0)})
        spanned = np.flatnonzero(targets["start"].notna().to_numpy())
        has_doc = np.zeros(len(spanned), dtype=bool)
        if "doc_id" in targets:
            has_doc = targets["doc_id"].iloc[spanned].notna().to_numpy()
        docs, paths = spanned[has_doc], spanned[~has_doc]
        hit_a, target_a = pairs_with_equal(hits, targets.iloc[docs], "doc_id", "doc_id")
        hit_b, target_b = pairs_with_equal(hits, targets.iloc[paths], "path", "path")
        hit = np.concatenate([hit_a, hit_b])
        target = np.concatenate([docs[target_a], paths[target_b]])
        coverage = _coverage(hits, hit, targets, target, share)
        enough = coverage >= min_overlap
        return pd.DataFrame(
            {"hit": hit[enough], "target": target[enough], "coverage": coverage[enough]}
        )

    rule.__qualname__ = f"by_span(share={share!r}, min_overlap={min_overlap})"
    return rule


def has_spans(frame: pd.DataFrame, name: str) -> bool:
    """Tell if any row has a span.

    Raises
    ------
    DataError
        There are spans, but no column that says where they end or in what unit they are.
    """
    if "start" not in frame or not frame["start"].notna().any():
        return False
    missing = [column for column in ("end", "span_unit") if column not in frame]
    if missing:
        raise DataError(
            f"spans without the columns {missing}", field=name, allowed="start, end and span_unit"
        )
    return True


def _coverage(
    hits: pd.DataFrame, hit: Codes, targets: pd.DataFrame, target: Codes, share: str
) -> npt.NDArray[np.float64]:
    """Return each pair's share of overlap; NaN where a hit has no span or another unit."""
    start, end = (
        hits[name].take(hit).to_numpy("float64", na_value=np.nan) for name in ("start", "end")
    )
    wanted_start, wanted_end = (
        targets[name].take(target).to_numpy("float64", na_value=np.nan) for name in ("start", "end")
    )
    shared = np.minimum(end, wanted_end) - np.maximum(start, wanted_start)
    whole = wanted_end - wanted_start
    if share == "shorter":
        whole = np.minimum(end - start, whole)
    units = pd.Index(targets["span_unit"].dropna().astype("str").unique())
    unit = lookup(hits["span_unit"].take(hit), units)
    is_same_unit = (unit >= 0) & (unit == lookup(targets["span_unit"].take(target), units))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(is_same_unit, np.maximum(shared, 0) / whole, np.nan)


def targets_at(golden: Golden, level: str, keep_refusals: bool = False) -> Golden:
    """Return the golden set with only the targets that a match level can match.

    Targets of queries that should be refused are left out: those are judged by their refusal, not
    by retrieval (`keep_refusals` keeps them, as some older tools do). "span" takes every target
    that has a span. "predicate" takes expected source keys or, for queries that name none, expected
    metadata and texts; not those of queries that expect no hit at all, or only none of certain
    sources: those have no rank (see `found`).

    Parameters
    ----------
    level
        chunk, span, anchor, doc or predicate.
    """
    check_type(golden, Golden, "golden")
    check_choice(level, LEVELS, "level")
    keep = level_rows(golden, level, keep_refusals)
    targets = golden.targets
    if not keep.all():
        targets = targets[keep] if keep.any() else targets.iloc[:0]
    groups = golden.support_groups
    if len(groups):
        # Groups of the queries whose named targets are all of this level. A group that names no
        # target of its query stays, and fails.
        is_here = has_pair(groups, targets, ("query_id", "target_id"))
        is_unknown = groups["target_id"].str.startswith(UNKNOWN_TARGET).to_numpy()
        elsewhere = groups.loc[~is_here & ~is_unknown, "query_id"]
        has_targets = is_among(groups["query_id"], targets["query_id"])
        groups = groups[has_targets & ~is_among(groups["query_id"], elsewhere)]
    return narrowed(golden, targets=targets, support_groups=groups)


def targets_by_level(
    golden: Golden, levels: Iterable[str], keep_refusals: bool = False
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each level, and its targets that count where each query has a level of its own.

    A query's is the first of `levels`, finest first, at which it has a target of grade 1 or more.
    """
    done = pd.Series(dtype="str")
    for level in levels:
        targets = targets_at(golden, level, keep_refusals).targets
        is_new = ~is_among(targets["query_id"], done)
        relevant = targets[is_new & (targets["grade"] > 0)]
        done = pd.concat([done, relevant["query_id"].drop_duplicates()])
        yield level, relevant


def level_rows(golden: Golden, level: str, keep_refusals: bool = False) -> Flags:
    """Return flags of the rows of `golden.targets` that the level takes (see `targets_at`)."""
    return golden._once(
        ("level_rows", level, keep_refusals), lambda: _level_rows(golden, level, keep_refusals)
    )


def _level_rows(golden: Golden, level: str, keep_refusals: bool) -> Flags:
    targets, checks = golden.targets, golden.checks
    none = np.zeros(len(targets), dtype=bool)
    if level == "span":
        keep = targets["start"].notna().to_numpy() if "start" in targets else none
    else:
        wanted, levels = TARGET_LEVELS.get(level, (level,)), targets["level"]
        is_coded = isinstance(levels.dtype, pd.CategoricalDtype)
        is_absent = is_coded and not set(wanted) & set(levels.cat.categories.tolist())
        keep = none if is_absent else is_among(levels, wanted)
    if keep.any() and not keep_refusals:
        keep = keep & ~is_among(targets["query_id"], golden.refusals)
    if not keep.any() or level != "predicate":
        return keep
    # Where source keys are expected, metadata and texts don't count; where no hit is right, no
    # target does.
    by_key = targets.loc[is_among(targets["level"], ["source_key"]), "query_id"]
    outvoted = is_among(targets["level"], ["predicate"]) & is_among(targets["query_id"], by_key)
    rankless = checks.loc[is_among(checks["kind"], RANKLESS), "query_id"]
    return keep & ~(outvoted | is_among(targets["query_id"], rankless))


def apply_rule(rule: Rule, hits: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
    """Return the matches a rule finds, with `hit` and `target` as int64.

    A frame without rows means no match, whatever its columns.

    Raises
    ------
    DataError
        Not a matches frame, or a position that no row has. The rule is named.
    """
    check_type(rule, Callable, "rule", "a function of hits and targets")  # type: ignore[arg-type]
    matches, name = rule(hits, targets), getattr(rule, "__qualname__", "rule")
    allowed = "a DataFrame with the columns hit and target"
    check_type(matches, pd.DataFrame, name, allowed)
    if not len(matches):
        none = pd.DataFrame({"hit": np.zeros(0, np.int64), "target": np.zeros(0, np.int64)})
        return (
            none.assign(undecidable=np.zeros(0, dtype=bool)) if "undecidable" in matches else none
        )
    missing = [column for column in ("hit", "target") if column not in matches]
    if missing:
        raise DataError(f"columns {missing} are missing", field=name, allowed=allowed)
    for column, frame in (("hit", hits), ("target", targets)):
        positions = matches[column]
        if (
            isinstance(positions.dtype, np.dtype)
            and positions.dtype.kind == "i"
            and positions.min() >= 0
            and positions.max() < len(frame)
        ):
            continue
        allowed = f"row positions from 0 to {len(frame) - 1}"
        if not pd.api.types.is_integer_dtype(positions):
            raise DataError(f"{positions.dtype} values", field=f"{name}.{column}", allowed=allowed)
        is_bad = positions.isna() | ~positions.between(0, len(frame) - 1).fillna(False)
        refuse_rows(positions, is_bad.to_numpy(dtype=bool), name, allowed)
    is_int64 = all(matches[column].dtype == np.int64 for column in ("hit", "target"))
    return matches if is_int64 else matches.astype({"hit": "int64", "target": "int64"})


def with_coded_queries(results: Results, golden: Golden) -> Results:
    """Return the results with the queries of hits as codes of the queries that were answered.

    Later joins then need not read their texts again. Queries without any response become NA: their
    hits belong to no response.
    """
    answered, asked = results.responses["query_id"], golden._query_dtype
    is_same = len(answered) == len(asked.categories)
    is_same = is_same and answered.array.equals(asked.categories.array)
    dtype = asked if is_same else pd.CategoricalDtype(pd.Index(answered.unique()))
    codes = small_lookup(results.hits["query_id"], dtype.categories)
    return narrowed(results, hits=results.hits.assign(query_id=categorical(codes, dtype)))


def response_of(rows: pd.DataFrame, responses: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return the position in `responses` of the run and query of each row, -1 for none."""
    return _response_of(rows, responses).astype(np.int64, copy=False)


def _response_of(rows: pd.DataFrame, responses: pd.DataFrame) -> SmallCodes:
    queries = pd.Index(responses["query_id"].unique())
    if not len(responses) or not len(rows):
        return np.full(len(rows), -1)
    # A dense table of run × query is as large as the scores themselves, and a look-up in it needs
    # no sorting.
    run_ids = responses["run_id"].cat.categories
    known = np.full((len(run_ids) + 1, len(queries) + 1), -1)
    run_of_response = codes_of(responses["run_id"])
    known[run_of_response, lookup(responses["query_id"], queries)] = np.arange(len(responses))
    run, query = rows["run_id"], small_lookup(rows["query_id"], queries)
    if len(run_ids) == 1 and run.cat.categories.equals(run_ids) and codes_of(run).min() == 0:
        # With one run, looking up the run would be most of the work; and its queries are unique, so
        # they number the responses.
        return query if len(queries) == len(responses) else np.take(known[0], query)
    return known[lookup(run, run_ids), query]


class HitResponses(NamedTuple):
    """The response that each hit belongs to (-1: none), and the number of hits per response."""

    response: SmallCodes
    n_hits: Codes


def locate_hits(results: Results) -> HitResponses:
    """Find the response of each hit, and count the hits of each response."""
    response, n = _response_of(results.hits, results.responses), len(results.responses)
    counts = np.zeros(n + 1, dtype=np.int64)
    # Widening all of them at once would take more time than counting, and more memory than a run.
    for rows in blocks(0, len(response), max(BLOCK, 4 * n)):
        counts += np.bincount(response[rows].astype(np.int64) + 1, minlength=n + 1)
    return HitResponses(response, counts[1:])


def check_ranks(hits: pd.DataFrame, cell: SmallCodes) -> None:
    """Refuse hits of which two share run, query and rank.

    Two hits at one rank would be merged into one and lower precision without a word.

    Parameters
    ----------
    cell
        A number for each hit's run and query (-1: not asked).
    """
    rank = hits["rank"].to_numpy()
    if not len(rank):
        return
    if rank.min() < 1:
        raise DataError(f"rank {rank.min()}", field="hits.rank", allowed="ranks count from 1")
    if _are_in_order(cell, rank):
        return
    asked, depth = cell >= 0, int(rank.max()) + 1
    size = (int(cell.max()) + 1) * depth
    if size <= BITMAP_CELLS * len(rank):
        seen = np.zeros(size + 1, dtype=bool)

        def mark(first: int, last: int) -> None:
            for rows in blocks(first, last):
                place = cell[rows].astype(np.int64) * depth + rank[rows]
                seen[np.where(asked[rows], place, size)] = True  # not asked: the last place

        map_pieces(len(rank), mark)
        n_places = int(np.count_nonzero(seen[:size]))
    else:
        n_places = len(np.unique(cell[asked].astype(np.int64) * depth + rank[asked]))
    if n_places != np.count_nonzero(asked):
        places = pd.Series(cell[asked].astype(np.int64) * depth + rank[asked])
        twice = hits[asked][places.duplicated().to_numpy()].iloc[0]
        raise DataError(
            f"rank {twice['rank']} appears twice for query {twice['query_id']!r} of run"
            f" {twice['run_id']!r}",
            field="hits.rank",
            allowed="ranks must be 1, 2, 3, ...",
        )


def _are_in_order(cell: SmallCodes, rank: npt.NDArray[np.int32]) -> bool:
    """Test for hits that lie by query, then rank, no two the same.

    Most runs are stored in this order, and comparing neighbours is far cheaper than a bitmap.
    """

    def ascends(rows: slice) -> bool:
        here = slice(rows.start, rows.stop + 1)  # with the first of the next block
        step = np.diff(cell[here])
        return bool(((step > 0) | ((step == 0) & (np.diff(rank[here]) > 0))).all())

    return all(ascends(rows) for rows in blocks(0, len(rank)))
