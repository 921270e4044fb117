"""Many small tables in one file.

What a store reads in one go after `compact`, and which of it still holds.

The file says of each run where its rows are, and what its run.json and its table were when they
were copied. Rows of a run that was overwritten, scored anew or deleted since are not read; a run
that came later is read from its own folder.

The stored scores of many runs as one frame.

From the compact file where its rows still hold, else from each run's own.

There may be millions of rows: state and level are read as codes, and rows of runs that lie one
after the other are taken in one piece.
"""

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ragscore.frames.data import DataError, categorical
from ragscore.scoring.matching import LEVELS
from ragscore.scoring.policies import STATES
from ragscore.store.catalogue import Listing, listing_of
from ragscore.store.files import Place, open_parquet, stamps, whole_file, write_parquet
from ragscore.store.noted import NOTES_KEY, written_notes
from ragscore.store.runs import notes_of

INDEX_KEY = b"ragscore.compact"  # of the file's metadata: where each run's rows are
KINDS_COMPACTED = ("scores", "hits")
ROWS_OF_GROUP = 2**17  # whole runs are put together up to about as many
_ADDED = ("created_at", "system")  # so that SQL can choose runs without a join


class Copied(NamedTuple):
    """The rows of one run in a compact file, and what they were copied from."""

    first: int
    n_rows: int
    columns: list[str]
    digest: str
    stamp: str


def compact_tables(there: Listing, kinds: tuple[str, ...]) -> pd.DataFrame:
    """Write one file per kind of table with the rows of every run, and the runs' own table.

    What came of each run.
    """
    names = there.table["run_id"].astype("str").tolist()
    done = [_copy_table(there, kind, names) for kind in kinds]
    # looked at again: what was written just before has settled meanwhile
    now = listing_of(there.root, there)
    runs = now.table.assign(run_id=now.table["run_id"].astype("str"))
    write_parquet(
        there.root / "runs.parquet",
        runs,
        notes={NOTES_KEY: written_notes(notes_of(now.stored.values()))},
    )
    return (
        pd.concat(done, ignore_index=True)
        if done
        else pd.DataFrame(columns=["table", "run_id", "n_rows", "left_out"])
    )


def _copy_table(there: Listing, kind: str, names: list[str]) -> pd.DataFrame:
    """Copy a table of all runs that have it, oldest run first, into one file."""
    files = {name: there.stored[name].folder / f"{kind}.parquet" for name in names}
    now = stamps(there.root, [f"{there.stored[name].at}/{kind}.parquet" for name in names])
    stamped = {name: stamp for name, stamp in zip(names, now, strict=True) if stamp is not None}
    shapes = {name: _shape(files[name]) for name in stamped}
    schema, of_run, left_out = _one_schema({name: shape[0] for name, shape in shapes.items()})
    rows = [
        {"table": kind, "run_id": name, "n_rows": 0, "left_out": reason}
        for name, reason in left_out.items()
    ]
    about = {str(run["run_id"]): run for run in there.table.to_dict("records")}
    index: dict[str, Copied] = {}
    first = 0
    for name, columns in of_run.items():
        index[name] = Copied(
            first, shapes[name][1], columns, there.stored[name].digest, stamped[name]
        )
        first += shapes[name][1]
        rows.append({"table": kind, "run_id": name, "n_rows": shapes[name][1], "left_out": None})
    if of_run:
        added = [name for name in _ADDED if name in there.table]
        full = pa.schema([*schema, *(_field(name) for name in added)])
        parts = (_with_about(_read(files[name]), full, about[name], added) for name in of_run)
        ids = [
            name
            for name in full.names
            if name.endswith("_id") or name in ("system", "state", "level")
        ]
        with (
            whole_file(there.root / f"{kind}.parquet") as staging,
            pq.ParquetWriter(staging, full, compression="zstd", use_dictionary=ids) as writer,
        ):
            for group in _gathered(parts):
                writer.write_table(group, row_group_size=max(len(group), 1))
            writer.add_key_value_metadata({INDEX_KEY: _written_index(index)})
    return pd.DataFrame(rows, columns=["table", "run_id", "n_rows", "left_out"]).astype(
        {"table": "str", "run_id": "str", "left_out": "str"}
    )


