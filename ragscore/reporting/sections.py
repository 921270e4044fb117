"""The sections of a report: sentences, tables of text and figures, from its frames."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ragscore import plot
from ragscore.analysis.comparison.gate import Gate
from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.comparison.text import (
    lost_values,
    shown_flips,
    shown_largest_changes,
)
from ragscore.analysis.failure_causes import CLASSES
from ragscore.analysis.refusals import APART
from ragscore.analysis.risk_coverage import RiskCoverage
from ragscore.analysis.trend.trend import LED_BY, break_texts
from ragscore.frames.errors import name_list
from ragscore.frames.render import (
    decimals_for,
    shown_interval,
    shown_intervals,
    shown_n,
    shown_number,
)
from ragscore.plot.grids import FEW
from ragscore.plot.style import in_order
from ragscore.reporting.figures import Figure
from ragscore.reporting.frames import ReportFrames
from ragscore.reporting.page import Section, by_verdict, each
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.metrics import HEADLINE, table_kind

ELSEWHERE = "More pictures: cmp.plot(), cmp.plot.outcomes(), cmp.plot.ranks()."
LISTED = 10  # changed queries in a table of the page: the explorer has all


def sections(report: ReportFrames) -> list[Section]:
    """Return all sections of a report, the answer first.

    Changes come first, then how good each run is, for which slices, and what each run was.
    """
    found = run_by_run(report)
    for place, cmp in enumerate(report.comparisons):
        gate = gate_sections(report.gates[place]) if report.gates else []
        found += _compared(cmp, gate, place == 0, bool(report.explorer) and place == 0)
    found += [
        *leaderboard_sections(report),
        *_results(report),
        *reported_sections(report),
        *_slices(report),
        *trend_sections(report),
    ]
    found += [*decision_sections(report), *curve_sections(report), *fault_sections(report)]
    left_out = [Section("Left out", table=report.left_out)] if len(report.left_out) else []
    return [*found, *_described(report), *left_out]


def run_ids(report: ReportFrames) -> list[str]:
    """Return all runs of a report, the baseline before its candidate."""
    compared = [run for cmp in report.comparisons[::-1] for run in (cmp.baseline, cmp.candidate)]
    own = report.runs["run_id"].tolist() if len(report.runs) else []
    return list(dict.fromkeys([*own, *compared]))


def explored(report: ReportFrames) -> list[str]:
    """Return what the explorer of the page shows, and which runs it leaves to `ev.explore()`."""
    if not report.comparisons:
        return []
    cmp = report.comparisons[0]
    others = [run for run in run_ids(report) if run not in (cmp.baseline, cmp.candidate)]
    about = f"{cmp.candidate} against {cmp.baseline}: hits side by side, answers and judgments."
    more = f" Not inside: {name_list(others)}; ev.explore() shows all runs."
    return [about + more * bool(others)]


def _compared(
    cmp: Comparison, gate: list[Section], is_newest: bool, is_explored: bool
) -> list[Section]:
    shown, note = cmp.shown()
    short = [f"{line}." for line in cmp._words()]
    title = f"{cmp.candidate} against {cmp.baseline}"
    first = Section(
        title,
        2,
        (*short, cmp._headline()),
        _moved_ranks(cmp) if is_newest else (),
        shown,
        (*note.splitlines(), *lost_values(cmp.deltas), ELSEWHERE),
    )
    return [first, *gate, *_differs(cmp), *_moved(cmp), _changed(cmp, is_explored)]


def _moved_ranks(cmp: Comparison) -> tuple[Figure, ...]:
    """Return the picture of the ranks; that of the differences stands in their table as bars."""
    has_moved = cmp.per_query["outcome"].isin(["win", "loss", "regression"]).any()
    if cmp.profile is not None or not has_moved:
        return ()
    alt = f"Rank of the first hit of every query in {cmp.baseline} and {cmp.candidate}"
    return ((alt, partial(plot.ranks, cmp)),)


def _differs(cmp: Comparison) -> list[Section]:
    """List differences of the two runs: config keys, and invariants that should be equal."""
    config = cmp.config_diff.rename(columns={"key": "what"}).assign(state="config")
    other = cmp.invariants[cmp.invariants["state"] == "differs"].rename(columns={"name": "what"})
    table = pd.concat([config, other], ignore_index=True)
    unknown = cmp.invariants.loc[cmp.invariants["state"] == "unknown", "name"].tolist()
    return [
        Section(
            "What differs between the runs",
            3,
            () if len(table) else ("Nothing that is recorded.",),
            table=table.assign(**table[["baseline", "candidate"]].fillna("—"))
            if len(table)
            else None,
            notes=(f"Not known of both runs: {', '.join(unknown)}.",) if unknown else (),
        )
    ]


def _moved(cmp: Comparison) -> list[Section]:
    """Return the largest changes of every metric, and the answers that flipped."""
    if cmp.profile is not None:
        return []
    found = (
        [
            Section(
                "Largest changes", 3, table=shown_largest_changes(cmp.deltas, cmp.largest_changes)
            )
        ]
        if len(cmp.largest_changes)
        else []
    )
    if len(cmp.flips):
        flipped = shown_flips(cmp.flips)
        found.append(Section("Answers that flipped", 3, table=flipped))
    return found


def _changed(cmp: Comparison, is_explored: bool) -> Section:
    changed = cmp.changed()
    title = f"Queries that changed ({len(changed)})"
    if not len(changed):
        return Section(title, 3, ("None.",))
    way = (
        "see “Query by query”"
        if is_explored
        else f"ev.compare({cmp.baseline!r}, {cmp.candidate!r}).explore()"
    )
    return Section(title, 3, table=outcome_first(changed), limit=LISTED, way=way)


def _results(report: ReportFrames) -> list[Section]:
    """Return the means of every run, with figures."""
    summary = report.summary
    if not len(summary):
        return []
    measured = summary[summary["n"] > 0]
    without = [name for name in summary["metric"].unique() if name not in set(measured["metric"])]
    order = {name: place for place, name in enumerate(HEADLINE)}
    measured = measured.sort_values(
        "metric", key=lambda column: column.map(order).fillna(len(order)), kind="stable"
    )
    notes = (
        (
            "Mean [95 % interval], n / expected values; of times (ms) and costs the median p50 and"
            " the 95th percentile p95, which a few slow queries don't carry. Not measured:"
            f" {', '.join(without) or 'none'}."
        ),
    )
    names = set(measured["metric"])
    found: list[Figure] = []
    if sum(label.startswith("recall@") and ":" not in label for label in names) > 1:
        draw = partial(plot.metric_at_k, measured, "recall")
        found.append(("recall over k by run, with intervals", draw))
    quality = next((name for name in RESULTS if name in names), None)
    for against in ("latency_ms", "cost_usd"):
        both = measured[measured["metric"].isin([quality, against])]
        if quality and both.groupby("run_id")["metric"].nunique().eq(2).any():
            found.append(
                (
                    f"{quality} against {against}",
                    partial(plot.tradeoff, measured, quality, against=against),
                )
            )
    return [Section("Results", figures=tuple(found), table=_means(measured), notes=notes)]


def _means(rows: pd.DataFrame, index: tuple[str, ...] = ("metric",)) -> pd.DataFrame:
    """One row per metric, one column per run: mean, interval and n as text.

    Times and costs have their median and 95th percentile instead.
    """
    means = shown_intervals(rows[["mean", "low", "high"]])
    texts = [
        f"{_time(row) if table_kind(row['metric']) in BY_QUANTILES else mean}"
        f", n = {shown_n(row['n'], row['n_expected'])}"
        for row, mean in zip(rows.to_dict("records"), means, strict=True)
    ]
    order = rows[list(index)].drop_duplicates()
    wide = (
        rows.assign(text=texts)
        .pivot(index=list(index), columns="run_id", values="text")
        .reindex(columns=rows["run_id"].unique())
    )
    return order.merge(wide.reset_index(), on=list(index), how="left").fillna("—")


def _time(row: dict[Any, Any]) -> str:
    low, high = row["p50_low"], row["p50_high"]
    places = max(decimals_for((high - low) / 4), 1)
    p95 = shown_interval(row["p95"], row["p95_low"], row["p95_high"], places)
    return f"p50 {shown_interval(row['p50'], low, high, places)}, p95 {p95}"


def _slices(report: ReportFrames) -> list[Section]:
    found = []
    for by, rows in (
        report.slices[report.slices["n"] > 0].groupby("by", sort=False)
        if len(report.slices)
        else ()
    ):
        names = rows["metric"].unique().tolist()
        order = in_order(rows["slice"].astype("str"))
        shown = rows.iloc[rows["slice"].astype("str").map(order.index).argsort(kind="stable")]
        of_first = shown[shown["metric"].eq(names[0]).to_numpy()]
        found += [
            _map_of_means(of_first, str(by), names[0]),
            Section(
                f"{name_list(names)} by {by}",
                3,
                table=_means(shown.sort_values("metric", kind="stable"), ("metric", "slice")),
            ),
        ]
    return found


def _map_of_means(rows: pd.DataFrame, by: str, metric: str) -> Section:
    """Return the means of a metric by slice and run.

    Of runs and slices, the more numerous stand below each other.
    """
    n = rows.groupby(rows["slice"].astype("str"), sort=False)["n"].max()
    labels = {name: f"{name}{'*' * (of < FEW)} ({of})" for name, of in n.items()}
    named = rows.assign(slice=rows["slice"].astype("str").map(labels))
    wide = named.pivot(index="slice", columns="run_id", values="mean").reindex(
        index=list(labels.values()), columns=named["run_id"].unique()
    )
    wide = wide.T if wide.shape[1] > len(wide) else wide
    few = f" *: fewer than {FEW} queries." * bool(n.lt(FEW).any())
    return Section(
        f"By {by}",
        table=wide.map(shown_number, decimals=2)
        .rename_axis(index=f"mean {metric}", columns=None)
        .reset_index(),
        notes=(f"In brackets: queries.{few}",),
    )


def _described(report: ReportFrames) -> list[Section]:
    """Return descriptions and configs of the runs, differing keys first."""
    if not len(report.runs):
        return []
    turned = report.runs.set_index("run_id").T.rename_axis("what").map(_shown_value).reset_index()
    found = [Section("The runs", table=turned)]
    if len(report.config):
        run_ids = report.runs["run_id"].tolist()
        wide = report.config.pivot(index="key", columns="run_id", values="value").reindex(
            index=report.config["key"].unique(), columns=run_ids
        )
        differs = report.config.groupby("key")["differs"].first()[wide.index]
        wide = wide.fillna("—").assign(differs=np.where(differs, "differs", "same")).reset_index()
        found.append(
            Section(
                "Configuration",
                3,
                table=wide.sort_values("differs", kind="stable", ignore_index=True),
            )
        )
    return found


def _shown_value(value: Any) -> str:
    return (
        "—"
        if pd.isna(value)
        else f"{value:%Y-%m-%d %H:%M} UTC"
        if isinstance(value, pd.Timestamp)
        else str(value)
    )


# Several runs, trends, refusals and failure causes

# what a run is told by in one line, and what is followed over time, as far as it was measured
RESULTS = ("hit@5", "mrr@10", "passed")
# classes that are shown if some query is in them
RARE = (*APART, "refused", "unmeasured", "unchecked answer")
KEYS = 4  # config keys named in one cell


def run_by_run(report: ReportFrames) -> list[Section]:
    """One row per run: description, config changes, results, difference to its baseline."""
    if not len(report.runs):
        return []
    run_ids = report.runs["run_id"].tolist()
    of = {cmp.candidate: cmp for cmp in report.comparisons}
    gates = dict(zip(of, report.gates, strict=False))
    summary = report.summary[report.summary["metric"].isin(RESULTS) & (report.summary["n"] > 0)]
    rows = []
    for run_id, note in zip(
        run_ids,
        report.runs["note"] if "note" in report.runs else [None] * len(run_ids),
        strict=True,
    ):
        against, difference = None, "—"
        if run_id in of:  # its verdict, and the aspects behind it
            told = [
                f"{verdict}: {names}"
                for verdict, names in by_verdict(of[run_id]).items()
                if names and verdict != "can't tell"
            ]
            against = of[run_id].baseline
            difference = of[run_id].overall + (f" ({'; '.join(told)})" if told else "")
        own = summary[(summary["run_id"] == run_id).to_numpy()]
        rows.append({
            "run": run_id, "description": note if isinstance(note, str) else "—",
            "config": _config_change(report.config, against, run_id),
            "results": "; ".join(
                f"{name} {shown_number(mean, 2)} ({shown_n(n, of_n)})"
                for name, mean, n, of_n in each(own, "metric", "mean", "n", "n_expected")
            ) or "—",
            "against": against or "—", "difference": difference,
            **({"gate": gates[run_id].answer if run_id in gates else "—"} if gates else {}),
        })  # fmt: skip
    note = (
        "Config: the keys that differ from the run it is compared with. Results: means of n /"
        " expected values. Difference: of what could be told apart."
    )
    return [Section("Run by run", table=pd.DataFrame(rows), notes=(note,))]


def _config_change(config: pd.DataFrame, against: str | None, run_id: str) -> str:
    if against is None or not len(config):
        return "—"
    a, b = (
        config[config["run_id"] == name].set_index("key")["value"] for name in (against, run_id)
    )
    both = pd.DataFrame({"before": a, "after": b}).reindex(config["key"].unique()).fillna("—")
    changed = [
        f"{key}: {before} → {after}" for key, before, after in both.itertuples() if before != after
    ]
    return (
        "; ".join(changed[:KEYS] + ([f"{len(changed) - KEYS} more"] if len(changed) > KEYS else []))
        or "same"
    )


def gate_sections(gate: Gate) -> list[Section]:
    """Return the section of a gate: its answer, the reason, and the largest losses."""
    notes = (f"By {gate.rule}.", *gate.notes())
    largest = Section("Largest regressions", 3, table=outcome_first(gate.regressions))
    found = Section(gate.headline(), 3, table=gate.shown(), notes=notes)
    return [found, largest] if len(gate.regressions) else [found]


def outcome_first(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of queries with the outcome before long texts, as a phone shows it."""
    first = [name for name in ("query_id", "outcome") if name in table]
    return table[[*first, *(name for name in table if name not in first)]]


