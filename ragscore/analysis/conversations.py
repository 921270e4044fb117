"""Conversations: a metric by turn, first against later turns, and where conversations fail.

In: scores and a golden set whose queries name their conversation and turn. Out: `Conversations`.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import plural, warn
from ragscore.frames.verbs import Accessor
from ragscore.scoring.intervals import query_clusters
from ragscore.scoring.metrics import MetricTable
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


def conversations(
    scores: pd.DataFrame, golden: Golden, metric: str, bad: float, declared: MetricTable
) -> Conversations:
    """Measure a metric over conversations; see `rs.extras.conversations`."""
    kind = declared.describe(metric)
    rows = scores.reset_index()[["run_id", "query_id", metric]].rename(columns={metric: "value"})
    queries = golden.queries.reindex(columns=["query_id", "conversation"]).set_index("query_id")
    if queries["conversation"].isna().all():
        raise DataError(
            "no query names its conversation",
            field="golden.queries.conversation",
            allowed="a column conversation, or load_golden(turns=pattern) that reads it from ids",
        )
    talks = queries["conversation"].reindex(rows["query_id"]).set_axis(rows.index)
    if n := golden.queries["conversation"].isna().sum():
        warn(
            f"{plural(int(n), 'query')} of {len(golden.queries)} in no conversation: left out of"
            " means over conversations"
        )
    numbers = turn_numbers(golden.queries).set_axis(golden.queries["query_id"])
    rows = rows.assign(run_id=rows["run_id"].astype("str"), conversation=talks)
    rows = rows[rows["conversation"].notna() & rows["value"].notna()]
    rows = rows.assign(turn=numbers.reindex(rows["query_id"]).to_numpy()).astype({"turn": "int64"})
    rows = rows.sort_values("turn", kind="stable")

    def interval(
        values: pd.Series, ids: pd.Series | None = None, is_mean: bool = False
    ) -> tuple[float, float]:
        groups = None if ids is None else query_clusters(golden, pd.Index(ids), "conversation")
        bounds = kind.bounds if np.isfinite(kind.bounds).all() else (0.0, 1.0)
        of_kind = "bounded" if is_mean and kind.kind == "binary" else kind.kind
        low, high = mean_interval(values.to_numpy("float64"), of_kind, bounds=bounds, groups=groups)
        return float(low[0]), float(high[0])

    table, by_turn = [], []
    for run_id, own in rows.groupby("run_id", sort=False):
        means = own.groupby("conversation")["value"].mean()
        low_of_talks, high_of_talks = interval(means, is_mean=True)
        first_turn = own.groupby("conversation")["turn"].transform("min")
        is_first = (own["turn"] == first_turn).to_numpy(dtype=bool)
        low, high = interval(own["value"], own["query_id"])
        table.append({
            "run_id": run_id, "n": len(own), "n_conversations": len(means),
            "mean": own["value"].mean(), "low": low, "high": high,
            "mean_of_conversations": means.mean(), "low_of_conversations": low_of_talks,
            "high_of_conversations": high_of_talks,
            "first": own.loc[is_first, "value"].mean(), "n_first": int(is_first.sum()),
            "later": own.loc[~is_first, "value"].mean(), "n_later": int((~is_first).sum()),
        })  # fmt: skip
        for turn, of_turn in own.groupby("turn", sort=True):
            low, high = interval(of_turn["value"])
            by_turn.append({"run_id": run_id, "turn": turn, "n": len(of_turn),
                            "mean": of_turn["value"].mean(), "low": low, "high": high})  # fmt: skip
    return Conversations(
        pd.DataFrame(table), pd.DataFrame(by_turn), _failures(rows, bad), metric, bad
    )


def turn_numbers(queries: pd.DataFrame) -> pd.Series:
    """Return the number of each turn: as named, else the place in its conversation."""
    places = queries.groupby("conversation", sort=False, dropna=False).cumcount() + 1
    if "turn" not in queries:
        return places
    return pd.to_numeric(queries["turn"], errors="coerce").fillna(places).astype("int64")


def _failures(rows: pd.DataFrame, bad: float) -> pd.DataFrame:
    """Return of each conversation its mean, its first failure, and whether it recovered."""
    keys = ["run_id", "conversation"]
    fails = rows["value"] <= bad
    grouped = rows.groupby(keys, sort=False)
    failed = rows["turn"].where(fails).groupby([rows[name] for name in keys], sort=False).min()
    table = grouped.agg(n_turns=("value", "size"), mean=("value", "mean"), last=("turn", "max"))
    table["first_failure"] = failed.astype("Int64")
    after = rows[keys].assign(
        is_after=rows["turn"].to_numpy()
        > failed.reindex(pd.MultiIndex.from_frame(rows[keys])).to_numpy("float64", na_value=np.inf),
        is_good=~fails,
    )
    again = (after["is_after"] & after["is_good"]).groupby([after[name] for name in keys]).any()
    recovered = again.reindex(table.index).astype("boolean")
    has_later = table["first_failure"].notna() & (table["first_failure"] < table["last"])
    table["recovered"] = recovered.where(has_later.fillna(False))
    return table.drop(columns="last").reset_index()
