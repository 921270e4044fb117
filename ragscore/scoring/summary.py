"""Means of scores: one row per run and metric, or per run, slice and metric.

Values from elsewhere can be added to the scores as columns, and are then summarised, compared and
gated like any metric.
"""

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import check_known, name_list, names_of, nearest, warn
from ragscore.scoring.explain import expected
from ragscore.scoring.intervals import intervals, quantile_intervals, query_clusters, shared_only
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.rows import Rows
from ragscore.stats.grouped import Grouping, statistics

Slicing = str | Sequence[str]
PLURALS = {"tags": "tag", "vaults": "vault", "folders": "folder"}
NO_VALUE = "(none)"  # the slice of queries without a value or a tag
KEYS = ["run_id", "query_id"]
FIXED_COLUMNS = ("run_id", "query_id", "state", "level", "created_at", "system")
STATISTICS = (
    "mean", "low", "high", "n", "n_expected", "n_failed", "n_missing", "sum", "std", "min", "p50",
    "p50_low", "p50_high", "p95", "p95_low", "p95_high", "max",
)  # fmt: skip
ENDS = ("low", "high", "p50_low", "p50_high", "p95_low", "p95_high")


def summarize(
    scores: pd.DataFrame,
    golden: Golden | None = None,
    *,
    by: Slicing | None = None,
    metrics: list[str] | str | None = None,
    cluster: str | None = "group",
    table: MetricTable = TABLE,
    rows: Rows | None = None,
) -> pd.DataFrame:
    """Return means of every metric; see `Evaluation.summary`, which fills in what is left out here.

    Parameters
    ----------
    golden
        Needed for `by`, and for the clusters that intervals account for.
    rows
        What is known of the rows: `n_expected` counts rows of which a value was expected. Without
        it, rows that have one, failed or are missing.

    Raises
    ------
    DataError
        `by` without a golden set, or no column or kind of tag of it; an unknown metric column, or
        one of text; a `cluster` that the golden set doesn't have.
    """
    chosen = chosen_columns(scores, metrics, table)
    held = score_rows(scores, chosen)
    keys, names = _keys(held, golden, by, chosen, None if rows is None else rows.results)
    groups = naturally(keys, names).groupby(names, observed=True).ngroup()
    codes = np.asarray(groups.fillna(-1), np.int64)
    grouping = Grouping.by_codes(codes, keys["row"].to_numpy())
    columns, of_metrics = [held[name].to_numpy() for name in chosen], [*map(table.describe, chosen)]
    found: dict[str, Any] = dict(statistics(columns, grouping))
    # sums over clusters don't depend on the order of queries
    by_id = grouping.ordered(pd.factorize(held["query_id"], sort=True)[0])
    clusters = query_clusters(golden, pd.Index(held["query_id"]), cluster)
    ends = np.full((6, len(grouping.sizes), len(chosen)), np.nan)
    numbers, at = np.unique(codes, return_index=True)
    first = keys[names].iloc[at[numbers >= 0]].reset_index(drop=True)
    # some 20 groups at once, of about one size, share resamples; each alone where queries cluster
    n_parts = len(first) // 20 + 1 if clusters is None else len(first)
    by_size = np.argsort(grouping.sizes, kind="stable")
    for places in np.array_split(by_size, n_parts) if chosen and len(first) else ():
        members = [by_id.members(group) for group in places]
        values = np.full((len(places), len(chosen), max(map(len, members))), np.nan)
        for own, of_group in zip(values, members, strict=True):
            own[:, : len(of_group)] = [one[of_group] for one in columns]
        flat = values.reshape(-1, values.shape[2]).T
        shared = None if clusters is None else shared_only(clusters[members[0]])
        described, shape = of_metrics * len(places), (2, len(places), len(chosen))
        ends[:2, places] = np.reshape(intervals(flat, described, shared), shape)
        for row, q in ((2, 0.5), (4, 0.95)):
            ends[row : row + 2, places] = np.reshape(quantile_intervals(flat, described, q), shape)
    found |= dict(zip(ENDS, ends, strict=True))
    found["n_expected"] = (
        np.array([grouping.count(one) for one in expected(held, chosen, table, rows)], np.int64)
        .reshape(len(chosen), len(grouping.sizes))
        .T
    )
    for name, state in (("n_failed", "failed"), ("n_missing", "missing")):
        found[name] = grouping.count(held["state"].eq(state).to_numpy()).repeat(len(chosen))
    head = first.loc[first.index.repeat(len(chosen))].reset_index(drop=True)
    return head.assign(
        metric=pd.array(chosen * len(first), dtype="str"),
        **{name: found[name].ravel() for name in STATISTICS},
    )


