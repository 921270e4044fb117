"""Scores that another tool stored of single queries: metrics beside ours, and without labels alone.

In: results with stored scores. Out: a column for each of their metrics, with what its file says of
it; the golden set of runs that have no labels.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import excerpt, name_list, names_of, plural, warn
from ragscore.io.records import ABOUT_METRIC
from ragscore.scoring.judgments import FAILED, judged_metrics
from ragscore.scoring.metrics import (
    CRITERIA,
    DEFAULT,
    LABELS,
    Declarations,
    default_metrics,
    is_own,
    parse_label,
)
from ragscore.scoring.summary import add_columns
from ragscore.scoring.value_states import metric_columns

_CELL = ["run_id", "query_id"]
MOST_DECIDING = 5  # stored metrics that decide by default


def stored_values(results: Results) -> pd.DataFrame:
    """Return the stored scores of single queries, one row per run, query and metric.

    Those that are reported, and those of whole answers that a judge gave under other names than
    ours. Several of a cell, as of several judges, are averaged.

    Returns
    -------
    Columns run_id, query_id, metric, value, and `ABOUT_METRIC`: what the file says of the metric,
    NA where it says nothing.
    """
    parts = []
    if results.reported is not None:
        parts.append(results.reported[results.reported["query_id"].ne("").to_numpy()])
    if (judged := results.judgments) is not None:
        is_whole = judged["item"].eq("") & ~judged["criterion"].isin(CRITERIA)
        has_failed = judged["state"].eq(FAILED).fillna(False) if "state" in judged else False
        judged = judged[(is_whole & ~has_failed & judged["value"].notna()).to_numpy(dtype=bool)]
        parts.append(judged.rename(columns={"criterion": "metric"}))
    dtypes = dict.fromkeys([*_CELL, "metric", "better"], "str")
    rows = [part.reindex(columns=[*_CELL, "metric", "value", *ABOUT_METRIC]) for part in parts]
    if not rows:
        return pd.DataFrame(columns=[*_CELL, "metric", "value", *ABOUT_METRIC])
    found = pd.concat([one.astype(dtypes) for one in rows], ignore_index=True)
    # a judged score is reported, too: once is enough, and the reported row knows more
    reported = pd.MultiIndex.from_frame(found[[*_CELL, "metric"]].iloc[: len(rows[0])])
    cells = pd.MultiIndex.from_frame(found[[*_CELL, "metric"]])
    if results.reported is not None:
        is_first = np.arange(len(found)) < len(rows[0])
        found = found[is_first | ~cells.isin(reported)]
    return found.reset_index(drop=True)


def stored_columns(results: Results) -> tuple[pd.DataFrame, Declarations]:
    """Return the stored scores as columns, and what is declared of those that aren't ours.

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
    declared = Declarations()
    for name in (one for one in names if is_own(one)):
        told = {column: _one_of(rows, name, column) for column in ABOUT_METRIC}
        ends = (told["lowest"], told["highest"])
        bounds = None if ends == (None, None) else ends
        declared = declared.with_own(name, told["better"], bounds)
        declared.describe(name).refuse_outside(wide[name], name)
    return wide.rename_axis(columns=None).reset_index(), declared


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


@dataclass(frozen=True)
class Asked:
    """What is scored: `labels` by us (None: the default ones), and `stored` columns.

    `left_out` are scored for nothing but the rows of the frame; with `only_valued`, columns without
    any value are left out.
    """

    labels: list[str] | None
    stored: pd.DataFrame
    declared: Declarations
    left_out: tuple[str, ...] = ()
    only_valued: bool = False


def asked_of_stored(
    results: Results,
    golden: Golden,
    labels: list[str] | str | None,
    is_alone: bool,
    declared: Declarations,
) -> Asked:
    """Return which metrics are scored and which are read.

    Those asked for by name; by default those that a judge gave, and all without a golden set.
    """
    values, told = stored_columns(results)
    names = [str(name) for name in values if name not in _CELL]
    given = names_of([] if labels is None else labels, "metrics", LABELS) or [DEFAULT]
    ours = [name for name in given if name not in names or not _is_stored(name, declared, is_alone)]
    wanted = [name for name in given if name not in ours]
    if DEFAULT in given:
        judged = set(() if results.judgments is None else results.judgments["criterion"])
        wanted += [name for name in names if is_alone or (is_own(name) and name in judged)]
    stored = values[[*_CELL, *dict.fromkeys(wanted)]]
    if is_alone and DEFAULT in ours:
        at = ours.index(DEFAULT)
        default = default_metrics(judged_metrics(results.judgments))
        known = [one for one in default if len(golden.targets) or not parse_label(one).is_ranking]
        ours = [*ours[:at], *known, *ours[at + 1 :]]
        return Asked(ours, stored, told.of(wanted), only_valued=True)
    if labels is None:
        return Asked(None, stored, told.of(wanted))
    return Asked(ours or ["failed"], stored, told.of(wanted), () if ours else ("failed",))


