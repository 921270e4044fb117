"""Options that commands share, and loading of the golden files and runs that arguments name."""

import argparse
import re
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn, TextIO, TypeAlias

from ragscore.evaluation import Evaluation, evaluate
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import name_list
from ragscore.frames.escaping import json_text, visible
from ragscore.io.load import GOLDEN_FORMATS, RESULT_FORMATS, load_golden, load_results
from ragscore.scoring.metrics import parse_label
from ragscore.scoring.policies import POLICIES, Policies
from ragscore.scoring.profiles import PROFILES
from ragscore.scoring.provenance import COMPONENTS
from ragscore.store.store import RunStore

POLICY_HELP = {
    "match": "the match level: auto, the finest at which every query with targets has some"
    " (default); chunk, span, anchor, doc, predicate; per_query, each query's finest",
    "errors": "a failed query: miss, it is scored on the hits it has (default); exclude, it is in"
    " no mean",
    "missing": "a golden query without a row: exclude, it is in no mean (default); zero, it scores"
    " 0",
    "empty_gold": "a query for which nothing is relevant: nan, it is in no mean (default); one, it"
    " scores 1; zero, it scores 0",
    "collapse": "several hits of a document: none, every hit counts (default); doc, only the first",
    "unknown": "hits that can't be judged, as only a cut text is stored: exclude, queries that hang"
    " on them are in no mean (default); miss, they are misses",
    "ties": "the order of hits: file, as the file says (default); trec, by score as trec_eval"
    " ranks; trec64, as trec_eval 10 does, which compares all 64 bits",
    "min_grade": "the lowest grade that is relevant, as trec_eval's -l (default: 1)",
    "judged_only": "see only hits that the golden file judges, as trec_eval's -J (default: all)",
}
RUN_HELP = "per_query.jsonl, another file of results, a folder, a pattern, or a name in --store"
GOLDEN_HELP = "golden file: YAML, JSON lines, TREC qrels, or another format that is known"
WIDTH = 88  # of descriptions

# The type that add_subparsers returns; argparse gives it no public name.
Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"


