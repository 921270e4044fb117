"""The audit card of a judge: how far its word can be taken, before its means are.

In: what it judged and, where there are any, people's labels and the same judged with the context
reversed. Out: one row per criterion and measure.

A judge's mean put right by people's labels of some answers, and which answers to let people label.

In: judged results and labels. Out: one row per run and criterion, or a random choice of answers.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError, Results, records_of
from ragscore.io.output import write_json
from ragscore.judging.agreement import (
    Judging,
    Reliability,
    is_good,
    judge_reliability,
    values_of,
    width_of,
)
from ragscore.judging.run import Judged
from ragscore.scoring.judgments import CRITERIA, FAILED, NOT_MEASURABLE
from ragscore.stats import LEAST_LABELS, krippendorff_alpha, ppi_mean, two_sample_p, wilson_interval

AUDIT_FILE = "judge_audit.json"
LEAST = 10  # pairs below which a correlation has no interval worth showing
_MEASURE_COLUMNS = ["criterion", "judge", "measure", "value", "low", "high", "n"]
Row = tuple[str, float, float, float, int]


@dataclass(frozen=True)
class JudgeAudit:
    """What is known of a judge.

    Attributes
    ----------
    table
        One row per criterion and measure: criterion, judge, measure, `value` with its 95 % interval
        `low`, `high` (NaN: it has none), `n` it was measured on. Measures: `failed_rate`,
        `not_measurable_rate` (of judgments); `repeat_flip_rate`, `repeat_sd`, `repeat_alpha` (its
        repeats among each other); `length_effect` (rank correlation of value and length of the
        answer); `rank_effect` (of chunk verdicts and rank; a good ranking has one below 0 without
        any fault of the judge); `position_effect` (mean change when the context is reversed),
        `position_flip_rate`; `people_kappa`, `people_weighted_kappa`, `people_alpha`, `people_bias`
        (judge - people), `people_disagreement`; `n_calls`, `cache_hit_rate`, `retries`, `repairs`,
        `tokens`, `cost_usd`. What was not measured has no row.
    """

    table: pd.DataFrame

    def __repr__(self) -> str:
        shown = self.table.assign(
            **{
                name: (
                    self.table[name].map(lambda value: "" if math.isnan(value) else f"{value:.3g}")
                )
                for name in ("value", "low", "high")
            }
        )
        return shown.to_string(index=False)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()  # type: ignore[operator]

    def write(self, folder: str | Path) -> Path:
        """Keep it with a run: `judge_audit.json` in the run's folder."""
        return write_json(Path(folder) / AUDIT_FILE, {"measures": records_of(self.table)})

    @classmethod
    def read(cls, folder: str | Path) -> "JudgeAudit":
        """What `write` kept."""
        content = json.loads((Path(folder) / AUDIT_FILE).read_text(encoding="utf-8"))
        texts, numbers = (
            dict.fromkeys(_MEASURE_COLUMNS[:3], "str"),
            dict.fromkeys(_MEASURE_COLUMNS[3:6], "float64"),
        )
        return cls(
            pd.DataFrame(content["measures"], columns=_MEASURE_COLUMNS).astype(texts | numbers)
        )


