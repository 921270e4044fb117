"""Scores that another tool stored of single queries: metrics beside ours, and without labels alone.

In: results with stored scores. Out: a column for each of their metrics, with what its file says of
it; the golden set of runs that have no labels.
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import excerpt, name_list, plural, warn
from ragscore.io.records import ABOUT_METRIC
from ragscore.scoring.metrics import TABLE, Label, Metric, MetricTable, own_column
from ragscore.scoring.metrics.judged import FAILED
from ragscore.scoring.own import with_own
from ragscore.scoring.score import DEFAULT, Asked, Scored, scored, table_of
from ragscore.scoring.summary import add_columns, metric_columns

_CELL = ["run_id", "query_id"]
MOST_DECIDING = 5  # stored metrics that decide by default


def stored_values(results: Results) -> pd.DataFrame:
    """Return the stored scores of single queries, one row per run, query and metric.

    Those that are reported, and those of whole answers that a judge gave under other names than
    ours; a judged score that is reported, too, counts once.

    Returns
    -------
    Columns run_id, query_id, metric, value, and `ABOUT_METRIC`: what the file says of the metric,
    NA where it says nothing.
    """
    names, parts = [*_CELL, "metric", "value", *ABOUT_METRIC], []
    if (reported := results.reported) is not None:
        parts.append(reported[reported["query_id"].ne("").to_numpy()])
    if (judged := results.judgments) is not None:
        ours = [name for name, one in TABLE.items() if one.family == "judged"]
        is_whole = judged["item"].eq("") & ~judged["criterion"].isin([*ours, "nuggets"])
        is_whole &= judged["value"].notna()
        if "state" in judged:
            is_whole &= ~judged["state"].eq(FAILED).fillna(False)
        parts.append(judged[is_whole.to_numpy(bool)].rename(columns={"criterion": "metric"}))
    if not parts:
        return pd.DataFrame(columns=names)
    dtypes = dict.fromkeys([*_CELL, "metric", "better"], "str")
    found = [part.reindex(columns=names).astype(dtypes) for part in parts]
    if reported is not None and len(found) > 1:
        cells = [pd.MultiIndex.from_frame(one[[*_CELL, "metric"]]) for one in found]
        found[1] = found[1][~cells[1].isin(cells[0])]
    return pd.concat(found, ignore_index=True)


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
    rows = stored_values(results)
    names = rows["metric"].unique().tolist()
    means = rows.groupby([*_CELL, "metric"], sort=False)["value"].mean()
    wide = means.unstack("metric").reindex(columns=names).astype("float64")
    own = []
    for name in (one for one in names if TABLE.is_own(one)):
        told = {column: _one_of(rows, name, column) for column in ABOUT_METRIC}
        ends = (told["lowest"], told["highest"])
        metric = with_own(name, told["better"], None if ends == (None, None) else ends)
        metric.refuse_outside(wide[name], name)
        if metric != own_column(name):
            own.append(metric)
    return wide.rename_axis(columns=None).reset_index(), own


def _one_of(rows: pd.DataFrame, metric: str, column: str) -> Any:
    """Return the one thing that files say of a metric; None where none says it."""
    told = rows.loc[rows["metric"].eq(metric), ["run_id", column]].dropna().drop_duplicates()
    values = told[column].unique().tolist()
    if len(values) > 1 and column != "threshold":
        first, second = (told[told[column].eq(one)].iloc[0] for one in values[:2])
        raise DataError(
            f"{metric} has {column} {first[column]} in {first['run_id']} and {second[column]} in"
            f" {second['run_id']}",
            field="results.reported",
            allowed="one meaning of a metric; or results.reported without that column",
        )
    return values[0] if len(values) == 1 else None


def scored_and_stored(
    results: Results, golden: Golden, metrics: Asked = None, *, is_alone: bool = False,
    more: tuple[str, ...] = (), **how: Any,
) -> tuple[Scored, list[str]]:  # fmt: skip
    """Score results, and put the stored scores that are asked for beside or in the place of ours.

    Asked for are those named; by default those that a judge gave, and all without a golden set.

    Parameters
    ----------
    is_alone
        True if there is no golden set: `golden` holds the queries of the results. Only metrics of
        which a row has a value are kept.
    more
        Labels that are scored, too, as those that decide.

    Returns
    -------
    What `scored` returns, with these columns, and the names of the stored ones.
    """
    values, own = stored_columns(results)
    names, table = [str(name) for name in values if name not in _CELL], table_of(metrics)
    given = [metrics] if isinstance(metrics, (str, Metric, Label)) else list(metrics or [DEFAULT])

    def is_stored(name: Any) -> bool:
        return name in names and (is_alone or table.is_own(name))

    wanted = [str(name) for name in given if is_stored(name)]
    ours = [one for one in given if one not in wanted]
    if DEFAULT in given:
        judged = set(() if results.judgments is None else results.judgments["criterion"])
        wanted += [name for name in names if is_alone or (is_stored(name) and name in judged)]
    wanted = list(dict.fromkeys(wanted))
    named = [one for one in more if one not in names and not table.is_own(one)]
    found = scored(results, golden, [*ours, *named] or ["failed"], **how)
    scores = found.scores if ours or named else found.scores.drop(columns="failed")
    scores = scores.drop(columns=[name for name in wanted if name in scores])
    if wanted:
        scores = add_columns(scores, values, wanted, partial=True)
    if is_alone and DEFAULT in given:
        rest = [name for name in metric_columns(scores) if name not in wanted]
        # without any hit it isn't known whether some came back
        idle = [
            name
            for name in rest
            if not scores[name].any() or (name == "empty" and not len(results.hits))
        ]
        first = [name for name in scores if name not in metric_columns(scores)]
        scores = scores[[*first, *wanted, *(name for name in rest if name not in idle)]]
    both = found.table.with_metrics(one for one in own if one.name in wanted)
    return replace(found, scores=scores, table=both), wanted


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
    return tuple(known[:MOST_DECIDING] or varying[:1] or names[:1])


def golden_of(results: Results, labels: list[Golden]) -> Golden:
    """Return the golden set of runs without one of their own: their queries, with their labels.

    Runs are paired by the ids of their queries; ids that stand for different inputs are warned of.
    `labels` are those that stand beside results in their files.
    """
    responses = results.responses
    texts = responses[["query_id", "query"]].dropna().drop_duplicates()
    if len(others := texts[texts.duplicated("query_id", keep=False)]):
        first, *_ = others["query_id"]
        shown = " and ".join(map(excerpt, others.loc[others["query_id"].eq(first), "query"][:2]))
        warn(
            f"{plural(others['query_id'].nunique(), 'id')} of different inputs, first {first!r} of"
            f" {shown}: queries are paired by their ids; give the same input the same id, as by"
            ' columns={"query_id": ...}'
        )
    asked = responses.astype({"run_id": "str"}).groupby("run_id")["query_id"].nunique()
    own = responses.drop_duplicates("query_id")
    if len(few := asked[asked < len(own)]):
        counts = ", ".join(f"{run} {n}" for run, n in (len(own) - few).items())
        warn(f"queries that a run wasn't asked, and others were: {counts} of {len(own)}")
    queries = own[["query_id", "query"]].assign(position=np.arange(len(own)))
    queries["query"] = queries["query"].fillna(queries["query_id"])
    kinds = {kind for golden in labels for kind in golden.tags["kind"]}
    # Other fields that are the same in all runs, as the subject of an item is, slice and make
    # clusters; JSON is left to the responses, and what is a kind of tag already.
    names = [str(one) for one in responses if str(one).startswith("x_")]
    free = [
        one for one in names if one.removeprefix("x_") not in kinds and not one.endswith(".json")
    ]
    same = [one for one in free if responses.groupby("query_id")[one].nunique().max() == 1]
    queries = queries.assign(**{name: own[name] for name in same})
    return _joined(Golden(queries.reset_index(drop=True)), labels)


def _joined(asked: Golden, parts: list[Golden]) -> Golden:
    """Return the labels of the queries that were asked; of several of one query, the first."""
    known, seen = asked.queries["query_id"], set[str]()
    frames: dict[str, list[pd.DataFrame]] = {}
    for part in parts:
        is_new = is_among(part.queries["query_id"], known) & ~part.queries["query_id"].isin(seen)
        ids = part.queries.loc[is_new, "query_id"]
        seen |= set(ids)
        for item in fields(Golden):
            frame = getattr(part, item.name)
            if "query_id" in frame and len(frame):
                frames.setdefault(item.name, []).append(frame[is_among(frame["query_id"], ids)])
    joined = {name: pd.concat(found, ignore_index=True) for name, found in frames.items()}
    if (labelled := joined.pop("queries", None)) is None:
        return asked
    own = labelled.drop(columns=["query", "position"], errors="ignore")
    queries = asked.queries.drop(columns="answerable").merge(own, on="query_id", how="left")
    return Golden(queries, **joined)


def averaged(results: Results, names: pd.Series) -> Results:
    """Return results with one run per name: the first of the repeats that have it.

    `names` has a name for each run id (its index).
    """
    first = names.drop_duplicates()
    return _named(results.select(first.index.tolist()), first)


def sides_named(sides: list[Results]) -> list[Results]:
    """Return the two sides of a comparison, each with runs of one system, and names of their own.

    The system of repeats is called as their runs are, without the number of the repeat.

    Raises
    ------
    DataError
        A side with several systems, or with none.
    """
    found = []
    for place, side in zip(("baseline", "candidate"), sides, strict=True):
        runs = side.runs["run_id"].astype("str")
        names = runs.str.replace(r"-r[0-9]+$", "", regex=True) if len(runs) > 1 else runs
        if names.nunique() != 1:
            raise DataError(
                f"found {plural(len(runs), 'run')} ({name_list(runs)})",
                field=place,
                allowed="one run, or repeats of one; rs.evaluate(...).compare(...) takes two of"
                " many",
            )
        found.append(replace(side, runs=side.runs.assign(system=names.to_numpy())))
    both = [set(side.runs["run_id"]) | set(side.runs["system"]) for side in found]
    if not both[0] & both[1]:
        return found
    named = []
    for place, side in zip(("baseline", "candidate"), found, strict=True):
        runs = side.runs["run_id"].astype("str")
        side = replace(side, runs=side.runs.assign(system=side.runs["system"] + f".{place}"))
        named.append(_named(side, (runs + f".{place}").set_axis(runs)))
    return named


def _named(results: Results, names: pd.Series) -> Results:
    """Return results whose runs are called otherwise; `names` has the new name of each."""
    frames: dict[str, Any] = {}
    for item in fields(results):
        frame = getattr(results, item.name)
        if frame is not None and "run_id" in frame:
            run = frame["run_id"].astype("str")
            frames[item.name] = frame.assign(run_id=run.map(names).where(run.notna()))
    return replace(results, **frames)