class CommandParser(argparse.ArgumentParser):
    """Parser of options that are written in full; what it can't parse is one `DataError`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options
        )

    def error(self, message: str) -> NoReturn:
        """Raise a `DataError` instead of printing the usage and leaving."""
        raise DataError(message, allowed=f"usage: {self.usage}; --help tells more")


def add_command(
    commands: Commands, usage: str, does: str, example: str, details: str = ""
) -> CommandParser:
    """Add a command: its name and arguments, what it does in one line, an example, and more."""
    text = "\n\n".join(textwrap.fill(part, WIDTH) for part in (does, details) if part)
    parser: CommandParser = commands.add_parser(
        usage.partition(" ")[0],
        usage=f"ragscore {usage} [options]",
        description=text,
        epilog=f"example:\n  ragscore {example}",
    )
    parser.set_defaults(usage=f"ragscore {usage}")
    return parser


def add_options(parser: Any, *options: tuple[Any, ...]) -> None:
    """Add options, each a name (or several), its help, and what else `add_argument` takes."""
    for names, text, *how in options:
        parser.add_argument(*names.split(), help=text, **dict(*how))


# What is read


def add_golden(parser: argparse.ArgumentParser, is_positional: bool = False) -> None:
    """Add the golden file, and how it is read."""
    if is_positional:
        parser.add_argument("golden", help=GOLDEN_HELP)
    group = parser.add_argument_group("the golden file")
    if not is_positional:
        text = f"{GOLDEN_HELP} (default: the file that RAGSCORE_GOLDEN or KEBAB_EVAL_GOLDEN names)"
        group.add_argument("--golden", metavar="FILE", help=text)
    add_reading(group, "golden-", [one.name for one in GOLDEN_FORMATS], "query_id=qid,doc_id=gold")


def add_runs(parser: argparse.ArgumentParser, is_list: bool = True, can_pick: bool = True) -> None:
    """Add the runs, where they are, and how their files are read."""
    if is_list:
        parser.add_argument("runs", nargs="+", metavar="run", help=f"{RUN_HELP} (several)")
    group = parser.add_argument_group("the runs")
    group.add_argument(
        "--store",
        metavar="DIR",
        help="folder of stored runs that run arguments may name (default: none)",
    )
    if can_pick:
        group.add_argument(
            "--run",
            action="append",
            metavar="NAME",
            help="take only this run, or system, of what is read (several times: in this order;"
            " default: every run)",
        )
        add_reading(group, "", [one.name for one in RESULT_FORMATS], "query_id=qid,doc_id=docno")


def add_reading(group: Any, prefix: str, formats: Sequence[str], example: str) -> None:
    """Add --format and --columns."""
    group.add_argument(
        f"--{prefix}format",
        metavar="NAME",
        help=f"how to read it: {', '.join(formats)} (default: as its content tells)",
    )
    group.add_argument(
        f"--{prefix}columns",
        action="append",
        metavar="ROLE=NAME,...",
        help=f"columns or fields by their role, such as {example} (several times; default: common"
        " names are known)",
    )


# How it is scored


def add_policies(parser: argparse.ArgumentParser, only_match: bool = False) -> None:
    """Add one option per field of `rs.Policies`."""
    group = parser.add_argument_group("how to score")
    for name, text in POLICY_HELP.items():
        if only_match and name != "match":
            continue
        kind: dict[str, Any] = {"metavar": "|".join(POLICIES.get(name, "N"))}
        if name == "match":
            kind = {"metavar": "LEVEL"}
        elif name == "min_grade":
            kind |= {"type": int}
        elif name == "judged_only":
            kind = {"action": "store_true", "default": None}
        group.add_argument(flag(name), help=text, **kind)


def add_profile(parser: argparse.ArgumentParser, prints: str) -> None:
    """Add --profile."""
    parser.add_argument(
        "--profile",
        metavar="NAME",
        help=f"another harness's conventions, with policies of its own; prints {prints}: one of"
        f" {', '.join(PROFILES)} (default: none)",
    )


def add_metric(parser: argparse.ArgumentParser, does: str, default: str) -> None:
    """Add --metric."""
    parser.add_argument(
        "--metric",
        action="append",
        metavar="LABEL",
        help=f"a metric to {does}, such as mrr@10 (several times; default: {default});"
        " `ragscore metrics` lists them",
    )


def add_allowances(parser: argparse.ArgumentParser) -> None:
    """Add --primary, and --margin, --vary, --allow-different: accepted differences."""
    parser.add_argument(
        "--primary",
        action="append",
        metavar="LABEL",
        help="a metric that decides, such as mrr@10 (several times; default: one each for"
        " retrieval, answers, refusals and passed)",
    )
    group = parser.add_argument_group("differences that are accepted")
    add_options(
        group,
        (
            "--margin",
            "a difference that doesn't matter, such as mrr@10=0.02: the verdict may then be 'same'"
            " or 'no worse' within it (several times; default: none)",
            {"action": "append", "default": [], "metavar": "LABEL=LOSS"},
        ),
        (
            "--vary",
            "a config key that is meant to differ (several times); others that differ are then"
            " warned of (default: no warning)",
            {"action": "append", "metavar": "KEY"},
        ),
        (
            "--allow-different",
            f"a part of the provenance that may differ: all, {', '.join(COMPONENTS)} (several"
            " times; default: none)",
            {"action": "append", "default": [], "metavar": "PART"},
        ),
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument(
        "--json", action="store_true", help="print JSON, null for missing values (default: text)"
    )


# What was given


def flag(name: str) -> str:
    """Return the option of a parameter's name."""
    return "--" + name.replace("_", "-")


def policies(args: argparse.Namespace) -> dict[str, Any]:
    """Return the policies that were given."""
    given = {field.name: getattr(args, field.name, None) for field in fields(Policies)}
    return {name: value for name, value in given.items() if value is not None}


def allowances(args: argparse.Namespace) -> dict[str, Any]:
    """Return the accepted differences as parameters of `Evaluation.compare`."""
    ignored = True if "all" in args.allow_different else args.allow_different or False
    return {
        "margins": losses(args.margin, "--margin") or None,
        "vary": args.vary,
        "allow_different": ignored,
    }


def losses(texts: Sequence[str], field: str) -> dict[str, float]:
    """Return label -> value of options such as mrr@10=0.02."""
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


def reading(args: argparse.Namespace, prefix: str = "") -> dict[str, Any]:
    """Return format and columns as parameters of `load_results` or `load_golden`."""
    format, given = (getattr(args, f"{prefix}{name}", None) for name in ("format", "columns"))
    found = {} if format is None else {"format": format}
    return found | ({} if given is None else {"columns": _columns(given, flag(f"{prefix}columns"))})


