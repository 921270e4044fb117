"""One page to decide from: the displays of a notebook one below another, with their pictures.

In: an evaluation or a comparison. Out: a `Report`. A part that the data don't support is left out,
with its reason.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import pandas as pd

from ragscore.analysis.comparison.gate import gate as gate_of
from ragscore.analysis.comparison.gate import scored_by
from ragscore.analysis.comparison.invariants import flat_configs
from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.extras.score_threshold import risk_coverage
from ragscore.frames import tables
from ragscore.frames.data import DataError, check_type
from ragscore.frames.errors import check_choice, plural, unsaid
from ragscore.frames.escaping import html_text, json_text, markdown_line
from ragscore.frames.tables import Display, Table, html_of, rows_of, shown_intervals, with_sign
from ragscore.io.files import write_text
from ragscore.plot.style import in_order
from ragscore.reporting.explorer.element import element
from ragscore.reporting.explorer.element import page as html_page
from ragscore.reporting.explorer.explorer import explore_comparison
from ragscore.scoring.summary import Slicing, slice_names, slice_texts
from ragscore.store.store import RunStore

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ragscore.reporting.explorer.explorer import Explorer

USUAL_SLICES = ("difficulty", "category", "lang")
LISTED = 10  # lost queries on the page: the explorer has all
LOST, UNRANKED = ("regression", "loss"), {"no_target", "only_baseline", "only_candidate"}
REFUSALS = ("refusal_correct", "false_refusal")
QUERIES = "Query by query"
NOT_XML = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"  # with one of these no browser shows it
# Ids come from the salt, not from chance; texts stay texts, so that a font has every script. What a
# tag can do without: the long list of fonts that each text repeats, and hundredths of a point.
STYLE: dict[str, Any] = {"svg.hashsalt": "ragscore", "svg.fonttype": "none", "figure.dpi": 72}
FONT = "text{font-family:'DejaVu Sans',Verdana,sans-serif}"
PLAIN = "<p>A script shows single queries here.</p>"  # where none runs


@dataclass(frozen=True, repr=False)
class Part(Display):
    """A heading, what is below it, the frame behind it, and its picture.

    `is_listed`: the rows of the table are queries; on the page they are links into the explorer.
    """

    title: str
    shown: Display | Table
    frame: pd.DataFrame
    draw: Callable[[], Axes] | None = None
    is_open: bool = False
    is_listed: bool = False

    def _parts(self) -> list[str | Table]:
        if isinstance(self.shown, Table):
            return [self.title, *([self.shown] if len(self.shown.frame) else [])]
        return [self.title, *self.shown._parts()[1:]]

    def on_page(self, has_links: bool) -> str:
        """Return the part as a section of the page, folded unless it is open."""
        blocks = [
            _listed(one, has_links) if isinstance(one, Table) and self.is_listed else html_of([one])
            for one in self._parts()[1:]
        ]
        if self.draw:  # below the table, above its notes
            blocks.insert(1, figure(self.title, self.draw))
        return _section(self.title, "".join(blocks), self.is_open)


@dataclass(frozen=True, repr=False)
class Report(Display):
    """A page of displays, one below another; equal frames give equal pages, to the byte.

    Attributes
    ----------
    tables
        Heading of the page -> its frame. Of runs "Standings" (`ev.leaderboard()`),
        of a comparison its name with `cmp.deltas`; "Left out", with one row per part that there
        is no data for, and why.
    figures
        Name -> function that draws the picture below a heading and returns its Axes.
    """

    _title: str
    _shown: tuple[tuple[str, Part], ...]
    _explore: Callable[[], Explorer] | None = None
    _code: str = "ev"

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Name -> frame."""
        return {name: part.frame for name, part in self._shown}

    @property
    def figures(self) -> dict[str, Callable[[], Axes]]:
        """Name -> function that draws the picture."""
        return {name: part.draw for name, part in self._shown if part.draw}

    def to_html(self) -> str:
        """Return one HTML page that needs no other file; its policy forbids all else.

        Standings, a picture and lost queries are open, the rest is folded. Every text is escaped.
        """
        body = [part.on_page(self._explore is not None) for _, part in self._shown]
        scripts, style = [_file("page.js")], tables.STYLE
        if self._explore is not None:
            one = self._explore()
            mounted = element(one.packed, code=self._code, state=one.state, plain=PLAIN)
            n_open = sum(part.is_open for _, part in self._shown)
            text = "".join(f'<p class="rs-note">{html_text(line)}</p>' for line in one.left_out)
            body.insert(n_open, _section(QUERIES, text + mounted.html, False))
            scripts, style = [*scripts, mounted.script], style + mounted.style
        main = "\n".join(["<main>", f"<h1>{html_text(self._title)}</h1>", *body, "</main>"])
        return html_page(self._title, main, style + _file("page.css"), *scripts)

    def to_markdown(self) -> str:
        """Return the same as Markdown, without pictures and the explorer."""
        parts = [
            f"#{line}" if line.startswith("#") else line
            for _, part in self._shown
            for line in part.to_markdown().rstrip().split("\n\n")
        ]
        return "\n\n".join([f"# {markdown_line(self._title)}", *parts]) + "\n"

    def to_json(self) -> str:
        """Return `tables` as JSON: name -> rows, NaN as null."""
        return json_text({name: rows_of(frame) for name, frame in self.tables.items()})

    def write(self, path: str | Path) -> Path:
        """Write the form that the file's ending names: .html, .md or .json.

        Raises
        ------
        DataError
            Another ending, or the file can't be written; an older one is then as it was.
        """
        forms = {".html": self.to_html, ".md": self.to_markdown, ".json": self.to_json}
        ending = Path(path).suffix.lower()
        check_choice(ending, forms, "path")
        return write_text(Path(path), forms[ending]())

    def _parts(self) -> list[str | Table]:
        titles = [part.title for _, part in self._shown]
        return [
            f"Report: {self._title}",
            *titles,
            ".write('report.html') writes the page; .md and .json, too",
        ]


