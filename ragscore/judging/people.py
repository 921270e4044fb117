"""A judge's mean put right by people's labels of some answers, and which answers to let people label.

In: judged results and labels. Out: one row per run and criterion, or a random choice of answers.
"""

from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Results
from ragscore.judging.agreement import values_of, width_of
from ragscore.judging.run import Judged
from ragscore.stats import LEAST_LABELS, ppi_mean, two_sample_p

# a choice of answers whose judged values differ so much from the others' is not taken for random
UNLIKELY = 0.01
_COLUMNS = [
    "run_id",
    "criterion",
    "n_judged",
    "n_labels",
    "judge_mean",
    "label_mean",
    "mean",
    "low",
    "high",
    "weight",
    "effective_n",
    "refused",
]


def draw_answers(judged: Judged | Results, n: int = 50, *, seed: int = 0) -> pd.DataFrame:
    """Answers for people to label, chosen at random: what `rs.corrected_means` needs.

    Returns
    -------
    Up to `n` rows for each run, in the order of its responses: run_id, query_id, query, answer.
    Only judged responses are drawn.
    """
    if n < 1:
        raise DataError(f"found {n}", field="n", allowed="at least 1")
    results = judged.results if isinstance(judged, Judged) else judged
    cells = values_of(results, results)[["run_id", "query_id"]].drop_duplicates()
    rows = results.responses.assign(run_id=results.responses["run_id"].astype("str")).merge(
        cells, on=["run_id", "query_id"]
    )
    rng = np.random.default_rng(seed)
    parts = [
        part.iloc[np.sort(rng.permutation(len(part))[:n])]
        for _, part in rows.groupby("run_id", sort=False)
    ]
    chosen = pd.concat(parts) if parts else rows
    return chosen.reindex(columns=["run_id", "query_id", "query", "answer"]).reset_index(drop=True)


def corrected_means(
    judged: Judged | Results, labels: pd.DataFrame, *, random: bool
) -> pd.DataFrame:
    """The mean that people would give all answers, from their labels of some and the judge's scores of all (PPI++).

    See `ragscore.stats.ppi_mean`. However wrong the judge is, the mean is right if the labelled
    answers were drawn at random; where they were not, or are too few, it is refused and the judge's
    mean stays what it is: uncorrected.

    Parameters
    ----------
    labels
        People's values: query_id, criterion, value and, with several runs, run_id; several people's
        are averaged.
    random
        Whether the labelled answers were drawn at random (as by `rs.draw_answers`). It has to be
        said: nothing in the labels shows it.

    Returns
    -------
    One row per run and labelled criterion: `n_judged` answers, `n_labels` of them labelled,
    `judge_mean` of all, `label_mean` of the labelled; the corrected `mean` with its 95 % interval
    `low`, `high`; `weight` of the judge (0: labels alone), `effective_n` labels that alone would
    tell as much; `refused`: why there is no correction (NA: there is one). It is refused below 30
    labels, where they aren't random, and where the judge scored the labelled answers so differently
    from the others (p < 0.01) that they can't be.

    Raises
    ------
    DataError
        Labels without their columns, or outside the criterion's range; no labelled answer that was
        judged.
    """
    results = judged.results if isinstance(judged, Judged) else judged
    cell = ["run_id", "query_id", "criterion"]
    both = values_of(results, results).merge(
        values_of(labels, results), on=cell, how="left", suffixes=("", "_label")
    )
    groups = both.groupby(["run_id", "criterion"], sort=False)
    rows = [
        _row(str(run_id), str(criterion), part, random)
        for (run_id, criterion), part in groups
        if part["value_label"].notna().any()
    ]
    if not rows:
        raise DataError(
            "no labelled answer that was judged",
            field="labels",
            allowed="labels of judged answers, by run_id, query_id and criterion",
        )
    return pd.DataFrame(rows, columns=_COLUMNS).astype(
        {"run_id": "str", "criterion": "str", "refused": "str"}
    )


def _row(run_id: str, criterion: str, part: pd.DataFrame, random: bool) -> list[Any]:
    has_label = part["value_label"].notna()
    labelled, others = (
        part.loc[has_label, "value"].to_numpy("float64"),
        part.loc[~has_label, "value"].to_numpy("float64"),
    )
    labels = part.loc[has_label, "value_label"].to_numpy("float64")
    about = [
        run_id,
        criterion,
        len(part),
        len(labels),
        float(part["value"].mean()),
        float(labels.mean()),
    ]
    if refused := _refusal(labelled, others, random):
        return [*about, *[np.nan] * 5, refused]
    found = ppi_mean(labelled, labels, others, bounds=width_of(criterion))
    return [*about, found.value, found.low, found.high, found.weight, found.effective_n, None]


def _refusal(labelled: Any, others: Any, random: bool) -> str | None:
    """Why labels can't correct the judge; None if they can."""
    if len(labelled) < LEAST_LABELS:
        return f"{len(labelled)} labels, fewer than {LEAST_LABELS}: uncorrected judge score"
    if not random:
        return "the labelled answers were not drawn at random: uncorrected judge score"
    if len(others) < 2:
        return None
    p = float(
        two_sample_p(
            np.concatenate([labelled, others]),
            np.arange(len(labelled) + len(others)) < len(labelled),
        )[0]
    )
    return (
        f"the judge scored the labelled answers unlike the others (p = {p:.2g}), so they are no"
        " random draw: uncorrected judge score"
        if p < UNLIKELY
        else None
    )
