"""Agents and conversations: what each search for a query adds, and a metric turn by turn.

In: an evaluation whose hits name their call, or whose queries name their conversation and turn.
Out: `CallReport`, `Conversations`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import plural, warn
from ragscore.frames.typing import Codes
from ragscore.frames.verbs import Accessor
from ragscore.scoring.intervals import query_clusters
from ragscore.scoring.level import Level
from ragscore.scoring.rows import Rows
from ragscore.stats import mean_interval

CELL = ["run_id", "query_id"]


@dataclass(frozen=True, repr=False, eq=False)
class CallReport(FramesResult):
    """What each search for a query adds.

    Attributes
    ----------
    table
        One row per run: `n_queries` with searches, `n_several` of them with more than one;
        `calls_mean`, `calls_max` per query; `n_targets`, of which `n_first` were found by the first
        call and `n_later` by a later one; `repeated`, the share of the later calls' hits whose
        document an earlier call had returned, and `without_new`, the share of later calls without
        any new document (0 to 1, lower is better; NaN without later calls).
    after
        One row per run and number of calls, from 1: over the `n` queries with a target, mean
        `recall` of the calls so far with its 95 % interval `low`, `high`, and `hit`, the share of
        queries with any right hit, with `hit_low`, `hit_high`. A query with fewer calls keeps what
        its last one reached.
    targets
        One row per run, query and target: `call` that found it first and its `rank` there (NA: none
        did).
    per_query
        One row per run and query: `n_calls`, `n_hits`, of them `n_repeated`, `elapsed_ms` of the
        calls and `cost_usd` of the response (NaN: unknown), `outcome`: all found, some found, none
        found, no target. Grouped by run and outcome it shows what each outcome cost.
    k
        Hits of each call that were looked at; None: all.
    """

    plot = Accessor("ragscore.plot.accessor:CALLS")

    table: pd.DataFrame
    after: pd.DataFrame
    targets: pd.DataFrame
    per_query: pd.DataFrame
    k: int | None

    def _heading(self) -> str:
        cut = "" if self.k is None else f", {self.k} hits of each"
        return f"Calls of {plural(len(self.table), 'run')}{cut}"


def calls(ev: Any, k: int | None = None) -> CallReport:
    """Return what each search for a query adds, and which call found each target first.

    Parameters
    ----------
    k
        Hits of each call that count; by default all.

    Returns
    -------
    `CallReport`: frames `table`, `after`, `targets` and `per_query`; its docstring has the
    columns. `plot()` draws recall against calls.

    Raises
    ------
    DataError
        No query has several calls.

    Examples
    --------
    >>> twice = rs.load_results({"q": [["a"], ["b", "c"]]})
    >>> rs.extras.calls(rs.evaluate(twice, {"q": {"c": 1}})).after[["call", "recall"]]
    """
    results: Results = ev.results
    hits = results.hits.assign(call=call_of_hits(results.hits), rank_in_call=of_rank(results.hits))
    hits = hits[hits["rank_in_call"] <= (k or np.inf)]
    own = replace(results, hits=hits[results.hits.columns])
    searches = search_rows(own).astype({"run_id": "str", "n_hits": "float64"})
    searches["n_hits"] = searches["n_hits"].clip(upper=k)
    if not searches["call"].gt(1).any():
        raise DataError(
            "no query has several calls", field="results.calls",
            allowed="traces with several searches, lists of lists of ids, or a column `call`",
        )  # fmt: skip
    rows = Rows(own, ev.golden, Level.of(results, ev.golden, ev._level), rule=ev._rule)
    places = hits[[*CELL, "rank", "call", "rank_in_call"]].astype(dict.fromkeys(CELL, "str"))
    expected, found = rows.relevant_targets()
    found = found.merge(places, on=[*CELL, "rank"], how="left")
    found = found[[*CELL, "target_id", "call", "rank_in_call"]]
    cells = results.responses[CELL].astype({"run_id": "str"})
    targets = cells.merge(expected[["query_id", "target_id"]], on="query_id").merge(
        found, on=[*CELL, "target_id"], how="left"
    )
    targets = targets.rename(columns={"rank_in_call": "rank"})
    targets = targets.astype({"call": "Int64", "rank": "Int64"})
    per_query = _per_query(results, searches, targets)
    by_run, later = per_query.groupby("run_id", sort=False), searches[searches["call"] > 1]
    of_calls = later.assign(is_old=later["n_hits"] <= later["n_repeated"]).groupby("run_id")
    of_targets, call = targets.groupby("run_id", sort=False), targets["call"]
    table = by_run.agg(
        n_queries=("n_calls", "size"), n_several=("n_calls", lambda n: (n > 1).sum()),
        calls_mean=("n_calls", "mean"), calls_max=("n_calls", "max"),
    ).assign(
        n_targets=of_targets.size(),
        n_first=call.eq(1).fillna(False).groupby(targets["run_id"]).sum(),
        n_later=call.gt(1).fillna(False).groupby(targets["run_id"]).sum(),
        repeated=of_calls["n_repeated"].sum() / of_calls["n_hits"].sum(),
        without_new=of_calls["is_old"].mean(),
    )  # fmt: skip
    after = _after(targets, ev.golden, int(per_query["n_calls"].max()))
    return ev._alike(CallReport(table.reset_index(), after, targets, per_query, k))


def _after(targets: pd.DataFrame, golden: Golden, most: int) -> pd.DataFrame:
    """Return recall and hit after each number of calls, with intervals."""
    first = targets["call"].astype("Float64").fillna(np.inf).to_numpy("float64")
    numbers = np.arange(1, most + 1)
    is_found = pd.DataFrame(first[:, None] <= numbers).astype("float64")
    names = ["run_id", "call", "n", "recall", "low", "high", "hit", "hit_low", "hit_high"]
    rows = [pd.DataFrame(columns=names)]
    for run_id, own in targets.groupby("run_id", sort=False):
        reached = is_found.loc[own.index].groupby(own["query_id"], sort=False).mean()
        recall = reached.to_numpy("float64")
        groups, hit = query_clusters(golden, reached.index, "group"), (recall > 0).astype("float64")
        ends = mean_interval(recall, "bounded", groups=groups)
        hit_ends = mean_interval(hit, "binary", groups=groups)
        rows.append(pd.DataFrame({
            "run_id": run_id, "call": numbers, "n": len(recall),
            "recall": recall.mean(axis=0), "low": ends[0], "high": ends[1],
            "hit": hit.mean(axis=0), "hit_low": hit_ends[0], "hit_high": hit_ends[1],
        }))  # fmt: skip
    return pd.concat(rows[1:] or rows, ignore_index=True)


def _per_query(results: Results, searches: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
    """Return what the calls of each query did."""
    responses = results.responses.astype({"run_id": "str"}).set_index(CELL)
    known = searches.reindex(columns=[*CELL, "n_hits", "n_repeated", "elapsed_ms"]).groupby(CELL)
    table = known[["n_hits", "n_repeated"]].sum().assign(n_calls=known.size())
    table = table.reindex(responses.index).fillna({"n_calls": 1}).fillna(0).astype("int64")
    share = targets["call"].notna().groupby([targets[name] for name in CELL]).mean()
    share = share.reindex(table.index)
    table = table[["n_calls", "n_hits", "n_repeated"]].assign(
        elapsed_ms=known["elapsed_ms"].sum(min_count=1).astype("float64"),
        cost_usd=responses.get("cost_usd", np.nan),
        outcome=np.select(
            [share.isna(), share == 1, share > 0], ["no target", "all found", "some found"],
            "none found",
        ),
    )  # fmt: skip
    return table.reset_index().astype({"outcome": "str"})


def call_of_hits(hits: pd.DataFrame) -> Codes:
    """Return the call of each hit, from 1; a hit that names none is of the first."""
    return np.asarray(hits.get("call", pd.Series(1, hits.index)).fillna(1), dtype=np.int64)


def of_rank(hits: pd.DataFrame) -> pd.Series:
    """Return the rank of each hit within its call."""
    cells = [hits["run_id"], hits["query_id"], call_of_hits(hits)]
    return hits.groupby(cells, observed=True)["rank"].rank("first").astype("int32")


def repeats(hits: pd.DataFrame) -> pd.Series:
    """Return the earlier call that first returned each hit's document; NA for none."""
    ids, call = hits.reindex(columns=["doc_id", "chunk_id"]).astype("str"), call_of_hits(hits)
    seen = hits[CELL].assign(document=ids["doc_id"].fillna(ids["chunk_id"]), call=call)
    first = seen.groupby([*CELL, "document"], observed=True)["call"].transform("min")
    return first.astype("Int64").where((first < call).to_numpy(dtype=bool, na_value=False))


