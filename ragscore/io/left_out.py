"""What a format has no place for, as its writer declares it: counted in a warning."""

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import Golden, Results
from ragscore.frames.errors import warn
from ragscore.frames.kinds import KINDS

ID_COLUMNS = {"doc": "doc_id", "chunk": "chunk_id"}
NOT_DATA = ("problems", "mapping")
MADE_ANEW = ("n_queries", "n_failed", "position", "target_id")
ROWS_OF = {"responses": "hits", "queries": "targets"}
"""Frame -> the one whose rows name its rows, where a format has no records of queries."""

Writer = Callable[..., Path]


def keeping(*kept: str, level: str | None = None) -> Callable[[Writer], Writer]:
    """Make a writer warn of the frames and columns that its format doesn't keep, with counts.

    Parameters
    ----------
    kept
        Names of frames, of columns ("hits.score"), and how such names begin ("responses.x_").
    level
        The one level of targets that is kept; None: the level that the writer is given, if any.
    """

    def of(write: Writer) -> Writer:
        levels = signature(write).parameters.get("level")

        @wraps(write)
        def written(data: Any, path: Any, *args: Any, **options: Any) -> Path:
            file = write(data, path, *args, **options)
            own = level if levels is None else options.get("level", levels.default)
            if told := _left_out(data, kept, own):
                warn(f"{file} has no place for {'; '.join(told)}")
            return file

        return written

    return of


def _left_out(data: Results | Golden, kept: tuple[str, ...], level: str | None) -> list[str]:
    told = []
    for item in fields(data):
        kind, frame = item.name, getattr(data, item.name)
        if kind in NOT_DATA or frame is None or not len(frame):
            continue
        own = [one.partition(".")[2] for one in kept if one.startswith(f"{kind}.")]
        n_lost = 0 if own or kind in kept else len(frame)
        if kind not in kept and (own or kind in ("runs", *ROWS_OF)):
            n_lost = _n_unnamed(data, kind) if kind in ROWS_OF and not own else 0
            own += [ID_COLUMNS[level]] if level in ID_COLUMNS else []
            told += _lost_columns(frame, kind, tuple(own))
        if kind == "targets" and level is not None:
            n_lost = int((frame["level"] != level).sum())
        told += [f"{kind}: {n_lost:,}"] if n_lost else []
    return told


def _lost_columns(frame: pd.DataFrame, kind: str, kept: tuple[str, ...]) -> list[str]:
    """Return the columns that aren't kept and have values, by how many: "error (responses: 3)".

    Keys don't count, nor values that every row gets where none is stated.
    """
    spec, names = KINDS[kind], dict[int, dict[str, None]]()
    for name in frame.columns.difference([*{*spec.key} - {*spec.made}, *MADE_ANEW], sort=False):
        stated = frame[name].notna()
        if name in spec.made and (made := spec.made[name](frame)) is not pd.NA:
            stated &= frame[name].ne(made)
        if name == "system":  # a run without one is named by it
            stated &= frame[name].ne(frame["run_id"].astype("str"))
        elif name == "repeat":  # the first is one where nothing says so
            stated &= frame[name].ne(1)
        elif name == "answerable":  # targets imply it
            stated &= ~frame[name].fillna(True)
        if stated.any() and not name.startswith(kept):
            field = name.split(".")[0] if name.startswith("x_") else name
            names.setdefault(int(stated.sum()), {})[field] = None
    return [f"{', '.join(found)} ({kind}: {n:,})" for n, found in names.items()]


def _n_unnamed(data: Results | Golden, kind: str) -> int:
    """Count the rows that no row of the other frame names."""
    frame, others = getattr(data, kind), getattr(data, ROWS_OF[kind])
    key = [one for one in ("run_id", "query_id") if one in frame]
    cells, named = (pd.MultiIndex.from_frame(one[key].astype("str")) for one in (frame, others))
    return int((~cells.isin(named)).sum())
