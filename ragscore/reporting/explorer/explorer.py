"""`Explorer`, what `cmp.explore()` and `ev.explore()` return, and how its content is made to fit.

In: a comparison or an evaluation. Out: an object that a notebook shows, a page embeds, and a file
holds.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.compare import RankChanges, compare_ranks
from ragscore.analysis.comparison.invariants import field_invariants
from ragscore.analysis.comparison.model import Comparison, count_outcomes
from ragscore.analysis.comparison.text import describe_matching
from ragscore.analysis.decision import words_against
from ragscore.analysis.reported import refuse_without_rows
from ragscore.frames.data import DataError, Results, check_type, run_names
from ragscore.frames.errors import (
    check_known,
    excerpt,
    name_list,
    names_of,
    nearest,
    packages_of,
)
from ragscore.frames.escaping import visible
from ragscore.frames.render import decimals_for, shown_interval
from ragscore.frames.tables import Table
from ragscore.frames.typing import Flags
from ragscore.io.output import write_text
from ragscore.plot.style import all_runs
from ragscore.reporting.explorer.data import Columns
from ragscore.reporting.explorer.element import Mounted, element, frame, pack, page
from ragscore.reporting.explorer.lists import Runs
from ragscore.reporting.page import each
from ragscore.reporting.reading import ANSWERED
from ragscore.scoring.level import choose_level
from ragscore.scoring.policies import Policies, read_refusals, resolve_policies
from ragscore.scoring.summary import Slicing

if TYPE_CHECKING:
    from ragscore.golden.labelling.panel import LabelPanel

LARGEST = 20  # rows of the plain table
MAX_QUERIES = 1_000  # with texts about 4 MB, which a page opens within half a second
HIT = ["run_id", "rank", "chunk_id", "doc_id", "path"]


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
    state
        What it opens with: query, outcome, search.
    results
        The runs shown.
    packed
        The content as it is embedded: JSON, gzip, base64.
    """

    title: str
    left_out: tuple[str, ...]
    state: dict[str, Any]
    results: Results
    packed: str
    _columns: Columns
    _code: str
    _texts: pd.DataFrame | None = field(default=None)

    def to_html(self) -> str:
        """Return the explorer as an element of a page, with its style and script."""
        mounted = self.mounted()
        return f"{mounted.html}<style>{mounted.style}</style><script>{mounted.script}</script>"

    def mounted(self, link: str | None = "hash") -> Mounted:
        """Return the parts of that element, for a page that writes style and script itself.

        Parameters
        ----------
        link
            "hash": links lead to the page's address; None: no links.
        """
        return element(
            self.packed,
            link=link,
            code=self._code,
            state=self.state,
            plain=self._plain().to_html(alone=False),
        )

    def write(self, path: str | Path) -> Path:
        """Write the explorer as a page of its own.

        Raises
        ------
        DataError
            A name that doesn't end in .html, or the file can't be written.
        """
        file = Path(path)
        if file.suffix.lower() not in (".html", ".htm"):
            raise DataError(
                f"found {file.suffix or 'no ending'!r}",
                file=file,
                field="path",
                allowed="a name that ends in .html",
            )
        return write_text(file, page(self.title, self.mounted()))

    @property
    def selected(self) -> pd.DataFrame:
        """One row for the query that is open in the notebook, with the hit that is chosen.

        Columns: query_id, query, `outcome` (of the run chosen; NA without a comparison), and of the
        hit run_id, rank, chunk_id, doc_id and path, NA where none is chosen. No row before the
        explorer was shown.

        Raises
        ------
        DataError
            anywidget, which brings the selection back, is not installed.
        """
        state = _bridge(self.frame_name).state
        ids = self._columns.ids
        query = state.get("query")
        if not isinstance(query, str) or query not in ids:
            return self._selection([])
        place = ids.get_loc(query)
        runs = self._columns.runs.run_ids
        run = state.get("run") if state.get("run") in runs[1:] else runs[min(1, len(runs) - 1)]
        code = int(self._columns.outcome[runs.index(run), place])
        row = {
            "query_id": query,
            "query": self._columns.queries["query"].iloc[place],
            "outcome": self._columns.words[code] if code >= 0 else pd.NA,
        }
        hit = state.get("hit")
        chosen = hit if isinstance(hit, dict) else {}
        hits, rank = self._columns.results.hits, chosen.get("rank")
        own = hits[
            hits["query_id"].eq(query).to_numpy()
            & hits["run_id"].astype("str").eq(str(chosen.get("run"))).to_numpy()
            & hits["rank"].eq(rank if isinstance(rank, int) else 0).to_numpy(dtype=bool)
        ]
        known = own[[name for name in HIT if name in own]].head(1).to_dict("records")
        return self._selection([{**row, **(known[0] if known else {})}])

    def _selection(self, rows: list[dict[Any, Any]]) -> pd.DataFrame:
        names = ["query_id", "query", "outcome", *HIT]
        return pd.DataFrame(rows, columns=names).astype(
            {name: "Int64" if name == "rank" else "str" for name in names}
        )

    def label(self, golden_file: str | Path) -> LabelPanel:
        """Open `rs.label` at the selected query.

        Parameters
        ----------
        golden_file
            The file to label; every click is written into it.

        Raises
        ------
        DataError
            No query is selected, or `rs.label` refuses the file.
        """
        from ragscore.golden.labelling import LabelSession
        from ragscore.golden.labelling.panel import LabelPanel

        selected = self.selected
        if not len(selected):
            raise DataError(
                "no query is selected", field="label", allowed="click a query in the explorer first"
            )
        session = LabelSession(golden_file, self.results, texts=self._texts)
        session.go(selected["query_id"].iloc[0])
        return LabelPanel(session)

    @property
    def frame_name(self) -> str:
        """What the frame in a notebook is called: a hash of what it shows."""
        return self._in_frame().name

    def _in_frame(self) -> Mounted:
        return element(self.packed, link="message", code=self._code, state=self.state)

    def _plain(self) -> Table:
        """Return the queries to read first, for hosts that show neither frame nor script."""
        columns = self._columns
        order = columns.order[:LARGEST]
        rows = pd.DataFrame({"query_id": columns.ids[order]})
        run_ids, outcomes = columns.runs.run_ids, []
        for place, run_id in enumerate(run_ids[1:], start=1):
            outcomes.append("outcome" if len(run_ids) == 2 else run_id)
            rows[outcomes[-1]] = [
                columns.words[code] if code >= 0 else "" for code in columns.outcome[place, order]
            ]
            note = "note" if len(run_ids) == 2 else f"{run_id}: note"
            rows[note] = columns.notes(place, order)
        rows["query"] = columns.queries["query"].iloc[order].tolist()
        heading = "read first" if columns.runs.compared else "worst queries"
        return Table(rows, f"{self.title}: {heading}", outcomes, is_wide=True)

    def _repr_html_(self) -> str:
        return frame(self.title, self._in_frame(), self._plain().to_html())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        with suppress(DataError):  # without anywidget everything works but `selected`
            _bridge(self.frame_name)
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __repr__(self) -> str:
        n = self._columns.n
        found = [
            f"Explorer: {self.title}, {n:,} {'query' if n == 1 else 'queries'}",
            *self.left_out,
            ".write('explorer.html') saves it",
        ]
        return visible("\n".join(found))


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
        The id of the query to open; by default the one that got worst.
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
        At most so many queries are in it: first those that changed, as they are to be read; of one
        run those without a hit. It says how many are not.

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
    if cmp.golden is None or cmp.scores is None or cmp.results is None:
        raise DataError(
            "a comparison from JSON holds neither hits nor answers",
            field="results",
            allowed="rs.evaluate(results, golden).compare(baseline, candidate).explore()",
        )
    runs = Runs(
        cmp.golden, cmp.results, cmp.scores, [cmp.baseline, cmp.candidate], (cmp,), cmp.primary,
        cmp.level, resolve_policies(cmp.profile, Policies(**cmp.policies)), cmp.rule,
        bool(cmp.profile and cmp.profile.score_refusals), cmp.declared,
    )  # fmt: skip
    head = {
        "kind": "comparison",
        "title": f"{cmp.candidate} against {cmp.baseline}",
        "verdict": [
            _headline(cmp, cmp.overall),
            *cmp._decision()[1:],
            describe_matching(cmp.level, cmp.k),
        ],
    }
    return _explorer(runs, head, "cmp", query, outcome, search, by, texts, max_queries)


