"""A judge's means, and differences of two runs, corrected by people's labels (PPI++).

In: judged values of many answers, and people's labels of a random sample of them. Out: one row per
run or pair of runs, criterion and slice: what people would give all answers, with its interval, how
far the labels moved the judge, or why the judge stays uncorrected.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.comparison.align import align
from ragscore.analysis.comparison.model import Comparison
from ragscore.frames.data import DataError, Golden, check_type, run_names
from ragscore.frames.errors import name_list, nearest
from ragscore.frames.render import shown_number
from ragscore.judging.reliability import clusters_of, n_clusters, values_of
from ragscore.judging.run import Judged
from ragscore.scoring.intervals import Groups, shared_only
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.metrics.declaration import Bounds
from ragscore.scoring.summary import (
    Slicing,
    naturally,
    slice_names,
    slices,
)
from ragscore.stats import paired_interval, ppi_difference, ppi_mean
from ragscore.stats.paired import welch
from ragscore.stats.ppi import LEAST_LABELS

UNLIKELY = 0.01  # a smaller p means that the labelled answers are no random sample
MEANS = (
    "n_judged", "n_labels", "judge_mean", "label_mean", "mean", "low", "high", "weight",
    "effective_n", "refused",
)  # fmt: skip
DIFFERENCES = (
    "n_judged", "n_labels", "n_clusters", "n_left_out", "judge_delta", "judge_low", "judge_high",
    "label_delta", "label_low", "label_high", "delta", "low", "high", "moved", "weight",
    "effective_n", "refused", "sentence",
)  # fmt: skip
Members = list[tuple[dict[str, str], npt.NDArray[np.bool_]]]
"""Slices: labels by column, and a flag per query."""


def corrected_means(
    judged: Judged,
    labels: pd.DataFrame,
    *,
    random: bool,
    by: Slicing | None = None,
    cluster: str | None = "group",
) -> pd.DataFrame:
    """Correct the judge's means by people's labels of a random sample of answers (PPI++).

    The corrected mean estimates the mean that people would give all answers; see
    `ragscore.stats.ppi_mean`. It is unbiased however wrong the judge is, if the labelled answers
    are a random sample. If they are not, or are too few, the correction is refused.

    Parameters
    ----------
    labels
        Human annotations: query_id, criterion, value and, with several runs, run_id. Several labels
        of one answer are averaged.
    random
        True if the labelled answers were drawn at random (as by `sample_for_annotation`). The
        labels themselves cannot show it, so it has no default.
    by
        Correct slice by slice: a column of `golden.queries`, a kind of tag, or several. It needs
        the golden set of `rs.judge`, or `Judged(results, golden=golden)`.
    cluster
        The column of `golden.queries` whose equal values make queries depend on each other, if the
        golden set is known. None: every query stands alone.

    Returns
    -------
    One row per run, labelled criterion and slice: `n_judged` answers, `n_labels` of them labelled,
    `judge_mean` of all answers, `label_mean` of the labelled ones; the corrected `mean` with its
    95 % interval `low`, `high`; `weight` of the judge (0: labels alone); `effective_n`, the number
    of labels that would be as informative without a judge; `refused`, the reason for not
    correcting (NA if corrected, and else the corrected columns are NaN). A correction is refused
    below 30 labels, if the labels are not random, and if the judge scored labelled answers so
    differently from the others (p < 0.01) that they cannot be a random sample.

    Raises
    ------
    DataError
        Labels with missing columns, or with values outside the criterion's range; no labelled
        answer that was judged; `by` without a golden set, an unknown `by` or `cluster`.

    Examples
    --------
    >>> judged.corrected_means(labels, random=True)[["run_id", "judge_mean", "mean", "low", "high"]]
    """
    results = judged.results
    keys = ["run_id", "query_id", "criterion"]
    both = values_of(results, results).merge(
        values_of(labels, results), on=keys, how="left", suffixes=("", "_label")
    )
    rows: list[list[Any]] = []
    for (run_id, criterion), part in both.groupby(["run_id", "criterion"], sort=False):
        if part["value_label"].isna().all():
            continue
        groups = clusters_of(part["query_id"], judged.golden, cluster)
        for names, inside in _members(pd.Index(part["query_id"]), judged.golden, by):
            own = None if groups is None else shared_only(groups[inside])
            row = _mean(part[inside], TABLE[str(criterion)].bounds, own, random)
            rows.append([run_id, criterion, *names.values(), *row])
    if not rows:
        raise DataError(
            "no labelled answer that was judged",
            field="labels",
            allowed="labels of judged answers, by run_id, query_id and criterion",
        )
    columns = ["run_id", "criterion", *(slice_names(by) if by is not None else ()), *MEANS]
    return pd.DataFrame(rows, columns=columns).astype(
        {"run_id": "str", "criterion": "str", "refused": "str"}
    )


def _mean(
    part: pd.DataFrame, bounds: tuple[float, float], groups: Groups | None, random: bool
) -> list[Any]:
    """Return the row of one run, criterion and slice, in the order of MEANS."""
    value, truth = (part[name].to_numpy("float64") for name in ("value", "value_label"))
    has_label = ~np.isnan(truth)
    n, judge = len(value), float(value.mean()) if len(value) else np.nan
    row = [n, int(has_label.sum()), judge]
    row.append(float(truth[has_label].mean()) if has_label.any() else np.nan)
    refused = _refusal(value, has_label, groups, random)
    if refused is not None:
        return [*row, *[np.nan] * 5, refused]
    found = ppi_mean(value, truth, bounds=bounds, groups=groups)
    return [*row, found.value, found.low, found.high, found.weight, found.effective_n, None]


def corrected_differences(
    judged: Judged,
    labels: pd.DataFrame,
    baseline: str,
    candidate: str,
    *,
    random: bool,
    by: Slicing | None = None,
    cluster: str | None = "group",
) -> pd.DataFrame:
    """Correct the judge's difference of two runs by people's labels on both sides (PPI++).

    People label the answers of both runs to the same random queries (`sample_for_annotation` draws
    them so). The variance is that of paired differences, so what makes a query hard for both runs
    cancels; see `ragscore.stats.ppi_difference`.

    Parameters
    ----------
    labels
        Human annotations of both runs: query_id, run_id, criterion, value.
    baseline, candidate
        Run ids, or systems that only one run has.
    random, by, cluster
        As for `corrected_means`.

    Returns
    -------
    One row per labelled criterion (`metric`) and slice; see `Comparison.corrected`.

    Raises
    ------
    DataError
        As for `corrected_means`; unknown or equal runs.

    Examples
    --------
    >>> judged.corrected_differences(labels, "dense", "hybrid", random=True)["sentence"]
    """
    results = judged.results
    names = run_names(results.runs, [baseline, candidate])
    if names[0] == names[1]:
        raise DataError(
            f"{names[0]!r} is both baseline and candidate",
            field="candidate",
            allowed="two different runs",
        )
    of_all, labelled = values_of(results, results), values_of(labels, results)
    rows = []
    for criterion in labelled["criterion"].unique():
        of_judge, of_people = (
            values[(values["criterion"] == criterion).to_numpy()]
            .pivot(index="query_id", columns="run_id", values="value")
            .reindex(columns=names)
            for values in (of_all, labelled)
        )
        bounds = TABLE.describe(str(criterion)).bounds
        rows += _rows(
            str(criterion), bounds, of_judge, of_people, judged.golden, by, cluster, random
        )
    return _table(rows, by)


def corrected_comparison(
    cmp: Comparison,
    labels: pd.DataFrame,
    metric: str | None = None,
    by: Slicing | None = None,
    *,
    random: bool,
    cluster: str | None = "group",
) -> pd.DataFrame:
    """Correct a judge's difference by people's labels of some queries, on both sides (PPI++).

    The result estimates the difference that people would find over all queries. It is unbiased
    however wrong the judge is, and whichever run it favours, if the labelled queries are a random
    sample; a good judge makes it more certain than the labels alone. Any compared metric may take
    the judge's place. See `ragscore.stats.ppi_difference`.

    Parameters
    ----------
    labels
        People's values: `query_id`, `run_id`, `value`, on the metric's scale, and `criterion` if
        they are of several metrics. The same queries in both runs; several labels are averaged.
    metric
        The metric that stands for what people judge; by default those that `criterion` names.
    by
        Slice by slice: a column of `golden.queries`, a kind of tag, or several.
    random
        True if the labelled queries were drawn at random. The labels cannot show it.
    cluster
        The column of `golden.queries` whose equal values make queries depend on each other.

    Returns
    -------
    One row per `metric` and slice.

    - Counts: `n_judged` queries with judged values on both sides, in `n_clusters`; `n_labels` of
      them labelled on both; `n_left_out` labelled ones that lack a label or a judged value of one
      side.
    - Estimates, each with its 95 % interval: `judge_delta`, `judge_low`, `judge_high` of the judge
      alone; `label_delta`, `label_low`, `label_high` of the labels alone; the corrected `delta`,
      `low`, `high`. `moved` is delta − judge_delta.
    - `weight` of the judge (λ, 0: labels alone); `effective_n`, the number of labels that would be
      as informative without a judge; `refused`, why the judge stays uncorrected (NA if it doesn't,
      else the corrected columns are NaN): below 30 labels, labels that are not random, or labelled
      queries that the judge scored unlike the others (p < 0.01); `sentence`.

    Raises
    ------
    DataError
        Labels with missing columns, of neither run, or outside the metric's range; a metric that
        isn't compared; an unknown `by` or `cluster`; a comparison from JSON.

    Examples
    --------
    >>> cmp = ev.compare("dense", "hybrid", ["hit@5", "hit@10"])
    >>> asked = ev.golden.queries["query_id"].sample(60, random_state=0)
    >>> people = cmp._scores.loc[cmp._scores.index.isin(asked), ["run_id", "hit@10"]]
    >>> people = people.rename(columns={"hit@10": "value"}).reset_index()
    >>> cmp.corrected(people, "hit@5", random=True)["sentence"][0]
    """
    golden, scores = cmp._evaluated
    names = [cmp.baseline, cmp.candidate]
    check_type(labels, pd.DataFrame, "labels", "a frame with query_id, run_id and value")
    needed = ["query_id", "run_id", "value", *([] if metric else ["criterion"])]
    if missing := [name for name in needed if name not in labels]:
        raise DataError(
            f"columns {name_list(missing)} are missing",
            field="labels",
            allowed="query_id, run_id, value, and criterion or metric=",
        )
    if metric and "criterion" in labels:
        labels = labels[(labels["criterion"] == metric).to_numpy(dtype=bool)]
    chosen = [metric] if metric else labels["criterion"].astype("str").unique().tolist()
    known = cmp.deltas["metric"].tolist()
    if unknown := [name for name in chosen if name not in known]:
        raise DataError(
            f"{unknown[0]!r} isn't compared",
            field="metric" if metric else "labels.criterion",
            allowed=nearest(unknown[0], known, "compared are"),
        )
    aligned = align(scores, chosen, names)
    rows = []
    for name in chosen:
        own = labels if metric else labels[(labels["criterion"] == name).to_numpy(dtype=bool)]
        of_judge = pd.DataFrame(aligned.of(name), index=aligned.query_ids, columns=names)
        bounds = cmp._declared.describe(name).bounds
        of_people = _labels_of(own, name, bounds, names)
        rows += _rows(name, bounds, of_judge, of_people, golden, by, cluster, random)
    return _table(rows, by)


def _labels_of(labels: pd.DataFrame, metric: str, bounds: Bounds, names: list[str]) -> pd.DataFrame:
    """Return people's values: one row per labelled query, a column per run."""
    types = {"query_id": "str", "run_id": "str", "value": "float64"}
    rows = labels[list(types)].astype(types).dropna()
    found = rows.loc[rows["run_id"].isin(names).to_numpy()]
    if not len(found):
        of = rows["run_id"].unique().tolist()
        raise DataError(
            f"labels of {name_list(of)}" if of else "found no label",
            field="labels.run_id",
            allowed=f"labels of {names[0]} and {names[1]}",
        )
    low, high = bounds
    if not found["value"].between(low, high).all():
        least, most = found["value"].min(), found["value"].max()
        raise DataError(
            f"found {least:g} to {most:g} for {metric}",
            field="labels.value",
            allowed=f"{low:g} to {high:g}",
        )
    means = found.groupby(["query_id", "run_id"])["value"].mean()
    return means.unstack("run_id").reindex(columns=names)


