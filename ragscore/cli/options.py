"""Options that commands share, and loading of the golden files and runs that arguments name."""

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.ranking import TIES
from ragscore.io.load import load_golden, load_results
from ragscore.scoring.metrics import parse_label
from ragscore.scoring.policies import POLICIES
from ragscore.scoring.provenance import COMPONENTS
from ragscore.store.store import RunStore

# The policies of `score` besides the match level.
SCORED_BY = ("collapse", "empty_gold", "unknown", "errors", "missing")
COMPARED_BY = SCORED_BY[:3]

# The type that add_subparsers returns; argparse gives it no public name.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_pair(parser: argparse.ArgumentParser) -> None:
    """Add two runs and their golden file."""
    parser.add_argument("baseline", help="run a: a per_query.jsonl file, or a name in --store")
    parser.add_argument("candidate", help="run b")
    add_golden(parser)


def add_golden(parser: argparse.ArgumentParser) -> None:
    """Add --golden."""
    parser.add_argument(
        "--golden", help="golden file; without it, the one that RAGSCORE_GOLDEN names"
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add --store, --match and --ties: where runs are, and how their hits are matched."""
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
    """Add one option per scoring policy."""
    for name in names:
        allowed = POLICIES[name]
        parser.add_argument(
            flag(name),
            metavar="|".join(allowed),
            help=f"how to score: {allowed[0]} is the default (see rs.score)",
        )


def add_allowances(parser: argparse.ArgumentParser) -> None:
    """Add --margin, --vary and --allow-different: accepted differences between runs."""
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
        "--allow-different",
        action="append",
        default=[],
        metavar="PART",
        help=f"a part of the provenance that may differ (several times): {allowed}",
    )


def allowances(args: argparse.Namespace) -> dict[str, Any]:
    """Return the accepted differences as parameters of `rs.compare_runs`."""
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


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Add --profile."""
    parser.add_argument("--profile", help="another harness's conventions, such as kebab")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def flag(name: str) -> str:
    """Return the option of a parameter's name."""
    return "--" + name.replace("_", "-")


def policies(args: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Return the policies that were given."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def refuse_without_effect(args: argparse.Namespace, names: Sequence[str]) -> None:
    """Raise a `DataError` for options that have no effect beside a profile."""
    given = [flag(name) for name in names if getattr(args, name) is not None]
    if args.profile and given:
        raise DataError(
            f"{', '.join(given)} has no effect with it",
            field="--profile",
            allowed="leave one of them out",
        )


def as_json(content: Any) -> str:
    """Return content as --json prints it: one line, null for missing values."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, default=str)


def load(args: argparse.Namespace, runs: list[str]) -> tuple[Golden, Results, list[str]]:
    """Return golden set, runs and run ids; every run must answer some golden query.

    Reads `golden`, `store`, `ties` and `usage` of the arguments; `usage` is shown when golden file
    and run are swapped.
    """
    usage = f"ragscore {args.usage}"
    try:
        golden = load_golden(args.golden)
    except DataError as error:
        raise (
            _swapped(args.golden, load_results, "a run, not a golden file", usage) or error
        ) from None
    try:
        results, run_ids = _load_runs(runs, args.store, args.ties)
    except DataError as error:
        raise next(
            filter(
                None,
                (_swapped(name, load_golden, "a golden file, not a run", usage) for name in runs),
            ),
            error,
        ) from None
    _require_answers(golden, results, run_ids)
    return golden, results, run_ids


def load_pair(args: argparse.Namespace) -> tuple[Golden, Results, str, str]:
    """Return golden set, both runs, and the ids of baseline and candidate."""
    golden, results, (baseline, candidate, *more) = load(args, [args.baseline, args.candidate])
    if more:
        raise DataError(
            f"{2 + len(more)} runs in two arguments",
            field="run",
            allowed="one run per file, or names in --store",
        )
    return golden, results, baseline, candidate


def open_store(folder: str) -> RunStore:
    """Return the store in a folder, which must exist."""
    if not Path(folder).is_dir():
        raise DataError("no such folder", file=folder)
    return RunStore(folder)


def _load_runs(names: list[str], store: str | None, ties: str | None) -> tuple[Results, list[str]]:
    """Return runs from files or from the store, and their run ids in the order named."""
    parts, run_ids = [], []
    for name in names:
        from_file = Path(name).exists() or store is None
        if ties is not None and not from_file:
            raise DataError(
                f"{name} is a stored run, which has its ranks",
                field="--ties",
                allowed="leave it out, or name the run's file",
            )
        part = (
            load_results(name, ties=ties or "file")
            if from_file
            else RunStore(store or "").load([name])
        )
        parts.append(part)
        run_ids += part.runs["run_id"].astype("str").tolist()
    twice = sorted({run_id for run_id in run_ids if run_ids.count(run_id) > 1})
    if twice:
        raise DataError(
            f"{', '.join(twice)} named by more than one argument",
            field="run",
            allowed="runs of different names; name them in run.json",
        )
    return Results.concat(parts), run_ids


def _require_answers(golden: Golden, results: Results, run_ids: list[str]) -> None:
    asked = results.responses[results.responses["query_id"].isin(golden.queries["query_id"])][
        "run_id"
    ]
    strangers = [run_id for run_id in run_ids if run_id not in set(asked.astype("str"))]
    if strangers:
        raise DataError(
            f"no query in common with the golden file: {', '.join(strangers)}",
            field="run",
            allowed="runs that answer its queries, by their ids",
        )


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
