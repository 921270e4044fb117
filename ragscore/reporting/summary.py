"""The top of a report, for one screen: verdicts, primary metrics, what to read, what isn't told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ragscore.analysis.comparison.model import Comparison
from ragscore.frames.errors import name_list
from ragscore.frames.render import (
    decimals_for,
    decimals_within,
    shown_interval,
    shown_n,
    shown_number,
)
from ragscore.frames.tables import SIGNS
from ragscore.reporting.frames import ReportFrames
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.metrics import TABLE
from ragscore.stats.verdicts import UNSURE, WORDS

SENTENCES = {
    "better": "{0} is better than {1}",
    "worse": "{0} is worse than {1}",
    "mixed": "{0} against {1} is mixed",
    UNSURE: "Can't tell {0} from {1}",
}


@dataclass(frozen=True)
class Card:
    """One comparison, or a run alone: its verdict in words, sentences, and the primary metrics."""

    verdict: str
    title: str
    sentences: tuple[str, ...] = ()
    primaries: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass(frozen=True)
class Summary:
    """What to know of the newest comparison, or of a run alone, without reading on."""

    card: Card
    reading: pd.DataFrame = field(default_factory=pd.DataFrame)
    untold: tuple[str, ...] = ()


def summary_of(report: ReportFrames) -> Summary | None:
    """Return the summary of a report; None where it has neither comparisons nor values."""
    if report.comparisons:
        gate = f"Gate {report.gates[0].answer}" if report.gates else ""
        card = _compared(report.comparisons[0], gate)
        return Summary(card, report.read_first, _untold(report))
    own = report.summary[report.summary["n"] > 0] if len(report.summary) else report.summary
    if not len(own):
        return None
    run_id = str(own["run_id"].iloc[-1])
    alone = Card("", f"{run_id}: no run to compare with", primaries=_measured(report, run_id))
    return Summary(alone, report.read_first, _untold(report))


def _compared(cmp: Comparison, gate: str) -> Card:
    counts = ", ".join(f"{n} {outcome} {SIGNS[outcome]}" for outcome, n in cmp.counts.items())
    own = cmp.aspects.set_index("aspect")["verdict"]
    aspects = [
        f"{verdict[:1].upper()}{verdict[1:]}: {', '.join(own.index[own == verdict])}"
        for verdict in WORDS
        if (own == verdict).any()
    ]
    if cmp.profile:
        return Card("", f"{cmp.candidate} against {cmp.baseline}", (f"{counts}.",))
    title = SENTENCES[cmp.overall].format(cmp.candidate, cmp.baseline)
    told = ". ".join([*([gate] if gate else []), *(aspects if len(own) > 1 else [])])
    sentences = (f"{told}.",) if told else ()
    return Card(cmp.overall, title, (*sentences, f"{counts}."), _primaries(cmp))


def _primaries(cmp: Comparison) -> pd.DataFrame:
    """One row per primary metric: its verdict, difference and interval, both values, and n."""
    rows = cmp.deltas[(cmp.deltas["is_primary"] & (cmp.deltas["n"] > 0)).to_numpy(dtype=bool)]
    found = []
    for row in rows.to_dict("records"):
        timed = TABLE.describe(row["metric"]).kind in BY_QUANTILES
        low, high = row["low"], row["high"]
        places = decimals_within(low, high, 1 if timed else 2)
        values = [shown_number(row[side], places) for side in ("baseline", "candidate")]
        found.append({
            "metric": f"{row['metric']} (p50)" if timed else row["metric"],
            "verdict": row["verdict"],
            "difference [95 %]": _together(row["delta"], low, high, places, True),
            "n": _n(row["n"], row["n_expected_baseline"], row["n_expected_candidate"]),
            "before → after": " → ".join(values),
        })  # fmt: skip
    return pd.DataFrame(found)


def _together(*of: Any) -> str:
    """Return a value with its interval, which a narrow screen may break before the bracket only."""
    return shown_interval(*of).replace(", ", ",\u00a0")


def _n(n: int, *expected: int) -> str:
    """Return n alone where all values are there that were expected."""
    return str(n) if set(expected) == {n} else shown_n(n, *expected)


def _measured(report: ReportFrames, run_id: str) -> pd.DataFrame:
    """One row per metric that decides, of one run: its mean with the interval, and n."""
    rows = report.summary[(report.summary["run_id"] == run_id) & (report.summary["n"] > 0)]
    rows = rows[rows["metric"].isin(report.primary)] if report.primary else rows.head(5)
    rows = rows[[TABLE.describe(name).kind not in BY_QUANTILES for name in rows["metric"]]]
    return pd.DataFrame({
        "metric": rows["metric"],
        "mean [95 %]": [
            _together(mean, low, high, max(decimals_for((high - low) / 4), 2))
            for mean, low, high in rows[["mean", "low", "high"]].itertuples(index=False)
        ],
        "n": [_n(n, of) for n, of in rows[["n", "n_expected"]].itertuples(index=False)],
    }).reset_index(drop=True)  # fmt: skip


def _untold(report: ReportFrames) -> tuple[str, ...]:
    """Return sentences about what the newest comparison, or the whole report, can't say."""
    found = []
    if report.comparisons and not report.comparisons[0].profile:
        cmp = report.comparisons[0]
        unsure = cmp.aspects[(cmp.aspects["verdict"] == UNSURE).to_numpy()]
        found += [
            f"{aspect}: {sentence.removeprefix(f'{UNSURE}: ')}."
            for aspect, sentence in zip(unsure["aspect"], unsure["sentence"], strict=True)
        ]
        empty = cmp.deltas.loc[(cmp.deltas["n"] == 0) & cmp.deltas["is_primary"], "metric"]
        found += [f"No query has a value of {name_list(empty)} in both runs."] if len(empty) else []
    for name, words in (("n_failed", "failed"), ("n_missing", "was not asked")):
        if name in report.runs:
            own = report.runs.loc[report.runs[name].fillna(0) > 0, ["run_id", name]]
            lost = [f"{n} of {run}" for run, n in own.itertuples(index=False)]
            found += [f"{words[:1].upper()}{words[1:]}: {name_list(lost)}."] if lost else []
    parts = list(dict.fromkeys(report.left_out["part"])) if len(report.left_out) else []
    found += [f"Left out, with the reasons below: {', '.join(parts)}."] if parts else []
    return tuple(found)