def explore_runs(
    ev: Any, query: str | None, runs: list[str] | str | None, baseline: str | None, *,
    outcome: list[str] | str | None, search: str, by: Slicing | None, texts: pd.DataFrame | None,
    max_queries: int,
) -> Explorer:  # fmt: skip
    """Look through the queries of some runs; see `Evaluation.explore`."""
    given = [] if runs is None else names_of(runs, "runs")
    refuse_without_rows([*given, *([] if baseline is None else [baseline])], ev.reported)
    table = ev.results.runs
    names = list(dict.fromkeys(run_names(table, given or ev.run_ids)))
    if not names:
        raise DataError(
            "no run has rows", field="runs", allowed="runs with hits or answers, not only means"
        )
    if baseline is not None:
        (first,) = run_names(table, [baseline])
        names = [first, *(name for name in names if name != first)]
    compared, words = _compared(ev, names)
    policies = resolve_policies(ev.profile, ev.policies)
    golden = read_refusals(ev.golden, ev.profile)
    level = (
        compared[0].level if compared else choose_level(ev.results.select(names), golden, ev._level)
    )
    scores = ev.scores[ev.scores["run_id"].isin(names).to_numpy()]
    shown = Runs(
        golden, ev._with_calls(), scores, names, compared, ev.primary, level, policies, ev.rule,
        bool(ev.profile and ev.profile.score_refusals), ev.declared,
    )  # fmt: skip
    title = f"{names[1]} against {names[0]}" if len(names) == 2 else (
        f"{len(names)} runs, baseline {names[0]}" if compared else names[0]
    )  # fmt: skip
    told = [_headline(one, word) for one, word in zip(compared, words, strict=True)]
    verdict = told or [_means(ev, names[0])]
    k = max((one.k for one in compared), default=None)
    head = {
        "kind": "evaluation",
        "title": title,
        "verdict": [*verdict, describe_matching(level, k)],
    }
    with all_runs(ev._in_order):
        return _explorer(shown, head, "ev", query, outcome, search, by, texts, max_queries)


