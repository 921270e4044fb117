"""The command line: `main` and the list of commands.

Results go to standard output, errors as one line to standard error. Exit status: 0 done, 1 a
finding, 2 an error, 3 every request failed.

A command is a function in COMMANDS. It adds a parser with the shared options of `options.py`, and
names the function that does the work by `set_defaults(work=...)`. That function takes the parsed
arguments and returns None or the exit status.
"""

import re
import sys
import warnings
from argparse import SUPPRESS
from collections.abc import Callable, Sequence

from ragscore import __version__
from ragscore.cli.check import add_check, add_metrics
from ragscore.cli.compare import add_compare, add_gate, add_report
from ragscore.cli.golden import add_label, add_validate
from ragscore.cli.judge import add_judge
from ragscore.cli.options import CommandParser, Commands, in_options, say
from ragscore.cli.run import add_demo, add_run
from ragscore.cli.score import add_score, add_stored, add_trend
from ragscore.frames.data import DataError
from ragscore.frames.errors import nearest

COMMANDS: dict[str, tuple[Callable[[Commands], None], ...]] = {
    "before any number": (add_check, add_validate, add_metrics),
    "scores of runs": (add_score, add_compare, add_gate, add_report),
    "a store of runs": (add_stored, add_trend),
    "new runs, labels and judgments": (add_run, add_label, add_judge, add_demo),
}
STOPPED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *rest, **more: say(
                f"ragscore: warning: {in_options(str(message))}", file=sys.stderr
            )
            return _run(sys.argv[1:] if argv is None else argv)
    except BrokenPipeError:  # the reader of our output has closed it, as `head` does
        sys.stderr.close()
        return 0
    except (DataError, OSError) as error:
        say(f"ragscore: {' '.join(in_options(str(error)).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        say("ragscore: stopped", file=sys.stderr)
        return STOPPED


def _run(argv: Sequence[str]) -> int:
    parser, commands = _parsers()
    name = next((text for text in argv if not text.startswith("-")), None)
    if name is not None and name not in commands:
        raise DataError(f"no command {name!r}", allowed=nearest(name, commands))
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        options = re.findall(r"^  (?:-\w, )?(--[\w-]+)", commands[str(name)].format_help(), re.M)
        raise DataError(f"no argument {unknown[0]!r}", allowed=nearest(unknown[0], options))
    status: int | None = args.work(args)
    return status or 0


def make_parser() -> CommandParser:
    """Return the parser with every command."""
    return _parsers()[0]


def _parsers() -> tuple[CommandParser, dict[str, CommandParser]]:
    """Return the parser, and the parser of each command."""
    parser = CommandParser(
        prog="ragscore",
        usage="ragscore [-h] [--version] COMMAND ...",
        description="Score and compare retrieval and RAG runs.",
    )
    parser.add_argument("--version", action="version", version=f"ragscore {__version__}")
    commands = parser.add_subparsers(
        required=True, dest="command_name", metavar="COMMAND", help=SUPPRESS, prog="ragscore"
    )
    overview = []
    for group, members in COMMANDS.items():
        known = set(commands.choices)
        for add in members:
            add(commands)
        lines = [
            f"  {name:10}{(command.description or '').splitlines()[0]}"
            for name, command in commands.choices.items()
            if name not in known
        ]
        overview.append("\n".join([f"{group}:", *lines]))
    parser.epilog = "\n\n".join([*overview, "ragscore COMMAND --help tells more, with an example."])
    return parser, dict(commands.choices)


__all__ = ["COMMANDS", "main", "make_parser"]
