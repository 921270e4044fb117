"""What flows through ragscore: the kinds of frames, with their columns, dtypes and keys.

Every reader and the store pass their frames through `conform`, which checks and casts a frame to
its kind. Functions further down the pipe trust what they get. NA means unknown, never zero or "".

What an order of rows means: which rows are shown first, and nothing else. No number depends on it,
to the last bit: sums run in the order of query ids, or of the values themselves, or are exact. Only
these are read from an order:

- of hits without a stored rank: their rank (`rank_hits`); stored ranks otherwise, in any order.
  `coverage` counts lists whose stored ranks don't ascend in the file (`n_rank_order`)
- of several supports of a query, of which not all have a date: the newest is the last one
- of `golden.queries` without a `position`: their position
- of `runs`: which side of a pair of runs is the baseline, and what `query` compares ranks with
- of a single column given to `stats.bootstrap_mean`: which values its draws hit, as other tools do
"""

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_float_dtype, is_integer_dtype

from ragscore.frames.codes import coded, is_among
from ragscore.frames.errors import DataError, check_type, name_list
from ragscore.frames.schema import columns_of


@dataclass(frozen=True)
class Kind:
    """One frame kind: its key, then required and optional columns, each with its dtype.

    `open_prefixes` names families of columns that users bring along (`x_reviewer`,
    `latency_rerank_ms`); `lowest` is the smallest value that a column may hold, `choices` are all
    that it may hold. `made` makes a required column of the others where it is absent.
    `infinite` are the columns of numbers that may be infinite; all other numbers are finite.
    """

    key: tuple[str, ...]
    required: dict[str, str]
    optional: dict[str, str] = field(default_factory=dict)
    open_prefixes: tuple[str, ...] = ()
    lowest: dict[str, int] = field(default_factory=dict)
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    made: dict[str, Callable[[pd.DataFrame], Any]] = field(default_factory=dict)
    infinite: tuple[str, ...] = ()

    @property
    def dtypes(self) -> dict[str, str]:
        """Every declared column and its dtype, required ones first."""
        return {**self.required, **self.optional}


_UTC = "datetime64[us, UTC]"
_LOCATORS = {
    "chunk_id": "str", "doc_id": "str", "path": "str", "heading": "str",
    "start": "Int64", "end": "Int64", "span_unit": "str",
}  # fmt: skip
_CELL = {"run_id": "category", "query_id": "str"}
# Texts that a golden query is sliced by.
LABELS = ("lang", "difficulty", "category", "group", "variant", "conversation", "turn")

