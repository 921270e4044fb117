"""Scores -> means: one row per run and metric, and by slice. The mean of a metric is the plain mean of its column."""

import numpy as np
import pandas as pd

from ragscore.frames import DataError, Golden
from ragscore.match import at_level
from ragscore.metrics import BY_NAME, Label, describe, parse_label
from ragscore.stats import mean_interval

FIXED_COLUMNS = ("run_id", "state", "level", "created_at", "system")
NO_VALUE = "(none)"  # the slice of queries without a value or a tag


def metric_columns(scores: pd.DataFrame) -> list[str]:
    """The metric columns of a scores frame, in its order."""
    return [name for name in scores.columns if name not in FIXED_COLUMNS]


def summarize(scores: pd.DataFrame, golden: Golden | None = None, *, by: str | None = None, metrics: list[str] | None = None) -> pd.DataFrame:
    """Means of every metric, by run and, if asked, by a column or tag of the golden set.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`.
    golden
        Needed for `by`; with it `n_expected` knows to which of the missing queries a metric would have applied.
    by
        A column of `golden.queries` (difficulty, category, ...) or a kind of tag ("tag", "vault", "folder"). A query
        with several tags counts in each of them, one without in `(none)`.
    metrics
        Only these columns.

    Returns
    -------
    One row per run, slice and metric: `mean`; `low`, `high`, its 95 % interval (Wilson for 0/1 metrics, else t, bounded
    metrics clipped to 0..1); `n`, the queries in the mean; `n_expected`, those the metric was expected for; `n_failed`,
    `n_missing` queries of the slice; `sum`, `std` (sample), `min`, `p50`, `p95`, `max`. A metric that applies to no
    query has n = 0 and NaN.

    Raises
    ------
    DataError
        `by` without a golden set, or not one of its columns or kinds of tag; an unknown metric column.
    """
    chosen = metric_columns(scores) if metrics is None else metrics
    unknown = [name for name in chosen if name not in scores.columns]
    if unknown:
        raise DataError(f"no column {', '.join(unknown)}", field="metrics", allowed=f"scores has {', '.join(metric_columns(scores))}")
    rows = scores.reset_index()
    expected = _expected(rows, golden, [parse_label(name) if describe(name).name in BY_NAME else Label(name, name) for name in chosen])
    keys = ["run_id"]
    if by is not None:
        if golden is None:
            raise DataError("by= needs the golden set", field="by", allowed="summarize(scores, golden, by=...)")
        sliced = slices(golden, by)
        keys.append(by)
        rows = rows.assign(row=np.arange(len(rows))).merge(sliced, on="query_id", how="inner")
        expected = expected.iloc[rows["row"].to_numpy()].reset_index(drop=True)
    groups = rows.groupby(keys, observed=True, sort=False)
    values = groups[chosen]
    parts = {
        "mean": values.mean(), "n": values.count(), "n_expected": expected.groupby([rows[key] for key in keys], observed=True, sort=False)[chosen].sum(),
        "sum": values.sum(min_count=1), "std": values.std(), "min": values.min(), "p50": values.quantile(0.5), "p95": values.quantile(0.95), "max": values.max(),
    }  # fmt: skip
    table = pd.DataFrame({name: part.rename_axis(columns="metric").stack() for name, part in parts.items()}).reset_index()
    for name, state in (("n_failed", "failed"), ("n_missing", "missing")):
        counts = rows["state"].eq(state).groupby([rows[key] for key in keys], observed=True, sort=False).sum().rename(name)
        table = table.join(counts, on=keys)
    table["low"], table["high"] = np.nan, np.nan
    for name in chosen:
        here = table["metric"] == name
        mean, std, n = (table.loc[here, part].to_numpy("float64") for part in ("mean", "std", "n"))
        table.loc[here, "low"], table.loc[here, "high"] = mean_interval(mean, std, n, describe(name).kind)
    return _ordered(table, keys, chosen, scores)


def slices(golden: Golden, by: str) -> pd.DataFrame:
    """Which slice each query belongs to: one row per query and value of `by`.

    Raises
    ------
    DataError
        `by` is neither a column of the queries nor a kind of tag.
    """
    kinds = golden.tags["kind"].unique().tolist()
    query_ids = golden.queries[["query_id"]]
    if by in golden.queries.columns and by not in ("query_id", "query", "position"):
        return query_ids.assign(**{by: golden.queries[by].astype("str").fillna(NO_VALUE)})
    kind = {"tags": "tag", "vaults": "vault", "folders": "folder"}.get(by, by)
    if kind in kinds:
        tags = golden.tags.loc[golden.tags["kind"] == kind, ["query_id", "value"]].rename(columns={"value": by})
        return query_ids.merge(tags, on="query_id", how="left").fillna({by: NO_VALUE})
    columns = [name for name in golden.queries.columns if name not in ("query_id", "query", "position")]
    raise DataError(f"no column or kind of tag {by!r}", field="by", allowed=f"one of {', '.join([*columns, *kinds])}")


def _expected(rows: pd.DataFrame, golden: Golden | None, labels: list[Label]) -> pd.DataFrame:
    """Where a value was expected: there is one, or the query failed or is missing and the metric applies to it."""
    lost = rows["state"].isin(["failed", "missing"]).to_numpy()
    level = rows["level"].astype("str").iloc[0] if len(rows) else "doc"
    columns = {}
    for label in labels:
        applies = np.ones(len(rows), dtype=bool) if golden is None else rows["query_id"].isin(_applies_to(golden, label, level)).to_numpy()
        # A failed query isn't expected to have a latency, or to be empty; it is expected to have been answered rightly.
        only_if_done = label.name in ("empty", "latency_ms", "cost_usd")
        counts_lost = rows["state"].eq("missing").to_numpy() & applies if only_if_done else lost & applies
        columns[label.text] = rows[label.text].notna().to_numpy() | counts_lost
    return pd.DataFrame(columns)


def _applies_to(golden: Golden, label: Label, level: str) -> pd.Series:
    """Queries to which a metric applies by what the golden set says of them."""
    queries, answerable = golden.queries["query_id"], golden.queries["answerable"]
    is_due = queries.isin(golden.refusals)
    if label.is_ranking:
        at = label.level or level
        return at_level(golden, at).targets["query_id"] if at in ("chunk", "span", "doc") else golden.targets["query_id"]
    if label.name in ("refusal_correct", "hallucinated"):
        return queries[is_due]
    if label.name == "false_refusal":
        return queries[answerable.fillna(False).astype(bool)]
    if label.name.startswith("answer_checks"):
        checked = queries.isin(golden.checks.loc[golden.checks["kind"].isin(["must_contain", "forbidden"]), "query_id"])
        return queries[checked if label.name.endswith("all") else checked & ~is_due]
    return queries


def _ordered(table: pd.DataFrame, keys: list[str], chosen: list[str], scores: pd.DataFrame) -> pd.DataFrame:
    """Rows by run, then slice, then metric as in the scores; a stable order of columns."""
    metric = pd.Categorical(table["metric"], categories=chosen, ordered=True)
    table = table.assign(run_id=table["run_id"].astype(scores["run_id"].dtype), metric=metric)
    table = table.sort_values([*keys, "metric"], ignore_index=True).assign(metric=lambda t: t["metric"].astype("str"))
    return table[[*keys, "metric", "mean", "low", "high", "n", "n_expected", "n_failed", "n_missing", "sum", "std", "min", "p50", "p95", "max"]]