def _rows(
    metric: str,
    bounds: Bounds,
    of_judge: pd.DataFrame,
    of_people: pd.DataFrame,
    golden: Golden | None,
    by: Slicing | None,
    cluster: str | None,
    random: bool,
) -> list[dict[str, Any]]:
    """Return a row per slice of one metric; both frames have queries × (baseline, candidate)."""
    judge = of_judge.diff(axis=1).iloc[:, 1].dropna()
    ids = judge.index.astype("str")
    people = of_people.diff(axis=1).iloc[:, 1].reindex(judge.index).to_numpy("float64")
    is_usable = of_people.index.isin(judge.index[~np.isnan(people)])
    left_out = of_people.index[~is_usable].astype("str")
    groups = clusters_of(pd.Series(ids), golden, cluster)
    everywhere = pd.Index([*ids, *left_out])
    low, high = bounds
    rows = []
    for names, inside in _members(everywhere, golden, by):
        kept, n_out = inside[: len(ids)], int(inside[len(ids) :].sum())
        own = None if groups is None else shared_only(groups[kept])
        where = ", ".join(f"{key} = {value}" for key, value in names.items())
        title = f"{metric}{f' ({where})' if where else ''}"
        row = _difference(judge.to_numpy("float64")[kept], people[kept], high - low, own, random)
        row |= {"n_left_out": n_out}
        rows.append({"metric": metric, **names, **row, "sentence": f"{title}: {_sentence(row)}"})
    return rows


