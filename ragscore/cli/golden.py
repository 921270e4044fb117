"""`ragscore validate` and `ragscore label`: check golden files, and label in the terminal."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.cli.options import (
    GOLDEN_TEXT,
    JSON,
    RUN_LIST,
    RUNS,
    Group,
    as_json,
    command,
    option,
    read_runs,
    reading,
    reading_options,
    say,
)
from ragscore.frames.data import records_of
from ragscore.golden.labelling.marks import LEVELS
from ragscore.golden.labelling.session import FILTERS, NEAR, LabelSession
from ragscore.golden.labelling.terminal import label_in_terminal
from ragscore.golden.validate import validate
from ragscore.io.parquet_file import read_parquet


def _parquet(file: Path) -> pd.DataFrame:
    return read_parquet(file).to_pandas()


@command(
    "validate [FILE]",
    "List the problems of a golden file; exit status 1 if there is any.",
    "validate golden.yaml",
    option("golden", GOLDEN_TEXT, "FILE", nargs="?"),
    option(
        "--catalogue",
        "table of chunk_id and / or doc_id, such as chunks.parquet of a stored run: expected"
        " ids must be in it (default: ids aren't looked up)",
        "PARQUET",
    ),
    JSON,
    Group("the golden file", reading_options("", "query_id=qid,doc_id=gold", "golden")),
)
def validate_command(args: argparse.Namespace) -> int:
    """Print a line for each problem."""
    catalogue = _parquet(Path(args.catalogue)) if args.catalogue else None
    found = validate(args.golden, catalogue=catalogue, **reading(args))
    if args.json:
        say(as_json(records_of(found)))
    else:
        for problem in records_of(found):
            say(_line(problem))
        if len(found):
            n_queries = found["query_id"].nunique()
            counted = [
                f"{n} {severity}{'s' if n > 1 else ''}"
                for severity, n in found["severity"].value_counts().sort_index().items()
            ]
            where = f" in {n_queries} quer{'y' if n_queries == 1 else 'ies'}" if n_queries else ""
            say(f"{' and '.join(counted)}{where}", file=sys.stderr)
    return int(len(found) > 0)


def _line(problem: dict[str, Any]) -> str:
    """Return a problem as one line, the way compilers and linters print theirs."""
    place = ":".join(str(problem[name]) for name in ("file", "line") if problem[name] is not None)
    parts = [place, *(problem[name] for name in ("severity", "query_id", "field", "found"))]
    allowed = f"; {problem['allowed']}" if problem["allowed"] else ""
    rule = f" [{problem['rule']}]" if problem["rule"] != "loading" else ""
    return ": ".join(part for part in parts if part) + allowed + rule


@command(
    "label GOLDEN RUN...",
    "Label by hand which hits answer which query; every change is written at once.",
    "label golden.yaml runs/dense runs/hybrid --show unlabelled",
    option(
        "golden",
        "golden file (YAML or JSON lines), which is changed row by row; a copy of the original"
        " is kept",
    ),
    option(
        "--level",
        "what is written: path, heading and words (anchor), or ids (doc, chunk) (default: anchor)",
        "|".join(LEVELS),
    ),
    option(
        "--show",
        f"queries to show: {', '.join(FILTERS)} (default: all)",
        "FILTER",
    ),
    option("--depth", "hits of each run (default: 20)", "K"),
    option(
        "--near",
        f"the last rank that counts as a near miss (default: {NEAR})",
        "K",
    ),
    option(
        "--texts",
        "table of chunk_id and text, for runs that kept no texts (default: the runs' own)",
        "PARQUET",
    ),
    RUN_LIST,
    RUNS,
    of=(LabelSession,),
)
def label_command(args: argparse.Namespace) -> None:
    """Ask for labels until the input ends."""
    texts = _parquet(Path(args.texts)) if args.texts else None
    session = LabelSession(
        args.golden,
        read_runs(args, args.runs),
        level=args.level,
        depth=args.depth,
        near=args.near,
        texts=texts,
    )
    session.show(args.show or "all")
    label_in_terminal(session, _typed())


def _typed() -> Iterator[str]:
    """Yield typed lines until the end of the input."""
    while True:
        try:
            yield input("label (h: help) > " if sys.stdin.isatty() else "")
        except (EOFError, KeyboardInterrupt):
            return
