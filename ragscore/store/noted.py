"""What `compact` notes of the runs' descriptions in `runs.parquet`, so that a store of many runs need not open each `run.json`.

A note holds for as long as its `run.json` has the stamp that it had. Notes that can't be understood
are none: descriptions are read then.
"""

import json
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ragscore.store.files import Place

NOTES_KEY = b"ragscore.runs"  # of the file's metadata
# to be raised when a row of the runs frame is made otherwise of a run.json: older notes are left
# alone then
FORMAT = 1


class Note(NamedTuple):
    """What is known of a run by its `run.json`.

    The stamp and the hash of that file, where its tables are, its row of the runs frame.
    """

    stamp: str
    digest: str
    inner: str | None
    scoring: dict[str, Any]
    record: dict[str, Any]


def written_notes(notes: dict[str, Note]) -> str:
    """Notes by folder as text; what runs say of their scoring is mostly the same, and there once."""
    texts = {name: json.dumps(note.scoring) for name, note in notes.items()}
    distinct = list(dict.fromkeys(texts.values()))
    numbers = {text: number for number, text in enumerate(distinct)}
    runs = {
        name: [note.stamp, note.digest, note.inner, numbers[texts[name]], note.record]
        for name, note in notes.items()
    }
    return json.dumps(
        {"format": FORMAT, "scorings": [json.loads(text) for text in distinct], "runs": runs}
    )


def notes_in(root: Place) -> dict[str, Note]:
    """The notes in a store's `runs.parquet`, by folder; runs of the same scoring share the object."""
    try:
        written = (pq.read_metadata(str(root / "runs.parquet")).metadata or {}).get(
            NOTES_KEY, b"{}"
        )
        read = json.loads(written)
        if read.get("format") != FORMAT:
            return {}
        return {name: _note(read["scorings"], *one) for name, one in read["runs"].items()}
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
    ):
        return {}


def _note(
    scorings: list[dict[str, Any]],
    stamp: str,
    digest: str,
    inner: str | None,
    number: int,
    record: dict[str, Any],
) -> Note:
    scoring = scorings[number]
    if not isinstance(scoring, dict) or not isinstance(record["run_id"], str):
        raise TypeError
    return Note(stamp, digest, inner, scoring, record)
