"""The lists of an explorer's queries: their hits, targets and citations, and what each one is.

In: the runs shown and the queries chosen among those they were asked. Out: `Lists`, frames ordered
by run and query, in which each document or passage stands once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.calls import repeats, search_rows
from ragscore.analysis.comparison.compare import RankChanges, asked_queries
from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.query_view import first_known
from ragscore.frames.codes import is_among, lookup, pair_numbers
from ragscore.frames.data import Golden, Results, narrowed
from ragscore.frames.typing import Codes, Flags
from ragscore.scoring.anchors import ELLIPSES
from ragscore.scoring.calls import call_of_hits, is_read, of_rank, with_each_kept
from ragscore.scoring.grading import decidable, level_rule
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations
from ragscore.scoring.policies import Policies, in_order, with_hits_kept
from ragscore.scoring.rules import Rule, apply_rule, targets_at

ALTERNATIVES = {"doc": "doc_id", "chunk": "chunk_id", "source_key": "source_key"}
IDS = ("chunk_id", "doc_id", "path", "source_key")


@dataclass(frozen=True)
class Runs:
    """The runs that an explorer shows, and how they were scored.

    `compared` is what changed from the first run to each of the others, in their order; empty where
    there is one run. `scores_refusals`: queries that should be refused are matched, too.
    `declared`: what is declared of columns of your own.
    """

    golden: Golden
    results: Results
    scores: pd.DataFrame
    run_ids: list[str]
    compared: tuple[Comparison | RankChanges, ...]
    primary: tuple[str, ...]
    level: Level
    policies: Policies
    rule: Rule | None = None
    scores_refusals: bool = False
    declared: Declarations = NOTHING_DECLARED


class Asked:
    """The queries that some runs were asked, with the rows of their hits and answers."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.results = runs.results.select(runs.run_ids)
        rows = asked_queries(runs.golden, self.results.responses)
        self.queries = rows.assign(
            query=rows["query"].fillna(rows["query_id"]),
            refuse=is_among(rows["query_id"], runs.golden.refusals),
        )
        self.ids = pd.Index(rows["query_id"])
        self.n, self.n_runs = len(self.ids), len(runs.run_ids)

    def run_of(self, frame: pd.DataFrame) -> Codes:
        """Return the place of each row's run."""
        return lookup(frame["run_id"], pd.Index(self.runs.run_ids, dtype="str"))

    def query_of(self, frame: pd.DataFrame) -> Codes:
        """Return the place of each row's query, -1 for one that no run was asked."""
        return lookup(frame["query_id"], self.ids)

    @cached_property
    def query_of_hit(self) -> Codes:
        """Places of the queries of all hits."""
        return self.query_of(self.results.hits)

    def ranked(self, hits: pd.DataFrame) -> Results:
        """Return these hits, whole lists, in the order in which they are scored."""
        policies, results = self.runs.policies, narrowed(self.results, hits=hits)
        if (policies.ties, policies.collapse) == ("file", "none"):
            return results
        return with_each_kept(
            results, lambda one: with_hits_kept(in_order(one, policies), policies)
        )


def texts_of(hits: pd.DataFrame, results: Results, texts: pd.DataFrame | None) -> pd.Series:
    """Return the hits' texts: their own, else those of `texts`, else of the run's chunks."""
    found = column(hits, "text")
    if "chunk_id" not in hits:
        return found
    if texts is not None:
        passages = texts.drop_duplicates("chunk_id").set_index("chunk_id")["text"]
        found = found.fillna(hits["chunk_id"].map(passages))
    chunks = results.chunks
    if chunks is None or "text" not in chunks:
        return found
    runs = chunks["run_id"] if "run_id" in chunks else pd.Series(pd.NA, index=chunks.index)
    for run_id in results.runs["run_id"].astype("str"):
        own = chunks[(runs.eq(run_id).fillna(False) | runs.isna()).to_numpy(dtype=bool)]
        passages = own.drop_duplicates("chunk_id").set_index("chunk_id")["text"]
        here = (hits["run_id"] == run_id).to_numpy() & found.isna().to_numpy()
        found = found.where(~here, hits["chunk_id"].map(passages))
    return found