@dataclass
class _Page:
    """The parts of a page while it is made, and why others are left out."""

    parts: list[tuple[str, Part]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def put(self, name: str, shown: Display | Table, frame: pd.DataFrame, **options: Any) -> None:
        title = options.pop("title", name)
        self.parts.append((name, Part(title, shown, frame, **options)))

    def attempt(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what is made; None where the data don't support it, with the reason noted."""
        found = None
        with unsaid() as said:
            try:
                found = make()
            except DataError as error:
                said.append(str(error))
        self.left_out += [(name, text) for text in said]
        return found

    def compared(self, cmp: Comparison, max_drop: Mapping[str, float] | None, rule: str) -> None:
        name = f"{cmp.candidate} against {cmp.baseline}"
        title = ": ".join([name, *cmp._words()[:1]])
        self.put(name, cmp, cmp.deltas, title=title)
        if max_drop:
            found = gate_of(cmp, max_drop, rule=rule)
            self.put(f"Gate: {name}", found, found.table, title=str(found._parts()[0]))

    def lost(self, cmp: Comparison) -> None:
        """List queries whose first hit is gone or further down, in the order of reading."""
        changed = cmp.changed().replace({"rank_candidate": {"—": "none"}})
        rows = changed[changed["outcome"].isin(LOST).to_numpy()].reset_index(drop=True)
        if {*cmp.counts} <= UNRANKED:
            self.left_out.append(("Lost queries", "no query has an expected document"))
            return
        n_gone = int((rows["outcome"] == LOST[0]).sum())
        ranks = "rank " + rows["rank_baseline"] + " → " + rows["rank_candidate"]
        frame = rows[["query_id", "outcome"]].assign(rank=ranks, query=rows["query"])
        how = f": {n_gone} with no hit any more, {len(rows) - n_gone} with a later first hit"
        n_lost = plural(len(rows), "query") if len(rows) else "no query"
        title = f"{cmp.candidate} lost {n_lost} of {cmp.baseline}{how * bool(len(rows))}"
        self.listed("Lost queries", frame, title)

    def listed(self, name: str, frame: pd.DataFrame, title: str) -> None:
        """Add a list of queries, the first of them open."""
        shown = Table(frame, limit=LISTED, way=f"see {QUERIES}")
        self.put(name, shown, frame, title=title, is_open=True, is_listed=True)

    def report(
        self, title: str, explore: Callable[[], Explorer] | None, code: str, path: str | Path | None
    ) -> Report:
        """Return the report, last what it leaves out; written if it has a path."""
        if self.left_out:
            frame = pd.DataFrame(self.left_out, columns=["part", "why"], dtype="str")
            self.put("Left out", Table(frame), frame)
        made = Report(title, tuple(self.parts), explore, code)
        if path is not None:
            made.write(path)
        return made


def report_runs(
    ev: Any,
    path: str | Path | None = None,
    *,
    slices: Sequence[Slicing] | None = None,
    baseline: str | None = None,
    title: str | None = None,
    gate: Mapping[str, float] | None = None,
    rule: str = "threshold",
    history: RunStore | None = None,
    vary: list[str] | str | None = None,
    allow_different: bool | str | list[str] = False,
) -> Report:
    """Build a page to decide from, and write it if it has a path.

    The runs, best first, with a picture; the queries that the newest run lost; and sections
    that fold. All verdicts use `ev.confidence`, on the queries that all runs have.

    Parameters
    ----------
    path
        .html, .md or .json.
    slices
        What to slice by, one section each: names, or lists of names for their combinations. By
        default difficulty, category and lang where the golden set has them.
    baseline
        The run that all others are compared with; by default the newest run is compared with
        the one before it, and with a gate each run.
    gate, rule
        Metric -> largest loss that is allowed, and how that is decided; see `cmp.gate`.
    history
        A store: the trend is drawn over its runs.
    title, vary, allow_different
        The heading of the page; and as for `compare`.

    Returns
    -------
    A `Report`: its frames, `to_html`, `to_markdown`, `to_json` and `write`.

    Raises
    ------
    DataError
        An unknown baseline, slice or metric of `gate`; an ending that names no form; runs that
        `compare` refuses.

    Examples
    --------
    >>> ev.select(["dense", "hybrid"]).report("report.html", gate={"mrr@10": 0.02})
    """
    # what this evaluation has tested holds, where no metric was added
    ev = ev._with_scored(map(scored_by, gate or {}))._against(baseline)
    check_type(history, (RunStore, type(None)), "history", "a RunStore")
    whole, ev = ev, ev._of_systems
    page, several = _Page(), len(ev.run_ids) > 2
    compared = [
        ev._compared(a, b, of_all=several, vary=vary, allow_different=allow_different)
        for a, b in _pairs(ev, bool(gate))
    ]
    _standings(page, whole)
    explore = compared[0].explore if compared else partial(ev.explore, runs=ev.run_ids[-1:])
    if compared:
        page.lost(compared[0])
    elif (alone := page.attempt(QUERIES, explore)) is not None:
        page.listed("Lowest queries", alone.order, "Lowest queries")
    for cmp in compared:
        page.compared(cmp, gate, rule)
    if gate and not compared:
        page.left_out.append(("Gate", "one run, and none to compare it with"))
    for place, by in enumerate(_slicings(ev, slices)):
        _sliced(page, ev, by, is_drawn=not place)
    _analyses(page, whole, history)
    runs = _described(whole)
    described, is_same = runs.copy(), runs.iloc[:, 1:].nunique(axis="columns").eq(1)
    described.loc[is_same, runs.columns[2:]] = "same"
    page.put("The runs", Table(described), runs)
    name = f"{plural(len(ev.run_ids), 'run')} on {plural(len(ev.golden.queries), 'golden query')}"
    return page.report(title or name, explore, "cmp" if compared else "ev", path)


def report_comparison(
    cmp: Comparison, path: str | Path | None = None, *, title: str | None = None,
    gate: Mapping[str, float] | None = None, rule: str = "threshold",
) -> Report:  # fmt: skip
    """Build a page about one comparison alone.

    Parameters
    ----------
    path
        Where to write it: .html, .md or .json.
    gate, rule
        Metric -> largest loss that is allowed, and how that is decided; see `cmp.gate`.

    Returns
    -------
    A `Report`: its frames, `to_html`, `to_markdown`, `to_json` and `write`.

    Raises
    ------
    DataError
        A metric of `gate` that wasn't compared; an ending that names no form.
    """
    page = _Page()
    page.compared(cmp, gate, rule)
    page.parts = [(name, replace(part, is_open=True)) for name, part in page.parts]
    page.lost(cmp)
    title = title or f"{cmp.candidate} against {cmp.baseline}"
    explore = None if cmp._rows is None else partial(explore_comparison, cmp)
    if explore is None:
        page.left_out.append((QUERIES, "a comparison from JSON holds no hits and answers"))
    return page.report(title, explore, "cmp", path)


def _pairs(ev: Any, has_gate: bool) -> list[tuple[str, str]]:
    """Return what is compared, newest first.

    All with the baseline; else the newest run with the one before it, and with a gate each.
    """
    runs, names = ev._runs, ev.run_ids
    if "created_at" in runs and runs["created_at"].notna().all():
        names = runs.sort_values("created_at", kind="stable")["run_id"].astype("str").tolist()
    if ev._baseline is not None:
        return [(ev._baseline, name) for name in names[::-1] if name != ev._baseline]
    return list(pairwise(names))[::-1][: None if has_gate else 1]


def _standings(page: _Page, ev: Any) -> None:
    """Put what an evaluation shows, and a picture of its first primary metric."""
    if not ev.primary:
        page.put("Standings", ev, pd.DataFrame(), is_open=True)
        return
    board = ev._of_systems._board
    metric = ev.primary[0] if len(board._run_ids) > 1 else None
    page.put("Standings", ev, board.table, title=board._headline(), is_open=True,
             draw=partial(board.plot, metric))  # fmt: skip


def _slicings(ev: Any, slices: Sequence[Slicing] | None) -> list[Slicing]:
    if slices is not None:
        chosen = [slices] if isinstance(slices, str) else slices
        return list(dict.fromkeys(one if isinstance(one, str) else tuple(one) for one in chosen))
    queries = ev.golden.queries
    return [one for one in USUAL_SLICES if one in queries and queries[one].notna().any()]


def _sliced(page: _Page, ev: Any, by: Slicing, is_drawn: bool) -> None:
    """Put means of the first primary metric, one row per slice, one column per run."""
    names = slice_names(by)
    name = f"By {' × '.join(names)}"
    if not ev.primary:
        page.left_out.append((name, "no metric has a value"))
        return
    metric, rows = ev.primary[0], ev.summary(list(ev.primary), by=by)
    own = rows[(rows["metric"].eq(metric) & rows["n"].gt(0)).to_numpy()]
    text = shown_intervals(own[["mean", "low", "high"]])
    own = own.assign(slice=slice_texts(own, names), run=own["run_id"].astype("str"), text=text)
    wide = own.pivot(index="slice", columns="run", values="text")
    wide = wide.reindex(index=in_order(own["slice"].unique()), columns=ev.run_ids).fillna("—")
    # runs may have values of different queries
    n = own.groupby("slice")["n"].agg(lambda n: "–".join(map(str, sorted({n.min(), n.max()}))))
    wide.insert(0, "n", n.reindex(wide.index).to_numpy())
    shown = Table(wide.rename_axis(columns=None).reset_index())
    page.put(name, shown, rows, title=f"{metric} {name[0].lower()}{name[1:]}",
             draw=partial(ev.plot.slices, metric, by) if is_drawn else None)  # fmt: skip


def _analyses(page: _Page, ev: Any, history: RunStore | None) -> None:
    """Put the trend, refusals, a threshold on the score, and why answers are wrong."""
    if (found := page.attempt("Trend", partial(_trend, ev, history))) is not None:
        page.put("Trend", found, found.table, title=str(found._parts()[0]), draw=found.plot)
    if ev.scores.reindex(columns=REFUSALS).notna().any(axis=None):
        _analysed(page, "Refusals", ev.refusals)
    else:
        page.left_out.append(("Refusals", "nothing says which queries should be refused, or were"))
    _analysed(page, "Refusal threshold", partial(risk_coverage, ev), is_drawn=True)
    _analysed(page, "Failures", ev.failures)


def _analysed(page: _Page, name: str, make: Callable[[], Any], is_drawn: bool = False) -> None:
    if (found := page.attempt(name, make)) is not None:
        frame = getattr(found, found.FRAMES[0])
        draw = found.plot if is_drawn else None
        page.put(name, Table(found._shown()), frame, title=found._heading(), draw=draw)


def _trend(ev: Any, history: RunStore | None) -> Any:
    if not ev.primary:
        raise DataError("no metric has a value")
    if history is not None:
        return history.trend(ev.primary[0])
    times = ev._runs.reindex(columns=["system", "created_at"])
    if times.groupby("system", dropna=False)["created_at"].nunique().max() < 2:
        raise DataError("no system has runs of two times (created_at)")
    return ev.trend()


def _described(ev: Any) -> pd.DataFrame:
    """One row per fact and config key, one column per run; what differs comes first."""
    facts = ev.results.runs.astype({"run_id": "str"}).set_index("run_id")
    facts = facts.drop(columns="config", errors="ignore").T.astype("object")
    config = pd.DataFrame(flat_configs(ev.results, ev.run_ids), dtype="object")
    settings = pd.concat([facts, config]).dropna(how="all")
    settings = settings[~settings.index.duplicated()]
    settings = settings.map(
        lambda one: (
            "—"
            if pd.isna(one)
            else f"{one:%Y-%m-%d %H:%M}"
            if isinstance(one, pd.Timestamp)
            else str(one)
        )
    )
    order = settings.nunique(axis="columns").eq(1).to_numpy().argsort(kind="stable")
    return settings.iloc[order].rename_axis(index="fact", columns=None).reset_index()


def _section(title: str, inner: str, is_open: bool) -> str:
    return (
        f'<details class="part"{" open" * is_open}><summary><h2>{html_text(title)}</h2></summary>'
        f"{inner}</details>"
    )


def _listed(table: Table, has_links: bool) -> str:
    """Return queries as a list: id, what changed, and below these the text."""
    rows, items = table.frame.iloc[: table.limit], list[str]()
    for row in rows.astype("str").to_dict("records"):
        name, text = row.pop("query_id"), row.pop("query")
        shown = html_text(name)
        if has_links:
            shown = f'<a href="#x.q={quote(name, safe="")}">{shown}</a>'
        what = html_text(", ".join(filter(None, map(with_sign, row.values()))))
        items.append(f'<li>{shown} {what}<p class="rs-note">{html_text(text)}</p></li>')
    more = len(table.frame) - len(rows)
    below = f'<p class="rs-note">{more} more: {table.way}.</p>' if more else ""
    return f"<ol>{''.join(items)}</ol>{below}"


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


# Figures: SVG in data addresses, the same bytes for the same frames


def figure(title: str, draw: Callable[[], Axes]) -> str:
    """Return a figure as HTML; where the data can't be drawn, the reason."""
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    plt.draw_if_interactive()  # type: ignore[no-untyped-call]
    out = io.StringIO()
    try:
        with plt.style.context(["default", STYLE]), warnings.catch_warnings():
            for known in ("Glyph .* missing from", "constrained_layout not applied"):
                warnings.filterwarnings("ignore", known, UserWarning)
            drawn = cast("Figure", draw().figure)
            metadata, canvas = {"Date": None, "Creator": None}, cast("Any", FigureCanvasSVG(drawn))
            try:
                canvas.print_svg(out, metadata=metadata)  # `savefig` would draw twice
            finally:
                plt.close(drawn)
    except DataError as error:
        return f'<p class="rs-note">No picture: {html_text(error)}</p>'
    svg = re.sub(NOT_XML, "\ufffd", out.getvalue())
    svg = svg[svg.index("<svg") :].replace("</style>", f"{FONT}</style>", 1)
    svg = re.sub("<[^>]*>", lambda tag: _short(tag[0]), svg)
    data = quote(svg, safe=" =:/;,()!*@$+?.-_~[]{}|")  # a fifth smaller than base64
    return f'<figure><img alt="{html_text(title)}" src="data:image/svg+xml,{data}"></figure>'


def _short(tag: str) -> str:
    tag = re.sub('(?:; )?font-family: [^;"]*sans-serif(?=[;"])', "", " ".join(tag.split()))
    return re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", tag)