KINDS: dict[str, Kind] = {
    # -- Golden: what is right --
    # One row per query. answerable: NA = unlabelled, False = should be refused. group: paraphrases
    # of one intent, variant: which of them. turn: the number of the query in its conversation.
    "queries": Kind(
        ("query_id",),
        {"query_id": "str", "query": "str", "answerable": "boolean", "position": "int64"},
        dict.fromkeys((*LABELS, "reference_answer"), "str"),
        ("x_",),
        made={"query": lambda rows: rows["query_id"], "answerable": lambda rows: pd.NA,
              "position": lambda rows: np.arange(len(rows))},
    ),
    # One row per query and tag; several tags of one kind are allowed.
    "tags": Kind(("query_id", "kind", "value"), {"query_id": "str", "kind": "str", "value": "str"}),
    # One row per query, match level, target and alternative; any alternative meets the target.
    # gain: what a target of this grade earns in nDCG, where grades are levels of another scale.
    # judged_by: the models that graded it; NA: people.
    "targets": Kind(
        ("query_id", "level", "target_id", "alternative"),
        {"query_id": "str", "level": "str", "target_id": "str", "alternative": "int32",
         "grade": "int32"},
        {**_LOCATORS, "snippet": "str", "date": "str", "source_key": "str",
         "chunker_version": "str", "gain": "float64", "judged_by": "str"},
        ("x_",),
        lowest={"grade": 0, "alternative": 0},
        choices={"level": ("chunk", "doc", "anchor", "text", "source_key", "predicate")},
        made={"alternative": lambda rows: 0, "grade": lambda rows: 1},
    ),
    # One row per metadata key that a predicate target asks for; value is a JSON scalar.
    "conditions": Kind(
        ("query_id", "target_id", "key"),
        {"query_id": "str", "target_id": "str", "key": "str", "value": "str"},
    ),
    # One row per member of a group of targets that are needed together; any group will do.
    "support_groups": Kind(
        ("query_id", "group", "target_id"),
        {"query_id": "str", "group": "int32", "target_id": "str"},
    ),
    # One row per text that an answer must or must not hold, or other expectation of a query. A key
    # fact may have an importance (vital, okay) and a weight, below 0 for what should not be there.
    "checks": Kind(
        ("query_id", "kind", "text"),
        {"query_id": "str", "kind": "str", "text": "str"},
        {"importance": "str", "weight": "float64"},
    ),
    # -- Results: what systems answered --
    # One row per run; config is JSON text.
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
    # One row per run and query; error: NA = none; scope is JSON text.
    "responses": Kind(
        ("run_id", "query_id"), *columns_of("responses"), ("x_", "latency_"),
        made={"query": lambda rows: pd.NA, "error": lambda rows: pd.NA},
    ),
    # One row per hit; rank counts from 1, through all calls of a query, one after the other; call:
    # the search that returned it, from 1; text_cut: only the beginning of the text was stored.
    "hits": Kind(
        ("run_id", "query_id", "rank"), *columns_of("hits"), ("x_",),
        infinite=("score", "score_lexical", "score_vector"),  # the logarithm of 0 ranks, too
    ),
    # One row per hit and metadata key; value is a JSON scalar.
    "hit_meta": Kind(
        ("run_id", "query_id", "rank", "key"),
        {**_CELL, "rank": "int32", "key": "str", "value": "str"},
    ),
    # One row per citation of an answer.
    "citations": Kind(
        ("run_id", "query_id", "position"), *columns_of("citations"), ("x_",),
    ),
    # One row per judged item (a claim, a chunk, a whole answer) and criterion.
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
    # One row per chunk of the index as it was during the run.
    "chunks": Kind(
        ("chunk_id",),
        {"chunk_id": "str"},
        {**_LOCATORS, "text": "str", "doc_type": "str", "run_id": "category"},
        ("x_",),
    ),
    # One row per search or step on the way to an answer, counted from 1: what was asked of which
    # tool, when (ISO 8601), and how many hits came back; sub_queries is a JSON list of texts.
    "calls": Kind(
        ("run_id", "query_id", "call"), *columns_of("calls"), ("x_",),
    ),
    # One row per document of the corpus. A document is replaced by the one that `superseded_by`
    # names, or by a later one with the same version_key.
    "documents": Kind(
        ("doc_id",),
        {"doc_id": "str"},
        {"version_key": "str", "effective_timestamp": "Int64", "superseded_by": "str",
         "doc_type": "str", "path": "str", "run_id": "category"},
        ("x_",),
    ),
    # One row per value that another tool stored, `metric` as it calls it. With an empty query_id it
    # is an aggregate of the whole run, and `statistic` says which (NA: its mean). `label` is our
    # name of the metric, where the file's format says that it means the same. `better` ("higher" or
    # "lower"), the range from `lowest` to `highest`, and the `threshold` of success are the file's.
    "reported": Kind(
        ("run_id", "query_id", "metric"),
        {**_CELL, "metric": "str", "value": "float64"},
        {
            "statistic": "str", "label": "str", "better": "str", "lowest": "float64",
            "highest": "float64", "threshold": "float64",
        },
        ("x_",),
        infinite=("value",),  # the rank of a first match where there is none
    ),
    # One row per thing that loading with strict=False could not take.
    "problems": Kind(
        (),
        {"file": "str", "line": "Int64", "field": "str", "found": "str", "allowed": "str"},
        {"run_id": "category"},
    ),
    # One row per column of a table that was loaded, with the role it was taken for.
    "mapping": Kind(("role", "column"), {"role": "str", "column": "str"}),
}  # fmt: skip

