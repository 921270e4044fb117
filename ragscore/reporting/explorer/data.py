"""The content of an explorer: every query shown, with its hits, targets and answers by run.

In: the runs, what changed, and the queries to show. Out: a dict that JSON holds, in which each
document or passage occurs once. What is unknown or infinite is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.model import OUTCOMES
from ragscore.analysis.extras.agents import (
    call_of_hits,
    of_rank,
    repeats,
    search_rows,
    turn_numbers,
)
from ragscore.analysis.query_view import first_known, other_ids
from ragscore.frames.codes import is_among, lookup, pair_numbers
from ragscore.frames.data import Golden, Results, narrowed
from ragscore.frames.typing import Codes
from ragscore.plot.style import in_order, run_styles
from ragscore.reporting.explorer.order import Runs
from ragscore.scoring.rules import matched_pairs, rule_of
from ragscore.scoring.summary import Slicing, slice_names, slices
from ragscore.scoring.targets import targets_at

SLICED = ("difficulty", "category", "lang", "conversation")  # filters by default
MOST_VALUES = 200  # of a default filter
DECIMALS = {"binary": 0, "time": 1, "cost": 4}
IDS = ("chunk_id", "doc_id", "path", "source_key")
Records = list[list[dict[Any, Any]]]


def content(
    runs: Runs, queries: pd.DataFrame, values: list[pd.DataFrame], changes: list[pd.DataFrame],
    by: Slicing | None, texts: pd.DataFrame | None,
) -> dict[str, Any]:  # fmt: skip
    """Return everything about these queries, whose values and changes are given by run."""
    ids, styles = pd.Index(queries["query_id"]), run_styles(runs.scores)
    lists, filters = Lists(runs, ids, texts), _filters(runs.golden, ids, by)
    return {
        "runs": [{"id": one, "colour": styles[one].colour} for one in runs.run_ids],
        "metrics": [
            {
                "name": name,
                "better": metric.better,
                "primary": name in runs.primary,
                "decimals": DECIMALS.get(metric.kind, 2),
            }
            for name in map(str, values[0])
            for metric in [runs.declared.describe(name)]
        ],
        "outcomes": outcomes_in(changes),
        "slices": [{"name": name, "values": shown} for name, shown, _ in filters],
        "items": lists.items,
        "queries": _queries(
            runs,
            queries,
            lists,
            [plain(one.loc[ids]).to_numpy().tolist() for one in values],
            [_described(one.loc[ids]) for one in changes],
            [codes for *_, codes in filters],
        ),
    }


def _described(changes: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return what changed as records, with `order`, the place in the order of reading."""
    rows = changes[["outcome", "change", "note"]].replace("", None)
    rows["order"] = changes["key"].rank(method="first")
    return [one for (one,) in records(rows, np.arange(len(rows)), len(rows))]


def outcomes_in(changes: list[pd.DataFrame]) -> list[str]:
    """Return the outcomes that a query can have here."""
    found = [word for one in changes for word in one["outcome"].dropna().unique()]
    return list(dict.fromkeys([*(word for word in OUTCOMES if word in found), *found]))


def _queries(
    runs: Runs, queries: pd.DataFrame, lists: Lists, values: list[list[Any]],
    changes: list[list[dict[Any, Any]]], codes: list[list[list[int]]],
) -> list[dict[str, Any]]:  # fmt: skip
    ids, golden = queries["query_id"], runs.golden.queries
    known = golden.set_index("query_id").reindex(ids)
    shown = pd.DataFrame({"id": ids, "text": queries["query"].fillna(ids)})
    shown["refuse"] = is_among(ids, runs.golden._refusals)
    for name in ("reference_answer", "conversation"):
        if name in known:
            shown[name] = known[name].to_numpy()
    if "conversation" in known:
        turns = turn_numbers(golden).set_axis(golden["query_id"]).reindex(ids)
        shown["turn"] = turns.where(known["conversation"].notna()).astype("Int64").array
    found = [one for (one,) in records(shown, np.arange(len(shown)), len(shown))]
    of_run = {
        "hits": lists.hits, "calls": lists.calls(), "citations": lists.citations(),
        "judgments": lists.judgments(),
    }  # fmt: skip
    asked = runs.golden.checks[["kind", "text"]]
    answers, checks = lists.answers(), lists.by_query(runs.golden.checks, asked)
    for at, query in enumerate(found):
        query |= {"slices": [one[at] for one in codes], "targets": lists.targets[at], "runs": []}
        for run, (metrics, changed) in enumerate(zip(values, changes, strict=True)):
            place = run * len(found) + at
            own = {name: part[place] for name, part in of_run.items() if part[place]}
            own |= {"metrics": metrics[at]} | changed[at] | dict(*answers[place])
            query["runs"].append(own)
        query["checks"] = [
            one | {"met": [_is_met(one, run.get("answer")) for run in query["runs"]]}
            for one in checks[at]
        ]
    return found


