"""What an evaluation decides, and the one family of tests that all its verdicts go by.

In: the scores of runs, the metrics that decide, and a baseline or none. Out: a `Question` with the
corrected p of every pair of runs that it asks about.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.align import AlignedScores, align
from ragscore.analysis.comparison.deltas import jointly_tested
from ragscore.analysis.result_forms import TableResult
from ragscore.frames.codes import lookup
from ragscore.frames.data import Golden
from ragscore.frames.errors import plural
from ragscore.frames.render import shown_p
from ragscore.frames.tables import SHOWN_ROWS, Table
from ragscore.frames.typing import Values
from ragscore.scoring.intervals import (
    Groups,
    are_timed,
    kind_of,
    query_clusters,
    scales_of,
    shared_only,
)
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations, Metric, headline_of
from ragscore.scoring.value_states import metric_columns
from ragscore.stats import (
    ALPHA,
    DIRECTIONS,
    UNSURE,
    Together,
    holm,
    mcnemar_p,
    paired_p,
    sign_flip_p,
)
from ragscore.stats.moments import group_sums
from ragscore.stats.multiple import OTHER_SHARE, PRIMARY_SHARE, pairwise_p
from ragscore.stats.power import EXACT_BELOW
from ragscore.stats.verdicts import OPPOSITE

ITERATIONS = 2_000
COLUMNS = ("metric", "run_baseline", "run_candidate", "delta", "n", "p")
MOST_ALONE = 200  # pairs up to which each has its own test, too; of more it decides nothing


@dataclass(frozen=True, repr=False)
class Question(TableResult):
    """Which runs are compared, by what, and what is known of each pair.

    Attributes
    ----------
    run_ids, baseline
        Two runs; several against a `baseline`; or, without one, each of several with each other.
    primary
        The metrics that decide.
    n_pairs
        How many pairs of runs are tested together.
    level
        The level at which a single test stands.
    table
        One row per primary metric and pair: `run_baseline`, `run_candidate`, `delta` = mean (of
        times and costs: median difference) of candidate − baseline on the `n` queries that all runs
        have, and `p`, corrected for all rows. NaN: no query that all runs have.
    """

    run_ids: tuple[str, ...]
    baseline: str | None
    primary: tuple[str, ...]
    n_pairs: int = 0
    level: float = ALPHA
    table: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(columns=list(COLUMNS)), repr=False
    )
    declared: Declarations = field(default=NOTHING_DECLARED, repr=False)

    @property
    def text(self) -> str:
        """What is asked, in words."""
        n = len(self.run_ids)
        if n < 2:
            return "One run, and none to compare it with."
        directions = {self.declared.describe(name).better for name in self.primary}
        has_direction = bool(directions & {"higher", "lower"})
        if n == 2:
            one, other = sorted(self.run_ids, key=lambda run: run != self.baseline)
            ask = f"Is {other} better than {one}?"
            return ask if has_direction else f"Are {one} and {other} alike?"
        if self.baseline is None:
            asked = f"Which of {n} runs is best?" if has_direction else f"Which of {n} runs differ?"
        else:
            word = "are better than" if has_direction else "differ from"
            asked = f"Which of {n - 1} runs {word} {self.baseline}?"
        many = plural(len(self.primary), "metric")
        return f"{asked} All {plural(self.n_pairs, 'pair')} are tested together, by {many}, at 5 %."

    def notes(self) -> list[str]:
        """Return what a reader must know beside the table."""
        return [f"p is corrected for all {len(self.table)} rows."] if len(self.table) else []

    def _tables(self) -> list[Table]:
        shown = self.table.assign(
            delta=self.table["delta"].round(4), p=self.table["p"].map(shown_p)
        )
        return [Table(shown, self.text, limit=SHOWN_ROWS, way=".table")]

    def p_of(self, one: str, other: str) -> dict[str, float]:
        """Return primary metric -> p of a pair; NaN where it isn't asked about."""
        sides = {one, other}
        rows = self.table
        is_pair = rows["run_baseline"].isin(sides) & rows["run_candidate"].isin(sides)
        rows = rows[is_pair.to_numpy(dtype=bool)]
        found = dict(zip(rows["metric"], rows["p"], strict=True))
        return {name: float(found.get(name, np.nan)) for name in self.primary}

    def matrix(self, metric: str, run_ids: list[str]) -> Values:
        """Return the p of all pairs of these runs as a symmetric matrix; 1 where none was asked."""
        p = np.ones((len(run_ids), len(run_ids)))
        rows = self.table[self.table["metric"].eq(metric).to_numpy()]
        a, b = (lookup(rows[name], pd.Index(run_ids)) for name in ("run_baseline", "run_candidate"))
        p[a, b] = p[b, a] = rows["p"]
        return p

    def judged(self) -> pd.DataFrame:
        """Return the table with a `verdict` on each candidate."""
        rows = self.table
        better = {name: self.declared.describe(name).better for name in self.primary}
        is_up = rows["delta"].gt(0).to_numpy() ^ rows["metric"].map(better).eq("lower").to_numpy()
        is_sure = (rows["p"].lt(ALPHA) & rows["delta"].ne(0)).to_numpy()
        words = [
            DIRECTIONS[better[name]][0 if up else 1] if sure else UNSURE
            for name, up, sure in zip(rows["metric"], is_up, is_sure, strict=True)
        ]
        return rows.assign(verdict=words)

    def words(self, metric: str, baseline: str) -> dict[str, str]:
        """Return run -> the word for its difference from a baseline in a primary metric."""
        rows = self.judged()
        rows = rows[rows["metric"].eq(metric).to_numpy()]
        sides = zip(rows["run_baseline"], rows["run_candidate"], rows["verdict"], strict=True)
        found = {}
        for one, other, word in sides:
            if one == baseline:
                found[other] = word
            elif other == baseline:
                found[one] = OPPOSITE.get(word, word)
        return found


