"""Means of scores: one row per run and metric, or per run, slice and metric.

In: the scores frame, and the golden set for slices. Out: summary frames. Values from elsewhere can
be added to the scores as columns, and are then summarised, compared and gated like any metric.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import name_list, names_of, nearest, warn
from ragscore.frames.typing import Codes, Values
from ragscore.io.values import as_number
from ragscore.scoring.intervals import (
    Groups,
    intervals_by_group,
    quantile_intervals_by_group,
    query_clusters,
)
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations, Metric, is_own
from ragscore.scoring.modes import is_by_mode, with_modes
from ragscore.scoring.value_states import ValueStates, chosen_columns, score_rows
from ragscore.scoring.value_states import metric_columns as metric_columns
from ragscore.stats.grouped import Grouping, statistics

Slicing = str | Sequence[str]
"""A name or several: see `slices`."""
NO_VALUE = "(none)"  # the slice of queries without a value or a tag


STATISTICS = (
    "mean", "low", "high", "n", "n_expected", "n_failed", "n_missing", "sum", "std", "min", "p50",
    "p50_low", "p50_high", "p95", "p95_low", "p95_high", "max",
)  # fmt: skip


def summarize(
    scores: pd.DataFrame,
    golden: Golden | None = None,
    *,
    by: Slicing | None = None,
    metrics: list[str] | str | None = None,
    results: Results | None = None,
    cluster: str | None = "group",
    declared: Declarations = NOTHING_DECLARED,
) -> pd.DataFrame:
    """Return means of every metric; see `Evaluation.summary`, which fills in what is left out here.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`.
    golden
        Needed for `by`. With it, `n_expected` counts a missing query only for metrics
        that would have applied to it, and intervals know of clusters.
    results
        With them, `n_expected` also counts queries that were refused, not judged or not recorded,
        and leaves out metrics that the run records nowhere.
    declared
        What is declared of columns of your own.

    Raises
    ------
    DataError
        `by` without a golden set; `by` that is not one of its columns or kinds of tag, or both; an
        unknown metric column, or one of text; a `cluster` that the golden set doesn't have.
    """
    check_type(scores, pd.DataFrame, "scores")
    check_type(golden, (Golden, type(None)), "golden", "a Golden, as rs.load_golden gives it")
    check_type(results, (Results, type(None)), "results", "a Results, as rs.load_results gives it")
    chosen = chosen_columns(scores, metrics)
    if golden is not None and is_by_mode(by, golden):
        parts_by_run = [
            summarize(
                rows, with_modes(golden, results, str(run_id)), by=by, metrics=chosen,
                results=results, cluster=cluster, declared=declared,
            )
            for run_id, rows in scores.groupby("run_id", sort=False, observed=True)
        ]  # fmt: skip
        table = pd.concat(parts_by_run, ignore_index=True)
        return table.astype({"run_id": scores["run_id"].dtype})
    rows = score_rows(scores, chosen)
    keys = _keys(rows, golden, by, chosen)
    names = [str(name) for name in keys if name != "row"]
    states = ValueStates(rows, golden, results, declared)
    metrics_of = [declared.describe(name) for name in chosen]
    clusters = query_clusters(golden, pd.Index(rows["query_id"]), cluster)
    codes = _in_order(keys, names)
    own = Grouping.by_codes(codes)
    groups = keys[names].iloc[own.order[own.starts]]
    grouping = Grouping.by_codes(codes, keys["row"].to_numpy() if len(names) > 1 else None)
    measured = _measured(rows, metrics_of, chosen, grouping, clusters)
    parts = measured | _counted(rows, chosen, grouping, states)
    table = groups.iloc[np.arange(len(groups)).repeat(len(chosen))].reset_index(drop=True)
    return table.assign(
        metric=pd.array(chosen * len(groups), dtype="str"),
        **{name: parts[name].ravel() for name in STATISTICS},
    )


def _measured(
    rows: pd.DataFrame,
    metrics: list[Metric],
    chosen: list[str],
    grouping: Grouping,
    clusters: Groups | None,
) -> dict[str, Values]:
    """Return statistics and their intervals, each with a row per group and a column per metric."""
    columns = [rows[name].to_numpy() for name in chosen]
    found = statistics(columns, grouping)
    parts, by_id = dict(found), grouping
    if clusters is not None:
        by_id = grouping.ordered(pd.factorize(rows["query_id"], sort=True)[0])
    parts["low"], parts["high"] = intervals_by_group(found, columns, by_id, metrics, clusters)
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        parts[f"{name}_low"], parts[f"{name}_high"] = quantile_intervals_by_group(
            found, columns, grouping, metrics, share
        )
    return parts


def _in_order(rows: pd.DataFrame, names: list[str]) -> Codes:
    """Return the number of each row's combination of values, sorted; -1 where one is missing."""
    codes = naturally(rows, names).groupby(names, observed=True).ngroup().fillna(-1)
    return np.asarray(codes, dtype=np.int64)


def naturally(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return rows whose columns of text sort as people count: 2 before 10, c2 before c10."""

    def key(text: str) -> tuple[Any, ...]:
        number = as_number(text)
        parts = [int(one) if one.isdecimal() else one for one in re.split(r"([0-9]+)", text)]
        return (number is None, number or 0, parts)

    texts = [name for name in names if isinstance(rows[name].dtype, pd.StringDtype)]
    known = {name: sorted(rows[name].dropna().unique(), key=key) for name in texts}
    return rows.assign(**{name: pd.Categorical(rows[name], known[name]) for name in texts})


def _counted(
    rows: pd.DataFrame, chosen: list[str], grouping: Grouping, states: ValueStates
) -> dict[str, Codes]:
    """Count rows of each group with an expected value, failed rows and missing ones.

    Shaped as the statistics.
    """
    expected = [grouping.count(states.is_expected(name)) for name in chosen]
    shape = (len(chosen), len(grouping.sizes))
    parts = {"n_expected": np.array(expected, dtype=np.int64).reshape(shape).T}
    for name, state in (("n_failed", "failed"), ("n_missing", "missing")):
        counts = grouping.count(rows["state"].eq(state).to_numpy(dtype=bool))
        parts[name] = counts[:, None].repeat(len(chosen), axis=1)
    return parts


def _keys(
    rows: pd.DataFrame, golden: Golden | None, by: Slicing | None, chosen: list[str]
) -> pd.DataFrame:
    """Return run, slice and position `row` of every row, once per slice that it is in."""
    keys = rows[["run_id"]].assign(row=np.arange(len(rows)))
    if by is None:
        return keys
    if golden is None:
        raise DataError(
            "by= needs the golden set", field="by", allowed="summarize(scores, golden, by=...)"
        )
    names, taken = (
        slice_names(by),
        ("run_id", "query_id", "metric", *STATISTICS, *chosen),
    )
    if reserved := [name for name in names if name in taken]:
        raise DataError(
            f"a slice can't be called {reserved[0]!r}",
            field="by",
            allowed="a name that no column of the summary has",
        )
    keys = keys.assign(query_id=rows["query_id"]).merge(slices(golden, by), on="query_id")
    return keys[["run_id", *names, "row"]]


def slices(golden: Golden, by: Slicing) -> pd.DataFrame:
    """One row per query and slice that it belongs to.

    Every argument `by` of this library means the same.

    Parameters
    ----------
    by
        A name or several. Each is a column of `golden.queries` (difficulty, category; `x_level` may
        be called level) or a kind of tag (tag, vault, folder). Several names make a slice of every
        combination of their values, as in pandas.

    Returns
    -------
    `query_id` and a column of text per name. A query with several tags is in several slices, one
    without a value in `(none)`.

    Raises
    ------
    DataError
        No name, or one twice; a name that is neither a column nor a kind of tag, or is both. The
        nearest ones are listed.

    Examples
    --------
    >>> golden.slices(["difficulty", "tag"]).value_counts(["difficulty", "tag"])
    """
    check_type(golden, Golden, "golden")
    rows = golden.queries[["query_id"]]
    for name in slice_names(by):
        rows = rows.merge(_values(golden, name), on="query_id")
    return rows


def slice_names(by: Slicing) -> tuple[str, ...]:
    """Return the names that `by` gives, at least one and none twice.

    Raises
    ------
    DataError
        Otherwise.
    """
    allowed = "a column of the queries or a kind of tag, or several different ones"
    names = tuple(names_of(by, "by", allowed))
    if not names or len(set(names)) < len(names):
        raise DataError(f"found {list(names)}", field="by", allowed=allowed)
    return names


def slice_texts(rows: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """Return the slice of each row as one text: its values joined by ×."""
    texts, *more = (rows[name].astype("str") for name in names)
    for one in more:
        texts = texts + " × " + one
    return texts


def _values(golden: Golden, by: str) -> pd.DataFrame:
    """One row per query and value of one name."""
    kinds = golden.tags["kind"].unique().tolist()
    query_ids = golden.queries[["query_id"]]
    hidden = ("query_id", "query", "position")
    columns = [str(name) for name in golden.queries.columns if name not in hidden]
    column = by if by in columns else f"x_{by}"
    kind = {"tags": "tag", "vaults": "vault", "folders": "folder"}.get(by, by)
    if column in columns:
        if by in kinds:
            raise DataError(
                f"{by!r} is a column of the queries and a kind of tag",
                field="by",
                allowed="a name that only one of them has",
            )
        return query_ids.assign(**{by: golden.queries[column].astype("str").fillna(NO_VALUE)})
    if kind in kinds:
        values = golden.tags.loc[golden.tags["kind"] == kind, ["query_id", "value"]]
        values = values.rename(columns={"value": by})
    else:
        known = [name.removeprefix("x_") for name in columns]
        raise DataError(
            f"no column or kind of tag {by!r}",
            field="by",
            allowed=nearest(by, [*known, *kinds]),
        )
    return query_ids.merge(values, on="query_id", how="left").fillna({by: NO_VALUE})


def add_columns(
    scores: pd.DataFrame,
    table: pd.DataFrame,
    columns: list[str] | None = None,
    *,
    partial: bool = False,
) -> pd.DataFrame:
    """Add metric columns from elsewhere to the scores, joined by run and query.

    Parameters
    ----------
    scores
        From `rs.score`.
    table
        One row per run and query: run_id, query_id, and numbers (`Freshness.per_query`,
        your own).
    columns
        Columns to add; by default all whose name holds a dot or an @, as the names of metrics from
        elsewhere do.
    partial
        Queries may be absent from the table: no warning.

    Returns
    -------
    A new frame: the scores, then one float64 column per name; NaN for queries without a row.

    Raises
    ------
    DataError
        The table knows other queries than the scores, or one of them twice; a column is absent, or
        there already.

    Warns
    -----
    UserWarning
        Queries with an answer have no row.
    """
    chosen = columns
    if chosen is None:
        chosen = [name for name in table.columns if "." in name or "@" in name]
    lacking = [name for name in ("run_id", "query_id", *chosen) if name not in table.columns]
    if lacking or not chosen:
        raise DataError(
            f"no column {name_list(lacking) if lacking else 'of a metric'}",
            field="columns",
            allowed=nearest((lacking or [""])[0], table.columns, "the table has"),
        )
    if known := [name for name in chosen if name in scores.columns]:
        raise DataError(
            f"{', '.join(known)} is among the scores already",
            field="columns",
            allowed="other names",
        )
    cells = pd.MultiIndex.from_arrays(
        [scores["run_id"].astype("str"), scores.index.astype("str")], names=["run_id", "query_id"]
    )
    keys = [table["run_id"].astype("str"), table["query_id"].astype("str")]
    keyed = table.set_index(keys)[chosen].astype("float64")
    _check_rows(keyed.index, cells, scores, chosen, partial)
    found = keyed.reindex(cells)
    return scores.assign(**{name: found[name].to_numpy() for name in chosen})


def own_columns(scores: pd.DataFrame) -> pd.DataFrame | None:
    """Return run_id, query_id and the columns of your own; None without any."""
    own = [name for name in metric_columns(scores) if is_own(name)]
    keyed = scores.reset_index()[["run_id", "query_id", *own]]
    return keyed.astype({"run_id": "str"}) if own else None


def with_saved(scores: pd.DataFrame, own: pd.DataFrame) -> pd.DataFrame:
    """Return scores with columns of your own that were saved before: NaN where none was.

    Values of queries that the golden set doesn't have, as after one was dropped, are left out with
    a warning.
    """
    columns = [str(name) for name in own if name not in ("run_id", "query_id", *scores.columns)]
    if not columns:
        return scores
    asked = scores[scores["state"].ne("extra").to_numpy()]
    is_asked = pd.MultiIndex.from_frame(own[["run_id", "query_id"]].astype("str")).isin(
        pd.MultiIndex.from_arrays([asked["run_id"].astype("str"), asked.index.astype("str")])
    )
    if n := int(own.loc[~is_asked, columns].notna().any(axis=1).sum()):
        warn(f"left out: {n} rows of {name_list(columns)}, of queries that the golden set lacks")
    return add_columns(scores, own[is_asked], columns, partial=True)


def _check_rows(
    keys: pd.Index, cells: pd.Index, scores: pd.DataFrame, names: list[str], partial: bool
) -> None:
    """Refuse runs and queries that the scores don't have, or twice; warn of those that lack."""

    def first(some: pd.Index) -> str:
        return " / ".join(map(str, some[0]))

    if keys.has_duplicates:
        raise DataError(
            f"{first(keys[keys.duplicated()])} appears twice",
            field="table",
            allowed="one row per run and query",
        )
    unknown = keys.difference(cells)
    if len(unknown):
        raise DataError(
            f"{len(unknown)} rows have no score, first {first(unknown)}",
            field="table",
            allowed="the runs and queries of the scores",
        )
    answered = cells[~scores["state"].eq("missing").to_numpy()] if "state" in scores else cells
    absent = answered.difference(keys)
    if len(absent) and not partial:
        warn(
            f"{len(absent)} of {len(answered)} answered queries have no row of"
            f" {name_list(names)}, first {first(absent)}: they are NaN, and in no mean"
            " (partial=True if that is meant)"
        )