def search_rows(results: Results) -> pd.DataFrame:
    """One row per run, query and search, where hits name their call.

    What is recorded of it, `n_hits`, and `n_repeated` of them whose document an earlier call had
    returned.
    """
    hits, names = results.hits, [*CELL, "call"]
    if "call" not in hits:
        return pd.DataFrame(columns=[*names, "n_hits", "n_repeated"])
    seen = hits[CELL].assign(call=call_of_hits(hits), repeated=repeats(hits).notna())
    groups = seen.astype({"run_id": "str"}).groupby(names)["repeated"]
    rows = groups.agg(n_counted="size", n_repeated="sum").reset_index()
    if results.calls is not None and "n_hits" in results.calls:
        known = results.calls[results.calls["n_hits"].notna().to_numpy()]  # others are no searches
        rows = known.astype({"run_id": "str"}).merge(rows, on=names, how="outer")
    counts = rows.pop("n_counted").astype("Int64").fillna(0)
    return rows.astype({"run_id": hits["run_id"].dtype}).assign(
        n_hits=rows["n_hits"].fillna(counts) if "n_hits" in rows else counts,
        n_repeated=rows["n_repeated"].astype("Int64").fillna(0),
    )


@dataclass(frozen=True, repr=False, eq=False)
class Conversations(FramesResult):
    """A metric over conversations and their turns.

    Attributes
    ----------
    table
        One row per run: `n` turns with a value in `n_conversations`; the `mean` over turns, and
        `mean_of_conversations`, in which each conversation counts alike, both with 95 % intervals
        (`low`, `high`; `low_of_conversations`, `high_of_conversations`) that take conversations,
        not turns, as independent; `first`, the mean of the `n_first` first turns, and `later`, of
        the `n_later` others.
    turns
        One row per run and number of the turn: `n`, `mean`, `low`, `high`.
    per_conversation
        One row per run and conversation: `n_turns` with a value, their `mean`, `first_failure`, the
        first turn with a value of at most `bad` (NA: none), and whether a later turn was better
        again (`recovered`; NA: none failed, or the last one did).
    metric, bad
        What was measured, and the value up to which a turn fails.
    """

    plot = Accessor("ragscore.plot.accessor:CONVERSATIONS")

    table: pd.DataFrame
    turns: pd.DataFrame
    per_conversation: pd.DataFrame
    metric: str
    bad: float

    def _heading(self) -> str:
        return f"{self.metric} over {self.per_conversation['conversation'].nunique()} conversations"


