"""Tables of several runs read together.

Joined as arrow holds them and made frames of once, which for small runs takes a fraction of the
time.

In: stored runs, and their rows of the runs frame. Out: the `Results` that they are one by one.
"""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ragscore.frames.data import DataError, Results, categorical, concat_results, conform
from ragscore.store.files import columns_without, known_columns, open_parquet
from ragscore.store.filesystem import file_names
from ragscore.store.runs import Stored
from ragscore.store.tables import FRAMES, read_run

MANY_ROWS = 2**16  # for which handing columns to threads pays


class _OddTable(Exception):
    """A table that isn't as the store writes it."""


def read_runs(
    runs: list[Stored],
    about: pd.DataFrame,
    kinds: tuple[str, ...] = FRAMES,
    without: tuple[str, ...] = (),
) -> Results:
    """Runs as they were saved.

    Parameters
    ----------
    about
        Their rows of the runs frame, in the same order.
    kinds
        The tables to read; responses always are.
    without
        Columns of hits and chunks that aren't needed; "x_*" are all those of your own.
    """
    about = about.assign(run_id=about["run_id"].astype("str")).reset_index(drop=True)
    try:
        there = [file_names(run.folder) for run in runs]
        frames: dict[str, Any] = {}
        for kind in kinds if "responses" in kinds else ("responses", *kinds):
            found = [
                n
                for n, names in enumerate(there)
                if kind == "responses" or f"{kind}.parquet" in names
            ]
            tables = {
                n: _table(runs[n], kind, without if kind in ("hits", "chunks") else ())
                for n in found
            }
            frames[kind] = _frame(
                {n: table for n, table in tables.items() if len(table) or kind == "responses"},
                kind,
                about["run_id"],
            )
        return Results(
            runs=about, **{kind: frame for kind, frame in frames.items() if frame is not None}
        )
    # one by one: what can be read is, and what can't is named
    except (DataError, pa.ArrowException, _OddTable):
        return concat_results([read_run(run, about.iloc[n : n + 1]) for n, run in enumerate(runs)])


def _table(run: Stored, kind: str, without: tuple[str, ...]) -> pa.Table:
    """A table of one run without its run_id, which must be the run's own in every row."""
    with open_parquet(run.folder / f"{kind}.parquet") as source:
        table = source.read(
            known_columns(columns_without(source, without), kind),
            use_threads=source.metadata.num_rows > MANY_ROWS,
        )
    if "run_id" not in table.column_names or not _is_all(table["run_id"], run.run_id):
        raise _OddTable
    return table.drop_columns(["run_id"])


def _is_all(column: pa.ChunkedArray, run_id: str) -> bool:
    if column.null_count or not pa.types.is_dictionary(column.type):
        return False
    return all(
        not len(chunk) or chunk.dictionary.to_pylist() == [run_id] for chunk in column.chunks
    )


def _frame(tables: dict[int, pa.Table], kind: str, run_ids: pd.Series) -> pd.DataFrame | None:
    """The tables of runs, by their number, as one frame; None without any."""
    dtype = pd.CategoricalDtype(run_ids.tolist())
    frames = []
    for numbers in _stretches(tables):
        rows = [tables[n] for n in numbers]
        run = np.repeat(numbers, [len(table) for table in rows])
        frames.append(
            conform(pa.concat_tables(rows).to_pandas().assign(run_id=categorical(run, dtype)), kind)
        )
    return (
        frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True) if frames else None
    )


def _stretches(tables: dict[int, pa.Table]) -> list[list[int]]:
    """Runs, by their number, that follow each other and whose tables have the same columns of the same types; categories of your own stay with their run."""
    groups: list[list[int]] = []
    for number, table in tables.items():
        before = tables[groups[-1][-1]].schema if groups else None
        if (
            before is not None
            and before.equals(table.schema, check_metadata=True)
            and not any(pa.types.is_dictionary(one) for one in before.types)
        ):
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups
