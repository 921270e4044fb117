"""The commands that read files: what these hold, labels, scores, comparisons and reports."""

import argparse
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from ragscore.analysis.aggregates import aggregate
from ragscore.analysis.comparison.gate import UNDECIDED, Gate, gate, scored_by
from ragscore.analysis.extras.runs import traces
from ragscore.cli.options import (
    ALLOWANCES,
    GOLDEN,
    GOLDEN_ARGUMENT,
    GOLDEN_TEXT,
    JSON,
    MATCHING,
    MAX_DROP,
    METRIC,
    NO_GOLDEN,
    PROFILE,
    RULE,
    RUN_HELP,
    RUN_LIST,
    RUNS,
    SCORING,
    WIDTH,
    allowances,
    command,
    evaluation,
    evaluation_of_pair,
    given,
    load,
    losses,
    option,
    read_runs,
    reading,
    reading_options,
    refuse_beside_profile,
    say,
    several,
    store,
    switch,
)
from ragscore.frames.data import DataError, Golden, Results, records_of
from ragscore.frames.errors import plural
from ragscore.frames.escaping import markdown_line
from ragscore.frames.tables import Table
from ragscore.golden.labels import add_labels
from ragscore.golden.requirements import read_source, supported_metrics
from ragscore.golden.sheet import LEVELS, STATES, filled, golden_to_label, label_sheet
from ragscore.golden.validate import validate
from ragscore.io.files import read_parquet, write_text

# First line of the comment, by which the next build finds and replaces it.
MARK = "<!-- ragscore gate -->"
LISTED = 20  # changed queries that a comparison lists without --all
PAIR = (
    option("baseline", RUN_HELP),
    option(
        "candidate",
        "likewise; without it, the first argument holds both, as --run picks them",
        nargs="?",
    ),
)


@command(
    "score [GOLDEN] RUN...",
    "Score runs against a golden file: means with 95 % intervals.",
    "score golden.yaml runs/dense runs/hybrid --metric mrr@10 --by difficulty",
    *GOLDEN_ARGUMENT,
    METRIC,
    several(
        "--by",
        "slice by a column or tag of the golden file (several times: by each combination;"
        " default: no slices)",
        "COLUMN",
    ),
    PROFILE,
    JSON,
    RUN_LIST,
    RUNS,
    SCORING,
)
def score_command(args: argparse.Namespace) -> None:
    """Print the summary, or the profile's aggregates."""
    refuse_beside_profile(args, ["metric", "by"])
    if args.profile:
        golden, results = load(args, args.runs)
        say(aggregate(results, golden, args.profile))
        return
    ev = evaluation(args, args.runs, args.metric)
    table = ev.summary(args.metric, args.by)
    say(records_of(table) if args.json else readable(table, args.by or []))


def readable(table: pd.DataFrame, by: Sequence[str]) -> str:
    """Return the summary as text; metrics without any value are named below it."""
    measured = table.loc[
        table["n"] > 0, ["run_id", *by, "metric", "mean", "low", "high", "n", "n_expected"]
    ]
    without = [one for one in table["metric"].unique() if not measured["metric"].eq(one).any()]
    text = measured.to_string(index=False, na_rep="—", float_format="{:.3f}".format)
    return "\n\n".join([text, f"not measured: {', '.join(without)}"][: 1 + bool(without)])


@command(
    "compare BASELINE CANDIDATE --golden GOLDEN",
    "Compare two runs query by query, on the queries both have.",
    "compare runs/dense runs/hybrid --golden golden.yaml",
    *PAIR,
    METRIC,
    switch(
        "--strict-chunker-version",
        "refuse runs of different chunkers (default: match them by spans or documents)",
    ),
    switch("--all", f"list every changed query (default: the first {LISTED})"),
    switch(
        "--write-report",
        "write report.md, with every changed query, beside the candidate (default: print)",
    ),
    PROFILE,
    JSON,
    GOLDEN,
    RUNS,
    SCORING,
    *ALLOWANCES,
    details="Prints what changed, metric by metric with intervals and verdicts, then the queries.",
)
def compare_command(args: argparse.Namespace) -> None:
    """Print the comparison, and write it beside the candidate if asked."""
    refuse_beside_profile(args, ["metric"])
    # what is named is asked about
    metrics = [*args.metric, *(args.primary or [])] if args.metric else None
    ev, baseline, candidate = evaluation_of_pair(args, metrics)
    cmp = ev.compare(
        baseline,
        candidate,
        metrics,
        strict_chunker_version=args.strict_chunker_version,
        **allowances(args),
    )
    limit = None if args.all or args.profile else LISTED
    say(cmp.to_json() if args.json else cmp.to_markdown(limit), end="\n" if args.json else "")
    if args.write_report:
        named = Path(args.candidate or args.baseline)
        place = named if named.exists() else args.store.path(candidate)
        folder = place.parent if place.is_file() else place
        file = write_text(folder / "report.md", cmp.to_markdown())
        say(f"ragscore: wrote {file}", file=sys.stderr)


