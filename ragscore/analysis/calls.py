"""What each search for a query adds: recall after each call, and what calls repeat.

In: results whose hits name their call, golden set, and the match level. Out: `CallReport`.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import plural
from ragscore.frames.typing import Codes
from ragscore.frames.verbs import Accessor
from ragscore.scoring.intervals import query_clusters
from ragscore.scoring.level import Level
from ragscore.scoring.rows import Rows
from ragscore.scoring.rules import Rule
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
        One row per run and query: `n_calls`, `n_hits`, `n_later_hits` of later calls, of them
        `n_repeated`, later calls `n_without_new` documents, `elapsed_ms` of the calls and
        `cost_usd` of the response (NaN: unknown), `outcome`: all found, some found, none found, no
        target. Grouped by run and outcome it tells what each outcome cost.
    k
        Hits of each call that were looked at; None: all.
    """

    FRAMES = ("table", "after", "targets", "per_query")
    METHODS = ("plot()",)

    plot = Accessor("ragscore.plot.accessor:CALLS")

    after: pd.DataFrame
    targets: pd.DataFrame
    per_query: pd.DataFrame
    k: int | None

    @cached_property
    def table(self) -> pd.DataFrame:
        """The figures of each run."""
        run = self.per_query["run_id"].astype("str")
        rows = self.per_query.assign(run_id=run).groupby("run_id", sort=False)
        later = rows["n_later_hits"].sum().astype("float64").replace(0.0, np.nan)
        n_later_calls = (rows["n_calls"].sum() - rows.size()).astype("float64")
        call = self.targets["call"]
        found = self.targets.assign(
            run_id=self.targets["run_id"].astype("str"),
            is_first=call.eq(1).fillna(False),
            is_later=call.gt(1).fillna(False),
        ).groupby("run_id", sort=False)
        return pd.DataFrame(
            {
                "n_queries": rows.size(),
                "n_several": self.per_query["n_calls"].gt(1).groupby(run, sort=False).sum(),
                "calls_mean": rows["n_calls"].mean(),
                "calls_max": rows["n_calls"].max(),
                "n_targets": found.size(),
                "n_first": found["is_first"].sum(),
                "n_later": found["is_later"].sum(),
                "repeated": rows["n_repeated"].sum() / later,
                "without_new": rows["n_without_new"].sum() / n_later_calls.replace(0.0, np.nan),
            }
        ).reset_index()

    def _heading(self) -> str:
        cut = "" if self.k is None else f", {self.k} hits of each"
        n = self.per_query["run_id"].nunique()
        return f"Calls of {plural(n, 'run')}{cut}"

    def _shown(self) -> pd.DataFrame:
        return self.table.round(3)


def call_of_hits(hits: pd.DataFrame) -> Codes:
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


def of_rank(hits: pd.DataFrame) -> pd.Series:
    """Return the rank of each hit among those of its call."""
    cells = [hits["run_id"], hits["query_id"], call_of_hits(hits)]
    return hits.groupby(cells, observed=True)["rank"].rank("first").astype("int32")


def calls(
    results: Results,
    golden: Golden,
    match: str,
    rule: Rule | None,
    k: int | None,
) -> CallReport:
    """Measure what each call adds; see `rs.extras.calls`."""
    hits = results.hits.assign(call=call_of_hits(results.hits), rank_in_call=of_rank(results.hits))
    if k is not None:
        hits = hits[hits["rank_in_call"] <= k]
    level = Level.of(results, golden, match)
    rows = Rows(replace(results, hits=hits[results.hits.columns]), golden, level, rule=rule)
    counts = np.maximum(rows.n_calls[rows.of(results.responses)], 1)
    if not (counts > 1).any():
        raise DataError(
            "no query has several calls",
            field="results.calls",
            allowed="traces with several searches, lists of lists of ids, or a column `call`",
        )
    relevant, found = rows.relevant_targets()
    places = hits[[*CELL, "rank", "call", "rank_in_call"]]
    found = found.merge(
        places.astype({"run_id": "str", "query_id": "str"}), on=[*CELL, "rank"], how="left"
    )
    responses = results.responses[CELL].assign(n_calls=counts)
    own = relevant[["query_id", "target_id"]].drop_duplicates()
    known = found[[*CELL, "target_id", "call", "rank_in_call"]]
    targets = responses[CELL].merge(own, on="query_id")
    targets = targets.astype({"run_id": "str"}).merge(known, on=[*CELL, "target_id"], how="left")
    targets = targets.rename(columns={"rank_in_call": "rank"})
    targets = targets.astype({"call": "Int64", "rank": "Int64"})
    after = _after(targets, golden, int(counts.max()))
    return CallReport(after, targets, _per_query(results, hits, responses, targets), k)