def _difference(
    judge: npt.NDArray[np.float64],
    people: npt.NDArray[np.float64],
    width: float,
    groups: Groups | None,
    random: bool,
) -> dict[str, Any]:
    """Return the figures of one metric and slice, but for `n_left_out` and `sentence`."""
    has_label, is_bounded = ~np.isnan(people), bool(np.isfinite(width))

    def alone(values: npt.NDArray[np.float64], of: Groups | None) -> tuple[float, float, float]:
        if not len(values):
            return np.nan, np.nan, np.nan
        low, high = paired_interval(
            values, "bounded" if is_bounded else "other", groups=of,
            bounds=(0, width) if is_bounded else (0, 1),
        )  # fmt: skip
        return float(values.mean()), float(low[0]), float(high[0])

    of_labels = None if groups is None else shared_only(groups[has_label])
    row: dict[str, Any] = {
        "n_judged": len(judge), "n_labels": int(has_label.sum()),
        "n_clusters": n_clusters(len(judge), groups),
    }  # fmt: skip
    for name, found in (
        ("judge", alone(judge, groups)), ("label", alone(people[has_label], of_labels)),
    ):  # fmt: skip
        row |= dict(
            zip((f"{name}_{part}" for part in ("delta", "low", "high")), found, strict=True)
        )
    refused = _refusal(judge, has_label, groups, random)
    if refused is not None:
        nothing = dict.fromkeys(("delta", "low", "high", "moved", "weight", "effective_n"), np.nan)
        return row | nothing | {"refused": refused}
    best = ppi_difference(judge, people, width=width if is_bounded else None, groups=groups)
    return row | {
        "delta": best.value, "low": best.low, "high": best.high,
        "moved": best.value - row["judge_delta"], "weight": best.weight,
        "effective_n": best.effective_n, "refused": None,
    }  # fmt: skip


