"""The files of a store under test: where they are, and others put in their place as a store does.

A file that is changed in place is damaged, as far as a store can tell. What it shall read must be
named anew.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import ragscore as rs
from ragscore.store.checked import StoredFile, sealed, unsealed
from ragscore.store.draft import Draft
from ragscore.store.places import Place
from ragscore.store.runs import RUN_FILE, StoredRun, change_run, folder_of, stored_runs


def stored_run(store: rs.RunStore, run: str) -> StoredRun:
    """A run as it is stored now."""
    (found,) = (one for one in stored_runs(store.root) if one.run_id == run)
    return found


def stored_file(store: rs.RunStore, run: str, kind: str) -> Path:
    """Where a run's table, or its metrics, are now."""
    place = stored_run(store, run).table(kind).place
    assert isinstance(place, Path)
    return place


def stored_table(store: rs.RunStore, run: str, kind: str) -> pd.DataFrame:
    """A run's table, without the store's help."""
    return pd.read_parquet(stored_file(store, run, kind))


def named_by(store: rs.RunStore, run: str) -> list[str]:
    """The kinds of files that a run has, by its run.json."""
    return sorted(stored_run(store, run).entries)


def described(store: rs.RunStore, run: str) -> dict[str, Any]:
    """The content of a run's run.json."""
    return stored_run(store, run).described


def describe(
    root: Place, run: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> None:
    """Rewrite a run.json with its checksum; `change` edits its content, or returns another."""
    file = folder_of(root, run) / RUN_FILE
    assert isinstance(file, Path)
    content = unsealed(file.read_bytes(), file)
    changed = change(content)
    file.write_bytes(sealed(content if changed is None else changed))


def put_file(store: rs.RunStore, run: str, kind: str, content: bytes) -> None:
    """Put another file in place of a run's, under a name of its own and with its sums."""
    one = stored_run(store, run)

    def write(draft: Draft) -> dict[str, Any]:
        _written(draft, kind, one.table(kind), content)
        return one.described

    change_run(one, write)


def put_table(store: rs.RunStore, run: str, kind: str, table: Any, **options: Any) -> None:
    """Put another table in place of a run's, as another program would have written it."""
    put_file(store, run, kind, parquet_bytes(table, **options))


def edit_table(
    store: rs.RunStore, run: str, kind: str, edit: Callable[[pa.Table], pa.Table]
) -> None:
    """Put what `edit` makes of a run's table in its place."""
    put_table(store, run, kind, edit(pq.read_table(stored_file(store, run, kind))))


def _written(draft: Draft, kind: str, before: StoredFile, content: bytes) -> None:
    with draft.create(kind, before.entry.name.rpartition(".")[2]) as out:
        out.write(content)


def parquet_bytes(table: Any, **options: Any) -> bytes:
    """A table as a Parquet file."""
    sink = pa.BufferOutputStream()
    arrow = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table)
    pq.write_table(arrow, sink, **options)
    return bytes(sink.getvalue())
