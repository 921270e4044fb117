"""`ragscore compare` and `ragscore gate`: one run against another."""

import argparse
import sys
from pathlib import Path
from typing import Any

from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.comparison.gate import RULES, gate
from ragscore.cli.inputs import load_pair
from ragscore.cli.options import (
    COMPARED_BY,
    Commands,
    add_allowances,
    add_inputs,
    add_json,
    add_pair,
    add_policies,
    add_profile,
    allowances,
    losses,
    policies,
    refuse_without_effect,
)
from ragscore.scoring.metrics import DEFAULT_METRICS
from ragscore.store.store import RunStore

LISTED = 20  # changed queries that a comparison lists unless asked for all
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
    """What a gate allows, and how it decides."""
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
    """Where run b is, as a file, a folder, or in the store."""
    given = Path(args.candidate)
    if given.is_file():
        return given.parent
    return given if given.exists() else RunStore(args.store).path(candidate)
