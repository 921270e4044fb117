"""`ragscore score`, `compare`, `gate` and `report`: how good runs are, alone and against others."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from ragscore.analysis.aggregates import aggregate
from ragscore.analysis.comparison.gate import UNDECIDED, Gate, gate, scored_by
from ragscore.analysis.comparison.model import Comparison
from ragscore.cli.options import (
    ALLOWANCES,
    GOLDEN,
    GOLDEN_ARGUMENT,
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
    allowances,
    command,
    evaluation,
    evaluation_of_pair,
    given,
    load,
    losses,
    option,
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
from ragscore.io.files import write_text
from ragscore.scoring.provenance import judge_fingerprint
from ragscore.scoring.summary import metric_columns

MARK = "<!-- ragscore gate -->"
"""First line of the comment, by which the next build finds and replaces it."""
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
    by = args.by[0] if args.by and len(args.by) == 1 else args.by
    table = ev.summary(args.metric, by)
    say(records_of(table) if args.json else readable(table, args.by or []))


def readable(table: pd.DataFrame, by: Sequence[str]) -> str:
    """Return the summary as text; metrics without any value are named below it."""
    columns = ["run_id", *by, "metric", "mean", "low", "high", "n", "n_expected"]
    measured = table.loc[table["n"] > 0, columns]
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
        file = write_text(_folder(args, candidate) / "report.md", cmp.to_markdown())
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
    names = dict.fromkeys([*metric_columns(ev.scores), *map(scored_by, allowed)])
    scores, _ = ev._scored(list(names))
    cmp = ev._compared(baseline, candidate, scores, **allowances(args))
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


def _folder(args: argparse.Namespace, candidate: str) -> Path:
    """Return the folder of the candidate, given as a file, a folder or a name in the store."""
    given = Path(args.candidate or args.baseline)
    if given.is_file():
        return given.parent
    return given if given.exists() else args.store.path(candidate)


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
    """Say how old the baseline is, on which golden set it ran and which judges it had.

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
    judges = str(judge_fingerprint(results).get(baseline, "") or "")
    return f"Baseline {baseline}: {age}; {of}; {f'judged by {judges}' if judges else 'no judge'}."


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


def write_files(
    folder: str, found: Gate, cmp: Comparison, about: str, link: str | None
) -> list[Path]:
    """Write what a build keeps: comment.md, gate.json, junit.xml, report.html, explorer.html."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    written = [
        write_text(out / "comment.md", comment(found, about, link)),
        write_text(out / "gate.json", found.to_json()),
        write_text(out / "junit.xml", found.to_junit()),
    ]
    verbs: Any = cmp
    verbs.report(out / "report.html")
    return [*written, out / "report.html", verbs.explore().write(out / "explorer.html")]
