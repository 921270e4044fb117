"""Paired differences between two runs, metric by metric.

In: two frames of scores on the same queries. Out: one row per metric with means, intervals, tests,
the minimum detectable difference and a verdict; one row per aspect that decides; and one per metric
whose answers flipped. Every table of differences is computed here.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError, check_type
from ragscore.frames.errors import excerpt, nearest
from ragscore.frames.typing import Values
from ragscore.scoring.intervals import BY_QUANTILES, are_timed, kind_of, scales_of, shared_only
from ragscore.scoring.metrics import NOTHING_DECLARED, ROUNDING, Declarations, Metric, is_better
from ragscore.scoring.primary import aspects_of
from ragscore.stats import (
    ALPHA,
    UNSURE,
    Together,
    Verdict,
    interval_of_differences,
    is_heavy_tailed,
    joint_test,
    joint_verdict,
    mcnemar_p,
    mde_of_differences,
    median_interval,
    median_verdict,
    paired_p,
    quantile_difference_interval,
    skewness,
    verdict,
)
from ragscore.stats.differences import interval_for_margin
from ragscore.stats.moments import group_sums
from ragscore.stats.multiple import exact_below
from ragscore.stats.power import EXACT_BELOW

Groups = npt.NDArray[np.int64]
SAME = ROUNDING  # scores closer than this, of a scale of 1, are equal but for rounding
FEW_MOVES = EXACT_BELOW  # below, the exact p stands beside mid-p, and both must agree
ENDED_BADLY = ("failed", "missing")
FIGURES = ("baseline", "candidate", "delta", "low", "high")
AT_WORST = {
    "metric": "str",
    **dict.fromkeys([part + name for part in ("", "p50_") for name in FIGURES], "float64"),
    **dict.fromkeys(["n", "n_lost", "n_uncounted", "n_left_out"], "int64"),
}


def paired_deltas(
    first: pd.DataFrame,
    second: pd.DataFrame,
    lost: pd.DataFrame,
    *,
    declared: Declarations = NOTHING_DECLARED,
    groups: Groups | None = None,
    margins: dict[str, float] | None = None,
    ties: dict[str, float] | None = None,
    together: Together | None = None,
    iterations: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """One row per metric: the table `Comparison.deltas`.

    Parameters
    ----------
    first, second
        Scores of baseline and candidate: one row per query both were asked (same index), one column
        per metric label.
    lost
        Values of the baseline for queries that the candidate failed on or was not asked, same
        columns: they are counted.
    declared
        What is declared of columns of your own.
    groups
        Number of each query's group (paraphrases, source, conversation), -1: none. Groups count as
        one observation in tests.
    margins
        Label -> largest loss that doesn't matter.
    ties
        Label -> largest difference of a query that counts as the same.
    together
        The joint test of these metrics (`jointly_tested`): verdicts then go by its p, in the
        column `p_adjusted`. None: each metric stands alone; a caller that shows several corrects
        them.
    iterations
        Random signs, whose number bounds how small p can be.
    """
    names = list(first.columns)
    metrics = [declared.describe(name) for name in names]
    widths = np.array(
        [
            (ties or {}).get(name, 0.0) + metric.rounding
            for name, metric in zip(names, metrics, strict=True)
        ]
    )
    table = paired_means(first, second, widths, metrics)
    values = first.to_numpy("float64"), second.to_numpy("float64")
    differences = values[1] - values[0]
    mean, n = table["delta"].to_numpy(), table["n"].to_numpy("float64")
    n_moved = (table["n_better"] + table["n_worse"]).to_numpy()
    with np.errstate(invalid="ignore", divide="ignore"):
        percent = np.where(table["baseline"] != 0, 100 * mean / table["baseline"], np.nan)
        share_moved = n_moved / n
    improved = [is_better(one, float(delta)) for one, delta in zip(metrics, mean, strict=True)]
    margins = margins or {}
    scales, scaled = scales_of(metrics), [metric.scaled() for metric in metrics]
    parts = differences / scales
    skew = skewness(parts)
    inference = _inference(parts, skew, scaled, groups, together, iterations, seed)
    inference |= {
        name: inference[name].astype("float64") * scales for name in ("low", "high", "mde")
    }
    # the exact p of McNemar's test where fewer than 25 queries of a 0/1 metric moved
    wins, losses = table["n_better"].to_numpy("float64"), table["n_worse"].to_numpy("float64")
    has = np.array([metric.kind == "binary" for metric in metrics], dtype=bool) & (n > 0)
    has &= wins + losses < FEW_MOVES
    for place in np.flatnonzero(has):
        known = ~np.isnan(differences[:, place])
        is_whole = bool(np.isin(differences[known, place], (-1, 0, 1)).all())
        has[place] = is_whole and (groups is None or shared_only(groups[known]) is None)
    inference["p_exact"] = np.where(has, mcnemar_p(wins, losses, is_exact=True), np.nan)
    if together is not None:  # a correction never makes p smaller than it is alone
        alone = decisive_p(inference["p"], inference["p_exact"])
        inference["p_adjusted"] = np.fmax(together.p[: len(names)], alone)
    table = pd.DataFrame(
        {
            **table[["metric", "baseline", "candidate", "delta"]],
            "delta_pct": percent,
            **inference,
            "margin": [float(margins.get(name, np.nan)) for name in names],
            "better": pd.array(improved, dtype="boolean"),
            **table[["n_better", "n_worse", "n_same", "n"]],
            "n_expected_by_chance": n * share_moved / 2,
            "skewness": skew,
            **_medians(*values, differences),
            "n_lost": lost.notna().to_numpy().sum(axis=0),
        }
    )
    held, apart = (_held(names, scaled, parts, groups, margins, n) for n in (len(margins), 1))
    clusters = _clusters(differences, groups)
    verdicts = [
        row_verdict(
            row, metric, margins.get(name), held[name] * scale if name in held else None, moved
        )
        for row, name, metric, scale, moved in zip(
            table.to_dict("records"), names, metrics, scales, clusters, strict=True
        )
    ]
    # Of margins that must all hold, each is tested at the whole level (Berger 1982).
    holds = [
        bool(_least_gain(apart[name] * scale, metric) > -margins[name]) if name in apart else pd.NA
        for name, scale, metric in zip(names, scales, metrics, strict=True)
    ]
    # An infinite difference is detectable by nobody: to a reader, and to JSON, it is unknown.
    return table.assign(
        mde=table["mde"].where(np.isfinite(table["mde"])),
        holds_margin=pd.array(holds, dtype="boolean"),
        verdict=[found.word for found in verdicts],
        sentence=[found.sentence for found in verdicts],
    )


def paired_means(
    first: pd.DataFrame, second: pd.DataFrame, widths: Values, metrics: list[Metric]
) -> pd.DataFrame:
    """One row per metric: means over the queries with both values, and how many queries changed.

    Parameters
    ----------
    first, second
        As for `paired_deltas`.
    widths
        Largest difference of a query that counts as the same, one per metric.

    Returns
    -------
    `metric`, means `baseline` and `candidate`, `delta` = mean of candidate − baseline; `n_better`,
    `n_worse` (as the metric counts better), `n_same`, and `n`, their sum. Means are NaN where n is
    0.
    """
    values = first.to_numpy("float64"), second.to_numpy("float64")
    differences = values[1] - values[0]
    is_paired = ~np.isnan(differences)
    n = is_paired.sum(axis=0)
    with np.errstate(invalid="ignore"):
        baseline, candidate, delta = (
            np.where(is_paired, side, 0.0).sum(axis=0) / n for side in (*values, differences)
        )
    up, down = (differences > widths).sum(axis=0), (differences < -widths).sum(axis=0)
    is_lower = np.array([metric.better == "lower" for metric in metrics], dtype=bool)
    return pd.DataFrame(
        {
            "metric": list(first.columns),
            "baseline": baseline,
            "candidate": candidate,
            "delta": delta,
            "n_better": np.where(is_lower, down, up),
            "n_worse": np.where(is_lower, up, down),
            "n_same": n - up - down,
            "n": n,
        }
    )


def at_worst(
    first: pd.DataFrame,
    second: pd.DataFrame,
    states: tuple[npt.NDArray[np.str_], npt.NDArray[np.str_]],
    is_expected: npt.NDArray[np.bool_],
    declared: Declarations,
    groups: Groups | None = None,
) -> pd.DataFrame:
    """One row per metric: the differences that a gate goes by, `Comparison.at_worst`.

    Empty where no run failed on a query and the candidate was asked all of the baseline's.

    Parameters
    ----------
    first, second, declared, groups
        As for `paired_deltas`, of all queries of the baseline.
    states
        How each query ended in either run: "failed", "missing", any other word for answered.
    is_expected
        Flags of the values that were expected of the baseline.
    """
    names = list(first.columns)
    metrics = [declared.describe(name) for name in names]
    failed, missing = ([(side == word)[:, None] for side in states] for word in ENDED_BADLY)
    if not (failed[0].any() or failed[1].any() or (missing[1] & ~missing[0]).any()):
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in AT_WORST.items()})
    a = np.where(missing[0], np.nan, first.to_numpy("float64"))
    own = second.to_numpy("float64")
    is_lower = np.array([metric.better == "lower" for metric in metrics], dtype=bool)
    ends = np.array([metric.bounds for metric in metrics]).reshape(-1, 2)
    worst = np.where(is_lower, ends[:, 1], ends[:, 0])
    has_worst = np.isfinite(worst) & [metric.better != "not declared" for metric in metrics]
    worst = np.where(has_worst, worst, np.nan)
    is_lost = missing[1] | (failed[1] & ~failed[0])
    b = np.where(is_lost, worst, own)
    # A baseline that failed is no reference: only a loss against what it still has counts. Where a
    # failure is what a metric measures, it is a value like any other.
    widths = np.array([metric.rounding for metric in metrics])
    is_loss = np.where(is_lower, b > a + widths, b < a - widths)
    is_out = (
        failed[0] & (failed[1] | ~is_loss) & [metric.on_failure != "measured" for metric in metrics]
    )
    is_counted = ~np.isnan(a) | is_expected | failed[0].all()
    a = np.where(is_out, np.nan, a)
    n_lost = (is_lost & ~np.isnan(a)).sum(axis=0)
    sides = [pd.DataFrame(side, columns=names) for side in (a, b)]
    table = paired_means(sides[0], sides[1], widths, metrics)
    low, high = (np.full(len(names), np.nan) for _ in range(2))
    tests, scales = [ALPHA] * len(names), scales_of(metrics)
    scaled, parts = [metric.scaled() for metric in metrics], (b - a) / scales
    for (kind, bounds, _), places, codes in _families(parts, scaled, groups, tests):
        low[places], high[places] = interval_of_differences(
            parts[:, places], kind, bounds=bounds, groups=codes
        )
    return table.assign(
        low=low * scales,
        high=high * scales,
        **_medians(a, b, b - a),
        n_lost=np.where(has_worst, n_lost, 0),
        n_uncounted=np.where(has_worst, 0, n_lost),
        n_left_out=(is_out & is_counted).sum(axis=0),
    )[list(AT_WORST)].astype(AT_WORST)


def read_by_medians(deltas: pd.DataFrame, declared: Declarations) -> pd.DataFrame:
    """Return rows of `paired_deltas` with the figures that decide: of times and costs, medians.

    Their p is that of the sign test.
    """
    timed = are_timed(declared.describe(name) for name in deltas["metric"])
    signs = mcnemar_p(deltas["n_better"], deltas["n_worse"], is_exact=True)
    figures = {name: deltas[name].where(~timed, deltas[f"p50_{name}"]) for name in FIGURES}
    p = deltas["p"].where(~timed | (deltas["n"] == 0).to_numpy(), signs)
    return deltas.assign(**figures, p=p)


def tail_columns(first: pd.DataFrame, second: pd.DataFrame, declared: Declarations) -> pd.DataFrame:
    """One row per metric: 95th percentiles of times and costs, on the queries that both runs have.

    `p95_baseline`, `p95_candidate`, and `p95_delta` with its interval `p95_low`, `p95_high` by
    paired bootstrap. NaN for other metrics. The interval is NaN below 72 queries: resamples can't
    reach beyond the values seen.
    """
    names = ["p95_baseline", "p95_candidate", "p95_delta", "p95_low", "p95_high"]
    table = pd.DataFrame(np.nan, index=range(first.shape[1]), columns=names)
    for place, name in enumerate(first.columns):
        if declared.describe(name).kind in BY_QUANTILES:
            a, b = first[name].to_numpy("float64"), second[name].to_numpy("float64")
            known = ~np.isnan(a) & ~np.isnan(b)
            of_a, of_b = (
                float(np.quantile(side[known], 0.95)) if known.any() else np.nan for side in (a, b)
            )
            table.loc[place] = [of_a, of_b, of_b - of_a, *quantile_difference_interval(a, b, 0.95)]
    return table


def row_verdict(
    row: dict[Any, Any],
    metric: Metric,
    margin: float | None = None,
    held: Values | None = None,
    clusters: tuple[float, float] | None = None,
) -> Verdict:
    """Return the verdict on one row of `paired_deltas`.

    Times and costs go by the interval of the median difference, all else by that of the mean. It
    goes by `p_adjusted` where the row has it, else by p. Where few queries moved, `p_exact` must
    agree.

    Parameters
    ----------
    held
        The interval that the margin is held against; by default that of the difference.
    clusters
        How many clusters of queries changed, and how many there are; None: queries stand alone.
    """
    limits = None if held is None else (float(held[0]), float(held[1]))
    part = "p50_" if metric.kind in BY_QUANTILES else ""
    delta, low, high, n = (
        float(row[name]) for name in (f"{part}delta", f"{part}low", f"{part}high", "n")
    )
    if part:
        adjusted = float(row.get("p_adjusted", np.nan))
        return median_verdict(
            delta, low, high, n, margin=margin, better=metric.better, p=adjusted, held=limits
        )
    alone = decisive_p(row["p"], row["p_exact"])
    p = float(row["p_adjusted"]) if "p_adjusted" in row else float(alone)
    return verdict(
        delta, low, high, p, float(row["mde"]), n, margin=margin, better=metric.better,
        caution=bool(row["caution"]), p_alone=float(row["p"]), held=limits,
        n_moved=float(row["n_better"] + row["n_worse"]), clusters=clusters,
    )  # fmt: skip


def decisive_p(p: Any, p_exact: Any) -> Any:
    """Return the larger of p and the exact p, where there is one: both must be small."""
    return np.fmax(np.where(np.isnan(p), np.nan, p), np.where(np.isnan(p), np.nan, p_exact))


def jointly_tested(
    first: pd.DataFrame,
    second: pd.DataFrame,
    primary: Collection[str],
    declared: Declarations = NOTHING_DECLARED,
    *,
    groups: Groups | None = None,
    also: pd.DataFrame | None = None,
    seed: int = 0,
) -> Together:
    """Test all metrics of two runs at once: means, and medians of times and costs.

    Parameters
    ----------
    first, second, groups
        As for `paired_deltas`.
    primary
        The metrics that decide; they are tested first.
    also
        Differences that are tested along with the other metrics, such as flips: same index.

    Returns
    -------
    `Together`, one value per metric, then one per column of `also`.
    """
    differences = second.to_numpy("float64") - first.to_numpy("float64")
    metrics = [declared.describe(name) for name in first.columns]
    differences /= scales_of(metrics)
    is_timed = are_timed(metrics)
    # The sign test is a sign flip of signs: times are tested by their median.
    differences[:, is_timed] = np.sign(differences[:, is_timed])
    is_primary = [name in primary for name in first.columns]
    if also is not None:
        differences = np.column_stack([differences, also.to_numpy("float64")])
        is_primary += [False] * also.shape[1]
    return joint_test(differences, is_primary, groups=groups, seed=seed)


def check_margins(margins: dict[str, float], field: str, names: list[str]) -> None:
    """Refuse a margin below 0, or of a metric that isn't compared: it would go unnoticed.

    Raises
    ------
    DataError
        The first such margin.
    """
    check_type(margins, Mapping, field, "metric -> number, such as {'mrr@10': 0.02}")
    for name, margin in margins.items():
        if name not in names:
            raise DataError(
                f"found {excerpt(name)}",
                field=field,
                allowed=nearest(name, names, "metrics that are compared:"),
            )
        if not margin >= 0:
            raise DataError(f"{name}: found {margin!r}", field=field, allowed="0 or more")


def _inference(
    differences: Values,
    skew: Values,
    metrics: list[Metric],
    groups: Groups | None,
    together: Together | None,
    iterations: int,
    seed: int,
) -> dict[str, npt.NDArray[np.generic]]:
    """Return interval, p, minimum detectable difference and caution of every column.

    Columns whose metrics have one kind, range and level of their test are computed together.
    """
    level = np.full(len(metrics), ALPHA) if together is None else together.level[: len(metrics)]
    # Rounded, so that levels which differ by chance alone share a table of exact powers.
    levels = [ALPHA if np.isnan(own) else float(f"{own:.2g}") for own in level]
    low, high, p, mde, caution = (np.full(len(metrics), np.nan) for _ in range(5))
    joint_p = np.full(len(metrics), np.nan) if together is None else together.p
    exacts = [
        exact_below(float(own), float(own_p)) for own, own_p in zip(level, joint_p, strict=False)
    ]
    tests = list(zip(levels, exacts, strict=True))
    for (kind, bounds, test), places, codes in _families(differences, metrics, groups, tests):
        own, exact = test
        part, width = differences[:, places], bounds[1] - bounds[0]
        low[places], high[places] = interval_of_differences(part, kind, bounds=bounds, groups=codes)
        caution[places] = is_heavy_tailed(part, width, skew=skew[places])
        if kind not in BY_QUANTILES:
            p[places] = paired_p(part, kind, groups=codes, iterations=iterations, seed=seed)
            found = mde_of_differences(
                part, kind, groups=codes, confidence=1 - own, exact_below=exact
            )
            mde[places] = np.where(found > width, np.inf, found)  # no difference is that large
    return {"low": low, "high": high, "p": p, "mde": mde, "caution": caution == 1}


def _families(
    differences: Values, metrics: list[Metric], groups: Groups | None, tests: list[Any]
) -> Iterator[tuple[tuple[str, tuple[float, float], Any], list[int], Groups | None]]:
    """Give kind, range and test, the columns that share them, and the groups of their queries."""
    families: dict[tuple[str, tuple[float, float], Any, bool], list[int]] = {}
    for place, metric in enumerate(metrics):
        known = None if groups is None else groups[~np.isnan(differences[:, place])]
        family = kind_of(metric), metric.bounds, tests[place], shared_only(known) is not None
        families.setdefault(family, []).append(place)
    for (kind, bounds, test, is_grouped), places in families.items():
        yield (kind, bounds, test), places, groups if is_grouped else None


def _clusters(differences: Values, groups: Groups | None) -> list[tuple[float, float] | None]:
    """Return how many clusters changed of how many, by metric; None where queries stand alone."""
    if groups is None or shared_only(groups) is None:
        return [None] * differences.shape[1]
    n = (group_sums((~np.isnan(differences)).astype(np.float64), groups) > 0).sum(axis=0)
    moved = np.count_nonzero(group_sums(differences, groups), axis=0)
    return list(zip(moved.astype(float).tolist(), n.astype(float).tolist(), strict=True))


def _held(
    names: list[str],
    metrics: list[Metric],
    differences: Values,
    groups: Groups | None,
    margins: dict[str, float],
    n_margins: int,
) -> dict[str, Values]:
    """Return the intervals that margins are held against, each as wide as so many of them need."""
    held: dict[str, Values] = {}
    confidence = 1 - ALPHA / max(n_margins, 1)
    for place, (name, metric) in enumerate(zip(names, metrics, strict=True)):
        if name not in margins:
            continue
        values = differences[:, [place]]
        if metric.kind in BY_QUANTILES:
            held[name] = np.array(median_interval(values[:, 0], confidence))
            continue
        known = None if groups is None else groups[~np.isnan(values[:, 0])]
        low, high = interval_for_margin(
            values,
            kind_of(metric),
            bounds=metric.bounds,
            groups=None if shared_only(known) is None else groups,
            confidence=confidence,
        )
        held[name] = np.array([low[0], high[0]])
    return held


def _least_gain(interval: Values, metric: Metric) -> float:
    """Return the end of an interval that is the worse one."""
    return float(-interval[1] if metric.better == "lower" else interval[0])


def _medians(first: Values, second: Values, differences: Values) -> dict[str, Values]:
    """Return medians of both runs, of the differences with their interval, and the ratio.

    The ratio is the geometric mean of candidate / baseline where both are positive.
    """
    is_paired = ~np.isnan(differences)
    of_first, of_second, of_differences = (
        np.array(
            [
                np.median(column[known], overwrite_input=True) if known.any() else np.nan
                for column, known in zip(columns.T, is_paired.T, strict=True)
            ]
        )
        for columns in (first, second, differences)
    )
    intervals = np.array([median_interval(column) for column in differences.T]).reshape(-1, 2)
    is_positive = (first > 0) & (second > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log(second / first, where=is_positive, out=np.zeros_like(first))
        ratio = np.exp(logs.sum(axis=0) / is_positive.sum(axis=0))
    return {
        "p50_baseline": of_first,
        "p50_candidate": of_second,
        "p50_delta": of_differences,
        "p50_low": intervals[:, 0],
        "p50_high": intervals[:, 1],
        "ratio": ratio,
    }


# What a comparison decides: its primary metrics by aspect, and the answers that flipped

ASPECT_COLUMNS = ("aspect", "metrics", "verdict", "sentence")
FLIP_COLUMNS = {
    "metric": "str", "n_regressions": "int64", "n_improvements": "int64", "p": "float64",
    "p_exact": "float64", "p_adjusted": "float64", "verdict": "str",
}  # fmt: skip


def judge_aspects(
    deltas: pd.DataFrame, primary: tuple[str, ...], margins: dict[str, float]
) -> pd.DataFrame:
    """One row per aspect: its `metrics` (joined by a comma), `verdict` and `sentence`.

    Metrics of one aspect are judged jointly; any other verdict is the metric's own.
    """
    found = aspect_verdicts(deltas.to_dict("records"), primary, margins)
    return pd.DataFrame(found, columns=list(ASPECT_COLUMNS)).astype("str")


def aspect_verdicts(
    deltas: Sequence[Mapping[Hashable, Any]], primary: tuple[str, ...], margins: dict[str, float]
) -> list[tuple[str, str, str, str]]:
    """Return the rows of `judge_aspects`; `deltas` are rows of a comparison's."""
    rows = {row["metric"]: row for row in deltas}
    found = []
    for aspect, names in aspects_of(primary).items():
        told = [Verdict(rows[name]["verdict"], rows[name]["sentence"]) for name in names]
        if len(names) > 1:  # metrics of refusals: what is gained
            gains = {
                name: rows[name]["delta"]
                * (-1 if NOTHING_DECLARED.describe(name).better == "lower" else 1)
                for name in names
            }
            parts = {
                name: (rows[name]["verdict"], float(gain))
                for name, gain in gains.items()
                if rows[name]["n"] > 0
            }
            told = [joint_verdict(parts, margins)]
        found.append((aspect, ", ".join(names), told[0].word, told[0].sentence))
    return found


