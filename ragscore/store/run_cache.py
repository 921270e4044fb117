"""The contents of all run.json files at once, in the metadata of a compacted table of runs.

Opening a thousand files takes longer than reading one metric of a thousand compacted runs. What is
cached of a run holds while its run.json has the stamp that it had. A cache that can't be understood
counts as none.
"""

import json
from typing import Any, NamedTuple

from ragscore.frames.errors import DataError
from ragscore.store.checked import StoredFile, unsealed
from ragscore.store.described import RUN_JSON, SCORING, check_content
from ragscore.store.draft import state_in
from ragscore.store.parquet import open_parquet
from ragscore.store.places import Place, bytes_if_there

# It names the compacted tables, as run.json names the tables of a run.
COMPACT_FILE = "compact.json"
CACHE_KEY = b"ragscore.runs"
MENDED_BY = "store.compact(), which makes it anew from the runs; they are not affected"


class CachedRun(NamedTuple):
    """A run.json as it was read: its stamp, the hash of its bytes, its content."""

    stamp: str
    digest: str
    described: dict[str, Any]


def dump_cache(runs: dict[str, CachedRun]) -> str:
    """Return the runs, by folder, as text; runs that were scored alike share what says so."""
    scorings = {name: json.dumps(run.described.get("scoring")) for name, run in runs.items()}
    numbers = {text: number for number, text in enumerate(dict.fromkeys(scorings.values()))}
    rows = {
        name: [run.stamp, run.digest, run.described | {"scoring": numbers[scorings[name]]}]
        for name, run in runs.items()
    }
    return json.dumps({"scorings": [json.loads(text) for text in numbers], "runs": rows})


def compacted(root: Place) -> dict[str, StoredFile]:
    """Return the compacted tables of a store by kind; none if it wasn't compacted."""
    file = root / COMPACT_FILE
    written = bytes_if_there(file)
    if written is None:
        return {}
    entries = state_in(unsealed(written, file, MENDED_BY), None, file).files
    return {kind: StoredFile(root, entry, entries, MENDED_BY) for kind, entry in entries.items()}


def load_cache(root: Place) -> dict[str, CachedRun]:
    """Return the cached runs of a store by folder."""
    try:
        with open_parquet(compacted(root)["runs"]) as source:
            cache = json.loads((source.metadata.metadata or {}).get(CACHE_KEY, b"{}"))
        for scoring in cache["scorings"]:
            if scoring is not None:
                check_content(scoring, SCORING, COMPACT_FILE)
        return {name: _cached_run(cache["scorings"], *row) for name, row in cache["runs"].items()}
    except (DataError, OSError, ValueError, TypeError, LookupError, AttributeError):
        return {}


def _cached_run(
    scorings: list[dict[str, Any] | None], stamp: str, digest: str, described: dict[str, Any]
) -> CachedRun:
    scoring = scorings[described["scoring"]]
    own = {name: value for name, value in described.items() if name != "scoring"}
    check_content(own, RUN_JSON, COMPACT_FILE)
    return CachedRun(stamp, digest, own if scoring is None else own | {"scoring": scoring})
