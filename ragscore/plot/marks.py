"""What happened between runs: vertical lines in a trend, with two or three words above each.

In: a trend's table, and notes of the caller. Out: marks, and their words above the axes, in at most
two rows that never overlap: they are placed once the width of the axes is known.
"""

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.dates import date2num
from matplotlib.transforms import IdentityTransform, Transform

from ragscore.frames.errors import DataError, excerpt
from ragscore.plot.lettering import literal
from ragscore.plot.style import label_of
from ragscore.plot.theme import inks, sizes

BREAK, CONFIG, NOTE = "-", ":", "--"  # styles of lines: what is measured, settings, notes
LONGEST = 24  # characters of the words above a line
MOST = 40  # words to find places for; of more marks, neighbours are counted together before
SHORT = {"passages cut anew": "chunker", "values from elsewhere": "source"}


class Mark(NamedTuple):
    """A vertical line: place, words, and the style that says what it is."""

    x: float
    text: str
    line: str


def changes(table: pd.DataFrame) -> list[Mark]:
    """Return what changed between runs: the measuring, and settings.

    A change of settings that several systems share is said once.
    """
    columns = ["left", "system", "break_reason", "config_change"]
    rows = table.drop_duplicates("run_id").reindex(columns=columns)
    moved = rows[rows["config_change"].notna()]
    nth = moved.groupby(["system", "config_change"]).cumcount()
    moved = moved.assign(nth=nth).drop_duplicates(["config_change", "nth"])
    breaks = rows.loc[rows["break_reason"].notna(), ["left", "break_reason"]].to_numpy()
    events = [(left, BREAK, _measured(reason)) for left, reason in breaks]
    events += [
        (left, CONFIG, re.findall(r"(?:^|, )([^\s,→]+) [^→]*→", config) or ["config"])
        for left, config in moved[["left", "config_change"]].to_numpy()
    ]
    marks = []
    for x, of_place in groupby(sorted(events, key=itemgetter(0)), itemgetter(0)):
        _, lines, parts = zip(*of_place, strict=True)
        words = _words(list(dict.fromkeys(chain.from_iterable(parts))), lines[0])
        marks.append(Mark(x, words, lines[0]))
    return marks


def _measured(reason: str) -> list[str]:
    """Return the names of what has changed, by the reason of a break."""
    several = re.findall(r"(?:^|; )([^(;]+) \(", reason)
    parts = [part for one in several for part in one.removeprefix("other ").split(" and ")]
    return [re.sub(r"^policy | of .*", "", SHORT.get(part, part)) for part in parts] or ["measure"]


def _words(parts: list[str], line: str) -> str:
    if len(", ".join(parts)) < LONGEST - 4 or len(parts) == 1:
        return f"{label_of(', '.join(parts), LONGEST - 5)} changed"
    more = f"{label_of(parts[0], LONGEST - 11)} and {len(parts) - 1} more"
    return more if line == BREAK else f"{len(parts)} settings changed"


def days(times: pd.Series) -> Any:
    """Return times in UTC as matplotlib's days."""
    naive: Any = times.dt.tz_localize(None).to_numpy()
    return np.asarray(date2num(naive), dtype="float64")  # type: ignore[no-untyped-call]


def noted(
    notes: "Mapping[Any, str] | pd.Series | None", table: pd.DataFrame, is_dated: bool
) -> list[Mark]:
    """Return the caller's notes, each at its date or before its run, where its words are new."""
    places = dict(zip(table["run_id"].astype("str"), table["left"], strict=True))
    found = []
    for key, words in () if notes is None else notes.items():
        time = pd.to_datetime(pd.Series([key]), utc=True, errors="coerce")
        if str(key) not in places and not (is_dated and time.notna().all()):
            raise DataError(
                f"no run {excerpt(str(key))}, and no date of this axis",
                field="notes",
                allowed="words by run id, or by date where the runs have dates",
            )
        x = places[str(key)] if str(key) in places else days(time)[0]
        if pd.notna(words) and table["left"].min() <= x <= table["right"].max():
            found.append(Mark(float(x), label_of(str(words), LONGEST), NOTE))
    found.sort()
    return [one for n, one in enumerate(found) if n == 0 or found[n - 1].text != one.text]


def room_for(
    ax: "Axes", marks: list[Mark], *, is_said: bool = True
) -> AbstractContextManager[None]:
    """Draw the lines of marks; return a context in which a title leaves room for their words."""
    for mark in marks:
        colour = inks().muted if mark.line == CONFIG else inks().note
        ax.axvline(mark.x, color=colour, linewidth=0.8, linestyle=mark.line, zorder=1)
    height = Words(ax, marks).height if marks and is_said else 0.0
    return matplotlib.rc_context({"axes.titlepad": 6 + height})


