"""Freshness of hits: outdated documents, and versions of one thing side by side.

In: `Results` and the documents frame (`rs.io.load_documents`). Out: `Freshness`: one row per hit,
per query (as metric columns), per run.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.codes import response_of
from ragscore.frames.data import DataError, Results, conform, empty
from ragscore.frames.errors import check_whole, name_list, warn

VERSIONS = {"version_key": "str", "effective_timestamp": "Int64", "superseded_by": "str"}
KEYS = ["run_id", "query_id"]


@dataclass(frozen=True, repr=False, eq=False)
class Freshness(FramesResult):
    """Outdated documents and conflicting versions among the first k hits of every query.

    A hit is stale if another document supersedes its document, or if another with the same
    version_key has a later effective_timestamp. Two or more documents of one version_key among the
    hits are in conflict; chunks of one document are not.

    Attributes
    ----------
    summary
        One row per run: `n_queries` measured, `considered` hits; `stale_rate` and `conflict_rate`,
        shares of all these hits; `stale_query_rate` and `conflict_query_rate`, shares of queries
        with at least one (0 to 1, lower is better; NaN without a documents frame); `unknown_rate`,
        the share of hits whose document the frame lacks, which count as fresh. `n_marked` hits
        that the system itself called stale or not (`hits.stale`); `marked_stale_rate` and
        `marked_stale_query_rate`, the shares of them and of their queries that it called stale.
    per_query
        One row per response: `considered` hits; `n_stale`, `n_conflicting` and `n_unknown` of them
        (unknown: the documents frame lacks the document, and the hit counts as fresh);
        `freshness.stale_free_rate@k` and `freshness.conflict_free_rate@k`, 1 - their share (0 to 1,
        higher is better; NaN without hits), which become metrics as the example shows.
    stale_hits
        One row per stale hit: run_id, query_id, rank, doc_id; `replaced_by`, the document named as
        its successor, else the newest of its version_key; `reason` ("superseded" or "newer
        version").
    conflicts
        One row per hit that is beside another version of the same thing: run_id, query_id,
        `version_key`, rank, doc_id; the versions of one key together, keys in the order of their
        first hit.
    k
        Hits of rank ≤ k are considered.
    """

    summary: pd.DataFrame
    per_query: pd.DataFrame
    stale_hits: pd.DataFrame
    conflicts: pd.DataFrame
    k: int

    def _heading(self) -> str:
        return f"Freshness of the first {self.k} hits"


def freshness(
    results: Results,
    documents: pd.DataFrame | None = None,
    k: int = 10,
    *,
    empty_value: float = np.nan,
) -> Freshness:
    """Return how many of the first k hits are outdated, or are beside another version.

    Parameters
    ----------
    documents
        The documents frame (`rs.io.load_documents`); by default the results' own. Without one,
        only the systems' own marks are counted.
    k
        Hits of rank ≤ k are considered.
    empty_value
        The value of a query without hits.

    Raises
    ------
    DataError
        There is neither a documents frame nor a hit marked stale or not; a document is there twice
        for one run; the hits have no doc_id; k < 1.

    Warns
    -----
    UserWarning
        The documents frame has no document of any hit.

    Examples
    --------
    >>> fresh = rs.extras.freshness(results, rs.io.load_documents("versions.jsonl"))
    >>> rate = "freshness.stale_free_rate@10"
    >>> ev.with_columns(fresh.per_query, rate).summary(rate)
    """
    check_whole(k, "k")
    if "doc_id" not in results.hits:
        raise DataError(
            "the hits have no doc_id", field="hits.doc_id", allowed="hits that name their documents"
        )
    documents = results.documents if documents is None else documents
    own = results.hits[results.hits["rank"] <= k]
    marks = own.get("stale", pd.Series(pd.NA, index=own.index)).astype("Float64")
    if documents is None and marks.isna().all():
        raise DataError(
            "there is no documents frame, and no hit says whether it is stale", field="documents",
            allowed="documents=rs.io.load_documents(path), or Results(..., documents=frame)",
        )  # fmt: skip
    runs = results.runs["run_id"].astype("str").tolist()
    known = empty("documents") if documents is None else conform(documents, "documents")
    hits = _with_versions(own.sort_values([*KEYS, "rank"], kind="stable"), known, runs)
    if documents is not None and len(hits) and not hits["known"].any():  # ids of another kind
        found, listed = (
            name_list(frame["doc_id"].dropna().unique()[:3]) for frame in (hits, documents)
        )
        warn(
            "the documents frame names no document of any hit, so no hit can be stale: hits are of"
            f" {found}, the frame has {listed}"
        )
    responses, is_stale = results.responses.reset_index(drop=True), hits["replaced_by"].notna()
    flags = pd.DataFrame({
        "considered": True, "n_stale": is_stale, "n_conflicting": hits["conflicting"],
        "n_unknown": ~hits["known"],
    })  # fmt: skip
    counts = flags.groupby(response_of(hits, responses)).sum()
    counts = counts.reindex(responses.index, fill_value=0).astype("int64")
    rates = {
        f"freshness.{name}_rate@{k}": np.nan
        if documents is None
        else (1 - counts[count] / counts["considered"]).fillna(empty_value)
        for name, count in (("stale_free", "n_stale"), ("conflict_free", "n_conflicting"))
    }
    per_query = pd.concat([responses[KEYS].astype({"run_id": "str"}), counts], axis=1)
    per_query = per_query.assign(**rates)
    beside = hits[hits["conflicting"]]
    first = beside.groupby([*KEYS, "version_key"], observed=True)["rank"].transform("min")
    stale = hits.loc[is_stale, [*KEYS, "rank", "doc_id", "replaced_by", "reason"]]
    order = [*KEYS, "first", "rank"]
    beside = beside.assign(first=first).sort_values(order, kind="stable", ignore_index=True)
    return Freshness(
        _summary(per_query, own[KEYS].assign(stale=marks), runs), per_query,
        stale.reset_index(drop=True), beside[[*KEYS, "version_key", "rank", "doc_id"]], k,
    )  # fmt: skip


def _summary(per_query: pd.DataFrame, marks: pd.DataFrame, runs: list[str]) -> pd.DataFrame:
    """Return the rates of each run, and how often it marked its own hits as stale."""
    rows = per_query[per_query.iloc[:, -1].notna()]  # with hits, and documents to measure them by
    rows = rows.assign(any_stale=rows["n_stale"] > 0, any_conflict=rows["n_conflicting"] > 0)
    of_run = rows.groupby("run_id")
    counted = ["considered", "n_stale", "n_conflicting", "n_unknown"]
    counts = of_run[counted].sum().reindex(runs, fill_value=0)
    shares = counts.div(counts["considered"].replace(0, np.nan), axis=0)
    of_query = of_run[["any_stale", "any_conflict"]].mean().reindex(runs)
    marks = marks.astype({"run_id": "str"}).dropna()
    by_query = marks.groupby(KEYS)["stale"].max().groupby("run_id").mean()
    by_run = marks.groupby("run_id")["stale"]
    return pd.DataFrame({
        "n_queries": of_run.size().reindex(runs, fill_value=0),
        "considered": counts["considered"], "stale_rate": shares["n_stale"],
        "stale_query_rate": of_query["any_stale"], "conflict_rate": shares["n_conflicting"],
        "conflict_query_rate": of_query["any_conflict"], "unknown_rate": shares["n_unknown"],
        "n_marked": by_run.size().reindex(runs, fill_value=0),
        "marked_stale_rate": by_run.mean().astype("float64"),
        "marked_stale_query_rate": by_query.astype("float64"),
    }, index=pd.Index(runs, name="run_id")).reset_index()  # fmt: skip


def _with_versions(hits: pd.DataFrame, versions: pd.DataFrame, runs: list[str]) -> pd.DataFrame:
    """Return the hits with what the documents frame knows of each.

    Columns: known, version_key, replaced_by, reason, conflicting. A run has its own documents, and
    those without a run.
    """
    dtypes = {"run_id": "str", **VERSIONS}
    versions = versions.reindex(columns=["doc_id", *dtypes]).astype(dtypes)
    shared, own = versions[versions["run_id"].isna()], versions.dropna(subset=["run_id"])
    of_runs = [shared.assign(run_id=run_id) for run_id in runs]
    versions = pd.concat([own, *of_runs]).drop_duplicates().rename(columns={"run_id": "owner"})
    hits = hits[[*KEYS, "rank", "doc_id"]].assign(owner=hits["run_id"].astype("str"))
    if (repeated := versions.duplicated(["owner", "doc_id"])).any():
        raise DataError(
            f"{versions.loc[repeated, 'doc_id'].iloc[0]} occurs twice",
            field="documents.doc_id", allowed="one row per document",
        )  # fmt: skip
    dated = versions.dropna(subset=["version_key", "effective_timestamp"]).sort_values(
        "effective_timestamp", ascending=False, kind="stable"
    )
    newest = dated.drop_duplicates(["owner", "version_key"]).rename(
        columns={"doc_id": "newest", "effective_timestamp": "latest"}
    )
    rows = versions.merge(
        newest.drop(columns="superseded_by"), on=["owner", "version_key"], how="left"
    )
    is_older = (rows["effective_timestamp"] < rows["latest"]).fillna(False).astype(bool)
    named = rows["superseded_by"].mask(rows["superseded_by"] == rows["doc_id"])
    reason = pd.Series(pd.NA, index=rows.index, dtype="str").mask(is_older, "newer version")
    replaced = rows[["owner", "doc_id", "version_key"]].assign(
        replaced_by=named.fillna(rows["newest"].where(is_older)),
        reason=reason.mask(named.notna(), "superseded"), known=True,
    )  # fmt: skip
    found = hits.merge(replaced, on=["owner", "doc_id"], how="left")
    of_key = found.groupby([*KEYS, "version_key"], observed=True)["doc_id"]
    return found.assign(known=found["known"].notna(), conflicting=of_key.transform("nunique") > 1)
