"""The content of an explorer: every query of some runs, its hits, targets and answers, in columns.

In: results, golden set, scores and the comparisons of these runs. Out: a dict that JSON holds, in
which each document stands once and every list of a query is a slice of one column. Everything is
computed by column operations; outcomes are those of the comparisons. Infinite scores are null.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.align import align
from ragscore.analysis.comparison.model import OUTCOMES
from ragscore.analysis.comparison.text import reading_priority
from ragscore.analysis.conversations import turn_numbers
from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import Results
from ragscore.frames.typing import Codes, Flags, Values
from ragscore.plot.style import in_order, run_styles
from ragscore.reporting.explorer.lists import Asked, Lists, Runs, column, starts, texts_of
from ragscore.reporting.reading import newly_answered
from ragscore.scoring.metrics import headline_of
from ragscore.scoring.summary import Slicing, slice_names, slices
from ragscore.scoring.value_states import chosen_columns

SAME = ("draw", "both_miss", "no_target", "")  # outcomes by which nothing changed
SLICED = (
    "difficulty",
    "category",
    "lang",
    "conversation",
)  # columns of the golden set that are filters by default
MOST_VALUES = 200  # of a default filter
DIGITS = 6  # significant ones of scores and metrics


class Columns:
    """All that is known of the queries of some runs, as columns by query and run.

    `content` writes them down; its arguments leave out what is too much.
    """

    def __init__(
        self, runs: Runs, by: Slicing | None = None, texts: pd.DataFrame | None = None
    ) -> None:
        self.runs, self.by, self.texts = runs, by, texts
        self.asked = asked = Asked(runs)
        self.queries, self.ids = asked.queries, asked.ids
        self.n, self.n_runs = asked.n, asked.n_runs
        self.n_unasked = len(runs.golden.queries) - int(
            is_among(self.ids, runs.golden.queries["query_id"]).sum()
        )
        # one row per query, in their order
        self.per_query = [
            one.per_query.set_index("query_id").reindex(self.ids).reset_index()
            for one in runs.compared
        ]
        found = [one["outcome"].dropna().unique().tolist() for one in self.per_query]
        self.words = list(dict.fromkeys([*OUTCOMES, *(str(word) for one in found for word in one)]))

    @cached_property
    def results(self) -> Results:
        """The runs with all hits in the order in which they are scored."""
        return self.asked.ranked(self.asked.results.hits)

    @cached_property
    def whole(self) -> Lists:
        """The lists of all queries."""
        return Lists(self.asked, None, self.texts)

    @cached_property
    def lacks_texts(self) -> bool:
        """Tell if there are hits, and nothing holds a text of them."""
        hits = self.asked.results.hits
        texts = texts_of(hits, self.asked.results, self.texts)
        return bool(len(hits) and texts.isna().all())

    # By query and run

    @cached_property
    def outcome(self) -> Codes:
        """Codes of `words`, runs × queries; -1 where nothing is compared."""
        codes = np.full((self.n_runs, self.n), -1)
        for place, one in enumerate(self.per_query, start=1):
            codes[place] = lookup(one["outcome"], pd.Index(self.words, dtype="str"))
        return codes

    @cached_property
    def is_changed(self) -> Flags:
        """Flag the queries of which any run has another outcome or primary value than the first."""
        same = [place for place, word in enumerate(self.words) if word in SAME]
        moved = ~np.isin(self.outcome, [-1, *same]) | (np.nan_to_num(self.change) > 0)
        return np.any(moved, axis=0)

    @cached_property
    def of_interest(self) -> Flags:
        """Flag the queries that changed; of one run, those with targets of which none was found."""
        if self.runs.compared:
            return self.is_changed
        with_target = np.zeros(self.n, dtype=bool)
        with_target[self.whole.targets["query"].to_numpy()] = True
        return with_target & np.isnan(self.first[0])

    @cached_property
    def order(self) -> Codes:
        """Queries of interest, those to be read first first; of one run, by its primary metric."""
        if self.runs.compared:
            size = -np.fmin.reduce(self.priority, axis=0)
        else:
            primary = self.metric[0, 0] if len(self.metric) else np.zeros(self.n)
            size = (
                primary
                if self.runs.declared.describe(self.metrics[0]).better == "lower"
                else -primary
            )
        order = np.argsort(-np.nan_to_num(size, nan=-np.inf), kind="stable")
        return order[self.of_interest[order]]

    @cached_property
    def priority(self) -> Values:
        """`reading_priority`, comparisons × queries; NaN where nothing is compared."""
        found = np.full((len(self.per_query), self.n), np.nan)
        for place, (one, cmp) in enumerate(
            zip(self.per_query, self.runs.compared, strict=True), start=1
        ):
            losses = [np.zeros(self.n)]
            for name, values in zip(self.metrics, self.metric, strict=True):
                described = self.runs.declared.describe(name)
                if name in self.runs.primary and np.isfinite(described.width):
                    fall = (values[0] - values[place]) / described.width
                    losses.append(-fall if described.better == "lower" else fall)
            known = one["outcome"].notna().to_numpy()
            loss = np.fmax.reduce(losses, axis=0)[known]
            answered = newly_answered(self.runs.scores, cmp.baseline, cmp.candidate)
            found[place - 1, known] = reading_priority(one[known], answered, loss)
        return found

    @cached_property
    def change(self) -> Values:
        """Size of each query's change, runs × queries; NaN where nothing is compared.

        The largest difference of a primary metric, as a share of the metric's range. A millionth of
        the change in reciprocal rank is added, so that ties are in the order of ranks moved.
        """
        sizes = np.full((self.n_runs, self.n), np.nan)
        for place, one in enumerate(self.per_query, start=1):
            shares = np.zeros(self.n)
            for name, values in zip(self.metrics, self.metric, strict=True):
                width = self.runs.declared.describe(name).width
                if name in self.runs.primary and np.isfinite(width):
                    difference = np.abs(values[place] - values[0]) / width
                    shares = np.fmax(shares, difference)
            first, second = (
                np.nan_to_num(1 / one[f"rank_{side}"].to_numpy("float64", na_value=np.inf))
                for side in ("baseline", "candidate")
            )
            known = one["outcome"].notna().to_numpy()
            sizes[place] = np.where(known, shares + 1e-6 * np.abs(second - first), np.nan)
        return sizes

    @cached_property
    def first(self) -> Values:
        """Rank of the first hit that met a target, runs × queries; NaN for none.

        Of several calls, the best rank within a call that is scored. Where runs are compared,
        within the cut of the comparison.
        """
        ranks = np.full((self.n_runs, self.n), np.nan)
        if self.per_query:
            widest = max(range(len(self.per_query)), key=lambda one: self.runs.compared[one].k)
            sides = [self.per_query[widest]["rank_baseline"]]
            sides += [one["rank_candidate"] for one in self.per_query]
            for place, side in enumerate(sides):
                ranks[place] = side.to_numpy("float64", na_value=np.nan)
            return ranks
        met = self.whole.met
        met = met[met["is_read"].to_numpy() & (met["grade"] > 0)]
        firsts = met.groupby("query")["rank"].min()
        ranks[0, firsts.index] = firsts.to_numpy()
        return ranks

    def notes(self, run: int, rows: Codes) -> list[str]:
        """Say what changed in a run's queries: ranks, known causes, targets found and lost."""
        if run == 0:
            return [""] * len(rows)
        own = self.per_query[run - 1].iloc[rows]
        columns = (own[name].fillna("").tolist() for name in ("note", "gained", "lost"))
        return [
            "; ".join(
                part
                for part in (
                    note,
                    f"new: {gained}" if gained else "",
                    f"lost: {lost}" if lost else "",
                )
                if part
            )
            for note, gained, lost in zip(*columns, strict=True)
        ]

    @cached_property
    def metrics(self) -> list[str]:
        """Primary metrics first, then the headline ones that have a value."""
        scores = self.runs.scores
        names = [name for name in chosen_columns(scores, None) if scores[name].notna().any()]
        return list(dict.fromkeys([*(one for one in self.runs.primary if one in names),
                                   *headline_of(names)]))  # fmt: skip

    @cached_property
    def metric(self) -> Values:
        """Values, metrics × runs × queries."""
        if not self.metrics:
            return np.zeros((0, self.n_runs, self.n))
        aligned = align(self.runs.scores, self.metrics, self.runs.run_ids)
        place = lookup(self.ids, aligned.query_ids)
        values = aligned.values[place]
        values[place < 0] = np.nan
        return np.moveaxis(values, 0, 2).swapaxes(0, 1)

    @cached_property
    def slices(self) -> list[tuple[str, list[str], list[Any]]]:
        """Name, values in their own order, and each query's code, or codes, of every filter."""
        golden = self.runs.golden
        names = list(slice_names(self.by)) if self.by is not None else [
            *(name for name in SLICED if name in golden.queries),
            *dict.fromkeys(golden.tags["kind"].tolist()),
        ]  # fmt: skip
        found = []
        for name in names:
            rows = slices(golden, name)
            values = in_order(sorted(rows[name].unique(), key=lambda one: (one == "(none)", one)))
            if self.by is None and not 1 < len(values) <= MOST_VALUES:
                continue
            rows = rows.assign(code=pd.Index(values).get_indexer(pd.Index(rows[name])))
            rows["query"] = self.asked.query_of(rows)
            rows = rows[(rows["query"] >= 0).to_numpy()]
            if rows["query"].is_unique:
                placed = np.full(self.n, -1)
                placed[rows["query"]] = rows["code"]
                codes: list[Any] = placed.tolist()
            else:
                codes = [[] for _ in range(self.n)]
                for query, code in zip(rows["query"].tolist(), rows["code"].tolist(), strict=True):
                    codes[query].append(code)
            found.append((name, [str(one) for one in values], codes))
        return found

    def content(self, chosen: Flags | None = None) -> dict[str, Any]:
        """Return everything as lists, of the queries chosen or of all."""
        shown = np.arange(self.n) if chosen is None else np.flatnonzero(chosen)
        lists = self.whole if chosen is None else Lists(self.asked, chosen, self.texts)
        return Content(self, lists, shown).made()


