"""Agreement of two sides on the same things: models, prompts, repeats, people, labellings.

In: two sets of values for the same answers, or two sets of grades for the same hits. Out: one row
per criterion, with the rate of disagreement and coefficients of agreement, and their intervals.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.changes import GOOD_FROM
from ragscore.frames.codes import has_pair
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import check_choice, check_whole, name_list, warn
from ragscore.frames.typing import Codes
from ragscore.frames.verbs import takes
from ragscore.judging.endpoint import Endpoint
from ragscore.judging.judges import Judge, find_judges
from ragscore.judging.relevance import CRITERION, IDS, relevance_grades
from ragscore.judging.run import Judged, judge
from ragscore.scoring.intervals import query_clusters, shared_only
from ragscore.scoring.metrics import CRITERIA, TABLE
from ragscore.scoring.rows import Rows
from ragscore.stats import cohen_kappa, krippendorff_alpha, mean_interval, weighted_kappa

POINTS_FROM = 3.0  # width from which a scale is one of points
FAR = 0.2  # of a scale's width: values further apart disagree, such as 2 of 5 points
WARN_FROM = 0.2  # a higher rate of disagreement gives a warning
Side = Judged | Results | Golden | pd.DataFrame
_CELL = ["run_id", "query_id", "criterion", "item"]
_COEFFICIENTS = ("kappa", "weighted_kappa", "alpha")
_COLUMNS = [
    "criterion", "n", "n_clusters", "n_only_a", "n_only_b", "good_from", "far", "flip",
    "disagreement", "low", "high", "bias",
    *(f"{name}{end}" for name in _COEFFICIENTS for end in ("", "_low", "_high")),
]  # fmt: skip


def agreement(
    a: Side,
    b: Side,
    *,
    thresholds: Mapping[str, float] | None = None,
    cluster: str | None = "group",
) -> pd.DataFrame:
    """Measure how well two sides agree on the same answers, or on the same hits.

    Parameters
    ----------
    a, b
        What each side says. Of answers: a result of `rs.judge`, results with judgments, or people's
        values as a frame with `query_id`, `criterion`, `value`, and `run_id` if the other side has
        several runs. Of hits: a golden set, a frame with `query_id`, `doc_id` or `chunk_id`, and
        `grade`, or what the judge "relevance" gave. Several values of one side are averaged.
    thresholds
        Criterion -> its lowest good value. By default .8 of its scale (4 of 0 to 5), half of the
        verdicts where judges say yes or no, and grade 1 for labels (criterion "relevance").
    cluster
        The column of `golden.queries` whose equal values make queries depend on each other, if a
        side knows the golden set. Values of one query are always one cluster.

    Returns
    -------
    One row per `criterion`. Counts: `n` answers or hits with values of both sides, in `n_clusters`;
    `n_only_a`, `n_only_b`. Rates among the n, 0 to 1, lower is better: `far`, values more than a
    fifth of the scale apart; `flip`, only one side calls it good (from `good_from` on);
    `disagreement`, either of them, with its 95 % interval `low`, `high`. `bias` is the mean of
    b - a. Coefficients, at most 1, each with a 95 % interval `_low`, `_high`: `kappa` (Cohen's,
    good or not), `weighted_kappa` (quadratic weights) and `alpha` (Krippendorff's: ordinal for
    points and grades, nominal for yes or no, else interval). Intervals take clusters as
    independent; NaN where there is a single one.

    Raises
    ------
    DataError
        Nothing that both sides valued; a frame with missing columns, or with values outside the
        criterion's range; thresholds of other criteria; an unknown `cluster`.

    Warns
    -----
    UserWarning
        A criterion has a disagreement above 20 %.

    Examples
    --------
    >>> rs.judging.agreement(judged, people)[["criterion", "n", "disagreement", "kappa"]]
    """
    is_labels = any(
        isinstance(one, Golden) or (isinstance(one, pd.DataFrame) and "grade" in one)
        for one in (a, b)
    )
    first, second = (
        grades_of(one) if is_labels else values_of(one, other) for one, other in ((a, b), (b, a))
    )
    both = first.merge(second, on=_CELL, how="outer", suffixes=("_a", "_b"))
    judged = set(both.dropna(subset=["value_a", "value_b"])["criterion"])
    if not judged:
        raise DataError(
            "nothing that both sides valued",
            field="a, b",
            allowed="values of the same answers by the same criterion, or grades of the same hits",
        )
    for name in thresholds or ():
        check_choice(name, (*CRITERIA, CRITERION), "thresholds")
    shares = {name: 0.5 if TABLE[name].kind == "binary" else GOOD_FROM for name in CRITERIA}
    least = {
        CRITERION: 1.0,
        **{name: TABLE[name].bounds[0] + one * TABLE[name].width for name, one in shares.items()},
        **(thresholds or {}),
    }
    known = [one if isinstance(one, Golden) else getattr(one, "golden", None) for one in (a, b)]
    golden = next((one for one in known if one is not None), None)
    table = pd.DataFrame(
        [
            _row(name, both[both["criterion"] == name], round(least[name], 9), golden, cluster)
            for name in (*CRITERIA, CRITERION)
            if name in judged
        ],
        columns=_COLUMNS,
    ).astype({"criterion": "str"})
    high = table[table["disagreement"] > WARN_FROM]
    if len(high):
        shown = ", ".join(high["criterion"] + high["disagreement"].map(" {:.0%}".format))
        warn(f"the two sides disagree about more than {WARN_FROM:.0%} of the answers: {shown}")
    return table


def _row(
    criterion: str,
    both: pd.DataFrame,
    least: float,
    golden: Golden | None,
    cluster: str | None,
) -> list[Any]:
    """Return the row of one criterion, in the order of `_COLUMNS`."""
    pairs = both.dropna(subset=["value_a", "value_b"])
    groups = clusters_of(pairs["query_id"], golden, cluster)
    a, b = pairs["value_a"], pairs["value_b"]
    is_grade = criterion == CRITERION
    width = max(a.max(), b.max()) if is_grade else TABLE[criterion].width
    is_far, is_flip = (a - b).abs() > FAR * width + 1e-9, (a >= least) != (b >= least)
    disagrees = (is_far | is_flip).to_numpy("float64")
    low, high = mean_interval(disagrees, "binary", groups=groups)
    is_binary = not is_grade and TABLE[criterion].kind == "binary"
    is_ordinal = is_grade or width >= POINTS_FROM
    scale = "ordinal" if is_ordinal else "nominal" if is_binary else "interval"
    coefficients = [
        cohen_kappa(a >= least, b >= least, groups=groups),
        weighted_kappa(a, b, groups=groups),
        krippendorff_alpha(np.column_stack([a, b]), scale, groups=groups),
    ]
    return [
        criterion, len(pairs), coefficients[0].n_groups,
        *(int(both[f"value_{side}"].isna().sum()) for side in "ba"), least,
        *(float(one.mean()) for one in (is_far, is_flip, disagrees)),
        float(low[0]), float(high[0]), float((b - a).mean()),
        *(number for one in coefficients for number in (one.value, one.low, one.high)),
    ]  # fmt: skip


def spot_check(
    judged: Judged,
    endpoint: Endpoint | str,
    *,
    judges: str | Judge | Iterable[str | Judge] | None = None,
    n: int = 20,
    seed: int = 0,
    **options: Any,
) -> pd.DataFrame:
    """Judge a random sample of judged answers again by a second judge, and return the `agreement`.

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
    >>> judged.spot_check("gpt-5.1", n=20)
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
    endpoint = endpoint if isinstance(endpoint, Endpoint) else Endpoint(endpoint)
    check_whole(n, "n")
    first = judged.judgments[judged.judgments["criterion"].isin(criteria)]
    cells = first.dropna(subset=["value"])[["run_id", "query_id"]].drop_duplicates()
    if not len(cells):
        raise DataError(
            f"nothing judged by {', '.join(criteria)}",
            field="judges",
            allowed="criteria that the results were judged by",
        )
    columns = ["criterion", "judge", "prompt_hash", "temperature", "x_seed"]
    asked = first.reindex(columns=columns).astype(object)
    earlier = set(asked.where(asked.notna(), None).itertuples(index=False, name=None))
    own = (endpoint.temperature, endpoint.seed)
    again = {(one.criterion, endpoint.model, one.prompt_hash, *own) for one in judges} & earlier
    if again:
        raise DataError(
            f"{endpoint.model} has judged {min(again)[0]} with these settings already",
            field="endpoint",
            allowed="another model, prompt, temperature or seed",
        )
    sample = cells.iloc[np.sort(np.random.default_rng(seed).permutation(len(cells))[:n])]
    answers, verdicts = (
        frame[has_pair(frame, sample, ("run_id", "query_id"))]
        for frame in (results.responses, first)
    )
    part = replace(results, responses=answers, judgments=None)
    second = judge(part, golden, judges, endpoint, **options)
    return agreement(replace(part, judgments=verdicts), second)


