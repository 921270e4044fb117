"""The content of an explorer: every query of some runs, its hits, targets and answers, in columns.

In: results, golden set, scores and the comparisons of these runs. Out: a dict that JSON holds, in
which each document stands once and every list of a query is a slice of one column. Everything is
computed by column operations; outcomes are those of the comparisons. Infinite scores are null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.comparison.align import align
from ragscore.analysis.comparison.model import OUTCOMES, Comparison
from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden, Results
from ragscore.frames.ranking import collapsed
from ragscore.frames.typing import Codes, Flags, Values
from ragscore.plot.style import in_order, run_styles
from ragscore.scoring.anchors import ELLIPSES
from ragscore.scoring.grading import decidable, level_rule
from ragscore.scoring.intervals import bounds_of
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import describe, headline_of
from ragscore.scoring.policies import Policies
from ragscore.scoring.policies import in_order as hits_in_order
from ragscore.scoring.rules import LEVELS, Rule, apply_rule, targets_at
from ragscore.scoring.summary import Slicing, slice_names, slices
from ragscore.scoring.value_states import chosen_columns

SAME = ("draw", "both_miss", "no_target", "")  # outcomes by which nothing changed
SLICED = ("difficulty", "category", "lang")  # columns of the golden set that are filters by default
MOST_VALUES = 100  # of a default filter
DIGITS = 6  # significant ones of scores and metrics
ALTERNATIVES = {"doc": "doc_id", "chunk": "chunk_id", "source_key": "source_key"}
IDS = ("chunk_id", "doc_id", "path", "source_key")


@dataclass(frozen=True)
class Runs:
    """The runs that an explorer shows, and how they were scored.

    `compared` are the comparisons of the first run with each of the others, in their order; empty
    where there is one run. `scores_refusals`: queries that should be refused are matched, too.
    """

    golden: Golden
    results: Results
    scores: pd.DataFrame
    run_ids: list[str]
    compared: tuple[Comparison, ...]
    primary: tuple[str, ...]
    level: Level
    policies: Policies
    rule: Rule | None = None
    scores_refusals: bool = False


class Columns:
    """All that is known of the queries of some runs, as columns by query and run.

    `content` writes them down; its arguments leave out what is too much.
    """

    def __init__(
        self, runs: Runs, by: Slicing | None = None, texts: pd.DataFrame | None = None
    ) -> None:
        self.runs, self.by, self.texts = runs, by, texts
        shown = hits_in_order(runs.results.select(runs.run_ids), runs.policies)
        self.results = collapsed(shown) if runs.policies.collapse == "doc" else shown
        golden, responses = runs.golden, self.results.responses
        self.queries = _queries(golden, responses)
        self.ids = pd.Index(self.queries["query_id"])
        self.n, self.n_runs = len(self.ids), len(runs.run_ids)
        self.n_unasked = len(golden.queries) - int(self.ids.isin(golden.queries["query_id"]).sum())
        self.per_query = [
            one.per_query.set_index("query_id").reindex(self.ids) for one in runs.compared
        ]
        self.words = list(dict.fromkeys([*OUTCOMES, *self._found_words()]))
        self.hits, self.items = self._hits()
        self.targets, self.met = self._targets()
        self.citations = self._citations()

    # By query and run

    def _found_words(self) -> list[str]:
        found = [one["outcome"].dropna() for one in self.per_query]
        return [str(word) for words in found for word in words.unique()]

    @cached_property
    def outcome(self) -> Codes:
        """Codes of `words`, runs × queries; -1 where nothing is compared."""
        codes = np.full((self.n_runs, self.n), -1)
        for place, one in enumerate(self.per_query, start=1):
            codes[place] = pd.Index(self.words).get_indexer(pd.Index(one["outcome"].astype("str")))
        return codes

    @cached_property
    def is_changed(self) -> Flags:
        """Flag the queries of which any run has another outcome or primary value than the first."""
        same = [place for place, word in enumerate(self.words) if word in SAME]
        moved = ~np.isin(self.outcome, [-1, *same]) | (np.nan_to_num(self.change) > 0)
        changed: Flags = np.any(moved, axis=0)
        return changed

    @cached_property
    def of_interest(self) -> Flags:
        """Flag the queries that changed; of one run, those with targets of which none was found."""
        if self.runs.compared:
            return self.is_changed
        with_target = np.zeros(self.n, dtype=bool)
        with_target[self.targets["query"].to_numpy()] = True
        return with_target & np.isnan(self.first[0])

    @cached_property
    def order(self) -> Codes:
        """Queries of interest, largest change first; of one run, worst primary metric first."""
        if self.runs.compared:
            size = np.fmax.reduce(self.change[1:], axis=0)
        else:
            primary = self.metric[0, 0] if len(self.metric) else np.zeros(self.n)
            size = primary if describe(self.metrics[0]).better == "lower" else -primary
        order = np.argsort(-np.nan_to_num(size, nan=-np.inf), kind="stable")
        found: Codes = order[self.of_interest[order]]
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
                low, high = bounds_of(describe(name))
                if name in self.runs.primary and np.isfinite(high - low):
                    difference = np.abs(values[place] - values[0]) / (high - low)
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

        Where runs are compared, within the cut of the comparison.
        """
        ranks = np.full((self.n_runs, self.n), np.nan)
        if self.per_query:
            widest = max(range(len(self.per_query)), key=lambda one: self.runs.compared[one].k)
            sides = [self.per_query[widest]["rank_baseline"]]
            sides += [one["rank_candidate"] for one in self.per_query]
            for place, side in enumerate(sides):
                ranks[place] = side.to_numpy("float64", na_value=np.nan)
            return ranks
        met = self.met[self.met["grade"].to_numpy() >= self.runs.policies.min_grade]
        firsts = met.groupby("query")["rank"].min()
        ranks[0, firsts.index] = firsts.to_numpy()
        return ranks

    @cached_property
    def notes(self) -> list[list[str]]:
        """What changed, in words: ranks, known causes, targets found and lost."""
        told = [[""] * self.n]
        for one in self.per_query:
            columns = (one[name].fillna("").tolist() for name in ("note", "gained", "lost"))
            told.append(
                [
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
            )
        return told

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
        place = aligned.query_ids.get_indexer(self.ids)
        values = aligned.values[place]
        values[place < 0] = np.nan
        return np.moveaxis(values, 0, 2).swapaxes(0, 1)

    # Lists of a query

    def _hits(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the hits by run, query and rank, and each document or passage once."""
        hits = self.results.hits
        rows = pd.DataFrame(
            {"run": self._run(hits), "query": self._query(hits), "rank": hits["rank"].to_numpy()}
        )
        order = np.lexsort((rows["rank"], rows["query"], rows["run"]))
        order = order[rows["query"].to_numpy()[order] >= 0]
        rows = rows.iloc[order].reset_index(drop=True)
        self._of_hit = hits.iloc[order].reset_index(drop=True)
        hits = self._of_hit
        shown = pd.DataFrame({"id": _first_known(hits, IDS), "doc": _column(hits, "doc_id")})
        for name in ("path", "heading"):
            shown[name] = _column(hits, name)
        shown["text"] = self._texts(hits)
        for name in ("score", "score_kind"):
            rows[name] = hits[name].to_numpy() if name in hits else None
        # an id stands twice where runs kept different texts for it
        keys = [pd.factorize(shown[name])[0].astype(np.int64) for name in ("id", "text")]
        rows["item"], _ = pd.factorize(keys[0] * (len(shown) + 1) + keys[1])
        items = shown[~rows["item"].duplicated().to_numpy()].reset_index(drop=True)
        return rows, items

    def _texts(self, hits: pd.DataFrame) -> pd.Series:
        """Return the hits' texts: their own, else those of `texts`, else of the run's chunks."""
        found = _column(hits, "text")
        if "chunk_id" not in hits:
            return found
        if self.texts is not None:
            passages = self.texts.drop_duplicates("chunk_id").set_index("chunk_id")["text"]
            found = found.fillna(hits["chunk_id"].map(passages))
        chunks = self.results.chunks
        if chunks is None or "text" not in chunks:
            return found
        runs = chunks["run_id"] if "run_id" in chunks else pd.Series(pd.NA, index=chunks.index)
        for run_id in self.runs.run_ids:
            own = chunks[(runs.eq(run_id).fillna(False) | runs.isna()).to_numpy(dtype=bool)]
            passages = own.drop_duplicates("chunk_id").set_index("chunk_id")["text"]
            here = (hits["run_id"] == run_id).to_numpy() & found.isna().to_numpy()
            found = found.where(~here, hits["chunk_id"].map(passages))
        return found

    def _targets(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the targets in the order of queries, and the hits that met them.

        Adds the columns `grade`, `target` and `span` to the hits.
        """
        golden, hits, level = self.runs.golden, self._of_hit, self.runs.level
        names = [level.name]
        if level.name == "per_query":  # finest first; each query is matched at one level only
            names = [name for name in LEVELS if name in level.joinable]
        taken, pairs = pd.Index([]), []
        listed: list[pd.DataFrame] = []
        for name in names:
            targets = targets_at(golden, name, self.runs.scores_refusals).targets
            targets = targets[~is_among(targets["query_id"], taken)].reset_index(drop=True)
            taken = taken.append(pd.Index(targets["query_id"].unique()))
            rule = self.runs.rule or level_rule(name, self.results, golden)
            found = decidable(apply_rule(rule, hits, targets))
            offset = sum(len(one) for one in listed)
            pairs.append((found["hit"].to_numpy(), found["target"].to_numpy() + offset))
            listed.append(targets)
        rows = pd.concat(listed, ignore_index=True)
        hit, row = (np.concatenate(parts).astype(np.int64) for parts in zip(*pairs, strict=True))
        query = self.ids.get_indexer(pd.Index(rows["query_id"]))
        number, _ = pd.factorize(pd.MultiIndex.from_arrays([query, rows["target_id"]]))
        is_shown = ~pd.Series(number).duplicated().to_numpy() & (query >= 0)
        table = pd.DataFrame(
            {
                "query": query,
                "target": number,
                "name": rows["target_id"],
                "grade": rows["grade"],
                "others": _others(rows, number),
            }
        )[is_shown]
        table = table.sort_values("query", kind="stable", ignore_index=True)
        # numbers of targets within their query
        start = _starts(table["query"].to_numpy(), self.n)
        within = np.arange(len(table)) - start[table["query"].to_numpy()]
        place = pd.Series(within, index=table["target"])
        order = np.lexsort((row, hit))
        hit, row = hit[order], row[order]
        met = pd.DataFrame(
            {
                "hit": hit,
                "run": self.hits["run"].to_numpy()[hit],
                "query": self.hits["query"].to_numpy()[hit],
                "rank": self.hits["rank"].to_numpy()[hit],
                "target": number[row],
                "grade": rows["grade"].to_numpy()[row],
                "row": row,
            }
        ).drop_duplicates(["hit", "target"])
        ranks = met.groupby(["run", "target"])["rank"].min()
        for run in range(self.n_runs):
            own = ranks[run] if run in ranks.index.get_level_values(0) else pd.Series(dtype="Int64")
            table[f"rank{run}"] = own.reindex(table["target"]).astype("Int64").to_numpy()
        self.hits["grade"] = (
            met.groupby("hit")["grade"].max().reindex(self.hits.index).astype("Int64")
        )
        numbers = np.empty(len(self.hits), dtype=object)
        numbers[:] = [[] for _ in numbers]
        at = met["hit"].to_numpy()
        ends = [*np.flatnonzero(np.diff(at, prepend=-1)).tolist(), len(at)]
        places = place.reindex(met["target"]).tolist()
        for begin, end in pairwise(ends):
            numbers[at[begin]] = places[begin:end]
        self.hits["target"] = numbers
        self.hits["span"] = self._spans(met, rows)
        return table, met

    def _spans(self, met: pd.DataFrame, targets: pd.DataFrame) -> npt.NDArray[np.object_]:
        """Return where each hit's text holds what its target names, if that is known."""
        spans = np.full(len(self.hits), None, dtype=object)
        checks = self.runs.golden.checks
        texts = checks[(checks["kind"] == "expected_substring").to_numpy()]
        wanted = texts.groupby("query_id")["text"].agg(list).to_dict()
        has_place = [name in targets for name in ("start", "end", "span_unit")]
        has_place += [name in self._of_hit for name in ("start", "end", "span_unit")]
        names = ["snippet", *(("start", "end", "span_unit") if all(has_place) else ())]
        names = [name for name in names if name in targets]
        if not names and not wanted:
            return spans
        # Substring search goes pair by pair; few hits meet a target.
        own = targets[["query_id", "level", *names]].to_dict("records")
        columns = ("start", "end", "span_unit") if all(has_place) else ()
        of_hit = self._of_hit[list(columns)].iloc[met["hit"]].to_dict("records")
        shown = self.items["text"].iloc[self.hits["item"].to_numpy()[met["hit"]]].tolist()
        for hit, row, place, text in zip(met["hit"], met["row"], of_hit, shown, strict=True):
            if spans[hit] is not None or not isinstance(text, str):
                continue
            target = own[row]
            snippets = [target.get("snippet")]
            if target["level"] in ("predicate", "source_key"):
                snippets += wanted.get(target["query_id"], [])
            found = next(
                (one for snippet in snippets if (one := _place_of(snippet, text))), None
            ) or _place_within(target, place, text)
            spans[hit] = None if found is None else _in_utf16(text, found)
        return spans

    def _citations(self) -> pd.DataFrame:
        """Return the citations by run, query and position, with the item each one names.

        Cited chunks that are no hit become items of their own.
        """
        cited = self.results.citations
        rows = pd.DataFrame({"run": self._run(cited), "query": self._query(cited)})
        for name in (
            "marker",
            "chunk_id",
            "doc_id",
            "path",
            "heading",
            "start",
            "end",
            "span_unit",
        ):
            rows[name] = _column(cited, name).to_numpy()
        rows["position"] = cited["position"].to_numpy()
        rows = rows[(rows["query"] >= 0).to_numpy()]
        rows = rows.sort_values(["run", "query", "position"], kind="stable", ignore_index=True)
        item = pd.Series(-1, index=rows.index)
        hits = self.hits[["run", "query", "item"]].assign(
            **{name: _column(self._of_hit, name) for name in ("chunk_id", "doc_id", "path")}
        )
        for name in ("chunk_id", "doc_id", "path"):
            if name != "chunk_id":  # a chunk that isn't there is no other chunk of its document
                item = item.where((item >= 0) | rows["chunk_id"].isna(), -2)
            keys = ["run", "query", name]
            first = hits.dropna(subset=name).drop_duplicates(keys)
            found = rows[keys].merge(first, on=keys, how="left")["item"]
            found = found.where(rows[name].notna().to_numpy())
            item = item.where(item != -1, found.fillna(-1).astype("int64"))
        item = item.replace(-2, -1)
        lacks = (item < 0).to_numpy() & rows["chunk_id"].notna().to_numpy()
        more = rows.loc[lacks, ["chunk_id", "doc_id", "path", "heading"]]
        known = pd.Series(self.items.index, index=self.items["id"])
        known = known[~known.index.duplicated()]
        new = more[~more["chunk_id"].isin(known.index)].drop_duplicates("chunk_id")
        if len(new):
            made = new.rename(columns={"chunk_id": "id", "doc_id": "doc"})
            places = pd.Series(np.arange(len(new)) + len(self.items), index=new["chunk_id"])
            known = pd.concat([known, places])
            self.items = pd.concat([self.items, made], ignore_index=True)
        item[lacks] = known.reindex(more["chunk_id"]).to_numpy()
        span = rows["start"].notna() & rows["end"].notna()
        labels = _first_known(rows, ("chunk_id", "path", "doc_id", "marker"))
        # spans are half-open; people count lines and pages up to the last
        last = rows["end"].astype("Int64") - rows["span_unit"].isin(["line", "page"]).astype(
            "Int64"
        )
        places = labels + " " + rows["start"].astype("str") + "–" + last.astype("str")
        return rows[["run", "query", "marker"]].assign(
            item=item, label=labels.where(~span, places).where(item < 0)
        )

    def _run(self, frame: pd.DataFrame) -> Codes:
        return pd.Index(self.runs.run_ids).get_indexer(pd.Index(frame["run_id"].astype("str")))

    def _query(self, frame: pd.DataFrame) -> Codes:
        return self.ids.get_indexer(pd.Index(frame["query_id"].astype("str")))

    # The content

    def content(self, kept: Flags | None = None, with_text: Flags | None = None) -> dict[str, Any]:
        """Return everything as lists.

        Parameters
        ----------
        kept
            Queries whose hits, targets and answers are in it; None: all.
        with_text
            Queries whose hits have their texts; None: all.
        """
        keep = np.ones(self.n, dtype=bool) if kept is None else kept
        texts = keep if with_text is None else with_text & keep
        hits = self.hits[keep[self.hits["query"].to_numpy()]]
        citations = self.citations[keep[self.citations["query"].to_numpy()]]
        items, hit_items, cited_items = self._used_items(hits, citations, texts)
        queries = {
            "id": self.ids.tolist(),
            "text": self.queries["query"].tolist(),
            "refuse": self.queries["refuse"].astype(int).tolist(),
            "outcome": self.outcome.tolist(),
            "change": [_numbers(row) for row in self.change],
            "note": self.notes,
            "first": [_whole(row) for row in self.first],
            "metric": [[_numbers(row) for row in of_metric] for of_metric in self.metric],
            "slice": [codes for _, _, codes in self.slices],
        }
        if kept is not None:
            queries["kept"] = keep.astype(int).tolist()
        content: dict[str, Any] = {
            "runs": self._runs_content(),
            "metrics": [self._metric_content(name) for name in self.metrics],
            "outcomes": self.words,
            "slices": [{"name": name, "values": values} for name, values, _ in self.slices],
            "n_queries": self.n,
            "queries": queries,
            "items": items,
            "hits": self._hits_content(hits, hit_items),
            "targets": self._targets_content(keep),
            "answers": self._answers_content(keep),
            "citations": self._citations_content(citations, cited_items),
            "checks": self._checks_content(keep),
        }
        judgments = self._judgments_content(keep)
        return content | ({"judgments": judgments} if judgments else {})

    def _used_items(
        self, hits: pd.DataFrame, citations: pd.DataFrame, texts: Flags
    ) -> tuple[dict[str, list[Any]], Codes, Codes]:
        """Return the items in use by their columns, and their new codes in hits and citations."""
        parts = hits["item"].to_numpy(), citations["item"].to_numpy()
        of_query = hits["query"].to_numpy(), citations["query"].to_numpy()
        used = np.zeros(len(self.items) + 1, dtype=bool)  # the last place: no item
        read = used.copy()
        for codes, query in zip(parts, of_query, strict=True):
            used[codes] = True
            read[codes[texts[query]]] = True
        used[-1] = False
        code = np.where(used, np.cumsum(used) - 1, -1)
        rows = self.items[used[:-1]]
        rows = rows.assign(text=rows["text"].where(read[:-1][used[:-1]]))
        columns = {
            str(name): _plain(rows[name])
            for name in rows
            if name in ("id", "text") or rows[name].notna().any()
        }
        return columns, code[parts[0]], code[parts[1]]

    def _runs_content(self) -> list[dict[str, Any]]:
        runs = self.results.runs.set_index(self.results.runs["run_id"].astype("str"))
        styles = run_styles(self.runs.results.runs)
        k_of = runs["k"] if "k" in runs else pd.Series(dtype="Int64")
        roles = ["baseline", *["candidate"] * (self.n_runs - 1)] if self.n_runs > 1 else [None]
        return [
            {
                "id": run_id,
                "colour": styles[run_id].colour,
                "role": role,
                "k": None if pd.isna(k := k_of.get(run_id)) else int(k),
            }
            for run_id, role in zip(self.runs.run_ids, roles, strict=True)
        ]

    def _metric_content(self, name: str) -> dict[str, Any]:
        metric = describe(name)
        return {
            "name": name,
            "better": metric.better,
            "primary": name in self.runs.primary,
            "decimals": {"binary": 0, "time": 1, "cost": 4}.get(metric.kind, 2),
            "kind": metric.kind,
        }

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
            rows["query"] = self._query(rows)
            rows = rows[(rows["query"] >= 0).to_numpy()]
            if rows["query"].is_unique:
                codes: list[Any] = np.full(self.n, -1).tolist()
                for query, code in zip(rows["query"].tolist(), rows["code"].tolist(), strict=True):
                    codes[query] = code
            else:
                codes = [[] for _ in range(self.n)]
                for query, code in zip(rows["query"].tolist(), rows["code"].tolist(), strict=True):
                    codes[query].append(code)
            found.append((name, [str(one) for one in values], codes))
        return found

    def _hits_content(self, hits: pd.DataFrame, items: Codes) -> dict[str, Any]:
        hits = hits.assign(item=items)
        columns: dict[str, Any] = {"start": [], "kind": []}
        for run in range(self.n_runs):
            own = hits[(hits["run"] == run).to_numpy()]
            kinds = own["score_kind"].dropna().unique().tolist()
            columns["start"].append(_starts(own["query"].to_numpy(), self.n).tolist())
            columns["kind"].append(", ".join(kinds) or None)
            for name in ("item", "score", "grade", "target", "rank", "span"):
                values = own[name]
                listed = _numbers(values) if name == "score" else _plain(values)
                columns.setdefault(name, []).append(listed)
        return columns

    def _targets_content(self, keep: Flags) -> dict[str, Any]:
        rows = self.targets[keep[self.targets["query"].to_numpy()]]
        return {
            "start": _starts(rows["query"].to_numpy(), self.n).tolist(),
            "name": rows["name"].tolist(),
            "grade": rows["grade"].tolist(),
            "others": rows["others"].tolist(),
            "rank": [_plain(rows[f"rank{run}"]) for run in range(self.n_runs)],
        }

    @cached_property
    def responses(self) -> list[pd.DataFrame]:
        """Each run's responses, one row per query; NA where it wasn't asked."""
        responses = self.results.responses
        run = self._run(responses)
        return [
            responses[run == place].set_index("query_id").reindex(self.ids)
            for place in range(self.n_runs)
        ]

    def _answers_content(self, keep: Flags) -> dict[str, Any]:
        names = {
            "text": "answer", "refused": "refused", "reason": "refusal_reason", "error": "error",
            "latency_ms": "elapsed_ms",
        }  # fmt: skip
        found: dict[str, Any] = {}
        for name, column in names.items():
            if column not in self.results.responses:
                continue
            if self.results.responses[column].notna().any():
                found[name] = [
                    _numbers(values) if name == "latency_ms" else _plain(values)
                    for rows in self.responses
                    for values in [rows[column].where(keep)]
                ]
        known = self.runs.golden.queries.set_index("query_id")
        if "reference_answer" in known and known["reference_answer"].notna().any():
            found["reference"] = _plain(known["reference_answer"].reindex(self.ids).where(keep))
        return found

    def _citations_content(self, citations: pd.DataFrame, items: Codes) -> dict[str, Any]:
        citations = citations.assign(item=items)
        columns: dict[str, Any] = {"start": [], "marker": [], "item": [], "label": []}
        for run in range(self.n_runs):
            own = citations[(citations["run"] == run).to_numpy()]
            columns["start"].append(_starts(own["query"].to_numpy(), self.n).tolist())
            for name in ("marker", "item", "label"):
                columns[name].append(_plain(own[name]))
        return columns

    def _judgments_content(self, keep: Flags) -> dict[str, Any]:
        judged = self.results.judgments
        if judged is None or not len(judged):
            return {}
        rows = pd.DataFrame({"run": self._run(judged), "query": self._query(judged)})
        for name in ("criterion", "value", "verdict", "reason"):
            rows[name] = judged[name].to_numpy() if name in judged else None
        item = judged["item"].astype("str")
        rows["item"] = _column(judged, "item_text").fillna(item).to_numpy()
        rows = rows[(rows["query"] >= 0).to_numpy()]
        rows = rows[keep[rows["query"].to_numpy()]]
        rows = rows.sort_values(["run", "query"], kind="stable")
        columns: dict[str, Any] = {"start": []}
        for run in range(self.n_runs):
            own = rows[(rows["run"] == run).to_numpy()]
            columns["start"].append(_starts(own["query"].to_numpy(), self.n).tolist())
            for name in ("criterion", "value", "verdict", "reason", "item"):
                listed = _numbers(own[name]) if name == "value" else _plain(own[name])
                columns.setdefault(name, []).append(listed)
        return columns

    def _checks_content(self, keep: Flags) -> dict[str, Any]:
        checks = self.runs.golden.checks
        query = self._query(checks)
        rows = checks.assign(query=query)[query >= 0]
        rows = rows[keep[rows["query"].to_numpy()]].sort_values("query", kind="stable")
        met = []
        for responses in self.responses:
            if "answer" in responses:
                answers = responses["answer"].iloc[rows["query"].to_numpy()].tolist()
            else:
                answers = [None] * len(rows)
            told = zip(rows["kind"], rows["text"], answers, strict=True)
            met.append([_is_met(kind, text, answer) for kind, text, answer in told])
        return {
            "start": _starts(rows["query"].to_numpy(), self.n).tolist(),
            "kind": rows["kind"].tolist(),
            "text": rows["text"].tolist(),
            "met": met,
        }


def _queries(golden: Golden, responses: pd.DataFrame) -> pd.DataFrame:
    """Return the queries that any run was asked: those of the golden set, then others."""
    known = golden.queries[["query_id", "query"]]
    extra = responses.loc[~is_among(responses["query_id"], known["query_id"])]
    rows = pd.concat([known, extra[["query_id", "query"]].drop_duplicates("query_id")])
    rows = rows[is_among(rows["query_id"], responses["query_id"])].reset_index(drop=True)
    query = rows["query"].fillna(rows["query_id"])
    return rows.assign(query=query, refuse=is_among(rows["query_id"], golden.refusals))


def _others(targets: pd.DataFrame, number: Codes) -> list[str]:
    """Return the other ids that meet each row's target, as text; empty without any."""
    ids = pd.Series(pd.NA, index=targets.index, dtype="str")
    for level, column in ALTERNATIVES.items():  # passages of an anchor are no ids
        if column in targets:
            here = (targets["alternative"] > 0) & (targets["level"] == level)
            ids = ids.where(~here.to_numpy(dtype=bool), targets[column])
    found = ids.dropna()
    texts = found.groupby(number[found.index]).agg(" or ".join)
    return texts.reindex(number).fillna("").tolist()


def _place_of(snippet: object, text: str) -> tuple[int, int] | None:
    """Return where a snippet stands in a text, whatever the case."""
    if not isinstance(snippet, str):
        return None
    words = snippet.strip()
    for mark in ELLIPSES:
        words = words.removesuffix(mark)
    lowered = text.lower()
    # Lower case may be longer ("İ"): places then don't hold in the text itself.
    begin = lowered.find(words.lower()) if len(lowered) == len(text) else text.find(words)
    return None if begin < 0 or not words else (begin, begin + len(words))


def _place_within(target: dict[Any, Any], hit: dict[Any, Any], text: str) -> tuple[int, int] | None:
    """Return the part of a hit's text that its target's span covers.

    Known where both spans are lines, or both characters, and the hit's span is its whole text.
    """
    numbers: list[Any] = [one.get(name) for one in (target, hit) for name in ("start", "end")]
    unit = target.get("span_unit")
    if any(pd.isna(one) for one in numbers) or pd.isna(unit) or unit != hit.get("span_unit"):
        return None
    wanted, wanted_end, start, end = (int(one) for one in numbers)
    first, last = max(wanted, start) - start, min(wanted_end, end) - start
    if last <= first:
        return None
    if unit == "char":
        return (first, last) if len(text) == end - start else None
    lines = text.splitlines(keepends=True)
    if unit != "line" or len(lines) != end - start:
        return None
    lengths = np.cumsum([0, *map(len, lines)])
    return int(lengths[first]), int(lengths[last - 1]) + len(lines[last - 1].rstrip("\r\n"))


def _in_utf16(text: str, place: tuple[int, int]) -> list[int]:
    """Return a place in the units by which a browser counts."""
    if text.isascii():
        return list(place)
    return [len(text[:end].encode("utf-16-le", "surrogatepass")) // 2 for end in place]


def _is_met(kind: str, text: str, answer: object) -> bool | None:
    """Tell if an answer meets a check; None for checks that take a judge, and without an answer."""
    if kind not in ("must_contain", "forbidden") or not isinstance(answer, str):
        return None
    return (text in answer) == (kind == "must_contain")


def _column(frame: pd.DataFrame, name: str) -> pd.Series:
    return frame[name] if name in frame else pd.Series(pd.NA, index=frame.index, dtype="str")


def _first_known(frame: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """Return the first of these columns that has a value, row by row; "—" where none has."""
    values = pd.Series(pd.NA, index=frame.index, dtype="str")
    for name in names:
        values = values.fillna(_column(frame, name))
    return values.fillna("—")


def _starts(query: Codes, n: int) -> Codes:
    """Return where the rows of each of n queries begin, and where the last ends."""
    return np.concatenate([[0], np.cumsum(np.bincount(query, minlength=n))]).astype(np.int64)


def _plain(values: pd.Series) -> list[Any]:
    return values.astype(object).where(values.notna().to_numpy(), None).tolist()


def _numbers(values: Any) -> list[float | None]:
    """Return numbers as JSON has them: rounded, null where unknown or infinite."""
    return [
        float(f"{one:.{DIGITS}g}") if np.isfinite(one) else None
        for one in np.asarray(pd.Series(values).to_numpy("float64", na_value=np.nan)).tolist()
    ]


def _whole(values: Values) -> list[int | None]:
    return [None if np.isnan(one) else int(one) for one in values.tolist()]
