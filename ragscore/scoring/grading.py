"""What hits earn by the targets they meet.

Matches -> two sparse frames, `graded` and `found`, from which every ranking metric is computed.

In: hits, the targets of one level, and a rule or its matches. Out: one row per judged hit, and one
per target met.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import Codes, codes_of, distinct, lookup
from ragscore.frames.data import DataError, categorical, check_type
from ragscore.frames.pairs import numbered
from ragscore.scoring.matching import Rule, apply_rule, by_doc


def grade_hits(
    hits: pd.DataFrame, targets: pd.DataFrame, rule: Rule = by_doc
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Judge hits against targets: what each hit is worth, and where each target was first met.

    A target is paid by the first hit that meets it, so a document returned as three chunks earns
    once. The price: when one hit meets targets of grade 3 and 2, it earns the 3; recall is then 1
    while nDCG@3 is .787.

    Parameters
    ----------
    hits, targets
        Frames of these kinds; `targets` of one level (see `at_level`). Rows may come in any order.
    rule
        `by_chunk`, `by_doc`, `by_span()`, `by_anchor()`, or any function (hits, targets) ->
        matches. Pairs that it marks as `unknown` count as misses here.

    Returns
    -------
    graded
        One row per judged hit (run_id, query_id, rank): `grade`, the best grade it met; `gain`, the
        best grade among the targets it is the first to meet (0: none); `n_found`, how many targets
        of grade ≥ 1 it is the first to meet.
    found
        One row per target of grade ≥ 1 met (run_id, query_id, target_id): its `grade` and first
        `rank`.

    Raises
    ------
    DataError
        The rule returned no matches frame, a position that no row has, or a pair from two different
        queries.
    """
    check_type(hits, pd.DataFrame, "hits")
    check_type(targets, pd.DataFrame, "targets")
    graded, found = grade_matches(
        decided(apply_rule(rule, hits, targets)),
        hits,
        targets,
        getattr(rule, "__qualname__", "rule"),
    )
    return graded.astype({"query_id": "str"}), found.astype({"query_id": "str"})


def decided(matches: pd.DataFrame) -> pd.DataFrame:
    """The matches without those that the rule could not decide."""
    return matches[~matches["unknown"].to_numpy(dtype=bool)] if "unknown" in matches else matches


def grade_matches(
    matches: pd.DataFrame, hits: pd.DataFrame, targets: pd.DataFrame, rule_name: str = "rule"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the hits earn by these matches.

    The frames `graded` and `found` of `grade_hits`, with query_id as a category.
    """
    hit, target = matches["hit"].to_numpy(), matches["target"].to_numpy()
    dtype = targets["query_id"].dtype
    dtype = (
        dtype
        if isinstance(dtype, pd.CategoricalDtype)
        else pd.CategoricalDtype(distinct(targets["query_id"]))
    )
    queries = dtype.categories
    query_of_target = lookup(targets["query_id"], queries)
    query = query_of_target[target]
    if (lookup(hits["query_id"].iloc[hit], queries) != query).any():
        raise DataError(
            "the rule matched a hit with a target of another query",
            field=rule_name,
            allowed="pairs of one query",
        )
    known_as = numbered(query_of_target, targets["target_id"])
    run_ids = (
        hits["run_id"]
        if isinstance(hits["run_id"].dtype, pd.CategoricalDtype)
        else hits["run_id"].astype("category")
    )
    run = codes_of(run_ids)[hit].astype(np.int64)
    # Arrays from here on: only matched pairs are ever sorted, a few per cent of the hits, and
    # frames would cost more than the work on them.
    cell, rank, one = run * len(queries) + query, hits["rank"].to_numpy()[hit], known_as[target]
    if not _ascend(cell, rank, one):
        order = np.lexsort((one, rank, cell))
        cell, rank, one, run, target = (
            cell[order],
            rank[order],
            one[order],
            run[order],
            target[order],
        )
    grade = targets["grade"].to_numpy()[target]
    is_first = ~pd.Index(run * (int(known_as.max(initial=0)) + 1) + one).duplicated()
    earns = {
        "grade": grade,
        "gain": np.where(is_first, grade, 0),
        "n_found": is_first & (grade > 0),
    }
    begins = np.flatnonzero((np.diff(cell, prepend=-1) != 0) | (np.diff(rank, prepend=-1) != 0))
    graded = _named(cell[begins], rank[begins], run_ids, dtype) | {
        name: _by_hit(values, begins, name) for name, values in earns.items()
    }
    met = is_first & (grade > 0)
    found = _named(cell[met], rank[met], run_ids, dtype) | {
        "target_id": targets["target_id"].take(target[met]).array,
        "grade": grade[met],
    }
    return pd.DataFrame(graded), pd.DataFrame(
        {name: found[name] for name in ("run_id", "query_id", "target_id", "grade", "rank")}
    )


def _ascend(cell: Codes, rank: npt.NDArray[np.int32], one: Codes) -> bool:
    """Whether matched pairs are ordered by cell, rank and target.

    Those of hits that lie query by query are.
    """
    by_cell, by_rank, by_one = np.diff(cell), np.diff(rank), np.diff(one)
    return bool(
        (
            (by_cell > 0) | ((by_cell == 0) & ((by_rank > 0) | ((by_rank == 0) & (by_one >= 0))))
        ).all()
    )


def _by_hit(
    values: npt.NDArray[np.generic], begins: npt.NDArray[np.int64], name: str
) -> npt.NDArray[np.int32]:
    """The best grade and gain, the sum of targets found, of the pairs of each hit."""
    if not len(begins):
        return np.zeros(0, np.int32)
    how = np.add if name == "n_found" else np.maximum
    return how.reduceat(values.astype(np.int32), begins).astype(np.int32, copy=False)


def _named(
    cell: npt.NDArray[np.int64],
    rank: npt.NDArray[np.int32],
    run_ids: pd.Series,
    queries: pd.CategoricalDtype,
) -> dict[str, Any]:
    """Run, query and rank of matched pairs, with their names again."""
    run, query = np.divmod(cell, max(len(queries.categories), 1))
    return {
        "run_id": categorical(run, run_ids.dtype),
        "query_id": categorical(query, queries),
        "rank": rank,
    }
