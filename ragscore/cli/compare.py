"""`ragscore compare`, `ragscore gate` and `ragscore report`: runs against each other."""

import argparse
import sys
from pathlib import Path
from typing import Any

from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.comparison.gate import RULES, gate
from ragscore.cli.options import (
    COMPARED_BY,
    Commands,
    add_allowances,
    add_golden,
    add_inputs,
    add_json,
    add_pair,
    add_policies,
    add_profile,
    allowances,
    load,
    load_pair,
    losses,
    open_store,
    policies,
    refuse_without_effect,
)
from ragscore.frames.data import DataError
from ragscore.reporting import report
from ragscore.scoring.metrics import DEFAULT_METRICS
from ragscore.store.store import RunStore

LISTED = 20  # changed queries that a comparison lists without --all
USAGE = "compare RUN_A RUN_B --golden GOLDEN"


def add_compare(commands: Commands) -> None:
    """`ragscore compare RUN_A RUN_B --golden GOLDEN`."""
    parser = commands.add_parser("compare", help="compare two runs query by query")
    add_pair(parser)
    parser.add_argument(
        "--strict-chunker-version", action="store_true", help="refuse runs of different chunkers"
    )
    parser.add_argument(
        "--write-report",
        action="store_true",
        help="write report.md, with every changed query, beside run b",
    )
    parser.add_argument(
        "--all", action="store_true", help=f"list every changed query, not only the first {LISTED}"
    )
    add_inputs(parser)
    add_policies(parser, COMPARED_BY)
    add_allowances(parser)
    parser.add_argument(
        "--tie-margin",
        action="append",
        default=[],
        metavar="LABEL=DIFFERENCE",
        help="up to which difference a query counts as the same (several times)",
    )
    add_profile(parser)
    add_json(parser)
    parser.set_defaults(run=_compare, usage=USAGE)


def add_gate(commands: Commands) -> None:
    """`ragscore gate RUN_A RUN_B --golden GOLDEN --max-drop mrr@10=0.02`."""
    parser = commands.add_parser(
        "gate", help="may run b replace run a? exit status 1 if a metric loses more than allowed"
    )
    add_pair(parser)
    add_max_drop(parser, required=True)
    parser.add_argument(
        "--require", action="store_true", help="exit status 2 if a metric can't be evaluated"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print Markdown, for a pull request"
    )
    add_inputs(parser)
    add_policies(parser, COMPARED_BY)
    add_allowances(parser)
    add_json(parser)
    parser.set_defaults(run=_gate, usage=USAGE)


def add_max_drop(parser: argparse.ArgumentParser, required: bool) -> None:
    """Add --max-drop and --rule of a gate."""
    parser.add_argument(
        "--max-drop",
        action="append",
        required=required,
        metavar="LABEL=LOSS",
        help="largest loss allowed, such as mrr@10=0.02 (several times)",
    )
    parser.add_argument(
        "--rule",
        default="threshold",
        metavar="|".join(RULES),
        help="by the loss seen (the default), or by what its interval rules out",
    )


def _compare(args: argparse.Namespace) -> None:
    refuse_without_effect(args, ["match", *COMPARED_BY])
    golden, results, baseline, candidate = load_pair(args)
    options: dict[str, Any] = {
        "strict_chunker_version": args.strict_chunker_version,
        **policies(args, COMPARED_BY),
        **allowances(args),
    }
    options["tie_margins"] = losses(args.tie_margin, "--tie-margin") or None
    cmp = compare_runs(
        results,
        golden,
        baseline,
        candidate,
        match=args.match or "auto",
        profile=args.profile,
        **options,
    )
    left_out = 0 if args.all or args.json else max(len(cmp.changed()) - LISTED, 0)
    print(
        cmp.to_json() if args.json else cmp.to_markdown(LISTED if left_out else None),
        end="\n" if args.json else "",
    )
    if left_out:
        print(
            f"ragscore: {left_out} changed queries are not listed; --all lists them",
            file=sys.stderr,
        )
    if args.write_report:
        report = _folder(args, candidate) / "report.md"
        report.write_text(cmp.to_markdown(), encoding="utf-8")
        print(f"ragscore: wrote {report}", file=sys.stderr)


def _gate(args: argparse.Namespace) -> int:
    allowed = losses(args.max_drop, "--max-drop")
    golden, results, baseline, candidate = load_pair(args)
    metrics = list(dict.fromkeys([*DEFAULT_METRICS, *allowed]))
    options: dict[str, Any] = {
        "metrics": metrics,
        "match": args.match or "auto",
        **policies(args, COMPARED_BY),
        **allowances(args),
    }
    cmp = compare_runs(results, golden, baseline, candidate, **options)
    found = gate(cmp, allowed, rule=args.rule, require=args.require)
    print(
        found.to_json() if args.json else found.to_markdown() if args.markdown else repr(found),
        end="" if args.markdown else "\n",
    )
    return found.exit_status


def _folder(args: argparse.Namespace, candidate: str) -> Path:
    """Return the folder of run b, given as a file, a folder or a name in the store."""
    given = Path(args.candidate)
    if given.is_file():
        return given.parent
    return given if given.exists() else RunStore(args.store).path(candidate)


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