def _keys(
    held: pd.DataFrame, golden: Golden | None, by: Slicing | None, chosen: list[str],
    results: Results | None,
) -> tuple[pd.DataFrame, list[str]]:  # fmt: skip
    """Return run, slice and position `row` of every row, once per slice that it is in."""
    keys = held[["run_id", "query_id"]].assign(row=np.arange(len(held)))
    if by is None:
        return keys, ["run_id"]
    if golden is None:
        raise DataError("by= needs the golden set", field="by", allowed="a golden set")
    names = slice_names(by, {*keys, "metric", *STATISTICS, *chosen})
    parts = slices(golden, by, results)
    if "run_id" in parts:
        parts = parts.astype({"run_id": keys["run_id"].dtype})
    return keys.merge(parts), ["run_id", *names]


def slices(golden: Golden, by: Slicing, results: Results | None = None) -> pd.DataFrame:
    """One row per query and slice that it belongs to.

    Every argument `by` of this library means the same.

    Parameters
    ----------
    by
        A name or several. Each is a column of `golden.queries` (difficulty, category; `x_level` may
        be called level) or a kind of tag (tag, vault, folder), else a column of the responses of
        `results` (mode). Several names make a slice of every combination of their values.

    Returns
    -------
    `query_id` (with a column of the responses also `run_id`) and a column of text per name. A query
    with several tags is in several slices, one without a value in `(none)`.

    Raises
    ------
    DataError
        No name, or one twice; a name that is nothing of these, or both column and kind of tag.
    """
    rows = golden.queries[["query_id"]]
    for name in slice_names(by):
        rows = rows.merge(_values(golden, name, results))
    return rows


def _values(golden: Golden, by: str, results: Results | None) -> pd.DataFrame:
    """One row per query (with a column of the responses: run and query) and value of one name."""
    every, tags, names = golden.queries[["query_id"]], golden.tags, (by, f"x_{by}")
    fields = [str(one) for one in golden.queries if one not in ("query_id", "query", "position")]
    columns = [] if results is None else [*results.responses.columns.drop(["run_id", "query_id"])]
    column = next((one for one in names if one in fields), None)
    stated = next((one for one in names if one in columns), None)
    of_kind = tags[tags["kind"].eq(PLURALS.get(by, by))]
    if column and tags["kind"].eq(by).any():
        raise DataError(
            f"{by!r} is a column of the queries and a kind of tag",
            field="by",
            allowed="a name that only one of them has",
        )
    if column:
        values = golden.queries[["query_id", column]]
    elif len(of_kind):
        values = of_kind[["query_id", "value"]]
    elif stated and results is not None:
        values = results.responses[["run_id", "query_id", stated]].astype({"run_id": "str"})
        every = results.runs[["run_id"]].astype({"run_id": "str"}).merge(every, how="cross")
    else:
        known = [one.removeprefix("x_") for one in [*fields, *tags["kind"].unique()]]
        raise DataError(f"no column or kind of tag {by!r}", field="by", allowed=nearest(by, known))
    texts = values.set_axis([*values.columns[:-1], by], axis=1).astype({by: "str"})
    return every.merge(texts, how="left").fillna({by: NO_VALUE})


def slice_names(by: Slicing, columns: Collection[str] = ()) -> tuple[str, ...]:
    """Return the names that `by` gives; refuse none, one twice, or a name of `columns`."""
    allowed = "a column of the queries or a kind of tag, or several different ones"
    names = tuple(names_of(by, "by", allowed))
    if not names or len(set(names)) < len(names):
        raise DataError(f"found {list(names)}", field="by", allowed=allowed)
    if taken := [name for name in names if name in columns]:
        allowed = "a name that no column of the result has"
        raise DataError(f"a slice can't be called {taken[0]!r}", field="by", allowed=allowed)
    return names


