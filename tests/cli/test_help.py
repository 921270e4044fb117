"""What --help says: every option with its values and default, every command with an example."""

import argparse
import re
from dataclasses import fields

import pytest

from ragscore.cli import main, make_parser
from ragscore.scoring.policies import Policies

(SUBPARSERS,) = (
    one for one in make_parser()._actions if isinstance(one, argparse._SubParsersAction)
)
PARSERS = SUBPARSERS.choices


def arguments_of(name):
    return [one for one in PARSERS[name]._actions if "--help" not in one.option_strings]


def test_the_overview_lists_every_command_once(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    printed = capsys.readouterr().out
    assert stopped.value.code == 0
    assert re.findall(r"^    ([a-z]+) +[A-Z]", printed, re.M) == list(PARSERS)


@pytest.mark.parametrize("name", PARSERS)
def test_every_argument_says_what_it_is(name):
    short = [one.dest for one in arguments_of(name) if len(one.help or "") <= 10]
    assert short == []


@pytest.mark.parametrize("name", PARSERS)
def test_every_option_says_its_values_and_its_default(name):
    for option in filter(lambda one: one.option_strings, arguments_of(name)):
        metavar = option.metavar or ""
        values = metavar.split("|") if "|" in metavar else []
        if not (option.default in (None, False) or isinstance(option.default, list)):
            values.append(str(option.default).removesuffix(".0"))
        assert option.required or "default" in option.help, option.option_strings
        assert [one for one in values if one not in option.help] == [], option.option_strings


@pytest.mark.parametrize("name", ["score", "compare", "gate"])
def test_every_policy_is_an_option_of_what_scores(name):
    given = {one.dest for one in PARSERS[name]._actions}
    assert {field.name for field in fields(Policies)} <= given
