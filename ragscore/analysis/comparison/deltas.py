"""Paired differences between two runs, metric by metric.

In: two frames of scores on the same queries. Out: one row per metric with both means (of times and
costs: medians), their difference and its interval, and the word of those that decide; one row per
aspect. Every difference, interval and p is made here.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.align import align, expected_in
from ragscore.frames.codes import lookup
from ragscore.frames.typing import Codes, Flags, Values
from ragscore.scoring.intervals import query_clusters, shared_only
from ragscore.scoring.metrics import TABLE, Metric, MetricTable
from ragscore.scoring.primary import aspects_of
from ragscore.scoring.rows import Rows
from ragscore.scoring.summary import metric_columns
from ragscore.stats import minimum_detectable
from ragscore.stats.moments import sample, skewness
from ragscore.stats.multiple import ALPHA, level_of_each
from ragscore.stats.paired import is_heavy_tailed, paired_test
from ragscore.stats.quantiles import median_difference_interval, moves_of_median
from ragscore.stats.verdicts import UNSURE, joint_word, words

FIGURES = ("baseline", "candidate", "delta", "low", "high")
ENDED = pd.Index(["scored", "failed", "missing"], dtype="str")


def figures(
    a: Values, b: Values, metrics: Sequence[Metric], level: Values, groups: Codes | None
) -> dict[str, Values]:
    """Return both means (of times medians), their difference, interval, p, detectable difference.

    Parameters
    ----------
    a, b
        Values of baseline and candidate: one row per query, one column per metric. Only rows where
        both have a value count.
    level
        1 − confidence of each column's interval.
    groups
        Number of each query's group (paraphrases, source, conversation), -1: none.
    """
    apart, is_timed = b - a, np.array([one.is_timed for one in metrics], dtype=bool)
    scales = np.array([one.scale for one in metrics])
    is_known = ~np.isnan(apart)
    found = {name: np.full(len(metrics), np.nan) for name in (*FIGURES, "p", "detectable")}
    n = is_known.sum(axis=0)
    with np.errstate(invalid="ignore"):
        for name, side in (("baseline", a), ("candidate", b), ("delta", apart)):
            found[name] = np.where(is_known, side, 0.0).sum(axis=0) / n
    for place in np.flatnonzero(is_timed & is_known.any(axis=0)).tolist():
        first, second = (side[is_known[:, place], place] for side in (a, b))
        found["baseline"][place], found["candidate"][place] = np.median(first), np.median(second)
        found["delta"][place] = np.median(second) - np.median(first)
        own = None if groups is None else groups[is_known[:, place]]
        ends = median_difference_interval(first, second, 1 - level[place], own)
        found["low"][place], found["high"][place] = ends
    families: dict[tuple[str, tuple[float, float], float, bool], list[int]] = {}
    for place in np.flatnonzero(~is_timed).tolist():
        metric, own = metrics[place].scaled(), None
        if groups is not None:
            own = shared_only(groups[is_known[:, place]])
        part, width = apart[:, place] / scales[place], metric.width
        is_beyond = (np.abs(part) > width * (1 + 1e-9)).any()  # another tool's scale
        kind = "other" if is_beyond else metric.tested_as
        family = kind, metric.bounds, float(level[place]), own is not None
        families.setdefault(family, []).append(place)
    for (kind, bounds, own_level, is_grouped), places in families.items():
        part, codes = apart[:, places] / scales[places], groups if is_grouped else None
        of, width = sample(part, codes), bounds[1] - bounds[0]
        low, high, found["p"][places] = paired_test(part, of, kind, bounds, 1 - own_level)
        found["low"][places], found["high"][places] = low * scales[places], high * scales[places]
        detectable = minimum_detectable(of.jackknifed, of.alike, own_level)
        detectable = np.where(detectable <= width, detectable, np.nan)
        found["detectable"][places] = detectable * scales[places]
    return found


def level_together(a: Values, b: Values, metrics: Sequence[Metric], groups: Codes | None) -> float:
    """Return the level of each column's interval, at which all of them hold together in 95 %."""
    moves = (b - a) / np.array([one.scale for one in metrics])
    is_known = ~np.isnan(moves)
    for place in [at for at, one in enumerate(metrics) if one.is_timed and is_known[:, at].any()]:
        known = is_known[:, place]
        own = [moves_of_median(side[known, place]) for side in (a, b)]
        moves[known, place] = own[1] - own[0]
    return level_of_each(moves, groups)


