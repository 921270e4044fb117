"""What became of every query in every run, and in which order to read them.

In: the runs shown. Out: a frame per run, with a row per query. Lists, tables and the query that is
opened first all use this one order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.model import RankChanges
from ragscore.analysis.comparison.text import reading_priority
from ragscore.frames.data import Golden, Results
from ragscore.frames.typing import Codes
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.rows import Rows
from ragscore.scoring.summary import chosen_columns

ANSWERED = "answered_unanswerable"
SAME = ("draw", "both_miss", "no_target", "")  # outcomes by which nothing changed
NOTHING = {"outcome": None, "change": "", "note": "", "key": np.nan}


@dataclass(frozen=True)
class Runs:
    """The runs that an explorer shows, and how they were scored.

    `compared` is what changed from the first run to each of the others, in their order; empty where
    there is one run. `declared`: what is declared of columns of your own.
    """

    rows: Rows
    scores: pd.DataFrame
    run_ids: list[str]
    compared: tuple[RankChanges, ...]
    primary: tuple[str, ...]
    declared: MetricTable = TABLE

    @property
    def golden(self) -> Golden:
        """The golden set, as it is read."""
        return self.rows.golden

    @cached_property
    def results(self) -> Results:
        """What these runs answered, with their lists as they are scored."""
        return self.rows.results.select(self.run_ids)

    @property
    def level(self) -> Level:
        """The level at which hits are matched; another harness has its own for two runs."""
        return self.compared[0]._level if self.compared else self.rows.level


def values_of(runs: Runs, ids: pd.Index) -> list[pd.DataFrame]:
    """Return each run's values by query: primary metrics first, then the headline ones."""
    rows = runs.scores if "query_id" in runs.scores else runs.scores.reset_index()
    known = [name for name in chosen_columns(rows, None) if rows[name].notna().any()]
    primary = [name for name in runs.primary if name in known]
    names, run = list(dict.fromkeys([*primary, *TABLE.headline(known)])), rows["run_id"]
    return [
        rows[(run == one).to_numpy()].set_index("query_id")[names].reindex(ids)
        for one in runs.run_ids
    ]


def changes_of(runs: Runs, values: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return what each run changed, by query.

    Columns: `outcome` against the first run (NA: not compared), `change` in a few words, `note`
    with its known cause, and `key`: the lowest is to be read first, NaN is no change. Of one run
    alone, the first primary metric makes the keys.
    """
    first, *others = values
    if not runs.compared:
        return [_alone(runs, first)]
    pairs = zip(runs.compared, others, strict=True)
    return [pd.DataFrame(NOTHING, index=first.index)] + [
        _against(cmp, runs, first, one) for cmp, one in pairs
    ]


def read_first(changes: list[pd.DataFrame]) -> Codes:
    """Return the places of the queries: the one to read first in any run first."""
    keys = [one["key"].to_numpy("float64") for one in changes]
    return np.argsort(np.fmin.reduce(keys), kind="stable").astype(np.int64)


def listed_of(runs: Runs, queries: pd.DataFrame, changes: list[pd.DataFrame]) -> pd.DataFrame:
    """Return a row per query for people: its id and text, and of each run what changed."""
    ids = queries["query_id"]
    listed = pd.DataFrame({"query_id": ids, "query": queries["query"].fillna(ids)})
    several = len(runs.run_ids) > 2
    for run, one in list(zip(runs.run_ids, changes, strict=True))[bool(runs.compared) :]:
        for name in ("outcome", "change") if runs.compared else ("change",):
            listed[f"{run}: {name}" if several else name] = one[name].fillna("").to_numpy()
    return listed


def _alone(runs: Runs, values: pd.DataFrame) -> pd.DataFrame:
    found = pd.DataFrame(NOTHING, index=values.index)
    for name in values.columns[:1]:
        is_cost = runs.declared.describe(name).better == "lower"
        found["key"] = -values[name] if is_cost else values[name]
        found["change"] = [f"{name} {one:.2f}" if one == one else "" for one in values[name]]
    if ANSWERED in values:
        is_wrong = values[ANSWERED].eq(1).to_numpy()
        found.loc[is_wrong, ["key", "change"]] = -np.inf, "answered"
    return found


def _against(
    cmp: RankChanges, runs: Runs, before: pd.DataFrame, after: pd.DataFrame
) -> pd.DataFrame:
    rows = cmp.per_query.set_index("query_id").reindex(before.index)
    outcome, known = rows["outcome"].fillna(""), rows["outcome"].notna().to_numpy()
    names, scale = [""], [0.0]  # as shares of each metric's range; the first is no metric
    for name in [one for one in runs.primary if one in before]:
        described = runs.declared.describe(name)
        if np.isfinite(described.width):
            names.append(name)
            scale.append((-1 if described.better == "lower" else 1) / described.width)
    differences = np.zeros((len(rows), len(names)))
    differences[:, 1:] = np.nan_to_num(after[names[1:]].to_numpy() - before[names[1:]].to_numpy())
    gains = differences * scale
    sizes = np.abs(gains)
    largest = sizes.argmax(axis=1)
    then, now = (one.reindex(columns=[ANSWERED])[ANSWERED].eq(1) for one in (before, after))
    answered = before.index[now & ~then].tolist()
    loss = -gains.min(axis=1)
    key = np.full(len(rows), np.nan)
    key[known] = reading_priority(rows[known].reset_index(), answered, loss[known])
    is_changed = ~outcome.isin(SAME) | (sizes.max(axis=1) > 0)
    is_changed |= (rows[["n_gained", "n_lost"]] > 0).any(axis=1)
    ranks = [rows[f"rank_{one}"].astype("str").fillna("miss") for one in ("baseline", "candidate")]
    has_moved = ranks[0].ne(ranks[1]) & ~outcome.str.startswith("only_")
    shown = [
        f"{names[place]} {one:+.2f}".replace("-", "−") if place else ""
        for place, one in zip(largest, differences[np.arange(len(rows)), largest], strict=True)
    ]
    return pd.DataFrame(
        {
            "outcome": rows["outcome"],
            "change": (ranks[0] + " → " + ranks[1]).where(has_moved, shown),
            "note": rows["note"].fillna(""),
            "key": np.where(is_changed, key, np.nan),
        }
    )
