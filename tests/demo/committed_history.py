"""The history in data/demo/history: made of a store that `variations.run_history` has written.

Its tables hold ids, scores and the answerer's own words, and no text of the manuals, so that they
may be committed.
"""

from pathlib import Path

from ragscore.io.files import write_text
from ragscore.store.store import RunStore
from tests.demo import variations

COMMITTABLE = "# No texts of the manuals are in here, so the tables may be committed.\n.staging-*\n"


def make_committable(folder: Path) -> RunStore:
    """Let the tables of a history be committed."""
    write_text(folder / ".gitignore", COMMITTABLE)
    return RunStore(folder)


def refresh_history(folder: Path, golden_file: Path) -> RunStore:
    """Score the stored runs of a history anew, each by the labels it had.

    Formulas, or what a store keeps of a scoring, have changed.
    """
    store = RunStore(folder)
    for relabelled, golden in variations.goldens(golden_file).items():
        names = [one.run_id for one in variations.VARIATIONS if one.relabelled is relabelled]
        store.refresh(golden, runs=names)
    return store
