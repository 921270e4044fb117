"""Agreement of two judges on the same answers: models, prompts, repeats, or a judge and people.

In: two sets of values for the same responses, from judges or from human annotations. Out: rate of
disagreement and coefficients of agreement by criterion, with intervals.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_type, records_of
from ragscore.frames.errors import check_choice, warn
from ragscore.frames.escaping import json_text
from ragscore.frames.render import shown_interval
from ragscore.frames.signatures import takes
from ragscore.frames.tables import Display, Table
from ragscore.io.output import write_json
from ragscore.judging.endpoint import Endpoint
from ragscore.judging.judges import Judge, find_judges
from ragscore.judging.run import Judged, judge
from ragscore.scoring.intervals import Groups, query_clusters, shared_only
from ragscore.scoring.metrics import CRITERIA, TABLE, Metric
from ragscore.scoring.metrics.judged import measured
from ragscore.scoring.primary import GOOD_FROM
from ragscore.scoring.refusals import response_rows
from ragscore.stats import cohen_kappa, krippendorff_alpha, mean_interval, weighted_kappa

POINTS_FROM = 3.0  # width from which a scale is one of points
FAR = 0.2  # of a scale's width: values further apart disagree, such as 2 of 5 points
WARN_FROM = 0.2  # a higher rate of disagreement gives a warning
RELIABILITY_FILE = "agreement.json"
_CELL = ["run_id", "query_id", "criterion"]
_COEFFICIENTS = ("kappa", "weighted_kappa", "alpha")
_COLUMNS = [
    "criterion", "n", "n_clusters", "n_only_a", "n_only_b", "good_from", "far", "flip",
    "disagreement", "low", "high", "bias",
    *(f"{name}{end}" for name in _COEFFICIENTS for end in ("", "_low", "_high")),
]  # fmt: skip
JudgedValues = Judged | Results | pd.DataFrame
"""Values by judges, or by people as a frame with query_id, criterion, value and maybe run_id."""


@dataclass(frozen=True, repr=False)
class JudgeAgreement(Display):
    """Agreement of two judges, a and b, on the same answers.

    Attributes
    ----------
    table
        One row per criterion. Counts: `n` responses with values of both sides, in `n_clusters`
        (answers to one query, and to its paraphrases, are one); `n_only_a`, `n_only_b`. Rates among
        the n, 0 to 1, lower is better: `far`, values more than a fifth of the scale apart; `flip`,
        only one side calls the answer good (a value from `good_from` on); `disagreement`, either
        of them, with its 95 % interval `low`, `high`. `bias` is the mean of b - a. Coefficients, at
        most 1, each with a 95 % interval `_low`, `_high`: `kappa` (Cohen's, good or not),
        `weighted_kappa` (quadratic weights) and `alpha` (Krippendorff's: ordinal for points,
        nominal for yes or no, else interval). Intervals take clusters, not responses, as
        independent; NaN where there is a single one.
    pairs
        One row per response and criterion with values of both sides: run_id, query_id, criterion,
        `a`, `b`.
    """

    table: pd.DataFrame
    pairs: pd.DataFrame

    @property
    def reliability(self) -> dict[str, float]:
        """The `judge_reliability` of a chatbot harness's `metrics.json`.

        `disagreement_rate`, the share of pairs that disagree over all criteria (0 to 1), and
        `spot_check_n`, the number of responses.
        """
        n = self.table["n"]
        return {
            "disagreement_rate": float((self.table["disagreement"] * n).sum() / n.sum()),
            "spot_check_n": len(self.pairs[["run_id", "query_id"]].drop_duplicates()),
        }

    def _parts(self) -> list[str | Table]:
        rows = [
            f"{row['criterion']} {row['disagreement']:.0%} of {row['n']}"
            + ("" if row["n_clusters"] == row["n"] else f" in {row['n_clusters']} clusters")
            for row in self.table.to_dict("records")
        ]
        return [f"JudgeAgreement: disagreement {', '.join(rows)}", Table(self._shown())]

    def _shown(self) -> pd.DataFrame:
        """Return each measure with its interval in one column, for a display."""
        table = self.table
        shown = table[["criterion", "n", "n_clusters"]].copy()
        measures = {
            "disagreement": ("low", "high"), "kappa": ("kappa_low", "kappa_high"),
            "weighted_kappa": ("weighted_kappa_low", "weighted_kappa_high"),
            "alpha": ("alpha_low", "alpha_high"),
        }  # fmt: skip
        for name, (low, high) in measures.items():
            rows = zip(table[name], table[low], table[high], strict=True)
            shown[name] = [shown_interval(*row, 2) for row in rows]
        shown.insert(4, "bias", table["bias"])
        return shown

    def to_json(self) -> str:
        """Both frames as JSON, NaN as null."""
        return json_text({"table": records_of(self.table), "pairs": records_of(self.pairs)})

    def write(self, folder: str | Path) -> Path:
        """Write `agreement.json` into a run's folder and return its path."""
        return write_json(Path(folder) / RELIABILITY_FILE, json.loads(self.to_json()))


def agreement(
    a: JudgedValues,
    b: JudgedValues,
    *,
    thresholds: Mapping[str, float] | None = None,
    cluster: str | None = "group",
) -> JudgeAgreement:
    """Measure how well two judges agree on the same answers.

    Parameters
    ----------
    a, b
        A result of `rs.judge`, results with judgments, or human annotations: a frame with
        `query_id`, `criterion`, `value`, and `run_id` if the other side has several runs. Several
        judges, raters or repeats of one side are averaged.
    thresholds
        Criterion -> its lowest good value. By default .8 of its scale (4 of 0 to 5), and half of
        the verdicts where judges say yes or no.
    cluster
        The column of `golden.queries` whose equal values make queries depend on each other, if a
        side comes from `rs.judge`. Answers to one query are always one cluster.

    Raises
    ------
    DataError
        No response and criterion with values of both sides; annotations with missing columns, or
        with values outside the criterion's range; thresholds that aren't numbers of criteria; an
        unknown `cluster`.

    Warns
    -----
    UserWarning
        A criterion has a disagreement above 20 %.
    """
    both = values_of(a, b).merge(values_of(b, a), on=_CELL, how="outer", suffixes=("", "_b"))
    both = both.rename(columns={"value": "a", "value_b": "b"})
    pairs = both.dropna(subset=["a", "b"]).reset_index(drop=True)
    if not len(pairs):
        raise DataError(
            "no response that both judged by the same criterion",
            field="a, b",
            allowed="two judgings of the same runs",
        )
    for name, given in (thresholds or {}).items():
        check_choice(name, CRITERIA, "thresholds")
        check_type(given, (int, float), f"thresholds[{name!r}]", "its lowest good value, such as 3")
    judged = set(pairs["criterion"])
    least = {name: _good_from(TABLE[name]) for name in CRITERIA} | dict(thresholds or {})
    golden = next((one.golden for one in (a, b) if isinstance(one, Judged) and one.golden), None)
    rows = [
        _agreement(name, both[both["criterion"] == name], float(least[name]), golden, cluster)
        for name in CRITERIA
        if name in judged
    ]
    table = pd.DataFrame(rows, columns=_COLUMNS).astype({"criterion": "str"})
    rates = [
        f"{name} {share:.0%}"
        for name, share in zip(table["criterion"], table["disagreement"], strict=True)
        if share > WARN_FROM
    ]
    if rates:
        warn(f"judges disagree about more than {WARN_FROM:.0%} of the answers: {', '.join(rates)}")
    return JudgeAgreement(table, pairs)


def _agreement(
    criterion: str,
    both: pd.DataFrame,
    least: float,
    golden: Golden | None,
    cluster: str | None,
) -> list[Any]:
    """Return the row of one criterion, in the order of `_COLUMNS`."""
    pairs = both.dropna(subset=["a", "b"])
    groups = clusters_of(pairs["query_id"], golden, cluster)
    a, b, n = pairs["a"], pairs["b"], len(pairs)
    metric = TABLE[criterion]
    is_far = (a - b).abs() > FAR * metric.width + 1e-9
    a_good, b_good = a >= least, b >= least
    is_flip = a_good != b_good
    disagrees = (is_far | is_flip).to_numpy("float64")
    low, high = mean_interval(disagrees, "binary", groups=groups)
    is_points = metric.width >= POINTS_FROM
    scale = "ordinal" if is_points else "nominal" if metric.kind == "binary" else "interval"
    coefficients = [
        cohen_kappa(a_good, b_good, groups=groups),
        weighted_kappa(a, b, groups=groups),
        krippendorff_alpha(pairs[["a", "b"]].to_numpy(), scale, groups=groups),
    ]
    rates = [float(one.mean()) for one in (is_far, is_flip, disagrees)]
    return [
        criterion,
        n,
        coefficients[0].n_groups,
        int(both["b"].isna().sum()),
        int(both["a"].isna().sum()),
        least,
        *rates,
        float(low[0]),
        float(high[0]),
        float((b - a).mean()),
        *(number for one in coefficients for number in (one.value, one.low, one.high)),
    ]


def spot_check(
    judged: Judged,
    endpoint: Endpoint | str,
    *,
    judges: str | Judge | Iterable[str | Judge] | None = None,
    n: int = 20,
    seed: int = 0,
    **options: Any,
) -> JudgeAgreement:
    """Judge a random sample of judged answers again by a second judge and measure the agreement.

    Parameters
    ----------
    endpoint, options
        As for `rs.judge`. The second judge must differ from the first in model, prompt, temperature
        or seed, because the cache would repeat the same replies.
    judges
        By default the same as before.
    n, seed
        Number of responses, and seed of the sample. If fewer are judged, all of them are taken.

    Raises
    ------
    DataError
        n below 1, nothing judged by these criteria, or the same judge again; loaded judgments
        without `golden` and `judges`.

    Examples
    --------
    >>> judged.spot_check("gpt-5.1", n=20).table
    """
    results, golden = judged.results, judged.golden
    if golden is None or not (judges or judged.judges):
        raise DataError(
            "judgments without the golden set or the judges that made them",
            field="judged",
            allowed="a result of rs.judge, or Judged(results, golden=golden) and judges=",
        )
    judges = find_judges(judges or judged.judges)
    criteria = [judge.criterion for judge in judges]
    if not isinstance(endpoint, Endpoint):
        endpoint = Endpoint(endpoint)
    if n < 1:
        raise DataError(f"found {n}", field="n", allowed="at least 1")
    _refuse_same_judge(results, judges, endpoint)
    values = values_of(results, results)
    cells = values.loc[values["criterion"].isin(criteria), ["run_id", "query_id"]]
    cells = cells.drop_duplicates()
    if not len(cells):
        raise DataError(
            f"nothing judged by {', '.join(criteria)}",
            field="judges",
            allowed="criteria that the results were judged by",
        )
    sample = cells.iloc[np.sort(np.random.default_rng(seed).permutation(len(cells))[:n])]

    def sampled(frame: pd.DataFrame) -> pd.DataFrame:
        keys = frame[["run_id", "query_id"]].astype("str")
        return frame[pd.MultiIndex.from_frame(keys).isin(pd.MultiIndex.from_frame(sample))]

    assert results.judgments is not None
    first = results.judgments[results.judgments["criterion"].isin(criteria)]
    part = replace(results, responses=sampled(results.responses), judgments=sampled(first))
    second = judge(replace(part, judgments=None), golden, judges, endpoint, **options)
    return agreement(part, second)


def _refuse_same_judge(results: Results, judges: list[Judge], endpoint: Endpoint) -> None:
    if results.judgments is None:
        return
    columns = ["criterion", "judge", "prompt_hash", "temperature", "x_seed"]
    rows = results.judgments.reindex(columns=columns).astype(object)
    known = set(rows.where(rows.notna(), None).itertuples(index=False, name=None))
    model, temperature, seed = endpoint.model, endpoint.temperature, endpoint.seed
    for second in judges:
        if (second.criterion, model, second.prompt_hash, temperature, seed) in known:
            raise DataError(
                f"{model} judged {second.criterion} so already",
                field="endpoint",
                allowed="another model, prompt, temperature or seed",
            )


def values_of(judged: JudgedValues, other: JudgedValues) -> pd.DataFrame:
    """Return one value per response and criterion: run_id, query_id, criterion, value.

    `other` names the run of human annotations without a run_id.
    """
    if isinstance(judged, pd.DataFrame):
        return _annotated_values(judged, other)
    results = judged.results if isinstance(judged, Judged) else judged
    responses = results.responses
    rows = response_rows(results)  # one per response, in their order
    wide = responses[["query_id"]].assign(
        run_id=responses["run_id"].astype("str"),
        **{name: measured(rows, name) for name in CRITERIA},
    )
    return (
        wide.melt(["run_id", "query_id"], list(CRITERIA), var_name="criterion")
        .dropna(subset=["value"])
        .astype({"criterion": "str"})
        .reset_index(drop=True)
    )


def _annotated_values(labels: pd.DataFrame, other: JudgedValues) -> pd.DataFrame:
    if missing := [name for name in ("query_id", "criterion", "value") if name not in labels]:
        raise DataError(
            f"columns {missing} are missing",
            field="labels",
            allowed="query_id, criterion, value and, with several runs, run_id",
        )
    if "run_id" not in labels:
        results = other.results if isinstance(other, Judged) else other
        runs = results.runs["run_id"].astype("str").tolist() if isinstance(results, Results) else []
        if len(runs) != 1:
            raise DataError(
                "labels without a run_id",
                field="labels",
                allowed=f"a run_id for each: {', '.join(runs) or 'labels on both sides'}",
            )
        labels = labels.assign(run_id=runs[0])
    rows = (
        labels[[*_CELL, "value"]]
        .astype(dict.fromkeys(_CELL, "str") | {"value": "float64"})
        .dropna()
    )
    for criterion in rows["criterion"].unique():
        check_choice(criterion, CRITERIA, "labels.criterion")
        low, high = TABLE[criterion].bounds
        values = rows.loc[rows["criterion"] == criterion, "value"]
        if not values.between(low, high).all():
            raise DataError(
                f"found {values.min():g} to {values.max():g} for {criterion}",
                field="labels.value",
                allowed=f"{low:g} to {high:g}",
            )
    return rows.groupby(_CELL, sort=False)["value"].mean().reset_index()


def clusters_of(
    query_ids: pd.Series, golden: Golden | None = None, cluster: str | None = "group"
) -> Groups | None:
    """Return a cluster number per row, -1 for rows that stand alone; None if all of them do.

    Rows of one query are one cluster, and so are those of queries that share a value of the golden
    set's column `cluster`.
    """
    codes = pd.factorize(query_ids)[0].astype(np.int64)
    shared = query_clusters(golden, pd.Index(query_ids), cluster)
    if shared is not None:
        codes = np.where(shared < 0, codes, len(codes) + shared)
    return shared_only(codes)


def n_clusters(n: int, groups: Groups | None) -> int:
    """Return the number of clusters of n values; a value of no cluster (-1) is one."""
    return n if groups is None else len(np.unique(groups[groups >= 0])) + int((groups < 0).sum())


def _good_from(metric: Metric) -> float:
    """Return the lowest good value of a criterion; half of verdicts of yes and no."""
    share = 0.5 if metric.kind == "binary" else GOOD_FROM
    return round(metric.bounds[0] + share * metric.width, 9)


takes(judge)(spot_check)
