"""Check of the names of fields: one of the user's own that resembles one of ours may be a slip."""

import json

import pandas as pd

from ragscore.frames.data import Golden
from ragscore.golden.violations import NOTHING, Violations, violation
from ragscore.io.golden_read import KNOWN_FIELDS
from ragscore.io.source import suggest_field
from ragscore.io.targets import SUPPORT_EXTRAS, SUPPORT_FIELDS


def similar_fields(golden: Golden) -> Violations:
    """Find fields of the user's own whose names resemble a field of ours."""
    parts = [NOTHING]
    for column in golden.queries.columns[golden.queries.columns.str.startswith("x_")]:
        name = column.removeprefix("x_")
        rows = golden.queries[golden.queries[column].notna()]
        if len(rows) and (meant := suggest_field(name, KNOWN_FIELDS)):
            parts.append(_unknown_field(rows, name, name, meant))
    if SUPPORT_EXTRAS in golden.queries:
        rows = golden.queries.dropna(subset=SUPPORT_EXTRAS)
        own = [{name for one in json.loads(text) for name in one} for text in rows[SUPPORT_EXTRAS]]
        for name in sorted(set().union(*own)):
            if meant := suggest_field(name, frozenset(SUPPORT_FIELDS)):
                has_name = [name in names for names in own]
                parts.append(_unknown_field(rows[has_name], name, "gold_supports", meant))
    return pd.concat(parts, ignore_index=True)


def _unknown_field(rows: pd.DataFrame, name: str, field: str, meant: str) -> Violations:
    found = f"unknown field {name!r}, {_in_queries(len(rows))}"
    return violation(rows[:1], found, field=field, allowed=f"did you mean {meant!r}?")


def _in_queries(n: int) -> str:
    return "in 1 query" if n == 1 else f"in {n:,} queries"
