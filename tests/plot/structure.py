"""What a drawn figure must be, checked by its structure: texts, markers, legends, styles.

In: a figure. Out: its faults as sentences, none for a good one. `RUNS` makes sets of 2, 8 and 18
runs; `PICTURES` draws every picture of `rs.plot` of them.
"""

import json
import random
import re
import tempfile
from functools import cached_property, lru_cache
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from conftest import answer, hit, record
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.legend import Legend
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

import ragscore as rs
from ragscore.analysis.trend.trend import trend

SLACK = 1.5  # pixels by which boxes may meet: a font's box is larger than its letters
SMALLEST = 6.0  # points of the smallest text that is read in print
NO_MARKER = (None, "", " ", "None", "none")


def faults(figure, names=()):
    """Return what is wrong with a figure; `names` are the runs that it must name."""
    figure.canvas.draw()
    axes = [ax for ax in figure.axes if ax.get_visible()]
    texts = [text for text in seen_texts(figure, axes) if text.get_window_extent().width]
    found = [
        *_outside(figure, texts),
        *_overlapping(texts),
        *_in_other_axes(axes, texts),
        *_small(texts),
        *_over_points(axes, texts),
        *_clipped(axes),
        *_alike(axes),
        *_unsaid(texts, names),
        *_said_twice(texts),
        *_untitled(figure, axes),
        *_narrow(figure, axes),
    ]
    return list(dict.fromkeys(found))


def _narrow(figure, axes):
    """Yield axes of less than 55 % of their place's width, but for panels beside each other."""
    for ax in axes:
        spec = ax.get_subplotspec()
        columns = 1 if spec is None else spec.get_gridspec().ncols
        share = ax.get_window_extent().width / (figure.bbox.width / columns)
        if share < 0.55 - 0.02 * (columns > 1):
            yield f"axes have {100 * share:.0f} % of the width of their place"
        if ax.get_window_extent().height < 60:
            yield f"axes are {ax.get_window_extent().height:.0f} pixels high"


def seen_texts(figure, axes):
    """Return every text that is drawn: titles, labels, ticks in view, notes, legends."""
    ticks = {}
    for ax in axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            room = (high - low) * 1e-9
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                is_seen = tick.get_visible() and low - room <= tick.get_loc() <= high + room
                ticks |= dict.fromkeys((tick.label1, tick.label2), is_seen and axis.get_visible())
    return [
        text
        for text in figure.findobj(Text)
        if text.get_text().strip() and text.get_visible() and ticks.get(text, True)
    ]


def corners(text):
    """Return the four corners of a text, turned as it is drawn."""
    angle = text.get_rotation()
    straight = text.get_window_extent()
    centre = np.array([straight.x0 + straight.x1, straight.y0 + straight.y1]) / 2
    if angle % 90:
        text.set_rotation(0)
        flat = text.get_window_extent()
        text.set_rotation(angle)
    else:
        flat, angle = straight, 0
    half = np.array([flat.width, flat.height]) / 2 - SLACK
    turn = np.deg2rad(angle)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return centre + (np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * half) @ rotation.T


def meet(a, b):
    """Return True if two convex quadrangles share a point, by their separating axes."""
    for sides in (a, b):
        for edge in np.diff(np.vstack([sides, sides[:1]]), axis=0):
            across = np.array([-edge[1], edge[0]])
            first, second = a @ across, b @ across
            if first.max() <= second.min() or second.max() <= first.min():
                return False
    return True


def _shown(text):
    return repr(" ".join(text.get_text().split()))


def box_of(text):
    """Return a text's own box, without an arrow."""
    return (
        Text.get_window_extent(text) if isinstance(text, Annotation) else text.get_window_extent()
    )


def _outside(figure, texts):
    page = figure.bbox.padded(SLACK)
    for text in texts:
        box = box_of(text)
        if not (
            page.x0 <= box.x0 and page.y0 <= box.y0 and box.x1 <= page.x1 and box.y1 <= page.y1
        ):
            yield f"cut off by the figure's edge: {_shown(text)}"


