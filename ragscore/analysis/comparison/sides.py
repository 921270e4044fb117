"""The scores of two runs side by side: what `Comparison.deltas` is made of.

In: scores of both runs, and the facts of their rows. Out: values by query of both, how each query
ended, and one row per metric with the difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.align import align, expected_in
from ragscore.analysis.comparison.deltas import level_together, paired_deltas
from ragscore.frames.codes import lookup
from ragscore.frames.typing import Codes, Flags
from ragscore.scoring.intervals import query_clusters
from ragscore.scoring.metrics import MetricTable
from ragscore.scoring.rows import Rows

ENDED = pd.Index(["scored", "failed", "missing"], dtype="str")


@dataclass(frozen=True)
class Sides:
    """Scores of a baseline and a candidate.

    Attributes
    ----------
    first, second
        Their values: one row per query that either has, by id, and one column per metric.
    states
        How each query ended: columns state_baseline and state_candidate.
    in_both
        Flags of the queries that both were asked.
    groups
        The number of each of these queries' group, -1: none.
    counts
        One row per metric: values of the baseline that are lost, because the candidate failed or
        was not asked, and values that were expected on either side.
    """

    first: pd.DataFrame
    second: pd.DataFrame
    states: pd.DataFrame
    in_both: Flags
    groups: Codes | None
    counts: pd.DataFrame
    declared: MetricTable

    @classmethod
    def of(
        cls, scores: pd.DataFrame, rows: Rows, run_ids: tuple[str, str], cluster: str | None,
        declared: MetricTable,
    ) -> "Sides":  # fmt: skip
        """Put the scores of two runs side by side."""
        held = scores.reset_index()
        names = [name for name in scores if name not in ("run_id", "state", "level")]
        aligned = align(held, names, [*run_ids], declared)
        first, second = (aligned.frame(run_id) for run_id in run_ids)
        # scores that other tools stored have no row for a query that was not asked
        ended = np.full((len(first), 2), 2)
        run = lookup(held["run_id"], pd.Index(run_ids, dtype="str"))
        ended[lookup(held["query_id"], aligned.query_ids), run] = rows.state[rows.places(held)]
        was_asked, has_failed = ended < 2, ended == 1
        is_known = np.logical_not(np.isnan(aligned.values))
        is_lost = ~was_asked[:, [1]] | (has_failed[:, [1]] & ~is_known[:, 1])
        is_lost &= is_known[:, 0] & was_asked[:, [0]]
        in_both = was_asked.all(axis=1)
        clusters = query_clusters(rows.golden, first.index, cluster)
        of_baseline, of_candidate = expected_in(aligned, held, rows).sum(axis=0)
        return cls(
            first, second,
            pd.DataFrame(
                {f"state_{side}": ENDED[ended[:, place]]
                 for place, side in enumerate(("baseline", "candidate"))}, index=first.index,
            ),
            in_both, None if clusters is None else clusters[in_both],
            pd.DataFrame({
                "n_lost": is_lost.sum(axis=0), "n_expected_baseline": of_baseline,
                "n_expected_candidate": of_candidate,
            }, index=names),
            declared,
        )  # fmt: skip

    def only(self, metrics: Sequence[str]) -> "Sides":
        """Return these metrics alone."""
        names = list(metrics)
        return replace(
            self, first=self.first[names], second=self.second[names], counts=self.counts.loc[names]
        )

    def level_together(self, metrics: Sequence[str]) -> float:
        """Return the level at which the intervals of these metrics hold together in 95 %."""
        described = [self.declared.describe(name) for name in metrics]
        a, b = (side.loc[self.in_both, list(metrics)] for side in (self.first, self.second))
        return level_together(a.to_numpy("float64"), b.to_numpy("float64"), described, self.groups)

    def deltas(self, primary: Sequence[str], level: float) -> pd.DataFrame:
        """Return the table `Comparison.deltas`, of the queries that both were asked."""
        a, b = self.first.loc[self.in_both], self.second.loc[self.in_both]
        table = paired_deltas(
            a, b, primary, declared=self.declared, groups=self.groups, level=level
        )
        table = table.assign(**{name: self.counts[name].to_numpy() for name in self.counts})
        # primary metrics first, those without values last
        order = np.lexsort((~table["is_primary"], table["n"] == 0))
        return table.iloc[order].reset_index(drop=True)

    def tails(self) -> pd.DataFrame:
        """One row per time or cost: 95th percentiles of both runs on the queries both have."""
        timed = [name for name in map(str, self.first) if self.declared.describe(name).is_timed]
        found = np.full((len(timed), 2), np.nan)
        for place, name in enumerate(timed):
            pair = np.stack([side.loc[self.in_both, name] for side in (self.first, self.second)])
            pair = pair[:, ~np.isnan(pair).any(axis=0)]
            if pair.size:
                found[place] = np.percentile(pair, 95, axis=1)
        return pd.DataFrame({
            "metric": pd.Series(timed, dtype="str"), "p95_baseline": found[:, 0],
            "p95_candidate": found[:, 1],
        })  # fmt: skip
