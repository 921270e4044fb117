"""Several searches for one query: what they count as, by the policy `calls`.

In: results whose hits name their call, and a function that scores results. Out: its scores, with
those of queries with several calls made of what each call found. `@k` is k of each call.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import Results
from ragscore.frames.ranking import ranked_again
from ragscore.frames.typing import Flags, Values
from ragscore.scoring.metrics import Label
from ragscore.scoring.rules import response_of
from ragscore.scoring.success import OF_SUCCESS

CALLS = ("union", "first", "last", "best", "each")
Ints = npt.NDArray[np.int64]


def call_of_hits(hits: pd.DataFrame) -> Ints:
    """Return the call of each hit, from 1; a hit that names none is of the first."""
    if "call" not in hits:
        return np.ones(len(hits), dtype=np.int64)
    return hits["call"].fillna(1).to_numpy(np.int64)


def searches(results: Results) -> pd.DataFrame | None:
    """Return the calls that are searches: those whose number of hits is known."""
    calls = results.calls
    if calls is None or "n_hits" not in calls:
        return None
    return calls[calls["n_hits"].notna().to_numpy()]


def n_calls(results: Results) -> Ints:
    """Return the number of searches for each response, at least 1."""
    counts = np.ones(len(results.responses) + 1, dtype=np.int64)
    frames = [] if "call" not in results.hits else [results.hits]
    if frames and (found := searches(results)) is not None:
        frames.append(found)
    for frame in frames:
        np.maximum.at(counts, response_of(frame, results.responses), call_of_hits(frame))
    return counts[:-1]


def has_several(results: Results) -> bool:
    """Return True if some query was searched for more than once."""
    return "call" in results.hits and bool((n_calls(results) > 1).any())


def queries_with_several(results: Results) -> pd.Series:
    """Return by run_id how many queries were searched for more than once."""
    if "call" not in results.hits:
        return pd.Series(dtype="int64")
    several = pd.Series(n_calls(results) > 1, index=results.responses.index)
    return several.groupby(results.responses["run_id"].astype("str"), sort=False).sum()


def of_call(results: Results, call: int | Ints) -> Results:
    """Return the results with the hits of one call alone, of all or of each response; ranks from 1.

    A query that has no such call has no hits.
    """
    kept = results.hits[_is_of(results.hits, results, call)]
    kept = kept.assign(rank=of_rank(kept))
    return ranked_again(results, kept.drop(columns="call", errors="ignore"))


def _is_of(rows: pd.DataFrame, results: Results, call: int | Ints) -> Flags:
    wanted = np.append(np.broadcast_to(call, len(results.responses)), -1)
    flags: Flags = call_of_hits(rows) == wanted[response_of(rows, results.responses)]
    return flags


def is_read(rows: pd.DataFrame, results: Results, how: str) -> Flags:
    """Flag rows of hits or calls by whether a policy reads their call: "first", "last", or all."""
    if how not in ("first", "last"):
        return np.ones(len(rows), dtype=bool)
    return _is_of(rows, results, 1 if how == "first" else n_calls(results))


def read_calls(results: Results, how: str) -> Results:
    """Return the results with the lists that a policy reads: of "first" or "last" call, or all."""
    if how not in ("first", "last") or not has_several(results):
        return results
    return of_call(results, 1 if how == "first" else n_calls(results))


def of_rank(hits: pd.DataFrame) -> pd.Series:
    """Return the rank of each hit among those of its call."""
    cells = [hits["run_id"], hits["query_id"], call_of_hits(hits)]
    return hits.groupby(cells, observed=True)["rank"].rank("first").astype("int32")


def with_each_kept(results: Results, kept: Callable[[Results], Results]) -> Results:
    """Return the results with the hits that `kept` leaves of each call, call after call."""
    if not has_several(results):
        return kept(results)
    n = int(n_calls(results).max())
    hits = pd.concat([kept(of_call(results, call)).hits.assign(call=call) for call in _upto(n)])
    place = hits["call"].to_numpy(np.int64) * (int(hits["rank"].max()) + 1) + hits["rank"]
    rank = place.groupby([hits["run_id"], hits["query_id"]], observed=True).rank("first")
    hits = hits.assign(rank=rank.astype("int32")).astype({"call": results.hits["call"].dtype})
    return ranked_again(results, hits)


def in_turns(results: Results) -> tuple[Results, int]:
    """Return the results with calls that take turns in one list, and the most calls of a query.

    Rank k of a call is then within `most` · k.
    """
    if not has_several(results):
        return results, 1
    hits, most = results.hits, int(n_calls(results).max())
    rank = (of_rank(hits).to_numpy(np.int64) - 1) * most + call_of_hits(hits)
    hits = hits.assign(rank=rank.astype("int32")).drop(columns="call")
    return ranked_again(results, hits), most


def as_one_list(results: Results) -> Results:
    """Return the results with the hits of all calls as one list, one call after the other."""
    return replace(results, hits=results.hits.drop(columns="call"))


def scores_of_calls(
    score: Callable[..., Any],
    kept: Callable[[Results], Results],
    results: Results,
    labels: list[Label],
    how: str,
) -> Any:
    """Return what `score` makes of the results, with several calls of a query read as `how` says.

    Parameters
    ----------
    score
        A function of results, labels and changed policies; the hits name no call. It gives an
        object with `scores`, whose rows are those of the responses first of all.
    kept
        Gives results with the hits that policies leave of each list, in the order that they say.
    how
        "first", "last": the hits of one call. "union": what all calls found together; metrics that
        go by an order are NaN. "each": the mean of the calls. "best": each metric's best call.
    """
    if how in ("first", "last"):
        return score(read_calls(results, how), labels)
    counts = n_calls(results)
    whole = score(as_one_list(results), labels)
    scores = whole.scores
    of_row = _calls_of_rows(scores, results, counts)
    several = of_row > 1
    united = _united(score, with_each_kept(results, kept), labels, of_row)
    columns: dict[str, Values] = {}
    by_call = [] if how == "union" else [
        score(of_call(results, call), labels).scores for call in _upto(int(counts.max()))
    ]  # fmt: skip
    for label in labels:
        text, values = label.text, scores[label.text].to_numpy("float64")
        if label.name in OF_SUCCESS:
            columns[text] = np.where(several, united[text], values)
        elif label.is_ranking and how == "union":
            known = united[text] if label.metric.of_calls else np.nan
            columns[text] = np.where(several, known, values)
        elif label.is_ranking:
            each = np.stack([one[text].to_numpy("float64") for one in by_call], axis=1)
            asked = np.arange(each.shape[1]) < of_row[:, None]
            combined = _combined(each, asked, how, label.metric.better)
            columns[text] = np.where(several, combined, values)
    return replace(whole, scores=scores.assign(**columns))


def _upto(n: int) -> Ints:
    return np.arange(1, n + 1)


def _combined(each: Values, asked: Flags, how: str, better: str) -> Values:
    """Return the mean or the best of the calls that there were; NaN where one is.

    Without a declared direction no call is the best.
    """
    if how == "best":
        sign = {"higher": 1.0, "lower": -1.0}.get(better, np.nan)
        best: Values = sign * np.where(asked, sign * each, -np.inf).max(axis=1)
        return best
    total: Values = np.where(asked, each, 0.0).sum(axis=1)
    return total / asked.sum(axis=1)


def _calls_of_rows(scores: pd.DataFrame, results: Results, counts: Ints) -> Ints:
    """Return the number of calls of each row of scores; 1 for rows without a response."""
    keys = ["run_id", "query_id"]
    several = results.responses.loc[counts > 1, keys].astype("str")
    known = pd.Series(counts[counts > 1], index=pd.MultiIndex.from_frame(several))
    rows = scores.reset_index()[keys].astype("str")
    found: Ints = known.reindex(pd.MultiIndex.from_frame(rows)).fillna(1).to_numpy(np.int64)
    return found


def _united(
    score: Callable[..., Any],
    results: Results,
    labels: list[Label],
    of_row: Ints,
) -> dict[str, Values]:
    """Return the values of what all calls found together, within the first k hits of each.

    A share counts the places of the query's own calls.
    """
    turns, most = in_turns(results)
    if "k" in turns.runs:
        turns = replace(turns, runs=turns.runs.assign(k=turns.runs["k"] * most))
    wanted = [one for one in labels if one.metric.of_calls or one.name in OF_SUCCESS]
    deep = [one if one.k is None else replace(one, k=one.k * most) for one in wanted]
    # each list has its order and its hits already
    given = {"ties": "file", "collapse": "none"}
    scores = score(turns, deep, **given).scores if deep else pd.DataFrame(index=of_row)
    found = {one.text: scores[one.text].to_numpy("float64") for one in wanted}
    for label in wanted:
        if label.metric.of_calls == "share":
            found[label.text] = found[label.text] * most / of_row
    return found
