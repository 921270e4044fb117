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
from ragscore.store.runs import Draft, StoredRun, put_run, sealed, unsealed
from ragscore.store.tables import FRAMES


def assert_same(found: rs.Results, expected: rs.Results, **how: Any) -> None:
    """Results that a store keeps are equal to the bit, with the same columns and types."""
    for kind in ("runs", *FRAMES):
        one, other = getattr(found, kind), getattr(expected, kind)
        assert (one is None) == (other is None), kind
        if one is not None:
            pd.testing.assert_frame_equal(one, other, check_exact=True, obj=kind, **how)


def stored_run(store: rs.RunStore, run: str) -> StoredRun:
    """A run as it is stored now."""
    return store._open()[run]


def run_file(store: rs.RunStore, run: str) -> Path:
    """The `run-….json` of a run as it is now."""
    return store.path(run) / f"run-{stored_run(store, run).number:04}.json"


def stored_file(store: rs.RunStore, run: str, kind: str) -> Path:
    """Where a run's table is now."""
    entry = stored_run(store, run).files[kind][0]
    assert entry is not None
    return store.path(run) / entry.name


def stored_table(store: rs.RunStore, run: str, kind: str) -> pd.DataFrame:
    """A run's table, without the store's help."""
    return pd.read_parquet(stored_file(store, run, kind))


def named_by(store: rs.RunStore, run: str) -> list[str]:
    """The kinds of files that a run has, by its file."""
    return sorted(stored_run(store, run).files)


def described(store: rs.RunStore, run: str) -> dict[str, Any]:
    """The content of a run's file."""
    return stored_run(store, run).content


def describe(
    store: rs.RunStore, run: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> None:
    """Rewrite a run's file with its checksum; `change` edits its content, or returns another."""
    file = run_file(store, run)
    content = unsealed(file.read_bytes(), str(file))
    changed = change(content)
    file.write_bytes(sealed(content if changed is None else changed))


def put_file(store: rs.RunStore, run: str, kind: str, content: bytes) -> None:
    """Put another file in place of a run's, under a name of its own and with its sum."""
    one = stored_run(store, run)

    def write(draft: Draft) -> dict[str, Any]:
        draft.add(kind, content, 1, [])
        return one.content

    put_run(store._place, run, write, one, keep=True)


def put_table(store: rs.RunStore, run: str, kind: str, table: Any, **options: Any) -> None:
    """Put another table in place of a run's, as another program would have written it."""
    sink = pa.BufferOutputStream()
    arrow = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table)
    pq.write_table(arrow, sink, **options)
    put_file(store, run, kind, bytes(sink.getvalue()))


def edit_table(
    store: rs.RunStore, run: str, kind: str, edit: Callable[[pa.Table], pa.Table]
) -> None:
    """Put what `edit` makes of a run's table in its place."""
    put_table(store, run, kind, edit(pq.read_table(stored_file(store, run, kind))))
