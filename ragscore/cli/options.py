"""Options that commands share, and loading of the golden files and runs that arguments name."""

import argparse
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter, formatannotation, signature
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO, TypeAlias

from ragscore.evaluation import Evaluation, evaluate, evaluate_pair
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import name_list, plural
from ragscore.frames.escaping import json_text, visible
from ragscore.frames.ranking import TIES
from ragscore.io.load import load_golden, load_results
from ragscore.io.registry import format_names
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

# The type that add_subparsers returns; argparse gives it no public name.
Parsers: TypeAlias = "argparse._SubParsersAction[CommandParser]"
# The names of an argument or option, and what `add_argument` takes.
Option: TypeAlias = tuple[list[str], dict[str, Any]]


class Group(NamedTuple):
    """Options under a title of their own."""

    title: str
    options: list[Option]


class CommandParser(argparse.ArgumentParser):
    """Parser of options that are written in full; what it can't parse is one `DataError`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options
        )

    def error(self, message: str) -> NoReturn:
        """Raise a `DataError` instead of printing the usage and leaving."""
        raise DataError(message, allowed=f"usage: {self.usage}; --help tells more")


@dataclass(frozen=True)
class Command:
    """A command: its arguments, what it does in one line, an example, options, and the work.

    Attributes
    ----------
    of
        The functions that it calls. An option that is called like one of their parameters has its
        default, and its type if that is a number or a truth value.
    """

    work: Callable[[argparse.Namespace], int | None]
    usage: str
    does: str
    example: str
    options: tuple[Option | Group, ...]
    details: str
    of: tuple[Callable[..., Any], ...]

    def add(self, parsers: Parsers) -> None:
        """Add the command's parser."""
        text = [textwrap.fill(part, WIDTH) for part in (self.does, self.details) if part]
        parser: CommandParser = parsers.add_parser(
            self.usage.partition(" ")[0],
            usage=f"ragscore {self.usage} [options]",
            description="\n\n".join(text),
            epilog=f"example:\n  ragscore {self.example}",
        )
        parser.set_defaults(usage=f"ragscore {self.usage}", work=self.work)
        parameters = {
            name: found
            for each in (Policies, *self.of)
            for name, found in signature(each).parameters.items()
        }
        for part in self.options:
            title, options = part if isinstance(part, Group) else ("", [part])
            place: Any = parser
            if title:
                place = parser.add_argument_group(title)
            for one in options:
                place.add_argument(*one[0], **_declared(one, parameters))


def command(
    usage: str,
    does: str,
    example: str,
    *options: Option | Group,
    details: str = "",
    of: Sequence[Callable[..., Any]] = (),
) -> Callable[[Callable[[argparse.Namespace], int | None]], Command]:
    """Make a function the work of a command; see `Command`."""
    return lambda work: Command(work, usage, does, example, options, details, tuple(of))


def option(names: str, text: str, metavar: Any = None, **how: Any) -> Option:
    """Return an argument or option: its name (or several), its help, and how it is read."""
    return names.split(), {"help": text} | ({"metavar": metavar} if metavar else {}) | how


def several(names: str, text: str, metavar: str, **how: Any) -> Option:
    """Return an option that may be given several times."""
    return option(names, text, metavar, action="append", **how)


def switch(names: str, text: str) -> Option:
    """Return an option without a value."""
    return option(names, text, action="store_true")


