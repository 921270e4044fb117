"""Audit of a judge, and a sample of answers for people to label.

In: judged results and, if available, people's labels and the same answers judged with reversed
context. Out: an audit with one row per criterion and measure; a random sample of answers to
annotate, by which `corrected` corrects the judge.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError, Results, records_of
from ragscore.frames.errors import unsaid
from ragscore.frames.tables import Display, Table
from ragscore.io.output import write_json
from ragscore.judging.reliability import (
    JudgedValues,
    agreement,
    clusters_of,
    n_clusters,
    values_of,
)
from ragscore.judging.run import Judged
from ragscore.scoring.intervals import Groups
from ragscore.scoring.judgments import FAILED, NOT_MEASURABLE
from ragscore.scoring.limits import Limits, check_limits, good_from
from ragscore.scoring.metrics import CRITERIA, NOTHING_DECLARED
from ragscore.scoring.metrics.judged import PARTS
from ragscore.stats import (
    interval_of_means,
    krippendorff_alpha,
    rank_correlation,
)

AUDIT_FILE = "judge_audit.json"
MIN_PAIRS = 10  # a correlation of fewer pairs has an interval too wide to be worth showing
_COLUMNS = ["criterion", "judge", "measure", "value", "low", "high", "n", "n_clusters"]
_TYPES = dict.fromkeys(_COLUMNS[:3], "str") | dict.fromkeys(_COLUMNS[3:6], "float64")
Measure = tuple[str, float, float, float, int, int]
"""Name, value, low, high, n and number of clusters of one measure."""
Clusters = Callable[[pd.Series], Groups | None]
"""Query ids -> the cluster of each, None if each stands alone."""


@dataclass(frozen=True, repr=False)
class JudgeAudit(Display):
    """The audit of the judges of some runs.

    Attributes
    ----------
    table
        One row per criterion and measure: criterion, judge, measure, `value`, its 95 % interval
        `low`, `high` (NaN if it has none), `n`, the number of observations, and `n_clusters`, that
        of independent ones: all that belongs to one query, or to its paraphrases, is one cluster,
        and intervals go by them. A measure that could not be taken has no row.

        - `failed_rate`, `not_measurable_rate`: shares of judgments.
        - `repeat_flip_rate`, `repeat_sd`, `repeat_alpha`: agreement of the judge's own repeats.
        - `length_effect`: rank correlation of value and answer length.
        - `rank_effect`: rank correlation of chunk verdict and rank. A good ranking has one below 0
          without any fault of the judge.
        - `position_effect`, `position_flip_rate`: mean change and flips with reversed context.
        - `people_kappa`, `people_weighted_kappa`, `people_alpha`, `people_bias` (judge - people),
          `people_disagreement`: agreement with human annotations.
        - `n_calls`, `cache_hit_rate`, `retries`, `repairs`, `tokens`, `cost_usd`: usage.
    """

    table: pd.DataFrame

    def _parts(self) -> list[str | Table]:
        return ["Judges against people", Table(self.table)]

    def write(self, folder: str | Path) -> Path:
        """Write `judge_audit.json` into a run's folder and return its path."""
        return write_json(Path(folder) / AUDIT_FILE, {"measures": records_of(self.table)})


