"""How far two judges agree about the same answers: models, prompts, repeats, or a judge and people.

In: two judgings of the same responses, or one and people's labels. Out: disagreement and
coefficients of agreement by criterion, with their intervals.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, records_of
from ragscore.frames.errors import warn
from ragscore.io.output import write_json
from ragscore.judging.endpoint import Endpoint
from ragscore.judging.judges import Judge, find_judges
from ragscore.judging.run import Judged, judge
from ragscore.scoring.judgments import CRITERIA, score_judgments
from ragscore.scoring.matching import response_of
from ragscore.scoring.metrics import BY_NAME
from ragscore.stats import (
    Agreement,
    cohen_kappa,
    krippendorff_alpha,
    weighted_kappa,
    wilson_interval,
)

# of a scale's width: two values further apart are far apart, as more than 1 of 5 points are
FAR = 0.2
WARN_FROM = 0.2  # disagreement above this is warned of
# upper end of a scale -> from where on an answer counts as good; else from the middle
RIGHT_FROM = {5.0: 4.0}
RELIABILITY_FILE = "judge_reliability.json"
_CELL = ["run_id", "query_id", "criterion"]
Judging = Judged | Results | pd.DataFrame


@dataclass(frozen=True)
class Reliability:
    """How far two judgings of the same answers agree.

    Attributes
    ----------
    table
        One row per criterion: `n` responses that both judged, `n_only_a`, `n_only_b`; `far` (share
        of them whose values are more than a fifth of the scale apart), `flip` (share of which only
        one says that they are good), `disagreement` (either of them) with its 95 % interval `low`,
        `high`, all 0 to 1; `bias` (mean of b - a); and each with interval `_low`, `_high`: `kappa`
        (Cohen's, of good or not), `weighted_kappa` (quadratic weights) and `alpha` (Krippendorff's:
        ordinal for points, nominal for yes or no, else interval).
    pairs
        One row per response and criterion that both judged: run_id, query_id, criterion, `a`, `b`.
    """

    table: pd.DataFrame
    pairs: pd.DataFrame

    def __repr__(self) -> str:
        rows = [
            f"{row.criterion} {row.disagreement:.0%} of {row.n}"
            for row in self.table.itertuples(index=False)
        ]
        return f"Reliability: disagreement {', '.join(rows)}"

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>" + self.table._repr_html_()  # type: ignore[operator]

    def to_json(self) -> str:
        """Both frames as JSON, NaN as null."""
        return json.dumps(
            {"table": records_of(self.table), "pairs": records_of(self.pairs)},
            ensure_ascii=False,
            allow_nan=False,
        )

    def write(self, folder: str | Path) -> Path:
        """Keep it with a run: `judge_reliability.json` in the run's folder."""
        return write_json(Path(folder) / RELIABILITY_FILE, json.loads(self.to_json()))

    @classmethod
    def read(cls, folder: str | Path) -> "Reliability":
        """What `write` kept."""
        content = json.loads((Path(folder) / RELIABILITY_FILE).read_text(encoding="utf-8"))
        texts = dict.fromkeys(_CELL, "str")
        table = pd.DataFrame(content["table"], columns=_COLUMNS).astype(
            dict.fromkeys(_COLUMNS[4:], "float64") | {"criterion": "str"}
        )
        return cls(
            table,
            pd.DataFrame(content["pairs"], columns=[*_CELL, "a", "b"]).astype(
                texts | {"a": "float64", "b": "float64"}
            ),
        )


_COEFFICIENTS = ("kappa", "weighted_kappa", "alpha")
_COLUMNS = [
    "criterion", "n", "n_only_a", "n_only_b", "far", "flip", "disagreement", "low", "high", "bias",
    *(f"{name}{end}" for name in _COEFFICIENTS for end in ("", "_low", "_high")),
]  # fmt: skip