def _declared(one: Option, parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return what `add_argument` takes; default and type are those of the parameter."""
    names, how = one
    name = how.get("dest", names[-1].removeprefix("--").replace("-", "_"))
    part = parameters.get(name)
    if part is None or part.default is Parameter.empty or "action" in how:
        return how
    if isinstance(part.default, bool):
        return {"action": "store_true", "default": part.default} | how
    text = formatannotation(part.annotation).strip("'").removesuffix(" | None")
    kind = {"int": int, "float": float}.get(text)
    return ({"type": kind} if kind else {}) | {"default": part.default} | how


# What is read


def reading_options(prefix: str, example: str, *sides: str) -> list[Option]:
    """Return --format and --columns of golden files, results, or both."""
    names = dict.fromkeys(name for side in sides for name in format_names(side))
    return [
        option(
            f"--{prefix}format",
            f"how to read it: {', '.join(names)} (default: as its content tells)",
            "NAME",
        ),
        several(
            f"--{prefix}columns",
            f"columns or fields by their role, such as {example} (several times; ROLE= for none;"
            " default: common names are known)",
            "ROLE=NAME,...",
        ),
    ]


GOLDEN_READING = reading_options("golden-", "query_id=qid,doc_id=gold", "golden")
GOLDEN_TEXT = f"{GOLDEN_HELP} (default: the file that RAGSCORE_GOLDEN or KEBAB_EVAL_GOLDEN names)"
GOLDEN_ARGUMENT = (
    option("golden", GOLDEN_TEXT, nargs="?"),
    Group("the golden file", GOLDEN_READING),
)
GOLDEN = Group(
    "the golden file",
    [
        option(
            "--golden",
            f"{GOLDEN_TEXT}; {NO_GOLDEN}: what runs' files have scores of is compared",
            "FILE",
        ),
        *GOLDEN_READING,
    ],
)
RUN_LIST = option("runs", f"{RUN_HELP} (several)", "run", nargs="+")
_STORE = option(
    "--store", "folder of stored runs that run arguments may name (default: none)", "DIR"
)
STORED_RUNS = Group("the runs", [_STORE])
RUNS = Group(
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


def flag(name: str) -> str:
    """Return the option of a parameter's name."""
    return "--" + name.replace("_", "-")


_VALUES = {name: "|".join(Policies.ALLOWED[name]) for name in POLICY_HELP} | {"match": "LEVEL"}
# no default, to tell what was given
_POLICIES = [
    option(flag(name), text, _VALUES[name], default=None) for name, text in POLICY_HELP.items()
]
SCORING = Group("how to score", _POLICIES)
MATCHING = Group("how to score", _POLICIES[:1])
JSON = switch("--json", "print JSON, null for missing values (default: text)")
ALLOWANCES = (
    several(
        "--primary",
        "a metric that decides, such as mrr@10 (several times; default: one each for"
        " retrieval, answers and refusals, and passed beside them)",
        "LABEL",
    ),
    Group(
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


def profile_option(prints: str) -> Option:
    """Return --profile."""
    return option(
        "--profile",
        f"another harness's conventions, with policies of its own; prints {prints}: one of"
        f" {', '.join(READINGS)} (default: none)",
        "NAME",
    )


def metric_option(does: str, default: str) -> Option:
    """Return --metric."""
    return several(
        "--metric",
        f"a metric to {does}, such as mrr@10 (several times; default: {default});"
        " rs.metrics() lists them",
        "LABEL",
    )


# What was given


def policies(args: argparse.Namespace) -> dict[str, Any]:
    """Return the policies that were given."""
    given = {field.name: getattr(args, field.name, None) for field in fields(Policies)}
    return {name: value for name, value in given.items() if value is not None}


def allowances(args: argparse.Namespace) -> dict[str, Any]:
    """Return the accepted differences as parameters of `Evaluation.compare`."""
    return {
        "vary": args.vary,
        "allow_different": args.allow_different or False,
    }


def named_values(
    texts: Iterable[str],
    field: str,
    allowed: str,
    read: Callable[[str], Any],
    *,
    can_be_empty: bool = False,
) -> dict[str, Any]:
    """Return name -> value of texts such as mrr@10=0.02; each name stands there once."""
    found: dict[str, Any] = {}
    for text in texts:
        name, has_value, value = text.partition("=")
        name = name.strip()
        try:
            if not name or name in found or not has_value or not (value.strip() or can_be_empty):
                raise ValueError
            found[name] = read(value)
        except ValueError as error:
            raise DataError(
                f"{name} is there twice" if name in found else f"found {text!r}",
                field=field,
                allowed=allowed,
            ) from error
    return found


def losses(texts: Sequence[str], field: str) -> dict[str, float]:
    """Return label -> value of options such as mrr@10=0.02."""
    found = named_values(texts, field, "a metric and a loss, such as mrr@10=0.02", float)
    return {
        label if TABLE.is_own(label) else TABLE.parse(label).text: loss
        for label, loss in found.items()
    }


def reading(args: argparse.Namespace, prefix: str = "") -> dict[str, Any]:
    """Return format and columns as parameters of `load_results` or `load_golden`."""
    format, given = (getattr(args, f"{prefix}{name}", None) for name in ("format", "columns"))
    found = {} if format is None else {"format": format}
    if given is not None:
        allowed = "roles and columns, such as query_id=qid,doc_id=docno"
        parts = ",".join(given).split(",")
        found["columns"] = named_values(
            parts, flag(f"{prefix}columns"), allowed, lambda one: one.strip() or None,
            can_be_empty=True,
        )  # fmt: skip
    return found


def refuse_beside_profile(args: argparse.Namespace, names: Sequence[str]) -> None:
    """Raise a `DataError` for these options and policies, which have no effect beside a profile."""
    given = [flag(name) for name in [*names, *policies(args)] if getattr(args, name) is not None]
    if args.profile and given:
        raise DataError(
            f"{', '.join(given)} has no effect with it",
            field="--profile",
            allowed="leave one of them out",
        )


def as_json(content: Any) -> str:
    """Return content as --json prints it: one line, null for missing values."""
    return json_text(content, default=str)


def say(text: object, *, file: TextIO | None = None, end: str = "\n", flush: bool = False) -> None:
    """Print a text; what would control the terminal is shown instead. Commands print by it."""
    print(visible(str(text)), file=file, end=end, flush=flush)


# Loading


def load(args: argparse.Namespace, runs: Sequence[str]) -> tuple[Golden, Results]:
    """Return golden set and runs, in the order named; every run must answer some golden query."""
    golden, results = load_golden(args.golden, **reading(args, "golden_")), read_runs(args, runs)
    responses = results.responses
    is_asked = responses["query_id"].isin(golden.queries["query_id"])
    asked = set(responses.loc[is_asked, "run_id"].astype("str"))
    strangers = [one for one in results.runs["run_id"].astype("str") if one not in asked]
    if strangers:
        raise DataError(
            f"no query in common with the golden file: {name_list(strangers)}",
            field="run",
            allowed="runs that answer its queries, by their ids",
        )
    return golden, results


def evaluation(
    args: argparse.Namespace, runs: Sequence[str], metrics: list[str] | None = None
) -> Evaluation:
    """Return the runs scored by the policies that were given, or by the profile."""
    profile, primary = getattr(args, "profile", None), getattr(args, "primary", None)
    if profile and args.golden == NO_GOLDEN:
        raise DataError(
            f"{profile} with --golden {NO_GOLDEN}", field="--profile", allowed="a golden file"
        )
    chosen = [*metrics, *(primary or [])] if metrics else None
    how = {"profile": profile, "primary": primary, **policies(args)}
    if args.golden != NO_GOLDEN:
        golden, results = load(args, runs)
        return evaluate(results, golden, chosen, **how)
    found = evaluate(_sources(args, runs), None, chosen, **how)
    return found.select(runs=args.run) if args.run else found


def evaluation_of_pair(
    args: argparse.Namespace, metrics: list[str] | None = None
) -> tuple[Evaluation, str, str]:
    """Return both runs scored, and the ids of baseline and candidate."""
    runs = [one for one in (args.baseline, args.candidate) if one]
    is_asked_for_more = args.run or getattr(args, "profile", None)
    if args.golden == NO_GOLDEN and len(runs) == 2 and not is_asked_for_more:
        given = Policies(**policies(args))
        first, second = _sources(args, runs)
        ev = evaluate_pair(first, second, None, metrics, args.primary, given)
    else:
        ev = evaluation(args, runs, metrics)
    if len(ev.run_ids) != 2:
        raise DataError(
            f"{plural(len(ev.run_ids), 'run')}: {name_list(ev.run_ids)}",
            field="run",
            allowed="two runs; --run NAME twice picks them, the baseline first",
        )
    return ev, ev.run_ids[0], ev.run_ids[1]


def open_store(folder: str) -> RunStore:
    """Return the store in a folder, which must exist."""
    if not Path(folder).is_dir():
        raise DataError("no such folder", file=folder)
    return RunStore(folder)


def read_runs(args: argparse.Namespace, names: Sequence[str]) -> Results:
    """Return runs from files or from the store, in the order named; --run picks among them."""
    parts = [
        one if isinstance(one, Results) else load_results(one) for one in _sources(args, names)
    ]
    run_ids = [run_id for part in parts for run_id in part.runs["run_id"].astype("str")]
    twice = sorted({run_id for run_id in run_ids if run_ids.count(run_id) > 1})
    if twice:
        raise DataError(
            f"{', '.join(twice)} named by more than one argument",
            field="run",
            allowed="each run once; runs of different names, as run.json says them",
        )
    found = Results.concat(parts)
    return found.select(args.run) if getattr(args, "run", None) else found


def _sources(args: argparse.Namespace, names: Sequence[str]) -> list[str | Results]:
    """Return the files named; those that options tell how to read, and stored runs, are loaded."""
    options = reading(args)
    found: list[str | Results] = []
    for name in names:
        if Path(name).exists() or args.store is None:
            found.append(load_results(name, **options) if options else name)
        elif options:
            raise DataError(
                f"{name} is a stored run, which is read as it was stored",
                field=flag(next(iter(options))),
                allowed="leave it out, or name the run's file",
            )
        else:
            found.append(RunStore(args.store).load([name]))
    return found