def _compared(ev: Any, names: list[str]) -> tuple[tuple[Comparison | RankChanges, ...], list[str]]:
    """Return what changed from the first run to each other, and the verdict on each.

    Verdicts are those of the question, which need no tests of each pair. Where it doesn't ask about
    these pairs, they are compared by what decides.
    """
    first, *others = names
    deciding = [name for name in (*ev.primary, ANSWERED) if name in ev.scores]
    is_asked = bool(others) and ev.profile is None and ev.baseline in (None, first)
    if not is_asked or not len(ev.question.table):
        # of two runs, and by a profile, verdicts depend on all that is compared
        metrics = deciding if ev.profile is None and len(ev.run_ids) > 2 else []
        compare = partial(ev.compare, first, metrics=metrics or None, allow_different=True)
        compared = tuple(map(compare, others))
        return compared, [one.overall for one in compared]
    words = words_against(
        first, others, ev.scores, ev._asked(ev.baseline), ev.golden,
        partial(ev.compare, allow_different=True), ev.declared,
    )  # fmt: skip
    policies = replace(ev.policies, match=ev._level)
    changes = partial(compare_ranks, ev.results, ev.golden, first, policies=policies, rule=ev.rule)
    found = tuple(map(changes, others))
    for one in found:  # warns of judges and fields that differ
        field_invariants(one.lists, deciding, one.level.name, True)
    return found, words


