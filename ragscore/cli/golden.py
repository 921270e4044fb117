"""`ragscore check`, `validate` and `label`: what files support, what is wrong, and labels."""

import argparse
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.analysis.extras.runs import traces
from ragscore.cli.options import (
    GOLDEN_TEXT,
    JSON,
    RUN_HELP,
    RUN_LIST,
    RUNS,
    WIDTH,
    command,
    given,
    option,
    read_runs,
    reading,
    reading_options,
    say,
    switch,
)
from ragscore.frames.data import DataError, Golden, Results, records_of
from ragscore.frames.errors import plural
from ragscore.golden.requirements import read_source, supported_metrics
from ragscore.golden.sheet import LEVELS, add_labels, filled, golden_to_label, label_sheet
from ragscore.golden.validate import validate
from ragscore.io.files import read_parquet


@command(
    "check FILE...",
    "Tell which metrics some files support, and what others lack.",
    "check golden.yaml runs/dense",
    option(
        "files", f"golden files, runs, or both: {RUN_HELP.rpartition(',')[0]}", "file", nargs="+"
    ),
    JSON,
    (
        "the files",
        reading_options("", "query_id=qid,doc_id=docno", "golden", "results"),
    ),
    details="Nothing is scored. Of traces it also counts what was read and what was left out, with"
    " the argument that would take it. --json then has `traces`, `left_out` and `metrics`. A file"
    " that fits no format is refused with the options that would make it readable.",
)
def check_command(args: argparse.Namespace) -> None:
    """Print which metrics the files support, grouped by what the others lack."""
    options = {"format": None, "columns": None, "strict": False} | reading(args)
    sources, lines = list[Golden | Results](), list[str]()
    for file in args.files:
        found, told = read_source(file, options)
        sources += found
        lines += told
    table = supported_metrics(*sources)
    traced = [one for one in sources if isinstance(one, Results) and "x_n_spans" in one.responses]
    counts = [row for one in traced for row in records_of(traces(one))]
    notes = [row for one in traced for row in records_of(one.problems)]
    if args.json:
        rows = records_of(table)
        say({"traces": counts, "left_out": notes, "metrics": rows} if traced else rows)
        return
    lines += [traces(one).T.to_string(header=False) for one in traced]
    lines += [_filled(f"left out: {one['found']}; {one['allowed']}") for one in notes]
    levels = next((text for text in table["levels"] if text), "none")
    lines.append(f"targets: {levels}")
    lines.append(_filled(f"supported: {', '.join(table.loc[table['supported'], 'metric'])}"))
    judged = "judgments of a model (`ragscore judge`)"
    missing = table["missing"].str.replace(r"^judgments of \w+$", judged, regex=True)
    for lacks, metrics in table.loc[~table["supported"], "metric"].groupby(missing, sort=False):
        lines.append(_filled(f"without {lacks}: {', '.join(metrics)}"))
    say("\n".join(lines))


def _filled(text: str) -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


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
    ("the golden file", reading_options("", "query_id=qid,doc_id=gold", "golden")),
)
def validate_command(args: argparse.Namespace) -> int:
    """Print a line for each problem."""
    catalogue = read_parquet(Path(args.catalogue)).to_pandas() if args.catalogue else None
    found = validate(args.golden, catalogue=catalogue, **reading(args))
    if args.json:
        say(records_of(found))
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
1 4=3   hit 1 supports the answer, hit 4 has grade 3 (0: no help); again: take it off
x       nothing answers it, a system should refuse; again: take that back
n, q    next query (an empty line is n); quit (everything is saved already)"""


@command(
    "label GOLDEN RUN...",
    "Label by hand which hits answer which query; every change is written at once.",
    "label golden.yaml runs/dense runs/hybrid",
    option(
        "golden",
        "golden file (YAML or JSON lines), of which only changed labels are rewritten; a copy of"
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
)
def label_command(args: argparse.Namespace) -> None:
    """Ask for labels until the input ends."""
    sheet = label_sheet(read_runs(args, args.runs), **given(args, label_sheet))
    if args.skip_labelled:
        sheet = sheet[sheet["answerable"].isna()]
    for query_id in sheet["query_id"].unique():
        word = "l"
        while word not in ("", "n"):
            part = filled(sheet[sheet["query_id"].eq(query_id)], golden_to_label(args.golden))
            say(_shown(part))
            say("label (h: help) > " if sys.stdin.isatty() else "", end="", flush=True)
            line = sys.stdin.readline()
            word = line.strip()
            if word == "q" or not line:
                return
            try:
                if word not in ("", "n"):
                    add_labels(args.golden, _marked(part, word))
            except DataError as error:
                say(str(error))


def _marked(part: pd.DataFrame, line: str) -> pd.DataFrame:
    """Return the rows of a query with what a line says of them."""
    marked, hits = part.copy(), part.index[part["rank"].notna()]
    if line == "x":
        is_refused = part["answerable"].eq(False).fillna(False).all()
        marked["answerable"] = pd.NA if is_refused else False
        return marked
    for word in line.replace(",", " ").split():
        found = re.fullmatch(r"([1-9]\d*)(?:=(\d))?", word)
        if not found or int(found[1]) > len(hits):
            raise DataError(f"found {word!r}", allowed=f"1 to {len(hits)}, and:\n{HELP}")
        row, grade = hits[int(found[1]) - 1], int(found[2] or 1)
        marked.loc[row, "grade"] = pd.NA if str(part.loc[row, "grade"]) == str(grade) else grade
    return marked


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
