"""`ragscore score`."""

import argparse
from collections.abc import Sequence

import pandas as pd

from ragscore.analysis.aggregates import aggregate
from ragscore.cli.options import (
    GOLDEN_ARGUMENT,
    JSON,
    RUN_LIST,
    RUNS,
    SCORING,
    as_json,
    command,
    evaluation,
    load,
    metric_option,
    profile_option,
    refuse_beside_profile,
    say,
    several,
)
from ragscore.frames.data import records_of


@command(
    "score [GOLDEN] RUN...",
    "Score runs against a golden file: means with 95 % intervals.",
    "score golden.yaml runs/dense runs/hybrid --metric mrr@10 --by difficulty",
    *GOLDEN_ARGUMENT,
    metric_option("print", "the usual ones"),
    several(
        "--by",
        "slice by a column or tag of the golden file (several times: by each combination;"
        " default: no slices)",
        "COLUMN",
    ),
    profile_option("its aggregates as JSON"),
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
        say(as_json(aggregate(results, golden, args.profile)))
        return
    ev = evaluation(args, args.runs, args.metric)
    by = args.by[0] if args.by and len(args.by) == 1 else args.by
    table = ev.summary(args.metric, by)
    say(as_json(records_of(table)) if args.json else readable(table, args.by or []))


def readable(table: pd.DataFrame, by: Sequence[str]) -> str:
    """Return the summary as text; metrics without any value are named below it."""
    columns = ["run_id", *by, "metric", "mean", "low", "high", "n", "n_expected"]
    measured = table.loc[table["n"] > 0, columns]
    without = [one for one in table["metric"].unique() if not measured["metric"].eq(one).any()]
    text = measured.to_string(index=False, na_rep="—", float_format="{:.3f}".format)
    return "\n\n".join([text, f"not measured: {', '.join(without)}"][: 1 + bool(without)])
