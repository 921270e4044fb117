"""The rows behind an explorer's queries: hits, targets, calls, citations, judgments, checks.

In: the runs and the ids of the queries shown. Out: lists of records by run and query, in which each
document or passage stands once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.extras.agents import call_of_hits, of_rank, repeats, search_rows
from ragscore.analysis.query_view import first_known
from ragscore.frames.codes import is_among, lookup, pair_numbers
from ragscore.frames.data import Results, narrowed
from ragscore.frames.typing import Codes
from ragscore.reporting.explorer.order import Runs
from ragscore.scoring.rules import matched_pairs, rule_of
from ragscore.scoring.targets import targets_at

ALTERNATIVES = {"doc": "doc_id", "chunk": "chunk_id", "source_key": "source_key"}
IDS = ("chunk_id", "doc_id", "path", "source_key")
Records = list[list[dict[Any, Any]]]


class Lists:
    """Records of the queries shown: of each run and query, or of each query alone.

    `items` are the documents and passages, each once. A hit names its item, and the places of the
    targets of its query that it met.
    """

    def __init__(self, runs: Runs, ids: pd.Index, texts: pd.DataFrame | None) -> None:
        self.runs, self.ids, self.n = runs, ids, len(ids)
        results = runs.results.select(runs.run_ids)
        hits = results.hits[self.query_of(results.hits) >= 0]
        self.results = _as_scored(narrowed(results, hits=hits), runs)
        # a query's targets are first found where its hits are in the order of ranks
        self._hits = self.results.hits.sort_values("rank", kind="stable", ignore_index=True)
        rows, self.items = self._hit_rows(texts)
        rows, self.targets = self._with_targets(rows)
        self.hits = self.by_run(self._hits, rows.drop(columns="run"))

    def query_of(self, frame: pd.DataFrame) -> Codes:
        """Return the place of each row's query, -1 for one that isn't shown."""
        return lookup(frame["query_id"], self.ids)

    def run_of(self, frame: pd.DataFrame) -> Codes:
        """Return the place of each row's run."""
        return lookup(frame["run_id"], pd.Index(self.runs.run_ids, dtype="str"))

    def by_query(self, frame: pd.DataFrame, rows: pd.DataFrame) -> Records:
        """Return rows about queries as the records of each."""
        return records(rows, self.query_of(frame), self.n)

    def by_run(self, frame: pd.DataFrame, rows: pd.DataFrame) -> Records:
        """Return rows about runs and queries as the records of each, all of the first run first."""
        query, run = self.query_of(frame), self.run_of(frame)
        is_shown = (query >= 0) & (run >= 0)
        place = np.where(is_shown, run * self.n + query, -1)
        return records(rows, place, self.n * len(self.runs.run_ids))

    def _hit_rows(self, texts: pd.DataFrame | None) -> tuple[pd.DataFrame, list[dict[Any, Any]]]:
        hits = self._hits
        rows = pd.DataFrame({"run": self.run_of(hits), "rank": hits["rank"]})
        if "call" in hits:
            rows["place"], rows["call"] = of_rank(hits), call_of_hits(hits)
            rows["repeats"] = repeats(hits)
        rows["score"] = hits.get("score", np.nan)
        shown = pd.DataFrame({"id": first_known(hits, IDS), "doc": column(hits, "doc_id")})
        for name in ("path", "heading"):
            shown[name] = column(hits, name)
        shown["text"] = _texts(hits, self.results, texts)
        # an id stands twice where runs kept different texts for it
        keys = [pd.factorize(shown[name])[0].astype(np.int64) for name in ("id", "text")]
        rows["item"], _ = pd.factorize(keys[0] * (len(shown) + 1) + keys[1])
        once = shown[~rows["item"].duplicated().to_numpy()]
        return rows, [one for (one,) in records(once, np.arange(len(once)), len(once))]

    def _with_targets(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, Records]:
        """Return the hits with the targets that each met, and the targets with their first ranks.

        Each query is matched at one level only, the finest that it has.
        """
        golden, taken = self.runs.of_hits, pd.Index([])
        listed, pairs = list[pd.DataFrame](), list[pd.DataFrame]()
        for level in self.runs.level.used:
            targets = targets_at(golden, level).targets
            is_new = (self.query_of(targets) >= 0) & ~is_among(targets["query_id"], taken)
            targets = targets[is_new].reset_index(drop=True)
            taken = taken.append(pd.Index(targets["query_id"].unique()))
            rule = self.runs.rule or rule_of(level, self.results, golden)
            hit, target = matched_pairs(rule, self._hits, targets)
            found = pd.DataFrame({"hit": hit, "target": target})
            pairs.append(found.assign(target=found["target"] + sum(map(len, listed))))
            listed.append(targets)
        named, met = pd.concat(listed, ignore_index=True), pd.concat(pairs, ignore_index=True)
        # several rows are one target that is met by either of several ids
        number, _ = pd.factorize(pair_numbers(self.query_of(named), named["target_id"]))
        once = named[~pd.Series(number).duplicated().to_numpy()].reset_index(drop=True)
        within = once.groupby("query_id", observed=True).cumcount().to_numpy()
        row = met["target"].to_numpy()
        met = met.assign(target=number[row], grade=named["grade"].to_numpy()[row])
        met = met.sort_values(["hit", "target"]).drop_duplicates(["hit", "target"])
        of_hit = met.assign(target=within[met["target"]]).groupby("hit")
        rows["grade"] = of_hit["grade"].max().reindex(rows.index).astype("Int64")
        rows["targets"] = of_hit["target"].agg(list).reindex(rows.index)
        table = pd.DataFrame({"name": once["target_id"], "grade": once["grade"]})
        table["others"] = _joined(_others(named), number, once.index).str.join(" or ")
        table["snippets"] = _joined(column(named, "snippet"), number, once.index)
        firsts = rows.loc[met["hit"]].assign(target=met["target"].to_numpy())
        firsts = firsts.drop_duplicates(["run", "target"])
        places = {"places": "place", "calls": "call"} if "call" in rows else {"places": "rank"}
        for name, known_as in places.items():
            wide = firsts.pivot(index="target", columns="run", values=known_as)
            wide = wide.reindex(index=once.index, columns=range(len(self.runs.run_ids)))
            table[name] = plain(wide.astype("Int64")).to_numpy().tolist()
        return rows, self.by_query(once, table)

    def calls(self) -> Records:
        """Return what each search asked."""
        rows = search_rows(self.results).sort_values("call")
        names = ("call", "query", "tool", "elapsed_ms", "error")
        return self.by_run(rows, rows[[name for name in names if name in rows]])

    def answers(self) -> Records:
        """Return the answer of each run, at most one."""
        rows = self.results.responses
        names = ("answer", "refused", "refusal_reason", "error", "elapsed_ms")
        return self.by_run(rows, rows[[name for name in names if name in rows]])

    def citations(self) -> Records:
        """Return what each answer cites: ids of the passage, and how to call it."""
        rows = self.results.citations.sort_values("position", kind="stable")
        cited = pd.DataFrame({name: column(rows, name) for name in (*IDS[:3], "marker")})
        cited["label"] = first_known(rows, ("chunk_id", "path", "doc_id", "marker"))
        if {"start", "end", "span_unit"} <= set(rows):
            # spans are half-open; people count lines and pages up to the last
            is_counted = rows["span_unit"].isin(["line", "page"]).astype("Int64")
            last = (rows["end"].astype("Int64") - is_counted).astype("str")
            spans = cited["label"] + " " + rows["start"].astype("str") + "–" + last
            cited["label"] = spans.fillna(cited["label"])
        return self.by_run(rows, cited)

    def judgments(self) -> Records:
        """Return what judges and other tools' scorers said of each answer."""
        rows = self.results.judgments
        if rows is None:
            return [[] for _ in range(self.n * len(self.runs.run_ids))]
        told = pd.DataFrame({"item": column(rows, "item_text").fillna(rows["item"].astype("str"))})
        names = [one for one in ("criterion", "value", "verdict", "reason") if one in rows]
        return self.by_run(rows, told.join(rows[names]))

    def checks(self) -> Records:
        """Return what the answer to each query must (not) hold."""
        rows = self.runs.golden.checks
        return self.by_query(rows, rows[["kind", "text"]])


