"""`ragscore score`, and `ragscore runs` and `ragscore trend` of a store."""

import argparse
from collections.abc import Sequence

import pandas as pd

from ragscore.analysis.trend.trend import trend
from ragscore.cli.options import (
    GOLDEN_ARGUMENT,
    GOLDEN_READING,
    JSON,
    RUN_LIST,
    RUNS,
    SCORING,
    Group,
    as_json,
    command,
    evaluation,
    load,
    metric_option,
    open_store,
    option,
    profile_option,
    reading,
    refuse_beside_profile,
    say,
    several,
)
from ragscore.frames.data import DataError, records_of
from ragscore.frames.render import shown_quantile
from ragscore.io.load import load_golden
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations, headline_of
from ragscore.scoring.profile_aggregates import aggregate
from ragscore.scoring.value_states import metric_columns


@command(
    "score [GOLDEN] RUN...",
    "Score runs against a golden file: means with 95 % intervals.",
    "score golden.yaml runs/dense runs/hybrid --metric mrr@10 --by difficulty",
    *GOLDEN_ARGUMENT,
    metric_option("print", "the usual ones; with --json all"),
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
    metrics = args.metric if args.metric or args.json else headline_of(metric_columns(ev.scores))
    table = ev.summary(metrics, by)
    say(as_json(records_of(table)) if args.json else readable(table, args.by or [], ev.declared))


def readable(
    table: pd.DataFrame, by: Sequence[str], declared: Declarations = NOTHING_DECLARED
) -> str:
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
            shown_quantile(low, high)
            for low, high in zip(rows[f"{name}_low"], rows[f"{name}_high"], strict=True)
        ]
    texts["mean"] = [f"{mean:.0f}" for mean in rows["mean"]]
    counts = rows[["n", "n_expected"]]
    return [rows[["run_id", *by, "metric"]].assign(**texts).join(counts).to_string(index=False)]


@command(
    "runs DIR",
    "List the runs of a store.",
    "runs history",
    option("store", "folder of stored runs", "DIR"),
    JSON,
)
def runs_command(args: argparse.Namespace) -> None:
    """Print the table of runs."""
    runs = open_store(args.store).runs()
    if not len(runs):
        raise DataError(
            "not a store: no folder in it holds a run.json",
            file=args.store,
            allowed="the folder of a rs.RunStore",
        )
    say(
        as_json(records_of(runs))
        if args.json
        else runs.drop(columns="config", errors="ignore").to_string(index=False)
    )


@command(
    "trend DIR --metric LABEL",
    "Follow one metric over the runs of a store, broken where its provenance changed.",
    "trend history --metric mrr@10",
    option("store", "folder of stored runs", "DIR"),
    option("--metric", "the metric, such as mrr@10", "LABEL", required=True),
    option("--by", "slice by a column or tag of the golden file (default: no slices)", "COLUMN"),
    option(
        "--order",
        "column of the runs to order by (default: created_at)",
        "COLUMN",
    ),
    option(
        "--baseline",
        "the run around which the noise band lies (default: the last group of repeats)",
        "RUN",
    ),
    JSON,
    Group(
        "golden files",
        [
            several(
                "--golden",
                "golden file, to bridge a relabelling and to slice (several times; default: none)",
                "FILE",
                default=[],
            ),
            *GOLDEN_READING,
        ],
    ),
    of=(trend,),
)
def trend_command(args: argparse.Namespace) -> None:
    """Print the trend."""
    store = open_store(args.store)
    goldens = [load_golden(file, **reading(args, "golden_")) for file in args.golden]
    found = trend(
        store, args.metric, args.by, golden=goldens, order=args.order, baseline=args.baseline
    )
    say(as_json(records_of(found.table)) if args.json else repr(found))
