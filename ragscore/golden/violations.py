"""The shape of a check of a golden set, and of what it finds."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from ragscore.frames.data import Golden

FIELD_OF_LEVEL = {
    "doc": "expected_doc_ids", "chunk": "expected_chunk_ids", "anchor": "gold_supports",
    "source_key": "expected_source_keys", "text": "expected_texts",
    "predicate": "expected_metadata",
}  # fmt: skip

# One row per violation: query_id, found, and `field` and `allowed` where these vary
Violations = pd.DataFrame
NOTHING = pd.DataFrame({"query_id": pd.Series(dtype="str"), "found": pd.Series(dtype="str")})


@dataclass(frozen=True)
class Check:
    """Rule of a good golden set.

    `applies` flags the queries that the rule is about, as a boolean Series over `golden.queries`.
    `find` returns the violations among all queries: query_id, found, and field and allowed if these
    vary. `severity` is error, or warning for what may be meant.
    """

    name: str
    field: str
    allowed: str
    applies: Callable[[Golden], pd.Series]
    find: Callable[[Golden], Violations]
    severity: str = "error"


def violation(rows: pd.DataFrame, found: pd.Series | str, **more: pd.Series | str) -> Violations:
    """Return one violation per row, with its query and the value found."""
    if not len(rows):  # Nearly always; making a frame costs more than any check.
        return NOTHING
    return pd.DataFrame({"query_id": rows["query_id"].astype("str")}).assign(found=found, **more)


def tags_of(golden: Golden, kind: str) -> pd.DataFrame:
    """Return the tags of a kind: query_id, value."""
    return golden.tags.loc[golden.tags["kind"] == kind, ["query_id", "value"]]
