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
from ragscore.frames.render import shown_number
from ragscore.scoring.metrics import TABLE, MetricTable


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
    say(as_json(records_of(table)) if args.json else readable(table, args.by or [], ev._declared))


def readable(table: pd.DataFrame, by: Sequence[str], declared: MetricTable = TABLE) -> str:
    """Return the summary as text, times apart; metrics without any value are named below it."""
    measured = table[table["n"] > 0]
    kinds = measured["metric"].map(lambda name: declared.describe(name).kind)
    is_time = kinds.eq("time").to_numpy(dtype=bool)
    shown = measured[~is_time]
    texts = {name: [f"{value:.3f}" for value in shown[name]] for name in ("mean", "low", "high")}
    columns = shown[["run_id", *by, "metric"]].assign(
        **texts, n=shown["n"], n_expected=shown["n_expected"]
    )
    # metrics with n = 0, with runs and slices unless it is so in every row
    without = []
    for metric, rows in table.groupby("metric", sort=False):
        empty = rows.loc[rows["n"] == 0, ["run_id", *by]].astype("str")
        places = [" / ".join(names) for names in empty.itertuples(index=False)]
        few = ", ".join(places) if len(places) <= 3 else f"{len(places)} of {len(rows)} rows"
        if places:
            without.append(str(metric) if len(places) == len(rows) else f"{metric} ({few})")
    parts = [columns.to_string(index=False)] if len(shown) else []
    parts += _percentiles(measured[is_time], by)
    return "\n\n".join(parts + [f"not measured: {', '.join(without)}"] * bool(without))


def _percentiles(rows: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Return a table of medians, 95th percentiles and means of times."""
    if not len(rows):
        return []
    texts: dict[str, list[str]] = {}
    for name in ("p50", "p95"):
        texts[name] = [f"{value:.0f}" for value in rows[name]]
        texts[f"{name}: 95 % interval"] = [
            f"[{shown_number(low, 0)}, {shown_number(high, 0)}]"
            for low, high in zip(rows[f"{name}_low"], rows[f"{name}_high"], strict=True)
        ]
    texts["mean"] = [f"{mean:.0f}" for mean in rows["mean"]]
    counts = rows[["n", "n_expected"]]
    return [rows[["run_id", *by, "metric"]].assign(**texts).join(counts).to_string(index=False)]
