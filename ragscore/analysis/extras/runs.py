"""What the records of runs say beside scores: config keys that vary, the index, traces."""

from typing import Any

import pandas as pd

from ragscore.analysis.comparison.align import align
from ragscore.frames.data import DataError, Results
from ragscore.frames.kinds import flat, parsed


def indexed_types(results: Results) -> pd.DataFrame:
    """Return by type of document how many documents have a chunk in the index of each run.

    Known from the chunk catalogue `results.chunks`; `results.documents` adds the documents without
    a chunk.

    Returns
    -------
    One row per run and `doc_type` (from `results.documents` first, then from the catalogue, then
    the ending of the path): `n_docs`, `n_embedded` chunks; `n_without_chunks` documents, and
    `coverage`, the share that has a chunk (NaN where no documents are listed).
    """
    chunks, known = _listed(results.chunks, results), _listed(results.documents, results)
    # A chunk without doc_id belongs to the document of its path, and is of that document's type.
    by_path = known.dropna(subset=["path"]).drop_duplicates(["run_id", "path"])
    chunks = chunks.merge(
        by_path[["run_id", "path", "document"]],
        on=["run_id", "path"],
        how="left",
        suffixes=("", "_known"),
    )
    has_no_id = chunks["document"].eq(chunks["path"])
    chunks["document"] = chunks["document"].mask(
        has_no_id, chunks["document_known"].fillna(chunks["document"])
    )
    types = known.dropna(subset=["document"]).drop_duplicates(["run_id", "document"])
    rows = chunks.merge(
        types[["run_id", "document", "doc_type"]],
        on=["run_id", "document"],
        how="outer",  # documents without a chunk, too
        suffixes=("_own", ""),
        indicator=True,
    )
    has_chunk = rows["_merge"].ne("right_only").to_numpy()
    rows = rows.assign(
        doc_type=rows["doc_type"].fillna(rows["doc_type_own"]).fillna("(none)"),
        n_embedded=has_chunk.astype("float64"),
        without=(~has_chunk).astype("float64"),
    )
    table = rows.groupby(["run_id", "doc_type"]).agg(
        n_docs=("document", "nunique"),
        n_without_chunks=("without", "sum"),
        n_embedded=("n_embedded", "sum"),
    )
    table = table.astype("float64").reset_index()
    table["n_without_chunks"] = table["n_without_chunks"].where(
        table["run_id"].isin(known["run_id"])
    )
    return table.assign(
        coverage=1 - table["n_without_chunks"] / table["n_docs"].where(table["n_docs"] > 0)
    )


def _listed(frame: pd.DataFrame | None, results: Results) -> pd.DataFrame:
    """Return run_id, document, path and doc_type of each run's chunks or documents.

    Those without a run belong to every run.
    """
    frame = pd.DataFrame() if frame is None else frame
    unknown = pd.Series(pd.NA, index=frame.index, dtype="str")
    path = frame.get("path", unknown)
    ending = path.astype("str").str.extract(r"\.(\w+)$")[0].str.lower()
    listed = pd.DataFrame(
        {
            "run_id": frame.get("run_id", unknown).astype("str"),
            "document": frame.get("doc_id", path).fillna(path),
            "path": path,
            "doc_type": frame.get("doc_type", unknown).fillna(ending),
        }
    )
    shared = listed[listed["run_id"].isna()].drop(columns="run_id")
    of_runs = [
        shared.assign(run_id=str(run_id)) for run_id in results.runs["run_id"] if len(shared)
    ]
    return pd.concat([listed.dropna(subset=["run_id"]), *of_runs], ignore_index=True)


def traces(results: Results) -> pd.DataFrame:
    """Return what was read of the traces of each run.

    What was left out, and the argument that would take it, is in `results.problems`.

    Returns
    -------
    One row per run: `n_traces`, of which `n_turns` belong to `n_sessions`; their `n_spans`, of
    which `n_orphans` name a parent that is not there; `n_calls`, of which `n_empty` returned
    nothing, and `n_documents` that the others returned; traces without a question
    (`n_without_query`) and without a call (`n_without_calls`).

    Raises
    ------
    DataError
        The results are not of traces.

    Examples
    --------
    >>> traces(rs.load_results("spans.jsonl"))
    """
    responses = results.responses
    if "x_n_spans" not in responses:
        raise DataError("no traces", field="responses", allowed="results read from spans of traces")
    columns = ["run_id", "query_id", "query", "conversation", "turn", "x_n_spans", "x_n_orphans"]
    of_run = responses.reindex(columns=columns).groupby("run_id", observed=False)
    calls = pd.DataFrame(columns=["run_id", "query_id", "n_hits"])
    if results.calls is not None:
        calls = results.calls[calls.columns].assign(run_id=results.calls["run_id"].astype("str"))
    calls = calls.assign(is_empty=calls["n_hits"].eq(0))
    searched = calls.groupby("run_id")
    table = pd.DataFrame(
        {
            "n_traces": of_run.size(), "n_sessions": of_run["conversation"].nunique(),
            "n_turns": of_run["turn"].count(), "n_spans": of_run["x_n_spans"].sum(),
            "n_orphans": of_run["x_n_orphans"].sum(), "n_calls": searched.size(),
            "n_empty": searched["is_empty"].sum(), "n_documents": searched["n_hits"].sum(),
            "n_without_query": of_run.size() - of_run["query"].count(),
            "n_without_calls": of_run.size() - searched["query_id"].nunique(),
        },
        index=of_run.size().index,
    )  # fmt: skip
    return (
        table.fillna({"n_without_calls": table["n_traces"]}).fillna(0).astype("int64").reset_index()
    )


# columns of the runs frame that say how a run was made, and by which labels it was scored
OF_RUNS = ("k", "chunker_version", "golden_hash")


def config_effects(ev: Any, metrics: list[str] | str | None = None) -> pd.DataFrame:
    """Return the config keys that vary between runs, beside the means of metrics.

    Only two runs that differ in one key alone show its effect: compare them.

    Parameters
    ----------
    metrics
        Labels, or one; by default the primary metrics.

    Returns
    -------
    One row per run: each key's value, nested keys dotted (numbers where all are numbers; NA:
    null, or the run doesn't have the key), and each metric's mean.

    Raises
    ------
    DataError
        No run has a config; an unknown metric.

    Examples
    --------
    >>> rs.extras.config_effects(ev, "mrr@10")
    """
    scores, chosen = ev._scored(list(ev.primary) if metrics is None else metrics)
    aligned, runs = align(scores, chosen, declared=ev._declared), ev.results.runs
    if "config" not in runs:
        raise DataError("no config", field="runs", allowed="a frame of runs with the column config")
    own = runs.set_index(runs["run_id"].astype("str")).reindex(aligned.run_ids)
    table = pd.DataFrame(map(flat, map(parsed, own["config"])), index=own.index, dtype="object")
    table = table.join(own[[name for name in OF_RUNS if name in own and name not in table]])
    known = table[own["config"].notna()].map(repr)  # 5 and "5" are two values
    varies = [name for name in table if known[name].nunique() > 1]
    means = pd.DataFrame({one: aligned.frame(one).mean() for one in aligned.run_ids}).T
    return table[varies].convert_dtypes().join(means).rename_axis("run_id").reset_index()
