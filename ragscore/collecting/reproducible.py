"""Reproducibility: two runs compared value by value, except for timing, as a plain frame."""

import os
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import KINDS, DataError, Results, check_type
from ragscore.frames.kinds import dumped, flat, parsed
from ragscore.io.load import load_results

# Durations, and values that are new in every call.
_VOLATILE = r"_ms$|(?:^|[._])(?:created_at|trace_id|attempts)$"
_FRAMES = ("responses", "hits", "hit_meta", "citations", "calls", "judgments")
_RUN = ("system", "suite", "k", "golden_hash", "chunker_version")
_PLACE = ["part", "query_id", "row", "column"]
_ROW = "(row)"  # the column of a row that only one run has


def same_run(
    a: Results | str | os.PathLike[str],
    b: Results | str | os.PathLike[str],
    *,
    tolerance: float = 0.0,
) -> pd.DataFrame:
    """Return every value in which two runs differ, except for timing; an empty frame if none does.

    A deterministic system gives the same run twice with one seed. Not compared are ids and times of
    the runs, code, libraries, machine and request policy; in the frames, columns of milliseconds,
    `created_at`, `trace_id` and `attempts`.

    Parameters
    ----------
    a, b
        One run each: `Results`, or its file or folder.
    tolerance
        Largest difference of equal numbers.

    Returns
    -------
    One row per differing value: `part` (config, run, or the name of the frame), `query_id` and
    `row` (the rest of the key, such as a hit's rank; both empty for config and run), `column`, and
    both values as text in `a`, `b` (NA if a run has no such row or value).

    Raises
    ------
    DataError
        A file that cannot be read, or more than one run on a side.

    Examples
    --------
    >>> assert monday.same_run(tuesday).empty
    """
    both = _cells(a, "a").merge(_cells(b, "b"), on=_PLACE, how="outer")
    is_near = (both["number_a"] - both["number_b"]).abs().le(tolerance)
    both = both[~(both["a"].eq(both["b"]) | is_near)]
    # A row that only one run has counts once.
    keys = pd.MultiIndex.from_frame(both[_PLACE[:3]])
    is_row = both["column"] == _ROW
    return both.loc[is_row | ~keys.isin(keys[is_row]), [*_PLACE, "a", "b"]].reset_index(drop=True)


def _cells(run: Results | str | os.PathLike[str], side: str) -> pd.DataFrame:
    """Return every known value of a run as text: part, query_id, row, column, and the value."""
    results = load_results(os.fspath(run)) if isinstance(run, (str, os.PathLike)) else run
    check_type(results, Results, side)
    if len(results.runs) != 1:
        raise DataError(
            f"found {len(results.runs)} runs", field=side,
            allowed="exactly one; choose it with results.select([name])",
        )  # fmt: skip
    run_row: dict[Any, Any] = results.runs.astype(object).iloc[0].dropna().to_dict()
    config = flat(parsed(run_row.get("config", "{}")))
    facts = [("config", "", "", name, dumped(value)) for name, value in config.items()]
    facts += [("run", "", "", name, str(run_row[name])) for name in _RUN if name in run_row]
    parts = [pd.DataFrame(facts, columns=[*_PLACE, side])]
    for name in _FRAMES:
        frame: pd.DataFrame | None = getattr(results, name)
        if frame is None or not len(frame):
            continue
        keys = [one for one in KINDS[name].key if one not in ("run_id", "query_id")]
        row = frame[keys].astype("str").agg(" ".join, axis=1) if keys else ""
        left = [one for one in frame if one not in ("run_id", "query_id", *keys)]
        values = frame[left].astype(object).assign(**{_ROW: "there"})
        long = values.assign(query_id=frame["query_id"], row=row).melt(
            ["query_id", "row"], var_name="column", value_name=side
        )
        parts.append(long.dropna(subset=[side]).assign(part=name))
    cells = pd.concat(parts, ignore_index=True)
    cells = cells[~cells["column"].str.contains(_VOLATILE)]
    numbers = [float(one) if isinstance(one, Real) else np.nan for one in cells[side]]
    texts = cells.assign(**{side: cells[side].map(str)}).astype("str")
    return texts.assign(**{f"number_{side}": np.array(numbers, dtype="float64")})
