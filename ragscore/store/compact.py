"""Copy small tables of many runs into one file, and read stored scores from there or from runs.

The file says where the rows of each run are, and which run.json named its table when copied. Rows
of a run that was overwritten, scored anew or deleted since are not read; a later run is read from
its own folder. In: the catalogue. Out: the compact files; the scores of runs as one frame.

Scores may have millions of rows: state and level are read as codes.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from itertools import accumulate, groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ragscore.frames.data import DataError, categorical
from ragscore.frames.errors import name_list, names_of
from ragscore.scoring.policies import STATES
from ragscore.scoring.rules import LEVELS
from ragscore.store.aggregates import without_rows
from ragscore.store.catalogue import Catalogue, open_catalogue
from ragscore.store.checked import StoredFile
from ragscore.store.disk import OvertakenError
from ragscore.store.draft import Draft, State, put, state_of, sweep, writing
from ragscore.store.parquet import (
    WRITTEN_WITH,
    most_decoded,
    open_parquet,
    padding,
    read_each,
    write_parquet,
)
from ragscore.store.places import file_names
from ragscore.store.run_cache import CACHE_KEY, COMPACT_FILE, CachedRun, compacted, dump_cache
from ragscore.store.runs import RUN_FILE
from ragscore.store.tables import MANY_ROWS

INDEX_KEY = b"ragscore.compact"  # of the file's metadata: where each run's rows are
KINDS_COMPACTED = ("scores", "hits")
# Whole runs share a row group up to so many rows: a few runs can be read without most of the file.
ROWS_OF_GROUP = 2**17
_ADDED = ("created_at", "system")  # so that SQL can choose runs without a join


class CompactRows(NamedTuple):
    """The rows of one run in a compact file, and what they were copied from."""

    first: int
    n_rows: int
    columns: list[str]
    digest: str


def compact_tables(catalogue: Catalogue) -> pd.DataFrame:
    """Write one file per compacted table with the rows of every run, and the table of runs.

    Return one row per table and run: `n_rows` copied, `left_out`, `file`.
    """
    root = catalogue.root
    before = state_of(root / COMPACT_FILE)
    with writing(root, "the runs and an earlier compact copy are as they were"):
        draft = Draft(root, root)
        try:
            copied = _copy_tables(catalogue, draft)
        except BaseException:
            draft.discard()
            raise
        try:
            put(draft, COMPACT_FILE, {}, before)
        except OvertakenError as error:
            raise DataError(
                "compacted by another writer meanwhile, and that copy stays",
                file=str(root / COMPACT_FILE),
                allowed="nothing more to be done, or compact() again",
            ) from error
    with suppress(DataError, OSError):  # what can't be swept now goes later
        _sweep_runs(catalogue)
    files = {kind: str(root / entry.name) for kind, entry in draft.entries.items()}
    return copied.assign(file=copied["table"].map(files).astype("str"))


def _sweep_runs(catalogue: Catalogue) -> None:
    """Sweep the folders of all runs, and of writers that never came to an end."""
    states = {run.name: run.state for run in catalogue.stored.values()}
    for name in file_names(catalogue.root):
        if name in states:
            sweep(catalogue.root / name, states[name])
        elif RUN_FILE not in (there := file_names(catalogue.root / name)) and there:
            sweep(catalogue.root / name, State())


def _copy_tables(catalogue: Catalogue, draft: Draft) -> pd.DataFrame:
    table = catalogue.table.assign(run_id=catalogue.table["run_id"].astype("str"))
    run_ids = table["run_id"].tolist()
    copied = [_copy_table(catalogue, draft, kind, run_ids) for kind in KINDS_COMPACTED]
    # Opened again: a run.json that was written just before may have settled meanwhile.
    settled = {
        run.name: CachedRun(run.stamp, run.digest, run.described)
        for run in open_catalogue(catalogue.root, catalogue).stored.values()
        if run.stamp is not None
    }
    write_parquet(draft, "runs", table, notes={CACHE_KEY: dump_cache(settled)})
    return pd.concat(copied, ignore_index=True)


def _copy_table(catalogue: Catalogue, draft: Draft, kind: str, names: list[str]) -> pd.DataFrame:
    """Copy a table of all runs that have it, oldest run first, into one file."""
    clones = set(without_rows(catalogue, names))
    runs = [catalogue.stored[name] for name in names if name not in clones]
    files = {run.run_id: file for run in runs if (file := run.file(kind)) is not None}
    shapes = dict(zip(files, _shapes(list(files.values())), strict=True))
    schema, of_run, left_out = _one_schema({name: shape[0] for name, shape in shapes.items()})
    rows = [
        {"table": kind, "run_id": name, "n_rows": 0, "left_out": reason}
        for name, reason in left_out.items()
    ]
    about = catalogue.table.set_axis(catalogue.table["run_id"].astype("str"), axis=0)
    index: dict[str, CompactRows] = {}
    first = 0
    for name, columns in of_run.items():
        index[name] = CompactRows(first, shapes[name][1], columns, catalogue.stored[name].digest)
        first += shapes[name][1]
        rows.append({"table": kind, "run_id": name, "n_rows": shapes[name][1], "left_out": None})
    if of_run:
        added = [name for name in _ADDED if name in catalogue.table]
        types = {"created_at": pa.timestamp("us", "UTC"), "system": pa.large_string()}
        full = pa.schema([*schema, *(pa.field(name, types[name]) for name in added)])
        ids = [
            name
            for name in full.names
            if name.endswith("_id") or name in ("system", "state", "level")
        ]
        groups = _gathered({name: shapes[name][1] for name in of_run})
        decoded = 0
        with (
            draft.create(kind) as out,
            pq.ParquetWriter(out, full, use_dictionary=ids, **WRITTEN_WITH) as writer,
        ):
            for names in groups:
                group = _joined([files[name] for name in names], full, about.loc[names])
                writer.write_table(group, row_group_size=max(len(group), 1))
                decoded += most_decoded(group)
            notes = {INDEX_KEY: _written_index(index)}
            writer.add_key_value_metadata(notes | padding(decoded, out))
    return pd.DataFrame(rows, columns=["table", "run_id", "n_rows", "left_out"]).astype(
        {"table": "str", "run_id": "str", "left_out": "str"}
    )


def _one_schema(
    schemas: dict[str, pa.Schema],
) -> tuple[pa.Schema, dict[str, list[str]], dict[str, str]]:
    """Return one schema for all runs, the columns of each, and why runs are left out.

    A run is left out if a column has another type than in the runs before it.
    """
    common: dict[str, pa.Field] = {}
    of_run: dict[str, list[str]] = {}
    left_out: dict[str, str] = {}
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


def _shapes(files: list[StoredFile]) -> list[tuple[pa.Schema, int]]:
    """Return the columns of each table, without dictionaries, and its number of rows."""

    def read(file: StoredFile) -> tuple[pa.Schema, int]:
        with open_parquet(file) as source:
            return _plain(source.schema_arrow), int(source.metadata.num_rows)

    return read_each(read, files)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema without dictionaries.

    They differ from run to run, and Parquet makes its own anyway.
    """
    types = [
        field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        for field in schema
    ]
    return pa.schema([field.with_type(one) for field, one in zip(schema, types, strict=True)])