def as_alone(deltas: pd.DataFrame, p: Values, declared: Declarations) -> pd.DataFrame:
    """Return rows of `paired_deltas` with the verdicts of this pair of runs alone.

    `p` is what `jointly_tested` has of the pair. Only an open verdict can become another one.
    """
    words, sentences = deltas["verdict"].tolist(), deltas["sentence"].tolist()
    own = np.fmax(p, decisive_p(deltas["p"], deltas["p_exact"]))
    for place, row in enumerate(deltas.assign(p_adjusted=own).to_dict("records")):
        if row["is_primary"] and row["verdict"] == UNSURE:
            found = row_verdict(row, declared.describe(row["metric"]))
            words[place], sentences[place] = found.word, found.sentence
    return deltas.assign(verdict=words, sentence=sentences)


def flip_moves(flips: pd.DataFrame, queries: pd.Index) -> pd.DataFrame:
    """One row per query, one column per metric that flipped: 1 to good, −1 to bad, else 0."""
    column, known = pd.factorize(flips["metric"])
    names = pd.Index(known).astype("str").tolist()
    place = queries.get_indexer(pd.Index(flips["query_id"]))
    values, is_there = np.zeros((len(queries), len(names))), place >= 0
    sign = np.where(flips["kind"] == "regression", -1.0, 1.0)
    values[place[is_there], column[is_there]] = sign[is_there]
    return pd.DataFrame(values, index=queries, columns=names)


