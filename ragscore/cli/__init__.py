"""The command line: `main` and the list of commands.

Results go to standard output, errors as one line to standard error. Exit status: 0 done, 1 a
finding, 2 an error, 3 every request failed.

A command is a function in COMMANDS. It adds a parser with the shared options of `options.py`, and
names the function that does the work by `set_defaults(run=...)`. That function takes the parsed
arguments and returns None or the exit status.
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
    """Run one command and return its exit status."""
    args = make_parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *rest, **more: print(
                f"ragscore: warning: {message}", file=sys.stderr
            )
            return args.run(args) or 0
    except (DataError, FileNotFoundError, PermissionError) as error:
        print(f"ragscore: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has closed it, as `head` does
        sys.stderr.close()
        return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser with every command."""
    parser = argparse.ArgumentParser(
        prog="ragscore", description="Score and compare retrieval and RAG runs."
    )
    parser.add_argument("--version", action="version", version=f"ragscore {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for add in COMMANDS:
        add(commands)
    return parser


__all__ = ["COMMANDS", "main", "make_parser"]