def _joined(files: list[StoredFile], schema: pa.Schema, about: pd.DataFrame) -> pa.Table:
    """Return the tables of runs with the columns of all runs, and those that tell runs apart.

    What is done to many small tables is done to all at once: one by one it takes longer than to
    read them.
    """
    tables = read_each(_read, files)
    alike = [pa.concat_tables(group) for _, group in groupby(tables, attrgetter("schema"))]
    run = pa.array(np.repeat(np.arange(len(tables)), [len(table) for table in tables]))
    added = {
        name: pa.array(about[name].tolist(), schema.field(name).type, from_pandas=True).take(run)
        for name in _ADDED
        if name in about
    }
    completed, first = [], 0
    for table in alike:
        own = {name: values.slice(first, len(table)) for name, values in added.items()}
        own |= dict(zip(table.column_names, table.cast(_plain(table.schema)).columns, strict=True))
        columns = [
            own[field.name] if field.name in own else pa.nulls(len(table), field.type)
            for field in schema
        ]
        completed.append(pa.Table.from_arrays(columns, schema=schema))
        first += len(table)
    return pa.concat_tables(completed)


def _read(file: StoredFile) -> pa.Table:
    with open_parquet(file) as source:
        return source.read(use_threads=source.metadata.num_rows > MANY_ROWS)