def _is_met(check: dict[str, str], answer: str | None) -> bool | None:
    """Return whether an answer meets a check; None if that takes a judge, or without an answer."""
    if check["kind"] not in ("must_contain", "forbidden") or answer is None:
        return None
    return (check["text"] in answer) == (check["kind"] == "must_contain")


def _filters(
    golden: Golden, ids: pd.Index, by: Slicing | None
) -> list[tuple[str, list[str], list[list[int]]]]:
    """Return the name, the values in their own order, and each query's codes of every filter."""
    names = list(slice_names(by)) if by is not None else [
        *(name for name in SLICED if name in golden.queries),
        *dict.fromkeys(golden.tags["kind"].tolist()),
    ]  # fmt: skip
    found = []
    for name in names:
        rows = slices(golden, name)
        values = in_order(sorted(rows[name].unique(), key=lambda one: (one == "(none)", one)))
        if by is None and not 1 < len(values) <= MOST_VALUES:
            continue
        codes: list[list[int]] = [[] for _ in ids]
        places = lookup(rows["query_id"], ids).tolist()
        for query, code in zip(
            places, pd.Index(values).get_indexer(pd.Index(rows[name])), strict=True
        ):
            if query >= 0:
                codes[query].append(int(code))
        found.append((name, [str(one) for one in values], codes))
    return found


class Lists:
    """Records of the queries shown: of each run and query, or of each query alone.

    `items` are the documents and passages, each once. A hit names its item, and the places of the
    targets of its query that it met.
    """

    def __init__(self, runs: Runs, ids: pd.Index, texts: pd.DataFrame | None) -> None:
        self.runs, self.ids, self.n = runs, ids, len(ids)
        hits = runs.results.hits[self.query_of(runs.results.hits) >= 0]
        self.results = narrowed(runs.results, hits=hits)
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
        query = self.query_of(frame)
        place = np.where(query >= 0, self.run_of(frame) * self.n + query, -1)
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
        # an id occurs twice where runs kept different texts for it
        keys = [pd.factorize(shown[name])[0].astype(np.int64) for name in ("id", "text")]
        rows["item"], _ = pd.factorize(keys[0] * (len(shown) + 1) + keys[1])
        once = shown[~rows["item"].duplicated().to_numpy()]
        return rows, [one for (one,) in records(once, np.arange(len(once)), len(once))]

    def _with_targets(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, Records]:
        """Return the hits with the targets that each met, and the targets with their first ranks.

        Each query is matched at one level only, the finest that it has.
        """
        golden, taken = self.runs.rows.of_hits, pd.Index([])
        listed, pairs = list[pd.DataFrame](), list[pd.DataFrame]()
        for level in self.runs.level.used:
            targets = targets_at(golden, level).targets
            is_new = (self.query_of(targets) >= 0) & ~is_among(targets["query_id"], taken)
            targets = targets[is_new].reset_index(drop=True)
            taken = taken.append(pd.Index(targets["query_id"].unique()))
            rule = self.runs.rows.rule or rule_of(level, self.results, golden)
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
        table["others"] = _joined(other_ids(named), number, once.index).str.join(" or ")
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
        return self.by_run(rows, _named(rows, "call query tool elapsed_ms error"))

    def answers(self) -> Records:
        """Return the answer of each run, at most one."""
        rows = self.results.responses
        return self.by_run(rows, _named(rows, "answer refused refusal_reason error elapsed_ms"))

    def citations(self) -> Records:
        """Return what each answer cites: ids of the passage, and how to call it."""
        rows = self.results.citations.sort_values("position", kind="stable")
        cited = rows.reindex(columns=[*IDS, "marker"])
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
        if (rows := self.results.judgments) is None:
            return [[] for _ in range(self.n * len(self.runs.run_ids))]
        items = pd.DataFrame({"item": column(rows, "item_text").fillna(rows["item"].astype("str"))})
        return self.by_run(rows, items.join(_named(rows, "criterion value verdict reason")))


def _named(rows: pd.DataFrame, names: str) -> pd.DataFrame:
    return rows[[name for name in names.split() if name in rows]]


def _texts(hits: pd.DataFrame, results: Results, texts: pd.DataFrame | None) -> pd.Series:
    """Return the hits' texts: their own, else from `texts`, else from the run's chunks."""
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
