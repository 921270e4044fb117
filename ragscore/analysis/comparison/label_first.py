"""Hits to label first: unjudged ones that only one of two compared runs returned.

In: a comparison. Out: these hits, ordered by how far a label would move the difference of the two
runs, and how many labels it takes at least before the sign of that difference could turn.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.comparison.deltas import SAME
from ragscore.analysis.result_forms import FramesResult
from ragscore.analysis.unjudged import lists_at, movable
from ragscore.frames.data import DataError, check_type
from ragscore.frames.errors import nearest, plural
from ragscore.frames.typing import Codes, Values
from ragscore.scoring.metrics import MOVABLE, parse_label
from ragscore.scoring.metrics.table import by_aspect
from ragscore.scoring.policies import Policies, resolve_policies
from ragscore.scoring.rules import LEVELS
from ragscore.scoring.unjudged import JudgedLists, label_bounds, scores_if
from ragscore.scoring.value_states import label_of, metric_columns

PLACE = ("doc_id", "chunk_id", "path", "heading", "text")
LONGEST = 60  # characters of a query in the printed table
SIDES = ("baseline", "candidate")


@dataclass(frozen=True, repr=False, eq=False)
class LabelFirst(FramesResult):
    """Hits whose labels would move a comparison most.

    Attributes
    ----------
    hits
        One row per query and unjudged document or chunk that only one run returned within the cut
        of the metric, in the order to label them: `query_id`, `query`; `run`, which side returned
        it (baseline, candidate), and its `run_id`; the `rank` there; doc_id, chunk_id, path,
        heading and text, what of these the hits have; `delta`, the query's difference candidate −
        baseline as it counts today; `delta_if_relevant`, the same if this hit were relevant (at the
        lowest grade that is) and nothing else; `change`, the difference of the two; `towards`, the
        run that the label would help (NA: neither); `ends_lead`, True if this label alone would
        take the lead from the run that has it; the match `level` that the label must have.
        Labels that end the lead come first, then the largest change, whatever its direction: a
        list of one side alone would be a biased one. The order says how much a label would matter,
        not how likely the hit is to be relevant.
    metric
        The metric that is moved.
    n_to_turn
        A lower bound on the number of relevant labels before the lead could end, or the sign of the
        mean difference turn; None if no labels of these runs' hits can do that.
    sentence
        The same in words.
    """

    FRAMES = ("hits",)

    hits: pd.DataFrame
    metric: str
    n_to_turn: int | None
    sentence: str

    def _heading(self) -> str:
        return self.sentence

    def _shown(self) -> pd.DataFrame:
        ids = {"doc": "doc_id"}.get(str(self.hits["level"].min()), "chunk_id")
        ids = ids if ids in self.hits else "doc_id"
        names = ["query_id", "query", "run", "rank", ids, "delta", "delta_if_relevant", "towards"]
        shown = self.hits[[name for name in names if name in self.hits]].round(3)
        cut = shown["query"].str.len() > LONGEST
        texts = shown["query"].where(~cut, shown["query"].str.slice(0, LONGEST - 1) + "…")
        return shown.assign(query=texts)


def label_first(cmp: Any, n: int | None = 20, metric: str | None = None) -> LabelFirst:
    """List the unjudged hits whose labels would move the comparison most.

    These are hits within the metric's cut that only one of the two runs returned, of queries that
    both have a value of. `rs.label(golden_file, results, first=...)` opens them in this order.

    Parameters
    ----------
    n
        The number of hits; None: all.
    metric
        A ranking metric that was compared; by default the primary one, else the first of ndcg@10,
        mrr@10, mrr, recall@10, hit@10 that was.

    Returns
    -------
    `LabelFirst`: the frame `hits`, `n_to_turn` and a `sentence`; its docstring has the columns.

    Raises
    ------
    DataError
        A metric that wasn't compared, or that labels of hits don't move; a comparison that was
        reloaded from JSON.

    Examples
    --------
    >>> ev.compare("dense", "hybrid").label_first(5)
    """
    golden, scores = cmp._evaluated
    if cmp.results is None:
        raise DataError(
            "a comparison from JSON holds no hits",
            field="results",
            allowed="rs.evaluate(results, golden).compare(baseline, candidate)",
        )
    check_type(n, (int, type(None)), "n", "a number of hits, or None for all")
    label = _metric(cmp, scores, metric)
    holding = resolve_policies(cmp.profile, Policies(**cmp.policies))
    rows = scores[scores["state"].ne("extra").to_numpy()].reset_index()
    first, second = (
        rows[rows["run_id"].astype("str").eq(run).to_numpy()].set_index("query_id")
        for run in (cmp.baseline, cmp.candidate)
    )
    values = pd.DataFrame({"baseline": first[label.text], "candidate": second[label.text]})
    counts = values.dropna().assign(level=first["level"].astype("str"))
    counts["delta"] = counts["candidate"] - counts["baseline"]
    total = float(counts["delta"].sum())
    used = [label.level] if label.level else [one for one in LEVELS if one in set(counts["level"])]
    plain = parse_label(label.text.removesuffix(f":{label.level}"))
    hits, singles, most = [], [], []
    for level in used:
        here = counts if label.level else counts[counts["level"].eq(level).to_numpy()]
        rule = None if label.level else cmp.rule
        lists = lists_at(level, golden, cmp.results, rule, cmp.profile, holding)
        pair = _Pair(lists, plain, (cmp.baseline, cmp.candidate), here)
        hits.append(pair.hits().assign(level=level))
        single, whole = pair.shifts(total)
        singles.append(single)
        most.append(whole)
    found = pd.concat(hits, ignore_index=True)
    lead = np.sign(total) if abs(total) > SAME else 0.0
    found["ends_lead"] = (lead * (total + found["change"]) <= SAME) & (lead != 0)
    against = found["change"] * lead < 0
    order = found.assign(size=found["change"].abs().round(12), against=against).sort_values(
        ["ends_lead", "size", "against", "rank"], ascending=[False, False, False, True],
        kind="stable",
    )  # fmt: skip
    queries = golden.queries.set_index("query_id")["query"]
    ordered = found.loc[order.index].reset_index(drop=True)
    ordered.insert(1, "query", queries.reindex(ordered["query_id"]).to_numpy())
    n_to_turn = _fewest(total, np.concatenate(singles), np.concatenate(most))
    sentence = _sentence(cmp, label.text, total, len(counts), n_to_turn, len(ordered))
    return LabelFirst(ordered.head(len(ordered) if n is None else n), label.text, n_to_turn,
                      sentence)  # fmt: skip


def _metric(cmp: Any, scores: pd.DataFrame, metric: str | None) -> Any:
    """Return the label of the metric to move."""
    known = metric_columns(scores)
    if metric is not None:
        check_type(metric, str, "metric", "one metric")
        name = metric if metric in known else parse_label(metric).text
        if name not in known:
            raise DataError(
                f"{name} wasn't compared",
                field="metric",
                allowed=nearest(name, known, "metrics that were compared:"),
            )
        return movable([name])[0]
    can_move = [name for name in known if label_of(name).name in MOVABLE]
    for name in [*cmp.primary, *by_aspect()["retrieval"], *can_move]:
        if name in can_move and scores[name].notna().any():
            return label_of(name)
    raise DataError(
        "no ranking metric was compared", field="metric", allowed="such as metrics=['ndcg@10']"
    )


class _Pair:
    """The unjudged items of two runs' lists, matched at one level."""

    def __init__(
        self, lists: JudgedLists, label: Any, runs: tuple[str, str], counts: pd.DataFrame
    ) -> None:
        self.lists, self.label, self.runs, self.counts = lists, label, runs, counts
        queries = pd.Index(lists.golden.queries["query_id"])
        run_ids = pd.Index(lists.rows["run_id"].cat.categories.astype("str"))
        query = queries.get_indexer(counts.index)
        # the rows of both runs, query by query
        self.rows = [run_ids.get_loc(run) * len(queries) + query for run in runs]
        place = np.full(len(lists.rows), -1)
        for rows in self.rows:
            place[rows] = np.arange(len(counts))
        free = np.flatnonzero(lists.is_first & (place[lists.row] >= 0))
        # one number per item: of which query it is, and where each run has it
        self.item, item = np.unique(lists.item[free], return_inverse=True)
        self.query = np.zeros(len(self.item), np.int64)
        self.query[item] = place[lists.row[free]]
        self.at = [np.full(len(self.item), -1) for _ in runs]
        for at, rows in zip(self.at, self.rows, strict=True):
            own = np.isin(lists.row[free], rows)
            at[item[own]] = free[own]

    def changes(self, grade: int) -> Values:
        """Return how each item would change its query's difference if it had this grade."""
        lists, text = self.lists, self.label.text
        none = np.zeros(0, np.int64)
        case = np.arange(len(self.item))
        sides = []
        for rows in self.rows:
            today = scores_if(lists, [text], rows, none, none, 1)[text]
            labelled = scores_if(lists, [text], rows[self.query], case, self.item, grade)[text]
            sides.append(labelled - today[self.query])
        return np.nan_to_num(sides[1] - sides[0])

    def hits(self) -> pd.DataFrame:
        """One row per item that only one run has within the cut."""
        lists, k = self.lists, self.label.k
        within = [(at >= 0) & (lists.within(k)[at]) for at in self.at]
        alone = within[0] != within[1]
        of_candidate = within[1][alone]
        at = np.where(of_candidate, self.at[1][alone], self.at[0][alone])
        change = self.changes(lists.min_grade)[alone]
        delta = self.counts["delta"].to_numpy()[self.query[alone]]
        hit = lists.hits.iloc[lists.hit[at]].reset_index(drop=True)
        frame = {
            "query_id": self.counts.index.astype("str")[self.query[alone]],
            "run": np.where(of_candidate, *SIDES[::-1]),
            "run_id": np.where(of_candidate, *self.runs[::-1]),
            "rank": lists.rank[at],
            **{name: hit[name] for name in PLACE if name in hit},
            "delta": delta,
            "delta_if_relevant": delta + change,
            "change": change,
            "towards": pd.Series(np.where(change > 0, *SIDES[::-1])).where(np.abs(change) > SAME),
        }
        return pd.DataFrame(frame)

    def shifts(self, total: float) -> tuple[Values, Values]:
        """Return how far one label, and any labels, can move each query against the lead."""
        lists, n = self.lists, len(self.counts)
        sign = np.sign(total) or 1.0
        single = np.zeros(n)
        for grade in range(1, lists.highest_grade + 1):
            np.maximum.at(single, self.query, -sign * self.changes(grade))
        # every item of either list may be relevant; those of the other list are targets, too
        n_items = np.bincount(self.query, minlength=n)
        bounds = []
        for at, rows in zip(self.at, self.rows, strict=True):
            outside = np.zeros(len(lists.rows), dtype=np.int64)
            outside[rows] = n_items - np.bincount(self.query[at >= 0], minlength=n)
            bounds.append(label_bounds(lists, [self.label], outside)[self.label.text])
        (low_a, high_a), (low_b, high_b) = bounds
        a, b = self.rows
        delta = self.counts["delta"].to_numpy()
        farthest = low_b[b] - high_a[a] if sign > 0 else high_b[b] - low_a[a]
        return single, np.fmax(sign * (delta - farthest), single)