def leaderboard_sections(report: ReportFrames) -> list[Section]:
    """Return the leaderboard, and each run against the baseline."""
    board = report.leaderboard
    if board is None:
        return []
    against = (
        [Section(f"Against {board.baseline}", 3, table=_turned(board.against_baseline()))]
        if board.baseline
        else []
    )
    table = _turned(board.shown().frame)
    return [
        Section(
            "Leaderboard",
            table=table,
            notes=tuple(board.notes()),
        ),
        *against,
    ]


def reported_sections(report: ReportFrames) -> list[Section]:
    """Return what runs without rows report: one row per metric, one column per run."""
    rows = report.reported
    if not len(rows):
        return []
    is_timed = rows["metric"].map(lambda name: table_kind(name) in BY_QUANTILES)
    values = rows["p50"].where(is_timed, rows["mean"]).map(shown_number)
    named = rows["metric"].where(~is_timed, rows["metric"] + " (p50)")
    runs = rows["run_id"].unique().tolist()
    wide = rows.assign(value=values, metric=named).pivot(
        index="metric", columns="run_id", values="value"
    )
    table = wide.reindex(index=named.unique(), columns=runs).fillna("—")
    return [
        Section(
            "Reported, not scored here",
            sentences=("These runs have no rows: their aggregates are all that is known of them.",),
            table=table.rename_axis(columns=None).reset_index(),
            notes=("Means over the queries that the other tool counted; of times the median.",),
        )
    ]


