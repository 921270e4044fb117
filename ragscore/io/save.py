"""Write results and golden sets in any format that has a writer: `results.save`, `golden.save`."""

import os
from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import Golden, Results
from ragscore.frames.errors import DataError, excerpt, nearest, warn
from ragscore.frames.kinds import KINDS
from ragscore.io.detect import function_at
from ragscore.io.registry import formats_of

# Files that no reader of results begins with.
BESIDE = {
    "judgments": "ragscore.io.sidecars:write_judgments",
    "retriever_summary": "ragscore.io.formats.retrievers:write_retriever_summary",
}


def save(
    data: Results | Golden, path: str | os.PathLike[str], format: str | None = None, **options: Any
) -> Path:
    """Write results or a golden set to a file or folder, as `load_*` reads it again.

    Parameters
    ----------
    path
        Its ending names the format. Of results: .jsonl our run file (one run), .trec or .run a TREC
        run; of a golden set: .yaml or .jsonl our golden file, .qrels TREC judgements. Each may end
        in .gz.
    format
        Needed only if the ending doesn't tell. Of results: per_query, trec, chatbot,
        retrievers or metric_report; judgments (the judgments of one run) or
        retriever_summary (the outcomes of responses, without hits). Of a golden set: golden,
        trec_qrels, qrels_jsonl, beir, chatbot or predicates.
    options
        What the format takes, such as `level="chunk"` for trec.

    Returns
    -------
    The path that was written.

    Raises
    ------
    DataError
        An unknown format or option; content that the format can't hold.

    Warns
    -----
    UserWarning
        Counts what the format has no place for.
    """
    side = "results" if isinstance(data, Results) else "golden"
    if not isinstance(path, (str, os.PathLike)):
        raise DataError(f"found {type(path).__name__}", field="path", allowed="a path")
    formats = formats_of(side)
    writers = {one.name: one.write for one in formats if one.write is not None}
    writers |= BESIDE if side == "results" else {}
    of_ending = {end: one.name for one in formats for end in one.suffixes}
    ending = Path(os.fspath(path).removesuffix(".gz")).suffix.lower()
    name = of_ending.get(ending) if format is None else format
    if name is None:
        allowed = f"format=, one of {', '.join(writers)}; or a path that ends in"
        raise DataError(f"{path} doesn't tell the format", field="format",
                        allowed=f"{allowed} {', '.join(of_ending)}")  # fmt: skip
    if not isinstance(name, str) or name not in writers:
        found = f"unknown format {excerpt(name)}"
        raise DataError(found, field="format", allowed=nearest(name, writers))
    write = function_at(writers[name])
    known = dict([*signature(write).parameters.items()][2:])  # after the data and the path
    for unknown in sorted({*options} - {*known}):
        raise DataError(
            f"{unknown}={options[unknown]!r} means nothing in format {name}",
            field=unknown,
            allowed=f"one of {', '.join(known) or 'no options'}",
        )
    written: Path = write(data, os.fspath(path), **options)
    keeps = next((one.keeps for one in formats if one.name == name), "")
    level = options.get("level", known["level"].default if "level" in known else "")
    if keeps and (told := _left_out(data, keeps.format(level=level).split(), level)):
        warn(f"{written} has no place for {'; '.join(told)}")
    return written


_MADE_ANEW = ("n_queries", "n_failed", "position", "target_id")
_IMPLIED: dict[str, Callable[[pd.DataFrame], Any]] = {
    "system": lambda runs: runs["run_id"].astype("str"), "repeat": lambda runs: 1,
    "answerable": lambda queries: True,
}  # fmt: skip
_ROWS_OF = {"responses": "hits", "queries": "targets"}
"""Frame -> the one whose rows name its rows, where a format has no records of queries."""


def _left_out(data: Results | Golden, keeps: list[str], level: str) -> list[str]:
    """Return how many rows of each frame say what isn't kept: "responses: 3 (answer, error)"."""
    told = []
    for kind in (one.name for one in fields(data)):
        frame = getattr(data, kind)
        if frame is None or kind.strip("_") in ("problems", "mapping", *keeps):
            continue
        kept = tuple(one.partition(".")[2] for one in keeps if one.startswith(f"{kind}."))
        made = KINDS[kind].made | _IMPLIED
        keys = ({*KINDS[kind].key} - {*made}).union(_MADE_ANEW)
        said = frame[[one for one in frame if one not in keys and not one.startswith(kept)]].notna()
        for name in [one for one in said if one in made]:
            said[name] &= frame[name].ne(made[name](frame)).fillna(True)
        is_lost, columns = said.any(axis=1), [*said.columns[said.any()]]
        if not kept and kind not in ("runs", *_ROWS_OF):  # it has no place for any row
            is_lost, columns = pd.Series(True, frame.index), []
        if kind in _ROWS_OF and not kept:
            key = [name for name in ("run_id", "query_id") if name in frame]
            both = (one[key].astype("str") for one in (frame, getattr(data, _ROWS_OF[kind])))
            rows, named = map(pd.MultiIndex.from_frame, both)
            is_lost |= ~rows.isin(named)
        if kind == "targets" and level:
            is_lost |= frame["level"] != level
        if is_lost.any():
            names = f" ({', '.join(columns)})" if columns else ""
            told.append(f"{kind}: {int(is_lost.sum()):,}{names}")
    return told
