"""Read stored scores of runs, from one file each, as one frame.

In: the catalogue. Out: the scores. They may have millions of rows: state and level are read as
codes.
"""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import DataError, categorical
from ragscore.frames.errors import name_list, names_of
from ragscore.scoring.rows import STATES
from ragscore.scoring.targets import LEVELS
from ragscore.store.catalogue import Catalogue
from ragscore.store.parquet import open_parquet, read_each

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
    tables = _own_tables(catalogue, names, metrics)
    # A thousand small tables of one schema take long one by one.
    read = [
        _with_codes(pa.concat_tables(alike)) for _, alike in groupby(tables, attrgetter("schema"))
    ]
    joined = pa.concat_tables(read, promote_options="default")
    run = np.repeat(np.arange(len(names)), [len(table) for table in tables])
    codes = {"run_id": categorical(run, names)} | {
        name: categorical(joined.column(name).to_numpy(), values) for name, values in _CODED.items()
    }
    asked = _columns_to_read((table.column_names for table in tables), metrics)
    frame = joined.select([name for name in asked if name not in _CODED]).to_pandas()
    query_ids = pd.Index(frame["query_id"].astype("str"), name="query_id")
    # Joined as blocks: inserting columns one by one would copy the frame for each.
    return pd.concat([pd.DataFrame(codes), frame.drop(columns="query_id")], axis=1).set_axis(
        query_ids, axis=0
    )


def runs_without(catalogue: Catalogue, names: list[str], metric: str) -> list[str]:
    """Return those of the runs whose stored scores lack a metric."""
    lacking = []
    for name in names:
        with open_parquet(catalogue.stored[name].table("scores")) as source:
            if metric not in source.schema_arrow.names:
                lacking.append(name)
    return lacking


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
    return list(dict.fromkeys(name for own in columns for name in own))


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


def _own_tables(
    catalogue: Catalogue, names: list[str], metrics: list[str] | None
) -> list[pa.Table]:
    """Read the scores of runs from their own folders, several at once."""

    def read(name: str) -> pa.Table:
        with open_parquet(catalogue.stored[name].table("scores")) as source:
            columns = _columns_to_read([], metrics) if metrics is not None else None
            # Files are read in parallel; threads inside a small file would only cost.
            table = source.read(columns, use_threads=False)
        table = table.drop_columns("run_id") if "run_id" in table.column_names else table
        _check_scored(catalogue, name, table.column_names, metrics)
        return table

    return read_each(read, names)


def _with_codes(table: pa.Table) -> pa.Table:
    """Return scores with state and level as codes, and other columns without dictionaries."""
    for name, values in _CODED.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(_codes(table.column(name), values)))
    place = table.schema.get_field_index("query_id")
    table = table.set_column(place, "query_id", table.column(place).cast(pa.large_string()))
    return table.cast(_plain(table.schema))


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema without dictionaries.

    They differ from run to run, and Parquet makes its own anyway.
    """
    types = [
        field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        for field in schema
    ]
    return pa.schema([field.with_type(one) for field, one in zip(schema, types, strict=True)])


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
