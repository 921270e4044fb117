"""`ragscore check` and `ragscore metrics`: which metrics some files support, and what each is."""

import argparse
import textwrap

import pandas as pd

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
from ragscore.frames.data import records_of
from ragscore.golden.requirements import supported_metrics
from ragscore.scoring.metrics import metrics, parse_label


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
    details="Nothing is scored. A file that fits no format is refused with the options that would"
    " make it readable.",
)
def check_command(args: argparse.Namespace) -> None:
    """Print which metrics the files support, grouped by what the others lack."""
    table = supported_metrics(*args.files, **reading(args))
    if args.json:
        say(as_json(records_of(table)))
        return
    supported = table[table["supported"]]
    lacking = table[~table["supported"]]
    is_judged = lacking["missing"] == "judgments of " + lacking["metric"]
    judged = "judgments of a model (`ragscore judge`)"
    lacking = lacking.assign(missing=lacking["missing"].mask(is_judged, judged))
    levels = next((text for text in table["levels"] if text), "")
    parts = [f"targets: {levels}"] if levels else []
    parts.append(_paragraph("supported", supported["metric"]))
    for missing, rows in lacking.groupby("missing", sort=False):
        parts.append(_paragraph(f"without {missing}", rows["metric"]))
    say("\n".join(parts))


def _paragraph(title: str, names: pd.Series) -> str:
    return textwrap.fill(
        f"{title}: {', '.join(names)}", WIDTH, subsequent_indent="  ", break_on_hyphens=False
    )


@command(
    "metrics [LABEL...]",
    "List the metrics, or say in full what some of them are.",
    "metrics mrr@10 recall@5",
    option(
        "labels",
        "metrics such as mrr@10, also by names of other tools (default: all, a line each)",
        "label",
        nargs="*",
    ),
    JSON,
)
def metrics_command(args: argparse.Namespace) -> None:
    """Print a line for each metric, or all that is known of some."""
    if args.labels and not args.json:
        say("\n\n".join(metrics(label) for label in args.labels))
        return
    table = metrics()
    if args.labels:
        chosen = [parse_label(label).metric.name for label in args.labels]
        table = table.set_index("name", drop=False).loc[chosen]
    if args.json:
        say(as_json(records_of(table.reset_index(drop=True))))
        return
    width = table["name"].str.len().max() + 2
    for name, better, formula in zip(table["name"], table["better"], table["formula"], strict=True):
        say(f"{name:{width}}{better:8}{textwrap.shorten(formula, WIDTH, placeholder=' …')}")
