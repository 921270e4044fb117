"""`Explorer`, what `cmp.explore()` and `ev.explore()` return.

In: a comparison or an evaluation. Out: an object that a notebook shows, a page embeds, and a file
holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.compare import asked_queries, compare_ranks
from ragscore.analysis.comparison.model import OUTCOMES, Comparison, RankChanges
from ragscore.analysis.comparison.text import describe_matching
from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, check_type, run_names
from ragscore.frames.errors import (
    check_choice,
    check_known,
    check_whole,
    name_list,
    names_of,
    packages_of,
    plural,
)
from ragscore.frames.escaping import visible
from ragscore.frames.tables import Table
from ragscore.io.files import write_text
from ragscore.plot.style import all_runs
from ragscore.reporting.explorer.data import content, outcomes_in
from ragscore.reporting.explorer.element import Mounted, element, frame, pack, page
from ragscore.reporting.explorer.order import Runs, changes_of, listed_of, read_first, values_of
from ragscore.scoring.summary import Slicing

LARGEST = 20  # rows of the plain table
MAX_QUERIES = 1_000  # with texts about 4 MB, which a page opens within half a second


@dataclass(frozen=True, repr=False, eq=False)
class Explorer:
    """Every query of some runs to look through; the last value of a cell is shown.

    It needs no server, no network and no kernel: a notebook keeps it, also when it is exported.
    Equal frames give equal bytes.

    Attributes
    ----------
    title
        What is shown, such as "hybrid against dense".
    left_out
        What is not in it, and how to get it; one sentence each.
    order
        The queries in it, those to read first first: query_id, query, and of each run but the first
        its outcome and what changed.
    state
        What it opens with: query, outcome, search.
    packed
        The content as it is embedded: JSON, gzip, base64.
    """

    title: str
    left_out: tuple[str, ...]
    order: pd.DataFrame
    state: dict[str, Any]
    packed: str
    _code: str

    def to_html(self) -> str:
        """Return the explorer as an element of a page, with its style and script.

        Links on the page to `#x.q=` and the id of a query open it.
        """
        mounted = self._mounted()
        return f"{mounted.html}<style>{mounted.style}</style><script>{mounted.script}</script>"

    def _mounted(self) -> Mounted:
        plain = self._plain().to_html(alone=False)
        return element(self.packed, code=self._code, state=self.state, plain=plain)

    def write(self, path: str | Path) -> Path:
        """Write the explorer as a page of its own.

        Raises
        ------
        DataError
            A name that doesn't end in .html, or the file can't be written.
        """
        check_choice(Path(path).suffix.lower(), (".html",), "path")
        mounted = self._mounted()
        return write_text(Path(path), page(self.title, mounted.html, mounted.style, mounted.script))

    @property
    def selected(self) -> str | None:
        """The id of the query that is open in the notebook; None before it was shown.

        Raises
        ------
        DataError
            anywidget, which brings the selection back, is not installed.
        """
        query = _bridge(self._in_frame().name).state.get("query")
        return query if isinstance(query, str) and query in set(self.order["query_id"]) else None

    def _in_frame(self) -> Mounted:
        return element(self.packed, link="message", code=self._code, state=self.state)

    def _plain(self) -> Table:
        """Return the queries to read first, for hosts that show neither frame nor script."""
        rows = self.order.head(LARGEST)
        return Table(rows, f"{self.title}: read first", list(rows.columns[2:]))

    def _repr_html_(self) -> str:
        return frame(self.title, self._in_frame(), self._plain().to_html())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        with suppress(DataError):  # without anywidget everything works but `selected`
            _bridge(self._in_frame().name)
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __repr__(self) -> str:
        title = f"Explorer: {self.title}, {plural(len(self.order), 'query')}"
        return visible("\n".join([title, *self.left_out, ".write('explorer.html') saves it"]))


def _bridge(name: str) -> Any:
    """Return what brings the selection in the frame of this name back to Python."""
    with packages_of("lab", field="selected"):
        from ragscore.reporting.explorer.widget import bridge
    return bridge(name)


def explore_comparison(
    cmp: Comparison, query: str | None = None, outcome: list[str] | str | None = None, *,
    search: str = "", by: Slicing | None = None, texts: pd.DataFrame | None = None,
    max_queries: int = MAX_QUERIES,
) -> Explorer:  # fmt: skip
    """Look through the queries of both runs, side by side: an `Explorer`.

    Parameters
    ----------
    query
        The id of the query to open; by default the one to read first.
    outcome
        Show queries of these outcomes: win, loss, regression, draw, both_miss, no_target,
        only_baseline, only_candidate. By default those that changed.
    search
        Show queries whose text or id has these words; or what the search box takes, such as
        "doc:read_csv difficulty:hard mrr@10:0..0.5".
    by
        Filters: columns of `golden.queries` or kinds of tags. By default difficulty, category,
        lang and all kinds of tags with 2 to 200 values.
    texts
        Passages (chunk_id, text) to show where the hits kept no text of their own.
    max_queries
        At most so many queries are in it, those to read first; it says how many are not.

    Returns
    -------
    An `Explorer`: end a cell with it, or `.write("explorer.html")`; `selected` is the query that
    is open.

    Raises
    ------
    DataError
        An unknown query, outcome or name in `by`; a comparison that was reloaded from JSON.

    Examples
    --------
    >>> ev.compare("dense", "hybrid").explore("pd-014", outcome="regression")
    """
    rows, scores = cmp._evaluated
    runs = Runs(rows, scores, [cmp.baseline, cmp.candidate], (cmp,), cmp._primary, cmp._declared)
    title = f"{cmp.candidate} against {cmp.baseline}"
    # another harness has no word, and may look at whole lists
    word, k = ("", None) if cmp._harness else (cmp.overall, cmp._k)
    verdict = [_counts(cmp, word), *cmp._words()[1:], describe_matching(cmp._level, k)]
    return _explorer(runs, title, verdict, "cmp", query, outcome, search, by, texts, max_queries)


def explore_runs(
    ev: Any, query: str | None = None, runs: list[str] | str | None = None,
    baseline: str | None = None, *, outcome: list[str] | str | None = None, search: str = "",
    by: Slicing | None = None, texts: pd.DataFrame | None = None, max_queries: int = MAX_QUERIES,
) -> Explorer:  # fmt: skip
    """Look through the queries of one run or several, side by side: an `Explorer`.

    Parameters
    ----------
    query
        The id of the query to open.
    runs
        Run ids or systems; by default all.
    baseline
        The run that the others are compared with, by the rules of `compare`; by default the
        first.
    outcome, search, by, texts, max_queries
        As for `cmp.explore`.

    Returns
    -------
    An `Explorer`: end a cell with it, or `.write("explorer.html")`.

    Raises
    ------
    DataError
        An unknown query, run, outcome or name in `by`.

    Examples
    --------
    >>> ev.explore(runs=["dense", "hybrid"])
    """
    given = (names_of(runs, "runs") if runs is not None else []) or ev.run_ids
    first = [] if baseline is None else [baseline]
    names = list(dict.fromkeys(run_names(ev.results.runs, [*first, *given])))
    compared = tuple(
        compare_ranks(ev._rows, names[0], one, policies=ev._policies, allow_different=True)
        for one in names[1:]
    )
    k = max((one._k for one in compared), default=None)
    scores = ev.scores[ev.scores["run_id"].isin(names).to_numpy()]
    shown = Runs(ev._rows, scores, names, compared, ev.primary, ev._declared)
    title = (
        " against ".join(names[::-1])
        if len(names) <= 2
        else f"{len(names)} runs, baseline {names[0]}"
    )
    matching = describe_matching(shown.level, None if ev._profile else k)
    verdict = [*(_counts(one) for one in compared), matching]
    with all_runs(ev._in_order):
        return _explorer(
            shown, title, verdict, "ev", query, outcome, search, by, texts, max_queries
        )


def _counts(cmp: RankChanges, word: str = "") -> str:
    counts = ", ".join(f"{n} {name}" for name, n in cmp.counts.items())
    return f"{cmp.candidate} against {cmp.baseline}: {word}{'. ' if word else ''}{counts}."


def _explorer(
    runs: Runs, title: str, verdict: list[str], code: str, query: str | None,
    outcome: list[str] | str | None, search: str, by: Slicing | None, texts: pd.DataFrame | None,
    max_queries: int,
) -> Explorer:  # fmt: skip
    check_type(texts, (pd.DataFrame, type(None)), "texts", "a DataFrame of chunk_id and text")
    check_type(search, str, "search", "words to look for")
    check_type(max_queries, int, "max_queries", "a number of queries")
    check_whole(max_queries, "max_queries")
    queries = asked_queries(runs.golden, runs.results.responses)
    values = values_of(runs, ids := pd.Index(queries["query_id"]))
    changes = changes_of(runs, values)
    if query is not None:
        check_type(query, str, "query", "the id of a query")
        check_known(query, ids, "query", "query", "these runs were asked")
    outcomes = _known_outcomes(outcome, outcomes_in(changes), len(runs.run_ids))
    state = {"query": query, "search": search, "outcome": outcomes}
    order = read_first(changes)
    asked = [] if query is None else ids.get_indexer([query]).tolist()
    kept = sorted(list(dict.fromkeys([*asked, *order.tolist()]))[:max_queries])
    made = content(runs, queries.iloc[kept], values, changes, by, texts)
    left_out = tuple(_left_out(runs, queries, made, code, max_queries))
    header = {"title": title, "verdict": verdict, "left_out": left_out}
    listed = listed_of(runs, queries, changes).iloc[order[np.isin(order, kept)]]
    listed = listed.reset_index(drop=True)
    return Explorer(title, left_out, listed, state, pack(header | made), code)


def _left_out(
    runs: Runs, queries: pd.DataFrame, made: dict[str, Any], code: str, most: int
) -> Iterator[str]:
    golden, items = runs.golden.queries, made["items"]
    if n := len(golden) - int(is_among(queries["query_id"], golden["query_id"]).sum()):
        yield f"Left out: {plural(n, 'golden query')} that no run was asked."
    if items and not any("text" in one for one in items):
        yield (
            f"The hits kept no text. {code}.explore(texts=frame) shows it,"
            " from a frame with chunk_id and text."
        )
    if len(queries) > most:
        kept = "that changed most" if runs.compared else "to read first"
        yield (
            f"{most:,} of {len(queries):,} queries are here, those {kept}:"
            f" {code}.explore(max_queries={len(queries)}) shows all."
        )


def _known_outcomes(
    outcome: list[str] | str | None, words: list[str], n_runs: int
) -> list[str] | None:
    if outcome is None:
        return None
    if n_runs < 2:
        raise DataError(
            "one run has no outcomes", field="outcome", allowed="two runs or more, or no outcome"
        )
    known = list(dict.fromkeys([*OUTCOMES, *words]))
    named = names_of(outcome, "outcome", f"outcomes: {name_list(known)}")
    check_known(named, known, "outcome", "outcome")
    return named