def widened(
    together: Together, asked: list[Question], names: list[str], pair: tuple[str, str]
) -> Together:
    """Return the joint test of a pair's metrics, corrected for all that is asked.

    Metrics that a question has go by its p. All others share a twentieth of the 5 % by Bonferroni.
    """
    n_pairs = asked[0].n_pairs
    p = np.minimum(together.p * n_pairs * 2, 1.0)
    level = together.level / n_pairs / 2
    for question in asked:
        known = question.p_of(*pair)
        for place, name in enumerate(names):
            if name in known:
                is_known = not np.isnan(known[name])
                p[place] = known[name] if is_known else min(together.p[place] * n_pairs, 1.0)
                level[place] = question.level if is_known else together.level[place] / n_pairs
    return Together(p, level)


def questions_of(
    scores: pd.DataFrame, primary: tuple[str, ...], shown: list[str] | None = None, *,
    baseline: str | None = None, golden: Golden | None = None, cluster: str | None = "group",
    declared: Declarations = NOTHING_DECLARED, iterations: int = ITERATIONS, seed: int = 0,
) -> list[Question]:  # fmt: skip
    """Return what is asked of the metrics that decide, of headline metrics, and of others shown.

    The first have four fifths of the 5 %, the others a tenth each. A twentieth is for all that only
    comparisons show. So whatever is shown beside what decides, its p stays the same. Of very many
    pairs, headline metrics are left to `shown`.

    Parameters
    ----------
    primary
        The metrics that decide; where none of them is among `shown`, all of these do.
    shown
        The metrics to be asked about; by default those that decide, and headline metrics.
    """
    valued = [name for name in metric_columns(scores) if scores[name].notna().any()]
    deciding = tuple(name for name in primary if name in scores)
    shares = [(deciding, PRIMARY_SHARE if set(valued) - set(deciding) else 1.0)]
    is_of_two = (n_runs := scores["run_id"].nunique()) == 2
    if shown is not None and not set(deciding) & set(shown):
        shares, is_of_two = [(tuple(shown), 1.0)], False
    elif shown is None or set(shown) - set(deciding):
        is_many = n_runs * (n_runs - 1) // 2 > MOST_ALONE and baseline is None
        headline = () if is_many else tuple(n for n in headline_of(valued) if n not in deciding)
        rest = tuple(name for name in shown or () if name not in (*deciding, *headline))
        shares += [(names, OTHER_SHARE) for names in (headline, rest) if names]
    asked = metric_columns(scores) if is_of_two else [one for names, _ in shares for one in names]
    aligned, of_two = align(scores, asked, None, declared), None
    groups = query_clusters(golden, aligned.query_ids, cluster)
    if is_of_two and aligned.run_ids:  # of no query, there is no run either
        first, second = (aligned.frame(run) for run in aligned.run_ids)
        found = jointly_tested(first, second, deciding, declared, groups=groups, seed=seed)
        told = zip(found.p.tolist(), found.level.tolist(), strict=True)
        of_two = dict(zip(aligned.metrics, told, strict=True))
    return [
        _question_of(aligned.only(names), baseline, groups, share, of_two, iterations, seed)
        for names, share in shares
    ]


