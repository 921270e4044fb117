"""Scores that another tool stored of single queries: metrics beside ours, and without labels alone.

In: results with stored scores. Out: a column for each of their metrics, with what its file says of
it; the golden set of runs that have no labels.
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results, golden_part
from ragscore.frames.errors import excerpt, plural, warn
from ragscore.frames.kinds import FAILED
from ragscore.io.tables import ABOUT_METRIC
from ragscore.scoring.metrics import TABLE, Metric, MetricTable, own_column
from ragscore.scoring.own import with_own
from ragscore.scoring.score import DEFAULT, Asked, Scored, asked_of, scored, table_of
from ragscore.scoring.summary import KEYS, add_columns, metric_columns


def stored_values(results: Results) -> pd.DataFrame:
    """Return the stored scores of single queries, one row per run, query and metric.

    These are reported scores, and a judge's scores of whole answers under other names than ours; a
    judged score that is reported, too, counts once.

    Returns
    -------
    Columns run_id, query_id, metric, value, and `ABOUT_METRIC`: what the file says of the metric,
    NA where it says nothing.
    """
    names, keys = [*KEYS, "metric", "value", *ABOUT_METRIC], [*KEYS, "metric"]
    dtypes = dict.fromkeys(names, "float64") | dict.fromkeys([*keys, "better"], "str")
    reported, judged = (
        pd.DataFrame(columns=["metric"]) if one is None else one
        for one in (results.reported, results.judgments)
    )
    reported = reported.reindex(columns=names)
    judged = judged.reindex(columns=[*names, "criterion", "item", "state"])
    ours = [name for name, one in TABLE.items() if one.family == "judged"]
    is_whole = judged["item"].eq("") & ~judged["criterion"].isin([*ours, "nuggets"])
    is_whole &= judged["value"].notna() & judged["state"].ne(FAILED).fillna(True)
    judged = judged.assign(metric=judged["criterion"])[is_whole.to_numpy(bool)]
    stored = reported[reported["query_id"].ne("").to_numpy(bool)].astype(dtypes)
    judged = judged[names].astype(dtypes)
    if len(stored):
        cells, of_stored = (pd.MultiIndex.from_frame(one[keys]) for one in (judged, stored))
        judged = judged[~cells.isin(of_stored)]
    return pd.concat([stored, judged], ignore_index=True)


def stored_columns(results: Results) -> tuple[pd.DataFrame, list[Metric]]:
    """Return the stored scores as columns, and what their files declare of those that aren't ours.

    Returns
    -------
    One row per run and query with a stored score: run_id, query_id, then a float64 column per
    metric, NaN where none is stored.

    Raises
    ------
    DataError
        Files contradict each other in what they say of a metric; a value outside its range.
    """
    if results.reported is None and results.judgments is None:
        return pd.DataFrame(columns=KEYS), []
    rows = stored_values(results)
    names, own = rows["metric"].unique().tolist(), []
    means = rows.groupby([*KEYS, "metric"], sort=False)["value"].mean()
    wide = means.unstack("metric").reindex(columns=names).astype("float64")
    for name in (one for one in names if TABLE.is_own(one)):
        better, lowest, highest = (_stated(rows, name, column) for column in ABOUT_METRIC[:3])
        ends = (lowest, highest)
        metric = with_own(name, better, None if ends == (None, None) else ends)
        metric.refuse_outside(wide[name], name)
        if metric != own_column(name):
            own.append(metric)
    return wide.rename_axis(columns=None).reset_index(), own


def _stated(rows: pd.DataFrame, metric: str, column: str) -> Any:
    """Return the one thing that files say of a metric; None where none says it."""
    stated = rows[rows["metric"].eq(metric)].dropna(subset=column).drop_duplicates(column)
    if len(stated) > 1:
        first, second = stated[["run_id", column]].head(2).to_dict("records")
        raise DataError(
            f"{metric} has {column} {first[column]} in {first['run_id']} and {second[column]} in"
            f" {second['run_id']}",
            field="results.reported",
            allowed="one meaning of a metric; or results.reported without that column",
        )
    return stated[column].iloc[0] if len(stated) else None


def scored_and_stored(
    results: Results, golden: Golden, metrics: Asked = None, *, is_alone: bool = False,
    more: tuple[str, ...] = (), **how: Any,
) -> tuple[Scored, list[str]]:  # fmt: skip
    """Score results, and put the stored scores that are asked for beside or in the place of ours.

    Asked for are those named; by default those that a judge gave, and all without a golden set.

    Parameters
    ----------
    is_alone
        True if there is no golden set: `golden` holds the queries of the results, and stored
        scores go first.
    more
        Labels that are scored, too, as those that decide.

    Returns
    -------
    What `scored` returns, with these columns, and the names of the stored ones.
    """
    values, own = stored_columns(results)
    names, table = [str(name) for name in values if name not in KEYS], table_of(metrics)
    given = asked_of(metrics)
    judged = set() if results.judgments is None else {*results.judgments["criterion"]}
    stored = [
        name for name in names
        if is_alone or table.is_own(name)
        or (table.describe(name).family == "judged" and name not in judged)
    ]  # fmt: skip
    by_default = [name for name in stored if is_alone or name in judged]
    named = [name for name in given if name in stored]
    wanted = list(dict.fromkeys([*named, *by_default] if DEFAULT in given else named))
    deciding = [one for one in more if one not in names and not table.is_own(one)]
    ours = [*(one for one in given if one not in stored), *deciding]
    found = scored(results, golden, ours or ["failed"], **how)
    replaced = wanted if ours else [*wanted, "failed"]
    scores = found.scores.drop(columns=replaced, errors="ignore")
    if wanted:
        computed = metric_columns(scores) if is_alone else []
        scores = add_columns(scores, values, wanted, partial=True)
        scores = scores[[*scores.columns.drop(computed), *computed]]
    elif is_alone and metrics is None:  # nothing to compare runs by, unless something happened
        is_something = scores[metric_columns(scores)].fillna(0).any()
        scores = scores.drop(columns=is_something.index[~is_something])
    if mine := [one for one in own if one.name in wanted]:
        found = replace(found, table=found.table.with_metrics(mine))
    return replace(found, scores=scores), wanted


def deciding_of(scores: pd.DataFrame, names: list[str], table: MetricTable) -> tuple[str, ...]:
    """Return the stored metrics that decide: those with a direction, the first five of them.

    One that less than half of the rows have doesn't. Without any, the first that isn't the same
    everywhere.
    """
    counts = scores[names].notna().sum()
    known = [
        name for name in names
        if table.describe(name).better in ("higher", "lower")
        and 2 * counts[name] >= counts.max()  # else it is about a few of the queries
    ]  # fmt: skip
    varying = [name for name in names if scores[name].nunique() > 1]
    return tuple(known[:5] or (varying or names)[:1])  # more would hide each other


def golden_of(results: Results, labels: list[Golden]) -> Golden:
    """Return the golden set of runs without one of their own: their queries, with their labels.

    Runs are paired by the ids of their queries; a warning names ids of different inputs.
    `labels` are labels beside results in their files.
    """
    responses, own = results.responses, results.responses.drop_duplicates("query_id")
    texts = responses[["query_id", "query"]].dropna().drop_duplicates()
    others = texts[texts.duplicated("query_id", keep=False)]
    if len(others):
        first = others["query_id"].iloc[0]
        shown = others.loc[others["query_id"].eq(first), "query"].head(2).map(excerpt)
        warn(
            f"{plural(others['query_id'].nunique(), 'id')} for different inputs, first {first!r}"
            f" for {' and '.join(shown)}: queries are paired by their ids; give the same input the"
            ' same id, as by columns={"query_id": ...}'
        )
    # Other fields that are the same in all runs, as the subject of an item is, slice and make
    # clusters; JSON is left to the responses, and what is a kind of tag already.
    kinds = {f"x_{kind}" for golden in labels for kind in golden.tags["kind"]}
    names = [str(one) for one in responses if str(one).startswith("x_") and one not in kinds]
    n_values = responses.groupby("query_id")[names].nunique().max()
    same = [one for one in names if n_values[one] == 1 and not one.endswith(".json")]
    queries = own[["query_id", "query", *same]].reset_index(drop=True)
    queries["query"] = queries["query"].fillna(queries["query_id"])
    return _labelled(queries.assign(position=np.arange(len(own))), labels)


def _labelled(asked: pd.DataFrame, parts: list[Golden]) -> Golden:
    """Return the labels of the queries that were asked; of several of one query, the first."""
    if not parts:
        return Golden(asked)
    kept, known = [], asked["query_id"]
    for part in parts:
        own = part.queries[is_among(part.queries["query_id"], known)]
        known = known[~is_among(known, own["query_id"])]
        kept.append(golden_part(part, own))
    frames = {
        item.name: pd.concat([getattr(one, item.name) for one in kept], ignore_index=True)
        for item in fields(Golden)
    }
    about = frames.pop("queries").drop(columns=["query", "position"], errors="ignore")
    return Golden(asked.merge(about, on="query_id", how="left"), **frames)
