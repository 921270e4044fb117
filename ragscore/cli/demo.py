"""`ragscore demo`: the demo's packages are imported when it runs."""

import argparse
from pathlib import Path

from ragscore.cli.options import Commands
from ragscore.frames import DataError


def add_demo(commands: Commands) -> None:
    """`ragscore demo`."""
    parser = commands.add_parser("demo", help="build a real corpus, run four real systems over it, score and compare them")
    parser.add_argument("--out", default="ragscore-demo", metavar="DIR", help="where runs and report go (default: ragscore-demo)")
    parser.add_argument("--golden", help="golden file (default: data/demo/golden.yaml of this checkout)")
    parser.add_argument("--history", action="store_true", help="instead: make a history of runs, the systems varied one step at a time, in DIR/history")
    parser.set_defaults(run=_demo)


def _demo(args: argparse.Namespace) -> None:
    try:
        from ragscore.demo.history import run_history
        from ragscore.demo.run import default_golden, run_demo

        make = run_history if args.history else run_demo
        make(Path(args.out), Path(args.golden) if args.golden else default_golden())
    except ModuleNotFoundError as error:
        raise DataError(f"the package {error.name} is missing", field="demo", allowed="pip install 'ragscore[demo]'") from error