def judge_reliability(a: Judging, b: Judging, *, seed: int = 0) -> Reliability:
    """How far two judgings of the same answers agree.

    Parameters
    ----------
    a, b
        What `rs.judge` gave, results with judgments, or people's labels: a frame with `query_id`,
        `criterion`, `value`, and `run_id` if the other side has several runs. Several judges,
        raters or repeats of one side are averaged.
    seed
        Of the resamples behind the intervals.

    Raises
    ------
    DataError
        No response and criterion that both judged; labels without their columns, or outside the
        criterion's range.

    Warns
    -----
    UserWarning
        A criterion with a disagreement above 20 %.
    """
    first, second = values_of(a, b), values_of(b, a)
    both = first.merge(second, on=_CELL, how="outer", suffixes=("", "_b")).rename(
        columns={"value": "a", "value_b": "b"}
    )
    criteria = [name for name in CRITERIA if (both["criterion"] == name).any()]
    rows = [_row(name, both[both["criterion"] == name], seed) for name in criteria]
    pairs = both.dropna(subset=["a", "b"]).reset_index(drop=True)
    if not len(pairs):
        raise DataError(
            "no response that both judged by the same criterion",
            field="a, b",
            allowed="two judgings of the same runs",
        )
    found = Reliability(
        pd.DataFrame(rows, columns=_COLUMNS)
        .astype({"criterion": "str"})
        .query("n > 0")
        .reset_index(drop=True),
        pairs,
    )
    high = found.table[found.table["disagreement"] > WARN_FROM]
    if named := [
        f"{name} {share:.0%}"
        for name, share in zip(high["criterion"], high["disagreement"], strict=True)
    ]:
        warn(f"judges disagree about more than {WARN_FROM:.0%} of the answers: {', '.join(named)}")
    return found


def spot_check(
    judged: Judged | Results,
    golden: Golden,
    judges: str | Judge | Iterable[str | Judge],
    endpoint: Endpoint | str,
    *,
    n: int = 20,
    seed: int = 0,
    **options: Any,
) -> Reliability:
    """Judge a random choice of judged answers once more, by a second model or another prompt, and say how far the two agree.

    Parameters
    ----------
    judged
        What `rs.judge` gave.
    judges, endpoint, options
        As for `rs.judge`. They must differ from the first judge in model, prompt, temperature or
        seed: the cache knows the rest by heart.
    n, seed
        How many responses, and which choice of them; fewer are all of them.

    Raises
    ------
    DataError
        n below 1, nothing judged by these criteria, or the same judge again.
    """
    results = judged.results if isinstance(judged, Judged) else judged
    wanted, asked = (
        find_judges(judges),
        endpoint if isinstance(endpoint, Endpoint) else Endpoint(endpoint),
    )
    if n < 1:
        raise DataError(f"found {n}", field="n", allowed="at least 1")
    _refuse_the_same(results, wanted, asked)
    values = values_of(results, results)
    cells = values[values["criterion"].isin([one.criterion for one in wanted])][
        ["run_id", "query_id"]
    ].drop_duplicates()
    if not len(cells):
        raise DataError(
            f"nothing judged by {', '.join(one.criterion for one in wanted)}",
            field="judges",
            allowed="criteria that the results were judged by",
        )
    chosen = cells.iloc[np.sort(np.random.default_rng(seed).permutation(len(cells))[:n])]
    part = _only(results, chosen)
    again = judge(replace(part, judgments=None), golden, wanted, asked, **options)
    return judge_reliability(_by_criteria(part, wanted), again, seed=seed)


def values_of(one: Judging, other: Judging) -> pd.DataFrame:
    """One value per response and criterion: run_id, query_id, criterion, value."""
    if isinstance(one, pd.DataFrame):
        return _labels(one, other)
    results = one.results if isinstance(one, Judged) else one
    rows = results.judgments if results.judgments is not None else results.responses.iloc[:0]
    columns = score_judgments(results, response_of(rows, results.responses), len(results.responses))
    wide = pd.DataFrame(
        {
            "run_id": results.responses["run_id"].astype("str"),
            "query_id": results.responses["query_id"],
            **{name: columns[name] for name in CRITERIA},
        }
    )
    return (
        wide.melt(["run_id", "query_id"], list(CRITERIA), var_name="criterion")
        .dropna(subset=["value"])
        .astype({"criterion": "str"})
        .reset_index(drop=True)
    )