def slice_texts(rows: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """Return the slice of each row as one text: its values joined by ×."""
    texts = rows[list(names)].astype("str")
    return texts.pop(names[0]).str.cat(texts, sep=" × ")


def naturally(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return rows whose columns of text sort as people count: 2 before 10, c2 before c10."""

    def key(text: str) -> tuple[Any, ...]:
        parts = [int(one) if one.isdecimal() else one for one in re.split(r"([0-9]+)", text)]
        number = float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else None
        return (number is None, number or 0, parts)

    known = {
        name: sorted(rows[name].dropna().unique(), key=key)
        for name in names
        if isinstance(rows[name].dtype, pd.StringDtype)
    }
    return rows.assign(**{name: pd.Categorical(rows[name], known[name]) for name in known})


def metric_columns(scores: pd.DataFrame) -> list[str]:
    """Return the metric columns of a scores frame, with columns of your own that hold numbers."""
    return [
        name
        for name, dtype in zip(scores.columns, scores.dtypes, strict=True)
        if name not in FIXED_COLUMNS and pd.api.types.is_numeric_dtype(dtype)
    ]


def chosen_columns(
    scores: pd.DataFrame,
    metrics: list[str] | str | None,
    table: MetricTable = TABLE,
    field: str = "metrics",
) -> list[str]:
    """Return the metric columns asked for, each once; all of them by default."""
    known = metric_columns(scores)
    if metrics is None:
        return known
    chosen = dict[str, None]()
    for name in names_of(metrics, field):
        with suppress(DataError):  # another tool's name
            name = name if name in known else table.parse(name).text
        chosen[name] = None
    check_known(list(chosen), known, field, "scored metric", "rs.evaluate scores others; there are")
    return list(chosen)


def score_rows(scores: pd.DataFrame, chosen: list[str]) -> pd.DataFrame:
    """Return a scores frame with query ids as a column, and these metric columns as float64."""
    rows, keys = scores if "query_id" in scores else scores.reset_index(), [*KEYS, "state", "level"]
    check_known(keys, rows, "scores", "column", "a frame of rs.score, not of")
    # without copies: there may be a hundred columns
    columns = {name: rows[name].reset_index(drop=True) for name in keys}
    values = {name: rows[name].to_numpy("float64", na_value=np.nan) for name in chosen}
    return pd.DataFrame(columns | values, copy=False)


def add_columns(
    scores: pd.DataFrame, table: pd.DataFrame, columns: list[str], *, partial: bool = False
) -> pd.DataFrame:
    """Add metric columns from elsewhere to the scores, joined by run and query.

    Parameters
    ----------
    table
        One row per run and query: run_id, query_id, and these columns of numbers.
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
    """
    if not columns:
        raise DataError("no column of numbers", field="columns", allowed="at least one")
    check_known([*KEYS, *columns], table.columns, "columns", "column", "the table has")
    if known := [name for name in columns if name in scores.columns]:
        raise DataError(
            f"{name_list(known)} is among the scores already",
            field="columns",
            allowed="other names",
        )
    cells = pd.MultiIndex.from_arrays([scores["run_id"].astype("str"), scores.index.astype("str")])
    own = pd.MultiIndex.from_frame(table[KEYS].astype("str"))
    if own.has_duplicates:
        raise DataError(
            f"{' / '.join(map(str, own[own.duplicated()][0]))} appears twice",
            field="table",
            allowed="one row per run and query",
        )
    if len(unknown := own[~own.isin(cells)]):
        raise DataError(
            f"{len(unknown)} rows have no score, first {' / '.join(map(str, unknown[0]))}",
            field="table",
            allowed="the runs and queries of the scores",
        )
    answered = cells[scores["state"].ne("missing").to_numpy(dtype=bool)]
    if len(absent := answered[~answered.isin(own)]) and not partial:
        warn(
            f"{len(absent)} of {len(answered)} answered queries have no row of"
            f" {name_list(columns)}, first {' / '.join(map(str, absent[0]))}: they are NaN, and in"
            " no mean (partial=True if that is meant)"
        )
    found = table[columns].astype("float64").set_axis(own).reindex(cells)
    return scores.assign(**{name: found[name].to_numpy() for name in columns})


def with_saved(scores: pd.DataFrame, own: pd.DataFrame) -> pd.DataFrame:
    """Return scores with columns of your own that were saved before: NaN where none was.

    Values of queries that the golden set doesn't have, as after one was dropped, are left out with
    a warning.
    """
    columns = [str(name) for name in own if name not in (*KEYS, *scores.columns)]
    if not columns:
        return scores
    asked = scores[scores["state"].ne("extra").to_numpy()].reset_index()[KEYS].astype("str")
    held = own.astype(dict.fromkeys(KEYS, "str")).dropna(subset=columns, how="all")
    kept = held.merge(asked, on=KEYS)
    if n := len(held) - len(kept):
        warn(f"left out: {n} rows of {name_list(columns)}, of queries that the golden set lacks")
    return add_columns(scores, kept, columns, partial=True)
