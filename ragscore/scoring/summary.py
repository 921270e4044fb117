"""Scores -> means: one row per run and metric, and by slice.

The mean of a metric is the plain mean of its column.

Per-query values from elsewhere as columns of the scores, so that they are summarized, compared and gated like any metric.
"""

from dataclasses import fields

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.scoring.intervals import (
    Groups,
    intervals_by_group,
    quantile_intervals_by_group,
    query_clusters,
)
from ragscore.scoring.metrics import describe
from ragscore.scoring.value_states import ValueStates, chosen_columns, score_rows
from ragscore.scoring.value_states import metric_columns as metric_columns
from ragscore.stats.grouped import Codes, Grouping, Values, statistics

NO_VALUE = "(none)"  # the slice of queries without a value or a tag


STATISTICS = (
    "mean", "low", "high", "n", "n_expected", "n_failed", "n_missing", "sum", "std", "min", "p50",
    "p50_low", "p50_high", "p95", "p95_low", "p95_high", "max",
)  # fmt: skip
BOUNDS = ("lower_bound_missing", "upper_bound_missing")


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
        Needed for `by`; with it `n_expected` knows to which of the missing queries a metric would
        have applied.
    by
        A column of `golden.queries` (difficulty, category, ...), a kind of tag ("tag", "vault",
        "folder"), or "doc_type", the endings of the files its targets are from. A query with
        several of them counts in each, one without in `(none)`.
    metrics
        Only these columns; by default all that hold numbers. True and false count as 1 and 0.
    results
        What the scores were made from; with them `n_expected` also counts what was refused, not
        judged or not recorded (see `rs.explain`), and leaves out what the run records nowhere.
    bounds
        Add `lower_bound_missing` and `upper_bound_missing`: the mean over `n_expected` if every
        value that is missing were 0, or 1. NaN for metrics that don't range from 0 to 1.
    cluster
        With a golden set: the column of `golden.queries` whose equal values make queries depend on
        each other (paraphrases, a source, a conversation); intervals allow for it. None: every
        query stands alone. Repeats of a run are no queries of their own: average them first
        (`rs.average_repeats`).

    Returns
    -------
    One row per run, slice and metric: `mean`; `low`, `high`, its 95 % interval (Wilson for 0/1
    metrics, for bounded ones Wilson's form with the n that their spread amounts to, else t, or a
    bootstrap-t where values are skewed; NaN where equal values tell nothing); `n`, the queries in
    the mean; `n_expected`, those the metric was expected for; `n_failed`, `n_missing` queries of
    the slice; `sum`, `std` (sample), `min`, `p50`, `p95`, `max`. Times and costs have
    order-statistic intervals `p50_low`, `p50_high`, `p95_low`, `p95_high` (NaN where n is too small
    for one: both bounds of a median take 6 values, of a p95 72), every query counted as its own. A
    metric that applies to no query has n = 0 and NaN.

    Raises
    ------
    DataError
        `by` without a golden set, not one of its columns or kinds of tag, or both; an unknown
        metric column, or one of text; a `cluster` that the golden set doesn't have.
    """
    check_type(scores, pd.DataFrame, "scores")
    check_type(golden, (Golden, type(None)), "golden", "a Golden, as rs.load_golden gives it")
    check_type(results, (Results, type(None)), "results", "a Results, as rs.load_results gives it")
    chosen = chosen_columns(scores, metrics)
    rows = score_rows(scores, chosen)
    grouping, groups = _grouped(_keys(rows, golden, by, chosen))
    clusters = query_clusters(golden, pd.Index(rows["query_id"]), cluster)
    parts = _measured(rows, chosen, grouping, clusters) | _counted(
        rows, chosen, grouping, ValueStates(rows, golden, results)
    )
    table = _with_metrics(groups, chosen).assign(
        **{name: parts[name].ravel() for name in STATISTICS}
    )
    return _with_bounds(table) if bounds else table


def _measured(
    rows: pd.DataFrame, chosen: list[str], grouping: Grouping, clusters: Groups | None
) -> dict[str, Values]:
    """Statistics and their intervals: of each one row per group, one column per metric."""
    columns = [rows[name].to_numpy() for name in chosen]
    found = statistics(columns, grouping)
    parts = {field.name: getattr(found, field.name) for field in fields(found)}
    parts["low"], parts["high"] = intervals_by_group(found, columns, grouping, chosen, clusters)
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        parts[f"{name}_low"], parts[f"{name}_high"] = quantile_intervals_by_group(
            found, columns, grouping, chosen, share
        )
    return parts


def _counted(
    rows: pd.DataFrame, chosen: list[str], grouping: Grouping, ledger: ValueStates
) -> dict[str, Codes]:
    """Rows of each group that a value was expected of, and that failed or are missing.

    Shaped as the statistics.
    """
    expected = [grouping.count(ledger.is_expected(name)) for name in chosen]
    parts = {
        "n_expected": np.array(expected, dtype=np.int64).reshape(len(chosen), len(grouping.sizes)).T
    }
    for name, state in (("n_failed", "failed"), ("n_missing", "missing")):
        parts[name] = grouping.count(rows["state"].eq(state).to_numpy(dtype=bool))[:, None].repeat(
            len(chosen), axis=1
        )
    return parts


def _keys(
    rows: pd.DataFrame, golden: Golden | None, by: str | None, chosen: list[str]
) -> pd.DataFrame:
    """Run, and slice, of every row, with its position `row`.

    A row that is in several slices stands in several lines, one in none in no line.
    """
    keys = rows[["run_id"]].assign(row=np.arange(len(rows)))
    if by is None:
        return keys
    if golden is None:
        raise DataError(
            "by= needs the golden set", field="by", allowed="summarize(scores, golden, by=...)"
        )
    if by in ("run_id", "query_id", "metric", *STATISTICS, *BOUNDS, *chosen):
        raise DataError(
            f"a slice can't be called {by!r}",
            field="by",
            allowed="a name that no column of the summary has",
        )
    return keys.assign(query_id=rows["query_id"]).merge(
        slices(golden, by), on="query_id", how="inner"
    )[["run_id", by, "row"]]


def _grouped(keys: pd.DataFrame) -> tuple[Grouping, pd.DataFrame]:
    """The rows of every run, or run and slice, and what these are called: by run, then slice."""
    names = [name for name in keys if name != "row"]
    codes = np.asarray(keys.groupby(names, observed=True).ngroup().fillna(-1), dtype=np.int64)
    firsts = Grouping.by_codes(codes).firsts()
    rows = keys["row"].to_numpy() if len(names) > 1 else None
    return Grouping.by_codes(codes, rows), keys[names].iloc[firsts]


def _with_metrics(groups: pd.DataFrame, chosen: list[str]) -> pd.DataFrame:
    """One row per group and metric, in the order of the scores."""
    table = groups.iloc[np.arange(len(groups)).repeat(len(chosen))].reset_index(drop=True)
    return table.assign(metric=pd.array(chosen * len(groups), dtype="str"))


def _with_bounds(table: pd.DataFrame) -> pd.DataFrame:
    """The lowest and highest mean that the values which are missing leave possible."""
    ranges = (
        table["metric"]
        .map(
            {
                name: describe(name).kind in ("binary", "bounded")
                for name in table["metric"].unique()
            }
        )
        .to_numpy(dtype=bool)
    )
    total, n_expected = (
        table["sum"].fillna(0.0),
        table["n_expected"].where(ranges & (table["n_expected"] > 0)),
    )
    return table.assign(
        lower_bound_missing=total / n_expected,
        upper_bound_missing=(total + n_expected - table["n"]) / n_expected,
    )


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
            raise DataError(
                f"{by!r} is a column of the queries and a kind of tag",
                field="by",
                allowed="a name that only one of them has",
            )
        return query_ids.assign(**{by: golden.queries[by].astype("str").fillna(NO_VALUE)})
    kind = {"tags": "tag", "vaults": "vault", "folders": "folder"}.get(by, by)
    if kind in kinds:
        tags = golden.tags.loc[golden.tags["kind"] == kind, ["query_id", "value"]].rename(
            columns={"value": by}
        )
        return query_ids.merge(tags, on="query_id", how="left").fillna({by: NO_VALUE})
    if by == "doc_type":
        return query_ids.merge(_doc_types(golden), on="query_id", how="left").fillna({by: NO_VALUE})
    columns = [
        name for name in golden.queries.columns if name not in ("query_id", "query", "position")
    ]
    raise DataError(
        f"no column or kind of tag {by!r}",
        field="by",
        allowed=f"one of {', '.join(dict.fromkeys([*columns, *kinds, 'doc_type']))}",
    )


def _doc_types(golden: Golden) -> pd.DataFrame:
    """The endings of the files that each query's targets are from, each once."""
    paths = (
        golden.targets[["query_id", "path"]].dropna()
        if "path" in golden.targets
        else golden.targets[["query_id"]].iloc[:0].assign(path="")
    )
    ending = paths["path"].astype("str").str.extract(r"\.(\w+)$")[0].str.lower()
    return (
        pd.DataFrame({"query_id": paths["query_id"], "doc_type": ending}).dropna().drop_duplicates()
    )


