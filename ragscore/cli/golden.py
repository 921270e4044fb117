"""`ragscore validate` and `ragscore label`: check golden files, and label in the terminal."""

import argparse
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.cli.options import (
    GOLDEN_TEXT,
    JSON,
    RUN_LIST,
    RUNS,
    WIDTH,
    Group,
    as_json,
    command,
    option,
    read_runs,
    reading,
    reading_options,
    say,
    switch,
)
from ragscore.frames.data import DataError, records_of
from ragscore.frames.errors import plural
from ragscore.golden.sheet import LEVELS, add_labels, filled, golden_to_label, label_sheet
from ragscore.golden.validate import validate
from ragscore.io.files import read_parquet


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
            many = [plural(n, str(name)) for name, n in found["severity"].value_counts().items()]
            say(f"{' and '.join(sorted(many))} in {plural(found['query_id'].nunique(), 'query')}",
                file=sys.stderr)  # fmt: skip
    return int(len(found) > 0)


def _line(problem: dict[str, Any]) -> str:
    """Return a problem as one line, the way compilers and linters print theirs."""
    place = ":".join(str(problem[name]) for name in ("file", "line") if problem[name] is not None)
    parts = [place, *(problem[name] for name in ("severity", "query_id", "field", "found"))]
    allowed = f"; {problem['allowed']}" if problem["allowed"] else ""
    rule = f" [{problem['rule']}]" if problem["rule"] != "loading" else ""
    return ": ".join(part for part in parts if part) + allowed + rule


HELP = """\
1 4, 2=3   hits 1 and 4 support the answer, hit 2 has grade 3 (0: no help); again: take it off
x, y       nothing answers it, a system should refuse; it can be answered; again: take that back
s 2 words  words of hit 2 by which its label finds it again
n, q       next query (an empty line is n); quit (everything is saved already)"""


@command(
    "label GOLDEN RUN...",
    "Label by hand which hits answer which query; every change is written at once.",
    "label golden.yaml runs/dense runs/hybrid",
    option(
        "golden",
        "golden file (YAML or JSON lines), of which only changed labels are written anew; a copy of"
        " the original is kept",
    ),
    option(
        "--level",
        "what is written: path, heading and words (anchor), or ids (doc, chunk) (default: what"
        " most queries have, else anchor)",
        "|".join(LEVELS),
    ),
    option("--k", "hits of each run (default: 20)", "K"),
    switch("--skip-labelled", "show only queries that are unlabelled (default: all)"),
    RUN_LIST,
    RUNS,
    of=(label_sheet,),
)
def label_command(args: argparse.Namespace) -> None:
    """Ask for labels until the input ends."""
    sheet = label_sheet(read_runs(args, args.runs), args.golden, args.k, level=args.level)
    if args.skip_labelled:
        sheet = sheet[sheet["answerable"].isna()]
    for query_id in sheet["query_id"].unique():
        line = "l"
        while line not in ("", "n"):
            part = filled(sheet[sheet["query_id"].eq(query_id)], golden_to_label(args.golden))
            try:
                if (marked := _marked(part, line)) is not None:
                    add_labels(args.golden, marked)
                    part = filled(part, golden_to_label(args.golden))
                say(_shown(part) if line == "l" or marked is not None else HELP)
            except DataError as error:
                say(error)
            if (line := _typed().strip()) == "q":
                return


def _marked(part: pd.DataFrame, line: str) -> pd.DataFrame | None:
    """Return the rows of a query with what a line says of them; None if it says nothing."""
    marked, stated = part.copy(), {"x": False, "y": True}.get(line)
    words = re.fullmatch(r"s (\d+) (.+)", line)
    graded = [re.fullmatch(r"(\d+)(?:=(\d))?", word) for word in re.split(r"[\s,]+", line)]
    cells: list[tuple[int, str, Any]] = [
        (int(one[1]), "grade", int(one[2] or 1)) for one in graded if one
    ]
    cells = [(int(words[1]), "snippet", words[2])] if words else cells if all(graded) else []
    if stated is not None:
        marked["answerable"] = pd.NA if part["answerable"].iloc[0] is stated else stated
    for number, column, value in cells:
        if not 1 <= number <= part["rank"].count():
            raise DataError(f"no hit {number}", allowed=f"1 to {part['rank'].count()}")
        is_off = str(part[column].iloc[number - 1]) == str(value)
        marked.loc[marked.index[number - 1], column] = pd.NA if is_off else value
    return marked if cells or stated is not None else None


def _shown(part: pd.DataFrame) -> str:
    """Return a query with its hits, their grades and texts."""
    words = {"True": "labelled", "False": "should refuse"}
    stated = words.get(str(part["answerable"].iloc[0]), "unlabelled")
    lines = [f"── {part['query_id'].iloc[0]} · {stated}", str(part["query"].iloc[0])]
    for number, hit in enumerate(records_of(part[part["rank"].notna()]), 1):
        place = " › ".join(str(hit[name]) for name in ("path", "heading") if hit.get(name))
        grade = " " if hit["grade"] is None else hit["grade"]
        lines.append(f"{grade} {number:>2}  {place or hit.get('doc_id')} · {hit['found']}")
        lines += textwrap.wrap(hit.get("text") or "", WIDTH, max_lines=3, placeholder=" …",
                               initial_indent=" " * 6, subsequent_indent=" " * 6)  # fmt: skip
    return "\n".join(lines)


def _typed() -> str:
    try:
        return input("label (h: help) > " if sys.stdin.isatty() else "")
    except (EOFError, KeyboardInterrupt):
        return "q"
