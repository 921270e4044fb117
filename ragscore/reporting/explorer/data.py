"""The content of an explorer: every query shown, with its hits, targets and answers by run.

In: the runs, what changed, and the queries to show. Out: a dict that JSON holds, in which each
document stands once. What is unknown or infinite is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.model import OUTCOMES
from ragscore.analysis.extras.agents import turn_numbers
from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import Golden
from ragscore.plot.style import in_order, run_styles
from ragscore.reporting.explorer.lists import Lists, plain, records
from ragscore.reporting.explorer.order import Runs
from ragscore.scoring.summary import Slicing, slice_names, slices

SLICED = ("difficulty", "category", "lang", "conversation")  # filters by default
MOST_VALUES = 200  # of a default filter
DECIMALS = {"binary": 0, "time": 1, "cost": 4}


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
            [_told(one.loc[ids]) for one in changes],
            [codes for *_, codes in filters],
        ),
    }


def _told(changes: pd.DataFrame) -> list[dict[Any, Any]]:
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
    told = golden.set_index("query_id").reindex(ids)
    shown = pd.DataFrame({"id": ids, "text": queries["query"].fillna(ids)})
    shown["refuse"] = is_among(ids, runs.golden._refusals)
    for name in ("reference_answer", "conversation"):
        if name in told:
            shown[name] = told[name].to_numpy()
    if "conversation" in told:
        turns = turn_numbers(golden).set_axis(golden["query_id"]).reindex(ids)
        shown["turn"] = turns.where(told["conversation"].notna()).astype("Int64").array
    found = [one for (one,) in records(shown, np.arange(len(shown)), len(shown))]
    of_run = {
        "hits": lists.hits, "calls": lists.calls(), "citations": lists.citations(),
        "judgments": lists.judgments(),
    }  # fmt: skip
    answers, checks = lists.answers(), lists.checks()
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
    """Tell if an answer meets a check; None for checks that take a judge, and without an answer."""
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
