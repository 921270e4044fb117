"""`ragscore check`: which metrics some files support."""

import argparse
import textwrap
from typing import Any

import pandas as pd

from ragscore.analysis.extras.runs import traces
from ragscore.cli.options import (
    JSON,
    RUN_HELP,
    WIDTH,
    Group,
    as_json,
    command,
    option,
    reading,
    reading_options,
    say,
)
from ragscore.frames.data import DataError, Golden, Results, records_of
from ragscore.frames.errors import unsaid
from ragscore.golden.requirements import parts_of, supported_metrics
from ragscore.io.load import load_golden, load_results


@command(
    "check FILE...",
    "Tell which metrics some files support, and what others lack.",
    "check golden.yaml runs/dense",
    option(
        "files", f"golden files, runs, or both: {RUN_HELP.rpartition(',')[0]}", "file", nargs="+"
    ),
    JSON,
    Group(
        "the files",
        reading_options("", "query_id=qid,doc_id=docno", "golden", "results"),
    ),
    details="Nothing is scored. Of traces it also counts what was read and what was left out, with"
    " the argument that would take it. --json then has `traces`, `left_out` and `metrics`. A file"
    " that fits no format is refused with the options that would make it readable.",
)
def check_command(args: argparse.Namespace) -> None:
    """Print which metrics the files support, grouped by what the others lack."""
    options = {"format": None, "columns": None, "strict": False} | reading(args)
    sides = [side for file in args.files for side in parts_of(file, options)]
    sources: list[Golden | Results] = [one for side in sides for one in side]
    table = supported_metrics(*sources)
    traced = [one for one in sources if isinstance(one, Results) and "x_n_spans" in one.responses]
    counts = [row for one in traced for row in records_of(traces(one))]
    notes = [row for one in traced for row in records_of(one.problems)]
    if args.json:
        metrics_of = records_of(table)
        seen = {"traces": counts, "left_out": notes, "metrics": metrics_of}
        say(as_json(seen if traced else metrics_of))
        return
    supported = table[table["supported"]]
    lacking = table[~table["supported"]]
    is_judged = lacking["missing"] == "judgments of " + lacking["metric"]
    judged = "judgments of a model (`ragscore judge`)"
    lacking = lacking.assign(missing=lacking["missing"].mask(is_judged, judged))
    levels = next((text for text in table["levels"] if text), "")
    parts = [line for file in args.files for line in _told(file, options)]
    parts += [*map(_seen, counts), *map(_left_out, notes)]
    parts += [f"targets: {levels}"] if levels else []
    parts.append(_paragraph("supported", supported["metric"]))
    for missing, rows in lacking.groupby("missing", sort=False):
        parts.append(_paragraph(f"without {missing}", rows["metric"]))
    say("\n".join(parts))


def _told(file: str, options: dict[str, Any]) -> list[str]:
    """Return what is in a file, and the `columns=` that would make more of it readable."""
    told: list[str] = []
    for what, load in (("golden set", load_golden), ("results", load_results)):
        with unsaid() as said:
            try:
                told.append(f"{file}: {load(file, **options)!r}")
            except DataError as error:
                told += [f"no {what}: {error}"] if error.columns else []
        told += said
    return told


def _seen(counts: dict[str, Any]) -> str:
    """Return what was read of the traces of a run, in three lines."""
    n = {name.removeprefix("n_"): f"{one:,}" for name, one in counts.items() if name != "run_id"}
    return (
        f"traces: {n['traces']} ({n['turns']} turns of {n['sessions']} sessions;"
        f" {n['without_query']} without a question, {n['without_calls']} without a call)\n"
        f"spans: {n['spans']} ({n['orphans']} whose parent is not there)\n"
        f"calls: {n['calls']} ({n['empty']} without documents), documents: {n['documents']}"
    )


def _left_out(problem: dict[str, Any]) -> str:
    line = f"line {problem['line']}: " if problem.get("line") is not None else ""
    way = f" ({problem['allowed']})" if problem.get("allowed") else ""
    return textwrap.fill(
        f"left out: {line}{problem['found']}{way}", WIDTH, subsequent_indent="  ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _paragraph(title: str, names: pd.Series) -> str:
    return textwrap.fill(
        f"{title}: {', '.join(names)}", WIDTH, subsequent_indent="  ", break_on_hyphens=False
    )