def _overlapping(texts):
    boxes = [(text, box_of(text), corners(text)) for text in texts]
    for (a, box_a, corners_a), (b, box_b, corners_b) in combinations(boxes, 2):
        if box_a.overlaps(box_b) and meet(corners_a, corners_b):
            yield f"overlap: {_shown(a)} and {_shown(b)}"


def _in_other_axes(axes, texts):
    for text in texts:
        for ax in axes:
            if text.axes not in (None, ax) and not _same_place(text.axes, ax):
                inside = Bbox.intersection(box_of(text), ax.get_window_extent())
                if inside and min(inside.width, inside.height) > SLACK:
                    yield f"lies over other axes: {_shown(text)}"


def _same_place(a, b):
    return np.allclose(a.get_window_extent().bounds, b.get_window_extent().bounds, atol=1)


def _small(texts):
    for text in texts:
        if text.get_fontsize() < SMALLEST:
            yield f"smaller than {SMALLEST:g} points: {_shown(text)}"


def points_of(ax):
    """Yield the places, in pixels, where an axes marks data, and half the marker's size."""
    points = ax.figure.dpi / 72
    for line in ax.lines:
        if line.get_visible() and line.get_marker() not in NO_MARKER:
            places = line.get_transform().transform(line.get_xydata().astype("float64"))
            if line.get_markevery() == [0]:
                places = places[:1]
            half = (line.get_markersize() + line.get_markeredgewidth()) / 2 * points
            shape = {"|": (0, half), "_": (half, 0)}.get(line.get_marker(), (half, half))
            yield line, places[np.isfinite(places).all(axis=1)], shape
    for dots in ax.collections:
        if isinstance(dots, PathCollection) and dots.get_visible() and len(dots.get_offsets()):
            offsets = np.ma.filled(np.ma.masked_invalid(dots.get_offsets()), np.nan)
            places = dots.get_offset_transform().transform(offsets)
            half = np.sqrt(dots.get_sizes().max()) / 2 * points
            yield dots, places[np.isfinite(places).all(axis=1)], (half, half)


def _bars(ax):
    for patch in ax.patches:
        if not isinstance(patch, Rectangle) or not patch.get_visible():
            continue
        if patch.get_width() and patch.get_height():
            yield patch.get_window_extent()


def _over_points(axes, texts):
    legends = [one for ax in axes for one in ax.findobj(Legend)]
    for ax in axes:
        places = [place for _, found, _ in points_of(ax) for place in found]
        for legend in legends:
            box = legend.get_window_extent()
            bars = any(_covers(box, bar) for bar in _bars(ax))
            if bars or any(box.contains(*place) for place in places):
                yield "a legend lies over data"
        for text in texts:
            inside_legend = any(text in one.get_texts() for one in legends)
            if inside_legend or not len(places):
                continue
            box = box_of(text)
            if any(box.padded(-SLACK).contains(*place) for place in places):
                yield f"a text lies over a point: {_shown(text)}"
    for legend in legends:
        own = {*legend.get_texts(), legend.get_title()}
        for text in texts:
            inside = Bbox.intersection(legend.get_window_extent(), box_of(text))
            if text not in own and inside and min(inside.width, inside.height) > 3:
                yield f"a legend lies over {_shown(text)}"


def _covers(a, b):
    inside = Bbox.intersection(a, b)
    return inside is not None and min(inside.width, inside.height) > 2


def _clipped(axes):
    for ax in axes:
        frame = ax.get_window_extent().padded(0.5)
        for artist, places, (across, up) in points_of(ax):
            if not len(places):
                continue
            out = (
                (places[:, 0] < frame.x0) | (places[:, 0] > frame.x1)
                | (places[:, 1] < frame.y0) | (places[:, 1] > frame.y1)
            )  # fmt: skip
            if artist.get_transform() is not None and out.any() and _by_data(ax, artist):
                yield f"{out.sum()} points out of view: {artist.get_label()}"
            edge = (
                (places[:, 0] - across < frame.x0) | (places[:, 0] + across > frame.x1)
                | (places[:, 1] - up < frame.y0) | (places[:, 1] + up > frame.y1)
            ) & ~out  # fmt: skip
            if artist.get_clip_on() and edge.any():
                yield f"{edge.sum()} markers cut at the edge of the axes: {artist.get_label()}"


