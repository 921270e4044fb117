"""`ragscore runs` and `ragscore trend`: what a store holds."""

import argparse

from ragscore.analysis.trend.trend import trend, trend_text
from ragscore.cli.inputs import open_store
from ragscore.cli.options import Commands, add_json, as_json
from ragscore.frames.data import DataError, records_of
from ragscore.io import load_golden


def add_runs(commands: Commands) -> None:
    """`ragscore runs DIR`."""
    parser = commands.add_parser("runs", help="list the runs of a store")
    parser.add_argument("store", metavar="DIR")
    add_json(parser)
    parser.set_defaults(run=_runs)


def add_trend(commands: Commands) -> None:
    """`ragscore trend DIR --metric LABEL`."""
    parser = commands.add_parser(
        "trend", help="one metric over the runs of a store, broken where what measures changed"
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
