"""Freshness of what was retrieved.

Hits that a newer document replaces, and versions of one thing side by side.

In: `Results` and the documents frame (`rs.load_documents`). Out: one row per hit, per query (as
metric columns), per run.
"""

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Results, conform
from ragscore.scoring.matching import response_of

PREFIX = "freshness"


def freshness(
    results: Results,
    documents: pd.DataFrame | None = None,
    k: int = 10,
    *,
    empty_value: float = np.nan,
) -> pd.DataFrame:
    """How fresh the first k hits of every query are.

    A hit is stale if its document is superseded by another, or if another with the same version_key
    has a later effective_timestamp. Two or more documents of one version_key among the hits are in
    conflict; chunks of one document are not.

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
    (unknown: the documents frame doesn't have the document; it counts as fresh);
    `freshness.stale_free_rate@k` and `freshness.conflict_free_rate@k`, 1 - their share (0 to 1,
    higher is better; NaN without hits). `rs.add_columns(scores, table)` makes metrics of these.

    Raises
    ------
    DataError
        There is no documents frame, it has a document twice for one run, the hits have no doc_id,
        or k < 1.
    """
    hits = _versioned_hits(results, documents, k)
    responses = results.responses
    place = response_of(hits, responses)
    known, hits = place >= 0, hits[place >= 0]
    flags = {
        "considered": np.ones(len(hits), dtype=bool),
        "n_stale": hits["replaced_by"].notna(),
        "n_conflicting": hits["conflicting"],
        "n_unknown": ~hits["known"],
    }
    counts = {
        name: (
            np.bincount(place[known], np.asarray(flag, dtype="float64"), len(responses)).astype(
                "int64"
            )
        )
        for name, flag in flags.items()
    }
    n = counts["considered"]
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = {
            name: np.where(n > 0, 1 - counts[count] / n, empty_value)
            for name, count in (("stale_free", "n_stale"), ("conflict_free", "n_conflicting"))
        }
    return pd.DataFrame({
        "run_id": responses["run_id"].to_numpy(), "query_id": responses["query_id"].to_numpy(),
        **counts,
        **{f"{PREFIX}.{name}_rate@{k}": rate for name, rate in rates.items()},
    })  # fmt: skip