def judge_audit(
    judged: Judged | Results,
    labels: pd.DataFrame | None = None,
    *,
    reversed_context: Judging | None = None,
    seed: int = 0,
) -> JudgeAudit:
    """The audit card of the judges of some runs.

    Parameters
    ----------
    judged
        What `rs.judge` gave; of results with judgments alone calls, cache hits and spending aren't
        known.
    labels
        People's values: query_id, criterion, value and, with several runs, run_id.
    reversed_context
        The same answers judged with order="reversed": what the places of the hits do to the judge.
    seed
        Of the resamples behind intervals.
    """
    results = judged.results if isinstance(judged, Judged) else judged
    ledger = judged.ledger if isinstance(judged, Judged) else None
    judgments = (
        results.judgments if results.judgments is not None else pd.DataFrame(columns=["criterion"])
    )
    with_people = _compared(judged, labels, seed)
    with_reversed = _compared(judged, reversed_context, seed)
    values = values_of(results, results)
    rows: list[tuple[Any, ...]] = []
    for criterion in [name for name in CRITERIA if (judgments["criterion"] == name).any()]:
        own = judgments[judgments["criterion"] == criterion]
        measures = [
            *_outcomes(own),
            *_of_repeats(results, own, criterion, seed),
            *_of_length(values[values["criterion"] == criterion], results),
            *_of_rank(own, results),
            *_of_position(with_reversed, criterion),
            *_of_people(with_people, criterion),
            *(_spent(ledger[ledger["criterion"] == criterion]) if ledger is not None else []),
        ]
        names = own["judge"].dropna().unique().tolist() if "judge" in own else []
        rows += [(criterion, ", ".join(names) or None, *measure) for measure in measures]
    return JudgeAudit(
        pd.DataFrame(rows, columns=_MEASURE_COLUMNS).astype(
            {
                "criterion": "str",
                "judge": "str",
                "measure": "str",
                "value": "float64",
                "low": "float64",
                "high": "float64",
            }
        )
    )


def _compared(judged: Judging, other: Judging | None, seed: int) -> Reliability | None:
    if other is None:
        return None
    import warnings

    with warnings.catch_warnings():  # the card shows the disagreement itself
        warnings.simplefilter("ignore", UserWarning)
        return judge_reliability(judged, other, seed=seed)


def _outcomes(own: pd.DataFrame) -> list[Row]:
    passes = [name for name in ("run_id", "query_id", "judge", "repeat") if name in own]
    state = own["state"].astype("str") if "state" in own else pd.Series("scored", index=own.index)
    of_pass = (
        pd.DataFrame({"failed": state == FAILED, "nothing": state == NOT_MEASURABLE})
        .groupby([own[name].astype("str") for name in passes], dropna=False)
        .any()
    )
    return [
        _rate("failed_rate", of_pass["failed"]),
        _rate("not_measurable_rate", of_pass["nothing"]),
    ]


def _of_repeats(results: Results, own: pd.DataFrame, criterion: str, seed: int) -> list[Row]:
    """How a judge agrees with itself.

    Flips of good or not, spread within an answer, alpha of its repeats.
    """
    if "repeat" not in own or own["repeat"].nunique() < 2:
        return []
    from dataclasses import replace

    parts = [
        values_of(one := replace(results, judgments=own[own["repeat"] == repeat]), one).assign(
            repeat=repeat
        )
        for repeat in sorted(own["repeat"].dropna().unique())
    ]
    wide = (
        pd.concat(parts)
        .pivot(index=["run_id", "query_id"], columns="repeat", values="value")
        .dropna()
    )
    if not len(wide):
        return []
    good = wide.apply(lambda column: is_good(criterion, column))
    alpha = krippendorff_alpha(wide.to_numpy(), "interval", seed=seed)
    sd = float(np.sqrt(wide.var(axis=1, ddof=1).mean()))
    flips = good.nunique(axis=1) > 1
    return [
        _rate("repeat_flip_rate", flips),
        ("repeat_sd", sd, math.nan, math.nan, len(wide)),
        ("repeat_alpha", alpha.value, alpha.low, alpha.high, alpha.n),
    ]


def _of_length(values: pd.DataFrame, results: Results) -> list[Row]:
    if "answer" not in results.responses:
        return []
    answers = results.responses.assign(run_id=results.responses["run_id"].astype("str"))[
        ["run_id", "query_id", "answer"]
    ]
    both = values.merge(answers, on=["run_id", "query_id"]).dropna(subset=["answer"])
    return _correlation(
        "length_effect",
        np.asarray(both["answer"].str.len(), dtype=np.float64),
        both["value"].to_numpy("float64"),
    )


