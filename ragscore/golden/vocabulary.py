"""Checks of the words that describe queries: fields, categories, difficulties, tags.

Where the golden file declares the values of a field, any other value is wrong. Where it doesn't, a
value that occurs once beside a similar one, or that is spelt in two ways, may be a slip.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from difflib import SequenceMatcher
from typing import Any

import pandas as pd

from ragscore.frames.data import Golden
from ragscore.frames.errors import nearest
from ragscore.golden.violations import FIELD_OF_LEVEL, NOTHING, Violations, tags_of, violation
from ragscore.io.golden_file import WITH_VALUES
from ragscore.io.golden_read import CHECK_FIELDS, KNOWN_FIELDS, TAG_FIELDS
from ragscore.io.source import SIMILARITY, as_text, suggest_field
from ragscore.io.targets import SUPPORT_EXTRAS, SUPPORT_FIELDS

VOCABULARIES = tuple(name for name in WITH_VALUES if name not in ("group", "folders"))
"""Fields whose similar values may be slips; groups and folders are names in a series."""
SHORTEST = 4
"""Letters of the shortest word in which one letter less is a slip rather than another word."""
COMMON = 3
"""Queries that must have a value before a similar one may be its slip: of two to one, who knows."""
MANY = 2000
"""Values that occur once, or more than once, from which a field is no vocabulary but names."""


def values_of(golden: Golden, field: str) -> pd.DataFrame:
    """Return the values of a field as text: query_id, value, one row per value of a list."""
    if field in TAG_FIELDS:
        return tags_of(golden, TAG_FIELDS[field])
    column = field if field in WITH_VALUES else f"x_{field}"
    if column not in golden.queries:
        return tags_of(golden, "")
    rows = golden.queries.loc[golden.queries[column].notna(), ["query_id", column]]
    listed = pd.DataFrame({"query_id": rows["query_id"], "value": rows[column].map(_texts)})
    return listed.explode("value").dropna()


def _texts(value: Any) -> list[str]:
    """Return a value as texts: the items of a list that `x_` columns keep as JSON, or it alone."""
    items = [value]
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError, RecursionError):
            items = json.loads(value)
    return [as_text(item) or json.dumps(item, ensure_ascii=False) for item in items]


# What the file declares


def undeclared_values(golden: Golden) -> Violations:
    """Find values that are none of those that the file's rules allow for a field."""
    parts = [NOTHING]
    for field, allowed in golden.rules.dropna(subset="value").groupby("field", sort=False)["value"]:
        rows = values_of(golden, str(field))
        rows = rows[~rows["value"].isin(allowed)]
        near = {value: nearest(value, allowed) for value in rows["value"].unique()}
        found, meant = rows["value"].map(repr), rows["value"].map(near)
        parts.append(violation(rows, found, field=str(field), allowed=meant))
    return pd.concat(parts, ignore_index=True)


def missing_fields(golden: Golden) -> Violations:
    """Find queries without a field that the file's rules require.

    What is expected of an answer is required only of queries that should not be refused.
    """
    parts = [NOTHING]
    for field in golden.rules.loc[golden.rules["value"].isna(), "field"]:
        lacks = ~golden.queries["query_id"].isin(_with_field(golden, field))
        if field in _EXPECTED or field in CHECK_FIELDS:
            lacks &= ~golden.queries["query_id"].isin(golden.refusals)
        parts.append(violation(golden.queries[lacks], "the field is missing", field=field))
    return pd.concat(parts, ignore_index=True)


_CHECK_KINDS = {
    **{name: (kind,) for name, kind in CHECK_FIELDS.items()},
    "expected_empty": ("expected_empty",), "recency_conflict_rule": ("recency_rule",),
}  # fmt: skip
_LEVELS = {field: level for level, field in FIELD_OF_LEVEL.items() if level != "predicate"}
_EXPECTED = {*_LEVELS, "required_support_groups", "expected_metadata", "reference_answer"}