def conversations(ev: Any, metric: str | None = None, *, bad: float = 0.0) -> Conversations:
    """Return a metric by turn, first against later turns, and where conversations fail.

    Intervals, tests and gates of this evaluation take conversations as independent, not turns.

    Parameters
    ----------
    metric
        By default the first primary one.
    bad
        A turn with at most this value fails.

    Returns
    -------
    `Conversations`: frames `table`, `turns` and `per_conversation`; its docstring has the
    columns. `plot()` draws the metric by turn.

    Raises
    ------
    DataError
        No query names its conversation (`golden.queries.conversation`).

    Examples
    --------
    >>> talk = [{"id": "c_1", "query": "a?", "expected_doc_ids": ["a"], "conversation": "c"}]
    >>> rs.extras.conversations(rs.evaluate({"c_1": ["a"]}, talk)).table[["n", "mean"]]
    """
    scores, (metric, *_) = ev._scored(metric or ev.primary[0])
    golden, kind = ev.golden, ev._declared.describe(metric)
    rows = scores.reset_index()[["run_id", "query_id", metric]].rename(columns={metric: "value"})
    queries = golden.queries.reindex(columns=["query_id", "conversation"]).set_index("query_id")
    if queries["conversation"].isna().all():
        raise DataError(
            "no query names its conversation",
            field="golden.queries.conversation",
            allowed="a column conversation (golden.queries.query_id.str.extract reads it from ids)",
        )
    talks = queries["conversation"].reindex(rows["query_id"]).set_axis(rows.index)
    if n := golden.queries["conversation"].isna().sum():
        warn(
            f"{plural(int(n), 'query')} of {len(golden.queries)} in no conversation: left out of"
            " means over conversations"
        )
    numbers = turn_numbers(golden.queries).set_axis(golden.queries["query_id"])
    rows = rows.assign(
        run_id=rows["run_id"].astype("str"), conversation=talks,
        turn=numbers.reindex(rows["query_id"]).to_numpy(),
    )  # fmt: skip
    rows = rows[rows["conversation"].notna() & rows["value"].notna()].astype({"turn": "int64"})
    rows = rows.sort_values("turn", kind="stable")
    bounds = kind.bounds if np.isfinite(kind.bounds).all() else (0.0, 1.0)

    def mean(values: pd.Series, of: str, ids: pd.Series | None = None) -> dict[str, Any]:
        groups = None if ids is None else query_clusters(golden, pd.Index(ids), "conversation")
        low, high = mean_interval(values.to_numpy("float64"), of, bounds=bounds, groups=groups)
        return {"mean": values.mean(), "low": float(low[0]), "high": float(high[0])}

    table, by_turn = [], []
    for run_id, own in rows.groupby("run_id", sort=False):
        of_talk = own.groupby("conversation")
        means, is_first = of_talk["value"].mean(), own["turn"] == of_talk["turn"].transform("min")
        overall = mean(means, "bounded" if kind.kind == "binary" else kind.kind)
        first, later = own.loc[is_first, "value"], own.loc[~is_first, "value"]
        table.append({
            "run_id": run_id, "n": len(own), "n_conversations": len(means),
            **mean(own["value"], kind.kind, own["query_id"]),
            **{f"{name}_of_conversations": value for name, value in overall.items()},
            "first": first.mean(), "n_first": len(first), "later": later.mean(),
            "n_later": len(later),
        })  # fmt: skip
        for turn, of_turn in own.groupby("turn")["value"]:
            about = {"run_id": run_id, "turn": turn, "n": len(of_turn)}
            by_turn.append(about | mean(of_turn, kind.kind))
    found = _per_conversation(rows, bad)
    return ev._alike(Conversations(pd.DataFrame(table), pd.DataFrame(by_turn), found, metric, bad))


def _per_conversation(rows: pd.DataFrame, bad: float) -> pd.DataFrame:
    """Return of each conversation its mean, its first failure, and whether it recovered."""
    keys, fails = ["run_id", "conversation"], rows["value"] <= bad
    rows = rows.assign(failure=rows["turn"].where(fails))
    is_later = rows["turn"] > rows.groupby(keys)["failure"].transform("min")
    rows = rows.assign(is_later=is_later, is_better=is_later & ~fails)
    table = rows.groupby(keys, sort=False).agg(
        n_turns=("value", "size"), mean=("value", "mean"), first_failure=("failure", "min"),
        has_later=("is_later", "any"), recovered=("is_better", "any"),
    ).astype({"first_failure": "Int64", "recovered": "boolean"})  # fmt: skip
    return table.assign(recovered=table["recovered"].where(table.pop("has_later"))).reset_index()


def turn_numbers(queries: pd.DataFrame) -> pd.Series:
    """Return the number of each turn: as named, else the place in its conversation."""
    places = queries.groupby("conversation", sort=False, dropna=False).cumcount() + 1
    if "turn" not in queries:
        return places
    return pd.to_numeric(queries["turn"], errors="coerce").fillna(places).astype("int64")