def _sentence(row: dict[str, Any]) -> str:
    """Say what people would find, what the judge says, and what each adds."""

    def shown(name: str, part: str = "delta") -> str:
        values = [row[f"{name}{end}"] for end in (part, "low", "high")]
        mean, low, high = (shown_number(value, 3, signed=True) for value in values)
        return f"{mean} [{low}, {high}]"

    if not isinstance(row["refused"], str):
        narrower = (row["high"] - row["low"]) / (row["label_high"] - row["label_low"])
        text = (
            f"people would find {shown('')}, by {row['n_labels']} labels of {row['n_judged']}"
            f" judged queries (λ {row['weight']:.2f}). The judge alone says {shown('judge_')}: the"
            f" labels move it by {shown_number(row['moved'], 3, signed=True)}. The labels alone say"
            f" {shown('label_')}"
        )
        return text + (
            f": the judge makes the interval {1 - narrower:.0%} narrower."
            if narrower < 0.995 and row["weight"] > 0
            else ": the judge adds nothing."
        )
    if not row["n_judged"]:
        return row["refused"]
    return f"{row['refused']}, {shown('judge_')} on {row['n_judged']} queries."


def _table(rows: list[dict[str, Any]], by: Slicing | None) -> pd.DataFrame:
    if not any(row["n_labels"] for row in rows):
        raise DataError(
            "no query that was judged and labelled in both runs",
            field="labels",
            allowed="labels of the same queries in both runs, by query_id and run_id",
        )
    columns = ["metric", *(slice_names(by) if by is not None else ()), *DIFFERENCES]
    texts = {"metric": "str", "refused": "str", "sentence": "str"}
    return pd.DataFrame(rows, columns=columns).astype(texts)


def _members(ids: pd.Index, golden: Golden | None, by: Slicing | None) -> Members:
    """Return the slices of these queries; without `by`, one of them all."""
    if by is None:
        return [({}, np.ones(len(ids), dtype=bool))]
    if golden is None:
        raise DataError(
            "slices need the golden set",
            field="by",
            allowed="a result of rs.judge, or Judged(results, golden=golden)",
        )
    columns = slice_names(by)
    return [
        (dict(zip(columns, map(str, labels), strict=True)), ids.isin(part["query_id"]))
        for labels, part in naturally(slices(golden, by), columns).groupby(
            list(columns), observed=True
        )
    ]


def _refusal(
    judge: npt.NDArray[np.float64],
    has_label: npt.NDArray[np.bool_],
    groups: Groups | None,
    random: bool,
) -> str | None:
    """Return the reason why labels cannot correct the judge, or None if they can."""
    n = int(has_label.sum())
    if n < LEAST_LABELS:
        return f"{n} labels, fewer than {LEAST_LABELS}: uncorrected judge score"
    if not random:
        return "the labelled answers were not drawn at random: uncorrected judge score"
    if len(judge) - n < 2:
        return None
    p = float(welch(judge, has_label, groups=groups)[3][0])
    if p < UNLIKELY:
        return (
            f"the judge scored the labelled answers unlike the others (p = {p:.2g}), so they are no"
            " random draw: uncorrected judge score"
        )
    return None
