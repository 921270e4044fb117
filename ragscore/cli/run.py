"""`ragscore run` and `ragscore demo`: ask systems every golden query, then show the scores."""

import argparse
import importlib
import json
import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ragscore.cli.options import (
    Commands,
    add_command,
    add_golden,
    add_json,
    add_metric,
    as_json,
    reading,
    say,
)
from ragscore.cli.score import readable
from ragscore.collecting.journal import refuse_finished
from ragscore.collecting.run import collect
from ragscore.collecting.systems import ALLOWED, CARRIED, Given
from ragscore.evaluation import evaluate
from ragscore.frames.data import DataError, Golden, Results, records_of
from ragscore.io.load import load_golden
from ragscore.scoring.metrics import headline_of
from ragscore.scoring.value_states import metric_columns

# The systems of ragscore.demo, whose packages are imported only when one is asked.
DEMO = ("bm25", "dense", "hybrid", "hybrid_rerank")
ALL_FAILED, STOPPED = 3, 130
CACHE = Path("ragscore-demo", "cache")  # shared with `ragscore demo`, which stores vectors there


def add_run(commands: Commands) -> None:
    """`ragscore run SYSTEM`."""
    parser = add_command(
        commands,
        "run SYSTEM --golden GOLDEN",
        "Ask a system every golden query and score it; exit status 3 if every query fails.",
        "run my_rag:answer --golden golden.yaml -k 10 --metric mrr@10",
        "Writes per_query.jsonl with run.json. A run that was interrupted goes on.",
    )
    parser.add_argument(
        "system",
        nargs="?",
        help=f"{', '.join(DEMO)}; a chatbot's address; a YAML mapping of an endpoint; or"
        " module:function",
    )
    parser.add_argument(
        "--command",
        metavar="TEXT",
        help="instead of a system: a command that gets the request as JSON on standard input and"
        " prints its reply as JSON (default: none)",
    )
    parser.add_argument("-o", "--out", metavar="DIR", help="the run's folder (default: runs/NAME)")
    add_metric(parser, "print afterwards", "the usual ones; with --json all")
    add_json(parser)
    add_golden(parser)
    _add_sent(parser)
    _add_manner(parser)
    parser.set_defaults(work=_run)


def _add_sent(command: argparse.ArgumentParser) -> None:
    """Add options of what is sent, and of which queries are sent."""
    parser = command.add_argument_group("what is sent")
    parser.add_argument(
        "--mode", help="the system's mode of search, where it has several (default: not sent)"
    )
    parser.add_argument(
        "-k", "--k", type=int, metavar="N", help="hits to ask for (default: the system's own)"
    )
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="of the answer (default: the system's own)"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="of the answer (default: the system's own)"
    )
    parser.add_argument(
        "--retrieval-only", action="store_true", help="ask for no answer (default: answers, too)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the system's own, sent with every query (several times; default: none)",
    )
    parser.add_argument(
        "--leave-out",
        action="append",
        default=[],
        metavar="FIELD",
        help=f"a field of golden queries that is not sent: {', '.join(CARRIED)} (several times;"
        " default: none)",
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help="only the first N queries (default: all)"
    )
    parser.add_argument(
        "--sample", type=int, metavar="N", help="only N queries, drawn with the seed (default: all)"
    )


def _add_manner(command: argparse.ArgumentParser) -> None:
    """Add options of how a system is asked, and of the run's name."""
    parser = command.add_argument_group("how it is asked")
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="queries in flight at a time (default: 1)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="for one attempt (default: 120)",
    )
    parser.add_argument(
        "--retries",
        type=int,
        default=2,
        metavar="N",
        help="further attempts after time-outs, lost connections, 429 and 5xx (default: 2)",
    )
    parser.add_argument(
        "--rate", type=float, metavar="N", help="most attempts per second (default: no limit)"
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="begin anew, replacing a run that is there (default: go on with it)",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="no progress bar (default: one on a terminal)"
    )
    parser = command.add_argument_group("how the run is called")
    parser.add_argument("--name", help="of the system (default: as it is given)")
    parser.add_argument("--run-id", help="of the run (default: a new one, which sorts by time)")
    parser.add_argument("--suite", help="of queries that the run belongs to (default: none)")
    parser.add_argument(
        "--repeat",
        type=int,
        metavar="N",
        help="number of the trial, where one system is run several times (default: none)",
    )
    parser.add_argument(
        "--description",
        dest="note",
        metavar="TEXT",
        help="of the run: what is tested by it; reports show it (default: none)",
    )


def _run(args: argparse.Namespace) -> int:
    if (args.system is None) == (args.command is None):
        raise DataError(
            "both a system and --command" if args.system else "none given",
            field="system",
            allowed="one of them",
        )
    golden, out = (
        load_golden(_golden_file(args), **reading(args, "golden_")),
        Path(args.out) if args.out else Path("runs", _folder(args)),
    )
    if not args.fresh:
        refuse_finished(out)  # before the system is built, which may take minutes
    sent = {
        option: getattr(args, option)
        for option in (
            "mode",
            "k",
            "temperature",
            "seed",
            "retrieval_only",
            "limit",
            "sample",
            "leave_out",
        )
    }
    manner = {
        option: getattr(args, option)
        for option in (
            "workers",
            "timeout",
            "retries",
            "rate",
            "run_id",
            "suite",
            "repeat",
            "note",
            "fresh",
        )
    }
    try:
        results = collect(
            _system(args),
            golden,
            out,
            settings=_settings(args.set),
            name=args.name,
            progress=not args.quiet,
            **sent,
            **manner,
        )
    except KeyboardInterrupt as stopped:
        say(f"ragscore: stopped; {' '.join(getattr(stopped, '__notes__', []))}", file=sys.stderr)
        return STOPPED
    say(f"ragscore: wrote {out / 'per_query.jsonl'}", file=sys.stderr)
    if results.responses["error"].notna().all():
        return ALL_FAILED
    _show(results, golden, args)
    return 0


