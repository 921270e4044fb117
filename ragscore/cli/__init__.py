"""The command line.

One function that adds a command's parser, one that runs it; both in the module of the command's
group.

The commands, and running one.

Results go to standard output, errors as one line to standard error.

Exit status: 0 done, 1 a finding, 2 could not be done, 3 everything that was asked for failed.

A new command is a row of COMMANDS: a function that takes the subparsers, adds its own parser with
what `options` offers and names, by `set_defaults(run=...)`, the function that does the work: it
takes the parsed arguments and returns None or the exit status.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence

from ragscore import __version__
from ragscore.cli.compare import add_compare, add_gate, add_report
from ragscore.cli.golden import add_label, add_validate
from ragscore.cli.judge import add_judge
from ragscore.cli.options import Commands
from ragscore.cli.run import add_demo, add_run
from ragscore.cli.score import add_runs, add_score, add_trend
from ragscore.frames.data import DataError

COMMANDS: tuple[Callable[[Commands], None], ...] = (
    add_score, add_compare, add_gate, add_report, add_validate, add_label, add_runs, add_trend,
    add_run, add_judge, add_demo,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    args = make_parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *rest, **more: print(
                f"ragscore: warning: {message}", file=sys.stderr
            )
            return args.run(args) or 0  # a command that finds something says 1
    except (DataError, FileNotFoundError, PermissionError) as error:
        print(f"ragscore: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return 0


def make_parser() -> argparse.ArgumentParser:
    """The parser of every command."""
    parser = argparse.ArgumentParser(
        prog="ragscore", description="Score and compare retrieval and RAG runs."
    )
    parser.add_argument("--version", action="version", version=f"ragscore {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for add in COMMANDS:
        add(commands)
    return parser


__all__ = ["COMMANDS", "main", "make_parser"]
