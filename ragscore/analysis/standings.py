"""The runs of a decision as one table, best first, with an interval each on one scale.

In: a `Decision`, and the means of its runs. Out: HTML with drawn intervals that needs no script;
text with intervals of characters where a terminal has room; Markdown.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.text import in_words
from ragscore.analysis.decision import BESIDE, NAME, Decision
from ragscore.frames.escaping import html_text, visible
from ragscore.frames.render import decimals_for, shown_interval, shown_n, shown_number
from ragscore.frames.short_names import fitting_names
from ragscore.frames.tables import (
    TINTS,
    Table,
    interval_bar,
    scaled,
    terminal_width,
    wide,
    with_sign,
)
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.metrics import table_kind

BARS = (32, 10)  # characters that a drawn interval takes, at most and at least
CUT = "Names are shortened; ev.run_ids has them whole."

STYLE = """
.rs-standings { overflow-x: auto } .rs-standings table { border-collapse: collapse; width: 100%; font-size: .92em; color: inherit; border: 0 }
.rs-standings :is(th, td) { text-align: left; vertical-align: middle; padding: .3em .5em; border: 0; border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); background: none }
.rs-standings thead th { vertical-align: bottom; font-weight: 600 } .rs-standings tbody th { font-weight: 600; white-space: nowrap; max-width: 20em; overflow: hidden; text-overflow: ellipsis }
.rs-standings .bar { width: 22%; min-width: 9em } .rs-standings svg { display: block; width: 100%; height: 1.1em; overflow: visible }
.rs-standings .bar span { display: flex; justify-content: space-between; font-weight: 400; opacity: .75 }
.rs-standings .n { font-variant-numeric: tabular-nums } .rs-standings i { font-style: normal; font-weight: 400; opacity: .75; white-space: nowrap }
.rs-standings tbody :is(.lead, .w, .n) { white-space: nowrap } .rs-standings tbody .w { font-weight: 600 }
.rs-standings .rs-good { background: color-mix(in srgb, #009E73 22%, transparent) } .rs-standings .rs-poor { background: color-mix(in srgb, #E69F00 22%, transparent) } .rs-standings .rs-bad { background: color-mix(in srgb, #D55E00 24%, transparent) }
.rs-standings select { font: inherit; max-width: 10em; color: inherit; background: Canvas }
@media screen and (max-width: 800px) {
  .rs-standings table { display: block; font-size: .8em; line-height: 1.3 } .rs-standings :is(thead, tbody) { display: block }
  .rs-standings tr { display: flex; flex-wrap: wrap; align-items: baseline; border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: .1em 0 }
  .rs-standings :is(th, td) { border: 0; padding: 0 .2em; flex: 1 1 3em; min-width: 0; overflow-wrap: anywhere }
  .rs-standings tbody th { order: 1; flex: 1 1 55% } .rs-standings .w { order: 2; flex: 0 1 auto } .rs-standings thead th:first-child { display: none }
  .rs-standings .bar { order: 3; flex: 1 1 50%; width: auto; align-self: center } .rs-standings .lead { order: 4; flex: 0 0 12em }
  .rs-standings thead .w { flex: 1 1 100% } .rs-standings .n { order: 5 } .rs-standings tbody .n { white-space: normal } .rs-standings tbody .n b { font-size: .8em; font-weight: 600 } .rs-standings thead .n { font-size: .8em; font-weight: 400; line-height: 1.15 }
}
@media print {
  .rs-standings { overflow: visible; font-size: .72em } .rs-standings select { display: none } .rs-standings .bar { min-width: 5em; width: 14% }
  .rs-standings :is(th, td) { padding: .2em .25em } .rs-standings tbody :is(th, td, .lead, .w, .n) { white-space: normal }
}
"""  # noqa: E501


@dataclass(frozen=True)
class Column:
    """One metric of the standings: its texts, one per run, best first."""

    heading: str
    n: str
    values: list[str]
    intervals: list[str]
    letters: list[str]

    def cells(self, *, are_full: bool) -> list[str]:
        """Return values with their letters; in full with their intervals."""
        first = self.intervals if are_full else self.values
        return [f"{text} {own}".rstrip() for text, own in zip(first, self.letters, strict=True)]


@dataclass(frozen=True)
class Standings(Table):
    """The table of a decision, made by `standings`.

    `bars` has low, value and high of each run as shares of the scale, whose `ends` are texts.
    `lost` has each run's queries that failed or weren't asked; empty where that isn't shown.
    """

    decision: Decision | None = None
    columns: tuple[Column, ...] = ()
    beside: tuple[Column, ...] = ()
    bars: tuple[tuple[float, float, float], ...] = ()
    ends: tuple[str, str] = ("", "")
    lost: tuple[str, ...] = ()

    def to_html(self, *, alone: bool = True) -> str:
        """Return the table as HTML: a drawn interval, and a verdict against one run, in each row.

        A phone has three lines a run.
        """
        found, first = self.decision, self.columns[0]
        if found is None:
            return super().to_html(alone=alone)
        rest = [*self.columns[1:], *self.beside]
        short = fitting_names(found.run_ids, NAME)
        heads = "".join(f'<th class="n" scope="col">{_heading(one)}</th>' for one in rest)
        heads += '<th class="n" scope="col">failed, not asked</th>' if self.lost else ""
        rows = []
        for at, (run, bar) in enumerate(zip(self._runs, self.bars, strict=True)):
            cells = "".join(
                f'<td class="n" title="{html_text(one.intervals[at])}">'
                f"{_lettered(one.values[at], one.letters[at])}</td>"
                for one in rest
            )
            cells += f'<td class="n">{self.lost[at]}</td>' if self.lost else ""
            value, _, interval = first.intervals[at].partition(" ")
            rows.append(
                f'<tr><th scope="row" title="{html_text(run)}">{html_text(short[run])}</th>'
                f'<td class="bar">{interval_bar(*bar)}</td>'
                f'<td class="lead">{value} <i>{interval}</i> <b>{first.letters[at]}</b></td>'
                f"{verdict_cell(*found.of_pair(found.against, run))}{cells}</tr>"
            )
        ends = "".join(f"<span>{end}</span>" for end in self.ends)
        return (
            f"<style>{STYLE}</style>"
            '<div class="rs-standings"><table aria-label="Runs, best first"><thead><tr>'
            '<th scope="col">run</th>'
            f'<th class="bar" scope="col" aria-label="95 % interval"><span>{ends}</span></th>'
            f'<th class="lead" scope="col">{_heading(first)}</th>'
            f'<th class="w" scope="col">against <span title="{html_text(found.against)}">'
            f"{html_text(short[found.against])}</span></th>"
            f"{heads}</tr></thead><tbody>\n{chr(10).join(rows)}\n</tbody></table></div>"
        )

    def to_text(self, width: int | None = None) -> str:
        """Return the table for a terminal: with drawn intervals where there is room for them."""
        width = sys.maxsize if self.is_wide else width or terminal_width()
        if self.decision is None:
            return super().to_text(width)
        for are_full, is_broken, most in (
            (True, False, None), (False, False, None), (False, True, None), (False, True, NAME),
            (False, True, NAME - 8),
        ):  # fmt: skip
            table = self._for_text(are_full, is_broken, most)
            widths = [
                max(wide(line) for text in (name, *cells) for line in text.split("\n"))
                for name, cells in table.items()
            ]
            spare = width - sum(widths) - 2 * len(widths)  # beside another column
            if spare >= -2:
                break
        room = min(spare, BARS[0])
        if room >= max(BARS[1], len("".join(self.ends)) + 1):
            gap = " " * (room - len("".join(self.ends)))
            drawn = {f"{self.ends[0]}{gap}{self.ends[1]}": [_drawn(bar, room) for bar in self.bars]}
            (first, names), *others = table.items()
            table = dict([(first, names), *drawn.items(), *others])
        return "\n".join([Table(pd.DataFrame(table)).to_text(width), *([CUT] if most else [])])

    def _for_text(self, are_full: bool, is_broken: bool, most: int | None) -> dict[str, list[str]]:
        """Return heading -> cells; lines of a heading are no longer than they must be."""
        runs, found = self._runs, self.decision
        short = {} if most is None or found is None else fitting_names(found.run_ids, most)
        table = {"run": [visible(short.get(run, run)) for run in runs]}
        for at, one in enumerate([*self.columns, *self.beside]):
            name = one.heading.replace("_", "_\n") if is_broken else one.heading
            heading = f"{name},\n{one.n}" if one.n else name
            table[heading] = one.cells(are_full=are_full or not at)
        if found is not None and found.baseline is not None:
            told = [verdict_text(found.of_pair(found.baseline, run)[0]) for run in runs]
            name = visible(short.get(found.baseline, found.baseline))
            table[f"against\n{name}"] = told
        return table

    @property
    def _runs(self) -> list[str]:
        return self.frame["run"].tolist()


def standings(
    decision: Decision,
    means: pd.DataFrame,
    lost: Mapping[str, int] | None = None,
    limit: int | None = None,
) -> Standings:
    """Return the runs of a decision as a table, best first.

    Parameters
    ----------
    means
        `ev.summary` of the runs: the metrics that decide, and times and costs where there are any.
    lost
        Run -> queries that failed or were not asked.
    limit
        The number of runs to show; by default all.
    """
    runs = list(decision.run_ids[:limit])
    known = means[means["run_id"].isin(runs).to_numpy()]
    letters = decision.letters.set_index(["metric", "run_id"])["sets"]
    columns, beside, bars = list[Column](), list[Column](), np.empty((0, 3))
    for metric in dict.fromkeys([*decision.primary, *BESIDE]):
        rows = known[known["metric"].eq(metric).to_numpy()].set_index("run_id").reindex(runs)
        is_primary = metric in decision.primary
        if not is_primary and not rows["n"].gt(0).any():
            continue
        part = "p50" if table_kind(metric) in BY_QUANTILES else "mean"
        of = ["p50", "p50_low", "p50_high"] if part == "p50" else ["mean", "low", "high"]
        told = rows[of].astype("float64").to_numpy()
        if metric == decision.primary[0]:
            bars = told
        counts = [
            _count(n, expected) for n, expected in zip(rows["n"], rows["n_expected"], strict=True)
        ]
        is_one = len(set(counts)) == 1
        digits = [decimals_for((high - low) / 4) for _, low, high in told]
        ends = [""] * len(runs) if is_one or not is_primary else [f" ({n})" for n in counts]
        column = Column(
            in_words(metric), f"n = {counts[0]}" if is_one and is_primary else "",
            [
                f"{shown_number(value, places)}{end}"
                for (value, *_), places, end in zip(told, digits, ends, strict=True)
            ],
            [
                f"{shown_interval(value, low, high, places)}{end}"
                for (value, low, high), places, end in zip(told, digits, ends, strict=True)
            ],
            [letters.loc[metric, run] if is_primary else "" for run in runs],
        )  # fmt: skip
        (columns if is_primary else beside).append(column)
    shares, scale = scaled(bars)
    frame = {"run": runs}
    for one in (*columns, *beside):
        frame[f"{one.heading}, {one.n}" if one.n else one.heading] = one.cells(are_full=True)
    counted = tuple(str(lost[run]) for run in runs) if lost is not None else ()
    return Standings(
        pd.DataFrame(frame), decision=decision, columns=tuple(columns), beside=tuple(beside),
        bars=shares, ends=scale, lost=counted,
    )  # fmt: skip


def verdict_cell(word: str, told: str) -> str:
    """Return the cell of a verdict, its details in the title; a dash where nothing is tested."""
    tint = f" rs-{TINTS[word]}" if word in TINTS else ""
    text = html_text(verdict_text(word))
    return f'<td class="w{tint}" title="{html_text(told)}">{text}</td>'


def verdict_text(word: str) -> str:
    """Return a verdict with its sign."""
    return with_sign(word) if word else "–"


def _count(n: float, expected: float) -> str:
    return str(int(n)) if n == expected else shown_n(int(n), int(expected))


def _drawn(bar: tuple[float, float, float], room: int) -> str:
    """Return an interval with its dot as characters."""
    if math.isnan(bar[1]):
        return ""
    low, dot, high = (round((room - 1) * (bar[1] if math.isnan(one) else one)) for one in bar)
    line = f"{' ' * low}{'─' * (high - low + 1)}"
    return f"{line[:dot]}●{line[dot + 1 :]}"


def _heading(one: Column) -> str:
    return f"{html_text(one.heading).replace('_', '_<wbr>')} <i>{one.n}</i>"


def _lettered(value: str, letters: str) -> str:
    return f"{html_text(value)} <b>{letters}</b>" if letters else html_text(value)