def _one_schema(
    schemas: dict[str, pa.Schema],
) -> tuple[pa.Schema, dict[str, list[str]], dict[str, str]]:
    """One schema for all runs, the columns of each, and why runs are left out whose columns have other types."""
    common: dict[str, pa.Field] = {}
    of_run, left_out = {}, {}
    for name, schema in schemas.items():
        other = [
            field.name
            for field in schema
            if field.name in common and common[field.name].type != field.type
        ]
        if other:
            left_out[name] = (
                f"{other[0]} is {schema.field(other[0]).type}, {common[other[0]].type} before"
            )
        else:
            common |= {field.name: field for field in schema if field.name not in common}
            of_run[name] = [field.name for field in schema if field.name != "run_id"]
    return pa.schema([field.with_nullable(True) for field in common.values()]), of_run, left_out


def _plain(field: pa.Field) -> pa.Field:
    """A field without its dictionary.

    Codes of different runs' dictionaries don't go together, and files have dictionaries anyway.
    """
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def _shape(file: Place) -> tuple[pa.Schema, int]:
    """Columns and number of rows of a table."""
    with open_parquet(file) as source:
        return pa.schema([_plain(field) for field in source.schema_arrow]), int(
            source.metadata.num_rows
        )


def _read(file: Place) -> pa.Table:
    with open_parquet(file) as source:
        table = source.read()
    return table.cast(pa.schema([_plain(field) for field in table.schema]))


def _field(name: str) -> pa.Field:
    return pa.field(name, pa.timestamp("us", "UTC") if name == "created_at" else pa.large_string())


def _with_about(
    table: pa.Table, schema: pa.Schema, about: dict[Any, Any], added: list[str]
) -> pa.Table:
    """A run's table with the columns of all, and what chooses runs."""
    for name in added:
        value = None if pd.isna(about[name]) else about[name]
        table = table.append_column(
            schema.field(name), pa.repeat(pa.scalar(value, schema.field(name).type), len(table))
        )
    columns = [
        (
            table.column(field.name)
            if field.name in table.column_names
            else pa.nulls(len(table), field.type)
        )
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _gathered(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Whole runs put together to row groups; a larger run is one by itself."""
    kept: list[pa.Table] = []
    for table in tables:
        if kept and sum(map(len, kept)) + len(table) > ROWS_OF_GROUP:
            yield pa.concat_tables(kept)
            kept = []
        kept.append(table)
    if kept:
        yield pa.concat_tables(kept)


def _written_index(index: dict[str, Copied]) -> str:
    """The index as text.

    Lists of columns, which runs share, and the rest of each run with the number of its list.
    """
    lists = list(dict.fromkeys(tuple(one.columns) for one in index.values()))
    numbers = {columns: number for number, columns in enumerate(lists)}
    return json.dumps(
        {
            "columns": lists,
            "runs": {
                name: [one.first, one.n_rows, numbers[tuple(one.columns)], one.digest, one.stamp]
                for name, one in index.items()
            },
        }
    )


def _read_index(written: bytes) -> dict[str, Copied]:
    read = json.loads(written)
    return {
        name: Copied(first, n_rows, read["columns"][number], digest, stamp)
        for name, (first, n_rows, number, digest, stamp) in read.get("runs", {}).items()
    }


def copied_runs(there: Listing, kind: str, names: list[str]) -> dict[str, Copied]:
    """Of these runs, those whose rows in the compact file are still theirs."""
    file = there.root / f"{kind}.parquet"
    if not file.exists():
        return {}
    with open_parquet(file) as source:
        index = _read_index((source.metadata.metadata or {}).get(INDEX_KEY, b"{}"))
    found = {
        name: index[name]
        for name in names
        if name in index and index[name].digest == there.stored[name].digest
    }
    now = stamps(there.root, [f"{there.stored[name].at}/{kind}.parquet" for name in found])
    return {
        name: one
        for (name, one), stamp in zip(found.items(), now, strict=True)
        if one.stamp == stamp
    }


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
        [_compacted_rows(there.root / "scores.parquet", copied, _asked(columns.values(), metrics))]
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


def _compacted_rows(file: Place, copied: dict[str, Copied], columns: list[str]) -> _Rows:
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