def width_of(criterion: str) -> tuple[float, float]:
    """The ends of a criterion's scale."""
    low, _, high = BY_NAME[criterion].range.partition(" to ")
    return float(low), float(high)


def is_good(criterion: str, values: pd.Series) -> pd.Series:
    """Whether values say that an answer is good: 4 points of 5, or the upper half of a scale."""
    low, high = width_of(criterion)
    return values >= RIGHT_FROM.get(high, (low + high) / 2)


def _labels(labels: pd.DataFrame, other: Judging) -> pd.DataFrame:
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
        if criterion not in CRITERIA:
            raise DataError(
                f"found {criterion!r}",
                field="labels.criterion",
                allowed=f"one of {', '.join(CRITERIA)}",
            )
        low, high = width_of(criterion)
        values = rows.loc[rows["criterion"] == criterion, "value"]
        if not values.between(low, high).all():
            raise DataError(
                f"found {values.min():g} to {values.max():g} for {criterion}",
                field="labels.value",
                allowed=f"{low:g} to {high:g}",
            )
    return rows.groupby(_CELL, sort=False)["value"].mean().reset_index()


def _row(criterion: str, both: pd.DataFrame, seed: int) -> list[Any]:
    paired = both.dropna(subset=["a", "b"])
    n = len(paired)
    only = [int((both[name].isna()).sum()) for name in ("b", "a")]
    if not n:
        return [criterion, 0, *only, *[np.nan] * (len(_COLUMNS) - 4)]
    low_end, high_end = width_of(criterion)
    apart = (paired["a"] - paired["b"]).abs() > FAR * (high_end - low_end) + 1e-9
    good = [is_good(criterion, paired[name]) for name in ("a", "b")]
    flips = good[0] != good[1]
    either = float((apart | flips).mean())
    low, high = wilson_interval(np.array([either]), np.array([float(n)]))
    scale = (
        "ordinal"
        if high_end == 5
        else "nominal"
        if BY_NAME[criterion].kind == "binary"
        else "interval"
    )
    found = [
        cohen_kappa(good[0], good[1], seed=seed),
        weighted_kappa(paired["a"], paired["b"], seed=seed),
        krippendorff_alpha(paired[["a", "b"]].to_numpy(), scale, seed=seed),
    ]
    coefficients = [number for one in found for number in _numbers(one)]
    bias = float((paired["b"] - paired["a"]).mean())
    return [
        criterion,
        n,
        *only,
        float(apart.mean()),
        float(flips.mean()),
        either,
        float(low[0]),
        float(high[0]),
        bias,
        *coefficients,
    ]


def _numbers(one: Agreement) -> list[float]:
    return [one.value, one.low, one.high]


def _only(results: Results, cells: pd.DataFrame) -> Results:
    """The results with only these responses and their judgments."""
    wanted = set(zip(cells["run_id"], cells["query_id"], strict=True))

    def kept(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[
            [
                cell in wanted
                for cell in zip(frame["run_id"].astype("str"), frame["query_id"], strict=True)
            ]
        ]

    judgments = None if results.judgments is None else kept(results.judgments)
    return replace(results, responses=kept(results.responses), judgments=judgments)


def _by_criteria(results: Results, judges: list[Judge]) -> Results:
    assert results.judgments is not None
    return replace(
        results,
        judgments=results.judgments[
            results.judgments["criterion"].isin([one.criterion for one in judges])
        ],
    )


def _refuse_the_same(results: Results, judges: list[Judge], endpoint: Endpoint) -> None:
    judgments = results.judgments
    if judgments is None:
        return
    wanted = ["criterion", "judge", "prompt_hash", "temperature", "x_seed"]
    known = {
        tuple(row)
        for row in (
            judgments.reindex(columns=wanted)
            .astype(object)
            .where(lambda frame: frame.notna(), None)
            .itertuples(index=False)
        )
    }
    for one in judges:
        if (
            one.criterion,
            endpoint.model,
            one.prompt_hash,
            endpoint.temperature,
            endpoint.seed,
        ) in known:
            raise DataError(
                f"{endpoint.model} judged {one.criterion} so already",
                field="endpoint",
                allowed="another model, prompt, temperature or seed",
            )
