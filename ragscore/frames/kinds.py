"""The frame kinds.

Their columns, dtypes and keys, written once; `conform` checks and casts a frame to its kind.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pandas as pd

from ragscore.frames.cast import EXACT, cast, refuse_rows
from ragscore.frames.codes import is_encoded
from ragscore.frames.errors import DataError, check_type


@dataclass(frozen=True)
class Kind:
    """One frame kind: key columns first, then required and optional ones, each with its dtype.

    `open_prefixes` names families of columns that users bring along (`x_reviewer`,
    `latency_rerank_ms`); `lowest` is the smallest value that a column may hold.
    """

    key: tuple[str, ...]
    required: dict[str, str]
    optional: dict[str, str] = field(default_factory=dict)
    open_prefixes: tuple[str, ...] = ()
    lowest: dict[str, int] = field(default_factory=dict)

    @property
    def dtypes(self) -> dict[str, str]:
        """Every declared column and its dtype, required ones first."""
        return {**self.required, **self.optional}


_UTC = "datetime64[us, UTC]"
_LOCATORS = {
    "chunk_id": "str",
    "doc_id": "str",
    "path": "str",
    "heading": "str",
    "start": "Int64",
    "end": "Int64",
    "span_unit": "str",
}
_CELL = {"run_id": "category", "query_id": "str"}

KINDS: dict[str, Kind] = {
    "queries": Kind(
        ("query_id",),
        {"query_id": "str", "query": "str", "answerable": "boolean", "position": "int64"},
        {"lang": "str", "difficulty": "str", "category": "str", "group": "str", "variant": "str",
        "reference_answer": "str"},
        ("x_",),
    ),
    "tags": Kind(("query_id", "kind", "value"), {"query_id": "str", "kind": "str", "value": "str"}),
    "targets": Kind(
        ("query_id", "level", "target_id", "alternative"),
        {"query_id": "str", "level": "str", "target_id": "str", "alternative": "int32",
        "grade": "int32"},
        {**_LOCATORS, "snippet": "str", "date": "str", "source_key": "str",
        "chunker_version": "str"},
        lowest={"grade": 0, "alternative": 0},
    ),
    "conditions": Kind(("query_id", "target_id", "key"),
    {"query_id": "str", "target_id": "str", "key": "str", "value": "str"}),
    "support_groups": Kind(("query_id", "group", "target_id"),
    {"query_id": "str", "group": "int32", "target_id": "str"}),
    "checks": Kind(("query_id", "kind", "text"), {"query_id": "str", "kind": "str", "text": "str"}),
    "runs": Kind(
        ("run_id",),
        {"run_id": "category"},
        {
            "system": "str", "repeat": "Int64", "suite": "str", "created_at": _UTC, "commit": "str",
            "config": "str", "config_hash": "str", "golden_hash": "str",
            "chunker_version": "str", "k": "Int64", "n_queries": "Int64", "n_failed": "Int64",
            "note": "str",
        },
        ("x_",),
    ),
    "responses": Kind(
        ("run_id", "query_id"),
        {**_CELL, "query": "str", "error": "str"},
        {
            "mode": "str", "answer": "str", "grounded": "boolean", "refused": "boolean",
            "refusal_reason": "str", "elapsed_ms": "float64", "prompt_tokens": "Int64",
            "completion_tokens": "Int64", "cost_usd": "float64", "scope": "str",
        },
        ("x_", "latency_"),
    ),
    "hits": Kind(
        ("run_id", "query_id", "rank"),
        {**_CELL, "rank": "int32"},
        {
            **_LOCATORS, "text": "str", "text_cut": "boolean", "score": "float64",
            "score_kind": "str", "score_lexical": "float64", "score_vector": "float64",
            "source_key": "str", "chunker_version": "str", "stale": "boolean",
        },
        ("x_",),
    ),
    "hit_meta": Kind(("run_id", "query_id", "rank", "key"),
    {**_CELL, "rank": "int32", "key": "str", "value": "str"}),
    "citations": Kind(("run_id", "query_id", "position"), {**_CELL, "position": "int32"},
    {"marker": "str", **_LOCATORS}, ("x_",)),
    "judgments": Kind(
        ("run_id", "query_id", "criterion", "item"),
        {**_CELL, "criterion": "str", "item": "str", "value": "float64"},
        {
            "verdict": "str", "reason": "str", "item_text": "str", "judge": "str",
            "prompt_hash": "str", "temperature": "float64", "repeat": "Int64", "tokens": "Int64",
            "cost_usd": "float64", "input_hash": "str", "state": "str",
        },
        ("x_",),
    ),
    "chunks": Kind(("chunk_id",), {"chunk_id": "str"},
    {**_LOCATORS, "text": "str", "doc_type": "str", "run_id": "category"}, ("x_",)),
    # The steps of a multi-hop answer; sub_queries is a JSON list of texts.
    "hops": Kind(
        ("run_id", "query_id", "hop"),
        {**_CELL, "hop": "int32"},
        {"kind": "str", "sub_queries": "str", "chunks_added": "Int64", "forced_stop": "boolean",
        "llm_call_ms": "float64"},
        ("x_",),
        lowest={"hop": 0},
    ),
    # What a corpus holds; and which document replaces which: by name, or as a later one of the same
    # version_key.
    "documents": Kind(
        ("doc_id",),
        {"doc_id": "str"},
        {"version_key": "str", "effective_timestamp": "Int64", "superseded_by": "str",
        "doc_type": "str", "path": "str", "run_id": "category"},
        ("x_",),
    ),
    # A query for which the rule found nothing has one row with rank 0 and an empty target_id.
    "matches": Kind(
        ("run_id", "query_id", "level", "rank", "target_id"),
        {**_CELL, "level": "str", "rank": "int32", "target_id": "str", "grade": "int32",
        "rule": "str", "query_hash": "str"},
        {"coverage": "float64", "unknown": "boolean"},
        lowest={"rank": 0, "grade": 0},
    ),
    # A statistic (mean, std, ...) makes it a value of the whole run, with an empty query_id.
    "reported": Kind(("run_id", "query_id", "metric"),
    {**_CELL, "metric": "str", "value": "float64"}, {"statistic": "str"}),
    "problems": Kind((),
    {"file": "str", "line": "Int64", "field": "str", "found": "str", "allowed": "str"},
    {"run_id": "category"}),
}  # fmt: skip

# How a predicate expectation is satisfied: by any or all of the hits, with any or all of its values.
CHOICES = ("any", "all")
AXES = ("hits", "values")
EXPECTATIONS = ("expected_source_keys", "expected_metadata", "expected_substrings")
CHOICE_KINDS = {f"{name}.{axis}": (name, axis) for name in EXPECTATIONS for axis in AXES}
"""Kind of a row of `golden.checks` -> what it is about; the row's text is the choice."""