def _golden_file(args: argparse.Namespace) -> Any:
    """Return the golden file given, or the checkout's for a system of the demo."""
    if args.golden is None and args.system in DEMO:
        from ragscore.demo.run import default_golden

        return default_golden()
    return args.golden


def _folder(args: argparse.Namespace) -> str:
    """Return the default name of the run's folder."""
    if args.name:
        return str(args.name)
    if args.command is not None:
        return Path(*shlex.split(args.command)[:1]).name or "command"
    if _is_address(args.system):
        return str(urlsplit(args.system).netloc.rpartition("@")[2].replace(":", "-"))
    return Path(args.system).stem if _is_file(args.system) else args.system.rpartition(":")[2]


def _system(args: argparse.Namespace) -> Given:
    """Return the system to ask, in a form that `collect` takes."""
    if args.command is not None:
        return shlex.split(args.command)
    if args.system in DEMO:
        return _demo_system(args.system)
    return (
        args.system if _is_address(args.system) or _is_file(args.system) else _imported(args.system)
    )


def _is_address(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _is_file(text: str) -> bool:
    return Path(text).suffix in (".yaml", ".yml", ".json")


def _demo_system(name: str) -> Given:
    try:
        from ragscore.demo.ask import demo_system

        return demo_system(name, CACHE)
    except ModuleNotFoundError as error:
        raise DataError(
            f"the package {error.name} is missing",
            field="system",
            allowed="pip install 'ragscore[demo]'",
        ) from error


def _imported(place: str) -> Any:
    """Import the function that `module:function` names, also from the current folder."""
    module, _, name = place.partition(":")
    if not name:
        raise DataError(
            f"found {place!r}",
            field="system",
            allowed=f"{', '.join(DEMO)}, module:function, or {ALLOWED}",
        )
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ModuleNotFoundError, AttributeError) as error:
        raise DataError(
            f"found {place!r} ({error})", field="system", allowed="module:function, found from here"
        ) from error
    finally:
        sys.path.pop(0)
    return found


def _settings(given: list[str]) -> dict[str, Any]:
    """Return settings from NAME=VALUE, values read as JSON where possible, else as text."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise DataError(f"found {text!r}", field="--set", allowed="NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _show(results: Results, golden: Golden, args: argparse.Namespace) -> None:
    """Print the means over the queries that were asked."""
    asked = golden.select(golden.queries["query_id"].isin(results.responses["query_id"]))
    ev = evaluate(results, asked, args.metric)
    metrics = args.metric if args.metric or args.json else headline_of(metric_columns(ev.scores))
    table = ev.summary(metrics)
    say(as_json(records_of(table)) if args.json else readable(table, []))


def add_demo(commands: Commands) -> None:
    """`ragscore demo`."""
    parser = add_command(
        commands,
        "demo",
        "Build a real corpus, run four real systems over it, score and compare them.",
        "demo --out ragscore-demo",
        "Or serve these systems, or make a history of their runs. Needs pip install"
        " 'ragscore[demo]'.",
    )
    parser.add_argument(
        "--out",
        default="ragscore-demo",
        metavar="DIR",
        help="where runs and report go (default: ragscore-demo)",
    )
    parser.add_argument(
        "--golden",
        metavar="FILE",
        help="golden file (default: data/demo/golden.yaml of this checkout)",
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--history",
        action="store_true",
        help="instead: make a history of runs, the systems varied one step at a time, in"
        " DIR/history (default: no)",
    )
    instead.add_argument(
        "--serve",
        action="store_true",
        help="instead: answer POST /api/v1/ask on this machine, the system chosen by `mode`, until"
        " Ctrl-C (default: no)",
    )
    parser.add_argument(
        "--port", type=int, metavar="N", help="for --serve (default: 9000; 0: a free one)"
    )
    parser.set_defaults(work=_start_demo)


def _start_demo(args: argparse.Namespace) -> None:
    for option, is_alone in (("port", not args.serve), ("golden", args.serve)):
        if getattr(args, option) is not None and is_alone:
            raise DataError(
                f"has no effect {'with' if args.serve else 'without'} --serve",
                field=f"--{option}",
                allowed="leave it out",
            )
    try:
        (_serve_demo if args.serve else _run_demo)(args)
    except ModuleNotFoundError as error:
        raise DataError(
            f"the package {error.name} is missing",
            field="demo",
            allowed="pip install 'ragscore[demo]'",
        ) from error


def _run_demo(args: argparse.Namespace) -> None:
    from ragscore.demo.history import run_history
    from ragscore.demo.run import default_golden, run_demo

    make = run_history if args.history else run_demo
    make(Path(args.out), Path(args.golden) if args.golden else default_golden())


def _serve_demo(args: argparse.Namespace) -> None:
    from ragscore.demo.serve import PORT, serve_demo

    serve_demo(
        Path(args.out),
        PORT if args.port is None else args.port,
        report=lambda text: say(f"ragscore: {text}", file=sys.stderr, flush=True),
    )
