"""Many small tables in one file.

What a store reads in one go after `compact`, and which of it still holds.

The file says of each run where its rows are, and what its run.json and its table were when they
were copied. Rows of a run that was overwritten, scored anew or deleted since are not read; a run
that came later is read from its own folder.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ragscore.store.catalogue import Listing, listing_of
from ragscore.store.files import open_parquet, write_parquet
from ragscore.store.filesystem import Place, stamps, whole_file
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
    done = [_compacted(there, kind, names) for kind in kinds]
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


def _compacted(there: Listing, kind: str, names: list[str]) -> pd.DataFrame:
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
