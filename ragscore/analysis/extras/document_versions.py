"""Freshness of hits: outdated documents, and versions of one thing side by side.

In: `Results` and the documents frame (`rs.load_documents`). Out: one row per hit, per query (as
metric columns), per run.
"""

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Results, conform
from ragscore.scoring.rules import response_of

PREFIX = "freshness"
VERSIONS = {"version_key": "str", "effective_timestamp": "Int64", "superseded_by": "str"}


def freshness(
    results: Results,
    documents: pd.DataFrame | None = None,
    k: int = 10,
    *,
    empty_value: float = np.nan,
) -> pd.DataFrame:
    """Return the freshness of the first k hits of every query.

    A hit is stale if another document supersedes its document, or if another with the same
    version_key has a later effective_timestamp. Two or more documents of one version_key among the
    hits are in conflict; chunks of one document are not.

    Parameters
    ----------
    documents
        The documents frame; by default that of the results.
    k
        Hits of rank ≤ k are considered.
    empty_value
        The value of a query without hits.

    Returns
    -------
    One row per response: `considered` hits; `n_stale`, `n_conflicting` and `n_unknown` of them
    (unknown: the documents frame lacks the document, and the hit counts as fresh);
    `freshness.stale_free_rate@k` and `freshness.conflict_free_rate@k`, 1 - their share (0 to 1,
    higher is better; NaN without hits). `rs.add_columns(scores, table)` makes metrics of these.

    Raises
    ------
    DataError
        There is no documents frame, it has a document twice for one run, the hits have no doc_id,
        or k < 1.
    """
    hits = _versioned_hits(results, documents, k)
    responses = results.responses.reset_index(drop=True)
    flags = pd.DataFrame(
        {
            "considered": True,
            "n_stale": hits["replaced_by"].notna(),
            "n_conflicting": hits["conflicting"],
            "n_unknown": ~hits["known"],
        },
        index=hits.index,
    )
    counts = flags.groupby(response_of(hits, responses)).sum()
    counts = counts.reindex(responses.index, fill_value=0).astype("int64")
    keys = responses[["run_id", "query_id"]].astype({"run_id": "str"})
    table = pd.concat([keys, counts], axis=1)
    n = counts["considered"].to_numpy()
    for name, count in (("stale_free", "n_stale"), ("conflict_free", "n_conflicting")):
        with np.errstate(invalid="ignore", divide="ignore"):
            rate = np.where(n > 0, 1 - counts[count].to_numpy() / n, empty_value)
        table[f"{PREFIX}.{name}_rate@{k}"] = rate
    return table