def conform(frame: pd.DataFrame, kind: str, coded: tuple[str, ...] = ()) -> pd.DataFrame:
    """The same rows with the columns of `kind` in declared order and dtype, keys first.

    Optional columns may be absent and are never added; a column that the kind doesn't know is
    refused. Columns of `coded` may stay codes as arrow reads them (see `codes.is_encoded`).

    Raises
    ------
    DataError
        A required column is missing, a column is unknown or there twice, or a value doesn't fit: NA
        in a key, a boolean, date or decimal number as an id, 1.5 or a number out of range in a
        column of whole numbers. The first such row is named.
    """
    if kind not in KINDS:
        raise DataError(f"found {kind!r}", field="kind", allowed=f"one of {', '.join(KINDS)}")
    check_type(frame, pd.DataFrame, kind)
    return (
        _conformed_empty(kind).copy(deep=False)
        if _is_made_empty(frame, kind)
        else _conformed(frame, kind, coded)
    )


def _conformed(frame: pd.DataFrame, kind: str, coded: tuple[str, ...]) -> pd.DataFrame:
    spec = KINDS[kind]
    twice = frame.columns[frame.columns.duplicated()].unique().tolist()
    if twice:
        raise DataError(f"columns {twice} are there twice", field=kind, allowed="each column once")
    missing = [name for name in spec.required if name not in frame.columns]
    if missing:
        raise DataError(
            f"columns {missing} are missing", field=kind, allowed=f"found {list(frame.columns)}"
        )
    extra = [name for name in frame.columns if name not in spec.dtypes]
    unknown = [name for name in extra if not str(name).startswith(spec.open_prefixes or ("\0",))]
    if unknown:
        allowed = [*spec.dtypes, *(f"{prefix}*" for prefix in spec.open_prefixes)]
        raise DataError(
            f"columns {unknown} are unknown", field=kind, allowed=f"allowed are {allowed}"
        )
    kept = {name for name in coded if name in frame and is_encoded(frame[name])}
    columns = {
        name: frame[name] if name in kept else cast(frame[name], dtype, kind)
        for name, dtype in spec.dtypes.items()
        if name in frame.columns
    }
    for name in spec.key:
        refuse_rows(
            columns[name],
            columns[name].isna().to_numpy(),
            kind,
            "a value in every row: it is part of the key",
        )
    for name in spec.lowest:
        refuse_rows(
            columns[name],
            columns[name].to_numpy() < spec.lowest[name],
            kind,
            f"whole numbers from {spec.lowest[name]}",
        )
    columns |= {name: frame[name] for name in extra}
    return pd.DataFrame(columns, index=frame.index)