def _of_rank(own: pd.DataFrame, results: Results) -> list[Row]:
    if own["criterion"].iloc[0] != "context_precision" or "chunk_id" not in results.hits:
        return []
    keys = ["run_id", "query_id", "chunk_id"]
    hits = (
        results.hits[[*keys, "rank"]]
        .dropna()
        .astype(dict.fromkeys(keys, "str"))
        .drop_duplicates(keys)
    )
    items = (
        own.rename(columns={"item": "chunk_id"})[[*keys, "value"]]
        .astype(dict.fromkeys(keys, "str"))
        .merge(hits, on=keys)
        .dropna(subset=["value"])
    )
    return _correlation(
        "rank_effect", items["rank"].to_numpy("float64"), items["value"].to_numpy("float64")
    )


def _of_position(found: Reliability | None, criterion: str) -> list[Row]:
    one = _criterion(found, criterion)
    if one is None:
        return []
    return [
        ("position_effect", one["bias"], math.nan, math.nan, int(one["n"])),
        ("position_flip_rate", one["flip"], math.nan, math.nan, int(one["n"])),
    ]


def _of_people(found: Reliability | None, criterion: str) -> list[Row]:
    one = _criterion(found, criterion)
    if one is None:
        return []
    n = int(one["n"])
    rows: list[Row] = [
        (f"people_{name}", one[name], one[f"{name}_low"], one[f"{name}_high"], n)
        for name in ("kappa", "weighted_kappa", "alpha")
    ]
    return [
        *rows,
        ("people_bias", -one["bias"], math.nan, math.nan, n),
        ("people_disagreement", one["disagreement"], one["low"], one["high"], n),
    ]


def _criterion(found: Reliability | None, criterion: str) -> dict[str, Any] | None:
    rows = (
        []
        if found is None
        else found.table[found.table["criterion"] == criterion].to_dict("records")
    )
    return {str(name): value for name, value in rows[0].items()} if rows else None


def _spent(ledger: pd.DataFrame) -> list[Row]:
    asked = ledger[~ledger["state"].isin(["skipped", "not_asked"])]
    n, totals = (
        len(asked),
        asked[["n_calls", "n_cached", "n_retries", "n_repairs", "tokens", "cost_usd"]].sum(
            skipna=False
        ),
    )
    replies = totals["n_calls"] + totals["n_cached"]
    named = {
        "n_calls": totals["n_calls"],
        "cache_hit_rate": totals["n_cached"] / replies if replies else math.nan,
        "retries": totals["n_retries"],
        "repairs": totals["n_repairs"], "tokens": totals["tokens"], "cost_usd": totals["cost_usd"],
    }  # fmt: skip
    return [(name, float(value), math.nan, math.nan, n) for name, value in named.items()]


def _rate(name: str, flags: pd.Series) -> Row:
    share, n = float(flags.mean()), len(flags)
    low, high = wilson_interval(np.array([share]), np.array([float(n)]))
    return name, share, float(low[0]), float(high[0]), n


def _correlation(name: str, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> list[Row]:
    """Spearman's rank correlation with Fisher's interval; no row where either side doesn't vary."""
    n = len(x)
    if n < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return []
    from scipy.stats import norm, spearmanr

    rho = float(spearmanr(x, y).statistic)
    if n < LEAST or abs(rho) >= 1:
        return [(name, rho, math.nan, math.nan, n)]
    half = float(norm.ppf(0.975)) * math.sqrt((1 + rho**2 / 2) / (n - 3))  # Bonett and Wright 2000
    return [(name, rho, math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half), n)]


# a choice of answers whose judged values differ so much from the others' is not taken for random
UNLIKELY = 0.01
_MEAN_COLUMNS = [
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
    return pd.DataFrame(rows, columns=_MEAN_COLUMNS).astype(
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
