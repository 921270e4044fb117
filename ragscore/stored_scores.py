"""The stored scores of many runs as one frame: from the compact file where its rows still hold, else from each run's own.

There may be millions of rows: state and level are read as codes, and rows of runs that lie one after the other are taken in one piece.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.compact import Copied, copied_runs
from ragscore.filesystem import Place
from ragscore.frames import DataError, categorical
from ragscore.listing import Listing
from ragscore.match import LEVELS
from ragscore.policies import STATES
from ragscore.run_files import open_parquet

_CODED = {"state": STATES, "level": LEVELS}
_IDS = ["query_id", *_CODED]  # few values, and many times the same


@dataclass(frozen=True)
class _Rows:
    """Scores of runs: state and level as codes, and the other columns."""

    codes: dict[str, npt.NDArray[np.int8]]
    table: pa.Table

    def part(self, first: int, end: int) -> "_Rows":
        """A range of the rows."""
        return _Rows({name: codes[first:end] for name, codes in self.codes.items()}, self.table.slice(first, end - first))


def scores_of(there: Listing, names: list[str], metrics: list[str] | None) -> pd.DataFrame:
    """The scores of these runs in this order, all or these metrics: run_id, state, level, metrics; index query_id.

    Raises
    ------
    DataError
        A metric wasn't scored.
    """
    copied = copied_runs(there, "scores", names)
    for name, one in copied.items():
        _check_scored(there, name, one.columns, metrics)
    read = _compacted(there.root / "scores.parquet", copied, _asked((one.columns for one in copied.values()), metrics)) if copied else None
    own = _own_scores(there, [name for name in names if name not in copied], metrics)
    pieces = list(_pieces(names, own, copied, read))
    n_rows = [copied[name].n_rows if name in copied else len(own[name].table) for name in names]
    columns = _asked((copied[name].columns if name in copied else own[name].table.column_names for name in names), metrics)
    return _frame(pieces, [name for name in columns if name not in _CODED], np.repeat(np.arange(len(names)), n_rows), names)


def _asked(columns: Iterable[list[str]], metrics: list[str] | None) -> list[str]:
    """The columns to be read of runs that have these."""
    if metrics is not None:
        return [*_IDS, *dict.fromkeys(metrics)]
    distinct = {id(one): one for one in columns}.values()  # runs of a compact file share their lists
    return list(dict.fromkeys(name for one in distinct for name in one))


def _check_scored(there: Listing, name: str, columns: list[str], metrics: list[str] | None) -> None:
    if unknown := [metric for metric in metrics or () if metric not in columns]:
        file, allowed = str(there.stored[name].folder / "scores.parquet"), "rs.score(store.load(...), golden, metrics=[...])"
        raise DataError(f"{name} has no scores of {', '.join(unknown)}", file=file, field="metrics", allowed=allowed)


def _compacted(file: Place, copied: dict[str, Copied], columns: list[str]) -> tuple[_Rows, dict[str, int]]:
    """The row groups of the compact file that hold rows of these runs, and where each run's rows begin in what was read."""
    with open_parquet(file, read_dictionary=_IDS) as source:
        begins = np.cumsum([0, *(source.metadata.row_group(n).num_rows for n in range(source.num_row_groups))])
        first = np.array([one.first for one in copied.values()])
        group_of = np.searchsorted(begins, first, "right") - 1
        # A run without rows lies in no group.
        groups = sorted({group for group, one in zip(group_of.tolist(), copied.values(), strict=True) if one.n_rows})
        table = source.read_row_groups(groups, columns) if groups else source.schema_arrow.empty_table().select(columns)
    skipped = np.zeros(len(begins), dtype=np.int64)  # rows before each group that are not read
    skipped[groups] = begins[groups] - np.cumsum([0, *np.diff(begins)[groups]])[:-1]
    return _rows(table), dict(zip(copied, (first - skipped[group_of]).tolist(), strict=True))


def _own_scores(there: Listing, names: list[str], metrics: list[str] | None) -> dict[str, _Rows]:
    """The scores of runs from their own folders, several at once."""

    def read(name: str) -> _Rows:
        with open_parquet(there.stored[name].folder / "scores.parquet") as source:
            columns = [one for one in source.schema_arrow.names if one != "run_id"]
            _check_scored(there, name, columns, metrics)
            return _rows(source.read(_asked([columns], metrics), use_threads=False))  # one small file gains nothing by them

    with ThreadPoolExecutor(max_workers=pa.cpu_count()) as pool:
        return dict(zip(names, pool.map(read, names), strict=True))


def _rows(table: pa.Table) -> _Rows:
    codes = {name: _codes(table.column(name), values) for name, values in _CODED.items()}
    rest = table.drop_columns(list(_CODED))
    types = {field.name: field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in rest.schema} | {"query_id": pa.large_string()}
    schema = pa.schema(list(types.items()))
    return _Rows(codes, rest if schema.equals(rest.schema) else rest.cast(schema))


def _codes(column: pa.ChunkedArray, values: tuple[str, ...]) -> npt.NDArray[np.int8]:
    """The place of each value among these, -1 for none: found once for each entry of the column's dictionary."""
    coded = (column if pa.types.is_dictionary(column.type) else column.dictionary_encode()).unify_dictionaries().combine_chunks()
    places = pc.index_in(coded.dictionary, pa.array(values, coded.dictionary.type)).fill_null(-1).to_numpy(zero_copy_only=False)
    return np.append(places, -1).astype(np.int8)[coded.indices.fill_null(len(places)).to_numpy(zero_copy_only=False)]


def _pieces(names: list[str], own: dict[str, _Rows], copied: dict[str, Copied], read: tuple[_Rows, dict[str, int]] | None) -> Iterator[_Rows]:
    """The rows of runs in their order: one piece for those that lie one after the other in the compact file."""
    compacted, firsts = read if read is not None else (None, {})
    first = end = 0
    for name in names:
        begins = firsts.get(name, end)
        if compacted is not None and end > first and (name in own or begins != end):
            yield compacted.part(first, end)
            first = end
        if name in own:
            yield own[name]
        elif copied[name].n_rows:
            first, end = first if first < end else begins, begins + copied[name].n_rows
    if compacted is not None:
        yield compacted.part(first, end)  # with no row, it still has the columns


def _frame(pieces: list[_Rows], columns: list[str], of_run: npt.NDArray[np.int64], names: list[str]) -> pd.DataFrame:
    joined = pa.concat_tables([piece.table for piece in pieces], promote_options="default").select(columns)
    codes = {"run_id": categorical(of_run, names)}
    codes |= {name: categorical(np.concatenate([piece.codes[name] for piece in pieces]), values) for name, values in _CODED.items()}
    frame = joined.to_pandas()
    query_ids = pd.Index(frame["query_id"].astype("str"), name="query_id")
    # One block of columns after the other: inserting them one by one would copy the frame for each.
    return pd.concat([pd.DataFrame(codes), frame.drop(columns="query_id")], axis=1).set_axis(query_ids, axis=0)