def _columns(texts: Sequence[str], field: str) -> dict[str, str]:
    """Return role -> column of texts such as query_id=qid,doc_id=docno."""
    found: dict[str, str] = {}
    for part in ",".join(texts).split(","):
        role, _, name = (one.strip() for one in part.partition("="))
        if not role or not name or role in found:
            raise DataError(
                f"{role} is there twice" if role in found else f"found {part!r}",
                field=field,
                allowed="roles and columns, such as query_id=qid,doc_id=docno",
            )
        found[role] = name
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


def in_options(text: str, prefix: str = "") -> str:
    """Return a message with keywords of Python as options: `--columns a=b` for `columns={...}`."""

    def option(found: re.Match[str]) -> str:
        return f"--{prefix}columns " + re.sub(r'[ "]', "", found[1]).replace(":", "=")

    text = re.sub(r"\bcolumns=\{([^}]*)\}", option, text)
    text = re.sub(r"\b(?<!-)(columns|format)=(?!\w)", rf"--{prefix}\1", text)
    for call, what in (("results", "runs"), ("golden", "a golden set")):
        text = re.sub(rf"\bload_{call}\(source, ([^()]*)\)", rf"\1 for {what}", text)
    names = "|".join(POLICY_HELP)
    return re.sub(rf"\b({names})='(\w+)'", lambda one: f"{flag(one[1])} {one[2]}", text)


def as_json(content: Any) -> str:
    """Return content as --json prints it: one line, null for missing values."""
    return json_text(content, default=str)


def say(text: object, *, file: TextIO | None = None, end: str = "\n", flush: bool = False) -> None:
    """Print a text; what would control the terminal is shown instead. Commands print by it."""
    print(visible(str(text)), file=file, end=end, flush=flush)


# Loading


def read_golden(args: argparse.Namespace) -> Golden:
    """Return the golden set that the arguments name."""
    try:
        return load_golden(args.golden, **reading(args, "golden_"))
    except DataError as error:
        raise DataError(in_options(str(error), "golden-")) from error


def load(args: argparse.Namespace, runs: Sequence[str]) -> tuple[Golden, Results]:
    """Return golden set and runs, in the order named; every run must answer some golden query.

    The command's usage is shown when golden file and run are swapped.
    """
    try:
        golden = read_golden(args)
    except DataError as error:
        raise (
            _swapped(args.golden, load_results, "a run, not a golden file", args.usage) or error
        ) from None
    try:
        results = read_runs(args, runs)
    except DataError as error:
        what = "a golden file, not a run"
        swapped = (_swapped(name, load_golden, what, args.usage) for name in runs)
        raise next(filter(None, swapped), error) from None
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


def load_pair(args: argparse.Namespace) -> tuple[Golden, Results, str, str]:
    """Return golden set, both runs, and the ids of baseline and candidate."""
    golden, results = load(args, [one for one in (args.baseline, args.candidate) if one])
    run_ids = results.runs["run_id"].astype("str").tolist()
    if len(run_ids) != 2:
        raise DataError(
            f"{len(run_ids)} run{'s' if len(run_ids) != 1 else ''}: {name_list(run_ids)}",
            field="run",
            allowed="two runs; --run NAME twice picks them, the baseline first",
        )
    return golden, results, run_ids[0], run_ids[1]


def evaluated(
    args: argparse.Namespace, golden: Golden, results: Results, metrics: list[str] | None = None
) -> Evaluation:
    """Return the runs scored by the policies that were given, or by the profile."""
    profile, primary = getattr(args, "profile", None), getattr(args, "primary", None)
    chosen = [*metrics, *(primary or [])] if metrics else None
    return evaluate(results, golden, chosen, profile=profile, primary=primary, **policies(args))


def open_store(folder: str) -> RunStore:
    """Return the store in a folder, which must exist."""
    if not Path(folder).is_dir():
        raise DataError("no such folder", file=folder)
    return RunStore(folder)


def read_runs(args: argparse.Namespace, names: Sequence[str]) -> Results:
    """Return runs from files or from the store, in the order named; --run picks among them."""
    options, parts = reading(args), []
    for name in names:
        if Path(name).exists() or args.store is None:
            parts.append(load_results(name, **options))
        elif options:
            raise DataError(
                f"{name} is a stored run, which is read as it was stored",
                field=flag(next(iter(options))),
                allowed="leave it out, or name the run's file",
            )
        else:
            parts.append(RunStore(args.store).load([name]))
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


def _swapped(path: str | None, load: Callable[..., Any], what: str, usage: str) -> DataError | None:
    """Return a clearer error if the file that failed to load is of the other kind, else None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if path is None or not Path(path).is_file():
                return None
            load(path)
        except DataError:
            return None
    return DataError(f"this is {what}", file=path, allowed=f"usage: {usage}")
