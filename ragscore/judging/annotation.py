"""A random sample of judged answers for people to label, to correct the judge by."""

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError
from ragscore.judging.reliability import values_of
from ragscore.judging.run import Judged


def sample_for_annotation(judged: Judged, n: int = 50, *, seed: int = 0) -> pd.DataFrame:
    """Draw a random sample of judged answers for people to label, to correct the judge by.

    All runs get the same queries, as far as they were judged: differences of runs
    (`corrected_differences`) need labels on both sides.

    Parameters
    ----------
    n
        Number of answers per run; if fewer are judged, all of them are drawn.

    Returns
    -------
    One row per drawn response, in the order of the run's responses: run_id, query_id, query,
    answer.

    Raises
    ------
    DataError
        n below 1.

    Examples
    --------
    >>> judged.sample_for_annotation(50).to_csv("to_label.csv")
    """
    if n < 1:
        raise DataError(f"found {n}", field="n", allowed="at least 1")
    results = judged.results
    keys = ["run_id", "query_id"]
    cells = values_of(results, results)[keys].drop_duplicates()
    rows = results.responses.astype({"run_id": "str"}).merge(cells, on=keys)
    rng = np.random.default_rng(seed)
    ids = pd.Index(rows["query_id"].unique())
    place = np.argsort(rng.permutation(len(ids)))  # of every query in one random order
    rows = rows.assign(place=place[ids.get_indexer(pd.Index(rows["query_id"]))])
    parts = [
        part[(part["place"].rank() <= n).to_numpy()]
        for _, part in rows.groupby("run_id", sort=False)
    ]
    sample = pd.concat(parts) if parts else rows
    return sample.reindex(columns=[*keys, "query", "answer"]).reset_index(drop=True)