def with_deciding(asked: Asked, names: list[str], results: Results) -> Asked:
    """Return what is scored with the metrics of ours that decide and weren't asked for."""
    known = set(asked.labels or [])
    if asked.labels is None or DEFAULT in asked.labels:
        known |= set(default_metrics(judged_metrics(results.judgments)))
    more = [name for name in names if not is_own(name) and name not in known]
    return replace(asked, labels=[*(asked.labels or [DEFAULT]), *more]) if more else asked


def _is_stored(name: str, declared: Declarations, is_alone: bool) -> bool:
    """Tell if a name asked for is that of a stored metric, and not of one that we compute."""
    return is_alone or (is_own(name) and declared.find(name) is None)


def with_stored(
    scores: pd.DataFrame, results: Results, asked: Asked, declared: Declarations
) -> tuple[pd.DataFrame, Declarations, list[str]]:
    """Return scores with the stored columns asked for, what is declared, and their names.

    Stored values take the place of ours of the same name: they are what was asked for.
    """
    names = [str(name) for name in asked.stored if name not in _CELL]
    scores = scores.drop(columns=[*asked.left_out, *(name for name in names if name in scores)])
    if names:
        scores = add_columns(scores, asked.stored, names, partial=True)
    if asked.only_valued:
        computed = scores[[one for one in metric_columns(scores) if one not in names]]
        is_idle = ~computed.any()
        if not len(results.hits):  # without any hit it isn't known whether some came back
            is_idle |= computed.columns == "empty"
        scores = scores.drop(columns=computed.columns[is_idle])
    if asked.only_valued and names:  # what decides comes first
        first = [name for name in scores if name not in metric_columns(scores)]
        rest = [name for name in scores if name not in {*first, *names}]
        scores = scores[[*first, *names, *rest]]
    return scores, declared.joined(asked.declared), names


def deciding_of(scores: pd.DataFrame, names: list[str], declared: Declarations) -> tuple[str, ...]:
    """Return the stored metrics that decide: those with a direction, the first five of them.

    One that less than half of the rows have doesn't. Without any, the first that isn't the same
    everywhere.
    """
    counts = scores[names].notna().sum()
    known = [
        name for name in names
        if declared.describe(name).better in ("higher", "lower")
        and 2 * counts[name] >= counts.max()  # else it is about a few of the queries
    ]  # fmt: skip
    varying = [name for name in names if scores[name].nunique() > 1]
    return tuple(known[:MOST_DECIDING] or varying[:1] or names[:1])


def golden_of(results: Results, labels: list[tuple[Results, Golden]]) -> tuple[Results, Golden]:
    """Return runs without a golden set of their own, and one: their queries, with their labels.

    Runs are paired by the ids of their queries; ids that stand for different inputs are warned of.

    Parameters
    ----------
    labels
        The labels that stand beside results, with those that they stand beside.
    """
    texts = results.responses[["query_id", "query"]].dropna().drop_duplicates()
    if len(others := texts[texts.duplicated("query_id", keep=False)]):
        first, *_ = others["query_id"]
        shown = " and ".join(map(excerpt, others.loc[others["query_id"].eq(first), "query"][:2]))
        warn(
            f"{plural(others['query_id'].nunique(), 'id')} of different inputs, first {first!r} of"
            f" {shown}: queries are paired by their ids; give the same input the same id, as by"
            ' columns={"query_id": ...}'
        )
    asked = results.responses.astype({"run_id": "str"}).groupby("run_id")["query_id"].nunique()
    own = results.responses.drop_duplicates("query_id")
    if len(few := asked[asked < len(own)]):
        counts = ", ".join(f"{run} {n}" for run, n in (len(own) - few).items())
        warn(f"queries that a run wasn't asked, and others were: {counts} of {len(own)}")
    queries = own[["query_id", "query"]].assign(position=np.arange(len(own)))
    queries["query"] = queries["query"].fillna(queries["query_id"])
    kinds = {kind for _, golden in labels for kind in golden.tags["kind"]}
    # Other fields that are the same in all runs, as the subject of an item is, slice (`by=`)
    # and make clusters (`cluster=`). JSON is left to the responses, and what is a kind of tag
    # already.
    found = {}
    for name in (str(one) for one in results.responses if str(one).startswith("x_")):
        values = results.responses.groupby("query_id")[name].nunique()
        is_free = name.removeprefix("x_") not in kinds and not name.endswith(".json")
        if is_free and values.max() == 1:
            found[name] = own[name]
    queries = queries.assign(**found)
    return results, _joined(Golden(queries.reset_index(drop=True)), [one for _, one in labels])


def _joined(asked: Golden, parts: list[Golden]) -> Golden:
    """Return the labels of the queries that were asked; of several of one query, the first."""
    known = asked.queries["query_id"]
    frames: dict[str, list[pd.DataFrame]] = {}
    seen: set[str] = set()
    for part in parts:
        is_new = is_among(part.queries["query_id"], known) & ~part.queries["query_id"].isin(seen)
        ids = part.queries.loc[is_new, "query_id"]
        seen |= set(ids)
        for item in fields(Golden):
            frame = getattr(part, item.name)
            if "query_id" in frame and len(frame):
                own = frame[is_among(frame["query_id"], ids)]
                frames.setdefault(item.name, []).append(own)
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