def _gathered(n_rows: dict[str, int]) -> list[list[str]]:
    """Gather whole runs into row groups; a larger run is a group by itself."""
    groups: list[list[str]] = []
    rows = 0
    for name, own in n_rows.items():
        if not groups or rows + own > ROWS_OF_GROUP:
            groups.append([])
            rows = 0
        groups[-1].append(name)
        rows += own
    return groups


def _written_index(index: dict[str, CompactRows]) -> str:
    """Return the index as text: the distinct lists of columns, and each run with its list."""
    lists = list(dict.fromkeys(tuple(one.columns) for one in index.values()))
    numbers = {columns: number for number, columns in enumerate(lists)}
    return json.dumps(
        {
            "columns": lists,
            "runs": {
                name: [one.first, one.n_rows, numbers[tuple(one.columns)], one.digest]
                for name, one in index.items()
            },
        }
    )


def valid_rows(
    catalogue: Catalogue, kind: str, names: list[str]
) -> tuple[StoredFile | None, dict[str, CompactRows]]:
    """Return the compact file, and where it holds rows of these runs that are still up to date."""
    file = compacted(catalogue.root).get(kind)
    if file is None:
        return None, {}
    with open_parquet(file) as source:
        read = json.loads((source.metadata.metadata or {}).get(INDEX_KEY, b"{}"))
        index = {
            name: CompactRows(first, n_rows, read["columns"][number], digest)
            for name, (first, n_rows, number, digest) in read.get("runs", {}).items()
        }
    return file, {
        name: index[name]
        for name in names
        if name in index and index[name].digest == catalogue.stored[name].digest
    }


_CODED = {"state": STATES, "level": LEVELS}
_IDS = ["query_id", *_CODED]  # few values, and many times the same


def scores_of(catalogue: Catalogue, names: list[str], metrics: list[str] | None) -> pd.DataFrame:
    """Return the scores of these runs in this order, of all metrics or of these.

    Columns run_id, state, level, metrics; index query_id.

    Raises
    ------
    DataError
        A metric wasn't scored.
    """
    file, copied = valid_rows(catalogue, "scores", names)
    columns = {name: one.columns for name, one in copied.items()}
    for name, own in columns.items():
        _check_scored(catalogue, name, own, metrics)
    read, first = [], dict[str, int]()
    if file is not None and copied:
        asked = _columns_to_read(columns.values(), metrics)
        table, first = _compacted_rows(file, copied, asked)
        read.append(_with_codes(table))
    tables = _own_tables(catalogue, [name for name in names if name not in copied], metrics)
    columns |= {name: table.column_names for name, table in tables.items()}
    n_rows = {name: one.n_rows for name, one in copied.items()}
    n_rows |= {name: len(table) for name, table in tables.items()}
    begins = accumulate((n_rows[name] for name in tables), initial=len(read[0]) if read else 0)
    first |= dict(zip(tables, begins, strict=False))
    # A thousand small tables of one schema take long one by one.
    for _, alike in groupby(tables.values(), attrgetter("schema")):
        read.append(_with_codes(pa.concat_tables(alike)))
    joined = pa.concat_tables(read, promote_options="default")
    rows = np.concatenate([first[name] + np.arange(n_rows[name]) for name in names])
    if not np.array_equal(rows, np.arange(len(joined))):
        joined = joined.take(pa.array(rows))
    run = np.repeat(np.arange(len(names)), [n_rows[name] for name in names])
    codes = {"run_id": categorical(run, names)} | {
        name: categorical(joined.column(name).to_numpy(), values) for name, values in _CODED.items()
    }
    asked = _columns_to_read((columns[name] for name in names), metrics)
    frame = joined.select([name for name in asked if name not in _CODED]).to_pandas()
    query_ids = pd.Index(frame["query_id"].astype("str"), name="query_id")
    # Joined as blocks: inserting columns one by one would copy the frame for each.
    return pd.concat([pd.DataFrame(codes), frame.drop(columns="query_id")], axis=1).set_axis(
        query_ids, axis=0
    )