class Content:
    """What is written of some queries: `shown`, their places, and the lists of those kept."""

    def __init__(self, columns: Columns, lists: Lists, shown: Codes) -> None:
        self.columns, self.lists, self.shown = columns, lists, shown
        self.asked, self.runs = columns.asked, columns.runs
        self.n, self.n_runs = len(shown), columns.n_runs
        self.number = np.full(columns.n, -1)
        self.number[shown] = np.arange(self.n)

    def made(self) -> dict[str, Any]:
        """Return it all."""
        columns, shown = self.columns, self.shown
        targets = self.lists.targets
        items, hit_items, cited_items = self._items()
        queries = {
            "id": columns.ids[shown].tolist(),
            "text": columns.queries["query"].iloc[shown].tolist(),
            "refuse": columns.queries["refuse"].to_numpy()[shown].astype(int).tolist(),
            "outcome": columns.outcome[:, shown].tolist(),
            "change": [numbers(row[shown]) for row in columns.change],
            "note": [columns.notes(run, shown) for run in range(self.n_runs)],
            "first": [_plain(pd.Series(row[shown]).astype("Int64")) for row in columns.first],
            "metric": [[numbers(row[shown]) for row in of_metric] for of_metric in columns.metric],
            "slice": [[codes[row] for row in shown.tolist()] for _, _, codes in columns.slices],
        }
        queries |= self._turns()
        runs = self.asked.results.runs.set_index(self.asked.results.runs["run_id"].astype("str"))
        styles = run_styles(self.runs.scores)
        k_of = runs["k"] if "k" in runs else pd.Series(dtype="Int64")
        roles = ["baseline", *["candidate"] * (self.n_runs - 1)] if self.n_runs > 1 else [None]
        citations = self.lists.citations.assign(item=cited_items)
        content: dict[str, Any] = {
            "runs": [
                {
                    "id": run_id,
                    "colour": styles[run_id].colour,
                    "role": role,
                    "k": None if pd.isna(k := k_of.get(run_id)) else int(k),
                }
                for run_id, role in zip(self.runs.run_ids, roles, strict=True)
            ],
            "metrics": [
                {
                    "name": name,
                    "better": metric.better,
                    "primary": name in self.runs.primary,
                    "decimals": {"binary": 0, "time": 1, "cost": 4}.get(metric.kind, 2),
                    "kind": metric.kind,
                }
                for name in columns.metrics
                for metric in [self.runs.declared.describe(name)]
            ],
            "outcomes": columns.words,
            "slices": [{"name": name, "values": values} for name, values, _ in columns.slices],
            "queries": queries,
            "items": items,
            "hits": self._hits_content(hit_items),
            "targets": {
                "start": self._starts(targets),
                "name": targets["name"].tolist(),
                "grade": targets["grade"].tolist(),
                "others": targets["others"].tolist(),
                "rank": [_plain(targets[f"rank{run}"]) for run in range(self.n_runs)],
            }
            | (
                {"call": [_plain(targets[f"call{run}"]) for run in range(self.n_runs)]}
                if len(self.lists.calls)
                else {}
            ),
            "answers": self._answers_content(),
            "citations": self._of_each_run(citations, ("marker", "item", "label")),
            "checks": self._checks_content(),
        }
        calls = self.lists.calls
        names = ("call", "asked", "tool", "elapsed_ms", "error", "n_hits", "is_read")
        more = {
            "calls": self._of_each_run(calls, names, ("elapsed_ms",)) if len(calls) else {},
            "judgments": self._judgments_content(),
        }
        return content | {name: part for name, part in more.items() if part}

    def _starts(self, rows: pd.DataFrame) -> list[int]:
        return starts(self.number[rows["query"].to_numpy()], self.n).tolist()

    def _items(self) -> tuple[dict[str, list[Any]], Codes, Codes]:
        """Return the items in use by their columns, and their codes in hits and citations."""
        parts = [rows["item"].to_numpy() for rows in (self.lists.hits, self.lists.citations)]
        used = np.zeros(len(self.lists.items) + 1, dtype=bool)  # the last place: no item
        for codes in parts:
            used[codes] = True
        used[-1] = False
        code = np.where(used, np.cumsum(used) - 1, -1)
        rows = self.lists.items[used[:-1]]
        columns = {
            str(name): _plain(rows[name])
            for name in rows
            if name in ("id", "text") or rows[name].notna().any()
        }
        return columns, code[parts[0]], code[parts[1]]

    def _hits_content(self, items: Codes) -> dict[str, Any]:
        hits, met = self.lists.hits.assign(item=items), self.lists.met
        place = starts(met["hit"].to_numpy(), len(hits))
        places = self.lists.places.tolist()
        # Most hits met nothing, and share one list.
        targets: list[list[int]] = [[]] * len(hits)
        for hit in np.flatnonzero(np.diff(place)).tolist():
            targets[hit] = places[place[hit] : place[hit + 1]]
        columns: dict[str, Any] = {"start": [], "kind": []}
        for run in range(self.n_runs):
            first, last = np.searchsorted(hits["run"].to_numpy(), [run, run + 1]).tolist()
            own = hits.iloc[first:last]
            kinds = own["score_kind"].dropna().unique().tolist()
            columns["start"].append(self._starts(own))
            columns["kind"].append(", ".join(kinds) or None)
            listed = {
                "item": _plain(own["item"]),
                "score": numbers(own["score"]),
                "grade": _plain(own["grade"]),
                "target": targets[first:last],
                "rank": _plain(own["rank"]),
                "span": _plain(own["span"]),
            }
            if "repeats" in own:
                listed |= {name: _plain(own[name]) for name in ("call", "place", "repeats")}
            for name, values in listed.items():
                columns.setdefault(name, []).append(values)
        return columns

    def _of_each_run(
        self, rows: pd.DataFrame, names: Sequence[str], numeric: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return columns of rows that are ordered by query, with one list per run."""
        columns: dict[str, Any] = {"start": [], **{name: [] for name in names if name in rows}}
        for run in range(self.n_runs):
            own = rows[(rows["run"] == run).to_numpy()]
            columns["start"].append(self._starts(own))
            for name in [one for one in names if one in rows]:
                columns[name].append(numbers(own[name]) if name in numeric else _plain(own[name]))
        return columns

    def _turns(self) -> dict[str, list[Any]]:
        """Return the conversation and the number of the turn of each query, where any has one."""
        golden = self.runs.golden.queries
        if "conversation" not in golden:
            return {}
        rows = lookup(self.columns.ids[self.shown], pd.Index(golden["query_id"]))
        turns = turn_numbers(golden).where(golden["conversation"].notna().to_numpy())
        return {
            "conversation": _taken(golden["conversation"], rows),
            "turn": _taken(turns.astype("Int64"), rows),
        }

    @cached_property
    def _responses(self) -> list[Codes]:
        """Rows of each run's responses, one per query shown; -1 for none, or where not kept."""
        responses = self.asked.results.responses
        rows = np.full((self.n_runs + 1, self.columns.n + 1), -1)  # the last: not shown
        rows[self.asked.run_of(responses), self.asked.query_of(responses)] = np.arange(
            len(responses)
        )
        return [row[self.shown] for row in rows[:-1]]

    def _answers_content(self) -> dict[str, Any]:
        names = {
            "text": "answer", "refused": "refused", "reason": "refusal_reason", "error": "error",
            "latency_ms": "elapsed_ms",
        }  # fmt: skip
        responses, found = self.asked.results.responses, dict[str, Any]()
        for name, known_as in names.items():
            if known_as in responses and responses[known_as].notna().any():
                made = [_taken(responses[known_as], rows) for rows in self._responses]
                found[name] = [numbers(one) for one in made] if name == "latency_ms" else made
        known = self.runs.golden.queries
        if "reference_answer" in known and known["reference_answer"].notna().any():
            rows = lookup(self.columns.ids[self.shown], pd.Index(known["query_id"]))
            found["reference"] = _taken(known["reference_answer"], rows)
        return found

    def _judgments_content(self) -> dict[str, Any]:
        judged = self.asked.results.judgments
        if judged is None or not len(judged):
            return {}
        rows = pd.DataFrame(
            {"run": self.asked.run_of(judged), "query": self.asked.query_of(judged)}
        )
        for name in ("criterion", "value", "verdict", "reason"):
            rows[name] = judged[name].to_numpy() if name in judged else None
        item = judged["item"].astype("str")
        rows["item"] = column(judged, "item_text").fillna(item).to_numpy()
        rows = rows[self.lists.is_kept(rows["query"].to_numpy())]
        rows = rows.sort_values(["run", "query"], kind="stable")
        names = ("criterion", "value", "verdict", "reason", "item")
        return self._of_each_run(rows, names, ("value",))

    def _checks_content(self) -> dict[str, Any]:
        checks = self.runs.golden.checks
        query = self.asked.query_of(checks)
        kept = self.lists.is_kept(query)
        rows = checks[kept].assign(query=query[kept]).sort_values("query", kind="stable")
        responses = self.asked.results.responses
        met = []
        for at in self._responses:
            row = at[self.number[rows["query"].to_numpy()]]
            answers = (
                _taken(responses["answer"], row) if "answer" in responses else [None] * len(row)
            )
            told = zip(rows["kind"].tolist(), rows["text"].tolist(), answers, strict=True)
            met.append([_is_met(kind, text, answer) for kind, text, answer in told])
        return {
            "start": self._starts(rows),
            "kind": rows["kind"].tolist(),
            "text": rows["text"].tolist(),
            "met": met,
        }


def _is_met(kind: str, text: str, answer: object) -> bool | None:
    """Tell if an answer meets a check; None for checks that take a judge, and without an answer."""
    if kind not in ("must_contain", "forbidden") or not isinstance(answer, str):
        return None
    return (text in answer) == (kind == "must_contain")


def _plain(values: pd.Series) -> list[Any]:
    return values.astype(object).where(values.notna().to_numpy(), None).tolist()


def _taken(values: pd.Series, rows: Codes) -> list[Any]:
    """Return the values of these rows; None for row -1."""
    found = np.full(len(rows), None, dtype=object)
    found[rows >= 0] = np.array(_plain(values.iloc[rows[rows >= 0]]), dtype=object)
    return found.tolist()


def numbers(values: Any) -> list[float | None]:
    """Return numbers as JSON has them: six digits, null where unknown or infinite."""
    given = pd.Series(values).to_numpy("float64", na_value=np.nan)
    is_known = np.isfinite(given)
    size = np.abs(given, where=is_known & (given != 0), out=np.ones(len(given)))
    places = DIGITS - 1 - np.floor(np.log10(size))
    is_plain = is_known & (np.abs(places) < 16)
    places = np.where(is_plain, places, 0.0)
    up, down = 10.0 ** places.clip(0), 10.0 ** -places.clip(None, 0)
    scaled = np.where(is_plain, given, 0.0) * up / down
    found = (np.rint(scaled) * down / up).astype(object)
    # what stands between two numbers of so many digits is rounded by its text
    is_between = np.abs(scaled - np.floor(scaled) - 0.5) < 1e-6
    by_text = np.flatnonzero(is_known & (is_between | ~is_plain))
    found[by_text] = [float(f"{one:.{DIGITS}g}") for one in given[by_text].tolist()]
    found[~is_known] = None
    rounded: list[float | None] = found.tolist()
    return rounded