def _by_data(ax, artist):
    transform = (
        artist.get_offset_transform()
        if isinstance(artist, PathCollection)
        else artist.get_transform()
    )
    return transform == ax.transData


def styles_of(ax):
    """Yield label and style (colour, marker, hatch, line) of all that a legend could name."""
    for one in (*ax.lines, *ax.collections, *ax.patches, *ax.containers):
        label = str(one.get_label())
        if label.startswith("_") or not label:
            continue
        if isinstance(one, ErrorbarContainer):
            one = one.lines[0]
        elif isinstance(one, BarContainer):
            one = one.patches[0] if one.patches else None
        if one is None:
            continue
        if isinstance(one, Patch):
            style = (to_hex(one.get_facecolor(), True), "", one.get_hatch() or "", "")
        elif hasattr(one, "get_marker"):
            dashes = str(one._unscaled_dash_pattern) if one.get_linestyle() != "None" else ""
            style = (to_hex(one.get_color(), True), str(one.get_marker()), "", dashes)
            style += (str(one.get_markerfacecolor()), one.get_markersize(), one.get_linewidth())
        else:
            colour = one.get_facecolor() if len(one.get_facecolor()) else one.get_edgecolor()
            path = one.get_paths()[0].vertices.tobytes() if one.get_paths() else b""
            size = one.get_sizes()[:1].tolist() if isinstance(one, PathCollection) else []
            marker = path if isinstance(one, PathCollection) else ""
            colour = to_hex(colour[0], True) if len(colour) else ""
            style = (colour, marker, one.get_hatch() or "", size)
            style += (np.asarray(one.get_edgecolor())[:1].tolist(),)
        yield label, tuple(map(repr, style))


def _alike(axes):
    seen = {}
    for ax in axes:
        for label, style in styles_of(ax):
            other = seen.setdefault(style, label)
            if other != label:
                yield f"drawn alike: {other!r} and {label!r}"


def _unsaid(texts, names):
    # a name may be wrapped
    said = " ".join(re.sub(r"\s", "", text.get_text()) for text in texts)
    for name in names:
        if re.sub(r"\s", "", name) not in said:
            yield f"not named: {name!r}"


def _said_twice(texts):
    """Yield each n that several texts of one axes repeat, as labels of runs do."""
    said = [
        (text.axes, n) for text in texts for n in re.findall(r"\bn = ([\d,–]+)", text.get_text())
    ]
    for place, n in dict.fromkeys(said):
        if said.count((place, n)) > 3:
            yield f"n = {n} is said {said.count((place, n))} times"


def _untitled(figure, axes):
    titles = [ax.get_title(side) for ax in axes for side in ("left", "center", "right")]
    if not any([*titles, figure.get_suptitle()]):
        yield "no title says what to see"


# ---------------------------------------------------------------- runs to draw

CATEGORIES = ("how-to", "reference", "concept", "troubleshooting")
LEVELS = ("hard", "easy", "medium")  # in no order, as files have them
CHANGES = ("dense", "bm25", "hybrid", "rerank", "splade", "colbert", "expand", "hyde", "fuse")


LONG = {
    "short": lambda n: f"{CHANGES[n % 9]}{f'-v{n // 9 + 1}' if n >= 9 else ''}",
    # 40 characters, of which 30 are common, and 40 of which none are
    "common": lambda n: f"bge-m3_chunk{256 + n:04}-overlap0_rerank-minilm-v2",
    "apart": lambda n: (
        f"{CHANGES[n % 9]}{n}-{CHANGES[(n + 4) % 9]}{3 * n}-{CHANGES[(n + 7) % 9]}"
        f"-{'xyzw'[n % 4] * 40}"[:40]
    ),
}


