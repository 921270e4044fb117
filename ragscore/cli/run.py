"""`ragscore run` and `ragscore demo`: ask systems every golden query, then show the scores."""

import argparse
import pkgutil
import runpy
import shlex
import sys
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from ragscore.cli.compare import readable
from ragscore.cli.options import (
    GOLDEN,
    JSON,
    METRIC,
    command,
    given,
    option,
    reading,
    say,
    setting,
    several,
    switch,
)
from ragscore.collecting.journal import refuse_finished
from ragscore.collecting.run import ALLOWED, Given, collect
from ragscore.collecting.systems import CARRIED
from ragscore.evaluation import evaluate
from ragscore.frames.data import DataError, records_of
from ragscore.frames.errors import packages_of
from ragscore.io.load import load_golden
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.summary import metric_columns

ALL_FAILED, STOPPED = 3, 130


@command(
    "run SYSTEM --golden GOLDEN",
    "Ask a system every golden query and score it; exit status 3 if every query fails.",
    "run my_rag:answer --golden golden.yaml -k 10 --metric mrr@10",
    option(
        "system",
        "a chatbot's address; a YAML mapping of an endpoint; or module:function",
        nargs="?",
    ),
    option(
        "--command",
        "instead of a system: a command that gets the request as JSON on standard input and"
        " prints its reply as JSON (default: none)",
        "TEXT",
    ),
    option("-o --out", "the run's folder (default: runs/NAME)", "DIR"),
    METRIC,
    JSON,
    GOLDEN,
    (
        "what is sent",
        [
            option(
                "--mode", "the system's mode of search, where it has several (default: not sent)"
            ),
            option("-k --k", "hits to ask for (default: the system's own)", "N"),
            option("--temperature", "of the answer (default: the system's own)", "T"),
            option("--seed", "of the answer (default: the system's own)", "N"),
            switch("--retrieval-only", "ask for no answer (default: answers, too)"),
            several(
                "--set",
                "a setting of the system's own, sent with every query (several times; default:"
                " none)",
                "NAME=VALUE",
                type=setting,
                default=[],
            ),
            several(
                "--leave-out",
                f"a field of golden queries that is not sent: {', '.join(CARRIED)} (several times;"
                " default: none)",
                "FIELD",
                default=[],
            ),
            option("--limit", "only the first N queries (default: all)", "N"),
        ],
    ),
    (
        "how it is asked",
        [
            option("--workers", "queries in flight at a time (default: 1)", "N"),
            option("--timeout", "for one attempt (default: 120)", "SECONDS"),
            option(
                "--retries",
                "further attempts after time-outs, lost connections, 429 and 5xx (default: 2)",
                "N",
            ),
            switch("--fresh", "start over, replacing a run that is there (default: resume it)"),
            switch("--quiet", "no progress bar (default: one on a terminal)"),
        ],
    ),
    (
        "how the run is called",
        [
            option("--name", "of the system (default: as it is given)"),
            option("--run-id", "of the run (default: a new one, which sorts by time)"),
            option("--suite", "of queries that the run belongs to (default: none)"),
            option(
                "--repeat",
                "number of the trial, where one system is run several times (default: none)",
                "N",
            ),
            option(
                "--description",
                "of the run: what is tested by it; reports show it (default: none)",
                "TEXT",
                dest="note",
            ),
        ],
    ),
    details="Writes per_query.jsonl with run.json. A run that was interrupted goes on.",
)
def run_command(args: argparse.Namespace) -> int:
    """Collect a run, and print its scores."""
    if (args.system is None) == (args.command is None):
        raise DataError(
            "both a system and --command" if args.system else "none given",
            field="system",
            allowed="one of them",
        )
    golden = load_golden(args.golden, **reading(args, "golden_"))
    out = Path(args.out) if args.out else Path("runs", _folder(args))
    if not args.fresh:
        refuse_finished(out)  # before the system is built, which may take minutes
    options = given(args, collect) | {"system": _system(args), "golden": golden, "out": out}
    options |= {"settings": dict(args.set), "progress": not args.quiet}
    try:
        results = collect(**options)
    except KeyboardInterrupt as stopped:
        say(f"ragscore: stopped; {' '.join(getattr(stopped, '__notes__', []))}", file=sys.stderr)
        return STOPPED
    say(f"ragscore: wrote {out / 'per_query.jsonl'}", file=sys.stderr)
    if results.responses["error"].notna().all():
        return ALL_FAILED
    asked = golden.select(golden.queries["query_id"].isin(results.responses["query_id"]))
    ev = evaluate(results, asked, args.metric)
    metrics = args.metric if args.metric or args.json else TABLE.headline(metric_columns(ev.scores))
    table = ev.summary(metrics)
    say(records_of(table) if args.json else readable(table, []))
    return 0


def _folder(args: argparse.Namespace) -> str:
    """Return the default name of the run's folder."""
    given = args.system if args.command is None else shlex.split(args.command)[0]
    if "://" in given:
        return str(urlsplit(given).netloc.rpartition("@")[2].replace(":", "-"))
    return str(args.name or Path(given.rpartition(":")[2]).stem)


def _system(args: argparse.Namespace) -> Given:
    """Return the system to ask, in a form that `collect` takes."""
    if args.command is not None:
        return shlex.split(args.command)
    is_file = Path(args.system).suffix in (".yaml", ".yml", ".json")
    if is_file or args.system.startswith(("http://", "https://")):
        return args.system
    sys.path.insert(0, str(Path.cwd()))  # a module of the current folder is found, too
    try:
        return pkgutil.resolve_name(args.system if ":" in args.system else "")
    except (ImportError, AttributeError, ValueError) as error:
        raise DataError(
            f"found {args.system!r} ({error})", field="system",
            allowed=f"module:function, found from here, or {ALLOWED}",
        ) from error  # fmt: skip
    finally:
        sys.path.pop(0)


@command(
    "demo",
    "Show the main job on four recorded runs: how good each is, and what one lost.",
    "demo --out ragscore-demo",
    option("--out", "where the page goes (default: ragscore-demo)", "DIR", default="ragscore-demo"),
    switch(
        "--build",
        "first build corpus and systems on this machine, and record the runs again in DIR, which"
        " takes minutes (default: the runs of data/demo)",
    ),
    details="Runs in a clone of the repository. --build needs pip install '.[demo]'.",
)
def demo_command(args: argparse.Namespace) -> None:
    """Show the demo, or build it."""
    from ragscore.demo.show import demo_data, show_demo

    out, report = Path(args.out), partial(say, flush=True)
    if not args.build:
        show_demo(demo_data() / "runs" / "*", out, report)
        return
    with packages_of("demo", field="demo"):
        runpy.run_path(str(demo_data() / "build.py"))["run_demo"](out, report)
