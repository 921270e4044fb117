"""`ragscore compare`, `ragscore gate` and `ragscore report`: runs against each other."""

import argparse
import sys
from pathlib import Path

from ragscore.analysis.comparison.gate import RULES, UNDECIDED, gate, scored_by
from ragscore.cli.builds import about_baseline, write_files
from ragscore.cli.options import (
    ALLOWANCES,
    GOLDEN,
    JSON,
    MATCHING,
    NO_GOLDEN,
    RUN_HELP,
    RUN_LIST,
    RUNS,
    SCORING,
    Option,
    allowances,
    command,
    evaluation,
    evaluation_of_pair,
    losses,
    metric_option,
    open_store,
    option,
    profile_option,
    refuse_beside_profile,
    say,
    several,
    switch,
)
from ragscore.io.files import write_text
from ragscore.scoring.summary import metric_columns
from ragscore.store.store import RunStore

LISTED = 20  # changed queries that a comparison lists without --all
PAIR = (
    option("baseline", RUN_HELP),
    option(
        "candidate",
        "likewise; without it, the first argument holds both, as --run picks them",
        nargs="?",
    ),
)


def max_drop_options(default: str) -> list[Option]:
    """Return --max-drop and --rule."""
    return [
        several(
            "--max-drop",
            "largest loss allowed, such as mrr@10=0.02 or 'p95(latency_ms)=50' (several times;"
            f" default: {default})",
            "LABEL=LOSS",
            default=[],
        ),
        option(
            "--rule",
            "what decides: the loss as seen (threshold, the default), or its interval"
            " (interval: undecided where a larger loss is neither sure nor ruled out)",
            "|".join(RULES),
        ),
    ]


@command(
    "compare BASELINE CANDIDATE --golden GOLDEN",
    "Compare two runs query by query, on the queries both have.",
    "compare runs/dense runs/hybrid --golden golden.yaml",
    *PAIR,
    metric_option("compare", "those that the data supports"),
    switch(
        "--strict-chunker-version",
        "refuse runs of different chunkers (default: match them by spans or documents)",
    ),
    switch("--all", f"list every changed query (default: the first {LISTED})"),
    switch(
        "--write-report",
        "write report.md, with every changed query, beside the candidate (default: print)",
    ),
    profile_option("its own report with --json"),
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
    *max_drop_options("no primary metric may be worse"),
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
    of=(gate,),
)
def gate_command(args: argparse.Namespace) -> int:
    """Print the decision; the exit status is the gate's."""
    allowed = losses(args.max_drop, "--max-drop")
    # By the default metrics, to know the primary ones; the gate's own are scored when asked for.
    ev, baseline, candidate = evaluation_of_pair(args)
    names = dict.fromkeys([*metric_columns(ev.scores), *map(scored_by, allowed)])
    scores, _ = ev._scored(list(names))
    cmp = ev._compared(baseline, candidate, scores, **allowances(args))
    found = cmp.gate(
        allowed or None, rule=args.rule, require=args.require, undecided=args.undecided,
        max_failed=args.max_failed,
    )  # fmt: skip
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
    return given if given.exists() else RunStore(args.store).path(candidate)


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
    *max_drop_options("no gate"),
    option("--history", "a store: draw the trend over its runs (default: over these runs)", "DIR"),
    GOLDEN,
    RUN_LIST,
    RUNS,
    MATCHING,
    *ALLOWANCES,
    details="Each run is compared with the one before it, or with --baseline.",
    of=(gate,),
)
def report_command(args: argparse.Namespace) -> None:
    """Write the page, or print its Markdown."""
    out = Path(args.out) if args.out else None
    made = evaluation(args, args.runs).report(
        out, slices=args.by, baseline=args.baseline, title=args.title,
        gate=losses(args.max_drop, "--max-drop"), rule=args.rule,
        history=open_store(args.history) if args.history else None, **allowances(args),
    )  # fmt: skip
    if out is None:
        say(made.to_markdown(), end="")
    else:
        say(f"ragscore: wrote {out}", file=sys.stderr)