def _headline(cmp: Comparison | RankChanges, verdict: str) -> str:
    counts = ", ".join(f"{n} {name}" for name, n in count_outcomes(cmp.per_query).items())
    word = "" if cmp.profile else f" {verdict}."
    return f"{cmp.candidate} against {cmp.baseline}:{word} {counts}."


def _means(ev: Any, run_id: str) -> str:
    """Return the primary metrics of one run in words."""
    rows = ev.select(run_id).summary(list(ev.primary))
    told = [
        f"{metric} {shown_interval(mean, low, high, decimals_for((high - low) / 4))}, n {n}"
        for metric, mean, low, high, n in each(rows, "metric", "mean", "low", "high", "n")
        if n
    ]
    return f"{run_id}: {'; '.join(told) or 'no primary metric has a value'}."


def _explorer(
    runs: Runs, head: dict[str, Any], code: str, query: str | None,
    outcome: list[str] | str | None, search: str, by: Slicing | None, texts: pd.DataFrame | None,
    max_queries: int,
) -> Explorer:  # fmt: skip
    if texts is not None:
        check_type(texts, pd.DataFrame, "texts", "passages: a DataFrame of chunk_id and text")
    check_type(search, str, "search", "words to look for")
    check_type(max_queries, int, "max_queries", "a number of queries")
    if max_queries < 1:
        raise DataError(f"found {max_queries}", field="max_queries", allowed="1 or more")
    columns = Columns(runs, by, texts)
    state = {
        "query": _known_query(query, columns),
        "outcome": _known_outcomes(outcome, columns),
        "search": search,
    }
    chosen, left_out = _limited(columns, code, max_queries, query)
    packed = pack({"version": 1, **head, "left_out": left_out, **columns.content(chosen)})
    shown = runs.results.select(runs.run_ids)
    return Explorer(head["title"], left_out, state, shown, packed, columns, code, texts)


def _known_query(query: str | None, columns: Columns) -> str | None:
    if query is None:
        return None
    check_type(query, str, "query", "the id of a query")
    if query not in columns.ids:
        raise DataError(
            f"no query {excerpt(query)}",
            field="query",
            allowed=nearest(query, columns.ids, "these runs were asked"),
        )
    return query


def _known_outcomes(outcome: list[str] | str | None, columns: Columns) -> list[str] | None:
    if outcome is None:
        return None
    if not columns.runs.compared:
        raise DataError(
            "one run has no outcomes", field="outcome", allowed="two runs or more, or no outcome"
        )
    words = names_of(outcome, "outcome", f"outcomes: {name_list(columns.words)}")
    check_known(words, columns.words, "outcome", "outcome")
    return words


# What fits


def _limited(
    columns: Columns, code: str, most: int, query: str | None
) -> tuple[Flags | None, tuple[str, ...]]:
    """Flag at most so many queries, that one and those to read first; say what is left out."""
    left_out, chosen = list[str](), None
    if columns.n_unasked:
        left_out.append(f"{columns.n_unasked:,} golden queries that no run was asked are left out.")
    if columns.lacks_texts:
        left_out.append(
            f"The hits kept no text. {code}.explore(texts=frame) shows it,"
            " from a frame with chunk_id and text."
        )
    if columns.n > most:
        asked = columns.ids.get_indexer(pd.Index([] if query is None else [query]))
        order = pd.unique(np.concatenate([asked, columns.order, np.arange(columns.n)]))
        chosen = np.zeros(columns.n, dtype=bool)
        chosen[order[:most]] = True
        left_out.append(
            f"{most:,} of {columns.n:,} queries are here, those to read first:"
            f" {code}.explore(max_queries={columns.n}) shows all."
        )
    return chosen, tuple(left_out)
