"""Options that several commands share: each function adds some to a parser."""

import argparse
import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from ragscore.frames.data import DataError
from ragscore.frames.ranking import TIES
from ragscore.scoring.metrics import parse_label
from ragscore.scoring.policies import POLICIES
from ragscore.scoring.provenance import COMPONENTS

# policies that `score` takes besides the match level
SCORED_BY = ("collapse", "empty_gold", "unknown", "errors", "missing")
COMPARED_BY = SCORED_BY[:3]

# what add_subparsers returns; argparse gives it no public name
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_pair(parser: argparse.ArgumentParser) -> None:
    """Two runs and their golden file."""
    parser.add_argument("baseline", help="run a: a per_query.jsonl file, or a name in --store")
    parser.add_argument("candidate", help="run b")
    add_golden(parser)


def add_golden(parser: argparse.ArgumentParser) -> None:
    """--golden."""
    parser.add_argument(
        "--golden", help="golden file; without it, the one that RAGSCORE_GOLDEN names"
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Where runs come from and how their hits are matched: --store, --match, --ties."""
    parser.add_argument(
        "--store", metavar="DIR", help="folder of stored runs that run arguments may name"
    )
    parser.add_argument(
        "--match", metavar="LEVEL", help="auto (the default), chunk, span, doc or per_query"
    )
    parser.add_argument(
        "--ties",
        metavar="|".join(TIES),
        help="rank each list as its file says (the default), or anew as trec_eval does",
    )


def add_policies(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """One option per scoring policy."""
    for name in names:
        allowed = POLICIES[name]
        parser.add_argument(
            flag(name),
            metavar="|".join(allowed),
            help=f"how to score: {allowed[0]} is the default (see rs.score)",
        )


def add_allowances(parser: argparse.ArgumentParser) -> None:
    """What may differ between the runs that are compared: --margin, --vary, --ignore-invariants."""
    parser.add_argument(
        "--margin",
        action="append",
        default=[],
        metavar="LABEL=LOSS",
        help="a loss that doesn't matter, for the verdict (several times)",
    )
    parser.add_argument(
        "--vary",
        action="append",
        metavar="KEY",
        help=(
            "a config key that is meant to differ (several times); others that differ are warned of"
        ),
    )
    allowed = f"all, or one of {', '.join(COMPONENTS)}"
    parser.add_argument(
        "--ignore-invariants",
        action="append",
        default=[],
        metavar="PART",
        help=f"what measures may differ here (several times): {allowed}",
    )


def allowances(args: argparse.Namespace) -> dict[str, Any]:
    """What was allowed to differ, as parameters of `rs.compare_runs`."""
    ignored = True if "all" in args.ignore_invariants else args.ignore_invariants or False
    return {
        "margins": losses(args.margin, "--margin") or None,
        "vary": args.vary,
        "ignore_invariants": ignored,
    }


def losses(texts: Sequence[str], field: str) -> dict[str, float]:
    """Values such as mrr@10=0.02."""
    found = {}
    for text in texts:
        label, _, loss = text.partition("=")
        try:
            found[parse_label(label).text] = float(loss)
        except ValueError as error:
            if isinstance(error, DataError):
                raise
            raise DataError(
                f"found {text!r}", field=field, allowed="a metric and a loss, such as mrr@10=0.02"
            ) from error
    return found


def add_profile(parser: argparse.ArgumentParser) -> None:
    """--profile."""
    parser.add_argument("--profile", help="another harness's conventions, such as kebab")


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def flag(name: str) -> str:
    """A parameter's name as an option."""
    return "--" + name.replace("_", "-")


def policies(args: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """The policies that were asked for."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def refuse_without_effect(args: argparse.Namespace, names: Sequence[str]) -> None:
    """Stop if options were given that a profile decides itself."""
    given = [flag(name) for name in names if getattr(args, name) is not None]
    if args.profile and given:
        raise DataError(
            f"{', '.join(given)} has no effect with it",
            field="--profile",
            allowed="leave one of them out",
        )


def as_json(content: Any) -> str:
    """What --json prints: one line, null for what is missing."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, default=str)
