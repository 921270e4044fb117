"""The command line.

One function that adds a command's parser, one that runs it; both in the module of the command's
group.
"""

from ragscore.cli.commands import COMMANDS, main, make_parser

__all__ = ["COMMANDS", "main", "make_parser"]
