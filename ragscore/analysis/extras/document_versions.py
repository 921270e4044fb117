"""Freshness of hits: outdated documents, and versions of one thing side by side.

In: `Results` and the documents frame (`rs.io.load_documents`). Out: `Freshness`: one row per hit,
per query (as metric columns), per run.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.codes import response_of
from ragscore.frames.data import DataError, Results, conform, empty
from ragscore.frames.errors import name_list, warn

PREFIX = "freshness"
VERSIONS = {"version_key": "str", "effective_timestamp": "Int64", "superseded_by": "str"}


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
        One row per hit that stands beside another version of the same thing: run_id, query_id,
        `version_key`, rank, doc_id; the versions of one key together, keys in the order of their
        first hit.
    k
        Hits of rank ≤ k are considered.
    """

    FRAMES = ("summary", "per_query", "stale_hits", "conflicts")

    per_query: pd.DataFrame
    k: int
    _hits: pd.DataFrame = field(repr=False)
    _marks: pd.DataFrame = field(repr=False)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The rates of each run."""
        rows = self.per_query.astype({"run_id": self._marks["run_id"].dtype})
        rows = rows[rows[f"{PREFIX}.stale_free_rate@{self.k}"].notna()]
        grouped = rows.assign(
            any_stale=rows["n_stale"] > 0, any_conflict=rows["n_conflicting"] > 0
        ).groupby("run_id", observed=False)
        considered, n_stale, n_conflicting = (
            grouped[name].sum() for name in ("considered", "n_stale", "n_conflicting")
        )
        n_hits = considered.astype("float64").replace(0.0, np.nan)
        table = pd.DataFrame(
            {
                "n_queries": grouped.size(),
                "considered": considered,
                "stale_rate": n_stale.astype("float64") / n_hits,
                "stale_query_rate": grouped["any_stale"].mean(),
                "conflict_rate": n_conflicting.astype("float64") / n_hits,
                "conflict_query_rate": grouped["any_conflict"].mean(),
                "unknown_rate": grouped["n_unknown"].sum().astype("float64") / n_hits,
            }
        )
        # how often systems marked their own hits as stale
        marks = self._marks.astype({"stale": "Float64"}).dropna().astype({"stale": "float64"})
        by_query = marks.groupby(["run_id", "query_id"], observed=True)["stale"].max().reset_index()
        by_run = marks.groupby("run_id", observed=False)["stale"]
        table = table.assign(
            n_marked=by_run.size(),
            marked_stale_rate=by_run.mean(),
            marked_stale_query_rate=by_query.groupby("run_id", observed=False)["stale"].mean(),
        )
        return table.reset_index().astype({"run_id": "str"})

    @cached_property
    def stale_hits(self) -> pd.DataFrame:
        """The stale hits and what replaces them."""
        columns = ["run_id", "query_id", "rank", "doc_id", "replaced_by", "reason"]
        return self._hits.loc[self._hits["replaced_by"].notna(), columns].reset_index(drop=True)

    @cached_property
    def conflicts(self) -> pd.DataFrame:
        """The hits that stand beside another version of the same thing."""
        keys = ["run_id", "query_id"]
        rows = self._hits[self._hits["conflicting"]]
        first = rows.groupby([*keys, "version_key"], observed=True)["rank"].transform("min")
        return rows.assign(first=first).sort_values(
            [*keys, "first", "rank"], kind="stable", ignore_index=True
        )[[*keys, "version_key", "rank", "doc_id"]]

    def _heading(self) -> str:
        return f"Freshness of the first {self.k} hits"


def freshness(
    results: Results,
    documents: pd.DataFrame | None = None,
    k: int = 10,
    *,
    empty_value: float = np.nan,
) -> Freshness:
    """Return how many of the first k hits are outdated, or stand beside another version.

    Parameters
    ----------
    documents
        The documents frame (`rs.io.load_documents`); by default that of the results. Without one,
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
    >>> ev.with_columns(fresh.per_query, rate, better="higher", range=(0, 1)).summary(rate)
    """
    documents = results.documents if documents is None else documents
    has_versions = documents is not None
    hits = _versioned_hits(results, empty("documents") if documents is None else documents, k)
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
        rate = rate if has_versions else np.full(len(n), np.nan)
        table[f"{PREFIX}.{name}_rate@{k}"] = rate
    own = results.hits[results.hits["rank"] <= k]
    if documents is not None and len(hits) and not hits["known"].any():  # ids of another kind
        found, listed = (
            name_list(frame["doc_id"].dropna().unique()[:3]) for frame in (hits, documents)
        )
        warn(
            "the documents frame has no document of any hit, so that none can be stale: the hits"
            f" have {found}, the documents are {listed}"
        )
    marks = own.get("stale", pd.Series(pd.NA, index=own.index)).astype("boolean")
    if not has_versions and marks.isna().all():
        raise DataError(
            "there is no documents frame, and no hit says whether it is stale",
            field="documents",
            allowed="documents=rs.io.load_documents(path), or Results(..., documents=frame)",
        )
    return Freshness(table, k, hits, own[["run_id", "query_id"]].assign(stale=marks))


def _versioned_hits(results: Results, documents: pd.DataFrame, k: int) -> pd.DataFrame:
    """Return the first k hits with what the documents frame tells about each.

    Columns: known, version_key, replaced_by, reason, conflicting.
    """
    if k < 1:
        raise DataError(f"found {k}", field="k", allowed="whole numbers from 1")
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
