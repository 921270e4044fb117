"""How an expectation is satisfied.

By any or all of the hits, with any or all of the values that it lists.

In: a choice for the whole set and, from the golden set's `satisfied_by`, those of single questions.
Out: the questions that need all, and the matches that are left where every hit must satisfy an
expectation.
"""

import numpy as np
import pandas as pd

from ragscore.frames.data import Golden
from ragscore.frames.kinds import CHOICES
from ragscore.scoring.matching import lookup


def needing_all(
    golden: Golden, query_ids: pd.Series, expectation: str, axis: str, otherwise: str
) -> pd.Index:
    """Which of these questions need all hits, or all values.

    Those that say so, and where `otherwise` is "all" those that say nothing.
    """
    queries = pd.Index(query_ids.unique())
    stated = golden.checks[golden.checks["kind"] == f"{expectation}.{axis}"]
    if not len(stated):
        return queries if otherwise == "all" else queries[:0]
    by_choice = {
        choice: lookup(
            queries.to_series(), pd.Index(stated.loc[stated["text"] == choice, "query_id"].unique())
        )
        >= 0
        for choice in CHOICES
    }
    return queries[by_choice["all"] | (~by_choice["any"] & (otherwise == "all"))]


def where_every_hit(
    pairs: pd.DataFrame,
    satisfying: pd.DataFrame,
    hits: pd.DataFrame,
    queries: pd.Index,
    run_k: pd.Series,
) -> pd.DataFrame:
    """The matches of lists of which every hit is among the `satisfying`.

    Those of other questions than `queries` stay as they are.

    Parameters
    ----------
    pairs, satisfying
        Matches (`hit`, `target`, `unknown`), and the pairs that satisfy one expectation.
    run_k
        Per run (index run_id) the lowest rank that counts as a hit.

    Returns
    -------
    Rows of `pairs`; all of a list are `unknown` where only undecided hits keep it from being
    satisfied or not.
    """
    if not len(queries) or not len(pairs):
        return pairs
    query = lookup(hits["query_id"], queries)
    run = hits["run_id"].astype("category")
    deepest = (
        run_k.reindex(run.cat.categories.astype("str"))
        .fillna(np.inf)
        .to_numpy()[run.cat.codes.to_numpy()]
    )
    cell = np.where(
        query >= 0, run.cat.codes.to_numpy().astype(np.int64) * len(queries) + query, -1
    )
    asked = np.flatnonzero((query >= 0) & (hits["rank"].to_numpy() <= deepest))
    state = np.zeros(len(hits), dtype=np.int8)  # 0: not satisfying, 1: undecided, 2: satisfying
    is_open = satisfying["unknown"].to_numpy(dtype=bool)
    state[satisfying["hit"].to_numpy()[is_open]] = 1
    state[satisfying["hit"].to_numpy()[~is_open]] = 2
    of_list = pd.Series(state[asked]).groupby(cell[asked]).min()
    of_pair = of_list.reindex(cell[pairs["hit"].to_numpy()]).fillna(2).to_numpy()
    return pairs.assign(unknown=pairs["unknown"].to_numpy(dtype=bool) | (of_pair == 1))[of_pair > 0]
