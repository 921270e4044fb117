"""Operational figures of a run: errors, cost, index, multi-hop answers.

In: `Results`; the functions are methods of it. Out: figures per run that are not means of a
per-query column.
"""

import json

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.scoring.rows import Rows

COVERAGE = "x_indexing_coverage."
SKIPPED = "chunks_skipped_reasons."
ALL_TYPES, NO_TYPE = "(all)", "(none)"


def errors(results: Results, golden: Golden | None = None) -> pd.DataFrame:
    """Count errors, time-outs and empty responses of each run, and add up tokens and cost.

    Parameters
    ----------
    golden
        With it, queries without a response are counted, whatever the reason.

    Returns
    -------
    One row per run: `n` responses, of them `n_failed`, `n_timeout` and
    `n_empty_response` (a blank answer without a stated refusal); `error_rate` and `timeout_rate`,
    of all responses; `empty_response_rate`, of those that were answered (not failed, with an answer
    field); with a golden set `n_missing` queries without a response and `missing_rate`, of all
    queries. Rates are 0 to 1, lower is better, NaN where there is nothing to divide by. Totals,
    NaN if never recorded: `prompt_tokens`, `completion_tokens`, `cost_usd` of the answers,
    `judge_tokens`, `judge_cost_usd` of the judges.

    Examples
    --------
    >>> results.errors(golden)[["run_id", "n", "n_failed", "n_missing"]]
    """
    check_type(results, Results, "results")
    responses = results.responses
    run, failed = responses["run_id"], responses["error"].notna()
    unknown = pd.Series(np.nan, index=responses.index)
    answer = responses.get("answer", unknown).astype("str")
    refused = responses.get("refused", unknown).astype("boolean").fillna(False).astype(bool)
    answered = answer.notna() & ~failed
    flags = pd.DataFrame(
        {
            "n": True,
            "n_failed": failed,
            "n_timeout": Rows.of_responses(results).values("timeout"),
            "n_empty_response": answered & (answer.str.strip() == "") & ~refused,
            "answered": answered,
        },
        index=responses.index,
    )
    table = flags.astype("int64").groupby(run, observed=False).sum()
    n_answered = table.pop("answered")
    table = table.assign(
        error_rate=table["n_failed"] / table["n"],
        timeout_rate=table["n_timeout"] / table["n"],
        empty_response_rate=table["n_empty_response"] / n_answered,
    )
    if golden is not None:
        check_type(golden, Golden, "golden")
        known = responses["query_id"].isin(golden.queries["query_id"])
        table["n_missing"] = len(golden.queries) - known.groupby(run, observed=False).sum()
        table["missing_rate"] = table["n_missing"] / len(golden.queries)
    for name in ("prompt_tokens", "completion_tokens", "cost_usd"):
        table[name] = _total(responses, name)
    judgments = results.judgments if results.judgments is not None else responses.iloc[:0]
    for name in ("tokens", "cost_usd"):
        table[f"judge_{name}"] = _total(judgments, name).reindex(table.index)
    return table.reset_index()


def _total(frame: pd.DataFrame, column: str) -> pd.Series:
    values = frame.get(column, pd.Series(np.nan, index=frame.index)).astype("float64")
    order = np.argsort(values.to_numpy(), kind="stable")  # sums don't depend on the order of rows
    return values.iloc[order].groupby(frame["run_id"].iloc[order], observed=False).sum(min_count=1)


def indexing(results: Results) -> pd.DataFrame:
    """Return how the index of each run was built, by type of document.

    The figures come from the record of indexing in the responses (`x_indexing_coverage.*`; the last
    one of a run stands), and from the chunk catalogue `results.chunks` where there is one.
    `results.documents` adds the documents without chunks.

    Returns
    -------
    One row per run and `doc_type`: "(all)" holds the record, the others are the types of the
    catalogue (that of `results.documents` first, then its own `doc_type`, then the ending of the
    path). `n_docs` processed and `n_without_chunks`; `coverage`, the share of documents that have a
    chunk (0 to 1, higher is better); `n_attempted`, `n_embedded` and `n_skipped` chunks,
    `skipped_rate`; `reasons` for skipping (JSON); `tokens_min`, `tokens_mean`, `tokens_p95`,
    `tokens_max` of a chunk; `chunker_version`, `index_version`. By type there are `n_docs` and
    `n_embedded`, and with `results.documents` also `n_without_chunks` and `coverage`: the catalogue
    alone knows only documents that have a chunk.

    Raises
    ------
    DataError
        There is neither a record nor a catalogue.

    Examples
    --------
    >>> from dataclasses import replace
    >>> chunks = results.hits[["chunk_id", "doc_id", "path"]].drop_duplicates("chunk_id")
    >>> replace(results, chunks=chunks).indexing()[["run_id", "doc_type", "n_docs"]]
    """
    check_type(results, Results, "results")
    recorded = [name for name in map(str, results.responses.columns) if name.startswith(COVERAGE)]
    if not recorded and results.chunks is None:
        raise DataError(
            "no record of indexing and no chunk catalogue",
            field="results",
            allowed="indexing_coverage in the responses, or chunks",
        )
    parts = [_from_record(results, recorded)] if recorded else []
    parts += [_from_catalogue(results)] if results.chunks is not None else []
    table = pd.concat(parts, ignore_index=True)
    order = pd.Categorical(
        table["run_id"].astype("str"), categories=results.runs["run_id"].astype("str").tolist()
    )
    places = np.lexsort((table["doc_type"] != ALL_TYPES, order.codes))
    return table.iloc[places].reset_index(drop=True)


