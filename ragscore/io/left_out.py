"""Count what a written file leaves out: one check for all writers, ours and those of others.

In: the data, and a writer. The file is read back by its format's reader and compared by counts. A
declaration of what a format holds would cost no time, but it could differ from what the writer does
and from what the reader takes; and others' formats have none.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import unsaid, warn
from ragscore.frames.kinds import KINDS
from ragscore.io.detect import function_at

IDS = ("chunk_id", "doc_id", "source_key")
NOT_DATA = ("problems", "mapping")
MADE_ANEW = {"runs": ("n_queries", "n_failed"), "queries": ("position",)}

Writer = Callable[..., Path]


def counting_left_out(format: str) -> Callable[[Writer], Writer]:
    """Make a writer of a format warn of what reading its file doesn't give back, with counts."""

    def counting(write: Writer) -> Writer:
        @wraps(write)
        def written(data: Any, path: Any, *args: Any, **options: Any) -> Path:
            file = write(data, path, *args, **options)
            if Path(file).is_file() or Path(file).is_dir():  # a pipe gives nothing back
                given = signature(write).bind(data, path, *args, **options)
                given.apply_defaults()
                read = {"split": given.arguments["split"]} if "split" in given.arguments else {}
                _warn(data, file, format, read)
            return file

        return written

    return counting


def _warn(data: Results | Golden, file: Path, format: str, options: dict[str, Any]) -> None:
    side = "results" if isinstance(data, Results) else "golden"
    load = function_at(f"ragscore.io.load:load_{side}")
    try:
        with unsaid():  # about the data, which loading and scoring repeat
            found = load(file, format, strict=False, max_bytes=None, **options)
    except DataError as error:
        warn(f"{file} can't be read back as format {format}: {error}")
        return
    columns: dict[str, list[str]] = {}
    for what, n in left_out(data, found).items():
        kind, _, column = what.partition(".")
        columns.setdefault(f"{kind}: {n:,}", []).extend([column] if column else [])
    if columns:
        told = (f"{', '.join(names)} ({at})" if names else at for at, names in columns.items())
        warn(f"{file} has no place for {'; '.join(told)}")


def left_out(data: Results | Golden, found: Results | Golden) -> dict[str, int]:
    """Count the rows and values of `data` that `found` lacks: by frame, or by frame and column.

    Rows are told apart by nothing but their number. Values that every row gets where none is stated
    don't count, nor those of lost rows. An id is kept if any id column has it: formats with one id
    per hit take that of the level that is written.
    """
    counts: dict[str, int] = {}
    for item in fields(data):
        before, after = getattr(data, item.name), getattr(found, item.name)
        if before is None or not len(before) or item.name in NOT_DATA:
            continue
        n_after = 0 if after is None else len(after)
        n_lost = max(len(before) - n_after, 0)
        if n_lost:
            counts[item.name] = n_lost
        if n_after:
            was, kept = _n_values(before, item.name), _n_values(after, item.name)
            lost = {name: n - kept.get(name, 0) for name, n in was.items()}
            if item.name == "runs":  # readers fill in much of what describes a run
                lost |= {
                    name: _n_lost(before[name], after[[name]] if name in after else after[[]])
                    for name in KINDS["runs"].dtypes
                    if name in before and name not in MADE_ANEW["runs"]
                }
            there = after[[name for name in IDS if name in after]]
            lost |= {name: _n_lost(before[name], there) for name in IDS if name in before}
            counts |= {f"{item.name}.{name}": n for name, n in lost.items() if n > n_lost}
    return counts


def _n_values(frame: pd.DataFrame, kind: str) -> dict[str, int]:
    """Count the stated values of each column; parts of one `x_` field count as one column."""
    spec, stated = KINDS[kind], dict[str, pd.Series]()
    skipped = {*spec.key, *IDS, *MADE_ANEW.get(kind, ())} - ({*spec.made} & {*spec.key})
    for name in frame.columns.difference([*skipped], sort=False):
        has_value = frame[name].notna()
        if name in spec.made:
            made = spec.made[name](frame)
            has_value &= True if made is pd.NA else frame[name].ne(made)
        field = name.removesuffix(".json").split(".")[0] if name.startswith("x_") else name
        stated[field] = stated[field] | has_value if field in stated else has_value
    return {name: int(has_value.sum()) for name, has_value in stated.items()}


def _n_lost(values: pd.Series, after: pd.DataFrame) -> int:
    """Count the values that none of these columns has."""
    known = {_plain(value) for name in after for value in after[name].dropna().unique()}
    stated = values.dropna()
    lost = [one for one in stated.unique() if _plain(one) not in known]
    return int(stated.isin(lost).sum())


def _plain(value: Any) -> str:
    """Return a value as text; an object of JSON without its spaces."""
    text = str(value)
    if text.startswith("{"):
        with suppress(ValueError):
            return json.dumps(json.loads(text), sort_keys=True)
    return text