def audit(
    judged: Judged,
    labels: pd.DataFrame | None = None,
    *,
    reversed_context: JudgedValues | None = None,
    thresholds: Mapping[str, Limits] | None = None,
    cluster: str | None = "group",
    seed: int = 0,
) -> JudgeAudit:
    """Audit the judges: failures, consistency, biases, agreement with people, usage.

    Parameters
    ----------
    labels
        Human annotations: query_id, criterion, value and, with several runs, run_id.
    reversed_context
        The same answers judged with order="reversed", to measure position effects.
    thresholds, cluster
        What counts as good, and which queries depend on each other: as for `rs.judging.agreement`.
    seed
        Seed of the resamples behind intervals.

    Returns
    -------
    A `JudgeAudit`; its docstring has the measures.

    Raises
    ------
    DataError
        Annotations with missing columns, values outside the criterion's range, or no response in
        common with the judgments.

    Examples
    --------
    >>> judged.audit(labels).table.query("measure == 'people_kappa'")
    """
    results, limits = judged.results, check_limits(thresholds, NOTHING_DECLARED)
    clusters = partial(clusters_of, golden=judged.golden, cluster=cluster)
    with_people, with_reversed = (
        _agreement_by_criterion(judged, other, limits, cluster, seed)
        for other in (labels, reversed_context)
    )
    values = values_of(results, results)
    rows: list[tuple[Any, ...]] = []
    for criterion in CRITERIA:
        judgments = results.judgments
        if judgments is None or not (judgments["criterion"] == criterion).any():
            continue
        own = judgments[judgments["criterion"] == criterion]
        keys = [own[name].astype("str") for name in ("run_id", "query_id", "judge", "repeat")
                if name in own]  # fmt: skip
        state = (
            own["state"].astype("str") if "state" in own else pd.Series("scored", index=own.index)
        )
        states = pd.DataFrame(
            {"failed": state == FAILED, "not_measurable": state == NOT_MEASURABLE}
        )
        of_judgments = states.groupby(keys, dropna=False).any().reset_index("query_id")
        groups = clusters(of_judgments["query_id"])
        measures = [
            _rate("failed_rate", of_judgments["failed"], groups),
            _rate("not_measurable_rate", of_judgments["not_measurable"], groups),
            *_repeat_measures(
                results, own, criterion, good_from(criterion, limits), clusters, seed
            ),
            *_length_effect(values[values["criterion"] == criterion], results, clusters),
        ]
        if PARTS.get(criterion) == "chunks":
            measures += _rank_effect(own, results, clusters)
        if agreement := with_reversed.get(criterion):
            counts = int(agreement["n"]), int(agreement["n_clusters"])
            measures += [
                ("position_effect", agreement["bias"], math.nan, math.nan, *counts),
                ("position_flip_rate", agreement["flip"], math.nan, math.nan, *counts),
            ]
        if agreement := with_people.get(criterion):
            counts = int(agreement["n"]), int(agreement["n_clusters"])
            disagreement = (agreement[name] for name in ("disagreement", "low", "high"))
            measures += [
                *(
                    (
                        f"people_{name}",
                        *(agreement[f"{name}{end}"] for end in ("", "_low", "_high")),
                        *counts,
                    )
                    for name in ("kappa", "weighted_kappa", "alpha")
                ),
                # The agreement has the judge as side a and people as b: its bias is people - judge.
                ("people_bias", -agreement["bias"], math.nan, math.nan, *counts),
                ("people_disagreement", *disagreement, *counts),
            ]
        if len(log := judged.ledger[judged.ledger["criterion"] == criterion]):
            measures += _usage_measures(log)
        names = own["judge"].dropna().unique().tolist() if "judge" in own else []
        rows += [(criterion, ", ".join(names) or None, *measure) for measure in measures]
    return JudgeAudit(pd.DataFrame(rows, columns=_COLUMNS).astype(_TYPES))


def _agreement_by_criterion(
    judged: JudgedValues,
    other: JudgedValues | None,
    limits: dict[str, Limits],
    cluster: str | None,
    seed: int,
) -> dict[Any, dict[Any, Any]]:
    """Return the rows of the agreement table by criterion; none without the other side."""
    if other is None:
        return {}
    with unsaid():  # the audit itself shows the disagreement
        found = agreement(judged, other, thresholds=limits, cluster=cluster, seed=seed)
    return found.table.set_index("criterion").to_dict("index")


def _repeat_measures(
    results: Results,
    own: pd.DataFrame,
    criterion: str,
    least: float,
    clusters: Clusters,
    seed: int,
) -> list[Measure]:
    """Return flips of good or not, spread within an answer, and alpha, over a judge's repeats."""
    if "repeat" not in own or own["repeat"].nunique() < 2:
        return []
    parts = []
    for repeat in sorted(own["repeat"].dropna().unique()):
        part = replace(results, judgments=own[own["repeat"] == repeat])
        parts.append(values_of(part, part).assign(repeat=repeat))
    wide = (
        pd.concat(parts)
        .pivot(index=["run_id", "query_id"], columns="repeat", values="value")
        .dropna()
    )
    if not len(wide):
        return []
    groups = clusters(wide.index.get_level_values("query_id").to_series())
    alpha = krippendorff_alpha(wide.to_numpy(), "interval", groups=groups, seed=seed)
    sd = float(np.sqrt(wide.var(axis=1, ddof=1).mean()))
    return [
        _rate("repeat_flip_rate", (wide >= least).nunique(axis=1) > 1, groups),
        ("repeat_sd", sd, math.nan, math.nan, len(wide), alpha.n_groups),
        ("repeat_alpha", alpha.value, alpha.low, alpha.high, alpha.n, alpha.n_groups),
    ]


