"""Options that commands share, and loading of the golden files and runs that arguments name."""

import argparse
import json
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn, TextIO, TypeAlias

from ragscore.analysis.comparison.gate import RULES
from ragscore.evaluation import Evaluation, evaluate, evaluate_pair
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import name_list, plural
from ragscore.frames.escaping import json_text, visible
from ragscore.frames.ranking import TIES
from ragscore.io.load import load_golden, load_results
from ragscore.io.registry import formats_of
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.policies import Policies
from ragscore.scoring.provenance import COMPONENTS
from ragscore.scoring.readings import READINGS
from ragscore.store.store import RunStore

POLICY_HELP = {
    "match": "the match level: auto, the finest at which every query with targets has some"
    " (default); chunk, span, anchor, doc, predicate; per_query, each query's finest",
    "missing": "a golden query without a row: exclude, it is in no mean (default); zero, it scores"
    " 0",
    "collapse": "several hits of a document: none, every hit counts (default); doc, only the first",
    "ties": "the order of hits: "
    + "; ".join(f"{name}, {goes_by}" for name, (_, goes_by) in TIES.items()),
}
RUN_HELP = (
    "per_query.jsonl, another file of results, a folder, a pattern, or a run or system of --store"
)
GOLDEN_HELP = "golden file: YAML, JSON lines, TREC qrels, or another format that is known"
NO_GOLDEN = "none"
WIDTH = 88  # of descriptions
# What an option with such a value is read as; any other is text.
NUMBERS = {"N": int, "K": int, "T": float, "S": float, "SECONDS": float, "USD": float}

# The names of an argument or option, and what `add_argument` takes.
Option: TypeAlias = tuple[list[str], dict[str, Any]]
# What a command does; it returns the exit status.
Work: TypeAlias = Callable[[argparse.Namespace], int | None]


class CommandParser(argparse.ArgumentParser):
    """Parser of options that are written in full; what it can't parse is one `DataError`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options
        )

    def error(self, message: str) -> NoReturn:
        """Raise a `DataError` instead of printing the usage and leaving."""
        raise DataError(message, allowed=f"usage: {self.usage}; --help explains more")


def command(
    usage: str,
    does: str,
    example: str,
    *options: Option | tuple[str, list[Option]],
    details: str = "",
) -> Callable[[Work], Callable[[Any], None]]:
    """Make a function the work of a command; the result adds the command's parser to others."""

    def decorated(work: Work) -> Callable[[Any], None]:
        def add(parsers: Any) -> None:
            parser: CommandParser = parsers.add_parser(
                usage.partition(" ")[0],
                usage=f"ragscore {usage} [options]",
                help=does.replace("%", "%%"),
                description="\n\n".join(
                    textwrap.fill(part, WIDTH) for part in (does, details) if part
                ),
                epilog=f"example:\n  ragscore {example}",
            )
            parser.set_defaults(work=work)
            for title, part in options:
                place: Any = parser.add_argument_group(title) if isinstance(title, str) else parser
                for names, how in part if isinstance(part, list) else [(title, part)]:
                    place.add_argument(*names, **how)

        return add

    return decorated


def option(names: str, text: str, metavar: str | None = None, **how: Any) -> Option:
    """Return an argument or option: its name (or several), its help, and how it is read.

    An option that is called like a parameter of the function behind a command is handed to it by
    `given`; where it is not given, the function's own default holds.
    """
    if metavar:
        how = {"metavar": metavar, "type": NUMBERS.get(metavar, str)} | how
    return names.split(), {"help": text} | how


several = partial(option, action="append")  # may be given several times
switch = partial(option, action="store_true")


# Values of options; argparse names the option where one can't be read


def columns(text: str) -> list[tuple[str, str | None]]:
    """Return roles and columns of a text such as query_id=qid,doc_id=docno; ROLE= is for none."""
    pairs = [part.split("=") for part in text.split(",")]
    return [(role.strip(), name.strip() or None) for role, name in pairs]


def loss(text: str) -> tuple[str, float]:
    """Return the metric and the loss of a text such as mrr@10=0.02."""
    label, _, value = text.rpartition("=")
    return label.strip(), float(value)


def store(folder: str) -> RunStore:
    """Return the store in a folder, which must exist."""
    if not Path(folder).is_dir():
        raise ValueError
    return RunStore(folder)


