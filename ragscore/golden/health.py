"""Health of a golden set: its power to tell runs apart, and its gaps.

In: scores of some runs, the golden set and their results. Out: a `GoldenHealth`, frames with a
summary: queries that don't discriminate, targets never returned, and the number of queries needed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.decisions import rows_with_queries
from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, Golden, Results, categorical, check_type, narrowed
from ragscore.frames.errors import check_known
from ragscore.scoring.intervals import query_clusters, shared_only
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import TABLE, Metric, MetricTable
from ragscore.scoring.rows import Rows
from ragscore.scoring.summary import metric_columns
from ragscore.scoring.targets import targets_at
from ragscore.stats import minimum_detectable, queries_needed
from ragscore.stats.moments import sample

Integers = npt.NDArray[np.int64]

DISCRIMINATES = ("all pass", "all fail", "all alike", "tells apart", "one run", "not measured")
DIFFERENCES = (0.02, 0.05, 0.1)
_ID_OF_LEVEL = {"doc": "doc_id", "chunk": "chunk_id", "source_key": "source_key"}


@dataclass(frozen=True, repr=False)
class GoldenHealth(FramesResult):
    """Power and gaps of a golden set, judged by the runs that were scored with it.

    Attributes
    ----------
    summary
        One row per `finding`: `n` of `n_total` (queries or targets), `share`, and where to
        look (`frame`).
    queries
        One row per query (query_id): `n_runs` with a value of the metric; its `mean`, `min`,
        `max` over them; `discriminates`, a category: all pass (1 in every run), all fail (0), all
        alike (another value), tells apart, one run (only one has a value), not measured.
    targets
        One row per target (grade ≥ 1, at the match level) that no run returned: query_id, `level`,
        `target_id`, `grade`, `n_runs` that were asked; `seen_elsewhere`, true if its id is in
        another query's hits or the chunk catalogue. If false, it may be missing from the index
        (NA: the level has no id).
    needed
        One row per pair of runs (`run_baseline`, `run_candidate`) and `difference`: mean `delta`
        (candidate − baseline) and `sd` of the paired differences over `n` queries; `design_effect`
        of their paraphrase groups, at least 1; `mde`, the minimum detectable difference at 80 %
        power (infinite or NaN: none at this n); `n_needed` queries to find `difference` at 80 %
        power and 5 % error (`rs.stats.queries_needed`), times the design effect; `n_more`, the
        queries to add. NaN and NA if no query differed.
    """

    metric: str
    summary: pd.DataFrame
    queries: pd.DataFrame
    targets: pd.DataFrame
    needed: pd.DataFrame

    def _heading(self) -> str:
        return f"Golden-set health by {self.metric}"


def health(
    golden: Golden, ev: Any, metric: str = "passed", *, differences: tuple[float, ...] = DIFFERENCES
) -> GoldenHealth:
    """Measure how well the golden set tells runs apart, and find its gaps.

    The more different runs there are, the more it tells; a single run can't show which queries
    discriminate.

    Parameters
    ----------
    ev
        What `rs.evaluate` returned of runs and this golden set.
    metric
        A metric from 0 to 1, higher being better.
    differences
        Differences of the metric's mean that should be detectable.

    Returns
    -------
    `GoldenHealth`: frames `summary`, `queries`, `targets` and `needed`; its docstring has their
    columns.

    Raises
    ------
    DataError
        An unknown metric, or one that doesn't range from 0 (bad) to 1 (good); a difference that
        isn't above 0.

    Examples
    --------
    >>> ev.golden.health(ev, "hit@5").queries.query("discriminates == 'all fail'")
    """
    name = ev._named(metric)
    scores, _ = ev._scored(name)
    return golden_health(
        scores, golden, ev.results, name, differences=differences, declared=ev._declared
    )


def golden_health(
    scores: pd.DataFrame,
    golden: Golden,
    results: Results | None = None,
    metric: str = "passed",
    *,
    differences: tuple[float, ...] = DIFFERENCES,
    declared: MetricTable = TABLE,
) -> GoldenHealth:
    """Measure how well a golden set tells runs apart; see `Golden.health`.

    Without results, `targets` is empty.
    """
    check_type(results, (Results, type(None)), "results", "Results, as rs.load_results gives it")
    if not all(difference > 0 for difference in differences):
        raise DataError(f"found {differences}", field="differences", allowed="differences above 0")
    rows = rows_with_queries(scores, golden, metrics=())
    described = declared.describe(metric)
    values = _matrix(rows, golden, metric, described)
    queries = _queries(values)
    targets, n_targets = _unreturned(results, golden) if results is not None else (_NO_TARGETS, 0)
    # sums, and the numbers of groups, in the order of ids: that of the rows doesn't matter
    ordered = narrowed(golden, queries=golden.queries.sort_values("query_id"))
    return GoldenHealth(
        metric=metric,
        summary=_summary(golden, queries, targets, n_targets),
        queries=queries,
        targets=targets,
        needed=_needed(values.sort_index(), ordered, described, differences),
    )


def _matrix(rows: pd.DataFrame, golden: Golden, metric: str, described: Metric) -> pd.DataFrame:
    """Return the metric with one row per golden query and one column per run."""
    check_known(metric, metric_columns(rows), "metric", "column", "scores has")
    if described.better == "lower" or not rows[metric].dropna().between(0, 1).all():
        raise DataError(
            f"{metric} doesn't range from 0 to 1, or lower is better",
            field="metric",
            allowed="a metric from 0 (bad) to 1 (good), such as passed",
        )
    table = rows.pivot(index="query_id", columns="run_id", values=metric)
    table = table.reindex(golden.queries["query_id"]).astype("float64")
    return table.rename_axis(index="query_id", columns="run_id")


def _queries(values: pd.DataFrame) -> pd.DataFrame:
    n, low, high = values.count(axis=1), values.min(axis=1), values.max(axis=1)
    tests = {
        "not measured": n == 0,
        "one run": n == 1,
        "all pass": low == 1,
        "all fail": high == 0,
        "all alike": low == high,
    }
    word = np.select(list(tests.values()), list(tests), "tells apart")
    columns = {
        "n_runs": n,
        "mean": values.sort_index(axis=1).mean(axis=1),  # of runs in one order
        "min": low,
        "max": high,
        "discriminates": categorical(
            pd.Index(DISCRIMINATES).get_indexer(pd.Index(word)), DISCRIMINATES
        ),
    }
    return pd.DataFrame(columns, index=values.index).reset_index()


def _unreturned(results: Results, golden: Golden) -> tuple[pd.DataFrame, int]:
    """Return targets that no run returned, and the number of targets of all asked queries."""
    level, keys = Level.of(results, golden), ["query_id", "target_id"]
    asked = results.responses["query_id"].value_counts()
    parts, n_targets = [_NO_TARGETS], 0
    for name in level.joinable if level.name == "per_query" else (level.name,):
        rows = targets_at(golden, name).targets
        rows = rows[(rows["grade"] > 0) & rows["query_id"].isin(asked.index)]
        rows = rows.assign(
            n_runs=rows["query_id"].map(asked), seen_elsewhere=_seen(rows, name, results)
        )
        # a target may have alternatives, one row each: it was seen if any of them was
        columns = {"level": "first", "grade": "max", "n_runs": "first", "seen_elsewhere": "max"}
        targets = rows.groupby(keys, sort=False).agg(columns).reset_index()
        _, found = Rows(results, golden, Level(name, "", (name,))).relevant_targets()
        returned = pd.MultiIndex.from_frame(found[keys].astype("str"))
        is_found = pd.MultiIndex.from_frame(targets[keys].astype("str")).isin(returned)
        parts.append(targets.loc[~is_found, list(_NO_TARGETS)])
        n_targets += len(targets)
    table = pd.concat(parts).astype(_NO_TARGETS.dtypes.to_dict())
    place = {name: place for place, name in enumerate(golden.queries["query_id"])}
    order = table["query_id"].map(place).argsort(kind="stable")
    return table.iloc[order].reset_index(drop=True), n_targets


def _seen(targets: pd.DataFrame, level: str, results: Results) -> pd.Series:
    """Flag targets whose id is in any hit or catalogued chunk; NA for levels without ids."""
    column = _ID_OF_LEVEL.get(level, "")
    if column not in targets:
        return pd.Series(pd.NA, index=targets.index, dtype="boolean")
    frames = [one for one in (results.hits, results.chunks) if one is not None and column in one]
    seen = pd.Series(False, index=targets.index)
    for frame in frames:
        seen |= targets[column].isin(frame[column].dropna().unique())
    return seen.astype("boolean").mask(targets[column].isna())


def _groups(golden: Golden) -> Integers:
    """Return one number per paraphrase group; a query without a group is alone."""
    codes = query_clusters(golden, pd.Index(golden.queries["query_id"]), "group")
    if codes is None:
        return np.arange(len(golden.queries))
    return np.where(codes < 0, codes.max(initial=-1) + np.cumsum(codes < 0), codes)


def _needed(
    values: pd.DataFrame, golden: Golden, metric: Metric, differences: tuple[float, ...]
) -> pd.DataFrame:
    """Return the power of each pair of runs: differences they can show, queries needed.

    Queries of one paraphrase group count as far as they differ.
    """
    first, second = np.triu_indices(values.shape[1], 1)
    change = values.to_numpy()[:, second] - values.to_numpy()[:, first]
    of = sample(change, shared_only(_groups(golden)))
    mean, std, effect = of.mean, of.std, np.fmax(of.design_effect, 1.0)
    detectable = minimum_detectable(of.jackknifed, of.alike)
    difference = np.asarray(differences, dtype=np.float64)[None, :]
    spread, least = std[:, None], np.zeros((len(std), 1))
    if metric.kind == "binary":  # the share of queries that change stays, and 6 must change
        # of 5, all one way, p is .0625
        share = np.maximum(std**2 * (1 - 1 / np.fmax(of.n, 1)) + mean**2, 1e-12)[:, None]
        spread, least = np.sqrt(np.maximum(share - difference**2, 1e-12)), np.ceil(6 / share)
    n_needed = np.fmax(np.ceil(queries_needed(difference, spread) * effect[:, None]), least)
    n_needed = np.where(std[:, None] > 0, n_needed, np.nan)
    pairs = pd.DataFrame({
        "run_baseline": values.columns[first], "run_candidate": values.columns[second],
        "n": of.n.astype("int64"),
        "delta": mean, "sd": std, "design_effect": effect, "mde": detectable,
    })  # fmt: skip
    table = pairs.loc[pairs.index.repeat(difference.shape[1])].reset_index(drop=True)
    needed = pd.Series(n_needed.ravel()).astype("Int64")
    return table.assign(
        difference=np.tile(difference[0], len(pairs)),
        n_needed=needed,
        n_more=(needed - table["n"]).clip(lower=0),
    )


def _summary(
    golden: Golden, queries: pd.DataFrame, targets: pd.DataFrame, n_targets: int
) -> pd.DataFrame:
    n_of, n = queries["discriminates"].value_counts(), len(queries)
    alike = n_of["all pass"] + n_of["all fail"] + n_of["all alike"]
    n_compared = int((queries["n_runs"] > 1).sum())
    n_unseen = targets["seen_elsewhere"].eq(False).sum()
    rows = [
        ("queries that every run passes", n_of["all pass"], n_compared, "queries"),
        ("queries that every run fails", n_of["all fail"], n_compared, "queries"),
        ("queries that tell no runs apart", alike, n_compared, "queries"),
        ("queries that fewer than two runs have a value of", n - n_compared, n, "queries"),
        ("unlabelled queries", golden.queries["answerable"].isna().sum(), n, ""),
        ("targets that no run returned", len(targets), n_targets, "targets"),
        ("targets whose id is in no hit and no catalogue", n_unseen, n_targets, "targets"),
    ]
    table = pd.DataFrame(rows, columns=["finding", "n", "n_total", "frame"])
    table = table.astype({"n": "int64", "n_total": "int64"})
    table.insert(3, "share", table["n"] / table["n_total"].where(table["n_total"] > 0))
    return table


_NO_TARGETS = pd.DataFrame({
    "query_id": pd.Series([], dtype="str"), "level": pd.Series([], dtype="str"),
    "target_id": pd.Series([], dtype="str"), "grade": pd.Series([], dtype="int32"),
    "n_runs": pd.Series([], dtype="int64"), "seen_elsewhere": pd.Series([], dtype="boolean"),
})  # fmt: skip
