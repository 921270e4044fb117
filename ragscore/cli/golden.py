"""`ragscore validate`: golden files."""

import argparse
from pathlib import Path

import pandas as pd

from ragscore.cli.options import Commands, add_json, as_json
from ragscore.frames.data import records_of
from ragscore.golden.validate import validate
from ragscore.store.files import read_parquet


def add_validate(commands: Commands) -> None:
    """`ragscore validate FILE`."""
    parser = commands.add_parser(
        "validate",
        help="look for what is wrong with a golden file; exit status 1 if there is anything",
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