def empty(kind: str) -> pd.DataFrame:
    """A frame of this kind without rows: its required columns only."""
    return _made_empty(kind).copy(deep=False)


@cache
def _made_empty(kind: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            name: pd.Series([], dtype=_pandas_dtype(dtype))
            for name, dtype in KINDS[kind].required.items()
        }
    )


@cache
def _conformed_empty(kind: str) -> pd.DataFrame:
    return _conformed(_made_empty(kind), kind, ())


def _is_made_empty(frame: pd.DataFrame, kind: str) -> bool:
    """Whether this is a frame as `empty` makes them.

    Most kinds of most golden sets and results are.
    """
    known = _made_empty(kind)
    return (
        not len(frame)
        and isinstance(frame.index, pd.RangeIndex)
        and frame.columns.equals(known.columns)
        and frame.dtypes.tolist() == known.dtypes.tolist()
    )


def from_records(records: list[dict[str, Any]], kind: str) -> pd.DataFrame:
    """Rows given as dicts, as a frame of this kind.

    Optional columns that are None everywhere are left out.
    """
    if not records:
        return empty(kind)
    names = dict.fromkeys(name for record in records for name in record)
    spec = KINDS[kind]
    columns: dict[str, pd.Series] = {}
    for name in names:
        values = [record.get(name) for record in records]
        if name in spec.required or any(value is not None for value in values):
            dtype = (
                _pandas_dtype(spec.dtypes[name]) if name in spec.dtypes else _common_dtype(values)
            )
            columns[name] = pd.Series(values, dtype=dtype)
    return conform(pd.DataFrame(columns), kind)


def _common_dtype(values: list[Any]) -> str:
    """The narrowest dtype that keeps every value of a user's own column as it is."""
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in present):
        return "Int64"
    is_number = kinds <= {int, float} and all(
        isinstance(value, float) or abs(value) <= EXACT for value in present
    )
    return "float64" if is_number else "str"


def _pandas_dtype(dtype: str) -> str:
    return "str" if dtype == "category" else dtype


def categorical(codes: Any, categories: Any) -> pd.Categorical:
    """Codes (-1 = unknown) as a category column over these categories, or those of a category dtype."""
    dtype = (
        categories
        if isinstance(categories, pd.CategoricalDtype)
        else pd.CategoricalDtype(list(categories))
    )
    return pd.Categorical.from_codes(codes, dtype=dtype)


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dicts with None for whatever is missing, as JSON wants them."""
    return [
        {str(name): value for name, value in row.items()}
        for row in frame.astype(object).where(frame.notna(), None).to_dict("records")
    ]
