"""What --help says: every option with its values and default, every command with an example."""

import argparse
import re
from dataclasses import fields

import pytest

import ragscore as rs
from ragscore.cli import COMMANDS, main, make_parser

(SUBPARSERS,) = (
    one for one in make_parser()._actions if isinstance(one, argparse._SubParsersAction)
)
PARSERS = SUBPARSERS.choices
ARGUMENTS = [
    (name, one)
    for name, parser in PARSERS.items()
    for one in parser._actions
    if "--help" not in one.option_strings
]
OPTIONS = [(name, one) for name, one in ARGUMENTS if one.option_strings]


def named(items):
    return [
        f"{name} {one.option_strings[-1] if one.option_strings else one.dest}"
        for name, one in items
    ]


def test_the_overview_lists_every_command_once_under_what_it_is_for(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    printed = capsys.readouterr().out
    assert stopped.value.code == 0
    assert re.findall(r"^(\S[^:]*):$", printed, re.M)[1:] == list(COMMANDS)
    assert re.findall(r"^  ([a-z]+) +[A-Z]", printed, re.M) == list(PARSERS)
    assert max(map(len, printed.splitlines())) <= 100


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS, ids=named(ARGUMENTS))
def test_every_argument_says_what_it_is(name, argument):
    assert argument.help and len(argument.help) > 10


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=named(OPTIONS))
def test_every_option_says_its_values_and_its_default(name, option):
    values = option.metavar.split("|") if option.metavar and "|" in option.metavar else []
    assert option.required or "default" in option.help
    assert all(value in option.help for value in values)
    assert (
        option.default in (None, False)
        or isinstance(option.default, list)
        or (str(option.default).removesuffix(".0") in option.help)
    )


@pytest.mark.parametrize("name", ["score", "compare", "gate"])
def test_every_policy_is_an_option_of_what_scores(name):
    given = {one.dest for one in PARSERS[name]._actions}
    assert {field.name for field in fields(rs.Policies)} <= given