def _length_effect(values: pd.DataFrame, results: Results, clusters: Clusters) -> list[Measure]:
    keys = ["run_id", "query_id"]
    if "answer" not in results.responses:
        return []
    answers = results.responses[[*keys, "answer"]].astype({"run_id": "str"})
    both = values.merge(answers, on=keys).dropna(subset=["answer"])
    lengths = np.asarray(both["answer"].str.len(), dtype=np.float64)
    groups = clusters(both["query_id"])
    return _correlation("length_effect", lengths, both["value"].to_numpy("float64"), groups)


def _rank_effect(own: pd.DataFrame, results: Results, clusters: Clusters) -> list[Measure]:
    if "chunk_id" not in results.hits:
        return []
    keys = ["run_id", "query_id", "chunk_id"]
    as_text = dict.fromkeys(keys, "str")
    hits = results.hits[[*keys, "rank"]].dropna().astype(as_text).drop_duplicates(keys)
    verdicts = own.rename(columns={"item": "chunk_id"})[[*keys, "value"]].astype(as_text)
    both = verdicts.merge(hits, on=keys).dropna(subset=["value"])
    rank, value = (both[name].to_numpy("float64") for name in ("rank", "value"))
    return _correlation("rank_effect", rank, value, clusters(both["query_id"]))


def _usage_measures(log: pd.DataFrame) -> list[Measure]:
    asked = log[~log["state"].isin(["skipped", "not_asked"])]
    columns = ["n_calls", "n_cached", "n_retries", "n_repairs", "tokens", "cost_usd"]
    total = asked[columns].sum(skipna=False)
    n_replies = total["n_calls"] + total["n_cached"]
    measures = {
        "n_calls": total["n_calls"],
        "cache_hit_rate": total["n_cached"] / n_replies if n_replies else math.nan,
        "retries": total["n_retries"],
        "repairs": total["n_repairs"],
        "tokens": total["tokens"],
        "cost_usd": total["cost_usd"],
    }
    return [
        (name, float(value), math.nan, math.nan, len(asked), asked["query_id"].nunique())
        for name, value in measures.items()
    ]


def _rate(name: str, flags: pd.Series, groups: Groups | None) -> Measure:
    values = flags.to_numpy("float64")
    low, high = interval_of_means(values, "binary", groups=groups)
    n = len(values)
    return name, float(values.mean()), float(low[0]), float(high[0]), n, n_clusters(n, groups)


def _correlation(
    name: str, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], groups: Groups | None
) -> list[Measure]:
    """Return Spearman's rank correlation with its interval, unless a side is constant."""
    n = len(x)
    if n < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return []
    found = rank_correlation(x, y, groups=groups)
    low, high = (found.low, found.high) if n >= MIN_PAIRS else (math.nan, math.nan)
    return [(name, found.value, low, high, n, n_clusters(n, groups))]


def sample_for_annotation(judged: Judged, n: int = 50, *, seed: int = 0) -> pd.DataFrame:
    """Draw a random sample of judged answers for people to label, to correct the judge by.

    All runs get the same queries, as far as they were judged: differences of runs
    (`corrected_differences`) need labels on both sides.

    Parameters
    ----------
    n
        Number of answers per run; if fewer are judged, all of them are drawn.

    Returns
    -------
    One row per drawn response, in the order of the run's responses: run_id, query_id, query,
    answer.

    Raises
    ------
    DataError
        n below 1.

    Examples
    --------
    >>> judged.sample_for_annotation(50).to_csv("to_label.csv")
    """
    if n < 1:
        raise DataError(f"found {n}", field="n", allowed="at least 1")
    results = judged.results
    keys = ["run_id", "query_id"]
    cells = values_of(results, results)[keys].drop_duplicates()
    rows = results.responses.astype({"run_id": "str"}).merge(cells, on=keys)
    rng = np.random.default_rng(seed)
    ids = pd.Index(rows["query_id"].unique())
    place = np.argsort(rng.permutation(len(ids)))  # of every query in one random order
    rows = rows.assign(place=place[ids.get_indexer(pd.Index(rows["query_id"]))])
    parts = [
        part[(part["place"].rank() <= n).to_numpy()]
        for _, part in rows.groupby("run_id", sort=False)
    ]
    sample = pd.concat(parts) if parts else rows
    return sample.reindex(columns=[*keys, "query", "answer"]).reset_index(drop=True)
