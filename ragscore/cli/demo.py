"""`ragscore demo`: the demo's packages are imported when it runs."""

import argparse
import sys
from pathlib import Path

from ragscore.cli.options import Commands
from ragscore.frames.data import DataError


def add_demo(commands: Commands) -> None:
    """`ragscore demo`."""
    parser = commands.add_parser(
        "demo",
        help=(
            "build a real corpus, run four real systems over it, score and compare them; or serve"
            " them"
        ),
    )
    parser.add_argument(
        "--out",
        default="ragscore-demo",
        metavar="DIR",
        help="where runs and report go (default: ragscore-demo)",
    )
    parser.add_argument(
        "--golden", help="golden file (default: data/demo/golden.yaml of this checkout)"
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--history",
        action="store_true",
        help=(
            "instead: make a history of runs, the systems varied one step at a time, in DIR/history"
        ),
    )
    instead.add_argument(
        "--serve",
        action="store_true",
        help=(
            "instead: answer POST /api/v1/ask on this machine, the system chosen by `mode`, until"
            " Ctrl-C"
        ),
    )
    parser.add_argument(
        "--port", type=int, metavar="N", help="for --serve (default: 9000; 0: a free one)"
    )
    parser.set_defaults(run=_demo)


def _demo(args: argparse.Namespace) -> None:
    for option, is_alone in (("port", not args.serve), ("golden", args.serve)):
        if getattr(args, option) is not None and is_alone:
            raise DataError(
                f"has no effect {'with' if args.serve else 'without'} --serve",
                field=f"--{option}",
                allowed="leave it out",
            )
    try:
        (_serve if args.serve else _run)(args)
    except ModuleNotFoundError as error:
        raise DataError(
            f"the package {error.name} is missing",
            field="demo",
            allowed="pip install 'ragscore[demo]'",
        ) from error


def _run(args: argparse.Namespace) -> None:
    from ragscore.demo.history import run_history
    from ragscore.demo.run import default_golden, run_demo

    make = run_history if args.history else run_demo
    make(Path(args.out), Path(args.golden) if args.golden else default_golden())


def _serve(args: argparse.Namespace) -> None:
    from ragscore.demo.serve import PORT, serve_demo

    serve_demo(
        Path(args.out),
        PORT if args.port is None else args.port,
        report=lambda text: print(f"ragscore: {text}", file=sys.stderr, flush=True),
    )