@command(
    "gate BASELINE CANDIDATE --golden GOLDEN",
    "Decide if the candidate may replace the baseline: exit status 1 if a primary metric is"
    " worse, or with --max-drop if a metric loses more than allowed.",
    "gate runs/dense runs/hybrid --golden golden.yaml --max-drop mrr@10=0.02",
    *PAIR,
    MAX_DROP,
    RULE,
    option(
        "--undecided",
        "pass or fail: what undecided counts as (default: neither, exit status 2)",
        "|".join(UNDECIDED),
    ),
    option(
        "--max-failed",
        "queries that the candidate may fail on or not be asked, of those that the baseline"
        " answered (default: 0)",
        "N",
    ),
    option(
        "-o --out",
        "write what a build keeps: comment.md, gate.json, junit.xml, report.html, explorer.html"
        " (default: print alone)",
        "DIR",
    ),
    option("--link", "address of explorer.html, for links of comment.md (default: none)", "URL"),
    switch("--require", "exit status 2 if a metric can't be evaluated (default: it doesn't count)"),
    switch("--markdown", "print Markdown, for a pull request (default: plain text)"),
    JSON,
    GOLDEN,
    RUNS,
    SCORING,
    *ALLOWANCES,
    details="It fails, too, by queries that only the candidate failed on or was not asked."
    " Exit status 0: passed, 1: failed, 2: undecided or not evaluated, or an error.",
)
def gate_command(args: argparse.Namespace) -> int:
    """Print the decision; the exit status is the gate's."""
    allowed = losses(args)
    # By the default metrics, to know the primary ones; the gate's own are scored when asked for.
    ev, baseline, candidate = evaluation_of_pair(args)
    ev = ev._with_scored(map(scored_by, allowed))
    cmp = ev._compared(baseline, candidate, **allowances(args))
    found = cmp.gate(**given(args, gate) | {"max_drop": allowed or None})
    about = about_baseline(
        ev.results, baseline, None if args.golden == NO_GOLDEN else ev.golden,
        may_differ=bool({"golden", "all"} & set(args.allow_different)),
    )  # fmt: skip
    if args.out:
        say(f"ragscore: {about}", file=sys.stderr)
        for file in write_files(args.out, found, cmp, about, args.link):
            say(f"ragscore: wrote {file}", file=sys.stderr)
    say(
        found.to_json() if args.json else found.to_markdown() if args.markdown else repr(found),
        end="" if args.markdown else "\n",
    )
    return found.exit_status


@command(
    "report RUN... --golden GOLDEN",
    "Write one page about some runs: what changed, how good each is, what it was.",
    "report runs/dense runs/hybrid --golden golden.yaml -o report.html",
    option(
        "-o --out",
        ".html (all in one file), .md or .json; default: print Markdown",
        "FILE",
    ),
    option(
        "--baseline",
        "compare every run with this one (default: each with the one before it)",
        "RUN",
    ),
    several(
        "--by",
        "slice by a column or tag of the golden file (several times; default: difficulty,"
        " category and lang where they are)",
        "COLUMN",
    ),
    option("--title", "the heading of the page (default: the numbers of runs and queries)"),
    MAX_DROP,
    RULE,
    option(
        "--history",
        "a store: draw the trend over its runs (default: over these runs)",
        "DIR",
        type=store,
    ),
    GOLDEN,
    RUN_LIST,
    RUNS,
    MATCHING,
    *ALLOWANCES,
    details="Each run is compared with the one before it, or with --baseline.",
)
def report_command(args: argparse.Namespace) -> None:
    """Write the page, or print its Markdown."""
    out = Path(args.out) if args.out else None
    made = evaluation(args, args.runs).report(
        out, slices=args.by, baseline=args.baseline, title=args.title,
        gate=losses(args), rule=args.rule,
        history=args.history, **allowances(args),
    )  # fmt: skip
    if out is None:
        say(made.to_markdown(), end="")
    else:
        say(f"ragscore: wrote {out}", file=sys.stderr)


