"""What hits earn by the targets they meet: matches -> two sparse frames, `graded` and `found`, from which every ranking metric is computed.

In: hits, the targets of one level, and a rule or its matches. Out: one row per judged hit, and one per target met.
"""

import numpy as np
import pandas as pd

from ragscore.codes import lookup
from ragscore.frames import DataError, categorical, check_type
from ragscore.match import Rule, apply_rule, by_doc


def grade_hits(hits: pd.DataFrame, targets: pd.DataFrame, rule: Rule = by_doc) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Judge hits against targets: what each hit is worth, and where each target was first met.

    A target is paid by the first hit that meets it, so a document returned as three chunks earns once. The price: when
    one hit meets targets of grade 3 and 2, it earns the 3; recall is then 1 while nDCG@3 is .787.

    Parameters
    ----------
    hits, targets
        Frames of these kinds; `targets` of one level (see `at_level`). Rows may come in any order.
    rule
        `by_chunk`, `by_doc`, `by_span()`, `by_anchor()`, or any function (hits, targets) -> matches. Pairs that it marks as
        `unknown` count as misses here.

    Returns
    -------
    graded
        One row per judged hit (run_id, query_id, rank): `grade`, the best grade it met; `gain`, the best grade among
        the targets it is the first to meet (0: none); `n_found`, how many targets of grade ≥ 1 it is the first to meet.
    found
        One row per target of grade ≥ 1 met (run_id, query_id, target_id): its `grade` and first `rank`.

    Raises
    ------
    DataError
        The rule returned no matches frame, a position that no row has, or a pair from two different queries.
    """
    check_type(hits, pd.DataFrame, "hits")
    check_type(targets, pd.DataFrame, "targets")
    return grade_matches(decided(apply_rule(rule, hits, targets)), hits, targets, getattr(rule, "__qualname__", "rule"))


def decided(matches: pd.DataFrame) -> pd.DataFrame:
    """The matches without those that the rule could not decide."""
    return matches[~matches["unknown"].to_numpy(dtype=bool)] if "unknown" in matches else matches


def grade_matches(matches: pd.DataFrame, hits: pd.DataFrame, targets: pd.DataFrame, rule_name: str = "rule") -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the hits earn by these matches: the frames `graded` and `found` of `grade_hits`."""
    hit, target = matches["hit"].to_numpy(), matches["target"].to_numpy()
    queries = pd.Index(targets["query_id"].unique())
    query = lookup(targets["query_id"], queries)[target]
    if (lookup(hits["query_id"].iloc[hit], queries) != query).any():
        raise DataError("the rule matched a hit with a target of another query", field=rule_name, allowed="pairs of one query")
    run_ids = hits["run_id"].astype("category")
    pairs = pd.DataFrame({
        "cell": run_ids.cat.codes.to_numpy()[hit].astype(np.int64) * len(queries) + query,
        "rank": hits["rank"].to_numpy()[hit],
        "target": targets.groupby(["query_id", "target_id"], sort=False).ngroup().to_numpy()[target],
        "grade": targets["grade"].to_numpy()[target],
        "row": target,
    })  # fmt: skip
    # Only matched pairs are ever sorted: they are a few per cent of the hits.
    pairs = pairs.iloc[np.lexsort((pairs["target"], pairs["rank"], pairs["cell"]))].reset_index(drop=True)
    is_first = ~pairs.duplicated(["cell", "target"]).to_numpy()
    relevant = (pairs["grade"] > 0).to_numpy()
    pairs = pairs.assign(gain=np.where(is_first, pairs["grade"], 0), n_found=(is_first & relevant).astype("int32"))
    begins = np.flatnonzero((np.diff(pairs["cell"], prepend=-1) != 0) | (np.diff(pairs["rank"], prepend=-1) != 0))
    graded = _named(pairs.iloc[begins], run_ids, queries).assign(**{
        name: how.reduceat(pairs[name].to_numpy(), begins).astype("int32") if len(begins) else np.zeros(0, "int32")
        for name, how in (("grade", np.maximum), ("gain", np.maximum), ("n_found", np.add))
    })  # fmt: skip
    met = pairs[is_first & relevant]
    found = _named(met, run_ids, queries).assign(target_id=targets["target_id"].iloc[met["row"]].to_numpy(), grade=met["grade"].to_numpy())
    return graded, found[["run_id", "query_id", "target_id", "grade", "rank"]]


def _named(pairs: pd.DataFrame, run_ids: pd.Series, queries: pd.Index) -> pd.DataFrame:
    """Run, query and rank of matched pairs, with their names again."""
    run, query = np.divmod(pairs["cell"].to_numpy(), max(len(queries), 1))
    return pd.DataFrame({
        "run_id": categorical(run, run_ids.dtype),
        "query_id": pd.Series(queries.astype("str")).take(query).reset_index(drop=True).astype("str"),
        "rank": pairs["rank"].to_numpy(),
    })  # fmt: skip