def add_columns(
    scores: pd.DataFrame,
    table: pd.DataFrame,
    columns: list[str] | None = None,
    *,
    partial: bool = False,
) -> pd.DataFrame:
    """The scores with further metric columns, joined by run and query.

    Parameters
    ----------
    scores
        From `rs.score`.
    table
        One row per run and query: run_id, query_id, and numbers (`rs.freshness`, `rs.behaviour`,
        your own).
    columns
        Which of its columns; by default all whose name holds a dot or an @, as the names of metrics
        from elsewhere do.
    partial
        Whether answered queries may be absent from the table; they become NaN.

    Returns
    -------
    A new frame: the scores, then one float64 column per name; NaN for queries that the run has no
    answer to. Which direction of a column of your own is better isn't known: comparisons say of it
    "higher" or "lower", not "better" or "worse".

    Raises
    ------
    DataError
        The table knows other queries than the scores, or one of them twice; a column is absent, or
        there already.
    """
    chosen = (
        columns
        if columns is not None
        else [name for name in table.columns if "." in name or "@" in name]
    )
    lacking = [name for name in ("run_id", "query_id", *chosen) if name not in table.columns]
    if lacking or not chosen:
        raise DataError(
            f"no column {', '.join(lacking) or 'of a metric'}",
            field="columns",
            allowed=f"the table has {', '.join(table.columns)}",
        )
    if there := [name for name in chosen if name in scores.columns]:
        raise DataError(
            f"{', '.join(there)} is among the scores already",
            field="columns",
            allowed="other names",
        )
    cells = pd.MultiIndex.from_arrays(
        [scores["run_id"].astype("str"), scores.index.astype("str")], names=["run_id", "query_id"]
    )
    keyed = table.set_index([table["run_id"].astype("str"), table["query_id"].astype("str")])[
        chosen
    ].astype("float64")
    _refuse_others(keyed.index, cells, scores, partial)
    found = keyed.reindex(cells)
    return scores.assign(**{name: found[name].to_numpy() for name in chosen})


def _refuse_others(keys: pd.Index, cells: pd.Index, scores: pd.DataFrame, partial: bool) -> None:
    if keys.has_duplicates:
        raise DataError(
            f"{_named(keys[keys.duplicated()])} stands there twice",
            field="table",
            allowed="one row per run and query",
        )
    unknown = keys.difference(cells)
    if len(unknown):
        raise DataError(
            f"{len(unknown)} rows have no score, first {_named(unknown)}",
            field="table",
            allowed="the runs and queries of the scores",
        )
    asked = cells[~scores["state"].eq("missing").to_numpy()] if "state" in scores else cells
    absent = asked.difference(keys)
    if len(absent) and not partial:
        raise DataError(
            f"{len(absent)} answered queries have no row, first {_named(absent)}",
            field="table",
            allowed="the queries of the scores, or partial=True",
        )


def _named(keys: pd.Index) -> str:
    return " / ".join(map(str, keys[0]))