def _with_field(golden: Golden, field: str) -> pd.Series:
    """Return the ids of the queries that have a field."""
    targets, checks = golden.targets, golden.checks
    if field in _LEVELS:
        return targets.loc[targets["level"] == _LEVELS[field], "query_id"]
    if field in _CHECK_KINDS:
        return checks.loc[checks["kind"].isin(_CHECK_KINDS[field]), "query_id"]
    if field in TAG_FIELDS:
        return tags_of(golden, TAG_FIELDS[field])["query_id"]
    if field in ("required_support_groups", "expected_metadata"):
        is_group = field == "required_support_groups"
        return (golden.support_groups if is_group else golden.conditions)["query_id"]
    if field == "chunker_version":
        return targets.reindex(columns=["query_id", field]).dropna()["query_id"]
    queries = golden.queries.rename(columns={"query_id": "id"}).assign(
        query_id=golden.queries["query_id"]
    )
    own = f"x_{field}"
    names = [
        name
        for name in map(str, queries.columns)
        if (name == field if field in KNOWN_FIELDS else name == own or name.startswith(f"{own}."))
    ]
    texts = queries[names].astype("str")
    has_value = texts.notna() & (texts.apply(lambda column: column.str.strip()) != "")
    return queries.loc[has_value.any(axis=1), "query_id"]


# What may be a slip


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


def similar_values(golden: Golden) -> Violations:
    """Find values that look like a slip of another one, one row per value at its first query.

    These are values that differ from a more frequent one in case and separators only; and values
    of one query that are a letter away from one of `COMMON` queries or more. Fields whose values
    are declared are left out. Numbers and single letters make a series (`q1`, `part-a`), no slip.
    """
    declared = set(golden.rules.dropna(subset="value")["field"])
    parts = [NOTHING]
    for field in VOCABULARIES:
        if field in declared or not len(rows := values_of(golden, field).drop_duplicates()):
            continue
        n_queries = rows["value"].value_counts(sort=False)
        first = rows.drop_duplicates("value").set_index("value")["query_id"]
        for value, meant in _slips(rows, n_queries):
            found = f"{value!r} {_in_queries(n_queries[value])}"
            likely = f"did you mean {meant!r} ({_in_queries(n_queries[meant])})?"
            query = pd.DataFrame({"query_id": [first[value]]})
            parts.append(violation(query, found, field=field, allowed=likely))
    return pd.concat(parts, ignore_index=True)


def _slips(rows: pd.DataFrame, n_queries: pd.Series) -> Iterator[tuple[str, str]]:
    """Yield values that may be slips, each with the value that was probably meant."""
    by_frequency = n_queries.sort_values(ascending=False, kind="stable").index
    usual: dict[Any, str] = {}
    spellings = {value: usual.setdefault(_plain(value), value) for value in by_frequency}
    yield from ((value, meant) for value, meant in spellings.items() if value != meant)
    rare = [value for value in usual.values() if n_queries[value] == 1]
    common = [value for value in usual.values() if n_queries[value] >= COMMON]
    if len(rare) > MANY or len(common) > MANY:
        return
    beside = rows[rows["value"].isin(rare)].merge(rows, on="query_id", suffixes=("", "_too"))
    together = set(zip(beside["value"], beside["value_too"], strict=True))
    by_letter: dict[str, list[str]] = {}
    for value in common:
        by_letter.setdefault(value[:1].casefold(), []).append(value)
    for value in rare:
        for candidate in by_letter.get(value[:1].casefold(), []):
            if (value, candidate) not in together and _is_slip(value, candidate):
                yield value, candidate
                break


def _plain(value: str, apart: str = r"[\s_.\-]+", joint: str = "") -> tuple[str, tuple[str, ...]]:
    """Return a value without case and separators, and the numbers and letters of a series."""
    folded = unicodedata.normalize("NFKC", value).casefold()
    series = re.findall(r"\d+|(?<![^\W_])[^\W\d_](?![^\W_])", folded)
    return re.sub(apart, joint, folded), tuple(series)


def _is_slip(value: str, other: str) -> bool:
    """Tell if two values differ by one slip in one word: a letter, or two letters swapped."""
    (value, series), (other, series_of_other) = (
        _plain(one, r"[\W_]+", " ") for one in (value, other)
    )
    if series != series_of_other:
        return False
    words, others = value.split(), other.split()
    if len(words) != len(others):
        words, others = ["".join(words)], ["".join(others)]
    pairs = [pair for pair in zip(words, others, strict=True) if pair[0] != pair[1]]
    return len(pairs) == 1 and _is_misspelt(*pairs[0])


def _is_misspelt(word: str, other: str) -> bool:
    if min(len(word), len(other)) < SHORTEST or word[0] != other[0]:
        return False
    if sorted(word) == sorted(other):
        return True
    alike = SequenceMatcher(None, word, other, autojunk=False)
    n_edits = sum(max(j - i, m - k) for tag, i, j, k, m in alike.get_opcodes() if tag != "equal")
    return n_edits == 1 and alike.ratio() >= SIMILARITY


def _in_queries(n: int) -> str:
    return "in 1 query" if n == 1 else f"in {n:,} queries"
