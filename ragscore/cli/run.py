"""`ragscore run` and `ragscore demo`: ask systems every golden query, then show the scores."""

import argparse
import importlib
import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ragscore.cli.options import (
    Commands,
    add_command,
    add_golden,
    add_json,
    add_metric,
    add_options,
    as_json,
    reading,
    say,
)
from ragscore.cli.score import readable
from ragscore.collecting.journal import refuse_finished
from ragscore.collecting.run import collect
from ragscore.collecting.systems import ALLOWED, CARRIED, Given
from ragscore.evaluation import evaluate
from ragscore.frames.data import DataError, records_of
from ragscore.frames.errors import missing_package
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
    add_options(
        parser,
        (
            "system",
            f"{', '.join(DEMO)}; a chatbot's address; a YAML mapping of an endpoint; or"
            " module:function",
            {"nargs": "?"},
        ),
        (
            "--command",
            "instead of a system: a command that gets the request as JSON on standard input and"
            " prints its reply as JSON (default: none)",
            {"metavar": "TEXT"},
        ),
        ("-o --out", "the run's folder (default: runs/NAME)", {"metavar": "DIR"}),
    )
    add_metric(parser, "print afterwards", "the usual ones; with --json all")
    add_json(parser)
    add_golden(parser)
    add_options(
        parser.add_argument_group("what is sent"),
        ("--mode", "the system's mode of search, where it has several (default: not sent)"),
        ("-k --k", "hits to ask for (default: the system's own)", {"type": int, "metavar": "N"}),
        (
            "--temperature",
            "of the answer (default: the system's own)",
            {"type": float, "metavar": "T"},
        ),
        ("--seed", "of the answer (default: the system's own)", {"type": int, "metavar": "N"}),
        ("--retrieval-only", "ask for no answer (default: answers, too)", {"action": "store_true"}),
        (
            "--set",
            "a setting of the system's own, sent with every query (several times; default: none)",
            {"action": "append", "default": [], "metavar": "NAME=VALUE"},
        ),
        (
            "--leave-out",
            f"a field of golden queries that is not sent: {', '.join(CARRIED)} (several times;"
            " default: none)",
            {"action": "append", "default": [], "metavar": "FIELD"},
        ),
        ("--limit", "only the first N queries (default: all)", {"type": int, "metavar": "N"}),
        (
            "--sample",
            "only N queries, drawn with the seed (default: all)",
            {"type": int, "metavar": "N"},
        ),
    )
    add_options(
        parser.add_argument_group("how it is asked"),
        (
            "--workers",
            "queries in flight at a time (default: 1)",
            {"type": int, "default": 1, "metavar": "N"},
        ),
        (
            "--timeout",
            "for one attempt (default: 120)",
            {"type": float, "default": 120.0, "metavar": "SECONDS"},
        ),
        (
            "--retries",
            "further attempts after time-outs, lost connections, 429 and 5xx (default: 2)",
            {"type": int, "default": 2, "metavar": "N"},
        ),
        ("--rate", "most attempts per second (default: no limit)", {"type": float, "metavar": "N"}),
        (
            "--fresh",
            "begin anew, replacing a run that is there (default: go on with it)",
            {"action": "store_true"},
        ),
        ("--quiet", "no progress bar (default: one on a terminal)", {"action": "store_true"}),
    )
    add_options(
        parser.add_argument_group("how the run is called"),
        ("--name", "of the system (default: as it is given)"),
        ("--run-id", "of the run (default: a new one, which sorts by time)"),
        ("--suite", "of queries that the run belongs to (default: none)"),
        (
            "--repeat",
            "number of the trial, where one system is run several times (default: none)",
            {"type": int, "metavar": "N"},
        ),
        (
            "--description",
            "of the run: what is tested by it; reports show it (default: none)",
            {"dest": "note", "metavar": "TEXT"},
        ),
    )
    parser.set_defaults(work=_run)


def _run(args: argparse.Namespace) -> int:
    if (args.system is None) == (args.command is None):
        raise DataError(
            "both a system and --command" if args.system else "none given",
            field="system",
            allowed="one of them",
        )
    if args.golden is None and args.system in DEMO:
        from ragscore.demo.run import default_golden

        args.golden = default_golden()
    golden = load_golden(args.golden, **reading(args, "golden_"))
    out = Path(args.out) if args.out else Path("runs", _folder(args))
    if not args.fresh:
        refuse_finished(out)  # before the system is built, which may take minutes
    given = vars(args) | {"system": _system(args), "golden": golden, "out": out}
    given |= {"settings": _settings(args.set), "progress": not args.quiet}
    names = signature(collect).parameters.keys() & given.keys()  # options are named like them
    try:
        results = collect(**{name: given[name] for name in names})
    except KeyboardInterrupt as stopped:
        say(f"ragscore: stopped; {' '.join(getattr(stopped, '__notes__', []))}", file=sys.stderr)
        return STOPPED
    say(f"ragscore: wrote {out / 'per_query.jsonl'}", file=sys.stderr)
    if results.responses["error"].notna().all():
        return ALL_FAILED
    asked = golden.select(golden.queries["query_id"].isin(results.responses["query_id"]))
    ev = evaluate(results, asked, args.metric)
    metrics = args.metric if args.metric or args.json else headline_of(metric_columns(ev.scores))
    table = ev.summary(metrics)
    say(as_json(records_of(table)) if args.json else readable(table, []))
    return 0


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
        with _demo_packages("system"):
            from ragscore.demo.ask import demo_system

            return demo_system(args.system, CACHE)
    return (
        args.system if _is_address(args.system) or _is_file(args.system) else _imported(args.system)
    )


def _is_address(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _is_file(text: str) -> bool:
    return Path(text).suffix in (".yaml", ".yml", ".json")


@contextmanager
def _demo_packages(field: str) -> Iterator[None]:
    """Name the extra of a package that is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_package(error.name, "demo", field=field) from error


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


def add_demo(commands: Commands) -> None:
    """`ragscore demo`."""
    parser = add_command(
        commands,
        "demo",
        "Build a real corpus, run four real systems over it, score and compare them.",
        "demo --out ragscore-demo",
        "Or serve these systems, or make a history of their runs. Needs pip install '.[demo]' in a"
        " clone.",
    )
    add_options(
        parser,
        (
            "--out",
            "where runs and report go (default: ragscore-demo)",
            {"default": "ragscore-demo", "metavar": "DIR"},
        ),
        (
            "--golden",
            "golden file (default: data/demo/golden.yaml of this checkout)",
            {"metavar": "FILE"},
        ),
    )
    instead = parser.add_mutually_exclusive_group()
    add_options(
        instead,
        (
            "--history",
            "instead: make a history of runs, the systems varied one step at a time, in"
            " DIR/history (default: no)",
            {"action": "store_true"},
        ),
        (
            "--serve",
            "instead: answer POST /api/v1/ask on this machine, the system chosen by `mode`, until"
            " Ctrl-C (default: no)",
            {"action": "store_true"},
        ),
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
    with _demo_packages("demo"):
        from ragscore.demo.history import run_history
        from ragscore.demo.run import default_golden, run_demo
        from ragscore.demo.serve import PORT, serve_demo

        if args.serve:
            port = PORT if args.port is None else args.port
            say_on = partial(say, file=sys.stderr, flush=True)
            serve_demo(Path(args.out), port, report=lambda text: say_on(f"ragscore: {text}"))
        else:
            make = run_history if args.history else run_demo
            make(Path(args.out), Path(args.golden) if args.golden else default_golden())