class Lists:
    """Hits, targets and citations of the queries that `keep` flags, or of all.

    Attributes
    ----------
    hits
        By run, query and rank, with the item each one is and the targets that it met; of several
        calls, the call, the rank in it, and the earlier call that had returned its document.
    items
        Each document or passage once.
    targets, met
        The targets in the order of queries, and which hit met which of them.
    citations
        By run, query and position.
    calls
        By run, query and call; empty where no hits name their call.
    """

    def __init__(self, asked: Asked, keep: Flags | None, texts: pd.DataFrame | None) -> None:
        self.asked, self.runs, self.texts = asked, asked.runs, texts
        self.keep = np.ones(asked.n, dtype=bool) if keep is None else keep
        hits = asked.results.hits
        if keep is not None:
            hits = hits[self.is_kept(asked.query_of_hit)]
        self.results = asked.ranked(hits)
        self.hits, self.items = self._hits()
        self.targets, self.met = self._targets()
        self.citations = self._citations()
        self.calls = self._calls()

    def is_kept(self, query: Codes) -> Flags:
        """Flag the rows of kept queries."""
        return np.append(self.keep, False)[query]

    def _hits(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the hits by run, query and rank, and each document or passage once."""
        hits = self.results.hits
        rows = pd.DataFrame(
            {
                "run": self.asked.run_of(hits),
                "query": self.asked.query_of(hits),
                "rank": hits["rank"].to_numpy(),
            }
        )
        order = np.lexsort((rows["rank"], rows["query"], rows["run"]))
        order = order[rows["query"].to_numpy()[order] >= 0]
        rows = rows.iloc[order].reset_index(drop=True)
        self._of_hit = hits.iloc[order].reset_index(drop=True)
        hits = self._of_hit
        rows["place"], rows["call"] = rows["rank"], 1
        rows["is_read"] = is_read(hits, self.results, self.runs.policies.calls)
        if "call" in hits:
            rows["place"], rows["call"] = of_rank(hits), call_of_hits(hits)
            rows["repeats"] = repeats(hits)
        shown = pd.DataFrame({"id": first_known(hits, IDS), "doc": column(hits, "doc_id")})
        for name in ("path", "heading"):
            shown[name] = column(hits, name)
        shown["text"] = texts_of(hits, self.results, self.texts)
        for name in ("score", "score_kind"):
            rows[name] = hits[name].to_numpy() if name in hits else None
        # an id stands twice where runs kept different texts for it
        keys = [pd.factorize(shown[name])[0].astype(np.int64) for name in ("id", "text")]
        rows["item"], _ = pd.factorize(keys[0] * (len(shown) + 1) + keys[1])
        return rows, shown[~rows["item"].duplicated().to_numpy()].reset_index(drop=True)

    def _targets(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the targets in the order of queries, and the hits that met them.

        Adds the columns `grade`, `target` and `span` to the hits.
        """
        golden, hits, level = self.runs.golden, self._of_hit, self.runs.level
        taken, pairs = pd.Index([]), []
        listed: list[pd.DataFrame] = []
        for name in level.used:  # finest first; each query is matched at one level only
            targets = targets_at(golden, name, self.runs.scores_refusals).targets
            targets = targets[self.is_kept(self.asked.query_of(targets))]
            targets = targets[~is_among(targets["query_id"], taken)].reset_index(drop=True)
            taken = taken.append(pd.Index(targets["query_id"].unique()))
            rule = self.runs.rule or level_rule(name, self.results, golden)
            found = decidable(apply_rule(rule, hits, targets))
            offset = sum(len(one) for one in listed)
            pairs.append((found["hit"].to_numpy(), found["target"].to_numpy() + offset))
            listed.append(targets)
        rows = pd.concat(listed, ignore_index=True)
        hit, row = (np.concatenate(parts).astype(np.int64) for parts in zip(*pairs, strict=True))
        query = self.asked.query_of(rows)
        number, _ = pd.factorize(pair_numbers(query, rows["target_id"]))
        is_shown = ~pd.Series(number).duplicated().to_numpy()
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
        start = starts(table["query"].to_numpy(), self.asked.n)
        within = np.arange(len(table)) - start[table["query"].to_numpy()]
        place = np.empty(len(table), dtype=np.int64)
        place[table["target"]] = within
        order = np.lexsort((row, hit))
        hit, row = hit[order], row[order]
        met = pd.DataFrame(
            {
                "hit": hit,
                "run": self.hits["run"].to_numpy()[hit],
                "query": self.hits["query"].to_numpy()[hit],
                "rank": self.hits["place"].to_numpy()[hit],
                "call": self.hits["call"].to_numpy()[hit],
                "is_read": self.hits["is_read"].to_numpy()[hit],
                "target": number[row],
                "grade": rows["grade"].to_numpy()[row],
                "row": row,
            }
        ).drop_duplicates(["hit", "target"])
        for run in range(self.asked.n_runs):
            of_run = (met["run"] == run) & met["is_read"]
            own = met[of_run.to_numpy()].drop_duplicates("target").set_index("target")
            for name in ("rank", "call"):
                places = own[name].reindex(table["target"])
                table[f"{name}{run}"] = places.astype("Int64").to_numpy()
        self.hits["grade"] = (
            met.groupby("hit")["grade"].max().reindex(self.hits.index).astype("Int64")
        )
        self.places = place[met["target"]]
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

    def _calls(self) -> pd.DataFrame:
        """Return what each search asked, by run, query and call."""
        rows = search_rows(self.results)
        rows = rows.assign(
            run=self.asked.run_of(rows), query_at=self.asked.query_of(rows),
            is_read=is_read(rows, self.results, self.runs.policies.calls),
        ).rename(columns={"query": "asked", "query_at": "query"})  # fmt: skip
        rows = rows[self.is_kept(rows["query"].to_numpy())]
        return rows.sort_values(["run", "query", "call"], ignore_index=True)

    def _citations(self) -> pd.DataFrame:
        """Return the citations by run, query and position, with the item each one names.

        Cited chunks that are no hit become items of their own.
        """
        cited = self.results.citations
        rows = pd.DataFrame({"run": self.asked.run_of(cited), "query": self.asked.query_of(cited)})
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
            rows[name] = column(cited, name).to_numpy()
        rows["position"] = cited["position"].to_numpy()
        rows = rows[self.is_kept(rows["query"].to_numpy())]
        if not len(rows):
            return rows[["run", "query", "marker"]].assign(item=-1, label="")
        rows = rows.sort_values(["run", "query", "position"], kind="stable", ignore_index=True)
        item = pd.Series(-1, index=rows.index)
        hits = self.hits[["run", "query", "item"]].assign(
            **{name: column(self._of_hit, name) for name in ("chunk_id", "doc_id", "path")}
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
        labels = first_known(rows, ("chunk_id", "path", "doc_id", "marker"))
        # spans are half-open; people count lines and pages up to the last
        last = rows["end"].astype("Int64") - rows["span_unit"].isin(["line", "page"]).astype(
            "Int64"
        )
        places = labels + " " + rows["start"].astype("str") + "–" + last.astype("str")
        return rows[["run", "query", "marker"]].assign(
            item=item, label=labels.where(~span, places).where(item < 0)
        )


def _others(targets: pd.DataFrame, number: Codes) -> list[str]:
    """Return the other ids that meet each row's target, as text; empty without any."""
    ids = pd.Series(pd.NA, index=targets.index, dtype="str")
    for level, column in ALTERNATIVES.items():  # passages of an anchor are no ids
        if column in targets:
            here = (targets["alternative"] > 0) & (targets["level"] == level)
            ids = ids.where(~here.to_numpy(dtype=bool), targets[column])
    found = ids.dropna()
    return found.groupby(number[found.index]).agg(" or ".join).reindex(number).fillna("").tolist()


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


def column(frame: pd.DataFrame, name: str) -> pd.Series:
    """Return a column of texts, NA where the frame doesn't have it."""
    return frame[name] if name in frame else pd.Series(pd.NA, index=frame.index, dtype="str")


def starts(query: Codes, n: int) -> Codes:
    """Return where the rows of each of n queries begin, and where the last ends."""
    return np.concatenate([[0], np.cumsum(np.bincount(query, minlength=n))]).astype(np.int64)