def runs_without(catalogue: Catalogue, names: list[str], metric: str) -> list[str]:
    """Return those of the runs whose stored scores lack a metric."""
    columns = {name: one.columns for name, one in valid_rows(catalogue, "scores", names)[1].items()}
    for name in names:
        if name not in columns:
            with open_parquet(catalogue.stored[name].table("scores")) as source:
                columns[name] = source.schema_arrow.names
    return [name for name in names if metric not in columns[name]]


def with_about(catalogue: Catalogue, names: list[str], scores: pd.DataFrame) -> pd.DataFrame:
    """Add the columns `created_at` and `system` to the scores of these runs, in their order."""
    about = catalogue.about(names)
    n_rows = np.bincount(scores["run_id"].cat.codes.to_numpy(), minlength=len(names))
    for name in ("created_at", "system"):
        if name in about:
            scores.insert(1, name, about[name].array.repeat(n_rows))
    return scores


def _columns_to_read(columns: Iterable[list[str]], metrics: list[str] | None) -> list[str]:
    """Return the columns to read of runs that have these."""
    if metrics is not None:
        return list(dict.fromkeys([*_IDS, *names_of(metrics, "metrics")]))
    # Runs of a compact file share their lists: a thousand runs have few distinct ones.
    distinct = {id(names): names for names in columns}.values()
    return list(dict.fromkeys(name for names in distinct for name in names))


def _check_scored(
    catalogue: Catalogue, name: str, columns: list[str], metrics: list[str] | None
) -> None:
    if unknown := [metric for metric in metrics or () if metric not in columns]:
        file, allowed = (
            str(catalogue.stored[name].table("scores")),
            f"store.score(golden, {unknown}), which scores the stored hits",
        )
        raise DataError(
            f"{name} has no scores of {name_list(unknown)}",
            file=file,
            field="metrics",
            allowed=allowed,
        )


def _compacted_rows(
    file: StoredFile, copied: dict[str, CompactRows], columns: list[str]
) -> tuple[pa.Table, dict[str, int]]:
    """Read the row groups of the compact file that hold rows of these runs, and where each is."""
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
    # the number of rows before each group that were not read
    skipped = np.zeros(len(begins), dtype=np.int64)
    skipped[groups] = begins[groups] - np.cumsum([0, *np.diff(begins)[groups]])[:-1]
    return table, dict(zip(copied, (first - skipped[group_of]).tolist(), strict=True))


def _own_tables(
    catalogue: Catalogue, names: list[str], metrics: list[str] | None
) -> dict[str, pa.Table]:
    """Read the scores of runs from their own folders, several at once."""

    def read(name: str) -> pa.Table:
        with open_parquet(catalogue.stored[name].table("scores")) as source:
            columns = _columns_to_read([], metrics) if metrics is not None else None
            # Files are read in parallel; threads inside a small file would only cost.
            table = source.read(columns, use_threads=False)
        table = table.drop_columns("run_id") if "run_id" in table.column_names else table
        _check_scored(catalogue, name, table.column_names, metrics)
        return table

    return dict(zip(names, read_each(read, names), strict=True))


def _with_codes(table: pa.Table) -> pa.Table:
    """Return scores with state and level as codes, and other columns without dictionaries."""
    for name, values in _CODED.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(_codes(table.column(name), values)))
    place = table.schema.get_field_index("query_id")
    table = table.set_column(place, "query_id", table.column(place).cast(pa.large_string()))
    return table.cast(_plain(table.schema))


def _codes(column: pa.ChunkedArray, values: tuple[str, ...]) -> npt.NDArray[np.int8]:
    """Return the position of each value among these, -1 for none.

    Looked up once per entry of the column's dictionary, not per row.
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