def freshness_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the freshness of each run, from `freshness`.

    Returns
    -------
    One row per run: `n_queries` measured, `considered` hits; `stale_rate` and `conflict_rate`,
    shares of all these hits; `stale_query_rate` and `conflict_query_rate`, shares of queries with
    at least one (0 to 1, lower is better).
    """
    rates = [name for name in table.columns if name.startswith(f"{PREFIX}.stale_free_rate@")]
    if not rates:
        raise DataError("no freshness columns", field="table", allowed="what rs.freshness returns")
    rows = table[table[rates[0]].notna()]
    grouped = rows.assign(
        any_stale=rows["n_stale"] > 0, any_conflict=rows["n_conflicting"] > 0
    ).groupby("run_id", observed=False)
    considered, n_stale, n_conflicting = (
        grouped[name].sum() for name in ("considered", "n_stale", "n_conflicting")
    )
    n_hits = considered.astype("float64").replace(0.0, np.nan)
    summary = pd.DataFrame(
        {
            "n_queries": grouped.size(),
            "considered": considered,
            "stale_rate": n_stale.astype("float64") / n_hits,
            "stale_query_rate": grouped["any_stale"].mean(),
            "conflict_rate": n_conflicting.astype("float64") / n_hits,
            "conflict_query_rate": grouped["any_conflict"].mean(),
        }
    )
    return summary.reset_index()


def stale_hits(
    results: Results, documents: pd.DataFrame | None = None, k: int = 10
) -> pd.DataFrame:
    """Return the stale hits among the first k.

    Returns
    -------
    One row per stale hit: run_id, query_id, rank, doc_id; `replaced_by`, the document named as its
    successor, else the newest of its version_key; `reason` ("superseded" or "newer version").
    """
    hits = _versioned_hits(results, documents, k)
    columns = ["run_id", "query_id", "rank", "doc_id", "replaced_by", "reason"]
    return hits.loc[hits["replaced_by"].notna(), columns].reset_index(drop=True)


def version_conflicts(
    results: Results, documents: pd.DataFrame | None = None, k: int = 10
) -> pd.DataFrame:
    """Return the hits among the first k that stand beside another version of the same thing.

    Returns
    -------
    One row per such hit: run_id, query_id, `version_key`, rank, doc_id; the versions of one key
    together, keys in the order of their first hit.
    """
    hits = _versioned_hits(results, documents, k)
    keys = ["run_id", "query_id"]
    rows = hits[hits["conflicting"]]
    first = rows.groupby([*keys, "version_key"], observed=True)["rank"].transform("min")
    ordered = rows.assign(first=first).sort_values(
        [*keys, "first", "rank"], kind="stable", ignore_index=True
    )
    return ordered[[*keys, "version_key", "rank", "doc_id"]]


def stale_flag_rate(results: Results, k: int = 10) -> pd.DataFrame:
    """Return how often systems marked their own first k hits as stale (`hits.stale`).

    Returns
    -------
    One row per run: `n_hits` with a mark, `n_stale` of them, `stale_rate` (0 to 1, lower is
    better), and `stale_query_rate`, the share of queries with at least one. NaN without a mark.
    """
    hits = results.hits[results.hits["rank"] <= k]
    marks = hits.get("stale", pd.Series(pd.NA, index=hits.index)).astype("boolean")
    rows = hits[["run_id", "query_id"]].assign(stale=marks.astype("Float64")).dropna()
    rows = rows.astype({"stale": "float64"})
    by_query = rows.groupby(["run_id", "query_id"], observed=True)["stale"].max().reset_index()
    grouped = rows.groupby("run_id", observed=False)["stale"]
    table = pd.DataFrame(
        {
            "n_hits": grouped.size(),
            "n_stale": grouped.sum().astype("int64"),
            "stale_rate": grouped.mean(),
            "stale_query_rate": by_query.groupby("run_id", observed=False)["stale"].mean(),
        }
    )
    return table.reset_index()


def _versioned_hits(results: Results, documents: pd.DataFrame | None, k: int) -> pd.DataFrame:
    """Return the first k hits with what the documents frame tells about each.

    Columns: known, version_key, replaced_by, reason, conflicting.
    """
    if k < 1:
        raise DataError(f"found {k}", field="k", allowed="whole numbers from 1")
    documents = results.documents if documents is None else documents
    if documents is None:
        raise DataError(
            "there is no documents frame",
            field="documents",
            allowed="documents=rs.load_documents(path), or Results(..., documents=frame)",
        )
    versions = conform(documents, "documents")
    for name, dtype in VERSIONS.items():
        if name not in versions:
            versions = versions.assign(
                **{name: pd.Series(pd.NA, index=versions.index, dtype=dtype)}
            )
    if "doc_id" not in results.hits:
        raise DataError(
            "the hits have no doc_id", field="hits.doc_id", allowed="hits that name their documents"
        )
    hits = results.hits.loc[
        results.hits["rank"] <= k, ["run_id", "query_id", "rank", "doc_id"]
    ].sort_values(["run_id", "query_id", "rank"], kind="stable")
    is_per_run = "run_id" in versions and versions["run_id"].notna().any()
    if not is_per_run or not len(results.runs):
        return _with_versions(hits, versions)
    # a run has its own documents, and those of no run in particular
    owner = versions["run_id"].astype("str")
    parts = [
        _with_versions(hits[hits["run_id"] == run_id], versions[owner.isna() | (owner == run_id)])
        for run_id in results.runs["run_id"].astype("str")
    ]
    return pd.concat(parts, ignore_index=True)


def _with_versions(hits: pd.DataFrame, versions: pd.DataFrame) -> pd.DataFrame:
    """Join the documents of one run to its hits, and mark conflicting versions."""
    documents = versions[["doc_id", *VERSIONS]].drop_duplicates()
    if (repeated := documents.duplicated("doc_id")).any():
        raise DataError(
            f"{documents.loc[repeated, 'doc_id'].iloc[0]} stands there twice",
            field="documents.doc_id",
            allowed="one row per document",
        )
    rows = hits.merge(_replacements(documents).assign(known=True), on="doc_id", how="left")
    keys = ["run_id", "query_id", "version_key"]
    n_versions = rows.groupby(keys, observed=True)["doc_id"].transform("nunique")
    return rows.assign(known=rows["known"].notna(), conflicting=n_versions > 1)


def _replacements(documents: pd.DataFrame) -> pd.DataFrame:
    """Return each document's version_key, its replacement (NA = none) and the reason."""
    dated = documents.dropna(subset=["version_key", "effective_timestamp"]).sort_values(
        "effective_timestamp", ascending=False, kind="stable"
    )
    newest = dated.drop_duplicates("version_key")[["version_key", "doc_id", "effective_timestamp"]]
    newest = newest.rename(columns={"doc_id": "newest", "effective_timestamp": "latest"})
    rows = documents.merge(newest, on="version_key", how="left")
    is_older = (rows["effective_timestamp"] < rows["latest"]).fillna(False).astype(bool)
    named = rows["superseded_by"].mask(rows["superseded_by"] == rows["doc_id"])
    reason = pd.Series(pd.NA, index=rows.index, dtype="str").mask(is_older, "newer version")
    return rows[["doc_id", "version_key"]].assign(
        replaced_by=named.fillna(rows["newest"].where(is_older)),
        reason=reason.mask(named.notna(), "superseded"),
    )
