"""A judge's mean, or difference of two runs, corrected by people's labels of some answers (PPI++).

In: judged values of many answers, and people's labels of a random sample of them. Out: one row per
run (or pair), criterion and slice: what people would give all answers, with its interval, or why
the judge stays uncorrected.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError, Golden, check_type, run_names
from ragscore.frames.typing import Codes
from ragscore.judging.agreement import clusters_of, people_values, values_of
from ragscore.judging.run import Judged
from ragscore.scoring.intervals import shared_only
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.summary import Slicing, naturally, slice_names, slices
from ragscore.stats import ppi_difference, ppi_mean
from ragscore.stats.paired import welch
from ragscore.stats.ppi import LEAST_LABELS

UNLIKELY = 0.01  # a smaller p means that the labelled answers are no random sample
COLUMNS = (
    "n_judged", "n_labels", "judge", "label", "corrected", "low", "high", "weight", "effective_n",
    "refused",
)  # fmt: skip


def corrected(
    judged: Judged,
    labels: pd.DataFrame,
    baseline: str | None = None,
    candidate: str | None = None,
    *,
    random: bool,
    by: Slicing | None = None,
    cluster: str | None = "group",
) -> pd.DataFrame:
    """Correct a judge's means, or its difference of two runs, by people's labels (PPI++).

    The corrected value estimates what people would give all answers. It is unbiased however wrong
    the judge is, and whichever run it favours, if the labelled answers are a random sample; see
    `ragscore.stats.ppi_mean` and `ppi_difference`. Of a difference, only queries count that both
    runs have; what makes a query hard for both cancels, so label both runs' answers to it.

    Parameters
    ----------
    judged
        A result of `rs.judge`.
    labels
        People's values: `query_id`, `criterion`, `value` and, with several runs, `run_id`. Several
        labels of one answer are averaged.
    baseline, candidate
        Two runs (or systems): their difference instead of the mean of each run.
    random
        True if the labelled answers were drawn at random. The labels themselves cannot show it.
    by
        Slice by slice: a column of `golden.queries`, a kind of tag, or several.
    cluster
        The column of `golden.queries` whose equal values make queries depend on each other.

    Returns
    -------
    One row per run (of a difference: the candidate), criterion and slice: `n_judged` answers (or
    queries), `n_labels` of them labelled, mean (or difference) of the `judge`, of the `label`s, and
    `corrected` with its 95 % interval `low`, `high`; `weight` of the judge (0: labels alone);
    `effective_n`, labels that would be as informative without a judge; `refused`, why nothing is
    corrected: below 30 labels, labels that are not random, or judged unlike the others (p < .01).

    Raises
    ------
    DataError
        Labels with missing columns or values outside the range, or none of a judged answer;
        unknown or equal runs; an unknown `by` or `cluster`.

    Examples
    --------
    >>> rs.judging.corrected(judged, people, "dense", "hybrid", random=True)
    """
    check_type(judged, Judged, "judged", "a result of rs.judge")
    golden, results = judged.golden, judged.results
    runs = None if baseline is None else run_names(results.runs, [baseline, str(candidate)])
    if runs is not None and runs[0] == runs[1]:
        raise DataError(
            f"{runs[0]!r} is both baseline and candidate", field="candidate",
            allowed="two different runs",
        )  # fmt: skip
    of_judge = values_of(results, results)
    of_people = people_values(labels, results.runs["run_id"].map(str).tolist())
    judge, people = (
        one.pivot_table("value", ["criterion", "query_id"], "run_id")
        for one in (of_judge, of_people)
    )
    if runs is not None:
        judge, people = (
            one.reindex(columns=runs).diff(axis=1).iloc[:, 1:] for one in (judge, people)
        )
    rows = []
    for run_id in [name for name in judge if name in people]:
        for criterion, given in people[run_id].dropna().groupby("criterion", sort=False):
            values = judge[run_id].reindex([criterion], level="criterion").dropna()
            values = values.droplevel("criterion")
            of = given.droplevel("criterion").reindex(values.index)
            if of.isna().all():
                continue
            groups = clusters_of(values.index.to_series(), golden, cluster)
            bounds = TABLE[str(criterion)].bounds
            for labelled, inside in _members(values.index, golden, by):
                own = None if groups is None else shared_only(groups[inside])
                of_slice, labels_in = (one.to_numpy("float64")[inside] for one in (values, of))
                row = _row(of_slice, labels_in, bounds, own, random, runs is not None)
                rows.append([run_id, criterion, *labelled, *row])
    if not rows:
        raise DataError(
            "no labelled answer that was judged", field="labels",
            allowed="labels of judged answers, by run_id, query_id and criterion; of a difference"
            " of the same queries in both runs",
        )  # fmt: skip
    columns = ["run_id", "criterion", *(slice_names(by) if by is not None else ()), *COLUMNS]
    texts = dict.fromkeys(("run_id", "criterion", "refused"), "str")
    return pd.DataFrame(rows, columns=columns).astype(texts)


def _row(
    judge: npt.NDArray[np.float64], people: npt.NDArray[np.float64], bounds: tuple[float, float],
    groups: Codes | None, random: bool, is_difference: bool,
) -> list[Any]:  # fmt: skip
    """Return the figures of one run, criterion and slice, in the order of COLUMNS."""
    has = ~np.isnan(people)
    means = [float(one.mean()) if len(one) else np.nan for one in (judge, people[has])]
    row = [len(judge), int(has.sum()), *means]
    if (refused := _refusal(judge, has, groups, random)) is not None:
        return [*row, *[np.nan] * 5, refused]
    if is_difference:
        best = ppi_difference(judge, people, width=bounds[1] - bounds[0], groups=groups)
    else:
        best = ppi_mean(judge, people, bounds=bounds, groups=groups)
    return [*row, best.value, best.low, best.high, best.weight, best.effective_n, None]


def _members(
    ids: pd.Index, golden: Golden | None, by: Slicing | None
) -> list[tuple[list[str], npt.NDArray[np.bool_]]]:
    """Return the slices of these queries, labels and flags; else one of them all."""
    if by is None:
        return [([], np.ones(len(ids), dtype=bool))]
    if golden is None:
        raise DataError(
            "slices need the golden set", field="by",
            allowed="a result of rs.judge, or Judged(results, golden=golden)",
        )  # fmt: skip
    columns = list(slice_names(by))
    groups = naturally(slices(golden, by), columns).groupby(columns, observed=True)
    return [([*map(str, names)], ids.isin(part["query_id"])) for names, part in groups]


def _refusal(
    judge: npt.NDArray[np.float64], has: npt.NDArray[np.bool_], groups: Codes | None, random: bool
) -> str | None:
    """Return the reason why labels cannot correct the judge, or None if they can."""
    if (n := int(has.sum())) < LEAST_LABELS:
        return f"{n} labels, fewer than {LEAST_LABELS}: uncorrected judge score"
    if not random:
        return "the labelled answers were not drawn at random: uncorrected judge score"
    p = float(welch(judge, has, groups=groups)[3][0]) if len(judge) - n >= 2 else np.nan
    if p < UNLIKELY:
        return (
            f"the judge scored the labelled answers unlike the others (p = {p:.2g}), so they are no"
            " random draw: uncorrected judge score"
        )
    return None