class World:
    """Runs of as many systems, better from one to the next, on 48 queries."""

    def __init__(self, n_runs, n_queries=48, names="short", categories=CATEGORIES):
        self.n_runs, self.n_queries, self.categories = n_runs, n_queries, categories
        self.names = [LONG[names](n) for n in range(n_runs)]

    @cached_property
    def golden(self):
        rows = []
        for n in range(self.n_queries):
            row = {
                "id": f"q{n:02}", "query": f"question {n}?",
                "category": self.categories[n % len(self.categories)],
                "difficulty": LEVELS[n % 3],
            }  # fmt: skip
            if n % 6 == 5:
                row["answerable"] = False
            else:
                row |= {"expected_doc_ids": [f"d{n}"], "must_contain": ["yes"]}
            rows.append(row)
        return rs.load_golden(rows)

    @cached_property
    def results(self):
        with tempfile.TemporaryDirectory() as folder:
            for number, name in enumerate(self.names):
                file = Path(folder, name, "per_query.jsonl")
                file.parent.mkdir()
                by = random.Random(number)
                lines = [self._record(by, number, n) for n in range(self.n_queries)]
                file.write_text("".join(json.dumps(one) + "\n" for one in lines))
                (file.parent / "run.json").write_text(json.dumps({
                    "run_id": name, "system": name, "k": 10,
                    "created_at": f"2026-{1 + number % 9:02}-{1 + number:02}T08:00:00Z",
                    "config": {"chunk_size": 400 if number % 2 else 200, "top_k": 10 + number},
                }))  # fmt: skip
            return rs.load_results(str(Path(folder, "*")))

    def _record(self, by, number, n):
        chance = 0.45 + 0.5 * number / max(self.n_runs, 2) - 0.1 * (n % 3)
        rank = 1 + int(by.random() * 6) if by.random() < chance else None
        top = (0.9 if rank == 1 else 0.6) + 0.2 * by.random()
        hits = [
            hit(
                f"c{n}-{place}", f"d{n}" if place == rank else f"x{place}", place,
                retrieval={"method": "lexical", "fusion_score": top / place},
            )
            for place in range(1, 8)
        ]  # fmt: skip
        is_right, refuses = by.random() < 0.7 * chance, by.random() < (0.7 if n % 6 == 5 else 0.15)
        said = answer("no idea", grounded=False) if refuses else answer(
            "yes" if is_right else "perhaps", paths=[f"docs/d{n}.md"]
        )  # fmt: skip
        took = 40 + 30 * number + int(40 * by.random())
        return record(f"q{n:02}", hits, answer=said, elapsed_ms=took)

    @cached_property
    def ev(self):
        return rs.evaluate(self.results, self.golden)

    @cached_property
    def summary(self):
        return self.ev.summary()

    @cached_property
    def cmp(self):
        return self.ev.compare(self.names[0], self.names[-1])

    def trend(self, by=None):
        """Return the trend of as many systems at three dates, relabelled before the third."""
        frames = []
        for number, name in enumerate(self.names):
            for date in range(3):
                by_chance = np.random.default_rng([number, date])
                chance = 0.3 + 0.03 * number + 0.04 * date
                frames.append(pd.DataFrame({
                    "query_id": [f"q{n:02}" for n in range(self.n_queries)],
                    "run_id": f"{name}-{date + 1}", "system": name, "state": "scored",
                    "level": "doc",
                    "created_at": pd.Timestamp(f"2026-0{1 + date}-{1 + number:02}", tz="UTC"),
                    "config": f'{{"chunk_size": {400 if date else 200}}}',
                    "golden_hash": "aaaaaaaa" if date < 2 else "bbbbbbbb",
                    "hit@5": (by_chance.random(self.n_queries) < chance).astype("float64"),
                }))  # fmt: skip
        scores = pd.concat(frames, ignore_index=True)
        return trend(scores, "hit@5", by, golden=self.golden if by else ())


@lru_cache(None)
def world(n_runs, n_queries=48, names="short"):
    """Return the runs to draw; made once, whatever is drawn of them."""
    return World(n_runs, n_queries, names)


