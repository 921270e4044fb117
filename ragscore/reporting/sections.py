"""The sections of a report: sentences, tables of text and figures, from its frames."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ragscore import plot
from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.comparison.text import (
    shown_decision,
    shown_flips,
    shown_largest_changes,
)
from ragscore.frames.errors import name_list
from ragscore.frames.render import decimals_for, shown_interval, shown_n
from ragscore.plot.style import in_order
from ragscore.reporting.figures import Figure
from ragscore.reporting.frames import ReportFrames
from ragscore.reporting.page import Section, by_verdict, exploratory
from ragscore.reporting.run_sections import (
    curve_sections,
    decision_sections,
    fault_sections,
    gate_sections,
    leaderboard_sections,
    left_out_sections,
    outcome_first,
    reported_sections,
    run_by_run,
    trend_sections,
)
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.metrics import HEADLINE, describe
from ragscore.stats import WORDS

ELSEWHERE = (
    "Pictures of outcomes and ranks are left out here: cmp.plot.outcomes(), cmp.plot.ranks()."
)
LISTED = 10  # changed queries in a table of the page: the explorer has all


def sections(report: ReportFrames) -> list[Section]:
    """Return all sections of a report, the answer first.

    Changes come first, then how good each run is, for which slices, and what each run was.
    """
    found = [_in_short(report)] if len(report.comparisons) > 1 else []
    found += run_by_run(report)
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
    return [*found, *_described(report), *left_out_sections(report)]


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
    about = [f"{cmp.candidate} against {cmp.baseline}: hits side by side, answers and judgments."]
    if others:
        about.append(f"Not inside: {name_list(others)}; ev.explore() shows all runs.")
    return [" ".join(about)]


def _in_short(report: ReportFrames) -> Section:
    """One row per comparison: the overall word, the gate, and aspects by verdict."""
    rows = []
    for cmp in report.comparisons:
        rows.append(
            {
                "candidate": cmp.candidate,
                "against": cmp.baseline,
                "overall": cmp.overall,
                **by_verdict(cmp),
                "exploratory": exploratory(cmp),
                "regressions": str(cmp.counts.get("regression", 0)),
            }
        )
    table = pd.DataFrame(rows)
    if report.gates:
        table.insert(2, "gate", [gate.answer for gate in report.gates])
    empty = [name for name in (*WORDS, "exploratory") if not table[name].str.len().any()]
    note = (
        "Overall: by the primary metrics, aspect by aspect. Exploratory: what other metrics say, a"
        " reason to look. Regressions: queries that the candidate lost."
    )
    corrected = (
        " Each comparison is tested by itself; the leaderboard corrects for all candidates."
        if report.leaderboard and report.leaderboard.baseline
        else ""
    )
    return Section(
        "In short",
        table=table.drop(columns=empty),
        notes=(note + corrected,),
        verdicts=("overall",),
    )


def _compared(
    cmp: Comparison, gate: list[Section], is_newest: bool, is_explored: bool
) -> list[Section]:
    shown, note = cmp.shown()
    short = [] if cmp.profile else [f"{line}." for line in shown_decision(cmp.overall, cmp.aspects)]
    title = f"{cmp.candidate} against {cmp.baseline}"
    first = Section(
        title,
        2,
        (*short, cmp.headline()),
        _change_figures(cmp, is_newest),
        shown,
        (*note.splitlines(), *([] if is_newest else [ELSEWHERE])),
    )
    return [first, *gate, *_differs(cmp), *_moved(cmp), _changed(cmp, is_explored)]


def _change_figures(cmp: Comparison, is_newest: bool) -> tuple[Figure, ...]:
    title = f"{cmp.candidate} against {cmp.baseline}"
    found: list[Figure] = []
    if cmp.profile is None and any(
        n and describe(name).range == "0 to 1"
        for name, n in zip(cmp.deltas["metric"], cmp.deltas["n"], strict=True)
    ):
        found.append(
            (
                f"Differences of {title} with their intervals; the numbers are in the table below",
                partial(plot.forest, cmp.deltas, None, cmp.baseline, cmp.candidate),
            )
        )
    if found and not is_newest:
        return tuple(found)
    found.append(
        (
            f"Outcomes of {title}: {', '.join(f'{n} {name}' for name, n in cmp.counts.items())}",
            partial(plot.outcomes, cmp.counts, cmp.baseline, cmp.candidate),
        )
    )
    if cmp.profile is None and cmp.per_query["outcome"].isin(["win", "loss", "regression"]).any():
        found.append(
            (
                f"Rank of the first hit of every query in {cmp.baseline} and {cmp.candidate}",
                partial(plot.ranks, cmp),
            )
        )
    return tuple(found)


def _differs(cmp: Comparison) -> list[Section]:
    """List differences of the two runs: config keys, and invariants that should be equal."""
    config = cmp.config_diff.rename(columns={"key": "what"}).assign(state="config")
    other = cmp.invariants[cmp.invariants["state"] == "differs"].rename(columns={"name": "what"})
    table = pd.concat([config, other], ignore_index=True)
    unknown = cmp.invariants.loc[cmp.invariants["state"] == "unknown", "name"].tolist()
    notes = (f"Not known of both runs: {', '.join(unknown)}.",) if unknown else ()
    if not len(table):
        return [
            Section("What differs between the runs", 3, ("Nothing that is recorded.",), notes=notes)
        ]
    return [
        Section(
            "What differs between the runs",
            3,
            table=table.assign(**table[["baseline", "candidate"]].fillna("—")),
            notes=notes,
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
        flipped = shown_flips(cmp.flips, cmp.flip_counts)
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
    return [
        Section(
            "Results", figures=tuple(_result_figures(measured)), table=_means(measured), notes=notes
        )
    ]


def _result_figures(measured: pd.DataFrame) -> list[Figure]:
    names = set(measured["metric"])
    headline = [
        name for name in ("hit@1", "hit@5", "recall@5", "mrr@10", "ndcg@10") if name in names
    ]
    found: list[Figure] = (
        [
            (
                "Means of the ranking metrics by run, with intervals",
                partial(plot.summary, measured, headline),
            )
        ]
        if headline
        else []
    )
    found += [
        (f"{name} over k by run, with intervals", partial(plot.metric_at_k, measured, name))
        for name in ("hit", "recall")
        if _ks(names, name) > 1
    ]
    quality = next((name for name in ("hit@5", "mrr@10", "passed") if name in names), None)
    for against in ("latency_ms", "cost_usd"):
        if quality and _in_one_run(measured, quality, against):
            found.append(
                (
                    f"{quality} against {against}",
                    partial(plot.tradeoff, measured, quality, against=against),
                )
            )
    return found


def _ks(names: set[str], metric: str) -> int:
    return sum(name.startswith(f"{metric}@") and ":" not in name for name in names)


def _in_one_run(measured: pd.DataFrame, *names: str) -> bool:
    return bool(
        measured[measured["metric"].isin(names)]
        .groupby("run_id")["metric"]
        .nunique()
        .eq(len(names))
        .any()
    )


def _means(rows: pd.DataFrame, index: tuple[str, ...] = ("metric",)) -> pd.DataFrame:
    """One row per metric, one column per run: mean, interval and n as text.

    Times and costs have their median and 95th percentile instead.
    """
    texts = [
        f"{_time(row) if describe(row['metric']).kind in BY_QUANTILES else _mean(row)}"
        f", n = {shown_n(row['n'], row['n_expected'])}"
        for row in rows.to_dict("records")
    ]
    order = rows[list(index)].drop_duplicates()
    wide = (
        rows.assign(text=texts)
        .pivot(index=list(index), columns="run_id", values="text")
        .reindex(columns=rows["run_id"].unique())
    )
    return order.merge(wide.reset_index(), on=list(index), how="left").fillna("—")


def _mean(row: dict[Any, Any]) -> str:
    low, high = row["low"], row["high"]
    return shown_interval(row["mean"], low, high, max(decimals_for((high - low) / 4), 2))


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
        names = [
            name for name in ("hit@5", "mrr@10", "passed") if name in set(rows["metric"])
        ] or rows["metric"].unique()[:1].tolist()
        order = in_order(rows["slice"].astype("str"))
        shown = rows[rows["metric"].isin(names)]
        shown = shown.iloc[shown["slice"].astype("str").map(order.index).argsort(kind="stable")]
        renamed = rows.drop(columns="by")[
            ["run_id", "slice", *[name for name in rows if name not in ("run_id", "slice", "by")]]
        ].rename(columns={"slice": str(by)})
        figure = (
            f"{names[0]} by {by} and run; the numbers are in the table below",
            partial(plot.heatmap, renamed, names[0]),
        )
        found.append(
            Section(
                f"By {by}",
                figures=(figure,),
                table=_means(shown.sort_values("metric", kind="stable"), ("metric", "slice")),
            )
        )
    return found


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
