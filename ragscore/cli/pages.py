"""`ragscore report`: runs and comparisons as one page."""

import argparse
import sys
from pathlib import Path

from ragscore.cli.compare import add_max_drop
from ragscore.cli.inputs import load, open_store
from ragscore.cli.options import (
    Commands,
    add_allowances,
    add_golden,
    add_inputs,
    allowances,
    losses,
)
from ragscore.frames.data import DataError
from ragscore.reporting import report


def add_report(commands: Commands) -> None:
    """`ragscore report RUN... --golden GOLDEN -o report.html`."""
    parser = commands.add_parser(
        "report",
        help=(
            "write one page about some runs: what changed from run to run, how good each is, what"
            " it was"
        ),
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="run",
        help="per_query.jsonl files, or names in --store; each is compared with the one before it",
    )
    add_golden(parser)
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help=(
            ".html (all in one file), .md or .json (reloads with rs.Report.from_json); else"
            " Markdown is printed"
        ),
    )
    parser.add_argument(
        "--markdown", action="store_true", help="write the Markdown beside that file, too"
    )
    parser.add_argument("--baseline", metavar="RUN", help="compare every run with this one")
    parser.add_argument(
        "--by",
        action="append",
        metavar="COLUMN",
        help="slice by a column or tag of the golden file (may be given several times)",
    )
    parser.add_argument("--title", help="the heading of the page")
    add_max_drop(parser, required=False)
    parser.add_argument("--history", metavar="DIR", help="a store: draw the trend over its runs")
    add_inputs(parser)
    add_allowances(parser)
    parser.set_defaults(run=_report, usage="report RUN... --golden GOLDEN")


def _report(args: argparse.Namespace) -> None:
    out = Path(args.out) if args.out else None
    if args.markdown and (out is None or out.suffix.lower() == ".md"):
        raise DataError(
            "nothing to stand beside",
            field="--markdown",
            allowed="with -o report.html; without -o Markdown is printed",
        )
    golden, results, _ = load(args, args.runs)
    made = report(
        results, golden, out, baseline=args.baseline, by=args.by, match=args.match or "auto",
        title=args.title, gate=losses(args.max_drop or [], "--max-drop"),
        rule=args.rule, history=open_store(args.history) if args.history else None,
        **allowances(args),
    )  # fmt: skip
    written = (
        []
        if out is None
        else [out, *([made.write(out.with_suffix(".md"))] if args.markdown else [])]
    )
    if out is None:
        print(made.to_markdown(), end="")
    for file in written:
        print(f"ragscore: wrote {file}", file=sys.stderr)