def values_of(side: Side, other: Side) -> pd.DataFrame:
    """Return one value per answer and criterion: run_id, query_id, criterion, item "", value.

    `other` names the run of people's values without a run_id.
    """
    if isinstance(side, pd.DataFrame):
        results = other.results if isinstance(other, Judged) else other
        runs = results.runs["run_id"].map(str) if isinstance(results, Results) else pd.Series()
        return people_values(side, runs.tolist())
    results = side.results if isinstance(side, Judged) else side
    check_type(results, Results, "a, b", "judgments, or a frame of people's values")
    assert isinstance(results, Results)
    rows = Rows.of_responses(results)  # one per response, in their order
    wide = results.responses[["query_id"]].assign(
        run_id=results.responses["run_id"].astype("str"),
        item="",
        **{name: TABLE[name].compute(rows) for name in CRITERIA},
    )
    keys = ["run_id", "query_id", "item"]
    long = wide.melt(keys, list(CRITERIA), var_name="criterion").dropna(subset=["value"])
    return long.astype({"criterion": "str", "item": "str"}).reset_index(drop=True)


def people_values(labels: pd.DataFrame, runs: list[str]) -> pd.DataFrame:
    """Return people's values in the form of judges' values, several of one answer averaged.

    `runs` may be labelled; a single one needs no run_id.
    """
    check_type(labels, pd.DataFrame, "labels", "a frame with query_id, criterion and value")
    needed = ["query_id", "criterion", "value", *(["run_id"] if len(runs) != 1 else [])]
    if missing := [name for name in needed if name not in labels]:
        raise DataError(
            f"columns {name_list(missing)} are missing",
            field="labels",
            allowed=f"query_id, criterion, value, and run_id: {', '.join(runs) or 'of each side'}",
        )
    rows = labels.assign(item="", **({} if "run_id" in labels else {"run_id": runs[0]}))
    types = dict.fromkeys(_CELL, "str") | {"value": "float64"}
    rows = rows[list(types)].astype(types).dropna()
    for criterion, part in rows.groupby("criterion"):
        check_choice(str(criterion), CRITERIA, "labels.criterion")
        low, high = TABLE[str(criterion)].bounds
        if not part["value"].between(low, high).all():
            raise DataError(
                f"found {part['value'].min():g} to {part['value'].max():g} for {criterion}",
                field="labels.value",
                allowed=f"{low:g} to {high:g}",
            )
    return rows.groupby(_CELL, sort=False)["value"].mean().reset_index()


