"""`ragscore check` and `ragscore metrics`: which metrics some files support, and what each is."""

import argparse
import textwrap

import pandas as pd

from ragscore.cli.options import (
    RUN_HELP,
    WIDTH,
    Commands,
    add_command,
    add_json,
    add_reading,
    as_json,
    reading,
    say,
)
from ragscore.frames.data import records_of
from ragscore.golden.requirements import supported_metrics
from ragscore.io.load import GOLDEN_FORMATS, RESULT_FORMATS
from ragscore.scoring.metrics import metrics, parse_label


def add_check(commands: Commands) -> None:
    """`ragscore check FILE...`."""
    parser = add_command(
        commands,
        "check FILE...",
        "Tell which metrics some files support, and what others lack.",
        "check golden.yaml runs/dense",
        "Nothing is scored. A file that fits no format is refused with the options that would make"
        " it readable.",
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="file",
        help=f"golden files, runs, or both: {RUN_HELP.rpartition(',')[0]}",
    )
    add_json(parser)
    group = parser.add_argument_group("the files")
    names = dict.fromkeys(one.name for one in [*GOLDEN_FORMATS, *RESULT_FORMATS])
    add_reading(group, "", list(names), "query_id=qid,doc_id=docno")
    parser.set_defaults(work=_check)


def _check(args: argparse.Namespace) -> None:
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


def add_metrics(commands: Commands) -> None:
    """`ragscore metrics [LABEL...]`."""
    parser = add_command(
        commands,
        "metrics [LABEL...]",
        "List the metrics, or say in full what some of them are.",
        "metrics mrr@10 recall@5",
    )
    parser.add_argument(
        "labels",
        nargs="*",
        metavar="label",
        help="metrics such as mrr@10, also by names of other tools (default: all, a line each)",
    )
    add_json(parser)
    parser.set_defaults(work=_metrics)


def _metrics(args: argparse.Namespace) -> None:
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
