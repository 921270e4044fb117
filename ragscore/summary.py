"""Scores -> means: one row per run and metric, and by slice. The mean of a metric is the plain mean of its column."""

import numpy as np
import pandas as pd

from ragscore.frames import DataError, Golden, Results, check_type
from ragscore.intervals import Groups, cluster_of, intervals, quantile_intervals, shared_only
from ragscore.metrics import describe
from ragscore.outcomes import Ledger, chosen_columns, score_rows
from ragscore.outcomes import metric_columns as metric_columns

NO_VALUE = "(none)"  # the slice of queries without a value or a tag


STATISTICS = (
    "mean", "low", "high", "n", "n_expected", "n_failed", "n_missing", "sum", "std", "min", "p50", "p50_low", "p50_high", "p95", "p95_low", "p95_high", "max",
)  # fmt: skip
BOUNDS = ("if_all_zero", "if_all_one")


def summarize(
    scores: pd.DataFrame,
    golden: Golden | None = None,
    *,
    by: str | None = None,
    metrics: list[str] | str | None = None,
    results: Results | None = None,
    bounds: bool = False,
    cluster: str | None = "group",
) -> pd.DataFrame:
    """Means of every metric, by run and, if asked, by a column or tag of the golden set.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`.
    golden
        Needed for `by`; with it `n_expected` knows to which of the missing queries a metric would have applied.
    by
        A column of `golden.queries` (difficulty, category, ...), a kind of tag ("tag", "vault", "folder"), or "doc_type", the endings of the
        files its targets are from. A query with several of them counts in each, one without in `(none)`.
    metrics
        Only these columns; by default all that hold numbers. True and false count as 1 and 0.
    results
        What the scores were made from; with them `n_expected` also counts what was refused, not judged or not recorded
        (see `rs.explain`), and leaves out what the run records nowhere.
    bounds
        Add `if_all_zero` and `if_all_one`: the mean over `n_expected` if every value that is missing were 0, or 1. NaN for
        metrics that don't range from 0 to 1.
    cluster
        With a golden set: the column of `golden.queries` whose equal values make queries depend on each other (paraphrases,
        a source, a conversation); intervals allow for it. None: every query stands alone. Repeats of a run are no queries
        of their own: average them first (`rs.average_repeats`).

    Returns
    -------
    One row per run, slice and metric: `mean`; `low`, `high`, its 95 % interval (Wilson for 0/1 metrics, for bounded ones
    Wilson's form with the n that their spread amounts to, else t, or a bootstrap-t where values are skewed; NaN where equal
    values tell nothing); `n`, the queries in the mean; `n_expected`, those the metric was expected for; `n_failed`,
    `n_missing` queries of the slice; `sum`, `std` (sample), `min`, `p50`, `p95`, `max`. Times and costs have order-statistic
    intervals `p50_low`, `p50_high`, `p95_low`, `p95_high` (NaN where n is too small for one: both bounds of a median take 6
    values, of a p95 72), every query counted as its own. A metric that applies to no query has n = 0 and NaN.

    Raises
    ------
    DataError
        `by` without a golden set, not one of its columns or kinds of tag, or both; an unknown metric column, or one
        of text; a `cluster` that the golden set doesn't have.
    """
    check_type(scores, pd.DataFrame, "scores")
    check_type(golden, (Golden, type(None)), "golden", "a Golden, as rs.load_golden gives it")
    check_type(results, (Results, type(None)), "results", "a Results, as rs.load_results gives it")
    chosen = chosen_columns(scores, metrics)
    rows = score_rows(scores, chosen)
    expected = _expected(rows, golden, results, chosen)
    keys = ["run_id"]
    if by is not None:
        if golden is None:
            raise DataError("by= needs the golden set", field="by", allowed="summarize(scores, golden, by=...)")
        if by in ("run_id", "query_id", "metric", *STATISTICS, *BOUNDS, *chosen):
            raise DataError(f"a slice can't be called {by!r}", field="by", allowed="a name that no column of the summary has")
        sliced = slices(golden, by)
        keys.append(by)
        row_of_scores = rows[["query_id"]].assign(row=np.arange(len(rows))).merge(sliced, on="query_id", how="inner")
        taken = row_of_scores["row"].to_numpy()
        rows = rows.iloc[taken].reset_index(drop=True).assign(**{by: row_of_scores[by]})
        expected = expected.iloc[taken].reset_index(drop=True)
    groups = rows.groupby(keys, observed=True, sort=False)
    values = groups[chosen]
    quantiles = values.quantile(np.array([0.5, 0.95]))  # each sorts every column: once for both
    p50, p95 = (pd.DataFrame(quantiles.xs(share, level=-1)) for share in (0.5, 0.95))
    parts = {
        "mean": values.mean(), "n": values.count(), "n_expected": expected.groupby([rows[key] for key in keys], observed=True, sort=False)[chosen].sum(),
        "sum": values.sum(min_count=1), "std": values.std(), "min": values.min(), "p50": p50, "p95": p95, "max": values.max(),
    }  # fmt: skip
    table = pd.DataFrame({name: part.rename_axis(columns="metric").stack() for name, part in parts.items()}).reset_index()
    for name, state in (("n_failed", "failed"), ("n_missing", "missing")):
        counts = rows["state"].eq(state).groupby([rows[key] for key in keys], observed=True, sort=False).sum().rename(name)
        table = table.join(counts, on=keys)
    groups_of = cluster_of(golden, pd.Index(rows["query_id"]), cluster)
    table = table.merge(_intervals(rows, keys, chosen, groups_of), on=[*keys, "metric"], how="left")
    return _ordered(_with_bounds(table) if bounds else table, keys, chosen, scores)


