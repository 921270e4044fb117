"""The history in data/demo/history: made of a store that `variations.run_history` has written.

Its tables hold ids, scores and the answerer's own words, and no text of the manuals, so that they
may be committed; here they are written again in fewer bytes.
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from stored import stored_run

from ragscore.io.output import write_text
from ragscore.store.draft import Draft, State, put, remove
from ragscore.store.runs import RUN_FILE
from ragscore.store.store import RunStore
from tests.demo import variations

COMMITTABLE = (
    "# No texts of the manuals are in here, so the tables may be committed.\n.staging-*\n.lock\n"
)


def make_committable(folder: Path) -> RunStore:
    """Let the tables of a history be committed, in fewer bytes."""
    write_text(folder / ".gitignore", COMMITTABLE)
    store = RunStore(folder)
    for name in store.runs()["run_id"].astype("str"):
        make_small(store, name)
    return store


def refresh_history(folder: Path, golden_file: Path) -> RunStore:
    """Score the stored runs of a history anew, each by the labels it had.

    Formulas, or what a store keeps of a scoring, have changed.
    """
    store = RunStore(folder)
    for relabelled, golden in variations.goldens(golden_file).items():
        names = [one.run_id for one in variations.VARIATIONS if one.relabelled is relabelled]
        for name in store.refresh(golden, runs=names):
            make_small(store, name)
    return store


def make_small(store: RunStore, run_id: str) -> None:
    """Write a run's files again in fewer bytes.

    Tables lose their statistics and pandas' metadata; JSON becomes one line.
    """
    run = stored_run(store, run_id)
    draft = Draft(run.root, run.folder)
    for kind in run.entries:
        with run.table(kind).open() as file:
            if kind == "metrics":
                draft.write_json(kind, json.loads(file.read()), indent=None)
                continue
            table = pq.read_table(file)
        few = [name for name in table.column_names if table[name].type == pa.string()]
        with draft.create(kind) as out:
            pq.write_table(
                table.replace_schema_metadata(None),
                out,
                compression="zstd",
                compression_level=19,
                write_statistics=False,
                use_dictionary=few,
                row_group_size=table.num_rows,
            )
    put(draft, RUN_FILE, run.described, State(run.digest), indent=None)
    for entry in run.entries.values():
        remove(run.folder / entry.name)