def grades_of(side: Side) -> pd.DataFrame:
    """Return one grade per query and hit, as `values_of` does: criterion "relevance", run_id ""."""
    if isinstance(side, (Judged, Results)):
        frame = relevance_grades(side.results if isinstance(side, Judged) else side)
    else:
        frame = side.targets if isinstance(side, Golden) else side
    ids = [one for one in IDS if one in frame and frame[one].notna().any()]
    if not ids or not {"query_id", "grade"} <= set(frame):
        raise DataError(
            f"columns {name_list(frame.columns)}", field="a, b",
            allowed="query_id, grade, and doc_id or chunk_id",
        )  # fmt: skip
    rows = frame.dropna(subset=[ids[0]]).rename(columns={ids[0]: "item"})
    rows = rows.astype({"query_id": "str", "item": "str", "grade": "float64"})
    best = rows.groupby(["query_id", "item"])["grade"].max().rename("value").reset_index()
    return best.assign(run_id="", criterion=CRITERION).astype({"run_id": "str", "criterion": "str"})


def clusters_of(query_ids: pd.Series, golden: Golden | None, cluster: str | None) -> Codes | None:
    """Return a cluster number per row, -1 for independent rows; None if all are.

    Rows of one query are one cluster, and so are rows of queries that share a value of the golden
    set's column `cluster`.
    """
    codes = pd.factorize(query_ids)[0].astype(np.int64)
    shared = query_clusters(golden, pd.Index(query_ids), cluster)
    if shared is not None:
        codes = np.where(shared < 0, codes, len(codes) + shared)
    return shared_only(codes)


takes(judge)(spot_check)