def paired_deltas(
    first: pd.DataFrame,
    second: pd.DataFrame,
    primary: Collection[str] = (),
    *,
    declared: MetricTable = TABLE,
    groups: Codes | None = None,
    level: float = ALPHA,
) -> pd.DataFrame:
    """One row per metric: the table `Comparison.deltas`.

    Parameters
    ----------
    first, second
        Scores of baseline and candidate: one row per query both were asked (same index), one column
        per metric.
    primary
        The metrics that decide: only they have a word, and no p.
    groups
        As for `figures`.
    level
        Of the primary metrics' intervals, at which all that is asked about holds together.
    """
    names, a, b = list(first.columns), first.to_numpy("float64"), second.to_numpy("float64")
    apart, is_primary = b - a, np.array([name in primary for name in names], dtype=bool)
    metrics, places = [declared.describe(name) for name in names], np.flatnonzero(is_primary)
    columns = np.append(np.arange(len(names)), places)  # the primary ones at both levels
    levels = np.where(np.append(is_primary, [False] * len(places)), level, ALPHA)
    both = figures(
        a[:, columns], b[:, columns], [metrics[place] for place in columns], levels, groups
    )
    found = {name: values[: len(names)] for name, values in both.items()}
    own = {f"{end}_95": found[end].copy() for end in ("low", "high")}
    for end in ("low", "high"):
        own[f"{end}_95"][places] = both[end][len(names) :]
    found["p"] = np.where(is_primary, np.nan, found["p"])
    rounding = np.array([one.rounding for one in metrics])
    is_lower = np.array([one.better == "lower" for one in metrics], dtype=bool)
    up, down = (apart > rounding).sum(axis=0), (apart < -rounding).sum(axis=0)
    n, widths = (~np.isnan(apart)).sum(axis=0), np.array([one.width for one in metrics])
    return pd.DataFrame(
        {
            "metric": names,
            **{name: found[name] for name in FIGURES},
            "verdict": verdicts(found, metrics, (n > 0) & is_primary),
            "is_primary": is_primary,
            "statistic": ["median" if one.is_timed else "mean" for one in metrics],
            "p": found["p"],
            "detectable": found["detectable"],
            **own,
            "n_better": np.where(is_lower, down, up),
            "n_worse": np.where(is_lower, up, down),
            "n_same": n - up - down,
            "n": n,
            "skewness": skewness(apart),
            "caution": is_heavy_tailed(apart, widths)
            & ~np.array([one.is_timed for one in metrics], dtype=bool),
        }
    )


def verdicts(found: dict[str, Values], metrics: Sequence[Metric], is_asked: Values) -> pd.Series:
    """Return the word of each of `figures`, by its interval; NA where nobody knows what is better.

    And where nothing is asked (`is_asked`).
    """
    is_lower = [one.better == "lower" for one in metrics]
    is_told = is_asked & np.array([one.better != "not declared" for one in metrics], dtype=bool)
    return pd.Series(words(found["low"], found["high"], is_lower), dtype="str").where(is_told)


def aspects(deltas: pd.DataFrame) -> pd.DataFrame:
    """One row per aspect that decides: its `metrics` (joined by a comma), `verdict`, `sentence`.

    The metrics of refusals trade against each other, and have one verdict together.
    """
    decided = deltas.loc[deltas["verdict"].notna().to_numpy(), ["metric", "verdict", "n", *FIGURES]]
    rows, found = {row["metric"]: row for row in decided.to_dict("records")}, []
    for aspect, names in aspects_of(rows).items():
        own = rows[names[0]]
        word, low, high = own["verdict"], own["low"], own["high"]
        if len(names) > 1:
            gains = {name: -rows[name]["delta"] for name in names}  # both should be low
            word, sentence = joint_word({name: rows[name]["verdict"] for name in names}, gains)
        elif word == UNSURE and np.isnan(low):
            sentence = f"{own['n']} queries are too few for an interval"
        else:
            sentence = f"the difference lies between {low:+.3g} and {high:+.3g}"
        found.append((aspect, ", ".join(names), word, sentence))
    return pd.DataFrame(found, columns=["aspect", "metrics", "verdict", "sentence"], dtype="str")


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
        names = metric_columns(scores)
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
        in_both = np.asarray(was_asked.all(axis=1))
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

    def level_together(self, metrics: Sequence[str]) -> float:
        """Return the level at which the intervals of these metrics hold together in 95 %."""
        a, b = (
            side.loc[self.in_both, list(metrics)].to_numpy("float64")
            for side in (self.first, self.second)
        )
        return level_together(a, b, [*map(self.declared.describe, metrics)], self.groups)

    def deltas(
        self, primary: Sequence[str], level: float, metrics: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Return the table `Comparison.deltas`, or its rows of some metrics."""
        names = list(self.first if metrics is None else metrics)
        table = paired_deltas(
            self.first.loc[self.in_both, names], self.second.loc[self.in_both, names], primary,
            declared=self.declared, groups=self.groups, level=level,
        )  # fmt: skip
        table = pd.concat([table, self.counts.loc[names].reset_index(drop=True)], axis=1)
        # primary metrics first, those without values last
        return table.iloc[np.lexsort((~table["is_primary"], table["n"] == 0))].reset_index(
            drop=True
        )

    def tails(self) -> pd.DataFrame:
        """One row per time or cost: 95th percentiles of both runs on the queries both have."""
        timed = [one for one in map(str, self.first) if self.declared.describe(one).is_timed]
        is_known = self.first[timed].notna() & self.second[timed].notna()
        p95 = {
            f"p95_{side}": frame[timed].where(is_known).quantile(0.95).to_numpy("float64")
            for side, frame in zip(FIGURES[:2], (self.first, self.second), strict=True)
        }
        return pd.DataFrame({"metric": pd.Series(timed, dtype="str"), **p95})