class Words:
    """The words of marks above axes, in one row or two, where they never overlap.

    They are placed whenever these are drawn in another width: their own coordinates call this.
    Where they don't fit, neighbours are counted together: settings first, so that a change of
    labels keeps its words as long as it can.
    """

    def __init__(self, ax: "Axes", marks: list[Mark]) -> None:
        self.ax, self.place, self.row = ax, IdentityTransform(), 1.4 * sizes()["note"]
        self.drawn: tuple[float, ...] = ()
        known = [mark._replace(text=literal(mark.text)) for mark in marks]
        size = -(-len(known) // MOST)
        self.groups = [known[n : n + size] for n in range(0, len(known), size)]
        self.texts = [
            ax.annotate(
                _summed(group).text, (group[0].x, 1), (0, 0), xycoords=ax.get_xaxis_transform(),
                textcoords=self, va="bottom", fontsize=sizes()["note"], color=inks().ink,
                annotation_clip=False, in_layout=False, parse_math=False,
            )
            for group in self.groups
        ]  # fmt: skip
        self.lines = LineCollection(
            [], colors=inks().note, linewidths=0.8, transform=self.place, zorder=4, clip_on=False,
            in_layout=False,
        )  # fmt: skip
        ax.add_collection(self.lines, autolim=False)
        # axes become narrower yet, by names at the ends of lines or a legend
        renderer: Any = ax.figure.get_figure(root=True)._get_renderer()  # type: ignore[attr-defined]
        is_low = self._fitted(self.groups, 1, 0.8 * ax.get_window_extent().width, renderer)[1] < 0
        self.rows = 1 if is_low else 2
        self.height = self.rows * self.row  # points

    def __call__(self, renderer: Any) -> "Transform":
        """Return the coordinates of the words, which are pixels."""
        box, unit, groups = self.ax.get_window_extent(), self.ax.figure.dpi / 72, [*self.groups]
        if (now := (*box.bounds, unit, *self.ax.get_xlim())) == self.drawn:
            return self.place
        self.drawn = now
        while (found := self._fitted(groups, self.rows, box.width, renderer))[1] >= 0:
            # the one without room, and what is in its way
            beside = {max(found[1] - 1, 0), min(found[1], len(groups) - 2)}
            first = min(beside, key=lambda n: _loss(*groups[n : n + 2]))
            groups[first : first + 2] = [groups[first] + groups[first + 1]]
        segments = []
        places = found[0] + [("", 0, 0.0, 0.0)] * (len(self.texts) - len(groups))
        for text, (said, row, start, place) in zip(self.texts, places, strict=True):
            bottom = box.y1 + (3 + row * self.row) * unit
            text.set(text=said, position=(box.x0 + start, bottom))
            if row:
                segments.append([(box.x0 + place, box.y1), (box.x0 + place, bottom)])
        self.lines.set_segments(segments)
        return self.place

    def _fitted(
        self, groups: list[list[Mark]], rows: int, room: float, renderer: Any
    ) -> tuple[list[tuple[str, int, float, float]], int]:
        """Place the words of each group in so many rows and pixels, from left to right.

        Returns
        -------
        Words, row, start and the place of the line for each group; the first one that finds no
        room, -1 if all have some.
        """
        (low, high), gap = self.ax.get_xlim(), self.row * self.ax.figure.dpi / 120
        marks, font = [_summed(group) for group in groups], self.texts[0].get_fontproperties()
        places = [(mark.x - low) / (high - low) * room for mark in marks]
        found: list[tuple[str, int, float, float]] = []
        free = [0.0] * rows  # where words may begin in each row
        for number, (mark, place) in enumerate(zip(marks, places, strict=True)):
            length = renderer.get_text_width_height_descent(mark.text, font, False)[0]
            beyond = next((one for one in places[number + 1 :] if one > place), room + gap) - gap
            for row, begin in enumerate(free):
                # right of its line, else as far left as there is room
                least = min(max(begin, place - length), room - length)
                start = place if place + length <= min(beyond, room) else least
                # a line up to the second row must not cross words of the first
                if begin <= start <= place and (row or start + length <= beyond):
                    found.append((mark.text, row, start, place))
                    free[row] = start + length + gap
                    free[0] = max(free[0], place + gap)
                    break
            else:
                return found, number if len(groups) > 1 else -1
        return found, -1


def _loss(group: list[Mark], other: list[Mark]) -> tuple[int, float]:
    """Return what counting two groups together costs: words of weight, then distance."""
    heavy = [any(mark.line != CONFIG for mark in one) for one in (group, other)]
    return sum(heavy), _summed(other).x - _summed(group).x


def _summed(group: list[Mark]) -> Mark:
    """Return one mark for a group: settings are not told beside other changes."""
    said = [mark for mark in group if mark.line != CONFIG] or group
    if len({mark.text for mark in said}) > 1:
        return said[0]._replace(text=f"{len(group)} changes")
    return said[0]._replace(text=said[0].text + (f" ×{len(said)}" if len(said) > 1 else ""))
