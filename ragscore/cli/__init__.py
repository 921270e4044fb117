"""The command line: `main` and the list of commands.

Results go to standard output, errors as one line to standard error. Exit status: 0 done, 1 a
finding, 2 an error, 3 every request failed.

A command is a function that `@command` gives its usage and options, and that COMMANDS lists. It
takes the parsed arguments and returns None or the exit status.
"""

import re
import sys
import warnings
from collections.abc import Sequence

from ragscore import __version__
from ragscore.cli.ask import demo_command, judge_command, run_command
from ragscore.cli.files import (
    check_command,
    compare_command,
    gate_command,
    label_command,
    report_command,
    score_command,
    validate_command,
)
from ragscore.cli.options import CommandParser, say
from ragscore.frames.data import DataError

COMMANDS = (
    check_command, validate_command, score_command, compare_command, gate_command, report_command,
    run_command, label_command, judge_command, demo_command,
)  # fmt: skip
# Keywords of Python that messages name, and that commands have as options
KEYWORD = re.compile(r"\b(allow_different|match|missing|overwrite)=(?:\[?'([^']*)'\]?|True)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *rest, **more: say(
                f"ragscore: warning: {with_options(message)}", file=sys.stderr
            )
            args = make_parser().parse_args(argv)
            return args.work(args) or 0
    except BrokenPipeError:  # the reader of our output has closed it, as `head` does
        sys.stderr.close()
        return 0
    except (DataError, OSError) as error:
        say(f"ragscore: {' '.join(with_options(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stopped:  # its notes say how to go on
        say("; ".join(["ragscore: stopped", *getattr(stopped, "__notes__", [])]), file=sys.stderr)
        return 130  # as after Ctrl-C in a shell


def with_options(message: object) -> str:
    """Return a message in which keywords of Python are the options of the command line."""
    return KEYWORD.sub(
        lambda found: f"--{found[1].replace('_', '-')} {found[2] or ''}".rstrip(), str(message)
    )


def make_parser() -> CommandParser:
    """Return the parser with every command."""
    parser = CommandParser(
        prog="ragscore",
        usage="ragscore [-h] [--version] COMMAND ...",
        description="Score and compare retrieval and RAG runs.",
        epilog="ragscore COMMAND --help explains each option, with an example.",
    )
    parser.add_argument("--version", action="version", version=f"ragscore {__version__}")
    commands = parser.add_subparsers(
        required=True, dest="command_name", metavar="COMMAND", title="commands", prog="ragscore"
    )
    for add in COMMANDS:
        add(commands)
    return parser
