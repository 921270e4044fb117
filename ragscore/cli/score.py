"""`ragscore score`, and `ragscore runs` and `ragscore trend` of a store."""

import argparse

import pandas as pd

from ragscore.analysis.trend.trend import trend, trend_text
from ragscore.cli.options import (
    SCORED_BY,
    Commands,
    add_inputs,
    add_json,
    add_policies,
    add_profile,
    as_json,
    load,
    open_store,
    policies,
    refuse_without_effect,
)
from ragscore.frames.data import DataError, records_of
from ragscore.frames.render import shown_quantile
from ragscore.io.load import load_golden
from ragscore.scoring.metrics import HEADLINE, parse_label
from ragscore.scoring.profile_aggregates import aggregate
from ragscore.scoring.score import score
from ragscore.scoring.summary import summarize


def add_score(commands: Commands) -> None:
    """`ragscore score GOLDEN RUN...`."""
    parser = commands.add_parser("score", help="score runs against a golden file")
    parser.add_argument("golden", help="golden file (YAML or JSON lines)")
    parser.add_argument(
        "runs", nargs="+", metavar="run", help="per_query.jsonl files, or names in --store"
    )
    parser.add_argument(
        "--metric",
        action="append",
        metavar="LABEL",
        help="a metric such as mrr@10 (may be given several times)",
    )
    parser.add_argument(
        "--by", metavar="COLUMN", help="slice by a column or tag of the golden file"
    )
    add_inputs(parser)
    add_policies(parser, SCORED_BY)
    add_profile(parser)
    add_json(parser)
    parser.set_defaults(run=_score, usage="score GOLDEN RUN...")


def _score(args: argparse.Namespace) -> None:
    refuse_without_effect(args, ["metric", "by", "match", *SCORED_BY])
    golden, results, _ = load(args, args.runs)
    if args.profile:
        print(as_json(aggregate(results, golden, args.profile)))
        return
    scores = score(
        results, golden, args.metric, match=args.match or "auto", **policies(args, SCORED_BY)
    )
    table = summarize(
        scores, golden, by=args.by, metrics=None if args.metric or args.json else HEADLINE
    )
    print(as_json(records_of(table)) if args.json else readable(table, args.by))


def readable(table: pd.DataFrame, by: str | None) -> str:
    """Return the summary as text; metrics without any value are named below it."""
    decimals = {
        name: 0 if parse_label(name).metric.kind == "time" else 3
        for name in table["metric"].unique()
    }
    shown = table[table["n"] > 0]
    texts = {
        name: [
            f"{value:.{decimals[metric]}f}"
            for value, metric in zip(shown[name], shown["metric"], strict=True)
        ]
        for name in ("mean", "low", "high")
    }
    columns = shown[["run_id", *([by] if by else []), "metric"]].assign(
        **texts, n=shown["n"], n_expected=shown["n_expected"]
    )
    without = _not_measured(table, by)
    parts = [columns.to_string(index=False)] if len(shown) else []
    return "\n\n".join(
        [*parts, *_percentiles(shown, by), *([f"not measured: {without}"] if without else [])]
    )


def _percentiles(shown: pd.DataFrame, by: str | None) -> list[str]:
    """Return a table of medians and 95th percentiles of times, with intervals."""
    rows = shown[
        shown["metric"].map(lambda name: parse_label(name).metric.kind == "time").astype(bool)
    ]
    texts: dict[str, list[str]] = {}
    for name in ("p50", "p95"):
        texts[name] = [f"{value:.0f}" for value in rows[name]]
        texts[f"{name}: 95 % interval"] = [
            shown_quantile(low, high)
            for low, high in zip(rows[f"{name}_low"], rows[f"{name}_high"], strict=True)
        ]
    return (
        [rows[["run_id", *([by] if by else []), "metric"]].assign(**texts).to_string(index=False)]
        if len(rows)
        else []
    )


def _not_measured(table: pd.DataFrame, by: str | None) -> str:
    """Return the metrics with n = 0, with runs and slices unless it is so in every row."""
    parts = []
    for metric, rows in table.groupby("metric", sort=False):
        without = rows.loc[rows["n"] == 0, ["run_id", *([by] if by else [])]].astype("str")
        places = [" / ".join(names) for names in without.itertuples(index=False)]
        few = ", ".join(places) if len(places) <= 3 else f"{len(places)} of {len(rows)} rows"
        parts += (
            [str(metric) if len(places) == len(rows) else f"{metric} ({few})"] if places else []
        )
    return ", ".join(parts)


def add_runs(commands: Commands) -> None:
    """`ragscore runs DIR`."""
    parser = commands.add_parser("runs", help="list the runs of a store")
    parser.add_argument("store", metavar="DIR")
    add_json(parser)
    parser.set_defaults(run=_runs)


def add_trend(commands: Commands) -> None:
    """`ragscore trend DIR --metric LABEL`."""
    parser = commands.add_parser(
        "trend", help="one metric over the runs of a store, broken where its provenance changed"
    )
    parser.add_argument("store", metavar="DIR")
    parser.add_argument("--metric", required=True, metavar="LABEL", help="a metric such as mrr@10")
    parser.add_argument(
        "--golden",
        action="append",
        default=[],
        help="golden file, to bridge a relabelling and to slice (several times)",
    )
    parser.add_argument(
        "--by", metavar="COLUMN", help="slice by a column or tag of the golden file"
    )
    parser.add_argument(
        "--order",
        default="created_at",
        metavar="COLUMN",
        help="column of the runs to order by (default: created_at)",
    )
    parser.add_argument(
        "--baseline",
        metavar="RUN",
        help="the run around which the noise band lies (default: the last group of repeats)",
    )
    add_json(parser)
    parser.set_defaults(run=_trend)


def _runs(args: argparse.Namespace) -> None:
    runs = open_store(args.store).runs()
    if not len(runs):
        raise DataError(
            "not a store: no folder in it holds a run.json",
            file=args.store,
            allowed="the folder of a rs.RunStore",
        )
    print(
        as_json(records_of(runs))
        if args.json
        else runs.drop(columns="config", errors="ignore").to_string(index=False)
    )


def _trend(args: argparse.Namespace) -> None:
    store = open_store(args.store)
    goldens = [load_golden(file) for file in args.golden]
    table = trend(
        store, args.metric, golden=goldens, by=args.by, order=args.order, baseline=args.baseline
    )
    print(as_json(records_of(table)) if args.json else trend_text(table))