def _as_scored(results: Results, runs: Runs) -> Results:
    """Return the hits, whole lists, in the order in which they are scored."""
    return runs.policies.lists(results)


def _texts(hits: pd.DataFrame, results: Results, texts: pd.DataFrame | None) -> pd.Series:
    """Return the hits' texts: their own, else those of `texts`, else of the run's chunks."""
    found, parts = column(hits, "text"), [texts, results.chunks]
    if "chunk_id" not in hits:
        return found
    for part in [one for one in parts if one is not None and "text" in one]:
        owner = part["run_id"].astype("str").fillna("") if "run_id" in part else ""
        once = part.assign(owner=owner).drop_duplicates(["owner", "chunk_id"])
        known = once.set_index(["owner", "chunk_id"])["text"]
        for run in (hits["run_id"].astype("str"), [""] * len(hits)):
            keys = pd.MultiIndex.from_arrays([run, hits["chunk_id"]])
            found = found.fillna(known.reindex(keys).set_axis(hits.index))
    return found


def _others(targets: pd.DataFrame) -> pd.Series:
    """Return the id of each row that is another way to meet its target; NA for the first."""
    ids = pd.Series(pd.NA, index=targets.index, dtype="str")
    for level, name in ALTERNATIVES.items():  # passages of an anchor are no ids
        if name in targets:
            here = (targets["alternative"] > 0) & (targets["level"] == level)
            ids = ids.where(~here.to_numpy(dtype=bool), targets[name])
    return ids


def _joined(values: pd.Series, number: Codes, index: pd.Index) -> pd.Series:
    """Return the known values of each target as a list; NaN for none."""
    known = values.dropna()
    return known.groupby(number[known.index]).agg(list).reindex(index).astype(object)


def records(rows: pd.DataFrame, place: Codes, n: int) -> Records:
    """Return the rows of each of n places as dicts without what is unknown; -1 is no place."""
    found: Records = [[] for _ in range(n)]
    kept = place >= 0
    names, values = [str(name) for name in rows], plain(rows[kept]).to_numpy().tolist()
    for at, row in zip(place[kept].tolist(), values, strict=True):
        named = zip(names, row, strict=True)
        found[at].append({name: value for name, value in named if value is not None})
    return found


def plain(rows: pd.DataFrame) -> pd.DataFrame:
    """Return values as JSON has them: None where unknown or infinite."""
    known = rows.replace([np.inf, -np.inf], np.nan)
    return known.astype(object).where(known.notna(), None)


def column(frame: pd.DataFrame, name: str) -> pd.Series:
    """Return a column of texts, NA where the frame doesn't have it."""
    return frame[name] if name in frame else pd.Series(pd.NA, index=frame.index, dtype="str")