def _from_record(results: Results, columns: list[str]) -> pd.DataFrame:
    """One row per run, from the last record of indexing among its responses."""
    last = results.responses[["run_id", *columns]].groupby("run_id", observed=False).last()
    record = last.rename(columns=lambda name: name.removeprefix(COVERAGE))
    unknown = pd.Series(np.nan, index=record.index)

    def number(name: str) -> pd.Series:
        return record.get(name, unknown).astype("float64")

    # why chunks were skipped, as JSON {reason: count}
    columns = [name for name in map(str, record.columns) if name.startswith(SKIPPED)]
    names = {name: name.removeprefix(SKIPPED).removesuffix(".json") for name in columns}
    counts = [
        {names[str(name)]: n for name, n in row.items() if not pd.isna(n)}
        for row in record[columns].to_dict("records")  # one row per run
    ]
    texts = [json.dumps(row, ensure_ascii=False, default=str) if row else None for row in counts]
    table = {
        "doc_type": ALL_TYPES,
        "n_docs": number("docs_processed"),
        "n_without_chunks": number("docs_with_0_chunks"),
        "coverage": 1 - number("docs_with_0_chunks") / number("docs_processed"),
        "n_attempted": number("chunks_attempted"),
        "n_embedded": number("chunks_embedded"),
        "n_skipped": number("chunks_skipped"),
        "skipped_rate": number("chunks_skipped") / number("chunks_attempted"),
        "reasons": pd.Series(texts, index=record.index, dtype="str"),
    }
    for name in ("min", "mean", "p95", "max"):
        table[f"tokens_{name}"] = number(f"chunk_token_stats.{name}")
    for name in ("chunker_version", "index_version"):
        table[name] = record.get(name, unknown).astype("str")
    return pd.DataFrame(table).rename_axis("run_id").reset_index().astype({"run_id": "str"})


def _from_catalogue(results: Results) -> pd.DataFrame:
    """One row per run and type of document, from the catalogue of its chunks."""
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
        doc_type=rows["doc_type"].fillna(rows["doc_type_own"]).fillna(NO_TYPE),
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
    >>> rs.load_results("spans.jsonl").traces()
    """
    responses = results.responses
    if "x_n_spans" not in responses:
        raise DataError("no traces", field="responses", allowed="results that were read of spans")
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
    without = {"n_without_calls": table["n_traces"]}
    return table.fillna(without).fillna(0).astype("int64").reset_index()


def hops_summary(results: Results) -> pd.DataFrame:
    """Return the figures of each run's multi-hop answers.

    Returns
    -------
    One row per run: `n_queries` with hops and their `share` of all responses; `hops_mean`,
    `hops_max` per query; `n_forced` searches that a limit ended, and `forced_rate` of those that
    say (0 to 1, lower is better); `query_ms_p50`, `query_ms_p95`, time in the model per query in ms
    (a recorded 0: nothing was timed). NaN where no step says. A run without hops has n = 0.

    Raises
    ------
    DataError
        The results hold no hops.

    Examples
    --------
    >>> from dataclasses import replace
    >>> steps = results.responses[["run_id", "query_id"]].assign(call=1, kind="search")
    >>> replace(results, calls=steps).hops_summary()[["run_id", "n_queries", "hops_mean"]]
    """
    if results.hops is None:
        raise DataError(
            "these results hold no calls",
            field="results.calls",
            allowed="a run whose answers have `hops`, a trace, or Results(..., calls=frame)",
        )
    hops = results.hops.reindex(columns=["run_id", "query_id", "llm_call_ms", "forced_stop"])
    hops = hops.astype({"forced_stop": "boolean"}).astype({"forced_stop": "Float64"})
    ms = hops["llm_call_ms"].astype("Float64").astype("float64")
    hops = hops.assign(ms=ms.mask(ms == 0))
    steps = hops.groupby(["run_id", "query_id"], observed=True, sort=False)
    queries = pd.DataFrame(
        {
            "n_hops": steps.size(),
            "forced": steps["forced_stop"].max().astype("float64"),
            "ms": steps["ms"].sum(min_count=1).astype("float64"),
        }
    )
    grouped = queries.groupby("run_id", observed=False)
    n_queries, n_responses = grouped.size(), results.responses["run_id"].value_counts()
    return pd.DataFrame(
        {
            "n_queries": n_queries,
            "share": n_queries.div(n_responses.reindex(n_queries.index)),
            "hops_mean": grouped["n_hops"].mean(),
            "hops_max": grouped["n_hops"].max().astype("Int64"),
            "n_forced": grouped["forced"].sum().astype("int64"),
            "forced_rate": grouped["forced"].mean(),
            "query_ms_p50": grouped["ms"].quantile(0.5),
            "query_ms_p95": grouped["ms"].quantile(0.95),
        }
    ).reset_index()