def _question_of(
    aligned: AlignedScores, baseline: str | None, groups: Groups | None, share: float,
    of_two: Mapping[str, tuple[float, float]] | None, iterations: int, seed: int,
) -> Question:  # fmt: skip
    """Test every pair that is asked about in every metric, all of them together.

    Means are tested by max-T over sign flips (`max_t_p`), medians of times and costs by the sign
    test, corrected by Holm's method. If no runs differ, any word but "can't tell" is said of any
    pair in at most 5 % of cases.

    Parameters
    ----------
    share
        Of the 5 %, what these metrics have.
    of_two
        Of two runs: metric -> p and level, as their comparison has them.
    """
    runs, n_runs = tuple(aligned.run_ids), len(aligned.run_ids)
    primary, declared = tuple(aligned.metrics), aligned.declared
    n_pairs = n_runs - 1 if baseline is not None else n_runs * (n_runs - 1) // 2
    if n_runs < 2 or not primary:
        return Question(runs, baseline, primary, 0, declared=declared)
    p, level = _tested(aligned, groups, baseline, share, n_pairs, iterations, seed, of_two)
    first, second = np.triu_indices(n_runs, 1)
    if baseline is not None:
        at = runs.index(baseline)
        second = np.array([place for place in range(n_runs) if place != at])
        first = np.full(len(second), at)
    parts = []
    names, is_timed = np.array(runs, dtype=object), are_timed(aligned.described())
    for place, metric in enumerate(primary):
        shared = aligned.of(metric)[aligned.shared(metric)]
        apart = shared[:, second] - shared[:, first]
        middle = np.median if is_timed[place] else np.mean
        delta = middle(apart, axis=0) if len(apart) else np.full(len(first), np.nan)
        parts.append(pd.DataFrame({
            "metric": metric, "run_baseline": names[first], "run_candidate": names[second],
            "delta": delta, "n": len(apart), "p": p[first, second, place],
        }, columns=list(COLUMNS)))  # fmt: skip
    table = pd.concat(parts, ignore_index=True).astype(dict.fromkeys(COLUMNS[:3], "str"))
    return Question(runs, baseline, primary, n_pairs, level, table, declared)