def _turned(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per metric and one column per run: pages are longer than wide."""
    return table.set_index("run").T.rename_axis(index="metric", columns=None).reset_index()


def trend_sections(report: ReportFrames) -> list[Section]:
    """Return a figure per metric, and one row per run and metric."""
    if not len(report.trends):
        return []
    found = [
        Section(
            "Trend",
            sentences=(
                "Each metric over the runs in order of time, broken where what measures changed.",
            ),
        )
    ]
    for metric, rows in report.trends.groupby("metric", sort=False):
        figure: Figure = (
            f"{metric} over {len(rows)} runs, with intervals; the numbers are in the table below",
            partial(plot.trend, rows.reset_index(drop=True)),
        )
        is_timed = table_kind(str(rows["metric"].iloc[0])) in BY_QUANTILES
        outside = rows["in_band"].eq(False).fillna(False).to_numpy(dtype=bool)
        marks = np.select(
            [
                rows["first_out_of_control"].to_numpy(dtype=bool),
                rows["is_baseline"].to_numpy(dtype=bool),
                outside,
            ],
            ["left the band", "baseline", "outside"],
            "",
        )
        found.append(
            Section(
                str(metric),
                3,
                figures=(figure,),
                table=pd.DataFrame(
                    {
                        "run": rows["run_id"],
                        "system": rows["system"].fillna("—"),
                        "made": [
                            f"{day:%Y-%m-%d %H:%M}" if pd.notna(day) else "—"
                            for day in rows["created_at"]
                        ],
                        LED_BY[is_timed][0]: shown_intervals(rows[list(LED_BY[is_timed])]),
                        "n / expected": [
                            "not told" if pd.isna(of[0]) else shown_n(*of)
                            for of in each(rows, "n", "n_expected")
                        ],
                        "segment": rows["segment"].astype("str"),
                        "noise band": np.where(
                            rows["is_reported"].astype("bool"), "reported", marks
                        ),
                    }
                ),
                notes=tuple(f"{text}." for text in break_texts(rows)),
            )
        )
    return found


def decision_sections(report: ReportFrames) -> list[Section]:
    """Return the 2 × 2 of answerable × refused, and quality beside coverage."""
    rows = report.decisions
    if not len(rows):
        return []
    note = (
        f"Right is an answer with {rows['right_by'].iloc[0]}."
        if rows["right_by"].iloc[0]
        else "Nothing says which answers are right."
    )
    found = [
        Section("Refusing as a decision", table=_shares(rows, "decision"), notes=(note,)),
    ]
    quality = (
        report.quality[report.quality["n_answered"] > 0] if len(report.quality) else report.quality
    )
    if not len(quality):
        return found
    table = pd.DataFrame({
        "run": quality["run_id"], "metric": quality["metric"],
        "coverage": shown_intervals(quality[["coverage", "coverage_low", "coverage_high"]]),
        "of answers": shown_intervals(quality[["answered", "answered_low", "answered_high"]]),
        "overall, refused as 0": shown_intervals(
            quality[["overall", "overall_low", "overall_high"]]
        ),
        "n answered": quality["n_answered"].astype("str"),
        "n refused": quality["n_refused"].astype("str"),
        "n without a value": (quality["n_unmeasured"] + quality["n_failed"]).astype("str"),
    })  # fmt: skip
    return [
        *found,
        Section(
            "Quality beside coverage",
            3,
            table=table,
            notes=(
                ("Of answerable queries: a system that answers only easy ones has good answers."),
            ),
        ),
    ]


def fault_sections(report: ReportFrames) -> list[Section]:
    """Return failure causes, and how queries moved between them from run to run."""
    rows = report.faults
    if not len(rows):
        return []
    note = (
        f"Hit: {rows['hit_by'].iloc[0]}; right: {rows['right_by'].iloc[0]}. Memory: right without a"
        " hit."
    )
    found = [
        Section("Failure causes of wrong answers", table=_shares(rows, "cause"), notes=(note,))
    ]
    for (baseline, candidate), part in (
        report.transitions.groupby(["run_baseline", "run_candidate"], sort=False)
        if len(report.transitions)
        else ()
    ):
        wide = part.pivot(index="baseline", columns="candidate", values="n")
        seen = [name for name in CLASSES if name in wide.index or name in wide.columns]
        wide = wide.reindex(index=seen, columns=seen, fill_value=0).fillna(0).astype("int64")
        title = f"How failure causes changed: {baseline} to {candidate}"
        found.append(
            Section(
                title,
                3,
                table=wide.rename_axis(columns=None)
                .reset_index()
                .rename(columns={"baseline": f"{baseline} (down), {candidate} (across)"}),
            )
        )
    return found


def curve_sections(report: ReportFrames) -> list[Section]:
    """Return risk against coverage for a threshold on the top score."""
    rows = report.curve
    if not len(rows):
        return []
    areas = RiskCoverage(rows, "").areas.drop(columns="risk")
    loosest = rows.drop_duplicates(["run_id", "score_kind"]).merge(
        areas, on=["run_id", "score_kind"]
    )
    table = pd.DataFrame({
        "run": loosest["run_id"], "score": loosest["score_kind"],
        "coverage": [shown_number(value, 2) for value in loosest["coverage"]],
        "risk": shown_intervals(loosest[["risk", "risk_low", "risk_high"]]),
        "mean risk by score (AURC)": [shown_number(value) for value in loosest["aurc"]],
        "best possible": [shown_number(value) for value in loosest["aurc_best"]],
        "n / decided": [shown_n(n, n + left) for n, left in each(loosest, "n", "n_left_out")],
    })  # fmt: skip
    figure: Figure = (
        "Risk against coverage of every run as a threshold on the top score refuses more and more",
        partial(plot.risk_coverage, rows),
    )
    note = (
        f"Coverage and risk without a threshold. Right: {rows['right_by'].iloc[0]}. AURC near the"
        " risk: scores tell nothing; near the best possible: they tell all."
    )
    return [Section("What if a threshold refused", figures=(figure,), table=table, notes=(note,))]


def _shares(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return classes × runs as text: share, interval, n of total."""
    seen = rows.groupby(name)["n"].transform("sum") > 0
    table = rows[(rows["n_total"] > 0) & (seen | ~rows[name].isin(RARE))].assign(
        text=lambda t: [
            f"{shown_interval(share, low, high, 2)}, {n} of {of}"
            for n, of, share, low, high in each(t, "n", "n_total", "share", "low", "high")
        ]
    )
    return (
        table.pivot(index=name, columns="run_id", values="text")
        .reindex(index=table[name].unique(), columns=table["run_id"].unique())
        .fillna("—")
        .reset_index()
        .rename_axis(columns=None)
    )