def _after(targets: pd.DataFrame, golden: Golden, most: int) -> pd.DataFrame:
    """Return recall and hit after each number of calls, with intervals."""
    first = targets["call"].astype("Float64").fillna(np.inf).to_numpy("float64")
    numbers = np.arange(1, most + 1)
    is_found = pd.DataFrame(first[:, None] <= numbers).astype("float64")
    rows = []
    for run_id, own in targets.groupby("run_id", observed=True, sort=False):
        reached = is_found.loc[own.index].groupby(own["query_id"], sort=False).mean()
        recall = reached.to_numpy("float64")
        groups = query_clusters(golden, reached.index, "group")
        ends = mean_interval(recall, "bounded", groups=groups)
        hit = (recall > 0).astype("float64")
        hit_ends = mean_interval(hit, "binary", groups=groups)
        rows.append(pd.DataFrame({
            "run_id": str(run_id), "call": numbers, "n": len(recall),
            "recall": recall.mean(axis=0), "low": ends[0], "high": ends[1],
            "hit": hit.mean(axis=0), "hit_low": hit_ends[0], "hit_high": hit_ends[1],
        }))  # fmt: skip
    names = ["run_id", "call", "n", "recall", "low", "high", "hit", "hit_low", "hit_high"]
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=names)


def _per_query(
    results: Results, hits: pd.DataFrame, responses: pd.DataFrame, targets: pd.DataFrame
) -> pd.DataFrame:
    """Return what the calls of each query did."""
    seen = hits[[*CELL, "call"]].assign(repeated=repeats(hits).notna())
    seen = seen.assign(new=~seen["repeated"], later=seen["call"] > 1)
    by_query = seen.groupby(CELL, observed=True)
    with_new = seen[seen["new"] & seen["later"]].drop_duplicates([*CELL, "call"])
    table = responses.set_index(CELL).assign(
        n_hits=by_query.size(), n_repeated=by_query["repeated"].sum(),
        n_later_hits=by_query["later"].sum(),
        later_new=with_new.groupby(CELL, observed=True).size(),
    )  # fmt: skip
    counted = ["n_hits", "n_repeated", "n_later_hits", "later_new"]
    table[counted] = table[counted].fillna(0).astype("int64")
    table["n_without_new"] = table["n_calls"] - 1 - table.pop("later_new")
    known = searches(results)
    table["elapsed_ms"] = np.nan
    if known is not None and "elapsed_ms" in known:
        times = known.groupby(CELL, observed=True)["elapsed_ms"].sum(min_count=1)
        table["elapsed_ms"] = times.reindex(table.index)
    table["cost_usd"] = results.responses.set_index(CELL).get("cost_usd", np.nan)
    reached = targets["call"].notna().groupby([targets[name] for name in CELL], observed=True)
    share = reached.mean().reindex(table.index)
    table["outcome"] = np.select(
        [share.isna(), share == 1, share > 0], ["no target", "all found", "some found"],
        "none found",
    )  # fmt: skip
    return table.reset_index().astype({"outcome": "str"})


def repeats(hits: pd.DataFrame) -> pd.Series:
    """Return the earlier call that first returned each hit's document; NA for none."""
    named = [name for name in ("doc_id", "chunk_id") if name in hits]
    document = pd.Series(pd.NA, index=hits.index, dtype="str")
    for name in named:
        document = document.fillna(hits[name])
    call = call_of_hits(hits)
    seen = hits[CELL].assign(document=document, call=call)
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
    if (known := searches(results)) is not None:
        rows = known.astype({"run_id": "str"}).merge(rows, on=names, how="outer")
    counts = rows.pop("n_counted").astype("Int64").fillna(0)
    return rows.astype({"run_id": hits["run_id"].dtype}).assign(
        n_hits=rows["n_hits"].fillna(counts) if "n_hits" in rows else counts,
        n_repeated=rows["n_repeated"].astype("Int64").fillna(0),
    )
