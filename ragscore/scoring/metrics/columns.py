"""The columns of ranking metrics: from graded hits and targets to one value per query asked."""

from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import codes_of, lookup, pair_codes
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.typing import Values
from ragscore.scoring.metrics.credit import (
    Credit,
    creditable_targets,
    in_order,
    irrelevant_targets,
    stated_gains,
)
from ragscore.scoring.metrics.declaration import Label
from ragscore.scoring.metrics.labels import parse_label
from ragscore.scoring.metrics.lists import HitLists
from ragscore.scoring.metrics.needs import IRRELEVANT, judges_irrelevant


def score_hits(
    graded: pd.DataFrame,
    found: pd.DataFrame,
    golden: Golden,
    rows: pd.DataFrame,
    metrics: list[str] | str,
) -> pd.DataFrame:
    """Compute ranking metrics of every query asked.

    Parameters
    ----------
    graded, found
        From `grade_hits`.
    golden
        With the targets those were graded against (see `targets_at`), and its support groups.
    rows
        One row per query asked: run_id, query_id, n_hits. A query without hits is here too, and
        scores 0, whatever `graded` says of it.
    metrics
        Labels of ranking metrics; a `:level` suffix is not interpreted here.

    Returns
    -------
    One float64 column per label, with the index of `rows`; NaN where the query has no target of
    grade ≥ 1. `bpref` is NaN everywhere if the golden set has no target of grade 0.
    """
    check_type(golden, Golden, "golden")
    missing = [name for name in ("run_id", "query_id", "n_hits") if name not in rows]
    if missing:
        raise DataError(
            f"columns {missing} are missing", field="rows", allowed="run_id, query_id and n_hits"
        )
    labels = [parse_label(one) for one in ([metrics] if isinstance(metrics, str) else metrics)]
    columns = ranking_columns(graded, found, golden, rows, labels)
    return pd.DataFrame(columns, index=rows.index, copy=False)


def ranking_columns(
    graded: pd.DataFrame,
    found: pd.DataFrame,
    golden: Golden,
    rows: pd.DataFrame,
    labels: list[Label],
    knows_irrelevant: bool | None = None,
    results: Results | None = None,
    is_part: bool = False,
) -> dict[str, Values]:
    """Return the columns of `score_hits` as arrays.

    `knows_irrelevant` tells if the whole golden set, of which this one may be a part, judges any
    document as not relevant. Metrics of your own read `results`, to whose responses `rows` then
    point, and which may be a part of a run.
    """
    if not isinstance(rows["run_id"].dtype, pd.CategoricalDtype):
        rows = rows.assign(run_id=rows["run_id"].astype("str").astype("category"))
    queries = pd.Index(golden.queries["query_id"])
    credit = _credit(graded, golden.targets, rows, queries)
    credit.stated = stated_gains(golden.targets)
    credit.complete_rank = cache(
        lambda: _complete_rank(found, golden.support_groups, rows, queries)
    )
    if results is not None:
        credit.listed = cache(lambda: _hit_lists(graded, results, rows, queries, is_part))
    columns: dict[str, Values] = {}
    for label in labels:
        if IRRELEVANT in label.metric.needs and knows_irrelevant is None:
            knows_irrelevant = judges_irrelevant(golden.targets)
        if IRRELEVANT in label.metric.needs and not knows_irrelevant:
            columns[label.text] = np.full(len(rows), np.nan)
        else:
            columns[label.text] = credit.score(label)
    return columns


def _credit(
    graded: pd.DataFrame,
    targets: pd.DataFrame,
    rows: pd.DataFrame,
    queries: pd.Index,
) -> Credit:
    row = _row_with_hits(graded, rows, queries)
    order = in_order(row, graded["rank"].to_numpy())
    row_query = lookup(rows["query_id"], queries)
    names = ("rank", "grade", "gain", "n_found")
    numbers = {name: graded[name].to_numpy().astype(np.int64)[order] for name in names}
    return Credit.of(
        {"row": row[order], **numbers}, rows["n_hits"].to_numpy("float64"),
        creditable_targets(targets, queries), row_query, len(queries),
        lambda: irrelevant_targets(targets, queries)[row_query],
    )  # fmt: skip


def _hit_lists(
    graded: pd.DataFrame,
    results: Results,
    rows: pd.DataFrame,
    queries: pd.Index,
    is_part: bool,
) -> HitLists:
    """Return all hits, list by list, with the grades of those that were judged."""
    hits = results.hits
    row, rank = _row_with_hits(hits, rows, queries), hits["rank"].to_numpy().astype(np.int64)
    at = in_order(row, rank)
    row, rank = row[at], rank[at]
    judged_row = _row_with_hits(graded, rows, queries)
    judged = graded[judged_row >= 0]
    of_judged = judged["rank"].to_numpy()
    depth = int(rank.max(initial=0)) + 1
    place = np.searchsorted(row * depth + rank, judged_row[judged_row >= 0] * depth + of_judged)
    names = ("grade", "gain", "n_found")
    of_hits = {name: np.zeros(len(at), np.int64) for name in names}
    for name in names:
        of_hits[name][place] = judged[name].to_numpy()
    places = {"hits": at, "responses": rows["response"].to_numpy()}
    frames = {"hits": hits, "responses": results.responses}
    run = codes_of(rows["run_id"]).astype(np.int64)
    return HitLists(
        "hits", row, len(rows), frames, places, run, is_part, rank=rank, grade=of_hits["grade"],
        gain=of_hits["gain"], n_found=of_hits["n_found"],
    )  # fmt: skip


def _row_with_hits(
    frame: pd.DataFrame, rows: pd.DataFrame, queries: pd.Index
) -> npt.NDArray[np.int64]:
    """Return the position in `rows` of each (run_id, query_id) of `frame`, -1 for none.

    -1 also where the row has no hits: hits of a query that the run has no response to count for
    nothing.
    """
    run_ids = rows["run_id"].cat.categories
    keys, wanted = (
        pair_codes(one, ("run_id", "query_id"), run_ids, queries) for one in (rows, frame)
    )
    # A dense table of run × query is as large as the scores themselves, and a look-up in it needs
    # no sorting.
    known = np.full(len(run_ids) * len(queries) + 1, -1)
    known[keys] = np.where(rows["n_hits"].to_numpy() > 0, np.arange(len(keys)), -1)
    # where rows of queries that nobody asked for have written, and where such rows look
    known[-1] = -1
    return np.take(known, wanted)


def _complete_rank(
    found: pd.DataFrame, support_groups: pd.DataFrame, rows: pd.DataFrame, queries: pd.Index
) -> Values:
    """Return the rank at which some support group of each row is first complete.

    Infinity if none ever is, NaN without groups.
    """
    complete = np.full(len(rows), np.nan)
    if not len(support_groups):
        return complete
    groups = support_groups.drop_duplicates().assign(query=lambda g: lookup(g["query_id"], queries))
    asked = pd.DataFrame({"row": np.arange(len(rows)), "query": lookup(rows["query_id"], queries)})
    members = asked.merge(groups[["query", "group", "target_id"]], on="query")
    met = found[["target_id", "rank"]].assign(
        target_id=found["target_id"].astype("str"), row=_row_with_hits(found, rows, queries)
    )
    members = members.merge(met, on=["row", "target_id"], how="left")
    members["rank"] = members["rank"].fillna(np.inf)
    ranks = members.groupby(["row", "group"])["rank"].max().groupby("row").min()
    complete[ranks.index] = ranks.to_numpy()
    return complete