def _intervals(rows: pd.DataFrame, keys: list[str], chosen: list[str], groups: Groups | None) -> pd.DataFrame:
    """Bounds of every run's, or run's and slice's, means and quantiles: one row per metric."""
    parts, matrix = [], rows[chosen].to_numpy("float64")
    for key, places in rows.groupby(keys, observed=True, sort=False).indices.items():
        values = matrix if len(places) == len(matrix) else matrix[places]
        low, high = intervals(values, chosen, shared_only(None if groups is None else groups[places]))
        (p50_low, p50_high), (p95_low, p95_high) = quantile_intervals(values, chosen, 0.5), quantile_intervals(values, chosen, 0.95)
        found = {"metric": chosen, "low": low, "high": high, "p50_low": p50_low, "p50_high": p50_high, "p95_low": p95_low, "p95_high": p95_high}
        parts.append(pd.DataFrame(dict(zip(keys, key if isinstance(key, tuple) else (key,), strict=True)) | found))
    columns = [*keys, "metric", "low", "high", "p50_low", "p50_high", "p95_low", "p95_high"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def _with_bounds(table: pd.DataFrame) -> pd.DataFrame:
    """The lowest and highest mean that the values which are missing leave possible."""
    ranges = table["metric"].map({name: describe(name).kind in ("binary", "bounded") for name in table["metric"].unique()}).to_numpy(dtype=bool)
    total, n_expected = table["sum"].fillna(0.0), table["n_expected"].where(ranges & (table["n_expected"] > 0))
    return table.assign(if_all_zero=total / n_expected, if_all_one=(total + n_expected - table["n"]) / n_expected)


def slices(golden: Golden, by: str) -> pd.DataFrame:
    """Which slice each query belongs to: one row per query and value of `by`.

    Raises
    ------
    DataError
        `by` is neither a column of the queries nor a kind of tag, or it is both.
    """
    check_type(golden, Golden, "golden")
    kinds = golden.tags["kind"].unique().tolist()
    query_ids = golden.queries[["query_id"]]
    if by in golden.queries.columns and by not in ("query_id", "query", "position"):
        if by in kinds:
            raise DataError(f"{by!r} is a column of the queries and a kind of tag", field="by", allowed="a name that only one of them has")
        return query_ids.assign(**{by: golden.queries[by].astype("str").fillna(NO_VALUE)})
    kind = {"tags": "tag", "vaults": "vault", "folders": "folder"}.get(by, by)
    if kind in kinds:
        tags = golden.tags.loc[golden.tags["kind"] == kind, ["query_id", "value"]].rename(columns={"value": by})
        return query_ids.merge(tags, on="query_id", how="left").fillna({by: NO_VALUE})
    if by == "doc_type":
        return query_ids.merge(_doc_types(golden), on="query_id", how="left").fillna({by: NO_VALUE})
    columns = [name for name in golden.queries.columns if name not in ("query_id", "query", "position")]
    raise DataError(f"no column or kind of tag {by!r}", field="by", allowed=f"one of {', '.join(dict.fromkeys([*columns, *kinds, 'doc_type']))}")


def _doc_types(golden: Golden) -> pd.DataFrame:
    """The endings of the files that each query's targets are from, each once."""
    paths = golden.targets[["query_id", "path"]].dropna() if "path" in golden.targets else golden.targets[["query_id"]].iloc[:0].assign(path="")
    ending = paths["path"].astype("str").str.extract(r"\.(\w+)$")[0].str.lower()
    return pd.DataFrame({"query_id": paths["query_id"], "doc_type": ending}).dropna().drop_duplicates()


def _expected(rows: pd.DataFrame, golden: Golden | None, results: Results | None, chosen: list[str]) -> pd.DataFrame:
    """Where a value was expected, one flag per row and metric."""
    ledger = Ledger(rows, golden, results)
    return pd.DataFrame({name: ledger.is_expected(name) for name in chosen})


def _ordered(table: pd.DataFrame, keys: list[str], chosen: list[str], scores: pd.DataFrame) -> pd.DataFrame:
    """Rows by run, then slice, then metric as in the scores; a stable order of columns."""
    metric = pd.Categorical(table["metric"], categories=chosen, ordered=True)
    table = table.assign(run_id=table["run_id"].astype(scores["run_id"].dtype), metric=metric)
    table = table.sort_values([*keys, "metric"], ignore_index=True).assign(metric=lambda t: t["metric"].astype("str"))
    return table[[*keys, "metric", *STATISTICS, *(name for name in BOUNDS if name in table)]]