def setting(text: str) -> tuple[str, Any]:
    """Return name and value of NAME=VALUE, read as JSON where possible, else as text."""
    name, value = text.split("=", 1)
    with suppress(ValueError):
        return name, json.loads(value)
    return name, value


# What is read


def reading_options(prefix: str, example: str, *sides: str) -> list[Option]:
    """Return --format and --columns of golden files, results, or both."""
    names = dict.fromkeys(one.name for side in sides for one in formats_of(side))
    return [
        option(
            f"--{prefix}format",
            f"how to read it: {', '.join(names)} (default: by its content)",
            "NAME",
        ),
        option(
            f"--{prefix}columns",
            f"columns or fields by their role, such as {example} (several times; ROLE= for none;"
            " default: common names are known)",
            "ROLE=NAME,...",
            action="extend",
            type=columns,
        ),
    ]


GOLDEN_READING = reading_options("golden-", "query_id=qid,doc_id=gold", "golden")
GOLDEN_TEXT = f"{GOLDEN_HELP} (default: the file that RAGSCORE_GOLDEN or KEBAB_EVAL_GOLDEN names)"
GOLDEN_ARGUMENT = (
    option("golden", GOLDEN_TEXT, nargs="?"),
    ("the golden file", GOLDEN_READING),
)
GOLDEN = (
    "the golden file",
    [
        option(
            "--golden",
            f"{GOLDEN_TEXT}; {NO_GOLDEN}: compare the scores that the runs' files hold",
            "FILE",
        ),
        *GOLDEN_READING,
    ],
)
RUN_LIST = option("runs", f"{RUN_HELP} (several)", "run", nargs="+")
_STORE = option(
    "--store",
    "folder of stored runs that run arguments may name (default: none)",
    "DIR",
    type=store,
)
STORED_RUNS = ("the runs", [_STORE])
RUNS = (
    "the runs",
    [
        _STORE,
        several(
            "--run",
            "take only this run, or system, of what is read (several times: in this order;"
            " default: every run)",
            "NAME",
        ),
        *reading_options("", "query_id=qid,doc_id=docno", "results"),
    ],
)


# How it is scored


_POLICIES = [
    option(f"--{name}", text, "LEVEL" if name == "match" else "|".join(Policies.ALLOWED[name]))
    for name, text in POLICY_HELP.items()
]
SCORING = ("how to score", _POLICIES)
MATCHING = ("how to score", _POLICIES[:1])
JSON = switch("--json", "print JSON, null for missing values (default: text)")
ALLOWANCES = (
    several(
        "--primary",
        "a metric that decides, such as mrr@10 (several times; default: one each for"
        " retrieval, answers and refusals, and passed beside them)",
        "LABEL",
    ),
    (
        "differences that are accepted",
        [
            several(
                "--vary",
                "a config key that is meant to differ (several times); others that differ are then"
                " warned of (default: no warning)",
                "KEY",
            ),
            several(
                "--allow-different",
                f"a part of the provenance that may differ: all, {', '.join(COMPONENTS)} (several"
                " times; default: none)",
                "PART",
                default=[],
            ),
        ],
    ),
)


METRIC = several(
    "--metric",
    "a metric to score, such as mrr@10 (several times; default: those that the data supports);"
    " rs.metrics() lists them",
    "LABEL",
)
PROFILE = option(
    "--profile",
    "another harness's conventions, with policies and a report of its own: one of"
    f" {', '.join(READINGS)} (default: none)",
    "NAME",
)
MAX_DROP = several(
    "--max-drop",
    "largest loss allowed, such as mrr@10=0.02 or 'p95(latency_ms)=50' (several times; default: no"
    " primary metric may be worse; report: no gate)",
    "LABEL=LOSS",
    type=loss,
    default=[],
)
RULE = option(
    "--rule",
    "what decides: the loss as seen (threshold, the default), or its interval (interval: undecided"
    " where a larger loss is neither sure nor ruled out)",
    "|".join(RULES),
    default=RULES[0],
)


# What was given


def given(args: argparse.Namespace, function: Callable[..., Any]) -> dict[str, Any]:
    """Return the options that were given, of those that are parameters of a function."""
    values = {name: getattr(args, name, None) for name in signature(function).parameters}
    return {name: value for name, value in values.items() if value is not None}


def allowances(args: argparse.Namespace) -> dict[str, Any]:
    """Return the accepted differences as parameters of `Evaluation.compare`."""
    return {"vary": args.vary, "allow_different": args.allow_different or False}


