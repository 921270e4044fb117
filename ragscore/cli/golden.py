"""`ragscore validate` and `ragscore label`: check golden files, and label in the terminal."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from ragscore.cli.options import Commands, add_json, as_json
from ragscore.frames.data import records_of
from ragscore.golden.labelling.marks import LEVELS
from ragscore.golden.labelling.session import FILTERS, NEAR, LabelSession
from ragscore.golden.labelling.terminal import label_in_terminal
from ragscore.golden.validate import validate
from ragscore.io.load import load_results
from ragscore.store.files import read_parquet


def add_validate(commands: Commands) -> None:
    """`ragscore validate FILE`."""
    parser = commands.add_parser(
        "validate",
        help="list the problems of a golden file; exit status 1 if there is any",
    )
    parser.add_argument("golden", metavar="FILE", help="golden file")
    parser.add_argument(
        "--catalogue",
        metavar="PARQUET",
        help=(
            "table of chunk_id and / or doc_id, such as chunks.parquet of a stored run: expected"
            " ids must be in it"
        ),
    )
    parser.add_argument("--format", help="the file's format, where its content doesn't tell it")
    add_json(parser)
    parser.set_defaults(run=_validate)


def _validate(args: argparse.Namespace) -> int:
    catalogue = read_parquet(Path(args.catalogue)) if args.catalogue else None
    found = validate(args.golden, catalogue=catalogue, format=args.format)
    if args.json:
        print(as_json(records_of(found)))
    else:
        places = [
            ":".join(str(part) for part in place if not pd.isna(part))
            for place in zip(found["file"], found["line"], strict=True)
        ]
        for place, problem in zip(places, records_of(found), strict=True):
            parts = [place, problem["query_id"], problem["field"], problem["found"]]
            print(
                f"{': '.join(part for part in parts if part)}"
                + (f"; {problem['allowed']}" if problem["allowed"] else "")
            )
    return int(len(found) > 0)


def add_label(commands: Commands) -> None:
    """`ragscore label GOLDEN RUN...`."""
    parser = commands.add_parser(
        "label",
        help="label by hand which hits answer which query; every change is written at once",
    )
    parser.add_argument(
        "golden",
        help=(
            "golden file (YAML or JSON lines), which is changed row by row; a copy of the original"
            " is kept"
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
        help=f"queries to show: {', '.join(FILTERS)}",
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
    """Yield typed lines until the end of the input."""
    while True:
        try:
            yield input("label (h: help) > " if sys.stdin.isatty() else "")
        except (EOFError, KeyboardInterrupt):
            return
