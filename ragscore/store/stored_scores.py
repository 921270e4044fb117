"""The stored scores of many runs as one frame.

From the compact file where its rows still hold, else from each run's own.

There may be millions of rows: state and level are read as codes, and rows of runs that lie one
after the other are taken in one piece.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import DataError, categorical
from ragscore.scoring.matching import LEVELS
from ragscore.scoring.policies import STATES
from ragscore.store.catalogue import Listing
from ragscore.store.compact import Copied, copied_runs
from ragscore.store.files import open_parquet
from ragscore.store.filesystem import Place

_CODED = {"state": STATES, "level": LEVELS}
_IDS = ["query_id", *_CODED]  # few values, and many times the same


@dataclass(frozen=True)
class _Rows:
    """Scores of runs.

    State and level as codes, and the other columns; of each run, where its rows begin and how many
    they are.
    """

    codes: dict[str, npt.NDArray[np.int8]]
    table: pa.Table
    first: dict[str, int]
    n_rows: dict[str, int]


def scores_of(there: Listing, names: list[str], metrics: list[str] | None) -> pd.DataFrame:
    """The scores of these runs in this order, all or these metrics.

    Run_id, state, level, metrics; index query_id.

    Raises
    ------
    DataError
        A metric wasn't scored.
    """
    copied = copied_runs(there, "scores", names)
    columns = {name: one.columns for name, one in copied.items()}
    for name, own in columns.items():
        _check_scored(there, name, own, metrics)
    read = (
        [_compacted(there.root / "scores.parquet", copied, _asked(columns.values(), metrics))]
        if copied
        else []
    )
    tables = _own_tables(there, [name for name in names if name not in copied], metrics)
    read += [_rows_of(alike) for alike in _alike(tables)]
    columns |= {name: table.column_names for name, table in tables.items()}
    return _frame(
        read,
        names,
        [name for name in _asked((columns[name] for name in names), metrics) if name not in _CODED],
    )


def with_about(there: Listing, names: list[str], scores: pd.DataFrame) -> pd.DataFrame:
    """The scores of these runs, in their order, with what chooses runs: `created_at` and `system`."""
    place = {name: at for at, name in enumerate(there.table["run_id"].astype("str"))}
    about = there.table.take([place[name] for name in names])
    n_rows = np.bincount(scores["run_id"].cat.codes.to_numpy(), minlength=len(names))
    for name in ("created_at", "system"):
        if name in about:
            scores.insert(1, name, _repeated(about[name], n_rows))
    return scores


def _repeated(values: pd.Series, n_rows: npt.NDArray[np.int64]) -> Any:
    """Each value as often as its run has rows; texts by arrow, in half the time."""
    if values.dtype != "str":
        return values.array.repeat(n_rows)
    texts = pa.array(values[n_rows > 0].tolist(), pa.large_string(), from_pandas=True)
    runs = pa.RunEndEncodedArray.from_arrays(np.cumsum(n_rows)[n_rows > 0], texts)
    return pd.array(pa.chunked_array([pc.run_end_decode(runs)]), dtype="str")


def _asked(columns: Iterable[list[str]], metrics: list[str] | None) -> list[str]:
    """The columns to be read of runs that have these."""
    if metrics is not None:
        return list(dict.fromkeys([*_IDS, *metrics]))
    # runs of a compact file share their lists
    distinct = {id(one): one for one in columns}.values()
    return list(dict.fromkeys(name for one in distinct for name in one))


def _check_scored(there: Listing, name: str, columns: list[str], metrics: list[str] | None) -> None:
    if unknown := [metric for metric in metrics or () if metric not in columns]:
        file, allowed = (
            str(there.stored[name].folder / "scores.parquet"),
            "rs.score(store.load(...), golden, metrics=[...])",
        )
        raise DataError(
            f"{name} has no scores of {', '.join(unknown)}",
            file=file,
            field="metrics",
            allowed=allowed,
        )


def _compacted(file: Place, copied: dict[str, Copied], columns: list[str]) -> _Rows:
    """The rows of these runs from the compact file, and those between them.

    All row groups that hold some.
    """
    with open_parquet(file, read_dictionary=_IDS) as source:
        begins = np.cumsum(
            [0, *(source.metadata.row_group(n).num_rows for n in range(source.num_row_groups))]
        )
        first = np.array([one.first for one in copied.values()])
        group_of = np.searchsorted(begins, first, "right") - 1
        # A run without rows lies in no group.
        groups = sorted(
            {
                group
                for group, one in zip(group_of.tolist(), copied.values(), strict=True)
                if one.n_rows
            }
        )
        table = (
            source.read_row_groups(groups, columns)
            if groups
            else source.schema_arrow.empty_table().select(columns)
        )
    skipped = np.zeros(len(begins), dtype=np.int64)  # rows before each group that are not read
    skipped[groups] = begins[groups] - np.cumsum([0, *np.diff(begins)[groups]])[:-1]
    return _rows(
        table,
        dict(zip(copied, (first - skipped[group_of]).tolist(), strict=True)),
        {name: one.n_rows for name, one in copied.items()},
    )


def _own_tables(there: Listing, names: list[str], metrics: list[str] | None) -> dict[str, pa.Table]:
    """The scores of runs from their own folders, several at once."""

    def read(name: str) -> pa.Table:
        with open_parquet(there.stored[name].folder / "scores.parquet") as source:
            # one small file gains nothing by them
            table = source.read(
                _asked([], metrics) if metrics is not None else None, use_threads=False
            )
        table = table.drop_columns("run_id") if "run_id" in table.column_names else table
        _check_scored(there, name, table.column_names, metrics)
        return table

    with ThreadPoolExecutor(max_workers=pa.cpu_count()) as pool:
        return dict(zip(names, pool.map(read, names), strict=True))


def _alike(tables: dict[str, pa.Table]) -> list[dict[str, pa.Table]]:
    """Tables of the same columns together: a thousand small ones take long one by one."""
    groups: list[tuple[pa.Schema, dict[str, pa.Table]]] = []
    for name, table in tables.items():
        group = next((group for schema, group in groups if schema.equals(table.schema)), None)
        if group is None:
            groups.append((table.schema, group := {}))
        group[name] = table
    return [group for _, group in groups]


def _rows_of(tables: dict[str, pa.Table]) -> _Rows:
    n_rows = {name: len(table) for name, table in tables.items()}
    first = dict(zip(tables, accumulate(n_rows.values(), initial=0), strict=False))
    return _rows(pa.concat_tables(tables.values()), first, n_rows)


def _rows(table: pa.Table, first: dict[str, int], n_rows: dict[str, int]) -> _Rows:
    codes = {name: _codes(table.column(name), values) for name, values in _CODED.items()}
    rest = table.drop_columns(list(_CODED))
    types = {
        field.name: field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        for field in rest.schema
    } | {"query_id": pa.large_string()}
    return _Rows(codes, rest.cast(pa.schema(list(types.items()))), first, n_rows)


def _codes(column: pa.ChunkedArray, values: tuple[str, ...]) -> npt.NDArray[np.int8]:
    """The place of each value among these, -1 for none.

    Found once for each entry of the column's dictionary.
    """
    coded = (
        (column if pa.types.is_dictionary(column.type) else column.dictionary_encode())
        .unify_dictionaries()
        .combine_chunks()
    )
    places = (
        pc.index_in(coded.dictionary, pa.array(values, coded.dictionary.type))
        .fill_null(-1)
        .to_numpy(zero_copy_only=False)
    )
    return np.append(places, -1).astype(np.int8)[
        coded.indices.cast(pa.int32()).fill_null(len(places)).to_numpy(zero_copy_only=False)
    ]


def _pieces(read: list[_Rows], names: list[str]) -> Iterator[tuple[_Rows, int, int]]:
    """The rows of runs in their order, each from where to where.

    Those that lie one after the other are one piece.
    """
    of_run = {name: rows for rows in read for name in rows.first}
    now, first, end = read[0], 0, 0
    for name in names:
        rows, begins = of_run[name], of_run[name].first[name]
        if rows is not now or begins != end:
            yield now, first, end
            now, first = rows, begins
        end = begins + rows.n_rows[name]
    yield now, first, end


def _frame(read: list[_Rows], names: list[str], columns: list[str]) -> pd.DataFrame:
    pieces = list(_pieces(read, names))
    joined = pa.concat_tables(
        [rows.table.slice(first, end - first) for rows, first, end in pieces],
        promote_options="default",
    ).select(columns)
    n_rows = {name: n for rows in read for name, n in rows.n_rows.items()}
    codes = {
        "run_id": categorical(
            np.repeat(np.arange(len(names)), [n_rows[name] for name in names]), names
        )
    }
    codes |= {
        name: categorical(
            np.concatenate([rows.codes[name][first:end] for rows, first, end in pieces]), values
        )
        for name, values in _CODED.items()
    }
    frame = joined.to_pandas()
    query_ids = pd.Index(frame["query_id"].astype("str"), name="query_id")
    # One block of columns after the other: inserting them one by one would copy the frame for each.
    return pd.concat([pd.DataFrame(codes), frame.drop(columns="query_id")], axis=1).set_axis(
        query_ids, axis=0
    )