# A gate in a build


def about_baseline(
    results: Results, baseline: str, golden: Golden | None, *, may_differ: bool = False
) -> str:
    """Say how old the baseline is, and on which golden set it ran.

    Raises
    ------
    DataError
        It ran on another golden set, and none may differ.
    """
    row = results.runs.set_index(results.runs["run_id"].astype("str")).loc[baseline]
    made, known = pd.Timestamp(row.get("created_at")), row.get("golden_hash")  # type: ignore[arg-type]
    age, of = "its age isn't known (no created_at)", "its golden set isn't recorded"
    if not pd.isna(made):
        days = max((pd.Timestamp.now(tz="UTC") - made.tz_convert("UTC")).days, 0)
        age = f"made {made:%Y-%m-%d}, {plural(days, 'day')} ago"
    if golden is not None and isinstance(known, str) and known:
        is_same = known == golden.golden_hash
        if not (is_same or may_differ):
            raise DataError(
                f"the baseline {baseline} ran on golden set {known}, this is {golden.golden_hash}",
                field="baseline",
                allowed="a baseline of this golden set; --allow-different golden",
            )
        of = f"golden set {known[:8]}, {'this one' if is_same else 'another one'}"
    return f"Baseline {baseline}: {age}; {of}."


def comment(found: Gate, about: str, link: str | None) -> str:
    """Return the comment of a build: the answer, the primary metrics, the queries to read first."""
    parts = [
        MARK,
        f"## {markdown_line(found.headline())}",
        about,
        Table(found.shown()).to_markdown(),
    ]
    worst = found.regressions
    parts += [f"### The {plural(len(worst), 'query')} that lost most"] if len(worst) else []
    lines = []
    for row in worst.to_dict("records"):
        name, query = (markdown_line(str(row[column])) for column in ("query_id", "query"))
        if link is not None:
            name = f"[{name}]({link}#x.q={quote(str(row['query_id']), safe='')})"
        ranks = f"rank {row['rank_baseline']} → {row['rank_candidate']}"
        lines.append(f"- {name}: {row['outcome']}, {ranks}; {query}")
    return "\n\n".join([*parts, *filter(None, ["\n".join(lines)]), *found.notes()]) + "\n"


def write_files(folder: str, found: Gate, cmp: Any, about: str, link: str | None) -> list[Path]:
    """Write what a build keeps: comment.md, gate.json, junit.xml, report.html, explorer.html."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    written = [
        write_text(out / "comment.md", comment(found, about, link)),
        write_text(out / "gate.json", found.to_json()),
        write_text(out / "junit.xml", found.to_junit()),
    ]
    cmp.report(out / "report.html")
    return [*written, out / "report.html", cmp.explore().write(out / "explorer.html")]


# Files and labels


@command(
    "check FILE...",
    "List the metrics that some files support, and what others lack.",
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
        found, described = read_source(file, options)
        sources += found
        lines += described
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
    lacking = table[~table["supported"]]
    for lacks, metrics in lacking.groupby("missing", sort=False)["metric"]:
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
            n = plural(found["query_id"].nunique(), "query")
            say(f"{plural(len(found), 'problem')} in {n}", file=sys.stderr)
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
    stated = STATES.get(str(part["answerable"].iloc[0]), "unlabelled")
    lines = [f"── {part['query_id'].iloc[0]} · {stated}", str(part["query"].iloc[0])]
    for number, hit in enumerate(records_of(part[part["rank"].notna()]), 1):
        place = " › ".join(str(hit[name]) for name in ("path", "heading") if hit.get(name))
        grade = " " if hit["grade"] is None else hit["grade"]
        lines.append(f"{grade} {number:>2}  {place or hit.get('doc_id')} · {hit['found']}")
        lines += textwrap.wrap(hit.get("text") or "", WIDTH, max_lines=3, placeholder=" …",
                               initial_indent=" " * 6, subsequent_indent=" " * 6)  # fmt: skip
    return "\n".join(lines)