def _tested(
    aligned: AlignedScores, groups: Groups | None, baseline: str | None, share: float,
    n_pairs: int, iterations: int, seed: int, of_two: Mapping[str, tuple[float, float]] | None,
) -> tuple[Values, float]:  # fmt: skip
    """Return the adjusted p of runs × runs × metrics, and the level of a single test."""
    metrics = aligned.described()
    scales, is_timed = scales_of(metrics), are_timed(metrics)
    n_runs, n_metrics = len(aligned.run_ids), len(metrics)
    p, level = np.ones((n_runs, n_runs, n_metrics)), ALPHA * share
    # by the names of runs: which signs a query has depends on which run comes first
    by_name = np.argsort(np.array(aligned.run_ids, dtype=object), kind="stable")
    back = np.argsort(by_name)
    at = None if baseline is None else aligned.run_ids.index(baseline)
    of_means, of_times = np.flatnonzero(~is_timed), np.flatnonzero(is_timed)
    if of_two is not None:
        told = [of_two.get(name, (np.nan, level)) for name in aligned.metrics]
        p[0, 1], level = [one for one, _ in told], min(own for _, own in told)
        p[1, 0] = p[0, 1]
    elif len(of_means):
        # means and medians share the level by their numbers
        own = share * len(of_means) / n_metrics
        values = aligned.values[:, by_name][:, :, of_means] / scales[of_means]
        found, level = pairwise_p(
            values, baseline=None if at is None else int(back[at]), groups=shared_only(groups),
            iterations=iterations, seed=seed, alpha=ALPHA * own,
        )  # fmt: skip
        p[:, :, of_means] = np.minimum(found[back][:, back] / own, 1.0)
    first, second = np.triu_indices(n_runs, 1)
    if at is not None:
        is_asked = (first == at) | (second == at)
        first, second = first[is_asked], second[is_asked]
    of_signs = []
    # times of two runs are among their joint test; of many pairs no test alone decides anything
    is_known = np.where(is_timed, of_two is not None, n_pairs > MOST_ALONE)
    for place in np.flatnonzero(~is_known).tolist():
        shared = aligned.shared(aligned.metrics[place])
        values = aligned.values[shared, :, place] / scales[place]
        apart = values[:, second] - values[:, first]
        own_groups = shared_only(None if groups is None else groups[shared])
        alone = _alone(apart, metrics[place], own_groups, seed)
        if is_timed[place]:
            of_signs.append(alone)
        else:  # never smaller than it is alone
            larger = np.fmax(p[first, second, place], alone)
            p[first, second, place] = p[second, first, place] = larger
    if of_signs:
        own = share * len(of_times) / n_metrics
        corrected = np.minimum(holm(np.concatenate(of_signs)) / own, 1.0)
        parts = np.split(corrected, len(of_times))
        for place, found in zip(of_times.tolist(), parts, strict=True):
            p[first, second, place] = p[second, first, place] = found
    return p, level


def _alone(apart: Values, metric: Metric, groups: Groups | None, seed: int) -> Values:
    """Return p of each pair's own test, one per column; NaN without a query."""
    if not len(apart):
        return np.full(apart.shape[1], np.nan)
    if are_timed([metric])[0]:
        return _sign_test(apart, groups, seed)
    kind = kind_of(metric)
    p = paired_p(apart, kind, groups=groups, seed=seed)
    if kind != "binary" or groups is not None:
        return p
    up, down = (apart > 0).sum(axis=0), (apart < 0).sum(axis=0)
    exact = mcnemar_p(up, down, is_exact=True)
    return np.where(up + down < EXACT_BELOW, np.fmax(p, exact), p)


def _sign_test(apart: Values, groups: Groups | None, seed: int) -> Values:
    """Return p of a median difference of 0, one per column."""
    if groups is not None:
        drawn = sign_flip_p(np.sign(apart), groups=groups, seed=seed)
        sums = group_sums(np.sign(apart), groups)
        squares = np.maximum((sums**2).sum(axis=0), 1.0)
        # no draw is as rare as a sum can be: Hoeffding's bound holds for any number of signs
        return np.minimum(drawn, 2 * np.exp(-(sums.sum(axis=0) ** 2) / 2 / squares))
    return mcnemar_p((apart > 0).sum(axis=0), (apart < 0).sum(axis=0), is_exact=True)


def closer_look(aspects: pd.DataFrame, alone: pd.DataFrame, pair: tuple[str, str]) -> str:
    """Say what two runs alone would show that the whole question doesn't; "" where it is the same.

    Parameters
    ----------
    aspects, alone
        `judge_aspects` by the whole question, and by these two runs.
    """
    differs = aspects["verdict"].ne(alone["verdict"]).to_numpy()
    if not differs.any():
        return ""
    told = alone.loc[differs, ["aspect", "sentence"]]
    words = "; ".join(f"{aspect} {text}" for aspect, text in told.itertuples(index=False))
    return (
        f"If only these two had been compared: {words}. Of several pairs, the largest difference is"
        f" partly luck. ev.select(runs=[{pair[0]!r}, {pair[1]!r}]) asks about these two alone."
    )
