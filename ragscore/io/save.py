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
from ragscore.io.registry import FORMATS, formats_of

# Files that no reader of results begins with.
BESIDE = {
    "judgments": "ragscore.io.sidecars:write_judgments",
    "retriever_summary": "ragscore.io.formats.retrievers:write_retriever_summary",
}


def save_results(
    results: Results, path: str | os.PathLike[str], format: str | None = None, **options: Any
) -> Path:
    """Write results to a file or folder, as `rs.load_results` reads it again.

    Parameters
    ----------
    path
        Its ending names the format: .jsonl our run file (one run), .trec or .run a TREC run. Each
        may end in .gz.
    format
        per_query, trec, json_run, chatbot, retrievers, trec_rag or metric_report; judgments (the
        judgments of one run) or retriever_summary (the outcomes of responses, without hits).
        Needed only if the ending doesn't tell.
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
    return _save(results, path, format, "results", options)


def save_golden(
    golden: Golden, path: str | os.PathLike[str], format: str | None = None, **options: Any
) -> Path:
    """Write a golden set to a file or folder, as `rs.load_golden` reads it again.

    Parameters
    ----------
    path
        Its ending names the format: .yaml or .jsonl our golden file, .qrels TREC judgements. Each
        may end in .gz.
    format
        golden, trec_qrels, json_qrels, qrels_jsonl, beir, chatbot or predicates. Needed only if the
        ending doesn't tell.
    options
        What the format takes, such as `level="chunk"` for trec_qrels.

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
    return _save(golden, path, format, "golden", options)


def _save(
    data: Results | Golden,
    path: str | os.PathLike[str],
    format: str | None,
    side: str,
    options: dict[str, Any],
) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise DataError(f"found {type(path).__name__}", field="path", allowed="a path")
    formats = FORMATS[side] if format is None else formats_of(side)
    writers = {one.name: one.write for one in formats if one.write is not None}
    keeps = {one.name: one.keeps for one in formats if one.keeps}
    writers |= BESIDE if side == "results" else {}
    suffixes = {end: one.name for one in formats for end in one.suffixes}
    ending = Path(Path(path).name.removesuffix(".gz")).suffix.lower()
    name = format if format is not None else suffixes.get(ending)
    if not isinstance(name, str) or name not in writers:
        known = f"format=, one of {', '.join(writers)}"
        endings = f"or a path that ends in {', '.join(suffixes)}"
        if name is None:
            raise DataError(
                f"{path} doesn't tell the format", field="format", allowed=f"{known}; {endings}"
            )
        raise DataError(
            f"unknown format {excerpt(name)}", field="format", allowed=nearest(name, writers)
        )
    write = function_at(writers[name])
    known_options = dict([*signature(write).parameters.items()][2:])  # after the data and the path
    if unknown := sorted(options.keys() - known_options.keys()):
        raise DataError(
            f"{unknown[0]}={options[unknown[0]]!r} means nothing in format {name}",
            field=unknown[0],
            allowed=f"one of {', '.join(known_options) or 'no options'}",
        )
    written: Path = write(data, os.fspath(path), **options)
    level = options.get("level", known_options["level"].default if "level" in known_options else "")
    kept = keeps.get(name, "").format(level=level).split()
    if kept and (told := _left_out(data, kept, level)):
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
    for kind in (
        one.name for one in fields(data) if one.name.strip("_") not in ("problems", "mapping")
    ):
        frame = getattr(data, kind)
        if frame is None or kind in keeps:
            continue
        kept, made = (
            tuple(one for one in keeps if one.startswith(f"{kind}.")),
            KINDS[kind].made | _IMPLIED,
        )
        is_bare = bool(kept) or kind in ("runs", *_ROWS_OF)  # only what a row says itself counts
        is_lost, columns = pd.Series(not is_bare, frame.index), []
        keys = [*{*KINDS[kind].key} - {*made}, *_MADE_ANEW]
        for name in frame.columns.difference(keys, sort=False) if is_bare else ():
            is_said = frame[name].notna()
            if name in made:
                is_said &= frame[name].ne(made[name](frame)).fillna(True)
            if not f"{kind}.{name}".startswith(kept) and is_said.any():
                columns.append(name)
                is_lost |= is_said
        if kind in _ROWS_OF and not kept:
            key = [name for name in ("run_id", "query_id") if name in frame]
            both = (one[key].astype("str") for one in (frame, getattr(data, _ROWS_OF[kind])))
            cells, named = map(pd.MultiIndex.from_frame, both)
            is_lost |= ~cells.isin(named)
        if kind == "targets" and level:
            is_lost |= frame["level"] != level
        if is_lost.any():
            names = f" ({', '.join(columns)})" if columns else ""
            told.append(f"{kind}: {int(is_lost.sum()):,}{names}")
    return told