def of_points(moves: pd.DataFrame, declared: Declarations) -> pd.DataFrame:
    """Return the columns of metrics that aren't 0/1: flips of 0/1 metrics are all their changes."""
    return moves[[name for name in moves if declared.describe(str(name)).kind != "binary"]]


def count_flips(
    moves: pd.DataFrame, p_adjusted: dict[str, float], groups: Groups | None
) -> pd.DataFrame:
    """One row per metric that flipped: how many answers went each way, and the test of it.

    `p` of McNemar's mid-p (sign flips of groups), `p_exact` beside it below 25 flips, `p_adjusted`
    for all verdicts of the comparison, `verdict`: better, worse or can't tell.

    Parameters
    ----------
    p_adjusted
        Metric -> its corrected p.
    """
    values = moves.to_numpy("float64")
    worse, better = (values < 0).sum(axis=0), (values > 0).sum(axis=0)
    p = paired_p(values, "binary", groups=groups) if values.shape[1] else np.zeros(0)
    is_few = (worse + better < FEW_MOVES) & (groups is None)
    adjusted = np.array([p_adjusted[str(name)] for name in moves], dtype="float64")
    is_sure = (adjusted < ALPHA) & (p < ALPHA)
    words = np.where(is_sure, np.where(better > worse, "better", "worse"), UNSURE)
    return pd.DataFrame(
        {
            "metric": list(moves.columns),
            "n_regressions": worse,
            "n_improvements": better,
            "p": p,
            "p_exact": np.where(is_few, mcnemar_p(better, worse, is_exact=True), np.nan),
            "p_adjusted": adjusted,
            "verdict": words,
        }
    ).astype(FLIP_COLUMNS)