# ---------------------------------------------------------------- every picture


def by_number(names, number):
    """Means of each run at four numbers, as of calls or turns."""
    rows = [
        {"run_id": name, number: n, "n": 40, "mean": mean, "low": mean - 0.1, "high": mean + 0.1}
        for place, name in enumerate(names)
        for n, mean in zip(range(1, 5), np.linspace(0.2, 0.8 - 0.03 * place, 4), strict=True)
    ]
    table = pd.DataFrame(rows)
    both = {"recall": table["mean"], "hit": table["mean"]}
    return table.assign(**both, hit_low=table["low"], hit_high=table["high"])


PICTURES = {
    "calls": lambda w, **to: rs.plot.calls(by_number(w.names, "call"), **to),
    "turns": lambda w, **to: rs.plot.turns(by_number(w.names, "turn"), "hit@5", **to),
    "summary": lambda w, **to: rs.plot.summary(w.summary, ["hit@5", "mrr@10", "passed"], **to),
    "slices": lambda w, **to: rs.plot.slices(w.ev.summary("mrr@10", by="difficulty"), **to),
    "heatmap": lambda w, **to: rs.plot.heatmap(w.ev.summary("mrr@10", by="category"), **to),
    "metric_at_k": lambda w, **to: rs.plot.metric_at_k(w.summary, "hit", **to),
    "tradeoff": lambda w, **to: rs.plot.tradeoff(w.summary, "mrr@10", **to),
    "scores_by_rank": lambda w, **to: rs.plot.scores_by_rank(w.results, **to),
    "refusal_matrix": lambda w, **to: rs.plot.refusal_matrix(w.ev.refusals().table, **to),
    "risk_coverage": lambda w, **to: rs.plot.risk_coverage(w.ev.risk_coverage().curve, **to),
    "trend": lambda w, **to: rs.plot.trend(w.trend(), **to),
    "trend by slices": lambda w, **to: rs.plot.trend(w.trend("difficulty"), **to),
    "slice_deltas": lambda w, **to: w.cmp.slices("difficulty", "mrr@10").plot(**to),
    "forest": lambda w, **to: w.cmp.plot.forest(**to),
    "ranks": lambda w, **to: w.cmp.plot.ranks(**to),
    "outcomes": lambda w, **to: w.cmp.plot.outcomes(**to),
    "scatter": lambda w, **to: w.cmp.plot.scatter("mrr@10", **to),
    "failure_transitions": lambda w, **to: w.ev.failures().plot(w.names[0], w.names[-1], **to),
}
OF_TWO_RUNS = {"slice_deltas", "forest", "ranks", "outcomes", "scatter", "failure_transitions"}
# Of more than eight runs four stand out, and the others are grey and counted
LED_BY_FIRST = {"slices", "risk_coverage", "calls", "turns", "trend", "trend by slices"}
IN_LEGENDS = {*LED_BY_FIRST, "summary", "metric_at_k", "tradeoff", "scores_by_rank"}
PANELS = {"trend by slices"}  # several axes: they take a figure, no axes


def draw(name, n_runs, place="alone", names="short"):
    """Return the figure of a picture, which is alone.

    On "paper" it is a column wide; of "half" it is beside a plain one in a figure of usual size.
    """
    drawn = world(n_runs, names=names)
    if place == "paper":
        with plt.rc_context({"figure.figsize": (3.35, 2.4), "font.size": 8}):
            return PICTURES[name](drawn).figure
    ax = None
    if place == "half" and name not in PANELS:
        ax, other = plt.subplots(1, 2)[1]
        other.plot([0, 1])
    return PICTURES[name](drawn, ax=ax).figure


def expected_names(name, n_runs, names="short"):
    """Return the runs that a picture must name."""
    names = world(n_runs, names=names).names
    if n_runs > 8 and name in IN_LEGENDS:
        return [f"{n_runs - 4} others"] if name in LED_BY_FIRST else []
    return [names[0], names[-1]] if name in OF_TWO_RUNS else names