def freshness_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Freshness of each run, from `freshness`.

    Returns
    -------
    One row per run: `n_queries` measured, `considered` hits; `stale_rate` and `conflict_rate`,
    shares of all these hits; `stale_query_rate` and `conflict_query_rate`, shares of queries with
    at least one (0 to 1, lower is better).
    """
    rate = next(
        (name for name in table.columns if name.startswith(f"{PREFIX}.stale_free_rate@")), None
    )
    if rate is None:
        raise DataError("no freshness columns", field="table", allowed="what rs.freshness returns")
    rows = table[table[rate].notna()]
    grouped = rows.assign(
        any_stale=rows["n_stale"] > 0, any_conflict=rows["n_conflicting"] > 0
    ).groupby("run_id", observed=False)
    n_hits = grouped["considered"].sum().astype("float64").replace(0.0, np.nan)
    return pd.DataFrame({
        "n_queries": grouped.size(), "considered": grouped["considered"].sum(),
        "stale_rate": grouped["n_stale"].sum().astype("float64") / n_hits,
        "stale_query_rate": grouped["any_stale"].mean(),
        "conflict_rate": grouped["n_conflicting"].sum().astype("float64") / n_hits,
        "conflict_query_rate": grouped["any_conflict"].mean(),
    }).reset_index()  # fmt: skip


def stale_hits(
    results: Results, documents: pd.DataFrame | None = None, k: int = 10
) -> pd.DataFrame:
    """The stale ones of the first k hits.

    Returns
    -------
    One row per stale hit: run_id, query_id, rank, doc_id; `replaced_by`, the document named as its
    successor, else the newest of its version_key; `reason` ("superseded" or "newer version").
    """
    hits = _versioned_hits(results, documents, k)
    stale = hits[hits["replaced_by"].notna()]
    return stale[["run_id", "query_id", "rank", "doc_id", "replaced_by", "reason"]].reset_index(
        drop=True
    )


def version_conflicts(
    results: Results, documents: pd.DataFrame | None = None, k: int = 10
) -> pd.DataFrame:
    """Those of the first k hits that stand beside another version of the same thing.

    Returns
    -------
    One row per such hit: run_id, query_id, `version_key`, rank, doc_id; the versions of one key
    together, keys in the order of their first hit.
    """
    hits = _versioned_hits(results, documents, k)
    rows = hits[hits["conflicting"]]
    first = rows.groupby(["run_id", "query_id", "version_key"], observed=True)["rank"].transform(
        "min"
    )
    ordered = rows.assign(first=first).sort_values(
        ["run_id", "query_id", "first", "rank"], kind="stable", ignore_index=True
    )
    return ordered[["run_id", "query_id", "version_key", "rank", "doc_id"]]


def stale_flag_rate(results: Results, k: int = 10) -> pd.DataFrame:
    """How often the systems themselves marked their first k hits as stale (`hits.stale`).

    Returns
    -------
    One row per run: `n_hits` that say, `n_stale` of them, `stale_rate` (0 to 1, lower is better),
    and `stale_query_rate`, the share of queries with at least one. NaN where no hit says.
    """
    hits = results.hits
    flagged = (
        hits[(hits["rank"] <= k) & hits["stale"].notna()]
        if "stale" in hits
        else hits.iloc[:0].assign(stale=pd.array([], dtype="boolean"))
    )
    rows = pd.DataFrame(
        {
            "run_id": flagged["run_id"],
            "query_id": flagged["query_id"],
            "stale": flagged["stale"].astype("float64"),
        }
    )
    by_query = rows.groupby(["run_id", "query_id"], observed=True)["stale"].max().reset_index()
    grouped = rows.groupby("run_id", observed=False)["stale"]
    return pd.DataFrame({
        "n_hits": grouped.size(), "n_stale": grouped.sum().astype("int64"),
        "stale_rate": grouped.mean(),
        "stale_query_rate": by_query.groupby("run_id", observed=False)["stale"].mean(),
    }).reset_index()  # fmt: skip


def _versioned_hits(results: Results, documents: pd.DataFrame | None, k: int) -> pd.DataFrame:
    """The first k hits with what the documents frame says of each.

    Known, version_key, replaced_by, reason, conflicting.
    """
    if k < 1:
        raise DataError(f"found {k}", field="k", allowed="whole numbers from 1")
    versions = _documents(results, documents)
    if "doc_id" not in results.hits:
        raise DataError(
            "the hits have no doc_id", field="hits.doc_id", allowed="hits that name their documents"
        )
    hits = results.hits.loc[
        results.hits["rank"] <= k, ["run_id", "query_id", "rank", "doc_id"]
    ].sort_values(["run_id", "query_id", "rank"], kind="stable")
    per_run = "run_id" in versions and versions["run_id"].notna().any()
    runs = [str(run_id) for run_id in results.runs["run_id"]] if per_run else [None]
    parts = [
        _joined(
            hits if run is None else hits[hits["run_id"] == run],
            _replacements(_of_run(versions, run)),
        )
        for run in runs
    ]
    return pd.concat(parts, ignore_index=True) if parts else _joined(hits, _replacements(versions))


def _documents(results: Results, documents: pd.DataFrame | None) -> pd.DataFrame:
    found = documents if documents is not None else results.documents
    if found is None:
        raise DataError(
            "there is no documents frame",
            field="documents",
            allowed="documents=rs.load_documents(path), or Results(..., documents=frame)",
        )
    frame = conform(found, "documents")
    absent = {
        name: pd.Series(pd.NA, index=frame.index, dtype=dtype)
        for name, dtype in (
            ("version_key", "str"),
            ("effective_timestamp", "Int64"),
            ("superseded_by", "str"),
        )
        if name not in frame
    }
    return frame.assign(**absent)


def _of_run(versions: pd.DataFrame, run: str | None) -> pd.DataFrame:
    """The documents that hold for a run: its own, and those of no run in particular."""
    mine = (
        versions
        if run is None
        else versions[versions["run_id"].isna() | (versions["run_id"].astype("str") == run)]
    )
    rows = mine[["doc_id", "version_key", "effective_timestamp", "superseded_by"]].drop_duplicates()
    if (twice := rows.duplicated("doc_id")).any():
        raise DataError(
            f"{rows.loc[twice, 'doc_id'].iloc[0]} stands there twice",
            field="documents.doc_id",
            allowed="one row per document",
        )
    return rows


def _replacements(documents: pd.DataFrame) -> pd.DataFrame:
    """Per document: its version_key, what replaces it (NA = nothing) and why."""
    dated = documents.dropna(subset=["version_key", "effective_timestamp"]).sort_values(
        "effective_timestamp", ascending=False, kind="stable"
    )
    newest = dated.drop_duplicates("version_key")[["version_key", "doc_id", "effective_timestamp"]]
    rows = documents.merge(
        newest.rename(columns={"doc_id": "newest", "effective_timestamp": "latest"}),
        on="version_key",
        how="left",
    )
    is_older = (rows["effective_timestamp"] < rows["latest"]).fillna(False).astype(bool)
    named = rows["superseded_by"].mask(rows["superseded_by"] == rows["doc_id"])
    reason = pd.Series(
        np.select([named.notna(), is_older], ["superseded", "newer version"], ""), dtype="str"
    )
    replaced_by = named.fillna(rows["newest"].where(is_older))
    return pd.DataFrame(
        {
            "doc_id": rows["doc_id"],
            "version_key": rows["version_key"],
            "replaced_by": replaced_by,
            "reason": reason.mask(reason == ""),
        }
    )


def _joined(hits: pd.DataFrame, replacements: pd.DataFrame) -> pd.DataFrame:
    rows = hits.merge(replacements.assign(known=True), on="doc_id", how="left")
    keyed = rows.dropna(subset=["version_key"])
    versions = (
        keyed.drop_duplicates(["run_id", "query_id", "version_key", "doc_id"])
        .groupby(["run_id", "query_id", "version_key"], observed=True)
        .size()
    )
    several = (
        versions[versions > 1]
        .rename("n_versions")
        .reset_index()[["run_id", "query_id", "version_key"]]
        .assign(conflicting=True)
    )
    marked = rows.merge(several, on=["run_id", "query_id", "version_key"], how="left")
    return marked.assign(known=marked["known"].notna(), conflicting=marked["conflicting"].notna())