def losses(args: argparse.Namespace) -> dict[str, float]:
    """Return the largest losses allowed by metric."""
    return {
        label if TABLE.is_own(label) else TABLE.parse(label).text: value
        for label, value in args.max_drop
    }


def reading(args: argparse.Namespace, prefix: str = "") -> dict[str, Any]:
    """Return format and columns as parameters of `load_results` or `load_golden`."""
    format, columns = (getattr(args, f"{prefix}{name}", None) for name in ("format", "columns"))
    given = {"format": format, "columns": dict(columns) if columns else None}
    return {name: value for name, value in given.items() if value is not None}


def refuse_beside_profile(args: argparse.Namespace, names: Sequence[str]) -> None:
    """Raise a `DataError` for these options and policies, which have no effect beside a profile."""
    idle = [f"--{name}" for name in [*names, *given(args, Policies)] if getattr(args, name)]
    idle += ["--golden none"] if args.golden == NO_GOLDEN else []
    if args.profile and idle:
        raise DataError(
            f"{', '.join(idle)} has no effect with it",
            field="--profile",
            allowed="leave one of them out",
        )


def say(content: Any, *, file: TextIO | None = None, end: str = "\n", flush: bool = False) -> None:
    """Print a text, or else JSON, null for missing values. Commands print by it.

    What would control the terminal is shown instead.
    """
    text = content if isinstance(content, str) else json_text(content, default=str)
    print(visible(text), file=file, end=end, flush=flush)


# Loading


def load(args: argparse.Namespace, names: Sequence[str]) -> tuple[Golden, Results]:
    """Return golden set and runs, in the order named; every run must answer some golden query."""
    golden, results = load_golden(args.golden, **reading(args, "golden_")), read_runs(args, names)
    responses = results.responses
    is_asked = responses["query_id"].isin(golden.queries["query_id"])
    strangers = {*results.runs["run_id"]} - {*responses.loc[is_asked, "run_id"]}
    if strangers:
        raise DataError(
            f"no query in common with the golden file: {name_list(sorted(strangers))}",
            field="run", allowed="runs that answer its queries, by their ids",
        )  # fmt: skip
    return golden, results


def read_runs(args: argparse.Namespace, names: Sequence[str]) -> Results:
    """Return runs from files or from the store, in the order named; --run picks among them."""
    found = load_results(_sources(args, names), **reading(args))
    return found.select(args.run) if getattr(args, "run", None) else found


def _sources(args: argparse.Namespace, names: Sequence[str]) -> list[str | Results]:
    """Return the files named, and the runs of the store."""
    is_file = args.store is None
    return [one if is_file or Path(one).exists() else args.store.load([one]) for one in names]


def evaluation(
    args: argparse.Namespace, names: Sequence[str], metrics: list[str] | None = None
) -> Evaluation:
    """Return the runs scored by the policies that were given, or by the profile."""
    profile, primary = getattr(args, "profile", None), getattr(args, "primary", None)
    how = {"profile": profile, "primary": primary, **given(args, Policies)}
    chosen = [*metrics, *(primary or [])] if metrics else None
    if args.golden != NO_GOLDEN:
        golden, results = load(args, names)
        return evaluate(results, golden, chosen, **how)
    # labels are beside the runs in files of other tools, which `evaluate` reads
    sources = read_runs(args, names) if reading(args) else _sources(args, names)
    found = evaluate(sources, None, chosen, **how)
    return found.select(runs=args.run) if args.run else found


def evaluation_of_pair(
    args: argparse.Namespace, metrics: list[str] | None = None
) -> tuple[Evaluation, str, str]:
    """Return both runs scored, and the ids of baseline and candidate."""
    names = [one for one in (args.baseline, args.candidate) if one]
    if args.golden == NO_GOLDEN and args.candidate and not args.run:
        policies = Policies(**given(args, Policies))
        first, second = _sources(args, names)
        ev = evaluate_pair(first, second, None, metrics, args.primary, policies)
    else:
        ev = evaluation(args, names, metrics)
    if len(ev.run_ids) != 2:
        raise DataError(
            f"{plural(len(ev.run_ids), 'run')}: {name_list(ev.run_ids)}", field="run",
            allowed="two runs; --run NAME twice picks them, the baseline first",
        )  # fmt: skip
    return ev, ev.run_ids[0], ev.run_ids[1]