def _fewest(total: float, single: Values, most: Values) -> int | None:
    """Return how few labels could bring the sum of the differences to 0, at the very least.

    One label moves a query by `single` at most, and any number of labels by `most`. So if a second
    label of a query did all the rest, the first is worth `single`, or half of `most` if that is
    more, and the second what is left.
    """
    one = np.maximum(single, most / 2)
    worth = np.sort(np.concatenate([one, most - one]))[::-1]
    reached: npt.NDArray[np.bool_] = np.cumsum(worth) >= abs(total) - SAME
    if not reached.any() or not worth[0] > SAME:
        return None
    needed: Codes = np.flatnonzero(reached)
    return int(needed[0]) + 1


def _sentence(
    cmp: Any, metric: str, total: float, n: int, n_to_turn: int | None, n_hits: int
) -> str:
    found = f"{plural(n_hits, 'unjudged hit')} that only one run returned"
    if abs(total) <= SAME:
        return f"{metric}: the means are equal over {n} queries; {found}."
    leads = cmp.candidate if total > 0 else cmp.baseline
    text = f"{metric}: {leads} leads by {abs(total) / n:.3f} over {n} queries; {found}. "
    if n_to_turn is None:
        return text + "No labels of these runs' hits can end that lead."
    return text + (
        f"At least {plural(n_to_turn, 'relevant label')} must be found before that lead could end."
    )
