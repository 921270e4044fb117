"""`ragscore label`: labelling by hand, in the terminal."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from ragscore.cli.options import Commands
from ragscore.golden.labelling.marks import LEVELS
from ragscore.golden.labelling.session import FILTERS, NEAR, LabelSession
from ragscore.golden.labelling.terminal import label_in_terminal
from ragscore.io import load_results
from ragscore.store.files import read_parquet


def add_label(commands: Commands) -> None:
    """`ragscore label GOLDEN RUN...`."""
    parser = commands.add_parser(
        "label",
        help="label by hand which hits answer which question; every change is written at once",
    )
    parser.add_argument(
        "golden",
        help=(
            "golden file (YAML or JSON lines), which is changed row by row; a copy as it was is"
            " kept"
        ),
    )
    parser.add_argument(
        "runs", nargs="+", metavar="run", help="per_query.jsonl files whose hits are shown, pooled"
    )
    parser.add_argument(
        "--level",
        default="anchor",
        metavar="|".join(LEVELS),
        help="what is written: path, heading and words (the default), or ids",
    )
    parser.add_argument(
        "--show",
        default="all",
        metavar="FILTER",
        help=f"questions to stop at: {', '.join(FILTERS)}",
    )
    parser.add_argument(
        "--depth", type=int, default=20, metavar="K", help="hits of each run (default: 20)"
    )
    parser.add_argument(
        "--near",
        type=int,
        default=NEAR,
        metavar="K",
        help=f"the last rank that counts as a near miss (default: {NEAR})",
    )
    parser.add_argument(
        "--texts", metavar="PARQUET", help="table of chunk_id and text, for runs that kept no texts"
    )
    parser.set_defaults(run=_label)


def _label(args: argparse.Namespace) -> None:
    texts = read_parquet(Path(args.texts)) if args.texts else None
    session = LabelSession(
        args.golden,
        load_results(args.runs),
        level=args.level,
        depth=args.depth,
        near=args.near,
        texts=texts,
    )
    session.show(args.show)
    label_in_terminal(session, _typed())


def _typed() -> Iterator[str]:
    """Lines as they are typed, until the end of the input."""
    while True:
        try:
            yield input("label (h: help) > " if sys.stdin.isatty() else "")
        except (EOFError, KeyboardInterrupt):
            return
