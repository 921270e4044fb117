"""Conversations: a metric by turn, first against later turns, and where conversations fail.

In: an evaluation whose queries name their conversation and turn. Out: `Conversations`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError
from ragscore.frames.errors import plural, warn
from ragscore.frames.verbs import Accessor
from ragscore.scoring.intervals import query_clusters
from ragscore.stats import mean_interval


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

    FRAMES = ("table", "turns", "per_conversation")
    METHODS = ("plot()",)

    plot = Accessor("ragscore.plot.accessor:CONVERSATIONS")

    table: pd.DataFrame
    turns: pd.DataFrame
    per_conversation: pd.DataFrame
    metric: str
    bad: float

    def _heading(self) -> str:
        n = self.per_conversation["conversation"].nunique()
        return f"{self.metric} over {n} conversations"

    def _shown(self) -> pd.DataFrame:
        return self.table.round(3)


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
    recovered = table["recovered"].where(table.pop("has_later"))
    return table.assign(recovered=recovered).reset_index()


def turn_numbers(queries: pd.DataFrame) -> pd.Series:
    """Return the number of each turn: as named, else the place in its conversation."""
    places = queries.groupby("conversation", sort=False, dropna=False).cumcount() + 1
    if "turn" not in queries:
        return places
    return pd.to_numeric(queries["turn"], errors="coerce").fillna(places).astype("int64")
