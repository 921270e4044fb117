"""Golden files and runs as arguments name them: files, folders, or names in a store."""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragscore.frames.data import DataError, Golden, Results, concat_results
from ragscore.io import load_golden, load_results
from ragscore.store.store import RunStore


def load(args: argparse.Namespace, runs: list[str]) -> tuple[Golden, Results, list[str]]:
    """Golden set, runs and their ids; every run must answer some of the golden questions.

    Of `args` it reads golden, store and ties, and usage: how the command is typed, for those who
    swap its arguments.
    """
    usage = f"ragscore {args.usage}"
    try:
        golden = load_golden(args.golden)
    except DataError as error:
        raise (
            _swapped(args.golden, load_results, "a run, not a golden file", usage) or error
        ) from None
    try:
        results, run_ids = _load_runs(runs, args.store, args.ties)
    except DataError as error:
        raise next(
            filter(
                None,
                (_swapped(name, load_golden, "a golden file, not a run", usage) for name in runs),
            ),
            error,
        ) from None
    _require_answers(golden, results, run_ids)
    return golden, results, run_ids


def load_pair(args: argparse.Namespace) -> tuple[Golden, Results, str, str]:
    """Golden set, both runs, and the ids of baseline and candidate."""
    golden, results, (baseline, candidate, *more) = load(args, [args.baseline, args.candidate])
    if more:
        raise DataError(
            f"{2 + len(more)} runs in two arguments",
            field="run",
            allowed="one run per file, or names in --store",
        )
    return golden, results, baseline, candidate


def open_store(folder: str) -> RunStore:
    """The store in a folder that must be there."""
    if not Path(folder).is_dir():
        raise DataError("no such folder", file=folder)
    return RunStore(folder)


def _load_runs(names: list[str], store: str | None, ties: str | None) -> tuple[Results, list[str]]:
    """Runs from files or from the store, and their run ids in the order named."""
    parts, run_ids = [], []
    for name in names:
        from_file = Path(name).exists() or store is None
        if ties is not None and not from_file:
            raise DataError(
                f"{name} is a stored run, which has its ranks",
                field="--ties",
                allowed="leave it out, or name the run's file",
            )
        part = (
            load_results(name, ties=ties or "file")
            if from_file
            else RunStore(store or "").load([name])
        )
        parts.append(part)
        run_ids += part.runs["run_id"].astype("str").tolist()
    twice = sorted({run_id for run_id in run_ids if run_ids.count(run_id) > 1})
    if twice:
        raise DataError(
            f"{', '.join(twice)} named by more than one argument",
            field="run",
            allowed="runs of different names; name them in run.json",
        )
    return concat_results(parts), run_ids


def _require_answers(golden: Golden, results: Results, run_ids: list[str]) -> None:
    asked = results.responses[results.responses["query_id"].isin(golden.queries["query_id"])][
        "run_id"
    ]
    strangers = [run_id for run_id in run_ids if run_id not in set(asked.astype("str"))]
    if strangers:
        raise DataError(
            f"no query in common with the golden file: {', '.join(strangers)}",
            field="run",
            allowed="runs that answer its questions, by their ids",
        )


def _swapped(path: str | None, load: Callable[..., Any], what: str, usage: str) -> DataError | None:
    """The error to raise instead, if the file that could not be loaded is one of the other kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if path is None or not Path(path).is_file():
                return None
            load(path)
        except DataError:
            return None
    return DataError(f"this is {what}", file=path, allowed=f"usage: {usage}")
