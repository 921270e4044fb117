"""The tables of a run file for a store, which takes them some rows at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

Progress = Callable[[int], object]


@dataclass
class TableOnDisk:
    """One table of a run. `frames` reads it anew; `rows_per_response` counts the rows of each."""

    frames: Callable[[], Iterator[pd.DataFrame]]
    rows_per_response: npt.NDArray[np.int64]


@dataclass
class RunOnDisk:
    """A run that was read: its tables by kind, the ids of its responses, and how many failed."""

    tables: dict[str, TableOnDisk]
    query_ids: pd.Series
    n_failed: int


def run_of(frames: dict[str, pd.DataFrame]) -> RunOnDisk:
    """Return the frames of a run as tables that a store takes."""
    ids = frames["responses"]["query_id"]
    place = pd.Series(np.arange(len(ids)), index=ids)
    tables = {}
    for kind, frame in frames.items():
        counts = np.bincount(place[frame["query_id"]].to_numpy(), minlength=len(ids))
        if len(frame):
            tables[kind] = TableOnDisk(partial(iter, [frame]), counts)
    return RunOnDisk(tables, ids, int(frames["responses"]["error"].notna().sum()))