UNKNOWN_TARGET = "unknown:"  # how a support group names a target that the query doesn't have

# What a judgment says instead of a value (`state`), and its verdict on a text that claims nothing.
FAILED, NOT_MEASURABLE, NO_CLAIMS = "judge_failed", "not_measurable", "no_claims"

# How much a key fact matters -> its weight where nuggets are weighted by it.
IMPORTANCE = {"vital": 1.0, "okay": 0.5}
# Verdict on a key fact -> what it counts, unless the count is strict.
WORTH = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}

LARGEST_EXACT_FLOAT = 2**53  # up to here every whole number is a float64, too
# What pandas says of values -> the dtype that keeps each of them as it is
_INFERRED = {"string": "str", "boolean": "boolean", "integer": "Int64", "floating": "float64"}
# and of values of a user's own column; others are text
_OWN = {**_INFERRED, "empty": "float64", "mixed-integer-float": "float64"}
_LARGEST = {"Int64": 2**63 - 1, "float64": LARGEST_EXACT_FLOAT}


def conform(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return the same rows with the columns of `kind` in declared order and dtype, keys first.

    Optional columns may be absent and are never added.

    Raises
    ------
    DataError
        A required column is missing, a column is unknown or there twice, or a value doesn't fit: NA
        in a key, a boolean, date or decimal number as an id, 1.5 or a number out of range in a
        column of whole numbers. The first such row is named.
    """
    check_type(frame, pd.DataFrame, kind)
    # Most frames of most golden sets and results are empty: no value can be wrong in them.
    if not len(frame) and frame.columns.equals(_new_empty(kind).columns):
        return empty(kind)
    return _conformed(frame, kind)


def _conformed(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    spec = KINDS[kind]
    names, dtypes = frame.columns.tolist(), spec.dtypes
    twice = [] if frame.columns.is_unique else [*frame.columns[frame.columns.duplicated()].unique()]
    missing = [name for name in spec.required if name not in names and name not in spec.made]
    extra = [name for name in names if name not in dtypes]
    unknown = [name for name in extra if not str(name).startswith(spec.open_prefixes or ("\0",))]
    known = ", ".join([*(f"{one}*" for one in spec.open_prefixes), *dtypes])
    for wrong, found, allowed in (
        (twice, "repeated", "each column once"),
        (missing, "missing", f"found {name_list(names)}"),
        (unknown, "unknown", known),
    ):
        if wrong:
            raise DataError(f"{found} columns: {name_list(wrong)}", field=kind, allowed=allowed)
    made = {name: make(frame) for name, make in spec.made.items() if name not in names}
    held: dict[Any, pd.Series] = dict((frame.assign(**made) if made else frame).items())
    columns = {
        name: cast(held[name], dtype, kind) for name, dtype in dtypes.items() if name in held
    }
    for one in map(columns.__getitem__, spec.key):
        refuse_rows(one, one.array.isna(), kind, "a value in every row: it is part of the key")
    for name, lowest in spec.lowest.items():
        low = columns[name].to_numpy() < lowest
        refuse_rows(columns[name], low, kind, f"whole numbers from {lowest}")
    for name, choices in spec.choices.items():
        refuse_rows(
            columns[name], ~is_among(columns[name], choices), kind, f"one of {', '.join(choices)}"
        )
    columns |= {name: held[name] for name in extra}
    for name, column in columns.items():
        if column.dtype == object:
            is_large = column.map(_is_beyond_64_bits).to_numpy(dtype=bool)
            refuse_rows(column, is_large, kind, "whole numbers of 64 bits, or text")
        elif not (name in spec.infinite or name.startswith("x_")) and is_float_dtype(column.dtype):
            is_infinite = np.isinf(column.to_numpy("float64", na_value=np.nan))
            refuse_rows(column, is_infinite, kind, "finite numbers; NaN where unknown")
    if [*columns] == names and all(columns[name] is held[name] for name in names):
        return frame.copy(deep=False)  # it conforms as it is
    return pd.DataFrame(columns, index=frame.index, copy=False)


def _is_beyond_64_bits(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def empty(kind: str) -> pd.DataFrame:
    """Return a frame of this kind without rows: its required columns only."""
    return _new_empty(kind).copy(deep=False)


@cache
def _new_empty(kind: str) -> pd.DataFrame:
    return _conformed(pd.DataFrame(columns=[*KINDS[kind].required], dtype=object), kind)


def from_records(records: list[dict[str, Any]], kind: str) -> pd.DataFrame:
    """Return a frame of this kind with one row per dict.

    Optional columns that are None everywhere are left out.
    """
    if not records:
        return empty(kind)
    spec, columns = KINDS[kind], dict[str, pd.Series]()
    for name in dict.fromkeys(chain.from_iterable(records)):
        values = [None if (one := row.get(name)) is pd.NA else one for row in records]
        if name in spec.required or any(value is not None for value in values):
            known, other = (_INFERRED, "object") if name in spec.dtypes else (_OWN, "str")
            dtype = known.get(infer_dtype(values, skipna=True), other)
            if dtype in _LARGEST and any(
                isinstance(value, int) and abs(value) > _LARGEST[dtype] for value in values
            ):
                dtype = other
            columns[name] = pd.Series(values, dtype=dtype)
    return conform(pd.DataFrame(columns), kind)


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as dicts with None for every missing value, as JSON wants them."""
    return [
        {str(name): value for name, value in row.items()}
        for row in frame.astype(object).where(frame.notna(), None).to_dict("records")
    ]


def parsed(text: Any) -> Any:
    """Return a stored config: {} where there is none, and text that isn't JSON as it is."""
    if pd.isna(text) or not text:
        return {}
    try:
        return json.loads(text)
    except ValueError:
        return text


def flat(config: Any, prefix: str = "") -> dict[str, Any]:
    """Return values by dotted key; a config that is no object is the value of the key `config`."""
    if not isinstance(config, dict):
        return {prefix or "config": config}
    return {
        key: value
        for name, inner in config.items()
        for key, value in flat(inner, f"{prefix}.{name}" if prefix else str(name)).items()
    }


def dumped(value: Any) -> str:
    """Return a value as JSON, the same text for equal values: 5 and "5" differ."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def categorical(codes: Any, categories: Any) -> pd.Categorical:
    """Return codes (-1 = unknown) as a column over these categories, or over a category dtype."""
    if not isinstance(categories, pd.CategoricalDtype):
        categories = pd.CategoricalDtype(list(categories))
    return pd.Categorical.from_codes(codes, dtype=categories)


def cast(column: pd.Series, dtype: str, kind: str) -> pd.Series:
    """Return a column of the frame kind `kind` as `dtype`, or refuse it.

    Nothing is rounded, wrapped around or turned into text silently.

    Raises
    ------
    DataError
        A value that `dtype` can't hold as it is; frame, column and first row are named.
    """
    if str(column.dtype) == dtype:
        return column
    casts = {"str": _as_text, "category": _as_text, _UTC: _as_times, "boolean": _as_flags}
    return casts.get(dtype, _as_numbers)(column, dtype, kind)


def refuse_rows(column: pd.Series, is_bad: np.ndarray, kind: str, allowed: str) -> None:
    """Raise a `DataError` that names frame, column and the first bad row, counted from 0."""
    if is_bad.any():
        row = int(is_bad.argmax())
        value = column.astype(object).iloc[row]
        raise DataError(
            f"row {row} holds {'NA' if pd.isna(value) is True else repr(value)}"
            f" ({int(is_bad.sum())} of {len(column)} rows are like that)",
            field=f"{kind}.{column.name}",
            allowed=allowed,
        )


def _as_text(column: pd.Series, dtype: str, kind: str) -> pd.Series:
    """Return texts. Ids are text or whole numbers; other texts may be any number."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype("str" if column.cat.categories.dtype == "str" else "object")
    if infer_dtype(column, skipna=True) not in ("string", "integer", "empty"):
        is_id = str(column.name).endswith("_id")
        types = (str, int, np.integer) if is_id else (str, int, float, np.number)
        is_bad = column.notna() & column.astype(object).map(
            lambda value: isinstance(value, (bool, np.bool_)) or not isinstance(value, types)
        )
        refuse_rows(column, is_bad.to_numpy(dtype=bool), kind, "text" + " or whole numbers" * is_id)
    texts = column.astype("str")
    return coded(texts) if dtype == "category" else texts


def _as_times(column: pd.Series, dtype: str, kind: str) -> pd.Series:
    """Return times; texts are ISO 8601, and a time without a zone is one of UTC."""
    times = pd.to_datetime(column.astype("str"), utc=True, format="ISO8601", errors="coerce")
    allowed = "times, or texts such as 2026-01-31T09:30:00Z"
    refuse_rows(column, (column.notna() & times.isna()).to_numpy(dtype=bool), kind, allowed)
    return times.astype(dtype)  # type: ignore[call-overload]


def _as_flags(column: pd.Series, dtype: str, kind: str) -> pd.Series:
    """Return flags; 0 and 1 are some, too."""
    is_flag = column.map(
        lambda one: isinstance(one, (int, float, np.generic)) and one in (0, 1)
    ).to_numpy(dtype=bool)
    refuse_rows(column, ~is_flag & column.notna().to_numpy(), kind, "true or false")
    return column.map(bool, na_action="ignore").astype(dtype)  # type: ignore[call-overload]


def _as_numbers(column: pd.Series, dtype: str, kind: str) -> pd.Series:
    """Return numbers: no fraction is cut off, and nothing wraps around."""
    numbers = column if column.dtype.kind in "iuf" else _numbers_in(column, dtype)
    values: Any = numbers.values
    fits, allowed = ~pd.isna(values), "numbers that 64 bits can hold"
    if dtype != "float64":
        low, high = (-(2**31), 2**31 - 1) if dtype == "int32" else (-(2**63), 2**63 - 1)
        allowed = f"whole numbers from {low} to {high}"
        fits = fits & (values >= low) & (values <= high)
        if not is_integer_dtype(numbers.dtype):
            with np.errstate(invalid="ignore"):  # of infinite ones
                is_whole = values % 1 == 0
            # 2**63 - 1 is no float: the next one up must not pass for it
            fits = fits & is_whole & (values < 2.0**63)
    is_needed = dtype in ("int32", "int64") or ~column.array.isna()
    refuse_rows(column, ~np.asarray(fits, dtype=bool) & is_needed, kind, allowed)
    return numbers.astype(dtype)  # type: ignore[call-overload]


def _numbers_in(column: pd.Series, dtype: str) -> pd.Series:
    """Return the numbers in a column of objects or texts, NA for all else; 1e999 is no infinity."""
    values = column.astype(object)
    others = (dt.date, dt.timedelta, *([bool] if dtype != "float64" else []))
    is_other = values.map(lambda one: isinstance(one, others) or _is_beyond_64_bits(one))
    values = values.mask(is_other.astype(bool))
    # a nullable type: None among whole numbers would make floats of them, and round large ones
    numbers = pd.to_numeric(values, errors="coerce", dtype_backend="numpy_nullable")
    if dtype == "float64":
        is_said = values.astype("str").str.lower().str.contains("inf")
        numbers = numbers.mask(np.isinf(numbers) & ~is_said)
    return numbers
